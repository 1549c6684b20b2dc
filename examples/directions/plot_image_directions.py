"""
Images as directions: clusters that ignore brightness
=====================================================

An image that is taken with a longer exposure has larger pixel values, but the same direction as a
vector. This example clusters images of handwritten digits by a mixture of von Mises-Fisher
distributions, which uses only the directions. It shows the mean directions as images, credible
intervals of the concentrations, and images between two clusters, and compares the clusters with
those of k-means.
"""

# %%
# Images of different brightness
# ------------------------------
# The images of scikit-learn have 8 x 8 pixels with values from 0 to 16. We multiply each image by a
# random factor, as if exposures differed.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.preprocessing import normalize

from skmanifold import ExponentialFamilyMixture
from skmanifold.distributions import inverse_bessel_ratio
from skmanifold.emissions import VonMisesFisher

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

original, digit = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
images = original * rng.uniform(0.2, 1, (len(original), 1))
print(f"{images.shape[0]} images, {images.shape[1]} pixels")

# %%
# We use the pixels as they are. Subtracting the mean image first, as in principal component
# analysis, would spread the directions over the whole sphere. But the direction of a centred image
# depends on its brightness, so we would lose what directions are useful for here.
#
# Clusters
# --------
# Each of ten components has its own concentration. With ``sampler="gibbs"`` the mixture draws
# directions, concentrations and labels from their posterior distribution.

emission = VonMisesFisher("per_component")
settings = {"sampler": "gibbs", "max_iter": 400, "random_state": 0}
mixture = ExponentialFamilyMixture(10, emission=emission, **settings).fit(images)

# %%
# Now we compute the concentrations of all draws. The expected row of a component is its mean
# direction times the mean cosine of its rows, so the length of an expected row determines the
# concentration. We sort the components by the most frequent digit.

cosines = np.linalg.norm(mixture.posterior_["components"][0], axis=-1)
concentrations = inverse_bessel_ratio(images.shape[1], cosines)
low, middle, high = np.quantile(concentrations, [0.05, 0.5, 0.95], axis=0)

frequencies = contingency_matrix(digit, mixture.labels_)
main = frequencies.argmax(axis=0)
order = np.lexsort((-frequencies.max(axis=0), main))
table = pd.DataFrame(
    {
        "images": frequencies.sum(axis=0),
        "digit": main,
        "share": frequencies.max(axis=0) / frequencies.sum(axis=0),
        "low": low,
        "concentration": middle,
        "high": high,
    }
).iloc[order]
print(table.round({"share": 2, "low": 0, "concentration": 0, "high": 0}).to_string(index=False))

# %%
# "Digit" is the most frequent digit of the cluster, and "share" its share. The mean directions are
# unit vectors with an entry for each pixel, so they can be plotted as images.

fig, axes = plt.subplots(2, 5, figsize=(7.2, 3.8))
for k, ax in zip(order, axes.flat, strict=True):
    ax.imshow(mixture.mean_directions_[k].reshape(8, 8), vmin=0)
    ax.set_title(f"{frequencies[:, k].sum()} images,\n{table['share'][k]:.0%} are a {main[k]}")
    ax.axis("off")
plt.show()

# %%
# Most clusters contain mainly one digit, and their mean directions look like it. The other clusters
# contain several digits.
#
# Concentrations
# --------------
# The larger the concentration, the more similar are the images of a cluster. Lines are 90% credible
# intervals.

fig, ax = plt.subplots(figsize=(5.6, 3.8))
places = np.arange(10)
errors = np.stack([middle - low, high - middle])[:, order]
ax.errorbar(middle[order], places, xerr=errors, fmt="o", markersize=4)
ax.set_yticks(places, [f"{main[k]} ({frequencies[:, k].sum()} images)" for k in order])
ax.invert_yaxis()
ax.set(xlabel="concentration", ylabel="most frequent digit of the cluster", xlim=(0, None))
plt.show()

# %%
# The images of zeros are the most similar to each other. The intervals are narrow, because the
# concentration is determined by all pixels of all images of a cluster.
#
# Images between two clusters
# ---------------------------
# The columns of the figure show the six images whose membership is divided most evenly between two
# clusters, and the mean directions of these clusters.

memberships = mixture.predict_proba(images)
ranked = np.argsort(-memberships, axis=1)
divided = np.argsort(-np.sort(memberships, axis=1)[:, -2])[:6]

fig, axes = plt.subplots(3, 6, figsize=(8.4, 4.6))
for image, (ax, first, second) in zip(divided, axes.T, strict=True):
    ax.imshow(images[image].reshape(8, 8), vmin=0, cmap="Oranges")
    ax.set_title(f"a {digit[image]}")
    for other, k in zip((first, second), ranked[image], strict=False):
        other.imshow(mixture.mean_directions_[k].reshape(8, 8), vmin=0)
        other.set_title(f"{memberships[image, k]:.0%} cluster of {main[k]}", fontsize="small")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
for ax, name in zip(axes[:, 0], ["image", "first cluster", "second cluster"], strict=True):
    ax.set_ylabel(name)
plt.show()

uncertain = memberships.max(axis=1) < 0.9
is_main = main[mixture.labels_] == digit
print(f"{uncertain.sum()} images have no cluster of at least 90% probability")
print("Images that show the most frequent digit of their cluster:")
print(f"{is_main[uncertain].mean():.0%} of these, {is_main[~uncertain].mean():.0%} of the others")

# %%
# Images with divided membership are more often in the cluster of another digit. Few images have
# divided membership, although the clusters overlap: a von Mises-Fisher distribution has the same
# spread in all directions around its mean, and handwriting varies mostly in a few directions.
#
# Agreement with the digits
# -------------------------
# We compare the clusters with the digits by the adjusted Rand index, which is 1 for equal
# clusterings and about 0 for unrelated ones, with the original images and those of different
# brightness.

shared = ExponentialFamilyMixture(10, emission=VonMisesFisher("shared"), **settings)
kmeans = KMeans(10, n_init=10, random_state=0)
rows = {}
for name, X in (("original brightness", original), ("different brightness", images)):
    separate = ExponentialFamilyMixture(10, emission=emission, **settings)
    labels = {
        "separate concentrations": separate.fit(X).labels_,
        "shared concentration": shared.fit(X).labels_,
        "k-means": kmeans.fit(X).labels_,
        "k-means, unit length": kmeans.fit(normalize(X)).labels_,
    }
    rows[name] = {method: adjusted_rand_score(digit, found) for method, found in labels.items()}
print(pd.DataFrame(rows).round(2).to_string())

# %%
# Brightness has little effect on the mixtures, and only because rounding errors change the draws.
# K-means on the pixels assigns dark images of all digits to the same clusters. With rows of unit
# length it agrees with the digits as well as the mixture with a shared concentration. Separate
# concentrations fit the density of the images better but agree slightly less with the digits. So if
# only labels are needed, k-means on rows of unit length is enough. The mixture adds probabilities,
# concentrations and their intervals.
