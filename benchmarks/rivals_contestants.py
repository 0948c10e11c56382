"""The contestants of rivals_protocol.toml: each predicts every row of a stream before it sees the target.

Each returns the distributions it predicted, NaN where it predicted nothing, and the first row that it predicted.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

import streamgp as sg
from rivals_of_rows import lightgbm, past, rival_rows, river
from rivals_of_series import statsforecast
from rivals_scores import Distributions, OfErrors
from rivals_streams import PROTOCOL, Stream

SEED, FIRST = PROTOCOL["task"]["seed"], PROTOCOL["task"]["scored_from"]
ERRORS = PROTOCOL["scores"]["errors"]
INTERVAL = 80  # percent; of packages whose answer is a mean and an interval


class Answer(NamedTuple):
    said: Distributions
    first: int = 0  # the first row that was predicted


class Contestant(NamedTuple):
    name: str
    form: str
    family: str
    predict: Callable[[Stream], Answer]

    @property
    def title(self) -> str:
        return f"{self.name}, {self.form}" if self.form else self.name


def gaussian(mean: np.ndarray, deviation: np.ndarray) -> sg.Prediction:
    return sg.Prediction(mean, np.maximum(deviation, np.finfo(float).tiny) ** 2, np.zeros(len(mean)))


def of_errors(mean: np.ndarray, data: Stream) -> OfErrors:
    return OfErrors(mean, data.y, ERRORS)


# The table that regressors get.


def lags_of(data: Stream) -> int:
    columns = PROTOCOL["columns"]
    if data.seasons:
        return int(columns["lags_hourly"])
    return int(columns["lags_without_inputs"] if data.alone else columns["lags_with_inputs"])


def with_weeks(data: Stream) -> Stream:
    """The same with the target one season ago among the inputs, for seasons longer than the lags."""
    longer = [past(data, season)[0][:, -1] for season in data.seasons if season > lags_of(data)]
    return data._replace(X=np.column_stack([data.X, *longer]))


def table(data: Stream, change: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, targets, and what is added to a prediction; the rows before the first target are 0."""
    X, y, previous = rival_rows(with_weeks(data), lags_of(data), change)
    if change:
        y = np.where(np.isnan(previous), np.nan, y)
    return np.nan_to_num(X), y, np.nan_to_num(previous)


# streamgp.


def by_auto(data: Stream) -> Answer:
    return Answer(sg.Auto(seasons=data.seasons).track(data.X, data.y))


def by_krlst(data: Stream, change: bool) -> Answer:
    X, y, previous = table(data, change)
    said = sg.Calibrated(sg.Standardize(sg.KRLST())).track(X, y)
    return Answer(Shifted(said, previous))


class Shifted(NamedTuple):
    """Distributions of a target of which something was subtracted."""

    said: Any
    shift: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return np.asarray(self.said.mean + self.shift)

    def quantile(self, q: float) -> np.ndarray:
        return np.asarray(self.said.quantile(q) + self.shift)

    def log_density(self, y: np.ndarray) -> np.ndarray:
        return np.asarray(self.said.log_density(y - self.shift))


def by_time(data: Stream, tuned_on: int) -> Answer:
    chosen = sg.Forecaster(data.y[:tuned_on], seasons=[float(season) for season in data.seasons], log=False).chosen
    model = sg.Calibrated(sg.TimeGP(chosen.kernel, noise=chosen.noise))
    said = model.track(data.X, data.y - chosen.center, time=np.arange(float(len(data.y))))
    return Answer(Shifted(said, np.full(len(data.y), chosen.center)))


# Others that get a table.


def by_previous(data: Stream) -> Answer:
    return Answer(of_errors(past(data, 1)[0][:, 0], data))


def by_lightgbm(data: Stream, change: bool, refit: int) -> Answer:
    return Answer(of_errors(lightgbm(with_weeks(data), lags_of(data), change, refit).mean, data))


def by_river(data: Stream, change: bool, name: str) -> Answer:
    return Answer(of_errors(river(with_weeks(data), lags_of(data), name, change).mean, data))


def by_sgd(data: Stream, change: bool) -> Answer:
    from sklearn.linear_model import SGDRegressor
    from sklearn.preprocessing import StandardScaler

    X, y, previous = table(data, change)
    scaler, model = StandardScaler(), SGDRegressor(random_state=SEED)
    mean = np.full(len(y), np.nan)
    for t in range(len(y)):
        row = X[t : t + 1]
        if hasattr(model, "coef_"):
            mean[t] = model.predict(scaler.transform(row))[0]
        if not np.isnan(y[t]):
            model.partial_fit(scaler.partial_fit(row).transform(row), y[t : t + 1])
    return Answer(of_errors(mean + previous, data))


class Window(NamedTuple):
    """The last known rows before one, in standard units."""

    X: np.ndarray
    y: np.ndarray
    row: np.ndarray
    center: float
    scale: float


def windows(X: np.ndarray, y: np.ndarray, size: int) -> Iterator[tuple[int, Window]]:
    """Of each row that is scored, the last known rows before it."""
    known = np.flatnonzero(~np.isnan(y))
    for t in range(FIRST, len(y)):
        rows = known[max(np.searchsorted(known, t) - size, 0) : np.searchsorted(known, t)]
        center, scale = X[rows].mean(axis=0), X[rows].std(axis=0)
        scale[scale == 0.0] = 1.0
        middle, spread = float(y[rows].mean()), float(y[rows].std()) or 1.0
        row = (X[t : t + 1] - center) / scale
        yield t, Window((X[rows] - center) / scale, (y[rows] - middle) / spread, row, middle, spread)


def by_sklearn_gp(data: Stream, change: bool, window: int, optimized: int) -> Answer:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    X, y, previous = table(data, change)
    mean, deviation = np.full((2, len(y)), np.nan)
    kernel: Any = ConstantKernel() * RBF() + WhiteKernel()
    for t, rows in windows(X, y, window):
        optimizer = "fmin_l_bfgs_b" if (t - FIRST) % optimized == 0 else None
        model = GaussianProcessRegressor(kernel, optimizer=optimizer, normalize_y=True, random_state=SEED)
        kernel = model.fit(rows.X, rows.y).kernel_
        one, spread = model.predict(rows.row, return_std=True)
        mean[t], deviation[t] = rows.center + rows.scale * one[0], rows.scale * spread[0]
    return Answer(gaussian(mean + previous, deviation), FIRST)


def by_gpytorch(data: Stream, change: bool, window: int, optimized: int, steps: int, rate: float) -> Answer:
    import gpytorch
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    X, y, previous = table(data, change)
    mean, deviation = np.full((2, len(y)), np.nan)

    class Exact(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, X: Any, y: Any, likelihood: Any) -> None:
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model: Any = None
    for t, rows in windows(X, y, window):
        inputs, targets, row = (torch.from_numpy(part) for part in (rows.X, rows.y, rows.row))
        if model is None:
            likelihood = gpytorch.likelihoods.GaussianLikelihood()
            model = Exact(inputs, targets, likelihood).double()
            evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        model.train()
        model.set_train_data(inputs, targets, strict=False)
        if (t - FIRST) % optimized == 0:
            optimizer = torch.optim.Adam(model.parameters(), lr=rate)
            for _ in range(steps):
                optimizer.zero_grad()
                (-evidence(model(inputs), targets)).backward()
                optimizer.step()
        model.eval()
        with torch.no_grad():
            said = likelihood(model(row))
            mean[t] = rows.center + rows.scale * float(said.mean[0])
            deviation[t] = rows.scale * float(said.variance[0]) ** 0.5
    return Answer(gaussian(mean + previous, deviation), FIRST)


def by_svgp(data: Stream, change: bool, inducing: int, first: int, first_steps: int, batch: int, rate: float) -> Answer:
    import gpytorch
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    X, y, previous = table(data, change)
    first, known = min(first, FIRST), np.flatnonzero(~np.isnan(y))
    early = known[known < first]
    center, scale = X[early].mean(axis=0), X[early].std(axis=0)
    middle, spread = float(y[early].mean()), float(y[early].std()) or 1.0
    Z, f = (
        torch.from_numpy(part) for part in ((X - center) / np.where(scale == 0.0, 1.0, scale), (y - middle) / spread)
    )

    class Sparse(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self, points: Any) -> None:
            strategy = gpytorch.variational.VariationalStrategy(
                self, points, gpytorch.variational.CholeskyVariationalDistribution(len(points))
            )
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=points.shape[1]))

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Sparse(Z[early[np.linspace(0, len(early) - 1, inducing).astype(int)]].clone()).double()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(early))
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=rate)

    def step(rows: np.ndarray) -> None:
        model.train()
        optimizer.zero_grad()
        (-bound(model(Z[rows]), f[rows])).backward()
        optimizer.step()

    rng = np.random.default_rng(SEED)
    for _ in range(first_steps):
        step(rng.choice(early, min(batch, len(early)), replace=False))
    mean, deviation = np.full((2, len(y)), np.nan)
    for t in range(first, len(y)):
        model.eval()
        with torch.no_grad():
            said = likelihood(model(Z[t : t + 1]))
            mean[t], deviation[t] = float(said.mean[0]), float(said.variance[0]) ** 0.5
        if not np.isnan(y[t]):
            step(known[max(np.searchsorted(known, t) + 1 - batch, 0) : np.searchsorted(known, t) + 1])
    return Answer(gaussian(middle + spread * mean + previous, spread * deviation), first)


# Models of one series.


class Each:
    """Distributions that are one object for each row, or None."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows
        self.mean = self._of(lambda one: one.mean)

    def _of(self, value: Callable[[Any], float]) -> np.ndarray:
        return np.array([np.nan if one is None else value(one) for one in self._rows])

    def quantile(self, q: float) -> np.ndarray:
        return self._of(lambda one: one.quantile(q))

    def log_density(self, y: np.ndarray) -> np.ndarray:
        return np.array(
            [
                np.nan if one is None or np.isnan(value) else one.logpdf(value)
                for one, value in zip(self._rows, y, strict=True)
            ]
        )


def by_skaters(data: Stream, sticky: bool) -> Answer:
    from skaters import laplace

    predict, state, ahead = laplace(k=1, sticky=sticky), None, None
    rows: list[Any] = []
    for value in data.y.tolist():
        rows.append(ahead)
        if np.isnan(value):
            if ahead is None:
                continue
            value = ahead.mean
        (ahead, *_), state = predict(value, state)
    return Answer(Each(rows))


def by_statsforecast(data: Stream, name: str, window: int, refit: int) -> Answer:
    seasons = [int(season) for season in data.seasons] or [1]
    arguments: dict[str, Any] = {"season_length": seasons if name == "MSTL" else seasons[0]}
    if name == "AutoARIMA":
        arguments["approximation"] = True
    y = data.y.copy()
    mean, deviation = np.full((2, len(y)), np.nan)
    reach = NormalDist().inv_cdf(0.5 + INTERVAL / 200)
    y[:FIRST] = np.where(np.isnan(y[:FIRST]), past(data, 1)[0][:FIRST, 0], y[:FIRST])
    model: Any = None
    for t in range(FIRST, len(y)):
        rows = y[max(t - window, 0) : t]
        if (t - FIRST) % refit == 0:
            model = statsforecast(name, **arguments).fit(rows)
        answer = model.forward(y=rows, h=1, level=[INTERVAL])
        mean[t] = float(np.asarray(answer["mean"])[0])
        low, high = (float(np.asarray(answer[f"{side}-{INTERVAL}"])[0]) for side in ("lo", "hi"))
        deviation[t] = (high - low) / (2 * reach)
        if np.isnan(y[t]):
            y[t] = mean[t]
    return Answer(gaussian(mean, deviation), FIRST)


def by_prophet(data: Stream, refit: int) -> Answer:
    import pandas as pd
    from prophet import Prophet

    logging.getLogger("cmdstanpy").setLevel(logging.ERROR)
    times = pd.date_range("2020-01-01", periods=len(data.y), freq="h" if data.seasons else "D")
    frame = pd.DataFrame({"ds": times, "y": data.y})
    mean, deviation = np.full((2, len(data.y)), np.nan)
    reach = NormalDist().inv_cdf(0.5 + INTERVAL / 200)
    for start in range(FIRST, len(data.y), refit):
        block = slice(start, min(start + refit, len(data.y)))
        model = Prophet(interval_width=INTERVAL / 100).fit(frame.iloc[:start], seed=SEED)
        answer = model.predict(frame.iloc[block][["ds"]])
        mean[block] = answer["yhat"]
        deviation[block] = (answer["yhat_upper"] - answer["yhat_lower"]) / (2 * reach)
    return Answer(gaussian(mean, deviation), FIRST)


BUILDERS: dict[str, Callable[..., Answer]] = {
    "Auto": by_auto,
    "KRLST": by_krlst,
    "TimeGP": by_time,
    "previous value": by_previous,
    "LightGBM": by_lightgbm,
    **{f"River {kind}": partial(by_river, name=f"River {kind}") for kind in ("linear", "KNN", "ARF", "SRP")},
    "scikit-learn SGD": by_sgd,
    "scikit-learn GP": by_sklearn_gp,
    "GPyTorch exact": by_gpytorch,
    "GPyTorch SVGP": by_svgp,
    "skaters": partial(by_skaters, sticky=True),
    "skaters, not sticky": partial(by_skaters, sticky=False),
    **{name: partial(by_statsforecast, name=name) for name in ("AutoARIMA", "AutoETS", "AutoTheta", "MSTL")},
    "Prophet": by_prophet,
}
DESCRIBED = ("family", "model", "forms", "on")  # of a contestant; everything else in the protocol is a setting


def contestants(name: str | None = None) -> list[Contestant]:
    """All that the protocol has, or all forms of one."""
    found = []
    for one, told in PROTOCOL["contestants"].items():
        if name in (None, one):
            settings = {key: value for key, value in told.items() if key not in DESCRIBED}
            for form in told.get("forms", [""]):
                more = {"change": form == "change"} if form else {}
                found.append(Contestant(one, form, told["family"], partial(BUILDERS[one], **settings, **more)))
    return found


def takes(name: str, alone: bool, seasons: bool) -> bool:
    """Whether a contestant runs on a stream without inputs, with seasons, or not."""
    on = PROTOCOL["contestants"][name].get("on", "")
    return (alone or "no inputs" not in on) and (seasons or "seasons" not in on.replace("no inputs", ""))


@contextmanager
def quiet() -> Iterator[None]:
    """Packages warn of what the scores show."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
