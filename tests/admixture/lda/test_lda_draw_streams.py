"""Streams of minibatches for the samplers that draw the topics."""

import re
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer

from skmanifold import StochasticLDA
from skmanifold.datasets import make_lda_corpus
from skmanifold.metrics import match_topics
from skmanifold.samplers import SCIR, SGHMC, SGLD, SGRHMC, SGRLD, SVRG, PolynomialDecay

from .._corpora import small_corpus

SAMPLERS = ("scir", "sgrld", "sgrhmc", "sgld", "sghmc")
CLASSES = {"scir": SCIR, "sgrld": SGRLD, "sgrhmc": SGRHMC, "sgld": SGLD, "sghmc": SGHMC}
EACH = pytest.mark.parametrize("sampler", SAMPLERS)


def make_lda(sampler, **params):
    name = sampler if isinstance(sampler, str) else sampler.short_name
    if name in ("sgrld", "sgrhmc"):  # below 1/2 they warn
        params.setdefault("topic_word_prior", 0.5)
    return StochasticLDA(3, sampler=sampler, **{"total_samples": 60, "thin": 1, "random_state": 0, **params})


def minibatches(size=10):
    """The first holds the empty document."""
    X = small_corpus()
    return [X[start : start + size] for start in range(0, X.shape[0], size)]


def stream(lda, batches=None):
    for batch in minibatches() if batches is None else batches:
        lda.partial_fit(batch)
    return lda


def arrays_of(state):
    """What a chain goes on with, without the buffers of a step."""
    if state.position is None:
        return [array.tobytes() for array in state.rows]
    return [getattr(state, name, np.empty(0)).tobytes() for name in ("position", "momentum")]


def left_by(lda):
    """All that is learned, and all that is to be gone on with, as bytes."""
    parts = {name: values.tobytes() for name, values in lda.posterior_.items()}
    states = (
        [(state.n_steps, state.key.tobytes(), *arrays_of(state)) for state in lda._stream.states] if lda._stream else []
    )
    new = small_corpus()
    results = (lda.components_, lda.transform(new), lda.transform(new, average_draws=True), lda.score(new))
    return {**parts, "results": [np.asarray(result).tobytes() for result in results], "states": states}


# Going on


@EACH
def test_after_fit_the_first_step_is_made_from_the_last_draw(sampler):
    tiny = CLASSES[sampler](step_size=1e-7)
    lda = make_lda(tiny, max_iter=2, burn_in=1).fit(small_corpus())
    last = lda.posterior_["components"][0, -1]
    begun = stream(make_lda(tiny, random_state=1), minibatches()[:1]).components_
    assert np.abs(begun - last).max() > 0.05
    np.testing.assert_allclose(stream(lda, minibatches()[:1]).components_, last, atol=1e-3)


@EACH
def test_the_first_step_of_a_stream_is_that_of_a_fit_to_all(sampler):
    """A minibatch of all documents, in a stream of as many, is one pass of fit over all at once."""
    fitted = make_lda(sampler, batch_size=None, max_iter=1, burn_in=0).fit(small_corpus())
    lda = stream(make_lda(sampler), [small_corpus()])
    np.testing.assert_array_equal(lda.posterior_["components"], fitted.posterior_["components"])
    np.testing.assert_array_equal(lda.posterior_["topic_weights"], fitted.posterior_["topic_weights"])
    per_token = fitted.posterior_["log_likelihood"] / small_corpus().sum()
    np.testing.assert_allclose(lda.posterior_["log_likelihood"], per_token, rtol=1e-12)


@pytest.mark.short_cases("600")
@pytest.mark.parametrize("total_samples", [60, 600])
def test_the_counts_of_a_minibatch_stand_for_the_whole_stream(total_samples):
    """One topic and steps so long that nothing is left of the last: Dirichlet draws given the scaled counts."""
    n, batch = 400, minibatches(20)[1]
    lda = make_lda(SCIR(step_size=50.0), total_samples=total_samples, n_local_sweeps=2, n_local_burn_in=1)
    stream(lda.set_params(n_components=1), [batch] * n)
    shapes = 0.1 + total_samples / 20 * np.asarray(batch.sum(axis=0)).ravel()
    mean, total = shapes / shapes.sum(), shapes.sum()
    draws = lda.posterior_["components"][0, :, 0].astype(np.float64)
    assert len(draws) == n // 2
    variance = mean * (1 - mean) / (total + 1)
    seen = mean * total > 1
    z = (draws.mean(axis=0) - mean)[seen] / np.sqrt(variance[seen] / len(draws))
    assert np.abs(z).max() < 4.5
    # Of some 25 words, each with the standard error sqrt(2 / 200) = 0.1.
    assert np.mean(draws[:, seen].var(axis=0) / variance[seen]) == pytest.approx(1, abs=4 * 0.1 / np.sqrt(seen.sum()))


# Draws


@pytest.mark.covering
@EACH
@pytest.mark.parametrize(("n_batches", "kept"), [(1, [1]), (2, [2]), (5, [3, 4, 5]), (6, [4, 5, 6])])
def test_draws_are_those_of_the_second_half_of_the_stream(sampler, n_batches, kept):
    lda, drawn = make_lda(sampler, n_chains=2), []
    for batch in minibatches()[:n_batches]:
        lda.partial_fit(batch)
        drawn.append({name: values[:, -1] for name, values in lda.posterior_.items()})
    posterior = lda.posterior_
    assert {name: values.shape for name, values in posterior.items()} == {
        "log_likelihood": (2, len(kept)),
        "topic_weights": (2, len(kept), 3),
        "components": (2, len(kept), 3, 40),
    }
    for name, values in posterior.items():
        np.testing.assert_array_equal(values, np.stack([drawn[t - 1][name] for t in kept], axis=1))
    np.testing.assert_allclose(posterior["topic_weights"].sum(axis=2), 1)
    np.testing.assert_allclose(posterior["components"].sum(axis=3), 1, rtol=1e-5)
    assert np.all(posterior["log_likelihood"] < 0)
    means = posterior["components"].mean(axis=1, dtype=np.float64)
    np.testing.assert_allclose(lda.components_, means[lda.best_chain_], rtol=1e-5, atol=1e-9)


@EACH
def test_every_thinth_minibatch_gives_a_draw(sampler):
    lda, n_draws = make_lda(sampler, thin=2), []
    for batch in minibatches() * 2:
        lda.partial_fit(batch)
        n_draws.append(lda.posterior_["components"].shape[1] if lda.posterior_ else 0)
    assert n_draws == [0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3]


@EACH
def test_draws_that_would_be_too_many_are_thinned_evenly(sampler):
    one = 2 * 3 * 40 * 4  # of each chain
    lda, whole = (make_lda(sampler, n_chains=2, max_draws_bytes=n * one) for n in (4, 100))
    for _ in range(3):
        stream(lda)
        stream(whole)
    assert lda._stream.stores[0].times.tolist() == [4, 8, 12, 16]  # of 18
    every = whole._stream.stores[0].times.tolist()
    assert every == list(range(1, 19))
    if sampler != "scir":  # whose lazy rows are drawn when a draw is taken
        assert np.array_equal(lda.posterior_["components"][:, -1], whole.posterior_["components"][:, 16 - 10])


@EACH
def test_before_the_first_draw_topics_are_those_of_the_state(sampler):
    lda = stream(make_lda(sampler, thin=100))
    assert lda.posterior_ == {}
    assert lda.components_.shape == (3, 40)
    assert lda.components_.min() >= 0
    np.testing.assert_allclose(lda.components_.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(lda.transform(small_corpus()).sum(axis=1), 1)
    assert np.isfinite(lda.score(small_corpus()))
    for method in (lda.credible_intervals, lda.topic_diagnostics, lda.to_arviz):
        with pytest.raises(ValueError, match=r"^No draws of the topics were kept"):
            method()
    if sampler != "scir":  # for which it is an expectation
        theta = np.abs(lda._stream.states[0].position[0]).T
        np.testing.assert_allclose(lda.components_, theta / theta.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-9)


@EACH
def test_without_room_for_a_draw_the_stream_works_all_the_same(sampler):
    lda = stream(make_lda(sampler, max_draws_bytes=0))
    assert lda.posterior_ == {}
    np.testing.assert_array_equal(lda.components_, stream(make_lda(sampler, thin=100)).components_)


@EACH
def test_uncertainty_of_a_stream_is_told(sampler):
    pytest.importorskip("arviz_base")
    pytest.importorskip("arviz_stats")
    lda = stream(make_lda(sampler, n_chains=2), minibatches() * 2)
    with pytest.warns(UserWarning, match=r"from 6 draws have level 71\.4%"):
        low, high = lda.credible_intervals()
    draws = lda.posterior_["components"][lda.best_chain_]
    np.testing.assert_allclose(low, draws.min(axis=0))  # of six draws
    np.testing.assert_allclose(high, draws.max(axis=0))
    assert lda.topic_diagnostics().similarity.shape == (3,)
    assert dict(lda.to_arviz()["posterior"].sizes) == {"chain": 2, "draw": 6, "topic": 3, "word": 40}


@EACH
def test_chains_of_a_stream_are_independent_and_the_first_does_not_depend_on_how_many(sampler):
    one, three = (stream(make_lda(sampler, n_chains=n)) for n in (1, 3))
    for name, values in one.posterior_.items():
        np.testing.assert_array_equal(three.posterior_[name][0], values[0])
    assert len({chain.tobytes() for chain in three.posterior_["components"]}) == 3
    assert 0 <= three.best_chain_ < 3


def test_the_best_chain_of_a_stream_is_that_of_the_likeliest_last_minibatches():
    found = set()
    for seed in range(6):
        lda = stream(make_lda("scir", n_chains=3, random_state=seed), minibatches() * 2)
        # A running mean: of all so far until there are twenty.
        every = stream(make_lda("scir", n_chains=3, random_state=seed), minibatches() * 2)._stream
        assert lda.best_chain_ == every.log_likelihood.argmax()
        found.add(lda.best_chain_)
    assert len(found) > 1


# Step sizes


@EACH
def test_steps_may_be_constant_or_fall(sampler):
    kind = CLASSES[sampler]
    constant, falling = (make_lda(kind(step_size=size)) for size in (0.005, PolynomialDecay(0.005, b=1.0, c=0.9)))
    asked = []

    class Spy(PolynomialDecay):
        def __call__(self, t):
            asked.append(t)
            return super().__call__(t)

    spied = make_lda(kind(step_size=Spy(0.005, b=1.0, c=0.9)))
    start = [stream(lda, minibatches()[:1]).components_ for lda in (constant, falling, spied)]
    np.testing.assert_array_equal(start[0], start[1])  # the first step is the same
    end = [stream(lda, minibatches()[1:]).components_ for lda in (constant, falling, spied)]
    assert np.abs(end[0] - end[1]).max() > 0
    np.testing.assert_array_equal(end[1], end[2])
    assert asked == list(range(6))


# Hashed words


def test_hashed_words_work_and_take_memory_for_the_topics_only():
    words = np.random.default_rng(0).integers(0, 500, (12, 30))
    texts = [" ".join(f"w{word}" for word in row) for row in words]
    X = HashingVectorizer(alternate_sign=False, norm=None, n_features=2**18).transform(texts)
    n_bytes = 4 * 5 * 2**18  # of one matrix of topics
    lda = StochasticLDA(5, sampler="scir", total_samples=12, thin=2, max_draws_bytes=3 * n_bytes, random_state=0)
    lda.partial_fit(X[:2])
    tracemalloc.start()
    try:
        for start in range(2, 12, 2):
            lda.partial_fit(X[start : start + 2])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Two new draws are held, another is being made, and what is a number a word is small beside 5.
    assert peak < 8 * n_bytes
    assert lda.posterior_["components"].shape[0] == 1
    assert lda.components_.shape == (5, 2**18)
    np.testing.assert_allclose(lda.components_.sum(axis=1), 1, rtol=1e-3)
    np.testing.assert_allclose(lda.transform(X).sum(axis=1), 1)
    assert np.isfinite(lda.score(X))


def test_rows_that_no_document_has_are_not_drawn_without_need():
    X = HashingVectorizer(alternate_sign=False, norm=None, n_features=2**18).transform(["some few words", "of a few"])
    lda = StochasticLDA(5, sampler="scir", total_samples=12, thin=100, random_state=0).partial_fit(X).partial_fit(X)
    rows = lda._stream.states[0].rows
    assert np.count_nonzero(~np.isnan(rows.read_time)) == len(np.unique(X.indices))


# Refusals


def refuse(lda, X, message, error=ValueError):
    """One sentence; nothing of what was learned, nor of what is gone on with, changes."""
    before, attributes = left_by(lda), dict(vars(lda))
    with pytest.raises(error, match=message) as refusal:
        lda.partial_fit(X)
    assert re.findall(r"\.(?=\s|$)", str(refusal.value)) in ([], ["."])
    assert left_by(lda) == before
    assert vars(lda).keys() == attributes.keys()
    assert all(vars(lda)[name] is attributes[name] for name in attributes)


def begun(sampler, how):
    lda = make_lda(sampler, max_iter=4)
    return lda.fit(small_corpus()) if how == "fit" else stream(lda, minibatches()[:2])


@pytest.mark.covering
@EACH
@pytest.mark.parametrize("how", ["fit", "stream"])
def test_what_cannot_follow_is_refused_and_leaves_all_as_it_was(sampler, how):
    lda = begun(sampler, how)
    refuse(lda, np.ones((2, 39)), r"X has 39 features, but StochasticLDA is expecting 40 features as input\.")
    refuse(lda, -np.ones((2, 40)), "^Negative values in data passed to StochasticLDA")
    refuse(lda, np.full((2, 40), 1e12), r"^X has a count of 1e\+12; at most 2147483647 are supported")
    name = CLASSES[sampler].__name__
    lda.set_params(n_components=4)
    refuse(lda, small_corpus(), r"^n_components=4, but the fitted model has 3 topics: call fit\.$")
    lda.set_params(n_components=3, sampler="esca")
    refuse(lda, small_corpus(), rf"^ESCA cannot continue a fit by {name}: call fit\.$")
    other = "sgld" if sampler != "sgld" else "scir"
    lda.set_params(sampler=other)
    refuse(lda, small_corpus(), rf"^{CLASSES[other].__name__} cannot continue a fit by {name}: call fit\.$")
    lda.set_params(sampler=sampler, n_local_sweeps=4, n_local_burn_in=4)
    refuse(lda, small_corpus(), r"^n_local_burn_in=4 leaves none of n_local_sweeps=4 sweeps\.$")
    lda.set_params(n_local_sweeps=20, n_local_burn_in=10, doc_topic_prior=[0.1, 0.2])
    refuse(lda, small_corpus(), r"^doc_topic_prior must have shape \(3,\)")
    lda.set_params(doc_topic_prior=None).partial_fit(small_corpus())


@EACH
@pytest.mark.parametrize("first", ["esca", "gibbs", "collapsed_gibbs", "cvb0"])
def test_a_stream_of_draws_cannot_begin_where_counts_stopped(sampler, first):
    lda = make_lda(first, max_iter=4).fit(small_corpus()).set_params(sampler=sampler)
    name = type(lda.sampler_).__name__
    refuse(lda, small_corpus(), rf"^{CLASSES[sampler].__name__} cannot continue a fit by {name}: call fit\.$")


ANCHORED = [kind(0.01, control_variate=SVRG(5)) for kind in (SGLD, SGRLD)]


@pytest.mark.parametrize("sampler", [SCIR(control_variate="stored"), *ANCHORED], ids=str)
def test_control_variates_are_not_for_streams(sampler):
    lda, without = make_lda(sampler), clone(sampler).set_params(control_variate=None)
    with pytest.raises(ValueError, match=r"^control_variate=.* needs all documents: use fit, not partial_fit\.$"):
        lda.partial_fit(small_corpus())
    assert vars(lda).keys() == lda.get_params(deep=False).keys()
    refuse(stream(make_lda(without)).set_params(sampler=sampler), small_corpus(), "control_variate")
    fitted = make_lda(sampler, max_iter=4).fit(small_corpus())
    refuse(fitted, small_corpus(), "control_variate")
    fitted.set_params(sampler=without)
    if sampler.control_variate == "stored":
        refuse(fitted, minibatches()[3], "stored")
    else:
        assert np.all(np.isfinite(fitted.partial_fit(small_corpus()).components_))


@EACH
def test_a_step_that_fails_leaves_the_stream_as_it_was(sampler, monkeypatch):
    """An error in the second of two chains, after the first has made its step."""
    lda = stream(make_lda(sampler, n_chains=2), minibatches()[:2])
    unharmed = left_by(stream(make_lda(sampler, n_chains=2)))
    before = left_by(lda)
    kind = CLASSES[sampler]
    original, calls = kind.step, []

    def step(self, model, state):
        after = original(self, model, state)
        calls.append(1)
        if len(calls) == 2:
            raise FloatingPointError("no more")
        return after

    monkeypatch.setattr(kind, "step", step)
    with pytest.raises(FloatingPointError, match="no more"):
        lda.partial_fit(minibatches()[2])
    monkeypatch.undo()
    assert lda.n_batch_iter_ == 2
    if sampler == "scir":  # its rows are shared with the step that failed: same law, other draws
        stream(lda, minibatches()[2:])
        assert np.all(np.isfinite(lda.components_))
        return
    assert left_by(lda) == before
    assert left_by(stream(lda, minibatches()[2:])) == unharmed


@pytest.mark.extended
@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(3))
def test_three_epochs_of_a_short_stream_find_planted_topics(seed):
    corpus = make_lda_corpus(n_samples=2000, n_features=1000, n_components=10, random_state=seed)
    lda = StochasticLDA(10, sampler="scir", total_samples=2000, random_state=seed)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        rows = rng.permutation(2000)
        for start in range(0, 2000, 50):
            lda.partial_fit(corpus.data[rows[start : start + 50]])
    assert match_topics(lda.components_, corpus.components).similarity.mean() > 0.88  # from the prior's law: .61 to .70
