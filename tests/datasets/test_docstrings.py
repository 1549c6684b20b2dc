import gc
import sys

import numpy as np
import pytest

from skmanifold.datasets import load_docstrings

PACKAGES = ["numpy", "scipy", "sklearn", "stdlib"]


@pytest.fixture(scope="module")
def corpus():
    return load_docstrings()


@pytest.fixture(scope="module", params=["numpy", pytest.param("all", marks=pytest.mark.long)])
def any_corpus(request):
    return load_docstrings(packages=["numpy"]) if request.param == "numpy" else request.getfixturevalue("corpus")


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A package that fails when imported, with one file of each kind."""
    words = " ".join(["word"] * 20)
    files = {
        "__init__.py": f'"""Package {words}."""\nraise RuntimeError("imported")\n',
        "_private.py": f'''
def public():
    """
    Function {words}.

        Indented.

    Examples
    --------
    >>> public(
    ...     1)
    printed
    also printed

    After the example.
    """
def _hidden(): "Hidden function {words}."
class Kind:
    "Class {words}."
    def method(self): "Method {words}."
    def _hidden(self): "Hidden method {words}."
    class Inner:
        def method(self): "Inner method {words}."
try:
    if True:
        def nested(): "Nested {words}."
except ImportError:
    async def fallback(): "Fallback {words}."
def brief(): "Brief."
def twin(): "Function2 {words}."
def twin_again(): "Function2 {words}."
''',
        "latin.py": "# -*- coding: latin-1 -*-\n" + f'"""Stra\xdfe {words}."""\n',
        "escapes.py": f'"""Invalid \\d escape {words}."""\n',
        "broken.py": f'"""Broken {words}."""\ndef (:\n',
        "nul.py": f'"""Nul {words}."""\n\0\n',
        "added.py": f'''
import textwrap
add_newdoc("toy.core", "function", """
    Added one {words}.
    """)
add_newdoc("toy.core", "Kind", ("method", """Added two {words}.""".replace("two", "2")))
add_newdoc("toy.core", "Kind", [("a", "Added three {words}."), ("b", "Added four {words}.")])
doc.add_newdoc("bare", textwrap.dedent("Added five {words}."))
add_newdoc("toy.core", "_hidden", "Added hidden {words}.")
add_newdoc("other", "thing", "Added elsewhere {words}.")
''',
        "test_it.py": f'"""A test {words}."""\n',
        "tests/__init__.py": f'"""Tests {words}."""\n',
        "sub/deep.py": f'"""Deep {words}."""\n',
        "notes.txt": f'"""Notes {words}."""\n',
    }
    for name, text in files.items():
        path = tmp_path / "toy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))
    monkeypatch.syspath_prepend(tmp_path)
    return "toy"


def test_every_public_docstring_is_found_once_and_nothing_is_imported(toy):
    corpus = load_docstrings(packages=[toy])
    assert corpus.names == [
        "toy",
        "toy.bare",
        "toy._private.Kind",
        "toy._private.Kind.Inner.method",
        "toy._private.Kind.method",
        "toy._private.fallback",
        "toy._private.nested",
        "toy._private.public",
        "toy._private.twin",
        "toy.core.Kind.a",
        "toy.core.Kind.b",
        "toy.core.Kind.method",
        "toy.core.function",
        "toy.escapes",
        "toy.latin",
        "toy.sub.deep",
    ]
    assert corpus.module[:3] == ["toy", "toy", "toy._private"]
    assert toy not in sys.modules


def test_files_are_read_in_their_own_encoding(toy):
    corpus = load_docstrings(packages=[toy])
    assert corpus.data[corpus.names.index("toy.latin")].startswith("Straße word")


def test_code_is_removed_with_what_it_prints_unless_asked_for(toy):
    words = " ".join(["word"] * 20)
    head = f"Function {words}.\n\n    Indented.\n\nExamples\n--------\n"
    for remove_code, example in ((True, ""), (False, ">>> public(\n...     1)\nprinted\nalso printed\n")):
        corpus = load_docstrings(packages=[toy], remove_code=remove_code)
        text = corpus.data[corpus.names.index("toy._private.public")]
        assert text == f"{head}{example}\nAfter the example."


def test_single_file_packages_can_be_read(tmp_path, monkeypatch):
    (tmp_path / "lonely.py").write_text('"""One file alone."""\nraise RuntimeError\n')
    monkeypatch.syspath_prepend(tmp_path)
    assert load_docstrings(packages=["lonely"], min_words=3).names == ["lonely"]


def test_the_collector_is_left_as_it_was(toy):
    assert gc.isenabled()
    load_docstrings(packages=[toy])
    assert gc.isenabled()
    gc.disable()
    try:
        load_docstrings(packages=[toy])
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.long
def test_each_default_package_gives_hundreds_of_documents(corpus):
    assert corpus.target_names == PACKAGES
    assert np.bincount(corpus.target).min() > 700
    assert len(corpus.data) > 4000


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "numpy.linalg._linalg.svd",
        "numpy._core.multiarray.array",  # attached by add_newdoc
        "numpy.add",  # compiled
        "numpy.random.Generator.normal",
        "scipy.special.betaincinv",
        "scipy.optimize._minimize.minimize",
        "sklearn.linear_model._ridge.Ridge",
        "json",
        "argparse.ArgumentParser",
        "builtins.str.split",
    ],
)
def test_well_known_objects_are_there(corpus, name):
    assert name in corpus.names


def test_labels_modules_and_names_agree(any_corpus):
    assert len(any_corpus.data) == len(any_corpus.target) == len(any_corpus.module) == len(any_corpus.names)
    assert any_corpus.target.dtype == np.int64
    for label, module, name in zip(any_corpus.target, any_corpus.module, any_corpus.names, strict=True):
        assert name == module or name.startswith(f"{module}.")
        top = module.partition(".")[0]
        assert (PACKAGES[label] == "stdlib" and top not in PACKAGES) or PACKAGES[label] == top


def test_documents_are_distinct_clean_and_long_enough(any_corpus):
    assert len(set(any_corpus.data)) == len(any_corpus.data)
    for text in any_corpus.data:
        letters = "".join(c if c.isalnum() and not c.isdecimal() else " " for c in text)
        assert sum(len(word) >= 2 for word in letters.split()) >= 20
        assert text == text.strip("\n")
        assert not any(line.lstrip().startswith(">>>") for line in text.split("\n"))


def test_tests_are_left_out(any_corpus):
    parts = {part for module in any_corpus.module for part in module.split(".")}
    assert not parts & {"test", "tests", "idlelib", "externals"}
    assert not any(part.startswith("test_") for part in parts)


def test_same_corpus_every_time_and_the_first_package_keeps_what_two_share(toy, tmp_path):
    words = " ".join(["word"] * 20)
    (tmp_path / "zoo.py").write_text(f'"""Deep {words}."""\ndef own(): "Own {words}."\n')
    first, again = (load_docstrings(packages=["zoo", toy]) for _ in range(2))
    assert first.DESCR == again.DESCR
    assert first.data == again.data
    assert first.names[:2] == ["zoo", "zoo.own"]
    assert "toy.sub.deep" not in first.names
    assert first.target.tolist() == [0, 0] + [1] * (len(first.data) - 2)
    assert "toy.sub.deep" in load_docstrings(packages=[toy, "zoo"]).names


def test_max_documents_takes_them_evenly(toy):
    every = load_docstrings(packages=[toy])
    some = load_docstrings(packages=[toy], max_documents=4)
    assert len(every.names) == 16
    assert some.names == every.names[::4]
    assert load_docstrings(packages=[toy], max_documents=1000).names == every.names


def test_min_words_leaves_shorter_texts_out(toy):
    names = {n: set(load_docstrings(packages=[toy], min_words=n).names) for n in (1, 20, 21, 22)}
    assert names[1] - names[20] == {"toy._private.brief"}
    assert names[22] < names[21] == names[20]


def test_return_X_y_gives_texts_and_labels(toy):
    data, target = load_docstrings(packages=[toy], return_X_y=True)
    corpus = load_docstrings(packages=[toy])
    assert data == corpus.data
    np.testing.assert_array_equal(target, corpus.target)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"packages": "numpy"}, r"packages must be a sequence of different names of packages; got 'numpy'\."),
        ({"packages": []}, r"packages must be a sequence of different names"),
        ({"packages": ["numpy", "numpy"]}, r"packages must be a sequence of different names"),
        ({"packages": ["no_such_package"]}, r"No top-level package named 'no_such_package' is installed\."),
        ({"packages": ["numpy.linalg"]}, r"No top-level package named 'numpy\.linalg' is installed\."),
        ({"packages": ["toy"], "min_words": 10_000}, r"The package 'toy' has no docstring of at least 10000 words\."),
        ({"packages": ["toy"], "min_words": 0}, r"min_words must be an int of at least 1; got 0\."),
        ({"packages": ["toy"], "max_documents": 1.5}, r"max_documents must be an int of at least 1; got 1\.5\."),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(toy, parameters, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        load_docstrings(**parameters)
