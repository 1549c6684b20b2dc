"""
How many topics? What a held-out curve says
===========================================

The usual answer: fit several numbers of topics, score each on documents that it has not seen, take the best. That is
sound, and it is less than it seems. Where the truth is known we look at what the curve says, how much of it is noise,
and what it keeps to itself. Then the same for real texts.

The texts are news of the Associated Press (``ap_counts.npz`` in the folder that ``SKMANIFOLD_DATA`` names), or else the
docstrings of installed packages.
"""

# %%
# Ten topics
# ----------
# A corpus drawn from the model: ten topics over three hundred words, six hundred documents.

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import KFold, cross_val_score

from skmanifold import HeldOutMonitor, StochasticLDA
from skmanifold.datasets import load_docstrings, make_lda_corpus

corpus = make_lda_corpus(600, 300, 10, mean_length=80, doc_topic_prior=0.2, topic_word_prior=0.1, random_state=0)
X = corpus.data

# %%
# Curves during the fit
# ---------------------
# `HeldOutMonitor` holds a tenth of the documents out and scores them every fifth pass. A curve that still rises at its
# end would make all that follows premature.


def make_lda(n_components):
    return StochasticLDA(n_components, doc_topic_prior=0.2, topic_word_prior=0.1, max_iter=100, random_state=0)


curves = {}
for n_components in (2, 5, 10, 20):
    monitor = HeldOutMonitor(fraction=0.1, every=5)
    make_lda(n_components).set_callbacks(monitor).fit(X)
    log = monitor.get_logs().data
    curves[n_components] = [row["task_id"] + 1 for row in log], [row["score"] for row in log]
    first, *_, last = curves[n_components][1]
    print(f"{n_components:3d} topics: score {first:.3f} at pass 5, {last:.3f} at the end")

# %%
# Scores of five folds
# --------------------
# The score is the mean log probability of a word, so `cross_val_score` needs no scorer. Folds differ, for all numbers
# of topics alike: the standard error of a score is mostly that. What matters is the *difference* to the best number,
# fold by fold, whose standard error is far smaller.

folds = KFold(5, shuffle=True, random_state=0)


def compare(X, numbers):
    """Scores by number of topics and fold; the best; each number's distance to it, with standard error."""
    scores = np.array([cross_val_score(make_lda(n), X, cv=folds) for n in numbers])
    best = scores.mean(axis=1).argmax()
    behind = scores[best] - scores
    return scores, best, behind.mean(axis=1), behind.std(axis=1, ddof=1) / np.sqrt(5)


def report(numbers, scores, best, behind, error):
    print("Topics   score   its error   behind the best   error of that")
    spread = scores.std(axis=1, ddof=1) / np.sqrt(5)
    for row in zip(numbers, scores.mean(axis=1), spread, behind, error, strict=True):
        print("{:6d}{:8.3f}{:12.3f}{:18.4f}{:16.4f}".format(*row))


numbers = [2, 5, 8, 10, 12, 15, 20, 30]
known = compare(X, numbers)
report(numbers, *known)

# %%
# What the curve says
# -------------------
# Fewer topics than there are cost a lot; that much is certain. More cost little: topics that are not needed get few
# words, or halve one that is. So the curve has a cliff to the left and a gentle slope to the right, and the best number
# is only roughly the true one. Look for the smallest number that is not clearly behind.
#
# What it does not say: whether the topics are the true ones. We know them here. With too few some are missing, or
# blended into each other. With ten to twenty nearly all are found, among others if there is room. With thirty half of
# them have been split into parts, and the score hardly complains.

print("\nTrue topics that are found (cosine of 0.9 or more)")
found = {}
for n_components in numbers:
    fitted = make_lda(n_components).fit(X)
    unit = [T / np.linalg.norm(T, axis=1, keepdims=True) for T in (corpus.components, fitted.components_)]
    found[n_components] = np.sum((unit[0] @ unit[1].T).max(axis=1) >= 0.9)
print("  " + ", ".join(f"{n}: {count} of 10" for n, count in found.items()))

# %%
# Real texts
# ----------
# No number of topics is the true one of real texts. The curve tells how far more topics foresee more, which for texts
# that differ widely is long; where it is flat within its errors, how fine you want the topics is for you to say.

file = Path(os.environ.get("SKMANIFOLD_DATA", "")) / "ap_counts.npz"
if file.exists():
    source, texts = "news of the Associated Press", sp.csr_array(sp.load_npz(file))
else:
    source = "docstrings"
    vectorizer = CountVectorizer(token_pattern=r"\b[a-z]{3,}\b", stop_words="english", max_df=0.2)
    texts = sp.csr_array(vectorizer.fit_transform(load_docstrings().data))
texts = texts[np.random.default_rng(0).permutation(texts.shape[0])[:700]]
texts = texts[:, np.asarray((texts > 0).sum(axis=0)).ravel() >= 5]
real_numbers = [2, 5, 10, 20, 40, 80]
print(f"\nData: {source}; {texts.shape[0]} texts, {texts.shape[1]} words")
real = compare(texts, real_numbers)
report(real_numbers, *real)

# %%
# The pictures
# ------------
# Left, curves during the fit. Middle and right, how far each number is behind the best, in nats a word, with standard
# errors of the difference: the dashed line is the true number.

blue, orange = "#08519c", "#e08214"
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
for (n_components, (passes, scores)), shade in zip(curves.items(), ("#9ecae1", "#6baed6", blue, orange), strict=True):
    left.plot(passes, scores, color=shade, linewidth=2, label=f"{n_components} topics")
left.set(xlabel="pass", ylabel="held-out score, nats a word", title="during the fit")
left.legend(frameon=False, loc="center right", bbox_to_anchor=(1, 0.63))
for ax, ns, (_, _, behind, error), title in (
    (middle, numbers, known, "drawn from ten topics"),
    (right, real_numbers, real, source),
):
    ax.errorbar(ns, -behind, error, fmt="o-", color=blue, capsize=3)
    ax.set(xscale="log", xlabel="topics", title=title)
    ax.set_xticks(ns, ns)
    ax.minorticks_off()
middle.axvline(10, color="grey", linestyle="--", linewidth=1)
middle.set_ylabel("behind the best, nats a word")
for ax in (left, middle, right):
    ax.spines[["top", "right"]].set_visible(False)

plt.show()
