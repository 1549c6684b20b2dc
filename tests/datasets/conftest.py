import pytest


@pytest.fixture
def path(tmp_path):
    """Where a corpus or a file of the test is, in a folder without other files."""
    return tmp_path / "corpus"
