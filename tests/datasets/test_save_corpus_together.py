"""Several writers and readers of the same corpus at the same time, and Ctrl-C while an old one is deleted."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from skmanifold.datasets import Corpus, open_corpus, save_corpus
from skmanifold.datasets import _corpus as corpus_module
from skmanifold.datasets import _save_corpus as writer
from skmanifold.utils import _disk as disk

from ._on_disk import COUNTS, LARGE, assert_holds

SMALL = LARGE[:5, :4]
REPLACED = "was replaced after this corpus was opened; open it again."


def holds_one_of(corpus, *all_counts):
    found = corpus.rows(0, len(corpus)).toarray().tolist()
    return any(found == counts.tolist() for counts in all_counts)


@pytest.fixture(params=["one step", "two steps"])
def in_both_ways(request, monkeypatch):
    """With and without the exchange of folders, which only Linux has."""
    if request.param == "two steps":
        monkeypatch.setattr(writer, "exchange", lambda *folders: False)


def test_readers_always_find_a_corpus_that_others_replace(path):
    save_corpus(COUNTS, path)
    probe, other = path.parent / "probe", path.parent / "other"
    for folder in (probe, other):
        folder.mkdir()
    if not disk.exchange(probe, other):
        pytest.skip("this file system cannot exchange folders")

    def read(n):
        told = []
        for _ in range(n):
            corpus = open_corpus(path)  # never an error
            try:
                assert holds_one_of(corpus, COUNTS, SMALL)
            except ValueError as error:
                told.append(str(error))
        return told

    def write(n):
        for i in range(n):
            save_corpus((COUNTS, SMALL)[i % 2], path, overwrite=True)

    with ThreadPoolExecutor(5) as threads:
        writers = [threads.submit(write, 25) for _ in range(2)]
        readers = [threads.submit(read, 120) for _ in range(3)]
        told = [sentence for reader in readers for sentence in reader.result()]
        for each in writers:
            each.result()
    assert {sentence.removeprefix(f"{path} ") for sentence in told} <= {REPLACED}
    assert sorted(os.listdir(path.parent)) == ["corpus", "other", "probe"]


@pytest.mark.usefixtures("in_both_ways")
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("overwrite", [False, True])
def test_of_writers_without_overwriting_one_succeeds_and_with_it_all(path, old, overwrite):
    if old and overwrite:
        save_corpus(LARGE, path)
    together = Barrier(4)

    def documents(counts):
        yield counts
        together.wait()  # after all have seen that they may write

    def save(counts):
        try:
            return save_corpus(documents(counts), path, overwrite=overwrite)
        except FileExistsError as error:
            return str(error)

    with ThreadPoolExecutor(4) as threads:
        told = [result for result in threads.map(save, [COUNTS, SMALL] * 2) if isinstance(result, str)]
    assert told == [f"{path} exists; pass overwrite=True to replace the corpus."] * (0 if overwrite else 3)
    assert holds_one_of(open_corpus(path), COUNTS, SMALL)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("replace_at", range(12))
def test_a_corpus_that_is_replaced_while_it_is_opened_is_opened_again(path, replace_at, monkeypatch):
    save_corpus(LARGE, path)
    save_corpus(COUNTS, path.parent / "other")
    stamp_of, calls = corpus_module.stamp_of, []

    def replacing(file):
        calls.append(file)
        if len(calls) == replace_at + 1:
            disk.exchange(path, path.parent / "other") or writer._replace(path.parent / "other", path)
        return stamp_of(file)

    for name in ("_corpus", "_corpus_files", "_files"):
        monkeypatch.setattr(f"skmanifold.datasets.{name}.stamp_of", replacing)
    corpus = Corpus(path)
    assert len(calls) > replace_at
    monkeypatch.undo()
    if replace_at < 10:
        assert_holds(corpus, COUNTS)


def test_a_damaged_corpus_is_refused_at_once(path, monkeypatch):
    save_corpus(COUNTS, path)
    (path / "counts.npy").unlink()
    tries, opened = [], Corpus._open
    monkeypatch.setattr(Corpus, "_open", lambda self: (tries.append(1), opened(self)))
    with pytest.raises(ValueError, match=r"is damaged: counts\.npy is missing"):
        open_corpus(path)
    assert len(tries) == 1


@pytest.mark.usefixtures("in_both_ways")
@pytest.mark.parametrize("name", ["unlink", "rmdir", "scandir", "fsync", "rmtree"])
@pytest.mark.parametrize("place", [0, 1, 4, 7])
def test_an_interrupt_at_any_step_leaves_one_corpus_and_nothing_else(path, name, place, monkeypatch):
    save_corpus(LARGE, path)
    module = shutil if name == "rmtree" else os
    function, calls = getattr(module, name), []

    def interrupted(*arguments, **options):
        calls.append(None)
        if len(calls) == place + 1:
            raise KeyboardInterrupt
        return function(*arguments, **options)

    monkeypatch.setattr(module, name, interrupted)
    if len(_outcome(path)) == 0:
        assert len(calls) > place
    monkeypatch.undo()
    assert os.listdir(path.parent) == [path.name]
    assert holds_one_of(open_corpus(path), COUNTS, LARGE)


def _outcome(path):
    """The corpus, or nothing if the interrupt came through."""
    try:
        return save_corpus(COUNTS, path, overwrite=True)
    except KeyboardInterrupt:
        return ()


def test_an_interrupt_after_the_exchange_deletes_the_old_corpus(path, monkeypatch):
    save_corpus(LARGE, path)

    def interrupted(*folders):
        if not disk.exchange(*folders):
            pytest.skip("this file system cannot exchange folders")
        raise KeyboardInterrupt

    monkeypatch.setattr(writer, "exchange", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_corpus(COUNTS, path, overwrite=True)
    assert os.listdir(path.parent) == [path.name]
    assert_holds(open_corpus(path), COUNTS)


def test_an_old_corpus_that_was_opened_tells_that_it_was_replaced(path):
    old = save_corpus(LARGE, path)
    save_corpus(SMALL, path, overwrite=True)
    for read in (lambda: old.rows(0, 2), lambda: old.counts(0, len(old)), lambda: old.digest):
        with pytest.raises(ValueError, match=f"{REPLACED[:-1]}\\.$"):
            read()
    assert np.array_equal(open_corpus(path).rows(0, 5).toarray(), SMALL)
