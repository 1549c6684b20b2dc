"""The function `sample`, which draws from a density on a manifold, and step sizes of its samplers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_scalar

from ..manifolds import Manifold
from ..models import CHARTS, check_compatible
from ..random._keys import Purpose, root_key, subkey
from ..samplers import ON_DENSITIES, BaseSampler, ManifoldSampler, NonFiniteError
from ..samplers._base import resolve_sampler
from ..samplers._density.base import checked_position
from ..samplers._density.on_densities import check_boundary
from ..utils._threads import Workers, count_threads, limit_threads, plain_interrupts, split_range
from ..utils._typing import ArrayLike, RandomStateLike
from ._convergence import n_independent_coordinates, warn_convergence, warn_temperature
from ._draws import Draws

_BLOCK = 256  # number of chains in one call of a vectorised target, for any number of threads


def sample(
    target: Any,
    sampler: BaseSampler | str,
    *,
    n_draws: int = 1000,
    burn_in: int | None = None,
    thin: int = 1,
    n_chains: int = 4,
    batch_size: int | None = None,
    position: ArrayLike | None = None,
    random_state: RandomStateLike = None,
    n_jobs: int | None = None,
) -> Draws:
    """Draw from a density on a manifold.

    Parameters
    ----------
    target : Density or another target
        The target distribution, or a chart of it.
    sampler : BaseSampler or str
        A sampler such as ``SGGMC(step_size=0.01)``, or a short name such as ``"sggmc"`` for its default settings.
    n_draws : int, default=1000
        Number of draws of each chain.
    burn_in : int, optional
        Number of steps before the first draw; by default half of the number of steps after it.
    thin : int, default=1
        Number of steps per draw.
    n_chains : int, default=4
        Number of chains. Each has its own random stream, so chain c is the same for any number of chains.
    batch_size : int, optional
        Number of rows of a minibatch, for targets with ``n_samples``; by default all rows.
    position : ndarray of shape (n_chains, *shape) or shape, optional
        Initial positions of the chains, or one for all; by default random points of the manifold.
    random_state : None, int or RandomState
        Seed. With an int the draws are bitwise reproducible, for any `n_jobs`.
    n_jobs : int, optional
        Number of threads for the chains, as in joblib. They are useful if the functions of the target release the GIL.
        Linear algebra runs on one thread during the call.

    Returns
    -------
    Draws
        The draws, with ``position`` of shape ``(n_chains, n_draws, *shape)``, and ``stats``.

    Raises
    ------
    IncompatibleError
        If the target or its manifold lacks a method that the sampler requires, or if the steps of the sampler are wrong
        at a boundary where the gradient is unbounded, as for a Dirichlet density of small concentrations in
        `SquareRoot`.
    NonFiniteError
        If a gradient, a metric or a new position is not finite; for HMC and GMC only at the start of a chain, because
        they reject proposals that meet such a value. The error has the ``state`` and the previous ``draws``.

    Warns
    -----
    UserWarning
        If `SGRLD` or `SGRHMC` is used with a density of gamma shapes or Dirichlet concentrations below 1/2.
    ConvergenceWarning
        If the mean kinetic temperature of a sampler with a velocity, ``stats["temperature"]``, differs from 1 by more
        than 20% beyond chance: noise of minibatches is not compensated, or steps are too large. Otherwise about the
        first of these: more than 0.1% of the trajectories of `NUTS` diverged; more than 5% ended at ``max_depth``, or a
        chain of `HMC` or `GMC` accepted less than 10% of at least 20 proposals; or, with several chains of at least 100
        draws, the effective sample size of a coordinate, which the message names, is below 100, or 2 per chain if that
        is more, and below 5% of the draws.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import sample
    >>> from skmanifold.manifolds import Sphere
    >>> from skmanifold.models import Density
    >>> from skmanifold.samplers import SGGMC
    >>> direction = np.array([0.0, 0.0, 5.0])
    >>> target = Density(Sphere(3), grad_log_density=lambda x: direction)
    >>> draws = sample(target, SGGMC(step_size=0.1), n_draws=500, n_chains=2, random_state=0)
    >>> draws.position.shape
    (2, 500, 3)
    """
    mover: Any = resolve_sampler(sampler, {known.short_name: known for known in ON_DENSITIES})
    for name, value, least in (("n_draws", n_draws, 1), ("thin", thin, 1), ("n_chains", n_chains, 1)):
        _check_count(name, value, least)
    if burn_in is None:
        burn_in = n_draws * thin // 2
    _check_count("burn_in", burn_in, 0)
    if not isinstance(getattr(target, "manifold", None), Manifold):
        raise TypeError(f"target must be a Density, a chart or another target on a manifold; got {target!r}.")
    check_compatible(mover, target, ON_DENSITIES, CHARTS)
    check_boundary(mover, target)
    if batch_size is not None:
        if mover.batching == "full":
            raise ValueError(f"{type(mover).__name__} needs all data at every step: set batch_size to None.")
        target = target.minibatched(batch_size)
    shape = target.manifold.shape
    if position is not None:
        position = np.array(position, dtype=np.float64)
        if position.shape == shape:
            position = np.tile(position, (n_chains, *(1,) * len(shape)))
        position = checked_position(target.manifold, n_chains, position)

    root = root_key(random_state)
    keys = np.array([subkey(root, Purpose.CHAIN, chain) for chain in range(n_chains)], np.uint64)
    # The rounding of a vectorised function may depend on the number of chains, so its blocks have a fixed size.
    block = _BLOCK if getattr(target, "vectorized", False) else -(-n_chains // count_threads(n_jobs))
    run = _Run(mover, target, burn_in, thin, np.full((n_chains, n_draws, *shape), np.nan))
    with plain_interrupts(), Workers(n_jobs) as workers, limit_threads("blas"):
        tasks = [(keys, position, start, stop) for start, stop in split_range(n_chains, block)]
        try:
            workers.run(run.advance, tasks)
        except NonFiniteError as error:
            error.draws = run.draws()
            raise
    draws, temperature, is_hot = run.draws(), run.stats.get("temperature"), False
    if temperature is not None:
        n_coordinates = n_independent_coordinates(temperature, target.manifold.dim)
        is_hot = warn_temperature(temperature, n_coordinates, "step_size", "target", stacklevel=3)
    if not is_hot:
        warn_convergence(draws, target.manifold, stacklevel=3)
    return draws


@dataclass
class _Run:
    """The data of one call of `sample`; blocks of chains write their draws into one array."""

    sampler: ManifoldSampler
    target: Any
    burn_in: int
    thin: int
    positions: np.ndarray
    stats: dict[str, np.ndarray] = field(default_factory=dict)

    def advance(self, keys: np.ndarray, position: np.ndarray | None, start: int, stop: int) -> None:
        """Run chains start..stop to the end."""
        own = None if position is None else position[start:stop]
        state: Any = self.sampler.init(self.target, keys[start:stop], own)
        compiled = self.sampler.compiled_run(self.target, state)
        if compiled is not None:
            first = self.sampler.stats(self.target, state)
            stats = {name: self._array_of(name, values)[start:stop] for name, values in first.items()}
            compiled.draw(compiled.skip(state, self.burn_in), self.thin, self.positions[start:stop], stats)
            return
        state = self.sampler.burn_in(self.target, state, self.burn_in)
        for draw in range(self.positions.shape[1]):
            for _ in range(self.thin):
                state = self.sampler.step(self.target, state)
            self.positions[start:stop, draw] = state.position
            for name, values in self.sampler.stats(self.target, state).items():
                self._array_of(name, values)[start:stop, draw] = values

    def _array_of(self, name: str, example: np.ndarray) -> np.ndarray:
        """The array of values of all chains; it is created by the first thread that needs it."""
        if name not in self.stats:
            shape = (*self.positions.shape[:2], *example.shape[1:])
            self.stats.setdefault(name, np.full(shape, np.nan if example.dtype.kind == "f" else 0, example.dtype))
        return self.stats[name]

    def draws(self) -> Draws:
        """The current draws; NaN for draws that have not been made."""
        return Draws(self.positions, self.stats, self.sampler)


def _check_count(name: str, value: Any, least: int) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}.")


_MOST_TRIALS = 20  # of step sizes
_LEAST_LENGTH, _DRAWS = 200, 200  # steps of a chain at first, and draws that are kept of it
_ACCEPTANCE, _NEAR = 0.8, 0.05  # of proposals
_FAR = 1.0  # changes of so many standard deviations are too large, whatever their errors are
_ERRORS = 4.0  # so many standard errors count as noise


class TunedStepSize(NamedTuple):
    """Result of `tune_step_size`.

    Parameters
    ----------
    sampler : BaseSampler
        The sampler with the step size that was found.
    step_sizes : ndarray of shape (n_trials,)
        Step sizes that were tried, in this order.
    acceptance : ndarray of shape (n_trials,)
        Share of accepted proposals; NaN for samplers without a Metropolis-Hastings test.
    change : ndarray of shape (n_trials,)
        Largest change of a mean, or of the logarithm of a standard deviation, of a coordinate if the step size is
        halved, in standard deviations; NaN for samplers with a Metropolis-Hastings test, infinite if a run failed.
    temperature : ndarray of shape (n_trials,)
        Mean kinetic temperature; NaN for samplers without a momentum.
    """

    sampler: Any
    step_sizes: np.ndarray
    acceptance: np.ndarray
    change: np.ndarray
    temperature: np.ndarray


class _Trial(NamedTuple):
    step_size: float
    acceptance: float = np.nan
    change: float = np.nan
    temperature: float = np.nan
    is_small_enough: bool = False
    is_too_large: bool = True  # if it is neither, the chains do not mix in the given number of steps


def tune_step_size(
    target: Any,
    sampler: BaseSampler | str,
    *,
    tolerance: float = 0.1,
    n_chains: int = 16,
    max_steps: int = 20_000,
    batch_size: int | None = None,
    position: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> TunedStepSize:
    """Find a step size for a sampler and a density.

    For samplers with a Metropolis-Hastings test (`HMC`, `GMC`) it is a step size at which about 80% of the proposals
    are accepted. For others it is the largest, in powers of two times the given one, at which means and standard
    deviations of all coordinates change by less than `tolerance` if it is halved, and the kinetic temperature, if there
    is a momentum, differs from 1 by less than `tolerance`; a temperature of 1 alone does not exclude a wrong
    distribution.

    Runs with h and h / 2 cover the same time. Their length is doubled until the standard errors of the changes are
    below a quarter of the tolerance, or until a chain makes `max_steps` steps; then changes of less than four standard
    errors are accepted, if these are below the tolerance. The chains must mix in this time. `NUTS` adapts its step size
    by itself.

    Parameters
    ----------
    target : Density or another target
        The target distribution, or a chart of it.
    sampler : BaseSampler or str
        A sampler with a `step_size`, at which the search begins.
    tolerance : float, default=0.1
        Largest accepted change, in standard deviations of the coordinate.
    n_chains : int, default=16
        Number of chains, from whose differences standard errors are estimated; at least 4.
    max_steps : int, default=20_000
        Largest number of steps of each chain of a run.
    batch_size : int, optional
        Number of rows of a minibatch, as in `sample`.
    position : ndarray of shape (n_chains, *shape) or shape, optional
        Initial positions of the chains; by default random points of the manifold.
    random_state : None, int or RandomState

    Returns
    -------
    TunedStepSize
        The sampler with the new step size, and what was tried.

    Raises
    ------
    ValueError
        If the sampler has no constant `step_size`, a parameter is out of its range, or no step size was found.
    IncompatibleError
        If the target lacks a method that the sampler requires.

    Examples
    --------
    >>> from skmanifold import tune_step_size
    >>> from skmanifold.manifolds import Euclidean
    >>> from skmanifold.models import Density
    >>> from skmanifold.samplers import HMC
    >>> target = Density(Euclidean(2), lambda x: -x / 9, lambda x: -(x @ x) / 18)
    >>> tuned = tune_step_size(target, HMC(step_size=0.1, n_steps=5), random_state=0)
    >>> tuned.sampler.step_size > 1
    True
    """
    mover: Any = clone(resolve_sampler(sampler, {known.short_name: known for known in ON_DENSITIES}))
    given = getattr(mover, "step_size", None)
    if not isinstance(given, Real):
        raise ValueError(f"tune_step_size needs a sampler with a number as step_size; {mover!r} has {given!r}.")
    check_scalar(tolerance, "tolerance", Real, min_val=0, include_boundaries="neither")
    check_scalar(n_chains, "n_chains", Integral, min_val=4)
    check_scalar(max_steps, "max_steps", Integral, min_val=_LEAST_LENGTH)
    search = _Search(mover, target, tolerance, n_chains, max_steps, batch_size, position, root_key(random_state))
    has_test = any("accepted" in state._fields for state in mover.state_types)
    trials = search.by_acceptance(float(given)) if has_test else search.by_halving(float(given))
    chosen = [trial for trial in trials if trial.is_small_enough]
    if not chosen:
        raise ValueError(
            f"No step size of {type(mover).__name__} between {min(trial.step_size for trial in trials):.3g} and "
            f"{given:.3g} is small enough: begin with a smaller one, increase max_steps, or use larger minibatches."
        )
    best = max(trial.step_size for trial in chosen)
    columns = np.array([trial[:4] for trial in trials]).T
    return TunedStepSize(mover.set_params(step_size=best), *columns)


class _Search:
    """Trials of step sizes."""

    def __init__(self, sampler, target, tolerance, n_chains, max_steps, batch_size, position, key):
        self.sampler = sampler
        self.target = target
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.key = key
        self.n_runs = 0
        self.settings = {"n_chains": n_chains, "batch_size": batch_size, "position": position}

    def by_acceptance(self, step_size: float) -> list[_Trial]:
        """Bisect the logarithm of the step size."""
        trials: list[_Trial] = []
        low, high = 0.0, np.inf  # acceptance is too high at the lower end, and too low at the upper one
        while len(trials) < _MOST_TRIALS:
            draws = self._run(step_size, _LEAST_LENGTH)
            rate = 0.0 if draws is None else float(draws.stats["accepted"].mean())
            is_near = abs(rate - _ACCEPTANCE) <= _NEAR
            trials.append(_Trial(step_size, rate, is_small_enough=rate >= _ACCEPTANCE - _NEAR))
            if is_near:
                break
            low, high = (step_size, high) if rate > _ACCEPTANCE else (low, step_size)
            step_size = np.sqrt(low * high) if low > 0.0 and np.isfinite(high) else step_size * (2.0 if low else 0.5)
        return trials

    def by_halving(self, step_size: float) -> list[_Trial]:
        """Double the step size until it is too large, or halve it until it is small enough."""
        trials = [self._compare(step_size)]
        doubles = not trials[0].is_too_large
        while len(trials) < _MOST_TRIALS:
            step_size *= 2.0 if doubles else 0.5
            trials.append(self._compare(step_size))
            if trials[-1].is_too_large if doubles else not trials[-1].is_too_large:
                break
        return trials

    def _compare(self, step_size: float) -> _Trial:
        """Compare runs with this step size and half of it, of the same time."""
        length = _LEAST_LENGTH
        while True:
            one, other = self._run(step_size, length), self._run(0.5 * step_size, 2 * length)
            if one is None or other is None:
                return _Trial(step_size, change=np.inf)
            with np.errstate(over="ignore", invalid="ignore"):
                changes, errors = _changes(one, other)
            if not np.isfinite(changes).all():
                return _Trial(step_size, change=np.inf)
            if errors.max() <= self.tolerance / _ERRORS or 4 * length > self.max_steps:
                break
            length *= 2
        limits = np.maximum(self.tolerance, _ERRORS * errors)
        temperature = float(one.stats["temperature"].mean()) if "temperature" in one.stats else np.nan
        is_too_large = np.any(changes > limits) or changes.max() > _FAR or abs(temperature - 1.0) > self.tolerance
        is_small_enough = not is_too_large and errors.max() <= self.tolerance
        return _Trial(step_size, np.nan, float(changes.max()), temperature, bool(is_small_enough), bool(is_too_large))

    def _run(self, step_size: float, n_steps: int) -> Draws | None:
        """Draws with this step size; None if a gradient was not finite."""
        sampler = clone(self.sampler).set_params(step_size=step_size)
        seed = int(subkey(self.key, Purpose.STEP_SIZE, self.n_runs)) % 2**32
        self.n_runs += 1
        n_draws = min(_DRAWS, n_steps)
        schedule = {"n_draws": n_draws, "thin": n_steps // n_draws, "burn_in": n_steps // 2}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                draws = sample(self.target, sampler, **schedule, **self.settings, random_state=seed)
            except NonFiniteError:
                return None
        return draws if np.isfinite(draws.position).all() else None


def _changes(one: Draws, other: Draws) -> tuple[np.ndarray, np.ndarray]:
    """Changes of means and of log standard deviations between two runs, in standard deviations, and their errors."""
    values = [draws.position.reshape(*draws.position.shape[:2], -1) for draws in (one, other)]
    scale = np.maximum(values[1].std(axis=(0, 1)), 1e-300)
    means = [each.mean(axis=1) / scale for each in values]  # of each chain
    squares = [((each - each.mean(axis=(0, 1))) ** 2).mean(axis=1) / (2.0 * scale**2) for each in values]
    changes, errors = [], []
    for first, second in (means, squares):
        changes.append(np.abs(first.mean(axis=0) - second.mean(axis=0)))
        variances = (each.var(axis=0, ddof=1) / len(each) for each in (first, second))
        errors.append(np.sqrt(sum(variances)))
    return np.concatenate(changes), np.concatenate(errors)
