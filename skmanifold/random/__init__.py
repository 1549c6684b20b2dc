"""Counter-based random streams, for samplers, models and emissions of your own.

A key is 64 bits. `fold_in` makes the key of a purpose, chain, pass, row or feature out of its parent, and a draw
belongs to a key and a counter, never to what was drawn before: so a result does not depend on the number of threads, or
the order of work. All but `root_key` and `subkey`, which belong outside, may be called in kernels compiled by numba.
"""

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
    poisson,
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
