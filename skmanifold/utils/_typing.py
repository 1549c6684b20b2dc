"""Types that the public interface shares, and scikit-learn's decorators with types of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

__all__ = ["ArrayLike", "DaskLike", "Ignored", "MatrixLike", "RandomStateLike", "available_if", "fit_context"]

MatrixLike: TypeAlias = ArrayLike | sp.sparray | sp.spmatrix  # rows of data: dense, sparse or a data frame
RandomStateLike: TypeAlias = int | np.random.RandomState | None  # what scikit-learn calls a random state
Ignored: TypeAlias = object  # what is there for scikit-learn's convention alone, as y of `fit`


class DaskLike(Protocol):
    """A collection of Dask's, an array or a bag."""

    def __dask_graph__(self) -> Any:
        """See Dask."""
        ...


_Method = TypeVar("_Method", bound=Callable[..., Any])

if TYPE_CHECKING:  # scikit-learn's have no types, and what they decorate would lose its own

    def available_if(check: Callable[[Any], Any]) -> Callable[[_Method], _Method]:
        """See scikit-learn."""
        ...

    def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[_Method], _Method]:
        """See scikit-learn."""
        ...

else:
    from sklearn.utils.metaestimators import available_if

    from ._sklearn import fit_context
