"""
Number and form of Gaussian components
======================================

A Gaussian mixture has two choices: the number of components, and the form of their covariances. One
search of scikit-learn makes both, by BIC, by ICL or by the density of held-out rows. This example
shows that the three answer different questions.
"""

# %%
# Data
# ----
# The rows are 569 breast tumours, of which three measurements of cell nuclei are used. The
# diagnosis is known but is not part of the data. The columns are scaled, because spherical
# components depend on the scale.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, KFold

from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import Gaussian
from skmanifold.inspection import CriteriaDisplay, MixtureDisplay
from skmanifold.metrics import bic_scorer, bootstrap_components_test, icl_scorer

# sphinx_gallery_thumbnail_number = 3
plt.style.use("skmanifold.inspection.skmanifold")

cancer = load_breast_cancer(as_frame=True)
tumours = cancer.data[["worst area", "worst smoothness", "mean texture"]]
tumours = (tumours - tumours.mean()) / tumours.std()
diagnosis = cancer.target_names[cancer.target]

# %%
# One search, two criteria
# ------------------------
# `bic_scorer` and `icl_scorer` are the scoring of a grid search. Criteria are about the fitted
# rows, so there is one "fold" with all rows in both parts. The scorers return negative criteria,
# so that higher is better in every panel.

mixture = ExponentialFamilyMixture(emission=Gaussian(), sampler="em", max_iter=1000, random_state=0)
grid = {
    "n_components": range(1, 9),
    "emission__covariance_type": ["spherical", "diag", "tied", "full"],
}
rows = np.arange(len(tumours))
scoring = {"bic": bic_scorer, "icl": icl_scorer}
search = GridSearchCV(mixture, grid, scoring=scoring, refit="bic", cv=[(rows, rows)]).fit(tumours)
CriteriaDisplay.from_search(search)

# %%
# The default scoring is the mean log density of held-out rows. `refit` fits the best combination
# to all rows.

folds = KFold(5, shuffle=True, random_state=0)
held_out = GridSearchCV(mixture, grid, cv=folds).fit(tumours)
CriteriaDisplay.from_search(held_out)

# %%
# Three answers
# -------------
# We compare the three mixtures with the diagnosis. The adjusted Rand index is 1 if the components
# are the two diagnoses, and 0 for random labels.

by_icl = search.cv_results_["params"][np.argmax(search.cv_results_["mean_test_icl"])]
chosen = {
    "BIC": search.best_estimator_,
    "ICL": clone(mixture).set_params(**by_icl).fit(tumours),
    "held-out rows": held_out.best_estimator_,
}
table = pd.DataFrame(
    {
        name: {
            "components": fitted.n_components,
            "form": fitted.emission.covariance_type,
            "adjusted Rand index": round(adjusted_rand_score(diagnosis, fitted.labels_), 2),
        }
        for name, fitted in chosen.items()
    }
)
print(table.T)

# %%
# Held-out rows prefer the most components, because each of them describes a part of the density.
# BIC demands more of each parameter. ICL also demands that components do not overlap, and it
# finds two groups, which agree best with the diagnosis. The measurements of both diagnoses are
# skewed, so that a better density has several components for each.
#
# Figures of a mixture
# --------------------
# `MixtureDisplay` shows rows in two columns, or in the first two principal components: the most
# probable component of each row, the probability that it belongs to another, and the density.

fig, axes = plt.subplots(2, 2, figsize=(10.4, 7.6), layout="constrained")
two = chosen["ICL"]
columns = ["worst area", "worst smoothness"]
MixtureDisplay.from_estimator(two, tumours, columns=columns, ax=axes[0, 0])
axes[0, 0].set_title("ICL")
MixtureDisplay.from_estimator(chosen["BIC"], tumours, columns=columns, ax=axes[0, 1])
axes[0, 1].set_title("BIC")
MixtureDisplay.from_estimator(two, tumours, response="uncertainty", ax=axes[1, 0])
axes[1, 0].set_title("uncertainty of ICL's components")
MixtureDisplay.from_estimator(chosen["BIC"], tumours, response="density", ax=axes[1, 1])
axes[1, 1].set_title("density of BIC's mixture")

print(two.summary(tumours))

# %%
# Uncertain tumours lie where the two components overlap. Most malignant tumours in the component
# of the benign ones are uncertain:

uncertain = two.uncertainty(tumours) > 0.2
wrong = pd.crosstab(pd.Series(two.labels_, name="component"), [diagnosis, uncertain])
print(wrong.rename_axis(columns=["diagnosis", "uncertain"]))

# %%
# Is one more component needed?
# -----------------------------
# The bootstrap test of two against three components draws tables from the fitted mixture of two
# components, and fits both mixtures to each of them. If the likelihood ratio of the tumours is
# larger than nearly all of those, two components *of this form* do not describe the density.

test = bootstrap_components_test(two, tumours, n_bootstrap=39, random_state=0)
fig, ax = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
ax.hist(test.drawn_statistics, bins=12, label="drawn from two components")
ax.axvline(test.statistic, color="C5", label=f"tumours, p = {test.p_value:.3f}")
ax.set(xlabel="likelihood ratio statistic", ylabel="number of tables")
ax.legend()

plt.show()

# %%
# The test agrees with BIC: the density needs more components. This does not contradict ICL, which
# asks for groups.
#
# In short: use ICL for groups, BIC or held-out rows for a density, and look at the curves. Where
# the best combinations differ little, the choice is not certain.
