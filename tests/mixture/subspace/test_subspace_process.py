"""An inferred number of subspaces: proposals of subspaces, split-merge moves, the joint law, and fits."""

import inspect
from functools import cache
from itertools import combinations
from textwrap import dedent

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.special import gammaln, logsumexp
from scipy.stats import gamma
from sklearn.metrics import adjusted_rand_score

from skmanifold import SubspaceClassifier, SubspaceMixture, load
from skmanifold.datasets import make_subspaces
from skmanifold.emissions._dense_rows import IncompleteRows
from skmanifold.mixture._memberships import DirichletWeights
from skmanifold.mixture._subspace import split_merge
from skmanifold.mixture._subspace.family import SubspaceFamily
from skmanifold.mixture._subspace.model import IncompleteSubspaceModel, SubspaceModel
from skmanifold.mixture._subspace.process import SubspaceProcess, _clusters
from skmanifold.mixture._subspace.proposal_kernels import log_weight, propose_subspace
from skmanifold.mixture._subspace.split_merge import SplitMerge
from skmanifold.mixture._subspace.tilt_kernels import spectrum
from skmanifold.models import IncompatibleError
from skmanifold.random._discrete_variates import draw_partition
from skmanifold.random._keys import root_key, subkey
from skmanifold.random._variates import exponential
from skmanifold.samplers import FrameGibbs, Slice
from skmanifold.samplers._states import LatentState
from skmanifold.utils._threads import Workers

from ._subspace_references import altered, compiled, exact_of_subspace, of_subspace, walk
from .test_subspace_frames import OF_ROWS, P_DIMENSION, ROWS
from .test_subspace_laws import draw_rows

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys


# --- proposals of one subspace ---------------------------------------------------------------------------


def proposed_subspaces(m, kernel=log_weight):
    """Metropolis-Hastings with independent proposals."""
    n, noise, shape = OF_ROWS.values()
    prior = P_DIMENSION[m], shape, 1e-12, 3.0, 2.0, True
    summary = np.zeros(m), ROWS[m], spectrum(ROWS[m], np.empty((0, m)))

    def transition(basis, ratios, key):
        basis, ratios = basis[::-1].copy(), ratios[::-1].copy()  # the order has no meaning
        new_basis, new_ratios, _ = propose_subspace(summary, n, noise, prior, subkey(key, 0))
        new = kernel(summary, n, new_basis, new_ratios, noise, prior, True, subkey(key, 1))
        old = kernel(summary, n, basis, ratios, noise, prior, False, subkey(key, 2))
        return (new_basis, new_ratios) if -exponential(key, 3) < new - old else (basis, ratios)

    return transition


def proposal_estimate(m, kernel=log_weight, **options):
    return walk(proposed_subspaces(m, kernel), m, lambda *at: of_subspace(*at, m), **options)


@compiled
@pytest.mark.parametrize("m", [2, 3])
def test_weights_of_proposals_are_exact(m):
    exact = exact_of_subspace(ROWS[m], *list(OF_ROWS.values())[:2], P_DIMENSION[m], OF_ROWS["shape"])
    assert_agrees(proposal_estimate(m), exact)


@pytest.mark.extended
@compiled
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("math.lgamma(d + 1.0)", "0.0"),  # orders
        ("- logs[d]", "- 0.0 * logs[d]"),
        ("level -= log_span(basis, *with_axes(*near, np.empty((0, m)), d), n, noise, m)", "pass"),
        ("level += rate * ratios[j] + log_unit_gamma", "level += rate * ratios[j] - 0.5 * log_unit_gamma"),
    ],
)
def test_weights_without_a_part_are_seen(right, wrong):
    exact = exact_of_subspace(ROWS[3], *list(OF_ROWS.values())[:2], P_DIMENSION[3], OF_ROWS["shape"])
    assert_disagrees(proposal_estimate(3, altered(log_weight, right, wrong), n_steps=1000), exact)


# --- partitions of a few rows ----------------------------------------------------------------------------

POINTS = np.array([[-1.0, 0.0], [0.0, 0.1], [1.2, 0.0], [0.2, 1.0], [0.1, -0.9]])
CONCENTRATION = 1.3


def priors_of_points(shared_noise):
    return SubspaceFamily(np.log([[0.5, 0.5]]), np.zeros(2), 1.0, 3.0, 0.3, 0.5, shared_noise)


def log_marginals(X, priors, noise):
    """Log densities of rows with one subspace, for each precision of the noise, by quadrature over angle and ratio."""
    (n, m), a, spread, g = X.shape, priors.ratio_shape, priors.centre_variance, noise
    mean, angles = X.mean(axis=0), np.pi * np.arange(100) / 100
    S, U = (X - mean).T @ (X - mean), np.stack([np.cos(angles), np.sin(angles)], axis=1)
    length, common = mean @ mean, 0.5 * n * m * np.log(g / (2.0 * np.pi))

    def of_direction(precision, scatter, square):  # of precision g r, with the centre integrated out
        prior = 1.0 + n * precision * spread
        return -0.5 * (precision * scatter + np.log(prior) + n * precision * square / prior)

    point = of_direction(g, np.trace(S), length) - 0.5 * np.log1p(n * g * spread)
    ratios = ((np.arange(200) + 0.5) / 200) ** (1.0 / a)
    along, at = np.einsum("ta,ab,tb->t", U, S, U)[:, None], (U @ mean)[:, None] ** 2
    lines = [
        0.5 * n * np.log(ratios) + of_direction(each * ratios, along, at)
        + of_direction(each, np.trace(S) - along, length - at)
        for each in g
    ]  # fmt: skip
    line = logsumexp(np.reshape(lines, (len(g), -1)), axis=1) - np.log(len(angles) * len(ratios))
    return common + logsumexp(priors.log_dimension.T + np.array([point, line]), axis=0)


@cache
def exact_partitions(n, shared_noise):
    """All partitions of the first points, as labels in the order of first rows, and their posterior probabilities."""
    priors, found = priors_of_points(shared_noise), [[0]]
    for _ in range(n - 1):
        found = [[*labels, k] for labels in found for k in range(max(labels) + 2)]
    # Equally probable precisions
    noise = gamma(priors.noise_shape, scale=1.0 / priors.noise_rate).ppf((np.arange(60) + 0.5) / 60)
    of_rows, logs = cache(lambda rows: log_marginals(POINTS[list(rows)], priors, noise)), []
    for labels in found:
        blocks = [tuple(np.flatnonzero(np.array(labels) == k)) for k in range(max(labels) + 1)]
        log_prior = len(blocks) * np.log(CONCENTRATION) + sum(gammaln(len(block)) for block in blocks)
        densities = np.array([of_rows(block) for block in blocks])
        densities = (
            densities.sum(axis=0) if shared_noise else logsumexp(densities, axis=1).sum() - len(blocks) * np.log(60)
        )
        logs.append(log_prior + logsumexp(densities))
    return [tuple(labels) for labels in found], np.exp(logs - logsumexp(logs))


def partition_estimate(n, shared_noise, n_moves, n_scans_of_rows=0, n_chains=24, n_steps=150):
    """Shares of the partitions in chains of split-merge moves, or of the whole sampler, and what they should be."""
    found, exact = exact_partitions(n, shared_noise)
    place, shares, X = {labels: i for i, labels in enumerate(found)}, [], POINTS[:n]
    # Rare partitions together, and pairs in one cluster
    counted = np.array([[labels[i] == labels[j] for labels in found] for i, j in combinations(range(n), 2)])
    counted = np.vstack([np.eye(len(found))[exact > 0.02], exact <= 0.02, counted])
    model = SubspaceModel(X, priors_of_points(shared_noise), DirichletWeights(1.0), [], Workers(1))
    for chain in range(n_chains):
        start = np.arange(n, dtype=np.int32) % (1 + chain % n)
        process = SubspaceProcess(model, CONCENTRATION, (1.0, 1.0), start, None, Workers(1))
        sampler, key = Slice(n_split_merge=n_moves), subkey(root_key(3), chain)
        state, of_chain = sampler.init(process, key), np.zeros(len(found))
        for step in range(n_steps):
            if n_scans_of_rows:
                state = sampler.step(process, state)
            else:
                labels, moves = state.latents, (n_moves, 0, subkey(key, step))
                clusters = process.split_merge(labels, state.statistics, CONCENTRATION, *moves)
                clusters = process.redraw_hyperparameters(labels, clusters, subkey(key, step, 1))
                state = state._replace(statistics=clusters)
            names = {}
            if step >= 10:
                of_chain[place[tuple(names.setdefault(k, len(names)) for k in state.latents.tolist())]] += 1
        shares.append(counted @ of_chain / of_chain.sum())
    return summarize(shares), counted @ exact


@compiled
def test_partitions_of_four_points():
    assert_agrees(*partition_estimate(4, True, 1, n_scans_of_rows=1, n_chains=12, n_steps=80))


@pytest.mark.extended
@compiled
@pytest.mark.parametrize("shared_noise", [True, False])
def test_split_merge_moves_alone_have_the_law_of_all_partitions(shared_noise):
    assert_agrees(*partition_estimate(5, shared_noise, 3, n_steps=500))


@pytest.mark.extended
@compiled
@pytest.mark.parametrize("n_moves", [0, 2])
def test_steps_have_the_law_of_all_partitions(n_moves):
    assert_agrees(*partition_estimate(5, True, n_moves, n_scans_of_rows=1, n_steps=600))


@pytest.mark.extended
@compiled
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("- log_proposal - gammaln", "- gammaln"),
        ("math.log((n_apart - 1) * len(rows) / (n_apart * first_size))", "0.0"),
        ("log_split += gammaln(len(own)) + log_weight_of", "log_split += log_weight_of"),
    ],
)
def test_moves_without_a_part_of_their_odds_are_seen(right, wrong, monkeypatch):
    source, scope = dedent(inspect.getsource(SplitMerge.move)), dict(vars(split_merge))
    assert right in source
    exec(source.replace(right, wrong), scope)
    monkeypatch.setattr(SplitMerge, "move", scope["move"])
    assert_disagrees(*partition_estimate(5, True, 3, n_steps=400))


# --- the joint law ---------------------------------------------------------------------------------------


def numbers_of(labels, clusters, concentration):
    """Of the partition, the subspaces of all rows, and the noise."""
    found = np.flatnonzero(clusters.sizes)
    dims = clusters.subspaces.dims[np.searchsorted(found, labels)]
    log_noise = np.log(clusters.subspaces.noise[0])
    return np.array([len(found), labels[0] == labels[1], *(dims == [[0], [1]]).mean(axis=1), log_noise, log_noise**2,
                     np.log(concentration), clusters.sizes.max(), len(found) * log_noise, np.sum(dims) * log_noise,
                     *clusters.subspaces.centres[np.searchsorted(found, labels)].mean(axis=0),
                     clusters.log_likelihood()])  # fmt: skip


def process_draw(family, rng, n, prior):
    """Concentration, labels and clusters from the prior, and rows."""
    concentration = rng.gamma(prior[0], 1.0 / prior[1])
    labels = draw_partition(rng, n, concentration).astype(np.int32)
    subspaces = family.with_components(labels.max() + 1).draw((), np.uint64(rng.integers(2**63)))
    return (
        concentration,
        labels,
        _clusters(labels, np.arange(labels.max() + 1), subspaces, draw_rows(subspaces, labels, rng)),
    )


def joint_estimate(family, share_missing, sampler, n_chains=50, n_steps=12, n=8):
    """Means along chains that begin at draws from the joint law, rows drawn anew after each step; and prior means."""
    prior, rows, root = (2.0, 2.0), [], root_key(0)
    for chain in range(n_chains):
        rng = np.random.default_rng(chain)
        concentration, labels, clusters = process_draw(family, rng, n, prior)
        state, total = LatentState(concentration, subkey(root, chain), 0, -np.inf, clusters, labels), 0.0
        holes = rng.random((n, family.n_features)) < share_missing
        for _ in range(n_steps):
            X = state.statistics.rows
            model = SubspaceModel(X, family, DirichletWeights(1.0), [], Workers(1))
            if share_missing:
                model = IncompleteSubspaceModel(IncompleteRows.of_values(np.where(holes, np.nan, X)), model)
            state = sampler.step(SubspaceProcess(model, None, prior, 1, None, Workers(1)), state)
            total = total + numbers_of(state.latents, state.statistics, state.position)
            found = np.flatnonzero(state.statistics.sizes)
            X = draw_rows(state.statistics.subspaces, np.searchsorted(found, state.latents), rng)
            state = state._replace(statistics=state.statistics._replace(rows=X))
        rows.append(total / n_steps)
    rng = np.random.default_rng(10**6)
    exact = [numbers_of(labels, clusters, c) for c, labels, clusters in
             (process_draw(family, rng, n, prior) for _ in range(4000))]  # fmt: skip
    found, expected = summarize(rows), summarize(exact)
    return found._replace(error=np.hypot(found.error, expected.error)), expected.mean


FAMILY = SubspaceFamily(np.log([[0.3, 0.4, 0.3]]), np.zeros(3), 0.5, 3.0, 2.0, 0.5, True)


@pytest.mark.extended
@compiled
@pytest.mark.parametrize(("shared_noise", "share_missing"), [(True, 0.0), (False, 0.0), (True, 0.4)])
def test_steps_leave_the_joint_law_alone(shared_noise, share_missing):
    family = FAMILY._replace(shared_noise=shared_noise)
    assert_agrees(*joint_estimate(family, share_missing, Slice(n_split_merge=2)))


@pytest.mark.extended
@compiled
def test_steps_that_keep_components_without_rows_are_seen(monkeypatch):
    """Subspaces of new components that are always the first one's, not drawn from the prior."""

    def first_again(process, statistics, components, key):
        known = np.flatnonzero(statistics.sizes)
        return statistics.subspaces.in_order(
            np.array([np.searchsorted(known, k) if k in known else 0 for k in components])
        )

    monkeypatch.setattr(SubspaceProcess, "draw_components", first_again)
    assert_disagrees(*joint_estimate(FAMILY, 0.0, Slice(n_split_merge=2), n_chains=300, n_steps=25))


# --- fits ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planted():
    return make_subspaces(250, 4, dimensions=(1, 2, 3), noise_precision=100, random_state=1)


@pytest.mark.parametrize("start", ["auto", "one", "many"])
def test_number_of_subspaces_from_several_starts(planted, start):
    n = len(planted.data)
    init = {"auto": "auto", "one": np.zeros(n), "many": np.arange(n) % 7}[start]
    fitted = SubspaceMixture(None, init=init, max_iter=150, random_state=1).fit(planted.data)
    assert fitted.n_components_ == 3 == fitted.n_components_posterior_.argmax()
    assert sorted(fitted.dimensions_) == [1, 2, 3]
    assert adjusted_rand_score(planted.labels, fitted.labels_) > 0.95


def test_fits_with_holes_are_the_same_for_all_numbers_of_threads_and_after_loading(planted, tmp_path):
    X = np.where(np.random.default_rng(0).random(planted.data.shape) < 0.1, np.nan, planted.data)
    settings = {"max_iter": 16, "n_chains": 2, "noise": "per_cluster", "n_stored_rows": 9, "random_state": 0}
    fitted = SubspaceMixture(None, **settings).fit(X)
    again = SubspaceMixture(None, **settings, n_jobs=2).fit(X)
    fitted.save(tmp_path / "fitted.npz")
    loaded = load(tmp_path / "fitted.npz")
    for name, draws in fitted.posterior_.items():
        np.testing.assert_array_equal(draws, again.posterior_[name])
        np.testing.assert_array_equal(draws, loaded.posterior_[name])
    np.testing.assert_array_equal(fitted.score_samples(X), loaded.score_samples(X))
    assert np.isfinite(fitted.impute(X)).all()
    tree = fitted.to_arviz()
    assert {"n_components", "concentration", "leverages", "labels"} <= set(tree.posterior.data_vars)


def test_draws_with_other_numbers_of_subspaces(planted):
    X = planted.data[:60]
    fitted = SubspaceMixture(None, max_iter=60, burn_in=0, thin=1, init=np.arange(60) % 6, random_state=0).fit(X)
    numbers, K = fitted.posterior_["n_components"][0], fitted.n_components_
    assert len(np.unique(numbers)) > 1
    assert np.bincount(numbers)[K] == np.bincount(numbers).max()
    np.testing.assert_array_equal(np.isfinite(fitted.posterior_["weights"][0]).sum(axis=1), numbers)
    np.testing.assert_allclose(fitted.posterior_["weights"][0, numbers == K, :K].mean(axis=0), fitted.weights_)
    np.testing.assert_allclose(np.nansum(fitted.posterior_["weights"], axis=2), 1.0)


def test_draws_from_the_prior():
    prior = {"noise_prior": (3.0, 0.3), "centre_prior_mean": np.zeros(3), "centre_prior_variance": 1.0}
    X, drawn = SubspaceMixture(None, **prior).sample_prior(40, 3, return_parameters=True, random_state=0)
    K = int(drawn["n_components"])
    assert K > 1
    assert X.shape == (40, 3)
    assert drawn["labels"].max() + 1 == K == len(drawn["means"])
    assert np.isfinite(drawn["log_joint"])


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"n_components": None, "sampler": FrameGibbs()}, IncompatibleError, "FrameGibbs needs a SubspaceMixtureModel"),
        ({"n_components": 2, "sampler": "slice"}, IncompatibleError, "samplers that would work: FrameGibbs"),
        ({"n_components": None, "dimensions": [1, 2]}, ValueError, "dimensions must be one whole number"),
        ({"n_components": None, "concentration_prior": (0, 1)}, ValueError, "two positive numbers"),
    ],
)
def test_settings_that_do_not_go_together(planted, settings, error, text):
    with pytest.raises(error, match=text):
        SubspaceMixture(**settings).fit(planted.data)


def test_classes_may_have_any_number_of_subspaces():
    data = make_subspaces(90, 3, (1, 1, 2), noise_precision=100.0, random_state=0)
    y = (data.labels == 2).astype(int)
    model = SubspaceClassifier(SubspaceMixture(None, max_iter=30), shrinkage=None, random_state=0).fit(data.data, y)
    assert [mixture.n_components_ for mixture in model.mixtures_] == [2, 1]
    assert model.score(data.data, y) > 0.9


@pytest.mark.parametrize("sampler", ["gibbs", "slice", Slice(n_split_merge=5)])
def test_rows_with_missing_cells_by_each_name_of_the_sampler(sampler):
    X = np.where(np.random.default_rng(0).random((30, 3)) < 0.2, np.nan, np.random.default_rng(1).normal(size=(30, 3)))
    fits = [SubspaceMixture(None, sampler=of, max_iter=6, random_state=0).fit(X) for of in ("gibbs", sampler)]
    assert fits[0].score(X) == fits[1].score(X)
