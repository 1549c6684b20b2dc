"""Names that users pass are drawn as they are, and not as mathematics, in every display and every table."""

import inspect as signatures
import io
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from skmanifold import StochasticLDA, inspection
from skmanifold.inspection import CalibrationDisplay, CoClusteringDisplay, TopicDisplay, class_words

from . import _fitted as fitted

pytestmark = pytest.mark.filterwarnings("ignore:Glyph", "ignore:constrained_layout not applied")

NAMES = {  # and how they are drawn
    "$_{$": "$_{$",
    "a$b$c": "a$b$c",
    r"\frac{1}": r"\frac{1}",
    "_hidden": "_hidden",
    "_nolegend_": "_nolegend_",
    "<b>&amp;": "<b>&amp;",
    "[red]": "[red]",
    "50%": "50%",
    "\N{HEBREW LETTER ALEF}\N{HEBREW LETTER BET}": "\N{HEBREW LETTER ALEF}\N{HEBREW LETTER BET}",
    "\N{PARTY POPPER}": "\N{PARTY POPPER}",
    "a\0b": r"a\x00b",
    "\x1b[31m": r"\x1b[31m",
    "\ud800": r"\ud800",
    "a\nb": "a\nb",
    "x" * 300: "x" * 300,
}
CHUNKS = [list(NAMES)[i : i + 3] for i in range(0, len(NAMES), 3)]


def _parameters(display, names):
    """Parameters of a display with these three names in all places."""
    shares = dict(zip(names, np.full((3, 4), 0.2), strict=True))
    first, second, third = names
    own = pd.Index(names, dtype=object)
    return {
        "CalibrationDisplay": {"differences": shares, "band": np.ones((2, 4)), "pvalues": dict.fromkeys(names, 0.5)},
        "CoClusteringDisplay": {"similarity": np.eye(6), "labels": np.array(names, object).repeat(2)},
        "CriteriaDisplay": {
            "n_components": np.arange(1, 5),
            "scores": {name: np.eye(3, 4) for name in names},
            "names": names,
        },
        "DependenceDisplay": {
            "dependence": pd.DataFrame(np.eye(3), index=own, columns=own),
            "value_name": first,
        },
        "DimensionPosteriorDisplay": {"probabilities": np.eye(3), "names": names, "value_name": first},
        "MixtureDisplay": {
            "points": np.eye(3, 2),
            "labels": np.zeros(3, int),
            "uncertainty": np.zeros(3),
            "axis_names": names[1:],
        },
        "SphereDisplay": {"directions": np.eye(3), "groups": np.arange(3), "names": names, "axis_names": names},
        "SurprisalDisplay": {
            "surprisal": pd.DataFrame(np.eye(3), index=own, columns=own),
            "values": np.array([["a$b$c"] * 3] * 3, object),
        },
        "TopicDisplay": {
            "topics": [0],
            "words": [names],
            "values": [np.ones(3)],
            "value_name": first,
            "topic_name": second,
            "n_components": 2,
        },
        "TraceDisplay": {
            "trace": np.ones((1, 4)),
            "ess_passes": np.arange(4),
            "ess": shares,
            "n_draws": np.arange(4),
            "score_passes": np.arange(4),
            "scores": shares,
            "trace_name": first,
            "trace_unit": second,
            "pass_name": third,
            "note": first,
        },
    }[display]


# MergesDisplay has numbers only
DISPLAYS = [name for name in inspection.__all__ if hasattr(getattr(inspection, name), "plot") and name[:6] != "Merges"]


def _names_in(value):
    """The strings in a parameter."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, pd.DataFrame):
        return [*value.index, *value.columns]
    items = value.tolist() if isinstance(value, np.ndarray) else value
    return [name for item in items for name in _names_in(item)] if isinstance(items, Mapping | list) else []


def _texts(figure):
    """The texts of a figure that are drawn, and of which no part is mathematics."""
    figure.savefig(io.BytesIO(), dpi=20)
    texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    return [text.get_text() for text in texts if not text.get_parse_math()]


def _assert_drawn(display, parameters):
    texts = _texts(display.figure_)
    for parameter, value in parameters.items():
        for name in _names_in(value):
            drawn = NAMES[name].replace("\n", r"\n")[:19] if parameter == "words" else NAMES[name]
            assert any(drawn in text for text in texts), (parameter, drawn, texts)


@pytest.mark.parametrize("names", CHUNKS, ids=lambda names: ascii(names[0])[1:-1][:10])
@pytest.mark.parametrize("display", DISPLAYS)
def test_names_are_drawn_unchanged(display, names):
    parameters = _parameters(display, names)
    made = getattr(inspection, display)(**parameters).plot()
    _assert_drawn(made, parameters)
    if hasattr(made, "ax_") and made.ax_.get_legend() is not None:
        legend = [text.get_text() for text in made.ax_.get_legend().get_texts()]
        assert all(any(NAMES[name] in text for text in legend) for name in names)
    panels = getattr(made, "axes_", [])
    for panel in panels[-1:] if display == "CriteriaDisplay" else panels[1:]:
        legend = [text.get_text() for text in panel.get_legend().get_texts()]
        assert [text for text in legend if text != "draws"] == [NAMES[name] for name in names]


@pytest.mark.parametrize("display", DISPLAYS)
def test_every_parameter_with_names_is_tried(display):
    parameters = _parameters(display, CHUNKS[0])
    signature = signatures.signature(getattr(inspection, display)).parameters
    for name, parameter in signature.items():
        if "str" in str(parameter.annotation).replace("np.", ""):
            assert name in parameters, f"{display} draws {name}: add it to the parameters of this test"


def test_default_names_of_axes_remain_mathematics():
    texts = inspection.SphereDisplay(directions=np.eye(3)).plot().figure_.findobj(Text)
    assert any(text.get_text() == "$x_1$" and text.get_parse_math() for text in texts)


def test_more_groups_than_a_legend_names_have_a_colour_bar_with_their_noun():
    display = inspection.SphereDisplay(
        directions=np.eye(3)[np.zeros(13, int)], groups=np.arange(13), names=[f"a$_{{$ {k}" for k in range(13)]
    ).plot()
    assert "a$_{$" in _texts(display.figure_)


def test_legends_keep_other_artists_and_options_of_the_user():
    parameters = _parameters("CalibrationDisplay", CHUNKS[1])
    display = CalibrationDisplay(**parameters).plot(label="mine")
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["95% band", "mine", "mine", "mine"]
    again = CalibrationDisplay(**parameters).plot(ax=display.ax_)
    labels = [text.get_text() for text in again.ax_.get_legend().get_texts()]
    assert labels == ["95% band", "mine", "mine", "mine", "95% band", *(f"{name} (p = 0.5)" for name in CHUNKS[1])]


def test_names_reach_the_displays_from_estimators_and_classes():
    names = [f"{name}{i}" for i, name in enumerate([*NAMES, *list(NAMES)[:5]])]
    display = TopicDisplay.from_estimator(fitted.lda(), feature_names=names, n_words=20)
    assert {word for words in display.words for word in words} == set(names)
    assert len([text for text in _texts(display.figure_) if "b$c" in text]) >= 3
    found = class_words(np.arange(60) % 2, fitted.counts(), names)
    _texts(TopicDisplay.from_class_words(found).figure_)
    labels = np.array(list(NAMES)[:4], object)[np.arange(120) % 4]
    display = CoClusteringDisplay.from_estimator(fitted.dirichlet_process(), fitted.table(), labels=labels)
    assert set(list(NAMES)[:4]) <= set(_texts(display.figure_))


def test_tables_have_the_names_unchanged():
    names = [*(name for name in NAMES if name != "\ud800"), "1", "a, b", "=1+1", '"', "'", "\ta"]  # pandas has UTF-8
    lda = fitted.lda()
    words = [name for topic in lda.topic_words(20, names) for name, _ in topic]
    assert sorted(words) == sorted(names * 3)
    frame = lda.topics_as_frame(n_words=20, feature_names=names)
    found = [", ".join(name for name, _ in topic) for topic in lda.topic_words(20, names)]
    assert frame["words"].tolist() == [found[topic] for topic in frame["topic"]]
    of_classes = class_words(np.arange(60) % 2, fitted.counts(), names, n_words=20)
    assert {word for words in of_classes.words for word in words} <= set(names)
    assert of_classes.to_frame()["word"].tolist() == [word for words in of_classes.words for word in words]
    table = fitted.dirichlet_process().cluster_summary(names[:8])
    assert set(table.columns.index) == set(table.clusters.columns[-8:]) == set(names[:8])
    of_names = StochasticLDA(2, max_iter=3, random_state=0).fit(pd.DataFrame(fitted.counts().toarray(), columns=names))
    assert of_names.feature_names_in_.tolist() == names
    assert "<b>&amp;" not in of_names._repr_html_()
