"""Samplers of grades of membership and Gaussian topics as wholes: stationary laws, and the joint law of all there is.

Wrong variants go through the same checks, and fail.
"""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy import stats
from scipy.special import digamma

from skmanifold.admixture._exponential_family.model import FamilyTokenModel
from skmanifold.emissions._bernoulli import BernoulliFamily
from skmanifold.emissions._gaussian.diagonal import DiagonalFamily
from skmanifold.emissions._gaussian.full import FullFamily
from skmanifold.emissions._gaussian.hyperparameters import NormalPrior
from skmanifold.samplers import ESCA, Gibbs
from skmanifold.samplers._base import State
from skmanifold.sparse.counts import Counts
from skmanifold.utils._threads import Workers

from ..lda._lda_arrays import csr_order
from ..lda._tiny_posterior import summarize_batches
from . import _family_tiny as tiny

KEY = np.uint64(19830401)
N_COPIES = 150

# Grades of membership that can be enumerated


def run(sampler, family=BernoulliFamily, n_steps=250):
    """Statistics of the copies' states after each step, and of the parameters that the sampler holds."""
    model = tiny.copied_model(np.tile(tiny.VALUE, (N_COPIES, 1)), family=family)
    by_layout = isinstance(sampler, ESCA)
    order = csr_order(model.layout) if by_layout else None
    state, series = sampler.init(model, KEY), []
    for n in range(50 + n_steps):
        state = sampler.step(model, state)
        if n >= 50:
            topics = state.latents.token_topics[order] if by_layout else state.latents
            series.append(tiny.statistics(topics.reshape(N_COPIES, 6).astype(int), tiny.of_copies(state.position)))
    return summarize_batches(series, 5)


def test_what_is_written_out_is_consistent():
    transition = tiny.esca_transition()
    np.testing.assert_allclose(transition.sum(axis=1), 1)
    law = tiny.stationary(transition)
    np.testing.assert_allclose(law @ transition, law, rtol=0, atol=1e-12)
    assert np.abs(law - tiny.posterior()).sum() / 2 > 0.05  # the automaton is no posterior sampler


@pytest.mark.extended
def test_esca_has_the_stationary_law_of_the_automaton():
    estimate = run(ESCA())
    assert estimate.error.max() < 0.02
    assert_agrees(estimate, tiny.expected(tiny.stationary(tiny.esca_transition())))
    assert_disagrees(estimate, tiny.expected(tiny.posterior()))


@pytest.mark.extended
def test_gibbs_draws_from_the_posterior():
    estimate = run(Gibbs())
    assert estimate.error.max() < 0.02
    assert_agrees(estimate, tiny.expected(tiny.posterior()))


@pytest.mark.extended
def test_a_wrong_gibbs_sampler_is_found_out():
    assert_disagrees(run(Gibbs(), tiny.HalvesThePrior), tiny.expected(tiny.posterior()))


# Parameters, components and data together (Geweke): a step of Gibbs, then the data drawn anew


def membership_statistics(p, topics, values):
    """Of p (R, 2, 3), and of cells' components and values (R, 6)."""
    own = p[np.arange(len(p))[:, None], topics, tiny.ITEM]
    same = [(topics[:, i] == topics[:, j]) for i, j in ((0, 1), (0, 4), (3, 5))]
    alike = (topics[:, 0] == topics[:, 3]) & (values[:, 0] == values[:, 3])
    events = np.stack([*same, alike, topics[:, 2] == 0], axis=1)
    parts = [p.reshape(-1, 6), p.reshape(-1, 6) ** 2, own, values, own * values, events]
    return np.concatenate(parts, axis=1, dtype=float)


def membership_estimate(family, n_steps=300):
    rng, sampler = np.random.default_rng(5), Gibbs()
    ones, zeros = np.tile(tiny.ONES, (N_COPIES, 2, 1)), np.tile(tiny.ZEROS, (N_COPIES, 2, 1))
    p = rng.beta(ones, zeros)
    theta = rng.dirichlet(tiny.ALPHA, (N_COPIES, 2))
    topics = (rng.random((N_COPIES, 6)) > theta[:, tiny.ROW, 0]).astype(int)
    position, series = None, []
    for n in range(n_steps):
        own = p[np.arange(N_COPIES)[:, None], topics, tiny.ITEM]
        values = (rng.random(own.shape) < own).astype(int)
        series.append(membership_statistics(p, topics, values))
        model = tiny.copied_model(values, family=family)
        if position is None:
            position = model.family.parameters_of({"components_": np.moveaxis(p, 1, 0).reshape(2, -1)})
        state = sampler.step(model, State(position, KEY, n, latents=topics.astype(np.uint16).ravel()))
        position, topics = state.position, state.latents.reshape(N_COPIES, 6).astype(int)
        p = tiny.of_copies(position)
    return summarize_batches(series, 10)


def membership_moments():
    ones, zeros, alpha = tiny.ONES, tiny.ZEROS, tiny.ALPHA
    total, a = ones + zeros, alpha.sum()
    mean = ones / total
    second = mean * (ones + 1) / (total + 1)
    within, across = (alpha * (alpha + 1)).sum() / (a * (a + 1)), ((alpha / a) ** 2).sum()
    alike = across * (second[0] + 1 - 2 * mean[0] + second[0])
    means = np.tile(mean, 2)
    events = [within, across, within, alike, alpha[0] / a]
    return np.concatenate([means, np.tile(second, 2), means, means, np.tile(second, 2), events])


@pytest.mark.extended
def test_gibbs_leaves_the_joint_law_of_grades_of_membership_alone():
    assert_agrees(membership_estimate(BernoulliFamily), membership_moments())


def test_the_joint_law_finds_a_wrong_prior():
    assert_disagrees(membership_estimate(tiny.HalvesThePrior, 150), membership_moments())


D, DEGREES, MEAN, MEAN_PRECISION = 2, 12.0, np.array([0.5, -1.0]), 0.8
SCATTER = 9.0 * np.array([[1.0, 0.4], [0.4, 0.7]])
TOKEN_ROW = np.array([0, 0, 0, 0, 1, 1, 1])
GAUSSIAN_ALPHA = np.array([0.7, 1.1])


class KeepsMeans(FullFamily):
    """Draws no means."""

    def draw(self, statistics, key):
        drawn, (sizes, sums, _) = super().draw(statistics, key), statistics
        of_prior = self.prior.mean_precision * (self.prior.mean - self.origin)
        return drawn._replace(means=self.origin + (of_prior + sums) / (self.prior.mean_precision + sizes)[:, None])


class TakesNoPriorMean(DiagonalFamily):
    """Forgets where the means are expected."""

    def draw(self, statistics, key):
        drawn, (sizes, _, _, missing) = super().draw(statistics, key), statistics
        precisions = self.prior.mean_precision + sizes[:, None] - missing
        return drawn._replace(
            means=drawn.means - self.prior.mean_precision * (self.prior.mean - self.origin) / precisions
        )


def gaussian_family(kind):
    if issubclass(kind, FullFamily):
        return kind(NormalPrior(MEAN, MEAN_PRECISION, SCATTER, DEGREES), 2, np.array([0.2, 0.3]))
    prior = NormalPrior(MEAN, MEAN_PRECISION, np.diag(SCATTER).copy(), DEGREES)
    return kind(prior, 2, np.array([0.2, 0.3]))


def covariances_of(parameters):
    full = parameters.covariances.ndim == 3
    return parameters.covariances if full else np.array([np.diag(v) for v in parameters.covariances])


def gaussian_statistics(means, covariances, topics, vectors):
    second = means[..., :, None] * means[..., None, :]
    own = means[topics]
    same = topics[0] == topics[1], topics[0] == topics[4], topics[0] == 0
    parts = [means, second, covariances, np.log(np.linalg.det(covariances)), vectors, vectors * own, vectors**2, same]
    return np.concatenate([np.ravel(part) for part in parts], dtype=float)


def gaussian_estimate(kind, n_steps=1000, n_chains=2):
    sampler, summaries = Gibbs(), []
    counts = Counts(np.array([0, 4, 7]), np.arange(7, dtype=np.int32), np.ones(7, np.int32), 7)
    for chain in range(n_chains):
        rng = np.random.default_rng(chain)
        means, covariances, topics = prior_draw(kind, rng)
        full = issubclass(kind, FullFamily)
        position, series = None, []
        for n in range(n_steps):
            roots = np.linalg.cholesky(covariances)
            vectors = means[topics] + np.einsum("nij,nj->ni", roots[topics], rng.standard_normal((7, D)))
            series.append(gaussian_statistics(means, covariances, topics, vectors))
            family = gaussian_family(kind)
            family.word_vectors = vectors
            model = FamilyTokenModel(counts, GAUSSIAN_ALPHA, family, Workers(1))
            if position is None:
                kept = covariances if full else np.array([np.diag(c) for c in covariances])
                position = family.parameters_of({"components_": means, "covariances_": kept})
            state = State(position, KEY + np.uint64(chain), n, latents=topics.astype(np.uint16))
            state = sampler.step(model, state)
            position, topics = state.position, state.latents.astype(int)
            means, covariances = position.means, covariances_of(position)
        summaries.append(np.array(series).reshape(10, -1, len(series[0])).mean(axis=1))
    return summarize(np.concatenate(summaries))


def prior_draw(kind, rng):
    if issubclass(kind, FullFamily):
        covariances = stats.invwishart(DEGREES, SCATTER).rvs(2, rng)
    else:
        variances = stats.invgamma(DEGREES / 2, scale=np.diag(SCATTER) / 2).rvs((2, D), rng)
        covariances = np.array([np.diag(v) for v in variances])
    roots = np.linalg.cholesky(covariances / MEAN_PRECISION)
    means = MEAN + np.einsum("kij,kj->ki", roots, rng.standard_normal((2, D)))
    theta = rng.dirichlet(GAUSSIAN_ALPHA, 2)
    return means, covariances, (rng.random(7) > theta[TOKEN_ROW, 0]).astype(int)


def gaussian_moments(kind):
    variances = np.diag(SCATTER)
    if issubclass(kind, FullFamily):
        covariance = SCATTER / (DEGREES - D - 1)
        log_det = np.log(np.linalg.det(SCATTER / 2)) - digamma((DEGREES - np.arange(D)) / 2).sum()
    else:
        covariance = np.diag(variances) / (DEGREES - 2)
        log_det = (np.log(variances / 2) - digamma(DEGREES / 2)).sum()
    second = np.outer(MEAN, MEAN) + covariance / MEAN_PRECISION
    a, total = GAUSSIAN_ALPHA, GAUSSIAN_ALPHA.sum()
    squares = np.diag(second)
    events = [(a * (a + 1)).sum() / (total * (total + 1)), ((a / total) ** 2).sum(), a[0] / total]
    of_components = [MEAN] * 2 + [second] * 2 + [covariance] * 2 + [log_det] * 2
    of_vectors = [np.tile(of_each, 7) for of_each in (MEAN, squares, squares + np.diag(covariance))]
    return np.concatenate([np.ravel(part) for part in (*of_components, *of_vectors, events)])


@pytest.mark.extended
@pytest.mark.parametrize("kind", [FullFamily, DiagonalFamily])
def test_gibbs_leaves_the_joint_law_of_gaussian_topics_alone(kind):
    assert_agrees(gaussian_estimate(kind), gaussian_moments(kind))


@pytest.mark.extended
@pytest.mark.parametrize(("kind", "right"), [(KeepsMeans, FullFamily), (TakesNoPriorMean, DiagonalFamily)])
def test_the_joint_law_finds_wrong_draws_of_gaussian_topics(kind, right):
    assert_disagrees(gaussian_estimate(kind, 600, 1), gaussian_moments(right))
