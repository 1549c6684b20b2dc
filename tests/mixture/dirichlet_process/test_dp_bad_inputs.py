"""Odd input to `DPMixture`: each works, with finite answers, or raises one clear sentence before any work is done."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from skmanifold import DPMixture
from skmanifold.emissions import Categorical, Gaussian, Multinomial, Poisson
from skmanifold.emissions._seeds import cluster_rows
from skmanifold.samplers import Slice
from skmanifold.samplers._latent.stick_breaking import Sticks, draw_concentration

rng = np.random.default_rng(24)
GROUPS = rng.integers(3, size=40)
NUMBERS = rng.normal(size=(40, 3)) + 6.0 * GROUPS[:, None] * np.array([1.0, -1.0, 0.5])
COUNTS = rng.poisson(np.array([1.0, 6.0, 20.0])[GROUPS][:, None] * np.ones(3)).astype(float)
CODES = COUNTS % 4


def make(emission, **parameters):
    return DPMixture(emission, **{"init": 12, "max_iter": 6, "random_state": 0, **parameters})


def works(mixture, X, new=None):
    """All methods give finite answers, for fitted rows and for new ones; a pickled mixture gives the same."""
    mixture.fit(X)
    assert mixture.labels_.max() + 1 == mixture.n_components_
    assert np.isfinite(mixture.log_density_trace_).all()
    for rows in (X, X if new is None else new):
        np.testing.assert_allclose(mixture.predict_proba(rows).sum(axis=1), 1.0)
        for method in ("predict", "score_samples", "score", "transform", "co_clustering"):
            assert np.isfinite(np.asarray(getattr(mixture, method)(rows), float)).all(), method
    assert np.isfinite(mixture.co_clustering()).all()
    assert np.isfinite(np.asarray(mixture.sample(5)[0], float)).all()
    assert np.isfinite(mixture.cluster_summary().clusters.to_numpy(float)).all()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(mixture)).predict_proba(X), mixture.predict_proba(X))
    return mixture


def refused(message, error, method, *arguments):
    """One sentence."""
    with pytest.raises(error, match=message) as refusal:
        method(*arguments)
    assert len(re.findall(r"\.(?=\s|$)", str(refusal.value))) == 1
    assert "\n" not in str(refusal.value)


@pytest.fixture
def _no_sampler_begins(monkeypatch):
    monkeypatch.setattr(Slice, "step", lambda *args: pytest.fail("the sampler began"))


before_any_work = pytest.mark.usefixtures("_no_sampler_begins")


def changed(X, *place, value):
    X = X.astype(float)
    X[place] = value
    return X


# Data that work


@pytest.mark.filterwarnings("ignore:Columns .* are linearly dependent")
@pytest.mark.filterwarnings("ignore:.* rows of X repeat other rows exactly")
@pytest.mark.parametrize("covariance_type", ["full", "diag"])
@pytest.mark.parametrize(
    "X",
    [
        pytest.param(changed(NUMBERS, slice(None), 1, value=7.0), id="a constant column"),
        pytest.param(changed(NUMBERS, slice(None), 1, value=NUMBERS[:, 0]), id="a column twice"),
        pytest.param(np.repeat(NUMBERS[:2], 10, axis=0), id="two different rows"),
        pytest.param(rng.normal(size=(4, 9)), id="fewer rows than columns"),
        pytest.param(NUMBERS[:, :1], id="a single column"),
        pytest.param(changed(NUMBERS, 4, value=np.nan), id="a row without cells"),
        pytest.param(changed(NUMBERS, slice(1, None), 1, value=np.nan), id="a column with one cell"),
        pytest.param(NUMBERS * 1e-150, id="tiny"),
        pytest.param(NUMBERS * 1e150, id="huge"),
        pytest.param(NUMBERS * np.array([1e-100, 1.0, 1e100]), id="columns of different scales"),
        pytest.param(changed(NUMBERS, 3, 1, value=1e30), id="a row far away"),
        pytest.param(NUMBERS > 0.0, id="boolean"),
        pytest.param(NUMBERS.round().astype(np.int8), id="integers"),
        pytest.param(NUMBERS.astype(object), id="objects"),
        pytest.param(pd.DataFrame(NUMBERS).where(NUMBERS > -8.0).convert_dtypes(), id="pandas"),
    ],
)
def test_odd_numbers_work(X, covariance_type):
    works(make(Gaussian(covariance_type)), X)


@pytest.mark.parametrize("emission", [pytest.param("poisson", marks=pytest.mark.extended), "categorical"])
@pytest.mark.parametrize(
    "X",
    [
        pytest.param(CODES[:1], id="one row"),
        pytest.param(np.zeros((9, 3)), id="equal rows"),
        pytest.param(np.tile(CODES[:3], (1, 4)), id="fewer rows than columns"),
        pytest.param(changed(changed(CODES, 4, value=np.nan), slice(None), 1, value=np.nan), id="missing"),
        pytest.param(np.full((3, 2), np.nan), id="no cell"),
        pytest.param(CODES > 1, id="boolean"),
        pytest.param(changed(CODES, 0, 0, value=np.nan).astype(object), id="objects"),
        pytest.param(pd.DataFrame(CODES).convert_dtypes().mask(CODES == 3), id="pandas"),
    ],
)
def test_odd_counts_and_codes_work(X, emission):
    works(make(emission), X)


@pytest.mark.extended
def test_huge_counts_work():
    works(make("poisson"), changed(COUNTS, 2, 1, value=2e9), COUNTS)


def test_polars_frames_with_missing_cells_work():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1, None, 0, 1, 2], "b": [0, 1, 1, 0, 0]})
    assert works(make("poisson"), frame).feature_names_in_.tolist() == ["a", "b"]


# Units


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
def test_units_of_measurement_do_not_matter(covariance_type):
    """Equal labels in all draws; a power of two changes no digit of a row, a shift some of the last."""
    expected = make(Gaussian(covariance_type)).fit(NUMBERS)
    for X in (NUMBERS * 2.0**-20, NUMBERS + 1e6, (NUMBERS + 1e6) * 1e-6):
        mixture = make(Gaussian(covariance_type)).fit(X)
        np.testing.assert_array_equal(mixture.labels_, expected.labels_)
        np.testing.assert_array_equal(mixture.posterior_["labels"], expected.posterior_["labels"])


def test_seeds_do_not_depend_on_a_large_mean():
    whole = (NUMBERS * 1000).round()
    for n_clusters in (3, 20):
        shifted = cluster_rows(whole + 2.0**50, n_clusters, np.uint64(7))
        np.testing.assert_array_equal(shifted, cluster_rows(whole, n_clusters, np.uint64(7)))


# Data that are refused


@before_any_work
@pytest.mark.parametrize(
    ("emission", "X", "error", "message"),
    [
        ("gaussian", changed(NUMBERS, 3, 1, value=np.inf), ValueError, "X contains infinity"),
        ("gaussian", changed(NUMBERS, 3, 1, value=1e200), ValueError, "squares are too large for float64: scale it"),
        ("gaussian", changed(NUMBERS, slice(None), 1, value=np.nan), ValueError, "Column 1 of X has no observed cell"),
        ("gaussian", np.full((3, 2), np.nan), ValueError, "All cells of X are missing"),
        ("gaussian", sp.csr_array(NUMBERS), TypeError, "does not take sparse X"),
        (Gaussian(covariance_prior=1e-80), NUMBERS, ValueError, r"more than 1e\+35 prior standard deviations"),
        (Gaussian("diag", mean_prior=[1e40] * 3), NUMBERS, ValueError, r"more than 1e\+35 prior standard deviations"),
        ("poisson", changed(COUNTS, 2, 1, value=-1), ValueError, "Negative values in data passed to DPMixture"),
        ("poisson", changed(COUNTS, 2, 1, value=0.5), ValueError, "takes whole counts, but X has 0.5 in row 2"),
        ("poisson", changed(COUNTS, 2, 1, value=3e9), ValueError, r"X has a count of 3e\+09"),
        ("multinomial", changed(COUNTS, 2, 1, value=np.nan), ValueError, "Multinomial does not take NaN"),
        ("bernoulli", COUNTS, ValueError, "takes 0 and 1"),
        ("categorical", changed(CODES, 2, 1, value=0.5), ValueError, "Column 1 of X has 0.5"),
        ("categorical", sp.csr_array(CODES), TypeError, "zero is a category"),
        (Poisson(shape_prior=1e300), COUNTS, ValueError, r"shape_prior must be positive and finite, at most 1e\+18"),
        (Multinomial(category_prior=np.inf), COUNTS, ValueError, "category_prior"),
        (Categorical(category_prior=1e300), CODES, ValueError, r"in the range \(0.0, 1e\+18\]"),
    ],
)
def test_bad_data_and_priors_are_refused(emission, X, error, message):
    mixture = make(emission)
    with pytest.raises(error, match=message) as refusal:
        mixture.fit(X)
    assert "\n" not in str(refusal.value)
    assert not hasattr(mixture, "labels_")


@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_new_rows_beyond_all_others_are_refused(covariance_type):
    mixture = make(Gaussian(covariance_type)).fit(NUMBERS)
    assert np.isfinite(mixture.score_samples(np.full((1, 3), -1e30)))
    for value in (1e40, -1e160, 1e300):
        refused(r"more than 1e\+35 prior standard", ValueError, mixture.predict_proba, np.full((1, 3), value))


def test_unseen_categories_are_refused_or_missing():
    refused("Column 1 of X has the code 9", ValueError, make("categorical").fit(CODES).predict, [[0.0, 9, 1]])
    mixture = make(Categorical(handle_unknown="ignore")).fit(CODES)
    np.testing.assert_array_equal(mixture.predict_proba([[0, 9, 1]]), mixture.predict_proba([[0, np.nan, 1]]))


# Parameters


@before_any_work
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("concentration", 1e12, r"The 'concentration' parameter of DPMixture must be .* 1000000\.0\]"),
        ("concentration", 1e-310, "The 'concentration' parameter of DPMixture must be"),
        ("concentration", -1.0, "The 'concentration' parameter of DPMixture must be"),
        ("concentration_prior", (1e8, 1.0), r"The mean of concentration_prior, shape / rate, .* to 1e\+06"),
        ("concentration_prior", (1e-200, 1e200), "The mean of concentration_prior"),
        ("concentration_prior", (1e300, 1e-300), "The mean of concentration_prior"),
        ("concentration_prior", (1.0, 0.0), "concentration_prior must be two positive numbers"),
        *(
            ("concentration_prior", prior, "concentration_prior must be two positive numbers")
            for prior in (("a", "b"), (1.0,), (1.0, -2.0), (np.nan, 1.0), (1.0, np.inf))
        ),
        ("init", np.zeros(39), r"init must be .* 40 whole numbers .*; got shape \(39,\)"),
        ("init", 0, "The 'init' parameter of DPMixture must be"),
        ("burn_in", 6, "burn_in=6 leaves none of the max_iter=6 passes"),
    ],
)
def test_bad_parameters_are_refused(name, value, message):
    with pytest.raises(ValueError, match=message):
        make("poisson", **{name: value}).fit(COUNTS)


@pytest.mark.parametrize(
    "parameters",
    [
        {"concentration": 1e-300},
        {"concentration": 1e3},
        {"concentration_prior": (1.0, 1e-6)},  # its mean is far above the number of rows
        {"concentration_prior": (1e-300, 1.0)},
        {"concentration_prior": (1e300, 1e300)},
        {"init": 10**9},
        {"init": np.arange(40) * 10.0**15},
        {"batch_size": 10**9},
        {"batch_size": 1},
        {"n_chains": 3, "n_jobs": 2},
        {"max_draws_bytes": 0},
    ],
    ids=str,
)
def test_extreme_parameters_work(parameters):
    works(make("poisson", **parameters), COUNTS)


@pytest.mark.parametrize("parameters", [{"max_iter": 1}, {"thin": 100, "n_chains": 2}])
def test_a_fit_without_draws_predicts_by_its_last_pass(parameters):
    mixture = make("poisson", **parameters).fit(COUNTS)
    assert np.isfinite(mixture.score(COUNTS))
    refused("No draws of the labels were kept: pass X", ValueError, mixture.co_clustering)


@pytest.mark.parametrize(("prior", "end"), [((1.0, 1e302), 1e-300), ((1e12, 1e-3), 1e6)])
def test_a_drawn_concentration_stays_in_its_range(prior, end):
    sticks = Sticks(np.array([-0.1]), np.array([-2.0]))
    assert draw_concentration(sticks, prior, np.uint64(3)) == end
