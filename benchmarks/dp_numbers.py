"""Dirichlet process mixtures of Gaussians after a given time, compared with the two mixtures of scikit-learn.

The 100,000 training rows of 10 and of 128 columns are from 30 overlapping Gaussians (see `_planted_gaussians.py`);
10,000 other rows are held out. `BayesianGaussianMixture` has 100 components and a Dirichlet process prior;
`GaussianMixture` has the true number. Each fit is followed from its first second to the last: its state is scored after
passes that are at least a tenth of the time apart. The table has the last state that was reached by each time. Times
are processor seconds of `fit` on one core, with the initialisation and without scoring; kernels are compiled. The
mixtures of scikit-learn continue after their tolerance is reached; a column shows when a fit with default settings
would end. `DPMixture` has default settings; after its end the result stays as it is.

    python -m benchmarks.dp_numbers --write
    python -m benchmarks.dp_numbers --peers

The second command measures scikit-learn and adds what is missing to `dp_numbers.jsonl`, which the first one reads.
"""

from __future__ import annotations

import argparse
import time
import warnings
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.metrics import normalized_mutual_info_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from threadpoolctl import threadpool_limits

from benchmarks import _stored
from benchmarks._planted_gaussians import N_COMPONENTS, SHAPES, PlantedGaussians
from benchmarks._results import add_write, begin_table, finish, show, title

TIMES = (1, 3, 10, 30, 100)
N_TRAIN, N_HELD_OUT = 100_000, 10_000
STORED = Path(__file__).with_suffix(".jsonl")
_SPACING = 1.1  # smallest ratio between the times of two scores
_OURS, _REFERENCE = "DPMixture", "GaussianMixture from the true parameters"
PEERS = {
    "BayesianGaussianMixture, 100 components": (
        BayesianGaussianMixture,
        {"n_components": 100, "weight_concentration_prior_type": "dirichlet_process"},
    ),
    "GaussianMixture, 30 components": (GaussianMixture, {"n_components": N_COMPONENTS}),
}


class Ended(Exception):
    """The time of a followed fit is over."""


class Follower:
    """Scores of a running fit by seconds of its processor time; the clock stands still while a state is scored."""

    def __init__(self, X, y):
        self.X, self.y = X, y
        self.curve = []  # seconds, nats per row, normalised mutual information
        self.spent = 0.0

    def start(self):
        self.resumed = time.process_time()
        return self

    def pause(self):
        self.spent += time.process_time() - self.resumed

    def is_due(self):
        return not self.curve or self.spent >= _SPACING * self.curve[-1][0]

    def score(self, mixture):
        nats = float(np.mean(mixture.score_samples(self.X)))
        agreement = float(normalized_mutual_info_score(self.y, mixture.predict(self.X)))
        self.curve.append((round(self.spent, 3), round(nats, 4), round(agreement, 4)))


# DPMixture


class Following:
    """Callback that scores a fit of `DPMixture`."""

    def __init__(self, follower):
        self.follower = follower

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def is_due(self, context):
        """Stop the clock; `fit` calls this before it makes the estimator that a callback receives."""
        self.follower.pause()
        return self.follower.is_due()

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        if context.task_name != "pass":
            return False
        if fitted_estimator is not None:
            self.follower.score(fitted_estimator)
        self.follower.start()
        return False


def measure_ours(train, held_out, seed):
    from skmanifold import DPMixture

    warm_up = train[:3000]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        short = DPMixture("gaussian", max_iter=6, random_state=0).fit(warm_up)
        short.score_samples(warm_up)
        short.predict(warm_up)
    follower = Follower(*held_out)
    mixture = DPMixture("gaussian", random_state=seed).set_callbacks(Following(follower))
    follower.start()
    mixture.fit(train)
    follower.pause()
    follower.score(mixture)
    return {"curve": follower.curve, "components": len(mixture.component_clusters_), "default_end": follower.spent}


# scikit-learn


def measure_peer(name, train, held_out, seed, seconds):
    """Follow EM or variational Bayes; hooks are called at the ends of the initialisation and of each M step."""
    base, settings = PEERS[name]
    follower = Follower(*held_out)

    class Followed(base):
        def _initialize(self, *args, **kwargs):
            super()._initialize(*args, **kwargs)
            after_pass(self)

        def _m_step(self, *args, **kwargs):
            super()._m_step(*args, **kwargs)
            after_pass(self)

        def _compute_lower_bound(self, *args, **kwargs):
            bounds.append((super()._compute_lower_bound(*args, **kwargs), follower.spent))
            return bounds[-1][0]

    def after_pass(mixture):
        follower.pause()
        if follower.is_due() or follower.spent > seconds:
            follower.score(mixture)
        if follower.spent > seconds:
            raise Ended
        follower.start()

    defaults, bounds = base().get_params(), []
    mixture = Followed(**settings, tol=0.0, max_iter=1_000_000, random_state=seed)
    follower.start()
    with suppress(Ended):
        mixture.fit(train)
    steps = np.abs(np.diff([bound for bound, _ in bounds]))
    converged = np.append(np.flatnonzero(steps < defaults["tol"]) + 1, defaults["max_iter"] - 1)[0]
    return {
        "curve": follower.curve,
        "components": len(np.unique(mixture.predict(train))),
        "default_end": bounds[converged][1] if converged < len(bounds) else None,
        "passes": len(bounds),
    }


def measure_reference(planted, train, held_out):
    """EM from the true parameters: what maximum likelihood reaches without errors of initialisation."""
    precisions = np.linalg.inv(planted.factors @ planted.factors.transpose(0, 2, 1))
    starts = {"weights_init": planted.weights, "means_init": planted.means, "precisions_init": precisions}
    mixture = GaussianMixture(N_COMPONENTS, init_params="random_from_data", random_state=0, **starts).fit(train)
    follower = Follower(*held_out)
    follower.score(mixture)
    return {"curve": follower.curve}


def measure_peers(options):
    """Measure all fits that the file does not have yet."""
    done = {(run["columns"], run["method"], run["seed"]) for run in _stored.read(options.stored)[1]}
    for seed, n_features in product(options.seeds, options.columns):
        planted, train, held_out = data(n_features)
        for name in (_REFERENCE, *PEERS):
            if (n_features, name, seed) in done or (name == _REFERENCE and seed != options.seeds[0]):
                continue
            if name == _REFERENCE:
                found = measure_reference(planted, train, held_out)
            else:
                found = measure_peer(name, train, held_out, seed, options.seconds)
            run = {"columns": n_features, "method": name, "seed": seed, **found}
            print(run, flush=True)
            _stored.append(options.stored, run)


# Tables


def data(n_features):
    planted = PlantedGaussians(n_features)
    return planted, planted.sample(N_TRAIN)[0], planted.sample(N_HELD_OUT)


def at(curve, seconds, column):
    """A value of the last state by this time; NaN if there was none."""
    return next((state[column] for state in reversed(curve) if state[0] <= seconds), np.nan)


def spread(values, digits):
    values = [value for value in values if value is not None and np.isfinite(value)]
    if not values:
        return "-"
    low, middle, high = (f"{value:.{digits}f}" for value in (min(values), np.median(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def print_tables(n_features, runs):
    """Scores by seconds, and how the fits end."""
    references = [run for run in runs if run["method"] == _REFERENCE]
    runs = [run for run in runs if run["method"] != _REFERENCE]
    planted, _, (X, y) = data(n_features)
    truth = Follower(X, y)
    truth.score(planted)
    title(f"{N_TRAIN:,} rows x {n_features} columns")
    _, nats, agreement = truth.curve[0]
    show(f"True model: {nats:.3f} nats per held-out row, normalised mutual information {agreement:.3f}.")
    for run in references:
        _, nats, agreement = run["curve"][0]
        show(f"`GaussianMixture` that starts at the true parameters: {nats:.3f} and {agreement:.3f}.")
    show()
    methods = list(dict.fromkeys(run["method"] for run in runs))
    of_method = {name: [run for run in runs if run["method"] == name] for name in methods}
    for column, what in enumerate(("nats per held-out row", "normalised mutual information"), start=1):
        lines = []
        for name, own in of_method.items():
            cells = [spread([at(run["curve"], seconds, column) for run in own], 3) for seconds in TIMES]
            lines.append((name, *cells))
        begin_table((what, *(f"{seconds} s" for seconds in TIMES)), lines)
        show()
    lines = []
    for name, own in of_method.items():
        sizes = spread([run["components"] for run in own], 0)
        first, last = (spread([run["curve"][i][0] for run in own], 1) for i in (0, -1))
        ended = [run["default_end"] for run in own]
        whole = spread(ended, 1) if None not in ended else f"more than {last}"
        lines.append((name, sizes, first, whole))
    begin_table(("method", "components with rows", "first state, seconds", "default fit, seconds"), lines)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", type=int, nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--seconds", type=float, default=TIMES[-1], help="with --peers: length of a fit")
    parser.add_argument("--peers", action="store_true", help="measure scikit-learn, and write its file")
    parser.add_argument("--stored", type=Path, default=STORED, help="file of the figures of scikit-learn")
    add_write(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        if options.peers:
            measure_peers(options)
        source, stored = _stored.read(options.stored)
        for n_features in options.columns:
            runs = [run for run in stored if run["columns"] == n_features]
            if not options.peers:
                _, train, held_out = data(n_features)
                ours = [measure_ours(train, held_out, seed) for seed in options.seeds]
                runs = [{"method": _OURS, **run} for run in ours] + runs
            print_tables(n_features, runs)
    finish(options, notes=f"Medians (ranges) over seeds, processor seconds. {source}")
