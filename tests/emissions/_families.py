"""A table of all families, and what the contract tests need of each: the only place that knows names of methods."""

from copy import copy
from functools import cache

import numpy as np
import scipy.sparse as sp
from _pages import ROOT, read_page
from scipy.special import gammaln, ive
from sklearn.base import BaseEstimator, clone

from skmanifold.emissions import (
    Bernoulli,
    Categorical,
    Columns,
    Gaussian,
    Multinomial,
    NegativeBinomial,
    Poisson,
    Spikes,
    VonMisesFisher,
)
from skmanifold.emissions._columns.family import ColumnParameters
from skmanifold.emissions._statistics import OF_ROWS, JoinedStatistics
from skmanifold.emissions._von_mises_fisher.family import VonMisesFisherParameters
from skmanifold.emissions.kernels import fill_scores
from skmanifold.numerics.block_sums import BLOCK_ROWS, merge
from skmanifold.random._keys import fold_in_each, root_key
from skmanifold.utils._threads import Workers

KEY, ONE = root_key(7), Workers(1)
K = 3  # components, of which the last has no rows
N_ROWS = 16
LABELS = np.array([0, 1, 0, 0, 1, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 1], np.int32)
SCALE = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
NORMAL = {"mean_prior": [0.5, -1.0, 2.0], "mean_precision_prior": 0.4, "degrees_of_freedom_prior": 13.0}


def _cells(kind, n_columns, seed=0):
    """Cells of two components."""
    rng = np.random.default_rng(seed)
    shape, z = (N_ROWS, n_columns), LABELS[:, np.newaxis]
    if kind == "numbers":
        return rng.normal(z + [0.0, -1.0, 2.0][:n_columns], 1.0, shape).astype(np.float32).astype(float)
    if kind == "events":
        return (rng.random(shape) < 0.3 + 0.4 * z).astype(float)
    if kind == "codes":
        return np.minimum(rng.poisson(0.5 + 0.7 * z, shape), [2, 1, 1][:n_columns]).astype(float)
    if kind == "counts":
        return rng.poisson(1.0 + 1.5 * z, shape).astype(float)
    directions = rng.normal([1.0, 0.5, 0.0], 0.6, (N_ROWS, 3)) * np.where(z == 0, 1.0, [-0.2, 1.0, 1.0])
    return directions.astype(np.float32).astype(float)


class Values:
    """The values that a cell can have, with the logs of their weights in a sum over them, or an integral."""

    def __init__(self, n=None):
        self.values, self.log_weights = np.arange(n or 1, dtype=float), np.zeros(n or 1)
        if n is None:  # trapezoids, closest near zero
            u = np.linspace(-9.0, 9.0, 361)
            self.values, self.log_weights = 0.5 * np.sinh(u), np.log(0.5 * np.cosh(u) * (u[1] - u[0]))


NUMBERS, EVENTS, COUNTS = Values(), Values(2), Values(300)


class Case:
    """Rows of an emission with its family.

    Parameters
    ----------
    emission : BaseEmission
        With all hyperparameters.
    X : ndarray of shape (N_ROWS, n_columns)
        Complete rows.
    cells : list of Values or None
        Of each column; None if rows cannot have missing cells.
    mean, square : array-like
        Prior means of the expected rows, and of their squares.
    is_shared : bool
        Whether components share a parameter.
    completes : bool
        Whether statistics are those of rows with drawn cells, if cells are missing.
    rtol : float
        Of predictive densities.
    widths : list of int
        Numbers of categories of the columns, 0 for numbers.
    """

    def __init__(self, emission, X, cells, mean, square, *, is_shared=False, completes=False, rtol=1e-9, widths=()):
        self.emission, self.X, self.cells, self.mean, self.square = emission, X, cells, mean, square
        self.widths = widths or [0] * X.shape[1]
        self.is_shared, self.completes, self.rtol = is_shared, completes, rtol
        self.estimator = BaseEstimator()
        self.family = self.bind(emission.read(self.estimator, X, reset=True))

    def bind(self, rows, weights=None):
        if weights is None:
            return self.emission.bind(rows, K)
        return self.emission.bind_weighted(rows, K, weights.astype(float))

    def with_emission(self, emission):
        """These rows with other hyperparameters."""
        other = copy(self)
        other.emission = emission
        other.family = other.bind(self.rows(self.X))
        return other

    def bound_to(self, X):
        """The family of other rows."""
        other = copy(self)
        other.family = other.bind(self.rows(X))
        return other

    def repeated(self, n):
        """The columns n times, with their hyperparameters."""
        parameters = self.emission.get_params().items()
        lists = {name: list(value) * n for name, value in parameters if isinstance(value, list)}
        emission = clone(self.emission).set_params(**lists)
        return Case(emission, np.tile(self.X, n), self.cells * n, None, None, rtol=self.rtol)

    def rows(self, X):
        """Rows as they are read; methods that take X also take these."""
        return X if hasattr(X, "n_rows") else self.emission.read(self.estimator, X, reset=False)

    def with_gaps(self):
        """The rows with missing cells; one has no other cells."""
        gaps = np.random.default_rng(1).random(self.X.shape) < 0.25
        gaps[3], gaps[4] = False, True
        return np.where(gaps, np.nan, self.X)

    def observations(self, X):
        """Complete rows in the form of their expectations: indicators of categories, and shares of tokens."""
        if self.emission.short_name == "multinomial":
            return X / np.maximum(X.sum(axis=1, keepdims=True), 1.0)
        parts = [
            x[:, np.newaxis] == np.arange(n) if n else x[:, np.newaxis] for x, n in zip(X.T, self.widths, strict=True)
        ]
        return np.hstack(parts).astype(float)

    # --- finite mixtures ---------------------------------------------------------------------------------

    def sums(self, X, labels):
        """Statistics of labelled rows."""
        rows = self.rows(X)
        return self.family.sum_labels(rows, 0, rows.n_rows, 0, labels).total()

    def sums_of_blocks(self, X, labels):
        """The same, of two parts of the rows, merged."""
        rows, first = self.rows(X), BLOCK_ROWS
        before = self.family.sum_labels(rows, 0, first, 0, labels[:first])
        after = self.family.sum_labels(rows, first, rows.n_rows, 1, labels[first:])
        return merge(before, after).total()

    def sums_of_shares(self, X, shares):
        rows = self.rows(X)
        return self.family.sum_shares(rows, 0, rows.n_rows, 0, shares).total()

    def no_sums(self):
        return tuple(np.zeros(shape) for shape in self.family.shapes())

    def mode(self, sums):
        return self.family.mode(sums)

    def draws(self, sums, n):
        return [self.family.draw(sums, key) for key in fold_in_each(KEY, np.arange(n))]

    def log_densities(self, X, parameters, first=0, stop=None, start=0.0):
        """Of rows given each component, (n, K), added to `start`."""
        rows = self.rows(X)
        stop = rows.n_rows if stop is None else stop
        out = np.full((stop - first, K), start)
        self.family.add_log_densities(rows, first, stop, parameters, out)
        return out if rows.log_base is None else out + rows.log_base[first:stop, np.newaxis]

    def log_base(self, X):
        base = self.rows(X).log_base
        return 0.0 if base is None else base.sum()

    def log_likelihood(self, sums, parameters):
        return self.family.log_likelihood(sums, parameters)

    def log_prior(self, parameters):
        return self.family.log_prior(parameters)

    def sample(self, parameters, labels):
        return self.family.sample(parameters, labels, KEY).astype(float)

    def attributes(self, parameters):
        return self.family.attributes(parameters)

    def means(self, parameters):
        """Expected rows of the components, (K, n); of each category for codes."""
        return _side_by_side(self.attributes(parameters)["components_"])

    # --- Dirichlet processes -----------------------------------------------------------------------------

    def clusters(self, X):
        """The rows with their prior."""
        return self.family.clusters(self.rows(X))

    def no_statistics(self, capacity=K):
        return self.family.clusters().no_statistics(capacity)

    def statistics(self, X, labels, workers=ONE, capacity=K):
        clusters = self.clusters(X)
        statistics = clusters.no_statistics(capacity)
        clusters.count(labels, statistics, workers)
        return statistics

    def statistics_of_parts(self, X, labels, middle):
        """Statistics of the rows before `middle` and of the others, as arrays."""
        clusters, found = self.clusters(X), []
        parts = clusters.part(0, middle), clusters.part(middle, len(labels))
        for part, own in zip(parts, (labels[:middle], labels[middle:]), strict=True):
            statistics = part.no_statistics(K)
            part.count(own, statistics, ONE)
            found.append(self.arrays(statistics))
        return [first + second for first, second in zip(*found, strict=True)]

    def moved(self, X, labels, rows, new_labels, workers=ONE):
        """Statistics after rows moved to other labels."""
        clusters = self.clusters(X)
        statistics = clusters.no_statistics(K)
        clusters.count(labels, statistics, workers)
        clusters.move(rows, new_labels, labels, statistics, workers)
        return statistics

    def arrays(self, statistics):
        """Arrays of statistics, without current values of missing cells."""
        if isinstance(statistics, JoinedStatistics):
            return [*self.arrays(statistics.first), *self.arrays(statistics.rest)]
        axes = getattr(statistics, "label_axes", (0,) * len(statistics))
        return [a for a, axis in zip(statistics, axes, strict=True) if axis != OF_ROWS]

    def log_marginal(self, X, statistics):
        return self.clusters(X).log_marginal(statistics)

    def log_predictive(self, X, statistics, workers=ONE, start=0.0):
        """Of rows given each label, (n, capacity), added to `start`."""
        return self._added(
            self.clusters(X), "add_log_predictive", statistics, self.capacity(statistics), workers, start
        )

    def log_predictive_of_new(self, X, components):
        """Of rows given a component without rows, (n, 1), and the parameters that all components share."""
        return self._added(self.clusters(X), "add_log_density_of_new", components, 1, ONE)

    def scores(self, X, statistics, components, n, rows):
        """Log densities given components as slice sampling has them, up to a term of each row; -inf for small ones."""
        clusters, scores = self.clusters(X), np.zeros((len(rows), n))
        of_rows = rows, np.full(len(rows), n), np.zeros(len(rows), np.int64)
        fill_scores(clusters.data, statistics, *of_rows, components, scores)
        return scores

    def log_predictive_of_part(self, X, statistics, first, stop):
        part = self.clusters(X).part(first, stop)
        return self._added(part, "add_log_predictive", statistics, self.capacity(statistics), ONE)

    def log_predictive_of_subset(self, X, statistics, chosen):
        subset = self.clusters(X).subset(chosen)
        return self._added(subset, "add_log_predictive", statistics, self.capacity(statistics), ONE)

    def capacity(self, statistics):
        return len(statistics.sizes)

    def _added(self, clusters, method, given, n, workers, start=0.0):
        out = np.full((clusters.n_rows, n), start)
        getattr(clusters, method)(given, out, workers)
        return out

    def components(self, X, statistics, labels, key=KEY, workers=ONE):
        """Drawn parameters of these labels."""
        return self.clusters(X).draw_components(statistics, labels, key, workers)

    def log_densities_given(self, X, components, n, workers=ONE):
        """Of rows given each of n drawn components."""
        return self._added(self.clusters(X), "add_densities_of_rows", components, n, workers)

    def drawn_means(self, components):
        return self.family.clusters().arrays_of(components)["components"]

    def drawn_arrays(self, components):
        return list(self.family.clusters().arrays_of(components).values())

    def expected(self, statistics):
        return _side_by_side(self.family.clusters().expected(statistics)["components_"])

    def new_rows(self, statistics, labels):
        return self.clusters(self.X).new_rows(statistics, labels, KEY).astype(float)

    # --- single cells ------------------------------------------------------------------------------------

    def cell_distribution(self, parameters):
        attributes_of = getattr(self.family, "attributes_of_blocks", self.family.attributes)
        return self.family.cell_distribution(attributes_of(parameters))

    def expected_cells(self, parameters, X, labels):
        """Expectations of missing cells given their rows and labels, of squares of numbers, and of codes."""
        cells = self.cell_distribution(parameters)
        out = cells.nothing(len(X))
        cells.add_expected(X, np.eye(K)[labels], out)
        return out

    def drawn_cells(self, parameters, X, labels):
        return self.cell_distribution(parameters).drawn(X, labels, KEY, 0)

    # --- both --------------------------------------------------------------------------------------------

    def as_parameters(self, components):
        """Drawn components of a Dirichlet process as parameters of a finite mixture."""
        if isinstance(components, type(self.mode(self.no_sums()))):
            return components
        return _parameters_of(self.family, _contiguous(self.family.clusters().drawn_attributes(components)))


def _side_by_side(values):
    return np.concatenate(values, axis=1) if isinstance(values, list) else np.asarray(values)


def _contiguous(values):
    """The same arrays in the order for which kernels are compiled anyway."""
    if isinstance(values, dict):
        return {name: _contiguous(value) for name, value in values.items()}
    return list(map(_contiguous, values)) if isinstance(values, list) else np.ascontiguousarray(values)


def _parameters_of(family, attributes):
    if hasattr(family, "blocks"):
        pairs = zip(family.blocks, family.names.tolist(), strict=True)
        return ColumnParameters(tuple(_parameters_of(block, attributes[name]) for block, name in pairs))
    means = _side_by_side(attributes["components_"])
    if hasattr(family, "parameters_of"):
        return family.parameters_of({**attributes, "components_": means})
    if "concentrations_" in attributes:
        directions = means / np.linalg.norm(means, axis=1, keepdims=True)
        return VonMisesFisherParameters(np.ascontiguousarray(directions.T), attributes["concentrations_"])
    logs = np.log(means.T)
    if "dispersions_" in attributes:
        sizes = 1.0 / attributes["dispersions_"]
        return family._parameters(logs - np.log(sizes)[:, np.newaxis], sizes)
    if not hasattr(family, "parameters_again"):
        return logs
    return family.parameters_again(logs)


# --- the table -------------------------------------------------------------------------------------------


def _beta_moments(a, b):
    a, b = np.broadcast_arrays(np.asarray(a, float), b)
    return a / (a + b), a * (a + 1.0) / ((a + b) * (a + b + 1.0))


def _dirichlet_moments(a, *widths):
    """Of the categories of columns, each with the parameter a."""
    pairs = [_beta_moments(np.full(width, a), a * (width - 1)) for width in widths]
    return tuple(np.concatenate(parts) for parts in zip(*pairs, strict=True))


def _normal_moments(variances):
    """Means of components given the prior means of the variances."""
    mean = np.array(NORMAL["mean_prior"])
    return mean, mean**2 + np.broadcast_to(variances, 3) / NORMAL["mean_precision_prior"]


def _gamma_moments(a, b):
    a, b = np.asarray(a, float), np.asarray(b, float)
    return a / b, a * (a + 1.0) / b**2


def _beta_prime_moments(a, b, r):
    """Of r p / (1 - p), where the distribution of p is Beta(a, 1 + b r)."""
    a = np.asarray(a, float)
    return a / b, r**2 * a * (a + 1.0) / (b * r * (b * r - 1.0))


def _direction_moments(rows, cosine):
    """Of expected rows in three dimensions, by a sum over concentrations."""
    kappa = np.exp(np.linspace(-12.0, 8.0, 4001))
    log_c = 0.5 * np.log(0.5 * kappa) - gammaln(1.5) - np.log(ive(0.5, kappa)) - kappa
    logs = rows * (log_c + cosine * kappa) + np.log(kappa)
    shares = np.exp(logs - logs.max())
    ratios = ive(1.5, kappa) / ive(0.5, kappa)
    return np.zeros(3), np.full(3, shares @ ratios**2 / shares.sum() / 3.0)


def _numbers(kind, scale, variances, **options):
    emission = Gaussian(kind, covariance_prior=scale, **NORMAL)
    return Case(emission, _cells("numbers", 3), [NUMBERS] * 3, *_normal_moments(variances), **options)


def _directions(kind, **options):
    emission, moments = VonMisesFisher(kind, 0.5, 2.0), _direction_moments(2.0, 0.5)
    return Case(emission, _cells("directions", 3), None, *moments, rtol=1e-5, **options)


def _mixed():
    X = np.column_stack([_cells("numbers", 1), _cells("codes", 1), _cells("counts", 2)])
    normal = Gaussian("diag", [0.5], 0.4, 2.0, 13.0)
    codes = Categorical(0.6, min_categories=3)
    blocks = [("numbers", normal, [0]), ("codes", codes, [1]), ("counts", Poisson([2.0, 1.5], 0.8), [2, 3])]
    parts = (
        [part[:1] for part in _normal_moments(2.0 / 11.0)],
        _dirichlet_moments(0.6, 3),
        _gamma_moments([2.0, 1.5], 0.8),
    )
    moments = (np.concatenate(of_parts) for of_parts in zip(*parts, strict=True))
    return Case(Columns(blocks), X, [NUMBERS, Values(3), COUNTS, COUNTS], *moments, widths=[0, 3, 0, 0])


def _spiked():
    """Numbers with a spike in the first column and two in the last."""
    spikes, X, rng = ([0.3], [], [2.0, 1.7]), _cells("numbers", 3), np.random.default_rng(5)
    for column, own in enumerate(spikes):
        for value in own:
            X[rng.random(N_ROWS) < 0.3, column] = value
    emission = Spikes(Gaussian("diag", covariance_prior=[2.0, 1.0, 0.5], **NORMAL), list(spikes), [0.0] * 3, 0.7)
    cells, moments = [], []
    for own, mean, square in zip(spikes, *_normal_moments(np.array([2.0, 1.0, 0.5]) / 11.0), strict=True):
        cell = Values()
        cell.values, cell.log_weights = np.append(cell.values, own), np.append(cell.log_weights, np.zeros(len(own)))
        cells.append(cell)
        n = len(own) + 1
        centres, squares = np.append(own, mean), np.append(np.square(own), square)
        products = 0.7 * (0.7 * (np.sum(centres) ** 2 - np.sum(centres**2)) + 1.7 * np.sum(squares))
        moments.append((np.mean(centres), products / (0.7 * n * (0.7 * n + 1.0))))
    return Case(emission, X, cells, *map(np.array, zip(*moments, strict=True)))


def _hurdle():
    """The family that the page about custom emissions develops, with a shape that is not 1 for its events."""
    names, blocks = {}, read_page(ROOT / "doc" / "extending" / "emission.md").of_language("python")
    first = next(i for i, block in enumerate(blocks) if "class Hurdle(" in block.code)
    for block in blocks[first : first + 4]:
        exec(compile(block.code, "emission.md", "exec"), names)
    a, b = 1.5, 4.0
    mean, square = 0.5 * (1.0 + 1.0 / b), (a + 1.0) / (4.0 * a + 2.0) * (1.0 + 2.0 / b + 2.0 / b**2)
    return Case(names["Hurdle"](a, b), _cells("counts", 3), [COUNTS] * 3, [mean] * 3, [square] * 3)


BUILDERS = {
    "hurdle": _hurdle,
    "bernoulli": lambda: Case(
        Bernoulli([0.7, 1.5, 0.9], 1.3), _cells("events", 3), [EVENTS] * 3, *_beta_moments([0.7, 1.5, 0.9], 1.3)
    ),
    "categorical": lambda: Case(
        Categorical(0.6, min_categories=[3, 2, 2]),
        _cells("codes", 3),
        [Values(3), EVENTS, EVENTS],
        *_dirichlet_moments(0.6, 3, 2, 2),
        widths=[3, 2, 2],
    ),
    "columns": _mixed,
    "full": lambda: _numbers("full", SCALE, np.diag(SCALE) / 9.0, completes=True),
    "tied": lambda: _numbers("tied", SCALE, np.diag(SCALE) / 9.0, is_shared=True, completes=True),
    "diag": lambda: _numbers("diag", [2.0, 1.0, 0.5], np.array([2.0, 1.0, 0.5]) / 11.0),
    "spherical": lambda: _numbers("spherical", 1.5, 1.5 / 11.0),
    "multinomial": lambda: Case(Multinomial(0.4), _cells("counts", 3), None, *_dirichlet_moments(0.4, 3)),
    "negative_binomial": lambda: Case(
        NegativeBinomial([0.5, 0.25], [2.0, 1.0], 2.5),
        _cells("counts", 2),
        [COUNTS] * 2,
        *_beta_prime_moments([2.0, 1.0], 2.5, np.array([2.0, 4.0])),
    ),
    "poisson": lambda: Case(
        Poisson([2.0, 1.0, 1.5], 0.8), _cells("counts", 3), [COUNTS] * 3, *_gamma_moments([2.0, 1.0, 1.5], 0.8)
    ),
    "spikes": _spiked,
    "von_mises_fisher": lambda: _directions("per_component"),
    "shared von_mises_fisher": lambda: _directions("shared", is_shared=True),
}


@cache
def case_of(name):
    """The family of this name; tests do not change it."""
    return BUILDERS[name]()


def sparse(X):
    return sp.csr_array(X)
