/** The blocks of W_O: what each head of a layer adds, as its share of what the layer writes. */

import { el } from "../dom.js";
import { fixed } from "../format.js";

export function writeShares(app, choose) {
  const { client } = app;
  const { layer, head } = app.state;
  const count = client.part.heads_of[layer];
  const shares = Array.from({ length: count }, (_, one) => client.value("write_share", layer, one));
  const most = Math.max(1e-9, ...shares.filter(Number.isFinite).map(Math.abs));
  const buttons = shares.map((share, one) => {
    const height = Number.isFinite(share) ? (Math.abs(share) / most) * 24 : 0;
    const bar = el("i", { class: share < 0 ? "less" : "", style: { height: `${Math.max(height, height ? 1 : 0)}px`, top: share < 0 ? "26px" : `${26 - height}px` } });
    return el(
      "button",
      { type: "button", "aria-current": one === head ? "true" : null, tabindex: one === head ? 0 : -1, data: { head: one, tip: count > 8 ? `H${one} ${fixed(share, 3)}` : null } },
      el("span", { class: "block" }, count > 16 ? String(one) : `H${one}`),
      el("span", { class: "bar-space" }, bar),
      el("span", { class: "amount" }, fixed(share, 3)),
    );
  });
  for (const button of buttons) if (!button.dataset.tip || button.dataset.tip === "null") delete button.dataset.tip;
  const node = el("div", { class: `blocks${count > 14 ? " many" : count > 8 ? " some" : ""}`, role: "group", "aria-label": `shares of the heads of layer ${layer}` }, buttons);
  node.addEventListener("click", (event) => {
    const info = event.target.closest("[data-head]");
    if (info) choose(layer, +info.dataset.head);
  });
  node.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const to = buttons[Math.max(0, Math.min(count - 1, buttons.indexOf(event.target.closest("button")) + step))];
    for (const button of buttons) button.tabIndex = button === to ? 0 : -1;
    to.focus();
  });
  return node;
}
