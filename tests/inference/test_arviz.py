"""Every estimator with draws gives them to ArviZ, with names for all axes and one meaning for each label."""

import re
import sys
import warnings
from functools import cache
from itertools import permutations

import numpy as np
import pytest
from admixture.exponential_family._family_data import small_rows
from sklearn.datasets import load_iris

from skmanifold import (
    DPCategoricalMixture,
    DPMixture,
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
    SubspaceClassifier,
    SubspaceMixture,
    VonMisesFisherMixture,
)
from skmanifold._install import install_command
from skmanifold.datasets import make_categorical_mixture, make_lda_corpus, make_subspaces
from skmanifold.inference import Draws
from skmanifold.inference._draws import falling, to_tree

pytest.importorskip("arviz_base")
pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings(r"ignore:(batch_size|n_\w+)=\d+ has no effect:UserWarning")  # all have the same

TOPICS = {"max_iter": 16, "thin": 1, "n_chains": 2, "random_state": 0}
SPHERICAL = {"n_doc_samples": 2, "batch_size": 20, **TOPICS}


def named(X):
    """A table whose columns have names."""
    return pandas.DataFrame(X, columns=[f"f{v}" for v in range(X.shape[1])])


@cache
def flats():
    return make_subspaces(120, 4, (1, 2), noise_precision=50.0, random_state=1).data


@cache
def codes():
    return make_categorical_mixture(120, 5, 3, weights=[0.5, 0.3, 0.2], random_state=0).data


@cache
def words():
    return make_lda_corpus(n_samples=40, n_features=20, n_components=3, random_state=0).data.toarray()


def make_subspace_mixture(**params):
    return SubspaceMixture(2, **{"max_iter": 40, "n_init": 1, "n_chains": 2, "random_state": 0, **params})


def make_family_mixture(emission="gaussian", **params):
    return ExponentialFamilyMixture(
        3, **{"emission": emission, "sampler": "gibbs", "max_iter": 30, "thin": 1, "random_state": 0, **params}
    )


@cache
def fitted(name):
    """An estimator of which the export is checked."""
    if name.startswith("subspaces"):
        return make_subspace_mixture(sampler=name.split()[1]).fit(named(flats()))
    if name == "classifier":
        X, y = load_iris(return_X_y=True, as_frame=True)
        mixture = SubspaceMixture(2, max_iter=20, n_init=1, n_chains=2)
        return SubspaceClassifier(mixture, random_state=0).fit(X, np.array(["a", "b", "c"])[y])
    if name.startswith("dp"):
        mixture = DPCategoricalMixture("categorical", max_iter=20, n_chains=2, random_state=0)
        return mixture.set_params(sampler=name.split()[1]).fit(named(codes()))
    if name.startswith("mixture"):
        emission = name.split()[1]
        of_emission = {"gaussian": lambda: load_iris().data, "bernoulli": lambda: words() > 0, "categorical": codes}
        X = of_emission.get(emission, words)()
        return make_family_mixture(emission, n_chains=2).fit(named(X.astype(float)))
    if name.startswith("admixture"):
        emission = name.split()[1]
        X = small_rows(emission)
        rng = np.random.default_rng(0)
        vectors = rng.normal(size=(X.shape[1], 2)) if emission == "gaussian" else None
        model = ExponentialFamilyAdmixture(3, emission=emission, sampler="gibbs", word_vectors=vectors, **TOPICS)
        return model.fit(named(np.asarray(X, float)))
    if name.startswith("lda"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of samplers for comparison
            return StochasticLDA(3, sampler=name.split()[1], **TOPICS).fit(named(words()))
    rows = named(words() - words().mean(axis=0))
    if name.startswith("spherical"):
        return SphericalAdmixture(3, sampler=name.split()[1], **SPHERICAL).fit(rows)
    _, sampler, n_components = name.split()
    n_components = None if n_components == "any" else 3
    return OrthogonalSphericalAdmixture(n_components, sampler=sampler, **SPHERICAL).fit(rows)


TOPIC_AXES = {"components": ("topic", "word"), "topic_weights": ("topic",)}
FAMILY_AXES = {"weights": ("component",), "components": ("component", "feature")}
SUBSPACE_AXES = {
    "dimensions": ("component",),
    "weights": ("component",),
    "means": ("component", "feature"),
    "noise_variance": ("component",),
    "variances": ("component", "direction"),
    "leverages": ("component", "feature"),
}
DP_AXES = {"n_components": (), "concentration": (), "weights": ("rank",), "n_active": ()}
EXPORTS = {
    **{f"subspaces {sampler}": SUBSPACE_AXES for sampler in ("gibbs", "conway")},
    "classifier": {name: ("class", *axes) for name, axes in SUBSPACE_AXES.items()},
    **{f"dp {sampler}": DP_AXES for sampler in ("slice", "scir")},
    **{f"mixture {emission}": FAMILY_AXES for emission in ("gaussian", "bernoulli", "multinomial", "poisson")},
    "mixture categorical": {"weights": ("component",), "components": ("component", "category")},
    **{f"lda {sampler}": TOPIC_AXES for sampler in ("gibbs", "collapsed_gibbs", "scir", "sghmc")},
    **{f"admixture {emission}": TOPIC_AXES for emission in ("multinomial", "poisson")},
    "admixture bernoulli": {**TOPIC_AXES, "components": ("topic", "feature")},
    "admixture gaussian": {
        **TOPIC_AXES,
        "components": ("topic", "dimension"),
        "covariances": ("topic", "dimension", "dimension_bis"),
    },
    **{f"spherical {sampler}": TOPIC_AXES for sampler in ("gsgnht", "sggmc", "gmc", "gmc_gibbs")},
    **{f"orthogonal {sampler} 3": TOPIC_AXES for sampler in ("gibbs", "gsgnht", "sggmc")},
    "orthogonal gibbs any": {"n_components": (), "topic_weights": ("rank",)},
}


@pytest.mark.every(2)
@pytest.mark.parametrize("name", EXPORTS)
def test_every_variable_has_named_axes_and_features_their_names(name):
    model = fitted(name)
    tree = model.to_arviz()
    assert set(tree.children) == {"posterior", "sample_stats"}
    got = {variable: values.dims for variable, values in tree.posterior.data_vars.items()}
    assert got == {variable: ("chain", "draw", *axes) for variable, axes in EXPORTS[name].items()}
    for axis in {"feature", "word"} & set(tree.posterior.dims):
        assert tree.posterior[axis].values.tolist() == model.feature_names_in_.tolist()
    for variable, axes in EXPORTS[name].items():
        assert tree.posterior[variable].sizes["chain"] == 2
        assert set(axes) <= set(tree.posterior.coords)
    traces = set(tree.sample_stats.data_vars) - {"temperature"}
    assert traces == {"lp"} if name in ("lda collapsed_gibbs", "dp slice", "dp scir") else {"log_likelihood"}
    assert all(np.isfinite(values).all() for values in tree.sample_stats.data_vars.values())
    np.testing.assert_array_equal(tree.sample_stats.draw, tree.posterior.draw)


@pytest.mark.every(3)
@pytest.mark.parametrize("name", EXPORTS)
def test_arviz_reads_the_tree(name):
    pytest.importorskip("xarray_einstats")
    import arviz_stats

    tree = fitted(name).to_arviz()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # of what does not move, and of NaN
        summary = arviz_stats.summary(tree)
        ess, rhat = arviz_stats.ess(tree), arviz_stats.rhat(tree)
    sizes = [tree.posterior[variable].isel(chain=0, draw=0).size for variable in EXPORTS[name]]
    assert len(summary) == sum(sizes)
    assert set(ess.data_vars) == set(rhat.data_vars) == set(EXPORTS[name])
    moving = {"subspaces": "means", "classifier": "means", "dp": "concentration"}.get(name.split()[0], "topic_weights")
    moving = "weights" if name.startswith("mixture") else moving
    for found in (ess, rhat):
        assert np.isfinite(found[moving]).any()


# One meaning for each label


def test_components_of_subspaces_are_those_of_the_estimate_in_every_draw():
    mixture = fitted("subspaces gibbs")
    posterior = mixture.to_arviz().posterior
    best = posterior.sel(chain=mixture.best_chain_)
    np.testing.assert_allclose(best.means.mean("draw"), mixture.means_)
    np.testing.assert_allclose(best.weights.mean("draw"), mixture.weights_)
    assert (posterior.dimensions.median(["chain", "draw"]).values == mixture.dimensions_).all()
    np.testing.assert_allclose(posterior.leverages.sum("feature"), posterior.dimensions, atol=1e-12)
    held = posterior.direction.values < posterior.dimensions.values[..., np.newaxis]
    np.testing.assert_array_equal(np.isfinite(posterior.variances), held)
    assert not (posterior.variances.diff("direction") > 0).any()
    basis = mixture.posterior_["bases"][1, 3, 0, : mixture.posterior_["dimensions"][1, 3, 0]]
    expected = np.diag(basis.T @ basis)
    np.testing.assert_allclose(posterior.leverages.isel(chain=1, draw=3, component=0), expected, atol=1e-12)


@pytest.mark.parametrize("emission", ["gaussian", "bernoulli", "categorical", "multinomial", "poisson"])
def test_components_of_a_family_that_change_places_are_put_back(emission):
    mixture = fitted(f"mixture {emission}")
    told, order = mixture.to_arviz(), np.array(list(permutations(range(3))))
    best = told.posterior.sel(chain=mixture.best_chain_)
    components = np.hstack(mixture.components_) if emission == "categorical" else mixture.components_
    apart = np.abs(best.components.mean("draw").values[:, np.newaxis] - components).sum(axis=2)
    assert (apart.argmin(axis=1) == np.arange(3)).all()
    shuffled = {name: draws.copy() for name, draws in mixture._posterior.items()}
    for i in range(shuffled["weights"].shape[1]):
        for name in ("weights", "components"):
            shuffled[name][:, i] = shuffled[name][:, i, order[i % 6]]
    before, mixture._posterior = mixture._posterior, shuffled
    try:
        again = mixture.to_arviz()
    finally:
        mixture._posterior = before
    for name in ("weights", "components"):
        np.testing.assert_array_equal(again.posterior[name], told.posterior[name])
        assert (shuffled[name] != before[name]).any()


def test_features_of_a_large_unit_do_not_decide_which_components_are_the_same():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(center, 1.0, (40, 3)) for center in (0.0, 6.0, 12.0)])
    X = np.column_stack([X, 1e6 * rng.normal(size=len(X))])  # which tells nothing
    mixture = make_family_mixture(n_chains=1).fit(X)
    means = mixture.to_arviz().posterior.components.isel(feature=0)
    assert means.std("draw").max() < 1.0


def test_what_a_dirichlet_process_tells_does_not_depend_on_labels():
    mixture = fitted("dp slice")
    posterior = mixture.to_arviz().posterior
    weights = mixture.posterior_["weights"]
    np.testing.assert_array_equal(posterior.n_active, np.isfinite(weights).sum(axis=-1))
    np.testing.assert_array_equal(posterior.n_components, mixture.posterior_["n_components"])
    np.testing.assert_array_equal(posterior.n_components, posterior.n_active)  # exact samplers: all have rows
    np.testing.assert_array_equal(posterior.weights, -np.sort(-weights))
    beyond = posterior["rank"].values >= posterior.n_active.values[..., np.newaxis]
    np.testing.assert_array_equal(np.isnan(posterior.weights), beyond)


def test_draws_of_any_number_of_topics_are_exported_without_labels():
    model = fitted("orthogonal gibbs any")
    posterior = model.to_arviz().posterior
    np.testing.assert_array_equal(np.isfinite(posterior.topic_weights).sum("rank"), posterior.n_components)
    assert not (posterior.topic_weights.diff("rank") > 0).any()
    np.testing.assert_allclose(posterior.topic_weights.sum("rank"), 1)


def test_classes_have_the_draws_of_their_mixtures():
    model = fitted("classifier")
    posterior = model.to_arviz()
    assert posterior.posterior["class"].values.tolist() == ["a", "b", "c"]
    for label, mixture in zip("abc", model.mixtures_, strict=True):
        own = mixture.to_arviz()
        for group in ("posterior", "sample_stats"):
            for name, values in own[group].data_vars.items():
                got = posterior[group][name].sel({"class": label})
                if "direction" in values.dims:  # another class may have more
                    assert np.isnan(got.isel(direction=slice(values.sizes["direction"], None))).all()
                    got = got.isel(direction=slice(values.sizes["direction"]))
                np.testing.assert_array_equal(got, values)
    last = model.mixtures_[1]
    kept, chains = last._whole_draws, last._chains
    try:
        last._whole_draws, last._chains = kept[2:], [draws[2:] for draws in chains]
        fewer = model.to_arviz().posterior
        last._whole_draws, last._chains = kept[:-2], [draws[:-2] for draws in chains]
        other = model.to_arviz().posterior
    finally:
        last._whole_draws, last._chains = kept, chains
    np.testing.assert_array_equal(fewer.draw, kept[2:])
    np.testing.assert_array_equal(fewer.means, posterior.posterior.means[:, 2:])
    np.testing.assert_array_equal(other.draw, np.arange(len(kept) - 2))  # those of the classes are not the same
    np.testing.assert_array_equal(other.means[:, :, 0], fewer.means[:, :, 0])
    np.testing.assert_array_equal(other.means[:, :, 1], posterior.posterior.means[:, :-2, 1])


# Fewer draws than were made


def test_draws_of_subspaces_say_which_ones_they_are():
    whole = fitted("subspaces gibbs")
    draws = [draw for of_chain in whole._chains for draw in of_chain]
    room = sum(array.nbytes for draw in draws for array in (draw.weights, *draw.parameters)) // 3
    model = make_subspace_mixture(max_draws_bytes=room).fit(named(flats()))
    told, full = model.to_arviz(), whole.to_arviz()
    assert 1 < told.posterior.sizes["draw"] < full.posterior.sizes["draw"] // 2
    assert told.posterior.draw[-1] == 9
    np.testing.assert_array_equal(told.posterior.means, full.posterior.means.sel(draw=told.posterior.draw))
    log_likelihood = full.sample_stats.log_likelihood.sel(draw=told.posterior.draw)
    np.testing.assert_array_equal(told.sample_stats.log_likelihood, log_likelihood)


def test_draws_of_a_family_say_which_ones_they_are():
    whole = make_family_mixture(n_chains=2).fit(load_iris().data).to_arviz()
    few = make_family_mixture(n_chains=2, max_draws_bytes=8000).fit(load_iris().data)
    told = few.to_arviz()
    assert 1 < told.posterior.sizes["draw"] < 8 < whole.posterior.sizes["draw"]
    for group, name in (("posterior", "components"), ("posterior", "weights"), ("sample_stats", "log_likelihood")):
        np.testing.assert_array_equal(told[group][name], whole[group][name].sel(draw=told.posterior.draw))


def test_thinned_weights_of_a_dirichlet_process_have_draws_of_their_own():
    mixture = DPCategoricalMixture("categorical", max_iter=20, n_chains=2, random_state=0, max_draws_bytes=9000)
    told, full = mixture.fit(codes()).to_arviz(), fitted("dp slice").to_arviz().posterior
    thinned = told.posterior_thinned
    assert set(thinned.data_vars) == {"weights", "n_active"}
    assert set(told.posterior.data_vars) == {"n_components", "concentration"}
    assert thinned.sizes["draw"] < told.posterior.sizes["draw"] == told.sample_stats.sizes["draw"] == 5
    np.testing.assert_array_equal(thinned.n_active, full.n_active.sel(draw=thinned.draw))


def test_a_stream_of_a_dirichlet_process_is_exported_as_a_fit_is():
    mixture = DPCategoricalMixture("categorical", sampler="scir", thin=1, total_samples=480, random_state=0)
    for batch in np.split(codes(), 4) * 2:
        mixture.partial_fit(batch)
    tree = mixture.to_arviz()
    assert set(tree.children) == {"posterior"}
    assert dict(tree.posterior.weights.sizes)["draw"] == 4
    with pytest.raises(
        ValueError, match=r"^No draws were kept: increase max_draws_bytes, or decrease burn_in or thin\.$"
    ):
        DPCategoricalMixture("categorical", sampler="scir", thin=9).partial_fit(codes()).to_arviz()


# Refusals


@pytest.mark.parametrize(("sampler", "name"), [("esca", "ESCA"), ("em", "EM")])
@pytest.mark.filterwarnings("ignore:EM stopped after")
def test_samplers_that_estimate_have_no_draws_to_export(sampler, name):
    mixture = make_family_mixture(sampler=sampler, max_iter=4).fit(load_iris().data)
    with pytest.raises(AttributeError, match=f"^{name} estimates the components and does not draw them: .*'gibbs'"):
        mixture.to_arviz()
    assert not hasattr(VonMisesFisherMixture, "to_arviz")


def test_topics_by_variational_inference_have_no_draws_to_export():
    model = SphericalAdmixture(2, sampler="vb", max_iter=3, random_state=0).fit(words())
    with pytest.raises(AttributeError, match=r"^MeanField estimates the topics and does not draw them, so there"):
        model.to_arviz()


def test_without_draws_there_is_one_clear_sentence():
    unkept = make_family_mixture(max_draws_bytes=0).fit(load_iris().data)
    early = make_family_mixture(thin=99).fit(load_iris().data)
    for mixture in (unkept, early):
        with pytest.raises(ValueError, match=r"^No draws of the components were kept: raise max_draws_bytes"):
            mixture.to_arviz()
    subspaces = make_subspace_mixture(thin=99).fit(flats())
    classes = SubspaceClassifier(SubspaceMixture(1, max_iter=4, thin=9), random_state=0)
    for model in (subspaces, classes.fit(*load_iris(return_X_y=True))):
        with pytest.raises(
            ValueError, match=r"^No draws were kept: increase max_draws_bytes, or decrease burn_in or thin"
        ):
            model.to_arviz()


@pytest.mark.parametrize(
    "name", ["subspaces gibbs", "classifier", "dp slice", "mixture gaussian", "lda gibbs", "Draws"]
)
def test_without_arviz_a_sentence_says_what_to_install(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    monkeypatch.setitem(sys.modules, "arviz_stats.base", None)
    draws = Draws(np.zeros((2, 5, 1))) if name == "Draws" else fitted(name)
    with pytest.raises(ImportError, match=re.escape(f"to_arviz needs arviz-base: {install_command('arviz')}")):
        draws.to_arviz()
    if name == "Draws":
        with pytest.raises(ImportError, match=r"needs arviz-\w+: " + re.escape(install_command("arviz"))):
            draws.ess()


# The tree itself


def test_points_have_axes_by_their_shape():
    rng = np.random.default_rng(0)
    names = [(), ("coordinate",), ("row", "column"), ("axis_0", "axis_1", "axis_2")]
    for shape, axes in zip([(), (3,), (3, 2), (2, 2, 2)], names, strict=True):
        stats = {"log_position": rng.normal(size=(2, 5, *shape)), "accepted": rng.random((2, 5)) < 0.5}
        tree = Draws(rng.normal(size=(2, 5, *shape)), stats).to_arviz()
        assert tree.posterior.position.dims[2:] == tree.sample_stats.log_position.dims[2:] == axes
        assert tree.sample_stats.accepted.dtype == bool
        assert tree.posterior.position.shape == (2, 5, *shape)


def test_statistics_that_a_sampler_does_not_have_are_left_out():
    draws = {"x": np.zeros((2, 3)), "temperature": np.full((2, 3), np.nan), "none": np.zeros((2, 3, 0))}
    tree = to_tree(draws, {"none": ["place"]})
    assert set(tree.children) == {"posterior"}
    assert set(tree.posterior.data_vars) == {"x"}


def test_sorted_draws_have_the_largest_first_and_what_is_missing_last():
    np.testing.assert_array_equal(falling(np.array([[1.0, np.nan, 3.0], [2.0, 4.0, 0.0]])), [[3, 1, np.nan], [4, 2, 0]])


@pytest.mark.parametrize(
    ("emission", "shapes"),
    [
        ("gaussian", {"covariance_prior": ("feature", "other_feature")}),
        ("negative_binomial", {"dispersions": ("feature",)}),
    ],
)
def test_axes_of_drawn_hyperparameters_have_names(emission, shapes):
    X = np.random.default_rng(0).poisson(5.0, (40, 3)).astype(float)
    mixture = DPMixture(emission, max_iter=6, random_state=0).fit(X)
    posterior = mixture.to_arviz().posterior
    for name, axes in shapes.items():
        assert posterior[name].dims == ("chain", "draw", *axes)
        np.testing.assert_array_equal(posterior[name], mixture.posterior_[name])
