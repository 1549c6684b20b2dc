"""Methods of fitted spherical topics: proportions, predictions, held-out scores, and draws from the prior."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...distributions import log_vmf_normalizer
from ...distributions._von_mises_fisher import draw_about
from ...metrics._spherical_held_out import integrate_documents
from ...random._keys import Purpose, root_key, subkey
from ...samplers import BaseSampler
from ...sparse.directions import AnyDirections, read_directions
from ...topics.document_densities import density_of, relative_concentrations
from ...topics.top_words import TopicWords, column_names, top_words_by_sign
from ...utils._conditions import Array, Integer, Real
from ...utils._declared import Saved
from ...utils._threads import Workers, limit_threads
from ...utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike
from ...utils._validation import check_prior_sizes, validate_proportions
from .._posterior.topic_frame import TopicFrame
from .._tokens.new_rows import draw_proportions
from .concentrations import MOST_CONCENTRATED
from .setup import PRIOR


class DrawnTopics(NamedTuple):
    """Topics, and the priors of documents given these."""

    topics: np.ndarray  # (K, V)
    alpha: np.ndarray  # (K,)
    concentration: Any  # a number, or (K,)


class SphericalInference(TopicFrame):
    """Methods of an estimator with fitted spherical topics; not public.

    It has `n_jobs`, `n_predictive_draws`, `n_importance_draws`, and when fitted the other attributes declared here.
    """

    n_jobs: int | None
    n_predictive_draws: int
    n_importance_draws: int
    sampler_: BaseSampler
    n_features_in_: Annotated[int, Integer(2, size="n_features")]
    doc_topic_prior_: Annotated[np.ndarray, PRIOR]
    components_: Annotated[np.ndarray, Array("float64", "n_components n_features", unit=1)]
    resultant_lengths_: Annotated[np.ndarray, Array("float64", "n_components", low=0, high=1 + 1e-6)]
    document_concentration_: Saved[
        Annotated[np.ndarray, Array("float64", "n_components", above=0, high=MOST_CONCENTRATED)]
        | Annotated[float, Real(low=0, high=MOST_CONCENTRATED)]
    ]
    best_chain_: Annotated[int, Integer(below="n_chains")]
    _predictive_draws: Callable[[int], list[np.ndarray]]  # of `TopicUncertainty`
    _labelled_draws: Callable[[int], list[np.ndarray]]
    _key: Saved[np.uint64]  # root of all random streams, fixed when fitting begins
    _posterior: dict[str, np.ndarray]  # of a fit
    _stream: Any  # SphericalStream or FactorStream

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
        ValueError
            If X has values that are not finite, or another number of features than in `fit`.
        """
        check_is_fitted(self)
        rows = read_directions(self, X, reset=False)
        topics = self._labelled_draws(self.n_predictive_draws) if average_draws else []
        topics = topics or [self.components_]
        proportions = np.zeros((rows.n_rows, self._n_features_out))
        for of_draw in self._integrate(rows, [[drawn] for drawn in topics]):
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
        draws of the topics. Importance draws are divided among those that make a document probable; of the others a
        few are chosen at random, in proportion to approximate densities.

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
        ValueError
            If X has values that are not finite, or another number of features than in `fit`.
        """
        check_is_fitted(self)
        rows = read_directions(self, X, reset=False)
        topics = self._predictive_draws(self.n_predictive_draws) or [self.components_]  # if there are no draws
        log_density, directed = np.full(rows.n_rows, np.nan), rows.directed
        by_number: dict[int, list[np.ndarray]] = {}
        for drawn in topics:
            by_number.setdefault(len(drawn), []).append(drawn)
        sums = [
            found.log_density[directed] + math.log(len(group))
            for found, group in zip(self._integrate(rows, by_number.values()), by_number.values(), strict=True)
        ]
        means = np.logaddexp.reduce(sums, axis=0) - math.log(len(topics))
        log_density[directed] = means - log_vmf_normalizer(rows.n_features, 0.0)
        return log_density

    def score(self, X: MatrixLike, y: Ignored = None) -> float:
        """Mean of `score_samples` over the rows that are not zero; higher is better.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Documents; rows of any length, with entries of any sign.
        y : Ignored

        Returns
        -------
        score : float
            In nats per document.

        Raises
        ------
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

    def sample_prior(
        self,
        n_samples: int = 1,
        n_features: int | None = None,
        *,
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
            Number of features, with the hyperparameters of the constructor, which then may not depend on data. None
            means a fitted estimator: its features and the hyperparameters of the fit.
        random_state : int, RandomState instance or None, default=None
        return_parameters : bool, default=False
            Whether to return the parameters too.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Documents, of unit length.
        parameters : dict of str to ndarray
            Only if `return_parameters` is True: ``"components"``, ``"topic_weights"``, the number of topics as
            ``"n_components"`` and the log likelihood of X as ``"log_likelihood"``, with shapes as in ``posterior_``;
            and ``"doc_topic"`` of shape (n_samples, n_components), the proportions.

        Raises
        ------
        ValueError
            If a number is not valid, or a hyperparameter that depends on data is not given.
        NotFittedError
            If `n_features` is None and the estimator is not fitted.
        """
        n_samples, n_features = check_prior_sizes(self, n_samples, n_features, least=2)
        key = root_key(random_state)
        rng = np.random.default_rng(int(subkey(key, Purpose.PRIOR)))
        topics, alpha, concentration = self._draw_topics_of_prior(n_samples, n_features, rng)
        proportions = draw_proportions(alpha, n_samples, subkey(key, Purpose.SHARES))
        density = density_of(concentration, topics.shape[1])
        concentrations = density.reference * relative_concentrations(density, proportions)
        with limit_threads("blas"):
            means = proportions @ topics
            X = draw_about(means.copy(), concentrations, rng)
        if not return_parameters:
            return X
        cosines = np.einsum("dv,dv->d", X, means) / np.linalg.norm(means, axis=1)
        of_uniform = log_vmf_normalizer(topics.shape[1], 0.0)
        log_densities = log_vmf_normalizer(topics.shape[1], concentrations) - of_uniform + concentrations * cosines
        return X, {
            "components": topics,
            "topic_weights": proportions.mean(axis=0),
            "n_components": np.array(len(topics)),
            "doc_topic": proportions,
            "log_likelihood": np.array(log_densities.sum()),
        }

    def _draw_topics_of_prior(self, n_samples: int, n_features: int | None, rng: np.random.Generator) -> DrawnTopics:
        """Topics from the prior; without `n_features` with the hyperparameters of the fit."""
        raise NotImplementedError

    def _integrate(self, rows: AnyDirections, groups: Iterable[list[np.ndarray]]) -> Iterator[Any]:
        """Densities and proportions of documents, for groups of draws of as many topics."""
        key = subkey(self._key, Purpose.INFERENCE)
        with Workers(self.n_jobs) as workers:
            for i, group in enumerate(groups):
                # Draws of another number of topics have the same parameter for each topic.
                alpha, kappa = np.resize(self.doc_topic_prior_, len(group[0])), self.document_concentration_
                yield integrate_documents(rows, group, alpha, kappa, subkey(key, i), self.n_importance_draws, workers)


def refuse_learned(estimator: Any, *names: str) -> None:
    """Raise a ValueError if one of these parameters is None or a word, because it then depends on data."""
    for name in names:
        value = getattr(estimator, name)
        if value is None or isinstance(value, str):
            raise ValueError(
                f"The prior depends on the data because {name} is {value!r}: give numbers, or fit the estimator and "
                "omit n_features."
            )
