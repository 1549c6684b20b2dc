"""Coverage of 90% credible intervals of the topics' word probabilities, on corpora drawn from the model.

The topics of each corpus are drawn from the prior of the samplers, so that intervals of the exact posterior contain the
true probabilities at their nominal rate, on average over corpora. Topics are matched to the true ones first. The table
also has the variance of a probability over its draws relative to Gibbs sampling, mean over cells with an expected count
of 5 or more; and for minibatches without stored counts the variance by corollary 4.2 of Baker et al. (2018): tanh(h /
2) times the variance of the minibatch's estimate of the shape is added.

    python -m benchmarks.lda_coverage
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks._results import add_write, begin_table, finish, row
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
    found = {}
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
            own = found.setdefault(name, {"all": [], "large": [], "ratio": [], "predicted": [], "match": []})
            own["all"].append(inside.mean())
            own["large"].append(inside[large].mean())
            own["ratio"].append((variance / gibbs_variance)[large].mean())
            own["match"].append(match.similarity.min())
            if "minibatches" in name:
                on_top = np.tanh(sampler.step_size / 2) * variance_of_minibatches(corpus) / gibbs_variance
                own["predicted"].append(1 + on_top[large].mean())
        print(f"corpus {seed}: " + ", ".join(f"{name} {own['all'][-1]:.3f}" for name, own in found.items()), flush=True)
    print()
    coverage = "coverage, all cells", "coverage, cells with 5 or more tokens"
    begin_table(("sampler", *coverage, "variance / Gibbs", "predicted", "smallest cosine with the true topics"))
    for name, own in found.items():
        cells = [
            f"{np.mean(own[key]):.3f} ± {np.std(own[key], ddof=1) / np.sqrt(len(own[key])):.3f}"
            for key in ("all", "large", "ratio")
        ]
        predicted = f"{np.mean(own['predicted']):.2f}" if own["predicted"] else ""
        row((name, *cells, predicted, f"{min(own['match']):.2f}"))
    finish(options, notes=f"Mean ± standard error over {options.n_corpora} corpora drawn from the model.")


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
    add_write(parser)
    run(parser.parse_args())
