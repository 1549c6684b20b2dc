"""`HDPAdmixture` in shards: the same bytes as in one piece, from memory, files and corpora, whatever dies."""

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold import HDPAdmixture, StochasticLDA, distributed
from skmanifold.admixture._hdp.two_sides import Union
from skmanifold.datasets import make_lda_corpus, save_corpus

from ._fake_cluster import FakeClient, dies
from ._interrupted import cut_short
from .test_family_shards import stored

X = make_lda_corpus(90, 60, 4, mean_length=40, random_state=0).data
CUTS = (0, 20, 47, 90)
pytestmark = pytest.mark.usefixtures("impatient")


def hdp(**settings):
    return HDPAdmixture(**{"init": 12, "max_iter": 40, "n_split_merge": 8, "random_state": 0, **settings})


def learned(fitted):
    names = ("components_", "topic_ids_", "topic_weights_", "concentration_", "topic_concentration_")
    arrays = [fitted.log_density_trace_, *(getattr(fitted, name) for name in names), *fitted.posterior_.values()]
    return [np.asarray(array).tobytes() for array in arrays] + [fitted.transform(X).tobytes()]


EXPECTED = {}


def expected(**settings):
    key = repr(settings)
    if key not in EXPECTED:
        EXPECTED[key] = learned(hdp(**settings).fit(X))
    return EXPECTED[key]


@pytest.mark.short_cases("two chains")
@pytest.mark.parametrize(
    "settings",
    [{}, {"n_chains": 2, "n_jobs": 2}, {"concentration": 2.0, "topic_word_prior": np.full(60, 0.2)}],
    ids=["one chain", "two chains", "given concentration"],
)
def test_the_same_bytes_on_workers_of_which_one_dies(settings, tmp_path):
    client = dies("ask_latents", 400)
    with distributed(client, checkpoint_dir=tmp_path, checkpoint_every=7):
        assert learned(hdp(**settings).fit(X)) == expected(**settings)
    assert sum(asked == "shape" for _, asked in client.log) > 3


def test_the_same_bytes_from_files_and_corpora(tmp_path):
    for rows in (stored(X, tmp_path / "files", CUTS), save_corpus(X, tmp_path / "corpus")):
        assert learned(hdp().fit(rows)) == expected()
        with distributed(FakeClient(3)):
            assert learned(hdp().fit(rows)) == expected()


def test_a_fit_starts_from_other_topics_in_shards():
    lda = StochasticLDA(5, max_iter=10, random_state=0).fit(X)
    alone = learned(hdp(init=lda).fit(X))
    with distributed(FakeClient(2)):
        assert learned(hdp(init=lda).fit(X)) == alone


@pytest.mark.parametrize("n_workers", [0, 2])
def test_fit_goes_on_from_its_checkpoint(n_workers, tmp_path):
    settings = {"max_iter": 8, "n_chains": 2}  # `cut_short` interrupts pass 8
    cut_short(hdp(**settings), X, FakeClient(3), tmp_path)
    client = FakeClient(n_workers) if n_workers else None
    with distributed(client, checkpoint_dir=tmp_path, checkpoint_every=3):
        assert learned(hdp(**settings).fit(X)) == expected(**settings)
    if client:
        assert "begin_chain" not in {asked for _, asked in client.log}


def test_checkpoint_of_other_documents_is_refused(tmp_path):
    cut_short(hdp(max_iter=8), X, None, tmp_path)
    others = sp.vstack([X[1:], X[:1]], format="csr")
    with distributed(FakeClient(2), checkpoint_dir=tmp_path), pytest.raises(ValueError, match="the data differ"):
        hdp(max_iter=8).fit(others)


def test_corpora_that_do_not_fit_are_one_sentence(tmp_path):
    corpus = save_corpus(X, tmp_path / "corpus")
    lda = StochasticLDA(2, max_iter=2).fit(X[:, :30])
    client = FakeClient(2)
    with distributed(client):
        with pytest.raises(ValueError, match="init has topics of 30 words, but X has 60 columns"):
            hdp(init=lda).fit(corpus)
        with pytest.raises(ValueError, match=r"topic_word_prior must be a number or have shape \(60,\)"):
            hdp(topic_word_prior=np.ones(3)).fit(corpus)
        with pytest.raises(ValueError, match="X has no tokens"):
            hdp().fit(save_corpus(0 * X, tmp_path / "empty"))


class TwoShards:
    """Two shards with four and three tokens of the topics, which record what they are asked."""

    def __init__(self):
        self.assigned = []

    def ask_latents(self, method, chain, *arguments):
        if method == "assign":
            self.assigned.append([(tokens.tolist(), topic) for tokens, topic in arguments])
            return None
        parts = ([0, 3, 4, 7], [0, 0, 1, 1], [5, 5, 6, 2]), ([1, 2, 5], [2, 3, 3], [5, 1, 1])
        return [(*map(np.array, part), np.arange(len(part[0])) % 2) for part in parts]


def test_tokens_are_moved_in_the_shard_that_has_them():
    shards = TwoShards()
    union = Union(shards, 0, 1, 2)
    assert union.tokens.rows.tolist() == [0, 0, 1, 1, 2, 3, 3]
    assert union.of_other.tolist() == [0, 1, 0, 1, 0, 1, 0]
    union.assign(union.of_other == 1, 8)
    union.assign(None, 1)
    assert shards.assigned == [[([3, 7], 8), ([2], 8)], [([0, 3, 4, 7], 1), ([1, 2, 5], 1)]]
