"""Stream models as scikit-learn regressors; needs scikit-learn (``pip install 'streamgp[sklearn]'``)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted
except ImportError as error:
    raise ImportError("streamgp.adapters.sklearn needs scikit-learn: pip install 'streamgp[sklearn]'") from error
try:
    from sklearn.utils.validation import validate_data
except ImportError:  # before scikit-learn 1.6

    def validate_data(estimator: Any, *given: Any, **settings: Any) -> Any:
        return estimator._validate_data(*given, **settings)


from streamgp.adapters.given import fresh, refuse_without_variance
from streamgp.contract import inputs, passing
from streamgp.contract.joint import JointPrediction
from streamgp.contract.model import StreamModel
from streamgp.contract.turns import turn
from streamgp.settings import FloatArray


class StreamRegressor(RegressorMixin, BaseEstimator):
    """A stream model as a scikit-learn regressor: rows are learned in order, each once.

    Its results are those of the model itself, to the last bit. ``model_`` is the model that has learned.

    Args:
        model: the stream model; it is cloned and stays as it is. None:
            Calibrated(Standardize(KRLST())), which takes unscaled data and whose 90% intervals hold 90%.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> from streamgp.adapters.sklearn import StreamRegressor
        >>> X = np.linspace(0.0, 300.0, 200)[:, None]
        >>> model = sg.Calibrated(sg.Standardize(sg.KRLST(capacity=50)))
        >>> regressor = StreamRegressor(model).fit(X, 1000 + X[:, 0])
        >>> mean, std = regressor.predict([[300.0]], return_std=True)
        >>> mean.round(-1), regressor.set_params(model__model__model__capacity=20).model
        (array([1300.]), Calibrated(model=Standardize(model=KRLST(capacity=20))))
    """

    def __init__(self, model: StreamModel | None = None) -> None:
        self.model = model

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn rows from nothing.

        Args:
            X: (n, d) rows, an array or a DataFrame.
            y: (n,) or (n, p) targets; all of them finite.
            sample_weight: (n,) weights: an observation's noise is that of the model divided by its weight; a row of
                weight 0 is observed, not learned. None: all weigh 1.
        """
        model = fresh(self.model)
        self._learn(model, *self._validated(X, y, reset=True), sample_weight)
        self.model_ = model
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn more rows; the first call is a fit.

        Args:
            X: (n, d) rows, with the columns of the first call.
            y: (n,) or (n, p) targets.
            sample_weight: (n,) weights, as in ``fit``.
        """
        if not hasattr(self, "model_"):
            return self.fit(X, y, sample_weight)
        self._learn(self.model_, *self._validated(X, y, reset=False), sample_weight)
        return self

    def _learn(self, model: StreamModel, X: FloatArray, y: FloatArray, sample_weight: Any) -> None:
        weight = np.ones(len(X)) if sample_weight is None else _check_sample_weight(sample_weight, X)
        if (weight < 0).any():
            raise ValueError(f"sample_weight must be numbers of at least 0; got {weight[weight < 0][0]}")
        if (weight == 0).any():
            y = np.where((weight > 0).reshape(-1, *[1] * (y.ndim - 1)), y, np.nan)
        if np.isin(weight, (0.0, 1.0)).all():
            model.learn_many(X, y)
        else:
            with turn(model):
                passing.take_many(model, X, y, report=False, weight=np.where(weight > 0, weight, 1.0))

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict rows that would each come next: a memory does not advance from one to the other.

        Args:
            X: (n, d) rows.
            return_std: also return the standard deviation of y, function and noise together.
            return_cov: also return the covariance of y between the rows, function and noise together.

        Returns:
            The mean, (n,) or (n, p), or mean and standard deviation, or mean and covariance, (n, n) or (n, n, p).
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise ValueError("return_std and return_cov are both True; the covariance has variances on its diagonal")
        if return_std:
            refuse_without_variance(self.model_)
        if return_cov:
            joint = self._joint(X)
            covariance = joint.covariance.copy()
            np.einsum("...ii->i...", covariance)[...] += joint.noise
            return joint.mean, np.moveaxis(covariance, 0, -1) if covariance.ndim == 3 else covariance
        prediction = self.model_.predict_many(validate_data(self, _faithful(X, "X"), reset=False))
        return (prediction.mean, prediction.std) if return_std else prediction.mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> FloatArray:
        """Draw targets of all rows together, function and noise.

        Args:
            X: (n, d) rows that would each come next.
            n_samples: number of draws.
            random_state: a seed, a RandomState, or None for draws that do not repeat.

        Returns:
            The draws, (n, n_samples) or (n, p, n_samples).
        """
        check_is_fitted(self)
        seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        return np.moveaxis(self._joint(X).sample(n_samples, seed, noise=True), 0, -1)

    def _joint(self, X: Any) -> JointPrediction:
        return self.model_.predict_joint(validate_data(self, _faithful(X, "X"), reset=False))

    def _validated(self, X: Any, y: Any, reset: bool) -> tuple[FloatArray, FloatArray]:
        checked: tuple[FloatArray, FloatArray] = validate_data(
            self, _faithful(X, "X"), _faithful(y, "y"), reset=reset, multi_output=True, y_numeric=True
        )
        return checked

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the model; ``deep`` adds all its settings as ``model__setting`` and ``model__part__setting``."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep and isinstance(self.model, StreamModel):
            params |= {f"model__{name}": value for name, value in self.model.get_params(deep=True).items()}
        return params

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    if not hasattr(BaseEstimator, "__sklearn_tags__"):  # before scikit-learn 1.6

        def _more_tags(self) -> dict[str, bool]:
            return {"multioutput": True}


def _faithful(value: Any, name: str) -> Any:
    """Data of which scikit-learn loses nothing; what it has no sentence for is left to the model or refused here."""
    return inputs.numbers(value, name) if isinstance(value, list | tuple) else inputs.faithful(value)
