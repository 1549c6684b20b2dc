"""Variational inference by factors that are independent: of all rows at once, or of minibatches."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...models import MeanFieldModel
from ...random._keys import Purpose, subkey
from ...utils._sklearn import Interval
from .._base import BaseSampler

_N_HALVINGS = 8
_ROUNDING = 1e-13  # of the objective: at the top, steps change less than that


class MeanFieldState(NamedTuple):
    """Factors of a model, and of its rows."""

    position: Any  # the topics' factors
    key: np.uint64
    n_steps: int
    log_density: float  # the objective
    statistics: np.ndarray | None  # (K, V): the topics' mean directions
    latents: Any  # the rows' factors
    rate: float = 1.0  # length of the step that the next pass tries first


class _Factors(BaseSampler):
    """What both samplers share: they end in factors, not in draws."""

    requires = (MeanFieldModel,)
    state_types = (MeanFieldState,)
    log_density_name = "objective"

    n_document_steps: int
    tol: float

    def init(self, model: MeanFieldModel, key: np.uint64) -> MeanFieldState:
        """Factors that the model makes of some rows, chosen by the key."""
        factors, rows = model.init_factors(subkey(key, Purpose.INITIAL_LATENTS))
        return _state(key, 0, factors, rows, model.objective(factors, rows, model.scale))

    def parameters(self, model: MeanFieldModel, state: MeanFieldState) -> Any:
        """The mean directions of the topics."""
        return state.statistics

    def average_window(self, n_kept_passes: int) -> int:
        """The last pass alone: the algorithm converges."""
        return 1


class MeanField(_Factors):
    r"""Mean-field variational inference: an approximation of the posterior by independent factors, climbed in turn.

    For the spherical admixture ([1]_) each document's topic proportions have a Dirichlet factor, each topic and the
    topics' mean a von Mises-Fisher factor. A pass climbs the documents' factors by Newton's method, and then replaces
    the natural parameters of the topics by :math:`\eta_k = F_k`, the gradient of the objective with respect to the
    topic's expectation. Where that would lower the objective, a shorter step is taken along the natural gradient,
    :math:`\eta_k \leftarrow (1 - \rho) \eta_k + \rho F_k`. So the objective never falls. It is not a bound of the
    evidence, since the expected cosine of a document is approximated.

    The result is a local optimum, found fast. The factors know nothing of each other: spreads are too narrow.

    Parameters
    ----------
    n_document_steps : int, default=2
        Newton steps for a document in each pass, at most. They go on from the pass before.
    tol : float, default=1e-3
        A document is left alone once a step promises less than this, in nats.

    References
    ----------
    .. [1] J. Reisinger, A. Waters, B. Silverthorn and R. J. Mooney, "Spherical topic models", ICML 2010.

    Examples
    --------
    >>> from skmanifold.samplers import MeanField
    >>> MeanField(n_document_steps=5)
    MeanField(n_document_steps=5)
    """

    short_name = "vb"
    _parameter_constraints: ClassVar[dict] = {
        "n_document_steps": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, n_document_steps: int = 2, tol: float = 1e-3) -> None:
        self.n_document_steps = n_document_steps
        self.tol = tol

    def step(self, model: MeanFieldModel, state: MeanFieldState) -> MeanFieldState:
        """Every row's factor, then the topics'; ``log_density`` is the objective."""
        rows, pull = model.fit_rows(state.latents, self.n_document_steps, self.tol)
        before = model.scale * pull.objective + model.topic_objective(state.position)
        rate = state.rate
        for _ in range(_N_HALVINGS):
            factors = model.move_topics(state.position, pull, rate, model.scale)
            seen = model.refresh_rows(factors, rows)
            objective = model.objective(factors, seen, model.scale)
            if objective >= before - _ROUNDING * abs(before):
                break
            rate *= 0.5
        else:  # the next pass tries still shorter steps
            factors, seen, objective = state.position, rows, before
        return _state(state.key, state.n_steps + 1, factors, seen, objective, min(1.0, 4.0 * rate))


class StochasticMeanField(_Factors):
    r"""Stochastic variational inference: mean-field factors of topics that follow minibatches.

    After each minibatch of S documents out of D, with the documents' factors climbed first, the natural parameters of
    the topics move towards the gradient F_k that the minibatch estimates, its documents counted D / S times ([1]_):

    .. math:: \eta_k \leftarrow (1 - \rho_t) \eta_k + \rho_t \hat F_k, \qquad
        \rho_t = (\text{offset} + t)^{-\text{decay}} .

    This is a step of length :math:`\rho_t` along a noisy natural gradient. :math:`\hat F_k` is taken at the topics that
    the step leads to, an implicit step, which stays stable at any length: topics that share documents would overshoot
    otherwise. With all documents in one minibatch and :math:`\rho = 1` it is the topics' step of `MeanField`.

    Parameters
    ----------
    n_document_steps : int, default=5
        Newton steps for a document in each minibatch, at most. In `fit` they go on from the pass before.
    tol : float, default=1e-3
        A document is left alone once a step promises less than this, in nats.
    learning_decay : float, default=0.7
        Between 0.5, exclusive, and 1 for convergence; 0 keeps the length of the steps.
    learning_offset : float, default=10.0
        At least 1; the larger, the shorter are the first steps.

    References
    ----------
    .. [1] M. D. Hoffman, D. M. Blei, C. Wang and J. Paisley, "Stochastic variational inference", JMLR 14, 2013.

    Examples
    --------
    >>> from skmanifold.samplers import StochasticMeanField
    >>> StochasticMeanField(learning_decay=0.6)
    StochasticMeanField(learning_decay=0.6)
    """

    short_name = "svb"
    batching = "either"
    _parameter_constraints: ClassVar[dict] = {
        "n_document_steps": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "learning_decay": [Interval(Real, 0, 1, closed="both")],
        "learning_offset": [Interval(Real, 1, None, closed="left")],
    }

    def __init__(
        self, n_document_steps: int = 5, tol: float = 1e-3, learning_decay: float = 0.7, learning_offset: float = 10.0
    ) -> None:
        self.n_document_steps = n_document_steps
        self.tol = tol
        self.learning_decay = learning_decay
        self.learning_offset = learning_offset

    def step(self, model: MeanFieldModel, state: MeanFieldState) -> MeanFieldState:
        """As many minibatches as see each row once; ``log_density`` is the objective after them."""
        batches = model.choose_batches(subkey(state.key, Purpose.MINIBATCH, state.n_steps))
        factors, rows = state.position, state.latents
        for t, chosen in enumerate(batches, state.n_steps * len(batches)):
            batch = model.batch(chosen)
            some, pull = batch.fit_rows(batch.refresh_rows(factors, rows.take(chosen)), self.n_document_steps, self.tol)
            rate = (self.learning_offset + t) ** -self.learning_decay
            factors = batch.move_topics(factors, pull, rate, batch.scale)
            rows = rows.put(chosen, some)
        rows = model.refresh_rows(factors, rows)
        return _state(state.key, state.n_steps + 1, factors, rows, model.objective(factors, rows, model.scale))

    def init_stream(self, model: MeanFieldModel, key: np.uint64, scale: float) -> MeanFieldState:
        """Begin a stream: factors that the first minibatch suggests, moved by it once."""
        return self.step_stream(model, self.init(model, key), self.learning_offset**-self.learning_decay, scale)

    def resume_stream(self, model: MeanFieldModel, factors: Any, key: np.uint64, n_steps: int) -> MeanFieldState:
        """Take up a stream after `n_steps` minibatches, from the topics' factors alone."""
        return MeanFieldState(factors, key, n_steps, np.nan, None, None)

    def step_stream(self, model: MeanFieldModel, state: MeanFieldState, rate: float, scale: float) -> MeanFieldState:
        """Move the topics' factors by all rows of `model` as one minibatch, each standing for `scale` rows."""
        rows = model.init_rows(state.position)
        rows, pull = model.fit_rows(rows, self.n_document_steps, self.tol)
        factors = model.move_topics(state.position, pull, rate, scale)
        objective = scale * pull.objective + model.topic_objective(state.position)
        return _state(state.key, state.n_steps + 1, factors, model.refresh_rows(factors, rows), objective)


def _state(key, n_steps, factors, rows, objective, rate=1.0) -> MeanFieldState:
    return MeanFieldState(factors, key, n_steps, objective, factors.directions(), rows, rate)
