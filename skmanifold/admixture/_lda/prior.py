"""Draws from the prior of latent Dirichlet allocation."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...random._keys import Purpose, root_key, subkey
from ...utils._typing import ArrayLike, RandomStateLike
from ...utils._validation import FIT_OR_GIVE_N_FEATURES
from .._tokens.new_rows import draw_dirichlet, draw_proportions
from .._tokens.prior import check_lengths, check_sizes, draw_documents, shares_of_topics
from .._tokens.topic_counts import TopicPrior
from .priors import is_learned, priors_of


class DrawsTopicsFromPrior:
    """Mixin of `StochasticLDA`; not public."""

    n_features_in_: int
    doc_topic_prior_: np.ndarray
    topic_word_prior_: Any
    seed_words: Any

    def sample_prior(
        self,
        n_samples: int = 1,
        n_features: int | None = None,
        *,
        n_tokens: ArrayLike = 100,
        random_state: RandomStateLike = None,
        return_parameters: bool = False,
    ) -> Any:
        """Draw topics and proportions from the prior, and documents given these.

        Use it to see what documents the prior expects, or for simulation-based calibration
        (:func:`~skmanifold.metrics.calibration_ranks`).

        Parameters
        ----------
        n_samples : int, default=1
            Number of documents.
        n_features : int, default=None
            Number of words, with the priors of the constructor, which cannot be "auto". None means a fitted estimator:
            its words and the priors of the fit.
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
            Only if `return_parameters` is True: ``"components"`` and ``"topic_weights"``, with shapes as in
            ``posterior_``; ``"doc_topic"``, the proportions; and ``"doc_topic_counts"``, the number of tokens of each
            topic in each document, both of shape (n_samples, n_components).

        Raises
        ------
        ValueError
            If a number is not valid, or a prior is learned or has seed words and `n_features` is given.
        NotFittedError
            If `n_features` is None and the estimator is not fitted.
        """
        estimator: Any = self
        if n_features is None:
            check_is_fitted(estimator, msg=FIT_OR_GIVE_N_FEATURES)
            n_features, alpha = estimator.n_features_in_, estimator.doc_topic_prior_
            prior = TopicPrior(estimator.topic_word_prior_, len(alpha), n_features)
        else:
            if any(is_learned(estimator)) or estimator.seed_words:
                raise ValueError(
                    "'auto' priors and seed_words depend on the data: give numbers, or fit the estimator and omit "
                    "n_features."
                )
            alpha, prior = priors_of(estimator, n_features)
        check_sizes(n_samples, n_features)
        lengths, key = check_lengths(n_tokens, n_samples), root_key(random_state)
        shapes = np.broadcast_to(prior.values, (len(alpha), n_features))
        topics = draw_dirichlet(shapes, subkey(key, Purpose.TOPICS))
        proportions = draw_proportions(alpha, n_samples, subkey(key, Purpose.SHARES))
        drawn = draw_documents(topics, proportions, lengths, key)
        if not return_parameters:
            return drawn.X
        return drawn.X, {
            "components": topics,
            "topic_weights": shares_of_topics(drawn.topic_counts),
            "doc_topic": proportions,
            "doc_topic_counts": drawn.topic_counts,
        }
