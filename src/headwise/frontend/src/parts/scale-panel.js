/** Red: scale what a head says, on its own dose curve, and watch the output move. What is shown while dragging is an estimate; then it is measured. */

import { el, fill } from "../dom.js";
import { fixed, headName } from "../format.js";
import { mark } from "../marks.js";
import { CANNOT_WRITE } from "./edits.js";
import { between, doseCurve, harm } from "./dose-curve.js";
import { MEASURED, effectLines, ofOutput } from "./effect.js";
import { failureNote, headed, waiting, wo } from "./notes.js";
import { outputTitle } from "./output-list.js";
import { runMark } from "./verdicts.js";

const PAUSE = 160;

export class ScalePanel {
  constructor(app) {
    this.app = app;
    this.curve = el("div", { class: "dose-box" });
    this.amount = el("b", { class: "amount-now" });
    const { client } = app;
    this.slider = el("input", { type: "range", min: 0, max: 2, step: 0.05, value: 1, "aria-label": "scale of the head’s output z", disabled: !client.mayWrite, on: { input: () => this.dragged(), change: () => this.send() } });
    this.title = el("h2");
    this.peak = el("p", { class: "sub" });
    this.effectNode = el("div", { class: "section effect", "aria-live": "polite" });
    const ticks = el("div", { class: "ticks", "aria-hidden": "true" }, el("span", {}, "0 ablated"), el("span", {}, "1"), el("span", {}, "2"));
    const row = el("div", { class: "slider" }, el("div", {}, this.curve, this.slider, ticks), this.amount);
    this.node = el("div", {}, this.title, this.peak, client.mayWrite ? null : el("p", { class: "note" }, CANNOT_WRITE), row, this.effectNode);
  }

  get at() {
    return [this.app.state.layer, this.app.state.head];
  }

  close() {
    clearTimeout(this.timer);
    this.closed = true;
  }

  /** Another head, or other edits. */
  refresh() {
    const { client } = this.app;
    const [layer, head] = this.at;
    fill(this.title, `Scale the output z of ${headName(layer, head)}`);
    if (client.errors.has("edits") && !client.edits) return void fill(this.effectNode, failureNote(client.errors.get("edits")));
    if (!client.edits) return void fill(this.effectNode, waiting("Loading edits…"));
    const scale = client.scaleOf(layer, head);
    this.slider.value = scale;
    this.amount.textContent = scale.toFixed(2);
    this.loadDose();
    this.measure();
  }

  async loadDose() {
    const [layer, head] = this.at;
    const key = `${layer} ${head} ${JSON.stringify(this.app.client.edits.edits)}`;
    if (this.doseOf?.startsWith(`${layer} ${head} `)) this.figure?.move(+this.slider.value);
    else {
      this.dose = this.figure = null;
      fill(this.curve, waiting("Running nine scales…"));
    }
    this.doseOf = key;
    try {
      const dose = await this.app.client.dose(layer, head);
      if (this.closed || this.doseOf !== key) return;
      this.dose = dose;
      this.figure = doseCurve(dose, +this.slider.value);
      fill(this.curve, this.figure);
      const what = dose.kl ? `KL of the ${ofOutput(dose.kind)}, nats` : "1 − cosine of the embedding";
      fill(this.peak, "z is multiplied before ", wo(), `: 0 ablates, 1 is as loaded. Curve: ${what}, at most ${fixed(Math.max(...harm(dose)), 4)}`, mark("equal", "the edited model’s own output, at nine scales"));
    } catch (failure) {
      if (!this.closed && this.doseOf === key) fill(this.curve, failureNote(failure));
    }
  }

  dragged() {
    const scale = +this.slider.value;
    this.amount.textContent = scale.toFixed(2);
    this.figure?.move(scale);
    if (this.dose) this.estimate(scale);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send(), PAUSE);
  }

  send() {
    clearTimeout(this.timer);
    const { client } = this.app;
    const [layer, head] = this.at;
    const scale = +this.slider.value;
    if (scale === client.scaleOf(layer, head)) return;
    client.edit("POST", "", { part: client.part.name, layer, head, scale });
  }

  /** What the dose curve says between its points. */
  estimate(scale) {
    const { dose } = this;
    const moved = between(dose.scales, harm(dose), scale);
    const tokens = dose.tokens?.map((one) => ({ id: one.id, token: one.token, probability: between(dose.scales, one.probabilities, scale), as_loaded: this.loaded(one) }));
    this.draw({ kind: dose.kind, top: tokens, kl: dose.kl ? moved : undefined, cosine: dose.kl ? undefined : 1 - moved }, "estimate", "between two measured scales");
  }

  loaded(one) {
    return this.app.client.run.output.top?.find((entry) => entry.id === one.id)?.probability ?? one.probabilities[4];
  }

  async measure() {
    const { client } = this.app;
    const key = `${client.run.id} ${JSON.stringify(client.edits.edits)}`;
    this.effectOf = key;
    if (!client.edits.edits.length) return this.asLoaded();
    try {
      const effect = await client.effect();
      if (this.closed || this.effectOf !== key) return;
      this.draw(effect, "equal", MEASURED);
    } catch (failure) {
      if (!this.closed && this.effectOf === key) fill(this.effectNode, headed("Effect"), failureNote(failure));
    }
  }

  /** Without edits the effect is the run itself. */
  asLoaded() {
    const { output } = this.app.client.run;
    this.draw({ kind: output.kind, top: output.top?.map((one) => ({ ...one, as_loaded: one.probability })), kl: output.top ? 0 : undefined, cosine: output.top ? undefined : 1, none: true }, "equal", "the run as loaded");
  }

  draw(effect, kind, detail) {
    const { client } = this.app;
    const makeMark = () => (effect.none ? runMark(client, "model", null, { focus: false }) : mark(kind, detail, { focus: false }));
    fill(this.effectNode, headed("Effect", effect.kind === "embedding" ? "on the embedding" : `${outputTitle(effect.kind)} · tick: as loaded`), effectLines(client, effect, makeMark));
  }
}
