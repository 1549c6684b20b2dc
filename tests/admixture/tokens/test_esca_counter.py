"""ESCA with approximate counters: who reads what is rounded, and how little it changes."""

import numpy as np
import pytest

from skmanifold import StochasticLDA
from skmanifold.admixture._tokens.compact_counts import read_rounded, round_counts
from skmanifold.models import IncompatibleError, LatentModel, RoundingModel, check_compatible, is_compatible
from skmanifold.random._keys import Purpose, subkey
from skmanifold.samplers import CVB0, ESCA, Gibbs

from .._corpora import easy_split, learned, small_corpus
from ..lda._lda_arrays import KEY, make_model

ROUNDING = ESCA(counter="approximate")


def common_words():
    """A model in which words have up to 3,000 tokens."""
    table = np.random.default_rng(0).poisson(40.0, (75, 20))
    return make_model(table, np.full(4, 0.5), 0.1)


def test_next_pass_reads_rounded_counts_with_exact_totals():
    model = common_words()
    state = ROUNDING.init(model, KEY)
    for n_steps in range(3):
        exact, key = state.statistics, subkey(KEY, Purpose.ROUNDING, n_steps)
        rounded = read_rounded(round_counts(exact, key))
        assert exact.counts.sum() == exact.totals.sum() == model.counts.n_tokens
        assert 0 < np.abs(rounded.counts - exact.counts).sum() < 0.1 * model.counts.n_tokens
        for ours, theirs in zip(state.position, model.mode(rounded), strict=True):
            assert ours.tobytes() == theirs.tobytes()
        np.testing.assert_array_equal(state.position.inverse, model.mode(exact).inverse)
        state = ROUNDING.step(model, state)


def test_exact_counters_are_read_as_they_are():
    model = common_words()
    state = ESCA().step(model, ESCA().init(model, KEY))
    for ours, theirs in zip(state.position, model.mode(state.statistics), strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_estimate_is_of_exact_counts():
    X = easy_split()[0]
    lda = StochasticLDA(5, sampler=ROUNDING, max_iter=8, random_state=0).fit(X)
    assert lda.topic_word_counts_.sum() == pytest.approx(X.sum(), rel=1e-6)
    np.testing.assert_allclose(lda.components_.sum(axis=1), 1, rtol=1e-5)


def test_where_no_word_is_common_both_counters_give_the_same_bytes():
    X = small_corpus()[:25]
    assert 100 < X.sum(axis=0).max() <= 255
    fits = [
        StochasticLDA(4, sampler=ESCA(counter=c), max_iter=6, random_state=0).fit(X) for c in ("exact", "approximate")
    ]
    assert learned(fits[0]) == learned(fits[1])


@pytest.mark.long
def test_held_out_perplexity_is_that_of_exact_counters_within_one_percent():
    train, test = easy_split()
    perplexity = {}
    for counter in ("exact", "approximate"):
        fits = [
            StochasticLDA(5, sampler=ESCA(counter=counter), max_iter=80, random_state=seed).fit(train)
            for seed in range(3)
        ]
        perplexity[counter] = min(fit.perplexity(test) for fit in fits)  # the best: a seed may end in a poor mode
    assert perplexity["approximate"] == pytest.approx(perplexity["exact"], rel=0.01)


def test_a_model_that_cannot_round_is_refused_in_one_sentence():
    class Plain:
        """Offers what ESCA asks, and no more."""

        def __init__(self):
            model = common_words()
            self.init_latents, self.sample_latents, self.mode = model.init_latents, model.sample_latents, model.mode

    assert is_compatible(ESCA(), Plain())
    assert is_compatible(ESCA, Plain())
    with pytest.raises(IncompatibleError) as refusal:
        check_compatible(ROUNDING, Plain(), [Gibbs, CVB0])
    assert str(refusal.value) == "ESCA needs a RoundingModel, which Plain does not offer."
    check_compatible(ROUNDING, common_words())
    assert ESCA.requires == ESCA().requires == (LatentModel,)
    assert ROUNDING.requires == (LatentModel, RoundingModel)


def test_streams_are_refused():
    assert hasattr(StochasticLDA(sampler=ESCA()), "partial_fit")
    assert not hasattr(StochasticLDA(sampler=ROUNDING), "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit") as refusal:
        StochasticLDA(sampler=ROUNDING).partial_fit(small_corpus())
    assert "needs a sampler that takes minibatches" in str(refusal.value.__cause__)
    assert "not ESCA(counter='approximate')" in str(refusal.value.__cause__)
