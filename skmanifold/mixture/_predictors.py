"""A classifier and a regressor that predict a column of a table by a mixture of all columns."""

from __future__ import annotations

import sys
from itertools import count
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..base import all_or_nothing
from ..emissions import Categorical, Columns, Gaussian
from ..emissions._columns.emission import check_blocks
from ..emissions._columns.layout import OpenTable, open_table
from ..emissions._columns.rows import chosen_columns, divided
from ..utils._conditions import Sizes, refuse
from ..utils._inputs.tables import readable, refuse_text
from ..utils._typing import ArrayLike, ClassifierMixin, MatrixLike, RandomStateLike, RegressorMixin, fit_context
from ..utils._validation import check_array, validate_data
from ._dirichlet_process.estimator import DPMixture
from ._dp_categorical import DPCategoricalMixture
from ._exponential_family.estimator import ExponentialFamilyMixture
from ._imputation import check_cells
from ._imputer import HoldsMixture, fitted_mixture
from ._subspace.classifier import sorted_classes
from ._views.estimator import CrossCat


def _mixture_with_target(value: Any, where: str, sizes: Sizes) -> None:
    """Condition for a fitted mixture of the features and the target, with the classes if there are any."""
    fitted_mixture(value, where, sizes)
    if value.n_features_in_ != sizes["n_features"] + 1:
        refuse(where, "has other features")
    layout, n_classes = vars(value).get("_layout"), sizes.get("n_classes")
    if len(layout.categories[-1] if layout else ()) != (n_classes or 0):
        refuse(where, "has a target with other classes")


class _TargetPredictor(HoldsMixture):
    """Base class of predictors of a target by the mixture of the features and the target."""

    _parameter_constraints: ClassVar[dict] = {
        "estimator": [None, DPMixture, ExponentialFamilyMixture, CrossCat],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: DPMixture | ExponentialFamilyMixture | CrossCat | None = None,
        *,
        random_state: RandomStateLike = None,
    ) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``estimator__name`` sets a parameter of the mixture, even if it is None.

        Parameters
        ----------
        **params : dict

        Returns
        -------
        self : estimator instance

        Raises
        ------
        ValueError
            If there is no parameter of this name.
        """
        if any(name.startswith("estimator__") for name in params) and params.get("estimator", self.estimator) is None:
            params = {**params, "estimator": DPMixture("auto")}
        return super().set_params(**params)

    def _check_features(self, X: MatrixLike, y: Any) -> None:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        validate_data(self, open_table(X).table, skip_check_array=True)

    def _fit_with_target(self, table: OpenTable, target: np.ndarray, emission: Any) -> None:
        """Fit the mixture to the columns of X and the target, numbers or texts, which has this emission."""
        check_consistent_length(table.table, target)
        if isinstance(self.estimator, DPCategoricalMixture):
            raise TypeError(f'{type(self).__name__} does not use DPCategoricalMixture: use DPMixture("categorical").')
        mixture = DPMixture("auto") if self.estimator is None else clone(self.estimator)
        if self.random_state is not None:
            mixture.set_params(random_state=self.random_state)
        joint = _with_target(mixture._resolve_emission(), table, emission)
        self.estimator_ = mixture.set_params(emission=joint).fit(_appended(table, target))
        self.estimator_._check_cells()  # of emissions of users

    def _conditional(self, X: MatrixLike) -> Any:
        """The distribution of the target in rows of X."""
        check_is_fitted(self)
        validate_data(self, open_table(X).table, reset=False, skip_check_array=True)
        return self.estimator_.conditional(X, self.n_features_in_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        mixture = get_tags(DPMixture("auto") if self.estimator is None else self.estimator)
        tags.input_tags = mixture.input_tags
        tags.input_tags.sparse = False
        return tags


class MixtureClassifier(ClassifierMixin, _TargetPredictor):
    r"""Classifier by a mixture of the features and the class, which accepts missing cells and missing classes.

    The class is one more column of the table, to which a mixture is fitted. Its probabilities are those given the
    observed features of a row,

    .. math:: p(y \mid x_\mathrm{obs}) = \frac{1}{T} \sum_t \sum_k p(z = k \mid x_\mathrm{obs}, \theta^{(t)})
        \, p(y \mid z = k, \theta^{(t)}),

    averaged over posterior draws t, as of :meth:`DPMixture.conditional <skmanifold.DPMixture.conditional>`.

    Parameters
    ----------
    estimator : DPMixture, ExponentialFamilyMixture, CrossCat or None, default=None
        A clone of this mixture is fitted. None is ``DPMixture("auto")``. Its parameters can be set as
        ``estimator__max_iter`` and so on, even if it is None. Its emission is that of the features; selectors of
        :class:`~skmanifold.emissions.Columns` refer to X. The class has the emission
        :class:`~skmanifold.emissions.Categorical`.
    random_state : int, RandomState instance or None, default=None
        Seed. Unless it is None, it replaces the `random_state` of `estimator`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, ascending.
    estimator_ : estimator instance
        The fitted mixture. The class is its last column, ``"target"`` if X has names and none is this. Its categories
        are texts with indices into ``classes_``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    MixtureRegressor : The same for numbers.
    SubspaceClassifier : A mixture of subspaces for each class.

    Notes
    -----
    The mixture describes all columns, not only the class: with many features, a classifier that is fitted to predict
    the class may be more accurate.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import ExponentialFamilyMixture, MixtureClassifier
    >>> X = np.array([[1.0, 2.0], [1.1, np.nan], [0.9, 2.1], [8.0, 9.0], [8.2, 9.1], [7.9, np.nan]])
    >>> y = ["low", "low", None, "high", "high", None]
    >>> model = MixtureClassifier(ExponentialFamilyMixture(2, emission="auto"), random_state=0).fit(X, y)
    >>> model.predict([[np.nan, 2.0], [8.1, np.nan]]).tolist()
    ['low', 'high']
    """

    classes_: Annotated[np.ndarray, sorted_classes]
    estimator_: Annotated[Any, _mixture_with_target]

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: ArrayLike) -> Self:
        """Fit the mixture to the features and the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows as the mixture requires; with "auto", numbers, categories, strings and booleans. Missing cells (NaN,
            None, ``pandas.NA``) are allowed where the emission allows them.
        y : array-like of shape (n_samples,)
            Labels: whole numbers, strings or booleans. Rows whose label is missing (NaN, None) have an unknown class,
            and the mixture is fitted to their features.

        Returns
        -------
        self : MixtureClassifier

        Raises
        ------
        ValueError
            If X has values that are not allowed, or all labels are missing, or they are no classes.
        IncompatibleError
            If the emission has no distributions of single cells.
        """
        with all_or_nothing(self):
            self._check_features(X, y)
            self.classes_, codes = _coded(y)
            width = len(str(len(self.classes_)))
            texts = np.array([None if code < 0 else f"{code:0{width}d}" for code in codes], dtype=object)
            self._fit_with_target(open_table(X), texts, Categorical())
        return self

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the classes given the observed features.

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
            If X has other columns than in `fit`, or values that are not allowed.
        """
        return self._conditional(X).predict_proba()

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        best = self.predict_proba(X).argmax(axis=1)  # raises NotFittedError before `classes_` is read
        return self.classes_[best]


class MixtureRegressor(RegressorMixin, _TargetPredictor):
    """Regressor by a mixture of the features and the target, with quantiles; it accepts missing cells and targets.

    The target is one more column of the table, to which a mixture is fitted. Predictions are means and quantiles of its
    distribution given the observed features of a row, averaged over posterior draws, as of
    :meth:`DPMixture.conditional <skmanifold.DPMixture.conditional>`. So the regression need not be linear, and the
    target may have several modes, or another variance in each region.

    Parameters
    ----------
    estimator : DPMixture, ExponentialFamilyMixture, CrossCat or None, default=None
        A clone of this mixture is fitted. None is ``DPMixture("auto")``. Its parameters can be set as
        ``estimator__max_iter`` and so on, even if it is None. Its emission is that of the features; selectors of
        :class:`~skmanifold.emissions.Columns` refer to X. With "auto", or a :class:`~skmanifold.emissions.Gaussian`,
        the target is one more column of the emission, which also describes its covariances. With other emissions it is
        Gaussian, and independent of the features within a component.
    random_state : int, RandomState instance or None, default=None
        Seed. Unless it is None, it replaces the `random_state` of `estimator`.

    Attributes
    ----------
    estimator_ : estimator instance
        The fitted mixture. The target is its last column, ``"target"`` if X has names and none is this.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    MixtureClassifier : The same for classes.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import ExponentialFamilyMixture, MixtureRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3.0, 3.0, (300, 1))
    >>> y = np.abs(X[:, 0]) + rng.normal(0.0, 0.2, 300)
    >>> model = MixtureRegressor(ExponentialFamilyMixture(2, random_state=0)).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    estimator_: Annotated[Any, _mixture_with_target]

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: ArrayLike) -> Self:
        """Fit the mixture to the features and the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows as the mixture requires; with "auto", numbers, categories, strings and booleans. Missing cells (NaN,
            None, ``pandas.NA``) are allowed where the emission allows them.
        y : array-like of shape (n_samples,)
            Numbers. Rows whose target is missing (NaN, None) have an unknown one, and the mixture is fitted to their
            features.

        Returns
        -------
        self : MixtureRegressor

        Raises
        ------
        ValueError
            If X has values that are not allowed, or all targets are missing, or one is no finite number.
        IncompatibleError
            If the emission has no distributions of single cells.
        """
        with all_or_nothing(self):
            self._check_features(X, y)
            y = check_array(y, ensure_2d=False, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y")
            target = column_or_1d(y, warn=True)
            if np.isnan(target).all():
                raise ValueError("All targets in y are missing: at least one row needs a number.")
            self._fit_with_target(open_table(X), target, Gaussian("diag"))
        return self

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The mean of the target given the observed features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not allowed.
        """
        return self._conditional(X).mean()

    def predict_quantiles(self, X: MatrixLike, q: float | ArrayLike) -> np.ndarray:
        """Quantiles of the target given the observed features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        q : float or array-like of shape (n_levels,)
            Probabilities, above 0 and below 1.

        Returns
        -------
        quantiles : ndarray of shape (n_samples,) or (n_samples, n_levels)

        Raises
        ------
        ValueError
            If X has values that are not allowed, or a level is not between 0 and 1.
        """
        return self._conditional(X).quantile(q)

    def predict_interval(self, X: MatrixLike, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Intervals of the target, with equal probabilities below and above.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        level : float, default=0.9
            Probability of the interval.

        Returns
        -------
        low, high : ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            If X has values that are not allowed, or the level is not between 0 and 1.
        """
        return self._conditional(X).interval(level)


def _coded(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Classes in order, and the index of each label among them, -1 if it is missing."""
    y = readable(y, "y")
    y = y if isinstance(y, np.ndarray) else np.array(y, dtype=object)  # with other types missing labels change others
    y = readable(column_or_1d(y, warn=True), "y")
    if y.dtype.kind == "O":
        missing = np.array([cell is None or cell != cell for cell in y], dtype=bool)
    else:
        missing = np.isnan(y) if y.dtype.kind == "f" else np.zeros(len(y), dtype=bool)
    present = y[~missing]
    if not len(present):
        raise ValueError("All labels in y are missing: at least one row needs a class.")
    if y.dtype.kind == "O":
        if len({isinstance(label, str) for label in present}) > 1:
            raise ValueError("y has labels that are strings and others: convert them to one type.")
        present = np.asarray(present.tolist())
    assert_all_finite(present, input_name="y")
    check_classification_targets(present)
    refuse_text(present, "y has a label")
    classes, indices = np.unique(present, return_inverse=True)
    codes = np.full(len(y), -1)
    codes[~missing] = indices
    return classes, codes


def _with_target(emission: Any, table: OpenTable, of_target: Any) -> Any:
    """The emission of the columns of a table and of one more, at the end."""
    if isinstance(emission, Columns):
        if isinstance(emission.blocks, str):  # which reads the kind of the column
            if emission.count_columns is not None:
                emission.count_columns = chosen_columns("count_columns", emission.count_columns, table).tolist()
            return emission
        check_blocks(emission.blocks)
        pairs = zip(emission.blocks, divided(emission.blocks, table), strict=True)
        blocks = [(name, own, place.tolist()) for (name, own, _), place in pairs]
    elif isinstance(emission, Gaussian) and isinstance(of_target, Gaussian):
        return emission
    else:
        if emission.row_family is not None:
            check_cells(emission, emission.row_family)
        blocks = [("features", emission, list(range(table.n_columns)))]
    return Columns([*blocks, (_unused("target", [name for name, *_ in blocks]), of_target, [table.n_columns])])


def _appended(table: OpenTable, target: np.ndarray) -> Any:
    """The table with the target as its last column."""
    X = table.table
    if table.library == "numpy":
        is_plain = X.dtype.kind in "biuf" and target.dtype.kind == "f"
        return np.column_stack([X if is_plain else X.astype(object), target])
    name: Any = _unused("target", table.names)
    if table.library == "pandas":
        if not all(isinstance(each, str) for each in X.columns):
            X, name = X.set_axis(range(table.n_columns), axis=1), table.n_columns
        X = X.copy(deep=False)
        X.insert(table.n_columns, name, target)
        return X
    module, cells = sys.modules[table.library], target.tolist()
    if table.library == "polars":
        return X.with_columns(module.Series(name, cells))
    return X.append_column(name, module.array(cells))


def _unused(name: str, others: Any) -> str:
    return next(each for i in count() if (each := f"{name}_{i}" if i else name) not in others)
