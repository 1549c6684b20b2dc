import numpy as np
import pytest
from joblib import parallel_config
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV

from skmanifold import DPMixture, ExponentialFamilyMixture, StochasticLDA
from skmanifold.emissions import Gaussian
from skmanifold.metrics import bic_scorer, bootstrap_components_test, icl_scorer

RNG = np.random.default_rng(0)
TWO = np.concatenate([RNG.normal(size=(60, 1)), RNG.normal(size=(40, 1)) + 4.0])
QUICK = ExponentialFamilyMixture(1, emission=Gaussian("spherical"), n_init=1, max_iter=40)


def planted():
    """Three groups in two columns with the same correlation."""
    rng = np.random.default_rng(1)
    return rng.multivariate_normal([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]], 240) + 6.0 * np.eye(3, 2)[np.arange(240) % 3]


@pytest.mark.extended
def test_p_values_are_uniform_if_the_number_is_true():
    n_bootstrap, n_tables = 4, 60
    rng = np.random.default_rng(0)
    found = [
        bootstrap_components_test(QUICK, rng.normal(size=(40, 1)), n_bootstrap, random_state=seed).p_value
        for seed in range(n_tables)
    ]
    counts = np.bincount(np.rint(np.multiply(found, n_bootstrap + 1)).astype(int), minlength=n_bootstrap + 2)
    assert counts[0] == 0
    expected = n_tables / (n_bootstrap + 1)
    assert ((counts[1:] - expected) ** 2 / expected).sum() < chi2(n_bootstrap).ppf(0.999)


def test_one_component_is_rejected_for_two_groups_and_two_are_not():
    first = bootstrap_components_test(QUICK, TWO, 19, random_state=0)
    assert first.p_value == 1 / 20
    assert first.n_components == 1
    assert first.statistic > first.drawn_statistics.max() + 10.0
    second = bootstrap_components_test(clone(QUICK).set_params(n_components=2), TWO, 19, random_state=0)
    assert second.p_value > 0.1
    assert second.p_value == (1 + (second.drawn_statistics >= second.statistic).sum()) / 20


def test_the_statistic_is_twice_the_difference_of_log_likelihoods():
    em = ExponentialFamilyMixture(2, emission=Gaussian("diag"), sampler="em")
    found = bootstrap_components_test(em, TWO, 1, random_state=0)
    one, more = (ExponentialFamilyMixture(k, emission=Gaussian("diag"), sampler="em", random_state=0) for k in (2, 3))
    expected = 2.0 * len(TWO) * (more.fit(TWO).score(TWO) - one.fit(TWO).score(TWO))
    assert found.statistic == pytest.approx(expected, abs=2.0)  # of modes from other initial labels


def test_the_result_depends_on_the_seed_and_not_on_the_number_of_jobs():
    with parallel_config("threading"):
        one, two, other = (
            bootstrap_components_test(QUICK, TWO, 5, random_state=seed, n_jobs=n)
            for seed, n in ((3, 1), (3, 2), (4, 1))
        )
    np.testing.assert_array_equal(one.drawn_statistics, two.drawn_statistics)
    assert one.statistic == two.statistic
    assert not np.array_equal(one.drawn_statistics, other.drawn_statistics)


@pytest.mark.parametrize("mixture", [DPMixture(), StochasticLDA(2), GaussianMixture(2)])
def test_estimators_without_a_given_number_or_new_rows_are_refused(mixture):
    with pytest.raises(ValueError, match=rf"a given number n_components .*{type(mixture).__name__} is none"):
        bootstrap_components_test(mixture, TWO)


def test_missing_cells_are_refused():
    with pytest.raises(ValueError, match="X contains NaN"):
        bootstrap_components_test(QUICK, [[0.0], [np.nan], [1.0]])


def test_a_search_has_a_table_of_criteria_and_refits_the_best():
    X, mixture = planted(), ExponentialFamilyMixture(emission=Gaussian(), random_state=0)
    grid, rows = {"n_components": [1, 2, 3, 4], "emission__covariance_type": ["tied", "diag"]}, np.arange(240)
    scoring = {"bic": bic_scorer, "icl": icl_scorer}
    search = GridSearchCV(mixture, grid, scoring=scoring, refit="bic", cv=[(rows, rows)]).fit(X)
    assert search.best_params_ == {"n_components": 3, "emission__covariance_type": "tied"}
    results, best = search.cv_results_, search.best_estimator_
    assert results["mean_test_bic"][search.best_index_] == -best.bic(X)
    assert results["mean_test_icl"][search.best_index_] == -best.icl(X)
    assert (results["mean_test_icl"] <= results["mean_test_bic"]).all()


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_fits_that_fail_do_not_stop_the_search():
    X = np.concatenate([RNG.normal(size=(20, 2)), np.repeat([[0.0, 9.0], [9.0, 0.0]], 20, axis=0)])
    prior = {"mean_precision_prior": 0.0, "covariance_prior": 0.0, "degrees_of_freedom_prior": 4.0}
    mixture = ExponentialFamilyMixture(emission=Gaussian(**prior), sampler="em", random_state=0)
    rows = np.arange(len(X))
    grid = {"n_components": [1, 4]}
    with pytest.warns(FitFailedWarning, match="is singular"):
        search = GridSearchCV(mixture, grid, scoring=bic_scorer, cv=[(rows, rows)]).fit(X)
    np.testing.assert_array_equal(np.isnan(search.cv_results_["mean_test_score"]), [False, True])
    assert search.best_params_ == {"n_components": 1}
