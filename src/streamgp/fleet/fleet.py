"""Fleet: many models of one recipe."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Any

import numpy as np

from streamgp.contract import passing
from streamgp.contract.conditions import NOISE, TIME
from streamgp.contract.lanes import ISSUE, LEARN, PREDICT, TAKE, TRACK
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.saved import Shape
from streamgp.contract.stackable import stands_for_many
from streamgp.contract.turns import guard
from streamgp.contract.within import family
from streamgp.cuda.record import UnfitError
from streamgp.fleet import checks, devices, own
from streamgp.fleet.alarms import Watch, fleet_rate
from streamgp.fleet.cuda import CudaEngine, DevicePrediction
from streamgp.fleet.devices import DEVICES, PRECISIONS
from streamgp.fleet.gpu import GpuEngine
from streamgp.fleet.models import Models
from streamgp.fleet.prior import candidates, tuned
from streamgp.fleet.rows import Arrival, Predicted, Rows, arrival, joined, plain, targets, times
from streamgp.process.compiled_model import CompiledModel
from streamgp.process.observation import GAUSSIAN
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
        self._settings |= own.checked(model, size, {"lengthscale": lengthscale, "variance": variance, "noise": noise})
        own.refuse_kernel(model, [] if prior is None else prior.start)
        for values in (self._own, {} if prior is None else prior.start):
            devices.refuse_unfit(device, precision, model, values)
        self._prior = prior
        self._recipe: StreamModel = model.clone()
        self._settings["model"] = self._recipe
        self._together = stands_for_many(model)  # one object stands for all models
        self._device = device, precision
        self._threads = threads
        self._places = pending
        self._issued = np.zeros(2, dtype=np.int64)
        if alarms is not None and device != "cpu":
            raise ValueError('alarms= needs device="cpu": rows are judged there; a fleet on a GPU raises none')
        self._rate, self._discounts = alarms, discount_spikes
        if alarms is not None and not (model.has_variance and model._observes == "numbers"):
            raise ValueError(
                f"alarms= judges the errors of numbers by the variance of predictions, and {type(model).__name__} has "
                "none; use Calibrated around a model of numbers"
            )
        if alarms is not None and discount_spikes and any(getattr(one, "_batch", 1) > 1 for one in family(model)):
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
        self._settings |= chosen | {"prior": found}
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
            Y, scalar = targets(Y, came, self._shape.outputs, self._as_it_is)
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
        Y, scalar = targets(Y, came, self._shape.outputs, self._as_it_is)
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
        if not self._checks_there:
            checks.refuse(self, grouped)
        if time is not None:
            conditions = np.full((len(grouped.X), NOISE + 1), np.nan)
            conditions[:, TIME] = times(time, came)
            grouped = grouped._replace(conditions=conditions)
            if self._recipe._moment is not None:
                checks.refuse_times(self, grouped)
        if self._engine is None and not self._own:  # all models are the prior
            prior = passing.started_for(self._recipe, grouped.X)
            columns: Predicted = passing.predicted(prior, grouped.X, grouped.conditions)
        elif self._engine is None:
            begun = self.clone()
            begun._begin(grouped, scalar=True)
            return begun.predict_many(X, ids, time=time)
        else:
            columns = self._run(grouped, PREDICT)
        return self._told(columns, came)

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
        if self._recipe._moment is not None:
            raise ValueError(
                "rows of a fleet wait without their time, which a kernel over time needs: use single models within "
                "Delayed, whose issue(x, time=t) keeps it"
            )
        came, X, scalar = self._arrived(X, ids)
        rows, d = came.rows(X), X.shape[-1]
        tickets = np.zeros(len(rows.X), dtype=np.int64)
        if not len(rows.X):
            return self._shaped(passing.nothing(self._prototype), came)._with(ticket=tickets[came.back])
        checks.refuse(self, rows)
        with self._undone_on_error(rows):
            if not self._shape.covers(certain=False):
                self._begin(rows, scalar)
            engine, waiting = self._engine, self._waiting
            assert engine is not None
            assert waiting is not None
            own, parts, places = slice(1 + d, 1 + d + engine.kept_width), [], []
            for part, where in rows.turns():
                lines = np.full((len(where), waiting.rows.shape[1]), np.nan)
                lines[:, 0], lines[:, 1 : 1 + d] = part.models, part.X
                numbers = None if self._watch is None else engine.rows_seen()[part.models]
                columns = engine.run(part, ISSUE, lines[:, own])
                if numbers is not None:  # by which the row is judged when its target comes
                    lines[:, own.stop :] = np.column_stack([numbers, *columns])
                tickets[where] = self._issued[0] + np.arange(len(lines))
                _, expired = waiting.issue(tickets[where], lines)
                self._issued += len(lines), expired
                parts.append(columns)
                places.append(where)
        return self._told(joined(parts, places), came)._with(ticket=tickets[came.back])

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
        places = self._waiting.find(given, int(self._issued[0]))
        d, p, scalar, certain, _ = self._shape
        lines, inputs = self._waiting.rows[places], slice(1, 1 + (d or 0))
        came = arrival(lines[:, 0].astype(np.int64), lines[:, inputs], self.size)
        Y, scalar = targets(Y, came, p)
        rows, lines = came.rows(lines[:, inputs], Y), came.grouped(lines)
        if not len(rows.X):
            return
        checks.refuse(self, rows)
        rows = rows._replace(conditions=checks.conditions(self, rows, came, noise, time))
        checks.refuse_no_time(self, rows)
        with self._undone_on_error(rows):
            if not certain:
                self._begin(rows, scalar)
            assert self._engine is not None
            own = slice(inputs.stop, inputs.stop + self._engine.kept_width)
            for part, where in rows.turns():
                if self._watch is not None:  # by what issue() has kept of the prediction
                    issued = lines[where, own.stop :]
                    columns = np.split(issued[:, 1:], len(self._prototype._columns), axis=1)
                    _, part = self._judged(self._watch, part, columns, issued[:, 0].astype(np.int64))
                self._engine.run(part, LEARN, lines[where, own])
            self._waiting.resolve(places)

    def waiting(self, tickets: Any) -> np.ndarray:
        """Return the id of the model whose row waits under each ticket, (n,); -1: no row does."""
        given = _tickets(tickets)
        if self._waiting is None:
            return np.full(len(given), -1)
        places = self._waiting.search(given)
        return np.where(places < 0, -1, self._waiting.rows[places, 0].astype(np.int64))

    def alarms(self) -> list[Alarm]:
        """Return the last alarms of all models, oldest first, at most 1000."""
        if self._rate is None:
            raise ValueError("this fleet raises no alarms: build it with alarms=, how many false ones may be")
        return [] if self._watch is None else self._watch.events()

    # How rows pass.

    @property
    def _as_it_is(self) -> bool:
        """Whether a GPU takes rows of any precision, also where those of a model lie apart."""
        return isinstance(self._engine, CudaEngine)

    @property
    def _checks_there(self) -> bool:
        """Whether rows are checked where the models are."""
        return self._engine is not None and self._engine.checks

    def _arrived(self, X: Any, ids: Any, as_came: bool = False) -> tuple[Arrival, FloatArray, bool]:
        """How rows came, apart where the engine can take them so, X as it came, and whether targets are numbers."""
        X = plain(X, "X", self._as_it_is)
        came = arrival(ids, X, self.size, as_came and self._as_it_is)
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
        if not self._checks_there:
            checks.refuse(self, rows)
        rows = rows._replace(conditions=checks.conditions(self, rows, came, noise, time))
        checks.refuse_no_time(self, rows)
        judged = None
        with self._undone_on_error(rows):
            if not self._shape.covers(Y is not None):
                self._begin(rows, scalar)
            assert self._engine is not None
            if self._watch is None or Y is None:
                columns = self._run(rows, TRACK if report else TAKE)
            else:
                columns, judged = self._watched(self._watch, self._engine, rows)
        if not report:
            return None
        shaped = self._told(columns, came)
        if judged is None:
            return shaped
        nats, kinds = (part[came.back].reshape(np.shape(shaped.mean)) for part in judged)
        return shaped._with(surprise=nats, alarm=words(kinds))

    def _run(self, rows: Rows, kind: int) -> Predicted:
        """Do the same operation on each row; an engine that checks rows itself may refuse some."""
        assert self._engine is not None
        try:
            return self._engine.run(rows, kind)
        except UnfitError as error:
            checks.refuse(self, rows.grouped())
            raise ValueError(str(error)) from None

    def _watched(self, watch: Watch, engine: devices.Engine, rows: Rows) -> tuple[Predicted, FloatArray]:
        """Judge and learn rows; their predictions, and surprises and kinds, (2, n, p)."""
        before, parts, found, places = engine.rows_seen(), [], [], []
        for turn, (part, where) in enumerate(rows.turns()):
            timed = part.conditions is not None and np.isfinite(part.conditions[:, TIME]).all()
            columns = engine.run(part._replace(conditions=part.conditions if timed else None), PREDICT)
            judged, learned = self._judged(watch, part, columns, before[part.models] + turn)
            engine.run(learned, TAKE)
            parts.append(columns)
            found.append(judged)
            places.append(where)
        return joined(parts, places), np.array(joined(found, places))

    def _judged(self, watch: Watch, rows: Rows, columns: Predicted, numbers: np.ndarray) -> tuple[FloatArray, Rows]:
        """Surprises and kinds of rows, one of each model, by numbers and predictions; and how they are learned."""
        assert rows.Y is not None
        prediction = self._prototype._told(list(columns))
        found, limit = watch.judge(rows.models, numbers, prediction, rows.Y, rows.conditions)
        return found, _discounted(self._recipe, rows, found, limit) if self._discounts else rows

    def _told(self, columns: Predicted, came: Arrival) -> Prediction:
        """The prediction of grouped rows, as users see it."""
        told: Prediction = self._prototype._told(list(columns))
        return self._shaped(told._shaped(scalar=self._prototype._shape.scalar, many=True), came)

    def _shaped(self, prediction: Prediction, came: Arrival) -> Prediction:
        """A prediction of grouped rows, arranged as they came."""
        if came.order is not None:
            return prediction[came.back]
        return prediction._arranged(came.shape)

    # Rows on a GPU.

    def _there(
        self, X: Any, Y: Any, ids: Any, *, learned: bool, given: tuple[Any, Any] = (None, None)
    ) -> DevicePrediction:
        """Rows of all models that are on a GPU, as torch, CuPy and JAX have them."""
        if self._device[0] == "cpu" or not is_bare(self._prototype):
            raise TypeError(
                'X is on a GPU, and this fleet takes no such rows: build it with device="cuda" of a bare model with '
                "Gaussian noise and no mean=, such as KRLST, or hand over NumPy arrays"
            )
        if self._shape.p not in (None, 1):
            raise ValueError(
                f"rows on a GPU have one target each, and these models have {self._shape.p}; hand over NumPy arrays"
            )
        if ids is not None:
            raise ValueError(
                "rows on a GPU are those of all models, without ids; hand over NumPy arrays for some models"
            )
        if given != (None, None):
            raise ValueError("rows on a GPU come without noise= and time=; hand over NumPy arrays with them")
        if learned and not is_on_a_gpu(Y):
            raise TypeError("X is on a GPU: Y must be there as well")
        if learned:
            checks.refuse_no_times(self, np.zeros(1, int), np.array([0, 1]), np.ones(1, bool))
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
        assert isinstance(self._engine, CudaEngine | GpuEngine)
        return self._engine.there(came, X, Y)


guard(Fleet, set())


def is_bare(model: StreamModel) -> bool:
    """Whether the loop of a model alone makes its predictions: of a mean, a variance and a noise."""
    if isinstance(model, OnlineGP):
        return model._likelihood.kind == GAUSSIAN and model._mean is None
    return isinstance(model, CompiledModel)


def is_on_a_gpu(values: Any) -> bool:
    return hasattr(values, "__cuda_array_interface__")


def _discounted(recipe: StreamModel, rows: Rows, found: FloatArray, limit: float) -> Rows:
    """Rows of different models, those with a spike as Alarms learns them."""
    assert rows.Y is not None
    at = np.flatnonzero(((found[1] == SPIKE) & ~np.isnan(rows.Y)).any(axis=1))
    if not len(at):
        return rows
    Y, conditions = rows.Y.copy(), rows.conditions
    Y[at], given = discounted(recipe, Y[at], None if conditions is None else conditions[at], found[:, at], limit)
    if given is not None:
        conditions = np.full((len(Y), given.shape[1]), np.nan) if conditions is None else conditions.copy()
        conditions[at] = given
    return rows._replace(Y=Y, conditions=conditions)


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
