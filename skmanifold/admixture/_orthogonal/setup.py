"""Validated input of a fit of orthonormal topics: documents, priors, and the initial state of the chains."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...models import HasLinearLogDensity
from ...random._keys import Purpose, subkey
from ...samplers import BaseSampler
from ...sparse.dense_directions import AnyDirections
from ...utils._threads import Workers
from .._spherical.adaptation import initially_tuned
from .._spherical.initial_topics import initialize_topics
from .._spherical.setup import (
    check_enough,
    checked_document_concentration,
    has_topic_concentrations,
    initial_document_concentration,
)
from .initial_topics import FrameStart, best_start
from .model import OrthogonalModel, nearest_frame

_MOST = 100  # default limit of an inferred number of topics


class OrthogonalSetup(NamedTuple):
    """Documents, priors and initial values."""

    rows: AnyDirections
    alpha: float
    n_components: int  # initial number of topics
    log_prior: np.ndarray | None  # log prior of the number of topics, (K_max + 1,); None if the number is given
    concentration: Any  # initial value; (K,) if each topic has its own
    is_learned: bool  # whether the concentration is learned
    radii: np.ndarray  # (1,), initial value
    noise: np.ndarray  # (K,), initial values
    start: FrameStart | None = None  # initial state of the first chain; None uses the centres of clusters

    @property
    def n_most(self) -> int:
        """Largest possible number of topics."""
        return self.n_components if self.log_prior is None else len(self.log_prior) - 1

    @property
    def draw_bytes(self) -> int:
        """Largest memory of one draw of the topics, in bytes."""
        return 8 * self.n_most * self.rows.n_features

    def model(self, workers: Workers) -> OrthogonalModel:
        """The posterior of the topics."""
        alpha = np.full(self.n_components, self.alpha)
        return OrthogonalModel(self.rows, alpha, self.concentration, self.radii, self.noise, workers)


def samples_frames(sampler: BaseSampler) -> bool:
    """Whether a sampler redraws the topics given the proportions of all documents, from a matrix von Mises-Fisher."""
    return HasLinearLogDensity in sampler.requires


def set_up(
    estimator: Any, sampler: BaseSampler, rows: AnyDirections, key: np.uint64, batch_size: int | None
) -> OrthogonalSetup:
    """Check the parameters and choose initial values, with a metric if the sampler uses minibatches."""
    alpha = 0.5 if estimator.doc_topic_prior is None else float(estimator.doc_topic_prior)
    given = estimator.document_concentration
    is_learned = isinstance(given, str)
    if estimator.n_components is None:
        return _set_up_unknown(estimator, sampler, rows, alpha, is_learned, key)
    n_components = _checked_number(estimator, rows)
    given = checked_document_concentration(given, n_components)
    start = initialize_topics(rows, n_components, subkey(key, Purpose.START))
    concentration = initial_document_concentration(given, start)
    setup = OrthogonalSetup(
        rows, alpha, n_components, None, concentration, is_learned, np.ones(1), np.zeros(n_components)
    )
    if samples_frames(sampler):
        return setup
    with Workers(estimator.n_jobs) as workers:
        topics, of_metric = nearest_frame(start.topics), subkey(key, Purpose.METRIC)
        model = initially_tuned(setup.model(workers), topics, of_metric, scaled=True, batch_size=batch_size)
    return setup._replace(radii=model.radii, noise=model.noise)


def _set_up_unknown(
    estimator: Any, sampler: BaseSampler, rows: AnyDirections, alpha: float, is_learned: bool, key: np.uint64
) -> OrthogonalSetup:
    """Choose the initial values by short runs with several numbers of topics, if the number is to be inferred."""
    log_prior = _log_prior_of_number(estimator, sampler, rows)
    given: Any = estimator.document_concentration
    if has_topic_concentrations(given):
        raise ValueError(
            "n_components=None needs one concentration of all documents, document_concentration='auto' or a number, "
            "because births and deaths of topics change the number of concentrations."
        )
    with Workers(estimator.n_jobs) as workers:
        of_start = subkey(key, Purpose.START)
        kappa = None if is_learned else float(given)
        start = best_start(rows, alpha, kappa, log_prior, estimator.n_doc_samples, of_start, workers)
    n_components = len(start.topics)
    metric = np.ones(1), np.zeros(n_components)
    return OrthogonalSetup(rows, alpha, n_components, log_prior, start.concentration, is_learned, *metric, start)


def _checked_number(estimator: Any, rows: AnyDirections) -> int:
    """Check the given number of topics."""
    V, given, limit = rows.n_features, estimator.n_components, estimator.max_components
    if limit is not None and given > limit:
        raise ValueError(
            f"n_components={given} exceeds max_components={limit}: set only one of them, or increase max_components."
        )
    check_enough(rows, given)
    if given > V:
        raise ValueError(f"n_components={given} orthonormal topics need as many features, but X has {V}.")
    return int(given)


def _log_prior_of_number(estimator: Any, sampler: BaseSampler, rows: AnyDirections) -> np.ndarray:
    """Log prior of the number of topics, for a number that is inferred."""
    if not samples_frames(sampler):
        raise ValueError(
            f"n_components=None needs sampler='gibbs': {type(sampler).__name__} cannot change the number of topics."
        )
    check_enough(rows, 1)
    most = largest_number(estimator, len(rows.directed), rows.n_features)
    log_prior = -float(estimator.n_components_penalty) * np.arange(most + 1.0)
    log_prior[0] = -np.inf  # at least one topic
    return log_prior


def largest_number(estimator: Any, n_rows: int, n_features: int) -> int:
    """The largest number of topics, for a number that is inferred."""
    given = estimator.max_components
    return min(n_features, n_rows, _MOST) if given is None else min(n_features, given)
