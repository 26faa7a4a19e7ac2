// An analysis in words. Everything here returns text or elements made of text.

import { h, listing, number, percent } from "./lib.js";
import { levelsOf } from "./studio_problem.js";

export function verdictOf(analysis, name) {
  if (name === analysis.best) return "best";
  if (analysis.gaps[name] === 0) return "ties for best";
  return analysis.competitive.includes(name) ? "competitive" : "non-competitive";
}

const CLASSES = { "best": "best", "ties for best": "best", "competitive": "open", "non-competitive": "out" };
export const verdictColour = (verdict) => `var(--${CLASSES[verdict]})`;
export const badge = (verdict) => h("span", { class: `badge ${CLASSES[verdict]}` }, verdict);

export function headline(analysis) {
  if (!analysis.best) return analysis.advice;
  if (!analysis.unique) return `${listing(analysis.arms.filter((arm) => analysis.gaps[arm] === 0))} tie for the best`;
  return `${analysis.best} is best, with ${number(analysis.means[analysis.best])} a round`;
}

const orList = (words) => (words.length < 3 ? words.join(" or ") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`);

// Why an arm is, or is not, ruled out by the best arm's own rewards. `table` may be null: then without the steps.
export function why(analysis, table, name) {
  const best = analysis.best;
  const most = analysis.expected_pseudo_rewards[name][best];
  const mean = analysis.means[best];
  const out = verdictOf(analysis, name) === "non-competitive";
  const end = out
    ? `below ${best}’s own mean of ${number(mean)}. So ${best}’s rewards alone rule ${name} out.`
    : `not below ${best}’s mean of ${number(mean)}. So ${best}’s rewards alone cannot rule ${name} out: only trying it can.`;
  if (name !== best && analysis.gaps[name] === 0) return `It pays as much as ${best} on average: either will do.`;
  const steps = table ? stepsOf(table, best, name) : "";
  return steps
    ? `${steps} On average that is at most ${number(most)}, ${end}`
    : `Judging by ${best}’s rewards alone, ${name} could pay up to ${number(most)} a round, ${end}`;
}

function stepsOf(table, best, name) {
  const one = table.arms.find((arm) => arm.name === best);
  const other = table.arms.find((arm) => arm.name === name);
  if (!one || !other) return "";
  const levels = levelsOf(one.rewards, table.p).filter((level) => level.p > 0);
  const kept = [...levels].sort((a, b) => b.p - a.p).slice(0, 3).sort((a, b) => a.reward - b.reward);
  const parts = kept.map((level, i) => {
    const who = orList(level.at.map((j) => table.values[j]));
    const most = number(Math.max(...level.at.map((j) => other.rewards[j])));
    return i === 0
      ? `Whenever ${best} pays ${number(level.reward)} (X is ${who}), ${name} could have paid ${most} at most`
      : `when it pays ${number(level.reward)} (${who}), ${most} at most`;
  });
  return `${parts.join("; ")}${levels.length > kept.length ? "; and so on" : ""}.`;
}

export function limit(analysis) {
  const { bounds } = analysis;
  if (!bounds) return null;
  if (bounds.upper === 0) return ["0", "Constant regret is possible: a good policy stops paying for exploration after a while, however long it runs."];
  const more = number(bounds.graves_lai * Math.log(10), 2);
  return [
    `${number(bounds.graves_lai)} · log T`,
    `No good policy can have less regret than ${number(bounds.graves_lai)} · log T in the long run: ten times as many rounds cost at least ${more} more.`,
  ];
}

// What a suggested move of a slider would change, in words.
export function promise(table, { j, share, before, after }) {
  const name = (k) => table.arms[k].name;
  const changes = [];
  if (after.best !== before.best) changes.push(`${name(after.best)} becomes the best`);
  else {
    const opened = table.arms.map((_, k) => k).filter((k) => after.competitive[k] && !before.competitive[k]);
    const closed = table.arms.map((_, k) => k).filter((k) => !after.competitive[k] && before.competitive[k] && k !== after.best);
    if (opened.length) changes.push(`${listing(opened.map(name))} can no longer be ruled out`);
    if (closed.length) changes.push(`${name(after.best)}’s rewards alone rule out ${listing(closed.map(name))}`);
  }
  return [`Move ${table.values[j]} from ${percent(table.p[j])} to ${percent(share)}`, `then ${listing(changes)}.`];
}
