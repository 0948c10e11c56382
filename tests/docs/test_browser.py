"""The page that learns in the browser: its engine is the model of the library, compiled to WebAssembly."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
NODE = shutil.which("node")
RUN = """
const fs = require("fs");
eval(fs.readFileSync(process.argv[1], "utf8") + "; globalThis.module_ = ENGINE");
const imports = new Proxy({}, { get: (_, name) => { throw new Error("the engine asks for " + name); } });
const engine = new WebAssembly.Instance(new WebAssembly.Module(Buffer.from(module_, "base64")), imports).exports;
const rows = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
engine.start();
const found = rows.map(([x, y]) => {
  const p = [engine.mean(x), engine.variance(), engine.noise()];
  engine.learn(x, y);
  return p;
});
console.log(JSON.stringify({ found, basis: Array.from({ length: engine.points() }, (_, i) => engine.point(i)) }));
"""


@pytest.fixture(scope="module")
def browser():
    spec = importlib.util.spec_from_file_location("browser", ROOT / "docs" / "_site" / "browser.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_engine_is_made_of_the_present_c_code(browser):
    assert browser.digest() in browser.ENGINE.read_text(), "run python docs/_site/browser.py (it says what it needs)"


@pytest.mark.skipif(NODE is None, reason="needs Node.js")
def test_the_engine_predicts_and_learns_as_the_library_does(browser, tmp_path):
    rng = np.random.default_rng(0)
    x = 5.0 + 5.0 * np.sin(np.cumsum(0.1 * rng.standard_normal(2000)))  # a hand that moves to and fro
    y = np.sin(x) * np.where(np.arange(2000) < 1000, 0.8, -0.5) + 0.05 * rng.standard_normal(2000)
    (tmp_path / "rows.json").write_text(json.dumps(np.column_stack([x, y]).tolist()))
    command = [NODE, "-e", RUN, browser.ENGINE, tmp_path / "rows.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    model = browser.engine()
    p = model.track(x[:, None], y)
    found = np.array(answer["found"])
    np.testing.assert_allclose(found[:, 0], p.mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[:, 1], p.variance, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[:, 2], p.noise, rtol=1e-12)
    np.testing.assert_array_equal(answer["basis"], model.basis[:, 0])
