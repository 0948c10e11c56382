"""Trees at the table: a forest that LightGBM trains, kept as plain arrays and predicted without it.

A forest is trained anew on a window of the last rows, ever more rows apart. Its sizes are bounded by ``TREES`` and
``LEAVES``, so that it has a fixed place in a state and in a snapshot; where no forest has been trained yet, the place
is that of a forest that says 0.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import compiled
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.settings import FloatArray

Array = np.ndarray

TREES, LEAVES = 50, 31
SPLITS = LEAVES - 1  # of a tree, at most
WINDOW = 5000  # rows that a forest is trained on
# Rows after which a forest is trained anew: they grow by half, and come at most so many rows apart.
GROWING, APART = (300, 500, 750, 1125, 1687, 2530, 3795, 5692), 2000
# The same trees for the same rows on every run; the other settings are LightGBM's own.
SETTINGS = (
    f"num_leaves={LEAVES} learning_rate=0.1 min_data_in_leaf=20 "
    "deterministic=true force_row_wise=true num_threads=1 verbosity=-1"
)
LIBRARY = "lib_lightgbm.*"
FLOAT32, FLOAT64, BY_ROWS = 0, 1, 1  # as its C interface calls them
# What is known of a split: the feature, and where a row goes next. At or above 0 that is a split, below it ~leaf.
FEATURE, LEFT, RIGHT, MISSING, COLUMNS = range(5)
NO_SPLIT = -1  # as the feature of a tree's first split: the tree is one leaf
# Of LightGBM's decision types: a bit, where the kind of missing values stands, a kind.
DEFAULT_LEFT, KIND, NAN = 2, 2, 2


class Forest(NamedTuple):
    """A sum of regression trees.

    Args:
        splits: (TREES * SPLITS, COLUMNS), those of one tree after the other; each stands before the splits below it.
        numbers: (TREES, SPLITS + LEAVES) thresholds of the splits, and values of the leaves.
    """

    splits: NDArray[np.int64]
    numbers: FloatArray

    @classmethod
    def empty(cls) -> Forest:
        """Return a forest that says 0 of every row."""
        splits = np.full((TREES * SPLITS, COLUMNS), NO_SPLIT, dtype=np.int64)
        return cls(splits, np.zeros((TREES, SPLITS + LEAVES)))

    def check(self, d: int) -> None:
        """Refuse trees that do not lead to leaves by features of rows of d numbers."""
        require("numbers of a forest", self.numbers)
        for tree in self.splits.reshape(TREES, SPLITS, COLUMNS):
            n = int((tree[:, FEATURE] != NO_SPLIT).sum())
            features, below = tree[:n, FEATURE], tree[:n, LEFT : RIGHT + 1]
            leads_on = np.where(below < 0, below >= ~n, (below > np.arange(n)[:, None]) & (below < n))
            if not (leads_on.all() and np.all((features >= 0) & (features < d))):
                raise SnapshotError(f"splits of a forest must lead to leaves by features of rows of {d} numbers")


def next_due(seen: int) -> int:
    """Return the first number of rows above this one after which a forest is trained."""
    early = [rows for rows in GROWING if rows > seen]
    return early[0] if early else seen + APART - (seen - GROWING[-1]) % APART


def without_trees() -> str:
    """Return why there are no trees, in one sentence; nothing where LightGBM can be used."""
    return "" if isinstance(found := _library(), ctypes.CDLL) else found


@cache
def _library() -> ctypes.CDLL | str:
    """LightGBM's library, or why there is none; its Python package, which takes long to import, is not needed."""
    package = find_spec("lightgbm")
    if package is None or not package.submodule_search_locations:
        return "No trees, because LightGBM is not installed; to have them: pip install 'streamgp[trees]'."
    folder = Path(package.submodule_search_locations[0])
    try:
        path = next(path for place in ("lib", "bin", "..") for path in (folder / place).glob(LIBRARY))
        return ctypes.CDLL(str(path))
    except StopIteration:
        return f"No trees, because LightGBM has no library in {folder}; install it anew."
    except OSError as error:  # a slim machine has no libgomp
        return f"No trees, because LightGBM cannot be loaded: {error}."


def train(F: FloatArray, y: FloatArray) -> Forest | None:
    """Return trees; None where there is no LightGBM, or no row.

    Args:
        F: (n, d) rows; NaN where a number is missing.
        y: (n,) targets; rows where they are missing are left out.
    """
    known = np.isfinite(y)
    if not known.any() or without_trees():
        return None
    # LightGBM keeps targets in single precision: in these units it can.
    offset, unit = y[known].mean(), y[known].std() or 1.0
    forest = _read(_grown(F[known], (y[known] - offset) / unit))
    forest.numbers[:, SPLITS:] *= unit
    forest.numbers[0, SPLITS:] += offset
    return forest


def _grown(F: FloatArray, z: FloatArray) -> str:
    """LightGBM's own text of the trees for targets z; F lies row by row."""
    library: Any = _library()
    rows, booster, labels = ctypes.c_void_p(), ctypes.c_void_p(), z.astype(np.float32)
    settings, finished, size = SETTINGS.encode(), ctypes.c_int(), ctypes.c_int64()

    def call(name: str, *arguments: Any) -> None:
        if getattr(library, name)(*arguments) != 0:
            library.LGBM_GetLastError.restype = ctypes.c_char_p
            raise RuntimeError(f"LightGBM: {library.LGBM_GetLastError().decode()}")

    try:
        matrix = F.ctypes.data_as(ctypes.c_void_p), ctypes.c_int(FLOAT64), *map(ctypes.c_int32, F.shape)
        call("LGBM_DatasetCreateFromMat", *matrix, ctypes.c_int(BY_ROWS), settings, None, ctypes.byref(rows))
        target = labels.ctypes.data_as(ctypes.c_void_p), ctypes.c_int(len(labels)), ctypes.c_int(FLOAT32)
        call("LGBM_DatasetSetField", rows, b"label", *target)
        call("LGBM_BoosterCreate", rows, settings, ctypes.byref(booster))
        for _ in range(TREES):
            call("LGBM_BoosterUpdateOneIter", booster, ctypes.byref(finished))
            if finished.value:
                break
        for _ in range(2):  # how long the text is, and the text
            text = ctypes.create_string_buffer(max(size.value, 1))
            which = ctypes.c_int(0), ctypes.c_int(TREES), ctypes.c_int(0)
            call("LGBM_BoosterSaveModelToString", booster, *which, ctypes.c_int64(size.value), ctypes.byref(size), text)
        return text.value.decode()
    finally:
        for free, handle in (("LGBM_BoosterFree", booster), ("LGBM_DatasetFree", rows)):
            if handle:
                call(free, handle)


def _read(text: str) -> Forest:
    """The forest in LightGBM's own text, in which children below 0 are leaves, too."""
    forest = Forest.empty()
    trees, _, _ = text.partition("\nend of trees")
    for tree, lines in enumerate(trees.split("\nTree=")[1:]):
        fields = dict(line.partition("=")[::2] for line in lines.splitlines())
        values = np.array(fields["leaf_value"].split(), dtype=float)
        forest.numbers[tree, SPLITS : SPLITS + len(values)] = values
        if (n := len(values) - 1) == 0:
            continue
        thresholds = np.array(fields["threshold"].split(), dtype=float)
        feature, left, right, kinds = (
            np.array(fields[name].split(), dtype=int)
            for name in ("split_feature", "left_child", "right_child", "decision_type")
        )
        # A split that has seen no missing value takes one for 0.
        missing = np.where(kinds >> KIND == NAN, kinds & DEFAULT_LEFT != 0, thresholds >= 0.0)
        forest.splits[tree * SPLITS :][:n] = np.column_stack([feature, left, right, missing])
        forest.numbers[tree, :n] = thresholds
    return forest


@compiled
def predict_forest(splits: Any, numbers: Array, f: Array) -> float:
    """What a forest says of a row f, (d,)."""
    total = 0.0
    for tree in range(numbers.shape[0]):
        first = tree * SPLITS
        at = NO_SPLIT if splits[first, FEATURE] == NO_SPLIT else 0
        while at >= 0:
            x = f[splits[first + at, FEATURE]]
            left = splits[first + at, MISSING] == 1 if np.isnan(x) else x <= numbers[tree, at]
            at = splits[first + at, LEFT] if left else splits[first + at, RIGHT]
        total += numbers[tree, SPLITS - 1 - at]
    return total
