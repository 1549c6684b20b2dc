"""Mixtures of rows in files: with few rows the bytes of the fit in memory, with many those of any number of shards."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from skmanifold import ExponentialFamilyMixture, HeldOutMonitor, distributed
from skmanifold.datasets import RowFiles, save_corpus
from skmanifold.emissions import Categorical
from skmanifold.mixture._exponential_family import shards
from skmanifold.mixture._exponential_family.shards import sampled_rows
from skmanifold.samplers import EM

from . import test_family_shards
from ._fake_cluster import FakeClient, dies
from ._interrupted import cut_short
from .test_family_shards import ROWS, bytes_of, make_mixture

pytestmark = [pytest.mark.filterwarnings("ignore:EM stopped after"), pytest.mark.usefixtures("impatient")]
ROWS = {**ROWS, "von_mises_fisher": ROWS["gaussian"]}
INCOMPLETE = np.where(np.random.default_rng(1).random((4000, 2)) < 0.1, np.nan, ROWS["gaussian"])
INCOMPLETE[:1100] = ROWS["gaussian"][:1100]  # the first shard has no missing cells
FEW = 1500  # rows of the sample, if there are more


def stored(X, folder, cuts=(0, 700, 1800, 1801, 4000)):
    return test_family_shards.stored(X, folder, cuts)


def everything(fitted):
    new = pd.DataFrame(np.ones((2, fitted.n_features_in_)), columns=getattr(fitted, "feature_names_in_", None))
    new = new if hasattr(fitted, "feature_names_in_") else new.to_numpy()
    return [*bytes_of(fitted), fitted.typical_rows_.tobytes(), fitted.predict_proba(new).tobytes()]


@pytest.mark.covering
@pytest.mark.parametrize("sampler", ["esca", "em", "gibbs"])
@pytest.mark.parametrize("emission", ROWS)
def test_few_rows_have_the_bytes_of_the_fit_in_memory(emission, sampler, tmp_path):
    X = ROWS[emission]
    expected = everything(make_mixture(emission, sampler).fit(X))
    files = stored(X, tmp_path)
    assert everything(make_mixture(emission, sampler).fit(files)) == expected
    with distributed(FakeClient(3)):
        assert everything(make_mixture(emission, sampler).fit(files)) == expected


@pytest.mark.parametrize("sampler", ["esca", "gibbs"])
def test_rows_are_of_one_type_if_some_shards_have_no_missing_cell(sampler, tmp_path):
    expected = everything(make_mixture("gaussian", sampler).fit(INCOMPLETE))
    with distributed(FakeClient(3)):
        assert everything(make_mixture("gaussian", sampler).fit(stored(INCOMPLETE, tmp_path))) == expected


def test_counts_are_of_one_type_in_checkpoints_if_some_shards_have_no_fractions(tmp_path):
    X = ROWS["poisson"].astype(float)
    X[2500:] += 0.5
    files = stored(X, tmp_path)
    expected = everything(make_mixture("poisson", "esca").fit(X))
    cut_short(make_mixture("poisson", "esca"), files, FakeClient(3), tmp_path / "checkpoint")
    with distributed(FakeClient(1), checkpoint_dir=tmp_path / "checkpoint", checkpoint_every=3):
        assert everything(make_mixture("poisson", "esca").fit(files)) == expected


def test_sparse_rows_and_corpora(tmp_path):
    X = ROWS["multinomial"]
    expected = everything(make_mixture("multinomial", "esca").fit(X))
    for start in (0, 1700):
        sp.save_npz(tmp_path / f"{start:04}.npz", sp.csr_array(X[start : start + 1700 if start == 0 else None]))
    for rows in (RowFiles(tmp_path), save_corpus(X, tmp_path / "corpus")):
        with distributed(FakeClient(3)):
            assert everything(make_mixture("multinomial", "esca").fit(rows)) == expected


@pytest.mark.covering
@pytest.mark.parametrize("init", ["k-means++", "random"])
@pytest.mark.parametrize("sampler", ["esca", "em", "gibbs"])
def test_many_rows_have_the_bytes_of_any_number_of_shards(sampler, init, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SAMPLE_ROWS", FEW)
    files = stored(ROWS["gaussian"], tmp_path)
    expected = make_mixture("gaussian", sampler, init=init).fit(files)
    assert len(expected.labels_) == 4000
    assert np.array_equal(expected.labels_, expected.predict(ROWS["gaussian"]))
    assert np.all(expected.labels_[expected.typical_rows_] == np.arange(3))
    for n_workers in (1, 2, 4):
        with distributed(FakeClient(n_workers)):
            assert everything(make_mixture("gaussian", sampler, init=init).fit(files)) == everything(expected)


def test_sample_leads_to_the_same_clusters_as_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SAMPLE_ROWS", FEW)
    of_all = ExponentialFamilyMixture(3, random_state=0).fit(ROWS["gaussian"])
    fitted = ExponentialFamilyMixture(3, random_state=0).fit(stored(ROWS["gaussian"], tmp_path))
    table = np.zeros((3, 3))
    np.add.at(table, (of_all.labels_, fitted.labels_), 1)
    assert table.max(axis=1).sum() > 0.99 * 4000
    assert fitted.score(ROWS["gaussian"]) == pytest.approx(of_all.score(ROWS["gaussian"]), abs=0.01)


@pytest.mark.parametrize(("method", "after"), [("summarize", 2), ("begin", 3), ("make_pass", 17), ("ask", 2)])
def test_fit_survives_a_lost_worker(method, after, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SAMPLE_ROWS", FEW)
    files = stored(ROWS["gaussian"], tmp_path)
    expected = everything(make_mixture("gaussian", "gibbs").fit(files))
    client = dies(method, after)
    with distributed(client, checkpoint_dir=tmp_path / "checkpoint", checkpoint_every=3):
        assert everything(make_mixture("gaussian", "gibbs").fit(files)) == expected
    assert sum(asked == "shape" for _, asked in client.log) > 3


def test_mixture_is_polished_by_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SAMPLE_ROWS", FEW)
    files = stored(ROWS["gaussian"], tmp_path)
    plain, polished = (make_mixture("gaussian", "esca", n_polish=n_polish).fit(files) for n_polish in (0, 3))
    with distributed(FakeClient(2)):
        assert everything(make_mixture("gaussian", "esca", n_polish=3).fit(files)) == everything(polished)
    score = [fitted.score(ROWS["gaussian"]) for fitted in (plain, polished)]
    assert score[1] > score[0]
    assert polished._n_summed_rows == 4000.0


def test_monitor_and_names_of_columns(tmp_path):
    table = pd.DataFrame(ROWS["gaussian"], columns=["x", "y"])
    table[:1500].to_parquet(tmp_path / "a.parquet")
    table[1500:].to_parquet(tmp_path / "b.parquet")
    runs = []
    for rows in (table, RowFiles(tmp_path)):
        monitor = HeldOutMonitor(fraction=0.25, every=2)
        fitted = make_mixture("gaussian", "esca").set_callbacks(monitor).fit(rows)
        runs.append(([row["score"] for row in monitor.get_logs().data], everything(fitted)))
        assert list(fitted.feature_names_in_) == ["x", "y"]
    assert runs[0] == runs[1]


def test_sampled_rows_are_spread_over_all():
    for n_rows in (1, 1000, 16_384):
        assert np.array_equal(sampled_rows(n_rows, np.uint64(1)), np.arange(n_rows))
    chosen = sampled_rows(100_000, np.uint64(1))
    assert len(chosen) == 16_384
    assert np.all(np.diff(chosen) > 0)
    assert abs(np.mean(chosen % 2) - 0.5) < 4 * 0.5 / 128  # the place within a range is random
    assert not np.array_equal(chosen, sampled_rows(100_000, np.uint64(2)))


def test_client_reads_only_the_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SAMPLE_ROWS", FEW)
    seen = []
    read = shards.StoredFamilyShards.__init__

    def watched(self, family, weight_prior, sample, *others):
        seen.append(sample)
        read(self, family, weight_prior, sample, *others)

    monkeypatch.setattr(shards.StoredFamilyShards, "__init__", watched)
    with distributed(FakeClient(2)):
        fitted = make_mixture("gaussian", "em").fit(stored(ROWS["gaussian"], tmp_path))
    assert [(sample.rows, sample.n_all_rows) for sample in seen] == [(None, 4000)]
    assert fitted.labels_.shape == (4000,)


def test_fit_predict_returns_the_labels(tmp_path):
    mixture, files = make_mixture("gaussian", "esca"), stored(ROWS["gaussian"], tmp_path)
    assert np.array_equal(mixture.fit_predict(files), mixture.labels_)
    mixture.set_callbacks(HeldOutMonitor())
    with pytest.raises(ValueError, match="fit_predict cannot predict rows that a callback holds out of X on disk"):
        mixture.fit_predict(files)


@pytest.mark.parametrize("is_sampled", [False, True])
def test_code_that_is_not_in_the_sample_needs_min_categories(is_sampled, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "sampled_rows", lambda n_rows, key: np.arange(FEW))
    codes = ROWS["categorical"].copy()
    codes[7 if is_sampled else 3900, 0] = 6
    files = stored(codes, tmp_path)
    if is_sampled:
        assert make_mixture("categorical", "esca").fit(files).n_categories_[0] == 7
        return
    with pytest.raises(ValueError, match="min_categories"):
        make_mixture("categorical", "esca").fit(files)
    assert list(make_mixture(Categorical(min_categories=7), "esca").fit(files).n_categories_) == [7, 7, 7]


def test_what_needs_rows_in_memory_is_one_sentence(tmp_path):
    files = stored(ROWS["gaussian"], tmp_path)
    for settings, fit in (({"init": ROWS["gaussian"][:, 0] > 0}, {}), ({}, {"sample_weight": np.ones(4000)})):
        with pytest.raises(ValueError, match="sample_weight, and an init of labels, need X in memory"):
            make_mixture("gaussian", EM(), **settings).fit(files, **fit)
    with pytest.raises(ValueError, match="emission='auto' of ExponentialFamilyMixture needs X in memory"):
        make_mixture("auto", "esca").fit(files)
    with pytest.raises(ValueError, match="Negative values in data passed to ExponentialFamilyMixture"):
        make_mixture("poisson", "esca").fit(files)
    with pytest.raises(ValueError, match="n_components=3 components need as many rows, but X has n_samples=2"):
        make_mixture("gaussian", "esca").fit(RowFiles(_two_rows(tmp_path)))
    with distributed(FakeClient(2)), pytest.raises(ValueError, match="Negative values"):
        make_mixture("multinomial", "esca").fit(files)
    missing = np.where(ROWS["gaussian"] > 3.0, np.nan, 1.0)
    with distributed(FakeClient(2)), pytest.raises(ValueError, match="NaN"):
        make_mixture("multinomial", "esca").fit(stored(missing, tmp_path / "nan"))


def _two_rows(folder):
    np.save(folder / "two.npy", ROWS["gaussian"][:2])
    return folder / "two.npy"
