"""A user's function that writes to its argument is stopped in one sentence: the chain stays as it was."""

import numba
import numpy as np
import pytest

from skmanifold import sample
from skmanifold.manifolds import Euclidean, PositiveOrthant
from skmanifold.models import Density
from skmanifold.samplers import HMC, SCIR, SGLD, SGRHMC, SGRLD, Recipe


def overwrites(x, *more):
    x *= 0.5
    return -x


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("name", ["diffusion", "curl", "hamiltonian", "correction", "drift"])
def test_a_part_of_a_recipe_that_writes_to_its_argument_is_stopped(name, vectorized):
    parts = {"diffusion": np.eye(2), "curl": np.zeros((2, 2)), name: overwrites}
    target = Density(Euclidean(2), lambda x: -x, vectorized=True)
    with pytest.raises(ValueError, match=f"^{name} writes to a read-only array"):
        sample(target, Recipe(**parts, vectorized=vectorized), n_draws=2, random_state=0)


@pytest.mark.parametrize("name", ["inverse_metric", "divergence"])
def test_a_metric_that_writes_to_its_argument_is_stopped(name):
    parts = {"inverse_metric": lambda x: 1 + x**2, name: overwrites}
    for sampler in (SGRLD, SGRHMC):
        with pytest.raises(ValueError, match=f"^{name} writes to a read-only array"):
            sample(Density(Euclidean(2), lambda x: -x), sampler(**parts), n_draws=2, random_state=0)


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("name", ["grad_log_density", "log_density"])
def test_a_function_that_writes_to_its_argument_is_stopped(name, vectorized):
    functions = {"grad_log_density": lambda x: -x, "log_density": lambda x: -0.5 * (x * x).sum(axis=-1)}
    target = Density(Euclidean(2), **{**functions, name: overwrites}, vectorized=vectorized)
    with pytest.raises(ValueError, match=rf"^{name} writes to a read-only array; .* copy .*\.$"):
        sample(target, HMC(), n_draws=2, n_chains=2, random_state=0)


def test_functions_with_rows_and_priors_and_counts_that_write_are_stopped():
    options = {"n_samples": 3, "grad_log_density": lambda x, rows: np.tile(-x, (len(rows), 1))}
    for name in ("grad_log_density", "grad_log_prior"):
        target = Density(Euclidean(2), **{**options, name: overwrites})
        with pytest.raises(ValueError, match=f"^{name} writes to a read-only array"):
            sample(target, SGLD(), n_draws=2, batch_size=2, random_state=0)
    with pytest.raises(ValueError, match=r"^expected_counts writes to a read-only array"):
        sample(Density(PositiveOrthant(2), expected_counts=overwrites), SCIR(), n_draws=2, random_state=0)


def test_other_errors_of_a_function_stay_as_they_are():
    def fails(x):
        raise ValueError("the output array is read-only in another sense")

    with pytest.raises(ValueError, match="in another sense"):
        sample(Density(Euclidean(2), fails), SGLD(), n_draws=2, random_state=0)


@pytest.mark.parametrize("vectorized", [False, True])
def test_compiled_functions_see_a_copy(vectorized):
    @numba.njit("float64[:, ::1](float64[:, ::1])" if vectorized else "float64[::1](float64[::1])")
    def gradient(x):
        out = -x
        x[:] = 7.0
        return out

    draws = [
        sample(Density(Euclidean(2), f, vectorized=vectorized), SGLD(), n_draws=5, random_state=0).position
        for f in (gradient, lambda x: -x)
    ]
    np.testing.assert_array_equal(*draws)
