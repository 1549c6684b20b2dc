"""Bessel quantities against tables of 15 to 20 digits, exact special cases, scipy, and the bounds they obey."""

import numpy as np
import pytest
from scipy.special import ive

from skmanifold.distributions import (
    bessel_ratio,
    bessel_ratio_derivative,
    inverse_bessel_ratio,
    log_iv,
    log_vmf_normalizer,
)

# V, kappa, log I_{V/2-1}, A_V, A_V'; computed with 60 digits, rounded to 20
VALUES = [
    (2, 0.001, 2.4999998437500174652e-7, 0.00049999993750001042707, 0.49999981250005208332),
    (2, 49.9, 47.028581616803370013, 0.98992872040744601954, 0.00020287760250770797796),
    (2, 50.1, 47.226571407570710197, 0.98996913309855268253, 0.00020125257600122825502),
    (2, 100000, 99993.324599984316463, 0.999994999987499875, 5.0000250003750078127e-11),
    (3, 0.1, -1.3754177876781697859, 0.033311132253989611992, 0.3326677233881650101),
    (3, 300, 296.22917022946722673, 0.99666666666666666667, 0.000011111111111111111111),
    (4, 3000, 2995.0777526621307916, 0.99950004168056163542, 1.6663887499189235602e-7),
    (7, 49, 46.073302498336296426, 0.94005045527293770853, 0.0011969225281297600988),
    (30, 20, 12.761545144377269713, 0.503997439233764345, 0.015190294356849716282),
    (60, 55, 44.535845981389380872, 0.59611084451215736449, 0.0051875005783246460323),
    (100, 7.3, -80.858354058693765034, 0.072622470652209385017, 0.0098458953085978507406),
    (101, 10, -66.359379275253847737, 0.098075699810172478752, 0.0096241590050201464954),
    (102, 10, -67.517957737694268383, 0.097131730858885977433, 0.0095349451856085654637),
    (103, 30, -9.4802957679077312642, 0.27032988112252161754, 0.0078001595557098307768),
    (300, 1, -703.28673380129041774, 0.0033332965423815020814, 0.0033332229620914251991),
    (1000, 1000, 873.48051327608122765, 0.61818681291010495934, 0.00027643824685203398696),
    (30000, 100, -70556.593518456345912, 0.0033332962995881253319, 0.000033332222337433792873),
    (30000, 100000, 98870.563754190954393, 0.86119104745100709568, 1.2774654096263062546e-6),
    (1000000, 1, -6407748.9435914676613, 9.99999999999000002e-7, 9.99999999997000006e-7),
    (1000000, 1000000, 877420.67495204549067, 0.61803414153633711911, 2.7639324723455294282e-7),
]
# V, kappa, A_V, A_V' at the largest concentration
LARGEST = [
    (2, 1e8, 0.9999999949999999875, 5.000000025000000375e-17),
    (5000, 1e8, 0.99997500531225004057, 2.4994375499915827499e-13),
    (1000000, 1e8, 0.99501250487200163541, 4.9749954121165829411e-11),
]
DIMS = np.array([2, 3, 4, 10, 50, 99, 100, 101, 102, 103, 104, 300, 5000, 1e5, 1e6])[:, np.newaxis]
CONCENTRATIONS = np.concatenate([np.logspace(-6, 8, 57), np.linspace(45.0, 55.0, 21)])


@pytest.mark.parametrize(("dim", "concentration", "log_bessel", "ratio", "derivative"), VALUES)
def test_values_of_many_digits(dim, concentration, log_bessel, ratio, derivative):
    np.testing.assert_allclose(log_iv(dim / 2 - 1, concentration), log_bessel, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(bessel_ratio(dim, concentration), ratio, rtol=5e-16)
    np.testing.assert_allclose(bessel_ratio_derivative(dim, concentration), derivative, rtol=2e-12)
    terms = (dim / 2 - 1) * np.log(concentration), -dim / 2 * np.log(2 * np.pi), -log_bessel
    error = 1e-14 * np.abs(terms).sum()
    np.testing.assert_allclose(log_vmf_normalizer(dim, concentration), sum(terms), rtol=0, atol=error)


@pytest.mark.parametrize(("dim", "concentration", "ratio", "derivative"), LARGEST)
def test_ratio_at_the_largest_concentration(dim, concentration, ratio, derivative):
    np.testing.assert_allclose(bessel_ratio(dim, concentration), ratio, rtol=5e-16)
    np.testing.assert_allclose(bessel_ratio_derivative(dim, concentration), derivative, rtol=1e-14)


def test_log_iv_agrees_with_scipy_where_scipy_does_not_underflow():
    orders = np.linspace(0.0, 60.0, 41)[:, np.newaxis]
    x = np.concatenate([np.linspace(0.5, 80.0, 60), np.logspace(2, 6, 9)])
    scaled = ive(orders, x)
    assert np.all(scaled > 1e-290)
    expected = np.log(scaled) + x
    assert np.all(np.abs(log_iv(orders, x) - expected) < 1e-12 * np.maximum(1, x))


def test_log_iv_at_zero_and_near_it():
    np.testing.assert_array_equal(log_iv([0.0, 0.5, 1e6], 0.0), [0.0, -np.inf, -np.inf])
    np.testing.assert_allclose(log_iv(1.0, 1e-300), np.log(0.5) + np.log(1e-300), rtol=1e-15)


def test_closed_forms_in_three_dimensions():
    k = np.array([0.01, 1.0, 7.0, 49.5, 50.5, 300.0, 1e8])
    np.testing.assert_allclose(bessel_ratio(3, k), 1 / np.tanh(k) - 1 / k, rtol=1e-11)
    expected = np.log(k / (2 * np.pi)) - k - np.log1p(-np.exp(-2 * k))
    np.testing.assert_allclose(log_vmf_normalizer(3, k), expected, rtol=1e-14)


def test_nothing_jumps_where_the_methods_meet():
    order = np.array([0.0, 0.5, 10.0, 30.0, 49.0, 49.99])
    seam = np.sqrt(2500.0 - order**2)
    below, above = seam * (1 - 1e-14), seam * (1 + 1e-14)
    dim = 2 * order + 2
    np.testing.assert_allclose(log_iv(order, below), log_iv(order, above), rtol=0, atol=2e-12)
    np.testing.assert_allclose(bessel_ratio(dim, below), bessel_ratio(dim, above), rtol=3e-14)
    for function in (bessel_ratio_derivative, log_vmf_normalizer):
        np.testing.assert_allclose(function(dim, below), function(dim, above), rtol=5e-12)


def test_ratio_lies_between_its_bounds():
    ratio = bessel_ratio(DIMS, CONCENTRATIONS)
    order, k = DIMS / 2 - 1, CONCENTRATIONS
    lower = k / (order + 0.5 + np.sqrt(k**2 + (order + 1.5) ** 2))
    upper = k / (order + 0.5 + np.sqrt(k**2 + (order + 0.5) ** 2))
    assert np.all(lower * (1 - 1e-15) <= ratio)
    assert np.all(ratio <= upper * (1 + 1e-15))
    assert np.all(np.diff(bessel_ratio(DIMS, np.sort(CONCENTRATIONS)), axis=1) >= 0)


def test_derivative_agrees_with_finite_differences_and_with_the_riccati_equation():
    h = 1e-4 * CONCENTRATIONS
    fourth_order = (
        8 * (bessel_ratio(DIMS, CONCENTRATIONS + h) - bessel_ratio(DIMS, CONCENTRATIONS - h))
        - (bessel_ratio(DIMS, CONCENTRATIONS + 2 * h) - bessel_ratio(DIMS, CONCENTRATIONS - 2 * h))
    ) / (12 * h)
    ratio = bessel_ratio(DIMS, CONCENTRATIONS)
    derivative = bessel_ratio_derivative(DIMS, CONCENTRATIONS)
    assert np.all(derivative > 0)
    np.testing.assert_array_less(np.abs(derivative - fourth_order), 1e-9 * derivative + 3e-16 * ratio / h)
    riccati = 1 - ratio**2 - (DIMS - 1) * ratio / CONCENTRATIONS
    np.testing.assert_array_less(np.abs(derivative - riccati), 2e-12 * derivative + 1e-15)
    np.testing.assert_allclose(bessel_ratio_derivative([2, 3, 1e6], 0.0), [1 / 2, 1 / 3, 1e-6], rtol=1e-15)


def test_normalizer_has_minus_the_ratio_for_derivative():
    k = np.logspace(-2, 4, 25)
    h = 1e-3 * k
    difference = (log_vmf_normalizer(DIMS, k + h) - log_vmf_normalizer(DIMS, k - h)) / (2 * h)
    rounding = 1e-14 * np.abs(log_vmf_normalizer(DIMS, k)) / h
    np.testing.assert_array_less(np.abs(difference + bessel_ratio(DIMS, k)), 1e-5 * bessel_ratio(DIMS, k) + rounding)


def test_normalizer_at_zero_is_one_over_the_area():
    areas = [2 * np.pi, 4 * np.pi, 2 * np.pi**2]
    np.testing.assert_allclose(log_vmf_normalizer([2, 3, 4], 0.0), -np.log(areas), rtol=1e-15)
    np.testing.assert_allclose(log_vmf_normalizer(DIMS, 1e-9), log_vmf_normalizer(DIMS, 0.0), rtol=1e-8)


def test_inverse_returns_to_the_ratio():
    ratio = np.concatenate([[0.0], np.logspace(-12, -1, 23), np.linspace(0.15, 0.95, 17), 1 - np.logspace(-2, -9, 15)])
    k = inverse_bessel_ratio(DIMS, ratio)
    np.testing.assert_allclose(bessel_ratio(DIMS, k), np.broadcast_to(ratio, k.shape), rtol=1e-15)


def test_inverse_returns_to_the_concentration():
    k = np.logspace(-6, 6, 49)
    ratio = bessel_ratio(DIMS, k)
    condition = ratio / (k * bessel_ratio_derivative(DIMS, k))
    error = np.abs(inverse_bessel_ratio(DIMS, ratio) / k - 1)
    np.testing.assert_array_less(error, 1e-15 * np.maximum(1, condition))


def test_scalars_and_broadcast():
    assert isinstance(bessel_ratio(3, 1.0), float)
    assert log_iv([[0.0], [1.0]], [1.0, 2.0, 3.0]).shape == (2, 3)
    frozen = np.array([1.0, 2.0])
    frozen.setflags(write=False)
    np.testing.assert_array_equal(bessel_ratio(3, frozen), bessel_ratio(3, [1.0, 2.0]))


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        (log_iv, (-1.0, 2.0), "order must be finite and at least 0"),
        (log_iv, (1.0, np.nan), "x must be finite"),
        (bessel_ratio, (1, 2.0), "dim must be finite and at least 2"),
        (bessel_ratio, (3, [1.0, np.inf]), "concentration must be finite"),
        (bessel_ratio_derivative, (3, -1.0), "concentration must be finite and at least 0"),
        (inverse_bessel_ratio, (3, 1.0), "ratio must be below 1"),
        (inverse_bessel_ratio, (3, -0.1), "ratio must be finite and at least 0"),
        (log_vmf_normalizer, (1.5, 1.0), "dim must be finite and at least 2"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(function, arguments, words):
    with pytest.raises(ValueError, match=words):
        function(*arguments)
