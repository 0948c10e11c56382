"""The page of a run, in a real browser where there is one."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest
from scipy import stats

from streamgp.contract import tally
from streamgp.job import Block, Job, report
from streamgp.job.recorder import LEVELS, Recorder
from streamgp.job.report import write_plot, write_report
from streamgp.tables.writing import PredictedRows
from tests.cli.browser import CHROMIUM, Browser
from tests.cli.test_run import SMALL, streamgp, table


def test_a_report_is_one_page_with_all_it_needs_inside(tmp_path):
    page = tmp_path / "r.html"
    done = streamgp(
        "run", table(tmp_path / "a.csv"), "--target", "y", "--out", tmp_path / "o.csv", "--report", page, *SMALL
    )
    assert done.exit_code == 0, done.stderr
    assert f"report: {page}" in done.stderr
    text = page.read_text()
    assert not re.search(r"""(src|href)=["'](?!data:)""", text)
    assert "http" not in text.replace("http-equiv", "")
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', text, re.DOTALL)[1])
    assert (data["rows"], data["stride"], data["first"]) == (80, 1, 1)
    assert data["times"][-1] == "2024-01-04T07:00"
    assert sum(data["pit"]) == 78  # the first two rows have no scale
    assert re.fullmatch(r"Coverage by level: 50%: \d+\.\d%, 80%: .*, 99.9%: \d+\.\d%\.", data["levels"])
    assert data["scores"][0] == ["", "rows 1-80"]
    assert [line[0] for line in data["scores"][1:3]] == ["MAE, streamgp", "MAE, previous value"]
    assert data["samples"]["row"] == [50, 80]
    assert data["importance"][0][0] in ("x", "kind", "time of day")
    assert {path["name"] for path in data["paths"]} == {"lengthscale", "variance", "noise"}


def test_names_cannot_break_out_of_the_page(tmp_path):
    source = tmp_path / "a.csv"
    rows = "".join(f"{np.sin(i):.4f},{np.cos(i):.4f}\n" for i in range(40))
    source.write_text("</script><b>x,y\n" + rows)
    recorder = Recorder()
    summary = Job(
        source, "y", model="KRLST", settings={"capacity": 5, "tune": False, "warmup": 20}, observers=[recorder]
    ).run()
    write_report(tmp_path / "r.html", recorder, summary)
    assert "</script><b>" not in (tmp_path / "r.html").read_text()


def test_a_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "p.png"
    done = streamgp(
        "run", table(tmp_path / "a.csv"), "--target", "y", "--out", tmp_path / "o.csv", "--plot", picture, *SMALL
    )
    assert done.exit_code == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_drawn_is_refused_before_the_run(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    out = tmp_path / "o.csv"
    asked = ("run", table(tmp_path / "a.csv"), "--target", "y", "--out", out, *SMALL)
    for name in ("p.txt", "p"):
        done = streamgp(*asked, "--plot", tmp_path / name)
        assert (done.exit_code, out.exists()) == (2, False)
        assert f"{name}'; use a name that ends in .png, .svg or .pdf" in done.stderr
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = streamgp(*asked, "--plot", tmp_path / "p.png")
    assert (done.exit_code, out.exists()) == (2, False)
    assert '--plot needs matplotlib: pip install "streamgp[plots]"' in done.stderr


def test_the_head_of_a_report_names_the_last_time_that_is_known(tmp_path):
    rows = [f"2024-01-01T{t // 60:02d}:{t % 60:02d}:00" for t in range(119)]
    source, page = tmp_path / "a.csv", tmp_path / "r.html"
    source.write_text("at,x,y\n" + "".join(f"{at},{i % 7},{i % 5}\n" for i, at in enumerate([*rows, ""])))
    done = streamgp("run", source, "--target", "y", "--report", page, "--out", tmp_path / "o.csv", *SMALL)
    assert done.exit_code == 0, done.stderr
    assert "120 rows, 2024-01-01 00:00 to 2024-01-01 01:58" in page.read_text()


# Recorder


def predicted_rows(y, mean, start=0, times=False):
    n = len(y)
    row = np.arange(start + 1, start + n + 1)
    time = [f"t{i}" for i in row] if times else None
    pit = stats.norm.cdf(y - mean)
    return PredictedRows(
        row, time, mean, mean - 1.0, mean + 1.0, np.full(n, 0.6), y, -((y - mean) ** 2), mean - 2.0, mean + 2.0, pit
    )


class Still:
    """Stands for a pipeline whose model does not change."""

    level, rows = 0.9, 0

    @property
    def model(self):
        return self

    hyperparameters, size, weights = {"noise": 0.1}, 7, {"KRLST": 0.25, "SOGP": 0.75}

    def relevance(self):
        raise ValueError("none")


def filled(y, mean, buckets, step=97):
    recorder = Recorder(buckets)
    for start in range(0, len(y), step):
        predicted = predicted_rows(y[start : start + step], mean[start : start + step], start, times=True)
        recorder.block(Block(predicted, Still(), 0.01, 0, None))
    return recorder


@pytest.mark.parametrize("rows", [60, 64, 65, 1000])
def test_buckets_hold_the_extremes_and_sums_of_their_rows(rows):
    rng = np.random.default_rng(0)
    y, mean = rng.normal(size=(2, rows))
    y[5] = np.nan
    recorder = filled(y, mean, 64)
    stride = recorder.columns.stride
    assert stride == {60: 1, 64: 1, 65: 2, 1000: 16}[rows]
    series = recorder.series()
    for b in range(recorder.columns.used):
        part = slice(b * stride, (b + 1) * stride)
        known = y[part][~np.isnan(y[part])]
        low = known.min() if known.size else np.nan
        np.testing.assert_array_equal(series["observed_low"][b], low)
        assert series["upper"][b] == (mean[part] + 1.0).max()
        assert recorder.columns["sums"][b, tally.ROWS] == known.size
        assert recorder.times[b] == f"t{b * stride + 1}"
    assert len(recorder.times) == recorder.columns.used
    running = recorder.running(10**6)
    error = (y - mean)[~np.isnan(y)]
    assert running["rmse"][-1] == pytest.approx(np.sqrt(np.mean(error**2)), abs=1e-12)
    assert running["coverage"][-1] == pytest.approx(np.mean(np.abs(error) <= 1.0), abs=1e-12)
    assert recorder.pit.sum() == error.size
    for covered, reach in zip(recorder.covered, stats.norm.ppf(0.5 + np.array(LEVELS) / 2), strict=True):
        assert covered == np.sum(np.abs(error) <= reach)


def test_looks_at_the_model_are_thinned():
    recorder = filled(np.zeros(5000), np.zeros(5000), 64, step=1)
    assert 256 <= len(recorder.samples) < 512
    assert recorder.paths()["noise"].shape == (len(recorder.samples), 1)
    assert recorder.weights()["SOGP"].tolist() == [0.75] * len(recorder.samples)


def test_many_members_are_drawn_as_the_weightiest_and_the_others():
    recorder = filled(np.zeros(300), np.zeros(300), 64)
    for sample in recorder.samples:
        sample["weights"] = {f"m{i}": np.array([weight]) for i, weight in enumerate([0.02, 0.5, 0.03, *[0.09] * 5])}
    drawn = report._weights(recorder)
    assert list(drawn) == ["m1", "m3", "m4", "others"]
    assert drawn["others"] == pytest.approx([0.32] * len(recorder.samples))


def test_buckets_must_be_even():
    with pytest.raises(ValueError, match="buckets must be even, because they are merged in pairs; got 7"):
        Recorder(7)


# The browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not CHROMIUM:
        pytest.skip("the report is looked at in Chromium: install it (Debian, Ubuntu: apt-get install chromium)")
    found = Browser(tmp_path_factory.mktemp("chromium"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def long_page(tmp_path_factory):
    """The page of a hundred thousand rows, more than buckets."""
    folder = tmp_path_factory.mktemp("report")
    recorder = Recorder()
    t = np.arange(100_000)
    y = np.sin(t / 5000) + 0.1 * np.random.default_rng(0).normal(size=len(t))
    source = table(folder / "a.csv", 200)
    small = {"capacity": 5, "tune": False, "warmup": 20}
    summary = Job(source, "y", model="KRLST", settings=small, observers=[recorder]).run()
    recorder = filled(y, np.sin(t / 5000), 1 << 15, step=1000)
    write_report(folder / "long.html", recorder, summary, "a.csv")
    write_plot(folder / "long.png", recorder, summary)
    return folder / "long.html"


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_loads_without_complaint_and_without_scrolling_sideways(browser, long_page, width):
    browser.open(long_page, width)
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("document.querySelectorAll('canvas').length") >= 8
    assert browser.value("get('scores').rows[1].cells[0].textContent") == "MAE, streamgp"
    pixels = "c.getContext('2d').getImageData(0, 0, c.width, c.height).data"
    names = ["predictions", "error", "coverage", "pit", "latency", "size"]
    assert browser.value(f"{names}.map(get).every(c => {pixels}.some(v => v))")
    assert browser.troubles == []


def test_zooming_shows_other_rows_in_all_plots(browser, long_page):
    browser.open(long_page, 1280)
    assert browser.value("[view.from, view.to]") == [1, 100_000]
    before = browser.value("get('predictions').toDataURL() + get('error').toDataURL()")
    x, y, w = browser.value("(r => [r.left, r.top + 100, r.width])(get('predictions').getBoundingClientRect())")
    browser.drag(x + w / 2, x + 3 * w / 4, y)
    start, end = browser.value("[view.from, view.to]")
    assert 40_000 < start < 55_000
    assert 65_000 < end < 80_000
    assert browser.value("get('predictions').toDataURL() + get('error').toDataURL()") != before
    browser.mouse("mouseWheel", x + w / 2, y, deltaX=0, deltaY=-100)
    assert browser.value("view.to - view.from") < 0.9 * (end - start)
    for button in ("in", "left", "right", "out"):
        browser.value(f"get('{button}').click()")
    browser.mouse("mouseMoved", x + w / 2, y)
    assert "observed" in browser.value("get('at').textContent")
    browser.mouse("mousePressed", x + w / 2, y, button="left", clickCount=2)
    browser.mouse("mouseReleased", x + w / 2, y, button="left", clickCount=2)
    assert browser.value("[view.from, view.to]") == [1, 100_000]
    assert browser.troubles == []
