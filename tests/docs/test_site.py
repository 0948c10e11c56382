"""The site: its navigation has every page, its reference every public name, and nothing asks another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import streamgp as sg
from tests.cli.browser import CHROMIUM, Browser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIGURATION = (ROOT / "mkdocs.yml").read_text()
MODULES = {"batch", "data"}  # which the reference has as modules


def test_the_navigation_has_every_page():
    listed = re.findall(r"^ +- (?:[^:\n]+: )?([\w/-]+\.md)$", CONFIGURATION.partition("\nnav:")[2], re.MULTILINE)
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} | {"CHANGELOG.md"}
    assert sorted(listed) == sorted(pages), "a page has one line in the navigation of mkdocs.yml"


def test_the_reference_has_every_public_name():
    text = "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    shown = re.findall(r"^::: streamgp\.(?:api\.|filters\.)?(\w+)$", text, re.MULTILINE)
    elsewhere = {"filters"}  # whose models are among the others
    assert set(shown) >= set(sg.__all__) - elsewhere
    assert len(shown) == len(set(shown))
    assert set(shown) >= MODULES


def test_the_site_brings_what_its_pages_load():
    assert "font: false" in CONFIGURATION
    assert not re.search(r"https?://", CONFIGURATION)
    for path in (DOCS / "_static").iterdir():
        assert not re.search(r"https?://", path.read_text()), path
    for name in re.findall(r"_static/[\w.-]+", CONFIGURATION):
        assert (DOCS / name).exists()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.more
def test_the_site_is_built_without_a_warning(site):
    assert (site / "index.html").exists()
    assert (site / "examples" / "streamgp.service").exists()


@pytest.mark.more
def test_every_page_has_a_markdown_twin_that_the_list_for_machines_names(site):
    listed = re.findall(r"\]\(([\w/-]+\.md)\)", (site / "llms.txt").read_text())
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert sorted(listed) == sorted(pages | {"CHANGELOG.md"})
    for name in pages:
        assert (site / name).read_text() == (DOCS / name).read_text()
        assert (site / name).with_suffix(".html").exists()


@pytest.mark.more
@pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
def test_search_works_from_the_disk_and_no_page_asks_the_network(site, tmp_path):
    browser = Browser(tmp_path)
    try:
        for page in ("tutorials/robot-arm.html", "reference/sparse.html", "index.html"):
            browser.open(site / page, 1300)
        box = "document.querySelector('input[name=query]')"
        x, y = (browser.value(f"{box}.getBoundingClientRect().{side}") + 12 for side in ("x", "y"))
        for kind in ("mousePressed", "mouseReleased"):
            browser.mouse(kind, x, y, button="left", clickCount=1)
        while not browser.value(f"document.activeElement === {box}"):
            time.sleep(0.2)
        for letter in "conformal":
            browser.call("Input.dispatchKeyEvent", type="keyDown", text=letter, key=letter)
            browser.call("Input.dispatchKeyEvent", type="keyUp", key=letter)
        end = time.monotonic() + 60
        found = 0
        while not found and time.monotonic() < end:  # until the index is read
            time.sleep(0.2)
            found = browser.value("document.querySelectorAll('.md-search-result__item').length")
        assert found
        assert browser.troubles == []
    finally:
        browser.close()


@pytest.mark.more
@pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
def test_a_stream_drawn_with_the_mouse_is_learned_on_the_page(site, tmp_path):
    browser = Browser(tmp_path)
    try:
        browser.open(site / "in-your-browser.html", 1300)
        box = "document.getElementById('stream-canvas').getBoundingClientRect()"
        left, top, width, height = (browser.value(f"{box}.{side}") for side in ("x", "y", "width", "height"))
        browser.drag(left + 0.2 * width, left + 0.6 * width, top + 0.4 * height)
        told = ""
        while "rows: 3 · basis points: 3 of at most 40" not in told:
            time.sleep(0.1)
            told = browser.value("document.getElementById('stream-numbers').textContent")
        browser.value("document.getElementById('stream-again').click()")
        assert browser.value("document.getElementById('stream-numbers').textContent").startswith("rows: 0 ·")
        assert browser.troubles == []
    finally:
        browser.close()
