/** Claims: what people say of heads, what speaks for and against it. Cited until it is measured here, and marked so. */

import { el, fill, svg } from "../dom.js";
import { segmented } from "../parts/note.js";
import { mark } from "../marks.js";
import { plot } from "../parts/plot.js";
import { CLAIMS } from "../claims.js";

const VERDICTS = {
  cut: ["Cut", "m2.5 2.5 7 7M9.5 2.5l-7 7"],
  corrected: ["Kept, corrected", "M2 10l.6-2.6L8.2 1.8 10.2 3.8 4.6 9.4z"],
  kept: ["Kept", "M1.5 6.5 4.5 9.5 10.5 2.5"],
};

export function claims(app) {
  const node = el("div", { class: "centre claims-page" });
  const draw = () => {
    const { verdict } = app.state;
    const chosen = CLAIMS.filter((one) => !(verdict in VERDICTS) || one.verdict === verdict);
    const count = (kind) => CLAIMS.filter((one) => one.verdict === kind).length;
    const choices = [["all", `all ${CLAIMS.length}`], ...Object.entries(VERDICTS).map(([kind, [title]]) => [kind, `${title.toLowerCase()} ${count(kind)}`])];
    const head = el("div", { class: "view-head" }, el("h1", { class: "title" }, "Claims about heads"), el("span", { class: "sub" }, "what is said, and what the literature found; cited, not measured here"), el("span", { class: "grow" }), segmented("verdict", choices, verdict in VERDICTS ? verdict : "all", (one) => app.go({ verdict: one }, { quietly: true })));
    fill(node, head, el("div", { class: "cards" }, chosen.map((one) => card(app, one))));
  };
  draw();
  return { node, moved: (state, before) => state.verdict !== before.verdict && draw(), changed: (what) => what === "theme" && draw() };
}

function card(app, claim) {
  const [title, path] = VERDICTS[claim.verdict];
  const icon = svg("svg", { width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("path", { d: path }));
  const source = claim.address ? el("a", { href: claim.address, rel: "noreferrer", target: "_blank" }, claim.source) : claim.source;
  return el(
    "article",
    { class: `card ${claim.verdict}` },
    el("p", { class: "verdict" }, icon, title),
    el("h2", {}, el("q", {}, claim.says)),
    el("p", { class: "found" }, claim.correction ? [el("ins", {}, claim.correction), " "] : null, claim.found),
    claim.figure ? el("figure", {}, plot(claim.figure)) : null,
    claim.live ? el("p", {}, el("button", { class: "button small", type: "button", on: { click: () => app.go(claim.live.go) } }, claim.live.title)) : null,
    el("p", { class: "source" }, el("span", {}, source), el("span", { class: "number" }, claim.proved ? "proved in Five moves" : "cited", mark(claim.proved ? "bound" : "cited", claim.proved ?? claim.source))),
  );
}
