"""A made-up table for a first look: a plant's power, hour by hour, as such tables come."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from streamgp.settings import whole

START = datetime(2024, 1, 1)
CHANGE = 0.9  # a machine is replaced after this part of the rows: a picture of the last ones shows it


def write_demo(path: str | Path, rows: int = 3000, seed: int = 0) -> int:
    """Write the table as CSV: time, temperature, a shift by name, gaps, and a machine that is replaced on the way.

    Args:
        path: the file.
        rows: hours.
        seed: of the noise.

    Returns:
        The row from which the new machine runs.
    """
    whole("rows", rows, at_least=10)
    rng = np.random.default_rng(whole("seed", seed, at_least=0))
    hours = np.arange(rows)
    of_day, of_week = hours % 24, (hours // 24) % 7
    weather = np.zeros(rows)
    for t in range(1, rows):
        weather[t] = 0.98 * weather[t - 1] + 0.5 * rng.standard_normal()
    temperature = 12.0 + 8.0 * np.sin(2 * np.pi * hours / 8766) + 5.0 * np.sin(2 * np.pi * (of_day - 9) / 24) + weather
    shift = np.where(of_week >= 5, "off", np.where((of_day >= 6) & (of_day < 22), "day", "night"))
    load = np.select([shift == "day", shift == "night"], [1.0, 0.45], 0.1)
    load = load * (1.0 + 0.15 * np.sin(2 * np.pi * of_day / 12))
    changed = int(CHANGE * rows)
    machine = np.where(hours < changed, 300.0, 150.0)
    heating = np.maximum(15.0 - temperature, 0.0)
    power = 60.0 + machine * load + 6.0 * heating + 0.15 * heating**2
    power += (9.0 + 3.0 * load) * rng.standard_normal(rows)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write("time,temperature,shift,power\n")
        for t in range(rows):
            shown = "" if rng.uniform() < 0.01 else f"{temperature[t]:.1f}"
            used = "" if rng.uniform() < 0.005 else f"{power[t]:.1f}"
            file.write(f"{time_of(t + 1).isoformat()},{shown},{shift[t]},{used}\n")
    return changed + 1


def time_of(row: int) -> datetime:
    """The time of a row of the table; the first is row 1."""
    return START + timedelta(hours=row - 1)
