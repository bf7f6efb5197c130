/** Notes in the place where something is missing: why, and what to do. */

import { el } from "../dom.js";
import { sign } from "../marks.js";

/** Something failed: what was said of it. */
export const failureNote = (failure, before = "") => el("p", { class: "note fails", role: "alert" }, sign("fails"), before && el("b", {}, before, " "), failure.message);

/** Something cannot be told, and why. */
export const refusalNote = (why, before = "Refused.") => el("p", { class: "note" }, sign("refused"), el("b", {}, before, " "), why);

/** Something is on its way. */
export const waiting = (what) => el("p", { class: "waiting", role: "status" }, el("i", { class: "spinner", "aria-hidden": "true" }), what);

/** A title with a line of explanation. */
export const headed = (title, sub = null, level = "h2") => el(level, { class: "heading" }, title, sub && el("span", { class: "sub" }, sub));

/** A stage of the pipe: its number stands on the line that joins them. */
export const stage = (number, title, sub, ...body) =>
  el("section", { class: "stage" }, el("span", { class: "at", "aria-hidden": "true" }, String(number)), el("header", {}, el("h2", {}, title), sub), ...body);

/** One of a few: buttons of which one is pressed. */
export function segmented(label, choices, chosen, choose) {
  const buttons = choices.map(([value, title, attributes = {}]) =>
    el("button", { type: "button", "aria-pressed": String(value === chosen), data: { value }, on: { click: () => choose(value) }, ...attributes }, title),
  );
  return el("span", { class: "segmented", role: "group", "aria-label": label }, buttons);
}

/** M with its letter set low: W_O as people write it. */
export const wo = () => ["W", el("sub", {}, "O")];

/** A long work: how far it is, and a way to stop it. */
export function progress(job, cancel) {
  const known = job.of ? job.done / job.of : null;
  const bar = el("progress", { max: 1, value: known, "aria-label": `progress of ${job.kind}` });
  const words = [job.doing, job.of ? `${job.done} of ${job.of}` : null, job.seconds ? `${job.seconds.toFixed(0)} s` : null].filter(Boolean).join(" · ");
  return el("div", { class: "progress", role: "status" }, bar, el("span", { class: "sub" }, words || "starting"), el("button", { class: "button small", type: "button", on: { click: cancel } }, "Cancel"));
}
