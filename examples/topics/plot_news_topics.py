"""
From raw texts to topics and a classifier
=========================================

What are the subjects of a collection of texts, and how can we use them? This example fits a topic
model to raw texts. It shows how to read the topics, how to check that they predict new texts, how
to find the topics of a new text, and when topic proportions are better features for a classifier
than the words.
"""

# %%
# Texts
# -----
# The texts are docstrings of NumPy, SciPy, scikit-learn and the standard library, which need no
# download. The label of a text is its package; the topic model does not use it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skmanifold import StochasticLDA
from skmanifold.datasets import load_docstrings
from skmanifold.inspection import TopicDisplay
from skmanifold.metrics import document_completion

# sphinx_gallery_thumbnail_number = 4
plt.style.use("skmanifold.inspection.skmanifold")

corpus = load_docstrings(max_documents=3000)
train, test, y_train, y_test = train_test_split(
    corpus.data, corpus.target, test_size=0.25, stratify=corpus.target, random_state=0
)
print(f"{len(train)} training texts, {len(test)} test texts")
print(f"Packages: {', '.join(corpus.target_names)}")

# %%
# For another corpus replace one line. The newsgroups of scikit-learn, for example, have the same
# attributes:
#
# .. code-block:: python
#
#     corpus = fetch_20newsgroups(subset="all", remove=("headers", "footers", "quotes"))
#
# Fit
# ---
# The pipeline converts texts to word counts, and counts to topic proportions. We exclude the names
# of the packages and words of links and markup. With ``doc_topic_prior="auto"`` the model learns a
# prior for each topic, so some topics can be more frequent than others.

excluded = "numpy scipy scikit sklearn python http https www org doi math ref versionadded"
model = make_pipeline(
    CountVectorizer(
        token_pattern=r"\b[a-z]{3,}\b",
        stop_words=[*ENGLISH_STOP_WORDS, *excluded.split()],
        min_df=5,
        max_df=0.2,
    ),
    StochasticLDA(15, doc_topic_prior="auto", max_iter=150, random_state=0, n_jobs=2),
)
model.fit(train)
vectorizer, lda = model
words = vectorizer.get_feature_names_out()
X_train, X_test = vectorizer.transform(train), vectorizer.transform(test)
print(f"{X_train.sum()} tokens of {len(words)} different words")

# %%
# Read the topics
# ---------------
# The most probable words describe a topic. ``TopicDisplay`` shows them for the six largest topics;
# the percentage is the share of all tokens. (``sampler="gibbs"`` would add credible intervals.)

share = lda.posterior_["topic_weights"].mean(axis=(0, 1))
by_share = np.argsort(-share)
_ = TopicDisplay.from_estimator(lda, feature_names=words, n_words=7, topics=by_share[:6])
plt.show()

# %%
# Some words are frequent in several topics. Words that are also specific to a topic often describe
# it better. We order words by their relevance (Sievert and Shirley, 2014): the log probability in
# the topic minus 0.4 times the log frequency in the corpus.

frequency = np.asarray(X_train.sum(axis=0)).ravel() / X_train.sum()
relevance = np.log(lda.components_) - 0.4 * np.log(frequency)
top_words = words[np.argsort(-relevance, axis=1)]

print("Share  Topic")
for topic in by_share:
    print(f"{share[topic]:5.1%}  {', '.join(top_words[topic, :7])}")

# %%
# Predict new texts
# -----------------
# Half of the words of each test text are used to estimate its topics, and the other half are
# predicted. Perplexity is the number of equally likely words that would be as hard to predict. The
# baseline is a model with one topic, which predicts every word by its frequency in the corpus.

one_topic = document_completion(frequency[np.newaxis], X_test, doc_topic_prior=[1.0])
topics = document_completion(lda.components_, X_test, doc_topic_prior=lda.doc_topic_prior_)
print("Perplexity of the test texts (lower is better)")
print(f"  word frequencies  {one_topic.perplexity:5.0f}")
print(f"  15 topics         {topics.perplexity:5.0f}")

# %%
# Is the improvement the same for all texts? The scores of single texts are in ``per_document``.

documents = topics.per_document
gain = (documents.log_likelihood - one_topic.per_document.log_likelihood) / documents.n_tokens
fig, ax = plt.subplots(figsize=(5.6, 3.8))
ax.hist(gain, bins=40)
ax.axvline(0, color="C1", linestyle="--")
ax.set(
    xlabel="gain over word frequencies (nats per token)",
    ylabel="test texts",
)
plt.show()
print(f"Texts that the topics predict better: {np.mean(gain > 0):.0%}")

# %%
# Topics predict nearly all test texts better than word frequencies do. The gain differs
# considerably between texts. A few texts, to the left of the dashed line, are predicted worse.
#
# Topics of a new text
# --------------------
# ``transform`` of the pipeline estimates the topic proportions of any text. These three texts were
# written for this example.

new_texts = [
    "Compute the eigenvalues and eigenvectors of a symmetric matrix.",
    "Open the file for writing and close the socket when the connection is lost.",
    "Fit the classifier to the training samples, and read the labels from a file.",
]
for text, proportions in zip(new_texts, model.transform(new_texts), strict=True):
    print(text)
    for topic in np.argsort(-proportions)[:2]:
        print(f"  {proportions[topic]:4.0%}  {', '.join(top_words[topic, :5])}")

# %%
# The first two texts have one subject, and one topic has most of their words. The third is about
# estimators and files, and its proportions show both.
#
# Topics in each package
# ----------------------
# The mean proportions of the test texts show what the documentation of each package is about.

P_train, P_test = lda.transform(X_train), lda.transform(X_test)
n_packages = len(corpus.target_names)
by_package = np.array([P_test[y_test == package].mean(axis=0) for package in range(n_packages)])
order = np.lexsort((-by_package.max(axis=0), by_package.argmax(axis=0)))

fig, ax = plt.subplots(figsize=(6.4, 4.8))
image = ax.imshow(100 * by_package[:, order].T, aspect="auto", vmin=0)
ax.set_xticks(range(n_packages), corpus.target_names)
ax.set_yticks(range(len(order)), [", ".join(top_words[topic, :3]) for topic in order])
ax.tick_params(length=0)
fig.colorbar(image, label="mean proportion in test texts (%)")
plt.show()

# %%
# Topics are ordered by the package in which they are largest. Most topics occur mainly in one
# package. The proportions are therefore useful features for predicting the package.
#
# Classification with few labels
# ------------------------------
# Topics are learned from all training texts without labels. Suppose that only a few texts of each
# package have labels. A logistic regression then learns from 15 topic proportions or from the
# tf-idf values of all words. We repeat the choice of labelled texts ten times.

tfidf = TfidfTransformer(sublinear_tf=True).fit(X_train)
features = {
    "15 topic proportions": (P_train, P_test),
    "all words (tf-idf)": (tfidf.transform(X_train), tfidf.transform(X_test)),
}
n_labels = [1, 2, 4, 8, 16, 32, 64]
accuracy = {name: np.empty((len(n_labels), 10)) for name in features}
for repeat in range(10):
    rng = np.random.default_rng(repeat)
    rows = [rng.permutation(np.flatnonzero(y_train == package)) for package in range(n_packages)]
    for i, n in enumerate(n_labels):
        labelled = np.concatenate([of_package[:n] for of_package in rows])
        for name, (F_train, F_test) in features.items():
            classifier = LogisticRegression(C=30.0, solver="newton-cg")
            classifier.fit(F_train[labelled], y_train[labelled])
            accuracy[name][i, repeat] = classifier.score(F_test, y_test)

print("Mean accuracy on the test texts, by the number of labelled texts per package")
print(f"{'':22}" + "".join(f"{n:6d}" for n in n_labels))
for name, values in accuracy.items():
    print(f"  {name:<20}" + "".join(f"{value:6.0%}" for value in values.mean(axis=1)))

# %%
# In the figure, bands extend from the lowest to the highest of the ten accuracies.

fig, ax = plt.subplots(figsize=(5.6, 3.8))
for (name, values), marker in zip(accuracy.items(), "os", strict=True):
    ax.plot(n_labels, 100 * values.mean(axis=1), marker=marker, label=name)
    ax.fill_between(n_labels, 100 * values.min(axis=1), 100 * values.max(axis=1), alpha=0.2)
ax.set(xscale="log", xlabel="labelled texts per package", ylabel="accuracy on test texts (%)")
ax.set_xticks(n_labels, n_labels)
ax.minorticks_off()
ax.legend(loc="lower right")
plt.show()

# %%
# With few labels the topic proportions are more accurate on average, because there are few
# coefficients to learn. With many labels the words are more accurate, because they contain details
# that fifteen topics cannot represent. The accuracy depends on the choice of the labelled texts,
# most of all if there are few of them.
