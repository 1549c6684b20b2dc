"""The arrays of LDAModel in numpy's words, and tables of counts, for the tests of ESCA."""

import numpy as np

from skmanifold.admixture._lda.model import LDAModel
from skmanifold.admixture._tokens.model import TokenLatents
from skmanifold.admixture._tokens.topic_counts import TopicPrior
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers

KEY = np.uint64(20160509)
MOST = 65_535  # what one entry can count


def make_model(table, alpha, prior=0.1, *, workers=None, block_tokens=None):
    counts = whole_counts(canonical_csr(np.asarray(table, float)), KEY)
    alpha = np.asarray(alpha, float)
    model = LDAModel(counts, alpha, TopicPrior(prior, len(alpha), counts.n_features), workers or Workers(1))
    model.block_tokens = block_tokens
    return model


def pair_columns(layout):
    """Row and word of each pair, in the order of the layout."""
    segment_block = np.repeat(np.arange(layout.n_blocks), np.diff(layout.block_segments))
    pair_segment = np.repeat(np.arange(len(layout.segment_word)), np.diff(layout.segment_pairs))
    pair_row = layout.block_rows[segment_block[pair_segment]] + layout.pair_row
    return pair_row, layout.segment_word[pair_segment].astype(np.int64)


def token_columns(layout):
    """Row, word and occurrence of each token that is drawn by itself, in the order of the latents."""
    row, word = pair_columns(layout)
    pair = np.repeat(np.arange(len(row)), layout.pair_count)
    first = np.cumsum(layout.pair_count, dtype=np.int64) - layout.pair_count
    return row[pair], word[pair], np.arange(len(pair)) - first[pair]


def tabulate(model, latents):
    """How many tokens take each topic: (row, word, topic), of large cells and of others."""
    layout = model.layout
    table = np.zeros((model.n_rows, model.counts.n_features, model.n_components), np.int64)
    row, word, _ = token_columns(layout)
    np.add.at(table, (row, word, latents.token_topics), 1)
    row, word = (column[layout.pair_count == 0] for column in pair_columns(layout))
    table[row, word] += latents.cell_topics
    return table


def csr_order(layout):
    """Where the tokens in order of row, word and occurrence stand among the latents."""
    row, word, occurrence = token_columns(layout)
    return np.lexsort((occurrence, word, row))


def make_latents(model, doc_topics):
    """Latents whose documents have the counts `doc_topics`: one dict {topic: count} a row, in the entries' order."""
    layout = model.layout
    latents = TokenLatents(
        np.zeros(layout.n_tokens, np.uint16),
        np.zeros((layout.n_cells, model.n_components), np.int32),
        np.zeros(len(layout.row_tokens), np.int64),
        np.zeros(layout.row_start[-1], np.uint32),
    )
    for row, topics in enumerate(doc_topics):
        entries = []
        for topic, count in topics.items():
            whole, rest = divmod(int(count), MOST)
            entries += [MOST << 16 | topic] * whole + [rest << 16 | topic] * (rest > 0)
        start, stop = layout.row_start[row : row + 2]
        assert len(entries) <= stop - start
        latents.entries[start:stop] = 0
        latents.entries[start : start + len(entries)] = entries
        latents.row_vectors[row] = -(-len(entries) // 16)
    return latents


def read_latents(layout, latents):
    """What ``make_latents`` was given: {topic: count} a row, in the entries' order."""
    doc_topics = []
    for row, n_vectors in enumerate(latents.row_vectors):
        start = layout.row_start[row]
        topics = {}
        for entry in latents.entries[start : start + 16 * n_vectors].tolist():
            if entry >> 16:
                topics[entry & 0xFFFF] = topics.get(entry & 0xFFFF, 0) + (entry >> 16)
        doc_topics.append(topics)
    return doc_topics


def dense_doc_topic(doc_topics, n_topics):
    dense = np.zeros((len(doc_topics), n_topics))
    for row, topics in enumerate(doc_topics):
        dense[row, list(topics)] = list(topics.values())
    return dense


def random_table(seed=0, n_rows=40, n_words=30):
    table = np.random.default_rng(seed).poisson(0.5, (n_rows, n_words))
    table[[0, 7, 8, n_rows - 1]] = 0  # empty rows
    table[:, [0, 4]] = 0  # words that nobody uses
    table[13, [2, 3, 9]] = 300, 20, 7
    return table
