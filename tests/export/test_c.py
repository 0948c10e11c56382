"""A model as C: compiled without a warning, it predicts and learns as the library does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamgp as sg
from streamgp.export.c import header, resumed, state

COMPILERS = [compiler for compiler in ("gcc", "clang") if shutil.which(compiler)]
FLAGS = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"]
SANITIZED = "-fsanitize=address,undefined"
MAIN = """
#include <stdio.h>
#include "arm.h"

static arm_model model;

int main(int count, char **names)
{
    double row[ARM_INPUTS + 1], numbers[ARM_NUMBERS];
    FILE *rows = fopen(names[1], "rb"), *out = fopen(names[2], "wb");
    if (count != 3 || !rows || !out) {
        return 1;
    }
    arm_start(&model);
    while (fread(row, sizeof row, 1, rows) == 1) {
        arm_prediction p = arm_predict(&model, row);
        fwrite(&p, sizeof p, 1, out);
        arm_learn(&model, row, row[ARM_INPUTS]);
    }
    arm_state(&model, numbers);
    fwrite(numbers, sizeof numbers, 1, out);
    return fclose(rows) || fclose(out);
}
"""

needs_compiler = pytest.mark.skipif(not COMPILERS, reason="no C compiler here")


def stream(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.cumsum(rng.normal(size=(n, 2)), axis=0) * 0.1
    X = np.sin(X) * 2.0 + 0.1 * rng.normal(size=(n, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=n)
    y[::50] = np.nan  # missing targets
    return X, y


def run(folder: Path, model: Any, X: np.ndarray, y: np.ndarray, compiler: str, *more: str) -> tuple[np.ndarray, Any]:
    (folder / "arm.h").write_text(header(model, "arm"))
    (folder / "main.c").write_text(MAIN)
    np.column_stack([X, y]).tofile(folder / "rows")
    program = folder / "program"
    subprocess.run([compiler, *FLAGS, *more, "-o", program, folder / "main.c", "-lm"], check=True)
    subprocess.run([program, folder / "rows", folder / "out"], check=True)
    numbers = np.fromfile(folder / "out")
    return numbers[: 3 * len(X)].reshape(-1, 3), numbers[3 * len(X) :]


MODELS: dict[str, Any] = {
    "SOGP": lambda: sg.SOGP(lengthscale=[1.0, 1.5], capacity=30, noise=0.02),
    "SOGP by divergence": lambda: sg.SOGP(sg.Matern(1.5), capacity=20, evict="kl", removal="kl", noise=0.02),
    "SOGP with the residual dropped": lambda: sg.SOGP(sg.Matern(2.5), capacity=25, absorb="dtc", noise=0.02),
    "KRLST": lambda: sg.KRLST(lengthscale=1.0, variance=2.0, capacity=30, noise=0.02, mean=0.3),
    "KRLST that forgets": lambda: sg.KRLST(sg.Matern(0.5), capacity=15, forgetting=0.97, noise=0.05),
    "KRLST of a rational quadratic": lambda: sg.KRLST(sg.RationalQuadratic(0.8), capacity=15, noise=0.05),
    "KRLS": lambda: sg.KRLS(lengthscale=1.0, capacity=30, noise=0.02),
    "ISSGPR": lambda: sg.ISSGPR(25, lengthscale=1.0, noise=0.02),
    "ISSGPR in covariance form": lambda: sg.ISSGPR(25, lengthscale=1.0, noise=0.02, form="covariance"),
    "RecursiveGP": lambda: sg.RecursiveGP(sg.grid([-2, -2], [2, 2], 5), lengthscale=1.0, noise=0.02),
    "RecursiveGP with jitter": lambda: sg.RecursiveGP(sg.grid([-2, -2], [2, 2], 5), jitter=1e-4, noise=0.02),
    "Standardize": lambda: sg.Standardize(sg.KRLST(capacity=30, mean=0.1), warmup=50),
}


@needs_compiler
@pytest.mark.parametrize("name", MODELS)
def test_the_c_code_predicts_and_learns_as_the_library_does(name: str, tmp_path: Path) -> None:
    X, y = stream(1500)
    if name == "Standardize":
        X, y = 100.0 * X + 1e4, 1e6 * y - 3e6
        y[700] = -1e12  # a fill value: it counts as missing
    elif name.startswith("RecursiveGP"):
        X[200] = [0.0, 0.0]  # a basis point
    model = MODELS[name]()
    model.learn_many(X[:100], y[:100])
    found, numbers = run(tmp_path, model, X[100:], y[100:], COMPILERS[0])
    exported = model.copy()
    p = model.track(X[100:], y[100:])
    unit = 1e6 if name == "Standardize" else 1.0
    np.testing.assert_allclose(found[:, 0] / unit, p.mean / unit, atol=1e-9)
    np.testing.assert_allclose(found[:, 1] / unit**2, p.variance / unit**2, atol=1e-9)
    np.testing.assert_allclose(found[:, 2], p.noise, rtol=1e-14)
    # And back: the library goes on where the C code stopped.
    again = resumed(exported, numbers)
    assert again.rows_seen == model.rows_seen
    assert again.health == model.health
    np.testing.assert_allclose(
        again.predict_many(X[:50]).mean / unit, model.predict_many(X[:50]).mean / unit, atol=1e-9
    )
    np.testing.assert_allclose(state(again), numbers, rtol=0, atol=0)


@needs_compiler
@pytest.mark.soak
@pytest.mark.parametrize("name", ["SOGP", "KRLST", "ISSGPR", "RecursiveGP"])
def test_a_million_rows_differ_by_rounding(name: str, tmp_path: Path) -> None:
    X, y = stream(1_000_100)
    model = MODELS[name]()
    model.learn_many(X[:100], y[:100])
    found, _ = run(tmp_path, model, X[100:], y[100:], COMPILERS[0])
    p = model.track(X[100:], y[100:])
    np.testing.assert_allclose(found[:, 0], p.mean, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found[:, 1], p.variance, rtol=0, atol=1e-11)


@pytest.mark.more
@needs_compiler
@pytest.mark.parametrize("compiler", COMPILERS)
def test_sanitizers_have_nothing_to_say(compiler: str, tmp_path: Path) -> None:
    (tmp_path / "empty.c").write_text("int main(void) { return 0; }\n")
    if subprocess.run([compiler, SANITIZED, "-o", tmp_path / "empty", tmp_path / "empty.c"], check=False).returncode:
        pytest.skip(f"{compiler} cannot link its sanitizers here; install their library (libclang-rt-dev, libasan)")
    X, y = stream(400)
    X[7], X[9, 1], y[11] = np.nan, np.inf, np.inf  # refused
    model = sg.SOGP(lengthscale=1.0, capacity=10, noise=0.02)
    model.learn_many(X[300:], np.nan_to_num(y[300:]))
    found, _ = run(tmp_path, model, X[:300], y[:300], compiler, "-g", SANITIZED)
    assert np.isnan(found[[7, 9]]).all()
    assert np.isfinite(np.delete(found, [7, 9], axis=0)).all()


def test_the_header_reads_like_code() -> None:
    model = sg.KRLST(capacity=3)
    model.learn_many([[0.0], [1.0]], [0.0, 1.0])
    text = header(model, "arm")
    assert "@" not in text
    assert "gp_" not in text
    assert "arm_predict(arm_model *m, const double *x)" in text
    assert max(map(len, text.split("/* What the library had learned. */")[0].splitlines())) <= 120


def test_what_is_not_written_in_c_is_refused_by_name() -> None:
    X, y = stream(60)
    cases: list[tuple[Any, str]] = [
        (sg.SOGP(depth=2), r"a memory \(depth above 1"),
        (sg.SOGP(sg.Periodic(2.0)), "a kernel other than SquaredExponential, Matern and RationalQuadratic"),
        (sg.SOGP(adapt=sg.SNGD()), "adapt="),
        (sg.KRLST(mode="injection", forgetting=0.99), "forgetting by injection"),
        (sg.SOGP(mean=lambda rows: rows[:, 0]), "a mean= that is a function"),
        (sg.KRLST(estimate_power=True), "estimate_power=True"),
        (sg.SWKRLS(), 'removal="discard"'),
        (sg.RLSESN(units=5), "a memory"),
        (sg.OnlineGP(sg.Basis(), memory=sg.Reservoir(1, augment=False)), "a memory"),
    ]
    for model, match in cases:
        model.learn_many(X, np.nan_to_num(y))
        with pytest.raises(ValueError, match=match):
            header(model, "arm")
    young, model = sg.Standardize(sg.SOGP()), sg.SOGP()
    for one in (young, model):
        one.learn_many(X, y)
    calls: list[tuple[Any, str]] = [
        (lambda: header(sg.SOGP(), "arm"), "has to have seen rows"),
        (lambda: header(young, "arm"), "those of its warm-up"),
        (lambda: header(sg.filters.KLMS(), "arm"), "only an OnlineGP can become C"),
        (lambda: header(model, "my-arm"), "name must be one that C takes"),
        (lambda: resumed(model, np.zeros(3)), "is it of another model"),
        (lambda: resumed(model, np.full(state(model).size, np.nan)), "not finite"),
    ]
    for call, match in calls:
        with pytest.raises(ValueError, match=match):
            call()
