"""A version of numba's `njit` with an optional cache, and kernels with an implementation for each type of data."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import numba
from numba import config, typeof, types
from numba.core import sigutils
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.targetconfig import ConfigStack
from numba.core.types.misc import unliteral
from numba.extending import overload

from ._machine_code import KernelCache, Part, Whole
from ._threads import no_collection

# Numba optimises every function separately, creates its machine code and an entry point for Python, and then optimises
# a copy of it again in every function that calls it: with four levels of calls, a function is optimised four times.
# Here a function that is compiled because another kernel calls it is not optimised separately. If Python also calls it,
# it is compiled again. With untested versions of numba, kernels are compiled in the usual way of numba, which takes
# longer.
#
# With ``cache=True`` numba raises an error if no cache folder is writable, or if reading or writing a cache file fails.
# Here kernels that cannot be saved on disk are kept in memory.

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
    """A kernel that Python interprets, so that its functions of a user may be Python functions."""

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
        flags, library = self.state.flags, Part if Kernel._n_callers else Whole
        flags.no_cpython_wrapper = library is Part
        flags.no_cfunc_wrapper = True  # kernels are not called as C functions
        self.state.library = library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)

    def define_pipelines(self) -> list[Any]:
        """The same passes; numba compiles its own functions once more for callers with other flags."""
        ConfigStack().top().no_cpython_wrapper = True
        return super().define_pipelines()


def njit(*, cache: bool = False, new: Callable = new_kernel, **options: Any) -> Callable[[Callable], Any]:
    """Decorator like `numba.njit`, of kernels that `new` makes.

    With `cache`, machine code is cached on disk if possible, also read-only.
    """

    def decorate(function: Callable) -> Any:
        if config.DISABLE_JIT:
            return function
        kernel = new(function, options)
        if cache:
            kernel._cache = KernelCache(function)
        return kernel

    return decorate


def njit_or_interpreted(**options: Any) -> Callable[[Callable], Any]:
    """As `njit`, for a kernel whose arguments contain functions of a user, such as the gradient of a density.

    If Python calls it, Python also interprets it, and the functions can be any. `call_compiled` calls it in compiled
    form, for functions that numba has compiled. Both have the same results, to the bit.
    """
    return njit(new=new_interpreted, **options)


def call_compiled(kernel: Any, functions: dict[Any, Any], *arguments: Any) -> Any:
    """Call an interpreted kernel in compiled form.

    Parameters
    ----------
    kernel : object
        A kernel by `njit_or_interpreted`, whose first arguments are functions.
    functions : dict
        The functions, dispatchers of numba, by their types (`FunctionType`). The kernel is compiled for the types, not
        for the functions, so that it can be cached on disk.
    *arguments : object
        The other arguments.

    Returns
    -------
    object
        The result.
    """
    return kernel.compile((*functions, *map(typeof, arguments)))(*functions.values(), *arguments)


# For parts of a kernel that run often: without counts of references to arrays, which cost two atomic operations for
# each array and call (measured: 40% of a token's time in document Gibbs sampling). Parts may not make arrays.
njit_part = njit(cache=True, _nrt=False)
njit_inlined = njit(cache=True, _nrt=False, forceinline=True)  # inlined at each call


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
