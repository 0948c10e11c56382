"use strict";
// The page of a server: a list, one stream at #/stream/NAME, one fleet at #/fleet/NAME, and one id of it at
// #/fleet/NAME/ID. It talks to its own server only.

const POLL = 2000; // milliseconds between two looks at the server
const POINTS = 600; // of a chart
const FEW = 50; // streams of a list, before all are asked for
const KEY = "streamgp-token";
const SVG = "http://www.w3.org/2000/svg";
const $ = (selector, root = document) => root.querySelector(selector);
const main = $("#main");
let look = null; // looks at the server, and shows what is there; null where nothing is to be looked for
let viewing = new AbortController(); // ends with what is shown at present
let timer = 0;
let anchors = []; // rows of the shown stream and their times, in seconds by its own clock

class Refused extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.hint = error.hint;
  }
}

function headers() {
  const token = sessionStorage.getItem(KEY);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function get(path) {
  const answer = await fetch(path, { headers: headers(), signal: viewing.signal, cache: "no-store" });
  const body = await answer.json();
  if (!answer.ok) throw new Refused(answer.status, body.error || { message: body.status || answer.statusText });
  return body;
}

// The state of the connection.

function connected(yes, sentence = "") {
  const shown = $("#connection"), trouble = $("#trouble");
  shown.textContent = yes ? "live" : "disconnected";
  shown.className = yes ? "live" : "lost";
  trouble.hidden = yes && !sentence;
  trouble.textContent = sentence;
}

function troubled(error) {
  if (error.name === "AbortError") return;
  if (error instanceof Refused) {
    connected(true, `${error.message}. ${error.hint || ""}`.trim());
    if (error.status === 401) askForToken();
  } else {
    connected(false, "The server does not answer. What you see is from before; this page tries again by itself.");
  }
}

// Elements and numbers.

function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function show(template, title = "") {
  document.title = title ? `${title} \u2013 streamgp` : "streamgp";
  main.replaceChildren($(`#${template}`).content.cloneNode(true));
  if (title) $("h1").textContent = title;
}

function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

const number = (value) => value == null ? "\u2013" : Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
const count = (value) => value.toLocaleString("en").replaceAll(",", "\u202f");
const percent = (value) => value == null ? "\u2013" : `${(100 * value).toFixed(1)}%`;
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// Tables of streams, of fleets and of ids: a link, the last targets where there are some, and numbers.

function fillTable(table, first, rows, items) {
  if (!table.tBodies.length && items.length) {
    const { recent, numbers, state } = items[0], head = element("tr"), columns = [[first, ""]];
    if (recent) columns.push(["Last targets", ""]);
    for (const label of Object.keys(numbers)) columns.push([label, "number"]);
    if (state) columns.push(["State", "stated"]);
    head.append(...columns.map(([label, kind]) => element("th", label, { scope: "col", class: kind })));
    table.createTHead().append(head);
    table.createTBody();
  }
  const names = new Set(items.map((one) => one.name)), body = table.tBodies[0];
  for (const [name, row] of rows) if (!names.has(name)) { row.remove(); rows.delete(name); }
  items.forEach((item, at) => {
    if (!rows.has(item.name)) rows.set(item.name, tableRow(item));
    const row = rows.get(item.name);
    if (body.children[at] !== row) body.insertBefore(row, body.children[at] || null);
    fill(row, item);
  });
}

function tableRow({ name, href, recent, numbers, state }) {
  const row = element("tr"), head = element("th", "", { scope: "row" });
  head.append(element("a", name, { href }), element("span", "", { class: "target" }));
  row.append(head);
  if (recent) {
    const spark = element("td"), drawing = document.createElementNS(SVG, "svg");
    const attributes = { viewBox: "0 0 100 20", preserveAspectRatio: "none", class: "spark", role: "img" };
    for (const [key, value] of Object.entries(attributes)) drawing.setAttribute(key, value);
    drawing.append(document.createElementNS(SVG, "polyline"));
    spark.append(drawing);
    row.append(spark);
  }
  for (const label of Object.keys(numbers)) row.append(element("td", "", { class: "number", "data-label": label }));
  if (state) {
    const cell = element("td", "", { class: "stated" });
    cell.append(element("span", "", { class: "state" }), element("span", "", { class: "doing" }));
    row.append(cell);
  }
  return row;
}

function fill(row, { about, recent, numbers, alarms, level, state, doing }) {
  setText($(".target", row), about || "");
  for (const cell of row.querySelectorAll(".number")) {
    setText(cell, numbers[cell.dataset.label]);
    if (cell.dataset.label === "Alarms") cell.classList.toggle("alarms", alarms > 0);
    if (cell.dataset.label === "Coverage") cell.title = `of ${percent(level)} intervals`;
  }
  if (state) {
    setText($(".state", row), state);
    $(".state", row).className = `state ${state}`;
    setText($(".doing", row), doing);
  }
  if (!recent) return;
  const known = recent.filter((value) => value != null);
  const low = Math.min(...known), span = Math.max(...known) - low || 1;
  const points = recent.map((value, i) => value == null ? "" :
    `${(100 * i / Math.max(recent.length - 1, 1)).toFixed(1)},${(18.5 - 17 * (value - low) / span).toFixed(1)}`);
  $("polyline", row).setAttribute("points", points.join(" "));
  $("svg", row).setAttribute("aria-label", known.length ? `last targets, from ${number(low)} to ${number(low + span)}` : "no targets yet");
}

// A table of many that is searched and sorted; some are shown, until all are asked for.
function listing(title, orders, { changed, more }) {
  const made = $("#listing").content.cloneNode(true), rows = new Map();
  const search = $(".search", made), order = $(".order", made), all = $(".all", made), table = $("table", made), told = $(".more", made);
  $(".title", made).replaceWith(title);
  order.append(...Object.entries(orders).map(([value, label]) => element("option", label, { value })));
  all.textContent = more;
  const found = {
    search, order, all: false,
    show(first, items, rest, none) {
      fillTable(table, first, rows, items);
      setText(told, !items.length ? none : rest ? `${count(rest)} more ${first.toLowerCase()}s` : "");
      all.hidden = !rest || found.all && more !== "Show all";
    },
  };
  search.addEventListener("input", changed);
  order.addEventListener("change", changed);
  all.addEventListener("click", () => { found.all = true; changed(); });
  main.append(made);
  return found;
}

const ORDERS = { alarms: "most alarms", name: "name", rows: "most rows" }, MISSED = { coverage: "coverage far from its level" };
const scoresOf = ({ rows, rmse, coverage, alarms }) => ({ Rows: count(rows), "Error (RMSE)": number(rmse), Coverage: percent(coverage), Alarms: count(alarms) });

// All streams, and all fleets.

function listView() {
  let shown = "", streams = [], table = null;
  const fleetRows = new Map();

  function list() {
    const wanted = table.search.value.trim().toLowerCase();
    const found = streams.filter((one) => `${one.name} ${one.target} ${one.model}`.toLowerCase().includes(wanted));
    found.sort((a, b) => FIRST[table.order.value](a, b) || (a.name < b.name ? -1 : 1));
    const few = table.all ? found : found.slice(0, FEW);
    table.show("Stream", few.map(streamItem), found.length - few.length, streams.length ? "No stream has this in its name, target or model." : "No streams yet.");
  }

  return async () => {
    const [found, { fleets }] = await Promise.all([get("v1/streams"), get("v1/fleets")]);
    streams = found.streams;
    const wanted = streams.length + fleets.length ? "list-view" : "empty-view";
    if (shown !== wanted) {
      show(wanted);
      shown = wanted;
      fleetRows.clear();
      if (wanted === "empty-view") commands();
      else table = listing(element("h1", "Streams"), { ...ORDERS, ...MISSED }, { changed: list, more: "Show all" });
    }
    if (wanted === "empty-view") return;
    $(".fleets").hidden = !fleets.length;
    fillTable($(".fleets table"), "Fleet", fleetRows, fleets.map(fleetItem));
    list();
  };
}

const missed = (stream) => stream.coverage == null ? 0 : Math.abs(stream.coverage - stream.level);
const FIRST = {
  alarms: (a, b) => b.alarms - a.alarms,
  name: () => 0,
  rows: (a, b) => b.rows - a.rows,
  coverage: (a, b) => missed(b) - missed(a),
};

const streamItem = (stream) => ({
  ...stream, href: `#/stream/${encodeURIComponent(stream.name)}`, about: `${stream.target}, ${stream.model}`, numbers: scoresOf(stream),
});

const fleetItem = ({ name, settings, ids, rows, scores, health, state, doing }) => ({
  name, state, doing, alarms: health.alarms, level: settings.level,
  href: `#/fleet/${encodeURIComponent(name)}`, about: `${settings.target}, ${settings.model}`,
  numbers: { Ids: count(ids), Rows: count(rows), Coverage: percent(scores.coverage), Alarms: count(health.alarms) },
});

// One fleet, and one id of it.

function fleetView(name) {
  show("fleet-view", name);
  const path = `v1/fleets/${encodeURIComponent(name)}`, again = () => look().catch(troubled);
  const table = listing(element("h2", "Ids"), { ...ORDERS, error: "largest error", ...MISSED }, { changed: again, more: "Show 1\u202f000" });

  return async () => {
    const query = `ids?first=${table.order.value}&most=${table.all ? 1000 : FEW}&search=${encodeURIComponent(table.search.value.trim())}`;
    const [fleet, { found, ids }] = await Promise.all([get(path), get(`${path}/${query}`)]);
    const { settings, scores, spread, health, tickets } = fleet;
    describeState(fleet, " of each id");
    const over = (score, shownAs) => spread[score] ? `5% of the ids below ${shownAs(spread[score]["0.05"])}, 5% above ${shownAs(spread[score]["0.95"])}` : "";
    figures([
      ["Ids", count(fleet.ids), `of ${count(settings.size)}`],
      ["Rows", count(fleet.rows), `${count(scores.rows)} scored`],
      ["Error (RMSE)", number(scores.rmse), over("rmse", number)],
      ["Coverage", percent(scores.coverage), `of ${number(100 * settings.level)}% intervals; ${over("coverage", percent)}`],
      ["Alarms", count(health.alarms), settings.settings.alarms == null ? "rows are not judged" : `rate ${settings.settings.alarms}`],
      ...late(tickets),
    ]);
    const items = ids.map((one) => ({
      ...one, name: one.id, level: settings.level, href: `#/fleet/${encodeURIComponent(name)}/${encodeURIComponent(one.id)}`,
      numbers: {
        "Last value": number(one.observed), Interval: one.lower == null ? "\u2013" : `${number(one.lower)} to ${number(one.upper)}`,
        ...scoresOf(one),
      },
    }));
    table.show("Id", items, found - ids.length, fleet.ids ? "No id has this in it." : "No rows yet.");
  };
}

function sensorView(fleet, id) {
  anchors = [];
  show("sensor-view", id);
  $("nav a:last-child").textContent = fleet;
  $("nav a:last-child").href = `#/fleet/${encodeURIComponent(fleet)}`;
  const rows = chart("rows", rowsChart);
  return async () => {
    const history = await get(`v1/fleets/${encodeURIComponent(fleet)}/history?id=${encodeURIComponent(id)}`);
    rows.draw(history);
    happened(history.drift);
  };
}

function commands() {
  const url = (location.origin + location.pathname).replace(/\/$/, ""), json = "-H 'Content-Type: application/json'";
  const token = sessionStorage.getItem(KEY) ? " -H 'Authorization: Bearer TOKEN'" : "";
  const texts = {
    create: `curl -X PUT ${url}/v1/streams/boiler ${json}${token} \\\n  -d '{"target": "power"}'`,
    rows: `curl -X POST ${url}/v1/streams/boiler/rows ${json}${token} \\\n  -d '[{"temperature": 61.5, "pressure": 2.1, "power": 340}]'`,
    push: `streamgp push readings.csv --to ${url} --stream boiler --target power --follow`,
  };
  for (const shown of document.querySelectorAll("[data-command]")) shown.textContent = texts[shown.dataset.command];
}

// One stream.

function streamView(name) {
  anchors = [];
  show("stream-view", name);
  const path = `v1/streams/${encodeURIComponent(name)}`;
  const range = $(".range"), ahead = $(".ahead");
  if (window.innerWidth < 640) range.value = "200";
  const charts = [chart("rows", rowsChart), chart("rmse", rmseChart), chart("coverage", coverageChart)];
  let history = null, level = 0.9, forecast = null, forecasting = false;

  function draw() {
    for (const one of charts) one.draw({ ...history, forecast });
  }

  // A forecast may take seconds, while rows go on.
  async function foresee() {
    forecasting = true;
    try {
      const tail = (1 - level) / 2;
      const found = ahead.value ? await get(`${path}/forecast?ahead=${ahead.value}&quantiles=${tail.toFixed(6)},${(1 - tail).toFixed(6)}`) : null;
      if ((found ? String(found.row.length) : "") !== ahead.value) return;
      forecast = found;
      setText($(".assumed"), found ? `Forecast: ${found.assumed}.` : "");
    } catch (error) {
      if (!(error instanceof Refused)) return;
      forecast = null;
      setText($(".assumed"), `No forecast: ${error.message}.`);
    } finally {
      forecasting = false;
    }
    draw();
  }

  const isStale = () => ahead.value ? !forecast || String(forecast.row.length) !== ahead.value || forecast.issued < history.row.at(-1) : forecast;

  range.addEventListener("change", () => look().catch(troubled));
  ahead.addEventListener("change", () => { if (history && !forecasting) foresee(); });
  return async () => {
    const stream = await get(path);
    level = stream.settings.level;
    anchors = stream.times;
    describe(stream);
    history = await get(`${path}/history?rows=${range.value}&points=${POINTS}`);
    draw();
    if (!forecasting && history.row.length && isStale()) foresee();
  };
}

function figures(told) {
  const shown = $(".figures");
  while (shown.children.length > told.length) shown.lastChild.remove();
  told.forEach(([label, value, note], at) => {
    if (!shown.children[at]) {
      const box = element("div"), figure = element("dd");
      figure.append(element("span"), element("small"));
      box.append(element("dt"), figure);
      shown.append(box);
    }
    const box = shown.children[at];
    setText($("dt", box), label);
    setText($("span", box), value);
    setText($("small", box), note);
  });
}

function happened(drift) {
  const events = drift.slice(-20).reverse().map((event) => element("li", /^\d{4}-\d\d-\d\d/.test(event.event) ? event.event : `row ${count(event.row)}: ${event.event}`));
  $(".events").replaceChildren(...(events.length ? events : [element("li", "none so far", { class: "muted" })]));
}

const describeState = ({ settings, state, doing }, more) =>
  setText($(".about"), `predicts ${settings.target}${more}; model ${settings.model}; ${state}${doing ? `: ${doing}` : ""}`);

const late = ({ waiting, expired }) => waiting || expired ? [["Waiting for targets", count(waiting), `${count(expired)} expired`]] : [];

function describe(stream) {
  const { settings, scores, tickets, health } = stream;
  describeState(stream, settings.horizon ? `, ${settings.horizon} rows ahead` : "");
  const previous = scores.rmse_previous_value;
  const told = [
    ["Rows", count(stream.rows), `${count(scores.rows)} scored`],
    ["Error on average", number(scores.mae), previous == null ? "" : `RMSE ${number(scores.rmse)}, all rows; previous value ${number(previous)}`],
    ["Coverage", percent(scores.coverage), `of ${number(100 * settings.level)}% intervals, all rows`],
    ["Interval width", number(scores.mean_width), "on average, all rows"],
    ...late(tickets),
  ];
  if (health.repairs || health.diverged.length) told.push(["Numerical repairs", count(health.repairs), health.diverged.join(", ")]);
  figures(told);
  if ($(".verdict").textContent !== stream.verdict.join("")) $(".verdict").replaceChildren(...stream.verdict.map((text) => element("li", text)));
  $(".relevant").hidden = !Object.keys(stream.relevance).length;
  setText($(".chosen"), stream.chosen ? "" : stream.rows ? "still being chosen; these predict until then" : "no rows yet");
  weights($(".models tbody"), stream.models, "no model yet");
  weights($(".relevance tbody"), stream.relevance, "not known yet, or the models cannot tell");
  happened(stream.drift);
  $(".columns").replaceChildren(...stream.columns.map((text) => element("li", text)));
}

function weights(body, values, none) {
  const entries = Object.entries(values).filter(([, value]) => value >= 0.0005).slice(0, 12);
  const most = Math.max(...entries.map(([, value]) => value));
  if (!entries.length) {
    const row = element("tr");
    row.append(element("td", none, { class: "muted" }));
    body.replaceChildren(row);
    return;
  }
  body.replaceChildren(...entries.map(([name, value]) => {
    const row = element("tr"), cell = element("td");
    cell.append(element("meter", "", { min: 0, max: 1, value: value / most, "aria-hidden": "true" }));
    row.append(element("th", name, { scope: "row" }), cell, element("td", percent(value), { class: "number" }));
    return row;
  }));
}

// Charts.

function chart(name, options) {
  const place = $(`[data-chart=${name}]`), { signal } = viewing;
  let plot = null, width = 0, shown = null;

  function clear() {
    if (plot) plot.destroy();
    plot = null;
  }

  function draw(history) {
    shown = history;
    const { data, label, options: given } = options(history);
    place.setAttribute("aria-label", label);
    if (!data[0].length) {
      clear();
      place.replaceChildren(element("p", "no rows yet", { class: "none" }));
      return;
    }
    if (plot && width !== place.clientWidth) clear();
    if (!plot) {
      width = place.clientWidth;
      place.replaceChildren();
      const height = place.classList.contains("small") ? 170 : window.innerWidth < 640 ? 260 : 340;
      plot = new uPlot({ width, height, ...given }, data, place);
    }
    plot.history = history;
    plot.setData(data);
  }

  const again = () => { if (shown) draw(shown); };
  window.addEventListener("resize", again, { signal });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { clear(); again(); }, { signal });
  signal.addEventListener("abort", clear);
  return { draw };
}

// When a row came: between rows whose times are known, and beyond them by the time between the last ones.
function moment(row) {
  let low = 0, high = anchors.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; if (anchors[middle][0] <= row) low = middle; else high = middle; }
  const [a, s] = anchors[low], [b, t] = anchors[high];
  return s + (t - s) * (row - a) / (b - a || 1);
}

// Rows along an axis, by their times where they have any.
function rowLabels(plot, rows) {
  if (anchors.length < 2) return rows.map((row) => Number.isInteger(row) ? count(row) : "");
  const { min, max } = plot.scales.x, span = moment(max) - moment(min);
  return rows.map((row) => {
    const text = new Date(1000 * moment(row)).toISOString();
    return span > 20 * 86400 ? text.slice(0, 10) : span > 86400 ? `${text.slice(5, 10)} ${text.slice(11, 16)}` : text.slice(11, span > 600 ? 16 : 19);
  });
}

function common(series, axis = {}) {
  const line = color("line"), text = color("soft");
  const axes = [{ values: rowLabels, space: 90 }, { size: 58, ...axis }].map((one) => ({ stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui", ...one }));
  return {
    series: [{ label: "row" }, ...series], axes, legend: { show: false }, scales: { x: { time: false } },
    padding: [null, 40, null, null], // half a label, should the last one stand at the end
    cursor: { y: false, drag: { x: true, y: false } },
    hooks: { draw: [marks] },
  };
}

function marks(plot) {
  const { ctx, bbox, history } = plot;
  if (!history) return;
  ctx.save();
  const colors = { drift: color("drift"), alarm: color("alarm") };
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const { row, kind } of history.drift) {
    ctx.strokeStyle = colors[kind];
    const x = plot.valToPos(row, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

function rowsChart(history) {
  const { row, observed, mean, lower, upper } = history, at = row.length - 1;
  const next = history.forecast && row.length ? history.forecast.row.map((_, i) => i).filter((i) => history.forecast.row[i] > row[at]) : [];
  const none = next.map(() => null), before = row.map(() => null);
  const coming = (values) => [...before, ...next.map((i) => values[i])];
  const [low, high] = next.length ? Object.values(history.forecast.quantiles).map(coming) : [before, before];
  const middle = next.length ? coming(history.forecast.median) : before;
  const label = row.length ? `Rows ${row[0]} to ${row[at]}. Last row: target ${number(observed[at])}, prediction ${number(mean[at])}, ` +
    `interval from ${number(lower[at])} to ${number(upper[at])}.` +
    (next.length ? ` Forecast of row ${history.forecast.row.at(-1)}: ${number(middle.at(-1))}, from ${number(low.at(-1))} to ${number(high.at(-1))}.` : "") : "no rows yet";
  return {
    data: [[...row, ...next.map((i) => history.forecast.row[i])], ...[lower, upper, mean, observed].map((one) => [...one, ...none]), low, high, middle], label,
    options: {
      ...common([
        { stroke: "transparent", points: { show: false } },
        { stroke: "transparent", points: { show: false } },
        { stroke: color("mean"), width: 1.5, points: { show: false } },
        { stroke: color("observed"), paths: () => null, points: { show: true, size: 4, fill: color("observed"), stroke: color("observed") } },
        { stroke: "transparent", points: { show: false } },
        { stroke: "transparent", points: { show: false } },
        { stroke: color("forecast"), width: 1.5, points: { show: false } },
      ]),
      bands: [{ series: [2, 1], fill: color("band") }, { series: [6, 5], fill: color("forecast-band") }],
    },
  };
}

// A score of parts of the rows along them.
function partsChart(history, key, told, axis, range) {
  const scored = history.scores.filter((part) => part[key] != null);
  const data = [scored.map((part) => (part.from_row + part.to_row) / 2), scored.map((part) => part[key])];
  const series = [{ stroke: color("mean"), width: 1.5, points: { show: scored.length < 3 } }];
  return {
    data, label: scored.length ? told(data[1].at(-1)) : "no scores yet",
    options: { ...common(series, axis), scales: { x: { time: false }, y: { range } } },
  };
}

const rmseChart = (history) => partsChart(history, "rmse", (last) => `Root mean squared error of parts of these rows, last ${number(last)}.`,
  {}, (_, low, high) => [0, high * 1.1 || 1]);

const coverageChart = (history) => partsChart(history, "coverage", (last) => `Share of targets inside the intervals, by parts of these rows, last ${percent(last)}.`,
  { values: (_, ticks) => ticks.map((value) => `${Math.round(100 * value)}%`) }, (_, low) => [Math.min(0.5, low), 1.02]);

// Tokens.

function askForToken() {
  leave();
  show("token-view");
  $("form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(KEY, $("#token").value.trim());
    route();
  });
  $("#token").focus();
}

// Going on.

function leave() {
  viewing.abort();
  viewing = new AbortController();
  look = null;
  clearTimeout(timer);
}

async function tick() {
  const shown = look;
  try {
    await shown();
    if (look === shown) connected(true);
  } catch (error) {
    if (look === shown) troubled(error);
  }
  if (look !== shown) return;
  clearTimeout(timer);
  timer = setTimeout(tick, document.hidden ? 5 * POLL : POLL);
}

function route() {
  leave();
  const [kind, name, id] = location.hash.slice(2).split("/").map(decodeURIComponent);
  if (kind === "stream" && name) look = streamView(name);
  else if (kind === "fleet" && name) look = id ? sensorView(name, id) : fleetView(name);
  else look = listView();
  main.focus({ preventScroll: true });
  tick();
}

window.addEventListener("hashchange", () => { if (location.hash.startsWith("#/") || !location.hash) route(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden && look) tick(); });
route();
