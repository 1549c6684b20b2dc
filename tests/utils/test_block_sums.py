"""Sums over blocks of rows: the same bytes however the rows are cut."""

import itertools
from functools import reduce

import numpy as np
import pytest

from skmanifold.numerics import block_sums
from skmanifold.numerics.block_sums import BlockSums, merge

RNG = np.random.default_rng(0)


def make_blocks(n_blocks):
    """Numbers of all sizes, whose sums depend on their order."""
    return RNG.standard_normal((n_blocks, 3)) * 10.0 ** RNG.integers(-8, 8, (n_blocks, 3)), RNG.random(n_blocks)


def cut(arrays, cuts):
    n = len(arrays[0])
    edges = [0, *sorted(cuts), n]
    return [
        BlockSums.of_blocks(a, tuple(array[a:b] for array in arrays)) for a, b in itertools.pairwise(edges) if a < b
    ]


def as_bytes(sums):
    return [array.tobytes() for array in sums.total()]


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 7, 8, 37])
def test_totals_are_the_same_bytes_for_every_cut(n_blocks):
    arrays = make_blocks(n_blocks)
    whole = as_bytes(BlockSums.of_blocks(0, arrays))
    for _ in range(50):
        parts = cut(arrays, RNG.integers(0, n_blocks + 1, RNG.integers(0, 6)))
        assert as_bytes(reduce(merge, parts)) == whole
    np.testing.assert_allclose(BlockSums.of_blocks(0, arrays).total()[0], arrays[0].sum(axis=0), rtol=1e-9)


def test_parts_may_be_merged_in_any_order_that_keeps_them_adjacent():
    arrays = make_blocks(29)
    whole = as_bytes(BlockSums.of_blocks(0, arrays))
    for _ in range(50):
        parts = cut(arrays, RNG.integers(0, 30, 8))
        while len(parts) > 1:
            i = int(RNG.integers(0, len(parts) - 1))
            parts[i : i + 2] = [merge(parts[i], parts[i + 1])]
        assert as_bytes(parts[0]) == whole


def test_sums_that_are_added_part_by_part_depend_on_the_cut():
    """So the tests above can fail."""
    arrays = make_blocks(37)
    totals = set()
    for _ in range(20):
        edges = [0, *sorted(RNG.integers(0, 38, 3)), 37]
        parts = [arrays[0][a:b].sum(axis=0) for a, b in itertools.pairwise(edges)]
        totals.add(sum(parts).tobytes())
    assert len(totals) > 1


def test_nodes_are_as_few_as_the_tree_allows():
    assert len(BlockSums.of_blocks(0, make_blocks(64)).nodes) == 1
    assert len(BlockSums.of_blocks(0, make_blocks(37)).nodes) == 3  # 32 + 4 + 1
    assert [node[:2] for node in BlockSums.of_blocks(5, make_blocks(6)).nodes] == [(0, 5), (1, 3), (1, 4), (0, 10)]


def test_whole_numbers_are_one_node_whatever_is_merged():
    parts = [BlockSums.whole((np.arange(3) * i,)) for i in range(5)]
    total = reduce(merge, parts)
    assert len(total.nodes) == 1
    np.testing.assert_array_equal(total.total()[0], np.arange(3) * 10)


def test_nothing_is_left_as_it_was_given():
    arrays = make_blocks(9)
    before = [array.copy() for array in arrays]
    sums = BlockSums.of_blocks(0, arrays)
    merge(sums, BlockSums.of_blocks(9, make_blocks(7))).total()
    for array, kept in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, kept)
    np.testing.assert_array_equal(sums.map(lambda array: 2 * array).total()[0], 2 * sums.total()[0])


@pytest.mark.parametrize("n_parts", [1, 2, 3, 5])  # the arrays have three columns
def test_columns_can_be_merged_separately(n_parts):
    columns, numbers = make_blocks(29)
    whole = BlockSums.of_blocks(0, (columns, numbers))
    left, right = (BlockSums.of_blocks(a, (columns[a:b], numbers[a:b])) for a, b in ((0, 11), (11, 29)))
    pairs = zip(block_sums.cut(left, n_parts), block_sums.cut(right, n_parts), strict=True)
    parts = list(itertools.starmap(merge, pairs))
    assert len(parts) == n_parts
    assert as_bytes(block_sums.join(parts)) == as_bytes(whole)
