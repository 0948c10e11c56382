"""The pages are true: examples run, settings tables are those of the classes, citations, tests and links exist."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

import streamgp as sg
from streamgp import deep
from streamgp.cli.app import COMMANDS
from streamgp.job.request import RunSettings
from streamgp.settings import Configured

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TEXTS = {str(page.relative_to(ROOT)): page.read_text() for page in PAGES}
CLASSES = {
    name: kind
    for module in (sg, sg.batch, sg.filters, deep)
    for name in module.__all__
    if inspect.isclass(kind := getattr(module, name)) and issubclass(kind, Configured) and not inspect.isabstract(kind)
} | {"RunSettings": RunSettings}

# Import names of packages that are not called as they are installed.
IMPORTED_AS = {"scikit-learn": "sklearn"}


def optional_packages():
    """The import names of everything that is installed only with an extra."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {re.split(r"[\[<>=~! ;]", line)[0] for lines in extras.values() for line in lines}
    return {IMPORTED_AS.get(name, name) for name in names - {"streamgp"}} | {"rich", "pandas"}


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "_site" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OUTPUTS, refreshed = script("outputs"), script("pages").refreshed


FIRST = ("docs/getting-started.md",)  # which make test runs


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page in FIRST else pytest.mark.more)
        for page, text in TEXTS.items()
        if any(OUTPUTS.blocks(text))
    ],
)
def test_every_example_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    namespace = {"__name__": "example"}
    for block, line in OUTPUTS.blocks(TEXTS[page]):
        try:
            said = OUTPUTS.run(block["source"], namespace, str(ROOT / page), line)
        except ImportError as error:
            package = (error.name or "").partition(".")[0]
            if package not in optional_packages():
                raise
            pytest.skip(f"{page} needs the optional package {package}, which is not installed")
        if block["shown"]:
            message = f"{page}, line {line}: python docs/_site/outputs.py {page}\n{said}"
            assert OUTPUTS.alike(block["shown"], OUTPUTS.shortened(said)), message
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


# Settings


def tables(text):
    """Every table: the headings above it, outermost first, its own header, and its rows."""
    headings, rows, fenced = {}, [], False
    for line in [*text.splitlines(), ""]:
        fenced ^= line.startswith("```")
        if not fenced and (heading := re.match(r"(#+) (.*)", line)):
            level = len(heading[1])
            headings = {depth: title for depth, title in headings.items() if depth < level} | {level: heading[2]}
        if re.match(r"\|[ -]", line) and not fenced:
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif rows:
            assert len(rows) > 2, f"this looks like a table, but has no rows: {rows}"
            yield list(headings.values()), rows[0], rows[2:]
            rows = []


def classes_in(text):
    """The exported classes that a heading names."""
    return [name for name in dict.fromkeys(re.findall(r"\w+", text)) if name in CLASSES]


@pytest.fixture(scope="module")
def documented():
    """By class: the page, and the cells of every setting by name."""
    found: dict[str, tuple[str, dict[str, dict[str, str]]]] = {}
    for page, text in TEXTS.items():
        for headings, header, body in tables(text):
            if header[0] != "setting":
                continue
            named = next((names for title in reversed(headings) if (names := classes_in(title))), [])
            assert named, f"{page}: no heading above the table of settings names a class: {headings}"
            for row in body:
                assert len(row) == len(header), f"{page}: the row {row} has other columns than {header}"
                cells = dict(zip(header, row, strict=True))
                owners = named if cells.get("of", "all") == "all" else [name.strip() for name in cells["of"].split(",")]
                assert set(owners) <= set(named), f"{page}: {owners} are not among {named}"
                for owner in owners:
                    where, settings = found.setdefault(owner, (page, {}))
                    assert where == page, f"{owner} has tables of settings on {where} and on {page}"
                    name = cells["setting"].strip("`")
                    assert name not in settings, f"{page}: {owner} has {name} twice"
                    settings[name] = cells
    return found


def test_every_exported_class_has_a_table_of_its_settings(documented):
    assert set(documented) == {name for name, kind in CLASSES.items() if kind.setting_names()}


def test_tables_of_settings_are_those_of_the_classes(documented):
    for name, (page, settings) in documented.items():
        assert_describes(name, page, settings)


def assert_describes(name, page, settings):
    parameters = inspect.signature(CLASSES[name]).parameters
    assert sorted(settings) == sorted(parameters), page
    for setting, parameter in parameters.items():
        said = settings[setting].get("default", "").strip("`")
        if parameter.default is inspect.Parameter.empty:
            assert said == "required", f"{page}: {name} needs {setting}"
        elif isinstance(parameter.default, Configured):
            assert said == repr(parameter.default), f"{page}: the default of {name}'s {setting}"
        elif parameter.default is not None:
            assert ast.literal_eval(said) == parameter.default, f"{page}: the default of {name}'s {setting}"
        else:
            assert said == "None" or said.endswith("()"), f"{page}: the default of {name}'s {setting}"


def test_tables_of_described_settings_are_made_from_the_classes():
    made = {
        name
        for text in TEXTS.values()
        for names in re.findall(r"^<!-- settings (.*) -->$", text, re.MULTILINE)
        for name in names.split()
    }
    assert made == {name for name, kind in CLASSES.items() if kind.described}
    for page, text in TEXTS.items():
        assert refreshed(text) == text, f"python docs/_site/pages.py {page}"


def test_every_command_is_in_the_reference():
    shown = set(re.findall(r"^<!-- help (.*) -->$", TEXTS["docs/reference/commands.md"], re.MULTILINE))
    assert shown == {*COMMANDS, "token", "token create"}


def test_every_described_class_describes_all_its_settings():
    for name, kind in CLASSES.items():
        assert not kind.described or list(kind.described) == list(kind.setting_names()), name


def test_every_exported_model_has_a_page_of_its_own_or_with_its_relatives():
    models = [name for name, kind in CLASSES.items() if issubclass(kind, sg.StreamModel)]
    assert len(models) > 15
    for name in models:
        titles = [page for page, text in TEXTS.items() if name in classes_in(text.splitlines()[0])]
        assert len(titles) == 1, f"{name} is in the titles of {titles}"
        linked = os.path.relpath(titles[0], "docs/models")
        assert f"({linked})" in TEXTS["docs/models/index.md"], f"docs/models/index.md has no link to {titles[0]}"


# Citations, tests and links


def bibliography():
    """Key to first author's last name and the year of the key or of the publication."""
    entries = re.findall(r"^@\w+\{(\w+),\n(.*?)^\}", (ROOT / "references.bib").read_text(), re.DOTALL | re.MULTILINE)
    return {
        key: (
            re.sub(r"[{}\\'~]", "", re.search(r"author\s*=\s*\{(.*?),", body)[1]),
            re.search(r"year\s*=\s*\{(\d{4})\}", body)[1],
        )
        for key, body in entries
    }


def cited(text):
    """Every citation in square brackets: a key, or authors and a year."""
    for bracket in re.findall(r"\[([^\[\]]*(?:19|20)\d\d[^\[\]]*)\](?!\()", text):
        for part in bracket.split(";"):
            if match := re.match(r"\s*([a-z]+(?:19|20)\d\d)\b", part):
                yield match[1]
            elif match := re.fullmatch(r"\s*([A-Z][\w-]+)(?: |,|$).*?((?:19|20)\d\d)", part, re.DOTALL):
                yield match[1], match[2]


def test_everything_cited_is_in_the_bibliography():
    entries = bibliography()
    assert {"soh2014", "huber2013", "vanvaerenbergh2016", "alshedivat2017", "gijsberts2013"} <= set(entries)
    works = {(author, year) for author, year in entries.values()}
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "src").rglob("*.py"))}
    missing = {
        (page, citation)
        for page, text in (TEXTS | sources).items()
        for citation in cited(text)
        if citation not in entries and citation not in works
    }
    assert not missing
    assert ("Engel", "2004") in set(cited(sources["src/streamgp/recipes/vanvaerenbergh2016.py"]))
    keys = {citation for text in (TEXTS | sources).values() for citation in cited(text)}
    assert {"soh2014", "csato2002", "yu2016"} <= keys


def test_every_entry_of_the_bibliography_has_an_author_a_title_a_year_and_a_place():
    text = (ROOT / "references.bib").read_text()
    entries = re.findall(r"^@(\w+)\{(\w+),\n(.*?)^\}", text, re.DOTALL | re.MULTILINE)
    keys = [key for _, key, _ in entries]
    assert len(keys) == len(set(keys)) == text.count("\n@") + text.startswith("@")
    for _kind, key, body in entries:
        fields = set(re.findall(r"^  (\w+)\s*=", body, re.MULTILINE))
        assert {"author", "title", "year"} <= fields, key
        assert fields & {"journal", "booktitle", "publisher"}, key
        assert body.count("{") == body.count("}"), key


def test_every_test_that_a_page_names_exists():
    names = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    for page, text in TEXTS.items():
        told = set(re.findall(r"`(test_\w+)`", text))
        assert told <= names, (page, told - names)


def anchors(text):
    """What a heading is called in a link."""
    titles = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_between_pages_resolve():
    for page, text in TEXTS.items():
        prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            if re.match(r"https?://", target):
                continue
            path, _, anchor = target.partition("#")
            linked = (ROOT / page).parent / path if path else ROOT / page
            assert linked.exists(), f"{page} links to {target}, which does not exist"
            if anchor:
                assert anchor in anchors(linked.read_text()), f"{page} links to {target}, which has no such heading"


def test_every_page_can_be_reached_from_the_navigation():
    seen, waiting = set(), [f"docs/{page}" for page in re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text())]
    while waiting:
        page = waiting.pop()
        if page in seen or page not in TEXTS:
            continue
        seen.add(page)
        targets = re.findall(r"\]\(([^)\s#]+\.md)", TEXTS[page])
        waiting += [str(((ROOT / page).parent / target).resolve().relative_to(ROOT.resolve())) for target in targets]
    assert {page for page in TEXTS if page.startswith("docs/")} <= seen


def test_the_version_is_the_same_everywhere():
    version = sg.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert version in TEXTS["CHANGELOG.md"]
