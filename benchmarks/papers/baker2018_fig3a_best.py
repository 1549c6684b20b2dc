"""Fig. 3a of Baker et al. (2018): topics of Wikipedia by SCIR and SGRLD with the best settings of equal searches.

The paper tunes step sizes and priors by a grid search on the held-out score, and does not state the grid. Here each
sampler has the settings of Table 2 and 32 others, the same points of a Sobol sequence for both: the first step size
within a factor of 30 of the sampler's own in Table 2, constant steps for half of the points and otherwise a delay of 10
to 1,000 steps and an exponent of 0.2 to 1, priors of 0.003 to 0.3 for the proportions and of 0.00005 to 1 for the
topics. The score is the perplexity of 500 validation documents, which are neither training nor test documents:

1. all settings, 5,000 documents and 50 Gibbs sweeps per document,
2. for each sampler the best constant and the best decreasing step sizes, each with 16 settings near it (step size,
   delay and priors within a factor of 4, exponent within a factor of 1.5), 10,000 documents,
3. the best two constant and the best two decreasing ones of these, 50,000 documents,
4. the best constant and the best decreasing one, 50,000 documents and 200 sweeps, perplexity of the 1,000 test
   documents with three seeds, as in `baker2018_fig3a` for the settings of Table 2.

K = 100, minibatches of 50 documents, 8,000 words. The paper does not state how many documents it tuned on or streamed.

The claims: SCIR reaches a lower perplexity than SGRLD; a decreasing step size also improves SCIR; the best settings of
SGRLD are similar to those of Patterson and Teh (2013), which are those of Table 2.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from benchmarks._results import begin_table, row, title
from skmanifold.samplers import SCIR, SGRLD, PolynomialDecay

from ._searches import around, best_and_own, between, ranked, settings_of, zero_or
from ._streams import SEEN, draw_curves, stream_perplexities, table_of, values_of

NEEDS_DATA = True
SAMPLERS = {"SCIR": SCIR, "SGRLD": SGRLD}
NAMES = ("step_size", "delay", "exponent", "doc_topic_prior", "topic_word_prior")
OWN = {
    "SCIR": dict(zip(NAMES, (0.5, 10.0, 0.33, 0.1, 0.5), strict=True)),
    "SGRLD": dict(zip(NAMES, (0.01, 1000.0, 0.6, 0.01, 1e-4), strict=True)),
}
RANGES = dict(
    zip(NAMES, (around(30), between(10, 1000), zero_or(0.2, 1.0), between(0.003, 0.3), between(5e-5, 1.0)), strict=True)
)
NEAR = dict(zip(NAMES, (around(4), around(4), around(1.5), around(4), around(4)), strict=True))
LOG2_N, LOG2_NEAR = 5, 4  # of the settings besides the central one
N_LONGER, N_SEEDS, N_TEST = 2, 3, 1000
SIZES = {  # documents, sweeps and held-out documents of each stage
    "search": (5000, 50, 500),
    "near": (10_000, 50, 500),
    "longer": (50_000, 50, 500),
    "final": (50_000, 200, N_TEST),
}
SCHEDULES = ("constant", "decreasing")
GROUPS = list(product(SAMPLERS, SCHEDULES))
METHODS = [f"{sampler}, {schedule} steps" for sampler, schedule in GROUPS]
N_SHOWN = 5  # settings of each sampler in the table of the search


def case(stage, sampler, settings, seed, quick):
    """Settings of a run."""
    n_seen, sweeps, n_held_out = (500, 4, 20) if quick else SIZES[stage]
    sizes = {"n_seen": n_seen, "sweeps": sweeps, "n_held_out": n_held_out}
    return {"stage": stage, "sampler": sampler, **settings, "seed": seed, **sizes}


def cases(quick):
    """All settings of both samplers, with the same seed."""
    return [
        case("search", sampler, settings, N_SEEDS, quick)
        for sampler in SAMPLERS
        for settings in settings_of(RANGES, OWN[sampler], 2 if quick else LOG2_N)
    ]


def near_cases(rows, quick):
    """The best settings of the search and others near them."""
    return [
        case("near", group[0], settings, N_SEEDS + 1, quick)
        for group in GROUPS
        for settings in settings_of(NEAR, ranking(rows, "search", *group)[0][0], 1 if quick else LOG2_NEAR)
    ]


def longer_cases(rows, quick):
    """The best of these settings."""
    return [
        case("longer", group[0], settings, N_SEEDS + 2, quick)
        for group in GROUPS
        for settings, _ in ranking(rows, "near", *group)[: 1 if quick else N_LONGER]
    ]


def final_cases(rows, quick):
    """The best of these, with several seeds."""
    return [
        case("final", group[0], ranking(rows, "longer", *group)[0][0], seed, quick)
        for seed in range(1 if quick else N_SEEDS)
        for group in GROUPS
    ]


LATER_CASES = (near_cases, longer_cases, final_cases)


def run(
    stage,
    sampler,
    step_size,
    delay,
    exponent,
    doc_topic_prior,
    topic_word_prior,
    seed,
    n_seen,
    sweeps,
    n_held_out,
):
    """Perplexities of test documents in the last stage, otherwise of validation documents, and seconds."""
    found = stream_perplexities(
        SAMPLERS[sampler](PolynomialDecay(float(step_size), float(delay), float(exponent))),
        float(doc_topic_prior),
        float(topic_word_prior),
        n_components=100,
        n_words=8000,
        n_test=n_held_out,
        first_test=0 if stage == "final" else N_TEST,
        n_seen=n_seen,
        sweeps=sweeps,
        seed=seed,
    )
    return {**{f"after_{n}": found.get(f"after_{n}", "") for n in SEEN}, "seconds": found["seconds"]}


def schedule_of(settings):
    """Whether the step size is constant or decreases."""
    return SCHEDULES[settings["exponent"] > 0]


def ranking(rows, stage, sampler, schedule=None):
    """Settings of a sampler with their perplexity at the end of a stage, the best first."""
    own = values_of(rows, stage=stage, sampler=sampler)
    own = [each for each in own if schedule is None or schedule_of(each) == schedule]
    return ranked(own, NAMES, lambda each: each[f"after_{each['n_seen']}"])


def final_rows(rows):
    """The rows of the last stage with the settings that the stage before it found, and the method of each."""
    found = []
    for method, group in zip(METHODS, GROUPS, strict=True):
        for settings, _ in ranking(rows, "longer", *group)[:1]:
            own = values_of(rows, stage="final", sampler=group[0], **settings)
            found += [{**each, "method": method} for each in own]
    return found


def cells_of(settings):
    """The settings as text."""
    constant = schedule_of(settings) == "constant"
    return [
        "" if constant and name == "delay" else "0" if constant and name == "exponent" else f"{settings[name]:g}"
        for name in NAMES
    ]


HEAD = ("first step size", "delay", "exponent", "prior of the proportions", "prior of the topics", "perplexity")


def show(rows):
    """The best settings of the search, those near them, those of the longer runs, and test perplexities."""
    n_seen = values_of(rows, stage="search")[0]["n_seen"]
    title(f"Perplexity of validation documents after {n_seen:,} documents: the best settings, and those of Table 2")
    begin_table(("sampler", "rank", *HEAD))
    for sampler in SAMPLERS:
        found = ranking(rows, "search", sampler)
        for rank, settings, perplexity in best_and_own(found, OWN[sampler], N_SHOWN, "Table 2"):
            row((sampler, rank, *cells_of(settings), f"{perplexity:.0f}"))
    for stage, text in (("near", ": the best settings near these"), ("longer", "")):
        found = values_of(rows, stage=stage)
        if found:
            title(f"Perplexity of validation documents after {found[0]['n_seen']:,} documents{text}")
            begin_table(("sampler", *HEAD))
            for group in GROUPS:
                for settings, perplexity in ranking(rows, stage, *group)[:N_LONGER]:
                    row((group[0], *cells_of(settings), f"{perplexity:.0f}"))
    final = final_rows(rows)
    if final:
        title("Perplexity of test documents: median (range) over seeds; median seconds of all documents")
        head, lines = table_of(final, METHODS)
        begin_table(head)
        for cells in lines:
            row(cells)


def draw(rows):
    """Validation perplexity of the search against the first step size; test perplexity by documents seen."""
    import matplotlib.pyplot as plt

    from benchmarks._runs import line_style

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for number, group in enumerate(GROUPS):
        found = np.array([(settings["step_size"], loss) for settings, loss in ranking(rows, "search", *group)])
        style = line_style(number)
        axes[0].plot(*found.T, linestyle="none", color=style["color"], marker=style["marker"], label=METHODS[number])
    axes[0].set(xscale="log", yscale="log", xlabel="first step size", ylabel="perplexity of validation documents")
    axes[0].legend(fontsize="small")
    final = final_rows(rows)
    if final:
        draw_curves(axes[1], final, METHODS)
        axes[1].set_ylabel("perplexity of test documents")
    return figure
