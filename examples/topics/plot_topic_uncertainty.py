"""
Topics with error bars
======================

A topic model answers with numbers: this topic gives that word a probability of two percent. How sure is it? And would
it have found the same topics from another start? We draw a corpus from the model, so that the truth is known, fit it
with four chains of Gibbs sampling, and look.
"""

# %%
# A corpus whose topics are known
# -------------------------------
# Eight topics over two hundred words, six hundred short documents. One fifth of the documents is held out.

import matplotlib.pyplot as plt
import numpy as np

from skmanifold import StochasticLDA
from skmanifold.datasets import make_lda_corpus
from skmanifold.metrics import match_topics

corpus = make_lda_corpus(
    600, 200, 8, mean_length=80, doc_topic_prior=0.2, topic_word_prior=0.1, zipf_exponent=0.0, random_state=4
)
train, test = corpus.data[:480], corpus.data[480:]

# %%
# Four chains
# -----------
# With ``sampler="gibbs"`` the draws in ``posterior_`` are draws from the posterior. ``components_`` is the estimate of
# the best chain; the topics of the others are in an order of their own, and are matched to it to be compared.

settings = {"doc_topic_prior": 0.2, "topic_word_prior": 0.1, "n_chains": 4, "max_iter": 400, "thin": 4}
lda = StochasticLDA(8, sampler="gibbs", random_state=0, n_jobs=2, **settings).fit(train)
print(f"held-out perplexity: {lda.perplexity(test):.1f}; uniform words would be {train.shape[1]}")

# %%
# Are they the truth?
# -------------------
# Each true topic is matched to one that was found. Nine out of ten true probabilities should lie within their 90
# percent credible intervals.

match = match_topics(corpus.components, lda.components_)
low, high = lda.credible_intervals(0.9)[:, match.other]
inside = (low <= corpus.components) & (corpus.components <= high)
print(f"true probabilities within their 90% intervals: {100 * inside.mean():.1f}%")

# %%
# Does every chain find them?
# ---------------------------
# Two topics too many leave the chains something to disagree about: what the surplus holds, or which true topic is split
# in two, differs from chain to chain. A similarity below 0.8 calls such a topic unstable. R-hat tells more: a topic
# whose words agree may still not have settled how much of the corpus it takes.

larger = StochasticLDA(10, sampler="gibbs", random_state=0, n_jobs=2, **settings).fit(train)
reports = {"8 topics": lda.topic_diagnostics(), "10 topics": larger.topic_diagnostics()}
for name, report in reports.items():
    print(f"{name}: {report.is_stable.sum()} found by all four chains; R-hat up to {np.nanmax(report.rhat):.2f}")

# %%
# The picture
# -----------

figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), width_ratios=[1.2, 1.2, 1])
for axis, place in zip(axes[:2], (0, 3), strict=True):
    words = np.argsort(-corpus.components[place])[:15]
    middle = lda.components_[match.other[place], words]
    span = np.abs(np.stack((low[place, words], high[place, words])) - middle)
    axis.errorbar(np.arange(15), middle, span, fmt="o", capsize=3, label="estimate, 90% interval")
    axis.plot(np.arange(15), corpus.components[place, words], "kx", label="truth")
    axis.set(xlabel="its fifteen most probable words", ylabel="probability", title=f"topic {place}", xticks=[])
axes[0].legend()
for colour, (name, report) in enumerate(reports.items()):
    axes[2].scatter(report.similarity, report.rhat, color=f"C{colour}", label=name, alpha=0.8)
axes[2].axvline(0.8, color="grey", linewidth=0.8, linestyle="--")
axes[2].set(xlabel="least similarity to another chain's topic", ylabel="R-hat", yscale="log")
axes[2].set(title="Is a topic stable?")
axes[2].legend()
figure.tight_layout()
plt.show()
