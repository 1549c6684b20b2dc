"""The runner of cases: what kills a process, or never ends, is one failure, and the cases after it are tried."""

import pytest

from fuzz._cases import failures


@pytest.mark.long
def test_a_crash_an_endless_case_and_an_error_are_one_failure_each():
    found = failures("_bad_door", range(6), limit=2.0, compiler_limit=0.0)
    told = "\n".join(found)
    assert len(found) == 4
    assert "seed 1: the process ended with -11" in told
    assert "seed 2: no answer within 2 s" in told
    assert "seed 3: Traceback" in told
    assert "seed 4: wrong" in told
