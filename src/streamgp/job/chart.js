// What the pages of a run and of a forecast draw with: D is what the page shows.
"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const get = id => document.getElementById(id);
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const PALETTE = ["#2b83c6", "#d55e00", "#009e73", "#a371f7", "#c9a100", "#cc5c99", "#56b4e9", "#7f8c4d"];

function show(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });
}

function ticks(low, high, count) {
  const span = high - low || 1, raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(k => k * power).find(k => k >= raw);
  const found = [];
  for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * span; t += step) found.push(Math.abs(t) < step / 1e6 ? 0 : t);
  return found;
}

// When rows came, by the clock on the wall, in milliseconds; never going back, so that a time can be looked up.
function moment(text) {
  if (/^\d+(\.\d+)?$/.test(text)) { const n = Number(text); return n >= 1e8 && n < 1e10 ? 1e3 * n : n >= 1e11 && n < 1e13 ? n : NaN; }
  return Date.parse(text.replace(" ", "T").replace(/(T\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(?:Z|[+-]\d\d(?::?\d\d)?)$/, "$1").replace(/^(\d{4}-\d\d-\d\d)$/, "$1T00:00") + "Z");
}
const M = D.times.map(moment);
for (let i = 1; i < M.length; i++) if (!(M[i] >= M[i - 1])) M[i] = M[i - 1];
const dated = M.length > 1 && M.every(Number.isFinite) && M[M.length - 1] > M[0];
const SECOND = 1e3, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const STEPS = [1, 5, 15, 30].map(k => k * SECOND).concat([1, 5, 15, 30].map(k => k * MINUTE), [1, 3, 6, 12].map(k => k * HOUR),
  [1, 2, 7, 14].map(k => k * DAY));
const two = value => String(value).padStart(2, "0");
function bucket(row) { return Math.max(0, Math.min(M.length - 1, Math.round((row - D.first) / D.stride))); }
// Rows at which a round time begins, with labels.
function timeTicks(from, to, count) {
  const a = M[bucket(from)], b = M[bucket(to)], raw = (b - a) / count, starts = [];
  let step = STEPS.find(k => k >= raw);
  if (step) for (let t = Math.ceil(a / step) * step; t <= b; t += step) starts.push(t);
  else {
    const months = [1, 2, 3, 6, 12, 24, 60, 120, 600].find(k => k * 30.4 * DAY >= raw) || 1200, first = new Date(a);
    step = months * 30 * DAY;
    for (let m = Math.ceil((12 * first.getUTCFullYear() + first.getUTCMonth()) / months) * months; ; m += months) {
      const t = Date.UTC(Math.floor(m / 12), m % 12); if (t > b) break;
      if (t >= a) starts.push(t);
    }
  }
  const found = [];
  for (const t of starts) {
    let low = 0, high = M.length - 1;
    while (low < high) { const middle = (low + high) >> 1; if (M[middle] < t) low = middle + 1; else high = middle; }
    const d = new Date(t), day = d.getUTCFullYear() + "-" + two(d.getUTCMonth() + 1);
    const label = step >= 360 * DAY ? String(d.getUTCFullYear()) : step >= 28 * DAY ? day : step >= DAY || t % DAY === 0 ? day + "-" + two(d.getUTCDate())
      : two(d.getUTCHours()) + ":" + two(d.getUTCMinutes()) + (step < MINUTE ? ":" + two(d.getUTCSeconds()) : "");
    found.push([D.first + low * D.stride, label]);
  }
  return found;
}

// A number that fits beside an axis: 1.6M for 1,600,000.
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const brief = (value, figures) => Math.abs(value) >= 1e5 ? COMPACT.format(value) : show(value, figures);

// Rows first..last are in view; every plot over rows shows the same.
const FIRST = D.first, LAST = D.first + Math.max(D.rows, 2) - 1;
const view = { from: FIRST, to: LAST };
const plots = [], fixed = [];

function look(from, to) {
  const least = Math.min(LAST - FIRST, 8 * D.stride);
  let width = Math.max(least, Math.min(to - from, LAST - FIRST));
  from = Math.max(FIRST, Math.min(from, LAST - width));
  view.from = from; view.to = from + width;
  for (const plot of plots) plot.draw();
}

class Plot {
  constructor(id, options) {
    this.canvas = typeof id === "string" ? get(id) : id;
    this.options = options;
    this.view = options.view || view;
    this.height = Number(this.canvas.getAttribute("height"));
    if (options.rows) { this.listen(); plots.push(this); } else fixed.push(this);
    this.draw();
  }
  x(row) { return this.left + (row - this.view.from) / (this.view.to - this.view.from) * this.width; }
  row(px) { return this.view.from + (px - this.left) / this.width * (this.view.to - this.view.from); }
  y(value) { return this.top + (this.high - value) / (this.high - this.low) * this.tall; }
  draw() {
    const ratio = window.devicePixelRatio || 1, wide = this.canvas.clientWidth;
    this.canvas.width = Math.round(wide * ratio); this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = this.height + "px";
    const g = this.g = this.canvas.getContext("2d");
    g.scale(ratio, ratio); g.clearRect(0, 0, wide, this.height);
    g.font = "11px system-ui, sans-serif";
    this.left = 52; this.top = 8; this.width = wide - this.left - 10; this.tall = this.height - this.top - 24;
    if (this.width < 20) return;
    this.options.draw(this);
  }
  range(low, high, pad = 0.05) {
    if (!(low < high)) { const c = Number.isFinite(low) ? low : 0; low = c - 0.5; high = c + 0.5; }
    const more = pad * (high - low);
    this.low = low - more; this.high = high + more;
  }
  axes(labels = null) {
    const g = this.g;
    g.lineWidth = 1; g.fillStyle = css("--soft"); g.strokeStyle = css("--line");
    g.textAlign = "right"; g.textBaseline = "middle";
    for (const t of ticks(this.low, this.high, Math.max(2, this.tall / 45))) {
      const py = Math.round(this.y(t)) + 0.5;
      g.beginPath(); g.moveTo(this.left, py); g.lineTo(this.left + this.width, py); g.stroke();
      g.fillText(this.options.percent ? Math.round(100 * t) + "%" : this.options.log ? brief(10 ** t, 2) : brief(t), this.left - 6, py);
    }
    g.textBaseline = "top"; g.textAlign = "center";
    if (labels) { for (const [px, text] of labels) g.fillText(text, px, this.top + this.tall + 6); return; }
    const { from, to } = this.view, found = dated ? timeTicks(from, to, Math.max(2, this.width / 110)) :
      ticks(from, to, Math.max(2, this.width / 110)).map(t => [t, D.times.length ? D.times[bucket(t)] : show(t, 7)]);
    let end = -Infinity;
    for (const [row, label] of found) {
      const px = this.x(row), half = g.measureText(label).width / 2;
      if (px - half < Math.max(end + 8, this.left - 40) || px + half > this.left + this.width + 8) continue;
      g.fillText(label, px, this.top + this.tall + 6); end = px + half;
    }
  }
  // Changes from top to bottom; alarms, of which there are many, as short marks on the axis.
  events(alarms = []) {
    const g = this.g, foot = this.top + this.tall;
    for (const [events, colour, head, dash, width] of [[D.drift, "--change", this.top, [5, 3], 1.5], [alarms, "--bad", foot - 12, [], 2]]) {
      g.strokeStyle = css(colour); g.setLineDash(dash); g.lineWidth = width;
      for (const event of events) {
        if (event.row < this.view.from || event.row > this.view.to) continue;
        g.beginPath(); g.moveTo(this.x(event.row), head); g.lineTo(this.x(event.row), foot); g.stroke();
      }
    }
    g.setLineDash([]); g.lineWidth = 1;
  }
  // A line through samples [[row, value], ...].
  line(rows, values, colour, width = 1.4) {
    const g = this.g;
    g.save(); g.beginPath(); g.rect(this.left, this.top, this.width, this.tall); g.clip();
    g.strokeStyle = colour; g.lineWidth = width; g.beginPath();
    let open = false;
    for (let i = 0; i < rows.length; i++) {
      const value = values[i];
      if (value === null || Number.isNaN(value)) { open = false; continue; }
      if (open) g.lineTo(this.x(rows[i]), this.y(value)); else g.moveTo(this.x(rows[i]), this.y(value));
      open = true;
    }
    g.stroke();
    if (rows.length === 1) { g.fillStyle = colour; g.beginPath(); g.arc(this.x(rows[0]) - 3, this.y(values[0]), 2.5, 0, 7); g.fill(); }
    g.restore();
  }
  // The area between two lines.
  band(rows, low, high) {
    const g = this.g;
    g.fillStyle = css("--band"); g.beginPath();
    rows.forEach((row, i) => g.lineTo(this.x(row), this.y(high[i])));
    for (let i = rows.length - 1; i >= 0; i--) g.lineTo(this.x(rows[i]), this.y(low[i]));
    g.closePath(); g.fill();
  }
  // What each pixel column covers: least and largest value over the buckets that fall on it.
  columns(low, high) {
    const found = [], n = low.length;
    const first = Math.max(0, Math.floor((view.from - FIRST) / D.stride)), last = Math.min(n - 1, Math.ceil((view.to - FIRST) / D.stride));
    const per = (last - first + 1) / this.width;
    if (per <= 1) {
      for (let i = first; i <= last; i++) found.push([this.x(FIRST + i * D.stride), low[i], high[i]]);
      return found;
    }
    for (let px = 0; px < this.width; px++) {
      let a = Infinity, b = -Infinity;
      const end = Math.min(last + 1, Math.floor(first + (px + 1) * per));
      for (let i = Math.floor(first + px * per); i < end; i++) { if (low[i] < a) a = low[i]; if (high[i] > b) b = high[i]; }
      found.push(a <= b ? [this.left + px, a, b] : [this.left + px, NaN, NaN]);
    }
    return found;
  }
  listen() {
    const canvas = this.canvas;
    let start = null;
    const px = event => event.clientX - canvas.getBoundingClientRect().left;
    canvas.addEventListener("pointerdown", event => { if (event.pointerType !== "touch") { start = px(event); canvas.setPointerCapture(event.pointerId); } });
    canvas.addEventListener("pointermove", event => {
      if (start !== null) {
        this.draw(); this.g.fillStyle = css("--band");
        this.g.fillRect(Math.min(start, px(event)), this.top, Math.abs(px(event) - start), this.tall);
      }
      if (this.options.hover) this.options.hover(this.row(px(event)));
    });
    canvas.addEventListener("pointerup", event => {
      if (start === null) return;
      const [a, b] = [start, px(event)].sort((p, q) => p - q);
      start = null;
      if (b - a > 5) look(this.row(a), this.row(b)); else this.draw();
    });
    canvas.addEventListener("pointercancel", () => { start = null; this.draw(); });
    canvas.addEventListener("dblclick", () => look(FIRST, LAST));
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      const at = this.row(px(event)), factor = event.deltaY > 0 ? 1.25 : 0.8;
      look(at - (at - view.from) * factor, at + (view.to - at) * factor);
    }, { passive: false });
  }
}

// A titled canvas at the end of an element.
function drawing(parent, title) {
  const section = document.createElement("section"), heading = document.createElement("h2"), figure = document.createElement("figure");
  const canvas = document.createElement("canvas");
  canvas.setAttribute("height", "150"); heading.textContent = title;
  figure.append(canvas); section.append(heading, figure); parent.append(section);
  return canvas;
}
function write(texts) {
  for (const [id, text] of Object.entries(texts)) get(id).textContent = text;
}
function list(id, texts) {
  for (const text of texts) { const li = document.createElement("li"); li.textContent = text; get(id).append(li); }
}
// The first cell of a line, and all of the first line, are headings.
function table(id, lines) {
  lines.forEach((line, i) => {
    const row = get(id).insertRow();
    line.forEach((text, j) => { const cell = document.createElement(i && j ? "td" : "th"); cell.textContent = text; row.append(cell); });
  });
}

let waiting = 0;
const redraw = () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => { for (const plot of plots) plot.draw(); for (const bar of fixed) bar.draw(); }); };
window.addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
