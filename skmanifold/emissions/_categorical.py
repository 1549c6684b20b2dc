"""Emission of columns of category codes, with a Dirichlet prior for each column."""

from __future__ import annotations

from copy import copy
from itertools import pairwise
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator

from ..utils._conditions import MOST_COUNTED, Array, Pointer, Sizes
from ..utils._sklearn import Interval, StrOptions
from ..utils._typing import ArrayLike, MatrixLike
from ._base import WeighableEmission, refuse_unset
from ._categories import CategoryCounts, CategoryFamily, log_marginals_of_columns
from ._cells import CategoryCells
from ._codes import Table, category_table, fill_codes, fit_categories, given_categories, validate_codes
from ._statistics import occupied


class CategoricalFamily(CategoryFamily):
    """Family of rows of codes, whose statistics are one token for each observed cell; `prior` is a pseudo-count."""

    column_start: Annotated[np.ndarray, Pointer("n_dimensions", "n_categories")]
    prior: Annotated[np.ndarray, Array("float64", "n_categories", above=0, high=MOST_COUNTED)]

    def _disagreement(self, sizes: Sizes) -> str | None:
        return "has a column without categories" if (np.diff(self.column_start) < 1).any() else None

    def __init__(self, prior: float, column_start: np.ndarray, n_components: int) -> None:
        self.column_start = column_start
        self.n_components = n_components
        self.n_features = len(column_start) - 1
        self.prior = np.full(int(column_start[-1]), prior)

    def _attributes(self, probabilities: np.ndarray) -> dict[str, Any]:
        columns = pairwise(self.column_start.tolist())
        components = [np.ascontiguousarray(probabilities[start:stop].T) for start, stop in columns]
        return {"components_": components, "n_categories_": np.diff(self.column_start)}

    def separated(self) -> Self:
        """The same family, since columns share no hyperparameters."""
        return self

    def with_priors_of(self, columns: list[Any]) -> Any:
        """The same family, since it learns no prior."""
        return self

    def of_columns(self, columns: np.ndarray) -> Self:
        """The family, and the rows to which it is bound, of some columns."""
        chosen, sizes = copy(self), np.diff(self.column_start)
        chosen.n_features, chosen.column_start = len(columns), np.append(0, np.cumsum(sizes[columns]))
        chosen.prior = self.prior[np.repeat(np.isin(np.arange(self.n_features), columns), sizes)]
        return chosen._bound(self.rows.of_columns(columns)) if hasattr(self, "data") else chosen

    def log_marginals_of_columns(self, statistics: CategoryCounts) -> np.ndarray:
        """Log densities of the observed cells of each column, given the labels of the rows."""
        counts = statistics.categories[:, occupied(statistics)]
        of_columns = log_marginals_of_columns(np.ascontiguousarray(counts.T), self.column_start, self.data.prior)
        bases = self.rows.bases_of_categories
        return of_columns if bases is None else of_columns + self._sums_of_columns(counts.sum(axis=1) * bases)

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
    category_prior : float, default=0.5
        Positive pseudo-count a of each category.
    min_categories : int, array-like of shape (n_features,) or None, default=None
        Minimum number of categories of each column, for categories that do not occur in `fit`. None means 1.
    handle_unknown : {"error", "ignore"}, default="error"
        How to handle a code that exceeds the fitted categories of its column. "ignore" treats it as missing.

    Notes
    -----
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
        "category_prior": [Interval(Real, 0, MOST_COUNTED, closed="right")],
        "min_categories": [None, Interval(Integral, 1, None, closed="left"), "array-like"],
        "handle_unknown": [StrOptions({"error", "ignore"})],
    }

    def __init__(
        self,
        category_prior: float = 0.5,
        min_categories: int | ArrayLike | None = None,
        handle_unknown: Literal["error", "ignore"] = "error",
    ) -> None:
        self.category_prior = category_prior
        self.min_categories = min_categories
        self.handle_unknown = handle_unknown

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
        column_start = given_categories(self.min_categories, n_features)
        return CategoricalFamily(float(self.category_prior), column_start, n_components)

    def disagrees(self, family: Any, reader: Any) -> str | None:
        """Why a family that was read from a file is not one of this emission; None if it is."""
        if problem := super().disagrees(family, reader):
            return problem
        same = np.array_equal(vars(reader).get("n_categories_", ()), np.diff(family.column_start))
        return None if same else "has other numbers of categories than its family"

    def bind_weighted(self, rows: Table, n_components: int, row_weights: np.ndarray | None) -> CategoricalFamily:
        """Make the family of rows, which does not depend on the weights."""
        return CategoricalFamily(float(self.category_prior), rows.column_start, n_components)
