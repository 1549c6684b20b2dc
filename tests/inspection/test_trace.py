import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from skmanifold import HeldOutMonitor
from skmanifold.inference import Draws
from skmanifold.inspection import TraceDisplay

from . import _fitted as fitted


def test_trace_burn_in_and_sizes_are_those_of_the_fit():
    lda = fitted.lda("gibbs", 2, 110)
    display = TraceDisplay.from_estimator(lda)
    np.testing.assert_array_equal(display.trace, lda.log_density_trace_ / fitted.counts().sum())
    assert display.burn_in == 55
    assert display.trace_name == "log likelihood per token"
    np.testing.assert_array_equal(display.ess_passes, range(105, 111))
    np.testing.assert_array_equal(display.n_draws, range(100, 111, 2))
    whole = Draws(lda.posterior_["log_likelihood"][..., np.newaxis])
    assert display.ess["log likelihood"][-1] == whole.ess()[0]
    assert display.rhat == whole.rhat()[0]
    assert display.note is None
    assert len(display.axes_) == 2
    for line, values in zip(display.axes_[0].lines, display.trace, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), values)


@pytest.mark.parametrize(
    ("fit", "unit", "n_units"),
    [
        (fitted.lda, "token", 6001),
        (lambda: fitted.spherical(6), "row", 80),
        (fitted.orthogonal, "row", 80),
        (lambda: fitted.family_admixture("multinomial"), "token", 6001),
        (fitted.dirichlet_process, "row", 120),
        (fitted.subspaces, "row", 120),
        (lambda: fitted.family_mixture("poisson"), "row", 60),
    ],
)
def test_traces_are_per_token_or_row(fit, unit, n_units):
    model = fit()
    display = TraceDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.trace, model.log_density_trace_ / n_units)
    assert display.trace_name.endswith(f" per {unit}")


def test_joint_densities_have_their_name():
    display = TraceDisplay.from_estimator(fitted.dirichlet_process())
    assert display.trace_name == "log joint density per row"
    assert display.axes_[0].get_ylabel() == "log joint density\nper row (nats)"


def test_a_colour_bar_shows_the_numbers_of_many_chains():
    display = TraceDisplay(trace=np.arange(24.0).reshape(8, 3)).plot()
    (bar,) = set(display.figure_.axes) - set(display.axes_)
    assert bar.get_ylabel() == "chain"
    few = TraceDisplay(trace=np.arange(18.0).reshape(6, 3)).plot()
    assert few.figure_.axes == list(few.axes_)


def test_estimates_have_no_effective_sample_size_and_say_why():
    display = TraceDisplay.from_estimator(fitted.lda("esca", 1))
    assert display.ess is None
    assert display.note == "ESCA estimates and makes no draws: no effective sample size."
    assert display.burn_in == 20  # which is not averaged over
    assert len(display.axes_) == 1
    assert display.note in [text.get_text() for text in display.axes_[0].texts]


def test_there_is_no_burn_in_if_only_the_last_pass_matters():
    assert TraceDisplay.from_estimator(fitted.lda("cvb0", 1)).burn_in == 0
    display = TraceDisplay.from_estimator(fitted.von_mises_fisher(3))
    assert display.burn_in == 0
    assert display.trace_name == "lower bound per row"
    np.testing.assert_array_equal(display.trace, [fitted.von_mises_fisher(3).log_likelihood_trace_])


def test_the_note_states_that_there_are_too_few_draws():
    display = TraceDisplay.from_estimator(fitted.lda("gibbs", 1, 20))
    assert display.ess is None
    assert display.rhat is None
    needs = "An effective sample size needs 50 draws of a chain; there are"
    assert display.note == f"One chain has no R-hat.\n{needs} 10."
    assert not any(text.get_text().startswith("R-hat") for text in display.axes_[0].texts)
    assert TraceDisplay.from_draws(fitted.draws_on_spheres(3, n_draws=49)).note == f"{needs} 49."
    assert TraceDisplay.from_draws(fitted.draws_on_spheres(3, n_draws=50)).note is None
    few = TraceDisplay.from_draws(fitted.draws_on_spheres(3, n_draws=3))
    assert few.note == f"R-hat needs 4 draws of a chain; there are 3.\n{needs} 3."


def test_chains_that_disagree_have_not_converged():
    rng = np.random.default_rng(0)
    log_density = rng.standard_normal((4, 1000))
    fine = TraceDisplay.from_draws(Draws(rng.standard_normal((4, 1000, 2)), {"log_density": log_density}))
    assert fine.rhat <= 1.01
    assert f"R-hat {fine.rhat:.3f}" in [text.get_text() for text in fine.axes_[0].texts]
    log_density[3] += 1.0
    apart = TraceDisplay.from_draws(Draws(rng.standard_normal((4, 1000, 2)), {"log_density": log_density}))
    assert apart.rhat > 1.05
    assert f"R-hat {apart.rhat:.3f}: not converged" in [text.get_text() for text in apart.axes_[0].texts]
    in_two_modes = rng.standard_normal((4, 1000, 2))
    in_two_modes[2:, :, 1] += 5.0
    modes = TraceDisplay.from_draws(Draws(in_two_modes, {"log_density": rng.standard_normal((4, 1000))}))
    assert modes.rhat == Draws(in_two_modes).rhat()[1] > 1.5
    position = rng.standard_normal((4, 20, 3))
    position[1, :, 2] += 5.0
    worst = TraceDisplay.from_draws(Draws(position))
    assert worst.trace_name == "coordinate [2]"  # too few for effective sample sizes: by R-hat
    assert worst.rhat == Draws(position).rhat()[2] > 1.5


def test_without_arviz_the_panel_is_left_out_and_the_note_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_stats.base", None)
    display = TraceDisplay.from_estimator(fitted.lda("gibbs", 2, 110))
    assert display.ess is None
    assert display.note == "No R-hat and no effective sample size: arviz-stats is not installed."
    assert TraceDisplay.from_draws(fitted.draws_on_spheres(3)).ess is None


def test_scores_are_those_of_the_monitors_last_run():
    monitor = HeldOutMonitor(fraction=0.2, every=2)
    lda = clone(fitted.lda("esca", 1)).set_params(max_iter=6)
    lda.set_callbacks(monitor).fit(fitted.counts())
    lda.set_params(random_state=1).fit(fitted.counts())
    display = TraceDisplay.from_estimator(lda, monitor=monitor)
    rows = [row for row in monitor.get_logs().data if row["task_name"] == "pass"]
    np.testing.assert_array_equal(display.score_passes, [2, 4, 6])
    np.testing.assert_array_equal(display.scores["score"], [row["score"] for row in rows])
    assert display.axes_[-1].get_ylabel() == "held-out score"
    other = fitted.von_mises_fisher(3)
    with pytest.raises(ValueError, match="The monitor has no scores of a VonMisesFisherMixture"):
        TraceDisplay.from_estimator(other, monitor=monitor)


def test_of_a_search_the_last_fit_is_shown():
    common = {"estimator_name": "StochasticLDA", "task_name": "pass"}
    rows = [{**common, "task_id": t, "parent_task_id_path": (p,), "score": p + t} for p in (0, 1) for t in (4, 2)]
    monitor = SimpleNamespace(get_logs=lambda: SimpleNamespace(data=rows))
    display = TraceDisplay.from_estimator(fitted.lda(), monitor=monitor)
    np.testing.assert_array_equal(display.score_passes, [3, 5])
    np.testing.assert_array_equal(display.scores["score"], [3, 5])


def test_draws_with_a_log_density_show_it():
    draws = fitted.draws_on_spheres(3)
    display = TraceDisplay.from_draws(draws)
    np.testing.assert_array_equal(display.trace, draws.stats["log_density"])
    assert list(display.ess) == ["log density"]
    assert display.axes_[-1].get_xlabel() == "draw"


def test_draws_without_it_show_the_coordinate_that_mixes_worst():
    draws = fitted.draws_on_spheres(2, 3)
    position = draws.position.copy()
    position[:, :, 1, 2] = np.repeat(position[:, ::10, 1, 2], 10, axis=1)
    display = TraceDisplay.from_draws(Draws(position))
    np.testing.assert_array_equal(display.trace, position[:, :, 1, 2])
    assert display.trace_name == "coordinate [1, 2]"
    sizes = Draws(position).ess()
    assert display.ess["worst coordinate"][-1] == sizes.min()
    assert display.ess["median coordinate"][-1] == np.median(sizes)


def test_passes_of_burn_in_do_not_set_the_scale():
    trace = np.concatenate([[-1e6, -1e5], np.linspace(-10.0, 0.0, 8)])[np.newaxis]
    low, high = TraceDisplay(trace=trace, burn_in=2).plot().axes_[0].get_ylim()
    assert high - low <= 10.0 * 3.0
    assert low < -10.0
    assert high > 0.0
