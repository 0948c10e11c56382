"""The benchmark of auto is fair, goes on where it was stopped, and its tables are those of its results."""

from __future__ import annotations

import json

import numpy as np
import pytest

import auto
import auto_rules
import auto_streams
import auto_tables
import main_job
import record


@pytest.fixture
def little():
    rng = np.random.default_rng(0)
    y = rng.normal(size=900)
    y[[300, 301]] = np.nan
    return auto_streams.Stream(rng.normal(size=(900, 2)), y, (24,))


# Contestants


@pytest.mark.parametrize("horizon", [0, 1, 6, 24, 30])
def test_nothing_is_known_of_rows_after_the_one_from_which_is_predicted(little, horizon):
    F = auto.known_then(little, horizon, 3, before=True)
    first = max(horizon, 1)
    np.testing.assert_array_equal(F[horizon:, :2], little.X[: 900 - horizon])
    np.testing.assert_array_equal(F[horizon + 1 :, 2:4], little.X[: 899 - horizon])
    np.testing.assert_array_equal(F[310 + first :, 4], little.y[310:-first])
    later = np.arange(900) >= 700
    again = auto.known_then(little._replace(X=little.X + later[:, None], y=little.y + later), horizon, 3, before=True)
    np.testing.assert_array_equal(F[: 700 + horizon], again[: 700 + horizon])
    assert np.any(F[700 + horizon] != again[700 + horizon])
    back = -(-first // 24) * 24
    season = 4 if back == first else -1  # where it is a lag anyway
    np.testing.assert_array_equal(F[310 + back :, season], little.y[310:-back])


@pytest.mark.parametrize("horizon", [0, 6])
@pytest.mark.parametrize("factor", [1.0, 0.999])
def test_least_squares_are_those_of_all_rows_whose_targets_are_known(little, horizon, factor):
    F = auto.known_then(little, horizon, 3)
    said = auto.least_squares(F, little.y, horizon, factor)
    Z = np.column_stack([np.ones(900), (F - F[:50].mean(axis=0)) / F[:50].std(axis=0)])
    offset, unit = little.y[:50].mean(), little.y[:50].std()
    for t in (1, 40, 500, 899):
        rows = [row for row in range(max(0, t - max(horizon, 1) + 1)) if not np.isnan(little.y[row])]
        weights = factor ** np.arange(len(rows))[::-1]
        A = (Z[rows].T * weights) @ Z[rows] + factor ** len(rows) * np.eye(Z.shape[1]) / auto.LARGEST
        w = np.linalg.solve(A, (Z[rows].T * weights) @ ((little.y[rows] - offset) / unit))
        np.testing.assert_allclose(said[t], offset + unit * (Z[t] @ w), rtol=1e-6)


def test_lightgbm_sees_no_target_before_it_has_predicted_it(little):
    pytest.importorskip("lightgbm")
    later = little._replace(y=np.where(np.arange(900) >= 520, little.y + 5.0, little.y))
    for horizon in (0, 6):
        for name, said in auto.by_lightgbm(little, horizon).items():
            again = auto.by_lightgbm(later, horizon)[name]
            np.testing.assert_array_equal(said.mean[: 520 + horizon], again.mean[: 520 + horizon])


# Streams


@pytest.mark.parametrize("kind", auto_streams.KINDS)
def test_as_many_rows_are_broken_as_the_page_says(kind, little, monkeypatch):
    monkeypatch.setattr(auto_streams, "measured", lambda *_: little)
    broken = auto_streams.with_glitches("kin40k", kind)
    changed = np.flatnonzero((broken.X != little.X).any(axis=1) | (np.nan_to_num(broken.y) != np.nan_to_num(little.y)))
    expected = [] if kind == "nothing" else broken.broken.tolist()
    if kind == "targets":
        expected = [row for row in expected if not np.isnan(little.y[row])]
    assert changed.tolist() == expected
    assert len(broken.broken) == 12
    assert broken.broken.min() >= 300


def test_packed_streams_are_those_that_were_packed(little, tmp_path, monkeypatch):
    sources = {
        "one": auto_streams.Source("measured", lambda: little),
        "two": auto_streams.Source("changes", lambda: little._replace(broken=np.array([3, 5]), changes=(7,))),
    }
    monkeypatch.setattr(auto_streams, "SOURCES", sources)
    auto_streams.stream.cache_clear()
    auto_streams.pack(tmp_path / "packed.npz", sources)
    auto_streams.stream.cache_clear()
    monkeypatch.setenv(auto_streams.PACKED, str(tmp_path / "packed.npz"))
    for name, source in sources.items():
        found, expected = auto_streams.stream(name), source.read()
        for part, values in expected._asdict().items():
            np.testing.assert_array_equal(getattr(found, part), values)
    auto_streams.stream.cache_clear()


# Scores


def test_scores_equal_their_slow_formulas(little):
    rng = np.random.default_rng(1)
    mean = rng.normal(size=900)
    data = little._replace(broken=np.array([600, 601]), changes=(700,))
    scores = auto.scored(data, 6, auto.Said(mean, mean - 1.0, mean + 1.0, {"seconds": 1.23456789}))
    rows = [t for t in range(500, 900) if t not in (600, 601)]
    errors = np.array([little.y[t] - mean[t] for t in rows])
    assert scores["rmse after 500"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-5)
    assert scores["mae"] == pytest.approx(np.mean(np.abs(errors)), rel=1e-5)
    assert scores["coverage"] == pytest.approx(np.mean(np.abs(errors) <= 1.0), rel=1e-5)
    misses = np.maximum(np.abs(errors) - 1.0, 0.0)
    assert scores["interval score"] == pytest.approx(2.0 + 20.0 * misses.mean(), rel=1e-5)
    early = [t for t in range(26, 900) if t not in (300, 301, 600, 601)]
    assert scores["rmse from 20"] == pytest.approx(np.sqrt(np.mean((little.y - mean)[early] ** 2)), rel=1e-5)
    assert scores["seconds"] == 1.23457
    assert scores["rows to recover"] == [200]
    assert auto.recovered(np.append(np.full(30, 1.0), np.zeros(200))) == 28  # two such errors in a hundred are allowed
    assert auto.scored(data, 0, auto.Said(np.full(900, np.nan)))["rmse after 500"] is None


# Cells and tables


@pytest.fixture
def tiny(monkeypatch, little):
    """One stream, with an auto that says 0."""

    def said(data, _):
        zeros = np.zeros(len(data.y))
        return {"Auto": auto.Said(zeros, zeros - 1.6, zeros + 1.6, auto.cost([0.5, 0.25], 900, Kept()))}

    class Kept:
        changes = (3,)

        def to_bytes(self):
            return b"12"

    monkeypatch.setitem(auto.CONTESTANTS, "Auto", (said, True))
    sources = {"kin40k": auto_streams.Source("measured", lambda: little, (0, 6))}
    for module in (auto, auto_tables):
        monkeypatch.setattr(module, "SOURCES", sources)
    monkeypatch.setattr(auto, "stream", lambda _: little)


@pytest.mark.usefixtures("tiny")
def test_two_folders_are_compared(tmp_path):
    for folder in ("former", "new"):
        (tmp_path / folder).mkdir()
        for cell in auto.cells([], ["Auto", "RLS"]):
            auto.measure(cell, tmp_path / folder)
    path = next((tmp_path / "new").glob("*0-ahead-Auto.json"))
    found = json.loads(path.read_text())
    found["scores"]["Auto"]["rmse after 500"] *= 2.0
    path.write_text(json.dumps(found))
    lines = [line.split("|") for line in auto_tables.compare(tmp_path / "former", tmp_path / "new", None).splitlines()]
    first = next(line for line in lines if len(line) > 2 and line[1].strip() == "kin40k *" and line[2].strip() == "0")
    assert [cell.strip() for cell in first[3:6]] == ["2.000", "1.000", "1.000"]
    results = {"machine": "m", "versions": {}} | auto_tables.gathered(tmp_path / "new")
    shown = auto_tables.rendered(results)
    assert "| kin40k (least squares, " in shown["errors on streams"]
    assert "| unseen, ahead | 1 |" in shown["errors on streams"]
    assert "| unseen | 1 |" in shown["intervals on streams"]


@pytest.mark.usefixtures("tiny")
def test_a_cell_that_is_there_is_not_measured_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(auto, "ProcessPoolExecutor", None)  # nobody is asked
    for cell in auto.cells([], ["Auto"]):
        auto.measure(cell, tmp_path)
    with pytest.raises(TypeError):
        auto.run(tmp_path, record.ROOT, 1, [], ["Auto"])
    assert "0 cells to measure" in capsys.readouterr().out


def test_words_name_groups_and_parts_of_names():
    assert {cell.stream for cell in auto.cells(["tables"], ["Auto"])} == set(auto_streams.TABLES)
    assert {cell.stream for cell in auto.cells(["flutter"], ["Auto"])} == {"wing flutter"}
    assert not list(auto.cells(["changes"], ["RLS"]))


def test_an_empty_folder_says_what_to_run_first(tmp_path):
    with pytest.raises(SystemExit, match="holds no results; first: python benchmarks/auto.py run"):
        auto_tables.gathered(tmp_path)


def test_planted_faults_are_told_by_stream_and_change():
    def run(**scores):
        return {"Auto": {"rmse from 20": 1.0} | scores}

    runs = {
        ("kin40k, nothing broken", 0): run(),
        ("kin40k, targets broken", 0): run(**{"rmse from 20": 1.05}),
        ("gradual, seed 10", 0): run(**{"rows to recover": [0, 40], "changes told": [2010, 3500]}),
    }
    assert auto_tables.glitches(runs) == {"targets": {"kin40k": 1.05}, "inputs": {}}
    assert "| targets | 1 | +5.0% | +5.0%, kin40k | 0 of 1 |" in auto_tables.glitches_table(auto_tables.glitches(runs))
    assert "| gradual | 20 (40) | 1 of 2 | 1 |" in auto_tables.changes_table(auto_tables.changes(runs))


def test_committed_tables_of_the_pages_are_those_of_the_results():
    for page in main_job.PAGES:
        text = page.read_text()
        assert main_job.filled(text, auto_tables.rendered(record.read("auto"))) == text
    page = record.ROOT / "docs" / "models" / "committee.md"
    assert auto_rules.page_with(page.read_text(), record.read("auto_rules")) == page.read_text()


# The rules of the committee


def test_boa_follows_the_better_expert_and_lets_sleepers_sleep():
    rng = np.random.default_rng(0)
    y = rng.normal(size=600)
    P = np.column_stack([y + 0.1 * rng.normal(size=600), y + 2.0, np.full(600, np.nan)])
    said = auto_rules.boa(P, y)
    assert np.sqrt(np.mean((said - y)[300:] ** 2)) < 0.11
    np.testing.assert_array_equal(auto_rules.boa(P[:1], y[:1]), P[:1, :2].mean(axis=1))


def test_boa_does_not_depend_on_the_units_of_the_target():
    rng = np.random.default_rng(1)
    y = rng.normal(size=200)
    P = y[:, None] + rng.normal(size=(200, 3)) * [0.1, 0.5, 1.0]
    P[:100, 0] = np.nan
    np.testing.assert_allclose(auto_rules.boa(4.0 * P, 4.0 * y), 4.0 * auto_rules.boa(P, y), rtol=1e-9)


def test_rules_are_compared_with_the_best_single_expert():
    found = auto_rules.compared("abruptly changing", 0, rows=400)
    assert set(found["relative"]) == set(auto_rules.RULES)
    assert found["relative"]["mean of all"] > found["relative"]['rule="stacked"']
