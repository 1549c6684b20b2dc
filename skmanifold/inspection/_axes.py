"""What all displays share: matplotlib asked for, axes found or made, colours that everybody can tell apart."""

from __future__ import annotations

from typing import Any

import numpy as np

# Of Okabe and Ito, without its black and its yellow, which is lost on white.
_GROUPS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
MAIN, AGAINST = _GROUPS[0], _GROUPS[5]
QUIET = "0.45"  # of what is said beside the data
SHADES = "Blues"  # of probabilities from 0 to 1


def pyplot(caller: str) -> Any:
    """Return matplotlib.pyplot, or say in one sentence that `caller` needs it."""
    try:
        import matplotlib.pyplot
    except ImportError as error:
        raise ImportError(f'{caller} needs matplotlib: pip install "skmanifold[demo]".') from error
    return matplotlib.pyplot


def group_colors(n: int) -> list[Any]:
    """A colour for each of n groups: six that the colour-blind tell apart, for more a scale from dark to light."""
    if n <= len(_GROUPS):
        return list(_GROUPS[:n])
    from matplotlib import colormaps

    return list(colormaps["viridis"](np.linspace(0.0, 0.95, n)))


def one_panel(caller: str, ax: Any, figsize: tuple[float, float]) -> Any:
    """`ax` itself, or the axes of a new figure."""
    plt = pyplot(caller)
    if ax is not None:
        return ax
    _, ax = plt.subplots(figsize=figsize, layout="constrained")
    return ax


def is_alone(ax: Any) -> bool:
    """Whether it is one place for all panels, or none that was given, and not axes for each."""
    return np.ndim(ax) == 0


def several_panels(
    caller: str, ax: Any, n: int, shape: tuple[int, int], figsize: tuple[float, float], **layout: Any
) -> np.ndarray:
    """Axes for n panels: of a new figure, in the place of the one that is given, or those that are given.

    Parameters
    ----------
    caller : str
        Whose plot it is.
    ax : matplotlib axes, array-like of n of them, or None
        Where to draw.
    n : int
        Number of panels.
    shape : (int, int)
        Rows and columns of a grid that has room for them.
    figsize : (float, float)
        Of a new figure, in inches.
    **layout
        Of matplotlib's ``subplots`` and grid: ``height_ratios``, ``sharex``.
    """
    plt = pyplot(caller)
    if not is_alone(ax):
        given = np.ravel(np.asarray(ax, dtype=object))
        if len(given) != n:
            raise ValueError(f"{caller} has {n} panels; ax has {len(given)} axes.")
        return given
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
    return np.array(panels, dtype=object)


def strip(ax: Any, *sides: str) -> None:
    """Take away the frame but for what carries the axes."""
    for side in sides or ("top", "right"):
        ax.spines[side].set_visible(False)


def percent(share: float) -> str:
    """A share to read beside others, such as 12% or 4.2%."""
    if share < 0.0005:
        return "<0.1%"
    return f"{100 * share:.0f}%" if share >= 0.0995 else f"{100 * share:.1f}%"
