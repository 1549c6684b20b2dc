"""
Topics with words for and against
=================================

A topic of counts can only say which words are frequent. If a document is a direction, as a row of tf-idf is, a topic is
a direction too, and its entries have signs: some words speak for it, others against. `SphericalAdmixture` finds such
topics, and says in which proportions each document mixes them.

The texts are posts to three newsgroups (``ng20diff_train_counts.npz`` and its companions in the folder that
``SKMANIFOLD_DATA`` names), or else the docstrings of installed packages, which every machine has.
"""

# %%
# Texts
# -----
# The news come as counts of words, the order of which is lost. As no one here asks for it, we write the words out, and
# have texts like any others. Each has a label, the newsgroup or the package; the model is not told.

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from skmanifold import SphericalAdmixture, VonMisesFisherMixture
from skmanifold.datasets import load_docstrings

folder = Path(os.environ.get("SKMANIFOLD_DATA", ""))
if (folder / "ng20diff_train_counts.npz").exists():
    source, groups = "posts to three newsgroups", ["baseball", "space", "atheism"]
    words = np.array((folder / "ng20diff_vocabulary.txt").read_text().split())
    texts, labels = [], []
    for part in ("train", "test"):
        counts = sp.load_npz(folder / f"ng20diff_{part}_counts.npz")
        texts.append([" ".join(words[row.indices].repeat(row.data)) for row in sp.csr_array(counts)])
        labels.append(np.load(folder / f"ng20diff_{part}_labels.npy"))
    texts[1], labels[1] = texts[1][::6], labels[1][::6]
else:
    corpus = load_docstrings(max_documents=1500)
    source, groups = "docstrings of four packages", corpus.target_names
    held_out = np.arange(len(corpus.data)) % 8 == 0
    texts = [[corpus.data[i] for i in np.flatnonzero(part)] for part in (~held_out, held_out)]
    labels = [corpus.target[part] for part in (~held_out, held_out)]
train, test = texts
print(f"Data: {source}; {len(train)} to learn from, {len(test)} held out")

# %%
# Six topics
# ----------
# A pipeline goes from texts to topics. Concentrations (how far documents scatter about their mixtures, and topics about
# what they have in common) and step sizes are learned.


def make_model(n_topics, max_iter=60):
    tfidf = TfidfVectorizer(sublinear_tf=True, min_df=10, max_df=0.3, stop_words="english")
    topics = SphericalAdmixture(n_topics, max_iter=max_iter, thin=1, n_predictive_draws=2, random_state=0, n_jobs=2)
    return make_pipeline(tfidf, topics)


model = make_model(6, max_iter=200).fit(train)
tfidf, admixture = model
print(f"{admixture.n_features_in_} words; concentration of documents {admixture.document_concentration_:.0f}, ", end="")
print(f"of topics {admixture.topic_concentration_:.0f}")

# %%
# Words for and against
# ---------------------
# The largest entries of each topic say what it is about. And the negative ones? Every document has a little of every
# topic, and with it come that topic's words. An entry below zero takes back those that are *more surely* missing than
# in other documents. They are the leading words of other topics, often of the neighbour with which this one would be
# confused.
#
# The fit keeps draws of the topics. The middle nine tenths of them are an interval for each entry: how far the data
# leave it open. It takes 19 independent draws or more, and draws that follow each other are alike: hence 200 passes.

names = tfidf.get_feature_names_out()
described = admixture.topic_words(7, names)
low, high = admixture.credible_intervals(0.9)
for k, topic in enumerate(described):
    print(f"topic {k}: for {', '.join(word for word, _ in topic.positive)}")
    print(f"     against {', '.join(word for word, _ in topic.negative)}")
print(f"Entries whose interval lies above zero: {np.mean(low > 0):.0%}; below: {np.mean(high < 0):.0%}")

# %%
# Proportions of new documents
# ----------------------------
# ``transform`` gives each document's proportions. A document that is new is no harder than one that was fitted.

proportions = model.transform(test)
print("\nMean proportions of held-out documents, in percent")
for label, group in enumerate(groups):
    mean = 100 * proportions[labels[1] == label].mean(axis=0)
    print(f"  {group:<10}" + "".join(f"{share:5.0f}" for share in mean))

# %%
# Is it worth while?
# ------------------
# The log density of held-out documents says how well they are foreseen. It is told relative to a uniform law on the
# sphere, which knows nothing and has zero: how many nats better than that? (A nat is a factor of 2.7 in density.)
# `VonMisesFisherMixture` is the same without the mixing: each document belongs to one direction alone.
#
# With one concentration for all documents, as our topics have it, mixing pays. A mixture whose components have each
# their own can make up for that, and more where many documents are nearly the same, as the docstrings of related
# functions are: it spends tight components on them.

X_train, X_test = tfidf.transform(train), tfidf.transform(test)
numbers = [3, 6, 12]
mixtures = {"one direction each, own concentrations": None, "one direction each, one concentration": "shared"}
scores = {"mixed topics": [(model if n == 6 else make_model(n).fit(train)).score(test) for n in numbers]}
for name, concentration in mixtures.items():
    scores[name] = [
        VonMisesFisherMixture(n, concentration=concentration, n_init=3, max_iter=1000, random_state=0)
        .fit(X_train)
        .score(X_test)
        for n in numbers
    ]
single = VonMisesFisherMixture(1).fit(X_train).score(X_test)

print("\nLog density of held-out documents, nats above the uniform law")
print(f"  {'topics or directions':<42}" + "".join(f"{n:6d}" for n in numbers))
for name, values in scores.items():
    print(f"  {name:<42}" + "".join(f"{value:6.1f}" for value in values))
print(f"  {'a single direction for all':<42}{single:6.1f}")

# %%
# The pictures
# ------------
# First the words, for (blue) and against (red) each topic, with their intervals.

blue, red = "#08519c", "#cb6a5d"
colours = ["#1b6ca8", "#e08214", "#3a8f4d", "#b03a48", "#7d5ba6", "#8c6d46"]
figure, axes = plt.subplots(2, 3, figsize=(12, 7.6), sharex=True, layout="constrained")
figure.suptitle(f"Words for and against six topics ({source})")
for k, (topic, ax) in enumerate(zip(described, axes.flat, strict=True)):
    entries = [*topic.positive, *topic.negative[::-1]]
    values = np.array([value for _, value in entries])
    columns = [tfidf.vocabulary_[word] for word, _ in entries]
    ends = np.maximum([values - low[k, columns], high[k, columns] - values], 0)
    ax.barh(np.arange(len(entries)), values, xerr=ends, color=np.where(values > 0, blue, red), ecolor="grey")
    for place, (word, value) in enumerate(entries):  # each word on the free side of the axis
        ax.annotate(
            word,
            (0, place),
            (-4 if value > 0 else 4, 0),
            textcoords="offset points",
            ha="right" if value > 0 else "left",
            va="center",
            fontsize=9,
        )
    ax.axvline(0, color="black", linewidth=0.8)
    ax.invert_yaxis()
    ax.set_title(f"topic {k}", color=colours[k], fontweight="bold")
    ax.set_yticks([])
    ax.spines[["top", "right", "left"]].set_visible(False)
for ax in axes[1]:
    ax.set_xlabel("entry of the topic")

# %%
# Then the held-out documents, one a column, ordered within their groups by their largest topic; and the scores.

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.8), width_ratios=[2, 1], layout="constrained")
order = np.lexsort((-proportions.max(axis=1), proportions.argmax(axis=1), labels[1]))
leading = [f"{k}: " + ", ".join(word for word, _ in topic.positive[:3]) for k, topic in enumerate(described)]
left.stackplot(np.arange(len(order)), proportions[order].T, colors=colours, step="mid", labels=leading)
edges = np.concatenate([[0], np.cumsum(np.bincount(labels[1], minlength=len(groups)))])
for edge in edges[1:-1]:
    left.axvline(edge - 0.5, color="black", linewidth=1.5)
left.set_xticks((edges[:-1] + edges[1:]) / 2, groups)
left.tick_params(axis="x", length=0)
left.set(xlim=(0, len(order) - 1), ylim=(0, 1), ylabel="proportion", title="what held-out documents are mixed of")
left.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.08), frameon=False, handlelength=1)

for (name, values), colour, line in zip(scores.items(), (blue, red, red), ("o-", "o-", "o:"), strict=True):
    right.plot(numbers, values, line, color=colour, label=name)
right.axhline(single, color="grey", linewidth=1, linestyle="--", label="a single direction for all")
right.set_xticks(numbers)
right.set_ylim(0, None)
right.set(xlabel="number of topics or directions", ylabel="nats above the uniform law", title="held-out log density")
right.legend(frameon=False, fontsize=8, loc="lower right")
right.spines[["top", "right"]].set_visible(False)

plt.show()
