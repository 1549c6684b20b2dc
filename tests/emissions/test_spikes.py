"""Spikes of columns of numbers: which values are spikes, and what mixtures with them return."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone

from skmanifold import DPMixture, ExponentialFamilyMixture
from skmanifold.emissions import Columns, Gaussian, Spikes
from skmanifold.emissions._rounding import cell_width
from skmanifold.emissions._spikes import spikes_of
from skmanifold.persistence import load

SHORT = {"max_iter": 20, "random_state": 0}


def rng_of(seed):
    return np.random.default_rng(seed)


def planted(n=300, seed=0):
    """Three columns: many zeros that belong to one of two groups, no spikes, and few whole numbers."""
    rng = rng_of(seed)
    group = rng.random(n) < 0.5
    first = np.where(rng.random(n) < np.where(group, 0.7, 0.1), 0.0, rng.normal(3.0, 1.0, n).round(1))
    return np.column_stack([first, rng.normal(4.0 * group, 1.0), rng.choice(4, n, p=[0.4, 0.1, 0.4, 0.1])])


def found(column):
    column = np.asarray(column, dtype=float)
    return spikes_of(column, cell_width(column)).tolist()


# --- which values are spikes -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_values_that_repeat_are_found(seed):
    rng = rng_of(seed)
    exact = rng.normal(size=400)
    some = rng.random(400) < 0.2
    assert found(np.where(some, 0.5, exact)) == [0.5]  # no grid
    assert found(np.where(some, 0.0, exact.round(1) + 2.0)) == [0.0]
    codes = np.where(some, 0.0, np.where(rng.random(400) < 0.3, 99.0, rng.gamma(4.0, 8.0, 400).round()))
    assert found(codes) == [0.0, 99.0]
    assert found((np.where(some, 0.0, exact.round(1) + 2.0) - 1.3) / 0.7) == pytest.approx([-1.3 / 0.7])
    with_gaps = np.where(rng.random(400) < 0.3, np.nan, np.where(some, 0.0, exact))
    assert found(with_gaps) == [0.0]


@pytest.mark.parametrize("seed", range(3))
def test_all_values_of_a_column_with_few_uneven_values_are_spikes(seed):
    rng = rng_of(seed)
    assert found(rng.choice(7, 500, p=[0.2, 0.1, 0.1, 0.1, 0.07, 0.03, 0.4])) == list(range(7))
    assert found(rng.choice([1.0, 2.0], 200)) == [1.0, 2.0]
    narrow = rng.normal(5.0, 0.5, 500).round()
    assert found(narrow) == np.unique(narrow).tolist()


@pytest.mark.parametrize("n", [100, 1000, 50_000])
@pytest.mark.parametrize("seed", range(4))
def test_smooth_rounded_columns_have_no_spikes(n, seed):
    rng = rng_of(seed)
    normal, groups = rng.normal(size=n), np.where(rng.random(n) < 0.5, 2.0, 0.0)
    for smooth in (
        normal,
        (2.0 * normal).round(),
        (3.0 * (normal + groups)).round(),
        (1.5 * normal + 4.0 * groups).round(),
        (10.0 * normal).round(),
        rng.gamma(2.0, 3.0, n).round(1),
        np.exp(normal).round(2),
        rng.poisson(5.0, n).astype(float),
        rng.exponential(4.0, n).round(),
        np.where(rng.random(n) < 0.5, 5.0, 1.0) * np.round(20.0 * normal / 5.0),  # half of the numbers are rounded more
        np.full(n, 3.0),
    ):
        assert found(smooth) == []


# --- densities ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", [Gaussian("diag"), Gaussian("full")], ids=str)
def test_densities_are_those_of_point_masses_and_numbers(numbers):
    X = planted()[:, :2]
    X[rng_of(1).random(X.shape) < 0.1] = np.nan
    emission = Spikes(numbers, [[0.0], []], [0.0, 0.0])
    mixture = ExponentialFamilyMixture(2, emission=emission, sampler="em", random_state=0).fit(X)
    attributes = mixture._family.attributes_of_blocks(mixture._estimate.parameters)
    means, shares = attributes["numbers"]["components_"], attributes["spikes"]["components_"][0]
    covariances = attributes["numbers"]["covariances_"]
    for row in X[:40]:
        logs = np.log(mixture.weights_)
        for k in range(2):
            covariance = covariances[k] if covariances.ndim == 3 else np.diag(covariances[k])
            seen = np.flatnonzero(~np.isnan(row) & (row != 0.0))
            if not np.isnan(row[0]):
                logs[k] += np.log(shares[k, 0 if row[0] == 0.0 else 1])
            if len(seen):
                normal = stats.multivariate_normal(means[k, seen], covariance[np.ix_(seen, seen)])
                logs[k] += normal.logpdf(row[seen])
        assert mixture.score_samples(row[np.newaxis]) == pytest.approx(np.logaddexp.reduce(logs))
    of_means = shares[:, 1:] * means[:, :1]
    np.testing.assert_allclose(mixture.components_, np.hstack([of_means, means[:, 1:]]))


def test_total_probability_is_one():
    X = planted()[:, :1]
    mixture = DPMixture(Spikes(spikes=[[0.0, 1.5]], cell_widths=[0.0]), **SHORT).fit(X)
    grid = np.linspace(-40.0, 40.0, 40_000)[:, np.newaxis]  # the spikes are not among these points
    densities = np.exp(mixture.score_samples(grid))
    masses = np.exp(mixture.score_samples([[0.0], [1.5]]))
    assert np.trapezoid(densities, grid[:, 0]) + masses.sum() == pytest.approx(1.0, abs=1e-4)
    assert masses[0] == pytest.approx(np.mean(X == 0.0), abs=0.01)
    rounded = DPMixture(Spikes(), **SHORT).fit(X)  # cells of 0.1, of which one also has a part of the normal density
    cells = np.exp(rounded.score_samples(np.arange(-400, 401)[:, np.newaxis] / 10.0)) * 0.1
    assert 0.99 < cells.sum() < 1.0
    assert cells[400] == pytest.approx(np.mean(X == 0.0), abs=0.01)


def test_spikes_of_rounded_columns_have_the_density_of_their_cell():
    X = planted()
    exact, rounded = (
        ExponentialFamilyMixture(
            2, emission=Spikes(spikes=[[0.0], [], [0, 1, 2, 3]], cell_widths=widths), sampler="em", random_state=0
        )
        for widths in ([0.0, 0.0, 0.0], [0.1, 0.0, 0.5])
    )
    difference = rounded.fit(X).score_samples(X) - exact.fit(X).score_samples(X)
    np.testing.assert_allclose(difference, -np.log(0.1) * (X[:, 0] == 0.0) + np.log(2.0), rtol=1e-10)
    near = X + np.where(X[:, :1] == 0.0, [[0.04, 0.0, 0.0]], 0.0)  # in the same cell
    np.testing.assert_array_equal(rounded.score_samples(near), rounded.score_samples(X))


def test_numbers_that_did_not_occur_among_spikes_have_a_density():
    X = planted()
    mixture = DPMixture(Spikes(), **SHORT).fit(X)
    assert mixture.emission_.spikes == [[0.0], [], [0.0, 1.0, 2.0, 3.0]]
    new = X[:3].copy()
    new[:, 2] = 7.0
    lower = mixture.score_samples(X[:3]) - mixture.score_samples(new)
    assert np.all((lower > 3.0) & (lower < 25.0))
    with pytest.raises(ValueError, match=r"Column 2 has no numbers that are not spikes"):
        DPMixture(Spikes(Gaussian()), **SHORT).fit(X)


# --- missing cells -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", [Gaussian("diag"), Gaussian("full")], ids=str)
def test_drawn_cells_are_spikes_with_their_probability(numbers):
    X = planted()[:, :2]
    mixture = DPMixture(Spikes(numbers), max_iter=60, random_state=0).fit(X)
    rows = np.repeat([[np.nan, 4.0], [np.nan, 0.0]], 200, axis=0)
    tables = mixture.impute(rows, n_draws=60, random_state=0)
    shares = np.array([(table[:, 0] == 0.0).reshape(2, 200).mean(axis=1) for table in tables])
    means = np.array([table[:, 0].reshape(2, 200).mean(axis=1) for table in tables])
    spiked = np.where(np.isnan(rows), 0.0, rows)[[0, 200]]
    width = mixture.emission_.cell_widths[0]
    exact = width * np.exp(mixture.score_samples(spiked) - mixture.score_samples(rows[[0, 200]]))
    errors = 4.0 * shares.std(axis=0) / np.sqrt(len(tables))
    assert np.all(np.abs(shares.mean(axis=0) - exact) < errors)
    assert exact[0] > 0.6 and exact[1] < 0.2  # noqa: PT018
    conditional = mixture.conditional(rows[[0, 200]], 0)
    errors = 4.0 * means.std(axis=0) / np.sqrt(len(tables))
    assert np.all(np.abs(means.mean(axis=0) - conditional.mean()) < errors)
    np.testing.assert_allclose(mixture.impute(rows)[[0, 200], 0], conditional.mean())
    assert np.all(conditional.variance() > exact * (1.0 - exact) * 6.0)  # also of the choice


@pytest.mark.parametrize("sampler", ["esca", "em", "gibbs"])
def test_samplers_find_the_groups(sampler):
    X = planted(600)
    mixture = ExponentialFamilyMixture(2, emission=Spikes(), sampler=sampler, random_state=0).fit(X)
    drawn, labels = mixture.sample(4000, random_state=0)
    of_column = np.mean(drawn[:, 0] == 0.0)
    assert of_column == pytest.approx(np.mean(X[:, 0] == 0.0), abs=0.03)
    shares = sorted(np.mean(drawn[labels == k, 0] == 0.0) for k in range(2))
    np.testing.assert_allclose(shares, [0.1, 0.7], atol=0.08)
    assert np.isin(drawn[:, 2], [0.0, 1.0, 2.0, 3.0]).mean() > 0.99


# --- estimators --------------------------------------------------------------------------------------------


def table_of(X):
    colours = np.where(rng_of(3).random(len(X)) < 0.2, "red", np.where(X[:, 1] > 2.0, "blue", "green"))
    return pd.DataFrame({"zeros": X[:, 0], "plain": X[:, 1], "few": X[:, 2].astype(int), "colour": colours})


@pytest.fixture(scope="module")
def fitted():
    return DPMixture("auto", **SHORT).fit(table_of(planted()))


def test_automatic_blocks_have_spikes(fitted):
    blocks = {name: (type(own), columns) for name, own, columns in fitted.emission_.blocks}
    assert blocks["numbers"] == (Gaussian, ["plain"])
    assert blocks["spiked"] == (Spikes, ["zeros", "few"])
    assert fitted.emission_.get_params()["spiked__spikes"] == [[0.0], [0, 1, 2, 3]]
    clusters = fitted.cluster_summary().clusters
    shares = clusters["zeros = 0"]
    assert shares.max() > 0.5 > 0.3 > shares.min()
    of_few = clusters[[f"few = {i}" for i in range(4)]].sum(axis=1)[clusters["size"] > 20]
    np.testing.assert_allclose(of_few, 1.0, atol=0.05)
    by_block = fitted.named_blocks_["spiked"].spikes["components_"]
    assert [each.shape[1] for each in by_block] == [2, 5]
    assert [each.shape[1] for each in fitted.components_] == [1, 1, 1, 3]
    drawn, _ = fitted.sample(2000, random_state=0)
    assert drawn["zeros"].eq(0.0).mean() == pytest.approx(np.mean(planted()[:, 0] == 0.0), abs=0.05)


def test_models_are_saved_and_copied(fitted, tmp_path):
    X = table_of(planted(50, seed=7))
    X.loc[:9, "zeros"] = np.nan
    fitted.save(tmp_path / "model")
    copies = load(tmp_path / "model"), pickle.loads(pickle.dumps(fitted))
    for copy in copies:
        np.testing.assert_array_equal(copy.score_samples(X), fitted.score_samples(X))
        pd.testing.assert_frame_equal(copy.impute(X), fitted.impute(X))
    single = DPMixture(Spikes(), **SHORT).fit(planted())
    single.save(tmp_path / "single")
    again = load(tmp_path / "single")
    np.testing.assert_array_equal(again.predict_proba(planted()), single.predict_proba(planted()))
    single.emission_.spikes[0] = [1.0]
    with pytest.raises(ValueError, match="other spikes than its family"):
        single.save(tmp_path / "wrong")
    assert clone(fitted.emission_).get_params()["spiked__spikes"] == [[0.0], [0.0, 1.0, 2.0, 3.0]]


def test_fits_do_not_depend_on_threads(fitted):
    X = table_of(planted())
    other = DPMixture("auto", n_jobs=2, **SHORT).fit(X)
    np.testing.assert_array_equal(other.score_samples(X), fitted.score_samples(X))
    learned = DPMixture("auto", hyperparameters="learn", **SHORT).fit(X)
    given = DPMixture(Columns(clone(learned.emission_).blocks), **SHORT).fit(X)
    np.testing.assert_allclose(given.score_samples(X), learned.score_samples(X), rtol=1e-5)  # from other first numbers


def test_minibatches_keep_the_spikes_of_the_first():
    X = planted(600)
    for emission in (Spikes(), Columns([("x", Spikes(), [0, 1, 2])])):
        mixture = ExponentialFamilyMixture(2, emission=emission, random_state=0)
        mixture.partial_fit(X[:400])
        mixture.partial_fit(X[400:])
        own = mixture.emission_ if emission.get_params().get("blocks") is None else mixture.emission_.blocks[0][1]
        assert own.spikes == [[0.0], [], [0.0, 1.0, 2.0, 3.0]]
        assert np.isfinite(mixture.score(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spikes": [[0.0]]}, "spikes must have an entry for each of the 3 columns"),
        ({"cell_widths": [0.1, 0.1]}, "cell_widths must have an entry for each of the 3 columns"),
        ({"cell_widths": [0.1, -1.0, 0.0]}, "must be finite numbers"),
        ({"spikes": [[np.inf], [], []]}, "must be finite numbers"),
        ({"spikes": "all"}, "spikes"),
    ],
)
def test_wrong_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DPMixture(Spikes(**options), **SHORT).fit(planted())
