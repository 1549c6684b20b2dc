"""Quality of results: effective samples per second and held-out scores."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._targets import TARGETS
from benchmarks.samplers_ess import SETTINGS, OurProgram
from skmanifold import ExponentialFamilyMixture, StochasticLDA
from skmanifold.datasets import make_lda_corpus
from skmanifold.metrics import document_completion


class EffectiveSamples:
    """Of four chains, the smallest over the test functions, per second of processor time."""

    targets: ClassVar = {"HMC": "normal, d=10", "GMC": "circle"}
    params = tuple(targets)
    param_names = ("sampler",)
    unit = "ESS/s"

    def setup(self, sampler):
        name = self.targets[sampler]
        setting = next(each for each in SETTINGS[name] if type(getattr(each, "sampler", None)).__name__ == sampler)
        self.program = OurProgram(TARGETS[name](), setting, 4)

    def track_ess_a_second(self, sampler):
        with threadpool_limits(1):
            results = [self.program.run(0.2, turn) for turn in range(3)]
        return float(np.median([result.ess.min() / result.cpu for result in results]))


class HeldOut:
    """Exact figures: the same seeds give the same numbers on the same machine."""

    def setup(self):
        self.counts = make_lda_corpus(600, 1000, 10, mean_length=80, random_state=0).data
        rng = np.random.default_rng(0)
        self.rows = rng.normal(0.0, 4.0, (4, 5))[rng.integers(0, 4, 1000)] + rng.normal(size=(1000, 5))

    def track_lda_perplexity(self):
        lda = StochasticLDA(10, random_state=0).fit(self.counts[100:])
        return document_completion(lda.components_, self.counts[:100], np.full(10, 0.1)).perplexity

    def track_gaussian_mixture_log_density(self):
        return ExponentialFamilyMixture(4, random_state=0).fit(self.rows[200:]).score(self.rows[:200])

    track_lda_perplexity.unit = "perplexity"
    track_gaussian_mixture_log_density.unit = "nats per row"
