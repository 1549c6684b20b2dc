"""Kernels that are compiled once: what a kernel calls is optimised only together with it.

Numba optimises every function for itself, makes machine code of it and an entry for Python, and then optimises a copy
of it again in every function that calls it: a function that is called over four levels is optimised four times. Here
a function that is compiled because another kernel calls it stays as it was before the optimisation. If Python calls it
too, it is compiled again.

Only this module uses numba's internal names for libraries of code. Versions of numba with which it was not tested
compile kernels in their own way, which takes longer.
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
    """The kernel that numba compiles of a Python function, with options of `numba.njit`."""
    return Kernel(function, options) if is_tested() else numba.njit(**options)(function)


class Kernel(CPUDispatcher):
    """Numba's dispatcher, which distinguishes calls by kernels from calls by Python."""

    _n_callers = 0  # kernels in whose type inference the compiler is; guarded by the compiler's lock

    def __init__(self, function: Callable, options: dict[str, Any]):
        super().__init__(function, {}, {"nopython": True, "boundscheck": None, **options}, pipeline_class=_Compiler)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What numba asks for when a kernel calls this one; each literal would be a type of its own."""
        args, kws = tuple(map(unliteral, args)), {name: unliteral(kws[name]) for name in kws}
        with global_compiler_lock:
            Kernel._n_callers += 1
            try:
                return super().get_call_template(args, kws)
            finally:
                Kernel._n_callers -= 1

    def compile(self, sig: Any) -> Any:
        """Compile for these types; for Python also what was compiled for a kernel only."""
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


class _Compiler(Compiler):
    """Numba's compiler with another library of code."""

    def compile_extra(self, func: Callable) -> Any:
        flags, library = self.state.flags, Part if Kernel._n_callers else _Whole
        flags.no_cpython_wrapper = library is Part
        flags.no_cfunc_wrapper = True  # nothing calls a kernel as a function of C
        self.state.library = library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


class _Whole(JITCodeLibrary):
    """The code of a kernel that Python calls, with all that it calls."""

    def _finalize_specific(self) -> None:
        super()._finalize_specific()
        for variable in self._final_module.global_variables:  # parts cannot do this for themselves
            environment = lookup_environment(variable.name)
            if environment is not None:
                self._codegen.set_env(variable.name, environment)


class Part(JITCodeLibrary):
    """The code of a function that kernels call: no machine code of its own."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Null, because there is none."""
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
