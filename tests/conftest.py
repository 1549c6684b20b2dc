"""Machine code is cached by the hash of all sources, and the short suite runs a part of the cases that tests have."""

import gc
import hashlib
import os
import re
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest


def _hash_of_sources() -> str:
    """A name for the cache: numba alone does not see an edit to a callee."""
    package = Path(__file__).parents[1] / "skmanifold"
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


USER = os.getuid() if os.name == "posix" else ""  # other systems have a temporary folder for each user
os.environ.setdefault(
    "NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"skmanifold-numba-{USER}-{_hash_of_sources()}")
)
# These limit the memory of processes, make pipes, and stop and kill workers.
collect_ignore = [] if os.name == "posix" else ["fuzz", "inference/test_cluster_faults.py"]

# Files run in this order, and all others after them. The first one compiles nearly all kernels of estimators; the
# folders after it need other kernels, so that two processes compile few of them twice.
FIRST = (
    "test_common.py",
    "samplers",
    "manifolds",
    "distributions",
    "models",
    "test_posteriors.py",
    "metrics",
    "datasets",
)


def _features(case: pytest.Item, together: tuple[str, ...]) -> set[tuple]:
    """What a case has of each `parametrize`, by identity, and of the parameters `together`."""
    params = case.callspec.params
    groups = [mark.args[0] for mark in case.iter_markers("parametrize")]
    groups = [tuple(re.split(r"\s*,\s*", names)) if isinstance(names, str) else tuple(names) for names in groups]
    return {(names, *(id(params[name]) for name in names)) for names in (*groups, together) if names}


def _covering(cases: list[pytest.Item], *together: str) -> list[pytest.Item]:
    """Few cases in which each value of each parameter occurs, and each combination of the parameters `together`."""
    features = {case: _features(case, together) for case in cases}
    left, chosen = set().union(*features.values()), []
    while left:
        chosen.append(max(cases, key=lambda case: len(features[case] & left)))
        left -= features[chosen[-1]]
    return chosen


def _short_cases(cases: list[pytest.Item], *names: str) -> list[pytest.Item]:
    """The cases that have one of these names as their id, or as a part of it."""
    parts = {case: {case.callspec.id, *case.callspec.id.split("-")} for case in cases}
    unknown = set(names).difference(*parts.values())
    if unknown and not any("[" in argument for argument in cases[0].config.args):
        raise pytest.UsageError(f"{cases[0].nodeid.split('[')[0]} has no case {', '.join(sorted(unknown))}")
    return [case for case in cases if parts[case] & set(names)]


def _every(cases: list[pytest.Item], n: int) -> list[pytest.Item]:
    """Each n-th case."""
    return cases[::n]


SHORT = {"covering": _covering, "short_cases": _short_cases, "every": _every}


@pytest.fixture
def sklearn_callback():
    """The callbacks of scikit-learn."""
    return pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """Skip a test where it first uses a callback, if scikit-learn is too old for them."""
    try:
        return (yield)
    except ImportError as error:
        if find_spec("sklearn.callback") is None and str(error).startswith("Callbacks need scikit-learn"):
            pytest.skip(str(error))
        raise


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Do not search the tests for garbage, which are many objects that stay, and search the others less often."""
    gc.set_threshold(50_000, 20, 20)
    result = yield
    gc.freeze()
    return result


@pytest.fixture(scope="module", autouse=True)
def _fewer_objects_to_search():
    """What is left by earlier files, most of it about compiled code, is not searched again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before `-m` deselects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as long what tests leave out of the short suite, and put the files of `FIRST` first."""
    of_function: dict[str, list[pytest.Item]] = {}
    for item in items:
        if any(item.get_closest_marker(name) for name in SHORT):
            of_function.setdefault(item.nodeid.split("[")[0], []).append(item)
    for cases in of_function.values():
        marker = next(mark for name in SHORT if (mark := cases[0].get_closest_marker(name)))
        for case in set(cases).difference(SHORT[marker.name](cases, *marker.args)):
            case.add_marker(pytest.mark.long)

    here = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        room = item.path.relative_to(here).parts[0] if item.path.is_relative_to(here) else ""
        return FIRST.index(room) if room in FIRST else len(FIRST)

    items.sort(key=place)
