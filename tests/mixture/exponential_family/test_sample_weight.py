"""Weights of rows in mixtures that EM fits: whole weights are copies of rows."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skmanifold import DPMixture, ExponentialFamilyMixture, distributed, load
from skmanifold.callbacks import HeldOutMonitor
from skmanifold.emissions import BaseEmission, Categorical, Gaussian, Poisson, read_dense
from skmanifold.mixture._exponential_family import fit_strategies
from skmanifold.models import IncompatibleError
from skmanifold.samplers import EM, ESCA

from .._refusals import refuse

pytestmark = pytest.mark.filterwarnings("ignore:EM stopped after", "ignore:overflow encountered:RuntimeWarning")
K, N = 3, 60
rng = np.random.default_rng(0)
LABELS = rng.integers(0, K, N)
WEIGHTS = rng.integers(0, 4, N)
COPIES = np.repeat(np.arange(N), WEIGHTS)


def with_gaps(X):
    X = X.astype(np.float64)
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


REAL = 2.0 * rng.standard_normal((K, 3))[LABELS] + rng.standard_normal((N, 3))
BINARY = (rng.random((N, 6)) < rng.random((K, 6))[LABELS]).astype(np.float64)
COUNTS = rng.poisson(rng.gamma(1.0, 4.0, (K, 5))[LABELS]).astype(np.float64)
CODES = np.minimum(COUNTS, 3.0)
CASES = {
    **{f"{kind} gaussian": (Gaussian(kind), REAL) for kind in ("full", "tied", "diag", "spherical")},
    **{f"{kind} gaussian, missing": (Gaussian(kind), with_gaps(REAL)) for kind in ("full", "tied", "diag")},
    "bernoulli": ("bernoulli", BINARY),
    "bernoulli, missing": ("bernoulli", with_gaps(BINARY)),
    "categorical": ("categorical", CODES),
    "categorical, missing": ("categorical", with_gaps(CODES)),
    "negative binomial, missing": ("negative_binomial", with_gaps(COUNTS)),
    "poisson": ("poisson", COUNTS),
    "poisson, missing": ("poisson", with_gaps(COUNTS)),
    "sparse multinomial": ("multinomial", sp.csr_array(COUNTS)),
}


def make(emission="gaussian", **params):
    return ExponentialFamilyMixture(
        **{"n_components": K, "emission": emission, "sampler": "em", "n_init": 1, "random_state": 0, **params}
    )


def arrays(mixture):
    components = mixture.components_
    yield from components if isinstance(components, list) else [components]
    yield from (mixture.weights_, mixture.log_density_trace_, mixture.posterior_["weights"])
    yield getattr(mixture, "covariances_", np.zeros(0))


@pytest.mark.parametrize("init", ["labels", "k-means++"])
@pytest.mark.parametrize("case", CASES)
def test_whole_weights_are_copies_of_rows(case, init):
    emission, X = CASES[case]
    given = {"labels": (LABELS, LABELS[COPIES])}.get(init, (init, init))
    weighted = make(emission, init=given[0], n_polish=2).fit(X, sample_weight=WEIGHTS)
    repeated = make(emission, init=given[1], n_polish=2).fit(X[COPIES])
    for left, right in zip(arrays(weighted), arrays(repeated), strict=True):
        is_trace = left is weighted.log_density_trace_  # its terms are rounded
        np.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-3 if is_trace else 1e-9)
    assert weighted._n_summed_rows == repeated._n_summed_rows == len(COPIES)
    np.testing.assert_array_equal(weighted.labels_[COPIES], repeated.labels_)
    np.testing.assert_array_equal(weighted.labels_, weighted.predict(X))
    np.testing.assert_allclose(weighted.score_samples(X), repeated.score_samples(X), rtol=1e-8, atol=1e-9)
    for method in ("score", "aic", "bic", "icl"):
        score, of_copies = getattr(weighted, method), getattr(repeated, method)(X[COPIES])
        assert score(X, sample_weight=WEIGHTS) == pytest.approx(of_copies, rel=1e-8)
        assert score(X) != pytest.approx(of_copies, rel=1e-3)
    draws = [mixture.sample(20, random_state=0)[0] for mixture in (weighted, repeated)]
    np.testing.assert_allclose(*draws, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("case", ["full gaussian, missing", "categorical", "poisson"])
def test_rows_of_weight_zero_have_labels_and_no_effect(case):
    emission, X = CASES[case]
    X, zero = X.copy(), WEIGHTS == 0
    weights = WEIGHTS * rng.uniform(0.1, 2.0, N)
    X[zero] = X[~zero][:1] if case == "categorical" else 1000.0
    mixture = make(emission, n_init=3)
    fitted = clone(mixture).fit(X, sample_weight=weights)
    without = clone(mixture).fit(X[~zero], sample_weight=weights[~zero])
    assert all(left.tobytes() == right.tobytes() for left, right in zip(arrays(fitted), arrays(without), strict=True))
    np.testing.assert_array_equal(fitted.labels_[~zero], without.labels_)
    assert fitted.labels_.shape == (N,)


def test_a_category_without_weight_is_unknown():
    X = CODES.copy()
    X[0, 0] = 9.0
    weights = np.r_[0.0, np.ones(N - 1)]
    with pytest.raises(ValueError, match=r"has the code 9\.0, but the fitted number of categories"):
        make("categorical").fit(X, sample_weight=weights)
    mixture = make(Categorical(handle_unknown="ignore")).fit(X, sample_weight=weights)
    assert mixture.n_categories_[0] == 4


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_pilot_runs_with_weights_find_the_clusters_with_weight(init):
    centres = rng.permutation(np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [5.0, 5.0]], 20, axis=0))
    X, weights = centres + rng.normal(0, 0.3, (80, 2)), np.where(centres[:, 0] == 5.0, 1e-6, 2.0)
    mixture = make(Gaussian("spherical"), n_init=5, init=init, n_chains=2).fit(X, sample_weight=weights)
    np.testing.assert_allclose(mixture.weights_, 1 / 3, rtol=0.02)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_log_likelihoods_keep_their_digits_on_every_scale_of_weights(scale):
    weights = scale * rng.uniform(0.5, 2.0, N)
    prior = Gaussian("diag", np.zeros(3), 0.01 * scale, 1.0, 4.0)
    mixture = make(prior, sampler=EM(tol=0), max_iter=5, init=LABELS).fit(REAL, sample_weight=weights)
    position = mixture.posterior_["log_likelihood"][0, -1]
    assert len(mixture.log_density_trace_[0]) == 5
    again = make(prior, sampler=EM(tol=0), max_iter=4, init=LABELS).fit(REAL, sample_weight=weights)
    assert position == pytest.approx(weights @ again.score_samples(REAL), rel=1e-5)


def test_weights_go_with_their_rows_into_pipelines_monitors_files_and_shards(tmp_path):
    weights = WEIGHTS + 0.5
    mixture = make()
    fitted = clone(mixture).fit(REAL, sample_weight=weights)
    table = pd.DataFrame(REAL, columns=list("abc"))
    assert clone(mixture).fit(table, sample_weight=pd.Series(weights)).weights_.tobytes() == fitted.weights_.tobytes()
    np.testing.assert_array_equal(clone(mixture).fit_predict(REAL, sample_weight=weights), fitted.labels_)
    memberships = clone(mixture).fit_transform(REAL, sample_weight=weights)
    np.testing.assert_array_equal(memberships, fitted.transform(REAL))
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(clone(mixture).set_fit_request(sample_weight=True))
        np.testing.assert_array_equal(pipeline.fit(REAL, sample_weight=weights)[-1].labels_, fitted.labels_)
        routed = clone(mixture).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        train, test = np.arange(40), np.arange(40, N)
        search = GridSearchCV(routed, {"n_components": [K]}, cv=[(train, test)], refit=False)
        search.fit(REAL, sample_weight=weights)
    of_test = clone(mixture).fit(REAL[train], sample_weight=weights[train]).score_samples(REAL[test])
    found = search.cv_results_["mean_test_score"].item()
    assert found == pytest.approx(np.average(of_test, weights=weights[test]))
    assert found != pytest.approx(of_test.mean(), rel=1e-3)
    monitored = clone(mixture).set_callbacks(HeldOutMonitor(fraction=0.2, random_state=0))
    monitored.fit(REAL, sample_weight=weights)
    assert len(monitored.labels_) == 48
    fitted.save(tmp_path / "mixture.npz")
    assert load(tmp_path / "mixture.npz")._n_units == pytest.approx(weights.sum())
    with distributed(None):
        on_workers = clone(mixture).fit(REAL, sample_weight=weights)
    assert on_workers.components_.tobytes() == fitted.components_.tobytes()
    assert on_workers.log_density_trace_.tobytes() == fitted.log_density_trace_.tobytes()


# Refusals


@pytest.fixture
def _no_model(monkeypatch):
    monkeypatch.setattr(fit_strategies, "FamilyModel", lambda *args: pytest.fail("a model was made"))


@pytest.mark.usefixtures("_no_model")
@pytest.mark.parametrize("sampler", ["esca", "gibbs", ESCA(n_average=3)])
def test_samplers_that_draw_labels_refuse_weights(sampler):
    message = r"sample_weight needs a sampler that averages over the components of each row \('em'\), but \w+ draws one"
    refuse(message, make(sampler=sampler), REAL, IncompatibleError, sample_weight=WEIGHTS)
    with pytest.raises(TypeError, match="sample_weight"):
        DPMixture().fit(REAL, sample_weight=WEIGHTS)


class Unweighted(BaseEmission):
    """An emission whose priors might depend on the data."""

    def read(self, estimator, X, *, reset):
        return read_dense(estimator, X, reset=reset)

    def bind(self, rows, n_components):
        return Gaussian().bind(rows, n_components)


@pytest.mark.usefixtures("_no_model")
def test_emissions_without_weights_refuse_them():
    message = r"sample_weight needs a family of rows with weights \(bind_weighted\), which the emission Unweighted does"
    refuse(message, make(Unweighted()), REAL, IncompatibleError, sample_weight=WEIGHTS)


@pytest.mark.usefixtures("_no_model")
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-1.0 * WEIGHTS, "Negative values in data passed to `sample_weight`"),
        (np.r_[np.nan, WEIGHTS[1:]], "Input sample_weight contains NaN"),
        (np.r_[np.inf, WEIGHTS[1:]], "Input sample_weight contains infinity"),
        (np.full(N, 1e308), "sample_weight must have a finite sum"),
        (np.zeros(N), "(must not be zero|at least one non-zero)"),
        (0.0, "(must not be zero|at least one non-zero)"),
        (np.nan, "must have a finite sum"),
        (WEIGHTS[1:], r"sample_weight.shape == \(59,\), expected \(60,\)"),
        (
            np.arange(N) < 2,
            "n_components=3 components need as many rows, but only 2 rows of X have a",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights, message):
    refuse(message, make(), REAL, sample_weight=weights)


@pytest.mark.usefixtures("_no_model")
def test_columns_without_weighted_cells_are_refused():
    X = REAL.copy()
    X[1:, 1] = np.nan
    refuse("Column 1 of X has no observed cell", make(), X, sample_weight=np.arange(N) % 3)


@pytest.mark.parametrize("method", ["score", "aic", "bic", "icl"])
def test_scores_refuse_weights_that_do_not_fit(method):
    score = getattr(make("poisson", max_iter=3).fit(COUNTS), method)
    for weights, message in (
        ([1.0, 2.0], "shape"),
        (-np.ones(N), "Negative values"),
        (np.zeros(N), "zero"),
    ):
        with pytest.raises(ValueError, match=message):
            score(COUNTS, sample_weight=weights)
    assert score(COUNTS, sample_weight=np.ones(N)) == score(COUNTS)
    only = np.eye(N)[3]
    assert score(COUNTS, sample_weight=only) == pytest.approx(score(COUNTS[3:4]))


def test_one_number_is_the_weight_of_every_row():
    twice = make(Poisson()).fit(COUNTS, sample_weight=2)
    repeated = make(Poisson()).fit(np.repeat(COUNTS, 2, axis=0))
    np.testing.assert_allclose(twice.components_, repeated.components_, rtol=1e-9)
