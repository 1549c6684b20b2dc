"""``estimator.save(path)`` and ``skmanifold.load(path)``."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

from ..utils._declared import check_estimator
from ..utils._disk import clear_if_unwritable
from ._decode import Decoder
from ._encode import Encoder
from ._format import read, told_in_one_sentence, write


class SavesItself:
    """Mixin of estimators that can be saved to a file; not public. Goes before the base class."""

    def save(self, path: str | PathLike[str], *, compress: bool = False) -> None:
        """Save the estimator, fitted or not, to one file, which :func:`skmanifold.load` reads.

        The file holds numbers and names, and no code; later versions of skmanifold read it too. Everything that is
        learned is in it, so that a loaded estimator predicts the same and `partial_fit` goes on where it was. Callbacks
        are not saved.

        The file appears under its name only when it is complete; one that was there is replaced.

        Parameters
        ----------
        path : str or path-like
            The file, in a folder that exists. Nothing is added to its name.
        compress : bool, default=False
            Make the file smaller, which takes several times as long.

        Raises
        ------
        TypeError
            If a parameter is, or holds, a function or an object of a class that is not of skmanifold; nothing is
            written then. Pickle and joblib can keep such an estimator.
        ValueError
            If a parameter or something learned is not as `load` demands, which only happens where it was changed after
            the fit; nothing is written then.
        OSError
            If the file cannot be written.

        See Also
        --------
        skmanifold.load : Reads the file, with an example.
        """
        encoder = Encoder(type(self).__name__)
        tree = encoder.encode(self)
        try:
            check_estimator(self)  # what is written can be loaded
        except ValueError as error:
            raise ValueError(f"{type(self).__name__} cannot be saved: {error}") from error
        with clear_if_unwritable(type(self).__name__, path, "; if there was a file before, it is untouched"):
            write(Path(path), tree, encoder.arrays, compress)


def load(path: str | PathLike[str], *, max_bytes: int | None = None) -> Any:
    """Load an estimator from a file that its method `save` wrote.

    Nothing in the file is ever run or unpickled, and only classes of skmanifold are made. What each class declares of
    its fitted attributes is checked: types, shapes that agree, indices in range, numbers finite, positive, or summing
    to one. So a file that somebody altered on purpose is refused with the reason, or makes an estimator whose methods
    work; its numbers can still be wrong. Memory is bounded: sizes are compared before room is made, and arrays that the
    estimator does not use are not read.

    Files of all earlier formats can be read.

    Parameters
    ----------
    path : str or path-like
        The file.
    max_bytes : int, default=None
        The most bytes that arrays may take once they are unpacked; the description of the estimator, with the names of
        features, may take a 128th of it. None is 4 GiB, or the size of the file where that is larger, which only a
        compressed file can exceed. Pass more for a larger compressed file that you trust.

    Returns
    -------
    estimator : estimator instance
        With the parameters and the fitted attributes that were saved.

    Raises
    ------
    ValueError
        If it is no such file, of a format that is newer than this version of skmanifold, damaged, larger than
        `max_bytes`, or holds what no fitted estimator does.

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
    document, arrays = read(path, max_bytes=max_bytes)
    with told_in_one_sentence(f"{path}, of skmanifold {str(document.get('skmanifold'))[:40]}, cannot be loaded"):
        estimator = Decoder(arrays).decode(document["estimator"])
        if not isinstance(estimator, BaseEstimator):
            raise ValueError(f"it holds a {type(estimator).__name__}, which is no estimator")
    return estimator
