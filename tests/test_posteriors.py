"""Samplers draw from the laws whose moments are known: means within Monte Carlo errors, plus a stated bias.

The bias is that of the discretisation: a number times a power of the step size. Variants that are known to be wrong go
through the same checks and fail.
"""

import numpy as np
import pytest
from samplers._evidence import Estimate, accept_all, assert_agrees, assert_disagrees, expectations, walk
from samplers._flat_targets import FLAT_TARGETS, Noisy, draw, potential_divergence, potential_metric
from samplers._wrong import OneMinibatchPerTrajectory, SphereOfAmbientDimension

from skmanifold.models import Density, circle, vmf_mixture_posterior
from skmanifold.samplers import (
    GMC,
    GSGNHT,
    HMC,
    SGGMC,
    SGHMC,
    SGLD,
    SGNHT,
    SGRHMC,
    SGRLD,
    NonFiniteError,
)

# --- the line and the plane ------------------------------------------------------------------------------

# Sampler at step size h, the order of its weak error, and h itself; the bias that is allowed is a multiple of h^order.
FLAT_SAMPLERS = {
    "SGLD": (lambda h, target: SGLD(h), 1, 0.01),
    "SGHMC euler": (lambda h, target: SGHMC(h, scheme="euler"), 1, 0.01),
    "SGHMC baoab": (lambda h, target: SGHMC(h), 2, 0.05),
    "SGNHT euler": (lambda h, target: SGNHT(h, scheme="euler"), 1, 0.01),
    "SGNHT baoab": (lambda h, target: SGNHT(h), 2, 0.05),
    "SGRLD": (lambda h, target: SGRLD(h, potential_metric(target), potential_divergence(target)), 1, 0.004),
    "SGRHMC euler": (lambda h, target: SGRHMC(h, potential_metric(target), scheme="euler"), 1, 0.01),
    "SGRHMC baoab": (lambda h, target: SGRHMC(h, potential_metric(target)), 2, 0.05),
    "SGGMC aboba": (lambda h, target: SGGMC(h, n_steps=1, scheme="aboba"), 2, 0.05),
    "SGGMC ou": (lambda h, target: SGGMC(h, n_steps=1), 2, 0.05),
    "SGGMC baoab": (lambda h, target: SGGMC(h, n_steps=1, scheme="baoab"), 2, 0.05),
    "GSGNHT aboba": (lambda h, target: GSGNHT(h, n_steps=1, scheme="aboba"), 2, 0.05),
    "GSGNHT ou": (lambda h, target: GSGNHT(h, n_steps=1), 2, 0.05),
    "GSGNHT baoab": (lambda h, target: GSGNHT(h, n_steps=1, scheme="baoab"), 2, 0.05),
}
RELATIVE_BIAS = {1: 2.0, 2: 3.0}  # times h^order, of each moment
# In the thermostat's Euler scheme the friction makes up for the heat of the stiff direction, and cools the other.
RELATIVE_BIAS_OF = {("SGNHT euler", "banana"): 12.0}


def flat_estimate(sampler, name, *, time=21, density=None, n_chains=600):
    """Moments of one of the flat targets, over `time` after a third of it, from chains that begin at one point."""
    target = FLAT_TARGETS[name]
    h = sampler.step_size
    return expectations(
        sampler,
        target.density if density is None else density,
        lambda state: target.moments(state.position),
        round(time / h * 2 / 3),
        burn_in=round(time / h / 3),
        n_chains=n_chains,
        position=target.start,
    )


def stated_bias(sampler_name, target_name, h):
    order = FLAT_SAMPLERS[sampler_name][1]
    slope = RELATIVE_BIAS_OF.get((sampler_name, target_name), RELATIVE_BIAS[order])
    return slope * h**order * np.abs(FLAT_TARGETS[target_name].exact)


@pytest.mark.covering
@pytest.mark.parametrize("name", FLAT_TARGETS)
@pytest.mark.parametrize("sampler", [HMC(0.1, 10), GMC(0.1, 10)], ids=["HMC", "GMC"])
def test_metropolis_is_exact_on_flat_targets(sampler, name):
    target = FLAT_TARGETS[name]
    estimate = flat_estimate(sampler, name)
    assert_agrees(estimate, target.exact)
    assert np.all(estimate.error < 0.02 * np.abs(target.exact))


@pytest.mark.extended
@pytest.mark.short_cases("double well")
@pytest.mark.parametrize("target", FLAT_TARGETS)
@pytest.mark.parametrize("name", FLAT_SAMPLERS)
def test_flat_samplers_have_the_moments(name, target):
    make, _, h = FLAT_SAMPLERS[name]
    n_chains = 300 if "SGR" in name else 600
    estimate = flat_estimate(make(h, FLAT_TARGETS[target]), target, n_chains=n_chains)
    assert_agrees(estimate, FLAT_TARGETS[target].exact, stated_bias(name, target, h))


# --- gradient noise on the line --------------------------------------------------------------------------

# (sampler, variance of the noise, what the bias may be): uncompensated, the temperature would be 1 + h V / 2 C or more.
COMPENSATED = {
    "SGLD": (SGLD(0.01), 100.0, 0.02),
    "SGHMC euler": (SGHMC(0.01, scheme="euler"), 100.0, 0.03),
    "SGHMC baoab": (SGHMC(0.02), 50.0, 0.02),
    "SGRHMC euler": (SGRHMC(0.01, potential_metric(FLAT_TARGETS["double well"]), scheme="euler"), 100.0, 0.03),
    "SGRHMC baoab": (SGRHMC(0.02, potential_metric(FLAT_TARGETS["double well"])), 50.0, 0.02),
    "SGRHMC matrix": (SGRHMC(0.02, potential_metric(FLAT_TARGETS["double well"], "matrix")), 50.0, 0.02),
    "SGGMC aboba": (SGGMC(0.02, n_steps=1, scheme="aboba"), 50.0, 0.01),
    "SGGMC ou": (SGGMC(0.02, n_steps=1), 50.0, 0.01),
    "SGGMC baoab": (SGGMC(0.02, n_steps=1, scheme="baoab"), 50.0, 0.02),
}


@pytest.mark.extended
@pytest.mark.short_cases("SGLD", "SGHMC euler", "SGRHMC baoab", "SGGMC ou")
@pytest.mark.parametrize("name", COMPENSATED)
def test_declared_gradient_noise_is_compensated(name):
    sampler, variance, bias = COMPENSATED[name]
    target = FLAT_TARGETS["double well"]
    noisy = Noisy(target.density, variance)
    estimate = flat_estimate(sampler, "double well", density=noisy, n_chains=400, time=15)
    assert_agrees(estimate, target.exact, bias * target.exact)
    sampler = sampler.set_params(noise_covariance=None) if "noise_covariance" in sampler.get_params() else sampler
    too_hot = flat_estimate(sampler, "double well", density=noisy, n_chains=400, time=15)
    assert_disagrees(too_hot, target.exact, bias * target.exact)


@pytest.mark.extended
@pytest.mark.every(2)
@pytest.mark.parametrize(
    "sampler",
    [
        SGNHT(0.005, scheme="euler"),
        SGNHT(0.02),
        GSGNHT(0.02, n_steps=1, scheme="aboba"),
        GSGNHT(0.02, n_steps=1),
        GSGNHT(0.02, n_steps=1, scheme="baoab"),
    ],
    ids=repr,
)
def test_thermostats_find_the_noise(sampler):
    target = FLAT_TARGETS["double well"]
    noisy = Noisy(target.density, 50.0)
    estimate = flat_estimate(sampler, "double well", density=noisy, time=45)
    assert_agrees(estimate, target.exact, 0.02 * target.exact)
    frictions = expectations(
        sampler, noisy, lambda state: state.thermostat, 800, burn_in=800, n_chains=300, position=target.start
    )
    assert_agrees(frictions, 1 + sampler.step_size * 50.0 / 2, bias=0.03)


def test_noisy_gradients_without_friction_heat_up():
    target = FLAT_TARGETS["double well"]
    noisy = Noisy(target.density, 25.0)
    naive = SGHMC(0.02, friction=1e-9, noise_covariance=None)
    assert_agrees(flat_estimate(SGHMC(0.02), "double well", density=noisy), target.exact, 0.02 * target.exact)
    assert_disagrees(flat_estimate(naive, "double well", density=noisy), target.exact, 0.02 * target.exact)


# --- how the bias falls ----------------------------------------------------------------------------------

# (sampler, larger step size, moment): biases at that step size and at half of it.
FALLING = {
    "SGLD": (0.04, 2),
    "SGHMC euler": (0.04, 2),
    "SGNHT euler": (0.04, 3),
    "SGGMC aboba": (0.24, 1),
    "SGGMC ou": (0.24, 1),
    "GSGNHT aboba": (0.24, 1),
    "GSGNHT ou": (0.24, 1),
}


@pytest.mark.short_cases("SGLD", "SGGMC ou", "GSGNHT ou")
@pytest.mark.parametrize("name", FALLING)
def test_bias_falls_at_the_order_of_the_scheme(name):
    h, moment = FALLING[name]
    make, order, _ = FLAT_SAMPLERS[name]
    target = FLAT_TARGETS["double well"]
    biases, errors = [], []
    for size in (h, h / 2):
        estimate = flat_estimate(make(size, target), "double well", n_chains=1500, time=30)
        biases.append(np.abs(estimate.mean - target.exact)[moment])
        errors.append(estimate.error[moment])
    assert biases[0] > 4 * errors[0]
    assert biases[1] < 1.25 * 2.0**-order * biases[0] + 3 * errors[1]


def test_only_splittings_survive_a_large_step_on_the_banana():
    target = FLAT_TARGETS["banana"]
    estimate = flat_estimate(SGHMC(0.1), "banana", time=60)
    assert_agrees(estimate, target.exact, 0.03 * np.abs(target.exact))
    euler = [SGLD(0.1), SGHMC(0.1, scheme="euler"), SGRHMC(0.1, potential_metric(target), scheme="euler")]
    for sampler in euler:
        with np.errstate(all="ignore"), pytest.raises(NonFiniteError):
            flat_estimate(sampler, "banana", time=60)


@pytest.mark.short_cases("baoab")
@pytest.mark.parametrize("sampler", [SGNHT(0.05), SGNHT(0.01, scheme="euler")], ids=["baoab", "euler"])
def test_thermostat_has_the_law_and_not_only_its_moments(sampler):
    target = FLAT_TARGETS["double well"]
    noisy = Noisy(target.density, 0.25)
    edges = np.linspace(-1.8, 1.8, 81)
    counts = np.zeros(80)
    steps = round(100 / sampler.step_size)
    for n, state in enumerate(walk(sampler, noisy, steps, n_chains=1000, position=draw("double well", 1000))):
        if n % (steps // 200) == 0:
            counts += np.histogram(state.position, edges)[0]
    grid = np.linspace(-1.8, 1.8, 80 * 50 + 1)
    mass = np.exp(grid**2 * (2 - grid**2))
    p = np.add.reduceat(mass[:-1] + mass[1:], np.arange(0, 4000, 50))
    p /= p.sum()
    assert np.sum(p * np.log(p * counts.sum() / counts)) < 0.002


def test_proposals_that_are_all_accepted_spoil_the_law(monkeypatch):
    target = FLAT_TARGETS["double well"]
    sampler = HMC(0.25, 5)
    assert_agrees(flat_estimate(sampler, "double well", time=60), target.exact)
    monkeypatch.setattr("skmanifold.samplers._density.moves.accept", accept_all)
    assert_disagrees(flat_estimate(sampler, "double well", time=60), target.exact)


@pytest.mark.short_cases("SGRHMC baoab")
@pytest.mark.parametrize(
    "make",
    [
        lambda divergence: SGRLD(0.01, hill, divergence),
        lambda divergence: SGRHMC(0.01, hill, divergence, scheme="euler"),
        lambda divergence: SGRHMC(0.05, hill, divergence),
    ],
    ids=["SGRLD", "SGRHMC euler", "SGRHMC baoab"],
)
def test_metric_without_its_correction_spoils_the_law(make):
    target = FLAT_TARGETS["double well"]
    assert_agrees(flat_estimate(make(None), "double well"), target.exact, 0.03 * target.exact)
    assert_disagrees(flat_estimate(make(np.zeros_like), "double well"), target.exact, 0.03 * target.exact)


@pytest.mark.long
def test_metric_that_vanishes_within_the_line_spoils_the_law():
    # the constant that is printed: the root of U + 1/2 is zero at four points, which no path crosses
    target = FLAT_TARGETS["double well"]
    printed = SGRHMC(0.005, lambda x: 1.5 * np.sqrt(np.abs(x**4 - 2 * x**2 + 0.5)))
    right = SGRHMC(0.005, potential_metric(target))
    assert_agrees(flat_estimate(right, "double well", time=9, n_chains=200), target.exact, 0.02 * target.exact)
    assert_disagrees(flat_estimate(printed, "double well", time=9, n_chains=200), target.exact, 0.02 * target.exact)


def hill(x):
    return 0.25 + 1.5 * np.exp(-(x**2))


# --- the circle ------------------------------------------------------------------------------------------

MU = np.array([np.cos(np.pi / 3), np.sin(np.pi / 3)])
NOISE = 1000.0
SETTINGS = {"step_size": 0.01, "friction": 10.0, "n_steps": 30}
SQUARES = np.array([0.8213233726, 1.0])  # E (mu'x)^2, and the temperature <v^2>
# The splitting "baoab" is kicked by all of the noise before it flows: hotter by h^2 V = 0.1 during half of its time.
CIRCLE_BIAS = {"ou": 0.003, "aboba": 0.004, "baoab": 0.015}


def circle_squares(sampler, target=None, n_steps=100, n_chains=1024, burn_in=40):
    def squares(state):
        columns = [(state.position @ MU) ** 2, (state.momentum**2).sum(axis=1)]
        if hasattr(state, "thermostat"):
            columns.append(state.thermostat)
        return np.stack(columns, axis=1)

    target = Noisy(circle(), NOISE) if target is None else target
    return expectations(sampler, target, squares, n_steps, burn_in=burn_in, n_chains=n_chains)


@pytest.mark.extended
@pytest.mark.short_cases("ou")
@pytest.mark.parametrize("scheme", CIRCLE_BIAS)
def test_sggmc_on_the_circle_with_noisy_gradients(scheme):
    assert_agrees(circle_squares(SGGMC(**SETTINGS, scheme=scheme)), SQUARES, CIRCLE_BIAS[scheme])


@pytest.mark.extended
@pytest.mark.short_cases("aboba")
@pytest.mark.parametrize("scheme", CIRCLE_BIAS)
def test_sggmc_on_the_circle_with_a_friction_matrix(scheme):
    settings = {**SETTINGS, "friction": np.array([[10.0, 2.0], [2.0, 14.0]])}
    estimate = circle_squares(SGGMC(**settings, scheme=scheme), n_steps=50, n_chains=96)
    assert_agrees(estimate, SQUARES, CIRCLE_BIAS[scheme])


@pytest.mark.extended
@pytest.mark.short_cases("baoab")
@pytest.mark.parametrize("scheme", CIRCLE_BIAS)
def test_uncompensated_noise_heats_the_circle(scheme):
    estimate = circle_squares(SGGMC(**SETTINGS, scheme=scheme, noise_covariance=None), n_steps=60, n_chains=512)
    assert_disagrees(estimate, SQUARES, CIRCLE_BIAS[scheme])
    # temperature 1 + h V / (2 C), less half of h^2 V where the velocity is seen after its friction alone
    assert_agrees(estimate, [0.753, 1.45 if scheme == "baoab" else 1.5], 0.008)


@pytest.mark.extended
def test_one_minibatch_for_a_trajectory_multiplies_its_noise():
    target = OneMinibatchPerTrajectory(Noisy(circle(), NOISE), n_steps=30)
    estimate = circle_squares(SGGMC(**SETTINGS), target, n_steps=60, n_chains=512)
    assert_disagrees(estimate, SQUARES, max(CIRCLE_BIAS.values()))
    assert_agrees(estimate, [0.538, 7.18], [0.01, 0.2])


@pytest.mark.extended
@pytest.mark.short_cases("ou")
@pytest.mark.parametrize("scheme", CIRCLE_BIAS)
def test_gsgnht_on_the_circle_finds_the_friction(scheme):
    # it measures both halves of the flow: in "baoab" their mean is 1, and the state's velocity is that of the cooler
    temperature = 1 - 0.01**2 * NOISE / 2 if scheme == "baoab" else 1
    estimate = thermostat_squares(GSGNHT(**SETTINGS, scheme=scheme))
    assert_agrees(estimate, [SQUARES[0], temperature, 10 + 0.01 * NOISE / 2], [0.004, 0.004, 0.1])


@pytest.mark.long
def test_thermostat_of_the_ambient_dimension_is_twice_too_hot():
    target = Noisy(circle(), NOISE)
    target.manifold = SphereOfAmbientDimension(2)
    estimate = thermostat_squares(GSGNHT(**SETTINGS), target)
    assert_disagrees(estimate, [*SQUARES, 15], [0.015, 0.015, 0.5])
    assert_agrees(Estimate(estimate.mean[:2], estimate.error[:2]), [0.712, 2.0], 0.01)


def thermostat_squares(sampler, target=None):
    return circle_squares(sampler, target, n_steps=200, n_chains=256, burn_in=200)  # it takes time h xi to settle


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("rho", [0.1, 0.5])
@pytest.mark.parametrize("scheme", CIRCLE_BIAS)
def test_temperature_without_a_gradient(scheme, rho):
    still = Density(circle().manifold, grad_log_density=np.zeros_like, vectorized=True)
    sampler = SGGMC(0.05, friction=rho / 0.05, n_steps=1, scheme=scheme)
    estimate = circle_squares(sampler, still, n_steps=400, n_chains=1000)
    temperature = rho / np.sinh(rho) if scheme == "aboba" else 1.0
    assert_agrees(Estimate(estimate.mean[1], estimate.error[1]), temperature)


CIRCLE_BINS = np.array([0.076862, 0.246306, 0.246306, 0.076862, 0.009755, 0.005426])
CIRCLE_BINS = np.concatenate([CIRCLE_BINS, [0.038485, 0.123166, 0.123166, 0.038485, 0.005426, 0.009755]])
CIRCLE_MOMENTS = [-0.1488971895, -0.2578974975, 0.3393383137, 0.2782742035, 0.6606616863, 0.8213233726, 0.3341529327]


def circle_moments(state):
    x, y = state.position.T
    along = state.position @ MU
    moments = np.stack([x, y, x * x, x * y, y * y, along**2, along > 0], axis=1)
    bins = np.floor((np.arctan2(y, x) + np.pi) / (np.pi / 6)).astype(int) % 12
    return np.concatenate([moments, bins[:, None] == np.arange(12)], axis=1)


@pytest.mark.extended
def test_gmc_on_the_circle_finds_both_modes():
    estimate = expectations(GMC(0.3, 4), circle(), circle_moments, 600, burn_in=800, n_chains=512)
    assert_agrees(estimate, [*CIRCLE_MOMENTS, *CIRCLE_BINS], 1e-6)
    assert np.all(estimate.error < 0.02)


# --- the mixture of two directions -----------------------------------------------------------------------

MIXTURE = [0.01040562, 0.08325349, -0.02788619, 0.99480530, 0.95884136, 0.0, 0.0]
MIXTURE_BIAS = [0.001, 0.006, 0.002, 0.0005, 0.003]  # of the squares, their product, the cosines


def mixture_moments(state):
    first, second = np.arctan2(state.position[:, :, 1], state.position[:, :, 0]).T
    columns = [first**2, second**2, first * second, np.cos(first), np.cos(second), np.sin(first), np.sin(second)]
    if hasattr(state, "momentum"):
        columns[5:] = (state.momentum**2).sum(axis=2).T
    return np.stack(columns, axis=1)


def both_towards_e1(n_chains):
    return np.broadcast_to([[1.0, 0.0], [1.0, 0.0]], (n_chains, 2, 2))


@pytest.mark.extended
def test_gmc_on_the_mixture_of_directions():
    position = both_towards_e1(64)
    estimate = expectations(
        GMC(0.05, 8), vmf_mixture_posterior(), mixture_moments, 60, burn_in=20, n_chains=64, position=position
    )
    assert_agrees(estimate, MIXTURE)


def paper_mixture_estimate(sampler, n_steps=100, n_chains=96, spoil=lambda target: target):
    target = spoil(vmf_mixture_posterior().minibatched(10))
    position = both_towards_e1(n_chains)
    return expectations(sampler, target, mixture_moments, n_steps, burn_in=50, n_chains=n_chains, position=position)


EPSILON = np.sqrt(5e-4 / 100)
PAPER_SETTINGS = {"step_size": EPSILON, "friction": 0.1 / EPSILON, "n_steps": 10}
PAPER_MIXTURE = [*MIXTURE[:5], 1, 1]


@pytest.mark.extended
def test_sggmc_on_the_mixture_with_minibatches():
    estimate = paper_mixture_estimate(SGGMC(**PAPER_SETTINGS, noise_covariance="fisher"))
    assert_agrees(estimate, PAPER_MIXTURE, [*MIXTURE_BIAS, 0.01, 0.01])


@pytest.mark.extended
def test_uncompensated_minibatches_heat_the_mixture():
    estimate = paper_mixture_estimate(SGGMC(**PAPER_SETTINGS, noise_covariance=None))
    assert_disagrees(estimate, PAPER_MIXTURE, [*MIXTURE_BIAS, 0.01, 0.01])


@pytest.mark.long
def test_one_minibatch_for_a_trajectory_heats_the_mixture():
    sampler = SGGMC(**PAPER_SETTINGS, noise_covariance="fisher")
    estimate = paper_mixture_estimate(sampler, spoil=lambda target: OneMinibatchPerTrajectory(target, 10))
    assert_disagrees(estimate, PAPER_MIXTURE, [*MIXTURE_BIAS, 0.01, 0.01])
