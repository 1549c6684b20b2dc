"""Files of fitted estimators as one version wrote them, and what they answered: later versions must do the same.

``cd tests && python -m persistence._golden`` writes those that are missing. They are written once, and kept.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from ._fitted import CASES, answers, fitted

GOLDEN = Path(__file__).parent / "data" / "golden"
NAMES = [name for name, (_, _, steps) in CASES.items() if steps and not name.endswith("then-stream")]
N_ROWS = 3  # whose answers are kept


def first_answers(estimator, X):
    """What an estimator says of all rows, of which the first are kept."""
    said = {method: np.asarray(values) for method, values in answers(estimator, X).items()}
    return {method: values[:N_ROWS].tolist() if values.ndim else values.item() for method, values in said.items()}


def all_answers(name, estimator):
    """The answers as it is, and of streams after one minibatch more."""
    _, X, steps = CASES[name]
    if "Spherical" in name:  # dense rows had the bytes of sparse ones when these files were written
        X = sp.csr_array(X)
    found = [first_answers(estimator, X)]
    if "partial_fit" in steps:
        found.append(first_answers(estimator.partial_fit(X), X))
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    GOLDEN.mkdir(parents=True, exist_ok=True)
    stored = GOLDEN / "answers.json"
    expected = json.loads(stored.read_text()) if stored.exists() else {}
    for name in NAMES:
        if name not in expected:
            estimator = fitted(name)
            estimator.save(GOLDEN / f"{name}.npz")
            expected[name] = all_answers(name, estimator)
    stored.write_text(json.dumps(expected, indent=0) + "\n")
