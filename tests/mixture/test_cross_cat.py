"""`CrossCat` on tables with planted views: what a fit finds, what its methods return, and what they refuse."""

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
from skmanifold.mixture._views import comparisons
from skmanifold.models import IncompatibleError
from skmanifold.samplers import Slice, ViewSlice

SHORT = {"max_iter": 4, "burn_in": 2, "thin": 1, "n_chains": 1, "random_state": 0}
N = 200


def planted():
    """A table with two views and two columns of noise, in mixed order, and the groups of the rows in both views."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(3, size=N), rng.integers(2, size=N)
    table = pd.DataFrame(
        {
            "a": 4.0 * first + rng.normal(size=N),
            "noise": rng.normal(size=N),
            "b": 5.0 * second + rng.normal(size=N),
            "kind": np.array(["x", "y", "z"])[np.where(rng.random(N) < 0.9, first, rng.integers(3, size=N))],
            "c": -4.0 * (first == 1) + rng.normal(size=N),
            "d": 100.0 - 30.0 * second + 8.0 * rng.normal(size=N),
            "seen": rng.random(N) < np.where(second, 0.9, 0.1),
            "coin": np.array(["h", "t"])[rng.integers(2, size=N)],
        },
        index=np.arange(1000, 1000 + N),
    )
    return table.mask(rng.random(table.shape) < 0.05), first, second


TABLE, FIRST, SECOND = planted()
ROWS_OF_EACH = ["predict", "transform", "score_samples", "uncertainty", "predict_proba", "surprisal", "impute"]


@pytest.fixture(scope="module")
def model():
    """Never change it."""
    return CrossCat(max_iter=40, n_chains=2, random_state=0).fit(TABLE)


@pytest.fixture(scope="module")
def of_numbers():
    X = TABLE[["a", "noise", "b", "c"]].to_numpy()
    return CrossCat(max_iter=10, n_chains=1, random_state=0).fit(X), X


def answers(model, X):
    """What each method of rows returns, as arrays whose first axis is that of the rows."""
    found = {name: getattr(model, name)(X) for name in ROWS_OF_EACH}
    found["predict_proba"] = np.hstack(found["predict_proba"])
    chosen = model.conditional(X, [1, 3])
    found["mean"], found["variance"] = chosen.mean(), chosen.variance()
    return {name: rows.to_numpy() if isinstance(rows, pd.DataFrame) else rows for name, rows in found.items()}


def one_draw(model, number):
    """The model with only one of its draws."""
    other = copy.copy(model)
    other._draws = [model._draws[number]]
    return other


# --- what a fit finds ------------------------------------------------------------------------------------


def test_planted_views_are_found(model):
    views = [set(view) for view in model.views_]
    assert {"a", "kind", "c"} in views
    assert {"b", "d", "seen"} in views
    assert model.n_views_ == len(model.views_) == model.column_labels_.max() + 1
    for names, groups in ({"a", "kind", "c"}, FIRST), ({"b", "d", "seen"}, SECOND):
        v = views.index(names)
        assert adjusted_rand_score(model.labels_[:, v], groups) > 0.9
        assert adjusted_rand_score(model.predict(TABLE)[:, v], groups) > 0.9
        assert set(np.unique(model.column_labels_[np.isin(TABLE.columns, list(names))])) == {
            model.column_labels_[list(TABLE.columns).index(min(names))]
        }
    dependence, errors = model.column_dependence(return_errors=True)
    assert dependence.loc["a", "c"] > 0.95
    assert dependence.loc["a", "b"] < 0.05
    assert dependence.loc["noise", ["a", "b", "kind", "seen"]].max() < 0.5
    np.testing.assert_array_equal(dependence, dependence.T)
    np.testing.assert_array_equal(np.diag(dependence), 1.0)
    assert errors.shape == dependence.shape
    assert np.diag(errors).max() == 0.0
    assert list(dependence.columns) == list(dependence.index) == list(TABLE.columns)


def test_posterior_has_the_draws(model):
    drawn, shape = model.posterior_, (2, 10)
    assert drawn.keys() == {"log_joint", "n_views", "view_concentration", "column_labels"}
    assert all(values.shape[:2] == shape for values in drawn.values())
    assert drawn["column_labels"].shape == (*shape, 8)
    np.testing.assert_array_equal(drawn["column_labels"].max(axis=2) + 1, drawn["n_views"])
    assert (drawn["view_concentration"] > 0).all()
    dependence = (drawn["column_labels"][..., None] == drawn["column_labels"][..., None, :]).mean(axis=(0, 1))
    np.testing.assert_allclose(model.column_dependence(), dependence)
    assert model.rhat_.keys() == {"log_joint", "n_views"}
    assert model.log_density_trace_.shape == (2, model.n_iter_) == (2, 40)
    assert model.to_arviz()["posterior"]["column_labels"].shape == (*shape, 8)


def test_clusters_may_be_set_after_the_fit(model):
    other = copy.copy(model).set_params(clusters="components")
    assert (other.n_components_ >= model.n_components_).all()
    assert other.transform(TABLE).shape[1] == other.n_components_.sum()
    for v in range(model.n_views_):
        pairs = np.unique(np.column_stack([other.labels_[:, v], model.labels_[:, v]]), axis=0)
        assert len(pairs) == other.n_components_[v]  # each component is in one cluster
        sizes = np.bincount(model.labels_[:, v])
        assert (np.diff(sizes) <= 0).all()


def test_summary_of_the_clusters_of_a_view(model):
    views = [set(view) for view in model.views_]
    v = views.index({"b", "d", "seen"})
    clusters, columns = model.cluster_summary(v)
    assert clusters["size"].tolist() == np.bincount(model.labels_[:, v]).tolist()
    assert {"b", "d", "seen"} <= set(clusters.columns)
    assert not {"a", "kind", "noise"} & set(clusters.columns)
    assert set(columns.index) == {"b", "d", "seen"}
    assert (columns["mutual_information"] > 0.2).all()
    for typical, label in zip(clusters["typical_row"], range(len(clusters)), strict=True):
        assert model.labels_[typical, v] == label
    for bad in (-1, model.n_views_, 1.5):
        with pytest.raises((ValueError, TypeError), match="view"):
            model.cluster_summary(bad)


# --- rows and cells --------------------------------------------------------------------------------------


def test_memberships_are_probabilities(model):
    found = model.predict_proba(TABLE)
    assert [of_view.shape for of_view in found] == [(N, K) for K in model.n_components_]
    for of_view in found:
        np.testing.assert_allclose(of_view.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.transform(TABLE), np.hstack(found))
    np.testing.assert_array_equal(model.predict(TABLE), np.stack([each.argmax(axis=1) for each in found], axis=1))
    np.testing.assert_allclose(model.uncertainty(TABLE), np.stack([1 - each.max(axis=1) for each in found], axis=1))
    assert len(model.get_feature_names_out()) == sum(model.n_components_)


def test_a_row_has_the_same_results_among_any_rows(model):
    whole, order = answers(model, TABLE), np.random.default_rng(1).permutation(N)
    assert_same(answers(model, TABLE.iloc[order]), {name: rows[order] for name, rows in whole.items()})
    for part in (slice(0, 1), slice(17, 60)):
        assert_same(answers(model, TABLE.iloc[part]), {name: rows[part] for name, rows in whole.items()})


def test_scores_of_rows_are_those_of_independent_views(model):
    """With one draw, the log density of a row is the sum of those of its cells in each view."""
    alone = one_draw(model, 3)
    draw, total = model._draws[3], np.zeros(N)
    for view in draw.views:
        others = TABLE.copy()
        others.iloc[:, np.setdiff1d(np.arange(8), view.columns)] = np.nan
        total += alone.score_samples(others)
    np.testing.assert_allclose(alone.score_samples(TABLE), total)
    nothing = TABLE.iloc[:3].copy()
    nothing.iloc[:] = np.nan
    np.testing.assert_allclose(model.score_samples(nothing), 0.0, atol=1e-12)
    of_draws = [one_draw(model, t).score_samples(TABLE) for t in range(len(model._draws))]
    np.testing.assert_allclose(model.score_samples(TABLE), np.logaddexp.reduce(of_draws) - np.log(len(of_draws)))
    assert model.score(TABLE) == pytest.approx(model.score_samples(TABLE).mean())


def test_surprisal_is_the_density_of_a_cell_given_the_others(model):
    found = model.surprisal(TABLE)
    assert found.shape == TABLE.shape
    assert list(found.columns) == list(TABLE.columns)
    assert list(found.index) == list(TABLE.index)
    np.testing.assert_array_equal(found.isna(), TABLE.isna())
    for j, name in enumerate(TABLE.columns):
        others, seen = TABLE.copy(), TABLE[name].notna()
        others[name] = np.nan
        gaps = []
        for t in range(len(model._draws)):
            alone = one_draw(model, t)
            gaps.append(alone.score_samples(TABLE) - alone.score_samples(others))
        expected = np.log(len(gaps)) - np.logaddexp.reduce(gaps)
        np.testing.assert_allclose(found.iloc[:, j][seen], expected[seen], atol=1e-10)


def test_surprisal_of_errors_is_large(model):
    wrong = TABLE.copy()
    wrong.loc[1000, ["a", "kind", "c"]] = [0.0, "z", 0.0]
    assert model.surprisal(wrong).loc[1000, "kind"] > np.nanquantile(model.surprisal(TABLE)["kind"], 0.98)


def test_cells_are_filled_from_their_view(model):
    filled = model.impute(TABLE)
    assert not filled.isna().any().any()
    pd.testing.assert_frame_equal(filled.where(TABLE.notna()), TABLE.where(TABLE.notna()), check_dtype=False)
    hidden = TABLE["kind"].isna()
    assert (filled["kind"][hidden] == np.array(["x", "y", "z"])[FIRST[hidden]]).mean() > 0.7
    gaps = filled["a"][TABLE["a"].isna()] - 4.0 * FIRST[TABLE["a"].isna()]
    assert np.sqrt((gaps**2).mean()) < 2.0
    several = model.impute(TABLE, n_draws=3, random_state=0)
    assert len(several) == 3
    assert not any(each.isna().any().any() for each in several)
    chosen = model.conditional(TABLE, ["seen", "a"])
    assert chosen.columns == ["seen", "a"]
    assert (chosen.predict()[0] == (SECOND == 1)).mean() > 0.85
    assert np.corrcoef(chosen.mean()[:, 1], 4.0 * FIRST)[0, 1] > 0.85
    with pytest.raises(ValueError, match="not_there"):
        model.conditional(TABLE, "not_there")


def test_rows_are_drawn_given_columns(model):
    rows = model.sample(400, random_state=0)
    assert list(rows.columns) == list(TABLE.columns)
    assert len(rows) == 400
    assert abs(rows["a"].corr(rows["c"]) - TABLE["a"].corr(TABLE["c"])) < 0.2
    assert abs(rows["a"].corr(rows["b"])) < 0.2
    assert abs(rows["b"].corr(rows["d"]) - TABLE["b"].corr(TABLE["d"])) < 0.15
    given = model.sample(400, given={"kind": "z", "d": 70.0}, random_state=0)
    assert (given["kind"] == "z").all()
    assert (given["d"] == 70.0).all()
    assert given["a"].mean() == pytest.approx(8.0, abs=1.0)  # a tenth of kinds is of any group
    assert given["b"].mean() == pytest.approx(5.0, abs=0.6)
    pd.testing.assert_frame_equal(given, model.sample(400, given={"kind": "z", "d": 70.0}, random_state=0))
    assert not given.equals(model.sample(400, given={"kind": "z", "d": 70.0}, random_state=1))
    pd.testing.assert_frame_equal(model.sample(3, given={3: "z"}, random_state=0)[["kind"]], given[["kind"]][:3])
    for bad, message in (
        ({"kind": "w"}, "'w' is no category of the column 'kind'"),
        ({"other": 1.0}, "other"),
        ({"a": "x"}, "'a'"),
        ({"a": None}, "'a'"),
        ({"a": np.inf}, "a finite number for the column 'a'; got inf"),
        ({"seen": 3}, "True or False for the column 'seen'; got 3"),
    ):
        with pytest.raises(ValueError, match=message):
            model.sample(2, given=bad)
    with pytest.raises(ValueError, match="n_samples"):
        model.sample(0)


# --- pairs -----------------------------------------------------------------------------------------------


def test_mutual_information_is_that_of_a_known_table():
    """Two columns that are equal with probability 0.9, and groups of numbers that are far apart."""
    groups = np.arange(400) % 2
    flipped = np.where(np.arange(400) // 2 % 10 == 0, 1 - groups, groups)
    rng = np.random.default_rng(0)
    numbers = [30.0 * (np.arange(400) // 2 % 2) + rng.normal(size=400) for _ in range(2)]
    X = pd.DataFrame({"a": np.array(["u", "v"])[groups], "b": np.array(["u", "v"])[flipped], "c": numbers[0]})
    X["d"] = numbers[1]
    model = CrossCat(max_iter=30, n_chains=1, init=[0, 0, 1, 1], random_state=0).fit(X)
    found = model.mutual_information()
    of_pair = np.log(2) + 0.9 * np.log(0.9) + 0.1 * np.log(0.1)
    assert found.loc["a", "b"] == pytest.approx(of_pair, abs=0.06)
    assert found.loc["c", "d"] == pytest.approx(np.log(2), abs=0.06)
    assert found.loc["a", "c"] < 0.05
    np.testing.assert_array_equal(found, found.T)
    assert np.isnan(np.diag(found)).all()
    pd.testing.assert_frame_equal(found, model.mutual_information(random_state=0))
    assert (found.fillna(0.0) >= 0).all().all()


def test_similarity_of_rows(model, monkeypatch):
    found = model.row_similarity()
    assert found.shape == (N, N)
    np.testing.assert_array_equal(np.diag(found), 1.0)
    np.testing.assert_allclose(found, found.T)
    of_view = model.row_similarity(columns=["b", "d", "seen"])
    same = SECOND[:, None] == SECOND
    assert of_view[same].mean() > 0.85
    assert of_view[~same].mean() < 0.1
    expected = np.mean(
        [
            [
                view.labels[:, None] == view.labels
                for view in draw.views
                for column in view.columns
                if column in (2, 5, 6)
            ]
            for draw in model._draws
        ],
        axis=(0, 1),
    )
    np.testing.assert_allclose(of_view, expected)
    again = model.row_similarity(TABLE)
    assert np.abs(again - found).mean() < 0.1
    others = model.row_similarity(TABLE[:7], TABLE[3:20], columns="a")
    assert others.shape == (7, 17)
    np.testing.assert_allclose(others, model.row_similarity(TABLE, TABLE, columns=["a"])[:7, 3:20])
    with pytest.raises(ValueError, match="needs X too"):
        model.row_similarity(Y=TABLE)
    with pytest.raises(ValueError, match="other"):
        model.row_similarity(columns="other")
    with pytest.raises(ValueError, match="at least one column"):
        model.row_similarity(columns=[])
    monkeypatch.setattr(comparisons, "_MAX_DENSE_BYTES", 1000)
    with pytest.raises(ValueError, match=r"row_similarity of 200 and 200 rows would take .* GiB"):
        model.row_similarity()
    assert model.row_similarity(TABLE[:5], TABLE[:5]).shape == (5, 5)


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
