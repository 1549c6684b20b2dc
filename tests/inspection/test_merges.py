import numpy as np
import pytest

from skmanifold import DPMixture, ExponentialFamilyMixture
from skmanifold.inspection import MergesDisplay

RNG = np.random.default_rng(0)
X = np.exp(0.8 * RNG.normal(size=(240, 2))) + np.repeat([[0.0, 0.0], [12.0, 0.0], [0.0, 12.0]], 80, axis=0)


def many_components():
    """Several components in each of three groups with long tails."""
    mixture = DPMixture(max_iter=40, random_state=0).fit(X)
    assert len(mixture.component_clusters_) > 4
    return mixture


def test_branches_are_the_merges_of_the_estimator():
    mixture = many_components()
    display = MergesDisplay.from_estimator(mixture)
    K = len(mixture.component_clusters_)
    assert display.linkage.shape == (K - 1, 4)
    np.testing.assert_array_equal(display.linkage[:, :2], mixture._merges.pairs)
    np.testing.assert_array_equal(display.linkage[:, 2], np.arange(1, K))
    assert display.linkage[-1, 3] == K
    np.testing.assert_array_equal(display.sizes, np.bincount(mixture.component_labels_))
    assert display.n_clusters == mixture.n_components_
    names = {label.get_text() for label in display.ax_.get_xticklabels()}
    assert names == {f"{k} ({size})" for k, size in enumerate(display.sizes)}


@pytest.mark.parametrize("n_clusters", [1, 2])
def test_the_line_crosses_as_many_branches_as_there_are_clusters(n_clusters):
    mixture = many_components()
    display = MergesDisplay.from_estimator(mixture, n_clusters=n_clusters, color="black")
    (line,) = [line for line in display.ax_.lines if line.get_color() == "black"]
    height = line.get_ydata()[0]
    sides = [path.vertices[[0, 1, 2, 3], 1] for branches in display.ax_.collections for path in branches.get_paths()]
    crossed = sum(int(a < height < b) + int(d < height < c) for a, b, c, d in sides)
    assert crossed == (n_clusters if n_clusters > 1 else 0)


def test_refusals():
    with pytest.raises(ValueError, match=r"merge_components, such as DPMixture; ExponentialFamilyMixture has none"):
        MergesDisplay.from_estimator(ExponentialFamilyMixture(2, emission="gaussian", max_iter=4).fit(X))
    with pytest.raises(ValueError, match="at least two components"):
        MergesDisplay.from_estimator(DPMixture(random_state=0).fit(RNG.normal(size=(30, 1))))
