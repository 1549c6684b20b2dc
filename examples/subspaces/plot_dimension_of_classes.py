"""
Classifying digits with one subspace per class
==============================================

Images of a handwritten digit differ in a few features, such as slant, width and the shape of loops.
They therefore lie near a subspace whose dimension is much smaller than the number of pixels. What
is its dimension for each digit? `SubspaceClassifier` fits one subspace per class, infers the
dimensions and classifies by the densities. This example shows how to set the scale of the noise,
compares the accuracy with discriminant analysis, and shows how to interpret the subspaces.
"""

# %%
# Data
# ----
# The digits of scikit-learn have 8 x 8 pixels with values from 0 to 16. We use half of the images
# for training, about 90 of each digit.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split

from skmanifold import SubspaceClassifier, SubspaceMixture
from skmanifold.inspection import DimensionPosteriorDisplay
from skmanifold.metrics import pairwise_subspace_distances, principal_angles

# sphinx_gallery_thumbnail_number = 2
plt.style.use("skmanifold.inspection.skmanifold")

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
print(f"{len(X)} images for training, {len(X_test)} for testing")

# %%
# The scale of the noise
# ----------------------
# A dimension is a direction in which the images differ by more than the noise, and the model
# assumes the same noise variance in all pixels. With the default prior the estimated noise is close
# to zero:

zeros = X[y == 0]
default = SubspaceMixture(1, max_iter=60, n_init=1, random_state=0).fit(zeros)
print(f"Pixels that are blank in all images of 0: {np.sum(np.ptp(zeros, axis=0) == 0)} of 64")
print(f"Estimated standard deviation of the noise: {default.noise_variance_[0] ** 0.5:.3f}")
print(f"Dimension: {default.dimensions_[0]}")

# %%
# Some pixels are blank in all images of the digit. They determine the noise variance, and it is so
# small that every other pixel counts as a dimension, which is correct but useless.
#
# We therefore fix the noise at a standard deviation of 2, an eighth of the range of the pixels. The
# prior of the precision is a gamma distribution with the mean 1 / 4 and a shape that is so large
# that the data do not change it. The larger the noise, the smaller the dimensions; the table shows
# half and twice the value too. The value of 2 was not tuned. Because it is in units of pixels, the
# images are not whitened (`shrinkage=None`).


def classifier(noise, max_iter):
    prior = (1e6, 1e6 * noise**2)
    mixture = SubspaceMixture(1, noise_prior=prior, max_iter=max_iter, n_init=1)
    return SubspaceClassifier(mixture, shrinkage=None, random_state=0).fit(X, y)


errors = {}


def evaluate(name, model):
    errors[name] = 1 - model.score(X_test, y_test)
    loss = log_loss(y_test, model.predict_proba(X_test))
    print(f"{name:<26}{errors[name]:6.1%}{loss:10.2f}", end="    ")


print("                           error  log loss    dimensions of the digits 0 to 9")
model = classifier(2.0, 300)
for noise in (1.0, 2.0, 4.0):
    fitted = model if noise == 2.0 else classifier(noise, 60)
    evaluate(f"subspaces, noise {noise:.0f}", fitted)
    print(*(f"{mixture.dimensions_[0]:3}" for mixture in fitted.mixtures_))

for name, discriminant in (
    ("linear discriminants", LinearDiscriminantAnalysis(solver="lsqr")),
    ("quadratic discriminants", QuadraticDiscriminantAnalysis(solver="eigen")),
):
    grid = {"shrinkage": [0.01, 0.03, 0.1, 0.2, 0.3, 0.5]}
    search = GridSearchCV(discriminant, grid, cv=3).fit(X, y)
    evaluate(name, search)
    print(f"shrinkage {search.best_params_['shrinkage']:.2g}")

fig, ax = plt.subplots(figsize=(7.2, 3.4))
names = sorted(errors, key=errors.get)
colors = ["C0" if name.startswith("subspaces") else "C4" for name in names]
bars = ax.barh(names, [100 * errors[name] for name in names], color=colors)
ax.bar_label(bars, [f"{errors[name]:.1%}" for name in names], padding=3)
ax.invert_yaxis()
ax.set(xlabel="error on test images (%)", title="Classification of digits")

# %%
# The classifier with noise 2 and quadratic discriminant analysis with tuned shrinkage have the
# smallest errors; with so few errors their difference is not significant. Linear discriminant
# analysis uses one covariance for all classes and has a larger error. An advantage of the subspaces
# is that they can be inspected.
#
# Dimensions
# ----------
# `DimensionPosteriorDisplay` shows the posterior of the dimension of each class.

display = DimensionPosteriorDisplay.from_estimator(model)
display.ax_.set(ylabel="digit", title="Dimension of the subspace of each digit")

# %%
# The dimensions differ between digits, and the posterior of most digits is concentrated on one or
# two values. The images of 6 have the smallest dimension; those of 8 and 9 have the largest.
#
# Axes of the subspaces
# ---------------------
# The basis of a subspace is only determined up to rotation. We rotate each basis such that its
# first axis is the direction of the largest variance.


def principal_basis(digit):
    """Axes of the subspace of a digit, and the standard deviations along them."""
    coordinates = model.mixtures_[digit].project(X[y == digit]).coordinates
    centred = coordinates - coordinates.mean(axis=0)
    _, lengths, rotation = np.linalg.svd(centred, full_matrices=False)
    return rotation @ bases[digit], lengths / np.sqrt(len(coordinates))


bases = [mixture.bases_[0] for mixture in model.mixtures_]
means = np.concatenate([mixture.means_ for mixture in model.mixtures_])
axes, deviations = zip(*(principal_basis(digit) for digit in range(10)), strict=True)
print("Standard deviation of the images along the first three axes (pixel values)")
for digit in range(10):
    print(f"  {digit}" + "".join(f"{value:7.1f}" for value in deviations[digit][:3]))

pixel_values = {"cmap": "Blues", "vmin": 0, "vmax": 16}
titles = ["mean\n- 2 sd", "mean", "mean\n+ 2 sd"]
fig, panels = plt.subplots(3, 10, figsize=(10, 3.4))
for digit in range(10):
    step = 2 * deviations[digit][0] * axes[digit][0]
    images = [means[digit] - step, means[digit], means[digit] + step]
    for ax, title, image in zip(panels[:, digit], titles, images, strict=True):
        ax.imshow(image.reshape(8, 8), **pixel_values)
        ax.set(xticks=[], yticks=[])
        if digit == 0:
            ax.set_ylabel(title)
    panels[0, digit].set_title(f"{digit}")
fig.suptitle("Images along the first axis of each subspace")

# %%
# The middle row shows the means. The other rows show images at two standard deviations along the
# first axis. For several digits this axis describes slant; for others, such as 1 and 7, it
# describes different styles of writing.
#
# Which digits are similar?
# -------------------------
# Several numbers describe how close two subspaces are: the smallest of their ``principal_angles``,
# a distance that includes all angles, and the distance between the mean of one digit and the
# subspace of the other. We compare them with the separation of two digits in the test images: the
# mean difference between the log density of the right class and that of the other class.

angles = np.degrees([[principal_angles(a, b)[0] for b in bases] for a in bases])
to_subspace = np.array([mixture.transform(means)[:, 0] for mixture in model.mixtures_])
closeness = {
    "mean to the other subspace": (to_subspace + to_subspace.T) / 2,
    "smallest principal angle": angles,
    "distance of the subspaces": pairwise_subspace_distances(bases),
}
densities = np.column_stack([mixture.score_samples(X_test) for mixture in model.mixtures_])
differences = densities[np.arange(len(y_test)), y_test, np.newaxis] - densities
separation = np.array([differences[y_test == digit].mean(axis=0) for digit in range(10)])
separation = (separation + separation.T) / 2
pairs = np.triu_indices(10, 1)
hardest = np.argsort(separation[pairs])[:5]
print("Rank correlation with the separation, over pairs of digits")
for name, distances in closeness.items():
    print(f"  {name:<28}{spearmanr(distances[pairs], separation[pairs])[0]:5.2f}")

distances = closeness["mean to the other subspace"]
fig, ax = plt.subplots()
ax.scatter(distances[pairs], separation[pairs], s=20, color="C0")
offsets = [(-9, -14), (7, -10), (-9, 8), (-9, 8), (7, -5)]
for (i, j), offset in zip(np.transpose(pairs)[hardest], offsets, strict=True):
    place = (distances[i, j], separation[i, j])
    ax.annotate(f"{i}, {j}", place, offset, textcoords="offset points")
ax.set(xlabel="distance of a mean to the subspace of the other digit (pixel values)")
ax.set(ylabel="separation (nats per image)", title="Pairs of digits")
ax.margins(0.08, 0.1)

# %%
# The distance of the means to the other subspaces explains the separation best. The smallest angle
# explains less, and the distance that includes all angles explains little, because most angles
# between two digits are large. The five pairs with the smallest separation are labelled.
#
# Misclassified images
# --------------------
# For each misclassified image we show the nearest points of the subspaces of the right digit and of
# the predicted digit, with their distances.

probabilities = model.predict_proba(X_test)
predicted = probabilities.argmax(axis=1)
wrong = np.flatnonzero(predicted != y_test)
nearest = np.column_stack([mixture.transform(X_test) for mixture in model.mixtures_]).argmin(axis=1)
print("Misclassified test images")
print(f"  by the largest probability   {len(wrong):3} of {len(y_test)}")
print(f"  by the nearest subspace      {np.sum(nearest != y_test):3} of {len(y_test)}")

shown = wrong[np.argsort(-probabilities[wrong].max(axis=1), kind="stable")][:8]
fig, panels = plt.subplots(3, len(shown), figsize=(10, 4.6), squeeze=False)
for column, i in zip(panels.T, shown, strict=True):
    column[0].imshow(X_test[i].reshape(8, 8), **pixel_values)
    column[0].set_title(f"{y_test[i]}, predicted {predicted[i]}", fontsize=9)
    for ax, digit in zip(column[1:], (y_test[i], predicted[i]), strict=True):
        mixture = model.mixtures_[digit]
        point = mixture.inverse_transform(*mixture.project(X_test[[i]]))
        ax.imshow(point.reshape(8, 8), **pixel_values)
        ax.set_xlabel(f"distance {mixture.transform(X_test[[i]])[0, 0]:.1f}", fontsize=9)
    for ax in column:
        ax.set(xticks=[], yticks=[])
for ax, title in zip(panels[:, 0], ("image", "right digit", "predicted"), strict=True):
    ax.set_ylabel(title)

plt.show()

# %%
# In most of these images the subspace of the predicted digit is closer than that of the right
# digit. The probabilities give better predictions than the distances alone. They also depend on how
# far an image is from the mean within the subspace, and they take into account that a subspace of
# higher dimension is closer to any image.
