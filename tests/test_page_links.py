"""The HTML display of an estimator links to its page of the documentation."""

import re
import tomllib

import pytest
from _pages import ROOT

from skmanifold import StochasticLDA, SubspaceClassifier, VonMisesFisherMixture, emissions, manifolds, samplers
from skmanifold.utils._parameters import DOCUMENTATION


def _pages_of_the_reference():
    pages = set()
    for path in (ROOT / "doc" / "api").glob("*.md"):
        text = path.read_text(encoding="utf-8")
        for part in re.split(r"currentmodule:: ", text)[1:]:
            module, rest = part.split("\n", 1)
            pages |= {f"{module.strip()}.{name}" for name in re.findall(r"^   (\w+)$", rest, re.MULTILINE)}
    return pages


@pytest.mark.parametrize(
    "estimator",
    [
        StochasticLDA(),
        SubspaceClassifier(),
        VonMisesFisherMixture(),
        samplers.SCIR(),
        samplers.SVRG(),
        samplers.PolynomialDecay(0.1),
        emissions.Poisson(),
        manifolds.Sphere(3),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_link_names_a_page_of_the_reference(estimator):
    link = estimator._get_doc_link()
    page = re.fullmatch(re.escape(DOCUMENTATION) + r"/en/(?:latest|stable)/api/generated/(.*)\.html", link)
    assert page[1] in _pages_of_the_reference()
    assert link in estimator._repr_html_()


def test_a_class_of_a_user_has_no_link():
    assert type("Mine", (StochasticLDA,), {"__module__": "mine"})()._get_doc_link() == ""


def test_the_address_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["urls"]["Documentation"] == DOCUMENTATION
