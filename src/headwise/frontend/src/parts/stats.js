/** Each statistic of a head inside the distribution of all heads, and what speaks for its roles. */

import { el, svg } from "../dom.js";
import { fixed } from "../format.js";
import { mark } from "../marks.js";
import { checkOf, shownMeasures, titleOf, valueText } from "./measures.js";
import { evidence, glyph, meaningOf } from "./roles.js";
import { runMark } from "./verdicts.js";

export function statistics(app) {
  const { world } = app;
  const { layer, head } = app.state;
  return el("div", { class: "stats" }, shownMeasures(world).map((one) => line(world, one, layer, head)));
}

function line(world, { name, statement, unit }, layer, head) {
  const all = world.measure(name)?.data;
  const value = world.at(name, layer, head);
  const check = checkOf(world, name);
  const before = check === "writes" && world.scaled(layer, head) !== 1; // numbers are of the run as loaded
  const refused = check === "writes" && world.refusal;
  const tip = `${statement}${unit ? `, in ${unit}` : ""}; mean over tokens${Number.isNaN(value) || !all ? "" : `\nlarger than in ${rank(all, value)}`}`;
  const strip = refused ? el("span", { class: "sub" }, "refused") : all ? distribution(all, value) : el("span", {});
  return el(
    "div",
    { class: "stat", data: { tip, measure: name } },
    el("span", { class: "name" }, titleOf(name), before ? el("span", { class: "sub" }, " as loaded") : null),
    strip,
    el("span", { class: "value number" }, refused ? "–" : valueText(name, value), name === "importance" ? mark("estimate", "measured on one run a head, silenced; not proved") : runMark(world, check, layer)),
  );
}

function rank(all, value) {
  let [below, count] = [0, 0];
  for (const number of all) if (Number.isFinite(number)) [below, count] = [below + (number < value), count + 1];
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

/** Bars of evidence, each against the bar that the name asks for. */
export function roleEvidence(app) {
  const { world } = app;
  const { layer, head } = app.state;
  return el(
    "div",
    { class: "stats" },
    evidence(world, layer, head).map(({ name, value, bar, statement, kind }) => {
      const over = value >= bar;
      const along = (share) => (100 * Math.max(0, Math.min(1, share))).toFixed(1);
      const figure = svg(
        "svg",
        { class: "strip", viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("path", { class: "zero", d: "M0 7H100" }),
        Number.isFinite(value) ? svg("path", { class: `amount${over ? " over" : ""}`, d: `M0 7H${along(value)}` }) : null,
        svg("path", { class: "threshold", d: `M${along(bar)} 1V13` }),
      );
      const tip = `${statement ?? meaningOf(world, name)}\nThe bar for the name is ${bar}.`;
      const shownMark = kind === "tried" ? mark("estimate", "tried on texts made for it") : runMark(world, "statistics", layer);
      return el("div", { class: "stat", data: { tip } }, el("span", { class: `name${over ? " strong" : ""}` }, glyph(name, 10), name.replaceAll("_", " ")), figure, el("span", { class: "value number" }, Number.isFinite(value) ? fixed(value, 2) : "–", shownMark));
    }),
  );
}
