"""Snapshots: one file, safetensors with a JSON header. Nothing in a file is ever executed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse
from safetensors.numpy import save as serialize

from streamgp.settings import Configured, registered_name
from streamgp.version import __version__

if TYPE_CHECKING:
    from streamgp.contract.saved import Saved

FORMAT = 3
_KEY = "streamgp"
_LONGEST = 100_000_000  # bytes of a header: safetensors reads no longer one
_FOREIGN = "this is not a streamgp snapshot, or it is cut short or damaged; expected a file written by model.save()"


class SnapshotError(ValueError):
    """A file that is not a whole, unaltered streamgp snapshot of a version this library reads."""


def to_bytes(model: Saved) -> bytes:
    """The snapshot of a model."""
    shape, arrays, structure = model._knowledge()
    header, tensors = described(model)
    header["shape"] = shape
    if structure:
        header["structure"] = {name: _encoded(value, f"structure.{name}", tensors) for name, value in structure.items()}
    tensors |= {f"state.{name}": np.ascontiguousarray(array) for name, array in arrays.items()}
    return packed(header, tensors)


def described(model: Saved) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Which model it is: its class and its settings, and the arrays among them."""
    settings, tensors = encoded(model._settings)
    return {"model": registered_name(type(model)), "settings": settings}, tensors


def encoded(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Settings for a header, and the arrays among them; loading.decoded reads them."""
    tensors: dict[str, np.ndarray] = {}
    return {name: _encoded(value, f"setting.{name}", tensors) for name, value in settings.items()}, tensors


def write(path: str | Path, data: bytes) -> None:
    """Write beside the target and move into place, so that an interrupted save or a power cut leaves one whole file.

    A link stays a link: its target is replaced. The mode of a file that is replaced is kept.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not an ordinary file", str(path))
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        with open(temporary, "xb") as file:
            if path.exists():
                os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name is on disk, too
        finally:
            os.close(folder)


def read(path: str | Path) -> bytes:
    """The bytes of a file that begins and ends where a snapshot does; any other is refused before it is read."""
    path = Path(path)
    if path.exists() and not path.is_file():  # a pipe would be waited for, a device might have no end
        raise SnapshotError(f"{path} is not an ordinary file; expected a file written by model.save()")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(9)
        length = int.from_bytes(head[:8], "little")
        if head[8:] != b"{" or not length <= min(size - 8, _LONGEST):
            raise SnapshotError(_FOREIGN)
        head += file.read(length - 1)
        _, end = _opening(head)
        if end != size:
            raise SnapshotError(_FOREIGN)
        return head + file.read()


def packed(header: dict[str, Any], tensors: dict[str, np.ndarray]) -> bytes:
    """Bytes of a header and arrays, with the format's number and a digest of everything."""
    header = {"format": FORMAT, "library": __version__} | header
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    text = json.dumps(header | {"digest": digest.hexdigest()}, sort_keys=True)
    return serialize(tensors, metadata={_KEY: text})


def _opening(data: bytes) -> tuple[dict[str, Any], int]:
    """The header, and how long the whole must be."""
    try:
        length = int.from_bytes(data[:8], "little")
        arrays = json.loads(data[8 : 8 + length].decode())
        header = json.loads(arrays.pop("__metadata__")[_KEY])
        end = 8 + length + max((array["data_offsets"][1] for array in arrays.values()), default=0)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError, AttributeError, IndexError) as error:
        raise SnapshotError(_FOREIGN) from error
    return header, end


def unpacked(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays; bytes that packed() did not make are refused."""
    header, _ = _opening(data)
    try:
        tensors = parse(data)
        found = header.pop("digest")
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SnapshotError(_FOREIGN) from error
    if header.get("format") != FORMAT:
        raise SnapshotError(
            f"the snapshot has format {header.get('format')!r}, this version of streamgp reads format {FORMAT}; "
            f"it was written by streamgp {header.get('library')!r}. Formats are not converted: learn the stream again "
            "with this version, or load the file with the one that wrote it"
        )
    # Written again it must give the same bytes: any other file was altered, and the digest says which part.
    again = packed(header, tensors)
    if again != data:
        reason = (
            "its contents do not match its digest" if str(found).encode() not in again else "its layout was altered"
        )
        raise SnapshotError(f"the snapshot is damaged: {reason}; restore it from a good copy")
    return header, tensors


def require(
    name: str,
    array: np.ndarray,
    *,
    at_least: float = -np.inf,
    at_most: float = np.inf,
    above: float | None = None,
    finite: bool = True,
) -> None:
    """Refuse an array of a snapshot with a number that no stream leads to."""
    wrong = (array < at_least) | (array > at_most)
    if above is not None:
        wrong |= array <= above
    if finite:
        wrong |= ~np.isfinite(array)
    if wrong.any():
        bounds = (("of at least", at_least), ("of at most", at_most), ("above", above))
        rule = " and ".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None and np.isfinite(bound))
        raise SnapshotError(
            f"the snapshot cannot be of a stream: {name} must be {'finite ' * finite}numbers {rule}".rstrip()
            + f"; it has {array[wrong][0]}"
        )


def _encoded(value: Any, name: str, tensors: dict[str, np.ndarray]) -> Any:
    if isinstance(value, Configured):
        settings = {key: _encoded(v, f"{name}.{key}", tensors) for key, v in value._settings.items()}
        return {"part": registered_name(type(value)), "settings": settings}
    if isinstance(value, np.ndarray):
        tensors[name] = np.ascontiguousarray(value, dtype=np.float64).reshape(value.shape)
        return {"array": name}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return {"list": [_encoded(v, f"{name}.{i}", tensors) for i, v in enumerate(value)]}
    if isinstance(value, dict):
        return {"dict": {key: _encoded(v, f"{name}.{key}", tensors) for key, v in value.items()}}
    if callable(value):
        return {"function": getattr(value, "__name__", "function")}
    raise TypeError(f"the setting {name.removeprefix('setting.')} cannot be saved: {value!r}")
