"""Functions that all displays share: import of matplotlib, axes, and colours for colour-blind readers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._install import optional_module

if TYPE_CHECKING:  # matplotlib is optional
    from matplotlib.axes import Axes as Axes
else:
    Axes = Any

# Palette of Okabe and Ito without black and yellow: yellow has little contrast on white. The same as in
# skmanifold.mplstyle.
_GROUPS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
MAIN, AGAINST = _GROUPS[0], _GROUPS[5]
QUIET = "0.45"  # colour of annotations
SHADES = "Blues"  # colour map of probabilities from 0 to 1
_NOT_DRAWN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # control characters and surrogates


def pyplot(caller: str) -> Any:
    """Return matplotlib.pyplot; an ImportError names the `caller` that needs it."""
    return optional_module("matplotlib.pyplot", caller, "demo")


def check_estimator(display: type, estimator: Any, classes: tuple[type, ...], what: str) -> None:
    """Raise an error unless matplotlib is installed, and a fitted estimator is of the classes that have `what`."""
    pyplot(f"{display.__name__}.from_estimator")
    if not isinstance(estimator, classes):
        raise ValueError(f"{display.__name__} shows {what}, which {type(estimator).__name__} does not have.")
    check_is_fitted(estimator)


def check_method(display: type, estimator: Any, method: str, example: str) -> None:
    """Raise an error unless matplotlib is installed, and a fitted estimator has this method, as `example` has it."""
    pyplot(f"{display.__name__}.from_estimator")
    if not hasattr(estimator, method):
        raise ValueError(
            f"{display.__name__} needs an estimator with a method {method}, such as {example}; "
            f"{type(estimator).__name__} has none."
        )
    check_is_fitted(estimator)


def group_colors(n: int) -> list[Any]:
    """Colours of n groups: up to six are distinguishable for colour-blind readers, more are from a sequential scale."""
    if n <= len(_GROUPS):
        return list(_GROUPS[:n])
    from matplotlib import colormaps

    return list(colormaps["viridis"](np.linspace(0.0, 0.95, n)))


def number_groups(axes: Any, colors: list[Any], noun: str, shrink: float = 1.0) -> None:
    """Add a colour bar that shows the number of each group, for more groups than a legend can name."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.ticker import MaxNLocator

    n = len(colors)
    scale = ScalarMappable(BoundaryNorm(np.arange(n + 1) - 0.5, n), ListedColormap(colors))
    figure = np.ravel(np.asarray(axes, dtype=object))[0].figure
    bar = figure.colorbar(scale, ax=axes, pad=0.02, shrink=shrink, ticks=MaxNLocator(10, integer=True))
    bar.set_label(noun, parse_math=False)
    bar.ax.tick_params(labelsize=8, which="both", length=0)
    bar.outline.set_visible(False)


def plain(name: Any) -> str:
    """A name as it is drawn: characters that fonts do not have are escaped. Draw it with ``parse_math=False``."""
    return _NOT_DRAWN.sub(lambda found: ascii(found[0])[1:-1], str(name))


def add_legend(ax: Any, named: list[Any], **options: Any) -> None:
    """Add a legend in which the labels of the artists `named` are unchanged, after other artists with labels.

    matplotlib itself reads dollars as mathematics, and leaves out labels that begin with an underscore.
    """
    handles, labels = ax.get_legend_handles_labels()
    others = [(handle, label) for handle, label in zip(handles, labels, strict=True) if handle not in named]
    legend = ax.legend(*zip(*others, *((artist, "-") for artist in named), strict=True), **options)
    for text, artist in zip(legend.get_texts()[len(others) :], named, strict=True):
        text.set(text=artist.get_label(), parse_math=False)


def one_panel(display: Any, ax: Any, figsize: tuple[float, float]) -> tuple[Any, Any]:
    """`ax` itself or the axes of a new figure, for the method `plot` of a display, and their figure."""
    plt = pyplot(f"{type(display).__name__}.plot")
    if ax is None:
        _, ax = plt.subplots(figsize=figsize, layout="constrained")
    return ax, ax.figure


def is_alone(ax: Any) -> bool:
    """Whether `ax` is None or a single axes object for all panels."""
    return np.ndim(ax) == 0


def several_panels(
    display: Any, ax: Any, n: int, shape: tuple[int, int], figsize: tuple[float, float], **layout: Any
) -> tuple[np.ndarray, Any]:
    """Axes, (n,), for n panels: in a new figure, in place of a single axes object, or the given ones; and their figure.

    `shape` are rows and columns of the grid, `figsize` inches, `layout` options of ``subplots``; messages name the
    method `plot` of the display.
    """
    caller = f"{type(display).__name__}.plot"
    plt = pyplot(caller)
    if not is_alone(ax):
        given = np.ravel(np.asarray(ax, dtype=object))
        if len(given) != n:
            raise ValueError(f"{caller} has {n} panels; ax has {len(given)} axes.")
        return given, given[0].figure
    share = layout.pop("sharex", False)
    if ax is None:
        figure = plt.figure(figsize=figsize, layout="constrained")
        grid = figure.add_gridspec(*shape, **layout)
    else:
        figure = ax.figure
        where = ax.get_subplotspec()
        if where is None:
            raise ValueError(f"{caller} has {n} panels: ax must be axes of a grid, as of subplots, or {n} axes.")
        ax.set_axis_off()
        grid = where.subgridspec(*shape, **layout)
    panels: list[Any] = []
    for place in range(n):
        shared = {"sharex": panels[0]} if share and panels else {}
        panels.append(figure.add_subplot(grid[divmod(place, shape[1])], **shared))
    return np.array(panels, dtype=object), figure


def strip(ax: Any, *sides: str) -> None:
    """Hide the given sides of the frame, by default the top and the right one."""
    for side in sides or ("top", "right"):
        ax.spines[side].set_visible(False)


def draw_cells(
    ax: Any, cells: Any, extent: tuple[float, ...], label: str, pad: float, extend: str = "neither", **options: Any
) -> None:
    """A heat map, by default of probabilities, with a colour bar and without a frame."""
    style = {"cmap": SHADES, "vmin": 0.0, "vmax": 1.0, "interpolation": "nearest"}
    image = ax.imshow(cells, extent=extent, **{**style, **options})
    ax.tick_params(length=0)
    bar = ax.figure.colorbar(image, ax=ax, pad=pad, extend=extend)
    bar.set_label(label, parse_math=False)
    bar.outline.set_visible(False)
    strip(ax, "top", "right", "left", "bottom")


def draw_squares(ax: Any, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squares on the diagonal around adjacent cells of one label; returns where they begin and end."""
    n = len(labels)
    ends = np.append(np.flatnonzero(labels[1:] != labels[:-1]) + 1, n)
    begins = np.append(0, ends[:-1])
    for begin, end in zip(begins, ends, strict=True):
        square = [begin, end, end, begin, begin], [begin, begin, end, end, begin]
        ax.plot(*square, color=AGAINST, linewidth=0.9, clip_on=False)
    return begins, ends


def percent(share: float) -> str:
    """A fraction as a percentage, such as 12% or 4.2%."""
    if share < 0.0005:
        return "<0.1%"
    return f"{100 * share:.0f}%" if share >= 0.0995 else f"{100 * share:.1f}%"
