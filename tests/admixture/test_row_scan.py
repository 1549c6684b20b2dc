import numpy as np
import pytest
from numba import njit

from skmanifold.admixture._row_scan import (
    LANES,
    find_in_scan,
    find_in_scan_reference,
    prefetch,
    scan_row,
    scan_row_reference,
)


@njit(cache=True)
def _scan(entries, start, n_vectors, scores, out):
    return scan_row(entries, start, n_vectors, scores, out)


@njit(cache=True)
def _find(sums, n_vectors, value):
    return find_in_scan(sums, n_vectors, value)


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
    """Running sums and total from the compiled scan, after a check that numpy's have the same bits."""
    expected = np.full(n_vectors * LANES + 3, -1, np.float32)
    out = expected.copy()
    with np.errstate(over="ignore"):
        expected_total = scan_row_reference(entries, start, n_vectors, scores, expected)
    total = _scan(entries, start, n_vectors, scores, out)
    np.testing.assert_array_equal(bits(out), bits(expected))
    assert bits(total) == bits(expected_total)
    assert np.all(out[n_vectors * LANES :] == -1)  # nothing written behind the row
    return out[: n_vectors * LANES], np.float32(total)


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
        sums, total = scan_both_ways(entries, start, n_vectors, scores)
        exact = np.cumsum((row >> 16) * scores[row & 0xFFFF].astype(np.float64))
        np.testing.assert_allclose(sums, exact, rtol=1e-6)
        assert total == sums[-1]
        # The stated order of the additions is not the plain one.
        plain = np.cumsum((row >> 16).astype(np.float32) * scores[row & 0xFFFF], dtype=np.float32)
        assert np.any(plain != sums)


@pytest.mark.parametrize("n_vectors", [0, 1, 2, 7, 40])
def test_find_repeats_the_reference(n_vectors):
    rng = np.random.default_rng(n_vectors)
    for _ in range(10):
        entries, start, scores = random_row(rng, n_vectors, 90, zeros=0.6)
        sums, total = scan_both_ways(entries, start, n_vectors, scores)
        at = sums[rng.integers(len(sums), size=20)] if n_vectors else np.zeros(1, np.float32)
        values = np.concatenate(
            [at, np.nextafter(at, -1), np.nextafter(at, np.float32(np.inf)), rng.random(20) * total, [-1, 0, np.inf]]
        )
        # More sums lie behind those that count.
        padded = np.concatenate([sums, np.full(LANES, -1, np.float32)])
        for value in values.astype(np.float32):
            assert _find(padded, n_vectors, value) == find_in_scan_reference(padded, n_vectors, value)


def test_find_picks_the_entry_whose_share_holds_the_value():
    counts = np.array([3, 1, 5, 2], np.uint32)
    entries = np.zeros(LANES, np.uint32)
    entries[:4] = (counts << np.uint32(16)) | np.array([7, 2, 0, 4], np.uint32)
    scores = np.array([1, 9, 0, 9, 2, 9, 9, 0.5], np.float32)  # products 1.5, 0, 5, 4
    sums, total = scan_both_ways(entries, 0, 1, scores)
    assert total == 10.5
    for value, entry in [(0, 0), (1.4, 0), (1.5, 2), (6.4, 2), (6.5, 3), (10.4, 3)]:
        assert _find(sums, 1, np.float32(value)) == entry


def test_prefetch_changes_nothing():
    array = np.arange(50, dtype=np.uint32)
    assert [_prefetch(array, offset) for offset in range(50)] == list(range(50))
    np.testing.assert_array_equal(array, np.arange(50))
