"""A table with planted views, and `CrossCat` fitted to it."""

from functools import cache

import numpy as np
import pandas as pd

from skmanifold import CrossCat

SHORT = {"max_iter": 4, "burn_in": 2, "thin": 1, "n_chains": 1, "random_state": 0}
N = 200


def planted():
    """A table with two views and two columns of noise, in mixed order, and the groups of the rows in both views."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(3, size=N), rng.integers(2, size=N)
    table = pd.DataFrame(
        {
            "a": 4.0 * first + rng.normal(size=N),
            "noise": rng.normal(size=N),
            "b": 5.0 * second + rng.normal(size=N),
            "kind": np.array(["x", "y", "z"])[np.where(rng.random(N) < 0.9, first, rng.integers(3, size=N))],
            "c": -4.0 * (first == 1) + rng.normal(size=N),
            "d": 100.0 - 30.0 * second + 8.0 * rng.normal(size=N),
            "seen": rng.random(N) < np.where(second, 0.9, 0.1),
            "coin": np.array(["h", "t"])[rng.integers(2, size=N)],
        },
        index=np.arange(1000, 1000 + N),
    )
    return table.mask(rng.random(table.shape) < 0.05), first, second


TABLE, FIRST, SECOND = planted()
ROWS_OF_EACH = ["predict", "transform", "score_samples", "uncertainty", "predict_proba", "surprisal", "impute"]


@cache
def model_of_table():
    """Never change it."""
    return CrossCat(max_iter=40, n_chains=2, random_state=0).fit(TABLE)


@cache
def model_of_numbers():
    """Never change it; and its rows."""
    X = TABLE[["a", "noise", "b", "c"]].to_numpy()
    return CrossCat(max_iter=10, n_chains=1, random_state=0).fit(X), X


def answers(model, X):
    """What each method of rows returns, as arrays whose first axis is that of the rows."""
    found = {name: getattr(model, name)(X) for name in ROWS_OF_EACH}
    found["predict_proba"] = np.hstack(found["predict_proba"])
    chosen = model.conditional(X, [1, 3])
    found["mean"], found["variance"] = chosen.mean(), chosen.variance()
    return {name: rows.to_numpy() if isinstance(rows, pd.DataFrame) else rows for name, rows in found.items()}
