"""Names, parameters and defaults that are going to be removed: each warns for two releases."""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from sklearn.utils import deprecated as _sklearn_deprecated

from .utils._parameters import default_of

DEPRECATED: Final = "deprecated"  # default of a parameter that has another name now
CHANGING: Final = "warn"  # default of a parameter whose default changes
_KEPT_RELEASES = 2

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@dataclass(frozen=True)
class Deprecation:
    """What is deprecated, and for how long.

    Parameters
    ----------
    what : str
        The name, as warnings show it.
    since : str
        The first release that warns, such as "0.2".
    until : str
        The release that no longer has it, such as "0.4". At least two releases must warn before.
    instead : str
        What a user should do, as a sentence without its full stop, such as "Use `new` instead".

    Raises
    ------
    ValueError
        If a version is not like "0.2", or fewer than two releases warn.
    """

    what: str
    since: str
    until: str
    instead: str

    def __post_init__(self) -> None:
        (major, minor), (last_major, last_minor) = release_of(self.since), release_of(self.until)
        # Up to a later major version: this release warns, and those of the later version before the last one
        n_releases = last_minor - minor if last_major == major else last_minor + 1
        if last_major < major or n_releases < _KEPT_RELEASES:
            raise ValueError(
                f"{self.what} is deprecated since {self.since} and would be removed in {self.until}: a deprecation "
                f"stays for {_KEPT_RELEASES} releases."
            )

    @property
    def advice(self) -> str:
        """Until when, since when, and what to do."""
        return f"it will be removed in version {self.until} (deprecated since {self.since}). {self.instead}."

    def is_past(self, version: str) -> bool:
        """Whether this version of the package, or the release that it precedes, should no longer have it.

        Parameters
        ----------
        version : str
            The package's version.

        Returns
        -------
        is_past : bool
            Whether the code must be removed.
        """
        return release_of(version) >= release_of(self.until)

    def warn(self, stacklevel: int = 3) -> None:
        """Issue the FutureWarning.

        Parameters
        ----------
        stacklevel : int, default=3
            Number of calls between the user's line and the warning, as in `warnings.warn`.
        """
        warnings.warn(f"{self.what} is deprecated; {self.advice}", FutureWarning, stacklevel=stacklevel)


def release_of(version: str) -> tuple[int, int]:
    """The release of a version, or the one that a development version precedes.

    Parameters
    ----------
    version : str
        For example "0.2", "0.2.1" or "0.2.0.dev0".

    Returns
    -------
    release : tuple of two int
        Major and minor number.

    Raises
    ------
    ValueError
        If the version has another form.
    """
    match = re.match(r"(\d+)\.(\d+)(?:\.|$|[abr])", version)
    if match is None:
        raise ValueError(f"{version!r} is not a version such as '0.2'.")
    return int(match[1]), int(match[2])


def deprecated(instead: str, *, since: str, until: str) -> Callable[[Decorated], Decorated]:
    """Decorator of functions, methods, properties and classes that are renamed or removed.

    The old name keeps working: a function calls the new one, a class is a subclass of the new one.

    Parameters
    ----------
    instead : str
        What a user should do, such as "Use `new` instead".
    since, until : str
        As in `Deprecation`.

    Returns
    -------
    decorate : callable
        The decorator, which is scikit-learn's.
    """

    def decorate(thing: Decorated) -> Decorated:
        named: Any = thing.fget if isinstance(thing, property) else thing
        record = Deprecation(f"`{named.__qualname__}`", since, until, instead)
        # scikit-learn's message names functions and classes, but not properties
        named_before = f"{record.what} is deprecated; " if isinstance(thing, property) else ""
        return _sklearn_deprecated(named_before + record.advice)(thing)

    return decorate


class RenamedParameter:
    """A parameter of a constructor that has another name now.

    The constructor has both parameters, and ``old="deprecated"`` as the default of the old one. It stores both as they
    are, so that `get_params`, `set_params`, `clone` and `repr` work. The value is read where the estimator is fitted.

    Parameters
    ----------
    old, new : str
        Names of the parameter.
    since, until : str
        As in `Deprecation`.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> TOL = RenamedParameter("tol", "tolerance", since="0.2", until="0.4")
    >>> class Model(BaseEstimator):
    ...     def __init__(self, tolerance=1e-3, tol="deprecated"):
    ...         self.tolerance = tolerance
    ...         self.tol = tol
    ...
    ...     def fit(self, X):
    ...         self.used_ = TOL.of(self)
    ...         return self
    >>> Model(tolerance=0.1).fit(None).used_
    0.1
    """

    def __init__(self, old: str, new: str, *, since: str, until: str):
        self.old, self.new = old, new
        self.record = Deprecation(f"The parameter `{old}`", since, until, f"Use `{new}` instead")

    def of(self, estimator: Any) -> Any:
        """The value of the parameter, under whichever name it was set.

        Parameters
        ----------
        estimator : estimator instance
            The estimator, whose parameters do not change.

        Returns
        -------
        value : object
            The value; a FutureWarning tells if it was set under the old name.

        Raises
        ------
        ValueError
            If both are set.
        """
        value, old_value = getattr(estimator, self.new), getattr(estimator, self.old)
        if isinstance(old_value, str) and old_value == DEPRECATED:
            return value
        default = default_of(estimator, self.new)
        if value is not default and repr(value) != repr(default):
            raise ValueError(f"`{self.old}` is the old name of `{self.new}`: set `{self.new}` only.")
        self.record.warn(stacklevel=4)
        return old_value


class ChangedDefault:
    """A parameter of a constructor or a function whose default changes.

    Until then its default is ``"warn"``, which stands for the old value.

    Parameters
    ----------
    name : str
        The parameter.
    old, new : object
        Its default before and after the change.
    since, until : str
        As in `Deprecation`: the first release that warns, and the one that has the new default.
    """

    def __init__(self, name: str, old: Any, new: Any, *, since: str, until: str):
        self.name, self.old, self.new = name, old, new
        advice = f"Set `{name}={new!r}` for the new default, or `{name}={old!r}` to keep results as they are"
        self.record = Deprecation(f"The default `{name}={old!r}`", since, until, advice)

    def of(self, estimator: Any) -> Any:
        """The value of an estimator's parameter, which does not change.

        Parameters
        ----------
        estimator : estimator instance
            The estimator.

        Returns
        -------
        value : object
            What was set, or the old default with a FutureWarning.
        """
        return self._resolve(getattr(estimator, self.name), 5)

    def resolve(self, value: Any) -> Any:
        """The value of a function's argument.

        Parameters
        ----------
        value : object
            The argument.

        Returns
        -------
        value : object
            What was passed, or the old default with a FutureWarning.
        """
        return self._resolve(value, 5)

    def _resolve(self, value: Any, stacklevel: int) -> Any:
        if not (isinstance(value, str) and value == CHANGING):
            return value
        self.record.warn(stacklevel)
        return self.old


def renamed_keyword(old: str, new: str, *, since: str, until: str) -> Callable[[Decorated], Decorated]:
    """Decorator of functions and methods, other than constructors of estimators, of which a parameter has a new name.

    Parameters
    ----------
    old, new : str
        Names of the parameter. The signature has only the new one.
    since, until : str
        As in `Deprecation`.

    Returns
    -------
    decorate : callable
        The decorator.
    """

    def decorate(function: Decorated) -> Decorated:
        name = function.__qualname__
        record = Deprecation(f"The parameter `{old}` of `{name}`", since, until, f"Use `{new}` instead")
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if old in kwargs:
                value = kwargs.pop(old)
                if new in signature.bind_partial(*args, **kwargs).arguments:
                    raise TypeError(f"`{old}` is the old name of `{new}`: pass `{new}` only.")
                record.warn()
                kwargs[new] = value
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


class RenamedAttribute:
    """Descriptor for an attribute, fitted or not, that has another name now; the old name can only be read.

    Parameters
    ----------
    new : str
        The new name.
    since, until : str
        As in `Deprecation`.

    Examples
    --------
    >>> class Model:
    ...     old_ = RenamedAttribute("new_", since="0.2", until="0.4")
    """

    def __init__(self, new: str, *, since: str, until: str):
        self.new = new
        self._range = since, until

    def __set_name__(self, owner: type, name: str) -> None:
        """Record the deprecation under the name that the attribute has in its class."""
        self.record = Deprecation(f"`{owner.__name__}.{name}`", *self._range, f"Use `{self.new}` instead")

    def __get__(self, instance: Any, owner: type) -> Any:
        """The value of the attribute with the new name, with a FutureWarning."""
        if instance is None:
            return self
        value = getattr(instance, self.new)  # an AttributeError before the fit, without a warning
        self.record.warn()
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        """Raise an AttributeError: only the new name can be set."""
        raise AttributeError(f"Set `{self.new}` instead.")
