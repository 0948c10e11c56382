"""A fleet on a GPU, where there is one, against the same fleet on the cores."""

import numpy as np
import pytest

import streamgp as sg
from streamgp.fleet.devices import no_gpu
from tests.fleet.test_gpu_source import RECIPES, rows

pytestmark = pytest.mark.skipif(bool(no_gpu()), reason=f"no GPU: {no_gpu()}")


@pytest.mark.parametrize("name", RECIPES)
def test_a_gpu_predicts_what_the_cores_do(name):
    X, Y = rows(200, 40)
    gpu, cores = (sg.Fleet(RECIPES[name](), size=40, device=device) for device in ("cuda", "cpu"))
    p, q = gpu.track(X, Y), cores.track(X, Y)
    np.testing.assert_allclose(p.mean, q.mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, q.variance, atol=1e-8)
    ids = np.array([3, 3, 39, 0])
    np.testing.assert_allclose(
        gpu.predict_many(X[0, ids], ids).mean, cores.predict_many(X[0, ids], ids).mean, atol=1e-8
    )
    np.testing.assert_allclose(gpu.to("cpu").predict_many(X[0]).mean, cores.predict_many(X[0]).mean, atol=1e-8)
    assert gpu.broken().tolist() == []


@pytest.mark.parametrize(("capacity", "precision"), [(31, "single"), (100, "single"), (100, "double"), (140, "single")])
def test_many_sizes_run(capacity, precision):
    X, Y = rows(300, 20)
    recipe = sg.SOGP(sg.SquaredExponential(0.5), capacity=capacity, novelty=0.01, noise=0.01)
    p = sg.Fleet(recipe, size=20, device="cuda", precision=precision).track(X, Y)
    q = sg.Fleet(recipe, size=20).track(X, Y)
    np.testing.assert_allclose(p.mean, q.mean, atol=1e-8 if precision == "double" else 0.05)


def test_snapshots_of_a_gpu_go_on_bit_for_bit(tmp_path):
    X, Y = rows(60, 3000)
    fleet = sg.Fleet(RECIPES["KRLST"](), size=3000, device="cuda")
    fleet.learn_many(X[:30], Y[:30])
    fleet.save(tmp_path / "fleet.sgp")
    np.testing.assert_array_equal(
        sg.load(tmp_path / "fleet.sgp").track(X[30:], Y[30:]).mean, fleet.track(X[30:], Y[30:]).mean
    )
