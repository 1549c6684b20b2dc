"""Draws from the prior of a mixture of affine subspaces."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from ...manifolds import Stiefel
from ...random._keys import Purpose, root_key, subkey
from ...utils._threads import Workers, limit_threads
from ...utils._typing import RandomStateLike
from ...utils._validation import FIT_OR_GIVE_N_FEATURES
from .model import gather, log_terms
from .parameters import Priors, Subspaces
from .posterior_draws import as_arrays
from .priors import given_priors


class DrawsFromPrior:
    """Mixin of `SubspaceMixture`; not public."""

    def sample_prior(
        self,
        n_samples: int = 1,
        n_features: int | None = None,
        *,
        random_state: RandomStateLike = None,
        return_parameters: bool = False,
    ) -> Any:
        """Draw subspaces from the prior, and rows given these.

        Use it to see what data the prior expects, or for simulation-based calibration
        (:func:`~skmanifold.metrics.calibration_ranks`).

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        n_features : int, default=None
            Number of columns, with the priors of the constructor, none of which may depend on data. None means a fitted
            estimator: its columns and the priors of the fit.
        random_state : int, RandomState instance or None, default=None
            Seed.
        return_parameters : bool, default=False
            Whether to return the parameters too.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows.
        parameters : dict of str to ndarray
            Only if `return_parameters` is True: ``"dimensions"``, ``"weights"``, ``"means"``, ``"noise_variance"``,
            ``"bases"``, ``"variances"``, ``"labels"`` and the log likelihood of X as ``"log_likelihood"``, with shapes
            as in ``posterior_``.

        Raises
        ------
        ValueError
            If a number is not valid, or a prior that depends on data is not given.
        NotFittedError
            If `n_features` is None and the estimator is not fitted.
        """
        estimator: Any = self
        n_samples = check_scalar(n_samples, "n_samples", Integral, min_val=1)
        if n_features is None:
            check_is_fitted(estimator, msg=FIT_OR_GIVE_N_FEATURES)
            priors = estimator._priors
        else:
            n_features = check_scalar(n_features, "n_features", Integral, min_val=1)
            priors = given_priors(estimator, n_features)
        rng = np.random.default_rng(int(subkey(root_key(random_state), Purpose.PRIOR)))
        subspaces = draw_subspaces(priors, rng)
        labels = rng.choice(subspaces.n_components, n_samples, p=subspaces.weights).astype(np.int32)
        with limit_threads("blas"):
            X = _draw_rows(subspaces, labels, rng)
        if not return_parameters:
            return X
        with Workers(estimator.n_jobs) as workers:
            log_likelihood = logsumexp(log_terms(X, subspaces, workers), axis=1).sum()
        return X, {**as_arrays(subspaces), "labels": labels, "log_likelihood": np.array(log_likelihood)}


def draw_subspaces(priors: Priors, rng: np.random.Generator) -> Subspaces:
    """Draw the components of a mixture from their priors."""
    K, m = len(priors.log_dimension), len(priors.location)
    dims = [int(rng.choice(len(logs), p=np.exp(logs))) for logs in priors.log_dimension]
    bases = [_draw_basis(d, m, rng) for d in dims]
    ratios = [rng.beta(priors.ratio_shape, 1.0, d) for d in dims]
    noise = rng.gamma(priors.noise_shape, 1.0 / priors.noise_rate, 1 if priors.shared_noise else K)
    centres = priors.location + np.sqrt(priors.centre_variance) * rng.standard_normal((K, m))
    return gather(bases, ratios, centres, np.resize(noise, K), rng.dirichlet(np.full(K, priors.weight)))


def _draw_basis(d: int, m: int, rng: np.random.Generator) -> np.ndarray:
    """Orthonormal rows, (d, m), uniform on the Stiefel manifold."""
    return np.ascontiguousarray(Stiefel(m, d).random_point(rng).T) if d else np.zeros((0, m))


def _draw_rows(subspaces: Subspaces, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of components, (n, m)."""
    X = rng.standard_normal((len(labels), subspaces.centres.shape[1]))
    for k in range(subspaces.n_components):
        rows = labels == k
        basis, ratios = subspaces.basis(k), subspaces.ratios[k, : subspaces.dims[k]]
        along = X[rows] @ basis.T
        X[rows] += along * (1.0 / np.sqrt(ratios) - 1.0) @ basis
        X[rows] = subspaces.centres[k] + X[rows] / np.sqrt(subspaces.noise[k])
    return X
