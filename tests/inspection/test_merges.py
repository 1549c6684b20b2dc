import numpy as np
import pytest

from skmanifold import DPMixture, ExponentialFamilyMixture
from skmanifold.inspection import MergesDisplay

X = np.random.default_rng(0).normal(size=(120, 2)) + np.repeat([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]], 40, axis=0)
LABELS = np.arange(120) // 20  # two components in each group


def six_components():
    return DPMixture(init=LABELS, max_iter=1, burn_in=0, random_state=0).fit(X)


def test_branches_are_the_merges_of_the_estimator():
    mixture = six_components()
    display = MergesDisplay.from_estimator(mixture)
    K = mixture.n_components_
    assert display.linkage.shape == (K - 1, 4)
    np.testing.assert_array_equal(display.linkage[:, :2], mixture._merges.pairs)
    np.testing.assert_array_equal(display.linkage[:, 2], np.arange(1, K))
    assert display.linkage[-1, 3] == K
    np.testing.assert_array_equal(display.sizes, np.bincount(mixture.labels_))
    assert display.n_clusters == mixture.merge_components().max() + 1
    names = {label.get_text() for label in display.ax_.get_xticklabels()}
    assert names == {f"{k} ({size})" for k, size in enumerate(display.sizes)}


@pytest.mark.parametrize("n_clusters", [1, 2])
def test_the_line_crosses_as_many_branches_as_there_are_clusters(n_clusters):
    mixture = six_components()
    display = MergesDisplay.from_estimator(mixture, n_clusters=n_clusters, color="black")
    (line,) = [line for line in display.ax_.lines if line.get_color() == "black"]
    height = line.get_ydata()[0]
    (paths,) = [paths for paths in [display.ax_.collections] if paths]
    sides = [path.vertices[[0, 1, 2, 3], 1] for branch in paths for path in branch.get_paths()]
    crossed = sum((a < height < b) + (d < height < c) for a, b, c, d in sides)
    assert crossed == (n_clusters if n_clusters > 1 else 0)


def test_refusals():
    with pytest.raises(ValueError, match=r"merge_components, such as DPMixture; ExponentialFamilyMixture has none"):
        MergesDisplay.from_estimator(ExponentialFamilyMixture(2, emission="gaussian", max_iter=4).fit(X))
    with pytest.raises(ValueError, match="at least two components"):
        MergesDisplay.from_estimator(DPMixture(init=np.zeros(120, int), max_iter=1, random_state=0).fit(0.1 * X[:2]))
