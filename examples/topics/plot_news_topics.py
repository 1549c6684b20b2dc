"""
News topics, from texts to a classifier
=======================================

A pile of texts, and nobody has read them. What do they speak of? How well does the answer foresee texts that were held
out? What is a new text about? And if a few of them get a label by hand, how far do these few go? One pipeline of
`StochasticLDA` answers all four.

The texts are news of the BBC (``bbc_counts.npz`` and its companions in the folder that ``SKMANIFOLD_DATA`` names), or
else the docstrings of installed packages, which every machine has.
"""

# %%
# Texts
# -----
# The news come as counts of words, without their order. As no one here asks for it, we write the words out, and have
# texts like any others. Each has a label, its section or its package. The topics are found without it.

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from matplotlib.colors import LinearSegmentedColormap
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skmanifold import StochasticLDA
from skmanifold.datasets import load_docstrings
from skmanifold.inspection import TopicDisplay
from skmanifold.metrics import document_completion

folder = Path(os.environ.get("SKMANIFOLD_DATA", ""))
stop_words = list(ENGLISH_STOP_WORDS)
if (folder / "bbc_counts.npz").exists():
    source = "BBC news"
    words = np.array((folder / "bbc_vocabulary.txt").read_text().split())
    counts = sp.csr_array(sp.load_npz(folder / "bbc_counts.npz"))
    texts = [" ".join(words[row.indices].repeat(row.data)) for row in counts]
    labels = np.load(folder / "bbc_labels.npy")
    groups = (folder / "bbc_label_names.txt").read_text().split()
    new_texts = [
        "The central bank will raise interest rates, as oil prices push inflation up and growth slows.",
        "The striker scored twice in the second half and the champion won the cup final.",
        "The minister wants to tax the sale of mobile phones; the mobile industry warns that prices will rise.",
    ]
else:
    source = "docstrings of four packages"
    corpus = load_docstrings(max_documents=3000)
    texts, labels, groups = corpus.data, corpus.target, corpus.target_names
    telling = "numpy scipy scikit sklearn python http https www org doi wikipedia"  # the label
    stop_words += telling.split()
    new_texts = [
        "Compute the eigenvalues and eigenvectors of a symmetric matrix.",
        "Open the file for writing and close the socket when the connection is lost.",
        "Fit the classifier to the training samples, and read the labels from a file whose name is a string.",
    ]
train, test, y_train, y_test = train_test_split(texts, labels, test_size=0.25, stratify=labels, random_state=0)
print(f"Data: {source}; {len(train)} texts to learn from, {len(test)} held out")

# %%
# Topics
# ------
# From texts to counts, from counts to topics. The prior of the proportions is learned, one number a topic, so that some
# topics may be commoner than others.

model = make_pipeline(
    CountVectorizer(token_pattern=r"\b[a-z]{3,}\b", stop_words=stop_words, min_df=5, max_df=0.2),
    StochasticLDA(15, doc_topic_prior="auto", max_iter=150, random_state=0, n_jobs=2),
).fit(train)
vectorizer, lda = model
names = vectorizer.get_feature_names_out()
X_train, X_test = vectorizer.transform(train), vectorizer.transform(test)
print(f"{X_train.sum()} tokens, {len(names)} words")

# %%
# A topic is best described by words that are probable in it and less so elsewhere.

share = np.asarray(X_train.sum(axis=0)).ravel() / X_train.sum()
relevance = np.log(lda.components_) - 0.4 * np.log(share)
top_words = names[np.argsort(-relevance, axis=1)]
size = lda.posterior_["topic_weights"].mean(axis=(0, 1))
for topic in np.argsort(-size):
    print(f"{size[topic]:5.1%}  {', '.join(top_words[topic, :8])}")

# %%
# Do they foresee anything?
# -------------------------
# Half of the words of each text held out tell its topics, and the other half is guessed. Perplexity is the number of
# equally likely words that would be as hard to guess. The words' frequencies alone are the baseline: one topic for all.

unigram = document_completion(share[np.newaxis], X_test, doc_topic_prior=[1.0])
topics = document_completion(lda.components_, X_test, doc_topic_prior=lda.doc_topic_prior_)
per_text = topics.per_document.log_likelihood - unigram.per_document.log_likelihood
print("\nPerplexity of texts held out")
print(f"  word frequencies alone {unigram.perplexity:6.0f}")
print(f"  fifteen topics         {topics.perplexity:6.0f}")
print(f"Texts that the topics foresee better: {np.mean(per_text > 0):.0%}")

# %%
# New texts
# ---------
# ``transform`` gives the proportions of any text. These were written for this page.

for text, proportions in zip(new_texts, model.transform(new_texts), strict=True):
    print(f"\n{text}")
    for topic in np.argsort(-proportions)[:2]:
        print(f"  {proportions[topic]:4.0%}  {', '.join(top_words[topic, :5])}")

# %%
# A few labels
# ------------
# Topics cost no labels: they are learned from all texts. Suppose that someone reads a few texts of each group and
# labels them. A classifier that sees fifteen proportions has less to learn than one that sees all words, as tf-idf.
# With few labels that helps; with many, words tell what topics have thrown away.

features = {
    "fifteen topics": (lda.transform(X_train), lda.transform(X_test)),
    "all words, tf-idf": tuple(
        TfidfTransformer(sublinear_tf=True).fit(X_train).transform(X) for X in (X_train, X_test)
    ),
}
numbers = [1, 2, 4, 8, 16, 32, 64]
accuracy = {name: np.empty((len(numbers), 10)) for name in features}
for repeat in range(10):
    rng = np.random.default_rng(repeat)
    order = [rng.permutation(np.flatnonzero(y_train == group)) for group in range(len(groups))]
    for place, number in enumerate(numbers):
        labelled = np.concatenate([rows[:number] for rows in order])
        for name, (seen, unseen) in features.items():
            classifier = LogisticRegression(C=30.0, max_iter=1000).fit(seen[labelled], y_train[labelled])
            accuracy[name][place, repeat] = classifier.score(unseen, y_test)

print("\nTexts held out in the right group, by number of labels in each group")
print(" " * 20 + "".join(f"{number:6d}" for number in numbers))
for name, values in accuracy.items():
    print(f"  {name:<18}" + "".join(f"{value:6.0%}" for value in values.mean(axis=1)))

# %%
# The pictures
# ------------
# First the most probable words of the six largest topics, by `TopicDisplay`. (With ``sampler="gibbs"`` the bars would
# have error bars.)

figure, axes = plt.subplots(2, 3, figsize=(12, 5.6), layout="constrained")
TopicDisplay.from_estimator(lda, feature_names=names, n_words=7, topics=np.argsort(-size)[:6], ax=axes)

# %%
# Left, what each group's texts held out are mixed of. Right, what labels are worth; bands are from the worst to the
# best choice of texts to label, of ten.

ink, accent, orange = "#26343b", "#1f6f78", "#cb7a3d"
shades = LinearSegmentedColormap.from_list("shades", ["#f4f6f5", "#a9cecb", accent, "#123c46"])
held_out = features["fifteen topics"][1]
mixed = 100 * np.array([held_out[y_test == group].mean(axis=0) for group in range(len(groups))]).T
order = np.lexsort((-mixed.max(axis=1), mixed.argmax(axis=1)))

figure, (left, right) = plt.subplots(1, 2, figsize=(12.5, 5.6), width_ratios=[1.15, 1], layout="constrained")
figure.suptitle(f"Fifteen topics ({source})")
left.pcolormesh(mixed[order], cmap=shades, vmin=0, edgecolor="white", linewidth=1.5)
for (i, j), percent in np.ndenumerate(mixed[order]):
    if percent >= 2.5:
        colour = "white" if percent > 0.5 * mixed.max() else ink
        left.text(j + 0.5, i + 0.5, f"{percent:.0f}", ha="center", va="center_baseline", color=colour)
left.set_xticks(np.arange(len(groups)) + 0.5, groups)
left.set_yticks(np.arange(len(order)) + 0.5, [" · ".join(top_words[topic, :4]) for topic in order])
left.tick_params(length=0, labeltop=True, labelbottom=False)
left.spines[:].set_visible(False)
left.invert_yaxis()
left.set_xlabel("share of each topic in the groups' texts, %")

for (name, values), colour in zip(accuracy.items(), (accent, orange), strict=True):
    right.fill_between(
        numbers, 100 * values.min(axis=1), 100 * values.max(axis=1), color=colour, alpha=0.15, linewidth=0
    )
    right.plot(numbers, 100 * values.mean(axis=1), "o-", color=colour, label=name)
right.set(xscale="log", xlabel="labels in each group", ylabel="texts held out in the right group, %")
right.set_xticks(numbers, numbers)
right.minorticks_off()
right.grid(axis="y", color="0.9")
right.spines[["top", "right"]].set_visible(False)
right.legend(frameon=False, loc="lower right")

plt.show()
