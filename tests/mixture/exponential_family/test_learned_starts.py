"""Priors of Gaussian components that finite mixtures learn, and initial labels of hierarchies of clusters."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln, multigammaln
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import adjusted_rand_score

from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import Categorical, Columns, Gaussian
from skmanifold.emissions._gaussian.hyperparameters import _LEAST_SCALE as LEAST_SCALE
from skmanifold.mixture._exponential_family import fit_strategies
from skmanifold.mixture._exponential_family.fit_strategies import start_labels
from skmanifold.random._keys import root_key
from skmanifold.samplers import EM

# The latter: interpreted 64-bit keys.
pytestmark = pytest.mark.filterwarnings("ignore:EM stopped after", "ignore:overflow encountered:RuntimeWarning")
NAN = np.nan
KINDS = ["full", "tied", "diag", "spherical", "proportional"]
NUMBERS = "mean_precision_prior", "covariance_prior", "degrees_of_freedom_prior"


def planted(n=300, K=6, d=2, seed=0, distance=10.0):
    """Rows of separate components of different shapes, without tails, and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.resize(np.arange(K), n)
    roots = np.eye(d) + 0.3 * rng.normal(size=(K, d, d))
    means = distance * rng.permutation(np.stack(np.meshgrid(*[np.arange(3.0)] * d), axis=-1).reshape(-1, d))[:K]
    return means[labels] + np.einsum("iab,ib->ia", roots[labels], rng.uniform(-1.7, 1.7, (n, d))), labels


def make(emission, n_components=6, **settings):
    return ExponentialFamilyMixture(
        n_components, emission=emission, **{"sampler": "em", "random_state": 0, "n_init": 1, **settings}
    )


# --- learned numbers -------------------------------------------------------------------------------------


def moments(X, labels):
    """Sizes, means, and scatters about them."""
    rows = [X[labels == k] for k in np.unique(labels)]
    gaps = [of - of.mean(axis=0) for of in rows]
    return np.array([len(of) for of in rows]), [of.mean(axis=0) for of in rows], [gap.T @ gap for gap in gaps]


def log_marginal(X, labels, kind, scatter, degrees, kappa):
    """The formula of the Notes of `Gaussian`, up to powers of pi."""
    total, d = 0.0, X.shape[1]
    for n, mean, within in zip(*moments(X, labels), strict=True):
        gap = mean - X.mean(axis=0)
        after = within + kappa * n / (kappa + n) * np.outer(gap, gap)
        total += 0.5 * d * np.log(kappa / (kappa + n))
        if kind == "full":
            total += multigammaln(0.5 * (degrees + n), d) - multigammaln(0.5 * degrees, d)
            total += 0.5 * degrees * np.linalg.slogdet(scatter)[1]
            total -= 0.5 * (degrees + n) * np.linalg.slogdet(scatter + after)[1]
            continue
        m, after = (n, np.diagonal(after)) if kind == "diag" else (n * d, np.trace(after))
        of_each = gammaln(0.5 * (degrees + m)) - gammaln(0.5 * degrees) + 0.5 * degrees * np.log(scatter)
        total += (of_each - 0.5 * (degrees + m) * np.log(scatter + after)).sum()
    return total


def reference_of(X, labels, kind):
    """The covariance within components, with some rows of the default prior."""
    n, K, d = len(X), labels.max() + 1, X.shape[1]
    default, within = np.cov(X.T) / K ** (2.0 / d), sum(moments(X, labels)[2])
    if kind == "full":
        default += 0.01 * np.diag(np.diagonal(default))
        return (within + (d + 2.0) * default) / (n - K + d + 2.0)
    default, within = np.diagonal(default), np.diagonal(within)
    if kind == "diag":
        return (within + 3.0 * default) / (n - K + 3.0)
    return (within.sum() + 3.0 * default.mean()) / ((n - K) * d + 3.0)


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_learned_numbers_maximise_the_marginal_likelihood_within_bounds(kind):
    X, labels = planted()
    emission = make(Gaussian(kind), init=labels, max_iter=3).fit(X).emission_
    reference, least = reference_of(X, labels, kind), 3.0 if kind == "full" else 2.0

    def cost(logs):
        scale, excess, kappa = np.exp(logs)
        distances = (logs - np.log([1.0, 2.0, 0.1])) / [2.0, 1.0, 0.5]
        of_rows = log_marginal(X, labels, kind, scale * excess * reference, least + excess, kappa)
        return 0.5 * distances @ distances - of_rows

    best = minimize(cost, [0.0, 0.5, -2.0], method="Nelder-Mead", options={"xatol": 1e-4}).x
    assert np.min(best - np.log([LEAST_SCALE, 2.1 if kind == "spherical" else 1.1, 0.01])) > 0.02  # inside the bounds
    excess = emission.degrees_of_freedom_prior - least
    scale = emission.covariance_prior / (excess * reference)
    np.testing.assert_allclose(scale, np.full_like(scale, np.mean(scale)), rtol=1e-6)
    found = np.log([np.mean(scale), excess, emission.mean_precision_prior])
    assert cost(found) - cost(best) < 0.01
    for i, sign in product(range(3), (-1.0, 1.0)):  # nearby numbers are worse
        other = found.copy()
        other[i] += 0.25 * sign
        assert cost(other) - cost(best) > 0.02


def test_scale_and_excess_have_lower_bounds():
    X, labels = planted(60)
    X = np.repeat(X[labels < 3][:3], 30, axis=0)  # rows that are equal in each component
    X = np.concatenate([X, X + np.array([5.0, 0.0])])
    emission = make(Gaussian(), 6, init=np.repeat(np.arange(6), 30), max_iter=3).fit(X).emission_
    excess = emission.degrees_of_freedom_prior - 3.0
    assert excess > 1.09
    reference = reference_of(X, np.repeat(np.arange(6), 30), "full")
    scale = emission.covariance_prior / (excess * reference)
    np.testing.assert_allclose(scale, LEAST_SCALE, rtol=0.011)


@pytest.mark.parametrize(("kind", "weight"), [("tied", 1.0), ("proportional", 0.1)])
def test_one_matrix_has_the_covariance_within_components_as_its_prior(kind, weight):
    X, labels = planted()
    emission = make(Gaussian(kind), init=labels, max_iter=3).fit(X).emission_
    np.testing.assert_allclose(emission.covariance_prior, weight * reference_of(X, labels, "full"), rtol=1e-6)
    d, K = 2, 6
    least = d + K + 1 if kind == "tied" else d + 2
    assert emission.degrees_of_freedom_prior - least == pytest.approx(weight)
    assert emission.mean_precision_prior == 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_given_numbers_stay(kind):
    X, labels = planted()
    learned = make(Gaussian(kind), init=labels, max_iter=3).fit(X)._family.prior
    given = {"mean_precision": 0.37, "covariance": 0.7 if kind == "spherical" else [0.7, 2.0], "degrees": 11.5}
    for parameter, (name, value) in zip(NUMBERS, given.items(), strict=True):
        prior = make(Gaussian(kind, **{parameter: value}), init=labels, max_iter=3).fit(X)._family.prior
        expected = np.diag(value) if name == "covariance" and kind not in ("diag", "spherical") else value
        np.testing.assert_array_equal(getattr(prior, name), expected)
        assert not np.array_equal(getattr(learned, name), expected)
        np.testing.assert_array_equal(prior.mean, learned.mean)
    of_degrees = make(Gaussian(kind, degrees_of_freedom_prior=11.5), init=labels, max_iter=3).fit(X)._family.prior
    default = Gaussian(kind).bind(Gaussian(kind).read(BaseEstimator(), X, reset=True), 6).prior
    assert not np.allclose(of_degrees.covariance, default.covariance, rtol=0.01)  # which is learned all the same


def test_an_improper_prior_and_blocks_of_tables_are_not_learned():
    X, labels = planted()
    improper = make(Gaussian(mean_precision_prior=0), init=labels, max_iter=3).fit(X).emission_
    assert (improper.mean_precision_prior, improper.covariance_prior) == (0, None)
    table = np.column_stack([X, labels % 2])
    columns = Columns([("numbers", Gaussian(), [0, 1]), ("codes", Categorical(), [2])])
    block = dict(make(columns, init=labels, max_iter=3).fit(table).emission_.get_params())["numbers"]
    assert block.covariance_prior is None


def test_minibatches_and_fits_of_one_component_learn():
    X, _ = planted()
    stream = make(Gaussian("diag"), sampler="esca").partial_fit(X)
    first = stream.emission_
    assert all(getattr(first, name) is not None for name in NUMBERS)
    stream.partial_fit(X[:100])
    for name in NUMBERS:
        np.testing.assert_array_equal(getattr(stream.emission_, name), getattr(first, name))
    single = make(Gaussian(), 1).fit(X).emission_
    reference = reference_of(X, np.zeros(len(X), int), "full")
    scale = single.covariance_prior / reference
    np.testing.assert_allclose(scale, np.full((2, 2), scale[0, 0]), rtol=1e-6)


def test_a_fit_with_the_learned_numbers_given_is_the_same():
    X, labels = planted()
    learned = make(Gaussian(), init=labels, max_iter=5).fit(X)
    given = make(learned.emission_, init=labels, max_iter=5).fit(X)
    for name in ("components_", "covariances_", "log_density_trace_"):
        np.testing.assert_array_equal(getattr(given, name), getattr(learned, name))


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["full", "diag", "proportional"])
def test_whole_weights_are_copies_of_rows_with_default_initial_labels(kind, missing):
    X, _ = planted(90, distance=6.0)
    rng = np.random.default_rng(3)
    X[rng.random(X.shape) < missing] = NAN
    weights = rng.integers(0, 4, len(X))
    copies = np.repeat(np.arange(len(X)), weights)
    mixture = make(Gaussian(kind), 3, sampler=EM(tol=0.0), max_iter=10)
    weighted, repeated = clone(mixture).fit(X, sample_weight=weights), clone(mixture).fit(X[copies])
    for name in NUMBERS:
        left, right = (getattr(each.emission_, name) for each in (weighted, repeated))
        np.testing.assert_allclose(left, right, rtol=1e-8)
    np.testing.assert_allclose(weighted.components_, repeated.components_, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(weighted.covariances_, repeated.covariances_, rtol=1e-8, atol=1e-9)
    np.testing.assert_array_equal(weighted.labels_[copies], repeated.labels_)


@pytest.mark.parametrize("kind", KINDS)
def test_a_constant_column_has_finite_scores_and_the_default_variance(kind):
    X, _ = planted(120, distance=6.0)
    X = np.column_stack([X, np.full(len(X), 0.1)])
    new = X[:20] + np.array([0.0, 0.0, 0.5])
    mixture = make(Gaussian(kind), 3).fit(X)
    assert np.isfinite(mixture.score(X))
    assert -50.0 < mixture.score(new) < mixture.score(X)
    if kind != "spherical":
        default = X[:, :2].var(axis=0, ddof=1).mean() / 3 ** (2.0 / 3.0)
        scatter = mixture.emission_.covariance_prior
        of_column = scatter[2] if kind == "diag" else scatter[2, 2]
        degrees = mixture.emission_.degrees_of_freedom_prior
        assert of_column > 0.05 * default
        assert degrees > 0.0


# --- initial labels --------------------------------------------------------------------------------------


def long_clusters(seed=0):
    """Rows of three long clusters side by side, in two columns, which k-means divides across."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=600)
    X = rng.normal(size=(600, 2)) * [12.0, 0.4]
    X[:, 1] += 4.0 * labels
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    return X @ turn, labels


def labels_of(X, init, K=3, number=0, emission=None):
    emission = emission or Gaussian()
    rows = emission.read(BaseEstimator(), X, reset=True)
    return start_labels(emission.bind(rows, K), rows, init, emission.free_hyperparameters(), root_key(1), number)


def test_a_hierarchy_finds_long_clusters_that_k_means_does_not():
    X, truth = long_clusters()
    merged = labels_of(X, "hierarchical")
    assert merged.dtype == np.int32
    assert set(merged) == {0, 1, 2}
    assert adjusted_rand_score(truth, merged) > 0.9
    assert adjusted_rand_score(truth, labels_of(X, "k-means++")) < 0.5


def test_the_first_default_labels_are_a_hierarchy_for_few_columns():
    X, _ = long_clusters()
    merged, seeds = (labels_of(X, init) for init in ("hierarchical", "k-means++"))
    np.testing.assert_array_equal(labels_of(X, "auto"), merged)
    np.testing.assert_array_equal(labels_of(X, "auto", number=1), seeds)
    many = np.random.default_rng(0).normal(size=(200, 33))
    np.testing.assert_array_equal(labels_of(many, "auto"), labels_of(many, "k-means++"))
    assert not np.array_equal(labels_of(many[:, :32], "auto"), labels_of(many[:, :32], "k-means++"))
    improper = Gaussian(mean_precision_prior=0)
    np.testing.assert_array_equal(labels_of(X, "auto", emission=improper), labels_of(X, "k-means++"))
    for emission in (Gaussian("proportional"), Gaussian("diag")):
        assert set(labels_of(X, "auto", emission=emission)) == {0, 1, 2}


def test_more_clusters_than_rows_are_not_asked_for():
    X, _ = planted(20)
    mixture = make(Gaussian("diag"), 12, init="hierarchical").fit(X)
    assert np.isfinite(mixture.score(X))
    assert sorted(set(labels_of(X, "hierarchical", 20))) == list(range(20))


@pytest.mark.parametrize("emission", [Gaussian(mean_precision_prior=0), "poisson"])
def test_a_hierarchy_needs_a_proper_gaussian_prior(emission):
    X = np.random.default_rng(0).poisson(3.0, (50, 2))
    with pytest.raises(ValueError, match=r"^init='hierarchical' needs .*a proper prior") as refusal:
        make(emission, 2, init="hierarchical").fit(X)
    sentence = str(refusal.value)
    assert sentence.endswith(".")
    assert sentence.count(". ") == 0


@pytest.mark.parametrize("init", ["auto", "hierarchical"])
def test_threads_do_not_change_a_byte(init):
    X, _ = planted(distance=6.0)
    X[::9, 0] = NAN
    one, two = (
        make(Gaussian(), 4, init=init, n_init=3, n_chains=2, max_iter=8, sampler="esca", n_jobs=n_jobs).fit(X)
        for n_jobs in (1, 2)
    )
    for name in ("components_", "covariances_", "labels_", "log_density_trace_"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()
    for name in NUMBERS:
        np.testing.assert_array_equal(getattr(one.emission_, name), getattr(two.emission_, name))


def test_the_best_of_several_labels_is_kept_by_halving():
    X, truth = long_clusters()
    bad = make(Gaussian(), 3, init="k-means++", n_init=1, max_iter=3).fit(X)
    several = make(Gaussian(), 3, n_init=4, max_iter=30).fit(X)
    assert several.score(X) > bad.score(X)
    assert adjusted_rand_score(truth, several.labels_) > 0.95


@pytest.mark.parametrize("init", ["auto", "k-means++"])
def test_many_rows_start_from_components_of_a_sample(init, monkeypatch):
    X, truth = planted(1500, 3, distance=7.0)
    mixture = make(Gaussian(), 3, init=init, n_init=2, max_iter=12, sampler="esca")
    whole = clone(mixture).fit(X)
    monkeypatch.setattr(fit_strategies, "SAMPLE_ROWS", 200)
    one, two = (clone(mixture).set_params(n_jobs=n_jobs).fit(X) for n_jobs in (1, 2))
    assert one.labels_.tobytes() == two.labels_.tobytes()
    assert one.covariances_.tobytes() == two.covariances_.tobytes()
    assert adjusted_rand_score(truth, one.labels_) > 0.99
    learned, of_all = (each.emission_ for each in (one, whole))
    assert learned.covariance_prior.tobytes() != of_all.covariance_prior.tobytes()
    within = [np.trace(each.covariance_prior) / (each.degrees_of_freedom_prior - 3.0) for each in (learned, of_all)]
    np.testing.assert_allclose(*within, rtol=0.5)
