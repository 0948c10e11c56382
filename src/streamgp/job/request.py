"""What was asked for: a model, its settings and those of the run, checked before the first row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from streamgp.contract.model import StreamModel
from streamgp.job.candidates import CANDIDATES, candidate, model_by_name
from streamgp.job.expressions import value_of
from streamgp.settings import Configured, nearest, number, whole

AUTO = "auto"
RUN_SETTINGS: dict[str, Any] = {
    "level": 0.9,
    "warmup": 1000,
    "tune": True,
    "drift": True,
    "screen": True,
    "pending": 1000,
}
MOST_PENDING = 100_000  # rows that wait for their targets
EARLY = 5  # hyperparameters are first found on this fraction of the warm-up's rows


@dataclass(frozen=True)
class Request:
    """What was asked for.

    Args:
        model: the name of a model, or "auto".
        settings: of the model by name; also ``level`` (of the intervals), ``warmup`` (rows after which the choice is
            made), ``tune`` (whether hyperparameters are found on the first rows), ``drift`` (whether changes are looked
            for), ``screen`` (whether targets that look like fill values count as missing) and ``pending`` (rows that
            can wait for late targets; one more, and the oldest expires).
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
            raise ValueError("pending counts rows whose targets come late; it needs --ticket-column")
        for name in ("tune", "drift", "screen"):
            if not isinstance(self.run[name], bool):
                raise ValueError(f"{name} must be on or off; got {self.run[name]!r}")
        known = setting_names(self.model)
        if self.by_time and "half_life" not in known:
            raise ValueError(
                f"{self.model} cannot forget by the time between rows; use --half-life with KRLST, RLSESN or auto, "
                "whose KRLST members then forget by it"
            )
        for name in self.settings:
            if name.partition("__")[0] not in known:
                who = "no candidate of auto has a" if self.model == AUTO else f"{self.model} has no"
                raise ValueError(f"{who} setting {name!r}.{nearest(name, known)} Settings: {', '.join(sorted(known))}")
        waits = f"{self.horizon} rows" if self.horizon > 1 else "any rows" if self.late else ""
        if self.model != AUTO and waits and _remembers(self.build(self.model, 1)):
            raise ValueError(
                f"{self.model} keeps a memory of its inputs and cannot wait {waits} for a target; "
                "use --lags for the past, with a model such as KRLST, SOGP or ISSGPR (depth=1)"
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

    def stages(self) -> tuple[int, int]:
        """After how many rows a model is built: a first time, and for good, when models are chosen, too."""
        early = max(10, self.warmup // EARLY)
        late = self.horizon if self.horizon > early else 0  # rows whose targets have not come by then
        return early + late, self.warmup + late

    def build(self, name: str, d: int) -> StreamModel:
        """A model that has learnt nothing, for d inputs in standard units."""
        own = {key: value_of(value) for key, value in self.settings.items() if key not in RUN_SETTINGS}
        return candidate(name, d, own) if self.model == AUTO else model_by_name(name, d, own)


def setting_names(model: str) -> set[str]:
    """The settings that a run with a model, or with auto, can be given."""
    if model == AUTO:
        return {*RUN_SETTINGS, *(name for entry in CANDIDATES.values() for name in entry.settings)}
    return {*RUN_SETTINGS, *(Configured.registry[model].setting_names() if model in Configured.registry else ())}


def _remembers(model: StreamModel) -> bool:
    settings = model.get_params()
    return settings.get("depth", 1) > 1 or any(name in settings for name in ("units", "reservoir", "encoder"))
