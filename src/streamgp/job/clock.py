"""Times of rows, for models: seconds since 1970 that do not go back."""

from __future__ import annotations

import numpy as np

from streamgp.contract.model import StreamModel
from streamgp.settings import FloatArray
from streamgp.tables.dates import seconds


class Clock:
    """Reads the times of rows; one that cannot be read, or goes back, counts as the last."""

    def __init__(self) -> None:
        self.last = np.array([np.nan])

    def moments(self, times: list[str] | None, model: StreamModel) -> FloatArray | None:
        """When rows came, if the model uses it; 0 where no time is known so far."""
        if times is None or not uses_time(model):
            return None
        known = self._read(times)
        self.last[0] = known[-1]
        return np.nan_to_num(known[1:])

    def issued(self, times: list[str] | None, model: StreamModel) -> FloatArray | None:
        """When rows came whose targets come later, if the model sees it and does not forget by it; nothing changes."""
        if times is None or not uses_time(model) or model._needs_time:
            return None
        return np.nan_to_num(self._read(times)[1:])

    def _read(self, times: list[str]) -> FloatArray:
        """The last time and the times of rows, which do not go back; NaN: none is known so far."""
        read = [seconds(text) for text in times]
        known = np.array([self.last[0], *(np.nan if moment is None else moment for moment in read)])
        known = np.fmax.accumulate(known)
        first = known[~np.isnan(known)]
        return np.where(np.isnan(known), first[0], known) if len(first) else known


def uses_time(model: StreamModel) -> bool:
    """Whether a model uses the times of rows."""
    return model._needs_time or model._sees_time
