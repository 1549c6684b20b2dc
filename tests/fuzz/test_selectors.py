"""Columns as users name them: by names, indices, slices and masks of all libraries."""

import pytest

from fuzz._cases import by_seeds, failures


@by_seeds(range(100), range(10_000, 15_000))
def test_the_columns_that_are_meant_are_chosen(seeds):
    assert failures("_selector_door", seeds) == []


@pytest.mark.long
def test_a_mask_that_is_read_as_indices_is_reported(monkeypatch):
    monkeypatch.setenv("FUZZ_BROKEN", "1")
    found = failures("_selector_door", range(100))
    assert any("mask, list" in told for told in found)
