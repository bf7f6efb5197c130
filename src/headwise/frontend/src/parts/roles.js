/** Roles: the glyph of each is its ideal map; the evidence is its score against a threshold. */

import { svg } from "../dom.js";

// Rectangles in a 6 × 6 map: x, y, width, height, how strong.
const diagonal = (shift, from = 0) => Array.from({ length: 6 - from }, (_, k) => k + from).map((i) => [i - shift, i, 1, 1, 1]);
const SHAPES = {
  sink: [[0, 0, 1.4, 6, 1]],
  first: [[0, 0, 1.4, 6, 1]],
  position: diagonal(1, 1),
  long: [[0, 3, 1, 3, 1], [1, 4, 1, 2, 0.6]],
  retrieval: [[1, 4, 1.4, 1.4, 1]],
  coreference: [[1, 4, 1, 1, 1], [0, 5, 1, 1, 1]],
  grammar: [[1, 2, 1, 1, 1], [2, 4, 1, 1, 1], [0, 1, 1, 1, 1]],
  alignment: [[0, 0, 1, 1, 1], [2, 1, 1, 1, 1], [1, 2, 1, 1, 1], [3, 3, 1, 1, 1], [4, 4, 1, 1, 1]],
  same: [[0, 2, 1, 1, 1], [2, 4, 1, 1, 1], [1, 5, 1, 1, 1]],
  previous: diagonal(1, 1),
  self: diagonal(0),
  current: diagonal(0),
  next: Array.from({ length: 5 }, (_, i) => [i + 1, i, 1, 1, 1]),
  induction: [...diagonal(2, 3), [0, 0, 1, 6, 0.35]],
  duplicate: diagonal(3, 3),
  separator: [[4.6, 0, 1.4, 6, 1]],
  delimiter: [[4.6, 0, 1.4, 6, 1]],
  broad: Array.from({ length: 6 }, (_, i) => [0, i, i + 1, 1, 0.45]),
  uniform: Array.from({ length: 6 }, (_, i) => [0, i, i + 1, 1, 0.45]),
};
const MEANINGS = {
  sink: "most of the weight is on the first token",
  previous: "attends to the previous token",
  self: "attends to the token itself",
  induction: "attends to the token after the previous occurrence of the current token",
  duplicate: "attends to the previous occurrence of the current token",
  mixed: "no role passes its threshold",
};
/** Roles that the statistics of one text show, and the threshold for the name. */
const OF_STATISTICS = [
  { name: "sink", measure: "first", threshold: 0.6, statement: "weight on the first token, on this text" },
  { name: "previous", measure: "previous", threshold: 0.4, statement: "weight on the previous token, on this text" },
  { name: "self", measure: "self", threshold: 0.4, statement: "weight on the token itself, on this text" },
];

export const shapesOf = (role) => SHAPES[Object.keys(SHAPES).find((name) => role?.startsWith(name))] ?? null;
export function meaningOf(client, role) {
  const info = testedTasks(client).find((one) => one.name === role);
  return info ? `${info.name}\n${info.statement}` : (MEANINGS[role] ?? role);
}

export function glyph(role, size = 12) {
  const unit = size / 6;
  const shapes = shapesOf(role)?.map(([x, y, w, h, strength]) => svg("rect", { x: x * unit, y: y * unit, width: w * unit, height: h * unit, opacity: strength })) ?? svg("circle", { cx: size / 2, cy: size / 2, r: unit * 0.7 });
  return svg("svg", { class: "glyph", width: size, height: size, viewBox: `0 0 ${size} ${size}`, "aria-hidden": "true" }, shapes);
}

/** Every task that was tested on this model and fits the part that is shown, singly or with all others. */
function testedTasks(client) {
  return [...(client.roleScores.get(client.run?.model)?.values() ?? [])].filter((task) => task.members.length === client.part?.layers);
}

/** The names of the roles and tasks that were tested. */
export const testedRoles = (client) => testedTasks(client).flatMap((task) => [task.name, task.role]);

/** Whether every role that can be tested here was tested. */
export function allRolesTested(client) {
  const tested = new Set(testedTasks(client).map((task) => task.role));
  return client.testableRoles.length > 0 && client.testableRoles.every(({ name }) => tested.has(name));
}

/** Whether a head was found to have a role, or the task of a role, that begins so. */
export const hasRole = (client, layer, head, role) => testedTasks(client).some((task) => task.members[layer]?.[head] && (task.name.startsWith(role) || task.role.startsWith(role)));

/** The role of a head: of those tested the one furthest above its baseline; else what the statistics of this text show. */
export function roleOf(client, layer, head) {
  let best = null;
  for (const task of testedTasks(client)) {
    const margin = (task.low?.[layer]?.[head] ?? task.values[layer]?.[head] ?? NaN) - task.baseline;
    if (task.members[layer]?.[head] && (!best || margin > best.margin)) best = { name: task.name, margin };
  }
  if (best) return best.name;
  if (allRolesTested(client)) return "mixed";
  let found = { name: "mixed", over: 1 };
  for (const { name, measure, threshold } of OF_STATISTICS) {
    const over = client.value(measure, layer, head) / threshold;
    if (over >= found.over) found = { name, over };
  }
  return found.name;
}

/** Every role with its evidence: {name, value, threshold, kind, statement}. Of the tasks of a role, the one that this head does best. */
export function evidence(client, layer, head) {
  const local = OF_STATISTICS.map((one) => ({ ...one, value: client.value(one.measure, layer, head), kind: "statistics" }));
  const best = new Map();
  for (const { name, role, baseline: threshold, statement, values, low } of testedTasks(client)) {
    const value = values[layer]?.[head] ?? NaN;
    const info = best.get(role);
    if (!info || value - threshold > info.value - info.threshold) best.set(role, { name: role, threshold, statement: `${statement}\n${name}`, value, low: low?.[layer]?.[head], kind: "tested" });
  }
  const sorted = [...best.values()].filter((one) => Number.isFinite(one.value)).sort((a, b) => b.value - b.threshold - (a.value - a.threshold));
  return [...local.filter((one) => !best.has(one.name)), ...sorted.slice(0, 8)];
}

/** The role in a word or two: what stands before the colon of its task. */
export const roleWord = (role) => role.split(":")[0].replaceAll("_", " ");
