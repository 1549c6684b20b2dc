"""Kernels where the cache is read-only, missing or damaged: they run, and a filled cache is used."""

import re

import pytest

from ._processes import ROOT, run_python

KERNELS = """
from skmanifold.utils._njit import njit

@njit(cache=True)
def square(x):
    return x * x

@njit(cache=True, nogil=True)
def sum_of_squares(x):
    total = 0.0
    for i in range(len(x)):
        total += square(x[i])
    return total
"""

READ_ONLY = """
import errno, os, sys

WRITABLE = os.devnull, os.environ.get("WRITABLE_FOLDER", os.devnull)

def refuse(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        writes = flags is not None and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) or set(mode or "") & set("wax+")
        if writes and not str(path).startswith(WRITABLE):
            raise OSError(errno.EROFS, "Read-only file system", path)
    elif event in ("os.mkdir", "os.rename", "os.remove") and not str(arguments[0]).startswith(WRITABLE):
        raise OSError(errno.EROFS, "Read-only file system", arguments[0])

sys.addaudithook(refuse)
"""

USE = """
import sys, warnings
import numpy as np
from numba.core import event
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from kernels import sum_of_squares
    with event.install_recorder("numba:compile") as recorder:
        result = sum_of_squares(np.arange(4.0))
    sum_of_squares(np.arange(4))
n_compiled = sum(record.is_start for _, record in recorder.buffer)
print(result, n_compiled, len(caught), *[warning.message for warning in caught])
"""


@pytest.fixture
def run(tmp_path):
    """Run code that may import `kernels`, whose cache is the folder "cache"."""
    (tmp_path / "kernels.py").write_text(KERNELS)
    return lambda code, **environment: run_python(code, tmp_path, **environment)


def test_a_cache_is_filled_and_then_used_where_nothing_can_be_written(run, tmp_path):
    assert run(USE).startswith("14.0 2 0")
    assert any(tmp_path.rglob("*.nbc"))
    assert run(READ_ONLY + USE) == "14.0 0 0"


def test_without_a_folder_kernels_are_compiled_in_memory_and_one_warning_says_how_to_give_one(run, tmp_path):
    found = run(READ_ONLY + USE, HOME="/dev/null")
    assert found.startswith("14.0 2 1 Compiled kernels of skmanifold cannot be cached")
    assert "NUMBA_CACHE_DIR" in found
    assert not any(tmp_path.rglob("*.nb?"))


def test_kernels_are_kept_in_a_temporary_folder_and_one_warning_says_where(run, tmp_path):
    (tmp_path / "temporary").mkdir()
    nothing_else = {"HOME": "/dev/null", "NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": ""}
    nothing_else |= {"TMPDIR": str(tmp_path / "temporary"), "WRITABLE_FOLDER": str(tmp_path / "temporary")}
    found = run(READ_ONLY + USE, **nothing_else)
    assert found.startswith("14.0 2 1 Compiled kernels of skmanifold are kept in the temporary folder")
    assert str(tmp_path / "temporary" / "skmanifold-kernels") in found
    assert run(READ_ONLY + USE, **nothing_else) == "14.0 0 0"


@pytest.mark.long
def test_the_package_is_imported_where_nothing_can_be_written(run):
    code = "from skmanifold import StochasticLDA, SubspaceMixture, VonMisesFisherMixture; print(StochasticLDA())"
    assert run(READ_ONLY + code, HOME="/dev/null", NUMBA_CACHE_DIR="") == "StochasticLDA()"


@pytest.mark.long
@pytest.mark.parametrize(("kind", "size"), [("nbi", 0), ("nbc", 20)])
def test_a_file_of_the_cache_that_was_cut_is_made_anew(run, tmp_path, kind, size):
    run(USE)
    for path in tmp_path.rglob(f"*.{kind}"):
        path.write_bytes(path.read_bytes()[:size])
    assert run(USE).startswith("14.0 2 0")
    assert run(USE).startswith("14.0 0 0")


@pytest.mark.long
def test_a_file_of_the_cache_with_types_of_a_module_that_is_gone_is_made_anew(run, tmp_path):
    """As after an upgrade to a version in which the module has another name."""
    run(USE)
    for path in tmp_path.rglob("*.nbi"):
        path.write_bytes(b"cskmanifold.gone\nThing\n.")
    assert run(USE).startswith("14.0 2 0")
    assert run(USE).startswith("14.0 0 0")


def test_all_kernels_of_the_package_have_this_decorator():
    imports = re.compile(r"^from numba import .*\bnjit\b", re.MULTILINE)
    assert not [path.name for path in (ROOT / "skmanifold").rglob("*.py") if imports.search(path.read_text())]
