"""What the draws of orthonormal topics tell, where their number may change from draw to draw."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..metrics import match_topics
from ._topic_posterior import credible_intervals
from ._topic_uncertainty import TopicUncertainty


class FrameUncertainty(TopicUncertainty):
    """Methods of an estimator with posterior draws of topics whose number is a draw too; not public."""

    components_: np.ndarray
    n_components_: int

    def _predictive_draws(self, n: int) -> list[np.ndarray]:
        """At most n of the best chain's draws of the topics, evenly spaced, each with as many topics as it has."""
        return [draw[_is_topic(draw)] for draw in super()._predictive_draws(n)]

    def _labelled_draws(self, n: int) -> list[np.ndarray]:
        """Those with as many topics as ``components_``, in the same order."""
        draws = self._predictive_draws(n)
        if not self._has_sizes:
            return draws
        draws = [draw for draw in draws if len(draw) == self.n_components_]
        return [draw[match_topics(self.components_, draw).other] for draw in draws]

    def credible_intervals(self, level=0.9):
        """Equal-tailed credible intervals of the topics' entries, in the order of ``components_``.

        Each interval is of one entry at a time, given the model and within one mode of the posterior: another
        chain may find other topics (see `topic_diagnostics`). They are from those draws of the best chain that have
        ``n_components_`` topics.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of each interval.

        Returns
        -------
        intervals : ndarray of shape (2, n_components_, n_features), float32
            Lower and upper ends, from the best chain's draws.

        Raises
        ------
        ValueError
            If no such draws of the topics were kept, as they would take more than `max_draws_bytes`.
        """
        check_is_fitted(self)
        if not self._has_sizes:
            return super().credible_intervals(level)
        draws: Any = self._labelled_draws(self.posterior_["n_components"].shape[1])
        if not draws:
            raise ValueError("No draws with n_components_ topics were kept: raise max_draws_bytes, or lower thin.")
        return credible_intervals(np.array(draws), level)

    @property
    def _has_sizes(self) -> bool:
        """Whether the number of topics is a draw."""
        return "n_components" in self.posterior_

    def _draws_of_topics(self) -> np.ndarray:
        draws = super()._draws_of_topics()
        if self._has_sizes:
            raise ValueError(
                "The number of topics is inferred here, so that topics of one draw or chain need not be those of "
                f"another: fit with n_components={self.n_components_} for this."
            )
        return draws


def _is_topic(draw: np.ndarray) -> np.ndarray:
    """Which rows of a draw are topics, and not there for want of one."""
    return ~np.isnan(draw[:, 0])
