"""
Each digit has a dimension of its own
=====================================

Pictures of one handwritten digit differ in a few things: slant, width, a loop that is open or closed. So they lie near
a flat of few dimensions, few beside the number of pixels. How many there are depends on the digit.
`SubspaceClassifier` infers that for each class, and classifies by it.
"""

# %%
# Pictures
# --------
# Scikit-learn's digits have eight by eight pixels, from 0 to 16. Half of them are to learn from: about ninety of each
# digit.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split

from skmanifold import SubspaceClassifier, SubspaceMixture
from skmanifold.metrics import pairwise_subspace_distances, principal_angles

pixels, digits = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(pixels, digits, test_size=0.5, stratify=digits, random_state=0)

# %%
# What is noise?
# --------------
# A dimension is a direction in which pictures differ by more than noise, which is taken to be the same in all pixels.
# Left alone, the model finds next to none: every digit has pixels that are blank in all its pictures. So quiet they are
# that each of the others is a dimension. That is right, and of no use.

zeros = X[y == 0]
alone = SubspaceMixture(1, max_iter=60, n_init=1, random_state=0).fit(zeros)
print(f"Pixels blank in all zeros: {np.sum(np.ptp(zeros, axis=0) == 0)} of 64")
print(f"Left alone: noise of {alone.noise_variance_[0] ** 0.5:.3f}, dimension {alone.dimensions_[0]}")

# %%
# So we say what noise is: a standard deviation of 2 in a pixel, one eighth of the way from paper to ink. As a prior
# that is a gamma law of the precision, 1 / 4, with a shape so large that no doubt is left. Noise is the yardstick of
# dimensions: the coarser it is, the fewer there are. What halving and doubling it does is printed, too. We chose 2
# because it seems fair, without a search.


def classifier(noise, max_iter):
    mixture = SubspaceMixture(1, noise_prior=(1e6, 1e6 * noise**2), max_iter=max_iter, n_init=1)
    return SubspaceClassifier(mixture, random_state=0).fit(X, y)


def judge(name, model):
    """Print how good a classifier is on pictures held out, and keep its share of errors."""
    errors[name] = 1 - model.score(X_test, y_test)
    print(f"  {name:<26}{errors[name]:6.1%}{log_loss(y_test, model.predict_proba(X_test)):8.2f}", end="    ")


errors = {}
print("\nPictures held out           wrong  log loss   dimensions of the digits 0 to 9")
model = classifier(2.0, 300)
for noise in (1.0, 2.0, 4.0):
    fitted = model if noise == 2.0 else classifier(noise, 60)
    judge(f"subspaces, noise {noise:.0f}", fitted)
    print(*(f"{mixture.dimensions_[0]:3}" for mixture in fitted.mixtures_))

# %%
# Is that good? Linear discriminants have one covariance for all classes. Quadratic ones have one for each, which must
# be shrunk towards a round one, by an amount that cross-validation finds. So shrunk, they are as good as subspaces,
# within what so few errors can tell. What subspaces add is that one can look at them.

for name, discriminant in (
    ("linear discriminants", LinearDiscriminantAnalysis(solver="lsqr")),
    ("quadratic discriminants", QuadraticDiscriminantAnalysis(solver="eigen")),
):
    search = GridSearchCV(discriminant, {"shrinkage": [0.01, 0.03, 0.1, 0.2, 0.3, 0.5]}, cv=3).fit(X, y)
    judge(name, search)
    print(f"shrinkage {search.best_params_['shrinkage']:.2g}")

# %%
# The dimensions
# --------------
# Each digit has a posterior of its own. A six has the fewest ways to differ, an eight or a nine the most.

posterior = np.concatenate([mixture.dimension_posterior_ for mixture in model.mixtures_])
dimensions = np.array([mixture.dimensions_[0] for mixture in model.mixtures_])
print("\nDimension of each digit: the likeliest, and 5% and 95% quantiles")
for digit, (dimension, row) in enumerate(zip(dimensions, posterior, strict=True)):
    low, high = np.searchsorted(row.cumsum(), [0.05, 0.95])
    print(f"  {digit}  {dimension:3}   {low:2} to {high}")

# %%
# What is in them?
# ----------------
# Any rotation of a basis spans the same subspace. We turn it so that the first axis is the direction in which the
# digit's pictures vary most.


def turned_axes(digit):
    """Axes of a digit's subspace by falling standard deviation, and these deviations."""
    coordinates = model.mixtures_[digit].project(X[y == digit]).coordinates
    _, lengths, rotation = np.linalg.svd(coordinates - coordinates.mean(axis=0), full_matrices=False)
    return rotation @ bases[digit], lengths / np.sqrt(len(coordinates))


bases = [mixture.bases_[0] for mixture in model.mixtures_]
means = np.concatenate([mixture.means_ for mixture in model.mixtures_])
axes, deviations = zip(*(turned_axes(digit) for digit in range(10)), strict=True)

# %%
# Which digits are near each other?
# ---------------------------------
# The smallest of the ``principal_angles`` between two subspaces is that between the two ways to vary, one of each
# digit, that are most alike. A subspace is also somewhere: ``transform`` gives the distance of one digit's mean to the
# other's flat. We compare both with how well two digits are told apart: how much denser the right one's law is at a
# picture than the other's, in nats, on average over both digits' pictures held out.
#
# Where the flats are tells nearly all. Angles tell less, and one number for the distance of two subspaces, which counts
# all angles and the difference of dimensions, tells little: most angles are wide for any two digits.

angles = np.degrees([[principal_angles(a, b)[0] for b in bases] for a in bases])
to_flat = np.array([mixture.transform(means)[:, 0] for mixture in model.mixtures_])
apart = {
    "mean to other's flat": (to_flat + to_flat.T) / 2,
    "smallest angle": angles,
    "distance of subspaces": pairwise_subspace_distances(bases),
}
densities = np.column_stack([mixture.score_samples(X_test) for mixture in model.mixtures_])
behind = densities[np.arange(len(y_test)), y_test, np.newaxis] - densities
margin = np.array([behind[y_test == digit].mean(axis=0) for digit in range(10)])
margin = (margin + margin.T) / 2
pairs = np.triu_indices(10, 1)
hardest = np.argsort(margin[pairs])[:5]
print("\nLeast told apart:", ", ".join(f"{a} and {b}" for a, b in np.transpose(pairs)[hardest]))
print("Rank correlation with how well two digits are told apart, over pairs")
for name, distances in apart.items():
    print(f"  {name:<24}{spearmanr(distances[pairs], margin[pairs])[0]:5.2f}")

# %%
# The errors
# ----------
# Which flat is nearest says nearly as much as which class is likeliest. Densities weigh two things more: how far along
# a flat a picture is, and that a flat of more dimensions is nearer to anything.

probabilities = model.predict_proba(X_test)
guesses = probabilities.argmax(axis=1)
wrong = np.flatnonzero(guesses != y_test)
by_distance = np.column_stack([mixture.transform(X_test) for mixture in model.mixtures_]).argmin(axis=1)
print(f"\nThe nearest flat is wrong for {np.sum(by_distance != y_test)} of {len(y_test)} pictures,")
print(f"the likeliest class for {len(wrong)}; digit, guess and its probability:")
print("  " + ", ".join(f"{y_test[i]} {guesses[i]} {probabilities[i].max():.2f}" for i in wrong))

# %%
# The pictures
# ------------
# First the posterior of the dimensions, and how many pictures held out are classified wrongly.

ink = {"cmap": "gray_r", "vmin": 0, "vmax": 16}
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained", width_ratios=[1.4, 1])
first, last = np.flatnonzero(posterior.max(axis=0) > 0.005)[[0, -1]]
shown = posterior[:, first : last + 1]
left.imshow(shown, cmap="Blues", vmin=0, vmax=1, aspect="auto", extent=(first - 0.5, last + 0.5, 9.5, -0.5))
for digit, row in enumerate(shown):
    for dimension, probability in enumerate(row, first):
        if probability > 0.005:
            colour = "white" if probability > 0.6 else "black"
            left.text(dimension, digit, f"{probability:.2f}", ha="center", va="center", color=colour, fontsize=9)
left.set(yticks=range(10), xticks=range(first, last + 1), xlabel="dimension", ylabel="digit")
left.set_title("posterior of the dimensions")
left.spines[:].set_visible(False)
left.tick_params(length=0)

names = sorted(errors, key=errors.get)
bars = right.barh(
    names, [100 * errors[name] for name in names], color=["#1b6ca8" if "sub" in n else "#c9d6e2" for n in names]
)
right.bar_label(bars, [f"{errors[name]:.1%}" for name in names], padding=3)
right.invert_yaxis()
right.set(xlabel="%", title="pictures held out that are wrong")
right.spines[["top", "right"]].set_visible(False)

# %%
# The flats. On top the means; then the first axis, ink that comes (red) as other ink goes (blue), and the mean with two
# standard deviations of it taken away and added; at last the second axis.

figure, grid = plt.subplots(5, 10, figsize=(12, 6.4), layout="constrained")
titles = ["mean", "first axis", "less of it", "more of it", "second axis"]
for digit in range(10):
    step = 2 * deviations[digit][0] * axes[digit][0]
    pictures = [means[digit], axes[digit][0], means[digit] - step, means[digit] + step, axes[digit][1]]
    for ax, title, picture in zip(grid[:, digit], titles, pictures, strict=True):
        style = {"cmap": "RdBu_r", "vmin": -0.5, "vmax": 0.5} if "axis" in title else ink
        ax.imshow(picture.reshape(8, 8), **style)
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_color("0.8")
        if digit == 0:
            ax.set_ylabel(title)
    grid[0, digit].set_title(f"{digit}: dimension {dimensions[digit]}", fontsize=10)

# %%
# Pairs of digits: the smallest angle, how well they are told apart, and how that goes with the distance of the flats.

figure, panels = plt.subplots(1, 3, figsize=(12, 4.1), layout="constrained")
for ax, values, title in zip(
    panels, (angles, margin), ("smallest principal angle, degrees", "told apart, nats a picture"), strict=False
):
    blank = np.where(np.eye(10, dtype=bool), np.nan, values)
    ax.imshow(blank, cmap="YlGnBu")
    for i, j in np.argwhere(np.isfinite(blank)):
        colour = "white" if blank[i, j] > np.nanmin(blank) + 0.6 * np.ptp(values[pairs]) else "black"
        ax.text(j, i, f"{blank[i, j]:.0f}", ha="center", va="center", fontsize=8, color=colour)
    ax.set(xticks=range(10), yticks=range(10), title=title)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
distances = apart["mean to other's flat"]
panels[2].scatter(distances[pairs], margin[pairs], s=16, color="#1b6ca8")
offsets = [(-8, -13), (6, -9), (-8, 7), (-8, 7), (6, -4)]
for (i, j), offset in zip(np.transpose(pairs)[hardest], offsets, strict=True):
    panels[2].annotate(f"{i}, {j}", (distances[i, j], margin[i, j]), offset, textcoords="offset points", fontsize=9)
panels[2].set(
    xlabel="distance of a mean to the other's flat", ylabel="nats a picture", title="told apart by where flats are"
)
panels[2].margins(0.08, 0.1)
panels[2].spines[["top", "right"]].set_visible(False)

# %%
# The errors: the picture, and the nearest points of the right digit's flat and of the guess's, with their distances.

some = wrong[np.argsort(-probabilities[wrong].max(axis=1), kind="stable")][:10]
figure, grid = plt.subplots(3, len(some), figsize=(12, 4.5), layout="constrained", squeeze=False)
for column, i in zip(grid.T, some, strict=True):
    column[0].imshow(X_test[i].reshape(8, 8), **ink)
    column[0].set_title(f"{y_test[i]}, not {guesses[i]}", fontsize=11)
    for ax, digit in zip(column[1:], (y_test[i], guesses[i]), strict=True):
        mixture = model.mixtures_[digit]
        nearest = mixture.inverse_transform(*mixture.project(X_test[[i]]))
        ax.imshow(nearest.reshape(8, 8), **ink)
        ax.set_xlabel(f"at {mixture.transform(X_test[[i]])[0, 0]:.1f}")
    for ax in column:
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_color("0.8")
for ax, title in zip(grid[:, 0], ("picture", "as what it is", "as the guess"), strict=True):
    ax.set_ylabel(title)

plt.show()
