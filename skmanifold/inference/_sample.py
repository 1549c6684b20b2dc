"""The function `sample`: draws from a density on a manifold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..manifolds import Manifold
from ..models import CHARTS, check_compatible
from ..random._keys import Purpose, root_key, subkey
from ..samplers import ON_DENSITIES, BaseSampler, ManifoldSampler, NonFiniteError
from ..samplers._base import resolve_sampler
from ..samplers._density.base import checked_position
from ..samplers._density.on_densities import check_boundary
from ..utils._runtime import plain_interrupts
from ..utils._threads import Workers, count_threads, limit_threads, split_range
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
            stats = {
                name: self._array_of(name, values)[start:stop]
                for name, values in self.sampler.stats(self.target, state).items()
            }
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
