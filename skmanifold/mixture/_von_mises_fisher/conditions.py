"""What the fitted attributes of `VonMisesFisherMixture` must satisfy."""

from __future__ import annotations

from ...utils._conditions import FLAG, MOST_COUNTED, Array, Counted, Lacking, Names, Real, Whole, index
from ...utils._declared import Held, holds
from .em import DirectionStatistics

fitted_mixture = holds(
    n_features_in_=Counted("n_features"),
    feature_names_in_=Lacking(Names("n_features")),
    weights_=Array("float64", ("n_components",), low=0, sums_to_one=0),
    mean_directions_=Array("float64", ("n_components", "n_features"), unit=1),
    concentrations_=Array("float64", ("n_components",), low=0, high=MOST_COUNTED),
    labels_=Lacking(index("n_rows", below="n_components")),
    converged_=Lacking(FLAG),
    n_iter_=Lacking(Whole()),
    lower_bound_=Lacking(Real()),
    log_likelihood_trace_=Lacking(Array("float64", (None,))),
    n_batch_iter_=Lacking(Whole()),
    _statistics=Held(DirectionStatistics),
)
