"""Checkpoints: of this run or refused, whole or not there, and the same bytes after them."""

import errno
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from skmanifold import StochasticLDA, distributed
from skmanifold.datasets import make_lda_corpus, open_corpus, save_corpus
from skmanifold.inference import _checkpoints, _dask_shards
from skmanifold.inference._driver import Chain
from skmanifold.samplers import ESCA

from ._fake_cluster import FakeClient

K = 4
X = make_lda_corpus(50, 30, K, mean_length=30, random_state=0).data


def lda(sampler="esca", **settings):
    return StochasticLDA(K, sampler=sampler, **{"max_iter": 10, "thin": 2, "random_state": 3, **settings})


class Impatient(ESCA):
    short_name = None

    def has_converged(self, state):
        return state.n_steps == 9


def learned(fitted):
    arrays = [fitted.components_, fitted.log_density_trace_, fitted.topic_word_counts_.data]
    arrays += [fitted.posterior_[name] for name in fitted.posterior_]
    return [np.asarray(array).tobytes() for array in arrays]


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def passes_of(monkeypatch, dies_in=None):
    """Numbers of the passes that chains make; the process ends in the middle of one."""
    passes, advance = [], Chain.advance

    def watched(chain, iteration, *arguments):
        passes.append(iteration)
        if iteration == dies_in:
            raise KeyboardInterrupt
        advance(chain, iteration, *arguments)

    monkeypatch.setattr(Chain, "advance", watched)
    return passes


@pytest.fixture
def checkpoint(tmp_path):
    """The folder of a fit of `lda()` that was cut short in pass 8; its last checkpoint is after pass 6."""
    folder = tmp_path / "passes"
    with pytest.MonkeyPatch.context() as patch, distributed(None, checkpoint_dir=folder, checkpoint_every=3):
        passes_of(patch, dies_in=8)
        with pytest.raises(KeyboardInterrupt):
            lda(n_chains=2).fit(X)
    return folder


def resume(folder, data=X, client=None, **settings):
    with distributed(client, checkpoint_dir=folder, checkpoint_every=3):
        return lda(**{"n_chains": 2, **settings}).fit(data)


@pytest.mark.parametrize("clients", [(3, 2), (None, 3), (4, None), (None, None)])
@pytest.mark.parametrize(("sampler", "on_disk"), [("esca", False), ("gibbs", False), ("esca", True)])
def test_fit_goes_on_where_the_client_died(sampler, clients, on_disk, tmp_path, monkeypatch):
    data = save_corpus(X, tmp_path / "corpus") if on_disk else X
    estimator = lda(sampler, n_chains=2)
    alone = learned(clone(estimator).fit(X))
    first, second = (client and FakeClient(client) for client in clients)
    with monkeypatch.context() as patch:
        passes_of(patch, dies_in=8)
        session = distributed(first, checkpoint_dir=tmp_path / "passes", checkpoint_every=3)
        with session, pytest.raises(KeyboardInterrupt):
            clone(estimator).fit(data)
    passes = passes_of(monkeypatch)
    with distributed(second, checkpoint_dir=tmp_path / "passes", checkpoint_every=3):
        assert learned(clone(estimator).fit(data)) == alone
    assert passes == [7, 7, 8, 8, 9, 9, 10, 10]


def test_another_process_goes_on(checkpoint, tmp_path):
    save_corpus(X, tmp_path / "corpus")
    program = """
import sys
from skmanifold import StochasticLDA, distributed
from skmanifold.datasets import open_corpus
from skmanifold.inference._driver import Chain
advance, passes = Chain.advance, []
Chain.advance = lambda chain, iteration, *rest: (passes.append(iteration), advance(chain, iteration, *rest))
with distributed(None, checkpoint_dir=sys.argv[1]):
    lda = StochasticLDA(4, n_chains=2, max_iter=10, thin=2, random_state=3).fit(open_corpus(sys.argv[2]))
print(passes, lda.components_.tobytes().hex())
"""
    run = [sys.executable, "-c", program, str(checkpoint), str(tmp_path / "corpus")]
    told = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    assert " ".join(told[:-1]) == "[7, 7, 8, 8, 9, 9, 10, 10]"
    assert told[-1] == lda(n_chains=2).fit(X).components_.tobytes().hex()


def test_fit_that_a_callback_stops_is_stopped_there_again(checkpoint, monkeypatch):
    settings = {"sampler": Impatient(), "max_iter": 30, "burn_in": 4}
    stopped = learned(lda(**settings).fit(X))
    folder = checkpoint.parent / "other"
    with monkeypatch.context() as patch, distributed(None, checkpoint_dir=folder, checkpoint_every=4):
        passes_of(patch, dies_in=6)
        with pytest.raises(KeyboardInterrupt):
            lda(**settings).fit(X)
    passes = passes_of(monkeypatch)
    with distributed(None, checkpoint_dir=folder, checkpoint_every=4):
        assert learned(lda(**settings).fit(X)) == stopped
    assert passes == [5, 6, 7, 8, 9]


def test_only_the_last_checkpoint_is_kept(checkpoint):
    (checkpoint / ".pass-00000003-abcd").mkdir()  # of a process that was killed while it wrote
    assert sorted(path.name for path in checkpoint.glob("pass-*")) == ["pass-00000006"]
    resume(checkpoint)
    assert [path.name for path in checkpoint.iterdir()] == ["pass-00000009"]


def test_settings_that_decide_nothing_may_differ(checkpoint):
    assert learned(resume(checkpoint, n_jobs=2, verbose=0)) == learned(lda(n_chains=2).fit(X))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"random_state": 4}, "its seed is '[0-9a-f]{16}', not '[0-9a-f]{16}'"),
        ({"max_iter": 11}, "its max_iter is '10', not '11'"),
        ({"sampler": "gibbs"}, "its sampler is \"'esca'\", not \"'gibbs'\""),
        ({"topic_word_prior": np.full(30, 0.1)}, "its topic_word_prior is 'None', not 'array [0-9a-f]{8}'"),
        ({"data": X[:49]}, "its shape of X is '50 x 30', not '49 x 30'"),
    ],
)
def test_checkpoint_of_another_run_is_refused_by_name(settings, message, checkpoint):
    before = files_of(checkpoint)
    with pytest.raises(ValueError, match=f"^The checkpoint .*pass-00000006 is of another run: {message}; give"):
        resume(checkpoint, **settings)
    assert files_of(checkpoint) == before


def test_checkpoint_of_another_version_is_refused(checkpoint, monkeypatch):
    monkeypatch.setattr(_checkpoints, "__version__", "99.0")
    with pytest.raises(ValueError, match=r"is of another run: its version is '[^']*', not '99\.0'"):
        resume(checkpoint)


@pytest.mark.parametrize("data", [X[::-1], (X > 0).astype(int)])
def test_checkpoint_of_other_documents_is_refused(data, checkpoint):
    """Lengths of the documents tell, even where the table has the same shape."""
    before = files_of(checkpoint)
    with pytest.raises(ValueError, match="damaged: The topics that are stored are not of these rows"):
        resume(checkpoint, data)
    assert files_of(checkpoint) == before


def cut(path):
    path.write_bytes(path.read_bytes()[:-9])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 64
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("checkpoint.json", cut, "checkpoint.json cannot be read"),
        ("checkpoint.json", lambda path: path.write_text("[]"), "checkpoint.json cannot be read"),
        ("checkpoint.json", lambda path: path.write_text("{}"), "checkpoint.json cannot be read"),
        ("chains.pickle", cut, "chains.pickle is not what was written"),
        ("chains.pickle", flip, "chains.pickle is not what was written"),
        ("chains.pickle", lambda path: path.unlink(), "No such file"),
        ("latents-1-0-indptr.npy", lambda path: path.unlink(), "latents of rows 0 to [0-9]+ are missing"),
        ("latents-1-0-values.npy", lambda path: path.unlink(), "No such file"),
        ("latents-0-0-values.npy", cut, "mmap length"),
        ("latents-0-0-indptr.npy", cut, "mmap length"),
    ],
)
@pytest.mark.parametrize("n_workers", [None, 2])
def test_damage_is_told_in_a_sentence(name, damage, message, n_workers, checkpoint):
    damage(checkpoint / "pass-00000006" / name)
    before = files_of(checkpoint)
    with pytest.raises(ValueError, match=rf"^The checkpoint .*pass-00000006 is damaged: .*{message}"):
        resume(checkpoint, client=n_workers and FakeClient(n_workers))
    assert files_of(checkpoint) == before


def full_disk(monkeypatch, after):
    """No room from the `after`-th file on that shards or the client write."""
    save, write, n_written = np.save, _checkpoints._write, 0

    def counted(function):
        def call(*arguments):
            nonlocal n_written
            n_written += 1
            if n_written > after:
                raise OSError(errno.ENOSPC, "No space left on device")
            function(*arguments)

        return call

    monkeypatch.setattr(np, "save", counted(save))
    monkeypatch.setattr(_checkpoints, "_write", counted(write))


@pytest.mark.parametrize("after", range(9))
@pytest.mark.parametrize("n_workers", [None, 2])
def test_full_disk_leaves_the_checkpoint_before(after, n_workers, checkpoint, monkeypatch):
    before = files_of(checkpoint)
    client = n_workers and FakeClient(n_workers)
    with monkeypatch.context() as patch:
        full_disk(patch, after)
        if after >= 6 + (n_workers == 2) * 4:  # latents of two chains, of one shard or two, and two files of the client
            resume(checkpoint, client=client)
            return
        with pytest.raises(OSError, match=r"The checkpoint after pass 9 could not be written to .*passes") as told:
            resume(checkpoint, client=client)
    assert told.value.errno == errno.ENOSPC
    assert "the one before, if any, is untouched" in str(told.value)
    assert files_of(checkpoint) == before
    assert learned(resume(checkpoint, client=client)) == learned(lda(n_chains=2).fit(X))


def test_process_that_ends_while_it_writes_leaves_the_checkpoint_before(checkpoint, monkeypatch):
    def killed(*arguments):
        raise SystemExit  # no except clause of ours may see what ends a process

    with monkeypatch.context() as patch:
        patch.setattr(_checkpoints, "_write", killed)
        patch.setattr(_checkpoints.shutil, "rmtree", lambda *arguments, **options: None)
        with pytest.raises(SystemExit):
            resume(checkpoint)
    assert len(list(checkpoint.glob(".pass-*"))) == 1  # what it left
    passes = passes_of(monkeypatch)
    assert learned(resume(checkpoint)) == learned(lda(n_chains=2).fit(X))
    assert passes[0] == 7
    assert [path.name for path in checkpoint.iterdir()] == ["pass-00000009"]


def test_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"The checkpoint after pass 3 could not be written to .*file"):
        resume(tmp_path / "file")


def test_checkpoint_that_was_half_removed_does_not_stand_in_the_way(tmp_path):
    (tmp_path / "pass-00000003").mkdir()
    (tmp_path / "pass-00000003" / "chains.pickle").write_bytes(pickle.dumps([]))
    assert learned(resume(tmp_path)) == learned(lda(n_chains=2).fit(X))


def test_pickles_are_not_read_before_they_are_known(checkpoint):
    """A header that does not fit keeps a pickle closed, whatever is in it."""
    header = checkpoint / "pass-00000006" / "checkpoint.json"
    header.write_text(json.dumps(json.loads(header.read_text()) | {"crc": 0}))
    with pytest.raises(ValueError, match="not what was written"):
        resume(checkpoint)


def test_corpus_may_have_moved(checkpoint, tmp_path):
    save_corpus(X, tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    assert learned(resume(checkpoint, open_corpus(tmp_path / "b"))) == learned(lda(n_chains=2).fit(X))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(_dask_shards, "_PAUSE", 0.0)
