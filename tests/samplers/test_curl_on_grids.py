"""Theorem 2 of the recipe in any dimension: a curl from the flux of a diffusion, by Fourier transforms.

Let F = f p - div(D p) be the flux of the stationary density p, and phi the solution of Laplace phi = F. The curl
Q_ij = (d_j phi_i - d_i phi_j) / p is skew-symmetric, and sum_j d_j (Q_ij p) = F_i, because the divergence of F is zero.
"""

import numpy as np
import pytest

from skmanifold.samplers import recover_curl

END = 7.0  # of the periodic box; p is below 1e-10 there
A = 1.2


def axes_of(n_dimensions, n_points):
    line = np.arange(n_points) * (2 * END / n_points) - END
    return np.meshgrid(*[line] * n_dimensions, indexing="ij")


class Fourier:
    """Derivatives and the inverse of the Laplace operator on a periodic grid."""

    def __init__(self, n_dimensions, n_points):
        waves = np.fft.fftfreq(n_points, 1 / n_points) * np.pi / END
        waves[n_points // 2] = 0.0  # the derivative of the highest wave is not defined
        self.waves = np.meshgrid(*[waves] * n_dimensions, indexing="ij")
        squares = sum(wave**2 for wave in self.waves)
        self.inverse = np.where(squares > 0, -1 / np.where(squares > 0, squares, 1), 0.0)

    def derivative(self, values, i):
        return np.fft.ifftn(1j * self.waves[i] * np.fft.fftn(values)).real

    def solve(self, values):
        return np.fft.ifftn(self.inverse * np.fft.fftn(values)).real


def curl_of(flux, fourier):
    """Q p, an array of matrices."""
    potentials = [fourier.solve(part) for part in flux]
    n = len(flux)
    curl = np.zeros((n, n, *flux[0].shape))
    for i in range(n):
        for j in range(i):
            curl[i, j] = fourier.derivative(potentials[i], j) - fourier.derivative(potentials[j], i)
            curl[j, i] = -curl[i, j]
    return curl


def remaining(flux, curl, fourier):
    """The largest difference of sum_j d_j (Q_ij p) and F_i, relative to F."""
    n = len(flux)
    found = [sum(fourier.derivative(curl[i, j], j) for j in range(n)) for i in range(n)]
    return np.abs(np.array(found) - flux).max() / np.abs(flux).max()


def flux_of_sghmc(x, r):
    """dx = r, dr = -x - A r, D = diag(0, A), on a normal target."""
    p = np.exp(-0.5 * (x**2 + r**2))
    return np.array([r * p, (-x - A * r) * p + A * r * p]), p


def flux_of_sgnht(x, r, xi, mass=1.0):
    """dx = r, dr = -x - xi r, dxi = r^2 - 1, D = diag(0, A, 0); with another `mass` p is not stationary."""
    p = np.exp(-0.5 * (x**2 + r**2 + mass * (xi - A) ** 2))
    return np.array([r * p, (-x - xi * r) * p + A * r * p, (r**2 - 1) * p]), p


def test_curl_in_three_dimensions_has_the_flux_of_the_thermostat():
    x, r, xi = axes_of(3, 64)
    fourier = Fourier(3, 64)
    flux, p = flux_of_sgnht(x, r, xi + A)
    curl = curl_of(flux, fourier)
    assert remaining(flux, curl, fourier) < 1e-8
    np.testing.assert_array_equal(curl, -np.swapaxes(curl, 0, 1))
    declared = np.zeros_like(curl)  # that of the recipe is another one: Q is not unique beyond the plane
    declared[0, 1], declared[1, 0], declared[1, 2], declared[2, 1] = -p, p, r * p, -r * p
    assert remaining(flux, declared, fourier) < 1e-8
    assert np.abs(curl - declared).max() > 0.01


def test_density_that_is_not_stationary_has_no_curl():
    x, r, xi = axes_of(3, 64)
    fourier = Fourier(3, 64)
    flux, _ = flux_of_sgnht(x, r, xi + A, mass=0.5)  # the printed energy of the thermostat
    assert remaining(flux, curl_of(flux, fourier), fourier) > 0.01


@pytest.mark.parametrize("place", [(20, 31), (35, 28)])
def test_curl_in_the_plane_is_that_of_recover_curl(place):
    x, r = axes_of(2, 64)
    flux, p = flux_of_sghmc(x, r)
    curl = curl_of(flux, Fourier(2, 64))[0, 1]
    found = (curl[place] - curl[0, 0]) / p[place]  # in the plane Q p is unique up to a constant, and zero at infinity
    z = np.array([x[place], r[place]])
    exact = recover_curl(lambda z: [z[1], -z[0] - A * z[1]], np.diag([0.0, A]), lambda z: -0.5 * (z @ z), z)
    np.testing.assert_allclose(found, exact[0, 1], rtol=1e-6)
