"""Held-out scores of spherical admixtures by initial topics: centres of clusters, or mean-field inference.

The corpora, concentrations and scores are those of `_sam_runs`, for the default sampler. The spread is the largest
minus the smallest score of all seeds. One core. Runs are kept in a CSV file, and those that it has are not repeated.

    python -m benchmarks.sam_starts --data news --seeds 0 1 2
    python -m benchmarks.sam_starts --write
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from benchmarks._results import add_write, begin_table, finish, row
from benchmarks._runs import spread
from benchmarks._sam_runs import load, run, some_of
from skmanifold.admixture._spherical.documents import initialize_topics
from skmanifold.random._keys import Purpose, subkey

MARKS = {"news": (20, 50, 100, 200), "wiki": (5, 20, 60), "nsf": (5, 20, 60)}  # passes
NAMES = {"news": "20News-different, K=20", "wiki": "Wikipedia, K=50", "nsf": "NSF, K=50"}
N_HELD_OUT = {"news": None, "wiki": 300, "nsf": 300}  # None is all 1,107
CLUSTERS, MEAN_FIELD = "centres of clusters", "mean-field inference"
FIELDS = ("data", "start", "seed", "passes", "seconds", "score")
KEPT = Path(__file__).with_name("sam_starts.csv")


def at_clusters(model):
    """Let chains of the model start at the centres of clusters."""

    def initial_topics(key):
        return initialize_topics(model.rows, model.n_components, subkey(key, Purpose.START)).topics

    model.initial_topics = initial_topics


def read():
    """All kept rows."""
    if not KEPT.exists():
        return []
    with KEPT.open(newline="") as file:
        return [
            {**each, **{name: float(each[name]) for name in ("seed", "passes", "seconds", "score")}}
            for each in csv.DictReader(file)
        ]


def measure(data, start, seed):
    """Run one seed and keep its rows."""
    rows, held_out = load(data)
    prepare = at_clusters if start == CLUSTERS else None
    given = "gsgnht", rows, some_of(held_out, N_HELD_OUT[data]), data, seed, list(MARKS[data])
    next(run("gsgnht", some_of(rows, 300), some_of(held_out, 20), data, 99, [1]))  # load the machine code
    found = [result[:3] for result in run(*given, prepare=prepare)]
    with KEPT.open("a", newline="") as file:
        writer = csv.writer(file)
        if file.tell() == 0:
            writer.writerow(FIELDS)
        writer.writerows(
            [data, start, seed, passes, round(seconds, 1), round(float(score), 2)] for seconds, passes, score in found
        )
    print(data, start, seed, *(f"{passes}: {score:.1f}" for _, passes, score in found), flush=True)


def print_table(rows):
    """Medians, ranges and spreads of scores, by passes."""
    begin_table(("corpus", "start", "seeds", "passes", "log perplexity", "spread", "seconds"))
    for data, name in NAMES.items():
        for start in (CLUSTERS, MEAN_FIELD):
            for passes in MARKS[data]:
                own = [each for each in rows if (each["data"], each["start"], each["passes"]) == (data, start, passes)]
                if own:
                    scores = np.array([each["score"] for each in own])
                    seconds = spread([each["seconds"] for each in own], ".0f")
                    row((name, start, len(own), passes, spread(scores, ".0f"), f"{np.ptp(scores):.1f}", seconds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="*", choices=tuple(NAMES), default=[])
    parser.add_argument("--starts", nargs="+", choices=(CLUSTERS, MEAN_FIELD), default=[CLUSTERS, MEAN_FIELD])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    add_write(parser)
    options = parser.parse_args()
    for data in options.data:
        for seed in options.seeds:
            for start in options.starts:
                if not any((each["data"], each["start"], each["seed"]) == (data, start, seed) for each in read()):
                    measure(data, start, seed)
    print_table(read())
    notes = "Held-out log perplexity of the default sampler, nats per document, by initial topics; lower is better. "
    notes += "All 1,107 held-out documents of the news groups, 300 of the other corpora."
    finish(options, notes=f"{notes} Medians (ranges) over seeds; processor times include the initial topics; one core.")
