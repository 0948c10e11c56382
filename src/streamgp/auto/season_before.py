"""SeasonBefore: the target of a season before, which a column has."""

from __future__ import annotations

import numpy as np

from streamgp.recipes.naive import InputValue
from streamgp.settings import FloatArray, whole


class SeasonBefore(InputValue):
    """The value of an input column, where it is another one than that of a second column.

    Args:
        column: of the inputs, the first one 0.
        unless: the second column, which stands for the first one where that is not known; NaN is predicted there.
    """

    def __init__(self, column: int = 0, *, unless: int = 1) -> None:
        super().__init__(column)
        self._unless = whole("unless", unless, at_least=0)

    def _next(self, X: FloatArray) -> FloatArray:
        return np.where(X[:, self._unless : self._unless + 1] == super()._next(X), np.nan, super()._next(X))
