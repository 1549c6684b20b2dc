"""Folders of machine code that are not used, code that does not belong to its key, and the line about compiling."""

import importlib.util
import itertools
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numba import config
from numba.core import caching, event

from skmanifold.utils import _machine_code
from skmanifold.utils._machine_code import Notice

from ._processes import run_python

KERNELS = """
from skmanifold.utils._njit import njit

@njit(cache=True)
def power(x):
    return x * x

@njit(cache=True)
def total(x):
    total = 0
    for i in range(len(x)):
        total += power(x[i])
    return total
"""
posix = pytest.mark.skipif(os.name != "posix", reason="asks for owners and modes of folders")


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Import kernels anew, as another process would, whose cache is the folder "cache"."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(_machine_code, "caches", [])
    path, names = tmp_path / "kernels.py", map("kernels_{}".format, itertools.count())

    def load(source=KERNELS):
        if not path.exists() or path.read_text() != source:
            path.write_text(source)
        spec = importlib.util.spec_from_file_location(next(names), path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # where pickle looks for types
        spec.loader.exec_module(module)
        return module

    yield load
    for name in [name for name in sys.modules if name.startswith("kernels_")]:
        del sys.modules[name]


def n_compiled(function, *arguments):
    with event.install_recorder("numba:compile") as recorder:
        result = function(*arguments)
    return result, sum(record.is_start for _, record in recorder.buffer)


# Folders


def find_temporary():
    return _machine_code._Temporary.from_function(find_temporary, __file__)


def test_the_temporary_folder_is_private(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert Path(find_temporary().get_cache_path()).is_dir()
    (folder,) = tmp_path.iterdir()
    assert os.name != "posix" or folder.stat().st_mode & 0o777 == 0o700


def make_writable_for_others(folder):
    folder.chmod(0o770)


def make_link(folder):
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


def make_replaceable(folder):
    folder.parent.chmod(0o777)


@posix
@pytest.mark.parametrize("change", [make_writable_for_others, make_link, make_replaceable])
def test_a_temporary_folder_that_others_may_have_changed_is_not_used(change, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert find_temporary() is not None
    change(next(tmp_path.iterdir()))
    assert find_temporary() is None


def test_a_temporary_folder_of_another_user_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert find_temporary() is not None
    monkeypatch.setattr(
        _machine_code, "_suffix_of_user", lambda: next(tmp_path.iterdir()).name[len("skmanifold-kernels") :]
    )
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert find_temporary() is None


@pytest.mark.skipif(sys.platform != "linux", reason="sets the folder of caches as Linux does")
def test_no_folder_is_made_for_a_user_without_a_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "~/.cache")  # which is what numba finds without a home
    monkeypatch.chdir(tmp_path)
    locator = _machine_code._with(_machine_code._Writable, _machine_code._OF_USER)
    assert locator.from_function(find_temporary, __file__) is None
    assert not any(tmp_path.iterdir())


# Code that does not belong to its key


def test_code_of_other_types_is_not_used(load, tmp_path):
    """As two processes that compile for different types at once leave it: both write the first file."""
    kernels = load()
    assert kernels.power(3.0) == 9.0
    assert kernels.power(3) == 9
    first, second = sorted((tmp_path / "cache").rglob("*power*.nbc"))
    shutil.copy(second, first)
    assert n_compiled(load().power, 0.5) == (0.25, 1)
    kernels = load()
    assert n_compiled(kernels.power, 0.5) == (0.25, 0)
    assert n_compiled(kernels.power, 3) == (9, 0)


def test_code_of_an_older_source_is_not_used(load, monkeypatch):
    """As a process leaves it that is killed after it wrote the index."""
    assert load().total(np.arange(4)) == 14
    changed = KERNELS.replace("x * x", "x * x * x")
    with monkeypatch.context() as killed:
        killed.setattr(caching.IndexDataCacheFile, "_save_data", lambda *arguments: None)
        assert load(changed).total(np.arange(4)) == 36
    assert load(changed).total(np.arange(4)) == 36


def test_code_of_another_version_is_not_used(load, monkeypatch):
    """A kernel that a kernel of another file calls may have changed."""
    load().power(3)
    monkeypatch.setattr(_machine_code, "__version__", "0.0")
    assert n_compiled(load().power, 3) == (9, 1)
    assert n_compiled(load().power, 3) == (9, 0)


AT_ONCE = """
import os, random, shutil, signal, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from numba.core import event

n_rounds, n_processes, folder = int(sys.argv[1]), int(sys.argv[2]), os.environ["NUMBA_CACHE_DIR"]
VALUES = [np.arange(5, dtype=kind) for kind in ("i8", "f8", "f4", "i4")]

def work(seed):
    from kernels import total
    random.Random(seed).shuffle(VALUES)
    with event.install_recorder("numba:compile") as recorder:
        right = all(total(x) == 30 for x in VALUES)
    return right, sum(record.is_start for _, record in recorder.buffer)

def fork(seed, is_last=False):
    if child := os.fork():
        return child
    right, n_compiled = work(seed)
    os._exit(not right or (is_last and n_compiled))

for turn in range(n_rounds):
    shutil.rmtree(folder, ignore_errors=True)
    children = [fork(10 * turn + i) for i in range(n_processes)]
    time.sleep(0.05 + 0.15 * turn)
    os.kill(children[0], signal.SIGKILL)
    assert [os.waitpid(child, 0)[1] for child in children[1:]] == [0] * (n_processes - 1)
    os.waitpid(children[0], 0)
    for is_last in (False, True):  # what was lost is compiled once more
        assert os.waitpid(fork(10 * turn + 9, is_last), 0)[1] == 0, is_last
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes")
@pytest.mark.parametrize("size", [("1", "3"), pytest.param(("12", "6"), marks=pytest.mark.long)])
def test_processes_that_compile_at_once_or_are_killed_leave_a_cache_that_is_right(size, tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    run_python(AT_ONCE, tmp_path, *size)


# The line about compiling


@pytest.fixture
def caplog(caplog):
    caplog.set_level(logging.WARNING, logger="skmanifold")  # a page of the guide switches it off
    return caplog


def test_one_line_says_where_kernels_are_kept(load, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(_machine_code.notice, "patience", 0.0)
    monkeypatch.setattr(_machine_code, "warned", [])
    load().total(np.arange(4))
    load().total(np.arange(4.0))
    (record,) = caplog.records
    assert record.name == "skmanifold"
    assert f"keeps them in {tmp_path / 'cache'}." in record.message
    monkeypatch.setattr(_machine_code.notice, "patience", 0.0)
    load().total(np.arange(4))
    assert len(caplog.records) == 1  # nothing was compiled


def test_the_line_comes_while_kernels_are_compiled(load, monkeypatch, caplog):
    clock = SimpleNamespace(perf_counter=lambda: clock.now, now=0.0)
    monkeypatch.setattr(_machine_code, "time", clock)
    monkeypatch.setattr(_machine_code, "warned", [])
    listener = Notice(2.0)
    ours, others = load().total, SimpleNamespace(_cache=caching.NullCache())

    def at(now, hook, dispatcher):
        clock.now = now
        getattr(listener, hook)(SimpleNamespace(data={"dispatcher": dispatcher}))
        return len(caplog.records)

    assert at(0, "on_start", others) == at(10, "on_end", others) == 0
    assert at(10, "on_start", ours) == at(11.5, "on_end", ours) == 0
    assert at(20, "on_start", ours) == at(20.4, "on_start", ours) == 0
    assert at(20.6, "on_end", ours) == 1  # the outer one goes on
    assert at(30, "on_end", ours) == at(30, "on_start", ours) == 1


def test_the_line_is_left_out_where_a_warning_says_more_and_in_a_pool(load, monkeypatch, caplog):
    begin = SimpleNamespace(data={"dispatcher": load().total})
    monkeypatch.setattr(_machine_code, "warned", ["Compiled kernels cannot be cached."])
    Notice(0.0).on_start(begin)
    monkeypatch.setattr(_machine_code, "warned", [])
    with monkeypatch.context() as pool:
        pool.setattr(_machine_code.multiprocessing, "parent_process", lambda: "a process")
        Notice(0.0).on_start(begin)
    assert not caplog.records
    Notice(0.0).on_start(begin)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
