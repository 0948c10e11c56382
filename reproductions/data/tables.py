"""Tables: real data sets by name, read from a folder that the user names. Nothing is downloaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproductions.data.catalogue import CATALOGUE, Entry
from streamgp.settings import FloatArray, nearest

VARIABLE = "STREAMGP_DATA"


class Table(NamedTuple):
    """A data set in its own order and units.

    Attributes:
        X: (n, d) inputs.
        Y: (n,) or (n, p) targets of those rows; NaN where missing.
        inputs: names of the columns of X, with units where known.
        targets: names of the columns of Y, with units where known.
        starts: rows at which a new sequence begins, the first one 0: reset the memory there.
        split: rows before it are the published training part, the others the test part; None if there is none.
        name: the full name of the table.
    """

    X: FloatArray
    Y: FloatArray
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    starts: NDArray[np.int64]
    split: int | None
    name: str


def load(name: str, root: str | Path | None = None) -> Table:
    """Return a table of real data.

    Args:
        name: a name in :func:`names`. A folder's name alone means its first table: "sarcos" is "sarcos/test".
        root: the folder that holds the folders of data; None: the environment variable STREAMGP_DATA.

    Example:
        >>> from reproductions.data import load
        >>> load("mcycle").X.shape  # doctest: +SKIP
        (133, 1)
    """
    full = _full_name(name)
    entry = CATALOGUE[full]
    folder = _root(root, entry)
    path = folder / entry.file
    if not path.is_file():
        raise FileNotFoundError(
            f"the table {full!r} is read from {entry.file}, which is not there under {folder}. {entry.where}"
        )
    try:
        rows = entry.read(path)
        X = np.ascontiguousarray(rows.X, dtype=np.float64)
        Y = np.ascontiguousarray(rows.Y, dtype=np.float64)
        found = (X.ndim, Y.ndim, *X.shape[1:], *Y.shape[1:], len(X))
        expected = (2, 2, len(entry.inputs), len(entry.targets), len(Y))
        if found != expected:
            raise ValueError(f"the columns are {X.shape} and {Y.shape}")
    except Exception as error:  # whatever a reader stumbles over, the file is not the one that is meant
        raise ValueError(
            f"{path} does not hold the table {full!r}, {len(entry.inputs)} inputs and {len(entry.targets)} targets: "
            f"{error}. Fetch the file again. {entry.where}"
        ) from error
    Y = Y[:, 0] if len(entry.targets) == 1 else Y
    starts = np.asarray(rows.starts, dtype=np.int64)
    return Table(X, Y, entry.inputs, entry.targets, starts, entry.split, full)


def names() -> tuple[str, ...]:
    """Return the names of all tables, whether their files are there or not.

    Example:
        >>> from reproductions.data import names
        >>> names()[:2]
        ('sarcos/test', 'sarcos/first5800')
    """
    return tuple(CATALOGUE)


def available(root: str | Path | None = None) -> tuple[str, ...]:
    """Return the names of the tables whose files are there.

    Args:
        root: the folder that holds the folders of data; None: the environment variable STREAMGP_DATA.
    """
    folder = _root(root, None)
    return tuple(name for name, entry in CATALOGUE.items() if (folder / entry.file).is_file())


def _full_name(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a table must be text such as 'sarcos'; got {name!r}")
    if name in CATALOGUE:
        return name
    for full in CATALOGUE:
        if full.startswith(f"{name}/"):
            return full
    folders = dict.fromkeys(full.partition("/")[0] for full in CATALOGUE)
    known = [*folders, *CATALOGUE]
    raise ValueError(f"there is no table {name!r}.{nearest(name, known)} The folders are: {', '.join(folders)}.")


def _root(root: str | Path | None, entry: Entry | None) -> Path:
    given = os.environ.get(VARIABLE) if root is None else root
    example = f"{entry.file}. {entry.where}" if entry else "such files as sarcos/sarcos_inv_test.mat."
    if not given:
        raise FileNotFoundError(
            f"no folder of data is named: set the environment variable {VARIABLE}, or give root=, to the folder that "
            f"holds {example}"
        )
    folder = Path(given)
    if not folder.is_dir():
        named_by = f"the environment variable {VARIABLE}" if root is None else "root="
        raise FileNotFoundError(f"the folder {folder}, named by {named_by}, does not exist; it should hold {example}")
    return folder
