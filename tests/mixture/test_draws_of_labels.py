"""Labels of a draw are numbers of its weights and components: their joint density is that of separated clusters."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, poisson

from skmanifold import DPCategoricalMixture, DPMixture, ExponentialFamilyMixture, SubspaceMixture
from skmanifold.distributions import VonMisesFisher
from skmanifold.emissions import Bernoulli, Gaussian

SIZES = [13, 15, 14]  # in another order than that of sizes, and nearly equal: the order of sticks varies
TRUTH = np.repeat(np.arange(3), SIZES)
_RNG = np.random.default_rng(0)
_LEVELS = np.array([[1.0, 60.0, 1.0], [60.0, 1.0, 1.0], [1.0, 1.0, 60.0]])[TRUTH]
COUNTS = _RNG.poisson(_LEVELS)
NUMBERS = _RNG.normal(_LEVELS, 1.0)
CODES = np.where(_RNG.random((len(TRUTH), 8)) < 0.9, TRUTH[:, None], _RNG.integers(0, 3, (len(TRUTH), 8)))
SHORT = {"max_iter": 14, "burn_in": 4, "thin": 1, "n_chains": 2, "random_state": 0}
PARTITION = {**SHORT, "init": TRUTH}


def of_gaussians(X, draw):
    pairs = zip(draw["components"], draw["covariances"], strict=True)
    return [multivariate_normal(mean, covariance).logpdf(X) for mean, covariance in pairs]


def of_rates(X, draw):
    return [poisson(rates).logpmf(X).sum(axis=1) for rates in draw["components"]]


def of_tokens(X, draw):
    return [X @ np.log(probabilities) for probabilities in draw["components"]]


def of_codes(X, draw):
    columns = np.log(draw["components"]).reshape(-1, X.shape[1], 3)  # three categories of each column
    return [column[np.arange(X.shape[1]), X].sum(axis=1) for column in columns]


def of_events(X, draw):
    return [np.where(X, np.log(ones), np.log1p(-ones)).sum(axis=1) for ones in draw["components"]]


def of_directions(X, draw):
    directions = draw["components"] / np.linalg.norm(draw["components"], axis=1, keepdims=True)
    pairs = zip(directions, draw["concentrations"], strict=True)
    return [VonMisesFisher(mean, concentration).log_density(X) for mean, concentration in pairs]


def of_subspaces(X, draw):
    found = []
    for k, mean in enumerate(draw["means"]):
        basis, noise = draw["bases"][k][: draw["dimensions"][k]], draw["noise_variance"][k]
        along = draw["variances"][k][: draw["dimensions"][k]] - noise
        covariance = noise * np.eye(len(mean)) + (basis.T * along) @ basis
        found.append(multivariate_normal(mean, covariance).logpdf(X))
    return found


MIXTURES = {
    "numbers": (DPMixture("gaussian", **PARTITION), NUMBERS, of_gaussians),
    "rates": (DPMixture("poisson", **PARTITION), COUNTS, of_rates),
    "codes": (DPMixture("categorical", **PARTITION), CODES, of_codes),
    "directions": (
        DPMixture("von_mises_fisher", **PARTITION),
        COUNTS / np.linalg.norm(COUNTS, axis=1)[:, None],
        of_directions,
    ),
    "tokens": (DPCategoricalMixture(**PARTITION), COUNTS, of_tokens),
    "tokens-scir": (DPCategoricalMixture(sampler="scir", **PARTITION), COUNTS, of_tokens),
    "codes-sgrld": (DPCategoricalMixture("categorical", sampler="sgrld", **PARTITION), CODES, of_codes),
    "components": (
        ExponentialFamilyMixture(3, sampler="gibbs", n_stored_rows=99, **PARTITION),
        NUMBERS,
        of_gaussians,
    ),
    "subspaces": (SubspaceMixture(3, n_stored_rows=99, **SHORT), NUMBERS, of_subspaces),
}


def by_kernels(name):
    return pytest.param(name, marks=pytest.mark.extended if name in ("rates", "directions", "codes-sgrld") else ())


def loss(X, draw, log_densities):
    """Log density of the rows minus that of the rows and labels, in nats per row: entropy of the labels."""
    terms = np.transpose(log_densities(X, draw)) + np.log(draw["weights"])
    labels = draw["labels"]
    return float(np.mean(logsumexp(terms, axis=1) - terms[np.arange(len(X)), labels]))


@pytest.mark.parametrize("name", [by_kernels(name) for name in MIXTURES])
def test_labels_of_a_draw_are_those_of_its_components(name):
    mixture, X, log_densities = MIXTURES[name]
    posterior = mixture.fit(X).posterior_
    n_chains, n_draws = posterior["labels"].shape[:2]
    assert (n_chains, n_draws) == (2, 10)
    for place in np.ndindex(n_chains, n_draws):
        draw = {key: values[place] for key, values in posterior.items() if values.ndim > 2}
        exist = ~np.isnan(draw["weights"])
        draw |= {key: draw[key][exist] for key in draw if key != "labels"}
        assert loss(X, draw, log_densities) < 0.2, place
        if name in ("numbers", "rates", "codes", "directions", "tokens"):
            sizes = np.bincount(draw["labels"])
            assert len(sizes) == len(draw["weights"])
            assert (np.diff(sizes) <= 0).all()  # the largest component is first


PRIORS = {
    "process": (DPMixture(Bernoulli(0.5, 0.5), concentration=2.0), {"n_features": 60}, of_events),
    "tokens": (DPCategoricalMixture(category_prior=0.5), {"n_features": 60}, of_tokens),
    "components": (
        ExponentialFamilyMixture(
            4,
            weight_prior=5.0,
            emission=Gaussian(
                mean_prior=np.zeros(2), mean_precision_prior=1e-4, degrees_of_freedom_prior=9.0, covariance_prior=1.0
            ),
        ),
        {"n_features": 2},
        of_gaussians,
    ),
    "subspaces": (
        SubspaceMixture(
            4, noise_prior=(9.0, 9.0), centre_prior_mean=np.zeros(3), centre_prior_variance=1e4, weight_prior=5.0
        ),
        {"n_features": 3},
        of_subspaces,
    ),
}


@pytest.mark.parametrize("name", PRIORS)
def test_labels_of_a_draw_from_the_prior_are_those_of_its_components(name):
    mixture, shape, log_densities = PRIORS[name]
    for seed in range(3):
        X, draw = mixture.sample_prior(40, **shape, random_state=seed, return_parameters=True)
        assert loss(X, draw, log_densities) < 0.2
        assert len(np.unique(draw["labels"])) > 1
        if "log_likelihood" in draw:
            terms = np.transpose(log_densities(X, draw)) + np.log(draw["weights"])
            assert logsumexp(terms, axis=1).sum() == pytest.approx(float(draw["log_likelihood"]))
