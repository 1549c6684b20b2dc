"""Products: one flat point, and exactly what all factors offer."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from skmanifold.manifolds import (
    DiffusionMetric,
    Euclidean,
    Flat,
    GeodesicFlow,
    Manifold,
    PositiveOrthant,
    Product,
    Simplex,
    Sphere,
    Stiefel,
)
from skmanifold.utils._parameters import offers

from ._cases import points

OFFERS = {
    Flat: ("is_flat",),
    GeodesicFlow: ("project", "flow", "retract"),
    DiffusionMetric: ("inverse_metric", "divergence", "reflect"),
}


class Curved(Euclidean):
    """A user's manifold that says that it is not flat, and has no flow."""

    is_flat = False
    flow = False


def offered(manifold):
    return {protocol for protocol in OFFERS if offers(manifold, protocol)}


@pytest.mark.parametrize(
    ("product", "expected"),
    [
        (Product(Euclidean(2)), {Flat, GeodesicFlow, DiffusionMetric}),
        (Product(Euclidean(2), Product(Euclidean(1))), {Flat, GeodesicFlow, DiffusionMetric}),
        (Product(PositiveOrthant(2), Euclidean(2)), {GeodesicFlow, DiffusionMetric}),
        (Product(Sphere(3), Euclidean(2)), {GeodesicFlow}),
        (Product(Sphere(3), Product(PositiveOrthant(2), Stiefel(3, 2))), {GeodesicFlow}),
        (Product(Simplex(3), Euclidean(2)), set()),
        (Product(Product(Simplex(3)), Sphere(2)), set()),
        (Product(Curved(2), Euclidean(1)), {DiffusionMetric}),
    ],
    ids=lambda value: str(sorted(kind.__name__ for kind in value)) if isinstance(value, set) else repr(value),
)
def test_a_product_offers_what_all_its_factors_offer(product, expected):
    for twin in (product, clone(product), pickle.loads(pickle.dumps(product))):
        assert offered(twin) == expected
        for protocol, names in OFFERS.items():
            for name in names:
                assert (getattr(twin, name, False) is not False) == (protocol in expected)
        assert isinstance(twin, Product)
        assert type(twin).__name__ == "Product"


def test_split_shows_each_factor_its_part():
    product = Product(Sphere(3), Simplex(2, n_points=4), Stiefel(3, 2))
    assert (product.shape, product.dim) == ((3 + 8 + 6,), 2 + 4 + 3)
    x = np.arange(2 * 5 * 17.0).reshape(2, 5, 17)
    parts = product.split(x)
    assert [part.shape for part in parts] == [(2, 5, 3), (2, 5, 4, 2), (2, 5, 3, 2)]
    np.testing.assert_array_equal(np.concatenate([part.reshape(2, 5, -1) for part in parts], axis=-1), x)
    for part in parts:
        part[...] = -1
    assert np.all(x == -1)
    assert [part.shape for part in product.split(x[0, 0])] == [(3,), (4, 2), (3, 2)]


def test_random_points_are_the_factors_in_order():
    product = Product(Sphere(3), Stiefel(3, 2))
    rng = np.random.default_rng(5)
    expected = [Sphere(3).random_point(rng), Stiefel(3, 2).random_point(rng).ravel()]
    np.testing.assert_array_equal(points(product, 1, seed=5)[0], np.concatenate(expected))


@pytest.mark.parametrize("n_chains", [1, 3])
def test_each_factor_moves_as_on_its_own(n_chains):
    factors = Sphere(3), Sphere(4, n_points=2), Stiefel(3, 2), PositiveOrthant(2)
    product = Product(*factors)
    x = points(product, n_chains)
    v = np.random.default_rng(1).standard_normal(x.shape)
    alone = [
        (np.ascontiguousarray(a), np.ascontiguousarray(b))
        for a, b in zip(product.split(x), product.split(v), strict=True)
    ]
    alone = [(a.copy(), b.copy()) for a, b in alone]
    product.project(x, v)
    product.flow(x, v, 0.6)
    product.retract(x, v)
    for factor, (a, b), x_part, v_part in zip(factors, alone, product.split(x), product.split(v), strict=True):
        factor.project(a, b)
        factor.flow(a, b, 0.6)
        factor.retract(a, b)
        np.testing.assert_array_equal(x_part, a)
        np.testing.assert_array_equal(v_part, b)


@pytest.mark.parametrize("n_chains", [1, 3])
def test_each_factor_has_its_own_metric(n_chains):
    product = Product(PositiveOrthant(2), Euclidean(2))
    x = np.random.default_rng(0).standard_normal((n_chains, 4))
    momentum = np.ones_like(x)
    before = x.copy()
    product.reflect(x, momentum)
    np.testing.assert_array_equal(x, np.hstack([np.abs(before[:, :2]), before[:, 2:]]))
    np.testing.assert_array_equal(momentum, np.hstack([np.sign(before[:, :2]), np.ones((n_chains, 2))]))
    out = np.empty_like(x)
    product.inverse_metric(x, out)
    np.testing.assert_array_equal(out, np.hstack([x[:, :2], np.ones((n_chains, 2))]))
    product.divergence(x, out)
    np.testing.assert_array_equal(out, np.tile([1.0, 1.0, 0.0, 0.0], (n_chains, 1)))


def test_factors_are_the_parameter():
    product = Product(Sphere(3), Euclidean(2))
    assert list(product.get_params()) == ["factors"]
    assert repr(product) == "Product(Sphere(d=3), Euclidean(shape=(2,)))"
    copied = clone(product)
    assert [repr(factor) for factor in copied.factors] == ["Sphere(d=3)", "Euclidean(shape=(2,))"]
    assert all(a is not b for a, b in zip(copied.factors, product.factors, strict=True))
    assert copied.set_params(factors=[Simplex(4)]) is copied
    assert (copied.shape, offered(copied)) == ((4,), set())
    assert offered(product) == {GeodesicFlow}
    with pytest.raises(ValueError, match=r"^Product has no parameter 'factor', only 'factors'\.$"):
        product.set_params(factor=Sphere(3))


def test_a_subclass_of_product_stays_one():
    class Pair(Product):
        def __init__(self, first, second):
            super().__init__(first, second)

    pair = Pair(Sphere(3), Euclidean(2))
    assert isinstance(pair, Pair)
    assert offered(pair) == {GeodesicFlow}
    assert isinstance(clone(pair), Pair)
    assert offered(clone(pair)) == {GeodesicFlow}


def test_a_users_manifold_is_a_factor():
    class Circle(Manifold):
        shape = (2,)
        dim = 1

        def random_point(self, rng):
            angle = 2 * np.pi * rng.random()
            return np.array([np.cos(angle), np.sin(angle)])

        def check_point(self, x, atol=1e-8):
            raise ValueError("Never.")

    product = Product(Sphere(3), Circle())
    assert (product.shape, product.dim, offered(product)) == ((5,), 3, set())
    with pytest.raises(ValueError, match=r"In factor 1, Circle\(\): Never\."):
        product.check_point(points(product, 2))
