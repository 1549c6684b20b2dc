"""Altered AnnData files: refused, or read as a slow reader reads them, in bounded memory and from no other file."""

import os
import re
import tracemalloc
from itertools import pairwise

import h5py
import numpy as np
import scipy.sparse as sp

from skmanifold.datasets import read_anndata

from ._cases import one_sentence
from ._parquet_door import content_of
from ._text_door import judged

_MOST = 2**31 - 1
_TEXT = h5py.string_dtype()
NUMBERS = [-(2**63), -(2**31), -1, 0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**32 + 1, 2**62]
SIZES = ["f2", "f4", "f8", "i1", "i2", ">i4", "i4", "i8", ">i8", "u1", "u2", "u4", "u8"]


def prepare(folder):
    """A folder with files that must not be opened: whoever opens a pipe waits."""
    os.mkfifo(folder / "secret")
    return folder


def check(folder, seed):
    """Write a file, read it by the library and by a slow reader, and compare."""
    rng = np.random.default_rng(seed)
    path = folder / "t.h5ad"
    layer = "counts" if rng.random() < 0.3 else None
    _write(rng, path, "X" if layer is None else "layers/counts")
    with h5py.File(path, "a") as file:
        chosen = [_CHANGES[place] for place in rng.integers(len(_CHANGES), size=rng.choice([0, 1, 1, 1, 2]))]
        last = [change for change in chosen if change in _LAST][:1]
        for change in [change for change in chosen if change not in _LAST] + last:
            change(rng, file, "X" if layer is None else "layers/counts", folder)
    flipped = rng.random() < 0.3
    if flipped:
        _flip(rng, path)
    tracemalloc.start()
    try:
        found, error = content_of(read_anndata(path, layer=layer)), None
    except ValueError as refusal:
        found, error = None, refusal
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if peak > 60e6:
        return f"{peak / 1e6:.0f} MB for {path.stat().st_size} bytes"
    if error is not None and one_sentence(error) and str(path) not in str(error) and "Document " not in str(error):
        return f"an error that does not name the file: {error}"
    return judged(slow(path, layer), found, error, may_refuse=flipped)


def slow(path, layer):
    """Names and cells of a file; None if it must be refused."""
    try:
        with h5py.File(path, "r") as file:
            documents, words = (_read_names(file, axis) for axis in ("obs", "var"))
            home, name = (file, "X") if layer is None else (_child(file, "layers"), layer)
            matrix = _child(home, name)
            if isinstance(matrix, h5py.Dataset):
                entries = _read_dense(matrix, len(documents), len(words))
            else:
                entries = _read_sparse(matrix, len(documents), len(words))
            cells = {}
            for row, column, value in entries:
                if not (value == int(value) and 0 <= value <= _MOST):
                    return None
                cells[row, column] = cells.get((row, column), 0) + int(value)
            if max(cells.values(), default=0) > _MOST:
                return None
            return documents, words, {cell: count for cell, count in cells.items() if count}
    except _Refused:
        return None
    except (ArithmeticError, AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError):
        return None


class _Refused(Exception):
    pass


def _need(condition):
    if not condition:
        raise _Refused


def _child(group, path):
    """What a path leads to, if there are only hard links on the way and all values are in the file."""
    for name in path.split("/"):
        _need(isinstance(group, h5py.Group) and name in list(group))
        _need(group.id.links.get_info(name.encode()).type == h5py.h5l.TYPE_HARD)
        group = group[name]
    if isinstance(group, h5py.Dataset):
        _need(not group.is_virtual and group.external is None)
        stored = group.id.get_create_plist()
        _need(all(stored.get_filter(i)[0] in (1, 2, 3, 4, 5, 6, 32000) for i in range(stored.get_nfilters())))
        _need(group.shape is not None and group.size < 1e6)
    return group


def _read_names(file, axis):
    frame = _child(file, axis)
    name = frame.attrs["_index"]
    index = _child(frame, name.decode() if isinstance(name, bytes) else name)
    _need(index.ndim == 1 and h5py.check_string_dtype(index.dtype))
    coding = h5py.check_string_dtype(index.dtype).encoding
    names = [bytes(value).decode(coding) for value in index[:]]
    _need(max(map(len, names), default=0) <= 2**20)
    return names


def _read_dense(matrix, n_rows, n_columns):
    _need(matrix.attrs.get("encoding-type", "array") in ("array", b"array"))
    _need(matrix.shape == (n_rows, n_columns) and matrix.dtype.kind in "biuf")
    return [(row, column, value) for row, line in enumerate(matrix[:].tolist()) for column, value in enumerate(line)]


def _read_sparse(matrix, n_rows, n_columns):
    kind = matrix.attrs["encoding-type"]
    kind = kind.decode() if isinstance(kind, bytes) else kind
    _need(kind in ("csr_matrix", "csc_matrix"))
    _need(matrix.attrs["shape"].dtype.kind in "iu" and matrix.attrs["shape"].tolist() == [n_rows, n_columns])
    parts = [_child(matrix, part) for part in ("indptr", "indices", "data")]
    for part, kinds in zip(parts, ("iu", "iu", "biuf"), strict=True):
        _need(part.ndim == 1 and part.dtype.kind in kinds)
    indptr, indices, data = (part[:].tolist() for part in parts)
    n_major, n_minor = (n_rows, n_columns) if kind == "csr_matrix" else (n_columns, n_rows)
    _need(len(indptr) == n_major + 1 and indptr[0] == 0 and indptr[-1] == len(indices) == len(data))
    _need(all(0 <= stop - start <= n_minor for start, stop in pairwise(indptr)))
    found = []
    for major in range(n_major):
        for place in range(indptr[major], indptr[major + 1]):
            _need(0 <= indices[place] < n_minor)
            found.append((major, indices[place], data[place]))
    if kind == "csr_matrix":
        return found
    _need(len({(row, column) for column, row, _ in found}) == len(found))
    return [(row, column, value) for column, row, value in found]


# --- files -------------------------------------------------------------------------------------------------


def _write(rng, path, home):
    shape = rng.integers(0, 8), rng.integers(0, 8)
    counts = rng.poisson(0.7, size=shape).astype(rng.choice(SIZES))
    options = [{}, {"compression": "gzip", "shuffle": True}, {"compression": "lzf"}, {"fletcher32": True}]
    chosen = options[rng.integers(4)]
    with h5py.File(path, "w", libver=rng.choice(["earliest", "latest"])) as file:
        for axis, n in zip(("obs", "var"), shape, strict=True):
            frame = file.create_group(axis)
            frame.attrs["_index"] = name = str(rng.choice(["_index", "n\u00e4me"]))
            names = [f"{axis} n\u00e4me {i % 5}" for i in range(n)]
            if rng.random() < 0.2:
                frame[name] = np.array([name.encode() for name in names], "S20").astype(h5py.string_dtype("utf-8", 20))
            else:
                frame.create_dataset(name, data=names, dtype=_TEXT, **(options[1] if n else {}))
        file.create_group("layers")["other"] = np.zeros(shape)
        kind = rng.choice(["csr", "csc", "array"])
        if kind == "array":
            file.create_dataset(home, data=counts, **(chosen if counts.size else {}))
            if rng.random() < 0.5:
                file[home].attrs["encoding-type"] = "array"
            return
        matrix = getattr(sp, f"{kind}_array")(counts.astype(float))
        group = file.create_group(home)
        group.attrs.update({"encoding-type": f"{kind}_matrix", "shape": shape})
        types = rng.choice(["i4", "i8", "u4"]), rng.choice(["i4", "i8", "u1", ">i4"]), counts.dtype
        for part, dtype in zip(("indptr", "indices", "data"), types, strict=True):
            values = getattr(matrix, part).astype(dtype)
            group.create_dataset(part, data=values, maxshape=(None,), **chosen)


def _some(rng, file, home):
    """The path of a data set that is read."""
    paths = [f"{axis}/{file[axis].attrs.get('_index')}" for axis in ("obs", "var") if axis in file]
    inner = [f"{home}/{part}" for part in ("indptr", "indices", "data")] * 2
    paths += inner if isinstance(file.get(home), h5py.Group) else [home]
    paths = [path for path in paths if isinstance(file.get(path), h5py.Dataset)]
    return paths[rng.integers(len(paths))] if paths else None


def _part(rng, file, home):
    """The path of an array of numbers with values; None if there is none."""
    paths = [f"{home}/{part}" for part in ("indptr", "indices", "data")] + [home]
    paths = [path for path in paths if isinstance(file.get(path), h5py.Dataset)]
    paths = [path for path in paths if file[path].dtype.kind in "iuf" and file[path].size]
    return paths[rng.integers(len(paths))] if paths else None


def _put(file, path, values, **options):
    """Another data set with the same attributes."""
    attributes = dict(file[path].attrs)
    del file[path]
    file.create_dataset(path, data=values, **options)
    file[path].attrs.update(attributes)


def _number(rng, file, home, folder):
    path = _part(rng, file, home)
    if path:
        values = file[path][()]
        place = rng.integers(values.size)
        with np.errstate(over="ignore"):
            values.flat[place] = np.array(rng.choice(NUMBERS)).astype(values.dtype)
        _put(file, path, values)


def _step(rng, file, home, folder):
    """A number that differs by a little, perhaps by a fraction."""
    path = _part(rng, file, home)
    if path:
        values = file[path][()]
        step = rng.choice([-2, -1, 1, 2]) if rng.random() < 0.7 else 0.5
        with np.errstate(all="ignore"):
            values = values.astype(float if step == 0.5 else "i8")
            values.flat[rng.integers(values.size)] += step
        _put(file, path, values)


def _length(rng, file, home, folder):
    path = _some(rng, file, home)
    if path:
        values = file[path][()]
        some = values[: -rng.integers(1, 4)] if rng.random() < 0.5 else np.concatenate((values, values[-1:]))
        _put(file, path, some, dtype=file[path].dtype)


def _order(rng, file, home, folder):
    path = _part(rng, file, home)
    if path:
        values = file[path][()]
        _put(file, path, rng.permutation(values))


def _type(rng, file, home, folder):
    path = _some(rng, file, home)
    if not path:
        return
    n = file[path].shape
    kinds = [
        *("f2", "f4", "f8", "u1", "u8", ">i8", "c16", "S3", "bool"),
        [("a", "i4")],
        _TEXT,
        h5py.vlen_dtype("i4"),
        h5py.ref_dtype,
        h5py.regionref_dtype,
        h5py.enum_dtype({"a": 0, "b": 1}),
        h5py.opaque_dtype("M8[s]"),
        np.dtype("(2,)i4"),
    ]
    kind = kinds[rng.integers(len(kinds))]
    if isinstance(kind, str) and file[path].dtype.kind in "iuf":
        _put(file, path, file[path][()].astype(kind))
        return
    attributes = dict(file[path].attrs)
    del file[path]
    file.create_dataset(path, n, kind).attrs.update(attributes)


def _dimensions(rng, file, home, folder):
    path = _some(rng, file, home)
    if path:
        values = file[path][()]
        shapes = [values[..., None], values[None], values.ravel()]
        _put(file, path, shapes[rng.integers(3)], dtype=file[path].dtype)


def _attribute(rng, file, home, folder):
    if home not in file:
        return
    shape = [0, 3]
    if "shape" in file[home].attrs:
        shape = np.ravel(file[home].attrs["shape"]).tolist()
    odd = [
        shape[::-1],
        [float(n) for n in shape if isinstance(n, int)],
        [*shape, 1],
        shape[:1],
        [-1, -1],
        [np.nan, 1.0],
        [10**12, 10**12],
        "shape",
        5,
        h5py.Empty("i4"),
        [str(n) for n in shape],
        np.array(shape, "i2") if all(isinstance(n, int) and abs(n) < 100 for n in shape) else [1],
    ]
    file[home].attrs["shape"] = odd[rng.integers(len(odd))]


def _encoding(rng, file, home, folder):
    if home in file:
        odd = ["csr_matrix", "csc_matrix", "array", b"csr_matrix", "coo_matrix", "", 5, ["array"] * 3, h5py.Empty("i4")]
        file[home].attrs["encoding-type"] = odd[rng.integers(len(odd))]


def _index(rng, file, home, folder):
    axis = rng.choice(["obs", "var"])
    if axis not in file:
        return
    odd = ["/obs/_index", "../obs/_index", "", ".", "./_index", "_index/", "X", b"_index", 5, "a" * 1000, "_index"]
    file[axis].attrs["_index"] = odd[rng.integers(len(odd))] if rng.random() < 0.8 else h5py.Empty("i4")


def _link(rng, file, home, folder):
    """A link instead of something: hard ones to the same or to another item are allowed."""
    paths = ["obs", "var", "layers", home, _some(rng, file, home), _some(rng, file, home)]
    path = paths[rng.integers(len(paths))]
    if not path or path not in file:
        return
    same, other = file[path], file[_some(rng, file, home) or path]
    file["kept"] = same
    del file[path]
    links = [h5py.SoftLink("/kept"), h5py.ExternalLink(folder / "secret", "/X"), same, other, np.dtype("f8")]
    file[path] = links[rng.integers(5)]


def _outside(rng, file, home, folder):
    """Values that are in another file."""
    path = _some(rng, file, home)
    if not path:
        return
    dataset = file[path]
    attributes, shape = dict(dataset.attrs), dataset.shape
    kind = "S9" if dataset.dtype.kind == "O" else dataset.dtype
    del file[path]
    if rng.random() < 0.5:
        file.create_dataset(path, shape, kind, external=[(str(folder / "secret"), 0, h5py.h5f.UNLIMITED)])
    else:
        free = (None, *shape[1:])
        layout = h5py.VirtualLayout((max(shape[0], 1), *shape[1:]), kind, maxshape=free)
        source = h5py.VirtualSource(str(folder / "secret"), "X", (max(shape[0], 1), *shape[1:]), kind, maxshape=free)
        if all(shape[1:]):
            layout[: h5py.h5s.UNLIMITED] = source[: h5py.h5s.UNLIMITED]
        file.create_virtual_dataset(path, layout)
    file[path].attrs.update(attributes)


def _filter(rng, file, home, folder):
    path = _some(rng, file, home)
    if not path or not file[path].size:
        return
    dataset = file[path]
    attributes, space, kind = dict(dataset.attrs), dataset.id.get_space(), dataset.id.get_type()
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    made.set_chunk(dataset.shape)
    made.set_filter(int(rng.choice([32015, 307, 32001, 256, 65535])), h5py.h5z.FLAG_OPTIONAL, (1, 2))
    del file[path]
    h5py.h5d.create(file.id, path.encode(), kind, space, made)
    file[path].attrs.update(attributes)


def _announce(rng, file, home, folder):
    """A size of which nothing is in the file."""
    path = _some(rng, file, home)
    if path:
        dataset = file[path]
        attributes, kind = dict(dataset.attrs), dataset.dtype
        shape = tuple(
            int(rng.choice([10**7, 10**12, 2**62])) if i == 0 else max(n, 1) for i, n in enumerate(dataset.shape)
        )
        del file[path]
        file.create_dataset(path, shape, kind, chunks=(1,) * len(shape)).attrs.update(attributes)


def _names(rng, file, home, folder):
    axis = rng.choice(["obs", "var"])
    path = f"{axis}/{file[axis].attrs.get('_index')}" if isinstance(file.get(axis), h5py.Group) else ""
    if not isinstance(file.get(path), h5py.Dataset) or file[path].ndim != 1 or not len(file[path]):
        return
    n = len(file[path])
    odd = [b"", b"a\0b", b"\xff\xfe", "\u00e9".encode(), b"x" * 100_000, b"y" * 1_100_000, b"new\nline"]
    values = [b"name"] * n
    values[rng.integers(n)] = odd[rng.integers(len(odd))]
    fixed = rng.random() < 0.3 and max(map(len, values)) < 1000
    coding = rng.choice(["utf-8", "ascii"])
    longest = max(map(len, values))
    if fixed or b"\0" in b"".join(values):
        _put(file, path, np.array(values, f"S{longest}").astype(h5py.string_dtype(coding, longest)))
    else:
        _put(file, path, values, dtype=h5py.string_dtype(coding))


def _missing(rng, file, home, folder):
    paths = ["obs", "var", "layers", home, _some(rng, file, home)]
    path = paths[rng.integers(len(paths))]
    if not path or path not in file:
        return
    del file[path]
    if rng.random() < 0.3:
        file.create_group(path)


def _flip(rng, path):
    """Other bytes, but not in heaps of texts and what refers to them.

    At some of these HDF5 2.0 itself never ends, or allocates 4 GB.
    """
    content = bytearray(path.read_bytes())
    kept = []
    for heap in re.finditer(rb"GCOL\x01...(.{8})", content, re.DOTALL):
        kept.append(range(heap.start(), heap.start() + int.from_bytes(heap[1], "little")))
        references = re.finditer(re.escape(heap.start().to_bytes(8, "little")), content)
        kept += [range(reference.start() - 4, reference.end() + 4) for reference in references]
    if rng.random() < 0.3:
        del content[rng.integers(len(content) + 1) :]
    for _ in range(rng.integers(1, 6) if content else 0):
        place = int(rng.integers(len(content)))
        if not any(place in some for some in kept):
            content[place] = rng.integers(256) if rng.random() < 0.5 else content[place] ^ (1 << rng.integers(8))
    path.write_bytes(content)


_LAST = [_announce, _link, _outside]  # after which a file cannot be altered safely
_CHANGES = [
    *[_number] * 3,
    *[_step] * 3,
    *[_length] * 2,
    _order,
    *[_type] * 2,
    _dimensions,
    *[_attribute] * 2,
    _encoding,
    _index,
    *[_link] * 2,
    _outside,
    _filter,
    _announce,
    *[_names] * 2,
    _missing,
]
