/** The tokens of a text: choose one, and its row lights up in every map. One tab stop, arrows inside. */

import { el } from "../dom.js";
import { shown } from "../format.js";

const MOST = 3000; // more are cut to a window around the chosen one

export function tokenList(tokens, chosen, choose) {
  const many = tokens.length > 60;
  const first = tokens.length <= MOST ? 0 : Math.max(0, Math.min(tokens.length - MOST, (chosen ?? 0) - MOST / 2));
  const buttons = tokens.slice(first, first + MOST).map((token, at) =>
    el("button", { class: "token", type: "button", "aria-pressed": String(first + at === chosen), tabindex: first + at === (chosen ?? first) ? 0 : -1, data: { token: first + at } }, shown(token)),
  );
  const list = el("div", { class: `tokens${many ? " many" : ""}`, role: "group", "aria-label": "tokens of the text" }, buttons);
  list.addEventListener("click", (event) => event.target.dataset.token && choose(+event.target.dataset.token));
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key];
    const at = buttons.indexOf(event.target);
    if (!step || at < 0) return;
    event.preventDefault();
    const to = buttons[Math.max(0, Math.min(buttons.length - 1, at + step))];
    event.target.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  });
  list.lit = (token) => {
    for (const button of buttons) if ((button.getAttribute("aria-pressed") === "true") !== (+button.dataset.token === token)) button.setAttribute("aria-pressed", String(+button.dataset.token === token));
  };
  return list;
}
