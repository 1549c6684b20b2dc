"""The same bytes for any number of threads, in any process, from any copy; and fractional counts rounded alike."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln
from sklearn.base import clone

from skmanifold import DPCategoricalMixture
from skmanifold.datasets import make_categorical_mixture
from skmanifold.samplers import Slice

from ..exponential_family._mixtures import (
    learned,
    make,
    small_counts,
    small_table,
)


def test_the_batch_size_is_used_and_all_rows_are_one_batch():
    fits = {size: learned(make("multinomial", batch_size=size).fit(small_counts())) for size in (None, 7, 50, 999)}
    assert fits[None] == fits[50] == fits[999]
    assert fits[7] != fits[None]


def test_fewer_draws_of_labels_change_no_other_draw():
    whole = make("categorical", max_iter=14, thin=1).fit(small_table()).posterior_
    one = 4 * 60 + 24 * 15 * 50  # labels, and room for fifty components
    for max_draws_bytes, kept in (
        (10 * one, range(10)),
        (5 * one, range(1, 10, 2)),
        (4 * one - 1, (1, 5, 9)),
        (2 * one, (4, 9)),
        (one, (9,)),
    ):
        thinned = make("categorical", max_iter=14, thin=1, max_draws_bytes=max_draws_bytes).fit(small_table())
        np.testing.assert_array_equal(thinned.posterior_["labels"], whole["labels"][:, [*kept]])
        width = thinned.posterior_["weights"].shape[2]
        np.testing.assert_array_equal(thinned.posterior_["weights"], whole["weights"][:, [*kept], :width])
        for name in ("log_joint", "n_components", "concentration"):
            np.testing.assert_array_equal(thinned.posterior_[name], whole[name])


# Where chains begin


@pytest.mark.parametrize(
    "init", [np.arange(60) % 4, (7 * (np.arange(60) % 4)).tolist(), np.arange(60).astype(np.uint8) % 4]
)
def test_labels_to_begin_with_are_names(init):
    expected = make("categorical", init=np.arange(60) % 4).fit(small_table())
    assert learned(make("categorical", init=init).fit(small_table())) == learned(expected)


def test_chains_begin_where_they_are_told():
    """With so large a concentration that they would never meet, without a split, merge or move in one pass."""
    X = make_categorical_mixture(90, 30, 3, category_prior=0.05, random_state=0)
    frozen = {"sampler": Slice(0), "max_iter": 1, "burn_in": 0, "thin": 1, "concentration": 1e-9, "random_state": 0}
    told = DPCategoricalMixture("categorical", init=X.labels + 5, **frozen).fit(X.data)
    assert len(np.unique(np.c_[told.labels_, X.labels], axis=0)) == told.n_components_ == 3
    assert DPCategoricalMixture("categorical", init=1, **frozen).fit(X.data).n_components_ == 1
    assert (
        DPCategoricalMixture("categorical", init=10**6, **{**frozen, "concentration": 5.0}).fit(X.data).n_components_
        > 9
    )


def test_auto_is_a_hundred_clusters_and_not_more_than_rows():
    expected = make("categorical", init=60).fit(small_table())
    assert learned(make("categorical", init="auto").fit(small_table())) == learned(expected)
    many = make_categorical_mixture(150, 3, random_state=0).data
    assert learned(make("categorical", init="auto").fit(many)) == learned(make("categorical", init=100).fit(many))


@pytest.mark.parametrize(("n_rows", "n_moves"), [(10_000, 20), (10_001, 3)])
def test_auto_is_fewer_split_merge_moves_of_many_rows(n_rows, n_moves):
    codes = np.arange(n_rows)[:, np.newaxis] % 3
    mixture = DPCategoricalMixture("categorical", init=3, max_iter=2, random_state=0)
    auto, given = (clone(mixture).set_params(sampler=Slice(moves)).fit(codes) for moves in ("auto", n_moves))
    assert learned(mixture.fit(codes)) == learned(auto) == learned(given)


# Fractional counts

ROUNDS = pytest.mark.filterwarnings("ignore:X has fractional counts, which fit rounds at random:UserWarning")


@ROUNDS
def test_fractional_counts_are_rounded_by_place_in_fit_and_weights_elsewhere():
    X = np.tile([0.5, 0.5, 2.0, 0.5], (400, 1))
    mixture = make("multinomial", concentration=1e-6, init=1, max_iter=6).fit(X)
    assert mixture.n_components_ == 1
    totals = mixture._estimate.statistics.categories[:, 0]
    assert totals[2] == 800
    # Binomial(400, 1/2): mean 200, standard deviation 10.
    assert np.all(np.abs(totals[[0, 1, 3]] - 200) < 4 * 10)
    assert len(np.unique(totals[[0, 1, 3]])) > 1
    assert len(np.unique(mixture.score_samples(X))) == 1
    whole = mixture.score_samples(np.random.default_rng(0).random((50, 4)) * 2)
    assert len(np.unique(whole)) > 10
    assert mixture.score_samples(sp.csr_matrix(X))[0] == mixture.score_samples(X)[0]
    near = mixture.score_samples([[0.4] * 4, [0.4 + 1e-7] * 4, [1.0] * 4])
    assert near[0] == pytest.approx(near[1], abs=1e-6)
    assert mixture.score_samples([[1.0] * 4])[0] == near[2]  # whatever the other rows hold
    cells, prior = totals + 0.5, np.array([0.4] * 4)
    expected = (gammaln(cells + prior) - gammaln(cells)).sum() + gammaln(cells.sum()) - gammaln(cells.sum() + 1.6)
    assert mixture.score_samples([[0.4] * 4])[0] == pytest.approx(expected, rel=1e-5)  # but for another component


@ROUNDS
def test_rounding_is_right_on_average():
    mixture = make("multinomial", concentration=1e-6, init=1, max_iter=6).fit(np.full((300, 20), 3.3))
    means = mixture._estimate.statistics.categories[:, 0] / 300
    assert abs(means.mean() - 3.3) < 4 * np.sqrt(0.3 * 0.7 / 6000)
