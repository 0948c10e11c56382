"""What a GPU runs, run by plain Python with one lane, against single models."""

import os
import subprocess
import sys

import numpy as np
import pytest

import streamgp as sg
from streamgp.blas import one_thread
from streamgp.cuda.exchange import refuse_large
from streamgp.cuda.plain import PlainMemory
from streamgp.fleet import devices, workers
from streamgp.fleet.gpu import GpuEngine
from streamgp.fleet.plain_wrappers import PlainWrappers
from tests.fleet.plain_place import PlainPlace
from tests.fleet.settings import SHAPES, differences, wrapped_difference

CLOSE = 1e-8


def plain_engine(device, precision, model, size, threads, waits):
    """In place of the GPU's."""
    if device == "cpu":
        return CPU(device, precision, model, size, threads, waits)
    if not devices.is_for_lanes(model, waits):
        return GpuEngine(model, size, threads or 2, PlainPlace())
    return devices.on_lanes(model, size, precision, PlainMemory, PlainWrappers)


CPU = devices.engine


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    monkeypatch.setattr(devices, "engine", plain_engine)
    monkeypatch.setattr(devices, "no_gpu", lambda: "")


def krlst(**settings):
    return sg.KRLST(**({"kernel": sg.SquaredExponential([1.0, 0.7]), "capacity": 8, "forgetting": 0.99} | settings))


RECIPES = {
    "KRLST": krlst,
    "KRLST, Matern 1/2": lambda: krlst(kernel=sg.Matern(0.5, lengthscale=2.0)),
    "KRLST, Matern 3/2": lambda: krlst(kernel=sg.Matern(1.5, lengthscale=2.0)),
    "KRLST, no forgetting": lambda: krlst(forgetting=1.0, noise=0.1),
    "SOGP": lambda: sg.SOGP(sg.SquaredExponential(1.0, variance=3.0), capacity=8, novelty=0.05),
    "SOGP, every row, KL": lambda: sg.SOGP(sg.Matern(2.5, lengthscale=2.0), capacity=8, novelty=0.0, evict="kl"),
    "an even number of points": lambda: sg.SOGP(capacity=7, novelty=0.0),
    "ISSGPR": lambda: sg.ISSGPR(5, lengthscale=1.0),
    "Fourier, forgetting": lambda: sg.OnlineGP(
        sg.Fourier(5, lengthscale=1.0, variance=2.0), forgetting=sg.BackToPrior(0.95)
    ),
}


def rows(n, size, seed=0):
    """Smooth walks that stay in a bounded place; a tenth of the targets is missing."""
    rng = np.random.default_rng(seed)
    X = 2.0 * np.sin(np.cumsum(0.4 * rng.normal(size=(n, size, 2)), axis=0))
    Y = np.sin(X[..., 0]) * X[..., 1] + 0.1 * rng.normal(size=(n, size))
    Y[rng.random(Y.shape) < 0.1] = np.nan
    return X, Y


@pytest.mark.parametrize("name", RECIPES)
def test_rows_are_predicted_and_learned_as_by_single_models(name):
    X, Y = rows(60, 3)
    fleet = sg.Fleet(RECIPES[name](), size=3, device="cuda")
    p = fleet.track(X, Y)
    for i in range(3):
        single = RECIPES[name]()
        q = single.track(X[:, i], Y[:, i])
        np.testing.assert_allclose(p.mean[:, i], q.mean, atol=CLOSE, rtol=CLOSE)
        np.testing.assert_allclose(p.variance[:, i], q.variance, atol=CLOSE, rtol=CLOSE)
        np.testing.assert_array_equal(p.noise[:, i], q.noise)
        assert fleet.model(i).size == single.size
    assert (fleet.rows_seen == 60).all()


@pytest.mark.parametrize("name", RECIPES)
def test_models_taken_out_and_put_back_go_on_alike(name):
    X, Y = rows(40, 2, seed=1)
    fleet = sg.Fleet(RECIPES[name](), size=2, device="cuda")
    fleet.learn_many(X, Y)
    taken = [fleet.model(i) for i in range(2)]
    fleet.replace(0, taken[0])
    more, targets = rows(30, 2, seed=2)
    p = fleet.track(more, targets)
    for i in range(2):
        q = taken[i].track(more[:, i], targets[:, i])
        np.testing.assert_allclose(p.mean[:, i], q.mean, atol=CLOSE, rtol=CLOSE)
        np.testing.assert_allclose(p.variance[:, i], q.variance, atol=CLOSE, rtol=CLOSE)


@pytest.mark.parametrize("seed", range(len(SHAPES)))
def test_random_settings_are_predicted_as_on_the_cores(seed):
    mean, variance = differences(seed, rows=30, size=2)
    assert mean < CLOSE
    assert variance < CLOSE


OWN = {
    "lengthscale": np.array([[0.5, 1.0], [1.0, 2.0], [np.nan, np.nan]]),
    "variance": np.array([2.0, 0.5, 1.0]),
    "noise": np.array([0.01, np.nan, 0.2]),
}


@pytest.mark.parametrize("make", [sg.KRLST, sg.SOGP, sg.ISSGPR])
def test_each_model_has_hyperparameters_of_its_own(make, tmp_path):
    X, Y = rows(40, 4)
    recipe = make(6) if make is sg.ISSGPR else make(capacity=8)
    prior = sg.Prior({"lengthscale": [[0.8, 0.6]], "noise": [[0.05]]}, shares=[1.0], best=0)
    gpu, cores = (sg.Fleet(recipe, size=3, device=device, prior=prior, **OWN) for device in ("cuda", "cpu"))
    first, expected = (fleet.predict_many(X[0, :3]) for fleet in (gpu, cores))
    np.testing.assert_allclose(first.variance, expected.variance, rtol=CLOSE)
    p, q = (fleet.track(X[:20, :3], Y[:20, :3]) for fleet in (gpu, cores))
    np.testing.assert_allclose(p.mean, q.mean, atol=CLOSE)
    np.testing.assert_allclose(p.variance, q.variance, atol=CLOSE)
    np.testing.assert_array_equal(p.noise, q.noise)
    for fleet in (gpu, cores):
        fleet.replace(0, fleet.model(2))
        fleet.add(1)
    gpu.save(tmp_path / "fleet.sgp")
    for fleet in (gpu, gpu.to("cpu"), gpu.to("cpu").to("cuda"), sg.load(tmp_path / "fleet.sgp")):
        p, q = fleet.track(X[20:], Y[20:]), cores.copy().track(X[20:], Y[20:])
        np.testing.assert_allclose(p.mean, q.mean, atol=CLOSE)
        np.testing.assert_allclose(p.variance, q.variance, atol=CLOSE)
        np.testing.assert_allclose(p.noise, q.noise)
    gpu.remove([0, 1])
    cores.learn_many(X[20:], Y[20:])
    cores.remove([0, 1])
    np.testing.assert_allclose(gpu.predict_many(X[0, 2:]).mean, cores.predict_many(X[0, 2:]).mean, atol=CLOSE)
    np.testing.assert_array_equal(gpu.predict_many(X[0, 2:]).noise, cores.predict_many(X[0, 2:]).noise)


SEVERAL = {name: RECIPES[name] for name in ("KRLST", "SOGP", "SOGP, every row, KL", "ISSGPR", "Fourier, forgetting")}
SEVERAL |= {
    "Standardize": lambda: sg.Standardize(sg.SOGP(capacity=8, novelty=0.05), warmup=12),
    "both": lambda: sg.Calibrated(sg.Standardize(sg.SOGP(capacity=8, novelty=0.05), warmup=12), warmup=5),
}


def several(n, size):
    """Rows with three targets of different sizes."""
    X, Y = rows(n, size)
    return X, np.stack([Y, 3.0 * np.cos(X[..., 1]) + 0.0 * Y, X[..., 0] - 20.0 * Y], axis=-1)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_outputs_share_a_covariance(name, tmp_path):
    X, Y = several(60, 2)
    gpu, cores = (sg.Fleet(SEVERAL[name](), size=2, device=device) for device in ("cuda", "cpu"))

    def compare(there, here, part, close=CLOSE):
        p, q = (fleet.track(X[part], Y[part]) for fleet in (there, here))
        assert p.mean.shape == q.mean.shape == Y[part].shape
        np.testing.assert_allclose(p.mean, q.mean, atol=close, rtol=close)
        np.testing.assert_allclose(p.std, q.std, atol=close, rtol=close)
        np.testing.assert_allclose(p.interval(), q.interval(), atol=close, rtol=close)

    compare(gpu, cores, slice(0, 1))
    compare(gpu, cores, slice(1, 40))
    before, partly = gpu.to_bytes(), Y[40].copy()
    partly[1, 2] = np.nan if np.isfinite(partly[1, 0]) else 0.0
    with pytest.raises(ValueError, match="model 1: .*missing"):
        gpu.track(X[40], partly)
    assert gpu.to_bytes() == before
    for fleet in (gpu, cores):
        fleet.replace(0, fleet.model(1))
    gpu.save(tmp_path / "fleet.sgp")
    for moved in (gpu.to("cpu"), gpu.to("cpu").to("cuda"), sg.load(tmp_path / "fleet.sgp")):
        compare(moved, cores.copy(), slice(40, 60), 1e-7)
    assert gpu.broken().tolist() == []


def test_several_outputs_that_broke_are_made_anew():
    X, Y = several(60, 2)
    fleet = sg.Fleet(sg.SOGP(capacity=8, novelty=0.05), size=2, device="cuda")
    fleet.learn_many(X, Y)
    before, at = fleet.predict_many(X[:1]), fleet._engine._exchange.shape.at["L"]
    fleet._engine._memory._records[1, at : at + 9] *= 1.06
    assert fleet.refresh().tolist() == [1]
    np.testing.assert_allclose(fleet.predict_many(X[:1]).mean, before.mean, atol=0.5)


def test_a_fleet_on_a_gpu_is_tuned_as_on_the_cores():
    X, Y = rows(12, 3)
    gpu, cores = (sg.Fleet(sg.KRLST(capacity=6), size=3, device=device) for device in ("cuda", "cpu"))
    there, here = (fleet.tune(X, Y) for fleet in (gpu, cores))
    np.testing.assert_allclose(there.shares, here.shares, atol=1e-6)
    np.testing.assert_allclose(gpu.track(X, Y).mean, cores.track(X, Y).mean, atol=1e-6)


def test_a_model_that_broke_is_made_anew_with_its_own_hyperparameters():
    X, Y = rows(40, 2)
    fleet = sg.Fleet(sg.KRLST(capacity=8), size=2, device="cuda", lengthscale=[0.5, 2.0], variance=[1.0, 4.0])
    fleet.learn_many(X, Y)
    before, at = fleet.predict_many(X[:1]), fleet._engine._exchange.shape.at["L"]
    fleet._engine._memory._records[1, at : at + 9] *= 1.06
    assert fleet.refresh().tolist() == [1]
    assert fleet.broken().tolist() == []
    np.testing.assert_allclose(fleet.predict_many(X[:1]).variance, before.variance, rtol=0.05)


def test_rows_have_a_noise_and_a_time_of_their_own():
    X, Y = rows(40, 3)
    rng = np.random.default_rng(3)
    given = {"noise": 10.0 ** rng.uniform(-4, 0, Y.shape), "time": 1.7e9 + np.cumsum(rng.exponential(9.0, 40))}
    for recipe in (sg.KRLST(capacity=8, half_life=100.0), krlst(forgetting=1.0, noise=0.1), sg.SOGP(capacity=8)):
        gpu, cores = (sg.Fleet(recipe, size=3, device=device, pending=9) for device in ("cuda", "cpu"))
        ids = np.array([0, 2, 0])
        for fleet in (gpu, cores):
            fleet.track(X[:20], Y[:20], noise=given["noise"][:20], time=given["time"][:20])
        tickets = [fleet.issue(X[20, ids], ids).ticket for fleet in (gpu, cores)]
        for fleet, ticket in zip((gpu, cores), tickets, strict=True):
            fleet.resolve(ticket, [0.0, 1.0, 2.0], noise=0.3, time=np.full(3, given["time"][20]))
        for fleet in (gpu, gpu.to("cpu"), gpu.to("cpu").to("cuda")):
            p, q = (
                one.track(X[21:], Y[21:], noise=given["noise"][21:], time=given["time"][21:])
                for one in (fleet, cores.copy())
            )
            np.testing.assert_allclose(p.mean, q.mean, atol=CLOSE)
            np.testing.assert_allclose(p.variance, q.variance, atol=CLOSE)


WRAPPED = {
    "Standardize": lambda: sg.Standardize(sg.KRLST(capacity=8), warmup=12),
    "Calibrated": lambda: sg.Calibrated(sg.SOGP(capacity=8), warmup=5),
    "both": lambda: sg.Calibrated(sg.Standardize(sg.KRLST(capacity=8, half_life=9.0), warmup=12), warmup=5),
    "inside out": lambda: sg.Standardize(sg.Calibrated(sg.ISSGPR(5), warmup=5), warmup=12),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_wrappers_around_models_on_a_gpu_do_what_they_do_on_the_cores(name, tmp_path):
    X, Y = rows(50, 3)
    X, Y, time = 1e3 + 50.0 * X, 300.0 - 7.0 * Y, np.arange(50.0)
    gpu, cores = (sg.Fleet(WRAPPED[name](), size=3, device=device, pending=9) for device in ("cuda", "cpu"))

    def compare(one, other, first, last, close):
        p, q = (fleet.track(X[first:last], Y[first:last], time=time[first:last]) for fleet in (one, other))
        np.testing.assert_allclose(p.mean, q.mean, rtol=close)
        np.testing.assert_allclose(p.std, q.std, rtol=close)
        np.testing.assert_allclose(p.interval(), q.interval(), rtol=close)

    compare(gpu, cores, 0, 3, CLOSE)
    for t in range(3, 10):
        ids, rows_ = np.array([2, 0]), (X[t, [2, 0]], Y[t, [2, 0]])
        p, q = (fleet.track(ids, *rows_, time=np.full(2, time[t])) for fleet in (gpu, cores))
        np.testing.assert_allclose(p.mean, q.mean, rtol=CLOSE)
    compare(gpu, cores, 10, 30, CLOSE)
    for fleet in (gpu, cores):
        tickets = fleet.issue(X[30], [0, 1, 2]).ticket
        fleet.resolve(tickets[::-1], Y[30, ::-1], time=np.full(3, time[30]))
        fleet.replace(1, fleet.model(0))
        fleet.add(1)
        fleet.remove([0])
    np.testing.assert_array_equal(gpu.rows_seen, cores.rows_seen)
    assert gpu.health.total.fill_values == cores.health.total.fill_values
    gpu.save(tmp_path / "fleet.sgp")
    for moved in (gpu.to("cpu"), gpu.to("cpu").to("cuda"), sg.load(tmp_path / "fleet.sgp")):
        compare(moved, cores.copy(), 31, 50, 1e-7)


@pytest.mark.parametrize("name", ["Standardize", "Calibrated", "both"])
@pytest.mark.parametrize("precision", ["double", "single"])
def test_wrappers_go_on_where_something_needs_the_cores_between_rows(name, precision):
    recipe = {
        "Standardize": lambda: sg.Standardize(sg.SOGP(capacity=8, novelty=0.05), warmup=12),
        "Calibrated": WRAPPED["Calibrated"],
        "both": lambda: sg.Calibrated(sg.Standardize(sg.SOGP(capacity=8, novelty=0.05), warmup=12), warmup=5),
    }[name]
    if precision == "single" and name == "Calibrated":
        recipe = lambda: sg.Calibrated(sg.SOGP(capacity=8, novelty=0.05), warmup=5)  # noqa: E731
    X, Y = rows(60, 4)
    gpu = sg.Fleet(recipe(), size=3, device="cuda", precision=precision)
    cores, close = sg.Fleet(recipe(), size=3), CLOSE if precision == "double" else 0.05

    def compare(part, **given):
        p, q = (fleet.track(X[part, : fleet.size], Y[part, : fleet.size], **given) for fleet in (gpu, cores))
        np.testing.assert_allclose(p.mean, q.mean, atol=close)
        np.testing.assert_allclose(p.interval(), q.interval(), atol=close)
        np.testing.assert_array_equal(gpu.rows_seen, cores.rows_seen)

    def refuse(x, y, match):
        before = gpu.to_bytes()
        with pytest.raises(ValueError, match=match):
            gpu.track(x, y)
        assert gpu.to_bytes() == before

    compare(slice(0, 3))
    for fleet in (gpu, cores):
        fleet.replace(1, fleet.model(0))
        assert fleet.add(1).tolist() == [3]
    compare(slice(3, 4))
    wrong = X[4:6].copy()
    wrong[1, 2] = np.inf  # a row that comes after one that could be learned
    refuse(wrong, Y[4:6], "model 2: row 1: x has NaN or inf|model 2: .*NaN or inf")
    p, q = (fleet.predict_many(X[3, [1, 1, 3]], [1, 1, 3]) for fleet in (gpu, cores))
    np.testing.assert_allclose(p.mean, q.mean, atol=close)
    ids = [0, 0, 0, 3, 3]
    p, q = (fleet.track(ids, X[4:9, 0], Y[4:9, 0]) for fleet in (gpu, cores))
    np.testing.assert_allclose(p.mean, q.mean, atol=close)
    compare(slice(9, 12), noise=0.2)
    compare(slice(12, 20))
    for fleet in (gpu, cores):
        fleet.remove([0])
        fleet.replace(0, fleet.model(1))
        assert fleet.track(X[20, :3]).mean.shape == (3,)  # no target
    compare(slice(21, 30))
    refuse(np.full((3, 2), np.nan), Y[0, :3], "model 0: .*NaN or inf")
    refuse(X[0, :3], [0.0, np.inf, 0.0], "model 1: .*inf")
    compare(slice(30, 31), noise=0.2)
    compare(slice(31, 60))
    np.testing.assert_allclose(gpu.model(2).predict_many(X[0]).mean, cores.model(2).predict_many(X[0]).mean, atol=close)
    assert sg.Fleet(recipe(), size=0, device="cuda", precision=precision).predict_many(X[:1, :0]).mean.shape == (1, 0)


@pytest.mark.parametrize("seed", range(12))
def test_random_wrappers_tell_what_they_do_on_the_cores(seed):
    assert wrapped_difference(seed, rows=60, size=5) < CLOSE


@pytest.mark.parametrize("name", ["waits", "inside out"])
def test_threads_share_out_wrappers_and_take_turns_on_the_gpu(name, monkeypatch):
    monkeypatch.setattr(workers, "ROWS_PER_THREAD", 1)
    X, Y = rows(30, 5)
    recipe = WRAPPED["Standardize" if name == "waits" else name]()
    pending = 1 if name == "waits" else 0
    fleets = [sg.Fleet(recipe, size=5, device="cuda", threads=threads, pending=pending) for threads in (1, 3)]
    for part in (slice(0, 3), slice(3, 4), slice(4, 30)):
        p, q = (fleet.track(X[part], Y[part]) for fleet in fleets)
        np.testing.assert_array_equal(p.mean, q.mean)
        np.testing.assert_array_equal(p.variance, q.variance)
    np.testing.assert_array_equal(*(fleet.predict_many(X[0]).mean for fleet in fleets))

    def fail(*_):
        raise ArithmeticError("the GPU is gone")

    monkeypatch.setattr(PlainPlace, "run", fail)
    with pytest.raises(ArithmeticError, match="the GPU is gone"):
        fleets[1].predict_many(X[0])


KEYS = """
import hashlib
import numpy as np
from numba.core.serialize import dumps
from streamgp.fleet.wrapping import AroundShape, Model
from streamgp.cuda.gpu import inspection, kernel
from streamgp.fleet.gpu_wrapping import entering, leaving, renewing
from streamgp.cuda.whitened import BasisShape
wrappers = AroundShape(8, 1, True, True, False, 31, tuple((i, 1) for i in range(len(Model._fields) - 2)))
made = [of(wrappers) for of in (entering, leaving, renewing)]
for bytes_, number in ((4, np.float32), (8, np.float64)):
    shape = BasisShape(50, 8, 1, 0, bytes_)
    made += [kernel(shape, number, False), kernel(shape, number, True), inspection(shape, number)]
for one in made:
    held = tuple(cell.cell_contents for cell in one.py_func.__closure__)
    print(hashlib.sha256(dumps(held)).hexdigest())
"""


@pytest.mark.more
def test_kernels_are_found_on_disk_by_the_same_keys_in_every_process():
    pytest.importorskip("numba.cuda", reason="Numba for GPUs is not installed")
    found = [
        subprocess.run(
            [sys.executable, "-c", KEYS],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(found[0].split()) == 9
    assert found[0] == found[1]


def test_models_move_with_one_thread_of_blas():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with one_thread():
        assert {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"} == {1}


def test_points_that_the_others_explain_leave():
    model = sg.KRLST(sg.SquaredExponential(3.0), capacity=12, noise=1e-6, forgetting=1.0, jitter=0.0)
    x = np.linspace(0, 1, 40)[:, None]
    fleet = sg.Fleet(model, size=1, device="cuda")
    p = fleet.track(x[:, None], np.sin(3 * x))
    q = model.track(x, np.sin(3 * x[:, 0]))
    assert fleet.model(0).size == model.size < 12
    np.testing.assert_allclose(p.mean[:, 0], q.mean, atol=1e-6)


def test_snapshots_go_on_bit_for_bit_and_move_between_devices(tmp_path):
    X, Y = rows(40, 3)
    fleet = sg.Fleet(krlst(), size=3, device="cuda")
    fleet.learn_many(X[:25], Y[:25])
    fleet.save(tmp_path / "fleet.sgp")
    rest = fleet.track(X[25:], Y[25:])
    again = sg.load(tmp_path / "fleet.sgp").track(X[25:], Y[25:])
    np.testing.assert_array_equal(again.mean, rest.mean)
    cores = sg.load(tmp_path / "fleet.sgp", device="cpu")
    np.testing.assert_allclose(cores.track(X[25:], Y[25:]).mean, rest.mean, atol=CLOSE)
    back = sg.load(tmp_path / "fleet.sgp", device="cpu").to("cuda")
    np.testing.assert_allclose(back.track(X[25:], Y[25:]).mean, rest.mean, atol=CLOSE)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("there", ["cuda", "cpu"])
def test_rows_that_wait_move_between_devices(name, there):
    here = "cpu" if there == "cuda" else "cuda"
    X, Y = rows(30, 3)
    fleets = [sg.Fleet(RECIPES[name](), size=3, device=device, pending=20) for device in (there, here)]
    for fleet in fleets:
        fleet.learn_many(X[:20], Y[:20])
        tickets = fleet.issue(X[20:24, 0], ids=[0, 1, 2, 1]).ticket
    fleets[0] = fleets[0].to(here)
    for fleet in fleets:
        fleet.resolve(tickets[[3, 0, 1]], [0.5, -0.5, 1.0])
        assert fleet.pending == 1
    p, q = (fleet.track(X[24:], Y[24:]) for fleet in fleets)
    np.testing.assert_allclose(p.mean, q.mean, atol=CLOSE, rtol=CLOSE)
    np.testing.assert_allclose(p.variance, q.variance, atol=CLOSE, rtol=CLOSE)


def test_a_fleet_moves_between_precisions():
    X, Y = rows(40, 2)
    recipe = sg.SOGP(sg.SquaredExponential(1.5), capacity=10, novelty=0.02, noise=0.01)
    fleet = sg.Fleet(recipe, size=2, device="cuda")
    fleet.learn_many(X, Y)
    single = fleet.to("cuda", "single")
    np.testing.assert_allclose(single.predict_many(X[:1]).mean, fleet.predict_many(X[:1]).mean, atol=1e-4)
    np.testing.assert_allclose(single.to("cuda").predict_many(X[:1]).mean, fleet.predict_many(X[:1]).mean, atol=1e-4)


def test_models_come_and_go():
    X, Y = rows(20, 3)
    fleet = sg.Fleet(krlst(), size=2, device="cuda")
    fleet.learn_many(X[:, :2], Y[:, :2])
    assert fleet.add(1).tolist() == [2]
    fleet.remove([0])
    assert fleet.rows_seen.tolist() == [20, 0]
    p = fleet.predict_many(X[-1, :2], ids=[0, 1])
    single = krlst()
    single.learn_many(X[:, 1], Y[:, 1])
    np.testing.assert_allclose(p.mean[0], single.predict_one(X[-1, 0]).mean, atol=CLOSE)
    assert p.mean[1] == 0.0


def test_late_targets_are_learned_at_the_inputs_of_their_rows():
    X, Y = rows(20, 2)
    Y = np.nan_to_num(Y)
    fleet, twin = (sg.Fleet(krlst(), size=2, device="cuda", pending=10) for _ in range(2))
    for t in range(20):
        p = fleet.issue(X[t], ids=[0, 1])
        fleet.resolve(p.ticket[::-1], Y[t][::-1])
        q = twin.track(X[t], Y[t], ids=[0, 1])
        np.testing.assert_allclose(p.mean, q.mean, atol=1e-12)
    assert fleet.rows_seen.tolist() == [20, 20]


def test_single_precision_stays_near_double():
    X, Y = rows(60, 2)
    recipe = sg.SOGP(sg.SquaredExponential(1.5), capacity=10, novelty=0.02, noise=0.01)
    single, double = (sg.Fleet(recipe, size=2, device="cuda", precision=p).track(X, Y) for p in ("single", "double"))
    np.testing.assert_allclose(single.mean, double.mean, atol=1e-3)
    assert single.mean.dtype == float


def in_units(inputs=1.0, offset=0.0, targets=1.0, evict="error", n=150):
    """Errors of single and double precision, relative to the targets, where rows come in other units; the fleet too."""
    rng = np.random.default_rng(5)
    x = 2.0 * np.sin(np.cumsum(0.3 * rng.normal(size=(n, 1, 2)), axis=0))
    y = np.sin(x[..., 0]) * x[..., 1] + 0.1 * rng.normal(size=(n, 1))
    kernel = sg.SquaredExponential(1.5 * inputs, variance=targets**2)
    recipe = sg.SOGP(kernel, capacity=10, novelty=0.02, noise=0.01 * targets**2, evict=evict)
    fleets = [sg.Fleet(recipe, size=1, device="cuda", precision=p) for p in ("single", "double")]
    means = [fleet.track(inputs * x + offset, targets * y).mean / targets for fleet in fleets]
    return [np.sqrt(np.mean((mean - y)[20:] ** 2)) for mean in means], fleets[0]


@pytest.mark.parametrize("evict", ["error", "paper"])
@pytest.mark.parametrize(
    "units",
    [
        {"offset": 1.7e9},
        {"inputs": 1e-9, "offset": 1.0},
        {"inputs": 1e12, "offset": -1e15},
        {"targets": 1e10},
        {"targets": 1e12},
        {"targets": 1e-10},
        {"targets": 1e-20},
        {"targets": 1e60, "inputs": 1e-60},
    ],
    ids=str,
)
def test_single_precision_is_right_in_every_unit(units, evict):
    (single, double), fleet = in_units(**units, evict=evict)
    assert single == pytest.approx(double, rel=0.02)
    assert fleet.health.total.repairs == 0
    assert fleet.model(0).size > 5


def test_single_precision_follows_a_clock_that_runs_for_years():
    rng, n = np.random.default_rng(6), 240
    clock = 1.7e9 + np.cumsum(rng.exponential(10.0, size=n))
    clock[n // 2 :] += 3e8  # ten years later
    x, y = clock[:, None, None], np.sin(clock / 20.0)[:, None]
    recipe = sg.SOGP(sg.SquaredExponential(30.0), capacity=12, novelty=0.02, noise=0.01)
    single, double = (sg.Fleet(recipe, size=1, device="cuda", precision=p) for p in ("single", "double"))
    p, q = single.track(x, y), double.track(x, y)
    np.testing.assert_allclose(p.mean, q.mean, atol=2e-3)
    assert single.health.total.unresolved_rows == 1  # the jump: older points are known too coarsely


def test_a_model_whose_numbers_overflow_keeps_its_capacity_and_starts_again_alone():
    recipe = sg.SOGP(sg.SquaredExponential(1.0), capacity=6, novelty=0.02, noise=0.01)
    fleet = sg.Fleet(recipe, size=2, device="cuda", precision="single")
    rng = np.random.default_rng(7)
    X, Y = 3.0 * rng.normal(size=(300, 2, 1)), rng.normal(size=(300, 2))
    alone = sg.Fleet(recipe, size=1, device="cuda", precision="single").track(X[:, :1], Y[:, :1])
    fleet.learn_many(X[:10], Y[:10])
    beta = fleet._engine._exchange.shape.at["beta"]
    fleet._engine._memory._records[1, beta : beta + 6] = np.nan  # no score is a number
    p = fleet.track(X[10:], Y[10:])
    np.testing.assert_array_equal(p.mean[:, 0], alone.mean[10:, 0])
    assert fleet.model(1).size <= 6
    assert fleet.health.models.resets.tolist() == [0, 1]
    assert np.isfinite(fleet.track(X, Y).mean).all()


def test_a_basis_too_smooth_to_be_factored_again_moves_to_the_cores():
    model = sg.SOGP(sg.SquaredExponential(3.0), capacity=30, noise=0.9, jitter=0.0, novelty=0.0)
    x = np.linspace(0, 5, 60)[:, None]
    fleet = sg.Fleet(model, size=1, device="cuda")
    fleet.learn_many(x[:, None], np.sin(3 * x))
    assert np.linalg.cond(sg.SquaredExponential(3.0)(fleet.model(0).basis)) > 1e9
    cores = fleet.to("cpu")
    grid = np.linspace(0, 6, 20)[:, None]
    np.testing.assert_allclose(
        cores.predict_many(grid, [0] * 20).mean, fleet.predict_many(grid, [0] * 20).mean, atol=1e-8
    )


def test_broken_models_are_found_and_made_anew_from_their_basis():
    X, Y = rows(60, 3)
    fleet = sg.Fleet(krlst(), size=3, device="cuda")
    fleet.learn_many(X, Y)
    before = fleet.predict_many(X[:1])
    at = fleet._engine._exchange.shape.at["L"]
    fleet._engine._memory._records[1, at : at + 200] *= 1.2  # no root of K^-1 any more
    fleet._engine._memory._records[2, 0] = np.nan
    assert fleet.broken().tolist() == [1, 2]
    assert fleet.refresh().tolist() == [1, 2]
    assert fleet.broken().tolist() == []
    after = fleet.predict_many(X[:1])
    assert after.mean[0, 0] == before.mean[0, 0]
    assert after.mean[0, 1] == pytest.approx(before.mean[0, 1], abs=0.3)
    assert after.mean[0, 2] == 0.0  # starts again
    assert fleet.rows_seen.tolist() == [60, 60, 60]


UNFIT = {
    "bare or within wrappers such as Standardize; got DriftAware": (lambda: sg.DriftAware(krlst()), "double"),
    "bare or within wrappers such as Standardize; got Auto": (sg.Auto, "double"),
    "forgetting by injection": (lambda: krlst(mode="injection"), "double"),
    "adapt=": (lambda: sg.SOGP(adapt=sg.SNGD()), "double"),
    "batch=": (lambda: sg.RecursiveGP([[0.0, 0.0]], batch=2), "double"),
    "at least novelty=0.01 and a noise of 0.01 of the variance, or": (krlst, "single"),
    "got novelty=0.05 and 1e-05": (lambda: sg.SOGP(novelty=0.05, noise=1e-5), "single"),
    "got novelty=0.02 and 0.001": (lambda: sg.SOGP(novelty=0.02, noise=1e-3), "single"),
    "it is for a growing basis": (lambda: sg.ISSGPR(5), "single"),
    "it is for a growing basis with": (lambda: krlst(time=sg.Periodic(24.0)), "single"),
}


@pytest.mark.parametrize("why", UNFIT)
def test_recipes_that_a_gpu_does_not_run_are_refused_with_the_reason(why):
    recipe, precision = UNFIT[why]
    with pytest.raises(ValueError, match=why):
        sg.Fleet(recipe(), size=1, device="cuda", precision=precision)


def test_what_only_the_cores_can_do_is_refused_and_changes_nothing():
    X, Y = rows(5, 2)
    fleet = sg.Fleet(krlst(), size=2, device="cuda")
    fleet.learn_many(X, Y)
    before = fleet.to_bytes()
    with pytest.raises(ValueError, match="noise must be finite and above 0"):
        fleet.learn_many(X, Y, noise=-0.1)
    assert fleet.to_bytes() == before
    exact = sg.Fleet(sg.SOGP(capacity=5, novelty=0.02), size=2, device="cuda", precision="single")
    exact.learn_many(X, Y)
    with pytest.raises(ValueError, match=r"noise must be at least 0.01 on device=.*; got 0.001.*Nothing was learned"):
        exact.learn_many(X, Y, noise=0.001)
    assert (exact.rows_seen == 5).all()
    with pytest.raises(ValueError, match="at least novelty=0.01 and a noise of 0.01"):
        sg.Fleet(sg.SOGP(novelty=0.02), size=2, device="cuda", precision="single", noise=[0.1, 0.001])
    late = sg.Fleet(sg.KRLST(capacity=8, half_life=9.0), size=2, device="cuda")
    late.learn_many(X, Y, time=np.arange(5.0))
    before = late.to_bytes()
    with pytest.raises(ValueError, match="has a half_life"):
        late.learn_many(X, Y)
    with pytest.raises(ValueError, match="time goes backwards"):
        late.learn_many(X, Y, time=np.arange(5.0))
    assert late.to_bytes() == before
    separate = sg.KRLST(capacity=8, outputs="separate")
    with pytest.raises(ValueError, match=r"only if they share one covariance .*; got 2 separate ones"):
        sg.Fleet(separate, size=2, device="cuda").learn_many(X, np.stack([Y, Y], axis=-1))


def test_models_too_large_for_the_shared_memory_of_a_gpu_are_refused():
    large = sg.Fleet(krlst(capacity=300), size=2, device="cuda")
    large.learn_many(*rows(5, 2))
    shape = large._engine._exchange.shape
    with pytest.raises(ValueError, match=r"takes 1,.* bytes of shared memory .*this GPU has 232,448 for each"):
        refuse_large(shape, 227 * 1024)
    refuse_large(shape, 1 << 24)


def test_rows_that_cannot_be_taken_are_refused_and_change_nothing():
    X, Y = rows(5, 2)
    recipe = sg.SOGP(capacity=5, novelty=0.02)
    fleet = sg.Fleet(recipe, size=2, device="cuda", precision="single")
    fleet.learn_many(X, Y)
    before = fleet.to_bytes()
    with pytest.raises(ValueError, match="model 1: x has NaN or inf"):
        fleet.learn_many([[0.0, 0.0], [np.nan, 0.0]], [0.0, 1.0], ids=[0, 1])
    with pytest.raises(ValueError, match="model 0: x has NaN or inf"):
        fleet.predict_many([[0.0, np.inf]], ids=[0])
    with pytest.raises(ValueError, match=r"targets within 1e\+15 in this precision"):
        fleet.learn_many([[0.0, 0.0]], [1e20], ids=[0])
    assert fleet.to_bytes() == before


def test_without_a_gpu_a_sentence_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(devices, "no_gpu", lambda: "none is found")
    with pytest.raises(ValueError, match=r"needs an NVIDIA GPU and the extra streamgp\[cuda\]; none is found"):
        sg.Fleet(krlst(), size=1, device="cuda")
