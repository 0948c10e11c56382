"""What an experiment is: cells, a function that runs one, a summary that stands beside the paper's numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Settings = dict[str, Any]  # runs, steps, seed and the like: numbers and words
Cell = dict[str, Any]  # what one process computes, seed included: numbers and words
Row = dict[str, Any]  # a finished cell: the cell's own entries, its seconds, and what was found


@dataclass(frozen=True)
class Reference:
    """A number of a paper.

    Args:
        value: the number.
        tolerance: how much worse, relatively, ours may be and still agree with it.
        source: "printed", or "read off a figure".
        note: why ours is worse, where it is.
    """

    value: float
    tolerance: float = 0.0
    source: str = "printed"
    note: str = ""


@dataclass(frozen=True)
class Value:
    """A number of ours, beside the paper's.

    Args:
        key: its name in expected.toml, such as "Henon OIESGP rmse".
        ours: the number, such as a median over runs.
        spread: its interquartile range over runs; None: there is none.
        reference: the paper's; None: it has none.
        better: "lower", "higher", or "neither" where no order says who is better.
        digits: decimals shown.
    """

    key: str
    ours: float
    spread: float | None = None
    reference: Reference | None = None
    better: str = "lower"
    digits: int = 4

    @property
    def excess(self) -> float:
        """By how much ours is worse, in units of the paper's number as it is printed; 0 where it is not."""
        if self.reference is None or self.better == "neither":
            return 0.0
        if math.isnan(self.ours):  # a run that failed is worse than any number
            return math.inf
        sign = 1.0 if self.better == "lower" else -1.0
        return max(0.0, sign * (round(self.ours, self.digits) - self.reference.value))

    @property
    def worse(self) -> bool:
        """Whether ours is worse than the paper's, as printed."""
        return self.excess > 0.0

    @property
    def near(self) -> bool:
        """Whether ours is worse by no more than the tolerance, or not at all."""
        reference = self.reference
        return reference is None or self.excess <= reference.tolerance * abs(reference.value)

    @property
    def unexplained(self) -> bool:
        """Whether ours is worse by more than the tolerance and nothing says why."""
        return self.reference is not None and not self.near and not self.reference.note

    def text(self) -> str:
        """As it stands in a table: ours (spread) [paper's], a triangle where ours is worse."""
        parts = [f"{self.ours:.{self.digits}f}"]
        if self.spread is not None:
            parts.append(f"({self.spread:.{self.digits}f})")
        if self.reference is not None:
            about = "~" if self.reference.source != "printed" else ""
            parts.append(f"[{about}{self.reference.value:.{self.digits}f}]")
        if self.worse:
            parts.append("▲")
        return " ".join(parts)


@dataclass(frozen=True)
class Table:
    """A table of words and values.

    Args:
        header: names of the columns.
        rows: cells, each a text or a Value.
        notes: sentences below it.
    """

    header: list[str]
    rows: list[list[str | Value]]
    notes: list[str] = field(default_factory=list)

    def values(self) -> dict[str, Value]:
        """Return every value by its key."""
        return {cell.key: cell for row in self.rows for cell in row if isinstance(cell, Value)}

    def explanations(self) -> list[str]:
        """Return why ours are worse where they are: one line for all that have the same reason."""
        reasons: dict[str, list[str]] = {}
        for key, value in self.values().items():
            reference = value.reference
            if value.worse and reference is not None:
                why = f"within {100 * reference.tolerance:.0f}%" if value.near else reference.note
                reasons.setdefault(why, []).append(key)
        return [f"{', '.join(keys)}: {why}" for why, keys in reasons.items()]

    def grid(self) -> str:
        """Return the table alone as Markdown."""
        lines = ["| " + " | ".join(self.header) + " |", "|" + "---|" * len(self.header)]
        for row in self.rows:
            cells = [cell.text() if isinstance(cell, Value) else cell for cell in row]
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def markdown(self) -> str:
        """Return the table, its notes and its explanations as Markdown."""
        lines = [self.grid()]
        if self.notes:
            lines += ["", " ".join(self.notes)]
        if explained := self.explanations():
            lines += ["", "▲ worse than the paper:", "", *(f"- {sentence}" for sentence in explained)]
        return "\n".join(lines)


Expected = Mapping[str, Reference]


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper. A script ``reproductions/<paper>/<table or figure>.py`` names one EXPERIMENT.

    Args:
        title: one line.
        full: the settings that reproduce the paper, or as much of it as was run: runs, steps, seed and the like.
        quick: what differs from them in a run of seconds.
        cells: (settings, rows finished so far) -> the cells, most wanted first. It is asked again when all of them are
            finished, so that later cells may depend on what earlier ones found.
        run: cell -> what was found, by name: numbers, words, lists. It runs in a process of its own and takes all
            randomness from the cell.
        summarize: (finished rows, the paper's numbers) -> Table.
        plot: (finished rows, path of a PNG); None: there is nothing to draw.
        shares: stem of the experiment of the same paper whose cells these are: they are run once and kept there.
        key: the paper, from the path of the script.
        stem: the table or figure, from the path of the script.
    """

    title: str
    full: Settings
    quick: Settings
    cells: Callable[[Settings, list[Row]], list[Cell]]
    run: Callable[[Cell], Mapping[str, Any]]
    summarize: Callable[[list[Row], Expected], Table]
    plot: Callable[[list[Row], Path], None] | None = None
    shares: str = ""
    key: str = ""
    stem: str = ""

    @property
    def name(self) -> str:
        """What the command calls it."""
        return f"{self.key}-{self.stem}"

    def settings(self, quick: bool = False, **changes: Any) -> Settings:
        """Return the settings of a run: full or quick, with changes."""
        chosen = self.full | (self.quick if quick else {})
        for name, value in changes.items():
            if name not in chosen:
                raise ValueError(f"{self.name} has no setting {name!r}; it has {', '.join(chosen) or 'none'}")
            chosen[name] = value
        return chosen
