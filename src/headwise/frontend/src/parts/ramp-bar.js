/** The bar of colours beside a figure: its two ends, and how it is scaled. */

import { el } from "../dom.js";
import { css, place, table } from "../ramp.js";

export function rampBar(theme, { low = "0", high = "1", kind = "sequential", of = (share) => share, words = [] } = {}) {
  const canvas = el("canvas", { width: 128, height: 1, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const colours = table(theme, kind);
  for (let x = 0; x < 128; x++) {
    context.fillStyle = css(colours[place(of(x / 127))]);
    context.fillRect(x, 0, 1, 1);
  }
  return el("div", { class: "ramp" }, el("span", {}, low), canvas, el("span", {}, high), words.filter(Boolean).map((word) => el("span", {}, word)));
}
