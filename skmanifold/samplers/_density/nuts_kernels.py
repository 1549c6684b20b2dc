"""Kernels of `NUTS`: trees of trajectories, step sizes by dual averaging, and moments of draws.

The trajectories of all chains are independent, so that kernels treat one chain after the other, with arrays whose first
axis has length 1. Kernels with functions of the target are interpreted or compiled, as `moves`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...manifolds._geometry import flow, project, retract
from ...numerics.block_sums import dot
from ...random._keys import Purpose, fold_in, uniform
from ...random._variates import fill_normal, fold_keys
from ...utils._njit import by_type, njit, njit_or_interpreted, njit_part
from .integrator_kernels import add_scaled, by_chain

_NOISE, _ACCEPTANCE, _DIRECTION, _DRAW = Purpose.NOISE, Purpose.ACCEPTANCE, Purpose.DIRECTION, Purpose.DRAW
_LARGEST_ERROR = 1000.0  # of the energy; beyond it a trajectory has diverged
# Columns of a report on a transition
N_GRADIENTS, DEPTH, DIVERGING, ACCEPTANCE, ENERGY = range(5)
N_REPORTED = 5
# If a density is constant, all steps are accepted: they must not grow until flows lose their accuracy.
_MOST_DOUBLINGS = 30
_LARGEST_GROWTH = math.log(100.0)  # since the last restart

N_AVERAGING = 4  # columns of the state of dual averaging: centre, error, mean and count


# Linear coordinates y of a point x = L y, in which a sampler with unit mass has the mass matrix (L L')^-1. A scale is a
# NamedTuple, whose class determines the kernels. Arrays are of one chain, with a leading axis of length 1.


class UnitScale(NamedTuple):
    """L = I."""

    size: int


class DiagonalScale(NamedTuple):
    """L is diagonal."""

    roots: np.ndarray  # (n_chains, size)


class DenseScale(NamedTuple):
    """L is lower triangular."""

    roots: np.ndarray  # (n_chains, size, size)


@by_type
def fill_points(scale, c, y, x):
    """Write the point of chain c with coordinates y to x."""


@by_type
def fill_coordinates(scale, c, x, y):
    """Write the coordinates of the point x of chain c to y."""


@by_type
def pull_back(scale, c, gradient):
    """Replace a gradient by that in coordinates, L' g."""


@fill_points.of(UnitScale)
@fill_coordinates.of(UnitScale)
@njit(cache=True, nogil=True)
def _copy(scale, c, source, out):
    source, out = by_chain(source), by_chain(out)
    for i in range(source.shape[1]):
        out[0, i] = source[0, i]


@pull_back.of(UnitScale)
@njit(cache=True, nogil=True)
def _pull_back(scale, c, gradient):
    """Do nothing: these coordinates are those of the points."""


@fill_points.of(DiagonalScale)
@njit(cache=True, nogil=True)
def _fill_points_diagonal(scale, c, y, x):
    y, x = by_chain(y), by_chain(x)
    for i in range(y.shape[1]):
        x[0, i] = scale.roots[c, i] * y[0, i]


@fill_coordinates.of(DiagonalScale)
@njit(cache=True, nogil=True)
def _fill_coordinates_diagonal(scale, c, x, y):
    y, x = by_chain(y), by_chain(x)
    for i in range(y.shape[1]):
        y[0, i] = x[0, i] / scale.roots[c, i]


@pull_back.of(DiagonalScale)
@njit(cache=True, nogil=True)
def _pull_back_diagonal(scale, c, gradient):
    gradient = by_chain(gradient)
    for i in range(gradient.shape[1]):
        gradient[0, i] *= scale.roots[c, i]


@fill_points.of(DenseScale)
@njit(cache=True, nogil=True)
def _fill_points_dense(scale, c, y, x):
    y, x, root = by_chain(y), by_chain(x), scale.roots[c]
    for i in range(y.shape[1]):
        total = 0.0
        for j in range(i + 1):
            total += root[i, j] * y[0, j]
        x[0, i] = total


@fill_coordinates.of(DenseScale)
@njit(cache=True, nogil=True)
def _fill_coordinates_dense(scale, c, x, y):
    y, x, root = by_chain(y), by_chain(x), scale.roots[c]
    for i in range(y.shape[1]):
        total = x[0, i]
        for j in range(i):
            total -= root[i, j] * y[0, j]
        y[0, i] = total / root[i, i]


@pull_back.of(DenseScale)
@njit(cache=True, nogil=True)
def _pull_back_dense(scale, c, gradient):
    gradient, root = by_chain(gradient), scale.roots[c]
    n = gradient.shape[1]
    for j in range(n):  # entries from j on are not yet changed
        total = 0.0
        for i in range(j, n):
            total += root[i, j] * gradient[0, i]
        gradient[0, j] = total


# Trajectories


class Workspace(NamedTuple):
    """Arrays of one chain: points, velocities and gradients with the shape (1, *shape), after other axes."""

    ends: np.ndarray  # (3, 2, 1, *shape): coordinates, velocities and gradients of both ends of the tree
    inner: np.ndarray  # (2, 2, 1, *shape): coordinates and velocities where the last two trees meet
    blocks: np.ndarray  # (3, max_depth, 2, 1, *shape): first state, end of the left half and start of the right one
    candidates: np.ndarray  # (2, 2, 1, *shape): coordinates and gradients chosen from the last tree and from all
    point: np.ndarray  # (1, *shape)
    value: np.ndarray  # (1,)


@njit_part
def copy_state(source, out):
    """Copy an array of the same shape."""
    source, out = source.reshape(-1), out.reshape(-1)
    for i in range(len(source)):
        out[i] = source[i]


@njit_part
def _copy_pair(first, second, out):
    """Copy two arrays of the same shape to the entries of another one."""
    copy_state(first, out[0])
    copy_state(second, out[1])


@njit_part
def half_square(v):
    """|v|^2 / 2."""
    v = v.reshape(-1)
    return 0.5 * dot(v, v)


@njit_part
def has_turned(sign, early, early_velocity, late, late_velocity):
    """Whether the distance between two states decreases at one of them; `sign` is -1 if the first one is the later."""
    early, early_velocity, late, late_velocity = (
        early.reshape(-1), early_velocity.reshape(-1), late.reshape(-1), late_velocity.reshape(-1)
    )  # fmt: skip
    before, after = 0.0, 0.0
    for i in range(len(early)):
        chord = late[i] - early[i]
        before += chord * early_velocity[i]
        after += chord * late_velocity[i]
    return not (sign * before > 0.0 and sign * after > 0.0)


@njit_part
def log_add(a, b):
    """log(exp(a) + exp(b))."""
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + math.log1p(math.exp(low - high))


@njit_part
def _is_in_turned_block(leaf, depth, sign, y, v, blocks):
    """Update the blocks of sizes 2, 4, ..., 2^depth that contain a new leaf; whether one is complete and has turned."""
    for level in range(depth):
        half = 1 << level
        place = leaf & (2 * half - 1)
        first, left, right = blocks[0, level], blocks[1, level], blocks[2, level]
        if place == 0:
            _copy_pair(y, v, first)
        if place == half - 1:
            _copy_pair(y, v, left)
        if place == half:
            _copy_pair(y, v, right)
        if place == 2 * half - 1 and (
            has_turned(sign, first[0], first[1], y, v)
            or has_turned(sign, first[0], first[1], right[0], right[1])
            or has_turned(sign, left[0], left[1], y, v)
        ):
            return True
    return False


@njit_or_interpreted(cache=True, nogil=True)
def leap(gradient, density, geometry, scale, c, point, value, keys, t, h, y, v, g):
    """Make a leapfrog step along a geodesic, in place; returns the log density."""
    add_scaled(v, h / 2, g)
    project(geometry, y, v)
    flow(geometry, y, v, h)
    fill_points(scale, c, y, point)
    gradient(point, keys, t, g)
    pull_back(scale, c, g)  # the gradient in coordinates
    density(point, value)
    add_scaled(v, h / 2, g)
    project(geometry, y, v)
    return value[0]


@njit_or_interpreted(cache=True, nogil=True)
def grow_tree(gradient, density, geometry, scale, c, work, keys, t, h, max_depth, x, g, log_density, report):
    """Make a transition of chain c from x with the gradient g in coordinates, in place; returns the log density."""
    ends, inner, candidates = work.ends, work.inner, work.candidates
    directions = np.uint64(fold_in(keys[0], _DIRECTION))  # Python would have integers without a type
    leaves, choices = np.uint64(fold_in(keys[0], _DRAW)), np.uint64(fold_in(keys[0], _ACCEPTANCE))
    y, v = ends[0, 0], ends[1, 0]
    fill_coordinates(scale, c, x, y)
    fill_normal(keys, _NOISE, v.reshape(1, v.size))
    project(geometry, y, v)
    copy_state(g, ends[2, 0])
    for i in range(3):
        copy_state(ends[i, 0], ends[i, 1])
    _copy_pair(y, g, candidates[1])
    energy = half_square(v) - log_density
    chosen_log_density, chosen_energy, log_sum = log_density, energy, 0.0
    n_leaves, total, depth, diverging, ends_here = 0, 0.0, 0, False, False
    while depth < max_depth and not ends_here:
        side = 1 if uniform(directions, depth) < 0.5 else 0
        sign = 2.0 * side - 1.0
        y, v, g_end = ends[0, side], ends[1, side], ends[2, side]
        _copy_pair(y, v, inner[0])
        new_log_sum, new_log_density, new_energy = -np.inf, 0.0, 0.0
        for leaf in range(1 << depth):
            value = leap(gradient, density, geometry, scale, c, work.point, work.value, keys, t, sign * h, y, v, g_end)
            leaf_energy = half_square(v) - value
            gain = energy - leaf_energy
            n_leaves += 1
            diverging = not gain > -_LARGEST_ERROR
            if diverging:
                ends_here = True
                break
            total += math.exp(min(gain, 0.0))
            if leaf == 0:
                _copy_pair(y, v, inner[1])
            new_log_sum = log_add(new_log_sum, gain)
            if math.log1p(-uniform(leaves, n_leaves)) <= gain - new_log_sum:
                _copy_pair(y, g_end, candidates[0])
                new_log_density, new_energy = value, leaf_energy
            if _is_in_turned_block(leaf, depth, sign, y, v, work.blocks):
                ends_here = True
                break
        if ends_here:
            break
        if math.log1p(-uniform(choices, depth)) <= new_log_sum - log_sum:
            copy_state(candidates[0], candidates[1])
            chosen_log_density, chosen_energy = new_log_density, new_energy
        log_sum = log_add(log_sum, new_log_sum)
        depth += 1
        other, other_velocity = ends[0, 1 - side], ends[1, 1 - side]
        ends_here = (
            has_turned(sign, other, other_velocity, y, v)
            or has_turned(sign, other, other_velocity, inner[1, 0], inner[1, 1])
            or has_turned(sign, inner[0, 0], inner[0, 1], y, v)
        )
    retract(geometry, candidates[1, 0], ends[1, 0])
    fill_points(scale, c, candidates[1, 0], x)
    copy_state(candidates[1, 1], g)
    report[0], report[1], report[2] = n_leaves, depth, diverging
    report[3], report[4] = total / n_leaves, chosen_energy
    return chosen_log_density


@njit(cache=True, nogil=True)
def start_averaging(step_sizes, averaging):
    """Restart dual averaging from the step sizes of all chains."""
    averaging[:] = 0.0
    for c in range(len(step_sizes)):
        averaging[c, 0] = math.log(10.0 * step_sizes[c])


@njit(cache=True, nogil=True)
def average_step_size(acceptance, target, averaging):
    """The next step size by dual averaging (Hoffman and Gelman, 2014, algorithm 6)."""
    averaging[3] += 1.0
    count = averaging[3]
    averaging[1] += (target - acceptance - averaging[1]) / (count + 10.0)
    log_step = min(averaging[0] - math.sqrt(count) / 0.05 * averaging[1], averaging[0] + _LARGEST_GROWTH)
    averaging[2] += count**-0.75 * (log_step - averaging[2])
    return math.exp(log_step)


@by_type
def add_draw(moments, c, x):
    """Add a draw of chain c to its running moments."""


class NoMoments(NamedTuple):
    """Moments that are not needed."""

    size: int


class Variances(NamedTuple):
    """Running means and sums of squared deviations of each chain."""

    counts: np.ndarray  # (n_chains,)
    means: np.ndarray  # (n_chains, size)
    squares: np.ndarray  # (n_chains, size)


class Covariances(NamedTuple):
    """Running means and sums of products of deviations of each chain, below the diagonal."""

    counts: np.ndarray  # (n_chains,)
    means: np.ndarray  # (n_chains, size)
    squares: np.ndarray  # (n_chains, size, size)


@add_draw.of(NoMoments)
@njit(cache=True, nogil=True)
def _add_nothing(moments, c, x):
    """Do nothing: the scale does not adapt."""


@njit(cache=True, nogil=True)
def _move_mean(moments, c, x):
    """Update the count and the mean; returns the deviations from the old mean."""
    moments.counts[c] += 1.0
    mean, deviations = moments.means[c], np.empty(len(x))
    for i in range(len(x)):
        deviations[i] = x[i] - mean[i]
        mean[i] += deviations[i] / moments.counts[c]
    return deviations


@add_draw.of(Variances)
@njit(cache=True, nogil=True)
def _add_squares(moments, c, x):
    x = x.reshape(-1)
    deviations = _move_mean(moments, c, x)
    for i in range(len(x)):
        moments.squares[c, i] += deviations[i] * (x[i] - moments.means[c, i])


@add_draw.of(Covariances)
@njit(cache=True, nogil=True)
def _add_products(moments, c, x):
    x = x.reshape(-1)
    deviations = _move_mean(moments, c, x)
    for i in range(len(x)):
        for j in range(i + 1):
            moments.squares[c, i, j] += deviations[i] * (x[j] - moments.means[c, j])


@njit_or_interpreted(cache=True, nogil=True)
def run_nuts(
    gradient, density, geometry, scale, work, keys, first, position, g, log_density, step_sizes, n_steps, max_depth,
    target, averaging, adapts, moments, thin, draws, log_densities, reports,
):  # fmt: skip
    """Make transitions ``first, ..., first + n_steps - 1`` of all chains, and write every `thin`-th state."""
    own = np.empty(1, np.uint64)
    for c in range(len(keys)):
        x, g_c = position[c : c + 1], g[c : c + 1]
        for i in range(n_steps):
            fold_keys(keys[c : c + 1], first + i, own)
            draw = i // thin
            report = reports[c, min(draw, reports.shape[1] - 1)]
            log_density[c] = grow_tree(
                gradient, density, geometry, scale, c, work, own, first + i, step_sizes[c], max_depth, x, g_c,
                log_density[c], report,
            )  # fmt: skip
            if adapts:
                step_sizes[c] = average_step_size(report[3], target, averaging[c])
            add_draw(moments, c, x)
            if (i + 1) % thin == 0 and draw < draws.shape[1]:
                copy_state(x, draws[c, draw])
                log_densities[c, draw] = log_density[c]


@njit_or_interpreted(cache=True, nogil=True)
def fill_step_sizes(gradient, density, geometry, scale, work, keys, t, position, g, log_density, step_sizes):
    """Double or halve step sizes until the acceptance of one step crosses 0.8."""
    own = np.empty(1, np.uint64)
    for c in range(len(keys)):
        fold_keys(keys[c : c + 1], t, own)
        way = 0
        for n_changes in range(60):
            y, v, g_end = work.ends[0, 0], work.ends[1, 0], work.ends[2, 0]
            fill_coordinates(scale, c, position[c : c + 1], y)
            fill_normal(own, _NOISE, v.reshape(1, v.size))
            project(geometry, y, v)
            copy_state(g[c : c + 1], g_end)
            energy = half_square(v) - log_density[c]
            value = leap(
                gradient, density, geometry, scale, c, work.point, work.value, own, t, step_sizes[c], y, v, g_end
            )
            is_small = energy - half_square(v) + value > math.log(0.8)
            if way == 0:
                way = 1 if is_small else -1
            if is_small != (way == 1) or n_changes == way * _MOST_DOUBLINGS:
                break
            step_sizes[c] *= 2.0**way
