"""Tables and figures of stored simulations."""

from __future__ import annotations

import datetime

from benchmarks import _results
from skmanifold.inspection import CalibrationDisplay
from skmanifold.metrics import calibration_test

from ._runs import read
from ._settings import N_DRAWS

KINDS = {
    "exact": "Samplers of the posterior",
    "approximate": "Approximations",
    "wrong": "Known-wrong variants: the fit has another prior than the data",
}
LEAST_PVALUE = 1e-10  # of smaller ones, the larger shift is shown
HEAD = ("sampler", "data sets", "smallest p", "quantity", "p x quantities", "shift", "50%", "90%", "autocorrelation")


def write(file, module, folder):
    """The tables of a module, and a figure with a panel for each exact setting."""
    stored = [(setting, folder / f"{setting.name}.csv") for setting in module.SETTINGS]
    stored = [(setting, *read(path)) for setting, path in stored if path.exists()]
    if not stored:
        return
    lines = _results.begin()
    for kind, title in KINDS.items():
        of_kind = [each for each in stored if each[0].kind == kind]
        if of_kind:
            _results.title(title)
            _results.begin_table(HEAD, [_summary(*each) for each in of_kind])
    hours = sum(seconds for *_, seconds in stored) / 3600
    source = f"{_results.machine()}; {_results.versions(_results.PACKAGES)[0]}; {datetime.date.today():%B %Y}"
    command = f"python -m benchmarks.calibration {file}"
    _results.write(file, lines, command, f"{source}; {hours:.1f} hours of processor time", folder=folder)
    _draw(file, [each for each in stored if each[0].kind == "exact"], folder)


def _summary(setting, ranks, lags, seconds):
    """The row of a setting: the quantity with the smallest p-value."""
    tests = {name: calibration_test(values, N_DRAWS) for name, values in ranks.items()}
    worst = min(tests, key=lambda name: (max(tests[name].pvalue, LEAST_PVALUE), -abs(tests[name].shift)))
    test, n = tests[worst], len(ranks[worst])
    bounded = min(1.0, test.pvalue * len(tests))
    cover = [
        f"{100 * share:.0f} ± {100 * error:.0f}"
        for share, error in zip(test.coverage, test.coverage_error, strict=True)
    ]
    shift = f"{test.shift:+.3f} ± {test.shift_error:.3f}"
    return setting.title, n, _shown(test.pvalue), worst, _shown(bounded), shift, *cover, f"{max(lags.values()):.2f}"


def _shown(pvalue):
    return f"{pvalue:.2g}" if pvalue > LEAST_PVALUE else "below 1e-10"


def _draw(file, stored, folder):
    import matplotlib.pyplot as plt

    if not stored:
        return
    n_columns = min(4, len(stored))
    n_rows = -(-len(stored) // n_columns)
    with plt.style.context("skmanifold.inspection.skmanifold"), plt.rc_context({"svg.hashsalt": file}):
        size = (2.7 * n_columns, 2.1 * n_rows)
        figure, axes = plt.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
        for ax, (setting, ranks, _, _) in zip(axes.ravel(), stored, strict=False):
            CalibrationDisplay.from_ranks(ranks, N_DRAWS, ax=ax, linewidth=0.8)
            ax.get_legend().remove()
            ax.set_title(setting.title.replace(", ", "\n"), fontsize=7)
            ax.set(xlabel="", ylabel="")
            ax.tick_params(labelsize=6)
        for ax in axes.ravel()[len(stored) :]:
            ax.set_axis_off()
        figure.supxlabel("rank of the true value, as a share", fontsize=7)
        figure.supylabel("distribution function minus uniform", fontsize=7)
        figure.savefig(folder / f"{file}.svg", metadata={"Date": None})
        plt.close(figure)
