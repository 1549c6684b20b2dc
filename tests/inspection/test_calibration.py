import matplotlib.pyplot as plt
import numpy as np
import pytest

from skmanifold.inspection import CalibrationDisplay
from skmanifold.metrics import calibration_band, calibration_test


def test_lines_are_distribution_functions_minus_uniform():
    rng = np.random.default_rng(0)
    ranks = {"right": rng.integers(0, 20, 300), "too small": rng.integers(5, 20, 300)}
    display = CalibrationDisplay.from_ranks(ranks, 19)
    for name, values in ranks.items():
        expected = [np.mean(values <= j) - (j + 1) / 20 for j in range(20)]
        np.testing.assert_allclose(display.differences[name], expected, atol=1e-12)
        assert display.pvalues[name] == calibration_test(values, 19).pvalue
    np.testing.assert_allclose(display.band, calibration_band(300, 19) - np.arange(1, 21) / 20)
    lines = display.ax_.get_lines()[1:]
    assert [line.get_label() for line in lines] == [
        f"right (p = {display.pvalues['right']:.2g})",
        "too small (p < 0.001)",
    ]
    assert np.any(display.differences["too small"] < display.band[0])
    assert np.all(display.differences["right"] >= display.band[0])


def test_one_array_given_axes_and_bad_ranks():
    _, ax = plt.subplots()
    display = CalibrationDisplay.from_ranks([0, 1, 2, 3], 3, ax=ax, linewidth=3)
    assert display.ax_ is ax
    assert ax.get_lines()[1].get_linewidth() == 3
    with pytest.raises(ValueError, match="same number"):
        CalibrationDisplay.from_ranks({"a": [0, 1], "b": [0]}, 3)
    with pytest.raises(ValueError, match="n_draws=3"):
        CalibrationDisplay.from_ranks([4], 3)
