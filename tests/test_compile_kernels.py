"""Compiling ahead: what the command prints and returns, and that fits afterwards find all kernels."""

import subprocess
import sys
import tempfile
import warnings

import numpy as np
import pytest
import scipy.sparse
from numba import config
from numba.core import event

import skmanifold
from skmanifold import ExponentialFamilyMixture, VonMisesFisherMixture
from skmanifold.compile_kernels import _compile, compile_kernels
from skmanifold.compile_kernels.__main__ import main
from skmanifold.compile_kernels._cases import ESTIMATORS, Case, cases_of
from skmanifold.utils import _machine_code, _progress
from skmanifold.utils._njit import njit


def test_all_estimators_are_known():
    from sklearn.base import BaseEstimator

    exported = [getattr(skmanifold, name) for name in skmanifold.__all__]
    classes = [value for value in exported if isinstance(value, type) and issubclass(value, BaseEstimator)]
    assert {value.__name__ for value in classes} == set(ESTIMATORS)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_each_sampler_and_each_emission_is_fitted(name):
    estimator = getattr(skmanifold, name)
    cases = list(cases_of(name))
    fitted = [estimator(**case.settings).get_params(deep=False) for case in cases]
    for block in ("sampler", "emission"):
        assert set(getattr(estimator, f"_{block}s", ())) <= {str(params.get(block)) for params in fitted}
    assert [case.settings for case in cases].count({}) == 1
    assert [case.settings for case in cases_of(name, only_defaults=True)] == [{}]


def test_the_command_reports_each_fit_and_where_the_kernels_are(capsys):
    assert main(["vonmisesfishermixture", "--only-defaults"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines == ["1 of 1: VonMisesFisherMixture()"]
    assert config.CACHE_DIR in last


def test_what_was_compiled_suits_x_of_every_kind():
    compile_kernels(["VonMisesFisherMixture", "ExponentialFamilyMixture"], only_defaults=True)
    X = np.random.default_rng(0).integers(1, 9, (30, 4))
    sparse = [scipy.sparse.csr_array(X), scipy.sparse.coo_matrix(X.astype(np.float32))]
    with event.install_recorder("numba:compile") as recorder:
        for kind in (X, X.astype(np.float32), np.asfortranarray(X, dtype=float)):
            ExponentialFamilyMixture(2, random_state=0).fit(kind).score(kind)
            VonMisesFisherMixture(2, random_state=0).fit(kind).predict(kind)
        for kind in sparse:
            VonMisesFisherMixture(2, random_state=0).fit(kind).transform(kind)
    assert not recorder.buffer


def test_an_unknown_estimator_is_refused_with_the_known_ones(capsys):
    assert main(["SubspaceMixture", "LatentDirichletAllocation"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Unknown estimator 'LatentDirichletAllocation': known estimators are StochasticLDA, ")


class OneKernel(Case):
    """Compiles a new kernel."""

    def run(self):
        with warnings.catch_warnings(action="ignore"):
            njit(cache=True)(lambda x: x + 1)(1)


@pytest.fixture
def one_kernel(monkeypatch):
    """What is compiled is one kernel, in a process that has no others."""
    for name in ("caches", "warned"):
        monkeypatch.setattr(_machine_code, name, new := [])
        monkeypatch.setattr(_compile, name, new)
    monkeypatch.setattr(_compile, "cases_of", lambda name, only_defaults: [OneKernel(name, {}, None)])


def test_kernels_that_cannot_be_saved_are_an_error(one_kernel, monkeypatch, capsys):
    monkeypatch.setattr(_machine_code, "PLACES", [])
    assert main(["SubspaceMixture"]) == 1
    output = capsys.readouterr()
    assert output.err.startswith("Compiled kernels of skmanifold cannot be cached (no cache folder is writable)")
    assert not output.out


def test_one_sentence_warns_of_a_temporary_folder(one_kernel, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(_machine_code, "PLACES", _machine_code.PLACES[-1:])
    assert main(["SubspaceMixture", "SubspaceClassifier"]) == 0
    output = capsys.readouterr()
    assert output.err.count("\n") == 1
    assert output.err.startswith("Compiled kernels of skmanifold are kept in the temporary folder")
    assert output.out.splitlines()[-1].startswith(f"1 kernels were compiled: {tmp_path / 'skmanifold-kernels'}")


def test_nothing_is_compiled_without_a_compiler(monkeypatch, capsys):
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    assert main([]) == 1
    assert "NUMBA_DISABLE_JIT" in capsys.readouterr().err


def test_a_terminal_has_a_bar(monkeypatch, capsys):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with _progress.show_progress() as report:
        report("SubspaceMixture()", 3, 7)
    shown = capsys.readouterr().out
    assert "3/7" in shown
    assert "SubspaceMixture()" in shown


@pytest.mark.long
def test_a_second_run_of_the_command_compiles_nothing():
    command = [sys.executable, "-W", "error", "-m", "skmanifold.compile_kernels"]
    subprocess.run([*command, "--jobs", "2"], check=True, stdout=subprocess.PIPE)
    again = subprocess.run(command, check=True, capture_output=True, text=True)
    *lines, last = again.stdout.splitlines()
    assert len(lines) == sum(1 for name in ESTIMATORS for _ in cases_of(name))
    assert last.startswith("Nothing was left to compile, ")
    assert not again.stderr
