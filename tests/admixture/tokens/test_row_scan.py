import numpy as np
import pytest
from numba import njit

from skmanifold.admixture._tokens.layout import find_in_scan, find_in_scan_reference, scan_row, scan_row_reference
from skmanifold.numerics.simd import LANES, prefetch


@njit(cache=True)
def _scan(entries, start, n_vectors, scores, out_sums, out_lanes):
    return scan_row(entries, start, n_vectors, scores, out_sums, out_lanes)


@njit(cache=True)
def _find(sums, lanes, n_vectors, value):
    return find_in_scan(sums, lanes, n_vectors, value)


@njit(cache=True)
def _prefetch(array, offset):
    prefetch(array, offset)
    return array[offset]


def random_row(rng, n_vectors, n_components, *, largest=65_535, zeros=0.3):
    """A row of entries that does not begin at the array's first, its last vector padded; and scores, some zero."""
    n_entries = max(0, n_vectors * LANES - int(rng.integers(LANES)))
    start = int(rng.integers(40))
    counts = rng.integers(1, largest, n_entries, endpoint=True).astype(np.uint32)
    topics = rng.integers(n_components, size=n_entries).astype(np.uint32)
    entries = rng.integers(2**32, size=start + n_vectors * LANES + 5, dtype=np.uint32)
    entries[start : start + n_vectors * LANES] = 0
    entries[start : start + n_entries] = (counts << np.uint32(16)) | topics
    scores = rng.random(n_components).astype(np.float32)
    scores[rng.random(n_components) < zeros] = 0
    return entries, start, scores


def bits(array):
    return np.asarray(array, np.float32).view(np.uint32)


def scan_both_ways(entries, start, n_vectors, scores):
    """Sums down and across the lanes from the compiled scan, after a check that numpy's have the same bits."""
    expected, expected_lanes = np.full(n_vectors * LANES + 3, -1, np.float32), np.full(LANES + 3, -1, np.float32)
    out, lanes = expected.copy(), expected_lanes.copy()
    with np.errstate(over="ignore"):
        expected_total = scan_row_reference(entries, start, n_vectors, scores, expected, expected_lanes[:LANES])
    total = _scan(entries, start, n_vectors, scores, out, lanes)
    np.testing.assert_array_equal(bits(out), bits(expected))
    np.testing.assert_array_equal(bits(lanes), bits(expected_lanes))
    assert bits(total) == bits(expected_total) == bits(lanes[LANES - 1])
    assert np.all(out[n_vectors * LANES :] == -1)  # nothing written behind the row
    return out[: n_vectors * LANES], lanes[:LANES]


@pytest.mark.parametrize("n_vectors", [0, 1, 2, 3, 7, 40])
@pytest.mark.parametrize("n_components", [1, 9, 400, 65_535])
def test_scan_repeats_the_reference_bit_for_bit(n_vectors, n_components):
    rng = np.random.default_rng([n_vectors, n_components])
    for largest in (1, 3, 255, 65_535) * 4:
        scan_both_ways(*_place(random_row(rng, n_vectors, n_components, largest=largest), n_vectors))


def _place(row, n_vectors):
    entries, start, scores = row
    return entries, start, n_vectors, scores


@pytest.mark.parametrize(("low", "high"), [(-45, -36), (-45, 0), (0, 33), (-45, 38)])
def test_scan_repeats_the_reference_at_the_ends_of_the_range(low, high):
    """Sums of subnormal numbers are not flushed to zero, and sums out of range are infinite in both."""
    rng = np.random.default_rng(2)
    seen = []
    for _ in range(60):
        entries, start, scores = random_row(rng, 5, 300)
        scores = (10.0 ** rng.uniform(low, high, 300)).astype(np.float32)
        seen.append(scan_both_ways(entries, start, 5, scores)[0])
    seen = np.concatenate(seen)
    if high <= -36:
        assert np.any((seen > 0) & (seen < np.finfo(np.float32).tiny))
    if high >= 38:
        assert np.isinf(seen).any()


def test_running_sums_are_those_of_the_products():
    rng = np.random.default_rng(3)
    for n_vectors in (1, 4, 30):
        entries, start, scores = random_row(rng, n_vectors, 200)
        row = entries[start : start + n_vectors * LANES].astype(np.int64)
        sums, lanes = scan_both_ways(entries, start, n_vectors, scores)
        products = ((row >> 16) * scores[row & 0xFFFF].astype(np.float64)).reshape(n_vectors, LANES)
        np.testing.assert_allclose(sums.reshape(n_vectors, LANES), np.cumsum(products, axis=0), rtol=1e-6)
        np.testing.assert_allclose(lanes, np.cumsum(products.sum(axis=0)), rtol=1e-6)


def test_a_row_without_entries_sums_to_zero():
    entries = np.full(LANES, 2**32 - 1, np.uint32)
    sums, lanes = scan_both_ways(entries, 3, 0, np.ones(2, np.float32))
    assert len(sums) == 0
    assert not lanes.any()


@pytest.mark.parametrize("n_vectors", [1, 2, 7, 40])
def test_find_repeats_the_reference(n_vectors):
    rng = np.random.default_rng(n_vectors)
    for _ in range(10):
        entries, start, scores = random_row(rng, n_vectors, 90, zeros=0.6)
        sums, lanes = scan_both_ways(entries, start, n_vectors, scores)
        at = lanes[rng.integers(LANES, size=20)]
        values = np.concatenate(
            [
                at,
                np.nextafter(at, -1),
                np.nextafter(at, np.float32(np.inf)),
                rng.random(60) * lanes[-1],
                [-1, 0, np.inf],
            ]
        )
        padded = np.concatenate([sums, np.full(LANES, -1, np.float32)])  # more sums lie behind those that count
        for value in values.astype(np.float32):
            found = _find(padded, lanes, n_vectors, value)
            assert found == find_in_scan_reference(padded, lanes, n_vectors, value)
            assert 0 <= found < n_vectors * LANES


def test_find_picks_the_entry_whose_share_holds_the_value():
    """Three vectors: the shares come lane by lane, and within a lane vector by vector."""
    rng = np.random.default_rng(5)
    n_vectors, n_topics = 3, 48
    products = rng.integers(0, 3, n_vectors * LANES)  # whole numbers: sums are exact, some shares are empty
    entries = (products.astype(np.uint32) << np.uint32(16)) | np.arange(n_topics, dtype=np.uint32)
    sums, lanes = scan_both_ways(entries, 0, n_vectors, np.ones(n_topics, np.float32))
    order = np.arange(n_vectors * LANES).reshape(n_vectors, LANES).T.ravel()
    expected = np.repeat(order, products[order])
    assert lanes[-1] == len(expected) == products.sum()
    for value, entry in enumerate(expected):
        for target in (value, np.nextafter(np.float32(value + 1), np.float32(0))):
            assert _find(sums, lanes, n_vectors, np.float32(target)) == entry


def test_prefetch_changes_nothing():
    array = np.arange(50, dtype=np.uint32)
    assert [_prefetch(array, offset) for offset in range(50)] == list(range(50))
    np.testing.assert_array_equal(array, np.arange(50))
