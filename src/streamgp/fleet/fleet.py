"""Fleet: many models of one recipe."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np

from streamgp.contract import inputs
from streamgp.contract.atomic import uninterrupted
from streamgp.contract.conditions import NOISE, TIME
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.saved import Saved, Shape, refuse_unlike, restored
from streamgp.contract.snapshot import described
from streamgp.contract.turns import guard
from streamgp.cuda.exchange import NUMBERS
from streamgp.cuda.record import UnfitError
from streamgp.fleet import devices, own
from streamgp.fleet.alarms import FleetAlarm, Watch, fleet_rate
from streamgp.fleet.around import AroundEngine
from streamgp.fleet.cpu import fits
from streamgp.fleet.cuda import RECORDS, CudaEngine, DevicePrediction
from streamgp.fleet.devices import DEVICES, PRECISIONS, Engine
from streamgp.fleet.late import Waiting
from streamgp.fleet.prior import LEAST_SHARE, candidates, learned
from streamgp.fleet.rows import Arrival, Rows, arrival, checked_ids, go_back, noises, plain, targets, times
from streamgp.process.onlinegp import OnlineGP
from streamgp.process.prior import Prior, with_own
from streamgp.settings import FloatArray, Setting, one_of, optional, whole
from streamgp.wrappers.wrapper import joined

ROWS_PER_CHECK = 50_000  # for which a thread is worth its start


class FleetHealth(NamedTuple):
    """Numerical repairs of a fleet.

    Args:
        total: of all models together.
        models: an array (size,) of each kind; ``models.repairs`` counts those of each model.
    """

    total: Health
    models: Health


class Fleet(Saved):
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
            Setting("that run models at the same time; None: as many as there are cores", check=optional(whole)),
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
        if pending:
            self._recipe._expect_late(0, pending)
        self._settings["model"] = self._recipe
        self._together = fits(model)  # one object stands for all models
        self._whole = device == "cuda" and isinstance(model, OnlineGP)  # nothing of the models is on the cores
        self._device = device, precision
        self._threads = threads
        self._engine: Engine | None = None
        self._places = pending
        self._waiting: Waiting | None = None  # until the first row is issued
        if alarms is not None and device != "cpu":
            raise ValueError('alarms= needs device="cpu": rows are judged there; a fleet on a GPU raises none')
        self._rate = alarms
        self._watch: Watch | None = None  # until the first row has come
        if alarms is not None and not (model.has_variance and model._observes == "numbers"):
            raise ValueError(
                f"alarms= judges the errors of numbers by the variance of predictions, and {type(model).__name__} has "
                "none; use Calibrated around a model of numbers"
            )
        self._prototype = self._recipe  # prepared for the rows once they have come

    # The state.

    def _prepare(self, shape: Shape) -> None:
        if (self._shape.d, self._shape.p) != (shape.d, shape.p):
            (prototype, _), *_ = own.recipes(self._recipe, self._own, np.arange(min(1, self.size)))
            prototype._prepare(shape)
            engine = devices.engine(*self._device, prototype, self.size, self._threads)
            if self._own:
                self._begin_models(engine, np.arange(self.size), shape)
            if self._engine is not None:  # rows have come, but no target: memories are carried over
                for i in range(self.size):
                    single = self._single(i)
                    single._prepare(shape)
                    engine.put(i, single)
            if self._waiting is not None and len(self._waiting):
                raise ValueError(
                    f"a fleet that issues rows before its first target has one output; got {shape.p}. Learn some rows "
                    "first, then issue."
                )
            self._prototype, self._engine = prototype, engine
            if self._rate is not None:
                self._watch = Watch(self._rate, self.size, shape.p or 1)
            if self._places:
                waiting, before = Waiting(self._places, engine.held_width(), self.size), self._waiting
                if before is not None:
                    waiting.count_on(before)
                self._waiting = waiting
        self._prototype._shape = self._shape = shape

    def _begin_models(self, engine: Engine, models: np.ndarray, shape: Shape) -> None:
        """Give models that have learned nothing the hyperparameters that are their own."""
        if isinstance(engine, CudaEngine):
            engine.begin(models, own.named(self._recipe, self._own, models, shape.d or 1))
            return
        for single, some in own.recipes(self._recipe, self._own, models):
            single._prepare(shape)
            for i in some.tolist():
                engine.put(i, single)

    def tune(self, X: Any, Y: Any, *, rows: int = 400, models: int = 500) -> Prior:
        """Choose the hyperparameters of each model before its first row, by its own rows and by what all of them say.

        Candidates around those of the recipe are scored by the log density of rows before they are learned; how common
        each is follows from all models (expectation maximization), and each model takes the geometric mean under its
        own evidence. Nothing else is learned: hand the rows over again.

        Args:
            X: (rows, size, d) first rows of all models.
            Y: (rows, size) their targets; NaN where missing.
            rows: most of them that count.
            models: most of them, spread evenly, from which the prior is learned.

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
        tried = candidates(self._recipe, X.shape[2])
        own.refuse_kernel(self._recipe, tried)
        some = np.unique(np.linspace(0, self.size - 1, min(self.size, whole("models", models))).astype(int))
        found, shares = learned(tried, self._scores(X[:, some], Y[:, some], tried))
        if len(some) < self.size:  # the others are asked about what is not rare only
            found = found.among(found.shares >= LEAST_SHARE)
            _, shares = learned(found.candidates, self._scores(X, Y, found.candidates), found)
        chosen = found.average(shares)
        for values in (chosen, found.start):
            devices.refuse_unfit(*self._device, self._recipe, values)
        self._own = chosen
        self._settings |= self._own | {"prior": found}
        self._prior, self._engine, self._shape = found, None, Shape()
        return found

    def _scores(self, X: FloatArray, Y: FloatArray, tried: dict[str, FloatArray]) -> FloatArray:
        """The log density of the rows of each model under each candidate, (models, candidates)."""
        size, n = X.shape[1], len(next(iter(tried.values())))
        scores = np.empty((size, n))
        for k in range(n):
            single = with_own(self._recipe, {name: values[k] for name, values in tried.items()})
            p = Fleet(single, size=size, threads=self._threads, device=self._device[0]).track(X, Y)
            with np.errstate(invalid="ignore"):
                scores[:, k] = np.nansum(p.log_density(Y), axis=0)
        return scores

    def _knowledge(self) -> tuple[Shape, dict[str, np.ndarray], dict[str, Any]]:
        """A fleet that all models have left is as new, but for its tickets."""
        return super()._knowledge() if self.size or self._waiting is not None else (Shape(), {}, {})

    def _all_arrays(self) -> dict[str, np.ndarray]:
        assert self._engine is not None
        return self._engine.arrays() | self._own_arrays()

    def _own_arrays(self) -> dict[str, np.ndarray]:
        """The state that is not the models'."""
        parts = (self._waiting, self._watch)
        return {name: array for part in parts if part is not None for name, array in part.arrays().items()}

    def _restore(self, saved: dict[str, np.ndarray]) -> None:
        """Take over a saved state, also one of another device."""
        assert self._engine is not None
        own = self._own_arrays()
        models = {name: array for name, array in saved.items() if name not in own}
        device, precision = self._device
        here = "" if device == "cpu" else np.dtype(NUMBERS[precision]).name
        if here == (saved[RECORDS].dtype.name if RECORDS in saved else ""):  # the same device and precision
            refuse_unlike({name: saved[name] for name in own if name in saved}, own)
            self._engine.restore(models)
        else:
            source = devices.stand_in(self._prototype, self.size, models)
            if self._own:
                self._begin_models(source, np.arange(self.size), self._shape)
            source.restore(models)
            for i in range(self.size):
                if i == 0 or self._own:  # otherwise one takes over after the other
                    single = self._blank(i)
                    single._prepare(self._shape)
                source.take(i, single)
                self._engine.put(i, single)
        if self._waiting is not None:
            self._waiting.restore(saved)
        if self._watch is not None:
            for name, array in self._watch.arrays().items():
                array[...] = saved[name]

    def _check_restored(self) -> None:
        assert self._engine is not None
        for part in (self._waiting, self._watch):
            if part is not None:
                part.check_restored()
        self._engine.check_restored()

    def _single(self, i: int) -> StreamModel:
        """Model i on its own."""
        single = self._blank(i)
        if self._engine is not None:
            single._prepare(self._shape)
            self._engine.take(i, single)
        return single

    def _blank(self, i: int) -> StreamModel:
        """Model i before its first row."""
        ((single, _),) = own.recipes(self._recipe, self._own, np.array([i]))
        return single

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
                over time; None: one after the last row of each.
        """
        if is_on_a_gpu(X):
            return self._there(X, None, ids, learned=False)  # type: ignore[return-value]
        came, X, _ = self._arrived(X, ids, as_came=True)
        grouped = came.rows(X)
        if not len(grouped.X):
            return self._shaped(self._prototype._empty(), came)
        if self._engine is None or not self._engine.checks_rows:
            self._refuse(grouped)
        if time is not None:
            conditions = np.full((len(grouped.X), NOISE + 1), np.nan)
            conditions[:, TIME] = times(time, came)
            grouped = grouped._replace(conditions=conditions)
            self._refuse_past(grouped)
        if self._engine is None and not self._own:  # all models are the prior
            prediction = self._recipe._started_for(grouped.X)._predict(grouped.X, grouped.conditions)
        elif self._engine is None:
            begun = self.clone()
            begun._begin(grouped, scalar=True)
            return begun.predict_many(X, ids, time=time)
        else:
            with self._unfit_rows_named(grouped):
                prediction = self._engine.predict(grouped)
        return self._shaped(self._prototype._shaped(prediction, many=True), came)

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
            return dataclasses.replace(self._shaped(self._prototype._empty(), came), ticket=tickets[came.back])
        self._refuse(rows)
        with self._undone_on_error(rows):
            if not self._shape.covers(certain=False):
                self._begin(rows, scalar)
            assert self._engine is not None
            assert self._waiting is not None
            parts, places = [], []
            for part, where in rows.turns():
                prediction, held = self._engine.issue(part)
                tickets[where] = self._waiting.put(part.models, held)
                parts.append(prediction)
                places.append(where)
        together = self._prototype._shaped(joined(parts), many=True)[np.argsort(np.concatenate(places))]
        return dataclasses.replace(self._shaped(together, came), ticket=tickets[came.back])

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
        d, p, scalar, certain = self._shape
        came = arrival(self._waiting.models_of(places), self._waiting.held(places)[:, :d], self.size)
        Y, scalar = targets(Y, came, p)
        rows = came.rows(self._waiting.held(places)[:, :d], Y)
        if not len(rows.X):
            return
        self._refuse(rows)
        rows = rows._replace(conditions=self._conditions(rows, came, noise, time))
        grouped = came.grouped(places[:, None])[:, 0]
        with self._undone_on_error(rows):
            if not certain:
                self._begin(rows, scalar)
            assert self._engine is not None
            for part, where in rows.turns():
                now = grouped[where]
                self._engine.resolve(part, self._waiting.held(now), *self._waiting.state_of(now))
                self._waiting.take(now)

    def waiting(self, tickets: Any) -> np.ndarray:
        """Return the id of the model whose row waits under each ticket, (n,); -1: no row does."""
        given = _tickets(tickets)
        return np.full(len(given), -1) if self._waiting is None else self._waiting.under(given)

    def pinned(self, rows: int | None = None, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
        """Arrays X and Y for rows of all models, which a GPU takes without a copy; fill them before each call.

        Args:
            rows: of each model; None: one, and the arrays have no axis for it.
            dtype: ``numpy.float32`` takes half the time to come to the GPU.

        Returns:
            X of shape (rows, size, d) and Y of shape (rows, size), in pinned memory on ``device="cuda"``.
        """
        if self._engine is None or self._shape.d is None:
            raise ValueError("the fleet has seen no rows yet, and does not know how many inputs they have")
        number = float_type(dtype)
        shape = (self.size,) if rows is None else (whole("rows", rows), self.size)
        n = int(np.prod(shape))
        if isinstance(self._engine, CudaEngine):
            X, Y = self._engine.pinned(n, number)
        else:
            X, Y = np.zeros((n, self._shape.d), number), np.zeros(n, number)
        return X.reshape(*shape, self._shape.d), Y.reshape(shape)

    def _there(
        self, X: Any, Y: Any, ids: Any, *, learned: bool, given: tuple[Any, Any] = (None, None)
    ) -> DevicePrediction:
        """Rows of all models that are on a GPU, as torch, CuPy and JAX have them."""
        if not self._whole:
            raise TypeError(
                'X is on a GPU, and this fleet is not: build it with device="cuda" and a bare recipe, or hand over '
                "NumPy arrays"
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
        prediction = self._engine.there(came, X, Y, learned)
        if learned and self._waiting is not None:
            self._waiting.passed(came.models)
        return prediction

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
        d, _, scalar, _ = self._shape
        if d is not None and X.shape[-1] != d:
            raise ValueError(f"X must have {d} columns, as the first rows had; got {X.shape[-1]}")
        return came, X, scalar

    def _take(
        self, came: Arrival, X: FloatArray, Y: FloatArray | None, scalar: bool, noise: Any, time: Any, *, report: bool
    ) -> Any:
        rows = came.rows(X, Y)
        if not len(rows.X):
            return self._shaped(self._prototype._empty(), came) if report else None
        if self._engine is None or not self._engine.checks_rows:
            self._refuse(rows)
        rows = rows._replace(conditions=self._conditions(rows, came, noise, time))
        self._refuse_no_time(rows)
        judged = None
        with self._undone_on_error(rows):
            if not self._shape.covers(Y is not None):
                self._begin(rows, scalar)
            assert self._engine is not None
            watched = self._watch is not None and Y is not None
            before = self._engine.rows_seen() if watched else None
            with self._unfit_rows_named(rows):
                prediction = self._engine.advance(rows, report or watched)
            if self._waiting is not None:
                self._waiting.passed(rows.models)
        if prediction is not None and before is not None:
            with uninterrupted():
                judged = self._judge(rows, prediction, before)
        if prediction is None or not report:
            return None
        shaped = self._shaped(self._prototype._shaped(prediction, many=True), came)
        if judged is None:
            return shaped
        nats, alarm = (part[came.back].reshape(np.shape(shaped.mean)) for part in judged)
        return dataclasses.replace(shaped, surprise=nats, alarm=alarm)

    def _judge(self, rows: Rows, prediction: Prediction, before: np.ndarray) -> tuple[FloatArray, np.ndarray]:
        """Surprises and alarms of rows that were learned, (n, p); models had seen so many rows before."""
        assert self._watch is not None
        assert rows.Y is not None
        nats, alarm = np.full(rows.Y.shape, np.nan), np.full(rows.Y.shape, "", dtype="<U8")
        for turn, (part, where) in enumerate(rows.turns()):
            assert part.Y is not None
            time = None if part.conditions is None else part.conditions[:, TIME]
            of_part = prediction._each(lambda values, where=where: values[where])
            nats[where], alarm[where] = self._watch.judge(
                part.models, before[part.models] + turn, of_part, part.Y, time
            )
        return nats, alarm

    def _refuse_no_time(self, rows: Rows) -> None:
        """Refuse rows without a time where the budget of alarms is one of time."""
        if rows.Y is None or self._rate is None or not self._rate[1]:
            return
        if rows.conditions is None or not np.isfinite(rows.conditions[:, TIME]).all():
            raise ValueError(
                f"alarms={self._settings['alarms']!r} counts alarms by time, so that every row needs its own: "
                "fleet.track(X, Y, time=times); nothing was learned. Without times give alarms for each row of the "
                "fleet, such as alarms=0.01"
            )

    def alarms(self) -> list[FleetAlarm]:
        """Return the last alarms of all models, oldest first, at most 1000."""
        if self._rate is None:
            raise ValueError("this fleet raises no alarms: build it with alarms=, how many false ones may be")
        return [] if self._watch is None else self._watch.events()

    @contextmanager
    def _unfit_rows_named(self, rows: Rows) -> Iterator[None]:
        """Where an engine that checks rows itself refuses some: say which."""
        try:
            yield
        except UnfitError as error:
            self._refuse(rows.grouped())
            raise ValueError(str(error)) from None

    def _begin(self, rows: Rows, scalar: bool) -> None:
        """Allocate for the first rows, or for the first target."""
        probe = self._recipe.clone()  # it may know how many outputs there are before the first target
        Y = None if rows.Y is None else rows.Y[:1]
        probe._begin(rows.X[:1], Y, scalar, Y is not None, many=True)
        self._prepare(probe._shape)

    @contextmanager
    def _undone_on_error(self, rows: Rows) -> Iterator[None]:
        """Undo what a block that takes rows changed of their models, and of the rows that wait, if it raises."""
        shape, prototype, engine, waiting = self._shape, self._prototype, self._engine, self._waiting
        undo = None if engine is None else engine.undo_of(rows)
        waited = {} if undo is None or waiting is None else {n: array.copy() for n, array in waiting.arrays().items()}
        with uninterrupted() if undo is None and engine is not None else nullcontext():
            try:
                yield
            except BaseException:
                with uninterrupted():
                    self._prototype, self._engine, self._waiting = prototype, engine, waiting
                    self._shape = self._prototype._shape = shape
                    if undo is not None:
                        undo()
                    for name, array in ({} if waiting is None else waiting.arrays()).items():
                        if name in waited:
                            array[...] = waited[name]
                raise

    def _refuse(self, rows: Rows) -> None:
        """Refuse numbers that no model of this recipe takes, before any model has changed."""
        _checked_by_model(rows, self._refuse_numbers)

    def _refuse_numbers(self, rows: Rows) -> None:
        parts = min(devices.cores(), len(rows.X) // ROWS_PER_CHECK)
        if parts < 2:
            self._recipe._refuse_unfit(rows.X, rows.Y)
        else:
            with ThreadPoolExecutor(parts) as pool:
                list(pool.map(lambda part: self._recipe._refuse_unfit(part.X, part.Y), rows.cut(parts)))

    def _conditions(self, rows: Rows, came: Arrival, noise: Any, time: Any) -> FloatArray | None:
        """What is said of rows besides, checked (contract/conditions.py)."""
        recipe = self._recipe
        if noise is None and time is None and not recipe._needs_time:
            return None
        p = (self._shape.p or 1) if rows.Y is None else rows.Y.shape[1]
        result = np.full((len(rows.X), NOISE + (1 if recipe._shared else p)), np.nan)
        if noise is not None:
            if self._together and (why := recipe._refuses_noise(p)):  # other models say so themselves
                raise ValueError(why)
            given = rows._replace(conditions=noises(noise, came, p))
            _checked_by_model(given, self._noises)
            result[:, NOISE:] = self._noises(given)
        if time is not None:
            result[:, TIME] = times(time, came)
        if recipe._needs_time and self._together:
            for j in go_back(rows, result[:, TIME], self._clock())[:1].tolist():
                wrong = rows._replace(conditions=result).between(j, j + 1)
                _checked_by_model(wrong, lambda part: self._refuse_times(part, time is None))
        return result

    def _noises(self, rows: Rows) -> FloatArray:
        """The noises of rows, which stand for their conditions, checked."""
        learned = np.zeros((len(rows.X), self._shape.p or 1), dtype=bool) if rows.Y is None else ~np.isnan(rows.Y)
        return inputs.noises(rows.conditions, learned, self._recipe._shared, many=len(rows.X) > 1)

    def _clock(self) -> FloatArray:
        """When each model learned last; NaN: never."""
        if self._engine is None:
            return np.full(self.size, np.nan)
        if isinstance(self._engine, CudaEngine | AroundEngine):
            return self._engine.clock()
        clock = next(array for name, array in self._engine.arrays().items() if name.endswith("clock"))
        last: FloatArray = np.where(np.isnan(clock[:, 0]), -np.inf, clock[:, 0]).max(axis=1)
        return last

    def _refuse_times(self, rows: Rows, without: bool) -> None:
        """Say what is wrong with the times of one model."""
        assert rows.conditions is not None
        assert rows.Y is not None
        time, learned = None if without else rows.conditions[:, TIME], np.asarray((~np.isnan(rows.Y)).any(axis=1))
        for one in self._single(int(rows.models[0]))._family():
            one._refuse_times(time, learned, len(learned) > 1)

    def _refuse_past(self, rows: Rows) -> None:
        """Refuse times before what a model with a kernel over time has learned; models of any kind do so themselves."""
        if not self._together or self._recipe._moment() is None:
            return
        assert rows.conditions is not None
        time, clock = rows.conditions[:, TIME], np.repeat(self._clock()[rows.models], np.diff(rows.starts))
        for row in np.flatnonzero(~np.isfinite(time) | (time < clock))[:1].tolist():
            j = int(np.searchsorted(rows.starts, row, side="right")) - 1
            _checked_by_model(rows.between(j, j + 1), self._past_of_one)

    def _past_of_one(self, rows: Rows) -> None:
        assert rows.conditions is not None
        self._single(int(rows.models[0]))._conditions_at(rows.conditions[:, TIME], len(rows.X), many=True)

    def _shaped(self, prediction: Prediction, came: Arrival) -> Prediction:
        """A prediction of grouped rows, arranged as they came."""
        if came.order is not None:
            return prediction[came.back]
        like = np.shape(prediction.mean)
        return prediction._each(lambda part: np.broadcast_to(part, like).reshape(*came.shape, *like[1:]))

    # Models.

    def model(self, i: int) -> StreamModel:
        """Return model i as a single model, an independent copy."""
        return self._single(self._checked(i))

    def replace(self, i: int, model: StreamModel) -> None:
        """Put a copy of a single model of the same recipe in the place of model i."""
        i = self._checked(i)
        if not isinstance(model, StreamModel) or not _same_recipe(
            own.without(self._recipe, self._own, model), self._recipe
        ):
            raise ValueError(
                f"a model of a fleet must have the settings of all: {self._recipe!r}; got {model!r}. Take it from "
                "fleet.model(i), or build it with the same settings."
            )
        devices.refuse_unfit(*self._device, model, {})
        twin, mine = model.copy(), self._shape
        theirs = twin._shape
        if theirs.d is not None and mine.d is not None:
            both_known = theirs.certain and mine.certain
            if theirs.d != mine.d or (both_known and theirs.p != mine.p):
                raise ValueError(
                    f"the models of this fleet have {mine.d} inputs and {mine.p} outputs; got a model with {theirs.d} "
                    f"and {theirs.p}"
                )
        if theirs.d is not None and (mine.d is None or (theirs.certain and not mine.certain)):
            self._prepare(theirs)
        for name, values in self._own.items():
            values[i] = own.usual(model, name)
        if self._engine is not None:
            twin._prepare(self._shape)
            self._engine.put(i, twin)
        if self._watch is not None:
            self._watch.start_again(i)
        if self._waiting is not None:
            self._waiting.passed(np.array([i]))

    def add(self, n: int = 1) -> np.ndarray:
        """Add models that have learned nothing; return their ids, which follow those of the others."""
        whole("n", n)
        added = np.arange(self.size, self.size + n)
        begin = {} if self._prior is None else self._prior.start
        self._own = own.extended(self._recipe, self._own, (self.size, n), begin)
        self._settings |= self._own
        if self._engine is not None:
            self._engine.add(n)
            if self._own:
                self._begin_models(self._engine, added, self._shape)
        for part in (self._waiting, self._watch):
            if part is not None:
                part.add(n)
        self._settings["size"] += n
        return np.arange(self.size - n, self.size)

    def remove(self, ids: Any) -> None:
        """Remove models, one or several; the models after them move up, so that ids are again 0 to size - 1."""
        gone = checked_ids(np.atleast_1d(np.asarray(ids)), self.size)
        kept = np.setdiff1d(np.arange(self.size), gone)
        self._own = {name: values[kept] for name, values in self._own.items()}
        self._settings |= self._own
        if self._engine is not None:
            self._engine.keep(kept)
        for part in (self._waiting, self._watch):
            if part is not None:
                part.keep(kept)
        self._settings["size"] = len(kept)

    def _checked(self, i: Any) -> int:
        return int(checked_ids(np.atleast_1d(np.asarray(i)), self.size)[0])

    def to(self, device: str, precision: str = "double") -> Fleet:
        """Return a fleet of the same models on another device.

        Args:
            device: "cpu" or "cuda".
            precision: "double" or "single".
        """
        moved: Fleet = restored(Fleet, self._settings | {"device": device, "precision": precision}, *self._knowledge())
        return moved

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        return super().get_params(deep) | {"model": self._recipe.clone()}

    # What can be read.

    @property
    def _without_inputs(self) -> bool:
        return self._recipe._without_inputs

    @property
    def size(self) -> int:
        """How many models there are."""
        size: int = self._settings["size"]
        return size

    def __len__(self) -> int:
        return self.size

    @property
    def rows_seen(self) -> np.ndarray:
        """Rows of each model, with or without a target, (size,)."""
        return np.zeros(self.size, dtype=np.int64) if self._engine is None else self._engine.rows_seen()

    @property
    def health(self) -> FleetHealth:
        """Numerical repairs so far, in sum and of each model."""
        none = np.zeros(self.size, dtype=np.int64)
        models = Health(*(none,) * len(Health._fields)) if self._engine is None else self._engine.health()  # type: ignore[arg-type]
        return FleetHealth(Health(*(int(np.sum(kind)) for kind in models)), models)

    @property
    def pending(self) -> int:
        """Rows that wait for their targets."""
        return 0 if self._waiting is None else len(self._waiting)

    @property
    def expired(self) -> int:
        """Rows whose targets had not come when newer rows took their places."""
        return 0 if self._waiting is None else self._waiting.expired

    def broken(self) -> np.ndarray:
        """Return the ids of models whose numbers arithmetic cannot go on with; normally none."""
        return np.zeros(0, dtype=np.int64) if self._engine is None else self._engine.broken()

    def refresh(self) -> np.ndarray:
        """Make broken models anew, in double precision, from their basis; return their ids.

        One whose numbers are not finite starts again. In single precision this is done by itself now and then.
        """
        return np.zeros(0, dtype=np.int64) if self._engine is None else self._engine.refresh()


guard(Fleet, {"size", "clone", "get_params"})


def is_on_a_gpu(values: Any) -> bool:
    return hasattr(values, "__cuda_array_interface__")


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


def _same_recipe(model: StreamModel, other: StreamModel) -> bool:
    (mine, my_arrays), (theirs, their_arrays) = described(model), described(other)
    return (
        mine == theirs
        and my_arrays.keys() == their_arrays.keys()
        and all(np.array_equal(array, their_arrays[name]) for name, array in my_arrays.items())
    )


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


def _checked_by_model(rows: Rows, check: Callable[[Rows], object]) -> None:
    """Check rows of many models at once; the first model whose rows are refused says why."""
    try:
        check(rows)
    except ValueError:
        for j, model in enumerate(rows.models.tolist()):
            try:
                check(rows.between(j, j + 1))
            except ValueError as error:
                raise ValueError(f"model {model}: {error}") from None
        raise
