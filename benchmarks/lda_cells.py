"""The shape of a single-cell accessibility matrix: 15,729 cells, 885,305 regions, 424 million ones, on disk.

The matrix is synthetic: 40 topics with log-normal weights of regions, log-normal depths of cells, and each region at
most once in a cell. Fits of `StochasticLDA` read it in pieces. The time of 150 passes with 8 threads is an estimate
from that with two threads. The users of cisTopic report 51 minutes for 150 passes of Mallet with 8 threads.

    python -m benchmarks.lda_cells --folder /data/cells
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numba import njit

from benchmarks._results import add_write, begin_table, finish, row, show, title
from benchmarks.lda_memory import PeakMemory
from benchmarks.lda_out_of_core import alias_table, draw_word
from skmanifold import StochasticLDA
from skmanifold.datasets import make_lda_corpus, open_corpus, save_corpus
from skmanifold.random._keys import fold_in, random_bits, uniform
from skmanifold.utils._threads import split_range

N_CELLS, N_REGIONS, NNZ = 15_729, 885_305, 424_000_000
N_TOPICS, SPREAD_OF_REGIONS, SPREAD_OF_DEPTHS, CONCENTRATION = 40, 1.2, 0.5, 4.0
REPEATED = 1.10  # draws for each region of a cell, of which some are drawn twice
TOPIC, REGION = range(2)  # what the random numbers of a cell are for
PASSES, THREADS, MINUTES_OF_MALLET = 150, 8, 51


@njit(cache=True, nogil=True)
def draw_cells(key, start, shares, n_draws, tables, indptr, columns):
    """Fill CSR arrays, which have space for all draws, with the regions of cells from number `start` on."""
    n = 0
    indptr[0] = 0
    for i in range(len(n_draws)):
        own = fold_in(key, start + i)
        topic_key, region_key = fold_in(own, TOPIC), fold_in(own, REGION)
        regions = np.empty(n_draws[i], np.int32)
        for j in range(n_draws[i]):
            topic = min(np.searchsorted(shares[i], uniform(topic_key, j), side="right"), len(tables) - 1)
            regions[j] = draw_word(random_bits(region_key, j), tables[topic])
        regions.sort()
        last = -1
        for region in regions:
            if region != last:
                columns[n] = region
                n += 1
                last = region
        indptr[i + 1] = n
    return n


class Cells:
    """The cells, drawn in parts."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        of_all = rng.normal(0.0, SPREAD_OF_REGIONS, N_REGIONS)
        self.tables = np.empty((N_TOPICS, N_REGIONS), np.uint64)
        for table in self.tables:
            weights = np.exp(of_all + rng.normal(0.0, SPREAD_OF_REGIONS, N_REGIONS))
            alias_table(weights / weights.sum(), table)
        self.shares = np.cumsum(rng.dirichlet(np.full(N_TOPICS, CONCENTRATION / N_TOPICS), N_CELLS), axis=1)
        depths = np.exp(rng.normal(0.0, SPREAD_OF_DEPTHS, N_CELLS))
        self.n_draws = np.rint(REPEATED * NNZ * depths / depths.sum()).astype(np.int64)
        self.key = np.uint64(seed)

    def part(self, start, stop):
        """Some cells as a CSR array."""
        n_draws = self.n_draws[start:stop]
        indptr, columns = np.empty(len(n_draws) + 1, np.int64), np.empty(n_draws.sum(), np.int32)
        n = draw_cells(self.key, start, self.shares[start:stop], n_draws, self.tables, indptr, columns)
        return sp.csr_array((np.ones(n, np.int32), columns[:n], indptr), shape=(len(n_draws), N_REGIONS))

    def parts(self, n_threads=2, size=100):
        """All cells in order, drawn by threads a few parts ahead of who takes them."""
        with ThreadPoolExecutor(n_threads) as pool:
            ahead = deque()
            for piece in split_range(N_CELLS, size):
                ahead.append(pool.submit(self.part, *piece))
                if len(ahead) > 2 * n_threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()


class PassTimes:
    """Callback that records when each pass ends."""

    def setup(self, estimator, context):
        self.ends = [time.perf_counter()]

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if context.max_subtasks == 0:
            self.ends.append(time.perf_counter())
        return False

    def is_due(self, context):
        """No pass needs the fitted estimator."""
        return False


def measure(corpus, n_components, n_passes):
    """Median seconds of the passes after the first, their spread, and the peak memory."""
    times = PassTimes()
    lda = StochasticLDA(n_components, max_iter=n_passes, burn_in=n_passes - 1, n_jobs=2, random_state=0)
    with PeakMemory() as memory:
        lda.set_callbacks(times).fit(corpus)
    passes = np.diff(times.ends)[1:]
    return np.median(passes), passes.min(), passes.max(), memory.peak


def main():
    """Make the matrix if it is not in the folder, and measure passes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True, help="where the matrix is or will be")
    parser.add_argument("--n-components", type=int, nargs="+", default=[5, 50, 200])
    parser.add_argument("--n-passes", type=int, default=5)
    add_write(parser)
    options = parser.parse_args()
    if not Path(options.folder).exists():
        start = time.perf_counter()
        save_corpus(Cells().parts(), options.folder, n_features=N_REGIONS)
        print(f"drawn and written in {time.perf_counter() - start:.0f} s")
    corpus = open_corpus(options.folder)
    StochasticLDA(5, max_iter=2).fit(make_lda_corpus(200, 500, 5, random_state=0).data)  # compiles
    n_bytes = sum(file.stat().st_size for file in corpus.path.iterdir())
    n_cells, n_regions = corpus.shape
    title(f"{n_cells:,} cells, {n_regions:,} regions, {corpus.nnz:,} ones, {n_bytes / 1e9:.1f} GB on disk")
    head = "seconds a pass, 2 threads (least to largest)", "peak memory, GB"
    begin_table(("K", *head, f"estimate: minutes of {PASSES} passes, {THREADS} threads"))
    for n_components in options.n_components:
        seconds, least, largest, peak = measure(corpus, n_components, options.n_passes)
        minutes = PASSES * seconds * 2 / THREADS / 60
        row((n_components, f"{seconds:.1f} ({least:.1f} to {largest:.1f})", f"{peak / 1e9:.1f}", f"{minutes:.0f}"))
    show()
    show(
        f"The last column is not measured: it assumes that {THREADS} threads are {THREADS // 2} times as fast as two, "
        "although reading and sorting of pieces use one thread, and that later passes take as long as these, which are "
        f"among the first. Users of cisTopic report {MINUTES_OF_MALLET} minutes for {PASSES} passes of Mallet with "
        f"{THREADS} threads."
    )
    finish(options)


if __name__ == "__main__":
    main()
