"""The von Mises-Fisher distribution on a unit sphere, from two to a million dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import row_norms

from ..sparse.counts import canonical_csr
from ..utils._inputs.sparse_structure import check_structure
from ..utils._typing import ArrayLike, MatrixLike
from ..utils._validation import check_array, validate_sample_weight
from ._bessel import bessel_ratio, inverse_bessel_ratio, log_density_at_mode
from ._generator import GeneratorLike, SizeLike, as_generator, as_shape

_LENGTH_ATOL = 1e-5  # accepts rows that were normalised in single precision
_BLOCK_ENTRIES = 2**16


@dataclass(frozen=True, eq=False)
class VonMisesFisher:
    r"""Von Mises-Fisher distribution on a unit sphere: density :math:`c_V(\kappa) \exp(\kappa \mu' x)`.

    The density is with respect to the surface measure of the sphere in :math:`\mathbb{R}^V`.

    Parameters
    ----------
    mean_direction : array-like of shape (n_features,)
        Unit vector :math:`\mu`, of at least two entries.
    concentration : float
        Concentration :math:`\kappa \ge 0`; 0 is the uniform distribution.

    Raises
    ------
    ValueError
        If the direction does not have unit length, or the concentration is negative or not finite.

    References
    ----------
    .. [1] Mardia, K. and Jupp, P. (2000). Directional Statistics. Wiley, sections 9.3 and 10.3.
    .. [2] Wood, A. (1994). Simulation of the von Mises Fisher distribution. Communications in Statistics - Simulation
       and Computation 23, 157-164.

    Examples
    --------
    >>> from skmanifold.distributions import VonMisesFisher
    >>> distribution = VonMisesFisher([0.0, 0.6, 0.8], 10.0)
    >>> distribution.mean().round(2).tolist()
    [0.0, 0.54, 0.72]
    >>> draws = distribution.sample(100_000, random_state=0)
    >>> round(VonMisesFisher.fit(draws).concentration)
    10
    """

    mean_direction: np.ndarray
    concentration: float

    if TYPE_CHECKING:  # the constructor that dataclass generates would only accept arrays

        def __init__(self, mean_direction: ArrayLike, concentration: float) -> None: ...

    def __post_init__(self) -> None:
        direction = np.array(self.mean_direction, dtype=np.float64)
        if direction.ndim != 1 or len(direction) < 2:
            raise ValueError(f"mean_direction must be a vector of at least 2 entries; got shape {direction.shape}.")
        length = np.linalg.norm(direction)
        if not abs(length - 1.0) <= _LENGTH_ATOL:
            raise ValueError(f"mean_direction must have unit length; got {length}.")
        concentration = float(self.concentration)
        if not 0.0 <= concentration < np.inf:
            raise ValueError(f"concentration must be finite and at least 0; got {concentration}.")
        direction /= length
        direction.setflags(write=False)
        object.__setattr__(self, "mean_direction", direction)
        object.__setattr__(self, "concentration", concentration)

    @classmethod
    def fit(cls, X: MatrixLike, sample_weight: ArrayLike | None = None) -> VonMisesFisher:
        r"""Fit by maximum likelihood.

        The estimates are the direction of the weighted mean :math:`\bar x` of the rows, and the concentration
        :math:`A_V^{-1}(\|\bar x\|)`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Unit vectors.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; an integer weight is equivalent to as many copies of the row.

        Returns
        -------
        VonMisesFisher
            The fitted distribution. If the mean of the rows is exactly zero, all directions have the same likelihood,
            and the mean direction is the first axis.

        Raises
        ------
        ValueError
            If a row does not have unit length, if the weights have another shape or are not valid, or if all rows are
            equal, so that the likelihood is unbounded.
        """
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_features=2)
        X = canonical_csr(X) if sp.issparse(X) else X  # lengths need each entry to occur once
        weights = validate_sample_weight(1.0 if sample_weight is None else sample_weight, X)
        weights = weights / weights.sum()
        mean = np.asarray(X.T @ (weights / _unit_lengths(X))).ravel()
        length = float(np.linalg.norm(mean))
        if length >= 1.0 - 1e-14:
            raise ValueError("All rows of X with positive weight are equal, so the likelihood has no finite maximum.")
        if length == 0.0:
            mean[0] = length = 1.0
            return cls(mean, 0.0)
        return cls(mean / length, inverse_bessel_ratio(len(mean), length))

    @property
    def dim(self) -> int:
        """Dimension of the surrounding space."""
        return len(self.mean_direction)

    def sample(self, size: SizeLike = None, random_state: GeneratorLike = None) -> np.ndarray:
        r"""Independent draws.

        A draw is :math:`w \mu + \sqrt{1 - w^2} t`. The cosine w comes from Wood's rejection sampler, and t is uniform
        among the unit vectors orthogonal to :math:`\mu`. The draw is generated for a mean along the first axis, and a
        reflection maps it to the mean direction, so it has unit length to rounding. The running time is that of
        `size` times n_features normal variates.

        Parameters
        ----------
        size : None, int or tuple of ints
            Shape of the draws; None for a single one.
        random_state : None, int, RandomState or Generator
            Source of randomness.

        Returns
        -------
        ndarray of shape (*size, n_features)
            Unit vectors.
        """
        rng = as_generator(random_state)
        shape = as_shape(size)
        n_draws = int(np.prod(shape))
        draws = rng.standard_normal((n_draws, self.dim))
        complement = sample_cosine_complement(self.dim, self.concentration, n_draws, rng)
        lengths = np.linalg.norm(draws[:, 1:], axis=1)
        draws *= (np.sqrt(complement * (2.0 - complement)) / lengths)[:, np.newaxis]
        draws[:, 0] = 1.0 - complement
        # The reflection along mean + sign e_1 maps the first axis to -sign mean; this sign avoids cancellation.
        sign = 1.0 if self.mean_direction[0] >= 0.0 else -1.0
        normal = self.mean_direction.copy()
        normal[0] += sign
        coefficients = (draws @ normal) * (2.0 / (normal @ normal))
        n_rows = 1 + _BLOCK_ENTRIES // self.dim
        for start in range(0, n_draws, n_rows):
            draws[start : start + n_rows] -= np.outer(coefficients[start : start + n_rows], normal)
        draws *= -sign
        return draws.reshape(*shape, self.dim)

    def log_density(self, X: MatrixLike) -> np.ndarray:
        """Log density of unit vectors with respect to the surface measure.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (..., n_features)
            Unit vectors; a sparse matrix has two axes.

        Returns
        -------
        ndarray of shape (...)
            The log densities.

        Raises
        ------
        ValueError
            If a vector does not have unit length, or has another number of entries.
        """
        rows: Any = X
        check_structure(X)
        rows = canonical_csr(X) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        if rows.ndim == 0 or rows.shape[-1] != self.dim:
            raise ValueError(f"X must have {self.dim} entries per vector, as many as the mean direction.")
        _unit_lengths(rows)
        cosines = rows @ self.mean_direction
        return log_density_at_mode(self.dim, self.concentration) + self.concentration * (cosines - 1.0)

    def mean(self) -> np.ndarray:
        r"""The expectation :math:`A_V(\kappa) \mu`, a vector inside the sphere.

        Returns
        -------
        ndarray of shape (n_features,)
            The expectation; its length is less than 1.
        """
        return bessel_ratio(self.dim, self.concentration) * self.mean_direction

    def entropy(self) -> float:
        r"""The differential entropy :math:`-\log c_V(\kappa) - \kappa A_V(\kappa)`, in nats.

        Returns
        -------
        float
            The entropy, in nats.
        """
        lost = self.concentration * (1.0 - bessel_ratio(self.dim, self.concentration))
        return float(lost - log_density_at_mode(self.dim, self.concentration))


def sample_cosine_complement(dim: int, concentration: float, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draws of 1 - w, where the density of w is proportional to exp(concentration w) (1 - w^2)^((dim - 3) / 2).

    Wood's rejection sampler (1994, algorithm VM*) in 1 - w, which loses no digits at a large concentration. At least
    about two thirds of the proposals are accepted.
    """
    degrees = dim - 1.0
    b = degrees / (2.0 * concentration + np.hypot(2.0 * concentration, degrees))
    start = 2.0 * b / (1.0 + b)  # 1 - x_0 of the paper
    if not start > 0.0:  # 1 - w is smaller than the smallest float
        return np.zeros(n_draws)
    out = np.empty(n_draws)
    n_made = 0
    while n_made < n_draws:
        n_tried = n_draws - n_made
        beta = rng.beta(0.5 * degrees, 0.5 * degrees, n_tried)
        trial = 2.0 * b * beta / (1.0 - beta + b * beta)
        ratio = (start + trial * (1.0 - start)) / (start * (2.0 - start))
        log_accept = concentration * (start - trial) + degrees * np.log(ratio)
        kept = trial[-rng.standard_exponential(n_tried) <= log_accept]
        out[n_made : n_made + len(kept)] = kept
        n_made += len(kept)
    return out


def draw_about(means: np.ndarray, concentration: Any, rng: np.random.Generator) -> np.ndarray:
    """Draw one direction about that of each row of `means`, (n, d), which is overwritten, with one concentration or n.

    Projecting is cheaper here than the reflection by which `VonMisesFisher.sample` makes many draws about one mean.
    """
    dim = means.shape[1]
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    draws = rng.standard_normal(means.shape)
    draws -= np.einsum("dv,dv->d", draws, means)[:, np.newaxis] * means
    if np.ndim(concentration) == 0:
        complement = sample_cosine_complement(dim, float(concentration), len(means), rng)
    else:
        complement = np.concatenate([sample_cosine_complement(dim, float(each), 1, rng) for each in concentration])
    complement = complement[:, np.newaxis]
    draws *= np.sqrt(complement * (2.0 - complement)) / np.linalg.norm(draws, axis=1, keepdims=True)
    means *= 1.0 - complement
    draws += means
    return draws


def _unit_lengths(X):
    """Lengths of the vectors in X, each checked to be 1 to rounding."""
    lengths = row_norms(X) if sp.issparse(X) else np.linalg.norm(X, axis=-1)
    wrong = ~(np.abs(lengths - 1.0) <= _LENGTH_ATOL)
    if np.any(wrong):
        raise ValueError(f"The vectors in X must have unit length; one has length {np.asarray(lengths)[wrong][0]}.")
    return lengths
