"""What rows of a fleet are refused for, before any model has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from streamgp.contract import inputs, passing
from streamgp.contract.conditions import NOISE, TIME
from streamgp.cuda.record import UnfitError
from streamgp.fleet import devices
from streamgp.fleet.models import Models
from streamgp.fleet.rows import Arrival, Rows, go_back, noises, times
from streamgp.settings import FloatArray

ROWS_PER_CHECK = 50_000  # for which a thread is worth its start


def refuse(models: Models, rows: Rows) -> None:
    """Refuse numbers that no model of this recipe takes, before any model has changed."""
    _by_model(rows, lambda part: _refuse_numbers(models, part))


def _refuse_numbers(models: Models, rows: Rows) -> None:
    parts = min(devices.cores(), len(rows.X) // ROWS_PER_CHECK)
    if parts < 2:
        passing.refuse_unfit(models._recipe, rows.X, rows.Y)
    else:
        with ThreadPoolExecutor(parts) as pool:
            list(pool.map(lambda part: passing.refuse_unfit(models._recipe, part.X, part.Y), rows.cut(parts)))


@contextmanager
def unfit_rows_named(models: Models, rows: Rows) -> Iterator[None]:
    """Where an engine that checks rows itself refuses some: say which."""
    try:
        yield
    except UnfitError as error:
        refuse(models, rows.grouped())
        raise ValueError(str(error)) from None


def conditions(models: Models, rows: Rows, came: Arrival, noise: Any, time: Any) -> FloatArray | None:
    """The conditions of rows, checked (contract/conditions.py)."""
    recipe = models._recipe
    if noise is None and time is None and not recipe._needs_time:
        return None
    p = (models._shape.p or 1) if rows.Y is None else rows.Y.shape[1]
    result = np.full((len(rows.X), NOISE + (1 if recipe._shared else p)), np.nan)
    if noise is not None:
        if models._together and (why := recipe._cannot("weigh", p)):  # other models say so themselves
            raise ValueError(why)
        given = rows._replace(conditions=noises(noise, came, p))
        _by_model(given, lambda part: _noises(models, part))
        result[:, NOISE:] = _noises(models, given)
    if time is not None:
        result[:, TIME] = times(time, came)
    if recipe._needs_time and models._together:
        for j in go_back(rows, result[:, TIME], models._clock())[:1].tolist():
            wrong = rows._replace(conditions=result).between(j, j + 1)
            _by_model(wrong, lambda part: _refuse_times(models, part, time is None))
    return result


def _noises(models: Models, rows: Rows) -> FloatArray:
    """The noises of rows, which stand for their conditions, checked."""
    learned = np.zeros((len(rows.X), models._shape.p or 1), dtype=bool) if rows.Y is None else ~np.isnan(rows.Y)
    return inputs.noises(rows.conditions, learned, models._recipe._shared, many=len(rows.X) > 1)


def _refuse_times(models: Models, rows: Rows, without: bool) -> None:
    """Say what is wrong with the times of one model."""
    assert rows.conditions is not None
    assert rows.Y is not None
    time, learned = None if without else rows.conditions[:, TIME], np.asarray((~np.isnan(rows.Y)).any(axis=1))
    models._single(int(rows.models[0]))._refuse_times(time, learned, len(learned) > 1)


def refuse_past(models: Models, rows: Rows) -> None:
    """Refuse times before what a model with a kernel over time has learned; models of any kind do so themselves."""
    if not models._together or models._recipe._moment() is None:
        return
    assert rows.conditions is not None
    time, clock = rows.conditions[:, TIME], np.repeat(models._clock()[rows.models], np.diff(rows.starts))
    for row in np.flatnonzero(~np.isfinite(time) | (time < clock))[:1].tolist():
        j = int(np.searchsorted(rows.starts, row, side="right")) - 1
        _by_model(rows.between(j, j + 1), lambda part: _past_of_one(models, part))


def _past_of_one(models: Models, rows: Rows) -> None:
    assert rows.conditions is not None
    passing.conditions_at(models._single(int(rows.models[0])), rows.conditions[:, TIME], len(rows.X), many=True)


def refuse_no_time(models: Models, rows: Rows) -> None:
    """Refuse rows without a time where the budget of alarms is one of time."""
    if rows.Y is None or models._rate is None or not models._rate[1]:
        return
    if rows.conditions is None or not np.isfinite(rows.conditions[:, TIME]).all():
        raise ValueError(
            f"alarms={models._settings['alarms']!r} counts alarms by time, so that every row needs its own: "
            "fleet.track(X, Y, time=times); nothing was learned. Without times give alarms for each row of the "
            "fleet, such as alarms=0.01"
        )


def _by_model(rows: Rows, check: Callable[[Rows], object]) -> None:
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
