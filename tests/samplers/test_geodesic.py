"""Samplers along geodesics: each scheme's law on a normal target and on spheres, limits, friction, Metropolis test."""

import numpy as np
import pytest

from skmanifold.manifolds import ConwaySphere, Euclidean, Product, Sphere, Stiefel
from skmanifold.models import Density, circle
from skmanifold.samplers import GMC, GSGNHT, HMC, NUTS, SGGMC, SGHMC, SGNHT

from ._evidence import accept_all, assert_agrees, assert_disagrees, chain_keys, expectations, walk
from ._flat_targets import FLAT_TARGETS, Noisy, uniform

SCHEMES = ["aboba", "ou", "baoab"]


def vmf(d=3, kappa=5.0):
    """The von Mises-Fisher law about the last axis."""
    return Density.linear(Sphere(d), kappa * np.eye(d)[-1])


MEAN = 1 / np.tanh(5.0) - 1 / 5.0  # of the cosine, for d = 3 and kappa = 5
MEAN_SQUARE = 1 - 2 * MEAN / 5.0


# --- flat spaces -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("geodesic", "flat"),
    [
        (SGGMC(0.05, n_steps=1, scheme="baoab"), SGHMC(0.05)),
        (GSGNHT(0.05, n_steps=1, scheme="baoab"), SGNHT(0.05)),
        (GMC(0.05, 7), HMC(0.05, 7)),
    ],
    ids=["SGGMC", "GSGNHT", "GMC"],
)
def test_geodesic_samplers_on_a_flat_space_are_the_flat_ones(geodesic, flat):
    target = Noisy(FLAT_TARGETS["banana"].density, 2.0)
    *_, one = walk(geodesic, target, 50, n_chains=5)
    *_, other = walk(flat, target, 50, n_chains=5)
    np.testing.assert_allclose(one.position, other.position, rtol=1e-9)


def test_inner_steps_are_steps():
    target = Noisy(circle(), 100.0)
    *_, one = walk(SGGMC(0.01, n_steps=1), target, 60, n_chains=5)
    *_, other = walk(SGGMC(0.01, n_steps=20), target, 3, n_chains=5)
    np.testing.assert_allclose(one.position, other.position, rtol=1e-11)  # neighbouring half flows are one flow
    np.testing.assert_allclose(one.momentum, other.momentum, rtol=1e-10)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_energy_without_friction_and_noise_stays_to_second_order(scheme):
    target, errors = vmf(), []
    for h in (0.04, 0.02):
        state = SGGMC(h, 1e-30, n_steps=1, scheme=scheme).init(target, chain_keys(30))
        sampler, energies = SGGMC(h, 1e-30, n_steps=1, scheme=scheme), []
        for _ in range(round(3 / h)):
            v = state.momentum
            if scheme == "baoab":  # its velocity is half a kick before the position
                v = v + h / 2 * 5.0 * (np.array([0, 0, 1.0]) - state.position * state.position[:, 2:])
            energies.append(-target.log_density(state.position) + (v**2).sum(axis=1) / 2)
            state = sampler.step(target, state)
        errors.append(np.abs(np.array(energies) - energies[0]).max())
    assert errors[0] < 0.05
    assert 3.3 < errors[0] / errors[1] < 4.7


# --- spheres and frames ----------------------------------------------------------------------------------

CURVED = [
    SGGMC(0.1, 2.0, n_steps=1, scheme="aboba"),
    SGGMC(0.1, 2.0, n_steps=1),
    SGGMC(0.1, 2.0, n_steps=1, scheme="baoab"),
    GSGNHT(0.1, 2.0, n_steps=1, scheme="aboba"),
    GSGNHT(0.1, 2.0, n_steps=1),
    GSGNHT(0.1, 2.0, n_steps=1, scheme="baoab"),
    GMC(0.3, 4),
]


def cosine_moments(state):
    t = state.position[:, 2]
    return np.stack([t, t**2, state.position[:, 0], state.position[:, 0] ** 2], axis=1)


@pytest.mark.extended
@pytest.mark.parametrize("sampler", CURVED, ids=repr)
def test_samplers_have_the_moments_of_von_mises_and_fisher(sampler):
    exact = [MEAN, MEAN_SQUARE, 0, (1 - MEAN_SQUARE) / 2]
    bias = 0 if isinstance(sampler, GMC) else 0.1**2 * 0.5  # of second order
    estimate = expectations(sampler, vmf(), cosine_moments, 800, burn_in=200, n_chains=500)
    assert_agrees(estimate, exact, bias)


@pytest.mark.extended
@pytest.mark.short_cases("ou")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_noise_across_the_tangent_space_is_not_clipped_with_the_tangent_noise(scheme, monkeypatch):
    # most of this noise is normal to the sphere near its pole: only a tenth has to be compensated, and can be
    u = np.array([1.0, 0.0, 3.0]) / np.sqrt(10)
    noisy = Noisy(vmf(kappa=20.0), 400.0 * np.outer(u, u) + 1e-3 * np.eye(3))
    sampler = SGGMC(0.05, 5.0, n_steps=1, scheme=scheme)
    mean = 1 / np.tanh(20.0) - 1 / 20.0

    def first_square():
        return expectations(sampler, noisy, lambda state: state.position[:, 0] ** 2, 500, burn_in=100, n_chains=300)

    assert_agrees(first_square(), mean / 20.0, 0.0012)
    monkeypatch.setattr("skmanifold.samplers._density.moves.FULL_SIZE", 0)  # clip it among all coordinates instead
    assert_disagrees(first_square(), mean / 20.0, 0.0012)


@pytest.mark.extended
@pytest.mark.short_cases("0.1")
@pytest.mark.parametrize("h", [0.1, 0.6])
def test_gmc_is_exact_at_every_step_size(h, monkeypatch):
    exact = [MEAN, MEAN_SQUARE, 0, (1 - MEAN_SQUARE) / 2]
    estimate = expectations(GMC(h, 3), vmf(), cosine_moments, 600, burn_in=100, n_chains=1000)
    assert_agrees(estimate, exact)
    if h == 0.6:
        monkeypatch.setattr("skmanifold.samplers._density.moves.accept", accept_all)
        estimate = expectations(GMC(h, 3), vmf(), cosine_moments, 600, burn_in=100, n_chains=1000)
        assert_disagrees(estimate, exact)


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("manifold", [Sphere(2), Sphere(3), Sphere(4, n_points=2), Stiefel(4, 2)], ids=repr)
@pytest.mark.parametrize("sampler", [CURVED[0], CURVED[2], CURVED[4], CURVED[6]], ids=repr)
def test_free_motion_stays_on_the_manifold_and_is_uniform(sampler, manifold):
    start = manifold.random_point(np.random.default_rng(3))

    def products(state):
        x = state.position.reshape(len(state.position), -1)
        return np.concatenate([x, (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)], axis=1)

    estimate = expectations(sampler, uniform(manifold), products, 200, burn_in=100, n_chains=200, position=start)
    size, unit = manifold.size, manifold.shape[-1]
    if isinstance(manifold, Stiefel):
        unit = manifold.shape[0]
    assert_agrees(estimate, [*np.zeros(size), *(np.eye(size) / unit).ravel()])
    *_, state = walk(sampler, uniform(manifold), 300, n_chains=5)
    for x in state.position:
        manifold.check_point(x, atol=1e-12)


def test_motion_without_forces_is_a_great_circle():
    target = uniform(Sphere(3))
    sampler = SGGMC(0.01, 1e-30, n_steps=100)
    state = sampler.init(target, chain_keys(4))
    x, v = state.position.copy(), state.momentum.copy()
    state = sampler.step(target, state)
    speed = np.linalg.norm(v, axis=1, keepdims=True)
    expected = x * np.cos(speed) + v / speed * np.sin(speed)
    np.testing.assert_allclose(state.position, expected, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(state.momentum, axis=1, keepdims=True), speed, rtol=1e-12)


@pytest.mark.parametrize("sampler", CURVED, ids=repr)
def test_points_stay_on_the_sphere_and_velocities_tangent(sampler):
    *_, state = walk(sampler, Noisy(circle(), 1e4), 1000, n_chains=5)
    np.testing.assert_allclose(np.linalg.norm(state.position, axis=1), 1, rtol=1e-12)
    if hasattr(state, "momentum"):
        radial = (state.position * state.momentum).sum(axis=1)
        assert np.all(np.abs(radial) <= 1e-12 * (1 + np.linalg.norm(state.momentum, axis=1)))


# --- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [SGGMC(), GSGNHT(), GMC()], ids=repr)
def test_positions_off_the_manifold_are_refused(sampler):
    with pytest.raises(ValueError, match="length"):
        sampler.init(circle(), chain_keys(2), np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"position must be of shape \(2, 2\), with one row per chain; got \(3, 2\)"):
        sampler.init(circle(), chain_keys(2), np.ones((3, 2)))


@pytest.mark.parametrize("sampler", [GMC(), HMC(), NUTS()], ids=repr)
def test_chains_must_begin_where_the_density_is_positive(sampler):
    target = Density(Euclidean(1), lambda x: -x, lambda x: np.where(x[:, 0] > 0, 0, -np.inf), vectorized=True)
    with pytest.raises(ValueError, match="log density must be finite at the initial positions"):
        sampler.init(target, chain_keys(2), -np.ones((2, 1)))


ISOLATED = [Sphere(1), Sphere(1, n_points=2), Stiefel(1, 1), ConwaySphere(1), Product(Euclidean(2), Sphere(1))]


@pytest.mark.parametrize("manifold", ISOLATED, ids=repr)
@pytest.mark.parametrize("sampler", [SGGMC(), GSGNHT(), GMC()], ids=repr)
def test_isolated_points_are_refused(sampler, manifold):
    with pytest.raises(ValueError, match=r"^(S|G).* cannot move .* isolated points, .*\.$"):
        sampler.init(uniform(manifold), chain_keys(2))
