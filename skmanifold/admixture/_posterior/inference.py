"""Inference for rows of tokens given fitted components, such as topics: proportions, predictions, held-out scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ...inference._distributed_fits.sources import Stored, corpora_of, count_blocks, read_corpora
from ...metrics._held_out import PerDocument, complete_halves, held_out_score, pair_draws, split_tokens
from ...random._keys import Purpose, root_key, subkey
from ...samplers import BaseSampler
from ...sparse.counts import USE_COUNTS_OF_WORDS, Counts, as_counts, check_tokens, counts_to_fit, validate_counts
from ...topics.proportions import infer_proportions
from ...topics.topic_word import TopicWord
from ...utils._conditions import Array, Integer
from ...utils._declared import Lacking, Saved
from ...utils._threads import Workers
from ...utils._typing import ArrayLike, Ignored, available_if
from ...utils._validation import validate_proportions
from .._tokens.topic_counts import ScaledTokens, TopicCounts, TopicPrior, on_one_scale
from .topic_frame import TopicPage

_MAX_DENSE_BYTES = 4 << 30  # largest memory of a dense components_


class TokenInference(TopicPage):
    """Methods of an estimator with fitted components of tokens; not public.

    The estimator has `n_jobs` and `n_predictive_draws`, and the other attributes declared here when it is fitted.
    """

    n_jobs: int | None
    n_features_in_: int
    n_predictive_draws: int
    sampler_: BaseSampler
    doc_topic_prior_: Annotated[np.ndarray, Array("float64", "n_components", above=0)]
    _key: Saved[np.uint64]  # root of all random streams, fixed when fitting begins
    _tokens: Any = TopicPrior  # the distribution of tokens; that of words needs no prior here
    _estimate: Any  # parameters of the components; None if they come from a stream of draws
    _topic_counts: Saved[TopicCounts | None] = None
    _sparse_counts = "topic_word_counts_"
    _stream: Any = None  # TopicStream
    _posterior: dict[str, np.ndarray]
    best_chain_: Lacking[Annotated[int, Integer(below="n_chains")]]
    _predictive_draws: Callable[[int], list[Any]]  # of `TopicUncertainty`

    @property
    def _parameters(self) -> Any:
        """The estimated parameters of the components."""
        return self._estimate if self._estimate is not None else self._stream.topic_word()

    @property
    def components_(self) -> np.ndarray:
        """Expectation of each feature given each component: word probabilities of topics, whose rows sum to 1.

        Returns
        -------
        components : ndarray of shape (n_components, n_features)
            See the attributes of the class.

        Raises
        ------
        AttributeError
            If the dense array would need more than 4 GiB; use the counts of tokens, which are sparse.
        """
        check_is_fitted(self)
        parameters = self._parameters
        n_bytes = 4 * parameters.n_components * parameters.n_features if isinstance(parameters, TopicWord) else 0
        if n_bytes > _MAX_DENSE_BYTES:
            raise AttributeError(
                f"components_ would need {n_bytes / 2**30:.1f} GiB, more than {_MAX_DENSE_BYTES / 2**30:.1f}: use "
                f"{self._sparse_counts}, which is sparse. transform and score do not need components_."
            )
        return self._tokens.attributes(parameters)["components_"]

    def _expected_counts(self) -> sp.csr_array:
        """Expected number of each token in each component, (n_components, n_tokens)."""
        check_is_fitted(self)
        if self._topic_counts is None:
            name = type(self.sampler_).__name__
            raise AttributeError(f"{name} draws the topics and keeps no counts: use components_.")
        return self._topic_counts.tocsr().astype(np.float64).T.tocsr()

    def transform(self, X: Stored, average_draws: bool = False) -> np.ndarray:
        """Infer the proportions of the components in rows, such as those of topics in documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus or list of Corpus
            Rows, as in `fit`; fractional counts are weights. Topic models of words also read a
            :class:`~skmanifold.datasets.Corpus`, or a list of them, from disk in blocks, with the same result as in
            memory.
        average_draws : bool, default=False
            If True and the sampler draws the components, average the proportions over the `n_predictive_draws` draws
            that `score` uses. This takes `n_predictive_draws` times as long. If False, use the estimate,
            ``components_``.

        Returns
        -------
        proportions : ndarray of shape (n_samples, n_components)
            Modes of the proportions' posterior in softmax coordinates; rows sum to 1. For the emission "poisson" they
            are intensities, ``(counts + doc_topic_prior_) / (intensity_rate_ + 1)`` with the expected counts of a row's
            tokens in the components.

        Raises
        ------
        ValueError
            If X has impossible values, such as negative counts, or another number of features than in `fit`.
        """
        return self._infer(X, average_draws)

    def predict(self, X: Stored) -> np.ndarray:
        """Predict the component with the largest proportion in each row, such as the topic of a document.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus or list of Corpus
            Rows, as in `transform`.

        Returns
        -------
        components : ndarray of shape (n_samples,)
            Indices into ``components_``.

        Raises
        ------
        ValueError
            If X cannot be used; see `transform`.
        """
        return self._infer(X, average_draws=False).argmax(axis=1)

    def _infer(self, X, average_draws):
        check_is_fitted(self)
        if corpora := self._corpora_of(X):
            out = np.empty((sum(map(len, corpora)), self._n_features_out))
            end = 0
            for counts in count_blocks(corpora, self.n_features_in_):
                start, end = end, end + counts.n_rows
                out[start:end] = self._infer_counts(counts, average_draws)
            return out
        return self._infer_counts(self._read_again(X), average_draws)

    def _infer_counts(self, counts: Counts, average_draws: bool) -> np.ndarray:
        with Workers(self.n_jobs) as workers:
            draws = self._predictive() if average_draws else [self._tokens.scaled(self._parameters)]
            inferred = (infer_proportions(draw.words, counts, self.doc_topic_prior_, workers=workers) for draw in draws)
            total = next(inferred)
            for proportions in inferred:
                total += proportions
            total /= len(draws)
            return total

    def _corpora_of(self, X) -> list:
        """The corpora of X that are read in blocks."""
        return corpora_of(X)

    def _read_again(self, X) -> Counts:
        """Read rows after `fit`, with fractional counts as weights."""
        return as_counts(validate_counts(self, X, reset=False))

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        """Expectation of rows with given proportions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Proportions, or intensities for the emission "poisson".

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features)
            ``X @ components_``: for topics of words the probabilities of the words, which sum to 1 if the rows of X do.

        Raises
        ------
        ValueError
            If X does not have `n_components` columns, or has values that are not finite.
        """
        check_is_fitted(self)
        return self._tokens.mix(self._parameters, validate_proportions(X, self._n_features_out, "component"))

    def score(self, X: Stored, y: Ignored = None) -> float:
        """Mean held-out log likelihood per token, by completion of rows; higher is better.

        The proportions of a row are inferred from half of its tokens, and the other half is scored
        (:func:`skmanifold.metrics.document_completion`). The split depends only on the row's content and on
        `random_state`. With samplers that draw the components, the probability of a token is averaged over
        `n_predictive_draws` draws of the best chain before taking the logarithm. Other samplers use their estimate.
        Tokens of the emission "bernoulli" are the observed cells, and those of "gaussian" have densities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus or list of Corpus
            Rows, as in `transform`. Rows with fewer than two tokens are ignored. A count of 2.3 is three tokens with
            the weights 1, 1 and 0.3.
        y : Ignored

        Returns
        -------
        score : float
            In nats per token.

        Raises
        ------
        ValueError
            If no row has two tokens, a row has more than 100,000,000 tokens, or X has more than 2,147,483,647 tokens.
        """
        scores, _, log_scale = self._complete(X)
        score = held_out_score(scores)
        return score.log_likelihood + log_scale / score.n_tokens

    @available_if(lambda estimator: estimator._has_probabilities())
    def perplexity(self, X: Stored) -> float:
        """Held-out perplexity, ``exp(-score(X))``; lower is better.

        This is a direct estimate and not a bound. Not available for the emission "gaussian", whose tokens have
        densities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus or list of Corpus
            Rows, as in `transform`.

        Returns
        -------
        perplexity : float
            Perplexity per token: the number of equally probable words with the same mean log probability. For
            "bernoulli", whose tokens are cells, guessing gives 2.

        Raises
        ------
        ValueError
            If X cannot be scored; see `score`.
        """
        return float(np.exp(-self.score(X)))

    def score_samples(self, X: Stored) -> np.ndarray:
        """Held-out log likelihood of each row, by completion of rows.

        The proportions of a row are inferred from half of its tokens, and the other half is scored: ``n - n // 2`` of n
        tokens. `score` is the sum over rows divided by the number of scored tokens.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus or list of Corpus
            Rows, as in `transform`.

        Returns
        -------
        log_likelihood : ndarray of shape (n_samples,)
            In nats per row; 0 for a row with fewer than two tokens, which is not scored.

        Raises
        ------
        ValueError
            If X cannot be scored; see `score`.
        """
        scores, log_scales, _ = self._complete(X)
        return scores.log_likelihood + log_scales

    def _complete(self, X) -> tuple[PerDocument, np.ndarray, float]:
        """Scores of rows by a completion, and the logarithms of the scales of held-out tokens: of rows, and of all."""
        check_is_fitted(self)
        corpora = self._corpora_of(X)
        blocks: Iterable[Counts] = count_blocks(corpora, self.n_features_in_) if corpora else [self._read_again(X)]
        words, log_scale = on_one_scale(self._predictive())
        draws = pair_draws(words, self.doc_topic_prior_)
        key = root_key(int(subkey(self._key, Purpose.INFERENCE)) % 2**32)
        scores, log_scales, total = [], [], 0.0
        with Workers(self.n_jobs) as workers:
            for counts in blocks:
                check_tokens(counts)
                observed, held_out = split_tokens(counts, key, workers)
                scores.append(complete_halves(draws, observed, held_out, workers))
                if log_scale is None:
                    log_scales.append(np.zeros(counts.n_rows))
                    continue
                table = held_out.counts, held_out.indices, held_out.indptr
                log_scales.append(sp.csr_array(table, shape=(counts.n_rows, counts.n_features)) @ log_scale)
                total += float((held_out.counts * log_scale[held_out.indices]).sum())
        return PerDocument(*map(np.concatenate, zip(*scores, strict=True))), np.concatenate(log_scales), total

    def _predictive(self) -> list[ScaledTokens]:
        """Distributions of tokens for held-out scores: evenly spaced draws, or the estimate if there are no draws."""
        draws = [self._tokens.scaled_draw(draw) for draw in self._kept_draws()]
        return draws or [self._tokens.scaled(self._parameters)]

    def _kept_draws(self) -> list[dict[str, np.ndarray]]:
        """The draws of the best chain that held-out scores average over."""
        return [{"components": draw} for draw in self._predictive_draws(self.n_predictive_draws)]

    def _has_probabilities(self) -> bool:
        """Return True if tokens have probabilities; otherwise raise an AttributeError with the reason."""
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


class TopicInference(TokenInference):
    """The same for topics of words; not public."""

    @property
    def topic_word_counts_(self) -> sp.csr_array:
        """Expected number of tokens of each word in each topic.

        Returns
        -------
        counts : csr_array of shape (n_components, n_features)
            Counts of a pass, or their mean over passes.

        Raises
        ------
        AttributeError
            If the sampler draws the topics and keeps no counts; use ``components_``.
        """
        return self._expected_counts()

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
