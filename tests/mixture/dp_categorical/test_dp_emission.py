"""An emission of a Dirichlet-process mixture is a name or an instance, also a user-defined one."""

from inspect import signature

import numpy as np
import pytest
from emissions._user_defined import Exponential, Falling, Scale
from sklearn.base import BaseEstimator

import skmanifold
from skmanifold import DPCategoricalMixture, ExponentialFamilyAdmixture, emissions, load
from skmanifold.datasets import make_categorical_mixture
from skmanifold.emissions import BaseEmission, Bernoulli, Categorical, Gaussian, Multinomial, Poisson
from skmanifold.models import IncompatibleError

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
SETTINGS = {"init": 5, "max_iter": 8, "random_state": 0}


def counts():
    return np.random.default_rng(0).poisson(np.repeat([[9.0, 1.0, 1.0, 3.0], [1.0, 9.0, 3.0, 1.0]], 30, axis=0))


def codes():
    return make_categorical_mixture(60, 4, 2, random_state=0).data


class Flat(BaseEmission):
    """Words with one Dirichlet parameter, by a `token_prior` alone; X is in tens."""

    def __init__(self, level=0.5):
        self.level = level

    def read_tokens(self, estimator, X, key, *, reset):
        return super().read_tokens(estimator, np.asarray(X) // 10, key, reset=reset)

    def bind_tokens(self, tokens, n_components, word_vectors=None):
        return FlatFamily(n_components, tokens.n_features, np.full(tokens.n_features, self.level))


class FlatFamily:
    def __init__(self, n_components, n_features, token_prior):
        self.n_components = n_components
        self.n_features = n_features
        self.token_prior = token_prior


@pytest.mark.parametrize("sampler", ["slice", "scir"])
@pytest.mark.parametrize(
    ("name", "instance", "rows"),
    [
        ("multinomial", Multinomial(0.7), counts),
        ("multinomial", Multinomial(np.full(4, 0.7)), counts),
        ("multinomial", Poisson(shape_prior=0.7), counts),
        ("categorical", Categorical(0.7), codes),
    ],
)
def test_an_instance_gives_the_bytes_of_its_name(name, instance, rows, sampler, tmp_path):
    X = rows()
    by_name = DPCategoricalMixture(name, category_prior=0.7, sampler=sampler, **SETTINGS).fit(X)
    mixture = DPCategoricalMixture(instance, sampler=sampler, **SETTINGS).fit(X)
    assert mixture.score_samples(X).tobytes() == by_name.score_samples(X).tobytes()
    assert mixture.labels_.tolist() == by_name.labels_.tolist()
    assert mixture.sample(3, random_state=0)[0].tolist() == by_name.sample(3, random_state=0)[0].tolist()
    tags = mixture.__sklearn_tags__().input_tags, by_name.__sklearn_tags__().input_tags
    assert tags[0] == tags[1]
    mixture.save(tmp_path / "mixture")
    assert load(tmp_path / "mixture").score(X) == by_name.score(X)
    if sampler == "scir":
        assert mixture.partial_fit(X).score(X) == by_name.partial_fit(X).score(X)
    assert mixture.set_params(emission=name).fit(X).emission_.short_name == name


def test_a_user_defined_prior_is_an_emission_with_its_own_reader():
    X = counts()
    mixture = DPCategoricalMixture(Flat(0.7), **SETTINGS).fit(10 * X + 3)
    by_name = DPCategoricalMixture(category_prior=0.7, **SETTINGS).fit(X)
    assert mixture.score_samples(10 * X).tobytes() == by_name.score_samples(X).tobytes()


def test_the_prior_of_categories_has_one_name():
    for make in (Categorical, Multinomial, DPCategoricalMixture, make_categorical_mixture):
        assert "category_prior" in signature(make).parameters
    for module in (skmanifold, emissions):
        for made in (getattr(module, name) for name in module.__all__):
            if isinstance(made, type) and issubclass(made, BaseEstimator):
                assert "prior" not in signature(made).parameters, made  # names state of what


def test_parameters_of_an_emission_are_reached_through_its_name():
    mixture = DPCategoricalMixture("categorical", category_prior=0.3).set_params(emission__category_prior=0.9)
    assert mixture.emission.category_prior == 0.9
    mixture = DPCategoricalMixture(sampler="sgrld", emission=Multinomial(0.2), **SETTINGS)
    with pytest.warns(UserWarning, match="does not draw from the posterior if category_prior is below 1/2"):
        mixture.fit(counts())


@pytest.mark.parametrize(
    ("emission", "error", "message"),
    [
        (
            Gaussian(),
            IncompatibleError,
            r"needs a Dirichlet prior of tokens \(token_prior\), .* Gaussian does not",
        ),
        (Bernoulli(), IncompatibleError, r"needs a Dirichlet prior of tokens \(token_prior\), .* Bernoulli does not"),
        (Scale(), IncompatibleError, r"Scale does not offer \('multinomial', 'categorical' do\)\.$"),
        (Exponential(), IncompatibleError, r"needs a family of tokens \(bind_tokens\), which the emission Exponential"),
        (
            Falling(),
            ValueError,
            "one Dirichlet parameter for all categories; the emission Falling has several",
        ),
        (Multinomial, TypeError, r"not the class Multinomial: write Multinomial\(\)"),
        (Categorical(-1.0), ValueError, "'category_prior' parameter of Categorical"),
    ],
)
def test_an_emission_that_does_not_fit_is_refused_in_one_sentence(emission, error, message):
    with pytest.raises(error, match=message):
        DPCategoricalMixture(emission, **SETTINGS).fit(np.minimum(counts(), 1))


def test_two_priors_are_one_too_many():
    with pytest.raises(ValueError, match=r"category_prior=0.3 is for an emission given by name, not for Multi"):
        DPCategoricalMixture(Multinomial(), category_prior=0.3, **SETTINGS).fit(counts())


@pytest.mark.parametrize("sampler", ["slice", "scir"])
@pytest.mark.parametrize("least", [6, [6, 7, 8, 9]])
def test_categories_are_set_by_the_estimator_or_by_its_emission(least, sampler, tmp_path):
    X, unknown = codes(), np.full((1, 4), 9.0)
    settings = {"min_categories": least, "handle_unknown": "ignore"}
    by_name = DPCategoricalMixture("categorical", sampler=sampler, **settings, **SETTINGS)
    mixture = DPCategoricalMixture(Categorical(**settings), sampler=sampler, **SETTINGS)
    by_path = DPCategoricalMixture("categorical", sampler=sampler, **SETTINGS)
    by_path.set_params(**{f"emission__{name}": value for name, value in settings.items()})
    with pytest.raises(ValueError, match="but the fitted number of categories of the column is"):
        DPCategoricalMixture(Categorical(min_categories=least), **SETTINGS).fit(X).score(unknown)
    for method in ("fit", "partial_fit") if sampler == "scir" else ("fit",):
        expected = getattr(by_name, method)(X).score_samples(np.concatenate((X, unknown)))
        for other in (mixture, by_path):
            found = getattr(other, method)(X).score_samples(np.concatenate((X, unknown)))
            assert other.n_categories_.tolist() == np.broadcast_to(least, 4).tolist()
            assert found.tobytes() == expected.tobytes()
    mixture.save(tmp_path / "mixture")
    assert load(tmp_path / "mixture").score(unknown) == mixture.score(unknown)


def test_categories_that_are_set_twice_are_refused():
    mixture = DPCategoricalMixture(Categorical(min_categories=4), min_categories=4, **SETTINGS)
    sentence = (
        r"Both DPCategoricalMixture and its emission Categorical\(min_categories=4\) have min_categories: set only"
    )
    with pytest.raises(ValueError, match=sentence):
        mixture.fit(codes())


def test_codes_are_for_mixtures_alone():
    sentence = (
        r"^ExponentialFamilyAdmixture needs a family of tokens \(bind_tokens\), which the emission Categorical does "
        r"not offer \('bernoulli', 'gaussian', 'multinomial', 'poisson' do\)\.$"
    )
    with pytest.raises(IncompatibleError, match=sentence):
        ExponentialFamilyAdmixture(2, emission=Categorical()).fit(codes())
    with pytest.raises(
        ValueError, match=r"'emission' parameter of ExponentialFamilyAdmixture must be .* 'categorical'"
    ):
        ExponentialFamilyAdmixture(2, emission="categorical").fit(codes())
