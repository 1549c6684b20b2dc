"""What holds for every mixture and sampler: threads, other rows, seeds, chains, schedules, callbacks, interruptions."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from callbacks._recorder import Recorder
from persistence._fitted import assert_same
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skmanifold import (
    DPCategoricalMixture,
    DPMixture,
    ExponentialFamilyMixture,
    SubspaceMixture,
    VonMisesFisherMixture,
)
from skmanifold.emissions import Gaussian, Spikes
from skmanifold.emissions._von_mises_fisher import rows as rows_of_directions

N, N_CHAINS = 300, 2
SHORT = {"max_iter": 6, "burn_in": 2, "thin": 1, "n_chains": N_CHAINS, "random_state": 0}


def _data():
    """Labels of three components, and their rows by the names of cases."""
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=N)
    numbers = rng.normal(4.0 * rng.normal(size=(3, 3))[z], 1.0)
    counts = rng.poisson(rng.gamma(1.0, 3.0, (3, 6))[z]).astype(float)
    codes = np.minimum(counts[:, :5] // 2, 3.0)
    holes = rng.random((N, 6)) < 0.1
    return z, {
        "tokens": sp.csr_array(counts),
        "multinomial": counts,
        "codes": np.where(holes[:, :5], np.nan, codes),
        "poisson": np.where(holes, np.nan, counts),
        "gaussian": np.where(holes[:, :3], np.nan, numbers),
        "spikes": np.where(holes[:, :3], np.nan, np.where(counts[:, :3] > 2.0, numbers, 0.0)),
        "subspaces": numbers,
        "directions": rng.normal(size=(N, 4)),
    }


LABELS, DATA = _data()


def _cases():
    cases = {}
    for sampler in DPCategoricalMixture._samplers:
        for emission, name in (("multinomial", "tokens"), ("categorical", "codes")):
            cases[f"{name}-{sampler}"] = DPCategoricalMixture(emission, sampler=sampler, init=LABELS, **SHORT)
    for name, emission in {"gaussian": "gaussian", "poisson": "poisson", "spikes": Spikes(Gaussian())}.items():
        cases[f"{name}-process"] = DPMixture(emission, init=LABELS, clusters="components", **SHORT)
        for sampler in ExponentialFamilyMixture._samplers:
            cases[f"{name}-{sampler}"] = ExponentialFamilyMixture(3, emission=emission, sampler=sampler, **SHORT)
    cases["multinomial-gibbs"] = ExponentialFamilyMixture(3, emission="multinomial", sampler="gibbs", **SHORT)
    for sampler in SubspaceMixture._samplers:
        number = None if sampler == "slice" else 3
        cases[f"subspaces-{sampler}"] = SubspaceMixture(number, sampler=sampler, n_init=4, **SHORT)
    for assignment in ("soft", "hard"):
        settings = {"assignment": assignment, "init": "random", "max_iter": 4, "tol": 0.0, "random_state": 0}
        cases[f"directions-{assignment}"] = VonMisesFisherMixture(3, **settings)
    return cases


CASES = _cases()
METHODS = ("predict", "predict_proba", "score_samples", "transform", "project", "co_clustering")
FITTED = {}
pytestmark = pytest.mark.filterwarnings("ignore:EM stopped after", "ignore:overflow encountered:RuntimeWarning")
each = pytest.mark.parametrize("name", CASES)
WITH_PASSES = [name for name in CASES if not name.startswith("directions")]
each_with_passes = pytest.mark.parametrize("name", WITH_PASSES)
WITH_DRAWS = [name for name in WITH_PASSES if not name.endswith("-em")]


def data(name):
    return DATA[name.split("-")[0]]


def fitted(name):
    """Never change it."""
    if name not in FITTED:
        FITTED[name] = clone(CASES[name]).fit(data(name))
    return FITTED[name]


def told(mixture, X):
    """What each method of rows returns, as arrays whose first axis is that of the rows."""
    found = {name: getattr(mixture, name)(X) for name in METHODS[:-1] if hasattr(mixture, name)}
    if "project" in found:
        found["project"] = np.column_stack(found["project"])
    return found


@pytest.fixture
def _small_tasks(monkeypatch):
    """Cut small data into many tasks."""
    for place, size in {
        "mixture._dirichlet_process.model._LEAST_ROWS": 20,
        "mixture._dirichlet_process.model._MOST_ROWS": 100,
        "mixture._dirichlet_process.model._LEAST_SLICES": 50,
        "emissions._bound_rows._ROWS_OF_TASK": 50,
        "emissions._categories._ROWS_MOVED": 100,
        "emissions._categories._CELLS_DRAWN": 100,
        "emissions._von_mises_fisher.rows._ROWS_OF_BLOCK": 50,
        "emissions._von_mises_fisher.rows._BLOCK_CELLS": 1,
        "mixture._scores._ROWS_OF_TASK": 50,
        "mixture._subspace.inference._ROWS": 20,
        "mixture._subspace.model._ROWS": 20,
    }.items():
        monkeypatch.setattr(f"skmanifold.{place}", size)
    split = rows_of_directions.split_range
    monkeypatch.setattr(rows_of_directions, "split_range", lambda n, size: split(n, min(size, 13)))


# --- the same bytes --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_small_tasks")
@each
def test_threads_change_no_byte(name):
    X, starts = data(name), {"init": 5} if name.endswith("process") else {}
    one, three = (clone(CASES[name]).set_params(n_jobs=n_jobs, **starts).fit(X) for n_jobs in (1, 3))
    assert len(np.unique(one.labels_)) > 1
    assert_same(told(one, X), told(three, X))
    if hasattr(one, "partial_fit"):
        assert_same(told(copy.deepcopy(one).partial_fit(X), X), told(copy.deepcopy(three).partial_fit(X), X))
    assert_same(one.set_params(n_jobs=None), three.set_params(n_jobs=None))


@each
def test_a_row_is_told_alike_in_any_company_and_number_of_threads(name, request):
    mixture, X = fitted(name), data(name)[:90]
    if name.startswith("tokens"):  # fractions, which are read by the row's content
        X = X.toarray() * 1.3
    whole = told(mixture, X)
    assert len(np.unique(whole["predict"])) > 1
    order = np.random.default_rng(1).permutation(90)
    assert_same(told(mixture, np.asfortranarray(X[order])), {method: rows[order] for method, rows in whole.items()})
    alone = [told(mixture, X[row : row + 1]) for row in range(30)]
    assert_same({method: np.concatenate([row[method] for row in alone]) for method in whole}, told(mixture, X[:30]))
    request.getfixturevalue("_small_tasks")
    assert_same(told(copy.copy(mixture).set_params(n_jobs=3), X), whole)


@each
def test_memberships_are_probabilities_which_transform_returns(name):
    mixture, X = fitted(name), data(name)
    memberships = mixture.predict_proba(X)
    assert memberships.shape == (N, len(mixture.weights_))
    np.testing.assert_allclose(memberships.sum(axis=1), 1.0)
    np.testing.assert_array_equal(memberships.argmax(axis=1), mixture.predict(X))
    if not name.startswith("subspaces"):
        np.testing.assert_array_equal(mixture.transform(X), memberships)


@each
def test_seeds_decide_and_the_first_chain_does_not_depend_on_how_many(name):
    X, short = data(name), {"max_iter": 2, "burn_in": 1} if name in WITH_PASSES else {"max_iter": 2}

    def fit(random_state, **parameters):
        return clone(CASES[name]).set_params(random_state=random_state, **short, **parameters).fit(X)

    def bytes_of(mixture):
        trace = mixture.log_density_trace_ if name in WITH_PASSES else mixture.log_likelihood_trace_
        return trace.tobytes(), mixture.labels_.tobytes()

    first, again = fit(0), fit(0)
    assert_same(again, first)
    assert_same(again.fit(X), first)
    generator = np.random.RandomState(0)
    assert bytes_of(fit(np.random.RandomState(0))) == bytes_of(fit(generator)) != bytes_of(fit(generator))
    assert bytes_of(fit(1)) != bytes_of(first)
    if name in WITH_PASSES:
        one = fit(0, n_chains=1).log_density_trace_[0]
        np.testing.assert_array_equal(one, first.log_density_trace_[0])
        assert not np.array_equal(*first.log_density_trace_)


@each
def test_a_clone_knows_nothing(name):
    bare = clone(fitted(name))
    assert vars(bare).keys() == bare.get_params(deep=False).keys()
    for method in METHODS:
        if hasattr(type(bare), method):
            with pytest.raises(NotFittedError, match=f"This {type(bare).__name__} instance is not fitted yet"):
                getattr(bare, method)(data(name))
    with pytest.raises(NotFittedError):
        bare.sample()


@each
def test_rows_of_a_seed_are_drawn(name):
    mixture = fitted(name)
    (one, labels), (same, of_same), (other, _) = (mixture.sample(40, random_state=seed) for seed in (3, 3, 4))
    assert_same(labels, of_same)
    assert abs(one - same).max() == 0 < abs(one - other).max()
    assert one.shape == (40, mixture.n_features_in_)
    assert mixture.sample()[0].shape[0] == 1
    for n_samples in (0, -1, 1.5):
        with pytest.raises((ValueError, TypeError), match="n_samples"):
            mixture.sample(n_samples)


@each
def test_rows_that_are_refused_leave_the_fit_as_it_was(name):
    mixture, X = copy.copy(fitted(name)), data(name)[:5]
    before, wrong = dict(vars(mixture)), X.copy()
    wrong[3, 1] = np.inf
    for method in METHODS:
        for rows, message in ((X[:, 1:], r"features, but .* is expecting"), (wrong, r"infinity|inf,")):
            if hasattr(mixture, method):
                with pytest.raises(ValueError, match=message):
                    getattr(mixture, method)(rows)
    with pytest.raises(ValueError, match=r"infinity|inf,"):
        mixture.fit(wrong)
    assert all(vars(mixture)[key] is value for key, value in before.items())


# --- passes, draws and callbacks -------------------------------------------------------------------------


def look(fitted, X):
    assert fitted.predict_proba(X).shape == (N, len(fitted.weights_))
    return fitted.score(X)


@each_with_passes
def test_callbacks_see_a_fitted_estimator_after_each_pass(name):
    recorder, X = Recorder(look), data(name)
    mixture = clone(CASES[name]).set_callbacks(recorder).fit(X)
    passes = [("pass", i) for i in range(mixture.n_iter_)]
    assert recorder.begun == [("fit", 0), *passes]
    assert recorder.ended == [*passes, ("fit", 0)]
    assert recorder.torn_down == 1
    assert len(set(recorder.found)) > 2
    assert recorder.found[-1] == mixture.score(X)
    assert_same(mixture.set_callbacks(), fitted(name))


@pytest.mark.parametrize("max_draws_bytes", [2**20, 0])
@pytest.mark.parametrize("stop_after", [1, 3, 4, 99])
@pytest.mark.parametrize("name", ["tokens-slice", "codes-scir", "gaussian-gibbs", "subspaces-gibbs"])
def test_a_callback_can_stop_the_fit_and_leaves_it_whole(name, stop_after, max_draws_bytes):
    mixture, X = clone(CASES[name]).set_params(max_draws_bytes=max_draws_bytes), data(name)
    mixture.set_callbacks(Recorder(look, stop_after)).fit(X)
    n_iter = min(stop_after, 6)
    assert mixture.n_iter_ == n_iter
    assert mixture.log_density_trace_.shape == (N_CHAINS, n_iter)
    log_densities = next(draws for key, draws in mixture.posterior_.items() if key.startswith("log_"))
    assert log_densities.shape == (N_CHAINS, max(n_iter - 2, 0))
    assert np.isfinite(mixture.score(X))
    np.testing.assert_allclose(mixture.predict_proba(X).sum(axis=1), 1.0)


@each_with_passes
def test_an_interrupted_fit_leaves_no_trace(name):
    recorder, X = Recorder(look, interrupt_after=2), data(name)
    bare = clone(CASES[name]).set_callbacks(recorder)
    before = set(vars(bare))
    with pytest.raises(KeyboardInterrupt):
        bare.fit(X)
    assert set(vars(bare)) == before
    assert recorder.torn_down == 1
    whole = copy.copy(fitted(name))
    attributes = dict(vars(whole))
    with pytest.raises(KeyboardInterrupt):
        whole.set_callbacks(Recorder(look, interrupt_after=2)).fit(X)
    assert vars(whole.set_callbacks()) == attributes


@pytest.mark.parametrize("name", WITH_DRAWS)
def test_draws_are_as_many_as_were_asked_for(name):
    for max_iter, burn_in, thin, n_draws in ((1, None, 2, 0), (5, 0, 1, 5), (9, None, 2, 2)):
        mixture = clone(CASES[name]).set_params(max_iter=max_iter, burn_in=burn_in, thin=thin).fit(data(name))
        assert mixture.n_iter_ == max_iter
        assert mixture.log_density_trace_.shape == (N_CHAINS, max_iter)
        assert {draws.shape[:2] for draws in mixture.posterior_.values()} == {(N_CHAINS, n_draws)}
        first = (max_iter // 2 if burn_in is None else burn_in) + thin - 1
        of_draws = next(draws for key, draws in mixture.posterior_.items() if key.startswith("log_"))
        np.testing.assert_array_equal(of_draws, mixture.log_density_trace_[:, first::thin])


@pytest.mark.parametrize("name", WITH_DRAWS)
def test_verbose_prints_the_log_density_of_the_best_chain(name, capsys):
    mixture = clone(CASES[name]).set_params(verbose=3).fit(data(name))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["pass 3 of 6", "pass 6 of 6"]
    trace = mixture.log_density_trace_
    best = getattr(mixture, "best_chain_", trace[:, 2:].mean(axis=1).argmax())
    assert lines[-1].endswith(f"log density {trace[best, -1]:.6g}")
