"""Second-order samplers on flat spaces: each scheme's law on a normal target, limits, thermostats and metrics."""

import numpy as np
import pytest

from skmanifold.manifolds import Euclidean
from skmanifold.models import Density
from skmanifold.samplers import HMC, SGGMC, SGHMC, SGLD, SGRHMC, SGRLD

from ._evidence import Estimate, assert_agrees, assert_disagrees, chain_keys, expectations, walk
from ._flat_targets import FLAT_TARGETS, Noisy, potential_divergence, potential_metric
from ._linear import I, O, Step, aboba, baoab, euler, normal_target, ou, second_moments

NOISES = {"none": None, "number": 3.0, "diagonal": np.array([4.0, 1.0]), "matrix": np.array([[3.0, 1.0], [1.0, 2.0]])}
METRIC = np.array([[1.5, 0.4], [0.4, 0.6]])
FRICTION = np.array([[2.0, 0.5], [0.5, 1.0]])
SCHEMES = {"euler": euler, "baoab": baoab}


RECURSIONS = [
    *((SGHMC, scheme, step) for scheme, step in SCHEMES.items()),
    *((SGGMC, scheme, step) for scheme, step in {"aboba": aboba, "ou": ou, "baoab": baoab}.items()),
]
by_recursion = pytest.mark.parametrize(
    ("kind", "scheme", "step"), RECURSIONS, ids=[f"{kind.__name__} {scheme}" for kind, scheme, _ in RECURSIONS]
)


def matrix_of(noise):
    return O if noise is None else (lambda v: v * I, np.diag, np.asarray)[np.ndim(noise)](noise)


def root_of(metric):
    values, vectors = np.linalg.eigh(metric)
    return vectors * np.sqrt(values) @ vectors.T


def full_metric(x):
    return np.broadcast_to(METRIC, (len(x), 2, 2))


@pytest.mark.extended
@pytest.mark.covering("kind", "scheme", "friction")
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("friction", [1.5, FRICTION], ids=["number", "matrix"])
@by_recursion
def test_sampler_has_the_law_of_its_linear_recursion(kind, scheme, step, friction, noise):
    sampler, V, C = kind(0.2, friction, n_steps=1, scheme=scheme), matrix_of(NOISES[noise]), matrix_of(friction)
    n_chains = 600 if friction is FRICTION else 2000
    estimate = second_moments(sampler, normal_target(NOISES[noise]), n_chains=n_chains)
    assert_agrees(estimate, step(0.2, C, gradient_noise=V, compensated=V).stationary())
    if noise != "none":
        assert_disagrees(estimate, step(0.2, C, gradient_noise=V).stationary())


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("given", [None, np.array([1.0, 2.0])], ids=["none", "diagonal"])
@by_recursion
def test_sampler_compensates_for_the_covariance_that_it_is_given(kind, scheme, step, given):
    V, sampler = NOISES["matrix"], kind(0.2, 1.5, n_steps=1, scheme=scheme, noise_covariance=given)
    exact = step(0.2, 1.5 * I, gradient_noise=V, compensated=matrix_of(given)).stationary()
    assert_agrees(second_moments(sampler, normal_target(V)), exact)


@by_recursion
def test_a_multiple_of_the_identity_is_a_number(kind, scheme, step):
    *_, one = walk(kind(0.05, 3.0, n_steps=1, scheme=scheme), normal_target(2.0), 50, n_chains=5)
    *_, other = walk(kind(0.05, 3.0 * I, n_steps=1, scheme=scheme), normal_target(2.0), 50, n_chains=5)
    np.testing.assert_allclose(one.position, other.position, rtol=1e-9)


@pytest.mark.parametrize(
    ("friction", "message"),
    [
        (np.eye(3), r"a positive number or of shape \(2, 2\); got \(3, 3\)"),
        ([1.0, 2.0], r"a positive number or of shape \(2, 2\); got \(2,\)"),
        ([[1.0, 0.5], [0.0, 1.0]], "symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "positive definite; its least eigenvalue is -1"),
    ],
    ids=["shape", "vector", "asymmetric", "indefinite"],
)
def test_wrong_friction_matrices_are_refused(friction, message):
    for kind in (SGHMC, SGGMC):
        with pytest.raises(ValueError, match=rf"^friction must be {message}\.$"):
            kind(friction=friction).init(normal_target(1.0), chain_keys(2))


@pytest.mark.extended
@pytest.mark.parametrize(("name", "every"), [("SGHMC", 2), ("SGHMC", 7), ("SGRHMC", 5), ("SGRHMC", 10)])
def test_new_momenta_have_the_law_of_their_linear_recursion(name, every):
    if name == "SGHMC":
        sampler, step = SGHMC(0.2, friction=1.5, resample_every=every), baoab(0.2, 1.5 * I)
    else:
        sampler = SGRHMC(0.2, full_metric, scheme="euler", resample_every=every)
        step = euler(0.2, METRIC, root_of(METRIC))
    new = Step(np.diag([1.0, 1, 0, 0]), np.diag([0.0, 0, 1, 1]))
    cycle = new
    for _ in range(every):
        cycle = cycle.then(step)
    law, laws = cycle.stationary(), []
    for phase in range(every):
        for move in (new, step) if phase == 0 else (step,):
            law = move.matrix @ law @ move.matrix.T + move.noise
        laws.append(law)
    estimate = second_moments(sampler, normal_target(), n_steps=17 * every, n_chains=1000)
    assert_agrees(estimate, np.mean(laws, axis=0))
    assert_disagrees(estimate, step.stationary())


@pytest.mark.parametrize("sampler", [SGHMC, SGRHMC])
def test_new_momenta_at_each_euler_step_are_refused(sampler):
    with pytest.raises(ValueError, match=r"^resample_every must be at least 2 with scheme='euler'"):
        sampler(scheme="euler", resample_every=1).init(normal_target(), chain_keys(2))


def test_momenta_are_drawn_again_after_so_many_steps_of_the_integrator():
    plain, resampling = (SGHMC(0.05, n_steps=2, resample_every=every) for every in (None, 4))
    *_, one = walk(plain, normal_target(), 2, n_chains=5)
    *_, other = walk(resampling, normal_target(), 2, n_chains=5)
    np.testing.assert_array_equal(one.momentum, other.momentum)  # the first four steps
    *_, one = walk(plain, normal_target(), 3, n_chains=5)
    *_, other = walk(resampling, normal_target(), 3, n_chains=5)
    assert (one.momentum != other.momentum).all()


@pytest.mark.extended
@pytest.mark.covering("scheme", "form", "noise")
@pytest.mark.parametrize(("form", "noise"), [("matrix", "none"), ("matrix", "matrix"), ("diagonal", "diagonal")])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_sgrhmc_has_the_law_of_its_linear_recursion(scheme, form, noise):
    metric = METRIC if form == "matrix" else np.diag(np.diag(METRIC))
    given = full_metric if form == "matrix" else lambda x: np.broadcast_to(np.diag(METRIC), x.shape)
    estimate = second_moments(SGRHMC(0.2, given, scheme=scheme), normal_target(NOISES[noise]), 120, 300)
    V = matrix_of(NOISES[noise])
    assert_agrees(estimate, SCHEMES[scheme](0.2, metric, root_of(metric), V, V).stationary())


@pytest.mark.parametrize(
    ("flat", "riemannian"),
    [(SGLD(0.01), SGRLD(0.01, np.ones_like))]
    + [(SGHMC(0.02, scheme=scheme), SGRHMC(0.02, np.ones_like, scheme=scheme)) for scheme in SCHEMES],
    ids=["SGRLD", *SCHEMES],
)
def test_identity_metric_is_no_metric(flat, riemannian):
    target = FLAT_TARGETS["banana"].density
    target = target if isinstance(flat, SGLD) else Noisy(target, 2.0)
    *_, one = walk(flat, target, 200, n_chains=5)
    *_, other = walk(riemannian, target, 200, n_chains=5)
    np.testing.assert_allclose(one.position, other.position, rtol=1e-9)


@pytest.mark.parametrize(("kind", "h"), [(SGRLD, 0.002), (SGRHMC, 0.01)])
def test_forms_of_a_metric_and_of_its_divergence_move_alike(kind, h):
    target = FLAT_TARGETS["banana"]
    divergence, metric = potential_divergence(target), potential_metric(target)

    def root_divergence(x):
        return divergence(x) / (2 * np.sqrt(metric(x)))

    given = divergence if kind is SGRLD else root_divergence  # SGRHMC needs that of the root of the metric
    ends = []
    for form, of_form in (("diagonal", None), ("matrix", None), ("diagonal", given), ("matrix", given)):
        sampler = kind(h, potential_metric(target, form), of_form)
        *_, state = walk(sampler, target.density, 100, n_chains=5, position=target.start)
        ends.append(state.position.copy())
    for end in ends[1:]:
        np.testing.assert_allclose(end, ends[0], rtol=1e-6)


def _scale(rows, x):
    return np.broadcast_to(1 + 0.5 * (2 * rows[:, :1] - 1), x.shape)


def pair_of_samples():
    """The standard normal law as two samples with opposite gradients, in minibatches of one.

    Returns the target, a metric of rows that grows with one of them, and that of the rows that the gradient last saw.
    """
    last = {}

    def gradient(x, rows):
        last["rows"] = rows
        return (-x[:, None, :] + 2.0 * (2 * rows[:, :, None] - 1)) / 2

    target = Density(Euclidean(1), gradient, n_samples=2, vectorized=True).minibatched(1)
    return target, lambda x, rows: _scale(rows, x), lambda x: _scale(last["rows"], x)


def no_divergence(x, rows=None):
    return np.zeros_like(x)


def mean_position(sampler, target):
    """The mean is 0, and 1 where metric and gradient rise together."""
    return expectations(
        sampler, target, lambda state: state.position[:, 0], 1000, burn_in=300, n_chains=500, position=np.zeros(1)
    )


@pytest.mark.extended
@pytest.mark.parametrize(
    ("kind", "options", "bias"),
    [(SGRLD, {}, 1e-3), (SGRHMC, {"scheme": "euler"}, 0.01), (SGRHMC, {"scheme": "baoab"}, 0.01)],
)
def test_a_metric_needs_a_minibatch_of_its_own(kind, options, bias):
    target, metric, of_gradient = pair_of_samples()
    own = kind(0.05, metric, no_divergence, metric_batch_size=1, **options)
    assert_agrees(mean_position(own, target), 0.0, bias)
    biased = mean_position(kind(0.05, of_gradient, no_divergence, **options), target)
    assert_disagrees(biased, 0.0, bias)
    if kind is SGRLD:
        assert_agrees(biased, 1.0, bias)


def test_baoab_has_no_bias_on_a_normal_target():
    exact = np.linalg.inv([[2.0, 0.6], [0.6, 1.0]])
    np.testing.assert_allclose(baoab(0.5).stationary()[:2, :2], exact, rtol=1e-12)
    mean, error = second_moments(SGHMC(0.5), normal_target())
    assert_agrees(Estimate(mean[:2, :2], error[:2, :2]), exact)
    mean, error = second_moments(SGHMC(0.2, scheme="euler"), normal_target())
    assert_disagrees(Estimate(mean[:2, :2], error[:2, :2]), exact)


def test_leapfrog_steps_are_accepted_to_second_order_in_the_step():
    target = FLAT_TARGETS["double well"]

    def rejected(h):
        moved = lambda state: state.accepted  # noqa: E731
        sampler = HMC(h, round(0.6 / h))
        return 1 - expectations(sampler, target.density, moved, 200, burn_in=50, position=target.start).mean

    rates = [rejected(h) for h in (0.2, 0.1, 0.05)]
    assert 3 < rates[0] / rates[1] < 5.5  # E |Delta H| is of order h^2
    assert 3 < rates[1] / rates[2] < 5.5


def test_hmc_reports_the_log_density_of_its_position():
    target = FLAT_TARGETS["banana"].density
    for state in walk(HMC(0.2, 5), target, 20, n_chains=50):
        np.testing.assert_allclose(state.log_density, target.log_density(state.position), rtol=1e-12)
