"""Targets that come in later rows."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.contract import snapshot
from streamgp.job import Pipeline
from streamgp.job.named import model_by_name
from streamgp.tables.columns import Column, Schema
from streamgp.tables.encoding import EncodedRows, Ticket
from streamgp.tables.writing import VALUES
from tests.job.test_pipeline import SETTINGS, rows_of, schema_of, stream

QUIET = SETTINGS | {"drift": False}


def schema(d):
    plain = schema_of(d)
    return Schema((*plain.columns, Column("id", "ticket")), plain.target, plain.inputs, ticket="id")


def table(X, y, seed=0, late=0.7, never=0.1):
    """Rows in order; of most the target comes some rows later, in a row of its own, and of some it never comes."""
    rng = np.random.default_rng(seed)
    events = []
    for t in range(len(y)):
        fate = rng.random()
        if fate < 1 - late:
            events.append((t, f"id {t}", X[t], y[t]))
        else:
            events.append((t, f"id {t}", X[t], np.nan))
            if fate < 1 - never:
                events.append((t + 20 * rng.random() + 0.5, f"id {t}", np.full(X.shape[1], np.nan), y[t]))
    return [event[1:] for event in sorted(events, key=lambda event: event[0])]


def encoded(events):
    X = np.array([x for _, x, _ in events])
    tickets = [Ticket(name, bool(np.isnan(x).all())) for name, x, _ in events]
    return EncodedRows(X, np.array([y for *_, y in events]), None, list(range(2, len(X) + 2)), [], tickets)


def taken(pipeline, events, size=250):
    return [pipeline.take(encoded(events[at : at + size])) for at in range(0, len(events), size)]


def means(parts):
    return np.concatenate([part.mean for part in parts])


@pytest.mark.parametrize(("size", "horizon"), [(1, 0), (250, 0), (7, 6), (250, 1)])
def test_a_run_with_late_targets_equals_the_loop_over_delayed(size, horizon):
    X, y = stream(120)
    events = table(X, y)
    pipeline = Pipeline(schema(2), "KRLST", SETTINGS, 2, horizon)
    parts = taken(pipeline, events, size)
    settings = {"warmup": 30, "tune": False}
    model = sg.Lagged(sg.Tuned(model_by_name("KRLST", 4, {"capacity": 8}), **settings), lags=2)
    model = sg.Delayed(sg.Ahead(model, horizon=horizon) if horizon else model)
    tickets, said = {}, []
    for name, x, target in events:
        if name in tickets:
            model.resolve(tickets.pop(name), target)
        elif np.isnan(target):
            said.append(model.issue(x))
            tickets[name] = said[-1].ticket
        else:
            said.append(model.predict_one(x))
            model.learn_one(x, target)
    for part in ("mean", "lower", "upper"):
        found, expected = np.concatenate([getattr(p, part) for p in parts]), [getattr(p, part) for p in said]
        known = ~np.isnan(found)
        assert known.sum() > 100
        np.testing.assert_allclose(found[known], np.array(expected)[known], rtol=1e-12, atol=0)
    assert (pipeline.rows, pipeline.late["waiting"], pipeline.late["expired"]) == (len(events), len(tickets), 0)
    names = [name for part in parts for name in part.ticket]
    assert names == [f"id {t}" for t in range(120)]
    assert [events[row - 1][0] for part in parts for row in part.row] == names


def test_with_a_kernel_over_time_late_targets_are_learned_at_the_times_of_their_rows():
    X, y = stream(60)
    rows = schema_of(2, time=True)
    rows = Schema((*rows.columns, Column("id", "ticket")), "y", rows.inputs, "t", ticket="id")
    own = {"capacity": 20, "time": sg.Matern(0.5, lengthscale=600.0)}
    pipeline = Pipeline(rows, "KRLST", {"warmup": 30, "tune": False, "drift": False} | own)
    model = sg.Delayed(sg.Tuned(model_by_name("KRLST", 2, own), warmup=30, tune=False, drift=False))
    tickets, found, expected = {}, [], []
    for i, (name, x, target) in enumerate(table(X, y)):
        at = [f"2026-01-01T{i // 60:02d}:{i % 60:02d}"]
        moment = 1767225600.0 + 60.0 * i
        ticket = Ticket(name, bool(np.isnan(x).all()))
        found += pipeline.take(EncodedRows(x[None], np.array([target]), at, [i], [], [ticket])).mean.tolist()
        if name in tickets:
            model.resolve(tickets.pop(name), target)
            continue
        expected.append(model.issue(x, time=moment) if np.isnan(target) else model.predict_one(x, time=moment))
        if np.isnan(target):
            tickets[name] = expected[-1].ticket
        else:
            model.learn_one(x, target, time=moment)
    np.testing.assert_allclose(found, [p.mean for p in expected], rtol=1e-12)


@pytest.mark.parametrize(
    ("model", "lags", "horizon"),
    [
        ("KRLST", 2, 0),
        ("KRLST", 0, 0),
        ("KRLST", 2, 3),
        *(pytest.param("auto", 2, rows, marks=pytest.mark.more) for rows in (0, 3)),
    ],
)
def test_targets_that_come_with_their_rows_need_no_ticket(model, lags, horizon):
    X, y = stream(120)
    settings = {"warmup": 40, "tune": False} | ({"capacity": 8} if model == "KRLST" else {})
    plain, late = (Pipeline(one(2), model, settings, lags, horizon) for one in (schema_of, schema))
    expected = plain.take(rows_of(X, y))
    parts = taken(late, [(f"id {t}", X[t], y[t]) for t in range(120)])
    for name in VALUES:
        found = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(found, getattr(expected, name), err_msg=name)
    np.testing.assert_allclose(late.scores.sums, plain.scores.sums, rtol=1e-12)
    assert late.model.to_bytes() == plain.model.to_bytes()
    assert late.late == {"waiting": 0, "learned": 0, "expired": 0, "ignored": 0}


@pytest.mark.parametrize("cut", [9, 77, 150])
def test_a_run_resumes_with_its_waiting_rows(cut):
    X, y = stream(100)
    events = table(X, y)
    whole = Pipeline(schema(2), "KRLST", QUIET | {"pending": 12}, 1)
    expected = taken(whole, events)
    first = Pipeline(schema(2), "KRLST", QUIET | {"pending": 12}, 1)
    parts = taken(first, events[:cut])
    second = Pipeline.from_bytes(first.to_bytes())
    parts += taken(second, events[cut:])
    np.testing.assert_array_equal(means(parts), means(expected))
    assert second.to_bytes() == whole.to_bytes()
    assert second.late == whole.late


def test_rows_expire_and_what_cannot_be_used_is_counted():
    X, y = stream(10)
    pipeline = Pipeline(schema(2), "KRLST", QUIET | {"pending": 3})
    nothing = np.full(2, np.nan)
    events = [(f"id {t}", X[t], np.nan) for t in range(5)]
    events += [("id 0", nothing, y[0])]  # expired
    events += [("id 4", nothing, y[4]), ("id 4", nothing, y[4])]  # resolved, and again
    events += [("id 3", nothing, np.nan)]  # no target: it goes on waiting
    events += [("id 9", nothing, y[9])]  # never seen, and nothing to predict it from
    parts = taken(pipeline, events)
    assert pipeline.late == {"waiting": 2, "learned": 1, "expired": 2, "ignored": 4}
    assert len(means(parts)) == 5
    assert pipeline.model.rows_seen == 1
    assert pipeline.encoder.gaps == {}
    assert pipeline.outstanding().row.size == 0


def test_closed_tickets_are_remembered_as_long_as_waiting_ones_could_be():
    X, y = stream(10)
    pipeline = Pipeline(schema(2), "KRLST", QUIET | {"pending": 3})
    taken(pipeline, [(f"id {t}", X[t], y[t]) for t in range(5)])
    taken(pipeline, [("id 2", X[2], y[2])])
    assert (pipeline.late["ignored"], pipeline.model.rows_seen) == (1, 5)
    taken(pipeline, [("id 1", X[1], y[1])])  # forgotten: a new row
    assert (pipeline.late["ignored"], pipeline.model.rows_seen) == (1, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"settings": {"pending": 0}}, "pending must be a whole number of at least 1; got 0"),
        ({"settings": {"pending": 10**6}}, "pending must be a whole number of at most 100000; got 1000000"),
        ({"model": "OESGP"}, "OESGP keeps a memory of its inputs and cannot wait any rows for a target"),
    ],
)
def test_what_cannot_wait_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Pipeline(schema(2), **arguments)


def test_a_snapshot_must_name_the_rows_that_wait():
    X = stream(10)[0]
    pipeline = Pipeline(schema(2), "KRLST", QUIET | {"pending": 3})
    taken(pipeline, [(f"id {t}", X[t], np.nan) for t in range(5)])
    header, tensors = snapshot.unpacked(pipeline.to_bytes())
    for wrong, message in [
        ({"waiting": []}, "does not name all rows that wait.*start a new run"),
        ({"waiting": ["id 3", "id 3", "id 4"]}, "does not name all rows that wait"),
        ({"counts": {}}, "does not describe a run"),
    ]:
        late = header["run"] | {"late": header["run"]["late"] | wrong}
        with pytest.raises(sg.SnapshotError, match=message):
            Pipeline.from_bytes(snapshot.packed(header | {"run": late}, tensors))


@pytest.mark.parametrize(("model", "lags"), [("KRLST", 1), pytest.param("auto", 0, marks=pytest.mark.more)])
def test_issued_rows_are_predicted_and_learned_as_rows_with_a_ticket_column(model, lags):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(90, 2)), rng.normal(size=90)
    y += X[:, 0]
    # Rows that are issued change nothing: without times the clock of auto stands still meanwhile, and with lags, of
    # which KRLST has targets alone, the row before is the last one that was learned.
    columns = (Column("a", "number"), Column("b", "number"), Column("y", "number"), Column("t", "time"))
    settings = {"warmup": 40, "tune": False}
    plain = Pipeline(Schema(columns, "y", ("a", "b"), time="t"), model, settings, lags=lags)
    late = Pipeline(
        Schema((*columns, Column("id", "ticket")), "y", ("a", "b"), time="t", ticket="id"), model, settings, lags=lags
    )
    waiting = []
    for i in range(90):
        at = [f"2026-01-01T00:{i // 60:02d}:{i % 60:02d}"]
        (mean,) = late.take(EncodedRows(X[i : i + 1], np.array([np.nan]), at, [i], [], [Ticket(str(i), False)])).mean
        waits = plain.issue(EncodedRows(X[i : i + 1], y[i : i + 1], at, [i], []))
        np.testing.assert_allclose(plain.issued(waits).mean, [mean], rtol=1e-9)
        waiting.append((i, waits))
        for _ in range(2 if i % 3 == 2 else i % 2):
            j, waits = waiting.pop(int(rng.integers(len(waiting))))
            late.take(EncodedRows(np.full((1, 2), np.nan), y[j : j + 1], at, [i], [], [Ticket(str(j), True)]))
            scored = plain.resolve(waits, y[j : j + 1])
            assert scored.observed == [y[j]]
    predicted = [pipeline.model.predict_many(X).mean for pipeline in (plain, late)]
    np.testing.assert_allclose(*predicted, rtol=1e-9)
    np.testing.assert_allclose(plain.scores.sums, late.scores.sums, rtol=1e-9)
    assert plain.rows == 90 - len(waiting)


def test_issued_rows_change_nothing_and_need_a_run_without_a_horizon():
    X, y = stream(40)
    pipeline = Pipeline(schema_of(2), "KRLST", QUIET, lags=1)
    pipeline.take(rows_of(X[:30], y[:30]))
    before = pipeline.to_bytes()
    lines = pipeline.issue(rows_of(X[30:], y[30:]))
    assert pipeline.to_bytes() == before
    assert pipeline.issued(lines).mean.shape == (10,)
    ahead = Pipeline(schema_of(2), "KRLST", QUIET, lags=1, horizon=3)
    with pytest.raises(ValueError, match="predicts 3 rows ahead and learns a row by later ones: take rows, with tick"):
        ahead.issue(rows_of(X, y))
