"""
Samplers of topic models by passes and by seconds
=================================================

How fast do the samplers of ``StochasticLDA`` improve, per pass and per second? This example
computes the held-out perplexity of six samplers during their fits. The experiment follows figure 6
of Zaheer, Wick, Tristan, Smola and Steele (2016), *Exponential stochastic cellular automata for
massively parallel inference*.
"""

# %%
# A synthetic corpus
# ------------------
# The corpus is drawn from latent Dirichlet allocation with 30 topics, so we know the perplexity of
# the true topics. One fifth of the documents are test documents. For a real corpus replace one
# line, for example by the counts of a ``CountVectorizer``.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from skmanifold import HeldOutMonitor, StochasticLDA
from skmanifold.datasets import make_lda_corpus
from skmanifold.metrics import document_completion
from skmanifold.samplers import EM, ESCA

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

n_components = 30
prior = 1 / n_components
alpha = np.full(n_components, prior)
corpus = make_lda_corpus(
    n_samples=1200,
    n_features=2000,
    n_components=n_components,
    mean_length=80,
    doc_topic_prior=prior,
    zipf_exponent=0.8,
    random_state=0,
)
train, test = train_test_split(corpus.data, test_size=0.2, random_state=0)
best = document_completion(corpus.components, test, alpha).perplexity
print(f"{train.shape[0]} training documents, {train.sum()} tokens")
print(f"Perplexity of the true topics: {best:.0f}")

# %%
# Perplexity during a fit
# -----------------------
# A ``HeldOutMonitor`` calls a scoring function during the fit. With a ``burn_in`` of all passes but
# the last, the topics that it receives are those of the counts of the current pass, without an
# average over passes. All samplers have the same numbers as priors, and one function computes the
# perplexity: half of the tokens of each test text are predicted from the other half. The clock
# stops during evaluations. It measures processor time in one thread.
#
# ``ESCA()`` is the algorithm of the paper. The name ``"esca"`` also excludes each token from the
# counts that it is drawn with. By name, ``"em"`` ends when it has converged; ``tol=0`` lets it make
# all passes.

checked = [1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 57, 80]


class Curve:
    """Held-out perplexity and seconds so far after some of the passes, as a scoring function."""

    def __init__(self):
        self.n_passes, self.seconds, self.perplexity = 0, [], []
        self.evaluating = 0.0
        self.start = time.process_time()

    def __call__(self, lda, X, y=None):
        """Evaluate the topics, if this pass is one of those checked."""
        now = time.process_time()
        self.n_passes += 1
        if self.n_passes in checked:
            self.seconds.append(now - self.start - self.evaluating)
            self.perplexity.append(document_completion(lda.components_, X, alpha).perplexity)
        self.evaluating += time.process_time() - now
        return 0.0  # is not used


samplers = {
    '"esca"': "esca",
    "ESCA()": ESCA(),
    '"collapsed_gibbs"': "collapsed_gibbs",
    '"gibbs"': "gibbs",
    '"cvb0"': "cvb0",
    '"em"': EM(tol=0.0),
}


def fit(sampler, max_iter):
    curve = Curve()
    lda = StochasticLDA(
        n_components,
        sampler=sampler,
        doc_topic_prior=prior,
        topic_word_prior=0.1,
        max_iter=max_iter,
        burn_in=max_iter - 1,
        thin=1,
        random_state=0,
    )
    lda.set_callbacks(HeldOutMonitor(test, scoring=curve)).fit(train)
    return curve


curves = {}
print("Sampler            Perplexity after 1, 5, 20 and 80 passes  Seconds")
for name, sampler in samplers.items():
    fit(sampler, 2)  # compiles the kernels, or loads them
    curves[name] = curve = fit(sampler, checked[-1])
    values = "  ".join(f"{curve.perplexity[checked.index(n)]:6.0f}" for n in (1, 5, 20, 80))
    print(f"{name:<17}  {values:>40}  {curve.seconds[-1]:7.2f}")

# %%
# The left panel shows the passes and the right panel the seconds.

fig, axes = plt.subplots(1, 2, figsize=(8.6, 4), sharey=True)
for i, ((name, curve), marker) in enumerate(zip(curves.items(), "os^Dv*", strict=True)):
    for ax, x in zip(axes, (checked, curve.seconds), strict=True):
        ax.plot(x, curve.perplexity, f"C{i}{marker}-", markersize=4, label=name)
for ax, label in zip(axes, ("pass", "seconds of processor time"), strict=True):
    ax.axhline(best, color="0.5", linestyle=":", label="true topics")
    ax.set(xscale="log", xlabel=label)
    ax.xaxis.set_major_formatter("{x:g}")
axes[0].set_ylabel("held-out perplexity")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
plt.show()

# %%
# **By passes**, the perplexity of collapsed Gibbs sampling decreases first among the samplers with
# random draws, because it updates all counts after every token. ``"gibbs"`` updates the counts of a
# document after every token, and draws the topics once per pass. ESCA draws all tokens from the
# counts of the previous pass, so it can process them in parallel. It needs more passes, and reaches
# about the same perplexity.
#
# **CVB0 and EM** begin with topics that are nearly equal. Their perplexity therefore hardly changes
# at first, and then decreases fast. They are deterministic, and their topics belong to expected
# counts. The topics of a sampler belong to one random draw of the topics of all tokens. Its
# perplexity is therefore higher than that of a complete fit, which averages over passes.
#
# **By seconds**, the curves of ESCA and EM move to the left, because their passes are short; those
# of CVB0 are the longest. With more topics the passes of ESCA hardly become longer, while those of
# the other samplers do.
#
# No sampler reaches the perplexity of the true topics: the corpus is small, and a chain ends near
# one of many modes. The last values differ by up to 10% between samplers. With other seeds those of
# one sampler differ by up to 6%, so a single fit does not show which sampler is best.
