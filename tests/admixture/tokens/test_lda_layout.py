import numpy as np
import pytest

from skmanifold.admixture._tokens import layout as layout_module
from skmanifold.admixture._tokens.layout import make_layout, most_single_tokens
from skmanifold.utils._threads import Workers

from ..lda._lda_arrays import pair_columns
from ._documents import make_counts

SINGLE = most_single_tokens(8)  # the most tokens of a pair that are not drawn at once
BLOCK_TOKENS = [1, 5, 40, 300, 10**6, None]


def random_table(seed=0, n_rows=37, n_words=23):
    table = np.random.default_rng(seed).poisson(0.6, (n_rows, n_words))
    table[[0, 5, 6, 7, n_rows - 1]] = 0  # empty rows: the first, the last, three together
    table[:, [0, 4, n_words - 1]] = 0
    table[11, 3:9] = 70, 1, 0, 200, 8, 31  # longer than many a block
    table[20, 2] = 100_000
    return table


def layout_of(table, n_components=8, block_tokens=None, workers=None):
    return make_layout(make_counts(table), n_components, workers or Workers(1), block_tokens)


def pairs_in_order(layout):
    """(block, word, row, count) of every pair, as the layout tells it."""
    row, word = pair_columns(layout)
    block = np.searchsorted(layout.block_rows, row, side="right") - 1
    count = layout.pair_count.copy()
    count[layout.pair_count == 0] = layout.cell_count
    return np.column_stack([block, word, row, count])


@pytest.mark.parametrize("block_tokens", BLOCK_TOKENS)
def test_every_pair_stands_once_in_its_place(block_tokens):
    table = random_table()
    layout = layout_of(table, block_tokens=block_tokens)
    pairs = pairs_in_order(layout)
    rows, words = np.nonzero(table)
    block = np.searchsorted(layout.block_rows, rows, side="right") - 1
    expected = np.column_stack([block, words, rows, table[rows, words]])
    np.testing.assert_array_equal(pairs, expected[np.lexsort((rows, words, block))])


@pytest.mark.parametrize("block_tokens", BLOCK_TOKENS)
def test_segments_are_one_word_of_one_block(block_tokens):
    layout = layout_of(random_table(), block_tokens=block_tokens)
    assert np.all(np.diff(layout.segment_pairs) > 0)
    for begin, end in zip(layout.block_segments[:-1], layout.block_segments[1:], strict=True):
        assert np.all(np.diff(layout.segment_word[begin:end]) > 0)
    assert layout.block_segments[-1] == len(layout.segment_word)
    ends = np.concatenate(([0], np.cumsum(layout.pair_count, dtype=np.int64)))
    np.testing.assert_array_equal(layout.segment_tokens, ends[layout.segment_pairs])


@pytest.mark.parametrize("block_tokens", BLOCK_TOKENS)
def test_blocks_cover_the_rows_and_hold_what_they_may(block_tokens):
    table = random_table()
    layout = layout_of(table, block_tokens=block_tokens)
    assert (layout.block_rows[0], layout.block_rows[-1]) == (0, len(table))
    n_rows = np.diff(layout.block_rows)
    assert n_rows.min() >= 1
    if block_tokens is not None:
        lengths = table.sum(axis=1)
        tokens = np.add.reduceat(lengths, layout.block_rows[:-1])
        # Equal shares, but for the documents that lie across two.
        share = lengths.sum() / np.ceil(lengths.sum() / block_tokens)
        assert np.all(tokens <= share + lengths.max())
        if share > lengths.max():
            assert np.all(tokens >= share - lengths.max())
            assert layout.n_blocks == round(lengths.sum() / share)


@pytest.mark.parametrize("block_tokens", BLOCK_TOKENS)
def test_large_cells_have_a_list_of_their_own(block_tokens):
    table = random_table()
    table[11, 3], table[12, 3], table[12, 5], table[36, 2], table[3, 2] = SINGLE, SINGLE + 1, 2**31 - 1, 5000, 2000
    layout = layout_of(table, block_tokens=block_tokens)
    assert layout.n_cells == 5
    segment = np.repeat(np.arange(len(layout.segment_word)), np.diff(layout.segment_cells))
    first_row = np.repeat(layout.block_rows[:-1], np.diff(layout.segment_cells[layout.block_segments]))
    found = np.zeros_like(table)
    found[first_row + layout.cell_row, layout.segment_word[segment]] = layout.cell_count
    np.testing.assert_array_equal(found, np.where(table > SINGLE, table, 0))
    np.testing.assert_array_equal(layout.word_cells, (table > SINGLE).sum(axis=0))
    assert layout.n_tokens == table[table <= SINGLE].sum()
    if block_tokens == 10**6:  # a large cell counts as the draws that it needs
        assert layout.n_blocks == 1


@pytest.mark.parametrize(("n_components", "most"), [(1, 1024), (256, 1024), (257, 1028), (65_535, 262_140)])
def test_cells_are_large_for_their_number_of_topics(n_components, most):
    assert most_single_tokens(n_components) == most


def test_blocks_of_one_row():
    table = np.random.default_rng(1).poisson(2.0, (9, 4)) + 1
    layout = layout_of(table, block_tokens=1)
    assert layout.n_blocks == 9
    assert not layout.pair_row.any()
    np.testing.assert_array_equal(layout.pair_count, table.ravel())


def test_no_block_has_more_rows_than_its_numbers_can_tell(monkeypatch):
    assert np.iinfo(np.uint16).max + 1 >= layout_module._MAX_BLOCK_ROWS
    monkeypatch.setattr(layout_module, "_MAX_BLOCK_ROWS", 4)
    table = random_table()
    layout = layout_of(table, block_tokens=10**6)
    assert np.diff(layout.block_rows).max() == 4
    pairs = pairs_in_order(layout)
    rebuilt = np.zeros_like(table)
    np.add.at(rebuilt, (pairs[:, 2], pairs[:, 1]), pairs[:, 3])
    np.testing.assert_array_equal(rebuilt, table)


@pytest.mark.parametrize("block_tokens", BLOCK_TOKENS)
def test_segments_of_a_word_are_listed_block_by_block(block_tokens):
    table = random_table()
    layout = layout_of(table, block_tokens=block_tokens)
    np.testing.assert_array_equal(np.sort(layout.word_segments), np.arange(len(layout.segment_word)))
    assert len(layout.word_start) == table.shape[1] + 1
    for word in range(table.shape[1]):
        segments = layout.word_segments[layout.word_start[word] : layout.word_start[word + 1]]
        assert np.all(np.diff(segments) > 0)
        assert np.all(layout.segment_word[segments] == word)
        tokens = layout.segment_tokens[segments + 1] - layout.segment_tokens[segments]
        assert tokens.sum() == table[:, word][table[:, word] <= SINGLE].sum()


@pytest.mark.parametrize("n_components", [1, 2, 15, 16, 17, 1000])
def test_rows_have_room_for_their_topics_at_the_start_of_a_vector(n_components):
    table = random_table()
    table[2, 1], table[3, 1] = 65_535, 65_536
    layout = layout_of(table, n_components)
    lengths = table.sum(axis=1)
    np.testing.assert_array_equal(layout.row_tokens, lengths)
    assert layout.n_tokens == table[table <= most_single_tokens(n_components)].sum()
    assert layout.row_start[0] == 0
    assert not (layout.row_start % 16).any()
    room = np.diff(layout.row_start)
    for length, entries in zip(lengths, room, strict=True):
        most = max_entries(int(length), n_components)
        assert most <= entries < max(most, 1) + 16 + length // 65_535


def max_entries(length, n_components):
    """Most entries that counts summing to `length` need: as many topics as may be, one more each 65,535 above one."""
    n_topics = min(length, n_components)
    return n_topics + (length - n_topics) // 65_535 if n_topics else 0


def test_workers_do_not_matter():
    counts = make_counts(random_table())
    alone = make_layout(counts, 8, Workers(1), 20)
    with Workers(3) as workers:
        for a, b in zip(alone, make_layout(counts, 8, workers, 20), strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype


def test_types_are_the_documented_ones():
    kinds = {"segment_word": np.int32, "pair_row": np.uint16, "pair_count": np.int32}
    kinds |= {"cell_row": np.uint16, "cell_count": np.int32}
    layout = layout_of(random_table(), block_tokens=20)
    assert {name: array.dtype for name, array in layout._asdict().items()} == {
        name: kinds.get(name, np.int64) for name in layout._fields
    }


def test_a_corpus_without_tokens_has_an_empty_layout():
    layout = layout_of(np.zeros((3, 2)))
    assert layout.n_tokens == 0
    assert len(layout.segment_word) == 0
    np.testing.assert_array_equal(layout.row_start, 0)
