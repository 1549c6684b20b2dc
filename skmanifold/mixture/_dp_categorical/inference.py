"""Inference with a fitted mixture of categories: what the general methods need of counts and codes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from ...emissions._categorical import Categorical, CategoricalFamily
from ...emissions._categories.family import CategoryFamily
from ...emissions._codes import category_table, empty_table, given_categories, validate_codes
from ...emissions._multinomial import Multinomial, MultinomialFamily
from ...utils._threads import split_range
from ...utils._validation import FIT_OR_GIVE_N_FEATURES
from .._dirichlet_process.inference import PartitionInference
from .._dirichlet_process.posterior_draws import ParameterDraw, PartitionDraw
from .count_table import count_table
from .emission import WithCategories
from .stream import MixtureStream

_CELLS_AT_ONCE = 1_000_000  # of sampled rows


class CategoryInference(WithCategories, PartitionInference):
    """Methods of an estimator with a fitted mixture of categories; not public.

    The estimator has the constructor parameters and, when fitted, the attributes declared here.
    """

    _emission: str
    _stream: MixtureStream | None
    _category_prior: float
    _column_start: np.ndarray
    _row_totals: np.ndarray  # numbers of tokens of the fitted rows, used by `sample`
    _fitted_on_sparse: bool

    @property
    def posterior_(self) -> dict[str, np.ndarray]:
        """Draws after burn-in, a dict of arrays of shape (n_chains, n_draws, ...)."""
        check_is_fitted(self)
        return self._posterior if self._stream is None else self._stream.posterior()

    @property
    def _predictive(self) -> Sequence[PartitionDraw | ParameterDraw]:
        return self._draws if self._stream is None else self._stream.predictive_draws()

    @property
    def _complete_draws(self) -> np.ndarray | None:
        return self._component_draws if self._stream is None else None  # a stream keeps complete draws only

    @property
    def components_(self) -> np.ndarray | list[np.ndarray]:
        """Posterior means of the category probabilities of each component, given the point partition."""
        check_is_fitted(self)
        cells = self._summary.statistics.categories.T + self._category_prior
        columns = np.split(cells, self._column_start[1:-1], axis=1)
        means = [column / column.sum(axis=1, keepdims=True) for column in columns]
        return means[0] if self._emission == "multinomial" else means

    def _clusters_of(self, X) -> CategoryFamily:
        check_is_fitted(self)
        if self._emission == "multinomial":
            table = count_table(self, self._fitted_emission, X, None, reset=False)
        else:
            codes = validate_codes(self, X, reset=False)
            handle_unknown = self._handle_unknown_of(self._fitted_emission)
            table = category_table(self, codes, self._column_start, handle_unknown=handle_unknown)
        return self._family_of(self._category_prior, self._column_start).clusters(table)

    def _clusters_of_no_rows(self) -> CategoryFamily:
        return self._family_of(self._category_prior, self._column_start).clusters()

    def _family_of(self, prior: float, column_start: np.ndarray) -> CategoryFamily:
        if self._emission_name == "multinomial":
            return MultinomialFamily(np.full(column_start[-1], prior), 1)
        return CategoricalFamily(prior, column_start, 1)

    def _prior_parts(self, n_features: int | None, n_tokens: int | None) -> tuple[Any, Any]:
        """The emission that reads rows, and the family of one component."""
        has_counts = self._emission_name == "multinomial"
        lengths = np.array([check_scalar(100 if n_tokens is None else n_tokens, "n_tokens", Integral, min_val=1)])
        if n_features is None:
            check_is_fitted(self, msg=FIT_OR_GIVE_N_FEATURES)
            prior, column_start = self._category_prior, self._column_start
            lengths = vars(self).get("_row_totals", lengths)
        else:
            n_features = check_scalar(n_features, "n_features", Integral, min_val=1)
            categories = self._min_categories_of(self._resolve_emission())
            if categories is None and not has_counts:
                raise ValueError(
                    f"The number of categories depends on the data because min_categories of {type(self).__name__} is "
                    "None: set it, or fit the estimator and omit n_features."
                )
            column_start = np.array([0, n_features]) if has_counts else given_categories(categories, n_features)
            prior = self._prior_of_categories(empty_table(column_start))
        if has_counts:
            return Multinomial(), MultinomialFamily(np.full(column_start[-1], prior), 1, lengths)
        emission = Categorical(prior, min_categories=np.diff(column_start))
        return emission, CategoricalFamily(prior, column_start, 1)

    def _as_table(self, X: np.ndarray) -> Any:
        return sp.csr_array(X) if vars(self).get("_fitted_on_sparse") else X

    def _new_rows(self, rng: np.random.RandomState, statistics: Any, labels: np.ndarray) -> Any:
        cells = statistics.categories.T + self._category_prior
        if self._emission == "multinomial":
            totals = rng.choice(self._row_totals, len(labels))
            return _sample_counts(rng, cells, labels, totals, self._fitted_on_sparse)
        return _sample_codes(rng, cells, labels, self._column_start)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._emission_name == "multinomial"
        tags.input_tags.categorical = self._emission_name == "categorical"
        tags.input_tags.allow_nan = self._emission_name == "categorical"
        tags.input_tags.positive_only = True
        return tags


def _sample_counts(rng, cells, labels, totals, as_sparse):
    generator = np.random.default_rng(rng.randint(0, 2**32, 4, dtype=np.uint32))
    blocks = []
    for start, stop in split_range(len(labels), max(1, _CELLS_AT_ONCE // cells.shape[1])):
        shapes = cells[labels[start:stop]]
        log_gammas = np.log(generator.standard_gamma(shapes + 1.0))  # avoids underflow; corrected in the next line
        log_gammas -= generator.standard_exponential(shapes.shape) / shapes
        rows = generator.multinomial(totals[start:stop], softmax(log_gammas, axis=1))
        blocks.append(sp.csr_array(rows) if as_sparse else rows)
    return sp.vstack(blocks, format="csr") if as_sparse else np.concatenate(blocks)


def _sample_codes(rng, cells, labels, column_start):
    codes = np.empty((len(labels), len(column_start) - 1), np.int64)
    for column, (begin, end) in enumerate(pairwise(column_start)):
        shares = cells[:, begin:end] / cells[:, begin:end].sum(axis=1, keepdims=True)  # sufficient for one token
        levels = np.cumsum(shares, axis=1)[labels]
        codes[:, column] = (rng.random_sample(len(labels))[:, None] > levels[:, :-1]).sum(axis=1)
    return codes
