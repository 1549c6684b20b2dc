"""skmanifold and every installed library of the same purpose, on the same data, written as a page with charts.

In each comparison the methods run alternately, always in the same order, on one core; a method of skmanifold is the
first. Ratios and differences are between runs next to each other. Libraries that are not installed are named. All
comparisons take about ten minutes on a quiet core; `--quick` takes a minute and a half, on data that are too small for
conclusions.

    python -m benchmarks.compare
    python -m benchmarks.compare --only subspaces samplers
    python -m benchmarks.compare --only subspaces --update
    python -m benchmarks.compare --render

With `--update` new results replace those of the same comparisons on the page, which says so. The last command writes
the page and its charts again from benchmarks/results/compare.json, without measuring.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

from threadpoolctl import threadpool_limits

from benchmarks import _compare_rows as rows
from benchmarks import _compare_topics as topics
from benchmarks._compare_charts import alt_text, chart_name, draw, has_chart
from benchmarks._compare_samplers import samplers
from benchmarks._compare_table import HEAD_OF_SUMMARY, UNDECIDED, contest_table, markdown, results_of, summary_rows
from benchmarks._compare_turns import hold
from benchmarks._results import FOLDER, machine, versions

CONTESTS = {  # what makes the comparisons of each name, given whether to be quick
    "lda-speed": lambda quick: [topics.speed(quick)],
    "lda-perplexity": lambda quick: [topics.perplexity(quick)],
    "lda-memory": lambda quick: [topics.memory(quick)],
    "gaussian": rows.gaussian_held_out,
    "binary": rows.binary_held_out,
    "passes": rows.passes,
    "categorical": rows.categorical,
    "directions": rows.directions,
    "subspaces": rows.subspaces,
    "samplers": samplers,
}
PACKAGES = ("skmanifold", "scikit-learn", "numpy", "scipy", "numba")
OTHERS = ("tomotopy", "topica", "pyrmallet", "gensim", "stepmix", "blackjax", "arviz-stats")
PAGE = Path(__file__).parents[1] / "doc" / "benchmarks.md"
RESULTS = FOLDER / "compare.json"
QUICK = (
    "**This is a quick run on data that are too small for conclusions. It shows that all comparisons work. Run "
    "`python -m benchmarks.compare` for figures.**\n\n"
)


def page(run, charts=None):
    """The page as text; `run` is what `compare` returned, `charts` has the links of charts by title."""
    begin = "# Benchmarks: comparison with other libraries\n\n"
    if run["quick"]:
        begin += QUICK
    elif run["only"]:
        begin += "**This page has only a part of the comparisons.**\n\n"
    begin += (
        f"This page is written by `{run['command']}` (run time {run['minutes']:.0f} min). "
        "Do not edit it by hand. More benchmarks, with longer runs, are on the page "
        "[All measurements](measurements.md).\n\n"
        f"- Machine: {run['machine']}; load average {run['load'][0]:.1f} before and {run['load'][1]:.1f} after the "
        "run\n"
        f"- Versions: {run['versions']}\n"
        f"- Not installed: {run['missing'] or 'none'}\n"
        + "".join(
            f"- Measured later, in one run ({again['machine']}; load average {again['load'][0]:.1f} before and "
            f"{again['load'][1]:.1f} after it; {again['versions']}): {'; '.join(again['titles'])}\n"
            for again in run.get("updates", [])
        )
        + f"\nEach method runs {run['n_turns']} times on one core. The methods of a comparison alternate, always in "
        "the same order, so that they run under the same conditions. All times are processor times. The machine is "
        "shared, so that small differences mean little.\n\n"
        "Table cells show the median (range) of the runs. "
        "The best median of each column is in bold. The column *advantage* compares the first row with another row, "
        "run by run: it shows the factor by which the first row is better, or the difference where scores can be "
        "negative. Values above 1 (for differences, above 0) favour the first row.\n\n"
        "## Summary\n\n"
        "The table compares the best method of skmanifold with the best method of the other libraries. The winner is "
        f"*{UNDECIDED}* if neither was better in all runs.\n\n"
    )
    contests = run["contests"]
    body = [begin + markdown([list(HEAD_OF_SUMMARY), *(row for found in contests for row in summary_rows(found))])]
    for found in contests:
        parts = [f"## {found['title']}", f"Data: {found['data']}. {found['note']}"]
        if charts and found["title"] in charts:
            parts.append(f"![{alt_text(found)}]({charts[found['title']]})")
        body.append("\n\n".join([*parts, contest_table(found)]))
    return "\n\n".join(text.strip() for text in body) + "\n"


def compare(names, *, quick, n_turns):
    """Run the comparisons and print each when it is done; returns their results."""
    contests = []
    for name in names:
        begun = time.perf_counter(), os.times()
        for contest in CONTESTS[name](quick):
            found = results_of(contest, hold(contest, n_turns))
            contests.append(found)
            print(f"{contest.title}\n{contest_table(found)}\n", flush=True)
        seconds, processor = time.perf_counter() - begun[0], sum(os.times()[:4]) - sum(begun[1][:4])
        print(f"{name}: {seconds:.0f} s, processor time {processor:.0f} s\n", flush=True)
    return contests


def render(run, out, folder):
    """Write the page and, into `folder`, its charts."""
    folder.mkdir(parents=True, exist_ok=True)
    charts = {}
    for found in filter(has_chart, run["contests"]):
        path = folder / chart_name(found)
        draw(found, path)
        charts[found["title"]] = os.path.relpath(path, out.parent)
    out.write_text(page(run, charts), encoding="utf-8")
    print(f"Written: {out}")


def updated(stored, run):
    """The stored run, with the comparisons of a later run in place of those with the same titles."""
    found = {contest["title"]: contest for contest in run["contests"]}
    updates = [
        again | {"titles": titles}
        for again in stored.get("updates", [])
        if (titles := [title for title in again["titles"] if title not in found])
    ]
    updates.append({"titles": list(found), **{name: run[name] for name in ("machine", "load", "versions")}})
    contests = [found.pop(contest["title"], contest) for contest in stored["contests"]]
    return stored | {"contests": [*contests, *found.values()], "updates": updates}


def measure(options):
    """Run the comparisons; returns what is kept as JSON."""
    n_turns = options.turns or (2 if options.quick else 3)
    begun, load = time.perf_counter(), [os.getloadavg()[0]]
    with threadpool_limits(1):
        contests = compare(options.only or CONTESTS, quick=options.quick, n_turns=n_turns)
    command = "python -m benchmarks.compare" + (" --quick" if options.quick else "")
    installed, missing = versions((*PACKAGES, *OTHERS))
    return {
        "command": command + (f" --only {' '.join(options.only)}" if options.only else ""),
        "quick": options.quick,
        "only": options.only,
        "n_turns": n_turns,
        "minutes": (time.perf_counter() - begun) / 60,
        "machine": machine(),
        "load": [*load, os.getloadavg()[0]],
        "versions": installed,
        "missing": missing,
        "contests": contests,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="use small data, to check that all comparisons work")
    parser.add_argument(
        "--only", nargs="+", default=[], choices=list(CONTESTS), metavar="NAME", help=", ".join(CONTESTS)
    )
    parser.add_argument("--turns", type=int, help="runs of each method (3; with --quick 2)")
    parser.add_argument(
        "--out",
        type=Path,
        help="the page to write, with its charts and data next to it (default: doc/benchmarks.md and "
        "benchmarks/results; with --only the results are printed and not written)",
    )
    parser.add_argument(
        "--update", action="store_true", help="with --only: replace these comparisons in the page and its data"
    )
    parser.add_argument(
        "--render", action="store_true", help="measure nothing; write the page from benchmarks/results/compare.json"
    )
    options = parser.parse_args()
    if options.render:
        render(json.loads(RESULTS.read_text(encoding="utf-8")), options.out or PAGE, FOLDER)
    else:
        run = measure(options)
        if options.update:
            run = updated(json.loads(RESULTS.read_text(encoding="utf-8")), run)
        out = options.out or (PAGE if options.update or not options.only else None)
        if out:
            folder = options.out.parent if options.out else FOLDER
            (folder / RESULTS.name).write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
            render(run, out, folder)
