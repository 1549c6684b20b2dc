"""
Views of columns
================

Some columns of a table say something about each other, and others do not. `CrossCat` divides the
columns into views, and clusters the rows in each view by its columns alone. Here the values of some
columns are shuffled, so that we know which ones are informative.
"""

# %%
# Data
# ----
# The wines of scikit-learn are from three cultivars, and thirteen measurements describe them. We
# shuffle the values of six columns. Each keeps its distribution, but contains nothing about the
# wine any more.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score

from skmanifold import CrossCat, DPMixture
from skmanifold.emissions import Columns, Gaussian
from skmanifold.inspection import DependenceDisplay

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

wine = load_wine(as_frame=True)
names = {"od280/od315_of_diluted_wines": "od280_od315"}
X = wine.data.rename(columns=names)
shuffled = ["malic_acid", "ash", "alcalinity_of_ash", "magnesium", "proanthocyanins", "hue"]
rng = np.random.default_rng(0)
for name in shuffled:
    X[name] = rng.permutation(X[name].to_numpy())
X = X.rename(columns={name: f"{name} (shuffled)" for name in shuffled})

# %%
# Columns that depend on each other
# ---------------------------------
# The probability that two columns share a view is that of all draws of four chains.

model = CrossCat(max_iter=150, random_state=0).fit(X)
for view, columns in enumerate(model.views_):
    print(f"view {view}: {', '.join(columns)}")
DependenceDisplay.from_estimator(model)

# %%
# The view of the informative columns is the same in all draws. A shuffled column may share a view
# with another one by chance: if a view has one component only, its columns are independent in it.
# Mutual information shows that. The display draws it as the correlation of two normal variables
# with the same information.

DependenceDisplay.from_estimator(model, measure="information")

# %%
# Clusters of the informative view
# --------------------------------
# Each view has its own clusters of the rows. Those of the first view are nearly the cultivars; one
# of these has two clusters.

print(pd.crosstab(wine.target, model.labels_[:, 0], rownames=["cultivar"], colnames=["cluster"]))
print(model.cluster_summary(0).clusters.round(2).T.to_string())

# %%
# In shuffled columns these clusters do not differ.

fig, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
pairs = ("flavanoids", "color_intensity"), ("malic_acid (shuffled)", "hue (shuffled)")
for ax, (x, y) in zip(axes, pairs, strict=True):
    for cluster in range(model.n_components_[0]):
        rows = model.labels_[:, 0] == cluster
        ax.scatter(X[x][rows], X[y][rows], s=14, label=f"cluster {cluster}")
    ax.set(xlabel=x, ylabel=y)
axes[0].legend()

# %%
# Comparison with one partition for all columns
# ---------------------------------------------
# A mixture with one partition of the rows has to describe the shuffled columns too. We compare the
# clusters with the cultivars by the adjusted Rand index, which is 1 for equal partitions, and about
# 0 for unrelated ones. With "auto" `DPMixture` has covariance matrices, or variances if their
# evidence is higher.

found = {"CrossCat, first view": model.labels_[:, 0]}
independent = Columns([("all", Gaussian("diag"), list(X))])
for name, emission in {"DPMixture": "auto", "DPMixture, variances": independent}.items():
    found[name] = DPMixture(emission, max_iter=150, random_state=0).fit(X).labels_
for name, labels in found.items():
    agreement = adjusted_rand_score(wine.target, labels)
    print(f"{name:<24}{len(set(labels))} clusters, adjusted Rand index {agreement:.2f}")

plt.show()
