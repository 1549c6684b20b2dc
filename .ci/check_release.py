"""Check that a tag is that of a release which the checkout describes, and write the release's notes.

Run `python .ci/check_release.py v0.1.0 --notes notes.md`, which needs nothing installed.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_SECTION = r"^## \[{version}\] - (?P<date>.*)\n(?P<notes>(?:(?!^## ).*\n?)*)"


def version_of(root: Path) -> str:
    """The version that a build would have."""
    text = (root / "skmanifold" / "_version.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.*)"$', text, re.MULTILINE)[1]  # type: ignore[index]


def notes_of(root: Path, version: str) -> tuple[str, str]:
    """Date and text of a version's section in the changelog, both empty if there is none."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(_SECTION.format(version=re.escape(version)), text, re.MULTILINE)
    return (section["date"].strip(), section["notes"].strip()) if section else ("", "")


def wrong_for_release(root: Path, tag: str) -> list[str]:
    """What has to change before a commit can have this tag."""
    wrong = []
    version = tag.removeprefix("v")
    if tag == version or not re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", version):
        wrong.append(f"The tag {tag} is not like v0.1.0.")
    if version_of(root) != version:
        wrong.append(f"skmanifold/_version.py has {version_of(root)} and not {version}.")
    date, notes = notes_of(root, version)
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date):
        wrong.append(f"CHANGELOG.md has no heading '## [{version}] - ' with a date such as 2026-01-31.")
    elif not notes:
        wrong.append(f"CHANGELOG.md says nothing of {version}.")
    for path in ("CITATION.cff", "conda.recipe/recipe.yaml"):
        if not re.search(rf'^ *version: "?{re.escape(version)}"?$', (root / path).read_text("utf-8"), re.MULTILINE):
            wrong.append(f"{path} has another version than {version}.")
    files = f"tests/persistence/data/{version}"
    if "rc" not in version and not (root / files).exists():
        wrong.append(f"{files} is missing: `cd tests && python -m persistence._release_files` writes it.")
    if "-e" in (root / "skmanifold" / "_install.py").read_text(encoding="utf-8").partition("INSTALL = ")[2]:
        wrong.append("INSTALL in skmanifold/_install.py is that of a checkout: users will install the release.")
    return wrong


def main() -> None:
    """Check the tag and write the notes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tag")
    parser.add_argument("--notes", type=Path, help="file for the changelog's section")
    options = parser.parse_args()
    if wrong := wrong_for_release(ROOT, options.tag):
        sys.exit("\n".join(wrong))
    if options.notes:
        options.notes.write_text(notes_of(ROOT, options.tag.removeprefix("v"))[1] + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
