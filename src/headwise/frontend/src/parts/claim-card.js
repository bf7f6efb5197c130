/** The card of a claim: the sentence, what came of it here, a picture of the numbers, and how it was put to the test. */

import { el, fill, svg } from "../dom.js";
import { amount, counted, fixed, percent } from "../format.js";
import { mark, sign } from "../marks.js";
import { claimPlot } from "./claim-plot.js";
import { progress, waiting, wo } from "./notes.js";

/** By verdict: the class of the card, the word, and its sign. */
export const VERDICTS = {
  kept: ["kept", "Kept", "M1.5 6.5 4.5 9.5 10.5 2.5"],
  corrected: ["corrected", "Kept, corrected", "M2 10l.6-2.6L8.2 1.8 10.2 3.8 4.6 9.4z"],
  cut: ["cut", "Cut", "m2.5 2.5 7 7M9.5 2.5l-7 7"],
  inconclusive: ["unsure", "Inconclusive", "M3.8 4.2a2.2 2.2 0 1 1 3.4 1.9C6.4 6.6 6 7 6 7.8M6 9.6v1"],
  unmeasured: ["unmeasured", "Not measured here", "M1.5 6h2M5 6h2M8.5 6h2"],
};
const LOSSES = { next: "the loss of the next token", masked: "the loss of masked tokens", kl: "KL from the model’s own output", cosine: "1 − cosine of the embedding" };

export const verdictOf = (claim) => claim.card?.verdict ?? "unmeasured";

/** The word of a verdict with its sign: never by colour alone. */
export function verdict(name) {
  const [, title, path] = VERDICTS[name];
  return el("p", { class: "verdict" }, svg("svg", { width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("path", { d: path })), title);
}

/** Text in which W_O and what is below zero are written as people write them. */
export const typeset = (text) => text.replaceAll(/(?<![\w.])-(?=\d)/g, "−").split("W_O").flatMap((part, at) => (at ? [wo(), part] : [part]));

/** An element, with `busy` to say that it is being measured, or no longer.
 * @param options model: its name; live: where the page shows it, {title, go}; measure: what the button does; may: whether it can be pressed */
export function claimCard(app, claim, { model, live, measure, may }) {
  const { card } = claim;
  const name = verdictOf(claim);
  const doing = el("div", { class: "doing" });
  const button = el("button", { class: "button small", type: "button", disabled: !may, "aria-label": `measure on ${model}: ${claim.sentence}`, on: { click: measure } }, `Measure on ${model}`);
  const node = el(
    "article",
    { class: `card ${VERDICTS[name][0]}`, tabindex: -1, data: { claim: claim.name } },
    verdict(name),
    el("h2", {}, el("q", {}, name === "cut" ? el("del", {}, typeset(claim.sentence)) : typeset(claim.sentence))),
    card ? el("p", { class: "found" }, card.correction ? [el("ins", {}, typeset(card.correction)), " "] : null, typeset(card.summary)) : el("p", { class: "found" }, typeset(claim.published), mark("cited", claim.source)),
    card?.plot ? claimPlot(app, card.plot) : null,
    doing,
    how(app, claim, live),
    el("p", { class: "source" }, el("span", {}, source(claim)), standing(claim, model)),
  );
  let shown; // the bar of the work that is for this card alone, or a word that it is this card's turn
  node.showJob = (job, cancel = null) => {
    if (job && shown) return void shown.update?.(job);
    if (!job && shown === null) return;
    shown = job ? (cancel ? progress(job, cancel, { describe: (words) => words.split(": ")[1] ?? "" }) : waiting("Measuring…")) : null;
    fill(doing, shown ?? (card ? null : button));
  };
  node.may = (yes) => (button.disabled = !yes);
  node.showJob(null);
  return node;
}

export const source = (claim) => (/^https?:/.test(claim.address) ? el("a", { href: claim.address, rel: "noreferrer", target: "_blank" }, claim.source) : claim.source);

/** What stands behind the card: measured here, or no more than cited. */
function standing(claim, model) {
  const { card } = claim;
  if (!card || card.cited) return el("span", { class: "number" }, "cited", mark("cited", claim.source));
  const words = [
    claim.about_model ? `Measured on this machine with ${model}.` : "Measured by training models of its own; the model at hand plays no part.",
    card.texts ? `${counted(card.texts, "text")}${card.tokens ? `, ${counted(card.tokens, "token")}` : ""}.` : null,
    card.measure ? `The loss is ${LOSSES[card.measure] ?? card.measure}.` : null,
    Object.values(card.numbers).some((one) => one.low !== null) ? `Intervals are 95 %${card.texts ? ", over texts" : ""}.` : null,
    claim.seconds >= 0.1 ? `It took ${fixed(claim.seconds, 1)} s.` : null,
  ].filter(Boolean);
  const tip = words.join("\n");
  const shape = card.verdict === "inconclusive" && !Object.keys(card.numbers).length ? "refused" : "equal";
  return el("span", { class: "number" }, shape === "refused" ? "not measurable" : "measured", el("span", { class: `mark ${shape}`, role: "img", "aria-label": tip.replaceAll("\n", " "), tabindex: 0, data: { tip } }, sign(shape)));
}

/** Definition, rule and every number, for who wants to know. */
function how(app, claim, live) {
  const numbers = Object.entries(claim.card?.numbers ?? {});
  const definition = (title, words, after = null) => [el("dt", {}, title), el("dd", {}, typeset(words), after)];
  return el(
    "details",
    { class: "how" },
    el("summary", {}, numbers.length ? `How it is judged, and ${counted(numbers.length, "number")}` : "How it is judged"),
    el("dl", {}, definition("Taken to mean", claim.definition), definition("Refuted by", claim.refuted_by), definition("Verdict", claim.rule), claim.card ? definition("Published", claim.published, mark("cited", claim.source)) : null),
    numbers.length ? table(claim, numbers) : null,
    live ? el("p", {}, el("button", { class: "button small", type: "button", on: { click: () => app.go(live.go) } }, live.title)) : null,
  );
}

function table(claim, numbers) {
  const published = numbers.some(([, one]) => one.published);
  const rows = numbers.map(([name, one]) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, typeset(name.replaceAll("_", " ")), one.means ? el("span", { class: "sub" }, typeset(one.means)) : null),
      el("td", {}, measured(one), one.low === null || one.high === null ? null : el("span", { class: "sub" }, `${sized(one.low, one.unit)} to ${sized(one.high, one.unit)}`)),
      published ? el("td", { class: "left" }, one.published ?? "") : null,
    ),
  );
  const head = el("tr", {}, el("th", { scope: "col" }, "number"), el("th", { scope: "col" }, "here, 95 %", mark("estimate", "beneath a number: its 95 % interval; a number without one is exact, or counted")), published ? el("th", { scope: "col", class: "left" }, "published", mark("cited", claim.source)) : null);
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "all numbers" }, el("table", {}, el("thead", {}, head), el("tbody", {}, rows)));
}

const sized = (value, unit) => (!Number.isFinite(value) ? "–" : unit === "share" ? percent(value) : amount(value));
const measured = (one) => [sized(one.value, one.unit), one.unit && one.unit !== "share" && Number.isFinite(one.value) ? ` ${one.unit}` : ""];
