"""
Profiles of genes: shapes, not sizes
====================================

Genes that react in the same way to a treatment can differ much in how active they are and in how
strongly they react. Only the shape of their profiles over time is comparable, that is, a direction.
This example simulates profiles of different sizes. It shows that k-means on the raw values finds
sizes, while a Dirichlet process mixture of von Mises-Fisher distributions finds the shapes, their
number, and the genes without shape.
"""

# %%
# Profiles
# --------
# We simulate log expressions at twelve time points. A profile is the level of the gene plus its
# strength of reaction times a shape with errors. There are five shapes, and 200 genes have no
# shape: their profiles consist of a level and errors.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.linalg import helmert
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, roc_auc_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.model_selection import KFold
from sklearn.preprocessing import normalize

from skmanifold import DPMixture
from skmanifold.emissions import VonMisesFisher

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

hours = 2 * np.arange(12)
shapes = {
    "decrease": np.exp(-hours / 6),
    "increase": -np.exp(-hours / 6),
    "peak": np.exp(-0.5 * ((hours - 8) / 3) ** 2),
    "period": np.sin(2 * np.pi * hours / 12),
    "step": 1.0 * (hours > 11),
    "no shape": np.zeros(12),
}
names = list(shapes)
directions = np.array(list(shapes.values()))
directions -= directions.mean(axis=1, keepdims=True)
directions[:5] = normalize(directions[:5])
errors = np.array([0.08, 0.12, 0.16, 0.2, 0.12, 0.3])

rng = np.random.default_rng(0)
shape = np.repeat(np.arange(6), [200, 160, 120, 80, 40, 200])
n = len(shape)
level, strength = rng.normal(8, 2, (n, 1)), rng.lognormal(0, 1, (n, 1))
profiles = directions[shape] + errors[shape, np.newaxis] * rng.normal(size=(n, 12))
expression = level + strength * profiles
print(f"{n} genes, {len(hours)} time points")

# %%
# From profiles to directions
# ---------------------------
# The shape does not depend on the level, so we subtract the mean of each row. Centred rows lie in
# a space with eleven dimensions, and the columns of `helmert` are coordinates of this space. The
# coordinates keep angles: the cosine of two rows is the correlation of their profiles.

to_coordinates = helmert(len(hours)).T
rows = expression @ to_coordinates
cosine = normalize(rows[:1]) @ normalize(rows[1:2]).T
print(f"Cosine of two rows:           {cosine[0, 0]:.3f}")
print(f"Correlation of both profiles: {np.corrcoef(expression[:2])[0, 1]:.3f}")

# %%
# The strength is the length of a row, which a von Mises-Fisher distribution ignores. Each component
# has its own concentration. We do not give the number of clusters.

emission = VonMisesFisher("per_component")
mixture = DPMixture(emission, n_chains=2, random_state=0, n_jobs=2).fit(rows)
print("Posterior probabilities of the number of clusters:")
for number, probability in enumerate(mixture.n_components_posterior_):
    if probability >= 0.01:
        print(f"{number:4d}: {probability:.2f}")

# %%
# How do the clusters of the point partition correspond to the shapes?

counts = contingency_matrix(shape, mixture.labels_)
columns = [f"cluster {k}" for k in range(mixture.n_components_)]
table = pd.DataFrame(counts, index=names, columns=columns).T
table["concentration"] = mixture.concentrations_.round(1)
print(table.to_string())

# %%
# There is one cluster for each shape, and one cluster with a concentration near zero for the genes
# without shape, whose directions are nearly uniform.
#
# The upper row of the figure shows profiles in six clusters that k-means finds in the raw values,
# and the lower row those in the six clusters of the mixture. Black lines are means, and the colours
# show the true shapes.

kmeans = KMeans(6, n_init=10, random_state=0)
raw = kmeans.fit_predict(expression)
raw = np.argsort(np.argsort(kmeans.cluster_centers_.mean(axis=1)))[raw]  # in order of the levels
centred = normalize(rows) @ to_coordinates.T
colors = [*(f"C{i}" for i in range(5)), "0.7"]

fig, axes = plt.subplots(2, 6, figsize=(10, 4.2), sharex=True, sharey="row")
for line, values, labels in zip(axes, (expression, centred), (raw, mixture.labels_), strict=True):
    for k, ax in enumerate(line):
        members = np.flatnonzero(labels == k)
        for i in rng.permutation(members)[:40]:
            ax.plot(hours, values[i], color=colors[shape[i]], linewidth=0.5, alpha=0.7)
        ax.plot(hours, values[members].mean(axis=0), color="black")
        ax.set(title=f"{len(members)} genes", xticks=[0, 8, 16])
axes[0, 0].set_ylabel("k-means, raw values:\nlog expression")
axes[1, 0].set_ylabel("directions:\ncentred, length 1")
for ax in axes[1]:
    ax.set_xlabel("hours")
lines = [plt.Line2D([], [], color=color) for color in colors]
fig.legend(lines, names, loc="outside upper center", ncols=6)
plt.show()

# %%
# K-means on the raw values finds groups of genes with similar levels. Each of them contains nearly
# all shapes. The mixture finds the shapes.
#
# Comparison with k-means
# -----------------------
# We compare the clusters with the true shapes by the adjusted Rand index, which is 1 for equal
# clusterings and about 0 for unrelated ones. K-means gets the true number of six groups.

unit = normalize(rows)
found = {
    "k-means, raw values": raw,
    "k-means, centred rows": kmeans.fit_predict(rows),
    "k-means, centred rows of length 1": kmeans.fit_predict(unit),
    "mixture of directions": mixture.labels_,
}
for method, labels in found.items():
    print(f"{method:<34}{adjusted_rand_score(shape, labels):6.2f}")

# %%
# On centred rows k-means assigns genes with weak reactions, of all shapes, to one cluster. With
# rows of length 1 it also finds shapes, but it assigns more than half of the genes without shape to
# clusters of the shapes.
#
# Genes without shape
# -------------------
# `score_samples` gives the log density of a row relative to the uniform distribution. It is low for
# rows without shape. A row that was used in the fit can be the only row of a component in some
# draws, and this raises its density. So we divide the genes into two halves, and score each half
# with a fit to the other.

held_out, fitted = np.empty(n), mixture.score_samples(rows)
for train, test in KFold(2, shuffle=True, random_state=0).split(rows):
    half = DPMixture(emission, random_state=0).fit(rows[train])
    held_out[test] = half.score_samples(rows[test])

has_shape = shape < 5
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharex=True, sharey=True)
bins = np.linspace(min(held_out.min(), fitted.min()), max(held_out.max(), fitted.max()), 41)
titles = ["held-out genes", "fitted genes"]
for ax, values, title in zip(axes, (held_out, fitted), titles, strict=True):
    ax.hist(values[has_shape], bins, color="C0", alpha=0.8, label="with shape")
    ax.hist(values[~has_shape], bins, color="C1", alpha=0.8, label="no shape")
    ax.set(xlabel="log density relative to uniform (nats)", title=title)
axes[0].set_ylabel("number of genes")
axes[1].legend(loc="upper right")
plt.show()

# %%
# A single threshold separates nearly all held-out genes. The fitted genes on the right have a
# second group of values: these genes were the only row of a component in some draws.
#
# The probability of the wide cluster is another measure, and has a natural threshold of 1/2. We
# compare both with the distance to the nearest centre of k-means on rows of length 1.

wide = np.argmin(mixture.concentrations_)
probability = mixture.predict_proba(rows)[:, wide]
measures = {
    "low density, held-out genes": -held_out,
    "low density, fitted genes": -fitted,
    "probability of the wide cluster": probability,
    "distance to the nearest centre": kmeans.transform(unit).min(axis=1),
}
print("Area under the ROC curve for genes without shape")
for measure, values in measures.items():
    print(f"{measure:<36}{roc_auc_score(~has_shape, values):6.3f}")
selected = probability > 0.5
print(f"\nGenes with a probability of the wide cluster above 1/2: {selected.sum()}")
print(f"of which without shape: {np.sum(selected & ~has_shape)} (of {np.sum(~has_shape)})")

# %%
# The distances of k-means separate the genes as well, but they need the number of clusters and have
# no natural threshold.
#
# Errors that do not grow with the strength
# -----------------------------------------
# So far the errors were proportional to the strength of the reaction, so that the directions of
# each shape have one concentration. Now the errors are the same for all genes.

constant = level + strength * directions[shape] + 0.15 * rng.normal(size=(n, 12))
weak = DPMixture(emission, random_state=0).fit(constant @ to_coordinates)
counts = contingency_matrix(shape, weak.labels_)
table = pd.DataFrame(counts, index=names).T
table["concentration"] = weak.concentrations_.round(1)
table["strength"] = [np.median(strength[weak.labels_ == k]) for k in range(weak.n_components_)]
print(table.round(1).to_string())

# %%
# The directions of strong reactions have smaller errors than those of weak ones. So a shape has
# components of different concentration, of which most are merged. Only the strongest periods and
# steps are clusters of their own. The weakest reactions are in the wide cluster, because errors
# hide their shapes. The mean directions show which clusters have the same shape:

cosines = weak.mean_directions_ @ normalize(directions[:5] @ to_coordinates).T
best = cosines.argmax(axis=1)
for k in range(weak.n_components_):
    if k != np.argmin(weak.concentrations_):
        print(f"cluster {k:2d}: {names[best[k]]:<9} (cosine {cosines[k, best[k]]:.3f})")

# %%
# Two clusters have the same shape. The cluster with the smallest cosine contains two shapes.
