"""Runs the guide's pages, block after block, and keeps their figures: `python doc/draw_pictures.py [page ...]`.

A comment ``<!-- picture: name -->`` under a block of Python keeps the figure that the block has drawn, as
``_static/pictures/name.png``. A block under a comment ``<!-- not run: reason -->`` is left out.
"""

import os
import re
import sys
import time
from pathlib import Path

os.environ["MPLBACKEND"] = "Agg"

import matplotlib.pyplot as plt

HERE = Path(__file__).parent
PICTURES = HERE / "_static" / "pictures"
BLOCK = re.compile(
    r"(?P<skip><!-- not run:[^>]*-->\s*)?^```python\n(?P<code>.*?)^```$(?:\s*<!-- picture: (?P<picture>[\w-]+) -->)?",
    re.DOTALL | re.MULTILINE,
)
LOOK = {
    "figure.dpi": 100,
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.bbox": "tight",
    "savefig.dpi": 160,
}


def run(page: Path) -> None:
    """Execute a page's blocks in one namespace, as a reader would."""
    namespace: dict = {"__name__": "__main__"}
    plt.rcdefaults()
    plt.rcParams.update(LOOK)
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.finditer(text):
        if block["skip"]:
            continue
        before = "\n" * text[: block.start("code")].count("\n")  # so that tracebacks have the page's line numbers
        exec(compile(before + block["code"], str(page), "exec"), namespace)
        if block["picture"]:
            plt.gcf().savefig(PICTURES / f"{block['picture']}.png")
            plt.close("all")


if __name__ == "__main__":
    pages = [Path(name) for name in sys.argv[1:]] or [HERE / "index.md", *sorted((HERE / "user_guide").glob("*.md"))]
    PICTURES.mkdir(exist_ok=True)
    for page in pages:
        start = time.process_time()
        run(page)
        print(f"{page.name}: {time.process_time() - start:.1f} s of the processor")
