"""Random faults of a cluster during fits of all estimators that run in shards.

In each trial a fit runs on two workers, and in one of four trials a second fit at the same time. Client and workers run
in different folders. At a random time a worker is killed or stopped for a while, the network is cut for a while, the
scheduler is restarted, or the disk with the checkpoints is full. Each fit must end with the bytes of an undisturbed fit
in one process, or with an error of one sentence, after which the same fit must resume to these bytes. No trial may wait
longer than `--patience` seconds, and no process, thread or file may be left.

    python -m benchmarks.faults --seed 0 --n 200
    python -m benchmarks.faults --seed 0 --only 17

Trials of a seed do not depend on each other, so one can be repeated by its number. Full disks need the right to mount a
file system in memory, and are left out otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from benchmarks._fault_cluster import FaultCluster
from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold import ExponentialFamilyAdmixture, ExponentialFamilyMixture, HDPAdmixture, StochasticLDA, distributed
from skmanifold.datasets import RowFiles, make_lda_corpus, save_corpus
from skmanifold.samplers import EM

FAULTS = ("kill", "hang", "cut", "restart", "disk")
WORKER_TIMEOUT = 4.0
CLIENT_TIMEOUT = "5s"
_DISK = 1 << 22  # bytes


def fits(folder):
    """Estimators and data by name."""
    X = make_lda_corpus(300, 200, 5, mean_length=50, random_state=0).data
    corpus = save_corpus(X, folder / "corpus")
    (folder / "rows").mkdir()
    for i in range(4):
        np.save(folder / "rows" / f"{i}.npy", X[75 * i : 75 * (i + 1)].toarray())
    rng = np.random.default_rng(0)
    reals = rng.normal(size=(9000, 3)) + 3.0 * rng.integers(0, 3, 9000)[:, None]
    (folder / "many").mkdir()
    for i in range(3):  # the client has a sample of them
        np.save(folder / "many" / f"{i}.npy", rng.normal(size=(8000, 3)) + 3.0 * rng.integers(0, 3, 8000)[:, None])
    some = {"max_iter": 120, "thin": 4, "random_state": 0}
    mixture = {"n_init": 1, **some}
    return {
        "lda esca": (StochasticLDA(8, **some), X),
        "lda esca, corpus": (StochasticLDA(8, **some), corpus),
        "lda gibbs, files": (StochasticLDA(8, sampler="gibbs", **some), RowFiles(folder / "rows")),
        "lda gibbs, 2 chains": (StochasticLDA(8, sampler="gibbs", n_chains=2, n_jobs=2, **some), X),
        "admixture poisson": (ExponentialFamilyAdmixture(8, emission="poisson", **some), X),
        "admixture multinomial gibbs": (
            ExponentialFamilyAdmixture(8, emission="multinomial", sampler="gibbs", **some),
            X,
        ),
        "hdp": (HDPAdmixture(init=12, max_iter=40, random_state=0), X),
        "mixture esca": (ExponentialFamilyMixture(3, sampler="esca", **mixture), reals),
        "mixture em": (ExponentialFamilyMixture(3, sampler=EM(tol=0.0), **mixture), reals),
        "mixture gibbs": (ExponentialFamilyMixture(3, sampler="gibbs", **mixture), reals),
        "mixture esca, files": (ExponentialFamilyMixture(3, sampler="esca", **mixture), RowFiles(folder / "many")),
    }


def learned(fitted):
    """The bytes of what was learned."""
    arrays = [fitted.components_, fitted.log_density_trace_, *fitted.posterior_.values()]
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


class Trial:
    """One fit with a fault."""

    def __init__(self, number, seed, names, with_disk):
        rng = np.random.default_rng([seed, number])
        self.number = number
        self.fault = str(rng.choice(FAULTS if with_disk else FAULTS[:-1]))
        self.name = str(rng.choice(names))
        self.delay = float(rng.uniform(0.0, 1.0))  # as a share of the time of an undisturbed fit
        self.duration = float(rng.uniform(0.5, 10.0))
        self.which = int(rng.integers(2))
        self.second = str(rng.choice(names)) if rng.random() < 0.25 else ""  # a fit at the same time
        self.outcome, self.seconds, self.problems, self.in_time = "", 0.0, [], False

    def described(self):
        """What is written to the log."""
        keys = ("number", "fault", "name", "second", "delay", "duration", "in_time", "outcome", "seconds", "problems")
        return {key: getattr(self, key) for key in keys}


def disturb(trial, cluster, folder):
    """Make the fault of a trial, and end it."""
    if trial.fault == "kill":
        cluster.signal_worker(trial.which, "SIGKILL")
    elif trial.fault == "hang":
        pid = cluster.signal_worker(trial.which, "SIGSTOP")
        time.sleep(trial.duration)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    elif trial.fault == "cut":
        cluster.proxy.cut()
        time.sleep(trial.duration)
        cluster.proxy.restore()
    elif trial.fault == "restart":
        cluster.restart_scheduler()
        time.sleep(trial.duration)
        cluster.start_workers()  # those that ended without a scheduler
    else:
        with contextlib.suppress(OSError), open(folder / "filler", "wb") as file:
            while True:
                file.write(bytes(1 << 12))
                file.flush()


def connected(cluster):
    """A client of the cluster with all its workers."""
    from distributed import Client

    end = time.monotonic() + 60
    while True:
        cluster.start_workers()
        try:
            client = Client(cluster.address, timeout=CLIENT_TIMEOUT, set_as_default=False)
        except OSError:
            if time.monotonic() > end:
                raise
            continue
        try:
            client.wait_for_workers(cluster.n_workers, timeout=10)
            return client
        except TimeoutError:
            client.close()
            if time.monotonic() > end:
                raise


def run_fit(cluster, estimator, X, folder, found):
    """Fit on the cluster; the bytes or the error are appended to `found`."""
    from sklearn.base import clone

    try:
        with connected(cluster) as client:
            found["begun"].set()
            start = time.monotonic()
            with distributed(client, checkpoint_dir=folder, checkpoint_every=7, worker_timeout=WORKER_TIMEOUT):
                found["bytes"] = learned(clone(estimator).fit(X))
            found["seconds"] = time.monotonic() - start
    except Exception as error:
        found["error"] = error
        found["traceback"] = traceback.format_exc()
    finally:
        found["begun"].set()


class Fit:
    """A fit in a thread.

    Parameters
    ----------
    cluster : FaultCluster
    estimator, X : object
        What is fitted.
    expected : bytes
        What it learns.
    folder : Path
        Of its checkpoints.
    """

    def __init__(self, cluster, estimator, X, expected, folder):
        self.expected, self.arguments = expected, (cluster, estimator, X, folder)
        self.found = {"begun": threading.Event()}
        self.thread = threading.Thread(target=run_fit, args=(*self.arguments, self.found), daemon=True)
        self.thread.start()

    def problems(self, patience):
        """How the fit ended, and what was wrong with it."""
        self.thread.join(patience)
        if self.thread.is_alive():
            frame = sys._current_frames().get(self.thread.ident)
            stack = "".join(traceback.format_stack(frame)) if frame else ""
            return "", [f"no end after {patience:g} seconds", stack]
        if "bytes" in self.found:
            return "the same bytes", [] if self.found["bytes"] == self.expected else ["other bytes"]
        error, problems = self.found["error"], []
        if not isinstance(error, (RuntimeError, OSError)) or "\n" in str(error):
            problems.append("not one sentence: " + self.found["traceback"])
        return f"{type(error).__name__}: {error}", problems

    def resumed(self):
        """What is wrong with the same fit from its checkpoint."""
        again = {"begun": threading.Event()}
        run_fit(*self.arguments, again)
        if again.get("bytes") == self.expected:
            return []
        return ["did not resume to the same bytes: " + again.get("traceback", "other bytes")]


def run(trial, cluster, of_name, expected, usual, folder, patience):
    """Run one trial; its outcome and problems are stored in it."""
    names = [name for name in (trial.name, trial.second) if name]
    fits = [Fit(cluster, *of_name[name], expected[name], folder / f"passes-{i}") for i, name in enumerate(names)]
    for fit in fits:
        fit.found["begun"].wait(120)
    start = time.monotonic()
    time.sleep(trial.delay * sum(usual[name] for name in names))
    trial.in_time = any(fit.thread.is_alive() for fit in fits)
    disturb(trial, cluster, folder)
    ended = [fit.problems(patience) for fit in fits]
    trial.seconds = time.monotonic() - start
    (folder / "filler").unlink(missing_ok=True)
    outcomes, problems = zip(*ended, strict=True)
    trial.outcome = next((outcome for outcome in outcomes if outcome != "the same bytes"), "the same bytes")
    trial.problems += [problem for some in problems for problem in some]
    for fit, outcome in zip(fits, outcomes, strict=True):
        if outcome and outcome != "the same bytes":
            trial.problems += fit.resumed()


def left_in(folder):
    """Files of checkpoints that should not be there."""
    return [path.name for of_fit in folder.glob("passes-*") for path in of_fit.glob("*")]


def files_of_workers(folder):
    """Temporary files of fits in the folders of the workers."""
    return [str(path.relative_to(folder)) for path in (folder / "workers").rglob("skmanifold-*")]


@contextlib.contextmanager
def small_disk(folder):
    """A file system in memory of a few megabytes, if it can be mounted; otherwise a folder."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(folder)]
    is_mounted = not subprocess.run(command, capture_output=True, check=False).returncode
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", str(folder)], check=False)


def main():
    """Run the trials, print each, and a table of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--only", type=int, nargs="+", help="numbers of the trials to run")
    parser.add_argument("--patience", type=float, default=150.0, help="seconds after which a trial counts as hanging")
    parser.add_argument("--log", type=Path, help="a file to which each trial is appended as a line of JSON")
    add_write(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    shared = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    outcomes, longest, problems = defaultdict(Counter), defaultdict(float), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        of_name = fits(folder)
        expected = {name: learned(estimator.fit(X)) for name, (estimator, X) in of_name.items()}
        cluster = FaultCluster(2, folder)
        try:
            with small_disk(folder / "disk") as with_disk:
                usual = {}
                for name, (estimator, X) in of_name.items():
                    for _ in range(2):  # the first fit reads kernels
                        found = {"begun": threading.Event()}
                        run_fit(cluster, estimator, X, folder / "disk" / "passes-0", found)
                    if found.get("bytes") != expected[name]:
                        raise SystemExit(f"{name}: other bytes without a fault; {found.get('traceback', '')}")
                    usual[name] = found["seconds"]
                for number in options.only or range(options.n):
                    trial = Trial(number, options.seed, list(of_name), with_disk)
                    run(trial, cluster, of_name, expected, usual, folder / "disk", options.patience)
                    trial.problems += [f"left: {name}" for name in left_in(folder / "disk")]
                    print(json.dumps(trial.described()), flush=True)
                    if options.log:
                        with open(options.log, "a") as file:
                            file.write(json.dumps(trial.described()) + "\n")
                    kind = "the same bytes" if trial.outcome == "the same bytes" else "one sentence, then resumed"
                    kind = kind if trial.in_time else "after the fit"
                    outcomes[trial.fault]["a problem" if trial.problems else kind] += 1
                    longest[trial.fault] = max(longest[trial.fault], trial.seconds)
                    problems += trial.problems
                    if any(problem.startswith("no end") for problem in trial.problems):
                        raise SystemExit("A fit hangs; the next trials would run at the same time.")
            gc.collect()
            end = time.monotonic() + 20
            while (left := files_of_workers(folder)) and time.monotonic() < end:
                time.sleep(0.5)
            problems += [f"file of a worker left: {name}" for name in left]
        finally:
            problems += [f"process did not end: {pid}" for pid in cluster.close()]
    time.sleep(2)
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("skmanifold")]
    problems += [f"thread left: {name}" for name in threads]
    if shared:
        problems += [f"shared memory left: {name}" for name in set(os.listdir("/dev/shm")) - shared]
    title(f"{sum(sum(counts.values()) for counts in outcomes.values())} trials, seed {options.seed}")
    kinds = ("the same bytes", "one sentence, then resumed", "after the fit", "a problem")
    begin_table(("fault", *kinds, "longest, seconds"))
    for fault in FAULTS:
        if fault in outcomes:
            row((fault, *(outcomes[fault][kind] for kind in kinds), f"{longest[fault]:.0f}"))
    for problem in problems:
        print(problem)
    finish(options, "distributed")
    if problems:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
