"""A page of HTML that shows topics, their words and their documents without network; its template is `topics.html`."""

from __future__ import annotations

import json
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_scalar

from ...inference._draws import check_level, equal_tailed_intervals
from ...sparse.counts import validate_counts
from ...topics.top_words import column_names, find_top_words
from ...utils._disk import replaced
from ...utils._inputs.column_order import names_in_order
from .topic_frame import largest_first, topic_shares

_STEPS = 20  # of the slider from 0 to 1
_TINY = np.finfo(np.float64).tiny  # the page takes logarithms
_EXCERPT = 300  # characters of a document
_N_TOP = 8  # words of a document


def write_page(
    estimator: Any, path: Any, X: Any, feature_names: Any, documents: Any, n_words: int, n_documents: int, level: float
) -> None:
    """Write the page of `TopicPage.to_html`."""
    check_scalar(n_words, "n_words", Integral, min_val=1)
    check_scalar(n_documents, "n_documents", Integral, min_val=0)
    check_level(level)
    topics, shares = np.maximum(estimator.components_, _TINY, dtype=np.float64), topic_shares(estimator)
    n_topics, n_features = topics.shape
    if feature_names is None and not hasattr(estimator, "feature_names_in_"):
        feature_names = [f"x{column}" for column in range(n_features)]
    words = list(map(str, column_names(estimator, n_features, feature_names)))
    found: list[list[Any]] = [[]] * n_topics
    if X is not None:
        counts = validate_counts(estimator, X, reset=False)
        n_rows = counts.shape[0]
        names = [f"Row {i}" for i in range(n_rows)] if documents is None else names_in_order(documents, "documents")
        if len(names) != n_rows:
            raise ValueError(f"documents has {len(names)} entries for {n_rows} rows of X.")
        proportions, lengths = np.asarray(estimator.transform(X), np.float64), np.asarray(counts.sum(axis=1))
        shares = lengths @ proportions if shares is None else shares
        largest = [np.argsort(-column, kind="stable") for column in proportions.T]
        found = [
            [
                _document(counts[[i]], names[i], p[i], topic, words)
                for i in rows[lengths[rows] > 0][:n_documents].tolist()
            ]
            for rows, p, topic in zip(largest, proportions.T, topics, strict=True)
        ]
    elif documents is not None:
        raise ValueError("documents belong to the rows of X: pass X too.")
    if shares is None:
        raise ValueError(f"{type(estimator).__name__} keeps no shares of its topics: pass X.")
    shares = shares / shares.sum()
    intervals, share_intervals, level = _intervals(estimator, level)
    average, n_words = shares @ topics, min(n_words, n_features)
    shown = [_relevant(topic, average, n_words) for topic in topics]
    used, titles = np.unique(np.concatenate(shown)), estimator._topic_names()
    data = {
        "title": f"{n_topics} topics of {type(estimator).__name__}",
        "steps": _STEPS,
        "n_words": n_words,
        "level": f"{100 * level:.3g}%",
        "words": [words[column] for column in used],
        "average": _rounded(average[used]),
        "topics": [
            {
                "number": k,
                "name": str(titles.get(k, "")),
                "share": _rounded(shares[k]),
                "share_interval": None if share_intervals is None else _rounded(share_intervals[:, 0, k]),
                "words": np.searchsorted(used, shown[k]).tolist(),
                "p": _rounded(topics[k, shown[k]]),
                "interval": None if intervals is None else _rounded(intervals[:, k, shown[k]]),
                "documents": found[k],
            }
            for k in largest_first(shares, n_topics).tolist()
        ],
    }
    content = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", r"\u003c")  # "</script>" ends it
    page = Path(__file__).with_name("topics.html").read_text("utf-8").replace("{{data}}", content)
    with replaced(path) as temporary:
        temporary.write_text(page, "utf-8")


def _relevant(topic: np.ndarray, average: np.ndarray, n_words: int) -> np.ndarray:
    """Columns that are among the most relevant ones at some step of the slider."""
    log_topic, log_average = np.log(topic), np.log(average)
    relevance = (log_topic - (1 - step / _STEPS) * log_average for step in range(_STEPS + 1))
    return np.unique([find_top_words(row[np.newaxis], n_words) for row in relevance])


def _document(counts: Any, name: Any, proportion: float, topic: np.ndarray, words: list[str]) -> list[Any]:
    """Name, proportion, number of tokens, and the words that are most typical of the topic."""
    text, columns = str(name), counts.indices
    top = columns[np.argsort(-counts.data * topic[columns], kind="stable")[:_N_TOP]]
    text = f"{text[:_EXCERPT]}..." if len(text) > _EXCERPT else text
    return [text, _rounded(proportion), _rounded(counts.sum()), [words[column] for column in top]]


def _intervals(estimator: Any, level: float) -> tuple[np.ndarray | None, np.ndarray | None, float]:
    """Intervals of the entries (2, K, V) and the shares (2, 1, K), None without draws, and the level that they have."""
    try:
        intervals = estimator.credible_intervals(level)
    except (AttributeError, ValueError):  # the sampler draws no topics, or none were kept
        return None, None, level
    draws = estimator.posterior_
    weights = None if "n_components" in draws else draws.get("topic_weights")
    shares = None if weights is None else equal_tailed_intervals(weights[estimator.best_chain_][:, np.newaxis], level)
    return intervals, shares, estimator._reached_level(level)


def _rounded(values: Any) -> Any:
    """Five digits are enough: most of the page consists of numbers."""
    return [_rounded(value) for value in values] if np.ndim(values) else float(f"{values:.5g}")
