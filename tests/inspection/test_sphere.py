import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold.inference import Draws
from skmanifold.inspection import SphereDisplay
from skmanifold.inspection._sphere import _GAP, _N_BINS, _on_hemispheres

from . import _fitted as fitted


@pytest.mark.parametrize("d", [2, 3])
def test_draws_are_shown_by_their_directions_whatever_the_radius(d):
    draws = fitted.draws_on_spheres(d, radius=3.0)
    display = SphereDisplay.from_draws(draws)
    np.testing.assert_allclose(display.directions, draws.flat() / 3.0)
    assert display.names is None
    (points,) = display.ax_.collections[-1:]
    assert len(points.get_offsets()) == 100


def test_several_points_are_separate_groups():
    draws = fitted.draws_on_spheres(4, 3)
    display = SphereDisplay.from_draws(draws)
    for k in range(4):
        np.testing.assert_allclose(display.directions[display.groups == k], draws.flat()[:, k])
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == [f"point {k}" for k in range(4)]


@pytest.mark.parametrize("d", [2, 3])
def test_many_groups_have_a_colour_bar_with_their_name(d):
    display = SphereDisplay.from_draws(fitted.draws_on_spheres(13, d))
    assert display.ax_.get_legend() is None
    (bar,) = [ax for ax in display.figure_.axes if ax is not display.ax_]
    assert bar.get_ylabel() == "point"
    assert bar.get_ylim() == (-0.5, 12.5)


@pytest.mark.parametrize("d", [2, 3])
def test_every_axis_has_a_label_at_both_ends(d):
    display = SphereDisplay(directions=np.eye(d), axis_names=["east", "north", "up"][:d]).plot()
    texts = " ".join(text.get_text() for text in display.ax_.texts)
    for name in ["east", "north", "up"][:d]:
        assert name in texts
        assert f"\N{MINUS SIGN}{name}" in texts


@pytest.mark.parametrize(
    ("position", "message"),
    [
        (np.ones((1, 5, 4)), r"points with 2 or 3 coordinates; these have shape \(4,\)"),
        (np.ones((1, 5, 2, 2, 3)), "points with 2 or 3 coordinates"),
        (np.random.default_rng(0).dirichlet(np.ones(3), (1, 5)), "the length of these differs between draws"),
    ],
)
def test_draws_that_are_not_points_on_a_circle_or_sphere_are_refused(position, message):
    with pytest.raises(ValueError, match=message):
        SphereDisplay.from_draws(Draws(position))


def test_the_projection_keeps_areas_and_meets_at_the_rim():
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((40_000, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    x, y = _on_hemispheres(directions).T
    from_middle = np.hypot(np.abs(x) - _GAP, y)
    assert from_middle.max() <= 1.0
    # Uniform directions are uniform on the discs: squared distances from the middle are uniform on (0, 1), and so are
    # shares of sectors. Four and a half standard errors.
    expected, error = 0.1, np.sqrt(0.1 * 0.9 / len(directions))
    shares = np.histogram(from_middle**2, 10, (0, 1))[0] / len(directions)
    assert np.abs(shares - expected).max() < 4.5 * error
    sectors = np.histogram(np.arctan2(y, x - np.sign(x) * _GAP), 10, (-np.pi, np.pi))[0] / len(directions)
    assert np.abs(sectors - expected).max() < 4.5 * error
    front, back = _on_hemispheres(np.array([[1.0, 0.0, 1e-12], [1.0, 0.0, -1e-12]]))
    np.testing.assert_allclose([front, back], [[1.0 - _GAP, 0.0], [_GAP - 1.0, 0.0]], atol=1e-9)


def test_areas_of_the_histogram_on_the_circle_are_counts():
    display = SphereDisplay.from_draws(fitted.draws_on_spheres(2, n_draws=300))
    bins = display.ax_.collections[0]
    areas = []
    for path in bins.get_paths():
        x, y = path.vertices[:-1].T
        areas.append(abs(np.sum(x * np.roll(y, 1) - y * np.roll(x, 1))) / 2)
    angles = np.arctan2(*display.directions.T[::-1])
    counts = np.histogram(angles, np.linspace(-np.pi, np.pi, _N_BINS + 1))[0]
    counts = counts[counts > 0]
    np.testing.assert_allclose(np.divide(areas, sum(areas)), counts / counts.sum(), rtol=1e-9)


@pytest.mark.parametrize("n_features", [2, 3])
def test_rows_are_coloured_by_their_components_and_means_are_stars(n_features):
    mixture, X = fitted.von_mises_fisher(n_features), fitted.directions(n_features)
    with_zeros = np.concatenate([np.zeros((1, n_features)), X])
    display = SphereDisplay.from_estimator(mixture, with_zeros)
    np.testing.assert_allclose(display.directions, X / np.linalg.norm(X, axis=1, keepdims=True))
    np.testing.assert_array_equal(display.groups, mixture.predict(X))
    np.testing.assert_array_equal(display.means, mixture.mean_directions_)
    of_sparse = SphereDisplay.from_estimator(mixture, sp.csr_array(X))
    np.testing.assert_allclose(of_sparse.directions, display.directions)


def test_without_rows_draws_of_the_topics_are_shown():
    model = fitted.spherical(3)
    display = SphereDisplay.from_estimator(model)
    draws = model.posterior_["components"][model.best_chain_]
    for k in range(2):
        np.testing.assert_array_equal(display.directions[display.groups == k], draws[:, k])
    np.testing.assert_array_equal(display.means, model.components_)
    assert len(SphereDisplay.from_estimator(fitted.von_mises_fisher(3)).directions) == 0
