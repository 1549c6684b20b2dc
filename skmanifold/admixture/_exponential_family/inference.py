"""Inference for rows of tokens given fitted components: proportions, predictions and held-out scores."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from ...emissions._abilities import HasNewRows
from ...emissions._estimator import WithEmission
from ...emissions._protocols import TokenEmission
from ...emissions._registry import TOKEN_EMISSIONS, TOKEN_FAMILIES
from ...emissions._row_lengths import draw_lengths
from ...inference._draw_store import evenly_spaced
from ...metrics._held_out import PerDocument, complete_halves, held_out_score, pair_draws, split_tokens
from ...random._keys import Purpose, root_key, subkey
from ...samplers import BaseSampler
from ...sparse.counts import Counts, check_tokens
from ...topics.proportions import infer_proportions
from ...utils._threads import Workers, limit_threads
from ...utils._typing import (
    ArrayLike,
    ClassNamePrefixFeaturesOutMixin,
    Ignored,
    MatrixLike,
    RandomStateLike,
    TransformerMixin,
    available_if,
)
from ...utils._validation import validate_proportions
from .._posterior.topic_draws import mean_proportions
from .._posterior.topic_page import TopicPage
from .._posterior.uncertainty import TopicUncertainty
from .._tokens.new_rows import (
    components_of_tokens,
    draw_cells,
    draw_intensities,
    draw_proportions,
    draw_totals,
    draw_words,
    share_tokens,
    word_probabilities,
)
from .._tokens.topic_counts import TopicCounts
from .model import FAMILY_NEEDS, ScaledTokens, on_one_scale
from .token_laws import DirichletTokens, FamilyTokens


def has_perplexity(estimator: Any) -> bool:
    """Return True if tokens have probabilities; otherwise raise an AttributeError with the reason."""
    if estimator._emission_kind.has_vector_tokens:
        raise AttributeError(
            f"emission={estimator.emission!r} gives tokens densities, which have no perplexity: use score."
        )
    return True


class FamilyAdmixtureInference(
    WithEmission, TopicPage, ClassNamePrefixFeaturesOutMixin, TransformerMixin, TopicUncertainty
):
    """Methods of an estimator with fitted components of tokens; not public.

    The estimator has `emission`, `n_jobs` and `n_predictive_draws`, and the other attributes declared here when it is
    fitted.
    """

    _emissions = TOKEN_EMISSIONS
    _families = TOKEN_FAMILIES
    _emission_protocol = TokenEmission
    _family_needs = FAMILY_NEEDS
    n_jobs: int | None
    n_predictive_draws: int
    emission_: Any
    sampler_: BaseSampler
    doc_topic_prior_: np.ndarray
    intensity_rate_: float
    _key: np.uint64  # root of all random streams, fixed when fitting begins
    _tokens: FamilyTokens | DirichletTokens
    _estimate: Any  # parameters of the tokens
    _topic_counts: TopicCounts
    _stream: None = None
    _row_lengths: np.ndarray  # of the first rows, for those of new rows, see `distinct_lengths`
    _length_levels: np.ndarray

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
        covariances : ndarray of shape (n_components, n_dims, n_dims), (n_dims, n_dims) or (n_components, n_dims)

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        AttributeError
            If the emission is not Gaussian.
        """
        check_is_fitted(self)
        if "covariances" not in self._tokens.draw_names(self._estimate):
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
        return self._tokens.mix(self._estimate, validate_proportions(X, self._n_features_out, "component"))

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
        scores, held_out, log_scale = self._complete(X)
        score = held_out_score(scores)
        if log_scale is None:
            return score.log_likelihood
        return score.log_likelihood + float((held_out.counts * log_scale[held_out.indices]).sum()) / score.n_tokens

    def score_samples(self, X: MatrixLike) -> np.ndarray:
        """Held-out log likelihood of each row, by completion of rows.

        The proportions of a row are inferred from half of its tokens, and the other half is scored: ``n - n // 2`` of n
        tokens, for "gaussian" by the log density of their vectors. `score` is the sum over rows divided by the number
        of scored tokens. With "gibbs" the probability of a token is averaged over draws, as in `score`.

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
        (sums, _), held_out, log_scale = self._complete(X)
        if log_scale is None:
            return sums
        shape = held_out.n_rows, held_out.n_features
        return sums + sp.csr_array((held_out.counts, held_out.indices, held_out.indptr), shape=shape) @ log_scale

    def sample(
        self, n_samples: int = 1, random_state: RandomStateLike = None
    ) -> tuple[np.ndarray | sp.csr_array | list[np.ndarray], np.ndarray]:
        """Draw rows from the model at the estimate of the components.

        Each row has its own proportions, drawn from their prior ``doc_topic_prior_``, and each of its tokens its own
        component.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, RandomState instance or None, default=None
            Seed.

        Returns
        -------
        X : csr_array or ndarray of shape (n_samples, n_features), or list of ndarray of shape (n_tokens, n_dims)
            Rows, as in `fit`: for "multinomial" and "poisson" sparse counts; for "bernoulli" an array of zeros and ones
            without missing cells. Components of "gaussian" are distributions of vectors and not of words, so there
            each row is an array with the vectors of its tokens, in the order of their components. The number of tokens
            of a row is that of a random row of `fit` or of the first minibatch; for "poisson" it is random.
        proportions : ndarray of shape (n_samples, n_components)
            Proportions of the components in the rows, or for "poisson" intensities: what `transform` estimates.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If `n_samples` is less than 1.
        IncompatibleError
            If the tokens are vectors and a user-defined emission cannot draw them.
        """
        check_is_fitted(self)
        emission, tokens = self.emission_, self._tokens
        family: Any = getattr(tokens, "family", None)
        n_samples = check_scalar(n_samples, "n_samples", Integral, min_val=1)
        if emission.has_vector_tokens:
            self._check_offers(emission, family, [HasNewRows], f"{type(self).__name__}.sample")
        key = root_key(random_state)
        of_rows, of_labels, of_values = (subkey(key, use) for use in (Purpose.SHARES, Purpose.LABELS, Purpose.ROWS))
        if emission.has_missing_tokens:
            proportions = draw_proportions(self.doc_topic_prior_, n_samples, of_rows)
            table = family.token_table(self._estimate)
            values = table.reshape(-1, emission.tokens_of_column, table.shape[1])
            return draw_cells(values, proportions, of_values), proportions
        if emission.has_random_totals:
            proportions = draw_intensities(self.doc_topic_prior_, self.intensity_rate_, n_samples, of_rows)
            totals = draw_totals(proportions, of_labels)
        else:
            proportions = draw_proportions(self.doc_topic_prior_, n_samples, of_rows)
            lengths = draw_lengths(self._row_lengths, self._length_levels, n_samples, subkey(key, Purpose.ROW_SUMS))
            totals = share_tokens(proportions, lengths, of_labels)
        if not emission.has_vector_tokens:
            return draw_words(word_probabilities(tokens, self._estimate), totals, of_values), proportions
        with limit_threads("blas"):  # other numbers of threads round otherwise
            vectors = family.sample(self._estimate, components_of_tokens(totals), of_values)
        return np.split(vectors, np.cumsum(totals.sum(axis=1))[:-1]), proportions

    def _complete(self, X) -> tuple[PerDocument, Counts, np.ndarray | None]:
        """Log likelihoods of a completion of rows, the held-out tokens and the logarithms of their scales."""
        check_is_fitted(self)
        tokens = self._read_again(X)
        check_tokens(tokens)
        words, log_scale = on_one_scale(self._predictive())
        key = root_key(int(subkey(self._key, Purpose.INFERENCE)) % 2**32)
        with Workers(self.n_jobs) as workers:
            observed, held_out = split_tokens(tokens, key, workers)
            scores = complete_halves(pair_draws(words, self.doc_topic_prior_), observed, held_out, workers)
        return scores, held_out, log_scale

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
        kind = self._emission_kind
        if kind.has_vector_tokens or kind.has_missing_tokens:
            raise AttributeError(
                f"A list of topics shows probabilities of words, which emission={self.emission!r} does not have: use "
                "'multinomial' or 'poisson'."
            )
        return True

    def _predictive(self) -> list[ScaledTokens]:
        """Distributions of tokens for held-out scores: evenly spaced draws, or the estimate if there are no draws."""
        posterior = self.__dict__.get("_posterior", {})
        with limit_threads("blas"):
            if not self._draws_topics or "components" not in posterior:
                return [self._tokens.of_estimate(self._estimate)]
            kept = {name: posterior[name][self.best_chain_] for name in self._tokens.draw_names(self._estimate)}
            laws = [
                self._tokens.of_draw({name: draws[i] for name, draws in kept.items()})
                for i in evenly_spaced(range(len(kept["components"])), self.n_predictive_draws)
            ]
            return laws or [self._tokens.of_estimate(self._estimate)]

    def _draw_axes(self) -> tuple[dict[str, list[str]], Any]:
        """Axes of the draws: words, features (if rows have a cell of each), or dimensions of vectors."""
        axes, names = super()._draw_axes()
        if not self.emission_.has_vector_tokens:
            entry = "feature" if self.emission_.has_missing_tokens else "word"
            return {**axes, "components": ["topic", entry]}, names
        shape = ["topic", "dimension", "dimension_bis"]
        drawn = self._tokens.attributes(self._estimate)
        return {**axes, **{name.removesuffix("_"): shape[: value.ndim] for name, value in drawn.items()}}, None

    def _read_again(self, X) -> Counts:
        """Read rows after `fit`, with fractional counts as weights."""
        return self.emission_.read_tokens(self, X, None, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.input_tags.allow_nan = self._emission_kind.has_missing_tokens
        return tags
