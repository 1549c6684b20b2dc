"""Conversion of an estimator to a tree for JSON, and its arrays.

None, bools, finite floats, strings, lists and whole numbers below 2**53 are JSON values. Everything else is a mapping
whose ``"type"`` is the type; `_decode.py` reads them.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..utils._declared import NOT_KEPT
from ._registry import name_of

SPARSE = {kind.__name__: kind for kind in (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix)}
_LARGEST_INT = 2**53  # other readers of JSON round larger numbers
PLAIN = (type(None), bool, int, float, str)


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
            pairs = [
                [self.encode(key, f"{path} (a key)"), self.encode(item, f"{path}[{key!r}]")]
                for key, item in value.items()
            ]
            return {"type": "dict", "pairs": pairs}
        if kind in SPARSE.values():
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
            if array.dtype != object or not all(type(item) in PLAIN for item in array.flat):
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
