// The parts of a campaign's page, each drawn from what the API answered. Nothing here asks for anything.

import { colourOf, intervalChart, legend, shareChart } from "./charts.js";
import { fill, h, listing, number, percent, s } from "./lib.js";

const MOST = 12; // arms that are shown at first
const MOST_VALUES = 24;
const $ = (id) => document.getElementById(id);
const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
const range = (low, high, format = number) => `${format(low)} to ${format(high)}`;
// Ends of an interval that are next to nothing, beside its other end, are 0.
const ends = ({ low, high }) => [low, high].map((end) => number(Math.abs(end) < 1e-3 * Math.max(Math.abs(low), Math.abs(high)) ? 0 : end)).join(" to ");
const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
// A chart that somebody reads right now is left alone.
const read = (host) => host.matches(":hover, :focus-within");

// ---------------------------------------------------------------- head

export function drawView(view) {
  put($("name"), view.name);
  document.title = `${view.name} · headwater`;
  const badges = [view.status, ...(view.mode === "shadow" ? ["shadow"] : [])];
  if ($("badges").dataset.shown !== badges.join()) {
    $("badges").dataset.shown = badges.join();
    fill($("badges"), badges.map((word) => h("span", { class: `badge status-${word}`, "data-status": word === view.status }, word)));
  }
  for (const name of ["decisions", "rewards", "pending", "refused"]) put(document.querySelector(`[data-count=${name}]`), view[name].toLocaleString("en"));
  put($("policy"), view.policy);
  $("pause").hidden = view.status !== "running";
  $("resume").hidden = view.status !== "paused";
  $("archive").hidden = view.status === "archived";
}

export function drawBest(report) {
  $("best").className = "sentence";
  put($("best"), report.best.sentence);
  const { estimate, low, high, own_regret: own, rounds, reason, confidence } = report.avoided;
  if (estimate === null || estimate === undefined) {
    put($("avoided"), "–");
    put($("avoided-words"), `What was avoided against UCB1 is not known: ${because(reason)}.`);
    return;
  }
  put($("avoided"), `${number(estimate)} (${range(low, high)})`);
  const more = estimate >= 0 ? "more" : "less";
  put($("avoided-words"), `In the same ${count(rounds, "round")}, UCB1 would have lost about ${number(Math.abs(estimate))} ${more} than this campaign, which lost about ${number(own)}; the interval has ${percent(confidence)} confidence.`);
}

const because = (reason) => (reason === "too few rewards yet" ? "there are too few rewards yet" : reason);

// ---------------------------------------------------------------- alarms

const SEVERITY = { contradicted: "serious", drift: "warning", silent: "warning" };

export function drawAlarms(alarms) {
  $("alarms-card").hidden = !alarms.length;
  const key = JSON.stringify(alarms);
  if ($("alarms").dataset.shown === key) return;
  $("alarms").dataset.shown = key;
  const order = ["serious", "warning", "notice"];
  const ranked = alarms.map((alarm) => [SEVERITY[alarm.kind] || "notice", alarm]).sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0]));
  fill($("alarms"), ranked.map(([severity, alarm]) => h("li", { class: severity }, h("span", { class: "badge" }, severity), h("span", null, alarm.message))));
}

// ---------------------------------------------------------------- traffic

const UNITS = [[86400, "days"], [3600, "hours"], [60, "minutes"], [1, "seconds"]];

// Spans of time with few decisions are joined, so that shares are shares of something.
export function drawTraffic(series) {
  const names = Object.keys(series.decisions);
  const spans = series.decisions[names[0]].length;
  const total = Array.from({ length: spans }, (_, i) => names.reduce((sum, name) => sum + series.decisions[name][i], 0));
  const all = total.reduce((a, b) => a + b, 0);
  $("no-traffic").hidden = all > 0;
  if (!all || read($("traffic"))) return;
  const enough = Math.max(8, all / 36);
  const groups = [];
  let open = { sums: names.map(() => 0), total: 0, end: 0 };
  total.forEach((n, i) => {
    open.sums = open.sums.map((sum, k) => sum + series.decisions[names[k]][i]);
    open.total += n;
    open.end = (i + 1) * series.seconds;
    if (open.total >= enough) {
      groups.push(open);
      open = { sums: names.map(() => 0), total: 0, end: 0 };
    }
  });
  if (open.total && groups.length) {
    const last = groups.at(-1);
    groups[groups.length - 1] = { sums: last.sums.map((sum, k) => sum + open.sums[k]), total: last.total + open.total, end: open.end };
  } else if (open.total) groups.push(open);
  const [unit, word] = UNITS.find(([size]) => groups.at(-1).end >= 2 * size) || UNITS.at(-1);
  const points = [groups[0], ...groups]; // from the start to the end of the first span, and on
  const shown = names.map((name, k) => ({ name, k, sum: groups.reduce((sum, group) => sum + group.sums[k], 0) })).sort((a, b) => b.sum - a.sum).slice(0, MOST).sort((a, b) => a.k - b.k);
  shareChart($("traffic"), {
    title: "Share of decisions by arm over time", height: 240, xLabel: `${word} since the first decision`,
    x: [0, ...groups.map((group) => group.end / unit)],
    series: shown.map(({ name, k }) => ({ name, colour: colourOf(k), y: points.map((group) => group.sums[k] / group.total) })),
  });
}

// ---------------------------------------------------------------- arms

export function drawMeans({ report, view }) {
  const names = Object.keys(view.arms);
  const shown = pick(report, names).map((name) => report.arms.find((arm) => arm.arm === name));
  const model = report.rewards > 0 && shown.some((arm) => arm.model_mean !== null);
  put($("means-note"), `mean reward with ${percent(report.confidence)} intervals`);
  $("means-legend").hidden = !model;
  if (model && !$("means-legend").childElementCount) {
    legend($("means-legend"), []);
    const mark = (also) => s("svg", { width: 30, height: 14, class: "chart-key", "aria-hidden": "true" },
      s("line", { class: `interval ${also}`, x1: 3, x2: 27, y1: 7, y2: 7 }), s("circle", { class: `dot ${also}`, cx: 15, cy: 7, r: also ? 4 : 5.5 }));
    fill($("means-legend"), h("li", null, mark(""), "from the arm’s own rewards"), h("li", null, mark("also"), "from all rewards, through the model"));
  }
  if (read($("means"))) return;
  intervalChart($("means"), {
    title: "Mean reward of every arm, by its own rewards and by the model", rowHeight: model ? 42 : 34, xLabel: "mean reward",
    rows: shown.map((arm) => ({
      name: arm.arm, value: arm.mean, low: arm.low, high: arm.high, colour: colourOf(names.indexOf(arm.arm)),
      note: arm.mean === null ? undefined : count(arm.rewards, "reward"),
      also: !model || arm.model_mean === null ? undefined : { value: arm.model_mean, low: arm.model_low, high: arm.model_high },
    })),
  });
}

// The arms that matter: all of a few, else those with the most decisions, in their own order.
function pick(report, names) {
  if (names.length <= MOST) return names;
  const decisions = new Map((report?.arms || []).map((arm) => [arm.arm, arm.decisions]));
  const top = new Set([...names].sort((a, b) => (decisions.get(b) || 0) - (decisions.get(a) || 0)).slice(0, MOST));
  return names.filter((name) => top.has(name));
}

const items = new Map(); // made once and kept, so that a switch keeps its focus

function makeArm(name, k, toggle) {
  const part = (tag, attributes) => h(tag, attributes);
  const item = {
    badges: part("span", { class: "badges" }), share: part("span", { class: "share-text" }), meter: part("i", { colour: colourOf(k) }),
    sentence: part("p", { class: "sentence-of" }), numbers: part("p", { class: "note numbers" }), state: h("span", null, "on"),
  };
  item.box = h("input", { type: "checkbox", role: "switch", "aria-label": `${name} is on`, onchange: () => { item.wanted = item.box.checked; toggle(name, item.box.checked).finally(() => { item.wanted = undefined; item.box.checked = item.on; }); } });
  item.row = h("li", { "data-arm": name },
    h("div", { class: "arm-head" }, h("span", { class: "arm-name" }, h("i", { class: "key round", colour: colourOf(k) }), h("b", null, name)), item.badges, item.share, h("label", { class: "switch" }, item.box, item.state)),
    h("div", { class: "meter", "aria-hidden": "true" }, item.meter), item.sentence, item.numbers);
  return item;
}

export function drawArms(state, toggle) {
  const { view, report, explanation } = state;
  const names = Object.keys(view.arms);
  const listed = state.all ? names : pick(report, names);
  const told = new Map((explanation?.arms || []).map((line) => [line.name, line]));
  const known = new Map((report?.arms || []).map((arm) => [arm.arm, arm]));
  listed.forEach((name) => {
    if (!items.has(name)) items.set(name, makeArm(name, names.indexOf(name), toggle));
    drawArm(items.get(name), name, view, told.get(name), known.get(name), explanation, report);
  });
  const rows = listed.map((name) => items.get(name).row);
  if (rows.length !== $("arms").children.length || rows.some((row, i) => $("arms").children[i] !== row)) fill($("arms"), rows);
  $("all-arms").hidden = listed.length === names.length;
  put($("all-arms"), `Show all ${names.length} arms`);
}

function drawArm(item, name, view, line, arm, explanation, report) {
  const learned = report?.rewards > 0;
  const on = view.arms[name];
  const archived = view.status === "archived";
  item.on = on;
  item.box.disabled = archived;
  if (item.wanted === undefined) item.box.checked = on;
  put(item.state, on ? "on" : "off");
  item.row.classList.toggle("off", !on);
  const words = [];
  if (!on) words.push(["off", ""]);
  else if (line?.excluded_by) words.push(["excluded", "out"]);
  else if (learned && report.best.arm === name && report.best.probability >= 0.6) words.push(["likely best", "best"]);
  else if (line) words.push(["competitive", "open"]);
  if (on && line?.chosen && view.status === "running") words.push(["next", "next"]);
  if (explanation?.doubted.includes(name)) words.push(["doubted", "bad"]);
  if (view.control?.arm === name) words.push(["control", ""]);
  const key = words.map(([word]) => word).join();
  if (item.badges.dataset.shown !== key) {
    item.badges.dataset.shown = key;
    fill(item.badges, words.map(([word, kind]) => h("span", { class: `badge ${kind}` }, word)));
  }
  put(item.sentence, line ? upper(line.sentence) : "");
  put(item.share, arm ? `${percent(arm.share)} · ${count(arm.decisions, "decision")}` : "");
  item.meter.style.setProperty("--part", `${100 * (arm ? arm.share : 0)}%`);
  const parts = [];
  if (arm?.mean !== null && arm?.mean !== undefined) parts.push(`Own rewards: ${number(arm.mean)} (${ends(arm)}) from ${number(arm.rewards)}`);
  if (learned && arm?.model_mean !== null && arm?.model_mean !== undefined) parts.push(`model: ${number(arm.model_mean)} (${ends({ low: arm.model_low, high: arm.model_high })})`);
  if (arm?.holdout) parts.push(`holdout: ${number(arm.holdout.mean)} (${ends(arm.holdout)}) from ${number(arm.holdout.rewards)}`);
  put(item.numbers, parts.length ? upper(`${parts.join(" · ")}.`) : "");
}

// ---------------------------------------------------------------- X, rewards, events

export function drawLatent(latent, confidence) {
  if (!latent.values) {
    put($("latent-note"), "");
    fill($("latent"));
    fill($("latent-words"), h("li", null, `The mix of X is not shown: ${latent.reason}.`));
    return;
  }
  const values = Object.entries(latent.values);
  const shown = values.length <= MOST_VALUES ? values : [...values].sort((a, b) => b[1].likeliest - a[1].likeliest).slice(0, MOST_VALUES);
  put($("latent-note"), latent.contradicted ? "the hidden mix, inferred; no intervals" : `the hidden mix, inferred; intervals: ${latent.kind ?? `${percent(confidence)} confidence`}`);
  if (!read($("latent")))
    intervalChart($("latent"), {
      title: "How common each value of X is", xLabel: "% of visitors", format: (v) => `${number(v)} %`, rowHeight: 36,
      rows: shown.map(([name, one]) => ({ name, value: 100 * one.likeliest, low: one.low === null ? null : 100 * one.low, high: one.high === null ? null : 100 * one.high, note: "", colour: "var(--accent)" })),
    });
  const words = latent.rounds === 0 ? ["Nothing is known of the mix yet."] : latent.alike.map((group) => `${listing(group.values)} look the same to every arm shown so far: together ${percent(group.likeliest)}${group.low === null ? "" : ` (${range(group.low, group.high, percent)})`}.`);
  if (latent.rounds !== 0) words.push(...(latent.notes ?? []));
  if (shown.length < values.length) words.push(`The ${shown.length} commonest of ${values.length} values.`);
  fill($("latent-words"), words.map((text) => h("li", null, text)));
}

export function drawSettled({ view, report }) {
  const { paid = null, default: instead = null, forgotten = null } = report?.settled || {};
  const rows = [["paid", paid], ["counted as the default, after the deadline", instead], ["given up, after the deadline", forgotten], ["still waited for", view.pending], ["refused or late", view.refused]];
  fill($("settled"), rows.filter(([, n], i) => i !== 1 && i !== 2 ? true : n).map(([text, n]) => h("tr", null, h("th", { scope: "row" }, text), h("td", { class: "n" }, n === null ? "–" : n.toLocaleString("en")))));
}

const entry = (at, text) => h("li", null, h("time", { datetime: at }, new Date(at).toLocaleString("en-GB", { dateStyle: "short", timeStyle: "short" })), h("span", null, text));

export function drawEvents({ events, refusals }) {
  fill($("events"), events.slice(0, 12).map((one) => entry(one.at, one.message)));
  $("refusals-box").hidden = !refusals.length;
  fill($("refusals"), refusals.slice(0, 20).map((one) => entry(one.at, one.message)));
}
