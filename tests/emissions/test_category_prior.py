"""Unknown Dirichlet parameters of columns of categories: their distribution, and mixtures that draw and store them."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy import stats

import skmanifold
from skmanifold import DPCategoricalMixture, DPMixture, ExponentialFamilyMixture
from skmanifold.emissions import Categorical, Columns
from skmanifold.emissions._categorical import LOG_PRIOR, VALUES
from skmanifold.models import IncompatibleError
from skmanifold.random._keys import fold_in_each, root_key, subkey
from skmanifold.utils._threads import Workers

from ._cases import KEY, read

ONE = Workers(1)
WIDTHS = [2, 4, 1]
LABELS = np.repeat(np.arange(3), [9, 2, 5]).astype(np.int32)


def codes(seed=0):
    """Codes of columns that separate the labels, do not, and are all the same; some are missing."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([LABELS % 2, rng.integers(0, 4, len(LABELS)), np.zeros(len(LABELS))]).astype(float)
    X[[1, 2, 10], [0, 1, 1]] = np.nan
    return X


def counted(clusters, labels):
    statistics = clusters.no_statistics(4)
    clusters.count(labels, statistics, ONE)
    return statistics


def exact_posterior(X):
    """Probabilities of the values of each column, from scipy's distributions of counts in place of cells in order."""
    found = []
    for column, width in zip(X.T, WIDTHS, strict=True):
        logs = stats.norm(np.log(0.5), 1.0).logpdf(np.log(VALUES))
        for label in range(3):
            own = column[(label == LABELS) & ~np.isnan(column)].astype(int)
            counts = np.bincount(own, minlength=width)
            logs += [stats.dirichlet_multinomial(np.full(width, a), len(own)).logpmf(counts) for a in VALUES]
        found.append(np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum())
    return np.array(found)


def bound(X, emission=None):
    emission = Categorical(None, WIDTHS) if emission is None else emission
    rows = read(emission, X)
    clusters = emission.bind(rows, 1).clusters(rows)
    return clusters.with_hyperprior(emission.free_hyperparameters(), clusters)


def test_parameters_have_their_posterior_given_the_partition():
    X = codes()
    clusters, exact = bound(X), exact_posterior(X)
    statistics = counted(clusters, LABELS)
    keys = fold_in_each(KEY, np.arange(2000))
    drawn = [clusters.redraw_hyperparameters(LABELS, statistics, key, ONE).hyperparameters for key in keys]
    levels, of_prior = exact.cumsum(axis=1), np.tile(np.exp(LOG_PRIOR), (3, 1)).cumsum(axis=1)
    is_varied = (levels > 0.02) & (levels < 0.98)
    found = summarize((np.array(drawn)[:, :, np.newaxis] <= VALUES)[:, is_varied])
    assert_agrees(found, levels[is_varied])
    assert_disagrees(found, of_prior[is_varied])
    np.testing.assert_allclose(exact[2], np.exp(LOG_PRIOR))  # a column with one category tells nothing
    learned = clusters.with_learned_prior(statistics, ("category_prior",))
    np.testing.assert_array_equal(learned.hyperparameters, VALUES[exact.argmax(axis=1)])
    again = clusters.of_columns(np.array([1, 2])).redraw_hyperparameters(
        LABELS, clusters.of_columns(np.array([1, 2])).no_statistics(4), KEY, ONE
    )
    assert again.hyperparameters.shape == (2,)


def test_log_joint_density_has_the_prior_of_the_parameters():
    X = codes()
    clusters, exact = bound(X), exact_posterior(X)
    statistics = counted(clusters, LABELS)
    for column in (0, 1):
        joint = []
        for a in VALUES:
            prior = statistics.hyperparameters.copy()
            prior[column] = a
            drawn = statistics._replace(hyperparameters=prior)
            joint.append(clusters.given(drawn).log_marginal(drawn) + clusters.log_hyperprior(drawn))
        weights = np.exp(np.array(joint) - np.max(joint))
        np.testing.assert_allclose(weights / weights.sum(), exact[column], rtol=1e-9)


def moments(prior):
    return np.concatenate([np.log(prior), np.log(prior) ** 2])


def test_draws_leave_the_joint_distribution_with_rows_alone():
    """Rows given parameters, and parameters given rows, are drawn in turn; chains begin at draws from the prior."""
    emission = Categorical(None, WIDTHS)
    family = emission.prior_family(3, 3, 0)
    family, means = family.with_hyperprior(("category_prior",), family), []
    for chain in range(200):
        current, of_chain = family.with_drawn_hyperparameters(subkey(root_key(0), chain)), []
        for step in range(8):
            own = subkey(subkey(root_key(1), chain), step)
            parameters = current.draw(tuple(map(np.zeros, current.shapes())), subkey(own, 1))
            X = current.sample(parameters, LABELS, subkey(own, 2)).astype(float)
            clusters = current.clusters(read(emission, X))
            statistics = clusters.redraw_hyperparameters(LABELS, counted(clusters, LABELS), subkey(own, 3), ONE)
            current = clusters.given(statistics)
            of_chain.append(moments(current.hyperparameters))
        means.append(np.mean(of_chain, axis=0))
    weights, logs = np.exp(LOG_PRIOR), np.log(VALUES)
    assert_agrees(summarize(means), np.repeat([weights @ logs, weights @ logs**2], 3))


def separated(n=240, seed=1):
    """Two columns of nearly sure codes given the component, and two that tell nothing."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % 3
    sure = np.where(rng.random((n, 2)) < 0.95, z[:, np.newaxis], rng.integers(0, 3, (n, 2)))
    return np.hstack([sure, rng.integers(0, 3, (n, 2))]).astype(float)


@pytest.mark.parametrize(
    "mixture", [DPMixture(Categorical(None)), DPCategoricalMixture("categorical", category_prior=None)]
)
def test_mixtures_draw_parameters(mixture, tmp_path):
    X = separated()
    mixture = mixture.set_params(max_iter=40, random_state=0).fit(X)
    drawn = mixture.posterior_["category_prior"]
    assert drawn.shape == (*mixture.posterior_["weights"].shape[:2], 4)
    assert drawn[..., :2].mean() < 0.5 < 2.0 < drawn[..., 2:].mean()
    assert np.isin(drawn, VALUES).all()
    mixture.save(tmp_path / "mixture")
    loaded = skmanifold.load(tmp_path / "mixture")
    np.testing.assert_array_equal(loaded.score_samples(X), mixture.score_samples(X))
    np.testing.assert_array_equal(loaded.posterior_["category_prior"], drawn)


def test_learned_parameters_are_those_of_the_emission():
    X = separated()
    mixture = DPMixture(Categorical(None), hyperparameters="learn", max_iter=10, random_state=0).fit(X)
    assert "category_prior" not in mixture.posterior_
    assert (mixture.emission_.category_prior[:2] < mixture.emission_.category_prior[2:]).all()
    again = DPMixture(mixture.emission_, max_iter=10, random_state=0).fit(X)
    assert np.isfinite(again.score(X))


def test_blocks_of_tables_have_parameters_of_their_own():
    blocks = [("sure", Categorical(None), [0, 1]), ("others", Categorical([0.3, 4.0]), [2, 3])]
    mixture = DPMixture(Columns(blocks), max_iter=10, random_state=0).fit(separated())
    learned, given = (mixture.emission_.blocks[i][1].category_prior for i in (0, 1))
    assert (learned < 0.5).all()
    assert given == [0.3, 4.0]
    drawn = mixture._estimate.statistics
    assert sorted(len(part.hyperparameters) for part in (drawn.first, drawn.rest)) == [0, 2]


def test_finite_mixtures_use_the_median():
    X = separated()
    scores = [
        ExponentialFamilyMixture(2, emission=emission, random_state=0).fit(X).score(X)
        for emission in (Categorical(None), Categorical(0.5), Categorical([0.5] * 4))
    ]
    assert scores[0] == scores[1] == scores[2]


def test_parameters_are_drawn_from_the_prior_too():
    mixture = DPMixture(Categorical(None, min_categories=3))
    draws = [mixture.sample_prior(5, 2, random_state=seed, return_parameters=True)[1] for seed in (0, 1)]
    assert draws[0]["category_prior"].shape == (2,)
    assert (draws[0]["category_prior"] != draws[1]["category_prior"]).any()
    assert np.isfinite(draws[0]["log_joint"])


def test_unknown_parameters_that_are_refused():
    with pytest.raises(ValueError, match="needs emission='categorical'"):
        DPCategoricalMixture(category_prior=None).fit(separated())
    with pytest.raises(IncompatibleError, match="SCIR does not learn category_prior"):
        DPCategoricalMixture("categorical", category_prior=None, sampler="scir").fit(separated())
    with pytest.raises(ValueError, match=r"category_prior must be a number or have shape \(4,\)"):
        DPMixture(Categorical([0.5, 0.1])).fit(separated())
    with pytest.raises(ValueError, match="min_categories"):
        DPMixture(Categorical(None)).sample_prior(5, 2)


def test_numbers_of_categories_may_be_an_array_in_columns():
    X = np.array([[0, 1], [1, 0], [0, 2]])
    given = [Columns([("codes", Categorical(min_categories=least), [0, 1])]) for least in ([2, 4], np.array([2, 4]))]
    first, second = (ExponentialFamilyMixture(1, emission=each, random_state=0).fit(X) for each in given)
    np.testing.assert_array_equal(first.score_samples(X), second.score_samples(X))
