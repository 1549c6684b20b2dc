"""Counter-based random streams, for custom samplers, models and emissions.

A key is a 64-bit integer. `fold_in` derives the key of a purpose, chain, pass, row or feature from a parent key. A draw
is a function of a key and a counter and does not depend on previous draws, so results do not depend on the number of
threads or the order of computations. All functions except `root_key` and `subkey` may be called in kernels compiled by
numba.
"""

from ._discrete_variates import poisson
from ._keys import Purpose, fold_in, random_bits, root_key, subkey, uniform
from ._variates import (
    exponential,
    fill_log_gamma_variates,
    fill_normal,
    fold_keys,
    gamma_variate,
    log_gamma_variate,
    normal,
    open_uniform,
    sample_rows,
)

__all__ = [
    "Purpose",
    "exponential",
    "fill_log_gamma_variates",
    "fill_normal",
    "fold_in",
    "fold_keys",
    "gamma_variate",
    "log_gamma_variate",
    "normal",
    "open_uniform",
    "poisson",
    "random_bits",
    "root_key",
    "sample_rows",
    "subkey",
    "uniform",
]
