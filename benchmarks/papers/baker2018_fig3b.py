"""Fig. 3b and 4b of Baker et al. (2018): mixtures of web visitors by SCIR, SGRLD and slice sampling.

Settings are those of Table 3: minibatches of 1,000 of 32,711 users; SCIR with step sizes of 0.1, the prior 0.5 of the
categories and 20 initial clusters; SGRLD with step sizes of 0.001 for the clusters and 0.005 for the weights, the prior
0.001 and 30 initial clusters. "K" of that table is read as the number of initial clusters. Rows outside the paper
separate the sampler from the prior: each with the prior of the other. The slice sampler of Fig. 4b uses all users at
each step, from 20 clusters, as the paper describes it and with split-merge moves. The score is the log predictive
density per held-out user, averaged over up to 20 draws of the second half of the run so far. The paper does not state
the prior of the concentration (here Ga(1, 1)), the number of iterations, the held-out users, or how it averages scores.

The claims: SCIR reaches a better score than SGRLD, with less variation between seeds; the score of SGRLD becomes worse
with more iterations; the slice sampler is better than both.
"""

from __future__ import annotations

import numpy as np

from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from benchmarks.dp_msweb import load
from benchmarks.dp_msweb import run as run_method
from skmanifold.mixture._dirichlet_process.stochastic_slice import StochasticSlice
from skmanifold.samplers import SCIR, SGRLD, Slice

NEEDS_DATA = True
BATCH = 1000
METHODS = {  # sampler, initial clusters, minibatch, prior of the categories
    "SCIR": (lambda: StochasticSlice(SCIR(0.1), SCIR(0.1)), 20, BATCH, 0.5),
    "SGRLD": (lambda: StochasticSlice(SGRLD(0.001), SGRLD(0.005)), 30, BATCH, 0.001),
    "SCIR, prior of SGRLD": (lambda: StochasticSlice(SCIR(0.1), SCIR(0.1)), 20, BATCH, 0.001),
    "SGRLD, prior of SCIR": (lambda: StochasticSlice(SGRLD(0.001), SGRLD(0.005)), 30, BATCH, 0.5),
    "slice sampling": (lambda: Slice(0, 0, redraw_order=False), 20, None, 0.5),
    "slice sampling with split-merge": (lambda: Slice(5), 20, None, 0.5),
}
ITERATIONS = (330, 990, 3300, 9900, 19_800, 39_600)  # of minibatches; 33 are a pass
N_PER_PASS = 33
N_SEEDS = 5


def passes_of(iterations):
    """The number of passes over all users."""
    return iterations // N_PER_PASS


def cases(quick):
    """Settings of the runs."""
    most = ITERATIONS[0] if quick else ITERATIONS[-1]
    return [
        {"method": method, "seed": seed, "iterations": most}
        for seed in range(1 if quick else N_SEEDS)
        for method in METHODS
    ]


def run(method, seed, iterations):
    """A row after each number of passes: seconds, score, occupied components."""
    train, test = load("msweb_train.npz"), load("msweb_test.npz")
    marks = [passes_of(n) for n in ITERATIONS if n <= iterations]
    found = []
    for (seconds, _, score, size, _), passes in zip(
        run_method(METHODS[method], train, test, seed, marks, by="passes"), marks, strict=True
    ):
        found.append({"passes": passes, "seconds": float(seconds), "score": float(score), "components": int(size)})
    return found


def of(rows, method, passes, name="score"):
    """The values of all seeds."""
    return [each[name] for each in rows if (each["method"], each["passes"]) == (method, passes)]


def show(rows):
    """Scores and components by passes."""
    marks = sorted({each["passes"] for each in rows})
    title("Log predictive density per held-out user: median (range) over seeds, by passes over all users")
    begin_table(("method", *(f"{mark:,}" for mark in marks), "seconds"))
    for method in METHODS:
        found = [of(rows, method, mark) for mark in marks]
        cells = [spread(each, ".3f") if each else "" for each in found]
        row((method, *cells, f"{np.median(of(rows, method, marks[-1], 'seconds') or [np.nan]):.0f}"))
    title("Occupied components: median (range) over seeds")
    begin_table(("method", *(f"{mark:,}" for mark in marks)))
    for method in METHODS:
        found = [of(rows, method, mark, "components") for mark in marks]
        row((method, *(f"{np.median(each):.0f} ({min(each)} to {max(each)})" if each else "" for each in found)))


def draw(rows):
    """Score by passes, with the range over seeds."""
    import matplotlib.pyplot as plt

    from benchmarks._runs import line_style

    marks = sorted({each["passes"] for each in rows})
    figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for number, method in enumerate(METHODS):
        known = [mark for mark in marks if of(rows, method, mark)]
        scores, style = [of(rows, method, mark) for mark in known], line_style(number)
        ax.plot(known, [np.median(each) for each in scores], label=method, **style)
        ax.fill_between(
            known, [min(each) for each in scores], [max(each) for each in scores], color=style["color"], alpha=0.15
        )
    ax.set(xscale="log", xlabel="passes over all users", ylabel="log predictive density per user")
    ax.legend(fontsize="small")
    return figure
