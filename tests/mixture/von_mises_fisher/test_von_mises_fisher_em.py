"""Iterations of mixtures of von Mises-Fisher laws: their formulas, where they begin, and that they reproduce."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.special import logsumexp, softmax
from sklearn.metrics import adjusted_rand_score

from skmanifold.distributions import inverse_bessel_ratio, log_vmf_normalizer
from skmanifold.emissions._von_mises_fisher import rows as k_means_module
from skmanifold.emissions._von_mises_fisher import rows as rows_module
from skmanifold.emissions._von_mises_fisher.family import VonMisesFisherFamily, VonMisesFisherParameters
from skmanifold.emissions._von_mises_fisher.rows import SphericalKMeans
from skmanifold.mixture._von_mises_fisher import VonMisesFisherMixture
from skmanifold.random._keys import subkey
from skmanifold.sparse.directions import as_directions
from skmanifold.utils._threads import Workers

from ._directions import documents, each_assignment, parameters, planted

each_concentration = pytest.mark.parametrize("concentration", ["per_component", "shared", 7.0])


@pytest.fixture
def _many_blocks(monkeypatch):
    """Cut small data too."""
    monkeypatch.setattr(rows_module, "_BLOCK_CELLS", 1)
    split = rows_module.split_range
    monkeypatch.setattr(rows_module, "split_range", lambda n, size: split(n, min(size, 13)))


# The iterations


def slow_expectation(X, weights, directions, concentrations, hard):
    """Shares of components, and log densities, by the formulas as they stand."""
    dim = X.shape[1]
    log_c = log_vmf_normalizer(dim, concentrations) - log_vmf_normalizer(dim, 0)
    scores = np.log(weights) + log_c + concentrations * (X @ directions.T)
    if hard:
        return np.eye(len(weights))[scores.argmax(axis=1)], scores.max(axis=1)
    return softmax(scores, axis=1), logsumexp(scores, axis=1)


def slow_maximization(X, row_weights, shares, concentration, prior_ratio):
    sizes = row_weights @ shares
    sums = (shares * row_weights[:, None]).T @ X
    lengths = np.linalg.norm(sums, axis=1)
    if concentration == "per_component":
        concentrations = inverse_bessel_ratio(X.shape[1], (lengths + prior_ratio) / (sizes + 1))
    elif concentration == "shared":
        shared = inverse_bessel_ratio(X.shape[1], (lengths.sum() + prior_ratio) / (sizes.sum() + 1))
        concentrations = np.full(len(sizes), shared)
    else:
        concentrations = np.full(len(sizes), concentration)
    return sizes / sizes.sum(), sums / lengths[:, None], concentrations


@each_assignment
@each_concentration
@pytest.mark.usefixtures("_many_blocks")
def test_iterations_are_those_of_the_formulas(assignment, concentration):
    X = documents()
    rng = np.random.default_rng(0)
    row_weights = rng.uniform(0.0, 3.0, X.shape[0])
    init = X.toarray()[:6] + rng.standard_normal((6, X.shape[1]))
    mixture = VonMisesFisherMixture(6, assignment=assignment, concentration=concentration, init=init, max_iter=3, tol=0)
    mixture.fit(X, sample_weight=row_weights)

    unit = X.toarray() / np.linalg.norm(X.toarray(), axis=1, keepdims=True)
    seeds = init / np.linalg.norm(init, axis=1, keepdims=True)
    for _ in range(3):
        shares = np.eye(6)[(unit @ seeds.T).argmax(axis=1)]
        seeds = (shares * row_weights[:, None]).T @ unit
        lengths = np.linalg.norm(seeds, axis=1)
        seeds /= lengths[:, None]
    prior_ratio = lengths.sum() / row_weights.sum()
    prior = inverse_bessel_ratio(X.shape[1], prior_ratio)
    bounds = []
    for _ in range(3):
        found = slow_maximization(unit, row_weights, shares, concentration, prior_ratio)
        shares, log_density = slow_expectation(unit, *found, assignment == "hard")
        concentrations = {"per_component": found[2], "shared": found[2][:1]}.get(concentration, found[2][:0])
        divergence = (prior - concentrations) * prior_ratio
        divergence += log_vmf_normalizer(X.shape[1], prior) - log_vmf_normalizer(X.shape[1], concentrations)
        assert np.all(divergence >= -1e-12)
        bounds.append((row_weights @ log_density - divergence.sum()) / row_weights.sum())
    for fast, slow in zip(parameters(mixture), found, strict=True):
        np.testing.assert_allclose(fast, slow, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(mixture.log_likelihood_trace_, bounds, rtol=1e-11)
    assert mixture.lower_bound_ == mixture.log_likelihood_trace_[-1]
    shares, log_density = slow_expectation(unit, *found, hard=False)
    np.testing.assert_allclose(mixture.predict_proba(X), shares, atol=1e-11)
    np.testing.assert_allclose(mixture.score_samples(X), log_density, atol=1e-10)


def densify(X):
    return X.toarray() if sp.issparse(X) else X


def deepest_fall(**params):
    """Of the lower bound from one iteration to the next, relative, over some data and seeds."""
    worst = 0.0
    for X, k in ((documents(300, 30, 5), 6), (planted(3, [2.0, 5.0, 9.0], [99, 99, 99])[0], 4), (documents(9), 5)):
        for seed in range(4):  # rows as they come, which are far from where iterations end
            rows = np.random.default_rng(seed).permutation(X.shape[0])
            init = np.concatenate([densify(X[[row]]) for row in rows if densify(X[[row]]).any()][:k])
            mixture = VonMisesFisherMixture(k, init=init, tol=0.0, max_iter=60, **params).fit(X)
            trace = mixture.log_likelihood_trace_
            worst = min(worst, *(np.diff(trace) / np.abs(trace[1:])))
            mean_log_likelihood = mixture.score(X)
            assert mixture.lower_bound_ <= mean_log_likelihood + 1e-12 * abs(mean_log_likelihood)
    return worst


@pytest.mark.covering
@each_assignment
@each_concentration
def test_the_lower_bound_never_falls(assignment, concentration):
    assert deepest_fall(assignment=assignment, concentration=concentration) > -1e-12


def by_banerjee(self, sizes, lengths, directions):
    """The approximation of their equation (4.4)."""
    ratios = (lengths + self.prior.cosine) / (sizes + 1)
    return VonMisesFisherParameters.of(directions, (ratios * self.n_features - ratios**3) / (1 - ratios**2))


def without_prior(self, sizes, lengths, directions):
    ratios = np.minimum(lengths / sizes, 0.999)
    return VonMisesFisherParameters.of(directions, inverse_bessel_ratio(self.n_features, ratios))


@pytest.mark.parametrize("wrong", [by_banerjee, without_prior])
def test_the_lower_bound_falls_where_a_step_serves_another_objective(monkeypatch, wrong):
    monkeypatch.setattr(VonMisesFisherFamily, "mode_of", wrong)
    assert deepest_fall() < -1e-6


def test_iterations_end_by_tolerance_or_number():
    X = planted(3, [2.0, 5.0, 9.0], [99, 99, 99])[0]
    short = VonMisesFisherMixture(4, max_iter=2, tol=0, random_state=0).fit(X)
    assert (short.n_iter_, short.converged_, len(short.log_likelihood_trace_)) == (2, False, 2)
    long = VonMisesFisherMixture(4, tol=1e-4, random_state=0).fit(X)
    rises = np.diff(long.log_likelihood_trace_)
    assert long.converged_
    assert rises[-1] < 1e-4 <= rises[:-1].min()
    assert VonMisesFisherMixture(4, max_iter=1, tol=0, random_state=0).fit(X).n_iter_ == 1


# First directions


def drawn_seeds(X, k, method, n_runs, row_weights=None):
    """Rows drawn as first directions, (n_runs, k)."""
    rows = rows_module.SparseRows(*as_directions(X))
    found = SphericalKMeans(rows, np.ones(len(X)) if row_weights is None else row_weights, k, Workers(1))
    return np.array([(X @ found.seed(subkey(0, run), method)).argmax(axis=0) for run in range(n_runs)])


def best_of_two(X, row_weights, probabilities, gaps):
    """Memberships of the better of two independent draws, and rows' gaps with each."""
    with_each = np.minimum(gaps[:, None], np.maximum(1 - X @ X.T, 0))
    order = np.argsort(row_weights @ with_each)
    left = np.cumsum(probabilities[order][::-1])[::-1]  # this one or worse
    law = np.empty(len(X))
    law[order] = left**2 - np.append(left[1:], 0) ** 2
    return law, with_each


@pytest.mark.extended
def test_k_means_plus_plus_draws_by_one_minus_the_cosine():
    X = planted(3, [1.0], [5])[0]
    weights = np.array([1.0, 2.0, 1.5, 1.5, 0.0])
    drawn = drawn_seeds(X, 2, "k-means++", 4000, weights)
    first, with_each = best_of_two(X, weights, weights / 6, np.full(5, 2.0))
    assert_agrees(summarize(drawn[:, :1] == np.arange(5)), first)
    assert_disagrees(summarize(drawn[:, :1] == np.arange(5)), weights / 6)
    common = first.argmax()
    seconds = drawn[drawn[:, 0] == common, 1]
    gaps = with_each[:, common].round(14)
    second, _ = best_of_two(X, weights, weights * gaps / (weights @ gaps), gaps)
    assert_agrees(summarize(seconds[:, None] == np.arange(5)), second)
    even, _ = best_of_two(X, weights, weights * (gaps > 0) / (weights @ (gaps > 0)), gaps)
    assert_disagrees(summarize(seconds[:, None] == np.arange(5)), even)


def test_random_beginnings_draw_no_direction_twice():
    X = planted(3, [1.0], [4])[0][[0, 0, 0, 1, 2, 3]]
    drawn = drawn_seeds(X, 4, "random", 2000)
    assert all(len(set(seeds)) == 4 for seeds in drawn)  # argmax: the first of the equal rows
    assert_agrees(summarize(drawn[:, 0] == 0), 0.5)
    assert_agrees(summarize(drawn[drawn[:, 0] == 0, 1][:, None] == [3, 4, 5]), np.full(3, 1 / 3))
    assert drawn_seeds(X, 6, "random", 1).shape == (1, 6)  # more than there are


def test_the_best_of_several_beginnings_is_kept(capsys):
    X = documents(200, 40, 6)
    several = VonMisesFisherMixture(6, init="random", n_init=6, random_state=3, verbose=1).fit(X)
    ends = []
    for line in capsys.readouterr().out.splitlines():
        iteration, bound = re.fullmatch(r"iteration (\d+) of 100: lower bound (.*)", line).groups()
        ends[len(ends) if iteration == "1" else -1 :] = [float(bound)]
    assert len(ends) == 6
    assert ends[0] < max(ends) == pytest.approx(several.lower_bound_, rel=1e-8)
    given = VonMisesFisherMixture(6, init=X.toarray()[:6], n_init=50, verbose=1).fit(X)
    assert capsys.readouterr().out.count("\n") == given.n_iter_


@each_assignment
def test_a_component_that_no_row_is_near_gets_the_row_that_fits_worst(assignment):
    X = np.array([[1.0, 0.02, 0], [1, -0.02, 0], [1, 0, 0.03], [0, 0.8, 0.6]])
    init = np.array([[1.0, 0.5, 0.3], [-1.0, 0, 0]])
    mixture = VonMisesFisherMixture(2, assignment=assignment, init=init).fit(X)
    np.testing.assert_array_equal(mixture.labels_, [0, 0, 0, 1])
    np.testing.assert_allclose(mixture.mean_directions_[1], [0, 0.8, 0.6], atol=0.01)
    assert mixture.converged_


# Reproducible


def test_blocks_are_cut_by_the_shape_of_the_data():
    X = documents(300)
    rows = rows_module.SparseRows(*as_directions(sp.vstack([X] * 400, format="csr")))
    blocks = rows.blocks(50)
    assert 4 < len(blocks) <= rows_module._MAX_BLOCKS
    assert sum(stop - start for start, stop in blocks) == rows.n_rows


def test_lengths_do_not_matter_and_signs_carry_over():
    X = documents()
    init = X.toarray()[:4]
    mixture = VonMisesFisherMixture(4, init=init).fit(X)
    longer = VonMisesFisherMixture(4, init=init * 3).fit(X * 2.0 ** np.arange(-75, 75)[:, None])
    np.testing.assert_allclose(longer.mean_directions_, mixture.mean_directions_, atol=1e-12)
    signs = np.where(np.arange(X.shape[1]) % 3, 1.0, -1.0)
    flipped = VonMisesFisherMixture(4, init=init * signs).fit(X * signs)
    np.testing.assert_array_equal(flipped.mean_directions_, mixture.mean_directions_ * signs)
    np.testing.assert_array_equal(flipped.labels_, mixture.labels_)
    assert flipped.lower_bound_ == mixture.lower_bound_


def test_sparse_rows_stay_sparse():
    X = sp.random_array(
        (20_000, 500_000), density=4e-6, random_state=np.random.default_rng(0), format="csr"
    )  # dense 75 GiB
    mixture = VonMisesFisherMixture(2, max_iter=2, random_state=0).fit(X)
    assert mixture.predict_proba(X).shape == (20_000, 2)


def test_one_fit_finds_clusters_that_a_single_draw_of_first_directions_misses(monkeypatch):
    X, labels, _ = planted(30, [100.0] * 12, [80] * 12)

    def n_found():
        fits = [VonMisesFisherMixture(12, random_state=seed).fit(X) for seed in range(6)]
        return sum(adjusted_rand_score(labels, fit.labels_) > 0.99 for fit in fits)

    assert n_found() >= 5
    monkeypatch.setattr(k_means_module, "_N_TRIED", 1)
    assert n_found() <= 4
