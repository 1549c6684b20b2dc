"""How an estimator is fitted with one sampler, and draws and traces of all chains as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..inference._chains import Chain
from ..inference._schedule import Schedule
from ..models import check_compatible
from ..random._keys import Purpose, subkey
from ..samplers import BaseSampler
from ..utils._threads import Workers

Record = Callable[[Chain], dict[str, Any]]


class Run(NamedTuple):
    """What `fit` sets before it reads the data.

    Attributes
    ----------
    sampler : BaseSampler
        A validated clone of the user's sampler.
    key : uint64
        Made from `random_state`; every random stream of the fit is derived from it.
    schedule : Schedule
        Which passes are burn-in, and which are kept as draws.
    sample_weight : array-like of shape (n_samples,) or None
        Weights of the rows as the user gave them, not validated. Only estimators whose `fit` has this parameter pass
        them.
    """

    sampler: BaseSampler
    key: np.uint64
    schedule: Schedule
    sample_weight: Any = None


class Minibatch(NamedTuple):
    """What `partial_fit` sets before it reads the data.

    Attributes
    ----------
    sampler : BaseSampler
        A validated clone of the user's sampler.
    key : uint64
        Made from `random_state` at the first minibatch; every random stream is derived from it.
    n_batches : int
        Number of minibatches before this one, since the beginning of the stream or the last fit.
    is_first : bool
        True if the estimator has not been fitted before.
    rate : float
        Weight of the statistics of this minibatch, from 0 to 1.
    total_samples : int
        Number of rows that the whole stream represents.
    n_chains : int
        The estimator's `n_chains`.
    resets : bool
        Whether X sets the number and names of columns. If False, X must have those of earlier rows.
    """

    sampler: BaseSampler
    key: np.uint64
    n_batches: int
    is_first: bool
    rate: float
    total_samples: int
    n_chains: int
    resets: bool


class _Strategy:
    """What `fit` and `partial_fit` have in common; `sampler` is the user's."""

    sampler: BaseSampler

    def model(self, workers: Workers) -> Any:
        """Make the model of the rows, quickly; a strategy must define it.

        Parameters
        ----------
        workers : Workers
            Threads that the kernels of the model may use.

        Returns
        -------
        model : object
            The posterior that the sampler is checked against.
        """
        raise TypeError(f"{type(self).__name__} must define model(workers).")

    def target(self, model: Any) -> Any:
        """What the sampler itself reads; by default the model.

        Parameters
        ----------
        model : object
            The result of `model`.

        Returns
        -------
        target : object
            The model, or a view of it, such as its posterior given one minibatch.
        """
        return model

    def check(self, model: Any, known: Iterable[type[BaseSampler]]) -> None:
        """Raise an error if the sampler does not fit the model.

        Parameters
        ----------
        model : object
            The result of `model`.
        known : iterable of type
            Classes of the estimator's samplers, of which the error names those that fit.

        Raises
        ------
        IncompatibleError
            If `target` lacks a protocol that the sampler requires.
        """
        check_compatible(self.sampler, self.target(model), known)


class FitStrategy(_Strategy):
    """How one estimator is fitted with one sampler.

    The base class runs the same `fit` for every estimator. It calls the methods of the strategy for the steps that
    differ, in this order:

    1. The constructor validates X and sets ``n_rows``.
    2. `model` makes the model, and `check` compares the sampler with it.
    3. `prepare` does work that takes long, such as the search for good initial labels.
    4. After each pass of burn-in `adapt` may change the model. After each pass that is kept `record` returns a draw.
    5. `estimate` computes fitted attributes from the chains, after the last pass and whenever a callback needs the
       fitted estimator.
    6. `finish` computes attributes that are needed only once, and `warn` warns about a poor fit.

    A subclass must define `model`, `record` and `estimate`. The other methods have defaults.

    Parameters
    ----------
    sampler : BaseSampler
        The user's sampler, ``run.sampler``.
    passes : BaseSampler, default=None
        What makes the passes over the data. None is the sampler itself; an object of another class may make each pass
        of many steps of the sampler.

    Attributes
    ----------
    n_rows : int
        Number of rows; a subclass sets it in its constructor, or at the latest in `prepare`.
    n_unsettled : int
        Number of first passes that a tolerance ignores, because the model changes between them; by default 0.
    draws_vary : bool
        Whether the arrays of draws differ in shape, as with an inferred number of components; by default False.
    """

    n_rows: int
    n_unsettled: int = 0
    draws_vary: bool = False

    def __init__(self, sampler: BaseSampler, passes: BaseSampler | None = None) -> None:
        self.sampler = sampler
        self.passes = sampler if passes is None else passes

    def prepare(self, model: Any, workers: Workers) -> Any:
        """The model that the chains run on; by default the checked model.

        Parameters
        ----------
        model : object
            The result of `model`, which the sampler fits.
        workers : Workers
            Threads that the kernels of the model may use.

        Returns
        -------
        model : object
            The same model or another one.
        """
        return model

    def n_units(self, model: Any) -> int:
        """How many units of data one chain processes in one pass; the estimator's ``_unit`` is their name.

        Parameters
        ----------
        model : object
            The model that the chains run on.

        Returns
        -------
        n_units : int
            By default the number of rows.
        """
        return self.n_rows

    def add(self, left: Any, right: Any) -> Any:
        """Add the statistics of two passes, so that a chain can average those of its last passes.

        Parameters
        ----------
        left, right : object
            Statistics of a state, or sums of them.

        Returns
        -------
        sums : object
            A new object; by default the last statistics.
        """
        return right

    def record(self, chain: Chain) -> dict[str, Any]:
        """What to keep of the current state of a chain as one draw.

        Parameters
        ----------
        chain : Chain
            ``chain.model`` and ``chain.state`` are those of its last pass.

        Returns
        -------
        draw : dict of str to ndarray
            Arrays by name; not every draw needs the same names.
        """
        raise TypeError(f"{type(self).__name__} must define record(chain).")

    def adapt(self, model: Any, state: Any) -> Any:
        """The model of a chain's next pass, called after each pass of burn-in.

        Parameters
        ----------
        model : object
            The model of the last pass.
        state : object
            The state after it.

        Returns
        -------
        model : object
            By default the same model.
        """
        return model

    def has_settled(self, log_density: Sequence[float]) -> bool:
        """Whether burn-in can end early for a chain; it ends when all chains have settled.

        Parameters
        ----------
        log_density : sequence of float
            The log densities of the passes of a chain.

        Returns
        -------
        has_settled : bool
        """
        return self.passes.has_settled(log_density, self.n_rows)

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """Compute fitted attributes from the chains; it may be called after any pass.

        Parameters
        ----------
        chains : list of Chain
            ``chain.estimate()`` returns the sum of statistics over the last passes and the number of these passes,
            ``chain.draws`` holds the results of `record`, and ``best_chain(chains)`` is the index of the chain with the
            highest mean log density.

        Returns
        -------
        fitted : dict of str to object
            Values of the fitted attributes by name.
        """
        raise TypeError(f"{type(self).__name__} must define estimate(chains).")

    def finish(self, fitted: dict[str, Any], model: Any, workers: Workers) -> dict[str, Any]:
        """Compute fitted attributes that are made once, after the last pass; by default none.

        Parameters
        ----------
        fitted : dict of str to object
            The attributes of `estimate` after the last pass, with ``_posterior``, ``log_density_trace_`` and
            ``n_iter_``.
        model : object
            The model that the chains ran on.
        workers : Workers
            Threads that kernels may use.

        Returns
        -------
        more : dict of str to object
            Further attributes by name; they replace those of the same name.
        """
        return {}

    def warn(self, fitted: dict[str, Any]) -> None:
        """Warn about a fit whose result is not reliable; by default it does not warn.

        Parameters
        ----------
        fitted : dict of str to object
            All fitted attributes.
        """


class StreamStrategy(_Strategy):
    """How one estimator learns from one minibatch with one sampler.

    `partial_fit` makes a strategy for each minibatch. The constructor of a subclass reads and validates X, and takes
    from the estimator what earlier minibatches have left. Then `model` makes the model of the minibatch, `check`
    compares the sampler with it, and `advance` returns the fitted attributes. A subclass must define `model` and
    `advance`.

    Parameters
    ----------
    batch : Minibatch
        The sampler, the key and the position of the minibatch in the stream.
    """

    def __init__(self, batch: Minibatch) -> None:
        self.batch = batch
        self.sampler = batch.sampler

    @property
    def n_chains(self) -> int:
        """Number of chains that share the threads."""
        return self.batch.n_chains

    def advance(self, model: Any, workers: Workers) -> dict[str, Any]:
        """Update the chains with the minibatch.

        Parameters
        ----------
        model : object
            The result of `model`.
        workers : Workers
            Threads that run the chains.

        Returns
        -------
        fitted : dict of str to object
            Values of the fitted attributes by name, among them what the next minibatch needs.
        """
        raise TypeError(f"{type(self).__name__} must define advance(model, workers).")


class StatisticsStream(StreamStrategy):
    """A stream for samplers that keep statistics, and so satisfy `MinibatchStreams`.

    There is one chain. After each minibatch its statistics are a weighted mean of those before and those of the
    minibatch.

    Parameters
    ----------
    batch : Minibatch
        The sampler, the key and the position of the minibatch in the stream.

    Attributes
    ----------
    before : object
        Statistics of the rows before this minibatch, scaled to ``batch.total_samples`` rows; None if there are none.
    """

    before: Any = None

    @property
    def n_chains(self) -> int:
        """One."""
        return 1

    def step(self, model: Any) -> Any:
        """Update the statistics: T <- (1 - rate) T + rate * scale * T_batch.

        Here `scale` is ``total_samples`` over the number of rows of the minibatch. `advance` calls this method.

        Parameters
        ----------
        model : object
            The model of the minibatch, with ``n_rows``.

        Returns
        -------
        state : object
            The sampler's state, with the new ``statistics`` and their ``position``.
        """
        batch, sampler = self.batch, self.sampler
        key, scale = subkey(batch.key, Purpose.MINIBATCH), batch.total_samples / model.n_rows
        if self.before is None:
            return sampler.init_stream(model, key, scale)
        state = sampler.resume_stream(model, self.before, key, batch.n_batches)
        return sampler.step_stream(model, state, batch.rate, scale)


def posterior_arrays(sampler: BaseSampler, chains: list[Chain], record: Record) -> dict[str, Any]:
    """The fitted attributes that every run has: ``_posterior``, ``log_density_trace_``, ``n_iter_`` and others.

    Entries of a draw whose names begin with an underscore are not part of ``_posterior``: only the strategy uses them.
    """
    trace = np.array([chain.log_density for chain in chains])
    n_iter = trace.shape[1]
    drawn = [iteration - 1 for iteration in range(1, n_iter + 1) if chains[0].schedule.is_draw(iteration)]
    posterior = {sampler.log_density_name: trace[:, drawn]}
    examples = {**record(chains[0])} if not drawn else {k: v for draw in chains[0].draws for k, v in draw.items()}
    for name, value in examples.items():
        if not name.startswith("_"):
            draws = [[draw[name] for draw in chain.draws if name in draw] for chain in chains]
            posterior[name] = stack_draws(draws, value)
    return {
        "_posterior": posterior,
        "_component_draws": np.array([i for i, draw in enumerate(chains[0].draws) if "components" in draw], np.int64),
        "log_density_trace_": trace,
        "_n_burn_in": min(chains[0].schedule.burn_in, n_iter),
        "n_iter_": n_iter,
    }


def stack_draws(draws: list[list[np.ndarray]], example: np.ndarray) -> np.ndarray:
    """Draws of all chains as one array, padded with NaN where their shapes differ.

    Parameters
    ----------
    draws : list of list of ndarray
        The draws of each chain; every chain has the same number.
    example : ndarray
        A draw, which gives dtype and shape if there are no draws.

    Returns
    -------
    stacked : ndarray of shape (n_chains, n_draws, ...)
        The draws.
    """
    shapes = {draw.shape for chain in draws for draw in chain} or {example.shape}
    if len(shapes) == 1:
        stacked = np.array(draws, dtype=example.dtype)
        return stacked.reshape(len(draws), stacked.shape[1], *shapes.pop())
    largest = tuple(max(lengths) for lengths in zip(*shapes, strict=True))
    kind = example.dtype if example.dtype.kind == "f" else np.float64
    padded = np.full((len(draws), len(draws[0]), *largest), np.nan, kind)
    for chain, of_chain in enumerate(draws):
        for i, draw in enumerate(of_chain):
            place: Any = (chain, i, *map(slice, draw.shape))
            padded[place] = draw
    return padded


def posterior_of_number(draws: np.ndarray, estimate: int) -> np.ndarray:
    """Posterior probabilities of 0, 1, 2, ... components.

    Parameters
    ----------
    draws : ndarray of int
        Numbers of components in the draws of all chains.
    estimate : int
        The number to use if there are no draws so far.

    Returns
    -------
    probabilities : ndarray of shape (largest number + 1,)
        Relative frequencies.
    """
    numbers = draws.ravel() if draws.size else np.array([estimate])
    return np.bincount(numbers) / len(numbers)
