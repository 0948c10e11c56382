"""Arrays in the memory of a GPU that come from other libraries, and that they take over: no copy either way."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from streamgp.cuda.ptx import cuda, driver
from streamgp.cuda.staging import Blocks, address

NUMBERS = "<f8", "<f4"
LEGACY_STREAM = 1  # which waits for ours, and ours for it


class DeviceArray:
    """Numbers in the memory of a GPU; ``torch.as_tensor``, ``cupy.asarray`` and ``jax.numpy.asarray`` take it."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: Any, owner: Any) -> None:
        self.address, self.shape, self.dtype, self._owner = address, tuple(shape), np.dtype(dtype), owner

    @classmethod
    def of(cls, values: Any, name: str) -> DeviceArray:
        """What another library has on the GPU."""
        interface = values.__cuda_array_interface__
        shape, dtype = interface["shape"], np.dtype(interface["typestr"])
        if dtype.str not in NUMBERS:
            raise TypeError(f"{name} must hold double or single floats; got {dtype}")
        dense = np.empty(shape, dtype).strides if interface.get("strides") else None
        if dense is not None and tuple(interface["strides"]) != dense:
            raise ValueError(f"{name} must be contiguous, row after row; got the strides {interface['strides']}")
        if (stream := interface.get("stream")) not in (None, LEGACY_STREAM):
            driver.cuStreamSynchronize(stream)
        return cls(interface["data"][0], shape, dtype, values)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        data = self.address, False
        return {"shape": self.shape, "typestr": self.dtype.str, "data": data, "strides": None, "version": 3}

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * int(self.dtype.itemsize)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """A copy in ordinary memory."""
        if copy is False:
            raise ValueError("numbers on a GPU come to NumPy as a copy only")
        here = np.empty(self.shape, self.dtype)
        driver.cuMemcpyDtoH(here.ctypes.data, self.address, here.nbytes)
        return here if dtype is None else here.astype(dtype)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype})"


class DeviceBlock:
    """Memory of the GPU."""

    def __init__(self, memory: Any) -> None:
        self.address = address(memory)


def device_blocks() -> Blocks[DeviceBlock]:
    """Memory for predictions that stay on the GPU."""
    return Blocks(partial(cuda.device_array, dtype=np.float64), DeviceBlock)
