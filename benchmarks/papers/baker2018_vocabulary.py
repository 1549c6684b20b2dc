"""Sec. 5.1 of Baker et al. (2018): SCIR and SGRLD on Wikipedia by size of the vocabulary.

The most frequent 2,000, 8,000 and all 14,766 words of the same articles; otherwise as `baker2018_priors`: K = 100,
minibatches of 50, 50,000 documents, 50 Gibbs sweeps per document, 1,000 held-out documents. "Table 2" has the step
sizes and priors of the paper, which differ between the samplers. In the other rows both have the same priors, 0.01 of
the proportions and the given one of the topics, and steps that decrease with the exponent 0.6. As perplexities of
vocabularies of different sizes cannot be compared, the advantage of SCIR is the ratio of the perplexities for the same
seed. The paper has no such experiment.

The claim: a larger vocabulary would increase the advantage of SCIR, as topics are sparser.
"""

from __future__ import annotations

from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread

from ._streams import grid_cases, stream_perplexities, values_of
from .baker2018_fig3a import METHODS, K
from .baker2018_priors import SAMPLERS

NEEDS_DATA = True
N_WORDS = (2000, 8000, 14_766)
TABLE_2 = "Table 2"
PRIORS = (TABLE_2, 0.2, 0.05)  # of the topics
ALPHA = 0.01
N_SEEDS = 3


def cases(quick):
    """Settings of the runs."""
    n_words, n_seeds = ((2000,), 1) if quick else (N_WORDS, N_SEEDS)
    n_seen, n_test, sweeps = (500, 20, 4) if quick else (50_000, 1000, 50)
    sizes = {"n_seen": n_seen, "n_test": n_test, "sweeps": sweeps}
    return grid_cases(SAMPLERS, {"n_words": n_words, "prior": PRIORS}, n_seeds, sizes)


def run(sampler, n_words, prior, seed, n_seen, n_test, sweeps):
    """Perplexities after some documents, and seconds."""
    own, (alpha, beta) = METHODS[sampler] if prior == TABLE_2 else (SAMPLERS[sampler](), (ALPHA, prior))
    settings = {"n_components": K, "n_words": n_words, "n_test": n_test, "n_seen": n_seen, "sweeps": sweeps}
    return stream_perplexities(own, alpha, beta, **settings, seed=seed)


def show(rows):
    """Perplexities and their ratio after all documents."""
    last = f"after_{rows[0]['n_seen']}"
    title(f"Held-out perplexity after {rows[0]['n_seen']:,} documents: median (range) over seeds")
    begin_table(("settings", "words", *SAMPLERS, "SGRLD / SCIR"))
    for prior in PRIORS:
        for n_words in sorted({each["n_words"] for each in rows}):
            scir, sgrld = (
                [each[last] for each in values_of(rows, sampler=name, n_words=n_words, prior=prior)]
                for name in ("SCIR", "SGRLD")
            )
            ratios = [second / first for first, second in zip(scir, sgrld, strict=True)]
            name = prior if prior == TABLE_2 else f"prior of the topics {prior:g}"
            row((name, f"{n_words:,}", spread(scir, ".0f"), spread(sgrld, ".0f"), spread(ratios, ".3f")))
