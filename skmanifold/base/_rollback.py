"""A fit that fails leaves the estimator unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sklearn.base import BaseEstimator

from ..utils._interrupts import plain_interrupts
from ..utils._sklearn import CALLBACK_STATE


@contextmanager
def all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Restore every attribute of the estimator if the block raises an error or is interrupted with Ctrl-C.

    Parameters
    ----------
    estimator : estimator instance
        The estimator that the block fits.

    Returns
    -------
    context : iterator of None
        For ``with``.
    """
    before = dict(estimator.__dict__)
    try:
        with plain_interrupts():
            yield
    except BaseException:
        kept = {name: estimator.__dict__[name] for name in CALLBACK_STATE if name in estimator.__dict__}
        estimator.__dict__.clear()
        estimator.__dict__.update(before, **kept)
        raise
