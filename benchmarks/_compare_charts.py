"""Charts of comparisons: horizontal bars of medians with ranges, a panel for each measure."""

from __future__ import annotations

import re
import textwrap

import numpy as np

from benchmarks._compare_turns import OURS

STYLE = "skmanifold.inspection.skmanifold"
WIDEST_LINEAR = 20.0  # beyond this ratio of the largest to the least median, the axis is logarithmic


def chart_name(found):
    """The name of the file."""
    return "compare_" + re.sub(r"\W+", "_", found["title"].lower()).strip("_") + ".svg"


def has_chart(found):
    """Whether there is something to compare: other libraries took part."""
    return any(row["values"] and row["package"] != OURS for row in found["rows"])


def alt_text(found):
    """What a reader who cannot see the chart needs to know."""
    names = ", ".join(row["method"] for row in found["rows"] if row["values"])
    measures = " and ".join(measure["name"] for measure in found["measures"] if measure["better"])
    return f"Bar chart: {measures} of {names}. The table below has the numbers."


def draw(found, path):
    """Write the chart of a comparison as an SVG file."""
    import matplotlib.pyplot as plt

    rows = [row for row in found["rows"] if row["values"]]
    panels = [(j, measure) for j, measure in enumerate(found["measures"]) if measure["better"]]
    labels = [textwrap.fill(row["method"], 34) for row in rows]
    n_lines = sum(1 + label.count("\n") for label in labels)
    with plt.style.context(STYLE), plt.rc_context({"svg.hashsalt": "skmanifold", "svg.fonttype": "none"}):
        figure, axes = plt.subplots(
            1, len(panels), figsize=(8.0, 1.2 + 0.28 * max(n_lines, len(rows) + 1)), sharey=True, squeeze=False
        )
        for axis, (j, measure) in zip(axes[0], panels, strict=True):
            _draw_panel(axis, rows, j, measure)
        axes[0, 0].set_yticks(range(len(rows)), labels)
        axes[0, 0].invert_yaxis()
        handles = {handle.get_label(): handle for handle in axes[0, 0].containers if handle.get_label()[0] != "_"}
        figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=2)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        plt.close(figure)


def _draw_panel(axis, rows, j, measure):
    values = np.array([row["values"][j] for row in rows])
    middle, low, high = values.T
    ranges = np.array([middle - low, high - middle])
    is_log = low.min() > 0 and middle.max() > WIDEST_LINEAR * middle.min()
    if is_log:
        axis.set_xscale("log")
    of_ours = np.array([row["package"] == OURS for row in rows])
    for side, name, colour, hatch, marker in (
        (of_ours, "skmanifold", "C0", "", "o"),
        (~of_ours, "other libraries", "C1", "//", "s"),
    ):
        places = np.flatnonzero(side)
        errors = {"ecolor": "0.2", "capsize": 3, "elinewidth": 1.2}
        if measure["by"] == "ratio":
            bars = {"height": 0.65, "color": colour, "hatch": hatch, "edgecolor": "white", "label": name}
            axis.barh(places, middle[side], xerr=ranges[:, side], error_kw=errors, **bars)
        else:  # a difference matters, zero does not: points instead of bars
            axis.errorbar(middle[side], places, xerr=ranges[:, side], fmt=marker, color=colour, label=name, **errors)
    if is_log:
        axis.set_xlim(10 ** np.floor(np.log10(low.min()) - 0.2))
    axis.set_xlabel(f"{textwrap.fill(measure['name'], 44)}\n({measure['better']} is better)")
    axis.tick_params(axis="y", length=0)
