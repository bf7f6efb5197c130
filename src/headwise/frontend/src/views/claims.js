/** Claims: what people say of heads, put to the test on a model; where nothing can be measured, what the literature found. */

import { el, fill, focusedData } from "../dom.js";
import { modelName } from "../format.js";
import { mark } from "../marks.js";
import { CITED, LIVE } from "../claims.js";
import { CANNOT_WRITE } from "../parts/edits.js";
import { VERDICTS, claimCard, source, typeset, verdict, verdictOf } from "../parts/claim-card.js";
import { failureNote, progress, segmented, waiting } from "../parts/notes.js";
import { plot } from "../parts/plot.js";

export function claims(app) {
  const view = new ClaimsView(app);
  return { node: view.node, shown: () => view.shown(), moved: (state, before) => view.moved(state, before), changed: (what) => view.changed(what) };
}

class ClaimsView {
  constructor(app) {
    this.app = app;
    this.top = el("div", { class: "view-head" });
    this.work = el("div", { class: "work" });
    this.grid = el("div", { class: "cards" });
    this.node = el("div", { class: "centre claims-page" }, this.top, this.work, this.grid);
    this.cards = new Map();
  }

  get client() {
    return this.app.client;
  }

  /** What can be measured on, or null where there is only what was published. */
  get model() {
    const { client } = this;
    const found = client.serverState && !client.transport.recorded && client.can("claims") ? client.model(this.app.chosenModel()) : null;
    return found?.state === "ready" ? found : null;
  }

  get name() {
    return modelName(this.model.name).replace(/^demo:/, "");
  }

  /** Claims of the model as they were last measured. */
  get list() {
    return this.client.claims?.get(this.model?.id) ?? null;
  }

  get job() {
    return [...this.client.jobs.values()].reverse().find((one) => one.kind === "claims" && one.model === this.model?.id);
  }

  shown() {
    const { client } = this;
    if (!client.serverState && !client.errors.has("state")) return void fill(this.grid, waiting("Connecting to the server…"));
    if (!this.model) return this.cited();
    if (this.list) this.draw();
    else fill(this.grid, waiting("Loading results…"));
    return this.load();
  }

  /** Ask for the cards that are there. */
  async load() {
    const { client, model } = this;
    try {
      const { claims: found } = await client.ask("GET", client.path("/api/claims", { model: model.id }));
      this.take(model.id, found);
    } catch (failure) {
      if (model !== this.model) return;
      this.cited();
      fill(this.work, failureNote(failure));
    }
  }

  /** Claims with their cards, all or some of a model's. */
  take(id, found) {
    const { client } = this;
    client.claims ??= new Map();
    const newer = new Map(found.map((one) => [one.name, one]));
    const known = client.claims.get(id);
    client.claims.set(id, known ? known.map((one) => newer.get(one.name) ?? one) : found);
    client.notify("claims");
  }

  async start(only = null) {
    const { client, model } = this;
    this.failure = null;
    try {
      const job = await client.startJob("claims", { model: model.id, ...(only ? { only } : {}) }, (result) => this.take(model.id, result));
      Object.assign(job, { model: model.id, only });
    } catch (failure) {
      this.failure = { failure, only };
    }
    this.draw();
    this.node.querySelector(".progress button")?.focus();
  }

  // Drawing

  draw() {
    if (!this.list) return;
    this.header();
    this.fillCards();
    this.progress();
  }

  header() {
    const { list } = this;
    const measured = list.filter((one) => one.card);
    const here = measured.filter((one) => one.about_model).length;
    const trained = measured.length - here;
    const on = [here ? `${trained ? `${here} ` : ""}on ${this.name} as loaded` : null, trained ? `${here ? `${trained} ` : ""}on small models trained for the claim` : null].filter(Boolean).join(", ");
    const sub = measured.length ? `${measured.length} of ${list.length} measured, ${on}${here ? "" : `; none on ${this.name} yet`}` : `none measured on ${this.name} yet`;
    this.heading(list.map(verdictOf), sub);
  }

  /** Title, and how many there are of each verdict. */
  heading(verdicts, sub) {
    const { verdict: chosen } = this.app.state;
    const count = (name) => verdicts.filter((one) => one === name).length;
    const choices = [["all", `all ${verdicts.length}`], ...Object.keys(VERDICTS).filter((name) => count(name) || name === chosen).map((name) => [name, `${VERDICTS[name][1].toLowerCase()} ${count(name)}`])];
    const filter = segmented("verdict", choices, this.filter, (one) => this.app.go({ verdict: one }, { quietly: true }));
    const focused = focusedData(this.top).value;
    fill(this.top, el("h1", { class: "title" }, "Claims about heads"), el("span", { class: "sub" }, sub), el("span", { class: "grow" }), filter);
    if (focused) this.top.querySelector(`[data-value="${focused}"]`)?.focus();
  }

  get filter() {
    return this.app.state.verdict in VERDICTS ? this.app.state.verdict : "all";
  }

  /** A card is made anew only when what it says has changed: what is open or has the focus stays. */
  fillCards() {
    const { app, may } = this;
    const shown = this.list.filter((one) => this.filter === "all" || verdictOf(one) === this.filter);
    const nodes = shown.map((one) => {
      const key = `${this.model.id} ${JSON.stringify(one)}`;
      const before = this.cards.get(one.name);
      if (before?.key === key) return before.node.may(may), before.node;
      const node = claimCard(app, one, { model: this.name, live: LIVE[one.name], measure: () => this.start(one.name), may });
      this.cards.set(one.name, { key, node });
      if (before?.node.contains(document.activeElement)) queueMicrotask(() => node.focus());
      return node;
    });
    if (nodes.length !== this.grid.children.length || nodes.some((node, at) => node !== this.grid.children[at])) fill(this.grid, nodes.length ? nodes : el("p", { class: "sub" }, "No claim has this verdict."));
  }

  get may() {
    return this.client.mayWrite && this.job?.state !== "running";
  }

  /** How far the work is: above the cards where all are measured, else in the card. */
  progress() {
    const { job, client, list } = this;
    const running = job?.state === "running" ? job : null;
    const cancel = () => client.cancel(running);
    const named = running && (running.only ?? running.doing.split(": ")[0]);
    for (const [name, { node }] of this.cards) node.showJob(name === named ? running : null, running?.only ? cancel : null);
    if (running && !running.only) return void this.whole(running, cancel);
    this.bar = null;
    const failed = this.failure?.failure ?? (job?.state === "failed" ? job.error : null);
    const missing = list.filter((one) => !one.card).length;
    const button = missing ? el("button", { class: "button primary", type: "button", disabled: !this.may, on: { click: () => this.start() } }, `Measure ${missing === list.length ? `all ${missing}` : `the other ${missing}`} on ${this.name}`) : null;
    const focused = this.work.contains(document.activeElement);
    fill(
      this.work,
      failed ? failureNote(failed, "The measurement failed.") : null,
      button ? el("div", { class: "bar" }, button, el("span", { class: "sub" }, client.mayWrite ? "takes minutes; each card appears as soon as it is measured, and is stored" : CANNOT_WRITE)) : null,
    );
    if (focused) this.work.querySelector("button:not([disabled])")?.focus();
  }

  whole(job, cancel) {
    if (this.bar) return void this.bar.update(job);
    const sentence = (words) => {
      const [name, doing] = words.split(": ");
      const claim = this.list.find((one) => one.name === name);
      return claim ? `“${claim.sentence}”${doing ? `: ${doing}` : ""}` : words;
    };
    this.bar = progress(job, cancel, { describe: sentence });
    fill(this.work, this.bar);
  }

  /** What was published, where nothing can be measured. */
  cited() {
    const { app } = this;
    this.cards.clear();
    this.heading(CITED.map((one) => one.verdict), "verdicts from the literature; nothing has been measured here");
    const { client } = this;
    const one = client.serverState && client.can("claims") && !client.transport.recorded ? client.model(app.chosenModel()) : null;
    fill(this.work, one && one.state !== "ready" ? el("p", { class: "note" }, one.state === "failed" ? `${modelName(one.name)} could not be opened: ${one.reason}` : `They can be measured on ${modelName(one.name)} as soon as it is open.`) : null);
    fill(this.grid, CITED.filter((claim) => this.filter === "all" || claim.verdict === this.filter).map((claim) => citedCard(app, claim)));
  }

  // What changed

  moved(state, before) {
    if (state.model !== before.model) return void this.shown();
    if (state.verdict !== before.verdict) this.list ? this.draw() : this.cited();
  }

  changed(what) {
    if (what === "models") return void this.shown();
    if (!this.model) return;
    if (what === "claims") this.draw();
    if (what === "job" && this.list) this.onJob();
  }

  /** The cards of what has been measured meanwhile are fetched when the work goes on to the next, and when it has ended. */
  onJob() {
    const { job } = this;
    if (!job) return;
    const at = job.state === "running" ? job.doing.split(": ")[0] : job.state;
    if (this.at !== at && this.at !== undefined && !job.only) this.load();
    this.at = job.state === "running" ? at : undefined;
    this.draw();
  }
}

function citedCard(app, claim) {
  return el(
    "article",
    { class: `card ${claim.verdict}` },
    verdict(claim.verdict),
    el("h2", {}, el("q", {}, claim.verdict === "cut" ? el("del", {}, typeset(claim.sentence)) : typeset(claim.sentence))),
    el("p", { class: "found" }, claim.correction ? [el("ins", {}, claim.correction), " "] : null, typeset(claim.found)),
    claim.figure ? el("figure", {}, plot(claim.figure)) : null,
    claim.live ? el("p", {}, el("button", { class: "button small", type: "button", on: { click: () => app.go(claim.live.go) } }, claim.live.title)) : null,
    el("p", { class: "source" }, el("span", {}, source(claim)), el("span", { class: "number" }, claim.proved ? "proved in Five moves" : "cited", mark(claim.proved ? "bound" : "cited", claim.proved ?? claim.source))),
  );
}
