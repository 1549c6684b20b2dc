"""Cost of a step of a sampler: kernels compared with numpy, composed steps compared with hand-written fused kernels.

Every number is the median over rounds in which the compared programs alternate, so that they run under the same
conditions; differences and ratios are taken within a round. Times are processor times by default (`--clock wall`: wall
times). The last line shows the ratio of the two: if it is far from 1, the machine was busy, and only ratios are useful.

    python -m benchmarks.samplers_speed
"""

from __future__ import annotations

import argparse
import itertools
import math
import time

import numpy as np
from scipy.linalg import expm
from threadpoolctl import threadpool_limits

from benchmarks._fused import RETRACT_EVERY, UNIT, fused_gsgnht, fused_sghmc
from benchmarks._results import add_write, begin_table, finish, show, title
from benchmarks._results import row as show_row
from skmanifold.manifolds import Euclidean, PositiveOrthant, Simplex, Sphere, Stiefel
from skmanifold.manifolds._sphere import flow_on_sphere, project_to_sphere, retract_to_sphere
from skmanifold.random._keys import Purpose
from skmanifold.random._variates import fill_normal, fold_keys
from skmanifold.samplers import (
    GMC,
    GSGNHT,
    HMC,
    SCIR,
    SGGMC,
    SGHMC,
    SGLD,
    SGNHT,
    SGRHMC,
    SGRLD,
    GeometricBrownian,
)
from skmanifold.samplers._cir.scir import _step_cir
from skmanifold.samplers._density import integrator_kernels as kernels

SIZES = ((1, 3), (20, 500), (20, 5000))  # points x coordinates, one chain
TARGET = 5.0  # microseconds by which a composed inner step may exceed the fused one
STEP, FRICTION = 0.01, 1.0
_NOISE = Purpose.NOISE


# Alternating runs


class Clock:
    """Times programs alternately, by processor and wall time."""

    def __init__(self, which, n_rounds, seconds):
        self.which, self.n_rounds, self.seconds = which, n_rounds, seconds
        self.wall_to_cpu = []

    def compare(self, programs):
        """Seconds a call of each of `programs` by name, ``(n_rounds,)``, all rounds one after the other."""
        counts = {name: self._count(program) for name, program in programs.items()}
        times = {name: np.empty(self.n_rounds) for name in programs}
        for turn in range(-1, self.n_rounds):  # the first one warms up
            for name, program in programs.items():
                cpu, wall = self._time(program, counts[name])
                if turn >= 0:
                    times[name][turn] = (cpu if self.which == "cpu" else wall) / counts[name]
                    self.wall_to_cpu.append(wall / cpu)
        return times

    def _count(self, program):
        """The number of calls of a run."""
        program()  # compiles
        count = 1
        while (spent := max(self._time(program, count))) < self.seconds / 4:
            count *= 2
        return max(1, round(count * self.seconds / spent))

    @staticmethod
    def _time(program, count):
        calls = itertools.repeat(None, count)
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in calls:
            program()
        return time.process_time() - cpu, time.perf_counter() - wall


def spread(values, digits=2):
    """Median and range."""
    shown = [f"{value:.{digits}f}" for value in (np.median(values), np.min(values), np.max(values))]
    return f"{shown[0]} ({shown[1]} to {shown[2]})"


def row(*cells):
    show_row(cells)


def header(*cells):
    begin_table(cells)


def label(size):
    return f"{size[0]}x{size[1]}"


# Kernels


class Arrays:
    """Arrays that the kernels read and write, of one chain."""

    def __init__(self, size):
        rng = np.random.default_rng(0)
        shape = (1, *size)
        self.rng = rng
        self.x = rng.standard_normal(shape)
        self.x /= np.linalg.norm(self.x, axis=-1, keepdims=True)
        self.v, self.force, self.noise = (rng.standard_normal(shape) for _ in range(3))
        project_to_sphere(self.x, self.v, UNIT)
        self.flat = np.empty((1, self.x.size))
        self.out = np.empty(shape)
        self.keys = np.zeros(1, np.uint64)
        self.numbers = itertools.count(1)
        self.variance, self.friction, self.thermostat = np.full(1, 0.02), np.ones(1), np.ones(1)
        self.coefficients = np.empty((kernels.N_COEFFICIENTS, len(self.friction)))
        kernels.fill_coefficients(kernels.OU, self.friction, 1.0, STEP, self.coefficients)
        self.shapes = rng.choice([0.1, 1.0, 30.0], size=self.flat.shape)
        self.log_theta = np.log(rng.gamma(self.shapes) + 1e-100)
        self.theta = np.exp(self.log_theta)

    def fresh_keys(self):
        """Another key for every call, so that the branch predictor cannot learn the draws."""
        self.keys[0] = next(self.numbers)
        return self.keys


def in_numpy(a):
    """The same work as the kernels in numpy, without temporaries where possible."""
    kept, lost = math.exp(-0.5), -math.expm1(-0.5)
    x, v, out, force, noise = (array.copy() for array in (a.x, a.v, a.out, a.force, a.noise))
    theta = a.theta.copy()

    def scaled_noise():
        a.rng.standard_normal(out=out)
        np.multiply(out, math.sqrt(a.variance[0]), out=out)

    def flow():
        rate = np.sqrt(np.einsum("cij,cij->ci", v, v))[..., None]
        cosine, sine = np.cos(rate * STEP), np.sin(rate * STEP)
        old = x.copy()
        np.multiply(x, cosine, out=x)
        x.__iadd__(sine / rate * v)
        np.multiply(v, cosine, out=v)
        v.__isub__(rate * sine * old)

    def project():
        v.__isub__(np.einsum("cij,cij->ci", x, v)[..., None] * x)

    def retract():
        np.divide(x, np.sqrt(np.einsum("cij,cij->ci", x, x))[..., None], out=x)
        project()

    def damp_and_kick():
        before, step, after = a.coefficients[:3, 0]
        np.multiply(v, before, out=v)
        v.__iadd__(step * force)
        v.__iadd__(noise)
        np.multiply(v, after, out=v)

    def baoab():
        before = v + STEP * force
        np.multiply(before, kept, out=v)
        v.__iadd__(noise)
        before.__iadd__(v)
        x.__iadd__(STEP / 2 * before)

    def euler():
        x.__iadd__(STEP * v)
        v.__iadd__(STEP * (force - FRICTION * v))
        v.__iadd__(noise)

    def langevin():
        x.__iadd__(STEP * force)
        x.__iadd__(noise)

    def thermostat():
        a.thermostat.__iadd__(STEP * (np.einsum("cij,cij->c", v, v) / v.size - 1))

    def cir():
        counts = a.rng.poisson(theta * (kept / lost))
        theta[...] = lost * a.rng.standard_gamma(a.shapes + counts)

    return {
        "fill_normal": lambda: a.rng.standard_normal(out=out),
        "fill_scaled_noise": scaled_noise,
        "first_not_finite": lambda: np.isfinite(force).all(),
        "add_scaled": lambda: x.__iadd__(STEP * force),
        "flow_on_sphere": flow,
        "project_to_sphere": project,
        "retract_to_sphere": retract,
        "damp_and_kick": damp_and_kick,
        "move_thermostat": thermostat,
        "step_langevin": langevin,
        "step_euler": euler,
        "step_baoab": baoab,
        "SCIR, a transition": cir,
    }


def in_kernels(a):
    half = np.exp(-FRICTION * STEP)
    x, v = a.x.copy(), a.v.copy()
    position, momentum = a.x.copy(), a.v.copy()
    return {
        "fill_normal": lambda: fill_normal(a.fresh_keys(), _NOISE, a.flat),
        "fill_scaled_noise": lambda: kernels.fill_scaled_noise(a.fresh_keys(), a.variance, a.out),
        "first_not_finite": lambda: kernels.first_not_finite(a.force),
        "add_scaled": lambda: kernels.add_scaled(position, STEP, a.force),
        "flow_on_sphere": lambda: flow_on_sphere(x, v, STEP, UNIT),
        "project_to_sphere": lambda: project_to_sphere(x, v, UNIT),
        "retract_to_sphere": lambda: retract_to_sphere(x, v, UNIT),
        "damp_and_kick": lambda: kernels.damp_and_kick(momentum, a.coefficients, a.force, a.noise),
        "move_thermostat": lambda: kernels.move_thermostat(a.thermostat, v, v.size, STEP),
        "step_langevin": lambda: kernels.step_langevin(position, STEP, a.force, a.noise),
        "step_euler": lambda: kernels.step_euler(position, momentum, STEP, a.friction, a.force, a.noise),
        "step_baoab": lambda: kernels.step_baoab(position, momentum, STEP, half, a.force, a.noise),
        "SCIR, a transition": lambda: _step_cir(a.fresh_keys(), 0.5, a.shapes, a.log_theta),
    }


def stiefel_flows(size):
    """The flow of a frame in skmanifold, and the textbook version by one QR factorisation and one exponential."""
    p, n = size
    manifold = Stiefel(n, p)
    x = manifold.random_point(np.random.default_rng(0))[None]
    v = np.random.default_rng(1).standard_normal(x.shape)
    manifold.project(x, v)
    frame, velocity = x[0].copy(), v[0].copy()

    def textbook():
        nonlocal frame, velocity
        along = frame.T @ velocity
        q, r = np.linalg.qr(velocity - frame @ along)
        turned = expm(STEP * np.block([[along, -r.T], [r, np.zeros((p, p))]]))
        basis = np.hstack([frame, q])
        frame, velocity = basis @ turned[:, :p], basis @ (turned @ np.vstack([along, r]))

    return (lambda: manifold.flow(x, v, STEP)), textbook


def compare_kernels(clock):
    first, rest = SIZES[0], SIZES[1:]
    units = [f"{label(first)}, µs per call", *(f"{label(size)}, ns per coordinate" for size in rest)]
    title("Kernels: median (range), and the time of numpy relative to the kernel")
    header("kernel", *(cell for unit in units for cell in (unit, "numpy")))
    table = {}
    for size in SIZES:
        arrays = Arrays(size)
        ours, numpys = in_kernels(arrays), in_numpy(arrays)
        ours["Stiefel.flow of its transpose"], numpys["Stiefel.flow of its transpose"] = stiefel_flows(size)
        scale = 1e6 if size == first else 1e9 / math.prod(size)
        for name in ours:
            times = clock.compare({"ours": ours[name], "numpy": numpys[name]})
            ratio = np.median(times["numpy"] / times["ours"])
            table.setdefault(name, []).extend([spread(scale * times["ours"]), f"x {ratio:.1f}"])
    for name, cells in table.items():
        row(name, *cells)


# Composed steps, and hand-written fused steps


class Free:
    """A target whose gradient, value and counts cost nothing, because they are already written."""

    noise_covariance = None
    log_variance = 1.0

    def __init__(self, manifold, force):
        self.manifold = manifold
        self.force = force
        self.log_values = np.zeros(1)
        self.written = False

    def grad_log_density(self, position, keys, out):
        if not self.written:
            out[...] = self.force
            self.written = True

    def log_density(self, position):
        return self.log_values

    def expected_counts(self, position, keys, out):
        out[...] = self.force

    def expected_log(self, position, keys, out):
        out[...] = self.force


def force_at(size):
    return np.random.default_rng(2).standard_normal((1, *size))


def composed(sampler, manifold, force):
    """The state of the sampler, and a program that makes a step."""
    model = Free(manifold, force)
    holder = [sampler.init(model, np.array([7], np.uint64))]

    def step():
        holder[0] = sampler.step(model, holder[0])

    return holder, step


def samplers_at(size, n_steps):
    """Every sampler on a space of this size, with its gradient (or counts, or mean)."""
    flat, orthant, sphere = Euclidean(size), PositiveOrthant(size), Sphere(size[1], n_points=size[0])
    force = force_at(size)
    many = {
        "SGHMC, baoab": (SGHMC(STEP, n_steps=n_steps), flat, force),
        "SGHMC, euler": (SGHMC(STEP, n_steps=n_steps, scheme="euler"), flat, force),
        "SGNHT, baoab": (SGNHT(STEP, n_steps=n_steps), flat, force),
        "SGRHMC, positive": (SGRHMC(STEP, n_steps=n_steps), orthant, -1.0),
        "SGGMC, ou": (SGGMC(STEP, n_steps=n_steps), sphere, force),
        "GSGNHT, ou": (GSGNHT(STEP, n_steps=n_steps), sphere, force),
        "HMC": (HMC(STEP, n_steps=n_steps), flat, force),
        "GMC": (GMC(STEP, n_steps=n_steps), sphere, force),
    }
    once = {
        "SGLD": (SGLD(STEP), flat, force),
        "SGRLD, positive": (SGRLD(STEP), orthant, -1.0),
        "SCIR, simplex": (SCIR(), Simplex(size[1], n_points=size[0]), 1.5),
        "GeometricBrownian": (GeometricBrownian(), orthant, 0.5),
    }
    return {**(once if n_steps == 1 else {}), **many}


def compare_samplers(clock):
    title("One inner step of every sampler, without its gradient: microseconds, median (range)")
    runs = [(size, n_steps) for size in SIZES for n_steps in (1, 10)]
    header("sampler", *(f"{label(size)}, n_steps={n_steps}" for size, n_steps in runs))
    table = {}
    for place, (size, n_steps) in enumerate(runs):
        programs = {name: composed(*given)[1] for name, given in samplers_at(size, n_steps).items()}
        for name, times in clock.compare(programs).items():
            table.setdefault(name, ["-"] * len(runs))[place] = spread(1e6 * times / n_steps, 1)
    for name, cells in table.items():
        row(name, *cells)


def start_of(sampler, manifold, size):
    """Arrays of the initial state of the sampler, and the number of the next inner step."""
    state = sampler.init(Free(manifold, force_at(size)), np.array([7], np.uint64))
    thermostat = state.thermostat.copy() if hasattr(state, "thermostat") else None
    return state.key.copy(), state.position.copy(), state.momentum.copy(), thermostat, itertools.count()


def gsgnht_programs(size, n_steps):
    sampler, manifold = GSGNHT(STEP, friction=FRICTION, n_steps=n_steps), Sphere(size[1], n_points=size[0])
    force, dim = force_at(size), manifold.dim
    holder, step = composed(sampler, manifold, force)
    stream, x, v, xi, turns = start_of(sampler, manifold, size)

    def fused():
        assert fused_gsgnht(stream, next(turns) * n_steps, n_steps, STEP, FRICTION, dim, force, x, v, xi) < 0

    bare_stream, y, u, friction, bare_turns = start_of(sampler, manifold, size)
    keys, coefficients = np.empty_like(bare_stream), np.empty((kernels.N_COEFFICIENTS, 1))

    def bare():
        first = next(bare_turns) * n_steps
        flow_on_sphere(y, u, STEP / 2, UNIT)
        kernels.move_thermostat(friction, u, dim, STEP / 2)
        for t in range(first, first + n_steps):
            fold_keys(bare_stream, t, keys)
            assert kernels.first_not_finite(force) < 0
            kernels.fill_coefficients(kernels.OU, friction, FRICTION, STEP, coefficients)
            kernels.damp_and_kick_afresh(u, keys, coefficients, force)
            project_to_sphere(y, u, UNIT)
            time = STEP if t + 1 < first + n_steps else STEP / 2
            flow_on_sphere(y, u, time, UNIT)
            kernels.move_thermostat(friction, u, dim, time)
            if t % RETRACT_EVERY == RETRACT_EVERY - 1:
                retract_to_sphere(y, u, UNIT)

    return {"composed": step, "bare": bare, "fused": fused}, holder, (x, v), (y, u)


def sghmc_programs(size, n_steps):
    sampler, manifold = SGHMC(STEP, friction=FRICTION, n_steps=n_steps), Euclidean(size)
    force = force_at(size)
    holder, step = composed(sampler, manifold, force)
    stream, x, v, _, turns = start_of(sampler, manifold, size)

    def fused():
        assert fused_sghmc(stream, next(turns) * n_steps, n_steps, STEP, FRICTION, force, x, v) < 0

    bare_stream, y, u, _, bare_turns = start_of(sampler, manifold, size)
    keys, noise = np.empty_like(bare_stream), np.empty_like(y)
    kept = math.exp(-FRICTION * STEP)
    variance = np.full(1, 1 - kept**2)

    def bare():
        first = next(bare_turns) * n_steps
        for t in range(first, first + n_steps):
            fold_keys(bare_stream, t, keys)
            assert kernels.first_not_finite(force) < 0
            kernels.fill_scaled_noise(keys, variance, noise)
            kernels.step_baoab(y, u, STEP, kept, force, noise)

    return {"composed": step, "bare": bare, "fused": fused}, holder, (x, v), (y, u)


def check_same(programs, holder, fused, bare, n=120):
    """Run all three beyond a retraction from the same start; returns the distances of bare and fused to composed."""
    for _ in range(n):
        for program in programs.values():
            program()
    ours = holder[0].position, holder[0].momentum
    apart = [max(np.abs(a - b).max() for a, b in zip(ours, others, strict=True)) for others in (bare, fused)]
    assert max(apart) < 1e-9, f"the programs do different things: their results differ by {apart}"
    return apart


def compare_with_fused(clock):
    title("One inner step composed of kernels, its kernels called directly, and one fused kernel: microseconds")
    columns = "overhead (composed minus fused)", "Python part of the overhead", "composed / fused"
    header("sampler", "size", "n_steps", "composed", "kernels called directly", "fused", *columns)
    agreement = {}
    for name, programs_at in {"GSGNHT, ou": gsgnht_programs, "SGHMC, baoab": sghmc_programs}.items():
        for size, n_steps in itertools.product(SIZES, (1, 10)):
            programs, holder, fused, bare = programs_at(size, n_steps)
            agreement.setdefault(name, []).append(check_same(programs, holder, fused, bare))
            times = {each: 1e6 * seconds / n_steps for each, seconds in clock.compare(programs).items()}
            overhead = times["composed"] - times["fused"]
            python = np.median(times["composed"] - times["bare"])
            ratio = np.median(times["composed"] / times["fused"])
            cells = [spread(times[each], 1) for each in ("composed", "bare", "fused")]
            row(name, label(size), str(n_steps), *cells, spread(overhead, 1), f"{python:.1f}", f"{ratio:.2f}")
    show(f"\nThe overhead should be below {TARGET:.0f} microseconds. Results after 120 steps from one start:\n")
    for name, apart in agreement.items():
        found = ["equal in all bytes" if worst == 0 else f"equal within {worst:.0e}" for worst in np.max(apart, axis=0)]
        show(f"- {name}: composed and called directly {found[0]}, composed and fused {found[1]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clock", choices=["cpu", "wall"], default="cpu")
    parser.add_argument("--n-rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.02, help="length of one run")
    parser.add_argument("--quick", action="store_true", help="short runs, to check that all works")
    add_write(parser)
    options = parser.parse_args()
    timer = Clock(options.clock, *((2, 0.002) if options.quick else (options.n_rounds, options.seconds)))
    with threadpool_limits(1):
        compare_kernels(timer)
        compare_samplers(timer)
        compare_with_fused(timer)
    ratios = np.quantile(timer.wall_to_cpu, [0.5, 0.05, 0.95])
    spread_of_ratios = f"{ratios[0]:.2f}, 90% between {ratios[1]:.2f} and {ratios[2]:.2f}"
    show(f"\nTimes are by {options.clock}; wall time / processor time: {spread_of_ratios}.")
    finish(options)
