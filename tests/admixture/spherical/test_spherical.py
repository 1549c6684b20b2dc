"""The spherical admixture as an estimator: what it accepts, refuses, keeps and gives back."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skmanifold import OrthogonalSphericalAdmixture, SphericalAdmixture, VonMisesFisherMixture
from skmanifold.distributions import log_vmf_normalizer
from skmanifold.metrics import match_topics, spherical_document_likelihood
from skmanifold.models import IncompatibleError
from skmanifold.samplers import ESCA, GMC, GSGNHT, HMC, SGGMC, SVRG, ColumnGibbs, PolynomialDecay

from ._spherical_draws import signed_rows

pytestmark = pytest.mark.filterwarnings(r"ignore:(batch_size|n_\w+)=\d+ has no effect:UserWarning")  # all have the same

SAMPLERS = list(SphericalAdmixture._samplers)
STREAMS = ["gsgnht", "sggmc", "svb"]
KINDS = (SphericalAdmixture, OrthogonalSphericalAdmixture)
each_sampler = pytest.mark.parametrize("sampler", SAMPLERS)
each_kind = pytest.mark.parametrize("kind", KINDS)
each_sampler_of_both = pytest.mark.parametrize(
    ("kind", "sampler"), [(kind, sampler) for kind in KINDS for sampler in kind._samplers]
)
each_stream = pytest.mark.parametrize("sampler", STREAMS)
NUMBERS = {"document_concentration": 60.0, "topic_concentration": 20.0, "mean_concentration": 20.0}


def planted(n=300, V=40, K=3, seed=0):
    """Documents near mixtures of K topics that share a mean, and the topics."""
    rng = np.random.default_rng(seed)
    topics = rng.standard_normal((K, V)) + 0.5
    topics /= np.linalg.norm(topics, axis=1, keepdims=True)
    mixtures = rng.dirichlet(np.full(K, 0.5), n) @ topics
    X = mixtures / np.linalg.norm(mixtures, axis=1, keepdims=True) + 0.05 * rng.standard_normal((n, V))
    return X, topics


def make(sampler="gsgnht", n_components=3, kind=SphericalAdmixture, **params):
    params = {"max_iter": 6, "burn_in": 2, "thin": 1, "batch_size": 10, "random_state": 0, **params}
    return kind(n_components, sampler=sampler, **params)


@pytest.mark.extended
@each_sampler
def test_planted_topics_are_found(sampler):
    X, topics = planted()
    model = SphericalAdmixture(3, sampler=sampler, max_iter=60, random_state=0).fit(X)
    assert match_topics(model.components_, topics).similarity.min() > 0.97
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1.0, rtol=1e-12)
    assert np.all((model.resultant_lengths_ > 0.8) & (model.resultant_lengths_ <= 1 + 1e-12))
    one_direction = VonMisesFisherMixture(3, random_state=0).fit(X)
    assert model.score(planted(seed=0, n=500)[0][300:]) > one_direction.score(planted(seed=0, n=500)[0][300:])


@pytest.mark.covering
@each_sampler_of_both
@pytest.mark.parametrize("alpha", [None, 0.2, 10.0])
def test_attributes_have_their_shapes_and_predictions_their_sums(kind, sampler, alpha):
    X = signed_rows()
    model = make(sampler, kind=kind, doc_topic_prior=alpha, n_chains=2).fit(X)
    assert model.components_.shape == (3, 8)
    assert model.log_density_trace_.shape == (2, 6)
    assert model.posterior_["components"].shape == (2, 4, 3, 8)
    draws = model.posterior_["components"]
    np.testing.assert_allclose(np.linalg.norm(draws, axis=-1), 1.0, rtol=1e-9)
    if kind is OrthogonalSphericalAdmixture:
        products = draws @ np.swapaxes(draws, -1, -2)
        np.testing.assert_allclose(products, np.broadcast_to(np.eye(3), products.shape), atol=1e-10)
    proportions = model.transform(X)
    np.testing.assert_allclose(proportions.sum(axis=1), 1.0, rtol=1e-9)
    assert proportions.min() >= 0
    assert np.array_equal(model.predict(X), proportions.argmax(axis=1))
    scores = model.score_samples(X)
    assert np.array_equal(np.isnan(scores), np.arange(30) == 3)
    np.testing.assert_allclose(model.score(X), np.nanmean(scores), rtol=1e-12)
    np.testing.assert_allclose(model.perplexity(X), np.exp(-model.score(X) / 7), rtol=1e-12)
    np.testing.assert_allclose(proportions[3], model.doc_topic_prior_ / model.doc_topic_prior_.sum())
    np.testing.assert_allclose(np.linalg.norm(model.inverse_transform(proportions), axis=1), 1.0)


def test_the_score_is_that_of_the_evaluator_averaged_over_draws_and_relative_to_the_uniform_law():
    X = np.delete(signed_rows(), 3, axis=0)
    model = make(n_predictive_draws=4, n_importance_draws=4000, **NUMBERS).fit(X)
    draws = model.posterior_["components"][0]
    results = [
        spherical_document_likelihood(topics, X, model.doc_topic_prior_, 60.0, n_draws=4000, random_state=5)
        for topics in draws
    ]
    logs = [result.log_density for result in results]
    expected = np.logaddexp.reduce(logs, axis=0) - np.log(4) - log_vmf_normalizer(8, 0)
    errors = np.sqrt(2) * np.max([result.document_errors for result in results], axis=0)
    assert np.abs((model.score_samples(X) - expected) / errors).max() < 4.5


@each_sampler_of_both
def test_lengths_of_rows_and_rows_of_zeros_behind_all_others_mean_nothing(kind, sampler):
    X = np.delete(signed_rows(), 3, axis=0)
    lengths = 2.0 ** np.random.default_rng(0).integers(-200, 200, (29, 1))
    model, scaled, behind = (
        make(sampler, kind=kind).fit(rows) for rows in (X, X * lengths, np.vstack([X, np.zeros((20, 8))]))
    )
    np.testing.assert_allclose(scaled.components_, model.components_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.transform(X * lengths), model.transform(X), atol=1e-6)
    np.testing.assert_array_equal(behind.components_, model.components_)
    np.testing.assert_array_equal(behind.log_density_trace_, model.log_density_trace_)


def test_numbers_fix_the_concentrations_and_auto_learns_the_others():
    X, _ = planted()
    model = make(**NUMBERS).fit(X)
    assert (model.document_concentration_, model.topic_concentration_, model.mean_concentration_) == (60.0, 20.0, 20.0)
    some = make(topic_concentration=5.0).fit(X)
    assert some.topic_concentration_ == 5.0
    assert some.document_concentration_ != 60.0
    frozen = make(max_iter=20, burn_in=0).fit(X)
    again = make(max_iter=5, burn_in=0).fit(X)
    assert frozen.document_concentration_ == again.document_concentration_  # nothing is learned after burn-in


def test_a_given_mean_direction_may_have_any_length_and_scales_may_be_given():
    X = signed_rows()
    m = np.arange(1.0, 9.0)
    model = make(mean_direction=1e200 * m, topic_scale=[10.0, 20.0, 30.0]).fit(X)
    np.testing.assert_allclose(model.mean_direction_, m / np.linalg.norm(m))
    assert model.topic_scale_.tolist() == [10.0, 20.0, 30.0]
    assert make(topic_scale=5).fit(X).topic_scale_.tolist() == [5.0] * 3


def test_words_for_and_against_a_topic_are_named():
    frame = pd.DataFrame(np.delete(signed_rows(), 3, axis=0)).add_prefix("w")
    model = make(n_components=1).fit(frame)
    topic = model.components_[0]
    words = model.topic_words(3)[0]
    assert [name for name, _ in words.positive] == [f"w{i}" for i in np.argsort(-topic)[:3] if topic[i] > 0]
    assert [name for name, _ in words.negative] == [f"w{i}" for i in np.argsort(topic)[:3] if topic[i] < 0]
    assert words.positive[0][1] == topic.max()
    assert model.topic_words(1, list("abcdefgh"))[0].positive[0][0] == "abcdefgh"[topic.argmax()]
    with pytest.raises(ValueError, match="2 names for 8 features"):
        model.topic_words(3, ["a", "b"])
    assert model.get_feature_names_out().tolist() == ["sphericaladmixture0"]


def test_tfidf_in_a_pipeline_with_a_grid_search():
    texts = [
        "ball bat run pitch",
        "run bat ball",
        "moon orbit fuel",
        "fuel launch moon",
        "bat pitch",
        "orbit launch",
    ] * 4
    pipe = make_pipeline(TfidfVectorizer(), SphericalAdmixture(2, max_iter=6, random_state=0))
    grid = {"sphericaladmixture__sampler__step_size": [0.2, 0.5], "sphericaladmixture__n_components": [1, 2]}
    search = GridSearchCV(pipe, grid, cv=2, error_score="raise").fit(texts)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict(["bat ball", "no word that is known"]).shape == (2,)


@pytest.mark.parametrize(
    ("kind", "suitable", "wrong"),
    [(SphericalAdmixture, GMC(0.1, 3), HMC()), (OrthogonalSphericalAdmixture, ColumnGibbs(n_sweeps=2), GMC())],
)
def test_samplers_are_settings(kind, suitable, wrong):
    model = kind(sampler="gsgnht").set_params(sampler__step_size=0.1)
    assert model.sampler.step_size == 0.1
    assert model.sampler.friction == kind._settings["gsgnht"]["friction"]
    for sampler in (SGGMC(PolynomialDecay(0.5), n_steps=3), GSGNHT(0.3, control_variate=SVRG(7)), suitable):
        fitted = make(sampler, kind=kind).fit(signed_rows())
        assert fitted.sampler_ is not sampler
        assert np.isfinite(fitted.score(signed_rows()))
    for refused in (ESCA(), wrong):
        with pytest.raises(IncompatibleError, match=r"needs .*samplers that would work: .*G"):
            make(refused, kind=kind).fit(signed_rows())


@each_kind
def test_a_fit_whose_steps_are_not_sound_warns_of_its_temperature(kind):
    X, _ = planted()
    with pytest.warns(ConvergenceWarning, match=r"temperature is [0-9.]+, not 1: .*sampler__step_size"):
        model = make(SGGMC(step_size=1.8, friction=0.01, n_steps=1), max_iter=20, kind=kind).fit(X)
    assert abs(np.log(model.posterior_["temperature"].mean())) > 0.2


# Uncertainty


@pytest.mark.extended
def test_draws_tell_how_sure_the_topics_are():
    pytest.importorskip("arviz_stats")
    X, _ = planted()
    model = make(n_chains=2, max_iter=40, burn_in=20).fit(X)
    low, high = model.credible_intervals(0.9)
    assert np.mean((low <= model.components_) & (model.components_ <= high)) > 0.8
    assert model.topic_diagnostics().is_stable.all()
    assert model.transform(X[:5], average_draws=True).shape == (5, 3)
    with pytest.raises(AttributeError, match="estimates the topics"):
        make("vb").fit(X).credible_intervals()


@each_kind
def test_draws_keep_within_their_memory(kind):
    X = signed_rows()
    for n_bytes, n_kept in ((8 * 3 * 8 * 2, 2), (8 * 3 * 8, 1)):
        assert make(kind=kind, max_draws_bytes=n_bytes).fit(X).posterior_["components"].shape == (1, n_kept, 3, 8)
    model = make(kind=kind, max_draws_bytes=0).fit(X)
    assert "components" not in model.posterior_
    assert np.isfinite(model.score(X))


# Streams


@pytest.mark.extended
@each_stream
def test_a_stream_finds_planted_topics(sampler):
    X, topics = planted(n=2000)
    model = make(sampler, total_samples=2000, n_doc_samples=3)
    for start in range(0, 4000, 50):
        model.partial_fit(X[start % 2000 : start % 2000 + 50])
    assert match_topics(model.components_, topics).similarity.min() > 0.9
    assert 100 < model.document_concentration_ < 1000
    if sampler == "gsgnht":  # a fixed friction leaves some of the heat
        assert abs(np.mean(model.posterior_["temperature"]) - 1) < 0.1


def test_a_stream_refuses_what_cannot_follow():
    X = signed_rows()
    model = make().partial_fit(X)
    with pytest.raises(ValueError, match="but the fitted model has 3 topics"):
        clone(model).set_params(n_components=3).partial_fit(X).set_params(n_components=2).partial_fit(X)
    with pytest.raises(ValueError, match="SGGMC cannot continue a fit by GSGNHT"):
        model.set_params(sampler="sggmc").partial_fit(X)
    with pytest.raises(ValueError, match="use fit, not partial_fit"):
        make(GSGNHT(control_variate=SVRG())).partial_fit(X)
    for sampler in ("gmc", "gmc_gibbs", "vb"):
        assert not hasattr(make(sampler), "partial_fit")


# Bad input


@pytest.mark.covering
@each_sampler_of_both
@pytest.mark.parametrize(
    ("params", "X", "message"),
    [
        ({}, np.full((5, 4), np.nan), "NaN"),
        ({}, np.zeros((5, 4)), "All rows of X are zeros"),
        ({}, np.eye(4)[:2], "n_components=3 topics need as many documents, but X .* has 2"),
        ({}, np.vstack([np.eye(4)[:2], np.zeros((9, 4))]), r"but X \(n_samples=11\) has 2"),
        ({}, np.ones((5, 1)), "minimum of 2"),
        ({"doc_topic_prior": [1, 1]}, np.eye(4), "doc_topic_prior"),
        ({"doc_topic_prior": -1.0}, np.eye(4), "doc_topic_prior"),
        ({"document_concentration": -1.0}, np.eye(4), "document_concentration"),
        ({"document_concentration": 1e200}, np.eye(4), "document_concentration"),  # divisions by zero in kernels
        ({"document_concentration": "big"}, np.eye(4), "document_concentration"),
        ({"burn_in": 6}, np.eye(4), "burn_in=6"),
    ],
)
def test_bad_input_is_refused_in_a_sentence_and_leaves_the_estimator_unfitted(kind, sampler, params, X, message):
    model = make(sampler, kind=kind, **params)
    before = set(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(X)
    assert set(vars(model)) == before


@pytest.mark.parametrize(
    ("kind", "params", "X", "message"),
    [
        (SphericalAdmixture, {"mean_direction": [0, 0, 0, 0]}, np.eye(4), "mean_direction must not be zero"),
        (SphericalAdmixture, {"mean_direction": [1, 0]}, np.eye(4), "mean_direction must be 4 finite numbers"),
        (SphericalAdmixture, {"topic_scale": [1, 2]}, np.eye(4), "one for each topic"),
        (SphericalAdmixture, {"topic_scale": [1, 2, -1]}, np.eye(4), "one for each topic"),
        (SphericalAdmixture, {}, np.vstack([np.eye(4), -np.eye(4)]), "mean of the documents is zero"),
        (OrthogonalSphericalAdmixture, {}, np.ones((5, 2)), "orthonormal topics need as many features, but X has 2"),
        (OrthogonalSphericalAdmixture, {"doc_topic_prior": [1, 1, 1]}, np.eye(4), "doc_topic_prior"),
        (OrthogonalSphericalAdmixture, {"n_components_penalty": -1.0}, np.eye(4), "n_components_penalty"),
    ],
)
def test_what_only_one_of_the_models_cannot_have_is_refused(kind, params, X, message):
    for sampler in kind._samplers:
        with pytest.raises(ValueError, match=message):
            make(sampler, kind=kind, **params).fit(X)


@pytest.mark.covering
@pytest.mark.parametrize("V", [2, 50, 2000])
@pytest.mark.parametrize("kappa", [1e-3, 1e7])
@each_kind
@pytest.mark.filterwarnings("ignore:The log evidence of chains")  # six passes need not reach the best mode
def test_extreme_concentrations_leave_nothing_that_is_not_finite(V, kappa, kind):
    X = np.random.default_rng(0).standard_normal((20, V))
    of_topics = {} if kind is OrthogonalSphericalAdmixture else dict.fromkeys(list(NUMBERS)[1:], kappa)
    cases = ["gsgnht", "gmc_gibbs", "vb"] if of_topics else ["gsgnht", "gibbs", None]  # None: an inferred number
    for sampler in cases:
        n_components = min(3, V) if sampler or of_topics else None
        params = {"kind": kind, "document_concentration": kappa, **of_topics}
        model = make(sampler or "gibbs", n_components, **params).fit(X)
        assert np.isfinite(model.components_).all()
        assert np.isfinite(model.log_density_trace_).all()
        assert np.isfinite(model.score_samples(X)).all()


@each_sampler
def test_equal_rows_and_one_topic_are_no_trouble(sampler):
    same = np.tile([1.0, 2.0, -1.0, 0.0], (6, 1))
    model = make(sampler, n_components=2).fit(same)
    assert np.isfinite(model.components_).all()
    one = make(sampler, n_components=1).fit(signed_rows())
    np.testing.assert_array_equal(one.transform(signed_rows()), np.ones((30, 1)))
