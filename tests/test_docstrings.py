"""Every public callable has the sections of a numpydoc docstring that apply to it."""

import dis
import importlib
import inspect
import itertools
import pkgutil
import re
from collections.abc import Iterator

import pytest
from numba.core.dispatcher import Dispatcher

import skmanifold

PACKAGES = [
    "admixture",
    "base",
    "callbacks",
    "compile_kernels",
    "datasets",
    "distributions",
    "emissions",
    "inference",
    "inspection",
    "manifolds",
    "metrics",
    "mixture",
    "models",
    "persistence",
    "random",
    "samplers",
]


def public_callables(package: str) -> Iterator[tuple[str, object, bool]]:
    """Qualified names and callables of a package: functions, classes and their public methods, inherited ones too.

    The flag is set for methods, which have a first parameter that no docstring lists.
    """
    module = importlib.import_module(f"skmanifold.{package}")
    for name in module.__all__:
        value = getattr(module, name)
        value = getattr(value, "py_func", value) if isinstance(value, Dispatcher) else value
        if inspect.isclass(value):
            yield name, value, False
            for owner in reversed(value.__mro__):
                if not owner.__module__.startswith("skmanifold"):
                    continue
                for attribute, member in vars(owner).items():
                    if attribute.startswith("_") or getattr(value, attribute, None) is None:
                        continue
                    function = inspect.unwrap(member.__func__ if isinstance(member, CLASS_LEVEL) else member)
                    if inspect.isfunction(function) and _definer(value, attribute) is owner:
                        yield f"{name}.{attribute}", function, not isinstance(member, staticmethod)
        elif inspect.isfunction(value):
            yield name, value, False


CLASS_LEVEL = (staticmethod, classmethod)


def _definer(cls: type, attribute: str) -> type:
    return next(base for base in cls.__mro__ if attribute in vars(base))


def _parameters(value: object, is_method: bool) -> list[str]:
    """Names of the parameters that a docstring has to describe."""
    if inspect.isclass(value):
        if getattr(value, "_is_protocol", False) or (
            value.__init__ is object.__init__ and value.__new__ is object.__new__
        ):
            return []
        try:
            names = list(inspect.signature(value).parameters.values())
        except ValueError:
            return []
        if issubclass(value, BaseException):
            return []
    else:
        names = list(inspect.signature(value).parameters.values())[is_method:]
    return [parameter.name for parameter in names if not parameter.name.startswith("_")]


def _section(docstring: str, *titles: str) -> str | None:
    """Text of the first section that has one of these titles."""
    for title in titles:
        found = re.search(rf"^{title}\n-+\n(.*?)(?=\n\n?\w[\w ]*\n--+\n|\Z)", docstring, re.MULTILINE | re.DOTALL)
        if found:
            return found.group(1)
    return None


def _described(section: str) -> set[str]:
    """Names that a section describes: the lines without indentation, up to their colon."""
    lines = (line.split(" : ")[0] for line in section.splitlines() if line and not line[0].isspace())
    return {name.strip().lstrip("*") for line in lines for name in line.split(",")}


def _returns(function: object) -> bool:
    """Whether a function returns a value: by its annotation, or by its code where it has none."""
    annotation = inspect.signature(function).return_annotation
    if annotation is not inspect.Signature.empty:
        return annotation not in (None, "None", "NoReturn", "Never")
    opcodes = [(instruction.opname, instruction.argval) for instruction in dis.get_instructions(function)]
    return any(
        name == "RETURN_VALUE" and before != ("LOAD_CONST", None) for before, (name, _) in itertools.pairwise(opcodes)
    )


def _protocols() -> list[type]:
    """All protocols of the library."""
    found = {}
    for info in pkgutil.walk_packages(skmanifold.__path__, "skmanifold."):
        for value in vars(importlib.import_module(info.name)).values():
            if inspect.isclass(value) and getattr(value, "_is_protocol", False):
                found[value] = None
    return [protocol for protocol in found if protocol.__module__.startswith("skmanifold")]


def _is_implementation(cls: type, attribute: str, protocols: list[type]) -> bool:
    """Whether the docstring of a method is elsewhere: that of a base class, or of a protocol that the class satisfies.

    Estimators, and the mixins that they inherit from, are for users: all their methods are described in full.
    """
    if hasattr(cls, "fit") or attribute.startswith("_"):
        return False
    owner = _definer(cls, attribute)
    for base in owner.__mro__[1:]:
        of_base = vars(base).get(attribute)
        if base.__module__.startswith("skmanifold") and of_base is not None and inspect.getdoc(of_base):
            return True
    names = list(inspect.signature(getattr(cls, attribute)).parameters)
    for protocol in protocols:
        methods = [name for name in dir(protocol) if not name.startswith("_") and callable(getattr(protocol, name))]
        if attribute not in methods or not _is_of_kind(owner, protocol, methods):
            continue
        if list(inspect.signature(getattr(protocol, attribute)).parameters) == names:
            return True
    return False


def _is_of_kind(owner: type, protocol: type, methods: list[str]) -> bool:
    """Whether a class satisfies a protocol, or is a base class of the same package, of which subclasses add methods."""
    same_package = owner.__module__.split(".")[:2] == protocol.__module__.split(".")[:2]
    return same_package or all(hasattr(owner, name) for name in methods)


def missing_sections(package: str) -> list[str]:
    """What the docstrings of a package lack, one line each; those of implementations must have a single line."""
    missing, protocols = [], _protocols()
    for name, value, is_method in public_callables(package):
        docstring = inspect.getdoc(value) or ""
        where = f"skmanifold.{package}.{name}"
        if is_method:
            cls, method = (
                getattr(importlib.import_module(f"skmanifold.{package}"), name.split(".")[0]),
                name.split(".")[1],
            )
            docstring = inspect.getdoc(getattr(cls, method)) or ""
            if docstring and not getattr(cls, "_is_protocol", False) and _is_implementation(cls, method, protocols):
                if "\n" in docstring:
                    missing.append(f"{where}: more than one line, although the base class or the protocol describes it")
                continue
        if not docstring:
            missing.append(f"{where}: no docstring")
            continue
        parameters = _parameters(value, is_method)
        titles = ("Parameters", "Attributes") if inspect.isclass(value) else ("Parameters",)
        sections = [section for title in titles if (section := _section(docstring, title)) is not None]
        if parameters and not sections:
            missing.append(f"{where}: no Parameters section ({', '.join(parameters)})")
        elif undescribed := [p for p in parameters if p not in set().union(*map(_described, sections))]:
            missing.append(f"{where}: parameters without a description: {', '.join(undescribed)}")
        if not inspect.isclass(value) and _returns(value) and _section(docstring, "Returns", "Yields") is None:
            missing.append(f"{where}: no Returns section")
    return missing


@pytest.mark.parametrize("package", PACKAGES)
def test_public_callables_have_their_sections(package):
    missing = missing_sections(package)
    assert not missing, "\n" + "\n".join(missing)
