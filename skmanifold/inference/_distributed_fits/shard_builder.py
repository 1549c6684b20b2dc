"""What an estimator defines so that its rows can be in shards."""

from __future__ import annotations

from typing import Any, Protocol

from ...utils._threads import Workers


class ShardBuilder(Protocol):
    """How an estimator makes models of parts of its data; pickled and sent to the workers with the rows.

    It may have lossless ``pack(value)`` and ``unpack(packed)`` for positions and statistics that are sent, and
    ``cut(statistics, n)`` and ``join(parts)``, with which different shards merge different parts of the statistics. The
    parts must not depend on the rows, ``join(cut(statistics, n))`` must be the same statistics, and parts must merge to
    the parts of the merged statistics.

    If the model depends on all rows, it has ``summarize(rows, first_row, n_all_rows, n_features)``, which returns the
    rows to keep and a summary of them, and ``settle(summaries)``, which returns the builder of the models. Methods for
    ``ask(method, *arguments)`` of the shards have the model as their first argument.
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
