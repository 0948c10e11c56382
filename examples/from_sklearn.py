"""The code of docs/coming-from-sklearn.md, which explains it."""

import numpy as np
import streamgp as sg
from streamgp.adapters.sklearn import StreamRegressor

rng = np.random.default_rng(0)
X = rng.uniform(0, 100, (400, 3))
y = 1000 + 50 * np.sin(X[:, 0] / 15) + 5 * rng.standard_normal(400)

regressor = StreamRegressor().fit(X[:300], y[:300])
mean, std = regressor.predict(X[300:], return_std=True)
low, high = regressor.model_.predict_many(X[300:]).interval()  # 90%, calibrated
print(regressor.score(X[300:], y[300:]), np.mean((low <= y[300:]) & (y[300:] <= high)))

regressor.partial_fit(X[300:350], y[300:350])  # only the new rows; the time does not grow with what was learned before
print(regressor.model_.rows_seen, regressor.model_.size)

import pandas as pd
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

frame = pd.DataFrame(X, columns=["wind", "sun", "rain"])
search = GridSearchCV(
    StreamRegressor(sg.Calibrated(sg.Standardize(sg.KRLST(capacity=40)))),
    {
        "model__model__model__noise": [0.01, 0.1],
        "model__model__model__kernel": [sg.SquaredExponential(1.0), sg.SquaredExponential([0.5, 5.0, 5.0])],
    },
    cv=TimeSeriesSplit(3),
).fit(frame, y)
print(search.best_params_, search.best_estimator_.feature_names_in_)

pipeline = make_pipeline(StandardScaler(), StreamRegressor(sg.Calibrated(sg.ISSGPR(features=50))))
pipeline.set_params(streamregressor__model__model__noise=0.05).fit(X, (y - y.mean()) / y.std())

from streamgp.adapters.skpro import StreamRegressor as DistributionRegressor

target = pd.DataFrame({"power": y})
probabilistic = DistributionRegressor().fit(frame[:300], target[:300])
probabilistic.update(frame[300:350], target[300:350])
distribution = probabilistic.predict_proba(frame[350:])  # for each row; mean(), quantile([0.1, 0.9])
print(probabilistic.predict_interval(frame[350:], coverage=0.9).head(2).round(1))

import matplotlib.pyplot as plt
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

x = rng.uniform(-3, 3, 1200)
z = np.sin(2 * x) * np.where(np.arange(1200) < 600, 1.0, -1.0) + 0.1 * rng.standard_normal(1200)
stream = StreamRegressor(sg.Calibrated(sg.Standardize(sg.KRLST(forgetting=0.99))))
errors = {"StreamRegressor": [], "GaussianProcessRegressor": []}
for begin in range(100, 1200, 100):
    old, new = slice(begin - 100, begin), slice(begin, begin + 100)
    stream.partial_fit(x[old, None], z[old])
    batch = GaussianProcessRegressor(RBF(0.5) + WhiteKernel(0.01), optimizer=None).fit(x[:begin, None], z[:begin])
    for name, regressor in {"StreamRegressor": stream, "GaussianProcessRegressor": batch}.items():
        errors[name].append(np.sqrt(np.mean((regressor.predict(x[new, None]) - z[new]) ** 2)))
figure, axis = plt.subplots(figsize=(9, 3.4), layout="constrained")
for name, found in errors.items():
    axis.plot(range(100, 1200, 100), found, "o-", label=name)
axis.axvline(600, color="0.3", lw=1, ls=":")
axis.set(xlabel="rows learned", ylabel="RMSE of the next 100 rows", ylim=(0, None))
axis.legend(frameon=False)
figure.savefig("from-sklearn.png", dpi=110)
