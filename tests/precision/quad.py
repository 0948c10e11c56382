"""The quad-precision reference from Python: compile it, drive it, and let it follow a model row by row.

The reference takes over what the model decided (which rows are admitted, which points leave, which hyperparameters
hold) and computes every number again with 113 bits.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import weakref
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

SOURCE = Path(__file__).with_name("reference.cpp")
NOTHING, ABSORBED, ADMITTED = range(3)
STATUS = {
    1: "the prior covariance of the basis is not positive definite in quad precision",
    2: "there is no basis point with the index that the model evicted",
    3: "a covariance is singular in quad precision",
}


class PrecisionError(ArithmeticError):
    """Even quad precision cannot follow."""


def build() -> Path:
    """Compile reference.cpp once for each version of it; skip the test where that cannot be done."""
    compiler = shutil.which(os.environ.get("CXX", "")) or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("the quad-precision reference needs a C++ compiler: install g++ (Debian, Ubuntu: apt install g++)")
    digest = hashlib.sha256(SOURCE.read_bytes() + compiler.encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"streamgp-quad-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022:
        raise PermissionError(f"{folder} can be written by others; delete it and run again")
    library = folder / f"reference-{digest}.so"
    if library.exists():
        return library
    quadmath = [] if platform.machine() in ("aarch64", "arm64") else ["-lquadmath"]
    unfinished = library.with_suffix(f".{os.getpid()}")
    command = [compiler, "-O2", "-std=gnu++17", "-shared", "-fPIC", str(SOURCE), "-o", str(unfinished), *quadmath]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        if "no type of 113 bits" in done.stderr or "quadmath" in done.stderr:
            pytest.skip("this compiler has no floating-point type of 113 bits: install g++ with libquadmath")
        raise RuntimeError(f"reference.cpp does not compile:\n{done.stderr}")
    os.replace(unfinished, library)
    return library


@functools.cache
def load() -> ctypes.CDLL:
    library = ctypes.CDLL(str(build()))
    pointer, number, whole, flag = ctypes.c_void_p, ctypes.c_double, ctypes.c_int64, ctypes.c_int
    for name, result, arguments in (
        ("create", pointer, [pointer, whole, pointer, whole, number, number, number, flag, flag, flag]),
        ("free", None, [pointer]),
        ("size", whole, [pointer]),
        ("step", flag, [pointer, pointer, whole, number, number, flag, pointer, whole, pointer]),
        ("move", flag, [pointer, pointer, number]),
        ("state", None, [pointer, pointer, pointer]),
    ):
        function = getattr(library, f"reference_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Reference:
    """A sparse online GP in quad precision whose decisions are made elsewhere.

    Args:
        operations: (steps, 4) kernel program: operation, first parameter, number of lengthscales, depth.
        parameters: the kernel's hyperparameters in the order of the program.
        noise: variance of the observation noise.
        jitter: relative to k(x, x), part of the prior.
        forgetting: back-to-prior factor.
        absorb: "fitc" or "dtc".
        removal: "marginal" or "kl".
        rounded: round the kernel's values to double: what is lost then, any float64 program loses.
    """

    def __init__(
        self,
        operations,
        parameters,
        noise,
        *,
        jitter=0.0,
        forgetting=1.0,
        absorb="fitc",
        removal="marginal",
        rounded=False,
    ) -> None:
        if absorb not in ("fitc", "dtc") or removal not in ("marginal", "kl"):
            raise ValueError(f"absorb must be 'fitc' or 'dtc', removal 'marginal' or 'kl'; got {absorb!r}, {removal!r}")
        self._library = load()
        operations = np.ascontiguousarray(np.asarray(operations, dtype=np.int64)[:, :4])  # the reference has no factors
        self._parameters = np.array(parameters, dtype=np.float64)
        self._noise = float(noise)
        self._out = np.empty(6)
        self._handle = self._library.reference_create(
            operations.ctypes.data,
            len(operations),
            self._parameters.ctypes.data,
            self._parameters.size,
            self._noise,
            jitter,
            forgetting,
            absorb == "dtc",
            removal == "kl",
            rounded,
        )
        weakref.finalize(self, self._library.reference_free, self._handle)

    @property
    def size(self) -> int:
        return self._library.reference_size(self._handle)

    def step(self, x, y=np.nan, action=NOTHING, evictions=(), noise=np.nan) -> np.ndarray:
        """Predict the value at x, learn y as told, let points leave; return mean, latent variance, prior variance.

        Each of the three is a pair of doubles whose sum is the quad-precision number. noise: the row's own, if any.
        """
        x = np.ascontiguousarray(x, dtype=np.float64)
        gone = np.array(evictions, dtype=np.int64)
        status = self._library.reference_step(
            self._handle, x.ctypes.data, x.size, y, noise, action, gone.ctypes.data, gone.size, self._out.ctypes.data
        )
        if status:
            raise PrecisionError(STATUS[status])
        return self._out.reshape(3, 2).copy()

    def move(self, parameters, noise) -> bool:
        """Go over to other hyperparameters; False where they are the present ones."""
        if noise == self._noise and np.array_equal(parameters, self._parameters):
            return False
        self._parameters[:] = parameters
        self._noise = float(noise)
        if status := self._library.reference_move(self._handle, self._parameters.ctypes.data, self._noise):
            raise PrecisionError(STATUS[status])
        return True

    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean (size, 2) and covariance (size, size, 2) of the values at the basis points, as pairs of doubles."""
        mean, covariance = np.empty((self.size, 2)), np.empty((self.size, self.size, 2))
        self._library.reference_state(self._handle, mean.ctypes.data, covariance.ctypes.data)
        return mean, covariance


class Followed(NamedTuple):
    """A model and its reference, by row; rows after a failure of the reference are NaN in its columns."""

    mean: np.ndarray
    variance: np.ndarray
    reference_mean: np.ndarray
    reference_variance: np.ndarray
    prior: np.ndarray  # k(x, x) (1 + jitter) under the hyperparameters of the row
    repairs: np.ndarray  # health.repairs after the row
    inherent: np.ndarray  # the reference's mean with rounded kernel values, where asked for
    evictions: int
    moves: int
    failure: str  # why the reference had to stop; empty: it did not


def beside(model, width: int, *, rounded: bool = False) -> Reference:
    """A reference with the settings of a model that has seen its first row."""
    settings = model.get_params()
    if settings.get("mode", "back-to-prior") != "back-to-prior":
        raise ValueError("the reference knows back-to-prior forgetting only")
    depth = settings.get("depth", 1)
    return Reference(
        model._features.kernel.program(width * depth, depth).operations,
        model._state.parameters,
        model._state.noise[0],
        jitter=settings.get("jitter", 0.0),
        forgetting=settings.get("forgetting", 1.0),
        absorb=settings.get("absorb", "fitc"),
        removal=settings.get("removal", "marginal"),
        rounded=rounded,
    )


def windows(X: np.ndarray, depth: int) -> np.ndarray:
    """Row t: the last `depth` inputs, oldest first, zeros until filled."""
    padded = np.vstack([np.zeros((depth - 1, X.shape[1])), X])
    return np.stack([padded[t : t + depth].ravel() for t in range(len(X))])


def follow(model, X: np.ndarray, y: np.ndarray, *, noise=None, inherent: bool = False) -> Followed:
    """Run a fresh model over the rows, predicting each before learning it, with the reference beside it.

    noise: of each row; None: the model's. inherent: with a second reference that has rounded kernel values.
    """
    own = np.full(len(X), np.nan) if noise is None else noise
    n, depth = len(X), model.get_params().get("depth", 1)
    seen = windows(X, depth)
    columns = np.full((7, n), np.nan)
    failure, moves, evictions = "", 0, 0
    for t in range(n):
        if t > 0:
            predicted = model.predict_one(X[t])
            columns[:2, t] = predicted.mean, predicted.variance
            model.learn_one(X[t], y[t], noise=None if noise is None else noise[t])
        else:  # the width of the inputs is known after the first row only
            predicted = model.track(X[:1], y[:1], noise=None if noise is None else noise[:1])
            columns[:2, 0] = predicted.mean[0], predicted.variance[0]
            reference = beside(model, X.shape[1])
            rounded = beside(model, X.shape[1], rounded=True) if inherent else None
        columns[5, t] = model.health.repairs
        change = model.last_change
        action = ADMITTED if change.admitted else ABSORBED if change.absorbed else NOTHING
        parameters, present = model._state.parameters, float(model._state.noise[0])
        evictions += len(change.evictions)
        if not failure:
            try:
                columns[2:5, t] = reference.step(seen[t], y[t], action, change.evictions, own[t])[:, 0]
                moves += reference.move(parameters, present)
            except PrecisionError as failed:
                failure = f"row {t}: {failed}"
        if rounded is not None:
            try:
                columns[6, t] = rounded.step(seen[t], y[t], action, change.evictions, own[t])[0, 0]
                rounded.move(parameters, present)
            except PrecisionError:
                rounded = None
    return Followed(*columns, evictions, moves, failure)
