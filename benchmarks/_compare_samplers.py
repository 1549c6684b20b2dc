"""Comparisons of samplers: effective samples per second on densities with known moments, with blackjax."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks._compare_turns import Contest, Contestant, Measure, is_installed
from benchmarks._targets import TARGETS
from benchmarks.samplers_ess import SETTINGS, OurProgram, Ours, TheirProgram

N_CHAINS = 4
CHOSEN = {  # samplers of each target: names of ours, algorithms of blackjax
    "normal, d=10": (("HMC", "SGHMC", "SGLD"), ("hmc", "nuts", "sghmc", "sgld")),
    "normal, d=1000": (("HMC", "SGHMC", "SGLD"), ("hmc", "nuts", "sghmc", "sgld")),
    "circle": (("GMC", "SGGMC"), ("hmc",)),
    "vMF mixture": (("GMC",), ()),
}


PLAIN = {
    "normal, d=10": "normal distribution, 10 dimensions",
    "normal, d=1000": "normal distribution, 1000 dimensions",
    "circle": "circle with two modes",
    "vMF mixture": "mixture of von Mises-Fisher distributions",
}
DENSITIES = {
    "circle": "a density with two modes on a circle",
    "vMF mixture": "two mean directions of a mixture, on a product of circles",
}


def samplers(quick):
    """Draws of four chains; none without arviz-stats, which computes effective sample sizes."""
    if not is_installed("arviz_stats"):
        return []
    names = ["normal, d=10", "circle"] if quick else list(CHOSEN)
    return [_contest(name, 0.1 if quick else 0.5) for name in names]


def _contest(name, seconds):
    target = TARGETS[name]()
    known, theirs = CHOSEN[name]

    def begin(program):
        prepared = program()

        def take_turn(turn):
            result = prepared.run(seconds, turn)
            errors = np.abs(result.mean - target.mean) / target.sd * np.sqrt(result.ess)
            return result.ess.min() / result.cpu, errors.max()

        return take_turn

    contestants, seen = [], set()
    for setting in SETTINGS[name]:
        if isinstance(setting, Ours):
            kind = type(setting.sampler).__name__
            if kind in known and kind not in seen:
                program = partial(OurProgram, target, setting, N_CHAINS)
                contestants.append(Contestant(str(setting), partial(begin, program)))
            seen.add(kind)
        elif setting.algorithm in theirs:
            program = partial(TheirProgram, target, setting, N_CHAINS, name)
            contestants.append(Contestant(str(setting), partial(begin, program), "blackjax"))
    contestants.sort(key=lambda contestant: [*known, "blackjax"].index(contestant.name.partition("(")[0].split(".")[0]))
    return Contest(
        f"Sampler efficiency: {PLAIN.get(name, name)}",
        f"{DENSITIES.get(name, 'standard normal density')}; {N_CHAINS} chains, {seconds:g} s per run",
        (
            Measure("effective samples per second of processor time"),
            Measure("largest error, standard errors", None, digits=".1f"),
        ),
        contestants,
        "The effective sample size is the smallest over the test functions. The error is the largest error of a mean, "
        "in units of its standard error. Errors above about three indicate a bias caused by the step size.",
    )
