"""Classifier with a mixture of subspaces for each class."""

from __future__ import annotations

from typing import Annotated, Any, Self

import numpy as np
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ...base import all_or_nothing, stack_draws
from ...base._estimator import BaseFittedEstimator
from ...callbacks._hooks import rows_to_fit
from ...inference._draws import to_tree
from ...random._keys import root_key, subkey
from ...utils._conditions import Array, Length, Sizes, refuse
from ...utils._declared import check_estimator
from ...utils._sklearn import torn_down
from ...utils._typing import ArrayLike, ClassifierMixin, RandomStateLike, fit_context
from ...utils._validation import validate_data
from .estimator import SubspaceMixture
from .family import as_numbers
from .inference import DRAW_AXES


def sorted_classes(value: Any, where: str, sizes: Sizes) -> None:
    """Condition for unique class labels in order."""
    if type(value) is not np.ndarray or value.ndim != 1 or not len(value) or value.dtype.kind not in "biufUSO":
        refuse(where, "are no labels of classes")
    if not np.array_equal(np.unique(value), value):
        refuse(where, "are not in order")
    sizes["n_classes"] = len(value)


def _mixture(value: Any, where: str, sizes: Sizes) -> None:
    """Condition for the fitted mixture of a class."""
    if type(value) is not SubspaceMixture or not value.__sklearn_is_fitted__():
        refuse(where, "is no fitted SubspaceMixture")
    check_estimator(value)
    if value.n_features_in_ != sizes["n_features"]:
        refuse(where, "has other features")


def _default_mixture() -> SubspaceMixture:
    """The mixture of each class if none is given."""
    return SubspaceMixture(1, max_iter=100, thin=1)


class SubspaceClassifier(ClassifierMixin, BaseFittedEstimator):
    r"""Classifier with a mixture of affine subspaces for each class, by Bayes' rule.

    .. math:: p(y = c \mid x) \propto \pi_c \, p(x \mid X_c),

    where :math:`p(x \mid X_c)` is the posterior predictive density of a :class:`SubspaceMixture` fitted to the rows of
    class c. By default it has one subspace per class, with inferred dimension ([1]_, section 6.2).

    Parameters
    ----------
    mixture : SubspaceMixture or None, default=None
        A clone of this mixture is fitted to each class. None is ``SubspaceMixture(1, max_iter=100, thin=1)``: as many
        draws as by default, of fewer sweeps, because a single subspace starts near its posterior. Its parameters can be
        set as ``mixture__max_dimension`` and so on, even if it is None.
    class_prior : array-like of shape (n_classes,), default=None
        Prior probabilities :math:`\pi`; None uses the class frequencies.
    random_state : int, RandomState instance or None, default=None
        Seed. It replaces the `random_state` of `mixture`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    mixtures_ : list of SubspaceMixture
        The fitted mixture of each class, with its ``dimension_posterior_``.
    class_prior_ : ndarray of shape (n_classes,)
        Prior probabilities :math:`\pi`, normalised.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis : Classes with full covariances.

    References
    ----------
    .. [1] B. St. Thomas, L. Lin, L.-H. Lim and S. Mukherjee, "Learning subspaces of different dimensions", 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skmanifold import SubspaceClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), SubspaceClassifier(random_state=0)).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        "mixture": [None, SubspaceMixture],
        "class_prior": [None, "array-like"],
    }

    classes_: Annotated[np.ndarray, sorted_classes]
    mixtures_: Annotated[list[Annotated[Any, _mixture]], Length("n_classes")]
    class_prior_: Annotated[np.ndarray, Array("float64", "n_classes", low=0, sums_to_one=0)]

    def __init__(
        self,
        mixture: SubspaceMixture | None = None,
        *,
        class_prior: ArrayLike | None = None,
        random_state: RandomStateLike = None,
    ) -> None:
        self.mixture = mixture
        self.class_prior = class_prior
        self.random_state = random_state

    def set_params(self, **params: Any) -> Self:
        """Set the parameters of this estimator; ``mixture__name`` sets a parameter of the mixture, even if it is None.

        Parameters
        ----------
        **params : dict

        Returns
        -------
        self : SubspaceClassifier

        Raises
        ------
        ValueError
            If there is no parameter of this name.
        """
        if any(name.startswith("mixture__") for name in params) and params.get("mixture", self.mixture) is None:
            params = {**params, "mixture": _default_mixture()}
        return super().set_params(**params)

    @fit_context(prefer_skip_nested_validation=False)  # of the mixture's parameters
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit a mixture to the rows of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN marks a missing cell.
        y : array-like of shape (n_samples,)

        Returns
        -------
        self : SubspaceClassifier

        Raises
        ------
        ValueError
            If X has infinite values, a class has fewer rows than the mixture has components, or
            `class_prior` is not an array of one probability for each class.
        """
        with torn_down(self), all_or_nothing(self):
            return self._fit(*rows_to_fit(self, X, y))

    def _fit(self, X, y):
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite=self._finite())
        check_classification_targets(y)
        self.classes_, of_row = np.unique(y, return_inverse=True)
        counts = np.bincount(of_row)
        self.class_prior_ = self._checked_prior(counts)
        mixture = _default_mixture() if self.mixture is None else self.mixture
        needed = mixture.n_components
        if counts.min() < needed:
            few = self.classes_[counts.argmin()]
            raise ValueError(
                f"n_components={needed} subspaces need as many rows, but class {few} has n_samples={counts.min()}."
            )
        key = root_key(self.random_state)
        seeds = [int(subkey(key, c) >> np.uint64(32)) for c in range(len(counts))]
        context = self._init_callback_context(max_subtasks=len(counts))
        task = {"estimator": self, "X": X, "y": y}
        context.call_on_fit_task_begin(**task)
        self.mixtures_ = []
        for c, seed in enumerate(seeds):
            step = context.subcontext(task_name="class").call_on_fit_task_begin(**task)
            of_class = clone(mixture).set_params(random_state=seed)
            with step.propagate_callback_context(of_class):
                self.mixtures_.append(of_class.fit(X[of_row == c]))
            step.call_on_fit_task_end(**task)
        context.call_on_fit_task_end(**task, reconstruction_attributes={})
        return self

    def _checked_prior(self, counts: np.ndarray) -> np.ndarray:
        if self.class_prior is None:
            return counts / counts.sum()
        prior = as_numbers(self.class_prior)
        if prior.shape != counts.shape or not np.isfinite(prior).all() or (prior < 0).any() or not prior.any():
            raise ValueError(
                f"class_prior must be {len(counts)} probabilities, one for each class; got {self.class_prior!r}."
            )
        return prior / prior.sum()

    def to_arviz(self) -> Any:
        """Convert the draws of the mixtures of all classes to one ArviZ data tree with an axis for the classes.

        The mixtures are independent given the data, so that their draws can be combined in any order. If
        `max_draws_bytes` limits the draws of some classes, the last draws of each class are used, the same number for
        all.

        Returns
        -------
        xarray.DataTree
            As in :meth:`SubspaceMixture.to_arviz`, with an axis ``class`` after ``chain`` and ``draw``, also for the
            log likelihoods.

        Raises
        ------
        ValueError
            If the fit of a class was stopped before the first draw.
        """
        check_is_fitted(self)
        n_draws = min(len(mixture._whole_draws) for mixture in self.mixtures_)
        last = [mixture._whole_draws[len(mixture._whole_draws) - n_draws :] for mixture in self.mixtures_]
        of_classes = [mixture._exported_draws() for mixture in self.mixtures_]
        exported = {}
        for name, example in of_classes[0].items():
            draws = stack_draws([[of[name][:, of[name].shape[1] - n_draws :] for of in of_classes]], example)
            exported[name] = np.moveaxis(draws[0], 0, 2)
        axes = {name: ["class", *DRAW_AXES.get(name, [])] for name in exported}
        common = last[0] if all(np.array_equal(draws, last[0]) for draws in last) else None
        coords = {"class": self.classes_, "draw": common, "feature": getattr(self, "feature_names_in_", None)}
        return to_tree(exported, axes, coords)

    def _finite(self) -> bool | str:
        """Whether cells must be finite, as scikit-learn's checks take it."""
        return "allow-nan" if get_tags(self).input_tags.allow_nan else True

    def __sklearn_tags__(self) -> Any:
        tags, mixture = super().__sklearn_tags__(), _default_mixture() if self.mixture is None else self.mixture
        tags.input_tags.allow_nan = get_tags(mixture).input_tags.allow_nan
        return tags

    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Log posterior probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite=self._finite())
        with np.errstate(divide="ignore"):
            logs = np.log(self.class_prior_) + np.column_stack([of.score_samples(X) for of in self.mixtures_])
        return log_softmax(logs, axis=1)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Posterior probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``; rows sum to 1.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not finite.
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        best = self.predict_log_proba(X).argmax(axis=1)  # raises NotFittedError before `classes_` is read
        return self.classes_[best]
