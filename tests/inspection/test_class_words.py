import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import logit, polygamma, psi
from scipy.stats import beta, norm

from skmanifold.inspection import TopicDisplay, class_words

MEASURES = ("log-odds", "c-tf-idf", "lift")


def simulated(n_samples=60, n_features=40, n_classes=3, mean=40.0, seed=0):
    """Memberships, labels and counts of words whose frequencies differ by factors of a hundred."""
    rng = np.random.default_rng(seed)
    memberships = rng.dirichlet(np.full(n_classes, 0.3), n_samples)
    frequency = 1.0 / np.arange(1, n_features + 1)
    topics = rng.gamma(0.7, size=(n_classes, n_features)) * frequency
    topics /= topics.sum(axis=1, keepdims=True)
    return memberships, memberships.argmax(axis=1), rng.poisson(mean * memberships @ topics)


def parameters(memberships, counts, prior):
    """Slow sums: parameters of the beta distributions of each word in each class, and in all other classes."""
    n_classes, n_features = memberships.shape[1], counts.shape[1]
    of_classes = np.zeros((n_classes, n_features))
    for i, row in enumerate(counts):
        for k in range(n_classes):
            of_classes[k] += memberships[i, k] * row
    background = of_classes.sum(axis=0) / of_classes.sum()
    own = of_classes + prior * background
    others = np.array([sum(own[j] for j in range(n_classes) if j != k) for k in range(n_classes)])
    return of_classes, own, own.sum(axis=1, keepdims=True) - own, others, others.sum(axis=1, keepdims=True) - others


def scale(measure, of_classes):
    frequency = of_classes.sum(axis=0)
    if measure == "lift":
        return 1.0 / (frequency / frequency.sum())
    return np.log(1.0 + frequency.sum() / len(of_classes) / frequency)


@pytest.mark.parametrize("measure", ["c-tf-idf", "lift"])
@pytest.mark.parametrize("prior", [0.5, 30.0])
def test_values_and_intervals_are_quantiles_of_beta_distributions(measure, prior):
    memberships, _, counts = simulated()
    found = class_words(memberships, counts, measure=measure, n_words=40, level=0.8, prior=prior)
    of_classes, a, b, _, _ = parameters(memberships, counts, prior)
    used = np.flatnonzero(of_classes.sum(axis=0))
    for k in range(3):
        low, median, high = (
            scale(measure, of_classes[:, used]) * beta.ppf(q, a[k, used], b[k, used]) for q in (0.1, 0.5, 0.9)
        )
        order = np.argsort(-low, kind="stable")
        assert found.words[k] == used[order].tolist()
        np.testing.assert_allclose(found.values[k], median[order], rtol=1e-9)
        np.testing.assert_allclose(found.low[k], low[order], rtol=1e-9)
        np.testing.assert_allclose(found.high[k], high[order], rtol=1e-9)


def test_the_words_of_log_odds_have_the_largest_z_scores():
    memberships, _, counts = simulated()
    found = class_words(memberships, counts, n_words=40, prior=5.0)
    _, a, b, c, d = parameters(memberships, counts, 5.0)
    used = np.flatnonzero(counts.sum(axis=0))
    variance = sum(polygamma(1, shape) for shape in (a[:, used], b[:, used], c[:, used], d[:, used]))
    z = (psi(a) - psi(b) - psi(c) + psi(d))[:, used] / np.sqrt(variance)
    assert found.measure == "log-odds"
    for k in range(3):
        assert found.words[k] == used[np.argsort(-z[k], kind="stable")].tolist()


@pytest.mark.extended
def test_intervals_of_log_odds_have_their_posterior_probability():
    memberships, _, counts = simulated()
    found = class_words(memberships, counts, n_words=40, prior=60.0)
    _, a, b, c, d = parameters(memberships, counts, 60.0)
    rng, n_draws = np.random.default_rng(1), 100_000
    errors, errors_of_normal = [], []
    for k in range(3):
        for word, low, value, high in zip(found.words[k], found.low[k], found.values[k], found.high[k], strict=True):
            shapes = a[k, word], b[k, word], c[k, word], d[k, word]
            draws = logit(rng.beta(*shapes[:2], n_draws)) - logit(rng.beta(*shapes[2:], n_draws))
            mean = psi(shapes) @ [1, -1, -1, 1]
            half = norm.ppf(0.95) * np.sqrt(polygamma(1, shapes).sum())
            for q, end, wrong in ((0.05, low, mean - half), (0.5, value, mean), (0.95, high, mean + half)):
                standard_error = np.sqrt(q * (1.0 - q) / n_draws)
                errors.append(abs(np.mean(draws < end) - q) / standard_error)
                errors_of_normal.append(abs(np.mean(draws < wrong) - q) / standard_error)
    assert len(errors) == 3 * sum(map(len, found.words))
    assert max(errors) < 5.0
    assert max(errors_of_normal) > 20.0  # rare words: a normal approximation of the whole log odds ratio is wrong


@pytest.mark.parametrize("measure", MEASURES)
def test_containers_indicators_and_the_order_of_rows_do_not_matter(measure):
    memberships, labels, counts = simulated()
    of_labels = class_words(labels, counts, measure=measure)
    assert_equal(of_labels, class_words(np.eye(3)[labels], counts, measure=measure))
    np.testing.assert_array_equal(of_labels.sizes, np.bincount(labels))
    order = np.random.default_rng(2).permutation(len(labels))
    assert_equal(of_labels, class_words(labels[order], counts[order], measure=measure))
    first = class_words(memberships, counts, measure=measure)
    for container in (sp.csr_matrix, sp.csc_array, sp.coo_array, pd.DataFrame):
        assert_equal(first, class_words(memberships, container(counts), measure=measure))
    second = class_words(memberships[order], counts[order], measure=measure)
    assert first.words == second.words
    np.testing.assert_allclose(np.concatenate(first.low), np.concatenate(second.low), rtol=1e-10)


def assert_equal(first, second):
    assert first.words == second.words
    for name in ("classes", "sizes"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    for name in ("values", "low", "high"):
        np.testing.assert_array_equal(np.concatenate(getattr(first, name)), np.concatenate(getattr(second, name)))


@pytest.mark.parametrize("measure", ["c-tf-idf", "lift"])
@pytest.mark.parametrize("n_words", [1, 10, 1500])
def test_no_word_is_missed_among_many(measure, n_words):
    """Only a part of the quantiles is computed if there are more than some hundred words."""
    memberships, _, counts = simulated(n_samples=50, n_features=3000, mean=2000.0)
    counts[:, 0] += 4000  # more than half of the words of a class
    found = class_words(memberships, counts, measure=measure, n_words=n_words, prior=200.0)
    of_classes, a, b, _, _ = parameters(memberships, counts, 200.0)
    used = np.flatnonzero(of_classes.sum(axis=0))
    for k in range(3):
        low = scale(measure, of_classes[:, used]) * beta.ppf(0.05, a[k, used], b[k, used])
        assert found.words[k] == used[np.argsort(-low, kind="stable")[:n_words]].tolist()


def test_class_based_tf_idf_is_that_of_bertopic_for_a_weak_prior():
    counts = np.array([[300, 200, 500], [900, 50, 50]])
    found = class_words([0, 1], counts, measure="c-tf-idf", prior=1e-3)
    for k, row in enumerate(counts):
        expected = row / row.sum() * np.log(1.0 + 1000.0 / counts.sum(axis=0))
        np.testing.assert_allclose(found.values[k], expected[found.words[k]], rtol=0.01)


def test_the_default_prior_is_a_tenth_of_the_mean_number_of_words():
    memberships, labels, counts = simulated()
    assert_equal(class_words(memberships, counts), class_words(memberships, counts, prior=counts.sum() / 30.0))
    one = class_words(labels, counts, measure="lift", prior=1e9, n_words=40)
    np.testing.assert_allclose(np.concatenate(one.values), 1.0, atol=0.01)  # the background


@pytest.mark.parametrize("measure", MEASURES)
def test_outliers_are_left_out_everywhere(measure):
    memberships, labels, counts = simulated()
    out = np.arange(len(labels)) % 4 == 1
    of_labels = class_words(np.where(out, -1, labels), counts, measure=measure)
    assert_equal(of_labels, class_words(labels[~out], counts[~out], measure=measure))
    of_rows = class_words(np.where(out[:, np.newaxis], 0.0, memberships), counts, measure=measure)
    assert_equal(of_rows, class_words(memberships[~out], counts[~out], measure=measure))
    assert not set(np.flatnonzero(out)) & set(np.concatenate(of_labels.typical_rows(60)))


def test_classes_are_the_labels_that_occur():
    _, labels, counts = simulated()
    found = class_words(np.array([2, 7, 10**9])[labels], counts)
    np.testing.assert_array_equal(found.classes, [2, 7, 10**9])
    assert found.words == class_words(labels, counts).words


@pytest.mark.parametrize("measure", MEASURES)
def test_classes_without_words_have_none(measure):
    memberships, _, counts = simulated()
    found = class_words(np.hstack((memberships, np.zeros((60, 1)))), counts, measure=measure)
    without = class_words(memberships, counts, measure=measure)
    assert found.words == [*without.words, []]
    np.testing.assert_array_equal(np.concatenate(found.low), np.concatenate(without.low))
    assert found.sizes[3] == 0.0
    assert len(found.typical_rows(5)[3]) == 0
    assert len(TopicDisplay.from_class_words(found, classes=[3, 0]).axes_) == 2


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("prior", [None, 1e-300, 1e12])
def test_extreme_priors_and_few_words_give_finite_numbers(measure, prior):
    found = class_words([0, 1, 1], [[1, 0, 0], [0, 2, 0], [0, 0, 1e6]], measure=measure, prior=prior)
    assert found.words[0] == [0]
    for name in ("values", "low", "high"):
        assert np.isfinite(np.concatenate(getattr(found, name))).all()


def test_typical_rows_have_the_highest_memberships():
    memberships = np.array([[0.2, 0.8], [0.9, 0.1], [0.2, 0.8], [0.0, 0.0], [1.0, 0.0]])
    found = class_words(memberships, np.ones((5, 2)))
    assert [rows.tolist() for rows in found.typical_rows(2)] == [[4, 1], [0, 2]]
    assert [rows.tolist() for rows in found.typical_rows(9)] == [[4, 1, 0, 2], [0, 2, 1]]
    of_labels = class_words([1, 0, 1, -1, 1], np.ones((5, 2)))
    assert [rows.tolist() for rows in of_labels.typical_rows(2)] == [[1], [0, 2]]
    assert [rows.tolist() for rows in of_labels.typical_rows()] == [[1], [0]]


def test_the_frame_has_a_row_for_each_word(monkeypatch):
    _, labels, counts = simulated()
    found = class_words(labels + 4, counts, [f"word{i}" for i in range(40)], n_words=4)
    frame = found.to_frame()
    assert frame.columns.tolist() == ["class", "word", "value", "low", "high"]
    assert frame["class"].tolist() == [4] * 4 + [5] * 4 + [6] * 4
    assert frame["word"].tolist() == [word for words in found.words for word in words]
    np.testing.assert_array_equal(frame["high"], np.concatenate(found.high))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"ClassWords.to_frame needs pandas: pip install"):
        found.to_frame()


def test_the_display_shows_words_and_intervals():
    _, labels, counts = simulated()
    found = class_words(labels + 1, counts, [f"word{i}" for i in range(40)], n_words=4, level=0.8)
    display = TopicDisplay.from_class_words(found)
    order = np.argsort(-found.sizes, kind="stable")
    np.testing.assert_array_equal(display.topics, order + 1)
    np.testing.assert_allclose(display.shares, found.sizes[order] / 60)
    assert display.words == [found.words[k] for k in order]
    assert display.level == 0.8
    assert len(display.axes_) == 3
    assert display.axes_[0].get_title().startswith(f"cluster {order[0] + 1}, ")
    assert display.axes_[2].get_xlabel() == "log odds ratio, 80% interval"
    np.testing.assert_allclose([bar.get_width() for bar in display.axes_[1].patches], found.values[order[1]])
    one = TopicDisplay.from_class_words(found, classes=2)
    np.testing.assert_array_equal(one.intervals[0], [found.low[1], found.high[1]])
    assert one.figure_._suptitle.get_text() == "1 of 3 clusters"
    for classes in ([0], [], [1, 9], [True, True]):
        with pytest.raises(ValueError, match=r"^classes must be labels from class_words.classes; got "):
            TopicDisplay.from_class_words(found, classes=classes)


COUNTS = np.array([[1, 2, 0], [0, 1, 3]])


@pytest.mark.parametrize(
    ("memberships", "counts", "options", "message"),
    [
        ([0, 1, 1], COUNTS, {}, "memberships has 3 rows, but counts has 2 rows."),
        ([0, 1], -COUNTS, {}, "counts must not be negative; got -3."),
        ([0, 1], COUNTS * np.nan, {}, "Input counts contains NaN."),
        ([0, 1], 0 * COUNTS, {}, "counts has no words in the rows that belong to classes."),
        ([[1.0, np.nan], [0.5, 0.5]], COUNTS, {}, "Input memberships contains NaN."),
        ([[1.5, -0.5], [0.5, 0.5]], COUNTS, {}, "memberships must not be negative; got -0.5."),
        (
            [[1.0, 0.0], [0.5, 0.4]],
            COUNTS,
            {},
            "Rows of memberships must sum to 1, or to 0 for outliers; row 1 has the sum 0.9.",
        ),
        ([0.0, 0.5], COUNTS, {}, "memberships with one dimension must be labels, which are whole numbers; got 0.5."),
        ([0, 1e300], COUNTS, {}, "memberships with one dimension must be labels, which are whole numbers; got 1e+300."),
        ([0, -2], COUNTS, {}, "Labels must be at least -1, which marks outliers; got -2."),
        ([-1, -1], COUNTS, {}, "All rows of memberships are outliers, so there are no classes."),
        (np.zeros((2, 2)), COUNTS, {}, "All rows of memberships are outliers, so there are no classes."),
        ([0, 1], COUNTS, {"feature_names": ["a"]}, "feature_names has 1 names for 3 features."),
        ([0, 1], COUNTS, {"measure": "tf"}, 'measure must be "log-odds", "c-tf-idf" or "lift"; got \'tf\'.'),
        ([0, 1], COUNTS, {"n_words": 0}, "n_words must be a whole number of at least 1; got 0."),
        ([0, 1], COUNTS, {"n_words": 2.5}, "n_words must be a whole number of at least 1; got 2.5."),
        ([0, 1], COUNTS, {"n": 0}, "n must be a whole number of at least 1; got 0."),
        ([0, 1], COUNTS, {"level": 1.0}, "level must be between 0 and 1; got 1.0."),
        ([0, 1], COUNTS, {"prior": 0.0}, "prior must be a positive number of words, or None; got 0.0."),
        (
            [0, 0],
            COUNTS,
            {"measure": "log-odds"},
            'measure="log-odds" needs at least two classes with words and two words with counts.',
        ),
    ],
)
def test_bad_input_is_refused_with_one_sentence(memberships, counts, options, message):
    n = {"n": 1, **options}["n"]
    options = {name: value for name, value in options.items() if name != "n"}
    with pytest.raises(ValueError) as error:  # noqa: PT011
        class_words(memberships, counts, **options).typical_rows(n)
    assert str(error.value) == message


def test_a_page_of_pyldavis_has_the_word_probabilities_and_sizes_of_the_classes():
    pytest.importorskip("pyLDAvis")
    rng = np.random.default_rng(0)
    counts = rng.poisson(3.0, (40, 12)).astype(float)
    labels = rng.integers(0, 3, 40)
    labels[:4] = -1
    counts[7] = 0.0
    found = class_words(labels, counts, prior=5.0)
    names = [f"w{v}" for v in range(12)]
    page = found.to_pyldavis(sp.csr_array(counts), feature_names=names, lambda_step=0.5)
    of_classes = np.array([counts[labels == k].sum(axis=0) for k in range(3)])
    sizes = of_classes.sum(axis=1)
    np.testing.assert_allclose(page.topic_coordinates["Freq"], 100 * sizes / sizes.sum(), rtol=1e-6)
    background = of_classes.sum(axis=0) / sizes.sum()
    probabilities = (of_classes + 5.0 * background) / (sizes[:, None] + 5.0)
    rows = page.topic_info[page.topic_info["Category"] == "Topic2"].set_index("Term")
    expected = np.log([probabilities[1, names.index(word)] for word in rows.index])
    np.testing.assert_allclose(rows["logprob"], expected, atol=1e-3)
    soft = class_words(np.eye(3)[np.maximum(labels, 0)] * (labels >= 0)[:, None], counts, prior=5.0)
    again = soft.to_pyldavis(counts, feature_names=names, lambda_step=0.5)
    np.testing.assert_allclose(again.topic_coordinates["Freq"], page.topic_coordinates["Freq"])
    with pytest.raises(ValueError, match="memberships has 40 rows, but counts has 39"):
        found.to_pyldavis(counts[1:])
