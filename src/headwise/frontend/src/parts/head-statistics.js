/** Each statistic of a head inside the distribution of all heads, and the evidence for its roles. */

import { el, svg } from "../dom.js";
import { fixed } from "../format.js";
import { mark } from "../marks.js";
import { checkOf, shownMeasures, titleOf, valueText } from "./measures.js";
import { evidence, glyph, meaningOf } from "./roles.js";
import { runMark } from "./verdicts.js";

export function statistics(app) {
  const { client } = app;
  const { layer, head } = app.state;
  return el("div", { class: "stats" }, shownMeasures(client).map((one) => line(client, one, layer, head)));
}

function line(client, { name, statement, unit }, layer, head) {
  const all = client.measure(name)?.data;
  const value = client.value(name, layer, head);
  const check = checkOf(client, name);
  const before = check === "writes" && client.scaleOf(layer, head) !== 1; // numbers are of the run as loaded
  const refused = check === "writes" && client.refusal;
  const tip = `${statement}${unit ? `, in ${unit}` : ""}; mean over tokens${Number.isNaN(value) || !all ? "" : `\nlarger than in ${rank(all, value)}`}`;
  const strip = refused ? el("span", { class: "sub" }, "refused") : all ? distribution(all, value) : el("span", {});
  return el(
    "div",
    { class: "stat", data: { tip, measure: name } },
    el("span", { class: "name" }, titleOf(name), before ? el("span", { class: "sub" }, " as loaded") : null),
    strip,
    el("span", { class: "value number" }, refused ? "–" : valueText(name, value), name === "importance" ? mark("estimate", "measured by ablating each head in a run of its own; not proved") : runMark(client, check, layer)),
  );
}

function rank(all, value) {
  let [below, count] = [0, 0];
  for (const number of all) if (Number.isFinite(number)) [below, count] = [below + Number(number < value), count + 1];
  return `${below} of ${count} heads`;
}

/** One stroke a head; more than a thousand are thinned out. */
function distribution(all, value) {
  const numbers = [...all].filter(Number.isFinite);
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const at = (number) => (high > low ? (1 + (98 * (number - low)) / (high - low)).toFixed(1) : "50");
  const places = [...new Set(numbers.map(at))];
  return svg(
    "svg",
    { class: "strip", viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "all", d: places.map((x) => `M${x} 4V10`).join("") }),
    Number.isFinite(value) ? svg("path", { class: "here", d: `M${at(value)} 0V14` }) : null,
  );
}

/** Bars of evidence, each against the threshold for the name. */
export function roleEvidence(app) {
  const { client } = app;
  const { layer, head } = app.state;
  return el(
    "div",
    { class: "stats" },
    evidence(client, layer, head).map(({ name, value, threshold, statement, kind }) => {
      const over = value >= threshold;
      const along = (share) => (100 * Math.max(0, Math.min(1, share))).toFixed(1);
      const figure = svg(
        "svg",
        { class: "strip", viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("path", { class: "zero", d: "M0 7H100" }),
        Number.isFinite(value) ? svg("path", { class: `amount${over ? " over" : ""}`, d: `M0 7H${along(value)}` }) : null,
        svg("path", { class: "threshold", d: `M${along(threshold)} 1V13` }),
      );
      const tip = `${statement ?? meaningOf(client, name)}\nThe threshold for the name is ${threshold}.`;
      const shownMark = kind === "tested" ? mark("estimate", "tested on texts made for it") : runMark(client, "statistics", layer);
      return el("div", { class: "stat", data: { tip } }, el("span", { class: `name${over ? " strong" : ""}` }, glyph(name, 10), name.replaceAll("_", " ")), figure, el("span", { class: "value number" }, Number.isFinite(value) ? fixed(value, 2) : "–", shownMark));
    }),
  );
}
