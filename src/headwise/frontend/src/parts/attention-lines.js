/** From each query to the keys it looks at, for texts short enough to follow a line. */

import { curveBumpX, link } from "#d3";
import { svg } from "../dom.js";
import { fixed, shown } from "../format.js";

const STEP = 26;
const WIDTH = 268;
const LEFT = 84;
const RIGHT = 176;

/** @param {{data: Float32Array, shape: number[]}} weights `lit` isolates one query */
export function lines(part, weights, { point, choose, lit }) {
  const [rows, columns] = weights.shape;
  const height = Math.max(rows, columns) * STEP + 8;
  const y = (at) => at * STEP + 16;
  const path = link(curveBumpX).source(([i]) => [LEFT, y(i)]).target(([, j]) => [RIGHT, y(j)]);
  const strokes = [];
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) {
      const weight = weights.data[i * columns + j];
      if (weight >= 0.01) strokes.push(svg("path", { class: "flow", d: path([i, j]), "stroke-width": (0.5 + 7 * weight).toFixed(2), opacity: (0.15 + 0.75 * weight).toFixed(2), data: { query: i } }));
    }
  const queries = part.query_tokens.map((token, i) => svg("text", { class: "query", x: LEFT - 8, y: y(i) + 4, "text-anchor": "end", data: { query: i } }, shown(token).trim()));
  const keys = part.key_tokens.map((token, j) => svg("text", { class: "key", x: RIGHT + 8, y: y(j) + 4, data: { key: j } }, shown(token).trim()));
  const amounts = keys.map((_, j) => svg("text", { class: "amount", x: WIDTH - 2, y: y(j) + 4, "text-anchor": "end" }));
  const figure = svg("svg", { class: "lines", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": "lines from each query to its keys; the table below has the same in numbers" }, strokes, queries, keys, amounts);
  figure.lit = (token) => {
    for (const stroke of strokes) stroke.classList.toggle("pale", token !== null && +stroke.dataset.query !== token);
    queries.forEach((text, i) => text.classList.toggle("on", i === token));
    keys.forEach((text, j) => {
      const weight = token === null ? 0 : weights.data[token * columns + j];
      text.classList.toggle("pale", token !== null && !(weight >= 0.01));
      amounts[j].textContent = token !== null && weight >= 0.01 ? fixed(weight, 2) : "";
    });
  };
  figure.addEventListener("pointerover", (event) => point(event.target.dataset.query === undefined ? null : +event.target.dataset.query));
  figure.addEventListener("pointerleave", () => point(null));
  figure.addEventListener("click", (event) => event.target.dataset.query !== undefined && choose(+event.target.dataset.query));
  figure.lit(lit);
  return figure;
}
