/** What the page knows: models, the run that is looked at, its numbers, proof, edits and jobs. Views read it; it tells them what has changed. */

import { request } from "./transport.js";

const KEPT = 96; // answers about heads that are kept
const NO_RUN = { id: null };

export class Client {
  /** @type {Set<string>} */ pending = new Set(); // what is being loaded
  /** @type {any} */ grid;
  /** @type {any} */ writes;
  /** @type {any} */ thumbnails;
  /** @type {any} */ importance; // {data, unit}, once it was measured
  /** @type {string | null} */ refusal; // why writes cannot be attributed to heads
  /** @type {any} */ proof;
  /** @type {any} */ edits;
  /** @type {any} */ saved; // the checkpoint that was saved last
  /** @type {any} */ naming; // the name that is being typed for a checkpoint
  /** @type {any} */ subjects;
  /** @type {any} */ kills;
  /** @type {Map<string, any> | undefined} */ reports;
  /** @type {Map<string, any> | undefined} */ claims;
  /** @type {Map<string, any> | undefined} */ compared;
  /** @type {string | null} */ requested = null; // model and text of the newest request for a run

  constructor(transport) {
    this.transport = transport;
    this.serverState = null; // GET /api/state
    this.session = transport.session ?? null;
    this.run = null;
    this.part = null;
    /** @type {(what: string, detail?: any) => void} */
    this.notify = () => {};
    this.jobs = new Map();
    this.testableRoles = []; // roles for which heads can be asked: {name, statement}
    this.roleScores = new Map(); // by model and task: what each head scored
    this.errors = new Map(); // by what failed: shown in its place
    this.clearRun();
  }

  /** Everything that belongs to one run and part. */
  clearRun() {
    Object.assign(this, { grid: null, writes: null, refusal: null, thumbnails: null, importance: null, pending: new Set() });
    this.cache = new Map();
    this.errors = new Map();
  }

  async open() {
    this.serverState = await this.ask("GET", "/api/state");
    await this.join();
  }

  async join() {
    if (!this.transport.session) this.session = (await this.ask("POST", "/api/sessions")).session;
    this.leave?.();
    this.leave = this.transport.listen(this.session, (name, data) => this.onEvent(name, data));
  }

  ask(method, path, body) {
    return request(this.transport, method, path, body);
  }

  /** A path with the parameters that are given; the session where there is one to name. */
  path(way, parameters = {}, { session = false } = {}) {
    const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
    if (session && !this.transport.recorded) given.push(["session", this.session]);
    return given.length ? `${way}?${given.map(([name, value]) => `${name}=${encodeURIComponent(value).replace(/%3A/g, ":")}`).join("&")}` : way;
  }

  can(what) {
    return (this.serverState?.can ?? []).includes(what);
  }

  get mayWrite() {
    return Boolean(this.serverState?.may_write) && !this.transport.recorded;
  }

  model(id) {
    return this.serverState?.models.find((model) => model.id === id) ?? null;
  }

  /** What has changed before anybody listened, or while the line was down. */
  async catchUp() {
    const { models } = await this.ask("GET", "/api/state");
    if (JSON.stringify(models) === JSON.stringify(this.serverState.models)) return;
    this.serverState.models = models;
    this.notify("models");
  }

  onEvent(name, data) {
    if (name === "open") this.catchUp().catch(() => {}); // a server that does not answer is reported where something is requested
    else if (name === "model") {
      const at = this.serverState.models.findIndex((model) => model.id === data.id);
      if (at < 0) this.serverState.models.push(data);
      else this.serverState.models[at] = { ...this.serverState.models[at], ...data };
      this.notify("models");
    } else if (name === "job" && this.jobs.has(data.id)) {
      const job = this.jobs.get(data.id);
      Object.assign(job, data);
      this.notify("job", job);
      if (["done", "failed", "cancelled"].includes(job.state)) this.finishJob(job);
    }
  }

  /** Read a text with a model, and show it as soon as its numbers are there. */
  async runText(model, text) {
    const requested = JSON.stringify([model, text]);
    if (this.requested === requested) return;
    this.requested = requested;
    this.errors.delete("run");
    this.notify("reading");
    try {
      const run = await this.retryInNewSession(() => this.ask("POST", "/api/runs", { session: this.session, model, text }));
      if (this.requested !== requested) return;
      this.clearRun();
      this.run = run;
      this.proof = null;
      Object.assign(this, { edits: null, saved: null, naming: null });
      this.choose(null);
    } catch (failure) {
      if (this.requested !== requested) return;
      this.requested = null;
      this.errors.set("run", failure);
      this.notify("run");
    }
  }

  /** No run is looked at: the chosen model has none yet, and what another model was asked for comes too late. */
  drop() {
    if (!this.run && !this.requested) return;
    this.clearRun();
    Object.assign(this, { run: null, part: null, proof: null, edits: null, saved: null, naming: null, requested: null });
    this.notify("run");
  }

  /** One part of several: encoder, decoder, cross-attention. */
  choose(name) {
    const part = this.run.parts.find((one) => one.name === name) ?? this.run.parts[0];
    if (this.part === part) return;
    const { requested } = this;
    this.clearRun();
    Object.assign(this, { part, requested });
    this.notify("run");
    const first = [this.load("grid", () => this.ofPart("grid"), (grid) => (this.grid = grid)), this.load("thumbnails", () => this.fetchThumbnails(), (thumbnails) => (this.thumbnails = thumbnails))];
    if (part.writes_refused) this.refusal = part.writes_refused;
    else first.push(this.load("writes", () => this.ofPart("writes"), (writes) => (this.writes = writes)));
    if (this.can("edit") && !this.transport.recorded) first.push(this.load("edits", () => this.ask("GET", this.path(`/api/edits/${this.run.model}`, {}, { session: true })), (edits) => (this.edits = edits)));
    if (!this.proof) this.prove(first);
    if (this.can("roles") && !this.transport.recorded && !this.testableRoles.length) this.load("playable", () => this.ask("GET", "/api/roles"), ({ roles }) => (this.testableRoles = roles));
  }

  /** About four passes: they begin when what is looked at is there. */
  async prove(first) {
    const { run } = this;
    this.pending.add("proof");
    await Promise.all(first);
    await new Promise((resolve) => setTimeout(resolve, 150));
    if (this.run === run) this.load("proof", () => this.ask("GET", `/api/runs/${run.id}/proof`), (proof) => this.proved(proof));
  }

  /** The proof is of the model itself: what was stored at an earlier start has been compared with it by then. */
  proved(proof) {
    this.proof = proof;
    this.run.from_earlier_start = false;
  }

  /** The part as a parameter: the first is what is meant by none. */
  get partName() {
    return this.part === this.run.parts[0] ? null : this.part.name;
  }

  ofPart(what, parameters = {}) {
    return this.ask("GET", this.path(`/api/runs/${this.run.id}/${what}`, { part: this.partName, ...parameters }));
  }

  /** Load something of this run once; what arrives after the run has changed is dropped. */
  async load(name, get, keep) {
    const { run, part } = this;
    this.pending.add(name);
    try {
      const found = await get();
      if (this.run !== run || (this.part !== part && name !== "proof")) return;
      keep(found);
    } catch (failure) {
      if (this.run !== run) return;
      if (failure.kind === "WritesRefused" && name === "writes") this.refusal = failure.message;
      else if (failure.kind === "RunGone") return void this.runAgain();
      this.errors.set(name, failure);
    }
    this.pending.delete(name);
    this.notify(name);
  }

  /** The run was dropped by the server: read the text once more. */
  runAgain() {
    const { model, text } = this.run;
    this.requested = null;
    this.part = null;
    this.run = { ...NO_RUN, ...this.run };
    return this.runText(model, text);
  }

  /** Do it; when the session has ended meanwhile, begin another and do it again. */
  async retryInNewSession(act) {
    try {
      return await act();
    } catch (failure) {
      if (![404, 410].includes(failure.status) || this.transport.recorded || failure.kind === "NotFound" && !/session/i.test(failure.message)) throw failure;
      await this.join();
      this.notify("joined");
      return act();
    }
  }

  /** Thumbnails of every layer, in slices where texts are long, put together. */
  async fetchThumbnails() {
    const { part } = this;
    const cells = part.queries * part.keys * part.heads;
    const step = Math.max(1, Math.min(part.layers, Math.floor(6e7 / cells)));
    if (step >= part.layers || this.transport.recorded) return atlas(await this.ofPart("thumbnails"), part.layers);
    let whole = null;
    for (let first = 0; first < part.layers; first += step) {
      const some = await this.ofPart("thumbnails", { first, count: Math.min(step, part.layers - first) });
      if (this.part !== part) return null;
      whole ??= emptyAtlas(some, part.layers);
      whole.data.set(some.arrays.mass.data, first * whole.heads * whole.rows * whole.columns);
      whole.layersThere = first + some.arrays.mass.shape[0];
      this.thumbnails = whole;
      this.notify("thumbnails");
    }
    return whole;
  }

  /** An answer about one head, kept for the next look. */
  cached(key, get) {
    const full = `${this.run.id} ${this.part.name} ${key}`;
    if (!this.cache.has(full)) {
      const promise = get();
      this.cache.set(full, promise);
      promise.catch((failure) => {
        this.cache.delete(full);
        if (failure.kind === "RunGone") this.runAgain();
      });
      if (this.cache.size > KEPT) this.cache.delete(this.cache.keys().next().value);
    }
    return this.cache.get(full);
  }

  head(layer, head) {
    return this.cached(`head ${layer} ${head}`, () => this.ofPart(`heads/${layer}/${head}`));
  }

  /** Exact weights of a rectangle; all where no range is given. Hidden is −1. */
  async weights(layer, head, rows = null, keys = null) {
    const range = (r) => (r ? `${r[0]}:${r[1]}` : null);
    const found = await this.cached(`weights ${layer} ${head} ${rows} ${keys}`, () => this.ofPart(`weights/${layer}/${head}`, { rows: range(rows), keys: range(keys) }));
    return found.arrays.weights;
  }

  /** How far the weights of a row are from the true ones at most. */
  certificate(layer, head, query) {
    return this.cached(`certificate ${layer} ${head} ${query}`, () => this.ofPart(`certificate/${layer}/${head}/${query}`));
  }

  tile(layer, head, level, column, row, pool = null) {
    return this.ofPart(`tiles/${layer}/${head}/${level}/${column}/${row}`, { pool });
  }

  /** Add the scores of a test of one role or of all; those of other roles stay, and a head keeps every role it was found to have. */
  addRoleScores(model, result) {
    const tasks = this.roleScores.get(model) ?? new Map();
    for (const task of result.roles) {
      const before = tasks.get(task.name);
      const members = result.role.map((row, layer) => row.map((name, head) => name === task.name || Boolean(before?.members[layer]?.[head])));
      tasks.set(task.name, { ...task, members });
    }
    this.roleScores.set(model, tasks);
    this.notify("roles");
  }

  /** The means of a measure over tokens, a number a head: {data, shape} or null. */
  measure(name) {
    if (name === "importance") return this.importance;
    return this.grid?.arrays[name] ?? this.writes?.arrays[name] ?? null;
  }

  value(name, layer, head) {
    const found = this.measure(name);
    return found ? found.data[layer * this.part.heads + head] : NaN;
  }

  keyHead(layer, head) {
    const { heads_of: heads, key_heads_of: keys } = this.part;
    return Math.floor(head / (heads[layer] / keys[layer]));
  }

  /** Start a long work; its progress comes as events. */
  async startJob(kind, body, done) {
    const job = { ...(await this.retryInNewSession(() => this.ask("POST", "/api/jobs", { session: this.session, kind, ...body }))), whenDone: done };
    this.jobs.set(job.id, job);
    this.notify("job", job);
    // A job may have ended before its first event could be heard.
    const now = await this.ask("GET", `/api/jobs/${job.id}`);
    if (now.state !== "running" && !job.finished) {
      Object.assign(job, now);
      this.finishJob(job);
    }
    return job;
  }

  async finishJob(job) {
    if (job.finished) return;
    job.finished = true;
    if (job.state === "done") {
      const { result } = job.result !== undefined ? job : await this.ask("GET", `/api/jobs/${job.id}`);
      job.whenDone(result);
    }
    this.notify("job", job);
  }

  cancel(job) {
    return this.ask("DELETE", `/api/jobs/${job.id}`);
  }

  latestJob(kind) {
    return [...this.jobs.values()].reverse().find((job) => job.kind === kind);
  }

  // Edits, held by the server.

  async edit(method, way = "", body = null, parameters = null) {
    const path = `/api/edits/${this.run.model}${way}`;
    this.saved = null;
    if (this.naming) this.naming.refused = null;
    try {
      this.edits = await this.ask(method, parameters ? this.path(path, parameters, { session: true }) : path, body ? { session: this.session, ...body } : undefined);
      this.errors.delete("edits");
    } catch (failure) {
      this.errors.set("edits", failure);
    }
    this.notify("edits");
  }

  /** These edits in the place of those that there are. */
  async setEdits(edits) {
    const { run } = this;
    const path = `/api/edits/${run.model}`;
    this.saved = null;
    try {
      let held = this.edits;
      if (held.edits.length) held = await this.ask("DELETE", this.path(path, {}, { session: true }));
      for (const one of edits) held = await this.ask("POST", path, { session: this.session, ...one });
      if (this.run === run) this.edits = held;
      this.errors.delete("edits");
    } catch (failure) {
      if (this.run !== run) return;
      this.edits = await this.ask("GET", this.path(path, {}, { session: true }));
      this.errors.set("edits", failure);
    }
    this.notify("edits");
  }

  scaleOf(layer, head) {
    return this.edits?.edits.find((edit) => edit.layer === layer && edit.head === head && edit.part === this.part.name)?.scale ?? 1;
  }

  /** What the edits together do to the output: measured, once for each list of them. */
  effect() {
    return this.cached(`effect ${JSON.stringify(this.edits.edits)}`, () => this.ask("GET", this.path(`/api/runs/${this.run.id}/effect`, {}, { session: true })));
  }

  dose(layer, head) {
    const others = JSON.stringify((this.edits?.edits ?? []).filter((edit) => edit.layer !== layer || edit.head !== head || edit.part !== this.part.name));
    return this.cached(`dose ${layer} ${head} ${others}`, () => this.ask("GET", this.path(`/api/runs/${this.run.id}/dose/${layer}/${head}`, { part: this.partName }, { session: true })));
  }

  close() {
    this.leave?.();
  }
}

function emptyAtlas(some, layers) {
  const [, heads, rows, columns] = some.arrays.mass.shape;
  return { layers, heads, rows, columns, cell: some.cell, layersThere: 0, data: new Uint8Array(layers * heads * rows * columns) };
}

function atlas(found, layers) {
  return { ...emptyAtlas(found, layers), data: found.arrays.mass.data, layersThere: layers };
}
