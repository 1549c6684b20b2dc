"""AnnData and Parquet files that are damaged, or made to deceive, are refused in one sentence that names the file."""

import re

import h5py
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from _memory import memory_below
from pyarrow import parquet

from skmanifold.datasets import read_anndata, read_parquet, save_corpus

from .test_readers import write_anndata, write_parquet

COUNTS = np.array([[2, 0, 1], [0, 3, 1]])


def altered(tmp_path, change, matrix=None):
    path = write_anndata(tmp_path / "t.h5ad", X=sp.csr_array(COUNTS) if matrix is None else matrix)
    with h5py.File(path, "a") as file:
        change(file)
    return path


def put(file, name, values, **options):
    """Another data set instead of one."""
    attributes = dict(file[name].attrs)
    del file[name]
    file.create_dataset(name, data=values, **options)
    file[name].attrs.update(attributes)


def refusal(path, read=read_anndata, **arguments):
    """The sentence with which a file is refused while it is opened or read; within little memory."""
    with memory_below(60e6), pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        list(read(path, **arguments))
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


CELLS = r"cannot have the shape \({}\) and the type {}"
STRUCTURE = [  # the form of the matrix, what is changed, and the sentence
    (sp.csr_array, "indptr", [0, 4], "for 2 rows it has 2 indptr, 4 indices and 4 data"),
    (sp.csr_array, "indptr", [0, 1, 2], "indptr ends at 2 of 4"),
    (sp.csr_array, "indptr", [1, 2, 4], "indptr starts with 1, not 0"),
    (sp.csr_array, "indptr", [0, 5, 4], "indptr decreases from 5 to 4 at row 1"),
    (sp.csr_array, "indptr", [0, 2, 9], "indptr ends at 9, beyond its 4 indices"),
    (sp.csr_array, "indptr", [0, 0, 4], r"a row has more entries than columns \(3\)"),
    (sp.csr_array, "indptr", [0.0, 2.0, 4.0], "item 'indptr' in '/X' that " + CELLS.format("3,", "float64")),
    (sp.csr_array, "indices", [0, 2.5, 1, 2], "item 'indices' in '/X' that " + CELLS.format("4,", "float64")),
    (sp.csr_array, "indices", [0, 2, 1, 3], "column index 3 in row 1, but there are 3 columns"),
    (sp.csr_array, "data", [2, 1, 3, 1, 1], "for 2 rows it has 3 indptr, 4 indices and 5 data"),
    (sp.csr_array, "data", ["2", "1", "3", "1"], "item 'data' in '/X' that " + CELLS.format("4,", "object")),
    (sp.csc_array, "indptr", [0, 1, 2], "for 3 columns it has 3 indptr"),
    (sp.csc_array, "indices", [0, 1, 0, 2], "row index 2 in column 2, but there are 2 rows"),
    (sp.csc_array, "indices", [0, 1, 2**40, 1], "row index 1099511627776 in column 2"),
    (np.array, "", np.zeros((2, 3, 1)), "item 'X' in '/' that " + CELLS.format("2, 3, 1", "float64")),
    (np.array, "", np.zeros((2, 3), "S3"), r"the type \|S3"),
    (np.array, "", np.zeros((3, 2)), r"the shape \(3, 2\), but 2 observations of 3"),
    (sp.csr_array, "@shape", [2, -3], r"the shape \(2, -3\), but 2 observations of 3"),
    (sp.csr_array, "@shape", [2.0, 3.0], r"the shape \[2\. 3\.\], but"),
    (sp.csr_array, "@shape", [2, 3, 1], "the shape None, but"),
    (sp.csr_array, "@shape", "23", "the shape 23, but"),
    (
        sp.csr_array,
        "@encoding-type",
        "coo_matrix",
        "the encoding-type 'coo_matrix', not one of array, csr_matrix, csc",
    ),
    (sp.csr_array, "@encoding-type", "array", "item 'X' in '/' that is not a data set"),
    (sp.csr_array, "@encoding-type", [1, 2, 3], "the encoding-type None, not one of"),
    (sp.csr_array, "@encoding-type", b"csc_matrix", "for 3 columns it has 3 indptr"),
]


@pytest.mark.parametrize(("convert", "part", "values", "sentence"), STRUCTURE)
def test_matrices_of_another_structure_are_refused(tmp_path, convert, part, values, sentence):
    def change(file):
        if part.startswith("@"):
            file["X"].attrs[part[1:]] = values
        else:
            put(file, f"X/{part}".rstrip("/"), values)

    assert re.search(sentence, refusal(altered(tmp_path, change, convert(COUNTS))))


def secret(tmp_path):
    """A file that a hostile AnnData file wants to read, and an HDF5 file."""
    raw, other = tmp_path / "secret", tmp_path / "other.h5"
    raw.write_bytes(bytes(range(1, 200)))
    with h5py.File(other, "w") as file:
        file["X"] = COUNTS
        file["data"] = file["indices"] = file["indptr"] = np.array([0, 2, 4, 4])
        file["names"] = np.array(["a", "b", "c"], dtype=h5py.string_dtype())
        file.create_group("layers")["counts"] = COUNTS
    return raw, other


def link(file, name, target):
    del file[name]
    file[name] = target


def virtual(file, name, other, source):
    layout = h5py.VirtualLayout(shape=(4,), dtype="i8")
    layout[:] = h5py.VirtualSource(other, source, shape=(4,))
    del file[name]
    file.create_virtual_dataset(name, layout)


def external(file, name, raw, shape, dtype="u1"):
    del file[name]
    file.create_dataset(name, shape, dtype, external=[(str(raw), 0, h5py.h5f.UNLIMITED)])


LINK = "a soft or external link, which is not followed"
HOSTILE = {
    "external values": (lambda f, raw, other: external(f, "X", raw, (2, 3)), "with values in other files"),
    "external data": (lambda f, raw, other: external(f, "X/data", raw, (4,)), "with values in other files"),
    "external names": (lambda f, raw, other: external(f, "obs/_index", raw, (2,), "S9"), "with values in other files"),
    "virtual data": (lambda f, raw, other: virtual(f, "X/data", other, "data"), "with values in other files"),
    "link to X": (lambda f, raw, other: link(f, "X", h5py.ExternalLink(other, "X")), f"{LINK}, 'X' in '/'"),
    "link to data": (lambda f, raw, other: link(f, "X/data", h5py.ExternalLink(other, "data")), f"{LINK}, 'data'"),
    "link to names": (lambda f, raw, other: link(f, "var/_index", h5py.ExternalLink(other, "names")), LINK),
    "link to obs": (lambda f, raw, other: link(f, "obs", h5py.ExternalLink(other, "/")), f"{LINK}, 'obs' in '/'"),
    "link to layers": (lambda f, raw, other: link(f, "layers", h5py.ExternalLink(other, "layers")), LINK),
    "soft link": (lambda f, raw, other: link(f, "var/_index", h5py.SoftLink("/obs/_index")), LINK),
    "link on the way": (
        lambda f, raw, other: (
            f["obs"].__setitem__("far", h5py.ExternalLink(other, "/")),
            f["obs"].attrs.__setitem__("_index", "far/names"),
        ),
        f"{LINK}, 'far' in '/obs'",
    ),
    "path from the root": (lambda f, raw, other: f["obs"].attrs.update({"_index": "/var/_index"}), "no item ''"),
    "path upwards": (
        lambda f, raw, other: f["obs"].attrs.update({"_index": "../var/_index"}),
        r"no item '..' in '/obs'",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_is_read_from_other_files(tmp_path, name):
    change, sentence = HOSTILE[name]
    raw, other = secret(tmp_path)
    matrix = COUNTS if name in ("external values", "link to X") else None
    path = altered(tmp_path, lambda file: change(file, raw, other), matrix)
    layer = "counts" if name == "link to layers" else None
    assert sentence in refusal(path, layer=layer)


def test_layers_are_no_paths(tmp_path):
    path = altered(tmp_path, lambda file: file["layers"].__setitem__("far", h5py.ExternalLink("other.h5", "/")))
    secret(tmp_path)
    for layer in ("far/X", "../X", "/X", "", ".", "X/data"):
        assert "has no layer" in refusal(path, layer=layer)
    assert LINK in refusal(path, layer="far")


def test_filters_that_are_plug_ins_are_refused_before_values_are_read(tmp_path):
    def compress(file, number):
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        made.set_chunk((4,))
        made.set_filter(number, h5py.h5z.FLAG_OPTIONAL, (0, 0, 0, 0))
        name = b"X/data"
        del file[name]
        h5py.h5d.create(file.id, name, h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((4,)), made)

    assert "with the filter 32015" in refusal(altered(tmp_path, lambda file: compress(file, 32015)))


@pytest.mark.parametrize(
    "options", [{"compression": "gzip", "shuffle": True, "fletcher32": True}, {"compression": "lzf"}]
)
def test_filters_of_hdf5_and_h5py_can_be_read(tmp_path, options):
    path = altered(tmp_path, lambda file: put(file, "X/data", [2, 1, 3, 1], chunks=(2,), **options))
    np.testing.assert_array_equal(next(iter(read_anndata(path))).toarray(), COUNTS)


@pytest.mark.parametrize("name", ["X/data", "X/indptr", "X/indices", "obs/_index", "X"])
def test_announced_sizes_are_compared_with_the_file(tmp_path, name):
    def announce(file):
        attributes, kind = dict(file[name].attrs), getattr(file[name], "dtype", float)
        shape = (10**12, 3) if name == "X" else (10**12,)
        del file[name]
        file.create_dataset(name, shape, kind, chunks=(1,) * len(shape)).attrs.update(
            attributes | {"encoding-type": "array"}
        )

    sentence = refusal(altered(tmp_path, announce))
    assert "of the shape (1000000000000" in sentence
    assert "but with only 0 bytes" in sentence


def test_names_are_kept_exactly_and_long_ones_are_no_burden(tmp_path):
    def name(file):
        put(file, "obs/_index", np.array([b"a\0b", b"a\0c"]))
        put(file, "var/_index", ["a", "b" * 1_000_000, "a "], dtype=h5py.string_dtype())

    reader = read_anndata(altered(tmp_path, name))
    assert reader.documents.tolist() == ["a\0b", "a\0c"]
    assert [len(word) for word in reader.vocabulary] == [1, 1_000_000, 2]
    assert sum(map(len, reader.documents)) == 6
    path = altered(tmp_path, lambda file: put(file, "obs/_index", ["a", "b" * 1_100_000], dtype=h5py.string_dtype()))
    assert "has a name of more than 1048576 characters in obs" in refusal(path)
    path = altered(tmp_path, lambda file: put(file, "obs/_index", [1, 2]))
    assert "item '_index' in '/obs' that cannot have the shape (2,) and the type int64" in refusal(path)
    path = altered(tmp_path, lambda file: put(file, "obs/_index", [], dtype=h5py.vlen_dtype(int)))
    assert "can only be used on datasets with an HDF5 string datatype" in refusal(path)


def test_many_names_cannot_share_one_long_text(tmp_path):
    def name(file):
        put(file, "obs/_index", ["b" * 100_000] + ["a"] * 199, dtype=h5py.string_dtype())

    path = altered(tmp_path, name)
    with h5py.File(path) as file:
        start, size = file["obs/_index"].id.get_offset(), file["obs/_index"].id.get_storage_size()
    content = bytearray(path.read_bytes())
    content[start : start + size] = content[start : start + size // 200] * 200  # each refers to the first text
    path.write_bytes(content)
    assert "200 names in obs, which need much more memory" in refusal(path)


def test_truncated_files_are_refused(tmp_path):
    path = altered(tmp_path, lambda file: None)
    content = path.read_bytes()
    for size in (0, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        assert "cannot be read as an AnnData file (" in refusal(path)


def test_infinite_counts_of_half_precision_are_refused(tmp_path):
    values = np.array([2, np.inf, 3, 1], np.float16)
    path = altered(tmp_path, lambda file: put(file, "X/data", values), sp.csc_array(COUNTS))
    assert "the count inf is not a whole number" in refusal(path)
    path = write_parquet(tmp_path / "t.parquet", TABLE | {"count": values[:3]})
    assert "the count inf is not a whole number" in refusal(path, read_parquet)


# --- Parquet -----------------------------------------------------------------------------------------------

TABLE = {"document": ["a", "a", "b"], "word": ["x", "y", "x"], "count": [1, 2, 1]}


def test_columns_must_be_different_and_occur_once(tmp_path):
    path = write_parquet(tmp_path / "t.parquet", TABLE)
    assert "must be different columns" in refusal(path, read_parquet, document="word")
    assert "must be different columns" in refusal(path, read_parquet, count="word")
    parquet.write_table(pa.Table.from_arrays([pa.array(["x"])] * 3, names=["document", "word", "word"]), path)
    assert "duplicate field names" in refusal(path, read_parquet, count=None)


def test_damaged_parquet_files_are_refused(tmp_path):
    path = write_parquet(tmp_path / "t.parquet", TABLE)
    content = path.read_bytes()
    for size in (0, 7, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        assert "cannot be read as Parquet" in refusal(path, read_parquet)
    path.write_bytes(content.replace(b"document", b"docum\xff\xffnt"))
    refusal(path, read_parquet)
    path.write_bytes(content.replace(b"PAR1", b"PAR2"))
    assert "cannot be read as Parquet" in refusal(path, read_parquet)


def test_long_texts_of_many_lines_are_read_once(tmp_path):
    n = 300
    word = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int8()), ["w" * 1_000_000])
    path = write_parquet(tmp_path / "t.parquet", {"document": ["d"] * n, "word": word, "count": [1] * n})
    before = pa.default_memory_pool().max_memory()
    assert next(iter(read_parquet(path))).toarray().tolist() == [[n]]
    assert pa.default_memory_pool().max_memory() - before < 100e6
    write_parquet(path, {"document": ["a", "b" * 1_100_000], "word": ["x", "y"], "count": [1, 1]})
    assert "The column 'document'" in refusal(path, read_parquet)


def test_names_of_lines_are_kept_exactly(tmp_path):
    path = write_parquet(tmp_path / "t.parquet", TABLE | {"document": ["a", "a\0", "a\0\0"], "word": ["x", "x\0", "x"]})
    reader = read_parquet(path)
    assert reader.documents.tolist() == ["a", "a\0", "a\0\0"]
    assert reader.vocabulary == ["x", "x\0"]
    assert save_corpus(reader, tmp_path / "corpus").vocabulary == ["x", "x\0"]
