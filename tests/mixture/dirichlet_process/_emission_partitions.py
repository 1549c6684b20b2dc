"""The exact posterior over partitions of five rows for each emission, by enumeration.

Parameters are integrated out: in closed form, with the missing cells left out, if the features are independent given
the component; otherwise the marginal likelihood of completed rows is integrated over the missing cells by quadrature.
Nothing here is shared with the package's code.
"""

from typing import ClassVar

import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp, multigammaln

from skmanifold.emissions import Bernoulli, Categorical, Columns, Gaussian, Multinomial, Poisson

from . import _tiny_partitions as tiny

N_ROWS = 5
_REACH, _STEP, _FINE_STEP = 9.0, 0.14, 0.03  # of the nodes t, where a missing cell is x = centre + spread * sinh(t)


class Rows:
    """Five rows with the exact posterior of their partition: base class.

    `hyper` has the hyperparameters; `X` is (5, n_features), with NaN for missing cells.
    """

    has_missing_draws = False  # whether missing cells are part of a sampler's state

    def __init__(self, X, **hyper):
        self.X = np.asarray(X, float)
        self.hyper = hyper
        self._known: dict[frozenset[int], float] = {}

    def changed(self, *, X=None, **hyper):
        """The same with other rows or hyperparameters."""
        return type(self)(self.X if X is None else X, **{**self.hyper, **hyper})

    def read_as_zero(self):
        """The same with zeros for missing cells, as a wrong program has them."""
        return self.changed(X=np.nan_to_num(self.X))

    @property
    def missing(self):
        return np.isnan(self.X)

    @property
    def n_features(self):
        return self.X.shape[1]

    def log_marginal(self, rows) -> float:
        """Log p(rows), if they share a component."""
        raise NotImplementedError

    def log_likelihood(self, clusters) -> float:
        """Log p(X | partition)."""
        for rows in clusters:
            if rows not in self._known:
                self._known[rows] = self.log_marginal(sorted(rows))
        return sum(self._known[rows] for rows in clusters)

    def law(self, concentration=1.0) -> np.ndarray:
        """Posterior probabilities of the 52 partitions; `concentration` as in `tiny.law_of`."""
        return tiny.law_of(self.log_likelihood, len(self.X), concentration)

    def draw_components(self, n, rng):
        """Parameters of n components from the prior."""
        raise NotImplementedError

    def draw_rows(self, components, labels, rng):
        """Complete rows of these components."""
        raise NotImplementedError

    def log_densities(self, components, row) -> np.ndarray:
        """Log densities (n,) of the observed cells of a row."""
        raise NotImplementedError

    def draw_missing(self, labels, rng) -> np.ndarray:
        """The rows, with the missing cells drawn given the partition."""
        raise NotImplementedError


class _Cells(Rows):
    """Features that are independent given the component."""

    def log_marginal_of_feature(self, j, cells) -> float:
        raise NotImplementedError

    def log_marginal(self, rows):
        columns = self.X[rows].T
        return float(
            sum(self.log_marginal_of_feature(j, column[~np.isnan(column)]) for j, column in enumerate(columns))
        )

    def log_densities_of_cell(self, components, j, cell):
        raise NotImplementedError

    def log_densities(self, components, row):
        return sum(self.log_densities_of_cell(components, j, row[j]) for j in np.flatnonzero(~np.isnan(row)))


class BernoulliRows(_Cells):
    """Hyperparameters `ones` and `zeros`, one for each feature."""

    @property
    def emission(self):
        return Bernoulli(self.hyper["ones"], self.hyper["zeros"])

    def log_marginal_of_feature(self, j, cells):
        a, b = self.hyper["ones"][j], self.hyper["zeros"][j]
        return betaln(a + cells.sum(), b + (1 - cells).sum()) - betaln(a, b)

    def draw_components(self, n, rng):
        return rng.beta(self.hyper["ones"], self.hyper["zeros"], (n, self.n_features))

    def draw_rows(self, components, labels, rng):
        return (rng.random((len(labels), self.n_features)) < components[labels]).astype(float)

    def log_densities_of_cell(self, components, j, cell):
        return stats.bernoulli.logpmf(cell, components[:, j])


class PoissonRows(_Cells):
    """Hyperparameters `shape` and `rate`, one for each feature."""

    @property
    def emission(self):
        return Poisson(self.hyper["shape"], self.hyper["rate"])

    def log_marginal_of_feature(self, j, cells):
        a, b = self.hyper["shape"][j], self.hyper["rate"][j]
        shape, rate = a + cells.sum(), b + len(cells)
        return a * np.log(b) - shape * np.log(rate) + gammaln(shape) - gammaln(a) - gammaln(cells + 1).sum()

    def draw_components(self, n, rng):
        return rng.gamma(self.hyper["shape"], 1 / np.asarray(self.hyper["rate"]), (n, self.n_features))

    def draw_rows(self, components, labels, rng):
        return rng.poisson(components[labels]).astype(float)

    def log_densities_of_cell(self, components, j, cell):
        return stats.poisson.logpmf(cell, components[:, j])


class CategoricalRows(_Cells):
    """Hyperparameters `prior`, and `widths`: the number of categories of each column."""

    @property
    def emission(self):
        return Categorical(self.hyper["prior"], min_categories=self.hyper["widths"])

    def log_marginal_of_feature(self, j, cells):
        return _log_polya(np.bincount(cells.astype(int), minlength=self.hyper["widths"][j]), self.hyper["prior"])

    def draw_components(self, n, rng):
        return [rng.dirichlet(np.full(width, self.hyper["prior"]), n) for width in self.hyper["widths"]]

    def draw_rows(self, components, labels, rng):
        uniforms = rng.random((len(labels), self.n_features, 1))
        levels = [np.cumsum(column[labels], axis=1)[:, :-1] for column in components]
        return np.stack([(uniforms[:, j] > level).sum(axis=1) for j, level in enumerate(levels)], axis=1).astype(float)

    def log_densities_of_cell(self, components, j, cell):
        return np.log(components[j][:, int(cell)])


class MultinomialRows(Rows):
    """Hyperparameter `prior`, one pseudo-count for each feature; rows keep their numbers of tokens."""

    @property
    def emission(self):
        return Multinomial(self.hyper["prior"])

    def log_marginal(self, rows):
        return _log_polya(self.X[rows].sum(axis=0), self.hyper["prior"])

    def draw_components(self, n, rng):
        return rng.dirichlet(self.hyper["prior"], n)

    def draw_rows(self, components, labels, rng):
        totals = self.X.sum(axis=1).astype(int)
        return rng.multinomial(totals, components[labels]).astype(float)

    def log_densities(self, components, row):
        return np.log(components) @ row


def _log_polya(counts, prior) -> float:
    """Log probability of tokens in order, whose distribution has a Dirichlet prior."""
    prior = np.broadcast_to(prior, counts.shape)
    terms = gammaln(prior + counts) - gammaln(prior)
    return float(terms.sum() + gammaln(prior.sum()) - gammaln(prior.sum() + counts.sum()))


class _GaussianRows(Rows):
    """Hyperparameters `mean`, `kappa`, `psi` and `degrees`; components are means and covariances (n, d, d)."""

    covariance_type: ClassVar[str]

    @property
    def emission(self):
        psi = self.hyper["psi"]
        psi = psi if np.ndim(psi) == 0 else np.asarray(psi)
        return Gaussian(self.covariance_type, self.hyper["mean"], self.hyper["kappa"], psi, self.hyper["degrees"])

    def draw_covariances(self, n, rng):
        """(n, d, d)."""
        raise NotImplementedError

    def draw_components(self, n, rng):
        covariances = self.draw_covariances(n, rng)
        noise = np.linalg.cholesky(covariances) @ rng.standard_normal((n, self.n_features, 1))
        return self.hyper["mean"] + noise[..., 0] / np.sqrt(self.hyper["kappa"]), covariances

    def draw_rows(self, components, labels, rng):
        means, covariances = components
        noise = np.linalg.cholesky(covariances[labels]) @ rng.standard_normal((len(labels), self.n_features, 1))
        return means[labels] + noise[..., 0]

    def log_densities(self, components, row):
        seen = np.flatnonzero(~np.isnan(row))
        means, covariances = components[0][:, seen], components[1][:, seen[:, None], seen]
        gaps = row[seen] - means
        squares = np.einsum("na,nab,nb->n", gaps, np.linalg.inv(covariances), gaps)
        return -0.5 * (squares + np.linalg.slogdet(covariances)[1] + len(seen) * np.log(2 * np.pi))


class _VarianceRows(_GaussianRows):
    """Features with variances, that may be shared."""

    def log_marginal_of_features(self, rows, features, psi) -> float:
        """Of features that share a variance, IG(degrees / 2, psi / 2)."""
        kappa, half = self.hyper["kappa"], self.hyper["degrees"] / 2
        n_cells, scatter, ratio = 0, psi, 0.0
        for j in features:
            cells = self.X[rows, j]
            cells = cells[~np.isnan(cells)]
            if n := len(cells):
                gap = cells.mean() - self.hyper["mean"][j]
                scatter += ((cells - cells.mean()) ** 2).sum() + kappa * n / (kappa + n) * gap**2
                ratio += np.log(kappa / (kappa + n))
                n_cells += n
        after = half + n_cells / 2
        log_variance = half * np.log(psi / 2) - after * np.log(scatter / 2) + gammaln(after) - gammaln(half)
        return float(log_variance + 0.5 * ratio - 0.5 * n_cells * np.log(2 * np.pi))


class DiagRows(_VarianceRows):
    covariance_type = "diag"

    def log_marginal(self, rows):
        return sum(self.log_marginal_of_features(rows, [j], psi) for j, psi in enumerate(self.hyper["psi"]))

    def draw_covariances(self, n, rng):
        variances = np.asarray(self.hyper["psi"]) / 2 / rng.gamma(self.hyper["degrees"] / 2, 1, (n, self.n_features))
        return variances[:, :, None] * np.eye(self.n_features)


class SphericalRows(_VarianceRows):
    covariance_type = "spherical"

    def log_marginal(self, rows):
        return self.log_marginal_of_features(rows, range(self.n_features), self.hyper["psi"])

    def draw_covariances(self, n, rng):
        variances = self.hyper["psi"] / 2 / rng.gamma(self.hyper["degrees"] / 2, 1, n)
        return variances[:, None, None] * np.eye(self.n_features)


class _WishartRows(_GaussianRows):
    """Covariances with an inverse Wishart prior; missing cells are integrated out by quadrature."""

    has_missing_draws = True
    step = _STEP

    def __init__(self, X, **hyper):
        super().__init__(X, **hyper)
        self._known_levels: dict[frozenset, tuple[np.ndarray, np.ndarray]] = {}  # of the first missing cell

    def log_marginal_of_completed(self, clusters, X):
        """Of clusters that share a covariance, for completed rows (..., 5, d)."""
        d, kappa, degrees = self.n_features, self.hyper["kappa"], self.hyper["degrees"]
        psi, ratio, n_rows = np.asarray(self.hyper["psi"]), 0.0, 0
        after = psi
        for rows in map(sorted, clusters):
            n, values = len(rows), X[..., rows, :]
            gaps = values - values.mean(axis=-2, keepdims=True)
            from_mean = values.mean(axis=-2) - self.hyper["mean"]
            after = after + np.einsum("...ia,...ib->...ab", gaps, gaps)
            after = after + kappa * n / (kappa + n) * from_mean[..., :, None] * from_mean[..., None, :]
            ratio += np.log(kappa / (kappa + n))
            n_rows += n
        half = degrees / 2
        logs = multigammaln(half + n_rows / 2, d) - multigammaln(half, d) + half * np.linalg.slogdet(psi)[1]
        logs += 0.5 * d * ratio - 0.5 * n_rows * d * np.log(np.pi)
        return logs - (half + n_rows / 2) * np.linalg.slogdet(after)[1]

    def nodes(self, step=None):
        """Values of a missing cell and log weights of the quadrature, for each column."""
        t = np.arange(-_REACH, _REACH, step or self.step)
        centre = (np.nanmean(self.X, axis=0) + self.hyper["mean"]) / 2
        spread = np.sqrt(np.diag(self.hyper["psi"]))
        return centre[:, None] + spread[:, None] * np.sinh(t), np.log(spread)[:, None] + np.log(
            np.cosh(t) * (t[1] - t[0])
        )

    def missing_cells(self, clusters):
        rows = frozenset().union(*clusters)
        return [(i, j) for i, j in np.argwhere(self.missing).tolist() if i in rows]

    def completed(self, cells, values):
        """Rows (..., 5, d) with these values (..., ) of the missing cells; others stay NaN."""
        values = np.broadcast_arrays(*values)
        X = np.broadcast_to(self.X, (*values[0].shape, *self.X.shape)).copy()
        for (i, j), value in zip(cells, values, strict=True):
            X[..., i, j] = value
        return X

    def log_marginal_of_clusters(self, clusters) -> float:
        """Of the observed cells of clusters that share a covariance."""
        cells = self.missing_cells(clusters)
        if not cells:
            return float(self.log_marginal_of_completed(clusters, self.X))
        nodes, log_weights = self.nodes()
        axes = np.ix_(*(nodes[j] for _, j in cells))
        logs = self.log_marginal_of_completed(clusters, self.completed(cells, axes))
        return float(logsumexp(logs + sum(np.ix_(*(log_weights[j] for _, j in cells)))))

    def _levels(self, clusters, cells, values):
        """Values of the first cell after those with `values`, and its distribution function there, given these."""
        (_, j), *later = cells[len(values) :]
        nodes, log_weights = self.nodes(_FINE_STEP)
        coarse, coarse_weights = self.nodes()
        axes = np.ix_(nodes[j], *(coarse[k] for _, k in later))
        logs = self.log_marginal_of_completed(clusters, self.completed(cells, (*values, *axes)))
        logs = logs + sum(np.ix_(log_weights[j], *(coarse_weights[k] for _, k in later)))
        density = np.exp(logs - logs.max()).reshape(len(nodes[j]), -1).sum(axis=1)
        return nodes[j], (np.cumsum(density) - density / 2) / density.sum()

    def _draw_cells(self, clusters, rng):
        """Missing cells of clusters that share a covariance, by their distribution functions one after the other."""
        cells, values = self.missing_cells(clusters), []
        for _ in cells:
            known = self._known_levels.get(frozenset(clusters)) if not values else None
            nodes, levels = known or self._levels(clusters, cells, values)
            if not values:
                self._known_levels[frozenset(clusters)] = nodes, levels
            values.append(float(np.interp(rng.random(), levels, nodes)))
        return dict(zip(cells, values, strict=True))

    def groups(self, clusters):
        """Clusters by the covariance that they share."""
        raise NotImplementedError

    def draw_missing(self, labels, rng):
        X = self.X.copy()
        for clusters in self.groups(tiny.clusters_of(labels)):
            for cell, value in self._draw_cells(clusters, rng).items():
                X[cell] = value
        return X


class FullRows(_WishartRows):
    covariance_type = "full"

    def log_marginal(self, rows):
        return self.log_marginal_of_clusters([frozenset(rows)])

    def groups(self, clusters):
        return [[rows] for rows in clusters]

    def draw_covariances(self, n, rng):
        covariances = stats.invwishart.rvs(self.hyper["degrees"], self.hyper["psi"], n, random_state=rng)
        return np.reshape(covariances, (n, self.n_features, self.n_features))


class TiedRows(_WishartRows):
    """One covariance for all components, so that clusters are not independent."""

    covariance_type = "tied"

    def log_marginal(self, rows):
        return self.log_marginal_of_clusters([frozenset(rows)])

    def log_likelihood(self, clusters):
        return self.log_marginal_of_clusters(clusters)

    def groups(self, clusters):
        return [clusters]

    def draw_covariances(self, n, rng):
        covariance = stats.invwishart.rvs(self.hyper["degrees"], self.hyper["psi"], random_state=rng)
        return np.broadcast_to(np.reshape(covariance, (self.n_features, self.n_features)), (n, *2 * [self.n_features]))


class TableRows(Rows):
    """Blocks of columns that are independent given the component; `blocks` are the rows of each."""

    def __init__(self, *blocks):
        self.blocks = blocks
        self.ends = np.cumsum([block.n_features for block in blocks])
        super().__init__(np.concatenate([block.X for block in blocks], axis=1))
        for block in blocks:
            self.hyper |= {name: value for name, value in block.hyper.items() if name == "degrees"}

    has_missing_draws = True

    def divided(self, X):
        """Columns of each block."""
        return np.split(X, self.ends[:-1], axis=-1)

    def changed(self, *, X=None, **hyper):
        parts = self.divided(self.X if X is None else np.asarray(X, float))
        return TableRows(
            *(
                block.changed(X=part, **(hyper if set(hyper) <= set(block.hyper) else {}))
                for block, part in zip(self.blocks, parts, strict=True)
            )
        )

    @property
    def emission(self):
        places = np.split(np.arange(self.n_features), self.ends[:-1])
        return Columns(
            [
                (f"b{i}", block.emission, list(place))
                for i, (block, place) in enumerate(zip(self.blocks, places, strict=True))
            ]
        )

    def log_likelihood(self, clusters):
        return sum(block.log_likelihood(clusters) for block in self.blocks)

    def draw_components(self, n, rng):
        return [block.draw_components(n, rng) for block in self.blocks]

    def draw_rows(self, components, labels, rng):
        drawn = (block.draw_rows(own, labels, rng) for block, own in zip(self.blocks, components, strict=True))
        return np.concatenate(list(drawn), axis=-1)

    def log_densities(self, components, row):
        triples = zip(self.blocks, components, self.divided(row), strict=True)
        return sum(block.log_densities(own, part) for block, own, part in triples)

    def draw_missing(self, labels, rng):
        drawn = (block.draw_missing(labels, rng) if block.has_missing_draws else block.X for block in self.blocks)
        return np.concatenate(list(drawn), axis=-1)


# --- the cases -------------------------------------------------------------------------------------------

_NUMBERS = [(1.1, 0.2), (0.3, 0.9), (-1.4, -0.5), (-0.6, -1.7), (0.4, -0.3)]
_MATRIX = ((0.6, 0.15), (0.15, 0.4))
_NORMAL = {"mean": np.array([0.2, -0.1]), "kappa": 0.3}


def _holes(X, *cells):
    X = np.array(X, float)
    for cell in cells:
        X[cell] = np.nan
    return X


def _with_and_without(name, rows, *cells):
    return {name: rows, f"{name}, missing": rows.changed(X=_holes(rows.X, *cells))}


CASES: dict[str, Rows] = {
    **_with_and_without("full", FullRows(_NUMBERS, **_NORMAL, psi=_MATRIX, degrees=4.0), (1, 0), (3, 1)),
    "full, one missing": FullRows(_holes(_NUMBERS, (1, 0)), **_NORMAL, psi=_MATRIX, degrees=4.0),
    **_with_and_without("tied", TiedRows(_NUMBERS, **_NORMAL, psi=_MATRIX, degrees=4.0), (1, 0), (3, 1)),
    **_with_and_without("diag", DiagRows(_NUMBERS, **_NORMAL, psi=(0.6, 0.4), degrees=3.0), (1, 0), (3, 1), (0, 1)),
    **_with_and_without("spherical", SphericalRows(_NUMBERS, **_NORMAL, psi=0.5, degrees=3.0), (1, 0), (3, 1), (0, 1)),
    **_with_and_without(
        "bernoulli",
        BernoulliRows(
            [(1, 1, 0), (1, 1, 1), (0, 0, 1), (0, 1, 0), (1, 0, 0)], ones=(0.4, 0.5, 0.3), zeros=(0.3, 0.6, 0.4)
        ),
        (1, 0), (3, 1), (0, 2),
    ),
    **_with_and_without(
        "poisson",
        PoissonRows([(1, 0), (3, 1), (0, 4), (2, 3), (5, 0)], shape=(1.2, 0.8), rate=(0.5, 0.4)),
        (1, 0), (3, 1), (0, 1),
    ),
    "multinomial": MultinomialRows([(3, 0, 1), (2, 1, 0), (0, 3, 1), (1, 2, 2), (4, 0, 0)], prior=(0.6, 0.6, 0.6)),
    **_with_and_without(
        "categorical",
        CategoricalRows([(0, 1, 1), (0, 1, 0), (1, 0, 1), (1, 2, 1), (0, 2, 0)], prior=0.4, widths=(2, 3, 2)),
        (1, 2), (3, 1), (0, 0),
    ),
    **_with_and_without(
        "full and categorical",
        TableRows(
            FullRows(_NUMBERS, **_NORMAL, psi=((1.5, 0.2), (0.2, 1.2)), degrees=4.0),
            CategoricalRows([(0, 1), (0, 1), (1, 0), (1, 2), (0, 2)], prior=1.0, widths=(2, 3)),
        ),
        (1, 0), (3, 1), (0, 2), (3, 3),
    ),
    **_with_and_without(
        "diag, bernoulli and poisson",
        TableRows(
            PoissonRows([(1,), (3,), (0,), (2,), (5,)], shape=(1.2,), rate=(0.5,)),
            DiagRows(_NUMBERS, **_NORMAL, psi=(2.0, 1.5), degrees=3.0),
            BernoulliRows([(1,), (1,), (0,), (0,), (1,)], ones=(1.4,), zeros=(1.3,)),
        ),
        (1, 0), (3, 1), (0, 2), (3, 3),
    ),
}  # fmt: skip
