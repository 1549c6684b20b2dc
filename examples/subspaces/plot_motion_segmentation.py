"""
Motion segmentation of point tracks
===================================

A camera follows points on several moving objects and on the background. Which points belong to the
same object? If the camera is far away, the tracks of all points of a rigid body lie in an affine
subspace of at most three dimensions (Tomasi and Kanade, 1992). Motion segmentation is therefore
subspace clustering. This example simulates point tracks, segments them with `SubspaceMixture`,
compares the result with k-means and `GaussianMixture`, and examines the inferred dimensions and the
probabilities of the labels.
"""

# %%
# Data
# ----
# Each row is the track of one point: its two coordinates in each of 25 frames. A simulated sequence
# has two or three bodies, the largest of which is the background. Each body rotates and moves from
# frame to frame, the camera projects it without perspective, and noise with a standard deviation of
# half a pixel is added.
#
# Real sequences of this form are those of the Hopkins 155 data set (Tron and Vidal, 2007).

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.transform import Rotation
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import confusion_matrix
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline

from skmanifold import SubspaceMixture

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")


def simulate_sequence(seed, n_frames=25):
    """Return the tracks of all points in pixels, and their bodies."""
    rng = np.random.default_rng(seed)
    tracks, bodies = [], []
    moment = np.linspace(0, 1, n_frames)[:, np.newaxis]
    for body in range(rng.integers(2, 4)):
        n_points = rng.integers(30, 150)
        size = np.array([320, 240, 150]) if body == 0 else rng.uniform(30, 70, 3)
        points = rng.uniform(-1, 1, (n_points, 3)) * size
        rotation = Rotation.from_rotvec(moment * rng.normal(0, 0.15, 3)).as_matrix()[:, :2]
        start = rng.uniform(-150, 150, 2) if body else np.zeros(2)
        shift = [320, 240] + start + moment * rng.normal(0, 60, 2)
        seen = np.einsum("fij,nj->nfi", rotation, points) + shift
        tracks.append((seen + rng.normal(0, 0.5, seen.shape)).reshape(n_points, -1))
        bodies.append(np.full(n_points, body))
    return np.concatenate(tracks), np.concatenate(bodies)


sequences = [simulate_sequence(seed) for seed in range(8)]
n_bodies = [1 + bodies.max() for _, bodies in sequences]
print(f"{len(sequences)} sequences, {sum(len(tracks) for tracks, _ in sequences)} tracks")
print(f"{n_bodies.count(2)} sequences with two bodies, {n_bodies.count(3)} with three")

# %%
# Segmentation
# ------------
# Ten principal components contain the signal of up to three subspaces of three dimensions, and they
# reduce the cost. The number of bodies is given; the dimensions are inferred. We compare with
# k-means on the tracks and with a `GaussianMixture` on five components.

subspaces = {"init": "spectral", "n_init": 1, "max_iter": 40, "random_state": 0}
gaussians = {"n_init": 2, "random_state": 0}
methods = {
    "SubspaceMixture": lambda n: make_pipeline(PCA(10), SubspaceMixture(n, **subspaces)),
    "k-means": lambda n: KMeans(n, n_init=5, random_state=0),
    "GaussianMixture": lambda n: make_pipeline(PCA(5), GaussianMixture(n, **gaussians)),
}


def match_labels(labels, bodies):
    """Rename labels such that they agree with the bodies as well as possible."""
    table = confusion_matrix(bodies, labels)
    found, body = linear_sum_assignment(-table.T)
    return body[np.searchsorted(found, labels)]


labels, models, errors = {}, {}, {}
print("                   mean error   sequences without error")
for name, make in methods.items():
    labels[name], models[name], errors[name] = [], [], []
    for n, (tracks, bodies) in zip(n_bodies, sequences, strict=True):
        model = make(n).fit(tracks)
        found = match_labels(model.predict(tracks), bodies)
        models[name].append(model)
        labels[name].append(found)
        errors[name].append(np.mean(found != bodies))
    n_perfect = errors[name].count(0)
    print(f"{name:<18}{np.mean(errors[name]):11.1%}{n_perfect:17} of {len(sequences)}")

# %%
# The error is the share of tracks that are assigned to the wrong body. We plot the segmentation of
# one sequence; dots mark the last position of each point.

shown = n_bodies.index(3)
tracks, bodies = sequences[shown]


def plot_tracks(ax, labels):
    for body, (color, marker) in enumerate((("C0", "o"), ("C1", "^"), ("C2", "s"))):
        paths = tracks[labels == body].reshape(-1, tracks.shape[1] // 2, 2)
        ax.plot(*paths.transpose(2, 1, 0), color=color, linewidth=0.6, alpha=0.6)
        ax.scatter(*paths[:, -1].T, s=16, color=color, marker=marker, linewidths=0)
    ax.set(aspect="equal", xlabel="x (pixels)", ylabel="y (pixels)")
    ax.invert_yaxis()


fig, ax = plt.subplots(figsize=(7.2, 5))
plot_tracks(ax, labels["SubspaceMixture"][shown])
ax.set_title("Tracks of points, segmented by SubspaceMixture")

# %%
# Colours and markers show the three bodies that were found. The two small bodies are in front of
# the background and move in different directions. For comparison, the next figure shows the result
# of k-means.

fig, ax = plt.subplots(figsize=(7.2, 5))
plot_tracks(ax, labels["k-means"][shown])
ax.set_title(f"Segmentation by k-means, {errors['k-means'][shown]:.0%} of the tracks wrong")

# %%
# k-means groups points that are close in the image. It divides the background and merges the two
# small bodies. `GaussianMixture` allows elongated clusters, and with a suitable number of principal
# components it also segments these simulated sequences. `SubspaceMixture` infers the dimension of
# each subspace in addition.
#
# Dimensions
# ----------
# The tracks of a rigid body have at most three dimensions; fewer if the body only moves without
# rotation or if it is flat. The number of inferred dimensions is a check of the model.

dimensions = np.concatenate([model[-1].dimensions_ for model in models["SubspaceMixture"]])
print("Dimension   bodies")
for dimension, count in enumerate(np.bincount(dimensions)):
    if count:
        print(f"{dimension:9}{count:9}")

# %%
# Nearly all bodies have three dimensions. In real sequences, perspective and bodies that are not
# rigid can add dimensions.
#
# Probabilities of the labels
# ---------------------------
# ``predict_proba`` gives the probability of each label. We count the uncertain ones.

certainty, right = [], []
results = zip(models["SubspaceMixture"], labels["SubspaceMixture"], sequences, strict=True)
for model, found, (tracks, bodies) in results:
    certainty.extend(model.predict_proba(tracks).max(axis=1))
    right.extend(found == bodies)
certainty, right = np.array(certainty), np.array(right)
print("Probability of the label    tracks   errors")
for name, chosen in (("below 0.9999", certainty < 0.9999), ("0.9999 or more", certainty >= 0.9999)):
    print(f"  {name:<22}{chosen.sum():10}{np.sum(~right[chosen]):9}")

plt.show()

# %%
# Nearly all labels are certain and right, because the simulated tracks follow the model. In real
# sequences the errors of a track are correlated over time, and the probabilities are then too close
# to 0 and 1. Uncertain labels are still a useful list of tracks to examine.
