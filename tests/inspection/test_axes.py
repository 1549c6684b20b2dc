import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import rcParams, style
from matplotlib.colors import to_rgb
from scipy.spatial.distance import pdist
from sklearn.exceptions import NotFittedError

from skmanifold import DPCategoricalMixture, StochasticLDA, SubspaceMixture, VonMisesFisherMixture
from skmanifold._install import install_command
from skmanifold.inspection import (
    CoClusteringDisplay,
    DimensionPosteriorDisplay,
    SphereDisplay,
    TopicDisplay,
    TraceDisplay,
)
from skmanifold.inspection._axes import _GROUPS, SHADES, group_colors, percent

from . import _fitted as fitted

_PLOTS = {
    "CoClusteringDisplay.plot": CoClusteringDisplay(similarity=np.eye(2), labels=np.arange(2)).plot,
    "DimensionPosteriorDisplay.plot": DimensionPosteriorDisplay(probabilities=np.eye(2), names=["a", "b"]).plot,
    "SphereDisplay.plot": SphereDisplay(directions=np.eye(3)).plot,
    "TopicDisplay.plot": TopicDisplay(topics=[0], words=[["a"]], values=[np.ones(1)]).plot,
    "TraceDisplay.plot": TraceDisplay(trace=np.ones((1, 3))).plot,
    # Before any work: these estimators are not even looked at.
    "CoClusteringDisplay.from_estimator": lambda: CoClusteringDisplay.from_estimator(None),
    "DimensionPosteriorDisplay.from_estimator": lambda: DimensionPosteriorDisplay.from_estimator(None),
    "SphereDisplay.from_estimator": lambda: SphereDisplay.from_estimator(None),
    "SphereDisplay.from_draws": lambda: SphereDisplay.from_draws(None),
    "TopicDisplay.from_estimator": lambda: TopicDisplay.from_estimator(None),
    "TraceDisplay.from_estimator": lambda: TraceDisplay.from_estimator(None),
    "TraceDisplay.from_draws": lambda: TraceDisplay.from_draws(None),
}


@pytest.mark.parametrize("name", _PLOTS)
def test_without_matplotlib_one_sentence_says_what_to_install(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError) as caught:
        _PLOTS[name]()
    assert str(caught.value) == f"{name} needs matplotlib: {install_command('demo')}"


@pytest.mark.parametrize("name", [name for name in _PLOTS if name.endswith(".plot")])
def test_displays_are_drawn_from_arrays_alone(name):
    display = _PLOTS[name]()
    assert display.plot() is display


_SINGLE = {
    "co-clustering": lambda ax: CoClusteringDisplay.from_estimator(fitted.dirichlet_process(), ax=ax),
    "dimensions": lambda ax: DimensionPosteriorDisplay.from_estimator(fitted.subspaces(), ax=ax),
    "sphere": lambda ax: SphereDisplay.from_draws(fitted.draws_on_spheres(3), ax=ax),
}


@pytest.mark.parametrize("name", _SINGLE)
def test_given_axes_are_used_and_plot_may_be_called_again(name):
    _, ax = plt.subplots()
    display = _SINGLE[name](ax)
    assert display.ax_ is ax
    assert display.plot() is display
    assert display.ax_ is not ax


_REFUSED = [
    (CoClusteringDisplay, lambda: (fitted.von_mises_fisher(3), fitted.directions(3)), "VonMisesFisherMixture has none"),
    (DimensionPosteriorDisplay, lambda: (fitted.lda(),), "StochasticLDA does not have"),
    (SphereDisplay, lambda: (fitted.von_mises_fisher(6),), "2 or 3 features; the estimator has 6"),
    (SphereDisplay, lambda: (fitted.lda(),), "StochasticLDA does not have"),
    (TopicDisplay, lambda: (fitted.family_mixture("gaussian"),), "TopicDisplay shows topics of words"),
    (TopicDisplay, lambda: (fitted.dirichlet_process(),), "TopicDisplay shows topics of words"),
    (TopicDisplay, lambda: (fitted.subspaces(),), "TopicDisplay shows topics of words"),
    (TraceDisplay, lambda: (fitted.subspace_classifier(),), "SubspaceClassifier does not have"),
    (
        TraceDisplay,
        lambda: (StochasticLDA(3, random_state=0).partial_fit(fitted.counts()),),
        "was fitted with partial_fit",
    ),
]


@pytest.mark.parametrize(("display", "arguments", "message"), _REFUSED)
def test_unsuitable_estimators_are_refused(display, arguments, message):
    with pytest.raises(ValueError, match=message):
        display.from_estimator(*arguments())


@pytest.mark.parametrize(
    ("display", "estimator"),
    [
        (CoClusteringDisplay, DPCategoricalMixture()),
        (DimensionPosteriorDisplay, SubspaceMixture()),
        (SphereDisplay, VonMisesFisherMixture()),
        (TopicDisplay, StochasticLDA()),
        (TraceDisplay, StochasticLDA()),
    ],
)
def test_estimators_that_are_not_fitted_and_what_is_not_draws_are_refused(display, estimator):
    with pytest.raises(NotFittedError):
        display.from_estimator(estimator)
    if hasattr(display, "from_draws"):
        with pytest.raises(ValueError, match="needs Draws, the result of sample"):
            display.from_draws(np.ones((1, 5, 3)))


@pytest.mark.long
def test_importing_displays_does_not_import_matplotlib():
    check = "import sys, skmanifold.inspection; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_there_is_a_colour_for_every_group():
    for n in (1, 6, 7, 20):
        assert len({str(color) for color in group_colors(n)}) == n


# Machado, Oliveira and Fernandes (2009), severity 1: from linear RGB to the RGB that a colour-blind reader sees
_SEEN_BY = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def _smallest_distance(colors, seen_by):
    """Smallest CIELAB distance between two colours, as this reader sees them."""
    srgb = np.array([to_rgb(color) for color in colors])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ _SEEN_BY[seen_by].T, 0.0, 1.0)
    xyz = seen @ _TO_XYZ.T / _TO_XYZ.sum(axis=1)
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * (29 / 6) ** 2 / 3 + 4 / 29)
    lab = np.column_stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])])
    return pdist(lab).min()


@pytest.mark.parametrize("reader", _SEEN_BY)
def test_colour_blind_readers_can_distinguish_the_colours(reader):
    assert _smallest_distance(_GROUPS, reader) > 15


def test_the_check_finds_red_and_green():
    assert _smallest_distance(["tab:green", "tab:red"], "normal") > 15
    assert _smallest_distance(["tab:green", "tab:red"], "deuteranopia") < 10
    assert _smallest_distance(["tab:green", "tab:orange"], "protanopia") < 10


def test_the_style_of_figures_has_the_palette_of_the_displays():
    with style.context("skmanifold.inspection.skmanifold"):
        colors = rcParams["axes.prop_cycle"].by_key()["color"]
        assert [to_rgb(color) for color in colors] == [to_rgb(color) for color in _GROUPS]
        assert rcParams["image.cmap"] == SHADES


def test_shares_are_percentages_of_two_digits():
    assert [percent(share) for share in (1.0, 0.124, 0.042, 0.0996, 0.0)] == ["100%", "12%", "4.2%", "10%", "<0.1%"]


def test_chains_beyond_the_named_colours_are_drawn():
    display = TraceDisplay(trace=np.arange(30.0).reshape(10, 3)).plot()
    assert len(display.axes_[0].lines) == 10


def test_draws_of_the_estimator_are_left_as_they_were():
    lda = fitted.lda()
    before = {name: values.copy() for name, values in lda.posterior_.items()}
    TopicDisplay.from_estimator(lda)
    TraceDisplay.from_estimator(lda)
    for name, values in before.items():
        np.testing.assert_array_equal(values, lda.posterior_[name])
