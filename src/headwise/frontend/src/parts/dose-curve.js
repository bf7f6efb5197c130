/** What scaling a head does: nine measured scales, and the lines between them as estimates. */

import { area, line } from "#d3";
import { svg } from "../dom.js";

const LOWEST = 40;

/** How far the output moves, at each scale: KL in nats, or 1 − cosine. */
export const harm = (dose) => dose.kl ?? dose.cosine.map((cosine) => 1 - cosine);

export function doseCurve(dose, scale) {
  const numbers = harm(dose);
  const most = Math.max(...numbers, 1e-9);
  const points = dose.scales.map((one, at) => [one * 50, LOWEST - (36 * Math.max(0, numbers[at])) / most]);
  const here = svg("path", { class: "here", d: `M${scale * 50} 0V44` });
  const figure = svg(
    "svg",
    { class: "dose", viewBox: "0 0 100 44", preserveAspectRatio: "none", role: "img", "aria-label": `effect against scale, at most ${most.toPrecision(2)}` },
    svg("path", { class: "floor", d: "M0 40.5H100" }),
    svg("path", { class: "middle", d: "M50 0V40" }),
    svg("path", { class: "under", d: area().y0(LOWEST)(points) }),
    svg("path", { class: "curve", d: line()(points) }),
    here,
  );
  figure.move = (to) => here.setAttribute("d", `M${Math.min(2, to) * 50} 0V44`);
  return figure;
}

/** Between the scales that were measured, along a straight line. */
export function between(scales, numbers, scale) {
  const at = Math.max(0, Math.min(scales.length - 2, scales.findIndex((one) => one >= scale) - 1));
  const share = (Math.min(scale, scales.at(-1)) - scales[at]) / (scales[at + 1] - scales[at]);
  return numbers[at] + share * (numbers[at + 1] - numbers[at]);
}
