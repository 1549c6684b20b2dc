"""Small estimators of every kind, data for them, and all that a fit and its predictions return."""

import numpy as np
from sklearn.base import clone, is_classifier

from skmanifold import (
    DPCategoricalMixture,
    DPMixture,
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    HDPAdmixture,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
    SubspaceClassifier,
    SubspaceMixture,
    VonMisesFisherMixture,
)

LABELS = np.arange(12) % 2
SHORT = {"max_iter": 2, "burn_in": 1, "random_state": 0}
ESTIMATORS = {
    "lda": StochasticLDA(2, **SHORT),
    "hdp": HDPAdmixture(init=2, **SHORT),
    "spherical": SphericalAdmixture(2, **SHORT),
    "orthogonal": OrthogonalSphericalAdmixture(2, **SHORT),
    "admixture": ExponentialFamilyAdmixture(2, **SHORT),
    "poisson admixture": ExponentialFamilyAdmixture(2, emission="poisson", **SHORT),
    "bernoulli admixture": ExponentialFamilyAdmixture(2, emission="bernoulli", **SHORT),
    "dp": DPCategoricalMixture(init=2, **SHORT),
    "dp codes": DPCategoricalMixture("categorical", init=2, **SHORT),
    "dp rows of codes": DPMixture("categorical", init=2, **SHORT),
    # EMISSIONS OF DPMixture: the others, once they have clusters
    "gaussian": ExponentialFamilyMixture(2, **SHORT),
    "multinomial": ExponentialFamilyMixture(2, emission="multinomial", **SHORT),
    "negative binomial": DPMixture("negative_binomial", init=2, **SHORT),
    "poisson": ExponentialFamilyMixture(2, emission="poisson", **SHORT),
    "bernoulli": ExponentialFamilyMixture(2, emission="bernoulli", **SHORT),
    "mixture codes": ExponentialFamilyMixture(2, emission="categorical", **SHORT),
    "directions": VonMisesFisherMixture(2, tol=1e6, random_state=0),
    "subspaces": SubspaceMixture(2, init=LABELS, **SHORT),
    "any subspaces": SubspaceMixture(None, init=LABELS, **SHORT),
    "classifier": SubspaceClassifier(SubspaceMixture(1, n_init=1, **SHORT), random_state=0),
}
DENSE_ONLY = {"dp codes", "dp rows of codes", "mixture codes", "gaussian", "subspaces", "any subspaces", "classifier"}
ALLOW_MISSING = {"bernoulli admixture", "dp codes", "dp rows of codes", "mixture codes"}
ALLOW_MISSING |= {"negative binomial", "poisson", "bernoulli"}


def data(name):
    """Whole numbers from 0 to 4, with a 1 at least in each row; zeros and ones where that is what counts."""
    counts = np.random.default_rng(0).integers(0, 5, (12, 4)).astype(float)
    counts[:, 0] += counts.sum(axis=1) == 0
    return (counts > 2).astype(float) if "bernoulli" in name else counts


def with_missing(name):
    X = data(name)
    X[1, 2] = X[4, 0] = np.nan
    return X


def results(name, X, y=LABELS):
    """What `fit` and all methods for new rows return for X, and the names of columns."""
    model = clone(ESTIMATORS[name])
    y = y if is_classifier(model) else None
    model.fit(X, y)
    found = {"names": list(getattr(model, "feature_names_in_", [])), "score": model.score(X, y)}
    for method in ("transform", "predict", "predict_proba", "score_samples"):
        if hasattr(model, method):
            found[method] = getattr(model, method)(X)
    if hasattr(model, "partial_fit"):
        found["partial_fit"] = clone(model).partial_fit(X).score(X)
    return found


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for method in wanted.keys() - {"names"}:
        one, other = np.asarray(found[method]), np.asarray(wanted[method])
        assert one.dtype == other.dtype, method
        np.testing.assert_array_equal(one, other, err_msg=method)
