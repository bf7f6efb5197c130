/** Statistics of each query token: a table for short texts, lines for long ones. */

import { el } from "../dom.js";
import { fixed, shown } from "../format.js";
import { titleOf } from "./measures.js";

/** @param arrays of one head, by name, [queries] each */
export function tokenTable(part, arrays, { lit, point, choose }) {
  const most = Math.log(Math.max(2, part.keys));
  const extra = ["distance", "first", "previous", "self"].filter((name) => arrays[name]);
  if (arrays.sink?.data.some((share) => share > 0)) extra.push("sink");
  const head = el("tr", {}, el("th", { scope: "col" }, "query"), el("th", { scope: "col", class: "left" }, "entropy, nats"), el("th", { scope: "col", class: "left" }, "peak"), extra.map((name) => el("th", { scope: "col" }, titleOf(name))));
  const rows = part.query_tokens.map((token, i) => {
    const entropy = arrays.entropy?.data[i];
    const peak = arrays.peak?.data[i] ?? -1;
    const button = el("button", { class: "token", type: "button", "aria-pressed": String(lit === i), on: { click: () => choose(i), focus: () => point(i) } }, shown(token).trim());
    const bar = el("span", { class: "mini-bar", style: { width: `${(64 * (entropy || 0)) / most}px` } });
    return el(
      "tr",
      { on: { pointerenter: () => point(i) } },
      el("th", { scope: "row" }, button),
      el("td", { class: "left" }, bar, fixed(entropy, 3)),
      el("td", { class: "left" }, peak < 0 ? "–" : [el("b", {}, shown(part.key_tokens[peak]).trim()), ` ${fixed(arrays.max_weight?.data[i], 3)}`]),
      extra.map((name) => el("td", {}, fixed(arrays[name].data[i], name === "distance" ? 2 : 3))),
    );
  });
  const node = el("div", { class: "scroll" }, el("table", { class: "per-token" }, el("thead", {}, head), el("tbody", {}, rows)));
  node.addEventListener("pointerleave", () => point(null));
  node.lit = (token) =>
    rows.forEach((row, i) => {
      row.classList.toggle("on", i === token);
      row.querySelector("button").setAttribute("aria-pressed", String(i === token));
    });
  node.lit(lit);
  return node;
}

const HEIGHT = 30;

/** One line a statistic over all tokens; a pixel spans from the smallest to the largest that it covers. */
export function tokenLines(app, part, arrays, { lit, choose }) {
  const names = ["entropy", "max_weight", "first", "distance", "write_norm"].filter((name) => arrays[name]);
  const canvases = names.map((name) => el("canvas", { "aria-hidden": "true", data: { name } }));
  const values = names.map(() => el("span", { class: "value" }));
  const rows = names.map((name, at) => el("div", { class: "token-line" }, el("span", { class: "name" }, titleOf(name)), canvases[at], values[at]));
  const node = el("div", { class: "token-lines" }, rows);
  const draw = (token) => {
    const style = getComputedStyle(app.root);
    names.forEach((name, at) => {
      values[at].textContent = token === null ? "" : fixed(arrays[name].data[token], 3);
      stroke(canvases[at], arrays[name].data, token, style);
    });
  };
  node.lit = draw;
  node.redraw = () => draw(lit());
  node.addEventListener("click", (event) => {
    if (event.target.tagName !== "CANVAS") return;
    const box = event.target.getBoundingClientRect();
    choose(Math.max(0, Math.min(part.queries - 1, Math.floor(((event.clientX - box.left) / box.width) * part.queries))));
  });
  requestAnimationFrame(() => draw(lit()));
  return node;
}

/** The line is drawn once and kept; a step of the cursor copies it. */
function stroke(canvas, numbers, token, style) {
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  if (!width) return;
  const key = `${width} ${ratio} ${style.getPropertyValue("--data")}`;
  if (canvas.drawnFor !== key) {
    canvas.drawn = curve(numbers, Math.round(width * ratio), HEIGHT * ratio, ratio, style);
    canvas.drawnFor = key;
    [canvas.width, canvas.height] = [canvas.drawn.width, canvas.drawn.height];
  }
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.drawImage(canvas.drawn, 0, 0);
  if (token === null) return;
  context.fillStyle = style.getPropertyValue("--ink");
  context.fillRect(((token + 0.5) * canvas.width) / numbers.length - 0.75 * ratio, ratio, 1.5 * ratio, canvas.height - 2 * ratio);
}

/** From the smallest to the largest number under each pixel. */
function curve(numbers, width, height, ratio, style) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  let most = 0;
  for (const number of numbers) if (Number.isFinite(number) && number > most) most = number;
  const y = (number) => height - 2 * ratio - ((height - 6 * ratio) * number) / (most || 1);
  context.strokeStyle = style.getPropertyValue("--data");
  context.lineWidth = ratio;
  context.beginPath();
  let open = false;
  let at = 0;
  while (at < numbers.length) {
    const x = Math.floor(((at + 0.5) * width) / numbers.length);
    let [low, high, last] = [Infinity, -Infinity, NaN];
    for (; at < numbers.length && Math.floor(((at + 0.5) * width) / numbers.length) === x; at++) {
      last = numbers[at];
      if (last < low) low = last;
      if (last > high) high = last;
    }
    if (low > high) open = false;
    else {
      for (const number of low === high ? [low] : [low, high, last]) {
        if (open && Number.isFinite(number)) context.lineTo(x, y(number));
        else if (Number.isFinite(number)) (context.moveTo(x, y(number)), (open = true));
      }
    }
  }
  context.stroke();
  return canvas;
}
