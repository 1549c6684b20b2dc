"""What an estimator defines so that its rows can be in shards."""

from __future__ import annotations

from typing import Any, Protocol

from ...utils._threads import Workers


class ShardBuilder(Protocol):
    """How an estimator makes models of parts of its data; pickled and sent to the workers with the rows.

    It may have lossless ``pack(value)`` and ``unpack(packed)`` for what is sent, and ``cut(statistics, n)`` and
    ``join(parts)``, so that shards merge different parts: independent of the rows, with ``join(cut(statistics, n))``
    the same statistics. Methods for ``ask(method, *arguments)`` of shards have the model as first argument.
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


class UnsettledShardBuilder(Protocol):
    """The same for models that depend on all rows; the client makes their builder from summaries of the shards."""

    def read(self, blocks: list) -> tuple[Any, int, int]:
        """The rows of the blocks of one shard, their number, and their number of columns."""
        ...

    def summarize(self, rows: Any, first_row: int, n_all_rows: int, n_features: int) -> tuple[Any, Any]:
        """The rows to keep, for `build` of the builder of the models, and a summary of them."""
        ...

    def settle(self, summaries: list) -> ShardBuilder:
        """The builder of the models, after the summaries of all shards in the order of the rows."""
        ...


AnyShardBuilder = ShardBuilder | UnsettledShardBuilder
