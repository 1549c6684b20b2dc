"""Perplexity of topics that minibatch samplers learn from random documents of Wikipedia, at the papers' settings."""

from __future__ import annotations

import warnings
from functools import lru_cache
from itertools import product

import numpy as np

from benchmarks._corpora import load_counts, split_documents
from benchmarks._runs import line_style, spread
from benchmarks.lda_online import SEEN, run_stream


@lru_cache(maxsize=1)
def _split(n_words):
    """Counts of the most frequent words in the training documents and in all held-out documents."""
    X = load_counts("wiki")
    order = np.argsort(-np.asarray(X.sum(axis=0)).ravel(), kind="stable")
    return split_documents(X[:, np.sort(order[:n_words])])


def documents(n_words, n_test, first_test=0):
    """Training and held-out counts of the most frequent words; `first_test` held-out documents are left out."""
    train, held_out = _split(n_words)
    return train, held_out[first_test : first_test + n_test]


def seen(n_seen):
    """The numbers of documents after which the perplexity is computed."""
    return [n for n in SEEN if n <= n_seen]


def stream_perplexities(
    sampler, doc_topic_prior, topic_word_prior, *, n_components, n_words, n_test, n_seen, sweeps, seed, first_test=0
):
    """Perplexities after some documents, infinite if draws are no longer finite, and the seconds for all documents.

    The perplexity is averaged over five draws of the topics in the second half of the stream; the time for it is not
    counted.
    """
    train, test = documents(n_words, n_test, first_test)
    found, seconds = dict.fromkeys((f"after_{n}" for n in seen(n_seen)), np.inf), 0.0
    method = sampler, doc_topic_prior, topic_word_prior
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* does not draw from the posterior", category=UserWarning)
        warnings.filterwarnings("ignore", category=RuntimeWarning)  # that numbers are no longer finite
        for n, spent, perplexity in run_stream(method, train, test, n_components, n_seen, sweeps, seed):
            seconds = spent
            if n in SEEN:
                found[f"after_{n}"] = float(perplexity)
    return {**found, "seconds": seconds}


def values_of(rows, **wanted):
    """The rows with these settings."""
    return [each for each in rows if all(each[name] == value for name, value in wanted.items())]


def grid_cases(samplers, grid, n_seeds, sizes):
    """Settings of runs with each sampler, pair of values of the grid and seed."""
    return [
        {"sampler": sampler, **dict(zip(grid, values, strict=True)), "seed": seed, **sizes}
        for seed, sampler, *values in product(range(n_seeds), samplers, *grid.values())
    ]


def grid_table(rows, samplers, by_row, by_column, heads):
    """Head and rows of a table: perplexities after all documents by sampler and two settings, in falling order."""

    def values_in(name):
        return sorted({each[name] for each in rows}, reverse=True)

    columns, lines = values_in(by_column), []
    for sampler, value in product(samplers, values_in(by_row)):
        found = [values_of(rows, sampler=sampler, **{by_row: value, by_column: other}) for other in columns]
        cells = [spread([each[f"after_{each['n_seen']}"] for each in own], ".0f") if own else "" for own in found]
        lines.append((sampler, f"{value:g}", *cells))
    return ("sampler", heads[0], *(f"{heads[1]} {value:g}" for value in columns)), lines


def table_of(rows, methods):
    """Head and rows of a table: medians and ranges of perplexities over seeds, by method and number of documents."""
    numbers = [n for n in SEEN if f"after_{n}" in rows[0]]
    lines = []
    for method in methods:
        own = values_of(rows, method=method)
        if not own:
            continue
        cells = []
        for n in numbers:
            values = [each[f"after_{n}"] for each in own if each[f"after_{n}"] != ""]
            cells.append(spread(values, ".0f") if values else "")
        lines.append((method, *cells, f"{np.median([each['seconds'] for each in own]):.0f}"))
    return ("", *(f"{n:,} documents" for n in numbers), "seconds"), lines


def draw_curves(ax, rows, methods):
    """Perplexity by documents seen, with the range over seeds."""
    for number, method in enumerate(methods):
        own = values_of(rows, method=method)
        numbers = [n for n in SEEN if own and own[0].get(f"after_{n}", "") != ""]
        values = np.array([[each[f"after_{n}"] for each in own] for n in numbers])
        if len(values):
            style = line_style(number)
            ax.plot(numbers, np.median(values, axis=1), label=method, **style)
            ax.fill_between(numbers, values.min(axis=1), values.max(axis=1), color=style["color"], alpha=0.15)
    ax.set(xscale="log", yscale="log", xlabel="documents", ylabel="held-out perplexity")
    ax.legend(fontsize="small")
