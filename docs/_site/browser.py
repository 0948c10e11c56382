"""The engine of docs/in-your-browser.md: ``python docs/_site/browser.py`` compiles an exported model to WebAssembly.

It needs clang and lld with their target wasm32 and a C library for it, on Debian the packages clang, lld, wasi-libc and
libclang-rt-dev-wasm32. The result is docs/_static/engine.js, which has the module as text: the site opens from the
disk, where a page may not load other files.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import tempfile
from pathlib import Path

import streamgp as sg
from streamgp.export.c import header
from streamgp.version import __version__

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "docs" / "_static" / "engine.js"
FLAGS = [
    *("--target=wasm32-wasi", "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"),
    *("-nostartfiles", "-Wl,--no-entry", "-Wl,--strip-all"),
]

# Numbers come and go one by one, so that the page needs no memory of the module.
MAIN = """
#include "engine.h"

#define EXPORT(name) __attribute__((export_name(name)))

static engine_model model;
static engine_prediction prediction;

EXPORT("start") void start(void)
{
    engine_start(&model);
}

EXPORT("learn") int learn(double x, double y)
{
    return engine_learn(&model, &x, y);
}

EXPORT("mean") double mean(double x) /* and the two below, of the same x */
{
    prediction = engine_predict(&model, &x);
    return prediction.mean;
}

EXPORT("variance") double variance(void)
{
    return prediction.variance;
}

EXPORT("noise") double noise(void)
{
    return prediction.noise;
}

EXPORT("points") int points(void)
{
    return (int)model.points;
}

EXPORT("point") double point(int i)
{
    return model.basis[i][0];
}
"""


def engine() -> sg.StreamModel:
    """The model: the canvas is 10 wide, and 2 high around 0."""
    model = sg.KRLST(sg.Matern(2.5, lengthscale=0.8, variance=0.5), noise=0.002, capacity=40, forgetting=0.9995)
    model.learn_one([5.0], None)  # its shape, and nothing learned
    return model


def source() -> str:
    """The C code of the engine, without the version that wrote it."""
    return header(engine(), "engine").replace(__version__, "") + MAIN


def digest() -> str:
    """What stands in engine.js to tell whether it is that of this code."""
    return hashlib.sha256(source().encode()).hexdigest()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "engine.h").write_text(header(engine(), "engine"))
        (Path(folder) / "main.c").write_text(MAIN)
        subprocess.run(["clang", *FLAGS, "-o", "engine.wasm", "main.c", "-lm"], cwd=folder, check=True)
        module = (Path(folder) / "engine.wasm").read_bytes()
    text = base64.b64encode(module).decode()
    ENGINE.write_text(
        "/* A model as WebAssembly, written by docs/_site/browser.py; the digest is that of its C code. */\n"
        f'const ENGINE_DIGEST = "{digest()}";\nconst ENGINE = "{text}";\n'
    )
    print(f"{ENGINE.relative_to(ROOT)}: {len(module):,} bytes of WebAssembly")


if __name__ == "__main__":
    main()
