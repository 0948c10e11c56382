"""Encoded: a stream model whose memory is a trained encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamgp.contract import passing
from streamgp.contract.freerun import Trajectories
from streamgp.contract.lanes import ADVANCE, ISSUE, LEARN, TAKE, TELL
from streamgp.contract.model import Ability, StreamModel
from streamgp.contract.snapshot import require
from streamgp.encoded.encoder import WindowEncoder
from streamgp.settings import FloatArray
from streamgp.wrappers.mapped import Affine, Mapped, MappedAnalysis, MappedTrajectories
from streamgp.wrappers.outputs import EachOutput
from streamgp.wrappers.units import SHARED_UNITS, Scaling

MOST = 1e6  # standard units: further away an encoder, whose units are saturated, can tell nothing more


class Encoded(Mapped):
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
        if self._several:
            self._outputs, self._models = len(self._models), [EachOutput(self._models)]
        self._largest = np.inf  # in standard units nothing is large
        self._input_shift = _vector("input_shift", input_shift)
        self._input_scale = _vector("input_scale", input_scale, positive=True)
        self._target_shift = _vector("target_shift", target_shift)
        self._target_scale = _vector("target_scale", target_scale, positive=True)

    def _each(self) -> list[StreamModel]:
        """The model within, or those of each output."""
        return self._within._models if isinstance(self._within, EachOutput) else self._models

    def _children(self) -> dict[str, StreamModel]:
        return {f"inner.{j}": model for j, model in enumerate(self._each())}

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
        super()._start(encoder.width, p)
        self._last_y = np.zeros(p)
        if self._d is None:
            self._window, self._rows = np.zeros((encoder.depth, d)), np.zeros(1, dtype=np.int64)

    def _inputs(self, X: FloatArray) -> FloatArray:
        return self._embedded([np.vstack([self._window[1:], row]) for row in self._standard(X)])

    @property
    def _kept_width(self) -> int:  # type: ignore[override]
        return self._encoder.width + super()._kept_width

    def _pass(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: FloatArray | None,
        conditions: FloatArray | None,
        kept: FloatArray | None,
    ) -> FloatArray:
        rows, kinds = ops.T
        width, depth = self._encoder.width, self._encoder.depth
        advances, waits = kinds & ADVANCE != 0, kinds & (TAKE | TELL) == ADVANCE
        past, before = np.vstack([self._window, self._standard(X[rows[advances]])]), np.cumsum(advances) - advances
        seen, standard, E = kinds & ISSUE != 0, self._standard(X), np.zeros((len(X), width))
        windows = [
            np.vstack([past[t + 1 : t + depth], standard[row]]) for row, t in zip(rows[seen], before[seen], strict=True)
        ]
        E[rows[seen]] = self._embedded(windows)
        if kept is not None:
            kept[rows[waits], :width] = E[rows[waits]]
            late = rows[kinds & TAKE == LEARN]
            E[late] = kept[late, :width]
        targets = None if Y is None else self._targets(X, Y)
        passing.refuse_unfit(self._within, E, targets)  # before one of several models has learned a row
        given = conditions if conditions is None else self._conditions_within(X, conditions)
        columns = self._within._pass(ops, E, targets, given, None if kept is None else kept[:, width:])
        self._back(X, columns)
        self._window[:], self._rows[0] = past[-depth:], self._rows[0] + np.count_nonzero(advances)
        for y in () if Y is None else Y[rows[kinds & (LEARN | TELL) != 0]]:
            self._last_y[:] = np.where(np.isnan(y), self._last_y, y)
        return columns

    def _embedded(self, windows: Sequence[FloatArray]) -> FloatArray:
        return np.array([self._encoder.embed(window) for window in windows]).reshape(-1, self._encoder.width)

    def _affine(self, X: FloatArray) -> Affine:
        return Affine(self._scaling.target_shift, self._scaling.target_scale)

    def _cannot(self, what: Ability, p: int = 1) -> str:
        return SHARED_UNITS if what == "weigh" and self._shared and p > 1 else super()._cannot(what, p)

    def _analysis(self) -> MappedAnalysis:
        return _EmbeddedAnalysis(self)

    def _standard(self, X: FloatArray) -> FloatArray:
        result: FloatArray = np.clip((X - self._scaling.input_shift) / self._scaling.input_scale, -MOST, MOST)
        return result

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"window": self._window, "last_target": self._last_y, "rows": self._rows}

    def _check_restored(self) -> None:
        require("window", self._window, at_least=-MOST, at_most=MOST)
        require("last_target", self._last_y)
        require("rows", self._rows, at_least=0)

    def reset_memory(self) -> None:
        if self._d is not None:
            self._window[...] = 0.0
            self._last_y[...] = 0.0
        super().reset_memory()

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._scaling.input_shift + self._scaling.input_scale * self._window[-1], self._last_y.copy()

    @property
    def _units(self) -> int:  # type: ignore[override]
        return self._encoder.width

    @property
    def inner(self) -> Any:
        """Copies of the models within, one or a list, to read what only their kind has; in standard units."""
        copies = [model.copy() for model in self._each()]
        return copies if self._several else copies[0]

    @property
    def rows_seen(self) -> int:
        return 0 if self._d is None else int(self._rows[0])

    relevance = StreamModel.relevance  # embeddings are not inputs


class _EmbeddedAnalysis(MappedAnalysis):
    def trajectories(self, count: int, steps: int) -> Trajectories:
        return _EmbeddedTrajectories(self.model, self.within.trajectories(count, steps), count)


class _EmbeddedTrajectories(MappedTrajectories):
    """Trajectories in the units of the targets, each with a window of its own."""

    def __init__(self, model: Encoded, within: Trajectories, count: int) -> None:
        super().__init__(model, within)
        self._encoded, self._windows = model, np.repeat(model._window[None], count, axis=0)

    def _inputs(self, X: FloatArray) -> FloatArray:
        self._windows = np.concatenate([self._windows[:, 1:], self._encoded._standard(X)[:, None]], axis=1)
        return self._encoded._embedded(list(self._windows))


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
