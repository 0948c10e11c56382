"""Fleets behind the server: the numbers of the library, one commit for many ids, and what a stream promises."""

from __future__ import annotations

import re
import sqlite3

import numpy as np
import pytest

import streamgp as sg
from streamgp.serve import journal
from streamgp.serve.fleets import KEPT, FleetLearner, bytes_of, check_fleet
from streamgp.serve.journal import NAME
from streamgp.serve.learner import Learner
from streamgp.serve.messages import (
    FleetSettings,
    HistoryQuery,
    RefusedError,
    SensorQuery,
    StreamSettings,
    Target,
    encode,
)
from streamgp.serve.ops import Op
from tests.serve.running import QUICK, in_process, settled

FLEET = {"target": "y", "size": 12, "inputs": ["a", "b"], "settings": {"capacity": 5, "warmup": 20}}


def rows(n, sensors=8, start=0, **more):
    """Rows of all sensors in turn, n of each; each sensor has a level of its own."""
    rng = np.random.default_rng(start)
    for k in range(start, start + n):
        for i in range(sensors):
            a, b = rng.uniform(-1, 1, 2).tolist()
            yield {"id": f"s{i}", "a": a, "b": b, "y": 100.0 * i + float(np.sin(3 * a)) + 0.1 * (k % 3)} | more


def learner(**settings):
    return FleetLearner(FleetSettings(**FLEET | settings), "t")


def applied(found, kind, **what):
    (outcome,) = found.apply_all([Op(kind, **what)])
    if isinstance(outcome, RefusedError):
        raise outcome
    return outcome


@pytest.fixture
def client(tmp_path):
    with in_process(tmp_path) as client:
        assert client.put("/v1/fleets/plant", json=FLEET).status_code == 201
        yield client


def test_answers_are_those_of_the_library(client):
    table = list(rows(40))
    answers = []
    for at in range(0, len(table), 16):
        answers += client.post("/v1/fleets/plant/rows", json=table[at : at + 16]).json()["rows"]
    recipe = FleetLearner(FleetSettings(**FLEET), "").fleet.get_params()["model"]
    fleet = sg.Fleet(recipe, size=12)
    ids = [int(row["id"][1:]) for row in table]
    p = fleet.track([[row["a"], row["b"]] for row in table], [row["y"] for row in table], ids=ids)
    lower, upper = p.interval(0.9)
    assert [row["id"] for row in answers] == [row["id"] for row in table]
    assert [row["row"] for row in answers] == [1 + at // 8 for at in range(len(table))]
    for name, values in (("mean", p.mean), ("lower", lower), ("upper", upper), ("std", p.std)):
        assert [row[name] for row in answers] == [value if np.isfinite(value) else None for value in values.tolist()]


def test_rows_of_one_id_in_one_request_are_as_those_of_several():
    table = list(rows(30, lags=2))
    together, apart = learner(lags=2), learner(lags=2)
    found = applied(together, "rows", rows=table).answer.rows
    expected = [
        row for at in range(0, len(table), 3) for row in applied(apart, "rows", rows=table[at : at + 3]).answer.rows
    ]
    assert encode(found) == encode(expected)
    assert together.to_bytes() == apart.to_bytes()
    again = FleetLearner.from_bytes(together.settings, "t", together.to_bytes())
    assert again.to_bytes() == together.to_bytes()


def test_predictions_begin_when_all_inputs_and_past_targets_are_known():
    found = learner(lags=2)
    table = [{"id": 7, "a": 1.0, "b": 2.0, "y": float(k)} for k in range(4)]
    table += [{"id": 7, "y": "4"}, {"id": 7, "a": "", "b": 3.0, "y": "NA"}, {"id": "8", "a": 1.0, "y": 0.0}]
    answers = applied(found, "rows", rows=table).answer.rows
    assert [np.isfinite(row.mean) for row in answers] == [False, False, True, True, True, True, False]
    assert found.numbers == {"7": 0, "8": 1}
    assert found._arrays["inputs"][0].tolist() == [1.0, 3.0]
    assert found._arrays["lagged"][0].tolist() == [4.0, 3.0]  # a row without a target is none of them
    assert found.fleet.rows_seen[:2].tolist() == [4, 0]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"a": 1.0, "y": 1.0}, "row 2 has no id"),
        ({"id": "", "y": 1.0}, "has no id"),
        ({"id": 1.5, "y": 1.0}, "has no id"),
        ({"id": "n" * 300, "y": 1.0}, "has no id"),
        ({"id": "s1", "a": "hot", "y": 1.0}, "row 2 has 'hot' in the column 'a', which holds numbers"),
        ({"id": "s1", "a": "1,234", "y": 1.0}, "row 2 has '1,234' in the column 'a', which holds numbers"),
        ({"id": "s1", "y": 10**400}, "row 2 has an infinite number in the column 'y'"),
        ({"id": "s1", "y": "1e999"}, "row 2 has an infinite number in the column 'y'"),
        ({"id": "s1", "y": 1.0, "when": "noon"}, "row 2 has 'noon' in 'when', which is no time"),
    ],
)
def test_a_row_that_cannot_be_used_changes_nothing(row, why):
    found = learner(time="when")
    applied(found, "rows", rows=list(rows(3, when="2026-01-01")))
    before = found.to_bytes()
    for kind in ("rows", *(["predict"] if "when" not in row else [])):
        good = {"id": "new", "a": 1.0, "b": 1.0, "y": 1.0, "when": 0}
        with pytest.raises(RefusedError, match=re.escape(why) if kind == "rows" else None):
            applied(found, kind, rows=[good, {"when": 0} | row])
    assert found.to_bytes() == before


def test_scores_begin_with_the_first_interval_as_those_of_a_stream():
    found, table = learner(), [row | {"y": row["y"] + 300.0} for row in rows(40, 1)]
    applied(found, "rows", rows=table)
    model = {"capacity": 5, "warmup": 20, "tune": False}
    stream = Learner(StreamSettings("y", ["a", "b"], model="KRLST", settings=model), "t")
    stream.apply(Op("rows", rows=[{name: row[name] for name in "aby"} for row in table]))
    scores, expected = found.seen("plant").scores, stream.seen("s").scores
    assert scores.rows == expected.rows == 38
    (part, _) = found.history(HistoryQuery(id="s0")).scores
    assert part.rows == 23
    assert max(scores.rmse, expected.rmse, part.rmse) < 1.0  # before, the model knows no scale, and is 300 off


def test_more_ids_than_there_is_room_for_are_refused(client):
    post = lambda sensors: client.post("/v1/fleets/plant/rows", json=list(rows(1, sensors)))  # noqa: E731
    assert post(12).status_code == 200
    answer = post(13)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "fleet_full")
    assert "12 are known, 1 are new" in answer.json()["error"]["message"]
    assert client.get("/v1/fleets/plant").json()["rows"] == 12


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"inputs": []}, "a fleet needs inputs, or lags"),
        ({"inputs": ["y"]}, "'y' is given as two different columns"),
        ({"model": "auto"}, "auto needs a stream of its own for each sensor"),
        ({"model": "KRSLT"}, "Did you mean 'KRLST'"),
        ({"settings": {"capacit": 5}}, "capacity"),
        ({"settings": {"drift": True}}, "a fleet has no setting 'drift'"),
        ({"settings": {"alarms": "1/week"}}, "need the column of the times"),
        ({"settings": {"pending": 10**6}}, "at most"),
        ({"settings": {"capacity": 100_000}}, "it takes .* GiB of memory"),
        ({"size": 10**6, "settings": {"capacity": 50}}, "1000000 sensors take .* GiB of memory; a server allows 4 GiB"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_the_first_row(settings, why):
    with pytest.raises(RefusedError, match=why):
        check_fleet(FleetSettings(**FLEET | settings))


def test_the_cost_of_a_sensor_is_what_a_fleet_allocates():
    found = learner(size=500)
    applied(found, "rows", rows=list(rows(2, 500)))
    held = sum(array.nbytes for array in found.fleet._arrays().values()) / 500
    assert bytes_of(found.settings) == pytest.approx(held + 8 * (2 + 4 * KEPT + 6 + 2))


def test_targets_come_late_and_each_counts_once():
    found = learner(lags=1, settings=FLEET["settings"] | {"pending": 3})
    applied(found, "rows", rows=list(rows(30)))
    with pytest.raises(RefusedError, match="row 1 lacks an input"):
        applied(found, "predict", rows=[{"id": "new", "a": 1.0}])
    asked = [{"id": f"s{i}", "a": 0.5, "b": 0.5} for i in range(4)]
    tickets = [row.ticket for row in applied(found, "predict", rows=asked).answer.rows]
    seen = found.rows
    targets = [Target(ticket, 1.0 * i) for i, ticket in enumerate([*tickets, tickets[2], "t-99"])]
    answer = applied(found, "targets", targets=targets).answer
    assert [one.status for one in answer.targets] == ["expired", "learned", "learned", "learned", "known", "unknown"]
    assert (answer.learned, answer.seen) == (3, seen + 3)
    assert found._arrays["lagged"][1:4, 0].tolist() == [1.0, 2.0, 3.0]
    again = applied(found, "targets", targets=targets[1:2]).answer
    assert (again.targets[0].status, again.learned) == ("known", 0)
    assert applied(found, "predict", rows=asked[:1]).answer.rows[0].ticket == "t-5"
    unseen = learner(settings=FLEET["settings"] | {"pending": 3})
    applied(unseen, "predict", rows=[{"id": "new", "a": 1.0, "b": 1.0}])
    assert [(one.id, one.rows) for one in unseen.sensors(SensorQuery()).ids] == [("new", 0)]
    assert unseen.history(HistoryQuery(id="new")).row == []
    assert FleetLearner.from_bytes(found.settings, "t", found.to_bytes()).to_bytes() == found.to_bytes()
    with pytest.raises(RefusedError, match="this fleet keeps no rows that wait"):
        applied(learner(), "predict", rows=asked)


def test_alarms_share_one_budget_and_are_told_with_their_id(tmp_path):
    with in_process(tmp_path) as client:
        client.put("/v1/fleets/plant", json=FLEET | {"settings": FLEET["settings"] | {"alarms": 0.001}})
        for start in range(0, 300, 50):
            client.post("/v1/fleets/plant/rows", json=list(rows(50, start=start)))
        broken = [row | ({"y": 1e4} if row["id"] == "s3" else {}) for row in rows(1, start=300)]
        answer = client.post("/v1/fleets/plant/rows", json=broken).json()
        assert [row["alarm"] for row in answer["rows"] if row["id"] == "s3"] == ["spike"]
        alarms = client.get("/v1/fleets/plant").json()["health"]["alarms"]
        assert 1 <= alarms <= 6  # 2.4 false ones are expected
        (first,) = client.get("/v1/fleets/plant/ids?search=S3").json()["ids"]
        assert (first["id"], first["observed"]) == ("s3", 1e4)
        history = client.get("/v1/fleets/plant/history", params={"id": "s3"}).json()
        assert history["drift"][-1]["row"] == history["row"][-1] == 301
        assert history["drift"][-1]["event"].startswith("alarm, one row")
        with client.stream("GET", "/v1/fleets/plant/events", headers={"Last-Event-ID": "0"}) as events:
            assert any('"text":"s3: alarm, one row' in line for line in events.iter_lines() if "s3" in line)
        assert f'streamgp_fleet_alarms{{fleet="plant"}} {alarms}.0' in client.get("/metrics").text


def test_ids_are_found_and_ordered_and_keep_their_newest_rows(client):
    client.post("/v1/fleets/plant/rows", json=list(rows(KEPT + 20)))
    client.post("/v1/fleets/plant/rows", json=[{"id": "s5", "a": 0.0, "b": 0.0, "y": None}])
    names = lambda query: [one["id"] for one in client.get(f"/v1/fleets/plant/ids?{query}").json()["ids"]]  # noqa: E731
    assert names("first=name&most=3") == ["s0", "s1", "s2"]
    assert names("first=rows&most=1") == ["s5"]
    assert names("search=S7") == ["s7"]
    assert len(names("first=error")) == len(names("first=coverage")) == 8
    found = client.get("/v1/fleets/plant/history?id=s5").json()
    assert found["row"] == list(range(22, 22 + KEPT))
    assert found["observed"][-1] is None
    assert client.get("/v1/fleets/plant/history?id=s9").json()["error"]["code"] == "no_such_id"
    assert client.get("/v1/fleets/plant").json()["ids"] == 8
    text = client.get("/metrics").text
    assert 'streamgp_fleet_ids{fleet="plant"} 8.0' in text
    assert {"0.05", "0.5", "0.95"} == set(re.findall(r'streamgp_fleet_coverage{fleet="plant",quantile="(.*?)"}', text))


def test_a_name_is_that_of_a_stream_or_of_a_fleet(client):
    assert client.put("/v1/streams/plant", json=QUICK).json()["error"]["code"] == "exists"
    assert client.get("/v1/streams/plant").json()["error"]["code"] == "no_such_stream"
    assert client.put("/v1/fleets/plant", json=FLEET | {"lags": 1}).json()["error"]["code"] == "exists"
    assert client.put("/v1/fleets/plant", json=FLEET).status_code == 200
    assert client.get("/v1/streams").json()["streams"] == []
    assert [one["name"] for one in client.get("/v1/fleets").json()["fleets"]] == ["plant"]
    assert client.delete("/v1/fleets/plant").status_code == 204
    assert client.get("/v1/fleets/plant").json()["error"]["code"] == "no_such_fleet"
    assert client.put("/v1/streams/plant", json=QUICK).status_code == 201


@pytest.mark.parametrize("kept", [True, False])
def test_a_restart_resumes_bit_for_bit_with_and_without_a_snapshot(tmp_path, monkeypatch, kept):
    monkeypatch.setattr(journal, "PART", 5000)  # a snapshot has several parts
    with in_process(tmp_path) as client:
        client.put("/v1/fleets/plant", json=FLEET)
        for start in range(0, 60, 20):
            client.post(
                "/v1/fleets/plant/rows", json=list(rows(20, start=start)), headers={"Idempotency-Key": f"{start}"}
            )
        state = client.get("/v1/fleets/plant/snapshot").content
        if not kept:
            client.service.streams["plant"].save = lambda: b""  # as after kill -9
    with in_process(tmp_path) as client:
        assert (client.service.journal.read("SELECT count(*) FROM snapshots")[0][0] > 1) is kept
        again = client.post("/v1/fleets/plant/rows", json=list(rows(20, start=40)), headers={"Idempotency-Key": "40"})
        assert again.json()["seen"] == 480
        assert client.get("/v1/fleets/plant/snapshot").content == state
    assert sg.from_bytes(state).rows_seen.sum() == 480


def test_a_fleet_whose_snapshot_is_damaged_is_learned_again_from_its_rows_or_fails_alone(tmp_path):
    with in_process(tmp_path) as client:
        client.put("/v1/fleets/plant", json=FLEET)
        client.post("/v1/fleets/plant/rows", json=list(rows(40)))
        expected = client.get("/v1/fleets/plant/snapshot").content
    for keep in (True, False):
        db = sqlite3.connect(tmp_path / NAME)
        db.execute("UPDATE snapshots SET state=x'00'")
        if not keep:
            db.execute("DELETE FROM ops")
        db.commit()
        db.close()
        with in_process(tmp_path) as client:
            client.put("/v1/streams/s", json=QUICK)
            if keep:
                assert client.get("/v1/fleets/plant/snapshot").content == expected
            else:
                assert client.get("/v1/fleets/plant/snapshot").status_code == 503
                assert client.get("/v1/fleets/plant").json()["state"] == "failed"
            assert settled(client)["state"] == "new"
