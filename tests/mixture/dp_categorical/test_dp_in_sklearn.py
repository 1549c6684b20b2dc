"""DPCategoricalMixture among scikit-learn's pipelines, searches, data frames and callbacks."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from skmanifold import DPCategoricalMixture
from skmanifold.datasets import make_categorical_mixture
from skmanifold.samplers import SCIR, SGRLD, Slice

from ..exponential_family._mixtures import EMISSIONS, SAMPLERS, data_of, learned, make, small_fit, small_table

each_sampler = pytest.mark.parametrize("sampler", SAMPLERS)
each_emission = pytest.mark.parametrize("emission", EMISSIONS)


def named_table(n_rows=200):
    """Names of categories, some missing, and the rows' components."""
    mixture = make_categorical_mixture(n_rows, 8, 3, category_prior=0.2, missing=0.1, random_state=4)
    names = np.array([*"abcd", np.nan], object)
    table = names[np.where(np.isnan(mixture.data), -1, mixture.data).astype(int)]
    return pd.DataFrame(table).add_prefix("q"), mixture.labels


def encoded(**params):
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    return make_pipeline(encoder, make("categorical", init=10, **params))


# Searches and pipelines


def test_names_with_gaps_come_through_a_pipeline():
    frame, labels = named_table()
    pipeline = encoded(max_iter=60).fit(frame[:150])
    assert adjusted_rand_score(labels[:150], pipeline[-1].labels_) > 0.9
    assert adjusted_rand_score(labels[150:], pipeline.predict(frame[150:])) > 0.9
    new = frame[150:].copy()
    new.iloc[0, 0] = "never seen"
    gap = frame[150:].copy()
    gap.iloc[0, 0] = np.nan
    np.testing.assert_array_equal(pipeline.score_samples(new), pipeline.score_samples(gap))


def test_texts_come_through_a_pipeline():
    texts = ["the cat sat on the mat", "a dog and a cat", "stocks fell as bonds rose", "bonds and stocks fell"] * 10
    pipeline = make_pipeline(CountVectorizer(), make("multinomial", max_iter=60, category_prior=0.1)).fit(texts)
    labels = pipeline.predict(texts)
    assert labels[0] != labels[2]
    assert np.isfinite(pipeline.score(texts))


@pytest.mark.extended
def test_grid_search_finds_the_prior_that_predicts():
    frame, _ = named_table()
    grid = {"dpcategoricalmixture__category_prior": [0.3, 10.0, 300.0]}
    search = GridSearchCV(encoded(max_iter=40), grid, cv=3, error_score="raise").fit(frame)
    assert search.best_params_ == {"dpcategoricalmixture__category_prior": 0.3}
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] > scores[1] + 0.5
    assert np.all(scores < 0)


def test_grid_search_over_samplers_and_their_parameters():
    grid = [
        {"sampler": ["slice", SCIR(0.1), SGRLD(step_size=0.001)]},
        {"sampler": ["slice"], "sampler__n_split_merge": [0, 3]},
        {"sampler__n_restricted_scans": [2]},
        {"sampler": ["scir"], "sampler__step_size": [0.05], "weights_sampler": [None, "sgrld", SCIR(0.2)]},
    ]
    search = GridSearchCV(make("categorical"), grid, cv=2, error_score="raise").fit(small_table())
    ran = [
        type(make("categorical").set_params(**params).fit(small_table()).sampler_)
        for params in search.cv_results_["params"]
    ]
    assert ran == [Slice, SCIR, SGRLD, Slice, Slice, Slice, SCIR, SCIR, SCIR]
    assert len(set(search.cv_results_["mean_test_score"])) > 6


def test_cross_val_score_is_the_held_out_log_density():
    X = small_table()
    scores = cross_val_score(make("categorical"), X, cv=3)
    folds = np.array_split(np.arange(len(X)), 3)
    expected = [make("categorical").fit(np.delete(X, fold, axis=0)).score(X[fold]) for fold in folds]
    np.testing.assert_array_equal(scores, expected)


def test_parameters_of_a_sampler_given_by_name_can_be_set():
    mixture = make("categorical").set_params(sampler__n_split_merge=2)
    assert mixture.sampler.get_params() == Slice(n_split_merge=2).get_params()
    assert mixture.fit(small_table()).sampler_.n_split_merge == 2
    assert mixture.sampler_ is not mixture.sampler
    mixture.set_params(sampler="scir", sampler__control_variate="stored")
    assert (mixture.sampler.step_size, mixture.sampler.control_variate) == (0.1, "stored")  # of a mixture, not of SCIR
    with pytest.raises(ValueError, match="Invalid parameter 'n_split_merge' for estimator SCIR"):
        mixture.set_params(sampler__n_split_merge=7)
    with pytest.raises(
        ValueError, match=r"Unknown sampler 'slide' for DPCategoricalMixture: .*'slice', 'scir', 'sgrld'"
    ):
        mixture.set_params(sampler="slide", sampler__n_split_merge=7)


# Names and frames


@each_emission
def test_a_frame_gives_the_bytes_of_its_values_and_is_known_by_its_names(emission):
    X = data_of(emission)
    frame = pd.DataFrame(X.toarray() if emission == "multinomial" else X).add_prefix("w")
    mixture = make(emission).fit(frame)
    expected = small_fit(emission)
    assert learned(mixture) == learned(expected)
    np.testing.assert_array_equal(mixture.feature_names_in_, frame.columns)
    np.testing.assert_array_equal(mixture.score_samples(frame), expected.score_samples(X))
    assert isinstance(mixture.predict(frame), np.ndarray)
    for method in ("predict", "score_samples", "co_clustering"):
        with pytest.raises(ValueError, match="feature names should match"):
            getattr(mixture, method)(frame[frame.columns[::-1]])


@each_emission
def test_fit_predict_is_the_point_partition(emission):
    labels = make(emission).fit_predict(data_of(emission), np.zeros(3))
    np.testing.assert_array_equal(labels, small_fit(emission).labels_)


# Callbacks


class Recorder:
    """Keeps what the hooks were given; stops the fit, or interrupts it, after the pass of this number."""

    def __init__(self, stop_after=None, interrupt_after=None):
        self.stop_after, self.interrupt_after = stop_after, interrupt_after
        self.begun, self.ended, self.seen, self.torn_down = [], [], [], 0

    def setup(self, estimator, context):
        assert context.max_subtasks == estimator.max_iter

    def teardown(self, estimator, context):
        self.torn_down += 1

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.begun.append((context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        assert fitted_estimator is not estimator
        self.ended.append((context.task_name, context.task_id))
        n = fitted_estimator.n_components_
        assert fitted_estimator.labels_.max() + 1 == n == len(fitted_estimator.weights_)
        assert fitted_estimator.predict_proba(X).shape == (X.shape[0], n)
        self.seen.append((fitted_estimator.score(X), fitted_estimator.labels_.tobytes()))
        if context.task_name == "pass":
            if context.task_id + 1 == self.interrupt_after:
                raise KeyboardInterrupt
            return context.task_id + 1 == self.stop_after
        return None


@pytest.mark.covering
@each_emission
@each_sampler
@pytest.mark.parametrize("n_chains", [1, 2])
def test_callbacks_see_each_pass_with_a_fitted_estimator(emission, sampler, n_chains):
    recorder, X = Recorder(), data_of(emission)
    mixture = make(emission, sampler, n_chains=n_chains).set_callbacks(recorder).fit(X)
    assert recorder.begun == [("fit", 0)] + [("pass", i) for i in range(12)]
    assert recorder.ended == [("pass", i) for i in range(12)] + [("fit", 0)]
    assert recorder.torn_down == 1
    scores, labels = zip(*recorder.seen, strict=True)
    # From the first draw on, after the sixth pass, a pass without one leaves the predictive as it was.
    assert [scores[i] == scores[i - 1] for i in range(1, 12)] == [False] * 5 + [True, False] * 3
    assert scores[-1] == mixture.score(X)
    assert len(set(labels)) > 3
    assert learned(mixture) == learned(make(emission, sampler, n_chains=n_chains).fit(X))


@pytest.mark.covering
@each_sampler
@pytest.mark.parametrize(("stop_after", "n_draws"), [(1, 0), (3, 0), (4, 1), (5, 2), (99, 7)])
@pytest.mark.parametrize("max_draws_bytes", [2**20, 0])
def test_a_callback_can_stop_the_fit_and_leaves_it_whole(sampler, stop_after, n_draws, max_draws_bytes):
    params = {"max_iter": 10, "burn_in": 3, "thin": 1, "max_draws_bytes": max_draws_bytes, "n_chains": 2}
    mixture = make("categorical", sampler, **params).set_callbacks(Recorder(stop_after=stop_after)).fit(small_table())
    n_iter = min(10, stop_after)
    assert mixture.n_iter_ == n_iter
    assert mixture.log_density_trace_.shape == (2, n_iter)
    assert mixture.posterior_["n_components"].shape == (2, n_draws)
    assert mixture.labels_.max() + 1 == mixture.n_components_ == len(mixture.weights_)
    assert np.isfinite(mixture.score(small_table()))
    assert mixture.predict_proba(small_table()).shape == (60, mixture.n_components_)
    assert learned(mixture).keys() >= {"log_joint"} or sampler != "slice"


@each_sampler
def test_scoring_monitor_logs_a_score_for_each_pass(sampler, sklearn_callback):
    monitor = sklearn_callback.ScoringMonitor(scoring={"held_in": lambda estimator, X, y: estimator.score(X, y)})
    mixture = make("categorical", sampler).set_callbacks(monitor).fit(small_table())
    log = monitor.get_logs().data
    passes = [row["held_in"] for row in log if row["task_name"] == "pass"]
    assert len(passes) == 12
    assert np.all(np.isfinite(passes))
    assert [row["held_in"] for row in log if row["task_name"] == "fit"] == [mixture.score(small_table())]


def test_progress_bar_counts_the_passes(capsys, sklearn_callback):
    make("categorical").set_callbacks(sklearn_callback.ProgressBar()).fit(small_table())
    out = capsys.readouterr().out
    assert "DPCategoricalMixture - fit" in out
    assert "100%" in out


def test_verbose_prints_the_log_density_of_the_best_chain(capsys):
    mixture = make("categorical", verbose=5, n_chains=2).fit(small_table())
    lines = capsys.readouterr().out.splitlines()
    best = mixture.log_density_trace_[:, 4:10].mean(axis=1).argmax()
    assert [line.split(":")[0] for line in lines] == [f"pass {i} of 12" for i in (5, 10)]
    assert lines[-1].endswith(f"log density {mixture.log_density_trace_[best, 9]:.6g}")


# Interruption


@each_emission
@each_sampler
def test_an_interrupted_fit_leaves_an_unfitted_estimator_unfitted(emission, sampler):
    recorder = Recorder(interrupt_after=5)
    mixture = make(emission, sampler).set_callbacks(recorder)
    before = set(vars(mixture))
    with pytest.raises(KeyboardInterrupt):
        mixture.fit(data_of(emission))
    assert set(vars(mixture)) == before
    assert not hasattr(mixture, "n_components_")
    assert recorder.torn_down == 1
    assert learned(mixture.set_callbacks().fit(data_of(emission))) == learned(small_fit(emission, sampler))


def test_an_interrupted_fit_leaves_a_fitted_estimator_as_it_was():
    frame = pd.DataFrame(small_table()).add_prefix("w")
    mixture = make("categorical").fit(frame)
    before, attributes = learned(mixture), dict(vars(mixture))
    mixture.set_callbacks(Recorder(interrupt_after=2))
    with pytest.raises(KeyboardInterrupt):
        mixture.fit(small_table()[:30, :4])
    assert learned(mixture) == before
    mixture.set_callbacks()
    assert vars(mixture).keys() == attributes.keys()
    assert all(vars(mixture)[name] is attributes[name] for name in attributes)


def test_the_interrupt_while_the_point_partition_is_sought_leaves_no_trace(monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("skmanifold.mixture._dirichlet_process.fit_strategy.point_estimate", interrupt)
    mixture = DPCategoricalMixture("categorical", max_iter=4, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        mixture.fit(small_table())
    assert vars(mixture).keys() == mixture.get_params(deep=False).keys()


def test_set_params_reaches_into_a_sampler_of_weights_given_by_name():
    mixture = DPCategoricalMixture(sampler="scir", weights_sampler="scir").set_params(weights_sampler__step_size=0.3)
    assert mixture.weights_sampler.step_size == 0.3
    assert mixture.sampler == "scir"
