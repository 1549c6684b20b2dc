"""Mixtures of subspaces of rows with missing cells: conditional distributions, the joint law, and fits."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.stats import multivariate_normal, norm
from sklearn.metrics import adjusted_rand_score

from skmanifold import SubspaceClassifier, SubspaceMixture
from skmanifold.datasets import make_subspaces
from skmanifold.emissions._dense_rows import IncompleteRows
from skmanifold.mixture._subspace.family import Subspaces
from skmanifold.mixture._subspace.missing_kernels import Loadings, SubspaceCells, add_terms_of_incomplete
from skmanifold.mixture._subspace.model import CompletedRows, IncompleteSubspaceModel, SubspaceModel
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import FrameGibbs
from skmanifold.samplers._base import State
from skmanifold.utils._threads import Workers

from ._subspace_references import compiled
from .test_subspace_laws import WEIGHTS, draw_rows, expectations, joint_draw, priors_of, statistics

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys

# --- cells given the observed ones -----------------------------------------------------------------------


def components():
    """Components of the dimensions 0, 2 and 4, and their covariances."""
    rng = np.random.default_rng(0)
    bases = [np.linalg.qr(rng.normal(size=(6, d)))[0].T for d in (0, 2, 4)]
    ratios = [rng.uniform(0.01, 0.9, len(basis)) for basis in bases]
    subspaces = Subspaces.of(bases, ratios, rng.normal(size=(3, 6)), np.array([2.0, 0.5, 3.0]))
    covariances = [
        (np.eye(6) + basis.T @ np.diag(1.0 / of_basis - 1.0) @ basis) / noise
        for basis, of_basis, noise in zip(bases, ratios, subspaces.noise, strict=True)
    ]
    return subspaces, covariances


def with_holes(X, share, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def rows_with_holes():
    X = with_holes(np.random.default_rng(1).normal(size=(40, 6)), 0.4)
    X[0], X[1] = np.nan, 1.0  # nothing and everything observed
    return X


def given_observed(row, centre, covariance):
    """Log density of the observed cells, and mean and covariance of the others given these."""
    seen, hidden = ~np.isnan(row), np.isnan(row)
    of_seen = covariance[np.ix_(seen, seen)]
    slope = np.linalg.solve(of_seen, covariance[np.ix_(seen, hidden)]).T
    log_density = multivariate_normal(centre[seen], of_seen).logpdf(row[seen]) if seen.any() else 0.0
    mean = centre[hidden] + slope @ (row[seen] - centre[seen])
    return log_density, mean, covariance[np.ix_(hidden, hidden)] - slope @ covariance[np.ix_(seen, hidden)]


def test_densities_of_observed_cells():
    (subspaces, covariances), X = components(), rows_with_holes()
    found = np.zeros((len(X), 3))
    add_terms_of_incomplete(X, IncompleteRows.of_values(X).patterns, 0, len(X), *Loadings.of(subspaces), found)
    expected = [
        [given_observed(row, *of_component)[0] for of_component in zip(subspaces.centres, covariances, strict=True)]
        for row in X
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("k", range(3))
def test_moments_and_draws_of_missing_cells(k):
    (subspaces, covariances), X = components(), rows_with_holes()
    cells, shares = SubspaceCells(subspaces), np.zeros((len(X), 3))
    shares[:, k] = 1.0
    expected = cells.nothing(len(X))
    cells.add_expected(X, shares, expected)
    labels = np.full(len(X), k, np.int32)
    drawn = np.array([cells.drawn(X, labels, np.uint64(seed), 0) for seed in range(2000)])
    for i, row in enumerate(X):
        hidden = np.isnan(row)
        np.testing.assert_array_equal(drawn[:, i, ~hidden], np.broadcast_to(row[~hidden], (2000, (~hidden).sum())))
        _, mean, covariance = given_observed(row, subspaces.centres[k], covariances[k])
        np.testing.assert_allclose(expected.firsts[i, hidden], mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(expected.seconds[i, hidden], np.diag(covariance) + mean**2, rtol=1e-9)
        gaps = drawn[:, i, hidden] - mean
        products = gaps[:, :, np.newaxis] * gaps[:, np.newaxis]
        scale = np.sqrt(np.diag(covariance))
        errors = scale / np.sqrt(2000), 1.5 * np.outer(scale, scale) / np.sqrt(2000)
        assert (np.abs(gaps.mean(axis=0)) < 5.0 * errors[0]).all()
        assert (np.abs(products.mean(axis=0) - covariance) < 5.0 * errors[1]).all()


# --- the joint law ---------------------------------------------------------------------------------------


def joint_estimate(kind, shared_noise, K, n_chains=60, n_steps=10, n_scans=3):
    """Of `statistics` along chains from the joint law: rows are drawn anew after several steps with their holes."""
    m = 3
    priors, root, rows = priors_of(m, shared_noise, K), root_key(0), []
    for chain in range(n_chains):
        rng = np.random.default_rng(chain)
        position, labels, X = joint_draw(priors, rng)
        holes, total = rng.random(X.shape) < 0.4, 0.0
        state = State(position, subkey(root, chain), 0, -np.inf, latents=CompletedRows(labels, X))
        for _ in range(n_steps):
            values = IncompleteRows.of_values(np.where(holes, np.nan, X))
            model = kind(values, SubspaceModel(X, priors, WEIGHTS, [labels], Workers(1)))
            for _ in range(n_scans):
                state = FrameGibbs().step(model, state)
                total = total + statistics(state.position, state.latents.labels)
            X = draw_rows(state.position.parameters, state.latents.labels, rng)
            state = state._replace(latents=state.latents._replace(rows=X))
        rows.append(total / (n_steps * n_scans))
    return summarize(rows), expectations(priors)


@pytest.mark.extended
@compiled
@pytest.mark.parametrize(("shared_noise", "K"), [(False, 2), (True, 1)])
def test_steps_with_missing_cells_leave_the_joint_law_alone(shared_noise, K):
    assert_agrees(*joint_estimate(IncompleteSubspaceModel, shared_noise, K))


class MeansInHoles(IncompleteSubspaceModel):
    """Missing cells have their means."""

    def draw_labels(self, subspaces, offsets, key):
        (labels, _), log_density = super().draw_labels(subspaces, offsets, key)
        expected, values = SubspaceCells(subspaces).nothing(len(labels)), self.rows.values
        SubspaceCells(subspaces).add_expected(values, np.eye(len(offsets))[labels], expected)
        return CompletedRows(labels, np.where(np.isnan(values), expected.firsts, values)), log_density


class CellsWithoutRows(IncompleteSubspaceModel):
    """Missing cells do not depend on the observed ones."""

    def draw_labels(self, subspaces, offsets, key):
        (labels, _), log_density = super().draw_labels(subspaces, offsets, key)
        values = self.rows.values
        cells = SubspaceCells(subspaces).drawn(np.full(values.shape, np.nan), labels, key, 0)
        return CompletedRows(labels, np.where(np.isnan(values), cells, values)), log_density


@pytest.mark.extended
@compiled
@pytest.mark.parametrize("kind", [MeansInHoles, CellsWithoutRows])
def test_wrong_steps_with_missing_cells_are_seen(kind):
    assert_disagrees(*joint_estimate(kind, False, 2, n_chains=120))


# --- fits ------------------------------------------------------------------------------------------------

POINTS = make_subspaces(300, 8, (1, 3), noise_precision=50.0, random_state=0)
HOLES = with_holes(POINTS.data, 0.3)
SHORT = {"max_iter": 120, "thin": 1, "n_init": 2, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return SubspaceMixture(2, n_stored_rows=5, **SHORT).fit(HOLES)


def test_subspaces_of_rows_with_holes(fitted):
    narrow, wide = np.argsort(fitted.dimensions_)
    assert fitted.dimensions_[narrow] == 1
    assert fitted.dimension_posterior_[wide, 3] > 0.2  # in long runs .4, and that of 4 .45
    assert adjusted_rand_score(POINTS.labels, fitted.labels_) > 0.95
    assert fitted.posterior_["labels"].shape == (1, 60, 5)
    missing = np.isnan(HOLES)
    imputed = fitted.impute(HOLES)
    np.testing.assert_array_equal(imputed[~missing], HOLES[~missing])
    errors = np.square(imputed - POINTS.data)[missing].mean()
    assert errors < 0.2 * np.square(np.nanmean(HOLES, axis=0) - POINTS.data)[missing].mean()


def test_intervals_of_missing_cells_cover(fitted):
    covered = []
    for column in range(8):
        low, high = fitted.conditional(HOLES, column).interval(0.8)
        covered.append((low <= POINTS.data[:, column]) & (POINTS.data[:, column] <= high))
    assert 0.77 < np.mean(covered) < 0.83
    drawn = np.array(fitted.impute(HOLES, n_draws=40, random_state=0))
    missing = np.isnan(HOLES)
    z = (POINTS.data - drawn.mean(axis=0))[missing] / drawn.std(axis=0, ddof=1)[missing]
    assert 0.8 < np.mean(z**2) < 1.3
    assert abs(np.mean(np.abs(z) < norm.ppf(0.9)) - 0.8) < 0.05


def test_rows_with_holes_in_all_methods(fitted):
    assert np.isfinite(fitted.score_samples(HOLES)).all()
    distances = fitted.transform(HOLES)
    assert (distances <= fitted.transform(fitted.impute(HOLES)) + 1e-9).all()
    complete = np.flatnonzero(~np.isnan(HOLES).any(axis=1))
    np.testing.assert_allclose(distances[complete], fitted.transform(HOLES[complete]), atol=1e-9)
    projection = fitted.project(HOLES)
    expected = fitted.project(fitted.impute(HOLES), projection.labels)
    np.testing.assert_allclose(projection.coordinates, expected.coordinates)
    one = fitted.impute(HOLES[7:8])
    np.testing.assert_array_equal(one[0], fitted.impute(HOLES)[7])


def test_threads_change_no_byte_of_rows_with_holes(fitted):
    other = SubspaceMixture(2, n_stored_rows=5, n_jobs=2, **SHORT).fit(HOLES)
    for name, values in fitted.posterior_.items():
        np.testing.assert_array_equal(values, other.posterior_[name])


def test_a_classifier_of_rows_with_holes():
    classifier = SubspaceClassifier(SubspaceMixture(1, **SHORT), random_state=0).fit(HOLES, POINTS.labels)
    assert classifier.score(with_holes(POINTS.data, 0.3, seed=5), POINTS.labels) > 0.9


def test_wide_rows_with_holes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 60)) + 0.1 * rng.normal(size=(40, 60))
    Z = with_holes(X, 0.3)
    mixture = SubspaceMixture(1, **SHORT).fit(Z)
    assert mixture.dimensions_.tolist() == [2]
    assert np.square(mixture.impute(Z) - X)[np.isnan(Z)].mean() < 0.02


def test_refusals():
    with pytest.raises(ValueError, match="contains NaN"):
        SubspaceMixture(2, sampler="conway", **SHORT).fit(HOLES[:, :3])
    empty = HOLES.copy()
    empty[:, 2] = np.nan
    with pytest.raises(ValueError, match="no observed cell"):
        SubspaceMixture(2, **SHORT).fit(empty)
