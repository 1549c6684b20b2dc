"""Checkpoints: whole or not there, and the same bytes after them."""

import errno
import subprocess
import sys

import pytest
from sklearn.base import clone

from skmanifold import ExponentialFamilyMixture, distributed
from skmanifold.datasets import open_corpus, save_corpus
from skmanifold.inference._distributed_fits import checkpoints
from skmanifold.inference._distributed_fits import exchange as stored_latents
from skmanifold.samplers import ESCA
from skmanifold.utils import _disk as disk

from ._fake_cluster import FakeClient
from ._interrupted import X, cut_short, files_of, lda, learned, passes_of, resume

pytestmark = pytest.mark.usefixtures("impatient")


class Impatient(ESCA):
    short_name = None

    def has_converged(self, state):
        return state.n_steps == 9


@pytest.mark.covering
@pytest.mark.parametrize("clients", [(3, 2), (None, 3), (4, None), (None, None)])
@pytest.mark.parametrize(("sampler", "on_disk"), [("esca", False), ("gibbs", False), ("esca", True)])
def test_fit_goes_on_where_the_client_died(sampler, clients, on_disk, tmp_path, monkeypatch):
    data = save_corpus(X, tmp_path / "corpus") if on_disk else X
    estimator = lda(sampler, n_chains=2)
    alone = learned(clone(estimator).fit(X))
    first, second = (client and FakeClient(client) for client in clients)
    cut_short(clone(estimator), data, first, tmp_path / "passes")
    passes = passes_of(monkeypatch)
    with distributed(second, checkpoint_dir=tmp_path / "passes", checkpoint_every=3):
        assert learned(clone(estimator).fit(data)) == alone
    assert passes == [7, 7, 8, 8, 9, 9, 10, 10]


@pytest.mark.long
def test_another_process_goes_on(checkpoint, tmp_path):
    save_corpus(X, tmp_path / "corpus")
    program = """
import sys
from skmanifold import StochasticLDA, distributed
from skmanifold.datasets import open_corpus
from skmanifold.inference._chains import Chain
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
    cut_short(lda(**settings), X, None, folder, dies_in=6, every=4)
    passes = passes_of(monkeypatch)
    with distributed(None, checkpoint_dir=folder, checkpoint_every=4):
        assert learned(lda(**settings).fit(X)) == stopped
    assert passes == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("dies_in", [14, 18])  # before and after burn-in ends
def test_fit_whose_burn_in_ended_early_ends_at_the_same_pass(dies_in, tmp_path, monkeypatch):
    settings = {"sampler": ESCA(n_average=5, tol=1e3), "doc_topic_prior": 0.3, "max_iter": 60, "n_chains": 2}
    whole = learned(lda(**settings).fit(X))
    cut_short(lda(**settings), X, None, tmp_path, dies_in, every=2)
    passes = passes_of(monkeypatch)
    with distributed(None, checkpoint_dir=tmp_path, checkpoint_every=2):
        assert learned(lda(**settings).fit(X)) == whole
    assert sorted(set(passes)) == list(range(dies_in - 1, 20))


def test_only_the_last_checkpoint_is_kept(checkpoint, monkeypatch):
    (checkpoint / ".pass-00000003-abcd").mkdir()  # of a process that was killed while it wrote
    assert sorted(path.name for path in checkpoint.glob("pass-*")) == ["pass-00000006"]
    passes_of(monkeypatch, dies_in=10)
    with pytest.raises(KeyboardInterrupt):
        resume(checkpoint)
    assert [path.name for path in checkpoint.iterdir()] == ["pass-00000009"]


def test_finished_fit_removes_its_checkpoints(checkpoint, monkeypatch):
    resume(checkpoint)
    assert list(checkpoint.iterdir()) == []
    settings = {"sampler": Impatient(), "max_iter": 30, "burn_in": 4}  # stopped after pass 9
    with distributed(None, checkpoint_dir=checkpoint, checkpoint_every=2):
        lda(**settings).fit(X)
    assert list(checkpoint.iterdir()) == []


def test_fit_that_is_interrupted_after_its_last_pass_keeps_them(tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("skmanifold.mixture._exponential_family.fit_strategies.label_rows", interrupted)
    mixture = ExponentialFamilyMixture(2, emission="poisson", max_iter=4, random_state=0)
    with distributed(None, checkpoint_dir=tmp_path, checkpoint_every=3), pytest.raises(KeyboardInterrupt):
        mixture.fit(X)
    assert [path.name for path in tmp_path.iterdir()] == ["pass-00000003"]


def full_disk(monkeypatch, after):
    """No room from the `after`-th file on that shards or the client write."""
    n_written = 0

    def counted(function):
        def call(*arguments, **options):
            nonlocal n_written
            n_written += 1
            if n_written > after:
                raise OSError(errno.ENOSPC, "No space left on device")
            function(*arguments, **options)

        return call

    for module, name in ((stored_latents, "write_own"), (checkpoints, "write"), (checkpoints, "write_own")):
        monkeypatch.setattr(module, name, counted(getattr(module, name)))


@pytest.mark.covering
@pytest.mark.parametrize("after", range(7))
@pytest.mark.parametrize("n_workers", [None, 2])
def test_full_disk_leaves_the_checkpoint_before(after, n_workers, checkpoint, monkeypatch):
    before = files_of(checkpoint)
    client = n_workers and FakeClient(n_workers)
    with monkeypatch.context() as patch:
        full_disk(patch, after)
        if after >= 4 + (n_workers == 2) * 2:  # latents of two chains, of one shard or two, and two files of the client
            resume(checkpoint, client=client)
            return
        with pytest.raises(OSError, match=r"The checkpoint after pass 9 could not be written to .*passes") as told:
            resume(checkpoint, client=client)
    assert told.value.errno == errno.ENOSPC
    assert "the previous one, if any, is kept" in str(told.value)
    assert files_of(checkpoint) == before
    assert learned(resume(checkpoint, client=client)) == learned(lda(n_chains=2).fit(X))


def test_process_that_ends_while_it_writes_leaves_the_checkpoint_before(checkpoint, monkeypatch):
    def killed(*arguments):
        raise SystemExit  # no except clause of ours may see what ends a process

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "write_own", killed)
        patch.setattr(checkpoints.shutil, "rmtree", lambda *arguments, **options: None)
        with pytest.raises(SystemExit):
            resume(checkpoint)
    assert len(list(checkpoint.glob(".pass-*"))) == 1  # what it left
    passes = passes_of(monkeypatch)
    assert learned(resume(checkpoint)) == learned(lda(n_chains=2).fit(X))
    assert passes[0] == 7
    assert list(checkpoint.iterdir()) == []


def test_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    passes = passes_of(monkeypatch)
    with pytest.raises(OSError, match=r"Checkpoints in .*file cannot be read \(Not a directory\)"):
        resume(tmp_path / "file")
    assert passes == []


def test_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    def closed(*arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(checkpoints.Path, "mkdir", closed)
    with pytest.raises(OSError, match=r"The checkpoint after pass 3 could not be written to .*passes"):
        resume(tmp_path / "passes")


def test_checkpoint_that_was_half_removed_does_not_stand_in_the_way(tmp_path):
    (tmp_path / "pass-00000003").mkdir()
    (tmp_path / "pass-00000003" / "chains.npz").write_bytes(b"")
    assert learned(resume(tmp_path)) == learned(lda(n_chains=2).fit(X))


@pytest.mark.parametrize("sampler", ["esca", "gibbs"])
def test_size_of_files_changes_no_byte(sampler, tmp_path, monkeypatch):
    monkeypatch.setattr(stored_latents, "_VALUES", 50)
    monkeypatch.setattr(stored_latents, "_ROWS", 4)
    cut_short(lda(sampler), X, FakeClient(3), tmp_path)
    assert len(list(tmp_path.glob("*/latents-0-*"))) > 12
    with distributed(FakeClient(2), checkpoint_dir=tmp_path):
        assert learned(lda(sampler).fit(X)) == learned(lda(sampler).fit(X))


def test_corpus_may_have_moved(checkpoint, tmp_path):
    save_corpus(X, tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    assert learned(resume(checkpoint, open_corpus(tmp_path / "b"))) == learned(lda(n_chains=2).fit(X))


def test_ctrl_c_while_a_finished_fit_removes_its_checkpoint_leaves_none_that_is_damaged(tmp_path, monkeypatch):
    folder = tmp_path / "passes"
    rmtree, calls = disk.shutil.rmtree, []

    def interrupted(path, **options):
        if path.name == "pass-00000008" and path.exists() and not calls:
            calls.append(path)
            (path / "chains.npz").unlink()
            raise KeyboardInterrupt
        rmtree(path, **options)

    monkeypatch.setattr(disk.shutil, "rmtree", interrupted)
    with distributed(None, checkpoint_dir=folder, checkpoint_every=4), pytest.raises(KeyboardInterrupt):
        lda(n_chains=2).fit(X)
    assert calls
    assert not list(folder.iterdir())
