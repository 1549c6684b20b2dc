"""
Identical results on one machine and on a Dask cluster
======================================================

A model can be fitted on a Dask cluster to a corpus that is too large for one machine: put the call
of ``fit`` in a ``with distributed(client):`` block. Does the result depend on the number of
workers, or on a worker that fails? This example fits the same model in one process, on a cluster of
two workers, and on a cluster of three workers that loses one of them. It shows that all results are
bit-identical.

The example needs Dask, which ``pip install -e ".[dask]"`` installs.
"""

# %%
# A corpus and a fingerprint
# --------------------------
# We simulate a corpus with 20 topics. To compare two fits we compute a SHA-256 fingerprint of the
# estimated topics and of the draws of their shares. It changes if a single bit differs.

import hashlib
import logging
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client, LocalCluster

from skmanifold import StochasticLDA, distributed
from skmanifold.datasets import make_lda_corpus

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")
logging.getLogger("distributed").setLevel(logging.CRITICAL)  # a lost worker is expected here

corpus = make_lda_corpus(
    3000,
    2000,
    20,
    mean_length=100,
    topic_word_prior=0.05,
    zipf_exponent=0.0,
    random_state=0,
)
X = corpus.data
n_tokens = X.sum()
print(f"{X.shape[0]} documents, {X.shape[1]} words, {n_tokens} tokens")


def make_lda(n_jobs=1):
    return StochasticLDA(20, max_iter=60, burn_in=30, random_state=0, n_jobs=n_jobs)


def fingerprint(lda):
    values = lda.components_.tobytes() + lda.posterior_["topic_weights"].tobytes()
    return hashlib.sha256(values).hexdigest()[:16]


# %%
# One process
# -----------
# These are the reference fits, with one thread and with two threads.

fits = {"1 thread": make_lda().fit(X), "2 threads": make_lda(n_jobs=2).fit(X)}
for name, lda in fits.items():
    print(f"{name:<12}{fingerprint(lda)}")

# %%
# Two workers
# -----------
# Each worker holds half of the documents. After each pass the workers exchange only the counts of
# words in topics. The cluster of this example runs in one process (``processes=False``), so that
# the example runs everywhere. Without this option ``LocalCluster`` starts separate processes; other
# Dask clusters use several machines.

local = {"processes": False, "threads_per_worker": 1, "dashboard_address": None}
with (
    LocalCluster(n_workers=2, **local) as cluster,
    Client(cluster) as client,
    distributed(client),
):
    fits["2 workers"] = make_lda().fit(X)
print(f"{'2 workers':<12}{fingerprint(fits['2 workers'])}")

# %%
# A worker is lost
# ----------------
# The following callback closes one of three workers after pass 20, with all of its data. The fit
# then distributes the documents among the remaining workers and continues from the last
# checkpoint. Checkpoints need a folder that the client and all workers can access. We write one
# after every tenth pass. Without checkpoints, the fit would start again from the first pass.


class LoseWorker:
    """Callback that closes a worker of a cluster after a number of passes."""

    def __init__(self, cluster, after):
        self.cluster = cluster
        self.after = after
        self.n_passes = 0

    def setup(self, estimator, context):
        """Do nothing before the fit."""

    def teardown(self, estimator, context):
        """Do nothing after the fit."""

    def on_fit_task_begin(self, estimator, context):
        """Do nothing before a pass."""

    def on_fit_task_end(self, estimator, context):
        """Count the passes and close a worker."""
        if context.task_name == "pass":
            self.n_passes += 1
            if self.n_passes == self.after:
                name, worker = next(iter(self.cluster.workers.items()))
                self.cluster.sync(worker.close, nanny=False)
                del self.cluster.workers[name]


with (
    LocalCluster(n_workers=3, **local) as cluster,
    Client(cluster) as client,
    tempfile.TemporaryDirectory() as folder,
    distributed(client, checkpoint_dir=folder, checkpoint_every=10),
):
    lda = make_lda().set_callbacks(LoseWorker(cluster, after=20)).fit(X)
    print(f"Workers at the end: {len(cluster.workers)} of 3")
fits["3 workers, 1 lost"] = lda

# %%
# Comparison
# ----------

for name, lda in fits.items():
    print(f"{name:<19}{fingerprint(lda)}")

# %%
# All fingerprints are equal. The figure shows the log likelihood after each pass.

_, ax = plt.subplots(figsize=(5.6, 3.8))
for i, ((name, lda), style) in enumerate(zip(fits.items(), "os^D", strict=True)):
    trace = lda.log_density_trace_[0] / n_tokens
    passes = np.arange(1, len(trace) + 1)
    ax.plot(passes, trace, marker=style, markevery=(2 * i, 8), linewidth=1, label=name)
ax.axvline(20.5, color="0.5", linestyle="--")
ax.annotate("1 of 3 workers lost", (21.5, 0.05), xycoords=("data", "axes fraction"))
ax.set(xlabel="pass", ylabel="log likelihood (nats per token)")
ax.legend(loc="center right")
plt.show()

# %%
# The four curves coincide, so only the markers of the different fits can be distinguished.
#
# Why are the results identical?
# ------------------------------
# Each random number is computed from the seed, the pass, the document and the word, so it does not
# depend on the worker that computes it. The statistics are integer counts, so the order of their
# addition does not matter. The machines of a cluster should be of the same type: processors that
# round a logarithm differently could, in rare cases, give different draws.
#
# A cluster is useful if the corpus does not fit into one machine. Otherwise threads are faster,
# because they share memory and workers have to exchange the counts.
