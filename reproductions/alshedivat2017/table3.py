"""Table 3: RMSE of six models in three modes on Drives and Actuator, beside what needs no network."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value

from .sysid import BASELINES, DATA, MODES, NETWORKS, OTHERS, PRETRAINED, PROCESSES, TUNING_SEED, candidates, run

MODELS = (*NETWORKS, *PROCESSES, PRETRAINED)
ORDER = ("GP-LSTM", "LSTM", "GP-RNN", "RNN", "GP-NARX", "NARX")  # in which they are run
Task = tuple[str, str, str]  # data, mode, model


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    """Of each task the candidates, then, when all of them are validated, the runs with the best."""
    tasks = [
        (data, mode, model)
        for model in (*BASELINES, *ORDER)
        for data in settings["data"].split()
        for mode in settings["modes"].split()
        if model in settings["models"].split() or model in BASELINES
        if model != "persistence" or mode == "autoregression"  # the others know no target of the other part
    ]
    chosen = best_candidates(settings, rows)
    tuning: list[Cell] = []
    runs: list[Cell] = []
    for data, mode, model in tasks:
        cell = {"data": data, "mode": mode, "model": model, "epochs": settings["epochs"]}
        if model in BASELINES:
            runs.append({"stage": "run", **cell, "candidate": -1, "seed": settings["seed"]})
            continue
        if model == "LSTM" and settings["pretrained"] and (data, mode, model) in chosen:
            runs += [
                {"stage": "run", **cell, "model": PRETRAINED, "candidate": chosen[data, mode, model], "seed": seed}
                for seed in range(settings["seed"], settings["seed"] + settings["runs"])
            ]
        tuning += [
            {"stage": "tune", **cell, "candidate": candidate, "seed": TUNING_SEED + number}
            for number in range(settings["tuning_runs"])
            for candidate in range(min(settings["candidates"], len(candidates(data, mode, model))))
        ]
        if (data, mode, model) in chosen:
            candidate = chosen[data, mode, model]
            runs += [
                {"stage": "run", **cell, "candidate": candidate, "seed": settings["seed"] + number}
                for number in range(settings["runs"])
            ]
    return runs + tuning


def best_candidates(settings: Settings, rows: list[Row]) -> dict[Task, int]:
    """The candidate with the lowest validation error on average, of each task whose candidates all are validated."""
    found: dict[Task, dict[int, list[float]]] = {}
    for row in rows:
        if row["stage"] == "tune":
            task = found.setdefault((row["data"], row["mode"], row["model"]), {})
            task.setdefault(row["candidate"], []).append(row["validation"])
    return {
        task: min(errors, key=lambda candidate: float(np.mean(errors[candidate])))
        for task, errors in found.items()
        if len(errors) == min(settings["candidates"], len(candidates(*task)))
        and all(len(runs) == settings["tuning_runs"] for runs in errors.values())
    }


def errors_of(rows: list[Row], score: str = "rmse") -> dict[Task, dict[int, float]]:
    """The errors of the runs by task and seed."""
    found: dict[Task, dict[int, float]] = {}
    for row in rows:
        if row["stage"] == "run" and score in row:
            found.setdefault((row["data"], row["mode"], row["model"]), {})[row["seed"]] = row[score]
    return found


def summarize(rows: list[Row], expected: Expected) -> Table:
    found = errors_of(rows)
    columns = [
        (data, mode) for data in DATA | OTHERS for mode in MODES if any(task[:2] == (data, mode) for task in found)
    ]
    return tabulated(
        found, columns, (*MODELS, *BASELINES), expected, _notes(found, errors_of(rows, "stopped"), expected)
    )


def tabulated(
    found: dict[Task, dict[int, float]],
    columns: list[tuple[str, str]],
    models: tuple[str, ...],
    expected: Expected,
    notes: list[str],
) -> Table:
    """Means and standard deviations over the seeds: a line for each model, a column for each series and mode."""
    lines: list[list[str | Value]] = []
    for model in models:
        line: list[str | Value] = [model]
        for data, mode in columns:
            errors = list(found.get((data, mode, model), {}).values())
            key = f"{data} {mode} {model}"
            spread = float(np.std(errors)) if len(errors) > 1 else None
            line.append(Value(key, float(np.mean(errors)), spread, expected.get(key), digits=3) if errors else "-")
        if any(cell != "-" for cell in line[1:]):
            lines.append(line)
    return Table(["model", *(f"{data}, {mode}" for data, mode in columns)], lines, notes)


def _notes(found: dict[Task, dict[int, float]], stopped: dict[Task, dict[int, float]], expected: Expected) -> list[str]:
    counts = sorted({len(errors) for (_, _, model), errors in found.items() if model in MODELS})
    if not counts:
        return []
    notes = [f"Mean (standard deviation) over {' or '.join(map(str, counts))} runs [the paper's]."]
    for name, errors in (("", found), (" Without training anew on the whole training part:", stopped)):
        notes.append(f"{name} {standing(errors, expected, {})}".strip())
    if any(task[2] == PRETRAINED for task in found):
        notes.append(standing(found, expected, {}, PRETRAINED))
    swapped = {"Drives": "Actuator", "Actuator": "Drives"}
    notes.append(f"If the paper's two names are swapped: {standing(found, expected, swapped)}")
    return notes


def standing(
    found: dict[Task, dict[int, float]], expected: Expected, names: dict[str, str], name: str = "GP-LSTM"
) -> str:
    """How often a model is within one of the standard deviations of the paper's GP-LSTM, and below LSTM, by seeds."""
    near = level = below = cells = pairs = 0
    for (data, mode, model), errors in found.items():
        if model != name:
            continue
        reference = expected.get(f"{names.get(data, data)} {mode} GP-LSTM")
        mean = float(np.mean(list(errors.values())))
        if reference is not None:
            cells += 1
            level += mean <= reference.value
            near += mean <= reference.value * (1 + reference.tolerance)
        other = found.get((data, mode, "LSTM"), {})
        both = [errors[seed] - other[seed] for seed in errors if seed in other]
        if both:
            pairs += 1
            below += float(np.mean(both)) < 0
    said = (
        f"{name[0].upper()}{name[1:]} is at or below the paper's GP-LSTM in {level} of {cells} columns, within one of "
        f"its standard deviations in {near}"
    )
    return f"{said}, and below LSTM, seed by seed, in {below} of {pairs}." if pairs else f"{said}."


def plot(rows: list[Row], path: Path) -> None:
    """The error of every run."""
    import matplotlib.pyplot as plt

    found = errors_of(rows)
    figure, axes = plt.subplots(2, 3, figsize=(12, 6), layout="constrained")
    for axis, (data, mode) in zip(axes.flat, ((data, mode) for data in DATA for mode in MODES), strict=True):
        for i, model in enumerate(MODELS):
            errors = list(found.get((data, mode, model), {}).values())
            axis.plot(np.full(len(errors), i), errors, "o", alpha=0.6)
        axis.set_xticks(range(len(MODELS)), MODELS, rotation=45)
        axis.set(title=f"{data}, {mode}", ylabel="RMSE")
    figure.savefig(path, dpi=90)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Table 3: six models in three modes on Drives and Actuator",
    full={
        "runs": 5,
        "seed": 0,
        "epochs": 300,
        "tuning_runs": 2,
        "candidates": 16,
        "data": " ".join(DATA),
        "modes": " ".join(MODES),
        "models": " ".join((*NETWORKS, *PROCESSES)),
        "pretrained": 1,
    },
    quick={
        "runs": 1,
        "epochs": 4,
        "tuning_runs": 1,
        "candidates": 1,
        "data": "Drives",
        "modes": "autoregression simulation",
        "models": "LSTM GP-LSTM",
        "pretrained": 0,
    },
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
