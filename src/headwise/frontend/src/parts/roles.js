/** Roles: the glyph of each is its ideal map; the evidence is what was measured against its bar. */

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
  sink: "the first token takes the weight",
  previous: "looks one token back",
  self: "looks at itself",
  induction: "looks after the last occurrence of the token",
  duplicate: "looks at the last occurrence of the token",
  mixed: "no role passes its bar",
};
/** What the statistics of one text alone can tell, and the bar for the name. */
const OF_STATISTICS = [
  { name: "sink", measure: "first", bar: 0.6, statement: "weight on the first token, on this text" },
  { name: "previous", measure: "previous", bar: 0.4, statement: "weight on the token before, on this text" },
  { name: "self", measure: "self", bar: 0.4, statement: "weight on the token itself, on this text" },
];

export const shapesOf = (role) => SHAPES[Object.keys(SHAPES).find((name) => role?.startsWith(name))] ?? null;
export function meaningOf(world, role) {
  const told = tasksOf(world).find((one) => one.name === role);
  return told ? `${told.name}\n${told.statement}` : (MEANINGS[role] ?? role);
}

export function glyph(role, size = 12) {
  const unit = size / 6;
  const shapes = shapesOf(role)?.map(([x, y, w, h, strength]) => svg("rect", { x: x * unit, y: y * unit, width: w * unit, height: h * unit, opacity: strength })) ?? svg("circle", { cx: size / 2, cy: size / 2, r: unit * 0.7 });
  return svg("svg", { class: "glyph", width: size, height: size, viewBox: `0 0 ${size} ${size}`, "aria-hidden": "true" }, shapes);
}

/** The role of a head: as it was tried, else what the statistics of this text say. */
export function roleOf(world, layer, head) {
  const tried = rolesOf(world);
  if (tried) return tried.role[layer]?.[head] ?? "mixed";
  const cast = castsOf(world).find((one) => one.role[layer]?.[head]);
  if (cast) return cast.role[layer][head];
  let best = { name: "mixed", over: 1 };
  for (const { name, measure, bar } of OF_STATISTICS) {
    const over = world.at(measure, layer, head) / bar;
    if (over >= best.over) best = { name, over };
  }
  return best.name;
}

/** All roles tried on this model, when they fit the part that is shown. */
export function rolesOf(world) {
  return world.roles && fits(world, world.roles) ? world.roles : null;
}

/** Single roles for which heads were asked, likewise. */
export const castsOf = (world) => world.casts.filter((one) => fits(world, one));

const fits = (world, found) => found.model === world.run?.model && found.role.length === world.part?.layers;
const tasksOf = (world) => rolesOf(world)?.roles ?? castsOf(world).flatMap((one) => one.roles);

/** Every role with what speaks for it: {name, value, bar, kind, statement}. Of the tasks of a role, the one that this head does best. */
export function evidence(world, layer, head) {
  const local = OF_STATISTICS.map((one) => ({ ...one, value: world.at(one.measure, layer, head), kind: "statistics" }));
  const best = new Map();
  for (const { name, role, baseline: bar, statement, values, low } of tasksOf(world)) {
    const value = values[layer]?.[head] ?? NaN;
    const told = best.get(role);
    if (!told || value - bar > told.value - told.bar) best.set(role, { name: role, bar, statement: `${statement}\n${name}`, value, low: low?.[layer]?.[head], kind: "tried" });
  }
  const sorted = [...best.values()].filter((one) => Number.isFinite(one.value)).sort((a, b) => b.value - b.bar - (a.value - a.bar));
  return [...local.filter((one) => !best.has(one.name)), ...sorted.slice(0, 8)];
}

/** The role in a word or two: what stands before the colon of its task. */
export const roleWord = (role) => role.split(":")[0].replaceAll("_", " ");
