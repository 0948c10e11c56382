"""``streamgp doctor``, what a report of a problem should say, and whether arithmetic is right; ``streamgp compile``."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from importlib.metadata import distributions

import typer

PACKAGES = {"numpy", "scipy", "numba", "llvmlite", "lightgbm", "pyarrow", "pandas", "torch"}
GPUS = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
ROWS, TOLERANCE = 200, 1e-8


def doctor(ctx: typer.Context) -> None:
    """Print versions, processor, machine code, BLAS and GPUs; compile what is missing; test the arithmetic."""
    import numpy as np

    from streamgp.compiled import way
    from streamgp.job.ahead import compile_for_commands, every
    from streamgp.version import __version__

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    gpus = subprocess.run(GPUS, capture_output=True, text=True).stdout.split("\n") if shutil.which(GPUS[0]) else []
    facts = {
        "streamgp": f"{__version__}, Python {platform.python_version()}, {platform.platform()}",
        "packages": ", ".join(sorted(f"{one.name} {one.version}" for one in distributions() if one.name in PACKAGES)),
        "processor": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "code": way.described(every()),
        "BLAS": f"{blas.get('name')} {blas.get('version')}, OMP_NUM_THREADS {os.environ.get('OMP_NUM_THREADS')}",
        "GPU": "; ".join(filter(None, gpus)) or "none with NVIDIA's driver",
    }
    compile_for_commands()
    worst = _largest_error()
    said = f"SOGP equals the exact Gaussian process to {worst:.1e}, expected {TOLERANCE:g}"
    facts["self-test"] = f"{'passed' if worst < TOLERANCE else 'FAILED'}: {said}"
    if ctx.obj["json"]:
        typer.echo(json.dumps(facts))
    else:
        for name, found in facts.items():
            typer.echo(f"{name + ':':<11}{found}")
    if not worst < TOLERANCE:
        typer.echo("streamgp: the self-test failed; please report what is printed above", err=True)
        raise typer.Exit(1)


def _largest_error() -> float:
    """Of a SOGP with room for all rows, beside the textbook's posterior with lengthscale 1 and noise 0.01."""
    import numpy as np

    import streamgp as sg

    rng = np.random.default_rng(0)
    x, grid = rng.permutation(np.linspace(-70.0, 70.0, ROWS)), np.linspace(-72.0, 72.0, 500)
    y = np.sin(x) + 0.1 * rng.standard_normal(ROWS)
    model = sg.SOGP(lengthscale=1.0, noise=0.01, capacity=ROWS, jitter=0.0)
    model.learn_many(x, y)
    ours = model.predict_many(grid)
    among, beside = (np.exp(-0.5 * (x[:, None] - at) ** 2) for at in (x, grid))
    weights = np.linalg.solve(among + 0.01 * np.eye(ROWS), np.column_stack([y, beside]))
    mean, variance = beside.T @ weights[:, 0], 1.0 - np.sum(beside * weights[:, 1:], axis=0)
    return float(max(np.max(np.abs(ours.mean - mean)), np.max(np.abs(ours.variance - variance))))


def fill_cache(ctx: typer.Context) -> None:
    """Compile everything ahead of time, for container images and installers."""
    from streamgp.compiled import way
    from streamgp.job.ahead import compile_all, every

    compile_all()
    if not ctx.obj["json"]:
        typer.echo(way.described(every()))
