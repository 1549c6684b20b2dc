"""Spherical admixtures with default settings, mixtures and other topics: held-out scores and predicted groups.

20News-different, five seeds. Scores are nats per held-out document above the uniform distribution; differences to
`VonMisesFisherMixture` with the same number of components are paired by document. The three groups are predicted by
logistic regression on proportions of `SphericalAdmixture` and `StochasticLDA`, on `TruncatedSVD` with the same number
of columns, and on tf-idf. One core.

    python -m benchmarks.sam_scores --samplers gsgnht gmc_gibbs vb
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks._corpora import data_folder
from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold import SphericalAdmixture, StochasticLDA, VonMisesFisherMixture


def load():
    folder = data_folder()
    data = {}
    for part in ("train", "test"):
        for kind in ("tfidf", "counts"):
            data[part, kind] = sp.csr_array(sp.load_npz(folder / f"ng20diff_{part}_{kind}.npz"))
        data[part, "labels"] = np.load(folder / f"ng20diff_{part}_labels.npy")
    return data


def ranged(values):
    return f"{np.median(values):.4g} ({min(values):.4g} to {max(values):.4g})"


def compare_scores(data, samplers, n_components, seeds):
    train, test = data["train", "tfidf"], data["test", "tfidf"]
    mixtures = {seed: VonMisesFisherMixture(n_components, random_state=seed).fit(train) for seed in seeds}
    logs = {seed: mixture.score_samples(test) for seed, mixture in mixtures.items()}
    title(f"Nats per held-out document above the uniform distribution, K={n_components}")
    head = "held-out score", "difference to the mixture, paired", "standard error", "score of training documents"
    begin_table(("method", *head, "fit, seconds", "scoring, seconds", "temperature"))
    row(("`VonMisesFisherMixture`", ranged([log.mean() for log in logs.values()]), *[""] * 6))
    for sampler in samplers:
        scores, differences, errors, fitting, scoring, temperatures, trained = [], [], [], [], [], [], []
        for seed in seeds:
            start = time.perf_counter()
            model = SphericalAdmixture(n_components, sampler=sampler, random_state=seed).fit(train)
            fitting.append(time.perf_counter() - start)
            start = time.perf_counter()
            log = model.score_samples(test)
            scoring.append(time.perf_counter() - start)
            difference = log - logs[seed]
            scores.append(log.mean())
            differences.append(difference.mean())
            errors.append(difference.std(ddof=1) / np.sqrt(len(difference)))
            temperatures.append(np.mean(model.posterior_.get("temperature", np.nan)))
            trained.append(model.score(train[::10]))
        concentrations = model.document_concentration_, model.topic_concentration_, model.mean_concentration_
        columns = scores, differences, errors, trained, fitting, scoring, temperatures
        row((f'`"{sampler}"`', *map(ranged, columns)))
        print("concentrations of the last fit:", *(f"{value:.0f}" for value in concentrations), flush=True)


def classify(data, n_components, seeds):
    regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    raw = LogisticRegression(max_iter=1000).fit(data["train", "tfidf"], data["train", "labels"])
    title("Accuracy of predicted groups")
    begin_table(("columns", "accuracy"))
    row(("tf-idf, 5,000 columns", f"{raw.score(data['test', 'tfidf'], data['test', 'labels']):.3f}"))
    makers = {
        "SphericalAdmixture": ("tfidf", lambda seed: SphericalAdmixture(n_components, random_state=seed)),
        "SphericalAdmixture, vb": (
            "tfidf",
            lambda seed: SphericalAdmixture(n_components, sampler="vb", random_state=seed),
        ),
        "StochasticLDA, gibbs": (
            "counts",
            lambda seed: StochasticLDA(n_components, sampler="gibbs", random_state=seed),
        ),
        "TruncatedSVD": ("tfidf", lambda seed: TruncatedSVD(n_components, random_state=seed)),
    }
    for name, (kind, make) in makers.items():
        accuracies = []
        for seed in seeds:
            pipe = make_pipeline(make(seed), regression).fit(data["train", kind], data["train", "labels"])
            accuracies.append(pipe.score(data["test", kind], data["test", "labels"]))
        row((f"{name}, {n_components} columns", ranged(accuracies)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samplers", nargs="+", default=["gsgnht", "gmc_gibbs", "vb"])
    parser.add_argument("--n-components", type=int, default=20)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    add_write(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        data = load()
        classify(data, options.n_components, options.seeds)
        compare_scores(data, options.samplers, options.n_components, options.seeds)
    finish(options, notes="Medians (ranges) over seeds.")
