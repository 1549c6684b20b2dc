"""Runs in compiled code: the same bytes as step by step, errors, and what is not compiled."""

import numba
import numpy as np
import pytest

from skmanifold import sample
from skmanifold.manifolds import Euclidean, Sphere, Stiefel
from skmanifold.models import Density
from skmanifold.samplers import GMC, GSGNHT, HMC, SGGMC, SGHMC, SGLD, SGNHT, PolynomialDecay
from skmanifold.samplers._density import compiled_runs

VARIANCES = np.linspace(0.5, 2.0, 4)
PULL = np.array([[3.0, 1.0, 0.5], [1.0, -1.0, 2.0]])


normal_gradient = numba.njit(lambda x: -x / VARIANCES)
normal_density = numba.njit(lambda x: -0.5 * np.sum(x * x / VARIANCES))
pulled_gradient = numba.njit(lambda x: PULL + 0.1 * x)
pulled_density = numba.njit(lambda x: np.sum(PULL * x) + 0.05 * np.sum(x * x))


NORMAL = Density(Euclidean(4), normal_gradient, normal_density)
PULLED = Density(Sphere(3, n_points=2, radius=[1.0, 2.0]), pulled_gradient, pulled_density)
SAMPLERS = {
    "HMC": HMC(0.4, 5),
    "SGLD": SGLD(PolynomialDecay(0.1, 50)),
    "SGHMC": SGHMC(0.3, resample_every=4),
    "SGHMC euler": SGHMC(0.1, n_steps=3, scheme="euler"),
    "SGNHT": SGNHT(0.3, n_steps=2),
    "SGNHT euler": SGNHT(0.1, scheme="euler"),
    "GMC": GMC(0.3, 4),
    **{f"SGGMC {scheme}": SGGMC(0.1, n_steps=4, scheme=scheme) for scheme in ("ou", "aboba", "baoab")},
    **{f"GSGNHT {scheme}": GSGNHT(0.1, n_steps=4, scheme=scheme) for scheme in ("ou", "aboba", "baoab")},
}
CASES = [("normal", name) for name in SAMPLERS] + [("pulled", name) for name in SAMPLERS if name.startswith("G")]
CASES += [("pulled", name) for name in SAMPLERS if name.startswith("SGG")]
TARGETS = {"normal": NORMAL, "pulled": PULLED}


@pytest.fixture
def calls(monkeypatch):
    """The kernels that are called in compiled form."""
    found, call = [], compiled_runs.call_compiled
    monkeypatch.setattr(
        compiled_runs, "call_compiled", lambda kernel, *rest: (found.append(kernel), call(kernel, *rest))[1]
    )
    return found


def assert_same(first, second):
    np.testing.assert_array_equal(first.position, second.position)
    assert first.stats.keys() == second.stats.keys()
    for name, values in first.stats.items():
        np.testing.assert_array_equal(values, second.stats[name], err_msg=name)
        assert values.dtype == second.stats[name].dtype


@pytest.mark.extended
@pytest.mark.short_cases("normal-HMC", "normal-SGHMC", "pulled-SGGMC ou", "pulled-GSGNHT ou")
@pytest.mark.parametrize(("target", "name"), CASES, ids=["-".join(case) for case in CASES])
def test_bytes_are_those_of_single_steps(target, name, calls, monkeypatch):
    settings = {"n_draws": 60, "burn_in": 21, "thin": 3, "n_chains": 3, "random_state": 0}
    target, sampler = TARGETS[target], SAMPLERS[name]
    compiled = sample(target, sampler, **settings)
    assert calls
    calls.clear()
    monkeypatch.setattr(type(sampler), "is_compiled", False)
    assert_same(compiled, sample(target, sampler, **settings))
    assert not calls
    monkeypatch.undo()
    fewer = sample(target, sampler, **settings | {"n_chains": 2, "n_jobs": 2})
    np.testing.assert_array_equal(fewer.position, compiled.position[:2])


@pytest.mark.extended
def test_the_state_goes_on_in_either_form(monkeypatch):
    sampler, keys = HMC(0.4, 5), np.arange(3, dtype=np.uint64)
    states = [sampler.init(NORMAL, keys) for _ in range(2)]
    for _ in range(7):
        states[0] = sampler.step(NORMAL, states[0])
    states[1] = sampler.compiled_run(NORMAL, states[1]).skip(states[1], 5)
    for _ in range(2):
        states[1] = sampler.step(NORMAL, states[1])
    for name in ("position", "log_density", "accepted", "n_steps"):
        np.testing.assert_array_equal(getattr(states[0], name), getattr(states[1], name))


of_all = numba.njit(lambda x: -x / VARIANCES)
densities_of_all = numba.njit(lambda x: -0.5 * (x * x / VARIANCES).sum(axis=1))
slope = numba.njit(lambda x: -x[0])
parabola = numba.njit(lambda x: -0.5 * x * x)


FORMS = {
    "vectorized": (Density(Euclidean(4), of_all, densities_of_all, vectorized=True), NORMAL),
    "numbers": (Density(Euclidean(1), slope, parabola), Density(Euclidean(1), lambda x: -x[0], lambda x: -0.5 * x * x)),
    "32 bits": (
        Density(Euclidean(2), numba.njit(lambda x: -x.astype(np.float32)), numba.njit(lambda x: -(x**2).sum() / 2)),
        Density(Euclidean(2), lambda x: -x.astype(np.float32), lambda x: -(x**2).sum() / 2),
    ),
}


@pytest.mark.extended
@pytest.mark.parametrize("form", FORMS)
def test_functions_may_have_any_form_that_uncompiled_ones_have(form, calls):
    draws = [sample(target, HMC(0.4, 5), n_draws=30, random_state=0) for target in FORMS[form]]
    assert calls
    np.testing.assert_array_equal(draws[0].position, draws[1].position)


@pytest.mark.parametrize(
    "target",
    [
        Density(Euclidean(4), lambda x: -x, normal_density),
        Density(Euclidean(4), normal_gradient, lambda x: 0.0),
        Density(Euclidean(4), normal_gradient, normal_density, noise_covariance=1.0),
        Density(Stiefel(2, 2), normal_gradient),
    ],
    ids=["Python gradient", "Python density", "declared noise", "other manifold"],
)
def test_other_targets_are_run_step_by_step(target, calls):
    sampler = SGGMC(0.1)
    assert sampler.compiled_run(target, sampler.init(target, np.arange(2, dtype=np.uint64))) is None


@pytest.mark.parametrize("kind", [SGHMC, SGGMC])
def test_friction_matrices_are_run_step_by_step(kind, calls):
    sampler, plain = kind(0.1, friction=np.eye(4) + 0.1), Density(Euclidean(4), lambda x: -x / VARIANCES)
    draws = [sample(target, sampler, n_draws=3, random_state=0) for target in (NORMAL, plain)]
    assert not calls
    np.testing.assert_array_equal(draws[0].position, draws[1].position)


def test_changed_samplers_are_run_step_by_step(calls):
    class Still(SGLD):
        def _move(self, model, state, h, t):
            return state

    draws = sample(NORMAL, Still(0.1), n_draws=3, random_state=0)
    assert not calls
    assert (draws.position == draws.position[:, :1]).all()


@numba.njit
def refusing_gradient(x):
    if x[0] > 1.0:
        raise RuntimeError("beyond the data")
    return -x


def test_errors_of_the_functions_are_raised():
    target = Density(Euclidean(2), refusing_gradient)
    with pytest.raises(RuntimeError, match="beyond the data"):
        sample(target, SGLD(0.1), n_draws=400, random_state=0)


short_gradient = numba.njit(lambda x: -x[:2])


def test_a_gradient_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="grad_log_density must return"):
        sample(Density(Euclidean(4), short_gradient), SGLD(0.1), n_draws=4, random_state=0)


@numba.njit
def writing_gradient(x):
    x *= -1.0
    return x


def test_functions_receive_copies():
    own, other = (Density(Euclidean(4), f) for f in (writing_gradient, numba.njit(lambda x: -x)))
    draws = [sample(target, SGLD(0.1), n_draws=20, random_state=0) for target in (own, other)]
    np.testing.assert_array_equal(draws[0].position, draws[1].position)


DATA = np.random.default_rng(0).normal([1.0, 0.0, -1.0], size=(40, 3))


gradients_of_rows = numba.njit(lambda x, rows: DATA[rows] - x)
sum_of_gradients = numba.njit(lambda x, rows: (DATA[rows] - x).sum(axis=0) * (40 / len(rows)))
densities_of_rows = numba.njit(lambda x, rows: -0.5 * ((DATA[rows] - x) ** 2).sum(axis=1))
prior_gradient = numba.njit(lambda x: -x)
prior_density = numba.njit(lambda x: -0.5 * (x * x).sum())


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("batch_size", [None, 8])
@pytest.mark.parametrize("gradient", [gradients_of_rows, sum_of_gradients])
@pytest.mark.parametrize("has_prior", [True, False])
def test_minibatches_are_those_of_single_steps(gradient, batch_size, has_prior, calls, monkeypatch):
    priors = {"grad_log_prior": prior_gradient, "log_prior": prior_density} if has_prior else {}
    target = Density(Euclidean(3), gradient, densities_of_rows, n_samples=40, **priors)
    settings = {"n_draws": 30, "n_chains": 3, "batch_size": batch_size, "random_state": 0}
    compiled = sample(target, SGLD(1e-3), **settings)
    assert calls
    monkeypatch.setattr(SGLD, "is_compiled", False)
    np.testing.assert_allclose(sample(target, SGLD(1e-3), **settings).position, compiled.position, rtol=1e-12)


@pytest.mark.extended
def test_all_rows_are_used_by_samplers_with_a_metropolis_test(calls, monkeypatch):
    target = Density(Euclidean(3), gradients_of_rows, densities_of_rows, n_samples=40)
    settings = {"n_draws": 30, "n_chains": 3, "random_state": 0}
    compiled = sample(target, HMC(0.1, 4), **settings)
    assert calls
    monkeypatch.setattr(HMC, "is_compiled", False)
    np.testing.assert_allclose(sample(target, HMC(0.1, 4), **settings).position, compiled.position, rtol=1e-9)
