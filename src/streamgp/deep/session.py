"""A session of training: epochs until validation no longer improves, and a file to go on from."""

from __future__ import annotations

import hashlib
import io
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from streamgp.contract import snapshot
from streamgp.deep.training import Epoch, Learner, Training

LOSSES = {"network": "squared error", "process": "NLML of a row"}


@dataclass
class Session:
    """Trains learners one after the other; with a file, every epoch is written, and training resumes bit for bit."""

    path: Path | None
    identity: dict[str, str]  # what must be the same for a session to go on, by name
    training: Training
    validate: Callable[[Learner], float] | None  # its error; None: all epochs run, and the last weights stay
    reports: Sequence[Callable[[Epoch], Any]]  # called after every epoch
    history: list[Epoch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._saved = self._read(self.path) if self.path is not None and self.path.exists() else None

    def run(self, learner: Learner, epochs: int) -> None:
        """Train until the epochs or the patience are out, and go back to the best weights."""
        best: dict[str, Tensor] = {}
        if self._saved is not None:
            history, state = self._saved
            if history[-1].phase != learner.phase:
                return  # the file is of a later learner, which brings its own weights
            best, self.history, self._saved = self._restored(learner, state), history, None
        errors = [epoch.rmse for epoch in self.history if epoch.phase == learner.phase]
        patience = math.inf if self.training.patience is None or self.validate is None else self.training.patience
        while len(errors) < epochs and waited(errors) < patience:
            self.history.append(self._advance(learner, len(errors)))
            errors.append(self.history[-1].rmse)
            if waited(errors) == 0:
                best = {name: tensor.detach().clone() for name, tensor in learner.tensors().items()}
            if self.path is not None:
                snapshot.write(self.path, self._packed(learner, best))
            for report in self.reports:
                report(self.history[-1])
        with torch.no_grad():
            for name, tensor in learner.tensors().items():
                tensor.copy_(best.get(name, tensor))

    def _advance(self, learner: Learner, epoch: int) -> Epoch:
        """One epoch and its validation."""
        for optimizer in learner.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = optimizer.defaults["lr"] / (1.0 + self.training.decay * epoch)
        began = time.perf_counter()
        loss = learner.epoch()
        seconds = time.perf_counter() - began
        rmse = math.nan if self.validate is None else self.validate(learner)
        return Epoch(learner.phase, epoch, loss, rmse, seconds)

    # The checkpoint.

    def _packed(self, learner: Learner, best: dict[str, Tensor]) -> bytes:
        file = io.BytesIO()
        state = {
            "weights": {name: tensor.detach() for name, tensor in learner.tensors().items()},
            "best": best,
            "optimizers": [optimizer.state_dict() for optimizer in learner.optimizers],
            "random": [torch.get_rng_state(), *torch.cuda.get_rng_state_all()],
        }
        torch.save(state, file)
        header = {
            "holds": "a checkpoint of streamgp.deep, for fit(..., checkpoint=path)",
            "session": {"identity": self.identity, "history": self.history},
        }
        return snapshot.packed(header, {"state": np.frombuffer(file.getvalue(), dtype=np.uint8)})

    def _read(self, path: Path) -> tuple[list[Epoch], dict[str, Any]]:
        try:
            header, arrays = snapshot.unpacked(snapshot.read(path))
            if "session" not in header:
                raise ValueError(f"it holds {header.get('holds', 'a model')}")
            state = torch.load(io.BytesIO(arrays["state"].tobytes()), "cpu", weights_only=True)
        except (ValueError, KeyError, RuntimeError) as error:
            raise self._refused(error) from error
        found = header["session"]["identity"]
        for name, value in self.identity.items():
            if found.get(name) != value:
                raise ValueError(
                    f"{path} is a checkpoint of another session: {name} is {found.get(name)!r} there and {value!r} "
                    "here. Use the same data and settings to go on, or another path to begin anew."
                )
        return [Epoch(*epoch) for epoch in header["session"]["history"]], state

    def _restored(self, learner: Learner, state: dict[str, Any]) -> dict[str, Tensor]:
        """Let the learner go on from this state; returns its best weights so far."""
        try:
            with torch.no_grad():
                for name, tensor in learner.tensors().items():
                    tensor.copy_(state["weights"][name])
            for optimizer, saved in zip(learner.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
            random, *of_gpus = state["random"]
            torch.set_rng_state(random)
            if len(of_gpus) == torch.cuda.device_count():
                torch.cuda.set_rng_state_all(of_gpus)
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise self._refused(error) from error
        best: dict[str, Tensor] = state["best"]
        return best

    def _refused(self, error: Exception) -> snapshot.SnapshotError:
        return snapshot.SnapshotError(
            f"{self.path} is not a checkpoint of streamgp.deep, or it is damaged ({error}); give another path, or "
            "remove it"
        )


def waited(errors: list[float]) -> int:
    """Epochs since the lowest validation error; NaN is none."""
    return len(errors) - int(np.nanargmin([math.inf, *errors]))


def shown(epoch: Epoch) -> None:
    """Print how training stands."""
    loss = f"{LOSSES[epoch.phase]} {epoch.loss:.4f}"
    print(f"{epoch.phase}, epoch {epoch.epoch + 1}: {loss}, validation RMSE {epoch.rmse:.4f}", flush=True)


def digest(*arrays: np.ndarray) -> str:
    """A short name of what arrays hold."""
    parts = (f"{array.dtype.str} {array.shape}".encode() + array.tobytes() for array in arrays)
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]
