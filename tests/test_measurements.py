"""Measured figures: benchmarks write them to files, pages include these files, and no page repeats their numbers."""

import argparse
import os
import re
import sys
from pathlib import Path

import pytest
from _pages import ROOT, all_pages

from benchmarks import _results as results

RESULTS = ROOT / "benchmarks" / "results"
FILES = sorted(RESULTS.glob("*.md"))
PAGES = all_pages()
ONCE = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8").partition("## Measured once")[2]
INCLUDE = re.compile(r"^```\{include\} +(\S+)", re.MULTILINE)
SCRIPT = re.compile(r"`(?:\w+=\S+ )*python -m benchmarks\.(\w+)[^`]*`")
SHOWN_FIRST = ("README.md", "doc/index.md", "doc/choosing_a_sampler.md", "doc/user_guide/", "doc/getting_started/")
UNITS = "tokens|rows|documents|samples"
THROUGHPUT = re.compile(
    rf"\d (?:(?:million|thousand) )?(?:{UNITS})(?: a | per |/)s|Mtokens|tokens/s|"
    r"\b(?:ns|nanoseconds) (?:a|per)\b"
)


def included(path: Path) -> set[Path]:
    """The files that a page includes."""
    return {(path.parent / target).resolve() for target in INCLUDE.findall(path.read_text(encoding="utf-8"))}


def test_every_included_file_exists():
    missing = {page.name: [str(path) for path in included(page.path) if not path.exists()] for page in PAGES}
    assert {name: paths for name, paths in missing.items() if paths} == {}


def test_every_file_of_results_is_on_a_page():
    shown = set().union(*(included(page.path) for page in PAGES))
    assert [path.name for path in FILES if path.resolve() not in shown] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_of_results_names_the_command_that_wrote_it(path):
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    script = SCRIPT.search(first)
    assert script, first
    assert path.stem.startswith(script[1])
    assert re.search(r"\b20\d\d\b", first), "the date is missing"
    if f"results/{path.name}" in ONCE:
        return
    assert "add_write(" in (ROOT / "benchmarks" / f"{script[1]}.py").read_text(encoding="utf-8"), "no option --write"


def test_pages_do_not_repeat_measured_throughput():
    found = {}
    for page in PAGES:
        if page.name.startswith(SHOWN_FIRST):
            lines = [f"line {number}: {line}" for number, line in page.prose if THROUGHPUT.search(line)]
            found |= {page.name: lines} if lines else {}
    assert found == {}


@pytest.mark.parametrize("text", ["24 million tokens per second", "| Mtokens/s |", "843 ns a row", "1,000 rows/s"])
def test_throughput_is_recognised(text):
    assert THROUGHPUT.search(text)


@pytest.mark.parametrize("text", ["3.7 million tokens", "the throughput in tokens per pass", "5,000 documents"])
def test_sizes_are_not_throughput(text):
    assert not THROUGHPUT.search(text)


@pytest.fixture
def files_of_a_script(tmp_path, monkeypatch):
    """What a script that shows a table leaves in the folder of results, given its options."""

    def run(*arguments):
        monkeypatch.setattr(results, "FOLDER", tmp_path)
        monkeypatch.setattr(results, "_shown", [])
        monkeypatch.setattr(sys, "argv", [os.path.join("benchmarks", "lda_speed.py"), *arguments])
        parser = argparse.ArgumentParser()
        parser.add_argument("--corpus")
        results.add_write(parser)
        options = parser.parse_args()
        results.title("K=10")
        results.begin_table(("method", "seconds"), [("a", 1), ("b", 2.5)])
        results.finish(options, part="_ng20", notes="Two cores.")
        return {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}

    return run


def test_write_keeps_what_was_shown(files_of_a_script):
    text = files_of_a_script("--corpus", "ng20", "--write")["lda_speed_ng20.md"]
    assert text.startswith("Measured with `python -m benchmarks.lda_speed --corpus ng20` on ")
    assert text.endswith("\n\nTwo cores.\n\n**K=10**\n\n| method | seconds |\n|---|---|\n| a | 1 |\n| b | 2.5 |\n")
    assert results.versions(["numpy"])[0] in text


def test_nothing_is_written_without_the_option(files_of_a_script, capsys):
    assert files_of_a_script() == {}
    assert "| a | 1 |" in capsys.readouterr().out
