"""Emission of tables whose columns have different distributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator, clone

from ...utils._parameters import offers
from ...utils._sklearn import BaseComposition, StrOptions
from ...utils._typing import ArrayLike, MatrixLike, available_if
from ...utils._validation import validate_data
from .._abilities import LearnsPrior
from .._base import BaseEmission, WeighableEmission
from .._bernoulli import Bernoulli
from .._categorical import Categorical
from .._estimator import sort_hyperparameters
from .._gaussian.emission import Gaussian
from .._negative_binomial import NegativeBinomial
from .._protocols import HasPriorFamily
from .._rounding import cell_width
from .._spikes import Spikes, spikes_of
from .family import ColumnsFamily
from .layout import BlockReader, Column, ColumnLayout, OpenTable, as_categories, numbers_of, open_table, ordered
from .rows import ColumnRows, chosen_columns, divided, named_errors


class Columns(WeighableEmission, BaseComposition):
    r"""Tables with columns of several kinds: numbers, categories, counts, and yes or no.

    Each *block* of columns has an emission. Blocks are independent given the component:

    .. math:: p(x_i \mid z_i = k) = \prod_b p_b(x_{ib} \mid \eta_{kb}).

    Each block has its own prior and its own missing cells (NaN, None, ``pandas.NA``), which are assumed missing at
    random.

    Parameters
    ----------
    blocks : "auto" or list of (str, BaseEmission, columns), default="auto"
        The name of each block, its emission and its columns, as in :class:`~sklearn.compose.ColumnTransformer`: a name,
        an index, a list or slice of these, a mask, or a function of X, such as
        :class:`~sklearn.compose.make_column_selector`. Each column of X must be in one block.

        "auto" chooses by the types of the columns: numbers are Gaussian with a covariance matrix, ``bool`` is
        Bernoulli, and categories and strings are categorical. Skewed columns of numbers are transformed, as
        ``Gaussian(transform="auto")`` does. Numbers of which some values repeat, such as zeros, have
        :class:`~skmanifold.emissions.Spikes`, with variances alone. :class:`~skmanifold.DPMixture` chooses full or
        diagonal covariances of the others, those whose initial clusters have the highest evidence. The fitted emission
        (``emission_`` of the estimator) lists the chosen blocks.
    count_columns : columns, default=None
        With "auto": columns with counts, which get a negative binomial emission; chosen as those of a block.

    Notes
    -----
    A categorical block takes strings, numbers or booleans, not codes: its categories are those of the type of the
    column (``pandas.CategoricalDtype``, ``polars.Enum``), or the values that occur in `fit`, in ascending order.
    Categories that are unknown at `predict` raise an error, unless the emission has ``handle_unknown="ignore"``. A
    string has at most 1,000 characters, and no NUL.

    Whole numbers and decimals of 2**53 or more are refused, since float64 cannot distinguish them: convert identifiers
    to strings, or to ``pandas.CategoricalDtype``, whose whole numbers stay exact up to 64 bits.

    Columns of a data frame are found by name at `predict`: their order may differ, and additional columns are ignored.

    Estimators with this emission have the additional attributes ``categories_``, the categories of each column, and
    ``named_blocks_``, the fitted attributes of each block. Their ``components_`` is a list with an array for each
    column of X: expected values, of shape (n_components, 1), or probabilities of the categories, of shape
    (n_components, n_categories). Rows that are drawn by ``sample`` are a data frame if X was one in `fit`.

    Admixtures do not accept this emission.

    Examples
    --------
    >>> import pandas as pd
    >>> from skmanifold import ExponentialFamilyMixture
    >>> from skmanifold.emissions import Categorical, Columns, Gaussian
    >>> X = pd.DataFrame({"height": [1.6, 1.9, None, 1.7], "eyes": ["blue", "brown", "brown", None]})
    >>> emission = Columns([("size", Gaussian("diag"), ["height"]), ("look", Categorical(), ["eyes"])])
    >>> mixture = ExponentialFamilyMixture(2, emission=emission, random_state=0).fit(X)
    >>> mixture.predict_proba(X).shape
    (4, 2)
    """

    short_name = "auto"
    allows_missing = True
    allows_sparse = False
    has_codes = True
    positive_only = False
    stores = ("_layout",)
    row_family = ColumnsFamily
    _parameter_constraints: ClassVar[dict] = {"blocks": [StrOptions({"auto"}), list], "count_columns": "no_validation"}

    def __init__(
        self,
        blocks: Literal["auto"] | Sequence[tuple[str, BaseEmission, Any]] = "auto",
        count_columns: str | int | ArrayLike | slice | Callable[..., Any] | None = None,
    ) -> None:
        self.blocks: Any = blocks
        self.count_columns = count_columns

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters, also those of the emissions of blocks, as ``name__parameter``.

        Parameters
        ----------
        deep : bool, default=True
            Whether to return the parameters of the emissions of blocks too.

        Returns
        -------
        params : dict of str to object
        """
        return self._get_params("_named_emissions", deep=deep)

    def set_params(self, **params: Any) -> Columns:
        """Set parameters, also those of the emissions of blocks, as ``name__parameter``.

        Parameters
        ----------
        **params : object

        Returns
        -------
        self : Columns
        """
        self._set_params("_named_emissions", **params)
        return self

    @property
    def _named_emissions(self) -> list[tuple[str, Any]]:
        blocks = self.blocks if isinstance(self.blocks, list) else []
        if not all(isinstance(each, tuple) and len(each) == 3 and not isinstance(each[1], type) for each in blocks):
            return []  # `fit` refuses them
        return [(name, emission) for name, emission, _ in blocks]

    @_named_emissions.setter
    def _named_emissions(self, pairs: list[tuple[str, Any]]) -> None:
        self.blocks = [(*pair, block[2]) for pair, block in zip(pairs, self.blocks, strict=True)]

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> ColumnRows:
        """Validate X and return the rows of all blocks."""
        table = open_table(X)
        if reset:
            return self._read_new(estimator, table)
        layout, names = vars(estimator)["_layout"], getattr(estimator, "feature_names_in_", None)
        if isinstance(self.blocks, str) or any(getattr(own, "spikes", 0) == "auto" for _, own in self._named_emissions):
            # of a new emission for `partial_fit`
            self.blocks = vars(estimator)["emission_"].blocks
        if names is None or table.names is None:
            validate_data(estimator, table.table, reset=False, skip_check_array=True)
        return self._read_blocks(table, ordered(table, names), layout)

    def rows_of_values(self, estimator: BaseEstimator, values: np.ndarray) -> ColumnRows:
        """Rows of cells that have been read before, without names of columns."""
        layout: ColumnLayout = vars(estimator)["_layout"]
        triples = zip(self._named_emissions, layout.places, layout.readers, strict=True)
        blocks = tuple(emission.read(reader, values[:, place], reset=False) for (_, emission), place, reader in triples)
        return ColumnRows(blocks, layout.places)

    def disagrees(self, family: Any, reader: Any) -> str | None:
        """Why a family that was read from a file is not one of this emission, or not of the columns of its table."""
        layout = vars(reader).get("_layout")
        if layout is None or type(family) is not ColumnsFamily:
            return "has a family that is not that of its emission"
        try:
            check_blocks(self.blocks)
        except (TypeError, ValueError) as error:
            return f"has wrong blocks: {error}"
        names = [name for name, *_ in self.blocks]
        if names != family.names.tolist() or len(names) != len(layout.places):
            return "has blocks of other names"
        if not all(map(np.array_equal, family.places, layout.places)):
            return "has blocks of other columns"
        parts = zip(self.blocks, family.blocks, layout.places, layout.readers, strict=True)
        for (_, emission, _), part, place, own in parts:
            if problem := emission.disagrees(part, own):
                return problem
            if any((layout.kinds[column] == "category") != emission.has_codes for column in place):
                return "has columns whose kind is not that of their emission"
            found = [len(layout.categories[column]) for column in place]
            if emission.has_codes and found != own.n_categories_.tolist():
                return "has columns with other numbers of categories"
        return None

    def bind_weighted(self, rows: ColumnRows, n_components: int, row_weights: np.ndarray | None) -> ColumnsFamily:
        """Make the family of rows; blocks need no method for weights if there are none."""
        families = []
        for (name, emission), own in zip(self._named_emissions, rows.blocks, strict=True):
            bind, weights = (emission.bind, ()) if row_weights is None else (emission.bind_weighted, (row_weights,))
            with named_errors(name):
                families.append(bind(own, n_components, *weights))
        return ColumnsFamily(np.array([name for name, _ in self._named_emissions]), tuple(families), rows.places)

    @available_if(
        lambda emission: all(offers(own, HasPriorFamily) for _, own in emission._named_emissions or [("", None)])
    )
    def prior_family(self, n_features: int, n_components: int, n_tokens: int) -> ColumnsFamily:
        """Make a family whose hyperparameters do not depend on rows; blocks have indices of columns."""
        check_blocks(self.blocks)
        places, families = divided(self.blocks, OpenTable(None, "", None, 0, n_features)), []
        for (name, emission), own in zip(self._named_emissions, places, strict=True):
            with named_errors(name):
                families.append(emission.prior_family(len(own), n_components, n_tokens))
        return ColumnsFamily(np.array([name for name, _ in self._named_emissions]), tuple(families), places)

    def free_hyperparameters(self) -> tuple[str, ...]:
        """Hyperparameters of blocks that Dirichlet process mixtures learn, since they are None."""
        learning = [(name, emission) for name, emission in self._named_emissions if isinstance(emission, LearnsPrior)]
        return tuple(f"{name}__{each}" for name, emission in learning for each in emission.free_hyperparameters())

    def with_prior_of(self, clusters: Any) -> Columns:
        """The emission with the priors of clusters."""
        blocks = []
        for name, emission, columns in self.blocks:
            if isinstance(emission, LearnsPrior) and emission.free_hyperparameters():
                emission = emission.with_prior_of(clusters.of_block(name))
            blocks.append((name, emission, columns))
        return Columns(blocks, self.count_columns)

    def with_resolution_of(self, rows: ColumnRows) -> Columns:
        """The emission with the resolution of each column, found in rows unless it is given."""
        pairs = zip(self.blocks, rows.blocks, strict=True)
        blocks = [(name, own.with_resolution_of(of_block), columns) for (name, own, columns), of_block in pairs]
        return Columns(blocks, self.count_columns)

    def with_transform_of(self, family: Any) -> Columns:
        """The emission with what was learned of the transforms of blocks."""
        parts = zip(self.blocks, family.blocks, strict=True)
        blocks = [(name, own.with_transform_of(part), columns) for (name, own, columns), part in parts]
        return Columns(blocks, self.count_columns)

    def with_each_covariance(self) -> list[Columns]:
        """The emission as it is, with covariance matrices, and with variances alone if it has a block of numbers.

        A common matrix is not tried: full ones are nearly equal if their learned degrees of freedom are many.

        Returns
        -------
        emissions : list of Columns
        """
        numbers = {
            name: clone(own).set_params(covariance_type="diag")
            for name, own, columns in self.blocks
            if isinstance(own, Gaussian) and len(columns) > 1
        }
        blocks = [(name, numbers.get(name, emission), columns) for name, emission, columns in self.blocks]
        return [self, Columns(blocks, self.count_columns)] if numbers else [self]

    def _read_new(self, estimator: BaseEstimator, table: OpenTable) -> ColumnRows:
        validate_data(estimator, table.table, reset=True, skip_check_array=True)
        if isinstance(self.blocks, str):
            self.blocks = _automatic(table, self.count_columns)
        check_blocks(self.blocks)
        places = divided(self.blocks, table)
        named = getattr(estimator, "feature_names_in_", None) is not None  # names that are no strings are not used
        labels = [[table.names[j] if named and table.names else int(j) for j in place] for place in places]
        self.blocks = [(*named, own) for named, own in zip(self._named_emissions, labels, strict=True)]
        kinds = ["float"] * table.n_columns
        categories: list[Any] = [np.zeros(0)] * table.n_columns
        for (name, emission, _), place in zip(self.blocks, places, strict=True):
            wanted = getattr(emission, "min_categories", None)
            least = np.broadcast_to(1 if wanted is None else wanted, len(place))
            for column, n_categories in zip(place, least, strict=True):
                read = table.read(column)
                kinds[column] = "float" if read.kind == "category" else read.kind  # of numbers
                if emission.has_codes:
                    label = table.label(column)
                    read = as_categories(read, label)
                    if read.categories is None or not len(read.categories):
                        raise ValueError(
                            f"Column {label} of X has no observed cell: remove such columns before the fit."
                        )
                    with named_errors(name):
                        categories[column] = _with_others(read.categories, int(n_categories))
                    kinds[column] = "category"
        readers = tuple(BlockReader() for _ in places)
        layout = ColumnLayout(table.library, tuple(kinds), tuple(categories), places, readers)
        rows = self._read_blocks(table, np.arange(table.n_columns), layout, reset=True)
        vars(estimator)["_layout"] = layout
        return rows

    def _read_blocks(
        self, table: OpenTable, order: np.ndarray, layout: ColumnLayout, reset: bool = False
    ) -> ColumnRows:
        """Rows of all blocks; column j of the fitted table is column ``order[j]`` of this one."""
        rows = []
        for (name, emission), place, reader in zip(self._named_emissions, layout.places, layout.readers, strict=True):
            X = np.empty((table.n_rows, len(place)))
            labels = [table.label(order[column]) for column in place]
            for i, column in enumerate(place):
                read = table.read(order[column])
                if emission.has_codes:
                    ignore = getattr(emission, "handle_unknown", "error") == "ignore"
                    X[:, i] = layout.codes(column, read, labels[i], ignore)
                else:
                    X[:, i] = numbers_of(read, labels[i], name)
            if reset and table.names is not None:
                sort_hyperparameters(emission, [table.names[column] for column in order[place]])
            if reset and hasattr(emission, "min_categories"):
                widths = [max(1, len(layout.categories[column])) for column in place]
                emission = clone(emission).set_params(min_categories=widths)
            reader = reader if reset else copy(reader)  # threads share the fitted one
            reader.column_labels = labels
            with named_errors(name):
                rows.append(emission.read(reader, X, reset=reset))
            del reader.column_labels
        return ColumnRows(tuple(rows), layout.places)


def _automatic(table: OpenTable, counts: Any) -> list[tuple[str, BaseEmission, Any]]:
    """Blocks by the kinds of the columns."""
    counted = set() if counts is None else set(chosen_columns("count_columns", counts, table).tolist())
    kinds = ["counts" if j in counted else _kind_of(table.read(j)) for j in range(table.n_columns)]
    blocks = (
        ("numbers", Gaussian(transform="auto"), ("number",)),
        ("spiked", Spikes(Gaussian("diag", transform="auto")), ("spiked",)),
        ("categories", Categorical(), ("category",)),
        ("binary", Bernoulli(), ("bool",)),
        ("counts", NegativeBinomial(), ("counts",)),
    )
    chosen = ((name, emission, [j for j, kind in enumerate(kinds) if kind in own]) for name, emission, own in blocks)
    return [block for block in chosen if block[2]]


def _kind_of(column: Column) -> str:
    """The kind of a column; of numbers, whether some are spikes."""
    if column.kind not in ("float", "int"):
        return column.kind
    return "spiked" if len(spikes_of(column.values, cell_width(column.values))) else "number"


def _with_others(categories: Any, n_categories: int) -> np.ndarray:
    """At least so many categories: unused numbers from 0 on are added to whole numbers; others cannot be named."""
    if n_categories <= len(categories):
        return categories
    if categories.dtype.kind != "i":
        raise ValueError(
            f"min_categories={n_categories}, but a column has {len(categories)} categories, and others have no names: "
            "give the column a categorical type with all categories."
        )
    others = np.setdiff1d(np.arange(n_categories), categories)
    return np.sort(np.append(categories, others[: n_categories - len(categories)]))


def check_blocks(blocks: list) -> None:
    """Raise an error unless blocks are triples with different names and emissions of rows."""
    names = []
    for block in blocks:
        if not isinstance(block, tuple) or len(block) != 3 or not isinstance(block[0], str):
            raise ValueError(f"A block of Columns must be a tuple (name, emission, columns), but one is {block!r}.")
        name, emission, _ = block
        if not isinstance(emission, BaseEmission) or isinstance(emission, Columns):
            what = "another Columns" if isinstance(emission, Columns) else repr(emission)
            raise TypeError(
                f"The block {name!r} of Columns needs an instance of an emission, such as Gaussian(); got {what}."
            )
        if name in names:
            raise ValueError(f"Two blocks of Columns have the name {name!r}: give each block its own name.")
        if not name or "__" in name or name in ("blocks", "count_columns"):
            raise ValueError(
                f"A block of Columns cannot have the name {name!r}: the name must not be empty, contain two "
                "underscores, or be the name of a parameter of Columns."
            )
        emission._validate_params()
        names.append(name)
    if not names:
        raise ValueError("Columns needs at least one block.")
