"""scikit-learn's own checks: all for every estimator with its default sampler, some for every other sampler."""

import numpy as np
import pytest
from _sklearn_checks import short_checks
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils._param_validation import InvalidParameterError, generate_invalid_param_val, make_constraint
from sklearn.utils.estimator_checks import check_param_validation

from skmanifold import (
    CrossCat,
    DPCategoricalMixture,
    DPMixture,
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    HDPAdmixture,
    MixtureClassifier,
    MixtureImputer,
    MixtureRegressor,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
    SubspaceClassifier,
    SubspaceMixture,
    VonMisesFisherMixture,
)
from skmanifold.base import BaseSampledEstimator
from skmanifold.inference._distributed_fits.checkpoints import describe_run

ESTIMATORS = [
    StochasticLDA,
    SphericalAdmixture,
    OrthogonalSphericalAdmixture,
    HDPAdmixture,
    DPCategoricalMixture,
    DPMixture,
    SubspaceMixture,
    ExponentialFamilyMixture,
    ExponentialFamilyAdmixture,
    CrossCat,
]
SHORT = {"max_iter": 4, "burn_in": 1, "thin": 2}
SMALL = {
    StochasticLDA: {"n_components": 3, **SHORT},
    SphericalAdmixture: {"n_components": 3, **SHORT},
    OrthogonalSphericalAdmixture: {"n_components": 2, **SHORT},
    HDPAdmixture: {"init": 3, **SHORT},
    DPCategoricalMixture: {"init": 3, **SHORT},
    DPMixture: {"init": 3, **SHORT},
    SubspaceMixture: {"n_components": 2, "n_init": 1, **SHORT},
    ExponentialFamilyMixture: {"n_components": 2, **SHORT},
    ExponentialFamilyAdmixture: {"n_components": 3, **SHORT},
    CrossCat: {"n_chains": 1, **SHORT},
}


def small(estimator, name, **params):
    """An estimator with this sampler, and an emission that the sampler can use."""
    of_categories = {"emission": "categorical"} if estimator is DPMixture and name != "slice" else {}
    of_any_number = {"n_components": None} if estimator is SubspaceMixture and name == "slice" else {}
    return estimator(sampler=name, **(SMALL[estimator] | of_any_number), **of_categories, **params)


WITH_EACH_SAMPLER = [
    pytest.param(estimator, name, id=f"{estimator.__name__}-{name}")
    for estimator in ESTIMATORS
    for name in estimator._samplers
]
SAMPLERS = sorted({s for estimator in ESTIMATORS for s in estimator._samplers.values()}, key=lambda s: s.__name__)


# What two samplers say of the default topic_word_prior, and nothing else
allow_warning_of_small_priors = pytest.mark.filterwarnings(
    "ignore:(SGRLD|SGRHMC|Mine) does not draw from the posterior if topic_word_prior is below 1/2:UserWarning"
)

# What the checks' X, of any numbers, makes fits say that count tokens
allow_warning_of_fractions = pytest.mark.filterwarnings(
    "ignore:X has fractional counts, which fit rounds at random:UserWarning"
)


def asks_what_only_classifiers_have(estimator):
    """Checks of sparse X that look up, for any estimator with `predict_proba`, the tags of a classifier."""
    mixture = isinstance(estimator, (DPCategoricalMixture, DPMixture, ExponentialFamilyMixture, SubspaceMixture))
    if not mixture or not estimator.__sklearn_tags__().input_tags.sparse:
        return {}
    reason = "asks tags.classifier_tags, which is None, how many columns predict_proba has"
    return dict.fromkeys(["check_estimator_sparse_array", "check_estimator_sparse_matrix"], reason)


WEIGHT_CHECKS = ["list", "not_an_array", "not_overwritten", "pandas_series", "shape"]


def cannot_pass_checks_of_weights(estimator):
    """Checks that pass `sample_weight` to samplers that refuse it, or need initial labels that are not random."""
    if not isinstance(estimator, ExponentialFamilyMixture):
        return {}
    equivalence = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    if estimator.sampler == "em":
        if estimator.n_components == 1:
            return {}
        return dict.fromkeys(equivalence, "initial labels are drawn: others for rows in another order")
    names = [f"check_sample_weights_{name}" for name in WEIGHT_CHECKS] + ["check_all_zero_sample_weights_error"]
    return dict.fromkeys([*names, *equivalence], "only the sampler 'em' has weights of rows")


def refuses_objects_by_their_column(estimator):
    """The check asks for the TypeError of `numpy.asarray`, which names neither the column nor the cell."""
    if getattr(getattr(estimator, "estimator", estimator), "emission", None) not in ("categorical", "auto"):
        return {}
    return {"check_dtype_object": "a cell that is a dictionary is refused by a ValueError that names its column"}


def has_probabilities_of_each_view(estimator):
    """Checks that compare `predict_proba` as one array; `tests/mixture/test_cross_cat.py` has the same for its list."""
    if not isinstance(estimator, CrossCat):
        return {}
    names = ["check_methods_sample_order_invariance", "check_methods_subset_invariance", "check_fit_idempotent"]
    return dict.fromkeys(names, "predict_proba returns a list with an array for each view, as for multioutput")


def expected_failures(estimator):
    return {
        **has_probabilities_of_each_view(estimator),
        **asks_what_only_classifiers_have(estimator),
        **cannot_pass_checks_of_weights(estimator),
        **refuses_objects_by_their_column(estimator),
    }


@allow_warning_of_small_priors
@allow_warning_of_fractions
@short_checks(
    [
        *(estimator(**SMALL[estimator]) for estimator in ESTIMATORS),
        SubspaceClassifier(SubspaceMixture(1, **SHORT)),
        *(
            predictor(ExponentialFamilyMixture(4, emission="auto", sampler="em", max_iter=50))
            for predictor in (MixtureClassifier, MixtureRegressor)
        ),
    ],
    [
        *(
            small(estimator, name)
            for estimator in ESTIMATORS
            for name in estimator._samplers
            if name != estimator(**SMALL[estimator]).sampler
            and (estimator, name) != (SubspaceMixture, "slice")  # the checks set n_components
        ),
        *(estimator(n_jobs=2, **(SMALL[estimator] | {"n_chains": 2})) for estimator in ESTIMATORS),
        OrthogonalSphericalAdmixture(None, **SHORT),
        SubspaceMixture(None, **SHORT),
        SubspaceClassifier(SubspaceMixture(None, **SHORT)),
        ExponentialFamilyMixture(1, sampler="em", **SHORT),
        SubspaceClassifier(SubspaceMixture(1, sampler="conway", **SHORT)),
        MixtureImputer(ExponentialFamilyMixture(2, **SHORT)),
        *(DPMixture(emission, init=3, **SHORT) for emission in ("categorical", "auto")),
        ExponentialFamilyMixture(2, emission="auto", sampler="gibbs", **SHORT),
        *(
            estimator(emission=emission, sampler=name, **SMALL[estimator])
            for estimator, emissions in (
                (DPCategoricalMixture, ["categorical"]),
                (ExponentialFamilyMixture, ["categorical", "multinomial", "poisson"]),
                (ExponentialFamilyAdmixture, ["poisson"]),
            )
            for emission in emissions
            for name in estimator._samplers
        ),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore:EM stopped after")
@pytest.mark.filterwarnings("ignore:Columns .* are linear")  # the checks make some y of columns of X
@pytest.mark.filterwarnings("ignore:.* rows of X repeat other rows exactly")  # the checks round some X
def test_sklearn_check_passes(estimator, check):
    check(estimator)


def test_classifier_by_subspaces_refuses_each_bad_parameter_by_its_name():
    check_param_validation(SubspaceClassifier.__name__, SubspaceClassifier())


@pytest.mark.parametrize(("estimator", "name"), WITH_EACH_SAMPLER)
def test_short_names_name_their_samplers(estimator, name):
    assert issubclass(estimator, BaseSampledEstimator)
    assert type(small(estimator, name)._resolve_sampler()) is estimator._samplers[name]
    assert estimator._samplers[name].short_name == name


@pytest.mark.parametrize(("estimator", "name"), WITH_EACH_SAMPLER)
def test_estimator_refuses_each_bad_parameter_by_its_name(estimator, name):
    check_param_validation(estimator.__name__, estimator(sampler=name))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_sampler_constrains_exactly_its_parameters(sampler):
    assert sampler._parameter_constraints.keys() == sampler().get_params().keys()


@pytest.mark.parametrize(
    ("estimator", "sampler", "parameter"),
    [
        pytest.param(estimator, sampler, parameter, id=f"{estimator.__name__}-{sampler.__name__}-{parameter}")
        for estimator in ESTIMATORS
        for sampler in estimator._samplers.values()
        for parameter in sampler().get_params()
    ],
)
def test_fit_refuses_each_bad_parameter_of_its_sampler_by_its_name(estimator, sampler, parameter):
    bad_values = [object()]
    for constraint in map(make_constraint, sampler._parameter_constraints[parameter]):
        try:
            bad_values.append(generate_invalid_param_val(constraint))
        except NotImplementedError:  # a type alone: the object above is not of it
            continue
    for value in bad_values:
        model = estimator(sampler=clone(sampler()).set_params(**{parameter: value}))
        with pytest.raises(InvalidParameterError, match=rf"The '{parameter}' parameter of {sampler.__name__} must be"):
            model.fit([[1, 2], [2, 1]])


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_sampler_is_a_value(sampler):
    one = sampler()
    assert clone(one).get_params() == one.get_params()
    assert vars(one).keys() == one.get_params().keys()
    assert repr(one) == f"{sampler.__name__}()"


@allow_warning_of_small_priors
@pytest.mark.parametrize("name", ["fit", "partial_fit"])
@pytest.mark.parametrize("estimator", [*ESTIMATORS, VonMisesFisherMixture])
def test_a_subclass_has_its_own_constructor(estimator, name, tmp_path):
    settings = {"random_state": 0, **SMALL.get(estimator, {"n_components": 2, "tol": 1e6})}

    class Mine(estimator):
        def __init__(self, seed=0):
            super().__init__(**{**settings, "random_state": seed})
            self.seed = seed

    if not hasattr(estimator(**settings), name):
        pytest.skip("it does not learn from streams")
    X = np.random.default_rng(0).poisson(2, (30, 4)) + 1
    expected = getattr(estimator(**settings), name)(X).score(X)
    mine = getattr(clone(Mine()), name)(X)
    assert mine.score(X) == expected
    assert mine.get_params() == {"seed": 0}
    assert repr(mine.set_params(seed=3)) == "Mine(seed=3)"
    with pytest.raises(TypeError, match=r"Mine cannot be saved: .* use pickle or joblib instead"):
        mine.save(tmp_path / "mine")


def test_a_grid_search_of_a_parameter_of_a_subclass():
    class Mine(StochasticLDA):
        def __init__(self, n_components=2):
            super().__init__(n_components, batch_size=10, max_iter=4, random_state=0)

    X = np.random.default_rng(0).poisson(2, (30, 4))
    with pytest.warns(UserWarning, match="batch_size=10 has no effect with ESCA"):
        search = GridSearchCV(Mine(), {"n_components": [1, 3]}, cv=2, error_score="raise").fit(X)
    assert search.best_estimator_.components_.shape == (search.best_params_["n_components"], 4)
    runs = [describe_run(Mine().set_params(n_components=n), 0, (30, 4)) for n in (2, 3)]
    assert runs[0]["max_iter"] == "4"  # what the own constructor passes is part of a run too
    assert runs[0] != runs[1]


@allow_warning_of_small_priors
@pytest.mark.filterwarnings("ignore:EM stopped after")
@pytest.mark.parametrize(("estimator", "name"), WITH_EACH_SAMPLER)
def test_a_subclass_of_a_sampler_has_its_own_constructor(estimator, name):
    known = small(estimator, name)._named(name)

    class Mine(type(known)):
        def __init__(self, extra=0):
            super().__init__(**known.get_params(deep=False))
            self.extra = extra

    X = np.random.default_rng(0).poisson(2, (30, 4)) + 1
    models = [small(estimator, name, random_state=0).set_params(sampler=sampler) for sampler in (known, Mine())]
    assert models[0].fit(X).score(X) == models[1].fit(X).score(X)
    assert repr(clone(models[1]).set_params(sampler__extra=2).sampler) == "Mine(extra=2)"
