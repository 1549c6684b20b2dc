"""Larger priors of the proportions during burn-in: chains that begin with them find better topics.

A small prior makes early choices of topics final: a token draws its topic given the topics of the other tokens of its
document, which are still random. A large prior makes documents similar, so that topics of words form first. The same
holds for other tokens whose initial components are random. If these are clusters, a large prior would mix them. EM and
variational inference have distributions over the topics of tokens, which begin nearly uniform, and do not need it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import Run
from ...inference._distributed_fits.shards import ShardedModel
from .model import TokenModel
from .sampler_types import draws_assignments

_MOST = 50.0  # of the first sum of the parameters
_SHARE_OF_TOKENS = 0.25  # the first sum over the mean length of a document
SHARE_OF_PASSES = 0.8  # of burn-in
_MOST_PASSES = 80  # if the fit ends when it has settled, for which a long burn-in is usual


class BurnInPrior:
    """The prior of the proportions in each pass of burn-in, if `doc_topic_prior` is None.

    Parameters
    ----------
    admixture : StochasticLDA or ExponentialFamilyAdmixture
        The estimator.
    run : Run
        The fit.
    starts_at_random : bool, default=True
        Whether the initial components of tokens are random; if not, the prior is the same in all passes.

    Attributes
    ----------
    n_passes : int
        Number of passes with a larger prior; 0 if there are none.
    """

    def __init__(self, admixture: Any, run: Run, starts_at_random: bool = True) -> None:
        is_default = admixture.doc_topic_prior is None and draws_assignments(run.sampler) and starts_at_random
        self.n_components = admixture.n_components
        self.n_passes = int(SHARE_OF_PASSES * run.schedule.burn_in) if is_default else 0
        if getattr(admixture, "tol", None) is not None:
            self.n_passes = min(self.n_passes, _MOST_PASSES)

    def at(self, n_passes: int, model: Any) -> np.ndarray:
        """The Dirichlet parameters after this number of passes over the rows of a model, (K,)."""
        return np.full(self.n_components, sum_after(n_passes, self.n_passes, model) / self.n_components)

    def model_after(self, n_passes: int, model: TokenModel | ShardedModel) -> Any:
        """The model, whose rows may be in shards, with the prior of the proportions after this number of passes."""
        if not self.n_passes:
            return model
        prior = self.at(n_passes, model)
        if isinstance(model, ShardedModel):
            return model.with_head(model.head.with_doc_topic_prior(prior))
        return model.with_doc_topic_prior(prior)


def sum_after(n_passes: int, n_larger: int, model: Any) -> float:
    """The sum of the parameters after a number of passes over the rows of a model, of which `n_larger` are larger.

    It decreases from a quarter of the mean length of a row, at most 50, to 1, by the same factor in each pass.
    """
    first = min(max(_SHARE_OF_TOKENS * model.n_tokens / model.n_rows, 1.0), _MOST)
    return first ** max(0.0, 1.0 - n_passes / n_larger)
