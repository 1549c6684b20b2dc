"""How the site is built: `sphinx-build -W --keep-going -b html doc doc/_build/html`, from the repository's root."""

import functools
import importlib
import inspect
import os
import re
import sys
from pathlib import Path

os.environ.pop("MPLBACKEND", None)  # blocks show their figures by the backend of their kernel
# The style of all figures, also of those that blocks on the pages draw in processes of their own
os.environ["MATPLOTLIBRC"] = str(Path(__file__).parents[1] / "skmanifold" / "inspection" / "skmanifold.mplstyle")
sys.path.insert(0, str(Path(__file__).parent))

from _blocks import run_blocks
from numpydoc.docscrape import ClassDoc
from numpydoc.docscrape_sphinx import SphinxDocString
from numpydoc.xref import DEFAULT_LINKS
from sphinx.util import logging

import skmanifold

project = "skmanifold"
author = "the skmanifold developers"
copyright = "the skmanifold developers, BSD-3-Clause"
version = release = skmanifold.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",  # MathJax's own files beside the pages: nothing is fetched when they are read
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "Thumbs.db", "**/GALLERY_HEADER.rst", "sg_execution_times.rst", "gallery/**.ipynb"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the gallery's order is a class

# Pages ---------------------------------------------------------------------------------------------------------------

myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4  # README links to headings
default_role = "literal"  # in docstrings and examples single backquotes are for parameters and code

# Blocks of Python ----------------------------------------------------------------------------------------------------

nb_execution_mode = os.environ.get("SKMANIFOLD_DOC_BLOCKS", "cache")  # "off" builds the pages without outputs
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

# API -----------------------------------------------------------------------------------------------------------------

autosummary_generate = True
autosummary_ignore_module_all = False
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # docstrings say it in words
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False  # the template lists methods, the docstring attributes: each once
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"  # but for these
DEFAULT_LINKS.clear()
numpydoc_xref_aliases = {
    "ndarray": "numpy.ndarray",
    "csr_array": "scipy.sparse.csr_array",
    "DataFrame": "pandas.DataFrame",
    "Series": "pandas.Series",
    "RandomState": "numpy.random.RandomState",
    "Generator": "numpy.random.Generator",
    "Bunch": "sklearn.utils.Bunch",
    "BaseSampler": "skmanifold.samplers.BaseSampler",
    "BaseEmission": "skmanifold.emissions.BaseEmission",
    "Manifold": "skmanifold.manifolds.Manifold",
    "DataTree": "xarray.DataTree",
    "dict": "dict",
    "None": "None",
}
# The attributes of a class are as its docstring describes them; numpydoc would replace the text of a property by the
# first sentence of its getter.
_process_param = SphinxDocString._process_param
SphinxDocString._process_param = lambda self, name, text, _: _process_param(self, name, text, False)

# Other packages, without network ------------------------------------------------------------------------------------

_ADDRESSES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "sklearn": "https://scikit-learn.org/stable/",
    "pandas": "https://pandas.pydata.org/docs/",
    "matplotlib": "https://matplotlib.org/stable/",
    "xarray": "https://docs.xarray.dev/en/stable/",
    "dask": "https://docs.dask.org/en/stable/",
}
intersphinx_mapping = {name: (address, f"inventories/{name}.inv") for name, address in _ADDRESSES.items()}


def members_of(module: str, name: str, members: list[str]) -> tuple[list[str], list[str]]:
    """Public methods of a class: those to be documented, and the names of those that scikit-learn documents."""
    cls = getattr(importlib.import_module(module), name)
    own, inherited = [], []
    for member in members:
        if member.startswith("_") or member == "get_metadata_routing" or re.fullmatch(r"set_\w+_request", member):
            continue
        definer = next((base for base in cls.__mro__ if member in vars(base)), None)
        if definer is None:
            continue
        if definer.__module__.startswith("skmanifold"):
            if inspect.getdoc(vars(definer)[member]) or callable(getattr(cls, member, None)):
                own.append(member)
        elif definer.__module__.startswith("sklearn"):
            inherited.append(member)
    return own, inherited


def properties_of(module: str, name: str) -> list[str]:
    """Public properties of a class, but for those that its docstring lists among its attributes."""
    cls = getattr(importlib.import_module(module), name)
    described = ClassDoc(cls, config={"show_class_members": False})["Attributes"]
    listed = {name.strip() for entry in described for name in entry.name.split(",")}
    found: dict[str, None] = {}
    for owner in cls.__mro__:
        if owner.__module__.startswith("skmanifold"):
            for member, value in vars(owner).items():
                if isinstance(value, (property, functools.cached_property)) and not member.startswith("_"):
                    found.setdefault(member)
    return [member for member in found if member not in listed]


def escape_initials(app, what, name, obj, options, lines) -> None:
    """Keep "A. Author" and "m.", at the beginning of a line or a reference, from becoming the first item of a list."""
    initial = re.compile(r"^(\s*(?:\.\. \[[^]]+\] )?[A-Za-z])\.(?= |$)")
    lines[:] = [initial.sub(r"\1\\.", line) for line in lines]


autosummary_context = {"members_of": members_of, "properties_of": properties_of}


def check_names(app) -> None:
    """Every public name has a page."""
    for page in sorted((Path(__file__).parent / "api").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for module in sorted(set(re.findall(r"currentmodule:: (\S+)", text))):
            listed = set(re.findall(r"^   (\w+)$", text, re.MULTILINE))
            for name in sorted(set(importlib.import_module(module).__all__) - listed - {"__version__"}):
                logging.getLogger(__name__).warning("%s.%s is public and not in %s", module, name, page.name)


# Gallery -------------------------------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"[\\/](plot_\w+|quickstart)\.py$",
    "ignore_pattern": r"__init__\.py|conftest\.py",
    "subsection_order": [f"../examples/{name}" for name in ("topics", "directions", "tables", "subspaces", "samplers")],
    "within_subsection_order": "_gallery.GalleryOrder",
    "matplotlib_animations": False,
    "image_scrapers": ("matplotlib",),
    "image_srcset": ["2x"],
    "default_thumb_file": str(Path(__file__).parent / "_static" / "logo.png"),
    "thumbnail_size": (480, 336),
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 0,
    "write_computation_times": False,
    "plot_gallery": "True",
    "reset_modules": ("matplotlib", "_gallery.give_file"),
    "capture_repr": (),
    "nested_sections": False,
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("skmanifold",),
}

# Look ----------------------------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "skmanifold"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["fit_formulas.js"]
html_favicon = "_static/logo.svg"
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {
    page: []
    for page in ("index", "architecture", "measurements", "reproductions", "benchmarks", "contributing", "changelog")
}
html_theme_options = {
    "logo": {"text": "skmanifold", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg"},
    "navbar_align": "left",
    "navbar_center": ["navbar-nav"],
    "navbar_end": ["version", "theme-switcher"],
    "header_links_before_dropdown": 5,
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_depth": 3,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True


# Links that are right both here and where the files are read as they lie ---------------------------------------------


def point_into_site(app, docname: str, source: list[str]) -> None:
    """Links to example scripts lead to their pages of the gallery, those to benchmarks/README.md to its page here."""
    pages = [
        (r"examples/((?:\w+/)?(?:plot_\w+|quickstart))\.py", r"/gallery/\1.rst"),
        (r"examples/GALLERY_HEADER\.rst", "/gallery/index.rst"),
        (r"benchmarks/README\.md(#[\w-]+)?", r"/measurements.md\1"),
        (r"CONTRIBUTING(?:\.md)?(#[\w-]+)?", r"/contributing.md\1"),
    ]
    for there, here in pages:
        source[0] = re.sub(rf"\]\((?:\.\./)+{there}\)", rf"]({here})", source[0])


_MARKUP = re.compile(r"(?<=\w)_(?=[,)])|(?<=\()\*(?=\w)|(?<=, )\*(?=\w)")


def escape_shapes(app, what, name, obj, options, lines: list[str]) -> None:
    """Shapes such as (n_iter_, *shape) as they are: trailing underscores and leading stars mean something in markup."""
    for i, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        parts = re.split(r"(`+[^`]*`+)", line)  # every second one is literal
        parts[::2] = [_MARKUP.sub(r"\\\g<0>", part) for part in parts[::2]]
        lines[i] = "".join(parts)


_DATA = {
    "CHARTS": "The charts, as classes.",
    "EMISSIONS": "From short names to classes of emissions.",
    "ON_DENSITIES": "Classes of the samplers of any density on a manifold; the others ask for a model's statistics.",
}


def describe_data(app, what, name, obj, options, lines: list[str]) -> None:
    """Constants say what they hold, not what a tuple is."""
    text = _DATA.get(name.rpartition(".")[2])
    if text:
        lines[:] = [text]


def setup(app) -> None:
    """What Sphinx calls."""
    app.connect("builder-inited", check_names)
    app.connect("source-read", point_into_site)
    app.connect("source-read", run_blocks)
    app.connect("autodoc-process-docstring", describe_data)
    app.connect("autodoc-process-docstring", escape_shapes, priority=900)  # after numpydoc
    app.connect("autodoc-process-docstring", escape_initials, priority=900)
