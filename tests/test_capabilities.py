"""The tables of capabilities in the user guide: each cell is compared with what the estimator does."""

import importlib.util
import inspect
import re
import warnings

import numpy as np
import pytest
from _pages import ROOT
from sklearn.utils import get_tags

import skmanifold
from skmanifold import distributed
from skmanifold.datasets import open_corpus, save_corpus
from skmanifold.models import IncompatibleError

ESTIMATORS = {name for name in skmanifold.__all__ if hasattr(getattr(skmanifold, name), "fit")}
PAGE = ROOT / "doc/user_guide/choosing_an_estimator.md"
NAMES = (
    "StochasticLDA",
    "HDPAdmixture",
    "SphericalAdmixture",
    "OrthogonalSphericalAdmixture",
    "VonMisesFisherMixture",
    "DPCategoricalMixture",
    "DPMixture",
    "CrossCat",
    "SubspaceMixture",
    "SubspaceClassifier",
    "ExponentialFamilyMixture",
    "ExponentialFamilyAdmixture",
)
OF_COUNTS = {"ExponentialFamilyMixture": {"emission": "multinomial"}}  # a corpus has counts
SHORT = {"n_components": 2, "max_iter": 2, "burn_in": 1, "init": "random", "random_state": 0}
X = np.array([[2, 1, 0, 1], [0, 3, 1, 0], [1, 0, 2, 2], [4, 0, 0, 1], [1, 1, 1, 0], [0, 2, 3, 1]] * 2, float)


def new(name, **settings):
    """A small estimator, with those of the short settings that it has."""
    estimator = getattr(skmanifold, name)(**settings)
    known = estimator.get_params(deep=False).keys() - settings.keys()
    short = {key: value for key, value in SHORT.items() if key in known}
    if name in {"DPCategoricalMixture", "DPMixture", "SubspaceMixture"}:
        short["init"] = np.arange(len(X)) % 2
    if name == "HDPAdmixture":
        short["init"] = 2
    return estimator.set_params(**short)


def samplers(name):
    return list(getattr(getattr(skmanifold, name), "_samplers", {}))


def emissions(name):
    return list(getattr(getattr(skmanifold, name), "_emissions", {}))


def only_with(parameter, names, holds):
    """Whether it holds: yes, no, or the values of the parameter with which it does."""
    if not names:
        return "yes" if holds() else "no"
    found = [value for value in names if holds(**{parameter: value})]
    if len(found) in {0, len(names)}:
        return "yes" if found else "no"
    return ", ".join(f'`"{value}"`' for value in found)


def fits(name, data, sampler=None, **settings):
    """Whether `fit` accepts the data with this sampler."""
    estimator = new(name, **settings, **({} if sampler is None else {"sampler": sampler}))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so few passes
            estimator.fit(data, *([np.arange(len(X)) % 2] if name == "SubspaceClassifier" else []))
    except (IncompatibleError, ValueError, TypeError):
        return False
    return True


def fits_on_workers(name, sampler=None):
    with distributed(None):
        return fits(name, X, sampler)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora") / "corpus"
    save_corpus(X.astype(int), folder)
    return open_corpus(folder)


def of_input(name, corpus):
    cls = getattr(skmanifold, name)
    return [
        only_with("emission", emissions(name), lambda **of: get_tags(cls(**of)).input_tags.sparse),
        only_with("emission", emissions(name), lambda **of: get_tags(cls(**of)).input_tags.allow_nan),
        only_with("sampler", samplers(name), lambda **of: hasattr(cls(**of), "partial_fit")),
        only_with("sampler", samplers(name), lambda **of: fits_on_workers(name, **of)),
        only_with("sampler", samplers(name), lambda **of: fits(name, corpus, **of, **OF_COUNTS.get(name, {}))),
    ]


def of_output(name):
    cls = getattr(skmanifold, name)
    names = samplers("SubspaceMixture" if name == "SubspaceClassifier" else name)  # its mixtures have the sampler
    kinds = getattr(skmanifold, "SubspaceMixture" if name == "SubspaceClassifier" else name)
    drawn = only_with("sampler", names, lambda sampler: kinds._samplers[sampler].draws_parameters) if names else "no"
    inferred = ["components"] if None in kinds._parameter_constraints.get("n_components", [None]) else []
    if name.startswith("Subspace") and inspect.signature(kinds).parameters["dimensions"].default is None:
        inferred.append("dimensions")
    return [
        "yes" if hasattr(cls(), "transform") else "no",
        "yes" if hasattr(cls(), "predict_proba") else "no",
        drawn,
        ", ".join(inferred) or "no",
    ]


def written():
    """Rows of the tables of capabilities as they are on the page: two for each estimator."""
    lines = PAGE.read_text(encoding="utf-8").partition("## What a fit costs")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| [`")]
    return [[name.partition("`](")[0].removeprefix("[`"), *cells] for name, *cells in rows]


def test_every_estimator_has_its_rows():
    assert [row[0] for row in written()] == [*NAMES, *NAMES]
    of_mixtures = {"MixtureImputer", "MixtureClassifier", "MixtureRegressor"}  # which take what their mixture takes
    assert ESTIMATORS - of_mixtures == set(NAMES)


@pytest.mark.parametrize(
    ("page", "pattern"),
    [
        ("README.md", r"^\| \[`(\w+)"),
        ("doc/index.md", r"\*\*`(\w+)"),
        ("doc/user_guide/index.md", r"^  - \[`(\w+)"),
        ("doc/api/index.md", r"`(\w+)`"),
        ("doc/api/estimators.md", r"^   (\w+)$"),
    ],
)
def test_pages_that_list_estimators_name_all_of_them(page, pattern):
    named = set(re.findall(pattern, (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
    assert ESTIMATORS - named == set()


def test_the_api_names_all_users_of_emissions():
    (row,) = re.findall(
        r"^\| \[`skmanifold\.emissions`\].*", (ROOT / "doc/api/index.md").read_text("utf-8"), re.MULTILINE
    )
    users = {name for name in ESTIMATORS if "emission" in inspect.signature(getattr(skmanifold, name)).parameters}
    assert set(re.findall(r"`(\w+)`", row)) == users


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_are_right(name, corpus):
    first, second = (row[1:] for row in written() if row[0] == name)
    assert first == of_input(name, corpus)
    assert second == of_output(name)


def test_the_chart_is_that_of_the_script_and_names_all_estimators():
    spec = importlib.util.spec_from_file_location("draw_choosing", ROOT / "doc/draw_choosing.py")
    chart = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(chart)
    assert chart.PICTURE.read_text(encoding="utf-8") == chart.draw()
    shown = {name for _, answers in chart.CHART for _, name, _ in answers}
    assert shown == {*NAMES, "sample"}
