"""StochasticLDA among scikit-learn's pipelines, searches, data frames and callbacks."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skmanifold import StochasticLDA
from skmanifold.samplers import CVB0, ESCA, SCIR, SGLD, CollapsedGibbs, Gibbs

from .._corpora import learned, small_corpus

SAMPLERS = ("esca", "gibbs", "collapsed_gibbs", "cvb0", "em", "vb")


TEXTS = ["the cat sat on the mat with a cat", "a dog and a cat and a dog", "stocks fell as bonds and stocks rose"] * 8


def make_lda(**params):
    return StochasticLDA(**{"n_components": 3, "max_iter": 6, "thin": 2, "random_state": 0, **params})


# Searches and pipelines


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


# Callbacks


def test_scoring_monitor_logs_a_score_for_each_pass(sklearn_callback):
    monitor = sklearn_callback.ScoringMonitor(scoring={"held_in": lambda estimator, X, y: estimator.score(X, y)})
    lda = make_lda().set_callbacks(monitor).fit(small_corpus())
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


def test_verbose_prints_the_log_density_of_the_best_chain(capsys):
    lda = make_lda(verbose=2, n_chains=2).fit(small_corpus())
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"pass {i} of 6" for i in (2, 4, 6)]
    best = lda.log_density_trace_[:, 3:].mean(axis=1).argmax()
    assert lines[-1].endswith(f"log density {lda.log_density_trace_[best, -1]:.6g}")
    make_lda().fit(small_corpus())
    assert capsys.readouterr().out == ""


# Interruption


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
