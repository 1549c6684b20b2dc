"""The link from the HTML display of an estimator to its page in the documentation."""

from __future__ import annotations

from .._version import __version__

# The address is also in pyproject.toml, among the project's addresses; a test compares the two.
DOCUMENTATION = "https://skmanifold.readthedocs.io"


class LinksToItsPage:
    """Private mixin of classes that have a page in the API reference."""

    _doc_link_module = "skmanifold"
    _doc_link_template = (
        f"{DOCUMENTATION}/en/{'latest' if 'dev' in __version__ else 'stable'}/api/generated/{{page}}.html"
    )

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        import skmanifold

        name = type(self).__name__
        package = "skmanifold" if name in dir(skmanifold) else ".".join(type(self).__module__.split(".")[:2])
        return {"page": f"{package}.{name}"}
