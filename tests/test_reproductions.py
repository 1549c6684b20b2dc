"""The claims of the five papers and the experiments that decide them: tables, names and settings, without sampling."""

import csv
import inspect
import re
from collections import Counter
from numbers import Real

import pytest
from _pages import ROOT, read_page
from test_english import retired_words

from benchmarks.papers import __main__ as papers
from benchmarks.papers import _stored_rows

COLUMNS = ["place", "claim", "state", "ours", "where"]
STATES = ["confirmed", "refuted", "partly", "open", "erratum", "not testable"]
DECIDED = {"confirmed", "refuted", "partly", "erratum"}
FILES = sorted((papers.FOLDER / "claims").glob("*.csv"))
NOT_IN_THE_PAPERS = ["stthomas2014_motions"]  # experiments with the method of a paper that it does not have
PAGE = read_page(ROOT / "doc" / "reproductions.md")


def claims_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file, strict=True)
        rows = list(reader)
    assert reader.fieldnames == COLUMNS
    return rows


CLAIMS = {path.stem: claims_of(path) for path in FILES}
by_paper = pytest.mark.parametrize("paper", CLAIMS)
by_name = pytest.mark.parametrize("name", papers.NAMES)


def files_in(where):
    """The paths that the column `where` names."""
    return re.findall(r"`([^`]+)`", where)


def test_each_paper_has_its_claims():
    assert list(CLAIMS) == ["0", "1", "2", "3", "4"]


@by_paper
def test_claims_are_complete(paper):
    for row in CLAIMS[paper]:
        assert None not in row, row
        assert None not in row.values(), row
        assert row["place"], row
        assert row["claim"].endswith("."), row
        assert row["state"] in STATES, row
        assert len(row["ours"].split()) <= 25, row
        assert re.fullmatch(r"(`[\w./-]+`(, `[\w./-]+`)*)?", row["where"]), row
        assert row["where"] or row["state"] not in DECIDED, row
        assert row["ours"] or row["state"] not in {"refuted", "partly", "erratum"}, row


@by_paper
def test_claims_are_listed_once(paper):
    assert [claim for claim, n in Counter(row["claim"] for row in CLAIMS[paper]).items() if n > 1] == []


@by_paper
def test_scripts_tests_and_pages_of_claims_exist(paper):
    named = {path for row in CLAIMS[paper] for path in files_in(row["where"])}
    assert sorted(path for path in named if not (ROOT / path).is_file()) == []


@by_paper
def test_claims_use_standard_terms(paper):
    lines = [(number, f"{row['claim']} {row['ours']}") for number, row in enumerate(CLAIMS[paper], 2)]
    assert retired_words(lines) == []


@by_paper
def test_the_page_shows_the_claims(paper):
    blocks = PAGE.of_language("{csv-table}")
    assert sum(f":file: ../benchmarks/papers/claims/{paper}.csv\n" in block.code for block in blocks) == 1


def test_the_page_counts_the_claims():
    numbers = {
        paper: [sum(row["state"] == state for row in rows) for state in STATES] + [len(rows)]
        for paper, rows in CLAIMS.items()
    }
    numbers["all"] = [sum(column) for column in zip(*numbers.values(), strict=True)]
    tables = [re.match(r"\| (?:\[\[(\d)\]|(all)).*?((?: \| \d+)+) \|$", line) for _, line in PAGE.prose]
    shown = {match[1] or match[2]: [int(n) for n in match[3].split(" | ")[1:]] for match in tables if match}
    assert shown == numbers


def test_the_page_shows_all_results():
    text = PAGE.path.read_text(encoding="utf-8")
    results = [path.name for path in papers.RESULTS.glob("*") if path.suffix in {".md", ".svg"}]
    assert sorted(name for name in results if f"../benchmarks/papers/results/{name}" not in text) == []
    assert sorted({path.stem for path in papers.RESULTS.glob("*.csv")} - set(papers.NAMES)) == []


@by_name
def test_claims_name_the_experiment(name):
    path = f"benchmarks/papers/{name}.py"
    named = any(path in files_in(row["where"]) for rows in CLAIMS.values() for row in rows)
    assert named != (name in NOT_IN_THE_PAPERS)


@by_name
def test_an_experiment_has_a_title_and_its_functions(name):
    module = papers.module_of(name)
    assert re.search(r"\(20\d\d\): .{15,}", papers.title_of(module)), "Fig. 2 of Ma et al. (2015): what it shows"
    for function, parameters in (("cases", ["quick"]), ("show", ["rows"]), ("draw", ["rows"])):
        if function != "draw" or hasattr(module, "draw"):
            assert list(inspect.signature(getattr(module, function)).parameters) == parameters
    assert callable(module.run)


@by_name
def test_settings_are_flat_complete_and_differ(name):
    module = papers.module_of(name)
    quick, full = list(module.cases(True)), list(module.cases(False))
    for cases in (quick, full):
        assert cases
        keys = Counter(_stored_rows.key_of(case) for case in cases)
        assert [key for key, n in keys.items() if n > 1] == []
    for case in quick + full:
        assert all(isinstance(value, (str, Real)) for value in case.values()), case
        assert list(case) == list(full[0])  # the columns of the file
        inspect.signature(module.run).bind(**case)
