"""Models whose rows are divided into shards, in this process or on the workers of a cluster."""

from __future__ import annotations

import asyncio
import atexit
import gc
import itertools
import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from joblib import parallel_config

from ...utils._threads import Workers, limit_threads
from .stored_latents import LatentFile, StoredLatents, write_latents

# Names that need all rows, and names that only need statistics or parameters, for which a model without rows is enough.
_OF_ROWS = frozenset(
    {"init_latents", "sample_latents", "sample_given_others", "init_rows", "sample_rows", "expect_latents"}
)
_OF_STATISTICS = frozenset({"mode", "draw", "log_prior", "log_joint", "approximate"})
_OF_CHECKPOINTS = frozenset({"latent_type", "check_position", "check_statistics"})  # of latents that other shards wrote


_REPLY = 3600.0  # maximum time in seconds for the answer of another shard, so that this one can be released


class LostShardError(RuntimeError):
    """Raised if a worker failed or stopped, so that its rows and latents are lost."""


class ShardBuilder(Protocol):
    """How an estimator makes models of parts of its data; pickled and sent to the workers with the rows.

    It may have lossless ``pack(value)`` and ``unpack(packed)`` for positions and statistics that are sent.
    """

    def read(self, blocks: list) -> tuple[Any, int, int]:
        """The validated rows of the blocks of one shard, their number, and their number of columns."""
        ...

    def build(self, rows: Any, first_row: int, n_features: int, workers: Workers) -> Any:
        """A model of these rows; `first_row` is the index of the first one in the whole data."""
        ...

    def merge(self, left: Any, right: Any) -> Any:
        """Merge the statistics of adjacent ranges of rows."""
        ...


class Shard:
    """Consecutive rows: their model, and the latents of every chain.

    Parameters
    ----------
    builder : ShardBuilder
        Converts blocks to rows, and rows to a model.
    blocks : list
        The blocks of data that contain the rows.
    """

    def __init__(self, builder: ShardBuilder, blocks: list):
        self.builder = builder
        self.rows, self.n_rows, self.n_features = builder.read(blocks)
        self.latents: dict[int, Any] = {}
        self.held: dict[int, Any] = {}  # by chain: the position received, possibly packed, then statistics

    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.n_rows, self.n_features

    def begin(self, first_row: int, n_features: int, workers: Workers | None = None) -> None:
        """Make the model; its kernels use the given threads, or those of the cluster's worker."""
        if workers is None:
            worker = _cluster_worker()
            with parallel_config("threading"):  # joblib's default backend allows no threads in a daemonic process
                workers = Workers(worker.state.nthreads if worker else 1)
            atexit.unregister(gc.freeze)
            atexit.register(gc.freeze)  # no final garbage collection of the compiler's objects when the process ends
        self.first_row = first_row
        self.model = self.builder.build(self.rows, first_row, n_features, workers)

    def model_attribute(self, name: str) -> Any:
        """The attribute of the model with this name."""
        return getattr(self.model, name)

    def hold(self, chain: int, value: Any) -> None:
        """Store an object that `run` or another shard needs."""
        self.held[chain] = value

    def held_by(self, chain: int) -> Any:
        """The stored object, for another shard."""
        return self.held[chain]

    def take(self, chain: int) -> Any:
        """Remove and return the stored object."""
        return self.held.pop(chain)

    def send(self, chain: int) -> Any:
        """Remove and return the stored object, packed for sending."""
        return packed(self.builder, self.take(chain))

    def run(self, method: str, chain: int, key: np.uint64 | None) -> float:
        """Call a method of the model, and store its latents and statistics; returns the log likelihood, if any."""
        ask, position = getattr(self.model, method), unpacked(self.builder, self.held.pop(chain, None))
        with limit_threads("blas"):  # rounding depends on the number of threads
            if method.startswith("init"):
                latents, statistics = ask(key)
                log_likelihood = np.nan
            elif method.startswith("expect"):
                latents, (statistics, log_likelihood) = None, ask(position)
            else:
                latents, statistics, log_likelihood = ask(position, self.latents.get(chain), key)
        self.held[chain] = statistics
        if latents is not None:
            self.latents[chain] = latents
        return log_likelihood

    # A worker has one thread for all its shards, so methods that wait for another shard are coroutines.

    async def absorb(self, chain: int, other: Any) -> None:
        """Merge the stored statistics of the shard with the next rows into those stored here."""
        sent = await _reply(other.send(chain))
        await asyncio.to_thread(self._merge, chain, sent)

    async def fetch(self, chain: int, other: Any) -> None:
        """Copy the stored object of another shard."""
        self.held[chain] = await _reply(other.held_by(chain))

    def _merge(self, chain: int, sent: Any) -> None:
        self.held[chain] = self.builder.merge(self.held[chain], unpacked(self.builder, sent))

    def hash_rows(self, key: np.uint64) -> int:
        """A hash of the contents and positions of the rows; the hashes of all shards are summed modulo 2**64."""
        return self.model.hash_rows(key)

    def save(self, chain: int, folder: str) -> list[LatentFile]:
        """Write the latents of one chain."""
        return write_latents(self.model.pack_latents(self.latents[chain]), chain, folder)

    def load(self, chain: int, folder: str, files: list[LatentFile]) -> None:
        """Read the latents of one chain, which other shards may have written."""
        self.latents[chain] = self.model.unpack_latents(StoredLatents(folder, chain, files).read)


class LocalShards:
    """One shard in this process.

    Parameters
    ----------
    builder : ShardBuilder
    blocks : list
    workers : Workers
        Threads for the kernels of the model.
    """

    def __init__(self, builder: ShardBuilder, blocks: list, workers: Workers):
        self._shard = Shard(builder, blocks)
        self._shard.begin(0, self._shard.n_features, workers)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._shard.n_rows

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self._shard.n_features

    def call(self, method: str, chain: int, position: Any, key: np.uint64 | None) -> tuple[Any, float]:
        """Statistics and log likelihood."""
        self._shard.hold(chain, position)
        log_likelihood = self._shard.run(method, chain, key)
        return self._shard.take(chain), log_likelihood

    def total(self, name: str) -> int:
        """The model's attribute with this name."""
        return self._shard.model_attribute(name)

    def hash_rows(self, key: np.uint64) -> int:
        """A hash of the contents and order of all rows."""
        return self._shard.hash_rows(key)

    def save(self, chains: list[int], folder: str) -> dict[int, list[LatentFile]]:
        """Write the latents of these chains."""
        return {chain: self._shard.save(chain, folder) for chain in chains}

    def load(self, files: dict[int, list[LatentFile]], folder: str) -> None:
        """Read the latents of each chain."""
        for chain, of_chain in files.items():
            self._shard.load(chain, folder, of_chain)

    def recover(self) -> None:
        """Do nothing: these rows can only be lost with the process."""

    def close(self) -> None:
        """Release the latents, which may be on disk."""
        self._shard.latents.clear()


class ShardedModel:
    """A model whose rows are in shards: it merges their statistics, and has parameters made by a model without rows.

    It has the attributes of both. Samplers that keep latents get the number of their chain in place of the latents.

    Parameters
    ----------
    head : object
        The model, without rows.
    shards : LocalShards or DaskShards
        The rows.
    """

    def __init__(self, head: Any, shards: Any):
        self._head = head
        self.shards = shards
        self._chains = itertools.count()

    @property
    def head(self) -> Any:
        """The model without rows."""
        return self._head

    def with_head(self, head: Any) -> ShardedModel:
        """The same rows with another model without rows, of the same shapes."""
        other = ShardedModel(head, self.shards)
        other._chains = self._chains
        return other

    @property
    def n_rows(self) -> int:
        """Rows of all shards."""
        return self.shards.n_rows

    @cached_property
    def n_tokens(self) -> int:
        """Tokens of all shards, of models with tokens."""
        return self.shards.total("n_tokens")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_head":
            raise AttributeError(name)
        answer = getattr(self._head, name)
        if name in _OF_ROWS:
            return self._asked_of_rows(name)
        if callable(answer) and name not in _OF_STATISTICS | _OF_CHECKPOINTS:
            raise AttributeError(f"Rows in shards do not answer {name}.")
        return answer

    def _asked_of_rows(self, method: str) -> Callable:
        def call(*arguments: Any) -> tuple[Any, float]:
            return self.shards.call(method, *arguments)

        def init(key: np.uint64) -> tuple[int, Any]:
            chain = next(self._chains)
            return chain, call(chain, None, key)[0]

        def sample(position: Any, chain: int, key: np.uint64) -> tuple[int, Any, float]:
            send = getattr(self._head, "for_rows", None)  # other parts of the model that may change between passes
            return chain, *call(chain, send(position) if send else position, key)

        def expect(position: Any) -> tuple[Any, float]:
            return call(next(self._chains), position, None)

        return init if method.startswith("init") else expect if method.startswith("expect") else sample

    def recover(self) -> None:
        """After the loss of a shard, load all rows again, without latents."""
        self.shards.recover()
        self._chains = itertools.count()

    def close(self) -> None:
        """Release rows and latents; only parameters and statistics are available afterwards."""
        self.shards.close()

    def resume(self, files: dict[int, list[LatentFile]], folder: str) -> None:
        """Read the latents of each chain from the files of the checkpoint."""
        self.shards.load(files, folder)
        self._chains = itertools.count(max(files, default=-1) + 1)


async def _reply(answer: Any) -> Any:
    """The answer of another shard, called through the proxy of an actor."""
    try:
        return await asyncio.wait_for(answer, _REPLY)
    except TimeoutError as error:
        raise LostShardError(f"A shard did not answer another within {_REPLY:.0f} seconds.") from error


def packed(builder: ShardBuilder, value: Any) -> Any:
    """Pack a position or statistics for sending."""
    return builder.pack(value) if hasattr(builder, "pack") else value


def unpacked(builder: ShardBuilder, value: Any) -> Any:
    """The inverse of `packed`."""
    return builder.unpack(value) if hasattr(builder, "unpack") else value


def scratch_folder() -> str | None:
    """The folder for temporary files: on a cluster that of the worker, which removes it at the end."""
    worker = _cluster_worker()
    return worker.local_directory if worker else None


def _cluster_worker() -> Any:
    """The worker of a Dask cluster that runs this code, or None."""
    try:
        return sys.modules["distributed"].get_worker()
    except (KeyError, ValueError):
        return None
