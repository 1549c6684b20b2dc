"""Rows of tokens on disk: the same bytes as in memory, a piece at a time, and no files left behind."""

import errno
import gc
import tracemalloc
from functools import partial

import numpy as np
import pytest

from skmanifold import StochasticLDA, distributed
from skmanifold.admixture._lda.model import LDAModel
from skmanifold.admixture._tokens import shards as out_of_core
from skmanifold.admixture._tokens.compact_counts import PackedTopics, pack_travelling, unpack_travelling
from skmanifold.admixture._tokens.shards import StorableTokens, StreamedTokens
from skmanifold.admixture._tokens.topic_counts import TopicCounts, TopicPrior
from skmanifold.datasets import Corpus, make_lda_corpus, save_corpus
from skmanifold.inference._distributed_fits.sources import CorpusRange
from skmanifold.models import IncompatibleError
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.topics.topic_word import TopicWord
from skmanifold.utils._threads import Workers

from .._corpora import learned

K = 4
X = make_lda_corpus(80, 50, K, mean_length=25, random_state=0).data
ALPHA = np.full(K, 0.3)
MAKE = partial(StorableTokens, doc_topic_prior=ALPHA)
PRIOR = TopicPrior(0.1, K, X.shape[1])
KEY = np.uint64(7)
N_TOKENS = int(X.sum())


@pytest.fixture
def corpus(tmp_path):
    return save_corpus(X, tmp_path / "corpus")


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """Where temporary files go."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(out_of_core, "scratch_folder", lambda: folder)
    return folder


def lda(**settings):
    return StochasticLDA(K, **{"max_iter": 6, "thin": 2, "random_state": 1, **settings})


def passes(model, n_passes, method="sample_latents"):
    """Statistics and log likelihoods of a few passes, as bytes."""
    head = LDAModel(whole_counts(canonical_csr(X[:0]), KEY), ALPHA, PRIOR, Workers(1))
    latents, statistics = model.init_latents(KEY)
    told = []
    for i in range(n_passes):
        latents, statistics, log_likelihood = getattr(model, method)(head.mode(statistics), latents, np.uint64(i))
        told.append([log_likelihood, *(array.tobytes() for array in statistics)])
    return latents, told


def in_memory(rows=X):
    return StorableTokens(whole_counts(canonical_csr(rows), KEY), ALPHA, Workers(1))


def streamed_tokens(ranges, workers, piece_tokens):
    model = StreamedTokens(ranges, MAKE, workers)
    model.piece_tokens = piece_tokens
    return model


@pytest.mark.covering
@pytest.mark.parametrize("piece_tokens", [1, 60, 700, 10**9])
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("method", ["sample_latents", "sample_given_others"])
def test_size_of_pieces_changes_no_byte(piece_tokens, n_threads, method, corpus):
    with Workers(n_threads) as workers:
        ranges = [CorpusRange(corpus, 0, 33), CorpusRange(corpus, 33, 80)]
        streamed = streamed_tokens(ranges, workers, piece_tokens)
        latents, told = passes(streamed, 3, method)
        in_core = in_memory()
        latents_here, told_here = passes(in_core, 3, method)
        assert told == told_here
        (whole,) = in_core.pack_latents(latents_here)
        stored = list(streamed.pack_latents(latents))
    assert streamed.n_tokens == in_core.n_tokens == N_TOKENS
    assert np.concatenate([part.values for part in stored]).tobytes() == whole.values.tobytes()
    assert [part.first_row for part in stored] == sorted({part.first_row for part in stored})


def test_fits_from_disk_and_from_memory_agree(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(out_of_core.StreamedTokens.__init__, "__defaults__", (0, 100))
    parts = [save_corpus(X[:10], tmp_path / "a"), save_corpus(X[10:], tmp_path / "b")]
    for settings in ({}, {"n_chains": 2, "n_jobs": 2}):
        alone = learned(lda(**settings).fit(X))
        assert learned(lda(**settings).fit(corpus)) == alone
        assert learned(lda(**settings).fit(parts)) == alone
        with distributed(None):
            assert learned(lda(**settings).fit(corpus)) == alone


@pytest.mark.long
def test_one_piece_is_in_memory_at_a_time(tmp_path):
    many = make_lda_corpus(6000, 300, K, mean_length=60, random_state=0).data
    corpus = save_corpus(many, tmp_path / "corpus")
    head = LDAModel(whole_counts(canonical_csr(many[:0]), KEY), ALPHA, TopicPrior(0.1, K, 300), Workers(1))

    def most(piece_tokens):
        model = streamed_tokens([CorpusRange(corpus, 0, 6000)], Workers(1), piece_tokens)
        latents, statistics = model.init_latents(KEY)
        gc.collect()
        tracemalloc.start()
        try:
            model.sample_latents(head.mode(statistics), latents, KEY)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    most(10**9)  # compiles
    whole = most(10**9)
    assert most(many.sum() // 20) < whole / 8


def test_pieces_are_read_one_after_the_other(corpus, monkeypatch):
    read = []
    counts = Corpus.counts
    monkeypatch.setattr(Corpus, "counts", lambda self, *piece: read.append(piece) or counts(self, *piece))
    model = streamed_tokens([CorpusRange(corpus, 5, 80)], Workers(1), 300)
    passes(model, 2)
    one_pass = read[: len(read) // 3]
    assert read == one_pass * 3
    assert len(one_pass) > 4
    assert [start for start, _ in one_pass] == [5, *(stop for _, stop in one_pass[:-1])]
    assert one_pass[-1][1] == 80
    assert all(X[start:stop].sum() < 300 + X.sum(axis=1).max() for start, stop in one_pass)


def test_temporary_files_go_with_the_fit(corpus, scratch):
    fitted = lda(n_chains=2).fit(corpus)
    assert not list(scratch.iterdir())
    model = StreamedTokens([CorpusRange(corpus, 0, 80)], MAKE, Workers(1))
    latents, _ = model.init_latents(KEY)
    assert len(list(scratch.rglob("*.npy"))) == 2
    del latents, model
    gc.collect()
    assert not list(scratch.iterdir())
    assert fitted.n_iter_ == 6


@pytest.mark.long
def test_temporary_files_go_after_an_error(corpus, scratch, monkeypatch):
    sample = StreamedTokens.sample_given_others

    def fail(self, *arguments):
        sample(self, *arguments)
        assert list(scratch.rglob("*.npy"))
        raise ZeroDivisionError

    monkeypatch.setattr(StreamedTokens, "sample_given_others", fail)
    with pytest.raises(ZeroDivisionError):
        lda().fit(corpus)
    gc.collect()  # of the traceback's frames
    assert not list(scratch.iterdir())


def test_full_disk_is_told_with_its_folder(corpus, scratch, monkeypatch):
    def full(path, array):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(
        OSError, match=r"The topics of the documents could not be written to .*scratch.*No space"
    ) as told:
        lda().fit(corpus)
    assert told.value.errno == errno.ENOSPC


def test_writing_that_stops_short_has_an_error_number_too(corpus, scratch, monkeypatch):
    def short(path, array):
        raise OSError("100 requested and 30 written")  # as numpy says it

    monkeypatch.setattr(np, "save", short)
    with pytest.raises(OSError, match=r"could not be written to .*\(100 requested and 30 written\)") as told:
        lda().fit(corpus)
    assert told.value.errno == errno.EIO


def test_latents_of_other_documents_are_not_read(corpus):
    latents, _ = passes(in_memory(), 1)
    (whole,) = in_memory().pack_latents(latents)
    for other in (X[::-1], X[:, ::-1][::-1], (X > 0).astype(int)):
        with pytest.raises(ValueError, match="do not belong to these rows"):
            in_memory(other).unpack_latents(lambda start, stop: whole)
    many = whole._replace(values=whole.values | np.uint32(0xFF))
    with pytest.raises(ValueError, match="do not belong to these rows"):
        in_memory().unpack_latents(lambda start, stop: many)


def counts_of(large):
    indptr = np.array([0, 2, 2, 5], np.int64)
    values = np.array([1, 254, 255, large, 3])
    return TopicCounts(indptr, np.array([1, 0, 3, 2, 0], np.uint16), values, np.array([257, 1, large, 255]))


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_counts_travel_without_loss(kind):
    counts = counts_of(1_000_000)._replace(counts=counts_of(1_000_000).counts.astype(kind))
    back = unpack_travelling(pack_travelling(counts))
    for there, here in zip(back, counts, strict=True):
        assert there.dtype == here.dtype
        assert there.tobytes() == here.tobytes()


@pytest.mark.parametrize("large", [256, 70_000, 16_777_216, 20_000_001])
def test_topics_travel_as_their_counts_without_loss(large):
    topics = TopicPrior(0.1, K, 3).smooth(counts_of(large))
    packed = pack_travelling(topics)
    if large <= 1 << 24:  # beyond, neighbours may have the same weight
        assert isinstance(packed, PackedTopics)
    back = unpack_travelling(packed)
    assert isinstance(back, TopicWord)
    for there, here in zip(back, topics, strict=True):
        assert there.dtype == here.dtype
        assert there.tobytes() == here.tobytes()


def test_topics_that_are_not_counts_travel_as_they_are():
    seeded = TopicPrior(np.linspace(0.1, 0.9, K * 3).reshape(K, 3), K, 3).smooth(counts_of(300))
    assert pack_travelling(seeded) is seeded
    assert unpack_travelling(seeded) is seeded
    mean = counts_of(300)._replace(counts=np.linspace(0, 1, 5, dtype=np.float32))
    assert pack_travelling(mean) is mean
    assert unpack_travelling(None) is None


def test_seeded_priors_fit_from_disk_too(corpus):
    beta = np.full((K, 50), 0.1)
    beta[0, :3] = 2.5
    assert learned(lda(topic_word_prior=beta).fit(corpus)) == learned(lda(topic_word_prior=beta).fit(X))


def test_gibbs_needs_documents_in_memory(corpus, monkeypatch):
    monkeypatch.setattr(Corpus, "counts", lambda *arguments: pytest.fail("documents were read"))
    with pytest.raises(IncompatibleError, match=r"Gibbs needs documents in memory .*: only 'esca' can read"):
        lda(sampler="gibbs").fit(corpus)
