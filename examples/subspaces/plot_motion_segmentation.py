"""
What moves with what?
=====================

A camera follows points: on cars, on a walker, on the street behind them. Which points move together? Seen by a camera
far enough away, the tracks of all points of one rigid body lie near a flat of at most three dimensions, however the
body and the camera move. So to tell motions apart is to tell flats apart. `SubspaceMixture` does it, and says how sure
it is.

The tracks are eighty sequences of Hopkins 155 (``hopkins155_part_a.npz`` in the folder that ``SKMANIFOLD_DATA`` names),
or else made by a simulated camera.
"""

# %%
# Tracks
# ------
# A row is a point: where it is in the first frame, the second and so on, two numbers each. A body is turned and moved
# from frame to frame, and the camera drops the depth. What is drawn here does just that: the points of each body are
# somewhere in a box; noise is half a pixel. The background is a body, too: if the camera turns, it moves.

import os
import time
from pathlib import Path

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


def film(seed, n_frames=25):
    """Tracks of two or three bodies, and whose each is."""
    rng = np.random.default_rng(seed)
    tracks, bodies = [], []
    for body in range(rng.integers(2, 4)):
        n_points = rng.integers(30, 200)
        points = rng.uniform(-1, 1, (n_points, 3)) * (
            np.array([320, 240, 150]) if body == 0 else rng.uniform(30, 70, 3)
        )
        when = np.linspace(0, 1, n_frames)[:, np.newaxis]
        turns = Rotation.from_rotvec(when * rng.normal(0, 0.15, 3)).as_matrix()[:, :2]  # rows of the image alone
        place = (rng.uniform(-150, 150, 2) if body else np.zeros(2)) + when * rng.normal(0, 60, 2)
        seen = np.einsum("fij,nj->nfi", turns, points) + place + [320, 240]
        tracks.append((seen + rng.normal(0, 0.5, seen.shape)).reshape(n_points, -1))
        bodies.append(np.full(n_points, body))
    return np.concatenate(tracks), np.concatenate(bodies)


file = Path(os.environ.get("SKMANIFOLD_DATA", "")) / "hopkins155_part_a.npz"
if file.exists():
    source, example = "Hopkins 155, part A", "cars9"
    with np.load(file) as stored:
        sequences = {
            name: (stored[f"{name}__W"].T.astype(float), stored[f"{name}__s"].astype(int) - 1)
            for name in stored["names"].tolist()
        }
else:
    source, example = "simulated camera", "film 0"
    sequences = {f"film {seed}": film(seed) for seed in range(40)}
n_bodies = np.array([1 + bodies.max() for _, bodies in sequences.values()])
print(f"Data: {source}; {len(sequences)} sequences of {n_bodies.min()} or {n_bodies.max()} motions, ", end="")
print(f"{sum(len(tracks) for tracks, _ in sequences.values())} points")

# %%
# Flats
# -----
# Ten principal components hold what moves, with room for three flats. (Ten was chosen with the sequences of Hopkins 155
# in sight. With six, three times as many of their points are wrong.) The number of motions is told, nothing else.
# Beside it two that do not know of flats: k-means on the tracks, and ellipsoids in five components.
#
# Real sequences are not all simple: cameras are near, bodies bend, and some bodies move alike.


def segment(n):
    return make_pipeline(PCA(10), SubspaceMixture(n, init="spectral", n_init=1, max_iter=40, random_state=0))


methods = {
    "SubspaceMixture": segment,
    "k-means": lambda n: KMeans(n, n_init=10, random_state=0),
    "GaussianMixture": lambda n: make_pipeline(PCA(5), GaussianMixture(n, n_init=5, random_state=0)),
}


def renamed(labels, bodies):
    """Labels in the names of the bodies that agree most."""
    table = confusion_matrix(bodies, labels)
    found, body = linear_sum_assignment(-table.T)
    return body[np.searchsorted(found, labels)]


wrong, labels_of, chances, fitted = {}, {}, {}, {}
print("\nPoints in the wrong motion     mean   median   sequences without any   seconds for all")
for name, make in methods.items():
    start = time.process_time()
    for sequence, (tracks, bodies) in sequences.items():
        model = make(1 + bodies.max())
        labels_of[name, sequence] = renamed(model.fit_predict(tracks), bodies)
        if name == "SubspaceMixture":
            chances[sequence], fitted[sequence] = model.predict_proba(tracks).max(axis=1), model[-1]
    seconds = time.process_time() - start
    wrong[name] = np.array([np.mean(labels_of[name, s] != bodies) for s, (_, bodies) in sequences.items()])
    print(f"  {name:<24}{wrong[name].mean():9.1%}{np.median(wrong[name]):9.1%}", end="")
    print(f"{np.sum(wrong[name] == 0):15d} of {len(wrong[name])}{seconds:18.1f}")

# %%
# How sure?
# ---------
# The model says how probable each label is. The simulated camera keeps to the model, and nearly all labels are sure and
# right. Real tracks drift, while the model takes noise to be independent from frame to frame: there it is surer than it
# should be. Still, doubtful labels are far more often wrong than sure ones, so that they are worth a look.

chance = np.concatenate(list(chances.values()))
right = np.concatenate([labels_of["SubspaceMixture", s] == bodies for s, (_, bodies) in sequences.items()])
print("\nProbability of the label    points   of them wrong")
for name, chosen in (("less than 0.9999", chance < 0.9999), ("0.9999 or more", chance >= 0.9999)):
    print(f"  {name:<24}{chosen.sum():8d}{np.sum(~right[chosen]):10d}")

# %%
# Their dimensions
# ----------------
# Three at most, says geometry, if the camera is far away: fewer if a body only shifts, or is flat. A near camera bends
# the flat, and each bend that exceeds the noise is a dimension more. So what is inferred is the dimension of what was
# measured, not of the ideal.

found = np.bincount(np.concatenate([mixture.dimensions_ for mixture in fitted.values()]))
print("\nDimensions of all motions: " + ", ".join(f"{d}: {n}" for d, n in enumerate(found) if n))

# %%
# The pictures
# ------------
# Tracks of two sequences, with a dot at their ends: whose they are, and what k-means and `SubspaceMixture` make of
# them. The second one is that which `SubspaceMixture` does worst. Then the share of wrong points in all sequences,
# ordered for each method by itself.

colours = np.array(["#8c9aa3", "#cb4b3f", "#1b6ca8"])
worst = max(
    (s for s in sequences if s != example), key=lambda s: np.mean(labels_of["SubspaceMixture", s] != sequences[s][1])
)
figure, grid = plt.subplots(2, 3, figsize=(12, 6.8), layout="constrained")
figure.suptitle(f"What moves with what? ({source})")
for row, sequence in zip(grid, (example, worst), strict=True):
    tracks, bodies = sequences[sequence]
    largest_first = np.argsort(-np.bincount(bodies)).argsort()
    paths = tracks.reshape(len(tracks), -1, 2)
    places = {"truth": bodies, **{name: labels_of[name, sequence] for name in ("k-means", "SubspaceMixture")}}
    for ax, (name, labels) in zip(row, places.items(), strict=True):
        for path, colour in zip(paths, colours[largest_first[labels]], strict=True):
            ax.plot(*path.T, color=colour, linewidth=0.6, alpha=0.6)
        ax.scatter(*paths[:, -1].T, s=6, c=colours[largest_first[labels]])
        ax.set(aspect="equal", xticks=[], yticks=[])
        ax.invert_yaxis()
        ax.set_title(f"{sequence}: {name}" + (f", {np.mean(labels != bodies):.1%} wrong" if name != "truth" else ""))

figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
for (name, values), colour in zip(wrong.items(), ("#cb4b3f", "#8c9aa3", "#1b6ca8"), strict=True):
    ax.plot(np.arange(1, len(values) + 1), 100 * np.sort(values), color=colour, linewidth=2, label=name)
ax.set(xlabel="sequences, from the best to the worst", ylabel="points in the wrong motion, %", xlim=(1, len(n_bodies)))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)

plt.show()
