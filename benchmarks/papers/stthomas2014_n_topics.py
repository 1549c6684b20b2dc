"""Fig. 6.4 of St. Thomas et al. (2014): the number of orthogonal topics with the largest evidence, by documents.

A new topic f changes the log density of a document by log a(v; f), where a is the mean of the likelihood ratio over the
prior Beta(alpha, K alpha) of the topic's share. The log evidence changes by the sum over documents, minus the log
posterior density of f relative to the uniform one, which is of the order V log D. So K + 1 topics are more probable
than K if documents gain on average and D is large enough, whatever the prior of the number is, unless its penalty grows
with D.

The number of topics with the largest evidence, of a grid from 5 to 113, is measured for abstracts of NSF awards, and
for documents that are drawn from 20 topics fitted to 8,864 abstracts: by the short runs of
`OrthogonalSphericalAdmixture` for each number, with alpha = 1/2, the default, and alpha = 4, with which a topic without
use costs each document more. Two penalties grow with the number of documents: that of eq. 4.2, which is 2 / V per topic
and document with tau = 1, here multiplied by the concentration, so that its units are those of the log likelihood; and
4 nats per topic and document.

Two other likelihoods are applied to the 20 topics: one concentration for each document, with a gamma distribution of
estimated shape, so that residuals have heavier tails; and one for each topic, with three values tried for a new topic.
Directions are tried in the order of the variance of the residuals, each after four steps to a mode, and added if the
evidence increases, until ten in a row are not. All else is fixed: the other topics, ratios of their proportions, and
concentrations. So this number is a lower bound. Topics are also scored by the log density of 500 other documents.

The claim of the paper: the posterior of the number of topics is centred around 30 (13,092 abstracts, 78,343 terms). If
the number for abstracts grows with D, while for drawn documents it stays at 20, then it is no property of the corpus.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize, minimize_scalar
from scipy.sparse.linalg import LinearOperator, svds
from scipy.special import betaln, logsumexp
from scipy.stats import gamma
from threadpoolctl import threadpool_limits

from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from skmanifold.admixture._orthogonal.fit_strategy import _run
from skmanifold.distributions import log_vmf_normalizer
from skmanifold.metrics import spherical_document_likelihood
from skmanifold.random._keys import root_key
from skmanifold.sparse.directions import DenseDirections, as_directions
from skmanifold.utils._threads import Workers

from .stthomas2014_residuals import N_TOPICS, drawn, fitted

NEEDS_DATA = True
REFITTED, ALPHA_4 = "refitted", "refitted, alpha = 4"
ADDED, PER_DOCUMENT, PER_TOPIC = "added", "added, one concentration per document", "added, one concentration per topic"
METHODS = {  # alpha, and the largest number of drawn documents, which are dense
    REFITTED: (0.5, 2400),
    ALPHA_4: (4.0, 0),
    ADDED: (0.5, 1200),
    PER_DOCUMENT: (0.5, 1200),
    PER_TOPIC: (0.5, 1200),
}
PENALTIES = {  # nats per topic and document, given the concentration; from the runs of REFITTED
    "refitted, penalty of eq. 4.2": lambda concentration: 2.0 * concentration / N_WORDS,
    "refitted, penalty of 4 nats": lambda concentration: 4.0,
}
ABSTRACTS, DRAWN = "abstracts", "drawn from the model"
SIZES = (300, 600, 1200, 2400, 4800)
N_TEST = 500
N_WORDS = 11_181
NUMBERS = (5, 7, 10, 14, 20, 28, 40, 57, 80, 113)
N_FALLS = 2  # of the evidence, after which larger numbers are not tried
N_DIRECTIONS, N_MISSES, N_STEPS = 200, 10, 4
PASSES = 100  # of the fit of 20 topics
RELATIVE = (0.5, 1.0, 2.0)  # concentrations of a new topic, relative to the mean
NODES, WEIGHTS = np.polynomial.legendre.leggauss(32)
WIDTH = 8.0  # of an integral over shares, in standard deviations
N_SEEDS = 3


def cases(quick):
    """Settings of the runs."""
    sizes, n_seeds, passes = ((300,), 1, 5) if quick else (SIZES, N_SEEDS, PASSES)
    return [
        {"method": method, "documents": documents, "n_documents": n, "seed": seed, "passes": passes}
        for seed in range(n_seeds)
        for method in METHODS
        for documents in (ABSTRACTS, DRAWN)
        for n in sizes
        if documents == ABSTRACTS or n <= METHODS[method][1]
    ]


class VonMisesFisher:
    """Log density of a document with a cosine to its mean and a concentration, and its derivative by the cosine."""

    def __init__(self, n_words, most):
        self.grid = np.linspace(0.0, 4.0 * most, 4000)
        self.normalizers = log_vmf_normalizer(n_words, self.grid)

    def log_density(self, cosines, concentrations):
        return np.interp(concentrations, self.grid, self.normalizers) + concentrations * cosines

    def slope(self, cosines, concentrations):
        return np.broadcast_to(concentrations, np.shape(cosines))

    def concentrations(self, theta, shares):
        """One for each topic, most likely for given shares (n, K) of documents and cosines."""

        def loss(logs):
            kappa = np.exp(logs)
            of_documents = shares @ kappa
            by_document = np.gradient(self.normalizers, self.grid)
            slopes = np.interp(of_documents, self.grid, by_document) + theta
            return -self.log_density(theta, of_documents).mean(), -kappa * (shares.T @ slopes) / len(theta)

        start = np.full(shares.shape[1], np.log(self.grid[-1] / 4.0))
        return np.exp(minimize(loss, start, jac=True, method="L-BFGS-B").x)


class GammaMixture:
    """The same if the concentration of a document has a gamma distribution, given by its mean and shape."""

    def __init__(self, n_words, mean, cosines):
        self.n_words, self.mean = n_words, mean
        self.grid = np.linspace(-0.5, 1.0, 6001)
        logs = minimize_scalar(lambda log: -self._of_shape(np.exp(log))[0](cosines).mean(), (np.log(3.0), np.log(30.0)))
        self.shape = float(np.exp(logs.x))
        self._log_density, self._slope = self._of_shape(self.shape)

    def _of_shape(self, shape):
        kappa = gamma.ppf((np.arange(200) + 0.5) / 200, shape, scale=self.mean / shape)
        logs = log_vmf_normalizer(self.n_words, kappa) + np.multiply.outer(self.grid, kappa)
        values = logsumexp(logs, axis=1) - np.log(len(kappa))
        slopes = np.exp(logs - logsumexp(logs, axis=1, keepdims=True)) @ kappa
        return (lambda c: np.interp(c, self.grid, values)), (lambda c: np.interp(c, self.grid, slopes))

    def log_density(self, cosines, concentrations):
        return self._log_density(cosines)

    def slope(self, cosines, concentrations):
        return self._slope(cosines)


class Admixture:
    """Documents with orthonormal topics, and the evidence for one more."""

    def __init__(self, X, density, alpha, topics, theta, concentrations, products=None):
        self.X, self.density, self.alpha = X, density, alpha
        self.topics, self.theta, self.concentrations = topics, theta, concentrations
        self.products = X @ topics.T if products is None else products
        self.lengths = np.linalg.norm(theta, axis=1)
        self.cosines = np.einsum("nk,nk->n", self.products, theta) / self.lengths
        self.kappa = theta @ concentrations

    def extended(self, topic, concentration, shares):
        """The same with another topic and its shares."""
        topics, theta = np.vstack([self.topics, topic]), np.column_stack([self.theta * (1.0 - shares)[:, None], shares])
        products = np.column_stack([self.products, self.X @ topic])
        concentrations = np.append(self.concentrations, concentration)
        return Admixture(self.X, self.density, self.alpha, topics, theta, concentrations, products)

    def integrate(self, topic, concentration):
        """Log a, mean share of a new topic, and weight of each document in the gradient with respect to the topic.

        The integral is over the square root of the angle w between the means without and with the topic, whose share s
        satisfies tan(w) = s / ((1 - s) |theta|).
        """
        along, alpha, mass = self.X @ topic, self.alpha, self.alpha * len(self.topics)
        best, largest = np.arctan2(along, self.cosines), np.hypot(along, self.cosines)
        slopes = self.density.slope(largest, np.minimum(self.kappa, concentration))
        width = WIDTH / np.sqrt(np.maximum(slopes * largest, 1e-3))
        low = np.sqrt(np.maximum(best - width, 0.0))
        high = np.sqrt(np.minimum(np.maximum(best, 0.0) + width, 0.5 * np.pi - 1e-9))
        roots = low[:, None] + np.multiply.outer(high - low, 0.5 * (NODES + 1.0))
        angles = roots**2
        tangents, cosines = np.tan(angles), largest[:, None] * np.cos(angles - best[:, None])
        odds = self.lengths[:, None] * tangents
        shares = odds / (1.0 + odds)
        kappa = self.kappa[:, None] + shares * (concentration - self.kappa[:, None])
        logs = self.density.log_density(cosines, kappa)
        logs += alpha * np.log(odds) - (alpha + mass) * np.log1p(odds)
        logs += np.log((1.0 + tangents**2) / tangents * 2.0 * roots)
        logs -= self.density.log_density(self.cosines, self.kappa)[:, None] + betaln(alpha, mass)
        top = logs.max(axis=1)
        terms = np.exp(logs - top[:, None]) * np.multiply.outer(0.5 * (high - low), WEIGHTS)
        total = terms.sum(axis=1)
        terms /= total[:, None]
        pulls = np.sum(terms * self.density.slope(cosines, kappa) * np.sin(angles), axis=1)
        return top + np.log(total), np.sum(terms * shares, axis=1), pulls

    def gain(self, topic, concentration, n_steps=0):
        """Change of the log evidence by a topic, after some steps to a mode; also the topic and its shares."""
        for step in range(n_steps + 1):
            logs, shares, pulls = self.integrate(topic, concentration)
            gradient = self.X.T @ pulls
            gradient -= self.topics.T @ (self.topics @ gradient)
            size = np.linalg.norm(gradient)
            if step < n_steps:
                topic = gradient / size
        n_topics, dim = len(self.topics), self.X.shape[1] - len(self.topics)
        log_posterior = log_vmf_normalizer(dim, size) + topic @ gradient - log_vmf_normalizer(dim, 0.0)
        return logs.sum() - log_posterior + np.log(n_topics + 1.0), topic, shares


def residual_directions(X, topics, n_directions, seed):
    """Right singular vectors of the residuals, the largest first."""

    def project_out(v):
        return v - topics.T @ (topics @ v)

    operator = LinearOperator(
        X.shape,
        matvec=lambda v: X @ project_out(v.ravel()),
        rmatvec=lambda u: project_out(X.T @ u.ravel()),
        dtype=float,
    )
    k = min(n_directions, X.shape[0] - 1)
    _, values, vectors = svds(operator, k=k, random_state=seed, return_singular_vectors="vh")
    return vectors[np.argsort(-values)]


def with_added(model, test, new_concentrations, directions):
    """Number of topics after topics with positive evidence were added, its gain, and that of test documents."""
    total = score = n_misses = 0
    for vector in directions:
        rest = vector - model.topics.T @ (model.topics @ vector)
        length = np.linalg.norm(rest)
        if length < 0.3:  # nearly a topic that was added
            continue
        tried = [(*model.gain(sign * rest / length, new), new) for new in new_concentrations for sign in (1.0, -1.0)]
        _, topic, _, new = max(tried, key=lambda each: each[0])
        gain, topic, shares = model.gain(topic, new, N_STEPS)
        n_misses = 0 if gain > 0.0 else n_misses + 1
        if n_misses == N_MISSES:
            break
        if gain > 0.0:
            logs, of_test, _ = test.integrate(topic, new)
            total, score = total + gain, score + logs.mean()
            model, test = model.extended(topic, new, shares), test.extended(topic, new, of_test)
    return {
        "topics": len(model.topics),
        "evidence": float(total) / len(model.theta),
        "score": float(score),
        "concentration": float(np.mean(model.concentrations)),
    }


def refitted(X, test, alpha, seed):
    """For each number of topics: log evidence and score, nats per document above the uniform distribution."""
    rows, found = as_directions(X) if sp.issparse(X) else DenseDirections(X), []
    uniform = log_vmf_normalizer(X.shape[1], 0.0)
    for n_topics in NUMBERS:
        with Workers(1) as workers:
            start = _run(rows, alpha, None, n_topics, 5, root_key(seed), workers)
        given = np.full(n_topics, alpha), start.concentration
        scores = spherical_document_likelihood(start.topics, test, *given, n_draws=50, random_state=seed)
        found.append(
            {
                "topics": n_topics,
                "evidence": start.log_evidence / X.shape[0],
                "score": float(scores.log_density.mean() - uniform),
                "concentration": float(start.concentration),
            }
        )
        evidence = [each["evidence"] for each in found[-N_FALLS - 1 :]]
        if len(evidence) == N_FALLS + 1 and np.all(np.diff(evidence) < 0.0):
            break
    return found


@lru_cache(maxsize=1)
def likelihood(method, seed, passes):
    """The density of documents around their means, and the concentrations of the topics."""
    topics, theta, kappa, X = fitted(seed, passes)
    cosines = np.einsum("nk,nk->n", X @ topics.T, theta) / np.linalg.norm(theta, axis=1)
    same = np.full(N_TOPICS, kappa)
    if method == PER_DOCUMENT:
        return GammaMixture(X.shape[1], kappa, cosines), same
    density = VonMisesFisher(X.shape[1], kappa)
    return density, density.concentrations(cosines, theta) if method == PER_TOPIC else same


def run(method, documents, n_documents, seed, passes):
    """Log evidence and score for each number of topics, or with added topics relative to the 20 topics."""
    topics, theta, kappa, X = fitted(seed, passes)
    alpha, _ = METHODS[method]
    rng = np.random.default_rng(seed)
    test, train = np.split(rng.permutation(X.shape[0])[: N_TEST + n_documents], [N_TEST])
    with threadpool_limits(1):
        density, concentrations = likelihood(method, seed, passes)
        of_documents = theta @ concentrations
        if method == PER_DOCUMENT:
            of_documents = rng.gamma(density.shape, kappa / density.shape, len(theta))

        def chosen(rows):
            if documents == ABSTRACTS:
                return X[rows]
            return np.concatenate([drawn(topics, theta[[i]], of_documents[i], rng) for i in rows])

        if method in (REFITTED, ALPHA_4):
            return refitted(chosen(train), chosen(test), alpha, seed)
        model, held_out = (
            Admixture(chosen(rows), density, alpha, topics, theta[rows], concentrations) for rows in (train, test)
        )
        n_directions = N_DIRECTIONS if documents == ABSTRACTS else 2 * N_MISSES  # none is added
        directions = residual_directions(model.X, topics, n_directions, seed)
        new = np.mean(concentrations) * np.array(RELATIVE if method == PER_TOPIC else (1.0,))
        return with_added(model, held_out, new, directions)


def best_of(rows, method, documents, n, name="topics"):
    """The value of each seed at the number of topics with the largest evidence."""
    penalty = PENALTIES.get(method, lambda concentration: 0.0)
    wanted = REFITTED if method in PENALTIES else method, documents, n
    own = [each for each in rows if (each["method"], each["documents"], each["n_documents"]) == wanted]

    def penalised(each):
        return each["evidence"] - penalty(each["concentration"]) * each["topics"]

    seeds = sorted({each["seed"] for each in own})
    return [max((each for each in own if each["seed"] == seed), key=penalised)[name] for seed in seeds]


def lines_of(rows):
    """The pairs of methods and documents that were measured."""
    methods = (REFITTED, *PENALTIES, *list(METHODS)[1:])
    sizes = {each["n_documents"] for each in rows}
    pairs = [(method, documents) for documents in (ABSTRACTS, DRAWN) for method in methods]
    return [(*pair, sizes) for pair in pairs if any(best_of(rows, *pair, n) for n in sizes)]


def show(rows):
    """Numbers of topics and scores, by the number of documents."""
    heads = {
        "topics": f"Number of topics with the largest evidence, at most {NUMBERS[-1]} if refitted",
        "score": "Log density of other documents with that number, nats per document; if topics are added, the change",
    }
    for name, head in heads.items():
        sizes = sorted({each["n_documents"] for each in rows})
        title(f"{head}: median (range) over seeds")
        begin_table(("documents", "method", *(f"D = {n:,}" for n in sizes)))
        for method, documents, _ in lines_of(rows):
            found = [best_of(rows, method, documents, n, name) for n in sizes]
            form = ".0f" if name == "topics" else ".1f"
            row((documents, method, *(spread(each, form) if each else "" for each in found)))


def draw(rows):
    """Number of topics with the largest evidence by the number of documents, with the range over seeds."""
    import matplotlib.pyplot as plt

    from benchmarks._runs import line_style

    figure, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained", sharex=True, sharey=True)
    numbers = {}
    for method, documents, sizes in lines_of(rows):
        ax = axes[(ABSTRACTS, DRAWN).index(documents)]
        known = sorted(n for n in sizes if best_of(rows, method, documents, n))
        found = [best_of(rows, method, documents, n) for n in known]
        style = line_style(numbers.setdefault(method, len(numbers)))
        ax.plot(known, [np.median(each) for each in found], label=method, **style)
        ax.fill_between(
            known, [min(each) for each in found], [max(each) for each in found], color=style["color"], alpha=0.15
        )
    sizes = sorted({each["n_documents"] for each in rows})
    for ax, documents in zip(axes, (ABSTRACTS, DRAWN), strict=True):
        ax.axhline(N_TOPICS, color="0.5", linewidth=0.8)
        ax.set(xscale="log", yscale="log", xlabel="documents", title=documents)
        ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
        ax.set_yticks(NUMBERS, [str(number) for number in NUMBERS])
        ax.minorticks_off()
    axes[0].set_ylabel("number of topics")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
    return figure
