"""Conditions on numbers, arrays and containers, with which classes declare their attributes.

A condition is called with a value, a description of its position for messages, and a dict of the named sizes known so
far. It raises `Unsatisfied` if the value does not satisfy it. The first array or number with a named size sets the
size, and all later ones must agree with it. A size is a number, a name, a name plus a number ("n_words+1"), or None,
which allows any size. A shape is written as sizes with spaces between them, such as "n_rows 3 _", where "_" allows any
size, and "..." is the shape that `Point` has set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np

Sizes: TypeAlias = dict[str, int]
Size: TypeAlias = int | str | None
Condition: TypeAlias = Callable[[Any, str, Sizes], None]

MOST_COUNTED = 1e18  # maximum number of rows, tokens or cells
_TOLERANCE = 1e-3  # tolerance of sums that must be one: float32 over a million words
_LARGEST = 2**63
_CELLS_AT_ONCE = 1 << 20


class Unsatisfied(ValueError):
    """Raised if a value does not satisfy a condition; it has a description of the value's position."""

    def __init__(self, where: str, what: str):
        super().__init__(f"{where} {what}")
        self.where = where
        self.what = what


def refuse(where: str, what: str) -> NoReturn:
    """Raise `Unsatisfied`."""
    raise Unsatisfied(where, what)


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Begin the positions of values that do not satisfy a condition with that of the object that has them."""
    try:
        yield
    except Unsatisfied as error:
        refuse(f"{where}.{error.where}", error.what)


def nothing(value: Any, where: str, sizes: Sizes) -> None:
    """The condition of what is not kept."""
    if value is not None:
        refuse(where, "holds what is not kept")


# Numbers


@dataclass(frozen=True)
class Integer:
    """An integer; `below` may be the name of a size, and the integer itself the size with the name `size`."""

    low: int = 0
    below: int | str = _LARGEST
    _: KW_ONLY
    size: str | None = None

    def __call__(self, value: Any, where: str, sizes: Sizes) -> None:
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            refuse(where, f"is a {type(value).__name__}, not a whole number")
        below = measure(self.below, sizes)
        if value < self.low or value >= (_LARGEST if below is None else below):
            refuse(where, f"is {shortened(value)}, not from {self.low} to {_LARGEST if below is None else below - 1}")
        if self.size is not None and sizes.setdefault(self.size, int(value)) != value:
            refuse(where, f"is {value}, but {self.size} is {sizes[self.size]}")


@dataclass(frozen=True, kw_only=True)
class _Bounds:
    """Bounds of numbers, which are finite by default; `above` is exclusive."""

    low: float = -math.inf
    above: float = -math.inf
    high: float = math.inf
    nan: bool = False
    infinite: bool = False


@dataclass(frozen=True)
class Real(_Bounds):
    """A number, finite by default; `above` is an exclusive bound."""

    def __call__(self, value: Any, where: str, sizes: Sizes) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
            refuse(where, f"is a {type(value).__name__}, not a number")
        _check_range(value, value, self, where, "is")


@dataclass(frozen=True)
class OneOf:
    """One of the given values, with the same type."""

    values: tuple

    def __call__(self, value: Any, where: str, sizes: Sizes) -> None:
        if not any(type(value) is type(other) and value == other for other in self.values):
            refuse(where, f"is {shortened(value)}, not one of {', '.join(map(repr, self.values))}")


# Arrays


@dataclass(frozen=True)
class Array(_Bounds):
    """An array of numbers.

    Parameters
    ----------
    dtype : str
        Allowed types, separated by spaces.
    shape : str or None
        Sizes with spaces between them; None allows any shape.
    low, above, high : float
        Bounds of all numbers; `above` is exclusive.
    nan, infinite : bool
        Whether NaN and infinite numbers are allowed.
    sums_to_one, unit : int, optional
        Axis along which sums, or lengths of vectors, must be one.
    below : size, optional
        Exclusive upper bound of all numbers.
    """

    dtype: str
    shape: str | None
    _: KW_ONLY
    below: Size = None
    sums_to_one: int | None = None
    unit: int | None = None

    @property
    def n_dimensions(self) -> int | None:
        """Number of dimensions; None if any is allowed."""
        return None if self.shape is None or "..." in self.shape else len(self.shape.split())

    def __call__(self, value: Any, where: str, sizes: Sizes) -> None:
        if type(value) not in (np.ndarray, np.memmap):
            refuse(where, f"is a {type(value).__name__}, not an array")
        if value.dtype not in map(np.dtype, self.dtype.split()):
            refuse(where, f"has the type {value.dtype}, not {self.dtype.replace(' ', ' or ')}")
        if self.shape is not None:
            _check_shape(value.shape, self.shape, where, sizes)
        if value.size == 0:
            return
        if self.nan:
            low, high = np.fmin.reduce(value, axis=None), np.fmax.reduce(value, axis=None)
        else:
            low = 0 if value.dtype.kind == "u" else value.min()
            high = 1 if self.sums_to_one is not None and self.low == 0 else value.max()  # implied by the sums
        _check_range(low, high, self, where, "contains")
        below = measure(self.below, sizes)
        if below is not None and high >= below:
            refuse(where, f"contains {shortened(high)}, but must be less than {below}")
        if self.sums_to_one is not None and not _are_ones(value.sum(axis=self.sums_to_one, dtype=np.float64)):
            refuse(where, "contains numbers that do not sum to one")
        if self.unit is not None and not _are_ones(np.square(value).sum(axis=self.unit, dtype=np.float64)):
            refuse(where, "contains vectors whose length is not one")


@dataclass(frozen=True)
class Pointer:
    """Starts of lists of entries, (n + 1,) int64, increasing from 0 to the number of entries, which is a named size."""

    n: str
    entries: str

    def __call__(self, value: Any, where: str, sizes: Sizes) -> None:
        Array("int64", f"{self.n}+1")(value, where, sizes)
        if len(value) == 0 or value[0] != 0 or (value[1:] < value[:-1]).any():
            refuse(where, "does not increase from zero")
        if sizes.setdefault(self.entries, int(value[-1])) != value[-1]:
            refuse(where, f"ends at {value[-1]}, but there are {sizes[self.entries]} entries")


def index(n_entries: Size, below: Size, dtype: str = "int64") -> Array:
    """Indices from 0 to `below` - 1, (n_entries,)."""
    return Array(dtype, str(n_entries), low=0, below=below)


@dataclass(frozen=True)
class Point:
    """A state whose arrays "..." have this shape."""

    shape: str

    def __call__(self, value: Any, where: str, sizes: Sizes) -> None:
        sizes["..."] = self.shape  # type: ignore[assignment]


@dataclass(frozen=True)
class Length:
    """A list or tuple of this length."""

    size: Size

    def __call__(self, value: Any, where: str, sizes: Sizes) -> None:
        if not isinstance(value, list | tuple):
            refuse(where, f"is a {type(value).__name__}, not a list")
        check_length(len(value), self.size, where, sizes)


@dataclass(frozen=True)
class Names:
    """Names of features: strings."""

    size: str

    def __call__(self, value: Any, where: str, sizes: Sizes) -> None:
        if type(value) not in (np.ndarray, np.memmap) or not (
            value.dtype.kind == "U" or all(type(name) is str for name in value.flat)
        ):
            refuse(where, "is not an array of strings")
        _check_shape(value.shape, self.size, where, sizes)


def measure(size: Size, sizes: Sizes) -> int | None:
    """A size as a number; None if any size is allowed, or if the name is not known yet."""
    if not isinstance(size, str):
        return size
    name, _, more = size.partition("+")
    return sizes[name] + int(more or 0) if name in sizes else None


def _check_shape(shape: tuple[int, ...], wanted: str, where: str, sizes: dict[str, Any]) -> None:
    names = wanted.replace("...", sizes.get("...", "...")).split()
    if len(shape) != len(names):
        refuse(where, f"has {len(shape)} dimensions, not {len(names)}")
    for length, name in zip(shape, names, strict=True):
        check_length(length, int(name) if name.isdigit() else None if name == "_" else name, where, sizes)


def check_length(length: int, size: Size, where: str, sizes: Sizes) -> None:
    """Check a length, or set a named size that is not known yet."""
    known = measure(size, sizes)
    if known is not None and length != known:
        name = "" if isinstance(size, int) else f" ({size})"
        refuse(where, f"has the length {length}, but must have the length {known}{name}")
    if known is None and isinstance(size, str):
        name, _, more = size.partition("+")
        sizes[name] = length - int(more or 0)


def _check_range(low: Any, high: Any, bounds: _Bounds, where: str, verb: str) -> None:
    if math.isnan(low) or math.isnan(high):
        if bounds.nan:
            return
        refuse(where, f"{verb} NaN")
    if not bounds.infinite and (math.isinf(low) or math.isinf(high)):
        refuse(where, f"{verb} an infinite number")
    if low < 0 and bounds.low == 0:
        refuse(where, f"{verb} a negative number")
    if low <= 0 and bounds.above == 0:
        refuse(where, f"{verb} a number that is not positive")
    if low < bounds.low or low <= bounds.above:
        refuse(where, f"{verb} {shortened(low)}, but the minimum is {max(bounds.low, bounds.above):g}")
    if high > bounds.high:
        refuse(where, f"{verb} {shortened(high)}, but the maximum is {bounds.high:g}")


def _are_ones(values: Any) -> bool:
    return bool(np.all(np.abs(values - 1.0) <= _TOLERANCE))


def shortened(value: Any) -> str:
    """A value for an error message, of at most 43 characters."""
    if isinstance(value, np.generic):
        value = value.item()
    text = f"{value:.6g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def repeats(indptr: np.ndarray, indices: np.ndarray, n: int) -> bool:
    """Whether a list contains an index (less than `n`) twice; the lists satisfy `Pointer` and `index`."""
    if (np.diff(indptr) > n).any():
        return True
    n_lists = max(1, _CELLS_AT_ONCE // n)
    for first in range(0, len(indptr) - 1, n_lists):
        starts = indptr[first : first + n_lists + 1]
        seen = np.zeros((len(starts) - 1) * n, bool)
        of_list = np.repeat(np.arange(0, len(seen), n), np.diff(starts))
        seen[of_list + indices[starts[0] : starts[-1]]] = True
        if np.count_nonzero(seen) < starts[-1] - starts[0]:
            return True
    return False
