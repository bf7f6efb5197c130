/** What the proof of a run says about one number: the mark that it earns, and the residual behind it. */

import { scientific } from "../format.js";
import { mark, markOf } from "../marks.js";

const HOLDS = { holds: true, fails: false, refused: null };

/** The verdict of a check, over all layers or in one. */
export function verdictOf(world, name, layer = null) {
  const { proof, part } = world;
  if (!proof) return null;
  const list = layer === null ? proof.verdicts : (proof.layers?.[part.name]?.[layer] ?? proof.verdicts);
  return list.find((one) => one.name === name) ?? proof.verdicts.find((one) => one.name === name) ?? null;
}

export function verdictWords(verdict, layer = null) {
  const where = layer === null ? "" : `Layer ${layer}: `;
  const sentence = verdict.sentence ?? SENTENCES[verdict.name] ?? verdict.name;
  if (verdict.residual === null || verdict.residual === undefined) return `${where}${sentence}${verdict.state === "holds" ? ", exact" : ""}`;
  return `${where}${sentence}\nresidual ${scientific(verdict.residual)}, rounding allows ${scientific(verdict.allowed)}`;
}

const SENTENCES = {
  rows: "rows and their sink add up to 1",
  weights: "weights equal the reference’s",
  hidden: "hidden keys weigh exactly 0",
  output: "weights · V = z",
  statistics: "statistics equal the reference’s",
  writes: "Σ writes + bias = the module’s output",
  model: "outputs are those of the model as loaded",
  widths: "the heads’ widths are what W_O reads",
  slices: "each head reads its own slice",
};
export const shortSentence = (name) => SENTENCES[name] ?? name;

/** The mark of a number of this run; while the proof is being made, an estimate that says so. */
export function runMark(world, name, layer = null, options) {
  if (name === "writes" && world.refusal) return mark("refused", world.refusal, options);
  const verdict = verdictOf(world, name, layer);
  if (!verdict) return mark("estimate", world.errors.has("proof") ? `not proved: ${world.errors.get("proof").message}` : "being proved", options);
  return mark(markOf(HOLDS[verdict.state]), verdictWords(verdict, layer), options);
}

export const stateOf = (world, name, layer = null) => (name === "writes" && world.refusal ? "refused" : (verdictOf(world, name, layer)?.state ?? null));
