"""Draws from the priors of admixtures of directions."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from ...distributions import VonMisesFisher, log_vmf_normalizer
from ...distributions._von_mises_fisher import draw_about
from ...random._keys import Purpose, root_key, subkey
from ...topics.document_densities import density_of, relative_concentrations
from ...topics.proportions import check_doc_topic_prior
from ...utils._threads import limit_threads
from ...utils._typing import RandomStateLike
from ...utils._validation import FIT_OR_GIVE_N_FEATURES
from .._tokens.new_rows import draw_proportions
from .setup import checked_document_concentration


class DrawnTopics(NamedTuple):
    """Topics, and the priors of documents given these."""

    topics: np.ndarray  # (K, V)
    alpha: np.ndarray  # (K,)
    concentration: Any  # a number, or (K,)


class DrawsDirectionsFromPrior:
    """Mixin of admixtures of directions; not public. ``_draw_topics_of_prior`` draws the topics."""

    def _draw_topics_of_prior(self, n_samples: int, n_features: int | None, rng: np.random.Generator) -> DrawnTopics:
        """Topics from the prior; without `n_features` with the hyperparameters of the fit."""
        raise NotImplementedError

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
            Seed.
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
        n_samples = check_scalar(n_samples, "n_samples", Integral, min_val=1)
        if n_features is None:
            check_is_fitted(self, msg=FIT_OR_GIVE_N_FEATURES)
        else:
            n_features = check_scalar(n_features, "n_features", Integral, min_val=2)
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


class DrawsTopicsAboutMean(DrawsDirectionsFromPrior):
    """Mixin of `SphericalAdmixture`, whose topics scatter about a common mean; not public."""

    def _draw_topics_of_prior(self, n_samples: int, n_features: int | None, rng: np.random.Generator) -> DrawnTopics:
        estimator: Any = self
        if n_features is None:
            alpha, mean, concentration = (
                estimator.doc_topic_prior_,
                estimator.mean_direction_,
                estimator.document_concentration_,
            )
            of_topic, of_mean = estimator.topic_concentration_, estimator.mean_concentration_
        else:
            names = "document_concentration", "topic_concentration", "mean_concentration", "mean_direction"
            refuse_learned(estimator, *names)
            mean = np.asarray(estimator.mean_direction, dtype=np.float64)
            if mean.shape != (n_features,) or not np.linalg.norm(mean) > 0:
                raise ValueError(f"mean_direction must have shape ({n_features},) and not be zero.")
            K = estimator.n_components
            alpha = prior_of_proportions(estimator, K)
            concentration = checked_document_concentration(estimator.document_concentration, K)
            of_topic, of_mean = float(estimator.topic_concentration), float(estimator.mean_concentration)
        mu = VonMisesFisher(mean / np.linalg.norm(mean), of_mean).sample(random_state=rng)
        return DrawnTopics(VonMisesFisher(mu, of_topic).sample(len(alpha), random_state=rng), alpha, concentration)


def prior_of_proportions(estimator: Any, n_components: int) -> np.ndarray:
    """Dirichlet parameters of the constructor, (K,)."""
    given = 0.5 if estimator.doc_topic_prior is None else estimator.doc_topic_prior
    return check_doc_topic_prior(np.full(n_components, float(given)) if np.ndim(given) == 0 else given, n_components)


def refuse_learned(estimator: Any, *names: str) -> None:
    """Raise a ValueError if one of these parameters is None or a word, because it then depends on data."""
    for name in names:
        value = getattr(estimator, name)
        if value is None or isinstance(value, str):
            raise ValueError(
                f"The prior depends on the data because {name} is {value!r}: give numbers, or fit the estimator and "
                "omit n_features."
            )
