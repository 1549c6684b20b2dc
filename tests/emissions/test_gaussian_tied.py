"""One covariance for all components: statistics, modes, draws and densities, compared with numpy and scipy."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats as st
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.optimize import minimize

from skmanifold.emissions import DenseRows, Gaussian
from skmanifold.random._keys import fold_in_each
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


def test_empty_components_have_the_mean_and_the_covariance_of_the_prior():
    family, _ = bound()
    mode = family.mode(tuple(np.zeros(shape) for shape in family.shapes()))
    np.testing.assert_allclose(mode.covariances[0], family.prior.covariance)
    np.testing.assert_allclose(mode.means, np.tile(family.prior.mean, (K, 1)))


@pytest.mark.extended
def test_draws_have_the_moments_of_the_posterior():
    family, total = bound()
    means, precisions, scatter = posterior(family)
    drawn = [family.draw(total, key) for key in fold_in_each(KEY, np.arange(4000))]
    inverses = summarize([np.linalg.inv(draw.covariances).ravel() for draw in drawn])
    degrees = family.prior.degrees + N
    assert_agrees(inverses, (degrees * np.linalg.inv(scatter)).ravel())
    for wrong in (degrees + 1, degrees - K):
        assert_disagrees(inverses, (wrong * np.linalg.inv(scatter)).ravel())
    gaps = np.array([draw.factors[0] @ (draw.means - means).T * np.sqrt(precisions) for draw in drawn])
    assert_agrees(summarize(gaps.reshape(len(gaps), -1)), 0.0)
    products = np.einsum("nak,nbl->nabkl", gaps, gaps).reshape(len(gaps), -1)
    assert_agrees(summarize(products), np.einsum("ab,kl->abkl", np.eye(D), np.eye(K)).ravel())
    log_roots = np.array([draw.offsets[0] for draw in drawn])
    assert_agrees(summarize((log_roots - log_roots.mean())[:, None] * (gaps**2).reshape(len(gaps), -1)), 0.0)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_densities_are_those_of_scipy(d):
    rows = np.random.default_rng(d).standard_normal((70, d)) * 3.0 + 100.0
    family = Gaussian("tied").bind(DenseRows(rows), K)
    labels = (np.arange(70) % K).astype(np.int32)
    total = family.sum_labels(DenseRows(rows), 0, 70, 0, labels).total()
    mode, out = family.mode(total), np.zeros((70, K))
    family.add_log_densities(DenseRows(rows), 0, 70, mode, out)
    expected = [st.multivariate_normal.logpdf(rows, mean, mode.covariances[0]) for mean in mode.means]
    np.testing.assert_allclose(out, np.transpose(expected), rtol=1e-9)
    assert family.log_likelihood(total, mode) == pytest.approx(out[np.arange(70), labels].sum())
    assert family.n_parameters() == K * d + d * (d + 1) // 2


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
