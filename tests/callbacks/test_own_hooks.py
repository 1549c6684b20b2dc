"""The hooks for scikit-learn before 1.9: the same calls, logs and bars as those of later versions."""

import importlib.util
import os
import pickle
import subprocess
import sys
from functools import wraps
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone

from skmanifold.callbacks._own.bars import TaskBars
from skmanifold.callbacks._own.scores import ScoringMonitor
from skmanifold.callbacks._own.support import CallbackSupportMixin, torn_down

HERE = Path(__file__).parent
ROWS = np.arange(6.0)[:, np.newaxis]
# These tests use every hook; those that are left out pickle callbacks for processes in which scikit-learn has its own.
CHOSEN = (
    "classifier or stops or several or pipeline or failed or fails or pickled or curve_for_each_fit[1] or told or bars"
)


def make_estimators(library):
    """A toy estimator that adds up rows, and a meta-estimator that fits it twice, with the callbacks of a library."""

    class Total(library.CallbackSupportMixin, BaseEstimator):
        def __init__(self, n_steps=3):
            self.n_steps = n_steps

        @library.with_callbacks
        def fit(self, X, y=None):
            context = self._init_callback_context(max_subtasks=self.n_steps)
            task = {"estimator": self, "X": X, "y": lambda: np.zeros(len(X))}
            context.call_on_fit_task_begin(**task)
            total = 0.0
            for _ in range(self.n_steps):
                step = context.subcontext(task_name="step").call_on_fit_task_begin(**task)
                total += X.sum()
                if step.call_on_fit_task_end(**task, reconstruction_attributes=lambda total=total: {"total_": total}):
                    break
            self.total_ = total
            context.call_on_fit_task_end(**task, reconstruction_attributes={"total_": total})
            return self

        def score(self, X, y=None):
            return self.total_ + len(X)

    class Twice(library.CallbackSupportMixin, BaseEstimator):
        def __init__(self, estimator):
            self.estimator = estimator

        @library.with_callbacks
        def fit(self, X, y=None):
            context = self._init_callback_context(max_subtasks=2).call_on_fit_task_begin(estimator=self)
            self.fitted_ = []
            for _ in range(2):
                turn = context.subcontext(task_name="turn").call_on_fit_task_begin(estimator=self)
                inner = clone(self.estimator)
                with turn.propagate_callback_context(inner):
                    self.fitted_.append(inner.fit(X))
                turn.call_on_fit_task_end(estimator=self)
            context.call_on_fit_task_end(estimator=self)
            return self

    return Total, Twice


def with_teardown(method):
    """As `with_callbacks` of scikit-learn."""

    @wraps(method)
    def call(estimator, *args, **kwargs):
        with torn_down(estimator):
            return method(estimator, *args, **kwargs)

    return call


OURS = SimpleNamespace(CallbackSupportMixin=CallbackSupportMixin, with_callbacks=with_teardown)
Total, Twice = make_estimators(OURS)


class Recorder:
    """Writes down each call; stops after a number of steps."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.calls = []

    def _record(self, hook, estimator, context, *values):
        source = (context.source_estimator_name, context.source_task_name)
        parent = context.parent and context.parent.task_name
        place = (context.task_name, context.task_id, context.max_subtasks, parent, *source)
        self.calls.append((hook, type(estimator).__name__, context.estimator_name, *place, *values))

    def setup(self, estimator, context):
        self._record("setup", estimator, context)

    def teardown(self, estimator, context):
        self._record("teardown", estimator, context)

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self._record("begin", estimator, context, None if X is None else X.shape)

    def on_fit_task_end(self, estimator, context, *, y=None, metadata=None, fitted_estimator=None):
        total = getattr(fitted_estimator, "total_", None)
        self._record("end", estimator, context, None if y is None else y.shape, metadata, total)
        return context.task_name == "step" and context.task_id + 1 == self.stop_after


class PropagatedRecorder(Recorder):
    """Also sees inner estimators."""

    max_propagation_depth = 1


def in_sequence(*callbacks, library, nested):
    """The fits of an estimator, or of a meta-estimator around it, with callbacks."""
    total, twice = make_estimators(library)
    estimator = twice(total()) if nested else total()
    return estimator.set_callbacks(*callbacks).fit(ROWS)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("make_recorder", [Recorder, PropagatedRecorder])
@pytest.mark.parametrize("stop_after", [None, 2])
def test_calls_are_those_of_scikit_learn(make_recorder, stop_after, nested, sklearn_callback):
    ours, theirs = make_recorder(stop_after), make_recorder(stop_after)
    one = in_sequence(ours, library=OURS, nested=nested)
    other = in_sequence(theirs, library=sklearn_callback, nested=nested)
    assert ours.calls == theirs.calls
    assert len(ours.calls) > 6
    assert set(vars(one)) == set(vars(other))


@pytest.mark.parametrize("lineage", [False, True])
@pytest.mark.parametrize("scoring", [{"score": lambda e, X, y: e.score(X)}, {"a": Total.score, "b": Total.score}])
def test_logs_are_those_of_scikit_learn(scoring, lineage, sklearn_callback):
    ours, theirs = ScoringMonitor(scoring=scoring), sklearn_callback.ScoringMonitor(scoring=scoring)
    for library, monitor in ((OURS, ours), (sklearn_callback, theirs)):
        total, twice = make_estimators(library)
        for _ in range(2):
            twice(total().set_callbacks(monitor)).fit(ROWS)
    for log, expected in zip(ours.get_logs("all", lineage), theirs.get_logs("all", lineage), strict=True):
        assert log.data == expected.data
        assert log.data_as_pandas.equals(expected.data_as_pandas)
        assert log.estimator_name == expected.estimator_name == "Twice"
        assert log.timestamp[:13] == expected.timestamp[:13]
    assert ours.get_logs().run_id == ours.get_logs("all")[-1].run_id != ours.get_logs("all")[0].run_id


def test_logs_are_refused_before_there_are_any_and_by_unknown_names():
    monitor = ScoringMonitor(scoring="r2")
    with pytest.raises(ValueError, match="no fit has computed a score yet"):
        monitor.get_logs()
    with pytest.raises(ValueError, match="select must be 'most_recent' or 'all'; got 'first'"):
        monitor.get_logs("first")


@pytest.mark.long
def test_copies_in_other_processes_report_to_the_first():
    monitor = ScoringMonitor(scoring={"score": score_by_method})
    Parallel(n_jobs=2)(delayed(fit_total)(monitor, n_steps) for n_steps in (2, 3))
    assert sorted(len(log.data) for log in monitor.get_logs("all")) == [3, 4]
    apart = pickle.loads(pickle.dumps(monitor))
    fit_total(apart, 1)
    assert len(apart.get_logs("all")) == 3
    assert len(monitor.get_logs("all")) == 2


def score_by_method(estimator, X, y):
    return estimator.score(X)


def fit_total(monitor, n_steps):
    Total(n_steps).set_callbacks(monitor).fit(ROWS)


# Setting, cloning, tearing down


def test_clones_have_the_same_callbacks():
    recorder = Recorder()
    estimator = Total().set_callbacks(recorder)
    assert clone(estimator)._skl_callbacks == [recorder]
    assert "_skl_callbacks" not in vars(clone(estimator.set_callbacks()))


@pytest.mark.parametrize(
    ("callback", "message"), [(Recorder, "is a class"), (object(), "lacks setup, on_fit_task_begin")]
)
def test_what_is_no_callback_is_refused(callback, message):
    with pytest.raises(TypeError, match=message):
        Total().set_callbacks(callback)


def test_inner_estimators_cannot_have_callbacks_of_the_outermost():
    with pytest.raises(TypeError, match="PropagatedRecorder must be set on Twice and not on its inner estimator Total"):
        Twice(Total().set_callbacks(PropagatedRecorder())).fit(ROWS)


class Failing(Recorder):
    """Fails in some of its hooks."""

    def __init__(self, *hooks):
        super().__init__()
        self.hooks = hooks

    def _record(self, hook, *rest):
        super()._record(hook, *rest)
        if hook in self.hooks:
            raise RuntimeError(f"error in {hook}")


@pytest.mark.parametrize("hook", ["setup", "begin", "end", "teardown"])
def test_all_callbacks_that_were_set_up_are_torn_down(hook):
    before, failing, after = Recorder(), Failing(hook), Recorder()
    estimator = Total().set_callbacks(before, failing, after)
    with pytest.raises(RuntimeError, match=f"error in {hook}"):
        estimator.fit(ROWS)
    torn_down = [callback.calls[-1][0] for callback in (before, failing, after) if callback.calls]
    assert torn_down == ["teardown"] * (2 if hook == "setup" else 3)
    assert set(vars(estimator)) <= {"n_steps", "_skl_callbacks", "total_"}


def test_all_errors_of_teardowns_are_raised():
    with pytest.raises(ExceptionGroup) as group:
        Total().set_callbacks(Failing("teardown"), Failing("teardown")).fit(ROWS)
    assert [str(error) for error in group.value.exceptions] == ["error in teardown"] * 2


def test_numbers_of_subtasks_are_checked():
    context = Total()._init_callback_context(max_subtasks=1)
    with pytest.raises(ValueError, match="task_id must be None because the subtasks of 'fit' of Total are sequential"):
        context.subcontext(task_id=3)
    context.subcontext()
    with pytest.raises(ValueError, match="'fit' of Total has 1 of 1 subtasks, and cannot have one more with task_id=1"):
        context.subcontext()
    unordered = Total()._init_callback_context(max_subtasks=None, sequential_subtasks=False)
    assert unordered.subcontext(task_id=7).task_id == 7
    with pytest.raises(ValueError, match=r"task_id must be an integer .* are not sequential; got None"):
        unordered.subcontext()


# Bars


def test_bars_of_fits_in_threads_share_the_screen(capsys):
    def fit(n_steps):
        Twice(Total(n_steps)).set_callbacks(TaskBars()).fit(ROWS)

    Parallel(n_jobs=2, backend="threading")(delayed(fit)(n_steps) for n_steps in (2, 3, 4))
    out = capsys.readouterr().out
    assert out.count("Twice - fit") >= 3
    assert "Twice - turn | Total - fit #1" in out
    assert "100%" in out


def test_max_propagation_depth_is_a_count():
    with pytest.raises(ValueError, match="max_propagation_depth == -1, must be >= 0"):
        TaskBars(-1)


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("sklearn.callback") is None, reason="these tests have run with our hooks")
def test_estimators_pass_their_tests_with_our_hooks():
    plugins = ["-p", "_without_sklearn_callbacks", "-p", "no:cacheprovider"]
    files = ["test_held_out_monitor.py", "test_progress_bar.py"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "0",
            *plugins,
            "-k",
            CHOSEN,
            *(str(HERE / file) for file in files),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
