"""Pages, docstrings, comments and messages use standard terms."""

import io
import re
import tokenize

import pytest
from _pages import ROOT, all_pages

# Retired expressions, and what to write instead
RETIRED = {
    r"nobody|no one|anybody": "drop, or name the subject",
    r"foresee\w*|foretell\w*": "predict",
    r"(?<!k-)flats": "affine subspaces",
    r"(?<!zipf's )(?<!power )(?<!probability )laws?(?! of large numbers)": "distribution",
    r"as it comes|as they come": "with default settings",
    r"of (?:your|one's) own": "custom, user-defined",
    r"(?:nats|tokens|rows|documents|samples|passes) an? (?:row|second|token|word|pass|document)": "per",
    r"beside": "compared with, next to",
    r"(?:rows|documents|words|texts|cells) held out": "held-out rows",
    r"numbers? tells?|topics? (?:says?|speaks?)": "show, indicate, contain",
    r"beginnings": "initialisation, initial labels",
    r"(?:the|a) same result again|on disk and on clusters|how the house is laid out": "the titles of the pages",
    r"rooms": "packages, modules",
    r"anew|whence|wherein|thereof": "again; a plain connective",
}
_PATTERNS = {re.compile(rf"(?i)(?<![\w-])(?:{words})(?![\w-])"): instead for words, instead in RETIRED.items()}
SOURCES = [
    *sorted((ROOT / "skmanifold").rglob("*.py")),
    *sorted((ROOT / "examples").rglob("*.py")),
    *sorted((ROOT / "benchmarks").rglob("*.py")),
]


def retired_words(lines) -> list[str]:
    """Each retired expression in numbered lines, with what to write instead; code in backquotes is not prose."""
    found = []
    for number, line in lines:
        prose = re.sub(r"(`+)[^`]*\1", "", line)
        for pattern, instead in _PATTERNS.items():
            found += [f"line {number}: {match[0]!r} ({instead})" for match in pattern.finditer(prose)]
    return found


def prose_of(source: str) -> list[tuple[int, str]]:
    """Comments and strings of a module, line by line."""
    lines = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) or "FSTRING_MIDDLE" in tokenize.tok_name[token.type]:
            lines += [(token.start[0] + n, line) for n, line in enumerate(token.string.splitlines())]
    return lines


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: page.name)
def test_pages_use_standard_terms(page):
    assert retired_words(page.prose) == []


def test_sources_use_standard_terms():
    found = {}
    for path in SOURCES:
        if words := retired_words(prose_of(path.read_text(encoding="utf-8"))):
            found[path.relative_to(ROOT).as_posix()] = words
    assert found == {}


def test_retired_words_are_found_in_prose_only():
    lines = [(1, "Nobody can foresee `flats`."), (2, "K-flats, Zipf's law, the housework")]
    assert [words.split(": ")[1].split(" (")[0] for words in retired_words(lines)] == ["'Nobody'", "'foresee'"]
    assert prose_of('x = "a law"  # and flats\nlaw = 1\n') == [(1, '"a law"'), (1, "# and flats")]
