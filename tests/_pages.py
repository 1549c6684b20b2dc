"""Pages of markdown as tests see them: blocks of code, links, and what a link may point at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"^(?P<indent> {0,3})(?P<fence>`{3,}|:{3,}|~{3,})(?P<info>.*)$")
_DIRECTIVE = re.compile(r"\{(?P<name>[^}]*)\} *(?P<argument>.*)")
_NOT_RUN = re.compile(r"<!--\s*not run:\s*(?P<reason>.*?)\s*-->")
_LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\((?P<target>[^()\s]+(?:\([^()\s]*\))?)(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6} +(?P<words>.*?) *#*$")
_LABEL = re.compile(r"^\((?P<label>[\w.:-]+)\)=$")
SHELL = {"sh", "bash", "shell", "console"}


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    language: str  # "" if none is named
    code: str
    line: int  # of the page, from 1, on which the code begins
    not_run: str | None = None  # the reason, if the line before says so

    @property
    def is_session(self) -> bool:
        """Whether it has prompts, for doctest."""
        return self.code.lstrip().startswith(">>>")


@dataclass(frozen=True)
class Page:
    """A page of markdown, cut into code and prose."""

    path: Path
    blocks: tuple[Block, ...]
    prose: tuple[tuple[int, str], ...]  # lines outside of code, with their numbers

    @property
    def name(self) -> str:
        """Its path in the repository."""
        return self.path.relative_to(ROOT).as_posix()

    def of_language(self, *languages: str) -> list[Block]:
        """Its blocks in one of these languages."""
        return [block for block in self.blocks if block.language in languages]

    def links(self) -> list[tuple[int, str]]:
        """Targets of its links and pictures, with their lines, but for those out into the web."""
        found = []
        for number, line in self.prose:
            without_code = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", line)
            found += [(number, match["target"]) for match in _LINK.finditer(without_code)]
        return [(n, target) for n, target in found if not re.match(r"[a-z][a-z+.-]*:", target)]

    def anchors(self) -> set[str]:
        """Names that a link may put after ``#``: headings as GitHub writes them, and labels."""
        names: set[str] = set()
        for _, line in self.prose:
            if match := _LABEL.match(line):
                names.add(match["label"])
            elif match := _HEADING.match(line):
                slug = _slug(match["words"])
                repeated = (f"{slug}-{i}" for i in range(1, 100))
                names.add(slug if slug not in names else next(name for name in repeated if name not in names))
        return names


def read_page(path: Path) -> Page:
    """The page at a path. Code within MyST's directives of colons, such as notes and tabs, is found too."""
    blocks: list[Block] = []
    prose: list[tuple[int, str]] = []
    fence, language, code, begins, reason = "", "", [], 0, None
    before = ""  # the last line that was not empty
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = _FENCE.match(line)
        if fence:
            if match and match["fence"].startswith(fence) and not match["info"].strip():
                blocks.append(Block(language, "\n".join(code) + "\n", begins, reason))
                fence, before = "", ""
            else:
                code.append(line)
        elif match and match["fence"][0] != ":":
            fence, language, code, begins = match["fence"], _language(match["info"].strip()), [], number + 1
            skipped = _NOT_RUN.search(before)
            reason = skipped["reason"] if skipped else None
        else:
            prose.append((number, line))
            before = line or before
    if fence:
        raise ValueError(f"{path}:{begins - 1}: a block is not closed.")
    return Page(path, tuple(blocks), tuple(prose))


def all_pages() -> list[Page]:
    """README and the pages of the guide."""
    documents = [path for path in sorted((ROOT / "doc").rglob("*.md")) if not _is_made(path)]
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")]
    return [read_page(path) for path in [*(path for path in top if path.exists()), *documents]]


def _is_made(path: Path) -> bool:
    """Whether the build of the guide made it."""
    inside = path.relative_to(ROOT / "doc").parts[:-1]
    return any(part in {"_build", "gallery", "auto_examples", "generated"} for part in inside)


def _language(info: str) -> str:
    """Of a fence's first line; ``{code-block} python`` is python, and other directives are not code."""
    directive = _DIRECTIVE.match(info)
    if directive is None:
        return info.split()[0].lower() if info else ""
    if directive["name"] in {"code-block", "code", "code-cell"}:
        return directive["argument"].split()[0].lower() if directive["argument"] else ""
    return f"{{{directive['name']}}}"


def _slug(words: str) -> str:
    """A heading's anchor, by GitHub's rule."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words.strip().lower())
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
