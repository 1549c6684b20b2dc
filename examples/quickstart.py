"""
Topics of the docstrings on this machine
========================================

NumPy, SciPy, scikit-learn and Python's standard library document themselves in thousands of short texts. Which subjects
do they speak of? `StochasticLDA` finds twenty, without being told which package a text comes from. We read the topics,
ask how well they predict texts that were never seen, and guess a text's package from its topics alone.

Run ``python examples/quickstart.py``; the figure is saved beside this file.
"""

# %%
# The corpus
# ----------
# One docstring is one document, labelled by its package. A fifth of them is held out.

from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skmanifold import HeldOutMonitor, ProgressBar, StochasticLDA
from skmanifold.datasets import load_docstrings
from skmanifold.metrics import document_completion

print("Reading the docstrings of installed packages ...")
corpus = load_docstrings()
packages = corpus.target_names
train_texts, test_texts, train_package, test_package = train_test_split(
    corpus.data, corpus.target, test_size=0.2, stratify=corpus.target, random_state=0
)
print(f"{len(train_texts)} documents to learn from, {len(test_texts)} held out\n")

# %%
# Counting words
# --------------
# A word is three plain letters or more: ``n_samples`` and ``float64`` are none. Left out are words of more than a tenth
# of the documents, which say little of any, then links, Sphinx directives, and the packages' names: they would give the
# answer away.

boilerplate = "numpy scipy scikit sklearn python http https www org doi wikipedia wiki toctree autosummary generated"
vectorizer = CountVectorizer(
    token_pattern=r"\b[a-z]{3,}\b",
    stop_words=[*ENGLISH_STOP_WORDS, *boilerplate.split()],
    min_df=20,
    max_df=0.1,
)
X_train = vectorizer.fit_transform(train_texts)
X_test = vectorizer.transform(test_texts)
words = vectorizer.get_feature_names_out()

# %%
# Finding topics
# --------------
# The progress bar and the monitor are callbacks of the fit. After each pass over the training documents the
# monitor computes the perplexity of the held-out ones: the number of equally likely words that would be as hard to
# guess. Half of a document's words tell its topics, and the other half is guessed.


def score_held_out(lda, X, y):
    return {"perplexity": lda.perplexity(X)}


monitor = HeldOutMonitor(X_test, scoring=score_held_out)
lda = StochasticLDA(n_components=20, max_iter=100, random_state=0, n_jobs=-1)
lda.set_callbacks(ProgressBar(), monitor)
lda.fit(X_train)

# %%
# Reading them
# ------------
# A topic is named by words that are probable in it and less so elsewhere. Topics come in the order of their size.

word_share = np.asarray(X_train.sum(axis=0)).ravel() / X_train.sum()
relevance = np.log(lda.components_) - 0.4 * np.log(word_share)
top_words = words[np.argsort(-relevance, axis=1)]
topic_share = lda.posterior_["topic_weights"].mean(axis=(0, 1))

print("\nShare  Topic")
for topic in np.argsort(-topic_share):
    print(f"{topic_share[topic]:5.1%}  {', '.join(top_words[topic, :8])}")

# %%
# Are they any good?
# ------------------
# The baseline knows how common each word is and nothing else: a model of one topic. It has the same tokens to guess.

unigram = document_completion(word_share[np.newaxis], X_test, doc_topic_prior=[1.0]).perplexity
perplexity = lda.perplexity(X_test)
print("\nPerplexity of held-out documents (lower is better)")
print(f"  word frequencies alone  {unigram:6.0f}")
print(f"  twenty topics           {perplexity:6.0f}")

# %%
# Topics as features
# ------------------
# In a pipeline from texts to packages all that the classifier sees of a text is its twenty proportions.

classifier = make_pipeline(
    vectorizer, StochasticLDA(20, max_iter=100, random_state=0, n_jobs=-1), LogisticRegression(max_iter=1000)
)
classifier.fit(train_texts, train_package)
guesses = classifier.predict(test_texts)
accuracy = np.mean(guesses == test_package)
majority = DummyClassifier().fit(train_texts, train_package).score(test_texts, test_package)
print("\nPackages of held-out documents guessed right")
print(f"  always {packages[np.bincount(train_package).argmax()]:<17}{majority:6.0%}")
print(f"  from twenty topics      {accuracy:6.0%}")

# %%
# A picture of it
# ---------------
# Left, how much of each package every topic takes up. Right, how the perplexity fell, and which packages are confused.

proportions = lda.transform(X_train)
package_topics = np.array([proportions[train_package == code].mean(axis=0) for code in range(len(packages))]).T
order = np.lexsort((-package_topics.max(axis=1), package_topics.argmax(axis=1)))
confusion = confusion_matrix(test_package, guesses, normalize="true")
trace = [row["perplexity"] for row in monitor.get_logs().data if row["task_name"] == "pass"]

matplotlib.use("Agg")
ink, accent = "#26343b", "#1f6f78"
shades = LinearSegmentedColormap.from_list("shades", ["#f4f6f5", "#a9cecb", accent, "#123c46"])
plt.rcParams.update({f"{part}color": ink for part in ("text.", "xtick.", "ytick.", "axes.edge", "axes.label")})
plt.rcParams.update({"axes.titlesize": 11, "axes.titlelocation": "left", "axes.titlepad": 10})


def draw_shares(ax, shares, rows, least):
    """A heat map by package, with the percentages that reach `least` written in."""
    ax.pcolormesh(shares, cmap=shades, vmin=0, edgecolor="white", linewidth=1.5)
    for (i, j), share in np.ndenumerate(100 * shares):
        if share >= least:
            colour = "white" if share > 50 * shares.max() else ink
            ax.text(j + 0.5, i + 0.5, f"{share:.0f}", ha="center", va="center_baseline", color=colour)
    ax.set_xticks(np.arange(len(packages)) + 0.5, packages)
    ax.set_yticks(np.arange(len(rows)) + 0.5, rows)
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    ax.spines[:].set_visible(False)
    ax.invert_yaxis()


fig = plt.figure(figsize=(12, 7.5), layout="constrained")
fig.get_layout_engine().set(w_pad=0.1, h_pad=0.1, wspace=0.05, hspace=0.05)
fig.suptitle("What the docstrings speak of: twenty topics", fontsize=14, x=0.008, ha="left")
grid = fig.add_gridspec(2, 2, width_ratios=[1.05, 1])

ax = fig.add_subplot(grid[:, 0])
draw_shares(ax, package_topics[order], [" · ".join(top_words[topic, :4]) for topic in order], least=2.5)
ax.set_title("Share of each topic in each package, %")

ax = fig.add_subplot(grid[0, 1])
ax.axhline(unigram, color=ink, linestyle="--", linewidth=1)
ax.plot(range(1, len(trace) + 1), trace, color=accent, linewidth=2)
ax.text(len(trace), 0.97 * unigram, f"word frequencies alone: {unigram:.0f}", ha="right", va="top")
ax.text(len(trace), 0.95 * perplexity, f"twenty topics: {perplexity:.0f}", ha="right", va="top", color=accent)
ax.set(xlim=(0, len(trace)), ylim=(0, 1.08 * unigram))
ax.set_title("Perplexity of held-out documents, pass by pass")
ax.spines[["top", "right"]].set_visible(False)

ax = fig.add_subplot(grid[1, 1])
draw_shares(ax, confusion, packages, least=0.5)
ax.set_title("Packages (rows) and guesses (columns), %")

figure = Path(__file__).with_suffix(".png")
fig.savefig(figure, dpi=150)
print(f"\nFigure saved to {figure}")
