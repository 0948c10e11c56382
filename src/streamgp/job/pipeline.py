"""The pipeline: from rows of numbers to calibrated predictions, and the whole of its state in one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.contract import snapshot
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import CalibratedPrediction, Prediction
from streamgp.job import choice
from streamgp.job.candidates import FIRST
from streamgp.job.request import Request
from streamgp.loading import from_bytes
from streamgp.settings import FloatArray, whole
from streamgp.tables.columns import Encoder, Rows, Schema
from streamgp.tables.source import Position, RowsError
from streamgp.tables.writing import PredictedRows
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.committee import Committee
from streamgp.wrappers.driftaware import DriftAware
from streamgp.wrappers.wrapper import Wrapper

MOST_INPUTS = 1000  # of a model: beyond this the first prediction takes seconds
DIVERGED = 1e6  # times the error of the best model of a committee, or the target's standard deviation
MOST_AHEAD = 100_000  # rows whose predictions wait for their targets
DEFAULT_LAGS = 10  # where the target's own past is all there is to predict from
# Columns of the table of predictions that wait for their targets.
MEAN, VARIANCE, NOISE, LOWER, UPPER, RAW_VARIANCE, RAW_NOISE, ISSUED_SIZE = range(8)


@dataclass
class Scores:
    """How the predictions have done, each made before its target was known."""

    rows: int = 0
    squared: float = 0.0
    density: float = 0.0
    inside: int = 0
    width: float = 0.0
    raw_inside: int = 0
    raw_width: float = 0.0
    squared_previous: float = 0.0
    rows_previous: int = 0

    def add(self, lines: PredictedRows, previous: FloatArray) -> None:
        known = np.isfinite(lines.mean) & np.isfinite(lines.observed)
        y = lines.observed[known]
        self.rows += len(y)
        self.squared = _added(self.squared, (lines.mean[known] - y) ** 2)
        self.density = _added(self.density, lines.log_density[known])
        self.inside += int(np.count_nonzero((lines.lower[known] <= y) & (y <= lines.upper[known])))
        self.width = _added(self.width, lines.upper[known] - lines.lower[known])
        self.raw_inside += int(np.count_nonzero((lines.raw_lower[known] <= y) & (y <= lines.raw_upper[known])))
        self.raw_width = _added(self.raw_width, lines.raw_upper[known] - lines.raw_lower[known])
        comparable = known & np.isfinite(previous)
        self.rows_previous += int(np.count_nonzero(comparable))
        self.squared_previous = _added(self.squared_previous, (previous[comparable] - lines.observed[comparable]) ** 2)

    @property
    def rmse(self) -> float:
        return (self.squared / self.rows) ** 0.5 if self.rows else float("nan")

    @property
    def coverage(self) -> float:
        return self.inside / self.rows if self.rows else float("nan")

    def summary(self) -> dict[str, float]:
        """The scores by name; NaN before the first row."""
        n = self.rows or float("nan")
        return {
            "rows": self.rows,
            "rmse": self.rmse,
            "rmse_previous_value": (self.squared_previous / (self.rows_previous or float("nan"))) ** 0.5,
            "mean_log_density": self.density / n,
            "coverage": self.coverage,
            "mean_width": self.width / n,
            "raw_coverage": self.raw_inside / n,
            "raw_mean_width": self.raw_width / n,
        }


class Pipeline:
    """Predicts the target of every row before it learns it.

    Args:
        schema: what the columns are.
        model: the name of a model, or "auto": the best of a small set on the first rows.
        settings: of the model by name, as text or values; also ``level`` of the intervals, ``warmup``, the rows after
            which the model is chosen and its hyperparameters are found (before, a simple one predicts), and ``tune``.
        lags: past values of the target that are inputs; None: 0, or 10 where there is nothing else, or a horizon.
        horizon: rows ahead; 0 predicts the target of a row from its other columns, h the target h rows later from all
            that the row has, its own target included. Nothing is learnt before its target has come.

    Example:
        >>> import numpy as np
        >>> from streamgp.tables.columns import Column, Rows
        >>> t = np.arange(300)
        >>> schema = Schema((Column("y", "number"),), "y", ())
        >>> pipeline = Pipeline(schema, model="KRLST", settings={"warmup": 100}, lags=2, horizon=1)
        >>> lines = pipeline.take(Rows(np.empty((300, 0)), np.sin(0.3 * t), None, list(t + 2), []))
        >>> bool(np.abs(lines.mean - lines.observed)[-50:].max() < 0.1)
        True
    """

    def __init__(
        self,
        schema: Schema,
        model: str = "auto",
        settings: Mapping[str, Any] | None = None,
        lags: int | None = None,
        horizon: int = 0,
    ) -> None:
        self.schema, self.encoder = schema, Encoder(schema)
        self.horizon = whole("horizon", horizon, at_least=0)
        if horizon > MOST_AHEAD:
            raise ValueError(f"horizon must be at most {MOST_AHEAD} rows; got {horizon}")
        self.asked = Request(model, dict(settings or {}), horizon)
        self.level = self.asked.level
        own = len(schema.input_names)
        self.lags = (0 if own and not horizon else DEFAULT_LAGS) if lags is None else whole("lags", lags, at_least=0)
        if own + self.lags > MOST_INPUTS:
            raise ValueError(
                f"a row would have {own + self.lags} inputs ({own} of the columns, {self.lags} lags); at most "
                f"{MOST_INPUTS} are possible. Name those that matter with --inputs, or lower --lags"
            )
        if own + self.lags == 0:
            raise RowsError("there is nothing to predict from: no column but the target; give --lags 10, or --inputs")
        self.rows = 0
        self._unready = 0  # first rows without anything to predict from
        self.scores = Scores()
        self.choice: choice.Choice | None = None
        self.position = Position()
        self.about: dict[str, Any] = {}  # what else is kept in the file
        self._history = np.full(self.lags, np.nan)  # the last targets, gaps filled, newest last
        self._last_y = np.nan
        self._kept = np.empty((0, own + self.lags + 1))  # inputs and target of the first rows
        self._waiting = np.empty((0, own + self.lags + ISSUED_SIZE))  # inputs without their targets, and predictions
        self._issued = np.empty((0, ISSUED_SIZE))  # predictions of the rows to come
        self._previous = np.full(max(self.horizon, 1), np.nan)  # what the previous value says of the next targets
        self.previous = np.empty(0)  # the previous value as a prediction of the rows taken last
        self.model: Calibrated = choice.starter(self.asked, own + self.lags)

    @property
    def input_names(self) -> list[str]:
        """The name of every input of the model."""
        first = 0 if self.horizon else 1
        lagged = [f"{self.schema.target}[-{k}]" if k else self.schema.target for k in range(first, first + self.lags)]
        return self.schema.input_names + lagged

    # Rows.

    def take(self, rows: Rows, ahead: bool = False) -> PredictedRows:
        """Predict rows and learn them, each after the next.

        Args:
            rows: from the encoder, gaps filled.
            ahead: with a horizon, return predictions when they are made, of rows to come, rather than when the row that
                they are of has come.
        """
        n = len(rows.y)
        Phi = self._inputs(rows.X, rows.y)
        ready = int(np.argmax(~np.isnan(Phi).any(axis=1))) if n and not np.isnan(Phi[-1]).any() else n
        self._unready += ready if self._unready == self.rows else 0
        issued = np.full((n, ISSUED_SIZE), np.nan)
        issued[ready:] = self._predict_and_learn(Phi[ready:], rows.y[ready:])
        resolved = issued
        if self.horizon:
            queue = np.concatenate([self._outstanding(), issued])
            resolved, self._issued = queue[:n], queue[n:]
        numbers = np.arange(self.rows + 1, self.rows + n + 1)
        lines = self._lines(resolved, numbers, rows.times, rows.y)
        self.previous = self._previous_values(rows.y)
        self.scores.add(lines, self.previous)
        self.rows += n
        if self.horizon and ahead:
            return self._lines(issued, numbers + self.horizon, None, np.full(n, np.nan))
        return lines

    def outstanding(self) -> PredictedRows:
        """The predictions of rows that have not come yet."""
        issued = self._outstanding() if self.horizon else np.empty((0, ISSUED_SIZE))
        numbers = np.arange(self.rows + 1, self.rows + len(issued) + 1)
        return self._lines(issued, numbers, None, np.full(len(issued), np.nan))

    def _outstanding(self) -> FloatArray:
        """As many predictions as rows lie ahead; none were made before the first row."""
        missing = self.horizon - len(self._issued)
        return np.concatenate([np.full((missing, ISSUED_SIZE), np.nan), self._issued])

    def _inputs(self, X: FloatArray, y: FloatArray) -> FloatArray:
        """The columns' inputs and the lags of the target, newest first; NaN while no target is known."""
        n = len(y)
        filled = np.concatenate([[self._last_y], y])
        known = np.where(np.isnan(filled), 0, np.arange(n + 1))
        filled = filled[np.maximum.accumulate(known)]
        past = np.concatenate([self._history, filled[1:]])
        # With a horizon the row's own target is known when it is predicted from.
        newest = self.lags + (0 if self.horizon else -1)
        lagged = [past[newest - k : newest - k + n] for k in range(self.lags)]
        if n:
            self._last_y = filled[-1]
            self._history = past[len(past) - self.lags :].copy()
        Phi = np.column_stack([X, *lagged]) if lagged else X
        own = X.shape[1]
        for k in range(1, self.lags):  # before the first target the oldest that is known stands for it
            gap = np.isnan(Phi[:, own + k])
            Phi[gap, own + k] = Phi[gap, own + k - 1]
        return np.ascontiguousarray(Phi)

    def _predict_and_learn(self, Phi: FloatArray, y: FloatArray) -> FloatArray:
        """The table of predictions; the model is chosen on the way."""
        parts = []
        start, n = 0, len(y)
        while start < n:
            stop = n
            if self.choice is None:
                kept = len(self._kept)
                stage = next(stage for stage in self.asked.stages() if stage > kept)
                stop = min(n, start + stage - kept)
                rows = np.column_stack([Phi[start:stop], y[start:stop]])
                self._kept = np.concatenate([self._kept, rows])
            parts.append(self._step(Phi[start:stop], y[start:stop]))
            if self.choice is None and len(self._kept) in self.asked.stages():
                self._choose()
            start = stop
        return np.concatenate(parts) if parts else np.empty((0, ISSUED_SIZE))

    def _step(self, Phi: FloatArray, y: FloatArray) -> FloatArray:
        h, n = self.horizon, len(y)
        if h == 0:
            return _table(self.model.track(Phi, y))
        if h == 1:  # the target of a row comes with the next one: nothing is late
            if len(self._waiting):
                self.model.learn_one(self._waiting[0, : Phi.shape[1]], y[0])
            tables = [_table(self.model.track(Phi[:-1], y[1:]))] if n > 1 else []
            tables.append(_table(self.model.predict_many(Phi[-1:])))
            self._waiting = np.column_stack([Phi[-1:], tables[-1]])
            return np.concatenate(tables)
        # Inputs and predictions that wait for their targets, then those of these rows.
        d, late = Phi.shape[1], len(self._waiting)
        rows = np.concatenate([self._waiting, np.column_stack([Phi, np.empty((n, ISSUED_SIZE))])])
        done = 0
        for t in range(n):
            if late + t - done == h:
                issued = _prediction(rows[done, d:], self.level)
                self.model.learn_one(rows[done, :d], y[t], issued=issued)
                done += 1
            rows[late + t, d:] = _table(self.model.predict_many(rows[late + t : late + t + 1, :d]))[0]
        self._waiting = rows[done:].copy()
        return rows[late:, d:]

    def _choose(self) -> None:
        """Find hyperparameters on the first rows, at last choose models, too, and let them learn the rows."""
        h = self.horizon
        Phi, y = self._kept[: len(self._kept) - h, :-1], self._kept[h:, -1].copy()
        # Lags from before the first target are made up: enough for a first guess, but not to be built upon.
        made_up = max(self.lags - 1, 0)
        if len(y) - made_up >= choice.FEWEST:
            y[:made_up] = np.nan
        if len(self._kept) < self.asked.warmup:
            self.model = choice.tuned_starter(self.asked, Phi, y)
        else:
            self.model, self.choice = choice.choose(self.asked, Phi, y)
            self._kept = self._kept[:0]
        self.model.learn_many(Phi, y)

    def _lines(self, issued: FloatArray, row: np.ndarray, time: list[str] | None, y: FloatArray) -> PredictedRows:
        p = _prediction(issued, self.level)
        raw_lower, raw_upper = p.raw.interval(self.level)
        density = p.log_density(y)
        return PredictedRows(
            row, time, *(np.asarray(v) for v in (p.mean, p.lower, p.upper, p.std, y, density, raw_lower, raw_upper))
        )

    def _previous_values(self, y: FloatArray) -> FloatArray:
        """What one would have said of these targets by the last one known at the time."""
        known = np.concatenate([self._previous, y])
        index = np.maximum.accumulate(np.where(np.isnan(known), 0, np.arange(len(known))))
        filled = known[index]
        self._previous = filled[len(y) :]
        return filled[: len(y)]

    # One file.

    def save(self, path: str | Path) -> None:
        """Write everything that the next row needs to one file."""
        snapshot.write(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the whole state as bytes."""
        asked = self.asked
        header = {
            "holds": "a run over rows of a table",
            "run": {
                "schema": self.schema.to_dict(),
                "model": asked.model,
                "settings": {name: str(value) for name, value in asked.settings.items()},
                "lags": self.lags,
                "horizon": self.horizon,
                "gaps": self.encoder.gaps,
                "rows": self.rows,
                "unready": self._unready,
                "scores": vars(self.scores),
                "choice": None if self.choice is None else self.choice._asdict(),
                "position": list(self.position),
                "about": self.about,
            },
        }
        tensors = {
            "last": self.encoder.last,
            "history": self._history,
            "last_y": np.array([self._last_y]),
            "kept": self._kept,
            "waiting": self._waiting,
            "issued": self._issued,
            "previous": self._previous,
            "model": np.frombuffer(self.model.to_bytes(), dtype=np.uint8),
        }
        return snapshot.packed(header, {name: np.ascontiguousarray(array) for name, array in tensors.items()})

    @classmethod
    def load(cls, path: str | Path) -> Pipeline:
        """Return the pipeline of a file written by ``save``."""
        try:
            data = snapshot.read(path)
        except OSError as error:
            raise RowsError(f"{path} cannot be read: {error.strerror}") from None
        return cls.from_bytes(data)

    @classmethod
    def from_bytes(cls, data: bytes) -> Pipeline:
        """Return the pipeline of a snapshot."""
        header, tensors = snapshot.unpacked(data)
        if "run" not in header:
            raise snapshot.SnapshotError(
                f"the snapshot holds a single {header.get('model', 'model')}, no run over rows: open it with sg.load, "
                "or start anew without --load"
            )
        try:
            return cls._restored(header["run"], tensors)
        except snapshot.SnapshotError:
            raise
        except Exception as error:  # of whatever kind: what a file says may do anything to a constructor
            raise snapshot.SnapshotError(
                f"the snapshot does not describe a run this version can go on with: {error}"
            ) from error

    @classmethod
    def _restored(cls, saved: dict[str, Any], tensors: dict[str, np.ndarray]) -> Pipeline:
        pipeline = cls(
            Schema.from_dict(saved["schema"]),
            saved["model"],
            saved["settings"],
            saved["lags"],
            saved["horizon"],
        )
        pipeline.rows = whole("rows", saved["rows"], at_least=0)
        pipeline._unready = whole("unready", saved["unready"], at_least=0)
        pipeline.scores = Scores(**saved["scores"])
        if not all(isinstance(value, int | float) for value in vars(pipeline.scores).values()):
            raise snapshot.SnapshotError(f"the snapshot's scores must be numbers; they are {saved['scores']}")
        pipeline.choice = None if saved["choice"] is None else choice.Choice(**saved["choice"])
        pipeline.position = Position(*saved["position"])
        pipeline.about = saved["about"]
        pipeline.encoder.gaps = {name: whole("gaps", count) for name, count in saved["gaps"].items()}
        pipeline.encoder.last = _like(pipeline.encoder.last, "last", tensors)
        pipeline._last_y = float(tensors["last_y"][0])
        for name in ("history", "kept", "waiting", "issued", "previous"):
            setattr(pipeline, f"_{name}", _like(getattr(pipeline, f"_{name}"), name, tensors))
        model = from_bytes(tensors["model"].tobytes())
        inputs = len(pipeline.input_names)
        if not isinstance(model, Calibrated) or model._d not in (None, inputs) or model._p not in (None, 1):
            raise snapshot.SnapshotError(
                f"the snapshot's model is not one of {inputs} inputs and one target: {model!r}"
            )
        pipeline.model = model
        return pipeline

    @property
    def watches_drift(self) -> bool:
        """Whether changes are looked for: if it was not switched off, and the model can forget."""
        return isinstance(self.model._within, DriftAware)

    @property
    def drift(self) -> list[tuple[int, str]]:
        """Where the model noticed a change, and what came of it: the number of the row, and a sentence."""
        watcher = self.model._within
        if not isinstance(watcher, DriftAware):
            return []
        first = 1 + self._unready + self.horizon  # the row whose target came with the model's row 0
        return [(event.row + first, _DRIFT[event.direction]) for event in watcher.events]

    @property
    def inner(self) -> StreamModel:
        """A copy of the model under the calibration, the detection of drift and the scaling."""
        return self._innermost().copy()

    def _innermost(self) -> StreamModel:
        model: StreamModel = self.model
        while isinstance(model, Wrapper):
            model = model._within
        return model

    @property
    def weights(self) -> dict[str, float]:
        """How much each model has to say at present, by name."""
        model = self._innermost()
        if not isinstance(model, Committee):
            return {self.asked.model if self.choice is None else self.choice.name: 1.0}
        names = self.choice.names if self.choice is not None else FIRST
        return dict(zip(names, model.weights.tolist(), strict=True))

    @property
    def diverged(self) -> list[str]:
        """The models of a committee that err beyond measure of late, and so have no weight."""
        model = self._innermost()
        if not isinstance(model, Committee) or model._d is None:
            return []
        errors = np.sqrt(model._sums[:, 0] / max(model._counts[0], 1.0))  # in standard deviations of the target
        far = DIVERGED * max(errors.min(), 1.0)
        return [name for name, error in zip(self.weights, errors, strict=True) if error > far]

    @property
    def health(self) -> dict[str, Any]:
        """Numerical repairs of the model, by kind and in all, and models that have diverged."""
        health = self.model.health
        return health._asdict() | {"repairs": health.repairs, "diverged": self.diverged}


_DRIFT = {
    "raised": "drift suspected, forgetting faster",
    "kept": "drift confirmed, keeping the faster model",
    "reverted": "false alarm, reverted",
}


def _like(fresh: FloatArray, name: str, tensors: dict[str, np.ndarray]) -> FloatArray:
    """A saved array, of the shape that it has in a pipeline that begins but for the rows of a table."""
    saved = tensors[name]
    if saved.dtype != fresh.dtype or saved.shape[fresh.ndim - 1 :] != fresh.shape[fresh.ndim - 1 :]:
        raise snapshot.SnapshotError(f"the array {name} has shape {saved.shape}, the run needs {fresh.shape}")
    return saved.copy()


def _added(total: float, values: FloatArray) -> float:
    """A sum that does not depend on how the values are handed over: one after the other."""
    return float(np.cumsum(np.concatenate([[total], values]))[-1])


def _table(p: Prediction) -> FloatArray:
    assert isinstance(p, CalibratedPrediction)
    return np.column_stack([p.mean, p.variance, p.noise, p.lower, p.upper, p.raw.variance, p.raw.noise])


def _prediction(table: FloatArray, level: float) -> CalibratedPrediction:
    mean, variance, noise, lower, upper, raw_variance, raw_noise = table.T
    return CalibratedPrediction(
        mean, variance, noise, lower, upper, level, raw=Prediction(mean, raw_variance, raw_noise)
    )
