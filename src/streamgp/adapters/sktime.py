"""A forecaster and a detector for sktime; needs sktime (``pip install 'streamgp[sktime]'``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

try:
    import pandas as pd
    from sktime.detection.base import BaseDetector
    from sktime.forecasting.base import BaseForecaster, ForecastingHorizon
except ImportError as error:
    raise ImportError("streamgp.adapters.sktime needs sktime: pip install 'streamgp[sktime]'") from error

from streamgp.adapters import cloning
from streamgp.adapters.given import fresh
from streamgp.contract.model import StreamModel
from streamgp.recipes.vanvaerenbergh2016 import KRLST
from streamgp.settings import FloatArray
from streamgp.tuning.forecaster import Forecaster, SeriesForecast
from streamgp.wrappers.alarms import Alarms
from streamgp.wrappers.lagged import Lagged

cloning.register()


class StreamForecaster(BaseForecaster):
    """``sg.Forecaster`` for sktime: ``fit`` finds seasons and trend, ``update`` learns more rows at constant cost.

    ``forecaster_`` is the forecaster that has learned. Periods count rows: 24 is a day of hourly rows. ``update`` never
    looks for seasons again, whether ``update_params`` is set or not; rows that were learned before are passed over.

    Args:
        seasons: periods in rows, such as [24, 168]; None: found in the series.
        log: whether logarithms are modeled; None: where all targets are above 0 and it fits better.
        trend: whether there is one; None: where it fits better.
        rows: most rows that count for the search, the last ones; all are learned.

    Example:
        >>> import numpy as np
        >>> import pandas as pd
        >>> from streamgp.adapters.sktime import StreamForecaster
        >>> hours = np.arange(24 * 10)
        >>> y = pd.Series(50 + 10 * np.sin(2 * np.pi * hours / 24) + np.random.default_rng(0).normal(0, 0.1, 240))
        >>> forecaster = StreamForecaster(seasons=[24]).fit(y[:200]).update(y[200:])
        >>> forecaster.predict(fh=[7, 19]).round().tolist()
        [60.0, 40.0]
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": ["streamgp"],
        "maintainers": ["streamgp"],
        "python_dependencies": "streamgp",
        "capability:exogenous": True,
        "capability:categorical_in_X": False,
        "capability:insample": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
        "capability:missing_values": False,
        "capability:non_contiguous_X": False,
        "capability:update": True,
        "requires-fh-in-fit": False,
        "y_inner_mtype": "pd.Series",
        "X_inner_mtype": "pd.DataFrame",
    }

    _config: ClassVar[dict[str, Any]] = {"remember_data": False}  # the model knows what it needs of the past
    _y = _X = None  # what sktime remembers where it is told to

    def __init__(
        self,
        seasons: Sequence[float] | None = None,
        log: bool | None = None,
        trend: bool | None = None,
        rows: int = 1000,
    ) -> None:
        self.seasons, self.log, self.trend, self.rows = seasons, log, trend, rows
        super().__init__()

    def _fit(self, y: pd.Series, X: pd.DataFrame | None = None, fh: Any = None) -> Self:
        self._first, self._named, self._has_inputs = y.index[:1], y.name, X is not None
        self._step = _step(y.index)
        times = self._times(y.index)
        self.forecaster_ = Forecaster(y.to_numpy(dtype=float), times, _numbers(X), **self.get_params(deep=False))
        self._last = float(times[-1])
        return self

    def _update(self, y: pd.Series, X: pd.DataFrame | None = None, update_params: bool = True) -> Self:
        times = self._times(y.index)
        new = times > self._last
        if new.any():
            inputs = None if X is None or not self._has_inputs else _numbers(X.loc[y.index])
            self.forecaster_.learn(y.to_numpy(dtype=float)[new], times[new], None if inputs is None else inputs[new])
            self._last = float(times[-1])
        return self

    def _times(self, index: pd.Index) -> FloatArray:
        """How many rows after the first one rows are."""
        if isinstance(index, pd.PeriodIndex):
            steps = index.asi8 - self._first.asi8[0]
            return np.asarray(steps, dtype=float)
        if isinstance(index, pd.DatetimeIndex) and isinstance(self._step, str):
            first = self._first.to_period(self._step).asi8[0]
            return np.asarray(index.to_period(self._step).asi8 - first, dtype=float)
        return np.asarray((index - self._first[0]) / self._step, dtype=float)

    def _ahead(self, fh: ForecastingHorizon, X: pd.DataFrame | None) -> tuple[pd.Index, SeriesForecast]:
        index = fh.to_absolute_index(self.cutoff)
        times = self._times(index)
        known = None if X is None or not self._has_inputs else _numbers(X.loc[index])
        return index, self.forecaster_.forecast(times, known)

    def _predict(self, fh: ForecastingHorizon, X: pd.DataFrame | None = None) -> pd.Series:
        index, ahead = self._ahead(fh, X)
        return pd.Series(ahead.median, index=index, name=self._named)

    def _predict_quantiles(
        self, fh: ForecastingHorizon, X: pd.DataFrame | None = None, alpha: Sequence[float] = (0.5,)
    ) -> pd.DataFrame:
        index, ahead = self._ahead(fh, X)
        columns = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        return pd.DataFrame(np.column_stack([ahead.quantile(at) for at in alpha]), index=index, columns=columns)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:  # noqa: ARG003
        """Return the settings with which sktime's own checks are run."""
        return [{}, {"seasons": [4], "log": False, "trend": False}]


class StreamDetector(BaseDetector):
    """``sg.Alarms`` for sktime: rows that the model did not expect, with a budget of false alarms.

    ``fit`` learns a series row by row, ``update`` learns more, and ``predict`` says which rows are abnormal. Rows of
    the last ``fit`` or ``update`` are judged as they were then, others as if they came next; the model stays as it is.
    Earlier rows are not kept. With several columns the first is judged, given the others. ``predict_scores`` and
    ``transform_scores`` give surprises, -log p. ``model_`` is the model that has learned.

    Args:
        model: the stream model that predicts a row, which has a variance; it is cloned. None:
            Calibrated(Standardize(KRLST())).
        lags: how many of the last values of the first column the model sees.
        rate: false alarms for each row while nothing is abnormal.
        warmup: rows that are only counted, at the beginning and after a change.

    Example:
        >>> import numpy as np
        >>> import pandas as pd
        >>> from streamgp.adapters.sktime import StreamDetector
        >>> x = pd.Series(np.sin(0.3 * np.arange(600)) + 0.05 * np.random.default_rng(0).standard_normal(600))
        >>> x[500] += 2
        >>> StreamDetector(rate=1e-3).fit(x[:400]).predict(x[400:])["ilocs"].tolist()
        [100]
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": ["streamgp"],
        "maintainers": ["streamgp"],
        "python_dependencies": "streamgp",
        "learning_type": "unsupervised",
        "task": "anomaly_detection",
        "capability:multivariate": True,
        "capability:missing_values": False,
        "capability:update": True,
        "X_inner_mtype": "pd.DataFrame",
    }

    def __init__(self, model: StreamModel | None = None, lags: int = 10, rate: float = 1e-3, warmup: int = 100) -> None:
        self.model, self.lags, self.rate, self.warmup = model, lags, rate, warmup
        super().__init__()

    def _fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        model = fresh(self.model)
        self.model_ = Alarms(Lagged(model, lags=self.lags), rate=self.rate, warmup=self.warmup)
        return self._update(X)

    def _update(self, X: pd.DataFrame, y: Any = None) -> Self:
        self._known, self._judged = X.copy(), _judged(self.model_, X)
        self._X = X.iloc[:0]  # where sktime gathers all rows, of which the model keeps what it needs
        return self

    def _of(self, X: pd.DataFrame) -> tuple[FloatArray, np.ndarray]:
        """Surprise and kind of each row; "" where there is no alarm."""
        X, known = pd.DataFrame(X), self._known
        at = known.index.get_indexer(X.index) if known.index.is_unique else np.full(len(X), -1)
        if len(X) and (at >= 0).all() and np.array_equal(known.to_numpy()[at], X.to_numpy()):
            return self._judged[0][at], self._judged[1][at]
        return _judged(self.model_.copy(), X)

    def _predict(self, X: pd.DataFrame) -> pd.Series:
        return pd.Series(np.flatnonzero(self._of(X)[1] != ""), dtype="int64")

    def _predict_scores(self, X: pd.DataFrame) -> pd.Series:
        surprise, kind = self._of(X)
        return pd.Series(surprise[kind != ""], dtype=float)

    def _transform_scores(self, X: pd.DataFrame) -> pd.Series:
        return pd.Series(self._of(X)[0], index=X.index, name="surprise")

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:  # noqa: ARG003
        """Return the settings with which sktime's own checks are run."""
        return [{"warmup": 10}, {"model": KRLST(capacity=10), "lags": 3, "rate": 0.01, "warmup": 10}]


def _judged(model: Alarms, X: pd.DataFrame) -> tuple[FloatArray, np.ndarray]:
    """Surprise and kind of each row; the model learns them."""
    values = X.to_numpy(dtype=float)
    prediction = model.track(values[:, 1:], values[:, 0])
    return np.asarray(prediction.surprise, dtype=float), np.asarray(prediction.alarm, dtype=object)


def _numbers(X: pd.DataFrame | None) -> FloatArray | None:
    return None if X is None else X.to_numpy(dtype=float)


def _step(index: pd.Index) -> Any:
    """What lies between two rows: a frequency where it is known, otherwise the usual difference."""
    if isinstance(index, pd.DatetimeIndex):
        name = index.freqstr or (pd.infer_freq(index) if len(index) > 2 else None)
        if name is not None:
            try:
                index[:1].to_period(name)
                return name
            except ValueError:  # frequencies such as business hours have no periods
                pass
    return 1 if len(index) < 2 or isinstance(index, pd.PeriodIndex) else (index[1:] - index[:-1]).to_series().median()
