"""Moves between numbers of orthogonal topics: the joint law, the posterior of the number, planted numbers.

Wrong variants go through the same checks, and fail.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy import stats
from scipy.special import expit, logsumexp

from skmanifold.admixture._orthogonal import reversible_jump
from skmanifold.admixture._orthogonal.reversible_jump import (
    Documents,
    _DirectionProposal,
    _MergerProposal,
    propose_size,
)
from skmanifold.admixture._orthogonal.reversible_jump_kernels import birth_death_factors
from skmanifold.distributions._matrix_von_mises_fisher import gibbs_sweep
from skmanifold.distributions._von_mises_fisher import sample_cosine_complement
from skmanifold.random._keys import fold_in, subkey, uniform
from skmanifold.random._variates import log_gamma_variate
from skmanifold.sparse.directions import Directions, as_directions
from skmanifold.topics.document_densities import OneConcentration
from skmanifold.topics.spherical_kernels import move_point
from skmanifold.utils._threads import Workers

from ..spherical._spherical_draws import KEY, ONE, unit
from ._orthogonal_draws import draw_frames


def draw_frame(n_topics, n_features, rng):
    return np.ascontiguousarray(draw_frames(1, n_topics, n_features, rng)[0])


def draw_documents(topics, theta, kappa, rng):
    means = unit(theta @ topics)
    complement = sample_cosine_complement(means.shape[1], kappa, len(means), rng)[:, None]
    tangents = rng.standard_normal(means.shape)
    tangents = unit(tangents - (tangents * means).sum(axis=1, keepdims=True) * means)
    return (1 - complement) * means + np.sqrt(complement * (2 - complement)) * tangents


def documents_of(X, alpha, kappa, workers=ONE):
    n, width = X.shape
    columns = np.tile(np.arange(width, dtype=np.int32), n)
    rows = Directions(np.arange(0, n * width + 1, width), columns, np.ascontiguousarray(X).ravel(), width)
    return Documents(rows, np.arange(n), alpha, kappa, workers)


@njit(cache=True)
def _move_proportions(theta, products, alpha, kappa, step, n_moves, key):
    n, n_topics = theta.shape
    work, y, gram = np.empty((5, n_topics)), np.empty(n_topics), np.eye(n_topics)
    shapes = np.full(n_topics, alpha)
    for i in range(n):
        length = log_gamma_variate(fold_in(fold_in(key, i), 0), n_topics * alpha)
        for k in range(n_topics):
            y[k] = np.log(max(theta[i, k], 1e-300)) + length
        for m in range(n_moves):
            of_move = fold_in(fold_in(key, i), 1 + m)
            move_point(y, shapes, False, OneConcentration(kappa), products[i], gram, step, 5, of_move, work)
        theta[i] = work[0]


def move_at_fixed_size(X, topics, theta, alpha, kappa, step, key, rng, n_moves=1):
    theta = theta.copy()
    if len(topics) > 1:
        _move_proportions(theta, X @ topics.T, alpha, kappa, step, n_moves, key)
    parameter = kappa * (X.T @ unit(theta))
    return np.ascontiguousarray(gibbs_sweep(topics.T, parameter, rng).T), theta


# --- shares ---------------------------------------------------------------------------------------------------


SHARES = [
    (0.05, 1e4, 0.6, 0.3),
    (0.3, 50.0, 0.7, -0.2),
    (1.0, 1e5, 0.5, 0.5),
    (2.0, 5.0, -0.3, 0.4),
    (0.5, 0.0, 0.2, 0.1),
]


@pytest.mark.extended
@pytest.mark.parametrize(("alpha", "kappa", "along", "product"), SHARES)
def test_the_factor_of_a_document_is_unbiased_for_the_integral_over_the_share(alpha, kappa, along, product):
    n, theta = 4000, np.array([0.2, 0.5, 0.3])
    length = np.linalg.norm(theta)
    products = along * theta / length  # b'theta / |theta| is `along`
    given = (np.tile(theta, (n, 1)), np.tile(products, (n, 1)), np.full(n, product), alpha, kappa, KEY)
    log_odds, factors, again = np.empty(n), np.empty(n), np.empty(n)
    birth_death_factors(True, 0, n, *given, log_odds, factors)
    birth_death_factors(False, 0, n, *given, log_odds, again)
    np.testing.assert_array_equal(factors, again)

    far = 13 + 40 / alpha
    tail = np.linspace(12, far, 20_000)[1:]
    grid = np.concatenate([-tail[::-1], np.linspace(-12, 12, 200_000), tail])
    tangent = np.exp(np.clip(grid, -300, 300)) / length
    cosine = np.where(tangent > 1e8, product, (along + product * tangent) / np.hypot(1, tangent))
    log_prior = -alpha * np.logaddexp(0, -grid) - 3 * alpha * np.logaddexp(0, grid)
    log_prior -= math.lgamma(alpha) + math.lgamma(3 * alpha) - math.lgamma(4 * alpha)
    log_density = log_prior + kappa * (cosine - along)
    log_density += np.log(np.gradient(grid))
    log_integral = logsumexp(log_density)
    weights = np.exp(factors - log_integral)
    assert weights.std() < 0.06
    posterior = np.exp(log_density - log_integral)
    for of_share in (lambda u: expit(u), lambda u: expit(u) ** 2, lambda u: np.maximum(u, -50.0)):
        assert_agrees(summarize(weights * of_share(log_odds)), posterior @ of_share(grid), 1e-5)
    assert_agrees(summarize(weights), 1.0, 1e-5)
    assert_disagrees(summarize(weights), 1.01)


def test_shares_next_to_nothing_and_to_all_are_read_as_they_are():
    theta, products = np.full((4, 2), 0.5), np.full((4, 2), 0.3)
    log_odds, factors = np.array([-np.inf, -800.0, 900.0, np.inf]), np.empty(4)
    birth_death_factors(False, 0, 4, theta, products, np.full(4, 0.1), 0.02, 100.0, KEY, log_odds, factors)
    assert np.isfinite(factors).all()
    assert factors[0] == factors[1]
    assert factors[2] == factors[3]


# --- directions -----------------------------------------------------------------------------------------------


@pytest.mark.extended
@pytest.mark.short_cases("2")
@pytest.mark.parametrize("n_topics", [1, 2, 3])
def test_the_law_of_directions_is_drawn_from_as_its_density_says(n_topics):
    rng = np.random.default_rng(0)
    frame, rest = np.split(draw_frame(4, 4, rng).T, [n_topics], axis=1)
    law = _DirectionProposal(frame, rest[:, 0], np.array([6.0, 2.0, 0.5, 0.0]))
    draws = np.array([law.draw(rng) for _ in range(4000)])
    np.testing.assert_allclose(draws @ frame, 0.0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(draws, axis=1), 1.0)
    weights = np.exp([-law.log_density(draw) for draw in draws])
    cosine = draws @ law.direction
    # reweighted to the uniform law on the sphere of the remaining dimensions
    assert_agrees(
        summarize(np.stack([weights, weights * cosine, weights * cosine**2], axis=1)), [1, 0, 1 / (4 - n_topics)]
    )
    assert_disagrees(summarize(cosine), 0.0)


def test_pairs_and_angles_of_mergers_are_drawn_as_their_chances_say():
    theta = np.random.default_rng(1).dirichlet([0.5, 0.5, 0.5, 3.0], 30)
    law = _MergerProposal(theta, 20.0)
    rows = []
    for i in range(8000):
        pair, angle = law.draw(subkey(KEY, i))
        weight = np.exp(-law.log_density(pair, angle))
        rows.append([weight, weight * angle, weight * (tuple(pair) == (0, 3)), weight * (tuple(pair) == (2, 1))])
    # reweighted to uniform pairs and angles
    assert_agrees(summarize(rows), [1.0, np.pi / 4, 1 / 12, 1 / 12])


# --- the joint law: documents drawn anew after each move ------------------------------------------------------


class Setting(NamedTuple):
    prior: tuple[float, ...]  # of the number of topics
    alpha: float
    kappa: float
    n_documents: int
    n_features: int
    turns: tuple[bool, ...]  # kinds of moves that are made
    n_chains: int
    n_steps: int


ALL = Setting((0.0, 0.5, 0.3, 0.2), 0.6, 10.0, 3, 4, (False, True), 220, 6)
BIRTHS = Setting((0.0, 0.5, 0.5), 0.3, 12.0, 4, 12, (False,), 200, 8)
MERGERS = Setting((0.0, 0.0, 0.5, 0.5), 0.3, 40.0, 3, 5, (True,), 400, 5)


def statistics(topics, theta, X, n_most):
    length = np.linalg.norm(theta, axis=1)
    cosine = ((X @ topics.T) * theta).sum(axis=1) / length
    between = (X @ X.T)[np.triu_indices(len(X), 1)]
    moments = [1.0, (length**2).mean(), (length**4).mean(), cosine.mean(), cosine.min(), between.mean()]
    moments.append((theta[:, 0] - theta[:, -1]).mean())  # 0 if no topic differs by its place
    out = np.zeros((n_most, len(moments)))
    out[len(topics) - 1] = moments
    return out.ravel()


def kind_of(key):
    return bool(uniform(key, 0) < 0.5), bool(uniform(key, 1) < 0.5)


def drift_of_the_joint_chain(setting, wrong_prior=None):
    """Of the statistics from an exact draw of state and documents to their mean over the steps that follow.

    Moves are those which their keys make turn or not, as is wanted: a choice whatever the state.
    """
    prior, alpha, kappa, n_documents, n_features, turns, n_chains, n_steps = setting
    rng = np.random.default_rng(2)
    with np.errstate(divide="ignore"):
        log_prior = np.log(prior if wrong_prior is None else wrong_prior)
    drifts, kinds = [], set()
    for chain in range(n_chains):
        n_topics = rng.choice(len(prior), p=prior)
        topics = draw_frame(n_topics, n_features, rng)
        theta = rng.dirichlet(np.full(n_topics, alpha), n_documents)
        X = draw_documents(topics, theta, kappa, rng)
        before, after = statistics(topics, theta, X, len(prior)), 0.0
        for step in range(n_steps):
            key = subkey(KEY, chain, step)
            topics, theta = move_at_fixed_size(X, topics, theta, alpha, kappa, 0.4, subkey(key, 0), rng)
            key = next(child for child in (subkey(key, 1 + i) for i in range(100)) if kind_of(child)[1] in turns)
            move = propose_size(documents_of(X, alpha, kappa), topics, theta, log_prior, key)
            assert (move.is_birth, move.rotates) == kind_of(key)
            topics, theta = move.topics, move.proportions
            if move.accepted:
                kinds.add(kind_of(key))
            after = after + statistics(topics, theta, X, len(prior))
            X = draw_documents(topics, theta, kappa, rng)
        drifts.append(after / n_steps - before)
    assert len(kinds) == 2 * len(turns)
    return summarize(drifts)


@pytest.mark.extended
@pytest.mark.short_cases("all")
@pytest.mark.parametrize("setting", [ALL, BIRTHS, MERGERS], ids=["all", "births", "mergers"])
def test_the_joint_law_is_left_as_it_is(setting):
    assert_agrees(drift_of_the_joint_chain(setting), 0.0)


def mean_gap_of_first_and_last(n_chains=60, n_steps=120):
    """The share of the first topic less that of the last, over states with two topics of a chain of moves alone."""
    X, log_prior, gaps = unit(np.random.default_rng(0).standard_normal((3, 3))), np.log([1e-300, 0.93, 0.07]), []
    for chain in range(n_chains):
        topics, theta, total = draw_frame(1, 3, np.random.default_rng(chain)), np.ones((3, 1)), 0.0
        for step in range(n_steps):
            move = propose_size(documents_of(X, 0.5, 6.0), topics, theta, log_prior, subkey(KEY, chain, step))
            topics, theta = move.topics, move.proportions
            total += (theta[:, 0] - theta[:, -1]).mean()
        gaps.append(total / n_steps)
    return summarize(gaps)


@pytest.mark.extended
def test_no_topic_differs_by_its_place():
    """Sweeps over topics in their order are valid only if the order tells nothing of the topics."""
    assert_agrees(mean_gap_of_first_and_last(), 0.0)


@pytest.mark.extended
def test_new_topics_behind_all_others_are_seen(monkeypatch):
    monkeypatch.setattr(reversible_jump, "_random_order", lambda n_topics, key: np.arange(n_topics))
    assert_disagrees(mean_gap_of_first_and_last(), 0.0)


@pytest.mark.long
@pytest.mark.parametrize("alpha", [0.2, 1.0])
def test_the_joint_law_is_left_as_it_is_for_long(alpha):
    assert_agrees(drift_of_the_joint_chain(ALL._replace(alpha=alpha, kappa=20.0, n_chains=800, n_steps=20)), 0.0)


@pytest.mark.extended
def test_without_the_density_of_directions_the_joint_law_changes(monkeypatch):
    monkeypatch.setattr(_DirectionProposal, "log_density", lambda self, topic: 0.0)
    assert_disagrees(drift_of_the_joint_chain(BIRTHS._replace(n_chains=400)), 0.0)


@pytest.mark.long
def test_without_the_chances_of_a_merger_the_joint_law_changes(monkeypatch):
    monkeypatch.setattr(_MergerProposal, "log_density", lambda self, pair, angle: 0.0)
    assert_disagrees(drift_of_the_joint_chain(MERGERS), 0.0)


@pytest.mark.long
def test_with_another_factor_for_who_dies_the_joint_law_changes():
    wrong = [p * math.factorial(n) for n, p in enumerate(ALL.prior)]
    assert_disagrees(drift_of_the_joint_chain(ALL._replace(n_chains=500), wrong), 0.0)


@pytest.mark.long
def test_without_the_proposal_of_shares_the_joint_law_changes(monkeypatch):
    def pay_less(draws, start, stop, *given):
        birth_death_factors(draws, start, stop, *given)
        given[-1][start:stop] -= 0.4

    monkeypatch.setattr(reversible_jump, "birth_death_factors", pay_less)
    assert_disagrees(drift_of_the_joint_chain(ALL), 0.0)


# --- the posterior of the number ------------------------------------------------------------------------------


def log_evidence_of_two(X, alpha, kappa, rng, n_frames=80_000, n_nodes=60):
    """By frames from the uniform law, and quadrature over the proportions; c_V(kappa) is left out."""
    q, r = np.linalg.qr(rng.standard_normal((n_frames, X.shape[1], 2)))
    frames = np.swapaxes(q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None], 1, 2)
    share = stats.beta(alpha, alpha).ppf((np.arange(n_nodes) + 0.5) / n_nodes)
    mixtures = unit(np.column_stack([share, 1 - share]))
    cosines = np.einsum("dv,fkv,nk->fdn", X, frames, mixtures, optimize=True)
    weights = np.exp(kappa * (cosines - 1)).mean(axis=2).prod(axis=1)
    return np.log(weights.mean()), weights.std() / weights.mean() / np.sqrt(n_frames)


@pytest.mark.extended
def test_the_number_has_the_posterior_that_the_evidences_say():
    alpha, kappa, prior = 0.7, 12.0, np.array([0.0, 0.8, 0.2])
    X = unit(np.array([[1.0, 0.1, 0.0], [0.1, 1.0, 0.2], [0.9, 0.5, -0.1]]))
    rng = np.random.default_rng(3)
    length = kappa * np.linalg.norm(X.sum(axis=0))
    of_one = np.log(np.sinh(length) / length) - kappa * len(X)
    of_two, error = log_evidence_of_two(X, alpha, kappa, rng)
    assert error < 0.03
    odds = prior[2] / prior[1] * np.exp(of_two - of_one)
    assert 0.25 < odds < 4

    with np.errstate(divide="ignore"):
        log_prior = np.log(prior)
    documents = documents_of(X, alpha, kappa)
    n_chains, n_steps, n_burn_in = 20, 90, 10
    frequency = np.zeros(n_chains)
    for chain in range(n_chains):
        topics, theta = draw_frame(1 + chain % 2, 3, rng), np.full((3, 1 + chain % 2), 1 / (1 + chain % 2))
        for step in range(n_steps):
            key = subkey(KEY, chain, step)
            topics, theta = move_at_fixed_size(X, topics, theta, alpha, kappa, 0.4, subkey(key, 0), rng)
            move = propose_size(documents, topics, theta, log_prior, subkey(key, 1))
            topics, theta = move.topics, move.proportions
            frequency[chain] += (step >= n_burn_in) * (len(topics) == 2) / (n_steps - n_burn_in)
    chance = odds / (1 + odds)
    assert_agrees(summarize(frequency), chance, bias=chance * (1 - chance) * 3 * error)
    assert_disagrees(summarize(frequency), prior[2] / prior.sum())


# --- planted numbers ------------------------------------------------------------------------------------------


def plant(n_documents, n_features, n_topics, alpha, kappa, seed):
    rng = np.random.default_rng(seed)
    topics = draw_frame(n_topics, n_features, rng)
    theta = rng.dirichlet(np.full(n_topics, alpha), n_documents)
    return topics, draw_documents(topics, theta, kappa, rng)


def search(X, n_start, alpha, kappa, n_rounds, n_moves, n_most=20, workers=ONE, n_sweeps=4):
    rng, log_prior = np.random.default_rng(4), np.zeros(n_most + 1)
    topics, theta = draw_frame(n_start, X.shape[1], rng), rng.dirichlet(np.full(n_start, alpha), len(X))
    documents, trace = documents_of(X, alpha, kappa, workers), []
    for turn in range(n_rounds):
        for sweep in range(n_sweeps):
            key = subkey(KEY, turn, sweep)
            topics, theta = move_at_fixed_size(X, topics, theta, alpha, kappa, 1.5 / np.sqrt(kappa), key, rng, 2)
        for i in range(n_moves):
            key = subkey(KEY, turn, n_sweeps + i)
            move = propose_size(documents, topics, theta, log_prior, key)
            topics, theta = move.topics, move.proportions
        trace.append(len(topics))
    return topics, theta, trace


@pytest.mark.parametrize(
    ("corpus", "n_start", "n_rounds", "n_moves", "n_last", "similarity"),
    [
        pytest.param((500, 200, 6, 0.2, 200.0, 0), 1, 32, 6, 24, 0.7, marks=pytest.mark.extended),
        pytest.param((300, 60, 4, 0.3, 200.0, 1), 8, 36, 12, 3, 0.9, marks=pytest.mark.long),
        pytest.param((500, 200, 6, 0.1, 200.0, 0), 12, 120, 12, 6, 0.95, marks=pytest.mark.long),
    ],
    ids=["from one topic", "from twice as many", "from twice as many in a larger corpus"],
)
def test_the_planted_number_is_found(corpus, n_start, n_rounds, n_moves, n_last, similarity):
    planted, X = plant(*corpus)
    topics, theta, trace = search(X, n_start, *corpus[3:5], n_rounds, n_moves)
    assert trace[-n_last:] == [corpus[2]] * n_last
    np.testing.assert_allclose(topics @ topics.T, np.eye(corpus[2]), atol=1e-12)
    np.testing.assert_allclose(theta.sum(axis=1), 1.0)
    assert np.abs(topics @ planted.T).max(axis=0).min() > similarity


# --- the rest of the contract ---------------------------------------------------------------------------------


def test_the_number_of_threads_changes_no_byte():
    _, X = plant(300, 40, 4, 0.2, 50.0, 2)
    found = []
    for n_jobs in (1, 2):
        with Workers(n_jobs) as workers:
            found.append(search(X, 2, 0.2, 50.0, 6, 4, workers=workers, n_sweeps=1))
    assert found[0][2][0] != 2
    for one, two in zip(*found, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(two).tobytes()


def test_numbers_without_prior_mass_and_above_the_dimension_are_never_reached():
    rng = np.random.default_rng(5)
    X = unit(rng.standard_normal((4, 3)))
    documents, log_prior = documents_of(X, 0.5, 0.1), np.full(9, 5.0).cumsum()
    log_prior[[0, 1]] = -np.inf
    topics, theta, seen = draw_frame(2, 3, rng), np.full((4, 2), 0.5), set()
    for step in range(300):
        move = propose_size(documents, topics, theta, log_prior, subkey(KEY, step))
        assert move.accepted or (move.topics is topics and move.proportions is theta)
        topics, theta = move.topics, move.proportions
        seen.add((len(topics), move.is_birth, move.rotates, np.isfinite(move.log_ratio)))
    assert {n for n, *_ in seen} == {2, 3}
    assert {(n, is_birth) for n, is_birth, _, moved in seen if not moved} == {(2, False), (3, True)}


def test_rows_without_direction_stay_out_of_it():
    _, X = plant(40, 10, 2, 0.3, 30.0, 6)
    gaps = np.zeros((50, 10))
    gaps[np.r_[0:20, 30:50]] = X
    rows = as_directions(gaps)
    rng, log_prior = np.random.default_rng(0), np.zeros(4)
    topics, theta = draw_frame(2, 10, rng), rng.dirichlet([0.3, 0.3], 40)
    for step in range(12):
        key = subkey(KEY, step)
        one = propose_size(Documents(rows, rows.directed, 0.3, 30.0, ONE), topics, theta, log_prior, key)
        two = propose_size(documents_of(X, 0.3, 30.0), topics, theta, log_prior, key)
        assert one.log_ratio == pytest.approx(two.log_ratio, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("n_topics", [1, 2, 3])
def test_documents_all_of_one_topic_and_lost_shares_do_no_harm(n_topics):
    X = np.eye(4)[[0, 0, 0, 0]]
    theta = np.zeros((4, n_topics))
    theta[:, 0] = 1.0
    documents, topics, lost = documents_of(X, 0.01, 1e5), np.eye(4)[:n_topics], 0
    for step in range(60):
        move = propose_size(documents, topics, theta, np.zeros(5), subkey(KEY, step))
        assert not np.isnan(move.log_ratio)
        assert np.isfinite(move.proportions).all()
        lost += move.log_ratio == -np.inf
    assert (
        lost < 60 if n_topics == 3 else lost == sum(n_topics == 1 and not kind_of(subkey(KEY, i))[0] for i in range(60))
    )
