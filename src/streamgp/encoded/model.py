"""Encoded: a stream model whose memory is a trained encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamgp.contract import inputs
from streamgp.contract.checks import check
from streamgp.contract.conditions import NOISE, in_other_units
from streamgp.contract.freerun import Mapped, Step, Trajectories
from streamgp.contract.joint import JointMixture, JointPrediction
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import require
from streamgp.encoded.encoder import WindowEncoder
from streamgp.settings import FloatArray
from streamgp.wrappers.standardize import SHARED_UNITS, Scaling
from streamgp.wrappers.wrapper import Composite

MOST = 1e6  # standard units: further away an encoder, whose units are saturated, can tell nothing more


class Encoded(Composite):
    """A stream model that sees the embeddings of the last rows, as a trained network makes them.

    The last ``encoder.depth`` rows, scaled, go through the encoder, and the embedding is the input of the model within,
    which goes on learning; the encoder stays. Before as many rows have come the missing ones count as 0 in standard
    units. ``GPLSTM(...).fit(...).online()`` makes one whose model within starts from the trained process.

    Args:
        encoder: TrainedEncoder(...).
        model: the stream model within, which has learned nothing; or a list of them, one for each output.
        input_shift: subtracted from the inputs, one number for each column; None: 0.
        input_scale: what the difference is divided by; None: 1.
        target_shift: subtracted from the targets, one number for each output; None: 0.
        target_scale: what the difference is divided by; None: 1.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> weights = np.random.default_rng(0).normal(size=4 * 8 * (1 + 8 + 2))
        >>> encoder = sg.TrainedEncoder("lstm", inputs=1, depth=5, units=8, weights=weights)
        >>> model = sg.Encoded(encoder, model=sg.SOGP(sg.SquaredExponential(0.5), noise=1e-3))
        >>> x = np.sin(0.3 * np.arange(300))
        >>> p = model.track(x[:-1], x[1:])
        >>> bool(np.abs(p.mean - x[1:])[200:].max() < 0.1)
        True
    """

    _window: FloatArray  # (depth, d) in standard units, the newest row last
    _last_y: FloatArray  # (p,) in the units of the targets
    _rows: np.ndarray
    _scaling: Scaling

    def __init__(
        self,
        encoder: WindowEncoder,
        *,
        model: StreamModel | Sequence[StreamModel],
        input_shift: Any = None,
        input_scale: Any = None,
        target_shift: Any = None,
        target_scale: Any = None,
    ) -> None:
        if not isinstance(encoder, WindowEncoder):
            raise TypeError(f"encoder must be a trained encoder such as TrainedEncoder(...); got {encoder!r}")
        self._hold(model, "a stream model such as KRLST(), or a list of them")
        if self._observes != "numbers" and (
            len(self._models) > 1 or target_shift is not None or target_scale is not None
        ):
            raise ValueError(
                f"{self._observes} need one model within, and neither target_shift nor target_scale: they have no unit"
            )
        self._encoder = encoder
        self._several = isinstance(model, list | tuple)
        self._shared = not self._several and self._models[0]._shared
        self._largest_within, self._largest = self._largest, np.inf  # in standard units nothing is large
        self._input_shift = _vector("input_shift", input_shift)
        self._input_scale = _vector("input_scale", input_scale, positive=True)
        self._target_shift = _vector("target_shift", target_shift)
        self._target_scale = _vector("target_scale", target_scale, positive=True)

    # The state.

    def _begin(self, X: FloatArray, Y: FloatArray | None, scalar: bool, certain: bool, *, many: bool) -> None:
        p = len(self._models)
        if self._several and not certain:
            Y = np.full((len(X), p), np.nan)
        elif self._several and Y is not None and Y.shape[1] != p:
            raise ValueError(f"y must have {p} numbers, one for each of the models within; got {Y.shape[1]}")
        super()._begin(X, Y, scalar, certain, many=many)

    def _children(self) -> dict[str, StreamModel]:
        return {f"inner.{j}": model for j, model in enumerate(self._models)}

    def _start(self, d: int, p: int) -> None:
        encoder = self._encoder
        if d != encoder.inputs:
            raise ValueError(f"x must have {encoder.inputs} columns, as the encoder was trained on; got {d}")
        self._scaling = Scaling(
            _sized("input_shift", self._input_shift, d, 0.0),
            _sized("input_scale", self._input_scale, d, 1.0),
            _sized("target_shift", self._target_shift, p, 0.0),
            _sized("target_scale", self._target_scale, p, 1.0),
        )
        if self._several:  # before p is known there is one output
            self._models = [*self._models, *(model.clone() for model in self._settings["model"][len(self._models) :])][
                :p
            ]
        super()._start(encoder.width, 1 if self._several else p)
        self._last_y = np.zeros(p)
        if self._d is None:
            self._window, self._rows = np.zeros((encoder.depth, d)), np.zeros(1, dtype=np.int64)

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        depth = self._encoder.depth
        rows = np.vstack([self._window, self._standard(X)])
        E = np.stack([self._encoder.embed(rows[t + 1 : t + 1 + depth]) for t in range(len(X))])
        targets = None if Y is None else self._standard_targets(Y)
        # Refused by one of the models within, a row must not be learned by another.
        status, at = check(E, E[:0] if targets is None else targets, self._shared, self._largest_within)
        inputs.refuse(status, at, many=len(X) > 1)
        converted = in_other_units(conditions, self._scaling.target_scale, self._shared)
        predictions = [
            model._advance(
                E,
                None if targets is None else np.ascontiguousarray(targets[:, own]),
                report,
                None if converted is None else np.hstack([converted[:, :NOISE], converted[:, NOISE:][:, own]]),
            )
            for own, model in self._by_outputs()
        ]
        self._window[:] = rows[len(rows) - depth :]
        self._rows[0] += len(X)
        if Y is not None:
            for y in Y:
                self._last_y[:] = np.where(np.isnan(y), self._last_y, y)
        return self._in_units(predictions) if report else None

    def _refuses_noise(self, p: int) -> str:
        return SHARED_UNITS if self._shared and p > 1 else super()._refuses_noise(p)

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        self._refuse_unfit(X)
        E = self._embedded(X)
        return self._in_units([model._predict(E, conditions) for model in self._models])

    def _embedded(self, X: FloatArray) -> FloatArray:
        """The embeddings of rows that would each come next."""
        window = np.vstack([self._window[1:], np.empty((1, X.shape[1]))])
        E = np.empty((len(X), self._encoder.width))
        for t, row in enumerate(self._standard(X)):
            window[-1] = row
            E[t] = self._encoder.embed(window)
        return E

    def _trajectories(self, count: int, steps: int) -> Trajectories:
        return _Embedded(self, count, steps)

    def _joint(self, X: FloatArray, conditions: FloatArray | None = None) -> JointPrediction:
        E = self._embedded(X)
        parts = [model._joint(E, conditions) for model in self._models]
        joint = parts[0]
        if self._several:  # each output is that of its own model: a mixture in which that has all the weight
            p = len(parts)
            parts = [part.mapped(np.zeros(p), np.ones(p), part.noise) for part in parts]
            joint = JointMixture.of(parts, np.eye(p))
        shift, scale = self._scaling.target_shift, self._scaling.target_scale
        return joint.mapped(shift, scale, scale**2 * joint.noise)

    def _by_outputs(self) -> list[tuple[slice, StreamModel]]:
        """The models within, each with its outputs."""
        outputs = [slice(j, j + 1) for j in range(len(self._models))] if self._several else [slice(None)]
        return list(zip(outputs, self._models, strict=True))

    def _standard(self, X: FloatArray) -> FloatArray:
        result: FloatArray = np.clip((X - self._scaling.input_shift) / self._scaling.input_scale, -MOST, MOST)
        return result

    def _standard_targets(self, Y: FloatArray) -> FloatArray:
        return (Y - self._scaling.target_shift) / self._scaling.target_scale

    def _in_units(self, predictions: list[Any]) -> Prediction:
        """A prediction in the units of the targets."""
        kind = type(predictions[0]) if len({type(p) for p in predictions}) == 1 else Prediction
        together = kind._each(predictions[0], lambda *parts: np.hstack(parts), *predictions[1:])
        return together._moved(self._scaling.target_shift, self._scaling.target_scale)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"window": self._window, "last_target": self._last_y, "rows": self._rows}

    def _check_restored(self) -> None:
        require("window", self._window, at_least=-MOST, at_most=MOST)
        require("last_target", self._last_y)
        require("rows", self._rows, at_least=0)
        super()._check_restored()

    def reset_memory(self) -> None:
        if self._d is not None:
            self._window[...] = 0.0
            self._last_y[...] = 0.0
        super().reset_memory()

    def _memory_arrays(self) -> list[FloatArray]:
        return [self._window, self._last_y, *super()._memory_arrays()]

    def _remember(self, X: FloatArray) -> None:
        self._window[:] = np.vstack([self._window[1:], self._standard(X)])
        super()._remember(self._encoder.embed(self._window)[None])

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._scaling.input_shift + self._scaling.input_scale * self._window[-1], self._last_y.copy()

    def _recall(self, y: FloatArray) -> None:
        self._last_y[:] = y

    def _units(self) -> int:
        return self._encoder.width

    # What can be read.

    @property
    def inner(self) -> StreamModel | list[StreamModel]:
        """Copies of the models within, to read what only models of their kind have; in standard units."""
        copies = [model.copy() for model in self._models]
        return copies if self._several else copies[0]

    @property
    def rows_seen(self) -> int:
        return 0 if self._d is None else int(self._rows[0])

    @property
    def size(self) -> int:
        return sum(model.size for model in self._models)

    @property
    def basis(self) -> FloatArray:
        """The basis points of all models within, as embeddings."""
        return np.vstack([model.basis for model in self._models])

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        """The present hyperparameters within, in standard units; those of output j are called name_j."""
        if not self._several:
            return super().hyperparameters
        return {f"{name}_{j}": v for j, model in enumerate(self._models) for name, v in model.hyperparameters.items()}

    relevance = StreamModel.relevance  # embeddings are not inputs


class _Embedded(Mapped):
    """Trajectories in the units of the targets, each with a window of its own."""

    def __init__(self, model: Encoded, count: int, steps: int) -> None:
        super().__init__(_Outputs(model, count, steps))
        self._model = model
        self._windows = np.repeat(model._window[None], count, axis=0)

    def _map(self, X: FloatArray, step: Step) -> tuple[FloatArray, FloatArray, FloatArray]:
        scale = self._model._scaling.target_scale
        return self._model._scaling.target_shift, scale, scale**2 * step.noise

    def _inputs(self, X: FloatArray) -> FloatArray:
        self._windows = np.concatenate([self._windows[:, 1:], self._model._standard(X)[:, None]], axis=1)
        return np.stack([self._model._encoder.embed(window) for window in self._windows])

    def _targets(self, Y: FloatArray) -> FloatArray:
        return self._model._standard_targets(Y)


class _Outputs(Trajectories):
    """Trajectories of the models within, each with its outputs."""

    def __init__(self, model: Encoded, count: int, steps: int) -> None:
        self._parts = [(own, one._trajectories(count, steps)) for own, one in model._by_outputs()]

    def predict(self, X: FloatArray) -> Step:
        steps = [futures.predict(X) for _, futures in self._parts]
        return Step(*(np.hstack(parts) for parts in zip(*steps, strict=True)))

    def record(self, values: FloatArray, targets: FloatArray) -> None:
        for own, futures in self._parts:
            futures.record(values[:, own], targets[:, own])


def _vector(name: str, value: Any, *, positive: bool = False) -> FloatArray | None:
    if value is None:
        return None
    result = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if result.ndim != 1 or not np.all(np.isfinite(result)) or (positive and not np.all(result > 0)):
        raise ValueError(
            f"{name} must be {'positive' if positive else 'finite'} numbers, one for each column; got {value!r}"
        )
    return result


def _sized(name: str, value: FloatArray | None, size: int, default: float) -> FloatArray:
    if value is None:
        return np.full(size, default)
    if value.size != size:
        raise ValueError(f"{name} has {value.size} numbers, but there are {size} columns; give one for each")
    return value
