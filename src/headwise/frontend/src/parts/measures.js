/** What a head can be measured by: titles, units and scales, over what a run brings. */

import { brief } from "../format.js";

const TITLES = {
  entropy: "entropy", max_weight: "largest weight", participation: "keys in use", distance: "mean distance", first: "first token", previous: "previous token", self: "self",
  sink: "sink’s share", write_norm: "write norm", write_share: "write share", write_cosine: "write cosine", importance: "importance",
};
const SIGNED = new Set(["write_share", "write_cosine"]);
const SHARES = new Set(["first", "previous", "self", "sink", "max_weight"]);
const PREFERRED = ["entropy", "first", "distance", "write_share", "write_norm", "write_cosine", "importance"];

export const titleOf = (name) => TITLES[name] ?? name.replaceAll("_", " ");
export const isSigned = (name) => SIGNED.has(name);

/** Every measure that there is now: of the run, and of work that was asked for. */
export function measuresOf(client) {
  const info = (client.run?.measures ?? []).filter((one) => one.name !== "peak");
  const importance = client.importance ? [{ name: "importance", statement: "effect of ablating the head on the output", unit: client.importance.unit, of: "importance" }] : [];
  return [...info, ...importance];
}

/** Those that are shown beside a head, in an order. */
export const shownMeasures = (client) => measuresOf(client).filter((one) => PREFERRED.includes(one.name)).sort((a, b) => PREFERRED.indexOf(a.name) - PREFERRED.indexOf(b.name));

/** @returns {[number, number]} the ends of the scale: of shares 0 to 1, around 0 where there are signs, else the smallest and largest that there are. */
export function reach(client, name) {
  const data = client.measure(name)?.data;
  if (!data) return [0, 1];
  let [low, high] = [Infinity, -Infinity];
  for (const number of data) if (Number.isFinite(number)) [low, high] = [Math.min(low, number), Math.max(high, number)];
  if (low > high) return [0, 1];
  if (SIGNED.has(name)) return [-Math.max(-low, high), Math.max(-low, high)];
  if (SHARES.has(name)) return [0, 1];
  return low === high ? [low, low + 1] : [low, high];
}

/** Where a number stands between the ends, for colour: with signs −1 to 1 by its root, else a little above 0 to 1. */
export function colourShare(name, number, [low, high]) {
  if (SIGNED.has(name)) return Math.sign(number) * Math.sqrt(Math.min(1, Math.abs(number) / (high || 1)));
  const share = Math.max(0, (number - low) / (high - low || 1));
  return 0.04 + 0.96 * (name === "importance" ? Math.sqrt(share) : share);
}

export const scaleWord = (name) => (SIGNED.has(name) || name === "importance" ? "√ scale" : "linear");

export const valueText = (name, number) => (SHARES.has(name) || SIGNED.has(name) ? (Number.isNaN(number) ? "–" : brief(number)) : brief(number));

/** Which check of the proof stands behind a measure. */
export function checkOf(client, name) {
  if (name === "map") return "weights";
  if (name === "importance") return "model";
  return measuresOf(client).find((one) => one.name === name)?.of === "writes" ? "writes" : "statistics";
}
