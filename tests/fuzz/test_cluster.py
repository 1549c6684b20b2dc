"""Faults at random moments of fits on a cluster: the same bytes or one sentence, and never a hang."""

import importlib

import pytest

from fuzz._cases import failures

pytest.importorskip("distributed", reason="fits on a cluster need dask[distributed]")
LIMIT = 180.0  # seconds a case: a cluster without workers is waited for for a minute


@pytest.mark.long
def test_faults_at_random_moments():
    assert failures("_cluster_door", range(30), limit=LIMIT) == []


@pytest.mark.long
def test_other_bytes_are_reported():
    # this seed's faults are deaths and pauses, which a fit survives
    door = importlib.import_module("fuzz._cluster_door")
    assert door.check(b"of another fit", 1) == "the fit ended with other bytes."
