"""Larger priors of the proportions during burn-in: chains that begin with them find better topics.

A small prior makes early choices of topics final: a token draws its topic given the topics of the other tokens of its
document, which are still random. A large prior makes documents similar, so that topics of words form first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import Run, samples_density
from ...models import CollapsedVariationalModel

_FIRST_SUM = 50.0  # of the parameters of a document
_SHARE = 0.8  # of burn-in


class BurnInPrior:
    """The prior of the proportions in each pass of burn-in, if `doc_topic_prior` is None.

    Parameters
    ----------
    lda : StochasticLDA
        The estimator.
    run : Run
        The fit.
    """

    def __init__(self, lda: Any, run: Run) -> None:
        draws_topics = not samples_density(run.sampler) and CollapsedVariationalModel not in run.sampler.requires
        is_default = lda.doc_topic_prior is None and draws_topics
        self.n_components = lda.n_components
        self.n_passes = int(_SHARE * run.schedule.burn_in) if is_default else 0

    def at(self, n_passes: int) -> np.ndarray:
        """The Dirichlet parameters after this number of passes, (K,)."""
        left = max(0.0, 1.0 - n_passes / self.n_passes)
        return np.full(self.n_components, _FIRST_SUM**left / self.n_components)
