"""Wrong families, which the checks of `test_contract` find."""

from copy import copy

import numpy as np
import pytest
from sklearn.base import clone

from skmanifold.emissions import Bernoulli

from ._families import ONE, Case, K, case_of
from .test_contract import (
    check_agreement,
    check_cells,
    check_chain,
    check_gaps,
    check_mode,
    check_moves,
    check_new_rows,
    check_predictive,
    check_prior,
    check_rows_alone,
    check_sides,
    check_statistics_of_parts,
    check_threads,
    check_types,
    check_weights,
    each,
)

OTHER_PRIORS = {
    "bernoulli": {"zeros_prior": 1.8},
    "categorical": {"category_prior": 0.7},
    "columns": {"counts__rate_prior": 1.0},
    "full": {"degrees_of_freedom_prior": 14.0},  # one more
    "tied": {"degrees_of_freedom_prior": 14.0},
    "diag": {"degrees_of_freedom_prior": 14.0},
    "spherical": {"degrees_of_freedom_prior": 14.0},
    "hurdle": {"rate_prior": 5.0},
    "multinomial": {"category_prior": 0.5},
    "negative_binomial": {"dispersion": [0.5, 0.3]},
    "poisson": {"rate_prior": 1.0},
    "spikes": {"category_prior": 0.9},
    "von_mises_fisher": {"cosine_prior": 0.6},
    "shared von_mises_fisher": {"prior_rows": 3.0},
}


def altered(name, **methods):
    """A family with some wrong methods."""
    case = copy(case_of(name))
    case.__class__ = type("Altered", (Case,), methods)
    return case


def with_other_prior(name, hyperparameters, *methods):
    """A family some of whose methods have another prior."""
    case = case_of(name)
    other = case.with_emission(clone(case.emission).set_params(**hyperparameters))
    return altered(name, **{method: staticmethod(getattr(other, method)) for method in methods})


def draws_of_many_copies(case, sums, n):
    """The prior is multiplied too: the means are right, the variances are not."""
    ones, zeros = (10.0 * np.array(case.emission.get_params()[name]) for name in ("ones_prior", "zeros_prior"))
    other = case.with_emission(Bernoulli(ones, zeros))
    return Case.draws(other, [10 * array for array in sums], n)


def cells_without_conditions(case, parameters, X, labels):
    return Case.expected_cells(case, parameters, np.full_like(X, np.nan), labels)


def zeros_for_gaps(method):
    return lambda case, X, *given: getattr(Case, method)(case, np.nan_to_num(X), *given)


def moved_without_removal(case, X, labels, rows, new_labels, workers=ONE):
    return case.statistics(np.concatenate([X, X[rows]]), np.concatenate([labels, new_labels]))


def last_block_forgotten(case, X, labels):
    return case.sums(X[:1024], labels[:1024])


def row_in_two_parts(case, X, labels, middle):
    twice = np.r_[: middle + 1, middle : len(X)]
    return Case.statistics_of_parts(case, X[twice], labels[twice], middle + 1)


def weights_forgotten(case, X, shares):
    return Case.sums_of_shares(case, X, shares / shares.sum(axis=1, keepdims=True))


def spread_rows(case, statistics, labels):
    rows = Case.new_rows(case, statistics, labels)
    return np.maximum(np.rint(rows.mean(axis=0) + 1.4 * (rows - rows.mean(axis=0))), 0.0)


def numbers_spread(case, parameters, labels):
    return 1.2 * Case.sample(case, parameters, labels)


def sums_in_another_order(case, X, labels, workers=ONE, capacity=K):
    order = slice(None, None, -1 if workers.n_workers > 1 else 1)
    return Case.statistics(case, X[order], labels[order], workers, capacity)


def another_result_of_many_rows(case, X, statistics, workers=ONE, start=0.0):
    out = Case.log_predictive(case, X, statistics, workers, start)
    return out * (1.0 + 1e-14 * len(out))


def without_base(case, X, parameters, first=0, stop=None, start=0.0):
    return Case.log_densities(case, X, parameters, first, stop, start) - case.rows(X).log_base[:, np.newaxis]


def rounded_rows(case, X, statistics, workers=ONE, start=0.0):
    rows = X.astype(np.float16) if X.dtype == np.float32 else X
    return Case.log_predictive(case, rows, statistics, workers, start)


def assert_finds(check, case, *given):
    with pytest.raises(AssertionError):
        check(case, *given)


@each
def test_another_prior_of_predictive_densities_is_found(name):
    case = with_other_prior(name, OTHER_PRIORS[name], "log_predictive")
    assert_finds(check_chain, case, case.X)


@pytest.mark.extended
@pytest.mark.parametrize("name", ["poisson", "full"])
def test_another_prior_of_splits_and_merges_is_found(name):
    case = with_other_prior(name, OTHER_PRIORS[name], "log_marginal")
    assert_finds(check_sides, case, case.X)


@pytest.mark.parametrize(
    ("name", "hyperparameters"), [("full", {"degrees_of_freedom_prior": 7.0}), ("poisson", {"rate_prior": 1.6})]
)
def test_another_prior_of_draws_and_modes_is_found(name, hyperparameters):
    for method in ("draws", "components"):
        case = with_other_prior(name, hyperparameters, method)
        assert_finds(check_predictive, case, case.X)
        assert_finds(check_prior, case)
    assert_finds(check_mode, with_other_prior(name, OTHER_PRIORS[name], "mode"), case.X)


@pytest.mark.parametrize("name", ["bernoulli", "diag"])
def test_missing_cells_that_are_read_as_zeros_are_found(name):
    X = case_of(name).with_gaps()
    assert_finds(check_chain, altered(name, statistics=zeros_for_gaps("statistics")), X)
    assert_finds(check_agreement, altered(name, sums=zeros_for_gaps("sums")), X)
    for method in ("log_predictive", "log_densities", "log_densities_given"):
        assert_finds(check_gaps, altered(name, **{method: zeros_for_gaps(method)}), X)


@pytest.mark.parametrize(
    ("check", "name", "methods"),
    [
        (check_statistics_of_parts, "poisson", {"sums_of_blocks": last_block_forgotten}),
        (check_statistics_of_parts, "diag", {"statistics_of_parts": row_in_two_parts}),
        (check_moves, "diag", {"moved": moved_without_removal}),
        (check_weights, "poisson", {"sums_of_shares": weights_forgotten}),
        (check_predictive, "bernoulli", {"draws": draws_of_many_copies}),
        (check_cells, "full", {"expected_cells": cells_without_conditions}),
        (check_agreement, "poisson", {"log_densities": without_base}),
        (check_rows_alone, "diag", {"log_predictive": another_result_of_many_rows}),
        (check_threads, "diag", {"statistics": sums_in_another_order}),
    ],
)
def test_wrong_variants_are_found(check, name, methods):
    assert_finds(check, altered(name, **methods), case_of(name).X)


def test_other_differences_are_found():
    X = case_of("diag").X
    assert_finds(check_types, altered("diag", log_predictive=rounded_rows), X, {"rtol": 0.0})
    assert_finds(check_new_rows, altered("poisson", new_rows=spread_rows))
    assert_finds(check_new_rows, altered("diag", sample=numbers_spread))
