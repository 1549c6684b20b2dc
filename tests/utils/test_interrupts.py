"""Ctrl-C is a KeyboardInterrupt, wherever it comes."""

import signal

import numpy as np
import pytest

from skmanifold import SubspaceMixture
from skmanifold.utils._threads import plain_interrupts


def _wrapped(cause, n_errors):
    for _ in range(n_errors):
        error = SystemError("a function returned a result with an exception set")
        error.__cause__ = cause
        cause = error
    return cause


@pytest.mark.parametrize("n_errors", [1, 3])
def test_an_interrupt_that_caused_a_system_error_is_raised_itself(n_errors):
    with pytest.raises(KeyboardInterrupt), plain_interrupts():
        raise _wrapped(KeyboardInterrupt(), n_errors)


def test_other_system_errors_stay():
    with pytest.raises(SystemError, match="result with an exception"), plain_interrupts():
        raise _wrapped(ValueError(), 2)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals come by a timer, which this system does not have")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Python drops one within a finaliser
def test_a_fit_that_is_interrupted_anywhere_raises_a_keyboard_interrupt_and_leaves_nothing():
    # Without `plain_interrupts` one interrupt in twelve comes out as a SystemError: kernels here return many arrays.
    X = np.random.default_rng(0).normal(size=(60, 4))
    SubspaceMixture(2, n_init=2, max_iter=30, random_state=0).fit(X)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    n_interrupts = 0
    try:
        for seconds in np.random.default_rng(1).uniform(1e-4, 0.02, 150):
            mixture = SubspaceMixture(2, n_init=2, max_iter=60, random_state=0)
            try:
                signal.setitimer(signal.ITIMER_REAL, seconds)
                mixture.fit(X)
            except KeyboardInterrupt:
                n_interrupts += 1
                if [name for name in vars(mixture) if name.endswith("_")]:  # interrupted after the end of the fit
                    mixture.predict(X)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert n_interrupts > 100


class _Interrupted(SubspaceMixture):
    """Is interrupted when an attribute is set or deleted for the n-th time."""

    def _count(self):
        attributes = vars(self)
        attributes["left"] = attributes.get("left", 0) - 1
        if attributes["left"] == 0:
            raise KeyboardInterrupt

    def __setattr__(self, name, value):
        self._count()
        super().__setattr__(name, value)

    def __delattr__(self, name):
        self._count()
        super().__delattr__(name)


def test_an_interrupt_between_two_attributes_is_a_keyboard_interrupt():
    X = np.random.default_rng(0).normal(size=(60, 4))
    n_changes = -vars(_Interrupted(2, max_iter=4, random_state=0).fit(X))["left"]
    mixture = _Interrupted(2, max_iter=4, random_state=0)
    n_parameters = -vars(mixture)["left"]
    for n in range(1, n_changes - n_parameters + 1):
        vars(mixture)["left"] = n
        with pytest.raises(KeyboardInterrupt):
            mixture.fit(X)
        assert not [name for name in vars(mixture) if "callback" in name]
    vars(mixture)["left"] = 0
    mixture.fit(X).predict(X)
