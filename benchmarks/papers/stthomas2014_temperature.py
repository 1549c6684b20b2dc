"""Temperature of the Gibbs posterior of St. Thomas et al. (2014): acceptance, dimensions and accuracy.

Lines and planes as in Table 6.1, with noise of precision 10 and 1. `ConwayWalk`, the corrected random walk of the
paper, runs with the temperatures psi = 1e-6, 0.05, 1/2, 5 and 1e6, and with psi chosen by the search of Section 3.2.
The loss is that of the paper with residuals divided by their standard deviation, so that psi = 1/2 corresponds to the
normal likelihood. The paper states "temperature 1e-6". If this is psi, the rows have almost no effect; 1e6 is the
other reading, where the temperature is 1/psi. The acceptance is that of subspaces and of offsets: with steps of the
length of the radius of the sphere, which the search uses, and after burn-in, which tunes the step lengths to an
acceptance of 35%. The accuracy is that of held-out rows, by the densities of the mixture, and that of the labels of the
training rows in the last sweep, which are drawn with the loss. "gibbs", the sampler of the posterior, is shown for
comparison.

The paper does not state the priors and the lengths of the chains. Its claim: with the temperature 1e-6 the walk accepts
38% to 48% of its moves, and the held-out accuracy is 0.95 to 0.99 with the least noise.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._partitions import agreement, match
from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from benchmarks.subspaces_lines_planes import draw as draw_data
from skmanifold import SubspaceMixture
from skmanifold.samplers import ConwayWalk

TEMPERATURES = (1e-6, 0.05, 0.5, 5.0, 1e6, "auto")
GIBBS = "gibbs"
PRECISIONS = (10, 1)
N_DATA_SETS, N_SWEEPS = 10, 400


class Recorded(ConwayWalk):
    """`ConwayWalk` that keeps the last labels and the acceptance, step lengths and temperature of each sweep."""

    def init(self, model, key):
        """The state before the first sweep."""
        self.records = []
        return super().init(model, key)

    def step(self, model, state):
        """A sweep."""
        before, state = state.walk, super().step(model, state)
        self.records.append((before.temperature, np.exp(before.log_scales), state.walk.acceptance))
        self.labels = state.latents
        return state


def cases(quick):
    """Settings of the runs."""
    precisions, n_data_sets, n_sweeps = ((10,), 1, 60) if quick else (PRECISIONS, N_DATA_SETS, N_SWEEPS)
    return [
        {"noise_precision": nu, "temperature": temperature, "data_set": seed, "n_sweeps": n_sweeps}
        for nu, temperature, seed in product(precisions, (*TEMPERATURES, GIBBS), range(n_data_sets))
    ]


def acceptance(records):
    """Of subspaces and offsets, with steps of the length of the radius and after burn-in; tuned steps of subspaces."""
    temperatures, scales, rates = (np.array(values) for values in zip(*records, strict=True))
    long = (temperatures == temperatures[-1]) & (scales == 1).all(axis=(1, 2))
    late = np.arange(len(rates)) >= len(rates) // 2
    (first, second), (third, fourth) = (rates[chosen].mean(axis=(0, 1)) for chosen in (long, late))
    return {
        "long_subspaces": float(first),
        "long_offsets": float(second),
        "tuned_subspaces": float(third),
        "tuned_offsets": float(fourth),
        "step": float(np.median(scales[-1][:, 0])),
        "final_temperature": float(temperatures[-1]),
    }


def run(noise_precision, temperature, data_set, n_sweeps):
    """Acceptance, dimensions and accuracy of a chain."""
    _, X, y, held_out, truth = draw_data(data_set, noise_precision)
    sampler = "gibbs" if temperature == GIBBS else Recorded(temperature)
    with threadpool_limits(1):
        model = SubspaceMixture(2, sampler=sampler, max_iter=n_sweeps, thin=1, random_state=data_set).fit(X)
        accuracy = np.mean(match(model.labels_, y)[model.predict(held_out)] == truth)
    least, largest = sorted(model.dimensions_.tolist())
    dimensions = np.sort(model.posterior_["dimensions"][0], axis=1)
    found = {
        "accuracy": float(accuracy),
        "last_labels": "",
        "least": least,
        "largest": largest,
        "right": float(np.mean((dimensions == [1, 2]).all(axis=1))),
    }
    names = "long_subspaces", "long_offsets", "tuned_subspaces", "tuned_offsets", "step", "final_temperature"
    if temperature == GIBBS:
        return {**found, **dict.fromkeys(names, "")}
    found["last_labels"] = float(agreement(model.sampler_.labels, y))
    return {**found, **acceptance(model.sampler_.records)}


def select(rows, noise_precision, temperature):
    """The rows of a temperature, in the order of the data sets."""
    own = [each for each in rows if (each["noise_precision"], each["temperature"]) == (noise_precision, temperature)]
    return sorted(own, key=lambda each: each["data_set"])


def values(own, name):
    """A measurement for each data set."""
    return np.array([each[name] for each in own])


def show(rows):
    """A table for each precision of the noise."""
    head = (
        "psi",
        "accepted subspaces, steps of the radius",
        "offsets",
        "accepted subspaces, tuned steps",
        "offsets",
        "tuned step of subspaces",
        "dimensions (data sets)",
        "draws with dimensions 1, 2",
        "held-out accuracy",
        "training labels of the last sweep",
    )
    for nu in sorted({each["noise_precision"] for each in rows}, reverse=True):
        n = len(select(rows, nu, GIBBS))
        title(f"Noise of precision {nu:g}: median (range) over {n} data sets")
        begin_table(head)
        for temperature in (*TEMPERATURES, GIBBS):
            own = select(rows, nu, temperature)
            pairs = [f"{each['least']}, {each['largest']}" for each in own]
            dimensions = "; ".join(f"{pair} ({pairs.count(pair)})" for pair in sorted(set(pairs)))
            of_draws = dimensions, f"{values(own, 'right').mean():.0%}", spread(values(own, "accuracy"), ".2f")
            if temperature == GIBBS:
                row((GIBBS, *[""] * 5, *of_draws, ""))
                continue
            searched = temperature == "auto"
            name = f"search: {spread(values(own, 'final_temperature'), '.1g')}" if searched else f"{temperature:g}"
            names = "long_subspaces", "long_offsets", "tuned_subspaces", "tuned_offsets", "step"
            cells = (f"{np.median(values(own, each)):.2g}" for each in names)
            row((name, *cells, *of_draws, spread(values(own, "last_labels"), ".2f")))


def draw(rows):
    """Held-out accuracy and acceptance of long steps by the temperature."""
    import matplotlib.pyplot as plt

    precisions = sorted({each["noise_precision"] for each in rows}, reverse=True)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for number, nu in enumerate(precisions):
        for ax, name in zip(axes, ("long_subspaces", "accuracy"), strict=True):
            for temperature in TEMPERATURES:
                own = select(rows, nu, temperature)
                searched = temperature == "auto"
                style = {"color": f"C{number}", "marker": "x" if searched else "o", "linestyle": "", "alpha": 0.6}
                label = f"precision {nu:g}, {'search' if searched else 'fixed psi'}"
                label = label if temperature in (TEMPERATURES[0], "auto") else None
                ax.semilogx(values(own, "final_temperature"), values(own, name), label=label, **style)
    axes[0].set(xlabel="psi", ylabel="accepted subspaces, steps of the radius")
    axes[1].set(xlabel="psi", ylabel="held-out accuracy")
    axes[1].legend(fontsize="small")
    return figure
