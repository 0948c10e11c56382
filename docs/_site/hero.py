"""Draw the picture of README and Home: the demo's table, with one reading broken, as the default commands see it.

Run from a checkout: ``python docs/_site/hero.py``; writes docs/images/hero.png.
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.dates as mdates
import matplotlib.pyplot as plt

import streamgp as sg
from streamgp.cli.demo import LAGS, MODEL
from streamgp.job import Job
from streamgp.job.demonstration import write_demo

PICTURE = Path(__file__).parents[1] / "images" / "hero.png"
BROKEN, RAISED = 2857, 150.0  # the row whose reading is a usual one, wrong for its inputs, and by how much
SHOWN = slice(2640, 2880)
BLUE, ORANGE, RED, GRAY = "#1a5fa0", "#d9822b", "#b3261e", "#555555"


def readings(folder: Path) -> tuple[list[str], list[list[str]], int]:
    """The demo's table up to the last row that is shown, with one reading broken."""
    changed = write_demo(folder / "demo.csv")
    with open(folder / "demo.csv", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    rows = rows[: SHOWN.stop]
    rows[BROKEN - 1][-1] = f"{float(rows[BROKEN - 1][-1]) + RAISED:.1f}"
    return header, rows, changed


def followed(folder: Path, header: list[str], rows: list[list[str]]) -> list[dict[str, str]]:
    """What ``streamgp run readings.csv --target power --model SOGP --lags 3 --alarms 1e-3`` writes."""
    with open(folder / "readings.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    asked = {"lags": LAGS, "model": MODEL, "settings": {"alarms": "1e-3"}}
    Job(folder / "readings.csv", "power", out=folder / "rows.csv", **asked).run()
    with open(folder / "rows.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def number(text: str) -> float:
    return float(text) if text else np.nan


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        header, rows, changed = readings(Path(name))
        predicted = followed(Path(name), header, rows)
    time = np.array([row[0] for row in rows], dtype="datetime64[s]")
    power = np.array([number(row[-1]) for row in rows])
    mean, low, high = (np.array([number(row[key]) for row in predicted]) for key in ("mean", "lower", "upper"))
    alarms = [i for i, row in enumerate(predicted) if row["alarm"]]

    recent = slice(changed, None)  # the new machine's own readings, with their seasons
    ahead = time[-1] + np.arange(1, 25).astype("timedelta64[h]")
    fan = sg.Forecaster(power[recent], time[recent]).forecast(ahead)

    figure, axes = plt.subplots(figsize=(11, 4.2), dpi=150)
    axes.fill_between(
        time[SHOWN], low[SHOWN], high[SHOWN], color=BLUE, alpha=0.18, lw=0, label="90% interval, before the reading"
    )
    axes.plot(time[SHOWN], mean[SHOWN], color=BLUE, lw=1.2, label="prediction")
    axes.plot(time[SHOWN], power[SHOWN], ".", color="black", ms=3, label="reading")
    for level, alpha in ((0.9, 0.2), (0.5, 0.35)):
        axes.fill_between(ahead, *fan.interval(level), color=ORANGE, alpha=alpha, lw=0)
    axes.plot(ahead, fan.median, color=ORANGE, lw=1.4, label="forecast: 50% and 90%")
    axes.axvline(time[changed - 1], color=GRAY, lw=1, ls="--")
    top = 1.2 * axes.get_ylim()[1]
    axes.set_ylim(top=top)
    axes.annotate(
        "a machine is replaced;\nnobody tells the model",
        (time[changed - 1], top),
        (6, -4),
        textcoords="offset points",
        va="top",
        color=GRAY,
        fontsize=9,
    )
    shown = [i for i in alarms if SHOWN.start <= i]
    axes.plot(time[shown], power[shown], "o", ms=9, mfc="none", mec=RED, mew=1.6, label="alarm")
    axes.set_ylabel("power")
    axes.xaxis.set_major_locator(mdates.DayLocator(interval=2))
    axes.xaxis.set_major_formatter(mdates.DateFormatter("%-d %b"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(time[SHOWN.start], ahead[-1])
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=5, frameon=False, fontsize=9)
    figure.tight_layout()
    figure.savefig(PICTURE)
    print(f"{PICTURE.name}: alarms in rows {[i + 1 for i in alarms]}, of which shown {len(shown)}")


if __name__ == "__main__":
    main()
