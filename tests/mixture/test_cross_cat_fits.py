"""`CrossCat`: tables, fits and their settings, and what they refuse."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from callbacks._recorder import Recorder
from persistence._fitted import assert_same
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skmanifold import CrossCat, DPMixture, HeldOutMonitor, ProgressBar, load
from skmanifold.emissions import Bernoulli, Categorical, Columns, Gaussian, NegativeBinomial, Poisson, Spikes
from skmanifold.mixture._views.inference import _rhat
from skmanifold.mixture._views.starts import dependent_columns
from skmanifold.models import IncompatibleError
from skmanifold.samplers import Slice, ViewSlice

from ._planted_views import (
    ROWS_OF_EACH,
    SHORT,
    TABLE,
    N,
    answers,
    model_of_numbers,
    model_of_table,
)


@pytest.fixture(scope="module")
def model():
    return model_of_table()


@pytest.fixture(scope="module")
def of_numbers():
    return model_of_numbers()


# --- tables ----------------------------------------------------------------------------------------------


def test_frames_and_the_order_of_their_columns(model):
    whole = answers(model, TABLE)
    assert_same(answers(model, TABLE[TABLE.columns[::-1]])["score_samples"], whole["score_samples"])
    polars = pl.from_pandas(TABLE.reset_index(drop=True))
    for name in ("predict", "score_samples", "transform"):
        assert_same(getattr(model, name)(polars), whole[name])
    assert isinstance(model.impute(polars), pl.DataFrame)
    fitted = clone(model).set_params(**SHORT).fit(polars)
    assert isinstance(fitted.sample(2, random_state=0), pl.DataFrame)
    expected = clone(model).set_params(**SHORT).fit(TABLE)
    assert_same(fitted.predict(polars), expected.predict(TABLE))
    assert list(model.feature_names_in_) == list(TABLE.columns)
    assert model.set_output(transform="pandas").transform(TABLE[:2]).shape == (2, sum(model.n_components_))
    model.set_output(transform="default")


def test_unknown_categories_and_columns(model):
    unknown = TABLE.copy()
    unknown.loc[1003, "kind"] = "w"
    with pytest.raises(ValueError, match=r"'kind'.*'w'"):
        model.predict(unknown)
    with pytest.raises(ValueError, match="lacks the column 'a' of fit"):
        model.predict(TABLE.rename(columns={"a": "other"}))
    with pytest.raises(ValueError, match="inf"):
        model.predict(TABLE.assign(a=np.inf))


def test_missing_cells_and_constant_columns():
    X = TABLE[["a", "c", "kind"]].assign(nothing=np.nan, same=2.0, one=["k"] * N)
    X.iloc[4] = [np.nan] * 4 + [2.0, "k"]
    X.iloc[5, :] = np.nan
    try:
        model = CrossCat(**SHORT).fit(X)
    except ValueError as error:
        assert "nothing" in str(error)  # noqa: PT017
        X = X.drop(columns="nothing")
        model = CrossCat(**SHORT).fit(X)
    for found in answers(model, X).values():
        assert len(found) == N
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.column_dependence()).all().all()
    assert np.isfinite(model.mutual_information().fillna(0.0)).all().all()
    assert model.score_samples(X)[5] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("shape", [(30, 1), (2, 3), (3, 2)])
def test_few_rows_or_columns(shape):
    X = np.random.default_rng(0).normal(size=shape)
    model = CrossCat(**SHORT).fit(X)
    assert model.labels_.shape == (shape[0], model.n_views_) == model.predict(X).shape
    assert sum(map(len, model.views_)) == shape[1]
    assert model.column_dependence().shape == (shape[1],) * 2
    assert np.isfinite(model.score_samples(X)).all()
    assert model.surprisal(X).shape == model.sample(shape[0]).shape == shape
    assert model.row_similarity().shape == model.row_similarity(X).shape == (shape[0],) * 2
    model.mutual_information()
    model.cluster_summary()


def test_one_row_needs_a_prior():
    with pytest.raises(ValueError, match=r"All rows of X \(n_samples=1\) are the same, so that there is no default"):
        CrossCat(**SHORT).fit([[1.0, 2.0]])
    emission = Columns([("numbers", Gaussian("diag", covariance_prior=1.0), slice(None))])
    model = CrossCat(emission, **SHORT).fit([[1.0, 2.0]])
    assert model.labels_.shape == model.predict([[1.0, 2.0]]).shape == (1, model.n_views_)


def test_arrays_have_no_names(of_numbers):
    model, X = of_numbers
    assert sorted(np.concatenate(model.views_).tolist()) == [0, 1, 2, 3]
    assert list(model.column_dependence().index) == [0, 1, 2, 3]
    assert isinstance(model.sample(2, given={0: 3.0}), np.ndarray)
    assert model.sample(2, given={0: 3.0})[:, 0].tolist() == [3.0, 3.0]
    np.testing.assert_allclose(model.score_samples(X.tolist()), model.score_samples(X))
    with pytest.raises(ValueError, match="feature"):
        model.predict(X[:, :3])


# --- fits ------------------------------------------------------------------------------------------------


def test_threads_change_no_byte(tmp_path):
    one, two = (CrossCat(n_jobs=n, **(SHORT | {"n_chains": 2})).fit(TABLE) for n in (1, 2))
    assert_same(answers(one, TABLE), answers(two, TABLE))
    assert_same(one.row_similarity(TABLE[:9]), two.row_similarity(TABLE[:9]))
    assert_same(one.set_params(n_jobs=None), two.set_params(n_jobs=None))
    for other in (pickle.loads(pickle.dumps(one)), load(one.save(tmp_path / "model") or tmp_path / "model")):
        assert_same(other, one)
        assert_same(answers(other, TABLE), answers(one, TABLE))
        assert_same(other.column_dependence().to_numpy(), one.column_dependence().to_numpy())
    assert_same(clone(one).fit(TABLE), one)
    other = clone(one).set_params(random_state=1).fit(TABLE)
    assert not np.array_equal(other.score_samples(TABLE), one.score_samples(TABLE))


def _other_labels(view):
    return view._replace(labels=view.labels[::-1][:-1].copy())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_other_labels, "has labels that are not those of its components"),
        (lambda view: view._replace(labels=view.labels * 0), "has labels that are not those of its components"),
        (lambda view: view._replace(columns=view.columns[::-1].copy()), "has columns that do not ascend"),
        (lambda view: view._replace(columns=view.columns[:1]), "has columns in no view, or in two"),
    ],
)
@pytest.mark.parametrize("place", ["_draws", "_estimate"])
def test_draws_that_disagree_are_not_saved(model, place, change, message, tmp_path):
    damaged = copy.copy(model)
    draw = model._estimate if place == "_estimate" else model._draws[0]
    v = int(np.argmax([len(view.columns) for view in draw.views]))
    views = tuple(change(view) if v == number else view for number, view in enumerate(draw.views))
    changed = draw._replace(views=views)
    setattr(damaged, place, changed if place == "_estimate" else [changed, *model._draws[1:]])
    with pytest.raises(ValueError, match=f"CrossCat cannot be saved.*({message}|not those of its estimate)"):
        damaged.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_failed_fit_leaves_the_old_one(of_numbers):
    model, X = copy.copy(of_numbers[0]), of_numbers[1]
    before = dict(vars(model))
    with pytest.raises(ValueError, match="inf"):
        model.fit(np.full((3, 2), np.inf))
    assert vars(model) == before
    recorder = Recorder(lambda fitted, X: None, interrupt_after=2)
    try:
        model.set_callbacks(recorder)
    except (ImportError, AttributeError):
        pytest.skip("callbacks need scikit-learn 1.9")
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert all(vars(model)[name] is value for name, value in before.items())


def test_callbacks_see_fitted_views():
    pytest.importorskip("sklearn.callback")
    seen = []
    recorder = Recorder(lambda fitted, X: seen.append(fitted.predict(TABLE).shape[0]), stop_after=3)
    model = CrossCat(**SHORT).set_callbacks(recorder).fit(TABLE)
    assert model.n_iter_ == 3
    assert set(seen) == {N}
    monitor = HeldOutMonitor(TABLE[:50])
    CrossCat(**SHORT).set_callbacks(monitor, ProgressBar()).fit(TABLE[50:])


def test_initial_views_and_fixed_ones():
    X = TABLE[["a", "b", "c", "d"]]
    model = CrossCat(init=[1, 0, 1, 0], max_iter=10, n_chains=2, random_state=0).fit(X)
    assert {frozenset(view) for view in model.views_} == {frozenset("ac"), frozenset("bd")}
    for bad in ([0, 1], [0.5, 1, 1, 1], "other", [[0, 1, 0, 1]], [-1, 0, 0, 0]):
        with pytest.raises(ValueError, match="init"):
            CrossCat(init=bad, **SHORT).fit(X)


def test_hyperparameters_may_be_learned_before_the_chains():
    model = CrossCat(hyperparameters="learn", **SHORT).fit(TABLE)
    assert np.isfinite(model.score_samples(TABLE)).all()
    drawn = CrossCat(**SHORT).fit(TABLE)
    assert not np.array_equal(drawn.score_samples(TABLE), model.score_samples(TABLE))


def test_blocks_of_other_emissions():
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=150)
    X = pd.DataFrame(
        {
            "calls": rng.poisson(2.0 + 8.0 * z).astype(float),
            "visits": rng.negative_binomial(3, 0.5 - 0.3 * z).astype(float),
            "rain": np.where(rng.random(150) < 0.4, 0.0, rng.normal(5.0, 1.0, 150)),
            "size": 5.0 * z + rng.normal(size=150),
            "yes": (rng.random(150) < 0.5).astype(float),
            "code": rng.integers(3, size=150),
        }
    )
    emission = Columns(
        [
            ("counts", Poisson(), ["calls"]),
            ("more", NegativeBinomial(), ["visits"]),
            ("spikes", Spikes(Gaussian("diag")), ["rain"]),
            ("numbers", Gaussian("diag"), ["size"]),
            ("events", Bernoulli(), ["yes"]),
            ("codes", Categorical(), ["code"]),
        ]
    )
    model = CrossCat(emission, max_iter=16, n_chains=1, random_state=0).fit(X)
    assert model.column_dependence().loc["calls", ["visits", "size"]].min() > 0.6
    for found in answers(model, X).values():
        assert np.isfinite(found.astype(float)).all()
    assert model.sample(5, random_state=0).shape == (5, 6)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "spherical"])
def test_columns_that_depend_within_components_are_refused(covariance_type):
    emission = Columns([("numbers", Gaussian(covariance_type), slice(None))])
    with pytest.raises(IncompatibleError) as refusal:
        CrossCat(emission, **SHORT).fit(TABLE[["a", "b"]])
    assert str(refusal.value) == (
        "CrossCat needs columns that are independent given the component, such as those of Gaussian('diag'), but the "
        "columns of the block 'numbers' are not."
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"view_concentration": 0.0}, "view_concentration"),
        ({"view_concentration_prior": (1.0, -1.0)}, "view_concentration_prior"),
        ({"concentration": -1.0}, "concentration"),
        ({"concentration_prior": (0.0, 1.0)}, "concentration_prior"),
        ({"concentration_prior": 3.0}, "concentration_prior"),
        ({"clusters": "other"}, "clusters"),
        ({"hyperparameters": "other"}, "hyperparameters"),
        ({"batch_size": 0}, "batch_size"),
        ({"emission": "gaussian"}, "emission"),
        ({"sampler": "slice"}, "sampler"),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(settings, message):
    model = CrossCat(**(SHORT | settings))
    with pytest.raises((ValueError, TypeError), match=message) as refusal:
        model.fit(TABLE[["a", "b"]])
    assert "\n" not in str(refusal.value)
    assert not hasattr(model, "n_views_")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (CrossCat(sampler=Slice()), "Slice needs a StickBreakingModel, which ViewModel does not offer"),
        (DPMixture(sampler=ViewSlice()), "ViewSlice needs a ViewPartitionModel, which DPModel does not offer"),
    ],
)
def test_samplers_of_other_models_are_refused(model, message):
    with pytest.raises(IncompatibleError, match=message):
        model.fit(TABLE[["a", "b"]].dropna().to_numpy())


def test_a_fit_without_draws():
    model = CrossCat(**(SHORT | {"thin": 5})).fit(TABLE)
    assert model.posterior_["n_views"].shape == (1, 0)
    expected = model.column_labels_[:, None] == model.column_labels_
    np.testing.assert_array_equal(model.column_dependence(), expected)
    assert np.isnan(model.column_dependence(return_errors=True)[1]).all().all()
    assert np.isnan(list(model.rhat_.values())).all()
    assert np.isfinite(model.score_samples(TABLE)).all()
    with pytest.raises(ValueError, match="No draws were kept"):
        model.to_arviz()


def test_methods_need_a_fit():
    for name in (*ROWS_OF_EACH, "row_similarity"):
        with pytest.raises(NotFittedError):
            getattr(CrossCat(), name)(TABLE)
    for name in ("column_dependence", "mutual_information", "cluster_summary", "sample", "row_similarity"):
        with pytest.raises(NotFittedError):
            getattr(CrossCat(), name)()


def test_a_step_of_a_pipeline(of_numbers):
    X = of_numbers[1]
    pipeline = make_pipeline(StandardScaler(), CrossCat(**SHORT)).fit(X)
    assert pipeline.predict(X).shape == (N, pipeline[-1].n_views_)


def test_concentrations_may_be_given():
    X = TABLE[["a", "b"]]
    model = CrossCat(view_concentration=2.0, concentration=0.5, **SHORT).fit(X)
    assert (model.posterior_["view_concentration"] == 2.0).all()
    assert all(view.rows.concentration == 0.5 for draw in model._draws for view in draw.views)
    minibatches = CrossCat(batch_size=40, **SHORT).fit(X)
    assert np.isfinite(minibatches.score(X))


def test_chains_begin_with_columns_that_depend_on_each_other():
    rng, n_wrong = np.random.default_rng(0), 0
    for key in range(100):
        pairs = rng.normal(size=(150, 1, 2)) + 0.3 * rng.normal(size=(150, 2, 2))
        labels = dependent_columns(np.hstack([rng.normal(size=(150, 3)), pairs.reshape(150, 4)]), np.uint64(key))
        n_wrong += adjusted_rand_score(labels, [2, 2, 2, 0, 1, 0, 1]) < 1.0
    assert n_wrong <= 4  # of a significance of 0.01
    assert dependent_columns(rng.normal(size=(90, 4)), np.uint64(1)).tolist() == [0] * 4


def test_r_hat_of_constant_chains():
    constant, changed = np.full((2, 10), 4.0), np.repeat([[3.0, 4.0], [4.0, 4.0]], 5, axis=1)
    assert _rhat(constant) == 1.0
    assert _rhat(changed) == _rhat(changed[:, [0] * 10]) == np.inf


def test_independent_groups_that_share_a_view_are_separated():
    rng = np.random.default_rng(0)
    first, second = rng.integers(2, size=200), rng.integers(3, size=200)
    X = rng.normal(size=(200, 6)) + 4.0 * np.stack([first, first, first, second, second, second], axis=1)
    model = CrossCat(init=np.zeros(6), n_chains=1, max_iter=60, random_state=0).fit(X)
    assert model.column_labels_.tolist() == [0, 0, 0, 1, 1, 1]
    for labels, found in zip((first, second), model.labels_.T, strict=True):
        assert adjusted_rand_score(labels, found) > 0.9
