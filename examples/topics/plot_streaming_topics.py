"""
Online learning of topics when a new subject appears
====================================================

Documents may arrive in minibatches and may be too many to store, and their vocabulary is not known
in advance. ``StochasticLDA`` learns from such a stream by ``partial_fit``. How fast does it adapt
when documents on a new subject appear? This example simulates such a stream. It shows how to count
words without a vocabulary, how to follow the held-out perplexity, and how the learning rate
controls the balance between adapting and forgetting.
"""

# %%
# A stream of texts
# -----------------
# The texts are docstrings. The new subject is Python's standard library, which is absent from the
# first 20 of 30 minibatches. From minibatch 21 on, it has a third of the texts. We hold out 200
# texts of NumPy, SciPy and scikit-learn, and 100 texts of the standard library.

from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, HashingVectorizer

from skmanifold import StochasticLDA
from skmanifold.datasets import load_docstrings
from skmanifold.samplers import ESCA, SCIR

# sphinx_gallery_thumbnail_number = 2
plt.style.use("skmanifold.inspection.skmanifold")

corpus = load_docstrings()
texts = corpus.data
is_new = corpus.target == corpus.target_names.index("stdlib")
rng = np.random.default_rng(0)
old, new = (rng.permutation(np.flatnonzero(part)) for part in (~is_new, is_new))

n_batches, batch_size, first_new = 30, 100, 21
held_out = {"old subjects": old[:200], "new subject": new[:100]}
old, new, batches = old[200:], new[100:], []
for t in range(1, n_batches + 1):
    n_new = batch_size // 3 if t >= first_new else 0
    n_old = batch_size - n_new
    batches.append(np.concatenate([old[:n_old], new[:n_new]]))
    old, new = old[n_old:], new[n_new:]
print(f"{n_batches} minibatches of {batch_size} texts; new subject from minibatch {first_new} on")

# %%
# For newsgroups, use ``corpus = fetch_20newsgroups(remove=("headers", "footers", "quotes"))`` and
# ``is_new = np.isin(corpus.target, [7, 8])``, the groups about cars and motorcycles.
#
# Word counts without a vocabulary
# --------------------------------
# ``HashingVectorizer`` computes the column of a word by a hash function, so it needs no vocabulary.
# A topic model needs counts, so we disable the random signs and the normalisation.

hashing = HashingVectorizer(
    n_features=2**14,
    alternate_sign=False,
    norm=None,
    stop_words=list(ENGLISH_STOP_WORDS),
    token_pattern=r"\b[a-z]{3,}\b",
)


def count_words(rows):
    return hashing.transform([texts[row] for row in rows])


# %%
# To read the topics we need the words of the columns. We store the words of the stream, and name
# each column by its most frequent word.

analyze = hashing.build_analyzer()
frequency = Counter(word for rows in batches for row in rows for word in set(analyze(texts[row])))
by_frequency = sorted(frequency, key=frequency.get)
columns = hashing.transform(by_frequency).indices
word_of = dict(zip(columns, by_frequency, strict=True))  # the most frequent word is the last
print(f"{len(frequency)} words in {len(word_of)} of {hashing.n_features} columns")

# %%
# Some words share a column. More columns would avoid that, at the cost of memory.
#
# Three estimators
# ----------------
# We compare three estimators:
#
# - ESCA with ``learning_decay=0.7``, the default. Minibatch *t* gets the weight
#   ``(learning_offset + t) ** -learning_decay`` in the statistics, so later minibatches have less
#   weight.
# - ESCA with ``learning_decay=0.4``. The weights decrease more slowly, so later minibatches have
#   more weight than with 0.7.
# - SCIR, which draws topics from their posterior distribution and has a constant step size.
#
# After each minibatch we compute the perplexity of the held-out texts.

common = {
    "n_components": 12,
    "topic_word_prior": 0.1,
    "total_samples": n_batches * batch_size,
    "random_state": 0,
}
esca = ESCA(n_local_sweeps=20, n_first_sweeps=100)
models = {
    "ESCA, decay 0.7": StochasticLDA(sampler=esca, learning_decay=0.7, **common),
    "ESCA, decay 0.4": StochasticLDA(sampler=esca, learning_decay=0.4, **common),
    "SCIR, step size 0.3": StochasticLDA(sampler=SCIR(0.3), thin=1, **common),
}
X_held_out = {part: count_words(rows) for part, rows in held_out.items()}
perplexity = {part: {name: [] for name in models} for part in held_out}
for rows in batches:
    X = count_words(rows)
    for name, model in models.items():
        model.partial_fit(X)
        for part, X_part in X_held_out.items():
            perplexity[part][name].append(model.perplexity(X_part))

shown = [1, 10, 20, 25, 30]
print("Held-out perplexity after minibatch" + "".join(f"{t:7d}" for t in shown))
for part, curves in perplexity.items():
    for name, curve in curves.items():
        print(f"{part:<14}{name:<21}" + "".join(f"{curve[t - 1]:7.0f}" for t in shown))


# %%
# The old subjects
# ----------------
# The figures start at minibatch 5. The shaded minibatches contain the new subject.


def plot_perplexity(part):
    _, ax = plt.subplots(figsize=(5.6, 3.8))
    minibatches = np.arange(5, n_batches + 1)
    for (name, curve), style in zip(perplexity[part].items(), ["o-", "s--", "^:"], strict=True):
        ax.plot(minibatches, curve[4:], style, markersize=4, label=name)
    ax.axvspan(first_new - 0.5, n_batches + 0.5, color="0.92", zorder=0)
    ax.set(xlabel="minibatch", ylabel=f"held-out perplexity, {part}", xlim=(4.5, n_batches + 0.5))
    ax.legend()
    plt.show()


plot_perplexity("old subjects")

# %%
# With a decay of 0.7 the perplexity of the old subjects decreases steadily, because the estimate
# averages over many minibatches. With a decay of 0.4 it stops decreasing earlier. It increases
# slightly when the new subject replaces some of the old texts: the model forgets faster.
#
# The new subject
# ---------------

plot_perplexity("new subject")

# %%
# During the first 20 minibatches the perplexity of the new subject decreases slowly, because the
# new texts share common words with the old ones. When the new texts arrive, it decreases faster.
# The estimator with a decay of 0.4 adapts fastest, but its perplexity of the old subjects is
# higher.
#
# SCIR makes only one step per minibatch, and 30 steps are few, so its perplexity is higher at
# first. Its advantage is that it draws the topics, so credible intervals can be computed.
#
# Topics of the new subject
# -------------------------
# For each estimator we show the two topics whose proportions differ most between the held-out texts
# of the new and the old subjects. A column is named by its most frequent word.

for name, model in models.items():
    in_old, in_new = (model.transform(X_part).mean(axis=0) for X_part in X_held_out.values())
    relevance = np.log(model.components_) - 0.4 * np.log(model.components_.mean(axis=0))
    print(f"{name}\n  New   Old   Topic")
    for topic in np.argsort(in_old - in_new)[:2]:
        top = [word_of.get(column, "?") for column in np.argsort(-relevance[topic])[:7]]
        print(f"  {in_new[topic]:4.0%}  {in_old[topic]:4.0%}  {', '.join(top)}")

# %%
# The topics of ESCA with words such as "file" and "path" represent the standard library. They also
# contain words of old subjects: ten minibatches are too few to separate all subjects. The topics of
# SCIR differ less between the new and the old texts.
