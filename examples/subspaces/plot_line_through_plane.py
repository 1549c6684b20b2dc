"""
Clustering a line and a plane that cross
========================================

Some clusters are not compact: their points lie near a line or a plane. Where such subspaces cross,
neither the distance to a centre nor the distance to a subspace identifies the cluster. How well
does `SubspaceMixture` separate them, and does it find their dimensions? This example fits a line
and a plane that cross in three dimensions, compares the result with k-means and `GaussianMixture`,
and shows how the results change with more noise and with more columns.
"""

# %%
# Data
# ----
# One cluster is spread along a line, the other along a plane, and the line runs through the plane.
# Noise is added in all directions perpendicular to each subspace. We use 600 rows for training and
# 3,000 for testing.

import matplotlib.pyplot as plt
import numpy as np
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from scipy.special import logsumexp
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline

from skmanifold import SubspaceMixture
from skmanifold.datasets import make_subspaces
from skmanifold.inspection import DimensionPosteriorDisplay
from skmanifold.metrics import match_subspaces, principal_angles

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

truth = make_subspaces(3600, 3, (1, 2), noise_precision=25.0, random_state=347)
X, X_test = np.split(truth.data, [600])
y_test = truth.labels[600:]
line_scale, *plane_scales = np.concatenate(truth.precisions) ** -0.5
noise = truth.noise_variance**0.5
print("Standard deviations")
print(f"  along the line   {line_scale:.1f}")
print(f"  in the plane     {plane_scales[0]:.1f} and {plane_scales[1]:.1f}")
print(f"  noise            {noise:.1f}")
angle = np.degrees(principal_angles(*truth.bases)[0])
print(f"Angle between the line and the plane: {angle:.0f} degrees")

# %%
# Three clustering methods
# ------------------------
# All methods use two clusters. We compare them with the best possible rule, which uses the true
# densities. `GaussianMixture` is initialised with random rows, because the clusters of k-means are
# a bad initialisation for these data.


def accuracy(labels, true_labels):
    """Share of rows in the right cluster; the two labels may be exchanged."""
    share = np.mean(labels == true_labels)
    return max(share, 1 - share)


def gaussians(n_init=5, **settings):
    options = {"init_params": "random_from_data", "max_iter": 500, "random_state": 0}
    return GaussianMixture(2, n_init=n_init, **options, **settings)


mixture = SubspaceMixture(2, max_iter=300, random_state=0).fit(X)
predictions = {
    "k-means": KMeans(2, n_init=5, random_state=0).fit(X).predict(X_test),
    "GaussianMixture": gaussians().fit(X).predict(X_test),
    "SubspaceMixture": mixture.predict(X_test),
    "true densities": truth.log_densities(X_test).argmax(axis=1),
}
print("Test rows in the right cluster")
for name, labels in predictions.items():
    print(f"  {name:<18}{accuracy(labels, y_test):6.1%}")

# %%
# k-means divides the space into two halves and fails. `GaussianMixture` and `SubspaceMixture` are
# as good as the best possible rule.
#
# The figure shows the test rows with the clusters and the subspaces that `SubspaceMixture` found.
# ``match_subspaces`` determines which component is the line.

line, plane = match_subspaces(truth.bases, mixture.bases_).other
(direction,), true_plane = truth.bases
lean = direction @ true_plane.T @ true_plane
upward = direction - lean
lean, upward = lean / np.linalg.norm(lean), upward / np.linalg.norm(upward)
rotation = np.stack([lean, np.cross(upward, lean), upward])  # the true plane becomes horizontal
offset = (truth.centres[1] - truth.centres[0]) @ upward / (direction @ upward)
crossing = truth.centres[0] + offset * direction


def rotate(points):
    return (points - crossing) @ rotation.T


def on_subspace(points, component):
    """Nearest points of a fitted subspace, rotated."""
    labels = np.full(len(points), component)
    return rotate(mixture.inverse_transform(*mixture.project(points, labels)))


corners = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]) * 5 @ rotation + crossing
ends = crossing + np.array([[-5], [5]]) * direction
rows, labels = rotate(X_test[:1500]), predictions["SubspaceMixture"][:1500]

fig = plt.figure(figsize=(7.2, 5))
ax = fig.add_subplot(projection="3d")
for component, style, name in ((plane, "C0o", "plane"), (line, "C1^", "line")):
    chosen = labels == component
    scatter = {"s": 9, "color": style[:2], "marker": style[2], "alpha": 0.7, "linewidth": 0}
    ax.scatter(*rows[chosen].T, label=f"cluster of the {name}", **scatter)
style = {"facecolor": "C0", "edgecolor": "C0", "alpha": 0.12}
ax.add_collection3d(Poly3DCollection([on_subspace(corners, plane)], **style))
ax.plot(*on_subspace(ends, line).T, color="black", linewidth=1.5)
ax.set(xlim=(-5, 5), ylim=(-5, 5), zlim=(-4, 4))
ax.set(xlabel="in the plane, 1", ylabel="in the plane, 2", zlabel="above the plane")
ax.set_box_aspect((10, 10, 8), zoom=0.9)
ax.view_init(elev=20, azim=-62)
ax.set_title("Clusters and subspaces of SubspaceMixture")
ax.legend(loc="upper left", markerscale=2)

# %%
# Dimensions
# ----------
# `SubspaceMixture` also infers the dimension of each cluster. ``dimension_posterior_`` contains the
# posterior probabilities.

names = ["line", "plane"]
DimensionPosteriorDisplay(
    probabilities=mixture.dimension_posterior_[[line, plane]],
    names=names,
).plot()
print("Angle between the fitted and the true subspace")
for name, component, basis in zip(names, (line, plane), truth.bases, strict=True):
    error = np.degrees(principal_angles(basis, mixture.bases_[component])[-1])
    print(f"  {name:<7}{error:4.1f} degrees")

# %%
# The posterior is concentrated on the true dimensions, one and two. A `GaussianMixture` has three
# axes for each cluster; the user must decide which of them are long enough to count.
#
# Uncertain rows
# --------------
# Near the crossing a row is close to both subspaces. ``predict_proba`` takes the density of the
# clusters into account. We check its probabilities: the expected number of errors is the sum of the
# probabilities of the other cluster.

probabilities = mixture.predict_proba(X_test)[:, [line, plane]]
wrong = probabilities.argmax(axis=1) != y_test
expected = 1 - probabilities.max(axis=1)
print("Probability of the cluster    rows   errors   expected errors")
for name, chosen in (("below 0.9", expected > 0.1), ("0.9 or more", expected <= 0.1)):
    print(f"  {name:<24}{chosen.sum():8}{wrong[chosen].sum():9}{expected[chosen].sum():18.1f}")

grid_x, grid_z = np.linspace(-3, 3, 121), np.linspace(-2, 2, 81)
x, z = np.meshgrid(grid_x, grid_z)
points = np.stack([x, np.zeros_like(x), z], axis=-1).reshape(-1, 3) @ rotation + crossing
probability_line = mixture.predict_proba(points)[:, line].reshape(x.shape)
slice_rows = np.abs(rotate(X_test)[:, 1]) < 0.5
rows, true_labels = rotate(X_test)[slice_rows], y_test[slice_rows]

fig, ax = plt.subplots()
image = ax.pcolormesh(grid_x, grid_z, probability_line, vmin=0, vmax=1, alpha=0.6)
ax.contour(grid_x, grid_z, probability_line, [0.5], colors="black", linewidths=1.2)
for k, name, marker, color in ((1, "plane", "o", "0.35"), (0, "line", "^", "C1")):
    shown = rows[true_labels == k][:, [0, 2]]
    ax.plot(*shown.T, marker, color=color, markersize=3.5, label=f"rows of the {name}")
ax.set(xlim=(-3, 3), ylim=(-2, 2), aspect="equal")
ax.set(xlabel="in the plane, 1", ylabel="above the plane", title="Slice through the crossing")
fig.colorbar(image, label="probability of the line", shrink=0.8)
ax.legend(loc="lower right", frameon=True)

# %%
# The numbers of errors are close to the expected ones, and most errors are among the few rows with
# an uncertain cluster. The figure shows a slice of the space with a thickness of one unit; the
# black curve is the probability 0.5. Close to the line its density is higher than that of the
# plane, so rows of the plane at the crossing are assigned to the line.
#
# Removing noise
# --------------
# ``project`` returns the coordinates of a row within its subspace: one for the line, two for the
# plane. ``inverse_transform`` converts them back to points of the subspace. This removes the noise
# that is perpendicular to the subspace. We compare the points with the rows before noise was added.

coordinates, labels = mixture.project(X_test)
cleaned = mixture.inverse_transform(coordinates, labels)
exact = np.empty_like(X_test)
for k, (basis, centre) in enumerate(zip(truth.bases, truth.centres, strict=True)):
    exact[y_test == k] = centre + (X_test[y_test == k] - centre) @ basis.T @ basis
print("Distance to the row without noise (root mean square, correctly assigned rows)")
for k, name in enumerate(names):
    rows = (y_test == k) & ~wrong
    distances = [np.linalg.norm((Z - exact)[rows], axis=1) for Z in (X_test, cleaned)]
    before, after = (np.sqrt(np.mean(d**2)) for d in distances)
    print(f"  {name:<6} before {before:.3f}   after {after:.3f}")

# %%
# The projection removes most of the noise.
#
# More noise
# ----------
# Next we increase the standard deviation of the noise.

print("Test rows in the right cluster")
print("Noise   GaussianMixture   SubspaceMixture   true densities   P(dimensions 1 and 2)")
for sd in (0.2, 0.5, 1.0, 1.5):
    data = make_subspaces(3600, 3, (1, 2), noise_precision=sd**-2, random_state=347)
    train, test = np.split(data.data, [600])
    fitted = SubspaceMixture(2, max_iter=400, random_state=0).fit(train)
    labels = (
        gaussians().fit(train).predict(test),
        fitted.predict(test),
        data.log_densities(test).argmax(axis=1),
    )
    shares = [accuracy(each, data.labels[600:]) for each in labels]
    both = np.mean([sorted(draw) == [1, 2] for draw in fitted.posterior_["dimensions"][0]])
    print(f"{sd:5.1f}{shares[0]:18.1%}{shares[1]:18.1%}{shares[2]:17.1%}{both:17.2f}")

# %%
# With more noise the fit needs more passes, so ``max_iter`` is larger here. The clusters overlap,
# and fewer rows can be assigned correctly by any method. Both mixtures remain close to the best
# possible rule, and `SubspaceMixture` still finds the dimensions. In three columns the models are
# equally good.
#
# More columns
# ------------
# Now the same line and plane are observed in more columns: each column is a linear combination of
# the three coordinates plus noise. We train on 300 rows. A covariance matrix of 48 columns has
# 1,176 parameters, which cannot be estimated from so few rows. A plane and its noise have fewer
# than 150 parameters.
#
# We also compare two variants of `GaussianMixture` that use additional knowledge: a ``reg_covar``
# equal to the variance of the noise, and a reduction to three principal components.

widths = np.array([3, 12, 24, 48])
models = {
    "GaussianMixture": gaussians(n_init=2),
    "GaussianMixture, known noise": gaussians(n_init=2, reg_covar=truth.noise_variance),
    "PCA(3), GaussianMixture": make_pipeline(PCA(3), gaussians(n_init=2)),
    "SubspaceMixture": SubspaceMixture(2, n_init=2, max_iter=40, random_state=0),
}
share = {name: [] for name in models}
gap = {name: [] for name in models if "PCA" not in name}
for width in widths:
    rng = np.random.default_rng(0)
    mix = np.linalg.qr(rng.normal(size=(width, 3)))[0].T
    across = rng.normal(0, noise, (len(truth.data), width))
    across -= across @ mix.T @ mix
    train, test = np.split(truth.data @ mix + across, [600])
    log_density = logsumexp(truth.log_densities(X_test), axis=1)
    log_density -= np.sum(across[600:] ** 2, axis=1) / truth.noise_variance / 2
    log_density -= (width - 3) / 2 * np.log(2 * np.pi * truth.noise_variance)
    for name, model in models.items():
        share[name].append(accuracy(model.fit(train[:300]).predict(test), y_test))
        if name in gap:
            gap[name].append(log_density.mean() - model.score(test))

print("Test rows in the right cluster, for each number of columns")
print(" " * 30 + "".join(f"{width:8}" for width in widths))
for name, values in share.items():
    print(f"{name:<30}" + "".join(f"{value:8.1%}" for value in values))

styles = dict(zip(models, ("C1s--", "C2v-.", "C3x:", "C0o-"), strict=True))
fig, axes = plt.subplots(1, 2, figsize=(9.5, 4))
for ax, values in zip(axes, (share, gap), strict=True):
    for name, curve in values.items():
        ax.plot(widths, curve, styles[name], label=name)
    ax.set(xscale="log", xlabel="columns")
    ax.set_xticks(widths, widths)
    ax.minorticks_off()
axes[0].set(ylabel="share of test rows", ylim=(0.48, 1.02), title="Rows in the right cluster")
axes[1].set(ylabel="nats per row", title="True minus fitted log density")
axes[0].legend(loc="lower left")

plt.show()

# %%
# With many columns `GaussianMixture` fails unless it uses additional knowledge. `SubspaceMixture`
# needs neither the variance of the noise nor the number of dimensions, and its log density is the
# closest to the true one for all larger numbers of columns.
