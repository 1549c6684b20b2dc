"""What spherical topics tell about documents: proportions, predictions and held-out scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ...distributions import log_vmf_normalizer
from ...metrics._spherical_held_out import integrate_documents
from ...random._keys import Purpose, subkey
from ...samplers import BaseSampler
from ...sparse.directions import Directions, validate_directions
from ...topics.top_words import TopicWords, column_names, top_words_by_sign
from ...utils._threads import Workers
from ...utils._typing import ArrayLike, Ignored, MatrixLike
from ...utils._validation import check_array


class SphericalInference(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of an estimator with fitted spherical topics; not public.

    It has `n_jobs`, `n_predictive_draws` and `n_importance_draws`, and when fitted what is declared here.
    """

    n_jobs: int | None
    n_predictive_draws: int
    n_importance_draws: int
    sampler_: BaseSampler
    components_: np.ndarray
    doc_topic_prior_: np.ndarray
    document_concentration_: float
    best_chain_: int
    _predictive_draws: Callable[[int], list[np.ndarray]]  # of `TopicUncertainty`
    _labelled_draws: Callable[[int], list[np.ndarray]]
    _key: np.uint64  # of all streams, frozen when fitting begins
    _posterior: dict[str, np.ndarray]  # of a fit
    _stream: Any  # SphericalStream or FactorStream

    @property
    def _n_features_out(self) -> int:
        return len(self.doc_topic_prior_)

    def transform(self, X: MatrixLike, average_draws: bool = False) -> np.ndarray:
        """Posterior means of documents' topic proportions, by importance sampling from streams keyed by their content.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of any length and sign.
        average_draws : bool, default=False
            Average over the topics' draws that `score` uses, instead of taking ``components_``. The time is as many
            times as long.

        Returns
        -------
        doc_topic : ndarray of shape (n_samples, n_components)
            Proportions; rows sum to 1. Rows of zeros have the prior's mean.
        """
        check_is_fitted(self)
        rows = validate_directions(self, X, reset=False)
        topics = self._labelled_draws(self.n_predictive_draws) if average_draws else []
        topics = topics or [self.components_]
        proportions = np.zeros((rows.n_rows, self._n_features_out))
        for of_draw in self._integrate(rows, topics):
            proportions += of_draw.proportions
        return proportions / len(topics)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The dominant topic of each document.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of any length and sign.

        Returns
        -------
        topics : ndarray of shape (n_samples,)
            Indices into ``components_``.
        """
        return self.transform(X).argmax(axis=1)

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        """Directions of documents with given proportions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Topic proportions, at least one of a row positive.

        Returns
        -------
        directions : ndarray of shape (n_samples, n_features)
            Unit rows along ``X @ components_``.
        """
        check_is_fitted(self)
        proportions = check_array(X, dtype=np.float64, input_name="X")
        if proportions.shape[1] != self._n_features_out:
            raise ValueError(
                f"X has {proportions.shape[1]} columns, one a topic, but there are {self._n_features_out}."
            )
        mixtures = proportions @ self.components_
        return mixtures / np.linalg.norm(mixtures, axis=1, keepdims=True)

    def score_samples(self, X: MatrixLike) -> np.ndarray:
        """Log densities of documents relative to the uniform law on the sphere, their proportions integrated out.

        By importance sampling from a law fitted to each document
        (:func:`skmanifold.metrics.spherical_document_likelihood`); the density is the mean over `n_predictive_draws`
        draws of the topics.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of any length and sign.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            In nats; 0 is to know nothing. NaN for rows of zeros. Add ``log_vmf_normalizer(n_features, 0)`` for the
            density with respect to the sphere's surface area.
        """
        check_is_fitted(self)
        rows = validate_directions(self, X, reset=False)
        topics = self._predictive_draws(self.n_predictive_draws) or [self.components_]  # where there are no draws
        log_density, directed = np.full(rows.n_rows, np.nan), rows.directed
        logs = np.array([of_draw.log_density[directed] for of_draw in self._integrate(rows, topics)])
        means = np.logaddexp.reduce(logs, axis=0) - math.log(len(topics))
        log_density[directed] = means - log_vmf_normalizer(rows.n_features, 0.0)
        return log_density

    def score(self, X: MatrixLike, y: Ignored = None) -> float:
        """Mean of `score_samples` over rows with a direction: higher is better.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of any length and sign.
        y : None
            Ignored.

        Returns
        -------
        score : float
            In nats per document.

        Raises
        ------
        ValueError
            If all rows are zeros.
        """
        log_density = self.score_samples(X)
        known = log_density[~np.isnan(log_density)]
        if len(known) == 0:
            raise ValueError("All rows of X are zeros, which have no direction.")
        return float(np.mean(known))

    def perplexity(self, X: MatrixLike) -> float:
        """Held-out perplexity per degree of freedom, relative to the uniform law: lower is better. Not a bound.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of any length and sign.

        Returns
        -------
        perplexity : float
            ``exp(-score(X) / (n_features - 1))``; 1 is to know nothing.
        """
        with np.errstate(over="ignore"):
            return float(np.exp(-self.score(X) / (self.components_.shape[1] - 1)))

    def topic_words(self, n_words: int = 10, feature_names: ArrayLike | None = None) -> list[TopicWords]:
        """The words that speak for each topic, and those that speak against it.

        Parameters
        ----------
        n_words : int, default=10
            Most words of either sign.
        feature_names : array-like of shape (n_features,), default=None
            Names of the columns, such as ``vectorizer.get_feature_names_out()``; None is ``feature_names_in_``, or
            their numbers.

        Returns
        -------
        topics : list of TopicWords
            For each topic ``positive`` and ``negative``: lists of (name, entry of ``components_``), the largest in
            absolute value first.
        """
        check_is_fitted(self)
        names = column_names(self, self.components_.shape[1], feature_names)
        topics = []
        for topic in self.components_:
            high, low = ([(names[i], float(topic[i])) for i in part] for part in top_words_by_sign(topic, n_words))
            topics.append(TopicWords(high, low))
        return topics

    def _integrate(self, rows: Directions, topics: list[np.ndarray]) -> Iterator[Any]:
        """Log densities and mean proportions of documents, for one set of topics after the other."""
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
