"""Time of the import and of the first calls of each estimator.

Every figure is of a new process. The import is what `import skmanifold` adds to scikit-learn and numba; it must not
compile anything or use a cached file. A first fit is of toy data with default settings: first with an empty
NUMBA_CACHE_DIR, where everything is compiled, then with the cache that this left. Afterwards the same process calls
each method of inference for the first time, in the order of METHODS: a method is charged for what it is the first to
compile, and all of them together have one limit. Processor time is shown with wall time, because other processes change
the latter. Compiled functions are listed with their seconds, without those of the functions that they call, and with
the number of signatures if there are several.

    python -m benchmarks.first_fit
    python -m benchmarks.first_fit --only StochasticLDA --kernels 20
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks._results import add_write, begin_table, finish, show, title

MOST_SECONDS = {"import": 0.2, "cold fit": 10.0, "warm fit": 1.0, "cold inference": 3.0, "warm inference": 0.5}
METHODS = ("transform", "predict", "predict_proba", "score", "score_samples", "perplexity")


class Clock:
    """Wall and processor time since it was made."""

    def __init__(self):
        self._begun = time.perf_counter(), time.process_time()

    def read(self):
        return {"wall": time.perf_counter() - self._begun[0], "cpu": time.process_time() - self._begun[1]}


# Toy data


def counts(n_rows=100):
    from skmanifold.datasets import make_lda_corpus

    return make_lda_corpus(n_rows, 200, 5, mean_length=50, random_state=0).data


def directions(n_rows=100):
    rows = np.random.default_rng(0).normal(size=(n_rows, 20)) + 3 * np.eye(20)[np.arange(n_rows) % 4]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def codes(n_rows=100):
    return np.random.default_rng(0).integers(0, 3, (n_rows, 8)).astype(float)


def points(n_rows=100):
    return np.random.default_rng(0).normal(size=(n_rows, 5)) * [5, 5, 1, 1, 1]


CASES = {  # settings, data, and whether there are classes
    "StochasticLDA": ({"n_components": 5}, counts, False),
    "HDPAdmixture": ({"init": 5}, counts, False),
    "SphericalAdmixture": ({"n_components": 4}, directions, False),
    "OrthogonalSphericalAdmixture": ({"n_components": 4}, directions, False),
    "ExponentialFamilyAdmixture": ({"n_components": 5}, counts, False),
    "DPCategoricalMixture": ({"emission": "categorical"}, codes, False),
    "DPMixture": ({}, points, False),
    "ExponentialFamilyMixture": ({"n_components": 3}, points, False),
    "CrossCat": ({}, points, False),
    "VonMisesFisherMixture": ({"n_components": 4}, directions, False),
    "SubspaceMixture": ({"n_components": 2}, points, False),
    "SubspaceClassifier": ({}, points, True),
    "MixtureImputer": ({}, points, False),
    "MixtureClassifier": ({}, points, True),
    "MixtureRegressor": ({}, points, True),
}


def make_case(name):
    """An estimator with default settings, and the arguments of its `fit`."""
    import skmanifold

    settings, data, has_classes = CASES[name]
    estimator = getattr(skmanifold, name)(**settings)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    X = data()
    return estimator, (X, np.arange(X.shape[0]) % 2) if has_classes else (X,)


# In the fresh process


def watch_compiler():
    """A list of the events at which numba begins and ends to compile a function, with processor times."""
    from numba.core import event

    class Listener(event.Listener):
        def __init__(self):
            self.seen = []

        def on_start(self, event):
            self.seen.append((time.process_time(), event))

        on_end = on_start

    listener = Listener()
    event.register("numba:compile", listener)
    return listener.seen


def compiled_functions(seen):
    """For each function how often it was compiled, and its seconds without those of functions that it calls."""
    compiled, stack = {}, []
    for now, event in seen:
        if event.is_start:
            stack.append([now, 0.0])
        else:
            begun, of_callees = stack.pop()
            function = event.data["dispatcher"].py_func
            name = f"{function.__module__.removeprefix('skmanifold.')}.{function.__qualname__}"
            n_signatures, seconds = compiled.get(name, (0, 0.0))
            compiled[name] = n_signatures + 1, seconds + now - begun - of_callees
            if stack:
                stack[-1][1] += now - begun
    return compiled


def import_alone():
    """What the import adds, and what it compiled."""
    clock = Clock()
    import numba
    import sklearn.base

    found = {"bare": clock.read()}
    before, seen = set(sys.modules), watch_compiler()
    clock = Clock()
    import skmanifold

    found["import"] = clock.read()
    found["compiled"] = sorted(compiled_functions(seen))
    new = [name.partition(".")[0] for name in set(sys.modules) - before]
    found["modules"] = {"skmanifold": new.count("skmanifold"), "sklearn": new.count("sklearn"), "all": len(new)}
    found["versions"] = [module.__version__ for module in (numba, sklearn, skmanifold)]
    return found


def first_calls(name):
    """The estimator's own import, the first fit, the first inference, what they compiled, and a second fit."""
    import sklearn.base

    assert sklearn.base  # imported before the clock starts, as numba is
    seen = watch_compiler()
    clock = Clock()
    import skmanifold

    getattr(skmanifold, name)  # modules are imported on first use
    found = {"import": clock.read()}
    estimator, arguments = make_case(name)
    clock = Clock()
    estimator.fit(*arguments)
    found |= {"fit": clock.read(), "fit compiled": compiled_functions(seen)}

    n_seen, found["methods"], inference = len(seen), {}, Clock()
    for method in filter(partial(hasattr, estimator), METHODS):
        clock = Clock()
        getattr(estimator, method)(*arguments[: 2 if method == "score" else 1])
        found["methods"][method] = clock.read()["cpu"]
    found |= {"inference": inference.read(), "inference compiled": compiled_functions(seen[n_seen:])}
    if found["fit compiled"]:
        clock = Clock()
        estimator.fit(*arguments)
        found["second fit"] = clock.read()
    return found


# In the process that asks


def in_fresh_process(what, cache):
    """What `what` measured in a new process, and the seconds of the whole process."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    before, begun = os.times(), time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.first_fit", "--child", what]
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {**json.loads(output.splitlines()[-1]), "process": {"wall": time.perf_counter() - begun, "cpu": cpu}}


def n_files(folder):
    return sum(path.is_file() for path in Path(folder).rglob("*"))


def spread(values):
    return f"{np.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def against(seconds, kind):
    return "" if seconds <= MOST_SECONDS[kind] else f" (more than {MOST_SECONDS[kind]:g})"


def measure_import(n_repeats):
    """Show the time of the import, which must not compile anything."""
    found = []
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(n_repeats + 1):
            found.append(in_fresh_process("import", cache))
            if found[-1]["compiled"] or n_files(cache):
                raise SystemExit(f"The import compiled {found[-1]['compiled']}, {n_files(cache)} files cached.")
    found = found[1:]  # the first one reads files from the disk
    title(f"Import, {n_repeats} processes")
    begin_table(("import", "seconds of processor time", "seconds of wall time"))
    for key, name in {"bare": "scikit-learn and numba", "import": "skmanifold in addition"}.items():
        cpu, wall = ([run[key][clock] for run in found] for clock in ("cpu", "wall"))
        mark = against(np.median(cpu), "import") if key == "import" else ""
        show(f"| {name} | {spread(cpu)}{mark} | {spread(wall)} |")
    modules = found[0]["modules"]
    print(
        f"\nNothing was compiled. It imports {modules['skmanifold']} modules of skmanifold, {modules['sklearn']} more "
        f"of scikit-learn, and {modules['all']} in total.\n",
        flush=True,
    )


def measure_modules(n_modules):
    """Print the time of the import by package, and the slowest modules of skmanifold."""
    code = "import numba, sklearn.base; import skmanifold"
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-X", "importtime", "-c", code]
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        lines = subprocess.run(command, env=environment, check=True, stderr=subprocess.PIPE, text=True).stderr
    modules = []  # a module comes after those that it imports, which are one level deeper
    for line in lines.splitlines()[1:]:
        own, total, name = line.removeprefix("import time:").split("|")
        modules.append((len(name) - len(name.lstrip()), int(own) / 1e6, int(total) / 1e6, name.strip()))
    last = next(i for i, module in enumerate(modules) if module[3] == "skmanifold")
    first = next(i for i in range(last, 0, -1) if i < last and modules[i - 1][0] <= modules[last][0])
    packages, own = {}, {}
    for _, seconds, _, name in modules[first : last + 1]:
        package = name.partition(".")[0]
        packages[package] = packages.get(package, 0.0) + seconds
        if package == "skmanifold":
            own[name] = seconds
    most = sorted(packages, key=packages.get, reverse=True)[:5]
    print("Wall time by package: " + ", ".join(f"{name} {packages[name]:.3f} s" for name in most))
    for name in sorted(own, key=own.get, reverse=True)[:n_modules]:
        print(f"  {own[name]:6.3f} s  {name}")
    print(flush=True)


def row_of_fit(name, cold, warm):
    cpu = cold["fit"]["cpu"]
    cells = f"{cpu:.1f}{against(cpu, 'cold fit')}", f"{cold['fit']['wall']:.1f}", str(len(cold["fit compiled"]))
    fit, own_import, process = (
        {clock: np.median([run[key][clock] for run in warm]) for clock in ("cpu", "wall")}
        for key in ("fit", "import", "process")
    )
    cells += f"{fit['cpu']:.2f}{against(fit['cpu'], 'warm fit')}", f"{fit['wall']:.2f}", f"{own_import['cpu']:.2f}"
    return name, *cells, f"{process['cpu']:.2f}", f"{process['wall']:.2f}", f"{cold['second fit']['cpu']:.2f}"


def row_of_inference(name, cold, warm):
    cpu, again = cold["inference"]["cpu"], np.median([run["inference"]["cpu"] for run in warm])
    methods = ", ".join(f"{method} {seconds:.1f}" for method, seconds in cold["methods"].items())
    cells = f"{cpu:.1f}{against(cpu, 'cold inference')}", methods, str(len(cold["inference compiled"]))
    return name, *cells, f"{again:.2f}{against(again, 'warm inference')}"


def print_compiled(what, compiled, n_kernels):
    """Print the modules and the functions with the longest compilation."""
    of_modules = {}
    for function, (_, own) in compiled.items():
        module = function.partition(".<locals>")[0].rpartition(".")[0]
        of_modules[module] = of_modules.get(module, 0.0) + own
    most = sorted(of_modules, key=of_modules.get, reverse=True)[:n_kernels]
    print(f"\n{what}: {sum(of_modules.values()):.1f} s in the compiler for {len(compiled)} functions")
    print(f"Modules: {', '.join(f'{module} {of_modules[module]:.1f}' for module in most)}")
    for function in sorted(compiled, key=lambda name: compiled[name][1], reverse=True)[:n_kernels]:
        n_signatures, seconds = compiled[function]
        print(f"  {seconds:6.2f} s  {function}{f' ({n_signatures} signatures)' if n_signatures > 1 else ''}")


def measure_first_calls(names, n_repeats, n_kernels):
    """Show first fits and first inference with a cold and a warm cache, and the longest compilations."""
    found = {}
    for name in names:
        with tempfile.TemporaryDirectory() as cache:
            cold, *warm = found[name] = [in_fresh_process(name, cache) for _ in range(1 + n_repeats)]
        again = {function for run in warm for key in ("fit", "inference") for function in run[f"{key} compiled"]}
        if again:
            print(f"{name}: compiled again with a warm cache: {sorted(again)}", flush=True)
    title("First fit: seconds of processor time (and of wall time)")
    columns = "cold cache", "wall", "compiled functions", "warm cache", "wall", "import of the estimator"
    columns = "estimator", *columns, "whole process", "wall", "second fit"
    begin_table(columns, (row_of_fit(name, cold, warm) for name, (cold, *warm) in found.items()))
    title("First inference: seconds of processor time")
    columns = "estimator", "cold cache", "each method", "compiled functions", "warm cache"
    begin_table(columns, (row_of_inference(name, cold, warm) for name, (cold, *warm) in found.items()))
    for name, (cold, *_) in found.items():
        for key in ("fit", "inference"):
            print_compiled(f"{name}, {key}", cold[f"{key} compiled"], n_kernels)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=list(CASES), metavar="ESTIMATOR")
    parser.add_argument(
        "--repeats", type=int, default=5, help="processes for the import; half as many for calls with a warm cache"
    )
    parser.add_argument("--kernels", type=int, default=8, help="compiled functions to show for each estimator")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    add_write(parser)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(import_alone() if options.child == "import" else first_calls(options.child)))
    else:
        measure_import(options.repeats)
        measure_modules(options.kernels)
        measure_first_calls(options.only, max(1, options.repeats // 2 + 1), options.kernels)
        finish(options, notes="Medians (ranges) of new processes.")
