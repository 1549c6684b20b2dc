"""The oldest versions that are tested are those that the package asks for."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OLDEST = dict(re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / ".ci/oldest.txt").read_text(), re.MULTILINE))


def release(version):
    """Numbers of a version, without zeros at its end."""
    return re.sub(r"(\.0)+$", "", version)


@pytest.mark.parametrize("requirement", [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]])
def test_oldest_version_allowed_is_the_oldest_tested(requirement):
    name, _, version = re.fullmatch(r"([\w-]+)(\[\w+\])?>=([\d.]+)(?:;.*)?", requirement).groups()
    assert release(OLDEST[name]) == release(version)
