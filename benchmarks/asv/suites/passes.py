"""Cost of fits: nanoseconds per row or token and pass, a whole fit of toy data, and memory."""

from __future__ import annotations

from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

import skmanifold
from benchmarks.families_held_out import seconds_a_pass
from benchmarks.first_fit import CASES, counts, make_case

_SETTINGS = {"VonMisesFisherMixture": {"tol": 0.0}, "SubspaceMixture": {"n_init": 1}}  # so that all passes run


class Passes:
    """A pass as the difference between a long and a short fit, in which set-up and summaries cancel."""

    params = tuple(name for name in CASES if not name.endswith(("Classifier", "Regressor", "Imputer")))  # have another
    param_names = ("estimator",)
    n_rows, n_passes = 2000, 10
    unit = "ns"

    def setup(self, name):
        settings, data, _ = CASES[name]
        self.make = partial(getattr(skmanifold, name), **{**settings, **_SETTINGS.get(name, {})})
        self.X = data(self.n_rows)
        self.n_units = self.X.sum() if data is counts else self.n_rows
        self.make(max_iter=3, random_state=0).fit(self.X[:100])  # load the machine code

    def track_ns_a_row_or_token(self, name):
        with threadpool_limits(1):
            found = [seconds_a_pass(self.make, self.X, self.n_passes)[1] for _ in range(3)]
        return 1e9 * float(np.median(found)) / self.n_units

    def peakmem_fit(self, name):
        self.make(max_iter=5, random_state=0).fit(self.X)


class Fit:
    """The fit of toy data once the machine code is loaded."""

    params = tuple(CASES)
    param_names = ("estimator",)

    def setup(self, name):
        self.estimator, self.arguments = make_case(name)
        self.estimator.fit(*self.arguments)

    def time_fit(self, name):
        self.estimator.fit(*self.arguments)

    def time_predict_or_transform(self, name):
        apply = getattr(self.estimator, "predict", None) or self.estimator.transform
        apply(self.arguments[0])
