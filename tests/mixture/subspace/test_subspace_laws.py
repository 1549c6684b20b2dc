"""Gibbs sampling of mixtures of affine subspaces as a whole: parameters, labels and rows from their joint law.

Chains begin at draws from it, and rows are drawn anew after every step (Geweke, 2004): what a right sampler does leaves
all prior expectations as they were. Wrong variants go through the same checks, and fail.
"""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.special import digamma, polygamma

from skmanifold.distributions._gamma import draw_ratio
from skmanifold.mixture._memberships import DirichletWeights, Position
from skmanifold.mixture._subspace.family import SubspaceFamily, Subspaces
from skmanifold.mixture._subspace.model import Members, SingleSubspaceModel, SubspaceModel
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import FrameGibbs
from skmanifold.samplers._base import State
from skmanifold.utils._threads import Workers

from ._subspace_references import compiled, upper

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys
N_ROWS = {2: 6, 3: 8, 4: 8}
WEIGHTS = DirichletWeights(1.2)
P_DIMENSION = {  # by the number of components and of features
    (2, 2): [[0.4, 0.4, 0.2], [0.2, 0.5, 0.3]],
    (2, 3): [[0.3, 0.3, 0.25, 0.15], [0.1, 0.4, 0.4, 0.1]],
    (1, 2): [[0.5, 0.5, 0.0]],
    (1, 3): [[0.3, 0.4, 0.3, 0.0]],
    (1, 4): [[0.0, 0.5, 0.3, 0.2, 0.0]],
}


def priors_of(m, shared_noise, K=2):
    with np.errstate(divide="ignore"):
        log_dimension = np.log(P_DIMENSION[K, m])
    return SubspaceFamily(log_dimension, np.zeros(m), 0.3, 3.0, 2.0, 0.35, shared_noise)


# --- the joint law ---------------------------------------------------------------------------------------


def draw_position(priors, rng):
    """Parameters from the prior."""
    (K, D), m = priors.log_dimension.shape, len(priors.location)
    dims = [rng.choice(D, p=np.exp(log_p)) for log_p in priors.log_dimension]
    bases = [np.linalg.qr(rng.standard_normal((m, m)))[0].T[:d] for d in dims]
    ratios = [rng.beta(priors.ratio_shape, 1.0, d) for d in dims]
    centres = np.sqrt(priors.centre_variance) * rng.standard_normal((K, m))
    noise = rng.gamma(priors.noise_shape, 1.0 / priors.noise_rate, K)
    if priors.shared_noise:
        noise[:] = noise[0]
    return Position(rng.dirichlet(np.full(K, WEIGHTS.prior)), Subspaces.of(bases, ratios, centres, noise))


def draw_rows(subspaces, labels, rng):
    rows = rng.standard_normal((len(labels), subspaces.centres.shape[1]))
    for i, k in enumerate(labels):
        basis, ratios = subspaces.basis(k), subspaces.ratios[k, : subspaces.dims[k]]
        rows[i] += ((1.0 / np.sqrt(ratios) - 1.0) * (basis @ rows[i])) @ basis
    return subspaces.centres[labels] + rows / np.sqrt(subspaces.noise[labels])[:, None]


def statistics(position, labels):
    """Of dimensions, noise, ratios, centres, projections, weights and labels, and of some pairs of them."""
    weights, subspaces = position
    m, columns = subspaces.centres.shape[1], []
    for k, d in enumerate(subspaces.dims):
        basis, ratios = subspaces.basis(k), subspaces.ratios[k, :d]
        projection, centre = basis.T @ basis, subspaces.centres[k]
        log_noise, weight = np.log(subspaces.noise[k]), weights[k]
        columns += [*(d == np.arange(m + 1)), ratios.sum(), np.log(ratios).sum(), log_noise, log_noise**2]
        columns += [*centre, centre @ centre, *projection[upper(m)], centre @ projection @ centre]
        columns += [weight, weight**2, d * log_noise, d * weight, log_noise * ratios.sum(), np.mean(labels == k)]
    return np.array([*columns, labels[0] == labels[1]], float)


def expectations(priors):
    """Of `statistics`."""
    m, a, b, columns, K = len(priors.location), priors.ratio_shape, WEIGHTS.prior, [], priors.n_components
    log_noise = digamma(priors.noise_shape) - np.log(priors.noise_rate)
    square = (b + 1.0) / (K * (K * b + 1.0))
    for p in np.exp(priors.log_dimension):
        d = p @ np.arange(m + 1)
        of_ratios = d * a / (a + 1.0)
        columns += [*p, of_ratios, -d / a, log_noise, log_noise**2 + polygamma(1, priors.noise_shape)]
        columns += [*np.zeros(m), m * priors.centre_variance, *(np.eye(m) * d / m)[upper(m)]]
        columns += [d * priors.centre_variance, 1 / K, square, d * log_noise, d / K, log_noise * of_ratios, 1 / K]
    return np.array([*columns, K * square])


def joint_draw(priors, rng):
    position = draw_position(priors, rng)
    labels = rng.choice(len(position.weights), N_ROWS[len(priors.location)], p=position.weights).astype(np.int32)
    return position, labels, draw_rows(position.parameters, labels, rng)


def joint_estimate(sampler, m, shared_noise, kind=SubspaceModel, n_chains=60, n_steps=20, K=2):
    """Of `statistics` along chains that begin at draws from the joint law, and what it should be."""
    priors, root, rows = priors_of(m, shared_noise, K), root_key(0), []
    for chain in range(n_chains):
        rng = np.random.default_rng(chain)
        position, labels, X = joint_draw(priors, rng)
        state, total = State(position, subkey(root, chain), 0, -np.inf, latents=labels), 0.0
        for _ in range(n_steps):
            state = sampler.step(kind(X, priors, WEIGHTS, [labels], Workers(1)), state)
            X = draw_rows(state.position.parameters, state.latents, rng)
            total = total + statistics(state.position, state.latents)
        rows.append(total / n_steps)
    return summarize(rows), expectations(priors)


@pytest.mark.extended
def test_draws_from_the_joint_law_have_its_expectations():
    priors, rng = priors_of(3, False), np.random.default_rng(5)
    assert_agrees(summarize([statistics(*joint_draw(priors, rng)[:2]) for _ in range(1000)]), expectations(priors))


CASES = [(2, True), (2, False), (3, True), (3, False)]


@pytest.mark.extended
@pytest.mark.covering
@compiled
@pytest.mark.parametrize(("m", "shared_noise"), CASES)
def test_steps_leave_the_joint_law_alone(m, shared_noise):
    assert_agrees(*joint_estimate(FrameGibbs(), m, shared_noise))


@pytest.mark.extended
@compiled
def test_steps_of_several_sweeps_leave_the_joint_law_alone():
    assert_agrees(*joint_estimate(FrameGibbs(n_sweeps=3), 3, False, n_chains=30))


@pytest.mark.extended
@compiled
@pytest.mark.parametrize(("m", "n_sweeps"), [(2, 1), (3, 1), (4, 1), (3, 2)])
def test_steps_of_a_single_subspace_leave_the_joint_law_alone(m, n_sweeps):
    assert_agrees(*joint_estimate(FrameGibbs(n_sweeps), m, True, SingleSubspaceModel, n_chains=80, K=1))


class RowsForScatters(SubspaceModel):
    """Sums up as where features are many."""

    def _summarise(self, labels, origins):
        return Members(self.X, [np.flatnonzero(labels == k) for k in range(len(origins))])


@compiled
def test_rows_may_stand_for_their_scatters():
    assert_agrees(*joint_estimate(FrameGibbs(), 3, True, RowsForScatters, n_chains=30))
    rng = np.random.default_rng(1)
    X, labels = rng.standard_normal((30, 3)), rng.integers(0, 2, 30).astype(np.int32)
    origins = rng.standard_normal((2, 3))
    ways = [kind(X, priors_of(3, True), WEIGHTS, [labels], Workers(1)) for kind in (SubspaceModel, RowsForScatters)]
    sums = [way._summarise(labels, origins) for way in ways]
    for k in range(2):
        factors = [each.factor(k, origins[k]) for each in sums]
        np.testing.assert_allclose(factors[0].T @ factors[0], factors[1].T @ factors[1], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(sums[0].means[k], sums[1].means[k], atol=1e-12)


# --- wrong variants --------------------------------------------------------------------------------------


class SquaresWithoutRatios(SubspaceModel):
    """Noise is drawn given the rows' squares as if their precision were the noise's along subspaces too."""

    def _move(self, k, summary, *rest):
        basis, ratios, centre, _ = super()._move(k, summary, *rest)
        return basis, ratios, centre, (summary.factor(k, centre) ** 2).sum()


class SquaresAcrossAlone(SubspaceModel):
    """Noise is drawn given the squares across subspaces, with the shape of those along them as well."""

    def _move(self, k, summary, *rest):
        basis, ratios, centre, _ = super()._move(k, summary, *rest)
        Y = summary.factor(k, centre)
        return basis, ratios, centre, ((Y - Y @ basis.T @ basis) ** 2).sum()


class RatiosOfOneRowLess(SubspaceModel):
    def _move(self, k, summary, subspaces, n_sweeps, key):
        basis, ratios, centre, squares = super()._move(k, summary, subspaces, n_sweeps, key)
        along = ((summary.factor(k, centre) @ basis.T) ** 2).sum(axis=0)
        squares -= ratios @ along
        shape = max(self.family.ratio_shape + 0.5 * (summary.counts[k] - 1), 0.1)
        rates = 0.5 * subspaces.noise[k] * along
        ratios = np.array([draw_ratio(subkey(key, j), shape, rate) for j, rate in enumerate(rates)])
        return basis, ratios, centre, squares + ratios @ along


class LabelsWithoutDeterminants(SubspaceModel):
    """Densities of rows lack the ratios' part of the normalising constant."""

    def draw_labels(self, subspaces, offsets, key):
        plain = subspaces._replace(ratios=np.ones_like(subspaces.ratios))
        return super().draw_labels(subspaces, offsets + plain.log_offsets() - subspaces.log_offsets(), key)


class CentresAtTheMean(SubspaceModel):
    """The prior of the centres is left out."""

    def __init__(self, X, priors, *rest):
        super().__init__(X, priors._replace(centre_variance=1e6), *rest)


class WeightsOfRowsAlone(SubspaceModel):
    """The prior of the weights is left out, nearly."""

    def __init__(self, X, priors, weights, *rest):
        super().__init__(X, priors, DirichletWeights(0.1), *rest)


WRONG = [
    (SquaresWithoutRatios, 2, True, 60),
    (SquaresAcrossAlone, 3, False, 30),
    (RatiosOfOneRowLess, 3, True, 30),
    (LabelsWithoutDeterminants, 2, True, 120),
    (CentresAtTheMean, 2, True, 120),
    (WeightsOfRowsAlone, 2, False, 60),
]


@pytest.mark.extended
@pytest.mark.every(3)
@compiled
@pytest.mark.parametrize(("kind", "m", "shared_noise", "n_chains"), WRONG)
def test_wrong_steps_are_seen(kind, m, shared_noise, n_chains):
    assert_disagrees(*joint_estimate(FrameGibbs(), m, shared_noise, kind, n_chains))


@pytest.mark.extended
@compiled
@pytest.mark.parametrize("wrong", [{"ratio_shape": 0.6}, {"noise_rate": 1.5}, {"noise_shape": 4.0}], ids=str)
def test_steps_of_a_single_subspace_with_wrong_priors_are_seen(wrong):
    def kind(X, priors, *rest):
        return SingleSubspaceModel(X, priors._replace(**wrong), *rest)

    assert_disagrees(*joint_estimate(FrameGibbs(), 3, True, kind, n_chains=150, K=1))


# --- bytes, and corners ----------------------------------------------------------------------------------


def many_rows(n=9000, m=4, K=3):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, m)) * [3.0, 1.0, 1.0, 0.5][:m]
    log_dimension = np.tile(-np.log(m), (K, m))
    priors = SubspaceFamily(log_dimension, np.zeros(m), 1.0, 1.0, 1e-3, 1.0, False)
    return X, priors, [rng.integers(0, K, n).astype(np.int32)]


def test_a_factor_has_the_scatter_about_any_centre():
    X, priors, (labels,) = many_rows()
    moments = SubspaceModel(X, priors, WEIGHTS, [labels], Workers(1))._summarise(labels, np.full((3, 4), 5.0))
    for k in range(3):
        gaps = X[labels == k] - 0.3
        factor = moments.factor(k, np.full(4, 0.3))
        np.testing.assert_allclose(factor.T @ factor, gaps.T @ gaps, rtol=1e-9, atol=1e-8)
