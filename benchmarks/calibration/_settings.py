"""What a setting of the calibration consists of, and one simulation."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from skmanifold.metrics import calibration_ranks

DENSITIES = "log joint density", "log likelihood"  # names of quantities
N_DRAWS = 39  # intervals of 50 and 90% have exactly these levels


class Setting(NamedTuple):
    """An estimator with all hyperparameters given, the size of the data, and the quantities whose ranks are computed.

    Parameters
    ----------
    name : str
        Name of the file of results.
    title : str
        Name in tables.
    estimator : estimator
        Parameters other than those of the schedule and the seed.
    shape : dict
        Keyword arguments of `sample_prior`.
    quantities : dict of str to callable
        Functions of a draw and X.
    thin : int
        Number of passes between draws.
    burn_in : int
        Number of discarded passes.
    fit : dict
        Parameters that `fit` has in place of those of the prior, in known-wrong variants.
    kind : str
        "exact", "approximate" or "wrong".
    prepare : callable or None
        ``prepare(estimator, X, rng)`` returns what is passed to `fit`.
    """

    name: str
    title: str
    estimator: Any
    shape: dict[str, Any]
    quantities: dict[str, Callable[[dict, Any], float]]
    thin: int = 25
    burn_in: int = 100
    fit: dict[str, Any] = {}  # noqa: RUF012
    kind: str = "exact"
    prepare: Callable[[Any, Any, np.random.Generator], Any] | None = None

    def of_other_rows(self, name, title, prepare):
        """The setting with rows that differ from those drawn, so that their density is not known."""
        quantities = {key: of for key, of in self.quantities.items() if key not in DENSITIES}
        changed = {"name": f"{self.name}_{name}", "title": f"{self.title}, {title}"}
        return self._replace(**changed, prepare=prepare, quantities=quantities)

    def with_missing(self):
        """The setting with a fifth of the cells missing at random."""
        return self.of_other_rows("missing", "missing cells", hide_cells)


def hide_cells(estimator, X, rng):
    """X with missing cells."""
    return np.where(rng.random(X.shape) < 0.2, np.nan, X)


def simulate(setting, number):
    """Draw from the prior, fit, and return the rank and the autocorrelation of the draws for each quantity.

    Settings have seeds of their own: otherwise chance would favour the same quantities in all of them.
    """
    seed = (zlib.crc32(setting.name.encode()) + number) % 2**32
    estimator = clone(setting.estimator).set_params(random_state=seed, thin=setting.thin, burn_in=setting.burn_in)
    estimator.set_params(max_iter=setting.burn_in + N_DRAWS * setting.thin)
    X, truth = estimator.sample_prior(**setting.shape, random_state=seed, return_parameters=True)
    estimator.set_params(**setting.fit)
    rng = np.random.default_rng(seed)
    rows = X if setting.prepare is None else setting.prepare(estimator, X, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny data sets may have few rows per component, or equal rows
        estimator.fit(rows)
    draws = [{name: values[0, i] for name, values in estimator.posterior_.items()} for i in range(N_DRAWS)]
    found = {}
    for name, quantity in setting.quantities.items():
        values = np.array([quantity(draw, X) for draw in draws])
        true = np.round(quantity(truth, X), 9)  # equal numbers may differ by rounding
        rank = calibration_ranks([true], [np.round(values, 9)], random_state=seed)[0]
        found[name] = int(rank), _autocorrelation(values)
    return found


def _autocorrelation(values):
    """Of successive draws; 0 for constants."""
    gaps = values - values.mean()
    squares = gaps @ gaps
    return float(gaps[1:] @ gaps[:-1] / squares) if squares > 0 else 0.0
