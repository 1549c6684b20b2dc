"""`sample`: what it returns, refuses, and keeps when something goes wrong; and what draws can tell of themselves."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skmanifold import Draws, sample
from skmanifold.manifolds import Sphere
from skmanifold.models import NoisyGradient, Softmax, circle, dirichlet, gamma, standard_normal
from skmanifold.samplers import GMC, GSGNHT, SCIR, SGGMC, SGHMC, SGLD, SGNHT, SGRLD, BaseSampler, PolynomialDecay


def draw(target=None, sampler=None, **options):
    options = {"n_draws": 20, "burn_in": 5, "n_chains": 3, "random_state": 0, **options}
    return sample(target or standard_normal(2), sampler or SGLD(0.1), **options)


def test_draws_have_chains_first():
    draws = draw()
    assert isinstance(draws, Draws)
    assert draws.position.shape == (3, 20, 2)
    assert (draws.n_chains, draws.n_draws) == (3, 20)
    assert draws.flat().shape == (60, 2)
    assert draws.mean().shape == (2,)
    assert repr(draws) == "Draws(3 chains of 20 draws, 2, by SGLD(step_size=0.1))"


def test_thinning_and_burn_in_leave_steps_out():
    every = draw(n_draws=40, burn_in=0).position
    np.testing.assert_array_equal(draw(n_draws=10, burn_in=10, thin=3).position, every[:, 12:40:3])
    np.testing.assert_array_equal(draw(n_draws=8, thin=2, burn_in=None).position, every[:, 9:24:2])


def test_chains_begin_where_they_are_told():
    start = np.array([[5.0, 0.0], [0.0, 5.0], [-5.0, 0.0]])
    draws = draw(sampler=SGLD(1e-8), position=start, burn_in=0)
    np.testing.assert_allclose(draws.position[:, 0], start, atol=1e-2)
    assert start[0, 0] == 5.0
    together = draw(sampler=SGLD(1e-8), position=start[0], burn_in=0)
    np.testing.assert_allclose(together.position[:, 0], np.tile(start[0], (3, 1)), atol=1e-2)


def test_the_sampler_given_is_not_touched():
    sampler = SGLD(0.1)
    before = sampler.get_params()
    draws = draw(sampler=sampler)
    assert draws.sampler is not sampler
    assert sampler.get_params() == before == clone(sampler).get_params()
    assert vars(sampler).keys() == before.keys()


def test_metropolis_samplers_report_acceptance_and_log_density():
    draws = draw(circle(), GMC(0.1, 5))
    np.testing.assert_allclose(draws.stats["log_density"][1], circle().log_density(draws.position[1]))
    moved = (np.diff(draws.position, axis=1) != 0).any(axis=2)
    np.testing.assert_array_equal(draws.stats["accepted"][:, 1:], moved)


of_slow_chains = pytest.mark.filterwarnings("ignore:The chains have not converged")  # not the subject of the test


@of_slow_chains
def test_momenta_and_thermostats_are_reported():
    assert draw(sampler=SGLD(0.1)).stats == {}
    draws = draw(standard_normal(50), SGNHT(0.1), n_draws=200)
    assert set(draws.stats) == {"temperature", "thermostat"}
    assert draws.stats["temperature"].shape == draws.stats["thermostat"].shape == (3, 200)
    assert draws.stats["temperature"].mean() == pytest.approx(1, abs=0.05)
    assert draws.stats["thermostat"].std() > 0
    overheated = SGGMC(0.01, 10.0, noise_covariance=None)
    with pytest.warns(ConvergenceWarning, match="temperature"):
        hot = draw(NoisyGradient(circle(), 1000.0), overheated, n_draws=300, n_chains=30)
    assert hot.stats["temperature"].mean() == pytest.approx(1.5, abs=0.15)


def test_logarithms_do_not_underflow():
    draws = draw(dirichlet([1e-4, 1e-4, 1.0]), SCIR(), n_draws=50)
    assert (draws.position[..., :2] == 0).any()
    logs = draws.stats["log_position"]
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(np.exp(logs), draws.position)
    np.testing.assert_allclose(np.exp(logs).sum(axis=-1), 1)


def test_draws_map_through_a_chart():
    chart = Softmax(dirichlet([1.0, 2.0, 3.0]))
    on_simplex = draw(chart, SGLD(0.05)).map(chart.point)
    assert on_simplex.position.shape == (3, 20, 3)
    np.testing.assert_allclose(on_simplex.position.sum(axis=-1), 1)


def test_a_function_of_draws_keeps_the_axes_of_chains_and_draws():
    draws = draw(sampler=SGLD(0.3), n_draws=20)
    assert draws.map(lambda x: x[..., 0]).position.shape == (3, 20)
    with pytest.raises(ValueError, match=r"must keep the axes of chains and draws, \(3, 20\), .* write x\[\.\.\., 0\]"):
        draws.map(lambda x: x[0])


def test_diagnostics_are_those_of_arviz():
    array_stats = pytest.importorskip("arviz_stats.base").array_stats
    draws = draw(sampler=SGLD(0.3), n_draws=400)
    for name in ("ess", "rhat", "mcse"):
        expected = getattr(array_stats, name)(draws.position, chain_axis=0, draw_axis=1)
        np.testing.assert_array_equal(getattr(draws, name)(), expected)
        assert getattr(draws, name)().shape == (2,)
    assert (draws.ess(method="mean") != draws.ess()).all()
    assert (draws.rhat() < 1.1).all()


def test_a_chain_that_never_moves_has_no_effective_draws():
    pytest.importorskip("arviz_stats.base")
    position = np.random.default_rng(0).normal(size=(2, 100, 3))
    position[1, :, 2] = 0.5
    ess = Draws(position).ess()
    assert (ess[:2] > 50).all()
    assert np.isnan(ess[2])


def test_draws_pickle():
    draws = draw()
    again = pickle.loads(pickle.dumps(draws))
    np.testing.assert_array_equal(again.position, draws.position)
    assert repr(again) == repr(draws)
    assert not np.array_equal(draw(random_state=None).position, draw(random_state=None).position)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_draws": 0}, ValueError, "n_draws must be an integer of at least 1; got 0"),
        ({"n_draws": 2.5}, ValueError, "n_draws must be an integer of at least 1; got 2.5"),
        ({"thin": True}, ValueError, "thin must be an integer of at least 1; got True"),
        ({"n_chains": -1}, ValueError, "n_chains must be an integer of at least 1; got -1"),
        ({"burn_in": -1}, ValueError, "burn_in must be an integer of at least 0; got -1"),
        ({"batch_size": 5}, ValueError, "batch_size needs a target with n_samples"),
        (
            {"position": np.zeros((3, 3))},
            ValueError,
            r"position must be of shape \(3, 2\), with one row per chain; got \(3, 3\)",
        ),
        ({"sampler": "sgdl"}, ValueError, "Unknown sampler 'sgdl': known names are 'hmc', 'nuts', 'sgld'"),
        ({"sampler": SGLD}, TypeError, "sampler must be an instance or a name, not the class SGLD"),
        ({"sampler": 3}, TypeError, "sampler must be a name or an instance of a sampler; got 3"),
        ({"target": circle(), "sampler": SGGMC(), "position": np.full((3, 2), 0.5)}, ValueError, "length"),
        ({"target": gamma(1.0), "sampler": SGRLD(), "position": -np.ones((3, 1))}, ValueError, "must not be negative"),
        (
            {"sampler": SGLD(PolynomialDecay)},
            TypeError,
            "step_size must be a number or a function that returns one; it returned Poly",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(options, error, message):
    with pytest.raises(error, match=message) as refusal:
        draw(**options)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("target", [lambda x: x, SGLD(), Sphere(3)])
def test_what_is_no_target_is_refused(target):
    with pytest.raises(TypeError, match="target must be a Density, a chart or another target on a manifold; got"):
        sample(target, SGLD())


def test_a_sampler_that_does_not_say_how_to_begin_or_move():
    from skmanifold.samplers import ManifoldSampler

    class Idle(ManifoldSampler):
        pass

    with pytest.raises(TypeError, match="Idle must define _begin"):
        draw(sampler=Idle())
    with pytest.raises(TypeError, match="must define step"):
        BaseSampler().step(None, None)


@of_slow_chains
@pytest.mark.parametrize("n_chains", [1, 4])
def test_noise_that_heats_is_told(n_chains):
    options = {"n_draws": 1000, "burn_in": 100, "n_chains": n_chains, "random_state": 0}
    target = NoisyGradient(standard_normal(2), 4.0)
    message = r"^The mean kinetic temperature is [2-4]\.?\d*, not 1: the draws are not .* the target.*\(step_size\)"
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        sample(target, SGHMC(0.5, friction=0.5, noise_covariance=None), **options)
    # Without the compiler other warnings tell of overflow.
    assert [warning.filename for warning in caught if warning.category is ConvergenceWarning] == [__file__]
    for sound in (SGHMC(0.3, friction=1.0), SGHMC(0.02, noise_covariance=None), SGLD(0.1)):
        sample(target, sound, **options)


@of_slow_chains
def test_warnings_of_heat_do_not_come_by_chance():
    for seed in range(20):
        options = {"n_chains": 1 + seed % 3, "random_state": seed}
        sample(standard_normal(1), SGHMC(0.05, friction=0.2), n_draws=100, **options)
        sample(standard_normal(5), SGNHT(0.1), n_draws=100, **options)
        sample(circle(), GSGNHT(0.05), n_draws=20, **options)
        sample(circle(), SGGMC(0.05, n_steps=1), n_draws=200, **options)
