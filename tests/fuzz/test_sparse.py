"""Every estimator and metric with matrices that are none, and with those that are unusual."""

import numpy as np
import pytest
import scipy.sparse as sp

from fuzz import _sparse_matrices
from fuzz._sparse_door import judge


def _broken():
    X = sp.csr_array(np.eye(3))
    X.indices[1] = 7
    return X


def _refuses(told):
    def call(X):
        raise ValueError(told)

    return call


@pytest.mark.parametrize(
    ("call", "X", "told"),
    [
        (lambda X: 0, _broken(), "accepted though it is no matrix"),
        (lambda X: X["none"], _broken(), "neither a ValueError nor a TypeError"),
        (_refuses("It says something,\nand more."), _broken(), "is not one sentence"),
        (_refuses("indices"), _broken(), "is not one sentence"),
        (lambda X: 0 if X.format == "csr" else int("no number"), sp.coo_array(np.eye(3)), "refused (invalid"),
        (lambda X: X.format == "csr", sp.csc_array(np.eye(3)), "another result"),
    ],
)
def test_the_fuzzer_sees_what_is_wrong(call, X, told):
    assert told in judge(call, X)


@pytest.mark.parametrize("kind", _sparse_matrices.FORMATS)
def test_alterations_make_both_matrices_and_none(kind):
    dense, rng = np.arange(24.0).reshape(4, 6), np.random.default_rng(0)
    n_broken = 0
    for _ in range(40):
        X = getattr(sp, f"{kind}_array")(dense, copy=True)
        _sparse_matrices.alter_structure(rng, X)
        try:
            _sparse_matrices.read(X)
        except _sparse_matrices.BrokenError:
            n_broken += 1
    assert 5 < n_broken < 40
