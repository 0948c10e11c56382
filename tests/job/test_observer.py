from __future__ import annotations

import numpy as np

from streamgp.job import Job, Observer


class Listener(Observer):
    def __init__(self):
        self.notes, self.blocks, self.done = [], [], []

    def note(self, sentence):
        self.notes.append(sentence)

    def doing(self, sentence):
        self.done.append(sentence)

    def block(self, block):
        self.blocks.append((block, block.pipeline.rows))


def test_every_observer_is_told_of_all_notes_and_blocks(tmp_path):
    rng = np.random.default_rng(0)
    source = tmp_path / "a.csv"
    source.write_text("x,y\n" + "".join(f"{x:.3f},{2 * x:.3f}\n" for x in rng.normal(size=600)))
    one, other = Listener(), Listener()
    settings = {"capacity": 5, "tune": False, "warmup": 30, "drift": False}
    summary = Job(source, "y", model="KRLST", settings=settings, observers=[one, Observer(), other]).run()
    assert one.notes == other.notes == summary.notes
    off = "changes of the stream are not looked for"
    assert one.notes[-2:] == ["model after 30 rows: KRLST (as requested)", off]
    assert [rows for _, rows in one.blocks] == [50, 300, 550, 600]
    numbers = np.concatenate([block.predicted.row for block, _ in one.blocks])
    assert numbers.tolist() == list(range(1, 601))
    assert all(block.pipeline is summary.pipeline and block.seconds > 0 for block, _ in one.blocks)
    assert {(block.read, block.total) for block, _ in one.blocks} == {(source.stat().st_size,) * 2}
    assert len(other.blocks) == 4


def test_observers_are_told_what_takes_long(tmp_path):
    rng = np.random.default_rng(0)
    source = tmp_path / "a.csv"
    source.write_text("x,y\n" + "".join(f"{x:.3f},{2 * x:.3f}\n" for x in rng.normal(size=110)))
    small = {"capacity": 5, "features": 5, "warmup": 100}
    listener = Listener()
    Job(source, "y", settings=small, observers=[listener, Observer()], save=tmp_path / "m.sgp").run()
    assert listener.done == [
        "reading the first rows",
        "loading compiled code; after an installation, compiling",
        "predicting the first rows",
        "tuning 9 Gaussian processes on 24 rows",  # four fifths of those after which they join
        "tuning 9 Gaussian processes on 72 rows",
        "tuning 6 Gaussian processes on 80 rows",
        f"saving {tmp_path / 'm.sgp'}",
    ]
    listener = Listener()
    Job(source, "y", model="SOGP", settings={"capacity": 5, "warmup": 100}, observers=[listener]).run()
    assert listener.done[3:] == ["tuning SOGP on 80 rows"]
