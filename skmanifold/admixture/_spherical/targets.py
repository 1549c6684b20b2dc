"""Target densities of the topics of a spherical admixture, and transitions of the documents' proportions."""

from __future__ import annotations

import math

import numpy as np

from ...models._minibatch import MinibatchTarget
from ...random._keys import fold_in, subkey
from ...random._variates import log_gamma_variate
from ...topics.document_densities import cosine_terms, relative_terms
from ...topics.spherical_kernels import fill_softmax, move_point
from ...utils._njit import njit
from .model import DocumentTerms, Prior, ProportionChains, SphericalModel, WordMajor

# The gradient of the log likelihood with respect to topic k is
#
#     kappa sum_d [ E(theta_dk / q_d) v_d - sum_j E(theta_dj theta_dk cos_d / q_d^2) beta_j ],
#
# with q_d = |beta theta_d| and cos_d = v_d'beta theta_d / q_d. The first expectation is the document's K *weights*. The
# second is summed over documents to one K x K matrix, the *coupling*. With a concentration for each topic, kappa is
# that of the document, kappa(theta_d), within the expectations; weights and coupling are relative to a reference. So
# the cost of a step does not include the number of documents times the number of words.

_GAIN = 0.1  # change of the logarithm of a step size per unit of acceptance probability
_TARGET = 0.8  # target acceptance probability
_LEAST = 1e-300  # least proportion, so that its logarithm is finite


@njit(cache=True, nogil=True)
def _add_draw(density, theta, b, gram, share, weights, coupling, scratch):
    """Add `share` times the terms of a draw of one document's proportions.

    Returns the cosine, and the normaliser's part of the log density beyond that at the reference. With one
    concentration for each topic, terms and cosine are multiplied by the document's over the reference.
    """
    cosine, root = cosine_terms(theta, b, gram, scratch)
    relative, log_beyond = relative_terms(density, theta)
    share = relative * share
    for k in range(len(theta)):
        scratch[k] = theta[k] / root
    for k in range(len(theta)):
        weights[k] += share * scratch[k]
        factor = share * cosine * scratch[k]
        for j in range(len(theta)):
            coupling[k, j] += factor * scratch[j]
    return relative * cosine, log_beyond


@njit(cache=True, nogil=True)
def move_proportions(
    start, stop, products, out, rows, gram, exponents, on_sphere, density, n_draws, n_steps, key, adapts, chains, draws
):
    """Advance the chains of documents ``rows[start:stop]`` by `n_draws` transitions each and average their terms.

    `chains` are those of all documents and are updated. `exponents` are 2 alpha - 1 on the sphere, alpha in logarithms.
    `out` are `DocumentTerms`, with the sum of the coupling over these documents. `draws` gets the thetas, (n, n_draws,
    K), unless its second axis has length 0.
    """
    n = products.shape[1]
    work, log_steps = np.empty((4, n)), chains.log_steps
    out.coupling[:] = 0.0
    for i in range(start, stop):
        row = rows[i]
        b, x, theta = products[i], chains.points[row], work[0]
        out.weights[i] = 0.0
        cosines, beyond = 0.0, 0.0
        # Draws depend on the document's row, not on the minibatch or the task that it is in.
        row_key = fold_in(key, row)
        for draw in range(n_draws):
            step = math.exp(log_steps[row])
            draw_key = fold_in(row_key, draw)
            rate = move_point(x, exponents, on_sphere, density, b, gram, step, n_steps, draw_key, work)
            if adapts:
                log_steps[row] += _GAIN * (rate - _TARGET)
            # `move_point` leaves theta in the first row of `work`.
            terms = _add_draw(density, theta, b, gram, 1.0 / n_draws, out.weights[i], out.coupling, work[1])
            cosines += terms[0]
            beyond += terms[1]
            if draws.shape[1] > 0:
                for k in range(n):
                    draws[i, draw, k] = theta[k]
        out.cosine[i], out.beyond[i] = cosines / n_draws, beyond / n_draws


@njit(cache=True, nogil=True)
def fill_terms_given_proportions(start, stop, products, out, gram, density, draws):
    """Write the terms of documents ``start:stop`` given draws of proportions, (n, n_draws, K)."""
    n_draws = draws.shape[1]
    scratch = np.empty(draws.shape[2])
    out.coupling[:] = 0.0
    for i in range(start, stop):
        weights, b = out.weights[i], products[i]
        weights[:] = 0.0
        cosines, beyond = 0.0, 0.0
        for draw in range(n_draws):
            terms = _add_draw(density, draws[i, draw], b, gram, 1.0 / n_draws, weights, out.coupling, scratch)
            cosines += terms[0]
            beyond += terms[1]
        out.cosine[i], out.beyond[i] = cosines / n_draws, beyond / n_draws


@njit(cache=True, nogil=True)
def proportions_of_rows(points, rows, on_sphere):
    """Proportions of documents `rows` at the current points of their chains, (n, K)."""
    out = np.empty((len(rows), points.shape[1]))
    for i in range(len(rows)):
        if on_sphere:
            for k in range(out.shape[1]):
                out[i, k] = points[rows[i], k] * points[rows[i], k]
        else:
            fill_softmax(points[rows[i]], out[i])
    return out


@njit(cache=True, nogil=True)
def place_proportions(proportions, rows, alpha, key, on_sphere, points):
    """Set the chains of documents `rows` to the given proportions, (n, K); `points` has the chains of all documents.

    In the coordinates of log gamma variates, their sum does not enter the likelihood and is drawn from its prior.
    """
    total = alpha.sum()
    for i in range(len(rows)):
        row = rows[i]
        if on_sphere:
            points[row] = np.sqrt(proportions[i])
        else:
            log_sum = log_gamma_variate(fold_in(key, row), total)
            for k in range(len(alpha)):
                points[row, k] = log_sum + math.log(max(proportions[i, k], _LEAST))


_N_STEPS = 5  # integrator steps of a transition of proportions
NO_DRAWS = np.empty((0, 0, 0))


class PassSums:
    """Sums over a pass, from which burn-in learns radii and concentrations."""

    def __init__(self, n_components: int):
        self.n_steps = 0
        self.n_documents = 0
        self.cosine = 0.0  # sum over documents
        self.beyond = 0.0  # sum over documents, see `DocumentTerms`
        self.squared_weights = np.zeros(n_components)  # sum over documents
        self.coupling = np.zeros((n_components, n_components))  # sum over documents of the absolute values
        self.spread = np.zeros(2)  # sum over steps
        self.temperatures: list[float] = []  # kinetic temperatures after steps

    def add(self, terms: DocumentTerms, prior: Prior) -> None:
        """Add the terms of one step."""
        self.n_steps += 1
        self.n_documents += len(terms.cosine)
        self.cosine += terms.cosine.sum()
        self.beyond += terms.beyond.sum()
        self.squared_weights += (terms.weights * terms.weights).sum(axis=0)
        self.coupling += np.abs(terms.coupling)
        self.spread += prior.spread


class MinibatchSAM(MinibatchTarget):
    r"""Posterior of the topics, with the documents' proportions integrated out by sampling.

    Each document has a Markov chain of its proportions. The gradient is an average over draws from the chains of the
    minibatch's documents. A chain continues from its last state when its document is drawn again:

    .. math:: \nabla_{\beta_k} \log p \approx \sigma A_V(|\bar m|) \bar m / |\bar m|
        + \kappa \frac{D}{S} \sum_d \overline{\theta_{dk} (I - \bar v_d \bar v_d') v_d / |\beta \theta_d|}, \quad
        \bar m = \kappa_0 m + \sigma \sum_k \beta_k

    (eq. 10 of Liu, Zhu and Song, NIPS 2016, with its gradient evaluated). Chains are updated in place; they belong to
    the sampler's state. They make `n_draws` transitions each time, and `adapts` says whether their step sizes change.
    `key` is that of the draws at anchors, which use all documents.
    """

    def __init__(
        self,
        model: SphericalModel,
        chains: ProportionChains,
        key: np.uint64,
        batch_size: int | None,
        n_draws: int,
        adapts: bool,
    ):
        self.model = model
        self.chains = chains
        self.key = key
        self.n_samples = len(model.directed)
        self.batch_size = None if batch_size is None else min(batch_size, self.n_samples)
        self.n_draws = n_draws
        self.adapts = adapts
        self.manifold = model.manifold
        self.sums = PassSums(model.n_components)

    @property
    def noise_covariance(self) -> np.ndarray | None:
        """Variances of the gradient's coordinates; None if the gradient uses all documents."""
        return self.model.noise_covariance() if self.model.noise.any() else None

    def grad_log_density(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Estimate the gradient at the chain's position from the minibatch of the keys."""
        if keys is not None:
            self._estimate(self._rows(keys), position, keys[0], out)
            return
        rows, turned = self.model.directed, self.model.to_word_major(position[0])
        self.key = subkey(self.key, 0)
        draws = np.empty((len(rows), self.n_draws, self.model.n_components))
        self._move(rows, self.key, turned, draws)
        self.chains.reference[rows] = draws.mean(axis=1)
        terms = self._reference_terms(rows, turned)
        self.sums.add(terms, self.model.fill_gradient(rows, terms, turned.topics, out[0]))

    def grad_with_deviations(self, position: np.ndarray, keys: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Gradient of a minibatch, and the deviations of its documents' gradients, which estimate its covariance."""
        rows = self._rows(keys)
        draws = np.empty((len(rows), self.n_draws, self.model.n_components))
        turned = self._estimate(rows, position, keys[0], out, draws)
        gradients = self.model.document_gradients(rows, draws, turned)
        return self._centre(gradients[None], self.model.total_samples)

    def grad_difference(self, anchor: np.ndarray, position: np.ndarray, keys: np.ndarray, out: np.ndarray) -> None:
        """Estimate the gradient at `position` minus the gradient at the last `anchor`, from one minibatch."""
        rows = self._rows(keys)
        self._estimate(rows, position, keys[0], out)
        turned, at_anchor = self.model.to_word_major(anchor[0]), np.empty_like(out[0])
        self.model.fill_gradient(rows, self._reference_terms(rows, turned), turned.topics, at_anchor)
        out[0] -= at_anchor

    def _estimate(
        self, rows: np.ndarray, position: np.ndarray, key: np.uint64, out: np.ndarray, draws: np.ndarray = NO_DRAWS
    ) -> WordMajor:
        """Estimate the gradient from documents `rows` and advance their chains; returns the topics."""
        turned = self.model.to_word_major(position[0])
        terms = self._move(rows, key, turned, draws)
        self.sums.add(terms, self.model.fill_gradient(rows, terms, turned.topics, out[0]))
        return turned

    def _rows(self, keys: np.ndarray) -> np.ndarray:
        chosen = self._chosen_rows(keys)
        return self.model.directed if chosen is None else self.model.directed[chosen[0]]

    def _move(self, rows: np.ndarray, key: np.uint64, turned: WordMajor, draws: np.ndarray) -> DocumentTerms:
        return move_chains(self.model, self.chains, rows, key, turned, self.n_draws, self.adapts, draws)

    def _reference_terms(self, rows: np.ndarray, turned: WordMajor) -> DocumentTerms:
        return terms_given_proportions(self.model, self.chains.reference[rows][:, None], rows, turned)


class ConditionalSAM:
    """Log posterior of topics given draws of the proportions, (n_directed_rows, n_draws, K): the mean over the draws.

    With one draw it is exact. The mean over several draws from p(theta | topics, documents) approximates the marginal
    log posterior near these topics (Liu, Zhu and Song, NIPS 2016, appendix B, eq. 1). A Metropolis test uses the same
    draws for both states.
    """

    noise_covariance = None

    def __init__(self, model: SphericalModel, draws: np.ndarray):
        self.model = model
        self.draws = draws
        self.manifold = model.manifold
        self.sums = PassSums(model.n_components)

    def grad_log_density(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Gradient at the chain's position, from all documents."""
        topics, terms = self._terms_at(position)
        self.sums.add(terms, self.model.fill_gradient(self.model.directed, terms, topics, out[0]))

    def log_density(self, position: np.ndarray) -> np.ndarray:
        """Log density up to a constant at the chain's position, shape (1,)."""
        topics, terms = self._terms_at(position)
        scale = self.model.document_density.reference * self.model.total_samples / len(terms.cosine)
        return np.array([scale * terms.cosine.sum() + self.model.prior(topics).log_density])

    def _terms_at(self, position: np.ndarray) -> tuple[np.ndarray, DocumentTerms]:
        turned = self.model.to_word_major(position[0])
        return turned.topics, terms_given_proportions(self.model, self.draws, self.model.directed, turned)


def move_chains(
    model: SphericalModel,
    chains: ProportionChains,
    rows: np.ndarray,
    key: np.uint64,
    turned: WordMajor,
    n_draws: int,
    adapts: bool,
    draws: np.ndarray,
) -> DocumentTerms:
    """Advance the chains of documents `rows` and return their likelihood terms.

    The draws are written to `draws`, (n, n_draws, K), unless its second axis has length 0.
    """
    exponents = 2.0 * model.alpha - 1.0 if model.on_sphere else model.alpha
    of_model = exponents, model.on_sphere, model.document_density
    given = rows, turned.gram, *of_model, n_draws, _N_STEPS, key, adapts, chains, draws
    return model.accumulate_terms(rows, turned.topics, move_proportions, *given)


def terms_given_proportions(
    model: SphericalModel, draws: np.ndarray, rows: np.ndarray, turned: WordMajor
) -> DocumentTerms:
    """Likelihood terms of documents `rows` with given draws of proportions, (n, n_draws, K)."""
    given = turned.gram, model.document_density, np.ascontiguousarray(draws)
    return model.accumulate_terms(rows, turned.topics, fill_terms_given_proportions, *given)
