"""Fleets: many sensors of one kind of model behind one name, learned in one call for all rows of a request.

A fleet takes the place of a stream's learner: the same queue, journal, snapshots and answers serve it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from streamgp.contract import snapshot, tally
from streamgp.contract.loading import model_of
from streamgp.contract.prediction import Prediction
from streamgp.contract.stackable import stands_for_many
from streamgp.contract.within import all_arrays
from streamgp.fleet.fleet import Fleet
from streamgp.job.named import value_of
from streamgp.job.request import AUTO, MOST_PENDING, Request, RunSettings
from streamgp.job.told import of_alarm
from streamgp.serve import cost, history
from streamgp.serve.messages import (
    DriftEvent,
    FleetDetail,
    FleetSettings,
    Health,
    HistoryAnswer,
    HistoryQuery,
    PredictAnswer,
    PredictedRow,
    RefusedError,
    Row,
    RowsAnswer,
    Scores,
    Sensor,
    SensorList,
    SensorQuery,
    TargetsAnswer,
    TicketRow,
    refusing,
)
from streamgp.serve.ops import Issued, Note, Op, Outcome
from streamgp.settings import FloatArray, whole
from streamgp.tables.dates import TimeReader
from streamgp.tables.numbers import as_number
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.standardize import Standardize

KEPT = 100  # newest rows of each sensor that are kept for its history
OWN = ("alarms", "pending", "warmup")  # settings that are not the model's
SPREAD = (0.05, 0.5, 0.95)  # of sensors, in the details and the metrics of a fleet
WAITING = 5  # numbers of a row that waits: its ticket, its model, mean, lower, upper
LONGEST_ID = 200  # characters


class FleetLearner:
    """What a fleet has learned.

    Args:
        settings: of the fleet.
        tag: begins its tickets.
        issued: tickets that were given before.
    """

    def __init__(self, settings: FleetSettings, tag: str, issued: int = 0) -> None:
        self.settings, self.tag = settings, tag
        self.fleet = fleet_of(settings)
        self.numbers: dict[str, int] = {}  # of sensors in the fleet, by id
        self.tickets = Issued(tag, pending_of(settings), issued)
        size = settings.size
        self._arrays = {
            "inputs": np.full((size, len(settings.inputs)), np.nan),  # the last that are known
            "lagged": np.full((size, settings.lags), np.nan),  # past targets, the newest first
            "recent": np.full((size, KEPT, 4), np.nan),  # target, mean, lower, upper: a ring
            "rows": np.zeros(size, dtype=np.int64),
            "sums": np.zeros((size, len(tally.Scored._fields))),
            "alarms": np.zeros(size, dtype=np.int64),
        }
        self._reader = TimeReader()

    @property
    def rows(self) -> int:
        return int(self._arrays["rows"].sum())

    def apply_all(self, ops: Sequence[Op]) -> list[Outcome | RefusedError]:
        """Do requests in their order. RefusedError: nothing has changed; after any other, load the state anew."""
        return [self._outcome(op) for op in ops]

    def _outcome(self, op: Op) -> Outcome | RefusedError:
        try:
            return {"rows": self._rows, "predict": self._predict, "targets": self._targets}[op.kind](op)
        except RefusedError as problem:
            return problem

    def report_to(self, say: Callable[[str], None]) -> None:
        """Nothing that a fleet does takes seconds."""

    # Rows.

    def _rows(self, op: Op) -> Outcome:
        arrays, settings = self._arrays, self.settings
        models, new = self._models(op.rows)
        y, time = self._column(op.rows, settings.target), self._times(op.rows)
        sensors, turns = _turns(models)
        X, inputs, lagged = self._inputs(op.rows, models, sensors, turns, y)
        whole_rows = np.isfinite(X).all(axis=1)
        told = np.full((len(op.rows), 4), np.nan)  # mean, lower, upper, std
        kinds = np.full(len(op.rows), "", dtype=object)
        before = self._noted
        if whole_rows.any():
            when = None if time is None else time[whole_rows]
            with refusing("bad_row"):
                seen = self.fleet.track(X[whole_rows], y[whole_rows], ids=models[whole_rows], time=when)
            told[whole_rows] = _told(seen, settings.level)
            if seen.alarm is not None:
                kinds[whole_rows] = seen.alarm
        self.numbers |= new
        arrays["inputs"][sensors], arrays["lagged"][sensors] = inputs, lagged
        rows = self._keep(models, turns, y, told)
        ids = [str(row[settings.id]) for row in op.rows]
        columns = (column.tolist() for column in (rows, *told.T))
        answers = [PredictedRow(*values) for values in zip(*columns, ids, kinds.tolist(), strict=True)]
        return Outcome(RowsAnswer(answers, self.rows), notes=self._notes(before))

    def _models(self, rows: Sequence[Row]) -> tuple[np.ndarray, dict[str, int]]:
        """The numbers of the sensors of rows, and those of new ones by id."""
        known, name, new = self.numbers, self.settings.id, dict[str, int]()
        models = np.empty(len(rows), dtype=np.int64)
        for i, row in enumerate(rows):
            sensor = row.get(name)
            if type(sensor) is int:
                sensor = str(sensor)
            if not isinstance(sensor, str) or not 0 < len(sensor) <= LONGEST_ID:
                raise bad_row(i, f"has no id: {name!r} must be text of up to {LONGEST_ID} characters or a whole number")
            number = known.get(sensor)
            models[i] = new.setdefault(sensor, len(known) + len(new)) if number is None else number
        if len(known) + len(new) > self.settings.size:
            full = f"the fleet has room for {self.settings.size} ids: {len(known)} are known, {len(new)} are new"
            raise RefusedError("fleet_full", full, "create a fleet with a larger size")
        return models, new

    def _column(self, rows: Sequence[Row], name: str) -> FloatArray:
        """The numbers of a column; NaN where missing."""
        found = np.full(len(rows), np.nan)
        for i, row in enumerate(rows):
            if (number := as_number(row.get(name))) is None:
                raise bad_row(i, f"has {row[name]!r} in the column {name!r}, which holds numbers")
            found[i] = number
        for i in np.flatnonzero(np.isinf(found))[:1]:
            raise bad_row(i, f"has an infinite number in the column {name!r}")
        return found

    def _times(self, rows: Sequence[Row]) -> FloatArray | None:
        if (name := self.settings.time) is None:
            return None
        values: list[Any] = [row.get(name) for row in rows]
        found = np.array(
            [float(v) if type(v) in (int, float) else self._reader.seconds(str(v)) for v in values], dtype=np.float64
        )
        for i in np.flatnonzero(~np.isfinite(found))[:1]:
            raise bad_row(i, f"has {values[i]!r} in {name!r}, which is no time: send ISO 8601, or seconds since 1970")
        return found

    def _inputs(
        self,
        rows: Sequence[Row],
        models: np.ndarray,
        sensors: np.ndarray,
        turns: Sequence[np.ndarray],
        y: FloatArray | None,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What the models see of rows, with the last input where one is missing; and what is known of these sensors
        after the rows."""
        columns = [self._column(rows, name) for name in self.settings.inputs]
        given = np.array(columns).reshape(-1, len(rows)).T
        inputs, lagged = (self._arrays[name][sensors] for name in ("inputs", "lagged"))
        X = np.empty((len(rows), inputs.shape[1] + lagged.shape[1]))
        for where in turns:
            at = np.searchsorted(sensors, models[where])
            inputs[at] = np.where(np.isnan(given[where]), inputs[at], given[where])
            X[where] = np.hstack([inputs[at], lagged[at]])
            if y is not None:
                _shift(lagged, at, y[where])
        return X, inputs, lagged

    def _keep(self, models: np.ndarray, turns: Sequence[np.ndarray], y: FloatArray, told: FloatArray) -> np.ndarray:
        """Count rows and their scores, and keep them for the history of their sensors; returns their numbers."""
        rows, counts = np.empty(len(models), dtype=np.int64), self._arrays["rows"]
        for where in turns:
            rows[where] = counts[models[where]] = counts[models[where]] + 1
        kept = np.column_stack([y, told[:, :3]])
        self._arrays["recent"][models, (rows - 1) % KEPT] = kept
        np.add.at(self._arrays["sums"], models, history.counted(kept))
        return rows

    def _predict(self, op: Op) -> Outcome:
        settings = self.settings
        if not pending_of(settings):
            hint = 'create it with "settings": {"pending": 1000}'
            raise RefusedError("cannot_wait", "this fleet keeps no rows that wait", hint)
        models, new = self._models(op.rows)
        sensors, turns = _turns(models)
        X, inputs, _ = self._inputs(op.rows, models, sensors, turns, None)
        for i in np.flatnonzero(~np.isfinite(X).all(axis=1))[:1]:
            raise bad_row(i, "lacks an input, or past targets, that its sensor had never before")
        with refusing("bad_row"):
            seen = self.fleet.issue(X, ids=models)
        self.numbers |= new
        self._arrays["inputs"][sensors] = inputs
        told, tickets = _told(seen, settings.level), [""] * len(models)
        for i in np.argsort(seen.ticket):  # in the order in which they expire
            tickets[i] = self.tickets.new(np.array([seen.ticket[i], models[i], *told[i, :3]]))
        ids = [str(row[settings.id]) for row in op.rows]
        answers = [
            TicketRow(*values) for values in zip(tickets, *(column.tolist() for column in told.T), ids, strict=True)
        ]
        return Outcome(PredictAnswer(answers, self.rows))

    def _targets(self, op: Op) -> Outcome:
        results, waits = self.tickets.look(op.targets)
        if not waits:
            return Outcome(TargetsAnswer(results, 0, self.rows))
        targets, kept = zip(*waits.values(), strict=True)
        waiting, y = np.array(kept), np.array([target.value for target in targets])
        name = self.settings.time
        time = None if name is None else self._times([{name: target.time} for target in targets])
        before, models = self._noted, waiting[:, 1].astype(np.int64)
        with refusing("bad_row"):
            self.fleet.resolve(waiting[:, 0].astype(np.int64), y, time=time)
        for ticket in waits:
            self.tickets.resolve(ticket)
        turns = _turns(models)[1]
        for where in turns:
            _shift(self._arrays["lagged"], models[where], y[where])
        self._keep(models, turns, y, waiting[:, 2:])
        return Outcome(TargetsAnswer(results, len(waits), self.rows), notes=self._notes(before))

    @property
    def _noted(self) -> int:
        """Alarms so far."""
        return 0 if self.fleet._watch is None else self.fleet._watch.noted

    def _notes(self, before: int) -> list[Note]:
        """Alarms since."""
        if not (count := self._noted - before):
            return []
        found, names, inputs = self.fleet.alarms()[-count:], list(self.numbers), self._input_names
        np.add.at(self._arrays["alarms"], [alarm.id for alarm in found], 1)
        rows = self._arrays["rows"]
        return [Note("alarm", int(rows[one.id]), f"{names[one.id]}: {of_alarm(one, inputs)}") for one in found]

    @property
    def _input_names(self) -> list[str]:
        lags = (f"{self.settings.target}, {lag} rows before" for lag in range(1, self.settings.lags + 1))
        return [*self.settings.inputs, *lags]

    # What is told.

    def seen(self, name: str) -> FleetDetail:
        """What is told of the fleet, while nobody else uses it."""
        known, arrays = len(self.numbers), self._arrays
        sums = arrays["sums"][:known]
        of_all, each = tally.scored(sums.sum(axis=0)), tally.scored(sums)
        spread = {}
        for score in ("rmse", "coverage"):
            values = getattr(each, score)
            if (finite := values[np.isfinite(values)]).size:
                spread[score] = dict(zip(map(str, SPREAD), np.quantile(finite, SPREAD).tolist(), strict=True))
        health = Health(repairs=self.fleet.health.total.repairs, alarms=int(arrays["alarms"].sum()))
        return FleetDetail(
            name,
            self.settings,
            state="ready" if known else "new",
            rows=self.rows,
            ids=known,
            scores=Scores(int(of_all.rows), float(of_all.rmse), coverage=float(of_all.coverage), mae=float(of_all.mae)),
            spread=spread,
            health=health,
            tickets=self.tickets.told(),
        )

    def sensors(self, query: SensorQuery) -> SensorList:
        """Some sensors with their newest rows, those first that are asked for."""
        arrays, wanted = self._arrays, query.search.lower()
        found = [(sensor, number) for sensor, number in self.numbers.items() if wanted in sensor.lower()]
        at = np.array([number for _, number in found], dtype=np.int64)
        scores = tally.scored(arrays["sums"][at])
        last = {
            "name": np.zeros(len(at)),
            "alarms": arrays["alarms"][at],
            "rows": arrays["rows"][at],
            "error": np.nan_to_num(scores.rmse, nan=-1.0),
            "coverage": np.nan_to_num(np.abs(scores.coverage - self.settings.level), nan=-1.0),
        }[query.first].tolist()
        order = sorted(range(len(found)), key=lambda i: (-last[i], found[i][0]))
        return SensorList(len(found), [self._sensor(*found[i], scores, i) for i in order[: query.most]])

    def _sensor(self, sensor: str, number: int, scores: tally.Scored, at: int) -> Sensor:
        arrays, newest = self._arrays, self._newest(number)
        y, mean, lower, upper = newest[-1, 1:].tolist() if len(newest) else [math.nan] * 4
        rows, alarms = int(arrays["rows"][number]), int(arrays["alarms"][number])
        rmse, coverage = float(scores.rmse[at]), float(scores.coverage[at])
        return Sensor(sensor, rows, y, mean, lower, upper, rmse, coverage, alarms, newest[:, 1].tolist())

    def _newest(self, number: int) -> FloatArray:
        """The rows of a sensor that are kept, (n, POINT)."""
        rows = int(self._arrays["rows"][number])
        numbers = np.arange(max(rows - KEPT, 0), rows)
        return np.column_stack([numbers + 1, self._arrays["recent"][number, numbers % KEPT]])

    def history(self, query: HistoryQuery) -> HistoryAnswer:
        """The newest rows of a sensor."""
        if (number := self.numbers.get(query.id)) is None:
            raise RefusedError("no_such_id", f"the fleet has no id {query.id[:80]!r}", "GET .../ids lists them")
        events = [] if self.fleet._watch is None else self.fleet.alarms()
        # Rows before the first whose inputs and past targets were all known are none of the model's.
        first = 1 + int(self._arrays["rows"][number] - self.fleet.rows_seen[number])
        names = self._input_names
        drift = [DriftEvent(first + one.row, of_alarm(one, names), "alarm") for one in events if one.id == number]
        return history.answered(self._newest(number), query.rows, query.points, drift)

    # The state.

    def saved(self) -> bytes:
        """The fleet, as the library's file."""
        return self.fleet.to_bytes()

    def to_bytes(self) -> bytes:
        """The whole state."""
        return self.frozen()()

    def frozen(self) -> Callable[[], bytes]:
        """What gives the whole state as it is now, also while more is learned: that of many sensors takes seconds."""
        fleets, tensors = snapshot.nested({"fleet": snapshot.contents(self.fleet)})
        header = {
            "holds": "a fleet of streamgp serve",
            "fleets": fleets,
            "ids": list(self.numbers),
        } | self.tickets.header()
        own = self._arrays | {"waiting": np.array(list(self.tickets.rows.values())).reshape(-1, WAITING)}
        tensors |= {f"own/{name}": array for name, array in own.items()}
        return partial(snapshot.packed, header, {name: np.array(array) for name, array in tensors.items()})

    @classmethod
    def from_bytes(cls, settings: FleetSettings, tag: str, data: bytes) -> FleetLearner:
        """The learner whose ``to_bytes`` gave this."""
        header, tensors = snapshot.unpacked(data)
        learner = cls(settings, tag)
        learner.fleet = model_of(*snapshot.part("fleet", header["fleets"], tensors))
        learner.numbers = {sensor: number for number, sensor in enumerate(header["ids"])}
        for name, array in learner._arrays.items():
            array[...] = tensors[f"own/{name}"]
        learner.tickets.restore(header, tensors["own/waiting"])
        return learner


def fleet_of(settings: FleetSettings) -> Fleet:
    """The fleet that settings ask for; it allocates nothing before its first row."""
    for name in settings.settings.keys() & set(RunSettings.setting_names()) - set(OWN):
        raise ValueError(f"a fleet has no setting {name!r}; beside those of its model it takes {', '.join(OWN)}")
    if settings.model == AUTO:
        raise ValueError("auto needs a stream of its own for each sensor; a fleet takes one model, such as KRLST")
    pending, own = pending_of(settings), dict(settings.settings)
    given = {name: value_of(own.pop(name)) for name in OWN if name in own}
    model = Request(settings.model, own, late=pending > 0).build(width_of(settings))
    model = Calibrated(Standardize(model, **{name: given[name] for name in given if name == "warmup"}))
    return Fleet(model, size=settings.size, alarms=given.get("alarms"), pending=pending)


def width_of(settings: FleetSettings) -> int:
    """How many numbers a model sees."""
    return len(settings.inputs) + settings.lags


def pending_of(settings: FleetSettings) -> int:
    """How many rows of the fleet can wait for their targets."""
    return whole("pending", value_of(settings.settings.get("pending", 0)), at_least=0, at_most=MOST_PENDING)


def check_fleet(settings: FleetSettings) -> None:
    """Refuse settings that no fleet can have, before its first row."""
    with refusing("bad_settings", Exception):
        columns = [settings.id, settings.target, *settings.inputs, *([settings.time] if settings.time else [])]
        for name in columns:
            if columns.count(name) > 1:
                raise ValueError(f"{name!r} is given as two different columns")
        if not width_of(settings):
            raise ValueError("a fleet needs inputs, or lags: past targets of the sensor itself")
        if settings.time is None and isinstance(settings.settings.get("alarms"), str):
            raise ValueError('alarms for a length of time need the column of the times: "time": "..."')
        if not stands_for_many(fleet_of(settings).get_params()["model"]):
            raise ValueError(f"{settings.model} cannot be one of many that learn in one call; use a stream for each")
        cost.refuse_fleet(settings.size, bytes_of(settings))


def bytes_of(settings: FleetSettings) -> int:
    """What a sensor takes."""
    one = FleetLearner(msgspec.structs.replace(settings, size=1), "")
    alone = Fleet(one.fleet.get_params()["model"], size=1, threads=1)
    with cost.refusing():
        alone.track(np.zeros((1, width_of(settings))), np.zeros(1), time=np.zeros(1))
    return sum(array.nbytes for array in [*one._arrays.values(), *all_arrays(alone).values()])


def bad_row(at: Any, why: str) -> RefusedError:
    """A row that cannot be used."""
    return RefusedError("bad_row", f"row {at + 1} {why}")


def _told(seen: Prediction, level: float) -> FloatArray:
    """Mean, lower, upper and standard deviation of predictions, (n, 4)."""
    return np.column_stack([seen.mean, *seen.interval(level), seen.std])


def _turns(models: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The sensors of rows, sorted; and where each has its first row, its second, and so on."""
    sensors, counts = np.unique(models, return_counts=True)
    if len(sensors) == len(models):
        return sensors, [np.arange(len(models))]
    order = np.argsort(models, kind="stable")
    turn = np.empty(len(models), dtype=np.int64)
    turn[order] = np.arange(len(models)) - np.repeat(np.cumsum(counts) - counts, counts)
    return sensors, [np.flatnonzero(turn == number) for number in range(int(counts.max()))]


def _shift(lagged: FloatArray, at: np.ndarray, y: FloatArray) -> None:
    """Let targets that are known be the newest of past ones."""
    known = np.isfinite(y)
    where = at[known]
    lagged[where, 1:] = lagged[where, :-1]
    lagged[where, :1] = y[known, None]
