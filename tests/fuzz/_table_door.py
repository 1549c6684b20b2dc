"""The door of tables: cells are read as they are or refused by name, and observed cells never change."""

import copy
import datetime
import os
import warnings
from decimal import Decimal
from fractions import Fraction
from numbers import Real

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from skmanifold import DPCategoricalMixture, DPMixture, ExponentialFamilyMixture, MixtureImputer, load
from skmanifold.emissions import Bernoulli, Categorical, Columns, Gaussian

from ._cases import one_sentence


class Broken:
    """A number that cannot be converted."""

    def __float__(self):
        raise RuntimeError("first line\nsecond line")


LIBRARIES = ["pandas", "polars", "pyarrow", "numpy"]
HASHES = [2**64 - 1, 2**64 - 2, 5]
COLOURS = ["blue", "red", " red"]
FITTED = {"height": "number", "age": "number", "flag": "binary", "colour": COLOURS, "code": [3, 1, 2], "hash": HASHES}
FLOATS = [0.5, -0.0, 1e-320, 1.25, -3.0, 2.0, 1e6, 7.125]
INTS = [0, 1, 2, 3, 7, 30, 100]
TEXTS = [*COLOURS, "", "1", "nan", "None", "\u00e9", "x" * 1000]
BAD_NUMBERS = [2**53 - 1, 2**53, 2**53 + 1, -(2**53), 2**63, 2**64 - 1, 2**70, 10**400, 10**5000, np.inf, 1e15, 1e17]
BAD_NUMBERS += [Decimal("1.10"), Decimal("sNaN"), Decimal(2**60), Fraction(1, 3), Fraction(10**400, 3)]
BAD_TEXTS = ["blue\0", "x" * 1001, "x" * 10**6, "\ud800", "\0", "unknown"]
OTHERS = [1j, b"blue", datetime.date(2020, 1, 1), datetime.timedelta(1), [1], {}, object(), Broken(), Ellipsis]
OTHERS += [np.zeros(1, [("a", int)])[0], np.str_("red"), np.float32(1.5), np.int8(3), True, "red", 1, 0.5]
MISSING = [None, np.nan, pd.NA, pd.NaT, Decimal("NaN")]
PANDAS = {
    "float": ["float64", "float32", "float16", "Float64", "object", "category", "Sparse[float64]", "double[pyarrow]"],
    "int": ["int64", "int8", "uint64", "Int64", "UInt64", "object", "category", "int64[pyarrow]", "float64"],
    "bool": ["bool", "boolean", "object", "category", "bool[pyarrow]"],
    "text": ["object", "string", "str", "category", "string[pyarrow]"],
}
PANDAS["float"].append(pd.ArrowDtype(pa.decimal128(30, 4)))
POLARS = {
    "float": [pl.Float64, pl.Float32, pl.Decimal(38, 4), pl.Object],
    "int": [pl.Int64, pl.Int8, pl.UInt64, getattr(pl, "Int128", pl.Int64), pl.Float64, pl.Object],
    "bool": [pl.Boolean, pl.Object],
    "text": [pl.String, pl.Categorical, pl.Object, pl.Enum([*COLOURS, "green"])],
}


def prepare(folder):
    """Fitted models; all kernels are compiled."""
    warnings.simplefilter("ignore")
    rows = fitted_rows()
    blocks = [("n", Gaussian(), ["height", "age"]), ("b", Bernoulli(), ["flag"])]
    blocks.append(("c", Categorical(handle_unknown="ignore"), ["colour", "code", "hash"]))
    models = _mixture("auto"), _mixture(Columns(blocks)), MixtureImputer(_mixture("auto"))
    codes = np.column_stack([np.arange(20) % 3, np.arange(20) % 4]).astype(float)
    coded = [
        DPCategoricalMixture("categorical", max_iter=4, burn_in=1, handle_unknown=how, random_state=0).fit(codes)
        for how in ("error", "ignore")
    ]
    models = [model.fit(rows) for model in models]
    return {"folder": folder, "rows": rows, "models": models, "codes": codes, "coded": coded}


def _mixture(emission):
    """A mixture with few kernels, or one whose posterior is drawn."""
    if os.environ.get("FUZZ_TABLES") == "em":
        return ExponentialFamilyMixture(2, emission=emission, sampler="em", max_iter=2, random_state=0)
    return DPMixture(emission, init=2, max_iter=4, burn_in=1, thin=1, random_state=0)


def fitted_rows():
    """Rows of the fitted models."""
    i = np.arange(24)
    return pd.DataFrame(
        {
            "height": np.where(i % 7 == 0, np.nan, np.sin(i)),
            "age": (i * 5) % 11,
            "flag": i % 3 == 0,
            "colour": [COLOURS[j % 3] if j % 5 else None for j in i],
            "code": pd.Categorical(i % 3 + 1, [3, 1, 2]),
            "hash": pd.Categorical(np.array(HASHES, np.uint64)[i % 3], np.array(HASHES, np.uint64)),
        }
    )


def check(prepared, seed):
    """One table, read by one model."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    kind = rng.choice(["new rows", "new rows", "fit", "codes"])
    try:
        told = {"new rows": _new_rows, "fit": _fit, "codes": _codes}[kind](prepared, rng)
    except _Wrong as wrong:
        told = str(wrong)
    return None if told is None else f"{kind}: {told}"


class _Wrong(Exception):
    """An invariant that does not hold."""


# Columns: the cells as the library has them, and a slow reader of these


def _column(rng, library, n, kind=None):
    """A column of a library, made of good cells and maybe bad ones."""
    kind = kind or rng.choice(["float", "int", "bool", "text"])
    pool = {"float": FLOATS, "int": INTS, "bool": [True, False], "text": TEXTS}[kind]
    cells = [pool[j] for j in rng.integers(len(pool), size=n)]
    bad = {"float": BAD_NUMBERS, "int": BAD_NUMBERS, "bool": OTHERS, "text": BAD_TEXTS}[kind]
    if rng.random() < 0.25:
        bad = OTHERS if rng.random() < 0.3 else bad
        for place in rng.integers(n, size=rng.integers(1, 3)):
            cells[place] = bad[rng.integers(len(bad))]
    if rng.random() < 0.6:
        missing = MISSING[rng.integers(len(MISSING))] if rng.random() < 0.3 else None
        share = rng.choice([0.1, 0.4, 1.0], p=[0.5, 0.45, 0.05])
        cells = [missing if rng.random() < share else cell for cell in cells]
    if kind == "int" and rng.random() < 0.08:
        cells = [*HASHES, *HASHES, *cells][:n]
    return _of_library(rng, library, cells, kind)


def _of_library(rng, library, cells, kind):
    if library == "numpy":
        array = np.empty(len(cells), dtype=object)
        array[:] = cells
        return array
    types = (PANDAS if library == "pandas" else POLARS)[kind]
    dtype = types[rng.integers(len(types))] if rng.random() < 0.8 else None
    if dtype == "category" and any(isinstance(cell, Decimal | Fraction) for cell in cells):
        dtype = "object"  # categories of these types are refused or become equal floats
    try:
        if library == "pandas":
            return pd.Series(cells, dtype=dtype)
        plain = [None if _is_missing(cell) else cell for cell in cells]
        if library == "polars" and any(map(_upsets_polars, plain)):
            return pl.Series(plain, dtype=pl.Object)
        return pl.Series(plain, dtype=dtype) if library == "polars" else pa.array(plain)
    except Exception:  # the library refuses these cells in this type
        if library == "pyarrow":
            return pa.array([None] * len(cells), pa.float64())
        return pd.Series(cells, dtype=object) if library == "pandas" else pl.Series(plain, dtype=pl.Object)


def _upsets_polars(cell):
    """Whether polars itself stops at this cell with what is no error of Python."""
    if isinstance(cell, Decimal):
        return not cell.is_finite()
    return isinstance(cell, int) and abs(cell) >= 10**4300


def _cells_of(column):
    """Python objects, None where missing, and the categories of the column's type."""
    cells = column.to_pylist() if isinstance(column, pa.Array | pa.ChunkedArray) else list(column)
    if str(getattr(column, "dtype", "")).startswith("datetime"):
        return [pd.Timestamp(0)], None  # a column of NaT alone is one of dates
    categories = None
    if isinstance(column, pd.Series) and isinstance(column.dtype, pd.CategoricalDtype):
        categories = column.cat.categories.tolist()
    if isinstance(column, pl.Series) and column.dtype == pl.Enum:
        categories = column.dtype.categories.to_list()
    return [None if _is_missing(cell) else cell for cell in cells], categories


def _is_missing(cell):
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return True
    if isinstance(cell, Decimal):
        return cell.is_qnan()
    return isinstance(cell, float | np.floating) and bool(np.isnan(cell))


def verdict(cells, categories=None):
    """What a column is: "bad", "empty", "text", "bool" or "number"."""
    values = [cell for cell in cells if cell is not None] if categories is None else categories
    kinds = {_kind(value) for value in values}
    if not kinds:
        return "empty"
    if len(kinds) > 1 or "bad" in kinds:
        return "bad"
    (kind,) = kinds
    if kind == "number" and categories is not None:
        whole = all(isinstance(value, int) for value in values)
        fits = any(low <= min(values) and max(values) < high for low, high in ((-(2**63), 2**63), (0, 2**64)))
        return kind if (whole and fits) or all(map(_equals_float, values)) else "bad"
    return "bad" if kind == "number" and not all(map(_is_exact, values)) else kind


def _kind(value):
    if isinstance(value, bool | np.bool_):
        return "bool"
    if type(value) in (str, np.str_):
        return "bad" if len(value) > 1000 or "\0" in value or any("\ud800" <= c <= "\udfff" for c in value) else "text"
    if not isinstance(value, Real | Decimal) or (isinstance(value, Decimal) and value.is_snan()):
        return "bad"
    return "number"


def _equals_float(value):
    try:
        return float(value) == value
    except OverflowError:
        return False


def _is_exact(value):
    return bool(np.isfinite(value)) if isinstance(value, float | np.floating) else abs(value) < 2**53


# New rows for fitted models


def _new_rows(prepared, rng):
    models = prepared["models"]
    chosen = int(rng.integers(3))
    model, library, n = models[chosen], str(rng.choice(LIBRARIES)), int(rng.integers(1, 9))
    mixture = model.mixture_ if chosen == 2 else model
    columns = {name: _like_fitted(rng, library, n, schema) for name, schema in FITTED.items()}
    lacking = None
    if library != "numpy":
        names = list(rng.permutation(list(columns))) if rng.random() < 0.5 else list(columns)
        lacking = str(names.pop()) if rng.random() < 0.05 else None
        columns = {str(name): columns[name] for name in names}
        if rng.random() < 0.3:
            columns["extra"] = _column(rng, library, n)
    X = _table(library, columns)
    bad, judged, may_differ = ({lacking} if lacking else set()), {}, False
    for place, (name, schema) in enumerate(FITTED.items()):
        if name == lacking:
            continue
        cells, categories = _cells_of(columns[name])
        judged[name] = cells
        fault = _fault(cells, categories, schema, lenient=chosen == 1)
        if fault == "bad":
            bad.add(place if library == "numpy" else name)
        may_differ |= fault == "other type"
    question = str(rng.choice(["predict_proba", "impute", "impute", "draws", "conditional"]))
    question = "impute" if question == "draws" and isinstance(mixture, ExponentialFamilyMixture) else question
    before = mixture.predict_proba(prepared["rows"])
    error, answer = None, None
    try:
        if question == "impute":
            answer = model.transform(X) if chosen == 2 else model.impute(X)
        elif question == "draws":
            answer = mixture.impute(X, n_draws=2, random_state=0)[1]
        elif question == "conditional":
            answer = mixture.conditional(X, ["height", "colour"])
        else:
            answer = mixture.predict_proba(X)
    except (ValueError, TypeError) as refusal:
        error = refusal
    _demand(np.array_equal(mixture.predict_proba(prepared["rows"]), before), "the model changed")
    if error is not None or bad:
        return _judge_refusal(error, bad, may_differ and question in ("impute", "draws"))
    if question == "predict_proba":
        _check_shares(answer, n)
    elif question == "conditional":
        _check_shares(answer.predict_proba()[1], n)
        _demand(np.isfinite(answer.mean()[:, 0]).all(), "a mean is not finite")
    else:
        _check_filled(library, columns, answer, judged)
    return None


def _like_fitted(rng, library, n, schema):
    """A column that mostly suits what was fitted."""
    if rng.random() < 0.12:
        return _column(rng, library, n)
    if schema == "number":
        return _column(rng, library, n, str(rng.choice(["float", "int"])))
    if schema == "binary":
        cells = [bool(bit) for bit in rng.integers(2, size=n)]
    else:
        cells = [schema[j] for j in rng.integers(len(schema), size=n)]
        if schema is HASHES and (library != "pandas" or rng.random() < 0.3):
            cells = [5] * n
        if rng.random() < 0.1:
            cells[0] = [2**64 - 3, 99, 7, "green", "red\0", 0.5][rng.integers(3 if schema is HASHES else 6)]
    cells = [None if rng.random() < 0.25 else cell for cell in cells]
    if library == "pandas" and schema is HASHES:
        return pd.Series(pd.Categorical(cells, [*HASHES, *({*cells} - {*HASHES, None})]))
    kind = "bool" if schema == "binary" else "text" if schema is COLOURS else "int"
    return _of_library(rng, library, cells, kind)


def _fault(cells, categories, schema, lenient):
    """ "bad" if the column must be refused, "other type" if its missing cells may be."""
    kind = verdict(cells, categories)
    observed = [cell for cell in cells if cell is not None]
    if kind == "bad":
        return kind
    if schema == "number":
        if kind == "text" or not all(map(_is_exact, observed)):
            return "bad"
        return "other type" if kind == "bool" else None
    if schema == "binary":
        return "bad" if kind == "text" or any(cell not in (0, 1) for cell in observed) else None
    if categories is None and any(kind == "number" and abs(cell) >= 2**53 for cell in observed):
        return "bad"
    plain = [cell.item() if isinstance(cell, np.generic) else cell for cell in observed]
    if any(cell not in schema for cell in plain) and not lenient:
        return "bad"
    if categories is None and schema is HASHES:
        return "other type"  # large whole numbers do not fit into columns of other numbers
    same = {kind} <= {"text" if schema is COLOURS else "number", "empty"}
    return None if same else "other type"


def _judge_refusal(error, bad, may_refuse):
    if error is None:
        return f"{bad} must be refused"
    if not one_sentence(error) or len(str(error)) > 3000:
        return f"not one sentence: {type(error).__name__} {str(error)[:200]}"
    if bad:
        named = any(repr(name) in str(error) for name in bad)
        return None if named else f"{bad} is not named: {error}"
    return None if may_refuse else f"a good table was refused: {error}"


def _table(library, columns):
    if library == "pandas":
        return pd.DataFrame(columns)
    if library == "polars":
        return pl.DataFrame(columns)
    return np.column_stack(list(columns.values())) if library == "numpy" else pa.table(columns)


def _columns_of(library, table):
    if library == "numpy":
        return list(table.T)
    names = table.column_names if library == "pyarrow" else table.columns
    return {name: table[name] for name in names}


def _check_filled(library, columns, filled, judged):
    found = _columns_of(library, filled)
    if library == "numpy":
        found = dict(zip(FITTED, found, strict=True))
    _demand(list(found) == list(columns), "other columns")
    for name, column in columns.items():
        after, _ = _cells_of(found[name])
        if name == "extra":
            before, _ = _cells_of(column)
            _demand(len(before) == len(after) and all(map(_same, before, after)), "an extra column changed")
            continue
        schema = FITTED[name]
        for old, new in zip(judged[name], after, strict=True):
            if old is not None:
                _demand(_same(old, new), f"{name}: {old!r} became {new!r}")
            elif isinstance(schema, list):
                _demand(new in schema, f"{name}: {new!r} is no category")
            elif schema == "binary":
                _demand(new in (0, 1), f"{name}: {new!r} is no truth value")
            else:
                _demand(isinstance(new, Real | Decimal) and np.isfinite(float(new)), f"{name}: filled by {new!r}")


def _same(old, new):
    if old is None or new is None or old is new:
        return old is new
    if isinstance(old, Real | Decimal) and isinstance(new, Real | Decimal):
        return old == new and (old != 0 or np.signbit(float(old)) == np.signbit(float(new)))
    return type(old) is type(new) and old == new


def _check_shares(shares, n):
    _demand(len(shares) == n and np.isfinite(shares).all(), "not finite")
    _demand(np.allclose(shares.sum(axis=1), 1.0), "no sum of 1")


def _demand(holds, what):
    if not holds:
        raise _Wrong(what)


# Fits


def _fit(prepared, rng):
    library, n = str(rng.choice(LIBRARIES)), int(rng.integers(6, 20))
    columns = {name: _column(rng, library, n) for name in "abc"[: rng.integers(1, 4)]}
    for kind, cells in (("float", FLOATS), ("text", COLOURS), ("bool", [True, False])):  # the kernels of all blocks
        columns[kind] = _of_library(rng, library, [cells[j % len(cells)] for j in range(n)], kind)
    X = _table(library, columns)
    bad, judged = set(), {}
    for place, (name, column) in enumerate(columns.items()):
        cells, categories = _cells_of(column)
        kind = verdict(cells, categories)
        dtype = str(getattr(column, "dtype", getattr(column, "type", "")))
        kind = "bad" if kind == "empty" and not dtype.lower().startswith("bool") else kind
        judged[name] = kind.replace("empty", "bool"), cells, categories
        if kind == "bad":
            bad.add(place if library == "numpy" else name)
    mixture = copy.deepcopy(prepared["models"][0])
    before = mixture.predict_proba(prepared["rows"])
    try:
        mixture.fit(X)
        error = None
    except (ValueError, TypeError) as refusal:
        error = refusal
    if error is not None:
        _demand(np.array_equal(mixture.predict_proba(prepared["rows"]), before), "the fitted model changed")
    if error is not None or bad:
        return _judge_refusal(error, bad, False)
    for (name, (kind, cells, categories)), found in zip(judged.items(), mixture.categories_, strict=True):
        if categories is None and kind != "text":
            _demand(found is None, f"{name} is not categorical")
        else:
            wanted = sorted({cell for cell in cells if cell is not None}) if categories is None else categories
            _demand(found.tolist() == wanted, f"{name} has the categories {found.tolist()[:5]}")
    _check_shares(mixture.predict_proba(X), n)
    _check_sample(library, mixture, judged)
    if rng.random() < 0.4:
        path = prepared["folder"] / "mixture"
        mixture.save(path)
        again = load(path)
        _demand(np.array_equal(again.predict_proba(X), mixture.predict_proba(X)), "the loaded model differs")
        _check_sample(library, again, judged)
    return None


def _check_sample(library, mixture, judged):
    drawn, _ = mixture.sample(8, random_state=0)
    found = _columns_of(library, drawn)
    found = dict(zip(judged, found, strict=True)) if library == "numpy" else found
    for (name, (kind, _, _)), categories in zip(judged.items(), mixture.categories_, strict=True):
        cells, _ = _cells_of(found[name])
        if categories is not None:
            _demand(all(cell in categories.tolist() for cell in cells), f"{name}: drawn {cells[:3]}")
        elif kind == "bool":
            _demand(all(cell in (0, 1) for cell in cells), f"{name}: drawn {cells[:3]}")
        else:
            whole = [cell for cell in cells if isinstance(cell, int)]
            _demand(all(map(np.isfinite, cells)), f"{name}: drawn {cells[:3]}")
            _demand(all(abs(cell) <= 2**53 for cell in whole), f"{name}: drawn {whole[:3]}")


# Codes


def _codes(prepared, rng):
    n, n_categories = int(rng.integers(1, 9)), [3, 4]
    pool = [0, 1, 2, 0.0, 1.0, np.int8(2), np.nan, None, np.float32(1), True]
    wrong = [3, 4, 10**6, 2**53 + 1, 2**64 - 1, -1, 0.5, np.inf, 10**400, 10**5000, 1j, "1", b"1", Decimal("sNaN")]
    wrong += [Broken(), [1], datetime.date(2020, 1, 1), Decimal(1), Fraction(2), Fraction(1, 3), Decimal("NaN")]
    cells = np.empty((n, 2), dtype=object)
    for row in cells:
        row[:] = [pool[j] for j in rng.integers(len(pool), size=2)]
    if rng.random() < 0.7:
        cells[rng.integers(n), rng.integers(2)] = wrong[rng.integers(len(wrong))]
    X, named = cells, dict(zip("uv", cells.T.tolist(), strict=True))
    form = rng.choice(["numpy", "pandas", "list", "polars"])
    try:
        if form == "pandas":
            X = pd.DataFrame(named)
        elif form == "polars" and not any(map(_upsets_polars, cells.flat)):
            X = pl.DataFrame(named)
        elif form == "list":
            X = cells.tolist()
    except Exception:  # the library refuses
        X = cells
    lenient = bool(rng.integers(2))
    model = prepared["coded"][lenient]
    kinds = [_code_fault(cell, n_categories[j], lenient) for row in cells for j, cell in enumerate(row)]
    before = model.predict_proba(prepared["codes"])
    try:
        answer, error = model.predict_proba(X), None
    except (ValueError, TypeError) as refusal:
        answer, error = None, refusal
    _demand(np.array_equal(model.predict_proba(prepared["codes"]), before), "the model changed")
    bad = {place % 2 for place, kind in enumerate(kinds) if kind}
    if form == "list" and any(isinstance(cell, str | bytes) for cell in cells.flat):
        bad = {0, 1}  # numpy makes strings of all cells
    if error is not None or bad:
        bad |= {"uv"[place] for place in bad}
        return _judge_refusal(error, bad, False)
    _check_shares(answer, n)
    return None


def _code_fault(cell, n_categories, lenient):
    if _is_missing(cell):
        return False
    if not isinstance(cell, Real | Decimal | np.bool_) or (isinstance(cell, Decimal) and cell.is_snan()):
        return True
    try:
        value = float(cell)
    except OverflowError:
        return True
    return not np.isfinite(value) or value < 0 or value % 1 != 0 or (value >= n_categories and not lenient)
