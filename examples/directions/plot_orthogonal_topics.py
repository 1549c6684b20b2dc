"""
Inferring the number of orthogonal topics
=========================================

Can a topic model infer the number of topics? If topics may be similar, a model can always split a
topic into similar parts. ``OrthogonalSphericalAdmixture`` requires orthogonal topics and infers
their number together with the topics. This example applies it to simulated documents, for which the
number is known, and to real texts. It shows how the posterior of the number depends on the number
of documents, and when a fixed number is the better choice.
"""

# %%
# Simulated documents
# -------------------
# The documents are unit vectors in 60 dimensions. Each has a direction near a mixture of six
# orthogonal topics. The directions have von Mises-Fisher distributions with concentration 90: the
# larger the concentration, the closer a document is to its mixture. We chose this much noise so
# that a few documents do not determine the number of topics. With less noise, for example with
# concentration 1,000, twelve of these documents are enough.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer
from sklearn.model_selection import train_test_split

from skmanifold import OrthogonalSphericalAdmixture
from skmanifold.datasets import load_docstrings
from skmanifold.distributions import VonMisesFisher
from skmanifold.inspection import TopicDisplay
from skmanifold.metrics import match_topics

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

n_documents, n_features, n_topics = 100, 60, 6
rng = np.random.default_rng(0)
topics = np.linalg.qr(rng.normal(size=(n_features, n_topics)))[0].T
mixtures = rng.dirichlet(np.full(n_topics, 0.5), n_documents) @ topics
mixtures /= np.linalg.norm(mixtures, axis=1, keepdims=True)
documents = np.concatenate([VonMisesFisher(m, 90.0).sample(1, random_state=rng) for m in mixtures])
cosines = np.sum(documents * mixtures, axis=1)
print(f"Mean cosine of a document with its mixture: {cosines.mean():.2f}")

# %%
# The posterior of the number of topics
# -------------------------------------
# With ``n_components=None``, the default, short runs with different numbers of topics choose the
# initial state. Then the sampler proposes to add, remove, split and merge topics. The proportion of
# passes with *K* topics estimates the posterior probability of *K*. We fit the model to the first
# 8, 12, 25, 50 and 100 documents.

settings = {"thin": 1, "random_state": 0, "n_jobs": 2}
numbers = [8, 12, 25, 50, 100]
models = []
for n in numbers:
    models.append(OrthogonalSphericalAdmixture(max_iter=120, **settings).fit(documents[:n]))
largest = 8
posterior = np.zeros((len(numbers), largest + 1))
for row, model in zip(posterior, models, strict=True):
    row[: len(model.n_components_posterior_)] = model.n_components_posterior_

fig, ax = plt.subplots(figsize=(5.6, 3.8))
image = ax.imshow(posterior[:, 1:], aspect="auto", vmin=0, vmax=1)
ax.axvline(n_topics - 1, color="C1", linestyle="--", label="true number")
ax.set_xticks(range(largest), range(1, largest + 1))
ax.set_yticks(range(len(numbers)), numbers)
ax.set(xlabel="number of topics", ylabel="number of documents")
ax.legend(loc="upper right")
fig.colorbar(image, label="posterior probability")
plt.show()

# %%
# With few documents the model finds fewer topics than there are, because rare topics cannot be
# distinguished from noise. With 50 documents or more, the posterior is concentrated at the true
# number. The topics are also close to the true ones:

match = match_topics(topics, models[-1].components_)
print("Cosine of each true topic with the matched topic:")
print(", ".join(f"{cosine:.3f}" for cosine in match.similarity))

# %%
# Real texts
# ----------
# The texts are docstrings of NumPy, SciPy, scikit-learn and the standard library, as tf-idf vectors
# of the 200 most frequent words. For another corpus replace one line, for example by ``texts =
# fetch_20newsgroups(remove=("headers", "footers", "quotes")).data``.

texts = load_docstrings(max_documents=1200, min_words=40).data
vectorizer = TfidfVectorizer(
    token_pattern=r"\b[a-z]{3,}\b",
    stop_words=[*ENGLISH_STOP_WORDS, "https", "math", "ref"],
    max_df=0.2,
    max_features=200,
    sublinear_tf=True,
)
X = vectorizer.fit_transform(texts)
train, test = train_test_split(X, train_size=150, test_size=300, random_state=0)
print(f"{train.shape[0]} training texts, {test.shape[0]} test texts, {X.shape[1]} words")

# %%
# First we set the number of topics to six. ``TopicDisplay`` shows the words with the largest
# positive and negative entries in each topic, with their 90% credible intervals.

given = OrthogonalSphericalAdmixture(6, max_iter=100, **settings).fit(train)
words = vectorizer.get_feature_names_out()
_ = TopicDisplay.from_estimator(given, feature_names=words, n_words=4, topics=range(6))
plt.show()

# %%
# Orthogonal topics can share words: two topics may both have large entries of a word, if other
# entries differ in sign. A word with a negative entry is less frequent in documents with a large
# proportion of the topic.
#
# The inferred number for texts
# -----------------------------
# Now we infer the number of topics from an increasing number of texts, and compare it with the
# simulated documents. With many topics each proposal to change the number takes longer, so we use
# fewer proposals per pass.

settings |= {"max_iter": 60, "n_size_moves": 2, "n_predictive_draws": 8}
text_numbers = [25, 50, 100, 150]
text_models = [OrthogonalSphericalAdmixture(**settings).fit(train[:n]) for n in text_numbers]

fig, ax = plt.subplots(figsize=(5.6, 3.8))
for name, sizes, fitted, style in (
    ("docstrings", text_numbers, text_models, "o-"),
    ("simulated documents", numbers, models, "s--"),
):
    ax.plot(sizes, [model.n_components_ for model in fitted], style, label=name)
ax.set(xlabel="number of documents", ylabel="inferred number of topics", ylim=(0, None))
ax.set_xscale("log")
ax.set_xticks([*numbers, 150], [*numbers, 150])
ax.minorticks_off()
ax.legend()
plt.show()

# %%
# For simulated documents the number stays at six. For texts it continues to increase. Texts are not
# exact mixtures of a few directions, and with more texts the model finds more of the deviations.
# The inferred number is therefore not a number of subjects.
#
# Which number predicts best?
# ---------------------------
# The score is the mean log density of the test texts, relative to the uniform distribution on the
# sphere, in nats per document.

sizes = [2, 4, 8, 16, 32]
scores = [OrthogonalSphericalAdmixture(k, **settings).fit(train).score(test) for k in sizes]
inferred = text_models[-1]
inferred_score = inferred.score(test)
print("Topics         Score (nats per document)")
for k, score in zip(sizes, scores, strict=True):
    print(f"{k:<13d}  {score:5.1f}")
print(f"{inferred.n_components_} (inferred)  {inferred_score:5.1f}")

# %%
# The figure shows the same scores.

fig, ax = plt.subplots(figsize=(5.6, 3.8))
ax.plot(sizes, scores, "o-", label="given number")
ax.plot(inferred.n_components_, inferred_score, "*", color="C1", markersize=14, label="inferred")
ax.set(xlabel="number of topics", ylabel="test score (nats per document)", ylim=(0, None))
ax.legend(loc="lower right")
plt.show()

# %%
# Here the inferred number is close to the number with the best test score of the numbers compared.
# This agreement depends on the data: with 200 training texts instead of 150, the inferred number is
# larger than the number with the best score. So compare test scores if prediction matters. If the
# topics are to be read, a smaller number can be more useful, although it predicts less well.
