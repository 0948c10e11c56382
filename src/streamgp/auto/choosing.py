"""Choosing: which lines are built when, from which rows, and who stays.

Least squares joins after row 20. Gaussian processes are built after a tenth and three tenths of the warm-up; at its end
the best are built again and stay, and fewer of them after twice and four times as many rows. When errors grow beside
those of the previous value, the stream may have changed: the processes that stayed, and one that forgets, are built
again from the rows since and sit beside the others; in the end the best of all stay. Forests are trained again whenever
the rows have grown by half.

All of it is built in the background from four fifths of the rows before a line is due, and tried on the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from streamgp.auto import forest
from streamgp.auto.background import Job, has_room
from streamgp.auto.bank import Line
from streamgp.auto.lines import FEWEST, FROM, TREES, Rows
from streamgp.auto.step import FOREST
from streamgp.settings import FloatArray
from streamgp.wrappers.drift import BINS, Detector

LINES_FROM = 20  # rows from which least squares takes part
EARLY = 10  # processes are first built on this fraction of the warm-up's rows, then on three times as many
BUILT_FROM = 0.8  # of the rows before a line is due
# Evidence of larger errors that makes an alarm. Without a change it takes this many rows on average, or about half as
# many where inputs explain most of the target: the unit of errors is low by chance then, for some rows.
ALARM = 1e4
FADING = 0.97  # discount per row of the errors of the previous value, the unit of ours
REPORTED = 0.9  # of the others' error, at which new processes say that the stream has changed
MOST_EVENTS = 100  # changes that are listed
NEVER = 2**63 - 1  # the row after which something changes where nothing does any more
FORGETS = "KRLST"  # the process that forgets what was before a change that takes its time
LATER = 100  # rows between those that a forest is trained on and its first prediction

# The state in whole numbers: rows that are over; the row of an alarm, after which processes are built anew, or -1;
# false alarms that count against the next one.
SEEN, GENERATION, REFUTED = range(3)

LINES, OVER_TIME, FORESTS = "least squares", "over time", "forests"  # what tasks build beside processes


class Chosen(NamedTuple):
    """Which models were chosen, and why.

    Args:
        names: of the models, the best first.
        model: how it was built.
        reason: a sentence.
        scores: by candidate, the root mean squared error on the later of the first rows, in units of the target.
    """

    names: list[str]
    model: str
    reason: str
    scores: dict[str, float]

    @property
    def name(self) -> str:
        """For people."""
        return " + ".join(self.names)

    def written(self) -> list[Any]:
        """As a snapshot has it."""
        return [*self[:3], [list(pair) for pair in self.scores.items()]]

    @classmethod
    def read(cls, written: Any) -> Chosen | None:
        """What written() returned, or None."""
        if written is None:
            return None
        names, model, reason, scores = written
        return cls([str(one) for one in names], model, reason, {str(name): float(score) for name, score in scores})


class Task(NamedTuple):
    """Lines that are being built.

    Args:
        what: LINES, OVER_TIME, FORESTS, or the names of processes that see the same, joined by "+".
        begin: the row after which the rows begin that they are built from.
        start: the row after which these end.
        due: the row after which they join.
        suffix: of their names.
    """

    what: str
    begin: int
    start: int
    due: int
    suffix: str

    @classmethod
    def read(cls, written: Any) -> Task:
        what, begin, start, due, suffix = written
        return cls(str(what), int(begin), int(start), int(due), str(suffix))


def begin() -> tuple[np.ndarray, FloatArray]:
    """The state before the first row: whole numbers, and how errors rank, what this is evidence of, and their unit."""
    clock = np.zeros(3, dtype=np.int64)
    clock[GENERATION] = -1
    return clock, np.zeros(BINS + 3)


def early(table: Any) -> int:
    """After how many rows processes are first built."""
    return max(FEWEST, int(table.warmup) // EARLY)


def built_from(rows: int) -> int:
    """How many of the rows before lines are due they are built from."""
    return max(int(BUILT_FROM * rows), 1)


def joins(table: Any) -> list[int]:
    """After how many rows all processes of the warm-up are there."""
    return sorted({*(rows for rows in (early(table), 3 * early(table)) if rows < table.warmup), table.warmup})


def next_change(table: Any) -> int:
    """The first row after the present one after which something may change.

    An alarm is answered at a row that comes after it, however rows are handed over.
    """
    build = next_build(table)
    if not table.drift:
        return build
    seen, soonest = int(table.clock[SEEN]), built_from(min(early(table), table.warmup))
    return int(min(build, seen + soonest - seen % soonest))


def next_build(table: Any) -> int:
    """The first row after the present one after which lines are built or join."""
    seen, generation, _ = table.clock.tolist()
    first, warmup = early(table), table.warmup
    rows = {LINES_FROM, *map(built_from, joins(table)), *(task.due for task in table.tasks)}
    rows |= {times * warmup for times in (1, 2, 4)}
    if generation >= 0:
        rows |= {generation + row for join in joins(table) for row in (built_from(join), join)}
        rows.add(generation + 2 * first)
    if table.trees:
        rows.add(forest.next_due(seen))
    return int(min((row for row in rows if row > seen), default=NEVER))


# Rows.


def watch(table: Any, previous: FloatArray, y: FloatArray, mean: FloatArray) -> None:
    """Look for larger errors beside those of the previous value."""
    seen, first = int(table.clock[SEEN]), 0
    detector, ranked = _detector(table), table.chosen is not None
    unit = table.ranks[BINS + 1 :]
    mean, previous, y = np.ascontiguousarray(mean), np.ascontiguousarray(previous), np.ascontiguousarray(y)
    while True:  # errors after an alarm are ranked among themselves
        generation = int(table.clock[GENERATION])
        armed = generation < 0 or seen >= generation + 3 * early(table)
        at = detector.watch_beside(mean, previous, y, first, FADING, unit, ranked=ranked, armed=armed)
        if at < 0:
            return
        first = at + 1
        _end_generation(table)
        detector.restart()
        table.clock[GENERATION], table._next = seen + first, -1.0


def _detector(table: Any) -> Detector:
    return Detector(ALARM, table.ranks[:BINS], table.ranks[BINS : BINS + 1], table.clock[REFUTED:])


def begin_work(table: Any) -> None:
    """Hand tasks to the thread, as far as it has room."""
    for task in table.tasks:
        if task not in table.jobs and task.start <= table.clock[SEEN] and has_room(1):
            table.jobs = table.jobs | {task: Job(work(table, task))}


def work(table: Any, task: Task) -> Callable[[], list[Line]]:
    """How the lines of a task are built, in a thread that sees no change of the table."""
    builder, rows = table.builder, table.rows_between(task.begin, task.start)
    if task.what == LINES:
        return partial(builder.lines, rows)
    if task.what == OVER_TIME:
        return partial(builder.built_over_time, rows)
    if task.what == FORESTS:
        return partial(_trained, rows, table.layout.newest)
    return partial(builder.built, task.what.split("+"), rows, task.suffix)


def _trained(rows: Rows, newest: int) -> list[Line]:
    found = forest.train(rows.F, rows.y - rows.F[:, newest])
    return [] if found is None else [Line(TREES, FOREST, (), newest, forest=found)]


# Changes.


def change(table: Any) -> None:
    """Change what is due after the rows so far."""
    seen, warmup, generation = int(table.clock[SEEN]), table.warmup, int(table.clock[GENERATION])
    for task in [task for task in table.tasks if task.due == seen]:
        _join(table, task)
    if seen == LINES_FROM:
        _now(table, Task(LINES, 0, seen, seen, ""))
        if table.builder.prior is not None:
            for names in _by_view(table, [name for name in table.builder.processes() if name.startswith("KRLST")]):
                _now(table, Task(names, 0, seen, seen, ""))
    for rows in joins(table):
        if seen == built_from(rows):
            _plan_warmup(table, seen, rows)
    if seen == warmup:
        _settle(table)
    elif table.chosen is not None and generation < 0 and seen in (2 * warmup, 4 * warmup):
        _stay(table, table.chosen.names)
    if generation >= 0:
        _follow(table, seen, generation)
    if table.trees and forest.due(seen):
        later = Task(FORESTS, max(seen + LATER - table._room, 0), seen, seen + LATER, "")
        table.tasks = (*table.tasks, later)


def _follow(table: Any, seen: int, generation: int) -> None:
    """What is due after an alarm."""
    suffix, first = f"{FROM}{generation + 1}", early(table)
    for rows in joins(table):
        if seen == generation + built_from(rows):
            _plan(table, _base(table), generation, seen, generation + rows, suffix)
    if seen == generation + 3 * first:  # errors while processes were built say nothing of later ones
        _detector(table).restart()
    if seen in (generation + 2 * first, generation + 3 * first, generation + table.warmup):
        _report_if_better(table, generation)
    if seen == generation + table.warmup:
        _detector(table).conclude(confirmed=generation in table.events)
        young = [name for name in table.bank.names if name.endswith(suffix)]
        _stay(table, [*table.chosen.names, *young])
        table.clock[GENERATION] = -1


def _end_generation(table: Any) -> None:
    """Another change has overtaken the present generation: its lines go."""
    chosen = [] if table.chosen is None else table.chosen.names
    gone = {name for name in table.bank.names if FROM in name and name not in chosen}
    if gone:
        table.bank = table.bank.placed([line for line in table.bank.lines if line.name not in gone])
    table.tasks = tuple(task for task in table.tasks if not task.suffix)


def _report_if_better(table: Any, generation: int) -> None:
    bank, suffix = table.bank, f"{FROM}{generation + 1}"
    errors = dict(zip(bank.names, bank.recent_errors(), strict=True))
    young = min((errors[name] for name in errors if name.endswith(suffix)), default=np.inf)
    old = min((errors[name] for name in table.chosen.names if name in errors), default=np.inf)
    if young < REPORTED * old and generation not in table.events:
        table.events = (*table.events, generation)[-MOST_EVENTS:]


def _base(table: Any) -> list[str]:
    """The names of processes that stay as they are in the first generation."""
    processes = table.builder.processes()
    names = [name.partition(FROM)[0] for name in table.chosen.names]
    names = [name for name in dict.fromkeys(names) if name in processes]
    forgets = [processes[name][0].named(FORGETS) for name in names]
    return list(dict.fromkeys([*names, *forgets]))


def _by_view(table: Any, names: list[str]) -> list[str]:
    """Names of processes, those that see the same columns together."""
    processes, parts = table.builder.processes(), dict[Any, list[str]]()
    for name in names:
        parts.setdefault(processes[name][0].columns, []).append(name)
    return ["+".join(part) for part in parts.values()]


def _plan(table: Any, names: list[str], begin: int, start: int, due: int, suffix: str = "", *others: str) -> None:
    """Let processes be built part by part, and join one part after the other, so that no row waits for long."""
    parts = [*others, *_by_view(table, names)]
    if names:
        what = f"{len(names)} Gaussian process{'' if len(names) == 1 else 'es'} on {start - begin:,} rows"
        table.doing(f"{'tuning' if table.builder.tune else 'building'} {what}")
    for i, what in enumerate(parts):
        when = start + max((i + 1) * (due - start) // len(parts), 1)
        table.tasks = (*table.tasks, Task(what, begin, start, min(when, max(due, start + 1)), suffix))


def _plan_warmup(table: Any, start: int, due: int) -> None:
    builder, names = table.builder, list(table.builder.processes())
    others = [LINES] if due == joins(table)[0] < table.warmup else [LINES, OVER_TIME]  # seasons take longer to be seen
    if due == table.warmup and due > joins(table)[0]:
        order = _order(table, [*names, *_over_time(table)])[: builder.sizes.stay[0]]
        names = [name for name in order if name in builder.processes()]
        others = others if any(name not in names for name in order) else others[:1]
    _plan(table, names, 0, start, due, "", *others)


def _over_time(table: Any) -> list[str]:
    from streamgp.auto import over_time

    views = table.builder.over_time()
    return [view.named(name) for name, view in zip((over_time.ALONE, over_time.WITH_INPUTS), views, strict=False)]


def _order(table: Any, names: list[str]) -> list[str]:
    """Processes that are there, the one with the lowest error over about the last thousand rows first."""
    errors = dict(zip(table.bank.names, table.bank.long_errors(), strict=True))
    known = [name for name in names if name in errors]
    return sorted(known, key=lambda name: errors[name] if np.isfinite(errors[name]) else np.inf)


def _now(table: Any, task: Task) -> None:
    lines = work(table, task)()
    table.bank = table.bank.joined(lines, {})


def _join(table: Any, task: Task) -> None:
    """Let the lines of a task take their places; each takes the place of the one of its name, if there is one."""
    job, jobs = table.jobs.get(task), {one: work for one, work in table.jobs.items() if one != task}
    try:
        built = (work(table, task) if job is None else job.result)()
    except Exception as error:
        error.add_note(f"Auto met this when it built {task.what} from {task.start - task.begin:,} rows.")
        raise
    table.jobs, table.tasks = jobs, tuple(one for one in table.tasks if one != task)
    lines = [line if line.process is None else line._replace(process=line.process.copy()) for line in built]
    rows = table.rows_between(task.start, task.due)
    table.bank = table.bank.joined(lines, dict(table.builder.tried(lines, rows)))


def _settle(table: Any) -> None:
    """At the end of the warm-up the best processes stay."""
    names = [*table.builder.processes(), *_over_time(table)]
    errors = dict(zip(table.bank.names, table.bank.long_errors(), strict=True))
    order = _order(table, names)
    scores = {name: float(errors[name]) for name in order}
    _stay(table, order)
    listed = ", ".join(f"{name} {scores[name]:.4g}" for name in table.chosen.names)
    reason = f"lowest errors, RMSE of late: {listed}" if listed else "too few rows to compare"
    table.chosen = table.chosen._replace(reason=reason, scores=scores)


def _stay(table: Any, names: list[str]) -> None:
    """Let all processes go but the best of these."""
    seen, warmup, most = int(table.clock[SEEN]), table.warmup, table.builder.sizes.stay
    best = _order(table, names)[: most[0] if seen < 2 * warmup else most[1] if seen < 4 * warmup else most[2]]
    processes = {*table.builder.processes(), *_over_time(table)}
    kept = [line for line in table.bank.lines if line.name in best or line.name.partition(FROM)[0] not in processes]
    table.bank = table.bank.placed(kept)
    before = table.chosen or Chosen([], "", "", {})
    table.chosen = before._replace(names=best)
