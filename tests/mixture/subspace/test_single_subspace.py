"""The posterior of a single subspace: its updates leave the joint distribution unchanged, and agree with the rows."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.special import digamma, polygamma
from scipy.stats import multivariate_normal

from skmanifold import SubspaceMixture
from skmanifold.mixture._subspace import fit_strategy
from skmanifold.mixture._subspace._single.kernels import move_subspace
from skmanifold.mixture._subspace._single.model import SingleSubspaceModel
from skmanifold.mixture._subspace.model import SubspaceModel, gather
from skmanifold.mixture._subspace.parameters import Priors
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import FrameGibbs
from skmanifold.samplers._base import State
from skmanifold.utils._threads import Workers

compiled = pytest.mark.skipif(not hasattr(move_subspace, "py_func"), reason="chains of kernels that are compiled")
P_DIMENSION = {2: [0.5, 0.5], 3: [0.3, 0.4, 0.3], 4: [0.0, 0.5, 0.3, 0.2]}
LABELS = np.zeros(8, np.int32)


def priors_of(m, **others):
    with np.errstate(divide="ignore"):
        log_dimension = np.log([P_DIMENSION[m]])
    given = {"noise_shape": 3.0, "noise_rate": 2.0, "ratio_shape": 0.35, "weight": 1.0, **others}
    return Priors(log_dimension, np.zeros(m), 0.3, shared_noise=True, **given)


def prior_draw(priors, rng):
    m, p = len(priors.location), np.exp(priors.log_dimension[0])
    d = rng.choice(len(p), p=p)
    basis = np.linalg.qr(rng.standard_normal((m, m)))[0].T[:d]
    ratios = rng.beta(priors.ratio_shape, 1.0, d)
    centre = np.sqrt(priors.centre_variance) * rng.standard_normal((1, m))
    noise = rng.gamma(priors.noise_shape, 1.0 / priors.noise_rate, 1)
    return gather([basis], [ratios], centre, noise, np.ones(1))


def draw_rows(subspaces, rng):
    rows = rng.standard_normal((len(LABELS), subspaces.centres.shape[1]))
    basis, ratios = subspaces.basis(0), subspaces.ratios[0, : subspaces.dims[0]]
    rows += ((rows @ basis.T) * (1.0 / np.sqrt(ratios) - 1.0)) @ basis
    return subspaces.centres + rows / np.sqrt(subspaces.noise)


def statistics(subspaces):
    m, d = subspaces.centres.shape[1], subspaces.dims[0]
    basis, ratios, centre = subspaces.basis(0), subspaces.ratios[0, :d], subspaces.centres[0]
    log_noise, across = np.log(subspaces.noise[0]), basis @ centre
    columns = [*(d == np.arange(m)), ratios.sum(), np.log(ratios).sum(), log_noise, log_noise**2, *centre]
    return np.array([*columns, centre @ centre, *np.square(basis).sum(axis=0), across @ across, d * log_noise], float)


def expectations(priors):
    m, a, p = len(priors.location), priors.ratio_shape, np.exp(priors.log_dimension[0])
    log_noise, d = digamma(priors.noise_shape) - np.log(priors.noise_rate), p @ np.arange(len(p))
    columns = [*p, d * a / (a + 1.0), -d / a, log_noise, log_noise**2 + polygamma(1, priors.noise_shape), *np.zeros(m)]
    variance = priors.centre_variance
    return np.array([*columns, m * variance, *np.full(m, d / m), d * variance, d * log_noise])


def joint_estimate(m, n_sweeps=1, believed=None, n_chains=80, n_steps=25):
    """Of `statistics` along chains that begin at draws of parameters and rows, and what it should be.

    Rows are drawn anew after each step (Geweke, 2004). `believed` are the priors of the sampler, if they are others.
    """
    priors, rows, sampler = priors_of(m), [], FrameGibbs(n_sweeps)
    for chain in range(n_chains):
        rng = np.random.default_rng(chain)
        position, total = prior_draw(priors, rng), 0.0
        state = State(position, subkey(root_key(0), chain), 0, -np.inf, latents=LABELS)
        for _ in range(n_steps):
            rows_now = draw_rows(state.position, rng)
            state = sampler.step(SingleSubspaceModel(rows_now, believed or priors, [LABELS], Workers(1)), state)
            total = total + statistics(state.position)
        rows.append(total / n_steps)
    return summarize(rows), expectations(priors)


@pytest.mark.extended
@compiled
@pytest.mark.parametrize(("m", "n_sweeps"), [(2, 1), (3, 1), (4, 1), (3, 2)])
def test_steps_leave_the_joint_distribution_unchanged(m, n_sweeps):
    assert_agrees(*joint_estimate(m, n_sweeps))


@pytest.mark.extended
@compiled
@pytest.mark.parametrize("wrong", [{"ratio_shape": 0.5}, {"noise_rate": 1.5}, {"noise_shape": 4.0}])
def test_steps_with_wrong_priors_are_seen(wrong):
    assert_disagrees(*joint_estimate(3, believed=priors_of(3, **wrong)))


def table(m=4, n=200, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, m)) * np.linspace(3.0, 0.3, m) @ np.linalg.qr(rng.standard_normal((m, m)))[0] + 2.0


def test_the_log_likelihood_is_that_of_the_rows():
    priors, X = priors_of(4), table()
    model = SingleSubspaceModel(X, priors, [np.zeros(len(X), np.int32)], Workers(1))
    subspaces = prior_draw(priors, np.random.default_rng(1))
    labels, level = model.draw_labels(subspaces, subspaces.log_offsets(), np.uint64(0))
    basis, ratios = subspaces.basis(0), subspaces.ratios[0, : subspaces.dims[0]]
    covariance = (np.eye(4) + basis.T @ np.diag(1.0 / ratios - 1.0) @ basis) / subspaces.noise[0]
    assert level == pytest.approx(multivariate_normal(subspaces.centres[0], covariance).logpdf(X).sum(), rel=1e-10)
    assert not labels.any()


@compiled
def test_frames_stay_orthonormal_along_a_chain():
    X = table(12)
    fit = SubspaceMixture(1, max_iter=400, burn_in=398, random_state=0).fit(X)
    basis = fit._draws[-1].basis(0)
    np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-12)


@pytest.mark.extended
@compiled
def test_the_posterior_is_that_of_the_model_of_several_components(monkeypatch):
    def chain_means():
        drawn = SubspaceMixture(1, max_iter=350, burn_in=100, thin=1, n_chains=8, random_state=0).fit(X).posterior_
        of = drawn["dimensions"][..., 0], np.log(drawn["noise_variance"][..., 0]), drawn["log_likelihood"]
        return np.array([values.mean(axis=1) for values in of])

    X = np.random.default_rng(3).standard_normal((60, 5)) * [2.0, 1.5, 1.2, 1.0, 1.0]
    single = chain_means()
    monkeypatch.setattr(fit_strategy, "SingleSubspaceModel", SubspaceModel)
    general = chain_means()
    error = np.sqrt((single.var(axis=1, ddof=1) + general.var(axis=1, ddof=1)) / 8)
    assert np.all(error > 0.0)
    assert np.all(np.abs(single.mean(axis=1) - general.mean(axis=1)) < 4.0 * error)
    assert not np.array_equal(single, general)


@compiled
def test_the_chain_starts_near_the_posterior():
    trace = SubspaceMixture(1, max_iter=200, random_state=0).fit(table(20, 300)).log_density_trace_[0]
    assert abs(trace[5:25].mean() - trace[100:].mean()) < 4.0 * trace[100:].std()
