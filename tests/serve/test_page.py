"""The page in a real browser: streams appear, the band follows, a stopped server is shown and recovers."""

from __future__ import annotations

import time

import httpx
import pytest

from streamgp.serve.access import create_token, revoke_token
from tests.cli.browser import CHROMIUM, Browser
from tests.serve.killing import Killable
from tests.serve.running import QUICK, rows

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="the page is tested in Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = Killable(tmp_path_factory.mktemp("data"))
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            httpx.get(f"{found.url}/healthz")
            break
        except httpx.TransportError:
            time.sleep(0.05)
    yield found
    found.close()


@pytest.fixture
def browser(server, tmp_path):
    found = Browser(tmp_path / "chromium", server.url)
    yield found
    found.close()


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


def enter(browser, selector, kind, text):
    """As a person would, in a box of the page."""
    box = f"document.querySelector('{selector}')"
    browser.value(f"({box}.value = '{text}', {box}.dispatchEvent(new Event('{kind}')))")


def until(browser, expression, wait=20.0):
    """The value of an expression as soon as it is true."""
    end = time.monotonic() + wait
    while not (found := browser.value(expression)):
        assert time.monotonic() < end, (expression, browser.value("document.body.innerText"), browser.troubles)
        time.sleep(0.1)
    return found


TEXT = "document.querySelector('#main').innerText"
LABEL = "document.querySelector('[data-chart=rows]').getAttribute('aria-label')"
# How many pixels of the chart have the color of the band, and not that of lines or of the page.
BAND = """(() => {
  const canvas = document.querySelector('[data-chart=rows] canvas');
  if (!canvas) return 0;
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] > 30 && data[i + 3] < 120 && data[i + 2] > data[i] + 50) count += 1;
  }
  return count;
})()"""


def test_streams_appear_the_band_follows_and_a_stopped_server_recovers(server, http, browser):
    browser.open(f"{server.url}/", 1100)
    assert "No streams yet" in until(browser, f"{TEXT}.includes('curl') && {TEXT}")
    assert f"{server.url}/v1/streams/boiler" in browser.value(TEXT)
    http.put("/v1/streams/boiler", json=QUICK)
    http.post("/v1/streams/boiler/rows", json=rows(200))
    until(browser, f"{TEXT}.includes('boiler') && {TEXT}.includes('200')")
    until(browser, "document.querySelector('polyline').getAttribute('points').length > 100")
    # The keyboard opens it.
    until(browser, "document.querySelector('tbody a').focus(), document.activeElement.textContent === 'boiler'")
    for kind in ("rawKeyDown", "char", "keyUp"):
        browser.call(
            "Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r"
        )
    until(browser, f"{LABEL}?.includes('to 200.')")
    assert until(browser, BAND) > 1000
    http.post("/v1/streams/boiler/rows", json=rows(7, 200))
    until(browser, f"{LABEL}.includes('to 207.')", wait=5)
    until(browser, f"{TEXT}.includes('KRLST')")
    assert browser.troubles == []
    server.kill()
    until(browser, "document.querySelector('#connection').textContent === 'disconnected'")
    assert "does not answer" in browser.value("document.querySelector('#trouble').innerText")
    assert "207" in browser.value(LABEL)
    server.start()
    until(browser, "document.querySelector('#connection').textContent === 'live'")
    assert browser.value("document.querySelector('#trouble').hidden")
    http.post("/v1/streams/boiler/rows", json=rows(3, 207))
    until(browser, f"{LABEL}.includes('to 210.')")


def test_the_page_is_usable_with_a_screen_reader_and_on_a_phone(server, http, browser):
    http.put("/v1/streams/boiler", json=QUICK)
    http.post("/v1/streams/boiler/rows", json=rows(60))
    for scheme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.open(f"{server.url}/?{scheme}#/stream/boiler", 390)
        until(browser, BAND)
        assert browser.value("document.documentElement.scrollWidth") <= 390
        assert browser.value("document.documentElement.lang") == "en"
        unnamed = (
            "[...document.querySelectorAll('[role=img], svg')].filter(one => !one.getAttribute('aria-label')).length"
        )
        assert browser.value(unnamed) == 0
        assert browser.value("[...document.querySelectorAll('select, input')].every(one => one.labels.length)")
        dark = browser.value("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        assert dark == (scheme == "dark")
    browser.open(f"{server.url}/?list#/", 390)
    until(browser, f"{TEXT}.includes('boiler')")
    assert browser.value("document.documentElement.scrollWidth") <= 390
    assert browser.troubles == []


def test_a_forecast_goes_on_where_the_rows_end(server, http, browser):
    http.put("/v1/streams/boiler", json=QUICK)
    http.post("/v1/streams/boiler/rows", json=rows(60))
    browser.open(f"{server.url}/?forecast#/stream/boiler", 1100)
    until(browser, BAND)
    enter(browser, ".ahead", "change", "24")
    assert "inputs are not used" in until(browser, "document.querySelector('.assumed').innerText", wait=60)
    assert "Forecast of row " in until(browser, f"{LABEL}.includes('Forecast') && {LABEL}")
    assert browser.troubles == []


def test_many_streams_are_searched_and_sorted(server, http, browser):
    for number in range(60):
        http.put(f"/v1/streams/pump-{number}", json=QUICK)
    http.post("/v1/streams/pump-41/rows", json=rows(5))
    browser.open(f"{server.url}/?many#/", 1100)
    names = "[...document.querySelectorAll('tbody a')].map(one => one.textContent)"
    until(browser, f"{names}.length === 50")
    assert "more streams" in browser.value("document.querySelector('.more').innerText")
    enter(browser, ".search", "input", "PUMP-4")
    until(browser, f"{names}.length === 11")
    enter(browser, ".order", "change", "rows")
    assert browser.value(names)[:2] == ["pump-41", "pump-4"]
    enter(browser, ".search", "input", "")
    browser.value("document.querySelector('.all').click()")
    until(browser, f"{names}.length >= 60")
    assert browser.troubles == []


def test_a_fleet_has_a_list_of_ids_and_a_plot_of_each(server, http, browser):
    settings = {"target": "y", "size": 60, "inputs": ["x"], "settings": {"capacity": 5, "warmup": 20}}
    http.put("/v1/fleets/plant", json=settings)
    table = [{"id": f"pump-{i:02d}", "x": row["x"], "y": row["y"]} for row in rows(40) for i in range(60)]
    http.post("/v1/fleets/plant/rows", json=table)
    browser.open(f"{server.url}/", 1100)
    assert until(browser, f"{TEXT}.includes('plant') && {TEXT}.includes('2\\u202f400')")
    browser.value("document.querySelector('.fleets a').click()")
    assert "10 more ids" in until(browser, f"{TEXT}.includes('pump-07') && {TEXT}")
    enter(browser, ".search", "input", "PUMP-55")
    assert until(
        browser,
        "document.querySelectorAll('tbody tr').length === 1 && document.querySelector('tbody a').click() === undefined",
    )
    assert "Rows 1 to 40." in until(browser, f"document.querySelector('[data-chart=rows] canvas') && {LABEL}")
    assert until(browser, BAND) > 200
    http.post("/v1/fleets/plant/rows", json=[{"id": "pump-55", "x": 1.0, "y": 2.0}])
    assert until(browser, f"{LABEL}.includes('Rows 1 to 41.')")
    assert not browser.troubles


def test_a_token_is_asked_for_and_kept_for_the_session(server, browser):
    token = create_token(server.folder, "read")
    time.sleep(1.1)
    browser.open(f"{server.url}/", 1100)
    assert "needs a token" in until(browser, f"{TEXT}.includes('token') && {TEXT}")
    browser.value(f"document.querySelector('#token').value = '{token}'; document.querySelector('form button').click()")
    until(browser, "document.querySelector('#connection').textContent === 'live' && !document.querySelector('form')")
    until(browser, f"{TEXT}.includes('boiler') || {TEXT}.includes('curl')")
    revoke_token(server.folder, 1)
