"""The hierarchical Dirichlet process with its documents in shards."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np

from ...inference._distributed_fits.shards import ShardedModel
from ...inference._distributed_fits.stored_latents import LatentFile
from ...utils._threads import Workers
from .._tokens.shards import TokenShards
from .model import HDPModel, HDPPosition
from .starts import Start
from .statistics import HDPStatistics
from .token_rows import TokenRows
from .two_sides import Counted


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
    """The model of documents in shards: each pass asks them several times.

    Parameters
    ----------
    head : HDPModel
        The model, with `ShardRanges`.
    shards : LocalShards or DaskShards
        The documents.
    """

    _head: HDPModel

    @property
    def _ranges(self) -> Any:
        return self._head.ranges

    def init_rows(self, key: np.uint64) -> tuple[int, HDPStatistics]:
        """The topics of the tokens at the start."""
        return self._head.init_rows(key)

    def sample_rows(self, position: HDPPosition, chain: int, key: np.uint64) -> tuple[int, HDPStatistics, float]:
        """Redraw the topics of all tokens."""
        return self._head.sample_rows(position, chain, key)

    def topic_prior(self, n_topics: int) -> Any:
        """The prior of this number of topics."""
        return self._head.topic_prior(n_topics)

    def in_burn_in(self, alpha: float | None, n_moves: int, merges_greedily: bool) -> Self:
        """A copy for a pass of burn-in."""
        other = copy(self)
        other._head = self._head.in_burn_in(alpha, n_moves, merges_greedily)
        return other

    def recover(self) -> None:
        """After the loss of a shard, load all rows again, without latents."""
        super().recover()
        self._ranges.forget()

    def resume(self, files: dict[int, list[LatentFile]], folder: str) -> None:
        """Read the latents of each chain from the files of the checkpoint."""
        super().resume(files, folder)
        self._ranges.chains = itertools.count(max(files, default=-1) + 1)
