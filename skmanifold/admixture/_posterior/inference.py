"""Inference for documents given fitted topics: proportions, predictions and held-out scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ...inference._corpus_blocks import Stored, count_blocks, read_corpora
from ...inference._distributed_fits.sources import corpora_of
from ...metrics import document_completion
from ...metrics._held_out import complete_documents
from ...random._keys import Purpose, subkey
from ...samplers import BaseSampler
from ...sparse.counts import (
    USE_COUNTS_OF_WORDS,
    Counts,
    as_counts,
    check_tokens,
    counts_to_fit,
    validate_counts,
)
from ...topics.proportions import infer_proportions
from ...topics.topic_word import TopicWord, as_topic_word
from ...utils._threads import Workers
from ...utils._typing import ArrayLike, ClassNamePrefixFeaturesOutMixin, Ignored, TransformerMixin
from ...utils._validation import validate_proportions
from .._tokens.topic_counts import TopicCounts
from .topic_draws import mean_proportions
from .topic_page import TopicPage

_MAX_DENSE_BYTES = 4 << 30  # largest memory of a dense components_


class TopicInference(TopicPage, ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of an estimator with fitted topics; not public.

    The estimator has `n_jobs` and `n_predictive_draws`, and the other attributes declared here when it is fitted.
    """

    n_jobs: int | None
    n_features_in_: int
    n_predictive_draws: int
    sampler_: BaseSampler
    doc_topic_prior_: np.ndarray
    _key: np.uint64  # root of all random streams, fixed when fitting begins
    _estimate: TopicWord | None  # None if the topics come from a stream of draws
    _topic_counts: TopicCounts | None = None
    _stream: Any = None  # TopicStream
    _posterior: dict[str, np.ndarray]  # of a fit
    best_chain_: int
    _predictive_draws: Callable[[int], list[np.ndarray]]  # of `TopicUncertainty`

    @property
    def _topic_word(self) -> TopicWord:
        if self._estimate is None:
            assert self._stream is not None
            return self._stream.topic_word()
        return self._estimate

    @property
    def components_(self) -> np.ndarray:
        """Word probabilities of each topic.

        Returns
        -------
        components : ndarray of shape (n_components, n_features)
            Rows sum to 1.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        AttributeError
            If the dense array would need more than 4 GiB; use ``topic_word_counts_``.
        """
        check_is_fitted(self)
        return dense_components(self._topic_word, "topic_word_counts_")

    @property
    def topic_word_counts_(self) -> sp.csr_array:
        """Expected number of tokens of each word in each topic.

        Returns
        -------
        counts : csr_array of shape (n_components, n_features)
            Counts of a pass, or their mean over passes.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        AttributeError
            If the sampler draws the topics and keeps no counts; use ``components_``.
        """
        check_is_fitted(self)
        if self._topic_counts is None:
            name = type(self.sampler_).__name__
            raise AttributeError(f"{name} draws the topics and keeps no counts: use components_.")
        return self._topic_counts.tocsr().astype(np.float64).T.tocsr()

    @property
    def _n_features_out(self) -> int:
        return len(self.doc_topic_prior_)

    def transform(self, X: Stored, average_draws: bool = False) -> np.ndarray:
        """Infer the topic proportions of documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus or list of Corpus
            Counts of words in documents; fractional counts are weights. A :class:`~skmanifold.datasets.Corpus`, or a
            list of them, is read from disk in blocks, with the same result as in memory.
        average_draws : bool, default=False
            If True and the sampler draws the topics, average the proportions over the `n_predictive_draws` draws that
            `score` uses. This takes `n_predictive_draws` times as long. If False, use ``components_``.

        Returns
        -------
        doc_topic : ndarray of shape (n_samples, n_components)
            Modes of the proportions' posterior in softmax coordinates; rows sum to 1.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X has values that are negative or not finite, or another number of features than in `fit`.
        """
        return self._infer(X, average_draws)

    def predict(self, X: Stored) -> np.ndarray:
        """Predict the topic with the largest proportion in each document.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus or list of Corpus
            Counts of words in documents; fractional counts are weights. A :class:`~skmanifold.datasets.Corpus`, or a
            list of them, is read from disk in blocks, with the same result as in memory.

        Returns
        -------
        topics : ndarray of shape (n_samples,)
            Indices into ``components_``.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X has values that are negative or not finite, or another number of features than in `fit`.
        """
        return self._infer(X, average_draws=False).argmax(axis=1)

    def _infer(self, X, average_draws):
        check_is_fitted(self)
        if corpora := corpora_of(X):
            out = np.empty((sum(map(len, corpora)), self._n_features_out))
            end = 0
            for counts in count_blocks(corpora, self.n_features_in_):
                start, end = end, end + counts.n_rows
                out[start:end] = self._infer_counts(counts, average_draws)
            return out
        return self._infer_counts(as_counts(validate_counts(self, X, reset=False)), average_draws)

    def _infer_counts(self, counts: Counts, average_draws: bool) -> np.ndarray:
        with Workers(self.n_jobs) as workers:
            if average_draws:
                return mean_proportions(self._predictive(), counts, self.doc_topic_prior_, workers=workers)
            return infer_proportions(self._topic_word, counts, self.doc_topic_prior_, workers=workers)

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        """Word probabilities of documents with given proportions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Topic proportions.

        Returns
        -------
        words : ndarray of shape (n_samples, n_features)
            ``X @ components_``; rows sum to 1 if the rows of X do.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X does not have `n_components` columns, or has values that are not finite.
        """
        check_is_fitted(self)
        topics = self._topic_word
        return mix_topics(topics, validate_proportions(X, topics.n_components, "topic"))

    def score(self, X: Stored, y: Ignored = None) -> float:
        """Mean held-out log likelihood per token, by document completion; higher is better.

        The proportions of a document are inferred from half of its tokens, and the other half is scored
        (:func:`skmanifold.metrics.document_completion`). The split depends only on the document's content
        and on `random_state`. With samplers that draw the topics, the probability of a token is averaged over
        `n_predictive_draws` draws of the best chain before taking the logarithm. Other samplers use their estimate of
        the topics.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus or list of Corpus
            Counts of words in documents. Documents with fewer than two tokens are ignored. A count of 2.3 is three
            tokens with the weights 1, 1 and 0.3. A :class:`~skmanifold.datasets.Corpus`, or a list of them, is read
            from disk in blocks, with the same result as in memory.
        y : None
            Ignored.

        Returns
        -------
        score : float
            In nats per token.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If no document has two tokens, a document has more than 100,000,000 tokens, or X has more than 2,147,483,647
            tokens.
        """
        return document_completion(**self._completion(X)).log_likelihood

    def perplexity(self, X: Stored) -> float:
        """Held-out perplexity, ``exp(-score(X))``; lower is better.

        This is a direct estimate and not a bound.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus or list of Corpus
            Counts of words in documents. A :class:`~skmanifold.datasets.Corpus`, or a list of them, is read from disk
            in blocks, with the same result as in memory.

        Returns
        -------
        perplexity : float
            Perplexity per token: the number of equally probable words with the same mean log probability.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X cannot be scored; see `score`.
        """
        return document_completion(**self._completion(X)).perplexity

    def score_samples(self, X: Stored) -> np.ndarray:
        """Held-out log likelihood of each document, by document completion.

        The proportions of a document are inferred from half of its tokens, and the other half is scored: ``n - n // 2``
        of n tokens. `score` is the sum over documents divided by the number of scored tokens.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus or list of Corpus
            Counts of words in documents. A :class:`~skmanifold.datasets.Corpus`, or a list of them, is read from disk
            in blocks, with the same result as in memory.

        Returns
        -------
        log_likelihood : ndarray of shape (n_samples,)
            In nats per document; 0 for a document with fewer than two tokens, which is not scored.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X cannot be scored; see `score`.
        """
        return complete_documents(**self._completion(X)).log_likelihood

    def _completion(self, X) -> dict[str, Any]:
        """Arguments of `document_completion`."""
        check_is_fitted(self)
        return {
            "topic_word": self._predictive(),
            "X": X if corpora_of(X) else validate_counts(self, X, reset=False),
            "doc_topic_prior": self.doc_topic_prior_,
            "random_state": int(subkey(self._key, Purpose.INFERENCE)) % 2**32,
            "n_jobs": self.n_jobs,
        }

    def _predictive(self) -> list[TopicWord]:
        """Topics for held-out scores: evenly spaced draws, or the estimate if there are no draws."""
        return [as_topic_word(draw) for draw in self._predictive_draws(self.n_predictive_draws)] or [self._topic_word]

    def _whole_counts(self, X, rounding_key: np.uint64, *, reset: bool, may_be_empty: bool = False) -> Counts:
        if corpora := corpora_of(X):
            if reset:
                self.__dict__.pop("feature_names_in_", None)
                self.n_features_in_ = corpora[0].shape[1]
            counts = read_corpora(corpora, self.n_features_in_)
        else:
            csr = validate_counts(self, X, reset=reset)
            counts = counts_to_fit(csr, rounding_key, USE_COUNTS_OF_WORDS, stacklevel=7)
        if counts.n_tokens == 0 and not may_be_empty:
            raise ValueError("X has no tokens: all counts are zero or are fractions that were rounded to zero.")
        check_tokens(counts)
        return counts

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


def dense_components(topics: TopicWord, sparse: str) -> np.ndarray:
    """Word probabilities of all topics; raises an AttributeError that names `sparse` if they need too much memory."""
    n_bytes = 4 * topics.n_components * topics.n_features
    if n_bytes > _MAX_DENSE_BYTES:
        raise AttributeError(
            f"components_ would need {n_bytes / 2**30:.1f} GiB, more than {_MAX_DENSE_BYTES / 2**30:.1f}: use "
            f"{sparse}, which is sparse. transform and score do not need components_."
        )
    return topics.toarray()


def mix_topics(topics: TopicWord, proportions: np.ndarray) -> np.ndarray:
    """Word probabilities of rows with these proportions, (n_rows, K)."""
    entries = topics.weights, topics.topics.astype(np.int32), topics.indptr
    weights = sp.csr_array(entries, shape=(topics.n_features, topics.n_components))
    return (weights @ proportions.T).T + np.multiply.outer((proportions * topics.inverse).sum(axis=1), topics.base)
