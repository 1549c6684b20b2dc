"""A text corpus that needs no download: the docstrings of installed packages."""

from __future__ import annotations

import ast
import inspect
import os
import re
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import BuiltinFunctionType
from typing import Literal, overload

import numpy as np

from ..utils._threads import no_collection
from ..utils._typing import Bunch
from ._synthetic import _check_sizes

_STDLIB = "stdlib"
_DESCR = """\
Docstrings of installed Python packages: {packages}.

{n_documents} documents, one docstring each, of at least {min_words} words; no two are equal. The label is the package;
`module` gives a finer one, and `names` contains the documented object. The texts are those of the installed releases.
"""

_COPIES_OF_OTHERS = {"externals", "_vendor", "_vendored", "array_api_compat", "array_api_extra", "cobyqa", "pyprima"}
_BESIDE_THE_LIBRARY = {"encodings", "pydoc_data", "distutils", "ensurepip", "idlelib", "lib2to3", "turtledemo"}
_SKIPPED_FOLDERS = frozenset({"test", "tests"} | _COPIES_OF_OTHERS | _BESIDE_THE_LIBRARY)
_SKIPPED_FILES = frozenset(("conftest.py", "setup.py"))

# Compiled objects have no source to parse. These modules are always loaded, so that reading them imports
# nothing; other compiled objects of numpy are documented in calls of add_newdoc.
_COMPILED: dict[str, dict[str, tuple[type, ...]]] = {
    "numpy": {"numpy": (np.ufunc,), "numpy.random": (type,)},
    _STDLIB: dict.fromkeys(("builtins", "itertools", "math", "sys", "time"), (type, BuiltinFunctionType)),
}

_WORD = re.compile(r"[^\W\d_]{2,}")
# as in doctest: the output of an example ends at a blank line
_DOCTEST = re.compile(r"^[ \t]*>>>.*\n?(?:[ \t]*\S.*\n?)*", re.MULTILINE)


class _Docstrings(Bunch):
    data: list[str]
    target: np.ndarray
    target_names: list[str]
    module: list[str]
    names: list[str]
    DESCR: str


@overload
def load_docstrings(
    *,
    packages: Sequence[str] = ...,
    min_words: int = ...,
    max_documents: int | None = ...,
    remove_code: bool = ...,
    return_X_y: Literal[False] = ...,
) -> _Docstrings: ...


@overload
def load_docstrings(
    *,
    packages: Sequence[str] = ...,
    min_words: int = ...,
    max_documents: int | None = ...,
    remove_code: bool = ...,
    return_X_y: Literal[True],
) -> tuple[list[str], np.ndarray]: ...


def load_docstrings(
    *,
    packages: Sequence[str] = ("numpy", "scipy", "sklearn", "stdlib"),
    min_words: int = 20,
    max_documents: int | None = None,
    remove_code: bool = True,
    return_X_y: bool = False,
) -> _Docstrings | tuple[list[str], np.ndarray]:
    """Load the docstrings of installed packages, a labelled corpus of thousands of short texts.

    The packages are not imported. Their source files are parsed for the docstrings of modules and of public functions,
    classes and methods, including those that numpy and scipy attach to compiled objects by calls of ``add_newdoc``.
    Tests, vendored copies of other projects and files that cannot be parsed are excluded. For numpy and the standard
    library, the docstrings of compiled modules that are always loaded are included.

    The texts depend on the installed releases, but not on the locale or on imported modules.

    Parameters
    ----------
    packages : sequence of str, default=("numpy", "scipy", "sklearn", "stdlib")
        Names of installed top-level packages; "stdlib" is Python's standard library.
    min_words : int, default=20
        Docstrings with fewer words (of two letters or more) are excluded.
    max_documents : int, default=None
        Maximum number of documents, which are evenly spaced among all. None keeps all.
    remove_code : bool, default=True
        Whether to remove interactive examples (``>>>``) and their output.
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    corpus : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : list of str of length n_samples
            The docstrings, without common indentation and duplicates, sorted by package, module and name.
        target : ndarray of shape (n_samples,), int64
            The package of each docstring, as an index into `target_names`.
        target_names : list of str
            The packages.
        module : list of str of length n_samples
            The module of each docstring, such as ``"sklearn.linear_model._ridge"``.
        names : list of str of length n_samples
            The documented object, such as ``"sklearn.linear_model._ridge.Ridge.fit"``.
        DESCR : str
            Description of the corpus.

    (data, target) : tuple if `return_X_y` is True
        The texts and their labels.

    Raises
    ------
    ValueError
        If a parameter is out of range, a package is not installed, or has no docstring of `min_words` words.

    Examples
    --------
    >>> from skmanifold.datasets import load_docstrings
    >>> corpus = load_docstrings(packages=["sklearn"], min_words=50)
    >>> corpus.target_names
    ['sklearn']
    >>> "sklearn.linear_model._ridge.Ridge" in corpus.names
    True
    """
    if isinstance(packages, str) or len(packages) == 0 or len(set(packages)) != len(packages):
        raise ValueError(f"packages must be a sequence of different names of packages; got {packages!r}.")
    _check_sizes(min_words=min_words, **({} if max_documents is None else {"max_documents": max_documents}))

    documents: list[tuple[str, int, str, str]] = []
    seen: set[str] = set()
    for code, package in enumerate(packages):
        found = len(documents)
        with no_collection():  # syntax trees have no cycles
            entries = sorted((*_parsed(package), *_compiled(package)))
        for module, name, raw in entries:
            text = inspect.cleandoc(raw)
            if remove_code:
                text = _DOCTEST.sub("", text).rstrip()
            if text not in seen and _has_words(text, min_words):
                seen.add(text)
                documents.append((text, code, module, name))
        if len(documents) == found:
            raise ValueError(f"The package {package!r} has no docstring of at least {min_words} words.")
    if max_documents is not None and max_documents < len(documents):
        documents = [documents[i * len(documents) // max_documents] for i in range(max_documents)]

    texts, codes, modules, names = map(list, zip(*documents, strict=True))
    target = np.array(codes, dtype=np.int64)
    if return_X_y:
        return texts, target
    return _Docstrings(
        data=texts,
        target=target,
        target_names=list(packages),
        module=modules,
        names=names,
        DESCR=_DESCR.format(packages=", ".join(packages), n_documents=len(texts), min_words=min_words),
    )


def _has_words(text: str, n_words: int) -> bool:
    return sum(1 for _ in islice(_WORD.finditer(text), n_words)) == n_words


def _parsed(package: str) -> Iterator[tuple[str, str, str]]:
    """Module, qualified name and raw docstring of everything public in a package's source files."""
    for module, path in _source_files(package):
        with warnings.catch_warnings():  # no warnings about invalid escapes in files of other packages
            warnings.simplefilter("ignore")
            try:
                tree = ast.parse(path.read_bytes())  # bytes: the parser reads the file's own coding declaration
            except (SyntaxError, ValueError, OSError):
                continue
        docstring = ast.get_docstring(tree, clean=False)
        if docstring:
            yield module, module, docstring
        for name, docstring in _definitions(tree.body):
            yield module, f"{module}.{name}", docstring
        for place, name, docstring in _added_docs(tree.body):
            owner = place or module.rpartition(".")[0]
            if owner.partition(".")[0] == package:  # numpy's typing module has another function of this name
                yield owner, f"{owner}.{name}", docstring


def _source_files(package: str) -> Iterator[tuple[str, Path]]:
    """Qualified module names and source files of a package, found without importing it."""
    if package == _STDLIB:
        roots, parents = [sysconfig.get_path("stdlib")], []
    else:
        # find_spec imports the parents of a dotted name
        spec = find_spec(package) if isinstance(package, str) and package.isidentifier() else None
        if spec is None:
            raise ValueError(f"No top-level package named {package!r} is installed.")
        if spec.submodule_search_locations is None:
            if spec.origin is not None and spec.origin.endswith(".py"):
                yield package, Path(spec.origin)
            return
        roots, parents = list(spec.submodule_search_locations), [package]
    for root in roots:
        for folder, subfolders, files in os.walk(root):
            # "site-packages" and "config-3.11-..." are no identifiers
            subfolders[:] = [name for name in subfolders if name.isidentifier() and name not in _SKIPPED_FOLDERS]
            parts = [*parents, *Path(folder).relative_to(root).parts]
            for file in files:
                if file.endswith(".py") and not file.startswith("test_") and file not in _SKIPPED_FILES:
                    yield ".".join(parts if file == "__init__.py" else [*parts, file[:-3]]), Path(folder, file)


def _definitions(body: Sequence[ast.AST], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Public functions and classes, and the classes' methods, with their docstrings."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if node.name.startswith("_"):
                continue
            docstring = ast.get_docstring(node, clean=False)
            if docstring:
                yield prefix + node.name, docstring
            if isinstance(node, ast.ClassDef):
                yield from _definitions(node.body, f"{prefix}{node.name}.")
        else:  # definitions under if, try and with belong to the module too
            for field in ("body", "handlers", "orelse", "finalbody"):
                yield from _definitions(getattr(node, field, None) or (), prefix)


def _added_docs(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str, str]]:
    """Place, name and docstring in calls of ``add_newdoc([place,] name, doc)``; the place is "" if it is not given.

    As in numpy, `doc` is a string, a pair of a method and its string, or a list of pairs.
    """
    for node in body:
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or len(call.args) not in (2, 3):
            continue
        if getattr(call.func, "id", getattr(call.func, "attr", None)) != "add_newdoc":
            continue
        place, name = ("", *map(_longest_string, call.args[:-1]))[-2:]
        doc = call.args[-1]
        for item in doc.elts if isinstance(doc, ast.List) else [doc]:
            if isinstance(item, ast.Tuple) and len(item.elts) == 2:
                method, string = map(_longest_string, item.elts)
                qualified = f"{name}.{method}"
            else:
                qualified, string = name, _longest_string(item)
            if string and not any(part.startswith("_") for part in qualified.split(".")):
                yield place, qualified, string


def _longest_string(node: ast.AST) -> str:
    """The docstring in an expression such as ``textwrap.dedent("...")`` or ``"...".replace("x", "y")``."""
    strings = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str))
    return max(strings, key=len, default="")


def _compiled(package: str) -> Iterator[tuple[str, str, str]]:
    """Module, qualified name and docstring of public objects without source in modules that are always loaded."""
    for module, kinds in _COMPILED.get(package, {}).items():
        for name, thing in vars(import_module(module)).items():
            if name.startswith("_") or not isinstance(thing, kinds):
                continue
            members = vars(thing) if isinstance(thing, type) else {}
            documented = {name: thing} | {
                f"{name}.{key}": member
                for key, member in members.items()
                # a plain value has the docstring of its type
                if not key.startswith("_") and (inspect.isroutine(member) or inspect.isdatadescriptor(member))
            }
            for qualified, item in documented.items():
                docstring = getattr(item, "__doc__", None)
                if isinstance(docstring, str):
                    yield module, f"{module}.{qualified}", docstring
