import numpy as np
import pytest

from skmanifold import StochasticLDA
from skmanifold.inspection import TopicDisplay

from . import _fitted as fitted


def test_words_values_and_intervals_are_those_of_the_estimator():
    lda = fitted.lda()
    names = np.array([f"word{i}" for i in range(20)])
    display = TopicDisplay.from_estimator(lda, feature_names=names, n_words=5, topics=[2, 0], level=0.8)
    low, high = lda.credible_intervals(0.8)
    for place, topic in enumerate([2, 0]):
        top = np.argsort(-lda.components_[topic])[:5]
        assert display.words[place] == names[top].tolist()
        np.testing.assert_array_equal(display.values[place], lda.components_[topic, top])
        np.testing.assert_array_equal(display.intervals[place], [low[topic, top], high[topic, top]])
    assert display.level == 0.8
    np.testing.assert_array_equal(display.topics, [2, 0])
    np.testing.assert_allclose(display.shares, lda.posterior_["topic_weights"][lda.best_chain_].mean(axis=0)[[2, 0]])
    np.testing.assert_array_equal(display.is_stable, lda.topic_diagnostics().is_stable[[2, 0]])


def test_bars_and_titles_are_drawn_from_the_top():
    lda = fitted.lda()
    display = TopicDisplay.from_estimator(lda, n_words=4)
    assert len(display.axes_) == 3
    place = display.topics.tolist().index(1)
    panel = display.axes_[place]
    assert panel.figure is display.figure_
    lengths = [bar.get_width() for bar in panel.patches]
    np.testing.assert_allclose(lengths, np.sort(lda.components_[1])[::-1][:4])
    assert [label.get_text() for label in panel.get_yticklabels()] == display.words[place]
    assert panel.get_ylim()[0] > panel.get_ylim()[1]
    assert panel.get_title().startswith("topic 1, ")
    assert display.axes_[0].get_xlabel() == "probability, 90% interval"


def test_topics_with_signs_have_words_for_and_against_in_two_colours():
    model = fitted.spherical(6)
    display = TopicDisplay.from_estimator(model, n_words=2)
    words = model.topic_words(2)
    means = model.components_ * model.resultant_lengths_[:, np.newaxis]
    for topic, (shown, values) in enumerate(zip(display.words, display.values, strict=True)):
        assert shown == [str(name) for name, _ in [*words[topic].positive, *words[topic].negative[::-1]]]
        np.testing.assert_array_equal(values, means[topic, [int(name) for name in shown]])
        colors = {(bar.get_width() > 0, bar.get_facecolor()) for bar in display.axes_[topic].patches}
        assert len(colors) == 2
    assert display.intervals is not None


def test_an_inferred_number_of_topics_has_intervals_and_shares():
    model = fitted.orthogonal()
    n_draws = int((model.posterior_["n_components"][0] == model.n_components_).sum())
    assert n_draws < 19
    with pytest.warns(UserWarning, match=rf"from {n_draws} draws? have level .* which needs 19 draws"):
        display = TopicDisplay.from_estimator(model)
    assert display.level == (n_draws - 1) / (n_draws + 1)
    assert f", {100 * display.level:.3g}% interval" in display.axes_[-1].get_xlabel()
    assert len(display.words) == model.n_components_
    assert display.intervals is not None
    drawn = model.posterior_["topic_weights"][0, model._component_draws], model.posterior_["components"][0]
    rows = [
        (weights[~np.isnan(weights)], topics[~np.isnan(topics[:, 0])])
        for weights, topics in zip(*drawn, strict=True)
        if np.count_nonzero(~np.isnan(weights)) == model.n_components_
    ]
    shares = [weights[(model.components_ @ topics.T).argmax(axis=1)] for weights, topics in rows]
    np.testing.assert_allclose(display.shares, np.sort(np.mean(shares, axis=0))[::-1])


@pytest.mark.parametrize("fit", [lambda: fitted.lda("esca", 1), lambda: fitted.spherical(6, "vb")], ids=["esca", "vb"])
def test_estimates_have_no_intervals_and_no_stability(fit):
    display = TopicDisplay.from_estimator(fit())
    assert display.intervals is None
    assert display.level is None
    assert display.is_stable is None


def test_estimates_of_several_chains_are_compared():
    lda = fitted.lda("esca", 2)
    display = TopicDisplay.from_estimator(lda)
    first, second = (topics.mean(axis=0) for topics in lda.posterior_["components"])
    best, other = (first, second) if lda.best_chain_ == 0 else (second, first)
    cosines = best @ other.T / np.outer(np.linalg.norm(best, axis=1), np.linalg.norm(other, axis=1))
    assert len(set(cosines.argmax(axis=1))) == 3
    np.testing.assert_array_equal(display.is_stable, cosines.max(axis=1)[display.topics] >= 0.8)


def test_topics_of_a_stream_have_shares_and_no_intervals():
    stream = StochasticLDA(3, total_samples=60, random_state=0).partial_fit(fitted.counts())
    display = TopicDisplay.from_estimator(stream)
    assert display.intervals is None
    counts = stream.topic_word_counts_.sum(axis=1)
    np.testing.assert_allclose(display.shares, np.sort(counts / counts.sum())[::-1])


@pytest.mark.parametrize(
    ("fit", "argument"),
    [
        (fitted.von_mises_fisher, 6),
        (fitted.dirichlet_process, "multinomial"),
        (fitted.family_mixture, "multinomial"),
        (fitted.family_mixture, "negative_binomial"),
        (fitted.family_mixture, "poisson"),
        (fitted.family_admixture, "multinomial"),
        (fitted.family_admixture, "bernoulli"),
    ],
)
def test_other_models_of_words_are_shown(fit, argument):
    model = fit(argument)
    display = TopicDisplay.from_estimator(model, n_words=1)
    entries = model.mean_directions_ if fit is fitted.von_mises_fisher else model.components_
    np.testing.assert_array_equal([values[0] for values in display.values], entries.max(axis=1)[display.topics])
    if hasattr(model, "weights_"):
        np.testing.assert_array_equal(display.shares, np.sort(model.weights_)[::-1])


def test_the_twelve_largest_of_many_topics_are_shown_each_on_its_own_scale():
    lda = StochasticLDA(15, max_iter=10, random_state=0).fit(fitted.counts())
    display = TopicDisplay.from_estimator(lda, n_words=3)
    shares = lda.posterior_["topic_weights"][0].mean(axis=0)
    np.testing.assert_array_equal(display.topics, np.argsort(-shares, kind="stable")[:12])
    np.testing.assert_array_equal(display.shares, np.sort(shares)[::-1][:12])
    assert display.figure_._suptitle.get_text() == "12 of 15 topics"
    for panel, values in zip(display.axes_, display.values, strict=True):
        assert panel.get_xlim()[1] < 1.2 * values.max()
    everything = TopicDisplay.from_estimator(lda, topics=range(15))
    np.testing.assert_array_equal(everything.topics, range(15))
    assert everything.figure_._suptitle is None


def test_long_words_are_cut_in_the_picture_alone():
    names = [str(i) * 40 for i in range(20)]
    display = TopicDisplay.from_estimator(fitted.lda(), feature_names=names)
    assert all(word in names for words in display.words for word in words)
    assert all(len(label.get_text()) <= 20 for label in display.axes_[0].get_yticklabels())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"feature_names": ["a"]}, "feature_names has 1 names for 20 features"),
        ({"n_words": 0}, "n_words must be at least 1"),
        ({"level": 1.0}, "level must be between 0 and 1"),
        ({"topics": [3]}, "topics must be whole numbers from 0 to 2"),
        ({"topics": []}, "topics must be whole numbers from 0 to 2"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        TopicDisplay.from_estimator(fitted.lda(), **parameters)
