// A campaign, live. One loop asks for the counts every two seconds and for the rest where they have changed; the report, which
// takes the server a while, is asked for every ten. Nothing is asked for twice at a time, and nothing while nobody looks.

import "./copy.js";
import { drawAlarms, drawArms, drawBest, drawEvents, drawLatent, drawMeans, drawSettled, drawTraffic, drawView } from "./campaign_parts.js";
import { decisionLog } from "./campaign_log.js";
import { api, data, fill, h, say } from "./lib.js";
import { fillSettings, offerArms, readSettings } from "./settings.js";
import { player } from "./campaign_try.js";

const PAUSE = 2000;
const REPORT = 10000;
const PATIENCE = 20000;

const $ = (id) => document.getElementById(id);
const { view: first, pays } = data("campaign");
const path = `/v1/campaigns/${encodeURIComponent(first.id)}`;
const state = { view: first, report: null, explanation: null, seen: "", reported: { at: -Infinity, key: "", known: 0, busy: false } };

const ask = (what, ms = PATIENCE) => api("GET", path + what, undefined, { signal: AbortSignal.timeout(ms) });
const keyOf = (view) => [view.version, view.status, view.decisions, view.rewards, view.refused].join(" ");

// ---------------------------------------------------------------- the loop

let timer = 0;
let busy = false;
let again = false;

async function tick() {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  clearTimeout(timer);
  try {
    const view = await ask("");
    took(view);
    if (keyOf(view) !== state.seen) {
      const [series, explanation, events] = await Promise.all([ask("/series"), ask("/explanation"), ask("/events"), log.newest(view)]);
      state.explanation = explanation;
      drawTraffic(series);
      drawEvents(events);
      drawArms(state, toggle);
      state.seen = keyOf(view);
    }
    report();
    say($("link"), "");
  } catch (error) {
    lost(error);
  } finally {
    busy = false;
    if (again) {
      again = false;
      tick();
    } else timer = setTimeout(loop, PAUSE);
  }
}

const loop = () => (document.hidden ? undefined : tick());

function lost(error) {
  if (error.status === 401) location.assign(`/login?next=${encodeURIComponent(location.pathname)}`);
  else if (error.code === "unreachable") say($("link"), "Offline, trying again …", "error");
  else say($("link"), error.status >= 500 || error.status === 429 ? `${error.message}. Trying again …` : error.message, "error");
}

// Asked for when ten seconds are over, or when there is so much new that the server makes a fresh one.
async function report() {
  const { view, reported } = state;
  const known = view.decisions + view.rewards;
  const due = performance.now() - reported.at >= REPORT || known >= 1.05 * reported.known + 5 || !reported.key.startsWith(`${view.version} `);
  if (reported.busy || !due || (reported.key === keyOf(view) && performance.now() - reported.at < 6 * REPORT)) return;
  reported.busy = true;
  const slow = setTimeout(() => {
    if (!state.report) say($("best"), "Working out the first report: the first time on a machine takes a minute …");
    $("best").classList.add("sentence");
  }, 3000);
  try {
    const made = await ask("/report", 300000);
    Object.assign(reported, { at: performance.now(), key: keyOf(view), known: made.decisions + made.rewards });
    if (made.decisions < view.decisions) reported.key = `${view.version} older`; // the server's was kept from before
    state.report = made;
    drawBest(made);
    drawAlarms(made.alarms);
    drawMeans(state);
    drawLatent(made.latent, made.confidence);
    drawSettled(state);
    drawArms(state, toggle);
  } catch (error) {
    if (error.status) lost(error);
  } finally {
    clearTimeout(slow);
    reported.busy = false;
  }
}

function took(view) {
  const other = view.version !== state.view.version;
  state.view = view;
  drawView(view);
  drawSettled(state);
  if (other) drawArms(state, toggle);
  if (other && !$("settings").contains(document.activeElement)) fillSettings($("settings"), view);
  hand.show(view);
}

// ---------------------------------------------------------------- what a person does

async function act(what, body, done, method = "POST") {
  try {
    took(await api(method, path + what, body));
    say($("says"), done, "good");
  } catch (error) {
    if (error.status === 401) lost(error);
    say($("says"), error.message, "error");
  }
  tick();
}

async function toggle(arm, enabled) {
  await act("/arms", { arm, enabled }, `${arm} is ${enabled ? "on" : "off"}.`);
}

async function save(event) {
  event.preventDefault();
  const wrong = (lines) => fill($("settings-wrong"), lines.map((line) => h("li", null, line)));
  wrong([]);
  try {
    took(await api("PATCH", path, readSettings($("settings"))));
    fillSettings($("settings"), state.view);
    say($("settings-says"), "Saved: it holds from the next decision on.", "good");
  } catch (error) {
    say($("settings-says"), "Not saved.", "error");
    wrong(error.details?.length ? error.details : [error.message]);
  }
  tick();
}

function listen() {
  const swap = (other) => () => { if (document.activeElement === document.body) $(other).focus(); }; // the button pressed is hidden now
  $("pause").addEventListener("click", () => act("/pause", undefined, "Paused: no decisions until it is resumed; rewards go on counting.").then(swap("resume")));
  $("resume").addEventListener("click", () => act("/resume", undefined, "Resumed.").then(swap("pause")));
  $("archive").addEventListener("click", () => $("sure").showModal());
  $("sure").addEventListener("close", () => {
    if ($("sure").returnValue === "yes") act("/archive", undefined, "Archived.");
    $("sure").returnValue = "";
  });
  $("settings").addEventListener("submit", save);
  $("settings").addEventListener("reset", (event) => { event.preventDefault(); fillSettings($("settings"), state.view); say($("settings-says"), ""); fill($("settings-wrong")); });
  $("all-arms").addEventListener("click", () => { state.all = true; drawArms(state, toggle); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) tick(); });
  addEventListener("online", tick);
}

const log = decisionLog(path, ask);
const hand = player({ path, pays, arms: Object.keys(first.arms), changed: tick });
offerArms($("settings"), Object.keys(first.arms));
fillSettings($("settings"), first);
listen();
drawView(first);
drawArms(state, toggle);
hand.show(first);
tick().then(() => { document.body.dataset.ready = "yes"; });
