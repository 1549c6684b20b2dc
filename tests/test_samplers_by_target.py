"""Every sampler on every kind of target: it runs, or is refused in one sentence that says what would work."""

import numpy as np
import pytest

from skmanifold import sample
from skmanifold.manifolds import (
    ConwaySphere,
    Euclidean,
    PositiveOrthant,
    Product,
    Simplex,
    Sphere,
    Stiefel,
)
from skmanifold.models import (
    Density,
    ExpandedMean,
    IncompatibleError,
    Log,
    LogNormalMean,
    Mirror,
    NoisyGradient,
    Softmax,
    SquareRoot,
    dirichlet,
    gamma,
    standard_normal,
)
from skmanifold.samplers import ON_DENSITIES, SGRHMC

GEODESIC = {"GMC", "NUTS", "SGGMC", "GSGNHT"}
GRADIENT_ONLY = {"SGGMC", "GSGNHT"}
METRIC = {"SGRLD", "SGRHMC"}
FLAT = {"HMC", "SGLD", "SGHMC", "SGNHT"}


def free(manifold, **more):
    """The uniform density."""
    return Density(manifold, lambda x: np.zeros_like(x), lambda x: 0.0, **more)


def with_rows():
    """A density whose gradient is a sum over rows, in minibatches."""
    rows = np.random.default_rng(0).standard_normal((6, 2))
    return Density(
        Euclidean(2), lambda x, i: rows[i] - x, lambda x, i: -0.5 * np.sum((rows[i] - x) ** 2, axis=-1), n_samples=6
    ).minibatched(3)


def log_normal():
    return LogNormalMean(0.0, 1.0, np.zeros((5, 2)), 1.0)


TARGETS = {
    "euclidean": (lambda: free(Euclidean(2)), FLAT | METRIC | GEODESIC),
    "euclidean, gradient only": (
        lambda: Density(Euclidean(2), np.zeros_like),
        {"SGLD", "SGHMC", "SGNHT"} | METRIC | GRADIENT_ONLY,
    ),
    "euclidean, value only": (lambda: Density(Euclidean(2), log_density=lambda x: 0.0), set()),
    "euclidean, noisy": (lambda: NoisyGradient(free(Euclidean(2)), 1.0), FLAT | METRIC | GEODESIC),
    "euclidean, rows": (with_rows, FLAT | METRIC | GEODESIC | {"SGFS"}),
    "sphere": (lambda: free(Sphere(3)), GEODESIC),
    "points on a sphere": (lambda: free(Sphere(3, n_points=4)), GEODESIC),
    "stiefel": (lambda: free(Stiefel(4, 2)), GEODESIC),
    "conway sphere": (lambda: free(ConwaySphere(3)), GEODESIC),
    "sphere and line": (lambda: free(Product(Sphere(3), Euclidean(1))), GEODESIC),
    "orthant and line": (lambda: free(Product(PositiveOrthant(2), Euclidean(1))), METRIC | GEODESIC),
    "positive orthant": (lambda: free(PositiveOrthant(2)), METRIC | GEODESIC),
    "gamma": (lambda: gamma([1.0, 2.0]), METRIC | GEODESIC | {"SCIR"}),
    "log-normal": (log_normal, METRIC | GEODESIC | {"GeometricBrownian"}),
    "simplex": (lambda: free(Simplex(3)), set()),
    "dirichlet": (lambda: dirichlet([1.0, 2.0]), {"SCIR"}),
    "dirichlet in expanded means": (lambda: ExpandedMean(dirichlet([1.0, 2.0])), METRIC | GEODESIC),
    "dirichlet in softmax": (lambda: Softmax(dirichlet([1.0, 2.0])), FLAT | METRIC | GEODESIC),
    "dirichlet in square roots": (lambda: SquareRoot(dirichlet([1.0, 2.0])), GEODESIC),
    "gamma in logarithms": (lambda: Log(gamma([1.0, 2.0])), FLAT | METRIC | GEODESIC),
    "gamma unfolded": (lambda: Mirror(gamma([1.0, 2.0])), FLAT | METRIC | GEODESIC),
}
HELPFUL_CHARTS = {  # by the chart's source: which make which samplers run
    Simplex: {"ExpandedMean": METRIC | GEODESIC, "Softmax": FLAT | METRIC | GEODESIC, "SquareRoot": GEODESIC},
    PositiveOrthant: {"Log": FLAT | METRIC | GEODESIC, "Mirror": FLAT | METRIC | GEODESIC},
}
TRIPLES = [
    pytest.param(sampler, make, runs, id=f"{sampler.__name__} on {name}")
    for name, (make, runs) in TARGETS.items()
    for sampler in ON_DENSITIES
]


@pytest.mark.parametrize(("sampler", "make", "runs"), TRIPLES)
def test_sampler_runs_on_target_or_is_refused_in_one_sentence(sampler, make, runs):
    target, name = make(), sampler.__name__
    if name in runs:
        settings = {"max_depth": 3} if name == "NUTS" else {}  # no trajectory ends early where a density is constant
        burn_in = 40 if name == "NUTS" else 1  # to find a step size
        draws = sample(target, sampler(**settings), n_draws=3, burn_in=burn_in, n_chains=2, random_state=0)
        assert type(draws.sampler) is sampler
        assert draws.position.shape == (2, 3, *target.manifold.shape)
        target.manifold.check_point(draws.position)
        assert not np.array_equal(draws.position[:, 0], draws.position[:, 2])
        return
    with pytest.raises(IncompatibleError) as refusal:
        sample(target, sampler())
    sentence = str(refusal.value)
    assert sentence.startswith(f"{name} needs ")
    assert "which " + type(target).__name__ in sentence or "which " + type(target.manifold).__name__ in sentence
    assert sentence.count(".") == 1
    fitting = [known.__name__ for known in ON_DENSITIES if known.__name__ in runs]
    assert (f"samplers that would work: {', '.join(fitting)}" in sentence) == bool(fitting)
    helpful = [
        chart
        for chart, able in HELPFUL_CHARTS.get(type(target.manifold), {}).items()
        if name in able and hasattr(target, "grad_log_density")
    ]
    advice = " or ".join(f"{chart}(target)" for chart in helpful)
    assert (f"; or wrap the target: {advice}." in sentence) == bool(helpful)


def test_every_sampler_runs_somewhere_and_has_a_name_of_its_own():
    assert {sampler.__name__ for sampler in ON_DENSITIES} == set().union(*(runs for _, runs in TARGETS.values()))
    assert len({sampler.short_name for sampler in ON_DENSITIES}) == len(ON_DENSITIES)


@pytest.mark.parametrize("sampler", ON_DENSITIES)
def test_short_name_stands_for_defaults(sampler):
    own = {"SCIR": gamma([1.0]), "GeometricBrownian": log_normal(), "SGFS": with_rows()}
    target = own.get(sampler.__name__, free(Euclidean(2)))
    by_name = sample(target, sampler.short_name, n_draws=2, random_state=0)
    np.testing.assert_array_equal(by_name.position, sample(target, sampler(), n_draws=2, random_state=0).position)


def test_a_sampler_of_latent_variables_is_refused():
    from skmanifold.samplers import ESCA

    with pytest.raises(
        IncompatibleError, match="ESCA needs a LatentModel, which Density does not offer; samplers that"
    ):
        sample(free(Euclidean(2)), ESCA())


@pytest.mark.parametrize("wrap", [lambda target: target, lambda target: NoisyGradient(target, 1.0)])
def test_a_metric_is_vectorised_as_its_target_is(wrap):
    def metric(x):
        assert x.shape[1:] == (2,)
        return 1 + x**2

    draws = sample(wrap(standard_normal(2)), SGRHMC(0.01, metric), n_draws=2, random_state=0)
    assert np.isfinite(draws.position).all()


def test_differences_of_a_metric_stay_inside_a_product():
    target = free(Product(PositiveOrthant(1), Euclidean(1)))
    asked = []

    def metric(x):
        asked.append(x[0])
        return np.array([x[0], 1.0])

    sample(target, SGRHMC(1e-9, metric), n_draws=1, burn_in=0, n_chains=1, position=[1e-6, 0.0])
    assert min(asked) > 0
