"""Types of the public interface, and typed versions of base classes and decorators of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

MatrixLike: TypeAlias = ArrayLike | sp.sparray | sp.spmatrix  # rows of data: dense, sparse or a data frame
RandomStateLike: TypeAlias = int | np.random.RandomState | None  # a random state as in scikit-learn
Ignored: TypeAlias = object  # parameters that exist only by convention, such as y of `fit`


class DaskLike(Protocol):
    """A Dask collection: an array, a data frame or a bag."""

    def __dask_graph__(self) -> Any:
        """See the documentation of Dask."""


_Method = TypeVar("_Method", bound=Callable[..., Any])

if TYPE_CHECKING:  # scikit-learn has no types, so inherited or decorated functions would lose theirs
    import sklearn.base
    import sklearn.callback
    import sklearn.utils

    def available_if(check: Callable[[Any], Any]) -> Callable[[_Method], _Method]:
        """See scikit-learn."""

    def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[_Method], _Method]:
        """See scikit-learn."""

    class BaseEstimator(sklearn.base.BaseEstimator):
        """See scikit-learn."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """See scikit-learn."""

        def set_params(self, **params: Any) -> Self:
            """See scikit-learn."""

        def get_metadata_routing(self) -> object:
            """See scikit-learn."""

    class CallbackSupportMixin(sklearn.callback.CallbackSupportMixin):
        """See scikit-learn."""

        def set_callbacks(self, *callbacks: Any) -> Self:
            """See scikit-learn."""

    class TransformerMixin(sklearn.base.TransformerMixin):
        """See scikit-learn."""

        def fit_transform(self, X: MatrixLike, y: Ignored = None, **fit_params: Any) -> np.ndarray:
            """See scikit-learn."""

        def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> Self:
            """See scikit-learn."""

    class ClassNamePrefixFeaturesOutMixin(sklearn.base.ClassNamePrefixFeaturesOutMixin):
        """See scikit-learn."""

        def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
            """See scikit-learn."""

    class ClassifierMixin(sklearn.base.ClassifierMixin):
        """See scikit-learn."""

        def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
            """See scikit-learn."""

    class RegressorMixin(sklearn.base.RegressorMixin):
        """See scikit-learn."""

        def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
            """See scikit-learn."""

    class Bunch(dict[str, Any]):
        """See scikit-learn."""

else:
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.base import ClassifierMixin as ClassifierMixin
    from sklearn.base import ClassNamePrefixFeaturesOutMixin as ClassNamePrefixFeaturesOutMixin
    from sklearn.base import RegressorMixin as RegressorMixin
    from sklearn.base import TransformerMixin as TransformerMixin
    from sklearn.utils import Bunch as Bunch
    from sklearn.utils.metaestimators import available_if as available_if

    from ._sklearn import CallbackSupportMixin as CallbackSupportMixin
    from ._sklearn import fit_context as fit_context
