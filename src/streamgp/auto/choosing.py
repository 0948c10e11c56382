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
from streamgp.auto.lines import FEWEST, FORESTS, FROM, LINES, OVER_TIME
from streamgp.settings import FloatArray
from streamgp.wrappers.drift import BINS, Detector, sizes_beside

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
# false alarms that count against the next one; fill values that were struck out of the first rows.
SEEN, GENERATION, REFUTED, STRUCK = range(4)
BEGIN = 0, -1, 0, 0
RANKS = BINS + 3  # numbers that say how errors rank, what this is evidence of, and their unit


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


class Task(NamedTuple):
    """Lines that are being built.

    Args:
        what: as Builder.built() has it.
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
    """The first row after the present one after which lines are built or join, or the first rows are learned anew."""
    seen = int(table.clock[SEEN])
    return int(min((row for row, _ in _schedule(table, seen) if row > seen), default=NEVER))


def change(table: Any) -> None:
    """Change what is due after the rows so far."""
    seen = int(table.clock[SEEN])
    for row, act in _schedule(table, seen - 1):
        if row == seen:
            act()


def _schedule(table: Any, after: int) -> list[tuple[int, Callable[[], object]]]:
    """What is done after which row, in order; forests are planned anew and anew, of these only the next one."""
    generation, warmup, first = int(table.clock[GENERATION]), table.warmup, early(table)
    dues: list[tuple[int, Callable[[], object]]] = [(task.due, partial(_join, table, task)) for task in table.tasks]
    dues.append((LINES_FROM, partial(_begin, table)))
    dues += [(built_from(due), partial(_plan_warmup, table, due)) for due in joins(table)]
    dues += [(times * warmup, partial(_settle, table)) for times in (1, 2, 4)]
    if generation >= 0:
        dues += [(generation + built_from(rows), partial(_plan_anew, table, rows)) for rows in joins(table)]
        dues += [
            (generation + 2 * first, partial(_report_if_better, table)),
            # Errors while processes were built say nothing of later ones.
            (generation + 3 * first, _detector(table).restart),
            (generation + 3 * first, partial(_report_if_better, table)),
            (generation + warmup, partial(_report_if_better, table)),
            (generation + warmup, partial(_conclude, table)),
        ]
    dues += [(rows, lambda: None) for rows in table.looks]  # Table._look_back
    if table.trees:
        dues.append((forest.next_due(after), partial(_plan_forest, table)))
    return dues


# Rows.


def watch(table: Any, previous: FloatArray, y: FloatArray, mean: FloatArray) -> None:
    """Look for larger errors beside those of the previous value."""
    seen, first, detector = int(table.clock[SEEN]), 0, _detector(table)
    sizes = np.empty(len(y))
    mean, previous, y = np.ascontiguousarray(mean), np.ascontiguousarray(previous), np.ascontiguousarray(y)
    sizes_beside(mean, previous, y, FADING, table.ranks[BINS + 1 :], sizes)
    while table.chosen is not None:  # errors after an alarm are ranked among themselves
        generation = int(table.clock[GENERATION])
        armed = generation < 0 or seen >= generation + 3 * early(table)
        at = detector.watch(sizes[first:], armed=armed)
        if at < 0:
            return
        first += at + 1
        _end_generation(table)
        detector.restart()
        table.clock[GENERATION], table._next = seen + first, -1.0


def _detector(table: Any) -> Detector:
    return Detector(ALARM, table.ranks[:BINS], table.ranks[BINS : BINS + 1], table.clock[REFUTED:STRUCK])


def begin_work(table: Any) -> None:
    """Hand tasks to the thread, as far as it has room."""
    for task in table.tasks:
        if task not in table.jobs and task.start <= table.clock[SEEN] and has_room():
            table.jobs = table.jobs | {task: Job(work(table, task))}


def work(table: Any, task: Task) -> Callable[[], list[Line]]:
    """How the lines of a task are built, in a thread that sees no change of the table."""
    return partial(table.builder.built, task.what, table.rows_between(task.begin, task.start), task.suffix)


# Changes.


def _begin(table: Any) -> None:
    """The first rows are there: least squares joins, and processes that have the hyperparameters of a fleet."""
    known = [] if table.builder.prior is None else table.builder.processes()
    for what in (LINES, *_by_view(table, [name for name in known if name.startswith("KRLST")])):
        _join(table, Task(what, 0, LINES_FROM, LINES_FROM, ""))


def _settle(table: Any) -> None:
    """The best processes stay: at the end of the warm-up, and later, unless there was an alarm, fewer of them."""
    if table.chosen is None:
        _stay(table, _all(table))
    elif table.clock[GENERATION] < 0:
        _stay(table, table.chosen.names)


def _plan_anew(table: Any, rows: int) -> None:
    """Let the processes that stayed be built from the rows since an alarm, to join after this many of them."""
    generation = int(table.clock[GENERATION])
    _plan(table, _base(table), generation, int(table.clock[SEEN]), generation + rows, f"{FROM}{generation + 1}")


def _conclude(table: Any) -> None:
    """Of the processes from before an alarm and those built since, the best stay."""
    generation = int(table.clock[GENERATION])
    _detector(table).conclude(confirmed=generation in table.events)
    young = [name for name in table.bank.names if name.endswith(f"{FROM}{generation + 1}")]
    _stay(table, [*table.chosen.names, *young])
    table.clock[GENERATION] = -1


def _plan_forest(table: Any) -> None:
    seen = int(table.clock[SEEN])
    table.tasks = (*table.tasks, Task(FORESTS, max(seen + LATER - table._room, 0), seen, seen + LATER, ""))


def _end_generation(table: Any) -> None:
    """Another change has overtaken the present generation: its lines go."""
    chosen = [] if table.chosen is None else table.chosen.names
    gone = {name for name in table.bank.names if FROM in name and name not in chosen}
    if gone:
        table.bank = table.bank.placed([line for line in table.bank.lines if line.name not in gone])
    table.tasks = tuple(task for task in table.tasks if not task.suffix)


def _report_if_better(table: Any) -> None:
    generation, bank = int(table.clock[GENERATION]), table.bank
    errors = bank.by_name(bank.recent_errors())
    young = min((errors[name] for name in errors if name.endswith(f"{FROM}{generation + 1}")), default=np.inf)
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


def _plan_warmup(table: Any, due: int) -> None:
    builder, first, start = table.builder, joins(table)[0], int(table.clock[SEEN])
    names, others = list(builder.processes()), [LINES, OVER_TIME]
    if due == first < table.warmup:  # seasons take longer to be seen
        others = [LINES]
    elif due == table.warmup > first:
        order = _order(table, _all(table))[: builder.sizes.stay[0]]
        names = [name for name in order if name in names]
        others = others if len(names) < len(order) else [LINES]
    _plan(table, names, 0, start, due, "", *others)


def _all(table: Any) -> list[str]:
    """The names of all processes that do not come of an alarm."""
    return [*table.builder.processes(), *table.builder.over_time()]


def _order(table: Any, names: list[str]) -> list[str]:
    """Processes that are there, the one with the lowest error over about the last thousand rows first."""
    errors = table.bank.by_name(np.nan_to_num(table.bank.long_errors(), nan=np.inf))
    return sorted((name for name in names if name in errors), key=errors.__getitem__)


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
    table.bank = table.bank.joined(lines, table.builder.tried(lines, rows))


def _stay(table: Any, names: list[str]) -> None:
    """Let all processes go but the best of these; at the end of the warm-up they are chosen."""
    seen, warmup, most = int(table.clock[SEEN]), table.warmup, table.builder.sizes.stay
    order = _order(table, names)
    best = order[: most[0] if seen < 2 * warmup else most[1] if seen < 4 * warmup else most[2]]
    if table.chosen is None:
        errors = table.bank.by_name(table.bank.long_errors())
        listed = ", ".join(f"{name} {errors[name]:.4g}" for name in best)
        reason = f"lowest errors, RMSE of late: {listed}" if listed else "too few rows to compare"
        table.chosen = Chosen([], "", reason, {name: errors[name] for name in order})
    table.chosen, processes = table.chosen._replace(names=best), set(_all(table))
    kept = [line for line in table.bank.lines if line.name in best or line.name.partition(FROM)[0] not in processes]
    table.bank = table.bank.placed(kept)
