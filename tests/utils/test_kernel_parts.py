"""Kernels that other kernels call: compiled with their caller, and again if Python calls them."""

import gc
import textwrap
import threading

import numba
import numpy as np
import pytest
from numba import config

from skmanifold.utils._machine_code import Part
from skmanifold.utils._njit import Kernel, is_tested, new_kernel, njit

from ._processes import run_python

pytestmark = [
    pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled"),
    pytest.mark.skipif(not is_tested(), reason=f"numba {numba.__version__} compiles in its own way: see _njit.py"),
]


def make_kernels():
    """A kernel, and a kernel that calls it, which nothing else has compiled."""

    @njit()
    def part(x, power):
        if x < 0:
            raise ValueError("a negative number")
        return x**power

    @njit(nogil=True)
    def whole(numbers):
        total = 0.0
        for i in range(len(numbers)):
            total += part(numbers[i], 2) + part(numbers[i], 3)
        return total

    return part, whole


def test_a_part_is_compiled_once_for_all_literals_and_has_no_code_of_its_own():
    part, whole = make_kernels()
    assert whole(np.array([1.0, 2.0])) == 14.0
    (compiled,) = part.overloads.values()
    assert isinstance(compiled.library, Part)
    assert not any(isinstance(found.library, Part) for found in whole.overloads.values())


def test_python_may_call_a_part_before_and_after_a_kernel_does():
    part, whole = make_kernels()
    assert whole(np.array([2.0])) == 12.0
    assert part(3.0, 2) == 9.0
    assert whole(np.array([2.0])) == 12.0
    part, whole = make_kernels()
    assert part(3.0, 2) == 9.0
    assert whole(np.array([2.0])) == 12.0
    assert whole(np.array([2.0], np.float32)) == 12.0


def test_an_error_in_a_part_reaches_python():
    part, whole = make_kernels()
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            whole(np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="negative"):
        part(-1.0, 2)


def test_threads_may_compile_the_same_kernels():
    part, whole = make_kernels()
    found = []
    calls = [lambda: whole(np.array([2.0])), lambda: part(2.0, 3) + 4.0, lambda: whole(np.array([2], np.int64))]
    threads = [threading.Thread(target=lambda call=call: found.append(call())) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [12.0] * 3
    assert gc.isenabled()


def test_other_versions_of_numba_compile_in_their_own_way(monkeypatch):
    assert isinstance(new_kernel(abs_of, {}), Kernel)
    for version in ("0.59.1", "0.69.0dev0+1.gabc", "1.0.0"):
        monkeypatch.setattr(numba, "__version__", version)
        kernel = new_kernel(abs_of, {})
        assert not isinstance(kernel, Kernel)
        assert kernel(-2.0) == 2.0


def abs_of(x):
    return abs(x)


@pytest.mark.long
def test_a_cached_kernel_brings_its_parts(tmp_path):
    (tmp_path / "cached.py").write_text(
        textwrap.dedent("""
            from skmanifold.utils._njit import njit

            @njit(cache=True)
            def part(x):
                return x + 1.0

            @njit(cache=True)
            def first(x):
                return 2.0 * part(x)

            @njit(cache=True)
            def second(x):
                return 3.0 * part(x)
            """)
    )
    program = """
import sys
from numba.core import event
from cached import first, part, second
with event.install_recorder("numba:compile") as recorder:
    found = [{"first": first, "second": second, "part": part}[name](1.0) for name in sys.argv[1:]]
print(found, sorted(seen.data["dispatcher"].__name__ for _, seen in recorder.buffer if seen.is_start))
"""

    def run(*names):
        return run_python(program, tmp_path, *names)

    assert run("first") == "[4.0] ['first', 'part']"
    assert run("first") == "[4.0] []"
    assert run("first", "second") == "[4.0, 6.0] ['part', 'second']"
    assert run("part", "second", "first") == "[2.0, 6.0, 4.0] ['part']"
    assert run("part", "first") == "[2.0, 4.0] []"
