"""Posterior draws of orthonormal topics, whose number may differ between draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...metrics import match_topics
from .._posterior.topic_draws import ChainMatch, to_unlabelled
from .._posterior.uncertainty import TopicUncertainty


class FrameUncertainty(TopicUncertainty):
    """Methods of an estimator whose posterior draws may have different numbers of topics; not public."""

    components_: np.ndarray
    n_components_: int

    def _predictive_draws(self, n: int) -> list[np.ndarray]:
        """At most n of the best chain's draws of the topics, evenly spaced; each has its own number of topics."""
        return [draw[_is_topic(draw)] for draw in super()._predictive_draws(n)]

    def _labelled_draws(self, n: int) -> list[np.ndarray]:
        """The predictive draws that have as many topics as ``components_``, with topics in the same order."""
        draws = self._predictive_draws(n)
        if not self._has_sizes:
            return draws
        draws = [draw for draw in draws if len(draw) == self.n_components_]
        return [draw[match_topics(self.components_, draw).other] for draw in draws]

    def _matched_shares(self) -> np.ndarray | None:
        """Mean shares over the draws of `_labelled_draws`, in the order of ``components_``; None without such draws."""
        return matched_shares(self.components_, self.posterior_, self.best_chain_, self._component_draws)

    def _match_chains(self) -> ChainMatch | None:
        return None if self._has_sizes else super()._match_chains()

    def _interval_draws(self) -> np.ndarray:
        """The draws of the best chain that have ``n_components_`` topics, in the order of ``components_``."""
        check_is_fitted(self)
        if not self._has_sizes:
            return super()._interval_draws()
        draws: Any = self._labelled_draws(self.posterior_["n_components"].shape[1])
        if not draws:
            raise ValueError("No draws with n_components_ topics were kept: increase max_draws_bytes or decrease thin.")
        return np.array(draws)

    def to_arviz(self) -> Any:
        """Export the posterior draws to ArviZ, with every chain's topics in the order of ``components_``.

        If the number of topics is inferred, topics of different draws need not correspond. Then only quantities without
        labels are exported: the number of topics, and their weights in decreasing order.

        Returns
        -------
        xarray.DataTree
            Group ``posterior`` has ``components`` (axes ``chain``, ``draw``, ``topic`` and ``word``) and
            ``topic_weights``; or ``n_components`` and ``topic_weights`` with an axis ``rank``, which is NaN beyond a
            draw's number of topics. Group ``sample_stats`` has the log likelihood and, for samplers that have one, the
            temperature. If `max_draws_bytes` allows fewer draws of the topics than of the rest, these are in a group
            ``posterior_thinned``, whose coordinate ``draw`` has their indices.
        """
        check_is_fitted(self)
        if not self._has_sizes:
            return super().to_arviz()
        return to_unlabelled(self.posterior_)

    @property
    def _has_sizes(self) -> bool:
        """Whether the number of topics is inferred."""
        return "n_components" in self.posterior_

    def _draws_of_topics(self) -> np.ndarray:
        draws = super()._draws_of_topics()
        if self._has_sizes:
            raise ValueError(
                "The number of topics is inferred, so that topics of different draws need not correspond: fit with "
                f"n_components={self.n_components_} for this."
            )
        return draws


def matched_shares(
    components: np.ndarray, posterior: dict[str, np.ndarray], best: int, component_draws: np.ndarray
) -> np.ndarray | None:
    """Mean shares of topics over the draws of a chain that have as many topics, in their order; None without draws."""
    topics = posterior.get("components")
    if topics is None:
        return None
    shares = []
    for draw, weights in zip(topics[best], posterior["topic_weights"][best, component_draws], strict=True):
        is_topic = _is_topic(draw)
        if np.count_nonzero(is_topic) == len(components):
            shares.append(weights[is_topic][match_topics(components, draw[is_topic]).other])
    return np.mean(shares, axis=0) if shares else None


def _is_topic(draw: np.ndarray) -> np.ndarray:
    """Mask of the rows of a draw that are topics; the others are NaN."""
    return ~np.isnan(draw[:, 0])
