"""Seed words: they stay in their topics, in all fits, and bad ones are refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skmanifold import StochasticLDA, load
from skmanifold.admixture._tokens.topic_counts import Seeds, TopicPrior
from skmanifold.datasets import make_lda_corpus, open_corpus, save_corpus

WORDS = [f"w{v}" for v in range(60)]
SAMPLERS = ("esca", "gibbs", "collapsed_gibbs", "cvb0")
SHORT = {"n_components": 6, "max_iter": 20, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    """300 documents from six topics, and two frequent words for each of the topics 4 and 1."""
    made = make_lda_corpus(300, 60, 6, mean_length=60, topic_word_prior=0.1, zipf_exponent=0.0, random_state=2)
    phi = made.components
    lead = phi - np.sort(phi, axis=0)[-2]
    return made.data, {"four": np.argsort(lead[4])[-2:].tolist(), "one": np.argsort(lead[1])[-2:].tolist()}, phi


def share_at_home(lda, seeds):
    """Share of the tokens of seed words that are in their topics."""
    counts = lda.topic_word_counts_.toarray()
    home = sum(counts[topic, columns].sum() for topic, columns in enumerate(seeds.values()))
    return home / sum(counts[:, columns].sum() for columns in seeds.values())


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_all_tokens_of_seed_words_stay_in_their_topics(sampler, data):
    X, seeds, phi = data
    lda = StochasticLDA(sampler=sampler, seed_words=seeds, **SHORT).fit(X)
    assert share_at_home(lda, seeds) == pytest.approx(1.0, abs=1e-9)
    found = [int(np.argmax(phi @ lda.components_[topic])) for topic in (0, 1)]
    assert found == [4, 1]
    pseudo_counts = np.full((6, 60), 0.1)
    for topic, columns in enumerate(seeds.values()):
        pseudo_counts[topic, columns] = np.asarray(X.sum(axis=0)).ravel()[columns]
    only_larger = StochasticLDA(sampler=sampler, topic_word_prior=pseudo_counts, **SHORT).fit(X)
    assert share_at_home(only_larger, seeds) < 0.999


@pytest.mark.parametrize("sampler", ["esca", "cvb0"])
def test_words_of_one_true_topic_stay_in_different_topics(sampler, data):
    """Responsibilities of "cvb0" would grow from the prior of other topics by a factor in each pass."""
    X, seeds, _ = data
    apart = {"first": seeds["four"][:1], "second": seeds["four"][1:], "third": seeds["one"]}
    lda = StochasticLDA(sampler=sampler, seed_words=apart, **{**SHORT, "max_iter": 300}).fit(X)
    assert share_at_home(lda, apart) == pytest.approx(1.0, abs=1e-9)


def test_the_small_prior_alone_does_not_hold_seed_words(data):
    X, seeds, _ = data
    listed = Seeds(np.concatenate(list(seeds.values())), np.repeat([0, 1], 2))
    prior = listed.restrict(np.float64(0.1), 6, 60)
    lda = StochasticLDA(topic_word_prior=prior, **SHORT).fit(X)
    assert share_at_home(lda, seeds) < 0.9


@pytest.mark.parametrize("batch", ["fit", "partial_fit"])
def test_minibatch_samplers_give_other_topics_no_seed_words(batch, data):
    X, seeds, _ = data
    lda = StochasticLDA(sampler="scir", seed_words=seeds, total_samples=300, thin=1, **SHORT)
    for _ in range(3):
        getattr(lda, batch)(X)
    others = np.delete(lda.components_[:, seeds["four"]], 0, axis=0)
    assert others.max() < 1e-12
    assert lda.components_[0, seeds["four"]].min() > 0.01


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        (0.3, 0.3),
        (np.linspace(0.1, 0.5, 60), 0.5),
        (np.array([[0.7]] + [[0.2]] * 5), 0.7),
        (np.linspace(9.0, 1.0, 360).reshape(6, 60), np.linspace(9.0, 1.0, 360)[59]),
    ],
    ids=["number", "per word", "per topic", "matrix"],
)
def test_the_prior_is_that_given_except_for_seed_words_in_other_topics(prior, expected, data):
    X = data[0]
    lda = StochasticLDA(seed_words=[[59], [3]], topic_word_prior=prior, **SHORT).fit(X)
    full = np.array(np.broadcast_to(prior, (6, 60)))
    full[1:, 59] = full[[0, 2, 3, 4, 5], 3] = 1e-20
    np.testing.assert_array_equal(lda.topic_word_prior_, full)
    assert lda.topic_word_prior_[0, 59] == expected
    smoothed = TopicPrior(full, 6, 60).smooth(lda._topic_counts).toarray()
    np.testing.assert_array_equal(lda.components_, smoothed)


def test_fits_without_seed_words_do_not_change(data):
    X = data[0]
    fits = [StochasticLDA(seed_words=seeds, **SHORT).fit(X) for seeds in (None, {})]
    np.testing.assert_array_equal(fits[0].components_, fits[1].components_)
    assert fits[0].topic_word_prior_ == 0.1


def test_words_are_names_of_columns_or_indices(data):
    X, seeds, _ = data
    frame = pd.DataFrame(X.toarray(), columns=WORDS)
    named = {name: [WORDS[column] for column in columns] for name, columns in seeds.items()}
    fits = [
        StochasticLDA(seed_words=given, **SHORT).fit(frame)
        for given in (seeds, named, list(named.values()), {name: np.array(words) for name, words in named.items()})
    ]
    for lda in fits[1:]:
        np.testing.assert_array_equal(lda.components_, fits[0].components_)


def test_named_topics_are_shown(data):
    X, seeds, _ = data
    frame = StochasticLDA(seed_words=seeds, **SHORT).fit(X).topics_as_frame(n_words=2)
    assert frame.columns[:2].tolist() == ["topic", "name"]
    assert dict(zip(frame["topic"], frame["name"], strict=True)) == {0: "four", 1: "one", 2: "", 3: "", 4: "", 5: ""}
    unnamed = StochasticLDA(seed_words=list(seeds.values()), **SHORT).fit(X).topics_as_frame(n_words=2)
    assert "name" not in unnamed


def test_a_stream_keeps_the_seed_words_of_its_first_minibatch(data, tmp_path):
    X, seeds, _ = data
    named = {name: [WORDS[column] for column in columns] for name, columns in seeds.items()}
    lda = StochasticLDA(seed_words=named, total_samples=300, **SHORT)
    lda.partial_fit(pd.DataFrame(X.toarray(), columns=WORDS))
    lda.save(tmp_path / "stream.skm")
    again = load(tmp_path / "stream.skm")
    for other in (lda, again):
        for rows in (X[:100], X[100:]):
            with pytest.warns(UserWarning, match="feature names"):
                other.partial_fit(rows)
        assert share_at_home(other, seeds) == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_array_equal(again.components_, lda.components_)
    assert again.seed_words == named


def test_seed_words_that_occur_later_in_a_stream_have_their_topic(data):
    X, seeds, _ = data
    first = X.toarray()
    first[:, seeds["four"]] = 0
    for sampler in ("esca", "scir"):
        lda = StochasticLDA(sampler=sampler, seed_words=seeds, total_samples=300, thin=1, **SHORT).partial_fit(first)
        for _ in range(5):
            lda.partial_fit(X)
        others = np.delete(lda.components_[:, seeds["four"]], 0, axis=0)
        assert others.max() < 1e-12 < 0.001 < lda.components_[0, seeds["four"]].min()


def test_a_new_fit_forgets_seed_words(data):
    X, seeds, _ = data
    lda = StochasticLDA(seed_words=seeds, **SHORT).fit(X)
    assert clone(lda).get_params()["seed_words"] == seeds
    lda.set_params(seed_words=None).fit(X)
    np.testing.assert_array_equal(lda.components_, StochasticLDA(**SHORT).fit(X).components_)


def test_stored_documents_have_the_same_fit_and_a_vocabulary(data, tmp_path):
    X, seeds, _ = data
    save_corpus(X, tmp_path / "stored", vocabulary=WORDS)
    named = {name: [WORDS[column] for column in columns] for name, columns in seeds.items()}
    stored = StochasticLDA(seed_words=named, **SHORT).fit(open_corpus(tmp_path / "stored"))
    np.testing.assert_array_equal(stored.components_, StochasticLDA(seed_words=seeds, **SHORT).fit(X).components_)


def test_large_counts_of_seed_words_stay_too(data):
    X, seeds, _ = data
    X = X.toarray()
    X[0, seeds["four"][0]] = 50_000  # drawn as one cell
    lda = StochasticLDA(seed_words=seeds, **SHORT).fit(X)
    assert share_at_home(lda, seeds) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(
    ("seeds", "error", "message"),
    [
        (
            [["w1"]],
            ValueError,
            r"^seed_words has the word 'w1', but the columns of X have no names: give column indices",
        ),
        ([[1], [2, 1]], ValueError, r"^seed_words has 1 in two topics, 0 and 1\.$"),
        ({"a": [1], "b": [1]}, ValueError, r"^seed_words has 1 in two topics, 'a' and 'b'\.$"),
        ([[1], [2], [3], [4]], ValueError, r"^seed_words has 4 topics, but n_components=3\.$"),
        ({"a": []}, ValueError, r"^seed_words has no words for topic 'a'\.$"),
        ([[60]], ValueError, r"^seed_words has the column index 60, but X has 60 columns\.$"),
        ([[-1]], ValueError, r"^seed_words has the column index -1, but X has 60 columns\.$"),
        ({"a": "w1"}, TypeError, r"^seed_words must have a list of words for each topic; topic 'a' has 'w1'\.$"),
        ([1, 2], TypeError, r"^seed_words must have a list of words for each topic; topic 0 has 1\.$"),
        ([[1.5]], TypeError, r"^seed_words must have words or column indices; topic 0 has 1\.5\.$"),
        ([[True]], TypeError, r"^seed_words must have words or column indices; topic 0 has True\.$"),
        ({0: [1]}, TypeError, r"^The keys of seed_words must be names of topics, which are strings; got 0\.$"),
        ("w1", ValueError, "'seed_words' parameter"),
        (3, ValueError, "'seed_words' parameter"),
    ],
)
def test_bad_seed_words_are_refused(seeds, error, message, data):
    for method in ("fit", "partial_fit"):
        with pytest.raises(error, match=message):
            getattr(StochasticLDA(3, seed_words=seeds), method)(data[0])


def test_words_that_are_not_in_the_vocabulary_are_refused(data, tmp_path):
    save_corpus(data[0], tmp_path / "stored", vocabulary=WORDS)
    for X in (pd.DataFrame(data[0].toarray(), columns=WORDS), open_corpus(tmp_path / "stored")):
        with pytest.raises(
            ValueError, match=r"^seed_words has words that are not names of columns of X: 'nasa', 'esa'\.$"
        ):
            StochasticLDA(3, seed_words=[["nasa", "w1"], ["esa"]]).fit(X)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"topic_word_prior": "auto"},
            r"^topic_word_prior='auto' cannot be combined with seed_words: give a number\.$",
        ),
        ({"sampler": "sgrld"}, r"^seed_words need a sampler that keeps them in their topics: .* not SGRLD\.$"),
        (
            {"sampler": "svb"},
            r"^seed_words need a sampler that keeps them in their topics: .* not StochasticMeanField\.$",
        ),
    ],
)
def test_settings_without_seed_words(settings, message, data):
    with pytest.raises(ValueError, match=message):
        StochasticLDA(3, seed_words=[[1]], **settings).fit(data[0])


def test_a_word_may_be_repeated_in_its_list(data):
    fits = [StochasticLDA(3, max_iter=4, seed_words=words, random_state=0).fit(data[0]) for words in ([[1, 1]], [[1]])]
    np.testing.assert_array_equal(fits[0].components_, fits[1].components_)


@pytest.mark.parametrize("sampler", ["esca", "scir"])
def test_words_that_do_not_occur_give_one_warning(sampler, data):
    X = data[0].toarray()
    X[:, [7, 9]] = 0
    frame = pd.DataFrame(X, columns=WORDS)
    lda = StochasticLDA(3, sampler=sampler, max_iter=2, random_state=0)
    absent = r"^seed_words has words that do not occur in X and have no effect: "
    with pytest.warns(UserWarning, match=absent + r"'w7', 'w9'; no seed words are left for topic 'space'\.$") as caught:
        lda.set_params(seed_words={"sport": ["w1", "w7"], "space": ["w9", "w9"]}).fit(frame)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(UserWarning, match=absent + r"7\.$"):
        lda.set_params(seed_words=[[1, 7], [2]]).fit(X)


def test_words_that_do_not_occur_in_a_stored_corpus_give_a_warning(data, tmp_path):
    X = data[0].toarray()
    X[:, 7] = 0
    save_corpus(X, tmp_path / "stored", vocabulary=WORDS)
    with pytest.warns(UserWarning, match=r"and have no effect: 'w7'; no seed words are left for topic 0\.$"):
        StochasticLDA(3, max_iter=2, seed_words=[["w7"]], random_state=0).fit(open_corpus(tmp_path / "stored"))


def test_a_minibatch_may_lack_seed_words(data):
    StochasticLDA(3, seed_words=[[7]], random_state=0).partial_fit(data[0].toarray() * (np.arange(60) != 7))
