"""Real clusters on which several fits run at once, workers die or stop, and which go away themselves."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from skmanifold import distributed
from skmanifold.inference._distributed_fits import dask_shards
from skmanifold.inference._distributed_fits.dask_shards import DaskShards

from ._interrupted import X, lda, learned

dask = pytest.importorskip("dask")
dask_distributed = pytest.importorskip("distributed", reason="fits on a cluster need dask[distributed]")

long = pytest.mark.long

N_WORKERS = 3
OPTIONS = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "host": "127.0.0.1"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("workers"))
    with dask_distributed.LocalCluster(n_workers=N_WORKERS, local_directory=folder, **OPTIONS) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with dask_distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(N_WORKERS, timeout=60)
        yield client


@pytest.fixture
def stopped(client):
    """Stops a worker's process, which goes on when the test ends."""
    pids = []

    def stop(address):
        pids.append(pid_of(client, address))
        os.kill(pids[-1], signal.SIGSTOP)

    yield stop
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def pid_of(client, address):
    return client.run(os.getpid, workers=[address])[address]


def first_worker(client):
    return min(client.scheduler_info(n_workers=-1)["workers"])


def before(monkeypatch, name, act, at=1):
    """Do something when the method of shards on a cluster is called for the `at`-th time."""
    method, n_calls = getattr(DaskShards, name), 0

    def call(self, *arguments):
        nonlocal n_calls
        n_calls += 1
        if n_calls == at:
            act(self)
        return method(self, *arguments)

    monkeypatch.setattr(DaskShards, name, call)


@long
@pytest.mark.parametrize("n_clients", [2, 3])
def test_fits_of_several_clients_at_once(cluster, n_clients):
    alone = [learned(lda(random_state=seed).fit(X)) for seed in range(n_clients)]
    found, together = {}, threading.Barrier(n_clients)

    def fit(seed):
        with dask_distributed.Client(cluster, set_as_default=False) as client, distributed(client):
            together.wait(60)
            found[seed] = learned(lda(random_state=seed).fit(X))

    threads = [threading.Thread(target=fit, args=(seed,), daemon=True) for seed in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [found.get(seed) for seed in range(n_clients)] == alone


@long
@pytest.mark.parametrize("when", ["_make_shards", "_on_all"])
def test_worker_killed_before_the_first_pass(client, monkeypatch, when):
    alone = learned(lda().fit(X))
    killed = first_worker(client)
    pid = pid_of(client, killed)
    before(monkeypatch, when, lambda shards: os.kill(pid, signal.SIGKILL))
    with distributed(client):
        assert learned(lda().fit(X)) == alone
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@long
@pytest.mark.parametrize("at", [0, pytest.param(1, marks=long), 4])
def test_stopped_worker_is_named_and_given_up(client, monkeypatch, stopped, at):
    alone = learned(lda().fit(X))
    address = first_worker(client)
    if at:
        before(monkeypatch, "call", lambda shards: stopped(address), at)
    else:
        stopped(address)
    with distributed(client, worker_timeout=2.0), pytest.warns(RuntimeWarning, match=f"worker {address} ") as told:
        assert learned(lda().fit(X)) == alone
    assert len(told) == 1


@long
def test_closed_client_is_one_sentence(cluster, monkeypatch, tmp_path):
    for settings, advice in (({}, "with checkpoint_dir"), ({"checkpoint_dir": tmp_path}, f"in {tmp_path}")):
        with dask_distributed.Client(cluster, set_as_default=False) as client:
            with monkeypatch.context() as patch:
                before(patch, "call", lambda shards, client=client: client.close(), 3)
                with (
                    distributed(client, **settings),
                    pytest.raises(RuntimeError, match=r"connection .* closed") as told,
                ):
                    lda().fit(X)
            assert advice in str(told.value)
            with distributed(client, **settings), pytest.raises(RuntimeError, match=r"connection .* closed"):
                lda().fit(X)


@long
def test_restart_in_the_middle_changes_no_byte(monkeypatch):
    alone = learned(lda().fit(X))
    before(monkeypatch, "call", lambda shards: client.restart(wait_for_workers=False), 4)
    with (
        dask_distributed.LocalCluster(n_workers=2, **OPTIONS) as cluster,
        dask_distributed.Client(cluster, set_as_default=False) as client,
        distributed(client),
    ):
        assert learned(lda().fit(X)) == alone


@pytest.mark.parametrize(
    ("closing", "message"), [("cluster", "was closed"), ("scheduler", "was closed"), ("workers", "has no workers")]
)
def test_cluster_that_goes_away_is_one_sentence(monkeypatch, closing, message):
    monkeypatch.setattr(dask_shards, "_PATIENCE", 0.5)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        dask_distributed.LocalCluster(n_workers=1, protocol="tcp", **{**OPTIONS, "processes": False}) as cluster,
        dask_distributed.Client(cluster.scheduler_address, set_as_default=False, timeout="1s") as client,
    ):
        closes = {
            "cluster": cluster.close,
            "scheduler": lambda: cluster.sync(cluster.scheduler.close),
            "workers": lambda: cluster.scale(0),
        }
        before(monkeypatch, "call", lambda shards: closes[closing](), 3)
        with distributed(client, worker_timeout=2), pytest.raises(RuntimeError, match=message) as told:
            lda().fit(X)
    assert "run the same fit again" in str(told.value)
    assert "\n" not in str(told.value)


_FIT = """
import os, signal, sys, time
from distributed import Client, LocalCluster
from skmanifold import StochasticLDA, distributed
from skmanifold.datasets import make_lda_corpus

X = make_lda_corpus(60, 40, 5, mean_length=30, random_state=1).data
lda = StochasticLDA(5, max_iter=10, random_state=3)
"""

_CLOSES = f"""{_FIT}
if __name__ == "__main__":
    options = dict(processes=True, dashboard_address=":0", host="127.0.0.1")
    with LocalCluster(n_workers=2, threads_per_worker=2, **options) as cluster, Client(cluster) as client:
        with distributed(client):
            lda.fit(X)
        end = time.time()
    print(time.time() - end)
"""

_DIES = f"""{_FIT}
from skmanifold.inference._distributed_fits.dask_shards import DaskShards

def results(self, futures):  # which are under way
    if "make_pass" in self.asked:
        os.kill(os.getpid(), signal.SIGKILL)
    return waits(self, futures)

def ask(self, method, *calls):
    self.asked.add(method)
    return asks(self, method, *calls)

waits, asks, DaskShards.asked = DaskShards._results, DaskShards._on_all, set()
DaskShards._results, DaskShards._on_all = results, ask
with Client(sys.argv[1]) as client, distributed(client):
    lda.fit(X)
"""


def run(script, *arguments):
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=120)


@long
def test_workers_end_at_once_when_the_cluster_closes(tmp_path):
    (tmp_path / "fit.py").write_text(_CLOSES)
    ended = run(tmp_path / "fit.py")
    assert ended.returncode == 0, ended.stderr
    assert float(ended.stdout) < 4
    for message in ("still alive", "leaked", "setting n_jobs=1"):
        assert message not in ended.stderr


@long
def test_client_that_dies_leaves_the_cluster_free(client, cluster, tmp_path):
    alone = learned(lda().fit(X))
    (tmp_path / "fit.py").write_text(_DIES)
    assert run(tmp_path / "fit.py", cluster.scheduler_address).returncode == -signal.SIGKILL
    with distributed(client):
        assert learned(lda().fit(X)) == alone
