"""Gaussian families whose columns have their own numbers of the prior, and families of some columns."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, summarize

import skmanifold
from skmanifold import DPMixture
from skmanifold.emissions import Gaussian
from skmanifold.emissions._abilities import SeparatesColumns
from skmanifold.emissions._gaussian import learned
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import Slice
from skmanifold.utils._conditions import Unsatisfied
from skmanifold.utils._declared import check
from skmanifold.utils._parameters import offers
from skmanifold.utils._threads import Workers

ONE, KEY, D, K = Workers(1), root_key(0), 3, 4
FREE = "covariance", "degrees", "mean_precision", "transform"
SETTINGS = {
    "exact": {},
    "missing": {},
    "rounded": {"resolution": [0.5, 0.0, 0.25]},
    "bent": {"transform": [0.3, 1.0, 1.5]},
    "bent and rounded": {"resolution": [0.5, 0.0, 0.25], "transform": [0.3, 1.0, 1.5]},
}
CASES = pytest.mark.parametrize("case", SETTINGS)


def rows_of(case, n=40):
    """Rows with skewed columns, with missing cells in most cases."""
    rng = np.random.default_rng(0)
    X = np.exp(0.7 * rng.normal(size=(n, D))) + np.array([0.0, 5.0, -2.0])
    widths = np.array(SETTINGS[case].get("resolution", np.zeros(D)))
    X = np.where(widths > 0.0, np.round(X / np.where(widths, widths, 1.0)) * widths, X)
    return X if case == "exact" else np.where(rng.random(X.shape) < 0.2, np.nan, X)


LABELS = (np.arange(40) % K).astype(np.int32)


def bound(case, columns=slice(None), is_drawn=False, is_separated=True, X=None):
    """The family of some columns of rows, bound to them, with a prior that does not depend on the other columns."""
    settings = {name: np.array(value)[columns] for name, value in SETTINGS[case].items()}
    mean, scatter = np.array([0.5, 6.0, -1.0])[columns], np.array([0.8, 2.0, 0.4])[columns]
    emission = Gaussian("diag", mean, 0.3, scatter, 3.5, **settings)
    rows = emission.read(DPMixture(), (rows_of(case) if X is None else X)[:, columns], reset=True)
    family = emission.bind(rows, 1)
    if is_drawn:
        family = family.with_hyperprior(FREE, family)
    family = family.clusters(rows)
    return family.separated() if is_separated else family


def counted(family, labels=LABELS, **drawn):
    """Statistics of the labels, with these hyperparameters and numbers within cells."""
    statistics = family.no_statistics(int(labels.max()) + 1)._replace(**drawn)
    family.given(statistics).count(labels, statistics, ONE)
    return statistics


def predicted(family, statistics):
    """Predictive densities, and densities of drawn components."""
    given, out = family.given(statistics), np.zeros((2, family.n_rows, len(statistics.sizes)))
    given.add_log_predictive(statistics, out[0], ONE)
    given.add_densities_of_rows(given.draw_components(statistics, np.arange(out.shape[2]), KEY, ONE), out[1], ONE)
    return out


@CASES
@pytest.mark.parametrize("is_separated", [False, True])
@pytest.mark.parametrize("columns", [[0], [1], [0, 2], [0, 1, 2]])
def test_columns_are_as_those_of_a_family_of_their_own(case, is_separated, columns):
    whole, own = bound(case, is_separated=is_separated), bound(case, columns, is_separated=is_separated)
    part = whole.of_columns(np.array(columns))
    np.testing.assert_allclose(part.data.rows, own.data.rows, rtol=1e-12)
    assert (part.log_base is None) == (own.log_base is None)
    statistics = counted(part)
    of_own = counted(own, values=statistics.values if own.resolution is not None else own._first_values)
    assert part.log_marginal(statistics) == pytest.approx(own.log_marginal(of_own), rel=1e-12)
    np.testing.assert_allclose(predicted(part, statistics), predicted(own, of_own), rtol=1e-9, atol=1e-9)


@CASES
def test_densities_are_sums_over_columns(case):
    family = bound(case, is_drawn=True)
    statistics = counted(family)
    for i in range(8):
        statistics = family.redraw_hyperparameters(LABELS, statistics, subkey(KEY, i), ONE)
    given = family.given(statistics)
    of_columns = given.log_marginals_of_columns(statistics)
    assert of_columns.sum() == pytest.approx(given.log_marginal(statistics), rel=1e-10)
    assert of_columns.shape == (D,)
    densities, log_priors = np.zeros((2, family.n_rows, K)), []
    for j in range(D):
        part = family.of_columns(np.array([j]))
        drawn = {"hyperparameters": statistics.hyperparameters[[j]], "values": statistics.values[:, [j]]}
        own = counted(part, **drawn)
        assert part.given(own).log_marginal(own) == pytest.approx(of_columns[j], rel=1e-10)
        densities[0] += predicted(part, own)[0]
        log_priors.append(part.log_hyperprior(own))
    np.testing.assert_allclose(densities[0], predicted(family, statistics)[0], rtol=1e-9)
    assert family.log_hyperprior(statistics) == pytest.approx(sum(log_priors))


def numbers(vectors):
    """Functions of the hyperparameters of each column."""
    return np.stack([*np.log(vectors[:, :4]).T, *np.log(vectors[:, :4]).T ** 2, *vectors[:, 4:].T])


def chain_of(family, n_draws, start):
    """Means over batches of `numbers` of a chain with fixed labels, (20, ...)."""
    statistics, found = counted(family), []
    for i in range(n_draws):
        statistics = family.redraw_hyperparameters(LABELS, statistics, subkey(KEY, start + i), ONE)
        vectors = statistics.hyperparameters
        found.append(numbers(vectors if vectors.ndim == 2 else vectors[np.newaxis]))
    return np.reshape(found[n_draws // 11 :], (20, -1, *found[0].shape)).mean(axis=1)


@pytest.mark.parametrize("case", ["missing", "bent"])
def test_hyperparameters_of_a_column_have_the_distribution_of_a_family_of_one_column(case, monkeypatch):
    monkeypatch.setattr(learned, "_SHARE_OF_POWERS", 0.5)
    together = chain_of(bound(case, is_drawn=True), 3300, 0)
    for j in (0, 1):
        alone = chain_of(bound(case, [j], is_drawn=True, is_separated=False), 3300, 10_000)[..., 0]
        found, expected = together[:, : alone.shape[1], j], alone.mean(axis=0)
        moved = alone.std(axis=0) > 0.0
        both = summarize(found[:, moved] - alone[:, moved])
        assert_agrees(both, np.zeros(moved.sum()))
        assert expected.shape == (found.shape[1],)


def test_rows_and_hyperparameters_have_their_joint_distribution():
    """Rows given hyperparameters and these given rows, in turn, leave the prior unchanged."""
    labels = np.repeat([0, 1, 2], [5, 3, 1]).astype(np.int32)
    family = Gaussian("diag", np.zeros(2), 0.1, [1.0, 0.8], 6.0).prior_family(2, 3, 0).separated()
    family = family.with_hyperprior(FREE[:3], family)
    of_prior = [numbers(family.with_drawn_hyperparameters(subkey(root_key(1), i)).hyperparameters) for i in range(3000)]
    means = []
    for chain in range(60):
        key, of_chain = subkey(KEY, chain), []
        current = family.with_drawn_hyperparameters(key)
        for step in range(10):
            own = subkey(key, step)
            parameters = current.draw(tuple(map(np.zeros, current.shapes())), subkey(own, 1))
            rows = Gaussian().read(Gaussian(), current.sample(parameters, labels, subkey(own, 2)), reset=False)
            clusters = current.clusters(rows)
            statistics = clusters.no_statistics(3)
            clusters.count(labels, statistics, ONE)
            statistics = clusters.redraw_hyperparameters(labels, statistics, subkey(own, 3), ONE)
            current = family.given(statistics)
            of_chain.append(numbers(current.hyperparameters))
        means.append(np.mean(of_chain, axis=0))
    assert_agrees(summarize(means), np.mean(of_prior, axis=0))


@CASES
def test_each_column_learns_its_prior(case):
    family = bound(case)
    statistics = counted(family)
    learned_prior = family.with_learned_prior(statistics, FREE).prior
    assert learned_prior.degrees.shape == learned_prior.mean_precision.shape == (D,)
    if case in ("exact", "missing"):
        for j in range(D):
            own = bound(case, [j], is_separated=False)
            alone = own.with_learned_prior(counted(own), FREE).prior
            for whole, one in zip(learned_prior, alone, strict=True):
                np.testing.assert_allclose(whole[j], np.ravel(one)[0], rtol=1e-5)


@CASES
def test_chains_of_separated_families(case):
    family = bound(case, is_drawn=True)
    for part in (family, family.of_columns(np.array([2])), family.of_columns(np.arange(0))):
        model = DPModel(part, None, (1.0, 1.0), 5, None, ONE)
        state = Slice(3).init(model, KEY)
        for _ in range(20):
            state = Slice(3).step(model, state)
        assert np.isfinite(model.log_joint(state.statistics, 1.0))
        found = part.hyperparameters_of(state.statistics)
        assert {len(each) for each in found.values()} == {part.n_features}
        of_columns = part.given(state.statistics).log_marginals_of_columns(state.statistics)
        assert of_columns.shape == (part.n_features,)


@pytest.mark.parametrize("is_separated", [False, True])
@pytest.mark.parametrize("is_drawn", [False, True])
def test_no_columns_have_densities_of_zero(is_separated, is_drawn):
    family = bound("bent and rounded", is_drawn=is_drawn, is_separated=is_separated).of_columns(np.arange(0))
    statistics = counted(family)
    assert family.log_marginal(statistics) == 0.0
    assert not predicted(family, statistics).any()
    assert not family.spread_labels(3, KEY).any()
    again, _ = family.with_learned_transform(LABELS, statistics, FREE, ONE)
    again = again.with_learned_prior(statistics, FREE)
    for i in range(8):
        statistics = family.redraw_hyperparameters(LABELS, statistics, subkey(KEY, i), ONE)
    assert np.isfinite(family.log_hyperprior(statistics))
    assert again.with_drawn_hyperparameters(KEY).separated().n_features == 0
    assert again.with_prior_of(family).n_features == 0
    assert family.cell_attributes(statistics)["components_"].shape == (len(statistics.sizes), 0)
    assert family.arrays_of(family.draw_components(statistics, np.arange(2), KEY, ONE))["covariances"].shape == (2, 0)


def test_transforms_are_learned_from_each_column():
    X = np.exp(np.random.default_rng(1).normal(size=(200, 3)))
    labels = np.zeros(200, np.int32)
    family = bound("exact", X=X)
    other, again = family.with_learned_transform(labels, counted(family, labels), FREE, ONE)
    assert (other.transform.powers < 1.0).all()
    assert other.is_separated
    part = other.of_columns(np.array([1]))
    assert part.log_marginal(counted(part, labels)) == pytest.approx(other.log_marginals_of_columns(again)[1])


def test_only_families_of_variances_can_be_separated():
    X = rows_of("exact")
    for kind in ("full", "tied", "diag", "spherical"):
        emission = Gaussian(kind)
        rows = emission.read(DPMixture(), X, reset=True)
        assert offers(emission.bind(rows, 2), SeparatesColumns) == (kind == "diag")
        assert offers(emission.bind(rows, 2).clusters(rows), SeparatesColumns) == (kind == "diag")


def test_saved_priors_of_columns_are_checked():
    family = Gaussian("diag", np.zeros(2), 0.1, [1.0, 0.8], 6.0).prior_family(2, 3, 0).separated()
    sizes = {"n_dimensions": 2}
    check(type(family), family, "family", dict(sizes))
    wrong = [
        {"degrees": 6.0},
        {"mean_precision": np.array([0.1, -0.1])},
        {"degrees": np.array([6.0, 5.0, 4.0])},
        {"degrees": np.array([6.0, np.nan])},
        {"covariance": np.ones(1)},
    ]
    prior = family.prior
    for change in wrong:
        family.prior = prior._replace(**change)
        with pytest.raises(Unsatisfied):
            check(type(family), family, "family", dict(sizes))


def test_saved_families_have_the_numbers_of_their_columns(tmp_path):
    X = rows_of("missing", 60)
    mixture = DPMixture(Gaussian("diag"), hyperparameters="learn", max_iter=10, random_state=0).fit(X)
    before, family = mixture.score_samples(X), mixture._family.separated()
    degrees = family.prior.degrees * np.array([1.0, 2.0, 3.0])
    family.prior, mixture._family = family.prior._replace(degrees=degrees), family
    scores = mixture.score_samples(X)
    assert np.abs(scores - before).max() > 0.01
    mixture.save(tmp_path / "mixture")
    np.testing.assert_array_equal(skmanifold.load(tmp_path / "mixture").score_samples(X), scores)


@pytest.mark.parametrize("is_separated", [False, True])
def test_sums_stay_in_the_same_units_when_powers_are_drawn(is_separated, monkeypatch):
    monkeypatch.setattr(learned, "_SHARE_OF_POWERS", 0.5)
    family = bound("bent", is_separated=is_separated)
    prior = family.prior._replace(covariance=300.0 * family.prior.covariance)
    family = family.with_prior(prior).with_hyperprior(FREE, family)
    statistics = counted(family)
    for i in range(6):
        statistics = family.redraw_hyperparameters(LABELS, statistics, subkey(KEY, i), ONE)
        again = counted(family, hyperparameters=statistics.hyperparameters)
        np.testing.assert_allclose(statistics.sums, again.sums, rtol=1e-9, atol=1e-9)
