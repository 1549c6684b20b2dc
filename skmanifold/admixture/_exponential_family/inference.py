"""Inference for rows of tokens of an exponential family."""

from __future__ import annotations

from numbers import Integral
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from ...emissions._abilities import HasDraw, HasNewRows
from ...emissions._base import BaseEmission
from ...emissions._estimator import WithEmission
from ...emissions._linear_rows import LENGTHS, LEVELS, draw_lengths
from ...emissions._protocols import HasPriorFamily, TokenEmission
from ...emissions._registry import TOKEN_EMISSIONS, TOKEN_FAMILIES
from ...inference._draw_store import draws_of, evenly_spaced
from ...random._keys import Purpose, root_key, subkey
from ...sparse.counts import Counts, no_rows
from ...topics.topic_word import TopicWord
from ...utils._conditions import Array, Integer, Names, Real, Sizes, placed
from ...utils._declared import Lacking, Saved, check
from ...utils._typing import RandomStateLike
from .._lda.dirichlet_mle import doc_topic_prior_of
from .._posterior.inference import TokenInference
from .._posterior.uncertainty import TopicUncertainty
from .._tokens.new_rows import DrawsTokensFromPrior, PriorOfRows, draw_rows
from .._tokens.topic_counts import TopicCounts, TopicPrior
from .model import FAMILY_NEEDS, FamilyTokens, tokens_of


def _counts(value: Any, where: str, sizes: Sizes) -> None:
    """Check counts of tokens; there is one token per column, or two."""
    if isinstance(value, TopicCounts) and isinstance(value.indptr, np.ndarray):
        sizes["n_features"] = len(value.indptr) - 1
    check(TopicCounts, value, where, sizes)


_DRAWN = draws_of(
    "log_likelihood",
    topic_weights=Array("float64", "n_chains n_draws n_components", low=0, sums_to_one=-1),
    components=Array("float32 float64", "n_chains n_component_draws n_components _"),
    doc_topic_counts=Array("int64", "n_chains n_component_draws _ n_components", low=0),
    covariances=Annotated[np.ndarray, Array("float64", "n_chains n_component_draws n_components _ _")]
    | Annotated[np.ndarray, Array("float64", "n_chains n_component_draws n_components _", above=0)],
)


class FamilyAdmixtureInference(DrawsTokensFromPrior, WithEmission, TokenInference, TopicUncertainty):
    """Methods of an estimator with fitted components of tokens of an `emission`; not public."""

    _emissions = TOKEN_EMISSIONS
    _families = TOKEN_FAMILIES
    _emission_protocol = TokenEmission
    _family_needs = FAMILY_NEEDS
    _sparse_counts = "token_counts_"
    _purpose_of_components = Purpose.COMPONENTS
    n_features_in_: Annotated[int, Integer(1, size="columns")]
    feature_names_in_: Lacking[Annotated[np.ndarray, Names("columns")]]
    _posterior: Lacking[Annotated[dict[str, np.ndarray], _DRAWN]]
    _topic_counts: Annotated[Any, _counts]
    _tokens: Saved[FamilyTokens | TopicPrior]
    _estimate: Saved[TopicWord | Any]  # of a family, which checks it
    emission_: Saved[BaseEmission]
    n_batch_iter_: Saved[int]
    _n_counted_rows: Annotated[int, Integer(low=1)]  # number of rows in _topic_counts
    # Of the first rows, for those of new rows, see `distinct_lengths`
    _row_lengths: Lacking[Annotated[np.ndarray, LENGTHS]]
    _length_levels: Lacking[Annotated[np.ndarray, LEVELS]]
    intensity_rate_: Lacking[Annotated[float, Real(above=0)]]

    def _disagreement(self, sizes: Sizes) -> str | None:
        tokens, estimate = self._tokens, self._estimate
        n_tokens = len(self._topic_counts.indptr) - 1
        if n_tokens != self.emission_.tokens_of_column * sizes["columns"]:
            return "has counts of other tokens than its columns"
        emission = self.emission_
        has_lengths = not (emission.has_missing_tokens or emission.has_random_totals)
        if has_lengths and "_row_lengths" not in vars(self):
            return "lacks the numbers of tokens of its rows"
        if isinstance(tokens, TopicPrior):
            if not isinstance(estimate, TopicWord):
                return "has an estimate of another emission"
            draws = vars(self).get("_posterior", {}).get("components", np.empty((0, 1)))
            if draws.size and (draws.min() < 0 or not np.allclose(draws.sum(axis=-1), 1.0, rtol=0.0, atol=1e-3)):
                return "has draws of components that do not sum to one"
            return super()._disagreement(sizes)
        if isinstance(estimate, TopicWord):
            return "has an estimate of another emission"
        if problem := emission.disagrees(tokens.family, self):
            return problem
        vectors = tokens.family.word_vectors
        if emission.has_vector_tokens and (vectors is None or len(vectors) != n_tokens):
            return "lacks the vectors of its tokens"
        with placed("_estimate"):
            tokens.family.check_parameters(estimate)
        return self._draws_disagree() or super()._disagreement(sizes)

    def _draws_disagree(self) -> str | None:
        posterior = vars(self).get("_posterior", {})
        if "components" not in posterior or not posterior["components"].size:
            return None
        found = self._tokens.attributes(self._estimate)
        for name, value in found.items():
            draws = posterior.get(name.removesuffix("_"))
            if draws is None or draws.shape[2:] != value.shape or draws.shape[:2] != posterior["components"].shape[:2]:
                return f"has no draws of its {name.removesuffix('_')}"
        covariances = posterior.get("covariances")
        if covariances is not None and covariances.ndim == 5 and np.linalg.eigvalsh(covariances).min() <= 0.0:
            return "has draws of covariances that are singular"
        return None

    @property
    def covariances_(self) -> np.ndarray:
        """Covariances or variances of Gaussian components.

        Returns
        -------
        covariances : ndarray of shape (n_components, n_dims, n_dims), (n_dims, n_dims) or (n_components, n_dims)

        Raises
        ------
        AttributeError
            If the emission is not Gaussian.
        """
        check_is_fitted(self)
        found = {} if isinstance(self._tokens, TopicPrior) else self._tokens.attributes(self._parameters)
        if "covariances_" not in found:
            raise AttributeError(f"Components of {self.emission_!r} have no covariances.")
        return found["covariances_"]

    @property
    def token_counts_(self) -> sp.csr_array:
        """Expected number of each token in each component.

        Returns
        -------
        counts : csr_array of shape (n_components, n_tokens)
        """
        return self._expected_counts()

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
        ValueError
            If `n_samples` is less than 1.
        IncompatibleError
            If the tokens are vectors and a user-defined emission cannot draw them.
        """
        check_is_fitted(self)
        n_samples = check_scalar(n_samples, "n_samples", Integral, min_val=1)
        prior, key = self._prior_of_fit(), root_key(random_state)
        if prior.emission.has_vector_tokens:
            self._check_offers(prior.emission, prior.tokens.family, [HasNewRows], f"{type(self).__name__}.sample")
        lengths = np.zeros(n_samples, np.int64)
        if not (prior.emission.has_missing_tokens or prior.emission.has_random_totals):
            lengths = draw_lengths(self._row_lengths, self._length_levels, n_samples, subkey(key, Purpose.ROW_SUMS))
        rows = draw_rows(prior, self._estimate, lengths, key)
        return rows.X, rows.proportions

    def _prior_of_fit(self) -> PriorOfRows:
        rate = getattr(self, "intensity_rate_", None)
        return PriorOfRows(self.emission_, self._tokens, self.doc_topic_prior_, rate)

    def _prior_of_rows(self, n_features: int | None) -> PriorOfRows:
        estimator: Any = self
        if n_features is None:
            prior = self._prior_of_fit()
        else:
            prior = _given_prior(estimator, WithEmission._resolve_emission(self), n_features)
        if isinstance(prior.tokens, FamilyTokens):
            needs = [HasDraw, HasNewRows] if prior.emission.has_vector_tokens else [HasDraw]
            self._check_offers(prior.emission, prior.tokens.family, needs, f"{type(self).__name__}.sample_prior")
        return prior

    def _infer_counts(self, counts: Counts, average_draws: bool) -> np.ndarray:
        proportions = super()._infer_counts(counts, average_draws)
        if self.emission_.has_random_totals:
            totals = counts.row_sums() + self.doc_topic_prior_.sum()
            proportions *= (totals / (self.intensity_rate_ + 1.0))[:, np.newaxis]
        return proportions

    def _corpora_of(self, X: Any) -> list:
        """None: the emission reads X."""
        return []

    def _read_again(self, X: Any) -> Counts:
        """Read rows after `fit`, with fractional counts as weights."""
        return self.emission_.read_tokens(self, X, None, reset=False)

    def _kept_draws(self) -> list[dict[str, np.ndarray]]:
        posterior = self.__dict__.get("_posterior", {})
        if not self._draws_topics or "components" not in posterior:
            return []
        others = {self.sampler_.log_density_name, "topic_weights", "doc_topic_counts"}
        kept = {name: draws[self.best_chain_] for name, draws in posterior.items() if name not in others}
        chosen = evenly_spaced(range(len(kept["components"])), self.n_predictive_draws)
        return [{name: draws[i] for name, draws in kept.items()} for i in chosen]

    def _has_probabilities(self) -> bool:
        if self._emission_kind.has_vector_tokens:
            raise AttributeError(
                f"emission={self.emission!r} gives tokens densities, which have no perplexity: use score."
            )
        return True

    def _has_words(self) -> bool:
        kind = self._emission_kind
        if kind.has_vector_tokens or kind.has_missing_tokens:
            raise AttributeError(
                f"A list of topics shows probabilities of words, which emission={self.emission!r} does not have: use "
                "'multinomial' or 'poisson'."
            )
        return True

    def _draw_axes(self) -> tuple[dict[str, list[str]], Any]:
        """Axes of the draws: words, features (if rows have a cell of each), or dimensions of vectors."""
        axes, names = super()._draw_axes()
        if not self.emission_.has_vector_tokens:
            entry = "feature" if self.emission_.has_missing_tokens else "word"
            return {**axes, "components": ["topic", entry]}, names
        shape = ["topic", "dimension", "dimension_bis"]
        drawn = self._tokens.attributes(self._estimate)
        return {**axes, **{name.removesuffix("_"): shape[: value.ndim] for name, value in drawn.items()}}, None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._emission_kind.has_missing_tokens
        return tags


def _given_prior(estimator: Any, emission: Any, n_features: int) -> PriorOfRows:
    """The prior of the constructor, whose hyperparameters must not depend on data."""
    rate = estimator.intensity_rate if emission.has_random_totals else None
    if emission.has_random_totals and rate is None:
        raise ValueError(
            "The prior depends on the data because intensity_rate is None: set it, or fit the estimator and omit "
            "n_features."
        )
    K, alpha = estimator.n_components, doc_topic_prior_of(estimator)
    if emission.has_vector_tokens:
        caller = f"{type(estimator).__name__}.sample_prior with n_features"
        estimator._check_offers(emission, emission, [HasPriorFamily], caller, "; or fit first")
        return PriorOfRows(emission, FamilyTokens(emission.prior_family(n_features, K, 1), 1), alpha)
    n_tokens = n_features * emission.tokens_of_column
    return PriorOfRows(emission, tokens_of(emission.bind_tokens(no_rows(n_tokens), K), n_tokens), alpha, rate)
