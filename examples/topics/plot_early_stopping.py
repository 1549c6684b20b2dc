"""
Stopping when it no longer gets better
======================================

How many passes does a fit need? `HeldOutMonitor` answers while it runs: it keeps some rows back, scores them after each
few passes, and stops the fit when the score no longer rises. It is a callback of scikit-learn's, so that it also works
inside of a pipeline, where no one but the last step ever sees the rows as they are fitted, and inside of a grid search,
where each of many fits holds out rows of its own.

The texts are news of the BBC (``bbc_counts.npz`` in the folder that ``SKMANIFOLD_DATA`` names), or else the docstrings
of installed packages.
"""

# %%
# Texts
# -----
# A fifth is kept away from everything, to judge in the end.

import os
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

from skmanifold import HeldOutMonitor, StochasticLDA
from skmanifold.datasets import load_docstrings

folder = Path(os.environ.get("SKMANIFOLD_DATA", ""))
if (folder / "bbc_counts.npz").exists():
    source = "BBC news"
    words = np.array((folder / "bbc_vocabulary.txt").read_text().split())
    counts = sp.csr_array(sp.load_npz(folder / "bbc_counts.npz"))
    texts = [" ".join(words[row.indices].repeat(row.data)) for row in counts[::2]]
else:
    source, texts = "docstrings", load_docstrings(max_documents=1500).data
train, test = train_test_split(texts, test_size=0.2, random_state=0)
print(f"Data: {source}; {len(train)} texts to learn from, {len(test)} to judge")

# %%
# In a pipeline
# -------------
# The monitor is set on the step that it watches. That step gets counts; of these it holds a tenth out. It counts scores
# once burn-in is over, as a fit that stops sooner would have nothing to give: so a fit that is to stop soon needs a
# short burn-in. With ``patience=4`` and ``min_improvement=0.002``, four scores in a row that are not higher than the
# highest by 0.002 nats a word end the fit.
#
# On a terminal ``set_callbacks(monitor, ProgressBar())``, with `ProgressBar` from skmanifold, also shows the passes,
# the score and the tokens a second as they come.


def make_pipeline_of(n_components, monitor, max_iter=300):
    lda = StochasticLDA(n_components, max_iter=max_iter, burn_in=20, thin=1, random_state=0)
    counts = CountVectorizer(token_pattern=r"\b[a-z]{3,}\b", stop_words="english", min_df=5, max_df=0.2)
    return make_pipeline(counts, lda.set_callbacks(monitor))


def fit(pipeline):
    """Fit, and report passes, seconds of the processor and the score of the texts kept away."""
    start = time.process_time()
    pipeline.fit(train)
    seconds = time.process_time() - start
    print(f"  {pipeline[-1].n_iter_:4d} passes, {seconds:5.1f} s, score of new texts {pipeline.score(test):.3f}")
    return pipeline[-1].n_iter_


patience = {"patience": 4, "min_improvement": 0.002}
print("\nTwenty topics")
whole, stopping = (HeldOutMonitor(fraction=0.1, every=5, **rule) for rule in ({}, patience))
fit(make_pipeline_of(20, whole))
n_passes = fit(make_pipeline_of(20, stopping))
curve, stopped = (
    np.array([(row["task_id"] + 1, row["score"]) for row in monitor.get_logs().data]) for monitor in (whole, stopping)
)

# %%
# The score of the rows held out at the end is not what to expect of new texts: the fit was stopped by it. How much that
# flatters depends on how noisy the curve is. Judge by rows that had no say, as we do.

# %%
# In a grid search
# ----------------
# Four numbers of topics, three folds. Each of the twelve fits, and the last one with the best number, is monitored by
# itself, and stops when it is time for it. All scores are in the monitor's log.

monitor = HeldOutMonitor(fraction=0.1, every=5, **patience)
search = GridSearchCV(make_pipeline_of(10, monitor), {"stochasticlda__n_components": [5, 10, 20, 40]}, cv=3)
search.fit(train)
print("\nTopics   score of the folds")
for n_components, score in zip(
    search.cv_results_["param_stochasticlda__n_components"], search.cv_results_["mean_test_score"], strict=True
):
    print(f"{n_components:6d}{score:12.3f}")
print(f"Best: {search.best_params_}, {search.best_estimator_[-1].n_iter_} passes; new texts {search.score(test):.3f}")

# %%
# The log tells which fit of the search a score is of, by its path: candidates one after the other, the folds of each.

fits = {}
for row in monitor.get_logs().data:
    fits.setdefault(row["parent_task_id_path"], []).append((row["task_id"] + 1, row["score"]))
fits = [np.array(scores) for _, scores in sorted(fits.items())]
passes = ", ".join(str(int(scores[-1, 0])) for scores in fits)
print(f"Passes of the {len(fits)} fits: {passes}; without patience 300 each")

# %%
# The picture
# -----------
# Left, the fit that was stopped and the one that was not. Right, the fits of the search; a dot is where one stopped.

blue, orange = "#08519c", "#e08214"
figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.4), layout="constrained")
figure.suptitle(f"Scores of rows held out within the fit ({source})")
left.plot(*curve.T, color="#9ecae1", linewidth=4, label="300 passes")
left.plot(*stopped.T, color=blue, linewidth=1.8, label=f"stopped after {n_passes}")
left.plot(*stopped[-1], "o", color=blue)
left.axvspan(0, 20, color="0.94", zorder=0, linewidth=0)
left.text(22, stopped[0, 1], "burn-in", fontsize=9, color="0.4", va="bottom")
left.set(title="twenty topics", ylabel="nats a word (higher is better)")
left.legend(frameon=False, loc="lower right")
shades = ("#c6dbef", "#6baed6", blue, orange)
for i, scores in enumerate(fits[:12]):
    right.plot(*scores.T, color=shades[i // 3], linewidth=1.4)
    right.plot(*scores[-1], "o", color=shades[i // 3], markersize=5)
for n_components, shade in zip((5, 10, 20, 40), shades, strict=True):
    right.plot([], [], color=shade, linewidth=2, label=f"{n_components} topics")
right.set(title="a grid search, three folds")
right.legend(frameon=False, loc="lower right")
for ax in (left, right):
    ax.set(xlabel="pass", xlim=(0, None))
    ax.spines[["top", "right"]].set_visible(False)

plt.show()
