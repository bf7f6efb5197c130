/** The picture of a claim: lines with their bands, points or bars. Every number is plot on hover and by the arrow keys, and in words to who cannot see it. */

import { area, line, scaleLinear, scaleLog } from "#d3";
import { el, fill, svg } from "../dom.js";
import { amount, grouped, large, minus, raised, scientific } from "../format.js";
import { labels } from "./plot-labels.js";

const HEIGHT = 164;
const [RIGHT, TOP, BOTTOM] = [14, 14, 34];
const LETTER = 5.8; // pixels of a letter of an axis, about
const FEW = 12; // points of a line that are each drawn
const MAX_DESCRIBED = 24; // points of a series that are read out
const SHAPES = ["M-2.6 0a2.6 2.6 0 1 0 5.2 0a2.6 2.6 0 1 0-5.2 0z", "M-3-3 3 3M3-3-3 3", "M-2.6-2.6h5.2v5.2h-5.2z", "M0-3.4 3.2 2.6H-3.2z"];

/** @param plot a plot as the server sends it; @returns a figure that draws itself as wide as it stands */
export function claimPlot(app, plot) {
  const series = cleaned(plot);
  if (!series.length) return null;
  const figure = el("figure", { class: "claim-plot" });
  let drawn = 0;
  const draw = () => {
    const width = Math.round(figure.clientWidth);
    if (!width || width === drawn) return;
    drawn = width;
    fill(figure, ...picture(app, plot, series, width));
  };
  // Not within the observer's own call: what is drawn may change the height that it looks at.
  new ResizeObserver(() => requestAnimationFrame(draw)).observe(figure);
  return figure;
}

const there = (value, log) => Number.isFinite(value) && (!log || value > 0);

/** The points that can be drawn. */
function cleaned(plot) {
  return plot.series
    .map((one, at) => ({
      name: one.name,
      at: at % SHAPES.length,
      points: one.x.map((x, i) => ({ x, y: one.y[i], low: one.low?.[i] ?? null, high: one.high?.[i] ?? null })).filter(({ x, y }) => there(x, plot.log_x) && there(y, plot.log_y)),
    }))
    .filter((one) => one.points.length);
}

function picture(app, plot, series, width) {
  const { kind } = plot;
  const every = series.flatMap((one) => one.points);
  const ends = (point) => [point.y, point.low, point.high].filter((value) => there(value, plot.log_y));
  const equal = there(plot.reference, plot.log_y) ? plot.reference : null;
  const levels = [...every.flatMap(ends), ...(equal === null ? [] : [equal]), ...(kind === "bars" && !plot.log_y ? [0] : [])];
  const rise = scaled(levels, plot.log_y, [HEIGHT - BOTTOM, TOP], true);
  const marks = ticks(rise, plot.log_y, 4);
  const left = Math.max(24, 8 + LETTER * Math.max(...marks.map((tick) => tickText(tick, plot.log_y).length)));
  const places = [...new Set(every.map((point) => point.x))].sort((a, b) => a - b);
  const inset = kind === "line" ? 0 : kind === "points" ? 6 : Math.min(40, (0.5 * (width - left - RIGHT)) / places.length + 2);
  const across = scaled(places, plot.log_x, [left + inset, width - RIGHT - inset], false);
  const at = (point) => [across(point.x), rise(point.y)];
  const named = series.length > 1 && kind === "line" ? labels(series.map((one) => ({ name: one.name, points: one.points.map(at) })), { left, right: width - RIGHT, top: 2, bottom: HEIGHT - BOTTOM }) : null;
  const body = { line: lineOf, points: pointsOf, bars: barsOf }[kind](series, { plot, across, rise, at, width, left, places });
  const ring = svg("circle", { class: "ring", r: 5, visibility: "hidden" });
  const wordy = (plot.y_label.length + plot.x_label.length + 4) * LETTER > width;
  const node = svg(
    "svg",
    { class: "plot", width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", tabindex: 0, "aria-label": describePlot(plot, series) },
    marks.map((tick) => [svg("path", { class: "tick", d: `M${left} ${px(rise(tick))}H${width - RIGHT}` }), svg("text", { x: left - 6, y: px(rise(tick) + 4), "text-anchor": "end" }, tickText(tick, plot.log_y))]),
    crosswise(across, places, plot.log_x, width).map((tick) => svg("text", { x: px(across(tick)), y: HEIGHT - BOTTOM + 14, "text-anchor": anchor(across(tick), left, width) }, tickText(tick, plot.log_x))),
    wordy ? null : svg("text", { x: 0, y: HEIGHT - 4 }, `↑ ${plot.y_label}`),
    svg("text", { x: width - RIGHT, y: HEIGHT - 4, "text-anchor": "end" }, wordy ? `${plot.x_label} →` : plot.x_label),
    body,
    equal === null ? null : [svg("path", { class: "equal", d: `M${left} ${px(rise(equal))}H${width - RIGHT}` }), svg("text", { class: "name", x: width - RIGHT, y: px(rise(equal) - 4), "text-anchor": "end" }, amount(equal))],
    named?.map(({ name, x, y }, i) => svg("text", { class: `name s${series[i].at}`, x: px(x), y: px(y), "text-anchor": "middle" }, name)),
    ring,
  );
  const liveRegion = el("p", { class: "visually-hidden", "aria-live": "polite" });
  follow(app, node, ring, liveRegion, plot, series, at);
  const legend = series.length > 1 && !named ? el("ul", { class: "series" }, series.map((one) => el("li", {}, sample(kind, one.at), one.name))) : null;
  return [wordy ? el("p", { class: "up" }, `↑ ${plot.y_label}`) : null, legend, node, liveRegion];
}

// Axes

function scaled(values, log, range, nice) {
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (log) {
    if (low === high) [low, high] = [low / 2, high * 2];
    const scale = scaleLog().domain([low, high]).range(range);
    return nice && high / low > 20 ? scale.nice() : scale;
  }
  if (nice && low >= 0 && low < high / 2) low = 0;
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const scale = scaleLinear().domain([low, high]).range(range);
  return nice ? scale.nice(4) : scale;
}

/** A few round numbers: of a logarithmic axis powers of ten, or 1, 2 and 5 times these where there are too few. */
function ticks(scale, log, count) {
  if (!log) return scale.ticks(count);
  const [low, high] = scale.domain();
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const powers = Array.from({ length: last - first + 1 }, (_, at) => 10 ** (first + at));
  const inside = (list) => list.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  const tens = inside(powers);
  if (tens.length >= 3) return tens.filter((_, at) => at % Math.ceil(tens.length / 5) === 0);
  const more = inside(powers.flatMap((power) => [power, 2 * power, 5 * power]));
  return more.length >= 2 ? more : [low, high];
}

/** Numbers along x: those of the points where these are few; as many as there is room for. */
function crosswise(scale, places, log, width) {
  const wanted = places.length <= 8 ? places : ticks(scale, log, 5);
  const shown = [];
  let end = -Infinity;
  for (const tick of wanted) {
    const half = (tickText(tick, log).length * LETTER) / 2 + 3;
    if (scale(tick) - half < end || scale(tick) > width) continue;
    shown.push(tick);
    end = scale(tick) + half;
  }
  return shown;
}

const anchor = (x, left, width) => (x - left < 8 ? "start" : width - RIGHT - x < 8 ? "end" : "middle");

function tickText(value, log) {
  const size = Math.abs(value);
  const power = size > 0 ? Math.log10(size) : 0;
  if (log && Math.abs(power - Math.round(power)) < 1e-9 && (size < 0.01 || size >= 10000)) return `10${raised(Math.round(power))}`;
  if (size >= 1e6) return large(value);
  if (size !== 0 && size < 0.001) return scientific(value, 0);
  return Number.isInteger(value) ? grouped(value) : minus(String(+value.toPrecision(3)));
}

const px = (value) => value.toFixed(1);
const pathOf = (points) => line()(points.map(([x, y]) => [+px(x), +px(y)]));

// Bodies

function lineOf(series, { plot, across, rise, at }) {
  const bands = series.map((one) => {
    const sure = one.points.filter(({ low, high }) => there(low, plot.log_y) && there(high, plot.log_y));
    const band = area().x((point) => +px(across(point.x))).y0((point) => +px(rise(point.low))).y1((point) => +px(rise(point.high)));
    return sure.length > 1 ? svg("path", { class: `band s${one.at}`, d: band(sure) }) : null;
  });
  const curves = series.map((one) => [
    svg("path", { class: `curve s${one.at}`, d: pathOf(one.points.map(at)) }),
    one.points.length <= FEW ? one.points.map((point) => shape(`dot s${one.at}`, at(point), SHAPES[0])) : null,
  ]);
  return [bands, curves, series.length === 1 && series[0].points.length <= 8 ? values(series[0].points, at) : null];
}

function pointsOf(series, { plot, rise, at }) {
  return series.map((one) => {
    const whiskers = one.points.length <= 40 ? one.points.filter(({ low, high }) => there(low, plot.log_y) && there(high, plot.log_y)) : [];
    return [
      whiskers.map((point) => svg("path", { class: `whisker s${one.at}`, d: `M${px(at(point)[0])} ${px(rise(point.low))}V${px(rise(point.high))}` })),
      one.points.map((point) => shape(`point s${one.at}${one.points.length > 60 ? " many" : ""}`, at(point), SHAPES[one.at])),
    ];
  });
}

function barsOf(series, { plot, across, rise, places, width, left }) {
  const apart = places.length > 1 ? Math.min(...places.slice(1).map((place, i) => across(place) - across(places[i]))) : (width - left) / 3;
  const broad = Math.max(1, (0.8 * apart) / series.length);
  const floor = plot.log_y ? rise.range()[0] : rise(0);
  return series.map((one, n) =>
    one.points.map((point) => {
      const x = across(point.x) - (broad * series.length) / 2 + n * broad;
      const y = rise(point.y);
      const sure = there(point.low, plot.log_y) && there(point.high, plot.log_y);
      return [svg("rect", { class: `column s${one.at}`, x: px(x), y: px(Math.min(y, floor)), width: px(Math.max(0.8, broad - 1)), height: px(Math.max(0.5, Math.abs(y - floor))) }), sure ? svg("path", { class: "whisker over", d: `M${px(x + broad / 2)} ${px(rise(point.low))}V${px(rise(point.high))}` }) : null];
    }),
  );
}

const shape = (kind, [x, y], path) => svg("path", { class: kind, transform: `translate(${px(x)},${px(y)})`, d: path });

/** The number at each of a few points, where it does not touch its neighbour's. */
function values(points, at) {
  let end = -Infinity;
  return points.map((point, i) => {
    const [x, y] = at(point);
    const text = amount(point.y);
    const half = (text.length * LETTER) / 2;
    const from = i === 0 ? x : x - half;
    if (from < end) return null;
    end = from + 2 * half + 4;
    return svg("text", { class: "value", x: px(x), y: px(y - 8), "text-anchor": i === 0 ? "start" : i === points.length - 1 ? "end" : "middle" }, text);
  });
}

/** How a series looks, for its name beside it. */
function sample(kind, at) {
  const drawn = kind === "line" ? svg("path", { class: `curve s${at}`, d: "M1 6H19" }) : kind === "bars" ? svg("rect", { class: `column s${at}`, x: 5, y: 1, width: 10, height: 10 }) : shape(`point s${at}`, [10, 6], SHAPES[at]);
  return svg("svg", { class: "plot sample", width: 20, height: 12, viewBox: "0 0 20 12", "aria-hidden": "true" }, drawn);
}

// Words

const between = ({ low, high }) => (low === null || high === null ? "" : ` (${amount(low)} to ${amount(high)})`);

const describePoint = (plot, one, point) => `${one.name}\n${plot.x_label}: ${amount(point.x)}\n${plot.y_label}: ${amount(point.y)}${between(point)}`;

/** What the picture shows, in words: every number where they are few, else some of them evenly. */
function describePlot(plot, series) {
  const some = (points) => (points.length <= MAX_DESCRIBED ? points : Array.from({ length: MAX_DESCRIBED }, (_, i) => points[Math.round((i * (points.length - 1)) / (MAX_DESCRIBED - 1))]));
  const parts = series.map((one) => `${one.name}${one.points.length > MAX_DESCRIBED ? `, ${MAX_DESCRIBED} of ${one.points.length} points` : ""}: ${some(one.points).map((point) => `${amount(point.x)}: ${amount(point.y)}${between(point)}`).join(", ")}`);
  return `${plot.y_label} against ${plot.x_label}. ${parts.join(". ")}${plot.reference === null ? "" : `. Dashed, to compare with: ${amount(plot.reference)}`}`;
}

/** The pointer finds the nearest point; the arrows go along a series, or to the next. */
function follow(app, node, ring, liveRegion, plot, series, at) {
  let here = null; // series and point
  const show = (one, i, aloud) => {
    here = [one, i];
    const [x, y] = at(one.points[i]);
    ring.setAttribute("cx", px(x));
    ring.setAttribute("cy", px(y));
    ring.setAttribute("visibility", "visible");
    const words = describePoint(plot, one, one.points[i]);
    app.tip.showAt(ring, words);
    if (aloud) liveRegion.textContent = words.replaceAll("\n", ", ");
  };
  const leave = () => {
    ring.setAttribute("visibility", "hidden");
    app.tip.hide();
  };
  const flat = plot.kind === "points" ? 1 : 0.2; // along a line what counts is x
  node.addEventListener("pointermove", (event) => {
    const box = node.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let [best, least] = [null, Infinity];
    for (const one of series)
      one.points.forEach((point, i) => {
        const [a, b] = at(point);
        const far = Math.abs(a - x) + flat * Math.abs(b - y);
        if (far < least) [best, least] = [[one, i], far];
      });
    show(...best, false);
  });
  node.addEventListener("pointerleave", leave);
  node.addEventListener("blur", leave);
  node.addEventListener("keydown", (event) => {
    const [one, i] = here ?? [series[0], -1];
    const n = series.indexOf(one);
    const nearest = (other) => other.points.reduce((best, point, place) => (Math.abs(point.x - (one.points[Math.max(i, 0)].x)) < Math.abs(other.points[best].x - one.points[Math.max(i, 0)].x) ? place : best), 0);
    const next = { ArrowRight: () => [one, Math.min(i + 1, one.points.length - 1)], ArrowLeft: () => [one, Math.max(i - 1, 0)], Home: () => [one, 0], End: () => [one, one.points.length - 1] }[event.key];
    const other = { ArrowDown: series[n + 1], ArrowUp: series[n - 1] }[event.key];
    if (!next && !other) return;
    event.preventDefault();
    if (next) show(...next(), true);
    else show(other, nearest(other), true);
  });
}
