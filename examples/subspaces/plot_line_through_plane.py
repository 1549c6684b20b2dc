"""
A line through a plane
======================

Rows of one kind may differ in one thing, those of another in two: they lie near flats of that many dimensions. Where
flats cross, neither centres nor distances tell whose a row is. `SubspaceMixture` finds the flats, and the dimension of
each, with probabilities for both.
"""

# %%
# Two clouds that cross
# ---------------------
# One cloud is stretched along a line, the other along a plane, which the line runs through. Noise is added across them.
# Of six thousand rows the first six hundred are to learn from; the others are held out.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from scipy.special import logsumexp
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline

from skmanifold import SubspaceMixture
from skmanifold.datasets import make_subspaces
from skmanifold.metrics import match_subspaces, principal_angles

truth = make_subspaces(6000, n_features=3, dimensions=(1, 2), noise_precision=25.0, random_state=347)
X, X_test = np.split(truth.data, [600])
y_test = truth.labels[600:]
along, noise = np.concatenate(truth.precisions) ** -0.5, truth.noise_variance**0.5
print(f"Standard deviations: {along[0]:.1f} along the line, {along[1]:.1f} and {along[2]:.1f} along the plane,")
print(f"  {noise:.1f} across.")
print(f"The line rises {np.degrees(principal_angles(*truth.bases)[0]):.0f} degrees above the plane.")

# %%
# Three ways to find them
# -----------------------
# All are told that there are two. k-means cuts space into halves. Clouds of `GaussianMixture` may have any covariances,
# so it finds them, and so does `SubspaceMixture`. On average nobody can do better than one who knows the law of the
# rows. (The halves of k-means are a bad beginning for such clouds, so `GaussianMixture` is told to begin with random
# rows.)


def share_right(labels, true_labels):
    """Share of rows in the right cloud, named in the better of the two ways."""
    share = np.mean(labels == true_labels)
    return max(share, 1 - share)


def ellipsoids(**settings):
    return GaussianMixture(2, n_init=5, init_params="random_from_data", max_iter=500, random_state=0, **settings)


mixture = SubspaceMixture(2, max_iter=400, random_state=0).fit(X)
print("\nHeld-out rows in the right cloud")
guesses = {
    "k-means": KMeans(2, n_init=5, random_state=0).fit(X).predict(X_test),
    "GaussianMixture": ellipsoids().fit(X).predict(X_test),
    "SubspaceMixture": mixture.predict(X_test),
    "the true law": truth.log_densities(X_test).argmax(axis=1),
}
for name, labels in guesses.items():
    print(f"  {name:<16}{share_right(labels, y_test):6.1%}")

# %%
# Which dimensions?
# -----------------
# Any ellipsoid in three dimensions has three axes, and which of them are long enough to count is left to us.
# `SubspaceMixture` has probabilities of the dimensions instead. Components stand in order of weight;
# ``match_subspaces`` tells which of them is the line.

order = match_subspaces(truth.bases, mixture.bases_).other
posterior = mixture.dimension_posterior_[order]
print("\nProbability of dimension   0     1     2")
for name, row in zip(("line", "plane"), posterior, strict=True):
    print(f"  of the {name:<14}" + "".join(f"{probability:6.2f}" for probability in row))
print("Found, and off the true one by")
for name, k, basis in zip(("line", "plane"), order, truth.bases, strict=True):
    print(f"  the {name:<6}{np.degrees(principal_angles(basis, mixture.bases_[k])[-1]):4.1f} degrees")

# %%
# Near the crossing
# -----------------
# Where the line runs through the plane, a row may belong to either. Distances do not help: ``transform`` gives those to
# both flats, and here both are small. ``predict_proba`` weighs how dense the clouds are. A line has all its rows in
# little room; near it, it wins. Few rows are left in doubt, and most errors are among them.

chance = mixture.predict_proba(X_test)[:, order]
wrong, expected = chance.argmax(axis=1) != y_test, 1 - chance.max(axis=1)
doubtful = expected > 0.1
print(f"\nIn doubt (no cloud has a probability of 0.9): {doubtful.sum()} of {len(X_test)} rows held out")
for name, among in (("them", doubtful), ("the others", ~doubtful)):
    print(f"  wrong among {name}: {wrong[among].sum()}; by their probabilities {expected[among].sum():.1f}")

# %%
# Coordinates
# -----------
# ``project`` says where within its own flat a row is: one number on the line, two on the plane. From these
# ``inverse_transform`` makes a point of the flat, which is the row without the noise across it. The data are made up,
# so that we know the rows before noise was added.

coordinates, labels = mixture.project(X_test)
cleaned = mixture.inverse_transform(coordinates, labels)
exact = np.empty_like(X_test)
for k, (basis, centre) in enumerate(zip(truth.bases, truth.centres, strict=True)):
    exact[y_test == k] = centre + (X_test[y_test == k] - centre) @ basis.T @ basis
print("\nDistance to where a row was before the noise (root mean square)")
for k, name in enumerate(("line", "plane")):
    rows = (y_test == k) & ~wrong
    before, after = (np.sqrt(np.mean(np.sum((Z - exact)[rows] ** 2, axis=1))) for Z in (X_test, cleaned))
    print(f"  {name:<6} as measured {before:.3f}, projected {after:.3f}")

# %%
# More noise
# ----------
# The clouds stay wider than the noise, and come to lie on each other. Fewer rows can be told apart then, by anybody.
# Nearly all that can be known is found, and so are the dimensions. In three columns ellipsoids are as good as flats.

noises = np.array([0.1, 0.2, 0.4, 0.7, 1.0, 1.5])
methods = ["GaussianMixture", "SubspaceMixture", "the true law"]
by_noise = {name: [] for name in methods}
print("\nNoise" + "".join(f"{name:>17}" for name in methods) + "   Probability of a line and a plane")
for noise in noises:
    made = make_subspaces(6000, 3, (1, 2), noise_precision=noise**-2, random_state=347)
    train, test = np.split(made.data, [600])
    fitted = SubspaceMixture(2, max_iter=100, random_state=0).fit(train)
    guesses_here = [
        ellipsoids().fit(train).predict(test),
        fitted.predict(test),
        made.log_densities(test).argmax(axis=1),
    ]
    for name, labels_here in zip(methods, guesses_here, strict=True):
        by_noise[name].append(share_right(labels_here, made.labels[600:]))
    both = np.mean([sorted(draw) == [1, 2] for draw in fitted.posterior_["dimensions"][0]])
    print(f"{noise:5.1f}" + "".join(f"{by_noise[name][-1]:17.1%}" for name in methods) + f"{both:10.2f}")

# %%
# More columns
# ------------
# The same line and plane, seen by more and more instruments: each has a mix of the three coordinates, and noise. From
# 300 rows a covariance in 48 columns cannot be learned: it has 1176 numbers. A plane and its noise have fewer than 150.
# So here dimension pays, in labels and in the density of rows held out.
#
# `GaussianMixture` can be helped: by a ``reg_covar`` as large as the noise, or by three principal components. That is
# to tell it how large the noise is, or how few dimensions there are, which `SubspaceMixture` finds out.

widths = np.array([3, 6, 12, 24, 48])
methods = ["GaussianMixture", "told the noise", "PCA(3) first", "SubspaceMixture"]
by_width = {name: [] for name in methods}
short = {name: [] for name in methods if name != "PCA(3) first"}
print("\nColumns" + "".join(f"{name:>17}" for name in methods) + "   Nats short of the true law")
for width in widths:
    rng = np.random.default_rng(0)
    mix = np.linalg.qr(rng.normal(size=(width, 3)))[0].T
    across = rng.normal(0, truth.noise_variance**0.5, (len(truth.data), width))
    across -= across @ mix.T @ mix
    train, test = np.split(truth.data @ mix + across, [600])
    best = np.mean(
        logsumexp(truth.log_densities(X_test), axis=1) - np.sum(across[600:] ** 2, axis=1) / truth.noise_variance / 2
    )
    best -= (width - 3) / 2 * np.log(2 * np.pi * truth.noise_variance)
    models = [
        ellipsoids(),
        ellipsoids(reg_covar=truth.noise_variance),
        make_pipeline(PCA(3), ellipsoids()),
        SubspaceMixture(2, n_init=3, max_iter=60, random_state=0),
    ]
    for name, model in zip(methods, models, strict=True):
        by_width[name].append(share_right(model.fit(train[:300]).predict(test), y_test))
        if name in short:
            short[name].append(best - model.score(test))
    print(f"{width:7}" + "".join(f"{by_width[name][-1]:17.1%}" for name in methods), end="   ")
    print(", ".join(f"{short[name][-1]:.2f}" for name in short))

# %%
# The pictures
# ------------
# All are turned so that the true plane lies flat and the line runs through it at the origin, leaning to the right.
# First rows held out, in the colours of the clouds that they are taken for, and the flats that were found.

orange, blue, pale, grey = "#e08214", "#1b6ca8", "#c9d6e2", "0.55"
(direction,), surface = truth.bases
lean = direction @ surface.T @ surface
upward = direction - lean
lean, upward = lean / np.linalg.norm(lean), upward / np.linalg.norm(upward)
axes = np.stack([lean, np.cross(upward, lean), upward])
crossing = truth.centres[0] + (truth.centres[1] - truth.centres[0]) @ upward / (direction @ upward) * direction


def turn(points):
    return (points - crossing) @ axes.T


def on_flat(points, component):
    """The nearest points of a flat that was found, turned."""
    return turn(mixture.inverse_transform(*mixture.project(points, np.full(len(points), component))))


corners = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]) * [5, 5, 0] @ axes + crossing
ends = crossing + np.array([[-5], [5]]) * direction
rows = turn(X_test[:1500])
figure = plt.figure(figsize=(12, 4.2), layout="constrained")
for place, name in enumerate(("k-means", "GaussianMixture", "SubspaceMixture")):
    ax = figure.add_subplot(1, 3, place + 1, projection="3d", computed_zorder=False)
    flipped = np.mean(guesses[name] == y_test) < 0.5
    taken_for_line = (guesses[name][:1500] == 0) ^ flipped
    for half in (rows[:, 2] < 0, rows[:, 2] >= 0):
        for chosen, colour in ((half & ~taken_for_line, blue), (half & taken_for_line, orange)):
            ax.scatter(*rows[chosen].T, s=8, color=colour, alpha=0.6, linewidth=0, depthshade=False)
    if name == "SubspaceMixture":
        ax.add_collection3d(Poly3DCollection([on_flat(corners, order[1])], facecolor=blue, alpha=0.12, edgecolor=blue))
        ax.plot(*on_flat(ends, order[0]).T, color="black", linewidth=1.5)
    ax.set_title(f"{name}: {share_right(guesses[name], y_test):.1%} right", loc="left", y=0.95)
    ax.set(xlim=(-5, 5), ylim=(-5, 5), zlim=(-4, 4))
    ax.set_box_aspect((10, 10, 8), zoom=1.2)
    ax.set_axis_off()
    ax.view_init(elev=24, azim=-62)

# %%
# On the left the posterior of the dimensions. In the middle a slice, one unit thick, seen along the plane: rows have
# the colour of their probability, and the lines are those of 0.1, 1/2 and 0.9. On the right the rows that are truly the
# plane's, in its own two coordinates. Those at the crossing (+) are taken for the line's; anybody would.

figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(12, 3.5), layout="constrained", width_ratios=[0.75, 1.2, 1.05]
)
for k, (name, colour) in enumerate((("line", orange), ("plane", blue))):
    bars = left.bar(np.arange(3) + 0.4 * k - 0.2, posterior[k], 0.4, color=colour, label=f"the {name}")
    left.bar_label(bars, [f"{probability:.2f}" if probability > 0.005 else "" for probability in posterior[k]])
left.set(xticks=range(3), xlabel="dimension", ylabel="probability", title="posterior of the dimensions", ylim=(0, 1.25))
left.legend(frameon=False, loc="upper left", ncols=2, columnspacing=1)
left.spines[["top", "right"]].set_visible(False)

scale = LinearSegmentedColormap.from_list("plane to line", [blue, "0.85", orange])
rows = turn(X_test)
thin = np.abs(rows[:, 1]) < 0.5
drawn = middle.scatter(*rows[thin][:, [0, 2]].T, s=7, c=chance[thin, 0], cmap=scale, vmin=0, vmax=1, linewidth=0)
sides = np.linspace(-3, 3, 121), np.linspace(-2, 2, 81)
grid = np.stack([side.ravel() for side in np.meshgrid(sides[0], [0.0], sides[1], indexing="ij")], axis=1)
of_line = mixture.predict_proba(grid @ axes + crossing)[:, order[0]].reshape(121, 81)
middle.contour(*sides, of_line.T, levels=[0.1, 0.5, 0.9], colors="black", linewidths=[0.6, 1.4, 0.6])
middle.set(xlim=(-3, 3), ylim=(-2, 2), aspect="equal", xlabel="along the plane", ylabel="above the plane")
middle.set_title("a slice at the crossing")
figure.colorbar(drawn, ax=middle, label="probability of the line", ticks=[0, 0.5, 1], shrink=0.8)

flat = mixture.project(X_test, np.full(len(X_test), order[1])).coordinates
pierced = mixture.project(crossing[np.newaxis], [order[1]]).coordinates[0]
for taken, colour in ((order[1], blue), (order[0], orange)):
    right.scatter(*flat[(y_test == 1) & (labels == taken)].T, s=12, color=colour, alpha=0.8, linewidth=0)
right.plot(*pierced, "+", color="black", markersize=12, markeredgewidth=2)
right.set(xlim=pierced[0] + np.array([-2.4, 2.4]), ylim=pierced[1] + np.array([-1.6, 1.6]), aspect="equal")
right.set(title="the plane's rows, in its coordinates", xlabel="first coordinate", ylabel="second")

# %%
# Last the tables above as curves.

figure, panels = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
styles = {
    "SubspaceMixture": {"color": "#cb4b3f", "marker": "o", "linewidth": 5, "alpha": 0.6},
    "GaussianMixture": {"color": "#08519c", "marker": "o"},
    "told the noise": {"color": "#9ecae1", "marker": "o", "label": "GaussianMixture, told the noise"},
    "PCA(3) first": {"color": grey, "marker": "o", "linestyle": "--", "label": "GaussianMixture, PCA(3) first"},
    "the true law": {"color": "black", "linestyle": ":"},
}
for ax, values, at in zip(panels, (by_noise, by_width, short), (noises, widths, widths), strict=True):
    for name, style in styles.items():
        if name in values:
            ax.plot(at, values[name], **{"label": name, "markersize": 4, **style})
    ax.spines[["top", "right"]].set_visible(False)
panels[0].set(xlabel="standard deviation of the noise", ylabel="share of rows right", title="three columns, more noise")
panels[1].set(xlabel="columns", ylabel="share of rows right", title="more columns, 300 rows")
panels[2].set(xlabel="columns", ylabel="nats a row", title="short of the true law's log density")
for ax in panels[1:]:
    ax.set_xscale("log")
    ax.set_xticks(widths, widths)
    ax.minorticks_off()
for ax in panels[:2]:
    ax.set_ylim(0.48, 1.02)
    ax.legend(frameon=False, fontsize=9, loc="lower left")

plt.show()
