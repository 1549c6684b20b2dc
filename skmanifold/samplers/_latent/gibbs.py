"""Gibbs sampling of the discrete latent variables of tokens: collapsed, and given drawn parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...models import CollapsedModel, PartiallyCollapsedModel
from ...random._keys import Purpose, subkey
from .._base import BaseSampler
from .._states import LatentState


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
    state_types = (LatentState,)
    requires = (CollapsedModel,)
    log_density_name = "log_joint"
    draws_parameters = True

    def init(self, model: CollapsedModel, key: np.uint64) -> LatentState:
        """The initial state: random assignments."""
        assignments = model.init_assignments(subkey(key, Purpose.INITIAL_LATENTS))
        return LatentState(None, key, 0, -np.inf, model.collapsed_statistics(assignments), assignments)

    def step(self, model: CollapsedModel, state: LatentState) -> LatentState:
        """One systematic scan; ``log_density`` is log p(data, assignments) after it."""
        key = subkey(state.key, Purpose.SWEEP, state.n_steps)
        log_joint = model.sweep_assignments(state.latents, key)
        statistics = model.collapsed_statistics(state.latents)
        return LatentState(None, state.key, state.n_steps + 1, log_joint, statistics, state.latents)

    def parameters(self, model: CollapsedModel, state: LatentState) -> Any:
        """A draw of the parameters, which were integrated out, given the assignments."""
        return model.draw(state.statistics, subkey(state.key, Purpose.DRAW, state.n_steps))


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
    state_types = (LatentState,)
    requires = (PartiallyCollapsedModel,)
    draws_parameters = True

    def init(self, model: PartiallyCollapsedModel, key: np.uint64) -> LatentState:
        """The initial state: random assignments, and parameters drawn given them."""
        latents, statistics = model.init_rows(subkey(key, Purpose.INITIAL_LATENTS))
        position = model.draw(statistics, subkey(key, Purpose.DRAW, 0))
        return LatentState(position, key, 0, -np.inf, statistics, latents)

    def step(self, model: PartiallyCollapsedModel, state: LatentState) -> LatentState:
        """One scan of every row, then a draw of the parameters."""
        key = subkey(state.key, Purpose.SWEEP, state.n_steps)
        latents, statistics, log_likelihood = model.sample_rows(state.position, state.latents, key)
        position = model.draw(statistics, subkey(state.key, Purpose.DRAW, state.n_steps + 1))
        return LatentState(position, state.key, state.n_steps + 1, log_likelihood, statistics, latents)

    def parameters(self, model: PartiallyCollapsedModel, state: LatentState) -> Any:
        """The parameters as drawn."""
        return state.position
