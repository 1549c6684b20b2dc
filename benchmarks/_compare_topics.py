"""Comparisons of topic models: training speed, held-out perplexity at equal processor time, and memory."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from functools import partial

import numpy as np

from benchmarks._compare_turns import OURS, Contest, Contestant, Measure, has_data, timed
from benchmarks._corpora import load_counts, split_documents
from benchmarks._peers import Gensim, RustMallet, ScikitLearn, Tomotopy, Topica
from benchmarks._stop_after import StopAfter
from benchmarks.lda_memory import PeakMemory
from benchmarks.lda_perplexity import score
from benchmarks.lda_speed import Ours
from skmanifold import StochasticLDA
from skmanifold.datasets import make_lda_corpus
from skmanifold.samplers import ESCA, Gibbs

BETA = 0.1
ONLINE = {"gensim": Gensim, "sklearn": ScikitLearn}
IN_ONE_CALL = {"topica": Topica, "pyrmallet": RustMallet}
_PART = 1000  # documents that an online method reads between two readings of the clock


def corpus(quick):
    """Counts, and a description of them."""
    if has_data():
        X, name = load_counts("wiki"), "Wikipedia articles"
    else:
        X = make_lda_corpus(12_000, 15_000, 100, mean_length=200, topic_word_prior=0.01, random_state=0).data
        X, name = X.astype(np.int32), "synthetic documents (SKMANIFOLD_DATA is not set)"
    X = X[:800] if quick else X
    return X, f"{name}: {X.shape[0]:,} documents, {X.shape[1]:,} words, {int(X.sum()):,} tokens"


def n_topics(quick):
    return 50 if quick else 100  # priors of 50/K: scikit-learn accepts none above 1


def speed(quick):
    """Tokens per second of a pass over a trained state."""
    X, data = corpus(quick)
    K = n_topics(quick)
    settings = X, K, 50 / K, BETA
    n_train, n_passes = (6, 10) if quick else (40, 4)

    def begin(make, n_train, n_steps, n_passes_of_step=1):
        chain = make()
        for _ in range(max(1, n_train // n_passes_of_step)):
            chain.step()
        n_tokens = int(X.sum()) * n_steps * n_passes_of_step

        def take_turn(turn):
            return (n_tokens / 1e6 / timed(lambda: [chain.step() for _ in range(n_steps)])[1],)

        return take_turn

    def begin_online(trainer):
        few = X[: 100 if quick else 400]
        peer, n_tokens = trainer(few, *settings[1:]), int(few.sum())
        return lambda turn: (n_tokens / 1e6 / timed(peer.step)[1],)

    contestants = [
        Contestant('StochasticLDA, "esca"', partial(begin, lambda: Ours(*settings, ESCA()), n_train, n_passes)),
        Contestant('StochasticLDA, "gibbs"', partial(begin, lambda: Ours(*settings, Gibbs()), n_train // 2, n_passes)),
        Contestant("tomotopy", partial(begin, lambda: Tomotopy(*settings), n_train, max(1, n_passes // 2)), "tomotopy"),
        *(
            Contestant(
                trainer.name, partial(begin, partial(trainer, *settings), n_train, 1, trainer.n_passes_of_step), name
            )
            for name, trainer in IN_ONE_CALL.items()
        ),
        *(Contestant(trainer.name, partial(begin_online, trainer), name) for name, trainer in ONLINE.items()),
    ]
    return Contest(
        f"LDA: training speed, K={K}",
        data,
        (Measure("million tokens per second"),),
        contestants,
        f"Full passes over the corpus, in a state that was trained for {n_train} passes ({n_train // 2} for Gibbs "
        "sampling). topica and pyrmallet compute the log likelihood once in eight passes, about a twentieth of their "
        "time. gensim and scikit-learn use online variational Bayes and read a part of the documents.",
    )


class InParts:
    """An online trainer whose steps are parts of the corpus, so that it can stop close to a small budget."""

    def __init__(self, trainer, X, *settings):
        self.peer = trainer(X, *settings)
        self.parts = [X[begin : begin + _PART] for begin in range(0, X.shape[0], _PART)]
        self.topic_word, self.n_steps = self.peer.topic_word, 0

    def step(self):
        part = self.parts[self.n_steps % len(self.parts)]
        if isinstance(self.peer, Gensim):
            from gensim.matutils import Sparse2Corpus

            self.peer.corpus = Sparse2Corpus(part, documents_columns=False)
        else:
            self.peer.X = part
        self.peer.step()
        self.n_steps += 1


def perplexity(quick):
    """Of held-out documents, by one evaluator, after the same processor time."""
    X, data = corpus(quick)
    train, test = split_documents(X)
    test = test[:100] if quick else test[:1000]
    K, budget = n_topics(quick), 0.5 if quick else 10.0
    alpha = 50 / K

    def begin_ours():
        StochasticLDA(10, max_iter=3).fit(train[:100])  # load the machine code

        def take_turn(turn):
            lda = StochasticLDA(
                K,
                sampler=ESCA(n_average=max(1, round(budget / 2))),
                doc_topic_prior=alpha,
                topic_word_prior=BETA,
                max_iter=1_000_000,
                burn_in=0,
                thin=1_000_000,
                random_state=turn,
            ).set_callbacks(StopAfter(budget, time.process_time))
            _, seconds = timed(lambda: lda.fit(train))
            return score(lda.components_, test, alpha).perplexity, seconds

        return take_turn

    def begin_peer(make):
        def take_turn(turn):
            peer, seconds = make(train, K, alpha, BETA, turn + 1), 0.0
            while seconds < budget:
                seconds += timed(peer.step)[1]
            return score(peer.topic_word(), test, alpha).perplexity, seconds

        return take_turn

    def begin_retrained(make):
        pace = budget / 2  # seconds of a pass, as in the run before; the first run begins with two passes

        def take_turn(turn):
            nonlocal pace
            peer, seconds, n_passes = make(train, K, alpha, BETA, turn + 1), 0.0, 0
            while seconds < budget:
                n_passes = max(n_passes + 1, math.ceil(budget / pace))
                seconds = timed(partial(peer.train, n_passes))[1]
                pace = seconds / n_passes
            return score(peer.topic_word(), test, alpha).perplexity, seconds

        return take_turn

    return Contest(
        f"LDA: held-out perplexity after {budget:g} s of processor time, K={K}",
        f"{data}; {train.shape[0]:,} training and {test.shape[0]:,} test documents",
        (Measure("perplexity", "lower"), Measure("seconds of processor time", None)),
        [
            Contestant("StochasticLDA", begin_ours),
            Contestant("tomotopy", partial(begin_peer, Tomotopy), "tomotopy"),
            *(
                Contestant(trainer.name, partial(begin_retrained, trainer), name)
                for name, trainer in IN_ONE_CALL.items()
            ),
            *(
                Contestant(trainer.name, partial(begin_peer, partial(InParts, trainer)), name)
                for name, trainer in ONLINE.items()
            ),
        ],
        "Document completion with the same evaluator for all methods. StochasticLDA stops before the budget is "
        "exceeded, the other methods after the step that reaches it; topica and pyrmallet, which cannot continue a "
        "fit, make the number of passes that reaches it. The time of StochasticLDA includes reading the matrix, that "
        f"of the others does not. Online methods use steps of {_PART:,} documents. Each run has its own seed.",
    )


def memory(quick):
    """The increase of the resident memory during two passes, each in a new process."""
    n_documents, K = (200, 50) if quick else (1000, 100)
    X, data = corpus(quick)

    def begin(name):
        command = [sys.executable, "-m", "benchmarks._compare_topics", name, str(n_documents), str(K)]

        def take_turn(turn):
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            return (json.loads(output.stdout.splitlines()[-1]),)

        return take_turn

    peers = {"tomotopy": Tomotopy, **IN_ONE_CALL, **ONLINE}
    names = {OURS: "StochasticLDA"} | {package: peer.name for package, peer in peers.items()}
    return Contest(
        f"LDA: memory, K={K}",
        f"the first {min(n_documents, X.shape[0]):,} documents of {data}",
        (Measure("MiB in addition to the count matrix", "lower"),),
        [Contestant(name, partial(begin, package), package) for package, name in names.items()],
        "Increase of the peak resident memory during two passes, each in a new process, after a fit of a few documents "
        "that loads the code. It includes the copies of the documents as lists of words or texts that tomotopy, topica "
        "and pyrmallet read.",
    )


def rise(package, n_documents, K):
    """MiB that two passes of one trainer need; called in a new process."""
    X = corpus(False)[0][:n_documents]

    def train(X, K):
        if package == OURS:
            StochasticLDA(K, doc_topic_prior=0.1, topic_word_prior=BETA, max_iter=2, random_state=0).fit(X)
            return
        peer = {"tomotopy": Tomotopy, **IN_ONE_CALL, **ONLINE}[package](X, K, 0.1, BETA)
        if package in IN_ONE_CALL:
            peer.train(2)
        else:
            for _ in range(2):
                peer.step()
        peer.topic_word()

    train(X[:30], 5)
    with PeakMemory() as seen:
        train(X, K)
    return (seen.peak - seen.before) / 2**20


if __name__ == "__main__":
    print(json.dumps(rise(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
