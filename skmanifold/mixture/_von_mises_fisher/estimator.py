"""Mixture of von Mises-Fisher laws of directions, by expectation-maximisation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.callback import CallbackSupportMixin

from ...base import all_or_nothing
from ...callbacks._hooks import PassReport, labels_of_all, rows_to_fit, wants_estimator
from ...persistence import SavesItself
from ...random._keys import Purpose, root_key, subkey
from ...sparse.directions import Directions, as_directions, validate_directions
from ...utils._plain_numbers import PlainNumbers
from ...utils._sklearn import Interval, StrOptions
from ...utils._threads import Workers
from ...utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike, fit_context
from ...utils._validation import check_array
from .conditions import fitted_mixture
from .em import Climb, Mixture, VonMisesFisherEM, dense_row
from .inference import DirectionInference


@fitted_mixture
class VonMisesFisherMixture(
    PlainNumbers, DirectionInference, SavesItself, CallbackSupportMixin, DensityMixin, BaseEstimator
):
    r"""Mixture of von Mises-Fisher laws: clusters of directions, as of documents by their words.

    Rows of X count by their direction alone, :math:`x_i` of unit length in :math:`\mathbb{R}^V`; what they have in
    common with a component is a cosine:

    .. math::

        p(x) = \sum_k \pi_k \, c_V(\kappa_k) \exp(\kappa_k \mu_k' x).

    Fitted by expectation-maximisation [1]_. A row of zeros has no direction: it is left out.

    Parameters
    ----------
    n_components : int, default=1
        Number of components K.
    assignment : {"soft", "hard"}, default="soft"
        How a row counts in an iteration: for all components, by their posterior probabilities, or for the likeliest
        alone. Hard assignment with a `concentration` that is given is spherical k-means with weights; these matter
        the less, the larger it is.
    concentration : "shared", float or None, default=None
        Concentrations of the components: None fits one for each, "shared" one for all; a number is theirs as it is.
    init : {"k-means++", "random"} or array-like of shape (n_components, n_features), default="k-means++"
        Directions to begin from: rows drawn one after the other with probabilities in proportion to one minus the
        largest cosine with those before, each the best of a few that are drawn; rows drawn at random, no direction
        twice; or those that are given, of any length. Of five such draws, after three rounds of spherical k-means
        each, the one with the largest mean cosine goes on.
    n_init : int, default=1
        Number of beginnings, of which the best end is kept; 1 where `init` gives the directions.
    max_iter : int, default=100
        Most iterations of each beginning.
    tol : float, default=1e-6
        The iterations end when the lower bound (see `lower_bound_`) rises by less than this, in nats per row.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is the same, bit for bit, for every `n_jobs`.
    n_jobs : int, default=None
        Threads; None is 1, -1 all cores.
    verbose : int, default=0
        Print the lower bound every `verbose` iterations.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Shares of the components.
    mean_directions_ : ndarray of shape (n_components, n_features)
        Unit vectors :math:`\mu_k`.
    concentrations_ : ndarray of shape (n_components,)
        Concentrations :math:`\kappa_k`.
    labels_ : ndarray of shape (n_samples,)
        The likeliest component of each fitted row.
    converged_ : bool
        Whether the iterations ended because the bound did not rise any more.
    n_iter_ : int
        Number of iterations.
    lower_bound_ : float
        Mean log likelihood of a row relative to the uniform law, less what the prior takes; with hard assignment of
        rows and labels together. It never exceeds the mean log likelihood.
    log_likelihood_trace_ : ndarray of shape (n_iter_,)
        The lower bound in each iteration. It never falls, but where an empty component had to be filled.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    skmanifold.distributions.VonMisesFisher : A single law.
    sklearn.mixture.GaussianMixture : Mixture of Gaussians, where lengths count too.

    Notes
    -----
    An iteration computes the posterior probabilities :math:`\tau_{ik} \propto \pi_k c_V(\kappa_k) \exp(\kappa_k
    \mu_k' x_i)`, or puts 1 for the largest and 0 elsewhere, and with weights :math:`w_i` of rows (1 if none are given)
    sets

    .. math::

        n_k = \sum_i w_i \tau_{ik}, \quad r_k = \sum_i w_i \tau_{ik} x_i, \quad \pi_k = n_k / N, \quad
        \mu_k = r_k / \|r_k\|, \quad A_V(\kappa_k) = \frac{\|r_k\| + A_0}{n_k + 1},

    :math:`A_V` being :func:`~skmanifold.distributions.bessel_ratio`, solved exactly (approximations are compared in
    [2]_), and :math:`N = \sum_k n_k`.

    Without the prior's row, the 1 and :math:`A_0`, that is maximum likelihood, which is infinite: a component that
    closes in on one row, or on equal rows, has :math:`\|r_k\| = n_k`. The row is worth as much as one of X, and its
    resultant length is that of the clusters in hand: the iterations begin with three rounds of spherical k-means from
    the first directions, and :math:`A_0 = \sum_k \|r_k\| / N` is what the third finds, at most :math:`1 - 10^{-6}`
    where all clusters are of equal rows. So the prior has the right scale for loose and for tight clusters, in two
    dimensions or a hundred thousand: it moves :math:`1 - \|r_k\| / n_k` by a share of about :math:`1 / n_k` of its
    distance to theirs, and a single component not at all. A shared concentration has :math:`A_V(\kappa) = (\sum_k
    \|r_k\| + A_0) / (N + 1)`.

    In other words each iteration climbs on the log likelihood minus :math:`\sum_k KL(\kappa_0 \| \kappa_k)`, the
    divergences of laws with concentrations :math:`\kappa_0 = A_V^{-1}(A_0)` and :math:`\kappa_k` about one mean
    direction. This over N is the lower bound.

    A component without rows gets that row as its direction which had the lowest density.

    References
    ----------
    .. [1] A. Banerjee, I. S. Dhillon, J. Ghosh and S. Sra, "Clustering on the unit hypersphere using von Mises-Fisher
       distributions", Journal of Machine Learning Research 6, 2005.
    .. [2] K. Hornik and B. Grün, "movMF: an R package for fitting mixtures of von Mises-Fisher distributions", Journal
       of Statistical Software 58, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold.distributions import VonMisesFisher
    >>> from skmanifold import VonMisesFisherMixture
    >>> north = VonMisesFisher([0.0, 0.0, 1.0], 50.0).sample(300, random_state=0)
    >>> east = VonMisesFisher([1.0, 0.0, 0.0], 10.0).sample(100, random_state=1)
    >>> mixture = VonMisesFisherMixture(2, random_state=0).fit(np.concatenate([north, east]))
    >>> mixture.weights_.round(2).tolist()
    [0.75, 0.25]
    >>> mixture.predict([[0, 0.1, 2], [3, 0, 1]]).tolist()
    [0, 1]
    >>> mixture.transform([[0, 0.1, 2]]).shape  # membership probabilities, for the next step of a pipeline
    (1, 2)
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "assignment": [StrOptions({"soft", "hard"})],
        "concentration": [None, StrOptions({"shared"}), Interval(Real, 0, None, closed="neither")],
        "init": [StrOptions({"k-means++", "random"}), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }

    labels_: np.ndarray
    converged_: bool
    n_iter_: int
    lower_bound_: float
    log_likelihood_trace_: np.ndarray
    feature_names_in_: np.ndarray

    def __init__(
        self,
        n_components: int = 1,
        *,
        assignment: Literal["soft", "hard"] = "soft",
        concentration: float | Literal["shared"] | None = None,
        init: Literal["k-means++", "random"] | ArrayLike = "k-means++",
        n_init: int = 1,
        max_iter: int = 100,
        tol: float = 1e-6,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.assignment = assignment
        self.concentration = concentration
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: Ignored = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the components of directions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of any length and sign. Sparse rows stay sparse.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; a whole number stands for as many copies of a row, in the first directions too.

        Returns
        -------
        self : VonMisesFisherMixture

        Raises
        ------
        ValueError
            If X has values that are not finite, or fewer rows with a direction and a weight than components, or the
            weights or first directions do not fit.
        """
        with all_or_nothing(self):
            X, _, sample_weight = rows_to_fit(self, X, None, sample_weight)
            return self._fit(X, sample_weight)

    def _fit(self, X, sample_weight):
        rows = validate_directions(self, X, reset=True)
        row_weights = _checked_row_weights(sample_weight, rows)
        n_usable = np.count_nonzero(row_weights)
        if n_usable < self.n_components:
            raise ValueError(
                f"n_components={self.n_components} needs as many rows, but X (n_samples={rows.n_rows}) has {n_usable} "
                "that are not all zeros and have a weight."
            )
        given = None if isinstance(self.init, str) else self._given_directions(rows.n_features)
        key = root_key(self.random_state)
        with Workers(self.n_jobs) as workers:
            em = VonMisesFisherEM(
                rows, row_weights, self.n_components, self.assignment == "hard", self.concentration, workers
            )
            beginnings: list[Callable[[], Mixture]]
            if given is None:
                keys = [subkey(key, Purpose.START, start) for start in range(self.n_init)]
                beginnings = [partial(em.begin_at_rows, start_key, str(self.init)) for start_key in keys]
            else:
                beginnings = [partial(em.begin, given)]
            context = self._init_callback_context(max_subtasks=len(beginnings))
            # Score monitors are silent without a y.
            task = {"estimator": self, "X": X, "y": lambda: np.zeros(rows.n_rows)}
            context.call_on_fit_task_begin(**task)
            best = max((self._climb(em, begin, context, task) for begin in beginnings), key=lambda run: run.trace[-1])
            fitted = best.finished(rows, self.max_iter, self.tol)
            context.call_on_fit_task_end(**task, reconstruction_attributes=fitted)
        self.__dict__.update(fitted)
        self.__dict__.pop("_pass_report", None)
        return self

    def _given_directions(self, n_features: int) -> np.ndarray:
        """The user's first directions as columns."""
        given = check_array(self.init, dtype=np.float64, input_name="init")
        if given.shape != (self.n_components, n_features):
            raise ValueError(
                f"init must have shape (n_components, n_features) = ({self.n_components}, {n_features}); got "
                f"{given.shape}."
            )
        rows = as_directions(given)
        if len(rows.directed) < self.n_components:
            raise ValueError("init has a row of zeros, which is no direction.")
        return np.stack([dense_row(rows, row) for row in range(rows.n_rows)], axis=1)

    def _climb(self, em: VonMisesFisherEM, begin: Callable[[], Mixture], context: Any, task: dict) -> Climb:
        """Iterate from the first parameters until nothing is gained, or a callback stops it."""
        mixture = begin()
        trace: list[float] = []
        start = context.subcontext(task_name="start", max_subtasks=self.max_iter).call_on_fit_task_begin(**task)
        while True:
            trace.append(em.expect(mixture))
            if self.verbose and len(trace) % self.verbose == 0:
                print(f"iteration {len(trace)} of {self.max_iter}: lower bound {trace[-1]:.9g}")
            converged = len(trace) > 1 and trace[-1] - trace[-2] < self.tol
            run = Climb(mixture, em.labels.copy(), trace, converged)
            self._pass_report = PassReport("lower bound", trace[-1], em.rows.n_rows, "rows", True)
            step = start.subcontext(task_name="iteration").call_on_fit_task_begin(**task)
            attributes = partial(run.attributes, em.rows) if wants_estimator(self, step) else None
            stopped = step.call_on_fit_task_end(**task, reconstruction_attributes=attributes)
            if stopped or converged or len(trace) == self.max_iter:
                start.call_on_fit_task_end(**task)
                return run
            mixture = em.maximize(mixture.directions)

    def fit_predict(self, X: MatrixLike, y: Ignored = None, sample_weight: ArrayLike | None = None) -> np.ndarray:
        """Fit, and return the likeliest component of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            ``labels_``.
        """
        return labels_of_all(self.fit(X, sample_weight=sample_weight), X)


def _checked_row_weights(sample_weight, rows: Directions) -> np.ndarray:
    """Weights of the rows, 0 for those without a direction."""
    with_direction = np.diff(rows.indptr) > 0
    if not with_direction.any():
        raise ValueError("All rows of X are zeros, which have no direction.")
    if sample_weight is None:
        return with_direction.astype(np.float64)
    weights = check_array(sample_weight, dtype=np.float64, ensure_2d=False, input_name="sample_weight")
    if weights.shape != (rows.n_rows,):
        raise ValueError(f"sample_weight must have shape ({rows.n_rows},), one per row; got {weights.shape}.")
    if weights.min() < 0.0:
        raise ValueError(f"sample_weight must not be negative; got {weights.min()}.")
    weights = weights * with_direction
    with np.errstate(over="ignore"):
        if 0.0 < weights.sum() < np.inf:
            return weights
    what = "must have a finite sum and must not be zero for all rows of X that have a direction"
    raise ValueError(f"sample_weight {what}.")
