import threading

import numpy as np
import pytest

from skmanifold.admixture._lda.model import LDAModel
from skmanifold.admixture._tokens.topic_counts import TopicPrior, add_counts
from skmanifold.inference._chains import Chain, run_chains
from skmanifold.inference._schedule import Schedule
from skmanifold.random._keys import Purpose, subkey, uniform
from skmanifold.samplers import CVB0, ESCA, BaseSampler, CollapsedGibbs, Gibbs, State
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers

KEY = np.uint64(11)
SCHEDULE = Schedule(12, 5, 3)


class Walk(BaseSampler):
    """A random walk on the line whose statistics are lists of where it was."""

    def __init__(self, step_size=1.0, window=4):
        self.step_size = step_size
        self.window = window

    def init(self, model, key):
        return State(model, key, 0, -np.inf, statistics=[])

    def step(self, model, state):
        position = state.position + self.step_size * (uniform(state.key, state.n_steps) - 0.5)
        return State(position, state.key, state.n_steps + 1, -(position**2), statistics=[position])

    def average_window(self, n_kept_passes):
        return self.window


def record(chain):
    statistics = chain.state.statistics
    return {"last": np.array(statistics[-1])}


class Plan:
    """What a run needs besides a model; `options` replace methods."""

    n_unsettled = 0

    def __init__(self, passes, **options):
        self.passes = passes
        self.__dict__.update(options)

    def add(self, left, right):
        return left + right

    def record(self, chain):
        return record(chain)

    def adapt(self, model, state):
        return model

    def has_settled(self, log_density):
        return self.passes.has_settled(log_density, 2)


def run(sampler=None, model=0.0, n_chains=3, schedule=SCHEDULE, n_workers=1, after_pass=None, **options):
    goes_on = after_pass or (lambda iteration, chains: False)
    with Workers(n_workers) as workers:
        return run_chains(Plan(sampler or Walk(), **options), model, KEY, n_chains, schedule, goes_on, workers)


def make_lda():
    table = np.random.default_rng(0).poisson(0.6, (40, 25))
    counts = whole_counts(canonical_csr(table.astype(float)), KEY)
    return LDAModel(counts, np.full(4, 0.3), TopicPrior(0.1, 4, 25), Workers(1))


def run_lda(sampler, n_chains, n_workers=1):
    def record(chain):
        return {"totals": chain.state.statistics.totals}

    return run(sampler, make_lda(), n_chains, n_workers=n_workers, add=add_counts, record=record)


def assert_same_chain(ours, other):
    assert ours.log_density == other.log_density
    for a, b in zip(ours.draws, other.draws, strict=True):
        assert a.keys() == b.keys()
        assert all(np.array_equal(a[name], b[name]) for name in a)
    (total, n), (other_total, other_n) = ours.estimate(), other.estimate()
    assert n == other_n
    for a, b in zip(total, other_total, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "sampler", [Walk(), ESCA(n_average=3), Gibbs(), CollapsedGibbs(), CVB0()], ids=lambda s: type(s).__name__
)
def test_a_chain_depends_neither_on_the_other_chains_nor_on_workers(sampler):
    def go(n_chains, n_workers=1):
        return run(sampler, n_chains=n_chains) if isinstance(sampler, Walk) else run_lda(sampler, n_chains, n_workers)

    three = go(3)
    assert len({tuple(chain.log_density) for chain in three}) == 3
    for others in (go(1), go(2), go(3, n_workers=2)):
        for ours, chain in zip(others, three, strict=False):
            assert_same_chain(ours, chain)


def test_chain_c_has_the_stream_named_c():
    for i, chain in enumerate(run()):
        assert chain.state.key == subkey(KEY, Purpose.CHAIN, i)
        steps = [uniform(subkey(KEY, Purpose.CHAIN, i), n) - 0.5 for n in range(12)]
        np.testing.assert_allclose(chain.log_density, -(np.cumsum(steps) ** 2), rtol=1e-12)


def test_every_pass_is_traced_and_every_draw_recorded():
    for chain in run():
        assert chain.state.n_steps == len(chain.log_density) == 12
        assert chain.log_density[-1] == chain.state.log_density
        squares = [-chain.log_density[i - 1] for i in (8, 11)]
        np.testing.assert_allclose([draw["last"] ** 2 for draw in chain.draws], squares, rtol=1e-12)


def test_the_estimate_sums_the_last_window():
    for chain in run():
        total, n = chain.estimate()
        assert n == 4
        np.testing.assert_allclose(np.square(total), -np.array(chain.log_density[-4:]), rtol=1e-12)


def test_before_burn_in_ends_the_estimate_is_the_last_pass_alone():
    chain = run(after_pass=lambda iteration, chains: iteration == 4)[0]
    total, n = chain.estimate()
    assert (total, n) == ([chain.state.position], 1)


def test_quality_is_the_mean_log_density_after_burn_in():
    chain = run()[0]
    assert chain.quality() == pytest.approx(np.mean(chain.log_density[5:]), rel=1e-14)
    early = run(after_pass=lambda iteration, chains: iteration == 3)[0]
    assert early.quality() == pytest.approx(np.mean(early.log_density), rel=1e-14)
    assert len(early.log_density) == 3


def test_after_pass_sees_every_pass_and_may_end_the_run():
    seen = []

    def after_pass(iteration, chains):
        seen.append((iteration, [chain.state.n_steps for chain in chains]))
        return iteration == 7

    chains = run(after_pass=after_pass)
    assert seen == [(i, [i] * 3) for i in range(1, 8)]
    assert [len(chain.log_density) for chain in chains] == [7] * 3
    assert all(isinstance(chain, Chain) for chain in chains)
    # What was done so far is what a longer run does.
    for short, whole in zip(chains, run(), strict=True):
        assert short.log_density == whole.log_density[:7]


def test_each_chains_model_is_adapted_after_each_pass_of_burn_in_and_then_stays():
    """The model of a `Shift` is how far it goes in a step."""
    asked = []

    class Shift(Walk):
        def init(self, model, key):
            return State(0.0, key, 0, -np.inf, statistics=[])

        def step(self, model, state):
            position = state.position + model
            return State(position, state.key, state.n_steps + 1, position, statistics=[position])

    def adapt(model, state):
        asked.append(state.n_steps)
        return model + state.n_steps * (1 if state.key == subkey(KEY, Purpose.CHAIN, 0) else 10)

    chains = run(Shift(), 1.0, n_chains=2, adapt=adapt)
    assert sorted(asked) == sorted([1, 2, 3, 4, 5] * 2)  # burn-in is five passes of twelve
    for chain, factor in zip(chains, (1, 10), strict=True):
        sizes = 1 + factor * np.cumsum([0, 1, 2, 3, 4, 5])
        np.testing.assert_allclose(np.diff(chain.log_density, prepend=0.0), [*sizes[:5], *[sizes[5]] * 7])
        assert chain.model == sizes[5]


def test_without_adaptation_the_chains_keep_the_model_that_was_given():
    model = make_lda()
    options = {"add": add_counts, "record": lambda chain: {}}
    assert all(chain.model is model for chain in run(ESCA(), model, n_chains=2, **options))


def test_draws_need_not_all_have_the_same_names():
    def record(chain):
        return {
            "last": np.array(chain.state.n_steps),
            **({"even": np.array(0)} if chain.state.n_steps % 2 == 0 else {}),
        }

    chain = run(n_chains=1, record=record)[0]
    assert [set(draw) for draw in chain.draws] == [{"last", "even"}, {"last"}]  # after passes 8 and 11


def test_chains_run_beside_each_other():
    meeting = threading.Barrier(2, timeout=20)

    class Meet(Walk):
        def step(self, model, state):
            meeting.wait()
            return super().step(model, state)

    assert len(run(Meet(), n_chains=2, n_workers=2)) == 2


def test_an_error_in_a_chain_ends_the_run():
    class Fail(Walk):
        def step(self, model, state):
            if state.n_steps == 2 and state.key == subkey(KEY, Purpose.CHAIN, 1):
                raise FloatingPointError("no more")
            return super().step(model, state)

    for n_workers in (1, 2):
        with pytest.raises(FloatingPointError, match="no more"):
            run(Fail(), n_workers=n_workers)
