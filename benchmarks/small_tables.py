"""Fits of small tables with default settings, compared with scikit-learn in one process, alternately.

Each case is a table of 150 to 2,000 rows, an estimator of this package and one of scikit-learn for the same number of
components and of initialisations. All kernels are compiled and every library runs in one thread. A repeat fits both
with the same seed; the table has medians and ranges of processor seconds, and of the ratio within a repeat. Scores are
of held-out rows of the same splits: the mean log density of a row, or the accuracy. A mixture of counts has no peer
with comparable densities, and is compared with the best of many runs of EM of the same emission. The last table has
milliseconds per pass of samplers that run to the end: the difference of a long and a short fit, over that of passes.

    python -m benchmarks.small_tables --save before.json
    python -m benchmarks.small_tables --compare before.json
    python -m benchmarks.small_tables --only iris wine --repeats 3
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler, normalize
from threadpoolctl import threadpool_limits

from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold import ExponentialFamilyMixture, SubspaceClassifier, VonMisesFisherMixture
from skmanifold.samplers import EM, ESCA

TEST_SIZE = 0.2
N_SPLITS = 10
MOST_PASSES = 400  # of the long fit; the short one has half of them


class Case(NamedTuple):
    """A table with an estimator and the one it is compared with."""

    name: str  # of the table
    table: Callable[[], tuple[np.ndarray, np.ndarray]]  # rows and classes
    ours: Any  # estimators without a seed
    peer: Any
    most: float  # the largest ratio of processor seconds
    starts: tuple[int, ...] = (1, 5)  # values of `n_init`; empty if there is no such parameter
    supervised: bool = False
    reference: Any = None  # what scores are compared with, if not with those of the peer
    samplers: tuple[Any, ...] = ()  # whose passes are timed


# Tables


def standardised(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def digits_components():
    X, y = load_digits(return_X_y=True)
    return PCA(20, random_state=0).fit_transform(X), y


def digits_counts():
    return load_digits(return_X_y=True)


def digits_ink():
    X, y = load_digits(return_X_y=True)
    return (X > 7).astype(float), y


def latent_classes(n_rows=300, n_features=12, n_classes=3):
    """Rows of zeros and ones."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n_rows)
    return (rng.random((n_rows, n_features)) < rng.beta(0.5, 0.5, (n_classes, n_features))[y]).astype(float), y


def short_texts(n_rows=500, n_features=30, n_classes=4, length=25):
    """Counts of words in short documents of one topic each."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n_rows)
    topics = rng.dirichlet(np.full(n_features, 0.3), n_classes)
    return np.array([rng.multinomial(length, topics[k]) for k in y], float), y


def unit_rows(table):
    X, y = table()
    return normalize(X), y


def weighted_words(n_rows=1500, n_words=2000, n_classes=5, n_components=50):
    """Documents of mostly one topic each: tf-idf, then a truncated singular value decomposition."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n_rows)
    topics = rng.dirichlet(np.full(n_words, 0.05), n_classes)
    shares = 0.7 * np.eye(n_classes)[y] + 0.3 * rng.dirichlet(np.full(n_classes, 0.5), n_rows)
    counts = np.array([rng.multinomial(rng.integers(40, 200), words) for words in shares @ topics], float)
    weighted = TfidfTransformer(sublinear_tf=True).fit_transform(csr_array(counts))
    return TruncatedSVD(n_components, random_state=0).fit_transform(weighted), y


# Cases

LABELLED = {  # tables and their numbers of classes
    "iris": (partial(standardised, load_iris), 3),
    "wine": (partial(standardised, load_wine), 3),
    "breast cancer": (partial(standardised, load_breast_cancer), 2),
    "digits PCA(20)": (digits_components, 10),
    "digits": (digits_counts, 10),
    "tf-idf SVD(50)": (weighted_words, 5),
}


def mixture_cases():
    """Mixtures of every emission."""
    gaussian = {
        "iris": (partial(standardised, load_iris), 3),
        "wine": (partial(standardised, load_wine), 3),
        "breast cancer": (partial(standardised, load_breast_cancer), 2),
        "digits PCA(20)": (digits_components, 10),
    }
    passes = "gibbs", ESCA()
    for name, (table, K) in gaussian.items():
        ours = ExponentialFamilyMixture(K)
        yield Case(name, table, ours, GaussianMixture(K), 2.0, samplers=passes)
    counted = {
        "latent classes": (latent_classes, "bernoulli", 3),
        "digits, ink": (digits_ink, "bernoulli", 10),
        "digits, counts": (digits_counts, "poisson", 10),
        "short texts": (short_texts, "multinomial", 4),
    }
    for name, (table, emission, K) in counted.items():
        ours = ExponentialFamilyMixture(K, emission=emission)
        longest = ExponentialFamilyMixture(
            K, emission=emission, sampler=EM(tol=1e-9), n_init=10, n_chains=5, max_iter=2000
        )
        of_peer = {"full": GaussianMixture(K), "diag": GaussianMixture(K, covariance_type="diag")}
        for covariance_type, peer in of_peer.items():
            is_first = covariance_type == "full"
            label = f"{name} ({emission}; peer {covariance_type})"
            yield Case(label, table, ours, peer, 2.0, reference=longest, samplers=passes if is_first else ())


def direction_cases():
    """Mixtures of directions: both estimators read the same rows of unit length."""
    for name, (table, K) in LABELLED.items():
        longest = VonMisesFisherMixture(K, n_init=10, tol=1e-9, max_iter=1000)
        directions = partial(unit_rows, table)
        ours, peer = VonMisesFisherMixture(K), GaussianMixture(K)
        yield Case(f"{name}, directions", directions, ours, peer, 2.0, reference=longest)


def classifier_cases():
    """Classifiers of rows; some columns are constant within a class of digits, so that the peer needs shrinkage."""
    for name, (table, _) in LABELLED.items():
        peer = QuadraticDiscriminantAnalysis(reg_param=1e-3)
        yield Case(f"{name}, by class", table, SubspaceClassifier(), peer, 20.0, starts=(), supervised=True)


def all_cases():
    """The cases of all estimators."""
    yield from mixture_cases()
    yield from direction_cases()
    yield from classifier_cases()


# Measurements


def seconds_of_fit(estimator, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begun = time.process_time()
        estimator.fit(*data)
        return time.process_time() - begun


def with_settings(estimator, seed, **settings):
    """A new estimator with these settings and, if it has one, this seed."""
    if "random_state" in estimator.get_params():
        settings["random_state"] = seed
    return clone(estimator).set_params(**settings)


def data_of(case):
    X, y = case.table()
    return (X, y) if case.supervised else (X,)


def median_and_range(values):
    return {"median": float(np.median(values)), "low": float(np.min(values)), "high": float(np.max(values))}


def time_fits(case, settings, repeats):
    """Processor seconds of both, and their ratio, of interleaved repeats after one that is not counted."""
    data, ours, peer = data_of(case), [], []
    for repeat in range(-1, repeats):
        seed = max(repeat, 0)
        for estimator, seconds in ((case.ours, ours), (case.peer, peer)):
            spent = seconds_of_fit(with_settings(estimator, seed, **settings), *data)
            if repeat >= 0:
                seconds.append(spent)
    n_passes = [getattr(with_settings(case.ours, seed, **settings).fit(*data), "n_iter_", 0) for seed in range(3)]
    return {
        "ours": median_and_range(ours),
        "peer": median_and_range(peer),
        "ratio": median_and_range(np.divide(ours, peer)),
        "n_passes": float(np.median(n_passes)),
    }


def held_out_scores(case, settings):
    """Median scores of held-out rows, and the median of their differences."""
    data = data_of(case)
    splitter = StratifiedShuffleSplit if case.supervised else ShuffleSplit
    splits = splitter(N_SPLITS, test_size=TEST_SIZE, random_state=0)
    pairs = []
    for seed, (train, test) in enumerate(splits.split(*data)):
        of_split = []
        for estimator, changes in ((case.ours, settings), (case.peer, settings), (case.reference, {})):
            if estimator is None or (estimator is case.peer and case.reference is not None):
                continue
            fitted = with_settings(estimator, seed, **changes)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted.fit(*(array[train] for array in data))
            of_split.append(fitted.score(*(array[test] for array in data)))
        pairs.append(of_split)
    ours, other = np.transpose(pairs)
    gaps = ours - other
    error = float(gaps.std(ddof=1) / np.sqrt(len(gaps)))
    return {"ours": float(np.median(ours)), "other": float(np.median(other)), "gap": float(gaps.mean()), "error": error}


def milliseconds_per_pass(case, sampler, repeats):
    data, found = data_of(case), []
    for repeat in range(-1, repeats):
        long, short = (
            seconds_of_fit(with_settings(case.ours, 0, sampler=sampler, n_init=1, max_iter=n), *data)
            for n in (MOST_PASSES, MOST_PASSES // 2)
        )
        if repeat >= 0:
            found.append(1000.0 * (long - short) / (MOST_PASSES - MOST_PASSES // 2))
    return median_and_range(found)


def measure(only, repeats, with_scores):
    found = {"fits": {}, "scores": {}, "passes": {}}
    with threadpool_limits(1):
        for case in all_cases():
            if only and not any(word in case.name for word in only):
                continue
            for n_init in case.starts or (None,):
                settings = {} if n_init is None else {"n_init": n_init}
                label = case.name if n_init is None else f"{case.name}, n_init={n_init}"
                found["fits"][label] = {**time_fits(case, settings, repeats), "most": case.most}
                if with_scores:
                    found["scores"][label] = held_out_scores(case, settings)
            for sampler in case.samplers:
                name = sampler if isinstance(sampler, str) else sampler.short_name
                found["passes"][f"{case.name}, {name}"] = milliseconds_per_pass(case, sampler, max(3, repeats // 2))
    return found


# Tables of results


def spread(of, scale=1.0, digits=1):
    return f"{scale * of['median']:.{digits}f} ({scale * of['low']:.{digits}f}-{scale * of['high']:.{digits}f})"


def rows_of(found, before):
    """The lines of the three tables by title, with figures of an earlier run if there are any."""

    def earlier(part, label, show):
        of = before.get(part, {}).get(label)
        return [] if not before else ["-" if of is None else show(of)]

    was = ["before"] if before else []
    lines = [["table", "skmanifold", *was, "scikit-learn", "ratio", *was, "aim", "passes"]]
    tables = {"Milliseconds of processor time per fit": lines}
    for label, of in found["fits"].items():
        ours_before = earlier("fits", label, lambda of: f"{1e3 * of['ours']['median']:.1f}")
        ratio_before = earlier("fits", label, lambda of: f"{of['ratio']['median']:.1f}")
        ours, peer = spread(of["ours"], 1e3), spread(of["peer"], 1e3)
        last = [f"{of['most']:g}", f"{of['n_passes']:g}"]
        lines.append([label, ours, *ours_before, peer, spread(of["ratio"]), *ratio_before, *last])
    lines = [["table", "skmanifold", *was, "scikit-learn or long EM", "mean difference", "standard error"]]
    tables["Scores of held-out rows"] = lines
    for label, of in found["scores"].items():
        score_before = earlier("scores", label, lambda of: f"{of['ours']:.3f}")
        figures = [f"{of[name]:.3f}" for name in ("other", "gap", "error")]
        lines.append([label, f"{of['ours']:.3f}", *score_before, *figures])
    lines = [["table, sampler", "skmanifold", *was]]
    tables["Milliseconds of processor time per pass"] = lines
    for label, of in found["passes"].items():
        lines.append([label, spread(of, 1.0, 3), *earlier("passes", label, lambda of: f"{of['median']:.3f}")])
    return tables


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of cases")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--no-scores", action="store_true")
    parser.add_argument("--save", type=Path, help="file for the figures")
    parser.add_argument("--compare", type=Path, help="file of an earlier --save")
    add_write(parser)
    arguments = parser.parse_args()
    found = measure(arguments.only, arguments.repeats, not arguments.no_scores)
    if arguments.save:
        arguments.save.write_text(json.dumps(found, indent=1))
    before = json.loads(arguments.compare.read_text()) if arguments.compare else {}
    for name, (head, *lines) in rows_of(found, before).items():
        title(name)
        begin_table(head)
        for line in lines:
            row(line)
    finish(arguments, notes="Medians (ranges), one thread, default settings.")


if __name__ == "__main__":
    main()
