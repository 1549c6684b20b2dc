"""Do 90% credible intervals of the topics' words hold the truth nine times in ten? On corpora drawn from the model.

Every corpus has topics drawn from the prior that the samplers are given, so intervals of the exact posterior hold the
true probabilities at their nominal rate, on average over corpora. Topics are matched to the true ones first. Beside
the coverage stands the variance of a probability over its draws relative to Gibbs sampling, mean over cells with an
expected count of 5 and more, and for minibatches without stored counts what corollary 4.2 of Baker et al. (2018) says:
tanh(h / 2) times the variance of the minibatch's estimate of the shape comes on top.

    python benchmarks/lda_coverage.py
"""

from __future__ import annotations

import argparse

import numpy as np

from skmanifold import StochasticLDA
from skmanifold.datasets import make_lda_corpus
from skmanifold.metrics import match_topics
from skmanifold.samplers import SCIR, CollapsedGibbs, Gibbs

ALPHA, BETA, LEVEL = 0.2, 0.5, 0.9
BATCH = 50


def methods(h):
    by_minibatch = {"batch_size": BATCH}
    return {
        "gibbs": (Gibbs(), {}),
        "collapsed_gibbs": (CollapsedGibbs(), {}),
        "scir, full counts, h=1": (SCIR(1.0, lazy=False, control_variate="stored"), {"batch_size": None}),
        # one kept sweep would be a draw of the tokens' topics; the mean of several has less than their variance
        "scir, full counts, mean of 10 sweeps": (SCIR(1.0), {"batch_size": None}),
        "scir, stored counts, h=1": (SCIR(1.0, control_variate="stored"), by_minibatch),
        **{f"scir, minibatches, h={size:g}": (SCIR(size), by_minibatch) for size in h},
    }


def variance_of_minibatches(corpus):
    """Of a probability's estimate (count of the word - probability * count of the topic) / tokens, by minibatches."""
    counts = corpus.data.toarray()
    n_rows = len(counts)
    out = np.empty(corpus.components.shape)
    for k, topic in enumerate(corpus.components):
        share = corpus.proportions[:, [k]] * topic / (corpus.proportions @ corpus.components)
        expected = counts * share  # of topic k's tokens, by document and word
        centred = expected - topic * expected.sum(axis=1, keepdims=True)
        scale = n_rows**2 / BATCH * (1 - BATCH / n_rows) / (expected.sum() + BETA * len(topic)) ** 2
        out[k] = scale * centred.var(axis=0, ddof=1)
    return out


def run(options):
    table = {}
    for seed in range(options.n_corpora):
        corpus = make_lda_corpus(
            options.n_documents,
            options.n_words,
            options.n_topics,
            mean_length=options.mean_length,
            zipf_exponent=0.0,
            doc_topic_prior=ALPHA,
            topic_word_prior=BETA,
            random_state=seed,
        )
        gibbs_variance = None
        large = None
        for name, (sampler, settings) in methods(options.h).items():
            lda = StochasticLDA(
                options.n_topics,
                sampler=sampler,
                doc_topic_prior=ALPHA,
                topic_word_prior=BETA,
                max_iter=options.max_iter,
                burn_in=options.max_iter // 3,
                thin=2,
                random_state=seed,
                n_jobs=options.n_jobs,
                **settings,
            ).fit(corpus.data)
            match = match_topics(corpus.components, lda.components_)
            low, high = lda.credible_intervals(LEVEL)[:, match.other]
            inside = (low <= corpus.components) & (corpus.components <= high)
            variance = lda.posterior_["components"][0].var(axis=0)[match.other]
            if gibbs_variance is None:
                gibbs_variance = variance
                tokens = corpus.data.sum() * lda.posterior_["topic_weights"].mean(axis=(0, 1))[match.other]
                large = corpus.components * tokens[:, np.newaxis] >= 5
            row = table.setdefault(name, {"all": [], "large": [], "ratio": [], "predicted": [], "match": []})
            row["all"].append(inside.mean())
            row["large"].append(inside[large].mean())
            row["ratio"].append((variance / gibbs_variance)[large].mean())
            row["match"].append(match.similarity.min())
            if "minibatches" in name:
                on_top = np.tanh(sampler.step_size / 2) * variance_of_minibatches(corpus) / gibbs_variance
                row["predicted"].append(1 + on_top[large].mean())
        print(f"corpus {seed}: " + ", ".join(f"{name} {row['all'][-1]:.3f}" for name, row in table.items()), flush=True)
    print(f"\nmean and standard error over {options.n_corpora} corpora\n")
    print("| sampler | coverage, all cells | cells of 5 tokens or more | variance / Gibbs | predicted | least cosine |")
    print("|---|---|---|---|---|---|")
    for name, row in table.items():
        cells = [
            f"{np.mean(row[key]):.3f} +- {np.std(row[key], ddof=1) / np.sqrt(len(row[key])):.3f}"
            for key in ("all", "large", "ratio")
        ]
        predicted = f"{np.mean(row['predicted']):.2f}" if row["predicted"] else ""
        print(f"| {name} | " + " | ".join(cells) + f" | {predicted} | {min(row['match']):.2f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-corpora", type=int, default=12)
    parser.add_argument("--n-documents", type=int, default=400)
    parser.add_argument("--n-words", type=int, default=50)
    parser.add_argument("--n-topics", type=int, default=4)
    parser.add_argument("--mean-length", type=int, default=60)
    parser.add_argument("--max-iter", type=int, default=200)
    parser.add_argument("--h", type=float, nargs="+", default=[0.5, 0.1, 0.05])
    parser.add_argument("--n-jobs", type=int, default=2)
    run(parser.parse_args())
