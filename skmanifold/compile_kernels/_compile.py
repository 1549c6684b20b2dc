"""Run all cases and count the kernels that they compile."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from joblib import Parallel, delayed
from numba import config

from ..utils._machine_code import caches, notice, warned
from ._cases import ESTIMATORS, Case, cases_of


class KernelsNotSavedError(RuntimeError):
    """Raised by `compile_kernels` if there is nothing to save, or no folder to save it in."""


class CompiledKernels(NamedTuple):
    """Result of `compile_kernels`.

    Attributes
    ----------
    n_compiled : int
        Number of kernels that were compiled, one for each combination of types.
    n_found : int
        Number of kernels that the cache had before. Kernels that this process used before the call are not counted.
    folders : tuple of str
        Folders of the cache; usually one.
    n_bytes : int
        Size of all machine code in these folders.
    seconds : float
        Time of the call.
    """

    n_compiled: int
    n_found: int
    folders: tuple[str, ...]
    n_bytes: int
    seconds: float


def compile_kernels(
    estimators: Iterable[str] | None = None,
    *,
    only_defaults: bool = False,
    n_jobs: int | None = None,
    report: Callable[[str, int, int], None] | None = None,
) -> CompiledKernels:
    """Compile the kernels of estimators and save them in numba's cache, for images, clusters and tests.

    It fits each estimator to a few rows with its defaults, and with each sampler and each emission that has a name, and
    calls `transform`, `predict`, `score`, `partial_fit` and the other methods. Kernels that the cache has are loaded.

    Parameters
    ----------
    estimators : iterable of str, default=None
        Names of classes, in upper or lower case. None compiles the kernels of all estimators.
    only_defaults : bool, default=False
        Whether to compile only the kernels of the default settings.
    n_jobs : int, default=None
        Number of processes; None is 1, -1 uses all cores. Processes may compile a kernel that both need twice.
    report : callable, default=None
        Called after each fit with its description, the number of fits so far and the number of all fits.

    Returns
    -------
    compiled : CompiledKernels
        Numbers of kernels, and their folders.

    Raises
    ------
    ValueError
        If the name of an estimator is unknown.
    KernelsNotSavedError
        If machine code cannot be saved.

    Warns
    -----
    RuntimeWarning
        If machine code is saved in a temporary folder.

    Examples
    --------
    >>> from skmanifold.compile_kernels import compile_kernels
    >>> compile_kernels(["StochasticLDA", "SubspaceMixture"], n_jobs=2).n_compiled  # doctest: +SKIP
    251
    """
    begun = time.perf_counter()
    if config.DISABLE_JIT:
        raise KernelsNotSavedError("Nothing can be compiled while the environment variable NUMBA_DISABLE_JIT is set.")
    cases = [list(cases_of(name, only_defaults)) for name in known_names(estimators)]
    # One process reports each fit. Each of several processes has one estimator, whose fits need the same kernels.
    groups = [[case] for of_one in cases for case in of_one] if n_jobs in (None, 1) else cases
    n_done, n_all = 0, sum(map(len, groups))
    whole, warning = _Tally(set(), set(), set(), set(), None, None), None
    patience, notice.patience = notice.patience, float("inf")  # no log message is needed
    try:
        runs = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(delayed(_run)(group) for group in groups)
        for what, n_cases, tally in runs:
            if tally.failure is not None:
                raise KernelsNotSavedError(tally.failure)
            for kernels, more in zip(whole[:4], tally[:4], strict=True):
                kernels |= more
            warning = warning or tally.warning
            n_done += n_cases
            if report is not None:
                report(what, n_done, n_all)
    finally:
        notice.patience = patience
    if warning is not None:  # no warnings about fits with few rows, also in processes
        warnings.warn(warning, RuntimeWarning, stacklevel=2)
    return CompiledKernels(
        len(whole.compiled),
        len(whole.found - whole.compiled),
        tuple(sorted(whole.roots)),
        sum(path.stat().st_size for folder in whole.folders for path in Path(folder).glob("*.nb[ic]")),
        time.perf_counter() - begun,
    )


class _Tally(NamedTuple):
    compiled: set[str]
    found: set[str]
    roots: set[str]
    folders: set[str]
    failure: str | None
    warning: str | None


def known_names(names: Iterable[str] | None) -> list[str]:
    """Names of the classes in their exact spelling; None gives all estimators."""
    known = {name.lower(): name for name in ESTIMATORS}
    names = list(ESTIMATORS if names is None else names)
    for name in names:
        if name.lower() not in known:
            raise ValueError(f"Unknown estimator {name!r}: known estimators are {', '.join(ESTIMATORS)}.")
    return list(dict.fromkeys(known[name.lower()] for name in names))


def _run(cases: list[Case]) -> tuple[str, int, _Tally]:
    """Run cases in this process, and return the kernels that they compiled and loaded."""
    compiled, found = _kernels("saved"), _kernels("loaded")
    for case in cases:
        case.run()
    places = [cache.place for cache in caches if cache.place is not None and (cache.saved or cache.loaded)]
    tally = _Tally(
        _kernels("saved") - compiled,
        _kernels("loaded") - found,
        {str(place.root) for place in places},
        {place.cache_path for place in places},
        next((cache.failure for cache in caches if cache.failure), None),
        warned[0] if warned else None,
    )
    return cases[0].estimator if len(cases) > 1 else str(cases[0]), len(cases), tally


def _kernels(what: str) -> set[str]:
    """Names and types of the kernels that were "saved" or "loaded"."""
    return {f"{cache.name}{types}" for cache in caches for types in getattr(cache, what)}
