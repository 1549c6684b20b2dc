"""Table 6.3 of St. Thomas et al. (2014): posterior of the dimension of each class, and Kaiser's rule.

One subspace is fitted to all rows of each class of breast cancer, heart and vehicle silhouettes, with three scalings of
the columns: raw, standardised, and divided by one number such that the total variance is 1. The loss of the paper, the
squared residual plus the dimension, has units: a direction lowers it if its variance exceeds 1, which is Kaiser's rule
for the covariance of the class. The methods are

- "gibbs": the posterior with the default prior of the noise, which is learned;
- "gibbs, noise 1": the posterior with noise of variance 1, so that the squared residuals are those of the loss, but
  the density along the subspace counts too;
- "conway": the corrected random walk of the paper for this loss, with the temperature psi equal to 1/2, which
  corresponds to the likelihood of the residuals, to 1/n, where n is the number of rows, and tuned by the search of the
  paper.

The prior of the dimension is proportional to exp(-eta d), with eta = 0 or 1. Kaiser's rule is applied to the covariance
and to the correlation matrix of the class. The walk changes the dimension rarely, so that three seeds show whether the
posteriors agree.

The paper does not state the scaling, the temperature, the priors, the lengths of the chains and whether the rows of a
class or of a cluster are used. Its claim: the dimensions of the classes are 5 or 6 and 4 or 5 (breast), 2 and 1
(heart), and 1 for all classes (vehicle).
"""

from __future__ import annotations

import functools
from itertools import product

import numpy as np
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks._results import begin_table, row, title
from benchmarks.subspaces_uci import load
from skmanifold import SubspaceMixture
from skmanifold.samplers import ConwayWalk

NEEDS_DATA = True
TABLES = ("breast", "heart", "vehicle")
SCALINGS = {
    "raw": lambda X: X,
    "standardised": lambda X: StandardScaler().fit_transform(X),
    "total variance 1": lambda X: X / np.sqrt(X.var(axis=0).sum()),
}
NOISE_ONE = (1e9, 1e9)  # shape and rate of the prior of a precision that is 1
METHODS = {  # temperature and prior of the noise, given the number of rows
    "gibbs": lambda n: (None, None),
    "gibbs, noise 1": lambda n: (None, NOISE_ONE),
    "conway, psi = 1/2": lambda n: (0.5, NOISE_ONE),
    "conway, psi = 1/n": lambda n: (1 / n, NOISE_ONE),
    "conway, psi tuned": lambda n: ("auto", NOISE_ONE),
}
PRIORS = (0, 1)
N_SEEDS, N_SWEEPS = 3, 1000
LEAST = 0.05  # probability of the dimensions that the table shows


def cases(quick):
    """Settings of the runs."""
    tables, scalings, priors, seeds, n_sweeps = (
        (("heart",), ("standardised",), (1,), 1, 60) if quick else (TABLES, SCALINGS, PRIORS, N_SEEDS, N_SWEEPS)
    )
    names = "table", "scaling", "prior", "method", "seed"
    return [
        {**dict(zip(names, values, strict=True)), "n_sweeps": n_sweeps}
        for values in product(tables, scalings, priors, METHODS, range(seeds))
    ]


@functools.cache
def classes_of(table, scaling):
    """The rows of each class."""
    X, y = load(table)
    X = SCALINGS[scaling](X)
    return [X[y == label] for label in np.unique(y)]


def kaiser(matrix):
    """Number of eigenvalues above 1."""
    return int((np.linalg.eigvalsh(matrix) > 1).sum())


def varying(X):
    """The columns that are not constant."""
    return X[:, X.std(axis=0) > 0]


def run(table, scaling, prior, method, seed, n_sweeps):
    """Kaiser's rule and the posterior of the dimension of each class."""
    rows = []
    with threadpool_limits(1):
        for number, X in enumerate(classes_of(table, scaling), start=1):
            temperature, noise_prior = METHODS[method](len(X))
            sampler = "gibbs" if temperature is None else ConwayWalk(temperature=temperature)
            settings = {"dimension_prior": prior, "noise_prior": noise_prior, "max_iter": n_sweeps, "thin": 1}
            model = SubspaceMixture(1, sampler=sampler, random_state=seed, **settings).fit(X)
            posterior = model.dimension_posterior_[0]
            dimensions = model.posterior_["dimensions"][0, :, 0]
            shown = [f"{d} ({posterior[d]:.2f})" for d in np.flatnonzero(posterior >= LEAST)]
            rows.append(
                {
                    "class": number,
                    "n_rows": len(X),
                    "of_covariance": kaiser(np.cov(X.T)),
                    "of_correlation": kaiser(np.corrcoef(varying(X).T)),
                    "mode": int(posterior.argmax()),
                    "mean": float(posterior @ np.arange(len(posterior))),
                    "changes": float(np.mean(np.diff(dimensions) != 0)),
                    "posterior": ", ".join(shown),
                }
            )
    return rows


def select(rows, **wanted):
    """The rows with these settings, in the order of the classes and seeds."""
    found = [each for each in rows if all(each[name] == value for name, value in wanted.items())]
    return sorted(found, key=lambda each: (each["class"], each["seed"]))


def known(rows, name):
    """The different values of a setting, in the order of the rows."""
    return list(dict.fromkeys(each[name] for each in rows))


def of_classes(found, describe):
    """A cell with an entry for each class."""
    entries = [describe([each for each in found if each["class"] == number]) for number in known(found, "class")]
    return "; ".join(entries)


def modes(own):
    """The most probable dimension, for each seed if they differ."""
    found = [each["mode"] for each in own]
    return str(found[0]) if len(set(found)) == 1 else "/".join(map(str, found))


def show(rows):
    """Kaiser's rule and modes for each scaling, and the posteriors with standardised columns."""
    priors = known(rows, "prior")
    for table in known(rows, "table"):
        title(f"{table}: most probable dimension of each class, with different seeds if they differ")
        begin_table(("scaling", "method", *(f"eta = {prior:g}" for prior in priors)))
        for scaling in known(rows, "scaling"):
            own = select(rows, table=table, scaling=scaling)
            for name, text in {"of_covariance": "covariance", "of_correlation": "correlations"}.items():
                cell = of_classes(own, lambda found, name=name: str(found[0][name]))
                row((scaling, f"Kaiser, {text}", *[cell] * len(priors)))
            for method in METHODS:
                row((scaling, method, *(of_classes(select(own, method=method, prior=p), modes) for p in priors)))
    title(f"Standardised columns, eta = {priors[len(priors) // 2]:g}, one seed: posterior of the dimension by class")
    begin_table(("table", "method", "dimension (probability)", "share of sweeps that change the dimension"))
    for table, method in product(known(rows, "table"), METHODS):
        wanted = {"table": table, "scaling": "standardised", "prior": priors[len(priors) // 2], "method": method}
        own = select(rows, **wanted, seed=0)
        changes = np.mean([each["changes"] for each in select(rows, **wanted)])
        row((table, method, of_classes(own, lambda found: found[0]["posterior"]), f"{changes:.3f}"))


def draw(rows):
    """Posterior mean of the dimension against Kaiser's rule, with standardised columns."""
    import matplotlib.pyplot as plt

    from benchmarks._runs import line_style

    priors = known(rows, "prior")
    figure, axes = plt.subplots(
        1, len(priors), figsize=(4 * len(priors), 4), layout="constrained", sharey=True, squeeze=False
    )
    for ax, prior in zip(axes[0], priors, strict=True):
        for number, method in enumerate(METHODS):
            own = select(rows, scaling="standardised", prior=prior, method=method)
            style = {**line_style(number), "linestyle": ""}
            ax.plot([each["of_covariance"] for each in own], [each["mean"] for each in own], label=method, **style)
        ends = (0, max(each["of_covariance"] for each in select(rows, scaling="standardised")) + 1)
        ax.plot(ends, ends, color="0.4", linestyle=":")
        ax.set(title=f"eta = {prior:g}", xlabel="eigenvalues of the covariance above 1")
    axes[0, 0].set_ylabel("posterior mean of the dimension")
    axes[0, 0].legend(fontsize="small")
    return figure
