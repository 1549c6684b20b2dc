import numpy as np
import pandas as pd
import pytest

from skmanifold.mixture._memberships import read_labels


@pytest.mark.parametrize("labels", [[2, 0, 1], np.array([2.0, 0.0, 1.0]), pd.Series([2, 0, 1], dtype="uint8")])
def test_whole_numbers_of_any_type_are_labels(labels):
    read = read_labels(labels, 3, 3, "init must be")
    assert read.dtype == np.int64
    assert read.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("labels", "got"),
    [
        ([0, 0.5, 1], "got 0.5 for row 1."),
        ([0, 1, 3], "got 3 for row 2."),
        ([-1, 1, 2], "got -1 for row 0."),
        ([0, np.nan, 1], "got nan for row 1."),
        ([0, 1], "got shape (2,) and type int64."),
        (["a", "b", "c"], "got shape (3,) and type <U1."),
    ],
)
def test_what_is_no_label_is_named(labels, got):
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        read_labels(labels, 3, 3, "init must be")
    assert str(refused.value) == f"init must be 3 whole numbers from 0 to 2, one for each row; {got}"
