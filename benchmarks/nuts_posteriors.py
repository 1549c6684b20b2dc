"""NUTS on small posteriors, compared with that of blackjax: effective samples per second with everything adapted.

The targets are written by hand, after those of posteriordb: eight schools (non-centred), a logistic regression, the
banana of the reference targets, and Neal's funnel (non-centred). Each program makes `--n-warm-up` steps that adapt the
step size and the metric, and then draws, in chains one after the other on one core. Compilation is timed apart. The
error is that of the worst mean in standard deviations of the quantity, with its Monte Carlo standard error; exact means
are from quadrature, for the logistic regression from a long run of HMC.

    python -m benchmarks.nuts_posteriors --write
    python -m benchmarks.nuts_posteriors --targets "eight schools" --n-rounds 1
"""

from __future__ import annotations

import argparse
import math
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._blackjax import installed
from benchmarks._results import add_write, begin_table, finish, row
from benchmarks._targets import banana_target
from skmanifold import sample
from skmanifold.inference import Draws
from skmanifold.manifolds import Euclidean
from skmanifold.models import Density
from skmanifold.samplers import HMC, NUTS

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
_RNG = np.random.default_rng(0)
N_ROWS, N_COLUMNS = 200, 10
ROWS = np.column_stack([np.ones(N_ROWS), _RNG.normal(size=(N_ROWS, N_COLUMNS - 1)) * np.linspace(0.5, 2.0, 9)])
LABELS = (_RNG.random(N_ROWS) < 1 / (1 + np.exp(-ROWS @ _RNG.normal(0, 0.5, N_COLUMNS)))).astype(np.float64)


@dataclass(frozen=True)
class Posterior:
    """A log density twice, for numba and for JAX, and quantities with known means and standard deviations."""

    dim: int
    gradient: Any
    log_density: Any
    in_jax: Callable[[], Callable]
    quantities: Callable[[np.ndarray], np.ndarray]  # of points (..., dim)
    moments: Callable[[], tuple[np.ndarray, np.ndarray]]  # means and standard deviations


# Eight schools: x = (mu, log tau, eight standardised effects); mu ~ N(0, 5), tau ~ half-Cauchy(5)


@numba.njit
def schools_density(x):
    tau = math.exp(x[1])
    total = -0.02 * x[0] * x[0] - math.log1p(tau * tau / 25.0) + x[1]
    for j in range(8):
        gap = (EFFECTS[j] - x[0] - tau * x[2 + j]) / ERRORS[j]
        total -= 0.5 * (gap * gap + x[2 + j] * x[2 + j])
    return total


@numba.njit
def schools_gradient(x):
    out, tau = np.empty(10), math.exp(x[1])
    out[0] = -0.04 * x[0]
    out[1] = 1.0 - 2.0 * tau * tau / (25.0 + tau * tau)
    for j in range(8):
        pull = (EFFECTS[j] - x[0] - tau * x[2 + j]) / (ERRORS[j] * ERRORS[j])
        out[0] += pull
        out[1] += pull * tau * x[2 + j]
        out[2 + j] = pull * tau - x[2 + j]
    return out


def schools_in_jax():
    import jax.numpy as jnp

    def log_density(x):
        tau = jnp.exp(x[1])
        gaps = (EFFECTS - x[0] - tau * x[2:]) / ERRORS
        prior = -0.02 * x[0] ** 2 - jnp.log1p(tau**2 / 25) + x[1]
        return prior - 0.5 * jnp.sum(gaps**2) - 0.5 * jnp.sum(x[2:] ** 2)

    return log_density


def schools_moments():
    """Of mu and log tau: given tau, mu is normal."""
    log_tau = np.linspace(-12, 8, 20_001)
    variances = ERRORS**2 + np.exp(2 * log_tau)[:, None]
    precision = 1 / 25 + (1 / variances).sum(axis=1)
    mean = (EFFECTS / variances).sum(axis=1) / precision
    logs = -0.5 * (np.log(variances) + EFFECTS**2 / variances).sum(axis=1) - 0.5 * np.log(precision)
    logs += 0.5 * precision * mean**2 - np.log1p(np.exp(2 * log_tau) / 25) + log_tau
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    means = np.array([weights @ mean, weights @ log_tau])
    squares = np.array([weights @ (mean**2 + 1 / precision), weights @ log_tau**2])
    return means, np.sqrt(squares - means**2)


# Logistic regression with normal priors of variance 1


@numba.njit
def logistic_density(x):
    total = 0.0
    for i in range(N_ROWS):
        along = 0.0
        for j in range(N_COLUMNS):
            along += ROWS[i, j] * x[j]
        total += LABELS[i] * along - max(along, 0.0) - math.log1p(math.exp(-abs(along)))
    for j in range(N_COLUMNS):
        total -= 0.5 * x[j] * x[j]
    return total


@numba.njit
def logistic_gradient(x):
    out = np.empty(N_COLUMNS)
    for j in range(N_COLUMNS):
        out[j] = -x[j]
    for i in range(N_ROWS):
        along = 0.0
        for j in range(N_COLUMNS):
            along += ROWS[i, j] * x[j]
        gap = LABELS[i] - 1.0 / (1.0 + math.exp(-along))
        for j in range(N_COLUMNS):
            out[j] += gap * ROWS[i, j]
    return out


def logistic_in_jax():
    import jax.numpy as jnp

    def log_density(x):
        along = jnp.asarray(ROWS) @ x
        return jnp.sum(LABELS * along - jnp.logaddexp(0.0, along)) - 0.5 * jnp.sum(x**2)

    return log_density


def logistic_moments():
    target = Density(Euclidean(N_COLUMNS), logistic_gradient, logistic_density)
    draws = sample(
        target, HMC(0.08, n_steps=12), n_draws=100_000, burn_in=2000, position=np.zeros(N_COLUMNS), random_state=9
    )
    return draws.mean(), draws.position.std(axis=(0, 1))


# Neal's funnel, non-centred: a standard normal distribution


@numba.njit
def funnel_density(x):
    total = 0.0
    for j in range(10):
        total -= 0.5 * x[j] * x[j]
    return total


@numba.njit
def funnel_gradient(x):
    return -x


def funnel_in_jax():
    import jax.numpy as jnp

    return lambda x: -0.5 * jnp.sum(x**2)


def banana_in_jax():
    return lambda x: -0.1 * x[0] ** 4 - 0.5 * (4 * (x[1] + 1.2) - x[0] ** 2) ** 2


def _banana():
    target = banana_target()
    functions = target.density._gradient, target.density._value
    return Posterior(2, *functions, banana_in_jax, target.functions, lambda: (target.mean, target.sd))


POSTERIORS = {
    "eight schools": lambda: Posterior(
        10, schools_gradient, schools_density, schools_in_jax, lambda x: x[..., :2], schools_moments
    ),
    "logistic regression": lambda: Posterior(
        N_COLUMNS, logistic_gradient, logistic_density, logistic_in_jax, lambda x: x, logistic_moments
    ),
    "banana": _banana,
    "funnel, non-centred": lambda: Posterior(
        10,
        funnel_gradient,
        funnel_density,
        funnel_in_jax,
        lambda x: 3 * x[..., :1],
        lambda: (np.zeros(1), np.full(1, 3.0)),
    ),
}


class Ours:
    """`NUTS` of the library."""

    name = "skmanifold"

    def __init__(self, posterior, n_warm_up, n_draws):
        self.density = Density(Euclidean(posterior.dim), posterior.gradient, posterior.log_density)
        self.n_warm_up, self.n_draws = n_warm_up, n_draws
        self._sample(2, 0, 0)

    def _sample(self, n_draws, burn_in, seed):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sample(self.density, NUTS(), n_draws=n_draws, burn_in=burn_in, n_chains=4, random_state=seed)

    def run(self, seed):
        """Draws, gradients, seconds of warm-up and of sampling."""
        begun = time.perf_counter()
        self._sample(1, self.n_warm_up, seed)
        warm = time.perf_counter() - begun
        begun = time.perf_counter()
        draws = self._sample(self.n_draws, self.n_warm_up, seed)
        both = time.perf_counter() - begun
        return draws.position, float(draws.stats["n_gradients"].sum()), warm, max(both - warm, 1e-9)


class Theirs:
    """NUTS of blackjax with its window adaptation, each chain in one compiled call."""

    name = "blackjax"

    def __init__(self, posterior, n_warm_up, n_draws):
        for name, value in {"NPROC": "1", "JAX_PLATFORMS": "cpu"}.items():
            os.environ.setdefault(name, value)
        import jax

        jax.config.update("jax_enable_x64", True)
        import blackjax

        log_density = posterior.in_jax()
        adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)

        @jax.jit
        def warm(key, position):
            (state, parameters), _ = adaptation.run(key, position, n_warm_up)
            return state, parameters

        @jax.jit
        def draw(key, state, parameters):
            kernel = blackjax.nuts(log_density, **parameters).step

            def once(state, key):
                state, info = kernel(key, state)
                return state, (state.position, info.num_integration_steps)

            return jax.lax.scan(once, state, jax.random.split(key, n_draws))[1]

        self.jax, self.warm, self.draw, self.dim = jax, warm, draw, posterior.dim
        self.run(99, n_chains=1)

    def run(self, seed, n_chains=4):
        """Draws, gradients, seconds of warm-up and of sampling."""
        rng, positions, n_gradients, seconds = np.random.default_rng(seed), [], 0, np.zeros(2)
        for key in self.jax.random.split(self.jax.random.key(seed), n_chains):
            first, second = self.jax.random.split(key)
            begun = time.perf_counter()
            adapted = self.jax.block_until_ready(self.warm(first, rng.standard_normal(self.dim)))
            seconds[0] += time.perf_counter() - begun
            begun = time.perf_counter()
            points, numbers = self.jax.block_until_ready(self.draw(second, *adapted))
            seconds[1] += time.perf_counter() - begun
            positions.append(np.asarray(points))
            n_gradients += int(numbers.sum())
        return np.array(positions), n_gradients, *seconds


def main():
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="*", choices=list(POSTERIORS), default=list(POSTERIORS))
    parser.add_argument("--n-warm-up", type=int, default=1000)
    parser.add_argument("--n-draws", type=int, default=5000)
    parser.add_argument("--n-rounds", type=int, default=5)
    add_write(parser)
    options = parser.parse_args()
    kinds = [Ours, Theirs] if installed() else [Ours]
    head = "posterior", "program", "effective samples per second", "with warm-up", "microseconds per gradient"
    begin_table((*head, "gradients per effective sample", "error, standard deviations", "compilation, seconds"))
    with threadpool_limits(1):
        for name in options.targets:
            posterior = POSTERIORS[name]()
            programs = []
            for kind in kinds:
                begun = time.perf_counter()
                programs.append((kind(posterior, options.n_warm_up, options.n_draws), time.perf_counter() - begun))
            mean, sd = posterior.moments()
            found = [[] for _ in programs]
            for turn in range(options.n_rounds):  # the programs alternate
                for (program, _), own in zip(programs, found, strict=True):
                    positions, n_gradients, warm, seconds = program.run(turn)
                    values = Draws(posterior.quantities(positions))
                    own.append((values.ess().min(), n_gradients, warm, seconds, values.mean()))
            for (program, compilation), own in zip(programs, found, strict=True):
                _show(name, program.name, own, mean, sd, compilation)
    finish(options, "blackjax", "jax", "arviz-stats", notes="Medians (ranges) over runs of four chains.")


def _show(name, program, own, mean, sd, compilation):
    ess, n_gradients, warm, seconds = (np.array([each[i] for each in own]) for i in range(4))
    gaps = (np.mean([each[4] for each in own], axis=0) - mean) / sd
    worst = int(np.abs(gaps).argmax())

    def spread(values):
        return f"{np.median(values):,.0f} ({values.min():,.0f} to {values.max():,.0f})"

    row(
        (
            name,
            program,
            spread(ess / seconds),
            spread(ess / (seconds + warm)),
            f"{1e6 * np.median(seconds / n_gradients):.2f}",
            f"{np.median(n_gradients / ess):.1f}",
            f"{gaps[worst]:+.4f} ± {1 / np.sqrt(ess.sum()):.4f}",
            f"{compilation:.1f}",
        )
    )


if __name__ == "__main__":
    main()
