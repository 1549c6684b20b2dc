"""Kernels give the same results compiled and, with numba's compiler switched off, as plain Python.

Run under ``NUMBA_DISABLE_JIT=1`` these tests also show which lines of the kernels are covered.
"""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

from skmanifold import (
    DPCategoricalMixture,
    DPMixture,
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
    SubspaceMixture,
    VonMisesFisherMixture,
    sample,
)
from skmanifold.datasets import make_categorical_mixture, make_lda_corpus
from skmanifold.emissions import Gaussian
from skmanifold.manifolds import Stiefel
from skmanifold.metrics import left_to_right
from skmanifold.models import Density, Log, LogNormalMean, gamma, standard_normal
from skmanifold.samplers import ON_DENSITIES, SGGMC, SGNHT

SAMPLERS = [
    *(sampler() for sampler in ON_DENSITIES),
    SGGMC(0.1, scheme="aboba", noise_covariance=0.5, n_steps=3),
    SGNHT(scheme="euler"),
]


def _target_of(sampler):
    if sampler.short_name in ("geometric_brownian", "sgfs"):
        positive = LogNormalMean(0.0, 1.0, [[0.3], [0.5], [0.9]], 1.0)
        return Log(positive) if sampler.short_name == "sgfs" else positive
    if sampler.short_name in ("scir", "sgrld", "sgrhmc"):
        return gamma([1.5, 12.0])
    if sampler.short_name in ("gmc", "sggmc", "gsgnht"):
        return Density(Stiefel(3, 2), lambda x: x + 1, lambda x: x.sum())
    return standard_normal(3)


def print_figures():
    """What fits, streams and evaluations give on a small corpus; 20 topics fill more than one vector of sixteen."""
    X = make_lda_corpus(30, 20, 3, mean_length=12, random_state=0).data
    for sampler in ("esca", "gibbs", "collapsed_gibbs", "cvb0", "em", "vb", "svb"):
        lda = StochasticLDA(20, sampler=sampler, max_iter=4, random_state=0).fit(X)
        figures = lda.topic_word_counts_.toarray().ravel().round(4), lda.transform(X).ravel().round(6)
        print(sampler, *[number for array in figures for number in array], round(lda.score(X), 9))
    large = X.toarray()
    large[[2, 2, 7], [3, 5, 5]] = 1500, 3_000_000, 2000  # cells that ESCA draws at once
    print("large cells", *StochasticLDA(3, max_iter=4, random_state=0).fit(large).components_.ravel().round(5))
    lda = StochasticLDA(3, random_state=0).partial_fit(X[:5]).partial_fit(X[5:10])
    print("stream", *lda.topic_word_counts_.toarray().ravel().round(2))
    for sampler in ("scir", "sgrld", "sghmc"):
        drawn = StochasticLDA(20, sampler=sampler, topic_word_prior=0.5, batch_size=15, max_iter=2, random_state=0)
        drawn.fit(X).partial_fit(X[:5])
        figures = drawn.components_.ravel().round(5), drawn.transform(X[:5]).ravel().round(5)
        print("by minibatches", sampler, *[number for array in figures for number in array])
    table = make_categorical_mixture(40, 4, 2, n_categories=3, missing=0.1, random_state=0).data
    for sampler in ("slice", "scir"):
        mixture = DPCategoricalMixture("categorical", sampler=sampler, batch_size=15, max_iter=6, random_state=0)
        mixture.fit(table)
        print("mixture", sampler, *mixture.labels_, *mixture.score_samples(table[:5]).round(9))
    mixture.partial_fit(table[:10])
    print("mixture on a stream", *mixture.score_samples(table[:5]).round(6))
    counts = X.toarray()[:, :4]
    points = (counts[:, :3] - 0.5) @ [[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.2, 0.0, 1.0]]
    holes = np.random.default_rng(0).random((30, 4)) < 0.1
    of_emissions = {
        "categorical": table,
        "multinomial": counts,
        "negative_binomial": np.where(holes, np.nan, counts),
        "poisson": np.where(holes, np.nan, counts),
        "bernoulli": np.where(holes, np.nan, counts > 0),
        "auto": np.column_stack(
            [points.astype(object), np.array(["few", "many"], object)[(counts[:, 0] > 2).astype(int)]]
        ),
        **{Gaussian(kind): np.where(holes[:, :3], np.nan, points) for kind in ("full", "tied", "diag", "spherical")},
    }
    for emission, rows in of_emissions.items():
        mixture = DPMixture(emission, batch_size=15, max_iter=6, random_state=0).fit(rows)
        if emission == "auto":
            holed = np.where(np.arange(30)[:, None] % 3 == [0, 1, 2, 0], None, rows)
            print("filled cells", *mixture.impute(holed)[:, :3].ravel(), *mixture.impute(holed, 1, 0)[0][:, :3].ravel())
        scores, new_rows = mixture.score_samples(rows[:5]).round(9), mixture.sample(4, random_state=0)[0].ravel()
        if isinstance(emission, Gaussian):  # the search for its prior ends 1e-6 from the optimum
            scores, new_rows = scores.round(5), new_rows.round(5)
        print("mixture of any number of", emission, *mixture.labels_, *scores)
        print("new rows of", emission, *new_rows)
    directions = X.toarray()[:12, :6] - 0.5
    for sampler in SphericalAdmixture._samplers:
        settings = {"max_iter": 3, "n_doc_samples": 2, "batch_size": 5, "n_importance_draws": 20, "random_state": 0}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"(batch_size|n_doc_samples)=\d+ has no effect", UserWarning)
            topics = SphericalAdmixture(2, sampler=sampler, doc_topic_prior=3.0, **settings).fit(directions)
        print("on spheres", sampler, *topics.components_.ravel().round(6))
    print("held out", *topics.score_samples(directions[:3]).round(4))
    kinds = VonMisesFisherMixture(2, random_state=0).fit(directions)
    print("mixture of directions", *kinds.score_samples(directions).round(6))
    frames = OrthogonalSphericalAdmixture(max_iter=4, n_size_moves=3, n_importance_draws=20, random_state=0).fit(
        directions
    )
    print("orthogonal", frames.n_components_, *frames.score_samples(directions[:3]).round(4))
    for sampler in SubspaceMixture._samplers:
        number = None if sampler == "slice" else 2
        flats = SubspaceMixture(number, sampler=sampler, n_init=3, max_iter=6, random_state=0).fit(directions)
        print("subspaces", sampler, *flats.dimensions_, *flats.score_samples(directions).round(6))
    of_emissions = {
        "gaussian": directions[:, :3],
        "negative_binomial": X,
        "poisson": X,
        "multinomial": X,
        "bernoulli": X > 0,
        "categorical": table,
    }
    for emission, rows in of_emissions.items():
        kinds = [
            ExponentialFamilyMixture(2, emission=emission, sampler=sampler, max_iter=4, thin=1, random_state=0).fit(
                rows
            )
            for sampler in ExponentialFamilyMixture._samplers
        ]
        kinds.append(ExponentialFamilyMixture(2, emission=emission, random_state=0).partial_fit(rows))
        figures = [
            *(kind.score_samples(rows).round(6) for kind in kinds),
            kinds[0].sample(3, random_state=0)[0].ravel(),
        ]
        print("mixture of", emission, *[number for array in figures for number in array.round(5)])
    for emission, rows in (("gaussian", X), ("poisson", X), ("bernoulli", X > 0)):
        settings = {"word_vectors": np.random.default_rng(0).normal(size=(20, 2)) if emission == "gaussian" else None}
        settings.update(emission=emission, max_iter=4, thin=1, random_state=0)
        models = [ExponentialFamilyAdmixture(18, sampler=name, **settings).fit(rows) for name in ("esca", "gibbs")]
        models.append(ExponentialFamilyAdmixture(2, **settings).partial_fit(rows))
        figures = [figure for model in models for figure in (model.components_, model.transform(rows[:5]))]
        scores = [round(model.score(rows), 7) for model in models]
        print("admixture of", emission, *[number for array in figures for number in array.ravel().round(5)], *scores)
    for sampler in SAMPLERS:
        settings = {"batch_size": 2} if sampler.short_name == "sgfs" else {}
        draws = sample(_target_of(sampler), sampler, n_draws=3, burn_in=0, n_chains=2, random_state=0, **settings)
        print(sampler, *draws.position.ravel().round(9))
    print("left to right", left_to_right(lda.components_, X[:4], [0.3] * 3, n_particles=2, n_runs=2).log_likelihood)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # of 64-bit keys, as intended
@pytest.mark.filterwarnings("ignore:.* rows of X repeat other rows exactly")
def test_kernels_give_the_same_results_compiled_and_interpreted(capsys):
    print_figures()
    here = capsys.readouterr().out
    other = {**os.environ, "NUMBA_DISABLE_JIT": "0" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else "1"}
    done = subprocess.run([sys.executable, __file__], env=other, capture_output=True, text=True, check=True)
    assert done.stdout == here
    assert here.count("\n") == 57 + len(SAMPLERS)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="overflow encountered", category=RuntimeWarning)
    warnings.filterwarnings("ignore", message=".* rows of X repeat other rows exactly")
    print_figures()
