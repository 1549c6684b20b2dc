"""The base class of estimators that delegate to a sampler: parameters by name, one `fit`, one `partial_fit`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from inspect import get_annotations, signature
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from ..callbacks._hooks import PassReport, callbacks_of, rows_to_fit, wants_estimator
from ..inference._chains import Chain, best_chain, run_chains
from ..inference._distributed_fits.checkpoints import Checkpoints, checkpoints_of
from ..inference._distributed_fits.session import refuse_session
from ..inference._distributed_fits.shards import ShardedModel
from ..inference._distributed_fits.sources import loaded
from ..inference._schedule import Schedule
from ..models import DensitySampler
from ..persistence import SavesItself
from ..random._keys import root_key
from ..samplers import BaseSampler
from ..samplers._base import named_sampler, resolve_sampler
from ..utils._conditions import Array, Sizes, index
from ..utils._conditions import Real as RealNumber
from ..utils._declared import Lacking, Saved, saved_fields
from ..utils._parameters import LinksToItsPage, PlainNumbers, default_of, offers
from ..utils._sklearn import CALLBACK_STATE, HasMethods, Interval, StrOptions, torn_down
from ..utils._threads import Workers, count_threads, limit_threads, plain_interrupts
from ..utils._typing import BaseEstimator, CallbackSupportMixin
from ._strategy import FitStrategy, Minibatch, Run, StreamStrategy, posterior_arrays

_IS_EMISSION = HasMethods(["get_params", "set_params"])
_FROM_0, _FROM_1 = (Interval(Integral, least, None, closed="left") for least in (0, 1))
_SHARED_CONSTRAINTS: dict[str, list] = {  # of constructor parameters with the same meaning in all estimators
    **{name: [_FROM_1] for name in ("max_iter", "thin", "n_init", "n_chains", "n_predictive_draws", "total_samples")},
    **{name: [_FROM_0] for name in ("max_draws_bytes", "n_stored_rows")},
    "burn_in": [None, _FROM_0],
    "concentration_prior": ["array-like"],
    "learning_decay": [Interval(Real, 0, 1, closed="both")],
    "learning_offset": [Interval(Real, 0, None, closed="left")],
    "batch_size": [None, _FROM_1],
    "n_doc_samples": [_FROM_1],
    "random_state": ["random_state"],
    "n_jobs": [None, Integral],
    "verbose": ["verbose"],
}


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Restore every attribute of the estimator if the block raises an error or is interrupted with Ctrl-C.

    Parameters
    ----------
    estimator : estimator instance
        The estimator that the block fits.

    Returns
    -------
    context : iterator of None
        For ``with``.
    """
    before = dict(estimator.__dict__)
    try:
        with plain_interrupts():
            yield
    except BaseException:
        kept = {name: estimator.__dict__[name] for name in CALLBACK_STATE if name in estimator.__dict__}
        estimator.__dict__.clear()
        estimator.__dict__.update(before, **kept)
        raise


class BaseFittedEstimator(PlainNumbers, LinksToItsPage, SavesItself, CallbackSupportMixin, BaseEstimator):
    """Base class of estimators with callbacks, which can be saved; it supplies constraints of shared parameters."""

    _parameter_constraints: dict

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Add the constraints of the constructor parameters that all estimators share."""
        super().__init_subclass__(**kwargs)
        if "_parameter_constraints" in vars(cls):
            samplers, emissions = (StrOptions(set(getattr(cls, name, ()))) for name in ("_samplers", "_emissions"))
            of_blocks = {"sampler": [samplers, HasMethods(["init", "step"])], "emission": [emissions, _IS_EMISSION]}
            shared = {**of_blocks, **_SHARED_CONSTRAINTS}
            names = {*signature(cls).parameters, *get_annotations(cls)}  # also of a dataclass
            shared = {name: constraint for name, constraint in shared.items() if name in names}
            cls._parameter_constraints = {**shared, **cls._parameter_constraints}

    def _forget(self, names: tuple[str, ...]) -> None:
        for name in names:
            self.__dict__.pop(name, None)


class BaseSampledEstimator(BaseFittedEstimator):
    """Base class of estimators that delegate to a sampler.

    A subclass has four parts of its own:

    - ``_samplers``, a dict of its sampler classes by short name.
    - A constructor. Its parameter `sampler` is a short name or a sampler instance; `fit` uses a clone, ``sampler_``.
      It also has the parameters `max_iter`, `burn_in`, `thin`, `n_chains`, `random_state`, `n_jobs` and `verbose`.
      This class supplies their constraints.
    - `fit`, which returns ``self._fit(X)``, and ``_strategy(X, run)``, which returns a `FitStrategy`.
    - If it learns from streams, `partial_fit`, which returns ``self._partial_fit(X)``, and
      ``_stream_strategy(X, batch)``, which returns a `StreamStrategy`. The constructor then also has
      `learning_decay`, `learning_offset` and `total_samples`.
    """

    _samplers: ClassVar[dict[str, type[BaseSampler]]]
    _blocks: ClassVar[tuple[str, ...]] = ("sampler",)  # constructor parameters whose names stand for objects
    _settings: ClassVar[dict[str, dict[str, Any]]] = {}  # of samplers given by name, in place of their defaults
    _read_by: ClassVar[dict[str, Callable[[Any], bool]]] = {}  # parameters that only some samplers use, and which do
    _single_threaded: ClassVar[str | None] = None  # libraries that must run in one thread: "blas" or "all"
    _of_some_fits: ClassVar[tuple[str, ...]] = ()  # attributes that only some fits set
    # Attributes that only fit sets
    _of_no_stream: ClassVar[tuple[str, ...]] = ("_posterior", "log_density_trace_", "n_iter_", "_n_burn_in", "_n_units")
    _runs_in_shards: ClassVar[bool] = False  # within `with distributed(...)`
    _unit: ClassVar[str] = "row"  # what the log density is a sum over; a pass processes so many
    _pass_report: PassReport  # during a fit
    log_density_trace_: Lacking[Annotated[np.ndarray, Array("float64", "n_chains n_iter", nan=True, infinite=True)]]
    n_iter_: Lacking[int]
    n_batch_iter_: Lacking[int]
    _n_burn_in: Lacking[int]
    _n_units: Lacking[Annotated[float, RealNumber(low=0)]]  # not whole if rows have weights
    _posterior: Lacking[dict[str, np.ndarray]]  # draws of all chains
    # Those whose components were kept
    _component_draws: Lacking[Annotated[np.ndarray, index("n_component_draws", below="n_draws")]]
    sampler_: Saved[BaseSampler]

    def _disagreement(self, sizes: Sizes) -> str | None:
        learned = vars(self)
        posterior = learned.get("_posterior")
        is_fitted = posterior is not None or learned.get("_stream") is not None
        if is_fitted and "best_chain_" in saved_fields(type(self)).keys() - learned.keys():
            return "lacks best_chain_"
        if posterior is None:
            return None if learned.get("n_batch_iter_", 0) else "lacks its draws"
        if not {"log_likelihood", "log_joint", "objective"} & posterior.keys():
            return "lacks the log density of its draws"
        which = learned.get("_component_draws")
        if which is None or (np.diff(which) <= 0).any():
            return "has draws of components that are not in order"
        return "lacks the draws of its components" if len(which) and "components" not in posterior else None

    def set_params(self, **params: Any) -> Self:
        """Set the parameters of this estimator; ``sampler__name`` sets a parameter of its sampler.

        Parameters
        ----------
        **params : dict
            Estimator parameters. If the sampler is given by name, a parameter of it replaces the name by an instance.

        Returns
        -------
        self : estimator instance

        Raises
        ------
        ValueError
            If a parameter or the name of the sampler is unknown.
        """
        for block in self._blocks:
            if any(name.startswith(f"{block}__") for name in params):
                sampler = params.get(block, getattr(self, block))
                if isinstance(sampler, str):
                    params = {**params, block: self._named_block(block, sampler)}
        return super().set_params(**params)

    def _named_block(self, block: str, name: str) -> BaseEstimator:
        """The object that a name stands for in one of the parameters in ``_blocks``."""
        return named_sampler(name, self._by_name(), f" for {type(self).__name__}")

    # Samplers

    def _resolve_sampler(self) -> BaseSampler:
        """A validated clone of the constructor's `sampler`; warns about parameters that it does not use."""
        names = ", ".join(map(repr, self._samplers))
        wanted = f"a name ({names}) or an instance of a subclass of skmanifold.samplers.BaseSampler"
        sampler = resolve_sampler(self.sampler, self._by_name(), f" for {type(self).__name__}", wanted)
        for name, reads in self._read_by.items():
            value = getattr(self, name)
            if value is not None and value != default_of(self, name) and not reads(sampler):
                able = [repr(known) for known, sampler_class in self._samplers.items() if reads(sampler_class())]
                text = f"{name}={value!r} has no effect with {type(sampler).__name__}: only {', '.join(able)} use it."
                warnings.warn(text, UserWarning, stacklevel=5)
        return sampler

    def _by_name(self) -> dict[str, Callable[[], BaseSampler]]:
        return {name: partial(self._named, name) for name in self._samplers}

    def _named(self, name: str) -> BaseSampler:
        return clone(self._samplers[name](**self._settings.get(name, {})))  # samplers do not share step size schedules

    # Fitting

    def _n_passes(self, sampler: BaseSampler) -> int:
        """`max_iter`, or the number that its default stands for."""
        return self.max_iter

    def _schedule(self, sampler: BaseSampler) -> Schedule:
        return Schedule.from_params(self._n_passes(sampler), self.burn_in, self.thin)

    def _strategy(self, X: Any, run: Run) -> FitStrategy:
        """The strategy of `fit`; it validates X and the parameters that depend on X."""
        raise TypeError(f"{type(self).__name__} must define _strategy(X, run).")

    def _stream_strategy(self, X: Any, batch: Minibatch) -> StreamStrategy | None:
        """The strategy of `partial_fit`; it validates X. None if X has nothing to learn from, such as no tokens."""
        raise TypeError(f"{type(self).__name__} must define _stream_strategy(X, batch).")

    def _fit(self, X: Any, sample_weight: Any = None) -> Self:
        """Fit to all rows except those that callbacks hold out; the `fit` of every estimator calls it."""
        if not self._runs_in_shards:
            refuse_session(self)
        with torn_down(self), all_or_nothing(self), self._limited_threads():
            X, _, sample_weight = rows_to_fit(self, loaded(X), None, sample_weight)
            sampler = self._resolve_sampler()
            run = Run(sampler, root_key(self.random_state), self._schedule(sampler), sample_weight)
            strategy = self._strategy(X, run)
            with self._open_workers(self.n_chains) as (chain_workers, kernel_workers):
                model, checkpoints = strategy.model(kernel_workers), None
                try:
                    strategy.check(model, self._samplers.values())
                    model = strategy.prepare(model, kernel_workers)
                    if isinstance(model, ShardedModel):
                        checkpoints = checkpoints_of(self, run.key, model)
                    fitted = self._run_chains(strategy, model, run, X, chain_workers, checkpoints)
                    fitted.update(strategy.finish(fitted, model, kernel_workers))
                finally:
                    if hasattr(model, "close"):
                        model.close()
            self._forget(self._of_some_fits)
            self.__dict__.update(fitted)
            if checkpoints:
                checkpoints.remove()
            strategy.warn(fitted)
            return self

    def _partial_fit(self, X: Any) -> Self:
        """Learn from X as one more minibatch; the `partial_fit` of every estimator calls it."""
        with all_or_nothing(self), self._limited_threads():
            is_first = not self.__sklearn_is_fitted__()
            sampler = self._resolve_sampler()
            if not is_first:
                self._check_continues(sampler)
            n_seen = getattr(self, "n_batch_iter_", 0)  # before the first fit these had nothing to learn from
            key, n_batches = (root_key(self.random_state), 0) if is_first else (self._key, n_seen)
            rate = float(self.learning_offset + n_batches + 1) ** -self.learning_decay
            settings = rate, self.total_samples, self.n_chains
            batch = Minibatch(sampler, key, n_batches, is_first, *settings, resets=is_first and n_seen == 0)
            strategy = self._stream_strategy(X, batch)
            if strategy is None:
                self.n_batch_iter_ = n_seen + 1
                return self
            with self._open_workers(strategy.n_chains) as (chain_workers, kernel_workers):
                model = strategy.model(kernel_workers)
                strategy.check(model, self._samplers.values())
                fitted = strategy.advance(model, chain_workers)
            self._forget(self._of_no_stream)
            self.__dict__.update(fitted, _key=key, sampler_=sampler, n_batch_iter_=n_seen + 1)
            return self

    def _check_continues(self, sampler: BaseSampler) -> None:
        """Raise a ValueError if a parameter, such as the sampler, differs from the last fit or minibatch."""
        if type(sampler) is not type(self.sampler_):
            previous = type(self.sampler_).__name__
            raise ValueError(f"{type(sampler).__name__} cannot continue a fit by {previous}: call fit.")

    def _check_number(self, fitted: int, noun: str) -> None:
        """Raise a ValueError if `n_components` differs from the number in the fitted model."""
        if self.n_components != fitted:
            raise ValueError(f"n_components={self.n_components}, but the fitted model has {fitted} {noun}: call fit.")

    def _limited_threads(self) -> Any:
        if self._single_threaded is None:
            return nullcontext()
        return limit_threads(None if self._single_threaded == "all" else self._single_threaded)

    @contextmanager
    def _open_workers(self, n_chains: int) -> Iterator[tuple[Workers, Workers]]:
        """Threads for the chains, and threads that the kernels share if there are more threads than chains."""
        n_workers = count_threads(self.n_jobs)
        n_kernel_workers = n_workers if n_workers > n_chains else 1
        with Workers(min(n_chains, n_workers)) as of_chains, Workers(n_kernel_workers) as of_kernels:
            yield of_chains, of_kernels

    def _run_chains(
        self, strategy: FitStrategy, model: Any, run: Run, X: Any, workers: Workers, checkpoints: Checkpoints | None
    ) -> dict[str, Any]:
        """Run all chains and the callbacks; returns the fitted attributes by name.

        Callbacks see a task "fit" with a subtask "pass" for each pass, get `X` for scores, and may stop the fit after a
        pass.
        """
        passes, watched, n_units = strategy.passes, bool(callbacks_of(self)), strategy.n_units(model)
        context = self._init_callback_context(max_subtasks=run.schedule.max_iter)
        # Score monitors need a y; this one is made only if a callback reads it.
        task = {"estimator": self, "X": X, "y": lambda: np.zeros(strategy.n_rows)}

        def fitted(chains: list[Chain]) -> dict[str, Any]:
            estimate = {**strategy.estimate(chains), "sampler_": run.sampler}
            return {**estimate, **posterior_arrays(passes, chains, strategy.record), "_n_units": n_units}

        def after_pass(iteration: int, chains: list[Chain]) -> bool:
            converged = all(passes.has_converged(chain.state) for chain in chains)
            reported = bool(self.verbose) and iteration % self.verbose == 0
            if not (watched or reported):
                return converged
            schedule = chains[0].schedule
            log_density = chains[best_chain(chains)].log_density[-1]
            if reported:
                print(f"pass {iteration} of {schedule.max_iter}: log density {log_density:.6g}")
            if not watched:
                return converged
            may_stop = iteration > schedule.burn_in and (bool(chains[0].draws) or not schedule.n_draws)
            objective = passes.log_density_name.replace("_", " ")
            self._pass_report = PassReport(objective, log_density, self.n_chains * n_units, f"{self._unit}s", may_stop)
            step = context.subcontext(task_name="pass").call_on_fit_task_begin(**task)
            attributes = (lambda: fitted(chains)) if wants_estimator(self, step) else None
            stop = step.call_on_fit_task_end(**task, reconstruction_attributes=attributes)
            return stop or converged

        context.call_on_fit_task_begin(**task)
        chains = run_chains(strategy, model, run.key, self.n_chains, run.schedule, after_pass, workers, checkpoints)
        attributes = fitted(chains)
        context.call_on_fit_task_end(**task, reconstruction_attributes=attributes)
        self.__dict__.pop("_pass_report", None)
        return attributes


def samples_density(sampler: BaseSampler) -> bool:
    """Whether a sampler moves points of a manifold, given their log density or its gradient.

    Parameters
    ----------
    sampler : BaseSampler
        Any sampler.

    Returns
    -------
    samples : bool
        False for samplers of latent variables.
    """
    return offers(sampler, DensitySampler)


def takes_minibatches(estimator: Any) -> bool:
    """Whether the estimator's sampler can learn from minibatches, for scikit-learn's ``available_if``.

    Parameters
    ----------
    estimator : BaseSampledEstimator
        An estimator. If its `sampler` is not a valid sampler, the check passes, and `partial_fit` raises an error.

    Returns
    -------
    takes : bool
        Always True.

    Raises
    ------
    AttributeError
        If the sampler needs all rows at once.
    """
    sampler = estimator.sampler
    resolved = estimator._samplers.get(sampler) if isinstance(sampler, str) else sampler
    if getattr(resolved, "batching", "either") == "full":
        able = ", ".join(repr(name) for name, known in estimator._samplers.items() if known.batching != "full")
        raise AttributeError(f"partial_fit needs a sampler that takes minibatches ({able}), not {sampler!r}.")
    return True
