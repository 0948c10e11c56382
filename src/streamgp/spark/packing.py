"""Packing: a header and arrays as bytes, quickly.

A state store keeps what it is given, so there is no digest over everything as in a snapshot, only a checksum.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from streamgp.contract.snapshot import SnapshotError

_KEY = "streamgp"
_DAMAGED = "the state is damaged: its contents do not match its checksum; restore the checkpoint from a good copy"


def pack(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """Bytes that unpack() reads."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    data: bytes = save(contiguous, metadata={_KEY: json.dumps(header)})
    return zlib.crc32(data).to_bytes(4, "little") + data


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of pack()."""
    data = bytes(data)
    if len(data) < 12 or zlib.crc32(memoryview(data)[4:]) != int.from_bytes(data[:4], "little"):
        raise SnapshotError(_DAMAGED)
    length = int.from_bytes(data[4:12], "little")
    header = json.loads(json.loads(data[12 : 12 + length])["__metadata__"][_KEY])
    return header, load(data[4:])
