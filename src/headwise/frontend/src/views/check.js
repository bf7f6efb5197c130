/** Check: is this attention right? Blue reports on a subject, red shows every attack against every invariant. */

import { el, fill } from "../dom.js";
import { counted, fixed, grouped } from "../format.js";
import { sign } from "../marks.js";
import { CANNOT_WRITE } from "../parts/edits.js";
import { failureNote, progress, waiting } from "../parts/notes.js";
import { KillMatrix } from "../parts/kill-matrix.js";

export function check(app) {
  const view = new CheckView(app);
  return { node: view.node, shown: () => view.load(), moved: (state, before) => view.moved(state, before), changed: (what) => view.changed(what) };
}

class CheckView {
  constructor(app) {
    this.app = app;
    this.left = el("div");
    this.right = el("div", {}, waiting("Loading the kill matrix…"));
    this.node = el(
      "div",
      { class: "check-columns" },
      el("section", { "aria-label": "blue team" }, el("h1", { class: "visually-hidden" }, "Check"), el("div", { class: "team" }, "Blue team ", el("span", {}, "is this attention right?")), this.left),
      el("section", { "aria-label": "red team" }, el("div", { class: "team attacks" }, "Red team ", el("span", {}, "every attack against every invariant")), this.right),
    );
  }

  async load() {
    const { client } = this.app;
    this.report();
    try {
      client.subjects ??= (await client.ask("GET", "/api/check")).subjects;
    } catch (failure) {
      this.failure = failure;
    }
    this.report();
    try {
      client.kills ??= await client.ask("GET", "/api/kill-matrix");
      this.matrix = new KillMatrix(this.app, client.kills);
      fill(this.right, this.matrix.node);
    } catch (failure) {
      fill(this.right, failureNote(failure));
    }
  }

  report() {
    const { client, state } = this.app;
    if (this.failure) return void fill(this.left, failureNote(this.failure));
    if (!client.subjects) return void fill(this.left, waiting("Loading the list of implementations…"));
    const installed = client.subjects.filter((one) => one.installed);
    const missing = client.subjects.filter((one) => !one.installed);
    const chosen = installed.find((one) => one.name === state.subject) ?? installed.find((one) => one.name.startsWith("headwise")) ?? installed[0];
    const select = el("select", { class: "field wide", "aria-label": "subject", on: { change: (event) => this.app.go({ subject: event.target.value }) } }, installed.map((one) => el("option", { value: one.name, selected: one === chosen }, one.name)));
    const job = this.job(chosen?.name);
    const start = el("button", { class: "button primary", type: "button", disabled: !client.mayWrite || job?.state === "running", on: { click: () => this.start(chosen.name) } }, "Check it");
    const report = client.reports?.get(chosen?.name);
    fill(
      this.left,
      el("div", { class: "bar" }, select, start),
      chosen?.statement ? el("p", { class: "sub" }, chosen.statement) : null,
      client.mayWrite ? null : el("p", { class: "note" }, CANNOT_WRITE),
      job?.state === "running" ? progress(job, () => client.cancel(job)) : null,
      job?.error ? failureNote(job.error, "The check failed.") : null,
      this.refusal ? failureNote(this.refusal) : null,
      report ? reportOf(report) : job?.state === "running" ? null : el("p", { class: "sub empty" }, `Nothing has been checked yet. In a terminal: `, el("code", {}, `headwise check ${chosen?.name ?? "SUBJECT"}`)),
      missing.length ? el("p", { class: "sub after" }, `Not installed here: ${missing.map((one) => one.name).join(", ")}.`) : null,
    );
  }

  job(subject) {
    return [...this.app.client.jobs.values()].reverse().find((one) => one.kind === "check" && one.subject === subject);
  }

  async start(subject) {
    const { client } = this.app;
    this.refusal = null;
    client.reports ??= new Map();
    try {
      const job = await client.startJob("check", { subject, level: "quick" }, (result) => (client.reports.set(subject, result), client.notify("report")));
      job.subject = subject;
    } catch (failure) {
      this.refusal = failure;
    }
    this.report();
  }

  moved(state, before) {
    if (state.subject !== before.subject) this.report();
    if (state.row !== before.row) this.matrix?.choose(state.row);
  }

  changed(what) {
    if (what === "job" || what === "report" || what === "models") this.report();
  }
}

/** What a check found: the counts, each failure with its smallest input, what holds. */
export function reportOf(report) {
  const { failures, held } = report;
  const laws = Object.entries(held);
  const problems = laws.reduce((sum, [, count]) => sum + count, 0);
  const figure = (number, what, falls = "") => el("div", { class: falls }, el("b", {}, number), el("span", {}, what));
  return el(
    "div",
    { class: "report" },
    el("div", { class: "subject" }, el("code", {}, report.subject), el("span", { class: `chip ${report.passed ? "holds" : "falls"}` }, sign(report.passed ? "equal" : "fails"), report.passed ? "passed" : `${failures.length} of ${failures.length + laws.length} fail`)),
    el("div", { class: "figures" }, figure(String(laws.length), "passed"), figure(String(failures.length), "failed", failures.length ? "falls" : ""), figure(grouped(problems), "problems passed"), figure(`${fixed(report.seconds, 1)} s`, "against float64")),
    failures.map(failureCard),
    laws.length ? el("h2", {}, "Passed") : null,
    el("ul", { class: "held" }, laws.map(([law, count]) => el("li", {}, sign("equal"), el("span", {}, law.replaceAll("_", " ")), el("span", { class: "count" }, counted(count, "problem"))))),
    notTested(report.not_tested),
    el("p", { class: "sub after" }, "Run it again: ", el("code", {}, `headwise check ${report.subject}${report.level === "full" ? " --level full" : ""}`)),
  );
}

function notTested(list) {
  const entries = Object.entries(list ?? {});
  if (!entries.length) return null;
  return el("details", { class: "sub" }, el("summary", {}, `${counted(entries.length, "thing")} not tested`), el("ul", {}, entries.map(([what, why]) => el("li", {}, el("b", {}, what), `: ${why}`))));
}

/** Shape, input, got, right, why, and the attack that it looks like. */
function failureCard(failure) {
  const like = failure.looks_like;
  return el(
    "article",
    { class: "failure" },
    el("div", { class: "failure-head" }, el("span", {}, el("b", { class: "mono" }, failure.law.replaceAll("_", " ")), " ", el("span", { class: "sub" }, [failure.code, failure.severity === "fragile" ? "fragile" : ""].filter(Boolean).join(" · "))), like ? el("span", { class: "sub" }, "likely bug: ", el("span", { class: "chip" }, like.attack.replaceAll("_", " "))) : null),
    el("p", {}, failure.why),
    el(
      "div",
      { class: "evidence" },
      el("div", { class: "grow" }, el("span", { class: "sub" }, "smallest failing input"), called(failure)),
      values("got", failure.got, failure.right, "wrong"),
      values("right", failure.right, failure.got, "right"),
    ),
    like?.threads?.length ? el("p", { class: "sub" }, "The same bug in other projects: ", like.threads.join(", ")) : null,
    failure.test ? el("details", { class: "sub" }, el("summary", {}, "as a test"), el("pre", { class: "mono", tabindex: 0 }, failure.test)) : null,
  );
}

/** The call: sizes and options, how it was made, each tensor; and why there is no smaller one. */
function called({ call, smallest, problem }) {
  if (!call) return el("div", { class: "mono problem" }, problem);
  const { input, called: how, ...tensors } = call;
  const line = (name, words) => el("div", {}, el("span", { class: "quiet" }, `${name} `), words.replaceAll(/(?<![\w.])-(?=\d)/g, "−"));
  return [el("div", { class: "mono problem" }, el("div", {}, input.replaceAll(/(?<![\w.])-(?=\d)/g, "−")), how ? el("div", {}, how) : null, Object.entries(tensors).map(([name, words]) => line(name, words))), smallest ? el("div", { class: "sub" }, smallest) : null];
}

const MOST = 24;

/** Some numbers, those that differ marked by more than colour. */
function values(title, info, other, kind) {
  if (info === null || info === undefined) return null;
  const [mine, theirs] = [info, other].map((list) => [list].flat(Infinity));
  const shown = mine.slice(0, MOST).map((one, at) => el("b", { class: String(one) === String(theirs[at]) || (typeof one === "number" && typeof theirs[at] === "number" && Math.abs(one - theirs[at]) < 1e-9) ? "" : kind }, typeof one === "number" ? String(+one.toPrecision(4)).replace("-", "−") : String(one)));
  return el("div", {}, el("span", { class: "sub" }, title), el("div", { class: "values" }, shown, mine.length > MOST ? el("b", {}, "…") : null));
}
