// The fields of a campaign's settings (templates/parts.html): read as the API takes them, and filled from what it answers.
//
//   readSettings(form)            {floor, control, holdout, reward_deadline, default_reward, mode}
//   fillSettings(form, view)      from a campaign's view
//   offerArms(form, names)        the arms that may be the control

import { fill, h } from "./lib.js";

const share = (field) => (field.value === "" ? 0 : Number((Number(field.value) / 100).toPrecision(12)));
const figure = (field) => (field.value === "" ? null : Number(field.value));
const shown = (x) => String(Number((100 * x).toPrecision(12)));

export function readSettings(form) {
  const { floor, holdout, control_arm: arm, control_share: part, deadline, deadline_unit: unit, default_reward: instead, mode } = form.elements;
  return {
    floor: share(floor),
    holdout: share(holdout),
    control: arm.value === "" ? null : { arm: arm.value, share: share(part) },
    reward_deadline: deadline.value === "" ? null : Number(deadline.value) * Number(unit.value),
    default_reward: figure(instead),
    mode: mode.value,
  };
}

export function fillSettings(form, view) {
  const { floor, holdout, control_arm: arm, control_share: part, deadline, deadline_unit: unit, default_reward: instead, mode } = form.elements;
  floor.value = shown(view.floor);
  holdout.value = shown(view.holdout);
  arm.value = view.control ? view.control.arm : "";
  part.value = shown(view.control ? view.control.share : 0.1);
  part.disabled = !view.control;
  const seconds = view.reward_deadline;
  unit.value = seconds === null ? "3600" : ["86400", "3600", "60"].find((each) => seconds % Number(each) === 0) || "1";
  deadline.value = seconds === null ? "" : seconds / Number(unit.value);
  instead.value = view.default_reward ?? "";
  mode.value = view.mode;
}

export function offerArms(form, names) {
  const { control_arm: arm, control_share: part } = form.elements;
  const before = arm.value;
  fill(arm, h("option", { value: "" }, "none"), names.map((name) => h("option", { value: name }, name)));
  arm.value = names.includes(before) ? before : "";
  arm.onchange = () => { part.disabled = arm.value === ""; };
  arm.onchange();
}
