"""Types of the public interface, and typed versions of decorators of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

__all__ = ["ArrayLike", "DaskLike", "Ignored", "MatrixLike", "RandomStateLike", "available_if", "fit_context"]

MatrixLike: TypeAlias = ArrayLike | sp.sparray | sp.spmatrix  # rows of data: dense, sparse or a data frame
RandomStateLike: TypeAlias = int | np.random.RandomState | None  # a random state as in scikit-learn
Ignored: TypeAlias = object  # parameters that exist only by convention, such as y of `fit`


class DaskLike(Protocol):
    """A Dask collection: an array or a bag."""

    def __dask_graph__(self) -> Any:
        """See the documentation of Dask."""
        ...


_Method = TypeVar("_Method", bound=Callable[..., Any])

if TYPE_CHECKING:  # the decorators of scikit-learn have no types, and decorated methods would lose theirs

    def available_if(check: Callable[[Any], Any]) -> Callable[[_Method], _Method]:
        """See scikit-learn."""
        ...

    def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[_Method], _Method]:
        """See scikit-learn."""
        ...

else:
    from sklearn.utils.metaestimators import available_if

    from ._sklearn import fit_context
