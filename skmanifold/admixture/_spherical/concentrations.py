"""Concentrations of a spherical admixture that are learned, from draws or from factors of the proportions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, NamedTuple

import numpy as np

from ...distributions import bessel_ratio, bessel_ratio_derivative, inverse_bessel_ratio
from ...topics.document_densities import ratio_slope
from ...utils._conditions import Array, Real

MOST_CONCENTRATED = 1e18  # the estimate for nearly equal directions with a million features
_PSEUDO_RESULTANT = 0.5  # mean cosine of the one pseudo-observation in the prior of each concentration
_LEAST_RESULTANT = 1e-6
_N_LEARNING_ROWS = 2000  # documents from which concentrations of topics are learned
_LEAST_COSINE = 1e-3  # of a document of a single topic, about
_N_NEWTON, _LEAST_SHARE = 50, 0.2  # steps, and the least factor of a concentration in a step


class Concentrations(NamedTuple):
    """The three concentrations of the model."""

    document: (
        Annotated[np.ndarray, Array("float64", "_", low=0, high=MOST_CONCENTRATED)]
        | Annotated[float, Real(low=0, high=MOST_CONCENTRATED)]
    )  # of documents about the mixture of their topics; (K,) if each topic has its own
    topic: Annotated[float, Real(low=0, high=MOST_CONCENTRATED)]  # of topics about their mean direction
    mean: Annotated[float, Real(low=0, high=MOST_CONCENTRATED)]  # of the mean direction about its prior direction


def learn_concentration(dim: int, resultant: float, n: int) -> float:
    r"""Estimate a concentration from the mean cosine of n unit vectors with their mean directions.

    Posterior mode with a conjugate prior worth one vector of cosine 1/2: :math:`A_V(\kappa) = (n \bar r + 1/2) / (n +
    1)`.
    """
    shrunk = (n * resultant + _PSEUDO_RESULTANT) / (n + 1)
    return float(inverse_bessel_ratio(dim, min(max(shrunk, _LEAST_RESULTANT), 1.0 - 1e-12)))


def learn_concentrations(model: Any, cosines: Iterable[float], learned: tuple[bool, ...]) -> Concentrations:
    """Estimate the concentrations that are learned from the mean cosines of documents, topics and the topics' mean."""
    observed = zip(cosines, (model.total_samples, len(model.alpha), 1), strict=True)
    return Concentrations(
        *(
            learn_concentration(len(model.mean_direction), *cosine_and_n) if learn and np.ndim(fixed) == 0 else fixed
            for cosine_and_n, learn, fixed in zip(observed, learned, model.concentrations, strict=True)
        )
    )


class ObservedShares(NamedTuple):
    """Documents from which concentrations of topics are learned."""

    shares: np.ndarray  # (n, K): proportions, or their means under Dirichlet factors
    cosines: np.ndarray  # (n,): with the mixtures of topics
    inverse: np.ndarray  # (n,): 1 / (s + 1) of factors with parameters of sum s, 0 for proportions


def learning_rows(n_rows: int) -> slice:
    """Evenly spaced documents, at most 2,000, from which concentrations of topics are learned."""
    return slice(None, None, -(-n_rows // _N_LEARNING_ROWS))


def learn_all_concentrations(
    model: Any,
    cosines: Iterable[float],
    learned: tuple[bool, ...],
    observe: Callable[[], ObservedShares],
    rate: float = 1.0,
) -> Concentrations:
    """Estimate the concentrations that are learned; those of topics move by the share `rate` to the new estimates."""
    concentrations = learn_concentrations(model, cosines, learned)
    before = concentrations.document
    if not learned[0] or not isinstance(before, np.ndarray):
        return concentrations
    found = learn_topic_concentrations(len(model.mean_direction), model.total_samples, before, observe())
    return concentrations._replace(document=(1.0 - rate) * before + rate * found)


def learn_topic_concentrations(V: int, n_documents: int, before: np.ndarray, observed: ObservedShares) -> np.ndarray:
    r"""The concentrations of the topics that are most probable given proportions and topics, by Newton's method.

    They maximise :math:`\sum_d [\log c(\kappa(\theta_d)) + \kappa(\theta_d) \cos_d]`, which is concave, with a
    pseudo-observation of cosine 1/2 for each topic; the sum is scaled to `n_documents`. For factors of proportions, it
    is their objective (`variational_kernels`). The least concentration has a mean cosine of about 0.001.
    """
    K, n = len(before), len(observed.cosines)
    shares, cosines = np.concatenate([observed.shares, np.eye(K)]), np.append(observed.cosines, [_PSEUDO_RESULTANT] * K)
    weights, inverse = np.append(np.full(n, n_documents / n), np.ones(K)), np.append(observed.inverse, np.zeros(K))
    least = _LEAST_COSINE * V
    found = np.maximum(before, least)
    for _ in range(_N_NEWTON):
        means = shares @ found
        value, first, _ = ratio_slope(0.5 * V - 1.0, means)
        of_spread = weights * inverse * value
        squares = inverse * (shares @ found**2 - means**2)
        pull = weights * (cosines - bessel_ratio(V, means) - 0.5 * first * squares) + of_spread * means
        slope = shares.T @ pull - found * (shares.T @ of_spread)
        rate = weights * bessel_ratio_derivative(V, means) - of_spread
        curvature = np.einsum("nk,n,nj->kj", shares, rate, shares) + np.diag(shares.T @ of_spread)
        free = (found > least) | (slope > 0.0)
        step = np.zeros(K)
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], slope[free])
        before = found
        found = np.clip(found + step, np.maximum(_LEAST_SHARE * found, least), found / _LEAST_SHARE)
        if np.abs(found / before - 1.0).max() < 1e-6:
            break
    return np.minimum(found, MOST_CONCENTRATED)
