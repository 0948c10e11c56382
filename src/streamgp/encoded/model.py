"""Encoded: a stream model whose memory is a trained encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamgp.contract import inputs
from streamgp.contract.atomic import undone_on_error
from streamgp.contract.checks import check
from streamgp.contract.freerun import Step, Trajectories
from streamgp.contract.model import Change, Health, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import require
from streamgp.encoded.encoder import WindowEncoder
from streamgp.settings import FloatArray

MOST = 1e6  # standard units: further away an encoder, whose units are saturated, can tell nothing more


class Encoded(StreamModel):
    """A stream model that sees the embeddings of the last rows, as a trained network makes them.

    The last ``encoder.depth`` rows, scaled, go through the encoder, and the embedding is the input of the model within,
    which goes on learning; the encoder stays. Before as many rows have come the missing ones count as 0 in standard
    units. ``GPLSTM(...).fit(...).online()`` makes one whose model within starts from the trained process.

    Args:
        encoder: TrainedEncoder(...).
        model: the stream model within; or a list of them, one for each output.
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
    _within: list[StreamModel]

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
        within: list[Any] = list(model) if isinstance(model, list | tuple) else [model]
        for one in within:
            if not isinstance(one, StreamModel):
                raise TypeError(f"model must be a stream model such as KRLST(), or a list of them; got {one!r}")
        if not within:
            raise ValueError("model is an empty list; give one stream model, or one for each output")
        self._encoder = encoder
        self._several = isinstance(model, list | tuple)
        # Whoever holds the models that were handed over may change their settings; and these learn here from nothing.
        self._pristine = [one.clone() for one in within]
        self._settings["model"] = self._given()
        self._within = [one.clone() for one in self._pristine]
        self._input_shift = _vector("input_shift", input_shift)
        self._input_scale = _vector("input_scale", input_scale, positive=True)
        self._target_shift = _vector("target_shift", target_shift)
        self._target_scale = _vector("target_scale", target_scale, positive=True)
        self.has_variance = all(one.has_variance for one in within)
        self._shared = not self._several and within[0]._shared

    def _given(self) -> Any:
        return list(self._pristine) if self._several else self._pristine[0]

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        fresh = [one.clone() for one in self._pristine]
        return super().get_params(deep) | {"model": fresh if self._several else fresh[0]}

    # The state.

    def _begin(self, X: FloatArray, Y: FloatArray, scalar: bool, certain: bool, *, many: bool) -> None:
        p = len(self._pristine)
        if self._several and not certain:
            Y = np.full((len(Y), p), np.nan)
        elif self._several and Y.shape[1] != p:
            raise ValueError(f"y must have {p} numbers, one for each of the models within; got {Y.shape[1]}")
        super()._begin(X, Y, scalar, certain, many=many)

    def _start(self, d: int, p: int) -> None:
        encoder = self._encoder
        if d != encoder.inputs:
            raise ValueError(f"x must have {encoder.inputs} columns, as the encoder was trained on; got {d}")
        shift = _sized("input_shift", self._input_shift, d, 0.0), _sized("target_shift", self._target_shift, p, 0.0)
        scale = _sized("input_scale", self._input_scale, d, 1.0), _sized("target_scale", self._target_scale, p, 1.0)
        window, rows = np.zeros((encoder.depth, d)), np.zeros(1, dtype=np.int64)
        within = [one.clone() for one in self._pristine] if self._d is None else self._within
        within = within[:p] if self._several else within  # a prior is asked for before p is known: that of one output
        for one in within:
            outputs = 1 if self._several else p
            one._start(encoder.width, outputs)
            one._d, one._p, one._scalar, one._certain = encoder.width, outputs, False, True
        if self._d is not None:  # rows have come, but no target
            window[:], rows[:] = self._window, self._rows
        self._shifts, self._scales = shift, scale
        self._window, self._rows, self._last_y, self._within = window, rows, np.zeros(p), within

    def _advance(self, X: FloatArray, Y: FloatArray | None, report: bool) -> Prediction | None:
        inputs.refuse(*check(X, X[:0] if Y is None else Y, self._shared), many=len(X) > 1)
        depth = self._encoder.depth
        rows = np.vstack([self._window, self._standard(X)])
        E = np.stack([self._encoder.embed(rows[t + 1 : t + 1 + depth]) for t in range(len(X))])
        targets = None if Y is None else (Y - self._shifts[1]) / self._scales[1]
        largest = min(one._largest for one in self._within)  # refused by one, a row must not be learnt by another
        inputs.refuse(*check(E, E[:0] if targets is None else targets, self._shared, largest), many=len(X) > 1)
        with undone_on_error(self, len(X)):
            predictions = [
                one._advance(E, None if targets is None else np.ascontiguousarray(targets[:, part]), report)
                for one, part in self._parts()
            ]
        self._window[:] = rows[len(rows) - depth :]
        self._rows[0] += len(X)
        if Y is not None:
            for y in Y:
                self._last_y[:] = np.where(np.isnan(y), self._last_y, y)
        return self._in_units(predictions) if report else None

    def _predict(self, X: FloatArray) -> Prediction:
        inputs.refuse(*check(X, X[:0], False), many=len(X) > 1)
        window = np.vstack([self._window[1:], np.empty((1, X.shape[1]))])
        E = np.empty((len(X), self._encoder.width))
        for t, row in enumerate(self._standard(X)):
            window[-1] = row
            E[t] = self._encoder.embed(window)
        return self._in_units([one._predict(E) for one in self._within])

    def _trajectories(self, count: int, steps: int) -> Trajectories:
        return _Embedded(self, count, steps)

    def _parts(self) -> list[tuple[StreamModel, slice]]:
        """The models within and the outputs of each."""
        if not self._several:
            return [(self._within[0], slice(None))]
        return [(one, slice(j, j + 1)) for j, one in enumerate(self._within)]

    def _standard(self, X: FloatArray) -> FloatArray:
        result: FloatArray = np.clip((X - self._shifts[0]) / self._scales[0], -MOST, MOST)
        return result

    def _in_units(self, predictions: list[Any]) -> Prediction:
        """A prediction in the units of the targets."""
        mean, variance, noise = (
            np.hstack([getattr(one, name) for one in predictions]) for name in ("mean", "variance", "noise")
        )
        shift, scale = self._shifts[1], self._scales[1]
        return Prediction(shift + scale * mean, scale**2 * variance, scale**2 * noise)

    def _arrays(self) -> dict[str, np.ndarray]:
        named: dict[str, np.ndarray] = {"window": self._window, "last_target": self._last_y, "rows": self._rows}
        for k, one in enumerate(self._within):
            named |= {f"inner.{k}.{name}": array for name, array in one._arrays().items()}
        return named

    def _check_restored(self) -> None:
        require("window", self._window, at_least=-MOST, at_most=MOST)
        require("last_target", self._last_y)
        require("rows", self._rows, at_least=0)
        for one in self._within:
            one._check_restored()

    def reset_memory(self) -> None:
        if self._d is not None:
            self._window[...] = 0.0
            self._last_y[...] = 0.0
            for one in self._within:
                one.reset_memory()

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._shifts[0] + self._scales[0] * self._window[-1], self._last_y.copy()

    def _recall(self, y: FloatArray) -> None:
        self._last_y[:] = y

    def forget(self, factor: float) -> None:
        for one in self._within:
            one.forget(factor)

    forget.__doc__ = StreamModel.forget.__doc__

    @property
    def _cannot_forget_because(self) -> str:
        return next((why for one in self._within if (why := one._cannot_forget_because)), "")

    # What can be read.

    @property
    def inner(self) -> StreamModel | list[StreamModel]:
        """Copies of the models within, to read what only models of their kind have; in standard units."""
        copies = [one.copy() for one in self._within]
        return copies if self._several else copies[0]

    @property
    def rows_seen(self) -> int:
        return 0 if self._d is None else int(self._rows[0])

    @property
    def size(self) -> int:
        return sum(one.size for one in self._within)

    @property
    def basis(self) -> FloatArray:
        """The basis points of all models within, as embeddings."""
        return np.vstack([one.basis for one in self._within])

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        """The present hyperparameters within, in standard units; those of output j are called name_j."""
        if not self._several:
            return self._within[0].hyperparameters
        return {
            f"{name}_{j}": value for j, one in enumerate(self._within) for name, value in one.hyperparameters.items()
        }

    @property
    def health(self) -> Health:
        return Health(*(sum(counts) for counts in zip(*(one.health for one in self._within), strict=True)))

    @property
    def last_change(self) -> Change:
        """Of the first output, where there are several models within."""
        return self._within[0].last_change


class _Embedded(Trajectories):
    """Trajectories of the models within, each with a window of its own."""

    def __init__(self, model: Encoded, count: int, steps: int) -> None:
        self._model = model
        self._windows = np.repeat(model._window[None], count, axis=0)
        self._parts = [(outputs, one._trajectories(count, steps)) for one, outputs in model._parts()]

    def predict(self, X: FloatArray) -> Step:
        self._windows = np.concatenate([self._windows[:, 1:], self._model._standard(X)[:, None]], axis=1)
        E = np.stack([self._model._encoder.embed(window) for window in self._windows])
        steps = [one.predict(E) for _, one in self._parts]
        within = Step(*(np.hstack(parts) for parts in zip(*steps, strict=True)))
        shift, scale = self._model._shifts[1], self._model._scales[1]
        return Step(
            shift + scale * within.mean,
            scale**2 * within.variance,
            scale**2 * within.noise,
            shift + scale * within.free_mean,
            scale**2 * within.free_variance,
        )

    def record(self, values: FloatArray, targets: FloatArray) -> None:
        shift, scale = self._model._shifts[1], self._model._scales[1]
        for outputs, one in self._parts:
            own = tuple(((given - shift) / scale)[:, outputs] for given in (values, targets))
            one.record(*own)


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
