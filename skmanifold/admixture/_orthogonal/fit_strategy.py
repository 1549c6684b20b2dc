"""How the orthogonal admixture is fitted: by sweeps over all documents, or by minibatches."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln
from sklearn.exceptions import ConvergenceWarning

from ...base import Run, best_chain
from ...distributions import log_vmf_normalizer
from ...distributions._bessel import log_peak
from ...distributions._matrix_von_mises_fisher import nearest_frame
from ...inference._chains import Chain
from ...inference._convergence import warn_temperature
from ...metrics._spherical_held_out import integrate_documents
from ...models import HasLinearLogDensity
from ...random._keys import Purpose, subkey
from ...samplers import BaseSampler, ColumnGibbs
from ...sparse.directions import AnyDirections, read_directions
from ...utils._threads import Workers
from .._spherical.documents import initialize_topics
from .._spherical.fit_strategies import DrawFit, mean_topics
from .._spherical.passes import SphericalMinibatchPasses
from .._spherical.setup import (
    Setup,
    check_enough,
    checked_document_concentration,
    initial_document_concentration,
)
from .._spherical.targets import PassSums
from .passes import FramePasses, OrthogonalModel, add_by_number, as_sums, unit_setup
from .uncertainty import matched_shares

# Reversible jumps add or remove one topic at a time, and the best concentration depends on the number of topics. So the
# posterior can have modes at few and at many topics, with less probable numbers between them. Therefore an initial
# number is chosen before sampling: by short runs with 1, 2, 3, 4, 6, 8, 11, ... topics, then with numbers between the
# best of these and its neighbours. Each run learns its own concentration. The runs are compared by their evidence.

_GROWTH = 1.4  # ratio of successive numbers of topics
_N_FALLS = 3  # successive decreases of the evidence after which the search stops
_N_PASSES = 15  # passes of a short run
_N_DRAWS = 20  # importance draws of a document's proportions


class _FrameModes(FramePasses):
    """Passes that draw the proportions given the topics, then set the topics to their conditional mode."""

    def _move_topics(self, model, state, keys, draws, before) -> tuple[np.ndarray, PassSums, float | None]:
        parameter = self.target_type(model, draws).linear_parameter()
        return model.to_position(nearest_frame(parameter.T))[None], before, None


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
        clusters = initialize_topics(rows, number, subkey(of_run, Purpose.START))
        kappa = clusters.concentration if concentration is None else concentration
        setup = unit_setup(rows, number, alpha, kappa, concentration is None)
        start = _run(setup, clusters.topics, n_draws, of_run, workers)
        start = start._replace(log_evidence=start.log_evidence + float(log_prior[number]))
        found[number] = max(start, found.get(number, start), key=lambda run: run.log_evidence)

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


def _run(setup: Setup, topics: np.ndarray, n_draws: int, key: np.uint64, workers: Workers) -> FrameStart:
    """Run some passes from the orthonormal topics nearest to these."""
    model: Any = OrthogonalModel(setup, workers)
    passes = _FrameModes(ColumnGibbs(), n_draws, _N_PASSES)
    state = passes.begin(model, key, nearest_frame(topics))
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
        rows, [topics], alpha, kappa, subkey(key, Purpose.INFERENCE), _N_DRAWS, model.workers
    )
    directed = model.directed
    log_likelihood = documents.log_density[directed].sum() - len(directed) * log_vmf_normalizer(n_features, 0.0)

    theta = documents.proportions / np.linalg.norm(documents.proportions, axis=1, keepdims=True)
    parameter = kappa * rows.weighted_sums(directed)(np.ascontiguousarray(theta[directed]), model.workers)
    singular_values = np.linalg.svd(parameter, compute_uv=False)  # in decreasing order
    log_posterior = np.einsum("vk,kv->", parameter, topics) - singular_values.sum()  # relative to the mode
    for i, value in enumerate(singular_values):
        log_posterior += log_peak(n_features - i, value)
        log_posterior += 0.5 * np.log1p(singular_values[i + 1 :] / value).sum() if value > 0.0 else 0.0
    return float(log_likelihood + gammaln(n_components + 1.0) - log_posterior)


_MOST = 100  # default limit of an inferred number of topics
_FAR, _FAR_PER_ROW = 10.0, 0.1  # a fit warns about chains that are more nats than this below the best evidence


class InferredNumber(NamedTuple):
    """What a fit needs to infer the number of topics."""

    log_prior: np.ndarray  # (K_max + 1,): log prior of each number
    start: FrameStart  # initial state of the first chain; the others start at the centres of clusters


def fit_strategy(admixture: Any, X: Any, run: Run) -> OrthogonalFit:
    """The strategy of `fit` for this sampler."""
    rows = read_directions(admixture, X, reset=True)
    setup, inferred = _set_up(admixture, run.sampler, rows, run.key)
    settings = admixture.n_doc_samples, run.schedule.burn_in
    if not samples_frames(run.sampler):
        passes: Any = SphericalMinibatchPasses(run.sampler, admixture.batch_size, *settings)
    elif inferred is None:
        passes = FramePasses(run.sampler, *settings)
    else:
        first = {int(subkey(run.key, Purpose.CHAIN, 0)): inferred.start.topics}
        passes = FramePasses(run.sampler, *settings, admixture.n_size_moves, inferred.log_prior, first)
    return OrthogonalFit(admixture, run, setup, passes, inferred)


class OrthogonalFit(DrawFit):
    """The fit of orthonormal topics, whose number may be inferred."""

    model_type = OrthogonalModel

    def __init__(self, admixture: Any, run: Run, setup: Setup, passes: Any, inferred: InferredNumber | None):
        super().__init__(admixture, run, setup, passes, None if inferred is None else len(inferred.log_prior) - 1)
        self._inferred = inferred
        self._log_evidence = np.empty(0)  # of each chain at the last estimate, if the number of topics is inferred

    def add(self, left: Any, right: Any) -> Any:
        """Sum of the topics of two passes; if the number of topics is inferred, a sum for each number."""
        return super().add(left, right) if self._inferred is None else add_by_number(left, right)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """A draw, with its number of topics if that is inferred."""
        draw = super().record(chain)
        if self._inferred is not None:
            draw["n_components"] = np.array(len(chain.state.statistics.topics))
        return draw

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """The best chain's mean topics over the draws with its most frequent number of topics."""
        sums = [as_sums(*chain.estimate()) for chain in chains]
        frames = [nearest_frame(of_chain.by_number[of_chain.modal][0]) for of_chain in sums]
        best = best_chain(chains)
        if self._inferred is not None:
            log_prior, each = self._inferred.log_prior, zip(chains, frames, strict=True)
            self._log_evidence = np.array([_evidence(chain, frame, log_prior) for chain, frame in each])
            best = int(self._log_evidence.argmax())
        number = sums[best].modal
        return {
            "best_chain_": best,
            **mean_topics(*sums[best].by_number[number]),
            "components_": frames[best],
            "n_components_": number,
            "n_components_posterior_": sums[best].probabilities,
            "doc_topic_prior_": np.full(number, self.setup.alpha[0]),
            "document_concentration_": chains[best].model.concentrations.document,
            "_key": self.run.key,
        }

    def finish(self, fitted: dict[str, Any], model: Any, workers: Workers) -> dict[str, Any]:
        """The topics in descending order of their shares, if their number is inferred and draws of them were kept."""
        names = "components_", "_posterior", "best_chain_", "_component_draws"
        shares = None if self._inferred is None else matched_shares(*(fitted[name] for name in names))
        if shares is None:
            return {}
        order = np.argsort(-shares, kind="stable")
        return {name: fitted[name][order] for name in ("components_", "resultant_lengths_")}

    def warn(self, fitted: dict[str, Any]) -> None:
        """Warn about chains that have not reached the best mode, and about a kinetic temperature that is not 1."""
        warn_temperature(fitted["_posterior"]["temperature"], self._n_coordinates, stacklevel=6)
        if self._inferred is None:
            return
        fall = max(self._inferred.start.log_evidence, self._log_evidence.max()) - self._log_evidence
        low = np.flatnonzero(fall > _FAR + _FAR_PER_ROW * len(self.setup.rows.directed))
        if len(low) > 0:
            warnings.warn(
                f"The log evidence of chains {low.tolist()}, topics and proportions integrated out, is up to "
                f"{fall.max():.0f} nats below the highest that was found, so these chains have not reached the best "
                "mode: ignore their draws, or raise burn_in and max_iter.",
                ConvergenceWarning,
                stacklevel=5,
            )


def _evidence(chain: Chain, frame: np.ndarray, log_prior: np.ndarray) -> float:
    number, key = len(frame), subkey(chain.state.key[0], Purpose.INFERENCE)
    return log_evidence(chain.model.sized(number), frame, key) + float(log_prior[number])


def samples_frames(sampler: BaseSampler) -> bool:
    """Whether a sampler redraws the topics given the proportions of all documents, from a matrix von Mises-Fisher."""
    return HasLinearLogDensity in sampler.requires


def _set_up(
    estimator: Any, sampler: BaseSampler, rows: AnyDirections, key: np.uint64
) -> tuple[Setup, InferredNumber | None]:
    """Check the parameters and choose initial values, with a metric if the sampler uses minibatches.

    Short runs with several numbers of topics choose them if the number is inferred.
    """
    alpha = 0.5 if estimator.doc_topic_prior is None else float(estimator.doc_topic_prior)
    given, of_start = estimator.document_concentration, subkey(key, Purpose.START)
    is_learned, scaled = isinstance(given, str), not samples_frames(sampler)
    if estimator.n_components is not None:
        n_components = _checked_number(estimator, rows)
        given = checked_document_concentration(given, n_components)
        clusters = initialize_topics(rows, n_components, of_start)
        concentration = initial_document_concentration(given, clusters)
        setup = unit_setup(rows, n_components, alpha, concentration, is_learned, scaled)
        if scaled:
            with Workers(estimator.n_jobs) as workers:
                setup = setup.tuned(OrthogonalModel(setup, workers), clusters, key, estimator.batch_size)
        return setup, None
    log_prior = _log_prior_of_number(estimator, sampler, rows)
    if np.ndim(given) > 0 or given == "per_topic":
        raise ValueError(
            "n_components=None needs one concentration of all documents, document_concentration='auto' or a number, "
            "because the number of topics is sampled for given concentrations, and one for each topic would determine "
            "it. Infer the number with 'auto', then fit again with n_components=n_components_."
        )
    with Workers(estimator.n_jobs) as workers:
        kappa = None if is_learned else float(given)
        start = best_start(rows, alpha, kappa, log_prior, estimator.n_doc_samples, of_start, workers)
    setup = unit_setup(rows, len(start.topics), alpha, start.concentration, is_learned)
    return setup, InferredNumber(log_prior, start)


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
