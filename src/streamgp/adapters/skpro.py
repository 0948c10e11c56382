"""Stream models as probabilistic regressors of skpro; needs skpro (``pip install 'streamgp[skpro]'``)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

try:
    import pandas as pd
    from skpro.distributions.normal import Normal
    from skpro.regression.base import BaseProbaRegressor
except ImportError as error:
    raise ImportError("streamgp.adapters.skpro needs skpro: pip install 'streamgp[skpro]'") from error

from streamgp.adapters import cloning
from streamgp.adapters.given import fresh, refuse_without_variance
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.recipes.vanvaerenbergh2016 import KRLST

HAS_UPDATE = hasattr(BaseProbaRegressor, "update")

cloning.register()


class StreamRegressor(BaseProbaRegressor):
    """A stream model as a probabilistic regressor of skpro: ``fit`` learns rows in order, ``update`` learns more.

    Its results are those of the model itself, to the last bit. ``model_`` is the model that has learned. A prediction
    is a normal distribution of the target; ``predict_interval`` gives the model's own intervals, which are calibrated
    by default and need not lie alike on both sides of the mean.

    Args:
        model: the stream model, which has a variance; it is cloned and stays as it is. None:
            Calibrated(Standardize(KRLST())), which takes unscaled data and whose 90% intervals hold 90%.

    Example:
        >>> import pandas as pd
        >>> import streamgp as sg
        >>> from streamgp.adapters.skpro import StreamRegressor
        >>> X = pd.DataFrame({"x": range(200)})
        >>> y = pd.DataFrame({"y": 1000.0 + X["x"]})
        >>> regressor = StreamRegressor(sg.Standardize(sg.SOGP())).fit(X[:150], y[:150])
        >>> regressor = regressor.update(X[150:], y[150:])  # in time that does not grow with what was learned before
        >>> regressor.predict_proba(X[-1:]).mean().round(-1)["y"].item(), regressor.model_.rows_seen
        (1200.0, 200)
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": ["streamgp"],
        "maintainers": ["streamgp"],
        "python_dependencies": "streamgp",
        "capability:multioutput": True,
        "capability:missing": False,
        "X_inner_mtype": "pd_DataFrame_Table",
        "y_inner_mtype": "pd_DataFrame_Table",
    } | ({"capability:update": True} if HAS_UPDATE else {})

    def __init__(self, model: StreamModel | None = None) -> None:
        self.model = model
        super().__init__()

    def _fit(self, X: pd.DataFrame, y: pd.DataFrame) -> Self:
        model = fresh(self.model)
        refuse_without_variance(model)
        self._columns = y.columns
        self.model_ = model
        return self._update(X, y)

    def _update(self, X: pd.DataFrame, y: pd.DataFrame) -> Self:
        targets = y.to_numpy(dtype=float)
        self.model_.learn_many(X.to_numpy(dtype=float), targets[:, 0] if targets.shape[1] == 1 else targets)
        return self

    if not HAS_UPDATE:

        def update(self, X: Any, y: Any) -> Self:
            """Learn more rows, as newer skpro has it."""
            checked = self._check_X_y(X, y, return_metadata=True)
            return self._update(checked["X_inner"], checked["y_inner"])

    def _predicted(self, X: pd.DataFrame) -> Prediction:
        return self.model_.predict_many(X.to_numpy(dtype=float))

    def _predict(self, X: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(_table(self._predicted(X).mean), index=X.index, columns=self._columns)

    def _predict_proba(self, X: pd.DataFrame) -> Normal:
        prediction = self._predicted(X)
        return Normal(_table(prediction.mean), _table(prediction.std), index=X.index, columns=self._columns)

    def _predict_interval(self, X: pd.DataFrame, coverage: list[float]) -> pd.DataFrame:
        prediction = self._predicted(X)
        bounds = [bound for level in coverage for bound in prediction.interval(level)]
        return self._framed(X, bounds, coverage, ["lower", "upper"])

    def _predict_quantiles(self, X: pd.DataFrame, alpha: list[float]) -> pd.DataFrame:
        prediction = self._predicted(X)
        return self._framed(X, [_quantile(prediction, at) for at in alpha], alpha)

    def _framed(self, X: pd.DataFrame, found: list[Any], *levels: list[Any]) -> pd.DataFrame:
        """For each target all that was found, under the levels."""
        columns = pd.MultiIndex.from_product([self._columns, *levels])
        values = [_table(one)[:, j] for j in range(len(self._columns)) for one in found]
        return pd.DataFrame(np.column_stack(values), index=X.index, columns=columns)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:  # noqa: ARG003
        """Return the settings with which skpro's own checks are run."""
        return [{}, {"model": KRLST(capacity=20, outputs="separate")}]


def _quantile(prediction: Prediction, at: float) -> np.ndarray:
    """The bound of an interval with this probability below it; at one half, the mean."""
    if at == 0.5:
        return np.asarray(prediction.mean)
    low, high = prediction.interval(abs(1.0 - 2.0 * at))
    return np.asarray(low if at < 0.5 else high)


def _table(values: Any) -> np.ndarray:
    """One column for each target."""
    return np.asarray(values).reshape(len(values), -1)
