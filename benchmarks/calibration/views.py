"""Views of columns: `CrossCat`."""

from __future__ import annotations

import numpy as np

from skmanifold import CrossCat
from skmanifold.emissions import Categorical, Columns, Gaussian

from . import _quantities as q
from ._settings import Setting

TITLE = "CrossCat"


def same_view(first, second):
    """Whether two columns share a view."""

    def read(draw, X):
        return float(draw["column_labels"][first] == draw["column_labels"][second])

    return read


QUANTITIES = {
    "log joint density": q.number("log_joint"),
    "number of views": q.number("n_views"),
    "concentration of the views": q.number("view_concentration"),
    "two numbers in one view": same_view(0, 1),
    "a number and a category in one view": same_view(0, 3),
    "two categories in one view": same_view(2, 3),
}


def _columns(numbers, categories):
    return Columns([("numbers", numbers, [0, 1]), ("categories", categories, [2, 3])])


GIVEN = _columns(Gaussian("diag", np.zeros(2), 0.1, 1.0, 5.0), Categorical(0.5, min_categories=3))
DRAWN = _columns(Gaussian("diag", np.zeros(2), covariance_scale=1.0), Categorical(None, min_categories=3))


def _setting(name, title, emission, **others):
    shape = {"n_samples": 20, "n_features": 4}
    return Setting(f"views_{name}", title, CrossCat(emission, n_chains=1), shape, QUANTITIES, **others)


SETTINGS = [
    _setting("given", "view_slice, given hyperparameters", GIVEN),
    _setting("drawn", "view_slice, drawn hyperparameters", DRAWN),
]
SETTINGS.append(SETTINGS[1].with_missing())
SETTINGS.append(
    _setting("wrong_prior", "view_slice, another view_concentration_prior", GIVEN, kind="wrong")._replace(
        fit={"view_concentration_prior": (8.0, 1.0)}
    )
)
