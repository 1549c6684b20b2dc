"""Inference for rows of tokens given fitted components: proportions, predictions and held-out scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from ...emissions import EMISSIONS, BaseEmission
from ...metrics import document_completion
from ...metrics._held_out import complete_documents, split_tokens
from ...random._keys import Purpose, root_key, subkey
from ...samplers import BaseSampler
from ...sparse.counts import Counts
from ...topics.proportions import infer_proportions
from ...utils._threads import Workers
from ...utils._typing import ArrayLike, Ignored, MatrixLike, available_if
from ...utils._validation import check_array
from .._posterior.topic_draws import mean_proportions
from .._posterior.topic_page import TopicPage
from .._posterior.uncertainty import TopicUncertainty, evenly_spaced
from .._tokens.topic_counts import TopicCounts
from .model import ScaledTokens, on_one_scale
from .token_laws import DirichletTokens, FamilyTokens


def has_perplexity(estimator: Any) -> bool:
    """Return True if tokens have probabilities; otherwise raise an AttributeError with the reason."""
    if _kind(estimator.emission).has_vector_tokens:
        raise AttributeError(
            f"emission={estimator.emission!r} gives tokens densities, which have no perplexity: use score."
        )
    return True


class FamilyAdmixtureInference(TopicPage, ClassNamePrefixFeaturesOutMixin, TransformerMixin, TopicUncertainty):
    """Methods of an estimator with fitted components of tokens; not public.

    The estimator has `emission`, `n_jobs` and `n_predictive_draws`, and the other attributes declared here when it is
    fitted.
    """

    emission: str | BaseEmission
    n_jobs: int | None
    n_predictive_draws: int
    emission_: BaseEmission
    sampler_: BaseSampler
    doc_topic_prior_: np.ndarray
    intensity_rate_: float
    _key: np.uint64  # root of all random streams, fixed when fitting begins
    _tokens: FamilyTokens | DirichletTokens
    _estimate: Any  # parameters of the tokens
    _topic_counts: TopicCounts
    _stream: None = None

    @property
    def _draws_topics(self) -> bool:
        return self.sampler_.draws_parameters

    @property
    def components_(self) -> np.ndarray:
        """Expectation of each feature given each component; see the attributes of the class.

        Returns
        -------
        components : ndarray of shape (n_components, n_features) or (n_components, n_dims)

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        AttributeError
            If the dense array would need more than 4 GiB; use ``token_counts_``.
        """
        check_is_fitted(self)
        return self._tokens.attributes(self._estimate)["components_"]

    @property
    def covariances_(self) -> np.ndarray:
        """Covariances or variances of Gaussian components.

        Returns
        -------
        covariances : ndarray of shape (n_components, n_dims, n_dims) or (n_components, n_dims)

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        AttributeError
            If the emission is not Gaussian.
        """
        check_is_fitted(self)
        if not self.emission_.has_vector_tokens:
            raise AttributeError(f"Components of {self.emission_!r} have no covariances.")
        return self._tokens.attributes(self._estimate)["covariances_"]

    @property
    def token_counts_(self) -> sp.csr_array:
        """Expected number of each token in each component.

        Returns
        -------
        counts : csr_array of shape (n_components, n_tokens)

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        """
        check_is_fitted(self)
        return self._topic_counts.tocsr().astype(np.float64).T.tocsr()

    @property
    def _n_features_out(self) -> int:
        return len(self.doc_topic_prior_)

    def transform(self, X: MatrixLike, average_draws: bool = False) -> np.ndarray:
        """Infer the proportions of the components in rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, as in `fit`; fractional counts are weights.
        average_draws : bool, default=False
            If True and the sampler draws the parameters, average the proportions over the `n_predictive_draws` draws
            that `score` uses. This takes `n_predictive_draws` times as long. If False, use the estimate.

        Returns
        -------
        proportions : ndarray of shape (n_samples, n_components)
            Rows sum to 1. For "poisson" these are intensities, ``(counts + doc_topic_prior_) / (intensity_rate_ + 1)``
            with the expected counts of a row's tokens in the components.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X has values that are impossible for the emission, or another number of features than in `fit`.
        """
        return self._infer(X, average_draws)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predict the component with the largest proportion in each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, as in `fit`; fractional counts are weights.

        Returns
        -------
        components : ndarray of shape (n_samples,)
            Indices into ``components_``.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X has values that are impossible for the emission, or another number of features than in `fit`.
        """
        return self._infer(X, average_draws=False).argmax(axis=1)

    def _infer(self, X, average_draws):
        check_is_fitted(self)
        tokens = self._read_again(X)
        alpha = self.doc_topic_prior_
        with Workers(self.n_jobs) as workers:
            if average_draws:
                draws = [draw.words for draw in self._predictive()]
                proportions = mean_proportions(draws, tokens, alpha, workers=workers)
            else:
                estimate = self._tokens.of_estimate(self._estimate).words
                proportions = infer_proportions(estimate, tokens, alpha, workers=workers)
        if self.emission_.has_random_totals:
            proportions *= ((tokens.row_sums() + alpha.sum()) / (self.intensity_rate_ + 1.0))[:, np.newaxis]
        return proportions

    def inverse_transform(self, X: ArrayLike) -> np.ndarray:
        """Expectation of rows with given proportions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Proportions, or for "poisson" intensities.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features)
            ``X @ components_``: probabilities of ones or of words, expected counts, or expected word vectors, which
            have shape (n_samples, n_dims).

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X does not have `n_components` columns, or has values that are not finite.
        """
        check_is_fitted(self)
        proportions = check_array(X, dtype=np.float64, input_name="X")
        if proportions.shape[1] != self._n_features_out:
            raise ValueError(
                f"X has {proportions.shape[1]} columns, one per component, but there are {self._n_features_out} "
                "components."
            )
        return self._tokens.mix(self._estimate, proportions)

    def score(self, X: MatrixLike, y: Ignored = None) -> float:
        """Mean held-out log likelihood per token, by completion of rows; higher is better.

        The proportions of a row are inferred from half of its tokens, and the other half is scored
        (:func:`skmanifold.metrics.document_completion`). The split depends only on the row's content. For "bernoulli"
        the tokens are the observed cells, and the score is the mean log probability of a cell; for "gaussian" it is the
        mean log density of a token's vector. With "gibbs" the probability of a token is averaged over
        `n_predictive_draws` draws of the best chain before taking the logarithm. "esca" uses its estimate.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, as in `fit`. Rows with fewer than two tokens are ignored. A count of 2.3 is three tokens with the
            weights 1, 1 and 0.3.
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
            If no row has two tokens, a row has more than 100,000,000 tokens, or X has more than 2,147,483,647 tokens.
        """
        completion, held_out, log_scale = self._completion(X)
        completed = document_completion(**completion)
        if log_scale is None:
            return completed.log_likelihood
        return (
            completed.log_likelihood + float((held_out.counts * log_scale[held_out.indices]).sum()) / completed.n_tokens
        )

    def score_samples(self, X: MatrixLike) -> np.ndarray:
        """Held-out log likelihood of each row, by completion of rows.

        The proportions of a row are inferred from half of its tokens, and the other half is scored: ``n - n // 2`` of n
        tokens, for "gaussian" by the log density of their vectors. `score` is the sum over rows divided by the number
        of scored tokens.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, as in `fit`.

        Returns
        -------
        log_likelihood : ndarray of shape (n_samples,)
            In nats per row; 0 for a row with fewer than two tokens, which is not scored.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X cannot be scored; see `score`.
        """
        completion, held_out, log_scale = self._completion(X)
        sums = complete_documents(**completion).log_likelihood
        if log_scale is None:
            return sums
        scales = sp.csr_array((held_out.counts, held_out.indices, held_out.indptr), shape=completion["X"].shape)
        return sums + scales @ log_scale

    def _completion(self, X) -> tuple[dict[str, Any], Counts, np.ndarray | None]:
        """Arguments of `document_completion`, its held-out tokens and the logarithms of their scales."""
        check_is_fitted(self)
        tokens = self._read_again(X)
        words, log_scale = on_one_scale(self._predictive())
        seed = int(subkey(self._key, Purpose.INFERENCE)) % 2**32
        table = sp.csr_array((tokens.counts, tokens.indices, tokens.indptr), shape=(tokens.n_rows, tokens.n_features))
        completion = {
            "topic_word": words,
            "X": table,
            "doc_topic_prior": self.doc_topic_prior_,
            "random_state": seed,
            "n_jobs": self.n_jobs,
        }
        held_out = tokens
        if log_scale is not None:
            with Workers(self.n_jobs) as workers:
                held_out = split_tokens(tokens, root_key(seed), workers)[1]  # the same once more, for their scales
        return completion, held_out, log_scale

    @available_if(has_perplexity)
    def perplexity(self, X: MatrixLike) -> float:
        """Held-out perplexity, ``exp(-score(X))``; lower is better.

        This is a direct estimate and not a bound. Not available for "gaussian", whose tokens have densities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, as in `fit`.

        Returns
        -------
        perplexity : float
            Perplexity per token: the number of equally probable tokens with the same mean log probability. For
            "bernoulli", whose tokens are cells, guessing gives 2.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X cannot be scored; see `score`.
        """
        return math.exp(-self.score(X))

    def _has_words(self) -> bool:
        kind = _kind(self.emission)
        if kind.has_vector_tokens or kind.has_missing_tokens:
            raise AttributeError(
                f"A list of topics shows probabilities of words, which emission={self.emission!r} does not have: use "
                "'multinomial' or 'poisson'."
            )
        return True

    def _predictive(self) -> list[ScaledTokens]:
        """Distributions of tokens for held-out scores: evenly spaced draws, or the estimate if there are no draws."""
        posterior = self.__dict__.get("_posterior", {})
        with threadpool_limits(1, user_api="blas"):
            if not self._draws_topics or "components" not in posterior:
                return [self._tokens.of_estimate(self._estimate)]
            kept = {name: posterior[name][self.best_chain_] for name in self._draw_names}
            laws = [
                self._tokens.of_draw({name: draws[i] for name, draws in kept.items()})
                for i in evenly_spaced(len(kept["components"]), self.n_predictive_draws)
            ]
            return laws or [self._tokens.of_estimate(self._estimate)]

    @property
    def _draw_names(self) -> list[str]:
        """Names of the arrays of a draw of the parameters."""
        return ["components", "covariances"] if self.emission_.has_vector_tokens else ["components"]

    def _draw_axes(self) -> tuple[dict[str, list[str]], Any]:
        """Axes of the draws: words, features (if rows have a cell of each), or dimensions of vectors."""
        axes, names = super()._draw_axes()
        if not self.emission_.has_vector_tokens:
            entry = "feature" if self.emission_.has_missing_tokens else "word"
            return {**axes, "components": ["topic", entry]}, names
        shape = ["topic", "dimension", "dimension_bis"][: self.covariances_.ndim]
        return {**axes, "components": ["topic", "dimension"], "covariances": shape}, None

    def _read_again(self, X) -> Counts:
        """Read rows after `fit`, with fractional counts as weights."""
        return self.emission_.read_tokens(self, X, None, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.input_tags.allow_nan = _kind(self.emission).has_missing_tokens
        return tags


def _kind(emission: Any) -> Any:
    """The emission, or the class of a name, for its class attributes."""
    return EMISSIONS.get(emission, BaseEmission) if isinstance(emission, str) else emission
