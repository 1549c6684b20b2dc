"""Rows in files: what is found without reading the rows, and the fit to rows that only workers read."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

from skmanifold import DPMixture, ExponentialFamilyAdmixture, StochasticLDA, distributed
from skmanifold.datasets import RowFiles, make_lda_corpus, save_corpus
from skmanifold.datasets._row_files import RowFile
from skmanifold.emissions import Bernoulli
from skmanifold.inference._distributed_fits.sources import FilesSource

from ._fake_cluster import FakeClient
from ._interrupted import learned, monitored

X = make_lda_corpus(60, 20, 3, mean_length=30, random_state=0).data
NAMES = [f"word {i}" for i in range(X.shape[1])]
CUTS = [(0, 13), (13, 30), (30, 47), (47, 60)]


def write(path, rows):
    table = pd.DataFrame(rows.toarray(), columns=NAMES)
    if path.suffix == ".npy":
        np.save(path, rows.toarray())
    elif path.suffix == ".npz":
        sp.save_npz(path, rows)
    elif path.suffix == ".parquet":
        table.to_parquet(path)
    elif path.suffix == ".feather":
        table.to_feather(path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.Table.from_pandas(table).schema) as file:
            file.write_table(pa.Table.from_pandas(table, preserve_index=False), max_chunksize=4)


@pytest.fixture(params=["npy", "npz", "parquet", "arrow", "feather"])
def folder(request, tmp_path):
    for i, (start, stop) in enumerate(CUTS):
        write(tmp_path / f"part-{i}.{request.param}", X[start:stop])
    (tmp_path / "README.txt").write_text("other files are left alone")
    return tmp_path


def lda(**settings):
    return StochasticLDA(3, **{"max_iter": 6, "random_state": 0, **settings})


def test_shape_and_rows(folder):
    files = RowFiles(folder)
    assert files.shape == X.shape
    assert len(files) == X.shape[0]
    assert repr(files) == "<60 rows of 20 columns in 4 files>"
    is_table = not list(folder.glob("*.np?"))
    assert files.feature_names == (NAMES if is_table else None)
    assert (sp.vstack(list(map(sp.csr_array, files))) != X).nnz == 0


def test_fit_has_the_bytes_of_the_fit_in_memory(folder):
    expected = learned(lda().fit(X))
    assert learned(lda().fit(RowFiles(folder))) == expected
    for n_workers in (1, 3, 7):
        with distributed(FakeClient(n_workers)):
            fitted = lda().fit(RowFiles(folder))
        assert learned(fitted) == expected
    assert list(getattr(fitted, "feature_names_in_", [])) == (RowFiles(folder).feature_names or [])
    paths = sorted(folder.glob("part-*"))
    with distributed(FakeClient(3)):
        assert learned(lda().fit(RowFiles(paths))) == expected
        assert learned(lda().fit(RowFiles(paths[::-1]))) != expected


def test_client_reads_no_rows(folder, monkeypatch):
    files, read = RowFiles(folder), []
    monkeypatch.setattr(RowFile, "read", lambda self: read.append(self))
    for block_rows, n_parts in ((1, 3), (1, 7), (16, 3), (64, 3)):
        parts = FilesSource(files, block_rows).split(n_parts)
        covered = [(part.file, row) for some in parts for part in some for row in range(part.start, part.stop)]
        assert covered == [(file, row) for file in files.files for row in range(file.n_rows)]
        assert len(parts) == (1 if block_rows == 64 else n_parts)
        sizes = [sum(part.stop - part.start for part in some) for some in parts]
        assert all(size % block_rows == 0 for size in sizes[:-1])
        assert max(sizes) < 60 / n_parts + max(8, block_rows) or block_rows == 64
    assert read == []


def test_a_corpus_can_be_saved(folder, tmp_path):
    corpus = save_corpus(RowFiles(folder), tmp_path / "corpus")
    assert (sp.csr_array(corpus.rows(0, 60)) != X).nnz == 0


def test_monitor_holds_out_the_rows_that_it_would_in_memory(folder, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("corpora")
    corpora = [save_corpus(X[:25], tmp_path / "a"), save_corpus(X[25:], tmp_path / "b")]
    expected = monitored(lda(), X)
    with distributed(FakeClient(3)):
        assert monitored(lda(), RowFiles(folder)) == monitored(lda(), corpora) == expected
    kept, held = RowFiles(folder).hold_out(np.arange(10, 31))  # all rows of the second file
    assert len(kept.files) == 3
    assert len(kept) + held.shape[0] == 60
    assert (sp.csr_array(held) != X[10:31]).nnz == 0
    with pytest.raises(ValueError, match="held out only once"):
        kept.hold_out(np.arange(3))


def test_seed_words_by_the_names_of_columns(tmp_path):
    write(tmp_path / "rows.parquet", X)
    column = int(np.asarray(X.sum(axis=0)).argmax())
    expected = learned(lda(seed_words=[[column]]).fit(X))
    assert learned(lda(seed_words=[[NAMES[column]]]).fit(RowFiles(tmp_path))) == expected
    with pytest.raises(ValueError, match="column index 20, but X has 20 columns"):
        lda(seed_words=[[20]]).fit(RowFiles(tmp_path))
    with pytest.raises(ValueError, match="not names of columns of X: 'other'"):
        lda(seed_words=[["other"]]).fit(RowFiles(tmp_path))


def test_index_of_a_data_frame_is_no_column(tmp_path):
    table = pd.DataFrame({"a": [1, 2], "b": [3, 0]}, index=[7, 3])
    table.to_parquet(tmp_path / "rows.parquet")
    files = RowFiles(tmp_path)
    assert files.shape == (2, 2)
    (rows,) = files
    np.testing.assert_array_equal(rows, table)


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_sparse_file_with_impossible_indices_is_refused(kind, tmp_path):
    rows = X.asformat(kind).copy()
    sp.save_npz(tmp_path / "rows.npz", rows)
    with np.load(tmp_path / "rows.npz") as arrays:
        changed = dict(arrays)
    changed["indices"][5] = 10**6
    np.savez(tmp_path / "rows.npz", **changed)
    with pytest.raises(ValueError, match="index"):
        lda().fit(RowFiles(tmp_path))


def test_files_without_rows_are_one_sentence(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((0, 2)))
    assert RowFiles(tmp_path).shape == (0, 2)
    with pytest.raises(ValueError, match=r"^X has no rows\.$"):
        lda().fit(RowFiles(tmp_path))


def test_missing_cells_and_negative_counts_are_refused(tmp_path):
    table = pd.DataFrame({"a": [1.0, np.nan], "b": [0.0, 2.0]})
    table.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="Input X contains NaN"):
        lda().fit(RowFiles(tmp_path))
    table.fillna(-1).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="Negative values in data passed to StochasticLDA"):
        lda().fit(RowFiles(tmp_path))


def test_files_that_do_not_fit_are_one_sentence(tmp_path):
    with pytest.raises(ValueError, match="has no files with rows"):
        RowFiles(tmp_path)
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    np.save(tmp_path / "b.npy", np.ones((3, 4)))
    with pytest.raises(ValueError, match=r"same number of columns; there are files of \[2, 4\]"):
        RowFiles(tmp_path)
    np.save(tmp_path / "b.npy", np.ones(3))
    with pytest.raises(ValueError, match=r"b\.npy has an array of 1 dimensions"):
        RowFiles(tmp_path)
    np.save(tmp_path / "b.npy", np.array([[{}]]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"b\.npy cannot be read as an array"):
        RowFiles(tmp_path)
    np.savez(tmp_path / "c.npz", a=np.ones(3))
    with pytest.raises(ValueError, match=r"c\.npz cannot be read as a sparse matrix of scipy\.sparse\.save_npz"):
        RowFiles(tmp_path / "c.npz")
    with pytest.raises(ValueError, match="must be a file of one of the types"):
        RowFiles([tmp_path / "rows.csv"])
    pd.DataFrame({"a": ["x"]}).to_parquet(tmp_path / "d.parquet")
    with pytest.raises(ValueError, match=r"column 'a' of .*d\.parquet must have numbers"):
        RowFiles(tmp_path / "d.parquet")
    for name, columns in (("e", "ab"), ("f", "ba")):
        pd.DataFrame({column: [1] for column in columns}).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(ValueError, match=r"same columns in the same order; those of .*f\.parquet differ"):
        RowFiles([tmp_path / "e.parquet", tmp_path / "f.parquet"])
    with pytest.raises(FileNotFoundError):
        RowFiles(tmp_path / "nothing.npy")


def test_file_that_changes_or_is_not_on_a_worker_is_one_sentence(tmp_path):
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", X.toarray())
    files = RowFiles(tmp_path)
    np.save(tmp_path / "b.npy", X[:30].toarray())
    with distributed(FakeClient(2)), pytest.raises(ValueError, match=r"b\.npy has the shape \(30, 20\), but had"):
        lda().fit(files)
    (tmp_path / "b.npy").rename(tmp_path / "c.npy")
    with distributed(FakeClient(2)), pytest.raises(FileNotFoundError, match="all workers must have the files of X"):
        lda().fit(files)


def test_what_is_not_in_memory_is_refused_in_one_sentence_where_it_is_not_read(tmp_path):
    write(tmp_path / "a.npy", X)
    fitted = lda(max_iter=2).fit(X)
    for rows in (RowFiles(tmp_path), save_corpus(X, tmp_path / "corpus")):
        name = type(rows).__name__
        with pytest.raises(TypeError, match=f"^X is a {name}, which is not in memory: pass its rows part by part"):
            DPMixture(emission="poisson").fit(rows)
    with pytest.raises(TypeError, match=r"^X is a RowFiles, which is not in memory"):
        fitted.transform(RowFiles(tmp_path))


def test_what_an_admixture_cannot_read_is_one_sentence(tmp_path):
    write(tmp_path / "a.npz", X)
    with pytest.raises(ValueError, match="emission='bernoulli' takes 0 and 1, and NaN where a cell is missing"):
        ExponentialFamilyAdmixture(3, emission="bernoulli").fit(RowFiles(tmp_path))
    np.save(tmp_path / "b.npy", np.full((4, 3), 0.5))
    emission = Bernoulli(allow_probabilities=True)
    with pytest.raises(ValueError, match="Cells that are probabilities need X in memory"):
        ExponentialFamilyAdmixture(3, emission=emission).fit(RowFiles(tmp_path / "b.npy"))
    (tmp_path / "b.npy").unlink()
    write(tmp_path / "a.npz", 0 * X)
    with pytest.raises(ValueError, match="X has no tokens"):
        ExponentialFamilyAdmixture(3, emission="poisson").fit(RowFiles(tmp_path))
