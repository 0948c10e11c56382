"""The protocol of Table 3: system identification, six models and three modes (section 5.2.2 and appendix E).

Drives is u1 -> z1, its first 250 of 500 rows are the training part; Actuator has 512 of 1024. A window that ends at row
i predicts the target of row i + 1; before the first row stand as many rows with the means of the training part as a
window has. Errors are on the whole other part, divided by the standard deviation of the training part's targets, so
that the mean of the training part scores about 1.

Hyperparameters are chosen on the last quarter of the training part, for each model among as many candidates and with
seeds of their own. A run trains until that quarter is predicted no better, then trains anew, from the same random
weights and for as many epochs, on the whole training part.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from reproductions.data import load
from reproductions.framework import Cell
from streamgp import deep
from streamgp.evaluate.metrics import nlpd, rmse
from streamgp.settings import FloatArray

DATA = {"Drives": "drives/1", "Actuator": "actuator"}
OTHERS = {"Drives2": "drives/2", "Drives3": "drives/3"}  # other voltages, not in the paper
MODES = ("regression", "autoregression", "simulation")
ENCODERS = {"NARX": deep.NARX, "RNN": deep.RNN, "LSTM": deep.LSTM}
NETWORKS = tuple(ENCODERS)
PROCESSES = tuple(f"GP-{name}" for name in NETWORKS)
PRETRAINED = "pre-trained GP-LSTM"  # from the weights of the LSTM, with the LSTM's candidate; not in the paper's table
BASELINES = ("mean", "persistence", "linear")
LAGS = {"regression": 32, "autoregression": 10, "simulation": 10}  # the paper's

TUNING_SEED = 1000
ATTEMPTS = 4  # the learning rate is halved after training has diverged

Candidate = dict[str, Any]


def product(**values: tuple[Any, ...]) -> list[Candidate]:
    """All combinations."""
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


def candidates(data: str, mode: str, model: str) -> list[Candidate]:
    """The settings among which validation chooses: as many for each model."""
    # Beside the paper's lag a longer one, but for regression on Actuator a shorter one.
    regression = 48 if data.startswith("Drives") else 16
    other = {"regression": regression, "autoregression": 20, "simulation": 32}[mode]
    feedforward = model.endswith("NARX")
    # The kernel renewed once an epoch, at every mini-batch, and in one step for all rows.
    ways = (("semi-stochastic", 32, (0.01, 0.003)), ("alternating", 64, (0.01,)), ("full", 32, (0.01,)))
    return [
        candidate
        for method, batch, rates in ways
        for candidate in product(
            units=(128 if feedforward else 64,),
            dropout=(0.1, 0.5) if feedforward else (0.1, 0.3),
            rate=rates,
            depth=(LAGS[mode], other),
            method=(method,),
            batch=(batch,),
        )
    ]


def build(
    model: str, mode: str, candidate: Candidate, training: deep.Training, seed: int, device: str = "cpu"
) -> deep.model.DeepModel:
    """A model that has learned nothing."""
    name = model.removeprefix("pre-trained ").removeprefix("GP-")
    settings = {"units": candidate["units"], "dropout": candidate["dropout"]}
    if name != "NARX":
        settings["recurrent_dropout"] = candidate["dropout"] / 5  # the paper's 0.25 and 0.05
    encoder = ENCODERS[name](**settings)
    common: dict[str, Any] = {"depth": candidate["depth"], "mode": mode, "training": training, "seed": seed}
    if model in NETWORKS:
        return deep.Network(encoder, device=device, **common)
    return deep.DeepKernelGP(encoder, inference="exact", device=device, **common)


def with_past(U: FloatArray, Y: FloatArray, depth: int) -> tuple[FloatArray, FloatArray]:
    """The rows, and before the first of them a window's worth that hold the means."""
    return np.vstack([np.tile(U.mean(axis=0), (depth, 1)), U]), np.concatenate([np.full(depth, Y.mean()), Y])


def trained(
    cell: Cell, candidate: Candidate, U: FloatArray, Y: FloatArray, epochs: int | None = None
) -> tuple[deep.model.DeepModel, int]:
    """A trained model, and how often the rate had to be halved; with epochs: on all rows, for so many."""
    depth = candidate["depth"]
    validation = None if epochs is not None else depth + len(Y) - len(Y) // 4
    U, Y = with_past(U, Y, depth)
    for halved in range(ATTEMPTS):
        training = deep.Training(
            candidate["method"],
            epochs=cell["epochs"] if epochs is None else epochs,
            batch=candidate["batch"],
            refresh=1.0,
            rate=candidate["rate"] / 2**halved,
            decay=0.01,
            kernel_rate=0.05 / 2**halved,
            validation=0.0,
            patience=50 if epochs is None else None,
        )
        model = build(cell["model"], cell["mode"], candidate, training, cell["seed"])
        try:
            return model.fit(U, Y, validation=validation), halved
        except ValueError as error:
            if "diverged" not in str(error):
                raise
    raise ValueError(f"training diverges even with a learning rate of {training.rate}")


def pretrained(
    cell: Cell, candidate: Candidate, U: FloatArray, Y: FloatArray, epochs: int | None = None, first: int | None = None
) -> tuple[deep.model.DeepModel, int, int]:
    """A GP-LSTM trained jointly from a trained LSTM on; and after which epoch each was best."""
    depth = candidate["depth"]
    network, _ = trained({**cell, "model": "LSTM"}, candidate, U, Y, first)
    best = min(network.history, key=lambda epoch: epoch.rmse).epoch + 1 if first is None else first
    validation = None if epochs is not None else depth + len(Y) - len(Y) // 4
    U, Y = with_past(U, Y, depth)
    training = deep.Training(
        "alternating",
        epochs=50 if epochs is None else epochs,
        batch=64,
        rate=3e-4,
        decay=0.01,
        kernel_rate=0.05,
        validation=0.0,
        patience=20 if epochs is None else None,
    )
    model = build(PRETRAINED, cell["mode"], candidate, training, cell["seed"])
    return model.fit(U, Y, validation=validation, pretrained=network), best, 0


def run(cell: Cell) -> dict[str, Any]:
    """Validate a candidate, or test the one that was chosen."""
    table = load((DATA | OTHERS)[cell["data"]])
    split = table.split
    assert split is not None
    U, Y = table.X, table.Y
    if cell["model"] in BASELINES:
        return {"rmse": rmse(Y[split:], baseline(cell, U, Y, split)) / float(np.std(Y[:split]))}
    candidate = candidates(cell["data"], cell["mode"], cell["model"])[cell["candidate"]]
    first = 0
    if cell["model"] == PRETRAINED:
        model, first, halved = pretrained(cell, candidate, U[:split], Y[:split])
    else:
        model, halved = trained(cell, candidate, U[:split], Y[:split])
    best = min(model.history, key=lambda epoch: epoch.rmse)
    found: dict[str, Any] = {"validation": best.rmse, "best_epoch": best.epoch, "halved": halved}
    if cell["stage"] == "tune":
        return found | {"course": [round(epoch.rmse, 4) for epoch in model.history[::5]]}
    found["stopped"] = scored(model, cell["mode"], U, Y, split)["rmse"]
    if first:
        model, _, _ = pretrained(cell, candidate, U[:split], Y[:split], best.epoch + 1, first)
    else:
        model, _ = trained(cell, candidate, U[:split], Y[:split], best.epoch + 1)
    return found | scored(model, cell["mode"], U, Y, split)


def scored(model: deep.model.DeepModel, mode: str, U: FloatArray, Y: FloatArray, split: int) -> dict[str, Any]:
    """Errors on the rows from split on, in units of the standard deviation before it."""
    p = (model.simulate(U, Y, split) if mode == "simulation" else model.predict(U, Y))[split:]
    spread = float(np.std(Y[:split]))
    found: dict[str, Any] = {"rmse": rmse(Y[split:], p.mean) / spread}
    if isinstance(model, deep.DeepKernelGP):
        found["nlpd"] = nlpd(Y[split:], p) - float(np.log(spread))
        found |= {"nlml": -model.log_marginal_likelihood(), "noise": model.hyperparameters["noise"]}
    return found


def baseline(cell: Cell, U: FloatArray, Y: FloatArray, split: int) -> FloatArray:
    """Predictions of the rows from split on without a network."""
    if cell["model"] == "mean":
        return np.full(len(Y) - split, np.mean(Y[:split]))
    if cell["model"] == "persistence":
        return Y[split - 1 : -1]
    lag, mode = LAGS[cell["mode"]], cell["mode"]
    columns = U if mode == "regression" else np.column_stack([U, Y])
    design = np.stack([np.append(columns[t - lag : t], 1.0) for t in range(lag, split)])
    weights = np.linalg.lstsq(design, Y[lag:split], rcond=None)[0]
    said = columns.copy()
    for t in range(split, len(Y)):
        value = np.append(said[t - lag : t], 1.0) @ weights
        if mode == "simulation":
            said[t, -1] = value
        design = np.vstack([design, np.append(said[t - lag : t], 1.0)])
    return np.asarray(design[split - lag :] @ weights)
