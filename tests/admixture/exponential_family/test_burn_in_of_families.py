"""Larger priors of the proportions in burn-in: `doc_topic_prior=None`, if initial components are random."""

import numpy as np
import pytest

from skmanifold import distributed
from skmanifold.admixture._exponential_family.model import FamilyTokenModel

from .._corpora import learned, spy_on_priors
from ._family_data import EMISSIONS, make, small_rows

SAMPLERS = ("esca", "gibbs")


def priors_of_passes(monkeypatch, emission, **settings):
    """The prior of the proportions in each pass of a fit, as the samplers see it."""
    names = ("sample_latents", "sample_rows")
    seen = spy_on_priors(monkeypatch, FamilyTokenModel, names)
    model = make(emission, **{"max_iter": 20, "burn_in": 10, **settings}).fit(small_rows(emission))
    return np.array(seen), model


def test_clusters_of_vectors_have_one_prior(monkeypatch):
    seen, _ = priors_of_passes(monkeypatch, "gaussian")
    np.testing.assert_array_equal(seen, np.full((20, 3), 1 / 3))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("emission", EMISSIONS)
def test_rows_in_shards_have_the_same_priors(emission, sampler):
    X = small_rows(emission)
    here = make(emission, sampler=sampler).fit(X)
    with distributed(None):
        there = make(emission, sampler=sampler).fit(X)
    assert learned(here) == learned(there)
    given = make(emission, sampler=sampler, doc_topic_prior=1 / 3).fit(X)
    assert np.array_equal(here.log_density_trace_, given.log_density_trace_) == (emission == "gaussian")
