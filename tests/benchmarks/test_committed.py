"""The tables of the pages are those of the committed results, and say with which version these were measured."""

from __future__ import annotations

import importlib
import json
import re

import pytest

import auto_rules
import auto_tables
import competitions
import loads
import main_job
import record
import render
import rivals_tables

pytestmark = pytest.mark.more

ROOT = record.ROOT
WHOLE = ("calibration", "drift", "forgetting", "forecasts", "auto_fleet", "serve", "main_job")  # make a page anew
ONE_TABLE = ("levels", "first_rows", "wrapper_cost", "horizons")
# Blocks that hold no measurements, by how their names begin, and those of reproductions, which no version changes.
OTHERS = ("settings ", "help ", "compared ", "short ", "result ", "table soh2014", "table alshedivat2017")
# Pages that say the version once for all of their tables, or show in short what the page has that they link to.
SAID_ON = {"README.md": "docs/rivals.md"} | {page: page for page in ("docs/performance.md", "docs/rivals.md")}
SAID = r"streamgp \d+\.\d+\.\d+"


def made_anew():
    """Pages, and what they are when their tables are made from the results."""
    for page in render.pages():
        yield page, render.rendered
    for script in map(importlib.import_module, WHOLE):
        results = script.RESULTS if script.RESULTS.is_file() else script.FILE
        report = json.loads(results.read_text())
        for page in getattr(script, "PAGES", None) or [script.PAGE]:
            yield page, lambda text, script=script, report=report: script.page_with(text, report)
    for script in map(importlib.import_module, ONE_TABLE):
        table = script.table(json.loads(script.RESULTS.read_text()))
        yield script.PAGE, lambda text, of=script, table=table: of.replaced(text, of.BEGIN, of.END, table)
    alarms = importlib.import_module("alarms")
    for name, table in alarms.tables(json.loads(alarms.RESULTS.read_text())).items():
        marks = f"<!-- {name} -->", f"<!-- end of {name} -->"
        yield alarms.PAGE, lambda text, marks=marks, table=table: alarms.replaced(text, *marks, table)
    for page in main_job.PAGES:
        yield page, lambda text: main_job.filled(text, auto_tables.rendered(record.read("auto")))
    for page in rivals_tables.PAGES:
        yield page, lambda text: main_job.filled(text, rivals_tables.rendered(record.read("rivals")))
    yield ROOT / "docs" / "models" / "committee.md", lambda text: auto_rules.page_with(text, record.read("auto_rules"))


def test_committed_tables_are_those_of_the_results():
    for page, made in made_anew():
        text = page.read_text()
        assert made(text) == text, page
    page = (ROOT / "docs" / "next-24-hours.md").read_text()
    report = competitions.read(competitions.RESULTS / "forecasts_m4.json")
    for title, table in {
        "table of competitions.py": competitions.table(),
        "table of loads.py": loads.table(json.loads(loads.RESULTS.read_text())),
        "rivals on m4": competitions.table_of_rivals(report),
    }.items():
        assert page.partition(f"<!-- {title} -->\n")[2].partition("\n<!-- end of table -->")[0] == table


def test_committed_tables_say_their_version():
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))):
        page, text = path.relative_to(ROOT).as_posix(), path.read_text()
        if other := SAID_ON.get(page):
            assert re.search(SAID, (ROOT / other).read_text()), page
            continue
        for name, block in re.findall(r"<!-- (?!end)([^>]+?) -->\n(.*?)<!-- end\b", text, re.DOTALL):
            assert name.startswith(OTHERS) or re.search(SAID, block), f"{page}: {name}"
