"use strict";
// The page of a server: a list of streams, and one stream at #/stream/NAME. It talks to its own server only.

const POLL = 2000; // milliseconds between two looks at the server
const POINTS = 600; // of a chart
const FEW = 50; // streams of a list, before all are asked for
const KEY = "streamgp-token";
const SVG = "http://www.w3.org/2000/svg";
const $ = (selector, root = document) => root.querySelector(selector);
const main = $("#main");
let view = null; // what is shown at present: {close, look}
let timer = 0;
let anchors = []; // rows of the shown stream and their times, in seconds by its own clock

class Refused extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.hint = error.hint;
  }
}

function headers(more = {}) {
  const token = sessionStorage.getItem(KEY);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

async function get(path, signal) {
  const answer = await fetch(path, { headers: headers(), signal, cache: "no-store" });
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

function show(template) {
  main.replaceChildren($(`#${template}`).content.cloneNode(true));
}

function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

const number = (value) => value == null ? "\u2013" : Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
const count = (value) => value.toLocaleString("en").replaceAll(",", "\u202f");
const percent = (value) => value == null ? "\u2013" : `${(100 * value).toFixed(1)}%`;
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// All streams.

function listView() {
  document.title = "streamgp";
  let shown = "", streams = [], all = false;
  const rows = new Map();

  function list() {
    const wanted = $(".search").value.trim().toLowerCase();
    const found = streams.filter((one) => `${one.name} ${one.target} ${one.model}`.toLowerCase().includes(wanted));
    found.sort((a, b) => FIRST[$(".order").value](a, b) || (a.name < b.name ? -1 : 1));
    const few = all ? found : found.slice(0, FEW), body = $("tbody"), names = new Set(few.map((one) => one.name));
    for (const [name, row] of rows) if (!names.has(name)) { row.remove(); rows.delete(name); }
    few.forEach((stream, at) => {
      if (!rows.has(stream.name)) rows.set(stream.name, streamRow(stream.name));
      const row = rows.get(stream.name);
      if (body.children[at] !== row) body.insertBefore(row, body.children[at] || null);
      fill(row, stream);
    });
    const rest = found.length - few.length;
    setText($(".more"), found.length ? rest ? `${count(rest)} more streams` : "" : "No stream has this in its name, target or model.");
    $(".all").hidden = !rest;
  }

  return {
    close() {},
    async look(signal) {
      ({ streams } = await get("v1/streams", signal));
      const wanted = streams.length ? "list-view" : "empty-view";
      if (shown !== wanted) {
        show(wanted);
        shown = wanted;
        rows.clear();
        if (wanted === "empty-view") commands();
        else {
          $(".search").addEventListener("input", list);
          $(".order").addEventListener("change", list);
          $(".all").addEventListener("click", () => { all = true; list(); });
        }
      }
      if (streams.length) list();
    },
  };
}

const missed = (stream) => stream.coverage == null ? 0 : Math.abs(stream.coverage - stream.level);
const FIRST = {
  alarms: (a, b) => b.alarms - a.alarms,
  name: () => 0,
  rows: (a, b) => b.rows - a.rows,
  coverage: (a, b) => missed(b) - missed(a),
};

function streamRow(name) {
  const row = element("tr"), head = element("th", "", { scope: "row" });
  head.append(element("a", name, { href: `#/stream/${encodeURIComponent(name)}` }), element("span", "", { class: "target" }));
  const spark = element("td");
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", "0 0 100 20");
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("class", "spark");
  drawing.setAttribute("role", "img");
  drawing.append(document.createElementNS(SVG, "polyline"));
  spark.append(drawing);
  row.append(head, spark);
  for (const label of ["Rows", "RMSE", "Coverage", "Alarms"]) row.append(element("td", "", { class: "number", "data-label": label }));
  const state = element("td");
  state.append(element("span", "", { class: "state" }), element("span", "", { class: "doing" }));
  row.append(state);
  return row;
}

function fill(row, stream) {
  const [rows, rmse, coverage, alarms] = row.querySelectorAll(".number");
  setText($(".target", row), `${stream.target}, ${stream.model}`);
  setText(rows, count(stream.rows));
  setText(rmse, number(stream.rmse));
  setText(coverage, percent(stream.coverage));
  setText(alarms, count(stream.alarms));
  alarms.classList.toggle("alarms", stream.alarms > 0);
  coverage.title = `of ${percent(stream.level)} intervals`;
  setText($(".state", row), stream.state);
  $(".state", row).className = `state ${stream.state}`;
  setText($(".doing", row), stream.doing);
  const known = stream.recent.filter((value) => value != null);
  const low = Math.min(...known), span = Math.max(...known) - low || 1;
  const points = stream.recent.map((value, i) => value == null ? "" :
    `${(100 * i / Math.max(stream.recent.length - 1, 1)).toFixed(1)},${(18.5 - 17 * (value - low) / span).toFixed(1)}`);
  $("polyline", row).setAttribute("points", points.join(" "));
  $("svg", row).setAttribute("aria-label", known.length ? `last targets, from ${number(low)} to ${number(low + span)}` : "no targets yet");
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
  document.title = `${name} \u2013 streamgp`;
  show("stream-view");
  $("h1").textContent = name;
  const path = `v1/streams/${encodeURIComponent(name)}`;
  const range = $(".range"), ahead = $(".ahead"), stop = new AbortController();
  if (window.innerWidth < 640) range.value = "200";
  const charts = { rows: chart("rows", rowsChart), rmse: chart("rmse", rmseChart), coverage: chart("coverage", coverageChart) };
  let history = null, extra = 0, lastHistory = 0, listening = false, last = "", drawing = 0;
  let level = 0.9, forecast = null, forecasting = false;

  async function renew(signal) {
    history = await get(`${path}/history?rows=${range.value}&points=${POINTS}`, signal);
    extra = 0;
    lastHistory = Date.now();
    draw();
  }

  function draw() {
    if (!drawing) drawing = requestAnimationFrame(() => {
      drawing = 0;
      if (history) history.forecast = forecast;
      if (history) for (const one of Object.values(charts)) one.draw(history);
    });
  }

  // A forecast may take seconds, while rows go on.
  async function foresee() {
    forecasting = true;
    try {
      const tail = (1 - level) / 2;
      const found = ahead.value ? await get(`${path}/forecast?ahead=${ahead.value}&quantiles=${tail.toFixed(6)},${(1 - tail).toFixed(6)}`, stop.signal) : null;
      if ((found ? String(found.row.length) : "") !== ahead.value) return;
      forecast = found;
      setText($(".assumed"), found ? `Forecast: ${found.assumed}.` : "");
      draw();
    } catch (error) {
      if (!(error instanceof Refused)) return;
      forecast = null;
      setText($(".assumed"), `No forecast: ${error.message}.`);
      draw();
    } finally {
      forecasting = false;
    }
  }

  const isStale = () => ahead.value ? !forecast || String(forecast.row.length) !== ahead.value || forecast.issued < history.row.at(-1) : forecast;

  // Events are read with fetch, because EventSource cannot send a token.
  async function listen() {
    listening = true;
    try {
      const answer = await fetch(`${path}/events`, {
        headers: headers(last ? { "Last-Event-ID": last } : {}), signal: stop.signal, cache: "no-store",
      });
      if (!answer.ok) return;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        parts.forEach(take);
      }
    } catch (error) {
      troubled(error);
    } finally {
      listening = false;
    }
  }

  function take(part) {
    const fields = Object.fromEntries(part.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
    if (fields.id) last = fields.id;
    if (!history || !fields.data) return;
    const data = JSON.parse(fields.data);
    if (fields.event === "drift" || fields.event === "alarm") history.drift.push({ row: data.row, event: data.text, kind: fields.event });
    if (fields.event !== "rows") return;
    for (const row of data.rows) {
      if (history.row.length && row.row <= history.row[history.row.length - 1]) continue;
      for (const key of ["row", "observed", "mean", "lower", "upper"]) history[key].push(row[key]);
      extra += 1;
    }
    const first = history.row[history.row.length - 1] - Number(range.value);
    let gone = 0;
    while (history.row[gone] <= first) gone += 1;
    if (gone) for (const key of ["row", "observed", "mean", "lower", "upper"]) history[key].splice(0, gone);
    draw();
  }

  async function look(signal) {
    const stream = await get(path, signal);
    level = stream.settings.level;
    anchors = stream.times;
    describe(stream);
    if (!history || extra > POINTS || Date.now() - lastHistory > 5000) await renew(signal);
    if (!listening) listen();
    if (!forecasting && history.row.length && isStale()) foresee();
  }

  const redraw = () => { for (const one of Object.values(charts)) one.clear(); draw(); };
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  range.addEventListener("change", () => { history = null; look(stop.signal).catch(troubled); });
  ahead.addEventListener("change", () => { if (history && !forecasting) foresee(); });
  scheme.addEventListener("change", redraw);
  window.addEventListener("resize", draw);
  return {
    look,
    close() {
      stop.abort();
      scheme.removeEventListener("change", redraw);
      window.removeEventListener("resize", draw);
      for (const one of Object.values(charts)) one.clear();
    },
  };
}

function describe(stream) {
  const { settings, scores, tickets, health } = stream;
  const ahead = settings.horizon ? `, ${settings.horizon} rows ahead` : "";
  setText($(".about"), `predicts ${settings.target}${ahead}; model ${settings.model}; ${stream.state}${stream.doing ? `: ${stream.doing}` : ""}`);
  const previous = scores.rmse_previous_value;
  const figures = [
    ["Rows", count(stream.rows), `${count(scores.rows)} scored`],
    ["Error on average", number(scores.mae), previous == null ? "" : `RMSE ${number(scores.rmse)}, all rows; previous value ${number(previous)}`],
    ["Coverage", percent(scores.coverage), `of ${number(100 * settings.level)}% intervals, all rows`],
    ["Interval width", number(scores.mean_width), "on average, all rows"],
  ];
  if (tickets.waiting || tickets.expired) figures.push(["Waiting for targets", count(tickets.waiting), `${count(tickets.expired)} expired`]);
  if (health.repairs || health.diverged.length) figures.push(["Numerical repairs", count(health.repairs), health.diverged.join(", ")]);
  const shown = $(".figures");
  while (shown.children.length > figures.length) shown.lastChild.remove();
  figures.forEach(([label, value, note], at) => {
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
  if ($(".verdict").textContent !== stream.verdict.join("")) $(".verdict").replaceChildren(...stream.verdict.map((text) => element("li", text)));
  $(".relevant").hidden = !Object.keys(stream.relevance).length;
  setText($(".chosen"), stream.chosen ? "" : stream.rows ? "still being chosen; these predict until then" : "no rows yet");
  weights($(".models tbody"), stream.models, "no model yet");
  weights($(".relevance tbody"), stream.relevance, "not known yet, or the models cannot tell");
  const events = stream.drift.slice(-20).reverse().map((event) => element("li", /^\d{4}-\d\d-\d\d/.test(event.event) ? event.event : `row ${count(event.row)}: ${event.event}`));
  $(".events").replaceChildren(...(events.length ? events : [element("li", "none so far", { class: "muted" })]));
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
  const place = $(`[data-chart=${name}]`);
  let plot = null, width = 0;
  return {
    clear() {
      if (plot) plot.destroy();
      plot = null;
    },
    draw(history) {
      const { data, label, make } = options(history);
      place.setAttribute("aria-label", label);
      if (!data[0].length) {
        this.clear();
        place.replaceChildren(element("p", "no rows yet", { class: "none" }));
        return;
      }
      if (plot && width !== place.clientWidth) this.clear();
      if (!plot) {
        width = place.clientWidth;
        place.replaceChildren();
        const size = { width, height: place.classList.contains("small") ? 170 : window.innerWidth < 640 ? 260 : 340 };
        plot = new uPlot({ ...size, ...make(() => history_of(plot)) }, data, place);
      }
      plot.history = history;
      plot.setData(data);
    },
  };
}

const history_of = (plot) => plot ? plot.history : null;

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

function common(series, axis, history) {
  const line = color("line"), text = color("soft");
  const axes = [{ values: rowLabels, space: 90 }, { size: 58, ...axis }].map((one) => ({ stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui", ...one }));
  return {
    series: [{ label: "row" }, ...series], axes, legend: { show: false }, scales: { x: { time: false } },
    padding: [null, 40, null, null], // half a label, should the last one stand at the end
    cursor: { y: false, drag: { x: true, y: false } },
    hooks: { draw: [(plot) => marks(plot, history())] },
  };
}

function marks(plot, history) {
  if (!history) return;
  const { ctx, bbox } = plot;
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
    make: (now) => ({
      ...common([
        { stroke: "transparent", points: { show: false } },
        { stroke: "transparent", points: { show: false } },
        { stroke: color("mean"), width: 1.5, points: { show: false } },
        { stroke: color("observed"), paths: () => null, points: { show: true, size: 4, fill: color("observed"), stroke: color("observed") } },
        { stroke: "transparent", points: { show: false } },
        { stroke: "transparent", points: { show: false } },
        { stroke: color("forecast"), width: 1.5, points: { show: false } },
      ], {}, now),
      bands: [{ series: [2, 1], fill: color("band") }, { series: [6, 5], fill: color("forecast-band") }],
    }),
  };
}

function parts(history, key) {
  const scored = history.scores.filter((part) => part[key] != null);
  return [scored.map((part) => (part.from_row + part.to_row) / 2), scored.map((part) => part[key])];
}

function rmseChart(history) {
  const data = parts(history, "rmse");
  return {
    data, label: data[0].length ? `Root mean squared error of parts of these rows, last ${number(data[1].at(-1))}.` : "no scores yet",
    make: (now) => ({ ...common([{ stroke: color("mean"), width: 1.5, points: { show: data[0].length < 3 } }], {}, now), scales: { x: { time: false }, y: { range: (_, low, high) => [0, high * 1.1 || 1] } } }),
  };
}

function coverageChart(history) {
  const data = parts(history, "coverage");
  return {
    data, label: data[0].length ? `Share of targets inside the intervals, by parts of these rows, last ${percent(data[1].at(-1))}.` : "no scores yet",
    make: (now) => ({
      ...common([{ stroke: color("mean"), width: 1.5, points: { show: data[0].length < 3 } }], { values: (_, ticks) => ticks.map((value) => `${Math.round(100 * value)}%`) }, now),
      scales: { x: { time: false }, y: { range: (_, low) => [Math.min(0.5, low), 1.02] } },
    }),
  };
}

// Tokens.

function askForToken() {
  if (view) view.close();
  view = null;
  clearTimeout(timer);
  show("token-view");
  $("form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(KEY, $("#token").value.trim());
    route();
  });
  $("#token").focus();
}

// Going on.

async function tick(signal) {
  const shown = view;
  try {
    await shown.look(signal);
    if (view === shown) connected(true);
  } catch (error) {
    if (view === shown) troubled(error);
  }
  if (view === shown && view) timer = setTimeout(tick, document.hidden ? 5 * POLL : POLL);
}

function route() {
  clearTimeout(timer);
  if (view) view.close();
  const found = location.hash.match(/^#\/stream\/(.+)$/);
  view = found ? streamView(decodeURIComponent(found[1])) : listView();
  main.focus({ preventScroll: true });
  tick();
}

window.addEventListener("hashchange", () => { if (location.hash.startsWith("#/") || !location.hash) route(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden && view) { clearTimeout(timer); tick(); } });
route();
