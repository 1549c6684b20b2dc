"""Why interpreted and compiled runs of a Dirichlet process differ in their last bits: Python's own log gamma, alone."""

import ctypes
import ctypes.util
import math
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

from skmanifold import DPCategoricalMixture
from skmanifold.datasets import make_categorical_mixture


def _print_traces():
    codes = make_categorical_mixture(40, 4, 2, n_categories=3, missing=0.1, random_state=0).data
    counts = np.random.default_rng(0).poisson(1.0, (40, 6))
    for emission, rows in (("categorical", codes), ("multinomial", counts)):
        mixture = DPCategoricalMixture(emission, max_iter=6, random_state=0).fit(rows)
        print(emission, *map(float.hex, mixture.log_density_trace_[0].tolist()), *mixture.labels_)


def _use_lgamma_of_the_c_library():
    of_c = ctypes.CDLL(ctypes.util.find_library("m")).lgamma
    of_c.restype, of_c.argtypes = ctypes.c_double, [ctypes.c_double]
    math.lgamma = lambda x: of_c(float(x))


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the C library's lgamma is looked up as on Linux")
def test_with_the_log_gamma_of_the_c_library_interpreted_and_compiled_runs_have_the_same_bytes():
    printed = {}
    for disabled, name in (("0", "compiled"), ("1", "lgamma of C"), ("1", "lgamma of Python")):
        environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled}
        done = subprocess.run(
            [sys.executable, __file__, name], env=environment, capture_output=True, text=True, check=True
        )
        printed[name] = done.stdout
    assert printed["lgamma of C"] == printed["compiled"]
    assert printed["lgamma of Python"] != printed["compiled"]


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="overflow encountered", category=RuntimeWarning)
    if sys.argv[1] == "lgamma of C":
        _use_lgamma_of_the_c_library()
    _print_traces()
