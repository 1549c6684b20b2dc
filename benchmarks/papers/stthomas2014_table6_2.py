"""Table 6.2 of St. Thomas et al. (2014): three tables of UCI, as classification and as clustering.

Breast cancer, heart and vehicle silhouettes, in ten random splits with a held-out tenth. Columns are standardised by
the training rows. The paper calls its models unsupervised and its entries both cluster assignment accuracy and test
error, so that both readings are run. In "classes" a model is fitted to the training rows of each class, and rows are
classified by Bayes' rule. In "clusters" the models do not use the classes, and clusters are matched to classes by the
training rows. The mixture of subspaces (MSM) has inferred dimensions, inferred dimensions below m/2 as in the paper, or
fixed ones. "d = (5, 2, 2)" in the table is read as d = 5 for breast and 2 for heart and vehicle. "gibbs" draws from the
posterior of the normal likelihood; "conway" is the corrected random walk of the paper. As classifiers, Gaussian
mixtures (GMM) have one component per class, which is quadratic discriminant analysis. The mixture of factor models
(MFM) is fitted by EM, with a number of factors that is chosen by the Bayesian information criterion; in the paper it is
nonparametric.

The paper does not state the scaling of the columns, the lengths of the chains, the priors and the settings of the logit
and the GMM. The logit is therefore also fitted to columns that are not scaled. The claim: inferred dimensions are
better than fixed ones, and the MSM is at least as accurate as the logit, the only supervised method.
"""

from __future__ import annotations

import functools
import warnings
from itertools import product

import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks._partitions import match
from benchmarks._results import begin_table, row, title
from benchmarks.subspaces_uci import TEST_SIZE, classifiers, load
from skmanifold import SubspaceClassifier, SubspaceMixture
from skmanifold.samplers import ConwayWalk

from ._factor_analysers import FactorAnalysers, FactorClassifier

NEEDS_DATA = True
DIMENSIONS = {"breast": 5, "heart": 2, "vehicle": 2}
USES = ("classes", "clusters")
N_SPLITS = 10
MSM, FIXED, CONWAY, RAW = "MSM, gibbs", "MSM, gibbs, fixed d", "MSM, conway", "logit, raw columns"
METHODS = {  # as in `subspaces_uci`, by their names here
    MSM: "SubspaceClassifier",
    "MSM, gibbs, d < m/2": "SubspaceClassifier, d < m/2",
    "GMM": "QDA, reg. 0.01",
    "logit": "logistic regression",
}
PAPER = {  # ranges of Table 6.2
    "MSM": {"breast": (0.89, 0.94), "heart": (0.77, 0.81), "vehicle": (0.77, 0.83)},
    "MSM, d = (5, 2, 2)": {"breast": (0.83, 0.89), "heart": (0.73, 0.77), "vehicle": (0.75, 0.80)},
    "MFM": {"breast": (0.90, 0.96), "heart": (0.80, 0.82), "vehicle": (0.76, 0.85)},
    "GMM": {"breast": (0.64, 0.70), "heart": (0.56, 0.60), "vehicle": (0.74, 0.79)},
    "logit": {"breast": (0.78, 0.86), "heart": (0.72, 0.78), "vehicle": (0.46, 0.59)},
}


def cases(quick):
    """Settings of the runs."""
    tables, n_splits = (("heart",), 2) if quick else (DIMENSIONS, N_SPLITS)
    return [
        {"use": use, "table": table, "split": split} for use, table, split in product(USES, tables, range(n_splits))
    ]


@functools.cache
def read(table):
    """Columns and classes of a table, and the rows of its splits."""
    X, y = load(table)
    splits = StratifiedShuffleSplit(N_SPLITS, test_size=TEST_SIZE, random_state=0).split(X, y)
    return X, y, list(splits)


def classifying(table, m):
    """Classifiers by name."""
    found = classifiers(m)
    mixtures = {
        FIXED: SubspaceMixture(1, dimensions=DIMENSIONS[table], max_iter=100, thin=1),
        CONWAY: SubspaceMixture(1, sampler=ConwayWalk()),
        f"{CONWAY}, fixed d": SubspaceMixture(1, sampler=ConwayWalk(), dimensions=DIMENSIONS[table]),
    }
    plain = {"shrinkage": None, "temperature": 1.0}
    for name in (MSM, "MSM, gibbs, d < m/2"):
        found[METHODS[name]].set_params(**plain)
    return {
        **{name: found[of] for name, of in METHODS.items()},
        **{name: SubspaceClassifier(mixture, **plain, random_state=0) for name, mixture in mixtures.items()},
        "MFM, EM": FactorClassifier(),
        RAW: LogisticRegression(),
    }


def clustering(table, m, n_classes, seed):
    """Mixtures and k-means by name."""
    subspaces = functools.partial(SubspaceMixture, n_classes, random_state=seed)
    gaussians = functools.partial(GaussianMixture, n_classes, n_init=5, random_state=seed)
    fixed = {"dimensions": DIMENSIONS[table]}
    return {
        MSM: subspaces(),
        "MSM, gibbs, d < m/2": subspaces(max_dimension=(m - 1) // 2),
        FIXED: subspaces(**fixed),
        CONWAY: subspaces(sampler=ConwayWalk()),
        f"{CONWAY}, fixed d": subspaces(sampler=ConwayWalk(), **fixed),
        "GMM": gaussians(),
        "GMM, random initialisation": gaussians(init_params="random"),
        "MFM, EM": FactorAnalysers(n_classes, random_state=seed),
        "K-means": KMeans(n_classes, n_init=10, random_state=seed),
    }


def run(use, table, split):
    """Accuracy of each method on training and held-out rows."""
    X, y, splits = read(table)
    n_classes = len(np.unique(y))
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of the logit with raw columns
        models = classifying(table, X.shape[1]) if use == "classes" else clustering(table, X.shape[1], n_classes, split)
        for method, model in models.items():
            fitted, held_out = splits[split]
            scale = StandardScaler(with_mean=method != RAW, with_std=method != RAW).fit(X[fitted])
            parts = [(scale.transform(X[part]), y[part]) for part in (fitted, held_out)]
            model = clone(model)
            if use == "classes":
                model.fit(*parts[0])
                found = [np.mean(model.predict(of_part) == truth) for of_part, truth in parts]
            else:
                model.fit(parts[0][0])
                labels = [model.predict(of_part) for of_part, _ in parts]
                group = match(labels[0], y[fitted])
                found = [np.mean(group[own] == truth) for own, (_, truth) in zip(labels, parts, strict=True)]
            rows.append({"method": method, "training": float(found[0]), "held_out": float(found[1])})
    return rows


def accuracies(rows, use, table, method, part="held_out"):
    """Accuracies of a method, in the order of the splits."""
    own = [each for each in rows if (each["use"], each["table"], each["method"]) == (use, table, method)]
    return np.array([each[part] for each in sorted(own, key=lambda each: each["split"])])


def methods_of(rows, use):
    """The methods of a use, in the order of the rows."""
    return list(dict.fromkeys(each["method"] for each in rows if each["use"] == use))


def show(rows):
    """Accuracies with ranges as in the paper, and differences."""
    tables = [table for table in DIMENSIONS if any(each["table"] == table for each in rows)]
    for use in USES:
        n = len({each["split"] for each in rows if each["use"] == use})
        title(f"Models of {use}: held-out accuracy in {n} splits, mean (range); mean accuracy on training rows")
        begin_table(("method", *(cell for table in tables for cell in (f"{table}, held out", "training"))))
        for method in methods_of(rows, use):
            cells = []
            for table in tables:
                held_out, training = (accuracies(rows, use, table, method, part) for part in ("held_out", "training"))
                cells.append(f"{held_out.mean():.3f} ({min(held_out):.2f} to {max(held_out):.2f})")
                cells.append(f"{training.mean():.3f}")
            row((method, *cells))
        for method, of in PAPER.items():
            ranges = ("{:.2f} to {:.2f}".format(*of[table]) for table in tables)
            row((f"paper: {method}", *(cell for each in ranges for cell in (each, ""))))
        title(f"Models of {use}: held-out accuracy of {MSM} minus that of other methods, mean ± standard error")
        begin_table(("method", *tables))
        for method in methods_of(rows, use):
            if method != MSM:
                own = [accuracies(rows, use, table, MSM) - accuracies(rows, use, table, method) for table in tables]
                row((method, *(difference(each) for each in own)))


def difference(values):
    """Mean and the standard error of Nadeau and Bengio (2003), for splits that share most of their rows."""
    error = values.std(ddof=1) * np.sqrt(1 / len(values) + TEST_SIZE / (1 - TEST_SIZE))
    return f"{values.mean():+.3f} ± {error:.3f}"


def draw(rows):
    """Range and mean of the held-out accuracy, as models of classes and as clusters."""
    import matplotlib.pyplot as plt

    tables = [table for table in DIMENSIONS if any(each["table"] == table for each in rows)]
    figure, axes = plt.subplots(2, len(tables), figsize=(4 * len(tables), 7), layout="constrained", squeeze=False)
    for of_use, use in zip(axes, USES, strict=True):
        for ax, table in zip(of_use, tables, strict=True):
            names = methods_of(rows, use)
            for place, method in enumerate(names):
                found = accuracies(rows, use, table, method)
                ax.plot([min(found), max(found)], [place, place], color="C0")
                ax.plot(found.mean(), place, "o", color="C0")
            for method, of in PAPER.items():
                ax.plot(of[table], [len(names)] * 2, color="0.5")
                names.append(f"paper: {method}")
            ax.set_yticks(range(len(names)), names if ax is of_use[0] else [])
            ax.invert_yaxis()
            ax.set(title=f"{table}, {use}", xlabel="held-out accuracy")
    return figure
