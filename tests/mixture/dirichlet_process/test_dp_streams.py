"""Samplers of gamma variables and streams serve every emission of categories in `DPMixture`; others are refused."""

import numpy as np
import pytest

from skmanifold import DPCategoricalMixture, DPMixture, load
from skmanifold.emissions import Categorical, Gaussian, Multinomial
from skmanifold.models import IncompatibleError

from ..exponential_family._mixtures import data_of, learned, predicted

SHORT = {"max_iter": 6, "burn_in": 2, "thin": 1, "total_samples": 200, "random_state": 0}
NAMES = {"multinomial": Multinomial, "categorical": Categorical}


def both(emission, sampler, first):
    """The mixture and the preset with the same prior and the same initial labels."""
    settings = {"sampler": sampler, "init": np.arange(first) % 4, **SHORT}
    return DPMixture(NAMES[emission](0.5), clusters="components", **settings), DPCategoricalMixture(
        NAMES[emission](0.5), **settings
    )


@pytest.mark.parametrize("sampler", ["scir", "sgrld", "sgrhmc"])
@pytest.mark.parametrize("emission", NAMES)
def test_fits_and_streams_are_those_of_the_preset(emission, sampler, tmp_path):
    X = data_of(emission)
    for steps in (("fit", "partial_fit"), ("partial_fit", "partial_fit")):
        mixture, preset = both(emission, sampler, X.shape[0])
        for step, rows in zip(steps, (X, X[:30]), strict=True):
            assert learned(getattr(mixture, step)(rows)) == learned(getattr(preset, step)(rows))
            assert predicted(mixture, X) == predicted(preset, X)
        assert mixture.n_batch_iter_ == preset.n_batch_iter_ == steps.count("partial_fit")
        assert not hasattr(mixture, "labels_")
        mixture.save(tmp_path / "mixture")
        saved = load(tmp_path / "mixture")
        assert predicted(saved.partial_fit(X[:20]), X) == predicted(mixture.partial_fit(X[:20]), X)


def test_chains_start_from_seeds():
    table, settings = data_of("categorical"), {"sampler": "scir", "max_iter": 1, "thin": 1, "random_state": 0}
    mixture, preset = (kind("categorical", **settings).fit(table) for kind in (DPMixture, DPCategoricalMixture))
    assert mixture.posterior_["n_components"][0, 0] < 0.7 * preset.posterior_["n_components"][0, 0]


@pytest.mark.parametrize("emission", ["auto", "bernoulli", "gaussian", Gaussian("tied"), "poisson", "von_mises_fisher"])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_emissions_without_categories_are_refused_in_one_sentence(emission, method):
    mixture = DPMixture(emission, sampler="scir", **SHORT)
    X = np.random.default_rng(0).integers(0, 2, (12, 3)).astype(float)
    X[:, 0] = 1.0  # no row is zero
    with pytest.raises(IncompatibleError, match=r"^SCIR updates probabilities of categories, .* do\)\.$"):
        getattr(mixture, method)(X)
    assert vars(mixture).keys() == mixture.get_params(deep=False).keys()


def test_a_stream_continues_with_the_same_emission():
    mixture = DPMixture("categorical", sampler="scir", init=3, **SHORT).partial_fit(data_of("categorical"))
    with pytest.raises(ValueError, match=r"Multinomial\(\), but the fitted model has Categorical\(\): call fit\."):
        mixture.set_params(emission="multinomial").partial_fit(np.ones((2, 5)))
    assert mixture.set_params(emission="categorical").partial_fit(data_of("categorical")).n_batch_iter_ == 2
