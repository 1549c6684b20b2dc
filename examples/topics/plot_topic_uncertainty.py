"""
Credible intervals and stability of topics
==========================================

How certain are the word probabilities of a topic, and would another run find the same topics? This
example fits a topic model with four chains of Gibbs sampling to a simulated corpus, for which the
true topics are known. It shows how to check convergence, how to compute credible intervals, and how
to find topics that differ between chains.
"""

# %%
# A simulated corpus
# ------------------
# The corpus has eight topics, 200 words and 600 short documents. One fifth of the documents are
# test documents.

import matplotlib.pyplot as plt
import numpy as np

from skmanifold import StochasticLDA
from skmanifold.datasets import make_lda_corpus
from skmanifold.inspection import TopicDisplay, TraceDisplay
from skmanifold.metrics import match_topics

# sphinx_gallery_thumbnail_number = 2
plt.style.use("skmanifold.inspection.skmanifold")

corpus = make_lda_corpus(
    600,
    200,
    8,
    mean_length=80,
    doc_topic_prior=0.2,
    topic_word_prior=0.1,
    zipf_exponent=0.0,
    random_state=4,
)
train, test = corpus.data[:480], corpus.data[480:]
print(f"{train.shape[0]} training documents, {test.shape[0]} test documents")

# %%
# Four chains
# -----------
# The default sampler, ESCA, estimates the topics. ``sampler="gibbs"`` draws from their posterior
# distribution. A chain is one run of the sampler. Each of the four chains has a different random
# initialisation.

settings = {
    "sampler": "gibbs",
    "doc_topic_prior": 0.2,
    "topic_word_prior": 0.1,
    "n_chains": 4,
    "max_iter": 400,
    "thin": 2,
    "random_state": 0,
    "n_jobs": 2,
}
lda = StochasticLDA(8, **settings).fit(train)
print(f"Perplexity of the test documents: {lda.perplexity(test):.0f}")
print(f"Perplexity if all words were equally likely: {train.shape[1]}")

# %%
# ``TraceDisplay`` shows whether the chains have converged: the log likelihood of each pass, R-hat,
# which compares the chains, and the effective sample size.

_ = TraceDisplay.from_estimator(lda)
plt.show()

# %%
# After burn-in (the first half of the passes) all chains have the same level. R-hat is close to 1,
# and the effective sample size grows with the number of draws. There is no sign of a problem with
# convergence.
#
# Credible intervals
# ------------------
# ``components_`` is the estimate of the best chain, the one with the highest mean log density, and
# ``credible_intervals`` uses the draws of that chain. The order of the topics is arbitrary, so
# ``match_topics`` finds the fitted topic for each true topic. ``TopicDisplay`` shows the intervals,
# and we add the true probabilities.

match = match_topics(corpus.components, lda.components_)
true_topic, n_words = 0, 12
fitted_topic = match.other[true_topic]

fig, ax = plt.subplots(figsize=(5.6, 3.8))
names = [f"word {i}" for i in range(train.shape[1])]
TopicDisplay.from_estimator(
    lda,
    feature_names=names,
    n_words=n_words,
    topics=[fitted_topic],
    level=0.9,
    ax=[ax],
)
top = np.argsort(-lda.components_[fitted_topic])[:n_words]
truth = corpus.components[true_topic, top]
ax.plot(truth, np.arange(n_words), "X", color="C1", label="true probability")
ax.legend(loc="lower right")
plt.show()

# %%
# Bars are estimates, lines are 90% credible intervals, and crosses are the true probabilities. Most
# crosses lie on their line. If the model is correct, 90% of all true probabilities should lie in
# their intervals:

low, high = lda.credible_intervals(0.9)[:, match.other]
inside = (low <= corpus.components) & (corpus.components <= high)
print(f"True probabilities in their 90% credible interval: {inside.mean():.1%}")

# %%
# The proportion is close to the nominal 90%.
#
# Stability
# ---------
# What happens if the model has too many topics? We fit ten topics to the same corpus.
# ``topic_diagnostics`` matches the topics of the chains. A topic is stable if each of the other
# chains has a topic with a cosine of at least 0.8. R-hat compares the share of the topic in the
# corpus between the chains.

larger = StochasticLDA(10, **settings).fit(train)
diagnostics = {"8 topics": lda.topic_diagnostics(), "10 topics": larger.topic_diagnostics()}
print("Model      Stable topics  Largest R-hat")
for name, table in diagnostics.items():
    print(f"{name:<9}  {table.is_stable.sum():13d}  {np.nanmax(table.rhat):13.2f}")

# %%
# The next figure shows each topic of both models. The dashed line is the limit of stability.

fig, ax = plt.subplots(figsize=(5.6, 3.8))
for (name, table), marker in zip(diagnostics.items(), "os", strict=True):
    ax.plot(table.similarity, table.rhat, marker, label=name, alpha=0.8)
ax.axvline(0.8, color="0.5", linestyle="--")
ax.set(
    xlabel="smallest cosine with the matched topic of another chain",
    ylabel="R-hat of the share of the topic",
    ylim=(0.8, None),
)
ax.legend()
plt.show()

# %%
# With eight topics every topic is stable and has a small R-hat. With ten topics, two topics are not
# needed. The chains use them in different ways, for example to split a true topic in two, so some
# topics are not stable. Some of the stable topics also have a large R-hat: their words agree
# between chains, but their shares do not. Do not interpret the unstable topics; a smaller number of
# topics is a better choice here.
