"""What a model and its wrappers do, for many models at once: each layer runs one compiled loop over all of them.

A layer computes what the class of the same name does in ``_advance`` and ``_predict``, with the same compiled functions
and the same NumPy expressions, so that the numbers are the same bit for bit.
"""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from streamgp.compiled import compile_now
from streamgp.contract import inputs
from streamgp.contract.conditions import in_other_units
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import CalibratedPrediction, Prediction
from streamgp.fleet import calls
from streamgp.fleet.calls import address_of
from streamgp.fleet.rows import Rows
from streamgp.fleet.shelf import Shelf
from streamgp.process.adapt import sngd
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray
from streamgp.wrappers import conformal, outliers, scaling
from streamgp.wrappers.calibrated import ISSUED, Calibrated
from streamgp.wrappers.standardize import Standardize
from streamgp.wrappers.wrapper import Wrapper, joined


def fits(model: StreamModel) -> bool:
    """Whether layers can run a model: a process in compiled code, within Standardize and Calibrated or not."""
    while type(model) in (Standardize, Calibrated):
        assert isinstance(model, Wrapper)
        model = model._within
    return isinstance(model, OnlineGP) and getattr(model, "_mean", None) is None  # that is a Python function


def load_functions() -> None:
    """Compile, or load from the cache, the loops over models."""
    compile_now(calls.run_models, calls.scale_models, calls.rescale_models, calls.screen_models, calls.calibrate_models)


class Layer(abc.ABC):
    """One model of the family, for all models of the fleet.

    Args:
        model: of the recipe, prepared.
        shelf: the numbers of all models.
        skip: arrays on the shelf that belong to the models around this one.
    """

    held = 2  # arrays on the shelf: a record and a buffer

    def __init__(self, model: Any, shelf: Shelf, skip: int = 0) -> None:
        self._model, self._shelf, self._skip = model, shelf, skip
        self._arrays: list[Any] = shelf.arrays[skip : skip + self.held]
        if isinstance(model, Wrapper):
            self._within = layer(model._within, shelf, skip + self.held)

    def screened(self, rows: Rows) -> Rows:
        """Rows as they come from outside without the targets that cannot be observations."""
        return self._within.screened(rows) if isinstance(self._model, Wrapper) else rows

    @abc.abstractmethod
    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        """Take every row: predict it if asked to, then learn it. Predictions are arrays, (n, p)."""

    @abc.abstractmethod
    def predict(self, rows: Rows) -> Prediction:
        """Predict rows that would each come next."""

    def remember(self, rows: Rows) -> None:
        """Advance memories by one row of each model, and change nothing else."""
        self._within.remember(rows)

    def issued(self, prediction: Prediction) -> FloatArray:
        """The parts of predictions that are learned from when a target comes late, (n, numbers)."""
        return np.empty((len(prediction.mean), 0))

    def learn_issued(self, rows: Rows, issued: FloatArray) -> None:
        """Learn rows by what was issued of them."""
        self.advance(rows, False)


def layer(model: StreamModel, shelf: Shelf, skip: int = 0) -> Layer:
    """The layer of a model, with those of the models within."""
    kinds: dict[type, type[Layer]] = {Standardize: StandardizeLayer, Calibrated: CalibratedLayer}
    return kinds.get(type(model), ProcessLayer)(model, shelf, skip)


class ProcessLayer(Layer):
    _model: OnlineGP

    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        out = self._run(rows, report, advance=True)
        return self._model._prediction(out) if report else None

    def predict(self, rows: Rows) -> Prediction:
        return self._model._prediction(self._run(rows._replace(Y=None, conditions=None), True, advance=False))

    def remember(self, rows: Rows) -> None:
        counters = self._arrays[0]["counters"]
        before = counters[rows.models]
        self._run(rows._replace(Y=None, conditions=None), False, advance=True)
        counters[rows.models] = before

    def _run(self, rows: Rows, report: bool, advance: bool) -> FloatArray:
        model = self._model
        parts = len(model._no_predictions)
        out = np.empty((parts, len(rows.X))) if report else model._no_predictions
        run, (records, buffers) = address_of(model._run()), self._arrays
        status, _, row = calls.run_models(
            run,
            run if model._adapt is None else address_of(sngd.finish_interval),
            records,
            buffers,
            rows.models,
            rows.starts,
            rows.X,
            model._no_targets if rows.Y is None else rows.Y,
            model._no_conditions if rows.conditions is None else rows.conditions,
            out,
            advance,
        )
        inputs.refuse(status, row, many=True)
        return out


class StandardizeLayer(Layer):
    held = 10

    _model: Standardize

    def screened(self, rows: Rows) -> Rows:
        if rows.Y is None or not self._model._screens:
            return rows
        Y = rows.Y.copy()
        states, screen = self._arrays[-1], address_of(outliers.screen)
        calls.screen_models(screen, states, rows.models, rows.starts, Y, self._model._shared)
        return rows._replace(Y=Y)

    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        kept = self._arrays[-2][:, 0]
        ready = kept[rows.models] == self._model._warmup
        if ready.all():
            return self._advance_within(rows, report)
        parts: list[Any] = []
        places = []
        if ready.any():
            chosen, where = rows.of(np.flatnonzero(ready))
            parts.append(self._advance_within(chosen, report))
            places.append(where)
        single = self._model.clone()
        single._prepare(self._model._shape)
        for j in np.flatnonzero(~ready).tolist():
            one = rows.between(j, j + 1)
            self._shelf.take(one.models[0], single, self._skip)
            parts.append(single._advance(one.X, one.Y, report, one.conditions))
            self._shelf.put(one.models[0], single, self._skip)
            places.append(np.arange(rows.starts[j], rows.starts[j + 1]))
        return joined(parts)[np.argsort(np.concatenate(places))] if report else None

    def _advance_within(self, rows: Rows, report: bool) -> Prediction | None:
        input_shift, input_scale, target_shift, target_scale = self._arrays[:4]
        scale = None if rows.conditions is None else rows.each(target_scale)
        within = rows._replace(
            X=_standard(rows, rows.X, input_shift, input_scale),
            Y=None if rows.Y is None else _standard(rows, rows.Y, target_shift, target_scale),
            conditions=None if scale is None else in_other_units(rows.conditions, scale, self._model._shared),
        )
        prediction = self._within.advance(within, report)
        return None if prediction is None else self._in_units(rows, prediction)

    def predict(self, rows: Rows) -> Prediction:
        within = rows._replace(X=_standard(rows, rows.X, *self._arrays[:2]))
        return self._in_units(rows, self._within.predict(within))

    def remember(self, rows: Rows) -> None:
        self._within.remember(rows._replace(X=_standard(rows, rows.X, *self._arrays[:2])))

    def _in_units(self, rows: Rows, prediction: Prediction) -> Prediction:
        shift, scale = self._arrays[2:4]
        if type(prediction) is not Prediction:
            return prediction._moved(rows.each(shift), rows.each(scale))
        parts = prediction.mean, prediction.variance, prediction.noise
        mean, variance, noise = (np.ascontiguousarray(part) for part in parts)
        out = np.empty((3, *mean.shape))
        calls.rescale_models(
            address_of(scaling.from_standard), rows.models, rows.starts, mean, variance, noise, shift, scale, out
        )
        return Prediction(out[0], out[1], out[2])


def _standard(rows: Rows, values: FloatArray, shift: FloatArray, scale: FloatArray) -> FloatArray:
    out = np.empty_like(values)
    calls.scale_models(address_of(scaling.to_standard), rows.models, rows.starts, values, shift, scale, out)
    return out


class CalibratedLayer(Layer):
    _model: Calibrated

    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        prediction = self._within.advance(rows, report or rows.Y is not None)
        return None if prediction is None else self._calibrated(rows, prediction, rows.Y)

    def predict(self, rows: Rows) -> Prediction:
        return self._calibrated(rows, self._within.predict(rows), None)

    def issued(self, prediction: Prediction) -> FloatArray:
        assert isinstance(prediction, CalibratedPrediction)
        raw, shape = prediction.raw, prediction.mean.shape
        parts = raw.mean, raw.variance, raw.noise, prediction.lower, prediction.upper
        return np.stack([np.broadcast_to(part, shape) for part in parts], axis=1).reshape(len(prediction.mean), -1)

    def learn_issued(self, rows: Rows, issued: FloatArray) -> None:
        mean, variance, noise, lower, upper = issued.reshape(len(issued), ISSUED, -1).transpose(1, 0, 2)
        assert rows.Y is not None
        self._within.advance(rows, False)
        self._calibrate(rows, Prediction(mean, variance, noise), rows.Y, np.array([lower, upper, lower, upper]), True)

    def _calibrated(self, rows: Rows, raw: Prediction, Y: FloatArray | None) -> Prediction:
        out = np.empty((4, *raw.mean.shape))
        self._calibrate(rows, raw, np.full(raw.mean.shape, np.nan) if Y is None else Y, out, False)
        lower, upper, variance, noise = out
        mean = np.ascontiguousarray(raw.mean)
        return CalibratedPrediction(mean, variance, noise, lower, upper, self._model._level, raw)

    def _calibrate(self, rows: Rows, raw: Prediction, Y: FloatArray, out: FloatArray, issued: bool) -> None:
        mean, variance, noise = (np.ascontiguousarray(part) for part in (raw.mean, raw.variance, raw.noise))
        records, buffers = self._arrays
        calls.calibrate_models(
            address_of(conformal.calibrate),
            records,
            buffers,
            rows.models,
            rows.starts,
            mean,
            variance,
            noise,
            Y,
            issued,
            out,
        )
