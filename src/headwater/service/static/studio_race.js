// The race: policies on the problem, by /v1/simulate; curves with bands, and a table.

import { lineChart, policyColour, policyDash } from "./charts.js";
import { api, fill, h, number, percent, say } from "./lib.js";

const POLICIES = [
  ["ucb1", "the classical bandit: every arm by itself", true],
  ["c-ucb", "the paper: leaves alone what the best arm’s rewards rule out", true],
  ["ts", "Thompson sampling, every arm by itself", false],
  ["c-ts", "Thompson sampling with the paper’s filter", false],
  ["kl-ucb", "tighter than ucb1, every arm by itself", false],
  ["c-kl-ucb", "kl-ucb with the paper’s filter", false],
  ["joint-ucb", "reads all rewards at once, as evidence on X; what auto chooses", true],
  ["latent-ts", "draws the law of X from its posterior; X must be listed", false],
  ["epsilon-greedy", "the best mean so far, one round in ten by lot", false],
  ["uniform", "an A/B test: every arm with the same chance", false],
];

// `current()` gives {problem, analysis()}, or null while there is something wrong with the problem.
export function race(root, current) {
  const $ = (name) => root.querySelector(`[data-race="${name}"]`);
  const [form, button, status, chart, table, scaleBox] = ["form", "go", "status", "chart", "table", "scale"].map($);
  fill($("policies"), POLICIES.map(([name, what, on]) => h("label", { class: "choice", title: what },
    h("input", { type: "checkbox", name: "policy", value: name, checked: on }),
    h("i", { class: "key", colour: policyColour(name) }), name)));
  let running = false;
  let again = false;
  let shown = null;

  async function run() {
    const now = current();
    if (!now) return say(status, "Mend the problem first.", "error");
    if (running) {
      again = true;
      return undefined;
    }
    const policies = [...form.querySelectorAll("input[name=policy]:checked")].map((box) => box.value);
    if (!policies.length) return say(status, "Choose at least one policy.", "error");
    const [horizon, replications, seed] = ["horizon", "replications", "seed"].map((name) => Number(form.elements[name].value));
    running = true;
    button.disabled = true;
    chart.setAttribute("aria-busy", "true");
    root.classList.add("busy");
    say(status, `Racing ${policies.length} ${policies.length === 1 ? "policy" : "policies"} for ${number(horizon)} rounds, ${number(replications)} times …`);
    try {
      const result = await api("POST", "/v1/simulate", { problem: now.problem, policies, horizon, replications, seed });
      shown = { result, analysis: current()?.problem === now.problem ? now.analysis() : null };
      draw();
      root.classList.remove("stale");
      say(status, `Done in ${number(result.seconds, 2)} s. ${summary(result)}`, "good");
    } catch (error) {
      say(status, error.message, "error");
    } finally {
      running = false;
      button.disabled = false;
      chart.removeAttribute("aria-busy");
      root.classList.remove("busy");
      if (again) {
        again = false;
        run();
      }
    }
    return undefined;
  }

  function draw() {
    if (!shown) return;
    const { result, analysis } = shown;
    const names = Object.keys(result.policies);
    const series = names.map((name) => {
      const one = result.policies[name];
      const error = one.regret_se.map((se) => 1.96 * se);
      return {
        name, x: one.rounds, y: one.regret_mean, colour: policyColour(name), dash: policyDash(name), width: name === "joint-ucb" ? 2.8 : 2.2,
        low: one.regret_mean.map((mean, i) => mean - error[i]), high: one.regret_mean.map((mean, i) => mean + error[i]),
      };
    });
    const line = boundLine(analysis, series[0].x);
    if (line) series.push(line);
    $("note").textContent = line
      ? `Dotted: ${number(analysis.bounds.graves_lai)} · log t. Only its slope counts: in the long run no good policy’s curve can rise more slowly.`
      : "";
    const linear = scaleBox.value === "linear";
    lineChart(chart, {
      title: `Mean regret of ${names.join(", ")} over ${number(result.horizon)} rounds`,
      series, xLabel: "round", yLabel: "mean regret, with 95 % bands", xScale: linear ? "linear" : "log", height: 360,
    });
    results(table, result);
  }

  function stale() {
    if (!shown || running) return;
    root.classList.add("stale");
    say(status, "The problem has changed since this race.");
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  scaleBox.addEventListener("change", draw);
  return { run, automatic: () => form.elements.automatic.checked, stale };
}

// The lower bound says nothing of early rounds: it is drawn once the pulls it asks for fit in half of the rounds.
function boundLine(analysis, rounds) {
  const bounds = analysis && analysis.bounds;
  if (!bounds || !(bounds.graves_lai > 0)) return null;
  const pulls = Object.values(bounds.exploration).reduce((sum, c) => sum + c, 0);
  const fits = rounds.map((t) => pulls * Math.log(t) <= t / 2 && t > 1);
  const first = fits.lastIndexOf(false) + 1;
  if (first >= rounds.length) return null;
  const y = rounds.map((t, i) => (i >= first ? bounds.graves_lai * Math.log(t) : null));
  return { name: "slope of the bound", x: rounds, y, colour: "var(--muted)", dash: "2 4", width: 2 };
}

function summary(result) {
  const ends = Object.entries(result.policies).map(([name, one]) => [name, one.regret_mean.at(-1)]).sort((a, b) => a[1] - b[1]);
  if (ends.length < 2) return "";
  const [least, most] = [ends[0], ends.at(-1)];
  const times = least[1] > 0 ? most[1] / least[1] : Infinity;
  return times > 1.15 && Number.isFinite(times)
    ? `${least[0]} paid ${number(least[1])} for learning, ${most[0]} ${number(times, 2)} times as much.`
    : "They end much alike.";
}

function results(host, result) {
  const arms = Object.keys(Object.values(result.policies)[0].pulls_mean).slice(0, 8);
  const rows = Object.entries(result.policies).sort((a, b) => a[1].regret_mean.at(-1) - b[1].regret_mean.at(-1));
  fill(host, h("table", null,
    h("caption", null, `After ${number(result.horizon)} rounds, ${number(result.replications)} runs`),
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "policy"), h("th", { scope: "col", class: "n" }, "regret ± s.e."),
      h("th", { scope: "col", class: "n" }, "5 % to 95 % of runs"), arms.map((arm) => h("th", { scope: "col", class: "n" }, `pulls of ${arm}`)))),
    h("tbody", null, rows.map(([name, one]) => h("tr", null,
      h("th", { scope: "row" }, h("i", { class: "key", colour: policyColour(name) }), name),
      h("td", { class: "n" }, `${number(one.regret_mean.at(-1))} ± ${number(one.regret_se.at(-1), 2)}`),
      h("td", { class: "n" }, `${number(one.regret_p05.at(-1))} to ${number(one.regret_p95.at(-1))}`),
      arms.map((arm) => h("td", { class: "n", title: percent(one.pulls_mean[arm] / result.horizon) }, number(one.pulls_mean[arm]))))))));
}

