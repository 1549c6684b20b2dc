"""Initial state of chains of orthonormal topics with an inferred number: the best of short runs.

Reversible jumps add or remove one topic at a time, and the best concentration depends on the number of topics. So the
posterior can have modes at few and at many topics, with less probable numbers between them. Therefore an initial number
is chosen before sampling: by short runs with 1, 2, 3, 4, 6, 8, 11, ... topics, then with numbers between the best of
these and its neighbours. Each run learns its own concentration. The runs are compared by their evidence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ...distributions import log_vmf_normalizer
from ...distributions._bessel import log_density_at_mode
from ...metrics._spherical_held_out import integrate_documents
from ...random._keys import Purpose, subkey
from ...samplers import ColumnGibbs
from ...sparse.dense_directions import AnyDirections
from ...utils._threads import Workers
from .._spherical.model import initialize_topics
from .._spherical.targets import PassSums
from .model import OrthogonalModel, nearest_frame, unit_setup
from .passes import FramePasses

_GROWTH = 1.4  # ratio of successive numbers of topics
_N_FALLS = 3  # successive decreases of the evidence after which the search stops
_N_PASSES = 15  # passes of a short run
_N_DRAWS = 20  # importance draws of a document's proportions


class _FrameModes(FramePasses):
    """Passes that draw the proportions given the topics, then set the topics to their conditional mode."""

    def _move_topics(self, model, state, keys, draws, terms, word_topic) -> tuple[np.ndarray, PassSums, float | None]:
        sums = PassSums(model.n_components)
        sums.add(terms, model.prior(word_topic))
        parameter = self.target_type(model, draws).linear_parameter()
        return model.to_position(nearest_frame(parameter.T))[None], sums, None


class FrameStart(NamedTuple):
    """Result of a short run."""

    topics: np.ndarray  # (K, V), orthonormal rows
    concentration: float  # concentration of the documents
    log_evidence: float  # includes the log prior of the number of topics


def best_start(
    rows: AnyDirections,
    alpha: float,
    concentration: float | None,
    log_prior: np.ndarray,
    n_draws: int,
    key: np.uint64,
    workers: Workers,
) -> FrameStart:
    """Find the number of topics, the topics and the concentration with the highest evidence.

    `concentration` None learns it for each number of topics. `log_prior` has the log prior probability of each number,
    (K_max + 1,), up to a constant. Each document's proportions make `n_draws` transitions in a pass.
    """
    found: dict[int, FrameStart] = {}

    def improve(number: int) -> None:
        """Run with this number and keep the better of this and an earlier run."""
        of_run = subkey(subkey(key, number), int(number in found))
        start = _run(rows, alpha, concentration, number, n_draws, of_run, workers)
        start = start._replace(log_evidence=start.log_evidence + float(log_prior[number]))
        found[number] = max(start, found.get(number, start), key=_evidence)

    for number in _spaced(min(len(log_prior) - 1, len(rows.directed))):
        improve(number)
        if _is_past(list(found.values())):
            break
    numbers = [0]
    while numbers:
        best = max(found, key=lambda number: found[number].log_evidence)
        numbers = _between(best, sorted(found))
        for number in numbers:
            improve(number)
    improve(best)
    return found[best]


def _evidence(start: FrameStart) -> float:
    return start.log_evidence


def _spaced(most: int) -> list[int]:
    """Numbers 1, 2, 3, 4, 6, 8, 11, ... up to `most`, which is included."""
    numbers = [1]
    while numbers[-1] < most:
        numbers.append(min(max(numbers[-1] + 1, round(_GROWTH * numbers[-1])), most))
    return numbers


def _is_past(starts: list[FrameStart]) -> bool:
    """Whether the maximum of the evidence was passed: it exceeds the first, and the last ones are decreasing."""
    evidence = [start.log_evidence for start in starts]
    last = evidence[-_N_FALLS - 1 :]
    return len(last) == _N_FALLS + 1 and max(evidence) > evidence[0] and all(np.diff(last) < 0.0)


def _between(best: int, tried: list[int]) -> list[int]:
    """Midpoints between the best number and its neighbours, if there are numbers between them."""
    place = tried.index(best)
    neighbours = tried[max(place - 1, 0) : place + 2]
    return [(best + other) // 2 for other in neighbours if abs(best - other) > 1]


def _run(
    rows: AnyDirections,
    alpha: float,
    concentration: float | None,
    n_components: int,
    n_draws: int,
    key: np.uint64,
    workers: Workers,
) -> FrameStart:
    """Run some passes from the centres of clusters with this number of topics."""
    is_learned = concentration is None
    clusters = initialize_topics(rows, n_components, subkey(key, Purpose.START))
    kappa = clusters.concentration if concentration is None else concentration
    setup = unit_setup(rows, n_components, alpha, kappa, is_learned)
    model: Any = setup.model(workers, kind=OrthogonalModel)
    passes = _FrameModes(ColumnGibbs(), n_draws, _N_PASSES)
    state = passes.begin(model, key, nearest_frame(clusters.topics))
    total = np.zeros_like(state.statistics.topics)
    for i in range(_N_PASSES):
        state = passes.step(model, state)
        model = passes.adapt(model, state, setup.learned, setup.scaled)
        if i >= _N_PASSES // 2:
            total += state.statistics.topics
    topics = nearest_frame(total)
    return FrameStart(topics, model.concentrations.document, log_evidence(model, topics, key))


def log_evidence(model: OrthogonalModel, topics: np.ndarray, key: np.uint64) -> float:
    r"""Log density of the documents given concentration and number of topics, relative to the uniform distribution.

    Chib's identity :math:`p(v) = p(v \mid \phi) p(\phi) K! / p(\phi \mid v)` holds at any topics, best at those of high
    density. Proportions are integrated out by importance sampling; the posterior is the matrix von Mises-Fisher
    distribution given mean proportions, with a normaliser from single columns on spheres of decreasing dimension and a
    correction for rotations of pairs. It is narrower than the posterior: the evidence for many topics is slightly low.
    """
    rows, (n_components, n_features) = model.rows, topics.shape
    kappa, alpha = model.concentrations.document, np.full(n_components, model.alpha[0])
    documents = integrate_documents(
        rows, np.ascontiguousarray(topics), alpha, kappa, subkey(key, Purpose.INFERENCE), _N_DRAWS, model.workers
    )
    directed = model.directed
    log_likelihood = documents.log_density[directed].sum() - len(directed) * log_vmf_normalizer(n_features, 0.0)

    theta = documents.proportions / np.linalg.norm(documents.proportions, axis=1, keepdims=True)
    parameter = kappa * rows.weighted_sums(directed)(np.ascontiguousarray(theta[directed]), model.workers)
    singular_values = np.linalg.svd(parameter, compute_uv=False)  # in decreasing order
    log_posterior = np.einsum("vk,kv->", parameter, topics) - singular_values.sum()  # relative to the mode
    for i, value in enumerate(singular_values):
        dim = n_features - i
        if dim == 1:  # the sphere is two points
            log_posterior += np.log(2.0) - np.logaddexp(0.0, -2.0 * value)
            continue
        log_posterior += log_density_at_mode(dim, value) - log_density_at_mode(dim, 0.0)
        log_posterior += 0.5 * np.log1p(singular_values[i + 1 :] / value).sum() if value > 0.0 else 0.0
    return float(log_likelihood + gammaln(n_components + 1.0) - log_posterior)
