"""Checkpoints that are not taken up: of other runs, of other users, damaged or forged."""

import errno
import json
import os
import pickle
import stat
from functools import partial
from hashlib import blake2b

import numpy as np
import pytest

from skmanifold import distributed
from skmanifold.admixture._tokens.shards import StorableTokens, TokenShards
from skmanifold.datasets import save_corpus
from skmanifold.inference._distributed_fits import checkpoints
from skmanifold.inference._distributed_fits import exchange as stored_latents
from skmanifold.inference._distributed_fits.sources import CorpusSource, CountsSource
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers

from ._fake_cluster import FakeClient
from ._interrupted import K, X, cut_short, files_of, lda, learned, resume


def forge(folder, change):
    """Change the header of the checkpoint, and make its digest fit."""
    path = folder / "pass-00000006" / "checkpoint.json"
    header = json.loads(path.read_text())
    del header["digest"]
    change(header)
    path.write_text(json.dumps({**header, "digest": checkpoints._digest(header)}))


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
    with pytest.raises(ValueError, match=f"^The checkpoint .*pass-00000006 is of another run: {message}; pass"):
        resume(checkpoint, **settings)
    assert files_of(checkpoint) == before


def test_checkpoint_of_another_version_is_refused(checkpoint, monkeypatch):
    monkeypatch.setattr(checkpoints, "__version__", "99.0")
    with pytest.raises(ValueError, match=r"was written by skmanifold .* in format 1, but this is skmanifold 99\.0"):
        resume(checkpoint)


ONE_TOKEN_LATER = X.toarray()
ONE_TOKEN_LATER[0, [np.argmax(ONE_TOKEN_LATER[0]), np.argmin(ONE_TOKEN_LATER[0])]] += -1, 1
OTHERS = {"rows": X[::-1], "counts": (X > 0).astype(int), "columns": X[:, ::-1], "a token": ONE_TOKEN_LATER}


@pytest.mark.covering
@pytest.mark.parametrize("n_workers", [None, 2])
@pytest.mark.parametrize("other", OTHERS)
def test_checkpoint_of_other_documents_is_refused(other, n_workers, checkpoint):
    """Tables of the same shape, some of the same totals of rows too."""
    before = files_of(checkpoint)
    with pytest.raises(ValueError, match="is of another run: the data differ; pass the same data and"):
        resume(checkpoint, OTHERS[other], client=n_workers and FakeClient(n_workers))
    assert files_of(checkpoint) == before


def test_data_are_the_same_from_wherever_they_come(tmp_path):
    """Each source in one and in three shards."""
    builder = TokenShards(partial(StorableTokens, doc_topic_prior=np.full(K, 0.1)), np.uint64(5), "StochasticLDA")
    in_memory, rows = CountsSource(whole_counts(canonical_csr(X), np.uint64(5))), X.toarray()
    on_disk = CorpusSource([save_corpus(X, tmp_path / "corpus")])
    documents = [np.repeat(np.arange(X.shape[1]), row) for row in rows]
    parts = [
        *(in_memory.split(1), in_memory.split(3), on_disk.split(1), on_disk.split(3)),
        *([[X]], [[rows[:7]], [X[7:9], rows[9:]]]),  # blocks of Dask's arrays
        *([[documents]], [[documents[:20]], [documents[20:30], documents[30:]]]),  # and of bags
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


@pytest.mark.covering
@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("checkpoint.json", cut, "checkpoint.json cannot be read"),
        ("checkpoint.json", nested, "checkpoint.json cannot be read"),
        ("checkpoint.json", lambda path: path.write_text("[]"), "checkpoint.json cannot be read"),
        ("checkpoint.json", lambda path: path.write_text("1" * 5000), "checkpoint.json cannot be read"),
        ("chains.npz", cut, "chains.npz does not match its checksum"),
        ("chains.npz", flip, "chains.npz does not match its checksum"),
        ("chains.npz", lambda path: path.unlink(), "No such file"),
        ("latents-1-0", lambda path: path.unlink(), "No such file"),
        ("latents-0-0", cut, "latents-0-0 has [0-9]+ bytes, not the [0-9]+ that were written"),
        ("latents-0-0", flip, "latents-0-0 does not match its checksum"),
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
        (lambda header: header.update({"pass": 7}), "has the length 6, but must have the length 7"),
        (lambda header: header["latents"]["0"][0].__setitem__(0, 1), "every row exactly once"),
        (
            lambda header: header["latents"]["0"].append(header["latents"]["0"][0]),
            "does not contain every row exactly once",
        ),
        (lambda header: header["latents"]["0"][0].__setitem__(2, 2**40), "latents-0-0 has [0-9]+ bytes, not"),
        (lambda header: header["latents"]["0"][0].__setitem__(3, "<u4"), "a different type from those of this sampler"),
        (lambda header: header["latents"].pop("1"), "does not list the latents of each chain"),
    ],
)
def test_numbers_out_of_range_are_refused_under_a_digest_that_fits(change, message, checkpoint):
    forge(checkpoint, change)
    with pytest.raises(ValueError, match=f"^The checkpoint .* is damaged: .*{message}"):
        resume(checkpoint)


def forge_latents(folder, values):
    """Put other values in place of those of the first chain, under digests that fit."""
    path = folder / "pass-00000006" / "latents-0-0"

    def change(header):
        file = header["latents"]["0"][0]
        content, n = path.read_bytes(), 8 * (file[1] + 1)
        new = values(np.frombuffer(content[n:], file[3]))
        indptr = np.frombuffer(content[:n], np.int64).copy()
        indptr[-1] = len(new)
        content = indptr.tobytes() + new.astype(file[3]).tobytes()
        file[2], file[4] = len(new), blake2b(content, digest_size=16).hexdigest()
        path.write_bytes(content)

    forge(folder, change)


@pytest.mark.parametrize(
    ("sampler", "values"),
    [
        *((sampler, lambda values: values | 0x7FFF) for sampler in ("esca", "gibbs")),  # topics that there are not
        *((sampler, lambda values: values[:-1]) for sampler in ("esca", "gibbs")),
        ("esca", lambda values: np.append(values, np.zeros(3))),  # tokens that there are not
    ],
)
def test_latents_that_these_rows_cannot_have_are_refused(sampler, values, tmp_path):
    cut_short(lda(sampler), X, None, tmp_path)
    forge_latents(tmp_path, values)
    with (
        distributed(None, checkpoint_dir=tmp_path),
        pytest.raises(ValueError, match=r"is damaged: .*do not belong to these rows"),
    ):
        lda(sampler).fit(X)


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


def test_checkpoint_of_another_format_is_refused_and_not_unpickled(checkpoint, tmp_path):
    folder, trap = checkpoint / "pass-00000006", str(tmp_path / "trap")
    for path in folder.glob("c*"):
        path.unlink()
    (folder / "chains.pickle").write_bytes(pickle.dumps(Evil(trap)))
    header = {"format": 2, "version": "0.1", "pass": 6, "crc": 0}
    (folder / "checkpoint.json").write_text(json.dumps(header))
    with pytest.raises(
        ValueError, match=r"was written by skmanifold '0\.1' in format 2, but this is skmanifold .*: finish"
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


@pytest.mark.covering
@pytest.mark.skipif(os.name != "posix", reason="owners, modes, links and pipes are of POSIX")
@pytest.mark.parametrize("name", ["", "checkpoint.json", "chains.npz", "latents-1-0"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (of_another_user, "is owned by another user .*"),
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
    with pytest.raises(
        ValueError, match=f"^The checkpoint .* is not used: .*{message}; pass a folder of the current user"
    ):
        resume(checkpoint)


def test_worker_of_another_user_is_told_whose_it_must_be(checkpoint, monkeypatch):
    before = files_of(checkpoint)

    def closed(*arguments):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(stored_latents, "write_own", closed)
    with pytest.raises(OSError, match=r"Permission denied: all workers must run as the user of this process"):
        resume(checkpoint, client=FakeClient(2))
    assert files_of(checkpoint) == before
