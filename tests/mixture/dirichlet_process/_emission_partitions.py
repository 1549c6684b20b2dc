"""The exact posterior over partitions of five rows for each emission and for tables, by enumeration."""

import numpy as np

from skmanifold.emissions import Columns

from ._cell_rows import BernoulliRows, CategoricalRows, MultinomialRows, NegativeBinomialRows, PoissonRows, Rows
from ._direction_rows import DirectionRows, SparseDirectionRows
from ._gaussian_rows import DiagRows, FullRows, SphericalRows, TiedRows

N_ROWS = 5


class TableRows(Rows):
    """Blocks of columns that are independent given the component; `blocks` are the rows of each."""

    def __init__(self, *blocks):
        self.blocks = blocks
        self.ends = np.cumsum([block.n_features for block in blocks])
        super().__init__(np.concatenate([block.X for block in blocks], axis=1))
        for block in blocks:
            self.hyper |= {name: value for name, value in block.hyper.items() if name == "degrees"}

    has_missing_draws = True

    def divided(self, X):
        """Columns of each block."""
        return np.split(X, self.ends[:-1], axis=-1)

    def changed(self, *, X=None, **hyper):
        parts = self.divided(self.X if X is None else np.asarray(X, float))
        return TableRows(
            *(
                block.changed(X=part, **(hyper if set(hyper) <= set(block.hyper) else {}))
                for block, part in zip(self.blocks, parts, strict=True)
            )
        )

    @property
    def emission(self):
        places = np.split(np.arange(self.n_features), self.ends[:-1])
        return Columns(
            [
                (f"b{i}", block.emission, list(place))
                for i, (block, place) in enumerate(zip(self.blocks, places, strict=True))
            ]
        )

    def log_likelihood(self, clusters):
        return sum(block.log_likelihood(clusters) for block in self.blocks)

    def draw_components(self, n, rng):
        return [block.draw_components(n, rng) for block in self.blocks]

    def draw_rows(self, components, labels, rng):
        drawn = (block.draw_rows(own, labels, rng) for block, own in zip(self.blocks, components, strict=True))
        return np.concatenate(list(drawn), axis=-1)

    def draw_missing(self, labels, rng):
        drawn = (block.draw_missing(labels, rng) if block.has_missing_draws else block.X for block in self.blocks)
        return np.concatenate(list(drawn), axis=-1)


# --- the cases -------------------------------------------------------------------------------------------

_NUMBERS = [(1.1, 0.2), (0.3, 0.9), (-1.4, -0.5), (-0.6, -1.7), (0.4, -0.3)]
_DIRECTIONS = [(0.9, 0.1, 0.42), (0.5, 0.8, 0.3), (-0.3, 0.9, -0.5), (-0.7, -0.4, -0.6), (0.3, -0.9, 0.3)]
_UNITS = _DIRECTIONS / np.linalg.norm(_DIRECTIONS, axis=1, keepdims=True)
_OF_DIRECTIONS = {"cosine": 0.7, "strength": 1.5}
_MATRIX = ((0.6, 0.15), (0.15, 0.4))
_NORMAL = {"mean": np.array([0.2, -0.1]), "kappa": 0.3}


def _holes(X, *cells):
    X = np.array(X, float)
    for cell in cells:
        X[cell] = np.nan
    return X


def _with_and_without(name, rows, *cells):
    return {name: rows, f"{name}, missing": rows.changed(X=_holes(rows.X, *cells))}


CASES: dict[str, Rows] = {
    **_with_and_without("full", FullRows(_NUMBERS, **_NORMAL, psi=_MATRIX, degrees=4.0), (1, 0), (3, 1)),
    "full, one missing": FullRows(_holes(_NUMBERS, (1, 0)), **_NORMAL, psi=_MATRIX, degrees=4.0),
    **_with_and_without("tied", TiedRows(_NUMBERS, **_NORMAL, psi=_MATRIX, degrees=4.0), (1, 0), (3, 1)),
    **_with_and_without("diag", DiagRows(_NUMBERS, **_NORMAL, psi=(0.6, 0.4), degrees=3.0), (1, 0), (3, 1), (0, 1)),
    **_with_and_without("spherical", SphericalRows(_NUMBERS, **_NORMAL, psi=0.5, degrees=3.0), (1, 0), (3, 1), (0, 1)),
    **_with_and_without(
        "bernoulli",
        BernoulliRows(
            [(1, 1, 0), (1, 1, 1), (0, 0, 1), (0, 1, 0), (1, 0, 0)], ones=(0.4, 0.5, 0.3), zeros=(0.3, 0.6, 0.4)
        ),
        (1, 0), (3, 1), (0, 2),
    ),
    **_with_and_without(
        "poisson",
        PoissonRows([(1, 0), (3, 1), (0, 4), (2, 3), (5, 0)], shape=(1.2, 0.8), rate=(0.5, 0.4)),
        (1, 0), (3, 1), (0, 1),
    ),
    **_with_and_without(
        "negative binomial",
        NegativeBinomialRows(
            [(1, 0), (3, 1), (0, 9), (2, 3), (12, 0)], dispersion=(0.8, 0.3), shape=(1.2, 0.8), rate=(0.5, 0.7)
        ),
        (1, 0), (3, 1), (0, 1),
    ),
    "multinomial": MultinomialRows([(3, 0, 1), (2, 1, 0), (0, 3, 1), (1, 2, 2), (4, 0, 0)], prior=(0.6, 0.6, 0.6)),
    **_with_and_without(
        "categorical",
        CategoricalRows([(0, 1, 1), (0, 1, 0), (1, 0, 1), (1, 2, 1), (0, 2, 0)], prior=0.4, widths=(2, 3, 2)),
        (1, 2), (3, 1), (0, 0),
    ),
    **_with_and_without(
        "full and categorical",
        TableRows(
            FullRows(_NUMBERS, **_NORMAL, psi=((1.5, 0.2), (0.2, 1.2)), degrees=4.0),
            CategoricalRows([(0, 1), (0, 1), (1, 0), (1, 2), (0, 2)], prior=1.0, widths=(2, 3)),
        ),
        (1, 0), (3, 1), (0, 2), (3, 3),
    ),
    **_with_and_without(
        "diag, bernoulli and poisson",
        TableRows(
            PoissonRows([(1,), (3,), (0,), (2,), (5,)], shape=(1.2,), rate=(0.5,)),
            DiagRows(_NUMBERS, **_NORMAL, psi=(2.0, 1.5), degrees=3.0),
            BernoulliRows([(1,), (1,), (0,), (0,), (1,)], ones=(1.4,), zeros=(1.3,)),
        ),
        (1, 0), (3, 1), (0, 2), (3, 3),
    ),
    "directions": DirectionRows(_UNITS, concentration="per_component", **_OF_DIRECTIONS),
    "directions, shared": DirectionRows(_UNITS, concentration="shared", **_OF_DIRECTIONS),
    "directions, given": DirectionRows(_UNITS, concentration=2.0, **_OF_DIRECTIONS),
    "directions, sparse": SparseDirectionRows(_UNITS, concentration="shared", **_OF_DIRECTIONS),
}  # fmt: skip
