"""Loading: a snapshot becomes a model. It stands above every model and imports only those that a snapshot names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from streamgp.contract import within
from streamgp.contract.model import StreamModel
from streamgp.contract.saved import Saved, Shape
from streamgp.contract.snapshot import SnapshotError, decoded, known, read, unpacked


def from_bytes(data: bytes, **parts: Any) -> Any:
    """Return the model, or the fleet, of a snapshot; whatever is wrong with it, SnapshotError says so.

    Args:
        data: what ``to_bytes()`` returned.
        parts: settings that cannot be saved, such as ``mean=`` of a RecursiveGP (``model__mean=`` within Standardize).
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"data must be the bytes that to_bytes() returned; got {type(data).__name__}")
    return model_of(*unpacked(bytes(data)), **parts)


def model_of(header: dict[str, Any], tensors: dict[str, np.ndarray], **parts: Any) -> Any:
    """Return the model, or the fleet, that snapshot.contents described."""
    if "model" not in header:
        way = "; open it with streamgp.job.Pipeline.load(path), whose .model is the model within"
        raise SnapshotError(f"the snapshot holds {header.get('holds', 'no model')}{way if 'run' in header else ''}")
    try:
        kind = known(header["model"], "holds a")
        if not issubclass(kind, Saved):
            raise SnapshotError(f"the snapshot holds a {header['model']!r}, which is not a model")
        settings = decoded(header["settings"], tensors, parts)
        model = kind(**(settings | {name: value for name, value in parts.items() if "__" not in name}))
        shape = Shape._make(header["shape"])
        if shape.d is not None:
            _check_shape(shape, model, sum(array.size for array in tensors.values()))
            resume(model, shape, header, tensors, parts)
    except SnapshotError:
        raise
    except Exception as error:  # of whatever kind: settings from a file may do anything to a constructor
        raise SnapshotError(f"the snapshot does not describe a model this version can build: {error}") from error
    return model


def resume(
    model: Saved, shape: Shape, header: dict[str, Any], tensors: dict[str, np.ndarray], parts: dict[str, Any]
) -> None:
    """Bring a model that has learned nothing into the state that snapshot.encoded_state wrote."""
    model._prepare(shape)
    within.rebuild(model, decoded(header.get("structure", {}), tensors, parts))
    state = {name.removeprefix("state."): array for name, array in tensors.items() if name.startswith("state.")}
    model._restore(state)
    within.check_restored(model)


def load(path: str | Path, **parts: Any) -> Any:
    """Return the model, or the fleet, saved in a file.

    A file that is missing or may not be read is an OSError, as for ``open``; whatever else is wrong is a SnapshotError.

    Args:
        path: a file written by ``save``.
        parts: settings that cannot be saved, such as ``mean=`` of a RecursiveGP (``model__mean=`` within Standardize),
            or that shall be others, such as ``device="cpu"`` of a Fleet.
    """
    return from_bytes(read(path), **parts)


def _check_shape(shape: Shape, model: Saved, numbers: int) -> None:
    """The columns, outputs and size, or units of a reservoir, of a model that holds this many numbers."""
    d, p = shape.d, shape.p
    units = max(one._units for one in within.family(model)) if isinstance(model, StreamModel) else 0
    if type(d) is not int or type(p) is not int or d < 0 or p < 1 or max(d, p, model.size, units) > numbers:
        raise SnapshotError(f"the snapshot says rows of {d!r} inputs and {p!r} targets, which its arrays cannot hold")
    if type(shape.ahead) is not int or shape.ahead < 1:
        raise SnapshotError(f"the snapshot says that targets come {shape.ahead!r} rows later, at least 1 is needed")
