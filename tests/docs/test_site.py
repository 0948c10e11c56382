"""The site: its navigation has every page, its reference every public name, and nothing asks another host."""

from __future__ import annotations

import re
from pathlib import Path

import streamgp as sg

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
    shown = re.findall(r"^::: streamgp\.(?:api\.)?(\w+)$", text, re.MULTILINE)
    elsewhere = {"ESGP", "SSGPR"}  # among the batch models
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
