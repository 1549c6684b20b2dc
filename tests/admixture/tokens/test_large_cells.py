"""Large cells of ESCA, whose tokens are drawn at once: moments, order, old streams."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from inference._fake_cluster import FakeClient
from samplers._evidence import assert_agrees, assert_disagrees, summarize

from skmanifold import StochasticLDA, distributed
from skmanifold.admixture._tokens import layout
from skmanifold.admixture._tokens.shards import StreamedTokens
from skmanifold.admixture._tokens.topic_counts import counts_from_dense
from skmanifold.datasets import save_corpus
from skmanifold.random._keys import subkey

from ..lda._lda_arrays import KEY, csr_order, dense_doc_topic, make_latents, make_model, read_latents, tabulate

N_TOPICS = 5


def large_table(n_rows=30, n_words=12, seed=0):
    """Ordinary counts with large ones among them."""
    rng = np.random.default_rng(seed)
    table = rng.poisson(1.0, (n_rows, n_words))
    table[rng.random(table.shape) < 0.1] = 1500
    table[3, 4], table[3, 7], table[9, 4] = 200_000, 3_000_000, 1024
    table[[0, 5]] = 0
    return table


# The law


@pytest.fixture(scope="module")
def draws():
    """Counts of the topics of one large cell in 4,000 copies of a document, and the topics' probabilities."""
    n_copies, count = 4000, 3000
    alpha = np.linspace(0.2, 2.0, N_TOPICS)
    model = make_model(np.tile([count, 40], (n_copies, 1)), alpha, [0.5, 1.5])
    word_topic = np.array([[9, 0, 400, 3, 30], [5, 7, 1, 0, 2]], np.int32)
    doc_topic = {0: 700, 4: 90, 1: 2250}
    position = model.mode(counts_from_dense(word_topic, word_topic.sum(axis=0)))
    latents, _, log_likelihood = model.sample_latents(position, make_latents(model, [doc_topic] * n_copies), KEY)
    weights = (dense_doc_topic([doc_topic], N_TOPICS)[0] + alpha) * position.toarray(np.float64).T
    expected = n_copies * ([count, 40] * np.log(weights.sum(axis=1) / (3040 + alpha.sum()))).sum()
    assert log_likelihood == pytest.approx(expected, rel=1e-6)
    return latents.cell_topics.astype(float), count, weights[0] / weights[0].sum()


def moments_of(counts, count, chances):
    """Of each draw: the standardised counts, and their products less what a multinomial expects."""
    z = (counts - count * chances) / np.sqrt(count * chances)
    products = np.einsum("ij,ik->ijk", z, z) - (np.eye(N_TOPICS) - np.sqrt(np.outer(chances, chances)))
    return np.column_stack([z[:, :-1], products[:, *np.triu_indices(N_TOPICS)]])


def test_cells_have_the_moments_of_a_multinomial(draws):
    counts, count, chances = draws
    assert np.all(counts.sum(axis=1) == count)
    moments = moments_of(counts, count, chances)
    assert_agrees(summarize(moments), np.zeros(moments.shape[1]))


@pytest.mark.parametrize("wrong", ["rounded", "independent", "half", "alpha"])
def test_wrong_draws_fail(draws, wrong):
    """Expected counts, rounded; Poisson counts; topics of pairs of tokens; proportions without the prior."""
    counts, count, chances = draws
    rng = np.random.default_rng(0)
    if wrong == "rounded":
        counts = count * chances + rng.random(counts.shape) - 0.5
    elif wrong == "independent":
        counts = rng.poisson(count * chances, counts.shape)
    elif wrong == "half":
        counts = 2 * rng.multinomial(count // 2, chances, len(counts))
    else:
        counts = rng.multinomial(count, (chances + 0.002) / (1 + 0.002 * N_TOPICS), len(counts))
    moments = moments_of(counts, count, chances)
    assert_disagrees(summarize(moments), np.zeros(moments.shape[1]))


def test_initial_counts_are_uniform():
    model = make_model(np.full((4000, 1), 2000), np.ones(N_TOPICS))
    latents, _ = model.init_latents(KEY)
    chances = np.full(N_TOPICS, 1 / N_TOPICS)
    moments = moments_of(latents.cell_topics, 2000, chances)
    assert_agrees(summarize(moments), np.zeros(moments.shape[1]))


# The order of lists


def test_lists_stand_in_the_order_in_which_pairs_first_meet_their_topics():
    model = make_model(large_table(), np.full(40, 0.05), block_tokens=300)
    latents, statistics = model.init_latents(KEY)
    latents, statistics, _ = model.sample_latents(model.mode(statistics), latents, KEY)
    table = tabulate(model, latents)
    most = layout.most_single_tokens(40)
    met = [[] for _ in range(model.counts.n_features)]
    tokens = iter(latents.token_topics[csr_order(model.layout)].tolist())
    for row in range(model.n_rows):
        for word in np.flatnonzero(table[row].sum(axis=1)):
            count = table[row, word].sum()
            met[word].extend(np.flatnonzero(table[row, word]) if count > most else itertools.islice(tokens, count))
    for word, topics in enumerate(met):
        listed = statistics.topics[statistics.indptr[word] : statistics.indptr[word + 1]]
        assert listed.tolist() == list(dict.fromkeys(topics))
    np.testing.assert_array_equal(dense_doc_topic(read_latents(model.layout, latents), 40), table.sum(axis=1))


def test_other_cells_keep_their_streams(monkeypatch):
    """A pass over a corpus with large cells draws the tokens of the others as it would if all were drawn singly."""
    table = large_table()
    single = []
    for most in (layout._MIN_CELL_TOKENS, 2**31):
        monkeypatch.setattr(layout, "_MIN_CELL_TOKENS", most)
        model = make_model(table, np.full(N_TOPICS, 0.3))
        word_topic = np.arange(60, dtype=np.int32).reshape(12, N_TOPICS)
        statistics = counts_from_dense(word_topic, word_topic.sum(axis=0))
        latents = make_latents(model, [{1: 3, 3: 1} if row.any() else {} for row in table])
        latents, _, _ = model.sample_latents(model.mode(statistics), latents, KEY)
        single.append(tabulate(model, latents)[table <= 1024])
    np.testing.assert_array_equal(*single)


def test_time_and_memory_do_not_grow_with_a_count():
    """A hundred million tokens in sixty cells; drawn one by one, each pass took seconds."""
    model = make_model(np.full((6, 10), 10**8 // 60), np.full(10, 0.1))
    latents, statistics = model.init_latents(KEY)
    for sweep in range(50):
        latents, statistics, _ = model.sample_latents(model.mode(statistics), latents, subkey(KEY, sweep))
    assert sum(array.nbytes for array in latents) < 10_000
    assert statistics.totals.sum() == model.n_tokens


# Estimators


def test_a_fit_finds_planted_topics_of_large_counts():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(20, 0.1), 3)
    proportions = rng.dirichlet(np.full(3, 0.3), 40)
    X = rng.poisson(1e6 * proportions @ topics)
    lda = StochasticLDA(3, max_iter=60, random_state=0).fit(X)
    likeness = lda.components_ @ topics.T
    found = lda.components_[likeness.argmax(axis=0)]
    assert np.abs(found - topics).sum(axis=1).max() < 0.1


def learned(**settings):
    """What a small fit of any X learns, as bytes."""

    def fit(X):
        lda = StochasticLDA(4, max_iter=6, random_state=3, **settings).fit(X)
        counts = lda.topic_word_counts_
        arrays = (lda.components_, lda.log_density_trace_, counts.data, counts.indices, counts.indptr)
        return b"".join(array.tobytes() for array in arrays)

    return fit


@pytest.mark.short_cases("settings0")
@pytest.mark.parametrize("settings", [{}, {"n_chains": 2, "n_jobs": 2}])
def test_fits_from_disk_and_on_a_cluster_agree(settings, tmp_path, monkeypatch):
    X, fit = sp.csr_array(large_table()), learned(**settings)
    alone = fit(X)
    with distributed(FakeClient(3)):
        assert fit(X) == alone
    monkeypatch.setattr(StreamedTokens.__init__, "__defaults__", (0, 1))  # a row is a piece
    assert fit(save_corpus(X, tmp_path / "corpus")) == alone
