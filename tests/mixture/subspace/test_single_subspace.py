"""The posterior of a single subspace: its updates leave the joint distribution unchanged, and agree with the rows."""

import numpy as np
import pytest
from samplers._evidence import Estimate, assert_agrees, assert_disagrees, summarize
from scipy.special import digamma, expit, logsumexp, polygamma
from scipy.stats import multivariate_normal

from skmanifold import SubspaceMixture
from skmanifold.mixture._memberships import DirichletWeights, Position
from skmanifold.mixture._subspace import model as of_rows
from skmanifold.mixture._subspace.family import SubspaceFamily, Subspaces
from skmanifold.mixture._subspace.frame_kernels import move_directions
from skmanifold.mixture._subspace.model import SingleSubspaceModel, SubspaceModel
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import FrameGibbs
from skmanifold.samplers._base import State
from skmanifold.utils._threads import Workers

from ._subspace_references import all_frames, compiled, in_order

P_DIMENSION = {2: [0.5, 0.5], 3: [0.3, 0.4, 0.3], 4: [0.0, 0.5, 0.3, 0.2]}
LABELS = np.zeros(8, np.int32)
WEIGHTS = DirichletWeights(1.0)


def priors_of(m, **others):
    with np.errstate(divide="ignore"):
        log_dimension = np.log([P_DIMENSION[m]])
    given = {"noise_shape": 3.0, "noise_rate": 2.0, "ratio_shape": 0.35, **others}
    return SubspaceFamily(log_dimension, np.zeros(m), 0.3, shared_noise=True, **given)


def prior_draw(priors, rng):
    m, p = len(priors.location), np.exp(priors.log_dimension[0])
    d = rng.choice(len(p), p=p)
    basis = np.linalg.qr(rng.standard_normal((m, m)))[0].T[:d]
    ratios = rng.beta(priors.ratio_shape, 1.0, d)
    centre = np.sqrt(priors.centre_variance) * rng.standard_normal((1, m))
    noise = rng.gamma(priors.noise_shape, 1.0 / priors.noise_rate, 1)
    return Subspaces.of([basis], [ratios], centre, noise)


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
        position, total = Position(np.ones(1), prior_draw(priors, rng)), 0.0
        state = State(position, subkey(root_key(0), chain), 0, -np.inf, latents=LABELS)
        for _ in range(n_steps):
            rows_now = draw_rows(state.position.parameters, rng)
            model = SingleSubspaceModel(rows_now, believed or priors, WEIGHTS, [LABELS], Workers(1))
            state = sampler.step(model, state)
            total = total + statistics(state.position.parameters)
        rows.append(total / n_steps)
    return summarize(rows), expectations(priors)


@pytest.mark.extended
@compiled
@pytest.mark.parametrize(("m", "n_sweeps"), [(2, 1), (3, 1), (4, 1), (3, 2)])
def test_steps_leave_the_joint_distribution_unchanged(m, n_sweeps):
    assert_agrees(*joint_estimate(m, n_sweeps))


@pytest.mark.extended
@compiled
@pytest.mark.parametrize("wrong", [{"ratio_shape": 0.6}, {"noise_rate": 1.5}, {"noise_shape": 4.0}])
def test_steps_with_wrong_priors_are_seen(wrong):
    assert_disagrees(*joint_estimate(3, believed=priors_of(3, **wrong)))


def table(m=4, n=200, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, m)) * np.linspace(3.0, 0.3, m) @ np.linalg.qr(rng.standard_normal((m, m)))[0] + 2.0


def test_the_log_likelihood_is_that_of_the_rows():
    priors, X = priors_of(4), table()
    model = SingleSubspaceModel(X, priors, WEIGHTS, [np.zeros(len(X), np.int32)], Workers(1))
    subspaces = prior_draw(priors, np.random.default_rng(1))
    labels, level = model.draw_labels(subspaces, subspaces.log_offsets(), np.uint64(0))
    basis, ratios = subspaces.basis(0), subspaces.ratios[0, : subspaces.dims[0]]
    covariance = (np.eye(4) + basis.T @ np.diag(1.0 / ratios - 1.0) @ basis) / subspaces.noise[0]
    assert level == pytest.approx(multivariate_normal(subspaces.centres[0], covariance).logpdf(X).sum(), rel=1e-10)
    assert not labels.any()


@pytest.mark.extended
@compiled
def test_frames_stay_orthonormal_along_a_chain():
    X = table(12)
    fit = SubspaceMixture(1, max_iter=400, burn_in=398, random_state=0).fit(X)
    basis = fit._draws[-1].parameters.basis(0)
    np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-12)


# --- the posterior of the dimension, and the two ways to draw from it -------------------------------------

FEW = np.random.default_rng(0).standard_normal((5, 2)) * [1.3, 1.0]
OF_FEW = SubspaceFamily(np.log([[0.2, 0.8]]), np.zeros(2), 1.0, 1.0, 1.0, 1.0, True)


def log_evidence(values, precision, variance):
    """Of numbers with this precision about a centre from N(0, variance), along the last axis, up to a constant."""
    n = values.shape[-1]
    across = n * precision * variance
    squares = (values**2).sum(axis=-1) - n * values.mean(axis=-1) ** 2 * across / (1.0 + across)
    return 0.5 * (n * np.log(precision) - np.log1p(across) - precision * squares)


def exact_of_a_line(X, priors, n_nodes=40):
    """P(d = 1 | X) in two features, by quadrature over the direction, the noise and the ratio; centres are integrated.

    The ratio's density is constant in its power `ratio_shape`.
    """
    along, across = np.moveaxis(all_frames(2, n_nodes // 4)[0] @ X.T, 1, 0)[:, :, None, None]
    log_noise = np.linspace(-10.0, 6.0, 5 * n_nodes)[:, None]
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    ratios, noise = (0.5 + 0.5 * nodes) ** (1.0 / priors.ratio_shape), np.exp(log_noise)
    logs = log_evidence(across, noise, priors.centre_variance)
    logs = logs + priors.noise_shape * log_noise - priors.noise_rate * noise
    ends = logs + log_evidence(along, noise * ratios, priors.centre_variance) + np.log(0.5 * weights)
    alike = logs + log_evidence(along, noise, priors.centre_variance)
    return expit(logsumexp(ends) - logsumexp(alike) + np.diff(priors.log_dimension[0])[0])


def dimension_estimate(kind, X, priors, n_chains, n_steps):
    """P(d = 0), P(d = 1), ..., the mean log noise precision and its square."""
    sampler, labels, rows = FrameGibbs(), np.zeros(len(X), np.int32), []
    model = kind(X, priors, WEIGHTS, [labels], Workers(1))
    for chain in range(n_chains):
        state, total = sampler.init(model, subkey(root_key(0), chain)), 0.0
        for t in range(20 + n_steps):
            state = sampler.step(model, state)
            if t >= 20:
                subspaces = state.position.parameters
                d, log_noise = subspaces.dims[0], np.log(subspaces.noise[0])
                total = total + np.array([*(d == np.arange(priors.max_dimension + 1)), log_noise, log_noise**2])
        rows.append(total / n_steps)
    return summarize(rows)


def test_the_quadrature_agrees_with_draws_from_the_prior():
    """Densities of the rows given draws of covariance and centre, in the coordinates of the rows."""
    rng, n = np.random.default_rng(1), 40_000
    angles, ratios = np.pi * rng.random(n), rng.beta(OF_FEW.ratio_shape, 1.0, n)
    noise = rng.gamma(OF_FEW.noise_shape, 1.0 / OF_FEW.noise_rate, n)
    gaps = FEW[:, None] - np.sqrt(OF_FEW.centre_variance) * rng.standard_normal((n, 2))
    squares = (gaps**2).sum(axis=(0, 2))
    along = ((gaps[..., 0] * np.cos(angles) + gaps[..., 1] * np.sin(angles)) ** 2).sum(axis=0)
    of_point = np.exp(5.0 * np.log(noise) - 0.5 * noise * squares)
    of_line = np.exp(5.0 * np.log(noise) + 2.5 * np.log(ratios) - 0.5 * noise * (squares - (1.0 - ratios) * along))
    p, exact = np.exp(OF_FEW.log_dimension[0]), exact_of_a_line(FEW, OF_FEW)
    # E[p_1 (1 - P) f_1 - p_0 P f_0] = 0 where P is the posterior probability of a line
    assert_agrees(summarize((1.0 - exact) * p[1] * of_line - exact * p[0] * of_point), 0.0)
    assert_disagrees(summarize((0.97 - exact) * p[1] * of_line - (exact + 0.03) * p[0] * of_point), 0.0)
    assert exact == pytest.approx(exact_of_a_line(FEW, OF_FEW, n_nodes=28), abs=1e-6)


WAYS = pytest.mark.parametrize("kind", [SingleSubspaceModel, SubspaceModel])


@compiled
@WAYS
def test_the_dimension_has_its_exact_posterior(kind):
    mean, error = dimension_estimate(kind, FEW, OF_FEW, n_chains=20, n_steps=100)
    assert error[1] < 0.015
    assert_agrees((mean[1], error[1]), exact_of_a_line(FEW, OF_FEW))


@pytest.mark.extended
@compiled
def test_a_scan_that_begins_with_the_subspace_has_another_posterior(monkeypatch):
    monkeypatch.setattr(of_rows, "move_directions", in_order(move_directions))
    mean, error = dimension_estimate(SingleSubspaceModel, FEW, OF_FEW, n_chains=20, n_steps=100)
    assert_disagrees(Estimate(mean[1], error[1]), exact_of_a_line(FEW, OF_FEW))


@pytest.mark.extended
@compiled
@pytest.mark.parametrize(("a", "p"), [(1.0, 0.5), (0.35, 0.5), (2.0, 0.8)])
@WAYS
def test_the_dimension_has_its_exact_posterior_for_other_priors(kind, a, p):
    priors = OF_FEW._replace(ratio_shape=a, log_dimension=np.log([[1.0 - p, p]]))
    mean, error = dimension_estimate(kind, FEW, priors, n_chains=20, n_steps=300)
    assert error[1] < 0.01
    assert_agrees((mean[1], error[1]), exact_of_a_line(FEW, priors))


@pytest.mark.extended
@compiled
def test_both_ways_have_the_same_posterior_in_five_features(monkeypatch):
    X = np.random.default_rng(3).standard_normal((12, 5)) * [2.0, 1.5, 1.2, 1.0, 1.0]
    priors = SubspaceFamily(np.full((1, 5), -np.log(5.0)), np.zeros(5), 1.0, 1.0, 1.0, 1.0, True)
    general, single = (dimension_estimate(kind, X, priors, 20, 500) for kind in (SubspaceModel, SingleSubspaceModel))
    monkeypatch.setattr(of_rows, "move_directions", in_order(move_directions))
    wrong = dimension_estimate(SingleSubspaceModel, X, priors, 20, 500)
    assert_agrees(Estimate(single.mean - general.mean, np.hypot(single.error, general.error)), 0.0)
    assert_disagrees(Estimate(wrong.mean - general.mean, np.hypot(wrong.error, general.error)), 0.0)


@compiled
def test_the_chain_starts_near_the_posterior():
    trace = SubspaceMixture(1, max_iter=200, random_state=0).fit(table(20, 300)).log_density_trace_[0]
    assert abs(trace[5:25].mean() - trace[100:].mean()) < 4.0 * trace[100:].std()
