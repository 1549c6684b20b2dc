"""Draw the picture of README and the start page from draws and fits of the library: `python doc/draw_hero.py`."""

import os
from pathlib import Path

os.environ["MPLBACKEND"] = "Agg"

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgb

from skmanifold import SubspaceMixture, sample
from skmanifold.manifolds import Sphere
from skmanifold.models import Density, dirichlet
from skmanifold.samplers import GMC, SCIR

PICTURES = Path(__file__).parent / "_static" / "pictures"
plt.style.use("skmanifold.inspection.skmanifold")
BLUE, ORANGE, GREEN = "C0", "C1", "C2"
RULE = "0.6"  # grey lines that can be seen on a light and on a dark page
# Not the style's Blues, of which the lightest cannot be seen on a light page
SHADES = LinearSegmentedColormap.from_list("shades", ["C4", BLUE])


def draw_sphere(ax) -> None:
    """Draws of a density with three modes on a sphere; those on its back are paler."""
    modes = np.array([[0.35, -0.75, 0.55], [0.75, 0.25, 0.6], [-0.15, -0.35, -0.9]])
    modes *= 9 / np.linalg.norm(modes, axis=1, keepdims=True)

    def weights(x):
        logs = modes @ x
        shares = np.exp(logs - logs.max())
        return shares / shares.sum()

    target = Density(
        Sphere(3),
        grad_log_density=lambda x: weights(x) @ modes,
        log_density=lambda x: np.logaddexp.reduce(modes @ x),
    )
    points = sample(target, GMC(step_size=0.35, n_steps=6), n_draws=1200, n_chains=3, random_state=1).position
    points = points.reshape(-1, 3)
    nearest_mode = np.argmax(points @ modes.T, axis=1)

    turn, tilt = np.radians(-62), np.radians(20)  # the direction of view
    eye = np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
    right = np.array([-np.sin(turn), np.cos(turn), 0.0])
    up = np.cross(eye, right)
    angle = np.linspace(0, 2 * np.pi, 400)
    for latitude in np.radians(np.arange(-60, 61, 30)):
        ring = np.stack(
            [np.cos(latitude) * np.cos(angle), np.cos(latitude) * np.sin(angle), 0 * angle + np.sin(latitude)]
        )
        _draw_line(ax, ring, eye, right, up)
    for longitude in np.radians(np.arange(0, 180, 30)):
        equator = np.array([np.cos(longitude), np.sin(longitude), 0.0])
        _draw_line(ax, np.outer(equator, np.cos(angle)) + np.outer([0, 0, 1], np.sin(angle)), eye, right, up)
    ax.plot(np.cos(angle), np.sin(angle), color=RULE, linewidth=1.2)
    front = points @ eye > 0
    colours = np.array([BLUE, ORANGE, GREEN])[nearest_mode]
    ax.scatter(points[~front] @ right, points[~front] @ up, s=5, color=colours[~front], alpha=0.12, linewidths=0)
    ax.scatter(points[front] @ right, points[front] @ up, s=7, color=colours[front], alpha=0.6, linewidths=0)


def _draw_line(ax, line, eye, right, up) -> None:
    hidden = eye @ line < 0
    for part, style in ((hidden, {"alpha": 0.18}), (~hidden, {"alpha": 0.55})):
        x, y = np.where(part, right @ line, np.nan), np.where(part, up @ line, np.nan)
        ax.plot(x, y, color=RULE, linewidth=0.7, **style)


def draw_simplex(ax) -> None:
    """Draws of a Dirichlet distribution whose density is highest at corners and edges, where gradient steps fail."""
    draws = sample(dirichlet(np.array([0.45, 0.6, 1.1])), SCIR(step_size=1.0), n_draws=1500, n_chains=3, random_state=0)
    shares = draws.position.reshape(-1, 3)
    corners = 1.08 * np.array([[-1, -0.866], [1, -0.866], [0, 0.866]])
    ax.fill(*corners.T, facecolor=(*to_rgb(BLUE), 0.06), edgecolor=RULE, linewidth=1.2)
    for k in range(3):
        a, b = np.delete(corners, k, axis=0)
        for level in (0.25, 0.5, 0.75):
            ends = np.stack([level * corners[k] + (1 - level) * a, level * corners[k] + (1 - level) * b])
            ax.plot(*ends.T, color=RULE, linewidth=0.6, alpha=0.6)
    points = shares @ corners
    ax.scatter(
        *points.T, s=7, c=shares.max(axis=1), cmap=SHADES, vmin=0.33, vmax=1, alpha=0.6, linewidths=0, clip_on=False
    )


def draw_subspaces(ax) -> None:
    """A line through a plane, with the colours of the clusters that a mixture of subspaces finds."""
    rng = np.random.default_rng(4)
    angle, radius = rng.uniform(0, 2 * np.pi, 1500), np.sqrt(rng.random(1500))
    plane = np.stack([radius * np.cos(angle), radius * np.sin(angle), 0 * angle], axis=1)
    line = rng.uniform(-1.05, 1.05, (700, 1)) * np.array([0.35, -0.2, 0.95])
    X = np.concatenate([plane, line]) + rng.normal(0, 0.02, (2200, 3))
    mixture = SubspaceMixture(2, random_state=0).fit(X)
    of_plane = mixture.labels_ == np.argmax(mixture.dimensions_)

    view = np.array([[0.93, 0.0], [0.36, 0.42], [0.0, 1.0]])  # obliquely from above
    rim = np.stack([np.cos(np.linspace(0, 2 * np.pi, 200)), np.sin(np.linspace(0, 2 * np.pi, 200)), np.zeros(200)])
    ax.fill(*(1.04 * rim.T @ view).T, facecolor=BLUE, alpha=0.08)
    ax.plot(*(1.04 * rim.T @ view).T, color=RULE, linewidth=1.2)
    under = X[:, 2] < 0
    for rows, colour in (((~of_plane) & under, ORANGE), (of_plane, BLUE), ((~of_plane) & ~under, ORANGE)):
        ax.scatter(*(X[rows] @ view).T, s=7, color=colour, alpha=0.6, linewidths=0)


if __name__ == "__main__":
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    for ax, draw in zip(axes, (draw_simplex, draw_sphere, draw_subspaces), strict=True):
        draw(ax)
        ax.set_aspect("equal")
        ax.axis("off")
        ax.set(xlim=(-1.12, 1.12), ylim=(-1.12, 1.12))
    figure.savefig(PICTURES / "hero.png", dpi=150, transparent=True)
