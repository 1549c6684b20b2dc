"""DPCategoricalMixture among scikit-learn's pipelines, searches, data frames and callbacks."""

import pytest
from sklearn.model_selection import GridSearchCV

from skmanifold import DPCategoricalMixture
from skmanifold.samplers import SCIR, SGRLD, Slice

from ..exponential_family._mixtures import make, small_table

# Searches and pipelines


def test_grid_search_over_samplers_and_their_parameters():
    grid = [
        {"sampler": ["slice", SCIR(0.1), SGRLD(step_size=0.001)]},
        {"sampler": ["slice"], "sampler__n_split_merge": [0, 3]},
        {"sampler__n_restricted_scans": [2]},
        {"sampler": ["scir"], "sampler__step_size": [0.05], "weights_sampler": [None, "sgrld", SCIR(0.2)]},
    ]
    search = GridSearchCV(make("categorical"), grid, cv=2, error_score="raise").fit(small_table())
    ran = [
        type(make("categorical").set_params(**params).fit(small_table()).sampler_)
        for params in search.cv_results_["params"]
    ]
    assert ran == [Slice, SCIR, SGRLD, Slice, Slice, Slice, SCIR, SCIR, SCIR]
    assert len(set(search.cv_results_["mean_test_score"])) > 6


def test_parameters_of_a_sampler_given_by_name_can_be_set():
    mixture = make("categorical").set_params(sampler__n_split_merge=2)
    assert mixture.sampler.get_params() == Slice(n_split_merge=2).get_params()
    assert mixture.fit(small_table()).sampler_.n_split_merge == 2
    assert mixture.sampler_ is not mixture.sampler
    mixture.set_params(sampler="scir", sampler__control_variate="stored")
    assert (mixture.sampler.step_size, mixture.sampler.control_variate) == (0.1, "stored")  # of a mixture, not of SCIR
    with pytest.raises(ValueError, match="Invalid parameter 'n_split_merge' for estimator SCIR"):
        mixture.set_params(sampler__n_split_merge=7)
    with pytest.raises(
        ValueError, match=r"Unknown sampler 'slide' for DPCategoricalMixture: .*'slice', 'scir', 'sgrld'"
    ):
        mixture.set_params(sampler="slide", sampler__n_split_merge=7)


# Interruption


def test_the_interrupt_while_the_point_partition_is_sought_leaves_no_trace(monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("skmanifold.mixture._dirichlet_process.fit_strategy.point_estimate", interrupt)
    mixture = DPCategoricalMixture("categorical", max_iter=4, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        mixture.fit(small_table())
    assert vars(mixture).keys() == mixture.get_params(deep=False).keys()


def test_set_params_reaches_into_a_sampler_of_weights_given_by_name():
    mixture = DPCategoricalMixture(sampler="scir", weights_sampler="scir").set_params(weights_sampler__step_size=0.3)
    assert mixture.weights_sampler.step_size == 0.3
    assert mixture.sampler == "scir"
