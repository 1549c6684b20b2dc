"""Mixtures of subspaces of St. Thomas et al. (2014): principal components for the segmentation of motions.

Hopkins 155, part A: 80 sequences of tracked points, 62 with two motions and 18 with three. Points of a rigid motion lie
near an affine subspace of at most three dimensions. `SubspaceMixture` gets the true number of motions, and principal
components of the 2F coordinates. Their number is given by a rule, the same for all sequences: a number that was chosen
by hand, after the errors were known; all 2F columns; four per motion; the number of singular values above the threshold
of Gavish and Donoho (2014); or the best density of all 2F columns, which is the product of that of the principal
components and a normal density of the residuals, with BIC's penalty or for held-out points.

Other rules use the mixtures for all numbers q from 2 to that threshold, with different seeds. "nearest to the others"
chooses the q whose partition has the least mean variation of information to those of all q. "average" is the partition
with the least mean variation of information to them: the Bayes estimate, if all q have the same probability. It is also
computed from six of these q, and used as the initial partition of a mixture in all 2F columns.

For rules with a single fit the log density, minus BIC's penalty, is compared with that of a chain that starts from the
true partition. A sequence with more than 2% of errors is a failure of the search if the chain from the truth has the
larger density, and of the model otherwise. The last table has the number of motions if it is inferred: of five
components with a weight prior of 0.01, those with at least 2% of the points are counted.

The paper has no experiment with motions. The question: is an error as low as with the best number of principal
components by hand possible without this choice?
"""

from __future__ import annotations

from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._partitions import agreement
from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from benchmarks.subspaces_motion import load_motions
from skmanifold import SubspaceMixture
from skmanifold.metrics import expected_variation_of_information, point_partition

NEEDS_DATA = True
BY_HAND = (6, 8, 10, 12, 20)
SWEEPS = 40
MAX_DIMENSION = 12  # with all columns
FAILED = 0.02  # share of errors
MOST_MOTIONS, SMALL = 5, 0.02  # components, and the share of points of those that count
GROUPS = ("two motions", "three motions", "all")
N_SEEDS = 5


def cases(quick):
    """Settings of the runs."""
    return [{"seed": seed, "n_sequences": 4 if quick else 80} for seed in range(1 if quick else N_SEEDS)]


class Sequence:
    """Principal components of a sequence, and mixtures fitted to them."""

    def __init__(self, X, y, seed):
        self.X = X - X.mean(axis=0)
        self.y = y
        self.n_motions = int(y.max()) + 1
        self.seed = seed
        left, values, self.axes = np.linalg.svd(self.X, full_matrices=False)
        self.scores = left * values
        self.values = values
        self.fits = {}

    @property
    def most(self):
        """The number of singular values above the threshold of Gavish and Donoho, at least 2."""
        ratio = min(self.X.shape) / max(self.X.shape)
        threshold = (0.56 * ratio**3 - 0.95 * ratio**2 + 1.82 * ratio + 1.43) * np.median(self.values)
        return max(2, int(np.sum(self.values > threshold)))

    def columns(self, q):
        """The first q principal components, or all columns of the data."""
        return self.X if q is None else self.scores[:, :q]

    def make(self, q, n_components=None, **given):
        """A mixture for q principal components."""
        most, seed = MAX_DIMENSION if q is None else None, 1000 * self.seed + (q or 0)
        settings = {"init": "spectral", "n_init": 1, "max_dimension": most, **given}
        return SubspaceMixture(n_components or self.n_motions, max_iter=SWEEPS, random_state=seed, **settings)

    def fit(self, q):
        """The mixture of q principal components from its own initial partition."""
        if q not in self.fits:
            self.fits[q] = self.make(q).fit(self.columns(q))
        return self.fits[q]

    def error(self, labels):
        """Share of points in a wrong motion."""
        return 1.0 - agreement(labels, self.y)

    def log_evidence(self, model):
        """Mean log likelihood of the second half of the sweeps, minus BIC's penalty for the subspaces."""
        q, d = model.n_features_in_, model.dimensions_
        n_parameters = np.sum(d * q - d * (d - 1) / 2 + q + 1)
        return model.log_density_trace_[0, SWEEPS // 2 :].mean() - 0.5 * np.log(len(self.X)) * n_parameters

    def log_residuals(self, q, rows=None, train=None):
        """Log density of what q principal components leave, with its own variance; of rows, after a fit to others."""
        n, m = self.X.shape
        squares = np.sum(self.X**2, axis=1) - np.sum(self.scores[:, :q] ** 2, axis=1)
        n_left = min(n, m) - q
        variance = max(squares[slice(None) if train is None else train].mean() / n_left, 1e-12)
        squares = squares if rows is None else squares[rows]
        return -0.5 * np.sum(n_left * np.log(2.0 * np.pi * variance) + squares / variance)

    def by_density(self, q):
        """Log density of all columns with BIC's penalty."""
        return self.log_evidence(self.fit(q)) + self.log_residuals(q)

    def by_held_out(self, q):
        """Log density of the second half of the points, in random order, after a fit to the first half."""
        order = np.random.default_rng(self.seed).permutation(len(self.X))
        train, test = np.split(order, [len(order) // 2])
        model = self.make(q).fit(self.scores[train, :q])
        return model.score_samples(self.scores[test, :q]).sum() + self.log_residuals(q, test, train)

    def best(self, score):
        """The number of principal components with the largest score."""
        return max(range(2, self.most + 1), key=score)

    def partitions(self):
        """Partitions by all numbers of principal components."""
        return np.array([self.fit(q).labels_ for q in range(2, self.most + 1)])

    def nearest_to_others(self):
        """The number of principal components whose partition is nearest to the others."""
        found = self.partitions()
        return 2 + int(np.argmin([expected_variation_of_information(each, found) for each in found]))

    def average(self, n_numbers=None):
        """The partition that is nearest to those by all numbers of principal components, or by some of them."""
        found = self.partitions()
        some = slice(None)
        if n_numbers is not None:
            some = np.unique(np.linspace(0, len(found) - 1, n_numbers).astype(int))
        return point_partition(found[some], max_components=self.n_motions)

    def from_truth(self, q):
        """The mixture of q principal components from the true partition."""
        return self.make(q, init=self.y).fit(self.columns(q))

    def count(self):
        """Number of motions of a mixture of more components, and its labels."""
        labels = self.make(10, MOST_MOTIONS, weight_prior=0.01).fit_predict(self.columns(10))
        return int(np.sum(np.bincount(labels) >= SMALL * len(labels))), labels


GIVEN = (*(f"{q}, by hand" for q in BY_HAND), "all columns")
CHOICES = {  # the number of principal components of a sequence
    **{rule: partial(lambda sequence, q: q, q=q) for rule, q in zip(GIVEN, (*BY_HAND, None), strict=True)},
    "four per motion": lambda sequence: 4 * sequence.n_motions,
    "above the threshold": lambda sequence: sequence.most,
    "best density, BIC": lambda sequence: sequence.best(sequence.by_density),
    "best held-out density": lambda sequence: sequence.best(sequence.by_held_out),
    "nearest to the others": Sequence.nearest_to_others,
}
AVERAGE, AVERAGE_OF_SIX, FROM_AVERAGE = "average", "average of six numbers", "all columns, from the average"
TEN_STARTS, NUMBER = "10, by hand, ten initial partitions", "number of motions inferred"
RULES = (*CHOICES, AVERAGE, AVERAGE_OF_SIX, FROM_AVERAGE, TEN_STARTS)


def measured(sequence):
    """For each rule: error, number of components, whether the model fails, and the error from the true partition."""
    found, truths = {}, {}
    for rule, choose in CHOICES.items():
        q = choose(sequence)
        model = sequence.fit(q)
        error, prefers, of_truth = sequence.error(model.labels_), 0.0, np.nan
        is_given = rule in GIVEN
        if q not in truths and (is_given or error > FAILED):
            truths[q] = sequence.from_truth(q)
        if error > FAILED:
            prefers = float(sequence.log_evidence(model) > sequence.log_evidence(truths[q]))
        if is_given:
            of_truth = sequence.error(truths[q].labels_)
        found[rule] = error, sequence.X.shape[1] if q is None else q, prefers, of_truth
    average = sequence.average()
    others = {
        AVERAGE: average,
        AVERAGE_OF_SIX: sequence.average(6),
        FROM_AVERAGE: sequence.make(None, init=average).fit_predict(sequence.X),
        TEN_STARTS: sequence.make(10, n_init=10).fit_predict(sequence.columns(10)),
    }
    for rule, labels in others.items():
        found[rule] = sequence.error(labels), np.nan, np.nan, np.nan
    n_found, labels = sequence.count()
    found[NUMBER] = sequence.error(labels), float(n_found == sequence.n_motions), np.nan, np.nan
    return found


def run(seed, n_sequences):
    """Errors of each rule for each group of sequences."""
    every = list(load_motions().values())
    chosen = np.linspace(0, len(every) - 1, n_sequences).astype(int)
    with threadpool_limits(1):
        found = [measured(Sequence(*every[i], seed)) for i in chosen]
    motions = np.array([every[i][1].max() + 1 for i in chosen])
    rows = []
    for rule in (*RULES, NUMBER):
        values = np.array([each[rule] for each in found])
        for group, own in zip(GROUPS, (motions == 2, motions == 3, motions > 0), strict=True):
            errors, numbers, prefers, of_truth = values[own].T
            rows.append(
                {
                    "rule": rule,
                    "group": group,
                    "error": 100.0 * errors.mean(),
                    "median": 100.0 * float(np.median(errors)),
                    "components": float(numbers.mean() if rule == NUMBER else np.median(numbers)),
                    "failed": int(np.sum(errors > FAILED)),
                    "by_model": float(prefers.sum()),
                    "from_truth": 100.0 * of_truth.mean(),
                }
            )
    return rows


def of(rows, rule, group, name):
    """The values of all seeds."""
    return [each[name] for each in rows if (each["rule"], each["group"]) == (rule, group)]


def show(rows):
    """Errors by rule, and why sequences fail."""
    title("Motions: mean error in %, median (range) over seeds")
    begin_table(("principal components", *GROUPS, "median number of components"))
    for rule in RULES:
        cells = [spread(of(rows, rule, group, "error"), ".2f") for group in GROUPS]
        numbers = of(rows, rule, "all", "components")
        row((rule, *cells, "" if np.isnan(numbers[0]) else f"{np.median(numbers):.0f}"))
    title(f"Sequences with errors above {100 * FAILED:.0f}%: median (range) over seeds; errors from the true partition")
    begin_table(("principal components", "sequences", "of these, failures of the model", "mean error in %"))
    for rule in CHOICES:
        failed, by_model = (spread(of(rows, rule, "all", name), ".0f") for name in ("failed", "by_model"))
        errors = of(rows, rule, "all", "from_truth") if rule in GIVEN else []
        row((rule, failed, by_model, spread(errors, ".2f") if errors else ""))
    title(f"Number of motions, at most {MOST_MOTIONS}: share of sequences with the true one, median (range) over seeds")
    begin_table(GROUPS)
    row([spread(of(rows, NUMBER, group, "components"), ".2f") for group in GROUPS])
