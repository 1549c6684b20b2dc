"""Gaussian components whose covariance matrices are multiples of one matrix."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from skmanifold import DPMixture, ExponentialFamilyMixture
from skmanifold.emissions import Gaussian
from skmanifold.emissions._base import NoModeError
from skmanifold.mixture._exponential_family.model import FamilyModel
from skmanifold.models import IncompatibleError
from skmanifold.random._keys import root_key
from skmanifold.samplers import EM
from skmanifold.utils._threads import Workers

from ._cases import read

K, D = 3, 3
VOLUMES = np.array([0.2, 1.0, 5.0])
PRIOR = {
    "mean_prior": [0.3, -0.2, 0.1],
    "mean_precision_prior": 0.4,
    "covariance_prior": [0.7, 1.0, 1.6],
    "degrees_of_freedom_prior": D + 3.5,
}


def make_rows(n=400, seed=0):
    """Rows of planted components, and their labels."""
    rng = np.random.default_rng(seed)
    root, labels = rng.normal(size=(D, D)), rng.integers(K, size=n)
    means = 5.0 * rng.normal(size=(K, D))
    return means[labels] + np.sqrt(VOLUMES)[labels, None] * (rng.normal(size=(n, D)) @ root.T), labels


def bound(X, labels, **prior):
    """The family of rows, and statistics of labels."""
    emission = Gaussian("proportional", **prior)
    rows = read(emission, X)
    family = emission.bind(rows, K)
    return family, family.sum_labels(rows, 0, len(X), 0, labels.astype(np.int32)).total()


def proportional(fitted):
    """Volumes and the common matrix, with determinant 1, of covariances."""
    volumes = np.linalg.det(fitted) ** (1.0 / fitted.shape[1])
    return volumes, fitted / volumes[:, None, None]


def objective(X, labels, prior, covariances):
    """Log likelihood plus log prior of natural parameters, up to a constant, at the best means given the covariances.

    The prior of a component is normal-inverse-Wishart in its natural parameters: the Jacobian is |covariance| to the
    power of d + 2.
    """
    total = 0.0
    for k, covariance in enumerate(covariances):
        rows = X[labels == k]
        kappa, n, d = prior.mean_precision, len(rows), X.shape[1]
        mean = (kappa * prior.mean + rows.sum(axis=0)) / (kappa + n)
        total += multivariate_normal(mean, covariance).logpdf(rows).sum()
        total += multivariate_normal(prior.mean, covariance / kappa).logpdf(mean)
        _, log_det = np.linalg.slogdet(covariance)
        total -= 0.5 * (prior.degrees + d + 1) * log_det
        total -= 0.5 * np.trace(np.linalg.solve(covariance, prior.covariance))
        total += (d + 2) * log_det
    return total


def test_the_mode_beats_other_proportional_covariances():
    X, labels = make_rows()
    family, statistics = bound(X, labels, **PRIOR)
    fitted = family.attributes(family.mode(statistics))
    volumes, shapes = proportional(fitted["covariances_"])
    np.testing.assert_allclose(shapes, np.broadcast_to(shapes[0], shapes.shape), rtol=1e-9)
    sizes = np.bincount(labels)[:, None]
    sums = np.array([X[labels == k].sum(axis=0) for k in range(K)])
    means = (0.4 * family.prior.mean + sums) / (0.4 + sizes)
    np.testing.assert_allclose(fitted["components_"], means, rtol=1e-9)
    best = objective(X, labels, family.prior, fitted["covariances_"])
    rng, losses = np.random.default_rng(1), []
    for _ in range(40):
        step = np.eye(D) + 0.01 * rng.normal(size=(D, D))
        factors = np.exp(0.01 * rng.normal(size=K)) * volumes
        other = factors[:, None, None] * (step @ shapes[0] @ step.T)
        losses.append(best - objective(X, labels, family.prior, other))
    assert min(losses) > 0.0
    full = Gaussian("full", **PRIOR)
    full = full.bind(read(full, X), K)
    apart = full.attributes(full.mode(statistics))["covariances_"]
    assert objective(X, labels, family.prior, apart) > best + 1.0


def test_one_component_is_a_full_one():
    X, _ = make_rows(60)
    settings = {"sampler": "em", "random_state": 0}
    one, full = (
        ExponentialFamilyMixture(1, emission=Gaussian(kind, **PRIOR), **settings).fit(X)
        for kind in ("proportional", "full")
    )
    np.testing.assert_allclose(one.covariances_, full.covariances_, rtol=1e-9)
    assert one.bic(X) == pytest.approx(full.bic(X), rel=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_em_never_falls_and_finds_planted_volumes(missing):
    X, labels = make_rows(600)
    X[np.random.default_rng(2).random(X.shape) < missing] = np.nan
    emission = Gaussian("proportional", **{**PRIOR, "mean_precision_prior": 0.01})
    rows = read(emission, X)
    start = np.where(np.arange(600) % 3, labels, np.arange(600) % K).astype(np.int32)
    model = FamilyModel(rows, 0, 0.5, emission.bind(rows, K), start, Workers(1))
    sampler = EM()
    state, levels = sampler.init(model, root_key(0)), []
    for _ in range(30):
        before = model.log_prior(state.position)
        state = sampler.step(model, state)
        levels.append(state.log_density + before)
    assert levels[-1] > levels[0] + 1.0
    assert np.diff(levels).min() > -600 * 2.0**-16  # log densities are rounded
    volumes, shapes = proportional(model.family.attributes(state.position.parameters)["covariances_"])
    np.testing.assert_allclose(shapes, np.broadcast_to(shapes[0], shapes.shape), rtol=1e-9)
    # A volume has a relative standard error of sqrt(2 / (d n_k)), about 0.06; missing cells add to it.
    np.testing.assert_allclose(volumes / volumes[1], VOLUMES, rtol=0.25)


def test_missing_cells_have_the_densities_of_the_observed_ones():
    X, _ = make_rows(200)
    X[np.random.default_rng(2).random(X.shape) < 0.2] = np.nan
    mixture = ExponentialFamilyMixture(K, emission=Gaussian("proportional"), random_state=0).fit(X)
    new = np.array([[1.0, np.nan, 2.0], [np.nan, np.nan, -3.0]])
    densities = np.zeros(2)
    for weight, mean, covariance in zip(mixture.weights_, mixture.components_, mixture.covariances_, strict=True):
        for i, seen in enumerate(~np.isnan(new)):
            law = multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)])
            densities[i] += weight * law.pdf(new[i, seen])
    np.testing.assert_allclose(mixture.score_samples(new), np.log(densities), rtol=1e-6)
    filled = mixture.impute(new)
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[~np.isnan(new)], new[~np.isnan(new)])


def test_the_number_of_parameters_is_in_the_criteria():
    X, labels = make_rows(200)
    mixture = ExponentialFamilyMixture(
        K, emission=Gaussian("proportional"), sampler="em", init=labels, random_state=0
    ).fit(X)
    n_parameters = (K - 1) + K * D + K + (D * (D + 1) // 2 - 1)
    assert mixture.aic(X) == pytest.approx(2 * n_parameters - 2 * mixture.score_samples(X).sum(), rel=1e-9)
    assert mixture.summary(X).n_parameters == n_parameters


@pytest.mark.parametrize(
    ("make", "whom"),
    [
        (lambda emission: DPMixture(emission, random_state=0), "DPMixture needs clusters with a conjugate prior"),
        (lambda emission: ExponentialFamilyMixture(2, emission=emission, sampler="gibbs"), "Gibbs needs draws of the"),
    ],
)
def test_draws_and_processes_refuse_it_in_one_sentence(make, whom):
    X, _ = make_rows(50)
    with pytest.raises(IncompatibleError, match=f"^{whom}") as refusal:
        make(Gaussian("proportional")).fit(X)
    sentence = str(refusal.value)
    assert "which the emission Gaussian('proportional') does not offer ('auto', " in sentence
    assert sentence.endswith(".")
    assert sentence.count(". ") == 0


@pytest.mark.filterwarnings("ignore:Columns .* are linearly dependent")
@pytest.mark.parametrize("is_one", [False, True])
def test_singular_covariances_have_no_mode_without_a_prior(is_one):
    X, labels = make_rows(100)
    flat = {"mean_precision_prior": 0, "covariance_prior": 0, "degrees_of_freedom_prior": D + 2}
    family, statistics = bound(X, labels, **flat)
    assert np.isfinite(family.mode(statistics).means).all()
    if is_one:
        X[labels == 1] = 2.0
    else:
        X[:, 2] = X[:, 0]
    family, statistics = bound(X, labels, **flat)
    with pytest.raises(NoModeError, match=r"covariance of (component 1|all components) is singular"):
        family.mode(statistics)


@pytest.mark.parametrize("sampler", ["em", "esca"])
def test_threads_do_not_change_a_byte(sampler):
    X, _ = make_rows(300)
    X[::7, 1] = np.nan
    one, two = (
        ExponentialFamilyMixture(
            K, emission=Gaussian("proportional"), sampler=sampler, max_iter=15, random_state=0, n_jobs=n_jobs
        ).fit(X)
        for n_jobs in (1, 2)
    )
    for name in ("weights_", "components_", "covariances_", "labels_", "log_density_trace_"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()
