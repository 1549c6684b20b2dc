"""Emission of columns of category codes, with a Dirichlet prior for each column."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator

from ..numerics.special import log_rising
from ..utils._conditions import MOST_COUNTED, Array, Pointer, Sizes
from ..utils._declared import Lacking
from ..utils._njit import njit
from ..utils._sklearn import Interval, StrOptions
from ..utils._threads import ONE, Workers, split_range
from ..utils._typing import ArrayLike, MatrixLike
from ._base import WeighableEmission, positive_prior, refuse_unset
from ._categories import CategoryCounts, CategoryFamily, log_marginals_of_columns
from ._cells import CategoryCells
from ._codes import Table, categories_of, category_table, fill_codes, fit_categories, given_categories, validate_codes
from ._linear import ColumnwiseFamily, drawn_places
from ._statistics import occupied

# An unknown Dirichlet parameter of a column is one of finitely many values.
_MEDIAN = 0.5
VALUES = np.geomspace(0.01, 10.0, 41)  # adjacent values differ by a factor of 1.19
_LOG_WEIGHTS = -0.5 * np.log(VALUES / _MEDIAN) ** 2
LOG_PRIOR = _LOG_WEIGHTS - np.log(np.exp(_LOG_WEIGHTS).sum())
_CELLS_OF_TASK = 5_000  # counts of categories by label, with each value: about a millisecond


class CategoricalFamily(ColumnwiseFamily, CategoryFamily):
    """Family of rows of codes, whose statistics are one token for each observed cell.

    `prior` is the pseudo-count of each category, (n_categories,), the same for those of a column; the constructor takes
    one number, or one for each column.
    """

    column_start: Annotated[np.ndarray, Pointer("n_dimensions", "n_categories")]
    prior: Annotated[np.ndarray, Array("float64", "n_categories", above=0, high=MOST_COUNTED)]

    draws_prior: Lacking[bool] = False  # whether chains draw the pseudo-counts

    def _disagreement(self, sizes: Sizes) -> str | None:
        if (np.diff(self.column_start) < 1).any():
            return "has a column without categories"
        is_same = (self.prior == self._spread(self.prior[self.column_start[:-1]])).all()
        return None if is_same else "has a column with several pseudo-counts"

    def __init__(self, prior: float | np.ndarray, column_start: np.ndarray, n_components: int) -> None:
        self.column_start = column_start
        self.n_components = n_components
        self.n_features = len(column_start) - 1
        self.prior = self._spread(np.full(self.n_features, prior))

    def _attributes(self, probabilities: np.ndarray) -> dict[str, Any]:
        columns = pairwise(self.column_start.tolist())
        components = [np.ascontiguousarray(probabilities[start:stop].T) for start, stop in columns]
        return {"components_": components, "n_categories_": np.diff(self.column_start)}

    def _without_others(self, columns: np.ndarray) -> Self:
        """A copy with the Dirichlet parameters of some columns, whose indices ascend."""
        prior = self.prior[categories_of(self.column_start, columns)]
        column_start = np.append(0, np.cumsum(np.diff(self.column_start)[columns]))
        return self._replaced(n_features=len(columns), column_start=column_start, prior=prior)

    def log_marginals_of_columns(self, statistics: CategoryCounts) -> np.ndarray:
        """Log densities of the observed cells of each column, given the labels of the rows."""
        counts = statistics.categories[:, occupied(statistics)]
        of_columns = log_marginals_of_columns(np.ascontiguousarray(counts.T), self.column_start, self.data.prior)
        bases = self.rows.bases_of_categories
        return of_columns if bases is None else of_columns + self._sums_of_columns(counts.sum(axis=1) * bases)

    # Pseudo-counts of columns that are unknown

    def with_learned_prior(self, statistics: CategoryCounts, free: Any) -> Self:
        """The same rows with the most probable pseudo-counts given a partition."""
        return self._with_drawn(VALUES[self._log_posterior(statistics, ONE).argmax(axis=1)], ())

    def with_hyperprior(self, free: Any, before: Any) -> Self:
        """The family for chains that draw the pseudo-counts of columns."""
        return self._replaced(draws_prior=True)

    @property
    def hyperparameters(self) -> np.ndarray:  # type: ignore[override]
        """Pseudo-counts of the categories of each column; empty if they are fixed."""
        return self.prior[self.column_start[:-1]] if self.draws_prior else np.empty(0)

    def _with_drawn(self, prior: np.ndarray, values: Any) -> Self:
        return self.with_prior(self._spread(prior))

    def redraw_hyperparameters(self, labels: np.ndarray, statistics: Any, key: np.uint64, workers: Workers) -> Any:
        """Statistics with other pseudo-counts, drawn given the partition."""
        if not self.draws_prior:
            return statistics
        places = drawn_places(self._log_posterior(statistics, workers), key)
        return statistics._replace(hyperparameters=VALUES[places])

    def hyperparameters_of(self, statistics: CategoryCounts) -> dict[str, np.ndarray]:
        """Drawn pseudo-counts."""
        return {"category_prior": statistics.hyperparameters} if self.draws_prior else {}

    def log_hyperprior(self, statistics: CategoryCounts) -> float:
        """Log prior probability of the pseudo-counts; 0 if they are fixed."""
        return float(LOG_PRIOR[np.searchsorted(VALUES, statistics.hyperparameters)].sum())

    def with_drawn_hyperparameters(self, key: np.uint64) -> Self:
        """The family with pseudo-counts drawn from their prior."""
        if not self.draws_prior:
            return self
        places = drawn_places(np.tile(LOG_PRIOR, (self.n_features, 1)), key)
        return self._replaced(prior=self._spread(VALUES[places]))

    def _frequent_prior(self) -> float:
        return _MEDIAN if self.draws_prior else super()._frequent_prior()

    def _log_posterior(self, statistics: CategoryCounts, workers: Workers) -> np.ndarray:
        """Log posterior probability of each value for each column up to a constant, (n_columns, n_values)."""
        counts, labels, out = statistics.categories, occupied(statistics), np.tile(LOG_PRIOR, (self.n_features, 1))
        cells_of_column = 1 + len(counts) * len(labels) // max(1, self.n_features)
        tasks = split_range(self.n_features, 1 + _CELLS_OF_TASK // cells_of_column)
        shared = self.column_start, counts, labels, VALUES, out
        workers.run(_add_log_marginals, [(*task, *shared) for task in tasks])
        return out

    def highest_log_densities(self, rows: Table) -> np.ndarray:
        """Log densities with probabilities of 1 for the codes of the row: zero."""
        return np.zeros(rows.n_rows)

    def cell_distribution(self, attributes: dict[str, Any]) -> CategoryCells:
        """The distributions of single cells of components with these attributes."""
        return CategoryCells(attributes["components_"])

    def sample(self, parameters: np.ndarray, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw new rows from given components, without missing cells."""
        out = np.empty((len(labels), self.n_features), np.int64)
        fill_codes(key, labels, np.ascontiguousarray(np.exp(parameters).T), self.column_start, out)
        return out

    def new_rows(self, statistics: CategoryCounts, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Codes drawn from the predictive distributions, whose probabilities are posterior means."""
        return self.sample(self.mode(statistics), labels, key)


@njit(cache=True, nogil=True)
def _add_log_marginals(first, stop, column_start, counts, labels, values, out):
    """Add to `out` the log marginal probabilities of the columns `first` to `stop` given each value."""
    for column in range(first, stop):
        start, end = column_start[column], column_start[column + 1]
        for label in labels:
            total = np.int64(0)
            for category in range(start, end):
                count = counts[category, label]
                total += count
                if count > 0:
                    for i in range(len(values)):
                        out[column, i] += log_rising(values[i], count)
            if total > 0:
                for i in range(len(values)):
                    out[column, i] -= log_rising(values[i] * (end - start), total)


@dataclass(eq=False, repr=False)
class Categorical(WeighableEmission):
    r"""Columns of category codes, independent given the component: latent class models with any number of categories.

    .. math:: p(x_i \mid z_i = k) = \prod_{c \text{ observed}} \theta_{k c x_{ic}}, \qquad
        \theta_{kc} \sim \mathrm{Dir}(a, \dots, a).

    Codes are whole numbers from 0, such as scikit-learn's ``OrdinalEncoder`` returns. Each column has its own number of
    categories. It is the largest code in `fit` plus 1, or `min_categories` if that is larger. The estimator stores
    these numbers in ``n_categories_``.

    The statistics of a component are the numbers :math:`s_{kcv}` of its cells with code v in column c. The mode in the
    natural (softmax) parameters is

    .. math:: \theta_{kcv} = \frac{s_{kcv} + a}{\sum_w (s_{kcw} + a)}.

    Cells with NaN are missing, and assumed missing at random: density and statistics leave them out.

    Parameters
    ----------
    category_prior : float, array-like of shape (n_features,) or None, default=0.5
        Positive pseudo-count a of each category, of all columns or of each. None: unknown, see Notes.
    min_categories : int, array-like of shape (n_features,) or None, default=None
        Minimum number of categories of each column, for categories that do not occur in `fit`. None means 1.
    handle_unknown : {"error", "ignore"}, default="error"
        How to handle a code that exceeds the fitted categories of its column. "ignore" treats it as missing.

    Notes
    -----
    An unknown `category_prior` is different for each column: one of 41 values between 0.01 and 10 with equal ratios,
    whose prior probabilities are in proportion to the density of a normal distribution of their logarithms, with the
    median 0.5 and the standard deviation 1. Columns whose categories separate the components have small values.
    :class:`~skmanifold.DPMixture` learns the values before sampling: those that are most probable given partitions of a
    sample of the rows. Then each pass draws them from their exact distribution given the partition, with the
    probabilities of the categories integrated out, unless ``hyperparameters="learn"``;
    ``posterior_["category_prior"]`` has the draws. :class:`~skmanifold.DPCategoricalMixture` draws them too, and its
    chains start from the median. :class:`~skmanifold.ExponentialFamilyMixture` uses the median.

    Admixtures do not accept this emission. `DPCategoricalMixture` also has the parameters `min_categories` and
    `handle_unknown`. Set them there or in the emission, not in both.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import ExponentialFamilyMixture
    >>> from skmanifold.emissions import Categorical
    >>> colours, sizes = [0, 0, 2, 2, 1, 0], [1, 1, 0, 0, np.nan, 1]
    >>> mixture = ExponentialFamilyMixture(2, emission=Categorical(category_prior=0.1), random_state=0)
    >>> mixture = mixture.fit(np.column_stack([colours, sizes]))
    >>> mixture.n_categories_
    array([3, 2])
    >>> [probabilities.shape for probabilities in mixture.components_]
    [(2, 3), (2, 2)]
    """

    short_name = "categorical"
    allows_missing = True
    allows_sparse = False
    has_codes = True
    stores = ("n_categories_",)
    row_family = CategoricalFamily
    _parameter_constraints: ClassVar[dict] = {
        "category_prior": [None, Interval(Real, 0, MOST_COUNTED, closed="right"), "array-like"],
        "min_categories": [None, Interval(Integral, 1, None, closed="left"), "array-like"],
        "handle_unknown": [StrOptions({"error", "ignore"})],
    }

    category_prior: float | ArrayLike | None = 0.5
    min_categories: int | ArrayLike | None = None
    handle_unknown: Literal["error", "ignore"] = "error"

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> Table:
        """Validate X of codes."""
        codes, stored = validate_codes(estimator, X, reset=reset), vars(estimator)
        if reset:
            column_start = fit_categories(estimator, codes, self.min_categories)
            stored["n_categories_"] = np.diff(column_start)
        else:
            column_start = np.concatenate(([0], np.cumsum(stored["n_categories_"])))
        return category_table(estimator, codes, column_start, handle_unknown=self.handle_unknown)

    def prior_family(self, n_features: int, n_components: int, n_tokens: int) -> CategoricalFamily:
        """Make a family whose hyperparameters do not depend on rows."""
        refuse_unset(self, "min_categories")
        return self._family_of(given_categories(self.min_categories, n_features), n_components)

    def disagrees(self, family: Any, reader: Any) -> str | None:
        """Why a family that was read from a file is not one of this emission; None if it is."""
        if problem := super().disagrees(family, reader):
            return problem
        same = np.array_equal(vars(reader).get("n_categories_", ()), np.diff(family.column_start))
        return None if same else "has other numbers of categories than its family"

    def bind_weighted(self, rows: Table, n_components: int, row_weights: np.ndarray | None) -> CategoricalFamily:
        """Make the family of rows, which does not depend on the weights."""
        return self._family_of(rows.column_start, n_components)

    def free_hyperparameters(self) -> tuple[str, ...]:
        """Hyperparameters that Dirichlet process mixtures learn, since they are None."""
        return ("category_prior",) if self.category_prior is None else ()

    def with_prior_of(self, clusters: CategoricalFamily) -> Categorical:
        """The emission with the pseudo-counts of clusters."""
        return Categorical(clusters.prior[clusters.column_start[:-1]], self.min_categories, self.handle_unknown)

    def _family_of(self, column_start: np.ndarray, n_components: int) -> CategoricalFamily:
        given = _MEDIAN if self.category_prior is None else self.category_prior
        prior = positive_prior(given, len(column_start) - 1, "category_prior")
        return CategoricalFamily(prior, column_start, n_components)
