"""Draw the chart "which estimator" of the user guide as SVG: `python doc/draw_choosing.py`."""

from pathlib import Path
from xml.sax.saxutils import escape

PICTURE = Path(__file__).parent / "_static" / "pictures" / "choosing.svg"

# What a row contains, and for each answer to the second question the estimator and its result.
CHART = [
    (
        ["Word counts"],
        [
            (["several topics per document"], "StochasticLDA", "topics and their proportions"),
            (["the same, number unknown"], "HDPAdmixture", "topics and their number"),
            (["one cluster per document"], "ExponentialFamilyMixture", 'emission="multinomial"'),
        ],
    ),
    (
        ["Directions: tf-idf vectors,", "embeddings, profiles, winds"],
        [
            (["several topics per row"], "SphericalAdmixture", "words with positive or negative weight"),
            (["the same, number unknown"], "OrthogonalSphericalAdmixture", "orthogonal topics and their number"),
            (["one cluster per row"], "VonMisesFisherMixture", "clusters, by EM"),
        ],
    ),
    (
        ["Categories (cells may be", "missing) or counts"],
        [(["number of clusters unknown"], "DPCategoricalMixture", "clusters and their number")],
    ),
    (
        ["Binary data or counts,", "number of components given"],
        [
            (["one component per row"], "ExponentialFamilyMixture", "latent classes, Poisson mixtures"),
            (["several components per row"], "ExponentialFamilyAdmixture", "grades of membership, GaP"),
        ],
    ),
    (
        ["Real numbers"],
        [
            (["clusters with a mean", "and a covariance"], "ExponentialFamilyMixture", 'emission="gaussian"'),
            (["the same, number unknown"], "DPMixture", "clusters and their number"),
            (["clusters near lines, planes,", "other subspaces"], "SubspaceMixture", "subspaces and their dimensions"),
            (["classes, given as y"], "SubspaceClassifier", "one or more subspaces per class"),
        ],
    ),
    (
        ["Tables with columns of", "several kinds"],
        [
            (["clusters, filled cells"], "DPMixture", 'emission="auto"'),
            (["which columns depend", "on each other"], "CrossCat", "views, with clusters in each"),
        ],
    ),
    (["No data: a log density", "with its gradient"], [(["draws from this density"], "sample", "draws, ESS, R-hat")]),
]
WIDTH, HEIGHT, GAP = 900, 48, 14
COLUMNS = ((6, 236), (280, 244), (562, 332))  # left edge and width of data, question, estimator
TOP = 64
# Boxes are light on light and on dark pages; lines can be seen on both.
INK, HEAD, LINE = "#1a2730", "#4a5c68", "#808080"
DATA, QUESTION, ESTIMATOR = "#dcebf5", "#f2f2f2", "#fdebc8"
STYLE = f"""
text {{ font-family: "DejaVu Sans", "Segoe UI", Helvetica, Arial, sans-serif; font-size: 14.5px; fill: {INK}; }}
.head {{ font-weight: bold; }}
.name {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 15px; }}
.small {{ font-size: 13.5px; }}
""".strip()


def box(column: int, middle: float, fill: str, lines: list[str], classes: tuple[str, str] = ("", "")) -> list[str]:
    """A box with one or two lines of text."""
    left, width = COLUMNS[column]
    parts = [
        f'<rect x="{left}" y="{middle - HEIGHT / 2:g}" width="{width}" height="{HEIGHT}" rx="7" fill="{fill}" '
        f'stroke="{LINE}"/>'
    ]
    for i, line in enumerate(lines):
        y = middle + 5 + 18 * (i - (len(lines) - 1) / 2)
        parts.append(f'<text x="{left + 12}" y="{y:g}" class="{classes[i]}">{escape(line)}</text>')
    return parts


def line(column: int, start: float, stop: float) -> str:
    """A line from a box to one of the next column."""
    left, width = COLUMNS[column]
    x, to = left + width, COLUMNS[column + 1][0]
    bend = (x + to) / 2
    return f'<path d="M{x} {start:g}H{bend:g}V{stop:g}H{to - 1}" fill="none" stroke="{LINE}" stroke-width="1.6"/>'


def draw() -> str:
    """The chart as text."""
    parts, y = [], TOP
    for column, title in enumerate(("A row contains", "You want", "Use")):
        left, width = COLUMNS[column]
        parts.append(
            f'<rect x="{left}" y="6" width="{width}" height="30" rx="7" fill="{HEAD}"/>'
            f'<text x="{left + 12}" y="26" class="head" style="fill: #ffffff">{title}</text>'
        )
    for data, answers in CHART:
        middles = [y + HEIGHT / 2 + i * (HEIGHT + GAP) for i in range(len(answers))]
        centre = (middles[0] + middles[-1]) / 2
        for middle, (question, name, result) in zip(middles, answers, strict=True):
            parts += [line(0, centre, middle), line(1, middle, middle)]
            parts += box(1, middle, QUESTION, question)
            parts += box(2, middle, ESTIMATOR, [name, result], ("name", "small"))
        parts += box(0, centre, DATA, data)
        y = middles[-1] + HEIGHT / 2 + 2 * GAP
    title = "Which estimator: what a row of X contains, what you want, and the estimator to use"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - GAP:g}" width="{WIDTH}" '
        f'height="{y - GAP:g}" role="img" aria-labelledby="title">'
    )
    return "\n".join([head, f'<title id="title">{title}</title>', f"<style>\n{STYLE}\n</style>", *parts, "</svg>\n"])


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
