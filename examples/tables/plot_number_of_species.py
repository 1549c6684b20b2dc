"""
How many species? BIC compared with a posterior
===============================================

A table contains measurements of animals, and the species are unknown. How many are there? The usual
answer is the number of Gaussian components with the lowest BIC. `DPMixture` gives posterior
distributions of the number of components and of the number of clusters, which are merged
components, and the probability that two animals belong together. This example compares them. The
number of Gaussian components is the number of species only if the measurements of each species are
Gaussian.
"""

# %%
# Data
# ----
# We simulate four lengths of 300 animals of three species, one of them rare. Animals of a species
# differ in size, which changes all lengths by the same factor, and less in shape. The logarithms of
# the lengths are Gaussian within a species, and the lengths themselves are not. Another 1000
# animals are kept for the evaluation.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics.cluster import contingency_matrix
from sklearn.mixture import GaussianMixture

from skmanifold import DPMixture
from skmanifold.inspection import CoClusteringDisplay

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

names = ["body", "tail", "ear", "foot"]
species_names = np.array(["A", "B", "rare"])
centres = np.log([[80, 60, 15, 20], [95, 60, 12, 20], [85, 75, 12, 23]])
rng = np.random.default_rng(2)


def draw_animals(n):
    species = rng.choice(3, n, p=[0.5, 0.4, 0.1])
    size = 0.3 * rng.normal(size=(n, 1))
    return np.exp(centres[species] + size + 0.05 * rng.normal(size=(n, 4))), species


lengths, species = draw_animals(300)
new_lengths, _ = draw_animals(1000)
print(f"Animals of species {', '.join(species_names)}: {np.bincount(species)}")
print("Lengths of the first three animals:")
print(lengths[:3].round(1))

# %%
# BIC and the posterior
# ---------------------
# Both models have Gaussian components with full covariances, here for the logarithms of the
# lengths. `GaussianMixture` is fitted with 1 to 6 components. `DPMixture` runs four chains, whose
# draws differ in the number of components. In each draw, components that overlap, with no valley
# between them, are merged into clusters, and so are components of a few animals with others.


def numbers_up_to_six(frequencies):
    """Probabilities of 1, ..., 6, and of more, from frequencies of 0, 1, 2, ..."""
    padded = np.pad(frequencies / np.sum(frequencies), (0, 8))
    return np.append(padded[1:7], padded[7:].sum())


def compare(X):
    settings = {"n_init": 20, "init_params": "random_from_data", "random_state": 0}
    finite = [GaussianMixture(k, **settings).fit(X) for k in range(1, 7)]
    bic = np.array([mixture.bic(X) for mixture in finite])
    mixture = DPMixture(n_chains=4, random_state=0).fit(X)
    components = numbers_up_to_six(np.bincount(mixture.posterior_["n_components"].ravel()))
    clusters = numbers_up_to_six(mixture.n_components_posterior_)
    print("Number   BIC - lowest   probability for components   for clusters")
    for k in range(6):
        print(f"{k + 1:6}{bic[k] - bic.min():15.1f}{components[k]:29.2f}{clusters[k]:15.2f}")
    print(f"{'more':>6}{'':15}{components[6]:29.2f}{clusters[6]:15.2f}")
    print("Mean number of components of each chain:", end=" ")
    print(mixture.posterior_["n_components"].mean(axis=1).round(1))
    return finite[bic.argmin()], mixture, bic, components, clusters


logs = np.log(lengths)
chosen, mixture, *results = compare(logs)

# %%
# The four chains agree, and both methods find the three species, which are well separated here.
# With more variation of the shape, 0.07 in place of 0.05, both often join two species in other
# random samples. A figure shows the table:


def draw_comparison(bic, components, clusters, title):
    numbers = np.arange(1, 8)
    fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.6), sharex=True, layout="constrained")
    axes[0].plot(numbers[:6], bic - bic.min(), "o-", color="C0")
    axes[0].set(ylabel="BIC minus its lowest value", title="GaussianMixture")
    axes[1].bar(numbers - 0.2, components, 0.4, color="C0", label="components")
    axes[1].bar(numbers + 0.2, clusters, 0.4, color="C1", hatch="//", label="clusters")
    axes[1].set(ylabel="posterior probability", title="DPMixture")
    for ax in axes:
        ax.axvline(3, color="0.35", linestyle=":", zorder=0, label="number of species")
        ax.set_xticks(numbers, [*map(str, numbers[:6]), "more"])
        ax.set_xlabel("number")
    handles, labels = axes[1].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3)
    fig.suptitle(title)


draw_comparison(*results, "Logarithms of the lengths")

# %%
# Who belongs together?
# ---------------------
# `CoClusteringDisplay` shows the posterior probability that two animals are in the same cluster.
# It averages over all draws. The table compares the species with the partition ``labels_``, which
# summarises the draws.

display = CoClusteringDisplay.from_estimator(mixture)
display.ax_.set_title("Same cluster?")

table = contingency_matrix(species, mixture.labels_)
print("Cluster   " + "".join(f"{k:6}" for k in range(table.shape[1])))
for name, counts in zip(species_names, table, strict=True):
    print(f"{name:<10}" + "".join(f"{count:6}" for count in counts))

summary = mixture.cluster_summary(names)
print("\nMutual information of a measurement and the cluster (nats)")
print(summary.columns["mutual_information"].round(2).to_string())

# %%
# The species differ in their proportions, and each measurement depends mostly on the size of the
# animal. Therefore every single measurement has little information on the cluster, and the clusters
# are visible only in several measurements together.
#
# What the number of components does not tell
# -------------------------------------------
# Now we fit the same models to the lengths instead of their logarithms. The species are the same,
# but they are no longer Gaussian.

chosen_of_lengths, mixture_of_lengths, *results = compare(lengths)
draw_comparison(*results, "Lengths")
print("Species in each cluster of the lengths:")
print(contingency_matrix(species, mixture_of_lengths.labels_))

# %%
# Both numbers of components become larger, although the animals are the same. A species whose
# distribution is not Gaussian needs several Gaussian components: small and large animals, for
# example. These overlap without a valley, so that the clusters are still the three species. Species
# that overlap without a valley would be one cluster: BIC and the posterior describe the shape of a
# density, and species are a question about its causes.
#
# On the scale of the logarithms the superfluous components are few and small. But a Dirichlet
# process mixture overestimates the number of components there too. If the rows come from a finite
# mixture and the concentration is fixed, the posterior does not concentrate at the true number,
# however many rows there are (Miller and Harrison, 2013).
#
# Which scale is better?
# ----------------------
# The number of components does not answer this, and neither does the posterior. The log density of
# new animals does. To compare the two scales, both densities must be densities of the lengths. The
# change of variables subtracts the sum of the logarithms of the lengths from the log density of the
# logarithms.

jacobian = np.log(new_lengths).sum(axis=1).mean()
print(f"Log density of new animals (nats per animal){'BIC':>8}{'posterior':>12}")
for name, pair, X, correction in (
    ("lengths", (chosen_of_lengths, mixture_of_lengths), new_lengths, 0.0),
    ("logarithms", (chosen, mixture), np.log(new_lengths), jacobian),
):
    print(f"{name:<40}" + "".join(f"{model.score(X) - correction:12.2f}" for model in pair))

plt.show()

# %%
# Both mixtures predict the new animals better on the scale of the logarithms, so this is the scale
# to use. On both scales the average over the posterior predicts them better than the single mixture
# that BIC chooses.
#
# In short: report the number of clusters, with its probability; report who belongs together;
# compare scales, priors and covariances by the score of new rows; and do not call clusters species
# without other evidence.
