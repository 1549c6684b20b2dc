"""User-defined emissions work as the library's do, and what one lacks is refused in one sentence before a fit."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats as st
from sklearn.base import clone

from skmanifold import ExponentialFamilyAdmixture, ExponentialFamilyMixture
from skmanifold.admixture._exponential_family.model import FamilyTokenModel
from skmanifold.emissions import (
    Bernoulli,
    DirichletFamily,
    Gaussian,
    Multinomial,
    Poisson,
    RowEmission,
    RowFamily,
    TokenEmission,
    TokenFamily,
)
from skmanifold.emissions._estimator import in_words
from skmanifold.emissions._registry import ROW_FAMILIES, TOKEN_FAMILIES
from skmanifold.mixture._exponential_family.model import FamilyModel
from skmanifold.models import IncompatibleError, PartiallyCollapsedModel, check_compatible, is_compatible
from skmanifold.samplers import EM, ESCA, Gibbs
from skmanifold.sparse.counts import Counts
from skmanifold.utils._parameters import offers
from skmanifold.utils._threads import Workers

from . import _user_defined as user
from ._cases import read
from ._user_defined import Exponential, Falling, Scale, without

pytestmark = pytest.mark.filterwarnings(
    "ignore:overflow encountered:RuntimeWarning", "ignore:EM stopped after:sklearn.exceptions.ConvergenceWarning"
)
ROWS_NEED = "add_log_densities", "sum_labels", "mode", "attributes", "shapes"
TOKENS_NEED = "token_table", "statistics_of_tokens", "mode", "attributes", "shapes"
MEANS = np.array([[1.0, 1.0, 9.0], [8.0, 2.0, 1.0]])


def make_rows(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < 0.3).astype(int)
    return rng.standard_exponential((n, 3)) * MEANS[labels], labels


def make_answers(n=400, seed=0):
    """Counts of answers 0 to 6: two components, in the rows' own proportions."""
    rng = np.random.default_rng(seed)
    table = st.binom.pmf(np.arange(7), 6, np.array([[0.15], [0.8]]))
    return np.array([rng.multinomial(40, p) for p in rng.dirichlet([0.3, 0.3], n) @ table])


# --- rows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["esca", "em", "gibbs"])
def test_rows_of_a_user_are_fitted_by_every_sampler(sampler):
    X, labels = make_rows()
    settings = {"emission": Exponential(), "sampler": sampler, "max_iter": 60, "random_state": 0}
    mixture = ExponentialFamilyMixture(2, **settings).fit(X)
    order = mixture.components_[:, 0].argsort()
    of_labels = [X[labels == k].mean(axis=0) for k in (0, 1)]
    np.testing.assert_allclose(mixture.components_[order], of_labels, rtol=0.1)
    np.testing.assert_allclose(mixture.weights_[order], [0.7, 0.3], atol=0.04)
    densities = [w * st.expon.pdf(X, scale=mean).prod(axis=1) for w, mean in zip([0.7, 0.3], MEANS, strict=True)]
    assert (order.argsort()[mixture.labels_] == np.argmax(densities, axis=0)).mean() > 0.97
    pairs = zip(mixture.weights_, mixture.components_, strict=True)
    exact = np.log(sum(w * st.expon.pdf(X, scale=mean).prod(axis=1) for w, mean in pairs))
    np.testing.assert_allclose(mixture.score_samples(X), exact, atol=0.2 if sampler == "gibbs" else 1e-9)
    threads = ExponentialFamilyMixture(2, n_jobs=2, **settings).fit(X)
    assert threads.components_.tobytes() == mixture.components_.tobytes()
    rows, _ = mixture.sample(4000, random_state=0)
    np.testing.assert_allclose(rows.mean(axis=0), mixture.weights_ @ mixture.components_, rtol=0.1)


def test_rows_of_a_user_have_criteria_streams_and_parameters_by_name():
    X, _ = make_rows()
    mixture = ExponentialFamilyMixture(2, emission=Exponential(), max_iter=30, random_state=0).fit(X)
    worse = clone(mixture).set_params(n_components=1).fit(X)
    assert mixture.bic(X) < worse.bic(X)
    assert mixture.aic(X) == pytest.approx(2 * 7 - 2 * mixture.score_samples(X).sum())
    before = mixture.score(X)
    assert mixture.partial_fit(X[:700]).score(X) == pytest.approx(before, abs=0.02)
    assert mixture.set_params(emission__mean=3.0).emission.mean == 3.0
    assert ExponentialFamilyMixture(2, emission=Exponential(), init="random", random_state=0).fit(X).score(X) > -7.0


@pytest.mark.parametrize(
    ("name", "settings", "method", "whom", "end"),
    [
        *((name, {}, "fit", "ExponentialFamilyMixture", "") for name in ROWS_NEED),
        ("draw", {"sampler": "gibbs"}, "fit", "Gibbs", ": ESCA, EM."),
        ("sum_shares", {"sampler": EM()}, "fit", "EM", ": ESCA, Gibbs."),
        ("log_prior", {"sampler": "em"}, "fit", "EM", ": ESCA, Gibbs."),
        ("log_likelihood", {"sampler": "em"}, "fit", "EM", ""),
        ("sum_shares", {"n_polish": 2}, "fit", "n_polish=2", ""),
        ("seed_labels", {}, "fit", "init='auto'", "; or set init='random'."),
        ("seed_labels", {}, "partial_fit", "init='auto'", ""),
        ("seed_labels", {"init": "k-means++"}, "fit", "init='k-means++'", "; or set init='random'."),
        ("sample", {}, "sample", "ExponentialFamilyMixture.sample", ""),
        ("n_parameters", {}, "aic", "An information criterion", ""),
        ("n_parameters", {}, "bic", "An information criterion", ""),
    ],
)
def test_what_a_family_of_rows_lacks_is_named_in_one_sentence(name, settings, method, whom, end, monkeypatch):
    X, _ = make_rows(50)
    monkeypatch.setattr(user, "ExponentialFamily", without(user.ExponentialFamily, name))
    mixture = ExponentialFamilyMixture(2, emission=Exponential(), max_iter=4, random_state=0, **settings)
    if method not in ("fit", "partial_fit"):
        mixture.fit(X)
    with pytest.raises(IncompatibleError) as caught:
        mixture.sample(2) if method == "sample" else getattr(mixture, method)(X)
    sentence = str(caught.value)
    assert sentence.startswith(f"{whom} needs {in_words([name])}, which the emission Exponential does not offer")
    assert sentence.endswith(end)
    able = "'auto', 'bernoulli', 'categorical', 'gaussian', 'multinomial', 'negative_binomial', "
    able += "'poisson', 'von_mises_fisher' do"
    assert f", which the emission Exponential does not offer ({able})" in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize("name", ["draw", "sum_shares", "log_prior", "seed_labels", "sample", "n_parameters"])
def test_a_family_of_rows_may_lack_what_nothing_asks_for(name, monkeypatch):
    X, _ = make_rows(50)
    monkeypatch.setattr(user, "ExponentialFamily", without(user.ExponentialFamily, name))
    mixture = ExponentialFamilyMixture(2, emission=Exponential(), init="random", max_iter=4, random_state=0)
    assert np.isfinite(mixture.fit(X).score(X))
    assert np.isfinite(mixture.partial_fit(X).score(X))


def test_a_model_offers_what_its_family_does():
    X, _ = make_rows(50)
    rows = read(Exponential(), X)
    family = without(user.ExponentialFamily, "draw")(0.5, 0.5, 2, 3)
    model = FamilyModel(rows, 0, 0.5, family, np.zeros(50, np.int32), Workers(1))
    assert not offers(model, PartiallyCollapsedModel)
    assert is_compatible(EM(), model)
    with pytest.raises(IncompatibleError, match=r"needs .* \(draw\), which ExponentialFamily .*: ESCA, EM\.$"):
        check_compatible(Gibbs(), model, (ESCA, EM, Gibbs))


def test_a_model_of_tokens_offers_what_its_family_does():
    counts = Counts(np.array([0, 2]), np.array([0, 1], np.int32), np.array([3, 2], np.int32), 2)
    model = FamilyTokenModel(counts, np.ones(2), without(user.ScaleFamily, "parameters_of")(2, 2), Workers(1))
    with pytest.raises(IncompatibleError, match=r"Gibbs needs .* \(parameters_of\), which ScaleFamily .*: ESCA\.$"):
        check_compatible(Gibbs(), model, (ESCA, Gibbs))
    check_compatible(Gibbs(), FamilyTokenModel(counts, np.ones(2), user.ScaleFamily(2, 2), Workers(1)))


def test_cells_that_an_emission_of_a_user_does_not_take_are_named():
    X, _ = make_rows(50)
    mixture = ExponentialFamilyMixture(2, emission=Exponential(), max_iter=4)
    with pytest.raises(
        ValueError, match=r"^The emission Exponential does not take NaN, .* as 'auto', 'bernoulli', 'categorical'"
    ):
        mixture.fit(np.where(X > 9.0, np.nan, X))
    with pytest.raises(TypeError, match=r"^The emission Exponential does not take sparse X .*: pass X.toarray\(\)\.$"):
        mixture.fit(sp.csr_array(X))
    assert not mixture.__sklearn_tags__().input_tags.sparse
    assert not mixture.__sklearn_tags__().input_tags.allow_nan


# --- tokens ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["esca", "gibbs"])
def test_tokens_of_a_user_are_fitted_by_every_sampler(sampler):
    X = make_answers()
    settings = {"emission": Scale(), "sampler": sampler, "doc_topic_prior": 0.3, "max_iter": 60, "random_state": 0}
    model = ExponentialFamilyAdmixture(2, **settings).fit(X)
    found = np.sort(model.components_ @ np.arange(7) / 6)
    np.testing.assert_allclose(found, [0.15, 0.8], atol=0.02)
    assert np.isfinite(model.score(X))
    assert np.isfinite(model.score_samples(X)).all()
    assert model.perplexity(X) < 7.0
    np.testing.assert_allclose(model.transform(X[:5]).sum(axis=1), 1.0)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X[:5])).sum(axis=1), 1.0)
    assert model.posterior_["components"].shape[2:] == (2, 7)
    threads = ExponentialFamilyAdmixture(2, n_jobs=2, **settings).fit(X)
    assert threads.components_.tobytes() == model.components_.tobytes()
    if sampler == "esca":
        before = model.score(X)
        assert model.partial_fit(X[:200]).score(X) == pytest.approx(before, abs=0.02)


@pytest.mark.parametrize("sampler", ["esca", "gibbs", "collapsed_gibbs"])
def test_a_token_prior_is_a_whole_family(sampler):
    from skmanifold.samplers import CollapsedGibbs

    X = make_answers(60)
    sampler = CollapsedGibbs() if sampler == "collapsed_gibbs" else sampler
    settings = {"sampler": sampler, "max_iter": 10, "random_state": 0}
    mine = ExponentialFamilyAdmixture(2, emission=Falling(2.0), **settings).fit(X)
    same = ExponentialFamilyAdmixture(2, emission=Multinomial(2.0 / np.arange(1.0, 8.0)), **settings).fit(X)
    assert mine.components_.tobytes() == same.components_.tobytes()
    assert mine.score(X) == same.score(X)


@pytest.mark.parametrize(
    ("name", "settings", "whom", "end"),
    [
        *((name, {}, "ExponentialFamilyAdmixture", "") for name in TOKENS_NEED),
        ("draw", {"sampler": "gibbs"}, "Gibbs", "would work: ESCA."),
        ("parameters_of", {"sampler": Gibbs()}, "Gibbs", ""),
    ],
)
def test_what_a_family_of_tokens_lacks_is_named_in_one_sentence(name, settings, whom, end, monkeypatch):
    monkeypatch.setattr(user, "ScaleFamily", without(user.ScaleFamily, name))
    model = ExponentialFamilyAdmixture(2, emission=Scale(), max_iter=4, **settings)
    for method in (model.fit, model.partial_fit) if model.sampler == "esca" else (model.fit,):
        with pytest.raises(IncompatibleError) as caught:
            method(make_answers(20))
        wanted = f"{whom} needs {in_words([name])}, which the emission Scale does not offer ('bernoulli', 'gaussian'"
        assert str(caught.value).startswith(wanted)
        assert str(caught.value).endswith(end)


def test_tokens_of_a_user_may_lack_draws_where_nothing_is_drawn(monkeypatch):
    monkeypatch.setattr(user, "ScaleFamily", without(user.ScaleFamily, "draw", "parameters_of"))
    X = make_answers(50)
    assert np.isfinite(ExponentialFamilyAdmixture(2, emission=Scale(), max_iter=4, random_state=0).fit(X).score(X))


def test_missing_cells_of_tokens_are_named():
    X = make_answers(20).astype(float)
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match=r"^The emission Scale does not take NaN, missing cells, as 'bernoulli' does"):
        ExponentialFamilyAdmixture(2, emission=Scale(), max_iter=4).fit(X)


# --- one of rows is none of tokens -----------------------------------------------------------------------


def test_an_emission_of_rows_is_refused_for_tokens_and_the_other_way_round():
    with pytest.raises(
        IncompatibleError,
        match=r"^ExponentialFamilyMixture needs a reader of rows \(read\) and a family of rows \(bind\), which "
        r"the emission Scale does not offer \('auto', 'bernoulli', 'categorical', 'gaussian', "
        r"'multinomial', 'negative_binomial', 'poisson', "
        r"'von_mises_fisher' do\)\.$",
    ):
        ExponentialFamilyMixture(2, emission=Scale()).fit(make_answers(20))
    with pytest.raises(
        IncompatibleError,
        match=r"^ExponentialFamilyAdmixture needs a family of tokens \(bind_tokens\), which the emission Exponential ",
    ):
        ExponentialFamilyAdmixture(2, emission=Exponential()).fit(make_answers(20))


@pytest.mark.parametrize("emission", [Bernoulli(), Gaussian(), Multinomial(), Poisson()])
def test_emissions_of_the_library_are_of_rows_and_of_tokens(emission):
    assert offers(emission, RowEmission)
    assert offers(emission, TokenEmission)
    rows = read(emission, np.eye(4)[:, :3])
    assert offers(emission.bind(rows, 2), RowFamily)
    assert isinstance(emission.bind(rows, 2), ROW_FAMILIES[emission.short_name])
    tokens = Counts(np.array([0, 3]), np.arange(3, dtype=np.int32), np.ones(3, np.int32), 4)
    vectors = np.random.default_rng(0).standard_normal((4, 2)) if emission.has_vector_tokens else None
    family = emission.bind_tokens(tokens, 2, vectors)
    assert offers(family, DirichletFamily) or offers(family, TokenFamily)
    assert isinstance(family, TOKEN_FAMILIES[emission.short_name])
