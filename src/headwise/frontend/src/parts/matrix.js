/** A small matrix with its numbers: one tab stop, arrows inside. */

import { el } from "../dom.js";
import { fixed } from "../format.js";
import { paper } from "../ramp.js";

/**
 * @param {object} info id, caption, after the caption, rows of numbers, kind "weights" or "signed", the largest size for its colours, theme,
 *   colours above columns and beside rows (by head), and what to do when a cell is pointed at or chosen.
 */
export function matrix({ id, name, after, rows, kind, reach, theme, above = null, beside = null, point, choose }) {
  const cells = rows.map((row, i) => row.map((number, j) => cell(id, number, i, j, kind, reach, theme)));
  const body = cells.map((row, i) => {
    const line = el("tr", {}, row);
    if (beside) row[0].classList.add("beside", ...edge(beside[i]));
    return line;
  });
  if (above) cells[0]?.forEach((one, j) => one.classList.add("above", ...edge(above[j])));
  const table = el("table", { class: "matrix", role: "grid", "aria-label": `${name}, ${rows.length} × ${rows[0]?.length ?? 0}`, data: { id } }, el("tbody", {}, body));
  if (cells[0]?.[0]) cells[0][0].tabIndex = 0;
  table.addEventListener("pointerover", (event) => event.target.dataset.at && point(id, ...event.target.dataset.at.split(",").map(Number)));
  table.addEventListener("pointerleave", () => point(null));
  table.addEventListener("focusin", (event) => {
    for (const one of table.querySelectorAll("[tabindex='0']")) one.tabIndex = -1;
    event.target.tabIndex = 0;
    point(id, ...event.target.dataset.at.split(",").map(Number));
  });
  table.addEventListener("click", (event) => event.target.dataset.at && choose(id, ...event.target.dataset.at.split(",").map(Number)));
  table.addEventListener("keydown", (event) => stepped(event, table, cells, id, choose));
  return el("div", { class: "matrix-box" }, el("div", { class: "caption" }, el("b", {}, name), " ", after), table);
}

function cell(id, number, i, j, kind, reach, theme) {
  const share = kind === "weights" ? Math.sqrt(Math.max(number, 0)) : Math.max(-1, Math.min(1, number / reach));
  const colours = paper(share, theme, kind === "weights" ? "sequential" : "diverging");
  return el("td", { tabindex: -1, style: colours, data: { at: `${i},${j}` } }, fixed2(number));
}

// Zero is written as 0.00: it is a number here like any other.
const fixed2 = (number) => (Math.abs(number) < 0.005 ? "0.00" : fixed(number, 2));

const edge = (head) => (head === null || head === undefined ? ["nobody"] : [`of-head${head % 4}`]);

function stepped(event, table, cells, id, choose) {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  const [i, j] = (event.target.dataset.at ?? "0,0").split(",").map(Number);
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    choose(id, i, j);
  }
  if (!step) return;
  event.preventDefault();
  cells[i + step[0]]?.[j + step[1]]?.focus();
}
