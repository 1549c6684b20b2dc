"""Sec. 5.3 of Liu et al. (2016): bias of its held-out score, which averages over draws from the prior.

The score of a document v given topics is log p(v | topics), where the proportions are integrated out. The paper
estimates it by the mean of p(v | topics, proportions) over N draws from the prior. Here N is from 100 to 100,000. The
comparison is importance sampling with a proposal that is fitted to each document, with 1,000 draws; a table has the
largest of the standard errors of the documents.

The corpus is 20News-different with the tf-idf of the authors, and the settings are those of the paper: 20 topics,
minibatches of 50, concentrations of 30,000, 10,000 and 10,000, doc_topic_prior 10. Topics are fitted by
SphericalAdmixture, with 400 passes and its default settings otherwise. The scored documents are 200 held-out documents
and 50 documents that are drawn from the model with the last draw of the topics. As in the paper, the density of a
document is averaged over draws of the topics, here five; "vb" has one estimate. The paper does not state N.

The claim: log p(v | topics) can be estimated by averaging over draws from the prior.
"""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from benchmarks._sam_runs import DATA, load, matrix
from skmanifold import SphericalAdmixture
from skmanifold.distributions import VonMisesFisher
from skmanifold.metrics import spherical_document_likelihood

NEEDS_DATA = True
SAMPLERS = ("gsgnht", "sggmc", "gmc_gibbs", "vb")
SIZES = (100, 1000, 10_000, 100_000)  # draws from the prior
DOCUMENTS = ("held out", "drawn from the model")
DOC_TOPIC_PRIOR = 10.0
N_TOPIC_DRAWS, N_FITTED_DRAWS, N_SEEDS = 5, 1000, 3
FITTED, PRIOR = "fitted", "prior"


def cases(quick):
    """Settings of the runs."""
    n_passes, n_documents, most = (6, 12, 1000) if quick else (400, 200, 100_000)
    options = {"n_passes": n_passes, "n_documents": n_documents, "most": most}
    return [
        {"sampler": sampler, "seed": seed, **options} for sampler in SAMPLERS for seed in range(1 if quick else N_SEEDS)
    ]


def admixture(data, sampler, seed, **options):
    """The estimator at the settings of the paper for a corpus of `_sam_runs`."""
    n_topics, batch_size, kappa, sigma, kappa_0, *_ = DATA[data]
    return SphericalAdmixture(
        n_topics,
        sampler=sampler,
        doc_topic_prior=DOC_TOPIC_PRIOR,
        document_concentration=kappa,
        topic_concentration=sigma,
        mean_concentration=kappa_0,
        batch_size=batch_size,
        random_state=seed,
        n_jobs=1,
        **options,
    )


def fit(model, rows):
    """Fit without the warning of a temperature, which is reported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(rows)


def some_rows(rows, n):
    """The same random documents in each run; the rows of the corpus are sorted by group."""
    return rows[np.sort(np.random.default_rng(0).permutation(rows.shape[0])[:n])]


def topics_of(model, n):
    """Evenly spaced draws of the topics, of which the last one is the last draw; or the one estimate."""
    if model.sampler == "vb":
        return [model.components_]
    draws = model.posterior_["components"][model.best_chain_]
    return [draws[i] for i in np.unique(np.linspace(len(draws) - 1, 0, n).astype(int))]


def drawn_documents(topics, kappa, n, seed):
    """Documents of the model with these topics."""
    rng = np.random.default_rng(seed)
    centres = rng.dirichlet(np.full(len(topics), DOC_TOPIC_PRIOR), size=n) @ topics
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    return np.stack([VonMisesFisher(centre, kappa).sample(random_state=rng) for centre in centres])


def scores(topics, X, kappa, method, n_draws):
    """Log densities of the documents under the last topics and under all, effective draws, and the largest error."""
    prior = np.full(len(topics[0]), DOC_TOPIC_PRIOR)
    options = {"method": method, "n_draws": n_draws, "n_jobs": 1}
    found = [spherical_document_likelihood(t, X, prior, kappa, random_state=i, **options) for i, t in enumerate(topics)]
    logs = np.array([each.log_density for each in found])
    ess = n_draws * np.median([each.effective_sample_size for each in found])
    largest = max(each.document_errors.max() for each in found)
    return logs[-1], np.logaddexp.reduce(logs, axis=0) - np.log(len(logs)), ess, largest


def run(sampler, seed, n_passes, n_documents, most):
    """Log perplexities by both estimators, and the bias of draws from the prior with its standard error."""
    train, test = (matrix(part) for part in load("news"))
    model = fit(admixture("news", sampler, seed, max_iter=n_passes), train)
    topics = topics_of(model, N_TOPIC_DRAWS)
    kappa = model.document_concentration_
    rows = []
    for documents in DOCUMENTS:
        if documents == DOCUMENTS[0]:
            X = some_rows(test, n_documents)
        else:
            X = drawn_documents(topics[-1], kappa, n_documents // 4, seed)
        reference = None
        for method, n in ((FITTED, N_FITTED_DRAWS), *((PRIOR, n) for n in SIZES if n <= most)):
            last, average, ess, largest = scores(topics, X, kappa, method, n)
            reference = average if method == FITTED else reference
            bias = average - reference
            rows.append(
                {
                    "documents": documents,
                    "method": method,
                    "n_draws": n,
                    "last": -float(last.mean()),
                    "average": -float(average.mean()),
                    "bias": float(bias.mean()),
                    "error": float(bias.std(ddof=1) / np.sqrt(len(bias))),
                    "ess": float(ess),
                    "largest_error": float(largest),
                }
            )
    return rows


def column(rows, documents, sampler, method, n, name):
    """The values of all seeds."""
    wanted = (documents, sampler, method, n)
    return [
        each[name] for each in rows if tuple(each[k] for k in ("documents", "sampler", "method", "n_draws")) == wanted
    ]


def show(rows):
    """Log perplexities and biases by number of draws, and the order of the methods."""
    sizes = sorted({each["n_draws"] for each in rows if each["method"] == PRIOR})
    settings = [(FITTED, N_FITTED_DRAWS), *((PRIOR, n) for n in sizes)]
    heads = ("importance sampling", *(f"N = {n:,}" for n in sizes))
    for documents in DOCUMENTS:
        title(f"Negative mean log density of documents, {documents}: medians (ranges) over seeds")
        begin_table(("method", heads[0], "its largest standard error", "last draw of the topics alone", *heads[1:]))
        for sampler in SAMPLERS:
            own = (spread(column(rows, documents, sampler, *setting, "average"), ".1f") for setting in settings)
            error = max(column(rows, documents, sampler, *settings[0], "largest_error"))
            last = column(rows, documents, sampler, *settings[0], "last")
            row((sampler, next(own), f"{error:.2f}", spread(last, ".1f"), *own))
        title(f"Bias of the mean log density in nats, documents {documents}: medians (ranges) over seeds")
        begin_table(("method", *heads[1:], "standard error at the largest N", "effective draws at the largest N"))
        for sampler in SAMPLERS:
            found = [column(rows, documents, sampler, *setting, "bias") for setting in settings[1:]]
            error, ess = (np.median(column(rows, documents, sampler, *settings[-1], name)) for name in ("error", "ess"))
            row((sampler, *(spread(values, ".1f") for values in found), f"{error:.1f}", f"{ess:.1f}"))
    title("Methods in the order of their median score of held-out documents, the best first")
    begin_table(("estimator", "order"))
    for head, setting in zip(heads, settings, strict=True):
        medians = {s: np.median(column(rows, DOCUMENTS[0], s, *setting, "average")) for s in SAMPLERS}
        row((head, ", ".join(sorted(medians, key=medians.get))))


def draw(rows):
    """Bias against the number of draws."""
    import matplotlib.pyplot as plt

    from benchmarks._runs import line_style

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    sizes = sorted({each["n_draws"] for each in rows if each["method"] == PRIOR})
    for ax, documents in zip(axes, DOCUMENTS, strict=True):
        for number, sampler in enumerate(SAMPLERS):
            found = np.array([column(rows, documents, sampler, PRIOR, n, "bias") for n in sizes])
            style = line_style(number)
            ax.semilogx(sizes, np.median(found, axis=1), label=sampler, **style)
            ax.fill_between(sizes, found.min(axis=1), found.max(axis=1), alpha=0.2, color=style["color"])
        ax.axhline(0.0, color="0.4", linestyle=":")
        ax.set(title=f"documents {documents}", xlabel="draws from the prior")
    axes[0].set_ylabel("bias, nats per document")
    axes[0].legend(fontsize="small")
    return figure
