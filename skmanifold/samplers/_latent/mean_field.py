"""Variational inference: mean-field, from all rows or minibatches, and zero-order collapsed."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...models import CollapsedVariationalModel, MeanFieldModel
from ...random._keys import Purpose, subkey
from ...utils._sklearn import Interval
from .._base import BaseSampler
from .._states import LatentState


class CVB0(BaseSampler):
    r"""Zero-order collapsed variational Bayes: deterministic, one distribution over topics for each token.

    .. math:: \gamma_{mnk} \propto
        (D_{mk}^{\neg mn} + \alpha_k) \frac{W_{kv}^{\neg mn} + \beta_{kv}}{T_k^{\neg mn} + \sum_v \beta_{kv}},

    where the counts are sums of :math:`\gamma` ([1]_). Documents are updated in parallel with word counts that are
    fixed during a pass; within a document each update uses the previous ones. The estimate is that of the last pass.

    The memory is four bytes for each topic of each distinct word of each document.

    References
    ----------
    .. [1] A. Asuncion, M. Welling, P. Smyth and Y. W. Teh, "On smoothing and inference for topic models", UAI 2009.
    """

    short_name = "cvb0"
    state_types = (LatentState,)
    requires = (CollapsedVariationalModel,)
    averages_passes = False  # the algorithm converges

    def init(self, model: CollapsedVariationalModel, key: np.uint64) -> LatentState:
        """The initial state: random responsibilities."""
        responsibilities = model.init_responsibilities(subkey(key, Purpose.INITIAL_LATENTS))
        statistics = model.expected_statistics(responsibilities)
        return LatentState(None, key, 0, -np.inf, statistics, responsibilities)

    def step(self, model: CollapsedVariationalModel, state: LatentState) -> LatentState:
        """One pass; ``log_density`` is the log likelihood of the data at the expected counts before it."""
        responsibilities, log_likelihood = model.update_responsibilities(state.latents)
        statistics = model.expected_statistics(responsibilities)
        return LatentState(None, state.key, state.n_steps + 1, log_likelihood, statistics, responsibilities)


_N_HALVINGS = 8
_ROUNDING = 1e-13  # relative rounding error of the objective; steps close to the optimum change it less


class MeanFieldState(NamedTuple):
    """Factors of a model, and of its rows."""

    position: Any  # the topics' factors
    key: np.uint64
    n_steps: int
    log_density: float  # the objective
    statistics: Any  # the estimate of the topics, which the factors make; None on a stream
    latents: Any  # the rows' factors
    rate: float = 1.0  # length of the step that the next pass tries first


class _Factors(BaseSampler):
    """Base class of both samplers, which estimate factors and do not draw."""

    requires = (MeanFieldModel,)
    averages_passes = False
    state_types = (MeanFieldState,)
    log_density_name = "objective"
    _parameter_constraints: ClassVar[dict] = {
        "n_document_steps": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_restarts": [Interval(Integral, 0, None, closed="left")],
    }

    n_document_steps: int
    tol: float
    n_restarts: int

    def init(self, model: MeanFieldModel, key: np.uint64) -> MeanFieldState:
        """The initial state: initial factors of the model."""
        factors, rows = model.init_factors(subkey(key, Purpose.INITIAL_LATENTS))
        return _state(key, 0, factors, rows, model.objective(factors, rows, model.scale))

    def parameters(self, model: MeanFieldModel, state: MeanFieldState) -> Any:
        """The estimate of the topics."""
        return state.statistics

    def _first_factors(self, model: MeanFieldModel, state: MeanFieldState) -> Any:
        """The factors of rows from which the steps of a pass start."""
        return model.init_rows(state.position) if state.n_steps < self.n_restarts else state.latents


@dataclass(eq=False, repr=False)
class MeanField(_Factors):
    r"""Mean-field variational inference: approximation of the posterior by independent factors, optimised in turn.

    For latent Dirichlet allocation ([2]_), topics and topic proportions of documents have Dirichlet factors. A pass
    repeats the update :math:`\gamma_{mk} = \alpha_k + \sum_v c_{mv} r_{mvk}` of each document `n_document_steps` times,
    and sets :math:`\lambda_{kv} = \beta_{kv} + \sum_m c_{mv} r_{mvk}`, with responsibilities

    .. math:: r_{mvk} \propto \exp\Bigl(\psi(\gamma_{mk}) + \psi(\lambda_{kv})
        - \psi\bigl(\textstyle\sum_u \lambda_{ku}\bigr)\Bigr)

    for the digamma function :math:`\psi`. The objective is a lower bound of the evidence. With ``sampler="vb"``
    `StochasticLDA` makes ten steps, and ten passes with restarts.

    For the spherical admixture ([1]_) the topic proportions of each document have a Dirichlet factor; each topic and
    the mean of the topics have a von Mises-Fisher factor. A pass optimises the factors of the documents by Newton's
    method. Then it replaces the natural parameters of the topics by :math:`\eta_k = F_k`, the gradient of the objective
    with respect to the expectation of the topic. If that would decrease the objective, it makes a shorter step along
    the natural gradient, :math:`\eta_k \leftarrow (1 - \rho) \eta_k + \rho F_k`. This objective is not a bound of the
    evidence, because the expected cosine of a document is approximated.

    No pass after those with restarts decreases the objective.

    The algorithm quickly finds a local optimum. Because the factors are independent, it underestimates posterior
    variances.

    Parameters
    ----------
    n_document_steps : int, default=2
        Maximum number of steps for a document in each pass. They continue from the previous pass.
    tol : float, default=1e-3
        The steps of a document end when the expected increase of the objective is less than this, in nats.
    n_restarts : int, default=0
        Number of first passes in which the steps of each document start from its initial factor, with equal shares of
        the topics. In latent Dirichlet allocation, documents that continue from topics of the first passes stay in
        local optima.

    References
    ----------
    .. [1] J. Reisinger, A. Waters, B. Silverthorn and R. J. Mooney, "Spherical topic models", ICML 2010.
    .. [2] D. M. Blei, A. Y. Ng and M. I. Jordan, "Latent Dirichlet allocation", JMLR 3, 2003.

    Examples
    --------
    >>> from skmanifold.samplers import MeanField
    >>> MeanField(n_document_steps=5)
    MeanField(n_document_steps=5)
    """

    short_name = "vb"

    n_document_steps: int = 2
    tol: float = 1e-3
    n_restarts: int = 0

    def step(self, model: MeanFieldModel, state: MeanFieldState) -> MeanFieldState:
        """Update the factors of all rows, then those of the topics; ``log_density`` is the objective."""
        rows, pull = model.fit_rows(self._first_factors(model, state), self.n_document_steps, self.tol)
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


@dataclass(eq=False, repr=False)
class StochasticMeanField(_Factors):
    r"""Stochastic variational inference: mean-field factors of topics from minibatches.

    For each minibatch of S documents out of D, the factors of the documents are optimised first. Then the natural
    parameters of the topics move towards the gradient F_k, estimated from the minibatch with its documents counted
    D / S times ([1]_):

    .. math:: \eta_k \leftarrow (1 - \rho_t) \eta_k + \rho_t \hat F_k, \qquad
        \rho_t = (\text{offset} + t)^{-\text{decay}} .

    This is a step of length :math:`\rho_t` along a noisy natural gradient. With all documents in one minibatch and
    :math:`\rho = 1` it is the step of the topics in `MeanField`.

    For latent Dirichlet allocation the step is :math:`\lambda_{kv} \leftarrow (1 - \rho_t) \lambda_{kv}
    + \rho_t (\beta_{kv} + (D / S) \sum_m c_{mv} r_{mvk})`. With ``sampler="svb"`` `StochasticLDA` makes ten steps for a
    document, and ten passes with restarts.

    For the spherical admixture :math:`\hat F_k` is evaluated at the new topics. This implicit step is stable for any
    length; an explicit step would overshoot for topics that share documents.

    Parameters
    ----------
    n_document_steps : int, default=5
        Maximum number of steps for a document in each minibatch. In `fit` they continue from the previous pass.
    tol : float, default=1e-3
        The steps of a document end when the expected increase of the objective is less than this, in nats.
    learning_decay : float, default=0.7
        Exponent of the learning rate. The algorithm converges for values in (0.5, 1]; with 0 the rate is constant.
    learning_offset : float, default=10.0
        Offset of the learning rate, at least 1. A larger offset makes the first steps shorter.
    n_restarts : int, default=0
        Number of first passes of `fit` in which the steps of each document start from equal shares of the topics, as
        in `MeanField`. A stream always starts so.

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
        **_Factors._parameter_constraints,
        "learning_decay": [Interval(Real, 0, 1, closed="both")],
        "learning_offset": [Interval(Real, 1, None, closed="left")],
    }

    n_document_steps: int = 5
    tol: float = 1e-3
    learning_decay: float = 0.7
    learning_offset: float = 10.0
    n_restarts: int = 0

    def step(self, model: MeanFieldModel, state: MeanFieldState) -> MeanFieldState:
        """Minibatches that use each row once; ``log_density`` is the objective after them."""
        batches = model.choose_batches(subkey(state.key, Purpose.MINIBATCH, state.n_steps))
        factors, rows = state.position, self._first_factors(model, state)
        for t, chosen in enumerate(batches, state.n_steps * len(batches)):
            batch = model.batch(chosen)
            some, pull = batch.fit_rows(batch.refresh_rows(factors, rows.take(chosen)), self.n_document_steps, self.tol)
            rate = (self.learning_offset + t) ** -self.learning_decay
            factors = batch.move_topics(factors, pull, rate, batch.scale)
            rows = rows.put(chosen, some)
        rows = model.refresh_rows(factors, rows)
        return _state(state.key, state.n_steps + 1, factors, rows, model.objective(factors, rows, model.scale))

    def init_stream(self, model: MeanFieldModel, key: np.uint64, scale: float) -> MeanFieldState:
        """Initialise a stream: initial factors from the first minibatch, and one step with it."""
        return self.step_stream(model, self.init(model, key), self.learning_offset**-self.learning_decay, scale)

    def resume_stream(self, model: MeanFieldModel, statistics: Any, key: np.uint64, n_steps: int) -> MeanFieldState:
        """The state of a stream after `n_steps` minibatches, from the factors of the topics."""
        return MeanFieldState(statistics, key, n_steps, np.nan, None, None)

    def step_stream(self, model: MeanFieldModel, state: MeanFieldState, rate: float, scale: float) -> MeanFieldState:
        """Move the factors of the topics by one minibatch, all rows of `model`."""
        rows = model.init_rows(state.position)
        rows, pull = model.fit_rows(rows, self.n_document_steps, self.tol)
        factors = model.move_topics(state.position, pull, rate, scale)
        objective = scale * pull.objective + model.topic_objective(state.position)
        return _state(state.key, state.n_steps + 1, factors, model.refresh_rows(factors, rows), objective)


def _state(key, n_steps, factors, rows, objective, rate=1.0) -> MeanFieldState:
    return MeanFieldState(factors, key, n_steps, objective, factors.directions(), rows, rate)
