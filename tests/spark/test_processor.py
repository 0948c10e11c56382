"""The processor keeps shards in Spark's state; driven here without a JVM."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import streamgp as sg
from streamgp.spark import processor
from streamgp.spark.frames import batch_of, frame_of, input_name, schema_of
from streamgp.spark.plan import TIMESTAMP
from streamgp.spark.processor import Processor
from streamgp.spark.rows import Batch
from streamgp.spark.shard import Shard
from tests.spark.conftest import MISSING_PYSPARK
from tests.spark.streams import RECIPES, one_by_one, plan, rows, some

tester = pytest.importorskip("pyspark.sql.streaming.tws_tester", reason=MISSING_PYSPARK)
MICRO = 1_000_000
LARGE = str(2**64 + 1)


def frame(batch):
    columns = {"key": batch.keys, "time": batch.time, "target": batch.Y}
    columns |= {input_name(j): batch.X[:, j] for j in range(batch.X.shape[1])}
    if batch.tickets is not None:
        columns["ticket"] = batch.tickets
    return pd.DataFrame(columns)


def parts(n, count):
    return np.array_split(np.arange(n), count)


def equal(found, wanted):
    assert len(found) == len(wanted)
    for one in found.itertuples():
        np.testing.assert_array_equal((one.mean, one.lower, one.upper, one.std, one.row), wanted[one.key, one.time])


@pytest.mark.parametrize("held", [True, False], ids=["held by the worker", "read again"])
@pytest.mark.parametrize("name", RECIPES)
def test_the_processor_is_the_loop_over_single_models(name, held):
    model, batch = RECIPES[name](), rows(0, 300)
    wanted, singles = one_by_one(model, batch)
    driver = tester.TwsTester(Processor(plan(model)))
    found = []
    for part in parts(300, 20):
        if not held:
            processor._cached.clear()
        found.append(driver.testInPandas(3, frame(some(batch, part))))
    equal(pd.concat(found), wanted)
    head = processor.Head(*driver.peekValueState("head", 3))
    assert (head.keys, head.rows) == (5, 300)
    assert 0 < head.logged < 16 * 5  # the log has been cleared on the way
    whole, log = driver.peekValueState("whole", 3)[0], driver.peekListState("log", 3)
    assert len(log) < 20
    shard = processor.opened(whole, log)
    for key, single in singles.items():
        assert shard.snapshot(key) == single.to_bytes()


def test_a_failed_attempt_leaves_nothing_behind():
    model, batch = RECIPES["KRLST"](), rows(1, 60)
    wanted, _ = one_by_one(model, batch)
    driver = tester.TwsTester(Processor(plan(model)))
    first, second = (some(batch, part) for part in parts(60, 2))
    found = [driver.testInPandas(0, frame(first))]
    states = driver.handle.value_states | driver.handle.list_states
    saved = {name: dict(state.state) for name, state in states.items()}
    lists = {key: list(values) for key, values in saved["log"].items()}
    driver.testInPandas(0, frame(second))  # the batch is lost after the worker has learned it
    for name, state in states.items():
        state.state = lists if name == "log" else saved[name]
    found.append(driver.testInPandas(0, frame(second)))
    equal(pd.concat(found), wanted)


def test_an_initial_state_goes_on_where_it_was():
    model, batch = RECIPES["Calibrated Standardize"](), rows(2, 100)
    wanted, _ = one_by_one(model, batch)
    before, after = (some(batch, part) for part in parts(100, 2))
    shard = Shard(plan(model))
    shard.take(before)
    initial = pd.DataFrame({"shard": [2], "state": [shard.to_bytes()]})
    driver = tester.TwsTester(Processor(plan(model)), initialStatePandas=[(2, initial)])
    found = driver.testInPandas(2, frame(after))
    equal(found, {place: wanted[place] for place in zip(after.keys, after.time.tolist(), strict=True)})


def test_idle_keys_expire_by_the_watermark_and_hand_over_their_snapshots():
    model = RECIPES["KRLST"]()
    settings = plan(model, idle=60.0, clock=TIMESTAMP)
    driver = tester.TwsTester(
        Processor(settings), timeMode="EventTime", eventTimeExtractor=lambda row: row["time"] // 1000
    )
    batch = rows(3, 40, keys=2, missing=0.0)
    came = batch._replace(time=np.arange(1, 41) * MICRO, keys=["early" if i < 10 else "late" for i in range(40)])
    driver.testInPandas(1, frame(came))
    assert len(driver.setWatermark(60_000)) == 0
    expired = driver.setWatermark(70_001)  # the last row of "early" was at 10 s
    assert expired["key"].tolist() == ["early"]
    assert expired["row"].tolist() == [10]
    assert expired["time"].tolist() == [10 * MICRO]
    assert expired["mean"].isna().all()
    single = sg.from_bytes(expired["snapshot"][0])
    assert single.to_bytes() == one_by_one(model, some(came, np.arange(10)))[1]["early"].to_bytes()
    again = Batch(["early", "late"], np.array([80, 80]) * MICRO, np.ones((2, 2)), np.ones(2))
    found = driver.testInPandas(1, frame(again))
    assert dict(zip(found["key"], found["row"], strict=True)) == {"early": 1, "late": 31}
    rest = driver.setWatermark(200_000)
    assert sorted(rest["key"]) == ["early", "late"]
    assert processor.Head(*driver.peekValueState("head", 1)).keys == 0


def test_another_model_on_the_same_state_is_refused():
    driver = tester.TwsTester(Processor(plan(sg.KRLST(capacity=5))))
    driver.testInPandas(0, frame(rows(4, 20)))
    before = driver.peekValueState("head", 0)
    driver.processor = Processor(plan(sg.KRLST(capacity=6)))
    driver.processor.init(driver.handle)
    with pytest.raises(
        ValueError, match=r"learned by .*KRLST\(capacity=5\).*now has .*KRLST\(capacity=6\).*new checkpoint"
    ):
        driver.testInPandas(0, frame(rows(4, 20)))
    assert driver.peekValueState("head", 0) == before


def test_a_worker_holds_a_bounded_number_of_shards():
    processor._cached.clear()
    settings = plan(sg.KRLST(capacity=5), shards=4)
    driver = tester.TwsTester(Processor(settings))
    for number in range(40):
        driver.testInPandas(number, frame(rows(number, 5)))
    assert 1 <= len(processor._cached) <= 8


def test_frames_keep_missing_keys_and_tickets():
    settings = plan(sg.KRLST(capacity=5), pending=5, ticket="ticket")
    came = pd.DataFrame({"key": [LARGE, None], "time": [1, 2], "target": [1.0, None], "x0": [1.0, 2.0]})
    came["x1"], came["ticket"] = [None, 1.0], [np.nan, 3.0]
    batch = batch_of(settings, came.astype({"key": object}))
    assert batch.keys == [LARGE, None]
    np.testing.assert_array_equal(batch.tickets, [-1, 3])
    found = frame_of(settings, Shard(settings).take(batch._replace(tickets=np.array([-1, -1]))))
    assert [name.split()[0] for name in schema_of(settings).split(", ")] == list(found.columns)
    assert [None if pd.isna(key) else key for key in found["key"]] == [LARGE, None]
