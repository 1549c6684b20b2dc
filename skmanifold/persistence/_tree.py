"""Conversion of an estimator to a tree for JSON and its arrays, and back; only objects of listed classes are created.

None, bools, finite floats, strings, lists and whole numbers below 2**53 are JSON values. Everything else is a mapping
whose ``"type"`` is the type.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..utils._conditions import Array, Condition, Integer, OneOf, Real, Unsatisfied
from ..utils._declared import NOT_KEPT, Keyed, check_estimator, check_names
from ._registry import class_of, name_of

_SPARSE = {kind.__name__: kind for kind in (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix)}
_LARGEST_INT = 2**53  # other readers of JSON round larger numbers
_PLAIN = (type(None), bool, int, float, str)


class Encoder:
    """Converts one estimator to a tree; arrays are not converted, and an array with several references is stored once.

    Parameters
    ----------
    whose : str
        Name of the object in error messages.

    Attributes
    ----------
    arrays : dict of str to ndarray
        The arrays by their names in the tree.
    """

    def __init__(self, whose: str):
        self.arrays: dict[str, np.ndarray] = {}
        self._whose = whose
        self._names: dict[int, str] = {}
        self._open: set[int] = set()  # the objects that contain the current one

    def encode(self, value: Any, path: str = "") -> Any:
        """The tree of a value.

        Raises
        ------
        TypeError
            If it is, or contains, an object that cannot be saved; `path` is its place in the estimator.
        """
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            return value if abs(value) < _LARGEST_INT else {"type": "int", "hex": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"type": "float", "repr": repr(value)}
        if isinstance(value, np.generic) and not isinstance(value, np.void | np.object_):
            return {"type": "scalar", "dtype": value.dtype.str, "hex": value.tobytes().hex()}
        if kind in (np.ndarray, np.memmap):
            return self._array(value, path)
        if id(value) in self._open:
            self._refuse(path, "contains itself")
        self._open.add(id(value))
        node = self._composite(value, kind, path)
        self._open.remove(id(value))
        return node

    def _composite(self, value: Any, kind: type, path: str) -> Any:
        if kind is list:
            return self._items(value, path)
        if kind is tuple:
            return {"type": "tuple", "items": self._items(value, path)}
        if kind is dict:
            pairs = []
            for key, item in value.items():
                pairs.append([self.encode(key, f"{path} (a key)"), self.encode(item, f"{path}[{key!r}]")])
            return {"type": "dict", "pairs": pairs}
        if kind in _SPARSE.values():
            parts = {name: self.encode(getattr(value, name), path) for name in ("data", "indices", "indptr")}
            return {"type": "sparse", "format": kind.__name__, "shape": list(map(int, value.shape)), **parts}
        if kind is np.random.RandomState:
            return {"type": "RandomState", "state": self.encode(value.get_state(legacy=False), path)}
        if kind is np.random.Generator:
            return {"type": "Generator", "state": self.encode(value.bit_generator.state, path)}
        if isinstance(value, type):
            return {"type": "class", "class": self._known(value, path, "is the class")}
        if callable(value) and hasattr(value, "__name__"):
            self._refuse(path, f"is the function {_full_name(value)}, but files of skmanifold contain no code")
        name = self._known(kind, path, "is an object of the class")
        if issubclass(kind, tuple):
            return {"type": "named tuple", "class": name, "fields": self._attributes(value._asdict(), path)}
        return self._object(value, name, path)

    def _object(self, value: Any, name: str, path: str) -> dict[str, Any]:
        node: dict[str, Any] = {"type": "object", "class": name}
        state = {name: item for name, item in (value.__getstate__() or {}).items() if name not in NOT_KEPT}
        if isinstance(value, BaseEstimator):
            parameters = {name: state.pop(name) for name in value.get_params(deep=False)}
            node["parameters"] = self._attributes(parameters, path)
        node["state"] = self._attributes(state, path)
        return node

    def _attributes(self, attributes: dict[str, Any], path: str) -> dict[str, Any]:
        return {name: self.encode(item, f"{path}.{name}" if path else name) for name, item in attributes.items()}

    def _items(self, items: Any, path: str) -> list:
        return [self.encode(item, f"{path}[{i}]") for i, item in enumerate(items)]

    def _array(self, array: np.ndarray, path: str) -> dict[str, Any]:
        if array.dtype.hasobject:
            if array.dtype != object or not all(type(item) in _PLAIN for item in array.flat):
                self._refuse(path, "is an array of Python objects, which files cannot contain")
            return {"type": "objects", "shape": list(array.shape), "items": self._items(array.flat, path)}
        name = self._names.get(id(array))
        if name is None:
            name = self._names[id(array)] = f"array{len(self.arrays)}"
            self.arrays[name] = array  # the reference also keeps its id unique
        return {"type": "array", "name": name}

    def _known(self, cls: type, path: str, what: str) -> str:
        name = name_of(cls)
        if name is None:
            self._refuse(path, f"{what} {_full_name(cls)}, which files of skmanifold cannot contain")
        return name

    def _refuse(self, path: str, what: str) -> NoReturn:
        raise TypeError(f"{self._whose} cannot be saved: {path or 'it'} {what}; use pickle or joblib instead.")


def _full_name(of: Any) -> str:
    return f"{getattr(of, '__module__', None)}.{getattr(of, '__qualname__', of.__name__)}"


_WORD = Integer(below=2**32)
_BIG = Integer(below=2**128)
_BUFFERED: dict[str, Condition] = {"has_uint32": Integer(below=2), "uinteger": _WORD}
_GAUSS: dict[str, Condition] = {"has_gauss": Integer(below=2), "gauss": Real()}  # of a RandomState
# By the name of a bit generator: the parts of its state, and what is stored together with the state
_STATES: dict[str, tuple[dict[str, Condition], dict[str, Condition]]] = {
    "MT19937": ({"key": Array("uint32", "624"), "pos": Integer(below=625)}, {}),
    "PCG64": ({"state": _BIG, "inc": _BIG}, _BUFFERED),
    "PCG64DXSM": ({"state": _BIG, "inc": _BIG}, _BUFFERED),
    "Philox": (
        {"counter": Array("uint64", "4"), "key": Array("uint64", "2")},
        {"buffer": Array("uint64", "4"), "buffer_pos": Integer(below=5), **_BUFFERED},
    ),
    "SFC64": ({"state": Array("uint64", "4")}, _BUFFERED),
}


def make_bit_generator(state: Any) -> np.random.BitGenerator:
    """A bit generator in this state, which has the format of numpy.

    Raises
    ------
    ValueError
        If the state is not valid.
    """
    if not isinstance(state, dict) or state.get("bit_generator") not in _STATES:
        raise ValueError("the state of a random number generator has an unknown type")
    name = state["bit_generator"]
    inner, outer = _STATES[name]
    where, hints = f"the state of {name}", {"state": Keyed(inner, **inner), **outer}
    Keyed(hints, bit_generator=OneOf((name,)), **hints, **_GAUSS)(state, where, {})
    if _stands_still(name, state["state"]):
        raise Unsatisfied(where, "always gives the same number")
    made = getattr(np.random, name)()
    made.state = {key: value for key, value in state.items() if key not in _GAUSS}
    return made


def _stands_still(name: str, state: dict[str, Any]) -> bool:
    if name == "MT19937":
        return not (state["key"][0] >> 31 or state["key"][1:].any())
    return name.startswith("PCG64") and state["inc"] % 2 == 0


_SCALAR = re.compile(r"[<>|=]?[biufcSUmM]\d*(\[\w+\])?")
_MAX_DEPTH = 100


class Decoder:
    """Makes the objects that a tree describes.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        By their names in the tree; arrays that it does not name are not read.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self._arrays = arrays
        self._depth = 0

    def decode(self, node: Any) -> Any:
        """The value of a tree; an invalid tree raises an exception of any type."""
        if not isinstance(node, list | dict):
            return node
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        if isinstance(node, list):
            made = [self.decode(item) for item in node]
        else:
            made = getattr(self, f"_make_{node['type'].lower().replace(' ', '_')}")(node)
        self._depth -= 1
        return made

    def _make_int(self, node: dict) -> int:
        return int(node["hex"], 16)

    def _make_float(self, node: dict) -> float:
        return float(node["repr"])

    def _make_scalar(self, node: dict) -> Any:
        if not _SCALAR.fullmatch(node["dtype"]):
            raise ValueError(f"{node['dtype'][:60]!r} is not a numeric type")
        return np.frombuffer(bytes.fromhex(node["hex"]), np.dtype(node["dtype"]), count=1)[0]

    def _make_tuple(self, node: dict) -> tuple:
        return tuple(self.decode(node["items"]))

    def _make_dict(self, node: dict) -> dict:
        return {self.decode(key): self.decode(item) for key, item in node["pairs"]}

    def _make_array(self, node: dict) -> np.ndarray:
        if node["name"] not in self._arrays:
            raise ValueError(f"{node['name']}.npy is missing")
        return self._arrays[node["name"]]

    def _make_objects(self, node: dict) -> np.ndarray:
        items, shape = self.decode(node["items"]), node["shape"]
        if not all(type(length) is int and length >= 0 for length in shape) or math.prod(shape) != len(items):
            raise ValueError(f"{len(items)} objects do not fit into an array of the shape {str(shape)[:60]}")
        if not all(type(item) in _PLAIN for item in items):
            raise ValueError("an array holds objects other than numbers and strings")
        array = np.empty(len(items), dtype=object)
        array[:] = items
        return array.reshape(shape)

    def _make_sparse(self, node: dict) -> Any:
        parts = data, indices, indptr = [self.decode(node[name]) for name in ("data", "indices", "indptr")]
        if any(part.ndim != 1 for part in parts) or any(part.dtype.kind != "i" for part in (indices, indptr)):
            raise ValueError("the indices of a sparse matrix are not one-dimensional whole numbers")
        matrix = _SPARSE[node["format"]](tuple(parts), shape=tuple(node["shape"]))
        matrix.data, matrix.indices, matrix.indptr = data, indices, indptr  # in their original types
        matrix.check_format(full_check=True)
        return matrix

    def _make_randomstate(self, node: dict) -> np.random.RandomState:
        state = self.decode(node["state"])
        random_state = np.random.RandomState(make_bit_generator(state))
        random_state.set_state(state)
        return random_state

    def _make_generator(self, node: dict) -> np.random.Generator:
        return np.random.Generator(make_bit_generator(self.decode(node["state"])))

    def _make_class(self, node: dict) -> type:
        return class_of(node["class"])

    def _make_named_tuple(self, node: dict) -> tuple:
        cls = class_of(node["class"])
        if not issubclass(cls, tuple):
            raise ValueError(f"{node['class']} is not a named tuple")
        return cls(**self._attributes(node["fields"]))

    def _make_object(self, node: dict) -> Any:
        cls = class_of(node["class"])
        is_estimator = issubclass(cls, BaseEstimator)
        if issubclass(cls, tuple) or is_estimator != ("parameters" in node):
            raise ValueError(f"{node['class']} does not have the type that the file specifies")
        check_names(cls, node["state"])
        # parameters that are newer than the file have their defaults
        made = cls(**self._attributes(node["parameters"])) if is_estimator else cls.__new__(cls)
        made.__dict__.update(self._attributes(node["state"]))
        if is_estimator:
            check_estimator(made)
        return made

    def _attributes(self, nodes: dict[str, Any]) -> dict[str, Any]:
        return {sys.intern(name): self.decode(node) for name, node in nodes.items()}
