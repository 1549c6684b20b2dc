"""Dirichlet process mixtures of real tables: held-out log density, compared with truncation and with sizes by BIC.

Five random 80/20 splits of each table, the same for all methods. Columns of numbers are standardised by the training
part (digits: after 20 principal components of it). Columns of heart with few distinct values are numbers too, so that a
narrow component can have any density there; scikit-learn adds 1e-6 to the variances. Categorical tables are those of
`dp_tables.py`: missing cells stay missing, and all methods know all categories of the table. "By BIC" is the smallest
BIC among 1 to 15 components, and for categorical tables among 1, 2, ... until three sizes in a row are worse.
`BayesianGaussianMixture` has 30 components, a Dirichlet process prior and up to 1,000 iterations. All other settings
are the defaults. A method has ten minutes of processor time for a table.

    python -m benchmarks.dp_held_out --write
    python -m benchmarks.dp_held_out --peers

The second command measures the other libraries and adds what is missing to `dp_held_out.jsonl`, which the first one
reads.
"""

from __future__ import annotations

import argparse
import gzip
import signal
import time
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks import _stored
from benchmarks._corpora import data_folder
from benchmarks._results import add_write, begin_table, finish, title
from benchmarks.dp_tables import TABLES as CATEGORICAL
from benchmarks.dp_tables import fit_dp, fit_latent_classes
from benchmarks.dp_tables import load as load_codes

SPLITS = range(5)
LARGEST, TRUNCATION = 15, 30
STORED = Path(__file__).with_suffix(".jsonl")

# Tables


def from_file(name):
    """The columns of a file of numbers without the last, the class."""
    with gzip.open(data_folder() / name, "rt") as lines:
        return np.array([line.rstrip("\n").split(",")[:-1] for line in lines][1:], float)


NUMERIC = {
    "wine": lambda: load_wine().data,
    "iris": lambda: load_iris().data,
    "breast cancer": lambda: load_breast_cancer().data,
    "digits PCA(20)": lambda: load_digits().data,
    "vehicle": partial(from_file, "vehicle_silhouettes.csv.gz"),
    "heart": partial(from_file, "heart_statlog.csv.gz"),
}
TABLES = (*NUMERIC, *CATEGORICAL)


def splits(table):
    """Training and held-out rows of each split; for categorical tables also the numbers of categories."""
    X = NUMERIC[table]() if table in NUMERIC else load_codes(table)[0]
    for seed in SPLITS:
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = (X[rows] for rows in np.split(order, [int(0.8 * len(X))]))
        if table in NUMERIC:
            steps = [PCA(20, random_state=0)] if table == "digits PCA(20)" else []
            scale = make_pipeline(*steps, StandardScaler()).fit(train)
            yield scale.transform(train), scale.transform(test)
        else:
            yield train, test, (np.nanmax(X, axis=0) + 1).astype(int)


# Methods: held-out nats per row and the number of components


def least_bic(models, train, test):
    best = min((model.fit(train) for model in models), key=lambda model: model.bic(train))
    return best.score(test), best.n_components


def gaussian_by_bic(forms, train, test, seed):
    sizes = range(1, LARGEST + 1)
    models = (GaussianMixture(K, covariance_type=form, random_state=seed) for form in forms for K in sizes)
    return least_bic(models, train, test)


def latent_profiles(train, test, seed):
    from stepmix import StepMix

    settings = {"measurement": "continuous", "random_state": seed, "verbose": 0, "progress_bar": 0}
    return least_bic((StepMix(K, **settings) for K in range(1, LARGEST + 1)), train, test)


def variational(form, train, test, seed):
    prior = "dirichlet_process"
    settings = {"covariance_type": form, "weight_concentration_prior_type": prior, "max_iter": 1000}
    mixture = BayesianGaussianMixture(n_components=TRUNCATION, random_state=seed, **settings).fit(train)
    return mixture.score(test), len(np.unique(mixture.predict(train)))


def latent_classes(train, test, n_categories, seed):
    score, _, size = fit_latent_classes(train, n_categories, seed)
    return score(test), size


def dp_gaussians(form, train, test, seed):
    from skmanifold import DPMixture
    from skmanifold.emissions import Gaussian

    emission = "gaussian" if form == "full" else Gaussian(form)
    mixture = DPMixture(emission, random_state=seed).fit(train)
    return mixture.score(test), len(mixture.component_clusters_)


def dp_categories(train, test, n_categories, seed):
    score, _, size = fit_dp(train, n_categories, seed)
    return score(test), size


FORMS = ("full", "tied", "diag")
_BIC, _VARIATIONAL, _STEPMIX = "GaussianMixture by BIC", "BayesianGaussianMixture", "StepMix by BIC"
COMPARED = (_BIC, _VARIATIONAL, _STEPMIX)  # whose differences to ours have a table
OURS = {
    "numeric": {"DPMixture": partial(dp_gaussians, "full"), "DPMixture, diag": partial(dp_gaussians, "diag")},
    "categorical": {"DPMixture": dp_categories},
}
PEERS = {
    "numeric": {
        _BIC: partial(gaussian_by_bic, ("full",)),
        **{f"{_BIC}, {form}": partial(gaussian_by_bic, (form,)) for form in FORMS[1:]},
        f"{_BIC}, best form": partial(gaussian_by_bic, (*FORMS, "spherical")),
        _VARIATIONAL: partial(variational, "full"),
        **{f"{_VARIATIONAL}, {form}": partial(variational, form) for form in FORMS[1:]},
        _STEPMIX: latent_profiles,
    },
    "categorical": {_STEPMIX: latent_classes},
}


class OutOfTime(Exception):
    """A method has used its processor time."""


@contextmanager
def time_limit(seconds):
    """Raise OutOfTime after so many seconds of processor time."""

    def stop(number, frame):
        raise OutOfTime

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    except OutOfTime:
        pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, previous)


def measure(fit, table, minutes):
    """Scores, numbers of components and processor seconds of the splits that end in time."""
    found = {"scores": [], "components": [], "seconds": []}
    if fit in [fit for own in OURS.values() for fit in own.values()]:
        fit(*next(splits(table)), 0)  # compile the kernels
    with time_limit(60 * minutes):
        for seed, data in enumerate(splits(table)):
            start = time.process_time()
            score, size = fit(*data, seed)
            found["seconds"].append(round(time.process_time() - start, 3))
            found["scores"].append(round(float(score), 5))
            found["components"].append(int(size))
    return found


def measure_all(methods, tables, minutes, done=()):
    """Results of the methods of each table, without those that are done."""
    for table in tables:
        for name, fit in methods["numeric" if table in NUMERIC else "categorical"].items():
            if (table, name) not in done:
                run = {"table": table, "method": name, "minutes": minutes, **measure(fit, table, minutes)}
                print(run, flush=True)
                yield run


# Tables of results


def spread(values, digits):
    return f"{np.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def cells_of(of):
    if len(of["scores"]) < len(SPLITS):
        done = f"{len(of['scores'])} of {len(SPLITS)} splits"
        return f"not finished after {of['minutes']:g} minutes ({done})", "", ""
    return spread(of["scores"], 3), f"{np.median(of['components']):.0f}", spread(of["seconds"], 2)


def difference(of, other):
    """Mean paired difference of the splits, its standard error, and what it shows."""
    gaps = np.subtract(of["scores"], other["scores"])
    mean, error = gaps.mean(), gaps.std(ddof=1) / np.sqrt(len(gaps))
    verdict = "ahead" if mean > error else "behind" if mean < -error else "within"
    return f"{mean:+.3f} ± {error:.3f}", verdict


def print_tables(tables, runs):
    found = {table: {run["method"]: run for run in runs if run["table"] == table} for table in tables}
    title("Held-out log density, nats per row")
    lines = [(table, name, *cells_of(of)) for table, own in found.items() for name, of in own.items()]
    begin_table(("table", "method", "nats per row", "components", "fit, processor seconds"), lines)
    ours = next(iter(OURS["numeric"]))
    title(f"Difference of {ours} to other libraries, mean of the splits ± its standard error")
    lines = []
    for table, own in found.items():
        if ours not in own:
            continue
        cells, verdicts = [], []
        for name in COMPARED:
            of = own.get(name)
            if of is None or len(of["scores"]) < len(SPLITS):
                cells.append("" if of is None else "not finished")
                continue
            gap, verdict = difference(own[ours], of)
            cells.append(f"{gap}, {verdict}")
            verdicts.append(verdict)
        overall = next((verdict for verdict in ("behind", "within", "ahead") if verdict in verdicts), "")
        lines.append((table, *cells, overall))
    begin_table(("table", *COMPARED, "overall"), lines)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--minutes", type=float, default=10.0, help="limit for a method and a table")
    parser.add_argument("--peers", action="store_true", help="measure the other libraries, and write their file")
    parser.add_argument("--stored", type=Path, default=STORED, help="file of the figures of other libraries")
    add_write(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        _, stored = _stored.read(options.stored)
        if options.peers:
            done = {(run["table"], run["method"]) for run in stored}
            for run in measure_all(PEERS, options.tables, options.minutes, done):
                _stored.append(options.stored, run, "stepmix")
        ours = [] if options.peers else list(measure_all(OURS, options.tables, options.minutes))
    source, stored = _stored.read(options.stored)
    print_tables(options.tables, ours + stored)
    finish(options, "stepmix", notes=f"Medians (ranges) of five random 80/20 splits, one core. {source}")
