"""
Topics at right angles, and how many there are
==============================================

Topics that may be alike leave it to you how many there are: one more always finds something to say. If topics stand at
right angles, none says what another has said, and their number becomes a question with an answer.
`OrthogonalSphericalAdmixture` infers it. We draw documents from the model, where the answer is known; then we take real
texts, where the answer is less simple than it looks.

The texts are abstracts of awards (``nsf_counts.npz`` in the folder that ``SKMANIFOLD_DATA`` names), or else the
docstrings of installed packages.
"""

# %%
# Documents whose number of topics is known
# -----------------------------------------
# Six orthogonal topics in sixty dimensions. A document is a direction near a mixture of them: its cosine with the
# mixture is 0.8 or so.

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from skmanifold import OrthogonalSphericalAdmixture
from skmanifold.datasets import load_docstrings
from skmanifold.distributions import VonMisesFisher
from skmanifold.metrics import match_topics

n_features, n_topics = 60, 6
rng = np.random.default_rng(0)
topics = np.linalg.qr(rng.normal(size=(n_features, n_topics)))[0].T
mixtures = rng.dirichlet(np.full(n_topics, 0.5), 800) @ topics
mixtures /= np.linalg.norm(mixtures, axis=1, keepdims=True)
documents = np.concatenate([VonMisesFisher(mixture, 130.0).sample(1, random_state=rng) for mixture in mixtures])
print(f"Mean cosine with the mixture: {np.sum(documents * mixtures, axis=1).mean():.2f}")

# %%
# How many?
# ---------
# Short runs with different numbers of topics choose where the chain begins. Then births, deaths, splits and mergers
# change the number, all by exact moves, so that the share of passes with K topics estimates the probability of K.

settings = {"max_iter": 80, "thin": 1, "n_size_moves": 3, "n_predictive_draws": 8, "random_state": 0, "n_jobs": 2}
numbers = [25, 50, 100, 200, 400, 800]
fitted = {"drawn from the model": [OrthogonalSphericalAdmixture(**settings).fit(documents[:n]) for n in numbers]}
model = fitted["drawn from the model"][-1]
print("Number of topics, probability: ", end="")
print(", ".join(f"{k}: {p:.2f}" for k, p in enumerate(model.n_components_posterior_) if p > 0))
match = match_topics(topics, model.components_)
print(f"Cosines of the true topics with those found: {match.similarity.min():.3f} to {match.similarity.max():.3f}")

# %%
# With few documents a topic that hardly occurs cannot be told from noise. The more there are, the surer the number,
# and it stays where it is.

for n, fewer in zip(numbers, fitted["drawn from the model"], strict=True):
    probabilities = ", ".join(f"{k}: {p:.2f}" for k, p in enumerate(fewer.n_components_posterior_) if p > 0)
    print(f"{n:5d} documents: {probabilities}")

# %%
# Texts
# -----
# Now tf-idf of real texts, in a random order, and of the words only those that are frequent.

folder = Path(os.environ.get("SKMANIFOLD_DATA", ""))
if (folder / "nsf_counts.npz").exists():
    source = "NSF abstracts"
    names = np.array((folder / "nsf_vocabulary.txt").read_text().split())
    counts = sp.csr_array(sp.load_npz(folder / "nsf_counts.npz"))
else:
    source = "docstrings"
    vectorizer = CountVectorizer(token_pattern=r"\b[a-z]{3,}\b", stop_words="english", max_df=0.2)
    counts = sp.csr_array(vectorizer.fit_transform(load_docstrings(max_documents=3000).data))
    names = vectorizer.get_feature_names_out()
order = np.random.default_rng(0).permutation(counts.shape[0])
frequent = np.sort(np.argsort(-np.asarray((counts > 0).sum(axis=0)).ravel())[:600])
counts, names = counts[order][:, frequent], names[frequent]
counts = counts[np.asarray(counts.sum(axis=1)).ravel() >= 10]
tfidf = sp.csr_array(TfidfTransformer(sublinear_tf=True).fit_transform(counts.astype(float)))
train, test = tfidf[:800], tfidf[-300:]
print(f"\nData: {source}; {tfidf.shape[0]} texts, {len(names)} words")

# %%
# A number of topics that is given: the words for each. At right angles is not apart: two topics may both like a word,
# if they differ in others.

given = OrthogonalSphericalAdmixture(8, max_iter=60, random_state=0, n_jobs=2).fit(train)
for k, topic in enumerate(given.topic_words(7, names)):
    print(f"topic {k}: {', '.join(word for word, _ in topic.positive)}")

# %%
# And if the number is inferred? It grows with the number of texts, and would go on. Texts are no exact mixture of a
# few directions, and who has seen more of them knows that better. So the number is not one of subjects. It says how
# many directions *this model* has found in *these* texts, and further ones foresee texts held out better still. Where
# topics are to be read, give a number; where they are to predict, compare scores.

fitted[source] = [OrthogonalSphericalAdmixture(**settings).fit(train[:n]) for n in numbers]
draws = {name: [one.posterior_["n_components"][0] for one in ones] for name, ones in fitted.items()}
print("\nDocuments             " + "".join(f"{n:8d}" for n in numbers))
for name, of_name in draws.items():
    print(f"  {name:<20}" + "".join(f"{draw.mean():8.1f}" for draw in of_name))

sizes = [2, 4, 8, 16]
models = [OrthogonalSphericalAdmixture(k, **settings).fit(train) for k in sizes]
scores = [one.score(test) for one in models]
inferred = fitted[source][-1]
score = inferred.score(test)
print("\nLog density of texts held out, nats above the uniform law")
for k, of_given in zip(sizes, scores, strict=True):
    print(f"  {k:2d} topics{of_given:27.1f}")
print(f"  inferred, {inferred.n_components_:2d} topics{score:17.1f}")

# %%
# The picture
# -----------
# Left, the number of topics given few and many documents of the model. Middle, the number against the number of
# documents, with the range of the draws. Right, what the number is good for, in texts.

blue, orange = "#08519c", "#e08214"
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
for place, (n, shade) in enumerate(((25, "#c6dbef"), (50, "#6baed6"), (800, blue))):
    posterior = fitted["drawn from the model"][numbers.index(n)].n_components_posterior_
    left.bar(np.arange(len(posterior)) + 0.27 * (place - 1), posterior, 0.27, color=shade, label=f"{n} documents")
left.axvline(n_topics, color="grey", linestyle="--", linewidth=1, zorder=0)
left.set(
    xlabel="number of topics", ylabel="probability", title="drawn from six topics", xticks=range(9), xlim=(0.4, 8.6)
)
left.legend(frameon=False, loc="center left")
for (name, of_name), colour in zip(draws.items(), (blue, orange), strict=True):
    low, high = [d.min() for d in of_name], [d.max() for d in of_name]
    middle.fill_between(numbers, low, high, color=colour, alpha=0.2, linewidth=0)
    middle.plot(numbers, [d.mean() for d in of_name], "o-", color=colour, label=name)
middle.axhline(n_topics, color="grey", linestyle="--", linewidth=1)
middle.set(xscale="log", xlabel="documents", ylabel="number of topics", title="more documents", ylim=(0, None))
middle.set_xticks(numbers, numbers)
middle.minorticks_off()
middle.legend(frameon=False, loc="upper left")
right.plot(sizes, scores, "o-", color=orange, label="number given")
right.plot(inferred.n_components_, score, "*", color="#cb4b3f", markersize=14, label="inferred")
right.set(xlabel="number of topics", ylabel="nats a document above the uniform law", title=f"{source} held out")
right.legend(frameon=False, loc="lower right")
for ax in (left, middle, right):
    ax.spines[["top", "right"]].set_visible(False)

plt.show()
