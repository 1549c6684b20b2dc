"""Parameters that are set and have no effect with the sampler that is chosen: one warning says so."""

import re
import warnings

import numpy as np
import pytest

from skmanifold import (
    DPCategoricalMixture,
    DPMixture,
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
    SubspaceMixture,
)

X = np.random.default_rng(0).poisson(2, (20, 6))
SHORT = {"max_iter": 4, "thin": 1, "random_state": 0}
UNREAD = [
    (StochasticLDA(2, sampler="esca", batch_size=7, **SHORT), "batch_size=7 has no effect with ESCA"),
    (StochasticLDA(2, sampler="gibbs", batch_size=7, **SHORT), "batch_size=7 has no effect with Gibbs"),
    (StochasticLDA(2, sampler="cvb0", n_local_sweeps=7, **SHORT), "n_local_sweeps=7 has no effect with CVB0"),
    (StochasticLDA(2, sampler="vb", batch_size=7, **SHORT), "batch_size=7 has no effect with MeanField"),
    (StochasticLDA(2, sampler="svb", n_local_sweeps=7, **SHORT), "n_local_sweeps=7 has no effect with Stochastic"),
    (StochasticLDA(2, n_predictive_draws=7, **SHORT), "n_predictive_draws=7 has no effect with ESCA"),
    (SphericalAdmixture(2, sampler="vb", batch_size=7, **SHORT), "batch_size=7 has no effect with MeanField"),
    (SphericalAdmixture(2, sampler="gmc", batch_size=7, **SHORT), "batch_size=7 has no effect with GMC"),
    (SphericalAdmixture(2, sampler="svb", n_doc_samples=7, **SHORT), "n_doc_samples=7 has no effect with Stochastic"),
    (OrthogonalSphericalAdmixture(2, batch_size=7, **SHORT), "batch_size=7 has no effect with ColumnGibbs"),
    (ExponentialFamilyAdmixture(2, n_predictive_draws=7, **SHORT), "n_predictive_draws=7 has no effect with ESCA"),
    (ExponentialFamilyMixture(2, n_predictive_draws=7, **SHORT), "n_predictive_draws=7 has no effect with ESCA"),
]
READ = [
    StochasticLDA(2, sampler="scir", batch_size=7, n_local_sweeps=7, n_local_burn_in=3, n_predictive_draws=7, **SHORT),
    StochasticLDA(2, sampler="svb", batch_size=7, **SHORT),
    StochasticLDA(2, sampler="gibbs", n_predictive_draws=7, **SHORT),
    StochasticLDA(2, batch_size=None, **SHORT),  # which is what they do
    StochasticLDA(2, batch_size=50, **SHORT),
    SphericalAdmixture(2, batch_size=7, n_doc_samples=7, n_predictive_draws=7, **SHORT),
    SphericalAdmixture(2, sampler="svb", batch_size=7, **SHORT),
    OrthogonalSphericalAdmixture(2, sampler="sggmc", batch_size=7, **SHORT),
    ExponentialFamilyAdmixture(2, sampler="gibbs", n_predictive_draws=7, **SHORT),
    DPCategoricalMixture(init=2, batch_size=7, **SHORT),
    DPMixture("categorical", init=2, batch_size=7, **SHORT),
]


def name(value):
    return f"{type(value).__name__}-{value.sampler}" if hasattr(value, "sampler") else None


@pytest.mark.parametrize(("estimator", "message"), UNREAD, ids=name)
def test_fit_says_which_parameter_its_sampler_does_not_read(estimator, message):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X)
    told = [str(warning.message) for warning in caught if "no effect" in str(warning.message)]
    assert len(told) == 1
    assert re.match(message, told[0])
    assert "only '" in told[0]


@pytest.mark.parametrize("estimator", READ, ids=name)
def test_fit_is_silent_about_parameters_that_are_read(estimator):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X)
    assert not [warning for warning in caught if "no effect" in str(warning.message)]


def test_parameters_that_some_samplers_read_exist():
    kinds = [StochasticLDA, SphericalAdmixture, OrthogonalSphericalAdmixture, DPCategoricalMixture, DPMixture]
    for kind in [*kinds, SubspaceMixture, ExponentialFamilyMixture, ExponentialFamilyAdmixture]:
        assert set(kind._read_by) <= set(kind().get_params())
        for reads in kind._read_by.values():
            assert any(reads(sampler()) for sampler in kind._samplers.values())
