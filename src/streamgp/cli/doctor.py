"""``streamgp doctor``: what a report of a problem should say, and whether the arithmetic is right on this machine."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import typer

from streamgp.cli.errors import reported

NEEDED = ("numpy", "scipy", "safetensors", "typer", "rich")
OPTIONAL = ("numba", "llvmlite", "pyarrow", "pandas", "matplotlib", "scikit-learn", "river", "skpro", "torch")
ROWS, TOLERANCE = 200, 1e-8


def doctor(ctx: typer.Context) -> None:
    """Print versions, processor, machine code, BLAS and GPU; compile what is missing; test the arithmetic."""
    with reported():
        as_json = ctx.obj["json"]
        facts: dict[str, Any] = {
            "versions": _versions(),
            "processor": _processor(),
            "code": _code(),
            "BLAS": _blas(),
            "GPU": _gpu(),
        }
        if not as_json:
            for name, found in facts.items():
                shown = ", ".join(f"{what} {which}" for what, which in found.items()) if name == "versions" else found
                typer.echo(f"{name + ':':<11}{shown}")
        results = _self_test()
        wrong = [claim for claim, right, _ in results if not right]
        if as_json:
            checks = {claim: {"passed": right, "measured": measured} for claim, right, measured in results}
            typer.echo(json.dumps(facts | {"self-test": checks}))
        else:
            for claim, right, measured in results:
                typer.echo(f"{'self-test:':<11}{'passed' if right else 'FAILED'}: {claim} ({measured})")
    if wrong:
        typer.echo("streamgp: the self-test failed; please report what is printed above", err=True)
        raise typer.Exit(1)


def _versions() -> dict[str, str]:
    from streamgp.version import __version__

    found = {"streamgp": __version__, "Python": platform.python_version()}
    for name in (*NEEDED, *OPTIONAL):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            if name in NEEDED:
                found[name] = "MISSING"
    return found


def _code() -> str:
    """Whose machine code is in use."""
    from streamgp.compiled import way
    from streamgp.job.ahead import every

    said: str = way.described(every())
    return said


def _processor() -> str:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{platform.machine()} ({_model()}), {usable} cores usable, {platform.platform()}"


def _model() -> str:
    """What the processor calls itself, where that is easily found out."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _blas() -> str:
    import numpy as np

    built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    threads = os.environ.get("OMP_NUM_THREADS", "unset: one per core")
    return f"{built.get('name', 'unknown')} {built.get('version', '')}, OMP_NUM_THREADS {threads}"


def _gpu() -> str:
    """What the driver says; nothing but its own library is loaded."""
    library = {"linux": "libcuda.so.1", "win32": "nvcuda.dll"}.get(sys.platform)
    if library is None:
        return "none that can be used"
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        return "none (no NVIDIA driver)"
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or not count.value:
        return "none (the NVIDIA driver finds no device)"
    names = []
    for number in range(count.value):
        name = ctypes.create_string_buffer(100)
        driver.cuDeviceGetName(name, len(name), number)
        names.append(name.value.decode(errors="replace"))
    return ", ".join(names)


def _self_test() -> list[tuple[str, bool, str]]:
    """Claims, whether they hold here, and what was measured; compiles, once, what the commands need."""
    import numpy as np

    import streamgp as sg
    from streamgp.job.ahead import compile_for_commands

    compile_for_commands()
    rng = np.random.default_rng(0)
    x = rng.permutation(np.linspace(-70.0, 70.0, ROWS))
    y = np.sin(x) + 0.1 * rng.standard_normal(ROWS)
    model = sg.SOGP(lengthscale=1.0, noise=0.01, capacity=ROWS, jitter=0.0)
    began = time.perf_counter()
    model.learn_many(x, y)
    taken = (time.perf_counter() - began) / ROWS
    grid = np.linspace(-72.0, 72.0, 500)
    ours = model.predict_many(grid)
    mean, variance = _exact(x, y, grid)
    worst = max(np.max(np.abs(ours.mean - mean)), np.max(np.abs(ours.variance - variance)))
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.sgp")
        again = sg.load(Path(folder) / "model.sgp").predict_many(grid)
    same = bool(np.array_equal(ours.mean, again.mean) and np.array_equal(ours.variance, again.variance))
    measured = f"largest difference {worst:.1e}; {1e6 * taken:.0f} µs per row, up to {model.size} basis points"
    return [
        ("SOGP equals the exact Gaussian process", bool(worst < TOLERANCE), measured),
        ("a saved model predicts the same bits", same, "equal" if same else "different"),
    ]


def _exact(x: Any, y: Any, at: Any) -> tuple[Any, Any]:
    """The textbook's posterior of a squared exponential kernel with lengthscale 1 and noise 0.01."""
    import numpy as np

    def k(a: Any, b: Any) -> Any:
        return np.exp(-0.5 * (a[:, None] - b) ** 2)

    weights = np.linalg.solve(k(x, x) + 0.01 * np.eye(len(x)), np.column_stack([y, k(x, at)]))
    return k(at, x) @ weights[:, 0], 1.0 - np.sum(k(x, at) * weights[:, 1:], axis=0)
