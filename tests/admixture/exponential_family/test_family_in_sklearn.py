"""Admixtures of families give the same bytes however they are run, live in scikit-learn, and refuse in one sentence."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skmanifold import ExponentialFamilyAdmixture
from skmanifold.emissions import Bernoulli, Gaussian, Multinomial, Poisson
from skmanifold.models import IncompatibleError
from skmanifold.samplers import HMC, CollapsedGibbs

from .._corpora import learned
from ._family_data import make, small_rows, words_with_vectors


def test_fractions_are_weights_of_rows_that_are_not_fitted():
    events, answers = make(Bernoulli(allow_probabilities=True)), small_rows("bernoulli")
    answers[np.isnan(answers)] = 0.0
    events.fit(answers)
    near = [events.transform(np.abs(answers - e)) for e in (0.0, 1e-9)]
    np.testing.assert_allclose(near[1], near[0], atol=1e-5)
    X = small_rows("poisson")
    for method in ("fit", "partial_fit"):
        with pytest.warns(UserWarning, match="rounds at random: .* SphericalAdmixture for tf-idf") as told:
            getattr(make("poisson"), method)(X * 0.7)
        assert told[0].filename == __file__
    rows = make("poisson", intensity_rate=1.0).fit(X)
    np.testing.assert_allclose(rows.transform(X * (1 + 1e-9)), rows.transform(X), rtol=1e-4)
    intensities = rows.transform(X * 0.7).sum(axis=1)  # each an expected number of tokens and its prior's
    np.testing.assert_allclose(intensities, (0.7 * X.sum(axis=1) + rows.doc_topic_prior_.sum()) / 2.0)


def test_rounded_answers_are_right_on_average():
    X = np.full((4000, 2), [0.3, 1.0])
    with pytest.raises(ValueError, match=r"X has 0\.3 in row 0, column 0 .*Bernoulli.allow_probabilities=True"):
        make("bernoulli", 1, max_iter=2).fit(X)
    model = make(Bernoulli(allow_probabilities=True), 1, max_iter=2).fit(X)
    assert model.components_[0, 0] == pytest.approx(0.3, abs=4.5 * np.sqrt(0.21 / 4000))


def test_pipelines_and_grid_searches_know_emissions_and_vectors():
    vectors, _, counts = words_with_vectors()
    model = ExponentialFamilyAdmixture(emission=Gaussian("diag"), word_vectors=vectors, max_iter=10, random_state=0)
    search = GridSearchCV(
        make_pipeline(FunctionTransformer(), model),
        {
            "exponentialfamilyadmixture__n_components": [2, 5],
            "exponentialfamilyadmixture__emission__covariance_type": ["spherical", "full"],
        },
        cv=2,
    ).fit(counts)
    assert search.best_params_["exponentialfamilyadmixture__n_components"] == 5
    best = search.best_estimator_[-1]
    assert best.covariances_.ndim == (3 if best.emission_.covariance_type == "full" else 2)
    assert best.get_feature_names_out()[4] == "exponentialfamilyadmixture4"


VECTORS = np.arange(14.0).reshape(7, 2)
COUNTS = small_rows("multinomial")
REFUSALS = {
    "no vectors": ({"emission": "gaussian"}, "emission='gaussian' needs word_vectors, one for each column of X"),
    "vectors for others": ({"word_vectors": VECTORS}, "word_vectors are for emission='gaussian', not 'multinomial'"),
    "few vectors": (
        {"emission": "gaussian", "word_vectors": VECTORS[:5]},
        "word_vectors must have a row for each of the 7 columns of X; it has 5",
    ),
    "infinite vectors": ({"emission": "gaussian", "word_vectors": VECTORS + np.inf}, "word_vectors contains infinity"),
    "rate for others": ({"intensity_rate": 2.0}, "intensity_rate is for emission='poisson', not 'multinomial'"),
    "counts for bernoulli": (
        {"emission": "bernoulli"},
        "emission='bernoulli' takes 0 and 1, and NaN",
    ),
    "prior's shape": (
        {"emission": Multinomial([1.0, 2.0])},
        r"prior must be a number or have shape \(7,\); got \(2,\)",
    ),
    "row prior's shape": ({"doc_topic_prior": [1.0, 2.0]}, r"doc_topic_prior must have shape \(3,\)"),
    "burn-in": ({"max_iter": 3, "burn_in": 3}, "burn_in=3 leaves none of the max_iter=3 passes"),
    "improper prior": (
        {"emission": Gaussian(mean_precision_prior=0.0), "word_vectors": VECTORS[:, :1] ** 2, "sampler": "gibbs"},
        "Draws of Gaussian components need a proper prior",
    ),
    "a sampler of densities": (
        {"emission": "bernoulli", "sampler": HMC()},
        "HMC needs .* samplers that would work: ESCA, Gibbs",
    ),
    "a sampler of topics": (
        {"emission": "gaussian", "word_vectors": VECTORS, "sampler": CollapsedGibbs()},
        "CollapsedGibbs needs a CollapsedModel, which FamilyTokenModel does not offer; .*: ESCA, Gibbs",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_is_refused_in_one_sentence_and_leaves_the_estimator_unfitted(case):
    settings, sentence = REFUSALS[case]
    X = (COUNTS > 1).astype(float) if isinstance(settings.get("sampler"), HMC) else COUNTS
    model = ExponentialFamilyAdmixture(3, **{"max_iter": 4, "random_state": 0, **settings})
    with pytest.raises((ValueError, IncompatibleError), match=sentence):
        model.fit(X)
    assert vars(model).keys() == model.get_params(deep=False).keys()


@pytest.mark.parametrize(
    ("emission", "X", "sentence"),
    [
        ("poisson", -COUNTS, "Negative values in data passed to ExponentialFamilyAdmixture"),
        ("bernoulli", COUNTS - 1, "Negative values in data passed to ExponentialFamilyAdmixture"),
        ("poisson", np.full((3, 7), np.nan), "does not take NaN, missing cells, as 'bernoulli' does"),
        ("multinomial", 0 * COUNTS, "X has no tokens"),
        ("bernoulli", np.full((3, 7), np.nan), "X has no tokens"),
        ("gaussian", 0 * COUNTS, "X has no tokens"),
    ],
)
def test_bad_rows_are_refused(emission, X, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(emission).fit(X)


def test_a_stream_refuses_to_change_what_it_is():
    X = small_rows("poisson")
    model = make("poisson").partial_fit(X)
    before = learned(model)
    with pytest.raises(ValueError, match="n_components=4, but the fit has 3 components: call fit"):
        model.set_params(n_components=4).partial_fit(X)
    with pytest.raises(ValueError, match=r"emission=Multinomial\(\), but the fitted model has Poisson\(\): call fit"):
        model.set_params(n_components=3, emission="multinomial").partial_fit(X)
    with pytest.raises(ValueError, match="X has 6 features"):
        model.set_params(emission=Poisson()).partial_fit(X[:, 1:])
    assert learned(model) == before
    assert model.n_batch_iter_ == 1
    assert model.fit(X).n_batch_iter_ == 0


def test_methods_that_mean_nothing_are_not_there():
    X = small_rows("gaussian")
    model = make("gaussian").fit(X)
    assert not hasattr(model, "perplexity")
    assert not hasattr(model, "intensity_rate_")
    with pytest.raises(AttributeError) as refusal:
        model.perplexity(X)
    assert "gives tokens densities, which have no perplexity: use score" in str(refusal.value.__cause__)
    other = make("bernoulli").fit(small_rows("bernoulli"))
    assert 1 < other.perplexity(small_rows("bernoulli")) < 2.2
    with pytest.raises(AttributeError, match=r"Components of Bernoulli\(\) have no covariances"):
        _ = other.covariances_
    with pytest.raises(ValueError, match="X has 2 columns, one per component, but there are 3 components"):
        other.inverse_transform([[0.5, 0.5]])
    with pytest.raises(ValueError, match="two or more tokens"):
        other.score([[1.0, *[np.nan] * 6]])
    refitted = make("poisson").fit(small_rows("poisson"))
    assert refitted.intensity_rate_ == pytest.approx(1 / small_rows("poisson").sum(axis=1).mean())
    refitted.set_params(emission="multinomial").fit(small_rows("poisson"))
    assert not hasattr(refitted, "intensity_rate_")


def test_tables_beyond_memory_are_refused():
    X = sp.csr_array((np.ones(1), (np.zeros(1, int), np.array([5]))), shape=(1, 60_000))
    model = ExponentialFamilyAdmixture(65_535, emission=Bernoulli(), max_iter=2)
    with pytest.raises(
        ValueError, match=r"densities of 120000 tokens given each of 65535 components would need 58\.6 GiB"
    ):
        model.fit(X)
