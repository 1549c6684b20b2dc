"""Classifier with a mixture of subspaces for each class."""

from __future__ import annotations

from numbers import Real as RealNumber
from typing import Annotated, Any, Literal, Self

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import brentq
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf_shrinkage
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ...base import all_or_nothing, stack_draws
from ...base._estimator import BaseFittedEstimator
from ...callbacks._hooks import rows_to_fit
from ...inference._draws import to_tree
from ...numerics.linalg import symmetric_eigen
from ...random._keys import Purpose, root_key, subkey
from ...random._variates import some_rows
from ...utils._conditions import Array, Length, Real, Sizes, refuse
from ...utils._declared import Saved, check_estimator
from ...utils._sklearn import Interval, StrOptions, torn_down
from ...utils._threads import Workers, limit_threads
from ...utils._typing import ArrayLike, ClassifierMixin, RandomStateLike, fit_context
from ...utils._validation import validate_data
from .._scores import log_predictive
from .estimator import SubspaceMixture
from .family import as_numbers
from .inference import DRAW_AXES

_CANDIDATES = 1.0, "ledoit_wolf"  # of the shrinkage
_POOLED_ROWS = 2  # weight of the pooled variance in the prior of the noise of a class, in rows
_MOST_COLUMNS = 1000  # of a full whitening matrix; with more, columns are only scaled
_MOST_ROWS = 2000  # of the leave-one-out log loss
_LEAST_POWER = 1e-3  # smallest inverse of a chosen temperature
_LEAST_VARIANCE = 1e-10  # smallest variance of whitened directions relative to the largest
_ROUNDING = 8.0 * float(np.finfo(np.float64).eps)


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
    return SubspaceMixture(1, max_iter=30, thin=1)


def _whitening(X: np.ndarray, of_row: np.ndarray, shrinkage: Any) -> np.ndarray:
    """Inverse square root of the pooled covariance within classes, (m, m); or only scales, (m,)."""
    gaps = np.where(np.isnan(X), 0.0, X - _means_of_classes(X, of_row))
    gaps[:, np.abs(gaps).max(axis=0) <= _ROUNDING * np.nanmax(np.abs(X), axis=0)] = 0.0
    unit = np.abs(gaps).max()
    if unit == 0.0:  # no class varies
        return np.ones(X.shape[1])
    gaps /= unit
    if shrinkage == "ledoit_wolf":
        shrinkage = ledoit_wolf_shrinkage(gaps, assume_centered=True)
    if shrinkage == 1.0 or X.shape[1] > _MOST_COLUMNS or np.isnan(X).any():
        variances = np.square(gaps).sum(axis=0) / np.count_nonzero(~np.isnan(X), axis=0)
        axes = None
    else:
        variances, axes = symmetric_eigen(gaps.T @ gaps / len(gaps))
    variances = (1.0 - shrinkage) * np.maximum(variances, 0.0) + shrinkage * variances.mean()
    scales = 1.0 / (unit * np.sqrt(np.maximum(variances, _LEAST_VARIANCE * variances.max())))
    return scales if axes is None else (axes * scales) @ axes.T


def _means_of_classes(X: np.ndarray, of_row: np.ndarray) -> np.ndarray:
    """Mean of the observed cells of the class of each row; 0 if there are none."""
    means = np.zeros((of_row.max() + 1, X.shape[1]))
    for c in range(len(means)):
        own = X[of_row == c]
        means[c] = np.nansum(own, axis=0) / np.maximum(np.count_nonzero(~np.isnan(own), axis=0), 1)
    return means[of_row]


def _whitened(X: np.ndarray, whitening: np.ndarray) -> np.ndarray:
    """The rows that mixtures are fitted to; the bytes of each do not depend on the others."""
    return X * whitening if whitening.ndim == 1 else np.einsum("ij,jk->ik", X, whitening)


def _pooled_priors(mixture: SubspaceMixture, X: np.ndarray) -> dict[str, Any]:
    """Priors for the whitened rows of all classes, where the mixture has None."""
    half = 0.5 * _POOLED_ROWS * X.shape[1]
    mean = np.nanmean(X, axis=0)
    variance = float(np.nanmean((X - mean) ** 2))
    priors = {"noise_prior": (half, half), "centre_prior_mean": mean, "centre_prior_variance": variance or 1.0}
    return {name: prior for name, prior in priors.items() if getattr(mixture, name) is None}


def _leave_one_out(mixtures: list[SubspaceMixture], X: np.ndarray, of_row: np.ndarray) -> np.ndarray:
    """Log density of each fitted row given the other rows of each class, (n, n_classes)."""
    logs = np.column_stack([mixture.score_samples(X) for mixture in mixtures])
    for c in np.unique(of_row):
        own, mixture = of_row == c, mixtures[c]
        rows = mixture._family_rows(mixture._read(X[own]))
        with Workers(mixture.n_jobs) as workers:
            by_draw = [log_predictive(rows, [draw], workers) for draw in mixture._predictive]
        logs[own, c] -= np.var(by_draw, axis=0)
    return logs


def _calibrated(log_prior: np.ndarray, logs: np.ndarray, of_row: np.ndarray, temperature: Any) -> tuple[float, float]:
    """The temperature, which minimises the log loss if it is "auto", and the log loss of the rows."""
    own = logs[np.arange(len(logs)), of_row]

    def slope(power: float) -> float:  # of the loss, which is convex in the inverse of the temperature
        return float((softmax(log_prior + power * logs, axis=1) * logs).sum() - own.sum())

    if temperature == "auto":
        power = 1.0
        if slope(power) > 0.0:
            power = brentq(slope, _LEAST_POWER, 1.0, xtol=1e-5) if slope(_LEAST_POWER) < 0.0 else _LEAST_POWER
        temperature = 1.0 / power
    losses = logsumexp(log_prior + logs / temperature, axis=1) - log_prior[of_row] - own / temperature
    return temperature, float(losses.sum())


def _log_density_of_cells(mixture: SubspaceMixture, cells: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Log density of cells Bz, (n, size), for rows z of the mixture, up to a constant."""
    by_draw = []
    for draw in mixture._predictive:
        terms = np.tile(draw.log_weights(), (len(cells), 1))
        subspaces = draw.parameters
        for k, d in enumerate(subspaces.dims):
            along = B @ subspaces.basis(k).T * np.sqrt(1.0 / subspaces.ratios[k, :d] - 1.0)
            root = np.linalg.cholesky((B @ B.T + along @ along.T) / subspaces.noise[k])
            inverse = solve_triangular(root, np.eye(len(B)), lower=True)
            gaps = np.einsum("ij,kj->ik", cells - B @ subspaces.centres[k], inverse)
            terms[:, k] -= 0.5 * np.square(gaps).sum(axis=1) + np.log(np.diag(root)).sum()
        by_draw.append(logsumexp(terms, axis=1))
    return logsumexp(by_draw, axis=0) - np.log(len(by_draw))


class SubspaceClassifier(ClassifierMixin, BaseFittedEstimator):
    r"""Classifier with a mixture of affine subspaces for each class, by Bayes' rule.

    .. math:: p(y = c \mid x) \propto \pi_c \, p(x \mid X_c)^{1 / T},

    where :math:`p(x \mid X_c)` is the posterior predictive density of a :class:`SubspaceMixture` fitted to the rows of
    class c. By default it has one subspace per class, with inferred dimension ([1]_, section 6.2), of rows whitened by
    the pooled covariance within classes.

    Parameters
    ----------
    mixture : SubspaceMixture or None, default=None
        A clone of this mixture is fitted to each class. None is ``SubspaceMixture(1, max_iter=30, thin=1)``:
        there are few sweeps, because a single subspace starts near its posterior. Its parameters can be set as
        ``mixture__max_dimension`` and so on, even if it is None.
    shrinkage : {"auto", "ledoit_wolf"}, float or None, default="auto"
        Rows are whitened: multiplied by the inverse square root of

        .. math:: S = (1 - \lambda) \hat\Sigma + \lambda \, \mathrm{tr}(\hat\Sigma) / m \cdot I,

        where :math:`\hat\Sigma` is the covariance within classes, pooled over the classes, of m features. The number
        :math:`\lambda`, from 0 to 1, is this parameter, or the estimate of Ledoit and Wolf ([2]_). "auto" is this
        estimate or 1, whichever has the smaller leave-one-out log loss of the fitted rows. With 0, subspaces describe
        how classes differ from their common covariance, which a class without directions has, as in linear discriminant
        analysis. With 1, rows are only divided by a number, which suits classes near subspaces.

        Priors of `mixture` that are None are those of the whitened rows of all classes: the noise precision has the
        prior Ga(m, m), with the weight of two rows of variance 1. None leaves the rows and the priors unchanged.
    temperature : "auto" or float, default="auto"
        The temperature T, a positive number. 1 is Bayes' rule. Higher temperatures correct probabilities that are too
        close to 0 and 1, as those from densities of many features often are. "auto" is the number, at least 1, with
        the smallest leave-one-out log loss of the fitted rows.
    class_prior : array-like of shape (n_classes,), default=None
        Prior probabilities :math:`\pi`; None uses the class frequencies.
    random_state : int, RandomState instance or None, default=None
        Seed. It replaces the `random_state` of `mixture`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    mixtures_ : list of SubspaceMixture
        The fitted mixture of each class, of whitened rows, with its ``dimension_posterior_``.
    whitening_ : ndarray of shape (n_features, n_features) or (n_features,)
        The symmetric matrix, or the scales, that rows are multiplied by.
    temperature_ : float
        The temperature T.
    class_prior_ : ndarray of shape (n_classes,)
        Prior probabilities :math:`\pi`, normalised.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis : Classes with full covariances.

    Notes
    -----
    The leave-one-out log density of a row given its own class is estimated without other fits: the log of the mean
    density over the posterior draws less the variance of the log density, the estimate of WAIC ([3]_). It is too high
    for classes of a few rows. At most 2,000 rows, chosen at random, are used.

    Rows with missing cells (NaN) have the density of their observed cells. If the fitted rows have missing cells, or
    more than 1,000 features, only the diagonal of :math:`\hat\Sigma` is used, which scales the columns.

    References
    ----------
    .. [1] B. St. Thomas, L. Lin, L.-H. Lim and S. Mukherjee, "Learning subspaces of different dimensions", 2014.
    .. [2] O. Ledoit and M. Wolf, "A well-conditioned estimator for large-dimensional covariance matrices", 2004.
    .. [3] S. Watanabe, "Asymptotic equivalence of Bayes cross validation and widely applicable information criterion",
       2010.

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
        "shrinkage": [StrOptions({"auto", "ledoit_wolf"}), Interval(RealNumber, 0, 1, closed="both"), None],
        "temperature": [StrOptions({"auto"}), Interval(RealNumber, 0, None, closed="neither")],
        "class_prior": [None, "array-like"],
    }

    classes_: Annotated[np.ndarray, sorted_classes]
    mixtures_: Annotated[list[Annotated[Any, _mixture]], Length("n_classes")]
    class_prior_: Annotated[np.ndarray, Array("float64", "n_classes", low=0, sums_to_one=0)]
    whitening_: Saved[
        Annotated[np.ndarray, Array("float64", "n_features n_features")]
        | Annotated[np.ndarray, Array("float64", "n_features", above=0)]
    ]
    temperature_: Annotated[float, Real(above=0)]

    def __init__(
        self,
        mixture: SubspaceMixture | None = None,
        *,
        class_prior: ArrayLike | None = None,
        shrinkage: Literal["auto", "ledoit_wolf"] | float | None = "auto",
        temperature: Literal["auto"] | float = "auto",
        random_state: RandomStateLike = None,
    ) -> None:
        self.mixture = mixture
        self.class_prior = class_prior
        self.shrinkage = shrinkage
        self.temperature = temperature
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
        with torn_down(self), all_or_nothing(self), limit_threads("blas"):  # rounding depends on the number of threads
            return self._fit(*rows_to_fit(self, X, y))

    def _fit(self, X, y):
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite=self._finite())
        check_classification_targets(y)
        self.classes_, of_row = np.unique(y, return_inverse=True)
        counts = np.bincount(of_row)
        self.class_prior_ = self._checked_prior(counts)
        mixture = _default_mixture() if self.mixture is None else self.mixture
        needed = mixture.n_components or 1
        if counts.min() < needed:
            few = self.classes_[counts.argmin()]
            raise ValueError(
                f"n_components={needed} subspaces need as many rows, but class {few} has n_samples={counts.min()}."
            )
        key = root_key(self.random_state)
        seeds = [int(subkey(key, c) >> np.uint64(32)) for c in range(len(counts))]
        chosen = np.arange(len(X)) if len(X) <= _MOST_ROWS else some_rows(key, Purpose.SUBSAMPLE, len(X), _MOST_ROWS)
        candidates = _CANDIDATES if self.shrinkage == "auto" else (self.shrinkage,)
        context = self._init_callback_context(max_subtasks=len(candidates) * len(counts))
        task, least = {"estimator": self, "X": X, "y": y}, np.inf
        context.call_on_fit_task_begin(**task)
        for shrinkage in candidates:
            whitening = np.ones(X.shape[1]) if shrinkage is None else _whitening(X, of_row, shrinkage)
            rows, mixtures = _whitened(X, whitening), []
            priors = {} if shrinkage is None else _pooled_priors(mixture, rows)
            for c, seed in enumerate(seeds):
                step = context.subcontext(task_name="class").call_on_fit_task_begin(**task)
                of_class = clone(mixture).set_params(random_state=seed, **priors)
                with step.propagate_callback_context(of_class):
                    mixtures.append(of_class.fit(rows[of_row == c]))
                step.call_on_fit_task_end(**task)
            temperature, loss = self.temperature, 0.0
            if "auto" in (self.shrinkage, temperature):
                logs = _leave_one_out(mixtures, rows[chosen], of_row[chosen])
                temperature, loss = _calibrated(np.log(counts / len(X)), logs, of_row[chosen], temperature)
            if not loss >= least:  # also if it is NaN
                least, self.whitening_, self.mixtures_ = loss, whitening, mixtures
                self.temperature_ = float(temperature)
        context.call_on_fit_task_end(**task, reconstruction_attributes={})
        return self

    def _log_densities(self, X: np.ndarray) -> np.ndarray:
        """Log density of each row given each class, up to a constant of the row, (n, n_classes)."""
        holes = np.isnan(X) if self.whitening_.ndim == 2 else np.zeros(X.shape, bool)
        logs, complete = np.zeros((len(X), len(self.mixtures_))), ~holes.any(axis=1)
        if complete.any():
            rows = _whitened(X[complete], self.whitening_)
            logs[complete] = np.column_stack([mixture.score_samples(rows) for mixture in self.mixtures_])
        if complete.all():
            return logs
        with limit_threads("blas"):
            self._fill_incomplete(X, holes, logs)
        return logs

    def _fill_incomplete(self, X: np.ndarray, holes: np.ndarray, logs: np.ndarray) -> None:
        """Fill the log densities of rows with missing cells."""
        inverse = np.linalg.inv(self.whitening_)  # observed cells are linear functions of whitened rows
        patterns, pattern_of = np.unique(holes, axis=0, return_inverse=True)
        for pattern, missing in enumerate(patterns):
            own = pattern_of.ravel() == pattern
            if missing.any() and not missing.all():
                cells = X[np.ix_(own, ~missing)]
                logs[own] = np.column_stack(
                    [_log_density_of_cells(mixture, cells, inverse[~missing]) for mixture in self.mixtures_]
                )

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
        rows = validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite=self._finite())
        with np.errstate(divide="ignore"):
            log_prior = np.log(self.class_prior_)
        return log_softmax(log_prior + self._log_densities(rows) / self.temperature_, axis=1)

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
