"""
Quickstart: topics of Python docstrings
=======================================

Which subjects does the documentation of NumPy, SciPy, scikit-learn and Python's standard library
cover? This example fits twenty topics to several thousand docstrings of the installed packages. It
shows how to read the topics, how to measure how well they predict new documents, and how to use
them as features of a classifier.

Run ``python examples/quickstart.py``. It takes less than a minute, prints the topics, and saves one
of its figures next to the script, as ``quickstart.png``.
"""

# sphinx_gallery_thumbnail_number = 3

# %%
# The documents
# -------------
# Each docstring is one document, and its package is its label. The topic model does not use the
# labels. One fifth of the documents are test documents.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skmanifold import HeldOutMonitor, ProgressBar, StochasticLDA
from skmanifold.datasets import load_docstrings
from skmanifold.inspection import TopicDisplay
from skmanifold.metrics import document_completion

plt.style.use("skmanifold.inspection.skmanifold")

print("Reading the docstrings of the installed packages ...")
corpus = load_docstrings()
packages = corpus.target_names
train_texts, test_texts, train_package, test_package = train_test_split(
    corpus.data, corpus.target, test_size=0.2, stratify=corpus.target, random_state=0
)
print(f"{len(train_texts)} training documents, {len(test_texts)} test documents")

# %%
# Word counts
# -----------
# Latent Dirichlet allocation models how often each word occurs in each document. A word is a
# sequence of at least three lower-case letters, so names such as ``n_samples`` and ``float64`` are
# excluded. We also exclude words in more than a tenth or in fewer than twenty of the documents,
# words of links and Sphinx directives, and the names of the packages, which would reveal the
# labels.

names = "numpy scipy scikit sklearn python"
markup = "http https www org doi wikipedia wiki toctree autosummary generated"
vectorizer = CountVectorizer(
    token_pattern=r"\b[a-z]{3,}\b",
    stop_words=[*ENGLISH_STOP_WORDS, *names.split(), *markup.split()],
    min_df=20,
    max_df=0.1,
)
X_train = vectorizer.fit_transform(train_texts)
X_test = vectorizer.transform(test_texts)
words = vectorizer.get_feature_names_out()
print(f"{X_train.shape[1]} words, {X_train.sum()} tokens in the training documents")

# %%
# Fit
# ---
# A token is one occurrence of a word. A fit makes a number of passes, and each pass updates the
# topics of all tokens. ``ProgressBar`` and ``HeldOutMonitor`` are callbacks. After each pass the
# monitor computes the perplexity of the test documents: half of the tokens of each document are
# used to estimate its topics, and the other half are predicted. A perplexity of 500 means that the
# prediction is as uncertain as a choice among 500 equally likely words.


def score_perplexity(lda, X, y):
    return {"perplexity": lda.perplexity(X)}


monitor = HeldOutMonitor(X_test, scoring=score_perplexity)
lda = StochasticLDA(n_components=20, max_iter=100, random_state=0, n_jobs=-1)
lda.set_callbacks(ProgressBar(), monitor)
lda.fit(X_train)
perplexity = lda.perplexity(X_test)

# %%
# As a baseline we use the frequencies of the words in all training documents, that is, a model with
# one topic.

word_share = np.asarray(X_train.sum(axis=0)).ravel() / X_train.sum()
one_topic = document_completion(word_share[np.newaxis], X_test, doc_topic_prior=[1.0])
print("Perplexity of the test documents (lower is better)")
print(f"  word frequencies  {one_topic.perplexity:6.0f}")
print(f"  20 topics         {perplexity:6.0f}")

# %%
# The topics reduce the perplexity to less than half. The next figure shows the perplexity after
# each pass.

scores = [row["perplexity"] for row in monitor.get_logs().data if row["task_name"] == "pass"]
fig, ax = plt.subplots(figsize=(5.6, 3.8))
ax.plot(np.arange(1, len(scores) + 1), scores, label="20 topics")
ax.axhline(one_topic.perplexity, color="C1", linestyle="--", label="word frequencies")
ax.set(xlabel="pass", ylabel="perplexity of test documents", ylim=(0, None))
ax.legend(loc="center right")

# %%
# Most of the improvement comes within the first forty passes. After that the curve is nearly level,
# so 100 passes are enough.
#
# The topics
# ----------
# The share of a topic is the fraction of all tokens that belong to it. To describe a topic we use
# words that are probable in it and less frequent in the corpus as a whole. Their order is the
# relevance of Sievert and Shirley (2014): the log probability of a word in the topic minus 0.4
# times the log of its overall frequency.

relevance = np.log(lda.components_) - 0.4 * np.log(word_share)
top_words = words[np.argsort(-relevance, axis=1)]
share = lda.posterior_["topic_weights"].mean(axis=(0, 1))
by_share = np.argsort(-share)

print("Share  Topic")
for topic in by_share:
    print(f"{share[topic]:5.1%}  {', '.join(top_words[topic, :7])}")

# %%
# Most topics can be recognised as a subject: probability distributions, files, linear algebra,
# polynomials, statistical tests, and so on. ``TopicDisplay`` plots the most probable words. These
# are the eight largest topics.

_ = TopicDisplay.from_estimator(lda, feature_names=words, n_words=6, topics=by_share[:8])

# %%
# Topics of each package
# ----------------------
# ``transform`` gives the proportions of the topics in each document. Their mean over the documents
# of a package shows what the package is about. We show twelve topics: the three largest of each
# package, and then the largest of the other topics.

proportions = lda.transform(X_train)
by_package = np.array([proportions[train_package == p].mean(axis=0) for p in range(len(packages))])
largest = np.argsort(-by_package, axis=1)[:, :3].ravel()
shown = list(dict.fromkeys([*largest, *by_share]))[:12]

fig, ax = plt.subplots(figsize=(6.4, 4.6))
image = ax.imshow(100 * by_package[:, shown].T, aspect="auto", vmin=0)
ax.set_xticks(range(len(packages)), packages)
ax.set_yticks(range(len(shown)), [", ".join(top_words[topic, :3]) for topic in shown])
ax.tick_params(length=0)
fig.colorbar(image, label="mean proportion in the package (%)")
figure_file = Path(__file__).with_suffix(".png")
fig.savefig(figure_file)
print(f"Figure saved: {figure_file.name}, in the folder of this script")

# %%
# Many topics occur mainly in one package, although the model does not know the packages. Others are
# shared, such as the topics about axes of arrays and about polynomials, which NumPy and SciPy have
# in common.
#
# Topics as features
# ------------------
# ``StochasticLDA`` is a transformer, so it can be a step of a pipeline. Here the classifier
# predicts the package of a document from twenty topic proportions.

classifier = make_pipeline(
    vectorizer,
    StochasticLDA(n_components=20, max_iter=100, random_state=0, n_jobs=-1),
    LogisticRegression(max_iter=1000),
)
classifier.fit(train_texts, train_package)
predicted = classifier.predict(test_texts)
majority = DummyClassifier().fit(train_texts, train_package)
print("Accuracy on the test documents")
print(f"  most frequent package  {majority.score(test_texts, test_package):4.0%}")
print(f"  20 topics              {np.mean(predicted == test_package):4.0%}")

# %%
# The confusion matrix shows the predicted packages for the documents of each package; rows sum to
# 100%.

fig, ax = plt.subplots(figsize=(5.0, 3.8))
ConfusionMatrixDisplay.from_predictions(
    test_package,
    predicted,
    display_labels=packages,
    normalize="true",
    values_format=".0%",
    cmap="Blues",
    colorbar=False,
    ax=ax,
)
ax.set(xlabel="predicted package", ylabel="package")

# %%
# NumPy is the hardest to recognise. Its documents are most often assigned to SciPy, because both
# describe arrays and mathematical functions.
#
# Where to go next
# ----------------
# :ref:`sphx_glr_gallery_topics_plot_news_topics.py` applies the same steps with more detail, and
# :ref:`sphx_glr_gallery_topics_plot_topic_uncertainty.py` adds credible intervals.
