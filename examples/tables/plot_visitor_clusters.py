"""
How many kinds of visitors?
===========================

Thirty thousand visitors of a web site, and the few areas that each of them saw. Which kinds of visitors are there, and
how many? `DPCategoricalMixture` is not told the number: it has a posterior distribution, like everything else.

The visitors are those of www.microsoft.com in a week of February 1998, if ``SKMANIFOLD_DATA`` names a folder that has
them (``msweb_train.npz``, ``msweb_test.npz``, ``msweb_areas.csv``), and else drawn from six kinds.
"""

# %%
# Visitors and areas
# ------------------
# One row a visitor, one column an area of the site; a cell counts visits, of which most have only a few. Some visitors
# are held out.

import os
from pathlib import Path
from textwrap import shorten

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp, softmax

from skmanifold import DPCategoricalMixture


def draw_visitors(n_visitors=8000, n_areas=120, n_kinds=6):
    """Planted kinds: each has areas that it prefers, and shares the others."""
    rng = np.random.default_rng(0)
    popularity = rng.dirichlet(np.full(n_areas, 0.5))
    areas_of_kinds = rng.dirichlet(20 * popularity + 0.01, n_kinds)
    kinds = rng.choice(n_kinds, n_visitors, p=[0.35, 0.25, 0.17, 0.12, 0.07, 0.04])
    visits = sp.csr_array(rng.multinomial(1 + rng.poisson(4, n_visitors), areas_of_kinds[kinds]))
    return visits[:6500], visits[6500:], np.array([f"area {i}" for i in range(n_areas)])


folder = Path(os.environ.get("SKMANIFOLD_DATA", ""))
if (folder / "msweb_train.npz").exists():
    source = "visitors of www.microsoft.com"
    train, test = (sp.load_npz(folder / f"msweb_{part}.npz") for part in ("train", "test"))
    table = np.loadtxt(folder / "msweb_areas.csv", str, delimiter=",", quotechar='"', comments=None, skiprows=1)
    areas = np.char.strip(table[:, 2])
else:
    source = "synthetic visitors of six kinds"
    train, test, areas = draw_visitors()
print(f"Data: {source}; {train.shape[0]} to learn from, {test.shape[0]} held out, {train.shape[1]} areas")
print(f"{train.sum() / train.shape[0]:.1f} visits each")

# %%
# The number of kinds
# -------------------
# By default a chain begins with a hundred clusters of visitors, dealt out at random, and is left with those that it
# needs. It can also begin with one, and split it. With so many rows, clusters are split and merged only now and then:
# if the two disagree, they have not forgotten where they began, and the number is known but roughly. Visitors who were
# held out tell whom to believe. If there is a true, finite number, a Dirichlet process overestimates it (Miller and
# Harrison, 2013).

mixture = DPCategoricalMixture(n_chains=2, max_iter=250, random_state=0, n_jobs=2).fit(train)
from_one = DPCategoricalMixture(init=1, max_iter=250, random_state=0).fit(train)
for name, fitted in (("a hundred", mixture), ("one", from_one)):
    print(f"\nFrom {name}: number of kinds, and its posterior probability")
    for number, probability in enumerate(fitted.n_components_posterior_):
        if probability >= 0.005:
            print(f"  {number:>3}  {probability:4.0%}  {'*' * round(50 * probability)}")
    print(f"  log density of held-out visitors: {fitted.score(test):.3f} nats each")

# %%
# Who they are
# ------------
# The last draw of the first chain, one that began with a hundred, is a plausible account of all visitors. A kind is
# described by the areas that it visits more than all visitors do: those which add most to its divergence from them.
#
# The point partition, ``labels_``, is more careful. It parts visitors only where most draws do, and three visits often
# leave open which of several kinds somebody is. So a few of its components may hold most visitors.

weights, kinds = (mixture.posterior_[name][0, -1] for name in ("weights", "components"))
order = np.argsort(-weights)[: np.sum(weights > 0.005)]  # padding is NaN: not above, and sorted last
weights, kinds = weights[order], kinds[order]
share = np.asarray(train.sum(axis=0)).ravel() + 0.5
share /= share.sum()
lift = kinds / share
typical = np.argsort(-kinds * np.log(lift), axis=1)[:, :3]

print("\nShare  Areas, and how many times as often as by all visitors")
for weight, top, times in zip(weights, typical, lift, strict=True):
    print(f"{weight:5.1%}  {', '.join(f'{areas[area]} ({times[area]:.1f})' for area in top)}")
print(f"Components of the point partition: {mixture.n_components_}; the largest has {mixture.weights_[0]:.0%}")

# %%
# Two visitors
# ------------
# Neither was there when the kinds were learned. First what this draw makes of them; then, from all draws, how probable
# it is that they are of one kind.

two = test[np.flatnonzero(test.sum(axis=1) == 4)[:2]]
belongs = softmax(np.log(weights) + two @ np.log(kinds).T, axis=1)
print()
for name, visitor, probabilities in zip("AB", two.toarray(), belongs, strict=True):
    best = probabilities.argmax()
    print(f"Visitor {name} saw {', '.join(areas[np.flatnonzero(visitor)])}.")
    print(f"  Of the kind that likes {areas[typical[best, 0]]} with probability {probabilities[best]:.2f}")
print(f"Probability that A and B are of one kind: {mixture.co_clustering(two)[0, 1]:.2f}")

# %%
# Was it worth while?
# -------------------
# Visitors who were held out tell. One kind is a single multinomial, smoothed frequencies of the areas. With a number
# of kinds that is fixed, the EM algorithm finds a mixture; the best number has to be tried out.


def score_em(n_kinds, n_iter=40):
    """Mean log density of held-out visitors under a mixture with so many kinds, smoothed like ours."""
    shares = np.random.default_rng(0).dirichlet(np.ones(n_kinds), train.shape[0])
    for _ in range(n_iter):
        weight = np.log(shares.mean(axis=0))
        counts = (train.T @ shares).T + mixture.category_prior
        log_areas = np.log(counts / counts.sum(axis=1, keepdims=True))
        shares = softmax(weight + train @ log_areas.T, axis=1)
    return logsumexp(weight + test @ log_areas.T, axis=1).mean()


numbers = [1, 2, 5, 10, 20, 40]
fixed = np.array([score_em(number) for number in numbers])
learned = mixture.score(test)
print("\nLog density of held-out visitors, nats each (higher is better)")
for number, value in zip(numbers, fixed, strict=True):
    print(f"  {number:>2} kind{' ' if number == 1 else 's'} {value:8.3f}")
print(f"  learned  {learned:8.3f}")

# %%
# The picture
# -----------

accent, pale = "#08519c", "#9ecae1"
figure = plt.figure(figsize=(12, 6), layout="constrained")
figure.suptitle(f"Kinds of visitors ({source})")
grid = figure.add_gridspec(2, 2, width_ratios=[1, 1.15])

ax = figure.add_subplot(grid[:, 0])
places = np.arange(len(weights))
ax.barh(places, 100 * weights, color=pale)
names = [" · ".join(shorten(areas[area], 30, placeholder=" …") for area in top[:2]) for top in typical]
ax.set_yticks(places, names, fontsize=9)
ax.invert_yaxis()
ax.set(xlabel="share of visitors, %", title="kinds of one draw, by their typical areas")

ax = figure.add_subplot(grid[0, 1])
for fitted, name, left, colour in ((mixture, "a hundred", -0.4, accent), (from_one, "one", 0, pale)):
    posterior = fitted.n_components_posterior_
    ax.bar(np.arange(len(posterior)) + left, posterior, 0.4, align="edge", color=colour, label=f"begun with {name}")
ax.set(xlabel="number of kinds", ylabel="probability", title="posterior of their number")
ax.set_xlim(min(np.argmax(fitted.n_components_posterior_ > 0) for fitted in (mixture, from_one)) - 1, None)
ax.xaxis.get_major_locator().set_params(integer=True)
ax.legend(frameon=False)

ax = figure.add_subplot(grid[1, 1])
ax.plot(numbers, fixed, "o-", color=accent, label="number fixed, EM")
ax.axhline(learned, color="black", linestyle="--", linewidth=1.2, label="number learned")
ax.set(xscale="log", xlabel="fixed number of kinds", ylabel="nats a visitor", title="log density of held-out visitors")
ax.set_xticks(numbers, numbers)
ax.minorticks_off()
ax.legend(loc="lower right", frameon=False)
for ax in figure.axes:
    ax.spines[["top", "right"]].set_visible(False)

plt.show()
