"""From the tree that `_encode.py` makes back to an estimator: of classes that are listed, and of no others."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ._encode import SPARSE
from ._registry import class_of

_BIT_GENERATORS = {
    kind.__name__: kind
    for kind in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)
}


class Decoder:
    """Makes what a tree describes.

    Parameters
    ----------
    arrays : dict of str to ndarray
        By the names that the tree has for them.
    """

    def __init__(self, arrays: dict[str, np.ndarray]):
        self._arrays = arrays

    def decode(self, node: Any) -> Any:
        """The value of a tree; whatever does not fit raises, with one or another exception."""
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        if isinstance(node, dict):
            return self._MAKERS[node["type"]](self, node)
        return node

    def _int(self, node: dict) -> int:
        return int(node["hex"], 16)

    def _float(self, node: dict) -> float:
        return float(node["repr"])

    def _scalar(self, node: dict) -> Any:
        return np.frombuffer(bytes.fromhex(node["hex"]), np.dtype(node["dtype"]))[0]

    def _tuple(self, node: dict) -> tuple:
        return tuple(self.decode(node["items"]))

    def _dict(self, node: dict) -> dict:
        return {self.decode(key): self.decode(item) for key, item in node["pairs"]}

    def _array(self, node: dict) -> np.ndarray:
        if node["name"] not in self._arrays:
            raise ValueError(f"{node['name']}.npy is missing")
        return self._arrays[node["name"]]

    def _objects(self, node: dict) -> np.ndarray:
        return np.array(self.decode(node["items"]), dtype=object).reshape(node["shape"])

    def _sparse(self, node: dict) -> Any:
        parts = data, indices, indptr = [self.decode(node[name]) for name in ("data", "indices", "indptr")]
        matrix = SPARSE[node["format"]](tuple(parts), shape=tuple(node["shape"]))
        matrix.data, matrix.indices, matrix.indptr = data, indices, indptr  # in the types that they had
        matrix.check_format(full_check=True)
        return matrix

    def _random_state(self, node: dict) -> np.random.RandomState:
        state = self.decode(node["state"])
        random_state = np.random.RandomState(_BIT_GENERATORS[state["bit_generator"]]())
        random_state.set_state(state)
        return random_state

    def _generator(self, node: dict) -> np.random.Generator:
        state = self.decode(node["state"])
        bits = _BIT_GENERATORS[state["bit_generator"]]()
        bits.state = state
        return np.random.Generator(bits)

    def _class(self, node: dict) -> type:
        return class_of(node["class"])

    def _named_tuple(self, node: dict) -> tuple:
        return class_of(node["class"])(**self._attributes(node["fields"]))

    def _object(self, node: dict) -> Any:
        cls = class_of(node["class"])
        # a parameter that did not exist yet has its default
        made = cls(**self._attributes(node["parameters"])) if "parameters" in node else cls.__new__(cls)
        state = self._attributes(node["state"])
        if hasattr(made, "__setstate__"):
            made.__setstate__(state)
        else:
            made.__dict__.update(state)
        return made

    def _attributes(self, nodes: dict[str, Any]) -> dict[str, Any]:
        return {sys.intern(name): self.decode(node) for name, node in nodes.items()}

    _MAKERS = {  # noqa: RUF012
        "int": _int,
        "float": _float,
        "scalar": _scalar,
        "tuple": _tuple,
        "dict": _dict,
        "array": _array,
        "objects": _objects,
        "sparse": _sparse,
        "RandomState": _random_state,
        "Generator": _generator,
        "class": _class,
        "named tuple": _named_tuple,
        "object": _object,
    }
