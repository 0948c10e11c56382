"""Whether the machine code of a wheel gives the numbers that Numba gives, of every entry.

    python machine/same_numbers.py FILE

Where Numba compiles, this writes the numbers to a file; where machine code is in use, it compares its own with those of
the file. The examples of the contract track a hundred rows, and what they do not call is called beside them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the tests

import streamgp as sg
from streamgp.auto.bank import Bank, Line
from streamgp.auto.forest import SPLITS, Forest
from streamgp.auto.step import FOREST
from streamgp.compiled import shipped, way
from streamgp.contract.lanes import PREDICT, listed
from streamgp.job.ahead import every
from streamgp.job.yardsticks import Yardsticks
from streamgp.tuning.time import Series, TimeEvidence
from tests.contract.models import CLASSES_AND_COUNTS, EXAMPLES, SLOW
from tests.contract.test_contract import stream, stream_for

ROWS, TOLERANCE = 100, 1e-12
Numbers = dict[str, np.ndarray]


def numbers_of(name: str, told: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a prediction, or of a tuple, by name."""
    if isinstance(told, sg.Prediction):
        told = vars(told)
    if isinstance(told, dict | tuple):
        for key, value in told.items() if isinstance(told, dict) else enumerate(told):
            yield from numbers_of(f"{name}, {key}", value)
    elif told is not None and (found := np.asarray(told)).dtype.kind in "fiub":
        yield name, found.astype(float)


def of_examples() -> Iterator[tuple[str, Any]]:
    for name, make in (EXAMPLES | CLASSES_AND_COUNTS).items():
        for p in (1,) if name in SLOW else (1, 2):
            yield f"{name}, outputs {p}", tracked(make(), p)


def tracked(model: Any, p: int) -> tuple[sg.Prediction, sg.Prediction]:
    X, Y = stream_for(model, p, ROWS)
    return model.track(X, Y), model.predict_many(X[:5])


def of_others() -> Iterator[tuple[str, Any]]:
    """What no example calls."""
    X, Y = stream(1, ROWS)
    times = np.cumsum(1.0 + X[:, 0] ** 2)
    kernel = sg.Trend(30.0) + sg.Periodic(6.0) * sg.Matern(0.5, lengthscale=40.0) + sg.Matern(2.5, lengthscale=9.0)
    for name, model in (
        ("over time", sg.TimeGP(kernel, noise=0.1)),
        ("inputs and time", sg.KRLST(capacity=8, time=kernel)),
    ):
        rows = np.zeros((ROWS, 0)) if name == "over time" else X
        told = model.track(rows, Y, time=times)
        joint = model.predict_joint(rows[:5], time=times[-1] + np.arange(5.0))
        yield name, (told, joint.mean, joint.covariance)
    timed = sg.Alarms(sg.KRLST(capacity=8, forgetting=0.97), rate="1/day", warmup=10)
    yield "alarms by the time", timed.track(X, Y, time=times)
    auto = EXAMPLES["Auto"]()
    yield "auto by the time", (auto.track(X, Y, time=times), auto.weights)
    for name, window in (("regular", np.arange(50.0)), ("with gaps", times[:50])):
        evidence = TimeEvidence(kernel, 0.2, Series(window, Y[:50, None], 1000))
        yield f"evidence, {name}", evidence(evidence.start)
    inner = sg.SquaredExponential(0.7, factors=1) * sg.Matern(2.5) + sg.RecursiveSquaredExponential()
    yield "kernel", (inner(X[:9], X[:5]), inner.weighted_gradient(np.outer(Y[:9], Y[:5]), X[:9], X[:5]))
    model = sg.SOGP(2.0 * sg.Matern(2.5), capacity=8)
    model.learn_many(X, Y)
    yield "derivatives", model.predict_many(X[:5], derivatives=True)
    student = sg.SOGP(capacity=8, likelihood=sg.StudentT(0.2), outputs="separate").track(X, Y)
    yield "densities", student.log_density(Y)
    calibrated = sg.Calibrated(sg.Standardize(sg.KRLST(capacity=8), warmup=20)).track(X, Y)
    yield "calibrated units", (calibrated, calibrated.log_density(Y), calibrated.quantile([0.01, 0.7]))
    forest = Forest.empty()
    forest.splits[0], forest.numbers[0, [0, SPLITS, SPLITS + 1]] = (1, -1, -2, 1), (0.1, 2.0, -3.0)
    line = Line("trees", FOREST, origin=0, forest=forest)
    yield "forest", Bank(0).placed([line]).run(listed(len(X), PREDICT), X, Y)[0]
    yield "yardsticks", (Yardsticks(X.shape[1], 2, 3, (24,)).track(X, Y),)
    fleet = sg.Fleet(sg.ISSGPR(features=10, noise=0.01), size=5, alarms=0.01)
    yield "fleet", fleet.track(np.repeat(X[:, None], 5, axis=1), Y[:, None] + np.arange(5.0))


def calculated() -> Numbers:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what examples say of their streams
        told = [*of_examples(), *of_others()]
    return {name: found for part in told for name, found in numbers_of(*part)}


def noting(called: set[str]) -> None:
    """Note which entries of the library are called, also by their addresses."""
    of_entry: Any = shipped.Entry
    call = of_entry.__call__

    def noted(entry: Any, *given: Any) -> Any:
        called.add(shipped.name_of(entry))
        return call(entry, *given)

    def address(entry: Any) -> Any:
        called.add(shipped.name_of(entry))
        return vars(entry)["address"]

    of_entry.__call__ = noted
    of_entry.address = property(address, lambda entry, place: vars(entry).update(address=place))


def differences(ours: Numbers, theirs: Numbers) -> Iterator[tuple[float, str]]:
    """How far apart they are, relative to the largest number of each array."""
    for name in ours.keys() | theirs.keys():
        one, other = ours.get(name, np.zeros(0)), theirs.get(name, np.zeros(0))
        if one.shape != other.shape or not np.array_equal(np.isfinite(one), np.isfinite(other)):
            yield np.inf, name
            continue
        known = np.isfinite(one)
        scale = max(np.abs(other[known]).max(initial=0.0), 1e-300)
        yield float(np.abs(one[known] - other[known]).max(initial=0.0) / scale), name


def main(path: Path) -> None:
    if not isinstance(way, shipped.Library):
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **calculated())  # type: ignore[arg-type]
        return
    called: set[str] = set()
    noting(called)
    ours = calculated()
    if missing := {shipped.name_of(one) for one in every()} - called:
        raise SystemExit(f"not called: {', '.join(sorted(missing))}")
    worst = sorted(differences(ours, dict(np.load(path))), reverse=True)
    print(f"{len(called)} entries, {len(ours)} arrays; largest difference {worst[0][0]:.1e}: {worst[0][1]}")
    if worst[0][0] > TOLERANCE:
        raise SystemExit("\n".join(f"{far:.1e} {name}" for far, name in worst if far > TOLERANCE))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
