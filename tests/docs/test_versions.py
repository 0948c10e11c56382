"""Tables of measurements say with which version they were measured, so that an older one is not taken for this one.

``python -m tests.docs.test_versions`` lists the tables that were measured with an earlier minor version.
"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

from streamgp import __version__

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"<!-- (?!end)(?P<name>[^>]+?) -->\n(?P<text>.*?)<!-- end\b", re.DOTALL)
SAID = re.compile(r"streamgp (\d+\.\d+\.\d+)(?:; experts and rivals: (\d+\.\d+(?:\.\d+)?))?")
# Blocks that hold no measurements, by how their names begin, and those of reproductions, which no version changes.
OTHERS = ("settings ", "help ", "compared ", "short ", "result ", "table soh2014", "table alshedivat2017")
# Pages that say it once for all of their tables, or that show in short what the page has that they link to.
SAID_ON = {
    "README.md": "docs/rivals.md",
    "docs/performance.md": "docs/performance.md",
    "docs/rivals.md": "docs/rivals.md",
}


def tables():
    """Page, name and text of each table of measurements."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))):
        for block in BLOCK.finditer(path.read_text()):
            if not block["name"].startswith(OTHERS):
                yield path.relative_to(ROOT).as_posix(), block["name"], block["text"]


def versions(text):
    """All versions of streamgp that a text names as those of measurements."""
    return {version for found in SAID.findall(text) for version in found if version}


def older():
    """Page and name of each table some of which was measured with an earlier minor version, and those versions."""
    present = __version__.split(".")[:2]
    for page, name, text in tables():
        if found := {version for version in versions(text) if version.split(".")[:2] != present}:
            yield page, name, sorted(found)


@pytest.mark.parametrize("page", sorted({page for page, _, _ in tables()}))
def test_committed_tables_of_measurements_say_their_version(page):
    if other := SAID_ON.get(page):
        assert versions((ROOT / other).read_text())
        assert page == other or Path(other).name in (ROOT / page).read_text()
        return
    silent = [name for found, name, text in tables() if found == page and not versions(text)]
    assert not silent, f"{page}: let these end in record.measured_on(results): {silent}"


@pytest.mark.parametrize("script", ["levels", "first_rows", "wrapper_cost", "horizons"])
def test_committed_tables_of_intervals_are_those_of_their_results(script):
    module = importlib.import_module(script)
    text, table = module.PAGE.read_text(), module.table(json.loads(module.RESULTS.read_text()))
    assert module.replaced(text, module.BEGIN, module.END, table) == text


def test_committed_tables_of_alarms_and_of_fleets_of_auto_are_those_of_their_results():
    alarms, auto_fleet = (importlib.import_module(name) for name in ("alarms", "auto_fleet"))
    text = alarms.PAGE.read_text()
    for name, table in alarms.tables(json.loads(alarms.RESULTS.read_text())).items():
        assert alarms.replaced(text, f"<!-- {name} -->", f"<!-- end of {name} -->", table) == text
    text = auto_fleet.PAGE.read_text()
    assert auto_fleet.page_with(text, json.loads(auto_fleet.FILE.read_text())) == text


def test_an_earlier_version_is_told_from_the_present_one():
    assert versions("Measured on m; streamgp 0.3.0; experts and rivals: 0.1.0, python 3.12.3.") == {"0.3.0", "0.1.0"}
    assert versions("Measured on m; python 3.12.3, numpy 2.0.0.") == set()


if __name__ == "__main__":
    for page, name, found in older():
        print(f"{page}: {name}: {', '.join(found)}")
