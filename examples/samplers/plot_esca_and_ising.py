r"""
When latent variables must not be drawn at once: the Ising model
================================================================

`ESCA` draws all latent variables at once, given the parameters of the previous pass. This is
correct for mixtures and topic models, because their latent variables are independent given the
parameters. What happens if they are not independent? This example implements an Ising model, in
which each variable depends on its neighbours, as a model for `ESCA`. It shows which distribution
results, and how to repair the sampler by drawing independent groups of variables in turn.

The case is from section 2.5 of Zaheer et al. (2016), *Exponential stochastic cellular automata for
massively parallel inference*. The stationary distribution printed there is corrected below.
"""

# %%
# Model
# -----
# The variables, called spins, are +1 or -1. The density p(x) is proportional to
#
# .. math:: \exp\Big(J \sum_{i \sim j} x_i x_j\Big),
#
# where the sum is over all pairs of neighbours. Given its neighbours, a spin is +1 with probability
# 1 / (1 + exp(-2 h)). Here h is the *field* of the spin: J times the sum of its neighbours.
#
# A model for `ESCA` has three methods (`LatentModel`): one draws initial latent variables, one
# draws latent variables given parameters, and one computes parameters from statistics. In this
# example the latent variables are spins, the statistics are fields, and the parameters are the
# probabilities of +1. The first axis of the arrays is that of independent images.
#
# Each site has a colour. One pass draws the spins of one colour, the next pass those of the next
# colour. With a single colour all spins are drawn at once.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import ellipk, expit

from skmanifold.models import LatentModel
from skmanifold.samplers import ESCA

# sphinx_gallery_thumbnail_number = 3
plt.style.use("skmanifold.inspection.skmanifold")


class Ising:
    """Spins of several images; `neighbours` computes the sums over the neighbours of all spins."""

    def __init__(self, coupling, neighbours, colours, n_images):
        self.coupling = coupling
        self.neighbours = neighbours
        self.colours = colours
        self.n_images = n_images

    def init_latents(self, key):
        """Draw random spins."""
        rng = np.random.default_rng(int(key))
        spins = 2 * rng.integers(2, size=(self.n_images, *self.colours.shape)) - 1
        return self._with_fields(spins, turn=0)

    def sample_latents(self, position, latents, key):
        """Draw all spins of one colour."""
        spins, turn = latents
        rng = np.random.default_rng(int(key))
        drawn = np.where(rng.random(spins.shape) < position, 1, -1)
        spins = np.where(self.colours == turn, drawn, spins)
        return *self._with_fields(spins, (turn + 1) % (self.colours.max() + 1)), np.nan

    def mode(self, statistics):
        """Compute probabilities of +1 from fields."""
        return expit(2 * statistics)

    def _with_fields(self, spins, turn):
        return (spins, turn), self.coupling * self.neighbours(spins)


def run(model, n_passes):
    """Yield the spins after each pass."""
    sampler = ESCA()
    state = sampler.init(model, np.uint64(1))
    for _ in range(n_passes):
        state = sampler.step(model, state)
        yield state.latents[0]


def others(spins):
    """Sums over the neighbours if all spins are neighbours."""
    return spins.sum(axis=-1, keepdims=True) - spins


triangle = Ising(0.7, others, np.zeros(3, int), n_images=100_000)
print(f"Is it a LatentModel? {isinstance(triangle, LatentModel)}")

# %%
# `LatentModel` is a protocol: it checks that the methods exist, but it cannot check that the latent
# variables are independent.
#
# Three spins
# -----------
# First we use three spins, each of which is a neighbour of the other two, with J = 0.7. All eight
# states can be enumerated. If all spins are drawn at once, the stationary distribution is
# proportional to the product over *sites* of cosh(field). In the paper the product is over *edges*,
# of cosh(J x_i x_j). Each of these factors is cosh(J), so that distribution would be uniform. We
# compare both, and the target, with the frequencies in 100,000 images.

J = 0.7
states = 2 * (np.arange(8)[:, np.newaxis] >> np.arange(3) & 1) - 1
fields = J * others(states)
distributions = {
    "target": np.exp(0.5 * (states * fields).sum(axis=1)),
    "product over sites": np.cosh(fields).prod(axis=1),
    "product over edges (paper)": np.ones(8),
}
distributions = {name: weight / weight.sum() for name, weight in distributions.items()}
*_, spins = run(triangle, 100)
frequencies = np.bincount((spins + 1) // 2 @ [1, 2, 4], minlength=8) / triangle.n_images

print("Total variation distance from the frequencies of ESCA")
for name, probabilities in distributions.items():
    print(f"  {name:<28}{0.5 * np.abs(probabilities - frequencies).sum():.3f}")

fig, ax = plt.subplots()
styles = (("C0", ""), ("C1", "//"), ("0.8", ".."))
for shift, name, (color, hatch) in zip((-0.27, 0, 0.27), distributions, styles, strict=True):
    ax.bar(np.arange(8) + shift, distributions[name], 0.25, color=color, hatch=hatch, label=name)
ax.plot(np.arange(8), frequencies, "ko", markersize=7, label="frequencies of ESCA")
names = ["".join("+" if spin > 0 else "\N{MINUS SIGN}" for spin in state) for state in states]
ax.set_xticks(np.arange(8), names)
ax.set(xlabel="state of the three spins", ylabel="probability", title="Three spins, J = 0.7")
ax.legend(loc="upper center")

# %%
# The frequencies agree with the product over sites. They are not those of the target: equal spins
# are the most probable states, but with a lower probability than in the target. Moreover, cosh is
# an even function, so J and -J have the same stationary distribution. With J = -0.7 the target
# prefers different spins, but spins drawn at once are still most often equal.
#
# A square lattice
# ----------------
# Next we use 32 x 32 spins with four neighbours each (and periodic boundaries), and colour the
# sites like a checkerboard. All neighbours of a black site are white. If all spins are drawn at
# once, the new black spins depend on the old white spins only, and the new white spins on the old
# black spins. These are two independent chains, and each image consists of one half of each.
#
# Given the white spins, however, the black spins are independent. So a correct sampler draws all
# black spins at once and then all white spins given the new black spins.

n = 32
at_once, checkerboard = np.zeros((n, n), int), np.indices((n, n)).sum(axis=0) % 2


def four(spins):
    """Sums over the four neighbours on the lattice."""
    return sum(np.roll(spins, step, axis) for step in (-1, 1) for axis in (-1, -2))


couplings, n_images, n_passes = (0.4, 0.5, -0.5), 8, 1500
similarity, last = {}, {}
for coupling in couplings:
    for name, colours in (("at once", at_once), ("checkerboard", checkerboard)):
        history, before, spins = [], None, None
        for after in run(Ising(coupling, four, colours, n_images), n_passes):
            before, spins = spins, after
            history.append((spins * four(spins)).mean(axis=(1, 2)) / 4)
        similarity[coupling, name] = np.array(history)
        last[coupling, name] = before, spins

fig, axes = plt.subplots(2, 3, figsize=(8, 5.8))
for row, coupling in zip(axes, (0.5, -0.5), strict=True):
    worst = np.argmin(np.sign(coupling) * similarity[coupling, "at once"][-1])
    before, after = last[coupling, "at once"]
    panels = {
        f"at once, pass {n_passes - 1}": before[worst],
        f"at once, pass {n_passes}": after[worst],
        f"checkerboard, pass {n_passes}": last[coupling, "checkerboard"][1][0],
    }
    for ax, (title, image) in zip(row, panels.items(), strict=True):
        ax.imshow(image, cmap="Blues", vmin=-1.4, vmax=1.4, interpolation="nearest")
        ax.set(xticks=[], yticks=[], title=title)
    row[0].set_ylabel(f"J = {coupling}")

# %%
# Dark sites are +1. With J = 0.5 neighbours should be equal nearly everywhere, as in the right
# panel. If spins are drawn at once, each half of the sites converges to mostly +1 or mostly -1. If
# the two halves differ, neighbours are different nearly everywhere, and the image changes sign in
# each pass. With J = -0.5 the image should be a checkerboard. Drawn at once, all spins are equal
# and change sign in each pass.
#
# Comparison with the exact value
# -------------------------------
# The mean of x_i x_j over neighbours is known exactly for large lattices (Onsager, 1944).


def onsager(J):
    """Mean of x_i x_j over neighbours in an infinite square lattice."""
    t = np.tanh(2 * J)
    k = 2 * np.sinh(2 * J) / np.cosh(2 * J) ** 2
    return 0.5 / t * (1 + 2 / np.pi * (2 * t**2 - 1) * ellipk(k**2))


print("Mean of x_i x_j over neighbours, last 500 passes")
print("     J     exact   checkerboard   at once")
for coupling in couplings:
    exact = np.sign(coupling) * onsager(abs(coupling))
    means = [similarity[coupling, name][-500:].mean() for name in ("checkerboard", "at once")]
    print(f"{coupling:6.1f}{exact:10.3f}{means[0]:15.3f}{means[1]:10.3f}")

coupling = 0.5
fig, ax = plt.subplots()
passes = np.arange(1, n_passes + 1)
for name, color, width in (("checkerboard", "C0", 1.2), ("at once", "C1", 0.7)):
    lines = ax.plot(passes, similarity[coupling, name], color=color, linewidth=width, alpha=0.7)
    lines[0].set_label(f"{name}, {n_images} images")
ax.axhline(onsager(coupling), color="black", linestyle="--", label="exact, infinite lattice")
ax.set(xlabel="pass", ylabel="mean of $x_i x_j$ over neighbours", title="Square lattice, J = 0.5")
ax.legend(loc="center right")

plt.show()

# %%
# Drawing by colours agrees with the exact values. Drawn at once, neighbours are uncorrelated at J =
# 0.4. At J = 0.5 the mean is positive in images where both halves have the same sign and negative
# in the others. Even where the signs agree it is too small.
#
# Conclusion
# ----------
# Latent variables that are drawn at once must be independent given the parameters. This holds for
# the tokens of documents and for the rows of mixtures. It also holds for the images in this
# example: many images are drawn at once, and the spins of each image are drawn by colours. If you
# write a model for `ESCA`, make sure that its latent variables have this property.
