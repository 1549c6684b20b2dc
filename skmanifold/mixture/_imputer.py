"""A transformer that fills missing cells by a mixture."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.utils.validation import check_is_fitted

from ..persistence import SavesItself
from ..utils._conditions import Sizes, refuse
from ..utils._declared import check_estimator
from ..utils._parameters import LinksToItsPage
from ..utils._sklearn import HasMethods, fit_context
from ..utils._typing import BaseEstimator, Ignored, MatrixLike, RandomStateLike, TransformerMixin
from ._dirichlet_process.estimator import DPMixture
from ._dp_categorical import DPCategoricalMixture
from ._exponential_family.estimator import ExponentialFamilyMixture
from ._views.estimator import CrossCat

_MIXTURES = DPMixture, DPCategoricalMixture, ExponentialFamilyMixture, CrossCat


def fitted_mixture(value: Any, where: str, sizes: Sizes) -> None:
    if type(value) not in _MIXTURES or not value.__sklearn_is_fitted__():
        refuse(where, "is no fitted DPMixture, DPCategoricalMixture, ExponentialFamilyMixture or CrossCat")
    check_estimator(value)


class HoldsMixture(LinksToItsPage, SavesItself, BaseEstimator):
    """Base class of estimators that hold a fitted mixture and have no callbacks of their own; not public."""


class MixtureImputer(OneToOneFeatureMixin, TransformerMixin, HoldsMixture):
    """Fill missing cells by their distribution given the observed cells of a row, under a mixture.

    Parameters
    ----------
    mixture : estimator instance, default=None
        A mixture with the method ``impute``: `DPMixture`, `DPCategoricalMixture` of codes, or
        `ExponentialFamilyMixture`. None stands for ``DPMixture("auto", random_state=random_state)``.
    sample_posterior : bool, default=False
        Whether to draw the missing cells. If not, they are replaced by means, and the most probable categories.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws, and of the default mixture. With `sample_posterior`, each `transform` draws from a
        RandomState instance and so changes it: use an int or None if several threads share the imputer.

    Attributes
    ----------
    mixture_ : estimator instance
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    DPMixture.impute : Several completed tables, for multiple imputation.
    sklearn.impute.IterativeImputer : Regressions of each column on the others.

    Notes
    -----
    Cells are assumed missing at random. The columns of the result are those of X, in the same order.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import MixtureImputer
    >>> X = np.array([[1.0, 2.0], [1.1, np.nan], [0.9, 2.1], [8.0, 9.0], [8.2, 9.1], [7.9, np.nan]])
    >>> MixtureImputer(random_state=0).fit_transform(X).round(1).shape
    (6, 2)
    """

    _parameter_constraints: ClassVar[dict] = {
        "mixture": [None, HasMethods(["fit", "impute"])],
        "sample_posterior": ["boolean"],
        "random_state": ["random_state"],
    }

    mixture_: Annotated[Any, fitted_mixture]

    def __init__(
        self, mixture: Any = None, *, sample_posterior: bool = False, random_state: RandomStateLike = None
    ) -> None:
        self.mixture = mixture
        self.sample_posterior = sample_posterior
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Fit the mixture to rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, with missing cells (NaN, None, ``pandas.NA``).
        y : Ignored

        Returns
        -------
        self : MixtureImputer
        """
        mixture = DPMixture("auto", random_state=self.random_state) if self.mixture is None else clone(self.mixture)
        self.mixture_ = fitted = mixture.fit(X)
        self.n_features_in_ = fitted.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(fitted, "feature_names_in_"):
            self.feature_names_in_ = fitted.feature_names_in_
        return self

    def transform(self, X: MatrixLike) -> Any:
        """Fill the missing cells of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X : array-like of shape (n_samples, n_features)
            A copy without missing cells, of the same kind as X.
        """
        check_is_fitted(self)
        if self.sample_posterior:
            return self.mixture_.impute(X, n_draws=1, random_state=self.random_state)[0]
        return self.mixture_.impute(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
