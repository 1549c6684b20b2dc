"""Expectation-maximisation."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...models import ExpectationModel, HasTotalWeight
from ...random._keys import Purpose, subkey
from ...utils._parameters import offers
from ...utils._sklearn import Interval
from .._base import BaseSampler


class EMState(NamedTuple):
    """One chain of `EM`."""

    position: Any  # the mode given the statistics
    key: np.uint64
    n_steps: int
    log_density: float
    statistics: Any  # expected
    gain: float  # of the last M step, in nats per row


@dataclass(eq=False, repr=False)
class EM(BaseSampler):
    r"""Expectation-maximisation: deterministic ascent to a mode of the parameters from their initial values.

    The E step replaces the sufficient statistics by their expectations given the data and the parameters of the last
    pass. The M step replaces the parameters by their mode given these expectations ([1]_):

    .. math:: \eta \leftarrow \arg\max_\eta \bigl\{ \langle \bar T + T_0, \eta \rangle - (n + n_0) g(\eta) \bigr\},
        \qquad \bar T = E[T(x, z) \mid x, \eta_{\mathrm{old}}].

    No pass decreases the log likelihood plus the log prior in the natural parameters; they increase by at least the
    increase of the objective in the M step ([1]_). `ESCA` draws the latents instead of averaging over them, and its
    noise helps to leave poor modes.

    For latent Dirichlet allocation the parameters are proportions and topics; the proportions of a document are
    :math:`\theta_{mk} = (D_{mk} + \alpha_k) / (N_m + \sum_l \alpha_l)`, with the expected counts :math:`D_{mk}` of its
    tokens ([2]_, appendix B.2, but without the "-1" of the mode of the proportions themselves: for that mode under
    Dir(a), which exists if all a > 1, use the prior a - 1).

    A chain has converged when an M step increases its objective by less than `tol`. The fit ends when all chains have
    converged.

    Parameters
    ----------
    tol : float, default=1e-6
        Tolerance, in nats per row; if rows have weights, per unit of weight.

    References
    ----------
    .. [1] A. P. Dempster, N. M. Laird and D. B. Rubin, "Maximum likelihood from incomplete data via the EM algorithm",
       Journal of the Royal Statistical Society B 39, 1977.
    .. [2] M. Zaheer, M. Wick, J.-B. Tristan, A. Smola and G. Steele, "Exponential stochastic cellular automata for
       massively parallel inference", AISTATS 2016.

    Examples
    --------
    >>> from skmanifold.samplers import EM
    >>> EM(tol=1e-8)
    EM(tol=1e-08)
    """

    short_name = "em"
    averages_passes = False
    state_types = (EMState,)
    requires = (ExpectationModel,)
    _parameter_constraints: ClassVar[dict] = {"tol": [Interval(Real, 0, None, closed="left")]}

    tol: float = 1e-6

    @property
    def can_converge(self) -> bool:
        """Whether there is a tolerance."""
        return self.tol > 0.0

    def init(self, model: ExpectationModel, key: np.uint64) -> EMState:
        """The initial state: the mode of the parameters given initial latents."""
        _, statistics = model.init_latents(subkey(key, Purpose.INITIAL_LATENTS))
        return EMState(model.mode(statistics), key, 0, -np.inf, statistics, np.inf)

    def step(self, model: ExpectationModel, state: EMState) -> EMState:
        """One E step and one M step; ``log_density`` is log p(data | parameters) before the M step."""
        statistics, log_likelihood = model.expect_latents(state.position)
        position = model.mode(statistics)
        gain = model.log_joint(statistics, position) - model.log_joint(statistics, state.position)
        rows: Any = model  # in shards, ``isinstance`` does not find attributes
        n_rows = rows.total_weight if offers(model, HasTotalWeight) else model.n_rows
        return EMState(position, state.key, state.n_steps + 1, log_likelihood, statistics, gain / n_rows)

    def parameters(self, model: Any, state: EMState) -> Any:
        """The mode of the parameters given the expectations of the last pass."""
        return state.position

    def has_converged(self, state: Any) -> bool:
        """Whether the last M step increased the objective by less than `tol`."""
        return state.gain < self.tol
