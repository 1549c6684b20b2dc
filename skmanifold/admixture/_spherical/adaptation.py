"""Adaptation during burn-in: the concentrations, and the radii of the spheres on which the topics move."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...distributions import bessel_ratio, bessel_ratio_derivative, inverse_bessel_ratio
from .model import MOST_CONCENTRATED, Concentrations, ProportionChains, SphericalModel
from .passes import Scales, SphericalPasses, blend, no_scales
from .proportion_kernels import proportions_of_rows
from .targets import NO_DRAWS, PassSums, move_chains

WAIT = 0.25  # share of burn-in before concentrations are learned: early topics are too similar to estimate them
_PSEUDO_RESULTANT = 0.5  # mean cosine of the one pseudo-observation in the prior of each concentration
_LEAST_RESULTANT = 1e-6
_N_LEARNING_ROWS = 2000  # documents from which concentrations of topics are learned
_LEAST_COSINE = 1e-3  # of a document of a single topic, about
_N_NEWTON, _LEAST_SHARE = 50, 0.2  # steps, and the least factor of a concentration in a step
_N_PILOT_ROWS, _N_PILOT_TRANSITIONS = 500, 30  # documents, and transitions of each, for the first radii


def learn_concentration(dim: int, resultant: float, n: int) -> float:
    r"""Estimate a concentration from the mean cosine of n unit vectors with their mean directions.

    This is the posterior mode under a conjugate prior worth one vector with cosine 1/2:
    :math:`A_V(\kappa) = (n \bar r + 1/2) / (n + 1)`.
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


def learn_topic_concentrations(
    model: SphericalModel, concentrations: Concentrations, chains: ProportionChains, topics: np.ndarray
) -> Concentrations:
    r"""The concentrations of the topics that are most probable given proportions and topics.

    They maximise :math:`\sum_d [\log c(\kappa(\theta_d)) + \kappa(\theta_d) \cos_d]`, which is concave, with one
    pseudo-observation of a cosine 1/2 for each topic, by Newton's method. At most 2,000 documents are used. The least
    concentration has a mean cosine of about 0.001.
    """
    rows = model.directed[:: -(-len(model.directed) // _N_LEARNING_ROWS)]
    word_topic, gram = model.to_word_major(model.to_position(topics))
    products = np.empty((len(rows), model.n_components))
    model.rows.fill_products(rows, 0, len(rows), word_topic, products)
    theta = proportions_of_rows(chains.points, rows, model.on_sphere)
    lengths = np.sqrt(np.einsum("nk,kj,nj->n", theta, gram, theta))
    cosines = np.einsum("nk,nk->n", products, theta) / lengths
    weights = np.full(len(rows), model.total_samples / len(rows))
    of_prior = np.full(model.n_components, _PSEUDO_RESULTANT)
    shares, cosines = np.concatenate([theta, np.eye(model.n_components)]), np.append(cosines, of_prior)
    weights, V = np.append(weights, np.ones(model.n_components)), model.rows.n_features
    least = _LEAST_COSINE * V
    found = np.maximum(concentrations.document, least)
    for _ in range(_N_NEWTON):
        means = shares @ found
        slope = shares.T @ (weights * (cosines - bessel_ratio(V, means)))
        curvature = np.einsum("nk,n,nj->kj", shares, weights * bessel_ratio_derivative(V, means), shares)
        free = (found > least) | (slope > 0.0)
        step = np.zeros(len(found))
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], slope[free])
        before = found
        found = np.clip(found + step, np.maximum(_LEAST_SHARE * found, least), found / _LEAST_SHARE)
        if np.abs(found / before - 1.0).max() < 1e-6:
            break
    return concentrations._replace(document=np.minimum(found, MOST_CONCENTRATED))


def gradient_noise(model: SphericalModel, scales: Scales, batch_size: int | None) -> np.ndarray:
    """Variance of the minibatch gradient with respect to unit topics, averaged over a topic's coordinates, (K,).

    A document contributes its weight times its component orthogonal to the direction of its mixture of topics, whose
    squared length is 1 - cos^2.
    """
    total = model.total_samples
    size = total if batch_size is None else min(batch_size, total)
    strength = (model.document_density.reference * total) ** 2 * (1 / size - 1 / total)
    return strength * (1.0 - scales.cosine**2) * scales.squared_pull / model.rows.n_features


def natural_radii(model: SphericalModel, scales: Scales, noise: np.ndarray) -> np.ndarray:
    """Radii for which the curvature of the log posterior plus the variance of its gradient is about one."""
    return np.exp(scales.stretch) * np.sqrt(model.curvature_plus_noise(scales.drag, noise))


def retuned(
    model: SphericalModel, scales: Scales, concentrations: Concentrations, scaled: bool, batch_size: int | None
) -> SphericalModel:
    """The model with new concentrations, and the noise and (if they are learned) the radii recomputed for them."""
    model = model.tuned(concentrations, model.radii, model.noise)
    noise = gradient_noise(model, scales, batch_size)
    return model.tuned(concentrations, natural_radii(model, scales, noise) if scaled else model.radii, noise)


def initially_tuned(
    model: SphericalModel, topics: np.ndarray, key: np.uint64, scaled: bool, batch_size: int | None
) -> SphericalModel:
    """The model with noise and radii for `topics`, estimated from some documents after a warm-up of their chains.

    With much too small radii the first steps would be too long. A thermostat would then reach a large friction, which
    takes many steps to decrease.
    """
    rows = model.directed[:: -(-len(model.directed) // _N_PILOT_ROWS)]
    word_topic, gram = model.to_word_major(model.to_position(topics))
    terms = move_chains(model, model.init_chains(0), rows, key, word_topic, gram, _N_PILOT_TRANSITIONS, True, NO_DRAWS)
    sums = PassSums(model.n_components)
    sums.add(terms, model.prior(word_topic))
    scales = blend(no_scales(model.n_components), sums, 1.0)
    return retuned(model, scales, model.concentrations, scaled, batch_size)


def adapter(
    passes: SphericalPasses, learned: tuple[bool, ...], scaled: bool, burn_in: int, batch_size: int | None
) -> Callable[[SphericalModel, Any], SphericalModel]:
    """Function that `run_chains` calls after each pass of burn-in; it rescales the state in place.

    After burn-in nothing changes, so that all draws are from the same posterior.
    """

    def adapt(model: SphericalModel, state: Any) -> SphericalModel:
        scales, t = state.statistics.scales, state.statistics.n_passes
        concentrations = model.concentrations
        if any(learned) and t >= WAIT * burn_in:
            concentrations = learn_concentrations(model, scales.cosines, learned)
            if learned[0] and np.ndim(concentrations.document) == 1:
                latents = state.latents, state.statistics.topics
                concentrations = learn_topic_concentrations(model, concentrations, *latents)
        after = retuned(model, scales, concentrations, scaled, batch_size)
        passes.rescale(state, model, after)
        return after

    return adapt
