"""Imputation and conditional distributions of mixtures, against closed forms."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skmanifold import DPMixture, ExponentialFamilyMixture, MixtureImputer
from skmanifold.emissions import Bernoulli, Categorical, Columns, Gaussian, NegativeBinomial, Poisson
from skmanifold.models import IncompatibleError

N_ERRORS = 4.5


def two_clusters(n=200, seed=0):
    """Two numbers, correlated within two clusters, and a category that follows the cluster."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    noise = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], n)
    X = np.array([[0.0, 0.0], [6.0, 3.0]])[z] + noise
    colours = np.where(rng.random(n) < 0.9, np.array(["blue", "red"])[z], "grey")
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "colour": colours}), z


def with_holes(X, share=0.2, seed=1):
    holes = np.random.default_rng(seed).random(X.shape) < share
    return X.mask(holes), holes


BLOCKS = Columns([("numbers", Gaussian(), ["a", "b"]), ("colours", Categorical(), ["colour"])])


def fitted(kind, X, **settings):
    if kind == "dp":
        return DPMixture(BLOCKS, random_state=0, max_iter=60, **settings).fit(X)
    return ExponentialFamilyMixture(2, emission=BLOCKS, sampler=kind, random_state=0, max_iter=60, **settings).fit(X)


# --- means ------------------------------------------------------------------------------------------------


def expected_by_hand(mixture, row):
    """Mean of a missing b given a and the colour, and probabilities of the colours, at the estimate."""
    numbers, colours = mixture.named_blocks_.numbers, mixture.named_blocks_.colours.components_[0]
    logs, means = np.log(mixture.weights_), []
    seen = ~np.isnan(row[:2])
    for k, (mean, covariance) in enumerate(zip(numbers.components_, numbers.covariances_, strict=True)):
        if seen.any():
            logs[k] += stats.multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(row[:2][seen])
        if not np.isnan(row[2]):
            logs[k] += np.log(colours[k, int(row[2])])
        filled = mean.copy()
        if seen.any() and not seen.all():
            slope = covariance[np.ix_(~seen, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
            filled[~seen] += slope @ (row[:2] - mean)[seen]
        means.append(filled)
    shares = np.exp(logs - np.logaddexp.reduce(logs))
    return shares @ np.array(means), shares @ colours


def test_means_are_those_of_the_conditional_distribution():
    X, _ = two_clusters()
    holed, holes = with_holes(X)
    mixture = fitted("em", holed)
    filled, names = mixture.impute(holed), mixture.categories_[2]
    codes = holed["colour"].map({name: code for code, name in enumerate(names)})
    rows = np.column_stack([holed[["a", "b"]], codes])
    for i in np.flatnonzero(holes.any(axis=1)):
        mean, probabilities = expected_by_hand(mixture, rows[i])
        for j in np.flatnonzero(holes[i, :2]):
            assert filled.iloc[i, j] == pytest.approx(mean[j], rel=1e-8)
        if holes[i, 2]:
            assert filled.iloc[i, 2] == names[probabilities.argmax()]
    np.testing.assert_array_equal(filled.to_numpy()[~holes], X.to_numpy()[~holes])


@pytest.mark.parametrize("kind", ["em", "gibbs", pytest.param("dp", marks=pytest.mark.extended)])
def test_conditionals_are_consistent(kind):
    X, _ = two_clusters()
    mixture = fitted(kind, with_holes(X)[0])
    found = mixture.conditional(X, ["b", "colour"])
    (_, probabilities), (_, names) = found.predict_proba(), found.categories
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert names.tolist() == ["blue", "grey", "red"]
    assert (found.predict()[1] == X["colour"]).mean() > 0.75
    gaps = (X["b"] - found.mean()[:, 0]) / np.sqrt(found.variance()[:, 0])
    assert 0.8 < np.std(gaps) < 1.25
    assert np.isnan(found.mean()[:, 1]).all()
    # The density of the columns given the others is a ratio of densities.
    hidden = X.copy()
    hidden["b"], hidden["colour"] = np.nan, None
    log_ratio = mixture.score_samples(X) - mixture.score_samples(hidden)
    np.testing.assert_allclose(found.log_density(X), log_ratio, rtol=1e-9, atol=1e-12)


def test_the_density_of_a_number_integrates_to_one_and_has_the_moments():
    X, _ = two_clusters(100)
    mixture = fitted("em", X)
    row = X.iloc[[0]]
    found = mixture.conditional(row, "b")
    grid = np.linspace(-15, 20, 4001)
    rows = pd.concat([row] * len(grid), ignore_index=True).assign(b=grid)
    density = np.exp(mixture.conditional(rows, "b").log_density(rows))
    step = grid[1] - grid[0]
    mean = (grid * density).sum() * step
    assert density.sum() * step == pytest.approx(1.0, abs=1e-6)
    assert found.mean()[0] == pytest.approx(mean, abs=1e-6)
    assert found.variance()[0] == pytest.approx(((grid - mean) ** 2 * density).sum() * step, abs=1e-5)


# --- draws ------------------------------------------------------------------------------------------------


def test_draws_have_the_conditional_distribution():
    """Many rows with the same observed cells: moments and shares of drawn cells at one draw of the parameters."""
    X, _ = two_clusters(400)
    mixture = fitted("gibbs", X)
    n = 4000
    rows = pd.DataFrame({"a": np.full(n, 3.0), "b": np.full(n, np.nan), "colour": [None] * n})
    (drawn,) = mixture.impute(rows, n_draws=1, random_state=0)
    mixture._draws = mixture._draws[:1]  # the draw that was used
    (again,) = mixture.impute(rows, n_draws=1, random_state=0)
    pd.testing.assert_frame_equal(drawn, again)
    found = mixture.conditional(rows, ["b", "colour"])
    mean, variance = found.mean()[0, 0], found.variance()[0, 0]
    error = np.sqrt(variance / n)
    assert abs(drawn["b"].mean() - mean) < N_ERRORS * error
    squares = (drawn["b"] - mean) ** 2
    assert abs(squares.mean() - variance) < N_ERRORS * squares.std() / np.sqrt(n)
    probabilities = found.predict_proba()[1][0]
    for name, p in zip(mixture.categories_[2], probabilities, strict=True):
        assert abs((drawn["colour"] == name).mean() - p) < N_ERRORS * np.sqrt(p * (1 - p) / n)


@pytest.mark.parametrize(
    ("emission", "draw"),
    [
        (NegativeBinomial(), lambda rng: rng.negative_binomial(2, [0.3, 0.5], (200, 2))),
        (Poisson(), lambda rng: rng.poisson([2.0, 9.0], (200, 2))),
        (Bernoulli(), lambda rng: rng.random((200, 2)) < [0.2, 0.7]),
        (Gaussian("diag"), lambda rng: rng.normal([0, 5], [1, 3], (200, 2))),
        (Gaussian("tied"), lambda rng: rng.normal([0, 5], [1, 3], (200, 2))),
        (Categorical(), lambda rng: rng.integers(0, [2, 4], (200, 2))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_emissions_alone_impute(emission, draw):
    rng = np.random.default_rng(0)
    X = draw(rng).astype(float)
    holed = X.copy()
    holed[rng.random(X.shape) < 0.2] = np.nan
    mixture = ExponentialFamilyMixture(1, emission=emission, sampler="gibbs", random_state=0, max_iter=40).fit(holed)
    filled, drawn = mixture.impute(holed), mixture.impute(holed, n_draws=2, random_state=0)
    for table in (filled, *drawn):
        assert table.shape == X.shape
        assert not np.isnan(table).any()
        np.testing.assert_array_equal(table[~np.isnan(holed)], X[~np.isnan(holed)])
    assert not np.array_equal(*drawn)
    values = set(np.unique(X))
    if isinstance(emission, Categorical | Bernoulli):
        assert {*np.unique(filled), *np.unique(drawn[0])} <= values


def test_results_depend_on_neither_threads_nor_other_rows():
    X, _ = two_clusters()
    holed, _ = with_holes(X)
    one, two = fitted("gibbs", holed), fitted("gibbs", holed, n_jobs=2)
    pd.testing.assert_frame_equal(one.impute(holed), two.impute(holed))
    for a, b in zip(one.impute(holed, 2, random_state=1), two.impute(holed, 2, random_state=1), strict=True):
        pd.testing.assert_frame_equal(a, b)
    alone = pd.concat([one.impute(holed.iloc[[i]]) for i in range(20)])
    pd.testing.assert_frame_equal(alone, one.impute(holed).iloc[:20], check_exact=True)


# --- tables -----------------------------------------------------------------------------------------------


def test_tables_keep_their_types():
    X, _ = two_clusters(60)
    X = X.assign(
        kind=pd.Categorical(X["colour"], ["red", "blue", "grey", "black"]), old=X["a"] > 3, n=np.arange(60) % 4
    )
    holed, holes = with_holes(X)
    holed = holed.assign(
        kind=X["kind"].where(~holes[:, 3]), old=X["old"].astype("boolean").where(~holes[:, 4]), n=X["n"].astype("Int64")
    )
    mixture = ExponentialFamilyMixture(2, emission="auto", random_state=0, max_iter=20).fit(holed)
    filled = mixture.impute(holed)
    assert filled["kind"].dtype == holed["kind"].dtype
    assert filled["old"].dtype == "boolean"
    assert filled["n"].dtype == "Int64"  # nothing was missing
    assert filled["colour"].dtype == holed["colour"].dtype
    assert not filled.isna().any(axis=None)
    assert filled.index.equals(holed.index)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_libraries_get_their_tables_back(library):
    module = pytest.importorskip(library)
    X, _ = two_clusters(60)
    holed, _ = with_holes(X)
    data = {name: [None if pd.isna(cell) else cell for cell in column] for name, column in holed.items()}
    table = module.DataFrame(data) if library == "polars" else module.table(data)
    mixture = fitted("em", table)
    filled = mixture.impute(table)
    assert type(filled) is type(table)
    expected = fitted("em", holed).impute(holed)
    plain = filled.to_dict(as_series=False) if library == "polars" else filled.to_pydict()
    for name in X:
        assert plain[name] == expected[name].tolist()


def same(a, b):
    return a is b or (a == b and type(a) is type(b) and str(a) == str(b))


OBSERVED = {
    "objects": (lambda: pd.Series([Decimal("1.10"), Fraction(1, 3), -0.0, 1e-320, 7, None], dtype=object), "size"),
    "Float32": (lambda: pd.Series([0.1, -0.0, 1e-40, 3.0, 5.0, None], dtype="Float32"), "size"),
    "sparse": (lambda: pd.Series(pd.arrays.SparseArray([0.1, -0.0, 1e-320, 3.0, 5.0, np.nan])), "size"),
    "spaces": (lambda: pd.Series([" a", "b ", "", "a", "c", None], dtype=object), "colour"),
    "type of the column": (lambda: pd.Series(pd.Categorical(["z", "y", "a", "z", "y", None], list("zya"))), "colour"),
    "no observed cell": (lambda: pd.Series([np.nan] * 6), "colour"),
    "no observed text": (lambda: pd.Series([None] * 6, dtype="string"), "size"),
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(("make", "name"), OBSERVED.values(), ids=OBSERVED)
def test_observed_cells_do_not_change(make, name):
    blocks = [("n", Gaussian(), ["size"]), ("c", Categorical(handle_unknown="ignore"), ["colour"])]
    rows = pd.DataFrame({"size": np.arange(8.0), "colour": list("abababab")})
    mixture = ExponentialFamilyMixture(2, emission=Columns(blocks), sampler="em", random_state=0).fit(rows)
    column = make()
    X = pd.DataFrame({"size": [1.0] * 6, "colour": ["a"] * 6}).assign(**{name: column})
    filled = mixture.impute(X)[name]
    missing = column.isna().to_numpy()
    assert all(map(same, filled[~missing], column[~missing]))
    assert not filled.isna().any()
    if name == "colour":
        assert set(filled[missing]) <= {"a", "b"}
    else:
        assert all(isinstance(cell, float | np.floating) for cell in filled[missing])
    array = mixture.impute(X.astype(object).to_numpy())[:, list(X).index(name)]
    assert all(map(same, array[~missing], X[name].astype(object)[~missing]))


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_observed_cells_of_other_libraries_do_not_change(library):
    module = pytest.importorskip(library)
    make = module.Series if library == "polars" else lambda cells, dtype: module.array(cells, dtype)
    decimal = module.Decimal(10, 2) if library == "polars" else module.decimal128(10, 2)
    narrow = module.Float32 if library == "polars" else module.float32()
    blocks = [("n", Gaussian(), ["size", "price"]), ("c", Categorical(handle_unknown="ignore"), ["colour"])]
    emission = Columns(blocks)
    rows = pd.DataFrame({"size": np.arange(8.0), "price": np.arange(8.0) ** 2, "colour": list("abababab")})
    mixture = ExponentialFamilyMixture(2, emission=emission, sampler="em", random_state=0).fit(rows)
    columns = {
        "size": make([0.1, -0.0, None], dtype=narrow),
        "price": make([Decimal("1.10"), Decimal("0.00"), None], dtype=decimal),
        "colour": make(["unknown", " a", None], dtype=None if library == "polars" else module.string()),
    }
    X = module.DataFrame(columns) if library == "polars" else module.table(columns)
    filled = mixture.impute(X)
    for name in columns:
        before, after = (
            table[name].to_list() if library == "polars" else table[name].to_pylist() for table in (X, filled)
        )
        assert all(map(same, after[:2], before[:2]))
        assert after[2] is not None


def test_cells_of_another_type_than_in_fit_are_refused_by_name():
    emission = Columns([("c", Categorical(handle_unknown="ignore"), ["colour"])])
    mixture = ExponentialFamilyMixture(2, emission=emission, sampler="em", random_state=0)
    mixture.fit(pd.DataFrame({"colour": list("abababab")}))
    with pytest.raises(ValueError, match=r"^Column .colour. of X has cells of another type"):
        mixture.impute(pd.DataFrame({"colour": [1.0, np.nan]}))


# --- the transformer --------------------------------------------------------------------------------------


def test_imputer_in_a_pipeline():
    X, z = two_clusters(120)
    holed, _ = with_holes(X[["a", "b"]])
    model = make_pipeline(MixtureImputer(ExponentialFamilyMixture(2, random_state=0)), LogisticRegression())
    assert clone(model).fit(holed, z).score(holed, z) > 0.85
    imputer = model[0].fit(holed)
    assert imputer.get_feature_names_out().tolist() == ["a", "b"]
    assert isinstance(imputer.transform(holed), pd.DataFrame)
    assert isinstance(imputer.fit_transform(holed.to_numpy()), np.ndarray)


def test_imputer_draws():
    X, _ = two_clusters(120)
    holed, holes = with_holes(X[["a", "b"]])
    mixture = ExponentialFamilyMixture(2, sampler="gibbs", random_state=0)
    means, drawn = (
        MixtureImputer(mixture, sample_posterior=s, random_state=0).fit_transform(holed) for s in (False, True)
    )
    assert drawn.to_numpy()[holes].std() > means.to_numpy()[holes].std()


@pytest.mark.parametrize("kind", [pytest.param("dp", marks=pytest.mark.extended), "gibbs"])
def test_each_draw_is_used_for_several_tables_if_there_are_fewer_draws(kind, monkeypatch):
    X, _ = two_clusters(80)
    holed, holes = with_holes(X)
    mixture, used = fitted(kind, holed, thin=6), []
    draws, draw_cells = list(mixture._drawn_parameters()), mixture._drawn_cells
    assert len(draws) == 5

    def recorded(rows, values, draw, key):
        used.append(next(i for i, one in enumerate(draws) if one is draw))
        return draw_cells(rows, values, draw, key)

    monkeypatch.setattr(mixture, "_drawn_parameters", lambda: draws)
    monkeypatch.setattr(mixture, "_drawn_cells", recorded)
    tables = mixture.impute(holed, n_draws=12, random_state=0)
    assert np.bincount(used).tolist() == [3, 2, 3, 2, 2]
    assert not any(table.isna().any().any() for table in tables)
    again, other = (mixture.impute(holed, n_draws=12, random_state=seed) for seed in (0, 1))
    cells = {}
    for name, of in (("first", tables), ("again", again), ("other", other)):
        cells[name] = np.array([table["a"][holes[:, 0]] for table in of])
    np.testing.assert_array_equal(cells["first"], cells["again"])
    assert len(np.unique(np.concatenate((cells["first"], cells["other"])), axis=0)) == 24  # no two tables are equal
    assert len(mixture.impute(holed, n_draws=5, random_state=0)) == 5
    assert used[-5:] == [0, 1, 2, 3, 4]


# --- refusals ---------------------------------------------------------------------------------------------


def test_draws_need_draws_of_parameters():
    X, _ = two_clusters(60)
    with pytest.raises(IncompatibleError, match="use the sampler 'gibbs'"):
        fitted("em", X).impute(X, n_draws=2)
    with pytest.raises(ValueError, match="kept no draws of the parameters: raise max_draws_bytes"):
        fitted("gibbs", X, max_draws_bytes=0).impute(X, n_draws=2)


@pytest.mark.parametrize("columns", ["c", ["a", "c"], 7, [], [False] * 3])
def test_unknown_columns_are_refused(columns):
    X, _ = two_clusters(60)
    with pytest.raises(ValueError, match=r"no column|the index 7|at least one column"):
        fitted("em", X).conditional(X, columns)


@pytest.mark.extended
@pytest.mark.parametrize("dispersion", [None, 0.1])
def test_new_components_of_a_dirichlet_process_have_their_prior(dispersion):
    """Means and draws of a missing cell with a large concentration, against sums over clusters and the prior."""
    shape, rate, alpha = np.array([9.0, 2.0]), 0.5, 30.0
    r = np.inf if dispersion is None else 1 / dispersion
    emission = Poisson(shape, rate) if dispersion is None else NegativeBinomial(dispersion, shape, rate)
    rng = np.random.default_rng(0)
    X = rng.poisson([4.0, 6.0], (25, 2)).astype(float)
    mixture = DPMixture(emission, concentration=alpha, max_iter=300, thin=1, random_state=0).fit(X)
    row, expected, observed = np.array([[np.nan, 7.0]]), [], []
    for draw in mixture._draws:
        sizes = np.append(draw.statistics.sizes, alpha)
        sums = np.vstack([draw.statistics.sums[:, :2], np.zeros((1, 2))])
        n = np.append(draw.statistics.sizes, 0)[:, None]
        a, b = shape + sums, rate + n
        if dispersion is None:
            densities = stats.nbinom.pmf(7, a[:, 1], b[:, 0] / (b[:, 0] + 1))
        else:
            densities = stats.betanbinom.pmf(7, r, 1 + b[:, 0] * r, a[:, 1])
        shares = sizes * densities / (sizes @ densities)
        expected.append(shares @ (a / b)[:, 0])
        observed.append(shares[:-1] @ (a / b)[:-1, 0] / shares[:-1].sum())
    assert mixture.impute(row)[0, 0] == pytest.approx(np.mean(expected), rel=1e-9)
    assert abs(np.mean(observed) - np.mean(expected)) > 0.5  # without the new component
    tables = mixture.impute(np.repeat(row, 40, axis=0), n_draws=len(mixture._draws), random_state=0)
    means = np.array([table[:, 0].mean() for table in tables])
    assert_agrees(summarize(means), np.mean(expected))
    assert_disagrees(summarize(means), np.mean(observed))
