"""Integrals and variates of subspaces, and their labels and moments, against other ways to compute them."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, summarize
from scipy import stats
from scipy.special import gammainc, gammaln, ive, log_softmax, logsumexp

from skmanifold.distributions._gamma import draw_ratio
from skmanifold.mixture._subspace import frame_kernels as frames
from skmanifold.mixture._subspace import tilt_kernels as tilts
from skmanifold.mixture._subspace.family import Subspaces, add_log_terms, add_moments
from skmanifold.mixture._subspace.model import SubspaceModel
from skmanifold.numerics import special
from skmanifold.random._keys import subkey
from skmanifold.utils._threads import Workers

from ._subspace_references import KEY, compiled, keys_of, log_unit_gamma

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys


def von_mises(key, concentration):
    """Twice the angle of a rotation, from -pi to pi."""
    cosine, sine = frames._rotation(key, concentration, 0.0)
    return np.angle(complex(cosine, sine) ** 2)


def log_unit_gamma_by_quadrature(shape, rate):
    """In y = log u, by panels about the mode that grow with the distance from it."""
    mode = 0.0 if rate <= shape else np.log(shape / rate)
    width = min(1.0, 1.0 / np.sqrt(shape + 1.0))
    if mode == 0.0:
        width = min(width, 1.0 / max(shape - rate, 1e-9))
    steps = np.concatenate([np.arange(0, 8, 0.5), 8 * 1.3 ** np.arange(60)]) * width
    edges = np.concatenate([mode - steps, mode + steps, [0.0]])
    edges = np.unique(edges[edges <= 0])
    nodes, weights = np.polynomial.legendre.leggauss(24)
    half = 0.5 * np.diff(edges)[:, None]
    t = half * (nodes + 1.0) + edges[:-1, None] - mode
    at_mode = rate * np.exp(mode)
    return shape * mode - at_mode + np.log((half * weights * np.exp(shape * t - at_mode * np.expm1(t))).sum())


# --- integrals and variates ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [0.5, 0.7, 1.0, 2.5, 20.0, 1e3, 1e5, 1e6])
def test_log_unit_gamma_is_the_integral_at_every_scale(shape):
    rates = [0.0, 1e-12, 1e-4, 0.3, 1.0, 10.0, 1e2, 1e4, 1e6, 1e8]
    rates += [shape * by for by in (0.5, 0.99, 1.0, 1.001, 1.1)] + [shape + 1.0 - 1e-9, shape + 1.0, shape + 5.0]
    for rate in rates:
        got = special.log_unit_gamma(shape, float(rate))
        assert got == pytest.approx(log_unit_gamma_by_quadrature(shape, rate), rel=1e-10, abs=1e-10)
        if rate > 0.0 and gammainc(shape, rate) > 1e-280:
            assert got == pytest.approx(log_unit_gamma(shape, rate), rel=1e-10, abs=1e-10)


@compiled
def test_log_unit_gamma_ends_at_every_rate():
    rates = np.logspace(0, 30, 3001)
    for shape in (0.5, 3.5, 5e5):
        values = np.array([special.log_unit_gamma(shape, rate) for rate in rates])
        far = rates > shape + 60.0 * np.sqrt(shape) + 100.0
        np.testing.assert_allclose(values[far], gammaln(shape) - shape * np.log(rates[far]), rtol=1e-12)


@pytest.mark.parametrize("concentration", [0.0, 1e-10, 1e-8, 1e-5, 1e-3, 0.1, 1.0, 7.0, 300.0, 1e5, 1e8])
def test_von_mises_angles_have_the_exact_moments(concentration):
    angles = np.array([von_mises(key, concentration) for key in keys_of(20_000, 1)])
    assert abs(angles).max() <= np.pi
    if concentration < 1e4:
        of_order = ive([0, 1, 2], concentration)
        first, second = of_order[1:] / of_order[0]
        spread, square = 1.0 - first, 0.5 * (1.0 + second) - 2.0 * first + 1.0
    else:  # the same to second order in 1 / concentration
        spread = (0.5 + 0.125 / concentration) / concentration
        square = 0.75 / concentration**2
    short = 2.0 * np.sin(0.5 * angles) ** 2
    draws = np.stack([short / spread, short**2 / square, np.sin(angles) / np.sqrt(2.0 * spread)], axis=1)
    assert_agrees(summarize(draws), [1.0, 1.0, 0.0], bias=2.0 / concentration if concentration > 1e4 else 0.0)


@pytest.mark.parametrize("concentration", [1e-8, 1.68e-8, 1e-6, 1e-4, 0.5, 50.0])
def test_von_mises_angles_follow_the_law(concentration):
    angles = np.array([von_mises(key, concentration) for key in keys_of(4000, 2)])
    assert stats.kstest(angles, stats.vonmises(concentration).cdf).pvalue > 1e-4


@pytest.mark.parametrize("concentration", [1e5, 1e8, 1e12, 1e18, 1e100])
def test_von_mises_angles_of_high_concentration_are_normal_in_the_tail_too(concentration):
    angles = np.array([von_mises(key, concentration) for key in keys_of(20_000, 3)])
    z = angles * np.sqrt(concentration)
    assert stats.kstest(z, "norm").pvalue > 1e-4
    assert_agrees(summarize(np.stack([z > 2.5, z < -2.5], axis=1)), stats.norm.sf(2.5), bias=1e-4)


@pytest.mark.parametrize(("shape", "rate"), [(0.6, 0.0), (2.0, 1e-3), (5.0, 4.0), (5.0, 40.0), (200.0, 190.0)])
def test_ratios_follow_the_gamma_law_below_one(shape, rate):
    draws = np.array([draw_ratio(key, shape, rate) for key in keys_of(4000, 4)])
    assert draws.min() > 0
    assert draws.max() <= 1
    below = gammainc(shape, rate * draws) / gammainc(shape, rate) if rate else draws**shape
    assert stats.kstest(below, "uniform").pvalue > 1e-4


def test_ratios_are_never_zero():
    for i, (shape, rate) in enumerate([(1e-3, 1e9), (0.01, 0.0), (1.0, 1e300), (1e6, 0.0)]):
        draws = np.array([draw_ratio(key, shape, rate) for key in keys_of(50, 5, i)])
        assert np.all((draws > 0) & (draws <= 1))


# --- labels and moments ----------------------------------------------------------------------------------


def some_subspaces(m=5, K=3, seed=0):
    rng = np.random.default_rng(seed)
    bases = np.stack([np.linalg.qr(rng.standard_normal((m, min(m, 3))))[0].T for _ in range(K)])
    dims = np.resize([2, 0, min(m, 3)], K)
    ratios = rng.uniform(0.01, 1.0, (K, bases.shape[1]))
    centres, noise = rng.standard_normal((K, m)), rng.uniform(0.5, 4.0, K)
    return Subspaces(bases, dims, ratios, centres, noise)


def reference_terms(X, subspaces):
    columns = []
    for k, noise in enumerate(subspaces.noise):
        U, ratios = subspaces.basis(k), subspaces.ratios[k, : subspaces.dims[k]]
        covariance = np.eye(X.shape[1]) / noise + U.T @ np.diag((1.0 / ratios - 1.0) / noise) @ U
        law = stats.multivariate_normal(subspaces.centres[k], covariance)
        columns.append(np.atleast_1d(law.logpdf(X)))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("n", [1, 31, 32, 75])
def test_log_terms_are_those_of_normal_laws_however_rows_are_cut(n):
    subspaces, X = some_subspaces(), 2.0 * np.random.default_rng(1).standard_normal((n, 5))
    whole, cut = np.full((n, 3), 0.5), np.full((n, 3), 0.5)
    add_log_terms(X, 0, n, *subspaces, subspaces.log_offsets(), whole)
    np.testing.assert_allclose(whole, 0.5 + reference_terms(X, subspaces), rtol=1e-10)
    for start, stop in ((0, n // 3), (n // 3, n // 3), (n // 3, n)):
        add_log_terms(X, start, stop, *subspaces, subspaces.log_offsets(), cut[start:stop])
    np.testing.assert_array_equal(cut, whole)


@pytest.mark.extended
def test_labels_follow_their_probabilities_however_rows_are_cut(monkeypatch):
    n, subspaces = 20_000, some_subspaces()
    X = np.tile([0.3, -0.2, 0.1, 0.4, 0.0], (n, 1))
    model = SubspaceModel(X, None, None, [], Workers(1))
    labels, total = model.draw_labels(subspaces, subspaces.log_offsets(), subkey(KEY, 15))
    terms = reference_terms(X[:2], subspaces)[0]
    assert np.exp(log_softmax(terms)).min() > 0.02
    assert total == pytest.approx(n * logsumexp(terms), rel=1e-10)
    assert_agrees(summarize(labels[:, None] == np.arange(3)), np.exp(log_softmax(terms)))
    monkeypatch.setattr("skmanifold.mixture._subspace.model._ROWS", 777)
    cut, _ = model.draw_labels(subspaces, subspaces.log_offsets(), subkey(KEY, 15))
    np.testing.assert_array_equal(cut, labels)


def test_moments_are_sums_over_the_labelled():
    rng = np.random.default_rng(2)
    X, labels, origins = rng.standard_normal((50, 4)), rng.integers(0, 3, 50), rng.standard_normal((4, 4))
    counts, sums, products = np.zeros(4, np.int64), np.zeros((4, 4)), np.zeros((4, 4, 4))
    for start, stop in ((0, 20), (20, 50)):
        add_moments(X, start, stop, labels, origins, counts, sums, products)
    for k in range(4):
        shifted = X[labels == k] - origins[k]
        assert counts[k] == len(shifted)
        np.testing.assert_allclose(sums[k], shifted.sum(axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(products[k], np.tril(shifted.T @ shifted), rtol=1e-12, atol=1e-12)


# --- corners ---------------------------------------------------------------------------------------------

CORNERS = {
    "no rows": (np.zeros((1, 6)), 0),
    "one row": (np.array([[0.3, 0.0, 1.0, 0.0, 0.0, 2.0]]), 1),
    "the same row": (np.ones((9, 6)), 9),
    "rows at the centre": (np.zeros((6, 6)), 1000),
    "fewer rows than features": (np.random.default_rng(5).standard_normal((3, 6)), 3),
    "constant columns": (np.random.default_rng(6).standard_normal((20, 6)) * [1, 1, 1, 0, 0, 0], 20),
    "huge": (1e8 * np.random.default_rng(7).standard_normal((6, 6)), 6),
    "tiny": (1e-8 * np.random.default_rng(8).standard_normal((6, 6)), 6),
    "many rows": (1e3 * np.eye(6) + np.diag([3e3, 0, 0, 0, 0, 0]), 1_000_000),
}


@pytest.mark.parametrize("noise", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("name", CORNERS)
def test_corners_stay_finite(name, noise):
    (Y, n), log_dimension = CORNERS[name], np.full(7, -np.log(7.0))
    at, centre = (np.zeros((0, 6)), np.zeros(0)), np.zeros(6)
    for key in keys_of(20, 16):
        basis, ratios, squares = frames.move_frame(Y, *at, n, noise, log_dimension, 1.0, 1, key)
        at = basis, ratios
        np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-12)
        assert np.all((ratios > 0) & (ratios <= 1))
        exact = (Y**2).sum() - (1.0 - ratios) @ ((Y @ basis.T) ** 2).sum(axis=0)
        assert squares == pytest.approx(exact, rel=1e-9, abs=1e-9 * (Y**2).sum())
        centre = frames.draw_centre(basis, ratios, noise, n, centre, 1.0, key)
        assert np.isfinite(centre).all()


# --- large data -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [1e-3, 1e-6, 1e-12])
def test_densities_of_rows_near_subspaces_keep_their_digits(share):
    rng = np.random.default_rng(9)
    subspaces = some_subspaces(m=12)._replace(ratios=np.full((3, 3), 1e-30), noise=np.full(3, 1.0 / share))
    basis = subspaces.basis(2)
    across = rng.standard_normal((40, 12))
    across -= (across @ basis.T) @ basis
    X = subspaces.centres[2] + 10.0 * rng.standard_normal((40, 3)) @ basis + np.sqrt(share) * across
    terms = np.zeros((40, 3))
    add_log_terms(X, 0, 40, *subspaces, np.zeros(3), terms)
    # The rounding errors of rows of length 30 relative to this distance
    np.testing.assert_allclose(terms[:, 2], -0.5 * (across**2).sum(axis=1), rtol=1e-9 + 1e-13 / np.sqrt(share))


@compiled
def test_leading_axes_of_wide_rows():
    rng = np.random.default_rng(10)
    Y = rng.standard_normal((80, 90))
    Y[:, :3] *= [30.0, 20.0, 10.0]
    values, axes, squares = tilts.leading_axes(Y, 8)
    _, singular, exact = np.linalg.svd(Y)
    assert squares == pytest.approx((Y**2).sum())
    np.testing.assert_allclose(values[:3], singular[:3] ** 2, rtol=1e-6)
    np.testing.assert_allclose(np.abs((axes[:3] * exact[:3]).sum(axis=1)), 1.0, atol=1e-6)
    np.testing.assert_allclose(axes @ axes.T, np.eye(8), atol=1e-12)
