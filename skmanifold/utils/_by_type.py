"""Functions of kernels that have an implementation for each type of their first argument."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from numba import config, types
from numba.extending import overload

from ._njit import is_tested


def by_type(declaration: Callable[..., Any]) -> Any:
    """Make a function that calls the kernel registered for the class of its first argument, a NamedTuple.

    Another kernel may be registered with ``function.of(None)``, for all classes that have none of their own.

    In compiled code the kernel is chosen when its caller is compiled: the choice takes no time, and the caller can be
    cached on disk.

    Parameters
    ----------
    declaration : callable
        A function with the parameters of the kernels, and no body.

    Returns
    -------
    function : callable
        With ``function.of(*classes)``, a decorator that registers a kernel for classes.
    """
    function = _ByType(declaration)
    if not (config.DISABLE_JIT or is_tested()):
        overload(function)(function._overload)
    return function


class _ByType:
    """A function whose kernel is chosen by the class of its first argument.

    Numba takes it for a dispatcher: the caller is compiled as if it called the kernel. With `overload` there would be
    another function to compile between them, for each class and each caller.
    """

    is_compiling = False  # read by numba: kernels notice recursive calls themselves

    def __init__(self, declaration: Callable[..., Any]):
        self._kernels: dict[type | None, Any] = {}
        update_wrapper(self, declaration)

    def __call__(self, *arguments: Any) -> Any:
        return self._kernel_of(type(arguments[0]))(*arguments)

    def of(self, *classes: type | None) -> Callable[[Callable], Callable]:
        """A decorator that registers a kernel for classes, or a Python function, which only Python can call.

        None stands for all classes without a kernel of their own.
        """

        def register(kernel: Any) -> Any:
            if hasattr(kernel, "targetoptions"):  # it is compiled
                kernel.targetoptions.setdefault("_nrt", True)  # it may make arrays, also where its caller makes none
            self._kernels.update(dict.fromkeys(classes, kernel))
            return kernel

        return register

    def _kernel_of(self, cls: type) -> Any:
        kernel = self._kernels.get(cls) or self._kernels.get(None)
        if kernel is None:
            raise TypeError(f"{self.__name__} has no kernel for {cls.__name__}.")  # type: ignore[attr-defined]
        return kernel

    if is_tested():

        @property
        def _numba_type_(self) -> Any:
            return types.Dispatcher(self)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Called by numba for the types of a call."""
        return self._kernel_of(args[0].instance_class).get_call_template(args, kws)

    def get_overload(self, args: Any) -> Any:
        """Called by numba for the compiled function with these types."""
        return self._kernel_of(args[0].instance_class).get_overload(args)

    def _overload(self, *arguments):  # without types, as the implementation: numba compares their parameters
        kernel = self._kernel_of(arguments[0].instance_class)

        def implementation(*arguments):
            return kernel(*arguments)

        return implementation
