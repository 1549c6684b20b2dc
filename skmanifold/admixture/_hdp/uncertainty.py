"""Posterior draws of topics whose number differs between draws."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from ...inference._draws import check_level, equal_tailed_intervals, reached_level, warn_of_level
from ...metrics import match_topics
from .._posterior.topic_draws import STABLE_SIMILARITY, ChainMatch, TopicDiagnostics, diagnose_topics, to_unlabelled
from .._posterior.uncertainty import TopicUncertainty


class VaryingUncertainty(TopicUncertainty):
    """Methods of an estimator with draws of topics that begin and end, and that have ids; not public."""

    n_components_: int
    topic_ids_: np.ndarray
    topic_weights_: np.ndarray
    _parameters: Any
    _topic_counts: Any

    def _matched_shares(self) -> np.ndarray:
        """Shares of the tokens, in the order of ``components_``."""
        totals = self._topic_counts.totals
        return totals / totals.sum()

    def credible_intervals(self, level: float = 0.9) -> np.ndarray:
        """Equal-tailed credible intervals of the topics' entries, in the order of ``components_``.

        The intervals of a topic are from the draws of the best chain in which it is in use, and are conditional on
        that. If a topic has fewer draws than `level` needs (19 for 90%), its intervals are the range of the draws, and
        a warning states the lowest level of a topic.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of each interval, between 0 and 1.

        Returns
        -------
        intervals : ndarray of shape (2, n_components_, n_features), float32
            Lower and upper ends.

        Raises
        ------
        ValueError
            If no draws of the topics were kept, because they need more memory than `max_draws_bytes`.

        Warns
        -----
        UserWarning
            If a topic has too few draws for `level`.
        """
        check_level(level)
        places, draws = self._places(self.best_chain_), self._draws_of_topics()[self.best_chain_]
        intervals = np.empty((2, len(places), draws.shape[-1]), np.float32)
        for topic, of_draws in enumerate(places):
            drawn = np.flatnonzero(of_draws >= 0)
            intervals[:, topic] = equal_tailed_intervals(draws[drawn, of_draws[drawn]][:, np.newaxis], level)[:, 0]
        warn_of_level(level, self._least_draws(places), np.empty(0))
        return intervals

    def _reached_level(self, level: float) -> float:
        return reached_level(level, self._least_draws(self._places(self.best_chain_)))

    def _least_draws(self, places: np.ndarray) -> int:
        return int((places >= 0).sum(axis=1).min())

    def _places(self, chain: int, ids: np.ndarray | None = None) -> np.ndarray:
        """The row of each topic in each complete draw of a chain, (n_topics, n_draws); -1 where it is not in use.

        The ids are those of ``components_`` by default.
        """
        drawn = self._posterior["topic_ids"][chain, self._component_draws]
        found = (self.topic_ids_ if ids is None else ids)[:, np.newaxis, np.newaxis] == drawn
        return np.where(found.any(axis=2), found.argmax(axis=2), -1)

    def topic_diagnostics(self, threshold: float = STABLE_SIMILARITY) -> TopicDiagnostics:
        """R-hat, effective sample size and stability of each topic, in the order of ``components_``.

        First the topics of the other chains are matched to those of the best chain, by the cosines of their means over
        draws. R-hat and effective sample size are those of the weight of a topic, which is 0 in draws where it is not
        in use.

        Parameters
        ----------
        threshold : float, default=0.8
            Smallest cosine with the matched topic of every other chain for which a topic is called stable. A topic
            without a match has the cosine 0.

        Returns
        -------
        diagnostics : TopicDiagnostics
            NamedTuple with ``rhat``, ``ess``, ``similarity`` and ``is_stable``, each of shape (n_components_,). Values
            that need more draws or chains are NaN.

        Raises
        ------
        ValueError
            If no draws of the topics were kept, because they need more memory than `max_draws_bytes`.
        """
        check_scalar(threshold, "threshold", Real)
        self._draws_of_topics()
        ids, match = self._matched_ids()
        drawn, values = self._posterior["topic_ids"], self._posterior["topic_weights"]
        is_topic = (drawn == of_chains[:, np.newaxis, np.newaxis] for of_chains in ids.T)
        weights = np.stack([np.where(is_here, values, 0.0).sum(axis=2) for is_here in is_topic], axis=2)
        return diagnose_topics(None, weights, match, threshold=threshold)

    def _match_chains(self) -> ChainMatch:
        return self._matched_ids()[1]

    def _matched_ids(self) -> tuple[np.ndarray, ChainMatch]:
        """Ids in each chain of the topics that are matched to those of ``components_``, and the cosines."""
        n_chains, n_topics = len(self._posterior["topic_ids"]), self.n_components_
        ids, similarity = np.tile(self.topic_ids_.astype(np.float64), (n_chains, 1)), np.ones((n_chains, n_topics))
        for chain in range(n_chains):
            if chain != self.best_chain_:
                ids[chain], similarity[chain] = self._match_chain(chain)
        return ids, ChainMatch(np.tile(np.arange(n_topics), (n_chains, 1)), similarity, self.best_chain_)

    def _match_chain(self, chain: int) -> tuple[np.ndarray, np.ndarray]:
        """Id and cosine of the topic of another chain that is matched to each topic; -1 and 0 without a match."""
        drawn = self._posterior["topic_ids"][chain, self._component_draws]
        ids, n_draws = np.unique(drawn[~np.isnan(drawn)], return_counts=True)
        ids = ids[2 * n_draws >= len(drawn)]
        matched, cosines = np.full(self.n_components_, -1.0), np.zeros(self.n_components_)
        if not len(ids):
            return matched, cosines
        draws, places = self._posterior["components"][chain], self._places(chain, ids)
        means = np.array([draws[of_draws >= 0, of_draws[of_draws >= 0]].mean(axis=0) for of_draws in places])
        match = match_topics(self._parameters, means)
        matched[match.reference], cosines[match.reference] = ids[match.other], match.similarity
        return matched, cosines

    def to_arviz(self) -> Any:
        """Export the posterior draws to ArviZ.

        Only quantities without labels are exported, because topics of different draws and chains need not correspond.

        Returns
        -------
        xarray.DataTree
            Group ``posterior`` has the number of topics, the concentrations, and ``topic_weights`` in decreasing order
            with an axis ``rank``, NaN beyond a draw's number of topics. Group ``sample_stats`` has the log likelihood.
        """
        check_is_fitted(self)
        return to_unlabelled({name: values for name, values in self.posterior_.items() if name != "topic_ids"})
