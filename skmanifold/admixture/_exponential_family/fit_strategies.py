"""How `ExponentialFamilyAdmixture` is fitted to all rows, or to a stream of minibatches."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from ...base import FitStrategy, Minibatch, Run, StatisticsStream, best_chain
from ...emissions import BaseEmission
from ...inference._chains import Chain
from ...inference._distributed_fits.session import active_session
from ...inference._distributed_fits.shards import ShardedModel
from ...inference._distributed_fits.sources import corpora_of, n_columns, remember_columns
from ...inference._draw_store import DrawStore
from ...random._keys import Purpose, subkey
from ...sparse.counts import USE_COUNTS_OF_WORDS, Counts, no_rows, warn_of_fractions
from ...utils._threads import Workers
from .._tokens.burn_in_prior import BurnInPrior
from .._tokens.stored_documents import n_stored_documents, record_documents
from .._tokens.topic_counts import TopicCounts, add_counts, mean_counts, scale_counts
from .shards import ReadTokenShards, RowSummary, UnsettledTokenShards, shard_admixture, shard_elsewhere


class ComponentsFit(FitStrategy):
    """The fit to all rows, in this process or in shards."""

    def __init__(self, admixture: Any, X: Any, emission: BaseEmission, run: Run):
        super().__init__(run.sampler)
        self.admixture = admixture
        self.run = run
        self.key = run.key
        self.prior = admixture._row_prior()
        self.burn_in_prior = BurnInPrior(admixture, run, starts_at_random=not emission.has_vector_tokens)
        self.n_unsettled = self.burn_in_prior.n_passes
        self.n_stored = n_stored_documents(admixture, run.sampler, in_memory=type(self) is ComponentsFit)
        self._read(X, emission)

    def _read(self, X: Any, emission: BaseEmission) -> None:
        """Read and validate the rows."""
        key = subkey(self.key, Purpose.ROUNDING)
        self.counts = self.admixture._read(emission, X, key, reset=True)
        self.n_rows = self.counts.n_rows
        self._settle(self.admixture._begin(emission, self.counts, self.counts.row_sums()))

    def _settle(self, settled: dict[str, Any]) -> None:
        """Store what depends on the rows."""
        self.settled = settled
        self.tokens = settled["_tokens"]
        draw_bytes = self.tokens.draw_bytes() + 8 * self.n_stored * self.admixture.n_components
        n_chains = self.admixture.n_chains
        store = DrawStore.within(self.admixture.max_draws_bytes, draw_bytes * n_chains, self.admixture.thin)
        self.stride = store.stride(self.run.schedule.n_draws)

    def model(self, workers: Workers) -> Any:
        """The model of all rows."""
        return self.burn_in_prior.model_after(0, self.tokens.model(self.counts, self.prior, workers))

    def target(self, model: Any) -> Any:
        """The model; in a distributed session, a model with only those methods that work on shards."""
        return ShardedModel(model, None) if active_session() else model

    def prepare(self, model: Any, workers: Workers) -> Any:
        """The model; in a distributed session, with its rows sent to their shards."""
        if not active_session():
            return model
        sharded = shard_admixture(self.tokens, self.counts, self.prior, workers, type(self.admixture).__name__)
        return self.burn_in_prior.model_after(0, sharded)

    def adapt(self, model: Any, state: Any) -> Any:
        """The model with the prior of the next pass of burn-in."""
        return self.burn_in_prior.model_after(state.n_steps, model)

    def n_units(self, model: Any) -> int:
        """The number of tokens."""
        return model.n_tokens

    def add(self, left: TopicCounts, right: TopicCounts) -> TopicCounts:
        """Sum of two passes' counts."""
        return add_counts(left, right)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """Each component's share of the tokens and, in some draws, the components."""
        totals = chain.state.statistics.totals
        draw = {"topic_weights": totals / totals.sum()}
        if chain.is_whole_draw(self.stride):
            draw.update(self.tokens.draw(chain.sampler.parameters(chain.model, chain.state)))
            if self.n_stored:
                model = chain.model
                of_documents = model.token_start, self.n_stored, model.n_components
                draw.update(record_documents(chain.state.latents, *of_documents))
        return draw

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """The best chain's mean counts, and the mode of the parameters given these."""
        best = best_chain(chains)
        model, counts = chains[best].model, mean_counts(*chains[best].estimate())
        return {
            **self.settled,
            "best_chain_": best,
            "n_batch_iter_": 0,
            "doc_topic_prior_": self.prior,
            "_key": self.key,
            "_n_counted_rows": model.n_rows,
            "_topic_counts": counts,
            "_estimate": model.mode(counts),
        }


class StoredComponentsFit(ComponentsFit):
    """The same fit to rows in files or Dask collections, which this process does not read."""

    def _read(self, X: Any, emission: BaseEmission) -> None:
        """Nothing is read here; refuse what only this process could read."""
        name = type(self.admixture).__name__
        if not hasattr(X, "shape") and not corpora_of(X):
            raise ValueError(f"{name} does not read Dask bags: use a Dask array of counts.")
        self.X, self.emission = X, emission

    def model(self, workers: Workers) -> Any:
        """A model without rows, as if each token occurred once."""
        n_features = n_columns(self.X) * self.emission.tokens_of_column
        summary = RowSummary(np.ones(n_features, np.int64), np.array([n_features]), 0.0)
        settled = self.admixture._begin(deepcopy(self.emission), summary.as_one_row(), summary.row_sums)
        return settled["_tokens"].model(no_rows(n_features), self.prior, workers)

    def target(self, model: Any) -> ShardedModel:
        """A model with only those methods that work on shards."""
        return ShardedModel(model, None)

    def prepare(self, model: Any, workers: Workers) -> Any:
        """The rows read into their shards."""
        key, name = subkey(self.key, Purpose.ROUNDING), type(self.admixture).__name__
        builder = UnsettledTokenShards(self._tokens_of, self.prior, key, name)
        if type(self.emission).read_tokens is not BaseEmission.read_tokens:
            builder = ReadTokenShards(self._tokens_of, self.prior, key, name, self.emission)
        sharded = shard_elsewhere(builder, self.X, workers)
        self.n_rows = sharded.n_rows
        if not corpora_of(self.X):
            n_tokens = int(self.summary.row_sums.sum())
            warn_of_fractions(self.summary.moved_by_rounding, n_tokens, USE_COUNTS_OF_WORDS, stacklevel=5)
        return self.burn_in_prior.model_after(0, sharded)

    def _tokens_of(self, summary: RowSummary) -> Any:
        self.summary = summary
        n_features = len(summary.column_sums) // self.emission.tokens_of_column
        remember_columns(self.admixture, self.X, n_features)
        self._settle(self.admixture._begin(self.emission, summary.as_one_row(), summary.row_sums))
        return self.tokens


class ComponentsStream(StatisticsStream):
    """The update by one minibatch, whose counts are averaged with those before."""

    def __init__(self, admixture: Any, counts: Counts, emission: BaseEmission, batch: Minibatch):
        super().__init__(batch)
        if not batch.is_first:
            self.before = scale_counts(admixture._topic_counts, batch.total_samples / admixture._n_counted_rows)
        self.prior = admixture._row_prior()
        self.counts = counts
        if batch.is_first:
            self.settled = admixture._begin(emission, self.counts, self.counts.row_sums())
        else:
            self.settled = {"_tokens": admixture._tokens}

    def model(self, workers: Workers) -> Any:
        """The model of the minibatch."""
        return self.settled["_tokens"].model(self.counts, self.prior, workers)

    def advance(self, model: Any, workers: Workers) -> dict[str, Any]:
        """The counts, and the mode of the parameters given these."""
        state = self.step(model)
        counted = {"_topic_counts": state.statistics, "_n_counted_rows": self.batch.total_samples}
        return {**self.settled, **counted, "_estimate": state.position, "doc_topic_prior_": self.prior}
