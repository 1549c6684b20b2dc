"""Saved attributes: they are declared by annotations, and checked when an object is saved and loaded.

All fields of a NamedTuple are saved. The saved attributes of another class are those whose annotation is `Saved`,
`Lacking` or another ``Annotated``. The type alone says what a value must be: ``int`` is not negative, ``float`` is
finite, a class is an instance with valid attributes of its own. Conditions of `_conditions.py` say more::

    sizes: Annotated[np.ndarray, Array("int64", "capacity", low=0)]
    counts: Saved[TopicCounts | None]
    labels_: Lacking[Annotated[np.ndarray, index("n_rows", below="n_components")]]

Attributes are checked in the order of their declaration, with the named sizes that are known at the position of the
object; sizes that the object sets do not apply outside of it. A method ``_disagreement(sizes)`` of the class then
returns what is wrong with the object as a whole, or None.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator

from ._conditions import Array, Condition, Integer, OneOf, Real, Sizes, Unsatisfied, check_length, refuse, shortened
from ._sklearn import CALLBACK_STATE

Value = TypeVar("Value")
Saved = Annotated[Value, "saved"]
Lacking = Annotated[Value, "saved", "may be missing"]

# Callbacks are not saved, because they may contain any object; the other attributes only exist during a fit.
NOT_KEPT = ("_skl_callbacks", "_pass_report", *CALLBACK_STATE)
_LARGEST = 2**63  # upper bound of integer parameters
# Set by the validation of X, before the fit, and by minibatches without data
_BEFORE_FIT = {"n_features_in_", "feature_names_in_", "n_batch_iter_"}
_CONFIGURED = "_sklearn_output_config"  # set by set_output
_CONTAINERS = OneOf(("default", "pandas", "polars", None))


def _is(kind: type) -> Condition:
    def check_type(value: Any, where: str, sizes: Sizes) -> None:
        if not isinstance(value, kind):
            refuse(where, f"is a {type(value).__name__} and not a {kind.__name__}")

    return check_type


_PLAIN: dict[Any, Condition] = {  # what types mean that have no other condition
    int: Integer(),
    float: Real(),
    bool: OneOf((False, True)),
    **{kind: _is(kind) for kind in (str, dict, type, type(None), np.uint64, np.ndarray)},
}


# Annotations


def check(hint: Any, value: Any, where: str, sizes: Sizes) -> None:
    """Raise `Unsatisfied` if a value does not satisfy an annotation, or a condition."""
    origin, of = get_origin(hint), get_args(hint)
    if hint is Any:
        return
    if origin is Annotated:
        conditions = [each for each in hint.__metadata__ if callable(each)]
        for condition in conditions:
            condition(value, where, sizes)
        if not (conditions and (get_origin(of[0]) or of[0]) in _PLAIN):
            check(of[0], value, where, sizes)
    elif origin in (Union, UnionType):
        possible = [each for each in of if _may_be(each, value)]
        check(possible[0] if possible else of[0], value, where, sizes)
    elif origin is Literal:
        OneOf(of)(value, where, sizes)
    elif origin in (list, tuple):
        _check_items(origin, of, value, where, sizes)
    elif hint in _PLAIN:
        _PLAIN[hint](value, where, sizes)
    elif isinstance(origin or hint, type):
        _check_object(origin or hint, of, value, where, sizes)
    elif callable(hint):
        hint(value, where, sizes)


def _may_be(hint: Any, value: Any) -> bool:
    """Whether a value may have an annotated type, as far as its own type and its number of dimensions show."""
    if get_origin(hint) is Annotated:
        arrays = [each for each in hint.__metadata__ if isinstance(each, Array)]
        return _may_be(hint.__origin__, value) and all(each.n_dimensions in (None, value.ndim) for each in arrays)
    kind = get_origin(hint) or hint
    if kind is Any:
        return True
    if kind is Literal:
        return isinstance(value, type(get_args(hint)[0]))
    return isinstance(value, int | float | np.number if kind is float else kind)


def _check_items(kind: type, of: tuple[Any, ...], value: Any, where: str, sizes: Sizes) -> None:
    """Check a list or tuple; named sizes that an item of any number of items sets do not apply to the others."""
    if not isinstance(value, list | tuple) or type(value) is not kind:
        refuse(where, f"is a {type(value).__name__}, not a {kind.__name__}")
    alike = kind is list or of[-1] is Ellipsis
    if not alike:
        check_length(len(value), len(of), where, sizes)
    for i, item in enumerate(value):
        check(of[0 if alike else i], item, f"{where}[{i}]", dict(sizes) if alike else sizes)


def _check_object(kind: type, of: tuple[Any, ...], value: Any, where: str, sizes: Sizes) -> None:
    """Check an instance of a class, with its attributes; samplers and emissions have only parameters."""
    if not isinstance(value, kind):
        refuse(where, f"is a {type(value).__name__} and not a {kind.__name__}")
    fields = saved_fields(type(value))
    if not fields and isinstance(value, BaseEstimator):
        _check_parameters(value, where)
        return
    if of:  # the type of the class's type variable
        hints: dict[str, Any] = {name: Annotated[hint, "of a class"] for name, hint in fields.items()}
        fields = {name: hint[of] if hint.__parameters__ else hint for name, hint in hints.items()}
    _check_attributes(value, fields, where, dict(sizes))


def saved_fields(cls: type) -> dict[str, Any]:
    """The annotations of the saved attributes of a class, in the order in which they are checked."""
    return _fields_of(cls.__mro__)


@cache
def _fields_of(classes: tuple[type, ...]) -> dict[str, Any]:
    """The fields of the first of these classes, a subclass of the others."""
    if tuple in classes:
        return get_type_hints(classes[0], include_extras=True)
    fields: dict[str, Any] = {}
    for base in reversed(classes):
        # Other annotations are not evaluated, because they may name what only type checkers import
        own = {name: hint for name, hint in vars(base).get("__annotations__", {}).items() if _is_declaration(hint)}
        declared = type("Declared", (), {"__annotations__": own, "__module__": base.__module__})
        fields |= get_type_hints(declared, include_extras=True)
    return fields


def _is_declaration(hint: Any) -> bool:
    return get_origin(hint) is Annotated or str(hint).startswith(("Annotated[", "Saved[", "Lacking["))


def _check_attributes(value: Any, fields: dict[str, Any], where: str, sizes: Sizes, whole: bool = True) -> None:
    attributes = value._asdict() if hasattr(value, "_asdict") else vars(value)
    if where and (unknown := attributes.keys() - fields.keys()):
        refuse(where, f"has the undeclared attribute {min(unknown)[:60]!r}")
    for name, hint in fields.items():
        if name in attributes:
            check(hint, attributes[name], f"{where}.{name}" if where else name, sizes)
        elif whole and "may be missing" not in getattr(hint, "__metadata__", ()):
            refuse(where, f"lacks {name}")
    if whole and hasattr(value, "_disagreement") and (message := value._disagreement(sizes)):
        refuse(where, message)


class Keyed:
    """A dict with some of these keys, and with all keys in `needed`."""

    def __init__(self, needed: Collection[str] = (), **hints: Any):
        self._needed = needed
        self._hints = hints

    def __call__(self, value: Any, where: str, sizes: Sizes) -> None:
        if type(value) is not dict:
            refuse(where, f"is a {type(value).__name__}, not a dict")
        for name in self._needed:
            if name not in value:
                refuse(where, f"lacks {name!r}")
        for name in value:
            if name not in self._hints:
                refuse(where, f"has the unknown key {shortened(name)}")
        for name, hint in self._hints.items():
            if name in value:
                check(hint, value[name], f"{where}[{name!r}]", sizes)


# Estimators


def check_estimator(estimator: BaseEstimator) -> None:
    """Raise a ValueError if an attribute of an estimator, fitted or not, violates the declaration of its class.

    The parameters of a fitted estimator are validated as in `fit`.
    """
    fields = saved_fields(type(estimator))
    learned = learned_attributes(estimator)
    of = type(estimator).__name__
    try:
        check_names(type(estimator), learned)
        for name, value in learned.pop(_CONFIGURED, {}).items():
            _CONTAINERS(value, f"the configuration {name!r}", {})
        is_fitted = not learned.keys() & fields.keys() <= _BEFORE_FIT
        _check_attributes(estimator, fields, "", {}, is_fitted)
        if is_fitted:
            _check_parameters(estimator, "")
    except Unsatisfied as error:
        raise ValueError(f"{error.where} of {of} {error.what}" if error.where else f"{of} {error.what}") from None


def learned_attributes(estimator: BaseEstimator) -> dict[str, Any]:
    """Attributes of an estimator that are neither parameters nor attributes that only exist during a fit."""
    others = {*estimator._get_param_names(), *NOT_KEPT}
    return {name: value for name, value in vars(estimator).items() if name not in others}


def check_names(cls: type, names: Any) -> None:
    """Raise a ValueError for undeclared attributes, which could override methods of the class.

    Additional attributes of estimators that users have set, with names such as ``note_``, are allowed.
    """
    declared = saved_fields(cls)
    for name in names:
        noted = issubclass(cls, BaseEstimator) and name.endswith("_") and not name.startswith("_")
        if name in declared or (name == _CONFIGURED and issubclass(cls, BaseEstimator)):
            continue
        if not noted or hasattr(cls, name):
            raise ValueError(f"{cls.__name__} has no attribute {name[:60]!r}")


def _check_parameters(value: BaseEstimator, where: str) -> None:
    if learned_attributes(value).keys() - saved_fields(type(value)).keys() and where:
        refuse(where, "has attributes that are not parameters")
    for name, parameter in value.get_params(deep=False).items():
        if type(parameter) is int and abs(parameter) >= _LARGEST:
            refuse(f"{where}.{name}" if where else name, "is an integer of more than 64 bits")
        if isinstance(parameter, BaseEstimator) and hasattr(parameter, "_parameter_constraints"):
            _check_parameters(parameter, f"{where}.{name}" if where else name)
    if hasattr(value, "_parameter_constraints"):
        value._validate_params()
