from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import streamgp as sg
from streamgp.cli.settings import FLAGS, with_options
from streamgp.job.named import model_names
from streamgp.recipes.bibliography import PUBLISHED, citation, published
from tests.cli.test_run import SMALL, streamgp
from tests.cli.test_run import table as rows_at

ROOT = Path(__file__).parents[2]


def plain(*arguments):
    done = streamgp(*arguments)
    assert done.exit_code == 0, done.stderr
    return done.stdout


# Help


def commands():
    names = re.findall(r"^  (\w+) ", plain("--help").partition("Commands:")[2], re.MULTILINE)
    assert {"run", "demo", "compare", "models", "inspect", "cite"} <= set(names)
    return names


def test_every_command_has_at_most_a_dozen_options_besides_those_of_some_streams():
    for name in commands():
        text = plain(name, "--help")
        options = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE)) - {
            "--help",
            "--target",
            "--ticket-column",
            "--budget",
            "--trees",
            "--half-life",
            "--alarms",
            "--prior",
            "--schema",
            "--new-source",
        }
        assert len(options) <= 12, (name, options)


def test_every_setting_that_the_command_line_spells_is_an_option():
    options = set(
        re.findall(r"--[\w-]+", "".join(plain(name, "--help") for name in ("run", "serve", "push", "forecast")))
    )
    assert set(FLAGS.values()) - {"the source"} <= options


def test_settings_become_options_and_what_users_wrote_stays():
    sentence = "`source` and `out`; `ticket`, `on_error=skip`, `capacity=...`, `half_life`, `other`"
    options = "the source and --out; --ticket-column, --on-error skip, --set capacity=..., --half-life, `other`"
    assert with_options(sentence) == options
    assert with_options("there is no column '`out`'") == "there is no column '`out`'"


@pytest.mark.parametrize("package", ["job", "tables"])
def test_the_library_names_settings_and_no_options(package):
    for path in (ROOT / "src" / "streamgp" / package).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not re.search(r"--[a-z]", node.value), f"{path.name}:{node.lineno}"


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from streamgp.cli.app import app\n"
        "try: app(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "print({'numpy', 'numba', 'scipy', 'pandas', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "set()", done.stderr


@pytest.mark.parametrize(("asked", "used"), [(None, "1"), ("3", "3")])
def test_blas_has_one_thread_unless_it_is_asked_for_more(monkeypatch, asked, used):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    code = (
        "import os, sys; sys.argv = ['streamgp', '--version']; from streamgp.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(os.environ['OMP_NUM_THREADS'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == used, done.stderr


def test_the_page_shows_the_help_of_every_command():
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    assert set(re.findall(r"<!-- help (\w+) -->", page)) == set(commands())


def test_without_typer_the_command_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from streamgp.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip() == 'the command streamgp needs typer: pip install "streamgp[cli]"'


def test_a_variable_shows_where_an_error_was_raised(monkeypatch):
    arguments = ["run", "no.csv", "--target", "y"]
    said = streamgp(*arguments)
    assert "Traceback" not in said.output
    monkeypatch.setenv("STREAMGP_TRACEBACK", "1")
    shown = streamgp(*arguments)
    assert shown.exit_code == said.exit_code == 3
    assert "Traceback (most recent call last)" in shown.stderr
    assert shown.stderr.endswith(said.stderr)


def test_the_version_is_printed():
    assert plain("--version").strip() == sg.__version__


# Models


def test_the_list_of_models_is_that_of_the_exported_ones():
    # A committee is made of others, Encoded has an encoder, and TimeGP takes no columns: names alone say too little.
    assert sorted(entry.name for entry in PUBLISHED) == sorted([*model_names(), "Committee", "Encoded", "TimeGP"])
    for entry in PUBLISHED:
        kind = getattr(sg.filters if entry.name in sg.filters.__all__ else sg, entry.name)
        assert entry.variance == kind.has_variance, entry.name
        remembers = "depth" in inspect.signature(kind).parameters
        assert remembers == entry.memory.startswith("window"), entry.name
        assert ("reservoir" in inspect.signature(kind).parameters) == (entry.memory == "reservoir"), entry.name


def test_models_are_listed_for_people_and_machines(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    text = plain("models")
    assert "KRLST" in text
    assert "vanvaerenbergh2016" in text
    listed = [json.loads(line) for line in plain("models", "--json").splitlines()]
    assert [entry["name"] for entry in listed] == [entry.name for entry in PUBLISHED]
    assert listed[0] == {
        "name": "SOGP",
        "papers": ["soh2014", "csato2002"],
        "memory": "window",
        "cost": "m²",
        "variance": True,
    }


# Citations


def test_every_model_can_be_cited():
    for entry in PUBLISHED:
        if entry.papers:
            text = citation(entry.name)
            assert re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE) == list(entry.papers)
            assert text.count("{") == text.count("}")


def test_cite_prints_bibtex():
    assert plain("cite", "issgpr").startswith("@article{gijsberts2013,")
    assert json.loads(plain("cite", "KRLS", "--json"))["papers"] == ["vanvaerenbergh2016", "engel2004"]
    done = streamgp("cite", "KRLX")
    assert done.exit_code == 2
    assert "there is no model 'KRLX'. Did you mean 'KRLS'?" in done.stderr
    with pytest.raises(ValueError, match="OnlineGP is a composition of one's own"):
        citation("OnlineGP")
    assert published("rls" + "esn").name == "RLSESN"


# Inspect


def test_a_saved_run_is_described(tmp_path):
    saved = tmp_path / "m.sgp"
    streamgp("run", rows_at(tmp_path / "a.csv"), "--target", "y", "--save", saved, "--out", tmp_path / "o.csv", *SMALL)
    text = plain("inspect", saved)
    for sentence in ("a run over rows of a table", "KRLST (as requested)", "rows seen", "repairs 0", "x 0."):
        assert sentence in text
    found = json.loads(plain("inspect", saved, "--json"))
    assert (found["rows"], found["rows seen"], found["size"], found["target"]) == (80, 80, 8, "y")
    assert set(found["relevance"]) == set(found["inputs"])
    assert found["health"]["repairs"] == 0


def test_a_saved_model_is_described(tmp_path):
    model = sg.filters.QKLMS(capacity=5)
    model.learn_many(np.arange(10.0)[:, None], np.arange(10.0))
    model.save(tmp_path / "m.sgp")
    found = json.loads(plain("inspect", tmp_path / "m.sgp", "--json"))
    assert (found["holds"], found["rows seen"]) == ("a model", 10)
    done = streamgp("inspect", tmp_path / "none.sgp")
    assert done.exit_code == 3
    assert "none.sgp cannot be read: No such file or directory" in done.stderr


# Compare


def test_models_are_ranked_on_the_same_rows(tmp_path):
    source = rows_at(tmp_path / "a.csv", 300)
    small = ["--set", "capacity=8", "--set", "tune=off", "--set", "warmup=100"]
    done = streamgp("compare", source, "--target", "y", "--models", "KRLST,QKLMS", "--json", *small)
    assert done.exit_code == 0, done.stderr
    ranking = [json.loads(line) for line in done.stdout.splitlines()]
    assert {rank["name"] for rank in ranking} == {"KRLST", "QKLMS", "previous value"}
    assert [rank["loss"] for rank in ranking] == sorted(rank["loss"] for rank in ranking)
    assert ranking[0]["excess"] == 0
    assert all(rank["low"] <= rank["excess"] <= rank["high"] for rank in ranking)
    assert all(rank["scores"]["rows"] == 200 for rank in ranking if rank["scores"])
    single = streamgp("run", source, "--target", "y", "--json", "--model", "QKLMS", *small).stdout.splitlines()[:-1]
    rows = [json.loads(line) for line in single][100:]
    loss = np.mean([(row["mean"] - row["observed"]) ** 2 for row in rows])
    assert next(rank["loss"] for rank in ranking if rank["name"] == "QKLMS") == pytest.approx(loss, abs=1e-12)
    text = plain("compare", source, "--target", "y", "--models", "KRLST,QKLMS", "--by", "density", *small)
    assert "Scored on 200 rows, from row 101 on" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--models", "KRLST"], "give at least two different models, such as KRLST,ISSGPR; got KRLST"),
        (["--by", "luck"], "by must be one of 'rmse', 'density'; got 'luck'"),
        (["--set", "capasity=3"], "none of the models has a setting 'capasity'. Did you mean 'capacity'?"),
        (
            ["--models", "KRLST,QKLMS", "--set", "tune=off"],
            "the table has 30 rows, but the first 1000 only tune",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path, arguments, message):
    done = streamgp("compare", rows_at(tmp_path / "a.csv", 30), "--target", "y", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_what_a_run_holds_is_shown_in_few_lines():
    from streamgp.cli.inspect import _counted, _shown

    assert _shown(list(range(100))) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 88 more"
    assert _shown(dict.fromkeys("ab", 0.123456)) == "a 0.1235, b 0.1235"
    assert len(_shown("KRLST + " * 100)) == 200
    assert _shown(_counted({"skipped_rows": 0, "repairs": 0, "diverged": []})) == "repairs 0"
    assert _shown({}) == "none"
