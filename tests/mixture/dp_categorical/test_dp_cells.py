"""Imputation, conditional distributions and summaries of clusters of `DPCategoricalMixture`."""

import numpy as np
import pandas as pd
import pytest

from skmanifold import DPCategoricalMixture, DPMixture, MixtureImputer
from skmanifold.emissions import Categorical
from skmanifold.models import IncompatibleError

from ..exponential_family._mixtures import small_counts, small_fit, small_table

ONE_DRAW = {"init": 5, "max_iter": 4, "thin": 100, "random_state": 0}


def one_draw(sampler, method="fit"):
    """A fit whose predictions are those of one draw."""
    return getattr(DPCategoricalMixture("categorical", sampler=sampler, **ONE_DRAW), method)(small_table())


def with_codes(X, column):
    """X with each code of a column, (n_codes, n_rows, n_columns)."""
    filled = np.repeat(X[np.newaxis], 3, axis=0)
    filled[:, :, column] = np.arange(3)[:, np.newaxis]
    return filled


@pytest.mark.parametrize(("sampler", "method"), [("slice", "fit"), ("scir", "fit"), ("scir", "partial_fit")])
def test_conditional_probabilities_are_ratios_of_densities(sampler, method):
    mixture, X = one_draw(sampler, method), small_table()[:20]
    densities = np.exp([mixture.score_samples(rows) for rows in with_codes(X, 2)])
    conditional = mixture.conditional(X, [2])
    np.testing.assert_allclose(conditional.predict_proba()[0], (densities / densities.sum(axis=0)).T, rtol=1e-9)
    np.testing.assert_array_equal(conditional.predict()[0], densities.argmax(axis=0))
    known = np.flatnonzero(~np.isnan(X[:, 2]))
    chosen = densities[X[known, 2].astype(int), known] / densities[:, known].sum(axis=0)
    np.testing.assert_allclose(conditional.log_density(X)[known], np.log(chosen), atol=1e-9)


@pytest.mark.parametrize(("sampler", "method"), [("slice", "fit"), ("scir", "fit"), ("scir", "partial_fit")])
def test_missing_codes_are_filled_by_probable_or_drawn_ones(sampler, method):
    mixture, n_draws = one_draw(sampler, method), 400
    X = small_table()[:4].copy()
    X[:, 2] = np.nan
    missing, probabilities = np.isnan(X), mixture.conditional(X, [2]).predict_proba()[0]
    filled = mixture.impute(X)
    np.testing.assert_array_equal(filled[~missing], X[~missing])
    np.testing.assert_array_equal(filled[:, 2], probabilities.argmax(axis=1))
    drawn = np.array(mixture.impute(X, n_draws=n_draws, random_state=0))
    assert (drawn[:, ~missing] == X[~missing]).all()
    shares = (drawn[:, :, 2, np.newaxis] == np.arange(3)).mean(axis=0)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    errors = np.sqrt(probabilities * (1.0 - probabilities) / n_draws)
    assert (np.abs(shares - probabilities) < 4.5 * errors + 1e-3).all()


def test_cells_and_summaries_are_those_of_the_process_mixture():
    X, settings = small_table(), {"init": np.arange(60) % 5, "max_iter": 8, "random_state": 0}
    kinds = DPCategoricalMixture, DPMixture
    preset, mixture = (kind(Categorical(0.5), clusters="components", **settings).fit(X) for kind in kinds)
    assert preset.impute(X).tobytes() == mixture.impute(X).tobytes()
    pd.testing.assert_frame_equal(preset.cluster_summary().clusters, mixture.cluster_summary().clusters)
    imputer = MixtureImputer(DPCategoricalMixture("categorical", **settings)).fit(X)
    assert imputer.transform(X).tobytes() == preset.impute(X).tobytes()


def test_unknown_codes_stay_in_imputed_rows():
    mixture = DPCategoricalMixture("categorical", handle_unknown="ignore", **ONE_DRAW).fit(small_table())
    X = np.array([[9.0, 0.0, np.nan, 1.0, 2.0]])
    filled = mixture.impute(X)
    np.testing.assert_array_equal(filled[0, [0, 1, 3, 4]], X[0, [0, 1, 3, 4]])
    assert filled[0, 2] in (0, 1, 2)


def test_counts_have_no_cells_to_fill():
    mixture = small_fit("multinomial")
    for method, arguments in (("impute", ()), ("conditional", ([0],))):
        with pytest.raises(IncompatibleError, match="The emission Multinomial has no distributions of single cells"):
            getattr(mixture, method)(small_counts(), *arguments)
