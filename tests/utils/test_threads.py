import multiprocessing
import sys
import threading
import time
from types import ModuleType

import joblib
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from skmanifold.utils import _threads
from skmanifold.utils._threads import Workers, count_threads, limit_threads, split_range


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_libraries_have_one_thread_within_the_context_and_are_searched_for_after_imports(monkeypatch):
    searches, controller = [], _threads.ThreadpoolController
    monkeypatch.setattr(_threads, "ThreadpoolController", lambda: searches.append(1) or controller())
    monkeypatch.setattr(_threads, "_controllers", {})
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        for user_api in ("blas", None):
            with limit_threads(user_api):
                assert set(blas_threads()) == {1}
            assert blas_threads() == before
    assert len(searches) == 1
    monkeypatch.setitem(sys.modules, "a_library_that_was_imported", ModuleType("a_library_that_was_imported"))
    with limit_threads("blas"):
        assert set(blas_threads()) == {1}
    assert len(searches) == 2


@pytest.mark.parametrize("user_apis", [("blas", "blas"), (None, "blas"), ("blas", None)])
def test_the_limit_stays_until_the_last_of_several_threads_ends(user_apis):
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, last = map(limit_threads, user_apis)
        first.__enter__()
        last.__enter__()
        first.__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        last.__exit__(None, None, None)
        assert blas_threads() == before


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 3, -1])
def test_results_stand_in_the_order_of_the_tasks(n_jobs):
    def late(i, n):
        time.sleep(0.002 * ((n - i) % 3))  # those given first come last
        return i, threading.current_thread().name

    with Workers(n_jobs) as workers:
        for n in (0, 1, 2, 10):
            results = workers.run(late, ((i, n) for i in range(n)))
            assert [i for i, _ in results] == list(range(n))


def test_one_worker_is_the_calling_thread():
    with Workers(1) as workers:
        names = workers.run(lambda _: threading.current_thread(), [(0,), (1,)])
    assert set(names) == {threading.current_thread()}


def test_two_workers_work_at_the_same_time():
    meeting = threading.Barrier(2, timeout=20)
    with Workers(2) as workers:
        assert sorted(workers.run(lambda: meeting.wait(), [(), ()])) == [0, 1]


def test_never_more_threads_than_workers():
    lock, running, most = threading.Lock(), [0], [0]

    def count():
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.003)
        with lock:
            running[0] -= 1

    with Workers(3) as workers:
        workers.run(count, [()] * 12)
    assert 1 < most[0] <= 3


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_first_error_comes_through(n_jobs):
    def fail(i):
        if i >= 3:
            raise KeyError(i)
        return i

    with Workers(n_jobs) as workers:
        with pytest.raises(KeyError, match="3"):
            workers.run(fail, [(i,) for i in range(6)])
        assert workers.run(fail, [(0,), (1,)]) == [0, 1]  # and the pool still works


def test_after_an_error_tasks_that_wait_are_dropped():
    done, stop = [], threading.Event()

    def work(i):
        if i == 0:
            raise ValueError("first")
        stop.wait(20)
        done.append(i)

    with Workers(2) as workers:
        with pytest.raises(ValueError, match="first"):
            workers.run(work, [(i,) for i in range(50)])
        stop.set()
        assert workers.run(abs, [(-1,), (-2,)]) == [1, 2]  # behind whatever still waits
        assert len(done) < 10


def test_number_of_workers_is_jobs_as_joblib_counts_them():
    assert Workers(None).n_workers == 1
    assert Workers().n_workers == 1
    assert Workers(2).n_workers == 2
    assert Workers(-1).n_workers == joblib.cpu_count()
    with joblib.parallel_config("threading", n_jobs=2):
        assert Workers(None).n_workers == 2
    with pytest.raises(ValueError, match="n_jobs == 0"):
        Workers(0)


def test_threads_end_with_the_block():
    before = threading.active_count()
    with Workers(3) as workers:
        workers.run(time.sleep, [(0.001,)] * 6)
        assert threading.active_count() > before
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("n", "size", "pieces"), [(0, 3, []), (2, 3, [(0, 2)]), (6, 3, [(0, 3), (3, 6)]), (7, 3, [(0, 3), (3, 6), (6, 7)])]
)
def test_ranges_are_split_in_order(n, size, pieces):
    assert split_range(n, size) == pieces


@pytest.mark.parametrize("n_jobs", [None, 1, 3, -1])
def test_a_daemonic_process_has_as_many_threads_as_others(n_jobs, monkeypatch):
    expected = count_threads(n_jobs)
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    with Workers(n_jobs) as workers:
        assert workers.n_workers == expected == {None: 1, -1: joblib.cpu_count()}.get(n_jobs, n_jobs)


def test_threads_within_other_threads_and_within_the_backends_of_joblib():
    found = []
    thread = threading.Thread(target=lambda: found.append(count_threads(3)))
    thread.start()
    thread.join()
    for backend in ("threading", "multiprocessing", "loky"):
        with joblib.parallel_config(backend, n_jobs=2):
            found += [count_threads(None), count_threads(3)]
    with joblib.parallel_config(prefer="processes"):
        found.append(count_threads(None))
    assert found == [3, 2, 3, 2, 3, 2, 3, 1]
    with pytest.raises(ValueError, match="n_jobs == 0"):
        count_threads(0)
