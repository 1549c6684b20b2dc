import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from matplotlib.patches import Ellipse
from scipy.stats import multivariate_normal

from skmanifold import DPMixture, ExponentialFamilyMixture, VonMisesFisherMixture
from skmanifold.emissions import Gaussian
from skmanifold.inspection import MixtureDisplay

RNG = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0, 0.0], [4.0, 1.0, 2.0], [0.0, 5.0, -2.0]])
GROUPS = np.arange(120) % 3
X = CENTRES[GROUPS] + RNG.normal(size=(120, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 0.8, 0.3], [0.0, 0.0, 1.2]])
NAMES = ["width", "length", "depth"]


def fit(form="full", K=3, X=X, **settings):
    return ExponentialFamilyMixture(K, emission=Gaussian(form), random_state=0, **settings).fit(X)


def covariances_of(mixture, form):
    """Covariance matrices of all components."""
    if form in ("full", "tied"):
        return np.broadcast_to(mixture.covariances_, (3, 3, 3))
    return np.array([np.diag(variances) for variances in mixture.covariances_])


@pytest.mark.parametrize("form", ["full", "tied", "diag", "spherical"])
def test_the_density_in_two_columns_is_the_marginal_one(form):
    mixture = fit(form)
    display = MixtureDisplay.from_estimator(mixture, X, response="density", columns=[2, 0])
    whole = covariances_of(mixture, form)[:, [2, 0]][:, :, [2, 0]]
    np.testing.assert_allclose(display.covariances, whole)
    np.testing.assert_allclose(display.means, mixture.components_[:, [2, 0]])
    x, y, log_density = display.grid
    nodes = np.stack(np.meshgrid(x, y), axis=-1)
    parts = zip(mixture.weights_, display.means, whole, strict=True)
    expected = sum(w * multivariate_normal(mean, covariance).pdf(nodes) for w, mean, covariance in parts)
    np.testing.assert_allclose(log_density, np.log(expected), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("sampler", ["em", "gibbs"])
def test_the_density_in_principal_components_is_an_integral_of_that_of_rows(sampler):
    mixture = fit(max_iter=30, sampler=sampler)
    display = MixtureDisplay.from_estimator(mixture, X, response="density")
    x, y, log_density = display.grid
    axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2]
    axes *= np.sign((X[0] - X.mean(axis=0)) @ axes.T * np.append(display.points[0], 1.0))[:, np.newaxis]
    np.testing.assert_allclose(display.points, (X - X.mean(axis=0)) @ axes[:2].T, atol=1e-9)
    depths = np.linspace(-15.0, 15.0, 601)
    for i, j in ((60, 60), (20, 90), (100, 40)):
        lines = X.mean(axis=0) + x[i] * axes[0] + y[j] * axes[1] + depths[:, np.newaxis] * axes[2]
        integral = np.exp(mixture.score_samples(lines)).sum() * (depths[1] - depths[0])
        assert np.exp(log_density[j, i]) == pytest.approx(integral, rel=1e-8)


def test_rows_have_the_symbols_of_their_components_and_components_ellipses():
    mixture, table = fit(X=pd.DataFrame(X, columns=NAMES)), pd.DataFrame(X, columns=NAMES)
    display = MixtureDisplay.from_estimator(mixture, table, columns=["depth", "width"])
    labels = mixture.predict(table)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("depth", "width")
    for k, drawn in enumerate(display.ax_.collections):
        np.testing.assert_allclose(drawn.get_offsets(), X[labels == k][:, [2, 0]])
    ellipses = [patch for patch in display.ax_.patches if isinstance(patch, Ellipse)]
    assert len(ellipses) == 3
    for ellipse, mean, covariance in zip(ellipses, display.means, display.covariances, strict=True):
        drawn = RNG.multivariate_normal(mean, covariance, 4000)
        inside = ellipse.contains_points(display.ax_.transData.transform(drawn)).mean()
        assert abs(inside - 0.9) < 4.0 * np.sqrt(0.09 / 4000) + 0.005  # the path is a polygon
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["0", "1", "2"]


def test_uncertain_rows_are_larger_and_drawn_last():
    mixture = fit()
    display = MixtureDisplay.from_estimator(mixture, X, response="uncertainty")
    expected = np.sort(mixture.uncertainty(X))
    assert expected[-1] > 0.2
    drawn = display.ax_.collections[0]
    np.testing.assert_allclose(drawn.get_array(), expected)
    assert (np.diff(drawn.get_sizes()) >= 0.0).all()


def test_contours_contain_their_share_of_new_rows():
    mixture = fit(X=X[:, :2])
    display = MixtureDisplay.from_estimator(mixture, X[:, :2], response="density")
    (contours,) = [each for each in display.ax_.collections if hasattr(each, "levels")]
    assert {text.get_text() for text in contours.labelTexts} <= {"95%", "75%", "50%", "25%"}
    densities = np.exp(mixture.score_samples(mixture.sample(4000, random_state=0)[0]) - display.grid[2].max())
    for level, share in zip(contours.levels, (0.95, 0.75, 0.5, 0.25), strict=True):
        assert (
            abs((densities > level).mean() - share) < 4.0 * np.sqrt(share * (1.0 - share) / 4000) + 0.01
        )  # of the grid


@pytest.mark.parametrize("response", ["classification", "density", "uncertainty"])
def test_one_component_and_missing_cells(response):
    holes = X.copy()
    holes[::7, 1] = np.nan
    display = MixtureDisplay.from_estimator(fit(K=1, X=holes), holes, response=response)
    assert np.isfinite(display.points).all()
    display = MixtureDisplay.from_estimator(fit(K=1, X=holes), holes, response=response, columns=[0, 1])
    np.testing.assert_array_equal(np.isnan(display.points[:, 1]), np.isnan(holes[:, 1]))


def test_outliers_and_clusters_of_a_dirichlet_process():
    far = np.concatenate([X[:, :2], RNG.uniform(-30.0, 30.0, (12, 2))])
    mixture = DPMixture(outliers=True, max_iter=30, random_state=0).fit(far)
    display = MixtureDisplay.from_estimator(mixture, far, response="density")
    nodes = np.stack(np.meshgrid(*display.grid[:2]), axis=-1).reshape(-1, 2)
    np.testing.assert_allclose(display.grid[2].ravel(), mixture.score_samples(nodes), rtol=1e-12)
    display = MixtureDisplay.from_estimator(mixture, far)
    assert display.labels.min() == -1
    assert display.ax_.get_legend().get_texts()[0].get_text() == "outlier"


def test_other_components_have_no_ellipses():
    counts = RNG.poisson(np.where(GROUPS[:, np.newaxis] == 0, [8.0, 1.0, 2.0], [1.0, 8.0, 2.0]))
    mixture = ExponentialFamilyMixture(2, emission="poisson", max_iter=20, random_state=0).fit(sp.csr_array(counts))
    display = MixtureDisplay.from_estimator(mixture, sp.csr_array(counts), columns=[0, 1])
    np.testing.assert_array_equal(display.points, counts[:, :2])
    assert not display.ax_.patches


@pytest.mark.parametrize(
    ("mixture", "options"),
    [
        (lambda: VonMisesFisherMixture(2, random_state=0).fit(X), {"columns": [0, 1]}),
        (lambda: DPMixture(max_iter=10, random_state=0).fit(X), {}),
        (lambda: fit().set_params(emission=Gaussian(transform=[1.0, 0.5, 1.0])).fit(X), {}),
    ],
)
def test_densities_that_are_not_available_are_refused(mixture, options):
    with pytest.raises(ValueError, match="response='density' needs Gaussian components"):
        MixtureDisplay.from_estimator(mixture(), X, response="density", **options)


def test_other_refusals():
    with pytest.raises(ValueError, match="shows two columns"):
        MixtureDisplay.from_estimator(fit(X=X[:, :1]), X[:, :1])
    with pytest.raises(ValueError, match="shows two columns"):
        MixtureDisplay.from_estimator(fit(), X, columns=[0, 1, 2])
    with pytest.raises(ValueError, match=r"response must be 'classification', .* got 'density'"):
        MixtureDisplay(points=X[:, :2], labels=GROUPS, uncertainty=np.zeros(120), response="density").plot()
