"""Stream models as River regressors and classifiers; needs River (``pip install 'streamgp[river]'``)."""

from __future__ import annotations

from typing import Any

try:
    from river import base, conf, proba
except ImportError as error:
    raise ImportError("streamgp.adapters.river needs River: pip install 'streamgp[river]'") from error

from streamgp.adapters.given import fresh, refuse_without_variance
from streamgp.contract import passing
from streamgp.contract.model import StreamModel
from streamgp.contract.turns import turn
from streamgp.process.likelihood import Probit
from streamgp.recipes.soh2014 import SOGP
from streamgp.settings import number, whole
from streamgp.wrappers.standardize import Standardize


class StreamRegressor(base.Regressor):
    """A stream model as a River regressor: rows are dicts whose features may appear and vanish.

    The model has one column for each feature, in the order of the names as text. A feature that is absent counts as 0,
    as elsewhere in River; put a ``preprocessing.StatImputer`` in front where 0 is no sensible value. The columns are
    the features of the first ``warmup`` rows: while these come, a new feature starts the model anew, and it learns the
    rows so far again. A feature that appears later is left out, and ``ignored`` counts the rows learned without one.
    The results are those of the model itself on these columns, to the last bit.

    Args:
        model: the stream model; it is cloned and stays as it is. None:
            Calibrated(Standardize(KRLST())), which takes unscaled data and whose 90% intervals hold 90%.
        features: names of the columns, in this order; None: those of the first ``warmup`` rows.
        warmup: rows in which features may appear.

    Example:
        >>> import streamgp as sg
        >>> from streamgp.adapters.river import StreamRegressor
        >>> regressor = StreamRegressor(sg.Calibrated(sg.KRLST()))
        >>> regressor.learn_one({"wind": 0.3, "sun": 1.0}, 2.0)
        >>> regressor.learn_one({"wind": 0.1}, 1.0)
        >>> y = regressor.predict_one({"sun": 1.0, "wind": 0.3}, with_dist=True)
        >>> regressor.columns, round(y.mu, 2), 1.9 in regressor.predict_one({"sun": 1.0}, with_interval=True)
        (('sun', 'wind'), 1.97, True)
    """

    def __init__(
        self,
        model: StreamModel | None = None,
        features: list[base.typing.FeatureName] | None = None,
        warmup: int = 100,
    ) -> None:
        self._native = fresh(model)
        if model is not None and model.rows_seen:
            raise ValueError(
                f"model must have learned nothing, because it does not know the names of its columns; got one that has "
                f"seen {model.rows_seen} rows. Hand over model.clone()."
            )
        self.model = model
        self.features = features
        self.warmup = whole("warmup", warmup)
        self.ignored = 0
        self._columns = () if features is None else tuple(features)
        # The rows of the warm-up; None when the columns are settled.
        self._kept: list[tuple[dict[base.typing.FeatureName, Any], Any, float]] | None = (
            [] if features is None else None
        )

    @property
    def columns(self) -> tuple[base.typing.FeatureName, ...]:
        """The features that are columns of the model, in order."""
        return self._columns

    def learn_one(self, x: dict[base.typing.FeatureName, Any], y: base.typing.RegTarget, w: float = 1.0) -> None:
        """Learn a row.

        Args:
            x: numbers by the names of their features.
            y: a number; None or NaN: the memory of the model advances, nothing is learned.
            w: weight: the observation's noise is that of the model divided by it; 0: nothing is learned. Models that
                cannot weigh rows refuse any other than 0 and 1.
        """
        w = number("w", w, at_least=0)
        with turn(self._native):
            if self._kept is None:
                _learn(self._native, _row(x, self._columns), y, w)
                self.ignored += any(name not in self._columns for name in x)
            else:
                self._warm_up(x, y, w, self._kept)

    def _warm_up(
        self, x: dict[base.typing.FeatureName, Any], y: base.typing.RegTarget, w: float, kept: list[Any]
    ) -> None:
        columns, native = tuple(sorted({*self._columns, *x}, key=str)), self._native
        if columns == self._columns:
            _learn(native, _row(x, columns), y, w)
        else:
            native = fresh(self.model)
            for row, target, weight in (*kept, (x, y, w)):
                _learn(native, _row(row, columns), target, weight)
        kept.append((dict(x), y, w))
        if len(kept) == self.warmup:
            self._kept = None
        # The model last: from then on another thread may have its turn.
        self._columns, self._native = columns, native

    def predict_one(
        self, x: dict[base.typing.FeatureName, Any], with_dist: bool = False, with_interval: bool = False
    ) -> Any:
        """Predict the target of a row.

        Args:
            x: numbers by the names of their features.
            with_dist: return the distribution of y, function and noise together, as a ``river.proba.Gaussian``.
            with_interval: return a ``river.conf.Interval`` instead: the bounds at the level of a Calibrated model, the
                central 90% of any other.
        """
        if with_dist or with_interval:
            refuse_without_variance(self._native)
        prediction = self._native.predict_one(_row(x, self._columns or tuple(sorted(x, key=str))))
        if with_interval:
            return conf.Interval(*prediction.interval())
        if not with_dist:
            return prediction.mean
        return proba.Gaussian._from_state(1, prediction.mean, prediction.variance + prediction.noise, 0)


class StreamClassifier(base.Classifier):
    """A stream model of two classes as a River classifier; rows and columns are those of :class:`StreamRegressor`.

    Args:
        model: a stream model with ``likelihood=Probit()``; it is cloned and stays as it is. None:
            Standardize(SOGP(likelihood=Probit())).
        features: names of the columns, in this order; None: those of the first ``warmup`` rows.
        warmup: rows in which features may appear.

    Example:
        >>> from streamgp.adapters.river import StreamClassifier
        >>> classifier = StreamClassifier()
        >>> for x, y in ((-2.0, False), (-1.0, False), (1.0, True), (2.0, True)):
        ...     classifier.learn_one({"wind": x}, y)
        >>> classifier.predict_one({"wind": 1.5}), classifier.predict_proba_one({"wind": -1.5})[True] < 0.4
        (True, True)
    """

    def __init__(
        self,
        model: StreamModel | None = None,
        features: list[base.typing.FeatureName] | None = None,
        warmup: int = 100,
    ) -> None:
        native = Standardize(SOGP(likelihood=Probit())) if model is None else model
        if getattr(native, "_observes", "classes") != "classes":
            raise ValueError(f"model must be one of classes, such as SOGP(likelihood=Probit()); got {model!r}")
        self.model = model
        self.features = features
        self.warmup = warmup
        self._rows = StreamRegressor(native, features, warmup)

    def learn_one(self, x: dict[base.typing.FeatureName, Any], y: Any) -> None:
        """Learn a row.

        Args:
            x: numbers by the names of their features.
            y: True or False, 1 or 0; None or NaN: the memory of the model advances, nothing is learned.
        """
        self._rows.learn_one(x, y)

    def predict_proba_one(
        self, x: dict[base.typing.FeatureName, Any], **kwargs: Any
    ) -> dict[base.typing.ClfTarget, float]:
        """Return the probabilities of False and True.

        Args:
            x: numbers by the names of their features.
        """
        probability = self._rows.predict_one(x)
        return {False: 1.0 - probability, True: probability}


def _learn(model: StreamModel, x: list[Any], y: Any, w: float) -> None:
    if w in (0.0, 1.0):
        model.learn_one(x, y if w else None)
    else:
        passing.take_many(model, [x], [y], report=False, weight=w)


def _row(x: dict[base.typing.FeatureName, Any], columns: tuple[base.typing.FeatureName, ...]) -> list[Any]:
    return [x.get(name, 0.0) for name in columns]
