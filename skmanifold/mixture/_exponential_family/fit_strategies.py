"""How `ExponentialFamilyMixture` is fitted to all rows, or to a stream of minibatches."""

from __future__ import annotations

import warnings
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...base import FitStrategy, Minibatch, Run, StatisticsStream, best_chain
from ...emissions import BaseEmission
from ...emissions._abilities import HasShares, HasSumsOfClusters, LearnsPrior
from ...emissions._estimator import sort_hyperparameters
from ...emissions._family import rows_for
from ...emissions._protocols import HasSeeds, HasWeightedSeeds, RowFamily, WeightedRowEmission
from ...emissions._seeds import SUBSET, sums_of_labels
from ...emissions._statistics import occupied
from ...inference._chains import Chain
from ...inference._distributed_fits.dask_shards import open_shards
from ...inference._distributed_fits.session import active_session
from ...inference._distributed_fits.sources import corpora_of, remember_columns, source_of
from ...inference._draw_store import DrawStore
from ...models import ExpectationModel, IncompatibleError
from ...numerics.block_sums import BLOCK_ROWS, BlockSums
from ...random._keys import Purpose, subkey
from ...random._variates import some_rows
from ...utils._parameters import offers
from ...utils._sklearn import take_rows
from ...utils._threads import ONE, Workers
from ...utils._validation import validate_sample_weight
from .._memberships import DirichletWeights, Position, random_labels, read_labels
from .._merge_kernels import merge_pairs
from .._prior import named_as_draws
from .._scores import FamilyRows, label_rows, typical_rows
from .model import FamilyModel, RowWeights
from .shards import (
    SAMPLE_ROWS,
    LabelledRows,
    RowSample,
    SampledFamilyShards,
    ShardedMixture,
    StoredFamilyShards,
    check_parts,
    no_start,
    shard_mixture,
)

_N_ROUNDS, _N_PASSES = 2, 5  # in which a prior is learned
_LEAST_CLUSTERS, _CLUSTERS_OF_COMPONENT = 30, 3  # that are merged
_MOST_COLUMNS = 32


class WeightedRows(NamedTuple):
    """What a fit reads: `rows` of positive weight, their `weights` or None, which are `used`, and `every` row."""

    rows: Any
    weights: RowWeights | None
    used: np.ndarray | slice
    every: Any


class RowsFit(FitStrategy):
    """The fit to all rows, in this process or in shards."""

    def __init__(self, mixture: Any, X: Any, emission: BaseEmission, run: Run):
        super().__init__(run.sampler)
        self.mixture = mixture
        self.run = run
        self._read(X, emission)

    def _read(self, X: Any, emission: BaseEmission) -> None:
        """Read and validate the rows and their weights."""
        mixture, sample_weight = self.mixture, self.run.sample_weight
        if sample_weight is not None:
            if not self.climbs:
                able = [repr(name) for name, known in mixture._samplers.items() if ExpectationModel in known.requires]
                raise IncompatibleError(
                    f"sample_weight needs a sampler that averages over the components of each row ({', '.join(able)}), "
                    f"but {type(self.sampler).__name__} draws one component for each row."
                )
            mixture._check_offers(emission, emission, [WeightedRowEmission], "sample_weight")
        self._bind(_read_weighted(mixture, emission, X, sample_weight), emission)
        self.n_rows = self.data.every.n_rows

    def _bind(self, data: WeightedRows, emission: BaseEmission) -> None:
        """Store the rows and what depends on them."""
        mixture = self.mixture
        self.data = data
        self.family, emission, self.start = bind_and_learn(mixture, emission, data, self.run.key)
        # A draw holds the parameters and their arrays in posterior_, about twice the size of the statistics.
        self.n_stored = min(mixture.n_stored_rows, data.rows.n_rows) if self.sampler.draws_parameters else 0
        draw_bytes = 24 * self.family.n_cells() + 4 * self.n_stored
        self.store = DrawStore.within(mixture.max_draws_bytes, draw_bytes * mixture.n_chains)
        self.known = {"_key": self.run.key, "_family": self.family, "emission_": emission, "n_batch_iter_": 0}
        self.known |= {name: vars(mixture)[name] for name in emission.stores}

    @property
    def climbs(self) -> bool:
        """Whether the sampler maximises and does not draw, so that the last log density is the highest."""
        return ExpectationModel in self.sampler.requires

    def model(self, workers: Workers) -> Any:
        """The model of all rows; in a distributed session, with its rows sent to their shards."""
        self.whole: Any = mixture_model(self.mixture, self.data, self.family, self.start, workers)
        self.here: FamilyModel = self.whole
        if not active_session():
            return self.here
        if self.n_stored:
            raise ValueError("n_stored_rows needs the rows in this process: set it to 0 for a fit on a cluster.")
        return shard_mixture(self.here)

    def target(self, model: Any) -> FamilyModel:
        """The model of the rows that this process has, which offers the same."""
        return self.here

    def add(self, left: BlockSums, right: BlockSums) -> BlockSums:
        """Sum of two passes' statistics."""
        return left.plus(right)

    def record(self, chain: Chain) -> dict[str, Any]:
        """The weights and, in some draws, the components."""
        position = chain.sampler.parameters(chain.model, chain.state)
        draw = {"weights": position.weights}
        if chain.is_whole_draw(self.store.stride(chain.schedule.n_draws)):
            draw |= {**named_as_draws(chain.model.family.attributes(position.parameters)), "_position": position}
            if self.n_stored:
                draw["labels"] = chain.state.latents[: self.n_stored]
        return draw

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """The best chain's mean statistics, the mode of the parameters given these, and its draws."""
        sampler, best = self.sampler, best_chain(chains)
        if self.climbs:
            best = max(range(len(chains)), key=lambda chain: chains[chain].log_density[-1])
        model = self.whole  # no worker is needed where this process has the rows
        total, n_passes = chains[best].estimate()
        sums = total.map(lambda array: array / n_passes)
        position = model.mode(sums)
        for _ in range(self.mixture.n_polish):
            sums, _ = model.expect_latents(position)
            position = model.mode(sums)
        fitted = {**self.known, **fitted_parameters(model.family, position), "best_chain_": best}
        if self.climbs:
            fitted["converged_"] = sampler.has_converged(chains[best].state)
        kept = [draw["_position"] for draw in chains[best].draws if "_position" in draw]
        fitted["_draws"] = kept if sampler.draws_parameters else []
        return {**fitted, "_sums": BlockSums.whole(sums.total()), "_n_summed_rows": model.total_weight}

    def finish(self, fitted: dict[str, Any], model: Any, workers: Workers) -> dict[str, Any]:
        """The most probable component of each row, also of weight zero, typical rows, and the rows in traces."""
        rows, K = FamilyRows(self.family, self.data.every), self.family.n_components
        labels, of_own = label_rows(fitted["_estimate"], rows, K, workers)
        of_traces = {} if self.data.weights is None else {"_n_units": model.total_weight}
        return {"labels_": labels, "typical_rows_": typical_rows(of_own, labels, K), **of_traces}

    def warn(self, fitted: dict[str, Any]) -> None:
        """Warn about a maximisation that has not converged."""
        used_all = fitted["n_iter_"] == self.mixture.max_iter and self.climbs and self.sampler.can_converge
        if used_all and not fitted["converged_"]:
            warnings.warn(
                f"EM stopped after max_iter={self.mixture.max_iter} passes, before it converged: raise max_iter, or "
                "tol of skmanifold.samplers.EM.",
                ConvergenceWarning,
                stacklevel=5,
            )


class StoredRowsFit(RowsFit):
    """The same fit to rows in files or Dask collections, of which this process reads a sample."""

    def _read(self, X: Any, emission: BaseEmission) -> None:
        """Nothing is read here; refuse what only this process could read."""
        mixture, name = self.mixture, type(self.mixture).__name__
        if hasattr(emission, "blocks"):  # which depend on all rows
            raise ValueError(f"emission={mixture.emission!r} of {name} needs X in memory: an array or a table.")
        if not hasattr(X, "shape") and not corpora_of(X):
            raise ValueError(f"{name} does not read Dask bags: use a Dask array or data frame.")
        if self.run.sample_weight is not None or not isinstance(mixture.init, str):
            raise ValueError("sample_weight, and an init of labels, need X in memory.")
        if mixture.n_stored_rows:
            raise ValueError("n_stored_rows needs X in memory: set it to 0.")
        self.X, self.emission = X, emission
        self.builder: StoredFamilyShards | None = None

    def model(self, workers: Workers) -> Any:
        """The model of all rows, which are read into their shards."""
        key = subkey(self.run.key, Purpose.SUBSAMPLE)
        shards = open_shards(SampledFamilyShards(self._builder_of, key), source_of(self.X, BLOCK_ROWS), workers)
        self.n_rows = shards.n_rows
        self.here = mixture_model(self.mixture, self.data, self.family, self.start, workers)
        self.whole = ShardedMixture(self.here, shards)
        return self.whole

    def _builder_of(self, sample: RowSample) -> StoredFamilyShards:
        """The builder after these rows; the first sample is that of all later ones."""
        if self.builder is None:
            mixture, emission = self.mixture, self.emission
            rows = sample.typed(emission.read(mixture, sample.rows, reset=True))
            check_parts(rows)
            remember_columns(mixture, self.X, mixture.n_features_in_)
            self._bind(WeightedRows(rows, None, slice(None), rows), emission)
            stored = {name: vars(mixture)[name] for name in ("n_features_in_", *emission.stores)}
            rest, whom = sample._replace(rows=None), type(mixture).__name__
            self.builder = StoredFamilyShards(self.family, _weight_prior(mixture), rest, emission, stored, whom)
        return self.builder

    def finish(self, fitted: dict[str, Any], model: Any, workers: Workers) -> dict[str, Any]:
        """The most probable component of each row, and typical rows."""
        found = model.ask("label_rows", fitted["_estimate"])
        labels = np.concatenate([part.labels for part in found], dtype=np.int64)
        return {"labels_": labels, "typical_rows_": reduce(LabelledRows.better, found).typical_rows}


class RowsStream(StatisticsStream):
    """The update by one minibatch, whose statistics are averaged with those before."""

    def __init__(self, mixture: Any, X: Any, emission: BaseEmission, batch: Minibatch):
        super().__init__(batch)
        self.mixture = mixture
        rows = emission.read(mixture, X, reset=batch.is_first)
        self.data = WeightedRows(rows, None, slice(None), rows)
        if batch.is_first:
            self.family, self.emission, self.start = bind_and_learn(mixture, emission, self.data, batch.key)
        else:
            self.family, self.emission, self.start = mixture._family, mixture.emission_, Start(self.data, no_start)
            scale = batch.total_samples / mixture._n_summed_rows
            self.before = mixture._sums.map(lambda array: array * scale)

    def model(self, workers: Workers) -> FamilyModel:
        """The model of the minibatch."""
        return mixture_model(self.mixture, self.data, self.family, self.start, workers)

    def advance(self, model: FamilyModel, workers: Workers) -> dict[str, Any]:
        """The statistics, and the mode of the parameters given these."""
        state = self.step(model)
        summed = {"_sums": state.statistics, "_n_summed_rows": float(self.batch.total_samples), "_draws": []}
        fitted = {**fitted_parameters(self.family, state.position), **summed, "best_chain_": 0}
        return {**fitted, "_family": self.family, "emission_": self.emission}


def _read_weighted(mixture: Any, emission: Any, X: Any, sample_weight: Any) -> WeightedRows:
    """Validate X and the weights, which may be None; a ValueError if fewer rows have a weight than components."""
    if sample_weight is None:
        rows = emission.read(mixture, X, reset=True)
        return WeightedRows(rows, None, slice(None), rows)
    values = validate_sample_weight(sample_weight, X)
    used = np.flatnonzero(values)
    if len(used) < min(mixture.n_components, len(values)):
        raise ValueError(
            f"n_components={mixture.n_components} components need as many rows, but only {len(used)} rows of X have a "
            "positive sample_weight."
        )
    if len(used) == len(values):
        rows = every = emission.read(mixture, X, reset=True)
    else:
        rows = emission.read(mixture, take_rows(X, used), reset=True)
        every = emission.read(mixture, X, reset=False)
    return WeightedRows(rows, RowWeights.of_values(values[used]), used, every)


def bind(mixture: Any, emission: Any, rows: Any, row_weights: RowWeights | None) -> Any:
    """The family of the emission for these rows; a ValueError if there are fewer rows than components."""
    if rows.n_rows < mixture.n_components:
        raise ValueError(
            f"n_components={mixture.n_components} components need as many rows, but X has n_samples={rows.n_rows}."
        )
    sort_hyperparameters(emission, getattr(mixture, "feature_names_in_", None))
    seeds: Any = HasSeeds if row_weights is None else HasWeightedSeeds
    of_weights = () if row_weights is None else (row_weights.values,)
    family = (emission.bind_weighted if of_weights else emission.bind)(rows, mixture.n_components, *of_weights)
    name = type(mixture).__name__
    mixture._check_offers(emission, family, [RowFamily], name)
    mixture._check_sampler_and_family(emission, family)
    if mixture.n_polish:
        mixture._check_offers(emission, family, [HasShares], f"n_polish={mixture.n_polish}")
    if mixture.n_components > 1 and isinstance(mixture.init, str) and mixture.init != "random":
        if mixture.init == "hierarchical" and getattr(family, "is_proper", None) is False:
            raise ValueError("init='hierarchical' needs a proper prior of the emission: set init='k-means++'.")
        seeds = [seeds, HasSumsOfClusters] if mixture.init == "hierarchical" else [seeds]
        mixture._check_offers(emission, family, seeds, f"init={mixture.init!r}", "; or set init='random'")
    return family


class Start(NamedTuple):
    """Where chains begin: `labels` of `rows`, of the data or of a sample, or a function that finds them."""

    rows: WeightedRows
    labels: Any


def bind_and_learn(mixture: Any, emission: Any, data: WeightedRows, key: np.uint64) -> tuple[Any, Any, Start]:
    """The family of the rows with a learned prior, the emission with what was learned, and where chains begin."""
    family = unlearned = bind(mixture, emission, data.rows, data.weights)
    learns, found = isinstance(emission, LearnsPrior) and offers(unlearned, HasSumsOfClusters), None
    # Numbers of the prior that are learned from components
    free = tuple(name for name in emission.free_hyperparameters() if name != "transform") if learns else ()
    some = sampled(data, key) if isinstance(mixture.init, str) else data
    if free:
        family, found = learned_family(mixture, some, unlearned, free, key)
    emission = emission.with_prior_of(family) if free else emission.with_transform_of(family)
    return family, emission, Start(some, start_of(mixture, some, unlearned, free, found))


def sampled(data: WeightedRows, key: np.uint64) -> WeightedRows:
    """The rows, or a random sample of many, in which starts are compared and a prior is learned."""
    rows, weights = data.rows, data.weights
    if rows.n_rows <= SAMPLE_ROWS or not hasattr(rows, "take"):
        return data
    chosen = some_rows(subkey(key, Purpose.SUBSAMPLE), SUBSET, rows.n_rows, SAMPLE_ROWS)
    rows = rows.take(chosen)
    return WeightedRows(rows, weights and weights._replace(values=weights.values[chosen]), slice(None), rows)


def learned_family(
    mixture: Any, data: WeightedRows, family: Any, free: tuple[str, ...], key: np.uint64
) -> tuple[Any, tuple[np.uint64, np.ndarray]]:
    """The family with numbers of the prior that are learned from components of the rows.

    Returns also the labels that were found, with the key of the first start of the first chain.
    """
    start = start_of(mixture, data, family, free)
    model = FamilyModel(data.rows, 0, _weight_prior(mixture), family, start, ONE, 1, data.weights)
    labels, statistics = model.init_latents(subkey(key, Purpose.WARM_UP))
    for _ in range(_N_ROUNDS if mixture.n_components > 1 else 0):
        model.family = family.with_learned_numbers(statistics.total(), free, is_rough=True)
        for _ in range(_N_PASSES):
            statistics, _ = model.expect_latents(model.mode(statistics))
    first = subkey(subkey(key, Purpose.CHAIN, 0), Purpose.INITIAL_LATENTS)
    if mixture.n_init > 1 and mixture.n_components > 1:
        first = subkey(first, Purpose.START, 0)
    return family.with_learned_numbers(statistics.total(), free), (first, labels)


def start_of(mixture: Any, data: WeightedRows, family: Any, free: tuple[str, ...], found: Any = None) -> Any:
    """Initial labels of the rows, or a function that finds them; `family` has a prior that is not learned."""
    init, weights = mixture.init, data.weights and data.weights.values
    if isinstance(init, str):
        return partial(start_labels, family, rows_for(family, data.rows), init, free, row_weights=weights, found=found)
    whole = read_labels(init, data.every.n_rows, mixture.n_components, "init must be a name, or")
    return whole.astype(np.int32)[data.used]


def start_labels(
    family: Any,
    rows: Any,
    init: str,
    free: tuple[str, ...],
    key: np.uint64,
    number: int = 0,
    row_weights: np.ndarray | None = None,
    found: tuple[np.uint64, np.ndarray] | None = None,
) -> np.ndarray:
    """Initial labels of one start, (n_rows,) int32: "random", "k-means++", "hierarchical" or "auto".

    "auto" are those of a hierarchy for the `number` 0, else "k-means++". A hierarchy learns the numbers of the prior
    that are `free`. `found` are labels and the key for which they were computed before. Weights need a family with
    `HasWeightedSeeds`, labels without weights one with `HasSeeds`.
    """
    K = family.n_components
    if found is not None and key == found[0]:
        return found[1]
    if K == 1:
        return np.zeros(rows.n_rows, np.int32)
    if init == "random":
        return random_labels(key, rows.n_rows, K)
    can_merge = offers(family, HasSumsOfClusters) and family.n_features <= _MOST_COLUMNS  # so few rows are enough
    if init == "hierarchical" or (init == "auto" and number == 0 and can_merge):
        return _merged_labels(family, rows, free, key, row_weights)
    return _seeds(family, rows, key, row_weights)


def _seeds(family: Any, rows: Any, key: np.uint64, row_weights: np.ndarray | None) -> np.ndarray:
    if row_weights is None:
        return family.seed_labels(rows, key)
    return family.seed_weighted_labels(rows, key, row_weights)


def _merged_labels(
    family: Any, rows: Any, free: tuple[str, ...], key: np.uint64, row_weights: np.ndarray | None
) -> np.ndarray:
    """Labels of K clusters: of many small ones, the two with the lowest log Bayes factor are merged in each step."""
    K = family.n_components
    many = family.with_components(min(max(_LEAST_CLUSTERS, _CLUSTERS_OF_COMPONENT * K), rows.n_rows))
    labels = _seeds(many, rows, subkey(key, Purpose.CENTRES), row_weights)
    statistics = sums_of_labels(many, rows, labels, row_weights)
    learned = family.with_learned_numbers(statistics, free, is_rough=True) if free else family
    clusters, sums = learned.clusters_of_sums(statistics)
    present = occupied(sums)
    posterior = clusters.new_posterior(many.n_components, sums, subkey(key, Purpose.COMPONENTS))
    merged_with = np.arange(many.n_components, dtype=np.int32)
    no_shares = np.empty((0, len(present)))
    merge_pairs(clusters.data, sums, posterior, present, no_shares, merged_with, 0.0, 0.0, -np.inf, K)
    return np.unique(merged_with[labels], return_inverse=True)[1].astype(np.int32)  # in an order without weights


def mixture_model(mixture: Any, data: WeightedRows, family: RowFamily, start: Start, workers: Workers) -> FamilyModel:
    """The model of some rows, whose start may be that of a sample of them."""
    labels, n_init = start.labels, mixture.n_init if mixture.n_components > 1 else 1
    if start.rows is not data:
        labels = mixture_model(mixture, start.rows, family, start, workers)
    return FamilyModel(data.rows, 0, _weight_prior(mixture), family, labels, workers, n_init, data.weights)


def _weight_prior(mixture: Any) -> float:
    return DirichletWeights.of_parameter(mixture.weight_prior, mixture.n_components).prior


def fitted_parameters(family: RowFamily, position: Position) -> dict[str, Any]:
    """The parameters as fitted attributes."""
    return {"_estimate": position, "weights_": position.weights, **family.attributes(position.parameters)}
