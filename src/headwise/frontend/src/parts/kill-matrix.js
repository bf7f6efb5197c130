/** The kill matrix: a row an attack, a column an invariant. A cross is a kill; framed where it is the only one. */

import { el, fill } from "../dom.js";
import { sign } from "../marks.js";

export class KillMatrix {
  /** @type {any} */ app;
  /** @type {any} */ kills;

  constructor(app, kills) {
    Object.assign(this, { app, kills });
    this.rows = kills.rows;
    this.info = el("div", { class: "note details", "aria-live": "polite" });
    this.body = this.rows.map((row, at) => this.line(row, at));
    const attacks = this.rows.filter((row) => row.named.length);
    const caught = attacks.filter((row) => !row.missed.length);
    const controls = this.rows.filter((row) => !row.named.length);
    const alone = attacks.filter((row) => Object.keys(row.caught).length === 1);
    const figure = (number, what) => el("div", {}, el("b", {}, number), el("span", {}, what));
    const head = el("tr", {}, el("td", {}), kills.invariants.map((one) => el("th", { scope: "col", data: { tip: `${one.code}  ${one.name.replaceAll("_", " ")}\n${one.statement ?? ""}` } }, el("span", { class: "turned" }, el("span", {}, one.name.replaceAll("_", " "))))), el("td", { class: "room" }));
    const foot = el("tr", {}, el("td", { class: "quiet" }, "attacks it catches"), kills.invariants.map((one) => el("td", { class: "quiet" }, String(attacks.filter((row) => one.name in row.caught).length))));
    this.table = el("table", { class: "kills", role: "grid", "aria-label": "attacks against invariants" }, el("thead", {}, head), el("tbody", {}, this.body), el("tfoot", {}, foot));
    this.table.addEventListener("keydown", (event) => this.key(event));
    this.scroller = el("div", { class: "scroll kill-scroll", tabindex: 0, role: "region", "aria-label": "kill matrix" }, this.table);
    this.node = el(
      "div",
      {},
      el("div", { class: "figures" }, figure(`${caught.length} of ${attacks.length}`, "attacks caught"), figure(`${controls.filter((row) => !row.alarms.length).length} of ${controls.length}`, "controls pass"), figure(String(alone.length), "caught by only one"), figure(String(kills.invariants.length), "invariants")),
      this.info,
      this.scroller,
      el("p", { class: "key" }, el("i", { class: "killed" }, sign("fails")), " fails: caught", el("i", { class: "killed only" }, sign("fails")), " the only one that catches it", el("i", { class: "held-dot" }), " passes", el("span", { class: "quiet" }, "blank: not tested")),
    );
    this.choose(app.state.row);
    if (app.state.row) requestAnimationFrame(() => this.see());
  }

  /** The chosen row into what is seen of the table; the page itself stays where it is. */
  see() {
    const line = this.body.find((one) => one.classList.contains("on"));
    const head = this.table.tHead.offsetHeight;
    const { scrollTop, clientHeight } = this.scroller;
    if (line.offsetTop - head < scrollTop || line.offsetTop + line.offsetHeight > scrollTop + clientHeight) this.scroller.scrollTop = Math.max(0, line.offsetTop - (clientHeight + head) / 2);
  }

  line(row, at) {
    const name = el("button", { class: "plain", type: "button", tabindex: at === 0 ? 0 : -1, on: { click: () => this.app.go({ row: key(row) }, { quietly: true }) } }, title(row));
    const only = Object.keys(row.caught).length === 1;
    const cells = this.kills.invariants.map(({ name: invariant }) => {
      const caught = invariant in row.caught;
      const missed = row.missed.includes(invariant);
      const words = caught ? "caught" : missed ? "missed" : row.asked.includes(invariant) ? "passes" : "";
      const shape = caught ? el("i", { class: `killed${only ? " only" : ""}` }, sign("fails")) : missed ? el("i", { class: "missed" }, "!") : row.asked.includes(invariant) ? el("i", { class: "held-dot" }) : null;
      return el("td", { data: words ? { tip: `${title(row)} · ${invariant.replaceAll("_", " ")}: ${words}${caught ? `\n${row.caught[invariant]}` : ""}` } : {} }, shape);
    });
    return el("tr", { class: row.named.length ? "" : "control", data: { row: key(row) } }, el("th", { scope: "row" }, name), cells);
  }

  choose(info) {
    const row = this.rows.find((one) => key(one) === info) ?? this.rows.find((one) => one.attack === "tie_heads") ?? this.rows[0];
    for (const line of this.body) {
      const is = line.dataset.row === key(row);
      line.classList.toggle("on", is);
      line.querySelector("button").tabIndex = is ? 0 : -1;
    }
    const caught = Object.entries(row.caught);
    fill(
      this.info,
      el("b", {}, title(row)),
      el("span", {}, ` “${row.lie}”`),
      el("p", {}, caught.length ? "Caught by " : row.named.length ? "Caught by no invariant." : "Not a bug: no invariant fails on it.", caught.flatMap(([name, saw], at) => [at ? ", " : "", el("em", { data: { tip: saw } }, name.replaceAll("_", " "))]), caught.length ? "." : ""),
      caught[0]?.[1] ? el("p", { class: "quiet" }, `First seen: ${caught[0][1]}`) : null,
    );
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const line = event.target.closest("tr");
    const at = this.body.indexOf(line);
    if (!step || at < 0) return;
    event.preventDefault();
    const to = this.body[Math.max(0, Math.min(this.body.length - 1, at + step))];
    this.app.go({ row: to.dataset.row }, { quietly: true });
    to.querySelector("button").focus();
  }
}

const key = (row) => (row.told ? `${row.attack}: ${row.told}` : row.attack);
const title = (row) => key(row).replaceAll("_", " ");
