"""Where ESCA is wrong: latents that depend on each other given the parameters: exact laws of small Ising models."""

from functools import reduce

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import chisquare

from skmanifold.models import check_compatible
from skmanifold.samplers import ESCA

KEY = np.uint64(2016)
PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])


def cycle(n, coupling):
    neighbours = np.roll(np.eye(n), 1, axis=1)
    return coupling * (neighbours + neighbours.T)


TRIANGLE, SQUARE = cycle(3, 0.7), cycle(4, 0.7)
GRAPHS = {
    "pair": PAIR,
    "triangle": TRIANGLE,
    "frustrated triangle": -TRIANGLE,
    "square": SQUARE,
    "unequal": np.array([[0, 0.9, -0.4, 0], [0.9, 0, 0.3, 1.1], [-0.4, 0.3, 0, -0.6], [0, 1.1, -0.6, 0]]),
}
AT_ONCE, CHECKERBOARD = np.zeros(4, int), np.array([0, 1, 0, 1])


class Ising:
    """Spins of many images, each a graph of its own, all of one colour drawn at once given those of the pass before.

    Statistics are the fields of the spins, parameters the probabilities of +1 given them.
    """

    def __init__(self, weights, colours=None, n_images=4000):
        self.weights = weights
        self.colours = np.zeros(len(weights), int) if colours is None else colours
        self.n_images = n_images

    def init_latents(self, key):
        spins = 2 * np.random.default_rng(int(key)).integers(2, size=(self.n_images, len(self.weights))) - 1
        return (spins, 0), spins @ self.weights

    def sample_latents(self, position, latents, key):
        spins, colour = latents
        drawn = np.where(np.random.default_rng(int(key)).random(spins.shape) < position, 1, -1)
        spins = np.where(self.colours == colour, drawn, spins)
        return (spins, (colour + 1) % (self.colours.max() + 1)), spins @ self.weights, np.nan

    def mode(self, statistics):
        return expit(2 * statistics)


# --- laws by enumeration ---------------------------------------------------------------------------------


def states_of(weights):
    n = len(weights)
    return 2 * (np.arange(2**n)[:, None] >> np.arange(n) & 1) - 1


def wanted_law(weights):
    """exp(sum over edges of w_ij x_i x_j)."""
    x = states_of(weights)
    p = np.exp(0.5 * np.einsum("si,ij,sj->s", x, weights, x))
    return p / p.sum()


def site_law(weights):
    """Product over sites of cosh(sum_j w_ij x_j)."""
    p = np.cosh(states_of(weights) @ weights).prod(axis=1)
    return p / p.sum()


def edge_law(weights):
    """Product over edges of cosh(w_ij x_i x_j), as it is printed."""
    x = states_of(weights)
    p = np.sqrt(np.cosh(weights * x[:, :, None] * x[:, None, :]).prod(axis=(1, 2)))  # every edge is there twice
    return p / p.sum()


def transition(weights, chosen=slice(None)):
    """Of one pass in which the chosen sites are drawn at once, the others kept."""
    x = states_of(weights)
    up = expit(2 * x @ weights)[:, None]
    at_once = np.where(x == 1, up, 1 - up)  # from, to, site
    kept = (x[:, None] == x).astype(float)
    kept[:, :, chosen] = at_once[:, :, chosen]
    return kept.prod(axis=2)


def sweep(weights, colours):
    """Of one pass for each colour."""
    return reduce(np.matmul, [transition(weights, colours == colour) for colour in range(colours.max() + 1)])


def stationary_law(P):
    values, vectors = np.linalg.eig(P.T)
    law = vectors[:, np.argmin(np.abs(values - 1))].real
    assert np.sum(np.abs(values - 1) < 1e-9) == 1
    return law / law.sum()


def total_variation(p, q):
    return 0.5 * np.abs(p - q).sum()


def moved(law, P):
    return np.abs(law @ P - law).max()


@pytest.mark.parametrize("weights", GRAPHS.values(), ids=GRAPHS)
def test_all_spins_at_once_have_the_law_over_sites(weights):
    P, law = transition(weights), site_law(weights)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(stationary_law(P), law, rtol=0, atol=1e-12)
    flow = law[:, None] * P
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-15)  # detailed balance
    assert total_variation(law, wanted_law(weights)) > 0.2
    np.testing.assert_allclose(edge_law(weights), 2.0 ** -len(weights), rtol=1e-12)  # that over edges is uniform


def test_the_law_over_edges_misses_that_of_the_triangle():
    law = stationary_law(transition(TRIANGLE))
    assert np.abs(edge_law(TRIANGLE) - law).max() == pytest.approx(0.1783, abs=1e-4)
    assert total_variation(edge_law(TRIANGLE), law) == pytest.approx(0.3566, abs=1e-4)
    assert moved(edge_law(TRIANGLE), transition(TRIANGLE)) > 0.01
    flow = edge_law(TRIANGLE)[:, None] * transition(TRIANGLE)
    assert np.abs(flow - flow.T).max() > 0.01


def test_all_four_states_of_two_spins_tie():
    np.testing.assert_allclose(stationary_law(transition(PAIR)), 0.25, rtol=1e-12)
    alike = states_of(PAIR).prod(axis=1) == 1
    np.testing.assert_allclose(wanted_law(PAIR)[alike], 0.5 * expit(2), rtol=1e-12)
    assert wanted_law(PAIR)[alike].min() > 7 * wanted_law(PAIR)[~alike].max()


@pytest.mark.parametrize("weights", GRAPHS.values(), ids=GRAPHS)
def test_spins_at_once_do_not_tell_a_ferromagnet_from_an_antiferromagnet(weights):
    np.testing.assert_allclose(site_law(weights), site_law(-weights), rtol=1e-12)
    if len(weights) > 2:
        assert total_variation(wanted_law(weights), wanted_law(-weights)) > 0.2


def test_on_two_colours_the_law_is_of_two_halves_that_do_not_know_each_other():
    x = states_of(SQUARE)
    of_halves = [half @ (2 ** np.arange(2)) for half in ((x[:, ::2] + 1) // 2, (x[:, 1::2] + 1) // 2)]
    halves = [np.bincount(half, wanted_law(SQUARE)) for half in of_halves]
    product = halves[0][of_halves[0]] * halves[1][of_halves[1]]
    np.testing.assert_allclose(site_law(SQUARE), product, rtol=1e-12)


@pytest.mark.parametrize("colours", [CHECKERBOARD, np.arange(4)], ids=["colours", "one by one"])
@pytest.mark.parametrize("coupling", [0.7, -0.7, 2.0])
def test_one_colour_after_the_other_leaves_the_wanted_law(coupling, colours):
    weights = cycle(4, coupling)
    law = wanted_law(weights)
    assert moved(law, sweep(weights, colours)) < 1e-12
    np.testing.assert_allclose(stationary_law(sweep(weights, colours)), law, rtol=0, atol=1e-12)
    neighbours_alike = np.array([0, 0, 1, 1])
    for wrong in (transition(weights), sweep(weights, neighbours_alike)):
        assert moved(law, wrong) > 1e-4
    assert total_variation(stationary_law(transition(weights)), law) > 0.4


def test_one_by_one_is_right_on_any_graph():
    weights = GRAPHS["unequal"]
    assert moved(wanted_law(weights), sweep(weights, np.arange(4))) < 1e-12
    assert moved(wanted_law(weights), sweep(weights, CHECKERBOARD)) > 0.02  # sites 1 and 3 are neighbours


# --- ESCA's own draws ------------------------------------------------------------------------------------


def frequencies(model, n_draws=5, thin=60):
    """How often images are in each state, counted every `thin` passes."""
    sampler, counts = ESCA(), 0
    check_compatible(sampler, model)
    state = sampler.init(model, KEY)
    for n in range(1, n_draws * thin + 1):
        state = sampler.step(model, state)
        if n % thin == 0:
            counts = counts + counts_of(state.latents[0])
    return counts


def counts_of(spins):
    return np.bincount((spins + 1) // 2 @ (2 ** np.arange(spins.shape[1])), minlength=2 ** spins.shape[1])


def p_value(counts, law):
    return chisquare(counts, counts.sum() * law).pvalue


def assert_drawn_from(counts, law, *others):
    assert p_value(counts, law) > 1e-3
    for other in others:
        assert p_value(counts, other) < 1e-12


def test_one_step_of_the_sampler_has_the_transition_matrix():
    model, sampler, P = Ising(TRIANGLE), ESCA(), transition(TRIANGLE)
    begin = sampler.init(model, KEY)
    for start, x in enumerate(states_of(TRIANGLE)):
        spins = np.tile(x, (model.n_images, 1))
        state = begin._replace(latents=(spins, 0), position=model.mode(spins @ TRIANGLE), n_steps=start)
        counts = counts_of(sampler.step(model, state).latents[0])
        assert_drawn_from(counts, P[start], np.roll(P[start], 1))


@pytest.mark.parametrize("name", ["pair", "triangle", "frustrated triangle", "unequal"])
def test_spins_at_once_draw_from_the_law_over_sites(name):
    weights = GRAPHS[name]
    others = [wanted_law(weights)] if name == "pair" else [wanted_law(weights), edge_law(weights)]  # a pair has one law
    assert_drawn_from(frequencies(Ising(weights)), site_law(weights), *others)


def test_one_colour_at_a_time_draws_from_the_wanted_law():
    counts = frequencies(Ising(SQUARE, CHECKERBOARD))
    assert_drawn_from(counts, wanted_law(SQUARE), site_law(SQUARE), edge_law(SQUARE))
    assert_drawn_from(frequencies(Ising(SQUARE, AT_ONCE)), site_law(SQUARE), wanted_law(SQUARE))


def test_images_at_once_whose_spins_come_one_by_one_draw_from_the_wanted_law():
    for weights in (TRIANGLE, -TRIANGLE):
        counts = frequencies(Ising(weights, np.arange(3)))
        assert_drawn_from(counts, wanted_law(weights), site_law(weights), edge_law(weights))
