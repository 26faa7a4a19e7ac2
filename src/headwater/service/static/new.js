// A new campaign: a problem file that is checked as it is typed, settings, and a button that waits.

import { api, fill, h, later, listing, say } from "./lib.js";
import { offerArms, readSettings } from "./settings.js";

const $ = (id) => document.getElementById(id);
const form = $("form");
const state = { problem: null, examples: [], reading: 0, busy: false };

function list(host, lines) {
  fill(host, lines.slice(0, 30).map((line) => h("li", null, line)));
}

const linesOf = (error) => (error.details?.length ? error.details : [error.message]);

function ready(problem) {
  state.problem = problem;
  $("create").disabled = !problem || state.busy;
}

async function read() {
  const mine = ++state.reading;
  const text = $("text").value;
  ready(null);
  if (!text.trim()) {
    list($("errors"), []);
    return say($("read"), "");
  }
  try {
    const problem = await api("POST", "/v1/problems/parse", { text });
    if (mine !== state.reading) return undefined;
    list($("errors"), []);
    $("text").setAttribute("aria-invalid", "false");
    const arms = Object.keys(problem.arms);
    offerArms(form, arms);
    form.elements.name.placeholder = problem.name || "a name";
    say($("read"), `${arms.length} arms: ${arms.length > 6 ? `${arms.slice(0, 5).join(", ")} …` : listing(arms)}.`, "good");
    ready(problem);
  } catch (error) {
    if (mine !== state.reading) return undefined;
    say($("read"), "");
    $("text").setAttribute("aria-invalid", "true");
    list($("errors"), linesOf(error));
  }
  return undefined;
}

const readSoon = later(250, read);

// Lists of plain entries on one line, as a person would write them.
const compact = (toml) => toml.replace(/\[\n((?: +[^\[\]\n]+,\n)+) *\]/g, (_, lines) => `[${lines.trim().replace(/,\n +/g, ", ").replace(/,$/, "")}]`);

async function choose() {
  const chosen = state.examples.find((one) => one.id === $("example").value);
  if (!chosen) return;
  const problem = structuredClone(chosen.problem);
  if (problem.latent && problem.latent.kind === "discrete") delete problem.latent.probabilities; // a campaign learns it
  try {
    $("text").value = compact(await api("POST", "/v1/problems/toml", { problem }));
  } catch {
    $("text").value = JSON.stringify(problem, null, 2);
  }
  await read();
}

async function openFile({ target }) {
  const [file] = target.files;
  target.value = "";
  if (!file) return;
  if (file.size > 200000) return void say($("read"), "This file is too large for a form; create the campaign over the API.", "error");
  $("example").value = "";
  $("text").value = await file.text();
  await read();
}

async function create(event) {
  event.preventDefault();
  if (state.busy || !state.problem) return;
  state.busy = true;
  $("create").disabled = true;
  $("busy").hidden = false;
  list($("refused"), []);
  const start = Date.now();
  const tell = () => {
    const seconds = Math.round((Date.now() - start) / 1000);
    say($("says"), seconds < 3 ? "Creating …" : `Creating … ${seconds} s. The first campaign of its kind compiles its policy, which can take a minute or two.`);
  };
  tell();
  const clock = setInterval(tell, 1000);
  const { name, policy } = form.elements;
  const body = { name: name.value.trim() || state.problem.name || "campaign", problem: state.problem, policy: policy.value, ...readSettings(form) };
  try {
    const { id } = await api("POST", "/v1/campaigns", body);
    location.assign(`/campaigns/${encodeURIComponent(id)}`);
  } catch (error) {
    say($("says"), "Not created.", "error");
    list($("refused"), linesOf(error));
    state.busy = false;
    $("create").disabled = false;
    $("busy").hidden = true;
  } finally {
    clearInterval(clock);
  }
}

async function begin() {
  $("text").addEventListener("input", () => { ready(null); readSoon(); });
  $("example").addEventListener("change", choose);
  $("file").addEventListener("change", openFile);
  $("open").addEventListener("click", () => $("file").click());
  form.addEventListener("submit", create);
  offerArms(form, []);
  if ($("text").value.trim()) read(); // the browser kept what was typed
  try {
    state.examples = await api("GET", "/v1/examples");
    const group = (label, some) => h("optgroup", { label }, some.map((one) => h("option", { value: one.id }, one.name)));
    const paper = state.examples.filter((one) => one.id.startsWith("paper-"));
    $("example").append(group("To begin with", state.examples.filter((one) => !paper.includes(one))), group("The paper’s", paper));
  } catch (error) {
    say($("read"), error.message, "error");
  }
  document.body.dataset.ready = "yes";
}

begin();
