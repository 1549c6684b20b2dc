"""
The same bytes from a cluster
=============================

A corpus that is too large for one machine can be fitted on many: ``with distributed(client):`` around `fit` is all that
changes. What does not change is the result, to the last bit: whatever the number of workers and threads, and even if a
worker is lost on the way. We fit here, on a cluster of two workers and on one of three that loses a worker, and
compare.

The cluster is a small one within this process, as the page is to run everywhere; `LocalCluster` without
``processes=False`` starts processes, and other kinds of clusters take other machines. It needs Dask, which the extra
``dask`` installs. Without it the page says so and ends.
"""

# %%
# A corpus and a digest
# ---------------------
# The digest of an array changes if any of its bits does.

import hashlib
import logging
import tempfile

import matplotlib.pyplot as plt
import numpy as np

from skmanifold import StochasticLDA, distributed
from skmanifold.datasets import make_lda_corpus

try:
    from dask.distributed import Client, LocalCluster
except ImportError:
    LocalCluster = None
    print("Dask is not installed: only the fit of this process is shown.")

logging.getLogger("distributed").setLevel(logging.CRITICAL)  # a worker that dies is what we want here
X = make_lda_corpus(3000, 2000, 20, mean_length=100, topic_word_prior=0.05, zipf_exponent=0.0, random_state=0).data
print(f"{X.shape[0]} documents, {X.sum()} tokens")


def make_lda():
    return StochasticLDA(20, max_iter=60, burn_in=30, random_state=0)


def digest(lda):
    draws = lda.posterior_["topic_weights"]
    return hashlib.sha256(lda.components_.tobytes() + draws.tobytes()).hexdigest()[:16]


fits = {"here, one thread": make_lda().fit(X), "here, two threads": make_lda().set_params(n_jobs=2).fit(X)}

# %%
# Two workers
# -----------
# Each worker holds half of the documents, and their topics. In a pass only the words' counts of topics travel, along a
# tree of workers. A worker's threads are those that the cluster gives it.

local = {"processes": False, "threads_per_worker": 1, "dashboard_address": None}
if LocalCluster:
    with LocalCluster(n_workers=2, **local) as cluster, Client(cluster) as client, distributed(client):
        fits["two workers"] = make_lda().fit(X)

# %%
# A worker is lost
# ----------------
# This callback closes a worker after the twentieth pass, for good. All that it held is lost. The rows go to the workers
# that are left, and the fit goes on from the last checkpoint, here after the twentieth pass at the latest: so there is
# a folder that client and workers all reach, and every tenth pass is written there. Without one it would begin again.


class LoseWorker:
    """Callback that closes the first worker of a cluster after a pass."""

    def __init__(self, cluster, after):
        self.cluster, self.after, self.passes = cluster, after, []

    def setup(self, estimator, context):
        """Nothing to prepare."""

    def teardown(self, estimator, context):
        """Nothing to clean up."""

    def on_fit_task_begin(self, estimator, context):
        """Nothing to do before a pass."""

    def on_fit_task_end(self, estimator, context):
        """Count passes, and close a worker after the right one."""
        if context.task_name == "pass":
            self.passes.append(len(self.cluster.workers))
            if len(self.passes) == self.after:
                name, worker = next(iter(self.cluster.workers.items()))
                self.cluster.sync(worker.close, nanny=False)
                del self.cluster.workers[name]


if LocalCluster:
    with (
        LocalCluster(n_workers=3, **local) as cluster,
        Client(cluster) as client,
        tempfile.TemporaryDirectory() as folder,
        distributed(client, checkpoint_dir=folder, checkpoint_every=10),
    ):
        lose = LoseWorker(cluster, after=20)
        fits["three workers, one lost"] = make_lda().set_callbacks(lose).fit(X)
    print(f"Workers left of three: {lose.passes[-1]}")

# %%
# Are they equal?
# ---------------

print()
for name, lda in fits.items():
    print(f"  {name:<26}{digest(lda)}")

# %%
# Why
# ---
# No draw belongs to a worker. It belongs to the seed, the pass, the document and the word, and its number is computed
# from these. Counts are whole numbers, and whole numbers can be added in any order. A cluster changes who computes what
# and when, and nothing else. (Machines must be alike: a logarithm that another processor rounds otherwise may one day
# decide a draw.)
#
# Is it faster? Not here, where all workers share one process, nor for any corpus that fits into one machine: threads
# share what workers have to send each other.

# %%
# The picture
# -----------
# Left, the log likelihood of every pass: lines that lie on each other. Right, a picture of the topics that were found:
# there is but one, for all of the fits.

figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.2), layout="constrained")
colours, styles = ["#c6dbef", "#6baed6", "#08519c", "#e08214"], ["-", "-", "--", ":"]
for (name, lda), colour, style, width in zip(fits.items(), colours, styles, (9, 5, 2.5, 2), strict=False):
    trace = lda.log_density_trace_[0]
    left.plot(np.arange(1, len(trace) + 1), trace / X.sum(), style, color=colour, linewidth=width, label=name)
left.axvline(20.5, color="0.6", linewidth=1)
left.text(21.5, 0.1, "one of three workers is lost", transform=left.get_xaxis_transform(), fontsize=9, color="0.3")
left.set(xlabel="pass", ylabel="log likelihood, nats a token", title="one curve")
left.legend(frameon=False, loc="center right")
left.spines[["top", "right"]].set_visible(False)

lda = fits["here, one thread"]
order = np.argsort(lda.components_.argmax(axis=1))
words = np.argsort(-lda.components_.max(axis=0))[:60]
words = words[np.argsort(lda.components_[order][:, words].argmax(axis=0), kind="stable")]
right.imshow(np.sqrt(lda.components_[np.ix_(order, words)]), cmap="Blues", aspect="auto")
right.set(xlabel="the sixty most telling words", ylabel="topic", title="one set of topics", xticks=[], yticks=[])

plt.show()
