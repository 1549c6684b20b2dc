"""Bias of samplers by step size, and the order of each integrator: the error of the worst test function.

For each reference target, the largest step size is halved twice. The bias is that of the worst test function of the
target, in its standard deviations, with the standard error of the largest one. The order is the slope of log bias
against log step size, from the step sizes whose bias exceeds four standard errors. Gradients are exact, or have normal
noise whose covariance the sampler knows ("declared noise"), or does not know ("unknown noise"), as in minibatches.

    python -m benchmarks.step_size_bias
    python -m benchmarks.step_size_bias --targets "sphere" --seconds 60 --write
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._results import add_write, begin_table, finish, row
from benchmarks._targets import TARGETS, Target, sphere_target
from skmanifold import sample
from skmanifold.models._reference import NoisyGradient
from skmanifold.samplers import GSGNHT, SCIR, SGGMC, SGHMC, SGLD, SGNHT, SGRHMC, SGRLD, NonFiniteError

N_CHAINS, N_HALVINGS = 500, 2
TIME_OF_CHAIN = 60.0  # of integration, before and between checks of the clock
FLAT = {
    "SGLD": SGLD,
    "SGHMC euler": lambda h: SGHMC(h, friction=1.0, scheme="euler"),
    "SGHMC baoab": lambda h: SGHMC(h, friction=1.0, scheme="baoab"),
    "SGHMC ou": lambda h: SGHMC(h, friction=1.0, scheme="ou"),
    "SGNHT euler": lambda h: SGNHT(h, friction=1.0, scheme="euler"),
    "SGNHT baoab": lambda h: SGNHT(h, friction=1.0, scheme="baoab"),
    "SGNHT ou": lambda h: SGNHT(h, friction=1.0, scheme="ou"),
}
CURVED = {
    f"{kind.__name__} {scheme}": lambda h, kind=kind, scheme=scheme: kind(h, friction=1.5, n_steps=1, scheme=scheme)
    for kind in (SGGMC, GSGNHT)
    for scheme in ("aboba", "ou", "baoab")
}


class Case(NamedTuple):
    """A target, its samplers as functions of the step size, and the largest step size of each."""

    target: Callable[[], Target]
    samplers: dict[str, Callable[[float], Any]]
    largest: dict[str, float]


def circle_squares() -> Target:
    """The circle with the square alone, which does not depend on the weights of the modes: chains mix them slowly."""
    target = TARGETS["circle"]()
    return replace(
        target,
        names=target.names[1:],
        functions=lambda x: target.functions(x)[..., 1:],
        mean=target.mean[1:],
        sd=target.sd[1:],
    )


def noisy(make: Callable[[], Target], variance: float, *, declared: bool) -> Callable[[], Target]:
    """The target with gradient noise, whose covariance samplers know or not."""

    def make_noisy() -> Target:
        target = make()
        density = NoisyGradient(target.density, variance)
        if not declared:
            density.noise_covariance = None
        return replace(target, density=density)

    return make_noisy


def steps(samplers, flat=0.4, of_euler=0.05, of_sgld=0.05):
    """The largest step size of each sampler."""
    return {name: of_sgld if name == "SGLD" else of_euler if "euler" in name else flat for name in samplers}


WITH_FRICTION = {name: make for name, make in FLAT.items() if name != "SGLD"}
THERMOSTATS = {name: make for name, make in {**FLAT, **CURVED}.items() if "NHT" in name}
OF_SPHERE = {name: make for name, make in THERMOSTATS.items() if "GSG" in name}
OF_LINE = {name: make for name, make in THERMOSTATS.items() if "GSG" not in name}
CASES = {
    "normal, d=10": Case(TARGETS["normal, d=10"], FLAT, steps(FLAT, 0.8, 0.1, 0.1)),
    "normal, d=10, declared noise of variance 4": Case(
        noisy(TARGETS["normal, d=10"], 4.0, declared=True), WITH_FRICTION, steps(WITH_FRICTION, 0.4)
    ),
    "normal, d=10, unknown noise of variance 4": Case(
        noisy(TARGETS["normal, d=10"], 4.0, declared=False), OF_LINE, steps(OF_LINE, 0.4)
    ),
    "double well": Case(TARGETS["double well"], FLAT, steps(FLAT, 0.1, 0.02, 0.02)),
    "banana": Case(TARGETS["banana"], FLAT, steps(FLAT, 0.2, 0.02, 0.01)),
    "circle": Case(circle_squares, CURVED, steps(CURVED, 0.4)),
    "circle, unknown noise of variance 100": Case(
        noisy(circle_squares, 100.0, declared=False), OF_SPHERE, steps(OF_SPHERE, 0.1)
    ),
    "sphere": Case(sphere_target, CURVED, steps(CURVED, 0.4)),
    "sphere, declared noise of variance 30": Case(
        noisy(sphere_target, 30.0, declared=True), CURVED, steps(CURVED, 0.1)
    ),
    "sphere, unknown noise of variance 30": Case(
        noisy(sphere_target, 30.0, declared=False), OF_SPHERE, steps(OF_SPHERE, 0.1)
    ),
    "sphere, unknown noise of variance 100": Case(
        noisy(sphere_target, 100.0, declared=False), OF_SPHERE, steps(OF_SPHERE, 0.1)
    ),
    "gamma": Case(
        TARGETS["gamma"], {"SCIR": SCIR, "SGRLD": SGRLD, "SGRHMC": SGRHMC}, {"SCIR": 1.0, "SGRLD": 0.05, "SGRHMC": 0.2}
    ),
}


class Measured(NamedTuple):
    """Bias of the worst test function with its standard error, and temperature of momenta; NaN if a chain diverges."""

    bias: float
    error: float
    temperature: float


def measure(case, make_sampler, h, seconds, seed):
    """Run chains for about so many seconds and compare means of all chains with the exact ones."""
    target = case.target()
    density = target.density
    start = None
    if target.start is not None:
        start = np.repeat(target.start[None], N_CHAINS, 0)
    n_steps = int(TIME_OF_CHAIN / h)
    thin = max(1, n_steps // 200)
    sums, temperatures, n_rounds, begun = 0.0, [], 0, time.perf_counter()
    while n_rounds == 0 or time.perf_counter() - begun < seconds:
        settings = {"n_draws": 200, "burn_in": n_steps // 3, "thin": thin, "n_chains": N_CHAINS}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # temperatures are shown
            try:
                draws = sample(density, make_sampler(h), **settings, position=start, random_state=seed + n_rounds)
            except NonFiniteError:
                return Measured(np.nan, np.nan, np.nan)
        sums = sums + target.functions(draws.position).mean(axis=1)  # of each chain
        temperatures.append(draws.stats["temperature"].mean() if "temperature" in draws.stats else np.nan)
        n_rounds += 1
    means = sums / n_rounds
    gaps = (means.mean(axis=0) - target.mean) / target.sd
    errors = means.std(axis=0, ddof=1) / target.sd / np.sqrt(N_CHAINS)
    worst = int(np.abs(gaps).argmax())
    return Measured(float(gaps[worst]), float(errors[worst]), float(np.mean(temperatures)))


def order_of(measured):
    """Slope of log bias against log step size, of the step sizes that were halved, where bias exceeds noise."""
    clear = [(i, abs(each.bias)) for i, each in enumerate(measured) if abs(each.bias) > 4 * each.error]
    if len(clear) < 2:
        return ""
    halvings, biases = np.array(clear).T
    return f"{-np.polyfit(halvings, np.log2(biases), 1)[0]:.1f}"


def main():
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--seconds", type=float, default=20.0, help="of each step size")
    parser.add_argument("--seed", type=int, default=0)
    add_write(parser)
    options = parser.parse_args()
    begin_table(
        ("target", "sampler", "step size h", "bias at h", "at h/2", "at h/4", "order", "temperature at h, h/2, h/4")
    )
    with threadpool_limits(1):
        for name in options.targets:
            case, shown = CASES[name], name
            for sampler, make in case.samplers.items():
                largest = case.largest[sampler]
                found = [
                    measure(case, make, largest / 2**i, options.seconds, options.seed) for i in range(N_HALVINGS + 1)
                ]
                cells = [
                    "diverges" if np.isnan(each.bias) else f"{each.bias:+.4f} ± {each.error:.4f}" for each in found
                ]
                heat = ", ".join("" if np.isnan(each.temperature) else f"{each.temperature:.3f}" for each in found)
                row((shown, sampler, largest, *cells, order_of(found), heat.strip(", ")))
                shown = ""
    finish(options, notes="Bias of the worst test function in its standard deviations, with its standard error.")


if __name__ == "__main__":
    main()
