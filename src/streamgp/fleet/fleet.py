"""Fleet: many models of one recipe."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Any

import numpy as np

from streamgp.contract import passing
from streamgp.contract.conditions import NOISE, TIME
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import Prediction, joined
from streamgp.contract.saved import Shape
from streamgp.contract.turns import guard
from streamgp.fleet import checks, devices, own
from streamgp.fleet.alarms import Watch, fleet_rate
from streamgp.fleet.cpu import fits
from streamgp.fleet.cuda import CudaEngine, DevicePrediction
from streamgp.fleet.devices import DEVICES, PRECISIONS
from streamgp.fleet.models import Models
from streamgp.fleet.prior import candidates, tuned
from streamgp.fleet.rows import Arrival, Rows, arrival, plain, targets, times
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.prior import Prior, with_own
from streamgp.settings import FloatArray, Setting, one_of, optional, switch, whole
from streamgp.wrappers.alarms import Alarm, discounted, words
from streamgp.wrappers.surprise import SPIKE


class Fleet(Models):
    """Many models of one recipe, which learn and predict in one call.

    Every model computes what it would alone, bit for bit, and can be taken out, changed and put back. Models have the
    ids 0 to size - 1.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> fleet = sg.Fleet(sg.KRLST(capacity=20), size=3)
        >>> X = np.linspace(0.0, 6.0, 50).reshape(50, 1, 1) * np.ones((1, 3, 1))  # rows, models, inputs
        >>> Y = np.sin(X[:, :, 0]) + [0.0, 1.0, 2.0]
        >>> fleet.track(X, Y).mean.shape
        (50, 3)
        >>> p = fleet.predict_many([[1.5], [1.5]], ids=[0, 2])  # some models only
        >>> p.mean.round(1)
        array([1., 3.])
    """

    def __init__(
        self,
        model: Annotated[StreamModel, Setting("the recipe: any stream model that has learned nothing")],
        *,
        size: Annotated[int, Setting("how many models there are", check=partial(whole, at_least=0))],
        device: Annotated[str, Setting('"cpu", or "cuda" for a GPU', check=one_of(*DEVICES))] = "cpu",
        precision: Annotated[str, Setting('"double" or "single" floats', check=one_of(*PRECISIONS))] = "double",
        threads: Annotated[
            int | None,
            Setting(
                "that run models at the same time, or processes that hold those that are called one by one; None: as "
                "many as there are cores",
                check=optional(whole),
            ),
        ] = None,
        pending: Annotated[
            int,
            Setting(
                "rows of all models together that can wait for their targets; 0: targets come with their rows",
                "rows",
                partial(whole, at_least=0),
            ),
        ] = 0,
        lengthscale: Annotated[
            FloatArray | None, Setting("of each model, (size,) or (size, d); NaN, or None for all: that of the recipe")
        ] = None,
        variance: Annotated[
            FloatArray | None, Setting("of each model's prior, (size,); NaN, or None for all: that of the recipe")
        ] = None,
        noise: Annotated[
            FloatArray | None, Setting("of each model, (size,); NaN, or None for all: that of the recipe")
        ] = None,
        prior: Annotated[Prior | None, Setting("with which models begin that are added; None: the recipe")] = None,
        alarms: Annotated[
            Any,
            Setting(
                "false alarms of all models together: for each row of the whole fleet, such as 0.01, or for a length "
                'of time, such as "1/week"; None: rows are not judged',
                check=optional(fleet_rate),
            ),
        ] = None,
        discount_spikes: Annotated[
            bool,
            Setting(
                "whether, with alarms, a spike is learned with a larger noise, so that it is not taken as truth",
                check=switch,
            ),
        ] = True,
    ) -> None:
        refuse_no_model(model)
        if model.rows_seen:
            raise ValueError(
                f"model must have learned nothing; got one that has seen {model.rows_seen} rows. Hand over "
                "model.clone(), and put models that have learned in with fleet.replace(i, model)."
            )
        self._own = own.checked(model, size, {"lengthscale": lengthscale, "variance": variance, "noise": noise})
        own.refuse_kernel(model, [] if prior is None else prior.start)
        for values in (self._own, {} if prior is None else prior.start):
            devices.refuse_unfit(device, precision, model, values)
        self._prior = prior
        self._recipe: StreamModel = model.clone()
        self._settings["model"] = self._recipe
        self._together = fits(model)  # one object stands for all models
        self._whole = device == "cuda" and isinstance(model, OnlineGP) and devices.is_for_lanes(model, pending > 0)
        self._device = device, precision
        self._threads = threads
        self._places = pending
        if alarms is not None and device != "cpu":
            raise ValueError('alarms= needs device="cpu": rows are judged there; a fleet on a GPU raises none')
        self._rate, self._discounts = alarms, discount_spikes
        if alarms is not None and not (model.has_variance and model._observes == "numbers"):
            raise ValueError(
                f"alarms= judges the errors of numbers by the variance of predictions, and {type(model).__name__} has "
                "none; use Calibrated around a model of numbers"
            )
        if alarms is not None and discount_spikes and any(getattr(one, "_batch", 1) > 1 for one in model._family()):
            raise ValueError(
                "alarms= looks at every row before it is learned, to discount spikes: use batch=1, or "
                "discount_spikes=False"
            )
        self._prototype = self._recipe  # prepared for the rows once they have come

    def tune(self, X: Any, Y: Any, *, rows: int = 400, models: int = 500, verbose: bool = False) -> Prior:
        """Choose the hyperparameters of each model before its first row, by its own rows and by what all of them say.

        Candidates around those of the recipe are scored by the log density of rows before they are learned; how common
        each is follows from all models (expectation maximization), and each model takes the geometric mean under its
        own evidence. Nothing else is learned: hand the rows over again.

        Args:
            X: (rows, size, d) first rows of all models.
            Y: (rows, size) their targets; NaN where missing.
            rows: most of them that count.
            models: most of them, spread evenly, from which the prior is learned.
            verbose: whether to print how many candidates have been scored, to standard error.

        Returns:
            The prior, with which models begin that are added, and which can be saved.
        """
        if self._engine is not None and self.rows_seen.any():
            raise ValueError("a fleet is tuned before its first row; take fleet.clone(), which has learned nothing")
        X, Y = np.asarray(X, dtype=float)[: whole("rows", rows)], np.asarray(Y, dtype=float)[: whole("rows", rows)]
        if X.ndim != 3 or X.shape[1] != self.size or Y.shape != X.shape[:2]:
            raise ValueError(
                f"tune needs the first rows of all models: X (rows, {self.size}, d) and Y (rows, {self.size}); got "
                f"{X.shape} and {Y.shape}"
            )
        own.checked(self._recipe, 1, {"noise": [1.0]})  # refuses what has none
        tried, score = candidates(self._recipe, X.shape[2]), partial(self._scores, verbose=verbose)
        own.refuse_kernel(self._recipe, tried)
        found, chosen = tuned(tried, X, Y, whole("models", models), score)
        for values in (chosen, found.start):
            devices.refuse_unfit(*self._device, self._recipe, values)
        self._own = chosen
        self._settings |= self._own | {"prior": found}
        self._prior, self._engine, self._shape = found, None, Shape()
        return found

    def _scores(self, X: FloatArray, Y: FloatArray, tried: dict[str, FloatArray], verbose: bool) -> FloatArray:
        """The log density of the rows of each model under each candidate, (models, candidates)."""
        size, n = X.shape[1], len(next(iter(tried.values())))
        scores = np.empty((size, n))
        for k in range(n):
            single = with_own(self._recipe, {name: values[k] for name, values in tried.items()})
            p = Fleet(single, size=size, threads=self._threads, device=self._device[0]).track(X, Y)
            with np.errstate(invalid="ignore"):
                scores[:, k] = np.nansum(p.log_density(Y), axis=0)
            if verbose:
                print(f"tune: candidate {k + 1} of {n}, {size} models", file=sys.stderr, flush=True)
        return scores

    # Rows.

    def track(self, *rows: Any, ids: Any = None, noise: Any = None, time: Any = None) -> Prediction[FloatArray]:
        """Predict each row, then learn it; ``track(X)`` learns nothing and advances memories.

        Args:
            rows: X, (rows, size, d) or (size, d), with ids (n, d); and Y, (rows, size) or (size,), with p numbers more
                where there are several outputs, NaN where a model has no target now, with ids (n,). Or ids, X and Y.
            ids: (n,) of the models; an id may come several times, and its rows are taken in order. None: all models.
            noise: variance of the observations' noise, one for all or an array like Y; None: the models' own.
            time: of the rows, an array like Y, or (rows,) for all models; models with a ``half_life`` need it.

        Returns:
            One Prediction of arrays like Y.
        """
        X, Y, ids = _named("track", rows, ids)
        if is_on_a_gpu(X):
            return self._there(X, Y, ids, learned=True, given=(noise, time))  # type: ignore[return-value]
        came, X, scalar = self._arrived(X, ids, as_came=noise is None and time is None)
        if Y is not None:
            Y, scalar = targets(Y, came, self._shape.outputs, self._whole)
        prediction: Prediction[FloatArray] = self._take(came, X, Y, scalar, noise, time, report=True)
        return prediction

    def learn_many(self, *rows: Any, ids: Any = None, noise: Any = None, time: Any = None) -> None:
        """Learn rows in order; rows, ids, noise and time are those of ``track``."""
        X, Y, ids = _named("learn_many", rows, ids)
        if Y is None:
            raise TypeError("learn_many needs targets: learn_many(X, Y); track(X) advances without learning")
        if is_on_a_gpu(X):
            self._there(X, Y, ids, learned=True, given=(noise, time))
            return
        came, X, _ = self._arrived(X, ids, as_came=noise is None and time is None)
        Y, scalar = targets(Y, came, self._shape.outputs, self._whole)
        self._take(came, X, Y, scalar, noise, time, report=False)

    def predict_many(self, X: Any, ids: Any = None, *, time: Any = None) -> Prediction[FloatArray]:
        """Predict rows that would each come next; nothing changes.

        Args:
            X: (rows, size, d) or (size, d); with ids, (n, d).
            ids: (n,) of the models; None: all models.
            time: of the rows, an array like those of targets, or (rows,) for all models, where models have a kernel
                over time; None: a usual spacing after the last row of each.
        """
        if is_on_a_gpu(X):
            return self._there(X, None, ids, learned=False)  # type: ignore[return-value]
        came, X, _ = self._arrived(X, ids, as_came=True)
        grouped = came.rows(X)
        if not len(grouped.X):
            return self._shaped(passing.nothing(self._prototype), came)
        if self._engine is None or not self._engine.checks_rows:
            checks.refuse(self, grouped)
        if time is not None:
            conditions = np.full((len(grouped.X), NOISE + 1), np.nan)
            conditions[:, TIME] = times(time, came)
            grouped = grouped._replace(conditions=conditions)
            checks.refuse_past(self, grouped)
        if self._engine is None and not self._own:  # all models are the prior
            prior = passing.started_for(self._recipe, grouped.X)
            prediction = prior._told(list(passing.predicted(prior, grouped.X, grouped.conditions)))
        elif self._engine is None:
            begun = self.clone()
            begun._begin(grouped, scalar=True)
            return begun.predict_many(X, ids, time=time)
        else:
            with checks.unfit_rows_named(self, grouped):
                prediction = self._engine.predict(grouped)
        return self._shaped(prediction._shaped(scalar=self._prototype._shape.scalar, many=True), came)

    def issue(self, X: Any, ids: Any = None) -> Prediction[FloatArray]:
        """Predict rows whose targets come later, and advance the memories by them.

        Args:
            X: (rows, size, d) or (size, d); with ids, (n, d).
            ids: (n,) of the models; an id may come several times. None: all models.

        Returns:
            A Prediction of arrays, whose ``ticket`` has a whole number for each row.
        """
        if not self._places:
            raise ValueError("this fleet keeps no rows that wait: build it with pending=, how many can at once")
        if self._recipe._moment() is not None:
            raise ValueError(
                "rows of a fleet wait without their time, which a kernel over time needs: use single models within "
                "Delayed, whose issue(x, time=t) keeps it"
            )
        came, X, scalar = self._arrived(X, ids)
        rows = came.rows(X)
        tickets = np.zeros(len(rows.X), dtype=np.int64)
        if not len(rows.X):
            return self._shaped(passing.nothing(self._prototype), came)._with(ticket=tickets[came.back])
        checks.refuse(self, rows)
        with self._undone_on_error(rows):
            if not self._shape.covers(certain=False):
                self._begin(rows, scalar)
            assert self._engine is not None
            assert self._waiting is not None
            parts, places = [], []
            for part, where in rows.turns():
                numbers = self._engine.rows_seen()[part.models, None] if self._watch is not None else None
                columns, kept = self._engine.issue(part)
                if numbers is not None:  # by which the row is judged when its target comes
                    kept = np.hstack([kept, numbers, columns.transpose(1, 0, 2).reshape(len(kept), -1)])
                tickets[where] = self._waiting.put(part.models, kept)
                parts.append(columns)
                places.append(where)
        together = np.concatenate(parts, axis=1)[:, np.argsort(np.concatenate(places))]
        return self._shaped(passing.shaped(self._prototype, together, many=True), came)._with(ticket=tickets[came.back])

    def resolve(self, tickets: Any, Y: Any, *, noise: Any = None, time: Any = None) -> None:
        """Learn the targets of rows that were issued, at their inputs as they were, in the order given.

        Args:
            tickets: (n,) of the predictions, in any order.
            Y: (n,) or (n, p) targets; NaN: nothing is learned, and the ticket is closed.
            noise: variance of the observations' noise, one for all or (n,).
            time: (n,) times at which the targets came.
        """
        given = _tickets(tickets)
        if self._waiting is None:
            raise KeyError("no row has been issued")
        places = self._waiting.find(given)
        d, p, scalar, certain, _ = self._shape
        came = arrival(self._waiting.models_of(places), self._waiting.kept(places)[:, :d], self.size)
        Y, scalar = targets(Y, came, p)
        rows = came.rows(self._waiting.kept(places)[:, :d], Y)
        if not len(rows.X):
            return
        checks.refuse(self, rows)
        rows = rows._replace(conditions=checks.conditions(self, rows, came, noise, time))
        checks.refuse_no_time(self, rows)
        grouped = came.grouped(places[:, None])[:, 0]
        with self._undone_on_error(rows):
            if not certain:
                self._begin(rows, scalar)
            assert self._engine is not None
            for part, where in rows.turns():
                now = grouped[where]
                kept = self._waiting.kept(now)
                for some, at in self._judged(part, kept):
                    self._engine.resolve(some, np.ascontiguousarray(kept[at, : self._engine.kept_width()]))
                self._waiting.take(now)

    def _judged(self, rows: Rows, kept: FloatArray) -> list[tuple[Rows, np.ndarray]]:
        """Late rows, one of each model, as they are to be learned, and their places: judged as they were predicted."""
        if self._watch is None:
            return [(rows, np.arange(len(rows.X)))]
        assert self._engine is not None
        assert rows.Y is not None
        width = self._engine.kept_width()
        columns = kept[:, width + 1 :].reshape(len(kept), -1, self._watch.outputs).transpose(1, 0, 2)
        prediction = self._prototype._told(list(np.ascontiguousarray(columns)))
        numbers = kept[:, width].astype(np.int64)
        found, limit = self._watch.judge(rows.models, numbers, prediction, rows.Y, rows.conditions)
        return _discounted(self._recipe, rows, found, limit) if self._discounts else [(rows, np.arange(len(rows.X)))]

    def waiting(self, tickets: Any) -> np.ndarray:
        """Return the id of the model whose row waits under each ticket, (n,); -1: no row does."""
        given = _tickets(tickets)
        return np.full(len(given), -1) if self._waiting is None else self._waiting.under(given)

    def alarms(self) -> list[Alarm]:
        """Return the last alarms of all models, oldest first, at most 1000."""
        if self._rate is None:
            raise ValueError("this fleet raises no alarms: build it with alarms=, how many false ones may be")
        return [] if self._watch is None else self._watch.events()

    # How rows pass.

    def _arrived(self, X: Any, ids: Any, as_came: bool = False) -> tuple[Arrival, FloatArray, bool]:
        """How rows came, X as it came, and whether targets are numbers as far as is known.

        Args:
            X: of a call.
            ids: of a call.
            as_came: whether the rows of a model may lie apart, where the engine can take them so.
        """
        X = plain(X, "X", self._whole)
        as_came = as_came and not self._recipe._needs_time  # times are compared model by model
        came = arrival(ids, X, self.size, as_came and self._engine is not None and self._engine.checks_rows)
        d, scalar = self._shape.d, self._shape.scalar
        if d is not None and X.shape[-1] != d:
            raise ValueError(f"X must have {d} columns, as the first rows had; got {X.shape[-1]}")
        return came, X, scalar

    def _take(
        self, came: Arrival, X: FloatArray, Y: FloatArray | None, scalar: bool, noise: Any, time: Any, *, report: bool
    ) -> Any:
        rows = came.rows(X, Y)
        if not len(rows.X):
            return self._shaped(passing.nothing(self._prototype), came) if report else None
        if self._engine is None or not self._engine.checks_rows:
            checks.refuse(self, rows)
        rows = rows._replace(conditions=checks.conditions(self, rows, came, noise, time))
        checks.refuse_no_time(self, rows)
        judged = None
        with self._undone_on_error(rows):
            if not self._shape.covers(Y is not None):
                self._begin(rows, scalar)
            assert self._engine is not None
            with checks.unfit_rows_named(self, rows):
                if self._watch is None or Y is None:
                    prediction = self._engine.advance(rows, report)
                else:
                    prediction, judged = self._watched(self._watch, self._engine, rows, Y)
        if prediction is None or not report:
            return None
        shaped = self._shaped(prediction._shaped(scalar=self._prototype._shape.scalar, many=True), came)
        if judged is None:
            return shaped
        nats, kinds = (part[came.back].reshape(np.shape(shaped.mean)) for part in judged)
        return shaped._with(surprise=nats, alarm=words(kinds))

    def _watched(
        self, watch: Watch, engine: devices.Engine, rows: Rows, Y: FloatArray
    ) -> tuple[Prediction, FloatArray]:
        """Judge and learn rows; their predictions, and surprises and kinds, (2, n, p)."""
        before, found = engine.rows_seen(), np.full((2, *Y.shape), np.nan)
        learned = None if self._discounts else engine.advance(rows, True)
        parts, places = [], []
        for turn, (part, where) in enumerate(rows.turns()):
            assert part.Y is not None
            if learned is None:  # how a row is learned depends on its prediction
                timed = part.conditions is not None and np.isfinite(part.conditions[:, TIME]).all()
                prediction = engine.predict(part._replace(conditions=part.conditions if timed else None))
            else:
                prediction = learned._each(lambda values, where=where: values[where])
            numbers = before[part.models] + turn
            found[:, where], limit = watch.judge(part.models, numbers, prediction, part.Y, part.conditions)
            if learned is None:
                for some, _ in _discounted(self._recipe, part, found[:, where], limit):
                    engine.advance(some, False)
            parts.append(prediction)
            places.append(where)
        if learned is None:
            order = np.argsort(np.concatenate(places))
            learned = joined(parts)._each(lambda values: values[order])
        return learned, found

    def _shaped(self, prediction: Prediction, came: Arrival) -> Prediction:
        """A prediction of grouped rows, arranged as they came."""
        if came.order is not None:
            return prediction[came.back]
        return prediction._arranged(came.shape)

    # Rows on a GPU.

    def pinned(self, rows: int | None = None, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
        """Arrays X and Y for rows of all models, which a GPU takes without a copy; fill them before each call.

        Args:
            rows: of each model; None: one, and the arrays have no axis for it.
            dtype: ``numpy.float32`` takes half the time to come to the GPU.

        Returns:
            X of shape (rows, size, d) and Y of shape (rows, size), with p numbers more for several outputs, in
            pinned memory on ``device="cuda"``.
        """
        if self._engine is None or self._shape.d is None:
            raise ValueError("the fleet has seen no rows yet, and does not know how many inputs they have")
        number = float_type(dtype)
        shape = (self.size,) if rows is None else (whole("rows", rows), self.size)
        n = int(np.prod(shape))
        if isinstance(self._engine, CudaEngine):
            X, Y = self._engine.pinned(n, number)
        else:
            X, Y = np.zeros((n, self._shape.d), number), np.zeros(n * (self._shape.p or 1), number)
        several = () if self._shape.scalar else (self._shape.p or 1,)
        return X.reshape(*shape, self._shape.d), Y.reshape(*shape, *several)

    def _there(
        self, X: Any, Y: Any, ids: Any, *, learned: bool, given: tuple[Any, Any] = (None, None)
    ) -> DevicePrediction:
        """Rows of all models that are on a GPU, as torch, CuPy and JAX have them."""
        if not self._whole:
            raise TypeError(
                'X is on a GPU, and this fleet takes no such rows: build it with device="cuda" and a bare recipe with '
                "a growing basis, such as KRLST, or hand over NumPy arrays"
            )
        if (self._shape.p or 1) > 1:
            raise ValueError(
                f"rows on a GPU have one target, and this fleet has {self._shape.p} outputs; hand over NumPy arrays"
            )
        if ids is not None:
            raise ValueError(
                "rows on a GPU are those of all models, without ids; hand over NumPy arrays for some models"
            )
        if given != (None, None) or (learned and self._recipe._needs_time):
            raise ValueError("rows on a GPU come without noise= and time=; hand over NumPy arrays with them")
        if learned and not is_on_a_gpu(Y):
            raise TypeError("X is on a GPU: Y must be there as well")
        from streamgp.cuda.device_array import DeviceArray

        X, Y = DeviceArray.of(X, "X"), DeviceArray.of(Y, "Y") if learned else None
        came = arrival(None, X, self.size, as_came=True)
        d = self._shape.d
        if d is not None and X.shape[-1] != d:
            raise ValueError(f"X must have {d} columns, as the first rows had; got {X.shape[-1]}")
        if Y is not None and (Y.shape != came.shape or Y.dtype != X.dtype):
            raise ValueError(
                f"Y must have one target for each row of X, of the same type: shape {came.shape}, {X.dtype}; got "
                f"{Y.shape}, {Y.dtype}"
            )
        if not self._shape.covers(learned):
            first = np.zeros((1, X.shape[-1]))
            self._begin(Rows(np.zeros(1, int), np.array([0, 1]), first, np.zeros((1, 1)) if learned else None), True)
        assert isinstance(self._engine, CudaEngine)
        return self._engine.there(came, X, Y, learned)


guard(Fleet, set())


def is_on_a_gpu(values: Any) -> bool:
    return hasattr(values, "__cuda_array_interface__")


def _discounted(recipe: StreamModel, rows: Rows, found: FloatArray, limit: float) -> list[tuple[Rows, np.ndarray]]:
    """One row of each model, as they are to be learned: those with a spike as Alarms does, and the others."""
    assert rows.Y is not None
    spikes = ((found[1] == SPIKE) & ~np.isnan(rows.Y)).any(axis=1)
    if not spikes.any():
        return [(rows, np.arange(len(spikes)))]
    spiking, where = rows.of(np.flatnonzero(spikes))
    assert spiking.Y is not None
    Y, conditions = discounted(recipe, spiking.Y, spiking.conditions, found[:, where], limit)
    others = rows.of(np.flatnonzero(~spikes))
    return [(spiking._replace(Y=Y, conditions=conditions), where), *([others] if len(others[1]) else [])]


def float_type(dtype: Any) -> type:
    """numpy.float64 or numpy.float32."""
    for number in (np.float64, np.float32):
        if np.dtype(dtype) == number:
            return number
    raise ValueError(f"dtype must be numpy.float64 or numpy.float32; got {dtype!r}")


def refuse_no_model(model: Any) -> None:
    """Refuse what is not a stream model."""
    if not isinstance(model, StreamModel):
        raise TypeError(f"model must be a stream model such as KRLST(); got {model!r}")


def _named(method: str, rows: tuple[Any, ...], ids: Any) -> tuple[Any, Any, Any]:
    """Inputs, targets or None, and ids or None, of X; X, Y; or ids, X, Y."""
    if len(rows) == 3 and ids is None:
        ids, rows = rows[0], rows[1:]
    if not 1 <= len(rows) <= 2:
        raise TypeError(
            f"{method} takes X and Y, with ids= for some models only, or ids, X and Y; got {len(rows)} arrays"
        )
    return rows[0], rows[1] if len(rows) == 2 else None, ids


def _tickets(tickets: Any) -> np.ndarray:
    given = np.asarray(tickets)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise TypeError(f"tickets must be whole numbers, shape (n,); got {given.dtype} of shape {given.shape}")
    return given.astype(np.int64)
