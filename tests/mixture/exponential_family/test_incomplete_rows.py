"""Gaussian mixtures of rows with missing cells, and with one covariance: fits, predictions, files and bad input."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats as st
from emissions._cases import KEY, read
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from skmanifold import ExponentialFamilyAdmixture, ExponentialFamilyMixture, distributed, load
from skmanifold.emissions import Gaussian, IncompleteRows
from skmanifold.emissions._seeds import cluster_rows
from skmanifold.mixture._exponential_family.model import FamilyModel
from skmanifold.samplers import EM
from skmanifold.utils._threads import Workers

pytestmark = pytest.mark.filterwarnings(
    "ignore:overflow encountered:RuntimeWarning", "ignore:EM stopped after", "ignore:.*burn_in"
)
KINDS = ("full", "tied", "diag", "spherical")
EACH = pytest.mark.parametrize("kind", KINDS)
K, D = 3, 4


def make_X(n=300, share=0.2, seed=0, gap=5.0):
    """Rows of three components, and their components; the cells of one row are all missing."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, K, n)
    means = np.array([[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 2.0, 0.0], [2.0, 2.0, 1.0, 2.0]])
    X = gap * means[z] + rng.standard_normal((n, D)) @ (np.eye(D) + 0.2)
    X[rng.random(X.shape) < share] = np.nan
    X[5] = np.nan
    return X, z


# --- EM --------------------------------------------------------------------------------------------------


class WithoutConditionalCovariances(FamilyModel):
    """Missing cells have their conditional means, and nothing else."""

    def _share_and_sum(self, first, stop, position, log_weights, log_density):
        ((a, b, terms, _),) = self._terms(first, stop, position, log_weights)
        terms[:] = 1.0
        log_density[:] = 0.0
        values = self.rows.values.copy()
        mean, matrix = position.parameters.means[0], position.parameters.covariances.reshape(2, 2)
        for row in values:
            missing = np.isnan(row)
            slope = matrix[np.ix_(missing, ~missing)] @ np.linalg.inv(matrix[np.ix_(~missing, ~missing)])
            row[missing] = mean[missing] + slope @ (row - mean)[~missing]
        return self.family.sum_shares(IncompleteRows.of_values(values), a, b, 0, terms)


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_em_reaches_the_mode_of_a_direct_maximisation(kind):
    """One component of two features: mean and covariance by BFGS, from densities of observed cells by scipy."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((25, 2)) @ [[1.5, 0.8], [0.0, 0.7]] + 2.0
    X[:6, 0], X[6:14, 1] = np.nan, np.nan
    emission = Gaussian(kind, mean_precision_prior=0.3)
    rows = read(emission, X)
    family = emission.bind(rows, 1)
    prior, d = family.prior, 2

    def unpack(free):
        root = np.array([[np.exp(free[2]), 0.0], [free[4], np.exp(free[3])]])
        return free[:2], root @ root.T

    def objective(free):
        mean, covariance = unpack(free)
        both = st.multivariate_normal.logpdf(X[14:], mean, covariance).sum()
        single = [
            st.norm.logpdf(X[~np.isnan(X).any(axis=1) ^ True, j], mean[j], covariance[j, j] ** 0.5) for j in (0, 1)
        ]
        of_prior = st.invwishart.logpdf(covariance, prior.degrees, prior.covariance)
        of_prior += st.multivariate_normal.logpdf(mean, prior.mean, covariance / prior.mean_precision)
        jacobian = (d + 2) * np.linalg.slogdet(covariance)[1]
        return both + sum(map(np.nansum, single)) + of_prior + jacobian

    found = minimize(lambda free: -objective(free), np.zeros(5), method="BFGS", options={"gtol": 1e-7})
    mean, covariance = unpack(found.x)

    def end(model_class):
        model = model_class(rows, 0, 1.0, family, np.zeros(25, np.int32), Workers(1))
        state = EM().init(model, KEY)
        for _ in range(200):
            state = EM().step(model, state)
        return state.position.parameters

    mode = end(FamilyModel)
    np.testing.assert_allclose(mode.means[0], mean, rtol=1e-4)
    np.testing.assert_allclose(mode.covariances.reshape(2, 2), covariance, rtol=1e-3)
    wrong = end(WithoutConditionalCovariances).covariances.reshape(2, 2)
    assert not np.allclose(wrong, covariance, rtol=0.02)


# --- fits ------------------------------------------------------------------------------------------------


@EACH
def test_streams_and_sessions_have_missing_cells(kind):
    X, z = make_X(3000)
    stream = ExponentialFamilyMixture(K, emission=Gaussian(kind), random_state=0, total_samples=3000)
    for part in np.split(X, 3):
        stream.partial_fit(part)
    assert adjusted_rand_score(stream.predict(X), z) > 0.85
    complete = ~np.isnan(X).any(axis=1)
    stream.partial_fit(X[complete][:50]).partial_fit(X[:50])  # minibatches with and without missing cells
    mixture = ExponentialFamilyMixture(K, emission=Gaussian(kind), max_iter=12, random_state=0)
    with distributed(None):
        on_workers = clone(mixture).fit(X)
    assert on_workers.components_.tobytes() == mixture.fit(X).components_.tobytes()


@pytest.mark.parametrize("sampler", ["em", "esca", "gibbs"])
def test_one_covariance_is_fitted_saved_and_exported(sampler, tmp_path):
    X, z = make_X(300, share=0.0)
    X[5] = 0.0
    settings = {"emission": Gaussian("tied"), "sampler": sampler, "max_iter": 30, "n_polish": 2, "random_state": 0}
    mixture = ExponentialFamilyMixture(K, **settings).fit(X)
    assert mixture.covariances_.shape == (D, D)
    assert adjusted_rand_score(mixture.labels_, z) > 0.85
    mixture.save(tmp_path / "tied.npz")
    same = load(tmp_path / "tied.npz")
    assert same.score_samples(X).tobytes() == mixture.score_samples(X).tobytes()
    assert mixture.sample(7, random_state=0)[0].shape == (7, D)
    n_parameters = K * D + D * (D + 1) // 2 + K - 1
    if sampler != "gibbs":
        assert mixture.bic(X) == pytest.approx(-2 * len(X) * mixture.score(X) + n_parameters * np.log(len(X)))
    if sampler == "gibbs":
        pytest.importorskip("arviz_base")
        assert mixture.to_arviz()["posterior"]["components"].shape[2:] == (K, D)


def test_tokens_can_have_one_covariance(tmp_path):
    rng = np.random.default_rng(0)
    vectors = np.repeat([[0.0, 0.0], [6.0, 6.0]], 10, axis=0) + rng.standard_normal((20, 2))
    X = rng.poisson(np.kron(rng.dirichlet([0.3, 0.3], 60), np.ones(10)) * 3.0)
    for sampler in ("esca", "gibbs"):
        settings = {"emission": Gaussian("tied"), "sampler": sampler, "word_vectors": vectors, "max_iter": 30}
        model = ExponentialFamilyAdmixture(2, random_state=0, **settings).fit(X)
        assert model.covariances_.shape == (2, 2)
        np.testing.assert_allclose(np.sort(model.components_[:, 0]), [0.0, 6.0], atol=1.0)
        model.save(tmp_path / "tokens.npz")
        assert load(tmp_path / "tokens.npz").transform(X).tobytes() == model.transform(X).tobytes()


def test_seeds_of_rows_with_missing_cells_are_good():
    X, z = make_X(500, share=0.3)
    assert adjusted_rand_score(cluster_rows(X, K, KEY), z) > 0.75


# --- input -----------------------------------------------------------------------------------------------


def test_missing_cells_of_tables_are_nan():
    X, _ = make_X(80)
    table = pd.DataFrame(X, columns=list("abcd")).convert_dtypes()
    assert table.isna().to_numpy().any()
    mixture = ExponentialFamilyMixture(2, max_iter=5, random_state=0)
    expected = clone(mixture).fit(X)
    assert mixture.fit(table).components_.tobytes() == expected.components_.tobytes()
    assert mixture.predict_proba(table).tobytes() == expected.predict_proba(X).tobytes()
    table["c"] = pd.Series([pd.NA] * 80, dtype="Float64")
    with pytest.raises(ValueError, match=r"^Column 'c' of X has no observed cell"):
        clone(mixture).fit(table)
    assert np.isfinite(mixture.score_samples(table)).all()


@pytest.mark.filterwarnings("ignore:Columns .* are linearly dependent")
@EACH
@pytest.mark.parametrize("sampler", ["em", "esca", "gibbs"])
def test_degenerate_tables_are_fitted(kind, sampler):
    X, _ = make_X(40)
    constant = np.where(np.isnan(X[:, :1]), np.nan, [2.0])
    tables = [
        np.hstack([X, constant]),  # a constant column
        np.hstack([X, X[:, :1]]),  # two equal columns
        np.hstack([X[:4], X[6:10], X[10:14]]),  # fewer rows than columns
        np.hstack([X, np.where(np.arange(40)[:, None] == 3, 1.0, np.nan)]),  # a single observed cell in a column
        np.concatenate([X, np.full((20, D), np.nan)]),  # rows without observed cells
        X * [1e-8, 1.0, 1e8, 1e3],
    ]
    for table in tables:
        settings = {"emission": Gaussian(kind), "sampler": sampler, "max_iter": 6, "random_state": 0}
        mixture = ExponentialFamilyMixture(2, **settings).fit(table)
        assert np.isfinite(mixture.score_samples(table)).all()


@EACH
def test_tables_that_cannot_be_fitted_are_refused_in_one_sentence(kind):
    mixture = ExponentialFamilyMixture(1, emission=Gaussian(kind))
    for X, message in [
        (np.full((5, 2), np.nan), "^All cells of X are missing"),
        ([[1.0, np.nan], [2.0, np.nan]], "^Column 1 of X has no observed cell"),
        ([[1.0, 2.0]], "^All rows of X .n_samples=1. are the same"),
        ([[1.0, np.nan], [np.nan, 2.0]], "^All rows of X .n_samples=2. are the same"),
        ([[np.inf, np.nan], [0.0, 1.0]], "infinity"),
    ]:
        with pytest.raises(ValueError, match=message):
            mixture.fit(X)
    maximum = Gaussian(kind, mean_precision_prior=0.0, covariance_prior=1.0)
    X = np.array([[0.0, np.nan], [1.0, np.nan], [5.0, 5.0], [6.0, 7.0]])
    mixture = ExponentialFamilyMixture(2, emission=maximum, sampler="em", init=[0, 0, 1, 1], max_iter=3)
    if kind in ("diag", "spherical"):
        with pytest.raises(ValueError, match=r"^Component 0 has a column without observed cells"):
            mixture.fit(X)
    else:
        assert np.isfinite(mixture.fit(X).components_).all()
