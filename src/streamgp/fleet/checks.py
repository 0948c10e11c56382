"""What rows of a fleet are refused for, before any model has changed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from streamgp.contract import inputs, passing
from streamgp.contract.conditions import NOISE, TIME
from streamgp.fleet import devices
from streamgp.fleet.models import Models
from streamgp.fleet.rows import Arrival, Rows, noises, times
from streamgp.settings import FloatArray

Result = TypeVar("Result")
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


def conditions(models: Models, rows: Rows, came: Arrival, noise: Any, time: Any) -> FloatArray | None:
    """The conditions of rows, checked (contract/conditions.py)."""
    recipe = models._recipe
    if time is None and models._together:
        learned = np.zeros(0, bool) if rows.Y is None else np.asarray((~np.isnan(rows.Y)).any(axis=1))
        refuse_no_times(models, rows.models, rows.starts, learned)
    if noise is None and time is None and (models._together or not recipe._needs_time):
        return None
    p = (models._shape.p or 1) if rows.Y is None else rows.Y.shape[1]
    result = np.full((len(rows.X), NOISE + (1 if recipe._shared else p)), np.nan)
    if noise is not None:
        if models._together and (why := recipe._cannot("weigh", p)):  # other models say so themselves
            raise ValueError(why)
        Y = np.full((len(rows.X), p), np.nan) if rows.Y is None else rows.Y
        given = rows._replace(Y=Y, conditions=noises(noise, came, p))

        def checked(part: Rows) -> FloatArray:
            assert part.Y is not None
            return inputs.noises(part.conditions, ~np.isnan(part.Y), recipe._shared, many=len(part.X) > 1)

        result[:, NOISE:] = _by_model(given, checked)
    if time is not None:
        result[:, TIME] = times(time, came)
    if recipe._needs_time and rows.Y is not None and time is not None:
        refuse_times(models, rows._replace(conditions=result))
    return result


def refuse_no_times(models: Models, ids: np.ndarray, starts: np.ndarray, learned: np.ndarray) -> None:
    """Refuse rows of models, as in Rows, of which some are learned, where models forget by their times."""
    if not models._recipe._needs_time:
        return
    try:
        models._recipe._refuse_times(None, learned, True)
    except ValueError as error:
        j = int(np.searchsorted(starts, learned.argmax(), side="right")) - 1
        raise ValueError(f"model {ids[j]}: {error}") from None


def refuse_times(models: Models, rows: Rows) -> None:
    """Refuse times before those that were learned; models of any kind do so themselves."""
    if not models._together:
        return
    assert rows.conditions is not None
    time, before = rows.conditions[:, TIME], rows.each(models._clock())
    counted = np.arange(len(time))
    if rows.Y is not None:  # of the rows that are learned each comes after the one before it
        counted = np.flatnonzero((~np.isnan(rows.Y)).any(axis=1))
        if len(rows.X) > len(rows.models):
            later = np.diff(np.searchsorted(rows.starts, counted, side="right"), prepend=-1) == 0
            before[counted[later]] = time[counted[:-1][later[1:]]]
    wrong = counted[~np.isfinite(time[counted]) | (time[counted] < before[counted])]
    for row in wrong[:1].tolist():
        j = int(np.searchsorted(rows.starts, row, side="right")) - 1
        part, model = rows.between(j, j + 1), int(rows.models[j])
        assert part.conditions is not None
        learned = None if part.Y is None else np.asarray((~np.isnan(part.Y)).any(axis=1))
        try:
            models._single(model)._refuse_times(part.conditions[:, TIME], learned, learned is None or len(learned) > 1)
        except ValueError as error:
            raise ValueError(f"model {model}: {error}") from None


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


def _by_model(rows: Rows, check: Callable[[Rows], Result]) -> Result:
    """Check rows of many models at once; the first model whose rows are refused says why."""
    try:
        return check(rows)
    except ValueError:
        for j, model in enumerate(rows.models.tolist()):
            try:
                check(rows.between(j, j + 1))
            except ValueError as error:
                raise ValueError(f"model {model}: {error}") from None
        raise
