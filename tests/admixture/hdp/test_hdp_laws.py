"""Passes of the whole sampler: the exact posterior of a tiny corpus, and the joint distribution of model and data."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize

from skmanifold.admixture._hdp import model as hdp_model
from skmanifold.admixture._hdp.births import draw_weights
from skmanifold.admixture._hdp.model import ConcentrationPriors
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import Gibbs

from . import _tiny_hdp as tiny
from ._prior_draws import BETA, N_WORDS, PRIORS, draw_corpus, make_model, state_of

KEY = root_key(13)
GIVEN = ConcentrationPriors(tiny.ALPHA, tiny.GAMMA, (1.0, 1.0), (1.0, 1.0))


def after_passes(n_runs, n_passes=2, **options):
    """Functions of the partition after some passes that begin with exact draws."""
    rng, sampler = np.random.default_rng(0), Gibbs()
    model = make_model(tiny.TABLE, GIVEN, tiny.BETA, **options)
    found = np.empty((n_runs, tiny.N), np.uint16)
    for run in range(n_runs):
        topics, n_tables = tiny.draw_start(rng)
        counts = np.full((len(n_tables), 3), tiny.BETA)
        np.add.at(counts, (topics.astype(int), tiny.WORDS), 1)
        phi = np.array([rng.dirichlet(shapes) for shapes in counts])
        weights = draw_weights(n_tables, tiny.GAMMA, subkey(KEY, run, 0))
        state = state_of(model, topics, n_tables, phi, weights, tiny.ALPHA, tiny.GAMMA, subkey(KEY, run, 1))
        for _ in range(n_passes):
            state = sampler.step(model, state)
        found[run] = state.latents
    return summarize(tiny.functions(found))


@pytest.mark.extended
def test_passes_leave_the_posterior_unchanged():
    assert_agrees(after_passes(4_000), tiny.exact_functions())


@pytest.mark.extended
def test_truncated_variant_is_found():
    assert_disagrees(after_passes(1_500, max_topics=3), tiny.exact_functions())


def statistics_of(topics, n_tables, phi, weights, alpha, gamma):
    """Functions of a state that do not depend on the numbers of topics."""
    shares = np.bincount(topics) / len(topics)
    used = weights.used
    return [
        *(len(used) == k for k in range(1, 5)),
        len(used),
        np.log(alpha),
        np.log(gamma),
        alpha,
        gamma,
        np.exp(weights.log_unused),
        used @ used,
        used.max(),
        shares @ shares,
        np.sum(n_tables),
        np.sum(shares[:, np.newaxis] * phi**2),
        np.sum(used[:, np.newaxis] * phi**2),
        len(used) * gamma,
        np.log(alpha) * np.sum(n_tables),
    ]


def joint_draws(n_runs, change=None, **options):
    """Differences of functions of the state, between some passes after a draw of model and data and the draw itself."""
    rng, sampler = np.random.default_rng(1), Gibbs()
    differences = []
    for run in range(n_runs):
        corpus = draw_corpus(rng)
        model = make_model(corpus.table, **options)
        state = state_of(model, *corpus[1:], subkey(KEY, run, 2))
        before = statistics_of(*corpus[1:])
        for _ in range(2):
            state = sampler.step(model, state)
        topics, position = state.latents, state.position
        phi = position.topics.toarray(np.float64)
        after = statistics_of(topics, state.statistics.n_tables, phi, position.weights, *position[-2:])
        differences.append(np.subtract(after, before, dtype=float))
    return summarize(np.array(differences))


@pytest.mark.long
def test_joint_distribution():
    estimate = joint_draws(3_000)
    assert_agrees(estimate, np.zeros_like(estimate.mean))


def births_with_other_ratio(factor):
    """The step of births with a wrong weight of new topics."""
    original = hdp_model.sample_with_births

    def changed(documents, rows, topics, n_tokens, table, weights, given, *rest):
        weights = weights._replace(log_unused=weights.log_unused + np.log(factor))
        born = original(documents, rows, topics, n_tokens, table, weights, given, *rest)
        total = np.logaddexp(born.log_unused, np.log(born.used.sum()))
        return born._replace(used=born.used / np.exp(total), log_unused=born.log_unused - total)

    return changed


@pytest.mark.long
def test_births_without_their_ratio_are_found(monkeypatch):
    monkeypatch.setattr(hdp_model, "sample_with_births", births_with_other_ratio(0.5))
    estimate = joint_draws(1_500)
    assert_disagrees(estimate, np.zeros_like(estimate.mean))


@pytest.mark.long
def test_truncation_is_found_in_the_joint_distribution():
    estimate = joint_draws(800, max_topics=3)
    assert_disagrees(estimate, np.zeros_like(estimate.mean))


@pytest.mark.long  # four hundred chains
def test_calibration():
    """Ranks of the true values among draws of the posterior are uniform."""
    rng, sampler, n_draws = np.random.default_rng(2), Gibbs(), 19
    ranks = []
    for run in range(400):
        corpus = draw_corpus(rng, lengths=(12, 9, 9, 6))
        model = make_model(corpus.table)
        state = state_of(model, *corpus[1:], subkey(KEY, run, 3))
        for _ in range(20):  # forgets the true state
            state = sampler.step(model, state)
        drawn = []
        for _ in range(n_draws):
            for _ in range(10):
                state = sampler.step(model, state)
            phi = state.position.topics.toarray(np.float64)
            drawn.append(
                statistics_of(
                    state.latents, state.statistics.n_tables, phi, state.position.weights, *state.position[-2:]
                )[4:]
            )
        drawn, true = np.array(drawn, float), np.array(statistics_of(*corpus[1:])[4:], float)
        ties = (drawn == true).sum(axis=0)
        ranks.append((drawn < true).sum(axis=0) + rng.integers(ties + 1))
    ranks = np.array(ranks)
    moments = summarize(np.column_stack([ranks, ranks**2]).astype(float))
    uniform = np.arange(n_draws + 1)
    n = ranks.shape[1]
    assert_agrees(moments, np.repeat([uniform.mean(), (uniform**2).mean()], n))


@pytest.mark.extended
def test_corpora_have_the_moments_of_the_prior():
    corpora = [draw_corpus(np.random.default_rng(seed)) for seed in range(2_000)]
    alphas = np.array([[corpus.alpha, corpus.gamma] for corpus in corpora])
    assert_agrees(summarize(alphas), np.array([PRIORS.alpha_prior[0] / PRIORS.alpha_prior[1], 1.0]))
    squares = np.array([np.mean(np.sum(corpus.phi**2, axis=1)) for corpus in corpora])
    expected = (BETA + 1) / (N_WORDS * BETA + 1)
    assert_agrees(summarize(squares[:, np.newaxis]), np.array([expected]))
