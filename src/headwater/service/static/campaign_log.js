// The decision log, newest first: the first page is kept up, older ones are loaded on demand and stay; the page grows only then.

import { fill, h, number, percent } from "./lib.js";

const SIZE = 20;
const $ = (id) => document.getElementById(id);
const clock = (at) => new Date(at).toLocaleTimeString("en-GB");
const day = (at) => new Date(at).toLocaleString("en-GB");

const paid = (reward) => {
  if (!reward) return h("span", { class: "note" }, "pending");
  if (reward.kind === "paid") return number(reward.value);
  return reward.kind === "default" ? `${number(reward.value)} (default)` : "given up";
};

const row = (one) => h("tr", null,
  h("th", { scope: "row" }, one.id),
  h("td", { title: day(one.at) }, clock(one.at)),
  h("td", null, one.arm),
  h("td", { class: "n" }, paid(one.reward)),
  h("td", { class: "n" }, one.propensity === null ? "–" : percent(one.propensity)),
  h("td", { class: "why" }, one.unit ? `For ${one.unit}. ${one.reason}` : one.reason));

export function decisionLog(path, ask) {
  const rows = new Map(); // by number
  const numberOf = (one) => Number(one.id.slice(one.id.lastIndexOf(".") + 1));
  let asking = false;
  let room = SIZE; // rows on the page; more where they were asked for

  function draw() {
    const sorted = [...rows.keys()].sort((a, b) => b - a);
    for (const key of sorted.slice(room)) rows.delete(key);
    const listed = sorted.slice(0, room);
    fill($("log").tBodies[0], listed.map((key) => row(rows.get(key))));
    $("no-log").hidden = listed.length > 0;
    $("more").hidden = !listed.length || listed.at(-1) === 1;
  }

  async function load(before) {
    const { decisions } = await ask(`/decisions?before=${before}&limit=${SIZE}`);
    for (const one of decisions) rows.set(numberOf(one), one);
    return decisions;
  }

  $("more").addEventListener("click", async () => {
    if (asking) return;
    asking = true;
    try {
      await load(Math.min(...rows.keys()));
      room += SIZE;
      draw();
    } catch { /* the loop says that the server is away */ } finally {
      asking = false;
    }
  });

  return {
    // The newest, and again those on the page that still wait for a reward, as far as two pages reach.
    async newest(view) {
      if (!view.decisions) return;
      const last = rows.size ? Math.max(...rows.keys()) : 0;
      const found = await load(view.decisions + 1);
      if (last && found.length && numberOf(found.at(-1)) > last + 1) { // more came than a page holds: no gaps
        rows.clear();
        for (const one of found) rows.set(numberOf(one), one);
      }
      const waiting = [...rows.entries()].filter(([key, one]) => !one.reward && key < view.decisions - SIZE + 1).map(([key]) => key);
      if (waiting.length) await load(Math.max(...waiting) + 1);
      draw();
    },
  };
}
