"""
Grid search over samplers and their settings
============================================

A sampler is a parameter of its estimator, so a grid search can choose it together with its
settings. Does the choice of the sampler change the held-out score, and what does each sampler cost?
This example searches over five samplers of latent Dirichlet allocation in a pipeline that starts
from texts. It shows how to write such a grid and how to compare the results.
"""

# %%
# Texts
# -----
# The texts are docstrings of NumPy, SciPy, scikit-learn and the standard library. One fifth of them
# are test texts, which the search does not use. For a larger corpus replace one line, for example
# by ``texts = fetch_20newsgroups(remove=("headers", "footers", "quotes")).data``.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.pipeline import Pipeline

from skmanifold import StochasticLDA
from skmanifold.datasets import load_docstrings
from skmanifold.models import IncompatibleError
from skmanifold.samplers import ESCA, GMC, SCIR

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

texts = load_docstrings(max_documents=800).data
train, test = train_test_split(texts, test_size=0.2, random_state=0)
print(f"{len(train)} texts for the search, {len(test)} test texts")

# %%
# The grid
# --------
# A name such as ``"gibbs"`` selects a sampler with suitable settings. An instance such as
# ``SCIR()`` has parameters, and the grid sets them by their names with two underscores:
# ``lda__sampler__step_size`` is the parameter ``step_size`` of the sampler of the step ``lda``.
# Each fit uses a clone of the sampler.

pipeline = Pipeline(
    [
        (
            "counts",
            CountVectorizer(
                token_pattern=r"\b[a-z]{3,}\b",
                stop_words="english",
                min_df=5,
                max_df=0.2,
            ),
        ),
        ("lda", StochasticLDA(15, max_iter=40, random_state=0)),
    ]
)
grid = [
    {"lda__sampler": ["gibbs", "collapsed_gibbs", "cvb0"]},
    {"lda__sampler": [ESCA()], "lda__sampler__n_average": [1, 20]},
    {"lda__sampler": [SCIR()], "lda__sampler__step_size": [0.03, 0.1, 0.3]},
]
search = GridSearchCV(pipeline, grid, cv=KFold(3, shuffle=True, random_state=0))
search.fit(train)
print(f"{len(search.cv_results_['params'])} candidates, {search.n_splits_} folds")

# %%
# Scores
# ------
# The score is the mean log probability of a held-out token, in nats. Some folds are harder to
# predict than others, for all candidates. We therefore compute the difference to the best candidate
# in each fold, and the standard error (SE) of the mean difference.

results = search.cv_results_
scores = np.stack([results[f"split{fold}_test_score"] for fold in range(3)], axis=1)
difference = scores - scores[search.best_index_]
mean = difference.mean(axis=1)
error = difference.std(axis=1, ddof=1) / np.sqrt(3)
seconds = results["mean_fit_time"]


def describe(params):
    sampler, *settings = params.values()
    name = sampler if isinstance(sampler, str) else type(sampler).__name__
    keys = [key.rpartition("__")[2] for key in list(params)[1:]]
    return ", ".join([name, *(f"{k}={v}" for k, v in zip(keys, settings, strict=True))])


labels = [describe(params) for params in results["params"]]
order = np.argsort(-mean)
print(f"{'Sampler':<22}  Score   Difference to best (SE)")
for i in order:
    print(f"{labels[i]:<22}  {scores[i].mean():.3f}  {mean[i]:8.3f} ({error[i]:.3f})")

# %%
# The figure shows the differences and their standard errors.

fig, ax = plt.subplots(figsize=(5.6, 3.8))
rows = np.arange(len(order))
ax.errorbar(mean[order], rows, xerr=error[order], fmt="o", capsize=3)
ax.axvline(0, color="0.5", linestyle="--")
ax.set_yticks(rows, [labels[i] for i in order])
ax.invert_yaxis()
ax.set_xlabel("score minus best score (nats per token)")
ax.locator_params(axis="x", nbins=5)
plt.show()

# %%
# The step size of SCIR changes its score as much as the choice of the sampler does. With the
# smallest step size, the topics change too slowly for 40 passes. The number of passes that ESCA
# averages, ``n_average``, makes no clear difference here.
#
# The score of the best candidate in the search is slightly optimistic, because it is the highest of
# several. The test texts were not used in the search, so their score is not biased. It also differs
# because other texts can be easier or harder to predict.

print(f"Best candidate: {labels[search.best_index_]}")
print(f"Score of the test texts: {search.score(test):.3f} nats per token")

# %%
# Time
# ----
# ``GridSearchCV`` also records how long each fit takes. Times depend on the computer.

fig, ax = plt.subplots(figsize=(5.6, 3.8))
ax.barh(rows, seconds[order])
ax.set_yticks(rows, [labels[i] for i in order])
ax.invert_yaxis()
ax.set_xlabel("time of one fit (seconds)")
plt.show()

# %%
# If scores are equal within their errors, choose by time or by the result that you need. Gibbs
# sampling, collapsed Gibbs sampling and SCIR draw topics from their posterior and therefore give
# credible intervals. ESCA is fast and estimates the topics. ESCA and SCIR can also be fitted to
# streams.
#
# Combinations that do not work
# -----------------------------
# Some samplers cannot be used with a model. ``fit`` then raises an error before it starts.

try:
    pipeline.set_params(lda__sampler=GMC()).fit(train)
except IncompatibleError as error:
    print(error)
