"""Samplers of latent Dirichlet allocation as wholes: the laws of topics and assignments against exact ones.

Wrong variants go through the same checks, and fail.
"""

import numpy as np
import pytest
from samplers._counts import log_gamma_cdf
from samplers._evidence import assert_agrees, assert_disagrees
from samplers._wrong import WallsThatKeepMomenta
from scipy import stats
from scipy.special import digamma

from skmanifold.admixture._lda.minibatch import MinibatchLDA, TopicPasses, topics_of, with_private_scratch
from skmanifold.admixture._lda.model import LDAModel
from skmanifold.admixture._tokens.log_topic_word import LogTopics
from skmanifold.admixture._tokens.topic_counts import TopicPrior
from skmanifold.models import seen_by
from skmanifold.samplers import SCIR, SGHMC, SGLD, SGRHMC, SGRLD, CollapsedGibbs, Gibbs
from skmanifold.samplers._base import State
from skmanifold.samplers._cir import scir as scir_by_rows
from skmanifold.samplers._cir.scir import draw_all_rows
from skmanifold.utils._threads import Workers

from .. import _tiny_corpus as tiny
from ._tiny_posterior import (
    KEY,
    N_OF_TOPICS,
    PRIORS,
    ForgetsThePrior,
    R,
    Remembers,
    SetsTopicsToTheirMean,
    as_counts,
    copied_arguments,
    copied_model,
    counts_in_topics,
    exact_statistics,
    minibatch_model,
    of_copies,
    statistics,
    summarize_batches,
    topics_of_copies,
)

# --- what the tests stand on -----------------------------------------------------------------------------


def one_step(sampler, model, state):
    """One step of a sampler of the topics, in its coordinates."""
    return sampler.step(seen_by(sampler, model), state)


def test_exact_statistics_are_those_worked_out_elsewhere():
    same = exact_statistics(0.5, 0.5)[-21:-6]  # of all pairs, in order
    of_pair = dict(zip(zip(*np.triu_indices(6, 1), strict=True), same, strict=True))
    np.testing.assert_allclose([of_pair[pair] for pair in tiny.PAIRS], tiny.POSTERIOR_ROW[:5], atol=1e-8)
    alpha, beta = PRIORS["both"]
    exact = exact_statistics(alpha, beta)
    np.testing.assert_allclose(exact[:3].sum(), 2.0)
    np.testing.assert_allclose(exact_statistics(alpha, beta)[-6:], 1 - exact_statistics(alpha[::-1], beta)[-6:])


# --- Gibbs -----------------------------------------------------------------------------------------------


def gibbs_estimate(prior, kind=LDAModel, sampler=None, n_sweeps=1300):
    sampler = sampler or Gibbs()
    model = copied_model(R, *PRIORS[prior], kind)
    state, series = sampler.init(model, KEY), []
    for sweep in range(200 + n_sweeps):
        state = sampler.step(model, state)
        if sweep >= 200:
            latents = getattr(state.latents, "topics", state.latents)
            phi = of_copies(sampler.parameters(model, state).toarray(np.float64), R)
            series.append(statistics(topics_of_copies(latents, R), phi))
    return summarize_batches(series, 10)


@pytest.mark.extended
@pytest.mark.short_cases("both")
@pytest.mark.parametrize("prior", PRIORS)
def test_gibbs_draws_topics_and_assignments_from_the_posterior(prior):
    estimate = gibbs_estimate(prior)
    assert estimate.error.max() < 0.05
    assert_agrees(estimate, exact_statistics(*PRIORS[prior]))


@pytest.mark.extended
@pytest.mark.short_cases("ForgetsThePrior")
@pytest.mark.parametrize("kind", [SetsTopicsToTheirMean, ForgetsThePrior])
def test_wrong_gibbs_samplers_are_found_out(kind):
    exact = exact_statistics(*PRIORS["both"])
    estimate = gibbs_estimate("both", kind, n_sweeps=800)
    assert_disagrees(estimate, exact)
    same = slice(-21, -6)  # the assignments alone say so
    assert_disagrees(estimate._replace(mean=estimate.mean[same], error=estimate.error[same]), exact[same])


@pytest.mark.extended
@pytest.mark.parametrize("prior", ["scalar", "both"])
def test_collapsed_gibbs_draws_topics_from_the_posterior(prior):
    assert_agrees(gibbs_estimate(prior, sampler=CollapsedGibbs(), n_sweeps=1000), exact_statistics(*PRIORS[prior]))


# --- Gibbs, with data drawn anew -------------------------------------------------------------------------

ALPHA, BETA = np.array([0.8, 0.5]), np.array([0.4, 0.9, 1.3])
N_DOCS, N_TOKENS = 3, 4


def prior_moments():
    """Of `joint_statistics`, where parameters come from the prior and words from the parameters."""
    a, b = ALPHA.sum(), BETA.sum()
    mean = BETA / b
    second = BETA * (BETA + 1) / (b * (b + 1))
    same_within = (ALPHA * (ALPHA + 1)).sum() / (a * (a + 1))
    same_across = ((ALPHA / a) ** 2).sum()
    alike, unlike = second.sum(), (mean**2).sum()
    pairs = [[p, p * alike + (1 - p) * unlike, p * alike] for p in (same_within, same_across)]
    return np.concatenate([2 * mean, 2 * second, 2 * (digamma(BETA) - digamma(b)), *pairs, [alike, ALPHA[0] / a]])


def joint_statistics(phi, topics, words):
    """Of topics (R, 2, 3) and of tokens' topics and words (R, documents, tokens)."""
    flat_z, flat_w = topics.reshape(R, -1), words.reshape(R, -1)
    document = np.repeat(np.arange(N_DOCS), N_TOKENS)
    first, second = np.triu_indices(N_DOCS * N_TOKENS, 1)
    same_z, same_w = flat_z[:, first] == flat_z[:, second], flat_w[:, first] == flat_w[:, second]
    within = document[first] == document[second]
    parts = [phi.sum(axis=1), (phi**2).sum(axis=1), np.log(phi).sum(axis=1)]
    for pairs in (within, ~within):
        parts += [event[:, pairs].mean(axis=1)[:, None] for event in (same_z, same_w, same_z & same_w)]
    own_phi = phi[np.arange(R)[:, None], flat_z, flat_w].mean(axis=1)
    return np.concatenate([*parts, own_phi[:, None], (flat_z == 0).mean(axis=1)[:, None]], axis=1)


def joint_estimate(kind, n_steps=1800):
    """Geweke's successive-conditional simulator: a step of Gibbs, then words given topics and assignments."""
    rng, sampler = np.random.default_rng(3), Gibbs()
    _, alpha, prior, workers = copied_arguments(R, ALPHA, BETA)
    copies, series = np.arange(R)[:, None, None], []
    phi, topics = rng.dirichlet(BETA, (R, 2)), rng.integers(0, 2, (R, N_DOCS, N_TOKENS))
    position = None
    for n in range(n_steps):
        of_token = np.cumsum(phi[copies, topics], axis=-1)
        words = (rng.random(topics.shape)[..., None] > of_token[..., :2]).sum(axis=-1)
        series.append(joint_statistics(phi, topics, words))
        # Ties in any order: one that the words before decided would not be exchangeable.
        order = np.argsort(words + rng.random(words.shape), axis=-1)
        words, topics = np.take_along_axis(words, order, -1), np.take_along_axis(topics, order, -1)
        table = np.zeros((R * N_DOCS, 3 * R))
        rows = (N_DOCS * copies + np.arange(N_DOCS)[:, None]).repeat(N_TOKENS, 2)
        np.add.at(table, (rows, 3 * copies + words), 1)
        model = kind(as_counts(table), alpha, prior, workers)
        if position is None:
            sparse = np.kron(np.eye(R), np.ones((2, 3))) * np.tile(phi.reshape(-1, 3), R)
            position = LogTopics(np.log(sparse + 1e-300).T, np.zeros(2 * R))
        latents = (topics + 2 * copies).astype(np.uint16).ravel()
        state = sampler.step(model, State(position, KEY, n, latents=latents))
        position = state.position
        phi = of_copies(position.toarray(np.float64), R)
        topics = topics_of_copies(state.latents, R).reshape(topics.shape)
    return summarize_batches(series[200:], 10)


@pytest.mark.extended
def test_gibbs_leaves_the_joint_law_of_parameters_and_data_alone():
    assert_agrees(joint_estimate(LDAModel), prior_moments())


@pytest.mark.extended
def test_the_joint_law_finds_a_wrong_prior():
    assert_disagrees(joint_estimate(ForgetsThePrior, 800), prior_moments())


# --- SCIR ------------------------------------------------------------------------------------------------


def scir_estimate(sampler, prior="scalar", *, batch_size=None, n_kept=1, n_burn_in=20, n_steps=1):
    """After every `n_steps` steps; statistics of topics alone where the sampler keeps no assignments."""
    alpha, beta = PRIORS[prior]
    model = with_private_scratch(minibatch_model(R, alpha, beta, batch_size, n_burn_in + n_kept, n_burn_in, Remembers))
    model.last = []
    passes, series = TopicPasses(sampler), []
    state = passes.init(model, KEY).moving
    stored = sampler.control_variate is not None
    for n in range(1000):
        for _ in range(n_steps):
            state = one_step(passes.sampler, model, state)
        state, components = topics_of(sampler, model, state)
        if n < 100:
            continue
        phi = of_copies(components, R).astype(float)
        everywhere = stored or (batch_size is None and n_kept == 1)
        topics = (
            topics_of_copies(state.latents if stored else model.last[0], R) if everywhere else np.zeros((R, 6), int)
        )
        series.append(statistics(topics, phi)[:, : None if everywhere else N_OF_TOPICS])
    return summarize_batches(series, 10)


@pytest.mark.extended
@pytest.mark.short_cases("both")
@pytest.mark.parametrize(("h", "prior"), [(6.0, "scalar"), (6.0, "both"), (1.0, "scalar")])
def test_scir_with_fresh_topics_of_all_tokens_draws_from_the_posterior(h, prior):
    exact = exact_statistics(*PRIORS[prior])
    assert_agrees(scir_estimate(SCIR(h), prior), exact, 0.0 if h > 5 else 0.01 * np.abs(exact))


@pytest.mark.extended
def test_means_of_sweeps_take_variance_from_the_topics():
    exact = exact_statistics(0.5, 0.5)[:N_OF_TOPICS]
    estimate = scir_estimate(SCIR(6.0), n_kept=10)
    assert_disagrees(estimate, exact)
    assert np.all(estimate.mean[3:6] - exact[3:6] > 10 * estimate.error[3:6])  # logarithms: nearer to the mean's


@pytest.mark.extended
@pytest.mark.short_cases("True")
@pytest.mark.parametrize("lazy", [False, True])
def test_scir_with_stored_counts_draws_from_the_posterior(lazy):
    """Exact at any step size; lazily what the sums of columns keep of old counts is a small bias at small steps."""
    exact = exact_statistics(0.5, 0.5)
    options = {"batch_size": R, "n_burn_in": 1}
    assert_agrees(scir_estimate(SCIR(6.0, lazy, "stored"), **options), exact)
    small = scir_estimate(SCIR(0.3, lazy, "stored"), **options, n_steps=3)
    assert_agrees(small, exact, 0.01 * np.abs(exact) if lazy else 0.0)


@pytest.mark.extended
def test_the_same_minibatches_without_stored_counts_do_not():
    exact = exact_statistics(0.5, 0.5)[:N_OF_TOPICS]
    scaled = scir_estimate(SCIR(0.3), batch_size=R, n_burn_in=1, n_steps=3)
    assert_disagrees(scaled, exact, 0.01 * np.abs(exact))


@pytest.mark.extended
def test_sums_of_columns_are_drawn_for_the_counts_as_they_are_now(monkeypatch):
    """Given all counts theta is gamma; where the sums stay those of the counts before, it is not."""

    def excess():
        alpha, beta = PRIORS["scalar"]
        model = with_private_scratch(minibatch_model(R, alpha, beta, R, 2, 1))
        passes, series = TopicPasses(SCIR(0.3, False, "stored")), []
        state = passes.init(model, KEY).moving
        for n in range(2000):
            state = one_step(passes.sampler, model, state)
            if n < 200:
                continue
            counts = counts_in_topics(topics_of_copies(state.latents, R))
            log_theta = of_copies(state.rows.log_theta.T.copy(), R)
            cells = [np.where(counts == c, log_theta - digamma(beta + c), 0).sum(axis=(1, 2)) for c in range(3)]
            series.append(np.stack(cells, axis=-1))
        return summarize_batches(series, 10)

    assert_agrees(excess(), 0.0)
    monkeypatch.setattr(scir_by_rows, "_redraw_totals", lambda rows, *rest: rows)
    assert_disagrees(excess(), 0.0)


PATTERN = np.array([6, 4, 3, 2, 2, 1, 1, 1] + 12 * [0.0])  # of a word's counts in 20 documents


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    ("h", "batch_size", "stored"), [(0.4, 1, False), (0.4, 5, False), (1.5, 5, False), (0.5, 5, True)]
)
def test_minibatches_add_the_stated_variance_to_counts_that_are_certain(h, batch_size, stored, lazy):
    """One topic: Var = a + tanh(h / 2) Var[a^]; stored counts add none."""
    n_words, beta, gap = 80, 0.4, max(1, round(1 / h))
    table = np.array([np.random.default_rng(v).permutation(PATTERN) for v in range(n_words)]).T
    a = beta + PATTERN.sum()
    added = np.tanh(h / 2) * 20**2 / batch_size * PATTERN.var(ddof=1) * (1 - batch_size / 20)
    sizes = {"batch_size": batch_size, "total_samples": 20, "n_sweeps": 2, "n_burn_in": 1}
    model = with_private_scratch(
        MinibatchLDA(as_counts(table), np.array([0.5]), TopicPrior(beta, 1, n_words), Workers(1), **sizes)
    )
    passes, series = TopicPasses(SCIR(h, lazy, "stored" if stored else None)), []
    state = passes.init(model, KEY).moving
    for n in range(400 * gap):
        state = one_step(passes.sampler, model, state)
        if n >= 20 * gap and n % gap == 0:
            state = draw_all_rows(model, state)
            theta = np.exp(state.rows.log_theta[:, 0].astype(float))
            series.append([[theta.mean(), np.mean((theta - a) ** 2)]])
    estimate = summarize_batches(series, 20)
    assert_agrees(estimate, [a, a if stored else a + added])
    assert_disagrees(estimate, [a, a + added if stored else a])


def test_tiny_priors_leave_no_topic_empty_and_keep_the_law_of_words_never_seen():
    beta, n_words, n_topics = 1e-3, 300, 20
    table = np.zeros((6, n_words))
    table[np.arange(6), np.arange(6)] = 2
    sizes = {"batch_size": 2, "total_samples": 6, "n_sweeps": 3, "n_burn_in": 2}
    prior = TopicPrior(beta, n_topics, n_words)
    model = with_private_scratch(MinibatchLDA(as_counts(table), np.full(n_topics, 0.1), prior, Workers(1), **sizes))
    passes = TopicPasses(SCIR(0.5))
    state = passes.init(model, KEY).moving
    for _ in range(4):
        for _ in range(20):
            state = one_step(passes.sampler, model, state)
        state, components = topics_of(passes.sampler, model, state)
        np.testing.assert_allclose(components.sum(axis=1), 1, rtol=1e-5)
        unseen = state.rows.log_theta[6:].astype(float).ravel()
        assert stats.kstest(unseen, lambda y: log_gamma_cdf(y, beta)).pvalue > 1e-4
        assert stats.kstest(unseen, lambda y: log_gamma_cdf(y, 1.1 * beta)).pvalue < 1e-4


# --- diffusions with discretisation error ----------------------------------------------------------------


def one_topic(beta, counts):
    table = np.stack([counts, 0 * counts])
    sizes = {"batch_size": None, "total_samples": 2, "n_sweeps": 2, "n_burn_in": 1}
    prior = TopicPrior(beta, 1, len(counts))
    return with_private_scratch(MinibatchLDA(as_counts(table), np.array([0.5]), prior, Workers(1), **sizes))


def thetas(sampler, model, n_steps, gap=10):
    """Theta every `gap` steps, from a draw of its law: a sum Ga(sum of beta), and Dirichlet proportions."""
    rng, counts = np.random.default_rng(1), model.counts
    shapes = model.topic_prior.base.copy()
    shapes[counts.indices] += counts.counts
    start = rng.gamma(model.topic_prior.totals[0]) * rng.dirichlet(shapes)
    state = sampler.init(seen_by(sampler, model), np.array([KEY]), start[None, :, None])
    passes, out = TopicPasses(sampler), []
    for n in range(n_steps):
        state = one_step(passes.sampler, model, state)
        if n % gap == 0:
            out.append(np.abs(state.position[0, :, 0]))
    return np.array(out), shapes


def standardized(sampler, model, n_steps=3000):
    """Proportions of words of equal counts and their squares, in standard deviations, and the sum: 0, 1 and 1."""
    theta, shapes = thetas(sampler, model, n_steps)
    total = theta.sum(axis=1)
    mean = shapes / shapes.sum()
    z = (theta / total[:, None] - mean) / np.sqrt(mean * (1 - mean) / (shapes.sum() + 1))
    classes = [shapes == shape for shape in np.unique(shapes)]
    columns = [z[:, words].mean(axis=1) for words in classes] + [(z[:, words] ** 2).mean(axis=1) for words in classes]
    series = np.stack([*columns, total / model.topic_prior.totals[0]], axis=-1)
    return summarize_batches(series[:, None], 20), np.repeat([0.0, 1.0, 1.0], [len(classes), len(classes), 1])


FEW = np.tile([0, 1, 3], 40)
SOME = np.tile([12] + 11 * [0], 10)
DIFFUSIONS = {
    "SGRLD": (SGRLD(0.02), 2.0, FEW, 0.02),
    "SGRHMC": (SGRHMC(0.1), 2.0, FEW, 0.02),
    "SGRHMC at 1/2": (SGRHMC(0.05), 0.5, FEW, 0.05),
    "SGLD": (SGLD(0.02), 1.0, SOME, 0.1),
    "SGHMC": (SGHMC(0.1), 1.0, SOME, 0.1),
}


@pytest.mark.extended
@pytest.mark.parametrize("name", DIFFUSIONS)
def test_diffusions_are_right_up_to_their_steps_for_priors_that_are_not_small(name):
    sampler, beta, counts, bias = DIFFUSIONS[name]
    estimate, exact = standardized(sampler, one_topic(beta, counts))
    assert_agrees(estimate, exact, bias)


@pytest.mark.extended
def test_momenta_turn_round_at_the_wall():
    model = one_topic(0.5, FEW)
    model.manifold = WallsThatKeepMomenta(model.manifold.shape)
    estimate, exact = standardized(SGRHMC(0.05), model)
    assert_disagrees(estimate, exact, 0.05)


@pytest.mark.extended
def test_mirrored_forces_on_rare_words_throw_flat_samplers_far_away():
    """Known limit: (shape - 1) / theta is not bounded, and a step of it from near the wall leads anywhere."""
    estimate, exact = standardized(SGLD(0.02), one_topic(2.0, FEW))
    assert_disagrees(estimate, exact, 0.5)


@pytest.mark.extended
def test_below_one_half_langevin_steps_miss_the_law_of_small_probabilities_and_scir_does_not():
    beta, counts = 0.1, np.array([2, 2, 2] + 117 * [0])
    law = stats.beta(beta, 120 * beta + 6 - beta)

    def distance(phi):
        return stats.kstest(phi[:, 3:].ravel(), law.cdf).statistic

    theta, _ = thetas(SGRLD(0.01), one_topic(beta, counts), 3000, gap=20)
    assert distance(theta / theta.sum(axis=1, keepdims=True)) > 0.3
    model, passes = one_topic(beta, counts), TopicPasses(SCIR(0.5))
    state, draws = passes.init(model, KEY).moving, []
    for _ in range(20):
        for _ in range(20):
            state = one_step(passes.sampler, model, state)
        state, components = topics_of(passes.sampler, model, state)
        draws.append(components[0])
    assert distance(np.array(draws, float)) < 0.04
