"""Versions, changelog, recipe, distributions and workflows agree, and what would be wrong for a release is found."""

import importlib.util
import inspect
import pkgutil
import re
import sys
import tomllib

import pytest
from _pages import ROOT

import skmanifold
from skmanifold import __version__, emissions, inspection, samplers


def script(name):
    """A script of `.ci` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_release, check_dist = script("check_release"), script("check_dist")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DESCRIBED = ["skmanifold/_version.py", "skmanifold/_install.py", "CHANGELOG.md", "CITATION.cff"]
DESCRIBED += ["conda.recipe/recipe.yaml"]


@pytest.fixture
def release(tmp_path):
    """What a checkout says of itself when 1.2.3 is to be released."""
    for name in DESCRIBED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = (ROOT / name).read_text(encoding="utf-8").replace(__version__, "1.2.3")
        text = text.replace("## [", "## [1.2.3] - 2026-02-01\n\nWhat is new.\n\n## [", 1)
        text = text.replace('pip install -e ".{extras}"', 'pip install "skmanifold{extras}"')
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "tests/persistence/data/1.2.3").mkdir(parents=True)
    return tmp_path


def test_a_release_is_accepted_and_its_notes_are_its_section(release):
    assert check_release.wrong_for_release(release, "v1.2.3") == []
    assert check_release.notes_of(release, "1.2.3") == ("2026-02-01", "What is new.")


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("skmanifold/_version.py", "1.2.3", "1.2.4", r"_version\.py has 1\.2\.4 and not 1\.2\.3"),
        ("CHANGELOG.md", "2026-02-01", "unreleased", "with a date"),
        ("CHANGELOG.md", "What is new.\n", "", "says nothing of"),
        ("CITATION.cff", "1.2.3", "1.2.4", "CITATION.cff has another version"),
        ("conda.recipe/recipe.yaml", "1.2.3", "1.2.4", "recipe.yaml has another version"),
        (
            "skmanifold/_install.py",
            "INSTALL = 'pip install \"skmanifold",
            "INSTALL = 'pip install -e \"",
            "that of a checkout",
        ),
    ],
)
def test_what_is_wrong_for_a_release_is_found(release, name, old, new, message):
    text = (release / name).read_text(encoding="utf-8")
    assert old in text
    (release / name).write_text(text.replace(old, new), encoding="utf-8")
    (wrong,) = check_release.wrong_for_release(release, "v1.2.3")
    assert re.search(message, wrong)


def test_files_of_the_release_are_needed_except_for_candidates(release):
    (release / "tests/persistence/data/1.2.3").rename(release / "other")
    (wrong,) = check_release.wrong_for_release(release, "v1.2.3")
    assert (
        wrong
        == "tests/persistence/data/1.2.3 is missing: `cd tests && python -m persistence._release_files` writes it."
    )
    assert not any("is missing" in wrong for wrong in check_release.wrong_for_release(release, "v1.2.3rc1"))


@pytest.mark.parametrize("tag", ["1.2.3", "v1.2", "v1.2.3.dev0"])
def test_other_tags_are_refused(release, tag):
    assert any("is not like v0.1.0" in wrong for wrong in check_release.wrong_for_release(release, tag))


def test_versions_agree():
    for name in ("CITATION.cff", "conda.recipe/recipe.yaml"):
        (version,) = re.findall(r'^ *version: "?([\w.]+)"?$', (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert version == __version__


def test_recipe_has_the_dependencies_of_the_package():
    text = (ROOT / "conda.recipe/recipe.yaml").read_text(encoding="utf-8")
    run = re.search(r"\n  run:.*\n((?:    - .*\n)+)", text)[1]
    stated = [line.removeprefix("    - ") for line in run.splitlines()]
    wanted = [re.sub(r"^([\w-]+)", r"\1 ", dependency) for dependency in SETTINGS["dependencies"]]
    assert stated == ["python >=${{ python_min }}", *wanted]
    assert f'python_min: "{SETTINGS["requires-python"].removeprefix(">=")}"' in text


def test_a_file_that_a_distribution_lacks_or_should_not_have_is_found():
    package = check_dist.package_files()
    licence = "skmanifold-1.0.dist-info/licenses/LICENSE"
    assert check_dist.wrong_in_wheel({*package, licence}) == []
    assert check_dist.wrong_in_wheel(package) == ["lacks the licence"]
    assert check_dist.wrong_in_wheel({*package, licence, "tests/conftest.py"}) == ["has tests/conftest.py"]
    assert check_dist.wrong_in_wheel({*package, licence} - {"skmanifold/py.typed"}) == ["lacks skmanifold/py.typed"]
    sources = {*package, *check_dist.IN_SOURCES}
    assert check_dist.wrong_in_sources(sources) == []
    assert check_dist.wrong_in_sources({*sources, "doc/_build/x.html"}) == ["has doc/_build/x.html"]
    assert check_dist.wrong_in_sources(sources - {"LICENSE"}) == ["lacks LICENSE"]


def test_trial_of_a_wheel_covers_every_estimator():
    trial = script("fit_each")
    assert trial.estimators() == {name.split()[0] for name in trial.CASES}


def wrong_in_workflow(text: str) -> list[str]:
    """Files and extras that do not exist, actions without a version, and permissions of the whole workflow."""
    paths = {match[0] for match in re.finditer(r"(?:\./)?\.(?:ci|github)/[\w./]+", text)}
    wrong = [f"no {path}" for path in sorted(paths) if not (ROOT / path).exists()]
    extras = {name for names in re.findall(r'\.\[([a-z,]+)\]"', text) for name in names.split(",")}
    wrong += [f"no extra {name}" for name in sorted(extras - SETTINGS["optional-dependencies"].keys())]
    actions = re.findall(r"uses: (?!\./)(\S+)", text)
    wrong += [f"{action} has no version" for action in actions if not re.search(r"@v\d", action)]
    if not re.search(r"^permissions:\n  contents: read\n\n", text, re.MULTILINE):
        wrong.append("may do more than read")
    return wrong


@pytest.mark.parametrize("name", ["docs.yml", "release.yml", "tests.yml", "wheel.yml"])
def test_workflows_name_what_exists_and_may_only_read(name):
    assert wrong_in_workflow((ROOT / ".github/workflows" / name).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (".ci/check_dist.py", ".ci/gone.py", "no .ci/gone.py"),
        ("actions/checkout@v5", "actions/checkout@main", "actions/checkout@main has no version"),
        ("contents: read", "contents: write", "may do more than read"),
        ("dist skmanifold #", '".[gone]" #', "no extra gone"),
    ],
)
def test_what_is_wrong_in_a_workflow_is_found(old, new, message):
    text = (ROOT / ".github/workflows/wheel.yml").read_text(encoding="utf-8")
    assert old in text
    assert set(wrong_in_workflow(text.replace(old, new))) == {message}


def unknown_names(text: str) -> set[str]:
    """Names in code that are no public names, parameters, methods or values of the package."""
    known = set()
    for module in pkgutil.iter_modules(skmanifold.__path__, "skmanifold."):
        names = getattr(importlib.import_module(module.name), "__all__", ())
        objects = [getattr(sys.modules[module.name], name) for name in names]
        known |= {module.name, *names}
        for each in filter(inspect.isclass, objects):
            known |= {f"{each.__name__}.{member}" for member in dir(each)} | set(dir(each))
        for each in objects:
            if inspect.isfunction(each) or hasattr(each, "get_params"):
                known |= set(inspect.signature(each).parameters)
    code = re.findall(r"`([^`]+)`", text)
    names = {re.match(r"(?:python -m )?([\w.]*)", words)[1] for words in code}
    return {name for name in names if name and name not in known | {"sample_weight"}}


def test_the_changelog_of_the_first_version_names_what_exists_and_all_estimators():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert unknown_names(text) == set()
    assert unknown_names("`StochasticLDA`, `gone` and `SubspaceMixture(gone=1)`") == {"gone"}
    public = {*skmanifold.__all__, *inspection.__all__} - {"__version__", "ClassWords"}
    public |= {kind.__name__ for kind in (*emissions.EMISSIONS.values(), *samplers.ON_DENSITIES)}
    assert {name for name in public if f"`{name}`" not in text} == set()
