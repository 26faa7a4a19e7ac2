// The reward functions as a picture whose points are dragged: by mouse, by touch, and by the arrow keys.
//
//   picture(host, table, {move(k, j, reward, done)})   draws; calls move while a point is dragged, done at the end of it
//
// Every arm is one stop of the Tab key: up and down change a reward, left and right go to the arm's next point.

import { colourOf, scale, ticks } from "./charts.js";
import { fill, number, s } from "./lib.js";

const HEIGHT = 290;
const NICE = [1, 2, 5, 10];

export function stepOf(low, high) {
  const raw = (high - low) / 40;
  const power = 10 ** Math.floor(Math.log10(raw));
  return NICE.map((m) => m * power).find((m) => m >= raw * 0.999);
}

const stops = new WeakMap(); // which of an arm's points Tab goes to: the last one that was touched
const frames = new WeakMap(); // while a point is dragged the axes stand still

function rangeOf(table) {
  const rewards = table.arms.flatMap((arm) => arm.rewards).filter(Number.isFinite);
  const low = Math.min(0, ...rewards);
  const high = Math.max(low + 1e-9, ...rewards);
  return [low - (low < 0 ? 0.12 * (high - low) : 0), high + 0.14 * (high - low || 1)];
}

export function picture(host, table, { move }) {
  const width = host.clientWidth;
  if (!width) return;
  const [low, high] = frames.get(host) || rangeOf(table);
  const step = stepOf(low, high);
  const box = { left: 40, right: width - 8, top: 22, bottom: HEIGHT - 30 };
  const columns = table.values.length;
  const wide = (box.right - box.left) / columns;
  const y = scale("linear", [low, high], [box.bottom, box.top]);
  const dodge = Math.min(9, (0.6 * wide) / table.arms.length);
  const at = (k, j) => box.left + (j + 0.5) * wide + (k - (table.arms.length - 1) / 2) * dodge;
  const svg = s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "group", "aria-label": "Rewards of every arm for every value of X" });
  svg.append(s("text", { class: "label", x: 0, y: 12 }, "reward"));
  for (const t of ticks(low, high, 5))
    svg.append(
      s("line", { class: "grid", x1: box.left, x2: box.right, y1: y(t), y2: y(t) }),
      s("text", { class: "tick", x: box.left - 7, y: y(t) + 4, "text-anchor": "end" }, number(t)),
    );
  const tallest = Math.max(...table.p, 0.25);
  table.values.forEach((value, j) => {
    const up = (table.p[j] / tallest) * (box.bottom - box.top) * 0.5;
    svg.append(
      s("rect", { class: "weight", x: box.left + j * wide + 0.14 * wide, width: 0.72 * wide, y: box.bottom - up, height: up }),
      s("text", { class: "tick", x: box.left + (j + 0.5) * wide, y: box.bottom + 18, "text-anchor": "middle" }, short(value, wide)),
    );
  });
  svg.append(s("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
  table.arms.forEach((arm, k) => {
    const points = arm.rewards.map((reward, j) => (Number.isFinite(reward) ? `${at(k, j)},${y(reward)}` : "")).filter(Boolean);
    svg.append(s("polyline", { class: "line thin", points: points.join(" "), colour: colourOf(k) }));
  });
  table.arms.forEach((arm, k) => arm.rewards.forEach((reward, j) => {
    if (Number.isFinite(reward)) svg.append(point(host, table, { k, j, reward, x: at(k, j), y, low, high, step, box, move }));
  }));
  const focused = host.contains(document.activeElement) ? document.activeElement.dataset.point : null;
  fill(host, svg);
  if (focused) svg.querySelector(`[data-point="${focused}"]`)?.focus();
}

function point(host, table, { k, j, reward, x, y, low, high, step, box, move }) {
  const snap = (value) => Number((Math.round(value / step) * step).toPrecision(10));
  const name = `${table.arms[k].name} for ${table.values[j]}`;
  const dot = s(
    "g",
    {
      class: "point", tabindex: (stops.get(host)?.[k] ?? 0) === j ? 0 : -1, role: "slider", "data-point": `${k}-${j}`, "aria-label": name, "aria-orientation": "vertical",
      "aria-valuenow": reward, "aria-valuemin": Number(low.toPrecision(6)), "aria-valuemax": Number(high.toPrecision(6)), colour: colourOf(k),
    },
    s("title", null, `${name}: ${number(reward)}. Drag it, or use the arrow keys: up and down change it, left and right go to the next.`),
    s("circle", { class: "reach", cx: x, cy: y(reward), r: 15 }),
    s("circle", { class: "dot", cx: x, cy: y(reward), r: 6 }),
  );
  dot.addEventListener("keydown", (event) => {
    const along = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (along) {
      event.preventDefault();
      host.querySelector(`[data-point="${k}-${j + along}"]`)?.focus();
      return;
    }
    const steps = { ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
    if (steps === undefined) return;
    event.preventDefault();
    move(k, j, snap(reward + steps * step), true);
  });
  dot.addEventListener("focus", () => {
    stops.set(host, { ...stops.get(host), [k]: j });
    host.querySelectorAll(`[data-point^="${k}-"]`).forEach((other) => other.setAttribute("tabindex", other === dot ? 0 : -1));
  });
  dot.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    dot.focus();
    frames.set(host, [low, high]);
    host.setPointerCapture(event.pointerId); // the host stays while its points are drawn anew
    const follow = (where) => {
      const share = (box.bottom - (where.clientY - host.getBoundingClientRect().top)) / (box.bottom - box.top);
      move(k, j, snap(Math.min(Math.max(low + share * (high - low), low), high)), false);
    };
    const release = () => {
      host.removeEventListener("pointermove", follow);
      for (const end of ["pointerup", "pointercancel"]) host.removeEventListener(end, release);
      frames.delete(host);
      move(k, j, null, true);
    };
    host.addEventListener("pointermove", follow);
    for (const end of ["pointerup", "pointercancel"]) host.addEventListener(end, release);
  });
  return dot;
}

const short = (text, wide) => {
  const most = Math.max(2, Math.floor(wide / 7));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};
