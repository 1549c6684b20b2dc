"""Only regular files are read: each entry point refuses pipes, devices and folders at once, in one sentence."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from skmanifold import StochasticLDA, distributed, load
from skmanifold.datasets import (
    RowFiles,
    dump_ldac,
    dump_uci_docword,
    dump_vocabulary,
    load_ldac,
    load_uci_docword,
    load_vocabulary,
    open_corpus,
    read_anndata,
    read_matrix_market,
    read_parquet,
    save_corpus,
)
from skmanifold.utils import _disk as regular_files

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links, pipes and devices are of POSIX")
KINDS = ("pipe", "socket", "device", "null", "folder", "loop", "nothing")


CALLS = {  # the suffix of a path, and what reads it
    "load": (".npz", load),
    "open_corpus": ("", open_corpus),
    "rows.npy": (".npy", RowFiles),
    "rows.npz": (".npz", RowFiles),
    "rows.parquet": (".parquet", RowFiles),
    "rows.arrow": (".arrow", RowFiles),
    "rows in a list": (".feather", lambda path: RowFiles([path])),
    "docword": ("", load_uci_docword),
    "docword.gz": (".gz", load_uci_docword),
    "ldac": ("", load_ldac),
    "ldac.gz": (".gz", load_ldac),
    "vocabulary": ("", load_vocabulary),
    "vocabulary.gz": (".gz", load_vocabulary),
    "docword with words": ("", lambda path: load_uci_docword(path.with_name("whole"), vocabulary=path)),
    "matrix market": (".mtx", read_matrix_market),
    "matrix market.gz": (".mtx.gz", read_matrix_market),
    "parquet": (".parquet", read_parquet),
    "parquet in a list": ("", lambda path: read_parquet([path])),
    "anndata": (".h5ad", read_anndata),
    "corpus of docword": ("", lambda path: save_corpus(path, path.with_name("corpus"))),
    "words of a corpus": ("", lambda path: save_corpus([[0]], path.with_name("corpus"), vocabulary=path)),
}
FOLDERS = {"open_corpus", "parquet", "rows.npy", "rows.npz", "rows.parquet", "rows.arrow"}


def make(kind, path):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        where = os.getcwd()
        os.chdir(path.parent)  # the name of a socket may not be long
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
        os.chdir(where)
    else:
        targets = {"device": "/dev/zero", "null": "/dev/null", "loop": path, "nothing": f"no {path.name}"}
        path.symlink_to(targets[kind])


def errors(folder):
    """Print what each call raises, as soon as it does: this process is ended if one of them waits."""
    for kind in KINDS:
        here = Path(folder) / kind
        here.mkdir()
        (here / "whole").write_text("1\n1\n1\n1 1 1\n")
        for name, (suffix, call) in CALLS.items():
            path = here / f"{name.replace(' ', '')}{suffix}"
            make(kind, path)
            signal.alarm(60)
            try:
                call(path)
                error = None
            except Exception as raised:
                error = raised
            print(json.dumps([kind, name, type(error).__name__, str(error), str(path)]), flush=True)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("irregular"))
    script = f"from datasets.test_regular_files import errors; errors({folder!r})"
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-c", script]
    child = subprocess.run(command, stdout=subprocess.PIPE, env=environment, timeout=300, check=False)
    return [json.loads(line) for line in child.stdout.splitlines()]


@pytest.mark.parametrize("kind", KINDS)
def test_no_entry_point_waits(told, kind):
    found = [case for of, *case in told if of == kind]
    assert [name for name, *_ in found] == list(CALLS), "the next call waited until its process was ended"
    what = {"null": "a device"}.get(kind, f"a {kind}")
    for name, error, sentence, path in found:
        if kind == "folder" and name in FOLDERS:
            continue  # a folder of files, or without any
        assert path in sentence or name == "open_corpus"  # which names the target of the link
        assert len(sentence.splitlines()) == 1
        if kind in ("loop", "nothing"):
            assert error in ("FileNotFoundError", "OSError")
        elif name == "open_corpus":
            assert error == "ValueError"
        else:
            assert (error, sentence) == ("ValueError", f"{path} must be a regular file, not {what}.")


def test_a_file_that_is_replaced_between_check_and_opening_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "words"
    path.write_text("a\n")
    check = regular_files.check_regular

    def checked(path, status=None):
        check(path, status)
        if status is None:
            path.unlink()
            os.mkfifo(path)

    monkeypatch.setattr(regular_files, "check_regular", checked)
    with pytest.raises(ValueError, match="words must be a regular file, not a pipe"):
        load_vocabulary(path)


def test_checkpoints_are_not_looked_for_in_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with distributed(None, checkpoint_dir=tmp_path / "pipe"), pytest.raises(NotADirectoryError, match="pipe cannot be"):
        StochasticLDA(2, max_iter=1).fit(np.ones((3, 4)))


@pytest.mark.parametrize("kind", ["pipe", "socket", "null"])
def test_only_regular_files_are_replaced(tmp_path, kind):
    path = tmp_path / "target"
    make(kind, path)
    writers = (StochasticLDA().save, lambda path: dump_vocabulary(["a"], path), lambda path: dump_ldac([[1]], path))
    for write in (*writers, lambda path: dump_uci_docword([[1]], path)):
        with pytest.raises(ValueError, match=r"must be a regular file, not a (pipe|socket|device)"):
            write(path)
    assert os.listdir(tmp_path) == ["target"]
    assert not path.is_file()


@contextmanager
def process_substitution(content):
    receiving, sending = os.pipe()
    os.write(sending, content)
    os.close(sending)
    yield Path(f"/dev/fd/{receiving}")
    os.close(receiving)


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="needs /dev/fd")
def test_process_substitution_is_refused_as_a_pipe():
    with process_substitution(b"a\n") as path, pytest.raises(ValueError, match="not a pipe"):
        load_vocabulary(path)


def test_links_to_regular_files_are_read(tmp_path):
    (tmp_path / "words").write_text("a\n")
    (tmp_path / "link").symlink_to(tmp_path / "words")
    assert load_vocabulary(tmp_path / "link") == ["a"]
