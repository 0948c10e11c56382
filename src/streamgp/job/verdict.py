"""The verdict on a run, in words: how good it is, against what, how honest its intervals are, what changed, what now.

Terminal, report and live page show the same sentences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from streamgp.auto.lines import FROM
from streamgp.job.pipeline import Pipeline
from streamgp.job.scores import START_UP, WINDOW, later_part, shown
from streamgp.job.told import counted_alarms

FEWEST = 20  # scored rows before which nothing is said of errors and intervals
ALIKE = 0.01  # errors that differ by less are called alike
HONEST = 0.02  # coverage as far from its level is called right; further where rows are few
LISTED = 3  # changes, models and columns that are named
TAILS = 3.0  # standard deviations of the coverage of few rows that are chance
LEAST = 0.005  # smaller weights are 0 for people


def verdict(run: Pipeline) -> list[str]:
    """Sentences for people, the most important first.

    Args:
        run: as far as it has come.
    """
    part = later_part(run.score_summary())
    if part is None or part["rows"] < FEWEST:
        if part is None and run.rows >= FEWEST:
            return ["Nothing could be judged: all targets so far are missing, or all are alike."]
        return [f"Too few rows to judge: {part['rows'] if part else 0} were predicted and compared with their targets."]
    said = [_quality(run, part), *_beside(part), _honesty(run, part)]
    refused = run.refused.sentence(where=False)
    return [*said, *([f"{refused}."] if refused else []), *_changes(run), *_alarms(run)]


def _quality(run: Pipeline, part: Mapping[str, Any]) -> str:
    target = run.schema.target
    unit = run.schema.column(target).form
    ahead = f" {run.horizon} row{'s' if run.horizon > 1 else ''} ahead" if run.horizon else ""
    rows = f", after the first {START_UP} rows" if part["from_row"] > START_UP else ""
    explained = part["explained"]
    share = "" if math.isnan(explained) else f" and explain {_percent(explained)} of its variation"
    error = f"{shown(part['compared_mae'])}{unit and ' '}{unit}"
    return f"Predictions of {target}{ahead} miss by {error} on average{share}{rows}."


def _percent(share: float) -> str:
    """A share that is close to all is not rounded to all."""
    if share <= 0:
        return "none"
    digits = 0 if share < 0.99 else 1 if share < 0.999 else 2
    return f"{min(100 * share, 99.99):.{digits}f}%"


def _beside(part: Mapping[str, Any]) -> list[str]:
    """The best simple prediction, and who was better, by what predictions miss by on average: no outlier rules it."""
    if not part["yardsticks_mae"]:
        return []
    name, error = min(part["yardsticks_mae"].items(), key=lambda item: item[1])
    own = part["compared_mae"]
    if not (own > 0 or error > 0) or not math.isfinite(own + error):
        return []
    if own > (1 + ALIKE) * error:
        less = f"{100 * (1 - error / own):.0f}%" if error else "100%"
        sentence = f"A simple prediction was better: {name} misses by {less} less ({shown(error)})."
    elif own > (1 - ALIKE) * error:
        sentence = f"That is no better than the best simple prediction, {name} ({shown(error)})."
    else:
        less = f"{100 * (1 - own / error):.0f}% less"
        sentence = f"That is {less} than the best simple prediction, {name} ({shown(error)})."
    return [sentence, *_squared(part, own < (1 - ALIKE) * error)]


def _squared(part: Mapping[str, Any], better: bool) -> list[str]:
    """Whether it is the other way round for squared errors, which the largest of them rule."""
    name, error = min(part["yardsticks"].items(), key=lambda item: item[1])
    own = part["rmse"]
    if better and own > (1 + ALIKE) * error:
        return [f"Where it misses, it misses by more: its RMSE is {shown(own)}, that of {name} {shown(error)}."]
    if not better and own < (1 - ALIKE) * error:
        return [f"It avoids large errors better: its RMSE is {shown(own)}, that of {name} {shown(error)}."]
    return []


def _honesty(run: Pipeline, part: Mapping[str, Any]) -> str:
    level, coverage = run.request.run.level, part["coverage"]
    held = f"The {100 * level:g}% intervals held {100 * coverage:.1f}% of the targets"
    tolerated = _tolerated(level, part["rows"])
    if coverage < level - tolerated:
        return f"{held}: they are too narrow, do not rely on them."
    if coverage > level + tolerated:
        return f"{held}: they are wider than they need to be."
    worst = run.scores.worst_window()
    if worst is not None and worst[0] < level - _tolerated(level, WINDOW):
        return f"{held}, but only {100 * worst[0]:.1f}% in the {WINDOW:,} rows up to {run.when(worst[1])}."
    return f"{held}, as they should."


def _tolerated(level: float, rows: int) -> float:
    """How far the coverage of so many rows may be from its level."""
    return max(HONEST, TAILS * math.sqrt(level * (1 - level) / rows))


def _changes(run: Pipeline) -> list[str]:
    if not run.changes.on:
        return ["Changes of the stream were not looked for."]
    found = run.drift
    sentences = [f"A change at {run.when(row)}: {text}." for row, text in found[-LISTED:]]
    if len(found) > LISTED:
        sentences[0:0] = [f"The stream changed {len(found)} times; the last {LISTED}:"]
    if not sentences and not any(run.alarm_counts.get(kind) for kind in ("level", "relation")):
        return ["No change of the stream was noticed."]
    return sentences


def _alarms(run: Pipeline) -> list[str]:
    if not run.alarm_counts:
        return []
    total = sum(run.alarm_counts.values())
    if not total:
        return ["No row was abnormal."]
    last = run.when(run.alarms[-1][0])
    return [f"{total} alarm{'s' if total > 1 else ''} ({counted_alarms(run.alarm_counts)}), the last at {last}."]


def leaders(run: Pipeline) -> str:
    """The models with the largest weights, and the rest together, for people."""
    order = sorted(run.weights.items(), key=lambda item: -item[1])
    named = [f"{_since(run, name)} {100 * weight:.0f}%" for name, weight in order[:LISTED] if weight >= LEAST]
    rest = sum(weight for _, weight in order[LISTED:])
    others = len(order) - LISTED
    return ", ".join(
        named + ([f"{others} other{'s' if others > 1 else ''} {100 * rest:.0f}%"] if rest >= LEAST else [])
    )


def _since(run: Pipeline, name: str) -> str:
    """The name of a model, with the time in place of the row since which it has learned."""
    own, _, row = name.partition(FROM)
    return f"{own} since {run.when(int(row))}" if row else own
