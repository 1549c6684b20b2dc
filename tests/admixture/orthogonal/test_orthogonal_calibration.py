"""Ranks of the likelihood of two orthonormal topics among draws, proportions of documents integrated out."""

import numpy as np
import pytest

from benchmarks.calibration import directions
from benchmarks.calibration._settings import N_DRAWS, simulate
from skmanifold.metrics import calibration_test

QUANTITY = "log likelihood of the topics"
FIRST = 10_000  # data sets other than those of the stored results


def ranks(n, **fit):
    setting = next(setting for setting in directions.SETTINGS if setting.name == "orthogonal_gibbs")
    setting = setting._replace(quantities={QUANTITY: setting.quantities[QUANTITY]}, fit=fit)
    return np.array([simulate(setting, FIRST + number)[QUANTITY][0] for number in range(n)])


@pytest.mark.long
def test_the_likelihood_of_the_topics_is_calibrated():
    assert calibration_test(ranks(400), N_DRAWS).pvalue > 0.001


@pytest.mark.long
def test_another_concentration_is_found():
    assert calibration_test(ranks(100, document_concentration=4.0), N_DRAWS).pvalue < 1e-4
