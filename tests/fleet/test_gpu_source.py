"""What a GPU runs, run by plain Python with one lane, against single models."""

import os
import subprocess
import sys

import numpy as np
import pytest

import streamgp as sg
from streamgp.blas import one_thread
from streamgp.cuda import exchange
from streamgp.cuda.exchange import refuse_large
from streamgp.fleet import devices, workers
from streamgp.fleet.cuda import CudaEngine
from streamgp.fleet.gpu import GpuEngine
from tests.fleet.plain_memory import PlainMemory
from tests.fleet.plain_place import PlainPlace
from tests.fleet.settings import SHAPES, differences
from tests.fleet.walk import SIZE, Walk
from tests.same import assert_close

CLOSE = 1e-8


def plain_engine(device, precision, model, size, threads):
    """In place of the GPU's."""
    if device == "cpu":
        return CPU(device, precision, model, size, threads)
    if exchange.fits(model):
        return CudaEngine(model, size, precision, PlainMemory)
    return GpuEngine(model, size, threads or 2, PlainPlace())


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
}


def rows(n, size, seed=0):
    """Smooth walks that stay in a bounded place; a tenth of the targets is missing."""
    rng = np.random.default_rng(seed)
    X = 2.0 * np.sin(np.cumsum(0.4 * rng.normal(size=(n, size, 2)), axis=0))
    Y = np.sin(X[..., 0]) * X[..., 1] + 0.1 * rng.normal(size=(n, size))
    Y[rng.random(Y.shape) < 0.1] = np.nan
    return X, Y


@pytest.mark.parametrize("given", ["late", "timed"])
@pytest.mark.parametrize("name", RECIPES)
def test_rows_are_predicted_and_learned_as_by_single_models(name, given):
    recipe = RECIPES[name]()
    fleet = sg.Fleet(recipe, size=SIZE, device="cuda", pending=100)
    walk = Walk(fleet, recipe, same=assert_close, **{given: True}).go()
    for i, model in enumerate(walk.alone):
        assert walk.fleet.model(i).size == model.size


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


@pytest.mark.parametrize("make", [sg.KRLST, sg.ISSGPR])
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


WRAPPED = {
    "Standardize": lambda: sg.Standardize(sg.KRLST(capacity=8), warmup=12),
    "Calibrated": lambda: sg.Calibrated(sg.SOGP(capacity=8), warmup=5),
    "both": lambda: sg.Calibrated(sg.Standardize(sg.KRLST(capacity=8, half_life=9.0), warmup=12), warmup=5),
    "inside out": lambda: sg.Standardize(sg.Calibrated(sg.ISSGPR(5), warmup=5), warmup=12),
}


@pytest.mark.parametrize("name", ["Standardize", "Calibrated", "both"])
def test_wrappers_go_on_where_something_needs_the_cores_between_rows(name):
    recipe = {
        "Standardize": lambda: sg.Standardize(sg.SOGP(capacity=8, novelty=0.05), warmup=12),
        "Calibrated": WRAPPED["Calibrated"],
        "both": lambda: sg.Calibrated(sg.Standardize(sg.SOGP(capacity=8, novelty=0.05), warmup=12), warmup=5),
    }[name]
    X, Y = rows(60, 4)
    gpu, cores, close = sg.Fleet(recipe(), size=3, device="cuda"), sg.Fleet(recipe(), size=3), CLOSE

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
    gpu = gpu.to("cpu").to("cuda")
    compare(slice(30, 40))
    gpu = gpu.to("cpu")
    compare(slice(40, 50))
    assert sg.Fleet(recipe(), size=0, device="cuda").predict_many(X[:1, :0]).mean.shape == (1, 0)


def test_threads_share_out_wrappers_and_take_turns_on_the_gpu(monkeypatch):
    monkeypatch.setattr(workers, "ROWS_PER_THREAD", 1)
    X, Y = rows(30, 5)
    fleets = [sg.Fleet(WRAPPED["inside out"](), size=5, device="cuda", threads=threads) for threads in (1, 3)]
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
from streamgp.cuda.gpu import inspection, kernel
from streamgp.cuda.whitened import BasisShape
made = []
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
    assert len(found[0].split()) == 6
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
    "without a memory": (lambda: sg.Standardize(sg.SOGP(novelty=0.05)), "single"),
    "at least novelty=0.01 and a noise of 0.01 of the variance, or": (krlst, "single"),
    "got novelty=0.05 and 1e-05": (lambda: sg.SOGP(novelty=0.05, noise=1e-5), "single"),
    "got novelty=0.02 and 0.001": (lambda: sg.SOGP(novelty=0.02, noise=1e-3), "single"),
    "it is for a bare growing basis": (lambda: sg.ISSGPR(5), "single"),
    "a half_life, a kernel over time": (lambda: krlst(time=sg.Periodic(24.0)), "single"),
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
    several = sg.Fleet(sg.SOGP(capacity=5, novelty=0.02), size=2, device="cuda", precision="single")
    with pytest.raises(ValueError, match="it is for a bare growing basis of one output"):
        several.learn_many(X, np.stack([Y, Y], axis=-1))
    assert several.rows_seen.tolist() == [0, 0]
    late = sg.Fleet(sg.KRLST(capacity=8, half_life=9.0), size=2, device="cuda")
    late.learn_many(X, Y, time=np.arange(5.0))
    before = late.to_bytes()
    with pytest.raises(ValueError, match="has a half_life"):
        late.learn_many(X, Y)
    with pytest.raises(ValueError, match="time goes backwards"):
        late.learn_many(X, Y, time=np.arange(5.0))
    assert late.to_bytes() == before


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


class ThereAlready:
    """What looks like rows on a GPU."""

    __cuda_array_interface__ = None


@pytest.mark.parametrize(
    ("fleet", "p", "said"),
    [
        (
            lambda: sg.Fleet(sg.ISSGPR(features=4), size=3, device="cuda"),
            2,
            "have one target each, and these models have 2",
        ),
        (lambda: sg.Fleet(sg.Standardize(sg.KRLST()), size=3, device="cuda"), 1, "of a bare model"),
        (lambda: sg.Fleet(sg.SOGP(likelihood=sg.StudentT()), size=3, device="cuda"), 1, "with Gaussian noise"),
        (lambda: sg.Fleet(sg.KRLST(half_life=3.0), size=3, device="cuda"), None, "has a half_life"),
    ],
)
def test_rows_that_are_there_are_refused_before_anything_changes(fleet, p, said):
    fleet = fleet()
    if p:
        fleet.learn_many(np.zeros((3, 2)), np.ones((3, p) if p > 1 else 3))
    before = fleet.to_bytes() if p else None
    with pytest.raises((TypeError, ValueError), match=said):
        fleet.track(ThereAlready(), ThereAlready())
    assert fleet.to_bytes() == before if p else not fleet.rows_seen.any()
