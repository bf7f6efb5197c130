/** Notes in place of missing content: why it is missing, and what to do. */

import { el } from "../dom.js";
import { sign } from "../marks.js";

/** Something failed: the message. */
export const failureNote = (failure, before = "") => el("p", { class: "note fails", role: "alert" }, sign("fails"), before && el("b", {}, before, " "), failure.message);

/** Something is refused, and why. */
export const refusalNote = (why, before = "Refused.") => el("p", { class: "note" }, sign("refused"), el("b", {}, before, " "), why);

/** Numbers from an earlier start say so, until the model itself has confirmed them. */
export const earlierStartNote = (client) => (client.run.from_earlier_start ? el("p", { class: "note", role: "status" }, "These numbers were stored at an earlier start. They are compared with the model as soon as it is open.") : null);

/** Something is loading. */
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

/** A long work: how far it is, and a way to stop it. `update` shows how far it has come, and leaves the button where it is.
 * @param describe turns what is being done into a sentence */
export function progress(job, cancel, { describe = (doing) => doing } = {}) {
  const bar = el("progress", { max: 1, "aria-label": `progress of ${job.kind}` });
  const words = el("span", { class: "sub" });
  const node = el("div", { class: "progress", role: "status" }, bar, words, el("button", { class: "button small", type: "button", on: { click: cancel } }, "Cancel"));
  node.update = (now) => {
    if (now.of) bar.value = now.done / now.of;
    const far = now.of === 100 ? `${now.done} %` : now.of ? `${now.done} of ${now.of}` : null;
    words.textContent = [describe(now.doing ?? ""), far, now.seconds ? `${now.seconds.toFixed(0)} s` : null, left(now)].filter(Boolean).join(" · ") || "Starting…";
  };
  node.update(job);
  return node;
}

/** How long it may yet take, when enough has been seen of it. */
function left({ done, of, seconds }) {
  if (!of || !(seconds >= 3) || done < 0.02 * of || done >= of) return null;
  const rest = (seconds * (of - done)) / done;
  return rest < 90 ? `about ${Math.max(5, 5 * Math.round(rest / 5))} s left` : `about ${Math.round(rest / 60)} min left`;
}
