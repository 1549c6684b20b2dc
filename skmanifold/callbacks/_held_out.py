"""Scores on held-out rows during a fit, and early stopping when they no longer improve."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, is_classifier
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import check_random_state, check_scalar

from ..datasets import RowFiles
from ..datasets._corpus import hold_out_documents
from ..datasets._save_corpus import counts_of_documents
from ..inference._distributed_fits.sources import corpora_of, is_elsewhere, source_of
from ..utils._inputs.sparse_structure import check_structure, join_rows
from ..utils._inputs.tables import labels, readable
from ..utils._sklearn import ScoringMonitor, n_rows, take_rows
from ..utils._typing import ArrayLike, MatrixLike, RandomStateLike
from ._hooks import RunningFits

_FRACTION = 0.1


class HeldOutMonitor(ScoringMonitor):
    """Callback that scores a fit on held-out rows after its passes, and can stop it early.

    Set it on an estimator with ``estimator.set_callbacks(monitor)``, which needs scikit-learn 1.9. The estimator may be
    a step of a pipeline or the estimator of a grid search; the fit of every clone is then monitored separately. If a
    `fraction` of the rows is held out, the split is made inside ``fit``, so it also works if previous steps transform
    the data.

    Parameters
    ----------
    X_val : array-like or sparse matrix of shape (n_val_samples, n_features), default=None
        Rows to score, in the form that ``fit`` receives (for a step of a pipeline: transformed). None holds out a
        `fraction` of the rows passed to ``fit``.
    y_val : array-like of shape (n_val_samples,), default=None
        Targets of these rows, if the score needs them.
    fraction : float, default=None
        Fraction of the rows passed to ``fit`` that is held out, chosen at random (for classifiers: stratified by
        class). The fit does not use them: attributes such as ``labels_`` only have the other rows, but ``fit_predict``
        predicts all rows. None is 0.1 if `X_val` is None.
    scoring : str, callable, list, tuple, dict or None, default=None
        As in `sklearn.model_selection.GridSearchCV`; None is the ``score`` method of the estimator, which weights the
        rows of a held-out `fraction` by their `sample_weight` if ``fit`` has one.
    every : int, default=1
        Number of passes between scores. The last pass is always scored.
    patience : int, default=None
        The fit stops after this number of successive scores without improvement over the best previous score, but not
        before the end of burn-in and the first draw. Use a smaller `burn_in` to allow an earlier stop. None disables
        early stopping.
    min_improvement : float, default=0.0
        A score is an improvement if it exceeds the best previous score by more than this.
    random_state : int, RandomState instance or None, default=0
        Seed of the choice of held-out rows. With an int the same rows are held out in every fit to the same number of
        rows.

    See Also
    --------
    sklearn.callback.ScoringMonitor : Scores on the rows of the fit.
    skmanifold.inspection.TraceDisplay : Plots the scores.

    Notes
    -----
    ``get_logs`` returns the scores of all fits or of the most recent one. Each row has the number of the pass, from 0,
    as ``"task_id"``, and the score under its name or ``"score"``. If there are several scores, early stopping uses the
    first.

    After early stopping the held-out score is optimistic, because it is the best of several. Evaluate the estimator on
    other data.

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
            raise ValueError("HeldOutMonitor needs either X_val or fraction, not both.")
        if y_val is not None and X_val is None:
            raise ValueError("HeldOutMonitor needs X_val if y_val is given.")
        if fraction is not None:
            check_scalar(fraction, "fraction", Real, min_val=0, max_val=1, include_boundaries="neither")
        check_scalar(every, "every", Integral, min_val=1)
        if patience is not None:
            check_scalar(patience, "patience", Integral, min_val=1)
        check_scalar(min_improvement, "min_improvement", Real, min_val=0)
        check_random_state(random_state)
        super().__init__(scoring={"score": _score_method} if scoring is None else scoring)
        self.X_val = X_val
        self.y_val = y_val
        self.fraction = _FRACTION if X_val is None and fraction is None else fraction
        self.every = every
        self.patience = patience
        self.min_improvement = min_improvement
        self.random_state = random_state
        self._weights_rows = scoring is None
        self._runs: RunningFits[_Run] = RunningFits()

    # Called by `fit`

    def hold_out(self, estimator: BaseEstimator, X: Any, *others: Any) -> tuple:
        """Hold out rows of X and of the arrays aligned with it, at the start of a fit.

        Parameters
        ----------
        estimator : estimator instance
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The data passed to ``fit``.
        *others : array-like of shape (n_samples,) or None
            Arrays aligned with the rows: y, then weights.

        Returns
        -------
        kept : tuple
            X and `others` without the held-out rows.

        Raises
        ------
        ValueError
            If X has fewer than two rows, or is of a type that no estimator reads.
        """
        if self.X_val is not None:
            self._runs[estimator] = _Run(self.X_val, self.y_val)
            return (X, *others)
        if is_elsewhere(X):
            X, X_val = _hold_out_stored(X, lambda n_all: self._chosen(n_all, None)[1])
            self._runs[estimator] = _Run(X_val, None)
            return (X, *others)
        X = readable(X)
        if not _is_in_memory(X):
            raise ValueError(
                f"HeldOutMonitor cannot hold out rows of a {type(X).__name__}, which is not in memory: pass X_val."
            )
        check_structure(X)
        y = others[0] if others else None
        by_class = y is not None and is_classifier(estimator)
        y = labels(y) if by_class else y
        kept, held = self._chosen(n_rows(X), y if by_class else None)
        weights = others[1] if self._weights_rows and len(others) > 1 else None
        y, weights = (None if array is None else take_rows(array, held) for array in (y, weights))
        self._runs[estimator] = _Run(take_rows(X, held), y, weights)
        return tuple(None if array is None else take_rows(array, kept) for array in (X, *others))

    def _chosen(self, n_all: int, classes: Any) -> tuple[np.ndarray, np.ndarray]:
        """Sorted indices of the rows that are kept, and of those that are held out."""
        assert self.fraction is not None  # because there is no X_val
        if n_all < 2:
            raise ValueError(f"HeldOutMonitor needs at least two rows to hold one out, but X has n_samples={n_all}.")
        n_held = min(max(1, round(self.fraction * n_all)), n_all - 1)
        splitter = (ShuffleSplit if classes is None else StratifiedShuffleSplit)(
            1, test_size=n_held, random_state=self.random_state
        )
        kept, held = next(splitter.split(np.empty(n_all), classes))
        return np.sort(kept), np.sort(held)

    def is_due(self, context: Any) -> bool:
        """Whether the end of a task is scored.

        Parameters
        ----------
        context : CallbackContext
            The task.

        Returns
        -------
        bool
            Whether the end of the task is scored.
        """
        n_done = context.task_id + 1
        is_pass = context.max_subtasks == 0
        return not is_pass or n_done % self.every == 0 or n_done == context.parent.max_subtasks

    def scores_so_far(self, estimator: BaseEstimator) -> list[float]:
        """Scores so far of a running fit; if there are several per pass, the first.

        Parameters
        ----------
        estimator : estimator instance

        Returns
        -------
        scores : list of float
            The scores in order; empty if no fit of the estimator is running.
        """
        return self._runs[estimator].scores if estimator in self._runs else []

    # Called by the tasks of the fit

    def setup(self, estimator: BaseEstimator, context: Any) -> None:
        """Create the scorer at the start of a fit.

        Parameters
        ----------
        estimator : estimator instance
        context : CallbackContext

        Raises
        ------
        ValueError
            If the estimator is not an estimator of skmanifold.
        """
        super().setup(estimator, context)
        if estimator not in self._runs:
            raise ValueError(
                f"HeldOutMonitor does not support {type(estimator).__name__}: set it on an estimator of "
                "skmanifold, such as the last step of a pipeline."
            )
        run = self._runs[estimator]
        run.scores.clear()
        run.scorer, self._estimator_scorers[estimator] = self._estimator_scorers[estimator], run

    def teardown(self, estimator: BaseEstimator, context: Any) -> None:
        """Delete the rows of a fit at its end.

        Parameters
        ----------
        estimator : estimator instance
        context : CallbackContext
        """
        super().teardown(estimator, context)
        self._runs.pop(estimator, None)

    def on_fit_task_end(
        self, estimator: BaseEstimator, context: Any, *, fitted_estimator: BaseEstimator | None = None
    ) -> bool:
        """Score the current state of the fit, and decide whether to stop.

        Parameters
        ----------
        estimator : estimator instance
        context : CallbackContext
        fitted_estimator : estimator instance, default=None
            An estimator with the fitted attributes after this task; None if the fit has not created one.

        Returns
        -------
        stop : bool
            Whether the fit should stop.
        """
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


@dataclass
class _Run:
    """The held-out rows and the scores of a running fit; as a scorer, it also appends the first of its scores."""

    X: Any
    y: Any
    weights: Any = None
    scores: list[float] = field(default_factory=list)
    scorer: Any = None

    def __call__(self, estimator: Any, X: Any, y: Any) -> dict[str, float]:
        if self.weights is None:
            scores = self.scorer(estimator, X, y)
        else:
            scores = estimator.score(X, y, sample_weight=self.weights)
        scores = scores if isinstance(scores, dict) else {"score": float(scores)}
        self.scores.append(next(iter(scores.values())))
        return scores


def _score_method(estimator, X, y):
    return estimator.score(X, y)


def _n_since_best(scores: list[float], min_improvement: float) -> int:
    """Number of scores since the last improvement."""
    best, n_since = -np.inf, 0
    for score in scores:
        if score > best + min_improvement:
            best, n_since = score, 0
        else:
            n_since += 1
    return n_since


def _is_in_memory(X) -> bool:
    holds_cells = any(hasattr(X, protocol) for protocol in ("__array__", "__arrow_c_stream__", "__dlpack__"))
    return sp.issparse(X) or isinstance(X, (list, tuple)) or holds_cells


def _hold_out_stored(X: Any, choose: Callable[[int], np.ndarray]) -> tuple[Any, Any]:
    """X, which is on disk or in Dask, without the rows with the chosen indices, and these rows in memory."""
    if isinstance(X, RowFiles):
        return X.hold_out(choose(len(X)))
    corpora = corpora_of(X)
    if corpora:
        return hold_out_documents(corpora, choose(sum(map(len, corpora))))
    return _hold_out_of_dask(X, choose)


def _hold_out_of_dask(X: Any, choose: Callable[[int], np.ndarray]) -> tuple[Any, Any]:
    """The same for Dask collections; the cluster computes their blocks to count rows, and again to take some."""
    source = source_of(X)
    delayed, blocks = sys.modules["dask"].delayed, source.blocks
    sizes, widths = zip(*source.computed([delayed(_measured)(block) for block in blocks]), strict=True)
    ends = np.cumsum([0, *sizes])
    held = choose(int(ends[-1]))
    of_blocks = [held[(held >= start) & (held < stop)] - start for start, stop in pairwise(ends)]
    pairs = [(block, rows) for block, rows in zip(blocks, of_blocks, strict=True) if len(rows)]
    taken = source.computed([delayed(take_rows)(block, rows) for block, rows in pairs])
    rest = [delayed(_drop)(block, rows) if len(rows) else block for block, rows in zip(blocks, of_blocks, strict=True)]
    lengths = [size - len(rows) for size, rows in zip(sizes, of_blocks, strict=True)]
    if source.is_ragged:
        width = int(np.delete(np.concatenate(widths), held).max())  # of the fit; documents may have other words
        counts = counts_of_documents(document for block in taken for document in block)
        held_rows = sp.csr_array(counts[2::-1], (len(held), max(width, counts.n_features)))
        return sys.modules["dask.bag"].from_delayed(rest), held_rows[:, :width]
    if hasattr(X, "columns"):
        import pandas as pd

        return sys.modules["dask.dataframe"].from_delayed(rest, meta=X._meta), pd.concat(taken)
    da = sys.modules["dask.array"]
    parts = [
        da.from_delayed(block, (length, X.shape[1]), dtype=X.dtype, meta=X._meta)
        for block, length in zip(rest, lengths, strict=True)
    ]
    return da.concatenate(parts), join_rows(taken)


def _measured(block: Any) -> tuple[int, Any]:
    """Number of rows, and of columns; for documents, that of each of them."""
    if isinstance(block, list):
        return len(block), np.array([counts_of_documents([document]).n_features for document in block])
    return block.shape


def _drop(block: Any, rows: np.ndarray) -> Any:
    return take_rows(block, np.setdiff1d(np.arange(n_rows(block)), rows))
