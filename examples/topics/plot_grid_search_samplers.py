"""
A grid search over samplers
===========================

A sampler is a parameter of its estimator like any other. So a grid search can choose it, together with its own
settings, inside a pipeline that begins with texts. The table at the end says what each choice costs, and what it is
worth.

The texts are news of the BBC (``bbc_counts.npz`` in the folder that ``SKMANIFOLD_DATA`` names), or else the docstrings
of installed packages.
"""

# %%
# Texts
# -----
# A fifth of them is kept away from the search, to judge in the end.

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.pipeline import Pipeline

from skmanifold import StochasticLDA
from skmanifold.datasets import load_docstrings
from skmanifold.models import IncompatibleError
from skmanifold.samplers import ESCA, GMC, SCIR

folder = Path(os.environ.get("SKMANIFOLD_DATA", ""))
if (folder / "bbc_counts.npz").exists():
    source = "BBC news"
    words = np.array((folder / "bbc_vocabulary.txt").read_text().split())
    counts = sp.csr_array(sp.load_npz(folder / "bbc_counts.npz"))
    texts = [" ".join(words[row.indices].repeat(row.data)) for row in counts[::3]]
else:
    source, texts = "docstrings", load_docstrings(max_documents=800).data
train, test = train_test_split(texts, test_size=0.2, random_state=0)
print(f"Data: {source}; {len(train)} texts to search with, {len(test)} to judge")

# %%
# The grid
# --------
# A name stands for a sampler with the settings of its paper. An instance brings its settings along, and they are
# reached by two underscores, here three names deep: ``lda__sampler__step_size`` is the step size of the sampler of the
# topic model in the pipeline. A sampler in the grid is cloned for each fit, and never changed.

pipeline = Pipeline(
    [
        ("counts", CountVectorizer(token_pattern=r"\b[a-z]{3,}\b", stop_words="english", min_df=5, max_df=0.2)),
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

# %%
# What does not fit together is refused, in a sentence, before any work is done.

try:
    pipeline.set_params(lda__sampler=GMC()).fit(train)
except IncompatibleError as error:
    print(error)

# %%
# The table
# ---------
# A score is the mean log probability of a word of the texts held out. Folds differ in how hard they are, in the same
# way for all, so that the error that counts is that of the distance to the best.

results = search.cv_results_
scores = np.stack([results[f"split{fold}_test_score"] for fold in range(3)], axis=1)
best = search.best_index_
behind = scores[best] - scores
error = behind.std(axis=1, ddof=1) / np.sqrt(3)


def describe(parameters):
    """A row of the table in words."""
    sampler, *settings = parameters.values()
    name = sampler if isinstance(sampler, str) else type(sampler).__name__
    names = [name.rpartition("__")[2] for name in list(parameters)[1:]]
    return name + "".join(f", {key}={value}" for key, value in zip(names, settings, strict=True))


labels = [describe(parameters) for parameters in results["params"]]
order = np.argsort(behind.mean(axis=1))
print("\n" + " " * 24 + "score   behind the best")
for i in order:
    print(f"{labels[i]:<24}{scores[i].mean():6.3f}{behind[i].mean():10.3f} +- {error[i]:.3f}")
print(f"\nChosen: {labels[best]}; score of the texts kept away: {search.score(test):.3f}")

# %%
# The picture
# -----------
# How far each row of the table is behind the best, and how long a fit takes. (Seconds are of this machine and this
# load, one thread.) Where differences are as small as their errors, time decides, or what one wants to know: "gibbs"
# and "collapsed_gibbs" give draws of the topics, from which `StochasticLDA.credible_intervals` are made; "scir" does,
# too, and learns from streams.

seconds = results["mean_fit_time"]
families = [label.partition(",")[0] for label in labels]
colours = dict(zip(dict.fromkeys(families), ("#08519c", "#6baed6", "#3a8f4d", "#e08214", "#cb4b3f"), strict=True))
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
figure.suptitle(f"Samplers and their settings ({source})")
for place, i in enumerate(order):
    colour = colours[families[i]]
    left.errorbar(behind[i].mean(), place, xerr=error[i], fmt="o", color=colour, capsize=3)
    right.barh(place, seconds[i], color=colour)
left.set_yticks(np.arange(len(order)), [labels[i] for i in order])
left.invert_yaxis()
left.axvline(0, color="grey", linewidth=0.8)
left.set(xlabel="nats a word behind the best", title="score of texts held out")
right.set(xlabel="seconds", title="one fit")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)

plt.show()
