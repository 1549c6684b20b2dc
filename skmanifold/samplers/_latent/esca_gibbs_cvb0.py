"""Samplers of discrete latent variables of tokens: ESCA, collapsed Gibbs, partially collapsed Gibbs and CVB0."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...models import (
    CollapsedModel,
    CollapsedVariationalModel,
    LatentModel,
    PartiallyCollapsedModel,
    RoundingModel,
    StreamModel,
)
from ...random._keys import Purpose, subkey
from ...utils._sklearn import Interval, StrOptions
from .._base import BaseSampler


class _ByCounter:
    """A class attribute of ESCA that has another value on instances with approximate counters."""

    def __init__(self, exact: Any, approximate: Any):
        self.exact = exact
        self.approximate = approximate

    def __get__(self, sampler: ESCA | None, owner: type | None = None) -> Any:
        return self.approximate if sampler is not None and sampler.counter == "approximate" else self.exact


class ESCAState(NamedTuple):
    """One chain of `ESCA`; on a stream, without latents."""

    position: Any  # the mode given the statistics
    key: np.uint64
    n_steps: int
    log_density: float
    statistics: Any  # of the latents
    latents: Any  # as drawn


class ESCA(BaseSampler):
    r"""Exponential stochastic cellular automaton: massively parallel stochastic EM.

    The S step draws all latents given the parameters of the last pass. The M step sets the parameters to their mode
    given the statistics of all draws. For latent Dirichlet allocation, the topic of token :math:`n` of document
    :math:`m` is :math:`k` with probability

    .. math:: p(z_{mn} = k) \propto (D_{mk} + \alpha_k) \frac{W_{kv} + \beta_{kv}}{T_k + \sum_v \beta_{kv}},

    where the counts are those of the previous pass and include the token itself ([1]_, eq. 20). Draws are exact.

    A pass depends only on the previous one, so tokens are independent and the result is the same for any number of
    workers. The stationary distribution is *not* the posterior: it concentrates near a mode of the posterior in the
    natural parameters (prior exponents without the "-1"). The estimate is the average of the counts of the last
    `n_average` passes, smoothed by the prior.

    Parameters
    ----------
    n_average : int, default=20
        Number of last passes whose statistics are averaged (at most those after burn-in). If a callback stops the fit
        early, it is between half and one and a half times this number.
    n_local_sweeps : int, default=10
        For minibatches of a stream: number of sweeps over the latents of a minibatch with fixed parameters.
    n_first_sweeps : int, default=100
        For the first minibatch of a stream: number of passes that also update the parameters. With too few passes the
        components remain similar, and the stream needs many minibatches to separate them.
    counter : {"exact", "approximate"}, default="exact"
        With "approximate" the parameters of the next pass are fitted to counts rounded to the eight-bit counters of
        Csuros, which are unbiased ([2]_). Their totals stay exact, and the estimate is the average of exact counts.
        This option shows the effect of rounding. It does not save memory: exact counts, packed with an escape code for
        the few that need more than a byte, take the same three bytes each. It is not available for streams, whose
        counts are fractions.

    References
    ----------
    .. [1] M. Zaheer, M. Wick, J.-B. Tristan, A. Smola and G. Steele, "Exponential stochastic cellular automata for
       massively parallel inference", AISTATS 2016.
    .. [2] M. Csuros, "Approximate counting with a floating-point counter", COCOON 2010.

    Examples
    --------
    >>> from skmanifold.samplers import ESCA
    >>> ESCA(n_average=50)
    ESCA(n_average=50)
    """

    short_name = "esca"
    state_types = (ESCAState,)
    requires = _ByCounter((LatentModel,), (LatentModel, RoundingModel))
    batching = _ByCounter("either", "full")
    _parameter_constraints: ClassVar[dict] = {
        "n_average": [Interval(Integral, 1, None, closed="left")],
        "n_local_sweeps": [Interval(Integral, 1, None, closed="left")],
        "n_first_sweeps": [Interval(Integral, 1, None, closed="left")],
        "counter": [StrOptions({"exact", "approximate"})],
    }

    def __init__(
        self,
        n_average: int = 20,
        n_local_sweeps: int = 10,
        n_first_sweeps: int = 100,
        counter: Literal["exact", "approximate"] = "exact",
    ) -> None:
        self.n_average = n_average
        self.n_local_sweeps = n_local_sweeps
        self.n_first_sweeps = n_first_sweeps
        self.counter = counter

    def init(self, model: LatentModel, key: np.uint64) -> ESCAState:
        """The initial state: random latents, and the mode of the parameters given them.

        Parameters
        ----------
        model : object
            The model or target.
        key : uint64
            Key of the chain.

        Returns
        -------
        state : State
            The initial state.
        """
        latents, statistics = model.init_latents(subkey(key, Purpose.INITIAL_LATENTS))
        position = self._next_position(model, statistics, key, 0)
        return ESCAState(position, key, 0, -np.inf, statistics, latents)

    def step(self, model: LatentModel, state: ESCAState) -> ESCAState:
        """One S step and one M step; ``log_density`` is log p(data | parameters) before the M step.

        Parameters
        ----------
        model : object
            The model or target.
        state : State
            Current state.

        Returns
        -------
        state : State
            The new state. It may reuse the arrays of the old one.
        """
        key = subkey(state.key, Purpose.SWEEP, state.n_steps)
        latents, statistics, log_likelihood = model.sample_latents(state.position, state.latents, key)
        position = self._next_position(model, statistics, state.key, state.n_steps + 1)
        return ESCAState(position, state.key, state.n_steps + 1, log_likelihood, statistics, latents)

    def _next_position(self, model: Any, statistics: Any, key: np.uint64, n_steps: int) -> Any:
        """The parameters of the next pass, from the statistics of all rows."""
        if self.counter == "approximate":
            statistics = model.approximate(statistics, subkey(key, Purpose.ROUNDING, n_steps))
        return model.mode(statistics)

    def init_stream(self, model: StreamModel, key: np.uint64, scale: float) -> ESCAState:
        """Initialise a stream by `n_first_sweeps` passes over the first minibatch, weighted by `scale`.

        Parameters
        ----------
        model : object
            Model of the first minibatch.
        key : uint64
            Key of the chain.
        scale : float
            Number of rows of the stream that each row of the minibatch represents.

        Returns
        -------
        state : State
            The state after the first minibatch.
        """
        state = self.init(model, key)
        for _ in range(self.n_first_sweeps):
            state = self.step(model, state)
        statistics = model.blend(state.statistics, state.statistics, 1.0, scale)
        return ESCAState(model.mode(statistics), key, 1, state.log_density, statistics, None)

    def resume_stream(self, model: StreamModel, statistics: Any, key: np.uint64, n_steps: int) -> ESCAState:
        """The state of a stream after `n_steps` minibatches, from its statistics.

        Parameters
        ----------
        model : object
            Model of a minibatch.
        statistics : object
            Sufficient statistics of the stream.
        key : uint64
            Key of the chain.
        n_steps : int
            Number of minibatches so far.

        Returns
        -------
        state : State
            The state.
        """
        return ESCAState(model.mode(statistics), key, n_steps, np.nan, statistics, None)

    def step_stream(self, model: StreamModel, state: ESCAState, rate: float, scale: float) -> ESCAState:
        """Move the statistics towards those of one minibatch: T <- (1 - rate) T + rate * scale * T_batch.

        Parameters
        ----------
        model : object
            Model of the minibatch.
        state : State
            Current state.
        rate : float
            Length of the step, from 0 to 1.
        scale : float
            Number of rows of the stream that each row of the minibatch represents.

        Returns
        -------
        state : State
            The new state.
        """
        key = subkey(state.key, Purpose.MINIBATCH, state.n_steps)
        new = model.impute_rows(state.position, self.n_local_sweeps, key)
        statistics = model.blend(state.statistics, new, rate, scale)
        return ESCAState(model.mode(statistics), state.key, state.n_steps + 1, np.nan, statistics, None)

    def average_window(self, n_kept_passes: int) -> int:
        """The last `n_average` passes, or all after burn-in if they are fewer.

        Parameters
        ----------
        n_kept_passes : int
            Number of passes after burn-in.

        Returns
        -------
        int
            Number of passes.
        """
        return min(self.n_average, n_kept_passes)


class CollapsedGibbsState(NamedTuple):
    """One chain of `CollapsedGibbs`, which has no parameters."""

    position: None
    key: np.uint64
    n_steps: int
    log_density: float
    statistics: Any  # counts of the assignments
    latents: Any  # the assignments


class CollapsedGibbs(BaseSampler):
    r"""Collapsed Gibbs sampling: each token in turn given all others; exact.

    .. math:: p(z_{mn} = k \mid \text{rest}) \propto
        (D_{mk}^{\neg mn} + \alpha_k) \frac{W_{kv}^{\neg mn} + \beta_{kv}}{T_k^{\neg mn} + \sum_v \beta_{kv}}

    The stationary distribution of the chain is the posterior of the topics of all tokens ([1]_, eq. 5; [2]_, eq. 13,
    whose parentheses are misplaced). A pass is sequential; `n_jobs` only runs several chains in parallel. The estimate
    is the average of the counts of all passes after burn-in, smoothed by the prior.

    References
    ----------
    .. [1] T. L. Griffiths and M. Steyvers, "Finding scientific topics", PNAS 101, 2004.
    .. [2] M. Zaheer, M. Wick, J.-B. Tristan, A. Smola and G. Steele, "Exponential stochastic cellular automata for
       massively parallel inference", AISTATS 2016.
    """

    short_name = "collapsed_gibbs"
    state_types = (CollapsedGibbsState,)
    requires = (CollapsedModel,)
    log_density_name = "log_joint"
    draws_parameters = True

    def init(self, model: CollapsedModel, key: np.uint64) -> CollapsedGibbsState:
        """The initial state: random assignments.

        Parameters
        ----------
        model : object
            The model or target.
        key : uint64
            Key of the chain.

        Returns
        -------
        state : State
            The initial state.
        """
        assignments = model.init_assignments(subkey(key, Purpose.INITIAL_LATENTS))
        return CollapsedGibbsState(None, key, 0, -np.inf, model.collapsed_statistics(assignments), assignments)

    def step(self, model: CollapsedModel, state: CollapsedGibbsState) -> CollapsedGibbsState:
        """One systematic scan; ``log_density`` is log p(data, assignments) after it.

        Parameters
        ----------
        model : object
            The model or target.
        state : State
            Current state.

        Returns
        -------
        state : State
            The new state. It may reuse the arrays of the old one.
        """
        key = subkey(state.key, Purpose.SWEEP, state.n_steps)
        log_joint = model.sweep_assignments(state.latents, key)
        statistics = model.collapsed_statistics(state.latents)
        return CollapsedGibbsState(None, state.key, state.n_steps + 1, log_joint, statistics, state.latents)

    def parameters(self, model: CollapsedModel, state: CollapsedGibbsState) -> Any:
        """A draw of the parameters, which were integrated out, given the assignments.

        Parameters
        ----------
        model : object
            The model or target.
        state : State
            Current state.

        Returns
        -------
        parameters : object
            Parameters, in the form that the model uses.
        """
        return model.draw(state.statistics, subkey(state.key, Purpose.DRAW, state.n_steps))


class GibbsState(NamedTuple):
    """One chain of `Gibbs`."""

    position: Any  # the parameters as drawn
    key: np.uint64
    n_steps: int
    log_density: float
    statistics: Any  # counts of the assignments
    latents: Any  # the assignments


class Gibbs(BaseSampler):
    r"""Partially collapsed Gibbs sampling: draws the parameters, integrates out those of rows; parallel and exact.

    For latent Dirichlet allocation a pass draws the topics from their Dirichlet distribution given all counts. Then, in
    each document separately, it draws the topic of each token in turn given the topics of the other tokens:

    .. math:: \phi_k \sim \mathrm{Dir}(\beta_k + W_k), \qquad
        p(z_{mn} = k \mid \text{rest}) \propto (D_{mk}^{\neg mn} + \alpha_k) \, \phi_{kv}

    ([1]_ with the proportions integrated out). Both are exact conditional distributions, so the stationary distribution
    is the posterior of topics and assignments. Documents are independent given the topics, so the result is the same
    for any number of workers. It mixes more slowly than `CollapsedGibbs`, which uses updated counts after every token.
    The estimate is the average of the counts of all passes after burn-in, smoothed by the prior.

    References
    ----------
    .. [1] J. K. Pritchard, M. Stephens and P. Donnelly, "Inference of population structure using multilocus genotype
       data", Genetics 155, 2000.
    """

    short_name = "gibbs"
    state_types = (GibbsState,)
    requires = (PartiallyCollapsedModel,)
    draws_parameters = True

    def init(self, model: PartiallyCollapsedModel, key: np.uint64) -> GibbsState:
        """The initial state: random assignments, and parameters drawn given them.

        Parameters
        ----------
        model : object
            The model or target.
        key : uint64
            Key of the chain.

        Returns
        -------
        state : State
            The initial state.
        """
        latents, statistics = model.init_rows(subkey(key, Purpose.INITIAL_LATENTS))
        position = model.draw(statistics, subkey(key, Purpose.DRAW, 0))
        return GibbsState(position, key, 0, -np.inf, statistics, latents)

    def step(self, model: PartiallyCollapsedModel, state: GibbsState) -> GibbsState:
        """One scan of every row, then a draw of the parameters.

        ``log_density`` is the sum over tokens of the log predictive probability of each token given the others of its
        row, at the parameters before this step.

        Parameters
        ----------
        model : object
            The model or target.
        state : State
            Current state.

        Returns
        -------
        state : State
            The new state. It may reuse the arrays of the old one.
        """
        key = subkey(state.key, Purpose.SWEEP, state.n_steps)
        latents, statistics, log_likelihood = model.sample_rows(state.position, state.latents, key)
        position = model.draw(statistics, subkey(state.key, Purpose.DRAW, state.n_steps + 1))
        return GibbsState(position, state.key, state.n_steps + 1, log_likelihood, statistics, latents)

    def parameters(self, model: PartiallyCollapsedModel, state: GibbsState) -> Any:
        """The parameters as drawn.

        Parameters
        ----------
        model : object
            The model or target.
        state : State
            Current state.

        Returns
        -------
        parameters : object
            Parameters, in the form that the model uses.
        """
        return state.position


class CVB0State(NamedTuple):
    """Responsibilities of all tokens."""

    position: None
    key: np.uint64
    n_steps: int
    log_density: float
    statistics: Any  # expected counts
    latents: Any  # the responsibilities


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
    state_types = (CVB0State,)
    requires = (CollapsedVariationalModel,)

    def init(self, model: CollapsedVariationalModel, key: np.uint64) -> CVB0State:
        """The initial state: random responsibilities.

        Parameters
        ----------
        model : object
            The model or target.
        key : uint64
            Key of the chain.

        Returns
        -------
        state : State
            The initial state.
        """
        responsibilities = model.init_responsibilities(subkey(key, Purpose.INITIAL_LATENTS))
        statistics = model.expected_statistics(responsibilities)
        return CVB0State(None, key, 0, -np.inf, statistics, responsibilities)

    def step(self, model: CollapsedVariationalModel, state: CVB0State) -> CVB0State:
        """One pass; ``log_density`` is the log likelihood of the data at the expected counts before it.

        Parameters
        ----------
        model : object
            The model or target.
        state : State
            Current state.

        Returns
        -------
        state : State
            The new state. It may reuse the arrays of the old one.
        """
        responsibilities, log_likelihood = model.update_responsibilities(state.latents)
        statistics = model.expected_statistics(responsibilities)
        return CVB0State(None, state.key, state.n_steps + 1, log_likelihood, statistics, responsibilities)

    def average_window(self, n_kept_passes: int) -> int:
        """One, the last pass, because the algorithm converges.

        Parameters
        ----------
        n_kept_passes : int
            Number of passes after burn-in.

        Returns
        -------
        int
            Number of passes.
        """
        return 1
