"""Ours and every peer that is installed, on the same data in turn, written as a page: winners are shown winning.

Every contest is held in turns, contestants in the same order in each, one core each. Ours stands first; a ratio or a
difference is of turns that stood side by side. Peers that are not installed are named. The whole takes about ten
minutes on a quiet core; `--quick` takes a minute and a half, on data too small to prove anything.

    python -m benchmarks.compare
    python -m benchmarks.compare --only subspaces samplers
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import time
from pathlib import Path

import _compare_rows as rows
import _compare_topics as topics
from _compare_samplers import samplers
from _compare_table import HEAD_OF_SUMMARY, contest_table, markdown, summary_rows
from _compare_turns import hold, is_installed
from threadpoolctl import threadpool_limits

CONTESTS = {  # what makes the contests of each name, given whether to be quick
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
SHOWN = {  # distribution: package, where their names differ
    "skmanifold": "skmanifold",
    "scikit-learn": "sklearn",
    "numpy": "numpy",
    "scipy": "scipy",
    "numba": "numba",
    "tomotopy": "tomotopy",
    "gensim": "gensim",
    "stepmix": "stepmix",
    "blackjax": "blackjax",
    "arviz-stats": "arviz_stats",
}
PAGE = Path(__file__).parents[1] / "doc" / "benchmarks.md"


def machine():
    """Processor, cores and memory."""
    model = platform.processor() or platform.machine()
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, {platform.system()}, Python " + (
        platform.python_version()
    )


def versions():
    """Those that take part with their versions, and those that are missing."""
    found = [f"{name} {importlib.metadata.version(name)}" for name, package in SHOWN.items() if is_installed(package)]
    return ", ".join(found), ", ".join(name for name, package in SHOWN.items() if not is_installed(package))


def page(sections, summary, *, quick, only, n_turns, seconds, load):
    """The whole page; `sections` are pairs of a contest and its table."""
    installed, missing = versions()
    command = "python -m benchmarks.compare" + (" --quick" if quick else "")
    if only:
        command += f" --only {' '.join(only)}"
    begin = "# Benchmarks beside other libraries\n\n"
    if quick:
        begin += (
            "**A quick run, on data too small to prove anything: it shows that all contests work. Run "
            "`python -m benchmarks.compare` for figures.**\n\n"
        )
    elif only:
        begin += "**A part of the contests only.**\n\n"
    begin += (
        f"Written by `{command}` in {seconds / 60:.0f} minutes; not to be edited by hand. `benchmarks/README.md` "
        "tells of longer runs of more questions.\n\n"
        f"- Machine: {machine()}; load average {load[0]:.1f} before, {load[1]:.1f} after\n"
        f"- Versions: {installed}\n"
        f"- Not installed: {missing or 'none'}\n\n"
        f"Contestants take {n_turns} turns each, in the same order on one core. Cells hold the median (range) of the "
        "turns. The best median of a column is in bold, whoever has it. "
        "*Ours against it* sets the first row beside each other row, turn by turn: how many times better ours is (or, "
        "where numbers may be of either sign, by how much), so that above 1 (or above 0) ours is better. Seconds are "
        "of the processor.\n\n"
    )
    body = [begin + markdown([list(HEAD_OF_SUMMARY), *summary])]
    for contest, table in sections:
        body.append(f"## {contest.title}\n\nData: {contest.data}. {contest.note}\n\n{table}")
    return "\n\n".join(text.strip() for text in body) + "\n"


def compare(names, *, quick, n_turns):
    """Hold the contests, telling each when it is done; returns sections and the summary."""
    sections, summary = [], []
    for name in names:
        begun = time.perf_counter(), os.times()
        for contest in CONTESTS[name](quick):
            outcomes = hold(contest, n_turns)
            table = contest_table(contest, outcomes)
            sections.append((contest, table))
            summary += summary_rows(contest, outcomes)
            print(f"{contest.title}\n{table}\n", flush=True)
        seconds, processor = time.perf_counter() - begun[0], sum(os.times()[:4]) - sum(begun[1][:4])
        print(f"{name}: {seconds:.0f} s, of the processor {processor:.0f} s\n", flush=True)
    return sections, summary


def _read(path):
    try:
        return Path(path).read_text()
    except OSError:
        return ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small data, to see that all works")
    parser.add_argument(
        "--only", nargs="+", default=[], choices=list(CONTESTS), metavar="NAME", help=", ".join(CONTESTS)
    )
    parser.add_argument("--turns", type=int, help="of each contestant: 3, or 2 if quick")
    parser.add_argument(
        "--out", type=Path, help="the page to write: doc/benchmarks.md; none for a part, which is printed"
    )
    options = parser.parse_args()
    n_turns = options.turns or (2 if options.quick else 3)
    begun, load = time.perf_counter(), [os.getloadavg()[0]]
    with threadpool_limits(1):
        found = compare(options.only or CONTESTS, quick=options.quick, n_turns=n_turns)
    load.append(os.getloadavg()[0])
    out = options.out or (None if options.only else PAGE)
    if out:
        told = {"quick": options.quick, "only": options.only, "n_turns": n_turns}
        out.write_text(page(*found, **told, seconds=time.perf_counter() - begun, load=load))
        print(f"Written: {out}")
