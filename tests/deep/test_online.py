"""The online tail: the encoder without PyTorch, the projected process, and what snapshots hold."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import streamgp as sg  # noqa: E402
from streamgp import deep  # noqa: E402
from streamgp.deep.online import trained_encoder  # noqa: E402
from streamgp.tuning.projection import place, spread_points  # noqa: E402
from tests.adapters.test_imports import run_without  # noqa: E402
from tests.deep.test_models import SMALL, Own, plant  # noqa: E402


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("embedding", [None, 2])
@pytest.mark.parametrize("kind", [deep.LSTM, deep.GRU, deep.RNN, deep.NARX])
def test_the_encoder_of_a_stream_model_equals_the_network_of_torch(kind, embedding, layers):
    torch.manual_seed(1)
    architecture = kind(5, layers=layers, embedding=embedding)
    network = architecture.build(3, 4).double().eval()
    for weight in network.parameters():
        weight.data.add_(0.3 * torch.randn_like(weight))
    encoder = trained_encoder(architecture, network, 3, 4)
    X = np.random.default_rng(0).normal(size=(10, 4, 3))
    expected = network(torch.tensor(X)).detach().numpy()
    for window, row in zip(X, expected, strict=True):
        np.testing.assert_allclose(encoder.embed(window), row, atol=1e-12)
    assert encoder.width == expected.shape[1]


def rows_of(model, U, Y, first):
    """Rows from one on, and what a frozen model predicts from them; the last has no target."""
    X, targets = model.rows(U, Y)
    return X[first:-1], targets[first:-1], model.predict(U, Y)[first + 1 :]


@pytest.mark.parametrize("mode", ["regression", "autoregression"])
def test_with_every_training_embedding_as_a_basis_point_the_tail_is_the_trained_process(mode):
    U, Y = plant(120)
    model = deep.GPLSTM(units=3, mode=mode, noise=0.05, **SMALL).fit(U[:80], Y[:80])
    online = model.online(capacity=100)
    X, _, expected = rows_of(model, U, Y, 80)
    p = online.track(X)  # nothing is learned: row for row the frozen model
    # A point that arithmetic cannot tell from the others (1e-8 of the prior variance) is projected on them.
    np.testing.assert_allclose(p.mean, expected.mean, atol=1e-6)
    np.testing.assert_allclose(p.variance, expected.variance, atol=1e-6)
    np.testing.assert_allclose(p.noise, expected.noise, atol=1e-12)


def test_rows_learned_online_equal_a_process_that_had_them_from_the_start():
    """With room for every point the tail is the exact process, of the training rows and the new ones."""
    U, Y = plant(100)
    model = deep.GPLSTM(units=3, noise=0.05, **SMALL).fit(U[:60], Y[:60])
    online = model.online(capacity=200, novelty=0.0)
    X, targets = model.rows(U, Y)
    online.learn_many(X[60:90], targets[60:90])
    units, h = model._units, model.hyperparameters
    E = model.embed(U, Y)[4:]
    known = [*range(4, 60), *range(61, 91)]  # row 60 was the target of the last training row, and is not learned
    gp = sg.batch.FullGP(sg.SquaredExponential(h["lengthscale"], variance=h["variance"]), noise=h["noise"])
    gp.fit(E[np.array(known) - 4], ((Y - units.target_shift) / units.target_scale)[known])
    expected = gp.predict(E[91 - 4 :])
    p = online.track(X[90:-1])
    np.testing.assert_allclose((p.mean - units.target_shift) / units.target_scale, expected.mean, atol=1e-6)
    np.testing.assert_allclose(p.variance / units.target_scale**2, expected.variance, atol=1e-6)


@pytest.mark.parametrize("p", [1, 2])
def test_a_tail_is_saved_forecasts_and_starts_anew(p, tmp_path):
    U, Y = plant(120, p)
    model = deep.GPLSTM(units=3, **SMALL).fit(U[:80], Y[:80])
    X, targets = (part[80:-1] for part in model.rows(U, Y))
    many, stopped = (model.online(capacity=20, forgetting=0.99) for _ in range(2))
    many.learn_many(X, targets)
    stopped.learn_many(X[:11], targets[:11])
    stopped.save(tmp_path / "tail.sgp")
    resumed = sg.load(tmp_path / "tail.sgp")
    resumed.learn_many(X[11:], targets[11:])
    assert resumed.to_bytes() == many.to_bytes()
    feedback = list(range(1, 1 + p))
    assert many.forecast(5, np.zeros((5, 1)), feedback, trajectories=3).mean.shape == targets[:5].shape
    with pytest.raises(ValueError, match="as the first row had"):
        many.learn_one(np.ones(7), targets[0])
    fresh = many.clone()
    assert fresh.rows_seen == 0
    if p == 2:
        with pytest.raises(ValueError, match="y must have 2 numbers, one for each of the models within; got 3"):
            fresh.learn_one(X[0], [1.0, 2.0, 3.0])
        partly = targets.copy()
        partly[3, 0] = np.nan
        many.learn_many(X, partly)
        assert set(many.hyperparameters) == {f"{n}_{j}" for n in ("lengthscale", "variance", "noise") for j in (0, 1)}
        assert len(many.inner) == 2


@pytest.mark.more
def test_a_tail_is_loaded_and_run_without_torch(tmp_path):
    U, Y = plant(100)
    model = deep.GPLSTM(units=3, **SMALL).fit(U[:80], Y[:80])
    online = model.online(capacity=20)
    online.save(tmp_path / "tail.sgp")
    expected = online.predict_one([0.5, 0.1]).mean
    done = run_without(
        "torch",
        f"import streamgp as sg; m = sg.load({str(tmp_path / 'tail.sgp')!r}); print(m.predict_one([0.5, 0.1]).mean)",
    )
    assert done.stdout == f"{expected}\n", done.stderr


@pytest.mark.more
def test_without_torch_the_library_works_and_deep_names_the_extra():
    attempt = "\ntry: sg.deep\nexcept ImportError as error: print(error)"
    done = run_without("torch", f"import streamgp as sg; print(sg.KRLST.__name__){attempt}")
    assert done.stdout == 'KRLST\nstreamgp.deep needs PyTorch: pip install "streamgp[deep]"\n', done.stderr


@pytest.mark.more
def test_importing_the_core_does_not_import_torch():
    code = "import sys, streamgp as sg; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
    assert sg.deep is deep


def test_a_module_of_ones_own_goes_online_and_comes_back_with_its_weights(tmp_path):
    U, Y = plant(100)
    model = deep.DeepKernelGP(Own(), **SMALL).fit(U[:80], Y[:80])
    online = model.online(capacity=100)  # room for every row: the tail is the trained process
    X, targets, expected = rows_of(model, U, Y, 80)
    frozen = online.copy().track(X)
    np.testing.assert_allclose(frozen.mean, expected.mean, atol=1e-10)
    np.testing.assert_allclose(frozen.variance, expected.variance, atol=1e-10)
    online.learn_many(X[:5], targets[:5])
    online.save(tmp_path / "tail.sgp")
    with pytest.raises(sg.SnapshotError, match="the snapshot needs encoder__module=..., a function that is not saved"):
        sg.load(tmp_path / "tail.sgp")
    loaded = sg.load(tmp_path / "tail.sgp", encoder__module=Own(seed=1))
    np.testing.assert_array_equal(loaded.track(X[5:]).mean, online.copy().track(X[5:]).mean)
    with pytest.raises(sg.SnapshotError, match="the module has 3 weights, the saved one has 9: it is another network"):
        sg.load(tmp_path / "tail.sgp", encoder__module=torch.nn.Linear(2, 1))


def test_bad_tails_get_a_sentence():
    U, Y = plant(80)
    model = deep.GPLSTM(units=3, **SMALL).fit(U, Y)
    for call, message in (
        (lambda: model.online("wavelets"), "features must be one of 'basis', 'fourier'"),
        (lambda: model.online(capacity=0), "capacity must be a whole number of at least 1"),
        (lambda: model.online(forgetting=1.5), "forgetting must be a finite number above 0 and at most 1"),
        (lambda: model.online(adapt="sngd"), r"adapt must be, for example, SNGD\(interval=25\)"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call()


# The parts in the core.


def test_bad_encoders_get_a_sentence():
    encoder = sg.TrainedEncoder("rnn", inputs=1, depth=2, units=1, weights=[1.0, 0.5, 0.0, 0.0])
    for call, message in (
        (
            lambda: sg.TrainedEncoder("cnn", inputs=1, depth=2, units=1, weights=[]),
            "kind must be one of 'lstm', 'gru', 'rnn', 'feedforward'",
        ),
        (
            lambda: sg.TrainedEncoder("rnn", inputs=1, depth=2, units=1, weights=[1.0]),
            "weights must be 4 finite numbers for this network; got",
        ),
        (lambda: sg.Encoded("lstm", model=sg.KRLST()), "encoder must be a trained encoder such as TrainedEncoder"),
        (lambda: sg.Encoded(encoder, model="krlst"), "model must be a stream model such as KRLST"),
        (lambda: sg.Encoded(encoder, model=[]), "model is an empty list"),
        (lambda: sg.Encoded(encoder, model=sg.KRLST(), input_scale=0.0), "input_scale must be positive numbers"),
        (
            lambda: sg.Encoded(encoder, model=sg.KRLST(), input_shift=[1, 2]).predict_one(1.0),
            "input_shift has 2 numbers, but there are 1 columns",
        ),
        (
            lambda: sg.Encoded(encoder, model=sg.KRLST()).predict_one([1.0, 2.0]),
            "x must have 1 columns, as the encoder was trained on; got 2",
        ),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call()


@pytest.mark.parametrize("forgetting", [None, sg.Injection(0.99)], ids=["relative", "absolute"])
def test_the_projection_on_basis_points_is_that_of_the_deterministic_training_conditional(forgetting):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(50, 2)), rng.normal(size=(30, 2))
    Y = np.sin(X)
    kernel, noise = sg.SquaredExponential(1.0, variance=2.0), 0.1
    model = sg.OnlineGP(sg.Basis(kernel), noise=noise, budget=sg.Budget(20), forgetting=forgetting)
    B = spread_points(kernel, X, 20)
    place(model, X, Y, B)
    A = noise * kernel(B) + kernel(B, X) @ kernel(X, B)
    mean = kernel(Z, B) @ np.linalg.solve(A, kernel(B, X) @ Y)
    residual = np.diag(kernel(Z) - kernel(Z, B) @ np.linalg.solve(kernel(B), kernel(B, Z)))
    variance = residual + noise * np.diag(kernel(Z, B) @ np.linalg.solve(A, kernel(B, Z)))
    p = model.predict_many(Z)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance[:, 0], variance, atol=1e-8)
    np.testing.assert_array_equal(model.basis, B)


def test_projected_fourier_weights_are_those_of_rows_learned_one_by_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    Y = np.sin(X)
    at_once, by_row = (
        sg.OnlineGP(sg.Fourier(20, lengthscale=1.0, seed=1), noise=0.1, outputs="separate") for _ in range(2)
    )
    place(at_once, X, Y)
    by_row.learn_many(X, Y)
    np.testing.assert_allclose(at_once.predict_many(X).mean, by_row.predict_many(X).mean, atol=1e-10)
    np.testing.assert_allclose(at_once.predict_many(X).variance, by_row.predict_many(X).variance, atol=1e-10)
