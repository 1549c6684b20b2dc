"""Creation of the shards and checkpoints of a fit, from the current session."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...utils._threads import Workers
from .checkpoints import Checkpoints, describe_run
from .dask_shards import DaskShards
from .session import active_session
from .shard_builder import AnyShardBuilder
from .shards import LocalShards, ShardedModel


def open_shards(builder: AnyShardBuilder, source: Any, workers: Workers) -> LocalShards | DaskShards:
    """Shards with the rows of a source, on the workers of the session's cluster, or in this process with `workers`."""
    session = active_session()
    if session is None or session.client is None:
        return LocalShards(builder, source.split(1)[0], workers)
    again = "run the same fit again on a new cluster"
    if session.checkpoint_dir is None:
        advice = f"{again} (with checkpoint_dir it would continue from its last checkpoint)"
    else:
        advice = f"{again}, and it continues from its last checkpoint in {session.checkpoint_dir}"
    return DaskShards(session.client, builder, source, session.worker_timeout, advice)


def checkpoints_of(estimator: Any, key: np.uint64, model: ShardedModel) -> Checkpoints | None:
    """The checkpoints of the fit, or None."""
    session = active_session()
    if session is None or session.checkpoint_dir is None:
        return None
    run = describe_run(estimator, key, (model.shards.n_rows, model.shards.n_features))
    return Checkpoints(session.checkpoint_dir, session.checkpoint_every, run, key)
