/** The frame around the six views: header, legend, keys, theme; and who tells whom when something has changed. */

import { el, fill, hidden, svg } from "./dom.js";
import { modelName } from "./format.js";
import { legend, sign } from "./marks.js";
import { parseEdits, formatEdits } from "./edit-address.js";
import { TITLES, VIEWS, store } from "./state.js";
import { tips } from "./tooltip.js";
import { Client } from "./client.js";
import { check } from "./views/check.js";
import { claims } from "./views/claims.js";
import { compare } from "./views/compare.js";
import { head } from "./views/head.js";
import { model } from "./views/model.js";
import { moves } from "./views/moves.js";
import { failureNote } from "./parts/notes.js";

const VIEW_MAKERS = { model, head, moves, check, compare, claims };
const CODES = ["M1", "M2", "M3", "M4", "M5"];

/**
 * @typedef {object} ViewHandle a view in the page
 * @property {Node} node
 * @property {() => void} [shown] called when it stands in the page
 * @property {(state: any, before: any) => void} [moved] called when the address has changed
 * @property {(what: string, detail?: any) => void} [changed] called when what the page knows has changed
 * @property {() => Record<string, string>} [states] the states of the five moves, where the view has its own
 * @property {() => void} [close]
 */

export class App {
  /** @type {HTMLElement} */ root;
  /** @type {boolean} */ bound;
  /** @type {ViewHandle | null} */ view = null;
  /** @type {HTMLElement} */ main;
  /** @type {Record<string, HTMLAnchorElement>} */ links;
  /** @type {HTMLSelectElement} */ models;
  /** @type {HTMLSelectElement} */ texts;
  /** @type {HTMLButtonElement} */ badge;
  /** @type {HTMLDialogElement} */ help;
  /** @type {ReturnType<typeof tips>} */ tip;
  /** @type {(event: KeyboardEvent) => void} */ onKey;

  constructor(root, { transport, address, bound }) {
    Object.assign(this, { root, bound });
    root.classList.add("headwise");
    this.store = store({ initial: address, bound });
    this.client = new Client(transport);
    this.client.notify = (what, detail) => this.changed(what, detail);
    this.frame();
    this.store.listen((state, before, linked) => this.moved(state, before, linked));
    this.addressEdits = this.state.edits || null; // edits that an address names, and the server has yet to make
    this.opening = new Set(); // models that are being opened
  }

  get state() {
    return this.store.state;
  }

  get theme() {
    return this.root.dataset.theme;
  }

  async start() {
    this.applyTheme();
    this.show();
    try {
      await this.client.open();
    } catch (failure) {
      this.client.errors.set("state", failure);
    }
    this.changed("models");
    await this.loadRun();
    this.root.dataset.ready = "";
  }

  close() {
    this.view?.close?.();
    this.store.close();
    this.client.close();
    removeEventListener("keydown", this.onKey);
  }

  go(changes, options) {
    const another = "model" in changes && changes.model !== this.chosenModel();
    this.store.go(another ? { edits: "", ...changes } : changes, options); // edits are of one model
  }

  /** The edits of the address and those that the server holds become the same: by a link the address is right, else the server. */
  async syncEdits() {
    const { client } = this;
    if (!client.edits || !client.run || !client.mayWrite || this.syncing) return;
    const first = client.run.parts[0].name;
    const wanted = this.addressEdits === null ? null : parseEdits(this.addressEdits, first);
    this.addressEdits = null;
    if (wanted && formatEdits(wanted, first) !== formatEdits(client.edits.edits, first)) {
      this.syncing = true;
      await client.setEdits(wanted);
      this.syncing = false;
    }
    if (client.edits && client.run) {
      const current = formatEdits(client.edits.edits, client.run.parts[0].name);
      if (current !== this.state.edits) this.go({ edits: current }, { quietly: true });
    }
  }

  /** The model and text of the address, or the first there are. */
  async loadRun() {
    const { serverState } = this.client;
    if (!serverState) return;
    const ready = serverState.models.find((one) => one.id === this.chosenModel());
    if (ready?.state === "waiting" && ready.id === this.state.model) this.open(ready.id);
    if (!ready || ready.state !== "ready") return void this.client.drop();
    await this.client.runText(ready.id, this.chosenText());
  }

  /** Have a model opened; how that goes comes as an event. */
  async open(id) {
    if (this.opening.has(id)) return;
    this.opening.add(id);
    try {
      await this.client.ask("POST", `/api/models/${id}/open`);
    } catch (failure) {
      this.client.errors.set("run", failure);
      this.changed("run");
    }
    this.opening.delete(id);
  }

  chosenModel() {
    const models = this.client.serverState?.models ?? [];
    return models.some((one) => one.id === this.state.model) ? this.state.model : (models.find((one) => one.state === "ready") ?? models[0])?.id;
  }

  chosenText() {
    const texts = this.client.serverState?.texts ?? [];
    const { text } = this.state;
    return texts.find((one) => one.id === text)?.text ?? (text || texts[0]?.text || "The cat sat on the mat because it was tired.");
  }

  /** Why there is no model to look at, or null where there is one. */
  noModelReason() {
    const { serverState, transport } = this.client;
    if (!serverState || serverState.models.length) return null;
    return transport.recorded ? "This file holds no model. Open one with: headwise serve MODEL" : "No model was given. Start with: headwise serve MODEL";
  }

  // What changed

  moved(state, before, linked) {
    if (linked && state.edits !== before.edits) this.addressEdits = state.edits;
    if (state.theme !== before.theme) this.applyTheme();
    if (state.view !== before.view) {
      this.show();
      this.root.scrollIntoView?.({ block: "start" });
    } else this.view.moved?.(state, before);
    if (state.part !== before.part && this.client.run) this.client.choose(state.part);
    if (state.model !== before.model || state.text !== before.text) this.loadRun();
    else if (state.edits !== before.edits) this.syncEdits();
    this.header();
  }

  changed(what, detail) {
    if (what === "models") this.loadRun();
    if (what === "joined") this.addressEdits = this.state.edits || null; // the new session has no edits yet
    if (what === "edits") this.syncEdits();
    if (what === "run" && this.client.part) this.clampHead();
    this.header();
    this.view?.changed?.(what, detail);
  }

  /** A layer and head that this model has. */
  clampHead() {
    const { part } = this.client;
    if (this.state.part !== part.name && this.client.run.parts.some((one) => one.name === this.state.part)) return void this.client.choose(this.state.part);
    const layer = Math.min(this.state.layer, part.layers - 1);
    const head = Math.min(this.state.head, part.heads_of[layer] - 1);
    if (layer !== this.state.layer || head !== this.state.head) this.go({ layer, head }, { quietly: true });
  }

  show() {
    this.view?.close?.();
    const { view } = this.state;
    this.main.className = `view ${view}`;
    this.view = null;
    try {
      this.view = VIEW_MAKERS[view](this);
      fill(this.main, this.view.node);
    } catch (error) {
      fill(this.main, failureNote(error));
      throw error;
    }
    this.view.shown?.();
    if (this.bound) document.title = `${TITLES[view]} · headwise`;
    this.header();
  }

  applyTheme() {
    const theme = this.state.theme;
    this.root.dataset.theme = theme === "light" || theme === "dark" ? theme : matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    if (this.bound) document.documentElement.dataset.theme = this.root.dataset.theme;
    this.view?.changed?.("theme");
  }

  // The frame

  frame() {
    const { store: kept } = this;
    this.links = Object.fromEntries(VIEWS.map((view) => [view, el("a", { href: kept.link({ view }), on: { click: (event) => this.onNavClick(event, view) } }, TITLES[view])]));
    this.models = el("select", { class: "pick", "aria-label": "model", on: { change: (event) => this.go({ model: event.target.value, part: "", token: null, zoom: "" }) } });
    this.texts = el("select", { class: "pick", "aria-label": "text", on: { change: (event) => this.go({ text: event.target.value, token: null, zoom: "" }) } });
    this.badge = el("button", { class: "badge", type: "button", on: { click: () => this.go({ view: "moves" }) } });
    const half = svg("svg", { width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" }, svg("circle", { class: "line", cx: 7, cy: 7, r: 5.5 }), svg("path", { class: "solid", d: "M7 1.5a5.5 5.5 0 0 1 0 11z" }));
    const theme = el("button", { class: "icon", type: "button", "aria-label": "light or dark", on: { click: () => this.go({ theme: this.theme === "dark" ? "light" : "dark" }, { quietly: true }) } }, half);
    const help = el("button", { class: "icon helper", type: "button", "aria-label": "keys and marks", on: { click: () => this.help.showModal() } }, "?");
    this.main = el("main", { class: "view" });
    this.help = keys();
    const nav = el("nav", { "aria-label": "views" }, VIEWS.map((view) => this.links[view]));
    const skip = el("a", { class: "skip", href: "#", on: { click: (event) => (event.preventDefault(), this.main.focus()) } }, "Skip to content");
    this.main.tabIndex = -1;
    const brand = el("span", { class: "brand" }, "headwise");
    const top = el("header", { class: "top" }, skip, brand, nav, el("span", { class: "grow" }), this.models, this.texts, this.badge, theme, help);
    const foot = el("footer", { class: "legend" }, legend(), el("span", { class: "last" }, "hover over or focus a mark for its residual"));
    fill(this.root, top, this.main, foot, this.help);
    this.tip = tips(this.root, top);
    this.onKey = (event) => this.key(event);
    addEventListener("keydown", this.onKey);
  }

  onNavClick(event, view) {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    this.go({ view });
  }

  key(event) {
    const inside = this.bound || this.root.contains(document.activeElement);
    if (inside && (event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "z") return this.undo(event);
    if (!inside || event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("input, select, textarea")) return;
    if (event.key >= "1" && event.key <= "6") this.go({ view: VIEWS[+event.key - 1] });
    else if (event.key === "?") this.help.showModal();
    else if (event.key === "/" && this.root.querySelector("[data-find]")) {
      event.preventDefault();
      /** @type {HTMLElement} */ (this.root.querySelector("[data-find]")).focus();
    }
  }

  /** Ctrl Z, with Shift forth; in a field of text it is the field's. */
  undo(event) {
    const { client } = this;
    if (!["model", "head"].includes(this.state.view) || !client.mayWrite || event.target.matches?.("input:not([type=range]), select, textarea")) return;
    event.preventDefault();
    const way = event.shiftKey ? "redo" : "undo";
    if (client.edits?.[way]) client.edit("POST", `/${way}`, {});
  }

  header() {
    const { view } = this.state;
    for (const [name, link] of Object.entries(this.links)) {
      link.href = this.store.link({ view: name });
      if (name === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const ofRun = ["model", "head"].includes(view);
    const { serverState, transport } = this.client;
    this.texts.hidden = !ofRun || !serverState || transport.recorded;
    this.models.hidden = this.texts.hidden && !(view === "claims" && serverState && this.client.can("claims") && !transport.recorded);
    if (serverState) {
      options(this.models, serverState.models.map((one) => [one.id, modelTitle(one)]), this.chosenModel());
      const text = this.chosenText();
      const known = (serverState.texts ?? []).map((one) => [one.id, `“${one.title}”`]);
      const chosen = serverState.texts?.find((one) => one.text === text)?.id;
      options(this.texts, chosen ? known : [...known, [this.state.text, `“${text.slice(0, 24)}${text.length > 24 ? "…" : ""}”`]], chosen ?? this.state.text);
    }
    this.updateBadge();
  }

  /** Five squares, one a move, and what they say in words. */
  updateBadge() {
    const states = this.view?.states?.() ?? this.proofStates();
    const fallen = CODES.filter((code) => states[code] === "falls");
    const part = CODES.filter((code) => states[code] === "part");
    const vacuous = CODES.filter((code) => states[code] === "vacuous");
    const holds = CODES.filter((code) => states[code] === "holds");
    const besides = [...part.map((code) => `${code} in part`), ...vacuous.map((code) => `${code} vacuous`)].join(", ");
    const words = states.waiting ?? (fallen.length ? `${fallen.join(", ")} ${fallen.length > 1 ? "fall" : "falls"}` : besides ? `${holds.length} hold, ${besides}` : `${holds.length} of 5 hold`);
    this.badge.hidden = ["check", "compare", "claims"].includes(this.state.view); // what it says is of a run or of the moves, and these show neither
    this.badge.className = `badge${fallen.length ? " falls" : ""}${states.waiting ? " waits" : ""}`;
    this.badge.dataset.tip = this.view?.states ? "The witness recomputes the five moves by another route. One square a move." : "The five moves, judged on this run. One square a move.";
    const squares = CODES.map((code) => el("i", { class: states[code] ?? "waits" }, states[code] === "falls" ? sign("fails") : null));
    fill(this.badge, el("span", { class: "squares", "aria-hidden": "true" }, squares), el("span", {}, words), hidden(": five moves"));
  }

  proofStates() {
    const { proof, run, pending } = this.client;
    if (!proof) return run && pending.has("proof") ? { waiting: "proving…" } : { waiting: "five moves" };
    const states = {};
    for (const code of CODES) {
      const verdicts = proof.verdicts.filter((verdict) => verdict.move === code).map((verdict) => verdict.state);
      states[code] = verdicts.includes("fails") ? "falls" : verdicts.includes("refused") ? "part" : "holds";
    }
    return states;
  }
}

export function modelTitle(one) {
  const name = modelName(one.name);
  if (one.state !== "ready") return `${name} · ${one.state}`;
  const shared = one.key_heads && one.key_heads !== one.heads ? `, ${one.key_heads} KV` : "";
  return `${name} · ${one.layers} × ${one.heads}${shared}`;
}

function options(select, pairs, chosen) {
  const key = JSON.stringify(pairs);
  if (select.dataset.key !== key) {
    fill(select, pairs.map(([value, title]) => el("option", { value }, title)));
    select.dataset.key = key;
  }
  select.value = chosen ?? "";
}

function keys() {
  /** @type {[string[], string][]} */
  const rows = [
    [["1", "–", "6"], "the views"],
    [["←", "↑", "↓", "→"], "move in the grid, a matrix, a map or a table"],
    [["↵"], "open the head"],
    [["/"], "find heads: a role, 18.6, L12-20, H4, kv1, entropy<1, sink>0.6; several narrow it down, ↵ chooses the one that is left"],
    [["+", "−", "0"], "zoom the map, fit it"],
    [["Ctrl", "Z"], "undo an edit; with Shift redo it"],
    [["Esc"], "close, or let go of a number"],
  ];
  const list = el("dl", {}, rows.map(([signs, meaning]) => [el("dt", {}, signs.map((one) => (one === "–" ? " – " : el("kbd", {}, one)))), el("dd", {}, meaning)]));
  const marks = el("div", { class: "marks" }, legend());
  const close = el("button", { class: "button primary", value: "close" }, "Close");
  return el("dialog", { "aria-labelledby": "headwise-keys" }, el("h2", { id: "headwise-keys", class: "title" }, "Keys and marks"), list, marks, el("form", { method: "dialog" }, close));
}
