"""Fits on the workers of a Dask cluster: the same bytes as in one process, whatever dies."""

import gc
import os
import signal
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from skmanifold import (
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    HDPAdmixture,
    HeldOutMonitor,
    StochasticLDA,
    distributed,
)
from skmanifold.datasets import make_lda_corpus, save_corpus
from skmanifold.inference._distributed_fits.dask_shards import DaskShards

from ._interrupted import learned, monitored

dask_distributed = pytest.importorskip("distributed", reason="fits on a cluster need dask[distributed]")
da = pytest.importorskip("dask.array")
db = pytest.importorskip("dask.bag")

K = 5
N_WORKERS = 3
on_processes = pytest.mark.parametrize("cluster", ["processes"], indirect=True)  # which can die
W = 39
X = make_lda_corpus(60, 40, K, mean_length=30, random_state=1).data[:, :W]  # all of which a bag shows
FRACTIONS = sp.csr_array((X.data * 0.7, X.indices, X.indptr), X.shape)


def lda(sampler="esca", **settings):
    return StochasticLDA(K, sampler=sampler, **{"max_iter": 12, "thin": 2, "random_state": 3, **settings})


@pytest.fixture(scope="module", params=["threads", pytest.param("processes", marks=pytest.mark.long)])
def cluster(request, tmp_path_factory):
    """Workers in threads of this process start at once, those in processes of their own after seconds."""
    options = {"processes": request.param == "processes", "local_directory": str(tmp_path_factory.mktemp("workers"))}
    with dask_distributed.LocalCluster(
        n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=":0", **options
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def connected(cluster):
    with dask_distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def client(connected):
    connected.wait_for_workers(N_WORKERS, timeout=60)
    return connected


def kept_by(client):
    """Keys that the scheduler knows, and the files of the workers that are ours."""
    folders = [info["local_directory"] for info in client.scheduler_info(n_workers=-1)["workers"].values()]
    files = [name for folder in folders for name in os.listdir(folder) if name.startswith("skmanifold-")]
    return list(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))), files


def assert_left_nothing(client):
    """What is released is forgotten a moment later."""
    gc.collect()
    for _ in range(100):
        if kept_by(client) == ([], []):
            return
        time.sleep(0.05)
    assert kept_by(client) == ([], [])


def test_in_memory_data_on_three_workers(client):
    for sampler, settings in (("esca", {}), ("gibbs", {"n_chains": 2, "n_jobs": 2})):
        alone = learned(lda(sampler, **settings).fit(X))
        with distributed(client):
            assert learned(lda(sampler, **settings).fit(X)) == alone
            assert learned(lda(sampler, **settings).fit(X.toarray())) == alone
    assert_left_nothing(client)


ROUNDS = pytest.mark.filterwarnings("ignore:X has fractional counts, which fit rounds at random:UserWarning")


def _sparse_but_last(block, block_id=(0, 0)):
    return block if block_id[0] == 3 else sp.csr_array(block)


@ROUNDS
def test_dask_array_in_any_blocks(client):
    alone, of_fractions = learned(lda().fit(X)), learned(lda().fit(FRACTIONS))
    dense = da.from_array(FRACTIONS.toarray(), chunks=((7, 30, 1, 22), (25, 14)))
    sparse = da.from_array(X.toarray(), chunks=((7, 30, 1, 22), -1)).map_blocks(sp.csr_matrix)
    both = dense[:, :20].map_blocks(_sparse_but_last, dtype=float)
    with distributed(client):
        assert learned(lda().fit(dense)) == of_fractions
        assert learned(lda().fit(sparse)) == alone
        columns = da.from_array(X.toarray(), chunks=(20, 15)).map_blocks(sp.csr_array)
        assert learned(lda().fit(columns)) == alone
        assert lda(max_iter=2).fit(both).n_features_in_ == 20
    assert_left_nothing(client)


def test_seed_words_of_a_dask_array_are_column_indices(client):
    rows = da.from_array(X.toarray(), chunks=(20, -1))
    for sampler in ("esca", "gibbs"):
        seeded = lda(sampler, seed_words={"first": [1, 2], "second": [3]})
        alone = learned(seeded.fit(X))
        with distributed(client):
            assert learned(seeded.fit(rows)) == alone
    n_columns = X.shape[1]
    with distributed(client):
        with pytest.raises(ValueError, match=rf"column index {n_columns}, but X has {n_columns} columns\.$"):
            lda(seed_words=[[n_columns]]).fit(rows)
        with pytest.raises(ValueError, match="but the columns of X have no names"):
            lda(seed_words=[["nasa"]]).fit(rows)
    assert_left_nothing(client)


def test_dask_data_frame(client):
    dd = pytest.importorskip("dask.dataframe", reason="data frames of older versions of Dask need dask-expr")
    names = [f"word {i}" for i in range(W)]
    table = dd.from_pandas(pd.DataFrame(X.toarray(), columns=names), npartitions=5)
    seeded = lda(seed_words=[[names[3]], [names[1]]])
    with distributed(client):
        fitted = lda().fit(table)
        of_names = seeded.fit(table).components_.tobytes()
        with pytest.raises(ValueError, match="words that are not names of columns of X: 'other'"):
            lda(seed_words=[["other"]]).fit(table)
    assert fitted.feature_names_in_.tolist() == names
    assert of_names == lda(seed_words=[[3], [1]]).fit(X).components_.tobytes()
    assert fitted.components_.tobytes() == lda().fit(X).components_.tobytes()
    assert_left_nothing(client)


def mixed(X, names=()):
    """A mixture of counts of words."""
    fitted = ExponentialFamilyMixture(3, emission="multinomial", max_iter=6, random_state=0).fit(X)
    assert list(getattr(fitted, "feature_names_in_", ())) == list(names)
    arrays = [fitted.components_, fitted.labels_, fitted.typical_rows_, fitted.log_density_trace_]
    return [array.tobytes() for array in arrays]


def test_mixture_of_dask_collections(client):
    dd = pytest.importorskip("dask.dataframe", reason="data frames of older versions of Dask need dask-expr")
    many = sp.vstack([X] * 50, format="csr")  # three blocks of 1,024 rows
    rows = da.from_array(many.toarray(), chunks=((100, 1000, 600, 1300), (25, 14)))
    sparse = da.from_array(many.toarray(), chunks=(700, -1)).map_blocks(sp.csr_matrix)
    names = [f"word {i}" for i in range(W)]
    table = dd.from_pandas(pd.DataFrame(many.toarray(), columns=names), npartitions=4)
    unknown = table.to_dask_array()
    alone = mixed(many)
    with distributed(client):
        assert mixed(rows) == alone
        assert mixed(sparse) == alone
        assert mixed(table, names) == alone
        assert mixed(unknown) == alone
        assert np.isnan(unknown.shape[0])
        with pytest.raises(ValueError, match="does not read Dask bags"):
            mixed(db.from_sequence([["a"]]))
    assert_left_nothing(client)


def test_unknown_number_of_columns_is_one_sentence(client):
    rows = da.from_array(X.toarray(), chunks=(20, -1))
    rows = rows[:, rows.sum(axis=0) >= 0]
    admixture = ExponentialFamilyAdmixture(2, emission="poisson", max_iter=2)
    with distributed(client), pytest.raises(ValueError, match=r"unknown number of columns: call X\.compute_chunk"):
        admixture.fit(rows)


def test_number_of_topics_on_workers(client):
    def topics(rows):
        fitted = HDPAdmixture(init=10, max_iter=20, random_state=0).fit(rows)
        arrays = fitted.components_, fitted.topic_weights_, fitted.log_density_trace_
        return [array.tobytes() for array in arrays]

    documents = [np.repeat(np.arange(W), counts).tolist() for counts in X.toarray()]
    alone = topics(X)
    with distributed(client):
        for rows in (X, da.from_array(X.toarray(), chunks=(13, -1)), db.from_sequence(documents, npartitions=4)):
            assert topics(rows) == alone
    assert_left_nothing(client)


def test_monitor_holds_out_rows_of_dask_collections(client):
    dd = pytest.importorskip("dask.dataframe", reason="data frames of older versions of Dask need dask-expr")

    short = lda(max_iter=4)
    words = [f"word {i}" for i in range(W)]
    documents = [np.repeat(np.arange(W), counts).tolist() for counts in X.toarray()]
    alone = monitored(short, X)
    with distributed(client):
        assert monitored(short, da.from_array(X.toarray(), chunks=((7, 30, 1, 22), (25, 14)))) == alone
        assert monitored(short, da.from_array(X.toarray(), chunks=(13, -1)).map_blocks(sp.csr_array)) == alone
        assert monitored(short, dd.from_pandas(pd.DataFrame(X.toarray(), columns=words), npartitions=4)) == alone
        assert monitored(short, db.from_sequence(documents, npartitions=4)) == alone
        held = HeldOutMonitor(fraction=0.3)._chosen(60, None)[1][0]
        documents[held] = [*documents[held], W + 5]  # a word of no other document
        assert monitored(short, db.from_sequence(documents, npartitions=4)) == alone
    assert_left_nothing(client)


@ROUNDS
def test_fractions_are_rounded_by_their_row_in_all_data(client):
    for sampler in ("esca", "gibbs"):
        with distributed(client), pytest.warns(UserWarning, match="rounds at random: this moves [0-9]+% of their sum"):
            fitted = lda(sampler).fit(da.from_array(FRACTIONS.toarray(), chunks=(13, -1)))
        assert learned(fitted) == learned(lda(sampler).fit(FRACTIONS))


def test_dask_bag_of_documents(client):
    rows = [X[[i]] for i in range(X.shape[0])]
    mappings = [dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)) for row in rows]
    tokens = [np.repeat(row.indices, row.data.astype(int)) for row in rows]
    alone = learned(lda().fit(X))
    with distributed(client):
        assert learned(lda().fit(db.from_sequence(mappings, npartitions=7))) == alone
        assert learned(lda().fit(db.from_sequence(tokens, npartitions=2).map(np.sort))) == alone
        some_empty = db.from_sequence(enumerate(mappings), npartitions=9).filter(lambda pair: pair[0] >= 21)
        later = lda().fit(some_empty.map(lambda pair: pair[1]))
    counts = sp.vstack(rows[21:])
    assert later.components_.tobytes() == lda().fit(counts).components_.tobytes()


def test_corpus_on_disk(client, tmp_path):
    corpus = save_corpus(X, tmp_path / "whole")
    parts = [save_corpus(X[a:b], tmp_path / f"{a}", n_features=W) for a, b in ((0, 5), (5, 31), (31, 60))]
    alone = learned(lda(n_chains=2).fit(X))
    with distributed(client):
        assert learned(lda(n_chains=2).fit(corpus)) == alone
        assert learned(lda(n_chains=2).fit(parts)) == alone
    assert_left_nothing(client)


def test_documents_without_tokens_and_workers_without_documents(client):
    sparse = sp.vstack([sp.csr_array((40, W)), X[:2]]).tocsr()
    with distributed(client):
        assert learned(lda().fit(sparse)) == learned(lda().fit(sparse))
        blocks = da.from_array(sparse.toarray(), chunks=(7, -1))
        fitted = lda().fit(blocks), lda().fit(sparse), lda().fit(X[:1])
    assert learned(fitted[0]) == learned(fitted[1]) == learned(lda().fit(sparse))
    assert learned(fitted[2]) == learned(lda().fit(X[:1]))


def test_rows_that_are_not_counts_are_refused_before_the_first_pass(client):
    def block(value):
        table = X.toarray().astype(float)
        table[33, 4] = value
        return da.from_array(table, chunks=(10, -1))

    before = lda().fit(X)
    known = dict(before.__dict__)
    uneven = da.concatenate([da.from_array(X[:30].toarray(), chunks=10), da.from_array(X[30:].toarray(), chunks=10)])
    uneven = uneven.rechunk((30, -1)).map_blocks(lambda part: part[:, : len(part[0]) - int(part[0, 0] % 2)])
    with distributed(client):
        for data, message in (
            (block(-1), "Negative values in data passed to StochasticLDA"),
            (block(np.nan), "Input X contains NaN"),
            (block(1e300), "X has a count of 1e\\+300"),
            (da.zeros((20, 5), chunks=4), "X has no tokens"),
            (db.from_sequence([{}, {}]), "X has no tokens"),
            (db.from_sequence([{0: -1}]), "not a whole number"),
            (da.zeros(20, chunks=4), "Expected 2D array"),
        ):
            with pytest.raises(ValueError, match=message):
                before.fit(data)
        with pytest.raises(TypeError, match="neither a mapping"):
            before.fit(db.from_sequence(["a", "b"]))
    assert before.__dict__ == known
    with pytest.raises(TypeError, match=r"X is a bag of Dask, which only a fit within `with skmanifold\.distributed"):
        before.fit(db.from_sequence([{0: 1}]))
    assert_left_nothing(client)


def test_nothing_is_left_behind_by_a_fit_that_fails(client, tmp_path, monkeypatch):
    corpus = save_corpus(X, tmp_path / "corpus")
    call = DaskShards.call

    def fail(self, method, chain, *arguments):
        answer = call(self, method, chain, *arguments)
        if method == "sample_given_others":
            assert kept_by(client)[1]  # latents in the workers' folders
            raise ZeroDivisionError
        return answer

    monkeypatch.setattr(DaskShards, "call", fail)
    with distributed(client), pytest.raises(ZeroDivisionError):
        lda().fit(corpus)
    assert_left_nothing(client)


@pytest.mark.long
def test_another_client_of_this_process_does_not_matter(client, cluster):
    alone = learned(lda().fit(X))
    with (
        dask_distributed.Client(cluster) as default,
        dask_distributed.Client(cluster, direct_to_workers=True, set_as_default=False) as other,
    ):
        for of_fit in (other, default, client):
            with distributed(of_fit):
                assert learned(lda().fit(X)) == alone
    assert_left_nothing(client)


def killing(monkeypatch, client, at_runs):
    """Kill a worker when a pass begins."""
    on_all, n_runs = DaskShards._on_all, 0

    def kill(self, method, *arguments):
        nonlocal n_runs
        n_runs += method == "make_pass"
        if method == "make_pass" and n_runs in at_runs:
            address = self._addresses[0]
            pid = client.run(os.getpid, workers=[address])[address]
            assert pid != os.getpid()
            os.kill(pid, signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
        return on_all(self, method, *arguments)

    monkeypatch.setattr(DaskShards, "_on_all", kill)
    return lambda: n_runs


@pytest.mark.long
@on_processes
def test_two_deaths_with_checkpoints(client, monkeypatch, tmp_path):
    corpus = save_corpus(X, tmp_path / "corpus")
    alone = learned(lda().fit(X))
    n_runs = killing(monkeypatch, client, {9, 14})
    with distributed(client, checkpoint_dir=tmp_path / "passes", checkpoint_every=3):
        assert learned(lda().fit(corpus)) == alone
    assert n_runs() < 9 + 5 + 13  # not from the beginning
    assert_left_nothing(client)


@pytest.mark.long
def test_worker_without_the_package_is_named(tmp_path):
    (tmp_path / "hide.py").write_text("import sys\nsys.modules['skmanifold'] = None\n")
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        dask_distributed.LocalCluster(**options, preload=[str(tmp_path / "hide.py")]) as cluster,
        dask_distributed.Client(cluster) as client,
        distributed(client),
        pytest.raises(RuntimeError, match=r"The worker .* does not have skmanifold"),
    ):
        lda().fit(X)
