"""A session of training: epochs until validation no longer improves, a file to go on from, and a line of progress."""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from streamgp.contract import snapshot
from streamgp.deep.training import Epoch, Learner, Training

LOSSES = {"network": "squared error", "process": "NLML of a row"}


class Session:
    """Trains learners one after the other; with a file, every epoch is written, and training resumes bit for bit.

    Args:
        path: the file; None: none is written.
        identity: what must be the same for a session to go on, by name.
        training: when to stop.
        validate: the validation error of a learner; None: all epochs run, and the last weights stay.
        on_epoch: called after every epoch.
        progress: show a line of progress.
    """

    def __init__(
        self,
        path: str | Path | None,
        identity: dict[str, str],
        training: Training,
        validate: Callable[[Learner], float] | None,
        on_epoch: Callable[[Epoch], Any] | None,
        progress: bool,
    ) -> None:
        self.history: list[Epoch] = []
        self._path = None if path is None else Path(path)
        self._identity, self._training, self._validate = identity, training, validate
        self._on_epoch, self._progress = on_epoch, progress
        self._saved: tuple[dict[str, Any], dict[str, np.ndarray]] | None = None
        if self._path is not None and self._path.exists():
            self._saved = self._read(self._path)

    def run(self, learner: Learner, epochs: int) -> None:
        """Train until the epochs or the patience are out, and go back to the best weights."""
        self._epoch, self._waited, self._best_rmse = 0, 0, math.inf
        self._best: dict[str, Tensor] = {}
        if self._saved is not None:
            if self._saved[0]["phase"] != learner.phase:
                return  # the file is of a later learner, which brings its own weights
            self._restore(learner, *self._saved)
            self._saved = None
        patience = math.inf if self._training.patience is None else self._training.patience
        with self._bar(learner.phase, epochs) as show:
            while self._epoch < epochs and self._waited < patience:
                epoch = self._advance(learner)
                self.history.append(epoch)
                if self._path is not None:
                    snapshot.write(self._path, self._packed(learner))
                show(epoch)
                if self._on_epoch is not None:
                    self._on_epoch(epoch)
        with torch.no_grad():
            for name, tensor in learner.tensors().items():
                tensor.copy_(self._best.get(name, tensor))

    def _advance(self, learner: Learner) -> Epoch:
        """One epoch and its validation."""
        for optimizer in learner.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = optimizer.defaults["lr"] / (1.0 + self._training.decay * self._epoch)
        began = time.perf_counter()
        loss = learner.epoch()
        seconds = time.perf_counter() - began
        rmse = math.nan
        if self._validate is not None:
            rmse = self._validate(learner)
            self._waited += 1
            if rmse < self._best_rmse:
                self._best_rmse, self._waited = rmse, 0
                self._best = {name: tensor.detach().clone() for name, tensor in learner.tensors().items()}
        self._epoch += 1
        return Epoch(learner.phase, self._epoch - 1, loss, rmse, seconds)

    # The checkpoint.

    def _packed(self, learner: Learner) -> bytes:
        tensors = {"random": torch.get_rng_state()}
        if torch.cuda.is_available():
            tensors["random.cuda"] = torch.cuda.get_rng_state()
        tensors |= {f"now.{name}": tensor for name, tensor in learner.tensors().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self._best.items()}
        for k, optimizer in enumerate(learner.optimizers):
            for i, moments in optimizer.state_dict()["state"].items():
                tensors |= {f"adam.{k}.{i}.{name}": value for name, value in moments.items()}
        header = {
            "holds": "a checkpoint of streamgp.deep, for fit(..., checkpoint=path)",
            "session": {
                "identity": self._identity,
                "phase": learner.phase,
                "epoch": self._epoch,
                "waited": self._waited,
                "best_rmse": self._best_rmse,
                "history": self.history,
            },
        }
        return snapshot.packed(header, {name: t.detach().cpu().contiguous().numpy() for name, t in tensors.items()})

    def _read(self, path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        try:
            header, arrays = snapshot.unpacked(snapshot.read(path))
            if "session" not in header:
                raise snapshot.SnapshotError(f"it holds {header.get('holds', 'a model')}")
        except snapshot.SnapshotError as error:
            raise self._refused(error) from error
        found = header["session"]["identity"]
        for name, value in self._identity.items():
            if found.get(name) != value:
                raise ValueError(
                    f"{path} is a checkpoint of another session: {name} is {found.get(name)!r} there and {value!r} "
                    "here. Use the same data and settings to go on, or another path to begin anew."
                )
        return header["session"], arrays

    def _restore(self, learner: Learner, saved: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        try:
            self._epoch, self._waited, self._best_rmse = saved["epoch"], saved["waited"], saved["best_rmse"]
            self.history = [Epoch(*epoch) for epoch in saved["history"]]
            with torch.no_grad():
                for name, tensor in learner.tensors().items():
                    tensor.copy_(tensors[f"now.{name}"])
                    if f"best.{name}" in tensors:
                        self._best[name] = tensors[f"best.{name}"].to(tensor)
            for k, optimizer in enumerate(learner.optimizers):
                moments: dict[int, dict[str, Tensor]] = {}
                for name, tensor in tensors.items():
                    if name.startswith(f"adam.{k}."):
                        _, _, i, kind = name.split(".")
                        moments.setdefault(int(i), {})[kind] = tensor
                optimizer.load_state_dict(optimizer.state_dict() | {"state": moments})
            torch.set_rng_state(tensors["random"])
            if "random.cuda" in tensors and torch.cuda.is_available():
                torch.cuda.set_rng_state(tensors["random.cuda"])
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> snapshot.SnapshotError:
        return snapshot.SnapshotError(
            f"{self._path} is not a checkpoint of streamgp.deep, or it is damaged ({error}); give another path, or "
            "remove it"
        )

    @contextlib.contextmanager
    def _bar(self, phase: str, epochs: int) -> Iterator[Callable[[Epoch], None]]:
        """What is called with every epoch to show it."""
        if not self._progress:
            yield lambda _: None
            return
        try:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
        except ImportError as error:
            raise ImportError('progress=True needs rich: pip install "streamgp[cli]"', name=error.name) from error
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with Progress(*columns) as progress:
            task = progress.add_task(phase, total=epochs, completed=self._epoch)
            yield lambda epoch: progress.update(
                task, advance=1, description=f"{LOSSES[phase]} {epoch.loss:.4f}, validation RMSE {epoch.rmse:.4f}"
            )


def digest(*arrays: np.ndarray) -> str:
    """A short name of what arrays hold."""
    result = hashlib.sha256()
    for array in arrays:
        result.update(f"{array.dtype.str} {array.shape}".encode())
        result.update(np.ascontiguousarray(array).tobytes())
    return result.hexdigest()[:16]
