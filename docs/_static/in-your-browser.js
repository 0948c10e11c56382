/* The page docs/in-your-browser.md: rows come from the pointer, predictions from the engine (engine.js). */
(() => {
  const canvas = document.getElementById("stream-canvas");
  if (!canvas) return;
  const numbers = document.getElementById("stream-numbers");
  const WIDTH = 10, HEIGHT = 1.1; // x is 0 to 10, y is -1.1 to 1.1
  const REACH = 1.645; // of a 90% interval, in standard deviations
  const SHOWN = 400; // rows that are drawn
  const bytes = Uint8Array.from(atob(ENGINE), (letter) => letter.charCodeAt(0));
  const engine = new WebAssembly.Instance(new WebAssembly.Module(bytes), {}).exports;
  let rows = [], count, covered, seconds, demonstration, due = false;

  function begin() {
    engine.start();
    rows = [];
    count = covered = seconds = 0;
    draw();
  }

  function take(x, y) {
    const before = performance.now();
    const mean = engine.mean(x), std = Math.sqrt(engine.variance() + engine.noise());
    engine.learn(x, y);
    seconds += (performance.now() - before) / 1000;
    covered += Math.abs(y - mean) <= REACH * std ? 1 : 0;
    count += 1;
    rows.push([x, y]);
    if (rows.length > SHOWN) rows.shift();
    if (!due) {
      due = true;
      requestAnimationFrame(draw);
    }
  }

  function draw() {
    due = false;
    const ratio = window.devicePixelRatio || 1, wide = canvas.clientWidth, high = canvas.clientHeight;
    canvas.width = wide * ratio;
    canvas.height = high * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const right = (x) => (x / WIDTH) * wide, down = (y) => ((HEIGHT - y) / (2 * HEIGHT)) * high;
    const style = getComputedStyle(canvas), ink = style.color, line = style.getPropertyValue("--stream-line");
    const steps = Math.max(2, Math.floor(wide / 4)), means = [], stds = [], at = [];
    for (let i = 0; i <= steps; i++) {
      at.push((WIDTH * i) / steps);
      means.push(engine.mean(at[i]));
      stds.push(Math.sqrt(engine.variance() + engine.noise()));
    }
    pen.fillStyle = line;
    pen.globalAlpha = 0.22;
    pen.beginPath();
    at.forEach((x, i) => pen.lineTo(right(x), down(means[i] + REACH * stds[i])));
    for (let i = steps; i >= 0; i--) pen.lineTo(right(at[i]), down(means[i] - REACH * stds[i]));
    pen.fill();
    pen.globalAlpha = 1;
    pen.strokeStyle = line;
    pen.lineWidth = 2;
    pen.beginPath();
    at.forEach((x, i) => pen.lineTo(right(x), down(means[i])));
    pen.stroke();
    pen.fillStyle = ink;
    rows.forEach(([x, y], i) => {
      pen.globalAlpha = 0.1 + (0.6 * (i + 1 + SHOWN - rows.length)) / SHOWN;
      pen.beginPath();
      pen.arc(right(x), down(y), 2, 0, 7);
      pen.fill();
    });
    pen.globalAlpha = 0.8;
    for (let i = 0; i < engine.points(); i++) pen.fillRect(right(engine.point(i)) - 0.5, high - 10, 1, 10);
    pen.globalAlpha = 1;
    const told = [`rows: ${count}`, `basis points: ${engine.points()} of at most 40`];
    if (count) {
      told.push(`90% intervals: coverage ${((100 * covered) / count).toFixed(0)}%`);
      told.push(`time of a row: ${((1e6 * seconds) / count).toFixed(0)} µs`);
    }
    numbers.textContent = told.join(" · ");
  }

  /* A stream that comes by itself: after 300 rows the function is another one. */
  function demonstrate() {
    stop();
    begin();
    let t = 0;
    demonstration = setInterval(() => {
      for (let i = 0; i < 2; i++, t++) {
        const x = WIDTH * (0.5 - 0.48 * Math.cos(0.04 * t)), noise = 0.1 * (Math.random() + Math.random() - 1);
        take(x, (t < 300 ? 0.7 * Math.sin(x) : 0.5 * Math.cos(0.6 * x)) + noise);
      }
      if (t >= 600) stop();
    }, 30);
  }

  function stop() {
    clearInterval(demonstration);
  }

  function pointed(event) {
    const box = canvas.getBoundingClientRect();
    const x = (WIDTH * (event.clientX - box.left)) / box.width;
    take(x, HEIGHT - (2 * HEIGHT * (event.clientY - box.top)) / box.height);
  }

  let down = false;
  canvas.addEventListener("pointerdown", (event) => {
    stop();
    down = true;
    canvas.setPointerCapture(event.pointerId);
    pointed(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (down) (event.getCoalescedEvents?.() ?? [event]).forEach(pointed);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (down = false));
  document.getElementById("stream-again").addEventListener("click", () => {
    stop();
    begin();
  });
  document.getElementById("stream-show").addEventListener("click", demonstrate);
  new ResizeObserver(draw).observe(canvas);
  begin();
})();
