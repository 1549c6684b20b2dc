import itertools

import pytest

from skmanifold.inference._schedule import Schedule


@pytest.mark.parametrize(("max_iter", "burn_in"), [(1, 0), (2, 1), (7, 3), (200, 100)])
def test_half_of_the_passes_are_burn_in_unless_told(max_iter, burn_in):
    assert Schedule.from_params(max_iter, None, 5) == (max_iter, burn_in, 5)


def test_burn_in_told_is_kept():
    assert Schedule.from_params(10, 0, 1).burn_in == 0
    assert Schedule.from_params(10, 9, 1).burn_in == 9


@pytest.mark.parametrize("burn_in", [10, 11])
def test_burn_in_that_leaves_nothing_is_refused(burn_in):
    with pytest.raises(ValueError, match=f"burn_in={burn_in} leaves none of the max_iter=10 passes"):
        Schedule.from_params(10, burn_in, 1)


def test_draws_are_every_thinth_pass_after_burn_in():
    for max_iter, thin in itertools.product(range(1, 12), range(1, 6)):
        for burn_in in range(max_iter):
            schedule = Schedule.from_params(max_iter, burn_in, thin)
            kept = [i for i in range(1, max_iter + 1) if schedule.is_draw(i)]
            assert kept == list(range(burn_in + thin, max_iter + 1, thin))
            assert schedule.n_draws == len(kept)
            assert schedule.n_kept_passes == len(range(burn_in, max_iter))
