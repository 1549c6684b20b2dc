"""Declarations of the attributes of fitted objects, which are checked when objects are saved and loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sklearn.base import BaseEstimator

from ._conditions import Condition, Lacking, OneOf, Sizes, Unsatisfied, refuse
from ._sklearn import CALLBACK_STATE

Agreement: TypeAlias = Callable[[Any, Sizes], "str | None"]
Class = TypeVar("Class", bound=type)

# Callbacks are not saved, because they may contain any object; the other attributes only exist during a fit.
NOT_KEPT = ("_skl_callbacks", "_pass_report", *CALLBACK_STATE)
_LARGEST = 2**63  # upper bound of integer parameters
# Set by the validation of X, before the fit, and by minibatches without data
_BEFORE_FIT = {"n_features_in_", "feature_names_in_", "n_batch_iter_"}
_CONFIGURED = "_sklearn_output_config"  # set by set_output
_CONTAINERS = OneOf(("default", "pandas", "polars", None))


class Declaration(NamedTuple):
    """The conditions on the attributes of a class, in the order in which they are checked."""

    agree: Agreement | None  # checks the whole object after its attributes; returns an error message or None
    fields: dict[str, Condition]


_DECLARED: dict[type, Declaration] = {}


def holds(agree: Agreement | None = None, /, **fields: Condition) -> Callable[[Class], Class]:
    """Declare the conditions on the attributes of a class; a class decorator.

    Attributes are checked in this order, with the named sizes that are known at the position of the object. Named sizes
    that the object sets do not apply outside of it. For estimators these are the fitted attributes; the constructor
    parameters have `_parameter_constraints`.
    """

    def declare(cls: Class) -> Class:
        _DECLARED[cls] = Declaration(agree, fields)
        return cls

    return declare


def declaration(cls: type) -> Declaration:
    """The declaration of a class; classes with parameters only, such as samplers, need none."""
    if cls not in _DECLARED and not issubclass(cls, BaseEstimator):
        raise ValueError(f"a {cls.__name__} is not an allowed attribute of a fitted estimator")
    return _DECLARED.get(cls, Declaration(None, {}))


class Held:
    """An object of one of the given classes that satisfies its declaration; given conditions replace declared ones."""

    def __init__(self, *classes: type, **fields: Condition):
        self._classes = classes
        self._fields = fields

    def __call__(self, value: Any, where: str, sizes: Sizes) -> None:
        if not self._allows(type(value)):
            refuse(where, f"is a {type(value).__name__} and not a {_names(self._classes)}")
        declared = declaration(type(value))
        attributes = value._asdict() if hasattr(value, "_asdict") else vars(value)
        _check_attributes(value, attributes, {**declared.fields, **self._fields}, declared.agree, where, dict(sizes))

    def _allows(self, cls: type) -> bool:
        return cls in self._classes


class HeldKind(Held):
    """An object of a declared class that inherits from one of the given classes, and that satisfies its declaration."""

    def _allows(self, cls: type) -> bool:
        return cls in _DECLARED and issubclass(cls, self._classes)


class Settings:
    """An object that has only constructor parameters, such as a sampler, of one of the given classes or a subclass."""

    def __init__(self, *classes: type):
        self._classes = classes

    def __call__(self, value: Any, where: str, sizes: Sizes) -> None:
        if not isinstance(value, self._classes) or not isinstance(value, BaseEstimator):
            refuse(where, f"is a {type(value).__name__} and not a {_names(self._classes)}")
        _check_parameters(value, where)


def check_estimator(estimator: BaseEstimator) -> None:
    """Raise a ValueError if an attribute of an estimator, fitted or not, violates the declaration of its class.

    The parameters of a fitted estimator are validated as in `fit`.
    """
    declared = declaration(type(estimator))
    learned = learned_attributes(estimator)
    of = type(estimator).__name__
    try:
        check_names(type(estimator), learned)
        if _CONFIGURED in learned:
            for name, value in learned.pop(_CONFIGURED).items():
                _CONTAINERS(value, f"the configuration {name!r}", {})
        learned = {name: value for name, value in learned.items() if name in declared.fields}
        if learned.keys() <= _BEFORE_FIT:
            fields = {name: declared.fields[name] for name in learned}
            _check_attributes(estimator, learned, fields, None, "", {})
        else:
            _check_attributes(estimator, learned, declared.fields, declared.agree, "", {})
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
    declared = declaration(cls).fields
    for name in names:
        noted = issubclass(cls, BaseEstimator) and name.endswith("_") and not name.startswith("_")
        if name in declared or (name == _CONFIGURED and issubclass(cls, BaseEstimator)):
            continue
        if not noted or hasattr(cls, name):
            raise ValueError(f"{cls.__name__} has no attribute {name[:60]!r}")


def _check_attributes(
    whole: Any,
    attributes: dict[str, Any],
    fields: dict[str, Condition],
    agree: Agreement | None,
    where: str,
    sizes: Sizes,
) -> None:
    for name in attributes:
        if name not in fields:
            refuse(where, f"has the undeclared attribute {name[:60]!r}")
    for name, condition in fields.items():
        if name in attributes:
            condition(attributes[name], f"{where}.{name}" if where else name, sizes)
        elif not isinstance(condition, Lacking):
            refuse(where, f"lacks {name}")
    message = agree(whole, sizes) if agree else None
    if message:
        refuse(where, message)


def _check_parameters(value: BaseEstimator, where: str) -> None:
    if learned_attributes(value).keys() - declaration(type(value)).fields.keys() and where:
        refuse(where, "has attributes that are not parameters")
    for name, parameter in value.get_params(deep=False).items():
        if type(parameter) is int and abs(parameter) >= _LARGEST:
            refuse(f"{where}.{name}" if where else name, "is an integer of more than 64 bits")
        if isinstance(parameter, BaseEstimator) and hasattr(parameter, "_parameter_constraints"):
            _check_parameters(parameter, f"{where}.{name}" if where else name)
    if hasattr(value, "_parameter_constraints"):
        value._validate_params()


def _names(classes: tuple[type, ...]) -> str:
    return " or ".join(cls.__name__ for cls in classes)
