"""Staging: copies between ordinary memory and a GPU, through pinned memory, from which it copies fastest."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from streamgp.cuda.ptx import cuda, driver

PARTS = 16  # of an array, which threads copy to pinned memory
NUMBERS_OF_A_PART = 1 << 17  # at least: for less a thread is not worth its start
BLOCKS = 4  # of predictions in pinned memory that a user may hold; what is more is copied

Shown = TypeVar("Shown")


class Staging:
    """Copies in the order of a stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = int(stream.handle)
        self._here: dict[str, np.ndarray] = {}  # pinned memory, by what it is for
        self._blocks = Blocks(partial(cuda.pinned_array, dtype=np.float64), _shown)
        self._pool = ThreadPoolExecutor(PARTS)

    def up(self, name: str, target: Any, values: np.ndarray) -> None:
        """Start to copy numbers to a GPU, part by part."""
        flat, n = values.reshape(-1), values.size
        here = self._here.get(name)
        if here is None or here.size < n or here.dtype != target.dtype:
            here = self._here[name] = cuda.pinned_array(n, target.dtype)
        edges = np.linspace(0, n, min(PARTS, n // NUMBERS_OF_A_PART + 1) + 1).astype(int).tolist()
        parts = [slice(*pair) for pair in itertools.pairwise(edges)]
        for part in (map if len(parts) == 1 else self._pool.map)(lambda part: _copied(here, flat, part), parts):
            to, numbers = address(target) + part.start * here.itemsize, here[part]
            driver.cuMemcpyHtoDAsync(to, numbers.ctypes.data, numbers.nbytes, self._stream)

    def block(self, numbers: int) -> np.ndarray:
        """Room for predictions, pinned unless a user holds many of them."""
        return self._blocks.take(numbers) if numbers and self._blocks.lent < BLOCKS else np.empty(numbers)

    def down(self, target: np.ndarray, source: Any) -> None:
        """Start to copy numbers from a GPU."""
        driver.cuMemcpyDtoHAsync(target.ctypes.data, address(source), target.nbytes, self._stream)


class Blocks(Generic[Shown]):
    """Memory for predictions, which comes back when the last array in it is gone: what is shown of it is held."""

    def __init__(self, allocate: Callable[[int], Any], show: Callable[[Any], Shown]) -> None:
        self._allocate, self._show = allocate, show
        self._free: list[Any] = []
        self.lent = 0

    def take(self, n: int) -> Shown:
        """Room for n numbers."""
        fitting = [memory for memory in self._free if memory.size == n]
        memory = fitting[0] if fitting else self._allocate(n)
        self._free = [other for other in self._free if other is not memory and other.size == n]
        shown = self._show(memory)
        self.lent += 1
        weakref.finalize(shown, self._back, memory).atexit = False
        return shown

    def _back(self, memory: Any) -> None:
        self.lent -= 1
        self._free.append(memory)


def _shown(memory: np.ndarray) -> np.ndarray:
    """An array whose base is no array: arrays made from it then keep it alive, and not the memory behind it."""
    return np.frombuffer(memory.data, np.float64)


def _copied(target: np.ndarray, source: np.ndarray, part: slice) -> slice:
    target[part] = source[part]
    return part


def address(array: Any) -> int:
    return int(array.device_ctypes_pointer.value)
