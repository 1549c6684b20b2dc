"""Base class of emissions, which hold the prior of a component's parameters, and what they and families share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ..sparse.counts import USE_COUNTS_OF_WORDS, Counts, as_counts, counts_to_fit, validate_counts
from ..utils._conditions import MOST_COUNTED
from ..utils._parameters import LinksToItsPage, PlainNumbers
from ..utils._sklearn import Interval
from ..utils._typing import BaseEstimator, MatrixLike
from ._protocols import TokenCounts

POSITIVE_PRIOR = [Interval(Real, 0, None, closed="neither"), "array-like"]  # constraint of what `positive_prior` reads


class BaseEmission(PlainNumbers, LinksToItsPage, BaseEstimator):
    """Base class of emissions, which set the distribution of rows or tokens given their component.

    The constructor takes hyperparameters of the conjugate prior; an emission holds no data. An emission for mixtures
    has the methods of `RowEmission`, ``read`` and ``bind``. An emission for admixtures has those of `TokenEmission`,
    ``read_tokens`` and ``bind_tokens``; it inherits a ``read_tokens`` for counts of words from this class. The class
    attributes below declare which X it accepts.
    """

    short_name: ClassVar[str] = ""
    allows_missing: ClassVar[bool] = False  # rows of a mixture may have NaN
    allows_sparse: ClassVar[bool] = True  # rows of a mixture may be sparse
    positive_only: ClassVar[bool] = True
    has_missing_tokens: ClassVar[bool] = False  # rows of an admixture may have NaN
    has_vector_tokens: ClassVar[bool] = False  # tokens are vectors, with densities in place of probabilities
    has_random_totals: ClassVar[bool] = False  # the number of tokens of a row is random, so that rows have intensities
    has_codes: ClassVar[bool] = False  # cells are codes of categories
    stores: ClassVar[tuple[str, ...]] = ()  # other attributes that `read` stores in the estimator, besides names
    tokens_of_column: ClassVar[int] = 1  # number of different tokens for each column of X
    row_family: ClassVar[type | None] = None  # class of the families that the library's emissions bind to rows
    token_family: ClassVar[type | None] = None  # and to tokens
    _parameter_constraints: ClassVar[dict] = {}

    def family_type(self) -> type | None:
        """The class of the families that `bind` makes, which is known for emissions of the library.

        Returns
        -------
        family_type : type or None
        """
        return self.row_family

    def disagrees(self, family: Any, reader: Any) -> str | None:
        """Why a family that was read from a file is not one of this emission.

        Parameters
        ----------
        family : Family
            A family that satisfies its declaration.
        reader : estimator instance
            What `read` stored attributes in.

        Returns
        -------
        reason : str or None
            None if the family is one of this emission.
        """
        if type(family) is not self.family_type():
            return "has a family that is not that of its emission"
        return "has the layout of a table" if "_layout" in vars(reader) else None

    def with_resolution_of(self, rows: Any) -> Any:
        """The emission with the resolution of each column of numbers, found in rows unless it is given.

        Parameters
        ----------
        rows : object
            Rows that this emission has read.

        Returns
        -------
        emission : BaseEmission
        """
        return self

    def with_transform_of(self, family: Any) -> Any:
        """The emission with the transform of a family, if it is learned; most emissions have none.

        Parameters
        ----------
        family : Family

        Returns
        -------
        emission : BaseEmission
        """
        return self

    def rows_of_values(self, estimator: BaseEstimator, values: np.ndarray) -> Any:
        """Rows of cells that have been read before, without names of columns.

        Parameters
        ----------
        estimator : estimator instance
        values : ndarray of shape (n_samples, n_features)
            Numbers or codes; NaN where a cell is missing.

        Returns
        -------
        rows : object
        """
        reader: Any = BaseEstimator()
        for name in ("n_features_in_", *self.stores):
            setattr(reader, name, getattr(estimator, name))
        return self.read(reader, values, reset=False)

    def read_tokens(self, estimator: BaseEstimator, X: MatrixLike, key: np.uint64 | None, *, reset: bool) -> Counts:
        """Validate X and return it as counts of tokens, for an admixture."""
        with explained_refusals(self, X, tokens=True):
            csr = validate_counts(estimator, X, reset=reset)
        if key is None:
            return as_counts(csr)
        return counts_to_fit(csr, key, USE_COUNTS_OF_WORDS, stacklevel=7)


class WeighableEmission(BaseEmission):
    """Base class of emissions that bind rows with weights, or without if they are None."""

    def bind_weighted(self, rows: Any, n_components: int, row_weights: np.ndarray | None) -> Any:
        """Make the family of rows."""
        raise NotImplementedError

    def bind(self, rows: Any, n_components: int) -> Any:
        """Make the family of rows without weights."""
        return self.bind_weighted(rows, n_components, None)


@contextmanager
def explained_refusals(emission: BaseEmission | None, X: Any, tokens: bool = False) -> Iterator[None]:
    """Context in which errors about sparse X or NaN become a sentence that names the emission; None keeps them."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if emission is None:
            raise
        flag = "has_missing_tokens" if tokens else "allows_missing"
        if sp.issparse(X) and not tokens and not emission.allows_sparse:
            raise TypeError(_sentence(emission, "sparse X", "allows_sparse", "pass X.toarray()")) from error
        if not getattr(emission, flag) and "contains NaN" in str(error):
            cure = "put an imputer before it in a pipeline"
            raise ValueError(_sentence(emission, "NaN, missing cells,", flag, cure)) from error
        raise


def _sentence(emission: BaseEmission, what: str, flag: str, cure: str) -> str:
    from ._registry import EMISSIONS  # which imports this file

    able = [name for name, each in EMISSIONS.items() if getattr(each, flag)]
    *first, last = map(repr, able)
    others = f"{', '.join(first)} and {last} do" if first else f"{last} does"
    return f"The emission {type(emission).__name__} does not take {what} as {others}: {cure}."


def positive_prior(value: Any, n_features: int, name: str) -> np.ndarray:
    """One positive number for each feature, (n_features,), or a ValueError that begins with `name`; at most 1e18."""
    values = np.array(value, dtype=np.float64)
    if values.shape not in ((), (n_features,)):
        raise ValueError(f"{name} must be a number or have shape ({n_features},); got {values.shape}.")
    if not (values.min() > 0.0 and values.max() <= MOST_COUNTED):
        raise ValueError(f"{name} must be positive and finite, at most {MOST_COUNTED:g}.")
    return np.full(n_features, values)


def refuse_unset(emission: BaseEmission, *names: str) -> None:
    """Raise a ValueError if one of these hyperparameters, which depend on rows, is None."""
    unset = [name for name in names if getattr(emission, name) is None]
    if unset:
        raise ValueError(
            f"The prior of {type(emission).__name__} depends on the data because {', '.join(unset)} "
            f"{'is' if len(unset) == 1 else 'are'} None: set {'it' if len(unset) == 1 else 'them'}, or fit the "
            "estimator and omit n_features."
        )


class NoModeError(ValueError):
    """The parameters of a component have no posterior mode."""


def dense_topics(counts: TokenCounts) -> np.ndarray:
    """Counts of tokens by component as a dense array, (n_tokens, K), float64."""
    return np.asarray(sp.csr_array(counts.tocsr()).toarray(), dtype=np.float64)
