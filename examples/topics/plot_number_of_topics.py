"""
How many topics does a corpus have?
===================================

``HDPAdmixture`` infers the number of topics. This example shows what it finds in real texts, which
parts of the answer depend on the start of the chain and on the prior, and which do not.
"""

# %%
# Texts
# -----
# The texts are docstrings of NumPy, SciPy, scikit-learn and the standard library, which need no
# download. ``fetch_20newsgroups`` of scikit-learn would give news with the same attributes.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

from skmanifold import HDPAdmixture, StochasticLDA
from skmanifold.datasets import load_docstrings

# sphinx_gallery_thumbnail_number = 2
plt.style.use("skmanifold.inspection.skmanifold")

stop_words = list(ENGLISH_STOP_WORDS)
vectorizer = CountVectorizer(min_df=5, stop_words=stop_words, token_pattern=r"\b[a-z]{3,}\b")
X = vectorizer.fit_transform(load_docstrings(max_documents=2000).data)
train, test = X[:1600], X[1600:]
print(f"{train.shape[0]} texts, {train.shape[1]} words, {train.sum()} tokens")

# %%
# A fit without a number
# ----------------------
# The default start has random topics, a quarter of the square root of the number of tokens.
# A topic is called large here if it has more than 1% of the weight.

settings = {"max_iter": 200, "random_state": 0}
hdp = HDPAdmixture(**settings).fit(train)
print(f"{hdp.n_components_} topics, {(hdp.topic_weights_ > 0.01).sum()} of them large")
names = vectorizer.get_feature_names_out()
hdp.topics_as_frame(n_words=6, feature_names=names)[["share", "words"]].head(8)

# %%
# Most of the topics are small, because texts have structure at all scales: subjects, but also
# phrases and single functions. The weights decrease slowly, and there is no gap between topics that
# "exist" and others.

fig, ax = plt.subplots(figsize=(5.6, 3.6))
ax.loglog(1 + np.arange(hdp.n_components_), np.sort(hdp.topic_weights_)[::-1], "o", ms=3)
ax.axhline(0.01, color="0.5", lw=1)
_ = ax.set(xlabel="rank of the topic", ylabel="weight")

# %%
# The start
# ---------
# Chains that begin with five, the default number, or 200 topics end with different numbers. Each of
# them moves slowly, so that ``n_components_posterior_`` of a single chain is too narrow. The
# numbers of large topics differ less, and more topics at the start predict held-out texts better.

rows, draws = {}, {}
for init in (5, "auto", 200):
    fit = hdp if init == "auto" else HDPAdmixture(init=init, **settings).fit(train)
    weights = fit.posterior_["topic_weights"][0]
    draws[init] = fit.posterior_["n_components"][0], (weights > 0.01).sum(axis=1)
    rows[init] = {
        "topics": np.median(draws[init][0]),
        "large topics": np.median(draws[init][1]),
        "perplexity": fit.perplexity(test),
    }
pd.DataFrame(rows).T.rename_axis("init").round(1)

# %%
# The left panel shows the numbers of topics in the draws, the right one those of large topics.

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4))
for init, (n_topics, n_large) in draws.items():
    left.plot(n_topics)
    right.plot(n_large, label=f"init={init!r}")
left.set(xlabel="draw", ylabel="topics", ylim=(0, None))
right.set(xlabel="draw", ylabel="topics with more than 1%", ylim=(0, None))
_ = right.legend(loc="lower left")

# %%
# The prior
# ---------
# ``topic_word_prior`` determines how many words a topic has, and so how many topics there are.
# Held-out documents show which value is better.

rows = {}
for prior in (0.02, 0.1, 0.5):
    fit = hdp if prior == 0.1 else HDPAdmixture(topic_word_prior=prior, **settings).fit(train)
    rows[prior] = {
        "topics": np.median(fit.posterior_["n_components"]),
        "large topics": int((fit.topic_weights_ > 0.01).sum()),
        "perplexity": fit.perplexity(test),
    }
pd.DataFrame(rows).T.rename_axis("topic_word_prior").round(1)

# %%
# A grid of numbers
# -----------------
# For comparison, ``StochasticLDA`` with given numbers of topics and learned priors. After a single
# fit, the perplexity of ``HDPAdmixture`` is close to that of the best number of the grid. A start
# with more topics improves it, as the table above shows.

grid = {}
for K in (10, 30, 100):
    lda = StochasticLDA(K, doc_topic_prior="auto", random_state=0).fit(train)
    grid[K] = lda.perplexity(test)
fig, ax = plt.subplots(figsize=(5.6, 3.6))
ax.semilogx(list(grid), list(grid.values()), "o-", label="StochasticLDA")
ax.axhline(hdp.perplexity(test), color="C1", label="HDPAdmixture")
ax.set(xlabel="given number of topics", ylabel="held-out perplexity")
_ = ax.legend()

# %%
# What the posterior of the number means
# --------------------------------------
# It says how many topics the model uses to describe these texts, given its prior. It does not count
# subjects as a reader would: most of the topics are small, and more texts give more topics. Use the
# number of large topics as a description, held-out scores to compare models, and ``topic_weights_``
# to see which topics matter.
