"""How an estimator is fitted with one sampler: what differs between estimators in `fit` and `partial_fit`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..inference._chains import Chain
from ..inference._schedule import Schedule
from ..models import check_compatible
from ..random._keys import Purpose, subkey
from ..samplers import BaseSampler
from ..utils._threads import Workers


class Run(NamedTuple):
    """What `fit` settles before it reads the data."""

    sampler: BaseSampler
    key: np.uint64  # of all random streams
    schedule: Schedule


class Minibatch(NamedTuple):
    """What `partial_fit` settles before it reads the data."""

    sampler: BaseSampler
    key: np.uint64  # of all random streams
    n_batches: int  # minibatches before this one, since the beginning of the stream or the last fit
    is_first: bool  # nothing has been fitted
    rate: float  # weight of the new statistics
    total_samples: int  # rows that the whole stream stands for
    n_chains: int


class _Strategy:
    """What `fit` and `partial_fit` have in common.

    Attributes
    ----------
    sampler : BaseSampler
        The user's sampler.
    """

    sampler: BaseSampler

    def model(self, workers: Workers) -> Any:
        """The model of the rows, made quickly."""
        raise NotImplementedError

    def target(self, model: Any) -> Any:
        """What the sampler itself reads: the model, or a view of it."""
        return model

    def check(self, model: Any, known: Iterable[type[BaseSampler]]) -> None:
        """Raise an `IncompatibleError` if the sampler does not fit the model."""
        check_compatible(self.sampler, self.target(model), known)


class FitStrategy(_Strategy):
    """How one estimator is fitted with one sampler.

    The base class runs the same `fit` for every estimator and asks the strategy for what differs: the model, what the
    sampler requires of it, what is recorded after a pass, adapted in burn-in and estimated at the end. `prepare` is
    for work that takes long: it follows the check that the sampler fits the model.

    Attributes
    ----------
    passes : BaseSampler
        What makes the passes over the data: the sampler itself, or a driver of its steps.
    n_rows : int
        Number of rows.
    """

    n_rows: int

    def __init__(self, sampler: BaseSampler, passes: BaseSampler | None = None):
        self.sampler = sampler
        self.passes = sampler if passes is None else passes

    def prepare(self, model: Any, workers: Workers) -> Any:
        """The model that the chains run on."""
        return model

    def amount(self, model: Any) -> tuple[int, str]:
        """How much data a pass of one chain works through, and in which unit."""
        return self.n_rows, "rows"

    def add(self, left: Any, right: Any) -> Any:
        """Sum of the statistics of two passes."""
        return right

    def record(self, chain: Chain) -> dict[str, Any]:
        """The named arrays of a draw."""
        raise NotImplementedError

    def adapt(self, model: Any, state: Any) -> Any:
        """The model of the next pass, after a pass of burn-in."""
        return model

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """Fitted attributes from the chains after any pass."""
        raise NotImplementedError

    def finish(self, fitted: dict[str, Any], model: Any, workers: Workers) -> dict[str, Any]:
        """Fitted attributes that are made once, after the last pass."""
        return {}

    def warn(self, fitted: dict[str, Any]) -> None:
        """Warn of a fit whose result should not be trusted."""


class StreamStrategy(_Strategy):
    """How one estimator learns from one minibatch with one sampler.

    Attributes
    ----------
    batch : Minibatch
        What the base class has settled.
    """

    def __init__(self, batch: Minibatch):
        self.batch = batch
        self.sampler = batch.sampler

    @property
    def n_chains(self) -> int:
        """Number of chains that share the workers."""
        return self.batch.n_chains

    def advance(self, model: Any, workers: Workers) -> dict[str, Any]:
        """Fitted attributes after the minibatch; `workers` run the chains."""
        raise NotImplementedError


class StatisticsStream(StreamStrategy):
    """A stream for samplers that keep statistics: one chain, whose statistics move towards those of each minibatch.

    Attributes
    ----------
    before : object
        Statistics of all rows so far, scaled to `total_samples` rows; None before the first minibatch.
    """

    before: Any = None

    @property
    def n_chains(self) -> int:
        """One."""
        return 1

    def step(self, model: Any) -> Any:
        """T <- (1 - rate) T + rate * scale * T_batch, where the stream stands for `scale` times the model's rows."""
        batch, sampler = self.batch, self.sampler
        key, scale = subkey(batch.key, Purpose.MINIBATCH), batch.total_samples / model.n_rows
        if self.before is None:
            return sampler.init_stream(model, key, scale)
        state = sampler.resume_stream(model, self.before, key, batch.n_batches)
        return sampler.step_stream(model, state, batch.rate, scale)
