"""Fits on a cluster: the context in which estimators send their rows to Dask's workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from typing import Any, NamedTuple

_ACTIVE: ContextVar[Session | None] = ContextVar("skmanifold_session", default=None)


class Session(NamedTuple):
    """What `distributed` was given."""

    client: Any  # None: this process alone
    checkpoint_dir: str | None
    checkpoint_every: int
    worker_timeout: float


def active_session() -> Session | None:
    """The session whose block is being run, if any."""
    return _ACTIVE.get()


@contextmanager
def distributed(
    client: Any,
    *,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10,
    worker_timeout: float = 60.0,
) -> Iterator[None]:
    """Let the fits in a block run on the workers of a Dask cluster, with the same result to the last bit.

    Each worker holds consecutive rows of the data and the latents of these rows. In each pass the parameters travel
    to the workers and the rows' sufficient statistics back, both along a binary tree of workers; rows and latents stay
    where they are. The result is that of one process, whatever the number of workers, threads or deaths of workers.

    Fits of samplers by passes over latents run this way: "esca" and "gibbs" of :class:`~skmanifold.StochasticLDA` and
    :class:`~skmanifold.ExponentialFamilyAdmixture`, and these and "em" of
    :class:`~skmanifold.ExponentialFamilyMixture`. Others refuse in one sentence. Only `fit` is concerned:
    `partial_fit`, `transform` and so on stay in this process.

    Parameters
    ----------
    client : distributed.Client or None
        A connection to the cluster. None is this process alone, for the checkpoints.
    checkpoint_dir : str or path-like, default=None
        A folder that client and all workers reach under this name, as the same user: after every `checkpoint_every`
        passes all that moves is written there. A fit that finds a checkpoint of its own there goes on from it, to the
        same end: when the client died, run the same program again, with an int as `random_state`. When a worker dies
        the fit goes on by itself, from the last checkpoint, or without any from the beginning. A fit that is finished
        removes its checkpoints; one that was interrupted leaves them.
    checkpoint_every : int, default=10
        Passes from one checkpoint to the next.
    worker_timeout : float, default=60.0
        Seconds: a worker that is connected and reports nothing for this long is taken for stopped. Its rows go to the
        other workers, as when it had died, and a RuntimeWarning names it. A worker reports every few seconds however
        long its computations take. A scheduler that answers nothing for this long ends the fit.

    Raises
    ------
    TypeError, ValueError
        If `client` is no client, or a setting is none. In `fit`: if `checkpoint_dir` has a checkpoint of another run
        (other data, parameters, seed or version), of another user, or one that is damaged.
    RuntimeError
        In `fit`: if the cluster has no workers, workers or scheduler do not have this version of the package, or the
        connection to the cluster is closed. The message says how to go on.
    OSError
        In `fit`: if a checkpoint cannot be written, where the one before is untouched, or its folder not be read.

    Notes
    -----
    In the block the fit of :class:`~skmanifold.StochasticLDA` takes, besides arrays and sparse matrices, which are sent
    to the workers once:

    - a Dask array in blocks, dense or of SciPy's sparse matrices, which never pass through the client,
    - a Dask bag of documents, each a mapping from column to count or an array of columns, one a token,
    - a :class:`~skmanifold.datasets.Corpus`, or a list of them: every worker reads its rows from the files, piece by
      piece, and keeps its latents in files of its own.

    Threads of a worker are those that the cluster gives it, whatever `n_jobs` says. Several fits may run on a cluster
    at once, from one client or from several: their passes take turns on each worker.

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
        raise ValueError(f"checkpoint_every must be a whole number of passes, at least 1; got {checkpoint_every!r}.")
    if not isinstance(worker_timeout, Real) or not 0 < worker_timeout < float("inf"):
        raise ValueError(f"worker_timeout must be a positive number of seconds; got {worker_timeout!r}.")
    folder = None if checkpoint_dir is None else os.path.abspath(os.fspath(checkpoint_dir))
    token = _ACTIVE.set(Session(client, folder, int(checkpoint_every), float(worker_timeout)))
    try:
        yield
    finally:
        _ACTIVE.reset(token)
