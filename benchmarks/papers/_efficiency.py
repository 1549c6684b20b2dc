"""How many gradients samplers need for a move, at the best of several settings whose bias is small."""

from __future__ import annotations

import time
import warnings

import numpy as np

from benchmarks._results import begin_table, row
from skmanifold import sample
from skmanifold.samplers import NonFiniteError

BIAS = 0.03  # of a standard deviation
BETWEEN = 0.5  # time between draws


def measure(density, sampler, position, n_chains, duration, checked, means, gradients_of):
    """Largest bias of the functions `checked`, gradients per move, and microseconds per gradient.

    Chains begin at `position`; `duration` is the time of a chain after burn-in. `checked` returns an array with one
    column per function, and `means` are their exact means. ``gradients_of(draws, n_gradients)`` is the number for a
    move.
    """
    start, n_draws = time.perf_counter(), round(duration / BETWEEN)
    thin = max(1, round(BETWEEN / sampler.step_size))
    options = {"n_draws": n_draws, "thin": thin, "n_chains": n_chains, "random_state": 0}
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The mean kinetic temperature")
            draws = sample(density, sampler, position=position, **options)
    except NonFiniteError:
        return {"bias": np.inf, "gradients": np.inf, "microseconds": np.nan}
    n_gradients = n_chains * n_draws * thin
    microseconds = 1e6 * (time.perf_counter() - start) / (1.5 * n_gradients)  # the burn-in is half as long
    values = checked(draws.position)
    bias = np.abs(values.mean(axis=(0, 1)) - means) / values.std(axis=(0, 1))
    return {
        "bias": float(bias.max()),
        "gradients": float(gradients_of(draws, n_gradients)),
        "microseconds": float(microseconds),
    }


def best_settings(rows, samplers):
    """The row of each sampler that needs the least gradients, or None if all are biased."""
    found = {}
    for sampler in samplers:
        own = [each for each in rows if each["sampler"] == sampler and each["bias"] <= BIAS]
        found[sampler] = min(own, key=lambda each: each["gradients"], default=None)
    return found


def show_best(rows, samplers, without_scale):
    """A table with the best setting of each sampler."""
    begin_table(("sampler", "step size", "scale", "gradients", "largest bias", "microseconds per gradient"))
    for sampler, best in best_settings(rows, samplers).items():
        if best is None:
            row((sampler, "", "", f"no setting has a bias below {BIAS:.0%}", "", ""))
        else:
            microseconds, size = best["microseconds"], best["step_size"]
            scale = "" if sampler in without_scale else f"{best['scale']:g}"
            numbers = f"{best['gradients']:.0f}", f"{best['bias']:.3f}", f"{microseconds:.2f}"
            row((sampler, f"{size:g}", scale, *numbers))
