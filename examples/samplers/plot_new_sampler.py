"""
A sampler of your own, checked before it runs
=============================================

Every diffusion that leaves a distribution invariant can be written with two matrices: D, positive
semi-definite, says where noise and friction act; Q, skew-symmetric, says what turns into what. That
is the *complete recipe* of Ma, Chen and Fox (2015). `Recipe` makes a sampler of any D and Q, and
`check_recipe` tells whether a sampler, whoever wrote it, is one of them.

We invent a sampler in a few lines, check it, and run it. Then we write it down again by hand, forget a
term, and see what the check says and what the draws would have been.
"""

# %%
# The target
# ----------
# A density in the plane, bent like a banana. Its first coordinate has a marginal density that we
# know: exp(-x^4 / 10), but for a constant.

import matplotlib.pyplot as plt
import numpy as np

from skmanifold import sample
from skmanifold.models import banana
from skmanifold.samplers import InvalidRecipeError, Recipe, check_recipe

target = banana()

# %%
# The sampler
# -----------
# Four variables: a position in the plane and a momentum. Its energy is the target's, minus the log
# density, plus half the momentum squared. On top of plain Hamiltonian dynamics with friction there are
# two ideas.
#
# - A *clock* that runs slower in the arms of the banana, where the forces are steep: the coupling of
#   position and momentum depends on where we are.
# - A *magnetic field*: the two momenta turn into one another, so that paths are curved. It does no
#   work, and needs none of the target's gradients.
#
# Both live in Q. Since Q is not constant, the dynamics need a correction, the divergence of D + Q. Here
# that is the slope of the clock, a force on the momentum. `Recipe` would find it by central differences;
# a formula is faster, and the check will tell whether it is right.

friction, field = 1.0, 2.0


def clock(z):
    return 1 / (1 + z[:, 0] ** 2)


def curl(z):
    Q = np.zeros((len(z), 4, 4))
    Q[:, 0, 2] = Q[:, 1, 3] = -clock(z)
    Q[:, 2, 3] = field
    return Q - Q.mT


def correction(z):
    gamma = np.zeros_like(z)
    gamma[:, 2] = -2 * z[:, 0] * clock(z) ** 2
    return gamma


diffusion = np.diag([0.0, 0.0, friction, friction])
sampler = Recipe(diffusion, curl, correction=correction, n_auxiliary=2, step_size=0.01, vectorized=True)

# %%
# The check
# ---------
# Are the matrices what they must be? Does the drift solve the Fokker-Planck equation, which says that
# the target is stationary? Do real steps move, and scatter, as the drift and D say? No line of the
# report is a promise of speed, but a sampler that fails one has the wrong distribution.

print(check_recipe(sampler, target))

# %%
# The run
# -------
# Left, seventy-five units of time of one chain. It sweeps through the middle, and in the left arm it
# goes in small circles: there the clock is slow, and the field turns it round. Right, the first
# coordinate of all draws. The histogram follows the exact density.

start = np.tile([0.0, -1.2], (500, 1))  # the middle of the banana
settings = {"n_draws": 400, "thin": 40, "burn_in": 4000, "random_state": 0, "n_jobs": 2}
draws = sample(target, sampler, n_chains=500, position=start, **settings)
path = sample(target, sampler, n_draws=1500, thin=5, burn_in=0, n_chains=1, position=start[:1], random_state=1).flat()

x = np.linspace(-3.6, 3.6, 400)
exact = np.exp(-(x**4) / 10)
exact /= np.trapezoid(exact, x)
bins = np.linspace(-3.6, 3.6, 49)

plane = np.stack(np.meshgrid(x, np.linspace(-2.1, 1.0, 300), indexing="ij"), axis=-1)
density = np.exp(target.log_density(plane.reshape(-1, 2))).reshape(plane.shape[:2])

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.contour(plane[..., 0], plane[..., 1], density, levels=[0.02, 0.2, 0.6], colors="black", linewidths=1)
left.plot(*path.T, color="#3182bd", linewidth=0.8, alpha=0.8)
left.set(title="a path, and contours of the target", xlabel="first coordinate", ylabel="second coordinate")


def draw_marginal(ax, draws, title):
    ax.hist(draws.flat()[:, 0], bins, density=True, color="#9ecae1", label="draws")
    ax.plot(x, exact, color="black", linewidth=1.5, label="exact density")
    ax.set(title=title, xlabel="first coordinate", ylabel="density", xlim=(-3.6, 3.6), ylim=(0, 0.42))


draw_marginal(right, draws, "what the sampler draws")
right.legend(loc="upper right", frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)

# %%
# The same, from memory
# ---------------------
# Now the update as one might write it down from physics. Positions move with the momentum, at the
# clock's pace. Momenta follow the gradient at the same pace, lose some to friction, and turn in the
# field. It looks complete. ``drift`` takes such an update in place of what follows from D and Q.


def by_hand(z, gradient):
    momentum, pace = z[:, 2:], clock(z)[:, np.newaxis]
    turned = np.stack([momentum[:, 1], -momentum[:, 0]], axis=1)
    return np.concatenate([pace * momentum, pace * gradient - friction * momentum - field * turned], axis=1)


wrong = Recipe(diffusion, curl, drift=by_hand, n_auxiliary=2, step_size=0.01, vectorized=True)
try:
    check_recipe(wrong, target)
except InvalidRecipeError as error:
    print(error)

# %%
# The check refuses it, and says where: entry 2, the first momentum, lacks a force. It is the slope of
# the clock. Without it a particle lingers where the clock is slow.
#
# What harm would it have done? The wrong sampler has a stationary distribution too: the target divided
# by the clock. It is drawn as a dashed line, and the histogram follows it: two humps in place of one
# plateau. These are good draws, of another distribution. By themselves they would not have told.

wrong_draws = sample(target, wrong, n_chains=500, position=start, **settings)
followed = exact * (1 + x**2)
followed /= np.trapezoid(followed, x)

print("Mean square of the first coordinate")
for name, law in (("the target", exact), ("the target / clock", followed)):
    print(f"  {name:<20}{np.trapezoid(x**2 * law, x):.2f}")
for name, result in (("draws, right", draws), ("draws, by hand", wrong_draws)):
    print(f"  {name:<20}{np.mean(result.flat()[:, 0] ** 2):.2f}")

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
draw_marginal(ax, wrong_draws, "what the wrong sampler would have drawn")
ax.plot(x, followed, color="#a63603", linewidth=1.8, linestyle="--", label="exact density / clock")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(loc="upper right", frameon=False)

plt.show()
