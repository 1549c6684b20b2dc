"""Fits on hosts that are apart: network namespaces with links of limited rate, which are cut and come back."""

import threading
import time

import numpy as np
import pytest

from skmanifold import ExponentialFamilyAdmixture, StochasticLDA, distributed
from skmanifold.datasets import RowFiles, make_lda_corpus

from . import _hosts
from ._interrupted import learned

dask_distributed = pytest.importorskip("distributed", reason="fits on a cluster need dask[distributed]")
pytestmark = pytest.mark.long

N_WORKERS = 2
X = make_lda_corpus(300, 200, 5, mean_length=50, random_state=0).data


def lda(**settings):
    return StochasticLDA(5, **{"max_iter": 150, "random_state": 3, **settings})


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    if reason := _hosts.missing():
        pytest.skip(reason)
    made = _hosts.Hosts(N_WORKERS, tmp_path_factory.mktemp("hosts"))
    yield made
    made.close()


@pytest.fixture
def client(hosts):
    with dask_distributed.Client(hosts.address, set_as_default=False, timeout="30s") as client:
        client.wait_for_workers(N_WORKERS, timeout=60)
        yield client


@pytest.fixture(scope="module")
def alone():
    return learned(lda().fit(X))


def later(seconds, *acts):
    """Do something after some seconds, and again."""

    def run():
        for act in acts:
            time.sleep(seconds)
            act()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_hosts_have_the_bytes_of_one_process(client, alone, tmp_path):
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", X[100 * i : 100 * (i + 1)].toarray())
    admixture = ExponentialFamilyAdmixture(5, emission="poisson", max_iter=20, random_state=0)
    of_files = admixture.fit(X).components_.tobytes()
    with distributed(client):
        assert learned(lda().fit(X)) == alone
        assert admixture.fit(RowFiles(tmp_path)).components_.tobytes() == of_files


@pytest.mark.parametrize("worker_timeout", [5.0, 60.0])  # the rows move, or the fit waits
def test_host_that_is_cut_off_for_ten_seconds_and_back(hosts, client, worker_timeout, tmp_path, recwarn):
    cut, expected = hosts.workers[1], learned(lda(max_iter=400).fit(X))
    start = time.monotonic()
    acts = later(1.0, cut.cut), later(11.0, cut.restore)
    with distributed(client, checkpoint_dir=tmp_path, worker_timeout=worker_timeout):
        assert learned(lda(max_iter=400).fit(X)) == expected
    assert 5 < time.monotonic() - start < 90
    for act in acts:
        act.join()
    named = any("has not reported" in str(warning.message) for warning in recwarn)
    assert named or worker_timeout > 10


def test_worker_with_another_version_of_numba_is_refused(hosts, client, tmp_path):
    (tmp_path / "older.py").write_text("import numba\nnumba.__version__ = '0.0'\n")
    host = hosts.workers[0]

    def n_connected():
        return len(client.scheduler_info(n_workers=-1)["workers"])

    host.kill()
    _hosts.wait_until(lambda: n_connected() < N_WORKERS)
    hosts.start_worker(host, "--preload", str(tmp_path / "older.py"))
    try:
        _hosts.wait_until(lambda: n_connected() == N_WORKERS)
        with (
            distributed(client),
            pytest.raises(RuntimeError, match=r"has numba 0\.0, this process .*: install the same"),
        ):
            lda().fit(X)
    finally:
        host.kill()
        hosts.start_worker(host)


def test_host_of_the_scheduler_that_restarts(hosts, client, tmp_path):
    def restart():
        hosts.head.kill()
        hosts.start_scheduler()
        time.sleep(5)
        for host in hosts.workers:
            host.kill()
            hosts.start_worker(host)

    expected, found, told = learned(lda(max_iter=400).fit(X)), None, ""
    restarting = later(1.0, restart)
    settings = {"checkpoint_dir": tmp_path, "worker_timeout": 10.0}
    try:
        with distributed(client, **settings):
            found = learned(lda(max_iter=400).fit(X))
    except RuntimeError as error:
        told = str(error)
    restarting.join()
    if found is None:
        assert "run the same fit again" in told
        assert "\n" not in told
        with dask_distributed.Client(hosts.address, set_as_default=False, timeout="60s") as new:
            new.wait_for_workers(N_WORKERS, timeout=60)
            with distributed(new, **settings):
                found = learned(lda(max_iter=400).fit(X))
    assert found == expected
