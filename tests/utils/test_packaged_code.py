"""Machine code in the package: it is used, and code of other types, sources, versions or processors is not."""

import importlib.util
import sys
from itertools import pairwise

import numba
import numpy as np
import pytest
from numba import config
from numba.core import event

from skmanifold.utils import _machine_code, _packaged_code
from skmanifold.utils._packaged_code import LEVELS

KERNELS = """
from skmanifold.utils._njit import njit

@njit(cache=True)
def total(x):
    total = 0
    for i in range(len(x)):
        total += x[i] * x[i]
    return total
"""
WHOLE, REAL = np.arange(4), np.arange(4.0)


@pytest.fixture
def new_process(tmp_path, monkeypatch):
    """A kernel as a new process has it, whose package is a folder of the test and whose cache is empty."""
    package, path = tmp_path / "package", tmp_path / "kernels.py"
    package.mkdir()
    (package / "module.py").write_text("x = 1\n")
    path.write_text(KERNELS)
    monkeypatch.setattr(_machine_code, "caches", [])
    monkeypatch.setattr(_packaged_code, "_PACKAGE", package)
    monkeypatch.setattr(_packaged_code, "_FOLDER", package / "_kernels")
    monkeypatch.setattr(_packaged_code, "LEVELS", {"high": ("wings",), "low": ()})
    monkeypatch.setattr(_packaged_code, "environ", {"NUMBA_CACHE_DIR": "elsewhere", "PATH": "/bin"})

    def new_process(cache="empty"):
        _packaged_code._folder.cache_clear()
        monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / cache))
        spec = importlib.util.spec_from_file_location("packaged_kernels", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module.total

    kernel = new_process("full")
    kernel(WHOLE)
    folder = _packaged_code.folder_of("low")
    folder.mkdir(parents=True)
    ((sig, compiled),) = kernel.overloads.items()
    _packaged_code.save(folder, kernel.py_func, sig, compiled)
    yield new_process
    _packaged_code._folder.cache_clear()
    del sys.modules["packaged_kernels"]


def n_compiled(kernel, x=WHOLE):
    with event.install_recorder("numba:compile") as recorder:
        assert kernel(x) == 14
    return sum(record.is_start for _, record in recorder.buffer)


def test_a_kernel_in_the_package_is_not_compiled(new_process, tmp_path):
    kernel = new_process()
    assert n_compiled(kernel) == 0
    assert n_compiled(kernel, REAL) == 1  # other types
    assert len(list((tmp_path / "empty").rglob("*.nbc"))) == 1


def change_source(monkeypatch):
    (_packaged_code._PACKAGE / "module.py").write_text("x = 2\n")


def change_version(monkeypatch):
    monkeypatch.setattr(numba, "__version__", "0.0")


def change_settings(monkeypatch):
    monkeypatch.setitem(_packaged_code.environ, "NUMBA_BOUNDSCHECK", "1")


def use_a_small_processor(monkeypatch):
    folder = _packaged_code.folder_of("low")
    folder.rename(folder.with_name(folder.name.replace("low", "high")))


def shorten(monkeypatch):
    (file,) = _packaged_code.folder_of("low").iterdir()
    file.write_bytes(file.read_bytes()[:-1])


def damage(monkeypatch):
    (file,) = _packaged_code.folder_of("low").iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def confuse_types():
    kernel = sys.modules["packaged_kernels"].total.py_func
    (file,) = _packaged_code.folder_of("low").iterdir()
    file.rename(_packaged_code._file(file.parent, kernel, (numba.types.Array(numba.float64, 1, "C"),)))


@pytest.mark.parametrize(
    "change", [change_source, change_version, change_settings, use_a_small_processor, shorten, damage]
)
def test_code_that_does_not_fit_is_not_used(change, new_process, monkeypatch):
    change(monkeypatch)
    assert n_compiled(new_process()) == 1


def test_code_of_other_types_is_not_used(new_process):
    confuse_types()
    assert n_compiled(new_process(), REAL) == 1


def test_each_level_has_the_features_of_the_levels_after_it():
    features = [set(of) for of in LEVELS.values()]
    assert all(later < earlier for earlier, later in pairwise(features))
