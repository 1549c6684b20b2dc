"""Hundreds of files are written: nobody waits until the disk has them."""

import os

import pytest


@pytest.fixture(autouse=True)
def _no_wait_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
