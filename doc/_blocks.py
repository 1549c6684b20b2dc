"""Blocks of Python on the pages are run when the site is built; their output stands below them (MyST-NB)."""

import re

_PYTHON = re.compile(r"^```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
_NOT_RUN = re.compile(r"<!--\s*not run:[^>]*-->\s*\Z")
_HEADER = "file_format: mystnb\nkernelspec:\n  name: python3\n"


def run_blocks(app, docname: str, source: list[str]) -> None:
    """Turn the blocks of a page into cells of a notebook.

    Sessions with prompts and blocks below a comment ``<!-- not run: reason -->`` stay as they are.
    """

    def cell(match: re.Match) -> str:
        before = text[: match.start()]
        if _NOT_RUN.search(before) or match["code"].lstrip().startswith(">>>"):
            return match[0]
        return "```{code-cell} python\n" + match["code"] + "```"

    text = source[0]
    pages = _PYTHON.sub(cell, text)
    if pages == text:
        return
    front = re.match(r"---\n(?P<entries>.*?)^---\n", pages, re.DOTALL | re.MULTILINE)
    entries, rest = (front["entries"], pages[front.end() :]) if front else ("", pages)
    source[0] = f"---\n{entries}{_HEADER}---\n{rest}"
