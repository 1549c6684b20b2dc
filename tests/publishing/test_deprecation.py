"""Deprecations: what each helper does, and that none stays longer than it says."""

import ast
import pickle
import warnings

import pytest
from _pages import ROOT
from sklearn.base import BaseEstimator, clone

from skmanifold import __version__
from skmanifold._deprecation import (
    ChangedDefault,
    Deprecation,
    RenamedAttribute,
    RenamedParameter,
    deprecated,
    renamed_keyword,
)

RANGE = {"since": "0.2", "until": "0.4"}
ADVICE = r"is deprecated; it will be removed in version 0\.4 \(deprecated since 0\.2\)\. Use `new\w*` instead\.$"
TOL = RenamedParameter("tol", "new_tol", **RANGE)
START = ChangedDefault("start", "random", "best", **RANGE)


class Model(BaseEstimator):
    old_ = RenamedAttribute("new_", **RANGE)

    def __init__(self, new_tol=0.5, start="warn", tol="deprecated"):
        self.new_tol = new_tol
        self.start = start
        self.tol = tol

    def fit(self, X=None):
        self.new_ = TOL.of(self), START.of(self)
        return self


@renamed_keyword("old", "new", **RANGE)
def shifted(x, new=1):
    return x + new


@deprecated("Use `new` instead", **RANGE)
def old_function(x):
    return 2 * x


@deprecated("Use `new` instead", **RANGE)
class OldModel(Model):
    """The old name of a class."""


class Holder:
    @deprecated("Use `new` instead", **RANGE)
    @property
    def old(self):
        return 3


def fitted(**params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return Model(**params).fit()


def test_functions_classes_and_properties_warn_and_work():
    with pytest.warns(FutureWarning, match="Function old_function " + ADVICE):
        assert old_function(2) == 4
    with pytest.warns(FutureWarning, match="Class OldModel " + ADVICE):
        model = OldModel(0.1, start="best")
    assert model.get_params() == Model(0.1, start="best").get_params()
    with pytest.warns(FutureWarning, match="`Holder.old` " + ADVICE):
        assert Holder().old == 3


@pytest.mark.parametrize("give", [lambda: Model(tol=0.1, start="best"), lambda: clone(Model(tol=0.1, start="best"))])
def test_old_name_of_a_parameter_gives_its_value_and_a_warning(give):
    with pytest.warns(FutureWarning, match="parameter `tol` " + ADVICE) as caught:
        assert give().fit().new_ == (0.1, "best")
    assert [warning.filename for warning in caught] == [__file__]
    model = give()
    assert (model.tol, model.new_tol) == (0.1, 0.5)


def test_new_name_of_a_parameter_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Model(start="best").set_params(new_tol=0.1).fit()
    assert model.new_ == (0.1, "best")
    assert repr(Model(0.1)) == "Model(new_tol=0.1)"
    assert repr(Model(tol=0.1)) == "Model(tol=0.1)"
    assert clone(Model()).get_params() == {"new_tol": 0.5, "start": "warn", "tol": "deprecated"}
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()


def test_both_names_of_a_parameter_are_refused():
    with pytest.raises(ValueError, match=r"^`tol` is the old name of `new_tol`: set `new_tol` only\.$"):
        Model(0.1, start="best", tol=0.2).fit()


def test_changed_default_warns_only_where_it_is_not_set():
    with pytest.warns(FutureWarning, match=r"`start='random'` is deprecated; .* Set `start='best'`") as caught:
        assert Model().fit().new_ == (0.5, "random")
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert START.resolve("random") == "random"


def test_old_name_of_an_attribute_reads_the_new_one():
    with pytest.warns(FutureWarning, match="`Model.old_` " + ADVICE):
        assert fitted().old_ == (0.5, "random")
    assert not hasattr(Model(), "old_")  # and no warning
    with pytest.raises(AttributeError, match="Set `new_` instead"):
        fitted().old_ = 1
    assert "old_" not in vars(fitted())


def test_old_name_of_a_keyword_is_passed_on():
    with pytest.warns(FutureWarning, match="parameter `old` of `shifted` " + ADVICE):
        assert shifted(1, old=5) == 6
    assert shifted(1, new=5) == shifted(1, 5) == 6
    for both in [lambda: shifted(1, 2, old=5), lambda: shifted(1, new=2, old=5)]:
        with pytest.raises(TypeError, match="pass `new` only"):
            both()


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [
        ("0.2", "0.3", "stays for 2 releases"),
        ("1.2", "0.4", "stays for 2 releases"),
        ("0.9", "1.0", "stays for 2 releases"),
        ("0.2", "0.2", "stays for 2 releases"),
        ("next", "0.4", "not a version"),
    ],
)
def test_too_short_a_range_is_refused(since, until, message):
    with pytest.raises(ValueError, match=message):
        deprecated("Use `new` instead", since=since, until=until)(fitted)


def test_a_range_goes_over_a_major_version():
    record = Deprecation("x", "0.9", "1.1", "Drop it")
    assert not record.is_past("1.0.3")
    assert record.is_past("1.1.0.dev0")


# None stays too long


def deprecations_in(source: str, name: str) -> list[Deprecation]:
    """Every call in a module that has `since` and `until`, read from its text: nothing has to be imported."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            options = {keyword.arg: keyword.value for keyword in node.keywords}
            if {"since", "until"} <= options.keys():
                since, until = (ast.literal_eval(options[name]) for name in ("since", "until"))
                found.append(Deprecation(f"{name}:{node.lineno}", since, until, "Remove it"))
    return found


def overdue(sources: dict[str, str], version: str) -> list[str]:
    """Lines of the deprecations that this version must no longer have."""
    every = [one for name, source in sources.items() for one in deprecations_in(source, name)]
    return [one.what for one in every if one.is_past(version)]


def test_no_deprecation_is_past_its_release():
    sources = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "skmanifold").rglob("*.py"))
    }
    assert overdue(sources, __version__) == []


@pytest.mark.parametrize(
    ("version", "lines"),
    [
        ("0.3.2", []),
        ("0.4.0.dev0", ["a.py:1", "a.py:4"]),
        ("0.4.0", ["a.py:1", "a.py:4"]),
        ("0.4.0rc1", ["a.py:1", "a.py:4"]),
        ("1.0.0", ["a.py:1", "a.py:4", "b.py:1"]),
    ],
)
def test_a_deprecation_that_stays_too_long_is_found(version, lines):
    sources = {
        "a.py": "TOL = RenamedParameter('tol', 'tolerance', since='0.2', until='0.4')\n\n\n"
        "@deprecated('Use `new`', since='0.1', until='0.4')\ndef old():\n    pass\n",
        "b.py": "START = ChangedDefault('start', 1, 2, until='0.5', since='0.3')\n",
    }
    assert overdue(sources, version) == lines


def test_versions_must_be_written_out():
    with pytest.raises(ValueError, match="malformed node"):
        deprecations_in("deprecated('Use `new`', since=SINCE, until='0.4')", "a.py")
