"""Zero-order collapsed variational Bayes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...models import CollapsedVariationalModel
from ...random._keys import Purpose, subkey
from .._base import BaseSampler


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
    averages_passes = False  # the algorithm converges

    def init(self, model: CollapsedVariationalModel, key: np.uint64) -> CVB0State:
        """The initial state: random responsibilities."""
        responsibilities = model.init_responsibilities(subkey(key, Purpose.INITIAL_LATENTS))
        statistics = model.expected_statistics(responsibilities)
        return CVB0State(None, key, 0, -np.inf, statistics, responsibilities)

    def step(self, model: CollapsedVariationalModel, state: CVB0State) -> CVB0State:
        """One pass; ``log_density`` is the log likelihood of the data at the expected counts before it."""
        responsibilities, log_likelihood = model.update_responsibilities(state.latents)
        statistics = model.expected_statistics(responsibilities)
        return CVB0State(None, state.key, state.n_steps + 1, log_likelihood, statistics, responsibilities)
