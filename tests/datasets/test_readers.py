"""Readers of Matrix Market, Parquet and AnnData files, block by block."""

import gzip
import re

import h5py
import numpy as np
import pyarrow as pa
import pytest
import scipy.io
import scipy.sparse as sp
from pyarrow import parquet

from skmanifold import StochasticLDA
from skmanifold.datasets import _documents as entries
from skmanifold.datasets import _files as text_files
from skmanifold.datasets import dump_uci_docword, read_anndata, read_matrix_market, read_parquet, save_corpus

from ._on_disk import COUNTS, LARGE, assert_holds

NAMES = [f"word {i}" for i in range(LARGE.shape[1])]


def small_blocks(monkeypatch, size=7):
    monkeypatch.setattr(entries, "_CHUNK", size)
    monkeypatch.setattr(text_files, "_BLOCK", size)
    monkeypatch.setattr(entries, "_SORTED", 40)


def write_market(path, counts, field="integer", order="rows", transposed=False, comment=b"% a comment\n"):
    """A file with the entries in the order of documents ("rows") or of words."""
    csr = sp.csr_array(counts) if order == "rows" else sp.csc_array(counts)
    coo = csr.tocoo()
    documents, words = coo.coords
    rows, columns = (words, documents) if transposed else (documents, words)
    shape = counts.shape[::-1] if transposed else counts.shape
    form = {"integer": "%d", "real": "%.1f", "pattern": ""}[field]
    lines = [f"{r + 1} {c + 1} {form % x if form else ''}" for r, c, x in zip(rows, columns, coo.data, strict=True)]
    head = f"%%MatrixMarket matrix coordinate {field} general\n".encode() + comment
    content = head + f"{shape[0]} {shape[1]} {coo.nnz}\n".encode() + "".join(f"{line}\n" for line in lines).encode()
    with (gzip.open if path.suffix == ".gz" else open)(path, "wb") as file:
        file.write(content)
    return path


@pytest.mark.parametrize("counts", [COUNTS, LARGE], ids=["small", "corpus"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("name", "field"), [("m.mtx", "integer"), ("m.mtx.gz", "integer"), ("m.mm", "real")])
@pytest.mark.parametrize("order", ["rows", "columns"])
def test_matrix_market_files_come_back(tmp_path, monkeypatch, counts, transposed, name, field, order):
    small_blocks(monkeypatch, 64)
    path = write_market(tmp_path / name, counts, field, order, transposed)
    reader = read_matrix_market(path, documents="columns" if transposed else "rows", sort=order == "columns")
    assert reader.shape == counts.shape == (len(reader), counts.shape[1])
    assert_holds(save_corpus(reader, tmp_path / "corpus"), counts)


def test_files_of_other_writers(tmp_path):
    path = tmp_path / "m.mtx"
    scipy.io.mmwrite(path, sp.csr_array(LARGE), comment="of scipy")
    assert_holds(save_corpus(read_matrix_market(path, vocabulary=NAMES), tmp_path / "a"), LARGE)
    present = write_market(path, (LARGE > 0).astype(int), "pattern")
    assert_holds(save_corpus(read_matrix_market(present), tmp_path / "b"), (LARGE > 0).astype(int))


def test_blocks_are_a_stream_of_minibatches(tmp_path, monkeypatch):
    small_blocks(monkeypatch, 200)
    reader = read_matrix_market(write_market(tmp_path / "m.mtx", LARGE), vocabulary=NAMES)
    blocks = list(reader)
    assert len(blocks) > 3
    np.testing.assert_array_equal(sp.vstack(blocks).toarray(), LARGE)
    np.testing.assert_array_equal(sp.vstack(list(reader)).toarray(), LARGE)  # from the beginning again
    lda = StochasticLDA(3, total_samples=len(reader), random_state=0)
    for block in reader:
        lda.partial_fit(block)
    assert lda.components_.shape == (3, LARGE.shape[1])
    assert repr(reader) == f"<60 documents over 120 words in {tmp_path / 'm.mtx'}>"


MARKET = b"%%MatrixMarket matrix coordinate integer general\n2 3 2\n1 1 4\n2 3 1\n"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (b"%%MatrixMarket", b"%%Matrix", r"line 1: expected '%%MatrixMarket matrix coordinate"),
        (b"coordinate", b"array", r"line 1: expected '%%MatrixMarket matrix coordinate"),
        (b"integer general", b"complex general", "has complex general entries, which are not counts"),
        (b"2 3 2", b"2 3", "line 2: expected the numbers of rows, columns and entries, got '2 3'"),
        (b"2 3 2", b"2 3000000000 2", "line 2: 2 rows and 3000000000 columns are more than"),
        (b"2 3 2", b"2 3 3", "has 2 entries, but 3 according to its header: it seems to be truncated"),
        (b"2 3 2", b"2 3 1", "has more than 1 entries, the number in its header"),
        (b"1 1 4", b"3 1 4", r"line 3: row 3 is outside 1\.\.2"),
        (b"1 1 4", b"1 0 4", r"line 3: column 0 is outside 1\.\.3"),
        (b"1 1 4", b"1 1", r"line 3: expected 'row column count' \(numbers\), got '1 1'"),
        (b"1 1 4", b"1 1 0.37", "line 3: expected whole numbers, got '1 1 0.37'"),
        (b"1 1 4", b"1 1 -1", r"line 3: value -1 is outside 0\.\.2147483647"),
        (b"1 1 4", b"2 3 4", "has word 3 of document 2 more than once"),
    ],
)
def test_bad_market_files_are_refused_and_nothing_is_left(tmp_path, old, new, sentence):
    path = tmp_path / "m.mtx"
    path.write_bytes(MARKET.replace(old, new))
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}.*{sentence}"):
        save_corpus(read_matrix_market(path), tmp_path / "corpus")
    assert [file.name for file in tmp_path.iterdir()] == ["m.mtx"]


def test_files_in_the_order_of_words_name_the_two_remedies(tmp_path):
    path = write_market(tmp_path / "m.mtx", LARGE, order="columns")
    sentence = r"row \d+ comes after \d+, but the file must be sorted by row: pass sort=True, or documents='columns'"
    with pytest.raises(ValueError, match=sentence):
        save_corpus(read_matrix_market(path), tmp_path / "corpus")
    with pytest.raises(ValueError, match="documents must be 'rows' or 'columns'; got 'cells'"):
        read_matrix_market(path, documents="cells")
    with pytest.raises(ValueError, match=r"The vocabulary has 2 words but .* needs 120"):
        read_matrix_market(path, vocabulary=["a", "b"])


def test_sorting_keeps_the_order_within_documents(monkeypatch):
    monkeypatch.setattr(entries, "_SORTED", 30)
    monkeypatch.setattr(entries, "_MOST_FILES", 3)
    monkeypatch.setattr(entries, "_CHUNK", 11)
    rng = np.random.default_rng(0)
    documents = np.where(rng.random(3000) < 0.5, 7, rng.integers(1, 400, 3000))  # half of them in one document
    table = np.column_stack((documents, np.arange(3000), np.ones(3000, int)))
    found = list(entries.sorted_by_document([(1, table[:900]), (9, table[900:])], 1, 400, len(table)))
    assert len(found) > 50
    expected = table[np.argsort(documents, kind="stable")]
    np.testing.assert_array_equal(np.concatenate([part for _, part in found]), expected)


# --- Parquet -----------------------------------------------------------------------------------------------


def long_table(counts, shuffled=False):
    rows, columns = np.nonzero(counts)
    order = np.random.default_rng(0).permutation(len(rows)) if shuffled else np.arange(len(rows))
    rows, columns = rows[order], columns[order]
    return {"document": rows, "word": columns, "count": counts[rows, columns]}


def write_parquet(path, table, **options):
    parquet.write_table(pa.table(table), path, **options)
    return path


@pytest.mark.parametrize("kind", ["integers", "strings", "categories"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_parquet_files_come_back(tmp_path, monkeypatch, kind, shuffled):
    small_blocks(monkeypatch)
    counts = LARGE[LARGE.sum(axis=1) > 0][:, LARGE.sum(axis=0) > 0]
    table = long_table(counts, shuffled)
    if kind != "integers":
        table = table | {
            "document": pa.array([f"text {i:03d}" for i in table["document"]]),
            "word": pa.array([f"w{i:03d}" for i in table["word"]]),
        }
        if kind == "categories":
            table |= {name: table[name].dictionary_encode() for name in ("document", "word")}
    reader = read_parquet(write_parquet(tmp_path / "t.parquet", table, row_group_size=100), sort=shuffled)
    order = np.argsort([int(str(name).removeprefix("text ")) for name in reader.documents])
    corpus = save_corpus(reader, tmp_path / "corpus")
    if kind == "integers":
        order_of_words = np.argsort([int(word) for word in corpus.vocabulary])
    else:
        order_of_words = np.arange(counts.shape[1])
    np.testing.assert_array_equal(corpus.rows(0, len(corpus)).toarray()[order][:, order_of_words], counts)
    if not shuffled:
        assert_holds(corpus, counts[:, np.argsort(order_of_words)])


def test_lines_may_be_tokens_and_files_several(tmp_path):
    first, second = {"doc": ["b", "b", "b"], "token": ["y", "x", "y"]}, {"doc": ["b", "a"], "token": ["z", "x"]}
    paths = [write_parquet(tmp_path / f"{i}.parquet", table) for i, table in enumerate((first, second))]
    reader = read_parquet(paths, document="doc", word="token", count=None)
    assert reader.documents.tolist() == ["b", "a"]
    corpus = save_corpus(reader, tmp_path / "corpus")
    assert corpus.vocabulary == ["x", "y", "z"]
    np.testing.assert_array_equal(corpus.rows(0, 2).toarray(), [[1, 2, 1], [1, 0, 0]])


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"word": None}, r"has no column 'word'; it has 'document', 'count'"),
        ({"word": ["x", None, "y"]}, r"The column 'word' of .* has missing values"),
        ({"document": [0.5, 1.0, 2.0]}, r"The column 'document' of .* must have strings or integers; it has double"),
        ({"count": ["1", "2", "3"]}, r"The column 'count' of .* must have numbers; it has string"),
        ({"count": [1.0, 2.5, 1.0]}, r"line 2: the count 2.5 is not a whole number from 0 to 2147483647"),
        ({"count": [1, 1, -4]}, r"line 3: the count -4 is not a whole number"),
        ({"document": [1, 2, 1]}, r"line 3: document 1 comes after 2, .* sorted by document: pass sort=True"),
    ],
)
def test_bad_parquet_files_are_refused_in_one_sentence(tmp_path, changed, sentence):
    table = {"document": [1, 1, 2], "word": ["x", "y", "x"], "count": [1, 2, 1]} | changed
    path = write_parquet(tmp_path / "t.parquet", {name: column for name, column in table.items() if column is not None})
    with pytest.raises(ValueError, match=sentence):
        save_corpus(read_parquet(path), tmp_path / "corpus")
    assert [file.name for file in tmp_path.iterdir()] == ["t.parquet"]


# --- AnnData -----------------------------------------------------------------------------------------------


def write_anndata(path, **matrices):
    """A file in the format of anndata 0.8 and later; matrices of the layers, and X."""
    with h5py.File(path, "w") as file:
        shape = next(iter(matrices.values())).shape
        for axis, n, name in zip(("obs", "var"), shape, ("cell", "gene"), strict=True):
            frame = file.create_group(axis)
            frame.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"})
            frame["_index"] = np.array([f"{name} {i}" for i in range(n)], dtype=h5py.string_dtype())
        layers = file.create_group("layers")
        for name, matrix in matrices.items():
            home = file if name == "X" else layers
            if isinstance(matrix, np.ndarray):
                home[name] = matrix
                home[name].attrs["encoding-type"] = "array"
                continue
            group = home.create_group(name)
            group.attrs.update({"encoding-type": f"{matrix.format}_matrix", "shape": matrix.shape})
            for part in ("indptr", "indices", "data"):
                group[part] = getattr(matrix, part)
    return path


@pytest.mark.parametrize("convert", [sp.csr_array, sp.csc_array, np.array], ids=["csr", "csc", "dense"])
@pytest.mark.parametrize("layer", [None, "counts"])
def test_anndata_files_come_back(tmp_path, monkeypatch, convert, layer):
    small_blocks(monkeypatch)
    matrices = {"X": np.log1p(LARGE), layer or "X": convert(LARGE.astype(np.float32))}
    reader = read_anndata(write_anndata(tmp_path / "t.h5ad", **matrices), layer=layer)
    assert reader.documents[:2].tolist() == ["cell 0", "cell 1"]
    corpus = save_corpus(reader, tmp_path / "corpus")
    assert_holds(corpus, LARGE)
    assert corpus.vocabulary[:2] == ["gene 0", "gene 1"]


@pytest.mark.parametrize("convert", [sp.csr_array, sp.csc_array, np.array], ids=["csr", "csc", "dense"])
def test_values_that_are_no_counts_are_refused(tmp_path, convert):
    path = write_anndata(tmp_path / "t.h5ad", X=convert(np.log1p(LARGE)))
    with pytest.raises(ValueError, match=r"the count 0\.693.* is not a whole number from 0 to 2147483647"):
        save_corpus(read_anndata(path), tmp_path / "corpus")
    assert [file.name for file in tmp_path.iterdir()] == ["t.h5ad"]


def test_files_without_the_matrix_are_refused(tmp_path):
    path = write_anndata(tmp_path / "t.h5ad", counts=LARGE)
    with pytest.raises(ValueError, match=r"has no X; it has the layers \['counts'\]"):
        read_anndata(path)
    with pytest.raises(ValueError, match=r"has no layer 'spliced'; it has \['counts'\]"):
        read_anndata(path, layer="spliced")
    (tmp_path / "text").write_text("no HDF5")
    with pytest.raises(ValueError, match="cannot be read as an AnnData file"):
        read_anndata(tmp_path / "text")
    with pytest.raises(FileNotFoundError):
        read_anndata(tmp_path / "missing.h5ad")
    with h5py.File(path, "a") as file:
        del file["obs"].attrs["_index"]
    with pytest.raises(ValueError, match=r"was written by anndata before version 0\.8"):
        read_anndata(path, layer="counts")


# --- progress ----------------------------------------------------------------------------------------------


def test_progress_is_shown(tmp_path, monkeypatch, capsys):
    small_blocks(monkeypatch, 200)
    save_corpus(read_matrix_market(write_market(tmp_path / "m.mtx", LARGE)), tmp_path / "a", verbose=True)
    first, *_, last = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r" ?\d+ of 60: documents saved", first)
    assert last == "60 of 60: documents saved"
    save_corpus((row for row in LARGE), tmp_path / "b", verbose=True)
    assert re.fullmatch(r"\d+: documents saved", capsys.readouterr().out.splitlines()[-1])


@pytest.mark.parametrize("form", [sp.csr_array, np.asarray, "path", lambda X: [X[:30], X[30:]]])
def test_progress_counts_the_documents_of_every_form(tmp_path, form, capsys):
    dump_uci_docword(LARGE, tmp_path / "bag")
    documents = tmp_path / "bag" if form == "path" else form(LARGE)
    save_corpus(documents, tmp_path / "corpus", verbose=True)
    n_all = "" if isinstance(documents, list) else " of 60"  # whose blocks have any number of documents
    assert capsys.readouterr().out.splitlines()[-1] == f"60{n_all}: documents saved"
