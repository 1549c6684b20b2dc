"""
Early stopping with a held-out score
====================================

How many passes does a fit need? ``HeldOutMonitor`` holds out some rows during the fit, scores them
after every few passes, and stops the fit when the score no longer improves. This example shows how
to use it in a pipeline and in a grid search, how to read its log, and why the monitored score is
not an unbiased estimate of the score of new data.
"""

# %%
# Texts
# -----
# The texts are docstrings of NumPy, SciPy, scikit-learn and the standard library. One fifth of them
# are test texts, which no fit uses. For a larger corpus replace one line, for example by ``texts =
# fetch_20newsgroups(remove=("headers", "footers", "quotes")).data``.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

from skmanifold import HeldOutMonitor, StochasticLDA
from skmanifold.datasets import load_docstrings

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

texts = load_docstrings(max_documents=1500).data
train, test = train_test_split(texts, test_size=0.2, random_state=0)
print(f"{len(train)} training texts, {len(test)} test texts")

# %%
# A monitor in a pipeline
# -----------------------
# The monitor is a callback of the last step of the pipeline. It holds out a tenth of the rows that
# this step receives, and scores them after every fifth pass. With ``patience=4`` and
# ``min_improvement=0.002``, the fit stops after four successive scores that do not exceed the best
# previous score by more than 0.002 nats per token.
#
# A fit does not stop before the end of burn-in, the passes whose results are discarded, so we set a
# short burn-in of 20 passes. (In a terminal, a ``ProgressBar`` as second callback shows the score
# during the fit.)

burn_in = 20


def make_model(n_components, monitor):
    counts = CountVectorizer(
        token_pattern=r"\b[a-z]{3,}\b",
        stop_words="english",
        min_df=5,
        max_df=0.2,
    )
    lda = StochasticLDA(n_components, max_iter=300, burn_in=burn_in, thin=1, random_state=0)
    return make_pipeline(counts, lda.set_callbacks(monitor))


stopping = {"patience": 4, "min_improvement": 0.002}
monitors = {
    "no early stopping": HeldOutMonitor(fraction=0.1, every=5),
    "early stopping": HeldOutMonitor(fraction=0.1, every=5, **stopping),
}
curves = {}
print("Fit                Passes  CPU time (s)  Test score (nats per token)")
for name, monitor in monitors.items():
    start = time.process_time()
    model = make_model(20, monitor).fit(train)
    seconds = time.process_time() - start
    n_passes = model[-1].n_iter_
    print(f"{name:<17}  {n_passes:6d}  {seconds:12.1f}  {model.score(test):27.3f}")
    log = monitor.get_logs().data
    curves[name] = [row["task_id"] + 1 for row in log], [row["score"] for row in log]

# %%
# The log of a monitor has one row per score. The figure shows the held-out scores of both fits.

fig, ax = plt.subplots(figsize=(5.6, 3.8))
for (name, curve), style in zip(curves.items(), ["-", "o--"], strict=True):
    ax.plot(*curve, style, markersize=4, label=name)
ax.axvspan(0, burn_in, color="0.92", zorder=0)
ax.annotate("burn-in", (burn_in + 3, 0.95), xycoords=("data", "axes fraction"))
ax.set(xlabel="pass", ylabel="held-out score (nats per token)", xlim=(0, 300))
ax.legend(loc="lower right")
plt.show()

# %%
# Both fits are identical until the second one stops. It needs fewer passes, and its test score is
# nearly the same.
#
# The held-out score determines when the fit stops, so it is an optimistic estimate of the score of
# new data. Evaluate a fit on other data, as we do with the test texts.
#
# A monitor in a grid search
# --------------------------
# The grid has four numbers of topics. With three folds, and the final fit with the best number,
# these are 13 fits. Each of them holds out a tenth of its own training rows and stops separately.

monitor = HeldOutMonitor(fraction=0.1, every=5, **stopping)
numbers = [5, 10, 20, 40]
search = GridSearchCV(make_model(10, monitor), {"stochasticlda__n_components": numbers}, cv=3)
search.fit(train)
print("Topics  Mean score of the folds (nats per token)")
for n_components, score in zip(numbers, search.cv_results_["mean_test_score"], strict=True):
    print(f"{n_components:6d}  {score:.3f}")
print(f"Test score with {search.best_estimator_[-1].n_components} topics: {search.score(test):.3f}")

# %%
# The log contains the scores of all fits. Each row has the path of its fit, so we can group the
# rows by fit. The fits of the search are sorted by candidate and then by fold; the final fit is
# last.

fits = {}
for row in monitor.get_logs().data:
    fits.setdefault(row["parent_task_id_path"], []).append((row["task_id"] + 1, row["score"]))
fits = [np.array(scores).T for _, scores in sorted(fits.items())]
print("Topics  Passes of the three folds")
for i, n_components in enumerate(numbers):
    last = [f"{scores[0, -1]:5.0f}" for scores in fits[3 * i : 3 * i + 3]]
    print(f"{n_components:6d}{''.join(last)}")
print(f"Final fit: {fits[-1][0, -1]:.0f} passes")

# %%
# In the figure, a marker shows where a fit stopped.

fig, ax = plt.subplots(figsize=(5.6, 3.8))
for i, (n_components, marker) in enumerate(zip(numbers, "osD^", strict=True)):
    for fold, scores in enumerate(fits[3 * i : 3 * i + 3]):
        label = f"{n_components} topics" if fold == 0 else None
        ax.plot(*scores, color=f"C{i}", marker=marker, markevery=[-1], linewidth=1.2, label=label)
ax.set(xlabel="pass", ylabel="held-out score (nats per token)", xlim=(0, None))
ax.legend(loc="lower right")
plt.show()

# %%
# All fits stop before 300 passes, most of them long before. The number of passes differs between
# folds and between numbers of topics, so no single value of ``max_iter`` would be right for all of
# them.
