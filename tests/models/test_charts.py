"""Charts: the exact gradient and the right measure in every coordinate system, and no more than the target offers."""

import pickle

import numpy as np
import pytest
from scipy.special import gammaln

from skmanifold.manifolds import Euclidean, PositiveOrthant, Simplex, Sphere
from skmanifold.models import Density, HasCounts, HasGradient, HasGradientDeviations, HasLogDensity, Linear
from skmanifold.models._charts import Chart, ExpandedMean, Log, Softmax, SquareRoot
from skmanifold.models._euclidean_charts import CHARTS, Mirror
from skmanifold.models._reference import banana, dirichlet, double_well, gamma
from skmanifold.utils._parameters import offers

from ._numerics import (
    check_chains_do_not_mix,
    check_gradient,
    check_minibatches,
    expectations,
    gradient_of,
    random_positions,
    small_log_normal,
    small_posterior,
    square_grid,
)

ALPHA = np.array([0.7, 1.5, 3.0])
ROWS = np.array([[0.7, 1.5, 3.0, 0.2], [2.0, 1.0, 0.5, 4.0]])
SIMPLEX_CHARTS = [ExpandedMean, Softmax, SquareRoot]


def tilted(constant=0.0):
    """No conjugate density, whose gradient may be extended off the simplex by a constant along (1, ..., 1)."""
    w = np.array([[1.0, -2.0, 0.5], [0.3, 0.1, 4.0]])
    return Density(
        Simplex(3, n_points=2),
        grad_log_density=lambda x: w * np.cos(w * x) + 1 / (1 + x) + constant,
        log_density=lambda x: (np.sin(w * x) + np.log1p(x)).sum(),
    )


SIMPLEX_TARGETS = {
    "dirichlet": lambda: dirichlet(ALPHA),
    "rows": lambda: dirichlet(ROWS),
    "tilted": tilted,
    "posterior": small_posterior,
}
CHARTED = {
    **{
        f"{c.__name__}-{name}": (lambda c=c, t=t: c(t())) for c in SIMPLEX_CHARTS for name, t in SIMPLEX_TARGETS.items()
    },
    "ExpandedMean-total": lambda: ExpandedMean(dirichlet(ALPHA), total=0.3),
    "ExpandedMean-totals": lambda: ExpandedMean(dirichlet(ROWS), total=[5.4, 7.5]),
    "Log-gamma": lambda: Log(gamma([[0.3, 2.0], [1.0, 5.0]])),
    "Log-log-normal": lambda: Log(small_log_normal()),
    "Log-ExpandedMean": lambda: Log(ExpandedMean(dirichlet(ROWS), total=2.0)),
    "Mirror-gamma": lambda: Mirror(gamma([[0.3, 2.0], [1.0, 5.0]])),
    "Mirror-ExpandedMean": lambda: Mirror(ExpandedMean(dirichlet(ROWS), total=2.0)),
    "Linear-matrix": lambda: Linear(banana(), [[2.0, 0.6], [0.6, 0.5]]),
    "Linear-diagonal": lambda: Linear(banana(), [0.3, 2.0]),
    "Linear-rows": lambda: Linear(
        Density(Euclidean((2, 2)), lambda x: -np.sinh(x), log_density=lambda x: -np.cosh(x).sum()),
        np.diag([1, 2, 3, 4.0]),
    ),
}


@pytest.fixture(params=CHARTED, name="chart")
def make_chart(request):
    return CHARTED[request.param]()


def test_gradient_is_that_of_the_log_density(chart):
    check_gradient(chart, random_positions(chart))


def test_chains_do_not_mix(chart):
    check_chains_do_not_mix(chart, random_positions(chart, 5))


def test_points_and_coordinates(chart):
    position = random_positions(chart, 4)
    x = chart.point(position)
    chart.target.manifold.check_point(x)
    y = chart.coordinates(x)
    chart.manifold.check_point(y)
    assert y.shape == position.shape
    np.testing.assert_allclose(chart.point(y), x, rtol=1e-12)
    np.testing.assert_array_equal(chart.point(position[0]), x[0])  # no leading axis, or two
    np.testing.assert_array_equal(chart.point(position[np.newaxis]), x[np.newaxis])
    np.testing.assert_allclose(chart.coordinates(x[0]), y[0], rtol=1e-15 if "Linear" not in repr(chart) else 1e-12)


def test_inputs_are_not_written_to(chart):
    position = random_positions(chart)
    before = position.copy()
    gradient_of(chart, position)
    chart.log_density(position)
    chart.coordinates(chart.point(position))
    np.testing.assert_array_equal(position, before)


@pytest.mark.parametrize(
    ("chart", "target", "manifold"),
    [
        (ExpandedMean, dirichlet(ALPHA), PositiveOrthant(3)),
        (ExpandedMean, dirichlet(ROWS), PositiveOrthant((2, 4))),
        (Softmax, dirichlet(ALPHA), Euclidean(2)),
        (Softmax, dirichlet(ROWS), Euclidean((2, 3))),
        (SquareRoot, dirichlet(ALPHA), Sphere(3)),
        (SquareRoot, dirichlet(ROWS), Sphere(4, n_points=2)),
        (Log, gamma(ROWS), Euclidean((2, 4))),
        (Log, ExpandedMean(dirichlet(ROWS)), Euclidean((2, 4))),
    ],
)
def test_where_charts_live(chart, target, manifold):
    made = chart(target)
    assert type(made.manifold) is type(manifold)
    assert made.manifold.get_params() == manifold.get_params()
    assert made.noise_covariance is None
    assert repr(made) == f"{chart.__name__}({target!r})"


@pytest.mark.parametrize("chart", SIMPLEX_CHARTS)
def test_extension_off_the_simplex_does_not_matter(chart):
    one, other = chart(tilted()), chart(tilted(constant=50.0))
    position = random_positions(one)
    expected = gradient_of(one, position)
    np.testing.assert_allclose(gradient_of(other, position), expected, atol=1e-12 * 50 * np.abs(expected).max())


# The right measure


def dirichlet_moments(a):
    mean = a / a.sum()
    return mean, (np.diag(mean) + a.sum() * np.outer(mean, mean)) / (a.sum() + 1)


def octant_of_the_sphere(n=40):
    """Gauss-Legendre points and weights of the part of the sphere with positive coordinates, ``(n * n, 3)``."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    z, w = (nodes + 1) / 2, weights / 2
    polar, azimuth = np.meshgrid(z * np.pi / 2, z * np.pi / 2, indexing="ij")
    points = np.stack(
        [np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)], axis=-1
    ).reshape(-1, 3)
    return points, (np.outer(w, w) * (np.pi / 2) ** 2 * np.sin(polar)).ravel()


def without_jacobian(chart):
    """The chart of the same name that forgets the change of measure."""
    return type(chart.__name__, (chart,), {"_log_jacobian": lambda self, y: np.zeros((len(y), 1))})


def simplex_quadrature(chart):
    """Dirichlet concentrations, coordinates and weights to integrate over them, for each chart."""
    if issubclass(chart, Softmax):
        y, cell = square_grid(-45, 45, 300, 2)
        return ALPHA, y, cell
    if issubclass(chart, SquareRoot):
        u, weights = octant_of_the_sphere()
        return np.array([1.0, 1.5, 2.0]), u, weights
    logs, cell = square_grid(-30, 5, 350, 2)
    theta = np.exp(logs)
    return np.array([0.7, 1.5]), theta, cell * theta.prod(axis=1)


@pytest.mark.parametrize("chart", SIMPLEX_CHARTS)
def test_law_of_the_points_is_the_targets(chart):
    alpha, y, weights = simplex_quadrature(chart)
    made = chart(dirichlet(alpha))
    x = made.point(y)
    (mean, second), _ = expectations(made, y, weights, [x, x[:, :, np.newaxis] * x[:, np.newaxis]])
    expected_mean, expected_second = dirichlet_moments(alpha)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-7)
    np.testing.assert_allclose(second, expected_second, rtol=1e-7)


@pytest.mark.parametrize("chart", SIMPLEX_CHARTS)
def test_law_without_the_jacobian_is_another(chart):
    alpha, y, weights = simplex_quadrature(chart)
    if chart is ExpandedMean:  # without e^-s there is no law at all
        wrong = ExpandedMean(dirichlet(alpha), total=1.0)
        (mean,), _ = expectations(wrong, y, weights / y.sum(axis=1), [y.sum(axis=1)])
        assert abs(mean - 1) > 0.1
        return
    made = without_jacobian(chart)(dirichlet(alpha + 1 if chart is Softmax else alpha))
    (mean,), _ = expectations(made, y, weights, [made.point(y)])
    expected = dirichlet_moments(alpha + 1 if chart is Softmax else alpha)[0]
    assert np.abs(mean - expected).max() > 0.02


def test_normalisers():
    """With respect to its base measure, every chart has the mass of the Dirichlet, up to the factor that it drops."""
    for chart, factor in ((Softmax, 0.0), (SquareRoot, -2 * np.log(2)), (ExpandedMean, gammaln(2.0))):
        alpha, y, weights = simplex_quadrature(chart)
        _, log_mass = expectations(chart(dirichlet(alpha)), y, weights, [])
        np.testing.assert_allclose(log_mass, gammaln(alpha).sum() - gammaln(alpha.sum()) + factor, atol=1e-7)


def test_sum_of_an_expanded_row_is_gamma_and_independent():
    alpha, theta, weights = simplex_quadrature(ExpandedMean)
    s = theta.sum(axis=1)
    x = theta / s[:, np.newaxis]
    for total in (None, 0.8, 3.5):
        made = ExpandedMean(dirichlet(alpha), total=total)
        (mean, square, cross), _ = expectations(made, theta, weights, [s, s * s, s * x[:, 0]])
        a = 2.0 if total is None else total
        np.testing.assert_allclose([mean, square, cross], [a, a * (a + 1), a * alpha[0] / alpha.sum()], rtol=1e-6)


def test_expanded_dirichlet_is_independent_gammas():
    made = ExpandedMean(dirichlet(ROWS), total=ROWS.sum(axis=1))
    position = random_positions(made)
    expected = gamma(ROWS)
    np.testing.assert_allclose(gradient_of(made, position), gradient_of(expected, position), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(made.log_density(position), expected.log_density(position), rtol=1e-12)


def test_log_density_on_sphere_and_gradient_of_dirichlets():
    u = random_positions(SquareRoot(dirichlet(ALPHA)), 6)
    np.testing.assert_allclose(
        SquareRoot(dirichlet(ALPHA)).log_density(u), ((2 * ALPHA - 1) * np.log(np.abs(u))).sum(axis=1), rtol=1e-12
    )
    uniform = SquareRoot(dirichlet(np.full(3, 0.5)))
    np.testing.assert_allclose(uniform.log_density(u), 0, atol=1e-12)
    np.testing.assert_allclose(gradient_of(uniform, u), 0, atol=1e-11)
    np.testing.assert_allclose(
        SquareRoot(dirichlet(ALPHA)).log_density(-u), SquareRoot(dirichlet(ALPHA)).log_density(u)
    )
    tangent = gradient_of(SquareRoot(tilted()), random_positions(SquareRoot(tilted())))
    np.testing.assert_allclose((tangent * random_positions(SquareRoot(tilted()))).sum(axis=-1), 0, atol=1e-12)


def test_log_of_a_gamma():
    a = np.array([2.5])
    y, cell = square_grid(-30, 6, 2000, 1)
    for chart, right in ((Log, True), (without_jacobian(Log), False)):
        made = chart(gamma(a))
        x = made.point(y)[:, 0]
        (mean, square), log_total = expectations(made, y, cell, [x, x * x])
        assert np.allclose([mean, square, log_total], [2.5, 2.5 * 3.5, gammaln(2.5)], rtol=1e-9) is right


def test_mirror_is_the_same_in_every_orthant():
    chart = Mirror(gamma([0.4, 3.0]))
    y = np.array([[0.3, 2.0]])
    signs = np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    np.testing.assert_array_equal(chart.point(signs * y), np.repeat(y, 4, axis=0))
    np.testing.assert_allclose(signs * gradient_of(chart, signs * y), [np.array([-0.6, 2.0]) / y[0] - 1] * 4)
    assert np.ptp(chart.log_density(signs * y)) == 0


# The edge of float64


@pytest.mark.parametrize("alpha", [0.001, 0.1, 1000.0])
def test_softmax_stays_finite_beyond_underflow(alpha):
    a = np.array([alpha, 2.0, 3.0])
    chart = Softmax(dirichlet(a))
    position = np.array([[-2000.0, 0.0], [-700.0, 1.0], [2000.0, 0.0], [0.0, 1e6], [-1e6, -1e6]])
    gradient, value = gradient_of(chart, position), chart.log_density(position)
    assert np.isfinite(gradient).all()
    assert np.isfinite(value).all()
    x = chart.point(position)
    np.testing.assert_allclose(gradient, (a - a.sum() * x)[:, :2], rtol=1e-12, atol=1e-12 * a.sum())
    assert x.min() > 0


def test_other_charts_stay_finite_at_the_boundary():
    a = np.array([0.1, 2.0, 300.0])
    theta = np.array([[0.0, 1.0, 2.0], [1e-320, 1e-300, 3.0], [0.0, 0.0, 4.0]])
    expanded = ExpandedMean(dirichlet(a), total=a.sum())
    gradient = gradient_of(expanded, theta)
    assert np.isfinite(gradient).all()
    assert np.isfinite(expanded.log_density(theta)).all()
    scaled = np.maximum(theta, 1e-290)
    np.testing.assert_allclose(scaled * gradient, a - 1 - theta, rtol=1e-12, atol=1e-10)
    assert np.isfinite(theta * gradient).all()  # G^-1 times the gradient, as diffusions take it

    u = np.array([[0.0, 0.6, 0.8], [-0.0, -1.0, 0.0], [1e-200, 0.0, 1.0]])
    root = SquareRoot(dirichlet(a))
    assert np.isfinite(gradient_of(root, u)).all()
    assert np.isfinite(root.log_density(u)).all()
    np.testing.assert_allclose(gradient_of(root, u)[0, 0] * 1e-145, 2 * 0.1 - 1, rtol=1e-12)
    np.testing.assert_allclose(gradient_of(root, u)[1, 0] * -1e-145, 2 * 0.1 - 1, rtol=1e-12)

    log = Log(gamma(a))
    y = np.array([[-5000.0, -700.0, 0.0]])
    np.testing.assert_allclose(gradient_of(log, y), [[0.1, 2.0, 299.0]], rtol=1e-12)
    assert np.isfinite(log.log_density(y)).all()
    assert np.isfinite(log.point(np.array([5000.0, 0, 0]))).all()

    for chart in (expanded, root, Softmax(dirichlet(a))):
        assert np.isfinite(chart.coordinates(np.array([0.0, 0.0, 1.0]))).all()


# Minibatches


@pytest.mark.parametrize(
    "chart",
    [*(c(small_posterior()) for c in SIMPLEX_CHARTS), Log(small_log_normal()), Log(ExpandedMean(small_posterior()))],
    ids=repr,
)
def test_minibatches_and_their_deviations(chart):
    assert chart.n_samples == 5
    check_minibatches(chart, random_positions(chart)[0])
    small = chart.minibatched(2)
    assert type(small) is type(chart)
    assert small.target.batch_size == 2
    check_chains_do_not_mix(small, random_positions(chart, 4), np.arange(4, dtype=np.uint64))


def test_total_survives_minibatching():
    chart = ExpandedMean(small_posterior(), total=1.5)
    position = random_positions(chart)
    np.testing.assert_array_equal(chart.minibatched(2).log_density(position), chart.log_density(position))
    assert chart.minibatched(2).total == 1.5


# What is offered


def test_offers_what_the_target_offers():
    simplex = Simplex(3)
    everything = Softmax(small_posterior())
    assert offers(everything, HasGradientDeviations)
    assert offers(everything, HasLogDensity)
    gradient_only = Softmax(Density(simplex, grad_log_density=lambda x: x))
    assert offers(gradient_only, HasGradient)
    assert not hasattr(gradient_only, "log_density")
    assert not hasattr(gradient_only, "grad_with_deviations")
    value_only = Softmax(Density(simplex, log_density=lambda x: 0.0))
    assert offers(value_only, HasLogDensity)
    assert not hasattr(value_only, "grad_log_density")
    for chart in SIMPLEX_CHARTS:  # gammas given the counts only if the sum has their law
        assert not offers(chart(small_posterior()), HasCounts)

    class Fixed:
        manifold, noise_covariance = simplex, None

    assert not hasattr(Softmax(Fixed()), "minibatched")
    assert Softmax(Fixed()).n_samples is None
    assert Softmax(Fixed()).batch_size is None


def test_charts_refuse_what_lives_elsewhere():
    assert list(CHARTS) == [ExpandedMean, Softmax, SquareRoot, Log, Mirror]
    line, orthant, simplex = double_well(), gamma(2.0), dirichlet(ALPHA)
    assert [[chart.accepts(t) for chart in CHARTS] for t in (line, orthant, simplex)] == [
        [False] * 5,
        [False, False, False, True, True],
        [True, True, True, False, False],
    ]
    assert not Softmax.accepts(Density)
    assert not Softmax.accepts(dirichlet([1.0]))
    for chart in CHARTS:
        with pytest.raises(
            TypeError,
            match=rf"^{chart.__name__} needs a target on a {chart.source.__name__} of dimension 1 or more; this",
        ):
            chart(line)
    with pytest.raises(TypeError, match=r"Softmax needs a target .* got 3"):
        Softmax(3)
    with pytest.raises(TypeError, match=r"Density is on Simplex\(d=1\)"):
        Softmax(dirichlet([1.0]))


@pytest.mark.parametrize("total", [0.0, -1.0, np.inf, np.nan])
def test_total_must_be_positive(total):
    with pytest.raises(ValueError, match="total must be positive and finite"):
        ExpandedMean(dirichlet(ALPHA), total=total)


@pytest.mark.parametrize("total", [[1.0, 2.0, 3.0], [[1.0], [1.0]]])
def test_total_has_one_entry_for_each_row(total):
    with pytest.raises(ValueError, match=r"one for each point of Simplex\(d=4, n_points=2\)"):
        ExpandedMean(dirichlet(ROWS), total=total)


def test_charts_can_be_pickled():
    chart = Log(ExpandedMean(small_posterior(), total=2.0))
    position = random_positions(chart)
    again = pickle.loads(pickle.dumps(chart))
    np.testing.assert_array_equal(gradient_of(again, position), gradient_of(chart, position))
    assert isinstance(again, Chart)
