"""Comparisons of mixtures and classifiers: Gaussian rows, binary and categorical tables, directions, subspaces."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from benchmarks._compare_turns import Contest, Contestant, Measure, has_data, timed
from benchmarks._corpora import read_given
from benchmarks.dp_tables import fit_dp, fit_latent_classes
from benchmarks.dp_tables import load as load_categories
from benchmarks.families_held_out import latent_classes, load, methods, ours, seconds_a_pass, split
from benchmarks.subspaces_uci import classifiers
from benchmarks.subspaces_uci import load as load_classes
from skmanifold import SphericalAdmixture, VonMisesFisherMixture
from skmanifold.datasets import make_categorical_mixture, make_spherical_admixture
from skmanifold.samplers import EM, ESCA

NATS = Measure("held-out log density, nats per row", "higher", "difference", ".2f")
SECONDS = Measure("fit, seconds of processor time", "lower")
NAMES = {"breast": "breast cancer", "pixels": "pixels of digits"}
TITLES = {
    "full": "Gaussian mixture, full covariances",
    "diag": "Gaussian mixture, diagonal covariances",
    "bernoulli": "Latent classes of binary rows",
}
PACKAGES = {"StepMix": "stepmix", "GaussianMixture": "sklearn", "BayesianGaussianMixture": "sklearn"}


def held_out(table, kind, n_components, quick):
    """Mixtures with the same number of components: log densities of held-out rows."""
    X, transformer = load(table)

    def begin(estimator):
        estimator.set_params(n_components=n_components)
        train, _ = split(X, transformer, 0)
        estimator.set_params(random_state=0).fit(train[:200])  # load the machine code

        def take_turn(turn):
            train, test = split(X, transformer, turn)
            fitted, seconds = timed(lambda: estimator.set_params(random_state=turn).fit(train))
            return fitted.score(test), seconds

        return take_turn

    n_starts = 1 if quick else 3
    title = TITLES[kind]
    return Contest(
        f"{title}: {NAMES.get(table, table)}, K={n_components}",
        f"{'digits' if table == 'pixels' else NAMES.get(table, table)} of scikit-learn, {X.shape[0]:,} rows, "
        f"{X.shape[1]} columns"
        + (", 20 principal components of them" if table == "digits" else "")
        + ("; 1 where a pixel is dark" if table == "pixels" else "")
        + "; a random fifth is held out in each run",
        (NATS, SECONDS),
        [
            Contestant(
                name if name in PACKAGES else f"ExponentialFamilyMixture, {name}",
                partial(begin, estimator),
                PACKAGES.get(name, "skmanifold"),
            )
            for name, estimator in methods(kind, n_starts).items()
        ],
        f"Each method has {n_starts} initialisations and otherwise default settings.",
    )


def gaussian_held_out(quick):
    return [held_out("breast", "full", 2, quick), held_out("digits", "diag" if quick else "full", 10, quick)]


def binary_held_out(quick):
    return [held_out("pixels", "bernoulli", 10, quick)]


def passes(quick):
    """Seconds per pass, from the difference between a long and a short fit."""
    rng = np.random.default_rng(0)
    n_rows, n_passes = (5_000, 5) if quick else (50_000, 10)
    means, rates = rng.normal(0.0, 4.0, (20, 10)), rng.random((10, 100))
    real = means[rng.integers(0, 20, n_rows)] + rng.normal(size=(n_rows, 10))
    events = (rng.random((n_rows, 100)) < rates[rng.integers(0, 10, n_rows)]).astype(float)

    def begin(make, X):
        make(max_iter=2, random_state=0).fit(X[:3000])  # load the machine code
        return lambda turn: (1e9 * max(seconds_a_pass(make, X, n_passes)[1], 1e-9) / n_rows,)

    def contest(title, X, kind, n_components, peer):
        samplers = {"esca": ESCA(), "em": EM(tol=0)}
        contestants = [
            Contestant(
                f'ExponentialFamilyMixture, "{name}"',
                partial(begin, partial(ours, kind, sampler, n_components=n_components, init="random"), X),
            )
            for name, sampler in samplers.items()
        ]
        name, make = peer
        contestants.append(Contestant(name, partial(begin, make, X), PACKAGES[name]))
        data = f"synthetic, {n_rows:,} rows of {X.shape[1]} columns"
        note = "The time of a pass is the difference between a long and a short fit, divided by the number of passes."
        return Contest(title, data, (Measure("nanoseconds per row and pass", "lower"),), contestants, note)

    settings = {"tol": 0.0, "init_params": "random_from_data"}
    return [
        contest(
            "Gaussian mixture, full covariances: speed, K=20",
            real,
            "full",
            20,
            ("GaussianMixture", partial(GaussianMixture, 20, **settings)),
        ),
        contest(
            "Latent classes of binary rows: speed, K=10",
            events,
            "bernoulli",
            10,
            ("StepMix", partial(_stepmix, n_components=10, abs_tol=0, rel_tol=0)),
        ),
    ]


def _stepmix(**settings):
    return latent_classes(**settings)  # imports its package only where it is called


def categorical(quick):
    """Tables with missing cells: each method finds the number of components in its own way."""
    if has_data():
        tables = {name: load_categories(name)[0] for name in (["votes"] if quick else ["votes", "soybean"])}
    else:
        made = make_categorical_mixture(700, 20, 8, n_categories=4, missing=0.1, random_state=0)
        tables = {"synthetic (SKMANIFOLD_DATA is not set)": np.asarray(made.data, float)}

    def contest(name, codes):
        n_categories = (np.nanmax(codes, axis=0) + 1).astype(int)

        def begin(fit):
            fit_dp(codes[:60], n_categories, 0, max_iter=6)[0](codes[:60])  # load the machine code

            def take_turn(turn):
                order = np.random.default_rng(turn).permutation(len(codes))
                train, test = np.split(codes[order], [int(0.8 * len(codes))])
                (score, _, size), seconds = timed(lambda: fit(train, n_categories, turn))
                return score(test), seconds, size

            return take_turn

        return Contest(
            f"Categorical table with missing cells: {name}",
            f"{name}, {codes.shape[0]:,} rows, {codes.shape[1]} columns, {np.isnan(codes).sum():,} missing "
            "cells; a random fifth is held out in each run",
            (NATS, SECONDS, Measure("components", None, digits=".0f")),
            [
                Contestant("DPCategoricalMixture", partial(begin, fit_dp)),
                Contestant("StepMix, number of classes by BIC", partial(begin, fit_latent_classes), "stepmix"),
            ],
            "The time of StepMix includes its search for the number of classes.",
        )

    return [contest(name, codes) for name, codes in tables.items()]


def directions(quick):
    """Groups of normalised documents, found without their labels."""
    if has_data():
        train, test, truth, expected = read_given("ng20diff", "tfidf")
        name = "20 Newsgroups, three groups, tf-idf"
        if quick:
            train, test, expected = train[::4], test[::4], expected[::4]
        n_groups = len(np.unique(truth))
    else:
        made = make_spherical_admixture(2000, 200, 4, doc_topic_prior=0.05, random_state=0)
        labels = made.proportions.argmax(axis=1)
        train, test, expected = made.data[:1500], made.data[1500:], labels[1500:]
        name, n_groups = "synthetic spherical admixture (SKMANIFOLD_DATA is not set), labelled by the largest topic", 4

    def begin(make, predict):
        make(0).fit(train[:50])

        def take_turn(turn):
            fitted, seconds = timed(lambda: make(turn).fit(train))
            return normalized_mutual_info_score(expected, predict(fitted, test)), seconds

        return take_turn

    def lengths_one(make):
        return lambda seed: make_pipeline(Normalizer(), make(seed))

    found = {
        "VonMisesFisherMixture": (
            lambda seed: VonMisesFisherMixture(n_groups, n_init=10, random_state=seed),
            lambda estimator, X: estimator.predict(X),
            "skmanifold",
        ),
        "SphericalAdmixture, largest topic": (
            lambda seed: SphericalAdmixture(n_groups, max_iter=50 if quick else 200, random_state=seed),
            lambda estimator, X: estimator.transform(X).argmax(axis=1),
            "skmanifold",
        ),
        "KMeans on normalised rows": (
            lengths_one(lambda seed: KMeans(n_groups, n_init=10, random_state=seed)),
            lambda estimator, X: estimator.predict(X),
            "sklearn",
        ),
    }
    return [
        Contest(
            f"Clustering of directions, K={n_groups}",
            f"{name}: {train.shape[0]:,} training and {test.shape[0]:,} test documents, {train.shape[1]:,} words",
            (Measure("held-out normalised mutual information", "higher", "difference", ".3f"), SECONDS),
            [Contestant(name, partial(begin, *how[:2]), how[2]) for name, how in found.items()],
            "Ten initialisations of the mixture and of k-means, one of the admixture. k-means on normalised rows is "
            "the closest method in scikit-learn to spherical k-means.",
        )
    ]


def subspaces(quick):
    """Classes of small tables."""
    names = ["heart", "vehicle", "breast"] if has_data() else ["breast"]
    n_splits = 2 if quick else 5

    def contest(name):
        X, y = load_classes(name)

        def begin(classifier):
            pipe = make_pipeline(StandardScaler(), classifier)
            pipe.fit(X, y)  # load the machine code

            def take_turn(turn):
                splits = StratifiedShuffleSplit(n_splits, test_size=0.1, random_state=turn)
                scores, seconds = timed(lambda: cross_val_score(pipe, X, y, cv=splits))
                return scores.mean(), seconds / n_splits

            return take_turn

        by_name = classifiers(X.shape[1])
        return Contest(
            f"Classification with one subspace per class: {NAMES.get(name, name)}",
            f"{NAMES.get(name, name)}, {X.shape[0]:,} rows, {X.shape[1]} columns, {len(np.unique(y))} classes; "
            f"{n_splits} random splits per run, each with a tenth held out",
            (
                Measure("accuracy", "higher", "difference", ".3f"),
                Measure("seconds of processor time per split", "lower"),
            ),
            [
                Contestant(
                    method if method != "LDA" else "linear discriminant analysis",
                    partial(begin, classifier),
                    "skmanifold" if method.startswith("Subspace") else "sklearn",
                )
                for method, classifier in by_name.items()
            ],
            "Columns are standardised. PPCA per class combines parts of scikit-learn in the benchmark script.",
        )

    return [contest(name) for name in (names[-1:] if quick else names)]
