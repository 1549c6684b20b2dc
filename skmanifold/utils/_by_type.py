"""Functions of kernels that have an implementation for each type of their first argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import config
from numba.extending import overload

_AS_PART = {"_nrt": False, "forceinline": True}  # as `njit_inlined`: without counts of references to arrays


def by_type(declaration: Callable[..., Any]) -> Any:
    """Make a function that calls the kernel registered for the class of its first argument, a NamedTuple.

    In compiled code the kernel is chosen when its caller is compiled: the choice takes no time, and the caller can be
    cached on disk.

    Parameters
    ----------
    declaration : callable
        A function with the parameters of the kernels, and no body.

    Returns
    -------
    function : callable
        With ``function.of(cls)``, a decorator that registers a kernel for a class.
    """
    kernels: dict[type, Callable[..., Any]] = {}

    def kernel_of(cls: type) -> Callable[..., Any]:
        if cls not in kernels:
            raise TypeError(f"{declaration.__name__} has no kernel for {cls.__name__}.")
        return kernels[cls]

    def function(*arguments: Any) -> Any:
        return kernel_of(type(arguments[0]))(*arguments)

    def of(cls: type) -> Callable[[Callable], Callable]:
        def register(kernel: Any) -> Any:
            if not config.DISABLE_JIT:
                kernel.targetoptions.setdefault("_nrt", True)  # not inherited from the implementation below
            kernels[cls] = kernel
            return kernel

        return register

    function.__name__, function.__doc__, function.of = declaration.__name__, declaration.__doc__, of  # type: ignore
    if not config.DISABLE_JIT:

        def choose(*arguments):
            kernel = kernel_of(arguments[0].instance_class)

            def implementation(*arguments):
                return kernel(*arguments)

            return implementation

        overload(function, jit_options=_AS_PART)(choose)
    return function
