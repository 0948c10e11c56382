"""Snapshots: one file, safetensors with a JSON header. Nothing in a file is ever executed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as serialize

from streamgp.arrays import Triangles
from streamgp.contract import filelocks
from streamgp.names import EVERYWHERE
from streamgp.settings import Configured, registered_name
from streamgp.version import __version__

FORMAT = 4
LEFT_BEHIND = 60.0  # seconds after which a temporary file that nobody writes belongs to a save that was killed
_KEY = "streamgp"
_KINDS = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U64": "<u8", "U32": "<u4", "U8": "|u1"}
_LONGEST = 100_000_000  # bytes of a header: safetensors reads no longer one
_FOREIGN = "this is not a streamgp snapshot, or it is cut short or damaged; expected a file written by model.save()"


Contents = tuple[dict[str, Any], dict[str, np.ndarray]]  # of a snapshot: the header, and arrays by name


class SnapshotError(ValueError):
    """A file that is not a whole, unaltered streamgp snapshot of a version this library reads."""


def contents(model: Any) -> Contents:
    """What the snapshot of a model has; loading.model_of reads it."""
    header, tensors = described(model)
    shape, arrays, structure = model._knowledge()
    state, learned = encoded_state(arrays, structure)
    return header | {"shape": shape} | state, tensors | learned


def nested(parts: Mapping[str, Contents]) -> Contents:
    """What a snapshot of several has: their headers by name, and their arrays."""
    headers = {name: header for name, (header, _) in parts.items()}
    return headers, {f"{name}/{key}": array for name, (_, own) in parts.items() for key, array in own.items()}


def part(name: str, headers: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Contents:
    """One of those that nested() joined."""
    start = f"{name}/"
    return headers[name], {key.removeprefix(start): array for key, array in tensors.items() if key.startswith(start)}


def encoded_state(arrays: Mapping[str, np.ndarray], structure: Mapping[str, Any]) -> Contents:
    """What a model knows for a header, and the arrays; Saved._restore reads them."""
    tensors = {
        f"state.{name}": array.packed() if isinstance(array, Triangles) else array for name, array in arrays.items()
    }
    encoded = {name: _encoded(value, f"structure.{name}", tensors) for name, value in structure.items()}
    return {"structure": encoded} if encoded else {}, tensors


def described(model: Configured) -> Contents:
    """Which model it is: its class and its settings, and the arrays among them."""
    settings, tensors = encoded(model._settings)
    return {"model": registered_name(type(model)), "settings": settings}, tensors


def encoded(settings: Mapping[str, Any]) -> Contents:
    """Settings for a header, and the arrays among them; decoded() reads them."""
    tensors: dict[str, np.ndarray] = {}
    return {name: _encoded(value, f"setting.{name}", tensors) for name, value in settings.items()}, tensors


def write(path: str | Path, data: bytes) -> None:
    """Write beside the target and move into place, so that an interrupted save or a power cut leaves one whole file.

    A link stays a link: its target is replaced. The mode of a file that is replaced is kept. What a save that was
    killed left beside the target is removed.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not an ordinary file", str(path))
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        with open(temporary, "xb") as file:
            filelocks.lock(file)
            if path.exists():
                os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            _remove_left_behind(path, os.fstat(file.fileno()).st_mtime)
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


def _remove_left_behind(path: Path, now: float) -> None:
    """Remove temporary files of saves to the same target that nobody writes any more; now is by the disk's clock."""
    wanted = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{8}")
    with contextlib.suppress(OSError):  # they harm nobody
        for beside in os.scandir(path.parent):
            if wanted.fullmatch(beside.name) and now - beside.stat().st_mtime > LEFT_BEHIND:
                with open(beside.path, "rb") as file:
                    left = filelocks.lock(file)
                if left:  # and closed again: Windows removes no open file
                    os.unlink(beside.path)


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
        *_, end = _opening(head + file.read(length - 1))
        if end != size:
            raise SnapshotError(_FOREIGN)
        file.seek(0)
        return file.read()


def packed(header: dict[str, Any], tensors: dict[str, np.ndarray]) -> bytes:
    """Bytes of a header and arrays, with the format's number and a digest of everything."""
    header = {"format": FORMAT, "library": __version__} | header
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    text = json.dumps(header | {"digest": _digest(header, tensors)}, sort_keys=True)
    return serialize(tensors, metadata={_KEY: text})


def _digest(header: dict[str, Any], tensors: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def _opening(data: bytes) -> tuple[dict[str, Any], dict[str, dict[str, Any]], int]:
    """The header, what it says of each array, and how long the whole must be."""
    try:
        length = int.from_bytes(data[:8], "little")
        arrays = json.loads(data[8 : 8 + length].decode())
        header = json.loads(arrays.pop("__metadata__")[_KEY])
        end = 8 + length + max((array["data_offsets"][1] for array in arrays.values()), default=0)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError, AttributeError, IndexError) as error:
        raise SnapshotError(_FOREIGN) from error
    return header, arrays, end


def unpacked(data: bytes) -> Contents:
    """The header and the arrays, which are views of the data; bytes that packed() did not make are refused."""
    header, arrays, _ = _opening(data)
    try:
        tensors = _views(data, arrays)
        del header["digest"]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise SnapshotError(_FOREIGN) from error
    if header.get("format") != FORMAT:
        raise SnapshotError(
            f"the snapshot has format {header.get('format')!r}, this version of streamgp reads format {FORMAT}; "
            f"it was written by streamgp {header.get('library')!r}. Formats are not converted: learn the stream again "
            "with this version, or load the file with the one that wrote it"
        )
    if sum(array.nbytes for array in tensors.values()) > len(data) or data != packed(header, tensors):
        raise SnapshotError(
            "the snapshot is damaged: its contents do not match its digest; restore it from a good copy"
        )
    return header, tensors


def _views(data: bytes, arrays: dict[str, dict[str, Any]]) -> dict[str, np.ndarray]:
    """The arrays of a file, which are not copied."""
    first, tensors = 8 + int.from_bytes(data[:8], "little"), {}
    for name, array in arrays.items():
        shape, start = tuple(array["shape"]), array["data_offsets"][0]
        if min((start, *shape)) < 0:
            raise ValueError(f"the array {name} lies outside the file")
        tensors[name] = np.ndarray(shape, _KINDS[array["dtype"]], data, first + start)  # refused beyond the end
    return tensors


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


def decoded(settings: dict[str, Any], tensors: dict[str, np.ndarray], parts: dict[str, Any]) -> dict[str, Any]:
    """The settings that encoded() wrote, and the parts that cannot be saved."""
    return {name: _decoded(value, tensors, name, parts) for name, value in settings.items()}


def _decoded(value: Any, tensors: dict[str, np.ndarray], name: str, parts: dict[str, Any]) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return tensors[value["array"]].copy()
    if "list" in value:
        return [_decoded(v, tensors, name, parts) for v in value["list"]]
    if "dict" in value:
        return {key: _decoded(v, tensors, f"{name}__{key}", parts) for key, v in value["dict"].items()}
    if "function" in value:
        if name not in parts:
            raise SnapshotError(f"the snapshot needs {name}=..., a function that is not saved: load(path, {name}=f)")
        return parts[name]
    kind = known(value["part"], "has a part")
    settings = {key: _decoded(v, tensors, f"{name}__{key}", parts) for key, v in value["settings"].items()}
    return kind(**settings)


def known(name: str, has: str) -> type[Configured]:
    """The class of this name in snapshots."""
    if name in EVERYWHERE:
        importlib.import_module(EVERYWHERE[name])
    kind = Configured.registry.get(name)
    if kind is None:
        hint = "; import the module that defines it first" if "." in name else ""
        raise SnapshotError(f"the snapshot {has} {name!r}, which this version of streamgp does not know{hint}")
    return kind
