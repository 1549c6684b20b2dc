"""States in files of earlier versions, which had one class for all, become the samplers' own."""

import numpy as np
import pytest

from skmanifold.inference._distributed_fits.stored_chains import _state_of
from skmanifold.persistence._decode import Decoder
from skmanifold.samplers import EM, ESCA, SCIR, SGHMC, SGLD, SGNHT, Gibbs

SHARED = {"position": 1.5, "key": 3, "n_steps": 7, "log_density": -2.5}
NOTHING = dict.fromkeys(("momentum", "thermostat", "statistics", "latents", "memory"))
ARRAYS = {"array0": np.arange(3.0)}
ARRAY = {"type": "array", "name": "array0"}
COVARIANCE = {"gradient": ARRAY, "noise": ARRAY, "keys": ARRAY, "coefficients": ARRAY, "covariance": None}
MEMORY = {
    "type": "named tuple",
    "class": "GradientMemory",
    "fields": {**COVARIANCE, "running": None, "anchor": None, "anchor_gradient": None, "declared": False},
}


def decoded(**fields):
    node = {"type": "named tuple", "class": "State", "fields": {**SHARED, **NOTHING, **fields}}
    return Decoder(ARRAYS).decode(node)


@pytest.mark.parametrize(
    ("sampler", "fields"),
    [
        (SGLD(), {"memory": MEMORY}),
        (SGHMC(), {"memory": MEMORY, "momentum": ARRAY}),
        (SGNHT(), {"memory": MEMORY, "momentum": ARRAY, "thermostat": ARRAY}),
        (SCIR(), {"position": ARRAY, "latents": ARRAY}),
        (EM(), {"statistics": [1, 2], "memory": 0.25}),
    ],
    ids=lambda given: getattr(given, "short_name", ""),
)
def test_what_a_state_holds_shows_whose_it_is(sampler, fields):
    state = decoded(**fields)
    assert type(state) is sampler.state_types[0]
    assert (state.key, state.n_steps, state.log_density) == (3, 7, -2.5)
    for name in set(fields) & set(state._fields) - {"memory"}:
        np.testing.assert_array_equal(getattr(state, name), ARRAYS["array0"] if fields[name] is ARRAY else fields[name])


@pytest.mark.parametrize("sampler", [ESCA(), Gibbs()], ids=repr)
def test_a_checkpoint_has_the_fields_of_a_state_by_name_or_a_state_of_the_one_class(sampler):
    (own,) = sampler.state_types
    wanted = own(**SHARED, statistics=[1, 2], latents=0)
    for stored in (decoded(statistics=[1, 2], latents=0), wanted._asdict(), wanted):
        state = _state_of(sampler, stored)
        assert type(state) is own
        assert state == wanted


@pytest.mark.parametrize("stored", [3, {"position": 1.5}, {**SHARED, "statistics": 1, "latents": 2, "more": 3}])
def test_what_is_no_state_of_the_sampler_is_refused(stored):
    with pytest.raises(ValueError, match="is not the state of a chain"):
        _state_of(ESCA(), stored)
