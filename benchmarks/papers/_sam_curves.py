"""Held-out scores of topics of directions by sampler and number of passes, for the two corpora of Liu et al. (2016)."""

from __future__ import annotations

import numpy as np

from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from benchmarks._sam_runs import METHODS, load, some_of
from benchmarks._sam_runs import run as run_method

VARIATIONAL = ("vb", "svb")


def run_to(data, method, seed, marks, n_held_out=None):
    """A row after each number of passes: seconds, score of the average and of the last draw, and temperature."""
    rows, held_out = load(data)
    held_out = some_of(held_out, n_held_out)
    found = []
    for seconds, passes, score, single, temperature in run_method(method, rows, held_out, data, seed, list(marks)):
        found.append(
            {
                "passes": passes,
                "seconds": float(seconds),
                "score": float(score),
                "last_draw": float(single),
                "temperature": float(temperature),
            }
        )
    return found


def of(rows, method, passes, name="score"):
    """The values of all seeds, in their order."""
    chosen = [each for each in rows if (each["method"], each["passes"]) == (method, passes)]
    return [each[name] for each in sorted(chosen, key=lambda each: each["seed"])]


def last_of(rows, method):
    """The largest number of passes of a method."""
    return max(each["passes"] for each in rows if each["method"] == method)


def show(rows):
    """Scores by passes, and comparisons of the last scores of all methods, paired by seed."""
    marks = sorted({each["passes"] for each in rows})
    methods = [method for method in METHODS if of(rows, method, marks[0])]
    title("Held-out log perplexity in nats per document: median (range) over seeds, by passes")
    begin_table(("method", *(f"{mark} passes" for mark in marks), "last draw alone", "temperature", "seconds"))
    for method in methods:
        cells = [spread(of(rows, method, mark), ".0f") if of(rows, method, mark) else "" for mark in marks]
        last = last_of(rows, method)
        single, temperature, seconds = (
            np.median(of(rows, method, last, name)) for name in ("last_draw", "temperature", "seconds")
        )
        shown = "" if np.isnan(temperature) else f"{temperature:.3f}"
        row((method, *cells, f"{single:.0f}", shown, f"{seconds:.0f}"))
    if "vb" not in methods:
        return
    title('Seeds with a lower last score than that of "vb", and the mean difference ± standard error')
    begin_table(("method", "passes", "seeds", "difference"))
    best = np.array(of(rows, "vb", last_of(rows, "vb")))
    for method in methods:
        if method not in VARIATIONAL:
            last = last_of(rows, method)
            scores = np.array(of(rows, method, last))
            difference = scores - best[: len(scores)]
            error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.nan
            shares = f"{(difference < 0).sum()} of {len(difference)}"
            row((method, last, shares, f"{difference.mean():+.1f} ± {error:.1f}"))


def draw(rows):
    """Median score by passes and by seconds, with the range over seeds."""
    import matplotlib.pyplot as plt

    from benchmarks._runs import line_style

    figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained", sharey=True)
    marks = sorted({each["passes"] for each in rows})
    made = {each["method"] for each in rows}
    ends = [score for method in made for score in of(rows, method, last_of(rows, method))]
    for number, method in enumerate(METHODS):
        known = [mark for mark in marks if of(rows, method, mark)]
        if not known:
            continue
        scores, style = [of(rows, method, mark) for mark in known], line_style(number)
        middle, low, high = ([function(each) for each in scores] for function in (np.median, min, max))
        for ax, name in zip(axes, ("passes", "seconds"), strict=True):
            x = [np.median(of(rows, method, mark, name)) for mark in known]
            ax.plot(x, middle, label=method, **style)
            ax.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
            ax.set(xscale="log", xlabel=name)
    axes[0].set_ylabel("held-out log perplexity, nats per document")
    axes[0].set_ylim(min(ends) - 20, min(ends) + 350)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize="small")
    return figure
