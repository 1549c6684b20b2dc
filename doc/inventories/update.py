"""Cut the inventory of a package's documentation down to what the pages can refer to.

Usage: ``python update.py NAME path/or/url/of/objects.inv`` (needs ``pip install sphobjinv``). The pages are built
without network, so that the inventories of other packages are kept here. `ADDED` has names that an inventory lacks.
"""

import sys
from pathlib import Path

import sphobjinv

HERE = Path(__file__).parent
ROLES = {"class", "function", "method", "module", "exception", "attribute", "data"}
KEPT = {
    "numpy": ("numpy.",),
    "pandas": ("pandas.DataFrame", "pandas.Series", "pandas.Categorical", "pandas.Index", "pandas.read_csv"),
    "matplotlib": ("matplotlib.",),
    "python": (
        "int",
        "float",
        "str",
        "bool",
        "list",
        "tuple",
        "dict",
        "None",
        "collections.abc.",
        "pathlib.",
        "typing.",
    ),
    "scipy": ("scipy.sparse.", "scipy.special.", "scipy.stats.", "scipy.optimize.", "scipy.linalg."),
    "sklearn": ("sklearn.",),
    "xarray": ("xarray.DataTree", "xarray.Dataset", "xarray.DataArray"),
    "dask": ("dask.array.",),
}
_NUMPY = {
    name: ("class", f"reference/generated/{name}.html#{name}")
    for name in ("numpy.ndarray", "numpy.memmap", "numpy.dtype", "numpy.ma.MaskedArray")
} | {
    "numpy.random.Generator": ("class", "reference/random/generator.html#numpy.random.Generator"),
    "numpy.random.RandomState": ("class", "reference/random/legacy.html#numpy.random.RandomState"),
    "numpy.random.SeedSequence": (
        "class",
        "reference/random/bit_generators/generated/numpy.random.SeedSequence.html#numpy.random.SeedSequence",
    ),
}
_CALLBACKS = ("CallbackSupportMixin", "ProgressBar", "ScoringMonitor")
ADDED = {
    "numpy": _NUMPY,
    "matplotlib": {
        "matplotlib.axes.Axes": ("class", "api/_as_gen/matplotlib.axes.Axes.html#matplotlib.axes.Axes"),
        "matplotlib.figure.Figure": ("class", "api/_as_gen/matplotlib.figure.Figure.html#matplotlib.figure.Figure"),
    },
    "sklearn": {
        f"sklearn.callback.{name}": (
            "class",
            f"modules/generated/sklearn.callback.{name}.html#sklearn.callback.{name}",
        )
        for name in _CALLBACKS
    },
    "xarray": {"xarray.DataTree": ("class", "generated/xarray.DataTree.html#xarray.DataTree")},
}


def is_kept(item: sphobjinv.DataObjStr, package: str) -> bool:
    """Whether the pages may refer to this object."""
    is_error = package == "python" and item.role == "exception"
    return item.domain == "py" and item.role in ROLES and (is_error or item.name.startswith(KEPT[package]))


def main(package: str, source: str | None = None) -> None:
    """Write the inventory of a package; without a source, only of the names in `ADDED`."""
    options = {} if source is None else {"url": source} if "://" in source else {"fname_zlib": source}
    full = sphobjinv.Inventory(**options)
    kept = sphobjinv.Inventory()
    kept.project, kept.version = package, "stable"
    kept.objects += [item for item in full.objects if is_kept(item, package)]
    there = {item.name for item in kept.objects}
    for name, (role, uri) in ADDED.get(package, {}).items():
        if name not in there:
            kept.objects.append(
                sphobjinv.DataObjStr(name=name, domain="py", role=role, priority="1", uri=uri, dispname="-")
            )
    sphobjinv.writebytes(HERE / f"{package}.inv", sphobjinv.compress(kept.data_file()))
    print(f"{package}: {kept.count} names")


if __name__ == "__main__":
    main(*sys.argv[1:])
