"""StochasticLDA among scikit-learn's pipelines, searches, data frames and callbacks."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from skmanifold import StochasticLDA
from skmanifold.samplers import CVB0, ESCA, SCIR, SGLD, CollapsedGibbs, Gibbs

from .._corpora import easy_split, learned, small_corpus, small_fit

SAMPLERS = ("esca", "gibbs", "collapsed_gibbs", "cvb0", "em", "vb")
DRAWS_TOPICS = {"gibbs", "collapsed_gibbs", "scir", "sghmc"}
TEXTS = ["the cat sat on the mat with a cat", "a dog and a cat and a dog", "stocks fell as bonds and stocks rose"] * 8


def make_lda(**params):
    return StochasticLDA(**{"n_components": 3, "max_iter": 6, "thin": 2, "random_state": 0, **params})


# Searches and pipelines


def test_grid_search_finds_the_number_of_topics():
    grid = {"n_components": [1, 2, 5]}
    search = GridSearchCV(StochasticLDA(max_iter=40, random_state=0), grid, cv=2).fit(easy_split()[0][:600])
    assert search.best_params_ == {"n_components": 5}
    scores = search.cv_results_["mean_test_score"]
    assert np.all(np.diff(scores) > 0)
    assert np.all(scores < 0)


def test_grid_search_over_samplers_and_their_parameters():
    grid = [
        {"sampler": ["esca", "collapsed_gibbs", CVB0()]},
        {"sampler": ["esca"], "sampler__n_average": [1, 4]},
        {"sampler__n_average": [2]},
        {"sampler": ["gibbs"]},
        {"sampler": ["scir"], "sampler__step_size": [0.1, 0.5]},
        {"sampler": [SGLD()], "sampler__step_size": [0.01]},
    ]
    search = GridSearchCV(make_lda(), grid, cv=2, error_score="raise").fit(small_corpus())
    ran = [
        type(make_lda().set_params(**params).fit(small_corpus()).sampler_) for params in search.cv_results_["params"]
    ]
    assert ran == [ESCA, CollapsedGibbs, CVB0, ESCA, ESCA, ESCA, Gibbs, SCIR, SCIR, SGLD]
    assert len(set(search.cv_results_["mean_test_score"])) > 7
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])


def test_parameters_of_a_sampler_given_by_name_can_be_set():
    lda = make_lda().set_params(sampler__n_average=7)
    assert lda.sampler.get_params() == ESCA(n_average=7, exclude_self=True).get_params()
    assert lda.fit(small_corpus()).sampler_.n_average == 7
    assert lda.sampler_ is not lda.sampler
    lda.set_params(sampler="cvb0", max_iter=3)
    assert lda.sampler == "cvb0"
    with pytest.raises(ValueError, match="Invalid parameter 'n_average' for estimator CVB0"):
        lda.set_params(sampler__n_average=7)
    with pytest.raises(
        ValueError,
        match=r"Unknown sampler 'gibs' .* known names are 'esca', 'gibbs', 'collapsed_gibbs', 'cvb0', 'em', 'vb'",
    ):
        lda.set_params(sampler="gibs", sampler__n_average=7)


def test_cross_val_score_is_the_held_out_log_likelihood():
    X = easy_split()[0][:300]
    scores = cross_val_score(make_lda(n_components=5), X, cv=3)
    assert scores.shape == (3,)
    folds = np.array_split(np.arange(300), 3)
    expected = [make_lda(n_components=5).fit(X[np.setdiff1d(np.arange(300), fold)]).score(X[fold]) for fold in folds]
    np.testing.assert_array_equal(scores, expected)


def test_a_samplers_settings_for_topics_are_kept_when_one_is_set():
    lda = make_lda(sampler="sghmc").set_params(sampler__friction=2.0)
    assert (lda.sampler.friction, lda.sampler.step_size, lda.sampler.scheme) == (2.0, 0.1, "euler")
    lda = make_lda(sampler="scir").set_params(sampler__step_size__a=0.2)
    assert lda.sampler.step_size.get_params() == {"a": 0.2, "b": 10.0, "c": 0.6}
    # What is set here is set nowhere else.
    fresh = make_lda(sampler="scir").fit(small_corpus())
    assert fresh.sampler_.step_size.get_params() == {"a": 0.5, "b": 10.0, "c": 0.6}
    fresh.sampler_.step_size.set_params(a=0.1)
    assert make_lda(sampler="scir").fit(small_corpus()).sampler_.step_size.a == 0.5
    assert make_lda(sampler=SCIR()).fit(small_corpus()).sampler_.step_size == 0.5


@pytest.mark.short_cases("esca", "scir")
@pytest.mark.parametrize("sampler", [*SAMPLERS, "scir"])
def test_pipeline_from_strings_to_classes(sampler):
    labels = np.tile([0, 0, 1], 8)
    pipeline = make_pipeline(
        CountVectorizer(), make_lda(sampler=sampler, n_components=4, max_iter=30), LogisticRegression(C=1e4)
    )
    assert pipeline.fit(TEXTS, labels).score(TEXTS, labels) == 1
    pipeline.set_params(stochasticlda__sampler="esca", stochasticlda__sampler__n_average=3).fit(TEXTS, labels)
    assert pipeline[1].sampler_.n_average == 3


# Names and frames


def test_names_in_and_out():
    counts = CountVectorizer().fit(TEXTS)
    frame = pd.DataFrame(counts.transform(TEXTS).toarray(), columns=counts.get_feature_names_out())
    lda = make_lda().fit(frame)
    np.testing.assert_array_equal(lda.feature_names_in_, counts.get_feature_names_out())
    names = ["stochasticlda0", "stochasticlda1", "stochasticlda2"]
    assert lda.get_feature_names_out().tolist() == names
    plain = lda.transform(frame)
    lda.set_output(transform="pandas")
    out = lda.transform(frame.iloc[3:7])
    assert isinstance(out, pd.DataFrame)
    assert out.columns.tolist() == names
    assert out.index.tolist() == [3, 4, 5, 6]
    np.testing.assert_array_equal(out.to_numpy(), plain[3:7])
    assert isinstance(lda.predict(frame), np.ndarray)
    np.testing.assert_array_equal(lda.predict(frame), plain.argmax(axis=1))
    np.testing.assert_allclose(lda.inverse_transform(out).sum(axis=1), 1, rtol=1e-6)


def test_a_frame_gives_the_bytes_of_its_values():
    frame = pd.DataFrame(small_corpus().toarray(), columns=[f"w{i}" for i in range(40)])
    lda = StochasticLDA(4, max_iter=20, thin=2, random_state=0).fit(frame)
    assert learned(lda) == learned(small_fit())
    with pytest.raises(ValueError, match="feature names should match"):
        lda.transform(frame[frame.columns[::-1]])


# Callbacks


class Recorder:
    """Keeps what the hooks were given; stops the fit, or interrupts it, after the pass of this number."""

    def __init__(self, stop_after=None, interrupt_after=None):
        self.stop_after, self.interrupt_after = stop_after, interrupt_after
        self.begun, self.ended, self.scores, self.torn_down = [], [], [], 0

    def setup(self, estimator, context):
        assert context.max_subtasks == estimator.max_iter

    def teardown(self, estimator, context):
        self.torn_down += 1

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.begun.append((context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        self.ended.append((context.task_name, context.task_id))
        self.scores.append((fitted_estimator.score(X), fitted_estimator.components_))
        assert fitted_estimator is not estimator
        if context.task_name == "pass":
            if context.task_id + 1 == self.interrupt_after:
                raise KeyboardInterrupt
            return context.task_id + 1 == self.stop_after
        return None


def left_by(lda):
    """As `learned`, also where there are no counts."""
    draws = {name: values.tobytes() for name, values in lda.posterior_.items()}
    return {"components_": lda.components_.tobytes(), "trace": lda.log_density_trace_.tobytes(), **draws}


@pytest.mark.parametrize("sampler", [*SAMPLERS, "scir", "sghmc"])
def test_callbacks_see_each_pass_with_a_fitted_estimator(sampler):
    recorder = Recorder()
    lda = make_lda(sampler=sampler, n_chains=2).set_callbacks(recorder).fit(small_corpus())
    assert recorder.begun == [("fit", 0)] + [("pass", i) for i in range(6)]
    assert recorder.ended == [("pass", i) for i in range(6)] + [("fit", 0)]
    assert recorder.torn_down == 1
    scores, topics = zip(*recorder.scores, strict=True)
    # A pass without a draw leaves the predictive of the draws as it was.
    assert len(set(scores[:6])) == 6 - (sampler in DRAWS_TOPICS)
    assert (scores[4] == scores[5]) == (sampler in DRAWS_TOPICS)
    assert len({array.tobytes() for array in topics[:6]}) == 6
    assert scores[-1] == lda.score(small_corpus())
    np.testing.assert_array_equal(topics[-1], lda.components_)
    assert left_by(lda) == left_by(make_lda(sampler=sampler, n_chains=2).fit(small_corpus()))


@pytest.mark.covering
@pytest.mark.parametrize("sampler", [*SAMPLERS, "scir", "sghmc"])
@pytest.mark.parametrize(("stop_after", "n_draws"), [(1, 0), (4, 1), (5, 2), (9, 6)])
def test_a_callback_can_stop_the_fit_and_leaves_it_whole(sampler, stop_after, n_draws):
    lda = make_lda(sampler=sampler, max_iter=10, burn_in=3, thin=1).set_callbacks(Recorder(stop_after=stop_after))
    lda.fit(small_corpus())
    assert lda.n_iter_ == stop_after
    assert lda.log_density_trace_.shape == (1, stop_after)
    assert {draws.shape[:2] for draws in lda.posterior_.values()} == {(1, n_draws)}
    np.testing.assert_allclose(lda.components_.sum(axis=1), 1, rtol=1e-5)
    if sampler in SAMPLERS:
        assert lda.topic_word_counts_.sum() == pytest.approx(small_corpus().sum())
    assert np.isfinite(lda.score(small_corpus()))


def test_a_fit_stopped_late_is_as_good_as_a_shorter_one():
    train, test = easy_split()
    stopped = (
        StochasticLDA(5, max_iter=500, burn_in=20, random_state=0)
        .set_callbacks(Recorder(stop_after=60))
        .fit(train[:500])
    )
    short = StochasticLDA(5, max_iter=60, burn_in=20, random_state=0).fit(train[:500])
    np.testing.assert_array_equal(stopped.log_density_trace_, short.log_density_trace_)
    assert stopped.score(test) == pytest.approx(short.score(test), abs=0.005)


@pytest.mark.parametrize("sampler", [*SAMPLERS, "scir"])
def test_scoring_monitor_logs_a_score_for_each_pass(sampler, sklearn_callback):
    monitor = sklearn_callback.ScoringMonitor(scoring={"held_in": lambda estimator, X, y: estimator.score(X, y)})
    lda = make_lda(sampler=sampler).set_callbacks(monitor).fit(small_corpus())
    log = monitor.get_logs().data
    passes = [row["held_in"] for row in log if row["task_name"] == "pass"]
    assert len(passes) == 6
    assert np.all(np.isfinite(passes))
    assert passes[-1] > passes[0]
    assert [row["held_in"] for row in log if row["task_name"] == "fit"] == [lda.score(small_corpus())]


def test_scoring_monitor_takes_lists_and_frames_as_they_are_given(sklearn_callback):
    for X in (small_corpus().toarray().tolist(), pd.DataFrame(small_corpus().toarray()).add_prefix("w")):
        monitor = sklearn_callback.ScoringMonitor(
            scoring=lambda estimator, X, y: {"topics": len(estimator.transform(X)[0])}
        )
        make_lda().set_callbacks(monitor).fit(X)
        assert [row["topics"] for row in monitor.get_logs().data] == [3] * 7


def test_progress_bar_counts_the_passes(capsys, sklearn_callback):
    make_lda().set_callbacks(sklearn_callback.ProgressBar()).fit(small_corpus())
    out = capsys.readouterr().out
    assert "StochasticLDA - fit" in out
    assert "100%" in out


def test_verbose_prints_the_log_density_of_the_best_chain(capsys):
    lda = make_lda(verbose=2, n_chains=2).fit(small_corpus())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"pass {i} of 6" for i in (2, 4, 6)]
    best = lda.log_density_trace_[:, 3:].mean(axis=1).argmax()
    assert lines[-1].endswith(f"log density {lda.log_density_trace_[best, -1]:.6g}")
    make_lda().fit(small_corpus())
    assert capsys.readouterr().out == ""


# Interruption


@pytest.mark.parametrize("sampler", [*SAMPLERS, "scir", "sghmc"])
def test_an_interrupted_fit_leaves_an_unfitted_estimator_unfitted(sampler):
    recorder = Recorder(interrupt_after=5)
    lda = make_lda(sampler=sampler).set_callbacks(recorder)
    before = set(vars(lda))
    with pytest.raises(KeyboardInterrupt):
        lda.fit(small_corpus())
    assert set(vars(lda)) == before
    assert not hasattr(lda, "n_features_in_")
    assert not hasattr(lda, "components_")
    assert recorder.torn_down == 1
    assert left_by(lda.set_callbacks().fit(small_corpus())) == left_by(make_lda(sampler=sampler).fit(small_corpus()))


def test_an_interrupted_fit_leaves_a_fitted_estimator_as_it_was():
    frame = pd.DataFrame(small_corpus().toarray()).add_prefix("w")
    lda = make_lda().fit(frame)
    before, attributes = learned(lda), dict(vars(lda))
    lda.set_callbacks(Recorder(interrupt_after=2))
    with pytest.raises(KeyboardInterrupt):
        lda.fit(easy_split()[0][:50])
    assert learned(lda) == before
    assert lda.n_features_in_ == 40
    lda.set_callbacks()
    assert vars(lda).keys() == attributes.keys()
    assert all(vars(lda)[name] is attributes[name] for name in attributes)


def test_an_interrupted_partial_fit_leaves_the_stream_as_it_was(monkeypatch):
    class Interrupted(ESCA):
        armed = False

        def resume_stream(self, *args):
            raise KeyboardInterrupt

        def init_stream(self, *args):
            if self.armed:
                raise KeyboardInterrupt
            return super().init_stream(*args)

    lda = make_lda(sampler=Interrupted()).partial_fit(small_corpus())
    before, attributes = learned(lda), dict(vars(lda))
    with pytest.raises(KeyboardInterrupt):
        lda.partial_fit(small_corpus())
    assert learned(lda) == before
    assert all(vars(lda)[name] is attributes[name] for name in attributes)
    monkeypatch.setattr(Interrupted, "armed", True)
    fresh = make_lda(sampler=Interrupted())
    with pytest.raises(KeyboardInterrupt):
        fresh.partial_fit(small_corpus())
    assert vars(fresh).keys() == fresh.get_params(deep=False).keys()
