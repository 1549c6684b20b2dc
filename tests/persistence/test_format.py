"""The file: what values come back as, what is refused and how that is told, and what damage does."""

import errno
import json
import os
import pickle
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from skmanifold import StochasticLDA, SubspaceClassifier, SubspaceMixture
from skmanifold._version import __version__
from skmanifold.persistence import SavesItself, load
from skmanifold.persistence import _format as container
from skmanifold.samplers import ESCA, SCIR, SGLD, PolynomialDecay, Recipe

from ._fitted import COUNTS, assert_same

save = SavesItself.save


@pytest.fixture
def path(tmp_path):
    return tmp_path / "estimator.npz"


def holding(value):
    """An estimator that has learned nothing but a value."""
    estimator = StochasticLDA()
    estimator.value_ = value
    return estimator


def back(value, path):
    save(holding(value), path)
    return load(path).value_


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**53) + 1,
        2**53,
        -(10**400),
        0.1,
        -0.0,
        float("nan"),
        float("-inf"),
        5e-324,
        "plain",
        "β \ud800 \n",
        [1, [2, (3, [])]],
        (),
        {},
        {"a": 1, 2: "b", None: (), (1, "x"): [], True: 0, np.int64(3): 0.5},
        np.float64("nan"),
        np.float32(0.1),
        np.uint64(2**64 - 1),
        np.bool_(True),
        np.str_("β"),
        np.datetime64("2020-02-02"),
        np.complex128(1 - 2j),
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(6.0).reshape(2, 3)[:, ::2],
        np.array(3.5),
        np.empty((0, 3), np.uint16),
        np.array([1, 2], dtype=">i4"),
        np.array(["a", "βγ"]),
        np.array(["a", None, 3, 0.5, 10**30], dtype=object),
        np.array([["a"], ["b"]], dtype=object),
        np.array([], dtype=object),
        np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]),
        np.random.RandomState(5),
        np.random.RandomState(np.random.PCG64(5)),
        np.random.Generator(np.random.Philox(2**100)),
        np.random.Generator(np.random.SFC64(1)),
        ESCA,
        SCIR(step_size=PolynomialDecay(0.1), lazy=False),
        Recipe(np.eye(2), curl=[[0, -1], [1, 0]]),
    ],
    ids=lambda value: f"{type(value).__name__} {value!s:.20}",
)
def test_value_comes_back_as_it_was(value, path):
    assert_same(value, back(value, path))


@pytest.mark.parametrize("order", ["C", "F"])
def test_array_keeps_its_order_in_memory(order, path):
    flags = back(np.zeros((2, 3, 4), order=order), path).flags
    assert (flags.c_contiguous, flags.f_contiguous) == (order == "C", order == "F")
    assert flags.writeable


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_sparse_matrix_comes_back_with_the_types_of_its_indices(kind, index, dtype, path):
    matrix = kind(COUNTS.astype(dtype))
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    loaded = back(matrix, path)
    assert type(loaded) is kind
    assert loaded.shape == matrix.shape
    for part in ("data", "indices", "indptr"):
        assert_same(getattr(matrix, part), getattr(loaded, part))


def test_int_of_thousands_of_digits_comes_back(path):
    assert back(1 << 20_000, path) == 1 << 20_000  # more digits than Python writes or reads


def test_array_on_disk_comes_back_in_memory(tmp_path, path):
    mapped = np.memmap(tmp_path / "mapped", np.int32, "w+", shape=(2, 3))
    mapped[:] = [[1, 2, 3], [4, 5, 6]]
    loaded = back(mapped, path)
    assert type(loaded) is np.ndarray
    np.testing.assert_array_equal(loaded, mapped)


def test_loaded_generator_goes_on_with_the_same_draws(path):
    generator = np.random.default_rng(8)
    generator.integers(0, 9, 3, np.uint8)  # leaves part of a word
    loaded = back(generator, path)
    np.testing.assert_array_equal(generator.integers(0, 9, 20, np.uint8), loaded.integers(0, 9, 20, np.uint8))


def test_array_longer_than_the_limit_of_old_zip_archives_comes_back(path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)  # stands for 2 GiB
    assert_same(np.arange(5000.0), back(np.arange(5000.0), path))


def decay(t):
    return 0.1


class MySampler(ESCA):
    pass


class MyLDA(StochasticLDA):
    pass


CYCLE: list = []
CYCLE.append([CYCLE])
REFUSED = {
    "function": (
        StochasticLDA(sampler=SGLD(decay)),
        r"sampler\.step_size is the function \S*test_format\.decay, but",
    ),
    "lambda": (
        StochasticLDA(sampler=SCIR(lambda t: 0.1)),
        r"sampler\.step_size is the function \S*<lambda>, but",
    ),
    "ufunc": (holding([0, np.exp]), r"value_\[1\] is the function \S*exp, but files of skmanifold contain no code"),
    "partial": (
        holding(partial(decay, 1)),
        r"value_ is an object of the class functools\.partial, which files of skmanifold cannot",
    ),
    "own estimator": (MyLDA(), r"it is an object of the class \S*\.MyLDA, which files"),
    "own class": (StochasticLDA(sampler=MySampler()), r"sampler is an object of the class \S*test_format\.MySampler, "),
    "class": (
        holding({"a": MySampler}),
        r"value_\['a'\] is the class \S*test_format\.MySampler, which files of skmanifold cannot",
    ),
    "nested": (
        SubspaceClassifier(SubspaceMixture(max_iter=pd.Series([1]))),
        r"mixture\.max_iter is an object of the class pandas\S*Series, which files of skmanifold cannot contain",
    ),
    "objects": (holding(np.array([ESCA()])), r"value_ is an array of Python objects, which files cannot contain"),
    "fields": (holding(np.zeros(1, [("a", object)])), "value_ is an array of Python objects"),
    "array kind": (holding(np.ma.array([1])), r"value_ is an object of the class numpy\.ma\S*MaskedArray"),
    "foreign": (holding(StandardScaler()), r"value_ is an object of the class sklearn\S*StandardScaler"),
    "cycle": (holding(CYCLE), r"value_\[0\]\[0\] contains itself"),
    "module": (
        StochasticLDA(random_state=np.random),
        r"random_state is an object of the class builtins\.module, which",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_file_cannot_hold_is_refused_by_its_path_before_anything_is_written(case, path):
    estimator, sentence = REFUSED[case]
    whose = type(estimator).__name__
    with pytest.raises(TypeError, match=rf"^{whose} cannot be saved: {sentence}.*; use pickle or joblib"):
        save(estimator, path)
    assert os.listdir(path.parent) == []


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def altered(path, change):
    """Write a file of ours again, with its members changed."""
    contents = members(path)
    document = json.loads(contents["estimator.json"])
    change(document, contents)
    if "estimator.json" in contents:
        contents["estimator.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


@pytest.fixture
def saved(path):
    save(holding(np.arange(100.0)), path)
    return path


def test_newer_format_is_refused_with_both_versions(saved):
    altered(saved, lambda document, _: document.update(format=2, skmanifold="9.1", estimator={"type": "unheard of"}))
    with pytest.raises(
        ValueError, match=rf"was written by skmanifold 9\.1 in format 2; this is skmanifold {__version__}"
    ):
        load(saved)


NO_FILE = "is not a file that the method `save` of an estimator of skmanifold wrote"


@pytest.mark.parametrize("content", [b"", b"PK", b"not at all", pickle.dumps({"a": 1})])
def test_what_is_no_such_file_is_told_so(content, path):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=NO_FILE):
        load(path)


def test_other_archives_are_told_so_and_a_missing_file_as_everywhere(saved, tmp_path):
    np.savez(tmp_path / "other.npz", a=np.arange(3))
    altered(saved, lambda document, _: document.update(magic="other"))
    for path, error, told in (
        (saved, ValueError, NO_FILE),
        (tmp_path / "other.npz", ValueError, NO_FILE),
        (tmp_path / "missing.npz", FileNotFoundError, "missing"),
    ):
        with pytest.raises(error, match=told):
            load(path)


class Marks:
    """Its pickle makes a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_pickle_within_the_file_is_not_read(saved, tmp_path):
    mark = tmp_path / "ran"

    def put_pickle(_, contents):
        with open(tmp_path / "pickled.npy", "wb") as file:
            np.save(file, np.array([Marks(mark)], dtype=object), allow_pickle=True)
        contents["array0.npy"] = (tmp_path / "pickled.npy").read_bytes()

    altered(saved, put_pickle)
    with pytest.raises(
        ValueError, match=r"cannot be loaded \(array0\.npy contains Python objects, which are not read\)"
    ):
        load(saved)
    assert not mark.exists()
    np.load(saved, allow_pickle=True)["array0"]  # so the trap was one
    assert mark.exists()


@pytest.mark.parametrize("name", ["os.system", "os:system", "posix.system", "builtins.eval", "StandardScaler", ""])
@pytest.mark.parametrize("kind", ["object", "class", "named tuple"])
def test_class_that_is_not_listed_is_refused_by_its_name(name, kind, saved):
    node = {"type": kind, "class": name, "parameters": {"command": "true"}, "state": {}, "fields": {"command": "true"}}
    altered(saved, lambda document, _: document["estimator"]["state"].update(value_=node))
    with pytest.raises(ValueError, match=rf"cannot be loaded \(skmanifold \S+ has no class with the name '{name}'\)"):
        load(saved)


def drop_array(document, contents):
    del contents["array0.npy"]


def hollow(document, contents):
    header = contents["array0.npy"][:128].replace(b"(100,)", b"(1000000000000,)")
    contents["array0.npy"] = header + contents["array0.npy"][128:]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (drop_array, r"array0\.npy is missing"),
        (hollow, r"array0\.npy does not have the length that its header specifies"),
        (
            lambda document, _: document["estimator"]["parameters"].update(colour=1),
            "unexpected keyword argument 'colour'",
        ),
        (lambda document, _: document["estimator"].update(type="module"), "AttributeError: .*_make_module"),
        (lambda document, _: document.update(estimator=[1]), "it holds a list, which is not an estimator"),
        (lambda document, _: document.pop("estimator"), "KeyError: 'estimator'"),
        (lambda document, _: document.update(format="new"), "TypeError"),
    ],
)
def test_file_that_does_not_add_up_is_refused_with_the_reason(change, reason, saved):
    altered(saved, change)
    with pytest.raises(ValueError, match=rf"^{saved}.* cannot be loaded \(.*{reason}"):
        load(saved)


def test_parameter_that_did_not_exist_when_the_file_was_written_has_its_default(saved):
    altered(saved, lambda document, _: document["estimator"]["parameters"].pop("n_jobs"))
    assert_same(holding(np.arange(100.0)), load(saved))


@pytest.mark.parametrize("compress", [False, True])
def test_every_truncated_file_is_refused(compress, path):
    save(holding(np.arange(30.0)), path, compress=compress)
    whole = path.read_bytes()
    for size in range(4, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"is truncated or altered, and cannot be loaded \("):
            load(path)


@pytest.mark.parametrize("compress", [False, True])
def test_changed_bytes_are_refused_or_change_nothing(compress, path):
    estimator = holding(np.arange(30.0))
    save(estimator, path, compress=compress)
    whole = path.read_bytes()
    n_refused = 0
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        try:
            loaded = load(path)
        except ValueError:
            n_refused += 1
        else:  # a date, say
            assert_same(estimator, loaded)
    assert n_refused > 0.5 * len(whole) / 5


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), SystemExit()])
@pytest.mark.parametrize("call", ["array", "sync", "rename"])
@pytest.mark.parametrize("old", [False, True])
def test_interrupted_writing_leaves_the_file_before_and_nothing_else(error, call, old, path, monkeypatch):
    def fails(*arguments, **options):
        raise error

    if old:
        save(holding("before"), path)
    place, name = {
        "array": (np.lib.format, "write_array"),
        "sync": (os, "fsync"),
        "rename": (os, "replace"),
    }[call]
    with monkeypatch.context() as patch:
        patch.setattr(place, name, fails)
        with pytest.raises(type(error)) as caught:
            save(holding(np.arange(3)), path)
    if isinstance(error, OSError):
        assert caught.value.errno == errno.ENOSPC
        told = f"StochasticLDA could not be written to {path} (No space left on device); an existing file"
        assert told in str(caught.value)
    assert os.listdir(path.parent) == [path.name] * old
    if old:
        assert load(path).value_ == "before"


def test_process_that_ends_while_it_writes_leaves_the_file_before(path, monkeypatch):
    def killed(*arguments, **options):
        raise SystemExit

    save(holding("before"), path)
    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format, "write_array", killed)
        patch.setattr(Path, "unlink", lambda *arguments, **options: None)  # nobody is there to tidy up
        with pytest.raises(SystemExit):
            save(holding(np.arange(3)), path)
    assert len(os.listdir(path.parent)) == 2
    assert load(path).value_ == "before"


@pytest.mark.parametrize("place", ["nowhere/estimator", "."])
def test_place_that_cannot_be_written_is_named(place, tmp_path):
    with pytest.raises(OSError, match=r"StochasticLDA could not be written to .* \("):
        save(StochasticLDA(), tmp_path / place)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="links need a privilege on other systems")
def test_link_goes_on_leading_to_the_file(path, tmp_path):
    save(holding("before"), path)
    (tmp_path / "link").symlink_to(path)
    save(holding("after"), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(path).value_ == "after"


def test_versions_are_told_in_the_document(saved):
    document = json.loads(members(saved)["estimator.json"])
    assert document["format"] == container.FORMAT == 1
    assert document["skmanifold"] == __version__
    assert document["libraries"].keys() == {"python", "numpy", "scipy", "scikit-learn"}
