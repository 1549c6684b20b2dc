"""SubspaceClassifier: Bayes' rule over the mixtures of its classes, its parameters, and scikit-learn's tools."""

from functools import cache

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skmanifold import SubspaceClassifier, SubspaceMixture
from skmanifold.datasets import make_subspaces

from .._refusals import refuse

SHORT = {"max_iter": 10, "burn_in": 4, "thin": 2, "n_init": 2}
NAMES = np.array(["line", "plane", "more"])


@cache
def planted():
    """Rows about three flats that cross, half of them to learn from."""
    return make_subspaces((300, 200, 100), 5, (1, 2, 3), noise_precision=4.0, random_state=1)


def halves():
    truth = planted()
    y = NAMES[truth.labels]
    return truth.data[::2], y[::2], truth.data[1::2], y[1::2]


def make(n_components=1, random_state=0, class_prior=None, shrinkage=None, temperature=1.0, **params):
    mixture = SubspaceMixture(n_components, **{**SHORT, **params})
    others = {"shrinkage": shrinkage, "temperature": temperature}
    return SubspaceClassifier(mixture, class_prior=class_prior, random_state=random_state, **others)


@cache
def small_fit(n_components=1, shrinkage=None, temperature=1.0):
    """Never change it."""
    X, y, _, _ = halves()
    return make(n_components, shrinkage=shrinkage, temperature=temperature).fit(X, y)


def learned(classifier):
    """All that the mixtures say of new rows, as bytes."""
    return classifier.predict_log_proba(halves()[2]).tobytes()


# Bayes' rule


@pytest.mark.parametrize(
    ("n_components", "shrinkage", "temperature"), [(1, None, 1.0), (2, None, 1.0), (1, "ledoit_wolf", 2.5)]
)
def test_probabilities_follow_bayes_rule(n_components, shrinkage, temperature):
    X, y, new, _ = halves()
    classifier = small_fit(n_components, shrinkage, temperature)
    if shrinkage:
        X, new = X @ classifier.whitening_, new @ classifier.whitening_
    np.testing.assert_array_equal(classifier.classes_, sorted(NAMES))
    shares = np.array([np.mean(y == name) for name in classifier.classes_])
    np.testing.assert_allclose(classifier.class_prior_, shares)
    densities = np.column_stack([mixture.score_samples(new) for mixture in classifier.mixtures_])
    joint = np.log(shares) + densities / temperature
    expected = joint - logsumexp(joint, axis=1, keepdims=True)
    rows = halves()[2]
    np.testing.assert_allclose(classifier.predict_log_proba(rows), expected, atol=1e-10)
    np.testing.assert_allclose(classifier.predict_proba(rows), np.exp(expected), atol=1e-12)
    np.testing.assert_allclose(classifier.predict_proba(rows).sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(classifier.predict(rows), classifier.classes_[expected.argmax(axis=1)])
    assert not np.array_equal(expected.argmax(axis=1), densities.argmax(axis=1))
    for mixture, name in zip(classifier.mixtures_, classifier.classes_, strict=True):
        assert mixture.n_components == n_components
        alone = clone(mixture).fit(X[y == name])
        np.testing.assert_allclose(alone.score_samples(new), mixture.score_samples(new), rtol=1e-10)


def test_it_is_nearly_as_good_as_the_true_law():
    X, y, new, of_new = halves()
    truth = planted()
    classifier = SubspaceClassifier(random_state=0).fit(X, y)
    oracle = np.mean(NAMES[truth.log_densities(new).argmax(axis=1)] == of_new)
    assert 0.7 < oracle < 0.97
    assert classifier.score(new, of_new) > oracle - 0.03


@pytest.mark.parametrize("scale", [1e3, 1e9, 1e90])
def test_rows_far_away_have_probabilities(scale):
    classifier = small_fit()
    X = scale * halves()[2]
    probabilities = classifier.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(classifier.predict(X), classifier.classes_[probabilities.argmax(axis=1)])
    assert np.isfinite(classifier.predict_log_proba(X)).all()


# Parameters


def test_priors_of_classes_shift_log_odds():
    X, y, new, _ = halves()
    given = make(class_prior=[2, 1, 1]).fit(X, y)
    np.testing.assert_array_equal(given.class_prior_, [0.5, 0.25, 0.25])
    shift = np.log([0.5, 0.25, 0.25]) - np.log(small_fit().class_prior_)
    expected = small_fit().predict_log_proba(new) + shift
    gaps = given.predict_log_proba(new) - expected
    np.testing.assert_allclose(gaps, np.broadcast_to(gaps[:, :1], gaps.shape), atol=1e-10)
    never = make(class_prior=[1, 0, 1]).fit(X, y)
    assert set(never.predict(new)) == {"line", "plane"}
    np.testing.assert_array_equal(never.predict_proba(new)[:, 1], 0.0)


def test_the_mixture_given_is_cloned_and_none_is_one_subspace():
    X, y, _, _ = halves()
    classifier = make(2, max_dimension=2)
    given = classifier.mixture
    classifier.fit(X, y)
    assert classifier.mixture is given
    assert not hasattr(given, "bases_")
    assert given.random_state is None
    assert all(mixture.dimension_posterior_.shape == (2, 3) for mixture in classifier.mixtures_)
    default = SubspaceClassifier(random_state=0).fit(X[:100], y[:100])
    assert default.mixture is None
    assert [mixture.n_components for mixture in default.mixtures_] == [1, 1, 1]


def test_parameters_of_the_mixture_can_be_set_where_it_is_none():
    classifier = SubspaceClassifier().set_params(mixture__max_dimension=2, mixture__sampler__n_sweeps=2)
    assert (classifier.mixture.n_components, classifier.mixture.max_dimension) == (1, 2)
    assert classifier.mixture.sampler.n_sweeps == 2
    both = SubspaceClassifier(SubspaceMixture(2)).set_params(mixture=None, mixture__thin=3)
    assert (both.mixture.n_components, both.mixture.thin) == (1, 3)
    with pytest.raises(ValueError, match="Invalid parameter 'n_topics' for estimator SubspaceMixture"):
        SubspaceClassifier().set_params(mixture__n_topics=2)
    assert SubspaceClassifier().set_params(random_state=1).mixture is None


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"mixture": SubspaceMixture}, "The 'mixture' parameter of SubspaceClassifier must be None or an instance of"),
        ({"mixture": StandardScaler()}, "The 'mixture' parameter of SubspaceClassifier must be None or an instance of"),
        ({"mixture": SubspaceMixture(0)}, "The 'n_components' parameter of SubspaceMixture must be"),
        (
            {"mixture": SubspaceMixture(1, max_dimension=5)},
            "max_dimension=5 must be less than the number of features, 5",
        ),
        ({"mixture": SubspaceMixture(3)}, "n_components=3 subspaces need as many rows, but class rare has n_samples=2"),
        ({"shrinkage": 1.5}, "The 'shrinkage' parameter of SubspaceClassifier must be"),
        ({"shrinkage": "mle"}, "The 'shrinkage' parameter of SubspaceClassifier must be"),
        ({"temperature": 0.0}, "The 'temperature' parameter of SubspaceClassifier must be"),
        ({"class_prior": [1, 1]}, "class_prior must be 3 probabilities, one for each class; got"),
        ({"class_prior": [1, -1, 1]}, "class_prior must be 3 probabilities"),
        ({"class_prior": [0, 0, 0]}, "class_prior must be 3 probabilities"),
        ({"class_prior": [1, np.inf, 1]}, "class_prior must be 3 probabilities"),
        ({"class_prior": ["a", "b", "c"]}, "class_prior must be 3 probabilities"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_in_one_sentence_before_any_work(params, message, monkeypatch):
    monkeypatch.setattr(
        "skmanifold.mixture._subspace.fit_strategy.start_partitions", lambda *args: pytest.fail("began")
    )
    X, y = planted().data[:30], np.array(["often"] * 18 + ["rare"] * 2 + ["rather"] * 10)
    refuse(message, SubspaceClassifier(**params), X, y=y)


# Data


def test_classes_may_be_few_and_have_few_rows():
    X = planted().data
    one = make().fit(X[:20], np.zeros(20, int))
    np.testing.assert_array_equal(one.predict_proba(X), np.ones((600, 1)))
    rare = make().fit(X[:31], np.arange(31) == 7)
    assert np.isfinite(rare.predict_log_proba(X)).all()
    assert rare.predict(X[7:8])[0]
    assert rare.predict(X).mean() < 0.2


# Among scikit-learn's tools


def test_grid_search_finds_the_largest_dimension_that_predicts():
    X, y, _, _ = halves()
    grid = {"mixture__max_dimension": [0, 3], "mixture__max_iter": [10]}
    for classifier in (SubspaceClassifier(shrinkage=None, random_state=0), make()):
        search = GridSearchCV(classifier, grid, cv=2, error_score="raise").fit(X, y)
        assert search.best_params_["mixture__max_dimension"] == 3
        assert np.ptp(search.cv_results_["mean_test_score"]) > 0.05


def test_it_classifies_tumours_behind_a_scaler():
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), SubspaceClassifier(random_state=0)).fit(X[::2], y[::2])
    assert pipeline.score(X[1::2], y[1::2]) > 0.93


def test_an_interrupted_fit_leaves_no_trace(monkeypatch):
    X, y, _, _ = halves()
    classifier, calls, fit = make().fit(X[:60], y[:60]), [], SubspaceMixture.fit
    expected, attributes = learned(classifier), dict(vars(classifier))

    def interrupted(self, rows):
        calls.append(len(rows))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return fit(self, rows)

    monkeypatch.setattr(SubspaceMixture, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        classifier.fit(X, y)
    assert vars(classifier) == attributes
    assert learned(classifier) == expected
    assert sum(calls) < len(X)
