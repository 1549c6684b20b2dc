"""What every estimator here shares: its sampler resolved and run under callbacks, a fit that is whole or nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, clone
from sklearn.callback import CallbackSupportMixin

from ..callbacks._hooks import PassReport, rows_to_fit, wants_estimator
from ..inference._chains import Chain, best_chain, run_chains
from ..inference._distributed_fits.checkpoints import Checkpoints
from ..inference._distributed_fits.session import active_session
from ..inference._distributed_fits.shards import ShardedModel
from ..inference._schedule import Schedule
from ..persistence import SavesItself
from ..samplers import BaseSampler, ManifoldSampler
from ..samplers._resolve import named_sampler, resolve_sampler
from ..utils._interrupts import plain_interrupts
from ..utils._plain_numbers import PlainNumbers
from ..utils._sklearn import CALLBACK_STATE
from ..utils._threads import Workers
from ..utils._typing import fit_context

__all__ = [
    "BaseSampledEstimator",
    "Schedule",
    "all_or_nothing",
    "best_chain",
    "draws_parameters",
    "fit_context",
    "rows_to_fit",
    "stack_draws",
    "takes_minibatches",
]


class BaseSampledEstimator(PlainNumbers, SavesItself, CallbackSupportMixin, BaseEstimator):
    """Base class of estimators that delegate to a sampler.

    A subclass lists the samplers it knows by their short names in ``_samplers``. The constructor parameter `sampler`
    is a short name or a sampler instance; `fit` works on a clone of it, ``sampler_``. It also has the constructor
    parameters `max_iter`, `burn_in`, `thin`, `n_chains`, `n_jobs` and `verbose`.
    """

    _samplers: ClassVar[dict[str, type[BaseSampler]]]
    _blocks: ClassVar[tuple[str, ...]] = ("sampler",)  # constructor parameters that may be names of what has parameters
    _settings: ClassVar[dict[str, dict[str, Any]]] = {}  # of a sampler given by name, where its defaults do not suit
    _read_by: ClassVar[dict[str, Callable[[Any], bool]]] = {}  # parameters that some samplers alone read, and which
    _pass_report: PassReport  # while it is fitted
    sampler_: BaseSampler
    log_density_trace_: np.ndarray
    n_iter_: int
    n_features_in_: int
    feature_names_in_: np.ndarray

    def set_params(self, **params: Any) -> Self:
        """Set the parameters of this estimator; ``sampler__name`` reaches into the sampler, even one given by name.

        Parameters
        ----------
        **params : dict
            Estimator parameters.

        Returns
        -------
        self : estimator instance

        Raises
        ------
        ValueError
            If a parameter is unknown, or belongs to a sampler of unknown name.
        """
        for block in self._blocks:
            if any(name.startswith(f"{block}__") for name in params):
                sampler = params.get(block, getattr(self, block))
                if isinstance(sampler, str):
                    params = {**params, block: self._named_block(block, sampler)}
        return super().set_params(**params)

    def _named_block(self, block: str, name: str) -> BaseEstimator:
        """What a name given for one of ``_blocks`` stands for."""
        return named_sampler(name, self._by_name(), self._error_context)

    def _resolve_sampler(self) -> BaseSampler:
        """A fresh, validated sampler from the constructor's `sampler`; warns of what it does not read."""
        names = ", ".join(map(repr, self._samplers))
        wanted = f"a name ({names}) or an instance of a subclass of skmanifold.samplers.BaseSampler"
        sampler = resolve_sampler(self.sampler, self._by_name(), self._error_context, wanted)
        self._warn_of_unread(sampler)
        return sampler

    def _warn_of_unread(self, sampler: BaseSampler) -> None:
        """Warn of parameters that were set, away from their defaults, and that this sampler does not read."""
        defaults = signature(type(self)).parameters
        for name, reads in self._read_by.items():
            value = getattr(self, name)
            if value is not None and value != defaults[name].default and not reads(sampler):
                able = [repr(known) for known, kind in self._samplers.items() if reads(kind())]
                warnings.warn(
                    f"{name}={value!r} has no effect with {type(sampler).__name__}: only {', '.join(able)} use it.",
                    UserWarning,
                    stacklevel=6,
                )

    def _by_name(self) -> dict[str, Callable[[], BaseSampler]]:
        return {name: partial(self._named, name) for name in self._samplers}

    def _named(self, name: str) -> BaseSampler:
        return clone(self._samplers[name](**self._settings.get(name, {})))  # no schedule of steps is shared

    @property
    def _error_context(self) -> str:
        return f" for {type(self).__name__}"

    @contextmanager
    def _open_workers(self) -> Iterator[tuple[Workers, Workers]]:
        """Threads for the chains, and threads that the kernels of all chains share if there are more than chains."""
        n_workers = effective_n_jobs(self.n_jobs)
        n_kernel_workers = n_workers if n_workers > self.n_chains else 1
        with Workers(min(self.n_chains, n_workers)) as of_chains, Workers(n_kernel_workers) as of_kernels:
            yield of_chains, of_kernels

    def _run_chains(
        self,
        sampler: BaseSampler,
        model: Any,
        key: np.uint64,
        schedule: Schedule,
        X: Any,
        n_rows: int,
        *,
        add: Callable[[Any, Any], Any],
        record: Callable[[Chain], dict[str, np.ndarray]],
        adapt: Callable[[Any, Any], Any],
        estimate: Callable[[list[Chain]], dict[str, Any]],
        workers: Workers,
        checkpoints: Checkpoints | None = None,
    ) -> dict[str, Any]:
        """Run all chains under the callbacks; returns the fitted attributes.

        Callbacks see a task "fit" with a subtask "pass" for each pass over the data, and may stop the fit after any.

        Parameters
        ----------
        sampler, model, key, schedule, add, record, adapt, workers, checkpoints
            As in :func:`~skmanifold.inference._chains.run_chains`.
        X : array-like
            The data as the user gave them, for callbacks that score.
        n_rows : int
            Rows of X.
        estimate : callable
            From the chains, wherever they stand, to the attributes that inference needs.
        """
        if active_session() and not isinstance(model, ShardedModel):
            raise ValueError(
                f"{type(self).__name__} does not run in shards: fit it outside of `with distributed(...)`."
            )
        context = self._init_callback_context(max_subtasks=schedule.max_iter)
        # Score monitors are silent without a y, so they get one, made only if it is looked at.
        task = {"estimator": self, "X": X, "y": lambda: np.zeros(n_rows)}

        def fitted(chains: list[Chain]) -> dict[str, Any]:
            return {**estimate(chains), **_traces(sampler, chains, record)}

        n_tokens = getattr(model, "n_tokens", None)
        amount = (n_rows, "rows") if n_tokens is None else (n_tokens, "tokens")

        def after_pass(iteration: int, chains: list[Chain]) -> bool:
            log_density = chains[best_chain(chains)].log_density[-1]
            if self.verbose and iteration % self.verbose == 0:
                print(f"pass {iteration} of {schedule.max_iter}: log density {log_density:.6g}")
            may_stop = iteration > schedule.burn_in and (bool(chains[0].draws) or not schedule.n_draws)
            self._pass_report = PassReport(
                sampler.log_density_name.replace("_", " "), log_density, self.n_chains * amount[0], amount[1], may_stop
            )
            step = context.subcontext(task_name="pass").call_on_fit_task_begin(**task)
            attributes = (lambda: fitted(chains)) if wants_estimator(self, step) else None
            stop = step.call_on_fit_task_end(**task, reconstruction_attributes=attributes)
            return stop or all(sampler.has_converged(chain.state) for chain in chains)

        context.call_on_fit_task_begin(**task)
        chains = run_chains(
            sampler,
            model,
            key,
            self.n_chains,
            schedule,
            add=add,
            record=record,
            after_pass=after_pass,
            workers=workers,
            adapt=adapt,
            checkpoints=checkpoints,
        )
        attributes = fitted(chains)
        context.call_on_fit_task_end(**task, reconstruction_attributes=attributes)
        self.__dict__.pop("_pass_report", None)
        return attributes


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Put every attribute back as it was if the block raises, Ctrl-C included."""
    before = dict(estimator.__dict__)
    try:
        with plain_interrupts():
            yield
    except BaseException:
        kept = {name: estimator.__dict__[name] for name in CALLBACK_STATE if name in estimator.__dict__}
        estimator.__dict__.clear()
        estimator.__dict__.update(before, **kept)
        raise


def draws_parameters(sampler: BaseSampler) -> bool:
    """Whether a sampler draws what `score` averages over, and does not estimate it."""
    return isinstance(sampler, ManifoldSampler) or sampler.draws_parameters


def takes_minibatches(estimator: BaseSampledEstimator) -> bool:
    """Whether the estimator's sampler can learn from a stream; raises an AttributeError, saying why, if it cannot.

    For scikit-learn's ``available_if``. What is no sampler passes: `partial_fit` will refuse it.
    """
    sampler = estimator.sampler
    kind = estimator._samplers.get(sampler) if isinstance(sampler, str) else sampler
    if getattr(kind, "batching", "either") == "full":
        able = ", ".join(repr(name) for name, known in estimator._samplers.items() if known.batching != "full")
        raise AttributeError(f"partial_fit needs a sampler that takes minibatches ({able}), not {sampler!r}.")
    return True


def _traces(sampler: BaseSampler, chains: list[Chain], record: Callable[[Chain], dict[str, np.ndarray]]) -> dict:
    """What is left of the run: ``_posterior``, ``log_density_trace_`` and ``n_iter_``."""
    trace = np.array([chain.log_density for chain in chains])
    n_iter = trace.shape[1]
    drawn = [iteration - 1 for iteration in range(1, n_iter + 1) if chains[0].schedule.is_draw(iteration)]
    posterior = {sampler.log_density_name: trace[:, drawn]}
    examples = {**record(chains[0])} if not drawn else {k: v for draw in chains[0].draws for k, v in draw.items()}
    for name, value in examples.items():
        if not name.startswith("_"):
            posterior[name] = stack_draws(
                [[draw[name] for draw in chain.draws if name in draw] for chain in chains], value
            )
    return {
        "_posterior": posterior,
        "_component_draws": np.array([i for i, draw in enumerate(chains[0].draws) if "components" in draw], np.int64),
        "log_density_trace_": trace,
        "n_iter_": n_iter,
    }


def stack_draws(draws: list[list[np.ndarray]], example: np.ndarray) -> np.ndarray:
    """Draws of all chains as one array; where they differ in shape, padded with NaN."""
    shapes = {draw.shape for chain in draws for draw in chain} or {example.shape}
    if len(shapes) == 1:
        stacked = np.array(draws, dtype=example.dtype)
        return stacked.reshape(len(draws), stacked.shape[1], *shapes.pop())
    largest = tuple(max(lengths) for lengths in zip(*shapes, strict=True))
    padded = np.full((len(draws), len(draws[0]), *largest), np.nan)
    for chain, of_chain in enumerate(draws):
        for i, draw in enumerate(of_chain):
            place: Any = (chain, i, *map(slice, draw.shape))
            padded[place] = draw
    return padded
