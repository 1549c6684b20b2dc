import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib import rcParams, style
from matplotlib.colors import to_rgb
from sklearn.exceptions import NotFittedError

from skmanifold import CrossCat, DPCategoricalMixture, StochasticLDA, SubspaceMixture, VonMisesFisherMixture
from skmanifold._install import install_command
from skmanifold.inspection import (
    CoClusteringDisplay,
    CriteriaDisplay,
    DependenceDisplay,
    DimensionPosteriorDisplay,
    MergesDisplay,
    MixtureDisplay,
    SphereDisplay,
    SurprisalDisplay,
    TopicDisplay,
    TraceDisplay,
)
from skmanifold.inspection._axes import _GROUPS, SHADES, group_colors, percent

from . import _fitted as fitted

_PLOTS = {
    "CoClusteringDisplay.plot": CoClusteringDisplay(similarity=np.eye(2), labels=np.arange(2)).plot,
    "CriteriaDisplay.plot": CriteriaDisplay(n_components=[1, 2], scores={"bic": np.eye(2)}, names=["a", "b"]).plot,
    "DependenceDisplay.plot": DependenceDisplay(dependence=pd.DataFrame(np.eye(2))).plot,
    "DimensionPosteriorDisplay.plot": DimensionPosteriorDisplay(probabilities=np.eye(2), names=["a", "b"]).plot,
    "MergesDisplay.plot": MergesDisplay(linkage=np.array([[0, 1, 1.0, 2]]), sizes=np.array([3, 2]), n_clusters=1).plot,
    "MixtureDisplay.plot": MixtureDisplay(points=np.eye(2), labels=np.arange(2), uncertainty=np.zeros(2)).plot,
    "SphereDisplay.plot": SphereDisplay(directions=np.eye(3)).plot,
    "SurprisalDisplay.plot": SurprisalDisplay(surprisal=pd.DataFrame(np.eye(2))).plot,
    "TopicDisplay.plot": TopicDisplay(topics=[0], words=[["a"]], values=[np.ones(1)]).plot,
    "TraceDisplay.plot": TraceDisplay(trace=np.ones((1, 3))).plot,
    # Before any work: these estimators are not even looked at.
    "CoClusteringDisplay.from_estimator": lambda: CoClusteringDisplay.from_estimator(None),
    "CriteriaDisplay.from_search": lambda: CriteriaDisplay.from_search(None),
    "DependenceDisplay.from_estimator": lambda: DependenceDisplay.from_estimator(None),
    "DimensionPosteriorDisplay.from_estimator": lambda: DimensionPosteriorDisplay.from_estimator(None),
    "MergesDisplay.from_estimator": lambda: MergesDisplay.from_estimator(None),
    "MixtureDisplay.from_estimator": lambda: MixtureDisplay.from_estimator(None, None),
    "SphereDisplay.from_estimator": lambda: SphereDisplay.from_estimator(None),
    "SphereDisplay.from_draws": lambda: SphereDisplay.from_draws(None),
    "SurprisalDisplay.from_estimator": lambda: SurprisalDisplay.from_estimator(None, None),
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
    "dependence": lambda ax: DependenceDisplay.from_estimator(fitted.views(), ax=ax),
    "surprisal": lambda ax: SurprisalDisplay.from_estimator(fitted.views(), fitted.frame_of_views(), ax=ax),
    "co-clustering": lambda ax: CoClusteringDisplay.from_estimator(fitted.dirichlet_process(), ax=ax),
    "merges": lambda ax: MergesDisplay.from_estimator(fitted.dirichlet_process(), ax=ax),
    "mixture": lambda ax: MixtureDisplay.from_estimator(fitted.family_mixture("gaussian"), fitted.directions(3), ax=ax),
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


@pytest.mark.parametrize(
    ("make", "n"),
    [
        (lambda ax: TopicDisplay.from_estimator(fitted.lda(), ax=ax), 3),
        (lambda ax: TraceDisplay.from_estimator(fitted.lda("gibbs", 2, 110), ax=ax), 2),
    ],
)
def test_several_given_axes_are_used_and_a_single_one_is_divided(make, n):
    figure, axes = plt.subplots(1, n)
    display = make(axes)
    assert list(display.axes_) == list(axes)
    assert display.figure_ is figure
    assert display.plot().figure_ is not figure
    again, (left, right) = plt.subplots(1, 2)
    assert display.plot(ax=right).figure_ is again
    assert left.axison
    assert not right.axison
    with pytest.raises(ValueError, match=rf"has {n} panels; ax has 1 axes"):
        display.plot(ax=[left])
    with pytest.raises(ValueError, match="ax must be axes of a grid"):
        display.plot(ax=again.add_axes((0, 0, 1, 1)))


_REFUSED = [
    (CoClusteringDisplay, lambda: (fitted.von_mises_fisher(3), fitted.directions(3)), "VonMisesFisherMixture has none"),
    (DependenceDisplay, lambda: (fitted.lda(),), "method column_dependence, such as CrossCat; StochasticLDA has none"),
    (SurprisalDisplay, lambda: (fitted.lda(), fitted.counts()), "method surprisal, such as CrossCat; StochasticLDA"),
    (DimensionPosteriorDisplay, lambda: (fitted.lda(),), "StochasticLDA does not have"),
    (MixtureDisplay, lambda: (fitted.lda(), fitted.counts()), "StochasticLDA does not have"),
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
        (DependenceDisplay, CrossCat()),
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


def test_the_style_of_figures_has_the_palette_of_the_displays():
    with style.context("skmanifold.inspection.skmanifold"):
        colors = rcParams["axes.prop_cycle"].by_key()["color"]
        assert [to_rgb(color) for color in colors] == [to_rgb(color) for color in _GROUPS]
        assert rcParams["image.cmap"] == SHADES
    # That of Okabe and Ito, for colour-blind readers, without black and yellow
    assert {*_GROUPS} == {"#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"}


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
