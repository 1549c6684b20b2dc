"""What classes with parameters share: numpy numbers as Python numbers, defaults, and the link to their page."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._version import __version__


def members(protocol: Any) -> list[str]:
    """Names of the methods and attributes of a protocol, in the order of their definition."""
    bases = [base for base in protocol.__mro__ if base.__module__ not in ("builtins", "typing")]
    names = [name for base in bases for name in (*vars(base), *getattr(base, "__annotations__", ()))]
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def missing_names(thing: Any, *protocols: Any) -> list[str]:
    """The names of protocols that an object does not have, in the order of their definition."""
    names = dict.fromkeys(name for protocol in protocols for name in members(protocol))
    return [name for name in names if getattr(thing, name, False) is False]


def offers(thing: Any, *protocols: Any) -> bool:
    """Whether an object has all methods and attributes of protocols.

    ``isinstance`` does not recognise methods that depend on the instance (``available_if``): from Python 3.12 on it
    considers them always present. An attribute that is False is not offered.
    """
    return not missing_names(thing, *protocols)


# The address is also in pyproject.toml, among the project's addresses; a test compares the two.
DOCUMENTATION = "https://skmanifold.readthedocs.io"


class PlainNumbers:
    """Private mixin of classes with parameters; it comes before the base class of scikit-learn.

    A parameter that is a numpy number, which can overflow, is converted to a Python number when it is stored, so that
    the constructor, `set_params` and an assignment have the same effect, and `clone` works.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; a parameter that is a numpy number is converted to a Python number."""
        if isinstance(value, (np.integer, np.floating)) and name[0] != "_" and name[-1] != "_":
            value = value.item()
        super().__setattr__(name, value)


class LinksToItsPage:
    """Private mixin of classes that have a page in the API reference: the link from their HTML display."""

    _doc_link_module = "skmanifold"
    _doc_link_template = (
        f"{DOCUMENTATION}/en/{'latest' if 'dev' in __version__ else 'stable'}/api/generated/{{page}}.html"
    )

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        import skmanifold

        name = type(self).__name__
        package = "skmanifold" if name in dir(skmanifold) else ".".join(type(self).__module__.split(".")[:2])
        return {"page": f"{package}.{name}"}


def default_of(estimator: BaseEstimator, name: str) -> Any:
    """The default of a parameter; the constructor of a subclass may lack parameters, which it passes to the other."""
    of_classes = (signature(cls).parameters for cls in type(estimator).__mro__)
    return next(parameters[name].default for parameters in of_classes if name in parameters)


def inherited_parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """The values of parameters of the classes of an estimator that its own constructor lacks."""
    classes: list[Any] = [cls for cls in type(estimator).__mro__ if issubclass(cls, BaseEstimator)]
    names = {name for cls in classes for name in cls._get_param_names()} - set(estimator.get_params(deep=False))
    return {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}
