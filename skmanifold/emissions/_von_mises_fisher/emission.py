"""Emission of directions: von Mises-Fisher components with a conjugate prior."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator

from ...random._keys import root_key
from ...utils._conditions import MOST_COUNTED
from ...utils._sklearn import Interval, StrOptions
from ...utils._threads import ONE
from ...utils._typing import MatrixLike
from .._base import WeighableEmission, refuse_unset
from .family import VonMisesFisherFamily
from .kernels import ConcentrationPrior
from .rows import DirectedRows, SphericalKMeans, read_rows

_LEAST_COSINE = 1e-6


@dataclass(eq=False, repr=False)
class VonMisesFisher(WeighableEmission):
    r"""Directions of rows, such as embeddings: von Mises-Fisher distributions on the unit sphere.

    Only the direction of a row is used: :math:`x_i` has unit length in :math:`\mathbb{R}^d`. Its density relative to
    the uniform distribution is

    .. math:: p(x_i \mid z_i = k) = c(\kappa_k) \exp(\kappa_k \mu_k' x_i), \qquad
        c(\kappa) = \frac{(\kappa / 2)^{d/2 - 1}}{\Gamma(d / 2) \, I_{d/2-1}(\kappa)},

    with a uniform prior of the mean direction :math:`\mu_k` and

    .. math:: p(\kappa) \propto c(\kappa)^a \exp(a A_0 \kappa).

    The prior of the concentration is equivalent to a rows whose mean cosine with :math:`\mu_k` is :math:`A_0`. It is
    conjugate together with that of the direction. The statistics of a component are its number of rows :math:`n_k` and
    their sum :math:`r_k`. The mode is :math:`\mu_k = r_k / \|r_k\|` and

    .. math:: A_d(\kappa_k) = \frac{\|r_k\| + a A_0}{n_k + a}, \qquad
        A_d(\kappa) = I_{d/2}(\kappa) / I_{d/2-1}(\kappa),

    or, with a shared concentration, :math:`A_d(\kappa) = (\sum_k \|r_k\| + a A_0) / (n + a)`.

    Parameters
    ----------
    concentration : {"shared", "per_component"} or float, default="shared"
        One concentration for all components, one for each, or a given one. In :class:`~skmanifold.DPMixture`, a given
        one sets how fine the clusters are.
    cosine_prior : float, default=None
        :math:`A_0`, below 1. None is the mean cosine of the rows with the directions of K clusters that spherical
        k-means finds; :class:`~skmanifold.DPMixture` learns it for "per_component", see Notes.
    prior_rows : float, default=1.0
        The number of rows a to which the prior is equivalent.

    Notes
    -----
    With the direction integrated out, the density of a concentration given the rows of its component is proportional to
    :math:`c(\kappa)^{n_k + a} \exp(a A_0 \kappa) / c(\kappa \|r_k\|)`; with a shared concentration, the denominator is
    a product over components. "gibbs" draws concentrations exactly from this density, by rejection from a piecewise
    exponential envelope. The direction given the concentration has the von Mises-Fisher distribution with the
    concentration :math:`\kappa_k \|r_k\|` around :math:`r_k`. In a Dirichlet process mixture, the marginal density of
    the rows of a cluster is an integral over :math:`\kappa` in one dimension, or with a shared concentration
    :math:`c(\kappa)^{n_k} / c(\kappa \|r_k\|)` given :math:`\kappa`. Split-merge moves of "per_component" propose sides
    given an estimate of the concentration, and are accepted with the exact marginal densities.

    :class:`~skmanifold.DPMixture` learns :math:`A_0` by maximum marginal likelihood of a partition of a sample of the
    rows, if there is a concentration for each component. By default its chains then draw :math:`A_0`, which has a
    uniform prior, in a fifth of the passes by a slice update given the partition; ``posterior_`` has it as
    ``cosine_prior``. A shared concentration is determined by the rows.

    Rows of zeros have no direction and are an error; :class:`~skmanifold.VonMisesFisherMixture` leaves them out. Dense
    rows of float32 and float64 stay as they are, and are multiplied with directions in their precision, in a way in
    which the result of a row does not depend on other rows.

    References
    ----------
    .. [1] A. Banerjee, I. S. Dhillon, J. Ghosh and S. Sra, "Clustering on the unit hypersphere using von Mises-Fisher
       distributions", Journal of Machine Learning Research 6, 2005.
    .. [2] S. Gopal and Y. Yang, "Von Mises-Fisher clustering models", ICML 2014.

    Examples
    --------
    >>> from skmanifold.emissions import VonMisesFisher
    >>> VonMisesFisher("per_component")
    VonMisesFisher(concentration='per_component')
    """

    short_name = "von_mises_fisher"
    positive_only = False
    row_family = VonMisesFisherFamily
    _parameter_constraints: ClassVar[dict] = {
        "concentration": [StrOptions({"shared", "per_component"}), Interval(Real, 0, MOST_COUNTED, closed="right")],
        "cosine_prior": [None, Interval(Real, 0, 1, closed="neither")],
        "prior_rows": [Interval(Real, 0, MOST_COUNTED, closed="right")],
    }

    concentration: float | Literal["shared", "per_component"] = "shared"
    cosine_prior: float | None = None
    prior_rows: float = 1.0

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> DirectedRows:
        """Validate X of finite numbers."""
        rows = read_rows(estimator, X, reset=reset)
        if not rows.has_direction.all():
            row = int(np.argmin(rows.has_direction))
            raise ValueError(f"Row {row} of X has only zeros, and so no direction: remove such rows.")
        return rows

    def bind_weighted(
        self, rows: DirectedRows, n_components: int, row_weights: np.ndarray | None
    ) -> VonMisesFisherFamily:
        """Make the family of rows."""
        cosine = self.cosine_prior
        if cosine is None:
            weights = np.ones(rows.n_rows) if row_weights is None else row_weights
            found = SphericalKMeans(rows, weights, n_components, ONE).begin_at_rows(root_key(0), "k-means++")
            cosine = max(found.mean_cosine, _LEAST_COSINE)
        return self._family(cosine, n_components, rows.n_features)

    def prior_family(self, n_features: int, n_components: int, n_tokens: int) -> VonMisesFisherFamily:
        """Make a family whose hyperparameters do not depend on rows."""
        if isinstance(self.concentration, str):
            refuse_unset(self, "cosine_prior")
        return self._family(_LEAST_COSINE if self.cosine_prior is None else self.cosine_prior, n_components, n_features)

    def _family(self, cosine: float, n_components: int, n_features: int) -> VonMisesFisherFamily:
        kind = self.concentration if isinstance(self.concentration, str) else float(self.concentration)
        prior = ConcentrationPrior(float(self.prior_rows), float(cosine))
        return VonMisesFisherFamily(prior, kind, n_components, n_features)

    def free_hyperparameters(self) -> tuple[str, ...]:
        """Hyperparameters that Dirichlet process mixtures learn, since they are None."""
        return ("cosine",) if self.cosine_prior is None and self.concentration == "per_component" else ()

    def with_prior_of(self, clusters: VonMisesFisherFamily) -> VonMisesFisher:
        """The emission with the prior of clusters."""
        return VonMisesFisher(self.concentration, clusters.prior.cosine, clusters.prior.rows)
