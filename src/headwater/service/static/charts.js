// Small SVG charts: they take their colours from the style sheet, redraw when their box changes width, can be read by pointer
// and by keyboard (focus a chart, then the arrow keys), and name themselves to screen readers.
//
//   lineChart(host, {title, series, xLabel, yLabel, xScale, yScale, height, format})
//       series: [{name, x, y, low, high, colour, dash, width, label}]; low and high (a band) are optional, NaN and null make a
//       gap; label: false leaves the name at the line's end out. xScale, yScale: "linear" or "log".
//   shareChart(host, {title, x, series, xLabel, height})
//       stacked areas of shares over time; series: [{name, y, colour}], each y[i] a share (they are scaled to sum to 1).
//   intervalChart(host, {title, rows, xLabel, zero, format, rowHeight})
//       a dot and an interval a row; rows: [{name, value, low, high, colour, note, also}]; zero: true draws the line at 0.
//       also: {value, low, high}, a second judgement of the same, drawn thin and hollow below the first. value may be null.
//   shareBar(host, {title, parts})
//       one bar of shares; parts: [{name, share, colour}].
//   legend(host, items)                    items: [{name, colour, dash}]
//   colourOf(k), policyColour(name)        of an arm by its number, of a policy by its name: the same on every page
//   ticks(low, high, count), scale(kind, [low, high], [from, to])   for charts of one's own
//
// Drawing again is calling again with the same host.

import { fill, h, number, percent, s } from "./lib.js";

const POLICIES = ["ucb1", "c-ucb", "kl-ucb", "c-kl-ucb", "ts", "c-ts", "auto", "joint-ucb", "latent-ts", "graves-lai",
  "uniform", "epsilon-greedy"];
const DASHES = { "ucb1": "7 4", "kl-ucb": "7 4", "ts": "7 4", "graves-lai": "8 3 2 3", "uniform": "2 3", "epsilon-greedy": "2 3" };

export const colourOf = (k) => `var(--c${k % 10})`;
export const policyColour = (name) => {
  const plain = name.split(/[ :]/)[0];
  return POLICIES.includes(plain) ? `var(--p-${plain})` : "var(--c8)";
};
export const policyDash = (name) => DASHES[name.split(/[ :]/)[0]] || null;

export function ticks(low, high, count = 5) {
  const raw = (high - low) / Math.max(count, 1);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= raw * 0.999);
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) out.push(Number((i * step).toPrecision(12)));
  return out;
}

export function scale(kind, [low, high], [from, to]) {
  const warp = kind === "log" ? (v) => Math.log10(Math.max(v, 1e-300)) : (v) => v;
  const [a, b] = [warp(low), warp(high)];
  return (value) => from + ((warp(value) - a) / (b - a || 1)) * (to - from);
}

function logTicks(low, high) {
  const out = [];
  for (let e = Math.ceil(Math.log10(low) - 1e-9); 10 ** e <= high * 1.0001; e++) out.push(10 ** e);
  return out.length > 1 ? out : ticks(low, high, 4).filter((t) => t > 0);
}

const compact = (x) => (Math.abs(x) >= 10000 ? `${number(x / (x >= 1e6 ? 1e6 : 1e3))}${x >= 1e6 ? "M" : "k"}` : number(x));

// Draws now and whenever the width of the host changes.
const drawers = new WeakMap();
const watcher = new ResizeObserver((entries) => entries.forEach(({ target }) => drawers.get(target)?.(false)));

function mount(host, draw) {
  const wrapped = (fresh) => {
    const width = host.clientWidth;
    if (!width || (!fresh && host.dataset.drawn === String(width))) return;
    host.dataset.drawn = String(width);
    draw(width);
  };
  if (!drawers.has(host)) watcher.observe(host);
  drawers.set(host, wrapped);
  host.classList.add("chart");
  wrapped(true);
}

const textWidth = (text) => 6.6 * text.length + 4;
const clip = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const finite = (v) => v !== null && v !== undefined && Number.isFinite(v);

function path(xs, ys) {
  let out = "";
  let pen = false;
  ys.forEach((y, i) => {
    if (finite(y)) out += `${pen ? "L" : "M"}${xs[i].toFixed(1)} ${y.toFixed(1)}`;
    pen = finite(y);
  });
  return out;
}

// Places for labels, moved as little as need be until neighbours are `least` apart, none below `bottom` nor above `top`.
function spread(values, least, top, bottom) {
  const order = values.map((_, i) => i).sort((i, j) => values[i] - values[j]);
  const out = [];
  let next = top;
  for (const i of order) next = (out[i] = Math.max(values[i], next)) + least;
  let last = bottom;
  for (const i of order.reverse()) last = (out[i] = Math.min(out[i], last)) - least;
  return out;
}

function frame(width, height, title, readable) {
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title, tabindex: readable ? 0 : null },
    s("title", null, title),
  );
}

function axes(svg, { x, y, xTicks, yTicks, box, xLabel, yLabel }) {
  for (const t of yTicks) {
    svg.append(
      s("line", { class: "grid", x1: box.left, x2: box.right, y1: y(t), y2: y(t) }),
      s("text", { class: "tick", x: box.left - 7, y: y(t) + 4, "text-anchor": "end" }, compact(t)),
    );
  }
  for (const t of xTicks) {
    svg.append(
      s("line", { class: "axis", x1: x(t), x2: x(t), y1: box.bottom, y2: box.bottom + 4 }),
      s("text", { class: "tick", x: x(t), y: box.bottom + 17, "text-anchor": "middle" }, compact(t)),
    );
  }
  svg.append(s("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
  if (xLabel) svg.append(s("text", { class: "label", x: box.right, y: box.bottom + 34, "text-anchor": "end" }, xLabel));
  if (yLabel) svg.append(s("text", { class: "label", x: 0, y: 12 }, yLabel));
}

// A cursor that pointer and arrow keys move over the points of x; `tell(i)` says what stands there.
function cursor(svg, host, xs, box, tell) {
  const line = s("line", { class: "cursor", y1: box.top, y2: box.bottom, visibility: "hidden" });
  const dots = s("g", {});
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  svg.append(line, dots);
  host.append(readout);
  let at = -1;
  const show = (i) => {
    at = Math.max(0, Math.min(xs.length - 1, i));
    line.setAttribute("visibility", "visible");
    line.setAttribute("x1", xs[at]);
    line.setAttribute("x2", xs[at]);
    const { words, marks } = tell(at);
    fill(readout, words);
    fill(dots, marks.map(([y, colour]) => s("circle", { class: "mark", cx: xs[at], cy: y, r: 3.5, colour })));
  };
  const near = (event) => {
    const px = event.clientX - svg.getBoundingClientRect().left;
    let best = 0;
    xs.forEach((v, i) => { if (Math.abs(v - px) < Math.abs(xs[best] - px)) best = i; });
    show(best);
  };
  svg.addEventListener("pointermove", near);
  svg.addEventListener("pointerdown", near);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: 5, PageDown: -5, Home: -1e9, End: 1e9 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    show((at < 0 ? xs.length - 1 : at) + (at < 0 ? 0 : step));
  });
}

export function lineChart(host, options) {
  const { title, series, xLabel = "", yLabel = "", xScale = "linear", yScale = "linear", height = 330, format = number } = options;
  mount(host, (width) => {
    const named = series.filter((one) => one.label !== false);
    const room = width > 520 ? Math.min(Math.max(12, ...named.map((one) => textWidth(clip(one.name, 18)))) + 6, 130) : 10;
    const box = { left: 46, right: width - room, top: yLabel ? 24 : 10, bottom: height - 40 };
    const values = series.flatMap((one) => [one.y, one.low || [], one.high || []].flat()).filter(finite);
    const xsAll = series.flatMap((one) => one.x).filter((v) => finite(v) && (xScale !== "log" || v > 0));
    const positive = values.filter((v) => v > 0);
    const top = Math.max(...values, yScale === "log" ? Math.min(...positive, 1) * 10 : 1e-9);
    const low = yScale === "log" ? Math.max(Math.min(...positive, top / 10), top / 1e5) : Math.min(0, ...values);
    const high = yScale === "log" ? top * 1.3 : top + 0.05 * (top - low);
    const x = scale(xScale, [Math.min(...xsAll), Math.max(...xsAll)], [box.left, box.right]);
    const y = scale(yScale, [low, high], [box.bottom, box.top]);
    const yy = (v) => (finite(v) ? Math.min(y(yScale === "log" ? Math.max(v, low) : v), box.bottom) : NaN);
    const svg = frame(width, height, title, true);
    axes(svg, {
      x, y, box, xLabel, yLabel,
      xTicks: xScale === "log" ? logTicks(Math.min(...xsAll), Math.max(...xsAll)) : ticks(Math.min(...xsAll), Math.max(...xsAll), width / 110),
      yTicks: yScale === "log" ? logTicks(low, high) : ticks(low, high, 5),
    });
    for (const one of series.filter((each) => each.low && each.high)) {
      const ok = one.x.map((_, i) => i).filter((i) => finite(one.low[i]) && finite(one.high[i]));
      const up = ok.map((i) => `${x(one.x[i]).toFixed(1)} ${yy(one.high[i]).toFixed(1)}`);
      const down = ok.toReversed().map((i) => `${x(one.x[i]).toFixed(1)} ${yy(one.low[i]).toFixed(1)}`);
      svg.append(s("path", { class: "band", d: `M${[...up, ...down].join("L")}Z`, colour: one.colour }));
    }
    for (const one of series) {
      const d = path(one.x.map(x), one.y.map(yy));
      svg.append(s("path", { class: "line", d, colour: one.colour, "stroke-dasharray": one.dash, "stroke-width": one.width || 2.2 }));
    }
    if (room > 12) {
      const ends = named.map((one) => yy(one.y.findLast(finite) ?? 0));
      spread(ends, 14, box.top + 4, box.bottom - 6).forEach((place, i) =>
        svg.append(s("text", { class: "end", x: box.right + 6, y: place + 4, colour: named[i].colour }, clip(named[i].name, 18))));
    }
    fill(host, svg);
    const longest = series.reduce((a, b) => (b.x.length > a.x.length ? b : a));
    cursor(svg, host, longest.x.map(x), box, (i) => {
      const seen = series.map((one) => [one, one.y[one.x.indexOf(longest.x[i])]]).filter(([, v]) => finite(v));
      return {
        words: [h("b", null, `${xLabel ? `${xLabel} ` : ""}${number(longest.x[i])}`),
          ...seen.map(([one, v]) => h("span", null, h("i", { class: "key", colour: one.colour }), `${one.name} ${format(v)}`))],
        marks: seen.map(([one, v]) => [yy(v), one.colour]),
      };
    });
    if (room <= 12) legendIn(host, named);
  });
}

export function shareChart(host, { title, x: xs, series, xLabel = "", height = 220 }) {
  mount(host, (width) => {
    const box = { left: 46, right: width - 10, top: 10, bottom: height - 40 };
    const x = scale("linear", [xs[0], xs.at(-1)], [box.left, box.right]);
    const y = scale("linear", [0, 1], [box.bottom, box.top]);
    const total = xs.map((_, i) => series.reduce((sum, one) => sum + (one.y[i] || 0), 0) || 1);
    const svg = frame(width, height, title, true);
    let below = xs.map(() => 0);
    for (const one of series) {
      const above = below.map((v, i) => v + (one.y[i] || 0) / total[i]);
      const up = xs.map((v, i) => `${x(v).toFixed(1)} ${y(above[i]).toFixed(1)}`);
      const down = xs.map((v, i) => `${x(v).toFixed(1)} ${y(below[i]).toFixed(1)}`).reverse();
      svg.append(s("path", { class: "area", d: `M${[...up, ...down].join("L")}Z`, colour: one.colour }, s("title", null, one.name)));
      below = above;
    }
    for (const t of [0, 0.5, 1]) svg.append(s("text", { class: "tick", x: box.left - 7, y: y(t) + 4, "text-anchor": "end" }, percent(t)));
    axes(svg, { x, y, box, xLabel, xTicks: ticks(xs[0], xs.at(-1), width / 110), yTicks: [] });
    fill(host, svg);
    cursor(svg, host, xs.map(x), box, (i) => ({
      words: [h("b", null, `${xLabel ? `${xLabel} ` : ""}${number(xs[i])}`),
        ...series.map((one) => h("span", null, h("i", { class: "key", colour: one.colour }), `${one.name} ${percent((one.y[i] || 0) / total[i])}`))],
      marks: [],
    }));
    legendIn(host, series);
  });
}

export function intervalChart(host, { title, rows, xLabel = "", zero = false, format = number, rowHeight = 34 }) {
  mount(host, (width) => {
    const height = rows.length * rowHeight + 44;
    const most = width > 520 ? 20 : 12;
    const left = Math.min(Math.max(50, ...rows.map((row) => textWidth(clip(row.name, most)))) + 10, width * 0.36);
    const box = { left, right: width - 16, top: 4, bottom: height - 40 };
    const values = rows.flatMap((row) => [row.value, row.low, row.high, row.also?.low, row.also?.high]).filter(finite);
    let [low, high] = [Math.min(...values, zero ? 0 : Infinity), Math.max(...values, zero ? 0 : -Infinity)];
    if (!(high > low)) [low, high] = [low - 1, high + 1];
    const pad = 0.1 * (high - low);
    const x = scale("linear", [low - pad, high + pad], [box.left, box.right]);
    const y = (i) => box.top + (i + 0.5) * rowHeight;
    const svg = frame(width, height, title, false);
    for (const t of ticks(low - pad, high + pad, Math.max(2, (box.right - box.left) / 80)))
      svg.append(
        s("line", { class: "grid", x1: x(t), x2: x(t), y1: box.top, y2: box.bottom }),
        s("text", { class: "tick", x: x(t), y: box.bottom + 15, "text-anchor": "middle" }, compact(t)));
    if (zero) svg.append(s("line", { class: "zero", x1: x(0), x2: x(0), y1: box.top, y2: box.bottom }));
    rows.forEach((row, i) => {
      const words = `${row.name}: ${format(row.value)}${finite(row.low) ? ` (${format(row.low)} to ${format(row.high)})` : ""}${row.note ? `, ${row.note}` : ""}`;
      const group = s("g", { colour: row.colour }, s("title", null, words));
      group.append(s("text", { class: "name", x: left - 10, y: y(i) + 4, "text-anchor": "end" }, clip(row.name, most)));
      if (zero && !finite(row.low)) group.append(s("line", { class: "stem", x1: x(0), x2: x(row.value), y1: y(i), y2: y(i) }));
      if (finite(row.low)) group.append(s("line", { class: "interval", x1: x(row.low), x2: x(row.high), y1: y(i), y2: y(i) }));
      if (finite(row.value)) group.append(s("circle", { class: "dot", cx: x(row.value), cy: y(i), r: 6.5 }));
      if (row.also && finite(row.also.value)) {
        const below = y(i) + 11;
        group.append(s("line", { class: "interval also", x1: x(row.also.low), x2: x(row.also.high), y1: below, y2: below }),
          s("circle", { class: "dot also", cx: x(row.also.value), cy: below, r: 4 }));
      }
      const leftward = x(row.value) > box.left + 0.72 * (box.right - box.left);
      if (row.note !== undefined)
        group.append(s("text", { class: "value", x: x(row.value) + (leftward ? -12 : 12), y: y(i) - 8, "text-anchor": leftward ? "end" : "start" }, format(row.value)));
      svg.append(group);
    });
    if (xLabel) svg.append(s("text", { class: "label", x: box.right, y: height - 6, "text-anchor": "end" }, clip(xLabel, Math.floor(width / 6.2))));
    fill(host, svg);
  });
}

export function shareBar(host, { title, parts }) {
  mount(host, (width) => {
    const height = 30;
    const svg = frame(width, height, `${title}: ${parts.map((part) => `${part.name} ${percent(part.share)}`).join(", ")}`, false);
    let from = 0;
    for (const part of parts) {
      const wide = part.share * width;
      const group = s("g", { colour: part.colour }, s("title", null, `${part.name} ${percent(part.share)}`));
      group.append(s("rect", { class: "share", x: from, y: 0, width: Math.max(wide - 1, 0), height, rx: 4 }));
      const most = Math.floor((wide - 10) / 7);
      if (most >= 3) group.append(s("text", { class: "inside", x: from + wide / 2, y: height / 2 + 4.5, "text-anchor": "middle" }, clip(part.name, most)));
      svg.append(group);
      from += wide;
    }
    fill(host, svg);
  });
}

function legendIn(host, items) {
  const list = h("ul", { class: "legend" });
  host.append(list);
  legend(list, items);
}

export function legend(host, items) {
  host.classList.add("legend");
  const key = (item) => s("svg", { width: 22, height: 10, "aria-hidden": "true" },
    s("line", { class: "line", x1: 0, x2: 22, y1: 5, y2: 5, colour: item.colour, "stroke-dasharray": item.dash, "stroke-width": 3 }));
  fill(host, items.map((item) => h("li", null, key(item), item.name)));
}
