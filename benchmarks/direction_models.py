"""Models of texts as directions: mixtures, admixtures and orthogonal topics, compared with LDA of the words.

BBC news and docstrings are split at random into 2/3 training texts and 1/3 held-out texts; 20 Newsgroups has its given
split. At most 2,000 random training texts and 1,000 random held-out texts are used, and the first 500 held-out texts
for densities. The seed of a run is that of the texts and of the fits. Words are in at least 10 and in at most 20% of
the training texts. Directions are tf-idf (sublinear), and "embeddings": 100 columns of `TruncatedSVD` of tf-idf, scaled
to unit length, in float32. All methods have the same number of topics, except "fivefold": a mixture with five times as
many components.

Labels are predicted by logistic regression on proportions or membership probabilities; those of docstrings are the
packages. The coherence of words is the NPMI of ten words per topic over all texts of the corpus.

With `--samplers` the samplers of `SphericalAdmixture` are compared, on the tf-idf of 20News-different by Liu et al.
(2016), with all held-out texts.

    python -m benchmarks.direction_models --write
    python -m benchmarks.direction_models --samplers gsgnht vb sggmc gmc_gibbs --seeds 0 1 2 3 4 --write

With `--keep FILE` a stopped command can continue: runs are appended to the file, and those in it are not repeated.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize
from threadpoolctl import threadpool_limits

from benchmarks import _stored
from benchmarks._corpora import read_given, read_labelled
from benchmarks._results import add_write, begin_table, finish, row, title
from benchmarks._runs import spread
from skmanifold import OrthogonalSphericalAdmixture, SphericalAdmixture, StochasticLDA, VonMisesFisherMixture
from skmanifold.inspection import class_words
from skmanifold.metrics import topic_coherence

CORPORA = "BBC", "20 Newsgroups", "docstrings"
NEWS = "three newsgroups"
TFIDF, EMBEDDINGS, COUNTS = "tf-idf", "embeddings", "counts"
N_COLUMNS = 100  # of embeddings
LEAST, MOST = 10, 0.2  # training texts with a word
N_TRAIN, N_TEST, N_SCORED = 2000, 1000, 500
TOP_WORDS = 10

MIXTURE = "VonMisesFisherMixture"  # that densities are compared with
DENSITIES = {
    MIXTURE: VonMisesFisherMixture,
    f"{MIXTURE}, shared": partial(VonMisesFisherMixture, concentration="shared"),
    f"{MIXTURE}, fivefold": lambda n_components, **settings: VonMisesFisherMixture(5 * n_components, **settings),
    "SphericalAdmixture": SphericalAdmixture,
    "SphericalAdmixture, per_topic": partial(SphericalAdmixture, document_concentration="per_topic"),
    "SphericalAdmixture, vb": partial(SphericalAdmixture, sampler="vb"),
    "SphericalAdmixture, vb, per_topic": partial(SphericalAdmixture, sampler="vb", document_concentration="per_topic"),
    "OrthogonalSphericalAdmixture": OrthogonalSphericalAdmixture,
}
LDA, SVD, ALL = "StochasticLDA", "TruncatedSVD", "all columns"
OTHERS = {LDA: StochasticLDA, SVD: TruncatedSVD, ALL: None}


# Texts


class Texts(NamedTuple):
    """Rows and labels of training texts and held-out texts, and the counts of all texts of the corpus."""

    rows: dict[str, tuple]
    labels: tuple
    every: sp.csr_array


def read_texts(corpus, seed, share):
    """Texts in all forms; a share of them for a quick run."""
    if corpus == NEWS:
        *counts, first, second = read_given("ng20diff")
        tfidf = read_given("ng20diff", "tfidf")[:2]
        sizes = len(first), len(second)
    else:
        *counts, first, second = read_labelled(corpus, seed)
        sizes = N_TRAIN, N_TEST
    rng = np.random.default_rng(seed)
    kept = [rng.permutation(X.shape[0])[: int(share * n)] for X, n in zip(counts, sizes, strict=True)]
    if corpus != NEWS:
        n_texts = np.bincount(counts[0][kept[0]].indices, minlength=counts[0].shape[1])
        used = np.flatnonzero((n_texts >= LEAST) & (n_texts <= MOST * len(kept[0])))
        counts = [X[:, used] for X in counts]
        weights = TfidfTransformer(sublinear_tf=True).fit(counts[0][kept[0]])
        tfidf = [sp.csr_array(weights.transform(X)) for X in counts]
    kept = [rows[np.diff(X[rows].indptr) > 0] for X, rows in zip(counts, kept, strict=True)]  # texts with words
    counts_of, tfidf, labels = (
        tuple(part[rows] for part, rows in zip(parts, kept, strict=True)) for parts in (counts, tfidf, (first, second))
    )
    svd = TruncatedSVD(N_COLUMNS, random_state=0).fit(tfidf[0])
    embeddings = tuple(normalize(svd.transform(X)).astype(np.float32) for X in tfidf)
    return Texts({COUNTS: counts_of, TFIDF: tfidf, EMBEDDINGS: embeddings}, labels, sp.csr_array(sp.vstack(counts)))


# Measurements


def seconds_of(call, X):
    start = time.process_time()
    return call(X), time.process_time() - start


def accuracy(features, labels, scaled):
    regression = LogisticRegression(max_iter=1000)
    regression = make_pipeline(StandardScaler(), regression) if scaled else regression
    return regression.fit(features[0], labels[0]).score(features[1], labels[1])


def coherence(words, texts):
    """Mean NPMI of the words of each topic; topics with fewer than ten words are left out."""
    topics = np.zeros((len(words), texts.every.shape[1]))
    for topic, own in zip(topics, words, strict=True):
        topic[own] = np.arange(len(own), 0, -1)
    topics = topics[[len(own) == TOP_WORDS for own in words]]
    return float(np.mean(topic_coherence(topics, texts.every, n_top_words=TOP_WORDS)))


def compile_kernels(model, train, test):
    """A short fit, so that no compilation is timed."""
    short = clone(model).set_params(max_iter=8).fit(train[:100])
    short.transform(test[:5])
    if hasattr(short, "score_samples"):
        short.score_samples(test[:5])


def measure(name, model, columns, texts, n_scored, mixture):
    """Measurements of a method; densities are compared with those of a mixture."""
    train, test = texts.rows[COUNTS if name == LDA else columns]
    if name == ALL:
        return {"accuracy": accuracy((train, test), texts.labels, scaled=False)}
    if name != SVD:
        compile_kernels(model, train, test)
    _, fitting = seconds_of(model.fit, train)
    features = model.transform(train)
    held_out, seconds = seconds_of(model.transform, test)
    found = {"fit": fitting, "transform": 1000 * seconds / len(held_out)}
    found["accuracy"] = accuracy((features, held_out), texts.labels, scaled=True)
    if name == SVD:
        return found
    found["class_words"] = coherence(class_words(features, texts.rows[COUNTS][0], n_words=TOP_WORDS).words, texts)
    if columns == TFIDF:
        entries = model.mean_directions_ if hasattr(model, "mean_directions_") else model.components_
        words = np.argsort(-entries, axis=1)[:, :TOP_WORDS]
        found |= {"entries": coherence(words, texts), "repeated": 1.0 - len(np.unique(words)) / words.size}
    if name == LDA:
        return found
    logs, seconds = seconds_of(model.score_samples, test[:n_scored])
    difference = logs - mixture.score_samples(test[:n_scored])
    error = difference.std(ddof=1) / np.sqrt(len(logs))
    found |= {"nats": logs.mean(), "difference": difference.mean(), "error": error}
    found["scoring"] = 1000 * seconds / len(logs)
    temperatures = getattr(model, "posterior_", {}).get("temperature", np.nan)
    if np.isfinite(temperatures).all():  # only of samplers with a velocity
        found["temperature"] = np.mean(temperatures)
    return {measure: float(value) for measure, value in found.items()}


def new_model(make, seed, options):
    model = make(options.n_components, random_state=seed)
    return model.set_params(max_iter=8) if options.quick and hasattr(model, "max_iter") else model


def measure_all(corpus, columns, methods, n_scored, options):
    """Measurements of each method with each seed, {name: [measurements, ...]}."""
    kept = _stored.read(options.keep)[1] if options.keep else []
    known = {(run["corpus"], run["columns"], run["method"], run["seed"]): run["found"] for run in kept}
    found = {name: [] for name in methods}
    for seed in options.seeds:
        missing = [name for name in methods if (corpus, columns, name, seed) not in known]
        if missing:
            texts = read_texts(corpus, seed, 0.1 if options.quick else 1.0)
            mixture = new_model(methods[MIXTURE], seed, options).fit(texts.rows[columns][0])
        for name, make in methods.items():
            key = corpus, columns, name, seed
            if name in missing:
                model = make and new_model(make, seed, options)
                known[key] = measure(name, model, columns, texts, n_scored, mixture)
                print(*key, {measure: round(value, 3) for measure, value in known[key].items()}, flush=True)
                if options.keep:
                    run = {"corpus": corpus, "columns": columns, "method": name, "seed": seed, "found": known[key]}
                    _stored.append(options.keep, run)
            found[name].append(known[key])
    return found


# Tables


def cell(runs, measure, form):
    """The median and the range over seeds; nothing if the method does not have the measure."""
    values = [run[measure] for run in runs if measure in run]
    return spread(values, form) if values else ""


def difference_cell(runs):
    """The difference to the mixture and its standard error."""
    errors = [run["error"] for run in runs if run.get("error")]
    return f"{cell(runs, 'difference', '+.1f')} ± {np.median(errors):.1f}" if errors else ""


NATS = "log density of held-out texts relative to the uniform distribution, nats per text"
SECONDS = {
    "fit": ("fit, seconds", ".2g"),
    "transform": ("proportions of 1,000 held-out texts, seconds", ".2g"),
    "scoring": ("log densities of 1,000 held-out texts, seconds", ".2g"),
}
MEASURES = {
    "accuracy": ("accuracy of predicted labels of held-out texts", ".3f"),
    "class_words": ("coherence (NPMI) of ten words per topic by `class_words`", ".3f"),
    "entries": ("coherence (NPMI) of the ten words with the largest entries of each topic", ".3f"),
    "repeated": ("share of these words that another topic also has", ".2f"),
    **SECONDS,
}


def shown(name):
    return name if name == ALL else f"`{name}`"


def show(heading, found, cell_of):
    """A row for each corpus and form of its texts, and a column for each method that has the measure."""
    cells = {key: {name: cell_of(name, runs) for name, runs in methods.items()} for key, methods in found.items()}
    names = [name for name in {**DENSITIES, **OTHERS} if any(own.get(name) for own in cells.values())]
    title(heading[0].upper() + heading[1:])
    begin_table(("texts", "columns", *map(shown, names)))
    for key, own in cells.items():
        if any(own.values()):
            row((*key, *(own.get(name, "") for name in names)))


def compare_models(options):
    forms = {TFIDF: {**DENSITIES, **OTHERS}, EMBEDDINGS: {**DENSITIES, ALL: None}}
    found = {
        (corpus, columns): measure_all(corpus, columns, methods, N_SCORED, options)
        for corpus in options.corpora
        for columns, methods in forms.items()
    }
    heading = f"{NATS}; then differences to `{MIXTURE}` ± standard error"
    show(heading, found, lambda name, runs: cell(runs, "nats", ".1f") if name == MIXTURE else difference_cell(runs))
    for measure, (heading, form) in MEASURES.items():
        show(heading, found, lambda _, runs, measure=measure, form=form: cell(runs, measure, form))


def compare_samplers(options):
    samplers = {
        f"SphericalAdmixture, {sampler}": partial(SphericalAdmixture, sampler=sampler) for sampler in options.samplers
    }
    found = measure_all(NEWS, TFIDF, {MIXTURE: DENSITIES[MIXTURE], **samplers, **OTHERS}, None, options)
    measures = {"accuracy": ("accuracy", ".3f"), "temperature": ("temperature", ".3f"), **SECONDS}
    title(f"Samplers of `SphericalAdmixture`, {options.n_components} topics of three newsgroups")
    headings = (heading for heading, _ in measures.values())
    begin_table(("method", NATS, "difference to the mixture ± its standard error", *headings))
    for name, runs in found.items():
        cells = (cell(runs, measure, form) for measure, (_, form) in measures.items())
        row((shown(name), cell(runs, "nats", ".1f"), difference_cell(runs), *cells))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")  # estimators warn when they reach the largest number of iterations
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", nargs="+", default=CORPORA, choices=CORPORA)
    parser.add_argument("--samplers", nargs="+", help="compare samplers of SphericalAdmixture")
    parser.add_argument("--n-components", type=int, default=20)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--quick", action="store_true", help="a tenth of the texts, 8 passes")
    parser.add_argument("--keep", help="a file of runs that are not repeated")
    add_write(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        (compare_samplers if options.samplers else compare_models)(options)
    notes = "Medians (ranges) over seeds, standard errors of one seed; processor times, one core."
    if not options.samplers:
        notes += f' {options.n_components} topics; "fivefold" has five times as many components.'
    finish(options, part="_samplers" if options.samplers else "", notes=notes)
