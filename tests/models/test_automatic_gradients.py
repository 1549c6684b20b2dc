import sys

import numpy as np
import pytest

from skmanifold import sample
from skmanifold.manifolds import Euclidean, Sphere
from skmanifold.models import Density
from skmanifold.samplers import HMC, SGLD

RNG = np.random.default_rng(0)
DATA = RNG.normal(1.0, 1.0, 50)
LIBRARIES = ["jax", "torch"]
by_library = pytest.mark.parametrize("library", LIBRARIES)


def density_from(library, manifold, *functions, **others):
    """The density, and the library's module of arrays; skips where the library is not installed."""
    pytest.importorskip(library)
    return getattr(Density, f"from_{library}")(manifold, *functions, **others)


def as_array_of(library):
    """The function that converts an array of numpy."""
    return pytest.importorskip("jax.numpy").asarray if library == "jax" else pytest.importorskip("torch").from_numpy


@by_library
def test_gradients_and_values_are_those_of_the_formula(library):
    target = density_from(library, Sphere(3), lambda x: 5 * x[2] - 2 * x[0] ** 2)
    x = RNG.normal(size=(4, 3))
    out = np.empty_like(x)
    target.grad_log_density(x, None, out)
    np.testing.assert_allclose(out, np.column_stack([-4 * x[:, 0], np.zeros(4), np.full(4, 5.0)]), rtol=1e-14)
    np.testing.assert_allclose(target.log_density(x), 5 * x[:, 2] - 2 * x[:, 0] ** 2, rtol=1e-14)


@by_library
def test_minibatches_are_scaled_and_the_prior_is_added_once(library):
    convert = as_array_of(library)
    target = density_from(
        library,
        Euclidean(1),
        lambda x, rows: -0.5 * (convert(DATA)[rows] - x[0]) ** 2,
        50,
        log_prior=lambda x: -0.5 * x[0] ** 2,
    )
    x, out = np.array([[0.3], [-1.0]]), np.empty((2, 1))
    target.grad_log_density(x, None, out)
    np.testing.assert_allclose(out[:, 0], DATA.sum() - 50 * x[:, 0] - x[:, 0])
    values = -0.5 * ((DATA - x) ** 2).sum(axis=1) - 0.5 * x[:, 0] ** 2
    np.testing.assert_allclose(target.log_density(x), values)
    draws = sample(target, SGLD(step_size=2e-3), n_draws=4000, n_chains=2, burn_in=200, batch_size=25, random_state=0)
    assert abs(draws.position.mean() - DATA.sum() / 51) < 0.05


@by_library
def test_a_missing_library_is_named(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"from_{library} needs {library}: pip install"):
        getattr(Density, f"from_{library}")(Euclidean(1), lambda x: -(x[0] ** 2))


@by_library
def test_a_prior_needs_samples(library):
    with pytest.raises(ValueError, match="require n_samples"):
        density_from(library, Euclidean(1), lambda x: -(x[0] ** 2), log_prior=lambda x: x[0])


@by_library
def test_states_of_the_library_are_not_changed(library):
    density = density_from(library, Euclidean(2), lambda x: -(x[0] ** 2) - x[1] ** 2)
    sample(density, HMC(step_size=0.1, n_steps=2), n_draws=3, random_state=0)
    if library == "jax":
        import jax.numpy as jnp

        assert jnp.ones(2).dtype == "float32"
