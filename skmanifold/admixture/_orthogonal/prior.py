"""Draws from the prior of orthonormal topics."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...manifolds import Stiefel
from .._spherical.prior import DrawnTopics, DrawsDirectionsFromPrior, prior_of_proportions, refuse_learned
from .._spherical.setup import checked_document_concentration
from .setup import largest_number


class DrawsFramesFromPrior(DrawsDirectionsFromPrior):
    """Mixin of `OrthogonalSphericalAdmixture`; not public."""

    def _draw_topics_of_prior(self, n_samples: int, n_features: int | None, rng: np.random.Generator) -> DrawnTopics:
        estimator: Any = self
        if n_features is None:
            n_features, given = estimator.n_features_in_, estimator.document_concentration_
        else:
            refuse_learned(estimator, "document_concentration")
            given = estimator.document_concentration
        number = estimator.n_components
        if number is None:
            numbers = np.arange(1, largest_number(estimator, n_samples, n_features) + 1)
            log_prior = -float(estimator.n_components_penalty) * numbers
            weights = np.exp(log_prior - log_prior.max())
            number = int(rng.choice(numbers, p=weights / weights.sum()))
        elif number > n_features:
            raise ValueError(f"n_components={number} orthonormal topics need as many features, not {n_features}.")
        concentration = checked_document_concentration(given, number)
        topics = np.ascontiguousarray(Stiefel(n_features, number).random_point(rng).T)
        return DrawnTopics(topics, prior_of_proportions(estimator, number), concentration)
