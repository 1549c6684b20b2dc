"""Outliers of Dirichlet process mixtures: the exact posterior of few rows, planted background rows, and files.

Wrong variants go through the same checks, and fail.
"""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.special import betaln, gammaln, logsumexp, softmax
from scipy.stats import norm

import skmanifold
from benchmarks.clusters import BACKGROUND, noisy
from skmanifold import DPCategoricalMixture, DPMixture
from skmanifold.emissions import Categorical, Columns, Gaussian, VonMisesFisher
from skmanifold.emissions._bound_rows import BoundRows
from skmanifold.emissions._gaussian.rounded import RoundsColumns
from skmanifold.mixture._dirichlet_process import outliers
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.mixture._dirichlet_process.outliers import OUTLIER, SliceWithOutliers, log_weights_given
from skmanifold.models import IncompatibleError
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import Slice
from skmanifold.utils._threads import Workers

from . import _tiny_partitions as tiny
from ._direction_rows import DirectionRows
from ._emission_partitions import CASES, N_ROWS, TableRows
from ._gaussian_rows import _GaussianRows

PRIOR = 1.0, 2.0  # so that there are outliers among five rows
PAIRS = np.triu_indices(N_ROWS, 1)


@pytest.fixture
def many_outliers(monkeypatch):
    monkeypatch.setattr(outliers, "_PRIOR", PRIOR)


of_few_rows = pytest.mark.usefixtures("many_outliers")


# --- the exact posterior of five rows --------------------------------------------------------------------


def expected_broad(rows):
    """Log density of each row if it is an outlier."""
    if isinstance(rows, TableRows):
        return sum(expected_broad(block) for block in rows.blocks)
    if isinstance(rows, DirectionRows):
        return np.zeros(N_ROWS)
    if isinstance(rows, _GaussianRows):
        return -(~np.isnan(rows.X) @ np.log(np.nanmax(rows.X, axis=0) - np.nanmin(rows.X, axis=0)))
    return np.array([rows.log_likelihood([frozenset([i])]) for i in range(N_ROWS)])


def functions(labels):
    """Which rows are outliers, and which pairs are together in a cluster; (..., n_rows) labels."""
    together = (labels[..., PAIRS[0]] == labels[..., PAIRS[1]]) & (labels[..., PAIRS[0]] != OUTLIER)
    return np.concatenate([labels == OUTLIER, together], axis=-1)


def log_weight(clusters, n):
    """Log prior probability that n rows are no outliers and in these clusters, with concentration 1."""
    return sum(gammaln(len(rows)) for rows in clusters) - gammaln(1 + n) + betaln(PRIOR[0] + N_ROWS - n, PRIOR[1] + n)


def exact_expectations(log_likelihood, broad):
    """Of `functions`, by enumeration of outliers and of the partitions of the other rows."""
    logs, found = [], []
    for n in range(1, N_ROWS + 1):
        for others in combinations(range(N_ROWS), n):
            for partition in tiny.partitions(n):
                labels = np.full(N_ROWS, OUTLIER)
                labels[list(others)] = partition
                clusters = tiny.clusters_of(labels[labels != OUTLIER])
                clusters = [frozenset(others[i] for i in rows) for rows in clusters]
                logs.append(log_weight(clusters, n) + log_likelihood(clusters) + broad[labels == OUTLIER].sum())
                found.append(functions(labels))
    return softmax(logs) @ np.array(found, float)


@cache
def expectations(name):
    rows = CASES[name]
    return exact_expectations(rows.log_likelihood, expected_broad(rows))


def read(rows):
    """The emission of these rows, and the rows as it reads them."""
    emission = rows.emission
    if "widths" in rows.hyper:
        emission = emission.set_params(min_categories=list(rows.hyper["widths"]))
    return emission, emission.read(DPMixture(), rows.as_read, reset=True)


def model_of(emission, rows, batch_size=None):
    clusters = emission.bind(rows, 1).with_ranges(rows).clusters(rows)
    return DPModel(clusters, 1.0, (1.0, 1.0), 2, batch_size, Workers(1))


def along_chains(emission, rows, sampler=None, *, batch_size=None, n_chains=24, n_steps=80):
    """Means of `functions`."""
    model, sampler = model_of(emission, rows, batch_size), SliceWithOutliers(sampler or Slice(1))
    means = []
    for chain in range(n_chains):
        state, found = sampler.init(model, subkey(root_key(0), chain)), []
        for _ in range(n_steps):
            state = sampler.step(model, state)
            found.append(functions(state.latents))
        means.append(np.mean(found[20:], axis=0))
    return summarize(means)


NAMES = ["full", "full, missing", "tied, missing", "diag, missing", "categorical, missing", "negative binomial"]
NAMES += ["full and categorical, missing", "diag, bernoulli and poisson", "directions, shared", "multinomial"]


@of_few_rows
@pytest.mark.extended
@pytest.mark.short_cases("full, missing", "categorical, missing", "full and categorical, missing")
@pytest.mark.parametrize("name", NAMES)
def test_outliers_and_partitions_have_their_posterior(name):
    expected = expectations(name)
    assert expected[:N_ROWS].max() > 0.3
    assert_agrees(along_chains(*read(CASES[name])), expected)


@of_few_rows
@pytest.mark.extended
def test_minibatches_and_scans_have_the_same_posterior():
    assert_agrees(along_chains(*read(CASES["diag, missing"]), Slice(2, 1), batch_size=2), expectations("diag, missing"))


def weights_of_all_rows(n_outliers, n_rows, key):
    return log_weights_given(n_rows - n_outliers, n_rows, key)


def density_of_all_cells(family, out, workers):
    out[:, 0] -= family.log_ranges.sum()


def without_normalisation(family, out, workers):
    pass


WRONG = [
    ("categorical, missing", outliers, "log_weights_given", weights_of_all_rows),
    ("diag, missing", RoundsColumns, "add_log_broad", density_of_all_cells),
    ("categorical, missing", BoundRows, "add_log_broad", without_normalisation),
]


@of_few_rows
@pytest.mark.extended
@pytest.mark.short_cases("categorical, missing-BoundRows-add_log_broad-without_normalisation")
@pytest.mark.parametrize(("name", "owner", "method", "wrong"), WRONG)
def test_wrong_updates_are_found_out(name, owner, method, wrong, monkeypatch):
    monkeypatch.setattr(owner, method, wrong)
    assert_disagrees(along_chains(*read(CASES[name])), expectations(name))


@of_few_rows
def test_log_joint_has_the_outliers():
    rows = CASES["categorical"]
    model, sampler = model_of(*read(rows)), SliceWithOutliers(Slice(1))
    state, n_outliers = sampler.init(model, root_key(0)), set()
    for _ in range(20):
        state = sampler.step(model, state)
        is_outlier, labels = state.latents == OUTLIER, state.latents
        clusters = [frozenset(np.flatnonzero(labels == label)) for label in np.unique(labels[~is_outlier])]
        n = np.count_nonzero(~is_outlier)
        expected = log_weight(clusters, n) + rows.log_likelihood(clusters) + expected_broad(rows)[is_outlier].sum()
        assert state.log_density == pytest.approx(expected - betaln(*PRIOR), rel=1e-9)
        n_outliers.add(N_ROWS - n)
    assert len(n_outliers) > 2


# --- rounded numbers -------------------------------------------------------------------------------------

ROUNDED, WIDTH = np.array([[0.0], [0.0], [1.0], [2.0], [6.0]]), 1.0


def log_marginal_of_cells(prior, lows, highs):
    """Log probability that numbers of one cluster are between these, by quadrature over its mean and log variance."""
    mean, precision, scatter, degrees = (float(np.ravel(each)[0]) for each in prior)
    log_variances = np.linspace(-8.0, 8.0, 161)[:, np.newaxis]
    deviations, nodes = np.exp(0.5 * log_variances), np.linspace(-1.0, 1.0, 401)
    means = mean + 12.0 * np.sinh(4.0 * nodes) / np.sinh(4.0) * np.maximum(deviations / np.sqrt(precision), 1.0)
    logs = norm.logpdf(means, mean, deviations / np.sqrt(precision)) + np.log(np.gradient(means, axis=1))
    for low, high in zip(lows, highs, strict=True):
        below, above = (low - means) / deviations, (high - means) / deviations
        below, above = np.where(below > 0.0, -above, below), np.where(below > 0.0, -below, above)
        logs = logs + norm.logcdf(above) + np.log(-np.expm1(norm.logcdf(below) - norm.logcdf(above)))
    of_variance = -0.5 * degrees * log_variances - 0.5 * scatter / deviations**2
    of_variance += 0.5 * degrees * np.log(0.5 * scatter) - gammaln(0.5 * degrees)
    return logsumexp(logs + of_variance) + np.log(log_variances[1, 0] - log_variances[0, 0])


def rounded(kind, power):
    scatter = [[0.4]] if kind == "full" else 0.4
    emission = Gaussian(kind, [0.5], 0.3, scatter, 3.0, WIDTH, transform=None if power is None else [power])
    return emission, emission.read(DPMixture(), ROUNDED, reset=True)


@cache
def expectations_of_rounded(kind, power):
    emission, rows = rounded(kind, power)
    family = emission.bind(rows, 1)
    lows, highs = (ROUNDED + side * WIDTH / 2 for side in (-1, 1))
    if power is not None:
        lows, highs = map(family.transform.forward, (lows, highs))
    of_cluster = cache(lambda each: log_marginal_of_cells(family.prior, lows[list(each), 0], highs[list(each), 0]))
    broad = np.full(N_ROWS, np.log(WIDTH) - np.log(np.ptp(ROUNDED) + WIDTH))
    return exact_expectations(lambda clusters: sum(map(of_cluster, clusters)), broad)


@of_few_rows
@pytest.mark.extended
@pytest.mark.short_cases("None-diag")
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize("kind", ["diag", "full"])
@pytest.mark.parametrize("power", [None, 0.2])
def test_rounded_outliers_have_their_posterior(kind, power):
    found, expected = along_chains(*rounded(kind, power)), expectations_of_rounded(kind, power)
    is_frequent = expected > 0.01
    assert_agrees(found._replace(mean=found.mean[is_frequent], error=found.error[is_frequent]), expected[is_frequent])


@of_few_rows
@pytest.mark.extended
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_densities_of_cells_in_place_of_numbers_within_them_are_found_out(monkeypatch):
    monkeypatch.setattr(RoundsColumns, "exact", lambda family, statistics: family)
    found = along_chains(*rounded("diag", None), n_chains=60)
    assert_disagrees(found, expectations_of_rounded("diag", None))


# --- fits ------------------------------------------------------------------------------------------------


@cache
def background(n_jobs=1, **options):
    """Rows with a uniform background, which of them are of it, and a fit."""
    X, labels = noisy(0)
    settings = {"max_iter": 60, "n_chains": 2} | options
    return X, labels == BACKGROUND, DPMixture(outliers=True, random_state=0, n_jobs=n_jobs, **settings).fit(X)


def mean_weight(mixture):
    """Posterior mean of the weight of outliers, by its means given their drawn numbers."""
    drawn = np.sum(mixture.posterior_["labels"] == OUTLIER, axis=2)
    return np.mean((1 + drawn) / (20 + len(mixture.labels_)))


def test_background_rows_are_outliers():
    _, is_background, mixture = background()
    found = mixture.labels_ == OUTLIER
    assert found[is_background].mean() > 0.75
    assert found[~is_background].mean() < 0.02
    centres = np.array([(0.0, 0.0), (4.0, 3.0), (-3.0, 4.0), (3.0, -4.0)])
    gaps = np.linalg.norm(mixture.components_[:4] - centres[:, np.newaxis], axis=2)
    assert (gaps.min(axis=1) < 0.2).all()
    assert mixture._estimate.statistics.sizes.sum() == np.count_nonzero(~found)
    drawn = mixture.posterior_["outlier_weight"]
    assert drawn.shape == mixture.posterior_["concentration"].shape
    assert mixture.outlier_weight_ == drawn.mean() == pytest.approx(is_background.mean(), abs=0.03)


def test_probabilities_of_outliers():
    X, _, mixture = background()
    of_fitted, labels = mixture.outlier_proba(), mixture.posterior_["labels"]
    np.testing.assert_array_equal(of_fitted, (labels == OUTLIER).mean(axis=(0, 1)))
    np.testing.assert_array_equal(mixture.labels_ == OUTLIER, of_fitted > 0.5)
    assert np.abs(mixture.outlier_proba(X) - of_fitted).mean() < 0.05
    new = np.array([[100.0, 100.0], [0.0, 0.0], [1e5, 0.0]])
    np.testing.assert_allclose(mixture.outlier_proba(new), [1.0, 0.0, 1.0], atol=0.02)
    np.testing.assert_array_equal(mixture.predict(new) == OUTLIER, [True, False, True])
    np.testing.assert_allclose(mixture.predict_proba(new).sum(axis=1), 1.0)
    broad = np.log(mean_weight(mixture)) - np.log(np.ptp(X, axis=0)).sum()
    np.testing.assert_allclose(mixture.score_samples(new)[[0, 2]], broad, rtol=1e-9)


def test_density_with_outliers_is_one_over_the_range():
    """The densities of components and of outliers have the same units, also of transformed columns."""
    rng = np.random.default_rng(0)
    X = np.exp(rng.normal(size=(200, 1)) / 2.0)
    for emission in (Gaussian(), Gaussian("diag", transform=[0.2]), Gaussian("diag")):
        mixture = DPMixture(emission, outliers=True, max_iter=20, random_state=0).fit(100.0 * X)
        width, outside = 100.0 * np.ptp(X), 100.0 * (X.max() + 1e4)
        values = np.concatenate([np.linspace(-100.0, 3000.0, 20001)])[:, np.newaxis]
        broad = np.exp(mixture.score_samples([[outside]])[0])
        assert broad * width == pytest.approx(mean_weight(mixture), rel=1e-9)
        density = np.exp(mixture.score_samples(values)) - broad
        assert density.sum() * 3100.0 / 20000.0 == pytest.approx(1.0 - broad * width, abs=0.01)


@pytest.mark.parametrize("n_chains", [1, 2])
def test_threads_do_not_change_bytes(n_chains):
    one, two = (background(n_jobs, max_iter=12, n_chains=n_chains)[2] for n_jobs in (1, 2))
    for name, drawn in one.posterior_.items():
        np.testing.assert_array_equal(two.posterior_[name], drawn)
    np.testing.assert_array_equal(one.labels_, two.labels_)
    X = noisy(1)[0]
    np.testing.assert_array_equal(one.outlier_proba(X), two.outlier_proba(X))


def test_methods_have_the_rows_that_are_no_outliers():
    X, _, mixture = background()
    found = mixture.labels_ == OUTLIER
    drawn = mixture.posterior_["labels"].reshape(-1, len(X))
    a, b = np.flatnonzero(found)[:2]
    together = ((drawn[:, a] == drawn[:, b]) & (drawn[:, a] != OUTLIER)).mean()
    assert mixture.co_clustering()[a, b] == together < 1.0
    frame = mixture.cluster_summary().clusters
    np.testing.assert_array_equal(np.sort(frame["size"]), np.sort(np.bincount(mixture.labels_[~found])))
    assert not found[mixture.typical_rows_].any()
    assert mixture.merge_components(1).n_components_ == 1


def test_fits_with_outliers_are_saved(tmp_path):
    X, _, mixture = background()
    mixture.save(tmp_path / "mixture")
    loaded = skmanifold.load(tmp_path / "mixture")
    for name in ("predict", "outlier_proba", "score_samples"):
        np.testing.assert_array_equal(getattr(loaded, name)(X), getattr(mixture, name)(X))
    np.testing.assert_array_equal(loaded.outlier_proba(), mixture.outlier_proba())
    assert loaded.outlier_weight_ == mixture.outlier_weight_


def test_short_fits_have_few_draws():
    _, _, mixture = background(max_iter=5, burn_in=4, thin=1, n_chains=1)
    assert set(mixture.outlier_proba()) == {0.0, 1.0}
    assert mixture.outlier_weight_ == mixture.posterior_["outlier_weight"].item()


def test_tables_and_counts_have_outliers():
    rng = np.random.default_rng(0)
    codes = np.repeat([[0] * 12, [2] * 12], 100, axis=0)
    codes[rng.random(codes.shape) < 0.1] = 1
    codes[-5:] = rng.integers(0, 3, (5, 12))
    mixture = DPCategoricalMixture("categorical", outliers=True, max_iter=60, random_state=0).fit(codes)
    assert (mixture.outlier_proba()[-5:] > 0.5).mean() >= 0.8
    numbers = np.repeat([[0.0, 0.0], [20.0, 20.0]], 100, axis=0) + rng.normal(size=(200, 2))
    numbers[-5:] = [[10.0, 0.0], [0.0, 10.0], [20.0, 0.0], [0.0, 20.0], [10.0, 21.0]]
    table = np.column_stack([numbers, codes[:, :2]])
    emission = Columns([("numbers", Gaussian(), [0, 1]), ("codes", Categorical(), [2, 3])])
    mixture = DPMixture(emission, outliers=True, max_iter=60, random_state=0).fit(table)
    np.testing.assert_array_equal(mixture.labels_[-5:], OUTLIER)
    directions = np.vstack([np.eye(3)[np.arange(200) % 2] + 0.05 * rng.normal(size=(200, 3)), [[0.1, 0.2, -1.0]]])
    mixture = DPMixture(VonMisesFisher("shared"), outliers=True, max_iter=60, random_state=0).fit(directions)
    assert mixture.predict([[0.5, -0.5, -1.0], [1.0, 0.0, 0.0]])[0] == OUTLIER


def test_other_fits_have_no_outliers():
    X = noisy(0)[0][:100]
    mixture = DPMixture(max_iter=6, random_state=0).fit(X)
    assert mixture.labels_.min() == mixture.predict(X).min() == 0
    assert not mixture.outlier_proba().any()
    assert not mixture.outlier_proba(X).any()
    assert "outlier_weight" not in mixture.posterior_
    assert not hasattr(mixture, "outlier_weight_")


def test_other_samplers_are_refused():
    with pytest.raises(IncompatibleError, match="outliers=True needs the sampler 'slice'; SCIR draws no outliers"):
        DPCategoricalMixture(sampler="scir", outliers=True).fit(np.eye(4, dtype=int))
    with pytest.raises(ValueError, match="outliers"):
        DPMixture(outliers="yes").fit(np.eye(4))
