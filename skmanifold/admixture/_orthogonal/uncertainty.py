"""What the draws of orthonormal topics tell, where their number may change from draw to draw."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...inference._arviz import falling, to_tree
from ...metrics import match_topics
from .._posterior.uncertainty import TopicUncertainty


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

    def _interval_draws(self) -> np.ndarray:
        """Those of the best chain's draws that have ``n_components_`` topics, in the order of ``components_``."""
        check_is_fitted(self)
        if not self._has_sizes:
            return super()._interval_draws()
        draws: Any = self._labelled_draws(self.posterior_["n_components"].shape[1])
        if not draws:
            raise ValueError("No draws with n_components_ topics were kept: raise max_draws_bytes, or lower thin.")
        return np.array(draws)

    def to_arviz(self) -> Any:
        """The draws as ArviZ's tree of data, every chain's topics in the order of ``components_``.

        Where the number of topics is inferred, topics of one draw need not be those of another, and what is exported
        has no labels: their number, and their weights from the largest to the smallest.

        Returns
        -------
        xarray.DataTree
            Group ``posterior`` has ``components`` (axes ``chain``, ``draw``, ``topic`` and ``word``) and
            ``topic_weights``, or ``n_components`` and ``topic_weights`` with an axis ``rank``, NaN beyond a draw's
            number of topics; ``sample_stats`` has the log likelihood, and the temperature of samplers that have one.
            Where `max_draws_bytes` left fewer draws of the topics than of the rest, they are in a group
            ``posterior_thinned``, whose ``draw`` says which ones they are.

        Raises
        ------
        ImportError
            Where arviz-base is not installed (``pip install "skmanifold[arviz]"``).
        """
        check_is_fitted(self)
        if not self._has_sizes:
            return super().to_arviz()
        draws = {name: values for name, values in self.posterior_.items() if name != "components"}
        draws["topic_weights"] = falling(draws["topic_weights"])
        return to_tree(draws, {"topic_weights": ["rank"]})

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
