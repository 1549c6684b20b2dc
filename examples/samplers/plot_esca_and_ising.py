"""
Where an automaton is wrong: magnets
====================================

`ESCA` draws all latent variables at once, each from its law given the parameters of the pass before.
For topics and mixtures that is as it should be: given the parameters their latents are independent, and
it does not matter in which order, or whether in any, they are drawn.

An Ising model is the opposite case. Its spins want to be like their neighbours, or unlike them, and
there is nothing else that they depend on. We write it down as a model for `ESCA`, which runs it without
complaint, and look at what comes out. Then we repair it. The case is from section 2.5 of Zaheer et al.
(2016), *Exponential stochastic cellular automata for massively parallel inference*; the law
that is printed there is corrected here.
"""

# %%
# The model
# ---------
# Spins x are +1 or -1, and p(x) is in proportion to exp(J times the sum of x_i x_j over all pairs of
# neighbours). Given its neighbours, a spin is +1 with probability 1 / (1 + exp(-2 h)), where h, J times
# their sum, is its *field*.
#
# `ESCA` asks a model for three methods (`LatentModel`): how to begin, how to draw the latents given the
# parameters, and which parameters fit to what was drawn. Here the latents are spins, the statistics
# their fields, the parameters the probabilities that follow. The first axis of the array is that of
# images, which know nothing of each other.
#
# Spins have colours, and a pass draws those of one colour only, the next pass those of the next. With a
# single colour all are drawn at once.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import ellipk, expit

from skmanifold.models import LatentModel
from skmanifold.samplers import ESCA


class Ising:
    """Spins of many images; `neighbours` makes of an array of spins that of their neighbours' sums."""

    def __init__(self, coupling, neighbours, colours, n_images):
        self.coupling = coupling
        self.neighbours = neighbours
        self.colours = colours
        self.n_images = n_images

    def init_latents(self, key):
        """Spins at random."""
        rng = np.random.default_rng(int(key))
        return self._with_fields(2 * rng.integers(2, size=(self.n_images, *self.colours.shape)) - 1, turn=0)

    def sample_latents(self, position, latents, key):
        """Spins of one colour, all at once."""
        spins, turn = latents
        drawn = np.where(np.random.default_rng(int(key)).random(spins.shape) < position, 1, -1)
        spins = np.where(self.colours == turn, drawn, spins)
        return *self._with_fields(spins, (turn + 1) % (self.colours.max() + 1)), np.nan

    def mode(self, statistics):
        """Probabilities of +1, from fields."""
        return expit(2 * statistics)

    def _with_fields(self, spins, turn):
        return (spins, turn), self.coupling * self.neighbours(spins)


def run(model, n_passes):
    """Spins after each pass."""
    sampler = ESCA()
    state = sampler.init(model, np.uint64(1))
    for _ in range(n_passes):
        state = sampler.step(model, state)
        yield state.latents[0]


# %%
# Three spins
# -----------
# Three spins, each a neighbour of the other two, with J = 0.7. There are eight states, so that
# everything can be enumerated. Drawn all at once, spins have a law of their own: the product over
# *sites* of the hyperbolic cosine of the site's field. It is not the law that was wanted.
#
# In the paper the product is over *edges*, of cosh(J x_i x_j). Each of these factors is cosh(J),
# whatever the spins are: that law would be uniform on every graph. The frequencies of a hundred thousand
# images tell which one is right.


def others(spins):
    return spins.sum(axis=-1, keepdims=True) - spins


J = 0.7
states = 2 * (np.arange(8)[:, np.newaxis] >> np.arange(3) & 1) - 1
fields = J * others(states)
laws = {
    "wanted: exp(sum of J x x)": np.exp(0.5 * (states * fields).sum(axis=1)),
    "over sites: prod cosh(field)": np.cosh(fields).prod(axis=1),
    "over edges, as printed: uniform": np.ones(8),
}
laws = {name: law / law.sum() for name, law in laws.items()}

model = Ising(J, others, np.zeros(3, int), n_images=100_000)
print(f"Is it a LatentModel? {isinstance(model, LatentModel)}")
*_, spins = run(model, 100)
drawn = np.bincount((spins + 1) // 2 @ [1, 2, 4], minlength=8) / model.n_images

print("Total variation between ESCA's frequencies and the law")
for name, law in laws.items():
    print(f"  {name:<32}{0.5 * np.abs(law - drawn).sum():.3f}")

fig, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
for shift, (name, law), color in zip((-0.27, 0, 0.27), laws.items(), ("#3182bd", "#fdae6b", "#d9d9d9"), strict=True):
    ax.bar(np.arange(8) + shift, law, 0.25, color=color, label=name)
ax.plot(np.arange(8), drawn, "o", color="black", markersize=5, label="ESCA's frequencies")
ax.set_xticks(np.arange(8), ["".join("+" if spin > 0 else "\N{MINUS SIGN}" for spin in state) for state in states])
ax.set(xlabel="three spins", ylabel="probability")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="upper center")

# %%
# The automaton likes it best if all are alike, as it should, but not by enough. It is worse than that:
# the hyperbolic cosine is even, so that J and -J have the *same* law. For three spins that want to be
# unlike their neighbours, the automaton still likes it best if all are alike.
#
# A magnet
# --------
# Now 32 x 32 spins on a torus, of which each has four neighbours. Colour them like a checkerboard. The
# neighbours of a black spin are all white, and drawing everything at once takes the new black spins from
# the old white ones, the new white spins from the old black ones. These are two runs that never meet,
# one of black now and white then, the other of white now and black then. Each by itself is right. But an
# image holds half of one and half of the other.
#
# The remedy is in the same picture. Given the white spins the black ones *are* independent. So we draw
# them at once, and then the white ones given the new black ones.

n = 32
at_once, checkerboard = np.zeros((n, n), int), np.indices((n, n)).sum(axis=0) % 2


def four(spins):
    return sum(np.roll(spins, step, axis) for step in (-1, 1) for axis in (-1, -2))


couplings, n_images, n_passes = (0.4, 0.5, -0.5), 8, 1500
alike, last = {}, {}
for coupling in couplings:
    for name, colours in (("at once", at_once), ("checkerboard", checkerboard)):
        history = []
        before = spins = None
        for after in run(Ising(coupling, four, colours, n_images), n_passes):
            before, spins = spins, after
            history.append((spins * four(spins)).mean(axis=(1, 2)) / 4)
        alike[coupling, name], last[coupling, name] = np.array(history), (before, spins)

# %%
# The images
# ----------
# Light spins are +1. At J = 0.5 neighbours should be alike nearly everywhere. Drawn by colours, they
# are. At once, the black half and the white half each settle by themselves, up or down by the toss of a
# coin. Where they settle differently, neighbours are unlike nearly everywhere, and at the next pass
# all have changed sides: the image flickers between two phases, neither of them likely.
#
# At J = -0.5 the same happens with the roles exchanged. What should look like a checkerboard is all up,
# then all down, then all up.


def draw_image(ax, image, title):
    ax.imshow(image, cmap="gray", vmin=-1.4, vmax=1.4, interpolation="nearest")
    ax.set_title(title, fontsize=10)
    ax.set_xticks([])
    ax.set_yticks([])


fig, axes = plt.subplots(2, 3, figsize=(8.4, 5.8), layout="constrained")
for row, coupling in zip(axes, (0.5, -0.5), strict=True):
    wrong = np.argmin(np.sign(coupling) * alike[coupling, "at once"][-1])
    before, after = last[coupling, "at once"]
    draw_image(row[0], before[wrong], f"at once, pass {n_passes - 1}")
    draw_image(row[1], after[wrong], f"at once, pass {n_passes}")
    draw_image(row[2], last[coupling, "checkerboard"][1][0], "checkerboard")
    row[0].set_ylabel(f"J = {coupling}", fontsize=11)

# %%
# Against the exact energy
# ------------------------
# How alike neighbours are, on average over the torus, is the energy but for a factor. Onsager found its
# value for large lattices in 1944, and drawing by colours agrees with it. At once, neighbours have
# nothing to do with each other at J = 0.4. At J = 0.5 the halves settle, alike in some images and unlike
# in the others. Even where the coin fell well the value is too low: halves agree in what they are on
# average, 0.91 up or down, and in nothing else.


def onsager(J):
    """Mean of x_i x_j over neighbours of an infinite square lattice."""
    t = np.tanh(2 * J)
    return 0.5 / t * (1 + 2 / np.pi * (2 * t**2 - 1) * ellipk((2 * np.sinh(2 * J) / np.cosh(2 * J) ** 2) ** 2))


print("Mean of x_i x_j over neighbours, last 500 passes")
print(f"  {'J':>4}  {'exact':>7}  {'checkerboard':>12}  {'at once':>8}")
for coupling in couplings:
    means = [alike[coupling, name][-500:].mean() for name in ("checkerboard", "at once")]
    print(f"  {coupling:4.1f}  {np.sign(coupling) * onsager(abs(coupling)):7.3f}  {means[0]:12.3f}  {means[1]:8.3f}")

fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for ax, coupling in zip(axes, (0.4, 0.5), strict=True):
    for name, color in (("at once", "#e6550d"), ("checkerboard", "#3182bd")):
        lines = ax.plot(alike[coupling, name][::3], color=color, linewidth=0.6, alpha=0.6)
        lines[0].set_label(f"{name}, {n_images} images")
    ax.axhline(onsager(coupling), color="black", linestyle="--", linewidth=1.2, label="exact")
    ax.set(title=f"J = {coupling}", xlabel="pass")
    ax.set_xticks(np.arange(0, 501, 100), np.arange(0, 1501, 300))
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("mean of x_i x_j over neighbours")
axes[1].legend(frameon=False, fontsize=9, loc="center right")

# %%
# The lesson
# ----------
# Latents that are drawn at once must be independent given the parameters. The tokens of documents and
# the rows of mixtures are, and so are *images* of spins: many of them may be drawn at once, as here, as
# long as the spins of each come in turn. A protocol cannot ask whether they are independent; whoever
# writes a model has to know.

plt.show()
