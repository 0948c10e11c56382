"""View: what can be seen of a stream from outside while its writer works."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct, field

from streamgp.job.pipeline import Pipeline
from streamgp.job.scores import later_part
from streamgp.job.verdict import leaders, verdict
from streamgp.serve.learner import Learner
from streamgp.serve.messages import DriftEvent, Health, Scores, StreamDetail, StreamSettings, Tickets
from streamgp.tables.columns import is_spare

RECENT = 60  # targets of a sparkline
MOST_INPUTS = 30  # whose relevance is shown


class View(Struct):
    """A stream as it was when its writer last looked.

    Args:
        state: see StreamBrief.
        doing: what takes seconds at present.
        rows: so far.
        pace: seconds of a request.
        stale: whether more has happened since.
        rest: the fields of StreamDetail that change with the rows.
    """

    state: str
    doing: str = ""
    rows: int = 0
    pace: float = 0.0
    stale: bool = False
    rest: dict[str, Any] = field(default_factory=dict)

    def detail(self, name: str, settings: StreamSettings) -> StreamDetail:
        """For clients."""
        rest = {**EMPTY, **self.rest}
        return StreamDetail(name=name, state=self.state, doing=self.doing, settings=settings, rows=self.rows, **rest)


EMPTY: dict[str, Any] = {
    "inputs": [],
    "columns": [],
    "chosen": "",
    "models": {},
    "relevance": {},
    "scores": Scores(0, None, None, None, None, None),
    "health": Health(0, []),
    "drift": [],
    "tickets": Tickets(0, 0),
    "gaps": {},
    "verdict": [],
    "times": [],
}


def seen_by(learner: Learner, before: View) -> View:
    """The view of a learner.

    Args:
        learner: that nobody else uses at present.
        before: the last view.
    """
    pipeline = learner.pipeline
    if pipeline is None:
        return View("new", pace=before.pace)
    scores = pipeline.score_summary()
    judged = later_part(scores)
    health = pipeline.health
    chosen = pipeline.chosen
    rest = {
        "inputs": [name for name in pipeline.input_names if not is_spare(name)],
        "columns": pipeline.encoder.sentences(),
        "chosen": "" if chosen is None else leaders(pipeline),
        "models": dict(sorted(pipeline.weights.items(), key=lambda item: -item[1])),
        "relevance": _relevance(pipeline),
        "scores": Scores(
            **{name: scores[name] for name in Scores.__struct_fields__ if name != "mae"},
            mae=None if judged is None else judged["compared_mae"],
        ),
        "health": Health(
            int(health["repairs"]),
            list(health["diverged"]),
            int(health["fill_values"]),
            sum(pipeline.alarm_counts.values()),
        ),
        "drift": [DriftEvent(row, pipeline.told(row, text)) for row, text in pipeline.drift],
        "tickets": Tickets(len(learner.tickets), learner.tickets.expired),
        "gaps": dict(pipeline.encoder.gaps),
        "verdict": verdict(pipeline),
        "times": pipeline.times.anchors(),
    }
    return View("ready" if chosen else "learning", before.doing, pipeline.rows, before.pace, False, rest)


def _relevance(pipeline: Pipeline) -> dict[str, float]:
    """The largest relevances by input."""
    try:
        weights = pipeline.model.relevance().inputs
    except (ValueError, RuntimeError):
        return {}
    names = pipeline.input_names
    if len(names) != len(weights):
        return {}
    largest = np.argsort(-weights, kind="stable")[:MOST_INPUTS]
    used = [i for i in largest if np.isfinite(weights[i]) and not is_spare(names[i])]
    return {names[i]: float(weights[i]) for i in used}
