/** Head: where one head looks, what it says, and what becomes of the output when it says more or less. */

import { el, fill, focusedData } from "../dom.js";
import { fixed, headName, shown } from "../format.js";
import { gauge, mark, markOf } from "../marks.js";
import { sequential, diverging } from "../ramp.js";
import { writeShares } from "../parts/write-shares.js";
import { certifiedRow } from "../parts/certified-row.js";
import { editList } from "../parts/edits.js";
import { lines } from "../parts/attention-lines.js";
import { colourShare, isSigned, reach, titleOf } from "../parts/measures.js";
import { earlierStartNote, failureNote, headed, refusalNote, waiting, wo } from "../parts/notes.js";
import { output, outputTitle } from "../parts/output-list.js";
import { rampBar } from "../parts/ramp-bar.js";
import { tokenLines, tokenTable } from "../parts/per-token.js";
import { glyph, meaningOf, roleOf, roleWord } from "../parts/roles.js";
import { ScalePanel } from "../parts/scale-panel.js";
import { shortMap } from "../parts/short-map.js";
import { roleEvidence, statistics } from "../parts/head-statistics.js";
import { paintThumb } from "../parts/thumbnail.js";
import { runMark, shortSentence, verdictOf, verdictWords } from "../parts/verdicts.js";
import { Zoom } from "../parts/zoom.js";
import { SCALES } from "../ramp.js";

const SHORT = 24;
const HOLDS = { passes: true, fails: false, refused: null };

export function head(app) {
  const view = new HeadView(app);
  return { node: view.node, shown: () => view.refresh(), moved: (state, before) => view.moved(state, before), changed: (what) => view.changed(what), close: () => view.close() };
}

class HeadView {
  constructor(app) {
    this.app = app;
    this.known = el("div");
    this.blue = el("aside", { class: "rail blue", "aria-label": "blue team" }, el("div", { class: "team" }, "Blue team ", el("span", {}, "what is known")), this.known);
    this.red = el("aside", { class: "rail red", "aria-label": "red team" });
    this.title = el("div", { class: "view-head" });
    this.body = el("div");
    this.around = el("div");
    this.node = el("div", { class: "columns" }, this.blue, el("div", { class: "centre" }, this.title, this.body, this.around), this.red);
  }

  close() {
    this.zoom?.close();
    this.panel?.close();
    this.zoom = this.panel = null;
  }

  refresh() {
    const { app } = this;
    const { client } = app;
    this.close();
    if (!client.part) {
      const failure = client.errors.get("state") ?? client.errors.get("run");
      fill(this.title);
      fill(this.known);
      fill(this.around);
      fill(this.red, el("div", { class: "team attacks" }, "Red team ", el("span", {}, "change it, watch what moves")));
      const none = app.noModelReason();
      const chosen = client.model(app.chosenModel());
      const opening = chosen?.state === "failed" ? failureNote({ message: chosen.reason }, `${chosen.name} could not be opened.`) : waiting(chosen && chosen.state !== "ready" ? `Opening ${chosen.name}…` : "Running the text…");
      return void fill(this.body, failure ? failureNote(failure) : none ? el("p", { class: "note" }, none) : opening);
    }
    this.named();
    this.left();
    this.centre();
    this.beneath();
    this.right();
  }

  named() {
    const { app } = this;
    const { client, state } = app;
    const { layer, head } = state;
    const { part } = client;
    const role = roleOf(client, layer, head);
    const step = (title, label, [a, b]) => {
      const to = [layer + a, head + b];
      const there = to[0] >= 0 && to[0] < part.layers && to[1] >= 0 && to[1] < part.heads_of[to[0]];
      return el("button", { type: "button", "aria-label": label, disabled: !there, data: { step: label }, on: { click: () => app.go({ layer: to[0], head: to[1] }) } }, title);
    };
    const steps = el("span", { class: "segmented", role: "group", "aria-label": "another head" }, step("← layer", "layer before", [-1, 0]), step("layer →", "next layer", [1, 0]), step("↑ head", "head before", [0, -1]), step("head ↓", "next head", [0, 1]));
    const focused = focusedData(this.title).step;
    const scaled = client.scaleOf(layer, head);
    fill(
      this.title,
      el("h1", { class: "title" }, `Layer ${layer} · Head ${head}`),
      el("span", { class: "chip", data: { tip: meaningOf(client, role) } }, glyph(role), roleWord(role)),
      client.run.parts.length > 1 ? el("span", { class: "chip" }, part.name) : null,
      scaled === 1 ? null : el("span", { class: "chip falls" }, scaled === 0 ? "ablated" : `× ${scaled}`),
      el("span", { class: "grow" }),
      steps,
      earlierStartNote(client),
    );
    if (focused) this.title.querySelector(`[data-step="${focused}"]:not([disabled])`)?.focus();
  }

  // Blue: what is known

  left() {
    const { app } = this;
    const { client } = app;
    const { layer } = app.state;
    const checks = ["rows", "weights", "output", "writes"].map((name) => [name, name === "writes" && client.refusal ? { name, state: "refused", sentence: client.refusal } : verdictOf(client, name, layer)]);
    const list = checks.filter(([, verdict]) => verdict).map(([name, verdict]) =>
      el(
        "li",
        { class: verdict.state === "fails" ? "falls" : "" },
        el("div", { class: "statement" }, el("span", { class: "code" }, verdict.move ?? "M3"), el("span", { class: "words" }, shortSentence(name)), mark(markOf(HOLDS[verdict.state]), verdictWords(verdict, layer))),
        verdict.state === "refused" ? null : gauge(verdict.residual, verdict.allowed, { exact: verdict.state === "passes" && !verdict.residual }),
      ),
    );
    const proof = list.length ? el("ul", { class: "proof" }, list) : client.errors.has("proof") ? failureNote(client.errors.get("proof")) : waiting("Proving…");
    fill(
      this.known,
      this.overview(),
      el("div", { class: "section" }, headed("Statistics"), statistics(app)),
      el("div", { class: "section" }, headed("Role evidence", "dashed: its threshold"), roleEvidence(app)),
      el("div", { class: "section" }, headed(`Proof, layer ${layer}`), proof),
    );
  }

  /** All heads at a glance; a click goes there. */
  overview() {
    const { app } = this;
    const { client, state, theme } = app;
    const { part } = client;
    const name = client.measure(state.colour) ? state.colour : client.importance ? "importance" : "entropy";
    const down = part.layers < part.heads;
    const [columns, rows] = down ? [part.heads, part.layers] : [part.layers, part.heads];
    const canvas = el("canvas", { class: "overview", role: "img", "aria-label": `all heads by ${titleOf(name)}` });
    const width = 204;
    const pitch = width / columns;
    const height = Math.round(Math.min(pitch, 18) * rows);
    const step = height / rows;
    const ratio = devicePixelRatio || 1;
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    canvas.style.setProperty("aspect-ratio", `${width} / ${height}`);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const ends = reach(client, name);
    const gap = pitch > 4 ? 1 : 0;
    for (let layer = 0; layer < part.layers; layer++)
      for (let head = 0; head < part.heads_of[layer]; head++) {
        const number = client.value(name, layer, head);
        context.fillStyle = Number.isNaN(number) ? "transparent" : (isSigned(name) ? diverging : sequential)(colourShare(name, number, ends), theme);
        const [x, y] = down ? [head * pitch, layer * step] : [layer * pitch, head * step];
        context.fillRect(x, y, pitch - gap, step - gap);
      }
    const [x, y] = down ? [state.head * pitch, state.layer * step] : [state.layer * pitch, state.head * step];
    context.strokeStyle = getComputedStyle(app.root).getPropertyValue("--ink");
    context.lineWidth = 2;
    context.strokeRect(x - 1, y - 1, pitch + 1, step + 1);
    canvas.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect();
      const [a, b] = [Math.floor(((event.clientX - box.left) / box.width) * columns), Math.floor(((event.clientY - box.top) / box.height) * rows)];
      const [layer, head] = down ? [b, a] : [a, b];
      if (head < part.heads_of[layer]) app.go({ layer, head });
    });
    return el("div", {}, el("div", { class: "sub across" }, el("span", {}, `all heads, by ${titleOf(name)}`), el("span", {}, down ? "layer ↓" : "layer →")), canvas);
  }

  // Centre: the map

  centre() {
    const { app } = this;
    const { client } = app;
    const { part } = client;
    if (part.queries > SHORT || part.keys > SHORT) return this.long();
    return this.short();
  }

  async short() {
    const { app } = this;
    const { client, state } = app;
    const { layer, head } = state;
    const key = (this.shownOf = `${client.run.id} ${client.part.name} ${layer} ${head}`);
    try {
      const [weights, perToken] = await Promise.all([client.weights(layer, head), client.head(layer, head)]);
      if (this.shownOf !== key) return;
      this.drawShort(weights, perToken.arrays);
    } catch (failure) {
      if (this.shownOf === key) fill(this.body, failureNote(failure));
    }
  }

  drawShort(weights, arrays) {
    this.lines = null;
    const { app } = this;
    const { client, state, theme } = app;
    const { part } = client;
    const { layer } = state;
    const point = (token) => this.lit(token ?? app.state.token);
    const choose = (token) => app.go({ token: token === app.state.token ? null : token }, { quietly: true });
    this.flow = lines(part, weights, { point, choose, lit: state.token });
    const value = el("p", { class: "sub cell-value", "aria-live": "polite" }, "Point at a cell for its exact value. A row and its sink add up to 1 ", runMark(client, "rows", layer));
    const certified = (this.certified = certifiedRow(app));
    const readout = (i, j, weight) => {
      certified.look(i);
      fill(value, el("b", {}, shown(part.query_tokens[i]).trim()), " → ", el("b", {}, shown(part.key_tokens[j]).trim()), "  ", el("span", { class: "exact", data: { value: String(weight), query: i, key: j } }, weight < 0 ? "hidden by the mask" : fixed(weight, 6)), runMark(client, "weights", layer));
    };
    certified.look(Math.min(state.token ?? part.queries - 1, part.queries - 1));
    this.map = shortMap(app, weights, { readout, lit: state.token });
    this.table = tokenTable(part, arrays, { lit: state.token, point, choose });
    fill(
      this.body,
      el(
        "div",
        { class: "pair" },
        el("div", { class: "panel" }, el("div", { class: "panel-head" }, el("h2", {}, "From → to"), el("span", { class: "sub" }, "hover over or choose a query")), this.flow),
        el("div", { class: "panel" }, el("div", { class: "panel-head" }, el("h2", {}, "Weights"), rampBar(theme, { high: "1, √", of: SCALES.sqrt })), this.map, value, certified),
      ),
      el("div", { class: "panel" }, el("div", { class: "panel-head" }, el("h2", {}, "Each query token"), el("span", { class: "sub" }, "all columns ", runMark(client, "statistics", layer))), this.table),
    );
  }

  lit(token) {
    this.flow?.lit(token);
    this.map?.lit(token);
    if (this.map && token !== null && token < this.app.client.part.queries) this.certified.look(token);
    this.table?.lit(token);
  }

  long() {
    const { app } = this;
    const { client, state } = app;
    const { layer, head } = state;
    this.flow = this.map = this.table = this.lines = null;
    const key = (this.shownOf = `${client.run.id} ${client.part.name} ${layer} ${head}`);
    this.zoom = new Zoom(app);
    const beneath = el("div", { class: "panel" }, waiting("Loading statistics of each token…"));
    fill(this.body, this.zoom.node, beneath);
    this.zoom.open();
    client.head(layer, head).then(
      ({ arrays }) => {
        if (this.shownOf !== key) return;
        this.lines = tokenLines(app, client.part, arrays, { lit: () => app.state.token, choose: (token) => app.go({ token }, { quietly: true }) });
        this.linesHead = el("div", { class: "panel-head" });
        this.linesTitle();
        fill(beneath, this.linesHead, this.lines);
      },
      (failure) => this.shownOf === key && fill(beneath, failureNote(failure)),
    );
  }

  linesTitle() {
    const { client, state } = this.app;
    fill(this.linesHead, el("h2", {}, "Each query token"), el("span", { class: "sub" }, "the line marks the chosen one ", runMark(client, "statistics", state.layer)));
  }

  /** What it shares and what it writes. */
  beneath() {
    const { app } = this;
    const { client, state } = app;
    const { layer, head } = state;
    const { part } = client;
    const group = part.heads_of[layer] / part.key_heads_of[layer];
    const kv = client.keyHead(layer, head);
    const writes = client.refusal ? refusalNote(client.refusal) : client.writes ? writeShares(app, (_, one) => app.go({ head: one })) : waiting("Computing what heads write…");
    const reads =
      group > 1
        ? [el("div", { class: "siblings" }, Array.from({ length: group }, (_, at) => this.sibling(layer, kv * group + at))), el("p", { class: "sub" }, `Ablating z changes H${head} only. Removing its K or V would change all ${group}.`)]
        : el("p", { class: "sub" }, `${part.heads_of[layer]} query heads, ${part.key_heads_of[layer]} key/value heads: nothing is shared.`);
    fill(
      this.around,
      el(
        "div",
        { class: "pair after" },
        el("div", { class: "panel" }, el("div", { class: "panel-head" }, el("h2", {}, "Reads"), el("span", { class: "sub" }, group > 1 ? `kv ${kv}: one K and V for ${group} heads` : "its own K and V")), reads),
        el("div", { class: "panel" }, el("div", { class: "panel-head" }, el("h2", {}, "Writes through ", wo()), el("span", { class: "sub" }, `share of layer ${layer}${client.edits?.edits.length ? ", as loaded" : ""} `, runMark(client, "writes", layer))), writes),
      ),
    );
  }

  sibling(layer, head) {
    const { app } = this;
    const canvas = el("canvas", { class: "thumb", "aria-hidden": "true" });
    if (app.client.thumbnails?.layersThere > layer) paintThumb(canvas, app.client.thumbnails, layer, head, app.theme, "sqrt");
    const me = head === app.state.head;
    return el("figure", { class: me ? "me" : "" }, el("button", { type: "button", "aria-label": headName(layer, head), "aria-current": me ? "true" : null, on: { click: () => app.go({ head }) } }, canvas), el("figcaption", {}, `H${head} ${roleWord(roleOf(app.client, layer, head))}`));
  }

  // Red

  right() {
    const { app } = this;
    const { client } = app;
    const top = el("div", { class: "team attacks" }, "Red team ", el("span", {}, "change it, watch what moves"));
    if (client.transport.recorded || !client.can("edit")) {
      const why = client.transport.recorded ? "A saved file shows the model as it was loaded. Open it with headwise serve to ablate heads." : "This installation cannot edit.";
      const { kind } = client.run.output;
      return void fill(this.red, top, el("p", { class: "note" }, why), el("div", { class: "section" }, headed("Output", `${outputTitle(kind)}, as loaded`), output(client.run, () => runMark(client, "model", null, { focus: false }), { one: true })));
    }
    this.panel?.close();
    this.panel = new ScalePanel(app);
    this.edits = editList(app);
    fill(this.red, top, this.panel.node, this.edits.node);
    this.panel.refresh();
  }

  /** Every mark may now say what stands behind its number. */
  proved() {
    this.beneath();
    if (this.panel) this.panel.refresh();
    else this.right();
    if (!this.zoom) return void this.short();
    this.zoom.read();
    if (this.lines) this.linesTitle();
  }

  // What changed

  moved(state, before) {
    const changed = (...names) => names.some((name) => state[name] !== before[name]);
    if (!this.app.client.part) return;
    if (changed("layer", "head")) {
      this.zoom?.close();
      this.zoom = null;
      this.named();
      this.left();
      this.centre();
      this.beneath();
      this.panel?.refresh();
      return;
    }
    if (changed("scale")) this.zoom?.recolour();
    if (changed("token", "key")) {
      this.lit(state.token);
      this.lines?.lit(state.token);
      if (this.zoom && state.token !== null) this.zoom.move(state.token, state.key ?? this.zoom.cursor[1]);
    }
  }

  changed(what) {
    const { client } = this.app;
    if (what === "theme") return client.part && this.refresh();
    if (what === "run" || what === "models" || what === "reading" || !client.part) return what === "run" || !client.part || !this.shownOf ? this.refresh() : undefined;
    if (what === "edits") return void (this.named(), this.left(), this.beneath(), this.edits?.draw(), this.panel?.refresh());
    if (what === "thumbnails" || what === "writes") this.beneath();
    if (["grid", "writes", "proof", "roles", "importance"].includes(what)) {
      this.named();
      this.left();
    }
    if (what === "proof") this.proved();
  }
}
