"""What burn-in learns of a spherical admixture: the concentrations, and the spheres on which the topics move."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...distributions import inverse_bessel_ratio
from .model import Concentrations, SphericalModel
from .passes import Scales, blend, no_scales
from .targets import NO_DRAWS, Tally, move_chains

WAIT = 0.25  # of burn-in: topics that are still alike would be learned to be alike
_PSEUDO_RESULTANT = 0.5  # of one observation, the prior of each concentration
_LEAST_RESULTANT = 1e-6
_LOOKED_AT, _WARM_UP = 500, 30  # documents, and transitions of each, for the first radii


def learn_concentration(dim: int, resultant: float, n: int) -> float:
    r"""Concentration from the mean cosine of n unit vectors with their mean directions.

    The mode under a conjugate prior of the weight of one vector with cosine 1/2,
    :math:`A_V(\kappa) = (n \bar r + 1/2) / (n + 1)`.
    """
    shrunk = (n * resultant + _PSEUDO_RESULTANT) / (n + 1)
    return float(inverse_bessel_ratio(dim, min(max(shrunk, _LEAST_RESULTANT), 1.0 - 1e-12)))


def learn_concentrations(model: Any, cosines: Iterable[float], learned: tuple[bool, ...]) -> Concentrations:
    """Concentrations under which the mean cosines of documents, topics and their mean are likeliest, where learned."""
    seen = zip(cosines, (model.total_samples, len(model.alpha), 1), strict=True)
    return Concentrations(
        *(
            learn_concentration(len(model.mean_direction), *of) if learn else fixed
            for of, learn, fixed in zip(seen, learned, model.concentrations, strict=True)
        )
    )


def gradient_noise(model: SphericalModel, scales: Scales, batch_size: int | None) -> np.ndarray:
    """Variance of a gradient in unit topics by minibatches, its mean over a topic's coordinates, (K,).

    A document's part is its pull times what of it is across its mixture's direction, of squared length 1 - cos^2.
    """
    total = model.total_samples
    size = total if batch_size is None else min(batch_size, total)
    strength = (model.concentrations.document * total) ** 2 * (1 / size - 1 / total)
    return strength * (1.0 - scales.cosine**2) * scales.squared_pull / model.rows.n_features


def natural_radii(model: SphericalModel, scales: Scales, noise: np.ndarray) -> np.ndarray:
    """Radii on which the log posterior's curvature, plus the variance of its gradient's coordinates, is about one."""
    return np.exp(scales.stretch) * np.sqrt(model.stiffness(scales.drag, noise))


def retuned(
    model: SphericalModel, scales: Scales, concentrations: Concentrations, scaled: bool, batch_size: int | None
) -> SphericalModel:
    """The model with other concentrations, and noise and radii (if they are learned) that go with them."""
    model = model.tuned(concentrations, model.radii, model.noise)
    noise = gradient_noise(model, scales, batch_size)
    return model.tuned(concentrations, natural_radii(model, scales, noise) if scaled else model.radii, noise)


def first_tuned(
    model: SphericalModel, topics: np.ndarray, key: np.uint64, scaled: bool, batch_size: int | None
) -> SphericalModel:
    """The model with noise and radii that suit `topics`, by some documents whose proportions have been warmed up.

    Far too small radii would throw the topics about, and leave a thermostat with a friction that takes long to fade.
    """
    rows = model.directed[:: -(-len(model.directed) // _LOOKED_AT)]
    word_topic, gram = model.to_word_major(model.place(topics))
    terms = move_chains(model, model.init_chains(0), rows, key, word_topic, gram, _WARM_UP, True, NO_DRAWS)
    tally = Tally(model.n_components)
    tally.add(terms, model.prior(word_topic))
    scales = blend(no_scales(model.n_components), tally, 1.0)
    return retuned(model, scales, model.concentrations, scaled, batch_size)


def adapter(
    learned: tuple[bool, ...], scaled: bool, burn_in: int, batch_size: int | None
) -> Callable[[SphericalModel, Any], SphericalModel]:
    """What `run_chains` calls after each pass of burn-in. The state is moved to other spheres in place.

    All stays as it is after burn-in, so that all draws are from one posterior.
    """

    def adapt(model: SphericalModel, state: Any) -> SphericalModel:
        scales, t = state.statistics.scales, state.statistics.n_passes
        concentrations = model.concentrations
        if any(learned) and t >= WAIT * burn_in:
            concentrations = learn_concentrations(model, scales.cosines, learned)
        after = retuned(model, scales, concentrations, scaled, batch_size)
        follow(getattr(state, "moving", state), model, after)
        return after

    return adapt


def follow(state: Any, before: SphericalModel, after: SphericalModel) -> None:
    """Move a chain to other spheres, in place; speeds keep their law."""
    ratio = after.radii / before.radii
    state.position[...] *= ratio[:, None]
    memory: Any = getattr(state, "memory", None)
    if getattr(memory, "anchor", None) is not None:
        memory.anchor[...] *= ratio[:, None]
        memory.anchor_gradient[...] /= ratio[:, None]
    if getattr(memory, "running", None) is not None:
        scale = np.broadcast_to(ratio[:, None], state.position.shape[1:]).ravel()
        memory.running[...] /= scale**2 if memory.running.ndim == 2 else np.multiply.outer(scale, scale)
    if getattr(memory, "declared", False):
        memory.covariance.values[...] = after.noise_covariance()
