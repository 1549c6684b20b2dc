"""
Choosing the prior of the categories
====================================

In a mixture of categorical tables every component has, in every column, its own probabilities of the categories.
``category_prior`` says what they look like beforehand: small, and a component has one category in a column and hardly
ever another; large, and all are about as probable. It weighs on how many components are found. A search by
cross-validation finds a good one: `score` is the mean log density of rows, higher is better.

The rows are mushrooms, ``mushroom.csv.gz`` in the folder that ``SKMANIFOLD_DATA`` names, or else are drawn from twelve
components.
"""

# %%
# A table of words
# ----------------
# A thousand rows to search with, and the others to judge the outcome. An empty cell is missing.

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from skmanifold import DPCategoricalMixture
from skmanifold.datasets import make_categorical_mixture


def draw_names():
    """Letters for codes, and some empty cells."""
    settings = {"n_categories": 5, "category_prior": 0.2, "missing": 0.02, "random_state": 0}
    codes = make_categorical_mixture(5000, 15, 12, **settings).data
    return np.array([*"abcde", ""])[np.where(np.isnan(codes), 5, codes).astype(int)]


file = Path(os.environ.get("SKMANIFOLD_DATA", "")) / "mushroom.csv.gz"
if file.exists():
    source = "mushrooms"
    names = np.loadtxt(file, str, delimiter=",", comments=None, skiprows=1)[:, :-1]  # without edible or poisonous
else:
    source = "synthetic table of twelve components"
    names = draw_names()
names = np.random.default_rng(0).permutation(names)
table = np.where(names == "", np.nan, names.astype(object))
rows, others = table[:1000], table[1000:]
print(f"Data: {source}; {len(rows)} rows to search with, {len(others)} others, {table.shape[1]} columns")

# %%
# A pipeline
# ----------
# A rare name may be in one fold alone. The encoder turns names that it has not seen into NaN, which the mixture takes
# as missing: such a cell neither costs nor gains anything, whatever the prior. Without these two settings of the
# encoder that fold would have no score.

pipeline = make_pipeline(
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
    DPCategoricalMixture("categorical", random_state=0),
)
folds = KFold(5, shuffle=True, random_state=0)
for column in range(table.shape[1]):
    for train, test in folds.split(rows):
        unseen = set(names[test, column]) - set(names[train, column]) - {""}
        if unseen:
            print(f"  column {column}: {', '.join(sorted(unseen))} not in the other folds")

# %%
# The search
# ----------
# A scorer may return several numbers. We ask for the number of components too, and choose by the density. Where the
# rows come from a finite number of components, a Dirichlet process overestimates it (Miller and Harrison, 2013).


def describe(pipeline, X, y=None):
    return {"log_density": pipeline.score(X), "n_components": pipeline[-1].posterior_["n_components"].mean()}


priors = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
search = GridSearchCV(
    pipeline, {"dpcategoricalmixture__category_prior": priors}, scoring=describe, refit="log_density", cv=folds
)
search.fit(rows)

results = search.cv_results_
scores = np.array([results[f"split{fold}_test_log_density"] for fold in range(5)])
standard_error = scores.std(axis=0, ddof=1) / np.sqrt(5)
n_components = results["mean_test_n_components"]
print("\n  prior  log density of held-out rows  components")
for prior, mean, error, number in zip(priors, scores.mean(axis=0), standard_error, n_components, strict=True):
    print(f"{prior:7.3f}{mean:14.2f} +- {error:.2f}{number:20.1f}")

# %%
# What it is good for
# -------------------
# The prior that was chosen, and the default, on rows that the search has not seen.

default = pipeline.fit(rows)
chosen = search.best_params_["dpcategoricalmixture__category_prior"]
print("\nLog density of the other rows, nats each")
for prior, fitted in ((chosen, search.best_estimator_), (default[-1].category_prior, default)):
    print(f"  category_prior={prior:<6}{fitted.score(others):8.2f}")

# %%
# The picture
# -----------
# With too large a prior components are blurred, and there are few of them. With too small a one a component takes
# what it has not seen for next to impossible, and a new row that has it pays dearly. (Bars: standard errors over the
# folds. Folds differ for every prior alike, so that differences between priors are surer than the bars suggest.)

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
figure.suptitle(f"Choosing the prior of the categories ({source})")
left.errorbar(priors, scores.mean(axis=0), standard_error, fmt="o-", color="#08519c", capsize=3)
left.axvline(chosen, color="grey", linestyle="--", linewidth=1)
left.set(ylabel="nats a row, and standard error", title="log density of held-out rows")
spread = [results[f"split{fold}_test_n_components"] for fold in range(5)]
right.plot(priors, np.transpose(spread), ".", color="#9ecae1")
right.plot(priors, n_components, "o-", color="#08519c")
right.axvline(chosen, color="grey", linestyle="--", linewidth=1, label="chosen")
right.set(ylabel="components, mean of the draws", title="number of components", ylim=(0, None))
right.legend(frameon=False)
for ax in (left, right):
    ax.set(xscale="log", xlabel="category_prior")
    ax.set_xticks(priors, [f"{prior:g}" for prior in priors])
    ax.minorticks_off()
    ax.spines[["top", "right"]].set_visible(False)

plt.show()
