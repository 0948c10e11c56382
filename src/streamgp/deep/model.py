"""What all models over windows of a series share: fitting, predicting, simulating, and the tensors for it."""

from __future__ import annotations

import abc
import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, Self, TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from streamgp.contract.prediction import Prediction
from streamgp.deep.encoders import Encoder
from streamgp.deep.gp import Head
from streamgp.deep.training import CHUNK, Epoch, Learner, Training, Windows, embed, train
from streamgp.deep.windows import MODES, Recording, checked, task_of
from streamgp.evaluate.metrics import rmse
from streamgp.settings import Configured, FloatArray, Setting, one_of, whole
from streamgp.vocabulary import Seed
from streamgp.wrappers.units import Scaling, units_of


def _encoder(name: str, value: Any) -> Encoder | nn.Module:
    if not isinstance(value, Encoder | nn.Module):
        raise TypeError(f"{name} must be, for example, LSTM(64), or a torch.nn.Module; got {value!r}")
    return value


def _training(name: str, value: Any) -> Training:
    if value is not None and not isinstance(value, Training):
        raise TypeError(f"{name} must be, for example, Training(epochs=100), or None; got {value!r}")
    return Training() if value is None else value


EncoderSetting = Annotated[
    Any,
    Setting(
        "LSTM(...), GRU(...), RNN(...), NARX(...), or a torch.nn.Module from (rows, depth, d) to (rows, width)",
        check=_encoder,
    ),
]


class Windowed(TypedDict, total=False):
    """The settings of every model over windows of a series."""

    depth: Annotated[int, Setting("rows in a window; [alshedivat2017] takes 10 to 128", "rows", whole), 32]
    mode: Annotated[
        str,
        Setting(
            '"regression" (from past inputs), "autoregression" (from past inputs and targets) or "simulation" (the '
            "same, validated in free runs)",
            check=one_of(*MODES),
        ),
        "autoregression",
    ]
    horizon: Annotated[
        int,
        Setting(
            "a window that ends at row i predicts the target of row i + horizon; 0 is allowed in regression", "rows"
        ),
        1,
    ]
    padding: Annotated[
        bool,
        Setting("a window may begin before its sequence, with zeros in standard units; False: whole windows only"),
        False,
    ]
    training: Annotated[Training | None, Setting("how to train; None: Training()", check=_training)]
    standardize: Annotated[
        bool, Setting("scale inputs and targets to mean 0 and standard deviation 1 of the training part"), True
    ]
    precision: Annotated[
        str,
        Setting(
            '"single" or "double", of the network; the process is always in double', check=one_of("single", "double")
        ),
        "single",
    ]
    device: Annotated[
        str, Setting('"auto" (a GPU if there is one), "cpu" or "cuda"', check=one_of("auto", "cpu", "cuda")), "auto"
    ]
    seed: Annotated[Seed, Setting("of the weights, the mini-batches and the dropout"), 0]


Run = Callable[[Learner, int], None]  # trains a learner for so many epochs at most


class DeepModel(Configured, abc.ABC):
    """A network over windows of a series. One model belongs to one thread at a time."""

    history: list[Epoch]

    _units: Scaling | None = None
    _network: nn.Module
    _head: Head
    _last: FloatArray  # the last window that was fitted
    _width: int
    _outputs: int = 1
    _scalar: bool = True

    def __init__(self, encoder: EncoderSetting, **settings: Unpack[Windowed]) -> None:
        assert settings["training"] is not None  # its check has made one
        self._encoder, self._training = encoder, settings["training"]
        self._mode, self._seed, self._standardize = settings["mode"], settings["seed"], bool(settings["standardize"])
        self._task = task_of(self._mode, settings["depth"], settings["horizon"], settings["padding"])
        self._type = torch.float32 if settings["precision"] == "single" else torch.float64
        self._device = found_device(settings["device"])
        self.history = []

    @abc.abstractmethod
    def _train(self, windows: Windows, run: Run) -> Head:
        """Train the network, which has random or given weights; return what is on top of it."""

    def _settle(self, windows: Windows) -> None:
        """After training: learn all windows, those of the validation included, with the weights as they are."""
        self._head.condition(embed(self._network, windows), windows.targets)

    def fit(
        self,
        U: Any,
        Y: Any,
        starts: Any = None,
        validation: int | None = None,
        pretrained: DeepModel | None = None,
        on_epoch: Callable[[Epoch], Any] | None = None,
    ) -> Self:
        """Train on a series, in place of any before.

        Args:
            U: (n, d) inputs in order of time.
            Y: (n,) or (n, p) targets of the same rows; NaN where missing.
            starts: rows at which a new sequence begins, the first one 0; no window reaches across. None: one sequence.
            validation: the row from which on targets are kept for validation; None: the last part, as training says.
            pretrained: a trained model with the same encoder, whose weights to start from; None: random ones.
            on_epoch: called with an Epoch after every epoch.
        """
        U, Y, began, scalar = checked(U, Y, starts)
        units, series, learned, kept = self._divided(U, Y, began, validation)
        validate = partial(self._validation_rmse, series=series, kept=kept) if kept.size else None
        fitted = copy.copy(self)  # a call that raises leaves the model as it was
        fitted.history = []

        def run(learner: Learner, epochs: int) -> None:
            for epoch in train(learner, epochs, self._training, validate):
                fitted.history.append(epoch)
                if on_epoch is not None:
                    on_epoch(epoch)

        with self._torch():
            torch.manual_seed(self._seed)
            fitted._network = self._built(series.rows.shape[1], pretrained)
            fitted._head = fitted._train(self._windows(series, learned), run)
            fitted._settle(self._windows(series, np.concatenate([learned, kept])))
        fitted._units, fitted._scalar, fitted._outputs, fitted._width = units, scalar, Y.shape[1], U.shape[1]
        fitted._last = np.nan_to_num(padded(series.rows[began[-1] :][-self._task.depth :], self._task.depth))
        self.__dict__ = fitted.__dict__
        return self

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
        rows = self._task.predictable(series)
        windows = self._windows(series, rows)
        count = whole("samples", samples, at_least=0)
        means, variances = np.empty((2, max(count, 1), len(rows), self._outputs))
        with self._torch():
            torch.manual_seed(whole("seed", seed, at_least=0))
            for mean, variance in zip(means, variances, strict=True):
                H = embed(self._network, windows, dropout=count > 0)
                for i in range(0, len(rows), CHUNK):
                    part = slice(i, i + CHUNK)
                    mean[part], variance[part] = (found.cpu() for found in self._head.predict(H[part]))
        if count:
            variances = np.nan_to_num(variances, nan=0.0)
        return self._in_units(len(series.rows), rows, means, variances)

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
        rng = np.random.default_rng(whole("seed", seed, at_least=0))
        with self._torch():
            found = self._free_run(self._network, self._head, series, start, stop, count, rng if count > 1 else None)
        return self._in_units(n, np.arange(start, stop), *found)

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
        return self._task.rows(U, Y), targets[:, 0] if scalar else targets

    def embed(self, U: Any, Y: Any = None, starts: Any = None) -> FloatArray:
        """Return the embedding of every row's past, (n, width); NaN where no whole window comes before."""
        series = self._seen(U, Y, starts)
        rows = self._task.predictable(series)
        with self._torch():
            H = embed(self._network, self._windows(series, rows))
        result = np.full((len(series.rows), H.shape[1]), np.nan)
        result[rows] = H.double().cpu().numpy()
        return result

    def _divided(
        self, U: FloatArray, Y: FloatArray, began: NDArray[np.int64], validation: int | None
    ) -> tuple[Scaling, Recording, NDArray[np.int64], NDArray[np.int64]]:
        """The units, the series in them, and the rows whose targets are learned and kept for validation."""
        d, p = U.shape[1], Y.shape[1]
        units = Scaling(np.zeros(d), np.ones(d), np.zeros(p), np.ones(p))
        rows = self._task.predictable(self._task.series(U, Y, began, units))
        rows = rows[~np.isnan(Y[rows]).any(axis=1)]
        if validation is None:
            learned = len(rows) - int(len(rows) * self._training.validation)
        else:
            learned = int(np.searchsorted(rows, whole("validation", validation)))
        if learned < 2:
            raise ValueError(
                f"training needs at least 2 rows that a whole window of {self._task.depth} rows precedes; got "
                f"{learned} of {len(U)}. Use a longer series or a smaller depth."
            )
        if self._standardize:
            known = rows[learned - 1] + 1  # what comes later counts for validation alone
            units = units_of(U[:known], Y[:known])
        return units, self._task.series(U, Y, began, units), rows[:learned], rows[learned:]

    def _checked_units(self) -> Scaling:
        """The units, which a model has once it was fitted."""
        if self._units is None:
            raise ValueError(f"this {type(self).__name__} has learned nothing yet; call fit(U, Y) first")
        return self._units

    def _seen(self, U: Any, Y: Any, starts: Any) -> Recording:
        """A series to predict, in standard units."""
        units = self._checked_units()
        if Y is None:
            if self._task.feeds_back:
                raise ValueError(f'mode="{self._mode}" predicts from past targets: give Y as well')
            Y = np.full((len(U), self._outputs), np.nan)
        U, Y, began, _ = checked(U, Y, starts, self._width, self._outputs)
        return self._task.series(U, Y, began, units)

    def _windows(self, series: Recording, rows: NDArray[np.int64]) -> Windows:
        padded = np.vstack([series.rows, np.zeros((1, series.rows.shape[1]))])
        return Windows(
            torch.as_tensor(padded, dtype=self._type, device=self._device),
            torch.as_tensor(rows - self._task.horizon, device=self._device),
            torch.as_tensor(series.began[rows], device=self._device),
            torch.as_tensor(series.targets[rows], device=self._device),
            self._task.depth,
        )

    def _in_units(self, n: int, rows: NDArray[np.int64], means: FloatArray, variances: FloatArray) -> Prediction:
        """The prediction of n rows, given means and variances (count, rows, p) of some of them."""
        _, _, shift, scale = self._checked_units()
        predicted = np.full((3, n, self._outputs), np.nan)
        # The law of total variance.
        predicted[:2, rows] = means.mean(0), variances.mean(0) + means.var(0)
        predicted[2, rows] = self._head.noise
        predicted = np.stack([shift + scale * predicted[0], scale**2 * predicted[1], scale**2 * predicted[2]])
        return Prediction(*(predicted[..., 0] if self._scalar else predicted))

    def _validation_rmse(self, learner: Learner, series: Recording, kept: NDArray[np.int64]) -> float:
        head = learner.ready()
        if self._mode != "simulation":
            mean, _ = head.predict(embed(learner.encoder, self._windows(series, kept)))
            return rmse(series.targets[kept], mean.cpu().numpy())
        breaks = (np.diff(kept) != 1) | (np.diff(series.began[kept]) != 0)
        errors = []
        for run in np.split(kept, np.flatnonzero(breaks) + 1):
            start, stop = int(run[0]), int(run[-1]) + 1
            means, _ = self._free_run(learner.encoder, head, series, start, stop)
            errors.append(means[0] - series.targets[run])
        return rmse(np.concatenate(errors), 0.0)

    def _free_run(
        self,
        network: nn.Module,
        head: Head,
        series: Recording,
        start: int,
        stop: int,
        count: int = 1,
        rng: np.random.Generator | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Means and variances (count, rows, p) where past targets from start on are those predicted before."""
        depth, p = self._task.depth, series.targets.shape[1]
        first = start - self._task.horizon - depth + 1
        known = padded(series.rows[max(first, series.began[start]) : stop], stop - first)
        rows = torch.as_tensor(known, dtype=self._type, device=self._device).expand(count, -1, -1).clone()
        means, variances = np.empty((2, count, stop - start, p))
        network.eval()
        for t in range(stop - start):
            with torch.no_grad():
                mean, variance = (part.cpu().numpy() for part in head.predict(network(rows[:, t : t + depth])))
            means[:, t], variances[:, t] = mean, variance
            if rng is not None:  # what comes back is an observation: function and noise
                mean = mean + np.sqrt(np.nan_to_num(variance)) * rng.standard_normal(mean.shape)
                mean = mean + np.sqrt(head.noise) * rng.standard_normal(mean.shape)
            if self._task.feeds_back:
                rows[:, t + depth - 1 + self._task.horizon, -p:] = torch.as_tensor(mean).to(rows)
        return means, variances

    def _built(self, d: int, pretrained: DeepModel | None) -> nn.Module:
        """A network of this model's encoder, with random weights (those of a given module as they are), or trained."""
        if isinstance(self._encoder, Encoder):
            network = self._encoder.build(d, self._task.depth)
        else:
            network = copy.deepcopy(self._encoder)
        network = network.to(device=self._device, dtype=self._type)
        if pretrained is None:
            return network
        if pretrained._units is None:
            kind = type(pretrained).__name__
            raise ValueError(f"pretrained must be a model that has been fitted; this {kind} has not")
        try:
            network.load_state_dict(pretrained._network.state_dict())
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


def padded(rows: FloatArray, count: int) -> FloatArray:
    """So many rows: zeros in front."""
    return np.vstack([np.zeros((count - len(rows), rows.shape[1])), rows])


def found_device(device: str) -> torch.device:
    """The device by name; "auto" is a GPU if there is one."""
    there = torch.cuda.is_available()
    if device == "cuda" and not there:
        raise ValueError('device="cuda" needs a GPU that PyTorch can use, and there is none; use device="auto"')
    return torch.device("cuda" if there and device != "cpu" else "cpu")
