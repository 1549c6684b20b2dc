"""
Spherical topic models: words with positive and negative weight
===============================================================

In latent Dirichlet allocation a topic is a probability distribution, so a word can be frequent or
rare in it, but it cannot have a negative weight. ``SphericalAdmixture`` models rows of tf-idf
values as directions. Its topics are directions too, and their entries have signs. What do the
negative entries mean, and does mixing topics predict new texts better than assigning each text to
one direction? This example fits six topics, plots their entries with credible intervals, and
compares held-out scores with those of mixtures of von Mises-Fisher distributions.
"""

# %%
# Texts
# -----
# The texts are docstrings of four packages; the model does not use the names of the packages. For
# another corpus replace one line, for example by ``corpus = fetch_20newsgroups(remove=("headers",
# "footers", "quotes"))``.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skmanifold import SphericalAdmixture, VonMisesFisherMixture
from skmanifold.datasets import load_docstrings
from skmanifold.inspection import TopicDisplay

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

corpus = load_docstrings(max_documents=1500)
texts, package, packages = corpus.data, corpus.target, corpus.target_names
train, test, _, test_package = train_test_split(texts, package, test_size=0.15, random_state=0)
print(f"{len(train)} training texts, {len(test)} test texts; packages: {', '.join(packages)}")

# %%
# Six topics
# ----------
# The pipeline converts texts to tf-idf values, and these to topic proportions. The fit also learns
# two concentrations: how close documents are to their mixture of topics, and how close topics are
# to their common direction.


def make_model(n_topics, max_iter=60):
    tfidf = TfidfVectorizer(sublinear_tf=True, min_df=10, max_df=0.3, stop_words="english")
    admixture = SphericalAdmixture(
        n_topics,
        max_iter=max_iter,
        thin=1,
        n_predictive_draws=2,
        random_state=0,
        n_jobs=2,
    )
    return make_pipeline(tfidf, admixture)


model = make_model(6, max_iter=400).fit(train)
tfidf, admixture = model
words = tfidf.get_feature_names_out()
print(f"{len(words)} words")
print(f"Concentration of documents: {admixture.document_concentration_:.0f}")
print(f"Concentration of topics:    {admixture.topic_concentration_:.0f}")

# %%
# Positive and negative words
# ---------------------------
# ``TopicDisplay`` shows the largest positive and negative entries of a topic. Bars are posterior
# means, and lines are 90% credible intervals. Successive draws of the topics are similar, so
# intervals need long chains: we have used 400 passes, half of them burn-in. ``credible_intervals``
# warns if there are too few effective draws.

_, ax = plt.subplots(figsize=(5.6, 3.8))
TopicDisplay.from_estimator(admixture, feature_names=words, n_words=6, topics=[3], ax=[ax])
plt.show()

# %%
# The words at the top have large positive weights in this topic, and the words at the bottom have
# negative weights. These are all six topics:

_ = TopicDisplay.from_estimator(admixture, feature_names=words, n_words=4, topics=range(6))
plt.show()

# %%
# The largest positive entries show the subject of a topic. Every document has a small proportion of
# every topic, and therefore of all their words. A negative entry compensates for this: the word is
# less frequent in documents with a large proportion of the topic. Words with negative
# entries are often the main words of another topic.

low, high = admixture.credible_intervals(0.9)
print(f"Entries whose 90% interval is above zero: {np.mean(low > 0):.0%}")
print(f"Entries whose 90% interval is below zero: {np.mean(high < 0):.0%}")

# %%
# Proportions of new documents
# ----------------------------
# ``transform`` computes the proportions of new documents. The figure shows their means over the
# test documents of each package. A topic is named by its three largest entries.

proportions = model.transform(test)
by_package = np.array([proportions[test_package == p].mean(axis=0) for p in range(len(packages))])
names = [", ".join(w for w, _ in topic.positive) for topic in admixture.topic_words(3, words)]

fig, ax = plt.subplots(figsize=(6.4, 3.6))
image = ax.imshow(100 * by_package.T, aspect="auto", vmin=0)
ax.set_xticks(range(len(packages)), packages)
ax.set_yticks(range(len(names)), names)
ax.tick_params(length=0)
fig.colorbar(image, label="mean proportion (%)")
plt.show()

# %%
# The mean proportions of the topics differ between packages, although the fit does not use the
# packages.
#
# Mixed topics or one direction per document?
# -------------------------------------------
# ``VonMisesFisherMixture`` assigns each document to one of several directions. Its components can
# have separate concentrations or share one. The score is the mean log density of the test
# documents, relative to the uniform distribution on the sphere, in nats per document.

X_train, X_test = tfidf.transform(train), tfidf.transform(test)
numbers = [3, 6, 12]
scores = {"admixture": []}
for n in numbers:
    fitted = model if n == 6 else make_model(n).fit(train)
    scores["admixture"].append(fitted.score(test))
for concentration, name in (
    (None, "mixture, separate concentrations"),
    ("shared", "mixture, one concentration"),
):
    settings = {"concentration": concentration, "n_init": 3, "max_iter": 1000, "random_state": 0}
    mixtures = [VonMisesFisherMixture(n, **settings).fit(X_train) for n in numbers]
    scores[name] = [mixture.score(X_test) for mixture in mixtures]
single = VonMisesFisherMixture(1).fit(X_train).score(X_test)

print("Test score (nats per document), by number of topics or components")
print(f"{'':34}" + "".join(f"{n:6d}" for n in numbers))
for name, values in scores.items():
    print(f"{name:<34}" + "".join(f"{value:6.1f}" for value in values))
print(f"{'one component':<34}{single:6.1f}")

# %%
# The figure shows the same scores.

fig, ax = plt.subplots(figsize=(5.6, 3.8))
for (name, values), style in zip(scores.items(), ["o-", "s--", "^:"], strict=True):
    ax.plot(numbers, values, style, label=name)
ax.axhline(single, color="0.5", linestyle="-.", label="one component")
ax.set_xticks(numbers)
ax.set(xlabel="number of topics or components", ylabel="test score (nats per document)")
ax.set_ylim(bottom=0)
ax.legend(loc="lower right")
plt.show()

# %%
# The admixture has one concentration for all documents. Compared with a mixture that also has one
# concentration, its score is higher: mixing topics helps. With separate concentrations the mixture
# reaches a similar score, but in a different way. Some docstrings, for example of related
# functions, are nearly identical, and components with a high concentration represent them well.
