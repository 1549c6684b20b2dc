"""A cluster in this process: what a fit asks of a Dask client, with workers that die when a test says so."""

import asyncio
import inspect
import itertools
import pickle
import threading
import time
import weakref
from concurrent.futures import CancelledError
from contextlib import nullcontext
from functools import cache


def by_wire(value):
    """What arrives elsewhere: a copy, whose arrays cannot be written to."""
    buffers = []
    pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(pickled, buffers=[bytes(buffer) for buffer in buffers])


class FakeFuture:
    def __init__(self, answer):
        self._answer = answer

    key = "block"
    status = "finished"

    def done(self):
        return True

    def release(self):
        self.released = True

    def __await__(self):
        return self.result()
        yield

    def result(self, timeout=None):
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class Unanswered(FakeFuture):
    """Of a call to a process that does not know the shard: Dask logs that and leaves the caller waiting."""

    def __init__(self):
        super().__init__(TimeoutError())

    def done(self):
        return False

    def __await__(self):
        return asyncio.get_running_loop().create_future().__await__()


class Running(FakeFuture):
    """Of a coroutine on the event loop that all workers share."""

    def __init__(self, answer):
        self._task = asyncio.run_coroutine_threadsafe(answer, _loop())

    def done(self):
        return self._task.done()

    def die(self):
        self._task.cancel()

    def __await__(self):
        return self._answered().__await__()

    async def _answered(self):
        waiting = asyncio.wrap_future(self._task)
        await asyncio.wait([waiting])  # a caller that gives up does not end the call
        return self.result()

    def result(self, timeout=None):
        try:
            return by_wire(self._task.result(timeout))
        except CancelledError:
            raise OSError("Unable to contact Actor's worker") from None


@cache
def _loop():
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


class ShardFuture(FakeFuture):
    """What the scheduler knows of a shard."""

    @property
    def status(self):
        shard = self._answer
        if isinstance(shard, Proxy):
            return "finished" if shard.cluster.workers.get(shard.address) == shard.life else "error"
        return "error"


_PROXIES = weakref.WeakValueDictionary()
_NUMBERS = itertools.count()


def _proxy(key):
    return _PROXIES[key]


class Proxy:
    """Stands for a shard that is elsewhere; pickles as itself."""

    def __init__(self, cluster, address, shard):
        self.cluster, self.address, self.shard = cluster, address, shard
        self.life = cluster.workers[address]
        self.running = []
        self.key = f"Shard-{next(_NUMBERS)}"
        _PROXIES[self.key] = self

    def __reduce__(self):
        return _proxy, (self.key,)

    def __getattr__(self, method):
        def call(*arguments):
            cluster = self.cluster
            cluster.log.append((self.address, method))
            cluster.before(method, self.address)
            if cluster.workers.get(self.address) is None:
                return FakeFuture(OSError("Unable to contact Actor's worker"))
            if cluster.workers[self.address] != self.life:  # another process at the same address
                return Unanswered()
            if self.address in cluster.stopped:
                return Unanswered()
            try:
                answer = getattr(self.shard, method)(*by_wire(arguments))
                if inspect.iscoroutine(answer):
                    self.running.append(Running(answer))
                    return self.running[-1]
                return FakeFuture(by_wire(answer))
            except Exception as error:
                return FakeFuture(error)

        return call


def dies(method, *numbers, n_workers=3, comes_back=True):
    """A cluster of which a worker dies at these of the calls of `method`; `calls` are the workers that were asked."""

    def before(asked, address):
        if asked == method:
            client.calls.append(address)
            if len(client.calls) in numbers:
                client.kill(address, comes_back)

    client = FakeClient(n_workers, before)
    client.calls = []
    return client


def _changed(here, there):
    """The versions of this process, except those that a test sets, or an error."""
    return there if isinstance(there, Exception) else here | there


class FakeClient:
    """`before(method, address)` is called when a shard is asked something."""

    status = "running"

    def __init__(self, n_workers, before=lambda method, address: None):
        self.workers = {f"tcp://{i}": 0 for i in range(n_workers)}
        self.before = before
        self.log = []
        self.versions = {}
        self.asked = []  # futures of blocks and shards
        self.stopped = set()  # workers that neither answer nor report
        self.seen = {}
        self.clock = itertools.count(1, 0.001)

    def kill(self, address, comes_back):
        """End a worker's process; the next one may have the same address."""
        if comes_back:
            self.workers[address] += 1
        else:
            del self.workers[address]
        for proxy in list(_PROXIES.values()):
            if proxy.cluster is self and proxy.address == address:
                for answer in proxy.running:
                    answer.die()

    def scheduler_info(self, n_workers=5):
        now = next(self.clock)
        silent = {address: self.seen.get(address, 0) for address in self.stopped}
        self.seen = {address: silent.get(address, now) for address in self.workers}
        return {"workers": {address: {"last_seen": seen} for address, seen in self.seen.items()}}

    def run(self, function, *arguments, workers, on_error):
        assert on_error == "return"
        while self.stopped.intersection(workers):
            time.sleep(0.01)
        here = eval(*arguments)
        return {address: _changed(here, self.versions.get(address, {})) for address in workers}

    def run_on_scheduler(self, function, *arguments):
        version = _changed(eval(*arguments), self.versions.get("scheduler", {}))
        if isinstance(version, Exception):
            raise version
        return version

    def as_current(self):
        return nullcontext()

    def scatter(self, blocks, workers, hash):
        self.before("scatter", *workers)
        if workers[0] not in self.workers:
            raise KeyError(workers[0])
        self.asked += map(FakeFuture, blocks)
        return self.asked[-len(blocks) :]

    def submit(self, kind, builder, blocks, *, actor, workers, pure):
        assert actor
        assert not pure
        (address,) = workers
        self.before("make", address)
        if address not in self.workers:
            return FakeFuture(OSError("Timed out trying to connect"))
        if address in self.stopped:
            return Unanswered()
        try:
            blocks = [by_wire(block.result()) for block in blocks]
            answer = Proxy(self, address, kind(by_wire(builder), blocks))
        except Exception as error:
            answer = error
        self.asked.append(ShardFuture(answer))
        return self.asked[-1]
