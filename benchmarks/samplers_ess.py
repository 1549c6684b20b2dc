"""Effective samples per second of every sampler on reference targets, and errors of their means.

Each pair of a target and a sampler runs several times; all pairs of a target alternate. ESS is the bulk ESS of
arviz-stats for all chains together, the smallest over the test functions of the target, divided by the time of the kept
draws: wall time, processor time, or thousands of gradients of a chain, which do not depend on the machine. The error is
that of the mean of the worst test function over all runs, in standard deviations of the function, with the Monte Carlo
standard error of a mean of so many effective samples. An error above four standard errors (marked !) is bias.

    python -m benchmarks.samplers_ess
    python -m benchmarks.samplers_ess --targets "normal, d=1000" --n-chains 64 --seconds 3
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._blackjax import Blackjax, installed
from benchmarks._results import add_write, begin_table, finish, row, title
from benchmarks._targets import TARGETS
from skmanifold import sample
from skmanifold.inference._draws import Draws
from skmanifold.samplers import GMC, GSGNHT, HMC, SCIR, SGGMC, SGHMC, SGLD, SGNHT, SGRHMC, SGRLD, SVRG

MAX_DRAWS = 40_000_000  # numbers of all chains that a run keeps; beyond, it thins
MAX_LENGTH = 1_000_000  # draws that a chain keeps: thinning would lose the gain of negative autocorrelations
SHOWN = ("step_size", "friction", "n_steps", "scheme", "noise_covariance", "control_variate")


class Ours(NamedTuple):
    """A sampler of the library with its settings."""

    sampler: Any
    batch_size: int | None = None
    in_chart: bool = False

    def __str__(self):
        settings = self.sampler.get_params(deep=False)
        shown = ", ".join(f"{name}={settings[name]!r}" for name in SHOWN if settings.get(name) not in (None, "model"))
        batch = "" if self.batch_size is None else f", batches of {self.batch_size}"
        return f"{type(self.sampler).__name__}({shown}){batch}{', in its chart' if self.in_chart else ''}"


class Theirs(NamedTuple):
    """A sampler of blackjax with the same settings."""

    algorithm: str
    step_size: float
    n_steps: int = 1
    friction: float = 1.0

    def __str__(self):
        settings = f"step_size={self.step_size}"
        if self.algorithm in ("hmc", "sghmc"):
            settings += f", n_steps={self.n_steps}"
        if self.algorithm in ("sghmc", "sgnht"):
            settings += f", friction={self.friction}"
        return f"blackjax.{self.algorithm}({settings})"


# From coarse grids: among the settings that bias no test function by more than 2 or 3% of its standard deviation, those
# with the most effective samples per gradient. Exceptions are shown on purpose: SGRLD where shapes are below one, and
# thermostats with the noise of plain minibatches, which is not isotropic. blackjax has the same step sizes for the same
# algorithm and scheme; its SGHMC draws a new momentum every n_steps, which therefore cover a time of about one.
SETTINGS: dict[str, list[Ours | Theirs]] = {
    "normal, d=10": [
        Ours(SGLD(0.05)),
        Ours(SGHMC(0.5, friction=1.0, n_steps=5)),
        Ours(SGHMC(0.01, friction=1.0, n_steps=100, scheme="euler")),
        Ours(SGNHT(0.5, friction=0.7, n_steps=5)),
        Ours(HMC(0.8, n_steps=2, jitter=0.0)),
        Theirs("sgld", 0.05),
        Theirs("sghmc", 0.01, n_steps=100, friction=1.0),
        Theirs("sgnht", 0.01, friction=1.0),
        Theirs("hmc", 0.8, n_steps=2),
        Theirs("nuts", 0.8),
    ],
    "normal, d=100": [
        Ours(SGLD(0.05)),
        Ours(SGHMC(0.5, friction=1.0, n_steps=5)),
        Ours(SGHMC(0.01, friction=1.0, n_steps=100, scheme="euler")),
        Ours(SGNHT(0.5, friction=1.0, n_steps=5)),
        Ours(HMC(0.5, n_steps=3, jitter=0.0)),
        Theirs("sgld", 0.05),
        Theirs("sghmc", 0.01, n_steps=100, friction=1.0),
        Theirs("sgnht", 0.01, friction=1.0),
        Theirs("hmc", 0.5, n_steps=3),
        Theirs("nuts", 0.5),
    ],
    "normal, d=1000": [
        Ours(SGLD(0.05)),
        Ours(SGHMC(0.5, friction=1.0, n_steps=5)),
        Ours(SGHMC(0.01, friction=1.0, n_steps=100, scheme="euler")),
        Ours(SGNHT(0.5, friction=1.0, n_steps=5)),
        Ours(HMC(0.3, n_steps=4, jitter=0.0)),
        Theirs("sgld", 0.05),
        Theirs("sghmc", 0.01, n_steps=100, friction=1.0),
        Theirs("sgnht", 0.01, friction=1.0),
        Theirs("hmc", 0.3, n_steps=4),
        Theirs("nuts", 0.3),
    ],
    "double well": [
        Ours(SGLD(0.02)),
        Ours(SGHMC(0.2, friction=1.0, n_steps=5)),
        Ours(SGHMC(0.02, friction=1.0, n_steps=50, scheme="euler")),
        Ours(SGNHT(0.2, friction=0.5, n_steps=5)),
        Ours(HMC(0.3, n_steps=5, jitter=0.0)),
        Theirs("sgld", 0.02),
        Theirs("sghmc", 0.02, n_steps=50, friction=1.0),
        Theirs("hmc", 0.3, n_steps=5),
    ],
    "banana": [
        Ours(SGLD(0.004)),
        Ours(SGHMC(0.15, friction=0.3, n_steps=5)),
        Ours(SGHMC(0.005, friction=0.5, n_steps=200, scheme="euler")),
        Ours(SGNHT(0.15, friction=0.3, n_steps=5)),
        Ours(HMC(0.2, n_steps=8, jitter=0.0)),
        Theirs("sgld", 0.004),
        Theirs("sghmc", 0.005, n_steps=200, friction=0.5),
        Theirs("hmc", 0.2, n_steps=8),
    ],
    "circle": [
        Ours(GMC(0.9, n_steps=3, jitter=0.0)),
        Ours(SGGMC(0.4, friction=1.0)),
        Ours(GSGNHT(0.1, friction=0.3)),
        Theirs("hmc", 0.9, n_steps=3),
    ],
    "circle, noisy": [
        Ours(SGGMC(0.1, friction=5.0)),
        Ours(GSGNHT(0.1, friction=0.1)),
    ],
    "vMF mixture": [
        Ours(GMC(0.05, n_steps=5, jitter=0.0)),
        Ours(SGGMC(0.002, friction=20.0, noise_covariance="fisher"), batch_size=10),
        Ours(SGGMC(0.01, friction=5.0, control_variate=SVRG(20)), batch_size=10),
        Ours(GSGNHT(0.002, friction=5.0), batch_size=10),
        Ours(GSGNHT(0.01, friction=1.0, control_variate=SVRG(20)), batch_size=10),
    ],
    "gamma": [
        Ours(SCIR(2.0)),
        Ours(SGRLD(0.005)),
        Ours(SGRHMC(0.1, n_steps=5)),
        Ours(SGHMC(0.1, friction=0.5, n_steps=5), in_chart=True),
        Ours(HMC(0.2, n_steps=10), in_chart=True),
    ],
    "Dirichlet, sparse": [
        Ours(SCIR(2.0)),
        Ours(SCIR(0.02), batch_size=100),
        Ours(SGRLD(0.005), in_chart=True),
        Ours(SGRLD(0.005), batch_size=100, in_chart=True),
    ],
    "Dirichlet, dense": [
        Ours(SCIR(2.0)),
        Ours(SCIR(0.005), batch_size=100),
        Ours(SGRLD(0.05), in_chart=True),
        Ours(SGRLD(0.005), batch_size=100, in_chart=True),
        Ours(SGRHMC(0.3, n_steps=5), in_chart=True),
    ],
}


class Result(NamedTuple):
    """The results of one run."""

    mean: np.ndarray  # of the test functions
    ess: np.ndarray
    n_gradients: float  # of a chain
    wall: float
    cpu: float


def evaluate(target, draws, n_gradients, wall, cpu):
    values = Draws(draws).map(target.functions)
    ess = np.zeros(len(target.names))
    if np.isfinite(values.position).all():
        stuck = (np.ptp(values.position, axis=1) == 0).any(axis=0)  # of a constant chain all draws would count
        ess = np.where(stuck, 0.0, np.nan_to_num(values.ess()))
    return Result(values.mean(), ess, n_gradients, wall, cpu)


class OurProgram:
    def __init__(self, target, setting, n_chains):
        self.target, self.setting, self.n_chains = target, setting, n_chains
        self.density = target.chart if setting.in_chart else target.density
        begun = time.perf_counter()
        self._sample(2, 0, 1, 0)
        self.compile_seconds = time.perf_counter() - begun

    def _sample(self, n_draws, burn_in, thin, seed):
        target, start = self.target, None
        if target.start is not None:
            point = self.density.coordinates(target.start) if self.setting.in_chart else target.start
            start = np.repeat(point[None], self.n_chains, axis=0)
        return sample(
            self.density,
            self.setting.sampler,
            n_draws=n_draws,
            burn_in=burn_in,
            thin=thin,
            n_chains=self.n_chains,
            batch_size=self.setting.batch_size,
            position=start,
            random_state=seed,
        )

    def run(self, seconds, seed):
        n_tried, spent = 5, 0.0
        while spent < seconds / 20:
            n_tried *= 4
            begun = time.perf_counter()
            self._sample(n_tried, 0, 1, seed)
            spent = time.perf_counter() - begun
        n_steps = max(40, round(seconds * n_tried / spent))
        longest = min(MAX_LENGTH, MAX_DRAWS // (self.n_chains * self.density.manifold.size))
        thin = -(-n_steps // longest)
        n_draws = n_steps // thin
        burn_in = n_steps // 4
        wall, cpu = time.perf_counter(), time.process_time()
        draws = self._sample(n_draws, burn_in, thin, seed)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        kept = n_draws * thin / (n_draws * thin + burn_in)  # burn-in is not counted
        if self.setting.in_chart:
            draws = draws.map(self.density.point)
        n_gradients = n_draws * thin * getattr(self.setting.sampler, "n_steps", 1)
        return evaluate(self.target, draws.position, n_gradients, kept * wall, kept * cpu)


class TheirProgram:
    def __init__(self, target, setting, n_chains, name):
        self.target = target
        dim = target.density.manifold.dim
        self.blackjax = Blackjax(name.split(",")[0], n_chains=n_chains, dim=dim, **setting._asdict())
        self.compile_seconds = self.blackjax.compile_seconds
        self.max_draws = min(MAX_LENGTH, MAX_DRAWS // (n_chains * dim))

    def run(self, seconds, seed):
        return evaluate(self.target, *self.blackjax.run(seconds, self.max_draws))


def spread(values):
    """Median and range, with three digits at most."""

    def shown(value):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

    return f"{shown(np.median(values))} ({shown(np.min(values))} to {shown(np.max(values))})"


def describe_error(target, results):
    """The worst test function's error in its standard deviations, and its standard error."""
    ess = np.array([result.ess for result in results])
    weights = np.maximum(ess, 1e-9)  # runs differ in length
    mean = np.average([result.mean for result in results], axis=0, weights=weights)
    errors = (mean - target.mean) / target.sd
    standard_errors = 1 / np.sqrt(np.maximum(ess.sum(axis=0), 1))
    if not np.isfinite(errors).all():
        return "diverged"
    worst = np.argmax(np.abs(errors))
    mark = " !" if abs(errors[worst]) > 4 * standard_errors[worst] else ""
    return f"{errors[worst]:+.3f} ± {standard_errors[worst]:.3f} of {target.names[worst]}{mark}"


def compare(name, options):
    target = TARGETS[name]()
    settings = [each for each in SETTINGS[name] if isinstance(each, Ours) or options.blackjax]
    title(f"{name}: {options.n_chains} chains, {options.n_rounds} runs of {options.seconds:g} s each")
    speeds = "effective samples per second", "per second of processor time", "per 1000 gradients"
    begin_table(("sampler", *speeds, "error, standard deviations", "microseconds per gradient", "compilation, seconds"))
    programs = [
        OurProgram(target, each, options.n_chains)
        if isinstance(each, Ours)
        else TheirProgram(target, each, options.n_chains, name)
        for each in settings
    ]
    results: list[list[Result]] = [[] for _ in programs]
    for turn in range(options.n_rounds):
        for program, own in zip(programs, results, strict=True):
            own.append(program.run(options.seconds, turn))
    for setting, program, own in zip(settings, programs, results, strict=True):
        least = np.array([result.ess.min() for result in own])
        wall, cpu, n_gradients = np.array([(r.wall, r.cpu, r.n_gradients) for r in own]).T
        cells = (
            str(setting),
            spread(least / wall),
            spread(least / cpu),
            spread(1000 * least / n_gradients).split(" ")[0],
            describe_error(target, own),
            f"{1e6 * np.median(wall / n_gradients):.1f}",
            f"{program.compile_seconds:.1f}",
        )
        row(cells)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=list(TARGETS), metavar="TARGET")
    parser.add_argument("--n-chains", type=int, default=4)
    parser.add_argument("--n-rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.4, help="length of one run without burn-in")
    parser.add_argument("--quick", action="store_true", help="short runs without blackjax, to check that all works")
    add_write(parser)
    given = parser.parse_args()
    if given.quick:
        given.n_rounds, given.seconds = 2, 0.05
    given.blackjax = installed() and not given.quick
    print("blackjax is included." if given.blackjax else "blackjax is not installed or left out.")
    with threadpool_limits(1):
        for each_name in given.targets:
            compare(each_name, given)
    part = "" if given.n_chains == 4 else f"_{given.n_chains}_chains"
    finish(given, "blackjax", "arviz-stats", part=part, notes="Medians (ranges). `!` marks bias of the step size.")
