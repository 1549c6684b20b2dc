"""Table 6.1 of St. Thomas et al. (2014): accuracy on a line and a plane, with inferred and with fixed dimensions.

As in the paper there are ten data sets for each noise precision, with 500 rows from a line and 500 from a plane in
three dimensions, and 50 and 50 held-out rows. Rows are assigned to the cluster of highest density, and clusters are
matched to components by the training rows. The mixture of subspaces (MSM) has inferred dimensions or d = 2, 2. It is
sampled by "gibbs", which draws from the posterior of the normal likelihood, and by "conway", the corrected random walk
of the paper, with the temperature psi of the loss equal to 1/2, which corresponds to the likelihood, and to 1e-6, the
value in the paper. The oracle knows the distribution of the rows. The mixture of factor models (MFM) is fitted by EM,
with numbers of factors that are chosen by the Bayesian information criterion; in the paper it is nonparametric.

The paper lists the precisions 10, 5, 1, 0.5 and 0.2, but the table has 0.1, 0.5, 1, 2 and 5. Accuracy falls down this
column, so it is read as the variance, and all six precisions are run. The precisions within the subspaces have the
distribution Ga(1, 1), truncated at that of the noise. "Left truncated", as printed, means that they are above it: then
the variance within a subspace is less than that of the noise, and a plane is not flat. Here they are below it, and the
printed form is run too. The paper does not state the priors, the lengths of the chains and the initialisations.

The claim: k-means is poor, Gaussian mixtures (GMM) approach the MSM as the precision increases, and inferred dimensions
are better than fixed ones.
"""

from __future__ import annotations

import time
from itertools import product

import numpy as np
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from benchmarks._partitions import match
from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from benchmarks.subspaces_lines_planes import draw as draw_below
from skmanifold import SubspaceMixture
from skmanifold.samplers import ConwayWalk

from ._factor_analysers import FactorAnalysers

PRECISIONS = (10, 5, 2, 1, 0.5, 0.2)
TRUNCATIONS = ("below", "above")
N_DATA_SETS = 10
PRINTED_TEMPERATURE = 1e-6
SUBSPACES = {
    "gibbs": {},
    "gibbs, d = 2, 2": {"dimensions": 2},
    "conway": {"sampler": ConwayWalk()},
    "conway, d = 2, 2": {"sampler": ConwayWalk(), "dimensions": 2},
    "conway, psi = 1e-6": {"sampler": ConwayWalk(temperature=PRINTED_TEMPERATURE)},
    "conway, psi = 1e-6, d = 2, 2": {"sampler": ConwayWalk(temperature=PRINTED_TEMPERATURE), "dimensions": 2},
}
PEERS = {
    "K-means": lambda seed: KMeans(2, n_init=10, random_state=seed),
    "GMM": lambda seed: GaussianMixture(2, n_init=5, random_state=seed),
    "MFM, EM": lambda seed: FactorAnalysers(2, n_init=5, random_state=seed),
}
ORACLE = "oracle"
METHODS = (ORACLE, *SUBSPACES, *PEERS)
PAPER = {  # ranges of Table 6.1, by the precision that the variance in its first column stands for
    "K-means": {10: (0.66, 0.77), 2: (0.64, 0.82), 1: (0.57, 0.70), 0.5: (0.64, 0.72), 0.2: (0.59, 0.80)},
    "MSM": {10: (0.95, 0.99), 2: (0.90, 0.98), 1: (0.87, 0.98), 0.5: (0.87, 0.96), 0.2: (0.84, 0.97)},
    "MSM, d = 2, 2": {10: (0.92, 0.97), 2: (0.90, 0.96), 1: (0.86, 0.97), 0.5: (0.87, 0.95), 0.2: (0.84, 0.97)},
    "GMM": {10: (0.89, 0.97), 2: (0.87, 0.98), 1: (0.85, 0.98), 0.5: (0.87, 0.95), 0.2: (0.84, 0.97)},
    "MFM": {10: (0.95, 0.99), 2: (0.91, 0.99), 1: (0.88, 0.98), 0.5: (0.86, 0.98), 0.2: (0.83, 0.97)},
}
DIFFERENCES = (
    ("gibbs", "GMM"),
    ("gibbs", "MFM, EM"),
    ("gibbs", "gibbs, d = 2, 2"),
    ("conway", "conway, d = 2, 2"),
    ("conway, psi = 1e-6", "conway, psi = 1e-6, d = 2, 2"),
    ("gibbs", "conway"),
    (ORACLE, "gibbs"),
)


def cases(quick):
    """Settings of the runs."""
    precisions, n_data_sets = ((10,), 2) if quick else (PRECISIONS, N_DATA_SETS)
    return [
        {"truncation": truncation, "noise_precision": nu, "data_set": seed}
        for truncation, nu, seed in product(TRUNCATIONS, precisions, range(n_data_sets))
    ]


def draw_above(seed, noise_precision):
    """The same data with precisions within the subspaces that are above that of the noise."""
    mixture, *parts = draw_below(seed, noise_precision)
    rng = np.random.default_rng(seed)
    precisions = [noise_precision + rng.exponential(size=len(each)) for each in mixture.precisions]
    for X, labels in (parts[:2], parts[2:]):
        for k, basis in enumerate(mixture.bases):
            scores = (X[labels == k] - mixture.centres[k]) @ basis.T
            X[labels == k] += scores * (np.sqrt(mixture.precisions[k] / precisions[k]) - 1) @ basis
    mixture.precisions = precisions
    return mixture, *parts


def run(truncation, noise_precision, data_set):
    """Held-out accuracy of each method, with dimensions and seconds of the mixtures of subspaces."""
    mixture, X, y, held_out, truth = {"below": draw_below, "above": draw_above}[truncation](data_set, noise_precision)
    accuracy = np.mean(mixture.log_densities(held_out).argmax(axis=1) == truth)
    rows = [{"method": ORACLE, "accuracy": float(accuracy), "least": "", "largest": "", "seconds": ""}]
    with threadpool_limits(1):
        for method in METHODS[1:]:
            start = time.perf_counter()
            if method in SUBSPACES:
                model = SubspaceMixture(2, random_state=data_set, **SUBSPACES[method]).fit(X)
                dimensions = sorted(model.dimensions_.tolist())
            else:
                model, dimensions = PEERS[method](data_set).fit(X), ("", "")
            seconds = time.perf_counter() - start
            accuracy = np.mean(match(model.predict(X), y)[model.predict(held_out)] == truth)
            least, largest = dimensions
            rows.append(
                {
                    "method": method,
                    "accuracy": float(accuracy),
                    "least": least,
                    "largest": largest,
                    "seconds": seconds,
                }
            )
    return rows


def select(rows, truncation, noise_precision, method):
    """The rows of a method, in the order of the data sets."""
    wanted = truncation, noise_precision, method
    found = [each for each in rows if (each["truncation"], each["noise_precision"], each["method"]) == wanted]
    return sorted(found, key=lambda each: each["data_set"])


def accuracies(rows, *wanted):
    """The accuracies of a method, in the order of the data sets."""
    return np.array([each["accuracy"] for each in select(rows, *wanted)])


def show(rows):
    """Ranges as in the paper, paired differences, and dimensions."""
    for truncation in TRUNCATIONS:
        precisions = sorted({each["noise_precision"] for each in rows if each["truncation"] == truncation})[::-1]
        if not precisions:
            continue
        n = len(accuracies(rows, truncation, precisions[0], ORACLE))
        head = ("method", *(f"precision {nu:g}" for nu in precisions))
        title(f"Precisions within subspaces {truncation} that of the noise: accuracy on {n} data sets, median (range)")
        begin_table(head)
        for method in METHODS:
            found = [accuracies(rows, truncation, nu, method) for nu in precisions]
            row((method, *(spread(each, ".2f") for each in found)))
        for method, of in PAPER.items():
            row((f"paper: {method}", *("{:.2f} to {:.2f}".format(*of[nu]) if nu in of else "" for nu in precisions)))
        title(f"The same, paired differences of accuracies, mean ± standard error over {n} data sets")
        begin_table(head)
        for first, second in DIFFERENCES:
            found = [
                accuracies(rows, truncation, nu, first) - accuracies(rows, truncation, nu, second) for nu in precisions
            ]
            cells = (f"{each.mean():+.3f} ± {each.std(ddof=1) / np.sqrt(n):.3f}" for each in found)
            row((f"{first} minus {second}", *cells))
        title(f"The same, data sets of {n} with the dimensions 1 and 2; median seconds of a fit")
        begin_table((*head, "seconds"))
        for method, settings in SUBSPACES.items():
            if "dimensions" not in settings:
                found = [select(rows, truncation, nu, method) for nu in precisions]
                counts = (sum((each["least"], each["largest"]) == (1, 2) for each in of) for of in found)
                row((method, *counts, f"{np.median([each['seconds'] for of in found for each in of]):.2f}"))


def draw(rows):
    """Mean accuracy below the oracle by the noise precision."""
    import matplotlib.pyplot as plt

    from benchmarks._runs import line_style

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    for ax, truncation in zip(axes, TRUNCATIONS, strict=True):
        precisions = sorted({each["noise_precision"] for each in rows if each["truncation"] == truncation})
        for number, method in enumerate(METHODS[1:]):
            below = [
                np.mean(accuracies(rows, truncation, nu, ORACLE) - accuracies(rows, truncation, nu, method))
                for nu in precisions
            ]
            ax.semilogx(precisions, below, label=method, **line_style(number))
        ax.set(title=f"precisions within subspaces {truncation} that of the noise", xlabel="precision of the noise")
    axes[0].set_ylabel("mean accuracy below the oracle")
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside right center", fontsize="small")
    return figure
