"""ESCA: massively parallel stochastic EM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np

from ...models import LatentModel, LeaveOneOutModel, RoundingModel, StreamModel
from ...random._keys import Purpose, subkey
from ...utils._sklearn import Interval, StrOptions
from .._base import BaseSampler, mean_rise
from .._states import LatentState


@dataclass(eq=False, repr=False)
class _BySettings:
    """A class attribute of ESCA whose value on instances depends on their settings."""

    by_default: Any
    of_instance: Callable[[Any], Any]

    def __get__(self, sampler: ESCA | None, owner: type | None = None) -> Any:
        return self.by_default if sampler is None else self.of_instance(sampler)


def _requires(sampler: Any) -> tuple[type, ...]:
    wanted = {RoundingModel: sampler.counter == "approximate", LeaveOneOutModel: sampler.exclude_self}
    return (LatentModel, *(protocol for protocol, needed in wanted.items() if needed))


@dataclass(eq=False, repr=False)
class ESCA(BaseSampler):
    r"""Exponential stochastic cellular automaton: massively parallel stochastic EM.

    The S step draws all latents given the parameters of the last pass. The M step sets the parameters to their mode
    given the statistics of all draws. For latent Dirichlet allocation, the topic of token :math:`n` of document
    :math:`m` is :math:`k` with probability

    .. math:: p(z_{mn} = k) \propto (D_{mk} + \alpha_k) \frac{W_{kv} + \beta_{kv}}{T_k + \sum_v \beta_{kv}},

    where the counts are those of the previous pass and include the token itself ([1]_, eq. 20). Draws are exact. With
    `exclude_self` the token is subtracted from the counts.

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
    exclude_self : bool, default=False
        Whether each latent is drawn given the counts of all others, as in collapsed Gibbs sampling. By default the
        counts include it, as in [1]_. Then it is more likely to keep its value, by a factor of about 1 + 1 / alpha for
        the only token of a topic in its document. Without it chains leave poor modes more easily. Only for topics with
        a Dirichlet prior; the minibatches of a stream, except the first, are imputed with fixed parameters in either
        case.
    tol : float, default=None
        If given, burn-in ends early when all chains have settled, and the fit ends after the passes that are averaged.
        A chain has settled when the mean log density of its last seven passes is less than that of the seven before
        plus `tol` nats per row. With None burn-in has its full length. Smaller values
        than about 1e-4 have the same effect as 0, because the log densities of a settled chain vary more.

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
    state_types = (LatentState,)
    requires = _BySettings((LatentModel,), _requires)
    batching = _BySettings("either", lambda sampler: "full" if sampler.counter == "approximate" else "either")
    _parameter_constraints: ClassVar[dict] = {
        "n_average": [Interval(Integral, 1, None, closed="left")],
        "n_local_sweeps": [Interval(Integral, 1, None, closed="left")],
        "n_first_sweeps": [Interval(Integral, 1, None, closed="left")],
        "counter": [StrOptions({"exact", "approximate"})],
        "exclude_self": ["boolean"],
        "tol": [None, Interval(Real, 0, None, closed="left")],
    }

    n_average: int = 20
    n_local_sweeps: int = 10
    n_first_sweeps: int = 100
    counter: Literal["exact", "approximate"] = "exact"
    exclude_self: bool = False
    tol: float | None = None

    def init(self, model: LatentModel, key: np.uint64) -> LatentState:
        """The initial state: random latents, and the mode of the parameters given them."""
        latents, statistics = model.init_latents(subkey(key, Purpose.INITIAL_LATENTS))
        position = self._next_position(model, statistics, key, 0)
        return LatentState(position, key, 0, -np.inf, statistics, latents)

    def step(self, model: Any, state: LatentState) -> LatentState:
        """One S step and one M step; ``log_density`` is log p(data | parameters) before the M step."""
        key = subkey(state.key, Purpose.SWEEP, state.n_steps)
        sample = model.sample_given_others if self.exclude_self else model.sample_latents
        latents, statistics, log_likelihood = sample(state.position, state.latents, key)
        position = self._next_position(model, statistics, state.key, state.n_steps + 1)
        return LatentState(position, state.key, state.n_steps + 1, log_likelihood, statistics, latents)

    def parameters(self, model: Any, state: LatentState) -> Any:
        """The mode of the parameters given the statistics of the last pass."""
        return state.position if self.counter == "exact" else model.mode(state.statistics)

    def _next_position(self, model: Any, statistics: Any, key: np.uint64, n_steps: int) -> Any:
        """The parameters of the next pass, from the statistics of all rows."""
        if self.counter == "approximate":
            statistics = model.approximate(statistics, subkey(key, Purpose.ROUNDING, n_steps))
        return model.mode(statistics)

    def init_stream(self, model: StreamModel, key: np.uint64, scale: float) -> LatentState:
        """Initialise a stream by `n_first_sweeps` passes over the first minibatch, weighted by `scale`."""
        state = self.init(model, key)
        for _ in range(self.n_first_sweeps):
            state = self.step(model, state)
        statistics = model.blend(state.statistics, state.statistics, 1.0, scale)
        return LatentState(model.mode(statistics), key, 1, state.log_density, statistics, None)

    def resume_stream(self, model: StreamModel, statistics: Any, key: np.uint64, n_steps: int) -> LatentState:
        """The state of a stream after `n_steps` minibatches, from its statistics."""
        return LatentState(model.mode(statistics), key, n_steps, np.nan, statistics, None)

    def step_stream(self, model: StreamModel, state: LatentState, rate: float, scale: float) -> LatentState:
        """Move the statistics towards those of one minibatch: T <- (1 - rate) T + rate * scale * T_batch."""
        key = subkey(state.key, Purpose.MINIBATCH, state.n_steps)
        new = model.impute_rows(state.position, self.n_local_sweeps, key)
        statistics = model.blend(state.statistics, new, rate, scale)
        return LatentState(model.mode(statistics), state.key, state.n_steps + 1, np.nan, statistics, None)

    def has_settled(self, log_density: Sequence[float], n_rows: int) -> bool:
        """Whether the mean log density of seven passes rises by less than `tol` per row."""
        return self.tol is not None and mean_rise(log_density) < self.tol * n_rows

    def average_window(self, n_kept_passes: int) -> int:
        """The last `n_average` passes, or all after burn-in if they are fewer."""
        return min(self.n_average, n_kept_passes)
