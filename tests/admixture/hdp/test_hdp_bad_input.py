"""`HDPAdmixture` on unusual corpora and settings: it works, or raises one sentence before any work is done."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skmanifold import HDPAdmixture, StochasticLDA
from skmanifold.samplers import Gibbs

from .._corpora import small_corpus, small_fit

X = np.array([[3, 1, 0, 2], [0, 2, 2, 0], [1, 0, 0, 4]])
SHORT = {"max_iter": 6, "thin": 1, "random_state": 0}


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"concentration_prior": (1.0,)}, ValueError, "concentration_prior must be two positive numbers"),
        ({"topic_concentration_prior": (0.0, 1.0)}, ValueError, "topic_concentration_prior must be two positive"),
        ({"concentration_prior": (1e9, 1.0)}, ValueError, "mean of concentration_prior, shape / rate, must be from"),
        ({"concentration": 0.0}, ValueError, "'concentration' parameter"),
        ({"topic_concentration": 1e7}, ValueError, "'topic_concentration' parameter"),
        ({"topic_word_prior": [0.1, 0.1]}, ValueError, r"topic_word_prior must be a number or have shape \(4,\)"),
        ({"topic_word_prior": np.ones((3, 4))}, ValueError, r"topic_word_prior must be a number or have shape \(4,\)"),
        ({"topic_word_prior": [0.1, 0.1, 0.0, 1.0]}, ValueError, "topic_word_prior must be positive"),
        ({"max_components": 5, "init": 6}, ValueError, "init has 6 topics, more than max_components=5"),
        ({"max_components": 3, "init": small_fit()}, ValueError, "estimator in init has 4 topics, more than max_comp"),
        ({"init": small_fit()}, ValueError, "init has topics of 40 words, but X has 4 columns"),
        ({"init": StochasticLDA(3)}, NotFittedError, "StochasticLDA instance is not fitted"),
        ({"init": "random"}, ValueError, "'init' parameter"),
        ({"sampler": "esca"}, ValueError, "'sampler' parameter"),
    ],
)
def test_settings_are_refused(monkeypatch, settings, error, message):
    monkeypatch.setattr(Gibbs, "init", lambda *args: pytest.fail("the sampler began"))
    documents = small_corpus() if "max_components" in settings else X
    hdp = HDPAdmixture(**{**SHORT, **settings})
    with pytest.raises(error, match=message):
        hdp.fit(documents)
    assert not hasattr(hdp, "topic_weights_")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.zeros((3, 4)), "X has no tokens"),
        (np.array([[1.0, -1.0]]), "Negative values in data passed to HDPAdmixture"),
        (np.array([[1.0, np.nan]]), "Input X contains NaN"),
    ],
)
def test_counts_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        HDPAdmixture(**SHORT).fit(bad)


@pytest.mark.parametrize(
    "documents",
    [
        np.array([[3, 1, 0, 2]]),
        np.array([[1, 0, 0, 0]]),
        np.array([[5], [3], [0]]),
        np.tile([2, 1, 0, 1], (30, 1)),
        np.eye(4, dtype=int),
        np.vstack([np.zeros((2, 4), int), X]),
        np.array([[2000, 0, 1, 0], [1, 0, 0, 1]]),
    ],
    ids=["one document", "one token", "one word", "equal documents", "one token each", "empty documents", "long"],
)
@pytest.mark.parametrize("init", ["auto", 1])
def test_unusual_corpora(documents, init):
    hdp = HDPAdmixture(init=init, **SHORT).fit(documents)
    proportions = hdp.transform(documents)
    assert proportions.shape == (len(documents), hdp.n_components_)
    np.testing.assert_allclose(proportions.sum(axis=1), 1)
    counts = hdp.topic_word_counts_
    assert counts.shape == (hdp.n_components_, documents.shape[1])
    assert np.isfinite(hdp.log_density_trace_).all()


@pytest.mark.filterwarnings("ignore:The number of topics reached max_components")
@pytest.mark.parametrize("concentration", [1e-300, 1e-8, 1e6])
@pytest.mark.parametrize("topic_concentration", [1e-300, 1e-8, 1e6])
def test_extreme_concentrations(concentration, topic_concentration):
    hdp = HDPAdmixture(
        concentration=concentration, topic_concentration=topic_concentration, init=5, max_components=50, **SHORT
    ).fit(small_corpus())
    assert np.isfinite(hdp.log_density_trace_).all()
    assert np.isfinite(hdp.transform(small_corpus())).all()
    assert (hdp.doc_topic_prior_ > 0).all()
    many = concentration == 1e6 and topic_concentration == 1e6
    assert (hdp.posterior_["n_components"].max() == 50) == many


@pytest.mark.parametrize("prior", [1e-8, 1e3])
def test_extreme_priors_of_topics(prior):
    hdp = HDPAdmixture(topic_word_prior=prior, init=5, **SHORT).fit(small_corpus())
    np.testing.assert_allclose(hdp.components_.sum(axis=1), 1, rtol=1e-4)


def test_no_draws_of_topics_are_kept_in_no_memory():
    hdp = HDPAdmixture(init=5, max_draws_bytes=0, **SHORT).fit(small_corpus())
    assert "components" not in hdp.posterior_
    with pytest.raises(ValueError, match="No draws of the topics were kept"):
        hdp.credible_intervals()
    with pytest.raises(ValueError, match="No draws of the topics were kept"):
        hdp.topic_diagnostics()
    assert clone(hdp).max_draws_bytes == 0
