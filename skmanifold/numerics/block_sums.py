"""Sums over rows, and inner products, that are bitwise identical on all machines and for any number of threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from ..utils._conditions import Array, Integer, Sizes, refuse
from ..utils._declared import check
from ..utils._njit import njit

SUM_UNIT = 2.0**-16  # sums of its multiples are exact below 2**37, because float64 has 53 bits


def exact_sum(values: np.ndarray, unit: float = SUM_UNIT) -> float:
    """The sum of values, each rounded to a multiple of `unit`, so that the order of additions does not matter."""
    return float(np.rint(values / unit).sum() * unit)


@njit(cache=True, nogil=True)
def dot(a, b):
    """Inner product by eight partial sums: faster than one, and the order of additions is the same on every machine."""
    n = a.shape[0]
    n_whole = n - n % 8
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for j in range(0, n_whole, 8):
        s0 += a[j] * b[j]
        s1 += a[j + 1] * b[j + 1]
        s2 += a[j + 2] * b[j + 2]
        s3 += a[j + 3] * b[j + 3]
        s4 += a[j + 4] * b[j + 4]
        s5 += a[j + 5] * b[j + 5]
        s6 += a[j + 6] * b[j + 6]
        s7 += a[j + 7] * b[j + 7]
    for j in range(n_whole, n):
        s0 += a[j] * b[j]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@njit(cache=True, nogil=True)
def sum_lanes(values):
    """The sum in a fixed order, with eight partial sums, so that additions do not wait for each other."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = len(values) - len(values) % 8
    for k in range(0, whole, 8):
        s0 += values[k]
        s1 += values[k + 1]
        s2 += values[k + 2]
        s3 += values[k + 3]
        s4 += values[k + 4]
        s5 += values[k + 5]
        s6 += values[k + 6]
        s7 += values[k + 7]
    total = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
    for k in range(whole, len(values)):
        total += values[k]
    return total


# Rows are summed by fixed blocks, counted from the first row of the whole data set; the sums of blocks are the leaves
# of a fixed binary tree. A range of blocks is represented by the complete nodes of that tree.

BLOCK_ROWS = 1024
_WHOLE = -1  # level of sums without a position in the tree: exact or complete ones

Arrays = tuple[Annotated[np.ndarray, Array("float64 int64", None)], ...]
Node = tuple[
    Annotated[int, Integer(low=_WHOLE)], int, Arrays
]  # its level, its position in the level, and the sums over its 2**level blocks


class BlockSums(NamedTuple):
    """Sums of several quantities over a range of blocks, as nodes of the tree from left to right.

    Sums of whole numbers are exact in any order: they are one node without a position, and merging adds them.
    """

    nodes: tuple[Node, ...]

    def _disagreement(self, sizes: Sizes) -> str | None:
        shapes = {tuple(array.shape for array in arrays) for _, _, arrays in self.nodes}
        return None if len(shapes) == 1 else "has nodes of different shapes, or none"

    @classmethod
    def of_blocks(cls, first_block: int, arrays: Arrays) -> BlockSums:
        """From sums by blocks: arrays with a leading axis, whose entry i belongs to block ``first_block + i``."""
        before: list[Node] = []
        after: list[Node] = []
        level, index = 0, first_block
        while len(arrays[0]):
            if index % 2:  # its sibling is missing
                before.append((level, index, tuple(array[0] for array in arrays)))
                arrays, index = tuple(array[1:] for array in arrays), index + 1
            if len(arrays[0]) % 2:
                after.append((level, index + len(arrays[0]) - 1, tuple(array[-1] for array in arrays)))
                arrays = tuple(array[:-1] for array in arrays)
            arrays = tuple(array[0::2] + array[1::2] for array in arrays)
            level, index = level + 1, index // 2
        return cls((*before, *reversed(after)))

    @classmethod
    def whole(cls, arrays: Arrays) -> BlockSums:
        """Create from sums that are exact or complete."""
        return cls(((_WHOLE, 0, arrays),))

    def total(self) -> Arrays:
        """The sums over all blocks of the range."""
        total = self.nodes[0][2]
        for _, _, arrays in self.nodes[1:]:
            total = _add(total, arrays)
        return total

    def plus(self, other: BlockSums) -> BlockSums:
        """The total of both."""
        return BlockSums.whole(_add(self.total(), other.total()))

    def map(self, function) -> BlockSums:
        """The total, with a function applied to each of its arrays."""
        return BlockSums.whole(tuple(function(array) for array in self.total()))


def cut(sums: BlockSums, n: int) -> list[BlockSums]:
    """Divide every array along its first axis into `n` parts, which can be merged separately."""

    def part(array: np.ndarray, i: int) -> np.ndarray:
        return np.array_split(array, n)[i] if array.ndim else array  # every part has the numbers without axes

    nodes = [
        [(level, index, tuple(part(a, i) for a in arrays)) for level, index, arrays in sums.nodes] for i in range(n)
    ]
    return [BlockSums(tuple(of_part)) for of_part in nodes]


def join(parts: Sequence[BlockSums]) -> BlockSums:
    """The inverse of `cut`."""
    nodes = []
    for same in zip(*(part.nodes for part in parts), strict=True):
        level, index, _ = same[0]
        arrays = zip(*(arrays for _, _, arrays in same), strict=True)
        nodes.append((level, index, tuple(np.concatenate(some) if some[0].ndim else some[0] for some in arrays)))
    return BlockSums(tuple(nodes))


def merge(left: BlockSums, right: BlockSums) -> BlockSums:
    """Sums over two ranges, the second after the first. They must be adjacent, or `total` depends on the division."""
    nodes: list[Node] = []
    for level, index, arrays in (*left.nodes, *right.nodes):
        while nodes and nodes[-1][0] == level and (level == _WHOLE or (index % 2 and nodes[-1][1] == index - 1)):
            _, _, before = nodes.pop()
            arrays = _add(before, arrays)
            if level != _WHOLE:
                level, index = level + 1, index // 2
        nodes.append((level, index, arrays))
    return BlockSums(tuple(nodes))


def side_by_side(parts: Iterable[BlockSums]) -> BlockSums:
    """Sums of several quantities over the same range; exact sums are added to the first node of the others."""
    parts = list(parts)
    shape = max(parts, key=lambda sums: sums.nodes[0][0] != _WHOLE)  # one that is not exact, if there is one
    nodes = []
    for i, (level, index, _) in enumerate(shape.nodes):
        arrays: Arrays = ()
        for sums in parts:
            if sums.nodes[0][0] == level or level == _WHOLE:
                arrays += sums.nodes[i][2]
            elif i == 0:
                arrays += sums.total()
            else:
                arrays += tuple(np.zeros_like(array) for array in sums.nodes[0][2])
        nodes.append((level, index, arrays))
    return BlockSums(tuple(nodes))


def check_block_sums(sums: Any, shapes: tuple[tuple[int, ...], ...]) -> None:
    """Raise a ValueError unless these are sums of quantities of these shapes; for values from a file."""
    check(BlockSums, sums, "sums over rows", {})
    if any(tuple(array.shape for array in arrays) != shapes for _, _, arrays in sums.nodes):
        refuse("sums over rows", f"do not have the shapes {shapes}")


def _add(left: Arrays, right: Arrays) -> Arrays:
    return tuple(a + b for a, b in zip(left, right, strict=True))
