"""A session of training: courses one after the other, a file from which it can go on, and a line of progress."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as parse
from safetensors.numpy import save as serialize
from torch import Tensor, nn

from streamgp.contract import snapshot
from streamgp.deep.training import Course, Epoch, Validate

FORMAT = 1
_KEY = "streamgp.deep"


class Session:
    """Runs courses; with a file, every epoch is written, and a session that was cut short goes on bit by bit.

    Args:
        path: the file; None: none is written.
        identity: what must be the same for a session to go on, by name.
        validate: the validation error of a learner.
        on_epoch: called after every epoch.
        progress: show a line of progress.
    """

    def __init__(
        self,
        path: str | Path | None,
        identity: dict[str, str],
        validate: Validate | None,
        on_epoch: Callable[[Epoch], Any] | None,
        progress: bool,
    ) -> None:
        self.history: list[Epoch] = []
        self._path = None if path is None else Path(path)
        self._identity, self._validate, self._on_epoch, self._progress = identity, validate, on_epoch, progress
        self._saved: tuple[dict[str, Any], dict[str, np.ndarray]] | None = None
        if self._path is not None and self._path.exists():
            self._saved = self._read(self._path)
            self.history = [Epoch(*epoch) for epoch in self._saved[0]["history"]]

    def run(self, course: Course) -> None:
        """Train until done, and go back to the best weights."""
        if self._saved is not None:
            header, tensors = self._saved
            if header["phase"] != course.learner.phase:
                return  # the file is of a later course, which brings its own weights
            _restore(course, header, tensors)
            self._saved = None
        with _bar(course, self._progress) as show:
            while not course.done:
                epoch = course.advance(self._validate)
                self.history.append(epoch)
                if self._path is not None:
                    snapshot.write(self._path, _packed(course, self._identity, self.history))
                show(epoch)
                if self._on_epoch is not None:
                    self._on_epoch(epoch)
        course.finish()

    def _read(self, path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        try:
            with safe_open(path, framework="np") as file:
                header = json.loads(file.metadata()[_KEY])
            tensors = parse(path.read_bytes())
            found = header["identity"]
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise snapshot.SnapshotError(
                f"{path} is not a checkpoint of streamgp.deep, or it is damaged; give another path, or remove it"
            ) from error
        if header.get("format") != FORMAT:
            raise snapshot.SnapshotError(f"{path} has format {header.get('format')!r}; this version reads {FORMAT}")
        for name, value in self._identity.items():
            if found.get(name) != value:
                raise ValueError(
                    f"{path} is a checkpoint of another session: {name} is {found.get(name)!r} there and {value!r} "
                    "here. Use the same data and settings to go on, or another path to begin anew."
                )
        return header, tensors


def digest(*arrays: np.ndarray) -> str:
    """A short name of what arrays hold."""
    result = hashlib.sha256()
    for array in arrays:
        result.update(f"{array.dtype.str} {array.shape}".encode())
        result.update(np.ascontiguousarray(array).tobytes())
    return result.hexdigest()[:16]


def digest_of_weights(network: nn.Module) -> str:
    return digest(*(tensor.detach().cpu().numpy() for tensor in network.state_dict().values()))


def _packed(course: Course, identity: dict[str, str], history: list[Epoch]) -> bytes:
    tensors = {f"now.{name}": tensor for name, tensor in course.learner.tensors().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in course.best.items()}
    tensors |= {f"adam.{name}": tensor for name, tensor in _moments(course).items()}
    tensors["random"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    header = {
        "format": FORMAT,
        "identity": identity,
        "phase": course.learner.phase,
        "epoch": course.epoch,
        "best_rmse": course.best_rmse,
        "waited": course.waited,
        "history": history,
    }
    arrays = {name: np.ascontiguousarray(tensor.detach().cpu().numpy()) for name, tensor in tensors.items()}
    return serialize(arrays, metadata={_KEY: json.dumps(header)})


def _restore(course: Course, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    course.epoch, course.best_rmse, course.waited = header["epoch"], header["best_rmse"], header["waited"]
    live = course.learner.tensors()
    with torch.no_grad():
        for name, tensor in live.items():
            tensor.copy_(torch.from_numpy(arrays[f"now.{name}"]))
            if f"best.{name}" in arrays:
                course.best[name] = torch.from_numpy(arrays[f"best.{name}"]).to(tensor)
    for k, optimizer in enumerate(course.learner.optimizers):
        for i, weight in enumerate(optimizer.param_groups[0]["params"]):
            state = {
                name: torch.from_numpy(arrays[f"adam.{k}.{i}.{name}"])
                for name in ("step", "exp_avg", "exp_avg_sq")
                if f"adam.{k}.{i}.{name}" in arrays
            }
            if state:
                optimizer.state[weight] = {
                    name: value if name == "step" else value.to(weight) for name, value in state.items()
                }
    torch.set_rng_state(torch.from_numpy(arrays["random"]))
    if "random.cuda" in arrays and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.from_numpy(arrays["random.cuda"]))


def _moments(course: Course) -> dict[str, Tensor]:
    """What Adam remembers of every weight."""
    return {
        f"{k}.{i}.{name}": value
        for k, optimizer in enumerate(course.learner.optimizers)
        for i, weight in enumerate(optimizer.param_groups[0]["params"])
        for name, value in optimizer.state.get(weight, {}).items()
    }


@contextlib.contextmanager
def _bar(course: Course, wanted: bool) -> Iterator[Callable[[Epoch], None]]:
    """What is called with every epoch to show it."""
    if not wanted:
        yield lambda _: None
        return
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError as error:
        raise ImportError('progress=True needs rich: pip install "streamgp[cli]"', name=error.name) from error
    loss = {"network": "squared error", "process": "NLML of a row"}[course.learner.phase]
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns) as progress:
        task = progress.add_task(course.learner.phase, total=course.epochs, completed=course.epoch)
        yield lambda epoch: progress.update(
            task, advance=1, description=f"{loss} {epoch.loss:.4f}, validation RMSE {epoch.rmse:.4f}"
        )
