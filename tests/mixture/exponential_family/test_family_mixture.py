"""The estimator of mixtures of exponential families: what it finds, and what it says of rows."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from emissions._cases import Anyone
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV

from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import Bernoulli, Gaussian, Multinomial, Poisson
from skmanifold.mixture._scores import fill_shares
from skmanifold.persistence import load
from skmanifold.samplers import EM, ESCA

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys
compiled = pytest.mark.skipif(not hasattr(fill_shares, "py_func"), reason="fits with kernels that are compiled")
WEIGHTS = np.array([0.5, 0.3, 0.2])
SAMPLERS = list(ExponentialFamilyMixture._samplers)


def make_rows(name, n=2000, seed=0):
    """Rows, the expectations of three components, and labels."""
    rng = np.random.default_rng(seed)
    z = rng.choice(3, n, p=WEIGHTS)
    if name == "bernoulli":
        means = rng.beta(0.5, 0.5, (3, 15))
        X = (rng.random((n, 15)) < means[z]).astype(float)
        X[rng.random(X.shape) < 0.1] = np.nan
    elif name == "poisson":
        means = rng.gamma(1.0, 4.0, (3, 8))
        X = rng.poisson(means[z]).astype(float)
        X[rng.random(X.shape) < 0.1] = np.nan
    elif name == "multinomial":
        means = rng.dirichlet(np.full(60, 0.2), 3)
        X = sp.csr_array(rng.multinomial(rng.poisson(25, n), means[z]))
    else:
        means = rng.normal(0.0, 4.0, (3, 2))
        roots = rng.normal(0.0, 1.0, (3, 2, 2))
        X = means[z] + np.einsum("iab,ib->ia", roots[z], rng.standard_normal((n, 2)))
    return X, means, z


# --- what is found ---------------------------------------------------------------------------------------


@compiled
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", ["bernoulli", "gaussian", "multinomial", "poisson"])
def test_components_of_the_generator_are_found(name, sampler):
    X, means, z = make_rows(name)
    mixture = ExponentialFamilyMixture(3, emission=name, sampler=sampler, max_iter=60, random_state=0).fit(X)
    assert type(mixture.sampler_).short_name == sampler
    costs = ((mixture.components_[:, None] - means) ** 2).sum(axis=2)
    mine, theirs = linear_sum_assignment(costs)
    np.testing.assert_allclose(mixture.weights_[mine], WEIGHTS[theirs], atol=0.05)
    spread = {"bernoulli": 0.09, "gaussian": 0.2, "multinomial": 0.012, "poisson": 0.4}[name]
    np.testing.assert_allclose(mixture.components_[mine], means[theirs], atol=spread)
    assert adjusted_rand_score(z, mixture.labels_) > 0.9
    np.testing.assert_array_equal(mixture.labels_, mixture.predict(X))
    assert mixture.weights_.sum() == pytest.approx(1.0)


@compiled
def test_draws_of_gibbs_cover_what_is_found_and_em_agrees_with_esca():
    X, *_ = make_rows("gaussian")
    of_gibbs = ExponentialFamilyMixture(3, sampler="gibbs", max_iter=400, thin=4, random_state=0).fit(X)
    of_em = ExponentialFamilyMixture(3, sampler=EM(tol=1e-10), random_state=0, init=of_gibbs.labels_).fit(X)
    of_esca = ExponentialFamilyMixture(3, max_iter=400, sampler=ESCA(200), random_state=0, init=of_gibbs.labels_).fit(X)
    draws = of_gibbs.posterior_["components"][0]
    assert draws.shape == (50, 3, 2)
    np.testing.assert_allclose(draws.mean(axis=0), of_em.components_, atol=5 * draws.std(axis=0).max())
    assert draws.std(axis=0).min() > 1e-3
    np.testing.assert_allclose(of_esca.components_, of_em.components_, atol=0.02)
    assert of_em.converged_
    assert of_em.n_iter_ < 200
    assert not hasattr(of_gibbs, "converged_")


@pytest.mark.parametrize("sampler", ["esca", "gibbs"])
def test_polishing_ends_where_em_does(sampler):
    X, *_ = make_rows("poisson", 400)
    plain = ExponentialFamilyMixture(3, emission="poisson", sampler=sampler, max_iter=20, random_state=0).fit(X)
    polished = clone(plain).set_params(n_polish=100).fit(X)
    em = clone(plain).set_params(sampler=EM(tol=1e-13), init=plain.labels_, max_iter=200).fit(X)
    np.testing.assert_allclose(polished.components_, em.components_, rtol=1e-6)
    assert np.abs(plain.components_ - em.components_).max() > 1e-3


def test_of_several_chains_the_best_is_kept():
    X, *_ = make_rows("poisson", 300)
    options = {"emission": "poisson", "init": "random", "max_iter": 8}
    mixture = ExponentialFamilyMixture(3, sampler="em", n_chains=4, n_jobs=2, random_state=1, **options).fit(X)
    assert mixture.log_density_trace_.shape == (4, mixture.n_iter_)
    assert mixture.best_chain_ == mixture.log_density_trace_[:, -1].argmax()
    assert len(set(mixture.log_density_trace_[:, -1])) > 1


@compiled
def test_a_stream_ends_near_the_fit():
    X, *_ = make_rows("gaussian", 6000)
    fit = ExponentialFamilyMixture(3, random_state=0).fit(X)
    stream = ExponentialFamilyMixture(3, total_samples=6000, random_state=0)
    for start in range(0, 6000, 300):
        stream.partial_fit(X[start : start + 300])
    for start in range(0, 6000, 300):
        stream.partial_fit(X[start : start + 300])
    costs = ((stream.components_[:, None] - fit.components_) ** 2).sum(axis=2)
    mine, theirs = linear_sum_assignment(costs)
    np.testing.assert_allclose(stream.components_[mine], fit.components_[theirs], atol=0.1)
    np.testing.assert_allclose(stream.weights_[mine], fit.weights_[theirs], atol=0.03)
    assert stream.n_batch_iter_ == 40
    assert stream._sums.total()[0].sum() == pytest.approx(6000)
    with pytest.raises(AttributeError, match="partial_fit keeps no draws"):
        _ = stream.posterior_
    assert not hasattr(stream, "labels_")


def test_a_stream_goes_on_from_a_fit_scaled_to_the_whole_stream():
    X, *_ = make_rows("poisson", 300)
    mixture = ExponentialFamilyMixture(3, emission="poisson", max_iter=20, total_samples=3000, random_state=0).fit(X)
    before = mixture.components_
    pickle.loads(pickle.dumps(mixture)).partial_fit(X[:100])
    mixture.partial_fit(X[:100])
    assert mixture._sums.total()[0].sum() == pytest.approx(3000)
    np.testing.assert_allclose(mixture.components_, before, rtol=0.3, atol=0.3)
    for parameters, message in [
        ({"n_components": 2}, "n_components=2, but the fitted model has 3 components"),
        ({"emission": "multinomial"}, r"emission=Multinomial\(\), but the fitted model has Poisson\(\): call fit"),
    ]:
        with pytest.raises(ValueError, match=message):
            pickle.loads(pickle.dumps(mixture)).set_params(**parameters).partial_fit(X[:100])
    other = pickle.loads(pickle.dumps(mixture)).set_params(sampler="em")
    assert not hasattr(other, "partial_fit")


# --- what is said of rows --------------------------------------------------------------------------------


@compiled
@pytest.mark.parametrize(("kind", "theirs"), [("full", "full"), ("diag", "diag"), ("spherical", "spherical")])
@pytest.mark.filterwarnings("ignore:EM stopped after")
def test_densities_and_criteria_are_those_of_scikit_learn_at_the_same_parameters(kind, theirs):
    X, *_ = make_rows("gaussian", 500)
    mixture = ExponentialFamilyMixture(3, emission=Gaussian(kind), sampler="em", max_iter=30, random_state=0).fit(X)
    covariances = mixture.covariances_ if kind != "spherical" else mixture.covariances_[:, 0]
    precisions = np.linalg.inv(covariances) if kind == "full" else 1.0 / covariances
    reference = GaussianMixture(3, covariance_type=theirs)
    reference.weights_, reference.means_, reference.covariances_ = mixture.weights_, mixture.components_, covariances
    reference.precisions_cholesky_ = np.linalg.cholesky(precisions) if kind == "full" else np.sqrt(precisions)
    np.testing.assert_allclose(mixture.score_samples(X), reference.score_samples(X), rtol=1e-9)
    np.testing.assert_allclose(mixture.predict_proba(X), reference.predict_proba(X), atol=1e-9)
    assert mixture.bic(X) == pytest.approx(reference.bic(X))
    assert mixture.aic(X) == pytest.approx(reference.aic(X))
    assert mixture.score(X) == pytest.approx(reference.score(X))


def test_gibbs_averages_densities_over_draws_whatever_their_order():
    X, *_ = make_rows("poisson", 200)
    options = {"emission": "poisson", "sampler": "gibbs", "max_iter": 20, "thin": 1, "random_state": 0}
    mixture = ExponentialFamilyMixture(3, n_predictive_draws=10, **options).fit(X)
    assert len(mixture._draws) == 10
    densities = []
    for draw in mixture._draws:
        other = ExponentialFamilyMixture(3, emission="poisson").fit(X)
        other._estimate = draw
        densities.append(np.exp(other.score_samples(X)))
    np.testing.assert_allclose(mixture.score_samples(X), np.log(np.mean(densities, axis=0)), rtol=1e-9)
    order = [2, 0, 1]
    for i, draw in enumerate(mixture._draws[::2]):
        offsets, naturals, means = draw.parameters
        moved = type(draw.parameters)(offsets[order], np.ascontiguousarray(naturals[:, order]), means[:, order])
        mixture._draws[2 * i] = type(draw)(draw.weights[order], moved)
    np.testing.assert_allclose(mixture.score_samples(X), np.log(np.mean(densities, axis=0)), rtol=1e-9)


def test_criteria_need_a_mode():
    X, *_ = make_rows("poisson", 100)
    gibbs = ExponentialFamilyMixture(2, emission="poisson", sampler="gibbs", max_iter=4)
    assert not hasattr(gibbs, "bic")
    assert not hasattr(gibbs.fit(X), "aic")
    assert np.isfinite(gibbs.set_params(n_polish=3).fit(X).bic(X))


def test_the_summary_has_criteria_and_sizes_and_is_printed_as_a_table():
    X, *_ = make_rows("gaussian", 300)
    mixture = ExponentialFamilyMixture(3, emission=Gaussian("diag"), random_state=0).fit(X)
    found, probabilities = mixture.summary(X), mixture.predict_proba(X)
    largest = probabilities.max(axis=1)
    np.testing.assert_allclose(mixture.uncertainty(X), 1.0 - largest, atol=1e-15)
    assert mixture.uncertainty(X).max() > 0.1
    assert (found.aic, found.bic, found.icl) == (mixture.aic(X), mixture.bic(X), mixture.icl(X))
    assert found.icl == pytest.approx(mixture.bic(X) - 2.0 * np.log(largest).sum(), rel=1e-12)
    assert found.icl > found.bic + 1.0
    assert found.log_likelihood == pytest.approx(len(X) * mixture.score(X), rel=1e-12)
    assert found.n_parameters == 2 + 3 * 2 * X.shape[1]
    np.testing.assert_array_equal(found.sizes, np.bincount(mixture.predict(X), minlength=3))
    np.testing.assert_array_equal(found.weights, mixture.weights_)
    lines = str(found).splitlines()
    assert lines[0] == "ExponentialFamilyMixture of Gaussian('diag')"
    assert lines[1].split() == ["rows", "300"]
    assert lines[-1].split() == ["2", f"{mixture.weights_[2]:.3f}", f"{found.sizes[2]:.0f}"]
    weights = np.arange(300) % 3
    weighted, twice = mixture.summary(X, weights), mixture.summary(np.repeat(X, weights, axis=0))
    np.testing.assert_array_equal(weighted.sizes, twice.sizes)
    assert weighted.icl == pytest.approx(twice.icl, rel=1e-12)


# --- in scikit-learn -------------------------------------------------------------------------------------


def test_parameters_of_emission_and_sampler_are_reached_through_their_names():
    mixture = ExponentialFamilyMixture(2).set_params(emission__covariance_type="diag", sampler__n_average=3)
    assert mixture.emission.covariance_type == "diag"
    assert mixture.sampler.n_average == 3
    mixture.set_params(emission="poisson", emission__rate_prior=0.1)
    assert isinstance(mixture.emission, Poisson)
    with pytest.raises(ValueError, match=r"Unknown emission 'cauchy': known names are 'auto', 'bernoulli'"):
        ExponentialFamilyMixture(2, emission="cauchy").set_params(emission__scale=1.0)


def test_emissions_of_the_constructor_are_left_alone():
    emission = Multinomial(0.3)
    X, *_ = make_rows("multinomial", 50)
    mixture = ExponentialFamilyMixture(2, emission=emission, max_iter=4).fit(X)
    assert mixture.emission is emission
    assert mixture.emission_ is not emission
    assert vars(emission) == {"category_prior": 0.3}


@compiled
def test_grid_search_finds_the_number_of_components():
    X, *_ = make_rows("gaussian", 600)
    search = GridSearchCV(ExponentialFamilyMixture(max_iter=30, random_state=0), {"n_components": [1, 3]}, cv=3)
    assert search.fit(X).best_params_ == {"n_components": 3}


def test_tags_are_those_of_the_emission():
    tags = {
        name: ExponentialFamilyMixture(emission=name).__sklearn_tags__().input_tags
        for name in ("bernoulli", "categorical", "gaussian", "multinomial", "poisson")
    }
    assert [name for name in tags if tags[name].sparse] == ["bernoulli", "multinomial", "poisson"]
    assert [name for name in tags if tags[name].allow_nan] == ["bernoulli", "categorical", "gaussian", "poisson"]
    assert [name for name in tags if not tags[name].positive_only] == ["gaussian"]
    assert [name for name in tags if tags[name].categorical] == ["categorical"]


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("name", ["bernoulli", "multinomial", "poisson"])
def test_rows_that_are_all_alike_are_fitted_all_the_same(name, K):
    X = np.ones((6, 3))
    mixture = ExponentialFamilyMixture(K, emission=name, max_iter=5, random_state=0).fit(X)
    assert np.isfinite(mixture.score(X))


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_components": 9}, ValueError, "n_components=9 components need as many rows, but X has n_samples=8"),
        ({"init": [0, 1]}, ValueError, "init must be a name, or 8 whole numbers from 0 to 1"),
        ({"emission": Gaussian}, TypeError, r"not the class Gaussian: write Gaussian\(\)"),
        (
            {"emission": ESCA()},
            TypeError,
            r"must be a name \('auto', 'bernoulli', .*\) or an instance of an emission; got ESCA",
        ),
        ({"emission": Poisson(rate_prior=-1)}, ValueError, "'rate_prior' parameter of Poisson"),
        ({"sampler": "gibbs", "emission": Gaussian(covariance_prior=0)}, ValueError, "need a proper prior"),
        ({"burn_in": 5, "max_iter": 5}, ValueError, "burn_in=5 leaves none"),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence_and_leave_no_trace(parameters, error, message):
    X = np.random.default_rng(0).integers(0, 2, (8, 2)).astype(float)
    mixture = ExponentialFamilyMixture(2).set_params(**parameters)
    with pytest.raises(error, match=message):
        mixture.fit(X)
    assert vars(mixture).keys() == mixture.get_params(deep=False).keys()


@pytest.mark.filterwarnings("ignore:EM stopped after")
def test_given_labels_are_where_it_begins():
    X, *_ = make_rows("bernoulli", 60)
    labels = np.arange(60) % 3
    mixture = ExponentialFamilyMixture(3, emission=Bernoulli(), sampler="em", init=labels, max_iter=1, burn_in=0).fit(X)
    rows = Bernoulli().read(Anyone(), X, reset=True)
    family = Bernoulli().bind(rows, 3)
    shares = np.eye(3)[labels]
    first = family.mode(family.sum_shares(rows, 0, 60, 0, shares).total())
    out = np.tile(np.log((20 + 1 / 3) / 61) * np.ones(3), (60, 1))
    family.add_log_densities(rows, 0, 60, first, out)
    assert mixture.log_density_trace_[0, 0] == pytest.approx(np.logaddexp.reduce(out, axis=1).sum(), abs=1e-2)


# --- fractional counts -----------------------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.filterwarnings("ignore:EM stopped after")
@pytest.mark.parametrize("sampler", ["em", "esca", "gibbs"])
@pytest.mark.parametrize("emission", ["multinomial", "poisson", Bernoulli(allow_probabilities=True)])
def test_fractions_are_fitted_as_weights_without_randomness(emission, sampler, tmp_path):
    """Nothing is rounded: the same bytes in any way that rows are cut, and a hair's breadth changes nothing."""
    rng = np.random.default_rng(0)
    X, labels = rng.random((1500, 6)) * 0.6, np.arange(1500) % 2
    X[labels == 0, :3] *= 0.1
    X[labels == 1, 3:] *= 0.1
    settings = {"emission": emission, "sampler": sampler, "max_iter": 6, "init": labels.astype(float)}
    one, other, near = (
        ExponentialFamilyMixture(2, random_state=0, n_jobs=n_jobs, **settings).fit(X * factor)
        for n_jobs, factor in ((1, 1.0), (2, 1.0), (1, 1.0 + 1e-12))
    )
    assert one.components_.tobytes() == other.components_.tobytes()
    assert one.score_samples(X).tobytes() == other.score_samples(X).tobytes()
    assert one.score_samples(X)[7] == one.score_samples(X[7:8])[0]
    if sampler == "em":
        np.testing.assert_allclose(near.components_, one.components_, rtol=1e-6)
        total = one.weights_ @ one.components_
        expected = X.mean(axis=0) / (X.mean(axis=0).sum() if emission == "multinomial" else 1.0)
        np.testing.assert_allclose(total, expected, rtol=0.1)
    one.save(tmp_path / "mixture")
    assert load(tmp_path / "mixture").score(X) == one.score(X)
    assert one.sample(3)[0].shape == (3, 6)
    if sampler == "esca":
        streamed = ExponentialFamilyMixture(2, random_state=0, **settings).partial_fit(X).set_params(init="random")
        assert np.isfinite(streamed.partial_fit(np.round(X)).score(X))
