"""The context manager for fits on a Dask cluster, and the worker of a cluster that runs this code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from typing import Any, NamedTuple

_ACTIVE: ContextVar[Session | None] = ContextVar("skmanifold_session", default=None)


class Session(NamedTuple):
    """The arguments of `distributed`."""

    client: Any  # None: only this process
    checkpoint_dir: str | None
    checkpoint_every: int
    worker_timeout: float


def active_session() -> Session | None:
    """The current session, or None."""
    return _ACTIVE.get()


def refuse_session(estimator: Any) -> None:
    """Raise a ValueError in a session, for an estimator whose fits do not run in shards."""
    if active_session():
        raise ValueError(
            f"{type(estimator).__name__} does not run in shards: fit it outside of `with distributed(...)`."
        )


@contextmanager
def distributed(
    client: Any,
    *,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10,
    worker_timeout: float = 60.0,
) -> Iterator[None]:
    """Context manager: fits in the block run on the workers of a Dask cluster, with bitwise identical results.

    Each worker holds consecutive rows of the data and their latents, which are not moved. In each pass the workers
    receive the parameters, and exchange and merge parts of the sufficient statistics. The result is that of one
    process, for any number of workers, threads or failed workers.

    Distributed fits support samplers whose update of a row depends only on the current parameters: "esca" and "gibbs"
    of :class:`~skmanifold.StochasticLDA` and :class:`~skmanifold.ExponentialFamilyAdmixture`, and these and "em" of
    :class:`~skmanifold.ExponentialFamilyMixture`. The first two also fit rows that only the workers read. Other fits
    raise an error. Only `fit` is distributed; `partial_fit`, `transform` and the other methods run in this process.

    Parameters
    ----------
    client : distributed.Client or None
        A connection to the cluster. With None the fit runs in this process; use it for checkpoints.
    checkpoint_dir : str or path-like, default=None
        A folder that the client and all workers can access under this name, as the same user, for the state of the fit
        after every `checkpoint_every` passes. A fit that finds a checkpoint of the same run resumes it, with the same
        result: after a failure of the client, run the same program again, with an int as `random_state`; after a
        failure of a worker the fit continues by itself, from the start if there is no checkpoint. A finished fit
        removes its checkpoints.
    checkpoint_every : int, default=10
        Number of passes between checkpoints.
    worker_timeout : float, default=60.0
        Seconds after which a connected worker that does not report counts as stopped; workers report every few seconds,
        also during long computations. Its rows are moved to the others, and a RuntimeWarning names it. A scheduler that
        does not answer for this time ends the fit with an error.

    Returns
    -------
    context manager
        Its value is None.

    Raises
    ------
    TypeError, ValueError
        If `client` is not a client, or another argument is invalid. In `fit`: if `checkpoint_dir` has a checkpoint of
        another run (other data, parameters, seed or version), of another user, or a damaged one.
    RuntimeError
        In `fit`: if the cluster has no workers, if workers or scheduler do not have this version of the package, or if
        the connection to the cluster is closed. The message explains how to continue.
    OSError
        In `fit`: if a checkpoint cannot be written, in which case the previous one is kept, or if the folder cannot be
        read.

    Notes
    -----
    In the block `fit` of :class:`~skmanifold.StochasticLDA` accepts arrays and sparse matrices, which are sent to the
    workers once, and also:

    - a Dask array, with dense blocks or blocks that are sparse matrices of SciPy, which are not sent to the client,
    - a Dask bag of documents, each a mapping from column to count or an array of columns, one per token,
    - a :class:`~skmanifold.datasets.Corpus`, or a list of them: every worker reads its rows from the files in blocks,
      and stores its latents in separate files.

    The number of threads of a worker is that of the cluster, not `n_jobs`. Several fits may run on a cluster at the
    same time, from one or several clients; their passes alternate on each worker.

    Examples
    --------
    >>> from skmanifold import StochasticLDA, distributed
    >>> from skmanifold.datasets import make_lda_corpus
    >>> X = make_lda_corpus(n_samples=50, n_features=40, n_components=3, random_state=0).data
    >>> lda = StochasticLDA(3, max_iter=10, random_state=0)
    >>> with distributed(None):  # or a distributed.Client
    ...     here = lda.fit(X).components_
    >>> bool((here == lda.fit(X).components_).all())
    True
    """
    if client is not None and not hasattr(client, "scheduler_info"):
        raise TypeError(f"client must be a distributed.Client or None; got {client!r}.")
    if getattr(client, "asynchronous", False):
        raise TypeError("client must not be asynchronous: fit waits for its workers.")
    if not isinstance(checkpoint_every, Integral) or checkpoint_every < 1:
        raise ValueError(f"checkpoint_every must be an integer of at least 1; got {checkpoint_every!r}.")
    if not isinstance(worker_timeout, Real) or not 0 < worker_timeout < float("inf"):
        raise ValueError(f"worker_timeout must be a positive number of seconds; got {worker_timeout!r}.")
    folder = None if checkpoint_dir is None else os.path.abspath(os.fspath(checkpoint_dir))
    token = _ACTIVE.set(Session(client, folder, int(checkpoint_every), float(worker_timeout)))
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def cluster_worker() -> Any:
    """The worker of a Dask cluster that runs this code, or None."""
    try:
        return sys.modules["distributed"].get_worker()
    except (KeyError, ValueError):
        return None


def scratch_folder() -> str | None:
    """The folder for temporary files: on a cluster that of the worker, which removes it at the end."""
    worker = cluster_worker()
    return worker.local_directory if worker else None
