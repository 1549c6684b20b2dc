"""
From texts to named topics with error bars
==========================================

Vectors of texts, from latent semantic analysis or from a sentence encoder, have informative
directions: texts on the same subject have a small angle. This example clusters such vectors by a
Dirichlet process mixture of von Mises-Fisher distributions. It names the clusters by their words,
computes membership probabilities of texts, gives credible intervals for the sizes of clusters, and
compares the stability of the result with that of k-means.
"""

# %%
# Texts and vectors
# -----------------
# The texts are docstrings of NumPy, SciPy, scikit-learn and the standard library. Latent semantic
# analysis, which is tf-idf followed by a truncated singular value decomposition, gives each text a
# vector with 30 entries.

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, TfidfVectorizer
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from skmanifold import DPMixture
from skmanifold.datasets import load_docstrings
from skmanifold.distributions import inverse_bessel_ratio
from skmanifold.emissions import VonMisesFisher
from skmanifold.inspection import TopicDisplay, class_words

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

corpus = load_docstrings(max_documents=2000, min_words=40)
excluded = "numpy scipy scikit sklearn python http https www org doi math ref versionadded"
settings = {
    "token_pattern": r"\b[a-z]{3,}\b",
    "stop_words": [*ENGLISH_STOP_WORDS, *excluded.split()],
    "min_df": 5,
    "max_df": 0.2,
}
tfidf = TfidfVectorizer(sublinear_tf=True, **settings)
to_vectors = make_pipeline(tfidf, TruncatedSVD(30, random_state=0))
vectors = to_vectors.fit_transform(corpus.data)
print(f"{vectors.shape[0]} texts, {vectors.shape[1]} columns")

# %%
# For a sentence encoder, only the line of the vectors changes. With the package
# sentence-transformers, for example:
#
# .. code-block:: python
#
#     vectors = SentenceTransformer("all-MiniLM-L6-v2").encode(corpus.data)
#
# Choosing how fine the clusters are
# ----------------------------------
# The concentration of a von Mises-Fisher distribution is large if the cosines of rows with their
# mean direction are close to one. A Dirichlet process with a given concentration finds clusters of
# about this width. Concentrations depend on the number of columns, so we set the mean cosine
# instead, and convert it by `inverse_bessel_ratio`. The last row of the table has a learned
# concentration. Clusters are components here. The last two columns are for merged components: with
# a given concentration one of these clusters is very large.

cosines = (0.3, 0.4, 0.5, 0.6, 0.7)
concentrations = {c: float(inverse_bessel_ratio(vectors.shape[1], c)) for c in cosines}
rows = {}
for cosine, concentration in {**concentrations, "learned": "shared"}.items():
    mixture = DPMixture(VonMisesFisher(concentration), max_iter=100, random_state=0).fit(vectors)
    components = mixture.merge_components("components")
    rows[cosine] = {
        "concentration": components.concentrations_[0],
        "clusters": components.n_components_,
        "largest": np.bincount(components.labels_)[0],
        "merged": mixture.n_components_,
        "largest merged": np.bincount(mixture.labels_)[0],
    }
table = pd.DataFrame(rows).T.rename_axis("mean cosine")
print(table.round().astype(int).to_string())

# %%
# With the learned concentration there are two hundred clusters, and most of them are small.
# Clusters of embeddings are not exactly von Mises-Fisher distributed, and with many texts
# many narrow components fit the density of one subject better than a single wide one. So for
# topics that people read, choose a concentration that gives a readable number of clusters. A fit
# takes about a second. If the concentration is too small, as in the first row, different subjects
# are merged into one large cluster. We use the mean cosine 0.5, and four chains, whose draws are
# combined.

emission = VonMisesFisher(concentrations[0.5])
dp = {"clusters": "components", "n_jobs": 2}
mixture = DPMixture(emission, n_chains=4, random_state=0, **dp).fit(vectors)
memberships = mixture.predict_proba(vectors)
print(f"{mixture.n_components_} clusters. Posterior probabilities of the number of clusters:")
for number, probability in enumerate(mixture.n_components_posterior_):
    if probability >= 0.01:
        print(f"{number:4d}: {probability:.2f}")

# %%
# Names of the clusters
# ---------------------
# Vectors have no words, but the texts have. `class_words` finds the words that are more frequent in
# a cluster than in the others. Bars are posterior medians of the log odds ratio, and lines are 90%
# credible intervals. These are the twelve largest clusters; the percentage is the share of texts.

counter = CountVectorizer(**settings)
counts = counter.fit_transform(corpus.data)
found = class_words(memberships, counts, counter.get_feature_names_out(), n_words=5)
_ = TopicDisplay.from_class_words(found)
plt.show()

# %%
# The words are sorted by how certain it is that they are more frequent in the cluster, so the first
# word need not have the longest bar. The intervals are conditional on the membership probabilities.
# We name each cluster by its first three words.
#
# Membership probabilities of texts
# ---------------------------------
# `predict_proba` gives the probability of each cluster for a text. The figure shows the three most
# probable clusters of four texts. The first two texts are the most typical rows of two clusters.
# The other two are the texts whose membership is divided most evenly between two clusters.

names = [", ".join(words[:3]) for words in found.words]
ranked = np.argsort(-memberships, axis=1)
second = np.sort(memberships, axis=1)[:, -2]
shown = [*mixture.typical_rows_[[2, 3]], *np.argsort(-second)[:2]]

fig, axes = plt.subplots(2, 2, figsize=(9, 3.6), sharex=True)
for text, ax in zip(shown, axes.flat, strict=True):
    best = ranked[text, :3]
    ax.barh([names[k] for k in best], memberships[text, best])
    ax.invert_yaxis()
    path = corpus.names[text].split(".")
    ax.set(xlim=(0, 1), xticks=[0, 0.5, 1], title=f"{path[-1]} ({path[0]})")
    ax.tick_params(axis="y", length=0)
for ax in axes[1]:
    ax.set_xlabel("membership probability")
plt.show()

for text in shown:
    print(f"{corpus.names[text]}: {corpus.data[text].splitlines()[0]}")
uncertain = memberships.max(axis=1) < 0.9
print(f"Texts without a cluster of at least 90% probability: {uncertain.mean():.0%}")

# %%
# A divided membership can mean that a text is on both subjects, or on a subject without a cluster.
# New texts have membership probabilities too:

new = to_vectors.transform(["Draw random numbers from a normal distribution with a given seed."])
probabilities = mixture.predict_proba(new)[0]
for k in np.argsort(-probabilities)[:3]:
    print(f"{probabilities[k]:.2f}  {names[k]}")

# %%
# Sizes of the clusters with error bars
# -------------------------------------
# Each posterior draw is a clustering. `cluster_summary` matches the clusters of each draw to those
# of the point partition ``labels_`` by their common texts, and gives the median and quantiles of
# their sizes.

summary = mixture.cluster_summary().clusters
print(summary.head(3).assign(name=names[:3]).to_string())

fig, ax = plt.subplots(figsize=(7.2, 6.4))
places = np.arange(mixture.n_components_)
low, high = summary["drawn_size_low"], summary["drawn_size_high"]
ax.hlines(places, low, high, color="0.6", label="90% interval")
ax.plot(summary["drawn_size"], places, "o", markersize=4, label="median of the draws")
ax.plot(summary["size"], places, "k|", label="point partition")
ax.set_yticks(places, names, fontsize="small")
ax.tick_params(axis="y", length=0)
ax.invert_yaxis()
ax.set(xlabel="number of texts", xlim=(0, None))
ax.legend(loc="center right")
plt.show()

# %%
# An interval shows how well the texts determine the extent of a cluster, given the concentration. A
# wide interval means that the cluster has no clear boundary: in some draws it is merged with
# another cluster, or it exchanges texts with others. A cluster whose interval contains zero is
# missing in some of the draws, and should not be interpreted.
#
# Do other seeds give the same clusters?
# --------------------------------------
# We repeat the fit with three seeds and compare the labels of all pairs of fits by the adjusted
# Rand index, which is 1 for equal clusterings and about 0 for unrelated ones. K-means gets the same
# number of clusters and rows of unit length, with one or ten initialisations. We also compare the
# labels with the modules of the docstrings, which are a rough reference.

units, module = normalize(vectors), [".".join(name.split(".")[:2]) for name in corpus.module]
methods = {
    "DPMixture, one chain": lambda seed: DPMixture(emission, random_state=seed, **dp),
    "DPMixture, four chains": lambda seed: DPMixture(emission, n_chains=4, random_state=seed, **dp),
    "KMeans, n_init=1": lambda seed: KMeans(mixture.n_components_, random_state=seed),
    "KMeans, n_init=10": lambda seed: KMeans(mixture.n_components_, n_init=10, random_state=seed),
}
rows = {}
for name, method in methods.items():
    fits = [method(seed).fit(units).labels_ for seed in range(3)]
    rows[name] = {
        "between seeds": np.mean([adjusted_rand_score(*pair) for pair in combinations(fits, 2)]),
        "with modules": np.mean([adjusted_mutual_info_score(module, labels) for labels in fits]),
    }
print("Adjusted Rand index between seeds, and adjusted mutual information with modules")
print(pd.DataFrame(rows).T.round(2).to_string())

# %%
# The clusters of `DPMixture` depend less on the seed, because ``labels_`` summarises many draws,
# while a run of k-means ends in one of many local optima. Ten initialisations make k-means more
# stable, and four chains have this effect on `DPMixture`. The agreement with modules is nearly the
# same for all methods. So the advantages of the mixture on these texts are the probabilities, the
# intervals and the stability, not better clusters. K-means is faster, but needs the number of
# clusters, which we took from the mixture.
