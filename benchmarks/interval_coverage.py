"""Coverage of 90% intervals of Dirichlet process mixtures, if the prior of the components is learned from the rows.

Simulated data sets. Means and covariances of Gaussian components of two features are drawn from a normal-inverse-
Wishart prior: covariances from IW(3 I, 6), means from N(0, covariance / 0.05). Counts of three features are negative
binomial with the dispersion 0.5; p of a component is drawn from Beta(1, 1.2), so that expected counts have the prior
mean 10. In simulations with three components each has a third of the rows; in those with a process, partition and
concentration are drawn from the prior of `DPMixture` by `sample_prior`. The fit has the numbers of this prior
("given"), learns them before sampling ("learned") or draws them in each pass ("drawn"): then the emission of Gaussians
has default settings, and that of counts has the prior of the means and no dispersions. With a process and a given prior
the intervals have the nominal coverage, whatever the number of rows. With three components they need not, because the
fit assumes a process.

Intervals are quantiles of the draws, interpolated so that independent draws of any number have the nominal coverage
(`method="weibull"` of numpy; with the default of numpy the interval of 50 independent draws covers 86.5%). Labels of
different draws do not correspond, so the quantities belong to rows: the variance and the mean of the first feature in
the component of a row, in each draw and in the truth. The coverage of a data set is the share of its rows whose
intervals contain the truth; the standard error is over data sets. Intervals of the number of components with rows
contain their bounds, so that their coverage is above 90% if all is right. Columns of the table are empty where the
emission has no such parameter.

Real tables. Cells are removed at random as in `benchmarks.imputation`. Intervals of the removed numbers are from 100
completed tables of `DPMixture("auto")` with default settings, and from 20 of `IterativeImputer` with
`sample_posterior`: chained regressions, each time with another seed.

    python -m benchmarks.interval_coverage --write
    python -m benchmarks.interval_coverage --simulations "three Gaussians" --n-sets 100 --max-iter 200 --methods
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import invwishart
from sklearn.base import clone
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from threadpoolctl import threadpool_limits

from benchmarks._results import add_write, begin_table, finish, row, title
from benchmarks.imputation import by_indicators, is_number, removed
from benchmarks.tables_density import TABLES
from skmanifold import DPMixture
from skmanifold.emissions import Gaussian, NegativeBinomial

LEVEL = 0.9
N_COMPONENTS = 3
GAUSSIAN = Gaussian("full", np.zeros(2), 0.05, 3.0, 6.0)
COUNTS = NegativeBinomial(0.5, shape_prior=1.0, rate_prior=0.1)
N_COUNTED = 3  # features
N_TABLES, N_PEER_TABLES = 100, 20
CELLS = {0.3: ("wine", "airquality", "heart"), 0.5: ("wine", "airquality", "survey")}


class Simulation(NamedTuple):
    """A function that returns the rows and the true parameters of a data set, and two emissions of the fit."""

    simulate: Callable[[int, int], tuple[np.ndarray, dict[str, Any]]]  # of the number of rows and a seed
    given: Any
    free: Any
    n_rows: tuple[int, ...] = (30, 100)


def three_gaussians(n_rows, seed):
    rng, (d,) = np.random.default_rng(seed), GAUSSIAN.mean_prior.shape
    scatter, degrees = GAUSSIAN.covariance_prior * np.eye(d), GAUSSIAN.degrees_of_freedom_prior
    covariances = invwishart(degrees, scatter, rng).rvs(N_COMPONENTS)
    of_means = covariances / GAUSSIAN.mean_precision_prior
    means = np.array([rng.multivariate_normal(GAUSSIAN.mean_prior, covariance) for covariance in of_means])
    labels = thirds(n_rows)
    X = np.array([rng.multivariate_normal(means[k], covariances[k]) for k in labels])
    return X, {"labels": labels, "components": means, "covariances": covariances}


def three_counts(n_rows, seed):
    rng, r = np.random.default_rng(seed), 1.0 / COUNTS.dispersion
    p = rng.beta(COUNTS.shape_prior, 1.0 + COUNTS.rate_prior * r, size=(N_COMPONENTS, N_COUNTED))
    labels = thirds(n_rows)
    return rng.negative_binomial(r, 1.0 - p[labels]), {"labels": labels, "components": r * p / (1.0 - p)}


def thirds(n_rows):
    return np.arange(n_rows) * N_COMPONENTS // n_rows


def of_process(emission, n_features, n_rows, seed):
    mixture = DPMixture(emission)
    return mixture.sample_prior(n_rows, n_features, random_state=seed, return_parameters=True)


FREE_COUNTS = NegativeBinomial(None, COUNTS.shape_prior, COUNTS.rate_prior)
SIMULATIONS = {
    "three Gaussians": Simulation(three_gaussians, GAUSSIAN, Gaussian()),
    "process of Gaussians": Simulation(partial(of_process, GAUSSIAN, 2), GAUSSIAN, Gaussian()),
    "three of counts": Simulation(three_counts, COUNTS, FREE_COUNTS, (30,)),
    "process of counts": Simulation(partial(of_process, COUNTS, N_COUNTED), COUNTS, FREE_COUNTS, (30,)),
}
PRIORS = {"given": {}, "learned": {"hyperparameters": "learn"}, "drawn": {"hyperparameters": "draw"}}
QUANTITIES = {
    "variance": lambda draw: draw["covariances"][:, 0, 0][draw["labels"]],
    "mean": lambda draw: draw["components"][:, 0][draw["labels"]],
    "number of components": lambda draw: np.array([len(np.unique(draw["labels"]))]),
}


def covered(draws, truth):
    """Which true values (n_values,) are in the intervals of draws (n_draws, n_values)."""
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0, method="weibull")
    if np.issubdtype(draws.dtype, np.integer):
        low, high = np.floor(low), np.ceil(high)
    return (low <= truth) & (truth <= high)


def coverage(mixture, X, truth):
    """The share of covered values of each quantity; NaN if the emission has no such parameter."""
    posterior = mixture.fit(X).posterior_
    draws = [{name: posterior[name][0, i] for name in posterior} for i in range(posterior["labels"].shape[1])]
    found = []
    for name, quantity in QUANTITIES.items():
        if name == "variance" and "covariances" not in truth:
            found.append(np.nan)
        else:
            found.append(covered(np.array([quantity(draw) for draw in draws]), quantity(truth)).mean())
    return found


def show_simulations(options):
    title(f"Simulated data sets: coverage of {LEVEL:.0%} intervals")
    begin_table(("simulation", "rows", "prior", *QUANTITIES, "seconds per fit"))
    for name in options.simulations:
        simulation = SIMULATIONS[name]
        for n_rows in simulation.n_rows:
            sets = [simulation.simulate(n_rows, seed) for seed in range(options.n_sets)]
            for prior in options.priors:
                emission = simulation.given if prior == "given" else simulation.free
                mixture = DPMixture(emission, max_iter=options.max_iter, **PRIORS[prior])
                clone(mixture).set_params(max_iter=2).fit(sets[0][0])  # compile the kernels
                start = time.process_time()
                values = [coverage(mixture.set_params(random_state=seed), *each) for seed, each in enumerate(sets)]
                seconds = (time.process_time() - start) / len(sets)
                row((name, n_rows, prior, *map(with_error, np.transpose(values)), f"{seconds:.2f}"))


def with_error(values):
    """Mean and standard error of a coverage."""
    if np.isnan(values).any():
        return ""
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


# Methods: completed tables, as a list of numbers by column (None for other columns)


def by_mixture(incomplete, seed):
    mixture = DPMixture("auto", random_state=seed).fit(incomplete)
    filled = mixture.impute(incomplete, n_draws=N_TABLES, random_state=seed)
    return [[table[name].to_numpy(float) if is_number(table[name]) else None for name in table] for table in filled]


def by_regressions(incomplete, seed):
    def draw(bounds, groups, seed):
        return IterativeImputer(sample_posterior=True, random_state=seed, **bounds)

    return [by_indicators(draw, incomplete, seed * N_PEER_TABLES + i) for i in range(N_PEER_TABLES)]


METHODS = {"DPMixture": by_mixture, "IterativeImputer, draws": by_regressions}


def show_cells(options):
    title(f"Removed numbers of real tables: coverage of {LEVEL:.0%} intervals")
    begin_table(("removed", "table", "method", "coverage", "cells"))
    for share, names in CELLS.items():
        for name in names:
            table = TABLES[name]()
            numbers = [j for j, column in enumerate(table) if is_number(table[column])]
            for method in options.methods:
                inside = []
                for seed in range(options.n_removals):
                    incomplete, holes = removed(table, share, seed)
                    tables = METHODS[method](incomplete, seed)
                    of_seed = []
                    for j in numbers:
                        rows = holes[:, j]
                        draws = np.array([each[j][rows] for each in tables])
                        of_seed.append(covered(draws, table.iloc[:, j].to_numpy()[rows]))
                    inside.append(np.concatenate(of_seed))
                cells = sum(map(len, inside))
                row((f"{share:.0%}", name, method, with_error(np.array([each.mean() for each in inside])), cells))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", nargs="*", default=list(SIMULATIONS), choices=SIMULATIONS)
    parser.add_argument("--priors", nargs="+", default=list(PRIORS), choices=PRIORS)
    parser.add_argument("--n-sets", type=int, default=400)
    parser.add_argument("--max-iter", type=int, default=500)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--n-removals", type=int, default=10)
    add_write(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        if options.simulations:
            show_simulations(options)
        if options.methods:
            show_cells(options)
    sizes = f"{options.n_sets} simulated data sets, {options.max_iter:,} passes"
    notes = f"Mean ± standard error; {sizes}; {options.n_removals} sets of removed cells of each real table."
    finish(options, "pandas", notes=notes)
