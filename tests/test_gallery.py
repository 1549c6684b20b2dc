"""Scripts of the gallery: one style, data of every installation, lines that fit the page."""

import re

import pytest
from _pages import ROOT, all_pages

SCRIPTS = sorted((ROOT / "examples").rglob("plot_*.py"))
STYLE = 'plt.style.use("skmanifold.inspection.skmanifold")'


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_have_the_common_style_and_data_of_every_installation(path):
    text = path.read_text(encoding="utf-8")
    assert STYLE in text
    assert "sphinx_gallery_thumbnail_number" in text
    assert not re.search(r"#[0-9a-fA-F]{6}\b", text), "colours are those of the style: C0, C1, ..."
    assert "SKMANIFOLD_DATA" not in text
    assert [line for line in text.splitlines() if len(line) > 100] == []


def test_every_section_has_a_header_and_every_script_a_section():
    sections = {path.parent.name for path in SCRIPTS}
    assert all((ROOT / "examples" / section / "GALLERY_HEADER.rst").exists() for section in sections)
    assert "examples" not in sections


def test_blocks_of_pages_fit_the_page():
    too_long = {}
    for page in all_pages():
        for block in page.of_language("python"):
            if lines := [line for line in block.code.splitlines() if len(line) > 100]:
                too_long[page.name] = lines
    assert too_long == {}
