"""When stochastic EM stops: what is compared, and that the result is that of a schedule which ends there."""

import numpy as np
import pytest

from skmanifold import ExponentialFamilyMixture, StochasticLDA, distributed
from skmanifold.samplers import ESCA

N_AVERAGE = 10
N_ROWS = 200


def fit(**settings):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N_ROWS, 2)) + 2.0 * rng.integers(3, size=(N_ROWS, 1))
    return ExponentialFamilyMixture(3, **{"random_state": 0, **settings}).fit(X)


def test_two_means_of_seven_passes_are_compared():
    flat, rising = [1.0] * 7 + [2.0] * 7, list(np.arange(30.0))
    assert not ESCA().has_settled(flat, 4)
    assert not ESCA(tol=0.26).has_settled(flat[1:], 4)
    assert ESCA(tol=0.26).has_settled(flat, 4)
    assert not ESCA(tol=0.24).has_settled(flat, 4)
    assert ESCA(tol=0.0).has_settled(flat[::-1], 4)
    assert not ESCA(tol=0.0).has_settled([1.0] * 14, 4)
    assert not ESCA(tol=6.0).has_settled(rising, 1)
    assert ESCA(tol=8.0).has_settled(rising, 1)


@pytest.mark.parametrize("n_chains", [1, 3])
def test_fit_ends_after_the_averaged_passes_that_follow_the_settled_one(n_chains):
    fitted = fit(n_chains=n_chains)
    traces = fitted.log_density_trace_.tolist()
    settled = fitted.n_iter_ - N_AVERAGE
    by_pass = [all(ESCA(tol=1e-3).has_settled(trace[:n], N_ROWS) for trace in traces) for n in range(1, settled + 1)]
    assert by_pass == [False] * (settled - 1) + [True]
    assert fitted.posterior_["weights"].shape == (n_chains, N_AVERAGE // 2, 3)
    assert np.array_equal(fitted.posterior_["log_likelihood"], fitted.log_density_trace_[:, settled + 1 :: 2])
    same = fit(n_chains=n_chains, sampler=ESCA(n_average=N_AVERAGE), max_iter=fitted.n_iter_, burn_in=settled)
    for name in ("components_", "covariances_", "weights_", "labels_", "log_density_trace_"):
        assert np.array_equal(getattr(fitted, name), getattr(same, name))
    with distributed(None):
        in_shards = fit(n_chains=n_chains)
    for other in (fit(n_chains=n_chains, n_jobs=2), in_shards):
        assert np.array_equal(fitted.log_density_trace_, other.log_density_trace_)
        assert np.array_equal(fitted.components_, other.components_)


def test_only_a_tolerance_ends_burn_in():
    assert ExponentialFamilyMixture()._resolve_sampler().tol == 1e-3
    assert fit(sampler=ESCA(), max_iter=70).n_iter_ == fit(sampler="gibbs", max_iter=70).n_iter_ == 70
    assert fit(burn_in=0, max_iter=30).n_iter_ == 30
    assert StochasticLDA()._resolve_sampler().tol is None


def test_a_schedule_that_settles_has_a_draw():
    fitted = fit(sampler=ESCA(tol=1e3, n_average=1), max_iter=100, thin=7)
    assert fitted.n_iter_ == 21
    assert fitted.posterior_["weights"].shape == (1, 1, 3)
