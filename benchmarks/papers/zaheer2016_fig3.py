"""Fig. 3 of Zaheer et al. (2016): EM and stochastic EM with good and bad initial labels of 30 Gaussians.

As in the paper there are 30 components in the plane, 100,000 training and 1,000 test rows, and the score is the mean
log density of the test rows. Runs with 1,000 and 10,000 training rows are added, because the noise of stochastic EM
falls with the number of rows. There are four landscapes: unit circular components on a grid of 5 by 6 points at
distances of 2, 4 and 8, and ellipses of random shapes, places and weights. The good initialisation assigns each row to
the nearest of 30 centres chosen by k-means++. The bad ones are random labels, the nearest of 30 centres chosen among
the 5% of rows closest to one corner, and all rows in the same component. Both algorithms make 500 passes with the
library's prior, which is equivalent to one row per component. The scores of stochastic EM are those of its current
parameters, except the last one, which is that of the average of the last 20 passes.

The paper does not state the parameters of the mixture, the initialisations, the number of passes or the priors. Its
claim: stochastic EM works in practice, with the same initialisation as EM, and also with a bad one if that of EM is
good.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.cluster import kmeans_plusplus
from sklearn.metrics import pairwise_distances_argmin

from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from skmanifold import ExponentialFamilyMixture, HeldOutMonitor
from skmanifold.samplers import EM, ESCA

K, N_TEST = 30, 1000
DISTANCES = {f"distance {distance}": distance for distance in (2, 4, 8)}  # on a grid
LANDSCAPES = (*DISTANCES, "random ellipses")
N_ROWS = (1000, 10_000, 100_000)
N_PASSES, N_AVERAGED, N_SEEDS = 500, 20, 3
CHECKED = (1, 3, 10, 30, 100, 300, 500)  # passes
GOOD, BAD = "good", ("random labels", "one corner", "one component")
ALGORITHMS = {"EM": EM(tol=0), "stochastic EM": ESCA(n_average=N_AVERAGED)}
NEAR = 0.02  # nats per row


def cases(quick):
    """Settings of the runs."""
    n_rows, n_passes, n_seeds = ((1000,), 30, 1) if quick else (N_ROWS, N_PASSES, N_SEEDS)
    return [
        {"landscape": landscape, "n_rows": n, "n_passes": n_passes, "seed": seed}
        for seed, landscape, n in product(range(n_seeds), LANDSCAPES, n_rows)
    ]


def make_mixture(landscape, rng):
    """Weights, means and covariances of the components."""
    if landscape in DISTANCES:
        grid = np.stack(np.meshgrid(np.arange(6), np.arange(5)), axis=-1).reshape(K, 2)
        return np.full(K, 1 / K), DISTANCES[landscape] * grid, np.tile(np.eye(2), (K, 1, 1))
    roots = rng.normal(0, 0.9, (K, 2, 2))
    covariances = roots @ roots.transpose(0, 2, 1) + 0.15 * np.eye(2)
    return rng.dirichlet(np.full(K, 5.0)), rng.uniform(-10, 10, (K, 2)), covariances


def draw_rows(n, weights, means, covariances, rng):
    """Rows of the mixture."""
    labels = rng.choice(K, n, p=weights)
    factors = np.linalg.cholesky(covariances)[labels]
    return means[labels] + np.einsum("nij,nj->ni", factors, rng.normal(size=(n, 2)))


def initial_labels(name, X, rng):
    """The labels of an initialisation."""
    if name == "random labels":
        return rng.integers(K, size=len(X))
    if name == "one component":
        return np.zeros(len(X), int)
    if name == GOOD:
        centres, _ = kmeans_plusplus(X, K, random_state=int(rng.integers(2**31)))
    else:
        from_corner = ((X - X.max(axis=0)) ** 2).sum(axis=1)
        centres = X[rng.choice(np.argsort(from_corner)[: len(X) // 20], K, replace=False)]
    return pairwise_distances_argmin(X, centres)


def run(landscape, n_rows, n_passes, seed):
    """Scores of the test rows after some passes, for each initialisation, and under the true distribution."""
    rng = np.random.default_rng([seed, n_rows])
    mixture = make_mixture(landscape, np.random.default_rng(seed))
    X, X_test = (draw_rows(n, *mixture, rng) for n in (n_rows, N_TEST))
    terms = [np.log(w) + multivariate_normal(m, c).logpdf(X_test) for w, m, c in zip(*mixture, strict=True)]
    true_score = float(logsumexp(terms, axis=0).mean())
    rows = []
    for name in (GOOD, *BAD):
        labels = initial_labels(name, X, rng)
        for algorithm, sampler in ALGORITHMS.items():
            monitor = HeldOutMonitor(X_test)
            settings = {"max_iter": n_passes, "burn_in": n_passes - N_AVERAGED, "random_state": seed, "n_jobs": 1}
            model = ExponentialFamilyMixture(K, sampler=sampler, init=labels, **settings)
            model.set_callbacks(monitor).fit(X)
            scores = [each["score"] for each in monitor.get_logs().data if each["task_name"] == "pass"]
            scores += [scores[-1]] * (n_passes - len(scores))  # EM ends where rounding exceeds its progress
            found = {f"pass_{n}": float(scores[n - 1]) for n in passes_of(n_passes)}
            rows.append({"initialisation": name, "algorithm": algorithm, "true_score": true_score, **found})
    return rows


def passes_of(n_passes):
    """The passes whose scores are kept."""
    return [n for n in CHECKED if n <= n_passes]


def select(rows, **wanted):
    """The rows with these settings, in the order of the seeds."""
    found = [each for each in rows if all(each[name] == value for name, value in wanted.items())]
    return sorted(found, key=lambda each: each["seed"])


def last_scores(rows, **wanted):
    """Scores after the last pass, for each seed."""
    return np.array([each[f"pass_{passes_of(each['n_passes'])[-1]}"] for each in select(rows, **wanted)])


def show(rows):
    """How often the bad initialisations reach the good one, the differences, and the good one alone."""
    of = [
        {"landscape": landscape, "n_rows": n}
        for landscape, n in product(LANDSCAPES, sorted({each["n_rows"] for each in rows}))
    ]
    columns = list(product(BAD, ALGORITHMS))
    head = ("landscape", "rows", *(f"{algorithm}, {name}" for name, algorithm in columns))
    n_seeds = len({each["seed"] for each in rows})
    title(
        f"Runs of {n_seeds} whose score is at most {NEAR:g} nats per row below that of EM with the good initialisation"
    )
    begin_table(head)
    for wanted in of:
        good = last_scores(rows, **wanted, initialisation=GOOD, algorithm="EM")
        found = [last_scores(rows, **wanted, initialisation=name, algorithm=algorithm) for name, algorithm in columns]
        row((wanted["landscape"], f"{wanted['n_rows']:,}", *(np.sum(each >= good - NEAR) for each in found)))
    title("Score minus that of EM with the good initialisation, nats per row, median")
    begin_table(head)
    for wanted in of:
        good = last_scores(rows, **wanted, initialisation=GOOD, algorithm="EM")
        found = [last_scores(rows, **wanted, initialisation=name, algorithm=algorithm) for name, algorithm in columns]
        row((wanted["landscape"], f"{wanted['n_rows']:,}", *(f"{np.median(each - good):+.3f}" for each in found)))
    earlier, last = passes_of(rows[0]["n_passes"])[-2:]
    title(f"Increase of the score from pass {earlier} to pass {last}, nats per row, median")
    begin_table(head)
    for wanted in of:
        found = [select(rows, **wanted, initialisation=name, algorithm=algorithm) for name, algorithm in columns]
        rises = [np.median([each[f"pass_{last}"] - each[f"pass_{earlier}"] for each in own]) for own in found]
        row((wanted["landscape"], f"{wanted['n_rows']:,}", *(f"{value:+.3f}" for value in rises)))
    title("The good initialisation: scores in nats per row")
    difference = "stochastic EM minus EM, median (range)"
    begin_table(("landscape", "rows", "true distribution", "EM below it, median (range)", difference))
    for wanted in of:
        true = np.array([each["true_score"] for each in select(rows, **wanted, initialisation=GOOD, algorithm="EM")])
        em, sem = (last_scores(rows, **wanted, initialisation=GOOD, algorithm=algorithm) for algorithm in ALGORITHMS)
        cells = f"{np.median(true):.3f}", spread(true - em, ".3f"), spread(sem - em, "+.4f")
        row((wanted["landscape"], f"{wanted['n_rows']:,}", *cells))


def draw(rows):
    """Median over seeds of the distance from the score of the true distribution, by pass, with most rows."""
    import matplotlib.pyplot as plt

    n_rows = max(each["n_rows"] for each in rows)
    figure, axes = plt.subplots(
        1, len(LANDSCAPES), figsize=(3.4 * len(LANDSCAPES), 3.6), layout="constrained", sharey=True
    )
    for ax, landscape in zip(axes, LANDSCAPES, strict=True):
        for (number, name), algorithm in product(enumerate((GOOD, *BAD)), ALGORITHMS):
            own = select(rows, landscape=landscape, n_rows=n_rows, initialisation=name, algorithm=algorithm)
            passes = passes_of(own[0]["n_passes"])
            below = [np.median([each["true_score"] - each[f"pass_{n}"] for each in own]) for n in passes]
            style = {"linestyle": "--", "marker": "o"} if algorithm == "EM" else {"linewidth": 3, "alpha": 0.6}
            ax.plot(passes, below, color=f"C{number}", markersize=4, label=f"{algorithm}, {name}", **style)
        ax.set(title=landscape, xlabel="passes", xscale="log")
        ax.set_yscale("symlog", linthresh=0.01)  # the score of a fit may exceed that of the true distribution
    axes[0].set_ylabel(f"nats per row below the true density\n{n_rows:,} training rows")
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside right center", fontsize="small")
    return figure
