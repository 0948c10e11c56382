"""A forest says what LightGBM says of every row, without it; it is trained when due, and its arrays are bounded."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from streamgp.auto import forest
from streamgp.auto.bank import Bank, Line
from streamgp.auto.step import FOREST
from streamgp.contract.lanes import PREDICT, listed

needs_trees = pytest.mark.skipif(bool(forest.without_trees()), reason=forest.without_trees())


def rows(n=600, seed=0):
    """Columns of several kinds: smooth, whole (many stand on a threshold), mostly 0, constant, and the first again."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    F = np.column_stack([x, rng.integers(-3, 4, n), rng.normal(size=n) * (rng.random(n) < 0.2), np.full(n, 2.5), x])
    y = np.sin(2.0 * F[:, 0]) + 0.5 * F[:, 1] * (F[:, 2] > 0) + 0.1 * rng.normal(size=n)
    return F, y


def said(found, F):
    """What trees say of rows, as a line of the table whose target counts from 0."""
    F = np.column_stack([F, np.zeros(len(F))])
    bank = Bank(0).placed([Line("trees", FOREST, origin=F.shape[1] - 1, forest=found)])
    return bank.run(listed(len(F), PREDICT), F, np.full(len(F), np.nan))[0][:, 0]


def by_lightgbm(F, y, F_new):
    """What its own package says, of targets in units that single precision can hold."""
    lightgbm = pytest.importorskip("lightgbm")
    offset, unit = y.mean(), y.std() or 1.0
    settings = dict(setting.split("=") for setting in forest.SETTINGS.split())
    trees = lightgbm.train(settings, lightgbm.Dataset(F, (y - offset) / unit), forest.TREES)
    return offset + unit * trees.predict(F_new)


def with_gaps(F, share, seed=1):
    return np.where(np.random.default_rng(seed).random(F.shape) < share, np.nan, F)


CASES = {
    "plain": lambda F, y: (F, y, F),
    "new rows": lambda F, y: (F, y, rows(seed=2)[0]),
    "far rows": lambda F, y: (F, y, 1e9 * rows(seed=3)[0]),
    "missing only later": lambda F, y: (F, y, with_gaps(F, 0.3)),
    "missing from the start": lambda F, y: (with_gaps(F, 0.2), y, with_gaps(F, 0.3, seed=4)),
    "a column that is always missing": lambda F, y: (np.where(np.arange(5) == 1, np.nan, F), y, F),
    "only constant columns": lambda F, y: (np.ones((len(y), 2)), y, np.ones((3, 2))),
    "far from 0": lambda F, y: (F, y + 1e9, F),
    "a constant target": lambda F, y: (F, np.full(len(y), 3.25), F),
    "too few rows for a split": lambda F, y: (F[:30], y[:30], F),
    "stumps": lambda F, y: (F[:45], np.sign(F[:45, 0]), F),
    "large numbers": lambda F, y: (1e12 * F, 1e12 * y, 1e12 * F),
    "small numbers": lambda F, y: (1e-12 * F, 1e-12 * y, 1e-12 * F),
}


@needs_trees
@pytest.mark.parametrize("case", CASES)
def test_a_forest_says_what_lightgbm_says(case):
    F, y, new = CASES[case](*rows())
    expected = by_lightgbm(F, y, new)
    np.testing.assert_allclose(said(forest.train(F, y), new), expected, rtol=1e-12, atol=1e-12 * np.abs(y).max())


@needs_trees
def test_numbers_beside_a_threshold_go_where_lightgbm_sends_them():
    F, y = rows()
    found = forest.train(F, y)
    splits = found.splits.reshape(forest.TREES, forest.SPLITS, forest.COLUMNS)
    used = splits[:, :, forest.FEATURE] == 0
    thresholds = np.unique(found.numbers[:, : forest.SPLITS][used])
    near = np.concatenate(
        [np.nextafter(thresholds, -np.inf), thresholds, np.nextafter(thresholds, np.inf), [0.0, -0.0]]
    )
    new = np.tile(F[0], (len(near), 1))
    new[:, 0] = near
    np.testing.assert_allclose(said(found, new), by_lightgbm(F, y, new), rtol=1e-12)


@needs_trees
def test_rows_without_a_target_are_left_out():
    F, y = rows()
    missing = np.arange(len(y)) % 7 == 3
    found = forest.train(F, np.where(missing, np.nan, y))
    np.testing.assert_array_equal(said(found, F), said(forest.train(F[~missing], y[~missing]), F))
    assert forest.train(F, np.full(len(y), np.nan)) is None


@needs_trees
def test_the_same_rows_give_the_same_trees():
    F, y = rows()
    first, second = forest.train(F, y), forest.train(F, y)
    np.testing.assert_array_equal(first.splits, second.splits)
    np.testing.assert_array_equal(first.numbers, second.numbers)


def test_before_the_first_training_a_forest_says_nothing():
    np.testing.assert_array_equal(said(forest.Forest.empty(), rows()[0]), 0.0)


@needs_trees
def test_the_size_of_a_forest_is_bounded():
    F, y = rows(n=5000)
    found = forest.train(F, y)
    found.check(F.shape[1])
    assert [values.shape for values in found] == [values.shape for values in forest.Forest.empty()]
    forest.Forest.empty().check(1)


@needs_trees
def test_arrays_that_are_no_forest_are_refused():
    F, y = rows()
    good = forest.train(F, y)

    def with_split(column, value):
        splits = good.splits.copy()
        splits[1, column] = value
        return good._replace(splits=splits)

    bad = {
        "round in a circle": with_split(forest.LEFT, 1),
        "to no leaf": with_split(forest.RIGHT, -forest.LEAVES - 1),
        "to no split": with_split(forest.RIGHT, forest.SPLITS),
        "by no feature": with_split(forest.FEATURE, F.shape[1]),
        "below every feature": with_split(forest.FEATURE, -2),
        "to an empty split": with_split(forest.FEATURE, forest.NO_SPLIT),
    }
    for how, found in bad.items():
        with pytest.raises(ValueError, match="splits of a forest must lead to leaves by features of rows of 5 numbers"):
            pytest.fail(how + str(found.check(F.shape[1])))
    with pytest.raises(ValueError, match="numbers"):
        good._replace(numbers=good.numbers * np.nan).check(F.shape[1])


def test_trainings_come_after_half_as_many_rows_again_and_at_most_two_thousand_apart():
    rows = [seen for seen in range(1, 20_000) if forest.next_due(seen - 1) == seen]
    assert rows[:10] == [300, 500, 750, 1125, 1687, 2530, 3795, 5692, 7692, 9692]
    for before, after in pairwise(rows):
        assert after - before == min(max(before // 2, 200), 2000)


@pytest.fixture
def fresh():
    """The library is looked for anew, also after the test."""
    forest._library.cache_clear()
    yield
    forest._library.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_without_lightgbm_there_are_no_trees_and_a_sentence_says_why(monkeypatch):
    monkeypatch.setattr(forest, "find_spec", lambda _: None)
    assert "LightGBM is not installed; to have them: pip install 'streamgp[trees]'" in forest.without_trees()
    assert forest.train(*rows()) is None


@pytest.mark.usefixtures("fresh")
def test_a_library_that_cannot_be_loaded_is_no_error_either(tmp_path, monkeypatch):
    monkeypatch.setattr(forest, "find_spec", lambda _: SimpleNamespace(submodule_search_locations=[str(tmp_path)]))
    assert "LightGBM has no library in" in forest.without_trees()
    forest._library.cache_clear()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "lib_lightgbm.so").write_text("no library")
    assert "No trees, because LightGBM cannot be loaded: " in forest.without_trees()
    assert forest.train(*rows()) is None


@needs_trees
def test_what_lightgbm_refuses_is_an_error_of_its_words(monkeypatch):
    monkeypatch.setattr(forest, "SETTINGS", "num_leaves=1 verbosity=-1")
    with pytest.raises(RuntimeError, match="LightGBM: .*num_leaves"):
        forest.train(*rows())


@needs_trees
def test_the_package_of_lightgbm_is_not_imported():
    code = (
        "import sys, numpy as np; from streamgp.auto import forest; x = np.arange(99.0)[:, None]\n"
        "assert forest.train(x, x[:, 0]) is not None and 'lightgbm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
