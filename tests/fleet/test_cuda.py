"""A fleet on a GPU, where there is one, against the same fleet on the cores."""

import numpy as np
import pytest

import streamgp as sg
from streamgp.cuda import exchange
from streamgp.fleet.devices import no_gpu
from tests.fleet.settings import differences
from tests.fleet.test_equality import COMPILED, made, walk
from tests.fleet.test_gpu_source import RECIPES, WRAPPED, rows
from tests.fleet.walk import SIZE
from tests.same import assert_close

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


def test_calls_that_come_again_and_again_give_what_the_cores_give():
    X, Y = rows(60, 50)
    gpu, cores = (sg.Fleet(RECIPES["KRLST"](), size=50, device=device) for device in ("cuda", "cpu"))
    kept = []
    for t in range(40):
        p, q = gpu.track(X[t], Y[t]), cores.track(X[t], Y[t])
        kept.append(p.mean)  # more predictions than blocks of pinned memory
        np.testing.assert_allclose(p.mean, q.mean, atol=1e-8)
        np.testing.assert_allclose(gpu.predict_many(X[t]).mean, cores.predict_many(X[t]).mean, atol=1e-8)
        if t == 20:
            gpu.add(1)
            gpu.remove([50])
    np.testing.assert_allclose(kept[0], 0.0)
    np.testing.assert_allclose(gpu.track(X[40:], Y[40:]).mean, cores.track(X[40:], Y[40:]).mean, atol=1e-8)
    with pytest.raises(ValueError, match="model 7: x has NaN or inf"):
        gpu.track(np.where(np.arange(50)[:, None] == 7, np.nan, X[0]), Y[0])
    np.testing.assert_allclose(gpu.predict_many(X[0]).mean, cores.predict_many(X[0]).mean, atol=1e-8)


def test_rows_on_the_gpu_stay_there():
    torch = pytest.importorskip("torch")
    X, Y = rows(30, 50)
    gpu, cores = (sg.Fleet(RECIPES["KRLST"](), size=50, device=device) for device in ("cuda", "cpu"))
    for t in range(10):
        p, q = gpu.track(torch.tensor(X[t]).cuda(), torch.tensor(Y[t]).cuda()), cores.track(X[t], Y[t])
        np.testing.assert_allclose(torch.as_tensor(p.mean, device="cuda").cpu().numpy(), q.mean, atol=1e-8)
        np.testing.assert_allclose(torch.as_tensor(p.variance, device="cuda").cpu().numpy(), q.variance, atol=1e-8)
    p, q = gpu.track(torch.tensor(X[10:]).cuda(), torch.tensor(Y[10:]).cuda()), cores.track(X[10:], Y[10:])
    np.testing.assert_allclose(np.asarray(p.mean), q.mean, atol=1e-8)
    np.testing.assert_allclose(
        np.asarray(gpu.predict_many(torch.tensor(X[0]).cuda()).mean), cores.predict_many(X[0]).mean, atol=1e-8
    )
    with pytest.raises(ValueError, match="inputs must lie within"):
        gpu.track(torch.full((50, 2), torch.nan).cuda(), torch.zeros(50).cuda())
    with pytest.raises(ValueError, match="must be contiguous"):
        gpu.predict_many(torch.tensor(X[0].T.copy()).cuda().T)
    with pytest.raises(TypeError, match="Y must be there as well"):
        gpu.track(torch.tensor(X[0]).cuda(), Y[0])
    with pytest.raises(ValueError, match="without ids"):
        gpu.predict_many(torch.tensor(X[0]).cuda(), ids=range(50))
    with pytest.raises(TypeError, match="takes no such rows"):
        cores.track(torch.tensor(X[0]).cuda(), torch.tensor(Y[0]).cuda())


ON_THE_GPU = {
    "ISSGPR": lambda: sg.ISSGPR(features=8),
    "TimeGP": lambda: sg.TimeGP(sg.Matern(2.5, lengthscale=20.0) + sg.Periodic(24.0)),
    "OIESGP": lambda: sg.OIESGP(depth=3, capacity=10),
    "QKLMS": lambda: sg.filters.QKLMS(capacity=10),
    "LWPR": sg.LWPR,
}


@pytest.mark.parametrize("name", ON_THE_GPU)
@pytest.mark.parametrize("single", [False, True])
def test_rows_on_the_gpu_stay_there_whatever_the_loop(name, single):
    torch = pytest.importorskip("torch")
    X, Y = rows(30, 50)
    X, Y = (values.astype(np.float32 if single else np.float64) for values in (X[..., : 2 * (name != "TimeGP")], Y))
    Y[3, 7] = np.nan
    gpu, cores = (sg.Fleet(ON_THE_GPU[name](), size=50, device=device) for device in ("cuda", "cpu"))
    for part in (*range(10), slice(10, 30)):
        there = torch.tensor(X[part]).cuda(), torch.tensor(Y[part]).cuda()
        p, q = gpu.track(*there), cores.track(X[part].astype(float), Y[part].astype(float))
        np.testing.assert_allclose(np.asarray(p.mean), q.mean, atol=1e-8)
        if name != "QKLMS":
            np.testing.assert_allclose(np.asarray(p.variance), q.variance, atol=1e-8)
            np.testing.assert_allclose(np.asarray(p.noise), q.noise, atol=1e-8)
    expected = cores.predict_many(X[0].astype(float)).mean
    with pytest.raises(ValueError, match="must be finite, and within"):
        gpu.track(there[0][0], torch.full((50,), torch.inf, dtype=there[1].dtype).cuda())
    with pytest.raises(ValueError, match="model 7: y has inf"):
        gpu.track(X[0].astype(float), np.where(np.arange(50) == 7, np.inf, 0.0))
    np.testing.assert_allclose(np.asarray(gpu.predict_many(torch.tensor(X[0]).cuda()).mean), expected, atol=1e-8)
    np.testing.assert_allclose(gpu.predict_many(X[0].astype(float)).mean, expected, atol=1e-8)


def test_120_random_settings_are_predicted_as_on_the_cores():
    worst = {}
    for seed in range(120):
        mean, variance = differences(seed, rows=150, size=8)
        if not (mean < 1e-8 and variance < 1e-8):
            worst[seed] = mean, variance
    assert worst == {}


@pytest.mark.parametrize("name", ["Standardize", "Calibrated", "both", "inside out"])
def test_wrappers_around_models_on_a_gpu_do_what_they_do_on_the_cores(name):
    X, Y = rows(60, 30)
    X, Y, time = 1e3 + 50.0 * X, 300.0 - 7.0 * Y, np.arange(60.0)
    gpu, cores = (sg.Fleet(WRAPPED[name](), size=30, device=device) for device in ("cuda", "cpu"))
    for part in (slice(0, 5), *(slice(t, t + 1) for t in range(5, 20)), slice(20, 60)):
        p, q = (fleet.track(X[part], Y[part], time=time[part]) for fleet in (gpu, cores))
        np.testing.assert_allclose(p.mean, q.mean, rtol=1e-8)
        np.testing.assert_allclose(p.interval(), q.interval(), rtol=1e-8)
    np.testing.assert_allclose(gpu.model(3).predict_many(X[0]).mean, cores.model(3).predict_many(X[0]).mean, rtol=1e-7)


# Of each loop, and of what has text of its own in it.
ONE_OF_A_KIND = (
    "SOGP, outliers",
    "OIESGP",
    "KRLST",
    "FBKRLS",
    "ISSGPR",
    "OESGP",
    "KLMS",
    "LWPR",
    "LocalGP",
    "Standardize",
    "TimeGP",
)


@pytest.mark.parametrize("name", ONE_OF_A_KIND)
def test_kernels_are_the_loop_over_their_models(name, monkeypatch):
    monkeypatch.setattr(exchange, "fits", lambda model: False)
    outputs = (2,) if name in ("ISSGPR", "KRLST", "Standardize") else ()
    recipe = made(COMPILED, name, outputs)
    walk(sg.Fleet(recipe, size=SIZE, device="cuda", pending=100), recipe, name, outputs, same=assert_close).go()
