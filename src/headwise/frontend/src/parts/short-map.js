/** A map small enough to read: every cell a number, its tokens on both axes; arrows move, the exact value stands beneath. */

import { el, svg } from "../dom.js";
import { shown } from "../format.js";
import { paper } from "../ramp.js";

const LEFT = 72;
const TOP = 60;

export function shortMap(app, weights, { readout, lit }) {
  const { part } = app.client;
  const [rows, columns] = weights.shape;
  const room = app.root.clientWidth < 760 ? app.root.clientWidth - 200 : 300; // a phone shows the whole map, if without numbers
  const side = Math.max(11, Math.min(32, Math.floor(room / Math.max(rows, columns))));
  const width = LEFT + columns * side + 40;
  const height = TOP + rows * side + 4;
  const cells = [];
  const texts = [];
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) {
      const weight = weights.data[i * columns + j];
      if (weight < 0) continue;
      const { background, color } = Number.isNaN(weight) ? { background: "var(--red)", color: "#fff" } : paper(Math.sqrt(weight), app.theme);
      cells.push(svg("rect", { x: LEFT + j * side, y: TOP + i * side, width: side - 1, height: side - 1, style: { fill: background }, data: { at: `${i},${j}` } }));
      if (weight >= 0.1 && side >= 18) texts.push(svg("text", { class: "inside", x: LEFT + j * side + side / 2 - 0.5, y: TOP + i * side + side / 2 + 3.5, style: { fill: color } }, weight > 0.995 ? "1.0" : `.${String(Math.min(99, Math.round(weight * 100))).padStart(2, "0")}`));
    }
  const rowNames = part.query_tokens.map((token, i) => svg("text", { class: "name", x: LEFT - 6, y: TOP + i * side + side / 2 + 4, "text-anchor": "end", data: { row: i } }, shown(token).trim().slice(0, 12)));
  const columnNames = part.key_tokens.map((token, j) => svg("text", { class: "name", transform: `translate(${LEFT + j * side + side / 2 + 2},${TOP - 6}) rotate(-52)` }, shown(token).trim().slice(0, 12)));
  const here = svg("rect", { class: "here", width: side - 1, height: side - 1, visibility: "hidden" });
  const figure = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, cells, texts, rowNames, columnNames, here);
  const node = el("div", { class: "short-map scroll", tabindex: 0, role: "application", "aria-label": "map of the weights: arrows move from cell to cell, the value is read out" }, figure);
  let at = null;
  const go = (i, j) => {
    at = [Math.max(0, Math.min(rows - 1, i)), Math.max(0, Math.min(columns - 1, j))];
    here.setAttribute("x", LEFT + at[1] * side);
    here.setAttribute("y", TOP + at[0] * side);
    here.setAttribute("visibility", "visible");
    readout(...at, weights.data[at[0] * columns + at[1]]);
  };
  node.addEventListener("pointerover", (event) => event.target.dataset.at && go(...event.target.dataset.at.split(",").map(Number)));
  node.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    go(...(at ? [at[0] + step[0], at[1] + step[1]] : [rows - 1, 0]));
  });
  node.lit = (token) => {
    for (const cell of cells) cell.classList.toggle("pale", token !== null && +cell.dataset.at.split(",")[0] !== token);
    rowNames.forEach((name, i) => name.classList.toggle("on", i === token));
  };
  node.lit(lit);
  return node;
}
