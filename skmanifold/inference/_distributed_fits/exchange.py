"""What an estimator defines so that its rows can be in shards, what shards exchange in a pass, and stored latents."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...utils._disk import read_own, write_own
from ...utils._threads import Workers, split_range
from .session import cluster_worker

_VALUES, _ROWS = 1 << 24, 1 << 22  # maximum in a file, unless a single row has more, because a file is read as a whole
_POINTER = np.dtype("<i8")


class RowLatents(NamedTuple):
    """Latents of consecutive rows in the format of the files: row i has ``values[indptr[i]:indptr[i + 1]]``."""

    first_row: int
    indptr: np.ndarray
    values: np.ndarray


class LatentFile(NamedTuple):
    """One file in the header of a checkpoint; it has ``n_rows + 1`` pointers of eight bytes, then the values."""

    first_row: int
    n_rows: int
    n_values: int
    dtype: str
    digest: str

    def path(self, folder: str, chain: int) -> Path:
        """Path of the file."""
        return Path(folder) / f"latents-{chain}-{self.first_row}"

    def read(self, path: Path) -> tuple[np.ndarray, np.ndarray]:
        """Pointers and values; ValueError if the file does not match its checksum."""
        n_bytes = (self.n_rows + 1) * _POINTER.itemsize + self.n_values * np.dtype(self.dtype).itemsize
        content = read_own(path, n_bytes)
        if blake2b(content, digest_size=16).hexdigest() != self.digest:
            raise ValueError(f"{path.name} does not match its checksum")
        indptr = np.frombuffer(content, _POINTER, self.n_rows + 1)
        if indptr[0] != 0 or indptr[-1] != self.n_values or np.any(indptr[1:] < indptr[:-1]):
            raise ValueError(f"{path.name} does not assign its values to rows")
        return indptr, np.frombuffer(content, self.dtype, self.n_values, offset=indptr.nbytes)


def write_latents(parts: Iterable[RowLatents], chain: int, folder: str) -> list[LatentFile]:
    """Write the latents of one chain for consecutive rows."""
    written = []
    for first_row, indptr, values in itertools.chain.from_iterable(map(_cut, parts)):
        content = indptr.astype(_POINTER).tobytes(), np.ascontiguousarray(values).view(np.uint8).data
        digest = blake2b(content[0], digest_size=16)
        digest.update(content[1])
        file = LatentFile(first_row, len(indptr) - 1, len(values), values.dtype.str, digest.hexdigest())
        write_own(file.path(folder, chain), *content)
        written.append(file)
    return written


def _cut(part: RowLatents) -> Iterator[RowLatents]:
    """Divide latents into parts, one for each file."""
    start, n_rows = 0, len(part.indptr) - 1
    while start < n_rows:
        first = part.indptr[start]
        stop = int(np.searchsorted(part.indptr, first + _VALUES, "right")) - 1
        stop = min(max(stop, start + 1), start + _ROWS, n_rows)
        values = part.values[first : part.indptr[stop]]
        yield RowLatents(part.first_row + start, part.indptr[start : stop + 1] - first, values)
        start = stop


def listed_files(nodes: Any, n_rows: int, dtype: np.dtype | None) -> list[LatentFile]:
    """The files of one chain in a header's list, parsed JSON; ValueError unless every row is in exactly one."""
    if not isinstance(nodes, list) or not all(isinstance(node, list) and len(node) == 5 for node in nodes):
        raise ValueError("its list of latents is not valid")
    typed = (node for node in nodes if [*map(type, node)] == [int, int, int, str, str])
    files = sorted(itertools.starmap(LatentFile, typed), key=itemgetter(0))
    if any(dtype is None or file.dtype != dtype.str for file in files):
        raise ValueError("its latents have a different type from those of this sampler")
    ends = [0, *itertools.accumulate(file.n_rows for file in files)]
    is_whole = [file.first_row for file in files] == ends[:-1] and ends[-1] == (0 if dtype is None else n_rows)
    if len(files) < len(nodes) or not is_whole or any(file.n_rows < 1 or file.n_values < 0 for file in files):
        raise ValueError("its list of latents does not contain every row exactly once")
    return files


def read_latents(files: list[LatentFile], chain: int, folder: str, start: int, stop: int) -> RowLatents:
    """Latents of the rows `start` to `stop` of one chain; ValueError if a file does not match its checksum."""
    lengths, values = [], []
    for file in files:
        low, high = max(start - file.first_row, 0), min(stop - file.first_row, file.n_rows)
        if low < high:
            indptr, stored = file.read(file.path(folder, chain))
            lengths.append(np.diff(indptr[low : high + 1]))
            values.append(stored[indptr[low] : indptr[high]])
    return RowLatents(start, np.concatenate(([0], np.cumsum(np.concatenate(lengths)))), np.concatenate(values))


# They exchange pieces of the position, and parts of the statistics that each of them merges.
#
# Shards are in groups of about equal size. The client sends each shard of a group one piece of the pickled position,
# and the shards fetch the other pieces from each other. After its rows each shard divides its statistics into one part
# for each shard of its group, and merges the parts of all that belong to it. So a shard receives a position and sends
# and receives about its statistics, for any number of shards. The client sends and receives one copy for each group,
# and merges the statistics of the groups. With one shard in each group there are the fewest rounds of messages.

_FEW_BYTES = 1 << 24  # of a position, which the client can send to several groups of shards
_MOST_GROUPS = 4
MAX_LOST = 10  # number of worker failures after which a run, or the transfer of rows, is aborted


class ShardBuilder(Protocol):
    """How an estimator makes models of parts of its data; pickled and sent to the workers with the rows.

    It may have lossless ``pack(value)`` and ``unpack(packed)`` for what is sent, and ``cut(statistics, n)`` and
    ``join(parts)``, so that shards merge different parts: independent of the rows, with ``join(cut(statistics, n))``
    the same statistics. Methods for ``ask(method, *arguments)`` of shards have the model as first argument.
    """

    def read(self, blocks: list) -> tuple[Any, int, int]:
        """The validated rows of the blocks of one shard, their number, and their number of columns."""

    def build(self, rows: Any, first_row: int, n_features: int, workers: Workers) -> Any:
        """A model of these rows; `first_row` is the index of the first one in the whole data."""

    def merge(self, left: Any, right: Any) -> Any:
        """Merge the statistics of adjacent ranges of rows."""


class SummarizingShardBuilder(Protocol):
    """The same for models that depend on all rows; the client makes their builder from summaries of the shards."""

    def read(self, blocks: list) -> tuple[Any, int, int]:
        """The rows of the blocks of one shard, their number, and their number of columns."""

    def summarize(self, rows: Any, first_row: int, n_all_rows: int, n_features: int) -> tuple[Any, Any]:
        """The rows to keep, for `build` of the builder of the models, and a summary of them."""

    def builder_of(self, summaries: list) -> ShardBuilder:
        """The builder of the models, after the summaries of all shards in the order of the rows."""


AnyShardBuilder = ShardBuilder | SummarizingShardBuilder


class LostShardError(RuntimeError):
    """Raised if a worker failed or stopped, so that its rows and latents are lost."""


class LostClusterError(RuntimeError):
    """Raised if the scheduler does not answer, or the connection to it was closed."""


class PassCall(NamedTuple):
    """What the client sends to one of the shards at the start of a pass."""

    number: int  # of the pass, in the order of all passes of all chains
    oldest: int  # number of the oldest pass that has not ended
    method: str
    chain: int
    key: np.uint64 | None
    place: int  # of this shard in ...
    shards: list  # ... proxies of all shards
    piece: bytes | None  # of the position, if the pass has one

    async def ask_others(self, method: str, own: Any, *arguments: Any, until: asyncio.Future) -> list:
        """Answers of all shards to a call about this pass, in order; this shard's is `own`.

        LostShardError if `until` is done before all have answered.
        """
        asked = {
            place: asyncio.ensure_future(_awaited(getattr(shard, method)(self.number, *arguments)))
            for place, shard in enumerate(self.shards)
            if place != self.place
        }
        waiting = set(asked.values())
        try:
            while waiting:
                done, _ = await asyncio.wait({*waiting, until}, return_when=asyncio.FIRST_COMPLETED)
                if until in done:
                    raise LostShardError("The pass was given up.")
                waiting -= done
                for answer in done:
                    answer.result()  # raises its error
        finally:
            for answer in asked.values():
                if not answer.cancel() and not answer.cancelled():
                    answer.exception()  # otherwise a second error is reported as never retrieved
        return [own if place == self.place else asked[place].result() for place in range(len(self.shards))]


async def _awaited(answer: Any) -> Any:
    """The answer of a proxy, which can only be awaited by a coroutine."""
    return await answer


class Box:
    """What one shard has for the others in one pass."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.piece: asyncio.Future = loop.create_future()
        self.parts: asyncio.Future = loop.create_future()
        self.given_up: asyncio.Future = loop.create_future()

    def fail(self, error: Exception) -> None:
        """Raise the error in shards that wait for this one."""
        for content in (self.piece, self.parts):
            if not content.done():
                content.set_exception(error)
                content.exception()  # otherwise it is reported as never retrieved if no shard waits

    def give_up(self) -> None:
        """End the wait of this shard for others."""
        if not self.given_up.done():
            self.given_up.set_result(None)


async def in_thread(function: Callable, *arguments: Any) -> Any:
    """Call a function in the thread that the worker has for its shards, so that several fits take turns."""
    worker = cluster_worker()
    executor = worker.executors["actor"] if worker else None
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(executor, context.run, function, *arguments)


def groups_of(n_shards: int, n_bytes: int) -> list[tuple[int, int]]:
    """Ranges of the shards that exchange parts of a position of this size; the client merges their statistics."""
    n_groups = _MOST_GROUPS if n_bytes < _FEW_BYTES else 1
    return split_range(n_shards, -(-n_shards // n_groups))


def pieces_of(sent: bytes | None, n: int) -> list[bytes | None]:
    """Divide a pickle into `n` pieces."""
    if sent is None or n == 1:
        return [sent] * n
    size = -(-len(sent) // n)
    return [sent[i * size : (i + 1) * size] for i in range(n)]


def packed_parts(builder: Any, statistics: Any, n: int) -> list:
    """At most `n` parts of the statistics, packed."""
    parts = builder.cut(statistics, n) if n > 1 and hasattr(builder, "cut") else [statistics]
    return [packed(builder, part) for part in parts]


def joined_parts(builder: Any, parts: Sequence) -> Any:
    """The inverse of `packed_parts`; shards without a part give None."""
    whole = [unpacked(builder, part) for part in parts if part is not None]
    return builder.join(whole) if len(whole) > 1 else whole[0]


def merge_packed(builder: ShardBuilder, received: list) -> Any:
    """Merge the same part of all shards, which are in the order of their rows."""
    if len(received) == 1:
        return received[0]
    return packed(builder, merged(builder, [unpacked(builder, part) for part in received]))


def merged(builder: ShardBuilder, statistics: list) -> Any:
    """Merge statistics of consecutive ranges of rows, in pairs."""
    while len(statistics) > 1:
        pairs = zip(statistics[0::2], statistics[1::2], strict=False)
        statistics = [builder.merge(*pair) for pair in pairs] + statistics[len(statistics) & ~1 :]
    return statistics[0]


def packed(builder: ShardBuilder, value: Any) -> Any:
    """Pack a position or statistics for sending."""
    return builder.pack(value) if hasattr(builder, "pack") else value


def unpacked(builder: ShardBuilder, value: Any) -> Any:
    """The inverse of `packed`."""
    return builder.unpack(value) if hasattr(builder, "unpack") else value
