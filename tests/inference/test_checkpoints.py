"""Checkpoints: of this run or refused, whole or not there, and the same bytes after them."""

import errno
import json
import os
import pickle
import stat
import subprocess
import sys
from hashlib import blake2b

import numpy as np
import pytest
from sklearn.base import clone

from skmanifold import ExponentialFamilyMixture, StochasticLDA, distributed
from skmanifold.admixture._token_shards import TokenShards
from skmanifold.datasets import make_lda_corpus, open_corpus, save_corpus
from skmanifold.inference import _checkpoints, _dask_shards, _stored_chains, _stored_latents
from skmanifold.inference._driver import Chain
from skmanifold.inference._sources import CorpusSource, CountsSource
from skmanifold.samplers import ESCA
from skmanifold.utils._csr import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers

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


def forge(folder, change):
    """Change the header of the checkpoint, and make its digest fit."""
    path = folder / "pass-00000006" / "checkpoint.json"
    header = json.loads(path.read_text())
    del header["digest"]
    change(header)
    path.write_text(json.dumps({**header, "digest": _checkpoints._digest(header)}))


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

    monkeypatch.setattr("skmanifold.mixture._family_mixture.shares_and_log_density", interrupted)
    mixture = ExponentialFamilyMixture(2, emission="poisson", max_iter=4, random_state=0)
    with distributed(None, checkpoint_dir=tmp_path, checkpoint_every=3), pytest.raises(KeyboardInterrupt):
        mixture.fit(X)
    assert [path.name for path in tmp_path.iterdir()] == ["pass-00000003"]


def test_settings_that_decide_nothing_may_differ(checkpoint):
    assert learned(resume(checkpoint, n_jobs=2, verbose=0)) == learned(lda(n_chains=2).fit(X))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"random_state": 4}, "its seed is '[0-9a-f]{16}', not '[0-9a-f]{16}'"),
        ({"max_iter": 11}, "its max_iter is '10', not '11'"),
        ({"sampler": "gibbs"}, "its sampler is \"'esca'\", not \"'gibbs'\""),
        ({"topic_word_prior": np.full(30, 0.1)}, "its topic_word_prior is 'None', not 'array [0-9a-f]{16}'"),
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
    with pytest.raises(ValueError, match=r"was written by skmanifold .* in format 3, and this is skmanifold 99\.0"):
        resume(checkpoint)


OTHERS = {
    "rows": X[::-1],
    "counts": (X > 0).astype(int),
    "columns": X[:, ::-1],
    "numbers": (lambda other: (other.data.__setitem__([0, 1], other.data[[0, 1]] + [1, -1]), other)[1])(X.copy()),
}


@pytest.mark.parametrize("n_workers", [None, 2])
@pytest.mark.parametrize("other", OTHERS)
def test_checkpoint_of_other_documents_is_refused(other, n_workers, checkpoint):
    """Tables of the same shape, some of the same totals of rows too."""
    before = files_of(checkpoint)
    with pytest.raises(ValueError, match="is of another run: it was made of other data; give the same data and"):
        resume(checkpoint, OTHERS[other], client=n_workers and FakeClient(n_workers))
    assert files_of(checkpoint) == before


def test_data_are_the_same_from_wherever_they_come(tmp_path):
    """Each source in one and in three shards."""
    builder = TokenShards(np.full(K, 0.1), np.uint64(5), "StochasticLDA")
    in_memory, rows = CountsSource(whole_counts(canonical_csr(X), np.uint64(5), by_content=False)), X.toarray()
    parts = [
        *([in_memory.split(1), in_memory.split(3)]),
        *([CorpusSource([save_corpus(X, tmp_path / "corpus")]).split(n) for n in (1, 3)]),
        *([[[X]], [[rows[:7]], [X[7:9], rows[9:]]]]),  # as Dask's arrays come
        [[[np.repeat(np.arange(X.shape[1]), row) for row in rows[a:b]]] for a, b in ((0, 20), (20, len(rows)))],  # bags
    ]
    hashes = set()
    for shards in parts:
        first_row, total = 0, 0
        for blocks in shards:
            of_shard, n_rows, _ = builder.read(blocks)
            total += builder.build(of_shard, first_row, X.shape[1], Workers(1)).hash_rows(np.uint64(9))
            first_row += n_rows
        hashes.add(total % 2**64)
    assert len(hashes) == 1


def cut(path):
    path.write_bytes(path.read_bytes()[:-9])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 64
    path.write_bytes(content)


def nested(path):
    path.write_text("[" * 100_000)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("checkpoint.json", cut, "checkpoint.json cannot be read"),
        ("checkpoint.json", nested, "checkpoint.json cannot be read"),
        ("checkpoint.json", lambda path: path.write_text("[]"), "checkpoint.json cannot be read"),
        ("checkpoint.json", lambda path: path.write_text("1" * 5000), "checkpoint.json cannot be read"),
        ("chains.npz", cut, "chains.npz is not what was written"),
        ("chains.npz", flip, "chains.npz is not what was written"),
        ("chains.npz", lambda path: path.unlink(), "No such file"),
        ("latents-1-0", lambda path: path.unlink(), "No such file"),
        ("latents-0-0", cut, "latents-0-0 has [0-9]+ bytes, not the [0-9]+ that were written"),
        ("latents-0-0", flip, "latents-0-0 is not what was written"),
    ],
)
@pytest.mark.parametrize("n_workers", [None, 2])
def test_damage_is_told_in_a_sentence(name, damage, message, n_workers, checkpoint):
    damage(checkpoint / "pass-00000006" / name)
    before = files_of(checkpoint)
    with pytest.raises(ValueError, match=rf"^The checkpoint .*pass-00000006 is damaged: .*{message}.*; remove it to"):
        resume(checkpoint, client=n_workers and FakeClient(n_workers))
    assert files_of(checkpoint) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header.update({"pass": 10**9}), "no checkpoint is written after pass 1000000000 of 10"),
        (lambda header: header.update({"pass": 0}), "no checkpoint is written after pass 0 of 10"),
        (lambda header: header.update({"pass": 7}), "log densities is an array of float64 and the shape"),
        (lambda header: header["latents"]["0"][0].__setitem__(0, 1), "does not have every row once"),
        (lambda header: header["latents"]["0"].append(header["latents"]["0"][0]), "does not have every row once"),
        (lambda header: header["latents"]["0"][0].__setitem__(2, 2**40), "latents-0-0 has [0-9]+ bytes, not"),
        (lambda header: header["latents"]["0"][0].__setitem__(3, "<u2"), "not of the type that this sampler keeps"),
        (lambda header: header["latents"].pop("1"), "does not list the latents of each chain"),
    ],
)
def test_numbers_out_of_range_are_refused_under_a_digest_that_fits(change, message, checkpoint):
    forge(checkpoint, change)
    with pytest.raises(ValueError, match=f"^The checkpoint .* is damaged: .*{message}"):
        resume(checkpoint)


@pytest.mark.parametrize("sampler", ["esca", "gibbs"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (lambda values: values | 0x7FFF, "not of these rows"),  # topics that there are not
        (lambda values: np.roll(values, 1), "not of these rows|cannot have|result"),
        (lambda values: np.concatenate((values, values[:16] & 3)), "more than these rows|not of these rows"),
    ],
)
def test_latents_that_these_rows_cannot_have_are_refused(sampler, values, message, tmp_path, monkeypatch):
    passes_of(monkeypatch, dies_in=8)
    with distributed(None, checkpoint_dir=tmp_path, checkpoint_every=3), pytest.raises(KeyboardInterrupt):
        lda(sampler).fit(X)
    path = tmp_path / "pass-00000006" / "latents-0-0"
    content, n = path.read_bytes(), 8 * (X.shape[0] + 1)
    indptr, old = (
        np.frombuffer(content[:n], np.int64).copy(),
        np.frombuffer(content[n:], "<u2" if sampler == "gibbs" else "<u4"),
    )
    new = values(old)
    indptr[-1] = len(new)
    content = indptr.tobytes() + new.astype(old.dtype).tobytes()
    path.write_bytes(content)
    forge(
        tmp_path,
        lambda header: header["latents"]["0"][0].__setitem__(
            slice(2, 5), (len(new), old.dtype.str, blake2b(content, digest_size=16).hexdigest())
        ),
    )
    monkeypatch.undo()
    try:
        with distributed(None, checkpoint_dir=tmp_path):
            lda(sampler).fit(X)
    except ValueError as error:
        assert pytest.raises
        import re

        assert re.search(message, str(error)), error
    else:
        assert "result" in message


def test_nobody_else_can_open_a_checkpoint_and_it_has_no_pickle(checkpoint):
    folder = checkpoint / "pass-00000006"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(checkpoint.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert sorted(path.name for path in folder.iterdir()) == [
        "chains.npz",
        "checkpoint.json",
        "latents-0-0",
        "latents-1-0",
    ]
    with np.load(folder / "chains.npz", allow_pickle=False) as arrays:
        assert all(not arrays[name].dtype.hasobject for name in arrays.files if name.startswith("array"))


class Evil:
    """Whoever unpickles it makes a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def test_checkpoint_of_an_older_format_is_refused_and_not_unpickled(checkpoint, tmp_path):
    folder, trap = checkpoint / "pass-00000006", str(tmp_path / "trap")
    for path in folder.glob("c*"):
        path.unlink()
    (folder / "chains.pickle").write_bytes(pickle.dumps(Evil(trap)))
    header = {"format": 2, "version": "0.1", "pass": 6, "crc": 0}
    (folder / "checkpoint.json").write_text(json.dumps(header))
    with pytest.raises(
        ValueError, match=r"was written by skmanifold 0\.1 in format 2, and this is skmanifold .*: finish"
    ):
        resume(checkpoint)
    assert not os.path.exists(trap)


def of_another_user(path, patch):
    lstat = os.lstat

    def foreign(at):
        status = lstat(at)
        fields = list(status)
        fields[stat.ST_UID] += at == path
        return os.stat_result(fields)

    patch.setattr(os, "lstat", foreign)


def linked(path):
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def piped(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.skipif(os.name != "posix", reason="owners, modes, links and pipes are of POSIX")
@pytest.mark.parametrize("name", ["", "checkpoint.json", "chains.npz", "latents-1-0"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (of_another_user, "belongs to another user"),
        (lambda path: path.chmod(0o770), r"other users may write to .* \(mode 0770\)"),
        (lambda path: path.chmod(0o702), r"other users may write to .* \(mode 0702\)"),
        (linked, "is not a (folder|regular file)"),
        (piped, "is not a regular file"),
    ],
)
def test_what_others_may_have_written_is_not_read(name, change, message, checkpoint, monkeypatch):
    path = checkpoint / "pass-00000006" / name
    if change is piped and not name:
        return
    change(path, monkeypatch) if change is of_another_user else change(path)
    with pytest.raises(ValueError, match=f"^The checkpoint .* is not taken up: .*{message}; give a folder of your own"):
        resume(checkpoint)


def test_worker_of_another_user_is_told_whose_it_must_be(checkpoint, monkeypatch):
    before = files_of(checkpoint)

    def closed(*arguments):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(_stored_latents, "write_own", closed)
    with pytest.raises(OSError, match=r"Permission denied: all workers must run as the user of this process"):
        resume(checkpoint, client=FakeClient(2))
    assert files_of(checkpoint) == before


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

    for module, name in ((_stored_latents, "write_own"), (_stored_chains, "write"), (_checkpoints, "write_own")):
        monkeypatch.setattr(module, name, counted(getattr(module, name)))


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
    assert "the one before, if any, is untouched" in str(told.value)
    assert files_of(checkpoint) == before
    assert learned(resume(checkpoint, client=client)) == learned(lda(n_chains=2).fit(X))


def test_process_that_ends_while_it_writes_leaves_the_checkpoint_before(checkpoint, monkeypatch):
    def killed(*arguments):
        raise SystemExit  # no except clause of ours may see what ends a process

    with monkeypatch.context() as patch:
        patch.setattr(_checkpoints, "write_own", killed)
        patch.setattr(_checkpoints.shutil, "rmtree", lambda *arguments, **options: None)
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

    monkeypatch.setattr(_checkpoints.Path, "mkdir", closed)
    with pytest.raises(OSError, match=r"The checkpoint after pass 3 could not be written to .*passes"):
        resume(tmp_path / "passes")


def test_checkpoint_that_was_half_removed_does_not_stand_in_the_way(tmp_path):
    (tmp_path / "pass-00000003").mkdir()
    (tmp_path / "pass-00000003" / "chains.npz").write_bytes(b"")
    assert learned(resume(tmp_path)) == learned(lda(n_chains=2).fit(X))


@pytest.mark.parametrize("sampler", ["esca", "gibbs"])
def test_size_of_files_changes_no_byte(sampler, tmp_path, monkeypatch):
    monkeypatch.setattr(_stored_latents, "_VALUES", 50)
    monkeypatch.setattr(_stored_latents, "_ROWS", 4)
    with monkeypatch.context() as patch, distributed(FakeClient(3), checkpoint_dir=tmp_path, checkpoint_every=3):
        passes_of(patch, dies_in=8)
        with pytest.raises(KeyboardInterrupt):
            lda(sampler).fit(X)
    assert len(list(tmp_path.glob("*/latents-0-*"))) > 12
    with distributed(FakeClient(2), checkpoint_dir=tmp_path):
        assert learned(lda(sampler).fit(X)) == learned(lda(sampler).fit(X))


def test_corpus_may_have_moved(checkpoint, tmp_path):
    save_corpus(X, tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    assert learned(resume(checkpoint, open_corpus(tmp_path / "b"))) == learned(lda(n_chains=2).fit(X))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(_dask_shards, "_PAUSE", 0.0)
