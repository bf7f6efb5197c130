/** What the model says: probabilities of the next token, with a tick at the value as loaded where something was edited. */

import { el } from "../dom.js";
import { fixed, percent, spelled } from "../format.js";

/** @param top [{token, probability, as_loaded?}] */
export function odds(top, { of = spelled, makeMark, one = false, moved = false } = {}) {
  const most = Math.max(0.3, ...top.map((entry) => Math.max(entry.probability, entry.as_loaded ?? 0)));
  const width = (share) => `${Math.min(100, (100 * share) / most).toFixed(2)}%`;
  const lines = top.map((entry) => {
    const change = moved ? entry.probability - entry.as_loaded : 0;
    const shift = moved && Math.abs(change) >= 0.0005 ? el("span", { class: "change" }, `${change > 0 ? "+" : ""}${fixed(100 * change, 1)} pp`) : null;
    const track = el("span", { class: "track" }, el("i", { style: { width: width(entry.probability) } }), moved ? el("b", { style: { left: width(entry.as_loaded) } }) : null);
    return el("div", { class: `chance${moved ? " moved" : ""}`, data: { token: entry.id ?? "", probability: entry.probability } }, el("span", { class: "what", data: { tip: of(entry.token) } }, of(entry.token)), track, el("span", { class: "value number" }, shift, percent(entry.probability), makeMark?.()));
  });
  return el("div", { class: `odds${one ? " one" : ""}` }, lines);
}

/** The output of a run in the form that it has. */
export function output(run, makeMark, options = {}) {
  const { output: told } = run;
  if (told.kind === "embedding") return el("p", { class: "sub" }, `An embedding of width ${told.width}, the mean of the last hidden state over tokens; norm ${fixed(told.norm, 3)}`, makeMark());
  if (!told.top) return el("p", { class: "sub" }, "This model returns nothing that can be told in a few numbers.");
  return odds(told.top, { makeMark, of: told.kind === "classes" ? String : spelled, ...options });
}

export const outputTitle = (kind) => ({ next_token: "next token", classes: "classes", embedding: "embedding", logits: "the last position" })[kind] ?? "";
