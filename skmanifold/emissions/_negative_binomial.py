"""Emission of counts whose variance is larger than their mean; cells may be missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from scipy.special import betaln, gammaln, xlogy

from ..random._keys import subkey
from ..utils._conditions import Array
from ..utils._declared import Lacking, Saved
from ..utils._sklearn import Interval
from ..utils._threads import ONE, Workers, split_range
from ..utils._typing import ArrayLike
from . import _negative_binomial_kernels as kernels
from ._base import positive_prior
from ._cells import OverdispersedCells
from ._linear import MOST_NATURAL, PRIOR, CountEmission, CountFamily, LinearCounts, drawn_places, group_features
from ._linear_kernels import add_linear_scores
from ._linear_rows import LinearRows, refuse_fractions
from ._protocols import Arrays
from ._seeds import cluster_rows
from ._statistics import occupied, selected

# The inverse dispersion r of a feature is one of finitely many values, so that its posterior distribution is a table.
# The part of the likelihood that depends on single counts is the same for all partitions of the rows.

_INVERSES = 1.0 / np.geomspace(1e-4, 100.0, 121)  # adjacent values differ by a factor of 1.12
_CELLS_AT_ONCE = 1 << 18  # some megabytes


# What the distribution of the dispersions depends on: prior plus sums of counts, and prior plus numbers of observed
# cells, (n_features, K) each; both priors, (n_features,) each; numbers of observed cells of all components.
Known: TypeAlias = tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray], np.ndarray]


class Dispersions(NamedTuple):
    """Possible inverse dispersions r of each feature, (n_features, n_values), equally probable a priori.

    `mean_log_rising` has the means over observed cells of log(Gamma(x + r) / Gamma(r)).
    """

    inverses: Annotated[np.ndarray, Array("float64", "n_dimensions _", above=0)]
    mean_log_rising: Annotated[np.ndarray, Array("float64", "n_dimensions _")]

    def of_columns(self, columns: np.ndarray) -> Dispersions:
        """Those of some columns."""
        return Dispersions(self.inverses[columns], self.mean_log_rising[columns])

    def log_rising(self, sizes: np.ndarray, n_observed: np.ndarray) -> float:
        """Sum of log(Gamma(x + r) / Gamma(r)) over all cells, for one value r of each feature, (n_features,)."""
        places = np.abs(self.inverses - sizes[:, np.newaxis]).argmin(axis=1)
        return float(n_observed @ self.mean_log_rising[np.arange(len(sizes)), places])

    def most_probable(self, known: Known) -> np.ndarray:
        """The r, (n_features,), that maximise the joint density with the means, whose mode is ``shapes / rates``."""

        def of_components(a, b, r):
            means = a / b
            return xlogy(a, means / (means + r)) - b * r * np.log1p(means / r)

        return self._at(self._scores(of_components, known).argmax(axis=1))

    def most_probable_marginal(self, known: Known) -> np.ndarray:
        """The most probable values given the partition, with the means integrated out."""
        return self._at(self._scores(_log_beta, known).argmax(axis=1))

    def drawn(self, known: Known, key: np.uint64) -> np.ndarray:
        """Values drawn from their distribution given the partition, with the means integrated out.

        The draw of a feature depends only on the key and its index.
        """
        return self._at(drawn_places(self._scores(_log_beta, known), key))

    def _at(self, places: np.ndarray) -> np.ndarray:
        return self.inverses[np.arange(len(places)), places]

    def _scores(self, of_components: Callable[..., np.ndarray], known: Known) -> np.ndarray:
        """Log posterior probability of each value up to a constant, (n_features, n_values)."""
        shapes, rates, prior, n_observed = known
        out, (m, K) = n_observed[:, np.newaxis] * self.mean_log_rising, shapes.shape
        n_values = self.inverses.shape[1]
        for start, stop in split_range(m, max(1, _CELLS_AT_ONCE // (K * n_values))):
            some, r = slice(start, stop), self.inverses[start:stop, :, np.newaxis]
            a, b = shapes[some, np.newaxis], rates[some, np.newaxis]
            out[some] += of_components(a, b, r).sum(axis=2)
            a, b = prior[0][some, np.newaxis], prior[1][some, np.newaxis]
            out[some] -= K * _log_beta(a, b, self.inverses[some])
        return out


def dispersions_of(rows: LinearRows, given: np.ndarray | None, row_weights: np.ndarray | None = None) -> Dispersions:
    """Possible dispersions of the features of rows of counts; those `given`, or between 1e-4 and 100."""
    m = rows.n_features
    inverses = np.tile(_INVERSES, (m, 1)) if given is None else 1.0 / given[:, np.newaxis]
    of_rows = np.ones(rows.n_rows) if row_weights is None else row_weights
    weights = np.repeat(of_rows, np.diff(rows.indptr))
    n_missing = np.bincount(rows.indices, weights=weights, minlength=2 * m)[m:]
    sums, order = np.zeros(inverses.shape), np.argsort(rows.indices, kind="stable")
    ends = np.searchsorted(rows.indices[order], np.arange(m + 1))
    for j in range(m):  # zeros add nothing
        entries = order[ends[j] : ends[j + 1]]
        values, which = np.unique(rows.counts[entries], return_inverse=True)
        of_values = np.bincount(which, weights=weights[entries], minlength=len(values))
        sums[j] = of_values @ (gammaln(values[:, np.newaxis] + inverses[j]) - gammaln(inverses[j]))
    return Dispersions(inverses, sums / np.maximum(of_rows.sum() - n_missing, 1e-300)[:, np.newaxis])


def fixed(inverses: np.ndarray) -> Dispersions:
    """One possible value for each feature, without rows."""
    return Dispersions(inverses[:, np.newaxis], np.zeros((len(inverses), 1)))


def _log_beta(shapes: np.ndarray, rates: np.ndarray, inverses: np.ndarray) -> np.ndarray:
    return betaln(shapes, 1.0 + rates * inverses)


_OF_DISPERSIONS, _OF_PROBABILITIES = 0, 1  # uses of the key of a draw


class NegativeBinomialParameters(NamedTuple):
    """Parameters of K components as in `LinearParameters`, and `sizes`, (n_features,), the r that all share.

    `naturals`, (2 * n_features, K), are log p, and -r log(1 - p), which a missing cell adds.
    """

    offsets: Annotated[np.ndarray, Array("float64", "n_components")]
    naturals: Annotated[np.ndarray, Array("float64", "n_statistics n_components", low=-MOST_NATURAL, high=MOST_NATURAL)]
    means: Annotated[np.ndarray, Array("float64", "n_dimensions n_components", low=0, high=MOST_NATURAL)]
    sizes: Annotated[np.ndarray, Array("float64", "n_dimensions", above=0)]


class NegativeBinomialFamily(CountFamily):
    """Family of negative binomial rows, whose statistics are the counts of a row, followed by its missing cells.

    The prior of p is Beta(shape, 1 + rate * r). All components share dispersions: parameters, but in bound families
    hyperparameters.
    """

    shape: Annotated[np.ndarray, PRIOR]
    rate: Annotated[np.ndarray, PRIOR]
    dispersions: Saved[Dispersions]

    parameters_type = NegativeBinomialParameters
    fill_rows: ClassVar[Any] = kernels.fill_negative_binomial
    rows_per_statistic: ClassVar[int] = 1000

    prior: np.ndarray  # inverse dispersions, of a family with rows
    free: Lacking[Dispersions | None] = None  # possible ones, if chains of a Dirichlet process mixture draw them

    def __init__(self, shape: np.ndarray, rate: np.ndarray, dispersions: Dispersions, n_components: int) -> None:
        super().__init__(shape, rate, n_components)
        self.dispersions = dispersions

    def add_log_densities(self, rows: LinearRows, first: int, stop: int, parameters: Any, out: np.ndarray) -> None:
        """Add the log densities of the rows `first` to `stop` given each component, without their ``log_base``."""
        super().add_log_densities(rows, first, stop, parameters, out)
        kernels.add_log_rising(first, stop, *rows[:3], parameters.sizes, out)

    def mode(self, statistics: Arrays) -> NegativeBinomialParameters:
        """The posterior mode of the logs of p and of the dispersions."""
        return self._mode(statistics, self.dispersions.most_probable(self._known(statistics)))

    def _mode(self, statistics: Arrays, sizes: np.ndarray) -> NegativeBinomialParameters:
        """The posterior mode of the logs of p, given the inverse dispersions."""
        shapes, rates = self._by_feature(statistics)
        return self._parameters(np.log(shapes) - np.log(rates) - np.log(sizes)[:, None], sizes)

    def draw(self, statistics: Arrays, key: np.uint64) -> NegativeBinomialParameters:
        """Draw dispersions given the partition, and then p from the beta posteriors."""
        sizes = self.dispersions.drawn(self._known(statistics), subkey(key, _OF_DISPERSIONS))
        return self._draw_given(sizes, statistics, subkey(key, _OF_PROBABILITIES), ONE)

    def log_prior(self, parameters: NegativeBinomialParameters) -> float:
        """Log prior density of the logs of p, up to a constant."""
        log_p, of_missing = np.split(parameters.naturals, 2)
        of_each = self.shape[:, None] * log_p - self.rate[:, None] * of_missing
        return float(of_each.sum() - self.n_components * betaln(self.shape, 1.0 + self.rate * parameters.sizes).sum())

    def log_likelihood(self, statistics: Arrays, parameters: Any) -> float:
        """Log density of rows with these statistics given their components, without their ``log_base``."""
        of_cells = self.dispersions.log_rising(parameters.sizes, self._n_observed(statistics))
        return super().log_likelihood(statistics, parameters) + of_cells

    def seed_weighted_labels(self, rows: LinearRows, key: np.uint64, row_weights: np.ndarray | None) -> np.ndarray:
        """Initial labels by k-means of the logs of counts plus one."""
        return cluster_rows(np.log1p(rows.cells()), self.n_components, key, row_weights)

    def n_parameters(self) -> int:
        """Number of free parameters: a mean for each feature of each component, and a dispersion for each feature."""
        n_free = self.n_features if self.dispersions.inverses.shape[1] > 1 else 0
        return self.n_components * self.n_features + n_free

    def cell_distribution(self, attributes: dict[str, Any]) -> OverdispersedCells:
        """The distributions of single cells of components with these attributes."""
        return OverdispersedCells(attributes["components_"], attributes["dispersions_"])

    def attributes(self, parameters: Any) -> dict[str, Any]:
        """The fitted attributes ``components_``, the expected rows, and ``dispersions_``."""
        return {**super().attributes(parameters), "dispersions_": 1.0 / parameters.sizes}

    def parameters_again(self, naturals: np.ndarray, sizes: np.ndarray) -> NegativeBinomialParameters:
        """The parameters with these natural parameters and inverse dispersions."""
        log_p, of_missing = np.split(naturals, 2)
        return self._parameters(log_p + of_missing / sizes[:, None], sizes)

    def _known(self, statistics: Arrays) -> Known:
        """What the distribution of the dispersions depends on."""
        shapes, rates = self._by_feature(statistics)
        return shapes, rates, (self.shape, self.rate), self._n_observed(statistics)

    def _n_observed(self, statistics: Arrays) -> np.ndarray:
        """Numbers of observed cells of all components, (n_features,)."""
        return np.ascontiguousarray(self.observed(statistics).T).sum(axis=1)

    def _of_naturals(self, naturals: np.ndarray, sizes: np.ndarray) -> NegativeBinomialParameters:
        """Parameters with these natural parameters."""
        log_p, of_missing = np.split(naturals, 2)
        logits = log_p + of_missing / sizes[:, None]
        return NegativeBinomialParameters(-of_missing.sum(axis=0), naturals, _means(logits, sizes), sizes)

    def _parameters(self, logits: np.ndarray, sizes: np.ndarray) -> NegativeBinomialParameters:
        """Parameters with these logits of p."""
        of_missing = sizes[:, None] * np.logaddexp(0.0, logits)
        naturals = np.concatenate([-np.logaddexp(0.0, -logits), of_missing])
        return NegativeBinomialParameters(-of_missing.sum(axis=0), naturals, _means(logits, sizes), sizes)

    # With rows, and with dispersions as hyperparameters

    def clusters(self, rows: LinearRows | None = None) -> NegativeBinomialFamily:
        """The family with rows and the dispersions that are most probable if all rows are in one cluster."""
        prior = self.dispersions.inverses[:, 0]
        if self.dispersions.inverses.shape[1] > 1 and rows is not None:
            sums = np.array([rows.n_rows]), rows.overall(self.n_statistics)[np.newaxis]
            prior = self.dispersions.most_probable_marginal(self._known(sums))
        return self._replaced(prior=prior)._bound(self._no_rows() if rows is None else rows)

    def with_learned_prior(self, statistics: LinearCounts, free: Any) -> NegativeBinomialFamily:
        """The same rows with the most probable dispersions given a partition."""
        known = self._known(selected(statistics, occupied(statistics)))
        return self.with_prior(self._possible.most_probable_marginal(known))

    # Dispersions that chains draw

    def with_hyperprior(self, free: Any, before: NegativeBinomialFamily) -> NegativeBinomialFamily:
        """The family whose dispersions are the start of a chain; those possible are the ones of `before`."""
        return self._replaced(free=before.dispersions)

    @property
    def hyperparameters(self) -> np.ndarray:  # type: ignore[override]
        """Inverse dispersions; empty if they are fixed."""
        return np.empty(0) if self.free is None else self.prior

    def _with_drawn(self, inverses: np.ndarray, values: Any) -> NegativeBinomialFamily:
        return self.with_prior(inverses)

    def redraw_hyperparameters(self, labels: np.ndarray, statistics: Any, key: np.uint64, workers: Workers) -> Any:
        """Statistics with other dispersions, drawn given the partition."""
        if self.free is None:
            return statistics
        known = self._known(selected(statistics, occupied(statistics)))
        return statistics._replace(hyperparameters=self.free.drawn(known, key))

    def hyperparameters_of(self, statistics: LinearCounts) -> dict[str, np.ndarray]:
        """Drawn dispersions."""
        return {} if self.free is None else {"dispersions": 1.0 / statistics.hyperparameters}

    def with_drawn_hyperparameters(self, key: np.uint64) -> NegativeBinomialFamily:
        """The family with dispersions drawn from their prior."""
        if self.free is None:
            return self
        nothing = np.zeros(1), np.zeros((1, self.n_statistics))
        return self._replaced(dispersions=fixed(self.free.drawn(self._known(nothing), key)))

    @cached_property
    def _possible(self) -> Dispersions:
        """Possible dispersions of these rows, which every round of learning needs."""
        return dispersions_of(self.rows, None)

    def _bound(self, rows: LinearRows) -> NegativeBinomialFamily:
        bound = super()._bound(rows)
        vars(bound).pop("_possible", None)
        log_rising = np.zeros((rows.n_rows, 1))
        kernels.add_log_rising(0, rows.n_rows, *rows[:3], self.prior, log_rising)
        bound.log_base = log_rising[:, 0] if rows.log_base is None else log_rising[:, 0] + rows.log_base
        return bound

    def prepare(self, rows: LinearRows) -> kernels.NegativeBinomialData:
        """Rows and prior, as the kernels read them."""
        refuse_fractions(rows, "negative_binomial", "whole counts")
        groups = group_features(rows, self.shape, self.rate, self.prior)
        return kernels.NegativeBinomialData(*rows[:3], rows.n_features, self.shape, self.rate, self.prior, groups)

    def draw_components(
        self, statistics: LinearCounts, labels: np.ndarray, key: np.uint64, workers: Workers
    ) -> NegativeBinomialParameters:
        """Draw p of the components given the dispersions."""
        return self._draw_given(self.prior, selected(statistics, labels), key, workers)

    def _draw_given(
        self, sizes: np.ndarray, statistics: Arrays, key: np.uint64, workers: Workers
    ) -> NegativeBinomialParameters:
        """Draw p from the beta posteriors, given the inverse dispersions."""
        shapes, rates = self._by_feature(statistics)
        above, below = self._draw_log_gammas(shapes, 1.0 + rates * sizes[:, None], key=key, workers=workers)
        both = np.logaddexp(above, below)
        return self._of_naturals(np.concatenate([above - both, sizes[:, None] * (both - below)]), sizes)

    def _log_marginals_of_cells(self, statistics: LinearCounts) -> np.ndarray:
        shapes, rates = self._posterior(statistics)
        return betaln(shapes, 1.0 + rates * self.prior) - betaln(self.shape, 1.0 + self.rate * self.prior)

    def _without_others(self, columns: np.ndarray) -> Self:
        free = None if self.free is None else self.free.of_columns(columns)
        chosen = super()._without_others(columns)._replaced(dispersions=self.dispersions.of_columns(columns), free=free)
        return chosen if self.prior is None else chosen._replaced(prior=self.prior[columns])

    def log_marginals_of_columns(self, statistics: LinearCounts) -> np.ndarray:
        """Log densities of the observed cells of each column, given the labels of the rows."""
        of_cells = kernels.log_rising_of_columns(self.rows.indices, self.rows.counts, self.prior)
        return super().log_marginals_of_columns(statistics) + of_cells

    def mean(self, statistics: LinearCounts) -> NegativeBinomialParameters:
        """The posterior mode of the logs of p, where expected counts are their posterior means."""
        return self._mode(statistics, self.prior)

    def arrays_of(self, components: NegativeBinomialParameters) -> dict[str, np.ndarray]:
        """Drawn means, (K, n_features), without the dispersions, which are hyperparameters."""
        return {"components": components.means.T}

    def add_densities_of_rows(self, components: NegativeBinomialParameters, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the rows given each component; `log_base` has the terms of the dispersions."""
        shared = *self.rows[:3], *components[:2]
        self._add_by_ranges(lambda a, b, scores: add_linear_scores(a, b, *shared, scores), out, workers)

    def add_log_predictive(self, statistics: LinearCounts, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster."""
        (x, rates), r = self._by_feature(statistics), self.prior[:, None]
        y = 1.0 + rates * r
        of_zeros = _log_rising(y, r) - _log_rising(x + y, r)
        sums = x + y + r
        naturals = np.concatenate([np.log(x) - np.log(sums), -of_zeros])
        self._add_given_sums((of_zeros.sum(axis=0), naturals, x, sums), out, workers)


def _means(logits: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Expected counts, (n_features, K), given the logits of p."""
    return np.minimum(sizes[:, None] * np.exp(np.minimum(logits, 100.0)), MOST_NATURAL)


def _log_rising(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Log of Gamma(x + n) / Gamma(x), by beta functions, which keep the digits of large x."""
    return gammaln(n) - betaln(x, n)


LEAST_DISPERSION, MOST_DISPERSION = 1e-6, 1e6


@dataclass(eq=False, repr=False)
class NegativeBinomial(CountEmission):
    r"""Counts of features whose variance exceeds the mean, independent given the component.

    .. math:: p(x_i \mid z_i = k) = \prod_{j \text{ observed}} \frac{\Gamma(x_{ij} + r_j)}{\Gamma(r_j) \, x_{ij}!}
        p_{kj}^{x_{ij}} (1 - p_{kj})^{r_j}, \qquad p_{kj} \sim \mathrm{Beta}(a_j, 1 + b_j r_j).

    A count has the mean :math:`\mu_{kj} = r_j p_{kj} / (1 - p_{kj})` and the variance
    :math:`\mu_{kj} + \mu_{kj}^2 / r_j`. The *dispersion* of a feature is :math:`1 / r_j`, the same in all components;
    counts with a small dispersion are nearly Poisson. Numbers of visits, purchases or events per person usually have a
    dispersion near 1. Poisson components describe such a column by several components, one for each range of the
    counts.

    The prior mean of :math:`\mu_{kj}` is :math:`a_j / b_j`. With the sums :math:`s_{kj}` and the numbers :math:`n_{kj}`
    of observed cells of a component, the mode in the natural parameter :math:`\log p_{kj}` is

    .. math:: \mu_{kj} = \frac{a_j + s_{kj}}{b_j + n_{kj}}.

    Cells with NaN are missing, and assumed missing at random: density and statistics leave them out. Admixtures do not
    accept this emission.

    Parameters
    ----------
    dispersion : float or array-like of shape (n_features,), default=None
        Dispersions, between 1e-6 and 1e6. None learns them, see Notes.
    shape_prior : float or array-like of shape (n_features,), default=None
        Positive :math:`a_j`. None is `rate_prior` times the mean of the feature, as for
        :class:`~skmanifold.emissions.Poisson`.
    rate_prior : float or array-like of shape (n_features,), default=0.5
        Positive :math:`b_j`: the number of rows to which the prior is equivalent.

    Notes
    -----
    A learned dispersion is one of 121 values between 1e-4 and 100, with equal ratios and equal prior probabilities.
    :class:`~skmanifold.ExponentialFamilyMixture` estimates it in each pass: samplers that maximise (``"em"``,
    ``"esca"``) take the joint mode of dispersions and :math:`p_{kj}` given the partition, and ``"gibbs"`` draws the
    dispersions given the partition, with :math:`p_{kj}` integrated out, and then :math:`p_{kj}`; both steps are exact.
    :class:`~skmanifold.DPMixture` learns dispersions before sampling, by maximum marginal likelihood given partitions
    of a sample of the rows, as it learns the prior of Gaussian components; ``emission_`` has the learned numbers. With
    ``hyperparameters="draw"`` they are the start of chains that draw them in each pass, as ``"gibbs"`` does, and
    ``posterior_["dispersions"]`` has the draws.

    Fractional counts are weights: ``ExponentialFamilyMixture`` uses them as they are, with gamma functions in place of
    factorials.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import ExponentialFamilyMixture
    >>> from skmanifold.emissions import NegativeBinomial
    >>> rng = np.random.default_rng(0)
    >>> visits = rng.negative_binomial(1.5, 0.2, size=(500, 1))
    >>> mixture = ExponentialFamilyMixture(1, emission=NegativeBinomial(), random_state=0).fit(visits)
    >>> mixture.dispersions_.shape
    (1,)
    """

    short_name = "negative_binomial"
    row_family = NegativeBinomialFamily
    _parameter_constraints: ClassVar[dict] = {
        "dispersion": [None, Interval(Real, LEAST_DISPERSION, MOST_DISPERSION, closed="both"), "array-like"],
        **CountEmission._parameter_constraints,
    }

    dispersion: float | ArrayLike | None = None
    shape_prior: float | ArrayLike | None = None
    rate_prior: float | ArrayLike = 0.5

    def bind_weighted(
        self, rows: LinearRows, n_components: int, row_weights: np.ndarray | None
    ) -> NegativeBinomialFamily:
        """Make the family of rows; the default prior and the dispersions use their weights."""
        dispersions = dispersions_of(rows, self._dispersion_of(rows), row_weights)
        return NegativeBinomialFamily(*self._prior_of_means(rows, row_weights), dispersions, n_components)

    def free_hyperparameters(self) -> tuple[str, ...]:
        """Hyperparameters that Dirichlet process mixtures learn, since they are None."""
        return ("dispersion",) if self.dispersion is None else ()

    def with_prior_of(self, clusters: Any) -> NegativeBinomial:
        """The emission with the dispersions of clusters."""
        return NegativeBinomial(1.0 / clusters.prior, self.shape_prior, self.rate_prior)

    def _dispersion_of(self, rows: LinearRows) -> np.ndarray | None:
        if self.dispersion is None:
            return None
        values = positive_prior(self.dispersion, rows.n_features, "dispersion")
        if values.min() < LEAST_DISPERSION or values.max() > MOST_DISPERSION:
            raise ValueError(f"dispersion must be between {LEAST_DISPERSION:g} and {MOST_DISPERSION:g}.")
        return values
