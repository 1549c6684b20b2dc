"""Files that an earlier version wrote load, answer as they did, and their streams go on as they would have."""

import json

import numpy as np
import pytest

from skmanifold import load

from ._golden import GOLDEN, NAMES, all_answers

EXPECTED = json.loads((GOLDEN / "answers.json").read_text())


def test_every_case_has_a_file():
    assert {path.stem for path in GOLDEN.glob("*.npz")} == set(NAMES) == set(EXPECTED)


@pytest.mark.filterwarnings("ignore:EM stopped after")
@pytest.mark.parametrize("name", NAMES)
def test_what_an_earlier_version_saved_goes_on(name):
    found = all_answers(name, load(GOLDEN / f"{name}.npz"))
    assert len(found) == len(EXPECTED[name])
    for said, wanted in zip(found, EXPECTED[name], strict=True):
        assert said.keys() == wanted.keys()
        for method, values in wanted.items():
            if isinstance(np.ravel(values)[0], str):
                assert said[method] == values, method
            else:
                np.testing.assert_allclose(said[method], values, rtol=1e-6, atol=1e-9, err_msg=method)


@pytest.mark.parametrize("name", ["DPCategoricalMixture-slice", "codes", "dp-rows-categorical"])
def test_a_sampler_keeps_the_default_of_the_version_that_saved_it(name):
    assert load(GOLDEN / f"{name}.npz").sampler_.n_split_merge == 3
