"""Altered files of rows: refused in one sentence, or read as a slow reader reads them."""

import ast
import io
import struct
import warnings
import zipfile
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from pyarrow import ipc, parquet

from skmanifold.datasets import RowFiles

from ._cases import altered_bytes, one_sentence
from ._sparse_matrices import BrokenError, entries

_MOST_ROWS = 2**31 - 1
_FEW_ROWS = 2**20  # allowed without entries if the format is not CSR
_NUMBERS = "biuf"
KINDS = (".npy", ".npz", ".parquet", ".arrow")
_INDICES = {"csr": ("indptr", "indices"), "csc": ("indptr", "indices"), "bsr": ("indptr", "indices")}
_INDICES |= {"coo": ("row", "col"), "dia": ("offsets",)}
_MEMBERS = {f"{name}.npy" for name in ("format", "shape", "data", *sum(_INDICES.values(), ()))}
_DTYPES = ("<f8", "<f8", "<f4", ">f8", "<f2", "<i8", "<i4", "|u1", "<u8", "|b1")
_OTHER_DTYPES = ("<c16", "<U3", "|S2", "<M8[s]", "<m8[D]", "|O", "|V8", "i4,f8")
_INTEGERS = (-(2**40), -7, -1, 0, 1, 2, 3, 7, 2**20 + 1, 2**31 - 1, 2**31, 2**40, 2**62)
_ARROW_TYPES = (pa.float64(), pa.float32(), pa.float16(), pa.int64(), pa.int8(), pa.uint8(), pa.uint64(), pa.bool_())
_OTHER_ARROW_TYPES = (pa.string(), pa.timestamp("s"), pa.decimal128(5, 2), pa.list_(pa.int64()), pa.null(), pa.date32())


def check(folder, seed):
    """Write a file, alter it before or after it is listed, read it, and compare."""
    warnings.filterwarnings("ignore", "Duplicate name", UserWarning)
    rng = np.random.default_rng(seed)
    kind = KINDS[rng.integers(4)]
    path = folder / f"rows{kind}"
    path.unlink(missing_ok=True)
    content, wanted = _MADE[kind](rng)
    after = rng.random() < 0.2
    listed, may_refuse = wanted, False
    altered = content
    if rng.random() < 0.6:
        altered = altered_bytes(rng, content)
        may_refuse = altered != content
        wanted = _wanted(kind, altered)
    path.write_bytes(content if after else altered)
    try:
        files = RowFiles(path)
        if after:
            if listed is None and files.shape[0]:
                list(iter(files))
                return "a malformed file was accepted"
            path.write_bytes(altered)
            if wanted is not None and wanted[0] != files.shape:
                wanted = None
        found = _cells(files, _rows_of(rng, files))
    except ValueError as error:
        if not one_sentence(error) or str(path) not in str(error):
            return f"not one sentence with the name: {error!r}"
        return None if wanted is None or may_refuse else f"a good file was refused: {error}"
    if wanted is None:
        return None if not files.files else "a malformed file was accepted"  # whose rows are not read
    if found[0][0] and found != wanted:
        return "something else was read than is in the file"
    return None


def _rows_of(rng, files):
    """All rows as a list of blocks, read in one of the ways in which the library reads them."""
    if not files.files:
        return []
    (file,) = files.files
    way = rng.integers(3) if len(files) * files.shape[1] < 100_000 else 0
    if way == 0:
        return list(iter(files))
    if way == 1:
        cut = int(rng.integers(len(files) + 1))
        return [file.read(slice(cut)), file.read(slice(cut, len(files)))]
    chosen = np.flatnonzero(rng.random(len(files)) < 0.4)
    if not len(chosen) or len(chosen) == len(files):
        return list(iter(files))
    kept, held = files.hold_out(chosen)
    rows = np.empty((len(files), files.shape[1]))
    rows[chosen] = held.toarray() if sp.issparse(held) else held
    (rest,) = kept
    rows[np.setdiff1d(np.arange(len(files)), chosen)] = rest.toarray() if sp.issparse(rest) else rest
    return [rows]


def _cells(files, blocks):
    """The shape, and the cells that are not zero."""
    cells, first = {}, 0
    for block in blocks:
        coo = sp.coo_array(block) if sp.issparse(block) else None
        if coo is None:
            rows, columns = np.nonzero(block)
            values = block[rows, columns]
        else:
            (rows, columns), values = coo.coords, coo.data
        for i, j, value in zip(rows.tolist(), columns.tolist(), values.tolist(), strict=True):
            _add(cells, first + i, j, value)
        first += block.shape[0]
    return files.shape, _told(cells)


def _add(cells, row, column, value):
    cells[row, column] = cells[row, column] + value if (row, column) in cells else value


def _told(cells):
    """Values as text, so that NaN equals itself; the types may differ."""
    return {place: repr(float(value)) for place, value in cells.items() if value != 0}


def _wanted(kind, content):
    """What the slow reader reads; None for a file that must be refused."""
    try:
        return _READ[kind](content)
    except BrokenError:
        return None


def _ensure(condition):
    if not condition:
        raise BrokenError


def _read_npy(content):
    array = _array_of(content)
    _ensure(array.ndim == 2 and array.dtype.kind in _NUMBERS)
    return array.shape, _told(dict(np.ndenumerate(array)))


def _array_of(content):
    """An array of any type, by the description of the format in numpy's documentation."""
    _ensure(content[:6] == b"\x93NUMPY" and content[6:8] in (b"\1\0", b"\2\0"))
    size = 2 if content[6] == 1 else 4
    _ensure(len(content) >= 8 + size)
    (length,) = struct.unpack("<H" if size == 2 else "<I", content[8 : 8 + size])
    start = 8 + size + length
    _ensure(length <= 10_000 and start <= len(content))
    try:
        described = ast.literal_eval(content[8 + size : start].decode("latin1"))
        _ensure(type(described) is dict and sorted(described) == ["descr", "fortran_order", "shape"])
        dtype = np.dtype(described["descr"])
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise BrokenError from error
    shape, by_columns = described["shape"], described["fortran_order"]
    _ensure(type(shape) is tuple and all(isinstance(n, int) and n >= 0 for n in shape) and type(by_columns) is bool)
    n_items = 1
    for n in shape:
        n_items *= n
    _ensure(not dtype.hasobject and dtype.itemsize and not dtype.subdtype and len(shape) <= 32)
    _ensure(len(content) == start + n_items * dtype.itemsize and max(shape, default=0) < 2**62)
    return np.frombuffer(content, dtype, n_items, start).reshape(shape, order="F" if by_columns else "C")


def _read_npz(content):
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            names = {info.filename for info in members}
            contents = {name: archive.read(name) for name in names & _MEMBERS}
    except Exception as error:
        raise BrokenError from error
    _ensure(len(names) == len(members))
    _ensure(all(info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for info in members))
    _ensure({"format.npy", "shape.npy", "data.npy"} <= set(contents))
    form = _array_of(contents["format.npy"])
    _ensure(form.ndim == 0 and form.dtype.kind in "SU")
    form = form.item().decode("latin1") if form.dtype.kind == "S" else form.item()
    _ensure(form in _INDICES and {f"{name}.npy" for name in _INDICES[form]} <= set(contents))
    shape, data = (_array_of(contents[f"{name}.npy"]) for name in ("shape", "data"))
    places = {name: _array_of(contents[f"{name}.npy"]) for name in _INDICES[form]}
    _ensure(shape.dtype.kind in "iu" and shape.shape == (2,) and data.dtype.kind in _NUMBERS)
    unsigned = [index for index in places.values() if index.dtype.kind == "u"]
    _ensure(all(index.dtype.itemsize < 8 for index in unsigned))  # nor offsets below 0
    n_rows, n_columns = shape.tolist()
    _ensure(0 <= n_rows <= _MOST_ROWS and n_columns >= 0)
    _ensure(form == "csr" or n_rows <= max(_FEW_ROWS, 16 * data.size))
    coords = places.get("row"), places.get("col")
    cells = {}
    for row, column, value in entries(
        SimpleNamespace(format=form, shape=(n_rows, n_columns), data=data, coords=coords, **places)
    ):
        _ensure(0 <= row < n_rows and 0 <= column < n_columns)
        _add(cells, row, column, value.item())
    return (n_rows, n_columns), _told(cells)


def _read_table(read):
    def reader(content):
        try:
            return cells_of_table(read(pa.BufferReader(content)))
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, MemoryError, AttributeError) as error:
            raise BrokenError from error

    return reader


def cells_of_table(table):
    """The cells of a table that may be a file of rows, from its Python values."""
    _ensure(len(set(table.column_names)) == len(table.column_names))
    pandas = table.schema.pandas_metadata or {}
    _ensure(isinstance(pandas, dict))
    index = pandas.get("index_columns", [])
    _ensure(isinstance(index, list))
    names = [name for name in table.column_names if name not in index]
    cells = {}
    for j, name in enumerate(names):
        kind = table.schema.field(name).type
        _ensure(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))
        for i, value in enumerate(table.column(name).to_pylist()):
            _add(cells, i, j, np.nan if value is None else value)
    return (len(table), len(names)), _told(cells)


_READ = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".parquet": _read_table(lambda source: parquet.ParquetFile(source).read(use_threads=False)),
    ".arrow": _read_table(lambda source: ipc.open_file(source).read_all()),
}


def _values(rng, dtype, shape):
    if dtype == "|O":
        return np.full(shape, None)
    numbers = rng.poisson(0.7, shape)
    if np.dtype(dtype).kind == "V":
        return np.zeros(shape, dtype)
    return numbers.astype(dtype)


def _dtype(rng, p_other=0.15):
    return (_OTHER_DTYPES if rng.random() < p_other else _DTYPES)[rng.integers(8)]


def _made_npy(rng):
    shape = tuple(rng.integers(0, 9, size=rng.choice([0, 1, 2, 2, 2, 2, 2, 2, 2, 3])).tolist())
    array = _values(rng, _dtype(rng), shape)
    array = np.asfortranarray(array) if rng.random() < 0.4 else array
    written = io.BytesIO()
    np.lib.format.write_array(written, array, version=(1 + int(rng.integers(3)), 0) if rng.random() < 0.2 else None)
    content = written.getvalue()
    if rng.random() < 0.2:
        content = _other_header(rng, content)
    return content, _wanted(".npy", content)


def _other_header(rng, content):
    """Another type, shape or order in the header, of the same length."""
    n = 10 + int.from_bytes(content[8:10], "little")
    if n > 300:
        return content
    described = content[10:n].decode("latin1")
    old, new = [
        ("(", f"({rng.choice(_INTEGERS)}, "),
        ("False", "True"),
        ("'descr': '", "'descr': '>"),
        ("(", "(1.0, "),
        ("'shape'", "'form'"),
        ("{", "{" + "(" * int(rng.choice([5, 5000]))),
        ("'descr': '", "'descr': [('a', '<f8')], 'd': '"),
    ][rng.integers(7)]
    described = described.replace(old, new).rstrip().encode("latin1") + b"\n"
    return content[:8] + len(described).to_bytes(2, "little") + described + content[n:]


def _made_npz(rng):
    form = str(rng.choice(sorted(_INDICES)))
    dense = rng.poisson(0.6, size=(2 * rng.integers(0, 6), 2 * rng.integers(1, 5))).astype(
        _DTYPES[rng.choice([0, 2, 5, 6, 7])]
    )
    if rng.random() < 0.1:
        dense = np.concatenate((dense, np.zeros((int(rng.choice([7, 70_000])), dense.shape[1]), dense.dtype)))
    matrix = (
        sp.bsr_array(sp.csr_array(dense), blocksize=(1, 2)) if form == "bsr" else sp.csr_array(dense).asformat(form)
    )
    written = io.BytesIO()
    sp.save_npz(written, matrix, compressed=bool(rng.integers(2)))
    if rng.random() < 0.4:
        return written.getvalue(), _wanted(".npz", written.getvalue())
    with zipfile.ZipFile(written) as archive:
        members = {name[:-4]: np.lib.format.read_array(archive.open(name)) for name in archive.namelist()}
    methods = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2]
    for _ in range(rng.integers(3)):
        _alter_members(rng, members, form)
    twice = ["data"] if rng.random() < 0.1 and "data" in members else []
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", methods[rng.integers(4)]) as archive:
        for name in [*members, *twice]:
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, np.asanyarray(members[name]))
    return written.getvalue(), _wanted(".npz", written.getvalue())


def _alter_members(rng, members, form):
    kind = rng.integers(7)
    names = [name for name in members if name not in ("shape", "format", "_is_array")]
    name = str(rng.choice(names)) if names else "data"
    if name not in members:
        return
    array = members[name].copy()
    if kind == 0:
        other = [(7.0, 2.0), (3,), (4, 4, 4), (-1, 5), 5, (2**31, 3), (3, 2**40), (10**9, 2), ("3", "4"), (True, False)]
        members["shape"] = np.array(other[rng.integers(len(other))])
    elif kind == 1:
        other = ["csr", b"csc", "bsr", "coo", "dia", "lil", b"\xff", 7, ["csr"], "", None]
        members["format"] = np.array(other[rng.integers(len(other))])
    elif kind == 2 and array.size and array.dtype.kind in "iu":
        value = int(rng.choice(_INTEGERS))
        array.reshape(-1)[rng.integers(array.size)] = np.array(value).astype(array.dtype)
    elif kind == 3:
        dtype = ("<f8", "<u8", ">i4", "<i2", "<c16", "<U3", "<M8[s]", "|O")[rng.integers(8)]
        dtype = dtype.replace(">", "<") if name == "data" else dtype  # scipy refuses ">" in some formats
        array = array.astype(dtype) if array.dtype.kind in "iufb" else array
    elif kind == 4 and array.ndim:
        array = [array[:-1], array[1:], np.concatenate((array, array)), array[np.newaxis], array[:0]][rng.integers(5)]
    elif kind == 5:
        del members[name]
        return
    else:
        array = rng.permutation(array) if array.ndim else array
    members[name] = array


def _made_table(write):
    def made(rng):
        n_rows, n_columns = int(rng.integers(0, 12)), int(rng.integers(0, 5))
        columns, names = [], []
        for j in range(n_columns):
            kinds = _OTHER_ARROW_TYPES if rng.random() < 0.05 else _ARROW_TYPES
            kind = kinds[rng.integers(len(kinds))]
            missing = rng.random(n_rows) < rng.choice([0.0, 0.0, 0.2])
            values = [None] * n_rows
            if kind in _ARROW_TYPES:
                convert = bool if kind == pa.bool_() else np.float16 if kind == pa.float16() else int
                values = [
                    None if gone else convert(value)
                    for gone, value in zip(missing, rng.poisson(2, n_rows), strict=True)
                ]
            columns.append(pa.array(values, kind))
            names.append("a" if rng.random() < 0.05 else f"{'abcde'[j]}")
        table = pa.table(columns, names=names)
        index = [["a"], [], [{"kind": "range", "start": 0}], ["none"], "a", 5][rng.integers(6)]
        if rng.random() < 0.3:
            pandas = {"index_columns": index, "columns": []}
            text = [repr(pandas).replace("'", '"'), "[]", "{", '{"index_columns": null}', "7"]
            table = table.replace_schema_metadata({"pandas": text[rng.choice([0, 0, 0, 1, 2, 3, 4])]})
        written = io.BytesIO()
        write(rng, table, written)
        content = written.getvalue()
        try:
            return content, cells_of_table(table)
        except (BrokenError, ValueError, AttributeError, TypeError):
            return content, None

    return made


def _write_parquet(rng, table, written):
    compression = str(rng.choice(["none", "snappy", "gzip", "zstd"]))
    options = {"use_dictionary": bool(rng.integers(2)), "row_group_size": int(rng.choice([3, 100]))}
    parquet.write_table(table, written, compression=compression, **options)


def _write_arrow(rng, table, written):
    options = ipc.IpcWriteOptions(compression=[None, None, "lz4", "zstd"][rng.integers(4)])
    with ipc.new_file(written, table.schema, options=options) as file:
        file.write_table(table, max_chunksize=int(rng.choice([3, 100])))


_MADE = {
    ".npy": _made_npy,
    ".npz": _made_npz,
    ".parquet": _made_table(_write_parquet),
    ".arrow": _made_table(_write_arrow),
}
