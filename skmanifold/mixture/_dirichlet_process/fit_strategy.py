"""How a Dirichlet process mixture is fitted: to all rows, by slice sampling or stochastic gradients, or to a stream."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np

from ...base import FitStrategy, Minibatch, Run, StreamStrategy, best_chain, samples_density, stack_draws
from ...emissions import BaseEmission
from ...emissions._abilities import LearnsPrior
from ...emissions._categories import CategoryCounts
from ...emissions._family import Family
from ...emissions._statistics import by_size, occupied, selected
from ...inference._chains import Chain
from ...inference._draw_store import ChainStream, DrawStore, chains_agree
from ...metrics._partitions import point_partition
from ...models import IncompatibleError
from ...random._keys import Purpose, subkey
from ...samplers import SGRLD, BaseSampler, Slice
from ...samplers._base import resolve_sampler
from ...samplers._latent.stick_breaking import check_concentration_prior
from ...utils._conditions import Condition, Integer, Length, Sizes
from ...utils._threads import Workers, split_range
from .._memberships import ParameterDraw, PartitionDraw, arrays_of, draw_store, partition_draw
from .._merging import clusters_of, followed, merge_components, merge_draw
from .._scores import typical_rows
from .model import DPModel, Start
from .outliers import OUTLIER, SliceWithOutliers, apart, compact, log_weights_given, without_outliers
from .stochastic_slice import StochasticSlice, StreamState

_LEAST_ROWS = 0.5  # expected number of rows from which on a component is reported


MOST_COMPONENTS = 1 << 24  # in one draw


def counted_by(n_clusters: Callable[[CategoryCounts], int]) -> Condition:
    """Condition that sets the number of components in a state: a function of its counts returns it."""

    def count(value: Any, where: str, sizes: Sizes) -> None:
        counts = getattr(value, "statistics", None)
        if isinstance(counts, CategoryCounts) and np.any(counts.sizes):
            sizes["n_clusters"] = n_clusters(counts)

    return count


class MixtureStream(ChainStream):
    """Chains that learn from a sequence of minibatches; the rows are not kept."""

    states: Annotated[list[Annotated[StreamState, counted_by(lambda counts: len(counts.sizes))]], Length("n_chains")]
    stores: Annotated[
        list[DrawStore[tuple[ParameterDraw, Annotated[int, Integer(low=1, below=MOST_COMPONENTS)]]]], Length("n_chains")
    ]
    _last: Annotated[list[ParameterDraw], Length("n_chains")]

    def _disagreement(self, sizes: Sizes) -> str | None:
        if any(not state.statistics.sizes.sum() > 0.0 for state in self.states):
            return "has a chain without rows"
        return chains_agree(self, sizes)

    def recorded(self, passes: StochasticSlice, model: DPModel) -> MixtureStream:
        """The same stream with the draws of this minibatch, of which some are stored."""
        self._last = [passes.parameters(model, state) for state in self.states]
        for state, draw, store in zip(self.states, self._last, self.stores, strict=True):
            if store.wants(self.n_batches):
                store.add(self.n_batches, (draw, _n_components(state)))
        return self

    def predictive_draws(self) -> list[ParameterDraw]:
        """Draws of all chains in the second half of the stream; the current states if there are no draws yet."""
        kept = [draw for chain in range(len(self.states)) for draw, _ in self.draws(chain)]
        return kept or self._last

    def summary(self) -> PartitionDraw:
        """Expected counts of the first chain."""
        state = self.states[0]
        order = np.argsort(-state.statistics.sizes, kind="stable")[: _n_components(state)]
        return PartitionDraw(selected(state.statistics, order), self._last[0].concentration)

    def posterior(self, clusters: Family) -> dict[str, np.ndarray]:
        """Arrays of the draws of the second half, of shape ``(n_chains, n_draws, ...)``."""

        def arrays(draw: ParameterDraw, n_components: int) -> dict[str, np.ndarray]:
            numbers = {"n_components": np.array(n_components), "concentration": np.array(draw.concentration)}
            return {**numbers, **arrays_of(draw, clusters)}

        chains = [self.draws(chain) for chain in range(len(self.states))]
        example = arrays(self._last[0], _n_components(self.states[0]))
        drawn = [[arrays(*draw) for draw in chain] for chain in chains]
        return {name: stack_draws([[draw[name] for draw in of] for of in drawn], example[name]) for name in example}


def _n_components(state: StreamState) -> int:
    return max(1, int(np.count_nonzero(state.statistics.sizes >= _LEAST_ROWS)))


_ROWS_AT_ONCE = 1 << 16  # tens of megabytes of log densities
_MOST_ROWS, _ROWS_OF_DRAW = 20_000, 2000  # from which components of the estimate, and of a draw, are merged
_LEAST_MERGED, _MOST_MERGED, _COMPONENTS_MERGED = 5, 50, 1200  # draws of all chains, and components of these together
_LEAST_SEEN = 0.25  # share of the rows from which components are merged: those with the fewest missing cells
_MOST_SHARE = 0.5  # of the draws in which a row is an outlier, if it is none in the point partition
_MAX_PARTITIONS = 200  # number of drawn partitions that the point estimate is compared with
_MAX_TABLE_BYTES = 4 << 30  # of the parameters of the components
_LOW_PRIOR = 0.5  # Dirichlet parameter of a category, below which densities of gammas are too steep near zero


class RowsToPartition(NamedTuple):
    """Rows with their family, initial labels, and fitted attributes that do not change during a fit."""

    clusters: Family
    start: Start
    known: dict[str, Any]
    n_missing: np.ndarray | None = None  # missing cells of each row, if there are some

    def model(self, mixture: Any, workers: Workers, most_batches: int) -> DPModel:
        """The model with the settings of the estimator, and at most so many minibatches by default."""
        clusters, size = self.clusters, mixture.batch_size
        if size == "auto":
            size = max(clusters.rows_of_batch(), clusters.n_rows // most_batches, 1)
        prior = check_concentration_prior(mixture.concentration_prior, "concentration_prior")
        return DPModel(clusters, mixture.concentration, prior, self.start, size, workers)


class PartitionFit(FitStrategy):
    """The fit with samplers of labels and stick-breaking weights given all rows, such as `Slice`."""

    most_batches = 20  # of a pass: more need longer, mostly to read the rows

    def __init__(self, mixture: Any, run: Run, passes: BaseSampler, data: RowsToPartition):
        super().__init__(run.sampler, passes)
        self.mixture = mixture
        self.data = data
        self.n_rows = data.clusters.n_rows
        self.known = {**data.known, "_key": run.key, "_stream": None, "_states": None, "n_batch_iter_": 0}
        self.stride = max(1, -(-run.schedule.n_draws // max(1, draw_store(mixture, data.clusters).max_draws)))

    def model(self, workers: Workers) -> DPModel:
        """The model of all rows."""
        return self.data.model(self.mixture, workers, self.most_batches)

    def record(self, chain: Chain) -> dict[str, Any]:
        """The number of components, the concentration and, in some draws, all parameters and labels."""
        return self._record(chain, chain.is_whole_draw(self.stride))

    def _record(self, chain: Chain, is_whole: bool) -> dict[str, Any]:
        state = chain.state
        n_components, concentration = len(occupied(state.statistics)), _concentration(state)
        record = {"n_components": np.array(n_components), "concentration": np.array(concentration)}
        if self.mixture.outliers:
            n_outliers, key = np.sum(state.latents == OUTLIER), subkey(state.key, Purpose.WEIGHTS, state.n_steps)
            record["outlier_weight"] = np.exp(log_weights_given(int(n_outliers), self.n_rows, key)[0])
        if is_whole:
            draw = chain.sampler.parameters(chain.model, state)
            arrays = arrays_of(draw, chain.model.clusters.given(state.statistics))
            sticks, kept = self._kept(state, draw)
            place_of = np.zeros(sticks.max() + 1, np.int32)
            place_of[sticks] = np.arange(len(sticks))
            arrays |= chain.model.clusters.hyperparameters_of(state.statistics)
            labels = np.where(state.latents == OUTLIER, OUTLIER, place_of[state.latents])
            record.update(arrays, labels=labels, _draw=kept)
        return record

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """All draws, and the partition of the best chain's last pass."""
        records = [draw for chain in chains for draw in chain.draws if "_draw" in draw]
        records = records or [self._record(chain, True) for chain in chains]
        best = chains[best_chain(chains)]
        labels, concentration = compact(best.state.latents), _concentration(best.state)
        of_end = {"_merges": None, "_typical_rows": None}  # not those of an earlier fit
        fitted = {**self.known, **of_end, "_draws": [record["_draw"] for record in records]}
        return {**fitted, **_partition_attributes(best.model, labels, concentration)}

    def finish(self, fitted: dict[str, Any], model: DPModel, workers: Workers) -> dict[str, Any]:
        """The partition nearest to all draws, its typical rows, and merges of its components."""
        nearest = point_estimate(fitted, model, workers)
        final = {**fitted, **nearest}
        rows = find_typical_rows(final["_estimate"], model.clusters, final["component_labels_"], workers)
        has_draws = len(_drawn_labels(fitted, model)) > 0
        merges = find_merges(final, rows, self.data.n_missing, model, workers) if has_draws else {}
        return {**nearest, "_typical_rows": rows, **merges}

    def _kept(self, state: Any, draw: Any) -> tuple[np.ndarray, Any]:
        """The stick of each component of a draw, and what it keeps for predictions.

        Given exact labels the parameters can be integrated out, which has a lower variance than a draw of them.
        """
        return by_size(state.statistics), partition_draw(state.statistics, draw.concentration)


def _concentration(state: Any) -> float:
    return getattr(state.position, "concentration", state.position)


class StochasticFit(PartitionFit):
    """The fit with samplers of gamma variables, of which `StochasticSlice` computes the weights and the components."""

    most_batches = 100  # each is a step of the sampler

    def check(self, model: DPModel, known: Any) -> None:
        """No check here: `StochasticSlice` compares its samplers with their targets before its first step."""

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """All draws, the partition of the best chain's last pass, and the states, which `partial_fit` continues."""
        return {**super().estimate(chains), "_states": [chain.state for chain in chains]}

    def _kept(self, state: Any, draw: Any) -> tuple[np.ndarray, Any]:
        return self.passes.sticks_by_weight(state), draw


class PartitionStream(StreamStrategy):
    """The update by one minibatch, of which only statistics are kept."""

    def __init__(self, mixture: Any, batch: Minibatch, passes: Any, data: RowsToPartition):
        super().__init__(batch)
        self.mixture = mixture
        self.passes = passes
        self.data = data

    def model(self, workers: Workers) -> DPModel:
        """The model of the minibatch."""
        return self.data.model(self.mixture, workers, PartitionFit.most_batches)

    def check(self, model: DPModel, known: Any) -> None:
        """Raise an `IncompatibleError` for a sampler that needs all rows."""
        if not samples_density(self.sampler):
            super().check(model, known)
            name = type(self.sampler).__name__
            raise IncompatibleError(f"{name} needs all rows at once: partial_fit has minibatches.")

    def advance(self, model: DPModel, workers: Workers) -> dict[str, Any]:
        """Update the chains by one step."""
        mixture, batch, passes = self.mixture, self.batch, self.passes
        scale = batch.total_samples / model.n_rows
        if batch.is_first:
            keys = [subkey(batch.key, Purpose.CHAIN, chain) for chain in range(batch.n_chains)]
            states = workers.run(passes.init_stream, [(model, key, scale) for key in keys])
            stream = MixtureStream(states).storing(draw_store(mixture, model.clusters))
            stream.n_batches = 1
        else:

            def advance(state: StreamState, wanted: bool) -> tuple[StreamState, float, None]:
                return passes.step_stream(model, copy.deepcopy(state), batch.rate, scale), np.nan, None

            stream = (mixture._stream or self._without_rows(model)).advanced(advance, workers)
        stream = stream.recorded(passes, model)
        return {**self.data.known, "_stream": stream, **_summary_attributes(stream.summary())}

    def _without_rows(self, model: DPModel) -> MixtureStream:
        """The chains of a fit as chains of a stream that began with the fitted rows."""
        scale = self.batch.total_samples / len(self.mixture.component_labels_)
        states = [self.passes.leave_rows(model, state, scale) for state in self.mixture._states]
        return MixtureStream(states).storing(draw_store(self.mixture, model.clusters))


def point_estimate(fitted: dict[str, Any], model: DPModel, workers: Workers) -> dict[str, Any]:
    """Attributes of the partition that minimises the mean distance to the draws; empty without draws.

    It has at most the median number of components of the draws: otherwise rows that are alone in half of the draws
    would be components.
    """
    posterior, labels = fitted["_posterior"], _drawn_labels(fitted, model)
    if not len(labels):
        return {}
    evenly = np.linspace(0, len(labels) - 1, min(len(labels), _MAX_PARTITIONS)).astype(int)
    most = int(np.median(posterior["n_components"]))
    shares = np.mean(labels == OUTLIER, axis=0)
    others = np.flatnonzero((shares <= _MOST_SHARE) | (shares == shares.min()))  # at least one row
    chosen, nearest = apart(labels[np.unique(evenly)][:, others]), np.full(model.n_rows, OUTLIER)
    nearest[others] = point_partition(chosen, max_components=most, n_jobs=workers.n_workers)
    given = model.concentration
    return _partition_attributes(model, nearest, float(posterior["concentration"].mean()) if given is None else given)


def _drawn_labels(fitted: dict[str, Any], model: DPModel) -> np.ndarray:
    """Labels of all draws, (n_draws, n_rows)."""
    return fitted["_posterior"].get("labels", np.empty((0, model.n_rows), np.int32)).reshape(-1, model.n_rows)


def _partition_attributes(model: DPModel, labels: np.ndarray, concentration: float) -> dict[str, Any]:
    """A partition of the rows as fitted attributes."""
    others, of_others = without_outliers(model, labels)
    summary = partition_draw(others.count(of_others.astype(np.int32)), concentration)
    return {"component_labels_": labels, **_summary_attributes(summary)}


def _summary_attributes(summary: PartitionDraw) -> dict[str, Any]:
    """The estimate and its concentration as fitted attributes."""
    return {"_estimate": summary, "concentration_": float(summary.concentration)}


def find_typical_rows(summary: PartitionDraw, clusters: Family, labels: np.ndarray, workers: Workers) -> np.ndarray:
    """The row of each cluster with the highest predictive density in it, (n_clusters,)."""
    of_own = np.empty(len(labels))
    for start, stop in split_range(len(labels), _ROWS_AT_ONCE):
        terms = summary.log_terms(clusters.part(start, stop), workers)
        of_own[start:stop] = terms[np.arange(stop - start), labels[start:stop]]
    return typical_rows(of_own, labels, len(summary.statistics.sizes))


def find_merges(
    final: dict[str, Any], typical: np.ndarray, n_missing: np.ndarray | None, model: DPModel, workers: Workers
) -> dict[str, Any]:
    """Clusters of the components of each draw, and merges of those of the estimate, as fitted attributes.

    They are found from the rows with the fewest missing cells: the log odds of others are near zero, also if the groups
    are far apart. Of many draws some are merged; a component of another has the cluster that most of its rows have in
    the last of these.
    """
    is_seen = True if n_missing is None else n_missing <= np.quantile(n_missing, _LEAST_SEEN, method="higher")
    posterior, draws, labels = final["_posterior"], _drawn_labels(final, model), final["component_labels_"]
    alone, n_padded = apart(draws), posterior["weights"].shape[-1]

    def merged(drawn: np.ndarray, draw: Any) -> np.ndarray:
        """The cluster of each component of a draw; -1 for one without rows."""
        used, first = np.unique(drawn, return_index=True)
        used, first = used[used != OUTLIER], first[used != OUTLIER]
        chosen = np.union1d(_some((drawn != OUTLIER) & is_seen, _ROWS_OF_DRAW), first)
        terms = draw.log_terms(model.clusters.subset(chosen), workers)[:, used]
        clusters = np.full(n_padded, -1, np.int32)
        clusters[used] = merge_draw(np.searchsorted(used, drawn[chosen]), alone[:, chosen], terms)
        return clusters

    n_chains, n_draws = posterior["labels"].shape[:2]
    n_merged = max(_LEAST_MERGED, min(_MOST_MERGED, _COMPONENTS_MERGED // n_padded))
    are_merged = np.tile(np.arange(n_draws) % -(-n_chains * n_draws // n_merged) == 0, n_chains)
    clusters = np.empty((len(draws), n_padded), np.int32)
    for i, (drawn, draw) in enumerate(zip(draws, final["_draws"], strict=True)):
        if are_merged[i]:
            clusters[i] = merged(drawn, draw)
            of_rows = clusters_of(clusters[i], drawn)
        else:
            clusters[i] = followed(drawn, of_rows, n_padded)
    numbers = clusters.max(axis=1) + 1
    most_frequent = int(np.bincount(numbers[are_merged]).argmax())
    chosen = np.union1d(_some((labels != OUTLIER) & is_seen, _MOST_ROWS), typical)
    partitions = clusters_of(clusters, draws[:, chosen])[are_merged & (numbers == most_frequent)]
    nearest = point_partition(apart(partitions), max_components=most_frequent, n_jobs=workers.n_workers)
    terms = final["_estimate"].log_terms(model.clusters.subset(chosen), workers)[:, :-1]
    merges = merge_components(labels[chosen], alone[:, chosen], nearest, terms)
    clusters = clusters.reshape(n_chains, n_draws, n_padded)
    return {"_merges": merges, "_posterior": {**posterior, "component_clusters": clusters}}


def _some(are_candidates: np.ndarray, n_rows: int) -> np.ndarray:
    """At most so many of the rows, evenly spaced."""
    rows = np.flatnonzero(are_candidates)
    return rows[:: max(1, -(-len(rows) // n_rows))]


def passes_of(mixture: Any, sampler: BaseSampler) -> BaseSampler:
    """What makes passes over the rows: the sampler itself, or a `StochasticSlice` with samplers of gamma variables."""
    given = mixture.weights_sampler
    if mixture.outliers and not isinstance(sampler, Slice):
        raise IncompatibleError(f"outliers=True needs the sampler 'slice'; {type(sampler).__name__} draws no outliers.")
    if not samples_density(sampler):
        if given is not None:
            raise ValueError(
                f"{type(sampler).__name__} draws the weights itself: weights_sampler must be None, not {given!r}."
            )
        return SliceWithOutliers(sampler) if mixture.outliers else sampler
    if given is None:
        given = mixture.sampler if isinstance(mixture.sampler, str) else sampler
    known = {**mixture._by_name(), "sgrld": partial(SGRLD, step_size=0.005)}  # Baker et al. (2018), table 3
    return StochasticSlice(sampler, resolve_sampler(given, known, f" of weights for {type(mixture).__name__}"))


def check_clusters(mixture: Any, sampler: Any, emission: BaseEmission, clusters: Any) -> None:
    """Refuse components that a sampler of gamma variables cannot update, and a concentration that is out of range."""
    if samples_density(sampler):
        name = type(sampler).__name__
        if not isinstance(clusters.no_statistics(1), CategoryCounts):
            raise IncompatibleError(
                f"{name} updates probabilities of categories, which the emission {type(emission).__name__} does not "
                "have ('categorical' and 'multinomial' do)."
            )
        if isinstance(emission, LearnsPrior) and emission.free_hyperparameters():
            raise IncompatibleError(f"{name} does not learn category_prior, which is None: set it, or use 'slice'.")
        if sampler.is_biased_near_zero and clusters.data.prior.min() < _LOW_PRIOR:
            warnings.warn(
                f"{name} does not draw from the posterior if category_prior is below 1/2: rare categories become too "
                "probable; 'slice' and 'scir' have no such limit.",
                stacklevel=7,
            )
    check_concentration_prior(mixture.concentration_prior, "concentration_prior")
    n_components = (mixture.concentration or 0.0) * math.log(1e3 * clusters.n_rows)  # expected above the minimum slice
    if clusters.draw_bytes(n_components) > 3 * _MAX_TABLE_BYTES:
        raise ValueError(
            f"concentration={mixture.concentration:g} would need tables of {n_components:.1g} components, more than "
            f"{_MAX_TABLE_BYTES / 2**30:.0f} GiB: use a smaller concentration."
        )
