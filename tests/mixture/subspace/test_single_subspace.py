"""The posterior of a single subspace. Its joint distribution with the rows is in `test_subspace_laws`."""

import numpy as np
import pytest
from samplers._evidence import Estimate, assert_agrees, assert_disagrees, summarize
from scipy.special import expit, logsumexp

from skmanifold import SubspaceMixture
from skmanifold.mixture._subspace import model as of_rows
from skmanifold.mixture._subspace.family import SubspaceFamily
from skmanifold.mixture._subspace.frame_kernels import move_directions
from skmanifold.mixture._subspace.model import SingleSubspaceModel, SubspaceModel
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import FrameGibbs
from skmanifold.utils._threads import Workers

from ._subspace_references import all_frames, compiled, in_order
from .test_subspace_laws import WEIGHTS, draw_position, priors_of


@compiled
def test_the_log_likelihood_is_that_of_the_general_model():
    X, priors = table(), priors_of(4, True, K=1)
    subspaces = draw_position(priors, np.random.default_rng(1)).parameters
    models = [kind(X, priors, WEIGHTS, [], Workers(1)) for kind in (SingleSubspaceModel, SubspaceModel)]
    of_single, of_general = (model.draw_labels(subspaces, subspaces.log_offsets(), np.uint64(0)) for model in models)
    assert of_single[1] == pytest.approx(of_general[1], rel=1e-10)
    assert not of_single[0].any()


def table(m=4, n=200, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, m)) * np.linspace(3.0, 0.3, m) @ np.linalg.qr(rng.standard_normal((m, m)))[0] + 2.0


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


@compiled
def test_the_chain_starts_near_the_posterior():
    trace = SubspaceMixture(1, max_iter=200, random_state=0).fit(table(20, 300)).log_density_trace_[0]
    assert abs(trace[5:25].mean() - trace[100:].mean()) < 4.0 * trace[100:].std()
