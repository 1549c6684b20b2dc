"""Orthogonal topics of NSF abstracts: their number, words and coherence, compared with other topics.

9,364 abstracts with 11,181 words as tf-idf, 500 of them held out. First a given number of topics (20) is compared with
those of `SphericalAdmixture` and `StochasticLDA`: NPMI of their top ten words over the training documents, the share of
top words that another topic also has, and held-out scores in nats per document above the uniform distribution. Then the
number of topics is inferred, for several penalties per topic (`n_components_penalty`, in nats). One core.

    python -m benchmarks.orthogonal_nsf --passes 200 --penalties 1 10000
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from threadpoolctl import threadpool_limits

from benchmarks._corpora import data_folder
from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold import OrthogonalSphericalAdmixture, SphericalAdmixture, StochasticLDA
from skmanifold.metrics import topic_coherence

HELD_OUT = 500
TOP_WORDS = 10
HEAD = "mean NPMI", "median", "smallest", "top words that repeat", "held-out score, nats"


def load():
    counts = sp.csr_array(sp.load_npz(data_folder() / "nsf_counts.npz"))
    words = (data_folder() / "nsf_vocabulary.txt").read_text().split()
    tfidf = sp.csr_array(TfidfTransformer(sublinear_tf=True).fit_transform(counts.astype(np.float64)))
    return counts, tfidf, words


def repeated(components) -> float:
    """Share of top words that another topic also has."""
    top = np.argsort(-components, axis=1)[:, :TOP_WORDS].ravel()
    return 1.0 - len(np.unique(top)) / len(top)


def infer_number(tfidf, words, passes, penalties, most):
    title(f"Inferred number of topics, {passes} passes, at most {most} topics")
    begin_table(("penalty per topic, nats", "number of topics: probability", "seconds", *HEAD))
    for penalty in penalties:
        model = OrthogonalSphericalAdmixture(
            max_iter=passes, max_components=most, n_components_penalty=penalty, random_state=0
        )
        start = time.perf_counter()
        model.fit(tfidf[:-HELD_OUT])
        seconds = time.perf_counter() - start
        probable = np.flatnonzero(model.n_components_posterior_)
        numbers = ", ".join(f"{k}: {model.n_components_posterior_[k]:.2f}" for k in probable)
        row((f"{penalty:,g}", numbers, f"{seconds:.0f}", *cells_of(model, tfidf)))
        print(f"  concentration {model.document_concentration_:.0f}")
        trace = model.posterior_["n_components"][0]
        print(f"  draws {trace[:: max(1, len(trace) // 20)].astype(int).tolist()}")
        for topic in model.topic_words(6, words)[:20]:
            positive, negative = (" ".join(word for word, _ in of) for of in topic)
            print(f"    {positive}  |  {negative}")


def cells_of(model, tfidf):
    coherence = topic_coherence(model.components_ - model.components_.min(), tfidf[:-HELD_OUT], n_top_words=TOP_WORDS)
    score = ""
    if not isinstance(model, StochasticLDA):
        score = f"{model.set_params(n_predictive_draws=5).score(tfidf[-HELD_OUT:]):.1f}"
    npmi = (f"{value:.3f}" for value in (coherence.mean(), np.median(coherence), coherence.min()))
    return *npmi, f"{repeated(model.components_):.2f}", score


def compare(counts, tfidf, n_components, passes):
    models = {
        "orthogonal": OrthogonalSphericalAdmixture(n_components, max_iter=passes, random_state=0),
        "spherical": SphericalAdmixture(n_components, max_iter=passes, random_state=0),
        "LDA": StochasticLDA(n_components, random_state=0),
    }
    title(f"{n_components} topics, {passes} passes")
    begin_table(("method", "fit, seconds", *HEAD))
    for name, model in models.items():
        start = time.perf_counter()
        model.fit((counts if name == "LDA" else tfidf)[:-HELD_OUT])
        seconds = time.perf_counter() - start
        row((f"`{type(model).__name__}`", f"{seconds:.0f}", *cells_of(model, tfidf)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=200)
    parser.add_argument("--penalties", type=float, nargs="*", default=[1.0, 10_000.0])
    parser.add_argument("--most", type=int, default=100, help="largest number of topics")
    parser.add_argument("--n-components", type=int, default=20)
    add_write(parser)
    arguments = parser.parse_args()
    counts, tfidf, words = load()
    with threadpool_limits(1):
        compare(counts, tfidf, arguments.n_components, arguments.passes)
        infer_number(tfidf, words, arguments.passes, arguments.penalties, arguments.most)
    finish(arguments, notes="One seed, 500 held-out abstracts.")


if __name__ == "__main__":
    main()
