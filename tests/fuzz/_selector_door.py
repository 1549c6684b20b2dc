"""The door of names of columns: the columns that are meant are chosen, or the selector is refused with a sentence."""

import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from fuzz._cases import one_sentence
from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import Columns, Gaussian
from skmanifold.emissions._columns.layout import open_table
from skmanifold.emissions._columns.rows import chosen_columns
from skmanifold.mixture import _imputation as imputation

NAMES = ["a", "b", "c", "d", "e"]
TABLE = pd.DataFrame(np.random.default_rng(0).normal(size=(12, len(NAMES))), columns=NAMES)
_BROKEN = "FUZZ_BROKEN"


def prepare(folder):
    """Mixtures of a data frame, of a table of the emission Columns, and of an array."""
    if os.environ.get(_BROKEN):  # the test of this test: masks are read as indices
        imputation.chosen_columns = lambda whose, selector, columns: np.atleast_1d(selector).astype(int)
    settings = {"max_iter": 2, "burn_in": 1, "random_state": 0}
    mixtures = [
        ExponentialFamilyMixture(2, **settings).fit(TABLE),
        ExponentialFamilyMixture(2, emission=Columns([("x", Gaussian("diag"), NAMES)]), **settings).fit(TABLE),
        ExponentialFamilyMixture(2, **settings).fit(TABLE.to_numpy()),
    ]
    for mixture in mixtures:
        mixture.conditional(TABLE if hasattr(mixture, "feature_names_in_") else TABLE.to_numpy(), 0)
    return mixtures


def check(mixtures, seed):
    """Choose columns, write them in one of many ways, and compare what `conditional` and `chosen_columns` choose."""
    rng = np.random.default_rng(seed)
    mixture = mixtures[rng.integers(len(mixtures))]
    has_names = hasattr(mixture, "feature_names_in_")
    X = TABLE[rng.permutation(NAMES)] if rng.random() < 0.5 and "_layout" in vars(mixture) else TABLE
    X = X if has_names else X.to_numpy()
    wanted, how, selector = _selector(rng, has_names)
    found = []
    for choose in (
        lambda: [NAMES.index(name) if has_names else name for name in mixture.conditional(X, selector).columns],
        lambda: chosen_columns("it", selector, open_table(TABLE if has_names else X)).tolist() or None,
    ):
        try:
            found.append(choose())
        except (TypeError, ValueError) as error:
            if not one_sentence(error):
                return f"{how}: {error}"
            found.append(None)
    return None if found == [wanted, wanted] else f"{how}: {found} and not {wanted}"


def _selector(rng, has_names):
    """Columns, or None if they must be refused; how they are written; and a selector."""
    if rng.random() < 0.4:
        return _wrong(rng)
    chosen = rng.permutation(len(NAMES))[: rng.integers(1, len(NAMES) + 1)].tolist()
    kind = ["mask", "mask", "indices", "names", "slice", "single"][rng.integers(6)]
    if kind == "mask":
        chosen = sorted(chosen)
        return chosen, *_mask(rng, [column in chosen for column in range(len(NAMES))], has_names)
    if kind == "slice":
        ends = sorted((rng.integers(len(NAMES)), rng.integers(len(NAMES))))
        by_name = has_names and rng.random() < 0.5
        selector = slice(NAMES[ends[0]], NAMES[ends[1]]) if by_name else slice(ends[0], ends[1] + 1)
        return list(range(ends[0], ends[1] + 1)), f"{selector}", selector
    by_name = has_names and (kind == "names" or rng.random() < 0.5)
    cells = [NAMES[column] if by_name else column - len(NAMES) * int(rng.random() < 0.3) for column in chosen]
    if kind == "single":
        return chosen[:1], repr(cells[0]), cells[0] if by_name else [int, np.int64, np.int8][rng.integers(2)](cells[0])
    form = [list, tuple, np.array, pd.Series, pd.Index, pl.Series, pa.array][rng.integers(7)]
    return chosen, f"{form.__name__} of {cells}", form(cells)


def _mask(rng, cells, may_have_names=False):
    """A mask in one of the forms that libraries have, and the name of the form."""
    order = rng.permutation(len(cells))
    forms = {
        "list": lambda: cells,
        "tuple": lambda: tuple(cells),
        "list of numpy": lambda: [np.bool_(cell) for cell in cells],
        "array": lambda: np.array(cells),
        "objects": lambda: np.array(cells, dtype=object),
        "pandas": lambda: pd.Series(cells),
        "nullable": lambda: pd.Series(cells, dtype="boolean"),
        "pandas with names": lambda: pd.Series(np.array(cells)[order], index=np.array(NAMES, dtype=object)[order]),
        "polars": lambda: pl.Series(cells),
        "arrow": lambda: pa.array(cells),
        "function": lambda: lambda X: np.array(cells),
    }
    if not may_have_names:
        del forms["pandas with names"]
    how = list(forms)[rng.integers(len(forms))]
    return f"mask, {how}: {cells}", forms[how]()


def _wrong(rng):
    """Something that is no selector of columns."""
    length = [n for n in range(9) if n != len(NAMES)][rng.integers(8)]
    if rng.random() < 0.5:
        return None, *_mask(rng, (rng.random(length) < 0.5).tolist())
    wrong = [
        True,
        False,
        np.True_,
        np.array(True),
        [True, 1],
        [0, False, 2, True, 1],
        [np.True_, "a"],
        [[True] * len(NAMES)],
        np.ones((1, len(NAMES)), dtype=bool),
        [False] * len(NAMES),
        [True, None, False, True, True],
        pd.Series([True, pd.NA, False, True, True], dtype="boolean"),
        1.0,
        [0.0, 1.0],
        None,
        [],
        len(NAMES),
        [-len(NAMES) - 1],
        "q",
        ["a", "q"],
        slice(0.5, 2),
        {"a": True},
        {0, 1},
        b"a",
    ][rng.integers(24)]
    return None, repr(wrong), wrong
