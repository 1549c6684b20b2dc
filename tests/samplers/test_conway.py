"""The walk on the Conway sphere has the laws it claims; the errors it corrects are seen by the same checks."""

import pickle

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.cluster import KMeans

from skmanifold.emissions._dense_rows import DenseRows
from skmanifold.manifolds import Stiefel
from skmanifold.mixture._memberships import DirichletWeights
from skmanifold.mixture._scores import FamilyRows
from skmanifold.mixture._subspace.family import SubspaceFamily
from skmanifold.mixture._subspace.model import SubspaceModel
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import ConwayWalk
from skmanifold.samplers._latent.conway_walk import draw_within, walk_subspaces
from skmanifold.utils._threads import Workers

from ._conway_reference import (
    Cluster,
    across,
    coordinate_planes,
    exact_posterior,
    flat_priors,
    reference_walk,
    symmetric_normals,
    unit,
)
from ._evidence import Estimate, assert_agrees, assert_disagrees, summarize

KEY = root_key(0)


def kernel_walk(directions, n_moves, scale, log_ranks, cluster, offsets, *, key=KEY):
    """The kernel on chains that have the same rows: what `reference_walk` does."""
    n, m = offsets.shape
    directions, offsets, frames = directions.copy(), offsets.copy(), np.empty((n, m, m))
    moments = np.full(n, cluster.n), np.tile(cluster.mean, (n, 1)), np.tile(cluster.scatter, (n, 1, 1))
    settings = np.full(n, cluster.noise), np.tile(log_ranks, (n, 1)), cluster.variance, cluster.temperature
    dims, _ = walk_subspaces(
        directions, offsets, *moments, *settings, np.tile([scale, 2.0], (n, 1)), n_moves, key, frames
    )
    within = np.array([frame[m - d :].T @ frame[m - d :] for frame, d in zip(frames, dims, strict=True)])
    np.testing.assert_allclose(within, np.eye(m) - across(directions)[0], atol=1e-6)
    return directions, offsets


NO_ROWS = {m: Cluster(np.zeros((1, m))) for m in (2, 3, 4)}
for cluster in NO_ROWS.values():
    cluster.n = cluster.pull = 0


def shares(directions, max_dimension, threshold=0.0):
    dims = across(unit(directions), threshold)[1]
    return summarize(dims[:, None] == np.arange(max_dimension + 1))


# Without rows


@pytest.mark.extended
@pytest.mark.short_cases("3")
@pytest.mark.parametrize("m", [3, 4])
def test_without_rows_dimensions_follow_their_prior_and_subspaces_are_uniform(m):
    n, max_dimension = 1000, m - 1
    log_prior, log_ranks = flat_priors(m, max_dimension)
    start = coordinate_planes(np.arange(n) % 2 + 1, m), np.zeros((n, m))
    directions, offsets = kernel_walk(start[0], 150, 3.0, log_ranks, NO_ROWS[m], start[1])
    assert_agrees(shares(directions, max_dimension), np.exp(log_prior))
    Q, dims = across(directions)
    for d in range(1, m):
        P = (np.eye(m) - Q)[dims == d]
        assert_agrees(summarize(P), d / m * np.eye(m))
        assert_agrees(summarize(P[:, 0, 0] ** 2), d * (d + 2) / (m * (m + 2)))
    assert_agrees(summarize(offsets**2), NO_ROWS[m].variance)


@pytest.mark.extended
def test_the_surface_area_alone_is_another_prior():
    n, m = 1000, 3
    log_prior, _ = flat_priors(m, m)
    start = coordinate_planes(np.arange(n) % 2 + 1, m), np.zeros((n, m))
    directions, _ = kernel_walk(start[0], 150, 3.0, log_prior, NO_ROWS[m], start[1])
    assert_disagrees(shares(directions, m), np.exp(log_prior))
    three = (np.pi - 2 * np.sqrt(2)) / (4 * np.pi)
    assert_agrees(shares(directions, m), np.array([three, 0.5 - three, 0.5 - three, three]))


def turn(walk, directions, **options):
    """Squared distance of one move where every move is accepted."""
    n, m = directions.shape[:2]
    after, _ = walk(directions, 1, 0.3, np.zeros(m + 1), NO_ROWS[m], np.zeros((n, m)), **options)
    return summarize(((unit(after) - unit(directions)) ** 2).sum(axis=(1, 2)))


@pytest.mark.extended
@pytest.mark.short_cases("True")
@pytest.mark.parametrize("renormalise", [True, False])
def test_points_stay_on_the_sphere_so_that_steps_do_not_shorten(renormalise):
    n, m = 500, 3
    start, offsets = unit(symmetric_normals(np.random.default_rng(0), n, m)), np.zeros((n, m))
    if renormalise:
        walk, options = kernel_walk, {}
    else:
        rng = np.random.default_rng(2)
        walk, options = lambda *args, **kw: reference_walk(rng, *args, **kw), {"renormalise": False}
    late, _ = walk(start, 300, 0.3, np.zeros(m + 1), NO_ROWS[m], offsets, **options)
    first, last = turn(walk, start, **options), turn(walk, late, **options)
    change = Estimate(last.mean - first.mean, np.hypot(first.error, last.error))
    if renormalise:
        np.testing.assert_allclose(np.linalg.norm(late, axis=(1, 2)), 1.0, rtol=1e-14)
        assert_agrees(change, 0.0)
    else:
        assert_disagrees(change, 0.0)
        assert last.mean < first.mean / 5


# With rows


def rows_of(m):
    rng = np.random.default_rng(m)
    return rng.standard_normal((6, m)) * np.linspace(1.5, 0.5, m) + np.linspace(1.0, -0.5, m)


def statistics(Q, d, beta, m, max_dimension):
    """Of one chain or draw each: dimensions, projections with their squares, offsets and their parts across."""
    theta = np.einsum("kab,kb->ka", Q, beta)
    P = np.eye(m) - Q
    upper = np.triu_indices(m)
    parts = (
        d[:, None] == np.arange(1, max_dimension + 1),
        P[:, *upper],
        P[:, *upper] ** 2,
        beta,
        beta**2,
        theta,
        theta**2,
    )
    return np.concatenate(parts, axis=1)


def exact_expectations(cluster, log_ranks, m, max_dimension):
    Q, d, beta, weights = exact_posterior(np.random.default_rng(5), cluster, log_ranks, m)
    values = statistics(Q, d, beta, m, max_dimension)
    mean = weights @ values
    return Estimate(mean, np.sqrt(weights**2 @ (values - mean) ** 2))


def posterior_gap(walk, m, temperature=0.5, **options):
    """Expectations under the walk less the exact ones."""
    n, max_dimension = 1000, m if m == 2 else m - 1
    cluster = Cluster(rows_of(m), noise=1.5, temperature=temperature)
    _, log_ranks = flat_priors(m, max_dimension)
    exact = exact_expectations(cluster, log_ranks, m, max_dimension)
    rng = np.random.default_rng(7)
    start = coordinate_planes(rng.integers(1, m, n), m), rng.standard_normal((n, m))
    Z, beta = walk(start[0], 200, 1.2, log_ranks, cluster, start[1], **options)
    found = summarize(statistics(*across(unit(Z)), beta, m, max_dimension))
    return Estimate(found.mean - exact.mean, np.hypot(found.error, exact.error))


@pytest.mark.extended
@pytest.mark.short_cases("2")
@pytest.mark.parametrize(("m", "temperature"), [(2, 0.5), (3, 0.5), (3, 0.2)])
def test_the_posterior_of_a_cluster_agrees_with_importance_sampling(m, temperature):
    assert_agrees(posterior_gap(kernel_walk, m, temperature), 0.0)


@pytest.mark.extended
@pytest.mark.every(3)
@pytest.mark.parametrize("error", [{}, {"recompute": False}, {"offset_prior": False}, {"centre": 1.0}])
def test_the_walk_as_printed_has_another_law(error):
    rng = np.random.default_rng(3)
    gap = posterior_gap(lambda *args, **options: reference_walk(rng, *args, **options), 2, **error)
    (assert_disagrees if error else assert_agrees)(gap, 0.0)


# Given subspaces


@pytest.mark.extended
@pytest.mark.parametrize("n", [0, 1, 7])
def test_along_a_subspace_ratio_and_centre_agree_with_quadrature(n):
    K, shape, variance, noise, middle, spread = 2000, 0.8, 3.0, 1.7, 0.9, 2.5 if n > 1 else 0.0
    frames = np.tile(np.eye(2)[::-1], (K, 1, 1))  # the subspace is the first axis
    middles = np.tile([middle if n else 0.0, 0.4 if n else 0.0], (K, 1))
    scatters = np.tile(np.diag([spread, 0.3 if n > 1 else 0.0]), (K, 1, 1))
    offsets = np.tile([5.0, -0.2], (K, 1))
    bases, ratios, squares = np.zeros((K, 1, 2)), np.ones((K, 1)), np.empty(K)
    centres, ones, counts = np.zeros((K, 2)), np.ones(K, np.int64), np.full(K, n)
    for i in range(8):
        of_rows = counts, middles, scatters, np.full(K, noise)
        draw_within(frames, ones, offsets, *of_rows, shape, variance, subkey(KEY, i), bases, ratios, centres, squares)
    np.testing.assert_array_equal(np.abs(bases[:, 0]), np.tile([1.0, 0.0], (K, 1)))
    np.testing.assert_allclose(centres[:, 1], -0.2, rtol=1e-12)
    ratio, place = ratios[:, 0], centres[:, 0]
    inside = ratio * (spread + n * (middle - place) ** 2)
    outside = scatters[0, 1, 1] + n * (middles[0, 1] + 0.2) ** 2
    np.testing.assert_allclose(squares, inside + outside, rtol=1e-9)

    # v = u^shape is uniform under the prior
    u = (((np.arange(4000) + 0.5) / 4000) ** (1 / shape))[:, None]
    c = np.linspace(-9, 9, 721) * np.sqrt(variance) / 1.5
    logs = 0.5 * n * np.log(u) - 0.5 * noise * u * (spread + n * (middle - c) ** 2) - c**2 / (2 * variance)
    weights = np.exp(logs - logsumexp(logs))
    for of_draws, of_grid in [(ratio, u), (ratio**2, u**2), (place, c), (place**2, c**2), (ratio * place, u * c)]:
        assert_agrees(summarize(of_draws), (weights * of_grid).sum(), bias=2e-4)


@pytest.mark.extended
def test_axes_within_a_subspace_are_those_of_the_rows():
    rng, m, d = np.random.default_rng(1), 6, 3
    X = rng.standard_normal((50, m)) * [5, 3, 2, 1, 1, 1]
    frame = Stiefel(m, m).random_point(rng)[None]
    bases, ratios, centres, squares = np.zeros((1, 4, m)), np.ones((1, 4)), np.zeros((1, m)), np.empty(1)
    scatter = np.cov(X.T, bias=True) * 50
    rows = np.array([50]), X.mean(axis=0)[None], scatter[None], np.ones(1)
    draw_within(frame, np.array([d]), np.zeros((1, m)), *rows, 1.0, 9.0, KEY, bases, ratios, centres, squares)
    U = bases[0, :d]
    np.testing.assert_allclose(U.T @ U, frame[0, m - d :].T @ frame[0, m - d :], atol=1e-12)
    turned = U @ scatter @ U.T
    np.testing.assert_allclose(turned, np.diag(np.diag(turned)), atol=1e-9)
    assert np.all(np.diff(np.diag(turned)) < 0)
    assert not bases[0, d:].any()


# Steps


def line_and_plane(seed, n=500, precision=10.0):
    """Rows about a random line and a random plane of R^3, as MATH says; returns them with their labels."""
    rng = np.random.default_rng(seed)
    parts = []
    for d in (1, 2):
        U = Stiefel(3, d).random_point(rng)
        theta = rng.standard_normal(3)
        theta -= U @ (U.T @ theta)
        J = -np.log1p(-rng.random(d) * -np.expm1(-precision))  # Ga(1, 1) below the precision
        scores = rng.standard_normal(d) + rng.standard_normal((n, d)) / np.sqrt(J)
        noise = rng.standard_normal((n, 3)) / np.sqrt(precision)
        parts.append(theta + scores @ U.T + noise - noise @ U @ U.T)
    return np.concatenate(parts), np.repeat([0, 1], n)


def model_of(X, n_components=2, n_adapting=60, max_dimension=2, seed=0, kind=SubspaceModel):
    m = X.shape[1]
    X = np.ascontiguousarray(X - X.mean(axis=0))
    log_dimension = np.full((n_components, max_dimension + 1), -np.inf)
    log_dimension[:, 1:] = -np.log(max_dimension)
    variance = float((X**2).sum(axis=1).mean())
    family = SubspaceFamily(log_dimension, np.zeros(m), variance, 1.0, 0.1, 0.5, True)
    start = np.random.default_rng(seed).integers(n_components, size=len(X)).astype(np.int32)
    return kind(X, family, DirichletWeights(1.0), [start], Workers(1), n_adapting=n_adapting)


def run(model, n_steps, sampler=None, key=KEY):
    sampler = sampler or ConwayWalk()
    state = sampler.init(model, key)
    for _ in range(n_steps):
        state = sampler.step(model, state)
        yield state


def accuracy(labels, truth):
    same = (labels == truth).mean()
    return max(same, 1 - same)


@pytest.mark.extended
def test_line_and_plane_are_told_apart():
    X, truth = line_and_plane(1)
    model = model_of(X)
    model.starts = [KMeans(2, n_init=1, random_state=0).fit_predict(X).astype(np.int32)]
    begin = accuracy(model.starts[0], truth)
    states = list(run(model, 120, ConwayWalk(n_moves=30)))
    rows = FamilyRows(model.family, DenseRows(model.X))
    terms = [state.position.log_terms(rows, model.workers) for state in states[60::4]]
    by_likelihood = [accuracy(of_draw.argmax(axis=1), truth) for of_draw in terms]
    assert np.median(by_likelihood) > 0.93 > begin
    drawn = [accuracy(state.latents, truth) for state in states[60:]]
    assert np.median(drawn) > 0.8
    levels = [state.log_density for state in states]
    assert np.mean(levels[60:]) > levels[0] + 100


@pytest.mark.extended
def test_the_same_key_gives_the_same_bytes_and_a_step_leaves_its_state_alone():
    X, _ = line_and_plane(0, n=50)
    model, sampler = model_of(X), ConwayWalk(n_moves=5)
    runs = [list(run(model, 4, sampler))[-1] for _ in range(2)]
    assert pickle.dumps(runs[0]) == pickle.dumps(runs[1])
    before = pickle.dumps(runs[0])
    after = sampler.step(model, runs[0])
    assert pickle.dumps(runs[0]) == before
    assert not np.array_equal(after.walk.directions, runs[0].walk.directions)


@pytest.mark.extended
def test_steps_are_tuned_in_burn_in_and_never_after():
    X, _ = line_and_plane(2)
    states = list(run(model_of(X, n_adapting=60), 100, ConwayWalk(n_moves=20)))
    scales = [state.walk.log_scales for state in states]
    assert not np.array_equal(scales[58], scales[59])
    for later in scales[60:]:
        np.testing.assert_array_equal(later, scales[59])
    assert {state.walk.temperature for state in states} == {0.5}
    rates = np.mean([state.walk.acceptance for state in states[60:]], axis=0)
    assert np.all((rates > 0.2) & (rates < 0.5)), rates


def test_the_search_for_a_temperature_ends_where_long_steps_are_accepted():
    X, _ = line_and_plane(3)
    states = list(run(model_of(X, n_adapting=80), 90, ConwayWalk("auto", n_moves=20)))
    found = [state.walk.temperature for state in states]
    assert np.all(np.diff(found) <= 0)
    assert found[0] == 1e3
    assert 1e-6 < found[39] < 0.1  # far from 1/2, which is that of the likelihood
    assert found[39] == found[-1]
    end = next(i for i, state in enumerate(states) if not state.walk.searching)
    assert not states[end].walk.log_scales.any()
    assert states[end].walk.acceptance[:, 0].mean() >= 0.1
    assert states[end + 1].walk.log_scales.any()


def test_a_search_that_burn_in_cuts_short_ends():
    X, _ = line_and_plane(3, n=50)
    last = list(run(model_of(X, n_adapting=4), 4, ConwayWalk("auto", n_moves=2)))[-1]
    assert not last.walk.searching
    last = list(run(model_of(X, n_adapting=0), 2, ConwayWalk("auto", n_moves=2)))[-1]
    assert not last.walk.searching


def test_clusters_without_rows_fall_back_to_the_prior():
    X, _ = line_and_plane(0, n=3)
    model = model_of(X, n_components=12)
    empty = []
    for state in run(model, 60, ConwayWalk(n_moves=3)):
        for values in (state.position.weights, *state.position.parameters, *state.walk[:4]):
            assert np.all(np.isfinite(values))
        empty.append(12 - len(np.unique(state.latents)))
    assert max(empty) > 3


class Listening(SubspaceModel):
    """Keeps what labels were drawn from."""

    def draw_labels(self, subspaces, offsets, key):
        self.heard = [*getattr(self, "heard", ()), (subspaces, offsets)]
        return super().draw_labels(subspaces, offsets, key)


@pytest.mark.extended
def test_labels_are_drawn_by_loss_and_weights_with_the_parameters_of_the_step():
    X, _ = line_and_plane(4, n=100)
    model, sampler, temperature = model_of(X, kind=Listening), ConwayWalk(0.3), 0.3
    position = sampler.step(model, sampler.init(model, KEY)).position
    loss, offsets = model.heard[1]
    position, weights = position.parameters, position.weights
    np.testing.assert_allclose(offsets, np.log(weights) - temperature * position.dims, rtol=1e-14)
    assert not loss.ratios.any()
    for k in range(2):
        P = position.basis(k).T @ position.basis(k)
        gap = model.X - loss.centres[k]
        heard = 0.5 * loss.noise[k] * (np.square(gap).sum(axis=1) - np.square(gap @ P).sum(axis=1))
        residual = (model.X - position.centres[k]) @ (np.eye(3) - P)
        expected = temperature * position.noise[k] * np.square(residual).sum(axis=1)
        np.testing.assert_allclose(heard, expected, rtol=1e-9, atol=1e-9)


def test_more_features_than_the_walk_can_serve_are_refused():
    X = np.random.default_rng(0).standard_normal((60, 61))
    with pytest.raises(ValueError, match="at most 50 features, not 61"):
        ConwayWalk().init(model_of(X), KEY)
