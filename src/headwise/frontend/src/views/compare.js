/** Compare: what fine-tuning did to each head. Verdicts on a map of all heads, a ranked table, and both heads side by side. */

import { scaleLinear, scaleLog } from "#d3";
import { el, fill, svg } from "../dom.js";
import { counted, fixed, headName, modelName } from "../format.js";
import { mark } from "../marks.js";
import { CANNOT_WRITE } from "../parts/edits.js";
import { failureNote, headed, progress, segmented, waiting, wo } from "../parts/notes.js";
import { rampBar } from "../parts/ramp-bar.js";
import { coded, paintCodes } from "../parts/thumbnail.js";
import { place, sequential, table } from "../ramp.js";
import { SCALES } from "../ramp.js";

const SHAPES = {
  muted: "M2 3h8M6 4v6M3 7.5 6 10.5l3-3",
  amplified: "M2 10h8M6 9V2M3 5l3-3 3 3",
  tempered: "M1 6c2-5 3-5 5 0s3 5 5 0",
  sharpened: "M1 10 6 2l5 8",
  rewired: "M1 3h3l4 6h3M1 9h3l1-1.5M7 4.5 8 3h3",
  tied: "M3 6a2.5 2.5 0 0 1 5 0M4 6a2.5 2.5 0 0 0 5 0M1 6h2M9 6h2",
  unchanged: "M2 6h8",
};
const MEANINGS = {
  tied: "its weights became those of another head",
  muted: "writes the same, smaller",
  amplified: "writes the same, larger",
  rewired: "attends elsewhere, or writes something else",
  tempered: "attends to more keys: flatter",
  sharpened: "attends to fewer keys: sharper",
  unchanged: "unchanged",
};
const TITLES = { qk: "cosine of QK", ov: "cosine of OV", size: "size of QK", temperature: "temperature", twin: "twin", pattern: "pattern", writes: "writes" };
const BARS = { gain: "log", size: "log", qk: "less", ov: "less" };
const HOW = "computed once, from the weights in float64; not confirmed by a second computation";
const CHANGE = "size of the change: the largest of |gain − 1|, |size of QK − 1| and 1 − cosine, of QK and of OV";
const SILENT = 1e-6; // a gain below says nothing
const MOST = 120; // rows that are shown

const icon = (verdict) => svg("svg", { class: "verdict-icon", width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("path", { d: (SHAPES[verdict] ?? SHAPES.unchanged) }));
const chip = (verdict, words) => el("span", { class: `chip verdict-chip ${verdict}`, data: { tip: words } }, icon(verdict), verdict);

/** What a verdict means for this head. */
function meaning(result, { layer, head, verdict }) {
  return result.variables.gain?.values[layer][head] < SILENT ? "writes nothing any more" : (MEANINGS[verdict] ?? verdict);
}

/** Whether two models are of one architecture; null where that is not known, as one has not been opened. */
function fits(a, b) {
  if (a === b || a.base === b.id || b.base === a.id || (a.base && a.base === b.base)) return true;
  const [one, other] = [a, b].map(({ class: kind, layers, heads, width }) => (kind ? [kind, layers, heads, width].join() : null));
  return one && other ? one === other : null;
}

export function compare(app) {
  const view = new CompareView(app);
  return { node: view.node, shown: () => view.begin(), moved: (state, before) => view.moved(state, before), changed: (what) => view.changed(what) };
}

class CompareView {
  constructor(app) {
    this.app = app;
    this.centre = el("div", { class: "centre" });
    this.rail = el("aside", { class: "rail red", "aria-label": "the chosen head" });
    this.node = el("div", { class: "columns compare-columns" }, this.centre, this.rail);
  }

  get models() {
    return (this.app.client.serverState?.models ?? []).filter((one) => one.state !== "failed");
  }

  /** The two that were chosen; what is left open is filled by a pair that fits, what was saved last first. */
  get pair() {
    const { state, client } = this.app;
    const info = state.base || state.tuned ? null : client.serverState?.compare;
    if (info) return info;
    const saved = this.models.filter((one) => one.base).reverse().map((one) => [client.model(one.base), one]);
    const pairs = [...saved, ...this.models.flatMap((base, at) => this.models.slice(at + 1).map((tuned) => [base, tuned]))].filter(([base, tuned]) => base && fits(base, tuned) !== false);
    pairs.sort((a, b) => Number(Boolean(fits(...b))) - Number(Boolean(fits(...a))));
    const found = pairs.find(([base, tuned]) => (!state.base || base.id === state.base) && (!state.tuned || tuned.id === state.tuned)) ?? pairs.map(([base, tuned]) => [tuned, base]).find(([base, tuned]) => (!state.base || base.id === state.base) && (!state.tuned || tuned.id === state.tuned));
    return { base: state.base || found?.[0].id || this.models[0]?.id, tuned: state.tuned || found?.[1].id || "" };
  }

  /** Why these two cannot be compared, or null. */
  get unfit() {
    const { client } = this.app;
    const [base, tuned] = ["base", "tuned"].map((name) => client.model(this.pair[name]));
    if (!tuned) return `No other model of the architecture of ${base ? modelName(base.name) : "this one"} is here. Ablate a head and save the model, or start with headwise serve BASE TUNED.`;
    return base && fits(base, tuned) === false ? `${modelName(base.name)} and ${modelName(tuned.name)} are of different architectures: only two of one can be compared.` : null;
  }

  /** Begin by itself where two models were given for it. */
  begin() {
    const { client } = this.app;
    this.draw();
    if (!client.serverState || !client.can("compare") || client.transport.recorded) return;
    const ready = ["base", "tuned"].every((name) => client.model(this.pair[name])?.state === "ready");
    if (client.serverState.compare && client.mayWrite && ready && !this.whole) this.start();
  }

  get whole() {
    const { base, tuned } = this.pair;
    return this.app.client.compared?.get(`${base} ${tuned}`);
  }

  /** Of the part that is looked at, or the first. */
  get result() {
    const { whole } = this;
    if (!whole) return null;
    const name = whole.parts[this.app.state.part] ? this.app.state.part : Object.keys(whole.parts)[0];
    return { ...whole.parts[name], thresholds: whole.thresholds, text: whole.text, name };
  }

  get job() {
    const { base, tuned } = this.pair;
    return [...this.app.client.jobs.values()].reverse().find((one) => one.kind === "compare" && one.base === base && one.tuned === tuned);
  }

  async start() {
    const { client } = this.app;
    const { base, tuned } = this.pair;
    if (this.job?.state === "running") return;
    this.failure = null;
    const closed = [base, tuned].filter((id) => client.model(id)?.state !== "ready");
    this.awaited = closed.length ? `${base} ${tuned}` : null; // it begins when both are open
    if (closed.length) {
      closed.forEach((id) => client.model(id)?.state === "waiting" && this.app.open(id));
      return void this.draw();
    }
    client.compared ??= new Map();
    const text = this.app.chosenText();
    try {
      const job = await client.startJob("compare", { base, tuned, text }, (result) => (client.compared.set(`${base} ${tuned}`, { ...result, text }), client.notify("compared")));
      Object.assign(job, { base, tuned });
    } catch (failure) {
      this.failure = failure;
    }
    this.draw();
  }

  draw() {
    const { client } = this.app;
    if (!client.serverState) return void fill(this.centre, waiting("Connecting to the server…"));
    if (!client.can("compare")) {
      fill(this.rail);
      return void fill(this.centre, this.title(), el("p", { class: "note" }, "Two models can be compared with headwise compare BASE TUNED, or on this page when it is started with headwise serve --compare BASE TUNED. This installation has no comparison to show."));
    }
    const { result, job, unfit } = this;
    const opening = this.awaited && ["base", "tuned"].map((name) => client.model(this.pair[name])).filter((one) => one && one.state !== "ready");
    const broken = ["base", "tuned"].map((name) => client.model(this.pair[name])).filter((one) => one?.state === "failed");
    fill(
      this.centre,
      this.title(result),
      this.chooser(),
      unfit ? el("p", { class: "note" }, unfit) : null,
      broken.map((one) => failureNote({ message: one.reason }, `${one.name} could not be opened.`)),
      opening?.length && !broken.length ? waiting(`opening ${opening.map((one) => modelName(one.name)).join(" and ")}`) : null,
      job?.state === "running" ? progress(job, () => client.cancel(job)) : null,
      job?.error ? failureNote(job.error, "The comparison failed.") : null,
      this.failure ? failureNote(this.failure) : null,
      result ? this.found(result) : null,
    );
    if (result) this.chosen(result);
    else fill(this.rail);
  }

  title(result) {
    const text = result?.text ?? this.app.chosenText();
    const words = text.length > 60 ? `${text.slice(0, 60)}…` : text;
    return el("div", { class: "view-head" }, el("h1", { class: "title" }, "Base → tuned"), el("span", { class: "sub" }, `what became of each head, in weight space and on the text “${words}”`));
  }

  chooser() {
    const { client } = this.app;
    const base = client.model(this.pair.base);
    const others = base ? this.models.filter((one) => one !== base || one.id === this.pair.tuned) : [];
    const order = (one) => ({ true: 0, null: 1, false: 2 })[fits(base, one)];
    const listed = { base: this.models, tuned: others.sort((a, b) => order(a) - order(b)) };
    const words = (name, one) => `${modelName(one.name)}${name === "tuned" && fits(base, one) === false ? " · another architecture" : one.state === "waiting" ? " · not open yet" : ""}`;
    const changed = (name, value) => this.app.go({ ...this.pair, ...(name === "base" ? { tuned: "" } : {}), [name]: value, row: "" });
    const pick = (name) => el("label", {}, name, el("select", { class: "field", on: { change: (event) => changed(name, event.target.value) } }, this.pair[name] ? null : el("option", { value: "", selected: true }, "none fits"), listed[name].map((one) => el("option", { value: one.id, selected: one.id === this.pair[name] }, words(name, one)))));
    const start = el("button", { class: "button primary", type: "button", disabled: !client.mayWrite || Boolean(this.unfit) || this.job?.state === "running", on: { click: () => this.start() } }, this.result ? "Compare again" : "Compare");
    return el("div", { class: "bar" }, pick("base"), pick("tuned"), start, client.mayWrite ? null : el("span", { class: "sub" }, CANNOT_WRITE));
  }

  heads(result) {
    const list = [];
    for (let layer = 0; layer < result.layers; layer++)
      for (let head = 0; head < result.heads; head++) if (result.verdict[layer]?.[head]) list.push({ layer, head, verdict: result.verdict[layer][head], change: changeOf(result, layer, head) });
    return list.sort((a, b) => b.change - a.change);
  }

  found(result) {
    const all = this.heads(result);
    const { verdict } = this.app.state;
    const counts = {};
    for (const one of all) counts[one.verdict] = (counts[one.verdict] ?? 0) + 1;
    const shown = verdict === "all" || !counts[verdict] ? all : all.filter((one) => one.verdict === verdict);
    const choices = [["all", `all ${all.length}`], ...Object.entries(counts).map(([name, count]) => [name, `${name} ${count}`])];
    return [
      el("div", { class: "panel" }, el("div", { class: "panel-head" }, el("h2", {}, "How each head changed"), rampBar(this.app.theme, { of: SCALES.sqrt, words: ["size of the change, √ scale"] })), el("div", { class: "where" }, this.map(result, all), this.rules(result, counts))),
      el("div", { class: "bar after" }, segmented("verdict", choices, counts[verdict] ? verdict : "all", (one) => this.app.go({ verdict: one, row: "" }, { quietly: true })), el("span", { class: "sub" }, "largest change first")),
      this.list(result, shown),
      result.notes?.map((note) => el("p", { class: "note" }, note)),
    ];
  }

  rules(result, counts) {
    const info = result.thresholds ?? {};
    const limits = Object.entries(info).map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`);
    return el("dl", { class: "rules" }, Object.keys(SHAPES).filter((name) => counts[name]).map((name) => [el("dt", {}, icon(name), name), el("dd", {}, MEANINGS[name])]), limits.length ? el("dd", { class: "limits" }, `bars: ${limits.join(", ")}`) : null);
  }

  /** Heads that changed stand out on the map of all. */
  map(result, all) {
    const chosen = this.row(all);
    const side = Math.max(12, Math.min(22, Math.floor(640 / Math.max(result.layers, 1))));
    const cells = all.map((one) => {
      const x = 22 + one.layer * side;
      const y = one.head * side;
      const group = svg("g", { class: `where-cell${one === chosen ? " on" : ""}`, data: { row: headName(one.layer, one.head), tip: `${headName(one.layer, one.head)} ${one.verdict}` } }, svg("rect", { x, y, width: side - 2, height: side - 2, rx: 2, style: { fill: sequential(0.06 + 0.94 * Math.sqrt(Math.min(1, one.change)), this.app.theme) } }));
      if (one.verdict !== "unchanged") group.append(svg("path", { class: "on-cell", transform: `translate(${x + (side - 14) / 2},${y + (side - 14) / 2})`, d: (SHAPES[one.verdict] ?? SHAPES.unchanged), style: { stroke: paperInk(0.06 + 0.94 * Math.sqrt(Math.min(1, one.change)), this.app.theme) } }));
      return group;
    });
    const height = result.heads * side;
    const every = side < 16 ? 2 : 1;
    const names = [
      ...Array.from({ length: result.heads }, (_, head) => (head % every ? null : svg("text", { x: 16, y: head * side + side / 2 + 3, "text-anchor": "end" }, String(head)))),
      ...Array.from({ length: result.layers }, (_, layer) => (layer % every ? null : svg("text", { x: 22 + layer * side + side / 2 - 1, y: height + 12, "text-anchor": "middle" }, String(layer)))),
    ].filter(Boolean);
    const figure = svg("svg", { class: "where-map", width: 24 + result.layers * side, viewBox: `0 0 ${24 + result.layers * side} ${height + 18}`, role: "img", "aria-label": `${counted(all.filter((one) => one.verdict !== "unchanged").length, "head")} changed; the table below lists them` }, cells, names);
    figure.addEventListener("click", (event) => {
      const info = event.target.closest("[data-row]");
      if (info) this.app.go({ row: info.dataset.row, verdict: "all" }, { quietly: true });
    });
    return figure;
  }

  columns(result) {
    return Object.keys(result.variables).filter((name) => result.variables[name].values.some((row) => row.some(Number.isFinite)));
  }

  list(result, shown) {
    const columns = this.columns(result);
    const chosen = this.row(this.heads(result));
    const rows = shown.slice(0, MOST).map((one) =>
      el(
        "tr",
        { class: one.layer === chosen?.layer && one.head === chosen?.head ? "on" : "", data: { row: headName(one.layer, one.head) }, on: { click: () => this.app.go({ row: headName(one.layer, one.head) }, { quietly: true }) } },
        el("th", { scope: "row" }, el("button", { class: "plain", type: "button" }, el("b", {}, headName(one.layer, one.head)))),
        el("td", { class: "left" }, chip(one.verdict, meaning(result, one))),
        el("td", {}, fixed(one.change, 3)),
        columns.map((name) => el("td", {}, barOf(name, result.variables[name].values[one.layer][one.head]), valueOf(name, result.variables[name].values[one.layer][one.head]))),
      ),
    );
    const head = columns.map((name) => el("th", { scope: "col", data: { tip: result.variables[name].statement } }, title(name), mark("estimate", `${result.variables[name].statement}\n${HOW}`, { focus: false })));
    const table = el("table", { class: "compared" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "head"), el("th", { scope: "col", class: "left" }, "verdict"), el("th", { scope: "col", "aria-sort": "descending", data: { tip: CHANGE } }, "change"), head)), el("tbody", {}, rows));
    table.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const at = rows.indexOf(event.target.closest("tr"));
      if (!step || at < 0) return;
      event.preventDefault();
      rows[Math.max(0, Math.min(rows.length - 1, at + step))].querySelector("button").focus();
    });
    return [el("div", { class: "scroll" }, table), shown.length > MOST ? el("p", { class: "sub" }, `${shown.length - MOST} more, less changed than these.`) : null];
  }

  row(all) {
    const info = /^L(\d+) H(\d+)$/.exec(this.app.state.row);
    return (info && all.find((one) => one.layer === +info[1] && one.head === +info[2])) || all[0];
  }

  chosen(result) {
    const one = this.row(this.heads(result));
    if (!one) return void fill(this.rail);
    const maps = ["base", "tuned", "difference"].map((name) => el("canvas", { class: "thumb", role: "img", "aria-label": name }));
    const figures = ["base", "tuned", "difference"].map((name, at) => {
      const open = name === "difference" ? null : () => this.app.go({ view: "head", model: this.pair[name], layer: one.layer, head: one.head, zoom: "" });
      return el("figure", {}, open ? el("button", { type: "button", class: "plain", "aria-label": `open in ${name}`, on: { click: open } }, maps[at]) : maps[at], el("figcaption", {}, name));
    });
    const trouble = el("div");
    fill(
      this.rail,
      el("div", { class: "chosen-head" }, el("h2", { class: "title" }, headName(one.layer, one.head)), chip(one.verdict, meaning(result, one))),
      el("p", { class: "quiet" }, sentence(meaning(result, one)), result.evidence?.[one.layer]?.[one.head] ? ` (${result.evidence[one.layer][one.head]})` : "", "."),
      (this.three = el("div", { class: "three" }, figures)),
      trouble,
      rampBar(this.app.theme, { low: "less", high: "more weight", kind: "diverging" }),
      el("div", { class: "section" }, headed("All heads"), this.scatter(result, one)),
      el("div", { class: "section" }, headed("How the verdict is reached"), this.columns(result).map((name) => el("div", { class: "stat plain", data: { tip: result.variables[name].statement } }, el("span", { class: "name" }, el("span", {}, title(name))), el("span", { class: "value number" }, valueOf(name, result.variables[name].values[one.layer][one.head]), mark("estimate", HOW))))),
    );
    this.maps(one, maps, trouble);
  }

  /** Gain against how far the pattern has turned; the bars of the verdicts dashed. */
  scatter(result, chosen) {
    const [width, height, left, bottom] = [296, 180, 34, 30];
    const points = this.heads(result).map((one) => ({ ...one, gain: result.variables.gain?.values[one.layer][one.head], turned: 1 - result.variables.qk?.values[one.layer][one.head] })).filter((one) => one.gain >= 0 && Number.isFinite(one.turned));
    const [silent, gains] = [points.some((one) => one.gain < SILENT), points.map((one) => one.gain).filter((gain) => gain >= SILENT)];
    const log = scaleLog().base(2).domain([Math.min(0.5, ...gains), Math.max(2, ...gains)]).range([silent ? left + 32 : left, width - 12]);
    const across = (gain) => (gain < SILENT ? left + 8 : log(gain)); // what says nothing has a place of its own, left of the scale
    const rise = scaleLinear().domain([0, Math.max(0.2, ...points.map((one) => one.turned))]).nice().range([height - bottom, 22]);
    const limits = ["muted", "amplified"].map((name) => result.thresholds[name]).filter(Boolean);
    return svg(
      "svg",
      { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "all heads: gain through W_O against one minus the cosine of QK" },
      rise.ticks(4).map((tick) => [svg("path", { class: "tick", d: `M${left} ${rise(tick)}H${width - 12}` }), svg("text", { x: left - 6, y: rise(tick) + 4, "text-anchor": "end" }, String(tick))]),
      silent ? svg("text", { x: across(0), y: height - bottom + 14, "text-anchor": "middle" }, "0") : null,
      log.ticks(4).map((tick) => svg("text", { x: across(tick), y: height - bottom + 14, "text-anchor": "middle" }, tick < 1 ? `1/${Math.round(1 / tick)}` : String(Math.round(tick)))),
      limits.map((limit) => svg("path", { class: "limit-line", d: `M${across(limit)} 22V${height - bottom}` })),
      points.map((one) => (one.verdict === "unchanged" ? svg("circle", { class: "still", cx: across(one.gain), cy: rise(one.turned), r: 1.8 }) : svg("g", { class: `verdict-icon${one.layer === chosen.layer && one.head === chosen.head ? " on" : ""}`, transform: `translate(${across(one.gain) - 6},${rise(one.turned) - 6})` }, svg("rect", { class: "under-icon", x: -2, y: -2, width: 16, height: 16, rx: 3 }), svg("path", { d: SHAPES[one.verdict] ?? SHAPES.unchanged })))),
      svg("text", { x: 0, y: 8 }, "↑ 1 − cosine of QK"),
      svg("text", { x: width - 12, y: height - 2, "text-anchor": "end" }, "gain through W_O →"),
    );
  }

  /** The same text through both models. */
  async maps(one, canvases, trouble) {
    const { client, theme } = this.app;
    const { base, tuned } = this.pair;
    const text = this.result?.text ?? this.app.chosenText();
    const key = (this.mapsOf = `${base} ${tuned} ${one.layer} ${one.head}`);
    try {
      const both = [];
      for (const model of [base, tuned]) {
        const run = await client.ask("POST", "/api/runs", { session: client.session, model, text });
        both.push((await client.ask("GET", `/api/runs/${run.id}/weights/${one.layer}/${one.head}?rows=0:${Math.min(64, run.parts[0].queries)}&keys=0:${Math.min(64, run.parts[0].keys)}`)).arrays.weights);
      }
      if (this.mapsOf !== key) return;
      both.forEach(({ data, shape }, at) => paintCodes(canvases[at], coded(data), shape[0], shape[1], theme, "sqrt"));
      paintDifference(canvases[2], ...both, theme);
      this.three.dataset.drawn = "";
    } catch (failure) {
      if (this.mapsOf === key) fill(trouble, failureNote(failure));
    }
  }

  moved(state, before) {
    if (["base", "tuned", "verdict", "row"].some((name) => state[name] !== before[name])) this.draw();
  }

  changed(what) {
    if (what === "models" && this.awaited && this.awaited === `${this.pair.base} ${this.pair.tuned}` && ["base", "tuned"].every((name) => this.app.client.model(this.pair[name])?.state === "ready")) return void this.start();
    if (what === "models" && !this.result) this.begin();
    if (["job", "compared", "theme"].includes(what)) this.draw();
  }
}

const title = (name) => (name === "gain" ? ["gain through ", wo()] : (TITLES[name] ?? name.replaceAll("_", " ")));

/** How far a head is from as it was: the largest of what its numbers say. */
function changeOf(result, layer, head) {
  const value = (name) => result.variables[name]?.values[layer]?.[head];
  const off = [value("gain"), value("size")].filter(Number.isFinite).map((ratio) => Math.min(1, Math.abs(ratio - 1)));
  const turned = [value("qk"), value("ov")].filter(Number.isFinite).map((cosine) => 1 - cosine);
  return Math.max(0, ...off, ...turned);
}

/** A bar that begins where nothing has changed. */
function barOf(name, value) {
  if (!(name in BARS) || !Number.isFinite(value)) return null;
  const share = BARS[name] === "log" ? Math.max(-1, Math.min(1, Math.log2(Math.max(value, 1e-6)) / 3)) : Math.min(1, 1 - value);
  const long = Math.abs(share) * (BARS[name] === "log" ? 24 : 48);
  const left = BARS[name] === "log" ? (share < 0 ? 24 - long : 24) : 0;
  return el("span", { class: `change-bar${BARS[name] === "log" ? " centred" : ""}` }, el("i", { class: BARS[name] === "log" ? (share < 0 ? "less" : "more") : "", style: { left: `${left}px`, width: `${Math.max(long, 0.5)}px` } }));
}

const sentence = (words) => words && words[0].toUpperCase() + words.slice(1);
const valueOf = (name, value) => (name === "twin" ? (value >= 0 ? `H${value}` : "–") : fixed(value, Math.abs(value) < 0.01 && value !== 0 ? 4 : 3));

function paintDifference(canvas, base, tuned, theme) {
  const [rows, columns] = base.shape;
  [canvas.width, canvas.height] = [columns, rows];
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const colours = table(theme, "diverging");
  for (let at = 0; at < base.data.length; at++) {
    if (base.data[at] < 0) continue;
    const [r, g, b] = colours[place((Math.max(-1, Math.min(1, 1.6 * (tuned.data[at] - base.data[at]))) + 1) / 2)];
    image.data.set([r, g, b, 255], 4 * at);
  }
  context.putImageData(image, 0, 0);
}

function paperInk(share, theme) {
  const [r, g, b] = table(theme, "sequential")[place(share)];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 120 ? "#0d0f12" : "#ffffff";
}
