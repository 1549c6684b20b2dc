"""Topics with default settings: held-out perplexity, coherence and seconds of our samplers and of other libraries.

Only the number of topics is set. A random tenth of the documents is held out, without words that only they have.
Perplexity is computed by document completion for all methods, with each method's own prior of the proportions (given or
learned). Coherence is the mean NPMI of the ten most probable words of each topic in the training documents. tomotopy
makes 1,000 iterations, topica and pyrmallet make some more, over which they average; gensim and scikit-learn read the
documents ten times. Seconds are processor time in one thread; those of `StochasticLDA` include reading the matrix.
"esca" makes 400 passes, our other samplers 200.

    python -m benchmarks.lda_defaults --write
    python -m benchmarks.lda_defaults --measure --corpora ap bbc --seeds 0 1 2

The second command fits what is missing for these corpora and seeds, and adds it to `lda_defaults.jsonl`, from which the
first one makes the tables.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

from benchmarks import _stored
from benchmarks._corpora import data_folder, split_documents
from benchmarks._peers import RustMallet, Tomotopy, Topica
from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold import StochasticLDA
from skmanifold.datasets import load_docstrings
from skmanifold.metrics import document_completion, topic_coherence

STORED = Path(__file__).with_suffix(".jsonl")
FILES = {"ap": "ap", "bbc": "bbc", "nsf": "nsf", "ng20": "ng20_train", "wiki": "wiki2018"}
WORDS = {"ng20": "ng20"}  # where the vocabulary has another name
CORPORA = ("ap", "bbc", "nsf", "docstrings", "ng20", "wiki")
MOST_HELD_OUT = 2000
ALL_WORDS = (
    'In rows with "all words", which were measured earlier, words that only held-out documents have are not left out. '
    "They are 0.6% (ap) and 0.8% (ng20) of the held-out tokens. tomotopy, topica and pyrmallet give them almost no "
    "probability, which raises their perplexities by a tenth or more: compare the libraries in the other rows."
)
MEASURES = {
    "perplexity": ("Perplexity of held-out documents", 1),
    "coherence": ("NPMI coherence", 3),
    "seconds": ("Seconds of a fit", 0),
}


def read(corpus):
    """Counts of the words of a corpus, and the words."""
    if corpus == "docstrings":
        vectorizer = CountVectorizer(min_df=3, token_pattern=r"\b[a-z]{2,}\b")
        return vectorizer.fit_transform(load_docstrings().data), vectorizer.get_feature_names_out()
    X = sp.load_npz(data_folder() / f"{FILES[corpus]}_counts.npz")
    vocabulary = data_folder() / f"{WORDS.get(corpus, FILES[corpus])}_vocabulary.txt"
    return X, np.array(vocabulary.read_text(encoding="utf-8").split())


def split(corpus, stop_words):
    """Training and held-out counts, with stop words or without."""
    X, words = read(corpus)
    X = sp.csr_array(X, dtype=np.int32)
    if not stop_words:
        X = X[:, np.flatnonzero([word not in ENGLISH_STOP_WORDS for word in words])]
    train, test = split_documents(X)
    return train, test[:MOST_HELD_OUT]


# Methods: functions of counts, the number of topics and a seed that return topics, the prior and seconds


def fit_ours(X, K, seed, **settings):
    start = time.process_time()
    lda = StochasticLDA(K, random_state=seed, **settings).fit(X)
    return lda.components_, lda.doc_topic_prior_, time.process_time() - start


def fit_tomotopy(X, K, seed, max_iter=1000):
    peer = Tomotopy(X, K, 0.1, 0.01, seed + 1)  # these and the interval are its defaults
    peer.model.optim_interval = 10
    start = time.process_time()
    peer.model.train(max_iter, workers=1)
    seconds = time.process_time() - start
    return peer.topic_word(), np.array(peer.model.alpha), seconds


def fit_mallet(trainer, X, K, seed, max_iter=1000):
    peer = trainer(X, K, 1.0, 0.01, seed + 1)  # its defaults: it learns both priors from these
    start = time.process_time()
    peer.train(max_iter, with_defaults=True)
    return peer.topic_word(), np.array(peer.model.alpha), time.process_time() - start


def fit_gensim(X, K, seed, max_iter=10):
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaModel

    documents = Sparse2Corpus(X, documents_columns=False)
    names = {word: str(word) for word in range(X.shape[1])}
    start = time.process_time()
    model = LdaModel(documents, id2word=names, num_topics=K, passes=max_iter, random_state=seed)
    return model.get_topics(), model.alpha, time.process_time() - start


def fit_scikit_learn(X, K, seed, max_iter=10):
    from sklearn.decomposition import LatentDirichletAllocation

    start = time.process_time()
    model = LatentDirichletAllocation(K, learning_method="online", max_iter=max_iter, random_state=seed).fit(X)
    topics = model.components_ / model.components_.sum(axis=1, keepdims=True)
    return topics, np.full(K, model.doc_topic_prior_), time.process_time() - start


OURS = {
    '"esca"': fit_ours,
    '"esca", 200 passes': partial(fit_ours, max_iter=200),
    '"gibbs"': partial(fit_ours, sampler="gibbs"),
    '"collapsed_gibbs"': partial(fit_ours, sampler="collapsed_gibbs"),
    '"cvb0"': partial(fit_ours, sampler="cvb0"),
}
LEARNED = {  # next to "esca", whose priors are 1/K and 0.1
    '"esca", learned prior of words': partial(fit_ours, topic_word_prior="auto"),
    '"esca", both priors learned': partial(fit_ours, doc_topic_prior="auto", topic_word_prior="auto"),
}
PEERS = {
    "tomotopy": fit_tomotopy,
    "topica": partial(fit_mallet, Topica),
    "pyrmallet": partial(fit_mallet, RustMallet),
    "gensim": fit_gensim,
    "scikit-learn": fit_scikit_learn,
}


def scores(topics, prior, train, test):
    """Held-out perplexity and coherence."""
    perplexity = document_completion(topics, test, np.asarray(prior, float)).perplexity
    return {"perplexity": perplexity, "coherence": float(np.nanmean(topic_coherence(topics, train)))}


def measure(options):
    """Fit what is missing, and add it to the file."""
    _, runs = _stored.read(STORED)
    names = "corpus", "stop_words", "n_components", "method", "seed"
    done = {tuple(run[name] for name in names) for run in runs}
    methods = {name: fit for name, fit in {**OURS, **LEARNED, **PEERS}.items() if name in options.methods}
    for corpus in options.corpora:
        for stop_words in {"both": (True, False), "yes": (True,), "no": (False,)}[options.stop_words]:
            train, test = split(corpus, stop_words)
            StochasticLDA(3, max_iter=2).fit(train[:50])  # load the machine code
            for K in options.n_components:
                for seed in options.seeds:
                    for method, fit in methods.items():
                        of_run = corpus, stop_words, K, method, seed
                        if of_run in done or (method in PEERS and seed != options.seeds[0]):
                            continue
                        topics, prior, seconds = fit(train, K, seed)
                        found = scores(topics, prior, train, test) | {"seconds": seconds}
                        _stored.append(STORED, dict(zip(names, of_run, strict=True)) | found, "tomotopy", "gensim")
                        print(*of_run, *(f"{value:.4g}" for value in found.values()), flush=True)


def cell(runs, name, digits):
    """Mean and standard error over seeds."""
    values = np.array([run[name] for run in runs])
    if len(values) == 0:
        return ""
    if name == "seconds":
        return f"{np.median(values):.3g}"
    error = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{error}"


def show(runs):
    """The tables of all runs."""
    methods = [method for method in (*OURS, *PEERS) if any(run["method"] == method for run in runs)]
    for name, (heading, digits) in MEASURES.items():
        title(heading)
        show_table(runs, methods, {method: (method, name, digits) for method in methods})
    title("Learned priors")
    methods = ['"esca"', *LEARNED]
    heads = "1/K and 0.1", '1/K and "auto"', 'both "auto"'
    shown = ("perplexity", "NPMI"), ("perplexity", "coherence")
    show_table(
        runs,
        LEARNED,
        {
            f"{short}: {head}": (method, name, MEASURES[name][1])
            for short, name in zip(*shown, strict=True)
            for method, head in zip(methods, heads, strict=True)
        },
    )


def corpora_of(runs):
    """The corpora, each before its rows with all words."""
    names = (name for corpus in CORPORA for name in (corpus, f"{corpus}, all words"))
    return [name for name in names if any(run["corpus"] == name for run in runs)]


def show_table(runs, methods, columns):
    """A row for each corpus that one of the methods has; `columns` has a method, a measure and its digits by head."""
    begin_table(("corpus", "stop words", "K", *columns))
    names, corpora = ("corpus", "stop_words", "n_components"), corpora_of(runs)
    for of_row in sorted(
        {tuple(run[name] for name in names) for run in runs if run["method"] in methods},
        key=lambda of_row: (corpora.index(of_row[0]), not of_row[1], of_row[2]),
    ):
        of_corpus = [run for run in runs if tuple(run[name] for name in names) == of_row]
        cells = (
            cell([run for run in of_corpus if run["method"] == method], name, digits)
            for method, name, digits in columns.values()
        )
        row((of_row[0], "yes" if of_row[1] else "no", of_row[2], *cells))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="fit what is missing")
    parser.add_argument("--corpora", nargs="+", default=["ap", "bbc", "nsf", "docstrings"], choices=CORPORA)
    parser.add_argument("--n-components", type=int, nargs="+", default=[50])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--stop-words", default="both", choices=("both", "yes", "no"))
    parser.add_argument(
        "--methods",
        nargs="+",
        default=[*OURS, *PEERS],
        choices=[*OURS, *LEARNED, *PEERS],
        help="all but those with learned priors by default; the other libraries are fitted with the first seed only",
    )
    add_write(parser)
    options = parser.parse_args()
    if options.measure:
        measure(options)
    source, runs = _stored.read(STORED, "All methods")
    if runs:
        show(runs)
        notes = (
            "Mean ± standard error over seeds, median of seconds. A random tenth of the documents is held out. "
            "Perplexity by document completion, with each method's own prior of the proportions; coherence of the ten "
            "most probable words in the training documents. All settings are the defaults, but tomotopy makes 1,000 "
            "iterations, gensim ten passes, and scikit-learn ten passes of online learning; one seed of these and of "
            "topica and pyrmallet. "
            'Learned priors are those of "esca" with "auto"; 400 passes need the same time within 10%. '
            f"{ALL_WORDS} {source}"
        )
        finish(options, "tomotopy", "topica", "pyrmallet", "gensim", notes=notes)
