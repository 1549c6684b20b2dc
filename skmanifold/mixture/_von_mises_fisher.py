"""Mixture of von Mises-Fisher distributions, fitted by expectation-maximisation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from operator import itemgetter
from typing import Annotated, Any, Literal, Self

import numpy as np
from sklearn.base import DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ..base import all_or_nothing
from ..base._estimator import BaseFittedEstimator
from ..callbacks._hooks import PassReport, labels_of_all, rows_to_fit, wants_estimator
from ..emissions._von_mises_fisher.family import VonMisesFisherFamily, VonMisesFisherParameters
from ..emissions._von_mises_fisher.rows import DenseUnitRows, DirectedRows, Start, read_rows
from ..inference._distributed_fits.session import refuse_session
from ..random._keys import Purpose, root_key, subkey
from ..utils._conditions import MOST_COUNTED, Array, Sizes, index
from ..utils._conditions import Real as RealNumber
from ..utils._declared import Lacking, Saved
from ..utils._sklearn import Interval, NumberOf, StrOptions, torn_down
from ..utils._threads import Workers
from ..utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike, fit_context
from ..utils._validation import check_array, of_columns, validate_sample_weight
from ._inference import InformationCriteria
from ._memberships import Position
from ._von_mises_fisher_em import DirectionEM, Estimate

_OF_FIT = "labels_", "converged_", "n_iter_", "lower_bound_", "log_likelihood_trace_"


class _FittedMixture(InformationCriteria, DensityMixin, BaseFittedEstimator):
    """Fitted attributes, and what they must agree in."""

    weights_: Annotated[np.ndarray, Array("float64", "n_components", low=0, sums_to_one=0)]
    mean_directions_: Annotated[np.ndarray, Array("float64", "n_components n_features", unit=1)]
    concentrations_: Annotated[np.ndarray, Array("float64", "n_components", low=0, high=MOST_COUNTED)]
    n_batch_iter_: Lacking[int]
    _family: Saved[VonMisesFisherFamily]
    _lengths: Annotated[np.ndarray, Array("float64", "n_components", low=0, high=MOST_COUNTED)]
    _total: Annotated[float, RealNumber(above=0, high=MOST_COUNTED)]
    labels_: Lacking[Annotated[np.ndarray, index("n_rows", below="n_components")]]
    converged_: Lacking[bool]
    n_iter_: Lacking[int]
    lower_bound_: Lacking[float]
    log_likelihood_trace_: Lacking[Annotated[np.ndarray, Array("float64", "_")]]

    def _disagreement(self, sizes: Sizes) -> str | None:
        return "has a family of other features" if self._family.n_features != self.n_features_in_ else None


@dataclass(eq=False, repr=False)
class VonMisesFisherMixture(_FittedMixture):
    r"""Mixture of von Mises-Fisher distributions, for clusters of directions such as documents by their words.

    Only the directions of the rows of X are used: :math:`x_i` has unit length in :math:`\mathbb{R}^V`. The similarity
    of a row to a component is a cosine:

    .. math::

        p(x) = \sum_k \pi_k \, c_V(\kappa_k) \exp(\kappa_k \mu_k' x).

    The mixture is fitted by expectation-maximisation [1]_. A row of zeros has no direction and is left out; its
    membership probabilities are ``weights_``.

    Parameters
    ----------
    n_components : int, default=1
        Number of components K.
    assignment : {"soft", "hard"}, default="soft"
        Assignment of a row in an iteration: to all components, by their posterior probabilities, or only to the most
        probable one. Hard assignment with a given `concentration` is spherical k-means with weights, whose influence
        decreases with the concentration.
    concentration : {"per_component", "shared"} or float, default="per_component"
        Concentrations of the components: one for each, one for all, or a given one. None is "per_component". With
        "shared", clusters of texts agree better with labels; "per_component" has a higher held-out density.
    init : {"k-means++", "random"} or array-like of shape (n_components, n_features), default="k-means++"
        Initial directions. "k-means++" draws rows one after the other with probability proportional to one minus the
        largest cosine with the earlier ones, and takes the best of a few candidates each time. "random" draws distinct
        directions of rows at random. In both cases five sets are drawn and improved by three rounds of spherical
        k-means, and the one with the largest mean cosine is used; with more than 2,000 dense rows, and 30 for each
        component, in a random sample of so many. An array gives the directions, of any length.
    n_init : int, default=1
        Number of initialisations, of which the best result is kept; 1 if `init` gives the directions.
    max_iter : int, default=100
        Maximum number of iterations for each initialisation.
    total_samples : int, default=1_000_000
        `partial_fit` only: number of rows in the whole stream.
    learning_decay : float, default=0.7
        `partial_fit` only: minibatch t has the weight ``(learning_offset + t) ** -learning_decay`` in the statistics.
    learning_offset : float, default=10.0
        `partial_fit` only: larger values make the first minibatches count less.
    tol : float, default=1e-6
        The iterations stop when the lower bound (see ``lower_bound_``) increases by less than this, in nats per row.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is bitwise the same for every `n_jobs`.
    n_jobs : int, default=None
        Number of threads; None is 1, -1 uses all cores.
    verbose : int, default=0
        Print the lower bound every `verbose` iterations.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
    mean_directions_ : ndarray of shape (n_components, n_features)
        Unit vectors :math:`\mu_k`.
    concentrations_ : ndarray of shape (n_components,)
        Concentrations :math:`\kappa_k`.
    labels_ : ndarray of shape (n_samples,)
        The most probable component of each fitted row.
    converged_ : bool
        Whether the iterations stopped because the lower bound increased by less than `tol`.
    n_iter_ : int
        Number of iterations.
    lower_bound_ : float
        Mean log likelihood of a row relative to the uniform distribution, minus the penalty of the prior. With hard
        assignment, it is the joint log likelihood of rows and labels. It never exceeds the mean log likelihood.
    log_likelihood_trace_ : ndarray of shape (n_iter_,)
        The lower bound in each iteration. It never decreases, except when an empty component is filled.
    n_batch_iter_ : int
        Number of minibatches passed to `partial_fit` since the last `fit`. `partial_fit` does not set the four
        attributes of iterations and ``labels_``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    skmanifold.distributions.VonMisesFisher : A single von Mises-Fisher distribution.
    sklearn.mixture.GaussianMixture : Mixture of Gaussians, which also uses the lengths of rows.

    Notes
    -----
    An iteration computes the posterior probabilities :math:`\tau_{ik} \propto \pi_k c_V(\kappa_k) \exp(\kappa_k
    \mu_k' x_i)`, or with hard assignment 1 for the largest and 0 for the others. With row weights :math:`w_i` (1 by
    default) it sets

    .. math::

        n_k = \sum_i w_i \tau_{ik}, \quad r_k = \sum_i w_i \tau_{ik} x_i, \quad \pi_k = n_k / N, \quad
        \mu_k = r_k / \|r_k\|, \quad A_V(\kappa_k) = \frac{\|r_k\| + A_0}{n_k + 1},

    where :math:`A_V` is :func:`~skmanifold.distributions.bessel_ratio`, inverted exactly ([2]_ compares
    approximations), and :math:`N = \sum_k n_k`.

    The terms 1 and :math:`A_0` are a prior that is equivalent to one additional row per component. Without them the
    likelihood is unbounded: a component of a single direction has :math:`\|r_k\| = n_k`. :math:`A_0 = \sum_k \|r_k\| /
    N`, at most :math:`1 - 10^{-6}`, is the value after the three rounds of spherical k-means with which the iterations
    start: a suitable scale for wide and narrow clusters and any number of features. The prior shrinks :math:`1 -
    \|r_k\| / n_k` towards the average of the clusters by a relative amount of about :math:`1 / n_k`, and does not
    affect a single component. With a shared concentration, :math:`A_V(\kappa) = (\sum_k \|r_k\| + A_0) / (N + 1)`.

    Equivalently, each iteration increases the log likelihood minus :math:`\sum_k KL(\kappa_0 \| \kappa_k)`, where the
    divergences are between distributions with concentrations :math:`\kappa_0 = A_V^{-1}(A_0)` and :math:`\kappa_k` and
    the same mean direction. The lower bound is this value divided by N.

    A component without rows takes the direction of the row with the lowest density.

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

    _parameter_constraints = {  # noqa: RUF012
        "n_components": [NumberOf("DPMixture('von_mises_fisher') infers the number of components")],
        "assignment": [StrOptions({"soft", "hard"})],
        "concentration": [None, StrOptions({"per_component", "shared"}), Interval(Real, 0, None, closed="neither")],
        "init": [StrOptions({"k-means++", "random"}), "array-like"],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    n_components: int = 1
    _: KW_ONLY
    assignment: Literal["soft", "hard"] = "soft"
    concentration: float | Literal["per_component", "shared"] | None = "per_component"
    init: Literal["k-means++", "random"] | ArrayLike = "k-means++"
    n_init: int = 1
    max_iter: int = 100
    total_samples: int = 1_000_000
    learning_decay: float = 0.7
    learning_offset: float = 10.0
    tol: float = 1e-6
    random_state: RandomStateLike = None
    n_jobs: int | None = None
    verbose: int = 0

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: Ignored = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture to the directions of rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of any length. Sparse rows stay sparse; dense rows of float32 or float64 are not copied and may be
            mapped from a file, other numbers become float64.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows. A whole number has the same effect as this number of copies of the row.

        Returns
        -------
        self : VonMisesFisherMixture

        Raises
        ------
        ValueError
            If X has values that are not finite or fewer nonzero rows with a positive weight than components, or the
            weights or initial directions are invalid.

        Warns
        -----
        ConvergenceWarning
            If EM has not converged after `max_iter` iterations, and `tol` is not 0.
        """
        refuse_session(self)
        with torn_down(self), all_or_nothing(self), Workers(self.n_jobs) as workers:
            X, _, sample_weight = rows_to_fit(self, X, None, sample_weight)
            rows = read_rows(self, X, reset=True)
            em = self._em(rows, X, sample_weight, workers)
            starts = self._starts(em, self.n_init)
            context = self._init_callback_context(max_subtasks=len(starts))
            # Score monitors are silent without a y.
            task = {"estimator": self, "X": X, "y": lambda: np.zeros(rows.n_rows)}
            context.call_on_fit_task_begin(**task)
            fitted = max((self._climb(em, start, context, task) for start in starts), key=itemgetter("lower_bound_"))
            if not fitted["converged_"] and fitted["n_iter_"] >= self.max_iter and self.tol > 0.0:
                warnings.warn(
                    f"EM stopped after max_iter={self.max_iter} iterations, before it converged: raise max_iter or "
                    "tol.",
                    ConvergenceWarning,
                    stacklevel=3,
                )
            context.call_on_fit_task_end(**task, reconstruction_attributes=fitted)
            self._forget(("_pass_report", "n_batch_iter_"))
            self.__dict__.update(fitted)
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: MatrixLike, y: Ignored = None, sample_weight: ArrayLike | None = None) -> Self:
        r"""Update the fit with a minibatch of rows.

        The first minibatch is fitted by ten iterations of EM and should contain rows of every component. Each later one
        has one E step, after which the statistics :math:`n_k` and :math:`r_k` become

        .. math:: T \leftarrow (1 - \rho_t) T + \rho_t \frac{N}{N_t} T_t, \qquad
            \rho_t = (\mathrm{offset} + t)^{-\mathrm{decay}},

        for N rows in the stream (`total_samples`) and a minibatch of the total weight :math:`N_t`. The M step is that
        of `fit`. After `fit`, the stream continues from its result. A minibatch of rows of zeros changes nothing but
        ``n_batch_iter_``. The mixture is fitted after the first other one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows within the minibatch.

        Returns
        -------
        self : VonMisesFisherMixture

        Raises
        ------
        ValueError
            As in `fit`, or if X has another number of columns, or `n_components` has changed.
        """
        refuse_session(self)
        with all_or_nothing(self):
            is_first, n_batches = not hasattr(self, "weights_"), getattr(self, "n_batch_iter_", 0)
            if not is_first and len(self.weights_) != self.n_components:
                raise ValueError(
                    f"n_components={self.n_components}, but the fitted model has {len(self.weights_)}: call fit."
                )
            rows = read_rows(self, X, reset=is_first and n_batches == 0)
            if rows.has_direction.any():  # else there is nothing to learn from
                total, rate = self.total_samples, float(self.learning_offset + n_batches + 1) ** -self.learning_decay
                with Workers(self.n_jobs) as workers:
                    em = self._em(rows, X, sample_weight, workers)
                    if is_first:
                        estimate = em.begin_stream(self._starts(em, 1)[0](), float(total))
                    else:
                        old = Estimate(self._estimate, self._lengths, self._total)
                        estimate = em.blend(old, self._family.prior, float(total), rate)
                self._forget(_OF_FIT)
                self.__dict__.update(estimate.attributes(), _family=em.family)
            self.n_batch_iter_ = n_batches + 1
            return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    @property
    def _estimate(self) -> Position:
        directions = np.ascontiguousarray(self.mean_directions_.T)
        return Position(self.weights_, VonMisesFisherParameters.of(directions, self.concentrations_))

    def _em(self, rows: DirectedRows, X: Any, sample_weight: Any, workers: Workers) -> DirectionEM:
        """EM on rows with a direction and a weight; raises an error if there are too few."""
        weights = np.ones(rows.n_rows) if sample_weight is None else validate_sample_weight(sample_weight, X)
        weights = weights * rows.has_direction
        n_usable = np.count_nonzero(weights)
        if n_usable < self.n_components:
            raise ValueError(
                f"n_components={self.n_components} needs as many rows, but X (n_samples={rows.n_rows}) has {n_usable} "
                "that are not all zeros and have a weight."
            )
        kind, is_hard = self.concentration or "per_component", self.assignment == "hard"
        return DirectionEM(rows, weights, self.n_components, workers, concentration=kind, hard=is_hard)

    def _starts(self, em: DirectionEM, n_init: int) -> list[Callable[[], Start]]:
        """Functions that return initial clusters."""
        if not isinstance(self.init, str):
            return [partial(em.begin, self._given_directions(em.rows.n_features))]
        key = root_key(self.random_state)
        return [partial(em.begin_at_rows, subkey(key, Purpose.START, start), self.init) for start in range(n_init)]

    def _given_directions(self, n_features: int) -> np.ndarray:
        """The initial directions of `init`, as columns."""
        given = check_array(of_columns(self, "init"), dtype=np.float64, ensure_2d=False, input_name="init")
        if given.shape != (self.n_components, n_features):
            raise ValueError(
                f"init must be 'k-means++', 'random' or the initial directions, of shape (n_components, n_features) = "
                f"({self.n_components}, {n_features}), not labels of rows; got an array of shape {given.shape}."
            )
        rows = DenseUnitRows(given)
        if not rows.has_direction.all():
            raise ValueError("init has a row of zeros, which is no direction.")
        return np.ascontiguousarray(rows.dense(np.arange(rows.n_rows)).T)

    def _climb(self, em: DirectionEM, begin: Callable[[], Start], context: Any, task: dict) -> dict[str, Any]:
        """Run EM until convergence or until a callback stops it; returns the fitted attributes."""
        estimate, trace = em.begin_em(begin()), []
        start = context.subcontext(task_name="start", max_subtasks=self.max_iter).call_on_fit_task_begin(**task)
        while True:
            trace.append(em.expect(estimate.position))
            if self.verbose and len(trace) % self.verbose == 0:
                print(f"iteration {len(trace)} of {self.max_iter}: lower bound {trace[-1]:.9g}")
            converged = len(trace) > 1 and trace[-1] - trace[-2] < self.tol
            self._pass_report = PassReport("lower bound", trace[-1], em.rows.n_rows, "rows", True)
            step = start.subcontext(task_name="iteration").call_on_fit_task_begin(**task)
            fitted = partial(self._attributes, em, estimate, trace, converged)
            wanted = fitted if wants_estimator(self, step) else None
            stopped = step.call_on_fit_task_end(**task, reconstruction_attributes=wanted)
            if stopped or converged or len(trace) == self.max_iter:
                start.call_on_fit_task_end(**task)
                return fitted()
            estimate = em.maximize(estimate.position)

    def _attributes(self, em: DirectionEM, estimate: Estimate, trace: list[float], converged: bool) -> dict[str, Any]:
        """Fitted attributes after an E step at the estimate."""
        return {
            **estimate.attributes(),
            "_family": em.family,
            "labels_": np.where(em.rows.has_direction, em.labels, np.argmax(estimate.position.weights)),
            "converged_": converged,
            "n_iter_": len(trace),
            "lower_bound_": trace[-1],
            "log_likelihood_trace_": np.array(trace),
        }

    def fit_predict(self, X: MatrixLike, y: Ignored = None, sample_weight: ArrayLike | None = None) -> np.ndarray:
        """Fit the mixture and return the most probable component of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return labels_of_all(self.fit(X, sample_weight=sample_weight), X)

    def score_samples(self, X: MatrixLike) -> np.ndarray:
        """Log density of the direction of each row relative to the uniform distribution on the sphere.

        The uniform distribution has the score 0. Add ``log_vmf_normalizer(n_features, 0)`` of
        `skmanifold.distributions` for the density with respect to the surface measure of the sphere.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            In nats, relative to the uniform distribution; NaN for a row of zeros, which `score` and the information
            criteria leave out.
        """
        return self._at_estimate(self._read(X))[1]

    def _read(self, X: MatrixLike) -> DirectedRows:
        check_is_fitted(self)
        return read_rows(self, X, reset=False)

    def _at_estimate(self, rows: DirectedRows) -> tuple[np.ndarray, np.ndarray]:
        shares, log_density = super()._at_estimate(rows)
        shares[~rows.has_direction], log_density[~rows.has_direction] = self.weights_, np.nan
        return shares, log_density

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
