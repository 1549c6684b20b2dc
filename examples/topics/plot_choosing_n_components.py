"""
Choosing the number of topics by cross-validation
=================================================

How many topics does a corpus have? A common answer is to fit several numbers of topics and to
choose the one with the best score on held-out documents. This example applies it to a simulated
corpus, for which the number is known, and to real texts. It shows how to check that the fits are
long enough, how to compare scores with the right standard error, and what the scores do not show.
"""

# %%
# A corpus with ten topics
# ------------------------
# We simulate 600 documents from latent Dirichlet allocation with ten topics and 300 words.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import KFold, cross_val_score

from skmanifold import HeldOutMonitor, StochasticLDA
from skmanifold.datasets import load_docstrings, make_lda_corpus

# sphinx_gallery_thumbnail_number = 2
plt.style.use("skmanifold.inspection.skmanifold")

n_true = 10
corpus = make_lda_corpus(
    600,
    300,
    n_true,
    mean_length=80,
    doc_topic_prior=0.2,
    topic_word_prior=0.1,
    random_state=0,
)
X = corpus.data
print(f"{X.shape[0]} documents, {X.shape[1]} words, {X.sum()} tokens")

# %%
# Are the fits long enough?
# -------------------------
# The score of ``StochasticLDA`` is the mean log probability of a held-out token, in nats: half of
# the tokens of a held-out document are used to estimate its topics, and the other half are scored.
# ``HeldOutMonitor`` holds out a tenth of the documents and scores them after every fifth pass. A
# pass updates the topics of all tokens once.


def make_lda(n_components):
    return StochasticLDA(
        n_components,
        doc_topic_prior=0.2,
        topic_word_prior=0.1,
        max_iter=100,
        random_state=0,
    )


fig, ax = plt.subplots(figsize=(5.6, 3.8))
for n_components, marker in zip([2, 5, 10, 20], "osD^", strict=True):
    monitor = HeldOutMonitor(fraction=0.1, every=5)
    make_lda(n_components).set_callbacks(monitor).fit(X)
    log = monitor.get_logs().data
    passes, scores = [row["task_id"] + 1 for row in log], [row["score"] for row in log]
    ax.plot(passes, scores, marker=marker, markersize=4, label=f"{n_components} topics")
ax.set(xlabel="pass", ylabel="held-out score (nats per token)")
ax.legend(loc="upper left", ncols=2)
ax.set_ylim(top=ax.get_ylim()[1] + 0.08)
plt.show()

# %%
# All curves are nearly level at the end, so 100 passes are enough to compare the numbers of topics.
# If a curve still increased, longer fits could change the order.
#
# Scores of five folds
# --------------------
# ``cross_val_score`` uses the same score. Some folds are harder to predict than others, for every
# number of topics. The standard error of a mean score includes these differences between folds. To
# compare two numbers of topics we compute the difference of their scores in each fold. The standard
# error of the mean difference is usually much smaller.

n_folds = 5
folds = KFold(n_folds, shuffle=True, random_state=0)


def compare(X, numbers):
    """Mean score and standard error; mean difference to the best number and standard error."""
    scores = np.array([cross_val_score(make_lda(n), X, cv=folds) for n in numbers])
    difference = scores - scores[scores.mean(axis=1).argmax()]
    results = []
    for values in (scores, difference):
        results += [values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(n_folds)]
    print("Topics  Score (SE)       Difference to best (SE)")
    for n, *row in zip(numbers, *results, strict=True):
        print("{:6d}  {:.3f} ({:.3f})   {:7.4f} ({:.4f})".format(n, *row))
    return results[2:]


def plot_difference(ax, numbers, difference, error):
    ax.errorbar(numbers, difference, error, fmt="o-", capsize=3)
    ax.set(
        xscale="log",
        xlabel="number of topics",
        ylabel="score minus best score (nats per token)",
    )
    ax.set_xticks(numbers, numbers)
    ax.minorticks_off()


numbers = [2, 5, 8, 10, 12, 15, 20, 30]
difference, error = compare(X, numbers)

# %%
# SE is the standard error over folds. The figure shows the differences, with their standard errors.

fig, ax = plt.subplots(figsize=(5.6, 3.8))
plot_difference(ax, numbers, difference, error)
ax.axvline(n_true, color="C1", linestyle="--", label="true number")
ax.legend(loc="lower right")
plt.show()

# %%
# Too few topics reduce the score considerably. Too many topics reduce it only slightly: a topic
# that is not needed gets few tokens, or it shares a true topic with another one. The best number
# is therefore close to the true one but need not be equal to it. A sensible choice is the smallest
# number whose score is not clearly worse than the best.
#
# Are the topics the true ones?
# -----------------------------
# The score does not show whether the topics are correct. Here the true topics are known. We count a
# true topic as found if a fitted topic has a cosine of at least 0.9 with it.


def unit_rows(topics):
    return topics / np.linalg.norm(topics, axis=1, keepdims=True)


print("Topics  True topics found")
for n_components in numbers:
    fitted = make_lda(n_components).fit(X)
    cosines = unit_rows(corpus.components) @ unit_rows(fitted.components_).T
    print(f"{n_components:6d}  {np.sum(cosines.max(axis=1) >= 0.9):2d} of {n_true}")

# %%
# With too few topics, some true topics are missing or combined. With 10 to 20 topics, nearly all
# true topics are found. With 30 topics, a true topic is split into parts, and the score is only
# slightly lower. So if you want to interpret the topics, do not use many more than necessary.
#
# Real texts
# ----------
# The documents are now 600 docstrings of NumPy, SciPy, scikit-learn and the standard library. For
# a larger corpus replace one line, for example by
# ``texts = fetch_20newsgroups(remove=("headers", "footers", "quotes")).data``.

texts = load_docstrings(max_documents=600).data
vectorizer = CountVectorizer(
    token_pattern=r"\b[a-z]{3,}\b",
    stop_words="english",
    min_df=5,
    max_df=0.2,
)
X_texts = vectorizer.fit_transform(texts)
print(f"{X_texts.shape[0]} texts, {X_texts.shape[1]} words, {X_texts.sum()} tokens")
text_numbers = [2, 5, 10, 20, 40, 80]
difference, error = compare(X_texts, text_numbers)

# %%
# The figure shows the differences for the texts.

fig, ax = plt.subplots(figsize=(5.6, 3.8))
plot_difference(ax, text_numbers, difference, error)
plt.show()

# %%
# Real texts do not have a true number of topics. The curve shows how long adding topics improves
# prediction: here up to several tens. If several numbers have equal scores within the standard
# errors, choose by purpose. Few topics are easier to read, and many topics describe the texts in
# more detail.
