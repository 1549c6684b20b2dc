"""Emission of numbers that repeat some values exactly: point masses, and a Gaussian distribution of the other cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import ndtr, rel_entr
from sklearn.base import BaseEstimator, clone

from ..random._keys import subkey
from ..utils._conditions import MOST_COUNTED, Array, Integer, Sizes
from ..utils._declared import Saved
from ..utils._sklearn import Interval, StrOptions
from ..utils._typing import ArrayLike, MatrixLike
from ._base import WeighableEmission
from ._categorical import Categorical, CategoricalFamily
from ._cells import CategoryCells, ExpectedCells, IndependentNumbers, add_mixed
from ._codes import category_table
from ._columns.family import ColumnsFamily
from ._columns.rows import ColumnRows, vectors_of
from ._dense_rows import DenseRows, read_dense
from ._gaussian.base import GaussianFamily
from ._gaussian.emission import Gaussian
from ._rounding import cell_width

_LEAST_RATIO = 3.0  # of the count of a spike and those of all values that are none
_LEAST_ROWS, _LEAST_SHARE = 10, 0.03  # of a spike
_MOST_CELLS, _LEAST_DEVIANCE = 25, 5.0  # of a column all values of which are spikes
_ROWS_COMPARED = 1000.0  # small deviations from smooth counts are significant with more rows
_N_STEPS = 300  # of the EM algorithm
_CHOSEN = "spikes", "cell_widths"
_NOISE = 1e-12  # relative difference of numbers that are equal


def spikes_of(column: np.ndarray, width: float) -> np.ndarray:
    """Values of a column that repeat more often than a smooth density explains, ascending; `width` is that of cells.

    Spikes have three times as many rows as each of the other values, which are at least as many values. All values are
    spikes if they are on a grid with few cells, and no mixture of normal distributions that are as wide as a cell has
    about the same counts.
    """
    seen = column[~np.isnan(column)]
    cells = np.rint((seen - seen.min()) / width).astype(int) if width else seen
    _, first, counts = np.unique(cells, return_index=True, return_counts=True)
    values = seen[first]
    if len(values) < 2:
        return values[:0]
    has_few = width and cells.max() < _MOST_CELLS and len(seen) >= _LEAST_ROWS * len(values)
    if has_few and _unexplained(np.bincount(cells)) > _LEAST_DEVIANCE:
        return values
    order = np.argsort(-counts, kind="stable")
    ordered = counts[order]
    is_above = ordered >= np.maximum(_LEAST_RATIO * np.append(ordered[1:], 0), _LEAST_ROWS)
    chosen = np.flatnonzero((is_above & (ordered >= _LEAST_SHARE * len(seen)))[: len(values) // 2])
    return np.sort(values[order[: chosen.max(initial=-1) + 1]])


def _unexplained(counts: np.ndarray) -> float:
    """Deviance of counts from the best mixture of normal distributions as wide as a cell, divided by the cells."""
    n_cells, counts = len(counts), counts * min(1.0, _ROWS_COMPARED / counts.sum())
    edges, centres = np.arange(n_cells + 1.0) - 0.5, np.linspace(-1.0, n_cells, 2 * n_cells + 3)
    shares = np.diff(ndtr(edges[:, np.newaxis] - centres), axis=0)
    weights = np.full(len(centres), 1.0 / len(centres))
    for _ in range(_N_STEPS):
        weights *= shares.T @ (counts / (shares @ weights)) / counts.sum()
    return 2.0 * float(rel_entr(counts, counts.sum() * (shares @ weights)).sum()) / n_cells


def split_cells(values: np.ndarray, spikes: Sequence[Any], widths: Any) -> tuple[np.ndarray, np.ndarray]:
    """Cells without spikes, and codes: the index of the spike in the cell, or their number if it is another number.

    Missing cells are NaN in both. A number less than half of the width of the cells away from a spike is one.
    """
    numbers, codes = values.copy(), np.where(np.isnan(values), np.nan, [float(len(own)) for own in spikes])
    for column, (own, width) in enumerate(zip(spikes, widths, strict=True)):
        for code, value in enumerate(own):
            is_spike = np.abs(values[:, column] - value) <= max(0.5 * width, _NOISE * abs(value))
            numbers[is_spike, column], codes[is_spike, column] = np.nan, code
    return numbers, codes


def joined_cells(numbers: np.ndarray, codes: np.ndarray, spikes: Sequence[Any]) -> np.ndarray:
    """Cells with the values of spikes, the inverse of `split_cells`."""
    cells = numbers.copy()
    for column, own in enumerate(spikes):
        for code, value in enumerate(own):
            cells[codes[:, column] == code, column] = value
    return cells


class SpikedRows(ColumnRows):
    """Rows of two blocks that have all columns: numbers, which are missing at spikes, and codes of the spikes."""

    __slots__ = ()

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return len(self.spikes)

    def cells(self) -> np.ndarray:
        """Cells as numbers, (n_rows, n_features); NaN where a cell is missing. A new array."""
        numbers, table = self.blocks
        return joined_cells(numbers.cells(), table.cells(), self.spikes)

    def of_columns(self, columns: np.ndarray) -> SpikedRows:
        """The rows of some columns."""
        return super().of_columns(columns)._replace(spikes=tuple(self.spikes[column] for column in columns))

    def vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and indicators of spikes, NaN where missing, and the column of each."""
        return vectors_of(self)


class SpikedCells(IndependentNumbers):
    """Numbers with the distribution `numbers`, or spikes, the codes of which are `indicators`."""

    def __init__(self, numbers: Any, indicators: CategoryCells, spikes: Sequence[Any], widths: Any) -> None:
        self.numbers, self.indicators, self.spikes, self.widths = numbers, indicators, spikes, widths
        probabilities = indicators.probabilities
        self.others = np.stack([column[:, -1] for column in probabilities], axis=1)  # of other numbers, (K, n_columns)
        self.sums = [  # of spikes and of their squares, (K, n_columns)
            np.stack([p[:, :-1] @ np.power(own, power) for p, own in zip(probabilities, spikes, strict=True)], axis=1)
            for power in (1, 2)
        ]
        means = self.sums[0] + self.others * numbers.means
        squares = self.sums[1] + self.others * (numbers.variances + numbers.means**2)
        super().__init__(means, squares - means**2)

    def point_masses(self) -> list[tuple[int, float, np.ndarray]]:
        """Probabilities of the spikes."""
        pairs = enumerate(zip(self.spikes, self.indicators.probabilities, strict=True))
        return [(column, value, p[:, i]) for column, (own, p) in pairs for i, value in enumerate(own)]

    def distribution_function(self, column: int, values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Distribution functions with steps at the spikes."""
        numbers, _ = split_cells(values, self.spikes, self.widths)
        of_numbers, own = self.numbers.distribution_function(column, numbers), self.spikes[column]
        masses, others = self.indicators.probabilities[column][:, :-1], self.others[:, column]
        return lambda x: others * of_numbers(x) + np.einsum("is,ks->ik", x[:, np.newaxis] >= own, masses)

    def log_densities_of_column(self, column: int, values: np.ndarray) -> np.ndarray:
        """Log probabilities of spikes, and log densities of other numbers."""
        own = self.spikes[column]
        _, codes = split_cells(values[:, np.newaxis], [own], [self.widths[column]])
        logs = np.log(self.indicators.probabilities[column].T)[codes[:, 0].astype(int)]
        return logs + np.where(codes < len(own), 0.0, self.numbers.log_densities_of_column(column, values))

    def drawn(self, values: np.ndarray, labels: np.ndarray, key: np.uint64, first_row: int) -> np.ndarray:
        """Rows with drawn spikes, or drawn numbers given the observed ones, where cells are missing."""
        numbers, codes = split_cells(values, self.spikes, self.widths)
        numbers = self.numbers.drawn(numbers, labels, subkey(key, 0), first_row)
        codes = self.indicators.drawn(codes, labels, subkey(key, 1), first_row)
        return joined_cells(numbers, codes, self.spikes)


class SpikedMatrixCells(SpikedCells):
    """The same, with numbers that depend on the observed ones of their row."""

    def add_expected(self, values: np.ndarray, shares: np.ndarray, out: ExpectedCells) -> None:
        """Add conditional expectations given the observed cells."""
        numbers, _ = split_cells(values, self.spikes, self.widths)
        for column in np.flatnonzero(np.isnan(values).any(axis=0)):
            of_numbers = self.numbers.nothing(len(values))
            self.numbers.add_expected(numbers, shares * self.others[:, column], of_numbers)
            for total, own, of_spikes in zip(out[:2], of_numbers[:2], self.sums, strict=True):
                total[:, column] += own[:, column]
                add_mixed(shares, of_spikes[:, column : column + 1], total[:, column : column + 1])


class SpikedFamily(ColumnsFamily):
    """Product of a Gaussian family and a family of the codes of spikes, which have the same columns.

    `spikes` are the values of each column, and `widths` those of its cells.
    """

    n_features: Annotated[int, Integer(1, size="n_dimensions")]
    spikes: Saved[tuple[Annotated[np.ndarray, Array("float64", "_")], ...]]
    widths: Annotated[np.ndarray, Array("float64", "n_dimensions", low=0)]

    def _disagreement(self, sizes: Sizes) -> str | None:
        if self.names.tolist() != ["numbers", "spikes"] or len(self.blocks) != 2 or len(self.places) != 2:
            return "has other blocks than numbers and spikes"
        numbers, codes = self.blocks
        if not isinstance(numbers, GaussianFamily) or type(codes) is not CategoricalFamily:
            return "has blocks of other families"
        if any(each.n_components != self.n_components for each in self.blocks):
            return "has blocks with other numbers of components"
        if not all(np.array_equal(each, np.arange(self.n_features)) for each in self.places):
            return "has blocks of other columns"
        same = np.diff(codes.column_start).tolist() == [len(own) + 1 for own in self.spikes]
        return None if same else "has other numbers of spikes"

    def __init__(self, numbers: Any, codes: CategoricalFamily, spikes: Sequence[Any], widths: Any) -> None:
        places = (np.arange(codes.n_features),) * 2
        super().__init__(np.array(["numbers", "spikes"]), (numbers, codes), places)
        self.n_features = codes.n_features
        self.spikes, self.widths = tuple(np.array(own, np.float64) for own in spikes), np.array(widths, np.float64)

    def _without_others(self, columns: np.ndarray) -> Self:
        spikes, widths = tuple(self.spikes[column] for column in columns), self.widths[columns]
        chosen = super()._without_others(columns)
        return chosen._replaced(n_features=len(columns), spikes=spikes, widths=widths)

    def rows_of(self, found: list[Any]) -> SpikedRows:
        """Rows of these rows of each block."""
        return SpikedRows(tuple(found), self.places, self.spikes)

    def in_columns(self, found: list[np.ndarray]) -> np.ndarray:
        """Cells of new rows of each block."""
        cells = self._by_name(found)
        return joined_cells(cells["numbers"], cells["spikes"], self.spikes)

    def _components(self, of_blocks: dict[str, dict[str, Any]]) -> np.ndarray:
        """Means over spikes and other numbers, (K, n_features)."""
        none = of_blocks["numbers"]["components_"][:, :0]
        return np.hstack([none, *self.columns_of(of_blocks)])

    def cell_distribution(self, attributes: dict[str, dict[str, Any]]) -> SpikedCells:
        """The distributions of single cells, given attributes of each block."""
        numbers, codes = (self.of_block(name).cell_distribution(attributes[name]) for name in ("numbers", "spikes"))
        kind = SpikedMatrixCells if self.of_block("numbers").has_matrices else SpikedCells
        return kind(numbers, codes, self.spikes, self.widths)

    def columns_of(self, of_blocks: dict[str, dict[str, Any]]) -> list[np.ndarray]:
        """Means of each column, (K, 1)."""
        numbers, codes = (of_blocks[name]["components_"] for name in ("numbers", "spikes"))
        pairs = enumerate(zip(self.spikes, codes, strict=True))
        return [(p[:, :-1] @ own + p[:, -1] * numbers[:, j])[:, np.newaxis] for j, (own, p) in pairs]


class Spikes(WeighableEmission):
    r"""Numbers of which some values repeat exactly, such as zeros: point masses, and a Gaussian distribution.

    .. math:: p(x_{ij} \mid z_i = k) = \sum_s \pi_{kjs} \, \delta(x_{ij} - c_{js}) + \pi_{kj0} \,
        N(x_{ij} \mid \mu_{kj}, \sigma_{kj}^2), \qquad \pi_{kj} \sim \mathrm{Dir}(a, \dots, a).

    A Gaussian distribution has no mass at a point. So a cell with the value of a *spike* :math:`c_{js}` is a draw from
    the point mass, without latent variables: it is a missing cell of the Gaussian distribution, which describes the
    other numbers. Indicators of the spikes are independent given the component.

    Parameters
    ----------
    numbers : Gaussian, default=None
        The emission of the other numbers; None is ``Gaussian("diag")``.
    spikes : "auto" or list of array-like, default="auto"
        Values of the spikes of each column, which may be none. "auto" chooses them in `fit`, see Notes; the fitted
        emission (``emission_`` of the estimator) lists them.
    cell_widths : array-like of shape (n_features,), default=None
        Distance between the numbers to which each column was rounded, 0 if it was not. Numbers within half of it from
        a spike count as the spike. None finds them in `fit`.
    category_prior : float, default=0.5
        Positive pseudo-count a of each spike of a column, and of its other numbers.

    Notes
    -----
    With "auto", at most half of the values are spikes: those with at least three times as many rows as each value that
    is none, at least 10, and at least 3 percent. Or all values are spikes, of a column on a grid of at most 25 cells
    with ten rows for each value, if the counts are not those of a smooth density: their deviance from the best mixture
    of normal distributions with standard deviations of one cell is more than five per cell, where it is at most one or
    two for rounded numbers.

    Log densities are those of numbers, with respect to lengths, so that they can be compared with those of other
    emissions: the probability of a spike is divided by the width of its cell. The Gaussian distribution is not
    truncated there, so that probabilities of cells have a sum a little below one. Without a grid it is the probability
    itself. Then the density is with respect to the sum of lengths and point masses, and its integral is one.

    A column of which all values are spikes has a Gaussian distribution for numbers that did not occur in `fit`, with
    the mean and variance of the column; `numbers` with covariance matrices are refused then.

    ``components_`` are means over spikes and other numbers. The other attributes are those of the two blocks
    ``numbers`` and ``spikes``, in ``named_blocks_`` if this emission is a block of
    :class:`~skmanifold.emissions.Columns`.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import DPMixture
    >>> from skmanifold.emissions import Spikes
    >>> rng = np.random.default_rng(0)
    >>> X = np.where(rng.random((200, 1)) < 0.4, 0.0, rng.normal(3.0, 1.0, (200, 1)))
    >>> mixture = DPMixture(Spikes(), random_state=0).fit(X)
    >>> mixture.emission_.spikes
    [[0.0]]
    """

    allows_missing = True
    allows_sparse = False
    positive_only = False
    row_family = SpikedFamily
    _parameter_constraints: ClassVar[dict] = {
        "numbers": [None, Gaussian],
        "spikes": [StrOptions({"auto"}), list],
        "cell_widths": [None, "array-like"],
        "category_prior": [Interval(Real, 0, MOST_COUNTED, closed="right")],
    }

    def __init__(
        self,
        numbers: Gaussian | None = None,
        spikes: Literal["auto"] | list[Any] = "auto",
        cell_widths: ArrayLike | None = None,
        category_prior: float = 0.5,
    ) -> None:
        self.numbers = numbers
        self.spikes = spikes
        self.cell_widths: Any = cell_widths
        self.category_prior = category_prior

    @property
    def blocks(self) -> list[tuple[str, Any, None]]:
        """Emissions of the numbers and of the codes of spikes."""
        numbers = Gaussian("diag") if self.numbers is None else self.numbers
        return [("numbers", numbers, None), ("spikes", Categorical(self.category_prior), None)]

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> SpikedRows:
        """Validate X of finite numbers and NaN, and find spikes in `fit`."""
        numbers: Gaussian = self.blocks[0][1]
        values = read_dense(estimator, X, reset=reset, emission=self, missing=True).values
        if reset:
            self._choose(values)
        elif isinstance(self.spikes, str):  # of a new emission for `partial_fit`
            self.spikes, self.cell_widths = (getattr(vars(estimator)["emission_"], name) for name in _CHOSEN)
        without, codes = split_cells(values, self.spikes, self.cell_widths)
        starts = np.cumsum([0, *(len(own) + 1 for own in self.spikes)])
        table = category_table(estimator, codes, starts, handle_unknown="error")
        is_spike, log_widths = codes < np.diff(starts) - 1, np.log([width or 1.0 for width in self.cell_widths])
        bases = np.repeat(-log_widths, np.diff(starts))
        bases[starts[1:] - 1] = 0.0  # of other numbers
        table = table._replace(log_base=is_spike @ -log_widths, bases_of_categories=bases)
        places = (np.arange(values.shape[1]),) * 2
        return SpikedRows((numbers.rows_of_values(estimator, without), table), places, tuple(self.spikes))

    def _choose(self, values: np.ndarray) -> None:
        """Set spikes and widths of cells to those of rows, in the form of parameters."""
        d, found = values.shape[1], [*map(cell_width, values.T)]
        given = {name: own for name in _CHOSEN if not isinstance(own := getattr(self, name), str | None)}
        for name, own in given.items():
            if len(own) != d:
                raise ValueError(f"{name} must have an entry for each of the {d} columns of X; got {len(own)}.")
            numbers = np.hstack([np.empty(0), *own]).astype(float)
            if not np.isfinite(numbers).all() or (name == "cell_widths" and numbers.min() < 0.0):
                raise ValueError(f"{name} must be finite numbers, and cell_widths not negative; got {own!r}.")
        self.cell_widths = widths = np.array(given.get("cell_widths", found), float).tolist()
        spikes = given.get("spikes") or map(spikes_of, values.T, widths)
        self.spikes = [np.unique(np.array(own, float)).tolist() for own in spikes]

    def bind_weighted(self, rows: SpikedRows, n_components: int, row_weights: np.ndarray | None) -> SpikedFamily:
        """Make the family of rows; a Gaussian prior that depends on rows is that of all cells of a column of spikes."""
        (_, emission, _), (_, indicators, _) = self.blocks
        numbers, table = rows.blocks
        low, high = (of.reduce(numbers.values, axis=0) for of in (np.fmin, np.fmax))
        if emission.family_type().has_matrices and not (low < high).all():
            raise ValueError(
                f"Column {np.argmin(low < high)} has no numbers that are not spikes, and so no covariances: use "
                "Gaussian('diag')."
            )
        filled = np.where(low < high, numbers.values, rows.cells())
        family = emission.bind_weighted(DenseRows(filled), n_components, row_weights)
        codes = indicators.bind_weighted(table, n_components, row_weights)
        return SpikedFamily(family, codes, self.spikes, self.cell_widths)

    def disagrees(self, family: Any, reader: Any) -> str | None:
        """Why a family that was read from a file is not one of this emission; None if it is."""
        if problem := super().disagrees(family, reader):
            return problem
        if [own.tolist() for own in family.spikes] != self.spikes or family.widths.tolist() != self.cell_widths:
            return "has other spikes than its family"
        return self.blocks[0][1].disagrees(family.blocks[0], reader)

    def with_resolution_of(self, rows: SpikedRows) -> Spikes:
        """The emission with numbers that have the widths of the cells."""
        numbers: Gaussian = self.blocks[0][1]
        if numbers.resolution is None or isinstance(numbers.resolution, str):
            numbers = clone(numbers).set_params(resolution=np.array(self.cell_widths))
        return Spikes(numbers, self.spikes, self.cell_widths, self.category_prior)

    def with_transform_of(self, family: SpikedFamily) -> Spikes:
        """The emission with what was learned of the transforms of numbers."""
        numbers = self.blocks[0][1].with_transform_of(family.of_block("numbers"))
        return Spikes(numbers, self.spikes, self.cell_widths, self.category_prior)

    def free_hyperparameters(self) -> tuple[str, ...]:
        """Hyperparameters of the numbers that Dirichlet process mixtures learn, since they are None."""
        return tuple(f"numbers__{name}" for name in self.blocks[0][1].free_hyperparameters())

    def with_prior_of(self, clusters: SpikedFamily) -> Spikes:
        """The emission with the prior of clusters."""
        numbers = self.blocks[0][1].with_prior_of(clusters.of_block("numbers"))
        return Spikes(numbers, self.spikes, self.cell_widths, self.category_prior)
