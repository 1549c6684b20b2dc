"""Fits of SubspaceMixture: what is found, what each parameter does, corners of the data, the same bytes."""

import numpy as np
import pytest
from samplers._evidence import Estimate, assert_agrees, assert_disagrees
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from skmanifold import SubspaceMixture
from skmanifold.datasets import make_subspaces
from skmanifold.emissions._dense_rows import DenseRows
from skmanifold.metrics import match_subspaces, pairwise_subspace_distances
from skmanifold.mixture._scores import FamilyRows
from skmanifold.mixture._subspace.fit_strategy import SubspacesFit
from skmanifold.mixture._subspace.model import SubspaceModel
from skmanifold.samplers import ESCA, ConwayWalk, FrameGibbs
from skmanifold.utils._threads import Workers

from .._refusals import refuse
from ._subspaces import (
    SHORT,
    each_sampler,
    in_one_order,
    is_sound,
    learned,
    make,
    planted,
    recovered,
    small_fit,
    small_rows,
)

# What is found


@pytest.mark.extended
def test_planted_subspaces_are_recovered_within_their_posterior():
    truth, mixture = planted(), recovered()
    match = match_subspaces(truth.bases, mixture.bases_)
    np.testing.assert_array_equal(mixture.dimensions_[match.other], [1, 2, 4])
    of_draws = [mixture.posterior_[name][mixture.best_chain_] for name in ("dimensions", "bases")]
    for k, distance in zip(match.other, match.distance, strict=True):
        d = mixture.dimensions_[k]
        draws = [basis[k, :d] for dims, basis in zip(*of_draws, strict=True) if dims[k] == d]
        spread = np.sqrt(np.mean(pairwise_subspace_distances([mixture.bases_[k]], draws) ** 2))
        assert 0.2 * spread < distance < 3.0 * spread < 0.2  # a chi variate of at least 5 degrees of freedom
    of_truth = adjusted_rand_score(truth.labels, truth.log_densities(truth.data).argmax(axis=1))
    assert adjusted_rand_score(truth.labels, mixture.labels_) > of_truth - 0.02
    np.testing.assert_allclose(mixture.weights_[match.other], np.bincount(truth.labels) / 400, atol=0.02)
    for name, true in (("noise_variance", truth.noise_variance), ("means", truth.centres)):
        draws = mixture.posterior_[name][mixture.best_chain_][:, match.other]
        estimate = Estimate(draws.mean(axis=0), draws.std(axis=0))
        assert_agrees(estimate, true)
        assert_disagrees(estimate, 1.5 * np.asarray(true))


def test_the_walk_finds_subspaces_whose_dimensions_are_given():
    truth = planted((1, 2), 3)
    mixture = SubspaceMixture(2, sampler="conway", dimensions=[2, 1], max_iter=60, random_state=0).fit(truth.data)
    match = match_subspaces(truth.bases, mixture.bases_)
    assert np.all(match.distance < 0.1)
    assert adjusted_rand_score(truth.labels, mixture.labels_) > 0.95


def first_fit(wanted, first_seed=0, **params):
    """Of fits with one seed after the other, the first that is wanted."""
    fits = (make(random_state=seed, thin=1, **params).fit(planted().data) for seed in range(first_seed, 20))
    return next(filter(wanted, fits))


@pytest.mark.long
def test_all_chains_have_one_order_of_components_and_the_best_is_told(monkeypatch):
    assert in_one_order(recovered())
    mixture = first_fit(lambda fit: fit.best_chain_ == 1, n_chains=2)
    assert in_one_order(mixture)
    assert np.all(np.diff(mixture.weights_) < 0)
    best = mixture.log_density_trace_[:, 4:].mean(axis=1).argmax()
    assert best == 1
    for name in ("means", "weights", "noise_variance"):
        expected = mixture.posterior_[name][best].mean(axis=0)
        np.testing.assert_allclose(getattr(mixture, f"{name}_"), expected, rtol=1e-12)

    def as_they_come(strategy, of_chains, best):
        return np.tile(np.arange(3), (2, len(of_chains[best]), 1))

    monkeypatch.setattr(SubspacesFit, "match_draws", as_they_come)
    shuffled = np.concatenate([planted().data[::-1], planted().data])
    assert not all(in_one_order(make(n_chains=2, random_state=seed).fit(shuffled)) for seed in range(5))


def test_bases_are_the_top_eigenvectors_of_the_mean_projection():
    mixture = first_fit(lambda fit: np.any(fit.posterior_["dimensions"][0, -1] != fit.dimensions_), 4, max_iter=30)
    dims, bases = (mixture.posterior_[name][0] for name in ("dimensions", "bases"))
    for k, basis in enumerate(mixture.bases_):
        np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-12)
        projection = np.mean([draw[k, :d].T @ draw[k, :d] for draw, d in zip(bases, dims[:, k], strict=True)], axis=0)
        values, vectors = np.linalg.eigh(projection)
        top = vectors[:, ::-1][:, : len(basis)]
        np.testing.assert_allclose(np.abs(np.sum(basis * top.T, axis=1)), 1.0, atol=1e-8)
        np.testing.assert_allclose(np.trace(basis @ projection @ basis.T), values[::-1][: len(basis)].sum())
        frequencies = np.bincount(dims[:, k], minlength=6) / len(dims)
        np.testing.assert_array_equal(mixture.dimension_posterior_[k], frequencies)
        assert mixture.dimensions_[k] == frequencies.argmax()


# Parameters


def test_dimensions_are_as_given():
    for given in (2, [1, 0, 2]):
        drawn = make(dimensions=given).fit(small_rows()).posterior_["dimensions"]
        np.testing.assert_array_equal(np.sort(drawn), np.broadcast_to(np.sort(np.broadcast_to(given, 3)), drawn.shape))


@pytest.mark.extended
@each_sampler
def test_dimensions_keep_to_their_prior(sampler):
    rows = planted().data[:90]
    assert make(sampler, max_dimension=1).fit(rows).posterior_["dimensions"].max() == 1
    mixture = make(sampler, max_dimension=3, dimension_prior=[0, 1, 1, 0]).fit(rows)
    assert set(np.unique(mixture.posterior_["dimensions"])) <= {1, 2}
    assert mixture.dimension_posterior_.shape == (3, 4)
    for strong, d in ((1e4, 0), (-1e4, 5)):
        assert np.all(make(sampler, dimension_prior=strong, n_components=1).fit(rows).dimensions_ == d)


PRIORS = {
    "noise_prior": ((1e9, 4e9), lambda fit: fit.noise_variance_, 4.0),
    "centre_prior_variance": (1e-12, lambda fit: fit.means_, small_rows().mean(axis=0)),
    "weight_prior": (1e9, lambda fit: fit.weights_, 1 / 3),
    "ratio_prior": (1e9, lambda fit: np.nanmax(fit.posterior_["variances"][0, -1]) / fit.noise_variance_, 1.0),
}


@pytest.mark.extended
@pytest.mark.parametrize("name", PRIORS)
def test_a_prior_without_doubt_decides(name):
    value, told, expected = PRIORS[name]
    certain = make(**{name: value}, thin=6, dimensions=1).fit(small_rows())
    np.testing.assert_allclose(told(certain), np.broadcast_to(expected, told(certain).shape), rtol=1e-3, atol=1e-4)
    default = told(make(thin=6, dimensions=1).fit(small_rows()))
    assert not np.allclose(default, expected, rtol=0.1, atol=0.05)


def test_chains_begin_where_they_are_told():
    truth = planted()
    labels = {"true": truth.labels, "mixed": np.arange(400) % 3}
    first = {name: make(init=init).fit(truth.data).log_density_trace_[0, 0] for name, init in labels.items()}
    assert first["true"] > first["mixed"] + 100
    np.testing.assert_array_equal(
        make(init=truth.labels.tolist()).fit(truth.data).log_density_trace_[0, 0], first["true"]
    )
    fits = [make(init=init, n_init=n).fit(truth.data) for init in ("spectral", "k-flats", "k-means") for n in (1, 2)]
    fits += [make(n_init=n).fit(truth.data) for n in (1, 3)]
    assert len({fit.log_density_trace_.tobytes() for fit in fits}) > 5


def test_few_bytes_keep_fewer_draws_evenly_spaced_and_at_least_the_last():
    whole = make(max_iter=14, thin=1, n_chains=2).fit(small_rows()).posterior_
    kept = []
    for max_draws_bytes in (2**20, 5000, 2500, 0):
        mixture = make(max_iter=14, thin=1, n_chains=2, max_draws_bytes=max_draws_bytes).fit(small_rows())
        n = mixture.posterior_["weights"].shape[1]
        stride = -(-10 // n)
        np.testing.assert_array_equal(mixture.posterior_["log_likelihood"], whole["log_likelihood"])
        np.testing.assert_array_equal(
            np.sort(mixture.posterior_["weights"]), np.sort(whole["weights"])[:, 9::-stride][:, ::-1]
        )
        is_sound(mixture, small_rows())
        kept.append(n)
    assert kept[0] == 10 > kept[1] > kept[2] > kept[3] == 1


@pytest.mark.parametrize("sampler", ["gibbs", "conway"])
def test_log_likelihoods_are_those_of_the_draws(sampler):
    mixture = small_fit(sampler)
    rows = FamilyRows(mixture._family, DenseRows(small_rows()))
    of_draws = [np.logaddexp.reduce(draw.log_terms(rows, Workers(1)), axis=1).sum() for draw in mixture._draws]
    found = mixture.posterior_["log_likelihood"][mixture.best_chain_][mixture._whole_draws]
    np.testing.assert_allclose(found, of_draws, rtol=1e-9)


@pytest.fixture
def _no_work_begins(monkeypatch):
    for owner, name in (
        (SubspaceModel, "fit_subspaces"),
        (FrameGibbs, "step"),
        (ConwayWalk, "step"),
    ):
        monkeypatch.setattr(owner, name, lambda *args, **kwargs: pytest.fail("work began"))
    monkeypatch.setattr("skmanifold.mixture._subspace.starts._label_some_rows", lambda *args: pytest.fail("work began"))


@pytest.mark.usefixtures("_no_work_begins")
@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"dimensions": [1, 2]},
            r"dimensions must be a whole number or one for each of the 3 components; got \[1, 2\]",
        ),
        ({"dimensions": [[1], [2, 3]]}, "dimensions must be a whole number or one"),
        ({"dimensions": [0.5, 1, 1]}, "dimensions must be a whole number or one"),
        ({"dimensions": ["a", "b", "c"]}, "dimensions must be a whole number or one"),
        ({"dimensions": 3}, "dimensions must be from 0 to 2, less than the number of features; got 3"),
        ({"dimensions": [0, 1, 3]}, "dimensions must be from 0 to 2"),
        ({"dimensions": [0, 1, -1]}, "dimensions must be from 0 to 2"),
        ({"dimensions": [0, 1, np.inf]}, "dimensions must be"),
        (
            {"dimensions": 2, "max_dimension": 1},
            "dimensions=2 exceeds max_dimension=1: leave max_dimension",
        ),
        ({"dimensions": [0, 2, 1], "max_dimension": 1}, r"dimensions=\[0, 2, 1\] exceeds max_dimension=1"),
        ({"max_dimension": 3}, "max_dimension=3 must be less than the number of features, 3"),
        (
            {"dimension_prior": [1, 1]},
            r"dimension_prior must be a number, or 3 probabilities of the dimensions 0 to 2",
        ),
        ({"dimension_prior": [1, 1, 1], "max_dimension": 1}, "or 2 probabilities"),
        (
            {"dimension_prior": [1, 0, 1]},
            "dimension_prior must not have zeros between dimensions of positive probability",
        ),
        ({"dimension_prior": [0, 0, 0]}, "dimension_prior must be a number"),
        ({"dimension_prior": [1, -1, 1]}, "dimension_prior must be a number"),
        ({"dimension_prior": [1, np.nan, 1]}, "dimension_prior must be a number"),
        ({"dimension_prior": ["a", "b", "c"]}, "dimension_prior must be a number"),
        ({"noise_prior": [1.0]}, r"noise_prior must be two positive numbers, a shape and a rate; got \[1\.0\]"),
        ({"noise_prior": (1.0, 0.0)}, "noise_prior must be two positive numbers"),
        ({"noise_prior": (1.0, np.inf)}, "noise_prior must be two positive numbers"),
        ({"noise_prior": ("a", "b")}, "noise_prior must be two positive numbers"),
        ({"init": np.zeros(5, int)}, "init must be a name, or 64 whole numbers from 0 to 2, .* got shape .5,."),
        ({"n_components": 65}, "n_components=65 subspaces need as many rows, but X has n_samples=64"),
        ({"burn_in": 10}, "burn_in=10 leaves none of the max_iter=10 passes"),
        ({"sampler": FrameGibbs}, "sampler must be an instance or a name, not the class FrameGibbs"),
        ({"sampler": ESCA()}, "ESCA needs a LatentModel, which SubspaceModel does not offer"),
        ({"sampler": FrameGibbs(n_sweeps=0)}, "The 'n_sweeps' parameter of FrameGibbs must be"),
        ({"sampler": "slice"}, "Slice needs a StickBreakingModel, which SubspaceModel does not offer"),
        ({"sampler": "sgld"}, "The 'sampler' parameter of SubspaceMixture must be"),
    ],
    ids=lambda value: (
        " ".join(f"{name}={given!r}"[:40] for name, given in value.items()) if isinstance(value, dict) else ""
    ),
)
def test_what_does_not_fit_is_refused_in_one_sentence_before_any_work(params, message):
    refuse(message, make(**params), small_rows(), (ValueError, TypeError))


@pytest.mark.usefixtures("_no_work_begins")
@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (1e160, r"X has values beyond 1e\+100, whose squares are too large: scale its columns first"),
        (1e-160, "X varies by numbers whose squares are too small for float64: scale its columns first"),
        (1e-320, "X varies by numbers whose squares are too small for float64: scale its columns first"),
    ],
)
def test_rows_whose_squares_are_not_numbers_are_refused(scale, message):
    with pytest.raises(ValueError, match=message):
        make().fit(scale * small_rows())


# Clusters of lower dimension than X


@pytest.mark.parametrize("noise", ["shared", "per_cluster"])
def test_the_noise_does_not_vanish_where_clusters_have_constant_columns(noise):
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1, 2], 60)
    X = rng.standard_normal((180, 12)) * (np.arange(12) // 4 == z[:, np.newaxis])  # each fills four columns
    mixture = SubspaceMixture(3, noise=noise, max_iter=60, n_init=1, init=z, random_state=0).fit(X)
    assert (mixture.noise_variance_ > 5e-6 * X.var(axis=0).mean()).all()
    assert adjusted_rand_score(z, mixture.labels_) == 1.0
    np.testing.assert_array_equal(mixture.dimensions_, 4)


@pytest.mark.long
def test_digits_are_clustered_with_default_settings():
    X, y = load_digits(return_X_y=True)
    with pytest.warns(UserWarning, match=r"Most directions count as dimensions, on average \d\d\.\d of 64"):
        mixture = SubspaceMixture(10, max_iter=60, random_state=0).fit(X)
    assert adjusted_rand_score(y, mixture.labels_) > 0.65
    assert mixture.noise_variance_.min() > 1e-5 * X.var(axis=0).mean()


def unequal_rows(n_rows=200, n_features=10, factor=0.7):
    """Two clusters of rows whose noise differs between columns, so that most columns count."""
    rows = np.random.default_rng(0).normal(size=(n_rows, n_features)) * factor ** np.arange(n_features)
    rows[::2] += 3.0
    return rows


def test_dimensions_that_are_no_summary_warn_once():
    with pytest.warns(UserWarning, match=r"on average \d\.\d of 10, .*max_dimension=9 keeps this fit") as caught:
        mixture = SubspaceMixture(2, **SHORT).fit(unequal_rows())
    assert [warning.filename for warning in caught] == [__file__]
    assert mixture.dimensions_.min() >= 8
    kept = SubspaceMixture(2, max_dimension=9, **SHORT).fit(unequal_rows())
    assert learned(kept) == learned(mixture)


def test_few_rows_warn_if_each_spans_a_dimension():
    with pytest.warns(UserWarning, match=r"of 11, "):
        SubspaceMixture(2, **SHORT).fit(unequal_rows(24, 40, 0.8))


@pytest.mark.parametrize(
    ("params", "X"),
    [
        ({"max_dimension": 3}, unequal_rows()),
        ({"dimensions": 8}, unequal_rows()),
        ({"n_components": 1}, unequal_rows()),  # nothing is clustered
        ({}, unequal_rows(200, 7)),  # few columns
        ({}, make_subspaces(200, 10, (3, 5), noise_precision=100.0, random_state=0).data),
    ],
    ids=["limit", "given", "one", "few", "subspaces"],
)
def test_other_fits_do_not_warn(params, X):
    SubspaceMixture(**{"n_components": 2, **SHORT, **params}).fit(X)  # warnings are errors


# Corners of the data

NORMAL = np.random.default_rng(0).standard_normal((40, 40))
CORNERS = {
    "constant columns": (np.column_stack([NORMAL[:, :2], np.ones(40), np.zeros(40)]), 2),
    "all rows equal": (np.ones((20, 3)), 2),
    "all rows equal, but for rounding": (np.full((10, 3), 0.1), 2),
    "zeros": (np.zeros((5, 2)), 3),
    "fewer rows than features": (NORMAL[:6], 2),
    "few rows, many components": (NORMAL[:8, :9], 4),
    "duplicates": (np.repeat(NORMAL[:6, :4], 5, axis=0), 3),
    "fewer distinct rows than components": (np.repeat(NORMAL[:2, :4], 5, axis=0), 4),
    "a component for each row": (NORMAL[:5, :4], 5),
    "one feature": (NORMAL[:, :1], 3),
    "one row": (NORMAL[:1, :4], 1),
    "one number": (NORMAL[:1, :1], 1),
    "one component": (NORMAL[:, :3], 1),
    "rows on lines": (np.concatenate([np.outer(NORMAL[:, 0], NORMAL[i, :5]) + i for i in (1, 2)]), 2),
    "an outlier": (np.concatenate([NORMAL[:, :4], [[1e6, 0, 0, 0]]]), 2),
}


@pytest.mark.covering
@pytest.mark.parametrize(("sampler", "noise"), [("gibbs", "shared"), ("gibbs", "per_cluster"), ("conway", "shared")])
@pytest.mark.parametrize("name", CORNERS)
def test_corners_are_fitted(name, sampler, noise):
    X, K = CORNERS[name]
    mixture = make(sampler, K, noise=noise, max_iter=6, thin=1).fit(X)
    is_sound(mixture, X)


@each_sampler
def test_components_may_lose_all_their_rows(sampler):
    mixture = make(sampler, 4, init=np.zeros(40, int), dimensions=0, weight_prior=0.01).fit(0.01 * NORMAL[:, :4])
    is_sound(mixture, NORMAL[:, :4])
    assert len(np.unique(mixture.labels_)) < 4


def test_rows_that_are_all_the_same_have_no_scale():
    X, _ = CORNERS["all rows equal, but for rounding"]
    assert np.all(X.mean(axis=0) != X[0])
    np.testing.assert_array_equal(make().fit(X).noise_variance_, make().fit(np.zeros((10, 3))).noise_variance_)


def test_rows_on_lines_are_found_to_the_last_digit():
    X, _ = CORNERS["rows on lines"]
    mixture = make(n_components=2, max_iter=60).fit(X)
    np.testing.assert_array_equal(mixture.dimensions_, [1, 1])
    assert len(np.unique(mixture.labels_[:40])) == len(np.unique(mixture.labels_[40:])) == 1


@pytest.mark.covering
@pytest.mark.parametrize(
    ("sampler", "scale", "shift"),
    [(name, *move) for name in ("gibbs", "conway") for move in ((2.0**20, 0.0), (2.0**-20, 0.0), (1.0, 1024.0))]
    + [("gibbs", 1e6, 1e6), ("gibbs", 1e-6, 1e-6)],
)
def test_units_and_origin_do_not_matter(sampler, scale, shift):
    """Powers of two are exact; others round, by which eigenvectors may turn: only the walk asks for their signs."""

    def assert_same(moved, mixture):
        np.testing.assert_array_equal(moved.labels_, mixture.labels_)
        np.testing.assert_array_equal(moved.posterior_["dimensions"], mixture.posterior_["dimensions"])
        np.testing.assert_allclose(moved.means_ - shift, mixture.means_ * scale, rtol=1e-6, atol=1e-6 * scale)
        np.testing.assert_allclose(moved.noise_variance_, mixture.noise_variance_ * scale**2, rtol=1e-6)
        expected = mixture.score_samples(small_rows()) - 3.0 * np.log(scale)
        np.testing.assert_allclose(moved.score_samples(X), expected, atol=1e-6)

    X = small_rows() * scale + shift
    assert_same(make(sampler).fit(X), small_fit(sampler))
    given = {"noise_prior": (2.0, 0.1), "centre_prior_variance": 3.0}
    scaled = {"noise_prior": (2.0, 0.1 * scale**2), "centre_prior_variance": 3.0 * scale**2}
    assert_same(make(sampler, **scaled).fit(X), make(sampler, **given).fit(small_rows()))
