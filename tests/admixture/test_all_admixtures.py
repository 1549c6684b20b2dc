"""What holds for each admixture with each sampler: threads, copies, streams, other rows, callbacks, interruptions."""

import pickle
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from callbacks._recorder import Recorder
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skmanifold import (
    ExponentialFamilyAdmixture,
    HDPAdmixture,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
)
from skmanifold.admixture._posterior.inference import TokenInference
from skmanifold.samplers import ESCA, SCIR

from ._corpora import as_bytes, easy_split, learned, small_corpus
from .exponential_family._family_data import EMISSIONS, grades_of_membership, small_rows, words_with_vectors
from .spherical._spherical_draws import signed_rows

pytestmark = [
    pytest.mark.filterwarnings(r"ignore:(batch_size|n_\w+)=\d+ has no effect:UserWarning"),  # all have the same
    pytest.mark.filterwarnings("ignore:.*kinetic temperature"),  # of few passes
]
SETTINGS = {"max_iter": 6, "burn_in": 2, "thin": 1, "n_chains": 2, "random_state": 0}


def cases():
    """By name: the estimator, rows, and the rows whose fit several threads divide."""
    found, easy = {}, easy_split()[0]
    for name, sampler in StochasticLDA._samplers.items():
        prior = 0.5 if name in ("sgrld", "sgrhmc") else None  # below 1/2 they warn
        mean_field = name in ("em", "vb", "svb")
        lda = StochasticLDA(20 if mean_field else 6, sampler=name, topic_word_prior=prior, **SETTINGS)
        if sampler.batching != "full" and name != "esca":
            lda.set_params(batch_size=600 if mean_field else 8)
        many = easy if mean_field else easy[:1000] if sampler.batching == "full" or name == "esca" else small_corpus()
        found[f"lda {name}"] = lda, small_corpus(), many
    variants = {"approximate": ESCA(counter="approximate"), "stored": SCIR(control_variate="stored")}
    for name, sampler in {**variants, "not lazy": SCIR(lazy=False)}.items():
        many = easy if name == "approximate" else small_corpus()
        lda = StochasticLDA(6, sampler=sampler, **SETTINGS)
        found[f"lda {name}"] = lda if name == "approximate" else lda.set_params(batch_size=8), small_corpus(), many
    for name in ("esca", "gibbs", "collapsed_gibbs", "cvb0"):
        lda = StochasticLDA(5, sampler=name, doc_topic_prior="auto", topic_word_prior="auto", **SETTINGS)
        found[f"auto priors {name}"] = lda.set_params(max_iter=22, burn_in=16), small_corpus(), small_corpus()
    found["hdp"] = HDPAdmixture(init=9, **SETTINGS), small_corpus(), easy[:1000]
    vectors, _, words = words_with_vectors()
    for emission in EMISSIONS:
        for sampler in ExponentialFamilyAdmixture._samplers:
            family = ExponentialFamilyAdmixture(3, emission=emission, sampler=sampler, **SETTINGS)
            X = small_rows(emission)
            many = np.tile(grades_of_membership()[2], (3, 1)) if emission == "bernoulli" else np.tile(X, (40, 1))
            if emission == "gaussian":
                family.set_params(word_vectors=vectors)
                X, many = words[:60].astype(float), np.tile(words, (4, 1))
            found[f"{emission} {sampler}"] = family, X, many
    X = signed_rows(60)
    for kind in (SphericalAdmixture, OrthogonalSphericalAdmixture):
        for name in kind._samplers:
            family = kind(3, sampler=name, batch_size=10, **SETTINGS)
            found[f"{kind.__name__} {name}"] = family, X, signed_rows(300, 30)
    for name in ("gsgnht", "svb"):
        each = SphericalAdmixture(3, sampler=name, document_concentration="per_topic", batch_size=10, **SETTINGS)
        found[f"concentration of each topic, {name}"] = each, X, signed_rows(300, 30)
    found["number of topics"] = OrthogonalSphericalAdmixture(None, n_size_moves=4, **SETTINGS), X, signed_rows(60, 30)
    return found


CASES = cases()
STREAMS = [name for name, (model, *_) in CASES.items() if hasattr(model, "partial_fit") and "auto" not in name]
STREAMS.remove("lda stored")  # which fits only
each = pytest.mark.parametrize("name", CASES)
each_stream = pytest.mark.parametrize("name", STREAMS)


@cache
def fitted(name):
    """Never change it."""
    model, X, _ = CASES[name]
    return clone(model).fit(X)


def answers(model, X):
    """What a fitted model says of rows, and of all together."""
    return as_bytes({"transform": model.transform(X), "predict": model.predict(X), "score": model.score(X)})


@each
def test_threads_and_other_chains_change_no_byte(name):
    model, _, X = CASES[name]
    one, other, alone, seeded = (
        clone(model).set_params(**changed).fit(X)
        for changed in ({"n_jobs": 1}, {"n_jobs": 3}, {"n_chains": 1}, {"random_state": 1})
    )
    assert learned(other) == learned(one)
    assert answers(other, X) == answers(one, X)
    assert alone.log_density_trace_.tobytes() == one.log_density_trace_[:1].tobytes()
    assert len({chain.tobytes() for chain in one.log_density_trace_}) == 2
    assert learned(seeded) != learned(one)


@each
def test_copies_and_later_fits_are_the_same(name):
    _, X, _ = CASES[name]
    model = fitted(name)
    copied = pickle.loads(pickle.dumps(model))
    assert learned(copied) == learned(model)
    assert answers(copied, X) == answers(model, X)
    assert learned(copied.fit(X)) == learned(model)
    cloned = clone(model)
    assert vars(cloned).keys() == cloned.get_params(deep=False).keys()
    assert learned(cloned.fit(X)) == learned(model)


@each
def test_a_row_has_the_same_answer_among_any_others(name):
    model, X = fitted(name), CASES[name][1]
    order = np.random.default_rng(1).permutation(X.shape[0])
    methods = [model.transform, model.predict, model.score_samples]
    if name.startswith(("lda", "bernoulli", "gaussian")):
        methods.append(lambda X: model.transform(X, average_draws=True))
    for method in methods:
        whole = method(X)
        np.testing.assert_array_equal(method(X[order]), whole[order])
        np.testing.assert_array_equal(np.concatenate([method(X[:7]), method(X[7:])]), whole)
    np.testing.assert_array_equal(
        np.vstack([model.transform(X[i : i + 1]) for i in range(12)]), model.transform(X)[:12]
    )


@pytest.mark.parametrize("name", [name for name in CASES if isinstance(CASES[name][0], TokenInference)])
def test_scores_of_rows_sum_to_the_score(name):
    model, X = fitted(name), CASES[name][1]
    scores, cells = model.score_samples(X), X.toarray() if sp.issparse(X) else X
    lengths = np.isfinite(cells).sum(axis=1) if name.startswith("bernoulli") else cells.sum(axis=1)
    scored = np.where(lengths >= 2, lengths - lengths // 2, 0)
    assert scores.sum() / scored.sum() == pytest.approx(model.score(X), rel=1e-12)
    assert np.all((scores != 0) == (scored > 0))


@each_stream
def test_a_stream_that_is_copied_and_asked_on_the_way_continues_to_the_byte(name):
    model, X, _ = CASES[name]
    whole, cut = (clone(model).set_params(total_samples=500, n_jobs=n_jobs) for n_jobs in (1, 2))
    for start in range(0, 60, 12):
        whole.partial_fit(X[start : start + 12])
        cut = pickle.loads(pickle.dumps(cut)).partial_fit(X[start : start + 12])
        answers(cut, X)
    assert whole.n_batch_iter_ == cut.n_batch_iter_ == 5
    assert learned(cut) == learned(whole)
    assert answers(cut, X) == answers(whole, X)
    assert learned(whole.set_params(total_samples=model.total_samples).fit(X)) == learned(fitted(name))
    assert whole.n_batch_iter_ == 0


@each_stream
def test_a_stream_continues_a_fit(name):
    X = CASES[name][1]
    model, copied = deepcopy(fitted(name)), pickle.loads(pickle.dumps(fitted(name)))
    for start in (0, 12):
        model.partial_fit(X[start : start + 12])
        copied = pickle.loads(pickle.dumps(copied.partial_fit(X[start : start + 12])))
    assert learned(copied) == learned(model)
    assert learned(model)["components_"] != learned(fitted(name))["components_"]
    assert model.n_batch_iter_ == 2
    assert not hasattr(model, "n_iter_")
    assert not hasattr(model, "log_density_trace_")


def look(fitted, X):
    return fitted.score(X), as_bytes(fitted.components_)


@each
def test_callbacks_see_each_pass_with_a_fitted_estimator_and_change_nothing(name):
    model, X, _ = CASES[name]
    recorder, n_passes = Recorder(look), model.max_iter
    model = clone(model).set_callbacks(recorder).fit(X)
    assert recorder.begun == [("fit", 0)] + [("pass", i) for i in range(n_passes)]
    assert recorder.ended == [("pass", i) for i in range(n_passes)] + [("fit", 0)]
    assert recorder.torn_down == 1
    assert np.isfinite([score for score, _ in recorder.found]).all()
    if not name.startswith("gaussian"):  # whose components begin where they end
        assert len({components for _, components in recorder.found}) > n_passes / 2
    assert recorder.found[-1] == (model.score(X), as_bytes(model.components_))
    assert learned(model) == learned(fitted(name))


@pytest.mark.covering
@pytest.mark.parametrize("stop_after", [1, 4, 5])
@each
def test_a_callback_can_stop_the_fit(name, stop_after):
    model, X, _ = CASES[name]
    model = clone(model).set_params(max_iter=8, burn_in=3).set_callbacks(Recorder(look, stop_after=stop_after)).fit(X)
    assert model.n_iter_ == stop_after
    assert model.log_density_trace_.shape == (2, stop_after)
    assert {draws.shape[:2] for draws in model.posterior_.values()} == {(2, max(0, stop_after - 3))}
    assert np.isfinite(model.score(X))
    assert model.transform(X).shape == (60, model.components_.shape[0])


@each
def test_an_interrupted_fit_leaves_the_estimator_as_it_was(name):
    model, X, _ = CASES[name]
    recorder = Recorder(look, interrupt_after=3)
    fresh = clone(model).set_callbacks(recorder)
    refitted = deepcopy(fitted(name)).set_callbacks(Recorder(look, interrupt_after=1))
    for estimator, rows in ((fresh, X), (refitted, X[::-1])):
        before = dict(vars(estimator))
        with pytest.raises(KeyboardInterrupt):
            estimator.fit(rows)
        assert vars(estimator).keys() == before.keys()
        assert all(vars(estimator)[attribute] is before[attribute] for attribute in before)
    assert recorder.torn_down == 1
    assert learned(fresh.set_callbacks().fit(X)) == learned(fitted(name))


@each
def test_an_estimator_that_is_not_fitted_has_no_results(name):
    model, X, _ = CASES[name]
    model = clone(model)
    for method in ("transform", "predict", "score", "perplexity", "score_samples", "inverse_transform"):
        if hasattr(model, method):
            with pytest.raises(NotFittedError, match=f"This {type(model).__name__} instance is not fitted yet"):
                getattr(model, method)(X)
    with pytest.raises(NotFittedError):
        model.get_feature_names_out()
    for attribute in ("components_", "posterior_", "log_density_trace_", "topic_word_counts_", "n_features_in_"):
        assert not hasattr(model, attribute)
