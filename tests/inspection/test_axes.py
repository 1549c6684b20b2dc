import subprocess
import sys

import numpy as np
import pytest

from skmanifold._install import install_command
from skmanifold.inspection import (
    CoClusteringDisplay,
    DimensionPosteriorDisplay,
    SphereDisplay,
    TopicDisplay,
    TraceDisplay,
)
from skmanifold.inspection._axes import group_colors, percent

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


@pytest.mark.long
def test_importing_displays_does_not_import_matplotlib():
    check = "import sys, skmanifold.inspection; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_there_is_a_colour_for_every_group():
    for n in (1, 6, 7, 20):
        assert len({str(color) for color in group_colors(n)}) == n


def test_shares_are_read_at_a_glance():
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
