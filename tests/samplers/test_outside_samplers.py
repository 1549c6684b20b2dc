"""Samplers as users write them: they import public names only, and have states of their own."""

import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from inference._interrupted import cut_short
from sklearn.exceptions import ConvergenceWarning

from skmanifold import SphericalAdmixture, StochasticLDA, distributed, sample
from skmanifold.datasets import make_lda_corpus, make_spherical_admixture
from skmanifold.manifolds import Euclidean, Flat
from skmanifold.models import Density, IncompatibleError, LatentModel, MeanFieldModel, StreamModel
from skmanifold.random import Purpose, fill_normal, subkey
from skmanifold.samplers import ESCA, SGLD, BaseSampler, GradientMemory, GradientSampler, MeanField, State

X = make_lda_corpus(60, 30, 3, random_state=0).data


class PSGLDState(NamedTuple):
    position: np.ndarray
    key: np.ndarray
    n_steps: int
    log_density: Any
    memory: GradientMemory
    mean_square: np.ndarray


class PSGLD(GradientSampler):
    """Langevin dynamics preconditioned by a running mean of squared gradients, as in RMSprop (Li et al., 2016)."""

    short_name = "psgld"
    requires_manifold = (Flat,)
    state_types = (PSGLDState,)

    def __init__(self, step_size=0.01, decay=0.999, damping=1e-5):
        self.step_size = step_size
        self.decay = decay
        self.damping = damping

    def _first_fields(self, model, keys, position):
        return {"mean_square": np.ones_like(position)}

    def _move(self, model, state, h, t):
        memory, gradient = self._estimate_gradient(model, state, t)
        state.mean_square[...] += (1 - self.decay) * (gradient**2 - state.mean_square)
        inverse_metric = 1 / (self.damping + np.sqrt(state.mean_square))
        fill_normal(memory.keys, Purpose.NOISE, memory.noise.reshape(len(gradient), -1))
        state.position[...] += h * inverse_metric * gradient + np.sqrt(2 * h * inverse_metric) * memory.noise
        return state


SCALES = np.array([0.05, 5.0])


@pytest.mark.extended
def test_preconditioned_langevin_dynamics_draw_coordinates_of_any_scale():
    target = Density(Euclidean(2), grad_log_density=lambda x: -x / SCALES**2, vectorized=True)
    settings = {"n_draws": 2000, "n_chains": 50, "position": np.zeros(2), "random_state": 0}
    draws = sample(target, PSGLD(0.01, decay=0.9998), burn_in=10000, thin=5, **settings)
    np.testing.assert_allclose(draws.position.std(axis=(0, 1)) / SCALES, 1, atol=0.1)
    with pytest.warns(ConvergenceWarning, match=r"not converged: .* for position\[\.\.\., 1\]\."):
        plain = sample(target, SGLD(2e-4), burn_in=10000, thin=5, **settings)
    assert plain.position[..., 1].std() / SCALES[1] < 0.5  # the scale of the first coordinate sets the step


def test_its_state_has_its_own_type():
    target = Density(Euclidean(2), grad_log_density=lambda x: -x, vectorized=True)
    sampler = PSGLD()
    state = sampler.init(target, np.arange(3, dtype=np.uint64))
    for _ in range(2):
        state = sampler.step(target, state)
    assert type(state) is PSGLDState
    assert (state.n_steps, state.mean_square.shape) == (2, (3, 2))
    assert sampler.stats(target, state) == {}


def lda(sampler, **settings):
    return StochasticLDA(3, sampler=sampler, max_iter=10, thin=2, topic_word_prior=1.0, random_state=0, **settings)


@pytest.mark.extended
def test_it_draws_topics():
    fitted = lda(PSGLD(1e-3), n_chains=2, batch_size=20).fit(X)
    assert fitted.posterior_["components"].shape[:2] == (2, fitted.posterior_["log_likelihood"].shape[1])
    assert np.isfinite(fitted.score(X))
    again = lda(PSGLD(1e-3), n_chains=2, batch_size=20, n_jobs=2).fit(X)
    assert fitted.components_.tobytes() == again.components_.tobytes()


def test_it_learns_from_a_stream_that_goes_on_after_a_failure_and_in_another_process():
    batches = [X[i : i + 20] for i in (0, 20, 40)]
    streamed, failing = (lda(PSGLD(1e-3), total_samples=60).partial_fit(batches[0]) for _ in range(2))
    (state,) = failing._stream.states
    before = state.position.copy(), state.mean_square.copy()
    failing.sampler_.decay = failing.sampler.decay = np.ones(2)  # which no point has the shape of
    with pytest.raises(ValueError, match="broadcast"):
        failing.partial_fit(batches[1])
    failing.sampler.decay = streamed.sampler.decay
    for array, kept in zip((state.position, state.mean_square), before, strict=True):
        np.testing.assert_array_equal(array, kept)
    for batch in batches[1:]:
        streamed.partial_fit(batch)
        failing = pickle.loads(pickle.dumps(failing)).partial_fit(batch)
    assert streamed.components_.tobytes() == failing.components_.tobytes()
    later = lda(PSGLD(1e-3), total_samples=60).fit(X).partial_fit(batches[0])
    assert np.isfinite(later.score(X))


def test_a_file_holds_no_class_of_another_package(tmp_path):
    with pytest.raises(TypeError, match="PSGLD, which files of skmanifold cannot contain; use pickle or joblib"):
        lda(PSGLD(1e-3)).fit(X).save(tmp_path / "lda")


def test_a_state_without_the_shared_fields_is_refused_where_the_class_is_defined():
    class Position(NamedTuple):
        position: np.ndarray

    with pytest.raises(TypeError, match="Position must have the fields position, key, n_steps, log_density, memory"):
        type("Lacking", (GradientSampler,), {"state_types": (Position,)})


class AveragedState(NamedTuple):
    position: Any
    key: np.uint64
    n_steps: int
    log_density: float
    statistics: Any
    latents: Any
    best: float


class Remembering(ESCA):
    """ESCA that knows the best log likelihood of its passes."""

    short_name = None
    state_types = (AveragedState,)

    def init(self, model, key):
        return AveragedState(*super().init(model, key), -np.inf)

    def step(self, model, state):
        after = super().step(model, state)
        return AveragedState(*after, max(state.best, after.log_density))


def test_a_checkpoint_holds_a_state_of_any_type(tmp_path):
    alone = lda(ESCA()).fit(X)
    cut_short(lda(Remembering()), X, None, tmp_path, dies_in=7)
    assert len(list(tmp_path.iterdir())) == 1
    with distributed(None, checkpoint_dir=tmp_path, checkpoint_every=3):
        fitted = lda(Remembering()).fit(X)
    assert fitted.components_.tobytes() == alone.components_.tobytes()


class PlainESCA(BaseSampler):
    """ESCA with the plain state."""

    short_name = None
    requires = (LatentModel,)

    def init(self, model, key):
        latents, statistics = model.init_latents(subkey(key, Purpose.INITIAL_LATENTS))
        return State(model.mode(statistics), key, log_density=-np.inf, statistics=statistics, latents=latents)

    def step(self, model, state):
        key = subkey(state.key, Purpose.SWEEP, state.n_steps)
        latents, statistics, log_likelihood = model.sample_latents(state.position, state.latents, key)
        position = model.mode(statistics)
        return State(position, state.key, state.n_steps + 1, log_likelihood, statistics=statistics, latents=latents)

    def average_window(self, n_kept_passes):
        return min(20, n_kept_passes)


def test_a_sampler_may_use_the_plain_state():
    fitted, library = (lda(sampler).fit(X) for sampler in (PlainESCA(), ESCA()))
    assert fitted.components_.tobytes() == library.components_.tobytes()


class Unfinished(PlainESCA):
    """Declares minibatches and has no methods for them."""

    requires = (StreamModel,)
    batching = "either"


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_minibatches_that_are_declared_and_not_defined_are_refused(method):
    message = (
        r"Unfinished declares minibatches \(batching='either'\) but does not define init_stream, resume_stream and "
        r"step_stream\."
    )
    with pytest.raises(IncompatibleError, match=message):
        getattr(lda(Unfinished()), method)(X)


class Climbing(BaseSampler):
    """Mean-field inference that always takes whole steps."""

    short_name = None
    requires = (MeanFieldModel,)
    state_types = (State,)
    log_density_name = "objective"

    def init(self, model, key):
        factors, rows = model.init_factors(subkey(key, Purpose.INITIAL_LATENTS))
        return self._state(model, key, 0, factors, rows)

    def step(self, model, state):
        rows, pull = model.fit_rows(state.latents, 2, 1e-3)
        factors = model.move_topics(state.position, pull, 1.0, model.scale)
        return self._state(model, state.key, state.n_steps + 1, factors, model.refresh_rows(factors, rows))

    def parameters(self, model, state):
        return state.statistics

    def average_window(self, n_kept_passes):
        return 1

    @staticmethod
    def _state(model, key, n_steps, factors, rows):
        objective = model.objective(factors, rows, model.scale)
        return State(factors, key, n_steps, objective, statistics=factors.directions(), latents=rows)


@pytest.mark.extended
def test_a_sampler_that_asks_for_factors_alone_runs_in_a_spherical_admixture():
    X = make_spherical_admixture(80, 20, 3, random_state=0).data
    outside, library = (
        SphericalAdmixture(3, sampler=sampler, max_iter=20, random_state=0).fit(X)
        for sampler in (Climbing(), MeanField())
    )
    assert outside.log_density_trace_.shape == library.log_density_trace_.shape
    np.testing.assert_allclose(np.abs((outside.components_ * library.components_).sum(axis=1)), 1, atol=1e-2)
    assert "objective" in outside.posterior_
