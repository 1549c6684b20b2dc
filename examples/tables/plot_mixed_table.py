"""
A table with mixed columns and missing cells
============================================

A table of animals has numbers, a category and a binary column, and many cells are missing.
`DPMixture` with the emission `Columns` clusters the animals, fills the missing cells, and says how
certain the filled values are. This example compares it with the imputers of scikit-learn, and shows
why an analysis should use several completed tables.
"""

# %%
# Data
# ----
# We simulate 500 animals of three species. Within a species, weight and length are correlated, and
# the slope differs between species. Colours and spots differ in their frequencies.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from skmanifold import DPMixture
from skmanifold.emissions import Bernoulli, Categorical, Columns, Gaussian
from skmanifold.metrics import pool_estimates

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

rng = np.random.default_rng(0)
n = 500
species = rng.choice(3, n, p=[0.5, 0.3, 0.2])
length = rng.normal(np.array([20, 35, 30])[species], 3)
slopes, offsets = np.array([0.3, 0.1, -0.2]), np.array([2.0, 9.0, 20.0])
weight = offsets[species] + slopes[species] * length + rng.normal(0, 0.5, n)
frequencies = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7]])
colour = (rng.random((n, 1)) > np.cumsum(frequencies, axis=1)[species, :2]).sum(axis=1)
complete = pd.DataFrame(
    {
        "length": length,
        "weight": weight,
        "colour": np.array(["black", "brown", "grey"])[colour],
        "spots": rng.random(n) < np.array([0.1, 0.8, 0.4])[species],
    }
)
complete["spots"] = complete["spots"].astype("boolean")
animals = complete.mask(rng.random(complete.shape) < 0.3)
print(animals.head())

# %%
# Clusters
# --------
# Each block of columns has its own emission. Length and weight share a covariance matrix. A row
# without a cell is clustered by its other cells. With so few cells two of the species overlap, and
# would be merged into one cluster, so we use the components as clusters.

emission = Columns(
    [
        ("size", Gaussian(), ["length", "weight"]),
        ("colour", Categorical(), ["colour"]),
        ("spots", Bernoulli(), ["spots"]),
    ]
)
mixture = DPMixture(emission, clusters="components", random_state=0).fit(animals)
summary = mixture.cluster_summary()
print(summary.clusters.round(2).to_string())
print("\nMutual information of a column and the cluster (nats)")
print(summary.columns["mutual_information"].round(2).to_string())

# %%
# Filled cells
# ------------
# `impute` replaces a missing number by its mean given the observed cells of the row, and a category
# by the most probable one. We compare it with three imputers of scikit-learn. They need numbers, so
# they fill indicators of the categories, and the category with the largest indicator is chosen.

numbers = ["length", "weight"]
codes = pd.get_dummies(animals["colour"]).where(animals["colour"].notna()).astype(float)
encoded = pd.concat([animals[numbers], codes, animals["spots"].astype(float)], axis=1)


def errors(filled_numbers, filled_colours, filled_spots):
    """Errors of numbers in standard deviations, and shares of wrong categories."""
    gaps = (filled_numbers - complete[numbers]) / complete[numbers].std()
    rmse = np.sqrt((gaps**2).to_numpy()[animals[numbers].isna()].mean())
    wrong_colours = (filled_colours != complete["colour"])[animals["colour"].isna()].mean()
    wrong_spots = (filled_spots != complete["spots"])[animals["spots"].isna()].mean()
    return rmse, wrong_colours, wrong_spots


filled = mixture.impute(animals)
found = {"DPMixture": errors(filled[numbers], filled["colour"], filled["spots"])}
for imputer in (IterativeImputer(max_iter=50, random_state=0), KNNImputer(), SimpleImputer()):
    table = pd.DataFrame(imputer.fit_transform(encoded), columns=encoded.columns)
    colours = table[list(codes)].idxmax(axis=1)
    found[type(imputer).__name__] = errors(table[numbers], colours, table["spots"] > 0.5)

columns = ["error of numbers", "wrong colours", "wrong spots"]
print(pd.DataFrame(found, index=columns).T.round(3).to_string())

fig, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
for ax, name, values in zip(axes, columns, zip(*found.values(), strict=True), strict=True):
    ax.barh(list(found), values, color=["C0", "0.6", "0.6", "0.6"])
    ax.invert_yaxis()
    ax.set_title(name)
    ax.tick_params(axis="y", labelleft=ax is axes[0])
fig.suptitle("Errors of filled cells, with 30% of the cells missing")

# %%
# One regression for all animals, which `IterativeImputer` fits to each column, does not suit
# species with different slopes. The mixture has a regression for each cluster, and the other cells
# of a row tell which one to use.
#
# How certain is a filled cell?
# -----------------------------
# `conditional` gives the distribution of a cell given the other cells of the row. It may have
# several peaks, if these leave the cluster open. The more is known of an animal, the narrower is
# the distribution of its weight.

known = {
    "nothing else is known": {},
    "brown": {"colour": "brown"},
    "grey, length 30": {"colour": "grey", "length": 30.0},
}
grid = np.linspace(0, 20, 201)
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for label, cells in known.items():
    row = {"length": np.nan, "colour": None, "spots": None} | cells
    rows = pd.DataFrame([row] * len(grid)).assign(weight=grid)
    rows["spots"] = rows["spots"].astype("boolean")
    density = np.exp(mixture.conditional(rows, "weight").log_density(rows))
    ax.plot(grid, density, label=label)
ax.set(xlabel="weight", ylabel="density", title="Weight of an animal")
ax.legend(loc="upper left")

# %%
# Several completed tables
# ------------------------
# What is the mean weight of black animals? A table that was filled once looks complete, and the
# standard error computed from it is too small. With ``n_draws`` each table has another draw of the
# parameters and of the missing cells, and `pool_estimates` adds the variance between the tables.


def mean_weight(table):
    weights = table["weight"][table["colour"] == "black"]
    return weights.mean(), weights.var() / len(weights)


estimates, variances = zip(*map(mean_weight, mixture.impute(animals, 20, 0)), strict=True)
pooled = pool_estimates(estimates, variances)
print("Mean weight of black animals, and its standard error")
for name, (mean, variance) in {
    "complete table": mean_weight(complete),
    "filled once": mean_weight(filled),
    "20 completed tables": (pooled.estimate, pooled.variance),
}.items():
    print(f"{name:<22}{mean:8.2f}{np.sqrt(variance):8.3f}")

plt.show()

# %%
# The standard error of the completed tables is larger than that of the table that was filled once,
# because 30% of the weights and of the colours are unknown.
