"""What every estimator here shares: resolving its sampler, and a fit that succeeds whole or changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from sklearn.base import BaseEstimator, clone
from sklearn.callback import CallbackSupportMixin

from .samplers import BaseSampler

_CALLBACK_STATE = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")


class BaseSampledEstimator(CallbackSupportMixin, BaseEstimator):
    """Base class of estimators that delegate to a sampler.

    A subclass lists the samplers it knows by their short names in ``_samplers``. The constructor parameter `sampler`
    is a short name or a sampler instance; `fit` works on a clone of it, ``sampler_``.
    """

    _samplers: ClassVar[dict[str, type[BaseSampler]]]

    def set_params(self, **params):
        """Set the parameters of this estimator; ``sampler__name`` reaches into the sampler, even one given by name.

        Parameters
        ----------
        **params : dict
            Estimator parameters.

        Returns
        -------
        self : estimator instance
        """
        if any(name.startswith("sampler__") for name in params):
            sampler = params.get("sampler", self.sampler)
            if isinstance(sampler, str):
                params = {**params, "sampler": self._named_sampler(sampler)}
        return super().set_params(**params)

    def _named_sampler(self, name: str) -> BaseSampler:
        if name not in self._samplers:
            known = ", ".join(repr(known) for known in self._samplers)
            raise ValueError(f"Unknown sampler {name!r} for {type(self).__name__}: known names are {known}.")
        return self._samplers[name]()

    def _resolve_sampler(self) -> BaseSampler:
        """A fresh, validated sampler from the constructor's `sampler`."""
        sampler = self.sampler
        if isinstance(sampler, str):
            return self._named_sampler(sampler)
        if isinstance(sampler, type):
            raise TypeError(
                f"sampler must be an instance or a name, not the class {sampler.__name__}: write {sampler.__name__}()."
            )
        if not isinstance(sampler, BaseSampler):
            raise TypeError(
                f"sampler must be a name ({', '.join(map(repr, self._samplers))}) or an instance of a subclass of "
                f"skmanifold.samplers.BaseSampler; got {sampler!r}."
            )
        sampler = clone(sampler)
        sampler._validate_params()
        return sampler

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Put every attribute back as it was if the block raises, Ctrl-C included."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            kept = {name: self.__dict__[name] for name in _CALLBACK_STATE if name in self.__dict__}
            self.__dict__.clear()
            self.__dict__.update(before, **kept)
            raise
