"""The public interface has types: every signature says them, and a type checker reads them from outside."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from sklearn.utils.metaestimators import available_if

import skmanifold

PACKAGE = Path(skmanifold.__file__).parent
PROGRAM = """
import numpy as np
from typing import Any, assert_type

from skmanifold import Draws, HeldOutMonitor, ProgressBar, StochasticLDA, SubspaceClassifier, SubspaceMixture
from skmanifold import VonMisesFisherMixture, sample
from skmanifold.datasets import load_docstrings, make_lda_corpus, make_subspaces
from skmanifold.distributions import MatrixVonMisesFisher, VonMisesFisher, bessel_ratio
from skmanifold.emissions import Gaussian
from skmanifold.inspection import TraceDisplay
from skmanifold.manifolds import PositiveOrthant, Product, Sphere, Stiefel
from skmanifold.metrics import document_completion, match_subspaces
from skmanifold.models import Density, HasGradient, Log
from skmanifold.random import root_key, subkey
from skmanifold.samplers import ESCA, SGGMC, SGHMC, SGRLD, PolynomialDecay, Recipe, State, check_recipe


def climb(x: np.ndarray) -> np.ndarray:
    return np.array([0.0, 0.0, 5.0])


def chains(target: HasGradient, sampler: SGGMC) -> Any:
    return sampler.step(target, sampler.init(target, np.arange(4, dtype=np.uint64)))


target = Density(Sphere(3), grad_log_density=climb, log_density=lambda x: 5.0 * x[2])
draws = sample(target, SGGMC(step_size=PolynomialDecay(0.1), scheme="ou"), n_draws=10, random_state=0)
assert_type(draws, Draws)
assert_type(draws.mean(), np.ndarray)
assert_type(chains(target.minibatched(None), SGGMC(friction=np.eye(3))), Any)
assert_type(State(1.0, root_key(0)).n_steps, int)
sample(Log(Density(PositiveOrthant(2), climb)), SGRLD(0.1, inverse_metric=lambda x: x), burn_in=5)
sgld = Recipe([[1.0]], lambda z: [[0.0]], step_size=lambda t: 0.1 / (1 + t), noise_covariance=None)
assert_type(check_recipe(sgld, target).fokker_planck, float)
assert_type(Product(Sphere(3, radius=2.0), Stiefel(4, 2)).dim, int)

assert_type(bessel_ratio(3, 2.0), float)
VonMisesFisher([0.0, 0.6, 0.8], 10)
MatrixVonMisesFisher([[1.0], [0.0]]).sample(initial=[[0.0], [1.0]])
law = VonMisesFisher.fit([[1.0, 0.0], [0.6, 0.8]], sample_weight=[1, 2])
assert_type(law, VonMisesFisher)
assert_type(law.sample((2, 3), random_state=np.random.default_rng(0)), np.ndarray)
match_subspaces([np.eye(2, 3)], [[[1.0, 0.0, 0.0]]], metric="geodesic").distance.mean()

X = make_lda_corpus(50, 40, 3, doc_topic_prior=[0.1, 0.2, 0.3], random_state=np.random.RandomState(0)).data
lda = StochasticLDA(3, sampler=ESCA(n_average=5, counter="exact"), random_state=0).fit(X)
assert_type(lda, StochasticLDA)
assert_type(document_completion([[1, 1], [0, 1]], [[3, 2]], [0.1, 0.1]).perplexity, float)
assert_type(TraceDisplay.from_estimator(lda).plot(linewidth=2), TraceDisplay)
SubspaceMixture(2).fit(np.eye(3)).predict([[1.0, 0.0, 0.0]])
Gaussian("diag", mean_prior=[0.0, 1.0])
assert_type(subkey(root_key(0), 1, 2), np.uint64)

# What is inherited from scikit-learn, which has no types
assert_type(lda.fit_transform(X), np.ndarray)
assert_type(lda.set_output(transform="pandas").get_feature_names_out(), np.ndarray)
assert_type(lda.set_params(n_components=4).set_callbacks(HeldOutMonitor(), ProgressBar()), StochasticLDA)
assert_type(lda.get_params(), dict[str, Any])
assert_type(SubspaceClassifier().fit(np.eye(4), [0, 0, 1, 1]).score(np.eye(4), [0, 0, 1, 1]), float)
assert_type(VonMisesFisherMixture(2).fit(np.eye(3)).fit_predict(np.eye(3)), np.ndarray)
assert_type(Gaussian().set_params(covariance_type="diag"), Gaussian)
assert_type(Sphere(3).get_params(), dict[str, Any])
assert_type(SGRLD().set_params(step_size=0.1), SGRLD)
assert_type(make_lda_corpus().components, np.ndarray)
assert_type(load_docstrings().data, list[str])
assert_type(load_docstrings(return_X_y=True)[1], np.ndarray)
assert_type(make_subspaces().bases, list[np.ndarray])
"""
MISTAKES = """
from skmanifold import StochasticLDA, sample
from skmanifold.datasets import make_lda_corpus
from skmanifold.distributions import VonMisesFisher
from skmanifold.emissions import Gaussian
from skmanifold.manifolds import Sphere
from skmanifold.metrics import match_subspaces
from skmanifold.models import Density
from skmanifold.samplers import ESCA, SGHMC, SGLD, SVRG

SGHMC(scheme="leapfrog")
SGLD(step_size="small")
SGLD(control_variate=100)
SVRG(period=0.5)
ESCA(n_averages=5)
Gaussian("banded")
Sphere(3.5)
Density("sphere", lambda x: x)
VonMisesFisher([0.0, 1.0], [2.0])
match_subspaces([], [], metric="euclidean")
sample(Density(Sphere(3), lambda x: x), "sgld", random_state="seed").men()
StochasticLDA(3).set_output(transform="numpy")
make_lda_corpus(10).topics
"""


def modules() -> Iterator[Any]:
    """The package, and the modules and packages whose names do not begin with an underscore."""
    yield skmanifold
    for path in sorted(PACKAGE.iterdir()):
        if not path.name.startswith("_") and (path.suffix == ".py" or (path / "__init__.py").exists()):
            yield importlib.import_module(f"skmanifold.{path.stem}")


def functions_of(value: Any) -> Iterator[FunctionType]:
    """The Python functions behind a function, method, property or what decorates one; none behind a kernel."""
    if isinstance(value, property):
        yield from (function for function in (value.fget, value.fset) if function is not None)
        return
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    elif isinstance(value, functools.cached_property):
        value = value.func
    elif isinstance(value, type(vars(Sometimes)["method"])):
        value = value.fn
    value = inspect.unwrap(value) if callable(value) else value
    if isinstance(value, FunctionType):
        yield value


def members(cls: type) -> Iterator[FunctionType]:
    """Constructor, public methods and properties, those of base classes in the same package too."""
    for owner in cls.__mro__:
        if owner.__module__.partition(".")[0] == cls.__module__.partition(".")[0]:
            for name, value in vars(owner).items():
                if not name.startswith("_") or (name.startswith("__") and name.endswith("__")):
                    yield from functions_of(value)


def unannotated(value: Any, source: Path = PACKAGE) -> set[str]:
    """What has no annotation, as "function: parameter"; of functions written in `source` alone."""
    missing = set()
    for function in members(value) if isinstance(value, type) else functions_of(value):
        if not Path(function.__code__.co_filename).is_relative_to(source):  # what dataclasses and scikit-learn make
            continue
        signature = inspect.signature(function)
        for place, (name, parameter) in enumerate(signature.parameters.items()):
            is_self = place == 0 and name in ("self", "cls") and "." in function.__qualname__
            if parameter.annotation is parameter.empty and not is_self:
                missing.add(f"{function.__qualname__}: {name}")
        if signature.return_annotation is signature.empty:
            missing.add(f"{function.__qualname__}: return")
    return missing


def public_names() -> list[tuple[str, str]]:
    return [(module.__name__, name) for module in modules() for name in getattr(module, "__all__", ())]


def is_kernel(module: str, name: str) -> bool:
    """Whether a function is compiled by numba: kernels take what they are given, and have no types."""
    return module == "skmanifold.random" and name not in ("Purpose", "root_key", "subkey")


class Sometimes:
    """A class of which nothing has types."""

    def __init__(self, x):
        self.x = x

    @available_if(lambda self: self.x)
    def method(self, y: int):
        return y

    @staticmethod
    def apart(cls, *args, **kwargs) -> None:
        pass

    @classmethod
    def made(cls) -> Any:
        return cls(1)

    @property
    def double(self):
        return 2 * self.x

    @functools.cached_property
    def triple(self):
        return 3 * self.x


class Derived(Sometimes):
    def other(self, *, z: int = 0) -> int:
        return z

    def _private(self, z):
        return z


def test_the_walk_finds_whatever_has_no_annotation():
    expected = {
        "Sometimes.__init__: x",
        "Sometimes.__init__: return",
        "Sometimes.method: return",
        "Sometimes.apart: args",
        "Sometimes.apart: kwargs",
        "Sometimes.double: return",
        "Sometimes.triple: return",
    }
    here = Path(__file__).parent
    # a static method's first parameter has a name that is not its own: told apart by nothing
    assert unannotated(Derived, here) == expected
    assert unannotated(_decorated, here) == {"_decorated: x", "_decorated: return"}
    assert unannotated(public_names, here) == set()


def _passed_on(function: Callable) -> Callable:
    return functools.wraps(function)(lambda *args: function(*args))


@_passed_on
def _decorated(x):
    return x


def test_the_walk_sees_every_public_name():
    walked = set(public_names())
    stubs = sorted(PACKAGE.rglob("__init__.pyi"))
    assert len(stubs) > 8
    for stub in stubs:
        module = ".".join(("skmanifold", *stub.parent.relative_to(PACKAGE).parts))
        for node in ast.parse(stub.read_text()).body:
            assert isinstance(node, ast.ImportFrom)
            assert {(module, alias.asname) for alias in node.names} <= walked
    assert {("skmanifold.inspection", "TopicDisplay"), ("skmanifold.random", "subkey")} <= walked


@pytest.mark.parametrize(("module", "name"), [place for place in public_names() if not is_kernel(*place)])
def test_every_public_signature_is_annotated(module, name):
    assert unannotated(getattr(importlib.import_module(module), name)) == set()


@pytest.fixture(scope="module")
def check(tmp_path_factory) -> Callable[..., list[tuple[int, str]]]:
    """Errors that mypy finds in a program of a user who has a package installed: lines, and what is said of them."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    folder = tmp_path_factory.mktemp("user")
    # of its own, as options differ, and kept: the first run reads the types of the whole package
    cache = Path(tempfile.gettempdir()) / f"skmanifold-mypy-{os.getuid() if os.name == 'posix' else ''}"

    def run(program: str, installed: Path | None = PACKAGE.parent, *options: str) -> list[tuple[int, str]]:
        source = folder / "program.py"
        source.write_text(program)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MYPY", "PYTHONPATH"))}
        if installed is not None:  # elsewhere than in the environment
            environment["PYTHONPATH"] = str(installed)  # where mypy looks for packages as in site-packages
        shared = ("--strict", "--config-file=", f"--cache-dir={cache}", "--no-error-summary", "--hide-error-context")
        command = [sys.executable, "-m", "mypy", *shared, *options, source.name]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert not done.stderr
        assert done.returncode in (0, 1), done.stdout
        found = re.findall(rf"^{source.name}:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
        assert bool(found) == bool(done.returncode), done.stdout
        return [(int(line), said) for line, said in found]

    return run


@pytest.mark.long
def test_a_program_with_types_is_accepted(check):
    assert check(PROGRAM) == []


@pytest.mark.long
def test_every_mistake_of_a_program_is_found(check):
    lines = MISTAKES.splitlines()
    first = lines.index("", 1) + 2  # after the imports
    errors = check(MISTAKES)
    assert {number for number, _ in errors} == set(range(first, len(lines) + 1))


def test_type_checkers_see_the_package_as_the_readme_installs_it(check):
    """Import hooks of editable installs are code, which no type checker runs: the install must be a path or a copy."""
    try:
        installed = distribution("skmanifold")
    except PackageNotFoundError:
        pytest.skip("skmanifold is not installed, but imported from a path")
    origin = json.loads(installed.read_text("direct_url.json") or "{}").get("url")
    if origin is not None and origin != PACKAGE.parent.as_uri():
        pytest.skip(f"another copy of skmanifold is installed: {origin}")
    ((_, said),) = check("from skmanifold.manifolds import Sphere\n\nSphere(3.5)\n", None)
    assert "incompatible type" in said


@pytest.mark.long
def test_types_are_read_because_the_package_says_that_it_has_them(check, tmp_path):
    package = tmp_path / "copied"  # a name that no other place has
    package.mkdir()
    for name in ("__init__.py", "__init__.pyi", "_version.py"):
        shutil.copy(PACKAGE / name, package)
    (package / "__init__.pyi").write_text("from ._version import __version__ as __version__\n")
    program = "import copied\n\nprint(copied.__version__)\n"
    ((line, said),) = check(program, tmp_path, "--no-incremental")
    assert line == 1
    assert "py.typed" in said
    shutil.copy(PACKAGE / "py.typed", package)
    assert check(program, tmp_path, "--no-incremental") == []
