/** What the proof of a run says about one number: the mark that it earns, and the residual behind it. */

import { scientific } from "../format.js";
import { mark, markOf } from "../marks.js";

const HOLDS = { passes: true, fails: false, refused: null };

/** The verdict of a check, over all layers or in one. */
export function verdictOf(client, name, layer = null) {
  const { proof, part } = client;
  if (!proof) return null;
  const list = layer === null ? proof.verdicts : (proof.layers?.[part.name]?.[layer] ?? proof.verdicts);
  return list.find((one) => one.name === name) ?? proof.verdicts.find((one) => one.name === name) ?? null;
}

export function verdictWords(verdict, layer = null) {
  const where = layer === null ? "" : `Layer ${layer}: `;
  const sentence = verdict.sentence ?? SENTENCES[verdict.name] ?? verdict.name;
  if (verdict.residual === null || verdict.residual === undefined) return `${where}${sentence}${verdict.state === "passes" ? ", exact" : ""}`;
  return `${where}${sentence}\nresidual ${scientific(verdict.residual)}, rounding allows ${scientific(verdict.allowed)}`;
}

const SENTENCES = {
  rows: "every row of weights + sink = 1",
  weights: "weights as in float64",
  hidden: "hidden keys weigh exactly 0",
  output: "each head alone: weights · V = z",
  statistics: "statistics as defined, in float64",
  writes: "Σ writes + bias = module output",
  model: "outputs as loaded",
  widths: "the heads’ widths are what W_O reads",
  slices: "each head reads its own slice",
};

/** What a check claims, in a few words; what its own sentence counts (12 × 32 = 384) is kept. */
export function shortSentence(name, sentence = "") {
  const counted = name === "widths" && /(\d[\d × +·]* = \d+)/.exec(sentence);
  return counted ? `${counted[1]}, what W_O reads` : (SENTENCES[name] ?? sentence ?? name);
}

/** The mark of a number of this run; while the proof is being made, an estimate that says so. */
export function runMark(client, name, layer = null, options) {
  if (name === "writes" && client.refusal) return mark("refused", client.refusal, options);
  const verdict = verdictOf(client, name, layer);
  if (!verdict) return mark("estimate", client.run?.from_earlier_start ? "stored at an earlier start; being compared with the model" : client.errors.has("proof") ? `not proved: ${client.errors.get("proof").message}` : "being proved", options);
  return mark(markOf(HOLDS[verdict.state]), verdictWords(verdict, layer), options);
}

export const stateOf = (client, name, layer = null) => (name === "writes" && client.refusal ? "refused" : (verdictOf(client, name, layer)?.state ?? null));
