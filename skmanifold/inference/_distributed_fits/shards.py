"""Models whose rows are divided into shards, in this process or on the workers of a cluster."""

from __future__ import annotations

import asyncio
import atexit
import gc
import itertools
import pickle
from collections.abc import Callable
from copy import deepcopy
from functools import cached_property, partial
from typing import Any

import numpy as np
from joblib import parallel_config

from ...utils._threads import Workers, limit_threads
from .exchange import (
    MAX_LOST,
    AnyShardBuilder,
    Box,
    LatentFile,
    LostShardError,
    PassCall,
    ShardBuilder,
    in_thread,
    merge_packed,
    packed_parts,
    read_latents,
    unpacked,
    write_latents,
)
from .session import cluster_worker

# Names that need all rows, and names that only need statistics or parameters, for which a model without rows is enough.
_OF_ROWS = frozenset(
    {"init_latents", "sample_latents", "sample_given_others", "init_rows", "sample_rows", "expect_latents"}
)
_OF_STATISTICS = frozenset({"mode", "draw", "log_prior", "log_joint", "approximate"})
_OF_CHECKPOINTS = frozenset({"latent_type", "check_position", "check_statistics"})  # of latents that other shards wrote


class Shard:
    """Consecutive rows, those of `blocks`: their model, made by the builder, and the latents of every chain."""

    def __init__(self, builder: AnyShardBuilder, blocks: list):
        self.builder: Any = builder
        self.rows, self.n_rows, self.n_features = builder.read(blocks)
        self.latents: dict[int | None, Any] = {}
        self._boxes: dict[int, Box] = {}  # by pass: what the other shards need

    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.n_rows, self.n_features

    def summarize(self, first_row: int, n_all_rows: int, n_features: int) -> Any:
        """What the builder needs to know of the rows before models can be made."""
        self.rows, summary = self.builder.summarize(self.rows, first_row, n_all_rows, n_features)
        return summary

    def begin(
        self, first_row: int, n_features: int, builder: ShardBuilder | None = None, workers: Workers | None = None
    ) -> None:
        """Make the model; its kernels use the given threads, or those of the cluster's worker."""
        self.builder = builder or self.builder
        self._is_remote = workers is None
        if workers is None:
            worker = cluster_worker()
            with parallel_config("threading"):  # joblib's default backend allows no threads in a daemonic process
                workers = Workers(worker.state.nthreads if worker else 1)
            atexit.unregister(gc.freeze)
            atexit.register(gc.freeze)  # no final garbage collection of the compiler's objects when the process ends
        self.first_row = first_row
        self.model = self.builder.build(self.rows, first_row, n_features, workers)
        self.rows = None  # the model has what it needs

    def model_attribute(self, name: str) -> Any:
        """The attribute of the model with this name."""
        return getattr(self.model, name)

    def ask(self, method: str, *arguments: Any) -> Any:
        """What a method of the builder returns for the model."""
        with limit_threads("blas"):
            return getattr(self.builder, method)(self.model, *arguments)

    def begin_chain(self, method: str, chain: int, *arguments: Any) -> None:
        """Store what a method of the model returns as the latents of a chain."""
        self.latents[chain] = getattr(self.model, method)(*self._owned(arguments))

    def ask_latents(self, method: str, chain: int | None, *arguments: Any) -> Any:
        """What a method of the model returns for the latents of a chain, which it may change."""
        return getattr(self.model, method)(self.latents.get(chain), *self._owned(arguments))

    def _owned(self, arguments: tuple) -> tuple:
        """Copies of arguments from another process: received arrays are read-only, which needs other kernels."""
        return deepcopy(arguments) if self._is_remote else arguments

    def run(self, method: str, chain: int, position: Any, key: np.uint64 | None) -> tuple[Any, float]:
        """Call a method of the model, and store its latents; returns statistics and the log likelihood, if any."""
        ask = getattr(self.model, method)
        with limit_threads("blas"):  # rounding depends on the number of threads
            if method.startswith("init"):
                latents, statistics = ask(key)
                log_likelihood = np.nan
            elif method.startswith("expect"):
                latents, (statistics, log_likelihood) = None, ask(position)
            else:
                latents, statistics, log_likelihood = ask(position, self.latents.get(chain), key)
        if latents is not None:
            self.latents[chain] = latents
        return statistics, log_likelihood

    # A worker has one thread for all its shards, so methods that wait for another shard are coroutines.

    async def make_pass(self, call: PassCall) -> tuple[Any, float]:
        """`run` as one of several shards; returns the part of the merged statistics that belongs to this shard."""
        box = self._box(call.number)
        for number in [number for number in self._boxes if number < call.oldest]:
            del self._boxes[number]
        try:
            box.piece.set_result(call.piece)
            pieces = await call.ask_others("piece_of", call.piece, until=box.given_up) if call.piece is not None else []
            parts, log_likelihood = await in_thread(self._run_on_pieces, call, pieces)
            box.parts.set_result(parts)
            if call.place >= len(parts):
                return None, log_likelihood
            received = await call.ask_others("part_of", parts[call.place], call.place, until=box.given_up)
            return await in_thread(merge_packed, self.builder, received), log_likelihood
        except Exception as error:
            box.fail(error)
            raise

    async def give_up(self) -> None:
        """End all passes that wait for other shards, which may never answer, so that the rows are released."""
        for box in self._boxes.values():
            box.give_up()

    async def piece_of(self, number: int) -> bytes:
        """The piece of the position of a pass that was sent to this shard, for another one."""
        return await asyncio.shield(self._box(number).piece)

    async def part_of(self, number: int, place: int) -> Any:
        """A part of this shard's statistics of a pass, packed, for the shard at this place."""
        return (await asyncio.shield(self._box(number).parts))[place]

    def _box(self, number: int) -> Box:
        """The box of a pass, of which another shard may hear before this one."""
        if number not in self._boxes:
            self._boxes[number] = Box()
        return self._boxes[number]

    def _run_on_pieces(self, call: PassCall, pieces: list[bytes]) -> tuple[list, float]:
        """Run a pass; returns the packed parts of the statistics."""
        position = unpacked(self.builder, pickle.loads(b"".join(pieces))) if pieces else None
        statistics, log_likelihood = self.run(call.method, call.chain, position, call.key)
        return packed_parts(self.builder, statistics, len(call.shards)), log_likelihood

    def hash_rows(self, key: np.uint64) -> int:
        """A hash of the contents and positions of the rows; the hashes of all shards are summed modulo 2**64."""
        return self.model.hash_rows(key)

    def save(self, chain: int, folder: str) -> list[LatentFile]:
        """Write the latents of one chain."""
        return write_latents(self.model.pack_latents(self.latents[chain]), chain, folder)

    def load(self, chain: int, folder: str, files: list[LatentFile]) -> None:
        """Read the latents of one chain, which other shards may have written."""
        self.latents[chain] = self.model.unpack_latents(partial(read_latents, files, chain, folder))


class Shards:
    """Rows in shards: what is asked of all of them."""

    builder: Any  # of the models
    n_rows: int
    n_features: int

    def _on_all(self, method: str, *arguments: tuple) -> list:
        """What a method returns for each shard, in the order of the rows.

        There is one tuple of arguments for all shards, or one for each of them.
        """
        raise NotImplementedError

    def call(self, method: str, chain: int, position: Any, key: np.uint64 | None) -> tuple[Any, float]:
        """Statistics and log likelihood of all shards after a method of their models."""
        raise NotImplementedError

    def of_each(self, name: str) -> list:
        """The model's attribute with this name, for each shard."""
        return self._on_all("model_attribute", (name,))

    def total(self, name: str) -> int:
        """Sum over shards of the model's attribute with this name."""
        return sum(self.of_each(name))

    def ask(self, method: str, *arguments: Any) -> list:
        """What a method of the builder returns for the model of each shard."""
        return self._on_all("ask", (method, *arguments))

    def begin_chain(self, method: str, chain: int, *arguments: Any) -> None:
        """Store what a method of the model of each shard returns as the latents of a chain."""
        self._on_all("begin_chain", (method, chain, *arguments))

    def ask_latents(self, method: str, chain: int | None, *arguments: tuple) -> list:
        """What a method of the model of each shard returns for the latents of a chain; arguments as in `_on_all`."""
        return self._on_all("ask_latents", *((method, chain, *of_shard) for of_shard in arguments))

    def hash_rows(self, key: np.uint64) -> int:
        """A hash of the contents and order of all rows."""
        return sum(self._on_all("hash_rows", (key,))) % 2**64

    def save(self, chains: list[int], folder: str) -> dict[int, list[LatentFile]]:
        """Write the latents of these chains."""
        return {chain: [file for files in self._on_all("save", (chain, folder)) for file in files] for chain in chains}

    def load(self, files: dict[int, list[LatentFile]], folder: str) -> None:
        """Read the latents of each chain."""
        for chain, of_chain in files.items():
            self._on_all("load", (chain, folder, of_chain))

    def recover(self) -> None:
        """Load rows that were lost again; those of this process can only be lost with it."""

    def close(self) -> None:
        """Release the rows and latents."""
        raise NotImplementedError


class LocalShards(Shards):
    """One shard in this process, whose kernels use the threads of `workers`."""

    def __init__(self, builder: AnyShardBuilder, blocks: list, workers: Workers):
        self._shard = Shard(builder, blocks)
        self.n_rows, self.n_features = self._shard.shape()
        if hasattr(builder, "builder_of"):
            builder = builder.builder_of([self._shard.summarize(0, self.n_rows, self.n_features)])
        self._shard.begin(0, self.n_features, builder, workers)
        self.builder = self._shard.builder

    def _on_all(self, method: str, *arguments: tuple) -> list:
        return [getattr(self._shard, method)(*arguments[0])]

    def call(self, method: str, chain: int, position: Any, key: np.uint64 | None) -> tuple[Any, float]:
        """Statistics and log likelihood."""
        return self._shard.run(method, chain, position, key)

    def close(self) -> None:
        """Release the latents, which may be on disk."""
        self._shard.latents.clear()


class ShardedModel:
    """A model whose rows are in shards: it merges their statistics; `head`, a model without rows, makes parameters.

    It has the attributes of both. Samplers that keep latents get the number of their chain in place of the latents.

    Parameters
    ----------
    head : object
        The model, without rows.
    shards : Shards
        The rows.
    """

    def __init__(self, head: Any, shards: Any):
        self.head = head
        self.shards = shards
        self._chains = itertools.count()

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
        if name.startswith("__") or name == "head":
            raise AttributeError(name)
        answer = getattr(self.head, name)
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
            send = getattr(self.head, "for_rows", None)  # other parts of the model that may change between passes
            return chain, *call(chain, send(position) if send else position, key)

        def expect(position: Any) -> tuple[Any, float]:
            return call(next(self._chains), position, None)

        return init if method.startswith("init") else expect if method.startswith("expect") else sample

    def ask(self, method: str, *arguments: Any) -> list:
        """What a method of the builder returns for the model of each shard; rows are loaded again if one is lost."""
        for _ in range(MAX_LOST):
            try:
                return self.shards.ask(method, *arguments)
            except LostShardError:
                self.recover()
        return self.shards.ask(method, *arguments)

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
