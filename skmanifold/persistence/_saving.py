"""``estimator.save(path)`` and ``skmanifold.load(path)``."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

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
        OSError
            If the file cannot be written.

        See Also
        --------
        skmanifold.load : Reads the file, with an example.
        """
        encoder = Encoder(type(self).__name__)
        tree = encoder.encode(self)
        with clear_if_unwritable(type(self).__name__, path, "; if there was a file before, it is untouched"):
            write(Path(path), tree, encoder.arrays, compress)


def load(path: str | PathLike[str]) -> Any:
    """Load an estimator from a file that its method `save` wrote.

    Nothing in the file is ever run or unpickled, and only classes of skmanifold are made. The numbers are taken as they
    are: of a file that somebody altered on purpose, predictions can be wrong or fail.

    Files of all earlier formats can be read.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    estimator : estimator instance
        With the parameters and the fitted attributes that were saved.

    Raises
    ------
    ValueError
        If it is no such file, or of a format that is newer than this version of skmanifold, or damaged.

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
    document, arrays = read(path)
    with told_in_one_sentence(f"{path}, of skmanifold {document.get('skmanifold')}, cannot be loaded"):
        estimator = Decoder(arrays).decode(document["estimator"])
        if not isinstance(estimator, BaseEstimator):
            raise ValueError(f"it holds a {type(estimator).__name__}, which is no estimator")
    return estimator
