"""The slice sampler has the exact posterior of five rows for each emission, with and without missing cells.

Wrong variants go through the same checks, and fail.
"""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize

from skmanifold.samplers import Slice
from skmanifold.utils._threads import Workers

from . import _tiny_partitions as tiny
from ._emission_evidence import PRIORS, clusters_of, estimate, joint_difference, posterior_of, with_pairs
from ._emission_partitions import CASES

SAMPLERS = {  # with the size of minibatches
    "rows": (Slice(0), None),
    "split-merge": (Slice(2), None),
    "minibatches": (Slice(0), 2),
    "minibatches, split-merge": (Slice(1, 1), 2),
}
SHORT = [  # of each emission minibatches with split-merge moves and missing cells, or all rows if it has no such case
    f"{name}-{'minibatches, split-merge-learned' if rows.missing.any() else 'rows-given'}"
    for name, rows in CASES.items()
    if name != "full, one missing" and f"{name}, missing" not in CASES  # the former is as "full, missing"
]
WITH_DEGREES = [name for name, rows in CASES.items() if "degrees" in rows.hyper]
WITH_MISSING = [name for name, rows in CASES.items() if rows.missing.any()]


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", CASES)
def test_exact_draws_have_the_exact_expectations(name, prior):
    posterior = posterior_of(name, prior)
    alphas, labels = posterior.draws(4000, np.random.default_rng(0))
    assert_agrees(summarize(with_pairs(labels, alphas, posterior.learned)), posterior.expected())


PARTITIONS = [(0, 0, 0, 0, 0), (0, 1, 0, 1, 0), (0, 0, 1, 0, 2), (0, 1, 2, 3, 4)]


@pytest.mark.extended
@pytest.mark.parametrize(
    "name", [name for name, rows in CASES.items() if not (rows.has_missing_draws and rows.missing.any())]
)
def test_likelihoods_of_partitions_are_those_of_the_package(name):
    rows = CASES[name]
    if rows.has_missing_draws and rows.missing.any():
        pytest.skip("its missing cells are part of a sampler's state")
    clusters = clusters_of(rows)
    for labels in PARTITIONS:
        statistics = clusters.no_statistics(5)
        clusters.count(np.array(labels, np.int32), statistics, Workers(1))
        expected = rows.log_likelihood(tiny.clusters_of(labels))
        assert clusters.log_marginal(statistics) == pytest.approx(expected, rel=1e-9)


# --- the posterior of five rows --------------------------------------------------------------------------


@pytest.mark.extended
@pytest.mark.short_cases(*SHORT, "multinomial-minibatches, split-merge-learned")
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", CASES)
def test_slice_leaves_the_posterior_alone(name, sampler, prior):
    posterior = posterior_of(name, prior)
    found = estimate(SAMPLERS[sampler][0], posterior, SAMPLERS[sampler][1])
    assert found.error[:5].max() < 0.04
    assert_agrees(found, posterior.expected())


@pytest.mark.long
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", CASES)
def test_slice_leaves_the_posterior_alone_in_long_chains(name, sampler):
    posterior = posterior_of(name, "learned")
    found = estimate(SAMPLERS[sampler][0], posterior, SAMPLERS[sampler][1], n_chains=300, n_steps=100)
    assert_agrees(found, posterior.expected())


# --- wrong variants --------------------------------------------------------------------------------------


@pytest.mark.extended
@pytest.mark.short_cases("full", "diag, missing")
@pytest.mark.parametrize("name", WITH_DEGREES)
def test_one_degree_of_freedom_less_is_found_out(name):
    posterior = posterior_of(name, "given")
    wrong = posterior.rows.changed(degrees=posterior.rows.hyper["degrees"] - 1)
    found = estimate(Slice(2), posterior, rows=wrong, n_chains=80, n_steps=60)
    assert_disagrees(found, posterior.expected())


@pytest.mark.extended
def test_counts_without_dispersion_are_found_out():
    posterior = posterior_of("negative binomial", "given")
    wrong = posterior.rows.changed(dispersion=(1e-4, 1e-4))
    found = estimate(Slice(2), posterior, rows=wrong, n_chains=60, n_steps=40)
    assert_disagrees(found, posterior.expected())


@pytest.mark.extended
@pytest.mark.short_cases("directions, shared-change1")
@pytest.mark.parametrize("change", [{"strength": 6.0}, {"cosine": 0.05}])
@pytest.mark.parametrize("name", ["directions", "directions, shared"])
def test_another_prior_of_concentrations_is_found_out(name, change):
    posterior = posterior_of(name, "given")
    wrong = posterior.rows.changed(**change)
    found = estimate(Slice(2), posterior, rows=wrong, n_chains=80, n_steps=60)
    assert_disagrees(found, posterior.expected())


@pytest.mark.extended
@pytest.mark.short_cases("full, missing", "poisson, missing")
@pytest.mark.parametrize("name", WITH_MISSING)
def test_zeros_for_missing_cells_are_found_out(name):
    posterior = posterior_of(name, "given")
    found = estimate(Slice(2), posterior, rows=posterior.rows.read_as_zero(), n_chains=60, n_steps=40)
    assert_disagrees(found, posterior.expected())


# --- the joint distribution of parameters and data -------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("sampler", ["split-merge", "minibatches"])
@pytest.mark.parametrize("name", CASES)
def test_slice_leaves_the_joint_distribution_alone(name, sampler):
    difference = joint_difference(SAMPLERS[sampler][0], CASES[name], SAMPLERS[sampler][1], n_chains=120, n_steps=100)
    assert_agrees(difference, 0.0)


@pytest.mark.long
@pytest.mark.parametrize("name", WITH_DEGREES)
def test_the_joint_distribution_finds_another_prior_out(name):
    def wrong(rows):
        return rows.changed(degrees=rows.hyper["degrees"] - 1)

    difference = joint_difference(Slice(2), CASES[name], wrong=wrong, n_chains=400, n_steps=100)
    assert_disagrees(difference, 0.0)
