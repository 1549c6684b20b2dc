"""Fits on a cluster of two workers, to which things happen at random moments: the same bytes, or one sentence."""

import contextlib
import os
import random
import signal
import threading
import time
import warnings

import dask
import distributed

import skmanifold
from skmanifold.datasets import make_lda_corpus

from ._cases import one_sentence

N_WORKERS = 2
X = make_lda_corpus(60, 40, 5, mean_length=30, random_state=1).data
CONFIG = {"distributed.comm.timeouts.connect": "3s", "distributed.worker.daemon": True}


def prepare(folder):
    """What one process learns."""
    return learned(lda().fit(X))


def check(alone, seed):
    """A fit, and one to three faults during it."""
    rng = random.Random(seed)
    faults = [(rng.uniform(0.0, 1.0), rng.choice(FAULTS), rng) for _ in range(rng.randint(1, 3))]
    with dask.config.set(CONFIG), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with _Cluster() as cluster:
            thread = threading.Thread(target=cluster.suffer, args=(faults,), daemon=True)
            thread.start()
            try:
                with skmanifold.distributed(cluster.client, worker_timeout=3.0):
                    found = learned(lda().fit(X))
            except RuntimeError as error:
                told = f"{type(error).__name__}: {error}"
                return None if one_sentence(error) and "run the same fit again" in str(error) else told
            finally:
                thread.join(10)
    return None if found == alone else "the fit ended with other bytes."


def lda():
    return skmanifold.StochasticLDA(5, max_iter=60, random_state=3)


def learned(fitted):
    return fitted.components_.tobytes() + fitted.log_density_trace_.tobytes()


class _Cluster:
    """Processes, of which none is left behind."""

    def __enter__(self):
        options = {"processes": True, "dashboard_address": ":0", "host": "127.0.0.1", "silence_logs": 50}
        self.cluster = distributed.LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, **options)
        self.client = distributed.Client(self.cluster, set_as_default=False, timeout="3s")
        self.other = distributed.Client(self.cluster, set_as_default=False, timeout="3s")  # what happens comes from it
        self.stopped = []
        return self

    def __exit__(self, *exc_info):
        for pid in self.stopped:
            _signal(pid, signal.SIGCONT)
        for closing in (self.client, self.other, self.cluster):
            with contextlib.suppress(Exception):
                closing.close(timeout=10)

    def suffer(self, faults):
        start = time.monotonic()
        for moment, fault, rng in sorted(faults, key=lambda fault: fault[0]):
            time.sleep(max(0.0, start + moment - time.monotonic()))
            with contextlib.suppress(Exception):
                fault(self, rng)

    def pid(self, rng):
        nannies = [nanny for nanny in self.cluster.workers.values() if nanny.pid and nanny.pid not in self.stopped]
        return rng.choice(nannies).pid

    def kill(self, rng):
        _signal(self.pid(rng), signal.SIGKILL)

    def stop(self, rng):
        self.stopped.append(self.pid(rng))
        _signal(self.stopped[-1], signal.SIGSTOP)

    def pause(self, rng):
        pid = self.pid(rng)
        self.stopped.append(pid)
        _signal(pid, signal.SIGSTOP)
        time.sleep(rng.choice([0.3, 5.0]))
        _signal(pid, signal.SIGCONT)

    def restart(self, rng):
        self.other.restart(wait_for_workers=False)

    def close_client(self, rng):
        self.client.close()

    def close_scheduler(self, rng):
        self.cluster.sync(self.cluster.scheduler.close)


FAULTS = [_Cluster.kill] * 3 + [_Cluster.stop] * 2 + [_Cluster.pause] * 2
FAULTS += [_Cluster.restart, _Cluster.close_client, _Cluster.close_scheduler]


def _signal(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
