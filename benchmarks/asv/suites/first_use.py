"""The import, and the first fit with a warm cache, in new processes."""

from __future__ import annotations

from pathlib import Path


class Import:
    """Each in a new process."""

    def timeraw_scikit_learn_and_numba(self):
        return "import numba, sklearn.base"

    def timeraw_skmanifold(self):
        return "import skmanifold", "import numba, sklearn.base"

    def timeraw_one_estimator(self):
        return "from skmanifold import StochasticLDA", "import numba, sklearn.base"


class FirstFit:
    """Most of the time is spent reading machine code."""

    params = ("StochasticLDA", "DPCategoricalMixture", "SubspaceMixture")
    param_names = ("estimator",)

    def setup(self, name):
        from benchmarks.first_fit import make_case

        estimator, arguments = make_case(name)
        estimator.fit(*arguments)  # compiles on first use

    def timeraw_warm(self, name):
        root = str(Path(__file__).parents[3])
        find = f"import sys; sys.path.insert(0, {root!r}); from benchmarks.first_fit import make_case"
        return "estimator.fit(*arguments)", f"{find}; estimator, arguments = make_case({name!r})"
