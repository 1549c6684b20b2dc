"""Files that somebody altered: what breaks a declared condition, or asks for too much, is refused in one sentence."""

import json
import tracemalloc
import zipfile
from io import BytesIO
from typing import Annotated, get_args, get_origin

import numpy as np
import pytest

from skmanifold import DPMixture, ExponentialFamilyMixture, StochasticLDA, VonMisesFisherMixture
from skmanifold.emissions._family import Family
from skmanifold.persistence import SavesItself, _format, load
from skmanifold.persistence._format import UnknownFormatError
from skmanifold.persistence._registry import class_of, name_of
from skmanifold.utils._declared import saved_fields

from ._fitted import COUNTS, NAMES, PUBLIC, ROWS, SHORT, TABLE


def arrays_of(document):
    """The names of the arrays of a document by their places."""
    found = {}

    def walk(node, place):
        if isinstance(node, dict) and node.get("type") == "array":
            found[place.strip(".")] = node["name"]
        elif isinstance(node, dict):
            for key, child in node.items():
                walk(child, place if key in ("state", "fields") else f"{place}.{key}")
        elif isinstance(node, list):
            for i, child in enumerate(node):
                walk(child, f"{place}.{i}")

    walk(document["estimator"], "")
    return found


@pytest.fixture
def altered(tmp_path):
    """Save an estimator, let a function change its document and arrays, and write the file again, well-formed."""

    def call(estimator, change, method=zipfile.ZIP_STORED):
        path = tmp_path / "model.npz"
        SavesItself.save(estimator, path)
        with zipfile.ZipFile(path) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
        document = json.loads(contents.pop("estimator.json"))
        arrays = {name[:-4]: np.lib.format.read_array(BytesIO(content)) for name, content in contents.items()}
        change(document, {place: arrays[name] for place, name in arrays_of(document).items()}, arrays)
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("estimator.json", document if isinstance(document, str) else json.dumps(document))
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array)
        return path

    return call


@pytest.fixture(scope="module")
def lda():
    return StochasticLDA(3, **SHORT).fit(COUNTS)


def put(place, index, value):
    """Change an item of an array."""

    def change(document, at, arrays):
        at[place][index] = value

    return change


def _node(document, path):
    for key in ("estimator", *path):
        document = document[key]
    return document


def swap(*path, at, by):
    """Swap two items of a list in the state."""

    def change(document, _, arrays):
        node = _node(document, ("state", *path))
        node[at], node[by] = node[by], node[at]

    return change


def give(*path, value, of="state"):
    """Set an item of the state, or of the parameters."""

    def change(document, _, arrays):
        _node(document, (of, *path[:-1]))[path[-1]] = value

    return change


def repeat_topic(document, at, arrays):
    indptr, topics = at["_estimate.indptr"], at["_estimate.topics"]
    word = int(np.argmax(np.diff(indptr)))
    topics[indptr[word]] = topics[indptr[word] + 1]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (put("_estimate.topics", 0, 65_535), r"topics of StochasticLDA contains 65535, but must be less than 3"),
        (put("_estimate.indptr", 2, 10**9), r"indptr of StochasticLDA does not increase from zero"),
        (put("_estimate.weights", 0, -1.0), r"_estimate\.weights of StochasticLDA contains a negative number"),
        (put("_estimate.weights", 0, 0.9), r"topics whose words' probabilities do not sum to one"),
        (repeat_topic, "has the same topic twice for a word"),
        (put("_topic_counts.counts", 0, np.nan), r"_topic_counts\.counts of StochasticLDA contains NaN"),
        (put("_topic_counts.totals", 0, 1e9), "has totals that are not the sums of the counts"),
        (put("doc_topic_prior_", 0, 0.0), "doc_topic_prior_ of StochasticLDA contains a number that is not positive"),
        (lambda document, *_: document["estimator"]["state"].pop("_key"), "StochasticLDA lacks _key"),
        (
            give("n_predictive_draws", value=-3, of="parameters"),
            "The 'n_predictive_draws' parameter of StochasticLDA must be",
        ),
        *(
            (give(name, value=1), f"StochasticLDA has no attribute '{name}'")
            for name in ("fit", "transform", "components_", "__class__", "_unheard_of")
        ),
    ],
)
def test_attributes_that_break_a_condition_are_refused_by_their_names(change, told, lda, altered):
    with pytest.raises(ValueError, match=rf"cannot be loaded \(.*{told}"):
        load(altered(lda, change))


_LAYOUT, _BLOCKS = ("_layout", "fields"), ("emission_", "parameters", "blocks")


@pytest.mark.parametrize("kind", [DPMixture, ExponentialFamilyMixture])
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (give(*_LAYOUT, "kinds", "items", 0, value="category"), "has columns whose kind is not that of their emission"),
        (swap(*_LAYOUT, "kinds", "items", at=1, by=2), "has columns whose kind is not that of their emission"),
        (swap(*_LAYOUT, "categories", "items", at=0, by=2), "has columns with other numbers of categories"),
        (give(*_BLOCKS, 0, "items", 0, value="binary"), "has wrong blocks: Two blocks of Columns have the name"),
        (give(*_BLOCKS, 0, "items", 0, value="other"), "has blocks of other names"),
        (give(*_BLOCKS, 0, "items", 1, "parameters", "covariance_type", value="diag"), "not that of its emission"),
        (swap(*_BLOCKS, at=0, by=1), "has blocks of other names"),
        (put("_layout.places.items.0", 0, 3), "has columns in no block, or in two"),
        (put("_family.blocks.items.0.prior.mean", 0, np.nan), "contains NaN"),
        (
            give("_family", "state", "blocks", "items", 0, "state", "prior", "fields", "degrees", value=1e300),
            r"degrees of .* is 1e\+300, but the maximum is 1e\+18",
        ),
        (
            give("_family", "state", "blocks", "items", 0, "state", "prior", "fields", "mean_precision", value=1e300),
            r"mean_precision of .* is 1e\+300, but the maximum is 1e\+18",
        ),
    ],
)
def test_tables_whose_parts_do_not_agree_are_refused(kind, change, told, altered, tables):
    with pytest.raises(ValueError, match=rf"cannot be loaded \(.*{told}"):
        load(altered(tables[kind], change))


@pytest.fixture(scope="module")
def tables():
    finite = ExponentialFamilyMixture(2, emission="auto", **SHORT).fit(TABLE)
    return {DPMixture: DPMixture(finite.emission_, init=3, **SHORT).fit(TABLE), ExponentialFamilyMixture: finite}


def test_what_load_would_refuse_is_not_saved(tmp_path):
    mixture = VonMisesFisherMixture(2, random_state=0).fit(ROWS)
    mixture.mean_directions_ = 2.0 * mixture.mean_directions_
    message = "VonMisesFisherMixture cannot be saved: mean_directions_ of VonMisesFisherMixture contains vectors whose"
    with pytest.raises(ValueError, match=message):
        mixture.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def classes_in(hint):
    """The classes of the library that an annotation names."""
    origin = get_origin(hint) or hint
    if isinstance(origin, type) and origin.__module__.startswith("skmanifold."):
        yield origin
    for part in get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint):
        yield from classes_in(part)


@pytest.mark.parametrize("name", NAMES)
def test_every_class_in_files_declares_its_attributes_of_classes_in_files(name):
    fields = saved_fields(class_of(name))
    assert fields or name in {*PUBLIC, "BlockReader"}
    for cls in (cls for hint in fields.values() for cls in classes_in(hint)):
        assert name_of(cls) or cls is Family, cls


@pytest.mark.parametrize(
    ("kind", "change", "told"),
    [
        ("MT19937", {"pos": 10**8}, r"pos'\] is 100000000, not from 0 to 624"),
        ("MT19937", {"key": np.zeros(624, np.uint32)}, "always gives the same number"),
        ("MT19937", {"key": np.ones(623, np.uint32)}, "has the length 623"),
        ("PCG64", {"inc": 2}, "always gives the same number"),
        ("PCG64", {"uinteger": -1}, "is -1"),
        ("Philox", {"buffer_pos": 9}, "is 9, not from 0 to 4"),
        ("SFC64", {"has_uint32": 5}, "is 5, not from 0 to 1"),
    ],
)
def test_states_of_generators_are_checked(kind, change, told, altered):
    random_state = np.random.RandomState(getattr(np.random, kind)(3))

    def alter(document, at, arrays):
        pairs = document["estimator"]["parameters"]["random_state"]["state"]["pairs"]
        for of in (pairs, dict(map(tuple, pairs))["state"]["pairs"]):
            for pair in of:
                if pair[0] in change:
                    value = change[pair[0]]
                    if isinstance(value, np.ndarray):
                        arrays[pair[1]["name"]] = value
                    else:
                        pair[1] = value

    path = altered(StochasticLDA(random_state=random_state), alter)
    with pytest.raises(ValueError, match=rf"cannot be loaded \(.*{kind}.*{told}"):
        load(path)


# Limits


def test_document_that_inflates_is_refused_before_it_is_read(altered):
    def change(document, at, arrays):
        document["estimator"]["parameters"]["verbose"] = [0] * 3_000_000

    path = altered(StochasticLDA(), change, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 50_000
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"estimator\.json expands from \d+ to \d+ bytes"):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 21
    tracemalloc.stop()


def test_arrays_beyond_the_limit_are_refused_and_unused_ones_never_read(altered):
    def change(document, at, arrays):
        arrays["unused"] = np.zeros(10**7)
        arrays["array0"] = np.zeros(10**6)
        document["estimator"]["state"]["note_"] = {"type": "array", "name": "array0"}

    path = altered(StochasticLDA(), change, zipfile.ZIP_DEFLATED)
    assert len(load(path, max_bytes=2 * 10**7).note_) == 10**6
    with pytest.raises(ValueError, match="its arrays take more than 1000000 bytes; give load a larger max_bytes"):
        load(path, max_bytes=10**6)


def test_file_larger_than_the_default_limit_is_its_own_limit(altered, monkeypatch):
    def change(document, at, arrays):
        arrays["array0"] = np.zeros(10**5)
        document["estimator"]["state"]["note_"] = {"type": "array", "name": "array0"}

    monkeypatch.setattr(_format, "DEFAULT_BYTES", 5 * 10**5)
    assert len(load(altered(StochasticLDA(), change)).note_) == 10**5
    path = altered(StochasticLDA(), change, zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="its arrays take more than 500000 bytes"):
        load(path)


@pytest.mark.parametrize("depth", [500, 100_000])
def test_deep_documents_are_refused_in_a_sentence(depth, altered):
    path = altered(StochasticLDA(), lambda document, at, arrays: None)
    with zipfile.ZipFile(path) as archive:
        document = archive.read("estimator.json").decode()
    document = document.replace('"verbose": 0', f'"verbose": {"[" * depth}{"]" * depth}')
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("estimator.json", document)
    with pytest.raises(ValueError, match="it is nested too deeply"):
        load(path)


@pytest.mark.parametrize(
    ("name", "told"),
    [("estimator.json", "two of its members have the same name"), ("/etc/x.npy", "the invalid name")],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_of_members_are_checked(name, told, altered):
    path = altered(StochasticLDA(), lambda document, at, arrays: None)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"{}")
    with pytest.raises(ValueError, match=told):
        load(path)


def test_members_that_share_their_bytes_are_refused(altered):
    path = altered(StochasticLDA(), lambda document, at, arrays: arrays.update(big=np.zeros(1000)))
    with zipfile.ZipFile(path, "a") as archive:
        for i in range(3):
            info = zipfile.ZipInfo(f"more{i}.npy")
            big = archive.getinfo("big.npy")
            for field in ("header_offset", "compress_size", "file_size", "CRC"):
                setattr(info, field, getattr(big, field))
            archive.filelist.append(info)
            archive._didModify = True
    with pytest.raises(ValueError, match="its members overlap"):
        load(path)


def test_other_compressions_are_refused(altered):
    path = altered(StochasticLDA(), lambda document, at, arrays: None, zipfile.ZIP_BZIP2)
    with pytest.raises(ValueError, match="is compressed by an unsupported method"):
        load(path)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': 'S0', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        f"{{'descr': '<f8', 'fortran_order': False, 'shape': (0, {2**62}, 8), }}",
        "[" * 3000,
    ],
)
def test_headers_of_arrays_that_lie_are_refused(header, altered):
    def change(document, at, arrays):
        document["estimator"]["state"]["note_"] = {"type": "array", "name": "lies"}

    path = altered(StochasticLDA(), change)
    text = header.encode().ljust(118 + 16 * 200) + b"\n"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("lies.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    with pytest.raises(ValueError, match=r"cannot be loaded \("):
        load(path)


@pytest.mark.parametrize(
    "node",
    [
        {"type": "objects", "shape": [2**40, 2**40], "items": []},
        {"type": "objects", "shape": [-1], "items": [1]},
        {"type": "scalar", "dtype": "O", "hex": "0" * 16},
        {"type": "scalar", "dtype": "V8", "hex": "0" * 16},
        {"type": "scalar", "dtype": [["a", "O"]], "hex": "0" * 16},
        {"type": "dict", "pairs": [[[1], 2]]},
        {"type": "object", "class": "TopicWord", "state": {}},
        {"type": "named tuple", "class": "ESCA", "fields": {}},
        {"type": "object", "class": "DrawStore", "state": {"wants": 1}},
        {"type": "RandomState", "state": {"type": "dict", "pairs": []}},
        {"type": "sparse", "format": "csr_array", "shape": [2, 2], "data": 1, "indices": 2, "indptr": 3},
        {"type": "int", "hex": "zz"},
        {"type": "nothing"},
        {},
    ],
)
def test_nodes_that_are_none_are_refused(node, altered):
    def change(document, at, arrays):
        document["estimator"]["state"]["note_"] = node

    with pytest.raises(ValueError, match=r"cannot be loaded \(\S+ \S+ \S+") as caught:
        load(altered(StochasticLDA(), change))
    assert not isinstance(caught.value, UnknownFormatError)
    assert "\n" not in str(caught.value)
