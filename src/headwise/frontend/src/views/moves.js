/** Five moves: the 3 × 4 example. Blue keeps the invariants, red attacks them, every number shows how it was computed. */

import { el, fill, focusedData, svg } from "../dom.js";
import { fixed, scientific } from "../format.js";
import { mark, sign } from "../marks.js";
import { explain, columnIn, rowIn, valueOf } from "../parts/formulas.js";
import { matrix } from "../parts/matrix.js";
import { failureNote, segmented, stage, waiting, wo } from "../parts/notes.js";
import { sizePanel } from "../parts/layer-cost.js";

const CODES = ["M1", "M2", "M3", "M4", "M5"];
const TITLES = {
  M1: () => ["The heads’ widths add up to M"],
  M2: () => ["Every row of weights is a softmax"],
  M3: () => ["concat · ", wo(), " = Σ of each head through its rows"],
  M4: () => ["With one head it is single-head attention"],
  M5: () => ["Heads read different slices"],
};

export function moves(app) {
  const node = el("div", { class: "columns" });
  const view = { node, data: null, ...parts(app) };
  const draw = () => drawn(app, view);
  app.client
    .ask("GET", "/api/moves")
    .then((data) => ((view.data = data), draw(), app.header()))
    .catch((failure) => fill(node, el("div", { class: "centre" }, failureNote(failure))));
  fill(node, el("div", { class: "centre" }, waiting("Loading the example…")));
  return {
    node,
    states: () => (view.data ? Object.fromEntries(CODES.map((code) => [code, shownCase(app, view).verdicts[code].state])) : { waiting: "five moves" }),
    moved(state, before) {
      if (!view.data) return;
      if (["h", "attack"].some((name) => state[name] !== before[name])) draw();
      else if (state.pin !== before.pin) pointed(app, view, null);
      if (["width", "heads", "kv", "length"].some((name) => state[name] !== before[name])) view.size.draw();
    },
    changed: (what) => what === "theme" && view.data && draw(),
  };
}

const parts = (app) => ({ size: sizePanel(app) });

/** The number of heads and the attack of the address, where there are such. */
function chosen(app, { data }) {
  const h = data.heads.includes(app.state.h) ? app.state.h : data.heads[1];
  const attack = data.cases[h][app.state.attack] ? app.state.attack : "";
  return { h, attack };
}

function shownCase(app, view) {
  const { h, attack } = chosen(app, view);
  return view.data.cases[h][attack];
}

function drawn(app, view) {
  const { h, attack } = chosen(app, view);
  const found = view.data.cases[h][attack];
  const focused = focusedData(view.node).keep;
  view.formula = el("div", { class: "formula", "aria-live": "polite" });
  const centre = el("div", { class: "centre" }, titled(app, view, h), view.formula, pipe(app, view, found), view.size.node);
  fill(view.node, blue(view, found, h, attack), centre, red(app, view, h, attack));
  if (focused) view.node.querySelector(`[data-keep="${focused}"]`)?.focus();
  pointed(app, view, null);
}

function titled(app, { data }, h) {
  const choices = data.heads.map((one) => [one, `h = ${one}`, { data: { value: one, keep: `h${one}` } }]);
  return el(
    "div",
    { class: "view-head" },
    el("h1", { class: "title" }, "Five moves"),
    el("span", { class: "sub" }, "3 tokens, width 4. Point at any number to see how it was computed."),
    el("span", { class: "grow" }),
    el("span", { class: "sub" }, "heads"),
    segmented("number of heads", choices, h, (one) => app.go({ h: one, pin: "" })),
  );
}

// Blue: what holds

function blue(view, found, h, attack) {
  const fallen = CODES.filter((code) => found.verdicts[code].state === "falls");
  const list = view.data.moves.map((move) => verdictLine(move, found.verdicts[move.code]));
  return el(
    "aside",
    { class: "rail blue", "aria-label": "blue team" },
    el("div", { class: "team" }, "Blue team ", el("span", {}, "five invariants, live")),
    shield(fallen, found),
    el("ul", { class: "proof" }, list),
    el("h2", { class: "witness-title" }, "Witness ", el("span", { class: "sub" }, "by another route")),
    witnessTable(view, h, attack),
  );
}

function shield(fallen, found) {
  const falls = fallen.length > 0;
  const vacuous = CODES.filter((code) => found.verdicts[code].state === "vacuous");
  const all = vacuous.length ? `Four hold, ${vacuous.join(", ")} is vacuous` : "All five hold";
  const shape = svg(
    "svg",
    { width: 28, height: 32, viewBox: "0 0 28 32", "aria-hidden": "true" },
    svg("path", { d: "M14 2 25.5 6v9.5c0 7-5 11.6-11.5 14.2C7.5 27.1 2.5 22.5 2.5 15.5V6z" }),
    svg("path", { d: falls ? "m10 11.5 8 8m0-8-8 8" : "m9 15.5 4 4 6.5-7.5" }),
  );
  const words = falls ? `${fallen.join(", ")} ${fallen.length > 1 ? "fall" : "falls"}` : all;
  const sub = falls ? "The witness recomputed it and disagrees." : "Recomputed by another route and proved in ball arithmetic.";
  return el("div", { class: `shield${falls ? " falls" : ""}`, role: "status" }, shape, el("div", {}, words, el("small", {}, sub)));
}

function verdictLine(move, verdict) {
  const falls = verdict.state === "falls";
  const [what, bound] = describeVerdict(verdict);
  const kind = verdict.state === "holds" ? "bound" : falls ? "fails" : "refused";
  const shownMark =
    verdict.state === "vacuous" ? el("span", { class: "mark vacuous", role: "img", "aria-label": "vacuous", data: { tip: `Vacuous: ${verdict.says}` }, tabindex: 0 }, "–") : mark(kind, `${move.formula}\n${verdict.says}`);
  return el(
    "li",
    { class: falls ? "falls" : "", data: { move: move.code, state: verdict.state } },
    el("div", { class: "statement" }, el("span", { class: "code" }, move.code), el("span", { class: "words", data: { tip: move.statement } }, TITLES[move.code]()), shownMark),
    el("div", { class: "beneath sub" }, what, bound && el("div", { class: "bound-line" }, bound)),
  );
}

/** What was compared, and the proved bound in words. */
function describeVerdict(verdict) {
  if (verdict.state === "vacuous") return [verdict.says, null];
  const [, what, relation] = /^(.*): difference ([≤≥])/.exec(verdict.says) ?? [null, verdict.says, ""];
  const bound = verdict.bound === null ? null : Number(verdict.bound);
  if (!bound) return [`${what}${relation === "≤" ? ", exact" : ""}`, null];
  return [what, [el("b", {}, "difference"), ` ${relation} ${scientific(bound)} `, el("span", { class: "quiet" }, "certified")]];
}

function witnessTable({ data }, h, attack) {
  const body = data.heads.map((one) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", class: one === h ? "on" : "" }, `h = ${one}`),
      CODES.map((code) => {
        const { state, says } = data.cases[one][attack].witness[code];
        const shown = state === "vacuous" ? "–" : sign(state === "falls" ? "fails" : "equal");
        return el("td", {}, el("span", { class: `witnessed ${state}`, role: "img", "aria-label": `${code} ${state}`, data: { tip: `${code} ${state}\n${says}` } }, shown));
      }),
    ),
  );
  return el("table", { class: "witness", "aria-label": "the witness" }, el("thead", {}, el("tr", {}, el("td", {}), CODES.map((code) => el("th", { scope: "col" }, code)))), el("tbody", {}, body));
}

// Red: attacks

function red(app, { data }, h, attack) {
  const last = (one) => Math.max(0, ...one.caught_by.map((code) => +code.slice(1)));
  const sorted = [...data.attacks].sort((a, b) => last(b) - last(a) || a.caught_by.length - b.caught_by.length);
  const cards = sorted.map((one) => {
    const breaks = one.breaks[h];
    const pressed = one.name === attack;
    const title = one.name.replaceAll("_", " ");
    const effect = breaks.length ? `breaks ${breaks.join(", ")}` : `harmless here: ${one.harmless_when}`;
    return el(
      "button",
      {
        class: "attack",
        type: "button",
        "aria-pressed": String(pressed),
        data: { attack: one.name, keep: `attack-${one.name}`, ...(one.seen_in ? { tip: `Seen in ${one.seen_in}` } : {}) },
        on: { click: () => app.go({ attack: pressed ? "" : one.name, pin: "" }) },
      },
      el("b", {}, title[0].toUpperCase() + title.slice(1)),
      el("span", { class: "description" }, `“${one.description}”`),
      el("span", { class: "broken-moves", role: "img", "aria-label": effect }, CODES.map((code) => el("i", { class: breaks.includes(code) ? "falls" : "" }, code))),
      breaks.length ? null : el("span", { class: "description" }, effect[0].toUpperCase() + effect.slice(1)),
    );
  });
  return el(
    "aside",
    { class: "rail red", "aria-label": "red team" },
    el("div", { class: "team attacks" }, "Red team ", el("span", {}, "break it")),
    cards,
    el("p", { class: "sub" }, `Struck through: the moves that fall at h = ${h}. Each attack changes one step; all other steps stay as they are.`),
  );
}

// Centre: the pipe

function pipe(app, view, found) {
  const { matrices: m, maps } = found;
  const make = (id, name, after, rows, kind, extra = {}) =>
    matrix({
      id,
      name,
      after,
      rows,
      kind,
      reach: view.reach ?? reachOf(m),
      theme: app.theme,
      point: (at, i, j) => pointed(app, view, at === null ? null : `${at}:${i},${j}`),
      choose: (at, i, j) => app.go({ pin: app.state.pin === `${at}:${i},${j}` ? "" : `${at}:${i},${j}` }, { quietly: true }),
      ...extra,
    });
  const size = (rows) => `${rows.length} × ${rows[0]?.length ?? 0}`;
  const op = (text) => el("span", { class: "op", "aria-hidden": "true" }, text);
  const width = m.z.map((rows) => rows[0].length);
  const readers = (name) => maps[name][0].map((_, column) => m[name].findIndex((slice) => slice[0].some((__, j) => columnIn(maps[name], slice, j) === column)));
  const none = (head) => (head < 0 ? null : head);
  const map = (name) => make(`map.${name}`, name, size(maps[name]), maps[name], "signed", name === "w_o" ? { beside: writers(m, maps) } : { above: readers(name).map(none) });

  const first = stage(
    1,
    "Input and slices",
    el("span", { class: "sub" }, `M1: ${width.join(" + ")} = ${width.reduce((a, b) => a + b)} of 4. `, verdictMark(found, "M1"), " Colour above a column: the head that reads it."),
    el("div", { class: "matrices" }, make("x", "x", size(m.x), m.x, "signed"), op("·"), map("w_q"), map("w_k"), map("w_v")),
  );
  const lanes = m.weights.map((_, head) => lane(make, op, found, head));
  const second = stage(2, "Each head attends", el("span", { class: "sub" }, `M2: weights = softmax(q · kᵀ ÷ √${width[0]}) `, verdictMark(found, "M2"), ", z = weights · v"), lanes);
  const owner = width.flatMap((columns, head) => Array(columns).fill(head));
  const third = stage(
    3,
    ["Concat → ", wo(), " → output"],
    el("span", { class: "sub" }, "M3: the same as adding each head through its own rows ", verdictMark(found, "M3")),
    el("div", { class: "matrices" }, make("concat", "concat", size(m.concat), m.concat, "signed", { above: owner }), op("·"), map("w_o"), op("="), make("out", "out", size(m.out), m.out, "signed")),
    el(
      "div",
      { class: "matrices" },
      m.writes.flatMap((rows, head) => [head ? op("+") : null, make(`writes.${head}`, "writes", [el("i", { class: `swatch of-head${head % 4}` }), ` of head ${head}`], rows, "signed")]),
      el("span", { class: "op" }, found.verdicts.M3.state === "falls" ? "≠ out " : "= out ", verdictMark(found, "M3")),
    ),
  );
  return [first, second, third];
}

const writers = (m, maps) => maps.w_o.map((_, row) => {
  const head = m.w_o.findIndex((slice) => slice.some((__, e) => rowIn(maps.w_o, slice, e) === row));
  return head < 0 ? null : head;
});

function lane(make, op, found, head) {
  const { matrices: m, maps } = found;
  const read = m.w_q[head][0].map((_, j) => columnIn(maps.w_q, m.w_q[head], j));
  const own = m.w_q.findIndex((slice) => JSON.stringify(slice) === JSON.stringify(m.w_q[head]));
  const note = own !== head ? `reads the slices of head ${own}` : `reads ${read.length > 1 ? "columns" : "column"} ${read.join(", ")}`;
  const one = (name, kind = "signed") => make(`${name}.${head}`, name, "", m[name][head], kind);
  return el(
    "div",
    { class: `lane of-head${head % 4}` },
    el("div", { class: "lane-head" }, el("b", {}, `Head ${head}`), el("span", {}, note)),
    el("div", { class: "matrices" }, one("q"), one("k"), one("scores"), op("→"), one("weights", "weights"), op("·"), one("v"), op("="), one("z")),
  );
}

function verdictMark(found, code) {
  const { state, says } = found.verdicts[code];
  return state === "vacuous" ? null : mark(state === "holds" ? "bound" : "fails", `${code}: ${says}`);
}

/** One reach for all colours, so that the same colour is the same number everywhere. */
function reachOf(m) {
  const numbers = [...Object.values(m)].flat(Infinity).map(Math.abs);
  return Math.max(3, Math.min(6, numbers.sort((a, b) => a - b)[Math.floor(numbers.length * 0.97)]));
}

/** Frame a number and its sources, and write its formula. Without one: the pinned number, else out[1,2]. */
function pointed(app, view, at) {
  const found = shownCase(app, view);
  const cell = at ?? (app.state.pin || "out:1,2");
  const [id, place] = cell.split(":");
  const [i, j] = (place ?? "").split(",").map(Number);
  const known = valueOf(found, id, i, j) !== undefined ? explain(found, id, i, j) : null;
  for (const cell of view.node.querySelectorAll(".matrix .source, .matrix .here")) cell.classList.remove("source", "here");
  if (!known) return void fill(view.formula, el("div", { class: "sub" }, "Point at a number."));
  cellAt(view, cell)?.classList.add("here");
  for (const source of known.sources) cellAt(view, source)?.classList.add("source");
  const value = fixed(known.actual, Number.isInteger(known.actual) ? 0 : 4);
  const right = known.differs ? el("span", { class: "differs" }, ` ≠ ${fixed(known.expected, 4)}: the attack gave `, el("b", {}, value)) : [" = ", el("b", {}, value)];
  fill(view.formula, el("div", { class: "sub" }, known.title, app.state.pin === cell ? " · pinned, Enter unpins" : ""), el("div", {}, known.text, right), known.note ? el("div", { class: "sub mono" }, known.note) : null);
}

function cellAt(view, cell) {
  const [id, place] = cell.split(":");
  return view.node.querySelector(`.matrix[data-id="${CSS.escape(id)}"] td[data-at="${place}"]`);
}
