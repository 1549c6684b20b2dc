"""Kernels that are compiled once: functions that a kernel calls are only optimised together with it.

Numba optimises every function separately, creates its machine code and an entry point for Python, and then optimises a
copy of it again in every function that calls it: with four levels of calls, a function is optimised four times. Here a
function that is compiled because another kernel calls it is not optimised separately. If Python also calls it, it is
compiled again.

Only this module uses numba's internal names for libraries of code. With untested versions of numba, kernels are
compiled in the usual way of numba, which takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core import sigutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import lookup_environment
from numba.core.registry import CPUDispatcher
from numba.core.types.misc import unliteral

from .._collector import no_collection

_TESTED = ((0, 60), (0, 68))  # the first and the last version of numba; see tests/utils/test_kernel_parts.py


def is_tested() -> bool:
    """Whether the installed version of numba was tested with `Kernel`."""
    version = tuple(map(int, numba.__version__.split(".")[:2]))
    return _TESTED[0] <= version <= _TESTED[1]


def new_kernel(function: Callable, options: dict[str, Any]) -> Any:
    """The kernel of a Python function, with options of `numba.njit`."""
    return Kernel(function, options) if is_tested() else numba.njit(**options)(function)


class Kernel(CPUDispatcher):
    """Numba's dispatcher, which distinguishes calls by kernels from calls by Python."""

    _n_callers = 0  # kernels in type inference at present; guarded by the compiler's lock

    def __init__(self, function: Callable, options: dict[str, Any]):
        super().__init__(function, {}, {"nopython": True, "boundscheck": None, **options}, pipeline_class=_Compiler)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Called by numba if a kernel calls this one; literals are replaced, because each would be a separate type."""
        args, kws = tuple(map(unliteral, args)), {name: unliteral(kws[name]) for name in kws}
        with global_compiler_lock:
            Kernel._n_callers += 1
            try:
                return super().get_call_template(args, kws)
            finally:
                Kernel._n_callers -= 1

    def compile(self, sig: Any) -> Any:
        """Compile for these types; a call by Python also compiles what was only compiled as a part of a kernel."""
        with global_compiler_lock, no_collection():
            args = tuple(sigutils.normalize_signature(sig)[0])
            known = self.overloads.get(args)
            if known is not None and not Kernel._n_callers and isinstance(known.library, Part):
                del self.overloads[args]
            return super().compile(sig)

    def add_overload(self, cres: Any) -> None:
        """Add a compiled function: Python may call it unless it is a part."""
        if isinstance(cres.library, Part):
            self.overloads[tuple(cres.signature.args)] = cres
        else:
            super().add_overload(cres)


class _Interpreted(CPUDispatcher):
    """A kernel that Python interprets, so that its functions of a user may be Python functions; see `_njit`."""

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)


class _InterpretedKernel(_Interpreted, Kernel):
    pass


def new_interpreted(function: Callable, options: dict[str, Any]) -> Any:
    """As `new_kernel`, for a kernel that Python interprets."""
    if is_tested():
        return _InterpretedKernel(function, options)
    return _Interpreted(function, {}, {"nopython": True, "boundscheck": None, **options})


class _Compiler(Compiler):
    """Numba's compiler with another library of code."""

    def compile_extra(self, func: Callable) -> Any:
        flags, library = self.state.flags, Part if Kernel._n_callers else _Whole
        flags.no_cpython_wrapper = library is Part
        flags.no_cfunc_wrapper = True  # kernels are not called as C functions
        self.state.library = library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


class _Whole(JITCodeLibrary):
    """The code of a kernel that Python calls, including all functions that it calls."""

    def _finalize_specific(self) -> None:
        super()._finalize_specific()
        for variable in self._final_module.global_variables:  # not possible for parts
            environment = lookup_environment(variable.name)
            if environment is not None:
                self._codegen.set_env(variable.name, environment)


class Part(JITCodeLibrary):
    """The code of a function that kernels call, without separate machine code."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Null, because a part has no machine code."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        """Numba sets the environment of a function in machine code with this."""
        return _NoEngine


class _NoEngine:
    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        pass
