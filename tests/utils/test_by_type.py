"""Functions of kernels with an implementation for each type: compiled, interpreted, and from the cache."""

import pytest

from skmanifold.utils._njit import is_tested

from ._processes import run_python

SHAPES = """
from typing import NamedTuple
import numpy as np
from skmanifold.utils._njit import by_type
from skmanifold.utils._njit import njit

class Disc(NamedTuple):
    radius: float

class Box(NamedTuple):
    sides: np.ndarray

class Point(NamedTuple):
    radius: float

@by_type
def area(shape, scale):
    "Area of a shape."

@area.of(Disc)
@njit(cache=True, nogil=True)
def _area_of_disc(shape, scale):
    return 3.0 * scale * shape.radius**2

@area.of(Box)
@njit(cache=True, nogil=True)
def _area_of_box(shape, scale):
    sides = shape.sides.copy()  # kernels may make arrays
    return scale * sides[0] * sides[1]

@njit(cache=True, nogil=True)
def total(shape, n):
    result = 0.0
    for scale in range(n):
        result += area(shape, scale)
    return result
"""

USE = """
import numpy as np
from numba.core import event
from skmanifold_shapes import Box, Disc, area, total
box = Box(np.array([2.0, 5.0]))
with event.install_recorder("numba:compile") as recorder:
    found = total(Disc(2.0), 4), total(box, 4), area(Disc(2.0), 1), area(box, 2)
print(*found, area.__name__, area.__doc__, any(record.is_start for _, record in recorder.buffer))
"""

COMPILED = """
from numba.core import event
from skmanifold_shapes import Disc, total
with event.install_recorder("numba:compile") as recorder:
    total(Disc(2.0), 4)
print(*sorted(record.data["dispatcher"].__name__ for _, record in recorder.buffer if record.is_start))
"""

UNREGISTERED = """
from skmanifold_shapes import Point, area, total
for call in (total, area):
    try:
        call(Point(1.0), 4)
    except TypeError as error:
        print(error)
"""


@pytest.fixture
def run(tmp_path):
    """Run code that may import `skmanifold_shapes` or `shapes`, whose cache is the folder "cache"."""
    for name in ("skmanifold_shapes", "shapes"):
        (tmp_path / f"{name}.py").write_text(SHAPES)
    return lambda code, **environment: run_python(code, tmp_path, **environment)


def test_the_kernel_of_the_type_is_called_compiled_and_from_the_cache_of_another_process(run):
    figures = "72.0 60.0 12.0 20.0 area Area of a shape."
    assert run(USE) == f"{figures} True"
    assert run(USE) == f"{figures} False"


def test_kernels_for_named_tuples_of_a_user_are_not_cached(run):
    """Numba would not notice that the kernels of the user have changed."""
    for _ in range(2):
        assert run(USE.replace("skmanifold_shapes", "shapes")).endswith(" True")


def test_interpreted_code_calls_the_same_kernels(run):
    assert run(USE, NUMBA_DISABLE_JIT="1") == "72.0 60.0 12.0 20.0 area Area of a shape. False"


@pytest.mark.skipif(not is_tested(), reason="other versions of numba compile a function between caller and kernel")
def test_only_the_caller_and_the_kernel_are_compiled(run):
    assert run(COMPILED) == "_area_of_disc total"


@pytest.mark.long
def test_untested_versions_of_numba_call_the_same_kernels(run):
    code = 'import numba; numba.__version__ = "99.0.0"' + USE
    assert run(code) == "72.0 60.0 12.0 20.0 area Area of a shape. True"
    assert run(code) == "72.0 60.0 12.0 20.0 area Area of a shape. False"


@pytest.mark.parametrize("disabled", ["0", "1"])
def test_a_type_without_a_kernel_is_refused(run, disabled):
    assert run(UNREGISTERED, NUMBA_DISABLE_JIT=disabled).splitlines() == ["area has no kernel for Point."] * 2
