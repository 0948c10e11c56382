"""Readers: how the rows of a table lie in its file. NumPy and SciPy only; nothing in a file is executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.settings import FloatArray

Array = NDArray


class RawTable(NamedTuple):
    """(n, d) inputs, (n, p) targets, and the rows at which a new sequence begins."""

    X: Array
    Y: Array
    starts: Sequence[int] | Array = (0,)


Reader = Callable[[Path], RawTable]


def text(inputs: Sequence[int], targets: Sequence[int], delimiter: str | None = ",", header: int = 0) -> Reader:
    """Columns of a text file, which may be gzipped; an empty cell is NaN."""

    def read(path: Path) -> RawTable:
        table = np.loadtxt(
            path,
            delimiter=delimiter,
            skiprows=header,
            usecols=(*inputs, *targets),
            converters=lambda cell: float(cell) if cell.strip() else np.nan,
            ndmin=2,
        )
        return RawTable(table[:, : len(inputs)], table[:, len(inputs) :])

    return read


def arrays(inputs: Sequence[str], targets: Sequence[str]) -> Reader:
    """Arrays of an npz or mat file side by side as columns."""

    def read(path: Path) -> RawTable:
        return RawTable(*(np.hstack([_columns(array) for array in _arrays(path, *keys)]) for keys in (inputs, targets)))

    return read


def parts(pairs: Sequence[tuple[str, str]]) -> Reader:
    """Pairs of arrays, inputs and targets, one after the other: the training part, then the test part."""

    def read(path: Path) -> RawTable:
        X, Y = ([_columns(array) for array in _arrays(path, *keys)] for keys in zip(*pairs, strict=True))
        return _sequences(X, Y)

    return read


def columns_of(key: str, inputs: int) -> Reader:
    """One matrix: its first columns are the inputs, the others the targets."""

    def read(path: Path) -> RawTable:
        (table,) = _arrays(path, key)
        return RawTable(table[:, :inputs], table[:, inputs:])

    return read


def next_value(path: Path) -> RawTable:
    """A series, one value in each line: the next value from the present one."""
    x = np.loadtxt(path)[:, None]
    return RawTable(x[:-1], x[1:])


def next_torques(path: Path) -> RawTable:
    """Torques in millionths: the next ones from the present ones."""
    (millionths,) = _arrays(path, "tau_micro")
    torques = millionths / 1e6
    return RawTable(torques[:-1], torques[1:])


def baxter_inverse(path: Path) -> RawTable:
    """Torques from position, velocity and the change of velocity until the next sample."""
    runs = _baxter(path)
    return _sequences([np.hstack([a[:, :14], a[:, 28:35] - a[:, 7:14]]) for a in runs], [a[:, 14:21] for a in runs])


def baxter_forward(path: Path) -> RawTable:
    """The next position and velocity from the present ones and the torques."""
    runs = _baxter(path)
    return _sequences([a[:, :21] for a in runs], [a[:, 21:35] for a in runs])


def _baxter(path: Path) -> list[Array]:
    return _arrays(path, *(f"baxtertraj{run}" for run in range(1, 11)))


def gefcom_load(path: Path) -> RawTable:
    """The hours of complete days; a sequence ends where days are missing."""
    temperature, load, complete = _arrays(path, "temperature_F", "load_kW", "complete_day")
    return RawTable(temperature[complete], load[complete], _runs(np.flatnonzero(complete)))


def gefcom_wind(farms: Sequence[int]) -> Reader:
    """Power from the four forecasts valid at that hour, the latest first, farm after farm.

    The hours are those of the competition's training file less the first 48, as [alshedivat2017] Table 1 counts them.
    """

    def read(path: Path) -> RawTable:
        forecasts, power, trained = _arrays(path, "forecast_hundredths", "power_thousandths", "in_kaggle_train")
        hours = np.flatnonzero(trained)[48:]
        # Issues start with the power series, one each 12 hours, for 1 to 48 hours ahead.
        age = np.arange(4)
        latest = (hours[:, None] - 1) // 12 - age
        lead = (hours[:, None] - 1) % 12 + 12 * age
        if np.any(latest < 0) or np.any(forecasts[:, latest, lead] == -99999):
            raise ValueError("forecasts are missing for some of the hours")
        X = [forecasts[farm - 1, latest, lead].reshape(hours.size, 16) / 100.0 for farm in farms]
        Y = [power[hours, farm - 1][:, None] / 1000.0 for farm in farms]
        starts = np.concatenate([_runs(hours) + i * hours.size for i in range(len(farms))])
        return RawTable(np.vstack(X), np.vstack(Y), starts)

    return read


def lasa(shape: str) -> Reader:
    """Velocity (forward difference) from position, demonstration after demonstration."""

    def read(path: Path) -> RawTable:
        position, time = _arrays(path, f"{shape}_pos", f"{shape}_t")
        position = position.transpose(0, 2, 1)
        velocity = np.diff(position, axis=1) / np.diff(time)[:, :, None]
        return _sequences(list(position[:, :-1]), list(velocity))

    return read


def limit_cycles(path: Path) -> RawTable:
    """Velocity from position, demonstration after demonstration."""
    (demonstrations,) = _arrays(path, "data")
    return _sequences(*([motion.T for motion in demonstrations[field].flat] for field in ("pos", "vel")))


def udacity(segments: Sequence[str]) -> Reader:
    """Steering angle from torque and speed; a sequence ends with its segment and where the clock leaps."""

    def read(path: Path) -> RawTable:
        logs = _arrays(path, *(f"{segment}_angle_torque_speed" for segment in segments))
        clock = np.concatenate(_arrays(path, *(f"{segment}_t_ns" for segment in segments)))
        ends = np.cumsum([len(log) for log in logs])[:-1]
        leaps = np.flatnonzero(np.diff(clock) > 1e9) + 1  # samples come each 0.05 s
        table = np.vstack(logs)
        return RawTable(table[:, 1:], table[:, :1], np.union1d(np.append(ends, leaps), 0))

    return read


def comma(target: str, column: int, inputs: Sequence[tuple[str, str]]) -> Reader:
    """One sensor's column from other sensors, interpolated to its clock, where all of them were on."""

    def read(path: Path) -> RawTable:
        clock, response = _arrays(path, f"{target}_t", f"{target}_value")
        on = np.ones(clock.size, dtype=bool)
        X = []
        for sensor in inputs:
            t, channels = _arrays(path, *sensor)
            on &= (clock >= t[0]) & (clock <= t[-1])
            X += [np.interp(clock, t, channel) for channel in channels.T]
        return RawTable(np.stack(X, axis=1)[on], response[on, column : column + 1])

    return read


def weekly_co2(path: Path) -> RawTable:
    """Concentration from the date in years; NaN where a week is missing."""
    rows = text([0], [1], header=1)(path)
    stamps = rows.X[:, 0].astype(np.int64).astype(str)
    dates = np.array([f"{s[:4]}-{s[4:6]}-{s[6:]}" for s in stamps], dtype="datetime64[D]")
    years = dates.astype("datetime64[Y]")
    first = years.astype("datetime64[D]")
    length = (years + np.timedelta64(1, "Y")).astype("datetime64[D]") - first
    X = 1970.0 + years.astype(np.int64) + (dates - first) / length
    return RawTable(X[:, None], rows.Y)


def _arrays(path: Path, *keys: str) -> list[Array]:
    """Arrays of an npz or mat file by name."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return [file[key] for key in keys]
    from scipy.io import loadmat  # an import that few need and that takes long

    contents = loadmat(path, variable_names=keys)
    return [contents[key] for key in keys]


def _columns(array: Array) -> FloatArray:
    """A vector or a matrix as columns, which are longer than there are many."""
    matrix = np.atleast_2d(np.asarray(array, dtype=np.float64))
    return matrix.T if matrix.shape[0] < matrix.shape[1] else matrix


def _runs(hours: Array) -> Array:
    """Where consecutive numbers begin."""
    return np.flatnonzero(np.diff(hours, prepend=hours[0] - 2) != 1)


def _sequences(X: list[Array], Y: list[Array]) -> RawTable:
    lengths = [len(x) for x in X]
    return RawTable(np.vstack(X), np.vstack(Y), np.cumsum([0, *lengths[:-1]]))
