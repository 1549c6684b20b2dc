"""Draws from the priors of all estimators that draw from posteriors: names, moments, seeds and refusals."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from benchmarks.calibration import directions, dirichlet_processes, mixtures, subspaces, topics, views
from skmanifold import (
    CrossCat,
    DPCategoricalMixture,
    DPMixture,
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    HDPAdmixture,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
    SubspaceMixture,
)
from skmanifold.emissions import (
    Bernoulli,
    Categorical,
    Columns,
    Gaussian,
    Multinomial,
    NegativeBinomial,
    Poisson,
    VonMisesFisher,
)
from skmanifold.models import IncompatibleError

MODULES = mixtures, dirichlet_processes, topics, directions, subspaces, views
EXACT = [setting for module in MODULES for setting in module.SETTINGS if setting.kind == "exact"]
SHORT_PROCESSES = ("process_bernoulli", "process_categorical", "process_codes_slice", "process_gaussian")


def case_of(setting):
    is_short = setting.name in SHORT_PROCESSES or not setting.name.startswith("process_")
    return pytest.param(setting, id=setting.name, marks=() if is_short else pytest.mark.extended)


by_setting = pytest.mark.parametrize("setting", [case_of(setting) for setting in EXACT])
NOT_DRAWN = {
    "log_likelihood",
    "log_joint",
    "topic_ids",
    "temperature",
    "component_clusters",
}  # not every prior has them


@by_setting
def test_parameters_have_the_names_and_shapes_of_draws(setting):
    estimator = clone(setting.estimator).set_params(random_state=0, max_iter=6, burn_in=2, thin=2)
    X, truth = estimator.sample_prior(**setting.shape, random_state=1, return_parameters=True)
    rows = X if setting.prepare is None else setting.prepare(estimator, X, np.random.default_rng(0))
    with np.errstate(all="ignore"):
        estimator.fit(rows)
    posterior = estimator.posterior_
    assert posterior.keys() - truth.keys() <= NOT_DRAWN
    for name in posterior.keys() & truth.keys():
        assert posterior[name].ndim == 2 + np.ndim(truth[name]), name
    for name, quantity in setting.quantities.items():
        draw = {key: values[0, -1] for key, values in posterior.items()}
        assert np.isfinite([quantity(truth, X), quantity(draw, X)]).all(), name


@by_setting
def test_the_seed_decides_and_parameters_are_optional(setting):
    estimator = clone(setting.estimator)
    first, truth = estimator.sample_prior(**setting.shape, random_state=3, return_parameters=True)
    again = estimator.sample_prior(**setting.shape, random_state=3)
    other = estimator.sample_prior(**setting.shape, random_state=4)
    dense = [
        np.concatenate(X) if isinstance(X, list) else getattr(X, "toarray", lambda X=X: X)()
        for X in (first, again, other)
    ]
    np.testing.assert_array_equal(dense[0], dense[1])
    assert dense[0].shape != dense[2].shape or not np.array_equal(dense[0], dense[2])
    assert not hasattr(estimator, "n_features_in_")
    assert truth.keys()


def _moments(estimator, n, statistic, **shape):
    """Mean of a statistic over draws, and its standard error."""
    found = [
        statistic(*estimator.sample_prior(**shape, random_state=seed, return_parameters=True)) for seed in range(n)
    ]
    return np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(n)


MEANS = {  # estimator, shape, statistic, expectation
    "bernoulli": (
        ExponentialFamilyMixture(2, emission=Bernoulli(1.0, 3.0)),
        {"n_samples": 5, "n_features": 2},
        lambda X, truth: X.mean(),
        0.25,
    ),
    "poisson": (
        DPMixture(Poisson(3.0, 1.5)),
        {"n_samples": 5, "n_features": 2},
        lambda X, truth: X.mean(),
        2.0,
    ),
    "variance of the mean of two rows": (  # a row has the variance 1 / k + 1 within and between components
        ExponentialFamilyMixture(1, emission=Gaussian("full", np.zeros(2), 0.5, 4.0, 7.0)),
        {"n_samples": 2, "n_features": 2},
        lambda X, truth: X.mean(axis=0)[0] ** 2,
        4.0 / (7.0 - 3.0) * (1 / 0.5 + 1 / 2),
    ),
    "weights": (
        ExponentialFamilyMixture(3, emission=Bernoulli(), weight_prior=2.0),
        {"n_samples": 1, "n_features": 1},
        lambda X, truth: truth["weights"][0] ** 2,
        2.0 * 3.0 / (6.0 * 7.0),
    ),
    "pairs of a process": (  # in one cluster with probability 1 / (1 + concentration)
        DPMixture(Bernoulli(), concentration=2.0),
        {"n_samples": 6, "n_features": 1},
        lambda X, truth: (np.mean(truth["labels"][:, None] == truth["labels"]) * 6 - 1) / 5,
        1 / 3,
    ),
    "pairs of columns": (  # in one view with probability 1 / (1 + concentration)
        CrossCat(Columns([("events", Bernoulli(), slice(None))]), view_concentration=2.0),
        {"n_samples": 1, "n_features": 6},
        lambda X, truth: (np.mean(truth["column_labels"][:, None] == truth["column_labels"]) * 6 - 1) / 5,
        1 / 3,
    ),
    "concentration of a process": (
        DPMixture(Bernoulli(), concentration_prior=(3.0, 2.0)),
        {"n_samples": 2, "n_features": 1},
        lambda X, truth: truth["concentration"],
        1.5,
    ),
    "pairs of tokens of a franchise": (  # of one topic: at one table, or at two tables of one topic
        HDPAdmixture(concentration=1.0, topic_concentration=3.0),
        {"n_samples": 1, "n_features": 2, "n_tokens": 2},
        lambda X, truth: float(truth["n_components"] == 1),
        1 / 2 + 1 / 2 / 4,
    ),
    "pairs of documents of a franchise": (
        HDPAdmixture(concentration=1.0, topic_concentration=3.0),
        {"n_samples": 2, "n_features": 2, "n_tokens": 1},
        lambda X, truth: float(truth["n_components"] == 1),
        1 / 4,
    ),
    "pairs of tokens of a topic model": (
        StochasticLDA(4, doc_topic_prior=0.5),
        {"n_samples": 1, "n_features": 2, "n_tokens": 2},
        lambda X, truth: float((truth["doc_topic_counts"] == 2).any()),
        1.5 / 3.0,
    ),
    "pairs of words of a topic model": (
        StochasticLDA(1, topic_word_prior=0.5),
        {"n_samples": 1, "n_features": 3, "n_tokens": 2},
        lambda X, truth: float(X.max() == 2),
        1.5 / 2.5,
    ),
    "intensities": (
        ExponentialFamilyAdmixture(2, emission="poisson", doc_topic_prior=1.5, intensity_rate=0.5),
        {"n_samples": 3, "n_features": 2},
        lambda X, truth: X.sum() / 3,
        6.0,
    ),
    "cells of an admixture": (
        ExponentialFamilyAdmixture(2, emission=Bernoulli(1.0, 2.0), doc_topic_prior=0.5),
        {"n_samples": 2, "n_features": 3},
        lambda X, truth: X.mean(),
        1 / 3,
    ),
    "cosines of topics": (  # products of mean resultant lengths of two von Mises-Fisher distributions in 3 dimensions
        SphericalAdmixture(
            2, document_concentration=1.0, topic_concentration=2.0, mean_concentration=3.0, mean_direction=[0, 0, 2.0]
        ),
        {"n_samples": 1, "n_features": 3},
        lambda X, truth: truth["components"][:, 2].mean(),
        (1 / np.tanh(2.0) - 1 / 2) * (1 / np.tanh(3.0) - 1 / 3),
    ),
    "cosines of documents": (
        OrthogonalSphericalAdmixture(1, document_concentration=2.0),
        {"n_samples": 1, "n_features": 3},
        lambda X, truth: (X @ truth["components"].T)[0, 0],
        1 / np.tanh(2.0) - 1 / 2,
    ),
    "number of orthonormal topics": (
        OrthogonalSphericalAdmixture(
            None, document_concentration=2.0, n_components_penalty=np.log(2), max_components=2
        ),
        {"n_samples": 3, "n_features": 3},
        lambda X, truth: truth["n_components"],
        4 / 3,
    ),
    "variance of rows near subspaces": (  # noise and centre, and 1 / ratio along the one direction, of mean 3 / 2
        SubspaceMixture(
            1,
            dimensions=1,
            ratio_prior=3.0,
            noise_prior=(3.0, 4.0),
            centre_prior_mean=[1.0, 1.0],
            centre_prior_variance=2.0,
        ),
        {"n_samples": 1, "n_features": 2},
        lambda X, truth: np.sum((X[0] - 1.0) ** 2),
        2 * 2.0 + 4.0 / 2.0 * (1 + 1.5),
    ),
}


@pytest.mark.extended
@pytest.mark.parametrize("name", MEANS)
def test_moments_are_those_of_the_prior(name):
    estimator, shape, statistic, expected = MEANS[name]
    mean, error = _moments(estimator, 600, statistic, **shape)
    assert abs(mean - expected) < 4 * error


def test_log_densities_are_those_of_the_drawn_rows():
    emission = Gaussian("diag", np.zeros(2), 0.3, 1.0, 5.0)
    X, truth = ExponentialFamilyMixture(2, emission=emission).sample_prior(6, 2, random_state=0, return_parameters=True)
    gaps = (X[:, None] - truth["components"]) ** 2 / truth["covariances"]
    logs = np.log(truth["weights"]) - 0.5 * (gaps + np.log(2 * np.pi * truth["covariances"])).sum(axis=2)
    assert truth["log_likelihood"] == pytest.approx(np.logaddexp.reduce(logs, axis=1).sum())
    beta = DPMixture(Bernoulli(), concentration=1.0)
    X, truth = beta.sample_prior(2, 1, random_state=0, return_parameters=True)  # p = 1/3 for equal cells, 1/6 otherwise
    together = truth["n_components"] == 1
    of_rows = (1 / 3 if X[0, 0] == X[1, 0] else 1 / 6) if together else 1 / 4
    assert truth["log_joint"] == pytest.approx(np.log(0.5 * of_rows))


FITTED = [
    (ExponentialFamilyMixture(2, emission="gaussian", sampler="gibbs"), np.random.default_rng(0).normal(size=(30, 2))),
    (DPMixture("gaussian"), np.random.default_rng(0).normal(size=(30, 2))),
    (DPCategoricalMixture("categorical"), np.random.default_rng(0).integers(0, 3, (30, 2))),
    (StochasticLDA(2, doc_topic_prior="auto"), np.random.default_rng(0).poisson(1.0, (30, 5))),
    (HDPAdmixture(), np.random.default_rng(0).poisson(1.0, (30, 5))),
    (ExponentialFamilyAdmixture(2, emission="poisson"), np.random.default_rng(0).poisson(1.0, (30, 5))),
    (SphericalAdmixture(2), np.random.default_rng(0).normal(size=(30, 5))),
    (OrthogonalSphericalAdmixture(2), np.random.default_rng(0).normal(size=(30, 5))),
    (SubspaceMixture(2), np.random.default_rng(0).normal(size=(30, 3))),
    (CrossCat(), np.random.default_rng(0).normal(size=(30, 3))),
]


@pytest.mark.parametrize(("estimator", "X"), FITTED, ids=lambda each: type(each).__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fit_supplies_columns_and_hyperparameters(estimator, X):
    estimator = clone(estimator)
    with pytest.raises(NotFittedError, match="is not fitted: call 'fit', or give n_features"):
        estimator.sample_prior(3)
    estimator.set_params(max_iter=4, random_state=0).fit(X)
    before = {name: id(value) for name, value in vars(estimator).items()}
    drawn, truth = estimator.sample_prior(7, random_state=0, return_parameters=True)
    assert drawn.shape == (7, X.shape[1])
    assert {name: id(value) for name, value in vars(estimator).items()} == before
    assert truth.keys()


REFUSED = [
    (ExponentialFamilyMixture(2), "mean_prior, covariance_prior are None"),
    (ExponentialFamilyMixture(2, emission=Gaussian(mean_prior=[0.0])), "covariance_prior is None"),
    (ExponentialFamilyMixture(2, emission=Gaussian(mean_prior=[0.0], covariance_prior=1.0)), r"shape \(2,\)"),
    (ExponentialFamilyMixture(2, emission="poisson"), "shape_prior is None"),
    (ExponentialFamilyMixture(2, emission="negative_binomial"), "shape_prior is None"),
    (ExponentialFamilyMixture(2, emission="categorical"), "min_categories is None"),
    (ExponentialFamilyMixture(2, emission="von_mises_fisher"), "cosine_prior is None"),
    (DPMixture(NegativeBinomial(shape_prior=1.0)), "learns hyperparameters of NegativeBinomial"),
    (DPMixture(Gaussian(mean_prior=np.zeros(2), covariance_prior=1.0)), "mean_precision"),
    (DPCategoricalMixture("categorical"), "min_categories"),
    (CrossCat(Columns([("numbers", Gaussian("diag"), [0, 1])])), "mean_prior, covariance_prior are None"),
    (CrossCat(Columns([("counts", NegativeBinomial(shape_prior=1.0), [0, 1])])), "are learned"),
    (CrossCat(Columns([("one", Bernoulli(), [0])])), "No block of Columns has the column 1"),
    (StochasticLDA(2, topic_word_prior="auto"), "'auto' priors"),
    (StochasticLDA(2, seed_words=[[0]]), "seed_words"),
    (ExponentialFamilyAdmixture(2, emission="poisson"), "intensity_rate is None"),
    (SphericalAdmixture(2), "document_concentration is 'auto'"),
    (SphericalAdmixture(2, document_concentration=1, topic_concentration=1, mean_concentration=1), "mean_direction"),
    (OrthogonalSphericalAdmixture(2), "document_concentration is 'auto'"),
    (OrthogonalSphericalAdmixture(3, document_concentration=1.0), "as many features"),
    (SubspaceMixture(2), "noise_prior is None"),
    (SubspaceMixture(2, noise_prior=(1, 1), centre_prior_mean=[0], centre_prior_variance=1), "2 finite numbers"),
]


@pytest.mark.parametrize(("estimator", "message"), REFUSED)
def test_priors_that_depend_on_data_are_refused(estimator, message):
    with pytest.raises(ValueError, match=message):
        clone(estimator).sample_prior(3, 2)


@pytest.mark.parametrize("estimator", [ExponentialFamilyMixture(2, emission="auto"), DPMixture("auto"), CrossCat()])
def test_tables_need_a_fit(estimator):
    with pytest.raises(IncompatibleError, match="or fit first"):
        estimator.sample_prior(3, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: StochasticLDA(2).sample_prior(0, 3), "n_samples"),
        (lambda: StochasticLDA(2).sample_prior(2, 0), "n_features"),
        (lambda: StochasticLDA(2).sample_prior(2, 3, n_tokens=[1, 2, 3]), "n_tokens"),
        (lambda: HDPAdmixture().sample_prior(2, 3, n_tokens=-1), "n_tokens"),
        (lambda: ExponentialFamilyMixture(2, emission=Multinomial()).sample_prior(2, 3, n_tokens=0), "n_tokens"),
        (lambda: SphericalAdmixture(2).sample_prior(2, 1), "n_features"),
    ],
)
def test_bad_sizes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "mixture",
    [
        pytest.param(DPMixture("auto", random_state=0, max_iter=4), marks=pytest.mark.extended),
        ExponentialFamilyMixture(2, emission="auto", sampler="gibbs", random_state=0, max_iter=4),
    ],
    ids=["DPMixture", "ExponentialFamilyMixture"],
)
def test_rows_of_a_table_keep_their_form(mixture):
    table = np.array([["x", 1.5], ["y", 0.5], ["x", 2.5], ["y", -1.0]], dtype=object)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"letter": table[:, 0], "number": table[:, 1].astype(float)})
    drawn = clone(mixture).fit(frame).sample_prior(5, random_state=0)
    assert drawn.columns.tolist() == ["letter", "number"]
    assert set(drawn["letter"]) <= {"x", "y"}


def test_rows_of_a_fit_keep_their_form():
    mixture = ExponentialFamilyMixture(2, emission=Categorical(), sampler="gibbs", max_iter=4, random_state=0)
    assert mixture.fit([[0, 1], [1, 2], [0, 0]]).sample_prior(4, random_state=0).max() <= 2
    emission = VonMisesFisher(3.0)
    rows = ExponentialFamilyMixture(2, emission=emission).sample_prior(4, 3, random_state=0)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)


@pytest.mark.parametrize("make", [lambda emission: ExponentialFamilyMixture(2, emission=emission), DPMixture])
def test_large_counts_do_not_wrap(make):
    assert make(Poisson(1e17, 1.0)).sample_prior(3, 2, random_state=0).min() > 2**51
