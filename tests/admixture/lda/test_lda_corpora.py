"""Inference about documents on disk: block by block, with the bytes of the same documents in memory."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold import HeldOutMonitor, StochasticLDA
from skmanifold.datasets import make_lda_corpus, open_corpus, save_corpus
from skmanifold.inference._distributed_fits import sources as _corpus_blocks
from skmanifold.metrics import document_completion

from .._corpora import small_corpus


@pytest.fixture(params=["one", "several"])
def stored(request, tmp_path, monkeypatch):
    """The small corpus on disk, one or a list of three, to be read in many blocks."""
    monkeypatch.setattr(_corpus_blocks, "_TOKENS_AT_ONCE", 200)
    X = small_corpus()
    cuts = [0, 60] if request.param == "one" else [0, 2, 3, 60]
    parts = []
    for start, stop in pairwise(cuts):
        save_corpus(X[start:stop], tmp_path / f"part{start}")
        parts.append(open_corpus(tmp_path / f"part{start}"))
    return parts[0] if len(parts) == 1 else parts


@pytest.fixture(scope="module", params=["esca", "gibbs", "scir"])
def fitted(request):
    return StochasticLDA(3, sampler=request.param, max_iter=6, thin=1, random_state=0).fit(small_corpus())


def test_inference_about_stored_documents_has_the_bytes_of_those_in_memory(fitted, stored):
    X = small_corpus()
    np.testing.assert_array_equal(fitted.transform(stored), fitted.transform(X))
    np.testing.assert_array_equal(fitted.predict(stored), fitted.predict(X))
    np.testing.assert_array_equal(fitted.score_samples(stored), fitted.score_samples(X))
    np.testing.assert_array_equal(fitted.transform(stored, average_draws=True), fitted.transform(X, average_draws=True))
    assert fitted.score(stored) == fitted.score(X)
    assert fitted.perplexity(stored) == fitted.perplexity(X)
    topics, prior = fitted.components_, fitted.doc_topic_prior_
    assert (
        document_completion(topics, stored, prior).log_likelihood
        == document_completion(topics, X, prior).log_likelihood
    )


def test_fit_transform_of_stored_documents(stored):
    lda = StochasticLDA(3, max_iter=4, random_state=0)
    found = lda.fit_transform(stored)
    np.testing.assert_array_equal(found, lda.transform(small_corpus()))
    lda.set_output(transform="pandas")
    assert lda.transform(stored).shape == (60, 3)


@pytest.mark.parametrize("sampler", ["esca", "scir"])
def test_a_stream_of_stored_documents_has_the_bytes_of_one_in_memory(sampler, stored):
    streams = [StochasticLDA(3, sampler=sampler, thin=1, total_samples=500, random_state=0) for _ in range(2)]
    for X, stream in zip((small_corpus(), stored), streams, strict=True):
        for _ in range(3):
            stream.partial_fit(X)
    np.testing.assert_array_equal(streams[1].components_, streams[0].components_)
    assert streams[1].n_features_in_ == 40


def test_stored_documents_are_read_in_blocks(fitted, stored, monkeypatch):
    sizes = []
    kinds = {type(part) for part in (stored if isinstance(stored, list) else [stored])}
    (kind,) = kinds
    read = kind.counts
    monkeypatch.setattr(kind, "counts", lambda self, start, stop: sizes.append(stop - start) or read(self, start, stop))
    fitted.transform(stored)
    fitted.score(stored)
    assert max(sizes) < 15
    assert sum(sizes) == 2 * 60


def test_a_fit_is_monitored_on_stored_documents(stored):
    first = stored[-1] if isinstance(stored, list) else stored
    monitor = HeldOutMonitor(first, every=2)
    lda = StochasticLDA(3, max_iter=6, burn_in=1, thin=1, random_state=0).set_callbacks(monitor).fit(small_corpus())
    assert [row["score"] for row in monitor.get_logs().data][-1] == lda.score(first)


def test_stored_documents_that_do_not_fit_are_refused(fitted, tmp_path):
    save_corpus(make_lda_corpus(5, 41, 2, random_state=0).data, tmp_path / "wide")
    save_corpus(sp.csr_array((0, 40), dtype=np.int32), tmp_path / "empty")
    wide, empty = open_corpus(tmp_path / "wide"), open_corpus(tmp_path / "empty")
    for method in (fitted.transform, fitted.predict, fitted.score, fitted.score_samples, fitted.perplexity):
        with pytest.raises(ValueError, match=r"^X is a corpus of 41 columns, but 40 are expected\.$"):
            method(wide)
        with pytest.raises(ValueError, match=r"^X is an empty corpus, but at least one document is needed\.$"):
            method(empty)
    stream = StochasticLDA(3, random_state=0).partial_fit(small_corpus())
    with pytest.raises(ValueError, match="41 columns"):
        stream.partial_fit(wide)
