"""`partial_fit` of a mixture: what it finds, what it keeps, and how it goes on."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

from skmanifold import DPCategoricalMixture
from skmanifold.datasets import make_categorical_mixture
from skmanifold.mixture._dirichlet_process.fit_strategy import MixtureStream
from skmanifold.mixture._dirichlet_process.stochastic_slice import StochasticSlice
from skmanifold.models import IncompatibleError
from skmanifold.samplers import ESCA, SCIR, SGRLD

from ..exponential_family._mixtures import (
    EMISSIONS,
    data_of,
    make,
    predicted,
    small_counts,
    small_table,
)

SAMPLERS = tuple(name for name in DPCategoricalMixture._samplers if name != "slice")
each_sampler = pytest.mark.parametrize("sampler", SAMPLERS)
each_emission = pytest.mark.parametrize("emission", EMISSIONS)


def make_stream(emission, sampler="scir", **params):
    return make(emission, sampler, **{"total_samples": 1000, "thin": 1, **params})


def batches_of(emission, n=6, size=20):
    """Parts of the small table or counts, the first of them all of it, then again and again."""
    X = data_of(emission)
    return [X] + [X[(size * i) % 40 : (size * i) % 40 + size] for i in range(n - 1)]


def run(mixture, batches):
    for batch in batches:
        mixture.partial_fit(batch)
    return mixture


def left_by(mixture, X):
    """What a stream leaves, as bytes."""
    means = mixture.components_ if mixture.emission == "multinomial" else np.hstack(mixture.components_)
    parts = {name: draws.tobytes() for name, draws in mixture.posterior_.items()}
    summary = means.tobytes(), mixture.weights_.tobytes(), mixture.concentration_, mixture.n_batch_iter_
    return {**parts, "summary": summary, "predicted": predicted(mixture, X)}


# What is found


@pytest.mark.extended
@pytest.mark.parametrize("step_size", [0.1, 0.5])
def test_a_planted_mixture_is_found(step_size):
    mixture = make_categorical_mixture(3000, 15, 4, weights=[0.4, 0.3, 0.2, 0.1], category_prior=0.2, random_state=3)
    X, labels = mixture.data, mixture.labels
    stream = DPCategoricalMixture("categorical", sampler=SCIR(step_size), total_samples=2500, random_state=0)
    run(stream, [X[start : start + 250] for start in range(0, 2500, 250)])
    assert np.sum(stream.weights_ > 0.02) == 4
    np.testing.assert_allclose(np.sort(stream.weights_)[::-1][:4], [0.4, 0.3, 0.2, 0.1], atol=0.05)
    assert adjusted_rand_score(labels[2500:], stream.predict(X[2500:])) > 0.95
    truth = DPCategoricalMixture("categorical", random_state=0, max_iter=60, init=20).fit(X[:2500])
    assert stream.score(X[2500:]) > truth.score(X[2500:]) - 0.3


# What is there


@each_emission
@each_sampler
def test_all_that_is_learned_follows_the_number_of_components(emission, sampler):
    X, stream = data_of(emission), make_stream(emission, sampler)
    for t, batch in enumerate(batches_of(emission), start=1):
        assert stream.partial_fit(batch) is stream
        n = stream.n_components_
        assert stream.n_batch_iter_ == t
        assert len(stream.weights_) == n
        assert 0 < stream.weights_.sum() < 1
        means = [stream.components_] if emission == "multinomial" else stream.components_
        assert all(mean.shape == (n, 6 if emission == "multinomial" else 3) for mean in means)
        assert all(np.allclose(mean.sum(axis=1), 1) for mean in means)
        assert np.all(np.diff(stream.weights_) <= 0)
        np.testing.assert_allclose(stream.predict_proba(X).sum(axis=1), 1)
        assert stream.predict_proba(X).shape == (X.shape[0], n)
        assert np.all(np.isfinite(stream.score_samples(X)))
        assert stream.n_components_posterior_.sum() == pytest.approx(1)
        assert type(stream.sampler_).short_name == sampler
    for name in ("labels_", "log_density_trace_", "n_iter_"):
        assert not hasattr(stream, name)


@each_emission
@each_sampler
def test_draws_are_those_of_the_second_half(emission, sampler):
    stream = run(make_stream(emission, sampler, n_chains=2), batches_of(emission))
    draws = stream.posterior_
    assert {"n_components", "concentration", "weights", "components"} <= draws.keys()
    assert "labels" not in draws
    most, n_categories = draws["weights"].shape[2], 6 if emission == "multinomial" else 15
    assert draws["n_components"].shape == draws["concentration"].shape == (2, 3)
    assert draws["components"].shape == (2, 3, most, n_categories)
    assert np.all(np.nansum(draws["weights"], axis=2) < 1)
    assert np.all(np.nanmin(draws["components"]) >= 0)
    sparse = run(make_stream(emission, sampler, n_chains=2, thin=4), batches_of(emission)).posterior_
    assert sparse["n_components"].shape == (2, 1)
    np.testing.assert_array_equal(sparse["n_components"], draws["n_components"][:, [0]])


@pytest.mark.parametrize("thin", [1, 100])
@pytest.mark.parametrize("max_draws_bytes", [0, 2**20])
def test_a_stream_without_draws_works(thin, max_draws_bytes):
    stream = make_stream("categorical", thin=thin, max_draws_bytes=max_draws_bytes)
    for batch in batches_of("categorical", 3):
        stream.partial_fit(batch)
        assert np.isfinite(stream.score(batch))
        assert stream.n_components_posterior_.sum() == pytest.approx(1) or len(stream.n_components_posterior_) == 0
        assert isinstance(stream.posterior_, dict)
        with pytest.raises(ValueError, match=r"No draws of the labels were kept: pass X\."):
            stream.co_clustering()
        assert stream.co_clustering(batch).shape == (len(batch),) * 2


@pytest.mark.parametrize(
    ("schedule", "left"),
    [
        ({"learning_decay": 0.0}, 0.0),
        ({"learning_decay": 1.0, "learning_offset": 1.0}, 2 / 3 * 3 / 4 * 4 / 5),
        ({"learning_decay": 1.0, "learning_offset": 1e5}, 1.0),
    ],
)
def test_the_schedule_says_how_much_is_left_of_the_first_minibatch(schedule, left):
    two_kinds, one_kind = np.repeat([[0.0] * 8, [1.0] * 8], 40, axis=0), np.ones((40, 8))
    stream = make_stream("categorical", **schedule).partial_fit(two_kinds)
    assert np.sum(stream.weights_ > 0.4) == 2
    run(stream, [one_kind] * 3)
    assert np.sum(stream.weights_[stream.components_[0][:, 0] > 0.5]) == pytest.approx(left / 2, abs=0.02)


# One after the other


@each_emission
@each_sampler
def test_a_stream_goes_on_where_a_fit_stood(emission, sampler):
    X = data_of(emission)
    mixture = make_stream(emission, sampler, total_samples=60).fit(X)
    fitted = mixture.score(X)
    assert mixture.n_batch_iter_ == 0
    run(mixture, batches_of(emission, 3)[1:])
    assert mixture.n_batch_iter_ == 2
    for name in ("labels_", "log_density_trace_", "n_iter_"):
        assert not hasattr(mixture, name)
    assert "labels" not in mixture.posterior_
    assert mixture.score(X) > fitted - 2
    again = make_stream(emission, sampler, total_samples=60).fit(X)
    assert mixture.fit(X).score(X) == again.score(X) == fitted
    assert mixture.n_batch_iter_ == 0


def test_a_new_fit_forgets_the_stream():
    stream = run(make_stream("multinomial"), batches_of("multinomial", 2))
    stream.fit(small_counts()[:30])
    assert stream.labels_.shape == (30,)
    assert "labels" in stream.posterior_


@each_emission
@each_sampler
def test_odd_minibatches_work(emission, sampler):
    room = {"min_categories": 3}
    stream = run(make_stream(emission, sampler), batches_of(emission, 2))
    width = stream.n_features_in_
    nothing = np.zeros((3, width)) if emission == "multinomial" else np.full((3, width), np.nan)
    for batch in (nothing, nothing[:1], data_of(emission)[:1], data_of(emission)):
        assert np.isfinite(stream.partial_fit(batch).score(data_of(emission)))
    first = make_stream(emission, sampler, **room).partial_fit(data_of(emission)[:1])
    assert np.isfinite(first.partial_fit(data_of(emission)[1:2]).score(data_of(emission)[:1]))
    assert np.isfinite(make_stream(emission, sampler).partial_fit(nothing).score(nothing))


def test_weights_and_components_may_have_different_samplers():
    mixed = run(make_stream("categorical", "scir", weights_sampler="sgrld"), batches_of("categorical"))
    plain = run(make_stream("categorical", "scir"), batches_of("categorical"))
    assert mixed.score(small_table()) != plain.score(small_table())
    mixed = run(
        make_stream("categorical", SGRLD(step_size=0.001), weights_sampler=SCIR(0.1)), batches_of("categorical")
    )
    assert np.isfinite(mixed.score(small_table()))


# Bad input


def refuse_next(stream, batch, message, error=ValueError):
    """The minibatch is refused, and the stream is as it was."""
    before, attributes = left_by(stream, small_table()), dict(vars(stream))
    with pytest.raises(error, match=message):
        stream.partial_fit(batch)
    assert left_by(stream, small_table()) == before
    assert vars(stream).keys() == attributes.keys()
    assert all(vars(stream)[name] is attributes[name] for name in attributes)


def test_a_bad_minibatch_is_refused_and_leaves_the_stream():
    stream = run(make_stream("categorical"), batches_of("categorical", 2))
    refuse_next(stream, small_table()[:, :4], "X has 4 features, but DPCategoricalMixture is expecting 5 features")
    refuse_next(stream, -np.ones((2, 5)), "Negative values")
    refuse_next(stream, np.full((2, 5), 0.5), r"Column 0 of X has 0\.5")
    refuse_next(
        stream,
        np.full((2, 5), 3.0),
        r"Column 0 of X has the code 3\.0, but the fitted number of categories of the column is 3",
    )
    refuse_next(stream, sp.csr_array(np.ones((2, 5))), "Sparse X was passed", TypeError)
    refuse_next(stream, np.ones((0, 5)), r"Found array with 0 sample\(s\)")
    stream.set_params(handle_unknown="ignore").partial_fit(np.full((2, 5), 3.0))
    assert stream.n_batch_iter_ == 3


def test_a_sampler_that_cannot_go_on_is_refused():
    stream = run(make_stream("categorical"), batches_of("categorical", 2))
    refuse_next(stream.set_params(sampler="sgrld"), small_table(), r"SGRLD cannot continue a fit by SCIR: call fit\.")
    fitted = make("categorical", "slice").fit(small_table()).set_params(sampler="scir")
    with pytest.raises(ValueError, match=r"SCIR cannot continue a fit by Slice: call fit\."):
        fitted.partial_fit(small_table())


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (SCIR(0.1, control_variate="stored"), "control_variate='stored' keeps the labels of all rows"),
        (ESCA(), "ESCA needs a LatentModel, which DPModel does not offer"),
    ],
    ids=str,
)
def test_a_sampler_that_takes_no_stream_is_refused(sampler, message):
    mixture = make_stream("categorical", sampler)
    with pytest.raises(IncompatibleError, match=message):
        mixture.partial_fit(small_table())
    assert vars(mixture).keys() == mixture.get_params(deep=False).keys()
    if isinstance(sampler, SCIR):
        mixture.fit(small_table())
        with pytest.raises(IncompatibleError, match=message):
            mixture.partial_fit(small_table())
        assert mixture.labels_.shape == (60,)


def interrupt(*args):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("owner", "method"), [(StochasticSlice, "step_stream"), (MixtureStream, "recorded"), (MixtureStream, "summary")]
)
def test_an_interrupted_partial_fit_leaves_the_stream_as_it_was(owner, method, monkeypatch):
    """Also where the chains have moved."""
    stream, batches = make_stream("categorical", n_chains=2), batches_of("categorical")
    run(stream, batches[:3])
    with monkeypatch.context() as patch:
        patch.setattr(owner, method, interrupt)
        refuse_next(stream, batches[3], None, KeyboardInterrupt)
    expected = run(make_stream("categorical", n_chains=2), batches)
    assert left_by(run(stream, batches[3:]), small_table()) == left_by(expected, small_table())


@pytest.mark.parametrize("method", ["init_stream", "parameters"])
def test_an_interrupted_first_minibatch_leaves_the_estimator_unfitted(method, monkeypatch):
    monkeypatch.setattr(StochasticSlice, method, interrupt)
    fresh = make_stream("categorical")
    with pytest.raises(KeyboardInterrupt):
        fresh.partial_fit(small_table())
    assert vars(fresh).keys() == fresh.get_params(deep=False).keys()


def test_a_new_kind_of_row_does_not_take_the_old_one_away():
    settings = {"init": 5, "min_categories": 2, "total_samples": 1000, "random_state": 0}
    mixture = DPCategoricalMixture("categorical", sampler="scir", **settings)
    mixture.partial_fit(np.zeros((40, 8))).partial_fit(np.ones((40, 8)))
    old, new = np.exp(mixture.score_samples([[0] * 8, [1] * 8]))
    assert old > 0.5 > new > 1e-3
