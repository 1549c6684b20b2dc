"""Who is taken for stopped: a worker that does not report, and not one that is only slow."""

import threading
import time
import warnings

import pytest

from skmanifold import distributed
from skmanifold.inference._distributed_fits import dask_shards
from skmanifold.inference._distributed_fits.dask_shards import ClusterWatch

from ._fake_cluster import FakeClient
from ._interrupted import X, lda, learned


def fit():
    return learned(lda().fit(X))


def watch(client, worker_timeout=0.2):
    return ClusterWatch(client, worker_timeout, "run it again")


@pytest.mark.parametrize("method", ["shape", "make_pass"])
def test_stopped_worker_is_named_once_and_its_rows_move(method, monkeypatch):
    monkeypatch.setattr(dask_shards, "_PAUSE", 0.0)
    alone, n_asked = fit(), 0

    def stop(asked, address):
        nonlocal n_asked
        n_asked += asked == method
        if asked == method and n_asked == 3:
            client.stopped.add(address)

    client = FakeClient(4, stop)
    with distributed(client, worker_timeout=0.2), pytest.warns(RuntimeWarning, match="has not reported") as told:
        assert fit() == alone
    (stopped,) = client.stopped
    assert [stopped in str(warning.message) for warning in told] == [True]


def test_worker_stopped_before_the_fit_is_left_out():
    client = FakeClient(3)
    client.stopped.add("tcp://1")
    with distributed(client, worker_timeout=0.2), pytest.warns(RuntimeWarning, match="tcp://1"):
        fit()
    assert "tcp://1" not in {address for address, _ in client.log}


def test_slow_worker_that_reports_is_waited_for():
    client = FakeClient(2)
    assert watch(client).call(lambda: time.sleep(0.6) or "slow", of=client.workers) == "slow"


def test_answer_that_comes_just_after_the_wait_is_an_answer(monkeypatch):
    class Late(dask_shards.Future):
        n_asked = 0

        def result(self, timeout=None):
            self.n_asked += 1
            value = super().result(10)
            if self.n_asked == 1:
                raise TimeoutError
            return value

    monkeypatch.setattr(dask_shards, "Future", Late)
    assert watch(FakeClient(1)).call(lambda: "late") == "late"


def test_worker_that_reports_again_is_back_and_may_be_named_again():
    client = FakeClient(2)
    looking = watch(client, 0.1)
    client.stopped.add("tcp://0")

    def alive_later():
        for _ in range(8):
            looking.alive()
            time.sleep(0.03)
        return looking.alive()

    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="tcp://0"):
            assert alive_later() == {"tcp://1"}
        client.stopped.clear()
        assert looking.alive() == {"tcp://0", "tcp://1"}
        client.stopped.add("tcp://0")


def test_reports_older_than_those_of_others_count_at_once():
    client = FakeClient(2)
    client.seen, client.stopped = {"tcp://0": -100.0}, {"tcp://0"}
    with pytest.warns(RuntimeWarning, match="has not reported for 101 seconds"):
        assert watch(client, 60).alive() == {"tcp://1"}


def test_time_in_which_nothing_was_looked_at_makes_nobody_silent(monkeypatch):
    client = FakeClient(1)
    looking = watch(client, 60)
    client.stopped.add("tcp://0")
    now = time.monotonic
    looking.alive()
    monkeypatch.setattr(dask_shards.time, "monotonic", lambda: now() + 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert looking.alive() == {"tcp://0"}


def test_silent_scheduler_ends_the_fit():
    client, free = FakeClient(1), threading.Event()
    client.scheduler_info = lambda n_workers: free.wait(10)
    with pytest.raises(
        RuntimeError, match=r"scheduler has not answered for 0\.2 seconds during the fit: run it again\."
    ):
        watch(client).alive()
    free.set()


def test_connection_that_comes_back_is_waited_for():
    client = FakeClient(1)
    client.status = "connecting"
    threading.Timer(0.2, lambda: setattr(client, "status", "running")).start()
    assert watch(client).alive() == {"tcp://0"}
