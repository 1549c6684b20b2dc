"""Draws of the spherical admixture model, and its posterior given documents, that several test files share."""

import numpy as np
import scipy.sparse as sp
from samplers._evidence import Estimate, summarize

from skmanifold.admixture._spherical.concentrations import Concentrations
from skmanifold.admixture._spherical.model import SphericalModel
from skmanifold.admixture._spherical.passes import SphericalMinibatchPasses
from skmanifold.admixture._spherical.setup import Setup
from skmanifold.admixture._spherical.targets import MinibatchSAM
from skmanifold.distributions import VonMisesFisher
from skmanifold.random._keys import root_key
from skmanifold.samplers import GSGNHT, SGGMC
from skmanifold.sparse.directions import as_directions
from skmanifold.utils._threads import Workers

KEY = root_key(2016)
ONE = Workers(1)
CONCENTRATIONS = Concentrations(10.0, 5.0, 5.0)
MEAN = np.array([0.0, 0.0, 0.6, 0.8])


def unit(X):
    return X / np.linalg.norm(X, axis=-1, keepdims=True)


DOCUMENTS = unit(np.array([[3, 0, 1, 1], [2, -1, 0, 2], [1, 1, 2, 0], [0, 2, 1, 2], [-1, 1, 0, 3], [0, 0, 2, 3.0]]))


def in_batches(series, n=20):
    """Means of `n` consecutive stretches of a chain count as independent."""
    series = np.asarray(series)
    return summarize(series[len(series) % n :].reshape(n, -1, series.shape[1]).mean(axis=1))


def difference(estimate, reference):
    return Estimate(estimate.mean - reference.mean, np.hypot(estimate.error, reference.error))


KINDS = {"gsgnht": GSGNHT, "sggmc": SGGMC}


def minibatches(kind, h, batch_size, friction=2.0, **options):
    return SphericalMinibatchPasses(kind(h, friction, n_steps=2, **options), batch_size, 5, 0)


def chain_of_topics(model, passes, statistics, reference, n_passes, burn_in=100):
    """Means of statistics of the topics less the reference, and the mean temperature."""
    state = passes.init(model, KEY)
    state.latents.log_steps[:] = np.log(0.35)
    series, temperature = [], 0.0
    for t in range(burn_in + n_passes):
        state = passes.step(model, state)
        if t >= burn_in:
            series.append(statistics(passes.parameters(model, state)))
            temperature += state.statistics.temperature / n_passes
    return difference(in_batches(series), reference), temperature


def make_rows(n_rows, n_features=7, seed=0):
    """Sparse rows with entries of either sign; every third has none."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_rows, n_features)) < 0.6, rng.normal(0.3, 1.0, (n_rows, n_features)), 0.0)
    X[:, 0] += 0.1
    X[1::3] = 0.0
    return X


class WithoutProjection(SphericalModel):
    """The gradient of a document's cosine without the part along its mean."""

    def fill_gradient(self, rows, terms, *rest):
        return super().fill_gradient(rows, terms._replace(coupling=np.zeros_like(terms.coupling)), *rest)


class ScalesThePrior(SphericalModel):
    """The prior counts once for each minibatch of an epoch."""

    def prior(self, word_topic):
        prior = super().prior(word_topic)
        return prior._replace(gradient=2.0 * prior.gradient)


class GivenRows(MinibatchSAM):
    """The minibatch is what it is told, and chains stay where they stood."""

    rows = None

    def _rows(self, keys):
        return self.rows

    def _move(self, rows, *rest):
        stood = [array.copy() for array in self.chains]
        terms = super()._move(rows, *rest)
        for array, before in zip(self.chains, stood, strict=True):
            array[:] = before
        return terms


STEP_KEYS = np.array([20160711], np.uint64)


def log_density_of(target, topics):
    return target.log_density(target.model.to_position(topics)[None])[0]


def gradient_of(target, topics, keys=None):
    position = target.model.to_position(topics)[None]
    out = np.full_like(position, np.nan)
    target.grad_log_density(position, keys, out)
    return out[0]


def signed_rows(n=30, n_features=8):
    """Rows of both signs, half of the entries zero, one row without any."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, n_features)) * (rng.random((n, n_features)) < 0.5)
    X[3] = 0.0
    return X


def draw_around(means, concentration, rng):
    """One von Mises-Fisher draw about each of the means, (..., V)."""
    flat = means.reshape(-1, means.shape[-1])
    axis = np.eye(flat.shape[1])[0]
    draws = VonMisesFisher(axis, concentration).sample(len(flat), rng)
    sign = np.where(flat[:, :1] < 0, 1.0, -1.0)  # of the reflection that takes the axis to -sign * mean
    normal = flat - sign * axis
    draws -= 2 * normal * (draws * normal).sum(axis=1, keepdims=True) / (normal**2).sum(axis=1, keepdims=True)
    return (sign * draws).reshape(means.shape)


def draw_cosines(dim, concentrations, rng):
    """Cosines with the mean direction of von Mises-Fisher draws, each with its own concentration (Wood, 1994)."""
    kappa, out = concentrations.ravel(), np.empty(concentrations.size)
    left = np.arange(len(kappa))
    b = (np.hypot(2 * kappa, dim - 1) - 2 * kappa) / (dim - 1)
    x = (1 - b) / (1 + b)
    c = kappa * x + (dim - 1) * np.log1p(-(x**2))
    while len(left):
        z = rng.beta((dim - 1) / 2, (dim - 1) / 2, len(left))
        w = (1 - (1 + b[left]) * z) / (1 - (1 - b[left]) * z)
        ratio = kappa[left] * w + (dim - 1) * np.log1p(-x[left] * w) - c[left]
        accepted = -rng.standard_exponential(len(left)) <= ratio
        out[left[accepted]] = w[accepted]
        left = left[~accepted]
    return out.reshape(concentrations.shape)


def draw_documents(topics, theta, concentration, rng):
    """Documents (..., V) of proportions (..., K), about one concentration or those of the topics."""
    means = unit(theta @ topics)
    if np.ndim(concentration) == 0:
        return draw_around(means, concentration, rng)
    cosines = draw_cosines(means.shape[-1], theta @ concentration, rng)[..., None]
    across = rng.standard_normal(means.shape)
    across = unit(across - means * (across * means).sum(axis=-1, keepdims=True))
    return cosines * means + np.sqrt(1 - cosines**2) * across


def draw_prior(n, n_components, n_documents, alpha, concentrations, mean, rng):
    """Topics (n, K, V), proportions (n, D, K) and documents (n, D, V)."""
    kappa, sigma, kappa_0 = concentrations
    centres = VonMisesFisher(mean, kappa_0).sample(n, rng)
    topics = draw_around(np.repeat(centres[:, None], n_components, axis=1), sigma, rng)
    theta = rng.dirichlet(alpha, (n, n_documents))
    return topics, theta, draw_documents(topics, theta, kappa, rng)


def make_model(documents, alpha, concentrations=CONCENTRATIONS, radii=1.0, mean=MEAN, kind=SphericalModel, workers=ONE):
    rows = as_directions(sp.csr_array(documents))
    radii = np.full(len(alpha), radii) if np.ndim(radii) == 0 else np.array(radii)
    noise = np.zeros(len(alpha))  # nothing is compensated
    fixed = (False, False, False), radii, noise, False
    return kind(Setup(rows, np.array(alpha, float), mean, concentrations, *fixed), workers)


def generate(n_features, n_components, n_documents, concentrations, alpha, seed):
    rng = np.random.default_rng(seed)
    mean = unit(np.ones(n_features))
    alpha = np.full(n_components, alpha)
    topics, _, documents = draw_prior(1, n_components, n_documents, alpha, concentrations, mean, rng)
    return mean, topics[0], documents[0]
