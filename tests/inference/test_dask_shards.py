"""Shards on a cluster that is faked in this process: who is asked what, in which order, and what a death costs."""

import itertools
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from skmanifold import distributed
from skmanifold.inference._chains import run_chains
from skmanifold.inference._distributed_fits import dask_shards, exchange
from skmanifold.inference._distributed_fits.exchange import LostShardError
from skmanifold.inference._distributed_fits.shards import Shard
from skmanifold.inference._schedule import Schedule
from skmanifold.models import IncompatibleError
from skmanifold.samplers import BaseSampler, State
from skmanifold.utils._threads import Workers

from ._fake_cluster import FakeClient, FakeFuture, dies
from ._interrupted import X, lda, learned

pytestmark = pytest.mark.usefixtures("impatient")
KEY = np.uint64(1)


def DaskShards(*arguments):
    return dask_shards.DaskShards(*arguments, worker_timeout=60, advice="run it again")


class Rows:
    """A source of consecutive numbers."""

    is_ragged = False

    def __init__(self, sizes):
        self.sizes = sizes

    def split(self, n_parts):
        assert len(self.sizes) <= n_parts
        return [[(size, 3)] for size in self.sizes]


class Sized(Rows):
    """A source of what each block says of itself."""

    def split(self, n_parts):
        return [[size] for size in self.sizes]


class Lists:
    """A builder of models that say which rows they have; packs what travels."""

    def read(self, blocks):
        ((n_rows, n_features),) = blocks
        return n_rows, n_rows, n_features

    def build(self, rows, first_row, n_features, workers):
        return Numbers(first_row, rows)

    def merge(self, left, right):
        return left + right

    def pack(self, value):
        return ("packed", value)

    def unpack(self, value):
        kind, value = value
        assert kind == "packed"
        return value


class Numbers:
    def __init__(self, first_row, n_rows):
        self.numbers = list(range(first_row, first_row + n_rows))
        self.n_rows = n_rows

    def init_latents(self, key):
        return "before", self.numbers

    def sample_latents(self, position, latents, key):
        assert position == "position"
        assert latents == "before"
        return "before", self.numbers, float(len(self.numbers))


@pytest.fixture(params=[1, 4], ids=["one group", "four groups"])
def groups(request, monkeypatch):
    """How many groups of shards exchange parts of statistics."""
    monkeypatch.setattr(exchange, "_MOST_GROUPS", request.param)


@pytest.mark.every(4)
@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("n", range(1, 10))
def test_every_shard_is_called_once_a_pass_and_rows_stay_in_order(n):
    client = FakeClient(n)
    shards = DaskShards(client, Lists(), Rows([2 + i % 3 for i in range(n)]))
    assert shards.call("init_latents", 0, None, KEY)[0] == list(range(shards.n_rows))
    client.log.clear()
    statistics, log_likelihood = shards.call("sample_latents", 0, "position", KEY)
    assert statistics == list(range(shards.n_rows))
    assert log_likelihood == shards.n_rows == shards.total("n_rows")
    assert sorted(address for address, asked in client.log if asked == "make_pass") == sorted(client.workers)
    assert sum(asked == "piece_of" for _, asked in client.log) == sum(
        (stop - start) * (stop - start - 1) for start, stop in exchange.groups_of(n, 8)
    )


def test_groups_are_of_about_equal_size_and_large_positions_have_one():
    assert exchange.groups_of(2, 100) == [(0, 1), (1, 2)]
    assert exchange.groups_of(9, 100) == [(0, 3), (3, 6), (6, 9)]
    assert exchange.groups_of(9, 1 << 25) == [(0, 9)]
    for n in (1, 2, 7):
        pieces = exchange.pieces_of(bytes(range(50)), n)
        assert len(pieces) == n
        assert b"".join(pieces) == bytes(range(50))


def test_shards_forget_passes_that_have_ended():
    client = FakeClient(3)
    shards = DaskShards(client, Lists(), Rows([2, 2, 2]))
    for chain in range(6):
        shards.call("init_latents", chain, None, KEY)
    assert all(len(proxy.shard._boxes) == 1 for proxy in shards._actors)


def test_error_of_one_shard_reaches_the_client_and_the_shards_that_wait(monkeypatch):
    monkeypatch.setattr(exchange, "_MOST_GROUPS", 1)
    sample = Numbers.sample_latents

    def fail(self, *arguments):
        if self.numbers[0] == 4:
            raise ZeroDivisionError("of one shard")
        return sample(self, *arguments)

    monkeypatch.setattr(Numbers, "sample_latents", fail)
    shards = DaskShards(FakeClient(3), Lists(), Rows([2, 2, 2]))
    shards.call("init_latents", 0, None, KEY)
    with pytest.raises(ZeroDivisionError, match="of one shard"):
        shards.call("sample_latents", 0, "position", KEY)


def test_shards_that_wait_for_a_lost_one_give_up(monkeypatch):
    """Otherwise they would keep their rows as long as the lost one does not answer."""
    monkeypatch.setattr(exchange, "_MOST_GROUPS", 1)
    made = Shard.make_pass
    ended = []

    async def make_pass(self, call):
        try:
            return await made(self, call)
        finally:
            ended.append(call.place)

    monkeypatch.setattr(Shard, "make_pass", make_pass)
    client = FakeClient(3, lambda asked, address: asked == "part_of" and client.stopped.add("tcp://2"))
    shards = dask_shards.DaskShards(client, Lists(), Rows([2, 2, 2]), 0.2, "run it again")
    with pytest.warns(RuntimeWarning, match="has not reported"), pytest.raises(LostShardError, match="tcp://2"):
        shards.call("init_latents", 0, None, KEY)
    shards.close()
    for _ in range(500):
        if {0, 1} <= set(ended):
            break
        time.sleep(0.02)
    assert {0, 1} <= set(ended)  # the last one may have been lost before it was called


def test_futures_are_released_after_the_fit_and_when_rows_are_refused():
    client = FakeClient(3)
    shards = DaskShards(client, Lists(), Rows([2, 2, 2]))
    with pytest.raises(ValueError, match="not enough values"):
        DaskShards(client, Lists(), Sized([(1, 3), (1,), (2, 3)]))
    assert len(client.asked) == 2 * 6
    held = [future for future in client.asked if not hasattr(future, "released")]
    assert len(held) == 3
    shards.close()
    assert all(future.released for future in held)


def test_shards_without_rows_are_left_out():
    shards = DaskShards(FakeClient(5), Lists(), Rows([0, 3, 0, 2, 0]))
    assert shards.call("init_latents", 0, None, KEY)[0] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="X has no rows"):
        DaskShards(FakeClient(5), Lists(), Rows([0, 0]))


def test_widths_must_agree():
    with pytest.raises(ValueError, match=r"same number of columns; there are parts of \[3, 4\]"):
        DaskShards(FakeClient(2), Lists(), Sized([(2, 3), (2, 4)]))


@pytest.mark.short_cases("1-esca", "2-gibbs", "5-esca")
@pytest.mark.parametrize("sampler", ["esca", "gibbs"])
@pytest.mark.parametrize("n_workers", [1, 2, 5, 60])
def test_number_of_workers_changes_no_byte(sampler, n_workers):
    with distributed(FakeClient(n_workers)):
        assert learned(lda(sampler=sampler).fit(X)) == learned(lda(sampler=sampler).fit(X.toarray()))
    assert learned(lda(sampler=sampler).fit(X)) == learned(lda(sampler=sampler, n_jobs=2).fit(X))


@pytest.mark.covering
@pytest.mark.parametrize(
    "method", ["scatter", "make", "shape", "begin", "hash_rows", "make_pass", "piece_of", "part_of", "save"]
)
@pytest.mark.parametrize("comes_back", [True, False])
def test_death_at_any_moment_changes_no_byte(method, comes_back, tmp_path, monkeypatch):
    monkeypatch.setattr(exchange, "_MOST_GROUPS", 2)
    alone = learned(lda().fit(X))
    client = dies(method, 3, 9, n_workers=6, comes_back=comes_back)
    with distributed(client, checkpoint_dir=tmp_path, checkpoint_every=2):
        assert learned(lda().fit(X)) == alone
    assert len(client.calls) > 3


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_chains_go_on_together_after_a_death(n_jobs):
    """A chain that is still asking when another loses its shard would move once more than it should."""
    settings = {"n_chains": 2, "sampler": "gibbs", "n_jobs": n_jobs}
    alone, client = learned(lda(**settings).fit(X)), dies("make_pass", 17, 31)
    with distributed(client):
        assert learned(lda(**settings).fit(X)) == alone
    assert len(client.calls) > 31


class Pair(BaseSampler):
    """Two chains: one loses a shard while the other is in the middle of a step."""

    def init(self, model, key):
        return State(0.0, key, 0, 0.0, statistics=0, latents=model.begin())

    def step(self, model, state):
        if state.latents == 0:
            model.second_is_asking.wait(10)
            raise LostShardError("lost")
        model.second_is_asking.set()
        time.sleep(0.1)
        model.asked_after_recovery |= model.is_recovered
        return state._replace(n_steps=state.n_steps + 1)

    def average_window(self, n_kept_passes):
        return 1


class Rowed:
    """A model that remembers whether it was asked, by a chain that knew it before, after it had recovered."""

    def __init__(self):
        self.second_is_asking = threading.Event()
        self.is_recovered = self.asked_after_recovery = False
        self.chains = itertools.count()

    def begin(self):
        return next(self.chains)

    def recover(self):
        self.is_recovered = True
        raise KeyboardInterrupt  # that is all there is to see


def test_no_chain_is_still_asking_when_rows_travel_again():
    model = Rowed()
    plan = SimpleNamespace(passes=Pair(), add=max, record=lambda chain: {}, adapt=lambda model, state: model, n_rows=1)
    with Workers(2) as workers, pytest.raises(KeyboardInterrupt):
        run_chains(plan, model, KEY, 2, Schedule(2, 0, 1), lambda *pass_: False, workers)
    assert model.is_recovered
    assert not model.asked_after_recovery


def test_cluster_that_keeps_dying_is_given_up():
    client = FakeClient(3, lambda asked, address: asked == "make_pass" and client.kill(address, True))
    with distributed(client), pytest.raises(LostShardError, match="Workers of the cluster were lost"):
        lda().fit(X)


def test_worker_that_never_answers_is_missed_when_it_leaves():
    class Silent(FakeFuture):
        def done(self):
            return False

        def result(self, timeout=None):
            client.workers.pop("tcp://1", None)
            raise TimeoutError

    client = FakeClient(2)
    shards = DaskShards(client, Lists(), Rows([1, 1]))
    with pytest.raises(LostShardError, match="tcp://1"):
        shards._results([Silent(None)])
    client.workers["tcp://1"] = 0
    client.status = "closed"
    Silent.result = FakeFuture(TimeoutError()).result
    with pytest.raises(RuntimeError, match="connection to the Dask cluster was closed"):
        shards._results([Silent(None)])


def test_answer_that_is_a_timeout_is_an_answer():
    shards = DaskShards(FakeClient(1), Lists(), Rows([1]))
    with pytest.raises(TimeoutError, match="of the disk"):
        shards._results([FakeFuture(TimeoutError("of the disk"))])


@pytest.mark.parametrize(
    ("where", "version", "message"),
    [
        (
            "tcp://1",
            ImportError("No module named 'skmanifold'"),
            "worker tcp://1 does not have skmanifold .*install it",
        ),
        ("tcp://1", AttributeError("no attribute"), "worker tcp://1 cannot import skmanifold: AttributeError"),
        ("tcp://1", {"skmanifold": "0.0"}, "worker tcp://1 has skmanifold 0.0, this process"),
        ("tcp://1", {"numba": "0.0"}, "worker tcp://1 has numba 0.0, this process .*: install the same version"),
        ("scheduler", {"skmanifold": "0.0"}, "scheduler has skmanifold 0.0, this process"),
        ("scheduler", ImportError("No module"), "scheduler does not have skmanifold"),
        ("tcp://1", OSError("cannot map"), "worker tcp://1 does not answer, OSError"),
    ],
)
def test_package_must_be_everywhere(where, version, message):
    client = FakeClient(3)
    client.versions[where] = version
    with distributed(client), pytest.raises(RuntimeError, match=message):
        lda().fit(X)
    assert client.log == []


def test_scheduler_that_does_not_answer_at_the_start_is_named():
    class Silent(FakeClient):
        def run_on_scheduler(self, function, *arguments):
            time.sleep(4)

    with (
        distributed(Silent(2), worker_timeout=1.0),
        pytest.raises(RuntimeError, match=r"^The scheduler has not answered"),
    ):
        lda().fit(X)


def test_cluster_without_workers_is_named(monkeypatch):
    monkeypatch.setattr(dask_shards, "_PATIENCE", 0.1)
    with distributed(FakeClient(0)), pytest.raises(RuntimeError, match="has no workers"):
        lda().fit(X)


@pytest.mark.parametrize("sampler", ["scir", "cvb0", "collapsed_gibbs"])
def test_samplers_that_need_all_rows_are_refused_before_rows_travel(sampler):
    client = FakeClient(2, lambda asked, address: pytest.fail("a worker was asked"))
    with distributed(client), pytest.raises(IncompatibleError):
        lda(sampler=sampler).fit(X)


def test_learned_priors_are_refused():
    with distributed(FakeClient(2)), pytest.raises(ValueError, match="'auto' priors need all documents"):
        lda(doc_topic_prior="auto", max_iter=20).fit(X)


def test_failed_fit_leaves_the_estimator_as_it_was():
    def fail(asked, address):
        if asked == "make_pass":
            raise ZeroDivisionError

    before = lda().fit(X)
    known = dict(before.__dict__)
    with distributed(FakeClient(2, fail)), pytest.raises(ZeroDivisionError):
        before.fit(X[:20, :10])
    assert before.__dict__ == known


class Asynchronous(FakeClient):
    asynchronous = True


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        *(
            ({"client": client}, TypeError, "client must be a distributed.Client or None")
            for client in (3, "tcp://a:1")
        ),
        ({"client": Asynchronous(1)}, TypeError, "must not be asynchronous"),
        *(({"checkpoint_every": every}, ValueError, "checkpoint_every must be") for every in (0, -1, 2.5, None)),
        *(
            ({"worker_timeout": seconds}, ValueError, "worker_timeout must be")
            for seconds in (0, -1, float("inf"), float("nan"), None, "60s")
        ),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, error, message):
    with pytest.raises(error, match=message), distributed(**{"client": None, **settings}):
        pass
