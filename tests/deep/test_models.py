"""Models over windows of a series: what they predict from what, how training goes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import streamgp as sg  # noqa: E402
from streamgp import deep  # noqa: E402

FEW = deep.Training(epochs=3, batch=32)
FIELDS = ("mean", "variance", "noise")


def plant(n=160, p=1, seed=0):
    """A first-order lag behind a saturation: u of row t acts on y of row t + 1."""
    rng = np.random.default_rng(seed)
    U = rng.uniform(-2, 2, (n, 1))
    Y = np.zeros((n, p))
    for t in range(1, n):
        Y[t] = 0.7 * Y[t - 1] + np.tanh(U[t - 1]) * np.arange(1, p + 1)
    Y += 0.01 * rng.standard_normal(Y.shape)
    return U, (Y[:, 0] if p == 1 else Y)


def weights_of(model):
    return {name: tensor.numpy().copy() for name, tensor in model._network.state_dict().items()}


SMALL = {"depth": 4, "precision": "double", "device": "cpu", "training": FEW}
TINY = {"units": 4} | SMALL


def lstm(**settings):
    return deep.GPLSTM(**(TINY | settings))


KINDS = {
    "GPLSTM": lstm,
    "GPGRU": lambda **s: deep.GPGRU(layers=2, **(TINY | s)),
    "GPRNN": lambda **s: deep.GPRNN(**(TINY | s)),
    "GPNARX": lambda **s: deep.GPNARX(**(TINY | s)),
    "Network": lambda **s: deep.Network(deep.LSTM(4), **(SMALL | s)),
}


@pytest.fixture(params=KINDS)
def build(request):
    return KINDS[request.param]


@pytest.mark.parametrize("mode", ["regression", "autoregression", "simulation"])
def test_every_kind_learns_in_every_mode(build, mode):
    U, Y = plant()
    model = build(mode=mode).fit(U[:120], Y[:120])
    p = model.predict(U, Y)
    assert p.mean.shape == p.variance.shape == p.noise.shape == (160,)
    assert np.isnan(p.mean[:4]).all()
    assert np.isfinite(p.mean[4:]).all()
    assert np.isfinite(p.std[4:]).all() == isinstance(model, deep.DeepKernelGP)
    free = model.simulate(U, Y, start=120)
    assert np.isnan(free.mean[:120]).all()
    assert np.isfinite(free.mean[120:]).all()


@pytest.mark.parametrize(
    ("mode", "horizon"),
    [("regression", 0), ("regression", 1), ("regression", 2), ("autoregression", 1), ("autoregression", 2)],
)
def test_a_window_that_ends_at_row_i_predicts_row_i_plus_horizon(mode, horizon):
    U, Y = plant()
    model = deep.GPRNN(mode=mode, horizon=horizon, **TINY).fit(U, Y)
    before = model.predict(U, Y).mean
    assert np.isnan(before[: 3 + horizon]).all()
    assert np.isfinite(before[3 + horizon :]).all()
    at = 50
    changed_u, changed_y = U.copy(), Y.copy()
    changed_u[at] += 1.0
    changed_y[at] += 1.0
    touched = np.flatnonzero(before != model.predict(changed_u, Y).mean)[3 + horizon :]
    np.testing.assert_array_equal(touched, at + horizon + np.arange(4))
    touched = np.flatnonzero(before != model.predict(U, changed_y).mean)[3 + horizon :]
    np.testing.assert_array_equal(touched, [] if mode == "regression" else at + horizon + np.arange(4))


@pytest.mark.parametrize("horizon", [1, 2])
@pytest.mark.parametrize("p", [1, 2])
def test_trajectories_are_loops_of_predictions_whose_draws_are_fed_back(p, horizon):
    U, Y = plant(60, p)
    model = lstm(horizon=horizon).fit(U, Y)
    found = model.simulate(U, Y, start=40, stop=46, trajectories=3, seed=5)
    rng = np.random.default_rng(5)
    said = np.repeat(Y[None], 3, axis=0)
    for t in range(40, 46):
        steps = [model.predict(U, one)[t] for one in said]
        mean, variance, noise = (np.array([getattr(step, name) for step in steps]) for name in FIELDS)
        z = rng.standard_normal((2, *mean.shape))  # of the function, and of the noise
        said[:, t] = mean + np.sqrt(variance) * z[0] + np.sqrt(noise) * z[1]
        np.testing.assert_allclose(found.mean[t], mean.mean(0), atol=1e-12)
        np.testing.assert_allclose(found.variance[t], variance.mean(0) + mean.var(0), atol=1e-12)


def test_several_outputs_share_the_network_and_have_processes_of_their_own():
    U, Y = plant(p=2)
    model = lstm().fit(U, Y)
    assert model.predict(U, Y).mean.shape == Y.shape
    assert model.hyperparameters["lengthscale"].shape == (2, 4)
    assert model.hyperparameters["noise"].shape == (2,)
    assert model.simulate(U, Y, 100).mean.shape == Y.shape
    alone = sg.batch.FullGP(
        sg.SquaredExponential(model.hyperparameters["lengthscale"][1], variance=model.hyperparameters["variance"][1]),
        noise=model.hyperparameters["noise"][1],
    )
    H, rows = model.embed(U, Y), np.arange(4, 160)
    known = 4 + 156 - int(156 * 0.25)
    shift, scale = Y[:known].mean(0), Y[:known].std(0, ddof=1)
    alone.fit(H[rows], ((Y - shift) / scale)[rows, 1])
    expected = shift[1] + scale[1] * alone.predict(H[rows]).mean
    np.testing.assert_allclose(model.predict(U, Y).mean[rows, 1], expected, atol=1e-8)


def test_units_do_not_matter():
    U, Y = plant()
    one = lstm().fit(U, Y).predict(U, Y)
    other = lstm().fit(100 + 8 * U, 64 * Y - 5).predict(100 + 8 * U, 64 * Y - 5)
    np.testing.assert_allclose(other.mean[4:], 64 * one.mean[4:] - 5, rtol=1e-6)
    np.testing.assert_allclose(other.std[4:], 64 * one.std[4:], rtol=1e-6)


def test_no_window_reaches_across_the_start_of_a_sequence():
    U, Y = plant()
    model = lstm().fit(U, Y, starts=[0, 70])
    p = model.predict(U, Y, starts=[0, 70])
    assert np.isnan(p.mean[[*range(4), *range(70, 74)]]).all()
    assert np.isfinite(p.mean[[*range(4, 70), *range(74, 160)]]).all()
    np.testing.assert_allclose(p.mean[70:], model.predict(U[70:], Y[70:]).mean, rtol=1e-10)


@pytest.mark.parametrize("settings", [{}, {"embedding": 1, "inference": "interpolated"}], ids=["exact", "interpolated"])
def test_fine_tuning_ends_where_the_likelihood_is_flat(settings):
    U, Y = plant()
    build = lambda n: lstm(training=FEW.replaced(finetune=n), **settings)  # noqa: E731
    plain, tuned = build(0).fit(U, Y), build(200).fit(U, Y)
    assert tuned.log_marginal_likelihood() > plain.log_marginal_likelihood() + 1.0
    result = tuned._head.evaluate(torch.tensor(tuned.embed(U, Y)[4:]), tuned._learned.targets)
    free = tuned._head.theta.abs() < 13.0  # a lengthscale that has gone to its bound is not needed
    assert float(result.by_theta[free].abs().max()) < 1e-3


def test_missing_targets_are_not_learned_and_leave_gaps():
    U, Y = plant()
    gap = Y.copy()
    gap[50] = np.nan
    model = lstm().fit(U, gap)
    p = model.predict(U, gap)
    assert np.isnan(p.mean[51:55]).all()
    assert np.isfinite(p.mean[50])
    assert np.isfinite(p.mean[55:]).all()
    regression = lstm(mode="regression").fit(U, gap)
    assert np.isfinite(regression.predict(U).mean[4:]).all()


def test_training_ends_with_the_best_weights_and_stops_when_patience_is_out():
    U, Y = plant()
    training = deep.Training(epochs=60, patience=4, rate=0.05)
    model = lstm(training=training).fit(U, Y, validation=120)
    errors = [epoch.rmse for epoch in model.history]
    best = int(np.argmin(errors))
    assert len(errors) == min(60, best + 1 + 4)
    again = lstm(training=training.replaced(epochs=best + 1, patience=None)).fit(U, Y, validation=120)
    for one, other in zip(weights_of(model).values(), weights_of(again).values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_trained_network_can_be_the_start():
    U, Y = plant()
    network = deep.Network(deep.LSTM(4), **SMALL).fit(U, Y)
    slow = FEW.replaced(epochs=1, rate=1e-12, validation=0.0)
    model = lstm(training=slow).fit(U, Y, pretrained=network)
    for one, other in zip(weights_of(network).values(), weights_of(model).values(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)
    other = deep.Network(deep.LSTM(5), depth=4, training=FEW, device="cpu").fit(U, Y)
    for start, message in ((other, "have the same encoder"), (deep.Network(deep.LSTM(4)), "be a model that has been")):
        with pytest.raises(ValueError, match=f"pretrained must {message}"):
            lstm().fit(U, Y, pretrained=start)


def test_passes_with_dropout_spread_and_repeat(build):
    U, Y = plant()
    model = build().fit(U, Y)
    plain, sampled = model.predict(U, Y), model.predict(U, Y, samples=8)
    assert np.isfinite(sampled.std[4:]).all()
    assert not np.array_equal(plain.mean[4:], sampled.mean[4:])
    np.testing.assert_array_equal(sampled.mean, model.predict(U, Y, samples=8).mean)
    np.testing.assert_array_equal(plain.mean, model.predict(U, Y).mean)


class Own(torch.nn.Module):
    """Windows to the mean and the last row of a dense layer."""

    def __init__(self, seed=0):
        super().__init__()
        self.dense = torch.nn.Linear(2, 3)
        generator = torch.Generator().manual_seed(seed)
        for weights in self.parameters():
            torch.nn.init.uniform_(weights, -0.7, 0.7, generator=generator)

    def forward(self, X):
        h = torch.tanh(self.dense(X))
        return torch.cat([h.mean(1), h[:, -1]], dim=1)


def test_many_windows_are_interpolated_and_a_wide_embedding_is_refused(monkeypatch):
    U, Y = plant()
    monkeypatch.setattr(deep.models, "MOST_EXACT", 50)
    model = lstm(embedding=1).fit(U, Y)
    assert type(model._head).__name__ == "InterpolatedHead"
    with pytest.raises(ValueError, match=r"Give the encoder a linear map .* GPLSTM\(embedding=2\)"):
        lstm().fit(U, Y)


# What is refused.


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: deep.GPLSTM(units=0), "units must be a whole number of at least 1; got 0"),
        (lambda: deep.GPLSTM(dropout=1.0), "dropout must be at least 0 and below 1; got 1.0"),
        (lambda: deep.GPLSTM(recurrent_dropout=-0.1), "recurrent_dropout must be a finite number at least 0"),
        (lambda: deep.GPLSTM(mode="auto"), "mode must be one of 'regression', 'autoregression', 'simulation'"),
        (lambda: deep.GPLSTM(horizon=0), "horizon must be a whole number of at least 1"),
        (lambda: deep.GPLSTM(device="gpu"), "device must be one of 'auto', 'cpu', 'cuda'"),
        (lambda: deep.GPLSTM(inference="ski"), "inference must be one of"),
        (lambda: deep.GPLSTM(grid=3), "grid must be a whole number of at least 12"),
        (lambda: deep.GPLSTM(unit=3), r"GPLSTM has no setting 'unit'. Did you mean 'units'\?"),
        (lambda: deep.GPNARX(activation="sine"), "activation must be one of 'relu', 'tanh'"),
        (lambda: deep.GPLSTM(training="adam"), r"training must be, for example, Training\(epochs=100\)"),
        (lambda: deep.Network("lstm"), r"encoder must be, for example, LSTM\(64\), or a torch.nn.Module; got 'lstm'"),
        (lambda: deep.Training("sgd"), "method must be one of 'semi-stochastic', 'alternating', 'full'"),
        (lambda: deep.Training(refresh=0), "refresh must be a whole number of at least 1; got 0"),
        (lambda: deep.Training(refresh=1.5), "refresh must be a finite number above 0 and at most 1; got 1.5"),
        (lambda: deep.Training(validation=1.0), "validation must be at least 0 and below 1; got 1.0"),
        (lambda: deep.Training(rate=0.0), "rate must be a finite number above 0"),
    ],
)
def test_bad_settings_get_a_sentence(build, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build()


def test_a_gpu_that_is_not_there_is_refused():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match='device="cuda" needs a GPU that PyTorch can use'):
        deep.GPLSTM(device="cuda")


def test_bad_data_get_a_sentence_and_change_nothing():
    U, Y = plant()
    model = lstm()
    for ask in (lambda: model.predict(U, Y), model.online, model.log_marginal_likelihood):
        with pytest.raises(ValueError, match=r"this DeepKernelGP has learned nothing yet; call fit\(U, Y\) first"):
            ask()
    model.fit(U, Y)
    before = model.predict(U, Y).mean
    bad = U.copy()
    bad[3] = np.nan
    for call, message in (
        (lambda: model.fit(bad, Y), "X has NaN or inf in row 3"),
        (lambda: model.fit(U, Y[:-1]), "Y must have one target for each of the 160 rows"),
        (lambda: model.fit(U[:5], Y[:5]), "training needs at least 2 rows that a whole window of 4 rows precedes"),
        (lambda: model.fit(U[:0], Y[:0]), "U has no rows"),
        (lambda: model.fit(U, Y, starts=[1]), "starts must list the rows at which a sequence begins, the first one 0"),
        (lambda: model.predict(U), 'mode="autoregression" predicts from past targets: give Y as well'),
        (lambda: model.predict(np.hstack([U, U]), Y), "X must have 1 column"),
        (lambda: model.simulate(U, Y, start=2), "start must be a row from 4, which a whole window precedes"),
        (lambda: model.simulate(U, Y, start=160), "start must be a row from 4"),
        (lambda: lstm(lengthscale=[1.0, 2.0]).fit(U, Y), "lengthscale has 2 values"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    np.testing.assert_array_equal(model.predict(U, Y).mean, before)


def test_training_that_diverges_says_what_to_do():
    U, Y = plant()
    model = lstm(training=deep.Training(epochs=50, rate=1e6, kernel_rate=1e6, validation=0.0))
    with pytest.raises(ValueError, match="training has diverged"):
        model.fit(U, Y)


def test_simulation_equals_the_loop_of_one_step_predictions_fed_back():
    U, Y = plant(60)
    model = lstm().fit(U, Y)
    free = model.simulate(U, Y, start=40, stop=50).mean
    said = Y.copy()
    for t in range(40, 50):
        said[t] = model.predict(U, said).mean[t]
        assert free[t] == pytest.approx(said[t], abs=1e-12)
    assert np.isnan(free[50:]).all()


def test_an_interpolated_process_is_trained_and_close_to_the_exact_one():
    U, Y = plant(80)
    exact, grid = (lstm(embedding=1, inference=kind).fit(U, Y) for kind in ("exact", "interpolated"))
    a, b = exact.predict(U, Y), grid.predict(U, Y)
    np.testing.assert_allclose(a.mean[4:], b.mean[4:], atol=0.02)
    np.testing.assert_allclose(a.std[4:], b.std[4:], atol=0.02)
