"""What was asked for: a model, its settings and those of the run, checked before the first row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamgp.auto.candidates import CANDIDATES, candidate
from streamgp.contract.model import StreamModel
from streamgp.job.expressions import value_of
from streamgp.job.named import model_by_name
from streamgp.settings import Configured, nearest, number, option, whole
from streamgp.tables.numbers import MARKS

AUTO = "auto"
RUN_SETTINGS: dict[str, Any] = {
    "level": 0.9,
    "warmup": 1000,
    "tune": True,
    "drift": True,
    "screen": True,
    "pending": 1000,
    "decimal": None,
}
MOST_PENDING = 100_000  # rows that wait for their targets


@dataclass(frozen=True)
class Request:
    """What was asked for.

    Args:
        model: the name of a model, or "auto".
        settings: of the model by name; also ``level`` (of the intervals), ``warmup`` (rows after which the choice is
            made), ``tune`` (whether hyperparameters are found on the first rows), ``drift`` (whether changes are looked
            for), ``screen`` (whether targets that look like fill values count as missing), ``pending`` (rows that can
            wait for late targets; one more, and the oldest expires) and ``decimal`` ("." or ",", the decimal mark of
            numbers in text; None: the first rows tell).
        horizon: rows ahead.
        late: targets may come in later rows than their own.
    """

    model: str = AUTO
    settings: dict[str, Any] = field(default_factory=dict)
    horizon: int = 0
    late: bool = False

    def __post_init__(self) -> None:
        level = number("level", self.run["level"], above=0)
        if level >= 1:
            raise ValueError(f"level must be above 0 and below 1; got {level!r}")
        whole("warmup", self.run["warmup"], at_least=10)
        if whole("pending", self.run["pending"]) > MOST_PENDING:
            raise ValueError(f"pending must be at most {MOST_PENDING} rows; got {self.run['pending']}")
        if "pending" in self.settings and not self.late:
            raise ValueError("pending counts rows whose targets come late; it needs `ticket`")
        for name in ("tune", "drift", "screen"):
            if not isinstance(self.run[name], bool):
                raise ValueError(f"{name} must be on or off; got {self.run[name]!r}")
        if self.run["decimal"] is not None:
            option("decimal", self.run["decimal"], tuple(MARKS))
        known = setting_names(self.model)
        if self.by_time and "half_life" not in known:
            raise ValueError(
                f"{self.model} cannot forget by the time between rows; use `half_life` with KRLST, RLSESN or auto, "
                "whose KRLST members then forget by it"
            )
        for name in self.settings:
            if name.partition("__")[0] not in known:
                who = "no candidate of auto has a" if self.model == AUTO else f"{self.model} has no"
                raise ValueError(f"{who} setting {name!r}.{nearest(name, known)} Settings: {', '.join(sorted(known))}")
        waits = f"{self.horizon} rows" if self.horizon > 1 else "any rows" if self.late else ""
        if self.model != AUTO and waits and _remembers(self.build(1)):
            raise ValueError(
                f"{self.model} keeps a memory of its inputs and cannot wait {waits} for a target; "
                "use `lags` for the past, with a model such as KRLST, SOGP or ISSGPR (depth=1)"
            )

    @property
    def run(self) -> dict[str, Any]:
        """The settings that are not the model's."""
        return {name: value_of(self.settings.get(name, default)) for name, default in RUN_SETTINGS.items()}

    @property
    def by_time(self) -> bool:
        """Whether a half-life was asked for."""
        return value_of(self.settings.get("half_life")) is not None

    @property
    def level(self) -> float:
        return float(self.run["level"])

    @property
    def warmup(self) -> int:
        return int(self.run["warmup"])

    def chosen_after(self) -> int:
        """After how many rows models are chosen for good."""
        return self.warmup + self.horizon

    @property
    def own(self) -> dict[str, Any]:
        """The settings that are the model's."""
        return {key: value_of(value) for key, value in self.settings.items() if key not in RUN_SETTINGS}

    def build(self, d: int) -> StreamModel:
        """A model as was asked for, which has learned nothing, for d inputs in standard units; of auto a candidate."""
        return candidate("KRLST", d, self.own) if self.model == AUTO else model_by_name(self.model, d, self.own)


def decimal_of(settings: Mapping[str, Any] | None) -> str | None:
    """The decimal mark that settings ask for."""
    mark: str | None = value_of((settings or {}).get("decimal"))
    return mark


def setting_names(model: str) -> set[str]:
    """The settings that a run with a model, or with auto, can be given."""
    if model == AUTO:
        return {*RUN_SETTINGS, *(name for entry in CANDIDATES.values() for name in entry.settings)}
    return {*RUN_SETTINGS, *(Configured.registry[model].setting_names() if model in Configured.registry else ())}


def _remembers(model: StreamModel) -> bool:
    settings = model.get_params()
    return settings.get("depth", 1) > 1 or any(name in settings for name in ("units", "reservoir", "encoder"))
