"""Parameters of constructors: numpy numbers as Python numbers, and what the classes of an object say of parameters."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator


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


def default_of(estimator: BaseEstimator, name: str) -> Any:
    """The default of a parameter; the constructor of a subclass may lack parameters, which it passes to the other."""
    of_classes = (signature(cls).parameters for cls in type(estimator).__mro__)
    return next(parameters[name].default for parameters in of_classes if name in parameters)


def inherited_parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """The values of parameters of the classes of an estimator that its own constructor lacks."""
    classes: list[Any] = [cls for cls in type(estimator).__mro__ if issubclass(cls, BaseEstimator)]
    names = {name for cls in classes for name in cls._get_param_names()} - set(estimator.get_params(deep=False))
    return {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}
