"""A fleet on a GPU, where there is one, against the same fleet on the cores."""

import numpy as np
import pytest

import streamgp as sg
from streamgp.fleet import devices
from streamgp.fleet.devices import no_gpu
from tests.fleet.settings import differences, wrapped_difference
from tests.fleet.test_equality import COMPILED, SIZE, assert_close, assert_is_the_loop, separate
from tests.fleet.test_gpu_source import RECIPES, SEVERAL, WRAPPED, rows, several

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


@pytest.mark.parametrize("name", SEVERAL)
def test_several_outputs_are_predicted_as_on_the_cores(name):
    X, Y = several(120, 40)
    gpu, cores = (sg.Fleet(SEVERAL[name](), size=40, device=device) for device in ("cuda", "cpu"))
    for part in (slice(0, 1), slice(1, 3), slice(3, 4), slice(4, 5), slice(5, 120)):
        p, q = (fleet.track(X[part], Y[part]) for fleet in (gpu, cores))
        np.testing.assert_allclose(p.mean, q.mean, atol=1e-8, rtol=1e-8)
        np.testing.assert_allclose(p.interval(), q.interval(), atol=1e-8, rtol=1e-8)
    with pytest.raises(ValueError, match="model 7: .*missing"):
        gpu.track(X[0], np.where(np.arange(40)[:, None] == 7, [0.0, np.nan, 0.0], 0.0))
    np.testing.assert_allclose(gpu.to("cpu").predict_many(X[0]).mean, cores.predict_many(X[0]).mean, atol=1e-7)
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


@pytest.mark.parametrize("number", [np.float64, np.float32])
def test_rows_in_pinned_memory_are_taken_from_there(number):
    X, Y = rows(30, 50)
    X, Y = X.astype(number), Y.astype(number)
    gpu, cores = (sg.Fleet(RECIPES["KRLST"](), size=50, device=device) for device in ("cuda", "cpu"))
    for fleet in (gpu, cores):
        fleet.learn_many(X[0].astype(float), Y[0].astype(float))
    x, y = gpu.pinned(dtype=number)
    for t in range(1, 30):
        x[:], y[:] = X[t], Y[t]
        p, q = gpu.track(x, y), cores.track(X[t].astype(float), Y[t].astype(float))
        np.testing.assert_allclose(p.mean, q.mean, atol=1e-8)


def test_pinned_memory_that_nobody_holds_is_forgotten():
    fleet = sg.Fleet(RECIPES["KRLST"](), size=5, device="cuda")
    fleet.learn_many(*(part[0] for part in rows(1, 5)))
    given = fleet._engine._memory._given
    own = len(given)  # of the fleet itself, for rows that come from elsewhere
    held = [fleet.pinned() for _ in range(3)]
    assert len(given) == own + 6
    del held[1:]
    assert len(given) == own + 2


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


def test_120_random_settings_are_predicted_as_on_the_cores():
    worst = {}
    for seed in range(120):
        mean, variance = differences(seed, rows=150, size=8)
        if not (mean < 1e-8 and variance < 1e-8):
            worst[seed] = mean, variance
    assert worst == {}


def test_40_random_wrappers_tell_what_they_do_on_the_cores():
    found = {seed: wrapped_difference(seed, rows=120, size=8) for seed in range(40)}
    assert {seed: worst for seed, worst in found.items() if not worst < 1e-8} == {}


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


@pytest.mark.parametrize("outputs", [(), (2,)], ids=["one output", "two outputs"])
@pytest.mark.parametrize("name", COMPILED)
def test_kernels_of_all_recipes_are_the_loop_over_their_models(name, outputs, monkeypatch):
    monkeypatch.setattr(devices, "is_for_lanes", lambda model, waits: False)
    recipe = separate(COMPILED[name]()) if "outliers" in name and outputs else COMPILED[name]()
    assert_is_the_loop(sg.Fleet(recipe, size=SIZE, device="cuda"), recipe, outputs, assert_close)


def test_a_kernel_over_time_counts_the_same(monkeypatch):
    monkeypatch.setattr(devices, "is_for_lanes", lambda model, waits: False)
    rng = np.random.default_rng(0)
    recipe = sg.TimeGP(sg.Matern(1.5, lengthscale=3.0) + sg.Periodic(10.0))
    gpu, cores = (sg.Fleet(recipe, size=50, device=device) for device in ("cuda", "cpu"))
    time, Y, X = np.cumsum(rng.exponential(size=40)), rng.normal(size=(40, 50)), np.empty((40, 50, 0))
    for part in (slice(0, 1), slice(1, 3), slice(3, 40)):
        p, q = (fleet.track(X[part], Y[part], time=time[part]) for fleet in (gpu, cores))
        np.testing.assert_allclose(p.mean, q.mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(p.variance, q.variance, rtol=1e-8)
