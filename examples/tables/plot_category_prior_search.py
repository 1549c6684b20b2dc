"""
Choosing the category prior by cross-validation
===============================================

In a mixture model of a categorical table, each component has probabilities of the categories of
every column. The parameter ``category_prior`` of `DPCategoricalMixture` is the concentration of
their Dirichlet prior. Which value suits a given table? This example chooses one with
`GridSearchCV`. It shows how to put the encoder and the mixture in one pipeline, how to handle
categories that are rare, and how the prior changes the number of components.
"""

# %%
# Data
# ----
# We simulate a table of strings with 15 columns and 12 components. Two percent of the cells are
# empty, and one category of the first column occurs in a single row. We search with 800 rows and
# evaluate the result on the others.
#
# A real table of this type is the mushroom data set: ``table = fetch_openml("mushroom",
# version=1).data.to_numpy()``.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from skmanifold import DPCategoricalMixture
from skmanifold.datasets import make_categorical_mixture

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

n_components = 12
codes = make_categorical_mixture(
    4000, 15, n_components, n_categories=5, category_prior=0.2, missing=0.02, random_state=0
).data
table = np.full(codes.shape, np.nan, dtype=object)
known = ~np.isnan(codes)
table[known] = np.array(list("abcde"))[codes[known].astype(int)]
table[0, 0] = "rare"
rows, evaluation_rows = table[:800], table[800:]
print(f"{len(rows)} rows for the search, {len(evaluation_rows)} for the evaluation")
print(rows[:4, :8])

# %%
# Pipeline
# --------
# `OrdinalEncoder` turns strings into integer codes. A rare category can be absent from the training
# rows of a fold, as the output below shows. The encoder then encodes it as NaN, and the mixture
# treats NaN as a missing value, which does not change the density of the row. Without these two
# parameters of the encoder the score of such a fold would be NaN.

pipeline = make_pipeline(
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
    DPCategoricalMixture("categorical", random_state=0),
)
folds = KFold(5, shuffle=True, random_state=1)
print("fold   training rows with 'rare'   test rows with 'rare'")
for fold, (train, test) in enumerate(folds.split(rows)):
    counts = [np.sum(rows[part, 0] == "rare") for part in (train, test)]
    print(f"{fold:4}{counts[0]:28}{counts[1]:24}")

# %%
# Search
# ------
# The score of the mixture is the mean log density of held-out rows, in nats per row. The scorer
# below also returns the posterior mean of the number of components. ``refit`` names the score that
# selects the best value.


def density_and_size(pipeline, X, y=None):
    n_components = pipeline[-1].posterior_["n_components"].mean()
    return {"log_density": pipeline.score(X), "n_components": n_components}


priors = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
search = GridSearchCV(
    pipeline,
    {"dpcategoricalmixture__category_prior": priors},
    scoring=density_and_size,
    refit="log_density",
    cv=folds,
).fit(rows)

scores, sizes = (
    np.array([search.cv_results_[f"split{fold}_test_{name}"] for fold in range(5)])
    for name in ("log_density", "n_components")
)
chosen = search.best_params_["dpcategoricalmixture__category_prior"]
standard_error = scores.std(axis=0, ddof=1) / np.sqrt(len(scores))
print("category_prior   log density (nats per row)   components")
lines = zip(priors, scores.mean(axis=0), standard_error, sizes.mean(axis=0), strict=True)
for prior, score, error, size in lines:
    print(f"{prior:14.2f}{score:17.2f} +- {error:.2f}{size:18.1f}")

fig, ax = plt.subplots()
ax.errorbar(priors, scores.mean(axis=0), standard_error, fmt="o-", color="C0", capsize=3)
ax.axvline(chosen, color="C1", linestyle="--", label="chosen value")
ax.set(xscale="log", xlabel="category_prior", ylabel="held-out log density (nats per row)")
ax.set_xticks(priors, [f"{prior:g}" for prior in priors])
ax.minorticks_off()
ax.set_title("Cross-validated score (bars: standard error over folds)")
ax.legend()

# %%
# The score has a maximum near the value that generated the data, 0.2. With a larger prior, the
# category probabilities of all components are pulled towards the uniform distribution. With a
# smaller prior, a component assigns very low probability to a category that it has not seen, and a
# new row that contains the category has a very low density. The bars show standard errors over the
# folds. All priors are affected by the same differences between folds, so the differences between
# priors are more certain than the bars suggest.

fig, ax = plt.subplots()
ax.plot(priors, sizes.T, ".", color="C4")
ax.plot(priors, sizes.mean(axis=0), "o-", color="C0", label="mean over folds")
ax.plot([], [], ".", color="C4", label="single folds")
ax.axhline(n_components, color="0.35", linestyle=":", label="simulated number")
ax.axvline(chosen, color="C1", linestyle="--", label="chosen value")
ax.set(xscale="log", xlabel="category_prior", ylabel="number of components (posterior mean)")
ax.set_xticks(priors, [f"{prior:g}" for prior in priors])
ax.minorticks_off()
ax.set_title("Number of components in each fit")
ax.legend()

# %%
# A smaller prior gives more components. If the data come from a finite number of components, a
# Dirichlet process mixture tends to overestimate it (Miller and Harrison, 2013), so the number of
# components is not a criterion for the prior. Select the prior by the held-out log density.
#
# Evaluation on new rows
# ----------------------
# ``best_estimator_`` is fitted to all rows of the search. We compare it with the default prior on
# the rows that were not part of the search.

default = pipeline.fit(rows)
print("category_prior    log density of new rows (nats per row)")
for prior, name, fitted in (
    (chosen, "chosen ", search.best_estimator_),
    (default[-1].category_prior, "default", default),
):
    print(f"{prior:8.2f} {name}{fitted.score(evaluation_rows):12.2f}")

plt.show()

# %%
# The chosen prior gives a slightly higher density than the default. For this table the default is
# close to the best value; for tables with many rare categories the difference can be larger.
