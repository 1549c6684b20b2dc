"""Fig. 3b of Baker et al. (2018): mixtures of web visitors by three samplers with the best settings of equal searches.

The paper tunes step sizes and priors by a grid search on the held-out score, and does not state the grid. Here SCIR,
SGRLD and slice sampling each have the settings of Table 3 and 32 others, the same points of a Sobol sequence for all:
step sizes of clusters and of weights within a factor of 30 of the sampler's own in Table 3, the prior of the categories
from 0.0005 to 1, and 5 to 120 initial clusters. The slice sampler uses all users at each step and has no step sizes.
The score is the log predictive density per validation user, 3,000 of the 32,711 training users, who are left out of the
first three stages:

1. all settings, 3,300 iterations with minibatches of 1,000 users, which are 110 passes,
2. the best ones and 16 settings near them (within a factor of 4, initial clusters within a factor of 2), 3,300
   iterations with another seed,
3. the best four of each sampler, 19,800 iterations, three other seeds,
4. the best one, 19,800 iterations with all training users, score of the test users with five seeds.

Further runs have the settings of SGRLD in Table 3, the prior 0.001 of the categories or 0.5, and fixed concentrations;
elsewhere the concentration is learned with the prior Ga(1, 1). The slice sampler with the same model and 30 initial
clusters shows how many clusters are needed. Their scores are those of the test users. The paper does not state which
concentrations it set.

The claims: SCIR reaches a better score than SGRLD, with less variation between seeds; the score of SGRLD becomes worse
with more iterations; SGRLD creates many more clusters than needed; a larger concentration reduces this surplus, but
makes the fit worse; the slice sampler is better than both.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from benchmarks.dp_msweb import Sampled, clusters_of, load, scores_of
from skmanifold.mixture._dirichlet_process.stochastic_slice import StochasticSlice
from skmanifold.samplers import SCIR, SGRLD, Slice

from ._searches import around, best_and_own, between, ranked, settings_of, whole
from .baker2018_fig3b import BATCH, ITERATIONS

NEEDS_DATA = True
SLICE = "slice sampling"
STOCHASTIC = {"SCIR": SCIR, "SGRLD": SGRLD}
SAMPLERS = (*STOCHASTIC, SLICE)
NAMES = ("step_size", "weights_step_size", "prior", "n_clusters")
OWN = {
    "SCIR": dict(zip(NAMES, (0.1, 0.1, 0.5, 20), strict=True)),
    "SGRLD": dict(zip(NAMES, (0.001, 0.005, 0.001, 30), strict=True)),
    SLICE: dict(zip(NAMES, (0.0, 0.0, 0.5, 20), strict=True)),
}
RANGES = dict(zip(NAMES, (around(30), around(30), between(5e-4, 1.0), whole(between(5, 120))), strict=True))
NEAR = dict(zip(NAMES, (around(4), around(4), around(4), whole(around(2))), strict=True))
LOG2_N, LOG2_NEAR = 5, 4  # of the settings besides the central one
N_LONGER, N_SEEDS, N_LONGER_SEEDS = 4, 5, 3
LEARNED = 0.0  # as a concentration
CONCENTRATIONS = (LEARNED, 3.0, 10.0, 30.0)
PRIORS = (0.001, 0.5)  # of SGRLD and of SCIR in Table 3
SHORT, LONG, QUICK = 3300, 19_800, 330
N_USERS, N_VALIDATION = 32_711, 3000
N_SHOWN = 5  # settings of each sampler in the table of the search


def case(stage, sampler, settings, seed, iterations, concentration=LEARNED):
    """Settings of a run."""
    settings = {**settings, "concentration": concentration, "seed": seed, "iterations": iterations}
    return {"stage": stage, "sampler": sampler, **settings}


def cases(quick):
    """All settings of the samplers with the same seed, and the concentrations."""
    return [
        case("search", sampler, settings, N_SEEDS, QUICK if quick else SHORT)
        for sampler in SAMPLERS
        for settings in settings_of(RANGES, OWN[sampler], 1 if quick else LOG2_N)
    ] + [
        case("concentration", sampler, {**OWN["SGRLD"], **steps, "prior": prior}, seed, QUICK if quick else LONG, alpha)
        for seed in range(1 if quick else N_SEEDS)
        for alpha in (CONCENTRATIONS[::3] if quick else CONCENTRATIONS)
        for prior in (PRIORS[:1] if quick else PRIORS)
        for sampler, steps in (("SGRLD", {}), (SLICE, {"step_size": 0.0, "weights_step_size": 0.0}))
    ]


def near_cases(rows, quick):
    """The best settings of the search and others near them."""
    return [
        case("near", sampler, settings, N_SEEDS + 1, QUICK if quick else SHORT)
        for sampler in SAMPLERS
        for settings in settings_of(NEAR, ranking(rows, "search", sampler)[0][0], 1 if quick else LOG2_NEAR)
    ]


def longer_cases(rows, quick):
    """The best of these settings."""
    return [
        case("longer", sampler, settings, N_SEEDS + 2 + i, QUICK if quick else LONG)
        for i in range(1 if quick else N_LONGER_SEEDS)
        for sampler in SAMPLERS
        for settings, _ in ranking(rows, "near", sampler)[: 1 if quick else N_LONGER]
    ]


def final_cases(rows, quick):
    """The best of these, with other seeds."""
    return [
        case("final", sampler, ranking(rows, "longer", sampler)[0][0], seed, QUICK if quick else LONG)
        for seed in range(1 if quick else N_SEEDS)
        for sampler in SAMPLERS
    ]


LATER_CASES = (near_cases, longer_cases, final_cases)


def users_of(stage):
    """Training users and those of the score: validation users in the search, otherwise the test users."""
    if stage in ("search", "near", "longer"):
        order = np.random.default_rng(0).permutation(N_USERS)
        return tuple(load("msweb_train.npz", np.sort(users)) for users in (order[N_VALIDATION:], order[:N_VALIDATION]))
    return load("msweb_train.npz"), load("msweb_test.npz")


def run(
    stage,
    sampler,
    step_size,
    weights_step_size,
    prior,
    n_clusters,
    concentration,
    seed,
    iterations,
):
    """A row after each number of iterations: seconds, score, occupied components, drawn concentration."""
    train, held_out = users_of(stage)
    n_batches = -(-train.n_rows // BATCH)
    numbers = [n for n in ITERATIONS if n <= iterations]
    if sampler == SLICE:
        make, batch = lambda: Slice(0, 0, redraw_order=False), None
    else:
        kind = STOCHASTIC[sampler]
        make, batch = lambda: StochasticSlice(kind(float(step_size)), kind(float(weights_step_size))), BATCH
    prior, alpha = float(prior), None if concentration == LEARNED else float(concentration)
    chain = Sampled(make, train, int(n_clusters), batch, prior, seed, alpha)
    scores = scores_of(chain, clusters_of(held_out, prior), [n // n_batches for n in numbers], by="passes")
    return [
        {
            "after": n,
            "seconds": float(seconds),
            "score": float(score),
            "components": int(size),
            "drawn_concentration": float(chain.draw().concentration),
        }
        for n, (seconds, _, score, size, _) in zip(numbers, scores, strict=True)
    ]


def last_rows(rows, stage):
    """The rows of a stage at the end of its runs."""
    return [each for each in rows if each["stage"] == stage and each["after"] == each["iterations"]]


def ranking(rows, stage, sampler):
    """Settings of a sampler with their mean negative score at the end of a stage, the best first."""
    own = [each for each in last_rows(rows, stage) if each["sampler"] == sampler]
    return ranked(own, NAMES, lambda each: -each["score"])


def final_rows(rows, sampler):
    """The rows of the last stage with the settings that the stage before it found."""
    for settings, _ in ranking(rows, "longer", sampler)[:1]:
        wanted = {"stage": "final", "sampler": sampler, **settings}
        return [each for each in rows if all(each[name] == value for name, value in wanted.items())]
    return []


def values_at(rows, after, name="score"):
    """The values of all seeds."""
    return [each[name] for each in rows if each["after"] == after]


def cells_of(settings):
    """The settings as text."""
    return [f"{settings[name]:g}" if settings[name] else "" for name in NAMES]


HEAD = ("step size of clusters", "step size of weights", "prior of the categories", "initial clusters", "score")


def show_search(rows):
    """Tables of the best settings by validation users."""
    searched = last_rows(rows, "search")
    title(
        f"Log predictive density per validation user after {searched[0]['after']:,} iterations: "
        "the best settings, and those of Table 3"
    )
    begin_table(("sampler", "rank", *HEAD))
    for sampler in SAMPLERS:
        found = ranking(rows, "search", sampler)
        for rank, settings, loss in best_and_own(found, OWN[sampler], N_SHOWN, "Table 3"):
            row((sampler, rank, *cells_of(settings), f"{-loss:.3f}"))
    for stage, text in (("near", "the best settings near these"), ("longer", "means over seeds")):
        found = last_rows(rows, stage)
        if found:
            title(f"The same after {found[0]['after']:,} iterations: {text}")
            begin_table(("sampler", *HEAD))
            for sampler in SAMPLERS:
                for settings, loss in ranking(rows, stage, sampler)[:N_LONGER]:
                    row((sampler, *cells_of(settings), f"{-loss:.3f}"))


def show_final(rows):
    """Scores and components of the best settings."""
    found = {sampler: final_rows(rows, sampler) for sampler in SAMPLERS}
    marks = sorted({each["after"] for own in found.values() for each in own})
    if not marks:
        return
    title("Log predictive density per test user with the best settings: median (range) over seeds, by iterations")
    begin_table(("sampler", *(f"{mark:,}" for mark in marks), "seconds"))
    for sampler, own in found.items():
        if own:
            cells = [spread(values_at(own, mark), ".3f") for mark in marks]
            row((sampler, *cells, f"{np.median(values_at(own, marks[-1], 'seconds')):.0f}"))
    title("Occupied components: median (range) over seeds")
    begin_table(("sampler", *(f"{mark:,}" for mark in marks)))
    for sampler, own in found.items():
        if own:
            row((sampler, *(spread(values_at(own, mark, "components"), ".0f") for mark in marks)))


def show_concentrations(rows):
    """Components, scores and drawn concentrations of SGRLD and of slice sampling by concentration."""
    found = last_rows(rows, "concentration")
    if not found:
        return
    title(f"Concentrations, after {found[0]['after']:,} iterations: median (range) over seeds")
    samplers = ("SGRLD", SLICE)
    begin_table(
        (
            "prior of the categories",
            "concentration",
            *(f"{what}, {sampler}" for what in ("components", "score") for sampler in samplers),
        )
    )
    for prior, alpha in product(PRIORS, CONCENTRATIONS):
        own = [each for each in found if (each["prior"], each["concentration"]) == (prior, alpha)]
        of = [[each for each in own if each["sampler"] == sampler] for sampler in samplers]
        if not all(of):
            continue
        shown = f"{alpha:g}"
        if alpha == LEARNED:
            drawn = (np.median([each["drawn_concentration"] for each in each_of]) for each_of in of)
            shown = "learned: " + " and ".join(f"{value:.1f}" for value in drawn)
        cells = [
            spread([each[name] for each in each_of], form)
            for name, form in (("components", ".0f"), ("score", ".3f"))
            for each_of in of
        ]
        row((f"{prior:g}", shown, *cells))


def show(rows):
    """The best settings of the search, scores of the test users with them, and the concentrations."""
    show_search(rows)
    show_final(rows)
    show_concentrations(rows)


def draw(rows):
    """Validation score of the search against the prior of the categories; test score by iterations."""
    import matplotlib.pyplot as plt

    from benchmarks._runs import line_style

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for number, sampler in enumerate(SAMPLERS):
        style, own = line_style(number), final_rows(rows, sampler)
        found = np.array([(settings["prior"], -loss) for settings, loss in ranking(rows, "search", sampler)])
        axes[0].plot(*found.T, linestyle="none", color=style["color"], marker=style["marker"], label=sampler)
        if own:
            marks = sorted({each["after"] for each in own})
            scores = [values_at(own, mark) for mark in marks]
            axes[1].plot(marks, [np.median(each) for each in scores], label=sampler, **style)
            low, high = [min(each) for each in scores], [max(each) for each in scores]
            axes[1].fill_between(marks, low, high, color=style["color"], alpha=0.15)
    axes[0].set(xscale="log", xlabel="prior of the categories", ylabel="log predictive density per validation user")
    axes[1].set(xscale="log", xlabel="iterations", ylabel="log predictive density per test user")
    axes[0].legend(fontsize="small")
    return figure
