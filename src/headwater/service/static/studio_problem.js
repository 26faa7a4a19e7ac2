// Problems that fit a table: finitely many values of X, a reward for every arm and value. Pure functions, no page.
//
// A table is {name, values, numeric, p, arms: [{name, rewards}], reward_range}: values are texts, p their probabilities.

export const MOST = 12; // arms, and values of X, that a table and a picture can still show
const STEP = 1e-4; // probabilities are kept at four decimals, so that a saved file reads well

export function tableOf(problem) {
  const { latent, arms } = problem;
  const values = latent.values;
  if (latent.kind !== "discrete" || values.length > MOST || Object.keys(arms).length > MOST) return null;
  const rows = Object.entries(arms).map(([name, rewards]) => ({ name, rewards }));
  if (!rows.every((arm) => Array.isArray(arm.rewards))) return null;
  return {
    name: problem.name || "",
    values: values.map(String),
    numeric: values.every((value) => typeof value === "number"),
    p: latent.probabilities ? [...latent.probabilities] : tidy(values.map(() => 1 / values.length)),
    arms: rows.map((arm) => ({ name: arm.name, rewards: [...arm.rewards] })),
    reward_range: problem.reward_range,
  };
}

export function problemOf(table) {
  const numeric = table.numeric && table.values.every((value) => value.trim() !== "" && Number.isFinite(Number(value)));
  const out = {
    latent: { kind: "discrete", values: numeric ? table.values.map(Number) : table.values, probabilities: table.p },
    arms: Object.fromEntries(table.arms.map((arm) => [arm.name, arm.rewards])),
  };
  if (table.name) out.name = table.name;
  if (table.reward_range !== undefined && table.reward_range !== null) out.reward_range = table.reward_range;
  return out;
}

// What keeps a table from being a problem, a line each; the server says the rest.
export function complaints(table) {
  const out = [];
  const names = table.arms.map((arm) => arm.name);
  names.filter((name, k) => names.indexOf(name) < k).forEach((name) => out.push(`Two arms are called ${name || "nothing"}: give each its own name.`));
  for (const arm of table.arms)
    arm.rewards.forEach((reward, j) => {
      if (!Number.isFinite(reward)) out.push(`${arm.name} for ${table.values[j]}: expected a number.`);
    });
  return out;
}

// Shares that sum to 1 at four decimals; what rounding leaves over goes to the largest.
export function tidy(p) {
  const total = p.reduce((sum, share) => sum + share, 0);
  const whole = p.map((share) => Math.round((total > 0 ? share / total : 1 / p.length) / STEP));
  whole[whole.indexOf(Math.max(...whole))] += Math.round(1 / STEP) - whole.reduce((sum, n) => sum + n, 0);
  return whole.map((n) => Number((n * STEP).toFixed(4)));
}

// Value j gets the share; the others keep their proportions, as they are in `base`.
export function withShare(base, j, share) {
  const rest = base.reduce((sum, other, i) => (i === j ? sum : sum + other), 0);
  const others = base.length - 1;
  if (!others) return [1];
  return tidy(base.map((other, i) => (i === j ? share : rest > 0 ? (other / rest) * (1 - share) : (1 - share) / others)));
}

export const meanOf = (rewards, p) => rewards.reduce((sum, reward, j) => sum + reward * p[j], 0);

// An arm's rewards, each with the values of X that pay it: [{reward, at: [j, …], p}], ascending.
export function levelsOf(rewards, p) {
  const found = new Map();
  rewards.forEach((reward, j) => {
    const level = found.get(reward) || { reward, at: [], p: 0 };
    level.at.push(j);
    level.p += p[j];
    found.set(reward, level);
  });
  return [...found.values()].sort((a, b) => a.reward - b.reward);
}

// Which arm is best and which are competitive, to look for a change worth trying; the verdict itself is the server's.
export function standing(table, p) {
  const means = table.arms.map((arm) => meanOf(arm.rewards, p));
  const best = means.indexOf(Math.max(...means));
  const levels = levelsOf(table.arms[best].rewards, p);
  const competitive = table.arms.map((arm, ell) => {
    const most = levels.reduce((sum, level) => sum + level.p * Math.max(...level.at.map((j) => arm.rewards[j])), 0);
    return ell !== best && most >= means[best] - 1e-9;
  });
  return { best, competitive };
}

// The smallest move of one slider that changes the verdict: {j, share, before, after}, or null.
export function nextMove(table) {
  const before = standing(table, table.p);
  const same = (one) => one.best === before.best && one.competitive.every((yes, k) => yes === before.competitive[k]);
  for (let size = 0.04; size <= 1; size += 0.01)
    for (let j = 0; j < table.values.length; j++)
      for (const share of [table.p[j] + size, table.p[j] - size]) {
        const round = Math.round(share * 100) / 100;
        const further = Math.round((share + Math.sign(size) * (share > table.p[j] ? 0.03 : -0.03)) * 100) / 100;
        if (further < 0 || further > 1) continue;
        const after = standing(table, withShare(table.p, j, further));
        if (!same(after) && !same(standing(table, withShare(table.p, j, round)))) return { j, share: further, before, after };
      }
  return null;
}
