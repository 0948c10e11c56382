"""What all models over windows of a series share: fitting, predicting, simulating, and the tensors for it."""

from __future__ import annotations

import abc
import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from streamgp.contract.prediction import Prediction
from streamgp.deep.encoders import Encoder
from streamgp.deep.session import Session, digest, digest_of_weights
from streamgp.deep.training import (
    CHUNK,
    Epoch,
    Learner,
    Training,
    Validate,
    Windows,
    embed,
)
from streamgp.deep.windows import Series, Units, beginnings, checked, predictable, task_of, units_of
from streamgp.evaluate.metrics import rmse
from streamgp.settings import Configured, FloatArray, choice, whole

PRECISIONS = ("single", "double")


class DeepModel(Configured, abc.ABC):
    """A network over windows of a series. One model belongs to one thread at a time."""

    history: list[Epoch]

    _units: Units | None = None
    _network: nn.Module
    _scalar: bool = True
    _outputs: int = 1

    def _compose(
        self,
        encoder: Any,
        depth: int,
        mode: str,
        horizon: int,
        padding: bool,
        training: Training | None,
        standardize: bool,
        precision: str,
        device: str,
        seed: int,
    ) -> None:
        if not isinstance(encoder, Encoder | nn.Module):
            raise TypeError(f"encoder must be, for example, LSTM(64), or a torch.nn.Module; got {encoder!r}")
        if training is not None and not isinstance(training, Training):
            raise TypeError(f"training must be, for example, Training(epochs=100), or None; got {training!r}")
        self._encoder = encoder
        self._task = task_of(mode, depth, horizon, padding)
        self._mode = mode
        self._training = Training() if training is None else training
        self._standardize = bool(standardize)
        self._type = (torch.float32, torch.float64)[choice("precision", precision, PRECISIONS)]
        self._device = found_device(device)
        self._seed = whole("seed", seed, at_least=0)
        self.history = []

    # What a model has to provide.

    @abc.abstractmethod
    def _train(self, windows: Windows, session: Session) -> None:
        """Train the network, which has random or given weights."""

    @abc.abstractmethod
    def _settle(self, windows: Windows) -> None:
        """After training: learn all windows, those of the validation included, with the weights as they are."""

    @abc.abstractmethod
    def _head(self, H: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances (rows, p) of embeddings."""

    @property
    @abc.abstractmethod
    def _noise(self) -> FloatArray:
        """(p,), in standard units."""

    # What users call.

    def fit(
        self,
        U: Any,
        Y: Any,
        starts: Any = None,
        validation: int | None = None,
        pretrained: DeepModel | None = None,
        checkpoint: str | Path | None = None,
        progress: bool = False,
        on_epoch: Callable[[Epoch], Any] | None = None,
    ) -> Self:
        """Train on a series, in place of any before.

        Args:
            U: (n, d) inputs in order of time.
            Y: (n,) or (n, p) targets of the same rows; NaN where missing.
            starts: rows at which a new sequence begins, the first one 0; no window reaches across. None: one sequence.
            validation: the row from which on targets are kept for validation; None: the last part, as training says.
            pretrained: a trained model with the same encoder, whose weights to start from; None: random ones.
            checkpoint: a file to which every epoch is written; where it exists, training goes on from it, bit by bit as
                if it had never stopped. More epochs may be asked for than before; all else must be the same.
            progress: show a line of progress with the loss and the validation error; needs rich.
            on_epoch: called with an Epoch after every epoch.
        """
        before = dict(self.__dict__)
        try:
            self._fit(U, Y, starts, validation, pretrained, checkpoint, progress, on_epoch)
        except BaseException:
            self.__dict__ = before
            raise
        return self

    def _fit(
        self,
        U: Any,
        Y: Any,
        starts: Any,
        validation: int | None,
        pretrained: DeepModel | None,
        checkpoint: str | Path | None,
        progress: bool,
        on_epoch: Callable[[Epoch], Any] | None,
    ) -> None:
        U, Y, begins, scalar = checked(U, Y, starts)
        units, series, learnt, kept = self._divided(U, Y, begins, validation)
        with self._torch():
            torch.manual_seed(self._seed)
            d = series.rows.shape[1]
            self._network = self._built(d) if pretrained is None else pretrained._weights_for(self, d)
            validate: Validate | None = None
            if kept.size:
                validate = lambda learner: self._validation_rmse(learner, series, kept)  # noqa: E731
            identity = {
                "settings": repr(self.replaced(training=self._training.replaced(epochs=1))),
                "weights": digest_of_weights(self._network),
                "data": digest(U, Y, begins, learnt, kept),
                "device": self._device.type,
            }
            session = Session(checkpoint, identity, validate, on_epoch, progress)
            self._train(self._windows(series, learnt), session)
            self._settle(self._windows(series, np.concatenate([learnt, kept])))
        self._units, self._scalar, self._outputs, self._width = units, scalar, Y.shape[1], U.shape[1]
        last = series.rows[begins[-1] :][-self._task.depth :]
        self._last = np.nan_to_num(np.vstack([np.zeros((self._task.depth - len(last), d)), last]))
        self.history = session.history

    def predict(self, U: Any, Y: Any = None, starts: Any = None, samples: int = 0, seed: int = 0) -> Prediction:
        """Predict the target of every row from the rows before it; NaN where no whole window comes before.

        Args:
            U: (n, d) inputs in order of time.
            Y: (n,) or (n, p) targets, of which those before a row are inputs; regression needs none.
            starts: rows at which a new sequence begins; None: one sequence.
            samples: passes with dropout, whose spread adds to the variance; 0: one pass without dropout.
            seed: of the dropout.

        Returns:
            One Prediction of arrays, (n,) or (n, p), in the units of the targets.
        """
        series = self._seen(U, Y, starts)
        rows = predictable(series, self._task)
        windows = self._windows(series, rows)
        with self._torch():
            if whole("samples", samples, at_least=0):
                torch.manual_seed(whole("seed", seed, at_least=0))
                passes = [self._outcome(windows, dropout=True) for _ in range(samples)]
                means, variances = (torch.stack(parts) for parts in zip(*passes, strict=True))
                spread = means.var(0, correction=0)
                mean, variance = means.mean(0), torch.nan_to_num(variances, nan=0.0).mean(0) + spread
            else:
                mean, variance = self._outcome(windows, dropout=False)
        return self._in_units(len(series.rows), rows, mean, variance)

    def simulate(
        self, U: Any, Y: Any, start: int, stop: int | None = None, trajectories: int = 1, seed: int = 0
    ) -> Prediction:
        """Run freely: from one row on, past targets are the model's own predictions.

        Args:
            U: (n, d) inputs in order of time, one sequence.
            Y: (n,) or (n, p) targets, of which only those before ``start`` are used.
            start: the first row that is simulated.
            stop: the row before which the simulation ends; None: the end of the series.
            trajectories: 1 feeds back the mean; more feed back draws, and their spread adds to the variance.
            seed: of the draws.

        Returns:
            One Prediction of arrays, (n,) or (n, p), NaN before ``start``.
        """
        series = self._seen(U, Y, None)
        n = len(series.rows)
        stop = n if stop is None else min(whole("stop", stop), n)
        start = whole("start", start)
        if not self._task.lead <= start < stop:
            raise ValueError(
                f"start must be a row from {self._task.lead}, which a whole window precedes, and below {stop}; "
                f"got {start}"
            )
        count = whole("trajectories", trajectories)
        with self._torch():
            generator = torch.Generator().manual_seed(whole("seed", seed, at_least=0))
            means, variances = self._free_run(self._network, self._head, series, start, stop, count, generator)
            # The law of total variance over the trajectories.
            mean, variance = means.mean(1), variances.mean(1)
            if count > 1:
                variance = variance + means.var(1, correction=0)
        return self._in_units(n, np.arange(start, stop), mean, variance)

    def rows(self, U: Any, Y: Any) -> tuple[FloatArray, FloatArray]:
        """Return a series as a stream model of ``online()`` takes it: rows (n, width) and the targets to learn there.

        Row t holds the inputs of row t, and its targets where past targets are inputs; its target is that of row
        t + horizon, NaN beyond the end. Past targets that are missing must be filled in.

        Args:
            U: (n, d) inputs in order of time.
            Y: (n,) or (n, p) targets.
        """
        U, Y, _, scalar = checked(U, Y, None)
        targets = np.full_like(Y, np.nan)
        targets[: len(Y) - self._task.horizon] = Y[self._task.horizon :]
        rows = np.hstack([U, Y]) if self._task.feeds_back else U
        return rows, targets[:, 0] if scalar else targets

    def embed(self, U: Any, Y: Any = None, starts: Any = None) -> FloatArray:
        """Return the embedding of every row's past, (n, width); NaN where no whole window comes before."""
        series = self._seen(U, Y, starts)
        rows = predictable(series, self._task)
        with self._torch():
            H = embed(self._network, self._windows(series, rows))
        result = np.full((len(series.rows), H.shape[1]), np.nan)
        result[rows] = H.double().cpu().numpy()
        return result

    # How series become tensors.

    def _divided(
        self, U: FloatArray, Y: FloatArray, starts: NDArray[np.int64], validation: int | None
    ) -> tuple[Units, Series, NDArray[np.int64], NDArray[np.int64]]:
        """The units, the series in them, and the rows whose targets are learnt and kept for validation."""
        raw = Series(np.hstack([U, Y]) if self._task.feeds_back else U, Y, starts)
        rows = predictable(raw, self._task)
        rows = rows[~np.isnan(Y[rows]).any(axis=1)]
        if validation is None:
            learnt = len(rows) - int(len(rows) * self._training.validation)
        else:
            learnt = int(np.searchsorted(rows, whole("validation", validation)))
        if learnt < 2:
            raise ValueError(
                f"training needs at least 2 rows that a whole window of {self._task.depth} rows precedes; got {learnt} "
                f"of {len(U)}. Use a longer series or a smaller depth."
            )
        known = rows[learnt - 1] + 1  # what comes later counts for validation alone
        units = units_of(U[:known], Y[:known], self._standardize)
        return units, units.series(U, Y, starts, self._task), rows[:learnt], rows[learnt:]

    def _seen(self, U: Any, Y: Any, starts: Any) -> Series:
        """A series to predict, in standard units."""
        if self._units is None:
            raise ValueError(f"this {type(self).__name__} has learnt nothing yet; call fit(U, Y) first")
        if Y is None:
            if self._task.feeds_back:
                raise ValueError(f'mode="{self._mode}" predicts from past targets: give Y as well')
            Y = np.full((len(U), self._outputs), np.nan)
        U, Y, begins, _ = checked(U, Y, starts, self._width, self._outputs)
        return self._units.series(U, Y, begins, self._task)

    def _windows(self, series: Series, rows: NDArray[np.int64]) -> Windows:
        padded = np.vstack([series.rows, np.zeros((1, series.rows.shape[1]))])
        return Windows(
            torch.as_tensor(padded, dtype=self._type, device=self._device),
            torch.as_tensor(rows - self._task.horizon, device=self._device),
            torch.as_tensor(beginnings(series)[rows], device=self._device),
            torch.as_tensor(series.targets[rows], device=self._device),
            self._task.depth,
        )

    def _outcome(self, windows: Windows, dropout: bool) -> tuple[Tensor, Tensor]:
        self._network.train(dropout)
        firsts = range(0, max(len(windows), 1), CHUNK)
        with torch.no_grad():
            parts = [self._head(self._network(windows.cut(slice(i, i + CHUNK)))) for i in firsts]
        mean, variance = (torch.cat(part) for part in zip(*parts, strict=True))
        return mean, variance

    def _in_units(self, n: int, rows: NDArray[np.int64], mean: Tensor, variance: Tensor) -> Prediction:
        assert self._units is not None
        shift, scale = self._units.target_shift, self._units.target_scale
        means, variances, noises = (np.full((n, self._outputs), np.nan) for _ in range(3))
        means[rows] = shift + scale * mean.cpu().numpy()
        variances[rows] = scale**2 * variance.cpu().numpy()
        noises[rows] = scale**2 * self._noise
        if self._scalar:
            return Prediction(means[:, 0], variances[:, 0], noises[:, 0])
        return Prediction(means, variances, noises)

    # Validation and free runs.

    def _validation_rmse(self, learner: Learner, series: Series, kept: NDArray[np.int64]) -> float:
        predict = learner.ready()
        if self._mode != "simulation":
            windows = self._windows(series, kept)
            mean = predict(embed(learner.encoder, windows))
            return rmse(windows.targets.cpu().numpy(), mean.cpu().numpy())
        learner.encoder.eval()
        errors = []
        began = beginnings(series)
        breaks = (np.diff(kept) != 1) | (np.diff(began[kept]) != 0)
        for run_of_rows in np.split(kept, np.flatnonzero(breaks) + 1):
            start, stop = int(run_of_rows[0]), int(run_of_rows[-1]) + 1
            own = Series(series.rows[began[start] :], series.targets[began[start] :], series.starts[:1])
            span = start - began[start], stop - began[start]
            means, _ = self._free_run(learner.encoder, lambda H: (predict(H),) * 2, own, *span, 1, None)
            errors.append(means[:, 0].cpu().numpy() - series.targets[start:stop])
        return rmse(np.concatenate(errors), 0.0)

    def _free_run(
        self,
        network: nn.Module,
        head: Callable[[Tensor], tuple[Tensor, Tensor]],
        series: Series,
        start: int,
        stop: int,
        count: int,
        generator: torch.Generator | None,
    ) -> tuple[Tensor, Tensor]:
        """Means and variances (rows, count, p) where past targets from start on are those said before."""
        network.eval()
        depth, horizon, p = self._task.depth, self._task.horizon, series.targets.shape[1]
        first = start - depth - horizon + 1
        # The rows of all trajectories, (count, rows, d); what lies before the sequence is zeros.
        known = series.rows[max(first, 0) : stop]
        known = np.vstack([np.zeros((stop - first - len(known), known.shape[1])), known])
        rows = torch.as_tensor(known, dtype=self._type, device=self._device).expand(count, -1, -1).clone()
        means, variances = [], []
        noise = torch.as_tensor(self._noise, device=self._device) if count > 1 else None
        with torch.no_grad():
            for t in range(start, stop):
                end = t - first - horizon + 1
                mean, variance = head(network(rows[:, end - depth : end]))
                means.append(mean)
                variances.append(variance)
                if self._task.feeds_back:
                    said = mean
                    if noise is not None:  # what comes back is an observation: function and noise
                        draws = torch.randn(mean.shape, generator=generator, dtype=mean.dtype).to(mean.device)
                        said = mean + torch.nan_to_num(variance, nan=0.0).add(noise).sqrt() * draws
                    rows[:, t - first, -p:] = said.to(rows.dtype)
        return torch.stack(means), torch.stack(variances)

    # The network.

    def _built(self, d: int) -> nn.Module:
        """A network of this model's encoder, with random weights (those of a given module as they are)."""
        if isinstance(self._encoder, Encoder):
            network = self._encoder.build(d, self._task.depth)
        else:
            network = copy.deepcopy(self._encoder)
        return network.to(device=self._device, dtype=self._type)

    def _weights_for(self, other: DeepModel, d: int) -> nn.Module:
        """A copy of this trained network for another model."""
        if self._units is None:
            raise ValueError(f"pretrained must be a model that has been fitted; this {type(self).__name__} has not")
        network = other._built(d)
        try:
            network.load_state_dict(self._network.state_dict())
        except RuntimeError as error:
            raise ValueError(f"pretrained must have the same encoder and inputs: {error}") from None
        return network

    @contextlib.contextmanager
    def _torch(self) -> Iterator[None]:
        """Leave the random numbers of the program alone, and keep one remark of cuDNN quiet."""
        devices = [self._device] if self._device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), warnings.catch_warnings():
            # Weights of which some are dropped do not lie in one piece.
            warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
            yield


def found_device(device: str) -> torch.device:
    """The device by name; "auto" is a GPU if there is one."""
    choice("device", device, ("auto", "cpu", "cuda"))
    there = torch.cuda.is_available()
    if device == "cuda" and not there:
        raise ValueError('device="cuda" needs a GPU that PyTorch can use, and there is none; use device="auto"')
    return torch.device("cuda" if there and device != "cpu" else "cpu")
