"""The base class of estimators that delegate to a sampler, and what a new estimator needs in addition to it."""

from ..callbacks._hooks import rows_to_fit
from ..inference._chains import best_chain
from ..inference._schedule import Schedule
from ..utils._typing import fit_context
from ._estimator import BaseSampledEstimator, all_or_nothing, samples_density, takes_minibatches
from ._strategy import FitStrategy, Minibatch, Run, StatisticsStream, StreamStrategy, posterior_of_number, stack_draws

__all__ = [
    "BaseSampledEstimator",
    "FitStrategy",
    "Minibatch",
    "Run",
    "Schedule",
    "StatisticsStream",
    "StreamStrategy",
    "all_or_nothing",
    "best_chain",
    "fit_context",
    "posterior_of_number",
    "rows_to_fit",
    "samples_density",
    "stack_draws",
    "takes_minibatches",
]
