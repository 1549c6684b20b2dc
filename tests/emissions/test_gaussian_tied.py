"""One covariance for all components: statistics, modes, draws and densities, compared with numpy and scipy."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats as st
from scipy.optimize import minimize

from skmanifold.emissions import DenseRows, Gaussian
from skmanifold.sparse.counts import Counts

from ._cases import KEY

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys
K, D, N = 3, 2, 30
RNG = np.random.default_rng(0)
LABELS = np.where(np.arange(N) < 22, 0, 1).astype(np.int32)  # the last component is empty
X = RNG.standard_normal((N, D)) @ [[2.0, 0.5], [0.0, 1.0]] + 3.0 * LABELS[:, None] + 10.0


def bound(**options):
    emission = Gaussian("tied", **options)
    family = emission.bind(DenseRows(X), K)
    return family, family.sum_labels(DenseRows(X), 0, N, 0, LABELS).total()


def posterior(family):
    """Means of the means, their precisions, and the scatter, from the definition."""
    prior = family.prior
    sizes = np.bincount(LABELS, minlength=K)
    precisions = prior.mean_precision + sizes
    sums = np.array([X[k == LABELS].sum(axis=0) for k in range(K)])
    means = (prior.mean_precision * prior.mean + sums) / precisions[:, None]
    gaps = X - means[LABELS]
    shifts = means - prior.mean
    return means, precisions, prior.covariance + gaps.T @ gaps + prior.mean_precision * shifts.T @ shifts


def log_density(X, labels, means, covariance):
    return st.multivariate_normal.logpdf(X - means[labels], np.zeros(D), covariance).sum()


def test_the_mode_is_that_of_the_documented_formula_and_of_a_direct_maximisation():
    family, total = bound(mean_precision_prior=0.5)
    prior, mode = family.prior, family.mode(total)
    means, _, scatter = posterior(family)
    np.testing.assert_allclose(mode.means, means)
    np.testing.assert_allclose(mode.covariances[0], scatter / (prior.degrees - D - 1 - K + N))

    def objective(free):
        root = np.array([[np.exp(free[0]), 0.0], [free[1], np.exp(free[2])]])
        covariance, centres = root @ root.T, free[3:].reshape(K, D)
        of_prior = st.invwishart.logpdf(covariance, prior.degrees, prior.covariance)
        for centre in centres:
            of_prior += st.multivariate_normal.logpdf(centre, prior.mean, covariance / prior.mean_precision)
        # Jacobians of the natural parameters: |covariance| to the power of d + 1, and once for each mean
        return log_density(X, LABELS, centres, covariance) + of_prior + (D + 1 + K) * np.linalg.slogdet(covariance)[1]

    start = np.concatenate([[0.5, 0.0, 0.5], np.repeat(X.mean(axis=0)[None], K, axis=0).ravel()])
    found = minimize(lambda free: -objective(free), start, method="BFGS", options={"gtol": 1e-6}).x
    root = np.array([[np.exp(found[0]), 0.0], [found[1], np.exp(found[2])]])
    np.testing.assert_allclose(mode.covariances[0], root @ root.T, rtol=1e-3)
    np.testing.assert_allclose(mode.means, found[3:].reshape(K, D), rtol=1e-3)

    def joint(parameters):
        return family.log_likelihood(total, parameters) + family.log_prior(parameters)

    def free(parameters):
        root = np.linalg.cholesky(parameters.covariances[0])
        return np.concatenate([[np.log(root[0, 0]), root[1, 0], np.log(root[1, 1])], parameters.means.ravel()])

    other = family.draw(total, KEY)
    assert joint(mode) - joint(other) == pytest.approx(objective(free(mode)) - objective(free(other)))
    assert joint(mode) > joint(other)


def test_maximum_likelihood_is_the_pooled_covariance():
    family = Gaussian("tied", None, 0.0, 0.0, D + 2 + 1).bind(DenseRows(X), 2)
    mode = family.mode(family.sum_labels(DenseRows(X), 0, N, 0, LABELS).total())
    gaps = X - np.array([X[k == LABELS].mean(axis=0) for k in (0, 1)])[LABELS]
    np.testing.assert_allclose(mode.covariances[0], gaps.T @ gaps / N)


def test_statistics_of_tokens_are_those_of_repeated_rows():
    counts = np.random.default_rng(1).poisson(1.0, (N, K))
    table = sp.csr_array(counts)
    tokens = Counts(np.array([0, N]), np.arange(N, dtype=np.int32), counts.sum(axis=1).astype(np.int32), N)

    class ByComponent:
        totals = counts.sum(axis=0)

        def tocsr(self):
            return table

    family = Gaussian("tied").bind_tokens(tokens, K, word_vectors=X)
    found = family.statistics_of_tokens(ByComponent())
    words, components = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    repeated = DenseRows(X[words])
    expected = family.sum_labels(repeated, 0, len(words), 0, components.astype(np.int32)).total()
    for array, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(array, other, rtol=1e-9, atol=1e-9)


def test_improper_priors_and_singular_covariances_are_refused():
    for options in ({"mean_precision_prior": 0}, {"covariance_prior": 0}, {"degrees_of_freedom_prior": D - 1}):
        family, _ = bound(**options)
        with pytest.raises(ValueError, match="need a proper prior"):
            family.draw(tuple(np.ones(shape) for shape in family.shapes()), KEY)
    family = Gaussian("tied", None, 0.0, 0.0, 6.0).bind(DenseRows(X), 2)
    with pytest.raises(ValueError, match="covariance of all components is singular"):
        family.mode(family.sum_labels(DenseRows(X), 0, 2, 0, np.array([0, 1], np.int32)).total())
