"""
Topics of a stream, and one that comes late
===========================================

Texts arrive, a hundred at a time, and are not kept. The words are not known beforehand either. `StochasticLDA` learns
from such a stream by ``partial_fit``. And what if, half way through, texts begin to speak of something new? How soon a
model turns to it is for you to choose: what learns fast forgets fast.

The texts are posts to newsgroups (``ng20_train_counts.npz`` and its companions in the folder that ``SKMANIFOLD_DATA``
names), or else the docstrings of installed packages.
"""

# %%
# A stream
# --------
# Two thirds of the way nobody speaks of one subject: of cars and motorcycles, or, in the docstrings, of the standard
# library. Then a third of the texts do. Three hundred texts are held out, a hundred of them of the late subject.

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, HashingVectorizer

from skmanifold import StochasticLDA
from skmanifold.datasets import load_docstrings
from skmanifold.samplers import ESCA, SCIR

of_mail = "edu com org net writes article subject lines organization"
stop_words = [*ENGLISH_STOP_WORDS, *of_mail.split()]
rng = np.random.default_rng(0)
folder = Path(os.environ.get("SKMANIFOLD_DATA", ""))
if (folder / "ng20_train_counts.npz").exists():
    source, late_subject = "posts to newsgroups", "cars and motorcycles"
    words = np.array((folder / "ng20_vocabulary.txt").read_text().split())
    counts = sp.csr_array(sp.load_npz(folder / "ng20_train_counts.npz"))
    groups = np.array((folder / "ng20_label_names.txt").read_text().split())[np.load(folder / "ng20_train_labels.npy")]
    is_late = np.isin(groups, ["rec.autos", "rec.motorcycles"])
    others = ["sci.space", "sci.med", "talk.politics.mideast", "rec.sport.hockey", "comp.graphics"]
    chosen = np.flatnonzero(np.isin(groups, others) | is_late)
    texts = [" ".join(words[row.indices].repeat(row.data)) for row in counts[chosen]]
    is_late = is_late[chosen]
else:
    source, late_subject = "docstrings", "the standard library"
    corpus = load_docstrings()
    texts, is_late = corpus.data, corpus.target == corpus.target_names.index("stdlib")

early, late = (rng.permutation(np.flatnonzero(part)) for part in (~is_late, is_late))
held_out = {"what was there from the start": early[:200], late_subject: late[:100]}
early, late, batches = early[200:], late[100:], []
for t in range(30):
    n_late = 33 if t >= 20 else 0
    batches.append(np.concatenate([early[: 100 - n_late], late[:n_late]]))
    early, late = early[100 - n_late :], late[n_late:]
print(f"Data: {source}; {len(batches)} minibatches of {len(batches[0])} texts; {late_subject} from the 21st on")

# %%
# Words that are not known beforehand
# -----------------------------------
# A vocabulary would need all texts. A hash of each word says which column is its own; now and then two words share one.
# Signs, which would cancel such clashes elsewhere, and lengths are switched off: a topic model wants counts. To read
# the topics later we remember which words fell into a column.

hashing = HashingVectorizer(
    n_features=2**13,
    alternate_sign=False,
    norm=None,
    stop_words=stop_words,
    token_pattern=r"\b[a-z]{3,}\b",
)
analyze, seen = hashing.build_analyzer(), {}


def counts_of(rows):
    return hashing.transform([texts[row] for row in rows])


def remember(rows):
    """Words of the texts, by column, the most frequent first in the end."""
    for row in rows:
        for word in set(analyze(texts[row])):
            seen[word] = seen.get(word, 0) + 1


for rows in batches:
    remember(rows)
ordered = sorted(seen, key=seen.get)
columns = hashing.transform(ordered).indices
name_of = dict(zip(columns, ordered, strict=True))  # the last one of a column, its most frequent, stays
print(f"{len(seen)} words in {len(name_of)} columns")

# %%
# Three learners
# --------------
# All are told that there are twelve topics, and that the stream is three thousand texts long. After each minibatch
# each is asked to foresee the texts held out: half of each text's words are shown, the other half is guessed.
#
# - `ESCA` moves its counts by ``(learning_offset + t) ** -learning_decay``: as t grows it believes minibatches less.
# - The same with a rate that falls more slowly.
# - `SCIR` draws topics from their posterior, given the latest minibatches: with a constant step size h it remembers
#   about the last 1 / h. What it predicts with are draws from the second half of the stream so far.

common = {"n_components": 12, "topic_word_prior": 0.1, "total_samples": 3000, "random_state": 0}
esca = ESCA(n_local_sweeps=20, n_first_sweeps=100)
models = {
    "ESCA, decay 0.7": StochasticLDA(sampler=esca, learning_decay=0.7, **common),
    "ESCA, decay 0.4": StochasticLDA(sampler=esca, learning_decay=0.4, **common),
    "SCIR, steps of 0.3": StochasticLDA(sampler=SCIR(0.3), thin=1, **common),
}
X_held_out = {name: counts_of(rows) for name, rows in held_out.items()}
curves = {name: {part: [] for part in held_out} for name in models}
for rows in batches:
    X = counts_of(rows)
    for name, model in models.items():
        model.partial_fit(X)
        for part, X_part in X_held_out.items():
            curves[name][part].append(model.perplexity(X_part))

print("\nPerplexity of texts held out" + " " * 22 + "after minibatch     1    20    21    25    30")
for name in models:
    for part in held_out:
        values = "".join(f"{curves[name][part][t - 1]:6.0f}" for t in (1, 20, 21, 25, 30))
        print(f"  {name:<20}{part:<44}{values}")

# %%
# Words of the late subject
# -------------------------
# Which topics have the held-out texts of the late subject more than the others? A column is named by its most frequent
# word.

for name, model in models.items():
    others, shares = (model.transform(X_part).mean(axis=0) for X_part in X_held_out.values())
    often = model.components_.mean(axis=0)
    relevance = np.log(model.components_) - 0.4 * np.log(often)
    print(f"\n{name}")
    for topic in np.argsort(others - shares)[:2]:
        top = [name_of.get(column, "?") for column in np.argsort(-relevance[topic])[:8]]
        print(f"  {shares[topic]:4.0%} (others {others[topic]:3.0%})  {', '.join(top)}")

# %%
# The picture
# -----------
# What was there from the start is foreseen better and better. Of the late subject only common words are, until it
# comes. Then the learner that believes minibatches more turns to it sooner, and keeps less of the rest. `SCIR` draws
# topics, from one step a minibatch: thirty steps are few for it, and it is behind, but keeps the draws that tell how
# sure a topic is.

colours = {"ESCA, decay 0.7": "#08519c", "ESCA, decay 0.4": "#6baed6", "SCIR, steps of 0.3": "#cb6a5d"}
figure, axes = plt.subplots(1, 2, figsize=(11.5, 4.4), layout="constrained")
figure.suptitle(f"A stream of {source}, a hundred at a time")
for ax, part in zip(axes, held_out, strict=True):
    for name, colour in colours.items():
        ax.plot(np.arange(1, len(batches) + 1), curves[name][part], color=colour, linewidth=2, label=name)
    ax.axvspan(20.5, len(batches) + 0.5, color="0.94", zorder=0, linewidth=0)
    ax.set(xlabel="minibatch", title=part, xlim=(0.5, len(batches) + 0.5))
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("perplexity of texts held out (lower is better)")
axes[1].text(
    25.5, 0.97, "now it is spoken of", transform=axes[1].get_xaxis_transform(), ha="center", va="top", fontsize=9
)
axes[0].legend(frameon=False)

plt.show()
