"""`CrossCat` on a table with planted views: what a fit finds, and what its methods return."""

import copy

import numpy as np
import pandas as pd
import pytest
from persistence._fitted import assert_same
from sklearn.metrics import adjusted_rand_score

from skmanifold import CrossCat
from skmanifold.mixture._views import comparisons

from ._planted_views import (
    FIRST,
    SECOND,
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
