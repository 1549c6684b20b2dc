"""Scores on rows that a fit does not see, and stopping when they no longer rise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, is_classifier
from sklearn.callback import ScoringMonitor
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import check_random_state, check_scalar

from ..utils._sklearn import n_rows, take_rows
from ..utils._sparse_structure import check_structure
from ..utils._typing import ArrayLike, MatrixLike, RandomStateLike

_FRACTION = 0.1


class HeldOutMonitor(ScoringMonitor):
    """Callback that scores a fit on held-out rows after its passes, and can stop it.

    It is set on an estimator (``estimator.set_callbacks(monitor)``), which may be a step of a pipeline or be searched
    over: every fit of every clone is then monitored by itself. Rows that are held out as a `fraction` leave the data
    inside ``fit``, so that it also works where the data have been transformed on the way.

    Parameters
    ----------
    X_val : array-like or sparse matrix of shape (n_val_samples, n_features), default=None
        Rows to score, as ``fit`` gets them (a step of a pipeline: transformed). None holds a `fraction` out of the
        rows that are fitted.
    y_val : array-like of shape (n_val_samples,), default=None
        Their targets, where the score needs any.
    fraction : float, default=None
        Share of the rows that ``fit`` is given which are held out, chosen at random (of classifiers: in each class).
        They do not enter the fit: attributes such as ``labels_`` are of the other rows, but ``fit_predict`` predicts
        for all. None is 0.1 where `X_val` is None.
    scoring : str, callable, list, tuple, dict or None, default=None
        As in `sklearn.callback.ScoringMonitor`; None is the estimator's ``score``.
    every : int, default=1
        Passes between scores. The last pass is scored too.
    patience : int, default=None
        The fit stops after so many scores in a row that are not higher than the highest before them, but not before
        burn-in is over and there is a draw: lower `burn_in` to let it stop sooner. None never stops.
    min_improvement : float, default=0.0
        A score counts as higher if it is so by more than this.
    random_state : int, RandomState instance or None, default=0
        Which rows are held out; with a whole number the same ones in every fit to as many rows.

    See Also
    --------
    sklearn.callback.ScoringMonitor : The same on the rows that are fitted.
    skmanifold.inspection.TraceDisplay : Draws the curve.

    Notes
    -----
    ``get_logs`` returns the scores, of all fits or the most recent one: a row for each has the number of the pass from
    0 on, ``"task_id"``, and the score under its name, or ``"score"``. Of several scores the first decides when to stop.

    A fit that was stopped has spent its held-out rows: their score at the end is the best of several. Estimate what
    to expect of new rows on others.

    Examples
    --------
    >>> from skmanifold import HeldOutMonitor, StochasticLDA
    >>> from skmanifold.datasets import make_lda_corpus
    >>> X = make_lda_corpus(n_samples=200, n_features=100, n_components=5, random_state=0).data
    >>> monitor = HeldOutMonitor(fraction=0.2, every=5)
    >>> lda = StochasticLDA(5, max_iter=20, random_state=0).set_callbacks(monitor).fit(X)
    >>> [row["task_id"] + 1 for row in monitor.get_logs().data]
    [5, 10, 15, 20]
    """

    def __init__(
        self,
        X_val: MatrixLike | None = None,
        y_val: ArrayLike | None = None,
        *,
        fraction: float | None = None,
        scoring: str | Callable[..., Any] | Sequence[str] | Mapping[str, Any] | None = None,
        every: int = 1,
        patience: int | None = None,
        min_improvement: float = 0.0,
        random_state: RandomStateLike = 0,
    ) -> None:
        if X_val is not None and fraction is not None:
            raise ValueError("HeldOutMonitor takes X_val or a fraction of the rows that are fitted, not both.")
        if y_val is not None and X_val is None:
            raise ValueError("HeldOutMonitor has targets, y_val, but no rows, X_val.")
        if fraction is not None:
            check_scalar(fraction, "fraction", Real, min_val=0, max_val=1, include_boundaries="neither")
        check_scalar(every, "every", Integral, min_val=1)
        if patience is not None:
            check_scalar(patience, "patience", Integral, min_val=1)
        check_scalar(min_improvement, "min_improvement", Real, min_val=0)
        check_random_state(random_state)
        super().__init__(scoring={"score": _own_score} if scoring is None else scoring)
        self.X_val = X_val
        self.y_val = y_val
        self.fraction = _FRACTION if X_val is None and fraction is None else fraction
        self.every = every
        self.patience = patience
        self.min_improvement = min_improvement
        self.random_state = random_state
        self._runs: WeakKeyDictionary[BaseEstimator, _Run] = WeakKeyDictionary()

    # What a fit asks

    def hold_out(self, estimator: BaseEstimator, X: Any, *others: Any) -> tuple:
        """Keep rows of X, and of what goes with them, from a fit that begins; returns what is left.

        Parameters
        ----------
        estimator : estimator instance
            Whose fit begins.
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Its rows.
        *others : array-like of shape (n_samples,) or None
            What goes with the rows; the first is y.

        Returns
        -------
        kept : tuple
            X and `others` without the rows held out.

        Raises
        ------
        ValueError
            If X has no rows to hold out, or is not in memory.
        """
        if self.X_val is not None:
            self._runs[estimator] = _Run(self.X_val, self.y_val)
            return (X, *others)
        if not _is_in_memory(X):
            raise ValueError(
                f"HeldOutMonitor cannot hold rows out of a {type(X).__name__}, which is not in memory: give it X_val."
            )
        check_structure(X)
        assert self.fraction is not None  # where there is no X_val
        n_all = n_rows(X)
        if n_all < 2:
            raise ValueError(f"HeldOutMonitor needs two rows at least to hold one out, and X has n_samples={n_all}.")
        n_held = min(max(1, round(self.fraction * n_all)), n_all - 1)
        y = others[0] if others else None
        by_class = y is not None and is_classifier(estimator)
        splitter = (StratifiedShuffleSplit if by_class else ShuffleSplit)(
            1, test_size=n_held, random_state=self.random_state
        )
        kept, held = (np.sort(rows) for rows in next(splitter.split(np.empty(n_all), y if by_class else None)))
        self._runs[estimator] = _Run(take_rows(X, held), None if y is None else take_rows(y, held))
        return tuple(None if array is None else take_rows(array, kept) for array in (X, *others))

    def is_due(self, context: Any) -> bool:
        """Whether the task that `context` stands for is scored."""
        n_done = context.task_id + 1
        is_pass = context.max_subtasks == 0
        return not is_pass or n_done % self.every == 0 or n_done == context.parent.max_subtasks

    def scores_so_far(self, estimator: BaseEstimator) -> list[float]:
        """Scores so far of a fit that is running, the first one where there are several."""
        return self._runs[estimator].scores if estimator in self._runs else []

    # scikit-learn's hooks

    def setup(self, estimator: BaseEstimator, context: Any) -> None:
        """Make the scorer of a fit that begins."""
        super().setup(estimator, context)
        if estimator not in self._runs:
            raise ValueError(
                f"HeldOutMonitor does not know the rows of {type(estimator).__name__}: set it on an estimator of "
                "skmanifold, such as the last step of a pipeline."
            )
        run = self._runs[estimator]
        run.scores.clear()
        self._estimator_scorers[estimator] = _Keeping(self._estimator_scorers[estimator], run.scores)

    def teardown(self, estimator: BaseEstimator, context: Any) -> None:
        """Forget the rows of a fit that has ended."""
        super().teardown(estimator, context)
        self._runs.pop(estimator, None)

    def on_fit_task_end(
        self, estimator: BaseEstimator, context: Any, *, fitted_estimator: BaseEstimator | None = None
    ) -> bool:
        """Score what is fitted so far; True to stop."""
        run = self._runs[estimator]
        is_pass = context.max_subtasks == 0
        if fitted_estimator is None or not self.is_due(context) or (run.scores and not is_pass):
            return False
        y = np.zeros(n_rows(run.X)) if run.y is None else run.y
        super().on_fit_task_end(estimator, context, X=run.X, y=y, fitted_estimator=fitted_estimator)
        if self.patience is None or not is_pass:
            return False
        report = getattr(estimator, "_pass_report", None)
        if report is not None and not report.may_stop:
            return False
        return _n_since_best(run.scores, self.min_improvement) >= self.patience

    def __getstate__(self) -> dict[str, Any]:
        """All but the fits under way."""
        return {name: value for name, value in super().__getstate__().items() if name != "_runs"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._runs = WeakKeyDictionary()


@dataclass
class _Run:
    """A fit under way."""

    X: Any
    y: Any
    scores: list[float] = field(default_factory=list)


class _Keeping:
    """A scorer that keeps the first of its scores."""

    def __init__(self, scorer, scores: list[float]):
        self.scorer = scorer
        self.scores = scores

    def __call__(self, estimator, X, y):
        found = self.scorer(estimator, X, y)
        found = found if isinstance(found, dict) else {"score": float(found)}
        self.scores.append(next(iter(found.values())))
        return found


def _own_score(estimator, X, y):
    return estimator.score(X, y)


def _n_since_best(scores: list[float], min_improvement: float) -> int:
    """Number of scores after the last that was higher than all before it."""
    best, n_since = -np.inf, 0
    for score in scores:
        if score > best + min_improvement:
            best, n_since = score, 0
        else:
            n_since += 1
    return n_since


def _is_in_memory(X) -> bool:
    return (
        sp.issparse(X) or isinstance(X, (list, tuple)) or (hasattr(X, "__array__") and not hasattr(X, "__dask_graph__"))
    )
