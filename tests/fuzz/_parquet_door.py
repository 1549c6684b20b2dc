"""Parquet files with other columns, values and bytes: refused, or read as a slow reader reads them."""

import math
import resource

import numpy as np
import polars
import pyarrow as pa
from pyarrow import parquet

from skmanifold.datasets import read_parquet
from skmanifold.datasets._save_corpus import counts_of_documents

from ._cases import altered_bytes, one_sentence
from ._text_door import judged

_MOST = 2**31 - 1
_COLUMNS = ("document", "word", "count")
TEXTS = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
INTEGERS = [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
ODD_COUNTS = [0, -1, 0.5, 2**31 - 1, 2**31, 2**40, math.nan, math.inf, None]
ODD_NAMES = ["", "a\0", "a\0\0", "a", "\u00e9", "z" * 1_000_000, "y" * 1_100_000, "new\nline", None]


def check(folder, seed):
    """Write files, read them by the library and by a slow reader, and compare."""
    rng = np.random.default_rng(seed)
    sort = bool(rng.random() < 0.3)
    names = {name: name for name in _COLUMNS}
    table = _table(rng)
    for _ in range(rng.choice([0, 1, 1, 1, 2])):
        if len(table):
            table = _CHANGES[rng.integers(len(_CHANGES))](rng, table, names)
    paths = _write(rng, folder, table)
    flipped = rng.random() < 0.35
    if flipped:
        path = paths[rng.integers(len(paths))]
        path.write_bytes(altered_bytes(rng, path.read_bytes()))
    given = paths if len(paths) > 1 else paths[0]
    before = _most_memory()
    try:
        found, error = content_of(read_parquet(given, sort=sort, **names)), None
    except ValueError as refusal:
        found, error = None, refusal
    if _most_memory() > before + 200e6:
        return f"{(_most_memory() - before) / 1e6:.0f} MB for {sum(path.stat().st_size for path in paths)} bytes"
    is_named = any(name in str(error) for name in (str(given), *map(str, paths), "Document "))
    if error is not None and one_sentence(error) and not is_named:
        return f"an error that does not name the file: {error}"
    wanted = slow(paths, names, sort, _rows_of_arrow if flipped else _rows_of_polars)
    return judged(wanted, found, error, may_refuse=flipped)


def _most_memory():
    """The most bytes that this process has had in memory so far."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def content_of(reader):
    """Documents, words and cells."""
    counts = counts_of_documents(list(reader), reader.shape[1])
    rows = np.repeat(np.arange(len(counts.indptr) - 1), np.diff(counts.indptr)).tolist()
    cells = dict(zip(zip(rows, counts.indices.tolist(), strict=True), counts.counts.tolist(), strict=True))
    if len(counts.indptr) != len(reader) + 1:
        return "other documents than names"
    return reader.documents.tolist(), reader.vocabulary, cells


def slow(paths, names, sort, rows_of):
    """Documents, words and cells of files; None if they must be refused."""
    columns = [name for name in names.values() if name is not None]
    if len(set(columns)) < len(columns):
        return None
    lines = []
    for path in paths:
        rows = rows_of(path, columns)
        if rows is None:
            return None
        lines += [row if len(row) == 3 else (*row, 1) for row in rows]
    if not lines or not all(_is_line(*line) for line in lines):
        return None
    documents = list(dict.fromkeys(document for document, _, _ in lines))
    if len({type(word) for _, word, _ in lines}) > 1:
        return None
    words = sorted({word for _, word, _ in lines}, key=lambda word: word.encode() if isinstance(word, str) else word)
    place = {word: i for i, word in enumerate(words)}
    row_of = {document: i for i, document in enumerate(documents)}
    order = [row_of[document] for document, _, _ in lines]
    if not sort and order != sorted(order):
        return None
    cells = {}
    for document, word, count in lines:
        cell = row_of[document], place[word]
        cells[cell] = cells.get(cell, 0) + int(count)
    if max(cells.values()) > _MOST:
        return None
    return documents, [str(word) for word in words], {cell: count for cell, count in cells.items() if count}


def _is_line(document, word, count):
    for name in (document, word):
        if not isinstance(name, str | int) or (isinstance(name, str) and len(name) > 2**20):
            return False
    return count is not None and count == count and abs(count) <= _MOST and count == int(count) and count >= 0


def _rows_of_polars(path, columns):
    """Lines of columns of the right types, as another library reads them."""
    try:
        table = polars.read_parquet(path, columns=columns, use_statistics=False)
    except (polars.exceptions.PolarsError, ValueError):
        return None
    types = dict(zip(table.columns, table.dtypes, strict=True))
    if any(not (types[name].is_integer() or _is_text(types[name])) for name in columns[:2]):
        return None
    if any(not (types[name].is_integer() or types[name].is_float()) for name in columns[2:]):
        return None
    return table.select(columns).rows()


def _is_text(kind):
    return kind in (polars.String, polars.Categorical, polars.Enum)


def _rows_of_arrow(path, columns):
    """Lines of columns of the right types, all in memory, without dictionaries."""
    try:
        with parquet.ParquetFile(path) as file:
            table = file.read(columns, use_threads=False)
            lists = [table.column(name).to_pylist() for name in columns]
    except (pa.ArrowException, ValueError, KeyError, OSError, NotImplementedError):
        return None
    kinds = [table.schema.field(name).type for name in columns]
    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    are_text = [pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in kinds]
    if not all(text or pa.types.is_integer(kind) for text, kind in zip(are_text[:2], kinds, strict=False)):
        return None
    if not all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds[2:]):
        return None
    return list(zip(*lists, strict=True))


# --- files -------------------------------------------------------------------------------------------------


def _table(rng):
    n = int(rng.integers(1, 40))
    documents = np.sort(rng.integers(0, 6, n)) if rng.random() < 0.8 else rng.integers(0, 6, n)
    columns = []
    for values in (documents, rng.integers(0, 8, n)):
        if rng.random() < 0.6:
            kind = TEXTS[rng.integers(3)]
            columns.append(pa.array([f"n\u00e4me {value}" for value in values]).cast(kind))
        else:
            columns.append(pa.array(values).cast(INTEGERS[rng.integers(7)]))
    kinds = [*INTEGERS, pa.float32(), pa.float64()]
    columns.append(pa.array(rng.poisson(1.0, n)).cast(kinds[rng.integers(9)]))
    return pa.Table.from_arrays(columns, _COLUMNS)


def _write(rng, folder, table):
    """Paths of one or two files."""
    options = {
        "compression": str(rng.choice(["none", "snappy", "gzip", "zstd", "lz4"])),
        "use_dictionary": bool(rng.integers(2)),
        "data_page_version": str(rng.choice(["1.0", "2.0"])),
        "row_group_size": int(rng.choice([5, 1000])),
        "store_schema": bool(rng.integers(2)),
    }
    parts = [table]
    if rng.random() < 0.2 and len(table) > 1:
        cut = int(rng.integers(1, len(table)))
        parts = [table[:cut], table[cut:]]
    paths = [folder / f"t{i}.parquet" for i in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        parquet.write_table(part, path, **options)
    return paths


def _has(table, name):
    return table.column_names.count(name) == 1


def _with(table, name, values):
    place = table.column_names.index(name)
    return table.set_column(place, name, values)


def _count(rng, table, names):
    if not _has(table, "count"):
        return table
    values = [float(value) if isinstance(value, int | float) else 1.0 for value in table.column("count").to_pylist()]
    values[rng.integers(len(values))] = ODD_COUNTS[rng.integers(len(ODD_COUNTS))]
    is_whole = all(value is not None and math.isfinite(value) and value == int(value) for value in values)
    return _with(table, "count", pa.array(values, pa.float64()).cast(pa.int64() if is_whole else pa.float64()))


def _name(rng, table, names):
    name = str(rng.choice(["document", "word"]))
    if not _has(table, name):
        return table
    values = [str(value) for value in table.column(name).to_pylist()]
    values[rng.integers(len(values))] = ODD_NAMES[rng.integers(len(ODD_NAMES))]
    return _with(table, name, pa.array(values, pa.string()).cast(TEXTS[rng.integers(3)]))


def _type(rng, table, names):
    name = str(rng.choice(_COLUMNS))
    if not _has(table, name):
        return table
    n = len(table)
    kinds = [
        pa.array([0.5] * n),
        pa.array([True] * n),
        pa.array([b"a"] * n),
        pa.array([[1]] * n),
        pa.array([{"a": 1}] * n),
        pa.array(range(n), pa.timestamp("us")),
        pa.nulls(n),
        pa.array(range(n), pa.int32()).dictionary_encode(),
        pa.array([1] * n, pa.decimal128(10, 2)),
    ]
    return _with(table, name, kinds[rng.integers(len(kinds))])


def _columns(rng, table, names):
    kind = rng.integers(5)
    name = str(rng.choice(_COLUMNS))
    if not _has(table, name):
        return table
    if kind == 0:
        return table.drop_columns([name])
    if kind == 1:
        return table.append_column(name, table.column(name))
    if kind == 2:
        names[name] = str(rng.choice([*_COLUMNS, "else", "a.b", ""]))
    elif kind == 3:
        names["count"] = None
    else:
        return table.rename_columns([f"{name}\n" if other == name else other for other in table.column_names])
    return table


def _lines(rng, table, names):
    kind = rng.integers(3)
    if kind == 0:
        return table.take(pa.array(rng.permutation(len(table))))
    if kind == 1:
        return pa.concat_tables([table, table[: rng.integers(len(table) + 1)]])
    return table[: rng.integers(len(table))]


_CHANGES = [_count, _count, _name, _name, _type, _columns, _lines, _lines]
