"""Generators of data: seeds, and parameters that are refused in one sentence."""

import itertools

import numpy as np
import pytest
from samplers._evidence import assert_agrees, summarize
from scipy.stats import beta, kstest
from threadpoolctl import threadpool_limits

from skmanifold.datasets import make_lda_corpus, make_subspaces
from skmanifold.datasets._synthetic import make_categorical_mixture
from skmanifold.datasets._synthetic_geometry import make_spherical_admixture

MAKERS = {
    make_lda_corpus: {"n_samples": 20, "n_features": 300, "n_components": 4},
    make_categorical_mixture: {"n_samples": 50, "n_features": 4, "n_components": 3, "missing": 0.1},
    make_spherical_admixture: {"n_samples": 50, "n_features": 10, "n_components": 3},
    make_subspaces: {"n_samples": 50},
}
BAD = {
    make_lda_corpus: [
        ({"n_samples": 0}, r"n_samples must be an int of at least 1; got 0\."),
        ({"n_features": 2.0}, r"n_features must be an int of at least 1; got 2\.0\."),
        ({"n_components": True}, r"n_components must be an int of at least 1; got True\."),
        ({"mean_length": 0}, r"mean_length must be a finite number above 0; got 0\."),
        ({"mean_length": "long"}, r"mean_length must be a finite number above 0; got 'long'\."),
        ({"length_dispersion": -1.0}, r"length_dispersion must be a finite number of at least 0; got -1\.0\."),
        ({"topic_word_prior": np.nan}, r"topic_word_prior must be a finite number above 0; got nan\."),
        ({"zipf_exponent": np.inf}, r"zipf_exponent must be a finite number of at least 0; got inf\."),
        ({"doc_topic_prior": 0.0}, r"doc_topic_prior must be a finite number above 0; got 0\.0\."),
        ({"doc_topic_prior": [0.1, 0.2]}, r"doc_topic_prior must be a number or an array of 10 finite numbers above 0"),
        ({"doc_topic_prior": [0.1] * 9 + [-1]}, r"doc_topic_prior must be a number or an array of 10"),
        ({"dtype": np.int32}, r"dtype must be np\.float64 or np\.float32"),
    ],
    make_categorical_mixture: [
        ({"n_samples": 0}, r"n_samples must be an int of at least 1; got 0\."),
        ({"n_features": 2.0}, r"n_features must be an int of at least 1; got 2\.0\."),
        ({"n_components": True}, r"n_components must be an int of at least 1; got True\."),
        ({"n_categories": [2, 3]}, r"n_categories must be an int of at least 1; got \[2, 3\]\."),
        ({"category_prior": 0}, r"category_prior must be a finite number above 0; got 0\."),
        ({"missing": -0.1}, r"missing must be a finite number of at least 0; got -0\.1\."),
        ({"missing": 1.0}, r"missing must be a number below 1; got 1\.0\."),
        ({"weights": [0.5, 0.5]}, r"weights must be None or an array of 5 finite numbers of at least 0"),
        ({"weights": [1, 1, 1, 1, -1]}, r"weights must be None or an array of 5"),
        ({"weights": [1, 1, 1, 1, np.inf]}, r"weights must be None or an array of 5"),
        ({"weights": [0] * 5}, r"weights must be None or an array of 5 .* not all 0\."),
        ({"weights": [*"abcde"]}, r"weights must be None or an array of 5"),
    ],
    make_spherical_admixture: [
        ({"n_samples": 0}, r"n_samples must be an int of at least 1; got 0\."),
        ({"n_features": 1}, r"n_features must be at least 2, because directions need two features\."),
        ({"n_components": 2.0}, r"n_components must be an int of at least 1; got 2\.0\."),
        ({"doc_topic_prior": 0}, r"doc_topic_prior must be a finite number above 0; got 0\."),
        ({"doc_topic_prior": [1, 2]}, r"doc_topic_prior must be a number or an array of 5 finite numbers above 0"),
        ({"document_concentration": -1}, r"document_concentration must be a finite number of at least 0; got -1\."),
        ({"topic_concentration": np.inf}, r"topic_concentration must be a finite number of at least 0; got inf\."),
        ({"mean_concentration": "auto"}, r"mean_concentration must be a finite number of at least 0; got 'auto'\."),
        ({"n_words": 0}, r"n_words must be None or an int from 1 to n_features=100; got 0\."),
        ({"n_words": 101}, r"n_words must be None or an int from 1 to n_features=100; got 101\."),
        ({"n_words": 0.5}, r"n_words must be None or an int from 1 to n_features=100; got 0\.5\."),
    ],
    make_subspaces: [
        ({"n_samples": 0}, r"n_samples must be an int of at least 1; got 0\."),
        ({"n_samples": [10]}, r"n_samples must be an int of at least 1 or a sequence of 2 of them"),
        ({"n_samples": [10, 0]}, r"n_samples must be an int of at least 1 or a sequence of 2 of them"),
        ({"n_samples": [1, 1], "weights": [1, 1]}, r"weights must be None if n_samples is a sequence"),
        ({"n_features": 0}, r"n_features must be an int of at least 1; got 0\."),
        ({"dimensions": (1, 4)}, r"dimensions must be a sequence of ints from 0 to n_features=3, one per component"),
        ({"dimensions": (1, 1.0)}, r"dimensions must be a sequence of ints from 0 to n_features=3"),
        ({"dimensions": ()}, r"dimensions must be a sequence of ints from 0 to n_features=3"),
        ({"dimensions": 2}, r"dimensions must be a sequence of ints from 0 to n_features=3, .* got 2\."),
        ({"noise_precision": 0}, r"noise_precision must be a finite number above 0; got 0\."),
        ({"noise_precision": np.inf}, r"noise_precision must be a finite number above 0; got inf\."),
        ({"weights": [1, 2, 3]}, r"weights must be None or an array of 2 finite numbers of at least 0"),
        ({"shuffle": "no"}, r"shuffle must be True or False; got 'no'\."),
    ],
}


def arrays(made):
    """All that was made, as arrays, without what does not depend on the seed."""
    fixed = {"weights", "mean_direction", "noise_variance"}
    for name in made.keys() - fixed:
        for i, part in enumerate(made[name] if isinstance(made[name], list) else [made[name]]):
            if np.ndim(part) or hasattr(part, "toarray"):
                yield (name, i), part.toarray() if hasattr(part, "toarray") else np.asarray(part)


@pytest.mark.parametrize("make", MAKERS)
def test_a_seed_decides_and_a_random_state_is_moved_on(make):
    state = np.random.RandomState(3)
    first, again, other, moved, later = (
        dict(arrays(make(**MAKERS[make], random_state=seed))) for seed in (3, 3, 4, state, state)
    )
    assert ("data", 0) in first
    for name, array in first.items():
        np.testing.assert_array_equal(array, again[name])
        np.testing.assert_array_equal(array, moved[name])
        assert not np.array_equal(array, other[name], equal_nan=True)
        assert not np.array_equal(array, later[name], equal_nan=True)


@pytest.mark.parametrize(
    ("make", "parameters", "sentence"), [(make, *case) for make, bad in BAD.items() for case in bad]
)
def test_bad_parameters_are_refused_in_one_sentence(make, parameters, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}"):
        make(**parameters)


PROPORTIONS = {
    "lda": lambda prior: make_lda_corpus(20_000, 2, 3, doc_topic_prior=prior, random_state=2).proportions,
    "spherical": lambda prior: (
        make_spherical_admixture(20_000, 5, 3, doc_topic_prior=prior, random_state=5).proportions
    ),
    "categorical": lambda prior: make_categorical_mixture(
        1, 20_000, 1, n_categories=3, category_prior=prior, random_state=4
    ).components[0],
}
PRIORS = [*itertools.product(PROPORTIONS, (0.3, 1.0, 20.0)), ("lda", [0.1, 0.7, 3.0]), ("spherical", [0.1, 0.7, 3.0])]


@pytest.mark.parametrize(("name", "prior"), PRIORS)
def test_proportions_have_dirichlet_margins(name, prior):
    alpha = np.broadcast_to(prior, 3)
    proportions = PROPORTIONS[name](prior)
    assert_agrees(summarize(proportions), alpha / alpha.sum())
    for column, a in zip(proportions.T, alpha, strict=True):
        assert kstest(column, beta(a, alpha.sum() - a).cdf).pvalue > 1e-3
        assert kstest(column, beta(1.1 * a, alpha.sum() - a).cdf).pvalue < 1e-3


@pytest.mark.parametrize(
    "draw",
    [
        lambda: make_spherical_admixture(500, 300, 20, random_state=1).data,
        lambda: (made := make_subspaces(1000, 200, (20, 100), random_state=1)).log_densities(made.data),
    ],
    ids=["spherical", "subspaces"],
)
def test_number_of_blas_threads_changes_nothing(draw):
    found = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            found.append(draw())
    np.testing.assert_array_equal(*found)
