"""Files of fitted estimators as a release wrote them, and their answers: later releases read them and answer the same.

``cd tests && python -m persistence._release_files`` writes those of this version, once, when it is released.
"""

import json
import warnings
from pathlib import Path

import numpy as np

from skmanifold import __version__, load

from ._fitted import CASES, answers, fitted

DATA = Path(__file__).parent / "data"  # a folder for each release
NAMES = [name for name, (_, _, steps) in CASES.items() if steps and not name.endswith("then-stream")]
N_ROWS = 3  # whose answers are kept


def write(folder, names=NAMES):
    """Save fitted estimators, and what they answer."""
    folder.mkdir(parents=True)
    expected = {}
    for name in names:
        fitted(name).save(folder / f"{name}.npz")
        expected[name] = _all_answers(name, load(folder / f"{name}.npz"))
    (folder / "answers.json").write_text(json.dumps(expected, indent=0) + "\n")


def differences(folder):
    """The cases of a folder whose files answer otherwise now, or that have no file."""
    expected = json.loads((folder / "answers.json").read_text())
    files = {path.stem: path for path in folder.glob("*.npz")}
    return [
        name
        for name in sorted(expected.keys() | files.keys())
        if name not in files or not _agree(_all_answers(name, load(files[name])), expected.get(name))
    ]


def _all_answers(name, estimator):
    """The answers as it is, and of streams after one minibatch more."""
    _, X, steps = CASES[name]
    found = [_first_answers(estimator, X)]
    if "partial_fit" in steps:
        found.append(_first_answers(estimator.partial_fit(X), X))
    return found


def _first_answers(estimator, X):
    said = {method: np.asarray(values) for method, values in answers(estimator, X).items()}
    return {method: values[:N_ROWS].tolist() if values.ndim else values.item() for method, values in said.items()}


def _agree(found, expected):
    """Whether numbers are close, and everything else is equal."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, dict):
        return found.keys() == expected.keys() and all(_agree(found[key], expected[key]) for key in found)
    if isinstance(found, list):
        return len(found) == len(expected) and all(map(_agree, found, expected))
    return bool(np.isclose(found, expected, rtol=1e-6, atol=1e-9)) if isinstance(found, float) else found == expected


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    write(DATA / __version__)
