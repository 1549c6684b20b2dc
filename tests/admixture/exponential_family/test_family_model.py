"""Kernels with dense tables of densities draw by the stated probabilities, whatever the densities' size."""

import numpy as np
import pytest

from skmanifold.admixture._exponential_family.model import FamilyTokenModel
from skmanifold.admixture._tokens.topic_counts import on_one_scale, scale_tokens
from skmanifold.emissions import Family
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers

from ..lda._lda_arrays import KEY, dense_doc_topic, make_latents, tabulate
from ..tokens.test_esca_law import p_value, pairs_of


class AnyTable(Family):
    """A family whose parameters are the table of its tokens' log densities."""

    def token_table(self, parameters):
        return parameters


class Deals(Family):
    """A family that begins with each token in a component of its own choice."""

    def __init__(self, start):
        self.start = start

    def start_of_tokens(self, key):
        return self.start


def make_model(table, alpha, family=None, block_tokens=None, n_workers=1):
    counts = whole_counts(canonical_csr(np.asarray(table, float)), KEY)
    model = FamilyTokenModel(counts, np.asarray(alpha, float), family or AnyTable(), Workers(n_workers))
    model.block_tokens = block_tokens
    return model


def random_densities(n_tokens, n_components, seed=0):
    """Log densities of tokens: of very different size, and some of them next to impossible."""
    rng = np.random.default_rng([seed, n_components])
    table = rng.normal(0, 1.5, (n_tokens, n_components)) + np.array([[900.0], [0.0], [-2000.0], [3.0]])[:n_tokens]
    table[0, 1 : n_components - 1] -= 400.0 * (rng.random(n_components - 2) < 0.3)
    table[1, 1:] -= rng.uniform(0, 90, n_components - 1) * (rng.random(n_components - 1) < 0.3)
    return table


def random_rows(n_components, seed=0):
    rng = np.random.default_rng([seed, n_components])
    return [
        {int(k): int(rng.integers(1, 5)) for k in rng.permutation(n_components)[: max(1, n_components // 2)]}
        for _ in range(3)
    ]


def parts_of_law(log_table, alpha, doc_topic):
    """D_k p(v | k) and alpha_k p(v | k), each of shape (row, token, component), up to a factor of the token."""
    p = np.exp(log_table - log_table.max(axis=1, keepdims=True))
    return doc_topic[:, None] * p, np.broadcast_to(alpha * p, (len(doc_topic), *p.shape))


@pytest.mark.parametrize("n_components", [2, 17, 300])
def test_esca_draws_have_the_exact_law_in_both_parts(n_components):
    alpha = np.random.default_rng(n_components).uniform(0.2, 1.8, n_components)
    table, rows = random_densities(4, n_components), random_rows(n_components)
    model = make_model(np.full((3, 4), 30_000), alpha)
    latents, _, _ = model.sample_latents(table, make_latents(model, rows), KEY)
    parts = parts_of_law(table, alpha, dense_doc_topic(rows, n_components))
    observed = tabulate(model, latents)
    assert p_value(*pairs_of(observed, sum(parts))) > 1e-3
    for part in parts:
        assert p_value(*pairs_of(observed, sum(parts) - 0.999 * part)) < 1e-12
        assert p_value(*pairs_of(observed, sum(parts) + part)) < 1e-12


@pytest.mark.parametrize("n_components", [2, 17])
def test_gibbs_draws_have_the_exact_law(n_components):
    """Rows of two tokens: the first given the second, as it was."""
    alpha = np.random.default_rng(n_components).uniform(0.2, 1.8, n_components)
    table, n_rows = random_densities(2, n_components), 40_000
    model = make_model(np.ones((n_rows, 2)), alpha)
    second = n_components - 1
    latents, _, log_likelihood = model.sample_rows(table, np.tile([0, second], n_rows).astype(np.uint16), KEY)
    drawn = latents.reshape(n_rows, 2).astype(int)
    p = np.exp(table - table.max(axis=1, keepdims=True))
    law = (alpha + np.eye(n_components)[second]) * p[0]
    observed = np.bincount(drawn[:, 0], minlength=n_components)
    assert p_value((observed, law)) > 1e-3
    assert p_value((observed, alpha * p[0])) < 1e-12  # the other token forgotten
    joint = (alpha + np.eye(n_components)) * p[1]
    assert (
        p_value(
            *[
                (np.bincount(drawn[drawn[:, 0] == k, 1], minlength=n_components), joint[k])
                for k in range(n_components)
                if observed[k] > 500
            ]
        )
        > 1e-3
    )
    logs = np.log(law.sum()) * n_rows + np.log(joint.sum(axis=1))[drawn[:, 0]].sum() + n_rows * table.max(axis=1).sum()
    expected = logs - 2 * n_rows * np.log(alpha.sum() + 1)
    assert log_likelihood == pytest.approx(expected, rel=1e-6)


def test_log_likelihood_is_that_of_the_densities_and_belongs_to_rows():
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 5, (6, 4))
    counts[2] = 0
    alpha, table = np.array([0.4, 1.1, 0.7]), random_densities(4, 3)
    rows = [{0: 2}, {1: 1, 2: 3}, {}, {2: 1}, {0: 1, 1: 1}, {1: 4}]
    model = make_model(counts, alpha)
    _, _, log_likelihood = model.sample_latents(table, make_latents(model, rows), KEY)
    weights = dense_doc_topic(rows, 3) + alpha
    of_tokens = np.logaddexp.reduce(np.log(weights)[:, None] + table, axis=-1)
    expected = (counts * (of_tokens - np.log(counts.sum(axis=1) + alpha.sum())[:, None])).sum()
    assert log_likelihood == pytest.approx(expected, abs=1e-4)
    halves = [make_model(part, alpha) for part in (counts[:3], counts[3:])]
    parts = [
        half.sample_latents(table, make_latents(half, of), KEY)[2]
        for half, of in zip(halves, (rows[:3], rows[3:]), strict=True)
    ]
    assert sum(parts) == log_likelihood


def test_parts_of_the_rows_draw_what_the_whole_draws():
    counts = np.random.default_rng(0).poisson(2.0, (40, 4))
    table, alpha = random_densities(4, 5), np.full(5, 0.3)
    whole = make_model(counts, alpha, block_tokens=60)
    latents, statistics = whole.init_latents(KEY)
    _, after, _ = whole.sample_latents(table, latents, KEY)
    total = 0
    for start, stop in ((0, 13), (13, 40)):
        part = make_model(counts[start:stop], alpha)
        part.first_row = start
        latents, _ = part.init_latents(KEY)
        total = total + part.sample_latents(table, latents, KEY)[1].tocsr().toarray()
    np.testing.assert_array_equal(total, after.tocsr().toarray())
    assert statistics.totals.sum() == counts.sum()


@pytest.mark.parametrize("n_workers", [1, 3])
def test_both_kinds_of_latents_begin_where_the_family_says(n_workers):
    counts = np.random.default_rng(1).poisson(1.0, (30, 4))
    counts[[3, 3, 17], [0, 2, 2]] = 2000  # drawn at once
    start = np.array([2, 0, 1, 2])
    model = make_model(counts, np.ones(3), Deals(start), block_tokens=20, n_workers=n_workers)
    expected = np.zeros((4, 3))
    expected[np.arange(4), start] = counts.sum(axis=0)
    latents, statistics = model.init_latents(KEY)
    np.testing.assert_array_equal(statistics.tocsr().toarray(), expected)
    np.testing.assert_array_equal(tabulate(model, latents), np.eye(3)[start] * counts[:, :, None])
    topics, statistics = model.init_rows(KEY)
    np.testing.assert_array_equal(statistics.tocsr().toarray(), expected)
    words = np.concatenate([np.repeat(np.arange(4), row) for row in counts])
    np.testing.assert_array_equal(topics, start[words])


def test_scaled_tables_are_the_densities():
    table = random_densities(4, 60)
    words, log_scale = scale_tokens(table)
    np.testing.assert_array_equal(np.rint(log_scale * 2**16), log_scale * 2**16)
    assert np.abs(log_scale - table.max(axis=1)).max() <= 2.0**-17
    dense = words.words(0, 4).T
    relative = np.exp(table - log_scale[:, None])
    np.testing.assert_allclose(dense, relative, rtol=1e-6, atol=1e-45)
    assert words.weights.min() > 0
    assert len(words.weights) < table.size  # what is nothing beside the largest is not there


def test_draws_on_one_scale_keep_their_densities():
    tables = [random_densities(4, 6, seed) + shift for seed, shift in ((1, 0.0), (2, 5.0), (3, -2000.0))]
    words, log_scale = on_one_scale([scale_tokens(table) for table in tables])
    for table, matrix in zip(tables, words, strict=True):
        expected = np.exp(table - log_scale[:, None])
        np.testing.assert_allclose(matrix.words(0, 4).T, expected, rtol=1e-6, atol=1e-45)
