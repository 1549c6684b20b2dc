import numpy as np
import pytest
from scipy.stats import chi2, norm

from skmanifold.random._keys import Purpose, fold_in, mix64, random_bits, root_key, row_key, subkey, uniform

MASK = 2**64 - 1
KEY = np.uint64(0x0123456789ABCDEF)


# The same arithmetic in Python's own integers


def slow_mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def slow_unmix(x):
    x = (x ^ (x >> 31) ^ (x >> 62)) * pow(0x94D049BB133111EB, -1, 2**64) & MASK
    x = (x ^ (x >> 27) ^ (x >> 54)) * pow(0xBF58476D1CE4E5B9, -1, 2**64) & MASK
    return x ^ (x >> 30) ^ (x >> 60)


def some_words(n=200):
    words = np.random.default_rng(0).integers(2**64, size=n, dtype=np.uint64).tolist()
    return [0, 1, 2, MASK, 2**63, 2**32, *words]


def test_first_draws_are_splitmix64():
    """Published: splitmix64 seeded with 1234567 gives these."""
    assert [int(random_bits(np.uint64(1234567), i)) for i in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_mixing_can_be_undone():
    for x in some_words():
        assert int(mix64(np.uint64(x))) == slow_mix(x)
        assert slow_unmix(slow_mix(x)) == x


def test_children_and_draws_are_one_round_over_different_steps():
    for key, value in zip(some_words(), reversed(some_words()), strict=True):
        for function, step in ((fold_in, 0xD1342543DE82EF95), (random_bits, 0x9E3779B97F4A7C15)):
            assert int(function(np.uint64(key), np.uint64(value))) == slow_mix((key + step * (value + 1)) & MASK)
        bits = int(random_bits(np.uint64(key), np.uint64(value)))
        assert uniform(np.uint64(key), np.uint64(value)) == (bits >> 11) * 2.0**-53


def test_counters_of_every_integer_type_mean_the_same():
    for function in (fold_in, random_bits, uniform):
        expected = function(KEY, np.uint64(41))
        assert all(function(KEY, kind(41)) == expected for kind in (int, np.int32, np.int64, np.uint16, np.uint32))


# Uniformity and independence


def draws(key, n=20_000):
    return np.array([uniform(key, i) for i in range(n)])


def p_uniform(u, n_bins=100):
    observed = np.bincount((u * n_bins).astype(int), minlength=n_bins)
    expected = len(u) / n_bins
    return chi2.sf(((observed - expected) ** 2 / expected).sum(), n_bins - 1)


def p_independent(u, v):
    """Of the correlation, and of a 10 x 10 table."""
    correlation = np.corrcoef(u, v)[0, 1]
    table = np.bincount((u * 10).astype(int) * 10 + (v * 10).astype(int), minlength=100)
    expected = len(u) / 100
    return min(2 * norm.sf(abs(correlation) * np.sqrt(len(u))), chi2.sf(((table - expected) ** 2 / expected).sum(), 99))


def test_draws_of_one_key_are_uniform_and_independent():
    u = draws(KEY)
    assert u.min() >= 0
    assert u.max() < 1
    assert p_uniform(u) > 1e-3
    for lag in (1, 2, 3, 16, 1024):
        assert p_independent(u[:-lag], u[lag:]) > 1e-3


def test_keys_of_rows_and_words_are_all_different():
    pairs = [(row << 32) | word for row in range(150) for word in range(150)]
    keys = [int(subkey(KEY, pair)) for pair in pairs]
    assert len(set(keys)) == len(keys)
    u = np.array([uniform(np.uint64(key), 0) for key in keys]).reshape(150, 150)
    assert p_uniform(u.ravel()) > 1e-3
    assert p_independent(u[:, :-1].ravel(), u[:, 1:].ravel()) > 1e-3
    assert p_independent(u[:-1].ravel(), u[1:].ravel()) > 1e-3


@pytest.mark.parametrize("other", [subkey(KEY, 0), KEY + np.uint64(1), KEY ^ np.uint64(1 << 63)])
def test_streams_of_kindred_keys_are_independent(other):
    assert p_independent(draws(KEY), draws(other)) > 1e-3


def test_a_key_may_be_folded_and_drawn_from():
    """The children of a key are not its draws, and their draws not its draws."""
    n = 3000
    own = {int(random_bits(KEY, i)) for i in range(n)}
    children = [subkey(KEY, i) for i in range(n)]
    theirs = {int(random_bits(child, i)) for child in children for i in range(2)}
    assert len(own) == n
    assert not own & {int(child) for child in children}
    assert not own & theirs
    assert p_independent(draws(KEY, n), np.array([float(child) for child in children]) / 2.0**64) > 1e-3


PURPOSES = """initial_latents sweep rounding inference minibatch chain step noise start acceptance metric gradient_noise
    draw read sticks concentration slice labels split_merge relabel components""".upper().split()


def test_purposes_keep_their_numbers():
    assert [getattr(Purpose, name) for name in PURPOSES] == list(range(1, 22))


def test_a_name_that_came_later_has_the_number_of_one_that_was_there():
    later = {name: value for name, value in vars(Purpose).items() if name.isupper() and name not in PURPOSES}
    assert set(later.values()) <= set(range(1, 22))
    assert later["WEIGHTS"] == Purpose.STICKS
    assert later["NOISE_PRECISION"] == Purpose.CONCENTRATION


# Keys


def test_subkey_folds_one_value_after_the_other():
    assert subkey(KEY) == KEY
    key = int(KEY)
    for value in (3, 1, 4):
        key = slow_mix((key + 0xD1342543DE82EF95 * (value + 1)) & MASK)
    assert subkey(KEY, 3, 1, 4) == key
    assert subkey(KEY, 3, 1) != subkey(KEY, 1, 3)
    assert isinstance(subkey(KEY, 1), np.uint64)
    assert isinstance(subkey(5, Purpose.SWEEP), np.uint64)


def test_root_key_of_a_seed_is_fixed_and_of_none_is_fresh():
    assert root_key(3) == root_key(3) == root_key(np.random.RandomState(3))
    assert root_key(3) != root_key(4)
    assert isinstance(root_key(0), np.uint64)
    assert len({int(root_key(None)) for _ in range(5)}) == 5
    generator = np.random.RandomState(3)  # goes on
    assert root_key(generator) == root_key(3) != root_key(generator)


def test_root_key_uses_all_64_bits():
    keys = np.array([int(root_key(seed)) for seed in range(100)], dtype=object)
    assert np.bitwise_or.reduce(keys) == MASK
    assert np.bitwise_and.reduce(keys) == 0


def test_root_key_of_none_follows_the_global_seed():
    state = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(5)  # noqa: NPY002
        assert root_key(None) == root_key(5)
    finally:
        np.random.set_state(state)  # noqa: NPY002


def test_a_seed_that_is_none_is_refused():
    with pytest.raises(ValueError, match="cannot be used to seed"):
        root_key("seed")


def content_key(indices, values, before=0, key=KEY):
    indices = np.concatenate([np.arange(before), indices]).astype(np.int32)
    data = np.concatenate([np.full(before, 9.0), values])
    return int(row_key(key, indices, data.view(np.uint64), before, len(indices)))


def test_row_key_depends_on_the_content_alone():
    indices, values = np.array([2, 5, 9]), np.array([1.0, 0.5, 3.0])
    expected = content_key(indices, values)
    assert content_key(indices, values, before=4) == expected
    others = [
        content_key(indices, [1.0, 0.5, 3.5]),
        content_key([2, 5, 8], values),
        content_key(indices, values[::-1]),
        content_key(indices[:2], values[:2]),
        content_key(indices, values, key=subkey(KEY, 0)),
        content_key([2, 5, 9, 11], [1.0, 0.5, 3.0, 1.0]),
        content_key([], []),
    ]
    assert len({expected, *others}) == 1 + len(others)
    assert content_key([], []) == int(KEY)
