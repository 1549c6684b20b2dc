"""Kernels of mixtures of affine subspaces, each against the exact law that it leaves alone.

Laws of two or three directions are integrated by quadrature over all frames, those of many by the law of one squared
coordinate of a point on a sphere. Wrong variants, one change of the source apart, go through the same checks and fail.
"""

from functools import cache

import numpy as np
import pytest
from numba import njit
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy import stats
from scipy.special import log_softmax, logsumexp

from skmanifold.mixture._subspace import frame_kernels as frames
from skmanifold.mixture._subspace import tilt_kernels as tilts

from ._subspace_references import (
    all_frames,
    altered,
    compiled,
    exact_of_subspace,
    gains,
    in_order,
    keys_of,
    of_subspace,
    scatter_of,
    walk,
)

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys


# --- plane rotations -------------------------------------------------------------------------------------

POINTS = np.random.default_rng(0).standard_normal((8, 3))
SCATTER = scatter_of(POINTS)
PRECISIONS = np.array([0.18, 1.2, 0.6])


def begun():
    """Of three directions, the axes: their products with the rows, and their coordinates."""
    return np.hstack([POINTS.T, np.eye(3)])


def rotation_squares(rotate):
    """E[O^2] of frames, rows by precision."""
    n_steps, squares = 300, []
    for chain in range(60):
        rows, scatters, total = begun(), np.diag(SCATTER).copy(), 0.0
        for t, key in enumerate(keys_of(10 + n_steps, 6, chain)):
            rotate(rows, 8, scatters, PRECISIONS, key)
            if t >= 10:
                total = total + rows[:, 8:] ** 2
        squares.append(total / n_steps)
    return summarize(squares)


@cache
def exact_squares():
    turned, weights = all_frames(3)
    logs = -0.5 * np.einsum("j,nja,ab,njb->n", PRECISIONS, turned, SCATTER, turned)
    mass = weights * np.exp(logs - logs.max())
    return np.einsum("n,nja->ja", mass, turned**2) / mass.sum()


@pytest.mark.extended
@compiled
def test_rotations_leave_the_law_of_frames_alone():
    assert_agrees(rotation_squares(frames.rotate_planes), exact_squares())


@pytest.mark.extended
@pytest.mark.every(4)
@compiled
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (", -0.25 * gap", ", 0.25 * gap"),
        (", -0.5 * gap", ", 0.5 * gap"),
        (", -0.5 * gap", ", -0.25 * gap"),
        (", -0.25 * gap", ", -0.5 * gap"),
    ],
)
def test_rotations_by_a_wrong_angle_are_seen(right, wrong):
    assert_disagrees(rotation_squares(altered(frames.rotate_planes, right, wrong)), exact_squares())


def test_frames_stay_orthonormal_and_their_scatters_true():
    rows, scatters = begun(), np.diag(SCATTER).copy()
    for key in keys_of(300, 7):
        frames.rotate_planes(rows, 8, scatters, PRECISIONS, key)
    Q = rows[:, 8:]
    np.testing.assert_allclose(Q @ Q.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(rows[:, :8], Q @ POINTS.T, atol=1e-11)
    np.testing.assert_allclose(scatters, np.diag(Q @ SCATTER @ Q.T), rtol=1e-11)


def test_frames_are_completed_uniformly_across_the_basis():
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 2)))[0].T.copy()
    drawn = np.array([tilts.complete_frame(basis, 4, key) for key in keys_of(4000, 8)])
    np.testing.assert_array_equal(drawn[:, :2], np.broadcast_to(basis, (len(drawn), 2, 5)))
    np.testing.assert_allclose(drawn @ drawn.mT, np.broadcast_to(np.eye(4), (len(drawn), 4, 4)), atol=1e-12)
    projections = drawn[:, 2:].mT @ drawn[:, 2:]
    assert_agrees(summarize(projections), (np.eye(5) - basis.T @ basis) * 2 / 3, bias=1e-12)


# --- births, deaths, and all of one subspace -------------------------------------------------------------

OF_ROWS = {"n": 8, "noise": 0.9, "shape": 0.9}
ROWS = {  # with squared singular values 22, 12 and 6
    m: np.linalg.qr(np.random.default_rng(m).standard_normal((8, m)))[0]
    * np.sqrt([22.0, 12.0, 6.0][:m])
    @ np.linalg.qr(np.random.default_rng(m + 2).standard_normal((m, m)))[0]
    for m in (2, 3)
}
P_DIMENSION = {2: np.log([0.35, 0.4, 0.25]), 3: np.log([0.3, 0.3, 0.25, 0.15])}


def births_alone(Y, log_dimension, kernel=None):
    kernel = kernel or frames.birth_death_step
    n, noise, shape = OF_ROWS.values()
    return lambda basis, ratios, key: kernel(Y, basis, ratios, n, noise, log_dimension, shape, key)


def all_moves(Y, log_dimension, kernel=None, n_sweeps=1):
    kernel = kernel or frames.move_frame
    n, noise, shape = OF_ROWS.values()
    return lambda basis, ratios, key: kernel(Y, basis, ratios, n, noise, log_dimension, shape, n_sweeps, key)


def kept_frames(Y, log_dimension, kernel=None):
    """Directions that are not of the subspace stay in the frame, with ratio 1."""
    kernel = kernel or frames.move_directions
    n, noise, shape = OF_ROWS.values()

    def transition(frame, ratios, key):
        d = np.int64((ratios < 1.0).sum())
        frame, d, ratios = kernel(Y, frame, d, ratios, n, noise, log_dimension, shape, 1, key)
        return frame, ratios

    return transition


def subspace_estimate(transition, m, **options):
    def statistic(frame, ratios):
        inside = ratios < 1.0
        return of_subspace(frame[inside], ratios[inside], m)

    return walk(transition, m, statistic, **options)


@pytest.mark.extended
@compiled
@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("moves", [births_alone, all_moves, kept_frames])
def test_subspaces_have_the_exact_law(moves, m):
    exact = exact_of_subspace(ROWS[m], *list(OF_ROWS.values())[:2], P_DIMENSION[m], OF_ROWS["shape"])
    assert exact[: m + 1].min() > 0.02
    assert_agrees(subspace_estimate(moves(ROWS[m], P_DIMENSION[m]), m, basis=np.eye(m)), exact)


def test_quadrature_over_frames_has_converged():
    law = ROWS[3], *list(OF_ROWS.values())[:2], P_DIMENSION[3], OF_ROWS["shape"]
    np.testing.assert_allclose(exact_of_subspace(*law, n_nodes=24), exact_of_subspace(*law), atol=1e-5)


@pytest.mark.extended
@compiled
@pytest.mark.parametrize("p", [[0.2, 0.5, 0.3], [0.0, 0.6, 0.4, 0.0]])
def test_impossible_dimensions_are_never_visited(p):
    with np.errstate(divide="ignore"):
        log_dimension = np.log(p)
    exact = exact_of_subspace(ROWS[3], *list(OF_ROWS.values())[:2], log_dimension, OF_ROWS["shape"])
    estimate = subspace_estimate(kept_frames(ROWS[3], log_dimension), 3, basis=np.eye(3))
    assert np.all(estimate.mean[:4][exact[:4] == 0.0] == 0.0)
    assert_agrees(estimate, exact)


@pytest.mark.extended
@pytest.mark.every(3)
@compiled
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("odds += math.log((others + 1.0) / (D - others))", "pass"),
        ("shape + 0.5 * n, 0.5", "shape + 0.5 * (n - 1), 0.5"),
        ("log_gain(n,", "log_gain(n + 1,"),
    ],
)
def test_flips_of_wrong_odds_are_seen(right, wrong):
    flip = altered(frames.flip_directions, right, wrong)
    kernel = altered(frames.move_directions, flip_directions=flip)
    exact = exact_of_subspace(ROWS[3], *list(OF_ROWS.values())[:2], P_DIMENSION[3], OF_ROWS["shape"])
    moves = kept_frames(ROWS[3], P_DIMENSION[3], kernel)
    assert_disagrees(subspace_estimate(moves, 3, n_steps=150, basis=np.eye(3)), exact)


@pytest.mark.extended
@pytest.mark.every(2)
@compiled
@pytest.mark.parametrize("wrong", ["density of the proposal", "odds of trying"])
def test_births_without_a_part_of_their_odds_are_seen(wrong):
    if wrong == "odds of trying":
        kernel = altered(frames.birth_death_step, "log_accept += math.log(", "0.0 * math.log(")
    else:
        kernel = altered(frames.birth_death_step, log_span=lambda *law: 0.0)
    exact = exact_of_subspace(ROWS[3], *list(OF_ROWS.values())[:2], P_DIMENSION[3], OF_ROWS["shape"])
    assert_disagrees(subspace_estimate(births_alone(ROWS[3], P_DIMENSION[3], kernel), 3, n_steps=100), exact)


@pytest.mark.extended
@compiled
def test_births_from_leading_axes_alone_have_the_exact_law():
    spectrum = njit(altered(tilts.spectrum, "min(left.shape) > MOST_AXES", "True", N_LEADING=np.int64(1)))
    kernel = njit(altered(frames.birth_death_step, spectrum=spectrum, fold_in=frames.fold_in))
    exact = exact_of_subspace(ROWS[3], *list(OF_ROWS.values())[:2], P_DIMENSION[3], OF_ROWS["shape"])
    assert_agrees(subspace_estimate(births_alone(ROWS[3], P_DIMENSION[3], kernel), 3, basis=np.eye(3)), exact)


@pytest.mark.extended
@compiled
@pytest.mark.parametrize("moves", [all_moves, kept_frames])
def test_a_scan_that_begins_with_the_subspace_is_seen(moves):
    kernel = in_order(frames.move_directions)
    if moves is all_moves:
        kernel = altered(frames.move_frame, move_directions=kernel)
    exact = exact_of_subspace(ROWS[3], *list(OF_ROWS.values())[:2], P_DIMENSION[3], OF_ROWS["shape"])
    moves = moves(ROWS[3], P_DIMENSION[3], kernel)
    assert_disagrees(subspace_estimate(moves, 3, n_steps=150, basis=np.eye(3)), exact)


@pytest.mark.extended
@compiled
@pytest.mark.parametrize("n_sweeps", [1, 3])
def test_dimensions_have_their_prior_where_there_are_no_rows(n_sweeps):
    exact = exact_of_subspace(np.zeros((1, 3)), 0, 1.4, P_DIMENSION[3], 0.9)
    np.testing.assert_allclose(exact[:4], np.exp(P_DIMENSION[3]), rtol=1e-12)

    def transition(basis, ratios, key):
        return frames.move_frame(np.zeros((1, 3)), basis, ratios, 0, 1.4, P_DIMENSION[3], 0.9, n_sweeps, key)

    assert_agrees(subspace_estimate(transition, 3, n_steps=300 // n_sweeps), exact)


def test_orders_are_permutations_each_as_likely():
    ways = {}
    for key in keys_of(6000, 12):
        order = np.empty(3, np.int64)
        frames.fill_permutation(key, order)
        ways[tuple(order)] = ways.get(tuple(order), 0) + 1
    assert len(ways) == 6
    assert stats.chisquare(list(ways.values())).pvalue > 1e-4


# --- many features ---------------------------------------------------------------------------------------


def exact_of_one_direction(m, strong, weak, log_odds):
    """P(d = 1) and E[u_1^2 | d = 1] where the scatter is `strong` along the first axis and `weak` across it.

    The square of a coordinate is Beta(1/2, (m - 1) / 2).
    """
    n, noise, shape = OF_MANY.values()
    angles = (np.arange(20_000) + 0.5) * np.pi / 40_000
    log_weights = (m - 2) * np.log(np.sin(angles))
    squares = np.cos(angles) ** 2
    logs = log_weights + gains(n, weak + (strong - weak) * squares, noise, shape)[0]
    odds = np.exp(log_odds + logsumexp(logs) - logsumexp(log_weights))
    return np.array([odds / (1.0 + odds), np.exp(log_softmax(logs)) @ squares])


OF_MANY = {"n": 60, "noise": 1.0, "shape": 1.0}


def axes_of(m, strong, weak=60.0):
    Y = np.sqrt(weak) * np.eye(m)
    Y[0, 0] = np.sqrt(strong)
    return Y


@pytest.mark.extended
@pytest.mark.short_cases("40")
@compiled
@pytest.mark.parametrize(("kernel", "m", "strong"), [("births", 40, 220.0), ("all", 40, 220.0), ("all", 70, 300.0)])
def test_one_direction_among_many_has_the_exact_law(kernel, m, strong):
    """In the frame of 70 features 32 directions take part."""
    n, noise, shape = OF_MANY.values()
    weak = 40.0
    alone = exact_of_one_direction(m, strong, weak, 0.0)
    log_odds = -np.log(alone[0] / (1.0 - alone[0]))  # for even odds
    p_one, square = exact_of_one_direction(m, strong, weak, log_odds)
    assert p_one == pytest.approx(0.5, rel=1e-6)
    assert 4 / m < square < 0.9
    Y, log_dimension = axes_of(m, strong, weak), np.array([-np.logaddexp(0, log_odds), -np.logaddexp(0, -log_odds)])

    def transition(basis, ratios, key):
        if kernel == "births":
            return frames.birth_death_step(Y, basis, ratios, n, noise, log_dimension, shape, key)
        return frames.move_frame(Y, basis, ratios, n, noise, log_dimension, shape, 1, key)

    def statistic(basis, ratios):
        return np.array([len(basis), (basis[:, 0] ** 2).sum()])

    estimate = walk(transition, m, statistic, n_steps=60, n_chains=40)
    assert_agrees(estimate, [p_one, p_one * square])


@pytest.mark.extended
def test_a_strong_direction_among_many_is_found_at_once():
    n, noise, shape = OF_MANY.values()
    Y, log_dimension = axes_of(40, 1500.0), np.full(41, -np.log(41.0))
    empty = np.zeros((0, 40)), np.zeros(0)
    found = [frames.birth_death_step(Y, *empty, n, noise, log_dimension, shape, key)[0] for key in keys_of(200, 13)]
    accepted = np.array([len(basis) for basis in found])
    assert accepted.mean() > 0.8
    assert np.mean([basis[0, 0] ** 2 for basis in found if len(basis)]) > 0.7


@pytest.mark.extended
@compiled
def test_dimensions_have_their_prior_across_the_sizes_of_frames():
    """With 70 features 32 directions take part up to dimension 16, and 64 beyond."""
    assert [frames.frame_size(d, 70) for d in (0, 16, 17, 32, 33, 70)] == [
        *[(32, 0, 16)] * 2,
        *[(64, 17, 32)] * 2,
        *[(70, 33, 70)] * 2,
    ]
    m, Y = 70, np.zeros((1, 70))
    log_dimension = np.full(m + 1, -np.inf)
    log_dimension[14:20] = np.log([0.1, 0.2, 0.2, 0.2, 0.2, 0.1])

    def transition(basis, ratios, key):
        return frames.move_frame(Y, basis, ratios, 0, 1.0, log_dimension, 1.0, 1, key)

    estimate = walk(
        transition,
        m,
        lambda basis, ratios: np.arange(14, 20) == len(basis),
        n_steps=60,
        n_chains=40,
        basis=np.eye(m)[:15].copy(),
    )
    assert_agrees(estimate, np.exp(log_dimension[14:20]))


# --- centres ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 7])
def test_centres_have_the_exact_mean_and_covariance(n):
    rng = np.random.default_rng(4)
    m, noise, variance, ratios = 4, 1.7, 0.6, np.array([0.05, 0.4])
    basis = np.linalg.qr(rng.standard_normal((m, 2)))[0].T.copy()
    mean = rng.standard_normal(m)
    precision = noise * (np.eye(m) - basis.T @ np.diag(1.0 - ratios) @ basis)
    covariance = np.linalg.inv(n * precision + np.eye(m) / variance)
    expected = covariance @ (n * precision @ mean)
    keys = keys_of(20_000, 14)
    draws = np.array([frames.draw_centre(basis, ratios, noise, n, mean, variance, key) for key in keys])
    assert_agrees(summarize(draws), expected)
    gaps = draws - expected
    assert_agrees(summarize(gaps[:, :, None] * gaps[:, None, :]), covariance)
