"""Scores on held-out rows, and stopping by them, on every estimator, in pipelines and in searches."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline

from skmanifold import (
    DPCategoricalMixture,
    DPMixture,
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    HDPAdmixture,
    HeldOutMonitor,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
    SubspaceClassifier,
    SubspaceMixture,
    VonMisesFisherMixture,
)
from skmanifold.admixture._lda.fit_strategies import TopicFit
from skmanifold.datasets import make_lda_corpus, save_corpus

rng = np.random.default_rng(0)
POINTS = rng.normal(size=(60, 3)) + 4 * np.eye(3)[rng.integers(3, size=60)]
CLASSES = (POINTS[:, 0] > 2).astype(int)
COUNTS = make_lda_corpus(n_samples=60, n_features=30, n_components=3, mean_length=40, random_state=0).data
CODES = rng.integers(0, 3, (60, 4)).astype(float)
SHORT = {"max_iter": 6, "burn_in": 2, "thin": 1, "random_state": 0}
CASES = {
    "lda": (StochasticLDA(3, **SHORT), COUNTS),
    "lda-gibbs": (StochasticLDA(3, sampler="gibbs", n_chains=2, **SHORT), COUNTS),
    "lda-scir": (StochasticLDA(3, sampler="scir", batch_size=20, **SHORT), COUNTS),
    "family-admixture": (ExponentialFamilyAdmixture(3, **SHORT), COUNTS > 1),
    "hdp": (HDPAdmixture(init=5, **SHORT), COUNTS),
    "spherical": (SphericalAdmixture(3, **SHORT), COUNTS),
    "orthogonal": (OrthogonalSphericalAdmixture(2, **SHORT), POINTS),
    "vmf": (VonMisesFisherMixture(3, max_iter=6, random_state=0), POINTS),
    "dp": (DPCategoricalMixture("multinomial", init=5, **SHORT), COUNTS),
    # EMISSIONS OF DPMixture: POINTS with the default, "gaussian", once Gaussian components have clusters.
    "dp-codes": (DPMixture("categorical", init=5, **SHORT), CODES),
    "subspaces": (SubspaceMixture(2, n_init=1, **SHORT), POINTS),
    "subspaces of any number": (SubspaceMixture(None, **SHORT), POINTS),
    "family-mixture": (ExponentialFamilyMixture(2, emission="gaussian", sampler="gibbs", **SHORT), POINTS),
}
each_estimator = pytest.mark.parametrize("name", CASES)


def case(name):
    estimator, X = CASES[name]
    X = X.astype(float)
    return clone(estimator), X.tocsr() if sp.issparse(X) else X


def split(n_rows, n_held):
    kept, held = next(ShuffleSplit(1, test_size=n_held, random_state=0).split(np.empty(n_rows)))
    return np.sort(kept), np.sort(held)


def curve(monitor):
    """Numbers of the passes that were scored, and the scores."""
    log = monitor.get_logs().data
    return [row["task_id"] + 1 for row in log], [row["score"] for row in log]


@each_estimator
def test_the_fit_is_that_of_the_rows_kept_and_the_score_that_of_the_rows_held_out(name):
    estimator, X = case(name)
    kept, held = split(60, 12)
    monitor = HeldOutMonitor(fraction=0.2)
    monitored = clone(estimator).set_callbacks(monitor).fit(X)
    plain = clone(estimator).fit(X[kept])
    passes, scores = curve(monitor)
    assert passes == list(range(1, len(passes) + 1))
    assert len(passes) == monitored.n_iter_ == plain.n_iter_
    assert monitored.score(X[held]) == plain.score(X[held]) == scores[-1]
    assert len(set(scores)) > 1
    assert not hasattr(monitored, "_pass_report")


@pytest.mark.parametrize("name", ["lda-scir", "vmf", "family-mixture"])
def test_rows_of_ones_own_are_scored_and_all_others_fitted(name):
    estimator, X = case(name)
    monitor = HeldOutMonitor(X[40:])
    monitored = clone(estimator).set_callbacks(monitor).fit(X[:40])
    plain = clone(estimator).fit(X[:40])
    assert curve(monitor)[1][-1] == plain.score(X[40:]) == monitored.score(X[40:])


def test_a_classifier_is_scored_when_it_is_fitted_on_rows_of_each_class():
    monitor = HeldOutMonitor(fraction=0.25)
    classifier = SubspaceClassifier(SubspaceMixture(1, **SHORT), random_state=0).set_callbacks(monitor)
    classifier.fit(POINTS, CLASSES)
    (row,) = monitor.get_logs().data
    assert row["task_name"] == "fit"
    assert 0.5 < row["score"] <= 1
    n_fitted = sum(mixture.labels_.size for mixture in classifier.mixtures_)
    assert n_fitted == 45
    assert abs(classifier.class_prior_[1] - CLASSES.mean()) < 1 / 45


@pytest.mark.parametrize(
    "convert", [np.asarray, sp.csr_array, sp.csc_matrix, sp.coo_array, pd.DataFrame, np.ndarray.tolist]
)
def test_rows_of_any_type_are_held_out(convert):
    X = COUNTS.toarray()
    monitor, same = HeldOutMonitor(fraction=0.2), HeldOutMonitor(fraction=0.2)
    StochasticLDA(3, **SHORT).set_callbacks(monitor).fit(convert(X))
    StochasticLDA(3, **SHORT).set_callbacks(same).fit(X)
    assert curve(monitor) == curve(same)


@pytest.mark.filterwarnings("ignore:EM stopped after")
def test_weights_go_with_their_rows():
    weights = rng.uniform(0.5, 2, 60)
    kept, held = split(60, 6)
    mixture = VonMisesFisherMixture(2, max_iter=5, random_state=0)
    monitor, custom = HeldOutMonitor(), HeldOutMonitor(scoring=lambda fitted, X, y: fitted.score(X))
    monitored = clone(mixture).set_callbacks(monitor)
    monitored.fit(POINTS, sample_weight=weights)
    plain = clone(mixture).fit(POINTS[kept], sample_weight=weights[kept])
    np.testing.assert_array_equal(monitored.mean_directions_, plain.mean_directions_)
    assert curve(monitor)[-1][-1] == plain.score(POINTS[held], sample_weight=weights[held]) != plain.score(POINTS[held])
    clone(mixture).set_callbacks(custom).fit(POINTS, sample_weight=weights)  # another score gets no weights
    assert curve(custom)[-1][-1] == plain.score(POINTS[held])


@pytest.mark.parametrize("name", ["vmf", "dp", "subspaces", "family-mixture"])
def test_fit_predict_labels_the_rows_held_out_too(name):
    estimator, X = case(name)
    estimator.set_callbacks(HeldOutMonitor(fraction=0.2))
    labels = estimator.fit_predict(X)
    assert len(estimator.labels_) == 48
    np.testing.assert_array_equal(labels, estimator.predict(X))
    kept_all = clone(estimator).set_callbacks(HeldOutMonitor(X[:9]))
    np.testing.assert_array_equal(kept_all.fit_predict(X), kept_all.labels_)


# When there are scores, and when a fit stops


@pytest.mark.parametrize(("every", "passes"), [(1, [1, 2, 3, 4, 5, 6, 7]), (3, [3, 6, 7]), (7, [7]), (100, [7])])
def test_passes_between_scores_cost_no_estimate(every, passes, monkeypatch):
    estimates = []
    made = TopicFit.estimate
    monkeypatch.setattr(TopicFit, "estimate", lambda self, chains: estimates.append(1) or made(self, chains))
    monitor = HeldOutMonitor(every=every)
    StochasticLDA(3, max_iter=7, random_state=0).set_callbacks(monitor).fit(COUNTS)
    assert curve(monitor)[0] == passes
    assert len(estimates) == len(passes) + 1  # and that of the end


class Falling:
    """Scores that rise for some passes and then fall."""

    def __init__(self, n_rising):
        self.n_rising, self.n_calls = n_rising, 0

    def __call__(self, estimator, X, y):
        self.n_calls += 1
        return -abs(self.n_calls - self.n_rising)


@pytest.mark.parametrize(
    ("n_rising", "burn_in", "patience", "n_iter"),
    [
        (5, 0, 3, 8),  # three after the fifth
        (5, 0, 1, 6),
        (1, 10, 2, 12),  # not in burn-in, and not before there is a draw, the second pass after it
        (30, 0, 3, 20),  # never
    ],
)
def test_a_fit_stops_when_scores_no_longer_rise(n_rising, burn_in, patience, n_iter):
    monitor = HeldOutMonitor(patience=patience, scoring=Falling(n_rising))
    lda = StochasticLDA(3, sampler="gibbs", max_iter=20, burn_in=burn_in, thin=2, random_state=0)
    lda.set_callbacks(monitor).fit(COUNTS)
    assert lda.n_iter_ == n_iter
    assert lda.posterior_["components"].shape[1] == (n_iter - burn_in) // 2 > 0


def test_small_gains_count_only_beyond_min_improvement():
    rising = HeldOutMonitor(patience=2, scoring=Falling(100), min_improvement=1.0)
    slow = HeldOutMonitor(patience=2, scoring=Falling(100), min_improvement=2.0)
    lda = StochasticLDA(3, max_iter=10, burn_in=0, thin=1, random_state=0)
    assert clone(lda).set_callbacks(rising).fit(COUNTS).n_iter_ == 10
    assert clone(lda).set_callbacks(slow).fit(COUNTS).n_iter_ == 3


def test_each_start_of_em_stops_by_itself():
    monitor = HeldOutMonitor(patience=1, scoring=Falling(3))
    VonMisesFisherMixture(3, n_init=2, tol=0, max_iter=9, random_state=0).set_callbacks(monitor).fit(POINTS)
    paths = [row["task_id_path"][1:] for row in monitor.get_logs().data]
    assert paths[:4] == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert max(start for start, _ in paths) == 1


def test_of_several_scores_the_first_decides():
    scoring = {"first": Falling(2), "second": Falling(50)}
    monitor = HeldOutMonitor(patience=2, scoring=scoring)
    lda = StochasticLDA(3, max_iter=10, burn_in=0, thin=1, random_state=0).set_callbacks(monitor).fit(COUNTS)
    assert lda.n_iter_ == 4
    assert set(monitor.get_logs().data[0]) >= {"first", "second"}


# Where the caller never sees the rows


def test_it_works_where_a_pipeline_makes_the_rows():
    words = np.array([f"w{i}" for i in range(30)])
    texts = [" ".join(np.repeat(words, row)) for row in COUNTS.toarray()]
    monitor = HeldOutMonitor(fraction=0.2)
    pipeline = make_pipeline(CountVectorizer(), StochasticLDA(3, **SHORT).set_callbacks(monitor)).fit(texts)
    _, held = split(60, 12)
    assert curve(monitor)[1][-1] == pipeline.score([texts[row] for row in held])


@pytest.mark.long
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_search_has_a_curve_for_each_fit(n_jobs):
    monitor = HeldOutMonitor(fraction=0.2, every=3)
    lda = StochasticLDA(**SHORT).set_callbacks(monitor)
    search = GridSearchCV(lda, {"n_components": [2, 3, 4]}, cv=2, n_jobs=n_jobs).fit(COUNTS)
    logs = monitor.get_logs("all")
    parents = {(log.run_id, row["parent_task_id_path"]) for log in logs for row in log.data}
    assert len(parents) == 7
    assert sum(len(log.data) for log in logs) == 14
    assert search.best_estimator_._skl_callbacks == [monitor]


def test_a_pickled_monitor_goes_on():
    monitor = HeldOutMonitor(fraction=0.3, every=2)
    StochasticLDA(3, **SHORT).set_callbacks(monitor).fit(COUNTS)
    again = pickle.loads(pickle.dumps(monitor))
    StochasticLDA(3, **SHORT).set_callbacks(again).fit(COUNTS)
    assert curve(again) == curve(monitor)
    assert len(again.get_logs("all")) == 2


def test_a_fit_that_fails_leaves_the_estimator_and_the_monitor_as_they_were():
    monitor = HeldOutMonitor()
    lda = StochasticLDA(3, **SHORT).set_callbacks(monitor).fit(COUNTS)
    before = lda.components_
    with pytest.raises(ValueError, match="Negative values"):
        lda.fit(-COUNTS)
    np.testing.assert_array_equal(lda.components_, before)
    assert len(monitor.get_logs("all")) == 1
    lda.fit(COUNTS)
    assert len(monitor.get_logs("all")) == 2


# Bad input


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"X_val": POINTS, "fraction": 0.1}, "not both"),
        ({"y_val": CLASSES}, "needs X_val if y_val is given"),
        ({"fraction": 1.0}, "fraction == 1.0, must be < 1"),
        ({"fraction": 0.0}, "fraction == 0.0, must be > 0"),
        ({"every": 0}, "every == 0"),
        ({"patience": 0}, "patience == 0"),
        ({"min_improvement": -1}, "min_improvement == -1"),
        ({"random_state": "seed"}, "seed"),
    ],
)
def test_settings_that_mean_nothing_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        HeldOutMonitor(**params)


def test_a_single_row_cannot_be_held_out():
    lda = StochasticLDA(3, **SHORT).set_callbacks(HeldOutMonitor())
    with pytest.raises(ValueError, match="at least two rows to hold one out, but X has n_samples=1"):
        lda.fit(COUNTS[:1])


def test_rows_on_disk_are_held_out_as_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("skmanifold.datasets._corpus._TOKENS_AT_ONCE", 200)
    corpora = [save_corpus(COUNTS[:40], tmp_path / "a"), save_corpus(COUNTS[40:], tmp_path / "b")]
    runs = []
    for rows in (COUNTS, corpora):
        monitor = HeldOutMonitor(fraction=0.3)
        lda = StochasticLDA(3, **SHORT).set_callbacks(monitor).fit(rows)
        runs.append((curve(monitor), lda.components_.tobytes()))
    assert runs[0] == runs[1]
    monitor = HeldOutMonitor(COUNTS[:9])
    lda.set_callbacks(monitor).fit(corpora)
    assert curve(monitor)[1][-1] == lda.score(COUNTS[:9])


def test_rows_of_an_unknown_type_cannot_be_held_out():
    class Rows:
        shape = COUNTS.shape

    with pytest.raises(ValueError, match="cannot hold out rows of a Rows, which is not in memory: pass X_val"):
        StochasticLDA(3, **SHORT).set_callbacks(HeldOutMonitor()).fit(Rows())


def test_an_estimator_that_does_not_tell_its_rows_is_refused(sklearn_callback):
    with pytest.raises(ValueError, match="does not support LogisticRegression: set it on an estimator of sk"):
        LogisticRegression().set_callbacks(HeldOutMonitor()).fit(POINTS, CLASSES)
