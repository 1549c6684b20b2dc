"""
EM and stochastic EM for a Gaussian mixture
===========================================

In each pass the EM algorithm computes the probabilities of the components of every row. Stochastic
EM draws one component per row instead. Does this randomness slow down the fit? This example fits 30
Gaussians in the plane with both algorithms, from a good and from a bad initialisation. It shows
that they progress at the same rate, that random draws can help after a bad initialisation, and how
the share of missing information determines the speed of EM and the autocorrelation of stochastic
EM.

The experiment follows appendix A of Zaheer, Wick, Tristan, Smola and Steele (2016), *Exponential
stochastic cellular automata for massively parallel inference*.
"""

# %%
# Data
# ----
# The data are 60,000 training rows and 1,000 test rows from a mixture of 30 Gaussians, some of
# which overlap. Because the data are simulated, we can compute the mean log density of the test
# rows under the true distribution. On average over test sets, no fit can exceed it.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from skmanifold import ExponentialFamilyMixture, HeldOutMonitor
from skmanifold.samplers import EM, ESCA

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

n_components, n_train, n_test = 30, 60_000, 1000
rng = np.random.default_rng(3)
means = rng.uniform(-10, 10, (n_components, 2))
roots = rng.normal(0, 0.9, (n_components, 2, 2))
covariances = roots @ roots.transpose(0, 2, 1) + 0.15 * np.eye(2)
weights = rng.dirichlet(np.full(n_components, 5.0))


def draw_rows(n):
    labels = rng.choice(n_components, n, p=weights)
    factors = np.linalg.cholesky(covariances)[labels]
    return means[labels] + np.einsum("nij,nj->ni", factors, rng.normal(size=(n, 2)))


X, X_test = draw_rows(n_train), draw_rows(n_test)
components = [multivariate_normal(*pair) for pair in zip(means, covariances, strict=True)]
log_terms = [np.log(w) + c.logpdf(X_test) for w, c in zip(weights, components, strict=True)]
true_score = logsumexp(log_terms, axis=0).mean()
print(f"Log density of test rows under the true distribution: {true_score:.3f} nats per row")

# %%
# Two initialisations, two algorithms
# -----------------------------------
# Each initialisation selects 30 rows as centres and assigns every row to the nearest centre. The
# good one selects the centres from all rows. The bad one selects them from one corner of the data,
# so that one component starts with a large part of the rows. `ESCA` is the sampler for stochastic
# EM. `HeldOutMonitor` computes the score of the test rows after every pass.


def nearest(centres):
    return ((X[:, np.newaxis] - centres) ** 2).sum(axis=2).argmin(axis=1)


corner = X[np.argsort(((X - 10) ** 2).sum(axis=1))[: n_train // 20]]
initial_labels = {
    "all rows": nearest(X[rng.choice(n_train, n_components, replace=False)]),
    "one corner": nearest(corner[rng.choice(len(corner), n_components, replace=False)]),
}
samplers = {"EM": EM(tol=0), "stochastic EM": ESCA()}

fitted, scores = {}, {}
print("Log density of test rows (nats per row) after")
print("  centres from   algorithm       10 passes   30 passes   100 passes")
for centres, labels in initial_labels.items():
    for name, sampler in samplers.items():
        monitor = HeldOutMonitor(X_test)
        mixture = ExponentialFamilyMixture(
            n_components, sampler=sampler, init=labels, max_iter=100, burn_in=70, random_state=0
        )
        fitted[centres, name] = mixture.set_callbacks(monitor).fit(X)
        logs = monitor.get_logs().data
        trace = np.array([row["score"] for row in logs if row["task_name"] == "pass"])
        scores[centres, name] = trace
        print(f"  {centres:<15}{name:<14}{trace[9]:11.3f}{trace[29]:12.3f}{trace[99]:13.3f}")

fig, ax = plt.subplots()
passes = np.arange(1, 101)
for centres, color in (("all rows", "C0"), ("one corner", "C1")):
    for name, style in (
        ("stochastic EM", {"color": color, "linewidth": 4, "alpha": 0.6}),
        ("EM", {"color": "black", "linestyle": "--" if color == "C0" else ":"}),
    ):
        ax.plot(passes, scores[centres, name], label=f"{name}, centres from {centres}", **style)
ax.axhline(true_score, color="0.35", linewidth=1, label="true distribution")
ax.set(xscale="log", xlabel="passes over the data", ylabel="test log density (nats per row)")
ax.set_ylim(top=true_score + 0.02)
ax.set_xticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
ax.set_title("EM and stochastic EM from the same initial labels")
ax.legend(loc="center left", bbox_to_anchor=(0, 0.6))

# %%
# From the good initialisation the two curves coincide. The draws of thousands of rows average out
# in each pass. From the bad initialisation the curves agree for the first passes and then reach
# plateaus, where the likelihood changes little from pass to pass. There, random draws can move a
# component that EM leaves almost in place, and in this run stochastic EM ends with the higher
# score. Neither algorithm reaches the score of the good initialisation. Random draws therefore do
# not replace several initialisations (``n_chains``).
#
# Fitted components
# -----------------
# The next figure shows the components that were fitted from the bad initialisation. Each ellipse
# contains 86% of the mass of a component; dots are a sample of the rows.

fig, axes = plt.subplots(1, 2, figsize=(9.5, 4.8), sharex=True, sharey=True)
for ax, name in zip(axes, samplers, strict=True):
    mixture = fitted["one corner", name]
    ax.scatter(*X[::20].T, s=3, color="0.75", linewidths=0)
    for mean, covariance in zip(mixture.components_, mixture.covariances_, strict=True):
        variances, directions = np.linalg.eigh(covariance)
        angle = np.degrees(np.arctan2(directions[1, 1], directions[0, 1]))
        width, height = 4 * np.sqrt(variances[::-1])
        ellipse = Ellipse(mean, width, height, angle=angle, fill=False, edgecolor="C0", lw=1.4)
        ax.add_patch(ellipse)
    ax.set(xlabel="feature 1", aspect="equal")
    ax.set_title(f"{name}: {scores['one corner', name][-1]:.3f} nats per test row")
axes[0].set_ylabel("feature 2")

# %%
# Both fits still have too many small components in the upper right corner. Elsewhere a single
# ellipse covers several clusters.
#
# How fast do the algorithms converge?
# ------------------------------------
# Close to the maximum, each pass of EM multiplies the distance to the maximum by the share of
# missing information: the share of the information in complete data (rows with known components)
# that the rows alone do not contain. The draws of stochastic EM have an autocorrelation that decays
# at the same rate. We check this for two Gaussians that overlap. We estimate the share from the
# steps of EM, which shrink by this factor, and compare its powers with the autocorrelation of the
# weight of a component in stochastic EM.

groups = np.concatenate([rng.normal(-1.2, 1.0, 600), rng.normal(1.2, 1.0, 400)])[:, np.newaxis]
settings = {"burn_in": 0, "thin": 1, "random_state": 0}
em = ExponentialFamilyMixture(2, sampler=EM(tol=1e-13), max_iter=2000, **settings).fit(groups)
steps = np.abs(np.diff(em.posterior_["weights"][0, :, 0]))
ratios = steps[1:] / steps[:-1]
missing = np.median(ratios[len(steps) // 4 : len(steps) // 2])

stochastic = ExponentialFamilyMixture(2, sampler=ESCA(), init=em.labels_, max_iter=12_000)
stochastic.set_params(**settings).fit(groups)
weight = stochastic.posterior_["weights"][0, 200:, 0]
weight = weight - weight.mean()
lags = np.arange(200)
covariance = [np.mean(weight[lag:] * weight[: len(weight) - lag]) for lag in lags]
correlation = np.array(covariance) / weight.var()
print(f"Share of missing information, estimated from EM:  {missing:.3f}")
print(f"EM, distance left after 20 passes:                {missing**20:.2f}")
print(f"Stochastic EM, autocorrelation at lag 20:         {correlation[20]:.2f}")

fig, ax = plt.subplots()
label = "stochastic EM: autocorrelation of the weight"
ax.plot(lags, correlation, color="C0", linewidth=4, alpha=0.6, label=label)
ax.plot(lags, missing**lags, "k--", label="EM: share of the distance that remains")
ax.axhline(0, color="0.35", linewidth=1)
ax.set(xlabel="passes", ylabel="remaining share", title="Two overlapping Gaussians")
ax.legend()

plt.show()

# %%
# The two curves agree. With overlapping components nearly all information about the components is
# missing, and both algorithms need many passes. If components are well separated, the share is
# close to zero and a few passes are enough.
