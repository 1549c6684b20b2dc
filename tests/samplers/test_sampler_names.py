"""Samplers by name, and the targets and positions that they refuse."""

import numpy as np
import pytest

from skmanifold import sample
from skmanifold.models import (
    IncompatibleError,
    banana,
    circle,
    gamma,
)
from skmanifold.samplers import (
    HMC,
    ON_DENSITIES,
    SCIR,
    SGFS,
    SGHMC,
    SGLD,
    SGNHT,
    SGRLD,
    GeometricBrownian,
)

pytestmark = pytest.mark.filterwarnings("ignore:The mean kinetic temperature")  # not the point here


def test_unknown_names_and_classes_are_refused():
    with pytest.raises(ValueError, match=r"^Unknown sampler 'mala': known names are 'hmc', 'nuts', "):
        sample(banana(), "mala")
    with pytest.raises(TypeError, match=r"^sampler must be an instance or a name, not the class SGLD"):
        sample(banana(), SGLD)
    with pytest.raises(TypeError, match=r"^sampler must be a name or an instance of a sampler; got 3"):
        sample(banana(), 3)


@pytest.mark.parametrize(
    "sampler", [sampler for sampler in ON_DENSITIES if sampler not in (SCIR, GeometricBrownian, SGFS)]
)
def test_names_are_samplers_with_defaults(sampler):
    target = banana()
    options = {"n_draws": 3, "burn_in": 40, "n_chains": 2, "random_state": 0, "position": np.tile([0.5, -1.1], (2, 1))}
    by_name = sample(target, sampler.short_name, **options)
    assert isinstance(by_name.sampler, sampler)
    np.testing.assert_array_equal(by_name.position, sample(target, sampler(), **options).position)


@pytest.mark.parametrize("sampler", [HMC(), SGLD(), SGHMC(), SGNHT()], ids=repr)
def test_flat_samplers_refuse_walls_and_spheres(sampler):
    for target, manifold in ((circle(), "Sphere"), (gamma(1.0), "PositiveOrthant")):
        message = rf"^{type(sampler).__name__} needs a flat space without boundary, which {manifold} does not offer"
        with pytest.raises(IncompatibleError, match=message):
            sample(target, sampler)


def test_points_outside_are_refused():
    with pytest.raises(ValueError, match="neg"):
        sample(gamma([1.0, 1.0]), SGRLD(), position=-np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"position must be of shape \(4, 2\), with one row per chain; got \(3,\)"):
        sample(gamma([1.0, 1.0]), SGRLD(), position=np.ones(3))
