"""Appendix E of Liu et al. (2016): step sizes from its learning rates, for topics on unit spheres.

The paper sets the step size to sqrt(gamma / D) for D documents and the friction to rho divided by the step size, with
typical values of gamma and rho "around 0.1 to 0.01". Topics are on unit spheres, and nothing compensates for the noise
of minibatches, V(x) = 0. In a step the noise of variance V raises the temperature by about V step_size^2 / (2 rho). So
the excess of the temperature over 1 is about the ratio of V to 2 rho / step_size^2, the largest variance for which the
covariance in equation (8) is not negative.

The corpora and concentrations are those of figure 5: 20News-different with 20 topics and minibatches of 50, and, since
the 150,000 Wikipedia documents of the paper are not available, 15,056 documents of Wikipedia with 50 topics and
minibatches of 100. Each step is one step of the integrator (ABOBA) with a new minibatch. On 20News-different smaller
learning rates are run too, and some with V(x) as estimated from the minibatches (the empirical Fisher information of
section 3.3); as this takes ten times longer or more, these runs have a sixth of the passes. The rows "default" have the
settings of the library, where topics are on spheres with learned radii; step size, gamma and rho are those of the same
steps on unit spheres. The paper does not state which gamma, rho and number of steps it used.

The claim: these values are typical, and with them SGGMC and gSGNHT have lower perplexities than other methods.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from benchmarks._sam_runs import SETTINGS, load, matrix
from skmanifold.metrics import spherical_document_likelihood
from skmanifold.samplers import GSGNHT, SGGMC

from .liu2016_estimator import DOC_TOPIC_PRIOR, admixture, fit, some_rows, topics_of

NEEDS_DATA = True
PAPER = (0.1, 0.01)  # of gamma and of rho
SMALLER = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)  # of gamma
ESTIMATED = "SGGMC, V estimated"
SAMPLERS = ("SGGMC", ESTIMATED, "GSGNHT")
EVERYWHERE = ("SGGMC", "GSGNHT")  # at all settings
DEFAULT = 0.0  # gamma and rho of the settings of the library
N_PASSES = {"news": (120, 80), "wiki": (20, 12)}  # and how many of them are burn-in
SHORTER = 6  # factor for runs that estimate V
CORPORA = {"news": "20News-different", "wiki": "Wikipedia"}
N_DOCUMENTS, N_TOPIC_DRAWS, N_SEEDS = 100, 3, 3


def cases(quick):
    """Settings of the runs."""
    if quick:
        settings = [("news", 0.01, 0.1), ("news", 1e-6, 0.1), ("news", DEFAULT, DEFAULT)]
    else:
        settings = [("news", gamma, rho) for gamma, rho in product((*PAPER, *SMALLER), PAPER)]
        settings += [("wiki", gamma, rho) for gamma, rho in product(PAPER, PAPER)]
        settings += [(data, DEFAULT, DEFAULT) for data in N_PASSES]
    runs = [(*setting, sampler) for setting, sampler in product(settings, EVERYWHERE)]
    if not quick:
        runs += [("news", *pair, ESTIMATED) for pair in ((0.01, 0.1), (1e-5, 0.1), (1e-7, 0.1), (DEFAULT, DEFAULT))]
    return [
        {
            "data": data,
            "sampler": sampler,
            "gamma": gamma,
            "rho": rho,
            "seed": seed,
            "n_passes": 4 if quick else N_PASSES[data][0] // (SHORTER if sampler == ESTIMATED else 1),
        }
        for (data, gamma, rho, sampler), seed in product(runs, range(1 if quick else N_SEEDS))
    ]


def sampler_of(name, gamma, rho, n_documents):
    """The sampler at the settings of the paper or, for gamma = 0, of the library."""
    if gamma == DEFAULT:
        settings = SETTINGS["gsgnht" if name == "GSGNHT" else "sggmc"]
    else:
        step_size = np.sqrt(gamma / n_documents)
        settings = {"step_size": step_size, "friction": rho / step_size, "n_steps": 1, "scheme": "aboba"}
        settings["noise_covariance"] = None
    if name == ESTIMATED:
        settings = {**settings, "noise_covariance": "fisher"}
    return GSGNHT(**settings) if name == "GSGNHT" else SGGMC(**settings)


def turn(draws):
    """Mean cosine of a topic with itself one pass earlier."""
    return float(np.mean(np.einsum("tkv,tkv->tk", draws[1:], draws[:-1])))


def log_perplexity(model, X):
    """Negative mean log density of documents, averaged over draws of the topics, by importance sampling."""
    prior = np.full(model.n_components, DOC_TOPIC_PRIOR)
    topics = topics_of(model, N_TOPIC_DRAWS)
    found = [spherical_document_likelihood(t, X, prior, model.document_concentration_, n_jobs=1) for t in topics]
    logs = np.array([each.log_density for each in found])
    return -float(np.mean(np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))))


def run(data, sampler, gamma, rho, seed, n_passes):
    """Step size on the unit sphere, noise, temperature, friction, turn of the topics and log perplexity."""
    train, test = (matrix(part) for part in load(data))
    mover = sampler_of(sampler, gamma, rho, train.shape[0])
    total, burn_in = N_PASSES[data]
    model = admixture(
        data,
        mover,
        seed,
        topic_scale="auto" if gamma == DEFAULT else 1.0,
        max_iter=n_passes,
        burn_in=n_passes * burn_in // total,
        thin=1,
    )
    fit(model, train)
    chain = model._stream.states[0]  # the friction and the estimated noise are not public
    radius = np.median(model.topic_scale_)
    step_size, own_rho = mover.step_size / radius, mover.step_size * mover.friction
    noise = float(np.mean(chain.noise))  # with respect to unit topics
    return {
        "step_size": float(step_size),
        "own_gamma": float(train.shape[0] * step_size**2),
        "own_rho": float(own_rho),
        "noise": noise,
        "noise_share": noise * step_size**2 / (2 * own_rho),
        "temperature": float(np.mean(model.posterior_["temperature"])),
        "friction": float(chain.state.thermostat[0] / mover.friction) if sampler == "GSGNHT" else 1.0,
        "turn": turn(model.posterior_["components"][0]),
        "log_perplexity": log_perplexity(model, some_rows(test, N_DOCUMENTS)),
    }


def settings_of(rows, data, sampler):
    """Pairs of gamma and rho in falling order, the default at the end."""
    found = {(each["gamma"], each["rho"]) for each in rows if (each["data"], each["sampler"]) == (data, sampler)}
    return sorted(found, reverse=True)


def column(rows, data, sampler, setting, name):
    """The values of all seeds."""
    wanted = (data, sampler, *setting)
    return [each[name] for each in rows if tuple(each[k] for k in ("data", "sampler", "gamma", "rho")) == wanted]


def show(rows):
    """A table for each corpus and sampler."""
    head = ("gamma", "rho", "step size", "noise over its limit", "temperature", "friction over the initial one")
    for data, sampler in product(CORPORA, SAMPLERS):
        settings = settings_of(rows, data, sampler)
        if not settings:
            continue
        n_passes = column(rows, data, sampler, settings[0], "n_passes")[0]
        title(f"{sampler}, {CORPORA[data]}, {n_passes} passes: medians (ranges) over seeds")
        begin_table((*head, "cosine of a topic with itself one pass earlier", "log perplexity"))
        for setting in settings:
            found = {
                name: column(rows, data, sampler, setting, name)
                for name in ("own_gamma", "own_rho", "step_size", "noise_share", "friction", "turn")
            }
            medians = {name: np.median(values) for name, values in found.items()}
            own = f"{medians['own_gamma']:.2g}", f"{medians['own_rho']:.2g}"
            temperature, score = (
                column(rows, data, sampler, setting, name) for name in ("temperature", "log_perplexity")
            )
            row(
                (
                    f"{own[0]} (default)" if setting[0] == DEFAULT else own[0],
                    own[1],
                    f"{medians['step_size']:.2g}",
                    f"{medians['noise_share']:.3g}",
                    spread(temperature, ".4g"),
                    f"{medians['friction']:.3g}",
                    f"{medians['turn']:.3f}",
                    spread(score, ".0f"),
                )
            )


def draw(rows):
    """Temperature and log perplexity on 20News-different against gamma."""
    import matplotlib.pyplot as plt

    from benchmarks._runs import line_style

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for ax, name in zip(axes, ("temperature", "log_perplexity"), strict=True):
        for number, (sampler, rho) in enumerate(product(EVERYWHERE, PAPER)):
            settings = [s for s in settings_of(rows, "news", sampler) if s[0] != DEFAULT and s[1] == rho]
            found = np.array([column(rows, "news", sampler, setting, name) for setting in settings])
            if len(found):
                gammas, style = [setting[0] for setting in settings], line_style(number)
                ax.plot(gammas, np.median(found, axis=1), label=f"{sampler}, rho = {rho:g}", **style)
                ax.fill_between(gammas, found.min(axis=1), found.max(axis=1), alpha=0.2, color=style["color"])
        for number, sampler in enumerate(EVERYWHERE):
            default = np.median(column(rows, "news", sampler, (DEFAULT, DEFAULT), name))
            line = (":", "--")[number]
            ax.axhline(default, color="0.4", linestyle=line, linewidth=1.2, label=f"{sampler}, default")
        ax.axvspan(min(PAPER), max(PAPER), color="0.9", zorder=0)
        ax.set(xscale="log", xlabel="gamma (grey: values of the paper)")
    axes[0].set(yscale="log", ylabel="temperature")
    axes[1].set_ylabel("held-out log perplexity, nats per document")
    axes[0].legend(fontsize="small")
    return figure
