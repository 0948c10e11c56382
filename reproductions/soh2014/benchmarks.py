"""The protocol of Tables I and II: eight series, seven methods, a grid search, then independent runs (section VI).

Inputs and targets are noisy; every score is against the noise-free next value. The first 80% of a stream are learned,
the last 20% predicted without learning while the memory advances. The grid search takes the first rows of a series with
a seed of its own and chooses, for each method among as many candidates, the lowest RMSE by the same protocol.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg
from reproductions.data import laser
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp.evaluate.metrics import mnae, nlpd, rmse

TUNING_SEED = 1000
LASER_ROWS = 10_092
CAPACITY = 100  # basis points of the Gaussian processes, as in the paper's section VIII
TERMS = 500  # of the filters: a term costs them less than a basis point costs a Gaussian process
FIELDS = 200  # of LWPR

# Series and the variance of the noise in its targets, where the noise of the Gaussian processes starts.
SERIES: dict[str, tuple[Callable[..., sg.data.Series], float]] = {
    "Mackey-Glass": (sg.data.mackey_glass, 0.05**2),
    "Henon": (sg.data.henon, 0.05**2),
    "Laser": (laser, 0.05**2),
    "Ikeda": (sg.data.ikeda, 0.05**2),
    "Lorenz": (sg.data.lorenz, 0.05**2),
    "NP1": (sg.data.np1, 0.05**2),
    "NP2": (sg.data.np2, 1.0),
    "NARMA": (sg.data.narma10, 0.05**2),
}
METHODS = ("OESGP", "OIESGP", "SOGP", "SOGP-ARD", "LWPR", "KLMS", "NORMA")  # the columns of the tables
# In which they are run: what the paper is about, the others, and last what takes minutes a run.
ORDER = (("OIESGP",), ("KLMS", "NORMA", "SOGP", "OESGP", "SOGP-ARD"), ("LWPR",))
SCORES = ("MNAE", "RMSE", "NLPD")


def product(**values: tuple[Any, ...]) -> list[dict[str, Any]]:
    """All combinations."""
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


CANDIDATES: dict[str, list[dict[str, Any]]] = {
    "OESGP": product(spectral_radius=(0.5, 0.9), input_scale=(0.3, 1.0), lengthscale=(0.5, 1.5, 5.0, 15.0)),
    "OIESGP": product(depth=(20,), temporal_lengthscale=(1.01, 1.2, 1.5, 3.0), lengthscale=(0.3, 1.0, 5.0, 10.0)),
    "SOGP": product(depth=(2, 5, 10, 20), lengthscale=(0.5, 1.5, 5.0, 10.0)),
    "SOGP-ARD": product(depth=(2, 5, 10, 20), lengthscale=(0.5, 1.5, 5.0, 10.0)),
    "LWPR": product(depth=(2, 5, 10, 20), init_D=(0.5, 3.0, 15.0, 80.0)),
    "KLMS": product(depth=(5, 20), step=(0.02, 0.1), lengthscale=(0.3, 1.0, 3.0, 10.0)),
    "NORMA": product(depth=(5, 20), step=(0.1, 0.5), lengthscale=(0.3, 1.0, 3.0, 10.0)),
}

# Averages over twice the default interval, steps that die out, and an end; chosen on the tuning seed.
ADAPT: dict[str, Any] = {"interval": 100, "decay": 0.5, "tolerance": 1e-2}


def build(method: str, candidate: dict[str, Any], inputs: int, noise: float, seed: int) -> sg.StreamModel:
    """The model of a method with one of its candidate settings."""
    gaussian = {"capacity": CAPACITY, "noise": noise}
    match method:
        case "OESGP":
            return sg.OESGP(units=50, seed=seed, adapt=sg.SNGD(**ADAPT), **gaussian, **candidate)
        case "OIESGP":
            scales = np.full(inputs, candidate["lengthscale"])
            return sg.OIESGP(adapt=sg.SNGD(**ADAPT), **gaussian, **candidate | {"lengthscale": scales})
        case "SOGP":
            kernel = sg.SquaredExponential(candidate["lengthscale"])
            return sg.SOGP(kernel, depth=candidate["depth"], adapt=sg.SNGD(**ADAPT), **gaussian)
        case "SOGP-ARD":
            depth = candidate["depth"]
            kernel = sg.SquaredExponential(np.full(depth * inputs, candidate["lengthscale"]))
            return sg.SOGP(kernel, depth=depth, adapt=sg.SNGD(**ADAPT), **gaussian)
        case "LWPR":
            return sg.LWPR(meta=True, capacity=FIELDS, **candidate)
        case "KLMS":  # quantized: without it a bounded number of terms would be the last rows alone
            lengthscale = candidate["lengthscale"]
            kernel = sg.SquaredExponential(lengthscale)
            return sg.filters.QKLMS(
                kernel, step=candidate["step"], quantization=0.3 * lengthscale, capacity=TERMS, depth=candidate["depth"]
            )
        case _:
            kernel = sg.SquaredExponential(candidate["lengthscale"])
            return sg.filters.NORMA(
                kernel, step=candidate["step"], regularization=1e-3, capacity=TERMS, depth=candidate["depth"]
            )


def scored(method: str, candidate: dict[str, Any], series: sg.data.Series, noise: float, seed: int) -> dict[str, Any]:
    """Learn the first 80% of a series and score the predictions of the rest."""
    learned = int(0.8 * len(series.X))
    model = build(method, candidate, series.X.shape[1], noise, seed)
    model.learn_many(series.X[:learned], series.Y[:learned])
    p, truth = model.track(series.X[learned:]), series.truth[learned:]
    found: dict[str, Any] = {"MNAE": mnae(truth, p.mean), "RMSE": rmse(truth, p.mean)}
    if model.has_variance:
        found["NLPD"] = nlpd(truth, p)
    if method in ("OESGP", "OIESGP", "SOGP"):
        found["hyperparameters"] = {name: np.round(value, 4).tolist() for name, value in model.hyperparameters.items()}
    return found


def run(cell: Cell) -> dict[str, Any]:
    """A grid search, or a run with the candidate that it chose."""
    make, noise = SERIES[cell["series"]]
    steps = min(cell["steps"], LASER_ROWS) if cell["series"] == "Laser" else cell["steps"]
    series = make(steps, seed=cell["seed"], irrelevant=cell["irrelevant"])
    method, candidates = cell["method"], CANDIDATES[cell["method"]]
    if cell["stage"] == "run":
        return scored(method, candidates[cell["candidate"]], series, noise, cell["seed"])
    errors = [scored(method, candidate, series, noise, cell["seed"])["RMSE"] for candidate in candidates]
    errors = [error if np.isfinite(error) else 1e9 for error in errors]  # some filters diverge
    return {"best": int(np.argmin(errors)), "errors": [round(error, 5) for error in errors]}


def cells(settings: Settings, rows: list[Row], irrelevant: int) -> list[Cell]:
    """For each group of methods in order its grid searches, then its runs, all methods of a run before the next."""
    best = {(row["method"], row["series"]): row["best"] for row in rows if row["stage"] == "tune"}
    series, methods = settings["series"].split(), settings["methods"].split()
    names = [name for name in SERIES if name in series]
    groups = [[method for method in group if method in methods] for group in ORDER]
    wanted: list[Cell] = []
    for group in groups:
        chosen = [(method, name) for method in group for name in names]
        common = {"irrelevant": irrelevant}
        wanted += [
            {"stage": "tune", "method": method, "series": name, **common, "candidate": -1}
            | {"steps": settings["tuning_steps"], "seed": TUNING_SEED}
            for method, name in chosen
        ]
        if not all(pair in best for pair in chosen):
            break  # asked again when these are finished
        wanted += [
            {"stage": "run", "method": method, "series": name, **common, "candidate": best[method, name]}
            | {"steps": settings["steps"], "seed": settings["seed"] + number}
            for number in range(settings["runs"])
            for method, name in chosen
        ]
    return wanted


def median_and_spread(values: list[float]) -> tuple[float, float]:
    """The median and the interquartile range; a run that failed (NaN) counts as the worst of all."""
    failed = 1e300
    low, middle, high = np.percentile(np.nan_to_num(values, nan=failed, posinf=failed), [25, 50, 75])
    return (
        float(middle) if middle < 1e-3 * failed else np.inf,
        float(high - low) if high < 1e-3 * failed else np.inf,
    )


def runs_of(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    """The runs by series and method."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["stage"] == "run":
            found.setdefault((row["series"], row["method"]), []).append(row)
    return found


def summarize(rows: list[Row], expected: Expected) -> Table:
    """Median and interquartile range of each score; series in blocks of rows, methods in columns."""
    found = runs_of(rows)
    lines: list[list[str | Value]] = []
    for series in SERIES:
        for score in SCORES:
            line: list[str | Value] = []
            for method in METHODS:
                scores = [row[score] for row in found.get((series, method), []) if score in row]
                key = f"{series} {method} {score}"
                line.append(Value(key, *median_and_spread(scores), expected.get(key)) if scores else "-")
            if any(cell != "-" for cell in line):
                lines.append([series, score, *line])
    return Table(["series", "score", *METHODS], lines, [*_runs(found), *_standing(lines, expected)])


def _runs(found: dict[tuple[str, str], list[Row]]) -> list[str]:
    """How many runs there are, and which of them failed."""
    most = max((len(group) for group in found.values()), default=0)
    fewest = {method: min((len(found[key]) for key in found if key[1] == method), default=most) for method in METHODS}
    fewer = [f"{method} at least {count}" for method, count in fewest.items() if count < most]
    failed = [
        f"{method} on {series}, seed {row['seed']}"
        for (series, method), group in found.items()
        for row in group
        if np.isnan(row["RMSE"])
    ]
    unfinished = f" ({', '.join(fewer)})" if fewer else ""
    sentences = [f"Median (interquartile range) over {most} run{'s' if most > 1 else ''}{unfinished}."]
    if failed:
        sentences.append(f"Runs that ended in NaN, which count as the worst: {'; '.join(failed)}.")
    return sentences


def _standing(lines: list[list[str | Value]], expected: Expected) -> list[str]:
    """How often our OIESGP's RMSE is at or below the paper's OIESGP, its best method, and our other methods."""
    level = best = first = count = 0
    for series, score, *values in lines:
        cells = {method: cell for method, cell in zip(METHODS, values, strict=True) if isinstance(cell, Value)}
        ours = cells.get("OIESGP")
        if score != "RMSE" or series == "Ikeda" or ours is None or ours.reference is None:
            continue
        count += 1
        level += not ours.worse
        best += round(ours.ours, ours.digits) <= min(expected[f"{series} {method} RMSE"].value for method in METHODS)
        first += all(ours.ours <= cell.ours for cell in cells.values())
    if not count:
        return []
    return [
        f"Leaving Ikeda aside, OIESGP's RMSE is at or below the paper's OIESGP on {level} of {count} series, at or "
        f"below the best of all methods in the paper on {best}, and the lowest of our own runs on {first}."
    ]


def plot(rows: list[Row], path: Path) -> None:
    """RMSE of every method on each series, over the runs."""
    import matplotlib.pyplot as plt

    found = runs_of(rows)
    names = [name for name in SERIES if any(series == name for series, _ in found)]
    figure, axes = plt.subplots(2, 4, figsize=(14, 6), layout="constrained")
    for axis, name in zip(axes.flat, names, strict=False):
        methods = [method for method in METHODS if (name, method) in found]
        axis.boxplot([[row["RMSE"] for row in found[name, method]] for method in methods], tick_labels=methods)
        axis.tick_params(axis="x", rotation=60)
        axis.set(title=name, ylabel="RMSE", yscale="log")
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def experiment(title: str, irrelevant: int) -> Experiment:
    """Table I or II."""
    return Experiment(
        title=title,
        full={
            "runs": 10,
            "steps": 100_000,
            "seed": 0,
            "tuning_steps": 5000,
            "series": " ".join(SERIES),
            "methods": " ".join(METHODS),
        },
        quick={"runs": 1, "steps": 1000, "tuning_steps": 200, "series": "Henon NP2", "methods": "OIESGP SOGP KLMS"},
        cells=partial(cells, irrelevant=irrelevant),
        run=run,
        summarize=summarize,
        plot=plot,
    )
