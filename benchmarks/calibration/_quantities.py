"""Quantities of one draw that do not depend on the order of components; the same function reads the true parameters.

A draw is a dict of the arrays of ``posterior_`` without the axes of chains and draws. Arrays are padded with NaN where
a draw has fewer components.
"""

from __future__ import annotations

import numpy as np


def number(name):
    """A number that the draw has."""

    def read(draw, X):
        return float(draw[name])

    return read


def squared_weights(draw, X):
    """Sum of the squared weights."""
    return float(np.nansum(draw["weights"] ** 2))


def squared_shares(draw, X):
    """Sum of the squared shares of the topics in all tokens or documents."""
    name = "doc_topic_counts" if "doc_topic_counts" in draw else "doc_topic"
    totals = np.nansum(draw[name], axis=0)
    return float(np.sum((totals / totals.sum()) ** 2))


def squared_counts(draw, X):
    """Sum of the squared numbers of tokens, or proportions, of the topics in each document."""
    name = "doc_topic_counts" if "doc_topic_counts" in draw else "doc_topic"
    return float(np.nansum(np.asarray(draw[name], float) ** 2))


def squared_components(draw, X):
    """Sum of the squared entries of the components."""
    return float(np.nansum(np.asarray(draw["components"], float) ** 2))


def first_column(draw, X):
    """Sum of the first column of the components."""
    return float(np.nansum(np.asarray(draw["components"], float)[:, 0]))


def mean_of_first_column(draw, X):
    """First column of the components' mean, weighted by their weights."""
    return float(np.nan_to_num(draw["weights"]) @ np.nan_to_num(draw["components"])[:, 0])


def co_clustering(draw, X):
    """Share of the pairs of rows that are in the same component."""
    return float(np.mean(draw["labels"][:, None] == draw["labels"]))


def log_sum(name):
    """Sum of the logarithms of positive numbers."""

    def read(draw, X):
        return float(np.nansum(np.log(draw[name])))

    return read


def log_diagonal(name):
    """Sum of the logarithms of variances, or of the diagonal of a covariance matrix."""

    def read(draw, X):
        of = np.asarray(draw[name])
        return float(np.log(np.diag(of) if of.ndim == 2 else of).sum())

    return read


def weighted_variances(draw, X):
    """Sum of the covariances, weighted by the weights."""
    weights, covariances = np.nan_to_num(draw["weights"]), np.nan_to_num(draw["covariances"])
    if covariances.ndim == 2 and covariances.shape[0] == covariances.shape[1] != len(weights):
        return float(covariances.sum())  # one for all components
    return float((weights * covariances.reshape(len(weights), -1).sum(axis=1)).sum())


def tied_covariance(draw, X):
    """Log determinant of the covariance of all components."""
    return float(np.linalg.slogdet(draw["covariances"])[1])


def fit_of_tokens(draw, X):
    """Log likelihood of the words with the topics' shares of the tokens of each document as its proportions."""
    counts = np.nan_to_num(draw["doc_topic_counts"])
    words = np.asarray(X.toarray() if hasattr(X, "toarray") else X, float)
    used = counts.sum(axis=0) > 0
    shares = counts[:, used] / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    probabilities = shares @ np.nan_to_num(np.asarray(draw["components"], float))[used]
    seen = words > 0
    return float(np.sum(words[seen] * np.log(np.maximum(probabilities[seen], 1e-300))))


def alignment(draw, X):
    """Sum of the cosines of the documents with the mixtures of their topics."""
    means = np.nan_to_num(draw["doc_topic"]) @ np.nan_to_num(draw["components"])
    return float(np.sum(np.einsum("dv,dv->d", X, means) / np.linalg.norm(means, axis=1)))


def topic_cosines(draw, X):
    """Sum of the cosines of all pairs of topics."""
    topics = np.nan_to_num(draw["components"])
    return float(np.sum(topics @ topics.T))


def evidence_of_two(concentration):
    """Log likelihood of two topics with uniform proportions integrated out, up to a constant."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    shares = np.stack([(1 + nodes) / 2, (1 - nodes) / 2], axis=1)

    def read(draw, X):
        means = shares @ draw["components"]
        exponents = concentration * (X @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T)
        return float(np.log(np.exp(exponents - concentration) @ weights).sum())

    return read


def mean_topic(draw, X):
    """Sum over features of the topics' mean, weighted by their shares."""
    shares = np.nan_to_num(draw["doc_topic"]).sum(axis=0)
    return float((shares @ np.nan_to_num(draw["components"])).sum())


def dimensions(draw, X):
    """Sum of the dimensions of the subspaces."""
    return float(np.nansum(draw["dimensions"]))


def mean_centre(draw, X):
    """Sum over columns of the mean centre, weighted by the weights."""
    return float((np.nan_to_num(draw["weights"]) @ np.nan_to_num(draw["means"])).sum())


def first_projection(draw, X):
    """Sum over components of the squared length of the projection of the first axis."""
    return float(np.nansum(draw["bases"][:, :, 0] ** 2))


def log_determinants(draw, X):
    """Sum of the log determinants of the covariances."""
    return float(np.linalg.slogdet(draw["covariances"])[1].sum())
