"""Summaries of finite mixtures: weights with intervals, typical rows, and the columns that separate the components."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import entropy, nbinom, norm, poisson

from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import Columns, Gaussian, Multinomial
from skmanifold.emissions._cells import NormalCells, mutual_information
from skmanifold.emissions._gaussian.emission import Gaussian as GaussianRows

from .test_column_mixtures import columns, planted

N_DRAWN = 2000


def fit_table(sampler="em", **parameters):
    X, _ = planted()
    return ExponentialFamilyMixture(3, emission=columns("full"), sampler=sampler, random_state=0, **parameters).fit(
        X
    ), X


def information_in_closed_form(weights, log_densities, support):
    """Mutual information of a column of counts, and the standard error of its estimate from drawn rows."""
    joint = np.exp(log_densities(support)) * weights
    marginal = joint.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(joint > 0, joint * np.log(joint / marginal[:, None] / weights), 0.0)
        of_value = np.where(marginal > 0, terms.sum(axis=1) / marginal, 0.0)
    mean = terms.sum()
    return mean, np.sqrt(max(marginal @ of_value**2 - mean**2, 0.0) / N_DRAWN)


def information_by_quadrature(weights, means, deviations):
    """Of a column of normal numbers: the mean over x of its information about the component, and the error."""

    def of_value(x):
        joint = weights * norm.pdf(x, means, deviations)
        posterior = joint / joint.sum()
        return joint.sum(), (posterior * np.log(posterior / weights)).sum()

    limits = (means - 12 * deviations).min(), (means + 12 * deviations).max()
    moments = [
        quad(lambda x, p=p: np.prod((of_value(x)[0], of_value(x)[1] ** p)), *limits, limit=400)[0] for p in (1, 2)
    ]
    return moments[0], np.sqrt((moments[1] - moments[0] ** 2) / N_DRAWN)


# --- columns ---------------------------------------------------------------------------------------------


def test_columns_of_a_table_have_the_information_of_their_distributions():
    mixture, _ = fit_table()
    clusters, of_columns = mixture.cluster_summary()
    blocks, weights = mixture.named_blocks_, mixture.weights_
    found = of_columns["mutual_information"]
    deviations = np.sqrt(blocks.numbers.covariances_[:, [0, 1], [0, 1]])
    for column in (0, 1):
        exact, error = information_by_quadrature(weights, blocks.numbers.components_[:, column], deviations[:, column])
        assert abs(found[column] - exact) < 4.5 * error
    codes, ones = blocks.codes.components_[0], blocks.events.components_[:, 0]
    assert found[2] == pytest.approx(entropy(weights @ codes) - weights @ entropy(codes, axis=1))
    both = np.stack((ones, 1 - ones), axis=1)
    assert found[3] == pytest.approx(entropy(weights @ both) - weights @ entropy(both, axis=1))
    rates = blocks.counts.components_[:, 0]
    exact, error = information_in_closed_form(weights, lambda x: poisson.logpmf(x[:, None], rates), np.arange(200))
    assert abs(found[4] - exact) < 4.5 * error
    assert (np.diff(found) <= 0).all()
    assert clusters.columns.tolist() == ["weight", "size", "typical_row", *found.index]
    order = np.argsort(-weights)
    assert clusters.index.tolist() == order.tolist()
    assert clusters[2].tolist() == codes.argmax(axis=1)[order].tolist()
    np.testing.assert_allclose(clusters[3], ones[order])
    np.testing.assert_allclose(clusters[[0, 1]], blocks.numbers.components_[order])


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_columns_of_numbers_have_the_information_of_their_marginal_densities(covariance_type):
    rng = np.random.default_rng(1)
    mixing = np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.0], [0.0, 0.0, 1.0]])
    X = np.concatenate([rng.normal(0, 1, (300, 3)) @ mixing, rng.normal(0, 1, (100, 3)) @ mixing + [3.0, 0.0, 0.0]])
    mixture = ExponentialFamilyMixture(2, emission=Gaussian(covariance_type), sampler="em", random_state=0).fit(X)
    variances = mixture.covariances_
    if covariance_type == "full":
        variances = np.diagonal(variances, axis1=1, axis2=2)
    elif covariance_type == "tied":
        variances = np.diagonal(variances)[np.newaxis].repeat(2, axis=0)
    found = mixture.cluster_summary().columns["mutual_information"]
    for column in range(3):
        of_column = mixture.components_[:, column], np.sqrt(variances[:, column])
        exact, error = information_by_quadrature(mixture.weights_, *of_column)
        assert abs(found[column] - exact) < 4.5 * error + 1e-12
    assert found.index[0] == 0


def test_columns_of_overdispersed_counts_have_the_information_of_their_probabilities():
    rng = np.random.default_rng(2)
    X = rng.negative_binomial(2.0, 2.0 / (2.0 + np.where(rng.random((400, 1)) < 0.4, [[2.0, 20.0]], [[9.0, 20.0]])))
    mixture = ExponentialFamilyMixture(2, emission="negative_binomial", sampler="em", random_state=0).fit(X)
    found = mixture.cluster_summary().columns["mutual_information"]
    for column in (0, 1):
        size, means = 1.0 / mixture.dispersions_[column], mixture.components_[:, column]
        exact, error = information_in_closed_form(
            mixture.weights_, lambda x, r=size, m=means: nbinom.logpmf(x[:, None], r, r / (r + m)), np.arange(3000)
        )
        assert abs(found[column] - exact) < 4.5 * error


def test_a_block_of_words_in_a_table_is_summarised_beside_numbers():
    rng = np.random.default_rng(4)
    z = rng.integers(0, 2, 200)
    words = np.array([rng.multinomial(20, [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]][k]) for k in z])
    X = np.column_stack([rng.normal(3.0 * z), words])
    emission = Columns([("number", Gaussian("diag"), [0]), ("words", Multinomial(), [1, 2, 3])])
    mixture = ExponentialFamilyMixture(2, emission=emission, random_state=0).fit(X)
    found = mixture.cluster_summary(["length", "a", "b", "c"]).columns
    assert set(found.index) == {"length", "a", "b", "c"}
    probabilities = mixture.named_blocks_.words.components_
    whole = entropy(mixture.weights_ @ probabilities) - mixture.weights_ @ entropy(probabilities, axis=1)
    assert found.loc[["a", "b", "c"], "mutual_information"].sum() == pytest.approx(whole)


def test_categories_of_a_data_frame_are_shown_by_their_names():
    rng = np.random.default_rng(5)
    z = rng.integers(0, 2, 100)
    frame = pd.DataFrame({"length": rng.normal(6.0 * z), "colour": np.where(z == 1, "red", "blue")})
    mixture = ExponentialFamilyMixture(2, emission="auto", random_state=0).fit(frame)
    clusters = mixture.cluster_summary().clusters
    assert clusters.sort_values("length")["colour"].tolist() == ["blue", "red"]


def test_components_of_weight_zero_do_not_change_the_information():
    means = np.array([[0.0], [2.0], [100.0]])
    two = NormalCells(means[:2], np.ones((2, 1))).information(np.diag([3.0, 1.0]))
    three = NormalCells(means, np.ones((3, 1))).information(np.diag([3.0, 1.0, 0.0]))
    np.testing.assert_array_equal(two, three)
    assert two[0] > 0.1
    assert mutual_information(np.zeros((3, 2)), np.diag([0.5, 0.5])) == 0.0


# --- weights, sizes and typical rows ---------------------------------------------------------------------


def test_intervals_of_weights_are_those_of_draws_in_the_order_of_the_estimate():
    X, _ = planted()
    mixture = ExponentialFamilyMixture(
        3, emission=columns(), sampler="gibbs", max_iter=60, thin=1, n_chains=2, random_state=0
    ).fit(X)
    clusters = mixture.cluster_summary().clusters
    tree = mixture.to_arviz()
    weights = tree["posterior"]["weights"].to_numpy().reshape(-1, 3)
    middle, low, high = np.quantile(weights, [0.5, 0.05, 0.95], axis=0, method="inverted_cdf")
    np.testing.assert_allclose(clusters["weight"].sort_index(), mixture.weights_)
    np.testing.assert_allclose(clusters["drawn_weight"].sort_index(), middle)
    np.testing.assert_allclose(clusters["drawn_weight_low"].sort_index(), low)
    np.testing.assert_allclose(clusters["drawn_weight_high"].sort_index(), high)
    assert (low < mixture.weights_).all()
    assert (mixture.weights_ < high).all()
    assert (high - low < 0.2).all()  # chains name the components in different orders
    unmatched = np.quantile(mixture.posterior_["weights"].reshape(-1, 3), [0.05, 0.95], axis=0)
    assert not np.allclose(unmatched, [low, high])


@pytest.mark.parametrize(
    "settings", [{}, {"sampler": "esca"}, {"sampler": "gibbs", "max_iter": 6, "max_draws_bytes": 0}]
)
def test_without_draws_of_components_weights_have_no_intervals(settings):
    mixture, _ = fit_table(**settings)
    assert "drawn_weight_low" not in mixture.cluster_summary().clusters


def test_typical_rows_have_the_highest_density_among_the_rows_of_their_component():
    mixture, X = fit_table()
    for k, row in enumerate(mixture.typical_rows_):
        members = np.flatnonzero(mixture.labels_ == k)
        joint = mixture.score_samples(X[members]) + np.log(mixture.predict_proba(X[members])[:, k])
        assert row == members[np.argmax(joint)]
    clusters = mixture.cluster_summary().clusters.sort_index()
    assert clusters["typical_row"].tolist() == mixture.typical_rows_.tolist()
    assert clusters["size"].iloc[:].tolist() == np.bincount(mixture.labels_).tolist()


def test_a_component_without_rows_has_no_typical_row():
    X = np.repeat([[0.0], [5.0]], 10, axis=0)
    emission = GaussianRows("spherical", mean_prior=[0.0], covariance_prior=1.0)
    mixture = ExponentialFamilyMixture(
        4, emission=emission, sampler="em", init=np.repeat([0, 1], 10), weight_prior=2.0, random_state=0
    ).fit(X)
    clusters = mixture.cluster_summary().clusters.sort_index()
    empty = np.bincount(mixture.labels_, minlength=4) == 0
    assert empty.any()
    assert (mixture.typical_rows_[empty] == -1).all()
    assert clusters["typical_row"].isna().tolist() == empty.tolist()
    assert np.isfinite(clusters[0]).all()


# --- streams, files and errors ---------------------------------------------------------------------------


def test_a_stream_has_weights_without_sizes_and_typical_rows():
    mixture, X = fit_table("esca")
    clusters, of_columns = mixture.partial_fit(X).cluster_summary()
    assert not hasattr(mixture, "typical_rows_")
    assert clusters.columns.tolist() == ["weight", *of_columns.index]
