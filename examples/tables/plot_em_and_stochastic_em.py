"""
EM and stochastic EM
====================

EM averages over what it does not know, stochastic EM draws it. One would think that draws cost something. On many rows
they cost next to nothing: from the same start the two go the same way, and how long the noise is remembered can be told
beforehand, from how much of the information is missing.

The experiment is that of Zaheer, Wick, Tristan, Smola and Steele (2016), *Exponential stochastic cellular automata for
massively parallel inference*, appendix A: thirty Gaussians in the plane, 100,000 rows to train on, 1,000 to test on.
"""

# %%
# Rows
# ----
# Thirty components of all shapes, some of them on top of each other. Of the test rows we know what the generator itself
# would score: nobody can expect more.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from skmanifold import ExponentialFamilyMixture, HeldOutMonitor
from skmanifold.samplers import EM, ESCA

n_components, n_train, n_test = 30, 100_000, 1000
rng = np.random.default_rng(3)
means = rng.uniform(-10, 10, (n_components, 2))
roots = rng.normal(0, 0.9, (n_components, 2, 2))
covariances = roots @ roots.transpose(0, 2, 1) + 0.15 * np.eye(2)
weights = rng.dirichlet(np.full(n_components, 5.0))


def draw_rows(n):
    labels = rng.choice(n_components, n, p=weights)
    noise = np.einsum("nij,nj->ni", np.linalg.cholesky(covariances)[labels], rng.normal(size=(n, 2)))
    return means[labels] + noise


X, X_test = draw_rows(n_train), draw_rows(n_test)
terms = [np.log(weights[k]) + multivariate_normal(means[k], covariances[k]).logpdf(X_test) for k in range(n_components)]
of_generator = logsumexp(terms, axis=0).mean()

# %%
# Two starts, two algorithms
# --------------------------
# A start is thirty rows; every row begins with the component of the one that is nearest. The good start takes the
# thirty anywhere, the bad one from a corner, so that one component begins with a third of all rows and most with very
# few. Both algorithms have both, and scikit-learn's monitor asks for the test score after each pass.


def nearest(seeds):
    return ((X[:, np.newaxis] - seeds) ** 2).sum(axis=2).argmin(axis=1)


corner = X[np.argsort(((X - 10) ** 2).sum(axis=1))[: n_train // 20]]
starts = {
    "anywhere": nearest(X[rng.choice(n_train, n_components, replace=False)]),
    "from a corner": nearest(corner[rng.choice(len(corner), n_components, replace=False)]),
}
samplers = {"EM": EM(tol=0), "stochastic EM": ESCA()}

fitted, scores = {}, {}
print(f"Log density of test rows, nats a row; of the generator {of_generator:.3f}")
print("  start          algorithm        10 passes   30   100")
for start, labels in starts.items():
    for name, sampler in samplers.items():
        monitor = HeldOutMonitor(X_test)
        mixture = ExponentialFamilyMixture(
            n_components, sampler=sampler, init=labels, max_iter=100, burn_in=70, random_state=0, n_jobs=-1
        )
        fitted[start, name] = mixture.set_callbacks(monitor).fit(X)
        trace = [row["score"] for row in monitor.get_logs().data if row["task_name"] == "pass"]
        scores[start, name] = np.array(trace)
        print(f"  {start:<15}{name:<16}{trace[9]:9.3f}{trace[29]:8.3f}{trace[99]:8.3f}")

# %%
# From a good start they go hand in hand: thousands of rows move as their average does. From the corner they do so as
# far as a plateau, where hardly anything pulls, and which noise leaves sooner; EM follows some thirty passes later.
# Neither gets to where the good start leads. So noise saves waiting, but a bad start stays one, and it takes several
# starts (``n_chains``) to be rid of it.
#
# How long is the noise remembered?
# ---------------------------------
# A pass of EM takes a distance from the maximum times the share of the information that is missing, because nobody says
# which component a row is of. Stochastic EM forgets at the same rate. Where two groups overlap we can watch both: EM's
# steps to the maximum, which shrink by that factor, and the autocorrelation of the weight that stochastic EM goes
# through.

groups = np.concatenate([rng.normal(-1.2, 1.0, 600), rng.normal(1.2, 1.0, 400)])[:, np.newaxis]
settings = {"burn_in": 0, "thin": 1, "random_state": 0}
steps = ExponentialFamilyMixture(2, sampler=EM(tol=1e-13), max_iter=2000, **settings).fit(groups)
distance = np.abs(np.diff(steps.posterior_["weights"][0, :, 0]))
missing = np.median((distance[1:] / distance[:-1])[len(distance) // 4 : len(distance) // 2])

wander = ExponentialFamilyMixture(2, sampler=ESCA(), init=steps.labels_, max_iter=12_000, **settings).fit(groups)
weight = wander.posterior_["weights"][0, 200:, 0] - wander.posterior_["weights"][0, 200:, 0].mean()
lags = np.arange(60)
correlation = np.array([np.mean(weight[lag:] * weight[: len(weight) - lag]) for lag in lags]) / weight.var()
print("\nTwo groups that overlap")
print(f"  share of the information that is missing, by EM's steps:  {missing:.3f}")
print(f"  share of SEM's distance that is left after twenty passes: {correlation[20]:.2f}; EM's: {missing**20:.2f}")

# %%
# The picture
# -----------
# Above, the scores (EM dashed and on top), and the memory of stochastic EM. Below, what was found from the bad start,
# drawn as ellipses that hold 86 percent of a component each. There are still too many in the corner, and elsewhere
# single ellipses do the work of several.

blue, red, ink = "#2166ac", "#b2182b", "#333333"
fig, axes = plt.subplots(2, 2, figsize=(11, 9.5), layout="constrained")
ax = axes[0, 0]
passes = np.arange(1, 101)
for (start, name), trace in scores.items():
    colour = blue if start == "anywhere" else red
    if name == "EM":
        ax.plot(passes, trace, color=ink, linestyle=(0, (4, 4)), linewidth=1.2, zorder=3)
    else:
        ax.plot(passes, trace, color=colour, linewidth=3.5, alpha=0.6, label=f"start {start}")
ax.plot([], [], color=ink, linestyle=(0, (4, 4)), linewidth=1.2, label="EM, the same start")
ax.axhline(of_generator, color="grey", linewidth=1)
ax.annotate("the generator", (100, of_generator), (0, 4), textcoords="offset points", ha="right", color="grey")
ax.set(xscale="log", xlabel="passes", ylabel="nats a row", title="log density of test rows: stochastic EM and EM")
ax.legend(frameon=False)

ax = axes[0, 1]
ax.plot(lags, correlation, color=blue, linewidth=3.5, alpha=0.6, label="autocorrelation of stochastic EM's weight")
ax.plot(lags, missing**lags, color=ink, linestyle=(0, (4, 4)), linewidth=1.2, label="what EM leaves of a distance")
ax.axhline(0, color="grey", linewidth=1)
ax.set(xlabel="passes", title="two groups that overlap: forgetting")
ax.legend(frameon=False)

for ax, name, colour in zip(axes[1], samplers, (ink, red), strict=True):
    mixture = fitted["from a corner", name]
    ax.scatter(*X[::25].T, s=2, color="#cccccc", linewidths=0)
    for mean, covariance in zip(mixture.components_, mixture.covariances_, strict=True):
        lengths, axes_of = np.linalg.eigh(covariance)
        angle = np.degrees(np.arctan2(axes_of[1, 1], axes_of[0, 1]))
        width, height = 4 * np.sqrt(lengths[::-1])
        ax.add_patch(Ellipse(mean, width, height, angle=angle, fill=False, edgecolor=colour, linewidth=1.3))
    ax.set(title=f"{name} from the corner: {scores['from a corner', name][-1]:.3f} nats", xticks=[], yticks=[])
    ax.set_aspect("equal")
for ax in axes.flat:
    ax.spines[["top", "right"]].set_visible(False)

plt.show()
