/** What a layer costs: width, heads, key heads and length, and what follows from them. Counts, exact by their formulas. */

import { el, fill, focusedData } from "../dom.js";
import { bytes, grouped, large } from "../format.js";
import { failureNote, headed } from "./notes.js";

const WIDTHS = [768, 1024, 2048, 3072, 4096, 5120, 6144, 8192];
const HEADS = [8, 12, 16, 24, 32, 48, 64, 96, 128];
const LENGTHS = [512, 2048, 8192, 32768, 131072];

/**
 * Parameters, work and memory of one attention layer without biases, over one text, in float32 for weights and float16 for the cache.
 * M width, H heads, G key heads, D = M / H, T tokens.
 */
export function layerSizes({ width: M, heads: H, kv: G, length: T }) {
  const D = M / H;
  const parameters = 2 * M * H * D + 2 * M * G * D;
  return {
    D,
    parameters,
    projections: 2 * T * parameters,
    attention: 4 * T * T * H * D,
    cache: 2 * G * D * T * 2,
    materialised: 4 * H * T * T,
    ours: 4 * (H * T * D + G * T * D + H * T),
  };
}

/** Why no such layer exists, or null. */
export function refused({ width, heads, kv }) {
  if (width % heads) return `heads must divide the width, got ${heads} and ${grouped(width)}: that is M1. Choose another number of heads.`;
  if (heads % kv) return `key heads must divide the heads, got ${kv} and ${heads}. Choose ${divisors(heads).join(", ")}.`;
  return null;
}

const divisors = (whole) => Array.from({ length: whole }, (_, one) => one + 1).filter((one) => whole % one === 0);

/** @type {[string, string, string, (sizes: ReturnType<typeof layerSizes>) => string][]} */
const COLUMNS = [
  ["D", "width a head", "M ÷ H", (s) => grouped(s.D)],
  ["parameters", "parameters", "2·M·H·D + 2·M·G·D", (s) => large(s.parameters)],
  ["projections", "FLOPs, maps", "2·T a parameter", (s) => large(s.projections)],
  ["attention", "FLOPs, attention", "4·T²·H·D", (s) => large(s.attention)],
  ["cache", "KV cache", "2·G·D·T numbers of 2 bytes", (s) => bytes(s.cache)],
  ["materialised", "all weights", "H·T² numbers of 4 bytes", (s) => bytes(s.materialised)],
  ["ours", "what we keep", "q, k and one number a row, 4 bytes each", (s) => bytes(s.ours)],
];

export function sizePanel(app) {
  const node = el("section", { class: "panel sizes", "aria-label": "what a layer costs" });
  const view = { node, draw: () => drawn(app, node) };
  view.draw();
  return view;
}

function drawn(app, node) {
  const { width, heads, kv, length } = app.state;
  const focused = focusedData(node).size;
  const pick = (name, label, choices, chosen) =>
    el(
      "label",
      {},
      label,
      el("select", { class: "field", name, data: { size: name }, on: { change: (event) => app.go({ [name]: +event.target.value }, { quietly: true }) } }, [...new Set([...choices, chosen])].sort((a, b) => a - b).map((one) => el("option", { value: one, selected: one === chosen }, grouped(one)))),
    );
  const bar = el("div", { class: "bar" }, pick("width", "width M", WIDTHS, width), pick("heads", "heads H", HEADS, heads), pick("kv", "key heads G", divisors(heads), kv), pick("length", "tokens T", LENGTHS, length));
  const why = refused(app.state);
  fill(node, headed("What it costs at real sizes", "one layer, one text"), bar, why ? failureNote({ message: why }) : table(app.state));
  if (focused) node.querySelector(`[name="${focused}"]`)?.focus();
}

function table({ width, heads, kv, length }) {
  const shown = [...new Set([...HEADS.filter((one) => width % one === 0), heads])].sort((a, b) => a - b);
  const ratio = heads / kv;
  const lines = shown.map((H) => {
    // The same sharing for every row, so that rows differ in H alone.
    const G = H % ratio ? H : H / ratio;
    const s = layerSizes({ width, heads: H, kv: G, length });
    return el("tr", { class: H === heads ? "on" : "" }, el("th", { scope: "row" }, `${H} heads`, G === H ? null : el("span", { class: "quiet" }, `, ${G} KV`)), COLUMNS.map(([, , , say]) => el("td", {}, say(s))));
  });
  const head = COLUMNS.map(([, title, formula]) => el("th", { scope: "col", data: { tip: formula } }, title));
  const chosen = layerSizes({ width, heads, kv, length });
  const times = chosen.materialised / chosen.ours;
  return el(
    "div",
    {},
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "sizes by number of heads" }, el("table", {}, el("thead", {}, el("tr", {}, el("td", {}), head)), el("tbody", {}, lines))),
    el("p", { class: "sub" }, `More heads leave the work the same, and multiply the memory of weights that are written out: at ${heads} heads ${bytes(chosen.materialised)}, against ${bytes(chosen.ours)} from which every weight can be had again (${times >= 1 ? `${large(times)}${times >= 999.5 ? "" : " "}times less` : "more, at so short a text"}).`),
  );
}
