// Playing a campaign by hand: a decision, its reason, and a button for each reward that the arm can pay.

import { api, fill, h, number, percent, say } from "./lib.js";

const $ = (id) => document.getElementById(id);

export function player({ path, pays, arms, changed }) {
  let shadow = false;

  async function decide() {
    $("decide").disabled = true;
    try {
      draw(await api("POST", `${path}/decisions`, shadow ? { shown: $("shown").value } : {}));
      say($("try-says"), "");
    } catch (error) {
      fill($("decision"));
      say($("try-says"), error.message, "error");
    }
    $("decide").disabled = false;
    if (document.activeElement === document.body) $("decide").focus({ preventScroll: true }); // it had the focus when it was disabled
    changed();
  }

  function draw(made) {
    const { values, range } = pays[made.arm];
    const free = h("input", { type: "number", step: "any", name: "value", "aria-label": `What ${made.arm} paid`, placeholder: range.map((end) => number(end)).join(" to "), required: true });
    const buttons = values
      ? values.map((value) => h("button", { type: "button", class: "pay", onclick: () => reward(made, value) }, number(value)))
      : [h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); if (free.value !== "") reward(made, Number(free.value)); } }, free, h("button", { type: "submit" }, "Count it"))];
    fill($("decision"),
      h("p", { class: "shows" }, "Show ", h("b", null, made.arm)),
      h("p", { class: "note" }, made.reason, made.propensity === null ? "" : ` Its chance was ${percent(made.propensity)}.`),
      h("p", { class: "ask" }, "What did it pay?"),
      h("div", { class: "pays", role: "group", "aria-label": "What did it pay?" }, buttons));
    (values ? $("decision").querySelector("button") : free).focus({ preventScroll: true });
  }

  async function reward(made, value) {
    for (const button of $("decision").querySelectorAll("button")) button.disabled = true;
    try {
      await api("POST", `/v1/decisions/${encodeURIComponent(made.id)}/reward`, { value });
      fill($("decision"));
      say($("try-says"), `Counted: ${made.arm} paid ${number(value)}.`, "good");
      $("decide").focus({ preventScroll: true });
    } catch (error) {
      for (const button of $("decision").querySelectorAll("button")) button.disabled = false;
      $("decision").querySelector("button").focus({ preventScroll: true });
      say($("try-says"), error.message, "error");
    }
    changed();
  }

  fill($("shown"), arms.map((name) => h("option", { value: name }, name)));
  $("decide").addEventListener("click", decide);
  return {
    show(view) {
      shadow = view.mode === "shadow";
      $("shown-label").hidden = !shadow;
    },
  };
}
