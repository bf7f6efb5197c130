/** The proof marks: what stands behind a number, as a shape, and its residual on hover or focus. */

import { el, svg } from "./dom.js";
import { scientific } from "./format.js";

export const KINDS = {
  equal: { says: "equals the model’s own output", path: "M.8 4.4 3 6.6 7.2 1.6" },
  bound: { says: "certified bound", path: "M1 3 3 5 7 .8M.8 7.2h6.4" },
  estimate: { says: "estimate", path: "M.6 3.2c1.4-1.6 2.4-1 3.4-.4s2 1 3.4-.6M.6 6.4c1.4-1.6 2.4-1 3.4-.4s2 1 3.4-.6" },
  cited: { says: "cited", path: "M3 .8H1.4v6.4H3M5 .8h1.6v6.4H5" },
  refused: { says: "refused", path: "M4 1a3 3 0 1 0 .01 0M2 6l4-4" },
  fails: { says: "does not hold", path: "m1.2 1.2 5.6 5.6M6.8 1.2 1.2 6.8" },
};

/** The shape alone. */
export const sign = (kind) => svg("svg", { class: `sign ${kind}`, viewBox: "0 0 8 8", width: 8, height: 8, "aria-hidden": "true" }, svg("path", { d: KINDS[kind].path }));

/** A mark that tells what it knows. `focus` gives it a tab stop of its own, where no row around it has one. */
export function mark(kind, info = "", { focus = true } = {}) {
  const says = KINDS[kind].says[0].toUpperCase() + KINDS[kind].says.slice(1);
  const words = info ? `${says}\n${info}` : says;
  return el("span", { class: `mark ${kind}`, role: "img", "aria-label": words.replaceAll("\n", ". "), tabindex: focus ? 0 : null, data: { tip: words } }, sign(kind));
}

/** A number and its mark, never parted by a line's end. */
export const marked = (text, kind, info, options) => el("span", { class: "number" }, text, mark(kind, info, options));

/** A residual and what rounding allows on a logarithmic axis, 1e-9 to 1e-3: the bar ends before its tick where all is well. */
export function gauge(residual, allowed, { exact = false } = {}) {
  const along = (value) => `${(Math.max(0, Math.min(1, (Math.log10(Math.max(value, 1e-9)) + 9) / 6)) * 100).toFixed(1)}`;
  const bar = svg("svg", { viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("path", { class: "rail-line", d: "M0 6H100" }));
  const bare = exact || residual === null || residual === undefined;
  if (!bare) {
    bar.append(svg("path", { class: residual <= allowed ? "fill" : "fill over", d: `M0 6H${along(residual)}` }), svg("path", { class: "limit", d: `M${along(allowed)} 0V12` }));
  }
  const text = exact ? "exact" : bare ? "–" : scientific(residual);
  const tip = bare ? null : `Residual ${scientific(residual)}, rounding allows ${scientific(allowed)}.\nAxis: 10⁻⁹ to 10⁻³.`;
  return el("div", { class: "gauge", data: tip ? { tip } : {} }, bar, el("span", { class: "value" }, text));
}

/** The kind of mark that a verdict earns. */
export const markOf = (holds) => (holds === true ? "equal" : holds === false ? "fails" : "refused");

/** What the marks mean, for the foot of the page. */
export const legend = () => Object.entries(KINDS).map(([kind, { says }]) => el("span", {}, sign(kind), says));
