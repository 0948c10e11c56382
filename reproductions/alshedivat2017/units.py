"""Errors beside those of Table 3 in two units: standard deviations of the targets learned, and the data's own.

The paper does not say in which of them its table is. Its public example scores standardized targets; the errors of RGP
that it quotes are in the data's units.
"""

from __future__ import annotations

import math

import numpy as np

from reproductions.framework import Expected, Value

from .sysid import DATA
from .table3 import Task

UNITS = ("standard deviations", "the data's units")
DIGITS = 3
Errors = dict[Task, dict[int, float]]  # by task and seed
Spreads = dict[tuple[str, int], float]  # standard deviations of what was learned, by series and seed


def rescaled(found: Errors, spreads: Spreads) -> Errors:
    """Errors in the data's units, from errors in standard deviations."""
    return {
        task: {seed: error * spreads[task[0], seed] for seed, error in errors.items()} for task, errors in found.items()
    }


def lines(
    found: Errors,
    spreads: Spreads,
    columns: list[tuple[str, str]],
    models: tuple[str, ...],
    expected: Expected,
    counted: str,
    suffix: str = "",
) -> list[list[str | Value]]:
    """Two lines for each model, one for each unit; only the numbers in one of the units count as compared."""
    both = dict(zip(UNITS, (found, rescaled(found, spreads)), strict=True))
    table: list[list[str | Value]] = []
    for model in models:
        for unit, errors in both.items():
            line: list[str | Value] = [f"{model}{suffix}, {unit}"]
            for data, mode in columns:
                runs = list(errors.get((data, mode, model), {}).values())
                key = f"{data} {mode} {model}"
                spread = float(np.std(runs)) if len(runs) > 1 else None
                if runs:
                    value = Value(key + suffix, float(np.mean(runs)), spread, expected.get(key), digits=DIGITS)
                    line.append(value if unit == counted else value.text())
                else:
                    line.append("-")
            if any(cell != "-" for cell in line[1:]):
                table.append(line)
    return table


def fits(found: Errors, spreads: Spreads, expected: Expected, name: str) -> list[str]:
    """How near the errors are to the paper's in each unit, and which unit would make them the paper's."""
    said = []
    for unit, errors in zip(UNITS, (found, rescaled(found, spreads)), strict=True):
        ratios = _ratios(errors, expected)
        if not ratios:
            return []
        level = sum(ratio <= 1.0 for ratio, _ in ratios.values())
        near = sum(abs(ratio - 1.0) <= tolerance for ratio, tolerance in ratios.values())
        off = math.exp(float(np.mean([abs(math.log(ratio)) for ratio, _ in ratios.values()])))
        said.append(
            f"in {unit} {level} of {len(ratios)} are at or below the paper's, {near} within one of its standard "
            f"deviations on either side, and the typical factor between ours and the paper's is {off:.2f}"
        )
    ratios = _ratios(found, expected)
    wanted = []
    for data, mode in dict.fromkeys(task[:2] for task in ratios):
        logs = [math.log(ratio) for task, (ratio, _) in ratios.items() if task[:2] == (data, mode)]
        wanted.append(f"{data} {mode} {math.exp(-float(np.mean(logs))):.2f}")
    known = [f"{float(np.mean(of)):.2f} for {data}" for data in DATA if (of := _spreads_of(data, found, spreads))]
    return [
        f"{name}: {'; '.join(said)}.",
        f"Times such a number would ours, in standard deviations, be the paper's on average: {', '.join(wanted)}; the "
        f"data's units would make it {' and '.join(known)}.",
    ]


def _ratios(errors: Errors, expected: Expected) -> dict[Task, tuple[float, float]]:
    """Ours, as it is shown, over the paper's, and the paper's standard deviation over its mean."""
    found = {}
    for task, runs in errors.items():
        reference = expected.get(" ".join(task))
        if reference is not None:
            found[task] = (round(float(np.mean(list(runs.values()))), DIGITS) / reference.value, reference.tolerance)
    return found


def _spreads_of(data: str, found: Errors, spreads: Spreads) -> list[float]:
    return [spreads[data, seed] for task, errors in found.items() if task[0] == data for seed in errors]
