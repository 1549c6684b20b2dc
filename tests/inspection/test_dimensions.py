import numpy as np
import pytest

from skmanifold.inspection import DimensionPosteriorDisplay

from . import _fitted as fitted


def test_dimensions_of_components_are_those_of_the_estimator():
    mixture = fitted.subspaces()
    display = DimensionPosteriorDisplay.from_estimator(mixture)
    np.testing.assert_array_equal(display.probabilities, mixture.dimension_posterior_)
    assert display.names[0].startswith("component 0 (")
    (image,) = display.ax_.images
    seen = np.flatnonzero(mixture.dimension_posterior_.max(axis=0) >= 1e-3)
    np.testing.assert_array_equal(image.get_array(), mixture.dimension_posterior_[:, seen[0] : seen[-1] + 1])
    assert image.get_extent()[:2] == [seen[0] - 0.5, seen[-1] + 0.5]
    assert display.ax_.get_xlabel() == "dimension"
    assert image.colorbar.ax.get_ylabel() == "posterior probability"


@pytest.mark.parametrize(("n_components", "names"), [(1, ["line", "plane"]), (2, None)])
def test_classes_have_a_row_for_each_of_their_components(n_components, names):
    classifier = fitted.subspace_classifier(n_components)
    display = DimensionPosteriorDisplay.from_estimator(classifier)
    of_classes = [mixture.dimension_posterior_ for mixture in classifier.mixtures_]
    np.testing.assert_array_equal(display.probabilities, np.concatenate(of_classes))
    if names:
        assert display.names == names
    else:
        assert len(display.names) == 4
        assert display.names[2].startswith("plane, component 0")


@pytest.mark.parametrize("fit", [fitted.dirichlet_process, fitted.orthogonal])
def test_numbers_of_components_are_bars_of_their_probabilities(fit):
    model = fit()
    display = DimensionPosteriorDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.probabilities, [model.n_components_posterior_])
    for bar in display.ax_.patches:
        value = round(bar.get_x() + bar.get_width() / 2)
        assert bar.get_height() == model.n_components_posterior_[value]
    assert sum(bar.get_height() for bar in display.ax_.patches) == pytest.approx(1.0, abs=0.01)
