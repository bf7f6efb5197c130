/** A small line plot of few points, each with its number. */

import { line, scaleLinear, scaleLog } from "#d3";
import { svg } from "../dom.js";
import { fixed } from "../format.js";

const [WIDTH, HEIGHT] = [360, 140];
const [LEFT, RIGHT, TOP, BOTTOM] = [36, 18, 12, 34];

export function plot({ x, y, across, up, log = false, ends }) {
  const along = (log ? scaleLog().base(2) : scaleLinear()).domain([Math.min(...x), Math.max(...x)]).range([LEFT, WIDTH - RIGHT]);
  const rise = scaleLinear().domain(ends).range([HEIGHT - BOTTOM, TOP]);
  const text = (words, attributes) => svg("text", attributes, words);
  return svg(
    "svg",
    { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${up} against ${across}: ${x.map((value, at) => `${value}: ${y[at]}`).join(", ")}` },
    rise.ticks(3).map((tick) => [svg("path", { class: "tick", d: `M${LEFT} ${rise(tick)}H${WIDTH - RIGHT}` }), text(fixed(tick, 1), { x: LEFT - 6, y: rise(tick) + 4, "text-anchor": "end" })]),
    x.map((value) => text(String(value), { x: along(value), y: HEIGHT - BOTTOM + 14, "text-anchor": "middle" })),
    text(`↑ ${up}`, { x: 0, y: HEIGHT - 3 }),
    text(across, { x: WIDTH - RIGHT, y: HEIGHT - 3, "text-anchor": "end" }),
    svg("path", { class: "curve", d: line()(x.map((value, at) => [along(value), rise(y[at])])) }),
    x.map((value, at) => svg("circle", { class: "dot", cx: along(value), cy: rise(y[at]), r: 3.5 })),
    x.map((value, at) => text(fixed(y[at], 2), { class: "value", x: along(value), y: rise(y[at]) - 8, "text-anchor": at === 0 ? "start" : at === x.length - 1 ? "end" : "middle" })),
  );
}
