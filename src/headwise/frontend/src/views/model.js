/** Model: a text goes in, all heads attend, W_O joins them, the output comes out. Blue proves the run, red attacks the chosen head. */

import { el, fill, focusedData } from "../dom.js";
import { counted, headName, scientific } from "../format.js";
import { gauge, mark, markOf } from "../marks.js";
import { writeShares } from "../parts/write-shares.js";
import { editList, CANNOT_WRITE } from "../parts/edits.js";
import { MEASURED, effectLines } from "../parts/effect.js";
import { finder } from "../parts/head-filter.js";
import { Grid, barsOf } from "../parts/grid.js";
import { isSigned, measuresOf, reach, scaleWord, titleOf, valueText } from "../parts/measures.js";
import { earlierStartNote, failureNote, progress, refusalNote, segmented, stage, waiting, wo } from "../parts/notes.js";
import { output, outputTitle } from "../parts/output-list.js";
import { rampBar } from "../parts/ramp-bar.js";
import { glyph, meaningOf, roleOf, roleWord, allRolesTested } from "../parts/roles.js";
import { statistics } from "../parts/head-statistics.js";
import { paintThumb } from "../parts/thumbnail.js";
import { tokenList } from "../parts/tokens.js";
import { runMark, shortSentence } from "../parts/verdicts.js";
import { SCALES } from "../ramp.js";
import { smallMap } from "../parts/small-map.js";

const HOLDS = { passes: true, fails: false, refused: null };

export function model(app) {
  const view = new ModelView(app);
  return {
    node: view.node,
    shown: () => view.refresh(),
    moved: (state, before) => view.moved(state, before),
    changed: (what, detail) => view.changed(what, detail),
    close: () => view.grid.close(),
  };
}

class ModelView {
  constructor(app) {
    this.app = app;
    this.blue = el("aside", { class: "rail blue", "aria-label": "blue team" });
    this.red = el("aside", { class: "rail red", "aria-label": "the chosen head" });
    this.centre = el("div", { class: "centre" });
    this.dock = el("div", { class: "dock" });
    this.node = el("div", { class: "model-view" }, el("div", { class: "columns" }, this.blue, this.centre, this.red), this.dock);
    this.grid = new Grid(app, { choose: (layer, head) => app.go({ layer, head }, { quietly: true }), open: () => this.open() });
    this.slots = { input: el("div"), bar: el("div"), heads: el("div", { class: "sub" }), work: el("div"), found: el("p", { class: "sub found" }), ramp: el("div"), blocks: el("div"), output: el("div") };
    this.built = false;
  }

  open() {
    this.app.go({ view: "head", zoom: "" });
  }

  refresh() {
    const { client } = this.app;
    if (!client.part) return this.unready();
    if (!this.built) this.build();
    this.input();
    this.bar();
    this.heads();
    this.writes();
    this.result();
    this.proof();
    this.chosen();
  }

  /** No run yet: what is loading, or what went wrong. */
  unready() {
    const { client } = this.app;
    this.built = false;
    fill(this.centre, this.trouble() ?? waiting(client.serverState ? "Running the text…" : "Connecting to the server…"));
    fill(this.blue, el("div", { class: "team" }, "Blue team ", el("span", {}, "proof of this run")));
    fill(this.red, el("div", { class: "team attacks" }, "Red team ", el("span", {}, "attack a head")));
    fill(this.dock);
  }

  trouble() {
    const { client } = this.app;
    if (client.errors.has("state")) return failureNote(client.errors.get("state"));
    if (client.errors.has("run")) return el("div", {}, failureNote(client.errors.get("run"), "This text could not be run."), this.editor());
    const chosen = client.model(this.app.chosenModel());
    if (!chosen) return this.app.noModelReason() && el("p", { class: "note" }, this.app.noModelReason());
    if (chosen.state === "failed") return el("div", {}, failureNote({ message: chosen.reason }, `${chosen.name} could not be opened.`), this.opener(chosen, "Try again"));
    if (chosen.state === "waiting") return el("div", {}, el("p", { class: "note" }, `${chosen.name} has not been opened yet.`), this.opener(chosen, "Open it"));
    return chosen.state === "loading" ? waiting(`Opening ${chosen.name}…`) : null;
  }

  opener(chosen, title) {
    return el("button", { class: "button", type: "button", on: { click: () => this.app.client.ask("POST", `/api/models/${chosen.id}/open`).catch((failure) => fill(this.centre, failureNote(failure))) } }, title);
  }

  build() {
    this.built = true;
    const { slots } = this;
    fill(
      this.centre,
      el("h1", { class: "visually-hidden" }, "All heads of the model"),
      stage(1, "Input", [slots.tokensSub = el("span", { class: "sub" }), el("span", { class: "grow" }), this.editButton()], slots.input),
      stage(2, "Heads attend", slots.heads, slots.bar, slots.work, slots.found, this.grid.node, slots.ramp),
      stage(3, ["Concat → ", wo()], (slots.writesSub = el("span", { class: "sub" })), slots.blocks),
      stage(4, "Output", (slots.outputSub = el("span", { class: "sub" })), slots.output),
    );
  }

  // 1: the text

  editButton() {
    return this.app.client.transport.recorded ? null : el("button", { class: "button", type: "button", on: { click: () => this.edit() } }, "Edit text");
  }

  input() {
    const { client, state } = this.app;
    const { part } = client;
    if (this.editing) return;
    fill(this.slots.tokensSub, `${counted(part.queries, "token")}. Choose a token to light its row in every map.`);
    this.tokens = tokenList(part.query_tokens, state.token, (token) => this.app.go({ token: token === this.app.state.token ? null : token }, { quietly: true }));
    fill(this.slots.input, client.errors.has("run") ? failureNote(client.errors.get("run")) : null, this.tokens, earlierStartNote(client), client.run.notes.map((note) => el("p", { class: "note" }, note)));
  }

  edit() {
    this.editing = true;
    fill(this.slots.input, this.editor());
    this.slots.input.querySelector("textarea").focus();
  }

  editor() {
    const limit = this.app.client.serverState?.limits?.text_characters ?? 400000;
    const area = el("textarea", { class: "field text-field", rows: 4, "aria-label": "text", maxlength: limit, spellcheck: "false" });
    area.value = this.app.chosenText();
    const read = () => {
      const text = area.value;
      if (!text.trim()) return area.focus();
      this.editing = false;
      const known = this.app.client.serverState.texts?.find((one) => one.text === text);
      this.app.client.errors.delete("run");
      this.app.go({ text: known?.id ?? text, token: null, zoom: "" });
      if (this.built) this.input();
    };
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) read();
      else if (event.key === "Escape") (this.editing = false), this.built && this.input();
    });
    const cancel = el("button", { class: "button", type: "button", on: { click: () => ((this.editing = false), this.built && this.input()) } }, "Cancel");
    return el("div", { class: "editor" }, area, el("div", { class: "buttons" }, el("button", { class: "button primary", type: "button", on: { click: read } }, "Run"), this.built ? cancel : null, el("span", { class: "sub" }, "Ctrl ↵ runs it")));
  }

  // 2: the grid

  bar() {
    const { client, state } = this.app;
    const measures = measuresOf(client);
    const select = (name, label, choices) =>
      el("label", {}, label, el("select", { class: "field", on: { change: (event) => this.app.go({ [name]: event.target.value }, { quietly: true }) } }, choices.map(([value, title]) => el("option", { value, selected: String(state[name]) === value }, title))));
    const asked = [["importance", "importance"]].filter(([name]) => client.can(name) && !client.importance && client.mayWrite);
    const colours = [["map", "attention map"], ["role", "role"], ...measures.map((one) => [one.name, titleOf(one.name)]), ...asked];
    const orders = [["layer", "by layer"], ...measures.map((one) => [one.name, `most ${titleOf(one.name)}`]), ...measures.map((one) => [`-${one.name}`, `least ${titleOf(one.name)}`])];
    const find = el("input", { class: "field wide", type: "search", placeholder: `find: ${this.mayTestRoles ? "induction" : "sink"}  3.1  entropy<1`, value: state.find, "aria-label": "find heads", data: { find: "" }, on: { input: (event) => this.app.go({ find: event.target.value }, { quietly: true }), keydown: (event) => (event.key === "Escape" ? find.blur() : event.key === "Enter" && this.entered()) } });
    this.work();
    if (focusedData(this.centre).find === "") return;
    const parts = client.run.parts.length > 1 ? select("part", "part", client.run.parts.map((one) => [one.name, one.name])) : null;
    if (parts) parts.querySelector("select").value = client.part.name;
    const sizes = segmented("size of the heads", [["S", "S", { "aria-label": "small" }], ["M", "M", { "aria-label": "middle" }], ["L", "L", { "aria-label": "large" }]], state.size, (size) => this.app.go({ size }, { quietly: true }));
    fill(this.slots.bar, el("div", { class: "bar" }, parts, select("colour", "colour", colours), select("order", "order", orders), find, sizes));
  }

  /** Enter in the field: the one head that is left is chosen; a role that has yet to be tried is tried. */
  entered() {
    const { client, state } = this.app;
    const { pass, wanted } = finder(client, state.find);
    if (wanted.length && this.mayTestRoles) return void this.testRole(wanted[0]);
    const left = [];
    for (let layer = 0; layer < client.part.layers; layer++) for (let head = 0; head < client.part.heads_of[layer]; head++) if (pass(layer, head)) left.push({ layer, head });
    if (state.find.trim() && left.length === 1) this.app.go(left[0], { quietly: true });
  }

  get mayTestRoles() {
    const { client } = this.app;
    return client.can("roles") && client.mayWrite && client.latestJob("roles")?.state !== "running";
  }

  /** Ask all heads for one role, on texts made for it. */
  async testRole(name) {
    const { client } = this.app;
    const model = client.run.model;
    client.errors.delete("job");
    try {
      const job = await client.startJob("roles", { model, only: name }, (result) => (client.addRoleScores(model, result)));
      Object.assign(job, { only: name });
      this.heads();
    } catch (failure) {
      this.jobFailed(failure);
    }
  }

  /** Roles that were named, and must be tried before heads can be found by them. */
  offers(wanted) {
    const { client } = this.app;
    const running = client.latestJob("roles");
    return wanted.map((name) => {
      const title = roleWord(name);
      if (running?.state === "running") return el("span", {}, running.only === name ? `testing every head for ${title}` : `${title} can be tested when the job above is done`);
      if (!client.can("roles") || !client.mayWrite) return el("span", {}, `“${title}” is tested on texts made for it. ${CANNOT_WRITE} Or run `, el("code", {}, `headwise roles MODEL --role ${name}`));
      return el("span", {}, `“${title}” is tested on texts made for it: `, el("button", { class: "button small", type: "button", data: { tip: client.testableRoles.find((one) => one.name === name)?.statement }, on: { click: () => this.testRole(name) } }, `Test every head for ${title}`));
    });
  }

  /** Long work that was asked for: its progress, and what became of it. */
  work() {
    const { client, state } = this.app;
    const wanted = ["importance", "roles"].map((kind) => client.latestJob(kind)).filter((job) => job && (job.state === "running" || job.error));
    const shown = wanted.map((job) => (job.state === "running" ? this.bars(job) : failureNote(job.error, `${job.kind} failed.`)));
    if (state.colour === "role" && !allRolesTested(client) && this.mayTestRoles) {
      shown.push(el("p", { class: "note" }, "Roles from the statistics of this text only. ", el("button", { class: "button small", type: "button", on: { click: () => this.tryRoles() } }, "Test all roles on made-up texts")));
    }
    if (client.errors.has("job")) shown.push(failureNote(client.errors.get("job")));
    const { children } = this.slots.work;
    if (shown.length !== children.length || shown.some((node, at) => node !== children[at])) fill(this.slots.work, shown);
  }

  /** The progress of a job; its button stays where it is. */
  bars(job) {
    const { client } = this.app;
    if (this.shownBar?.of === job.id) this.shownBar.node.update(job);
    else this.shownBar = { of: job.id, node: progress(job, () => client.cancel(job)) };
    return this.shownBar.node;
  }

  tryRoles() {
    const { client } = this.app;
    const model = client.run.model;
    client.startJob("roles", { model }, (result) => client.addRoleScores(model, result)).catch((failure) => this.jobFailed(failure));
  }

  importance() {
    const { client } = this.app;
    const { run, part } = client;
    if (client.latestJob("importance")?.state === "running" || client.importance) return;
    client
      .startJob("importance", { run: run.id, part: part.name }, (result) => {
        if (client.run !== run || client.part !== part) return;
        client.importance = { data: Float32Array.from(Array.from({ length: part.layers * part.heads }, (_, at) => result.values[Math.floor(at / part.heads)][at % part.heads] ?? NaN)), unit: result.unit };
        client.notify("importance");
      })
      .catch((failure) => this.jobFailed(failure));
  }

  jobFailed(failure) {
    this.app.client.errors.set("job", failure);
    this.work();
  }

  heads() {
    const { client, state } = this.app;
    const { part } = client;
    const { pass, errors, wanted } = finder(client, state.find);
    let shown = 0;
    const all = part.heads_of.reduce((sum, count) => sum + count, 0);
    for (let layer = 0; layer < part.layers; layer++) for (let head = 0; head < part.heads_of[layer]; head++) shown += pass(layer, head);
    const keys = new Set(part.key_heads_of);
    const kv = keys.size === 1 && part.key_heads_of[0] !== part.heads ? `, ${part.key_heads_of[0]} key/value ${part.key_heads_of[0] === 1 ? "head" : "heads"}` : "";
    fill(this.slots.heads, `${part.layers} layers × ${part.heads} heads${kv} · ${shown === all ? `${all} shown` : `${shown} of ${all} match`}`);
    fill(this.slots.found, errors.join("; "), this.offers(wanted));
    this.grid.refresh({ pass });
    this.rampLine();
  }

  rampLine() {
    const { client, state, theme } = this.app;
    const { colour } = state;
    const bars = `bars ${this.grid.down ? "at the left" : "on top"}: mean ${titleOf(barsOf(client, colour))} of a layer`;
    const failed = ["thumbnails", "grid", "writes"].filter((name) => client.errors.has(name)).map((name) => failureNote(client.errors.get(name)));
    if (colour === "role") {
      const counts = new Map();
      for (let layer = 0; layer < client.part.layers; layer++) for (let head = 0; head < client.part.heads_of[layer]; head++) counts.set(roleOf(client, layer, head), (counts.get(roleOf(client, layer, head)) ?? 0) + 1);
      const listed = [...counts].sort((a, b) => b[1] - a[1]).map(([role, count]) => el("span", { class: "role-count", data: { tip: meaningOf(client, role) } }, glyph(role), ` ${roleWord(role)} ${count}`));
      return void fill(this.slots.ramp, failed, el("div", { class: "ramp" }, listed));
    }
    if (colour === "map") {
      const cell = client.thumbnails?.cell ?? 1;
      const what = cell > 1 ? `mass of a block of ${cell} × ${cell} tokens, √` : "weight, √ scale";
      return void fill(this.slots.ramp, failed, rampBar(theme, { words: [what, client.model(client.run.model)?.kind === "encoder" ? null : "· blank: hidden by the mask", `· ${bars}`] }));
    }
    const [low, high] = reach(client, colour);
    const unit = measuresOf(client).find((one) => one.name === colour)?.unit ?? "";
    const of = isSigned(colour) ? (share) => (Math.sign(2 * share - 1) * Math.sqrt(Math.abs(2 * share - 1)) + 1) / 2 : (share) => (colour === "importance" ? SCALES.sqrt(share) : share);
    fill(this.slots.ramp, failed, rampBar(theme, { low: valueText(colour, low), high: `${valueText(colour, high)} ${unit}`, kind: isSigned(colour) ? "diverging" : "sequential", of, words: [scaleWord(colour), `· ${bars}`] }));
  }

  // 3 and 4: what comes out

  writes() {
    const { client, state } = this.app;
    const { layer } = state;
    const { part } = client;
    const width = client.model(client.run.model)?.head_width;
    const count = part.heads_of[layer];
    fill(this.slots.writesSub, `layer ${layer}: ${count} heads${width ? ` × ${width} = ${count * width} columns` : ""}; bar = share of what the layer writes `, runMark(client, "writes", layer));
    if (client.refusal) return void fill(this.slots.blocks, refusalNote(`${client.refusal} Weights and statistics above stay as they are.`));
    fill(this.slots.blocks, client.writes ? writeShares(this.app, (_, head) => this.app.go({ head }, { quietly: true })) : waiting("Computing what heads write…"));
  }

  result() {
    const { client } = this.app;
    const { kind } = client.run.output;
    const edited = client.edits?.edits.length ?? 0;
    this.effectOf = edited ? `${client.run.id} ${JSON.stringify(client.edits.edits)}` : null;
    if (edited) return void this.effect(kind, edited);
    fill(this.slots.outputSub, `${outputTitle(kind)}, as loaded`);
    fill(this.slots.output, output(client.run, () => runMark(client, "model", null, { focus: false })));
  }

  /** The output of the model with the edits that there are, beside the output as loaded. */
  async effect(kind, edited) {
    const { client } = this.app;
    const { effectOf } = this;
    fill(this.slots.outputSub, `${outputTitle(kind)} with ${counted(edited, "edit")} · tick: as loaded. Maps and numbers above are of the model as loaded.`);
    if (!this.slots.output.querySelector("[data-effect]")) fill(this.slots.output, waiting("Running the edited model…"));
    try {
      const found = await client.effect();
      if (this.effectOf === effectOf) fill(this.slots.output, effectLines(client, found, () => mark("equal", MEASURED, { focus: false }), { one: false }));
    } catch (failure) {
      if (this.effectOf === effectOf) fill(this.slots.output, failureNote(failure));
    }
  }

  // Blue

  proof() {
    const { client } = this.app;
    const head = el("div", { class: "team" }, "Blue team ", el("span", {}, "proof of this run"));
    if (client.errors.has("proof")) return void fill(this.blue, head, failureNote(client.errors.get("proof"), "Not proved."));
    if (!client.proof) return void fill(this.blue, head, waiting("Proving: about four forward passes…"), el("p", { class: "sub" }, "Until then numbers are marked as estimates."));
    const order = ["widths", "rows", "weights", "hidden", "output", "writes", "slices", "statistics", "model"];
    const sorted = [...client.proof.verdicts].sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name));
    const lines = sorted.map((verdict) => {
      const exact = verdict.state === "passes" && (verdict.residual === null || verdict.residual === 0);
      return el(
        "li",
        { class: verdict.state === "fails" ? "falls" : "", data: { check: verdict.name, state: verdict.state } },
        el("div", { class: "statement" }, el("span", { class: "code" }, verdict.move ?? "—"), el("span", { class: "words", data: { tip: verdict.sentence } }, shortSentence(verdict.name, verdict.sentence)), mark(markOf(HOLDS[verdict.state]), verdict.residual === null ? (exact ? "exact" : verdict.sentence) : `residual ${scientific(verdict.residual)}, rounding allows ${scientific(verdict.allowed)}${verdict.place ? `\nworst at ${verdict.place}` : ""}`)),
        verdict.state === "refused" ? null : gauge(verdict.residual, verdict.allowed, { exact }),
      );
    });
    fill(this.blue, head, el("ul", { class: "proof" }, lines), el("p", { class: "sub after" }, `Bar: worst residual of ${counted(client.part.layers, "layer")}. Tick: what rounding allows there.`));
  }

  // The chosen head, and red

  chosen() {
    const { app } = this;
    const { client, state } = app;
    const { layer, head } = state;
    const role = roleOf(client, layer, head);
    const title = el("div", { class: "chosen-head" }, el("h2", { class: "title" }, headName(layer, head)), el("span", { class: "chip", data: { tip: meaningOf(client, role) } }, glyph(role), roleWord(role)), this.grid.group ? el("span", { class: "chip" }, `kv ${client.keyHead(layer, head)}`) : null);
    const open = el("button", { class: "button primary", type: "button", on: { click: () => this.open() } }, "Open head", el("kbd", { "aria-hidden": "true" }, "↵"));
    fill(this.red, title, smallMap(app), statistics(app), el("div", { class: "buttons open" }, open), this.attacks());
    const canvas = el("canvas", { class: "thumb", "aria-hidden": "true" });
    if (client.thumbnails) paintThumb(canvas, client.thumbnails, layer, head, app.theme, "sqrt");
    fill(this.dock, canvas, el("div", { class: "who" }, el("b", {}, headName(layer, head)), el("span", { class: "sub" }, `${roleWord(role)} · entropy ${valueText("entropy", client.value("entropy", layer, head))}`)), el("button", { class: "button primary", type: "button", on: { click: () => this.open() } }, "Open"));
  }

  attacks() {
    const { app } = this;
    const { client, state } = app;
    const { layer, head } = state;
    if (!client.can("edit") || client.transport.recorded) return null;
    const scale = client.scaleOf(layer, head);
    const set = (to) => client.edit("POST", "", { part: client.part.name, layer, head, scale: to });
    const button = (title, to) => el("button", { class: "button", type: "button", "aria-pressed": String(scale === to), disabled: !client.mayWrite, on: { click: () => set(scale === to ? 1 : to) } }, title);
    return [
      el("div", { class: "team attacks within" }, "Red team ", el("span", {}, "attack this head")),
      el("div", { class: "buttons" }, button(scale === 0 ? "Ablated" : "Ablate", 0), button(scale === 2 ? "Doubled" : "Double", 2)),
      client.mayWrite ? null : el("p", { class: "sub" }, CANNOT_WRITE),
      client.edits?.edits.length || client.errors.has("edits") ? editList(app).node : null,
    ];
  }

  // What changed

  moved(state, before) {
    const { client } = this.app;
    if (!client.part || !this.built) return;
    const changed = (...names) => names.some((name) => state[name] !== before[name]);
    if (changed("colour") && state.colour === "importance" && !client.importance) this.importance();
    if (changed("colour", "order", "size")) this.bar();
    if (changed("colour", "order", "size", "find")) this.heads();
    if (changed("layer", "head")) {
      this.grid.place();
      this.grid.soon();
      if (changed("layer") || changed("head")) this.writes();
      this.chosen();
    }
    if (changed("token")) {
      this.tokens.lit(state.token);
      this.chosen();
    }
  }

  changed(what, detail) {
    const { client } = this.app;
    if (what === "theme" && this.built) return void (this.grid.soon(), this.rampLine(), this.chosen());
    if (["run", "models", "reading"].includes(what) || !this.built) return void this.refresh();
    if (what === "grid" || what === "writes" || what === "importance" || what === "roles") return void this.refresh();
    if (what === "thumbnails") return void (this.grid.soon(), this.rampLine(), this.chosen());
    if (what === "proof") return void (this.proof(), this.input(), this.grid.soon(), this.writes(), this.result(), this.chosen());
    if (what === "edits") return void (this.grid.soon(), this.result(), this.chosen());
    if (what === "job" && client.part) {
      this.work();
      if (detail.kind === "roles") this.heads();
    }
    if (what === "playable") this.heads();
  }
}
