"""How the topic model with an inferred number of topics is fitted to all documents, in this process or in shards."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from copy import copy
from functools import cached_property
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...base import FitStrategy, Run, best_chain
from ...inference._chains import Chain
from ...inference._distributed_fits.exchange import LatentFile
from ...inference._distributed_fits.session import active_session
from ...inference._distributed_fits.shards import ShardedModel
from ...inference._distributed_fits.sources import is_elsewhere, remember_columns
from ...inference._draw_store import DrawStore
from ...random._keys import Purpose, subkey
from ...samplers._latent.stick_breaking import check_concentration_prior
from ...utils._threads import Workers
from ...utils._validation import of_columns
from .._lda.dirichlet_mle import prior_attributes
from .._tokens.fits import SHARE_OF_PASSES, n_stored_documents, record_documents, sum_after
from .._tokens.shards import TokenShards, open_token_shards
from .._tokens.topic_counts import TopicCounts, TopicPrior
from .model import ConcentrationPriors, HDPModel, HDPStatistics, add_statistics, take_topics
from .token_rows import OneRange, Start, TokenRows, start_of
from .two_sides import Counted

_GREEDY_EVERY, _LEAST_PASSES = 5, 15  # before so many passes random topics are alike, and would be merged
_ROOM = 1.5  # expected number of topics over that at the start, for the memory of draws


class HDPFit(FitStrategy):
    """The fit with samplers of topics of tokens given the topics and their weights, such as `Gibbs`."""

    draws_vary = True

    def __init__(self, admixture: Any, X: Any, run: Run):
        super().__init__(run.sampler)
        self.admixture = admixture
        self.run = run
        self.concentrations = ConcentrationPriors(
            admixture.concentration,
            admixture.topic_concentration,
            check_concentration_prior(admixture.concentration_prior, "concentration_prior"),
            check_concentration_prior(admixture.topic_concentration_prior, "topic_concentration_prior"),
        )
        self.X, self.counts = X, None
        self.n_stored = n_stored_documents(admixture, run.sampler, in_memory=not is_elsewhere(X))
        self.n_unsettled = int(SHARE_OF_PASSES * run.schedule.burn_in)
        if not is_elsewhere(X):
            self.counts = admixture._whole_counts(X, subkey(run.key, Purpose.ROUNDING), reset=True)
            self._bind(self.counts.n_rows, self.counts.n_tokens, self.counts.n_features)

    def _bind(self, n_rows: int, n_tokens: int, n_features: int) -> None:
        """Store what depends on the size of the corpus."""
        admixture = self.admixture
        self.n_rows = n_rows
        self.topic_word_prior = _topic_word_prior(of_columns(admixture, "topic_word_prior"), n_features)
        self.start, n_topics = start_of(admixture.init, n_tokens, n_features, admixture.max_components)
        self.starts_at_random = isinstance(admixture.init, str | Integral) and n_topics > 1
        draw_bytes = int(_ROOM * n_topics) * (4 * n_features + 8 * self.n_stored) * admixture.n_chains
        store = DrawStore.within(admixture.max_draws_bytes, draw_bytes, admixture.thin)
        self.stride = store.stride(self.run.schedule.n_draws)

    def model(self, workers: Workers) -> HDPModel | ShardedHDP:
        """The model of all documents, in this process or in shards."""
        if self.counts is not None and not active_session():
            ranges = OneRange(TokenRows(self.counts, 0, workers))
            return self._model_after(0, self._whole(ranges, self.counts.n_features, workers))
        return self._in_shards(workers)

    def _in_shards(self, workers: Workers) -> ShardedHDP:
        """The model, with its rows in their shards."""
        builder = TokenRowsShards(subkey(self.run.key, Purpose.ROUNDING), type(self.admixture).__name__)
        shards = open_token_shards(self.X, self.counts, builder, workers)
        try:
            if self.counts is None:
                remember_columns(self.admixture, self.X, shards.n_features)
                self._bind(shards.n_rows, shards.total("n_tokens"), shards.n_features)
            head = self._whole(ShardRanges(shards), shards.n_features, workers)
            return self._model_after(0, ShardedHDP(head, shards))
        except BaseException:
            shards.close()
            raise

    def _whole(self, ranges: Any, n_features: int, workers: Workers) -> HDPModel:
        most, n_moves = self.admixture.max_components, self.admixture.n_split_merge
        arguments = self.topic_word_prior, self.concentrations, self.start, most, n_moves, workers
        return HDPModel(ranges, n_features, *arguments)

    def adapt(self, model: Any, state: Any) -> Any:
        """The model with the concentration of the documents in the next pass of burn-in."""
        return self._model_after(state.n_steps, model)

    def _model_after(self, n_passes: int, model: Any) -> Any:
        """The model of a pass of burn-in; no topics are merged as long as their words are random."""
        alpha, n_moves = self.concentrations.alpha, self.admixture.n_split_merge
        is_unsettled, is_early = n_passes < self.n_unsettled, 2 * n_passes < self.n_unsettled
        if self.starts_at_random and is_unsettled:
            alpha = sum_after(n_passes, self.n_unsettled, model) if alpha is None else alpha
            n_moves = 0 if is_early else n_moves
        merges_greedily = is_unsettled and not is_early and n_passes >= _LEAST_PASSES and n_passes % _GREEDY_EVERY == 0
        return model.in_burn_in(alpha, n_moves, merges_greedily)

    def n_units(self, model: Any) -> int:
        """The number of tokens."""
        return model.n_tokens

    def add(self, left: HDPStatistics, right: HDPStatistics) -> HDPStatistics:
        """Sum of the statistics of two passes."""
        return add_statistics(left, right)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """The concentrations, the weights of the topics and, in some draws, the topics."""
        position, ids = chain.state.position, chain.state.statistics.ids
        draw = {
            "n_components": np.array(len(ids)),
            "concentration": np.array(position.alpha),
            "topic_concentration": np.array(position.gamma),
            "topic_weights": position.weights.used,
            "topic_ids": ids.astype(np.float64),
        }
        if chain.is_whole_draw(self.stride):
            draw["components"] = position.topics.toarray()
            if self.n_stored:
                documents = chain.model.ranges.rows.documents
                draw.update(record_documents(chain.state.latents, documents.token_start, self.n_stored, len(ids)))
        return draw

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """Means over passes of the best chain, for the topics that are in use at its end and in half of the passes."""
        best = best_chain(chains)
        total, n_passes = chains[best].estimate()
        model = chains[best].model
        chosen = np.flatnonzero(2 * total.n_passes >= n_passes)
        if not len(chosen):  # no topic has been in use for so long
            chosen = np.arange(len(total.ids))
        chosen = chosen[np.argsort(-total.counts.totals[chosen] / total.n_passes[chosen], kind="stable")]
        passes = total.n_passes[chosen]
        counts = _mean_of_each(take_topics(total.counts, chosen), passes)
        alpha, gamma = total.alpha / n_passes, total.gamma / n_passes
        n_tables = total.n_tables[chosen] / passes
        weights = n_tables / (total.n_tables.sum() / n_passes + gamma)
        weights /= max(1.0, weights.sum())
        prior: TopicPrior = model.topic_prior(len(chosen))
        return {
            "best_chain_": best,
            "n_components_": len(chosen),
            "topic_ids_": total.ids[chosen],
            "topic_weights_": weights,
            "concentration_": alpha,
            "topic_concentration_": gamma,
            **prior_attributes(alpha * weights, prior),
            "_topic_counts": counts,
            "_estimate": prior.smooth(counts),
            "_n_counted_rows": self.n_rows,
            "_key": self.run.key,
        }

    def warn(self, fitted: dict[str, Any]) -> None:
        """Warn if the largest number of topics was reached."""
        most = self.admixture.max_components
        drawn = fitted["_posterior"]["n_components"]
        if max(fitted["n_components_"], drawn.max(initial=0)) >= most:
            warnings.warn(
                f"The number of topics reached max_components={most}, so that no further topics could begin: "
                "increase it, or begin with fewer topics.",
                ConvergenceWarning,
                stacklevel=6,
            )


def _topic_word_prior(prior: Any, n_features: int) -> np.ndarray:
    """The Dirichlet parameters of a topic, of shape () or (n_features,)."""
    values = np.asarray(prior)
    if values.shape not in ((), (n_features,)):
        raise ValueError(
            f"topic_word_prior must be a number or have shape ({n_features},), the same for all topics; got "
            f"{values.shape}."
        )
    return TopicPrior(values, 1, n_features).values


def _mean_of_each(total: TopicCounts, n_passes: np.ndarray) -> TopicCounts:
    """Mean counts, where each topic has its own number of passes."""
    shares = 1.0 / n_passes
    return total._replace(counts=(total.counts * shares[total.topics]).astype(np.float32), totals=total.totals * shares)


class TokenRowsShards(TokenShards):
    """A `ShardBuilder` that makes ranges of documents, all in memory."""

    def __init__(self, rounding_key: np.uint64, whom: str):
        super().__init__(np.empty(0), rounding_key, whom)

    def build(self, rows: Any, first_row: int, n_features: int, workers: Workers) -> TokenRows:  # type: ignore[override]  # no model of tokens
        """The documents of one shard."""
        counts, moved = self.whole(rows, first_row, n_features)
        return TokenRows(counts, first_row, workers, moved)


class ShardRanges:
    """Documents in shards; a handle is the number of a chain."""

    def __init__(self, shards: Any):
        self._shards = shards
        self.chains: Iterator[int] = itertools.count()

    @cached_property
    def lengths(self) -> list[np.ndarray]:
        """The numbers of tokens of the documents of each shard."""
        return self.ask("lengths", None)

    def forget(self) -> None:
        """Forget the shards, which have changed."""
        self.__dict__.pop("lengths", None)
        self.chains = itertools.count()

    def no_counts(self) -> Counted:
        """Counts of two sides, all zero."""
        return Counted.none(self._shards.n_rows, self._shards.n_features)

    def begin(self, start: Start, key: np.uint64) -> int:
        """Draw the topics of a new chain."""
        chain = next(self.chains)
        self._shards.begin_chain("begin", chain, start, key)
        return chain

    def ask(self, method: str, chain: int | None, *arguments: Any) -> list:
        """The results of a method of `TokenRows`, in the order of the shards."""
        return self._shards.ask_latents(method, chain, arguments)

    def ask_each(self, method: str, chain: int, arguments: list[tuple]) -> list:
        """The same with other arguments for each shard."""
        return self._shards.ask_latents(method, chain, *arguments)


class ShardedHDP(ShardedModel):
    """The model of documents in shards, which each pass asks several times; the `head` has `ShardRanges`."""

    head: HDPModel

    @property
    def _ranges(self) -> Any:
        return self.head.ranges

    def __getattr__(self, name: str) -> Any:
        """All else is that of the model, which asks the shards itself."""
        if name.startswith("__") or name == "head":
            raise AttributeError(name)
        return getattr(self.head, name)

    def in_burn_in(self, alpha: float | None, n_moves: int, merges_greedily: bool) -> Self:
        """A copy for a pass of burn-in."""
        other = copy(self)
        other.head = self.head.in_burn_in(alpha, n_moves, merges_greedily)
        return other

    def recover(self) -> None:
        """After the loss of a shard, load all rows again, without latents."""
        super().recover()
        self._ranges.forget()

    def resume(self, files: dict[int, list[LatentFile]], folder: str) -> None:
        """Read the latents of each chain from the files of the checkpoint."""
        super().resume(files, folder)
        self._ranges.chains = itertools.count(max(files, default=-1) + 1)
