"""Inference for documents given fitted spherical topics: proportions, predictions and held-out scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...distributions import log_vmf_normalizer
from ...metrics._spherical_held_out import integrate_documents
from ...random._keys import Purpose, subkey
from ...samplers import BaseSampler
from ...sparse.dense_directions import AnyDirections, read_directions
from ...topics.top_words import TopicWords, column_names, top_words_by_sign
from ...utils._threads import Workers
from ...utils._typing import ArrayLike, ClassNamePrefixFeaturesOutMixin, Ignored, MatrixLike, TransformerMixin
from ...utils._validation import validate_proportions
from .._posterior.topic_frame import TopicFrame


class SphericalInference(TopicFrame, ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of an estimator with fitted spherical topics; not public.

    The estimator has `n_jobs`, `n_predictive_draws` and `n_importance_draws`, and the other attributes declared here
    when it is fitted.
    """

    n_jobs: int | None
    n_predictive_draws: int
    n_importance_draws: int
    sampler_: BaseSampler
    components_: np.ndarray
    doc_topic_prior_: np.ndarray
    document_concentration_: float | np.ndarray
    best_chain_: int
    _predictive_draws: Callable[[int], list[np.ndarray]]  # of `TopicUncertainty`
    _labelled_draws: Callable[[int], list[np.ndarray]]
    _key: np.uint64  # root of all random streams, fixed when fitting begins
    _posterior: dict[str, np.ndarray]  # of a fit
    _stream: Any  # SphericalStream or FactorStream

    @property
    def _n_features_out(self) -> int:
        return len(self.doc_topic_prior_)

    def transform(self, X: MatrixLike, average_draws: bool = False) -> np.ndarray:
        """Infer the topic proportions of documents, as posterior means by importance sampling.

        The random numbers for a document depend only on its content and on the seed of `fit`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Documents; rows of any length, with entries of any sign.
        average_draws : bool, default=False
            If True and the sampler draws the topics, average the proportions over the `n_predictive_draws` draws that
            `score` uses. This takes `n_predictive_draws` times as long. If False, use ``components_``.

        Returns
        -------
        doc_topic : ndarray of shape (n_samples, n_components)
            Proportions; rows sum to 1. For rows of zeros they are the prior mean.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X has values that are not finite, or another number of features than in `fit`.
        """
        check_is_fitted(self)
        rows = read_directions(self, X, reset=False)
        topics = self._labelled_draws(self.n_predictive_draws) if average_draws else []
        topics = topics or [self.components_]
        proportions = np.zeros((rows.n_rows, self._n_features_out))
        for of_draw in self._integrate(rows, topics):
            proportions += of_draw.proportions
        return proportions / len(topics)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predict the topic with the largest proportion in each document.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Documents; rows of any length, with entries of any sign.

        Returns
        -------
        topics : ndarray of shape (n_samples,)
            Indices into ``components_``.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X has values that are not finite, or another number of features than in `fit`.
        """
        return self.transform(X).argmax(axis=1)

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        """Directions of documents with given proportions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Topic proportions; each row needs a positive entry.

        Returns
        -------
        directions : ndarray of shape (n_samples, n_features)
            Rows of ``X @ components_``, scaled to unit length.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X does not have as many columns as there are topics, or has values that are not finite.
        """
        check_is_fitted(self)
        mixtures = validate_proportions(X, self._n_features_out, "topic") @ self.components_
        return mixtures / np.linalg.norm(mixtures, axis=1, keepdims=True)

    def score_samples(self, X: MatrixLike) -> np.ndarray:
        """Log densities of documents relative to the uniform distribution on the sphere.

        Proportions are integrated out by importance sampling from a distribution that is fitted to each document
        (:func:`skmanifold.metrics.spherical_document_likelihood`). The density is averaged over `n_predictive_draws`
        draws of the topics.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Documents; rows of any length, with entries of any sign.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            In nats. The uniform distribution has 0. NaN for rows of zeros. Add ``log_vmf_normalizer(n_features, 0)``
            for the density with respect to the surface area of the sphere.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X has values that are not finite, or another number of features than in `fit`.
        """
        check_is_fitted(self)
        rows = read_directions(self, X, reset=False)
        topics = self._predictive_draws(self.n_predictive_draws) or [self.components_]  # if there are no draws
        log_density, directed = np.full(rows.n_rows, np.nan), rows.directed
        logs = np.array([of_draw.log_density[directed] for of_draw in self._integrate(rows, topics)])
        means = np.logaddexp.reduce(logs, axis=0) - math.log(len(topics))
        log_density[directed] = means - log_vmf_normalizer(rows.n_features, 0.0)
        return log_density

    def score(self, X: MatrixLike, y: Ignored = None) -> float:
        """Mean of `score_samples` over the rows that are not zero; higher is better.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Documents; rows of any length, with entries of any sign.
        y : None
            Ignored.

        Returns
        -------
        score : float
            In nats per document.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If all rows are zeros, or X cannot be scored (see `score_samples`).
        """
        log_density = self.score_samples(X)
        known = log_density[~np.isnan(log_density)]
        if len(known) == 0:
            raise ValueError("All rows of X are zeros, which have no direction.")
        return float(np.mean(known))

    def perplexity(self, X: MatrixLike) -> float:
        """Held-out perplexity per degree of freedom, relative to the uniform distribution; lower is better.

        This is a direct estimate and not a bound.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Documents; rows of any length, with entries of any sign.

        Returns
        -------
        perplexity : float
            ``exp(-score(X) / (n_features - 1))``. The uniform distribution has 1.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X cannot be scored; see `score`.
        """
        with np.errstate(over="ignore"):
            return float(np.exp(-self.score(X) / (self.components_.shape[1] - 1)))

    def topic_words(self, n_words: int = 10, feature_names: ArrayLike | None = None) -> list[TopicWords]:
        """Words with the largest positive and negative weights in each topic.

        Parameters
        ----------
        n_words : int, default=10
            Largest number of words of each sign.
        feature_names : array-like of shape (n_features,), default=None
            Names of the columns, such as ``vectorizer.get_feature_names_out()``. None uses ``feature_names_in_`` if it
            exists, else the column indices.

        Returns
        -------
        topics : list of TopicWords
            Attributes ``positive`` and ``negative`` of each topic: lists of (name, entry of ``components_``), in
            decreasing order of the absolute value.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If `n_words` is less than 1, or the number of names differs from the number of columns.
        """
        check_is_fitted(self)
        names = column_names(self, self.components_.shape[1], feature_names)
        topics = []
        for topic in self.components_:
            high, low = ([(names[i], float(topic[i])) for i in part] for part in top_words_by_sign(topic, n_words))
            topics.append(TopicWords(high, low))
        return topics

    def _integrate(self, rows: AnyDirections, topics: list[np.ndarray]) -> Iterator[Any]:
        """Log densities and mean proportions of documents, for each of several draws of the topics."""
        key = subkey(self._key, Purpose.INFERENCE)
        with Workers(self.n_jobs) as workers:
            for i, drawn in enumerate(topics):
                drawn = np.ascontiguousarray(drawn, np.float64)
                alpha, kappa = self._prior_of(drawn), self.document_concentration_
                yield integrate_documents(rows, drawn, alpha, kappa, subkey(key, i), self.n_importance_draws, workers)

    def _prior_of(self, topics: np.ndarray) -> np.ndarray:
        """Dirichlet parameters of documents' proportions of these topics."""
        return self.doc_topic_prior_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
