"""Check what a wheel and a source distribution contain, by their names of files.

Run `python .ci/check_dist.py dist`, which needs nothing installed.
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IN_SOURCES = ("tests/conftest.py", "doc/conf.py", "examples/quickstart.py", "benchmarks/first_fit.py", "LICENSE")
IN_SOURCES += ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "pyproject.toml", ".ci/fit_each.py")
MACHINE_CODE = "skmanifold/_kernels/"  # added to wheels of one version of Python by `machine_code.py`
MADE = ("__pycache__", ".pyc", ".nbi", ".nbc", "doc/_build/", "doc/gallery/", "doc/api/generated/")


def package_files() -> set[str]:
    """What the package consists of in the checkout: modules, stubs and the mark of types."""
    kinds = ("*.py", "*.pyi", "*.html", "*.mplstyle", "py.typed")
    return {path.relative_to(ROOT).as_posix() for kind in kinds for path in (ROOT / "skmanifold").rglob(kind)}


def wrong_in_wheel(names: Iterable[str]) -> list[str]:
    """What a wheel lacks, or has although it should not."""
    names = set(names)
    content = {name for name in names if ".dist-info/" not in name and not name.startswith(MACHINE_CODE)}
    wrong = [f"lacks {name}" for name in sorted(package_files() - content)]
    wrong += [f"has {name}" for name in sorted(content - package_files())]
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        wrong.append("lacks the licence")
    return wrong


def wrong_in_sources(names: Iterable[str]) -> list[str]:
    """What a source distribution lacks, or has although it should not; names are without the first folder."""
    names = set(names)
    wrong = [f"lacks {name}" for name in sorted((package_files() | set(IN_SOURCES)) - names)]
    return wrong + [f"has {name}" for name in sorted(names) if any(part in name for part in MADE)]


def main(folder: Path) -> None:
    """Check the wheels and the one source distribution of a folder."""
    (sources,) = folder.glob("*.tar.gz")
    wrong = []
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
        wrong += [f"{wheel.name} {what}" for what in wrong_in_wheel(names)]
        if wheel.name.endswith("-any.whl") == any(name.startswith(MACHINE_CODE) for name in names):
            wrong.append(f"{wheel.name} has machine code that its name does not tell, or lacks it")
    with tarfile.open(sources) as archive:
        names = [member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()]
    wrong += [f"{sources.name} {what}" for what in wrong_in_sources(names)]
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"Wheels have {len(package_files())} files of the package, {sources.name} {len(names)} files.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
