"""The door of model files: altered files are refused with a sentence, or make estimators that work."""

import copy
import json
import os
import warnings
import zipfile
from io import BytesIO

import numpy as np
import pandas as pd
from persistence._fitted import BITS, CASES, CODES, COUNTS, ROWS, SHORT, TABLE, targets_of
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from fuzz._cases import one_sentence
from skmanifold import DPMixture, ExponentialFamilyMixture, load
from skmanifold.emissions import (
    Bernoulli,
    Categorical,
    Columns,
    Gaussian,
    Multinomial,
    NegativeBinomial,
    Poisson,
    Spikes,
    VonMisesFisher,
)
from skmanifold.persistence import SavesItself, _tree
from skmanifold.samplers._density.base import NonFiniteError

QUICK = (
    "StochasticLDA-esca-stream",
    "StochasticLDA-scir-stream",
    "StochasticLDA-gibbs",
    "StochasticLDA-sghmc-stream",
    "seeded-topics",
    "data-frame",
    "DPCategoricalMixture-scir-stream",
    "DPCategoricalMixture-sgrhmc-then-stream",
    "DPCategoricalMixture-scir",
    "DPCategoricalMixture-slice",
    "codes",
    "other-weights",
    "SphericalAdmixture-gmc",
    "SphericalAdmixture-gsgnht-stream",
    "SphericalAdmixture-svb-stream",
    "HDPAdmixture-gibbs",
    "CrossCat-view_slice",
    "OrthogonalSphericalAdmixture-gibbs",
    "unknown-size",
    "SubspaceMixture-gibbs",
    "SubspaceMixture-slice",
    "classes",
    "table-classifier",
    "table-regressor",
    "directions",
    "ExponentialFamilyAdmixture-esca-stream",
    "ExponentialFamilyAdmixture-gibbs",
    "word-vectors",
    "rates",
    "dp-rows-categorical",
    "rows-bernoulli",
    "rows-categorical",
    "rows-gaussian-stream",
    "rows-multinomial-stream",
    "rows-poisson",
    "rows-diag",
    "ExponentialFamilyMixture-gibbs",
)
_COUNTED = TABLE.assign(n=COUNTS[:, 3], m=COUNTS[:, 4], c=COUNTS[:, 5] > 0)
_BLOCKS = Columns(
    [
        ("size", Gaussian("diag"), ["a"]),
        ("more", Gaussian(), ["b"]),
        ("look", Categorical(), ["kind"]),
        ("few", NegativeBinomial(), ["n"]),
        ("some", Poisson(), ["m"]),
        ("is", Bernoulli(), ["seen", "c"]),
    ]
)
# Every emission of mixtures, with hyperparameters that are given or learned from the data.
_EMISSIONS = {
    **{f"gaussian-{each}": (Gaussian(each), ROWS) for each in ("full", "tied", "diag", "spherical")},
    "spikes": (Spikes(), np.where(ROWS > 4.0, 0.0, ROWS)),
    "gaussian-given": (Gaussian("full", np.zeros(4), 0.1, np.eye(4), 8.0), ROWS),
    "gaussian-missing": (Gaussian("diag", None, 0.1, 2.0, 5.0), np.where(ROWS > 4.0, np.nan, ROWS)),
    "bernoulli": (Bernoulli(), BITS),
    "categorical": (Categorical(), CODES),
    "categorical-given": (Categorical(0.5, [3, 4, 3, 3, 5], handle_unknown="ignore"), CODES),
    "multinomial": (Multinomial(), COUNTS),
    "negative-binomial": (NegativeBinomial(), COUNTS),
    "poisson": (Poisson(), COUNTS),
    "directions": (VonMisesFisher(), ROWS),
    "auto": ("auto", TABLE),
    "blocks": (_BLOCKS, _COUNTED),
}
MIXTURES = {}
for _name, (_emission, _X) in _EMISSIONS.items():
    MIXTURES[f"drawn-{_name}"] = ExponentialFamilyMixture(2, emission=_emission, sampler="gibbs", **SHORT), _X, ("fit",)
    MIXTURES[f"dp-{_name}"] = DPMixture(_emission, init=3, **SHORT), _X, ("fit",)
_PROPORTIONAL = ExponentialFamilyMixture(2, emission=Gaussian("proportional"), sampler="em", **SHORT)
MIXTURES["gaussian-proportional"] = _PROPORTIONAL, ROWS, ("fit",)
CASES = {**CASES, **MIXTURES}

# What is asked of an estimator, and whether the rows of the answer sum to one.
_ASKED = {
    "transform": True,
    "predict": False,
    "predict_proba": True,
    "score_samples": False,
    "score": False,
    "perplexity": False,
    "sample": False,
    "n_components_posterior_": False,
    "components_": False,
    "posterior_": False,
    "weights_": False,
    "co_clustering": False,
    "credible_intervals": False,
    "to_arviz": False,
    "covariances_": False,
    "mean_directions_": False,
    "concentrations_": False,
    "categories_": False,
    "named_blocks_": False,
    "cluster_summary": False,
    "impute": False,
    "conditional": False,
    "sample_prior": False,
    "aic": False,
    "icl": False,
    "uncertainty": False,
    "project": False,
    "column_dependence": False,
    "mutual_information": False,
    "row_similarity": False,
    "surprisal": False,
    "labels_": False,
    "views_": False,
}
_NOT_PROPORTIONS = (
    "imputer",
    "CrossCat",
    "rates",
    "SubspaceMixture",
    "noise-per-cluster",
)  # but cells, intensities, and distances
_NUMBERS = (-1, 0, 1, 2, 3, 7, 65_535, 2**31, 2**40, -(2**40), 1e300, -1e300, 1e155, 1e18, 1e-300, 1e-320, 0.5, -0.5)
_VALUES = (
    *_NUMBERS,
    None,
    True,
    "a",
    [],
    {},
    {"type": "int", "hex": "0x" + "f" * 40},
    {"type": "float", "repr": "nan"},
    {"type": "float", "repr": "inf"},
    {"type": "float", "repr": "-inf"},
)
_LEARNED = (
    "DPCategoricalMixture",
    "CrossCat",
    "DPMixture",
    "Poisson",
    "SGLD",
    "State",
    "DrawStore",
    "TopicWord",
    "SCIR",
    "EM",
    "nothing",
)


def prepare(folder):
    """Saved files of some kinds, each as its document and its arrays; kernels are compiled on the way."""
    warnings.simplefilter("ignore")
    os.fsync = lambda descriptor: None
    files = []
    if os.environ.get("FUZZ_UNCHECKED"):  # the test of this test
        _tree.check_estimator = lambda estimator: None
    for name in os.environ.get("FUZZ_MODELS", ",".join(QUICK)).split(","):
        path = folder / f"{name}.npz"
        if not path.exists():
            SavesItself.save(_fitted(name), path)
        asked = [asked for asked in _ASKED if _can_be_asked(load(path), asked, CASES[name][1][:8])]
        trouble = _use(name, load(path), asked, "unaltered")
        if trouble:
            raise RuntimeError(f"{name}: {trouble}")
        files.append((name, asked, path.read_bytes()))
    return files, folder / f"altered-{os.getpid()}.npz"


def _fitted(name):
    """Fitted by itself: cases of the tests go on from each other."""
    original, X, steps = CASES[name]
    estimator = clone(original)
    for step in steps:
        getattr(estimator, step)(X, *targets_of(estimator))
    return estimator


def check(prepared, seed):
    """Alter one file, in its arrays, its document, its bytes or its members; load it, and ask all that can be asked."""
    warnings.simplefilter("ignore")
    files, path = prepared
    rng = np.random.default_rng(seed)
    name, asked, content = files[rng.integers(len(files))]
    how, content = _altered(rng, content)
    path.write_bytes(content)
    try:
        estimator = load(path)
    except ValueError as error:
        return None if one_sentence(error) else f"{name}, {how}: {error}"
    told = _use(name, estimator, asked, how)
    return None if told is None else f"{name}, {how}: {told}"


def _altered(rng, content):
    if rng.random() < 0.05:
        return _flipped(rng, content)
    with zipfile.ZipFile(BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members.pop("estimator.json"))
    arrays = {name: np.lib.format.read_array(BytesIO(member)) for name, member in members.items()}
    if rng.random() < 0.6 and arrays:
        name = list(arrays)[rng.integers(len(arrays))]
        how, arrays[name] = _altered_array(rng, arrays[name])
        how = f"{_place_of(document['estimator'], name.removesuffix('.npy'))} {how}"
    else:
        how = _alter_tree(rng, document)
    written = BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("estimator.json", json.dumps(document))
        for name, array in arrays.items():
            with archive.open(name, "w") as member:
                np.lib.format.write_array(member, array)
    return how, written.getvalue()


def _flipped(rng, content):
    place, bit = int(rng.integers(len(content))), int(rng.integers(8))
    return f"bit {bit} of byte {place}", content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :]


def _altered_array(rng, array):
    """What was done, and the array."""
    array = array.copy()
    kinds = ["one", "one", "one", "all", "shorter", "longer", "empty", "dtype", "swapped", "shuffled", "scaled", "axis"]
    kind = kinds[rng.integers(len(kinds))]
    if kind in ("one", "all") and array.dtype.kind in "iuf" and array.size:
        values = [value for value in (*_NUMBERS, np.nan, np.inf, -np.inf) if _fits(value, array.dtype)]
        value = values[rng.integers(len(values))]
        if kind == "one":
            array.reshape(-1)[rng.integers(array.size)] = value
            if not np.shares_memory(array.reshape(-1), array):
                array[...] = value
        else:
            array[...] = value
        return f"{kind} {value}", array
    if kind == "shorter" and array.ndim:
        return kind, array[: len(array) // 2]
    if kind == "longer" and array.ndim:
        return kind, np.concatenate((array, array))
    if kind == "empty":
        return kind, array[:0] if array.ndim else np.empty(0)
    if kind == "dtype":
        to = ["f4", "f8", "i4", "i8", "u2", "u8", ">f8", "c16", "U3", "?"][rng.integers(10)]
        to = "U3" if array.dtype.kind == "U" else to
        with np.errstate(all="ignore"):
            return f"{kind} {to}", array.astype(to)
    if kind == "swapped" and array.ndim > 1:
        axes = rng.permutation(array.ndim)
        return f"{kind} {axes}", np.ascontiguousarray(array.transpose(axes))
    if kind == "shuffled" and array.ndim:
        return kind, rng.permutation(array)
    if kind == "scaled" and array.dtype.kind == "f":
        factor = [0.0, -1.0, 2.0, 1e200, 1e-200, 1e10][rng.integers(6)]
        with np.errstate(all="ignore"):
            return f"{kind} {factor}", (array * factor).astype(array.dtype)
    return "axis", array[np.newaxis]


def _fits(value, dtype):
    if dtype.kind == "f":
        return abs(value) < 1e38 or dtype.itemsize == 8 or not np.isfinite(value)
    info = np.iinfo(dtype)
    return np.isfinite(value) and value == int(value) and info.min <= value <= info.max


def _nodes(node, path=()):
    """Places in the tree of a document, as paths."""
    yield path
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in items:
        yield from _nodes(child, (*path, key))


def _alter_tree(rng, document):
    tree = document["estimator"]
    paths = [path for path in _nodes(tree) if path and path[0] != "parameters"]
    parameters = [path for path in _nodes(tree) if path and path[0] == "parameters"]
    chosen = parameters if rng.random() < 0.15 and parameters else paths
    if not chosen:
        return "nothing"
    path = chosen[rng.integers(len(chosen))]
    parent, key, value = _at(tree, path)
    kind = ["value", "value", "value", "drop", "double", "name", "deep", "other", "swap", "swap"][rng.integers(10)]
    if kind == "swap":  # with another of the same type, so that more files are accepted
        like = [each for each in paths if each != path and _alike(_at(tree, each)[2], value)]
        if not like:
            return "nothing"
        second = like[rng.integers(len(like))]
        its_parent, its_key, its_value = _at(tree, second)
        parent[key], its_parent[its_key] = copy.deepcopy(its_value), copy.deepcopy(value)
        return f"{'.'.join(map(str, path))} swap {'.'.join(map(str, second))}"
    if kind == "drop":
        del parent[key]
    elif kind == "double" and isinstance(parent, list):
        parent.append(copy.deepcopy(value))
    elif kind == "name" and isinstance(parent, dict):
        name = ["fit", "predict", "transform", "__class__", "components_", "_estimate", "note_"][rng.integers(7)]
        parent[name] = parent.pop(key)
    elif kind == "deep":
        for _ in range([3, 60, 300][rng.integers(3)]):
            value = [value]
        parent[key] = value
    elif key == "class":
        parent[key] = _LEARNED[rng.integers(len(_LEARNED))]
    elif kind == "other":
        other = tree
        for step in paths[rng.integers(len(paths))]:
            other = other[step]
        parent[key] = copy.deepcopy(other)
    else:
        parent[key] = _VALUES[rng.integers(len(_VALUES))]
    return f"{'.'.join(map(str, path))} {kind} {str(parent.get(key) if isinstance(parent, dict) else '')[:80]}"


def _at(tree, path):
    """The parent of a node, its key there, and the node."""
    for key in path[:-1]:
        tree = tree[key]
    return tree, path[-1], tree[path[-1]]


def _alike(one, other):
    if type(one) is not type(other) or one == other:
        return False
    return not isinstance(one, dict | list) or (
        isinstance(one, dict) and one.get("type") == other.get("type") == "array"
    )


def _place_of(tree, name):
    for path in _nodes(tree):
        node = tree
        for key in path:
            node = node[key]
        if node == {"type": "array", "name": name}:
            return ".".join(str(key) for key in path if key not in ("state", "fields", "items", "pairs"))
    return name


def _can_be_asked(estimator, asked, X):
    try:
        _ask(estimator, asked, X)
    except (AttributeError, ValueError):  # which says that this one cannot tell
        return False
    return True


def _use(name, estimator, asked, how):
    """What goes wrong where the estimator is asked everything; None if nothing does."""
    original, X, steps = CASES[name]
    if type(estimator) is not type(original):
        return f"became a {type(estimator).__name__}"
    X = X[:8]
    for question in asked:
        try:
            answer = _ask(estimator, question, X)
        except NotFittedError:
            continue
        except Exception as error:
            if ("parameters" in how or "feature_names_in_" in how) and isinstance(error, ValueError):
                continue  # as of any estimator with such parameters or names
            if question == "sample_prior" and isinstance(error, ValueError) and one_sentence(error):
                continue  # a prior far from the rows, whose covariances are singular by rounding
            if "doc_topic_prior_" in how and isinstance(error, MemoryError):
                continue  # of rows with 1e16 tokens, as a vague prior of intensities may have
            return f"{question}: {type(error).__name__}: {error}"
        of_rows = _ASKED[question] and not (question == "transform" and name.startswith(_NOT_PROPORTIONS))
        wrong = _wrong(answer, of_rows)
        if wrong:
            return f"{question} {wrong}"
    if "partial_fit" in steps or ("stream" not in name and hasattr(estimator, "partial_fit")):
        try:
            _ask(estimator.partial_fit(X), "score", X)
        except (ValueError, NonFiniteError) as error:  # what rows can do to any estimator
            return None if one_sentence(error) or "feature_names_in_" in how else f"partial_fit: {error}"
        except Exception as error:
            if (
                "parameters" in how
                and isinstance(error, AttributeError)
                and "has no attribute 'partial_fit'" in str(error)
            ):
                return None  # another sampler
            return f"partial_fit: {type(error).__name__}: {error}"
    return None


def _ask(estimator, asked, X):
    method = getattr(estimator, asked)
    if asked == "named_blocks_":
        return [each for block in method.values() for each in block.values()]
    if not callable(method):
        return method
    if asked == "sample":
        found = method(3, random_state=0)
        return found[0] if isinstance(found, tuple) else found
    if asked in ("column_dependence", "mutual_information", "row_similarity"):
        return np.nan_to_num(method(), posinf=np.inf, neginf=-np.inf)
    if asked == "surprisal":
        return np.nan_to_num(method(X), posinf=np.inf, neginf=-np.inf)
    if asked in ("co_clustering", "credible_intervals", "to_arviz", "cluster_summary"):
        method()
        return None
    if asked == "sample_prior":
        return method(3, random_state=0)
    if asked == "conditional":
        found = method(X, [0])
        kinds = [each for each in (found.mean(), found.variance()) if not np.isnan(each).all()]
        return [*kinds, *found.predict_proba(), *found.predict(), found.log_density(X)]
    if asked == "project":
        return np.nan_to_num(method(X).coordinates, posinf=np.inf, neginf=-np.inf)
    return method(X, *(y[: len(X)] for y in targets_of(estimator))) if asked == "score" else method(X)


def _wrong(answer, sums):
    if isinstance(answer, list):
        return next(filter(None, (_wrong(each, sums) for each in answer)), None)
    if answer is None or isinstance(answer, dict):
        return None
    if isinstance(answer, pd.DataFrame):
        answer = answer.select_dtypes("number")
    values = answer.toarray() if hasattr(answer, "toarray") else np.asarray(answer)
    if values.dtype.kind not in "fiu" or not values.size:
        return None
    if np.isnan(values).any() or not (np.isfinite(values).all() or values.ndim == 0):
        return "is not finite"
    if sums and not np.allclose(values.sum(axis=-1), 1.0, rtol=0.0, atol=2e-3):
        return f"does not sum to one: {values.sum(axis=-1).ravel()[:3]}"
    return None
