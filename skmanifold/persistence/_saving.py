"""``estimator.save(path)`` and ``skmanifold.load(path)``."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..utils._conditions import Integer, Names
from ..utils._declared import Lacking, check_estimator
from ..utils._disk import clear_if_unwritable
from ._decode import Decoder
from ._encode import Encoder
from ._format import opened, told_in_one_sentence, write


class SavesItself:
    """Mixin of estimators that can be saved to a file; not public. List it before the base class."""

    n_features_in_: Annotated[int, Integer(1, size="n_features")]
    feature_names_in_: Lacking[Annotated[np.ndarray, Names("n_features")]]

    def save(self, path: str | PathLike[str], *, compress: bool = False) -> None:
        """Save the estimator, fitted or not, to one file, which :func:`skmanifold.load` reads.

        The file contains numbers and names but no code. It contains all fitted attributes, so a loaded estimator makes
        the same predictions and `partial_fit` continues from the same state. Callbacks are not saved. Later releases
        can read the files of a release.

        The file gets its name only when it is complete; an existing file is replaced.

        Parameters
        ----------
        path : str or path-like
            The file, in an existing folder. No suffix is added to the name.
        compress : bool, default=False
            Whether to compress the file, which takes several times as long.

        Raises
        ------
        TypeError
            If a parameter is or contains a function, or an object of a class outside of skmanifold. No file is written
            then. Pickle and joblib can save such an estimator.
        ValueError
            If `load` would reject a parameter or a fitted attribute, which only happens if it was changed after the
            fit. No file is written then.
        OSError
            If the file cannot be written.

        See Also
        --------
        skmanifold.load : Reads the file, with an example.
        """
        encoder = Encoder(type(self).__name__)
        tree = encoder.encode(self)
        try:
            check_estimator(self)  # check that the file can be loaded
        except ValueError as error:
            raise ValueError(f"{type(self).__name__} cannot be saved: {error}") from error
        with clear_if_unwritable(type(self).__name__, path, "; an existing file is not changed"):
            write(Path(path), tree, encoder.arrays, compress)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled or copied estimator; arrays that other objects own, such as mapped files, are copied.

        `partial_fit` writes to the arrays of its stream, and kernels are compiled for arrays that can be written to.
        """
        super().__setstate__(_in_own_memory(state, {}))  # type: ignore[misc]


def load(path: str | PathLike[str], *, max_bytes: int | None = None) -> Any:
    """Load an estimator from a file that its method `save` wrote.

    The function never runs or unpickles the contents of the file, and only creates objects of classes of skmanifold.
    It checks the fitted attributes of each class: types, consistent shapes, indices in range, and numbers that must be
    finite, positive or sum to one. So a file that was altered on purpose raises an error, or gives an estimator whose
    methods work, although its numbers can be wrong. Memory is bounded: sizes are checked before allocation, and arrays
    that the estimator does not use are not read.

    Parameters
    ----------
    path : str or path-like
        The file.
    max_bytes : int, default=None
        Maximum number of bytes of the uncompressed arrays. The limit of the description of the estimator, with the
        names of features, is a 128th of it. None is 4 GiB, or the size of the file if that is larger; only a
        compressed file can exceed this. Pass a larger value for a larger compressed file that you trust.

    Returns
    -------
    estimator : estimator instance
        The estimator, with its parameters and fitted attributes.

    Raises
    ------
    ValueError
        If the file is not a regular file or not a saved estimator, has a format that is newer than this version of
        skmanifold, is damaged or larger than `max_bytes`, or has attributes that are not valid for a fitted estimator.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from skmanifold import StochasticLDA, load
    >>> X = np.random.default_rng(0).poisson(1.0, (50, 8))
    >>> lda = StochasticLDA(3, max_iter=20, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "topics.npz")
    ...     lda.save(path)
    ...     same = load(path)
    >>> same
    StochasticLDA(max_iter=20, n_components=3, random_state=0)
    >>> bool((same.transform(X) == lda.transform(X)).all())
    True
    """
    path = Path(path)
    with opened(path, max_bytes=max_bytes) as (document, arrays):
        version = str(document.get("skmanifold"))[:40]
        with told_in_one_sentence(f"{path}, of skmanifold {version}, cannot be loaded"):
            estimator = Decoder(arrays).decode(document["estimator"])
            if not isinstance(estimator, BaseEstimator):
                raise ValueError(f"it holds a {type(estimator).__name__}, which is not an estimator")
            return estimator


def _in_own_memory(value: Any, seen: dict[int, tuple[Any, Any]]) -> Any:
    """The same value with copies of all arrays in it that are mapped from a file, or belong to a read-only buffer.

    Dicts, lists and objects are changed in place. `seen` has each value and what replaces it, by the id of the value.
    """
    if id(value) in seen:
        return seen[id(value)][1]
    seen[id(value)] = value, value
    made = value
    if type(value) in (np.ndarray, np.memmap):
        owner = value
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if isinstance(owner, np.memmap) or (owner.base is not None and not value.flags.writeable):
            made = np.array(value)
    elif isinstance(value, tuple):
        items = [_in_own_memory(item, seen) for item in value]
        if any(new is not old for new, old in zip(items, value, strict=True)):
            made = value._make(items) if hasattr(value, "_make") else tuple(items)
    elif type(value) is list:
        value[:] = [_in_own_memory(item, seen) for item in value]
    elif type(value) is dict or _has_own_attributes(value):
        parts = value if type(value) is dict else vars(value)
        parts.update({name: _in_own_memory(item, seen) for name, item in parts.items()})
    seen[id(value)] = value, made
    return made


def _has_own_attributes(value: Any) -> bool:
    is_known = (
        isinstance(value, BaseEstimator) or sp.issparse(value) or type(value).__module__.startswith("skmanifold.")
    )
    return is_known and not isinstance(value, type) and isinstance(getattr(value, "__dict__", None), dict)
