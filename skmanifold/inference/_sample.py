"""Draw from a density on a manifold: the samplers without an estimator around them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

from ..manifolds import Manifold
from ..models import CHARTS, check_compatible
from ..random._keys import Purpose, root_key, subkey
from ..samplers import ON_DENSITIES, BaseSampler, ManifoldSampler, NonFiniteError
from ..samplers._density.base import checked_position
from ..samplers._density.boundary import check_boundary
from ..samplers._resolve import resolve_sampler
from ..utils._interrupts import plain_interrupts
from ..utils._threads import Workers, split_range
from ..utils._typing import ArrayLike, RandomStateLike
from ._draws import Draws
from ._temperature import n_independent_coordinates, warn_temperature

_BLOCK = 256  # chains that a vectorised target sees at once, whatever the number of threads


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
        What to draw from, or a chart of it.
    sampler : BaseSampler or str
        An instance such as ``SGGMC(step_size=0.01)``, or a short name such as ``"sggmc"`` for its defaults.
    n_draws : int, default=1000
        Draws kept of each chain.
    burn_in : int, optional
        Steps of the sampler before the first draw is kept; by default half as many as come after.
    thin : int, default=1
        Steps of the sampler from one draw to the next.
    n_chains : int, default=4
        Chains, each with its own random stream: chain c is the same for any number of chains.
    batch_size : int, optional
        Rows of a minibatch, for targets with ``n_samples``; by default all.
    position : ndarray of shape (n_chains, *shape) or shape, optional
        Where the chains begin, each or all; by default at random points of the manifold.
    random_state : None, int or RandomState
        Seed. With an int the draws are the same bit for bit, whatever `n_jobs`.
    n_jobs : int, optional
        Threads for the chains, as in joblib. They help where the target's functions release the GIL. (Linear algebra
        runs on one thread meanwhile.)

    Returns
    -------
    Draws
        With ``position`` of shape ``(n_chains, n_draws, *shape)``, and ``stats``.

    Raises
    ------
    IncompatibleError
        If the sampler asks what the target or its manifold does not offer, or if its steps are wrong at a boundary
        where the gradient is unbounded, as that of a Dirichlet density of small concentrations in `SquareRoot`.
    NonFiniteError
        If a gradient is not finite. It carries the ``state``, and the ``draws`` until then.

    Warns
    -----
    UserWarning
        If `SGRLD` or `SGRHMC` is given a density of gamma shapes or Dirichlet concentrations below 1/2.
    ConvergenceWarning
        If the mean kinetic temperature of a sampler with a velocity, ``stats["temperature"]``, is not 1 by more than
        20% and what chance explains: noise of minibatches that is not compensated for, or steps that are too large.

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
            raise ValueError(f"{type(mover).__name__} needs all data at every step: leave batch_size at None.")
        target = target.minibatched(batch_size)
    shape = target.manifold.shape
    if position is not None:
        position = np.array(position, dtype=np.float64)
        if position.shape == shape:
            position = np.tile(position, (n_chains, *(1,) * len(shape)))
        position = checked_position(target.manifold, n_chains, position)

    root = root_key(random_state)
    keys = np.array([subkey(root, Purpose.CHAIN, chain) for chain in range(n_chains)], np.uint64)
    # A vectorised function may round differently for other numbers of chains; a looped one cannot.
    n_workers = effective_n_jobs(n_jobs)
    block = _BLOCK if getattr(target, "vectorized", False) else -(-n_chains // n_workers)
    run = _Run(mover, target, burn_in, thin, np.full((n_chains, n_draws, *shape), np.nan))
    with plain_interrupts(), Workers(n_jobs) as workers, threadpool_limits(1, user_api="blas"):
        tasks = [(keys, position, start, stop) for start, stop in split_range(n_chains, block)]
        try:
            workers.run(run.advance, tasks)
        except NonFiniteError as error:
            error.draws = run.draws()
            raise
    temperature, dim = run.stats.get("temperature"), target.manifold.dim
    if temperature is not None:
        n_coordinates = n_independent_coordinates(temperature, dim)
        warn_temperature(temperature, n_coordinates, "step_size", "target", stacklevel=3)
    return run.draws()


@dataclass
class _Run:
    """One call of `sample`: blocks of chains write their draws into one array."""

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
        for _ in range(self.burn_in):
            state = self.sampler.step(self.target, state)
        for draw in range(self.positions.shape[1]):
            for _ in range(self.thin):
                state = self.sampler.step(self.target, state)
            self.positions[start:stop, draw] = state.position
            for name, values in self.sampler.stats(self.target, state).items():
                self._array_of(name, values)[start:stop, draw] = values

    def _array_of(self, name: str, example: np.ndarray) -> np.ndarray:
        """The array of all chains' values; of several threads' the first one to be made."""
        if name not in self.stats:
            shape = (*self.positions.shape[:2], *example.shape[1:])
            self.stats.setdefault(name, np.full(shape, np.nan if example.dtype.kind == "f" else 0, example.dtype))
        return self.stats[name]

    def draws(self) -> Draws:
        """What the chains have drawn by now; nan where they have not come to."""
        return Draws(self.positions, self.stats, self.sampler)


def _check_count(name: str, value: Any, least: int) -> None:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}.")
