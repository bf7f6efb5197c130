/** What the model says: probabilities of the next token, with a tick at the value as loaded where something was edited. */

import { el } from "../dom.js";
import { fixed, percent, quoted } from "../format.js";

/**
 * @param {{id?: number, token: string, probability: number, as_loaded?: number}[]} top
 * @param {{of?: (token: string) => string, makeMark?: () => Node, one?: boolean, moved?: boolean}} options
 */
export function outputList(top, { of = quoted, makeMark, one = false, moved = false } = {}) {
  const most = Math.max(0.3, ...top.map((entry) => Math.max(entry.probability, entry.as_loaded ?? 0)));
  const width = (share) => `${Math.min(100, (100 * share) / most).toFixed(2)}%`;
  const lines = top.map((entry) => {
    const change = moved ? entry.probability - entry.as_loaded : 0;
    const shift = moved && Math.abs(change) >= 0.0005 ? el("span", { class: "change" }, `${change > 0 ? "+" : ""}${fixed(100 * change, 1)} pp`) : null;
    const track = el("span", { class: "track" }, el("i", { style: { width: width(entry.probability) } }), moved ? el("b", { style: { left: width(entry.as_loaded) } }) : null);
    return el("div", { class: `chance${moved ? " moved" : ""}`, data: { token: entry.id ?? "", probability: entry.probability } }, el("span", { class: "what", data: { tip: of(entry.token) } }, of(entry.token)), track, el("span", { class: "value number" }, shift, percent(entry.probability), makeMark?.()));
  });
  return el("div", { class: `output-list${one ? " one" : ""}` }, lines);
}

/** The output of a run in the form that it has. */
export function output(run, makeMark, options = {}) {
  const { output: info } = run;
  if (info.kind === "embedding") return el("p", { class: "sub" }, `An embedding of width ${info.width}, the mean of the last hidden state over tokens; norm ${fixed(info.norm, 3)}`, makeMark());
  if (!info.top) return el("p", { class: "sub" }, "This model returns no output that fits in a few numbers.");
  return outputList(info.top, { makeMark, of: info.kind === "classes" ? String : quoted, ...options });
}

export const outputTitle = (kind) => ({ next_token: "next token", classes: "classes", embedding: "embedding", logits: "the last position" })[kind] ?? "";
