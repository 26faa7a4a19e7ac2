// The studio: one state (a problem), shown as a table, a picture, a mix and a file; analysed and raced by the server.

import { colourOf, intervalChart, shareBar } from "./charts.js";
import { ApiError, api, fill, h, keep, later, number, percent, say } from "./lib.js";
import { picture } from "./studio_picture.js";
import { MOST, complaints, nextMove, problemOf, tableOf, tidy, withShare } from "./studio_problem.js";
import { race } from "./studio_race.js";
import { badge, headline, limit, promise, verdictColour, verdictOf, why } from "./studio_words.js";

const $ = (id) => document.getElementById(id);
const xColour = (j) => `var(--x${j % 6})`;

// `table` is null for problems that only their file can show; `problem` is what the server gets.
// `refused` says that the server, or a complaint of our own, has turned it down.
const state = { table: null, problem: null, analysis: null, refused: false, wrong: [], examples: [] };

// ---------------------------------------------------------------- the problem

function open(problem, { text = null } = {}) {
  state.problem = problem;
  state.table = tableOf(problem);
  $("name").value = problem.name || "";
  show(text === null && state.table ? "table" : "file");
  drawTable();
  if (text === null) refreshText();
  changed({ structure: false });
}

// Something in the table, the picture or the mix has changed.
function changed({ structure = true, text = true } = {}) {
  if (state.table) {
    state.wrong = complaints(state.table);
    if (!state.wrong.length) state.problem = problemOf(state.table);
    drawMix();
    drawPicture();
  } else state.wrong = [];
  state.refused = state.wrong.length > 0;
  if (structure && text) refreshText();
  game.stale();
  remember();
  analyse();
}

// The problem in the address: a link to it.
function address() {
  const bytes = new TextEncoder().encode(JSON.stringify(state.problem));
  if (bytes.length > 4000) return history.replaceState(null, "", location.pathname);
  const text = btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return history.replaceState(null, "", `#p=${text}`);
}

const remember = later(400, address);

function recalled() {
  try {
    const text = location.hash.match(/^#p=([\w-]+)$/)[1].replaceAll("-", "+").replaceAll("_", "/");
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(text), (c) => c.charCodeAt(0))));
  } catch {
    return null;
  }
}

// ---------------------------------------------------------------- the table

function drawTable() {
  const { table } = state;
  $("table-panel").hidden = !table;
  $("no-table").hidden = Boolean(table);
  if (!table) return;
  const cell = (arm, k, j) => h("td", null, h("input", {
    type: "number", step: "any", value: arm.rewards[j], "data-cell": `${k}-${j}`, "aria-label": `${arm.name} for ${table.values[j]}`,
    oninput: ({ target }) => {
      arm.rewards[j] = target.value === "" ? NaN : Number(target.value);
      target.setAttribute("aria-invalid", String(!Number.isFinite(arm.rewards[j])));
      changed();
    },
  }));
  const remove = (what, enough, go) => h("button", { type: "button", class: "quiet", title: `Remove ${what}`, "aria-label": `Remove ${what}`, disabled: !enough, onclick: go }, "×");
  const rename = (value, what, set) => {
    const box = h("input", { type: "text", class: "rename", value, maxlength: 80, "aria-label": what, oninput: (event) => { set(event.target.value); changed(); }, onchange: drawTable });
    box.style.width = `calc(${Math.min(Math.max(value.length, 3), 13)}ch + 1rem)`;
    return box;
  };
  fill($("rewards"),
    h("thead", null, h("tr", null, h("th", { scope: "col" }, h("span", { class: "hidden" }, "arm")),
      table.values.map((value, j) => h("th", { scope: "col" }, h("div", { class: "head" },
        rename(value, `Name of value ${j + 1}`, (text) => { table.values[j] = text; }),
        remove(value, table.values.length > 1, () => dropValue(j))))))),
    h("tbody", null, table.arms.map((arm, k) => h("tr", null,
      h("th", { scope: "row" }, h("div", { class: "head" }, h("i", { class: "key round", colour: colourOf(k) }),
        rename(arm.name, `Name of arm ${k + 1}`, (text) => { arm.name = text; }),
        remove(arm.name, table.arms.length > 2, () => { table.arms.splice(k, 1); drawTable(); changed(); }))),
      arm.rewards.map((_, j) => cell(arm, k, j))))));
  $("add-arm").disabled = table.arms.length >= MOST;
  $("add-value").disabled = table.values.length >= MOST;
  drawSliders();
}

function dropValue(j) {
  const { table } = state;
  table.values.splice(j, 1);
  table.p.splice(j, 1);
  table.p = tidy(table.p);
  table.arms.forEach((arm) => arm.rewards.splice(j, 1));
  drawTable();
  changed();
}

const fresh = (stem, taken) => {
  for (let n = taken.length + 1; ; n++) if (!taken.includes(`${stem} ${n}`)) return `${stem} ${n}`;
};

function addArm() {
  const { table } = state;
  table.arms.push({ name: fresh("arm", table.arms.map((arm) => arm.name)), rewards: table.values.map(() => 1) });
  drawTable();
  changed();
}

function addValue() {
  const { table } = state;
  const numbers = table.values.map(Number);
  table.values.push(table.numeric ? String(Math.max(...numbers) + 1) : fresh("kind", table.values));
  table.arms.forEach((arm) => arm.rewards.push(1));
  table.p = tidy([...table.p, 1 / table.values.length].map((share, j, all) => (j === all.length - 1 ? share : share * (1 - 1 / all.length))));
  drawTable();
  changed();
}

// ---------------------------------------------------------------- the picture and the mix

function drawPicture() {
  if (!state.table) return;
  picture($("picture"), state.table, {
    move(k, j, reward, done) {
      if (reward !== null) {
        state.table.arms[k].rewards[j] = reward;
        const cell = document.querySelector(`[data-cell="${k}-${j}"]`);
        if (cell) cell.value = reward;
      }
      changed({ text: done });
    },
  });
}

let base = []; // the mix when a slider was taken hold of: the others keep its proportions

function drawSliders() {
  const { table } = state;
  base = [...table.p];
  const hold = () => { base = [...table.p]; };
  fill($("sliders"), table.values.map((value, j) => h("label", { class: "slider", colour: xColour(j) },
    h("span", { class: "who" }, value),
    h("input", {
      type: "range", min: 0, max: 100, step: 0.5, value: 100 * table.p[j], "data-share": j, "aria-label": `Share of ${value}`,
      "aria-valuetext": percent(table.p[j]), onpointerdown: hold, onfocus: hold, onchange: hold,
      oninput: (event) => setShare(j, Number(event.target.value) / 100),
    }),
    h("output", { "data-out": j }, percent(table.p[j])))));
}

function setShare(j, share) {
  state.table.p = withShare(base, j, share);
  changed();
}

function drawMix() {
  const { table } = state;
  table.p.forEach((share, j) => {
    const slider = document.querySelector(`[data-share="${j}"]`);
    if (!slider) return;
    slider.setAttribute("aria-valuetext", percent(share));
    slider.style.setProperty("--part", `${100 * share}%`);
    if (document.activeElement !== slider || Math.abs(slider.value / 100 - share) > 0.006) slider.value = 100 * share;
    document.querySelector(`[data-out="${j}"]`).textContent = percent(share);
  });
  shareBar($("mix"), { title: "How common each value of X is", parts: table.values.map((name, j) => ({ name, share: table.p[j], colour: xColour(j) })) });
}

function follow(move) {
  const from = state.table.p[move.j];
  base = [...state.table.p];
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const start = performance.now();
  const step = (now) => {
    const part = still ? 1 : Math.min((now - start) / 900, 1);
    setShare(move.j, from + (move.share - from) * part * part * (3 - 2 * part));
    if (part < 1) requestAnimationFrame(step);
    else base = [...state.table.p];
  };
  requestAnimationFrame(step);
}

// ---------------------------------------------------------------- the analysis

let asking = null;

const analyse = later(80, async () => {
  if (state.wrong.length) return complain(state.wrong);
  asking?.abort();
  const mine = (asking = new AbortController());
  const { problem } = state;
  try {
    const analysis = await api("POST", "/v1/analyze", { problem }, { signal: mine.signal });
    state.analysis = analysis;
    state.refused = false;
    drawVerdict();
    if (game.automatic()) game.run();
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    complain(error.details?.length ? error.details : [error.message]);
  }
  return undefined;
});

function complain(lines) {
  state.analysis = null;
  state.refused = true;
  fill($("wrong"), lines.map((line) => h("li", null, line)));
  $("wrong").hidden = false;
  $("verdict").classList.add("dim");
  say($("headline"), "This is not a problem yet");
}

function drawVerdict() {
  const { analysis, table } = state;
  $("wrong").hidden = true;
  $("verdict").classList.remove("dim");
  if ($("headline").textContent !== headline(analysis)) $("headline").textContent = headline(analysis);
  $("advice").textContent = analysis.best ? analysis.advice : "";
  const others = analysis.best ? analysis.arms.filter((name) => name !== analysis.best) : [];
  fill($("reasons"), others.slice(0, 20).map((name) => reason(name, why(analysis, table, name), others.length > 3)));
  $("gaps-box").hidden = !analysis.best;
  if (analysis.best) drawGaps();
  const found = analysis.best ? limit(analysis) : null;
  $("limit").hidden = !found;
  if (found) {
    $("limit-number").textContent = found[0];
    $("limit-words").textContent = found[1];
  }
  drawHint();
}

const unfolded = new Set(); // with many arms, those whose reasons the reader has opened

function reason(name, words, many) {
  const title = [h("b", null, name), badge(verdictOf(state.analysis, name))];
  if (!many) return h("li", null, h("div", { class: "reason" }, title), h("p", null, words));
  const fold = h("details", { open: unfolded.has(name) }, h("summary", null, h("span", { class: "reason" }, title)), h("p", null, words));
  fold.addEventListener("toggle", () => unfolded[fold.open ? "add" : "delete"](name));
  return h("li", null, fold);
}

function drawGaps() {
  const { analysis } = state;
  const shown = analysis.arms.filter((name) => name !== analysis.best).slice(0, 20);
  intervalChart($("gaps"), {
    title: "Pseudo-gap of every arm to the best", zero: true, xLabel: "pseudo-gap: right of 0 is ruled out", rowHeight: 36,
    rows: shown.map((name) => {
      const verdict = verdictOf(analysis, name);
      return { name, value: analysis.pseudo_gaps[name], colour: verdictColour(verdict), note: verdict };
    }),
  });
  const row = (name) => h("tr", null, h("th", { scope: "row" }, name), h("td", { class: "n" }, number(analysis.means[name])),
    h("td", { class: "n" }, number(analysis.gaps[name])), h("td", { class: "n" }, number(analysis.pseudo_gaps[name])), h("td", { class: "wide" }, badge(verdictOf(analysis, name))));
  fill($("means"), h("thead", null, h("tr", null, h("th", { scope: "col" }, "arm"), ["mean", "gap", "pseudo-gap"].map((title) => h("th", { scope: "col", class: "n" }, title)), h("th", { scope: "col", class: "wide" }, "verdict"))),
    h("tbody", null, analysis.arms.slice(0, 50).map(row)));
}

function drawHint() {
  const move = state.table && state.analysis?.best ? nextMove(state.table) : null;
  $("hint").hidden = !move;
  if (!move) return;
  const [what, then] = promise(state.table, move);
  fill($("hint"), h("span", null, h("b", null, "Try this: "), `${what}: ${then}`), h("button", { type: "button", onclick: () => follow(move) }, "Show me"));
}

// ---------------------------------------------------------------- the file

let writing = 0;

// Lists of plain entries on one line, as a person would write them.
const compact = (toml) => toml.replace(/\[\n((?: +[^\[\]\n]+,\n)+) *\]/g, (_, lines) => `[${lines.trim().replace(/,\n +/g, ", ").replace(/,$/, "")}]`);
const toToml = async () => compact(await api("POST", "/v1/problems/toml", { problem: state.problem }));

const refreshText = later(150, async () => {
  if (document.activeElement === $("text") || state.wrong.length) return;
  const mine = ++writing;
  try {
    const text = await toToml();
    if (mine === writing && document.activeElement !== $("text")) $("text").value = text;
  } catch { /* the analysis says what is wrong */ }
});

const readText = later(250, async () => {
  try {
    const problem = await api("POST", "/v1/problems/parse", { text: $("text").value });
    listErrors([]);
    open(problem, { text: $("text").value });
  } catch (error) {
    listErrors(error.details?.length ? error.details : [error.message]);
  }
});

function listErrors(lines) {
  fill($("errors"), lines.map((line) => h("li", null, line)));
  $("text").setAttribute("aria-invalid", String(lines.length > 0));
}

function show(tab) {
  for (const name of ["table", "file"]) {
    $(`tab-${name}`).setAttribute("aria-selected", String(name === tab));
    $(`tab-${name}`).tabIndex = name === tab ? 0 : -1;
    $(`panel-${name}`).hidden = name !== tab;
  }
  if (tab === "table") drawPicture();
}

async function openFile(event) {
  const [file] = event.target.files;
  event.target.value = "";
  if (!file) return;
  if (file.size > 200000) return void say($("says"), "This file is too large for the studio; use the command line.", "error");
  try {
    open(await api("POST", "/v1/problems/parse", { text: await file.text() }));
    listErrors([]);
    say($("says"), `Opened ${file.name}.`, "good");
  } catch (error) {
    say($("says"), [`${file.name}: ${error.message}`, ...(error.details || []).slice(1, 6)].join(" · "), "error");
  }
}

async function saveFile() {
  try {
    keep(await toToml(), `${(state.problem.name || "problem").replace(/[^\w-]+/g, "-").slice(0, 60) || "problem"}.toml`, "application/toml");
    say($("says"), "Saved as a problem file: headwater analyze, simulate and serve read it.", "good");
  } catch (error) {
    say($("says"), error.message, "error");
  }
}

async function share() {
  address();
  try {
    await navigator.clipboard.writeText(location.href);
    say($("says"), "The link to this problem is copied.", "good");
  } catch {
    say($("says"), "The address of this page is the link to this problem.");
  }
}

async function launch() {
  $("launch").disabled = true;
  say($("says"), "Launching …");
  try {
    const { id } = await api("POST", "/v1/campaigns", { name: state.problem.name || "from the studio", problem: state.problem, policy: "auto" });
    location.assign(`/campaigns/${encodeURIComponent(id)}`);
  } catch (error) {
    const lost = error instanceof ApiError && error.status === 404 ? "This server runs no campaigns: " : "";
    say($("says"), `${lost}${error.message}`, "error");
    $("launch").disabled = false;
  }
}

// ---------------------------------------------------------------- begin

const game = race($("race"), () => (state.refused ? null : { problem: state.problem, analysis: () => state.analysis }));

function listen() {
  $("add-arm").addEventListener("click", addArm);
  $("add-value").addEventListener("click", addValue);
  $("name").addEventListener("input", (event) => {
    if (state.table) state.table.name = event.target.value;
    else state.problem = { ...state.problem, name: event.target.value };
    changed();
  });
  $("text").addEventListener("input", readText);
  $("file").addEventListener("change", openFile);
  $("open").addEventListener("click", () => $("file").click());
  $("save").addEventListener("click", saveFile);
  $("share").addEventListener("click", share);
  $("launch").addEventListener("click", launch);
  for (const tab of ["table", "file"]) {
    $(`tab-${tab}`).addEventListener("click", () => show(tab));
    $(`tab-${tab}`).addEventListener("keydown", (event) => {
      if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      const other = tab === "table" ? "file" : "table";
      show(other);
      $(`tab-${other}`).focus();
    });
  }
  $("example").addEventListener("change", (event) => {
    const chosen = state.examples.find((example) => example.id === event.target.value);
    if (!chosen) return;
    listErrors([]);
    $("note").textContent = chosen.note;
    open(chosen.problem);
  });
  new ResizeObserver(later(60, drawPicture)).observe($("picture"));
}

async function begin() {
  listen();
  try {
    state.examples = await api("GET", "/v1/examples");
  } catch (error) {
    return complain([error.message]);
  }
  const group = (label, list) => h("optgroup", { label }, list.map((one) => h("option", { value: one.id }, one.name)));
  const paper = state.examples.filter((one) => one.id.startsWith("paper-"));
  $("example").append(group("To begin with", state.examples.filter((one) => !paper.includes(one))), group("The paper’s", paper));
  const shared = recalled();
  $("example").value = shared ? "" : state.examples[0].id;
  try {
    open(shared || state.examples[0].problem);
  } catch {
    open(state.examples[0].problem);
  }
  document.body.dataset.ready = "yes";
  return undefined;
}

begin();
