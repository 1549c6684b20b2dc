"""Times of the parts of a pass of a distributed fit, in the client and in the workers."""

from __future__ import annotations

import pickle
import time
from collections import defaultdict
from types import SimpleNamespace

from skmanifold.inference._distributed_fits import dask_shards, shards

_spent: dict[str, list[float]] = defaultdict(list)


def watch(where):
    """Time the parts of a pass in this process: a worker, or the client."""

    def clocked(owner, name, label, size_as=None):
        function = getattr(owner, name)

        def call(*arguments, **options):
            start = time.perf_counter()
            value = function(*arguments, **options)
            _spent[label].append(time.perf_counter() - start)
            if size_as:
                _spent[size_as].append(len(value))
            return value

        setattr(owner, name, call)

    if where == "worker":
        clocked(shards.Shard, "run", "rows")
        shards.pickle = SimpleNamespace(loads=pickle.loads)
        clocked(shards.pickle, "loads", "rebuild")
        clocked(shards, "unpacked", "rebuild")
        clocked(shards, "packed_parts", "pack")
        clocked(shards, "merge_packed", "merge")
    else:
        clocked(dask_shards, "packed", "client: pack")
        dask_shards.pickle = SimpleNamespace(dumps=pickle.dumps)
        clocked(dask_shards.pickle, "dumps", "client: pack", size_as="bytes")
        clocked(dask_shards, "joined_parts", "client: unpack")
        clocked(dask_shards, "merged", "client: merge")
        clocked(dask_shards.DaskShards, "call", "call")
        clocked(dask_shards.DaskShards, "total", "empty calls")


def take():
    """The times of this process since the last call."""
    found = {name: list(values) for name, values in _spent.items()}
    _spent.clear()
    return found
