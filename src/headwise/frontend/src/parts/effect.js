/** What the edits there are do to the output, measured: the likeliest tokens with a tick at as loaded, and how far it has moved. */

import { el } from "../dom.js";
import { counted, fixed, quoted } from "../format.js";
import { mark } from "../marks.js";
import { outputList } from "./output-list.js";

export const MEASURED = "the edited model’s own output, from one run";

/** What of the output is compared: one place of the text, or the whole answer. */
export const ofOutput = (kind) => (["next_token", "logits"].includes(kind) ? "last token" : kind === "classes" ? "classes" : "output");

/** @param effect as the server tells it, or an estimate of it */
export function effectLines(client, effect, makeMark, { one = true } = {}) {
  const earliest = Math.min(...(client.edits?.edits ?? []).map((edit) => edit.layer));
  const row = (name, title, value, mk) => el("div", { class: "stat plain", data: { effect: name, ...(title.startsWith("KL") ? { tip: "How far the probabilities are from those as loaded: KL(as loaded ‖ edited)" } : {}) } }, el("span", { class: "name" }, title), el("span", { class: "value number" }, value, mk));
  return [
    effect.top ? outputList([...effect.top].sort((a, b) => b.probability - a.probability), { makeMark, one, moved: true, of: effect.kind === "classes" ? String : quoted }) : null,
    effect.kl === undefined ? null : row("kl", `KL, ${ofOutput(effect.kind)}, nats`, fixed(effect.kl, 4), makeMark()),
    effect.mean_kl === undefined ? null : row("mean_kl", `KL, mean of ${counted(effect.tokens, "token")}, nats`, fixed(effect.mean_kl, 4), makeMark()),
    effect.cosine === undefined ? null : row("cosine", "cosine with as loaded", fixed(effect.cosine, 6), makeMark()),
    effect.relative === undefined ? null : row("relative", "relative distance", fixed(effect.relative, 4), makeMark()),
    effect.others_unchanged === undefined || !Number.isFinite(earliest) ? null : row("others", `other heads of layer ${earliest}`, effect.others_unchanged ? "unchanged" : "changed", mark(effect.others_unchanged ? "equal" : "fails", "their output z is bit for bit as before")),
  ];
}
