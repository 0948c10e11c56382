"""The log of a shard is learned again in the order in which it was written; driven without Spark."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from streamgp.spark import processor
from streamgp.spark.frames import input_name
from streamgp.spark.processor import Processor
from tests.spark.streams import RECIPES, plan

LABELS = 8


class Value:
    """A value in a state store."""

    def __init__(self):
        self._kept = None

    def get(self):
        return self._kept

    def update(self, value):
        self._kept = value


class List(Value):
    """A list in a state store."""

    def __init__(self):
        self._kept = []

    def appendValue(self, value):
        self._kept.append(value)

    def clear(self):
        self._kept = []


class Store:
    """The state of one shard, by name."""

    def __init__(self):
        self.states = {}

    def getValueState(self, name, schema):
        return self.states.setdefault(name, Value())

    def getListState(self, name, schema):
        return self.states.setdefault(name, List())


def frame(key, time, x, y, ticket):
    inputs = {input_name(j): [value] for j, value in enumerate(x)}
    return pd.DataFrame({"key": [key], "time": [time], "target": [y], "ticket": [ticket]} | inputs)


@pytest.fixture
def store():
    """Eight rows without a target, then their targets, each in a batch of its own."""
    processor._cached.clear()
    rng, found = np.random.default_rng(0), Store()
    driven = Processor(plan(RECIPES["KRLST"](), pending=20, ticket="ticket"))
    driven.init(found)

    def take(*row):
        return list(driven.handleInputRows((0,), iter([frame(*row)]), None))

    tickets = []
    for time in range(LABELS):
        (predicted,) = take("a", time, rng.standard_normal(2), np.nan, -1)
        tickets += predicted["ticket"].tolist()
    for time, ticket in enumerate(tickets, LABELS):
        assert take("a", time, (0.0, 0.0), rng.standard_normal(), ticket) == []
    return found


def test_a_log_of_late_labels_in_any_order_gives_the_live_model(store):
    ((_, live),) = processor._cached.values()
    whole, log = store.states[processor.WHOLE].get()[0], store.states[processor.LOG].get()
    assert len(log) >= LABELS  # none of the labels is in the whole value alone
    for order in (np.arange(len(log)), np.arange(len(log))[::-1], np.random.default_rng(1).permutation(len(log))):
        again = processor.opened(whole, [log[i] for i in order])
        assert again.snapshot("a") == live.snapshot("a")


def test_every_entry_of_a_log_has_a_number_of_its_own_that_grows(store):
    numbers = [number for number, _ in store.states[processor.LOG].get()]
    assert (np.diff(numbers) > 0).all()
