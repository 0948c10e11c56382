"""The methods of Fig. 1, on either example: build, time, score, tabulate, draw."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg
from reproductions.framework import Cell, Expected, Row, Settings, Value
from reproductions.rivals import BayesianCommitteeMachine, SubsetOfRegressors
from streamgp.batch import FITC, FullGP
from streamgp.contract.prediction import Prediction
from streamgp.evaluate.metrics import nlpd, rmse
from streamgp.local import LocalGP

# SRM is the paper's name of the subset of regressors, SGP of the sparse process with pseudo-inputs (FITC).
METHODS = ("FGP", "RGP_1", "RGP_10", "RGP_all", "LGP", "SOGP", "SOGP (soh2014)", "BCM", "BCM (s parts)", "SRM", "SGP")
ONLINE_RIVALS = ("LGP", "SOGP")
BLOCK = 10  # runs averaged in one cell
JITTER = 1e-6  # in squared units of the target; divided by the kernel's variance it is the setting
MOST_POINTS = 200  # of one local model; no more than that ever fall to one
# Of similarity, below which a new local model begins. This one makes s of them, as the paper has s clusters (fewer on
# PM10). Lower ones make fewer and larger models, down to a single one: the full process.
THRESHOLD = 0.95


@dataclass(frozen=True)
class Problem:
    """What all methods of a run share.

    Args:
        kernel: with the given hyperparameters.
        noise: variance.
        low: corner of the regular grid of basis points.
        high: the opposite corner.
        X: rows in random order; the first n are learned.
        Y: their observations.
        truth: what the root mean squared error refers to.
        test: rows at the end that are predicted.
    """

    kernel: sg.SquaredExponential
    noise: float
    low: np.ndarray
    high: np.ndarray
    X: np.ndarray
    Y: np.ndarray
    truth: np.ndarray
    test: int


def block_cells(settings: Settings, elements: tuple[int, int], **more: Any) -> list[Cell]:
    """Every method with every number of elements, in blocks of runs; RGP_all, which takes longest, at the end."""
    return [
        {**more, "method": method, "elements": count, "first_run": first, "runs": min(BLOCK, most - first)}
        for methods, most in (
            ([method for method in METHODS if method != "RGP_all"], settings["runs"]),
            (["RGP_all"], min(settings["runs"], settings.get("runs_of_all", settings["runs"]))),
        )
        for first in range(0, most, BLOCK)
        for method in methods
        for count in elements_of(method, elements)
    ]


def elements_of(method: str, elements: tuple[int, int]) -> tuple[int, ...]:
    """The full process has none."""
    return (0,) if method == "FGP" else elements


def run_block(cell: Cell, sizes: list[int], problem: Callable[[int], Problem]) -> dict[str, list[float]]:
    """Averages over the runs of a cell, for each number of rows learned."""
    method, elements = cell["method"], cell["elements"]
    predicted(method, problem(cell["first_run"]), elements, sizes[0], 0)  # unmeasured: compiled code is loaded here
    found = []
    for run in range(cell["first_run"], cell["first_run"] + cell["runs"]):
        given = problem(run)
        truth, observed = given.truth[-given.test :], given.Y[-given.test :]
        for n in sizes:
            start = time.process_time()
            prediction = predicted(method, given, elements, n, run)
            seconds = time.process_time() - start
            nll = nlpd(observed, prediction)
            found.append((nll, nll**2, rmse(truth, prediction.mean), seconds))
    means = np.mean(np.reshape(found, (cell["runs"], len(sizes), 4)), axis=0).T
    names = ("nll", "nll_squared", "rmse", "runtime")
    return {name: [float(f"{value:.6g}") for value in values] for name, values in zip(names, means, strict=True)}


def predicted(method: str, given: Problem, s: int, n: int, seed: int) -> Prediction:
    """Learn the first n rows with s elements, predict the test rows."""
    X, Y, kernel, noise = given.X[:n], given.Y[:n], given.kernel, given.noise
    if method.startswith(("RGP", "LGP", "SOGP")):
        online = online_model(method, given, s, n)
        online.learn_many(X, Y)
        return online.predict_many(given.X[-given.test :])
    batch: FullGP | BayesianCommitteeMachine | SubsetOfRegressors | FITC
    if method == "FGP":
        batch = FullGP(kernel, noise=noise)
    elif method == "BCM":
        batch = BayesianCommitteeMachine(kernel, noise=noise, experts=-(-n // s), seed=seed)
    elif method == "BCM (s parts)":
        batch = BayesianCommitteeMachine(kernel, noise=noise, experts=s, seed=seed)
    else:
        sparse = SubsetOfRegressors if method == "SRM" else FITC
        batch = sparse(kernel, noise=noise, points=places(X, s, seed), jitter=JITTER / kernel.variance)
    return batch.fit(X, Y).predict(given.X[-given.test :])


def online_model(method: str, given: Problem, s: int, n: int) -> Any:
    """The stream model of that name."""
    kernel, noise = given.kernel, given.noise
    if method == "LGP":
        return LocalGP(kernel, noise=noise, experts=s, capacity=MOST_POINTS, threshold=THRESHOLD)
    if method == "SOGP":  # as Csato and Opper have it
        return sg.SOGP(
            kernel, capacity=s, noise=noise, jitter=JITTER / kernel.variance, absorb="dtc", evict="kl", removal="kl"
        )
    if method == "SOGP (soh2014)":
        return sg.SOGP(kernel, capacity=s, noise=noise, jitter=JITTER / kernel.variance)
    batch = {"RGP_1": 1, "RGP_10": 10, "RGP_all": n}[method]
    side = round(s ** (1 / given.X.shape[1]))
    return sg.RecursiveGP(
        sg.grid(given.low, given.high, side), kernel=kernel, noise=noise, jitter=JITTER / kernel.variance, batch=batch
    )


def places(X: np.ndarray, s: int, seed: int) -> np.ndarray:
    """Up to s different rows, at random."""
    different = np.unique(X, axis=0)
    return different[np.random.default_rng([seed, s]).permutation(len(different))[:s]]


@dataclass(frozen=True)
class Averages:
    """Averages over all finished runs of one example.

    Args:
        rows: finished cells.
        sizes: numbers of rows learned.
        elements: the smaller and the larger number of elements.
    """

    rows: list[Row]
    sizes: list[int]
    elements: tuple[int, int]

    def methods(self) -> list[str]:
        """Those with finished runs of all numbers of elements."""
        done = {(row["method"], row["elements"]) for row in self.rows}
        return [method for method in METHODS if {(method, s) for s in elements_of(method, self.elements)} <= done]

    def ends(self) -> dict[int, int]:
        """The first and the last size, by their places."""
        return {place % len(self.sizes): self.sizes[place] for place in (0, -1)}

    def of(self, name: str, method: str, elements: int) -> np.ndarray:
        """One average for each size."""
        rows = [row for row in self.rows if row["method"] == method and row["elements"] in (0, elements)]
        return np.average([row[name] for row in rows], axis=0, weights=[row["runs"] for row in rows])

    def count(self, method: str = "FGP") -> int:
        """Finished runs."""
        done = {row["first_run"]: row["runs"] for row in self.rows if row["method"] == method}
        return sum(done.values())

    def fewer(self) -> str:
        """Which methods have fewer runs than the full process, and how that fares in them."""
        few, texts = self.elements[0], []
        for method in self.methods():
            firsts = {row["first_run"] for row in self.rows if row["method"] == method}
            if self.count(method) < self.count():
                same = Averages([row for row in self.rows if row["first_run"] in firsts], self.sizes, self.elements)
                nll = [f"{value:.3f}" for value in same.of("nll", "FGP", few)[[0, -1]]]
                texts.append(f"{method}: {self.count(method)}, in which FGP has the nll {' and '.join(nll)}")
        return f" ({'; '.join(texts)})" if texts else ""

    def error(self, method: str, elements: int) -> float:
        """Standard error of the average nll, of the size where it is largest."""
        variance = self.of("nll_squared", method, elements) - self.of("nll", method, elements) ** 2
        return float(np.sqrt(max(np.max(variance), 0.0) / self.count(method)))


def header(averages: Averages) -> list[str]:
    """Of the columns that ``lines`` gives."""
    few, many = averages.elements
    ends = averages.ends().values()
    return [
        "method",
        *(f"ms, s={many}, n={n}" for n in ends),
        *(f"nll, s={s}, n={n}" for s in (few, many) for n in ends),
        f"RMSE, s={many}, n={averages.sizes[-1]}",
    ]


def lines(averages: Averages, expected: Expected, prefix: str = "") -> list[list[str | Value]]:
    """A line for each method, then RGP_1 and RGP_10 against the better of the other on-line methods."""
    few, many = averages.elements
    ends = averages.ends()

    def line(name: str, runtime: np.ndarray, nll: dict[int, np.ndarray], last: Value | str) -> list[str | Value]:
        keys = [(f"{prefix}{name} ms s={many} n={n}", runtime[i], 2) for i, n in ends.items()]
        keys += [(f"{prefix}{name} nll s={s} n={n}", nll[s][i], 3) for s in (few, many) for i, n in ends.items()]
        return [name, *(Value(key, float(v), None, expected.get(key), digits=d) for key, v, d in keys), last]

    table = []
    methods = averages.methods()
    for method in methods:
        nll = {s: averages.of("nll", method, s) for s in averages.elements}
        off = Value(f"{prefix}{method} RMSE", float(averages.of("rmse", method, many)[-1]), digits=3)
        table.append(line(method, 1e3 * averages.of("runtime", method, many), nll, off))
    for method in ("RGP_1", "RGP_10") if {"RGP_1", "RGP_10", *ONLINE_RIVALS} <= set(methods) else ():
        ratio = averages.of("runtime", method, many) / least("runtime", averages, many)
        ahead = {s: averages.of("nll", method, s) - least("nll", averages, s) for s in averages.elements}
        table.append(line(f"{method} against LGP, SOGP", ratio, ahead, ""))
    return table


def least(name: str, averages: Averages, elements: int) -> np.ndarray:
    """The better of the other on-line methods of the paper, for each size."""
    return np.min([averages.of(name, rival, elements) for rival in ONLINE_RIVALS], axis=0)


def notes(averages: Averages) -> list[str]:
    """What every table of these methods has to say."""
    errors = {(m, s): averages.error(m, s) for m in averages.methods() for s in averages.elements}
    error = max((e for (m, _), e in errors.items() if m not in ("SRM", "SOGP")), default=0.0)
    surest = max(errors.values(), default=0.0)
    return [
        f"Averages of {averages.count()} runs{averages.fewer()}; the standard error of an nll is at most {error:.3f} "
        f"(SRM and SOGP: {surest:.2g}). Runtime is processor time of building, learning and predicting, in "
        "milliseconds. The last two lines are RGP's runtime over that of the faster of LGP and SOGP (the paper, in "
        "words: below 1) and its nll less that of the better of the two (the paper: below 0).",
        "BCM has parts of s rows, BCM (s parts) the other reading of the paper; SOGP is Csato and Opper's, SOGP "
        "(soh2014) this library's default; SRM and SGP (FITC) take s training rows at random as points. FITC on RGP's "
        "grid is RGP_1, to the last digit shown.",
    ]


def draw(groups: dict[str, Averages], path: Path) -> None:
    """Runtime and nll + 1 against the number of rows, a line of panels for each group."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullLocator

    figure, axes = plt.subplots(len(groups), 3, figsize=(12, 3.6 * len(groups)), layout="constrained", squeeze=False)
    colours = plt.get_cmap("tab20").colors
    for panels, (title, averages) in zip(axes, groups.items(), strict=True):
        few, many = averages.elements
        shown = (
            (panels[0], "runtime", many, 1e3, 0.0, f"{title}: runtime, s = {many}", "processor time in ms"),
            (panels[1], "nll", few, 1.0, 1.0, f"{title}: nll, s = {few}", "nll + 1"),
            (panels[2], "nll", many, 1.0, 1.0, f"{title}: nll, s = {many}", "nll + 1"),
        )
        for axis, name, s, factor, shift, heading, label in shown:
            axis.set(yscale="log", xlabel="rows learned", xticks=averages.sizes, title=heading, ylabel=label)
            for method in averages.methods():
                i = METHODS.index(method)
                style = {"lw": 2.2, "zorder": 3} if method.startswith("RGP") else {"lw": 1.2, "ls": "--"}
                style |= {"marker": "os^vDP*X<>h"[i], "ms": 5, "color": colours[2 * (i % 10) + (i >= 10)]}
                axis.plot(averages.sizes, factor * averages.of(name, method, s) + shift, label=method, **style)
            axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
            axis.yaxis.set_minor_locator(NullLocator())
            axis.yaxis.set_major_formatter("{x:g}")
            axis.grid(alpha=0.3)
            if name == "nll":  # SRM leaves the panel, as in the paper
                axis.set_ylim(top=min(axis.get_ylim()[1], 10.0))
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.savefig(path, dpi=75)
    plt.close(figure)
