"""Draws from the prior of a hierarchical Dirichlet process."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...random._discrete_variates import draw_partition
from ...random._keys import Purpose, root_key, subkey
from ...samplers._latent.stick_breaking import check_concentration_prior, concentration_or_draw
from ...topics.topic_word import topic_word_from_array
from ...utils._typing import ArrayLike, RandomStateLike
from ...utils._validation import FIT_OR_GIVE_N_FEATURES
from .._tokens.new_rows import draw_dirichlet, draw_words
from .._tokens.prior import check_lengths, check_sizes
from .._tokens.topic_counts import TopicPrior


class DrawsFromPrior:
    """Mixin of `HDPAdmixture`; not public."""

    def sample_prior(
        self,
        n_samples: int = 1,
        n_features: int | None = None,
        *,
        n_tokens: ArrayLike = 100,
        random_state: RandomStateLike = None,
        return_parameters: bool = False,
    ) -> Any:
        """Draw topics and their weights from the prior, and documents given these.

        The proportions of the documents are integrated out: tokens share tables, and tables share topics, as in the
        Chinese restaurant franchise. Use it to see what documents the prior expects, or for simulation-based
        calibration (:func:`~skmanifold.metrics.calibration_ranks`).

        Parameters
        ----------
        n_samples : int, default=1
            Number of documents.
        n_features : int, default=None
            Number of words; None is that of a fitted estimator.
        n_tokens : int or array-like of shape (n_samples,), default=100
            Number of tokens of each document.
        random_state : int, RandomState instance or None, default=None
            Seed.
        return_parameters : bool, default=False
            Whether to return the parameters too.

        Returns
        -------
        X : csr_array of shape (n_samples, n_features)
            Counts.
        parameters : dict of str to ndarray
            Only if `return_parameters` is True: ``"n_components"``, the number of topics with tokens;
            ``"components"``, ``"topic_weights"``, ``"concentration"`` and ``"topic_concentration"``, with shapes as in
            ``posterior_``; and ``"doc_topic_counts"`` of shape (n_samples, n_components), the number of tokens of each
            topic in each document.

        Raises
        ------
        ValueError
            If a number is not valid.
        NotFittedError
            If `n_features` is None and the estimator is not fitted.
        """
        estimator: Any = self
        if n_features is None:
            check_is_fitted(estimator, msg=FIT_OR_GIVE_N_FEATURES)
            n_features = estimator.n_features_in_
        check_sizes(n_samples, n_features)
        lengths, key = check_lengths(n_tokens, n_samples), root_key(random_state)
        rng = np.random.default_rng(int(subkey(key, Purpose.PRIOR)))
        alpha, gamma = (
            _concentration(rng, getattr(estimator, name), getattr(estimator, f"{name}_prior"), f"{name}_prior")
            for name in ("concentration", "topic_concentration")
        )
        tables = [draw_partition(rng, n, alpha) if n else np.zeros(0, np.int32) for n in lengths]
        n_tables = np.array([of.max(initial=-1) + 1 for of in tables])
        topics = draw_partition(rng, n_tables.sum(), gamma) if n_tables.any() else np.zeros(0, np.int32)
        n_topics = int(topics.max(initial=-1)) + 1
        first = np.cumsum(n_tables) - n_tables
        counts = np.zeros((n_samples, n_topics), np.int64)
        for row, of in enumerate(tables):
            np.add.at(counts[row], topics[first[row] + of], 1)
        prior = np.broadcast_to(TopicPrior(estimator.topic_word_prior, 1, n_features).values, (n_topics, n_features))
        components = draw_dirichlet(prior, subkey(key, Purpose.TOPICS))
        X = draw_words(topic_word_from_array(components), counts, subkey(key, Purpose.ROWS))
        if not return_parameters:
            return X
        return X, {
            "n_components": np.array(n_topics),
            "concentration": np.array(alpha),
            "topic_concentration": np.array(gamma),
            "topic_weights": rng.dirichlet(np.append(np.bincount(topics), gamma))[:-1],
            "components": components,
            "doc_topic_counts": counts,
        }


def _concentration(rng: np.random.Generator, given: float | None, prior: ArrayLike, name: str) -> float:
    """The given concentration, or a draw from its prior."""
    return concentration_or_draw(rng, given, *check_concentration_prior(prior, name))
