"""streamgp push: every row exactly once, whoever is stopped in between."""

from __future__ import annotations

import json
import math
import threading
import time

import httpx
import pytest
from typer.testing import CliRunner

from streamgp.cli.app import app
from streamgp.serve.push import Push
from streamgp.serve.sending import SendError
from tests.serve.running import QUICK, in_process, rows


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with in_process(tmp_path_factory.mktemp("data")) as client:
        yield client


def table(path, some):
    path.write_text("x,y\n" + "".join(f"{row['x']},{row['y']}\n" for row in some))
    return path


def seen(client, name):
    return client.get(f"/v1/streams/{name}/history", params={"rows": 10**6, "points": 5000}).json()["observed"]


def pushed(client, source, stream, **more):
    return Push(str(source), str(client.base_url).rstrip("/"), stream, QUICK, **more).run()


def test_a_file_is_sent_once_and_what_is_added_later_too(client, tmp_path):
    source = table(tmp_path / "a.csv", rows(250))
    assert pushed(client, source, "file") == 250
    assert pushed(client, source, "file") == 0
    table(source, rows(300))
    assert pushed(client, source, "file") == 50
    assert seen(client, "file") == [row["y"] for row in rows(300)]


@pytest.mark.parametrize("lost", [0, 1, 3])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_push_that_dies_around_a_request_is_repeated_exactly_once(client, tmp_path, monkeypatch, lost, when):
    source, name = table(tmp_path / "a.csv", rows(430)), f"dies-{when}-{lost}"
    ask, asked = httpx.Client.request, []

    def dying(self, method, url, **more):
        if method == "POST":
            asked.append(url)
            if len(asked) == lost + 1:
                if when == "after":
                    ask(self, method, url, **more)
                raise KeyboardInterrupt
        return ask(self, method, url, **more)

    monkeypatch.setattr(httpx.Client, "request", dying)
    with pytest.raises(KeyboardInterrupt):
        pushed(client, source, name)
    monkeypatch.setattr(httpx.Client, "request", ask)
    pushed(client, source, name, batch=37)
    assert seen(client, name) == [row["y"] for row in rows(430)]


def test_a_server_that_is_away_is_waited_for(tmp_path):
    source = table(tmp_path / "a.csv", rows(100))
    with in_process(tmp_path / "data") as client:
        url = str(client.base_url).rstrip("/")
    said = []
    with pytest.raises(SendError, match="Run the same command again"):
        Push(str(source), url, "s", QUICK, patience=0.5, say=said.append).run()
    assert any("trying again" in sentence for sentence in said)


def test_refusals_are_sentences_with_the_lines(client, tmp_path):
    source = table(tmp_path / "a.csv", rows(120))
    source.write_text(source.read_text() + "word,1\n")
    with pytest.raises(SendError, match="line 102 to 122: row 21 has 'word'"):
        pushed(client, source, "refused")
    source.write_text("x,y\n1,2\n1,2,3\n")
    with pytest.raises(SendError, match="line 3 has 3 values"):
        pushed(client, source, "refused2", state=tmp_path / "state")
    assert pushed(client, source, "refused2", state=tmp_path / "state", on_error="skip") == 0
    (tmp_path / "state").write_text("nonsense")
    with pytest.raises(SendError, match="is damaged"):
        pushed(client, source, "refused2", state=tmp_path / "state")
    (tmp_path / "state").write_text(json.dumps({"id": "", "position": [0, 0, ""], "pending": 0}))
    with pytest.raises(SendError, match="push to another stream"):
        pushed(client, source, "refused2", state=tmp_path / "state")


@pytest.mark.parametrize("ending", ["parquet", "ndjson"])
def test_nan_is_sent_as_a_missing_value_and_infinity_is_refused_by_its_row(client, tmp_path, ending):
    some = rows(60)
    some[5]["x"] = some[30]["y"] = math.nan
    source = typed(tmp_path / f"a.{ending}", some)
    assert pushed(client, source, f"nan-{ending}") == 60
    observed = [None if math.isnan(row["y"]) else row["y"] for row in some]
    assert seen(client, f"nan-{ending}") == observed
    some[40]["y"] = math.inf
    with pytest.raises(SendError, match="row 41 has an infinite number in the column 'y'"):
        pushed(client, typed(tmp_path / f"b.{ending}", some), f"inf-{ending}")


def typed(path, some):
    """Rows as numbers, not as text."""
    if path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist(some), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in some))
    return path


def test_a_file_that_was_changed_is_not_sent_again(client, tmp_path):
    source = table(tmp_path / "a.csv", rows(1200))
    assert pushed(client, source, "changed", batch=600) == 1200
    table(source, rows(1300, 1))
    with pytest.raises(SendError, match="does not begin as the file .* To send all rows of this one, delete .*[.]push"):
        pushed(client, source, "changed")
    table(source, rows(900))
    with pytest.raises(SendError, match="has 901 lines, but 1201 of it were read before"):
        pushed(client, source, "changed")
    assert client.get("/v1/streams/changed").json()["rows"] == 1200


def test_numbers_that_can_be_read_in_two_ways_are_refused_until_the_stream_says_how(client, tmp_path):
    source = tmp_path / "a.csv"
    source.write_text("x,y\n" + "".join(f'{i % 7},"{1000 + 96 * i:,}"\n' for i in range(60)))
    with pytest.raises(SendError, match="'1,000', which may be 1000 or 1; say which with `decimal=.` "):
        pushed(client, source, "unclear")
    settings = QUICK | {"settings": QUICK["settings"] | {"decimal": "."}}
    assert Push(str(source), str(client.base_url).rstrip("/"), "clear", settings).run() == 60
    assert seen(client, "clear") == [1000.0 + 96 * i for i in range(60)]


def test_a_growing_file_is_followed_also_when_it_is_replaced(client, tmp_path):
    source, stop = table(tmp_path / "log.csv", rows(60)), threading.Event()
    thread = threading.Thread(target=pushed, args=(client, source, "follow"), kwargs={"follow": True, "stop": stop})
    thread.start()
    try:
        wait(client, "follow", 60)
        with open(source, "a") as file:
            file.writelines(f"{row['x']},{row['y']}\n" for row in rows(30, 60))
        wait(client, "follow", 90)
        source.rename(tmp_path / "old.csv")
        table(source, rows(60))  # the same rows again are new ones
        wait(client, "follow", 150)
    finally:
        stop.set()
        thread.join(30)
    assert seen(client, "follow") == [row["y"] for row in rows(90) + rows(60)]


def wait(client, name, count):
    end = time.monotonic() + 20
    while client.get(f"/v1/streams/{name}").json().get("rows") != count:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_command_creates_the_stream_and_says_how_it_goes(client, tmp_path):
    source = table(tmp_path / "a.csv", rows(150))
    arguments = ["push", str(source), "--to", str(client.base_url), "--stream", "command", "--target", "y"]
    more = ["--model", "KRLST", "--set", "tune=off", "--set", "warmup=20", "--set", "level=0.8"]
    done = CliRunner().invoke(app, [*arguments, *more])
    assert done.exit_code == 0, done.output
    assert "150 rows sent" in done.output
    assert client.get("/v1/streams/command").json()["settings"]["level"] == 0.8
    again = CliRunner().invoke(app, [*arguments, *more, "--set", "capacity=9"])
    assert again.exit_code == 3
    assert "exists with other settings" in again.output
