"""What a run over a table did, for people and for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from streamgp.contract.model import REPAIRS
from streamgp.job.pipeline import Pipeline
from streamgp.job.request import AUTO
from streamgp.job.told import asked
from streamgp.job.verdict import verdict
from streamgp.tables.formats import BadRow

MOST_SKIPPED = 3  # reasons that are told
MOST_REASONS = 100  # for which rows are left out


@dataclass
class Summary:
    """What a run did.

    Args:
        pipeline: as it stands after the last row.
        skipped_rows: how many rows were left out.
        first_skipped: the first of them; None: there is none.
        skipped: how often, by reason (the first hundred).
        unit: what the numbers of skipped rows count: "line" or "row".
        seconds: from the first row to the last.
        rows: rows of this run.
        interrupted: whether it was stopped before the end.
        notes: what was recognized and decided, for people.
    """

    pipeline: Pipeline
    skipped_rows: int = 0
    first_skipped: BadRow | None = None
    skipped: Counter[str] = field(default_factory=Counter)
    unit: str = "line"
    seconds: float = 0.0
    rows: int = 0
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)

    def skip(self, bad: Sequence[BadRow]) -> None:
        """Count rows that are left out."""
        self.skipped_rows += len(bad)
        self.first_skipped = self.first_skipped or bad[0]
        self.skipped.update(one.reason for one in bad if one.reason in self.skipped or len(self.skipped) < MOST_REASONS)

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        pipeline = self.pipeline
        chosen = pipeline.chosen
        return {
            "rows": self.rows,
            "rows_seen": pipeline.rows,
            "skipped_rows": self.skipped_rows,
            "seconds": self.seconds,
            "rows_per_second": self.rows / self.seconds if self.seconds else None,
            "interrupted": self.interrupted,
            "target": pipeline.schema.target,
            "inputs": pipeline.input_names,
            "horizon": pipeline.horizon,
            "level": pipeline.level,
            "model": pipeline.request.model if chosen is None else chosen.name,
            "choice": None if chosen is None else chosen._asdict(),
            "verdict": verdict(pipeline),
            "scores": pipeline.score_summary(),
            "importance": pipeline.importance(),
            "gaps": pipeline.encoder.gaps,
            "late": pipeline.late,
            "health": pipeline.health,
            "drift": [self._event(row, sentence) for row, sentence in pipeline.drift],
            "alarms": pipeline.alarm_counts,
            "strangest": [self._event(row, sentence) for row, sentence in pipeline.strangest()],
            "notes": self.notes,
        }

    def sentences(self) -> list[str]:
        """For people."""
        pipeline = self.pipeline
        speed = f" ({self.rows / self.seconds:,.0f} per second)" if self.seconds > 0 else ""
        lines = [f"rows: {self.rows} in {self.seconds:.1f} s{speed}"]
        gaps = ", ".join(f"{count} in {name}" for name, count in pipeline.encoder.gaps.items())
        if gaps:
            lines.append(
                f"missing values: {gaps}; inputs repeat their last value, rows without a target are not learned"
            )
        if late := pipeline.late:
            lines.append(
                f"late targets: {late['learned']} learned, {late['waiting']} rows still waiting, "
                f"{late['expired']} expired{' (keep more with `pending=N`)' * (late['expired'] > 0)}, "
                f"{late['ignored']} rows ignored"
                f"{' (no target, or a ticket that is unknown, resolved or expired)' * (late['ignored'] > 0)}"
            )
        if fill_values := pipeline.refused.sentence():
            lines.append(fill_values)
        health = pipeline.model.health
        if health.repairs:
            kinds = ", ".join(f"{getattr(health, k)} {k.replace('_', ' ')}" for k in REPAIRS if getattr(health, k))
            advice = "if predictions look wrong, raise noise or novelty"
            if pipeline.request.model == AUTO:
                advice = "in single members of auto, whose weights go by their errors"
            lines.append(f"numerical repairs: {health.repairs} ({kinds}); {advice}")
        if pipeline.diverged:
            why = (
                "weight 0"
                if len(pipeline.weights) > 1
                else "errors beyond measure; try `model=auto`, or a smaller step"
            )
            lines.append(f"diverged: {', '.join(pipeline.diverged)} ({why})")
        if first := self.first_skipped:
            rows = f"{self.skipped_rows} row{'s' if self.skipped_rows > 1 else ''}"
            lines.append(f"skipped: {rows}; the first is {self.unit} {first.line}, which {first.reason}")
            often = [f"{count} x: {reason}" for reason, count in self.skipped.most_common(MOST_SKIPPED)]
            if len(often) > 1:
                lines.append(f"skipped most often: {'; '.join(often)}")
        return lines

    def _event(self, row: int, sentence: str) -> dict[str, Any]:
        when = {"time": self.pipeline.when(row)} if self.pipeline.schema.time else {}
        return {"row": row, **when, "event": sentence}


def introduced(pipeline: Pipeline, reader: object = None) -> list[str]:
    """What was recognized in a table, before its rows are predicted.

    Args:
        pipeline: that is about to begin.
        reader: of the table.
    """
    told = pipeline.encoder.sentences()
    if getattr(reader, "headless", False):
        told.append("no header row; naming columns 1, 2, ...")
    if pipeline.lags:
        first, last = pipeline.input_names[-pipeline.lags], pipeline.input_names[-1]
        told.append(f"lags: {first}" + (f" to {last}" if pipeline.lags > 1 else ""))
    elif not pipeline.horizon:
        told.append(f"lags: none; `lags=3` adds past values of {pipeline.schema.target}")
    if pipeline.horizon:
        told.append(f"horizon: {pipeline.horizon} row{'s' if pipeline.horizon > 1 else ''} ahead")
    if (missing := asked(pipeline.model, "without_trees")) is not None:
        told.append(missing or "trees: among the experts, trained by LightGBM")
    return told
