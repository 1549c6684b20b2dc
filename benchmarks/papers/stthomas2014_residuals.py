"""Fig. 6.4 of St. Thomas et al. (2014): why the number of orthogonal topics grows, by the spectrum of residuals.

Orthogonal topics explain the part of a document in their span; the rest is the residual, which the model assumes to
have the same variance in all directions. A new topic along a direction can raise the likelihood only if the variance of
the residuals along it exceeds the average; `stthomas2014_n_topics` measures by how much. Here are the residuals of 20
fitted topics. Directions are counted whose variance is above the largest one that residuals of equal variance have by
chance, the edge of Marchenko and Pastur, for some numbers of abstracts of NSF awards; and the same for documents that
are drawn from the fitted model, and for abstracts after each word was divided by the standard deviation of its
residuals.

The claim of the paper: the posterior of the number of topics is centred around 30. If the count for abstracts grows
with their number, and that for drawn documents stays near zero, the residuals of abstracts are not those of the model.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.sparse.linalg import LinearOperator, svds
from threadpoolctl import threadpool_limits

from benchmarks._results import begin_table, row, title
from benchmarks.orthogonal_nsf import HELD_OUT, load
from skmanifold import OrthogonalSphericalAdmixture
from skmanifold.distributions import VonMisesFisher

NEEDS_DATA = True
N_TOPICS, PASSES, N_VALUES = 20, 200, 60
DOCUMENTS = ("abstracts", "abstracts, words divided by their deviations", "drawn from the model")
SIZES = (500, 1000, 2000, 4000, 8000)
MOST_DRAWN = 4000  # dense documents
N_SEEDS = 3


def cases(quick):
    """Settings of the runs."""
    sizes, n_seeds, passes, most = ((300,), 1, 5, 300) if quick else (SIZES, N_SEEDS, PASSES, MOST_DRAWN)
    return [
        {"documents": documents, "n_documents": n, "seed": seed, "passes": passes}
        for seed in range(n_seeds)
        for documents in DOCUMENTS
        for n in sizes
        if documents != DOCUMENTS[2] or n <= most
    ]


@lru_cache(maxsize=1)
def fitted(seed, passes):
    """Orthonormal topics, proportions and concentration of a fit, and the documents."""
    _, tfidf, _ = load()
    X = tfidf[:-HELD_OUT]
    with threadpool_limits(1):
        model = OrthogonalSphericalAdmixture(N_TOPICS, max_iter=passes, random_state=seed, n_jobs=1).fit(X)
        theta = model.transform(X)
    return model.components_, theta, model.document_concentration_, X


def drawn(topics, theta, kappa, rng):
    """Documents of the model."""
    out = np.empty((len(theta), topics.shape[1]))
    for i, shares in enumerate(theta):
        mean = shares @ topics
        out[i] = VonMisesFisher(mean / np.linalg.norm(mean), kappa).sample(random_state=rng)
    return out


def deviations(X, topics):
    """Standard deviation of the residuals of each word."""
    scores = X @ topics.T
    squares = np.asarray(X.multiply(X).sum(axis=0)).ravel()
    cross = (X.T @ scores).T
    squares = (
        squares - 2 * np.einsum("kv,kv->v", cross, topics) + np.einsum("kv,kl,lv->v", topics, scores.T @ scores, topics)
    )
    return np.sqrt(np.maximum(squares / X.shape[0], 1e-12))


def run(documents, n_documents, seed, passes):
    """Number of directions above the edge, their share of the variance, and the largest ratio to the edge."""
    topics, theta, kappa, X = fitted(seed, passes)
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(X.shape[0])[:n_documents]
    if documents == DOCUMENTS[2]:
        X = drawn(topics, theta[chosen], kappa, rng)
    else:
        scale = 1.0 / deviations(X, topics) if documents == DOCUMENTS[1] else np.ones(X.shape[1])
        X = X[chosen].multiply(scale).tocsr()
        topics = np.linalg.qr((topics * scale).T)[0].T
    n, m = X.shape

    def project_out(v):
        return v - topics.T @ (topics @ v)

    operator = LinearOperator(
        (n, m), matvec=lambda v: X @ project_out(v.ravel()), rmatvec=lambda u: project_out(X.T @ u.ravel()), dtype=float
    )
    values = svds(operator, k=min(N_VALUES, n - 1), return_singular_vectors=False, random_state=seed)
    total = (X.multiply(X).sum() if hasattr(X, "multiply") else np.sum(X * X)) - np.sum((X @ topics.T) ** 2)
    edge = np.sqrt(total / (n * (m - len(topics)))) * (np.sqrt(n) + np.sqrt(m - len(topics)))
    return {
        "above": int((values > edge).sum()),
        "share": float((values[values > edge] ** 2).sum() / total),
        "largest": float(values.max() / edge),
    }


def show(rows):
    """Counts of directions above the edge, by the number of documents."""
    sizes = sorted({each["n_documents"] for each in rows})
    title(f"Directions of the residuals above the edge (at most {N_VALUES} are counted): median (range) over seeds")
    begin_table(("documents", *(f"D = {n:,}" for n in sizes)))
    for documents in DOCUMENTS:
        cells = []
        for n in sizes:
            found = [each["above"] for each in rows if (each["documents"], each["n_documents"]) == (documents, n)]
            cells.append(f"{np.median(found):.0f} ({min(found)} to {max(found)})" if found else "")
        row((documents, *cells))
    title("Largest singular value of the residuals, as a multiple of the edge: median over seeds")
    begin_table(("documents", *(f"D = {n:,}" for n in sizes)))
    for documents in DOCUMENTS:
        found = [
            [each["largest"] for each in rows if (each["documents"], each["n_documents"]) == (documents, n)]
            for n in sizes
        ]
        row((documents, *(f"{np.median(each):.2f}" if each else "" for each in found)))
