"""Draws of topics from several chains: matching, intervals, diagnostics, export and means over draws."""

import re
import sys

import numpy as np
import pytest

from skmanifold._install import install_command
from skmanifold.admixture._posterior.topic_draws import (
    ChainMatch,
    diagnose_topics,
    effective_draws,
    match_chains,
    mean_topics,
    permute_topics,
    to_arviz,
)
from skmanifold.topics.topic_word import topic_word_from_array

BEST = 1


def _make_chains(n_chains=4, n_draws=200, n_topics=5, n_words=30, n_tokens=400, seed=0):
    """Exact posterior draws of topics of known counts, in another order in every chain, and those orders."""
    generator = np.random.default_rng(seed)
    topics = generator.dirichlet(np.full(n_words, 0.2), size=n_topics)
    parameters = generator.multinomial(n_tokens, topics) + 0.1
    orders = np.array([generator.permutation(n_topics) for _ in range(n_chains)])
    gammas = generator.gamma(parameters, size=(n_chains, n_draws, n_topics, n_words)) + 1e-12
    components = (gammas / gammas.sum(axis=-1, keepdims=True)).astype(np.float32)
    weights = generator.dirichlet(np.arange(5.0, 5.0 + n_topics), size=(n_chains, n_draws))
    for chain, order in enumerate(orders):
        components[chain] = components[chain][:, order]
        weights[chain] = weights[chain][:, order]
    return components, weights, orders, parameters


def _undo(orders, best):
    """Where the best chain's topics are in each chain: orders[c][permutation] = orders[best]."""
    return np.array([np.argsort(order)[orders[best]] for order in orders])


# Matching


def test_matching_undoes_what_the_chains_did_to_the_order():
    components, _, orders, _ = _make_chains()
    expected = _undo(orders, BEST)
    assert any(not np.array_equal(np.argsort(order), order) for order in expected)  # else the inverse would pass
    match = match_chains(components, BEST)
    np.testing.assert_array_equal(match.permutations, expected)
    np.testing.assert_array_equal(match.permutations[BEST], np.arange(5))
    np.testing.assert_array_equal(match.similarity[BEST], 1)
    assert np.all(match.similarity > 0.999)
    assert match.best == BEST


def test_chains_may_be_given_by_their_estimates():
    components, _, orders, _ = _make_chains()
    means = [mean_topics(chain) for chain in components]
    mixed = [means[0], topic_word_from_array(means[1]), components[2], topic_word_from_array(means[3])]
    for topics in (means, mixed):
        np.testing.assert_array_equal(match_chains(topics, BEST).permutations, _undo(orders, BEST))


def test_permuting_copies_only_if_something_moves():
    components, weights, _, _ = _make_chains()
    assert permute_topics(components, np.tile(np.arange(5), (4, 1))) is components
    orders = np.array([[1, 2, 0, 4, 3]] * 4)
    permuted = permute_topics(components, orders)
    assert permuted.dtype == np.float32
    np.testing.assert_array_equal(permuted[2, 7, 0], components[2, 7, 1])
    np.testing.assert_array_equal(permute_topics(weights, orders)[..., 2], weights[..., 0])


def test_a_chain_without_draws_is_refused():
    with pytest.raises(ValueError, match="no draws"):
        match_chains(np.empty((2, 0, 3, 4), dtype=np.float32), 0)


# Intervals


def test_effective_draws_are_those_of_a_topics_probable_words():
    array_stats = pytest.importorskip("arviz_stats.base").array_stats
    draws = _make_chains(1)[0][0]
    draws[:, 2] = np.repeat(draws[::20, 2], 20, axis=0)  # a topic that moves every twentieth draw
    found = effective_draws(draws)
    words = np.argsort(-draws.mean(axis=0, dtype=np.float64)[4])[:10]
    series = draws[np.newaxis][:, :, 4, words].astype(np.float64)
    assert found[4] == pytest.approx(np.median(array_stats.ess(series, chain_axis=0, draw_axis=1)), rel=1e-12)
    assert 5 < found[2] < 19
    assert np.all(np.delete(found, 2) > 100)
    assert np.isnan(effective_draws(draws[:49])).all()


def test_effective_draws_are_not_known_without_arviz(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_stats.base", None)
    assert np.isnan(effective_draws(_make_chains(1)[0][0])).all()


# Diagnostics


def _one_order(n_chains, n_topics):
    return ChainMatch(np.tile(np.arange(n_topics), (n_chains, 1)), np.ones((n_chains, n_topics)), 0)


def test_chains_that_agree_have_rhat_one_and_as_many_effective_draws_as_draws():
    pytest.importorskip("arviz_stats.base")
    components, weights, _, _ = _make_chains()
    match = match_chains(components, BEST)
    found = diagnose_topics(components, weights, match)
    assert np.all((found.rhat > 0.99) & (found.rhat < 1.05))
    assert np.all((found.ess > 400) & (found.ess < 1100))  # the least of 11 estimates for 800 independent draws
    assert np.all(found.similarity > 0.999)
    assert found.is_stable.dtype == bool
    assert found.is_stable.all()
    unmatched = diagnose_topics(components, weights, match._replace(permutations=np.tile(np.arange(5), (4, 1))))
    assert np.all(unmatched.rhat > 1.5)
    assert np.all(unmatched.ess < 20)


def test_the_worst_quantity_speaks_for_its_topic():
    array_stats = pytest.importorskip("arviz_stats.base").array_stats
    components, weights, orders, _ = _make_chains()
    components = permute_topics(components, _undo(orders, BEST))
    weights = permute_topics(weights, _undo(orders, BEST))
    match = match_chains(components, BEST)
    found = diagnose_topics(components, weights, match, n_words=3)
    for topic, mean in enumerate(components[BEST].mean(axis=0)):
        words = np.argsort(mean)[-3:]
        series = np.concatenate([weights[:, :, topic : topic + 1], components[:, :, topic, words]], axis=2)
        rhat = array_stats.rhat(series, chain_axis=0, draw_axis=1)
        ess = array_stats.ess(series, chain_axis=0, draw_axis=1)
        assert found.rhat[topic] == pytest.approx(rhat.max(), rel=1e-12)
        assert found.ess[topic] == pytest.approx(ess.min(), rel=1e-12)
    by_weight = diagnose_topics(None, weights, match)
    assert np.all(by_weight.rhat <= found.rhat)
    assert np.any(by_weight.rhat < found.rhat)
    # One chain differs in one probable word of topic 2, and in a word of topic 3 that nobody looks at.
    components[3, :, 2, np.argmax(components[BEST].mean(axis=0)[2])] *= 0.7
    components[3, :, 3, np.argmin(components[BEST].mean(axis=0)[3])] = 0.0
    shifted = diagnose_topics(components, weights, match, n_words=3)
    assert shifted.rhat[2] > 1.2
    np.testing.assert_array_equal(np.delete(shifted.rhat, 2), np.delete(found.rhat, 2))


@pytest.mark.parametrize("chain", [0, 2])
def test_a_topic_that_one_chain_lacks_is_not_stable(chain):
    pytest.importorskip("arviz_stats.base")
    components, weights, orders, _ = _make_chains()
    lacking = 3  # in the order of the best chain
    other = _make_chains(1, 200, seed=5)[0][0, :, 0]
    place = _undo(orders, BEST)[chain, lacking]
    components[chain, :, place] = other
    match = match_chains(components, BEST)
    found = diagnose_topics(components, weights, match)
    expected = np.ones(5, dtype=bool)
    expected[lacking] = False
    np.testing.assert_array_equal(found.is_stable, expected)
    assert found.similarity[lacking] == match.similarity[chain, lacking] < 0.5
    assert found.rhat[lacking] > 1.2
    assert np.all(found.rhat[expected] < 1.05)
    lax = diagnose_topics(components, weights, match, threshold=found.similarity[lacking])
    assert lax.is_stable.all()


def test_one_chain_cannot_show_that_it_is_stable():
    pytest.importorskip("arviz_stats.base")
    components, weights, _, _ = _make_chains(1)
    found = diagnose_topics(components, weights, match_chains(components, 0))
    assert np.isnan(found.similarity).all()
    assert np.isnan(found.rhat).all()
    assert not found.is_stable.any()
    assert np.all((found.ess > 80) & (found.ess < 300))


def test_few_draws_tell_nothing_of_convergence():
    pytest.importorskip("arviz_stats.base")
    components, weights, _, _ = _make_chains(2, 3)
    found = diagnose_topics(components, weights, match_chains(components, 0))
    assert np.isnan(found.rhat).all()
    assert np.isnan(found.ess).all()
    assert found.is_stable.all()
    components, weights, _, _ = _make_chains(2, 49)
    found = diagnose_topics(components, weights, match_chains(components, 0))
    assert np.isfinite(found.rhat).all()
    assert np.isnan(found.ess).all()


def test_what_cannot_move_is_left_out_and_what_does_not_is_told():
    pytest.importorskip("arviz_stats.base")
    components, weights, _, _ = _make_chains(n_topics=1)
    weights[:] = 1.0  # an only topic has it all
    found = diagnose_topics(components, weights, match_chains(components, 0))
    assert 0.99 < found.rhat[0] < 1.05
    assert found.ess[0] > 400
    assert np.isnan(diagnose_topics(None, weights, _one_order(4, 1)).rhat[0])
    components[2] = components[2, :1]  # a chain that stands still
    stuck = diagnose_topics(components, weights, match_chains(components, 0))
    assert np.isnan(stuck.ess[0])
    assert stuck.rhat[0] > 1.2


def test_without_arviz_a_sentence_says_what_to_install(monkeypatch):
    _, weights, _, _ = _make_chains(2, 4)
    for module in ("arviz_stats.base", "arviz_base"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=re.escape(f"needs arviz-stats: {install_command('arviz')}")):
        diagnose_topics(None, weights, _one_order(2, 5))
    with pytest.raises(ImportError, match=re.escape(f"needs arviz-base: {install_command('arviz')}")):
        to_arviz({"topic_weights": weights})


# Export


def _make_posterior():
    components, weights, orders, _ = _make_chains(n_draws=8)
    traces = np.random.default_rng(0).normal(size=(4, 8))
    return {"log_joint": traces, "topic_weights": weights, "components": components}, _undo(orders, BEST)


def test_arviz_gets_matched_topics_with_names():
    pytest.importorskip("arviz_base")
    posterior, permutations = _make_posterior()
    names = [f"word{v}" for v in range(30)]
    tree = to_arviz(posterior, permutations, names)
    assert set(tree.children) == {"posterior", "sample_stats"}
    assert tree.posterior.components.dims == ("chain", "draw", "topic", "word")
    assert tree.posterior.topic_weights.dims == ("chain", "draw", "topic")
    assert tree.posterior.components.dtype == np.float32
    np.testing.assert_array_equal(tree.sample_stats.lp, posterior["log_joint"])
    expected = posterior["components"][2, :, permutations[2, 3], 4]
    np.testing.assert_array_equal(tree.posterior.components.sel(chain=2, topic=3, word="word4"), expected)
    expected = posterior["topic_weights"][2, :, permutations[2, 3]]
    np.testing.assert_array_equal(tree.posterior.topic_weights.sel(chain=2, topic=3), expected)


def test_arviz_gets_what_there_is():
    pytest.importorskip("arviz_base")
    posterior, _ = _make_posterior()
    del posterior["components"]
    posterior["log_likelihood"] = posterior.pop("log_joint")
    posterior["doc_topic_prior"] = 2 * posterior["topic_weights"]
    posterior["concentration"] = posterior["log_likelihood"] ** 2
    tree = to_arviz(posterior)
    assert set(tree.posterior.data_vars) == {"topic_weights", "doc_topic_prior", "concentration"}
    assert set(tree.sample_stats.data_vars) == {"log_likelihood"}
    assert tree.posterior.concentration.dims == ("chain", "draw")
    assert to_arviz({"topic_weights": posterior["topic_weights"][:, :3]}).posterior.sizes["draw"] == 3  # of 4 chains
    np.testing.assert_array_equal(tree.posterior.topic_weights, posterior["topic_weights"])


def test_thinned_topics_have_draws_of_their_own():
    pytest.importorskip("arviz_base")
    posterior, permutations = _make_posterior()
    whole = to_arviz(posterior, permutations)
    posterior["components"] = posterior["components"][:, 1::3]
    with pytest.raises(ValueError, match="kept draws as component_draws"):
        to_arviz(posterior, permutations)
    tree = to_arviz(posterior, permutations, component_draws=[1, 4, 7])
    thinned = tree.posterior_thinned
    assert set(tree.children) == {"posterior", "sample_stats", "posterior_thinned"}
    np.testing.assert_array_equal(thinned.components, whole.posterior.components.sel(draw=thinned.draw))
    rest = tree.posterior.sel(draw=thinned.draw)
    np.testing.assert_array_equal(rest.topic_weights, whole.posterior.topic_weights[:, 1::3])


def test_unknown_axes_are_refused():
    pytest.importorskip("arviz_base")
    posterior, permutations = _make_posterior()
    with pytest.raises(ValueError, match=r"axes of 'proportions', of shape \(4, 8, 5\), have no names"):
        to_arviz({**posterior, "proportions": posterior["topic_weights"]}, permutations)
