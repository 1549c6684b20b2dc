"""Seconds of a pass of ESCA on two Dask workers of one thread, and of two threads of one process; parts of a pass.

"strong": the Wikipedia counts. "weak": the same counts repeated until each worker has `--weak-tokens` tokens. The fits
alternate, and all run while the cluster exists; "without cluster" is measured after it has been closed. Then the
overhead for 4, 16 and 64 hosts is estimated from the measured parts.

    SKMANIFOLD_DATA=... python -m benchmarks.cluster --n-components 100 1000
    SKMANIFOLD_DATA=... python -m benchmarks.cluster --quiet --sizes strong
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict

import numpy as np
import scipy.sparse as sp

from benchmarks._cluster_parts import take, watch
from benchmarks._corpora import load_counts
from benchmarks._results import add_write, begin_table, finish, row, show, title
from skmanifold import StochasticLDA, distributed
from skmanifold.inference._chains import Chain
from skmanifold.inference._distributed_fits import exchange

QUIET = {  # what Dask does while workers compute
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.worker.memory.monitor-interval": "2s",
    "distributed.nanny.pre-spawn-environ": {"OMP_NUM_THREADS": 1},  # without MALLOC_TRIM_THRESHOLD_
}
BYTES_PER_SECOND = 1.25e9  # assumed: 10 Gbit/s


def repeated(X, n_tokens):
    """The rows of X, repeated until they have about this number of tokens."""
    return sp.vstack([X] * max(1, round(n_tokens / X.sum())), format="csr")


def timed(lda, X):
    """Seconds of the passes of a fit after the first two, in which the workers compile or read kernels."""
    times, advance = [], Chain.advance

    def clocked(chain, *arguments):
        advance(chain, *arguments)
        times.append(time.perf_counter())

    Chain.advance = clocked
    try:
        lda.fit(X)
    finally:
        Chain.advance = advance
    return np.diff(times)[1:].tolist()


def parts_of(client, n_passes):
    """Median milliseconds of each part of a pass: of workers, the slowest, of which "wait" is the difference."""
    of_workers, here = list(client.run(take).values()), take()

    def per_pass(found, name):
        values = np.array(found.get(name, [0.0] * n_passes))
        return values[-(len(values) // n_passes) * n_passes :].reshape(n_passes, -1).sum(axis=1)[2:]

    rows = np.array([per_pass(found, "rows") for found in of_workers])
    slowest = rows.max(axis=0)
    parts = {"rows": np.median(rows.mean(axis=0)), "wait": np.median(slowest - rows.mean(axis=0))}
    for name in ("rebuild", "pack", "merge"):
        parts[name] = np.median(np.max([per_pass(found, name) for found in of_workers], axis=0))
    for name in ("client: pack", "client: unpack", "client: merge"):
        parts[name] = np.median(per_pass(here, name))
    parts["messages"] = np.median(per_pass(here, "call")) - sum(parts.values())
    parts["empty call"] = np.median(here["empty calls"]) / len(of_workers)
    return {name: 1e3 * value for name, value in parts.items()} | {"MB": np.median(here["bytes"]) / 1e6}


def compare(X, n_components, n_passes, n_rounds, options):
    """Seconds per pass of fits that alternate, and the parts of a pass on two workers."""
    from distributed import Client, LocalCluster

    lda = StochasticLDA(n_components, max_iter=n_passes, burn_in=n_passes - 1, random_state=0)
    two = StochasticLDA(**{**lda.get_params(), "n_jobs": 2})
    seconds, parts = defaultdict(list), defaultdict(list)
    of_cluster = {"dashboard_address": None, "processes": True}
    timed(two, X)
    for _ in range(n_rounds):
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, **of_cluster) as cluster,
            Client(cluster, direct_to_workers=options.direct) as client,
        ):
            client.run(watch, "worker")
            seconds["two threads"] += timed(two, X)
            take()
            with distributed(client):
                seconds["two workers"] += timed(lda, X)
            for name, value in parts_of(client, n_passes).items():
                parts[name].append(value)
        with (
            LocalCluster(n_workers=1, threads_per_worker=2, **of_cluster) as cluster,
            Client(cluster, direct_to_workers=options.direct) as client,
            distributed(client),
        ):
            seconds["one worker of two threads"] += timed(lda, X)
        seconds["two threads without cluster"] += timed(two, X)
    return {name: np.median(values) for name, values in seconds.items()}, {
        name: float(np.median(values)) for name, values in parts.items()
    }


def estimate(n_hosts, parts):
    """Milliseconds of overhead of a pass on `n_hosts` workers, each with the rows of a measured worker.

    A call and its answer take the measured time of an empty call, and their bytes that of the assumed network. Merging
    takes the measured time for two workers in each round. Rows take the same time, and no host is slower than another.
    """
    n_bytes = 1e6 * parts["MB"]
    groups = exchange.groups_of(n_hosts, n_bytes)
    size = groups[0][1]
    send = 1e3 * n_bytes / BYTES_PER_SECOND
    call = parts["empty call"]
    exchanged = 2 * (send + (size - 1) * call) if size > 1 else 0.0
    merging = parts["client: merge"] * (len(groups) - 1)
    merging += parts["client: merge"] * math.log2(size)  # of a share of the words of each shard
    client = parts["client: pack"] + len(groups) * (parts["client: unpack"] / 2 + 2 * send) + n_hosts * call
    return client + exchanged + merging + parts["rebuild"] + parts["pack"]


def main():
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-components", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--sizes", nargs="+", choices=["strong", "weak"], default=["strong", "weak"])
    parser.add_argument("--weak-tokens", type=float, default=5e7, help="tokens of each of two workers")
    parser.add_argument("--n-passes", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3, help="of strong; of weak one, with a fifth of the passes")
    parser.add_argument("--quiet", action="store_true", help="without Dask's profiler and monitors")
    parser.add_argument("--direct", action="store_true", help="a client that connects to workers directly")
    add_write(parser)
    options = parser.parse_args()

    import dask

    if options.quiet:
        dask.config.set(QUIET)
    watch("client")
    wiki, measured = load_counts("wiki"), []
    for size in options.sizes:
        X = wiki if size == "strong" else repeated(wiki, 2 * options.weak_tokens)
        times = (options.n_passes, options.rounds) if size == "strong" else (max(6, options.n_passes // 5), 1)
        for n_components in options.n_components:
            print(f"{size}: {X.sum() / 1e6:.1f} million tokens, K={n_components}", flush=True)
            measured.append((size, X.sum() / 1e6, n_components, *compare(X, n_components, *times, options)))
    title("Seconds per pass, and the speed of two workers as a share of that of two threads while the cluster is idle")
    names = list(measured[0][3])
    begin_table(("", "million tokens", "K", *names, "share"))
    for size, tokens, n_components, seconds, _ in measured:
        share = seconds["two threads"] / seconds["two workers"]
        row((size, f"{tokens:.1f}", n_components, *(f"{seconds[name]:.3f}" for name in names), f"{share:.0%}"))
    title("Milliseconds of a pass on two workers, and megabytes of the packed parameters")
    names = list(measured[0][4])
    begin_table(("", "K", *names))
    for size, _, n_components, _, parts in measured:
        row((size, n_components, *(f"{parts[name]:.1f}" for name in names)))
    title("Estimated milliseconds of overhead of a pass, and as a share of the time of a pass")
    begin_table(("", "K", "4 hosts", "16 hosts", "64 hosts"))
    for size, _, n_components, _, parts in measured:
        cells = []
        for n_hosts in (4, 16, 64):
            overhead = estimate(n_hosts, parts)
            cells.append(f"{overhead:.0f} ({overhead / (overhead + parts['rows']):.0%})")
        row((size, n_components, *cells))
    show("\nEstimates assume the rows of one measured worker on each host, 10 Gbit/s between hosts,")
    show("the measured time of an empty call, and hosts of equal speed.")
    finish(options, "distributed", part="" if options.quiet else "_default_settings")


if __name__ == "__main__":
    main()
