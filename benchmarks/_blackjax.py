"""Samplers of blackjax with the interface of the benchmark: jitted, vectorised over chains, on one core.

The conventions of blackjax, from its source (1.7), and the same settings in skmanifold, with h = step_size:

- ``sgld``: x + h grad + sqrt(2 h) N, as in `SGLD`;
- ``sghmc(grad, L, alpha)``: `SGHMC` with ``scheme="euler"`` and ``friction=alpha``, but L inner steps begin with a new
  momentum and share a minibatch, whereas `SGHMC` keeps the momentum and draws a minibatch for each;
- ``sgnht(grad, alpha)``: `SGNHT` with ``scheme="euler"`` and ``friction=alpha``, its thermostat by the new velocity;
- ``hmc``, ``nuts`` with the identity for a mass matrix: `HMC`; ``nuts`` has a given step size, unlike `NUTS`.

blackjax has no samplers of manifolds. On the circle it samples the angle, in which leapfrog steps are those of `GMC`.

Numbers are float64, as in skmanifold.
"""

from __future__ import annotations

import importlib.util
import os
import time

import numpy as np


def installed():
    return importlib.util.find_spec("blackjax") is not None


def _log_densities():
    import jax.numpy as jnp

    def banana(x):
        return -0.1 * x[0] ** 4 - 0.5 * (4 * (x[1] + 1.2) - x[0] ** 2) ** 2

    def circle(angle):
        along = 5 * jnp.cos(angle[0] - jnp.pi / 3)
        return jnp.logaddexp(along, jnp.log(2.0) - along)

    return {
        "normal": lambda x: -0.5 * jnp.sum(x * x),
        "double well": lambda x: jnp.sum(x * x * (2 - x * x)),
        "banana": banana,
        "circle": circle,
    }


class Blackjax:
    """A sampler of blackjax on a target; `run` returns draws and their cost."""

    def __init__(self, target, algorithm, n_chains, dim, step_size, n_steps=1, friction=1.0, seed=0):
        for name, value in {"NPROC": "1", "JAX_PLATFORMS": "cpu"}.items():  # NPROC: threads of XLA
            os.environ.setdefault(name, value)
        import jax

        jax.config.update("jax_enable_x64", True)
        import blackjax
        import jax.numpy as jnp

        self._on_circle = target == "circle"
        log_density = _log_densities()[target]
        gradient = jax.grad(log_density)

        def estimate(position, minibatch):
            return gradient(position)

        if algorithm in ("sgld", "sghmc", "sgnht"):
            options = {
                "sgld": {},
                "sghmc": {"num_integration_steps": n_steps, "alpha": friction},
                "sgnht": {"alpha": friction},
            }[algorithm]
            kernel = getattr(blackjax, algorithm)(estimate, **options)

            def begin(position, key):
                return kernel.init(position, key)

            def move(key, state):
                return kernel.step(key, state, (), step_size), n_steps if algorithm == "sghmc" else 1

        else:
            options = {"num_integration_steps": n_steps} if algorithm == "hmc" else {}
            kernel = getattr(blackjax, algorithm)(log_density, step_size, jnp.ones(dim), **options)

            def begin(position, key):
                return kernel.init(position)

            def move(key, state):
                state, info = kernel.step(key, state)
                return state, info.num_integration_steps

        def point(state):
            return getattr(state, "position", state)

        def draw(carry, key, thin):
            def once(i, carry):
                states, n = carry
                keys = jax.random.split(jax.random.fold_in(key, i), n_chains)
                states, cost = jax.vmap(move)(keys, states)
                return states, n + jnp.sum(cost)

            states, n = jax.lax.fori_loop(0, thin, once, carry)
            return (states, n), point(states)

        self.chunk = max(20, min(1000, 200_000 // (n_chains * dim)))

        @jax.jit
        def run_chunk(key, states, thin):
            keys = jax.random.split(key, self.chunk)
            (states, n), positions = jax.lax.scan(lambda c, k: draw(c, k, thin), (states, jnp.int64(0)), keys)
            return states, n, positions

        self._jax, self._run_chunk, self._key = jax, run_chunk, jax.random.key(seed)
        start = np.random.default_rng(seed).standard_normal((n_chains, dim))
        self._states = jax.vmap(begin)(jnp.asarray(start), jax.random.split(self._next_key(), n_chains))
        begun = time.perf_counter()
        self._advance(1)
        self.compile_seconds = time.perf_counter() - begun
        self._advance(1)

    def _next_key(self):
        self._key, key = self._jax.random.split(self._key)
        return key

    def _advance(self, thin):
        self._states, n, positions = self._run_chunk(self._next_key(), self._states, thin)
        return int(n), np.asarray(positions)

    def run(self, seconds, max_draws):
        """Draws ``(n_chains, n_draws, dim)``, gradients per chain, wall and processor time, about `seconds`."""
        begun = time.perf_counter()
        self._advance(1)
        each = time.perf_counter() - begun
        n_chunks = max(1, min(round(seconds / each), max_draws // self.chunk))
        thin = max(1, round(seconds / each / n_chunks))
        for _ in range(max(1, n_chunks // 4)):  # burn-in
            self._advance(thin)
        wall, cpu = time.perf_counter(), time.process_time()
        chunks = [self._advance(thin) for _ in range(n_chunks)]
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        positions = np.concatenate([positions for _, positions in chunks]).swapaxes(0, 1)
        if self._on_circle:
            positions = np.concatenate([np.cos(positions), np.sin(positions)], axis=-1)
        return positions, sum(n for n, _ in chunks) / positions.shape[0], wall, cpu
