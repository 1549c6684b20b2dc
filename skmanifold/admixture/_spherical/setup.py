"""Validated input of a fit of a spherical admixture: documents, priors, concentrations and the initial metric."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from ...random._keys import Purpose, subkey
from ...sparse.directions import AnyDirections
from ...topics.proportions import check_doc_topic_prior
from ...utils._conditions import Array, Length, nothing
from ...utils._threads import Workers
from ...utils._validation import of_columns
from .concentrations import MOST_CONCENTRATED, Concentrations, learn_concentration
from .documents import InitialTopics, initialize_topics
from .model import SphericalModel
from .passes import initially_tuned

PRIOR = Array("float64", "n_components", low=1e-50, high=1e50)  # so that squares neither underflow nor overflow
RADII = Array("float64", "n_components", above=0, high=1e100)
NOISE = Array("float64", "n_components", low=0, high=1e100)


class Setup(NamedTuple):
    """Documents, priors and initial values."""

    rows: Annotated[Any, nothing]  # Directions; None in the setup that is kept between minibatches
    alpha: Annotated[np.ndarray, PRIOR]
    mean_direction: Annotated[np.ndarray, Array("float64", "n_features", unit=0)]  # a unit vector
    concentrations: Concentrations  # initial values
    learned: Annotated[tuple[bool, ...], Length(3)]  # which concentrations are learned
    radii: Annotated[np.ndarray, RADII]  # initial values; (1,) for orthonormal topics
    noise: Annotated[np.ndarray, NOISE]  # initial values
    scaled: bool  # whether the radii are learned

    def without_rows(self) -> Setup:
        """A copy without the documents."""
        return self._replace(rows=None)

    def tuned(self, model: SphericalModel, start: InitialTopics, key: np.uint64, batch_size: int | None) -> Setup:
        """The setup of a model with initial noise and radii for minibatches of this size (None: all rows)."""
        topics, of_metric = model.nearest(start.topics), subkey(key, Purpose.METRIC)
        model = initially_tuned(model, topics, of_metric, self.scaled, batch_size)
        return self._replace(radii=model.radii, noise=model.noise)


def check_enough(rows: AnyDirections, n_components: int) -> None:
    """Raise a ValueError unless there are as many documents as topics."""
    n = len(rows.directed)
    if n == 0:
        raise ValueError("All rows of X are zeros, which have no direction.")
    if n < n_components:
        raise ValueError(
            f"n_components={n_components} topics need as many documents, but X (n_samples={rows.n_rows}) has {n} that "
            "are not all zeros."
        )


def without_metric(estimator: Any, rows: AnyDirections, key: np.uint64) -> tuple[Setup, InitialTopics]:
    """Check the parameters; return the setup without noise and learned radii, and the initial clusters."""
    K = estimator.n_components
    check_enough(rows, K)
    alpha = prior_of_proportions(estimator, K)
    mean_direction = _unit_mean(of_columns(estimator, "mean_direction"), rows)
    document = checked_document_concentration(estimator.document_concentration, K)
    others = estimator.topic_concentration, estimator.mean_concentration
    given = (document, *(value if isinstance(value, str) else float(value) for value in others))
    learned = tuple(isinstance(value, str) for value in given)
    scale, scaled = estimator.topic_scale, isinstance(estimator.topic_scale, str)
    radii = np.ones(K) if scaled else _for_each_topic("topic_scale", "'auto'", scale, K, np.finfo(float).max)
    start = initialize_topics(rows, K, subkey(key, Purpose.START))
    concentrations = _initial_concentrations(given, rows.n_features, start, mean_direction)
    return Setup(rows, alpha, mean_direction, concentrations, learned, radii, np.zeros(K), scaled), start


def set_up(
    estimator: Any, rows: AnyDirections, key: np.uint64, batch_size: int | None, total_samples: int | None = None
) -> Setup:
    """Check the parameters and compute the initial noise and radii for minibatches of this size (None: all rows)."""
    setup, start = without_metric(estimator, rows, key)
    with Workers(estimator.n_jobs) as workers:
        return setup.tuned(SphericalModel(setup, workers, total_samples), start, key, batch_size)


def prior_of_proportions(estimator: Any, n_components: int) -> np.ndarray:
    """Dirichlet parameters of the constructor, (K,)."""
    given = 0.5 if estimator.doc_topic_prior is None else estimator.doc_topic_prior
    return check_doc_topic_prior(np.full(n_components, float(given)) if np.ndim(given) == 0 else given, n_components)


def _unit_mean(given: Any, rows: AnyDirections) -> np.ndarray:
    """The given mean direction, or the direction of the documents' mean, as a unit vector, (V,)."""
    if given is None:
        mean = rows.moments()[0]
        wrong = "The mean of the documents is zero and has no direction: set mean_direction."
    else:
        mean = np.array(given, dtype=np.float64)
        wrong = "mean_direction must not be zero."
        if mean.shape != (rows.n_features,) or not np.isfinite(mean).all():
            raise ValueError(
                f"mean_direction must be {rows.n_features} finite numbers, one per feature; got shape {mean.shape}."
            )
    largest = np.abs(mean).max()
    if not largest > 0:
        raise ValueError(wrong)
    mean = mean / largest
    return mean / np.sqrt(mean @ mean)


def checked_document_concentration(given: Any, n_components: int) -> Any:
    """The given concentration of the documents: a word, a number, or an array with one for each topic."""
    if isinstance(given, str):
        return given
    if np.ndim(given) == 0:
        return float(given)
    return _for_each_topic("document_concentration", "'auto', 'per_topic'", given, n_components, MOST_CONCENTRATED)


def _for_each_topic(name: str, words: str, given: Any, n_components: int, most: float) -> np.ndarray:
    """A number for each topic, (K,), from one for each or one for all."""
    values = np.array(given, dtype=np.float64)
    if values.shape not in ((), (n_components,)) or not np.all((values > 0.0) & (values <= most)):
        raise ValueError(
            f"{name} must be {words}, a positive number or one for each topic ({n_components}); got {given!r}."
        )
    return np.array(np.broadcast_to(values, n_components))


def _initial_concentrations(given: tuple, V: int, start: InitialTopics, mean_direction: np.ndarray) -> Concentrations:
    """The given concentrations, and estimates from the initial clusters for those that are learned."""
    spread = float(np.mean(start.topics @ mean_direction))
    topic = learn_concentration(V, spread, len(start.topics))
    guesses = topic, learn_concentration(V, 1.0, 1)
    others = (guess if isinstance(value, str) else value for value, guess in zip(given[1:], guesses, strict=True))
    return Concentrations(initial_document_concentration(given[0], start), *others)


def initial_document_concentration(given: Any, start: InitialTopics) -> Any:
    """The given concentration of the documents, or the estimate from initial clusters, for each topic or for all."""
    if not isinstance(given, str):
        return given
    return np.full(len(start.topics), start.concentration) if given == "per_topic" else start.concentration
