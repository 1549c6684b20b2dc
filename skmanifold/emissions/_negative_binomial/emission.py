"""Emission of counts whose variance is larger than their mean; cells may be missing."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np

from ...utils._sklearn import Interval
from ...utils._typing import ArrayLike
from .._base import positive_prior
from .._feature_family import CountEmission
from .._linear_rows import LinearRows
from .dispersions import dispersions_of
from .family import NegativeBinomialFamily

LEAST_DISPERSION, MOST_DISPERSION = 1e-6, 1e6


class NegativeBinomial(CountEmission):
    r"""Counts of features whose variance exceeds the mean, independent given the component.

    .. math:: p(x_i \mid z_i = k) = \prod_{j \text{ observed}} \frac{\Gamma(x_{ij} + r_j)}{\Gamma(r_j) \, x_{ij}!}
        p_{kj}^{x_{ij}} (1 - p_{kj})^{r_j}, \qquad p_{kj} \sim \mathrm{Beta}(a_j, 1 + b_j r_j).

    A count has the mean :math:`\mu_{kj} = r_j p_{kj} / (1 - p_{kj})` and the variance
    :math:`\mu_{kj} + \mu_{kj}^2 / r_j`. The *dispersion* of a feature is :math:`1 / r_j`, the same in all components;
    counts with a small dispersion are nearly Poisson. Numbers of visits, purchases or events per person usually have a
    dispersion near 1. Poisson components describe such a column by several components, one for each range of the
    counts.

    The prior mean of :math:`\mu_{kj}` is :math:`a_j / b_j`. With the sums :math:`s_{kj}` and the numbers :math:`n_{kj}`
    of observed cells of a component, the mode in the natural parameter :math:`\log p_{kj}` is

    .. math:: \mu_{kj} = \frac{a_j + s_{kj}}{b_j + n_{kj}}.

    Cells with NaN are missing, and assumed missing at random: density and statistics leave them out. Admixtures do not
    accept this emission.

    Parameters
    ----------
    dispersion : float or array-like of shape (n_features,), default=None
        Dispersions, between 1e-6 and 1e6. None learns them, see Notes.
    shape_prior : float or array-like of shape (n_features,), default=None
        Positive :math:`a_j`. None is `rate_prior` times the mean of the feature, as for
        :class:`~skmanifold.emissions.Poisson`.
    rate_prior : float or array-like of shape (n_features,), default=0.5
        Positive :math:`b_j`: the number of rows to which the prior is equivalent.

    Notes
    -----
    A learned dispersion is one of 121 values between 1e-4 and 100, with equal ratios and equal prior probabilities.
    :class:`~skmanifold.ExponentialFamilyMixture` estimates it in each pass: samplers that maximise (``"em"``,
    ``"esca"``) take the joint mode of dispersions and :math:`p_{kj}` given the partition, and ``"gibbs"`` draws the
    dispersions given the partition, with :math:`p_{kj}` integrated out, and then :math:`p_{kj}`; both steps are exact.
    :class:`~skmanifold.DPMixture` learns dispersions before sampling, by maximum marginal likelihood given partitions
    of a sample of the rows, as it learns the prior of Gaussian components; ``emission_`` has the learned numbers.

    Fractional counts are weights: ``ExponentialFamilyMixture`` uses them as they are, with gamma functions in place of
    factorials.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import ExponentialFamilyMixture
    >>> from skmanifold.emissions import NegativeBinomial
    >>> rng = np.random.default_rng(0)
    >>> visits = rng.negative_binomial(1.5, 0.2, size=(500, 1))
    >>> mixture = ExponentialFamilyMixture(1, emission=NegativeBinomial(), random_state=0).fit(visits)
    >>> mixture.dispersions_.shape
    (1,)
    """

    short_name = "negative_binomial"
    row_family = NegativeBinomialFamily
    _parameter_constraints: ClassVar[dict] = {
        "dispersion": [None, Interval(Real, LEAST_DISPERSION, MOST_DISPERSION, closed="both"), "array-like"],
        **CountEmission._parameter_constraints,
    }

    def __init__(
        self,
        dispersion: float | ArrayLike | None = None,
        shape_prior: float | ArrayLike | None = None,
        rate_prior: float | ArrayLike = 0.5,
    ) -> None:
        self.dispersion = dispersion
        self.shape_prior = shape_prior
        self.rate_prior = rate_prior

    def bind_weighted(
        self, rows: LinearRows, n_components: int, row_weights: np.ndarray | None
    ) -> NegativeBinomialFamily:
        """Make the family of rows; the default prior and the dispersions use their weights."""
        dispersions = dispersions_of(rows, self._dispersion_of(rows), row_weights)
        return NegativeBinomialFamily(*self._prior_of_means(rows, row_weights), dispersions, n_components)

    def free_hyperparameters(self) -> tuple[str, ...]:
        """Hyperparameters that Dirichlet process mixtures learn, since they are None."""
        return ("dispersion",) if self.dispersion is None else ()

    def with_prior_of(self, clusters: Any) -> NegativeBinomial:
        """The emission with the dispersions of clusters."""
        return NegativeBinomial(1.0 / clusters.prior, self.shape_prior, self.rate_prior)

    def _dispersion_of(self, rows: LinearRows) -> np.ndarray | None:
        if self.dispersion is None:
            return None
        values = positive_prior(self.dispersion, rows.n_features, "dispersion")
        if values.min() < LEAST_DISPERSION or values.max() > MOST_DISPERSION:
            raise ValueError(f"dispersion must be between {LEAST_DISPERSION:g} and {MOST_DISPERSION:g}.")
        return values
